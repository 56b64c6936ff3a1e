#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: MindSpore exports the cases once; the command runs them. Fails below the floor.
set -euo pipefail
here=$(dirname "$0") cases=build/suites/mindspore/cases
[ -e $cases/refused.json ] || "$1" "$here/make.py" $cases
exec "$1" "$here/run.py" "$2/cli/anfora" $cases --floor "$here/floor.json"
