#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the evals of GradBench on generated inputs, compared with NumPy; fails below the floor.
set -euo pipefail
here=$(dirname "$0") bin=$PWD/build/suites/gradbench/bin
make -s -C tools/gradbench BUILD="$PWD/$2" BIN="$bin"
exec "$1" tools/gradbench/check.py "$bin" --floor "$(cat "$here/floor.txt")"
