#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: the optimizer's rules of integers and bools, proved.
exec "$1" "$(dirname "$0")/run.py" optimizer/rules 95
