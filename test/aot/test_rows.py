#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects for a batch of any size, whose rows are computed apart: a C program compares them with their rows alone;
functions whose rows need one another are refused:
test_rows.py ANFORA RUNTIME -- CC FLAGS..."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import ROOT, Tap, read, run  # noqa: E402

HERE = os.path.join(ROOT, "test", "aot")
PROGRAM = os.path.join(HERE, "rows.anf")
ANFORA, RUNTIME = (os.path.abspath(p) for p in sys.argv[1:3])
CC = sys.argv[4:]
TAP = Tap()
APART = ["net", "image", "words", "turned", "heads", "slopes"]


def build(folder, name, sizes, *words):
    return run([ANFORA, "build", f"{PROGRAM}:{name}", "--sizes", sizes, *words], cwd=folder)


def test_use(folder, title, *words):
    problem = ""
    for name in APART:
        problem = problem or build(folder, name, "B=any", "-o", name, *words)[1]
        problem = problem or build(folder, name, "B=1", "-o", "one_" + name, "--name", "one_" + name, *words)[1]
    objects = [p + n + ".o" for n in APART for p in ("", "one_")]
    problem = problem or run([*CC, "-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), "-I", folder,
                              "-o", "rows", os.path.join(HERE, "rows.c"), *objects, RUNTIME, "-lm", "-lpthread"], cwd=folder)[1]
    TAP.case(title, problem or run(["./rows"], cwd=folder)[1])


def test_words(folder):
    out, problem = build(folder, "words", "B=any", "-o", "w")
    TAP.case("the pieces are told", problem or ("" if out == "words: code for B = any, in pieces of 1, 8, 64\n" else out))
    TAP.case("and in the header", "" if "Built for B = any, in pieces of 1, 8, 64." in read(os.path.join(folder, "w.h")) else read(os.path.join(folder, "w.h")))
    out, problem = build(folder, "words", "B=32,any,1,16", "-o", "w")
    TAP.case("other pieces", problem or ("" if "in pieces of 1, 16, 32\n" in out else out))


def refuses(name, code, status, sizes="B=any", words=(), says=""):
    r = subprocess.run([ANFORA, "build", f"{PROGRAM}:{name}", "--sizes", sizes, *words], capture_output=True, text=True, timeout=60, check=False)
    good = r.returncode == status and code in r.stderr and says in r.stderr
    TAP.case(f"{name} {sizes}", "" if good else f"status {r.returncode}\n{r.stderr}")


with tempfile.TemporaryDirectory() as top:
    for number, (title, *words) in enumerate([("rows of a batch of any size", "--backend", "llvm"), ("by the C compiler", "--backend", "cjit"),
                                              ("with loops on threads", "--threads", "4")]):
        where = os.path.join(top, str(number))
        os.mkdir(where)
        test_use(where, title, *words)
    test_words(top)
    os.chdir(top)
    for name, says in (("ones", "Sum"), ("evened", "a size is a number"), ("spread_slope", ""), ("centred", "Mean"), ("total", "Sum"), ("numbered", "a size is a number"), ("chosen", "a size is a number"),
                       ("counted", "a size is a number"), ("first", ""), ("backward", "Flip"), ("summed", "CumSum"), ("compared", "Softmax"),
                       ("weights", "no row for each row"), ("outer", ""), ("second", "not the first dim"), ("ranked", ""), ("spread", ""),
                       ("mixed", ""), ("shown", ""), ("noisy", ""), ("captured", ""), ("looped", "")):
        refuses(name, "E1595", 3, says=says)
    refuses("two", "E1596", 1)
    refuses("words", "E1596", 1, "B=2,4,any")
    refuses("words", "E1596", 1, "B=1,6,8,any")
    refuses("words", "E1580", 1, "B=anything")
    refuses("words", "E1597", 3, words=("--state", "0"))
TAP.done()
