#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: tinygrad's comparisons of operations with torch's, with a Tensor of anfora.numpy; fails below the floor.
# TINYGRAD_TESTS is a folder that has test_ops.py; else it is fetched once.
set -euo pipefail
here=$(dirname "$0") commit=a9069c177a9da9cca18593edf55acd2e6073cca6 repository=build/suites/tinygrad/repository
tests=${TINYGRAD_TESTS:-$repository/test/backend}
if [ ! -e "$tests/test_ops.py" ]; then
  git init -q $repository
  git -C $repository remote add origin https://github.com/tinygrad/tinygrad
  git -C $repository fetch -q --depth 1 --filter=blob:none origin $commit
  git -C $repository sparse-checkout set --no-cone /test/backend/test_ops.py
  git -C $repository checkout -q FETCH_HEAD
fi
exec "$1" "$here/run.py" "$2/python" "$tests/test_ops.py" --floor "$(cat "$here/floor.txt")"
