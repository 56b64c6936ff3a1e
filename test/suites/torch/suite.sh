#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: OpInfo's operations, two samples each, then second derivatives of one sample each; fails below a floor.
set -euo pipefail
here=$(dirname "$0")
"$1" "$here/opinfo.py" "$2/python" --samples 2 --floor "$(cat "$here/floor.txt")" --table "$2/opinfo.tsv"
exec "$1" "$here/opinfo.py" "$2/python" --samples 1 --second --floor "$(cat "$here/second.txt")" --table "$2/opinfo_second.tsv"
