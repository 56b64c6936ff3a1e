#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py PYTHON AUTOGRAD [--filter WORD] [--floor N]: the tests of HIPS autograd with its namespace exchanged (namespace/autograd.py): functions
of NumPy compiled and differentiated. A line for each that does not pass; with --floor status 1 if fewer pass. Tests of what is
autograd's own (its vector spaces, tracer, graphs and time) are left out."""
import argparse
import os
import sys

import pytest

OWN = {"test_vspaces.py", "test_core.py", "test_performance.py", "test_tests.py", "_test_complexity.py"}


class Counting:
    def __init__(self):
        self.passed, self.others, self.wrong = 0, [], []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.passed += 1
        elif report.failed:
            why = str(getattr(report.longrepr, "reprcrash", None) and report.longrepr.reprcrash.message or report.longrepr)
            self.others.append(report.nodeid)
            print(f"\n{report.nodeid.split('/')[-1]:60} {' '.join(why.split())[:190]}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("python")
    p.add_argument("root")
    p.add_argument("--filter", default="")
    p.add_argument("--floor", type=int, default=0)
    o = p.parse_args()
    tests = os.path.join(o.root, "tests")
    sys.path[:0] = [os.path.abspath(o.python), os.path.join(os.path.dirname(os.path.abspath(__file__)), "namespace"), tests]
    files = sorted(f for f in os.listdir(tests) if f.startswith("test_") and f.endswith(".py") and f not in OWN)
    counting = Counting()
    pytest.main(["-p", "no:cacheprovider", "--continue-on-collection-errors", "-q", "--tb=no", "-c", os.devnull, "--rootdir", tests, "--noconftest", "-k", o.filter,
                 *(os.path.join(tests, f) for f in files)], plugins=[counting])
    print(f"{counting.passed} pass, {len(counting.others)} do not")
    sys.exit(not o.filter and counting.passed < o.floor)


main()
