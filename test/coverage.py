#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which branches the tests take: coverage.py BUILD [FOLDER...], after the tests of a build with -Db_coverage=true.

gcov says of each object what ran. A line of a header stands in many objects; its counts are added. Prints a table by
folder, and writes BUILD/branches.txt: of each file the lines with a branch that no test took, as `file:line: source`."""
import collections
import json
import os
import subprocess
import sys


def objects(build):
    for folder, _, files in os.walk(build):
        for f in files:
            if f.endswith(".gcda"):
                yield os.path.join(folder, f)


def read(build, root):
    """{file: {line: [count of each branch]}} and {file: {line: count}} of the project's own files."""
    branches = collections.defaultdict(dict)
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    for o in objects(build):
        out = subprocess.run(["gcov", "--branch-probabilities", "--json-format", "--stdout", os.path.abspath(o)],
                             cwd=build, capture_output=True, check=False).stdout
        for text in out.splitlines():
            add(json.loads(text), build, root, branches, lines)
    return branches, lines


def add(report, build, root, branches, lines):
    for f in report["files"]:
        path = os.path.relpath(os.path.normpath(os.path.join(build, f["file"])), root)
        if path.startswith(("..", "build", "test", "bench", "fuzz")):
            continue
        for line in f["lines"]:
            n = line["line_number"]
            lines[path][n] += line["count"]
            counts = [b["count"] for b in line["branches"] if not b["throw"]]
            have = branches[path].get(n, [])
            if len(have) < len(counts):
                have += [0] * (len(counts) - len(have))
            for i, c in enumerate(counts):
                have[i] += c
            branches[path][n] = have


def folder_of(path):
    return os.path.dirname(path) or "."


def table(branches, lines, wanted):
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for path in branches:
        s = sums[folder_of(path)]
        for n, counts in branches[path].items():
            s[0] += sum(c > 0 for c in counts)
            s[1] += len(counts)
            s[2] += lines[path][n] > 0
            s[3] += 1
    whole = [sum(column) for column in zip(*(sums[f] for f in sums))] if sums else [0] * 4
    print("| folder | branches taken | of | lines run | of |\n|---|---|---|---|---|")
    for name in sorted(sums) + ["all"]:
        if name != "all" and wanted and not name.startswith(tuple(wanted)):
            continue
        taken, of, run, all_lines = whole if name == "all" else sums[name]
        print(f"| `{name}` | {100 * taken / max(of, 1):.1f} % | {of:,} | {100 * run / max(all_lines, 1):.1f} % | {all_lines:,} |")


def write_missing(branches, root, to):
    with open(to, "w", encoding="utf-8") as out:
        for path in sorted(branches):
            source = open(os.path.join(root, path), encoding="utf-8").read().splitlines()
            for n in sorted(branches[path]):
                missing = sum(c == 0 for c in branches[path][n])
                if missing and n <= len(source):
                    out.write(f"{path}:{n}: {missing} of {len(branches[path][n])}: {source[n - 1].strip()}\n")


def main():
    build, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    branches, lines = read(build, root)
    table(branches, lines, wanted)
    write_missing(branches, root, os.path.join(build, "branches.txt"))
    sys.exit(not branches)


main()
