#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: a third of JAX's own tests of jax.numpy, jax.lax and derivatives with Anfora's functions; fails below the floor.
# JAX_TESTS is a folder that has them; else they are fetched once.
set -euo pipefail
here=$(dirname "$0") commit=990e6a0b84138346e6a38785412f36356e0e5dc3 repository=build/suites/jax/repository
tests=${JAX_TESTS:-$repository/tests}
if [ ! -e "$tests/lax_numpy_test.py" ]; then
  git init -q $repository
  git -C $repository remote add origin https://github.com/jax-ml/jax
  git -C $repository fetch -q --depth 1 --filter=blob:none origin $commit
  git -C $repository sparse-checkout set --no-cone '/tests/lax_*.py'
  git -C $repository checkout -q FETCH_HEAD
fi
exec "$1" "$here/run.py" "$2/python" "$tests" --cases 1 --every 3 --floor "$(cat "$here/floor.txt")"
