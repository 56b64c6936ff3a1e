#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Examples give what they promise: each `# try: anfora ...` line of examples/*.anf prints the `# gives:`
lines after it. examples.py ANFORA [WORD...]: run by these words, such as valgrind and its options"""
import glob
import os
import shlex
import sys

from tap import ROOT, Tap, read, run


def main():
    anfora = [*sys.argv[2:], os.path.abspath(sys.argv[1])]
    tap = Tap()
    for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*.anf"))):
        name, tries = os.path.relpath(path, ROOT), []
        for line in read(path).splitlines():
            if line.startswith("# try: anfora "):
                tries.append((line[len("# try: anfora "):], []))
            elif line.startswith("# gives: "):
                tries[-1][1].append(line[len("# gives: "):])
        if not tries:
            tap.case(name, "it has no `# try:` line")
        for words, expected in tries:
            out, problem = run([*anfora, *shlex.split(words)], cwd=ROOT, seconds=1200 if len(anfora) > 1 else 120)
            if not problem and out.splitlines() != expected:
                problem = "expected:\n" + "\n".join(expected) + "\ngot:\n" + out
            tap.case(f"{name}: {words}", problem)
    tap.done()


if __name__ == "__main__":
    main()
