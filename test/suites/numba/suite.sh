#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: numba's own tests with its compiler exchanged; fails below the floor, and for a value that is not Python's.
set -euo pipefail
here=$(dirname "$0")
exec "$1" "$here/run.py" "$2/python" --floor "$(cat "$here/floor.txt")"
