#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the NumPy kernels of NPBench under anfora.jit, and their derivatives; fails below the floor.
# NPBENCH is a folder that has the repository; else it is fetched once.
set -euo pipefail
here=$(dirname "$0") commit=f2d7f27 repository=build/suites/npbench/repository
data=${NPBENCH:-$repository}
if [ ! -d "$data" ]; then
  git clone -q --filter=blob:none https://github.com/spcl/npbench "$repository"
  git -C "$repository" checkout -q $commit
fi
exec "$1" "$here/run.py" "$2/python" "$data" --floor "$here/floor.json"
