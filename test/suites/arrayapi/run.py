# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE TESTS --floor N [--examples N] [PATTERN...]: array-api-tests on anfora.numpy. PACKAGE is the folder that has the
package anfora, TESTS the folder of array-api-tests. Each case draws a few arrays; they are interpreted, which needs no code for each
shape, unless --compiled is given. skips.txt names the cases that are left out, and why."""
import argparse
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


class Count:
    """Counts cases by how they ended."""

    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], 0

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.skipped += 1
        elif report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call":
            self.passed += 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("tests")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--examples", type=int, default=1)
    p.add_argument("--compiled", action="store_true")
    p.add_argument("patterns", nargs="*", default=["array_api_tests"])
    args = p.parse_intermixed_args()
    package = os.path.abspath(args.package)
    os.environ |= {"ARRAY_API_TESTS_MODULE": "anfora.numpy", "ARRAY_API_TESTS_VERSION": "2025.12"}
    os.chdir(args.tests)
    sys.path[:0] = [package, os.getcwd()]
    if not args.compiled:
        import anfora._ops
        anfora._ops.FEW = 10 ** 6
    count = Count()
    pytest.main(["-q", "--disable-deadline", "--derandomize", "--tb=line", "-p", "no:cacheprovider", "-p", "no:randomly",
                 "--max-examples", str(args.examples), "--skips-file", os.path.join(HERE, "skips.txt"), *args.patterns], plugins=[count])
    for name in count.failed:
        print("failed:", name)
    print(f"{count.passed} passed, {len(count.failed)} failed, {count.skipped} left out; the floor is {args.floor}")
    sys.exit(count.passed < args.floor)


if __name__ == "__main__":
    main()
