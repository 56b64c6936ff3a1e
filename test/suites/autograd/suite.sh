#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the tests of HIPS autograd with its namespace exchanged; fails below the floor.
# AUTOGRAD is a folder that has the repository; else it is fetched once.
set -euo pipefail
here=$(dirname "$0") commit=bff107b8d71a444a1160deade3e1cbd0b92f4fa6 repository=build/suites/autograd/repository
data=${AUTOGRAD:-$repository}
if [ ! -d "$data" ]; then
  git init -q "$repository"
  git -C "$repository" fetch -q --depth 1 https://github.com/HIPS/autograd $commit
  git -C "$repository" checkout -q FETCH_HEAD
fi
exec "$1" "$here/run.py" "$2/python" "$data" --floor "$(cat "$here/floor.txt")"
