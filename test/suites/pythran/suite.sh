#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: pythran's own tests with its compiler exchanged; fails below the floor, and for a value that is not Python's.
# PYTHRAN_TESTS is the folder of the tests; else they are fetched once.
set -euo pipefail
here=$(dirname "$0") commit=204a3e4435cff8b815e922d69ecf91d95336e735 repository=build/suites/pythran/repository
export PYTHRAN_TESTS=${PYTHRAN_TESTS:-$repository/pythran/tests}
if [ ! -d "$PYTHRAN_TESTS" ]; then
  git init -q $repository
  git -C $repository remote add origin https://github.com/serge-sans-paille/pythran
  git -C $repository fetch -q --depth 1 --filter=blob:none origin $commit
  git -C $repository sparse-checkout set --no-cone /pythran/tests
  git -C $repository checkout -q FETCH_HEAD
fi
exec "$1" "$here/run.py" "$2/python" --floor "$(cat "$here/floor.txt")"
