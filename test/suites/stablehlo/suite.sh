#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# suite.sh PYTHON BUILD: StableHLO's testdata, files that check themselves, run by the command; fails below the floor.
# STABLEHLO_TESTDATA is a folder that has them; else they are fetched once.
set -euo pipefail
here=$(dirname "$0") commit=3c9301c116f97fbaf696959a0ede32712aec587b repository=build/suites/stablehlo/repository
data=${STABLEHLO_TESTDATA:-$repository/stablehlo/testdata}
if [ ! -d "$data" ]; then
  git init -q $repository
  git -C $repository fetch -q --depth 1 --filter=blob:none https://github.com/openxla/stablehlo $commit
  git -C $repository sparse-checkout set stablehlo/testdata
  git -C $repository checkout -q FETCH_HEAD
fi
exec "$1" "$here/run.py" "$2/cli/anfora" "$data" --floor "$here/floor.json"
