#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the cases in meson's testlog.json and shows what failed: count.py testlog.json

Prints "PASSED FAILED" to standard output; failures and skipped cases go to standard error. A test
that speaks TAP counts one for each of its cases, another test counts one. A test that ended badly
(a crash, a wrong plan, a time limit) counts a failure though all cases it got to had passed."""
import json
import re
import sys

CASE = re.compile(r"^(ok|not ok)\b[^#\n]*(?:#\s*(skip|todo)\b)?", re.I | re.M)


def count(test):
    """Passed and failed cases of one test of the log, and whether any was skipped."""
    passed = failed = skipped = 0
    for verdict, directive in CASE.findall(test.get("stdout") or ""):
        if directive.lower() == "skip":
            skipped += 1
        elif verdict.lower() == "ok":
            passed += 1
        else:
            failed += 1
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP":
        skipped += skipped == 0
    elif good and not passed and not skipped:
        passed = 1
    elif not good and not failed:
        failed = 1
    return passed, failed, skipped


def show(test):
    print(f"--- {test['name']}: {test['result']}", file=sys.stderr)
    out = [line for line in (test.get("stdout") or "").split("\n") if not line.startswith("ok ")]
    for line in out[-80:] + (test.get("stderr") or "").split("\n")[-40:]:
        if line.strip():
            print("    " + line, file=sys.stderr)


def main():
    passed = failed = tests = 0
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            for line in log:
                test = json.loads(line)
                tests += 1
                p, f, s = count(test)
                passed, failed = passed + p, failed + f
                if f:
                    show(test)
                if s:
                    print(f"--- {test['name']}: {s} skipped", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"--- no readable test log: {error}", file=sys.stderr)
        tests = 0
    if not tests:
        failed += 1
    print(passed, failed)


if __name__ == "__main__":
    main()
