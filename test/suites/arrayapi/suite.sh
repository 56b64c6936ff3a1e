#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the tests of the Array API standard on anfora.numpy; fails below the floor.
# ARRAY_API_TESTS is a folder that has them; else they are fetched once.
set -euo pipefail
here=$(dirname "$0") commit=55fcc60179efa2680ddd6cd926ddf17b83530e2b repository=build/suites/arrayapi/repository
tests=${ARRAY_API_TESTS:-$repository}
if [ ! -e "$tests/conftest.py" ]; then
  git init -q $repository
  git -C $repository fetch -q --depth 1 https://github.com/data-apis/array-api-tests $commit
  git -C $repository checkout -q FETCH_HEAD
  git -C $repository submodule -q update --init --depth 1
fi
exec "$1" "$here/run.py" "$2/python" "$tests" --floor "$(cat "$here/floor.txt")"
