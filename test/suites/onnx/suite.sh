#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: programs that are written as .onnx in ONNX Runtime; the node suite, written to files once, run by the
# command; fails below the floor.
set -euo pipefail
here=$(dirname "$0") cases=build/suites/onnx/cases
[ -e $cases/done ] || "$1" "$here/make.py" $cases
"$1" "$here/written.py" "$2/cli/anfora"
exec "$1" "$here/run.py" "$2/cli/anfora" $cases --floor "$here/floor.json"
