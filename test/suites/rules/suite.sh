#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the optimizer's elementwise rules, proved.
exec "$1" "$(dirname "$0")/run.py" optimizer/rules 116
