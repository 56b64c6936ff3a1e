#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each pass saves: writes the table of docs/benchmarks.md, and lists the passes that no benchmark program needs.
passes.py BUILD [WORD..]
Each program of docs/passes.md is compiled with all passes and without one, in turn, on one thread; `test_passes` also checks that
the results are the same. WORDs go before each command that measures."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCHES = ["bench/quant.anf", "bench/rows/rows.anf", "bench/step/cnn.anf", "bench/step/gpt.anf", "bench/step/mlp.anf", "bench/step/rnn.anf"]
TITLE = "## With and without a pass"
NOTED = 0.04  # smaller differences are not in the table


def run(words):
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def fires(anfora, file):
    """The passes that change a function of the file, for those that can be compiled as they are."""
    with open(os.path.join(ROOT, file), encoding="utf-8") as f:
        names = re.findall(r"^def (\w+)\([^)]*:", f.read(), re.M)
    found = {}
    for name in names:
        r = run([anfora, "build", f"{file}:{name}", "--threads", "2", "--explain", "--emit", "asm", "-o", "/dev/shm/passes_out"])
        for words in re.findall(r"^passes of \w+: (.*)$", r.stderr, re.M) if r.returncode == 0 else ():
            for word in words.split(", "):
                found.setdefault(word.split()[0], f"{os.path.basename(file)}:{name}")
    return found


def programs():
    with open(os.path.join(ROOT, "test/exec/test_passes.c"), encoding="utf-8") as f:
        listed = re.search(r"programs\[\] = \{(.*?)\}", f.read(), re.S).group(1)
    with open(os.path.join(ROOT, "examples/passes.tir"), encoding="utf-8") as f:
        loops = re.findall(r"^func (\w+)\(.*\{$", f.read(), re.M)
    return re.findall(r'"(\w+)"', listed) + loops


def measured(build, before, name):
    """Rows (program, pass, us with it, us without) of one program."""
    r = run([*before, os.path.join(build, "test/exec/test_passes"), "examples/passes.anf", "examples/passes.tir", "--time", name])
    if r.returncode:
        sys.exit(f"{name}: {r.stdout}{r.stderr}")
    return [(p, q, float(a), float(b)) for p, q, a, b in re.findall(r"^# (\w+) +(\w+) +([\d.]+) us, without +([\d.]+)$", r.stdout, re.M)]


def table(rows, used):
    """For each pass the program where it saves most; those that save less than NOTED in a line."""
    best = {}
    for name, which, with_it, without in rows:
        if which not in best or without / with_it > best[which][2] / best[which][1]:
            best[which] = (name, with_it, without)
    lines = ["| pass | program | without, µs | with, µs | times | a benchmark program that it changes |", "|---|---|---|---|---|---|"]
    even = []
    for which, (name, with_it, without) in sorted(best.items(), key=lambda kv: -kv[1][2] / kv[1][1]):
        if abs(without / with_it - 1) < NOTED:
            even.append(f"`{which}`")
        else:
            lines.append(f"| `{which}` | `{name}` | {without:.4g} | {with_it:.4g} | {without / with_it:.2f} | {used.get(which, '')} |")
    return "\n".join(lines) + f"\n\nWithin {NOTED:.0%} with and without: {', '.join(sorted(even))}.\n"


def main():
    build, before = os.path.abspath(sys.argv[1]), sys.argv[2:]
    used = {}
    for file in BENCHES:
        for which, where in fires(os.path.join(build, "cli/anfora"), file).items():
            used.setdefault(which, where)
    rows = [row for name in programs() for row in measured(build, before, name)]
    page = os.path.join(ROOT, "docs/benchmarks.md")
    with open(page, encoding="utf-8") as f:
        text = f.read()
    start = text.index("\n| ", text.index(TITLE)) + 1
    end = text.index("\n\n", text.index("Within", start)) + 2
    with open(page, "w", encoding="utf-8") as f:
        f.write(text[:start] + table(rows, used) + "\n" + text[end:])
    never = sorted({which for _, which, *_ in rows} - set(used))
    print("of no benchmark program:", " ".join(never))


if __name__ == "__main__":
    main()
