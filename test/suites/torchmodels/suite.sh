#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: models of torchvision, timm and transformers beside eager PyTorch; fails below the floor.
set -euo pipefail
here=$(dirname "$0")
exec "$1" "$here/run.py" "$2/python" --kinds inference,training --types f64 --floor "$(cat "$here/floor.txt")"
