#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: networks of torchvision, torch.nn, timm and transformers, and single operators, exported once by torch.onnx
# and pnnx; the command runs each file. Fails below the floor.
set -euo pipefail
here=$(dirname "$0") cases=build/suites/models/cases
"$1" "$here/make.py" $cases
exec "$1" "$here/run.py" "$2/cli/anfora" $cases --floor "$here/floor.json"
