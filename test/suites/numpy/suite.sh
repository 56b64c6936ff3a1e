#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: NumPy's own tests, which its wheel has, on the functions of anfora.numpy; fails below the floor.
set -euo pipefail
here=$(dirname "$0")
exec "$1" "$here/run.py" "$2/python" --floor "$(cat "$here/floor.txt")"
