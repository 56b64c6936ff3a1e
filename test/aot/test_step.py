#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps that are compiled ahead of time: `anfora build --state` makes objects and headers, a C program
trains with them, linked with libanfora_rt alone, and gets the numbers of an anf_step.
test_step.py ANFORA LIBANFORA_RT.a LIBANFORA -- CC FLAGS..."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import ROOT, Tap, run, valgrind_finds  # noqa: E402

ANFORA, RT, LIB = (os.path.abspath(p) for p in sys.argv[1:4])
CC = sys.argv[sys.argv.index("--") + 1:]
WATCHED = any("sanitize" in flag for flag in CC)
TAP = Tap()
PROGRAM = os.path.join(HERE, "train.anf")
WARN = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-I", os.path.join(ROOT, "include")]
OBJECTS = {"init": ["--state", "0"], "step": ["--state", "1"], "test": ["--state", "0", "--sig", "u8[32, 8, 8], u8[32]"]}
LARGEST = 150 << 10  # bytes of machine code and constants of libanfora_rt


def build_all(folder, *options):
    for name, words in OBJECTS.items():
        problem = run([ANFORA, "build", f"{PROGRAM}:{name}", *words, *options, "-o", name], cwd=folder)[1]
        if problem:
            return problem
    return ""


def link(folder, out, words):
    objects = [name + ".o" for name in OBJECTS]
    return run([*CC, *WARN, "-I", folder, os.path.join(HERE, "train.c"), *objects, "-o", out, *words, "-lm", "-lpthread"],
               cwd=folder)[1]


def test_train(kind, folder):
    problem = build_all(folder, "--backend", kind) or link(folder, "alone", [RT]) or run(["./alone"], cwd=folder)[1]
    TAP.case(f"{kind}: a C program trains with the run time alone", problem)
    if kind != "llvm" or problem:
        return
    needs, problem = run(["ldd", "./alone"], cwd=folder)
    TAP.case("nothing of LLVM or Anfora is linked", problem or "".join(w for w in ("LLVM", "anfora") if w in needs))
    beside = ["-DWITH_JIT", LIB, "-Wl,-rpath," + os.path.dirname(LIB)]
    TAP.case("the numbers are those of an anf_step",
             link(folder, "beside", beside) or run(["./beside", PROGRAM], cwd=folder)[1])
    valgrind_finds(TAP, WATCHED, ["./alone"], folder, lambda *cpu: build_all(folder, *cpu) or link(folder, "alone", [RT]))
    with open(os.path.join(folder, "all.cpp"), "w", encoding="utf-8") as f:
        f.write("".join(f'#include "{name}.h"\n' for name in OBJECTS) + "int main() { return 0; }\n")
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include")]
    TAP.case("headers are C++", run(["c++", *flags, "all.cpp"], cwd=folder)[1])


def test_sizes(folder):
    """A step whose batch is an argument has the numbers of steps for each batch."""
    rate = "{lr: f32, by: (f32[2], f32)}"
    problem = ""
    for name, rows, more in (("step", "32", []), ("half", "16", []), ("sized", "B", ["--sizes", "B=16,32"])):
        words = ["--state", "1", "--sig", f"u8[{rows}, 8, 8], u8[{rows}], {rate}", "--name", name, "-o", name, *more]
        problem = problem or run([ANFORA, "build", PROGRAM + ":step", *words], cwd=folder)[1]
    problem = problem or run([ANFORA, "build", PROGRAM + ":init", "--state", "0"], cwd=folder)[1]
    objects = ["step.o", "half.o", "sized.o", "init.o"]
    problem = problem or run([*CC, *WARN, "-I", folder, os.path.join(HERE, "sizes.c"), *objects, "-o", "sizes", RT, "-lm", "-lpthread"],
                             cwd=folder)[1]
    TAP.case("a step whose batch is an argument", problem or run(["./sizes"], cwd=folder)[1])
    with open(os.path.join(folder, "rows.anf"), "w", encoding="utf-8") as f:
        f.write("def step(s: f32[4], x: f32[N, 4]) { (s * 0.5, x @ s) }\n")
    fails("an output whose rows are an argument", [os.path.join(folder, "rows.anf"), "--state", "1", "--sizes", "N=1,2"], "E1584", 3)


def test_size():
    out, problem = run(["size", "-t", RT])
    text = 0 if problem else int(out.strip().split("\n")[-1].split()[0])
    if WATCHED:
        TAP.skip("the run time is small", "sanitizers add to it")
    else:
        TAP.case("the run time is small", problem or ("" if 0 < text <= LARGEST else f"{text} bytes"))


def fails(name, words, code, status=1):
    r = subprocess.run([ANFORA, "build", *words], capture_output=True, text=True, timeout=60, check=False)
    good = r.returncode == status and code in r.stderr
    TAP.case(name, "" if good else f"status {r.returncode}\n{r.stderr}")


with tempfile.TemporaryDirectory() as top:
    for number, engine in enumerate(("llvm", "cjit")):
        where = os.path.join(top, str(number))
        os.mkdir(where)
        test_train(engine, where)
    test_sizes(top)
test_size()
fails("a step that calls itself", [PROGRAM + ":back", "--state", "1"], "E0924", 3)
fails("more states than parameters", [PROGRAM + ":back", "--state", "3"], "E1119")
fails("no new state", [PROGRAM + ":init", "--state", "1"], "E1110")
fails("no number", [PROGRAM + ":step", "--state", "one"], "--state", 2)
fails("rows that nothing tells", [PROGRAM + ":test", "--state", "0"], "E1582")
TAP.done()
