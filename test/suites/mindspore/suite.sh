#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: MindSpore exports the cases, once until they change; the command runs them, and what it writes runs
# in MindSpore. Fails below the floor.
set -euo pipefail
here=$(dirname "$0") cases=build/suites/mindspore/cases
newer() { [ ! -e $cases/refused.json ] || [ -n "$(find "$here" -name '*.py' -newer $cases/refused.json)" ]; }
! newer || { rm -rf $cases && "$1" "$here/make.py" $cases; }
"$1" "$here/run.py" "$2/cli/anfora" $cases --floor "$here/floor.json"
ANFORA_MINDSPORE=$1 exec "$1" "$here/../../mindir/test_mindspore.py" "$2/cli/anfora"
