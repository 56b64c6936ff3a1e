#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the node suite, written to files once, run by the command; fails below the floor.
set -euo pipefail
here=$(dirname "$0") cases=build/suites/onnx/cases
[ -e $cases/done ] || "$1" "$here/make.py" $cases
exec "$1" "$here/run.py" "$2/cli/anfora" $cases --floor "$here/floor.json"
