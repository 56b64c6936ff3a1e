#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: OpInfo's operations, two samples each; fails below the floor.
set -euo pipefail
here=$(dirname "$0")
exec "$1" "$here/opinfo.py" "$2/python" --samples 2 --floor "$(cat "$here/floor.txt")" --table "$2/opinfo.tsv"
