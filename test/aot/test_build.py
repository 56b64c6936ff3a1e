#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that are compiled ahead of time: `anfora build` makes objects and headers, a C program uses them,
linked with libanfora_rt alone, and is run as it is and watched by valgrind.
test_build.py ANFORA LIBANFORA_RT.a -- CC FLAGS..."""
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import ROOT, Tap, read, run, valgrind_finds  # noqa: E402

ANFORA, RT = (os.path.abspath(p) for p in sys.argv[1:3])
CC = sys.argv[sys.argv.index("--") + 1:]
WATCHED = any("sanitize" in flag for flag in CC)
TAP = Tap()
PROGRAM, DATA = (os.path.join(HERE, name) for name in ("program.anf", "data.tir"))
WARN = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-I", os.path.join(ROOT, "include")]
OBJECTS = {  # name of the object: what is built
    "affine": [PROGRAM + ":affine"],
    "careful": [PROGRAM + ":careful"],
    "endless": [PROGRAM + ":endless", "--stoppable"],
    "fib": [PROGRAM + ":fib"],
    "forever": [PROGRAM + ":forever"],
    "program": [PROGRAM],  # main
    "shown": [PROGRAM + ":shown"],
    "sized": [PROGRAM + ":sized", "--sizes", "B=1,3 T=1,4"],
    "small": [PROGRAM + ":small"],
    "square": [PROGRAM + ":square_sum", "--value-and-grad", "--name", "square"],
    "spread": [PROGRAM + ":spread", "--threads", "4"],
    "wide": [PROGRAM + ":wide"],
    "data": [DATA],
}


def build_all(folder, *options):
    for name, words in OBJECTS.items():
        _, problem = run([ANFORA, "build", *words, *options, "-o", name + ".o"], cwd=folder)
        if problem:
            return problem
    return ""


def link(folder, rt, words=()):
    objects = [name + ".o" for name in OBJECTS]
    return run([*CC, *WARN, "-I", folder, os.path.join(HERE, "use.c"), *words, *objects, "-o", "use", rt, "-lm", "-lpthread"],
               cwd=folder)[1]


# Of shown(7, ...), by hand.
SHOWN = [
    'n is 7 yes ("yes", true, 2.334) \x01\x05 {a = [[0.1, 2.0, 3.0], [4.0, 5.0, 1e+20]], b = (None, [])}',
    "[1.5, 2.25] complex(2.5, -1.0) key(0x0000000000000005) (7,) [[1, 2]] f32",
    "0 0.1 200", "1 2.0 201"]


def shown(folder, command):
    """What a program prints when nobody listens: by the object, and by the library."""
    out, problem = run(command, cwd=folder)
    return problem or ("" if out.splitlines()[:len(SHOWN)] == SHOWN else repr(out))


def test_use(kind, folder):
    problem = build_all(folder, "--backend", kind) or link(folder, RT) or run(["./use"], cwd=folder)[1]
    TAP.case(f"{kind}: a C program uses the objects", problem)
    TAP.case(f"{kind}: what the program prints", problem or shown(folder, ["./use", "shown"]))
    arguments = ["7", "[[0.1, 2, 3], [4, 5, 1e20]]", "[1.5, 2.25]", "[]", "true"]
    TAP.case(f"{kind}: the library prints the same",
             shown(folder, [ANFORA, "run", PROGRAM + ":shown", *arguments, "--backend", kind]))
    if kind == "llvm" and not problem:
        needs, problem = run(["ldd", "./use"], cwd=folder)
        TAP.case("nothing of LLVM or Anfora is linked", problem or "".join(w for w in ("LLVM", "anfora") if w in needs))
        exported, _ = run(["nm", "-g", "--defined-only", "affine.o"], cwd=folder)
        TAP.case("an object exports three names",
                 "" if sorted(line.split()[2] for line in exported.splitlines()) == ["affine", "affine_0wrapper", "affine_object"]
                 else exported)
        valgrind_finds(TAP, WATCHED, ["./use"], folder, lambda *cpu: build_all(folder, *cpu) or link(folder, RT))


def test_shared(folder):
    """Against the shared library, in which position does not matter."""
    shared = os.path.splitext(RT)[0] + ".so"
    if not os.path.exists(shared):
        TAP.skip("the shared run time", "it was not built")
        return
    problem = build_all(folder) or link(folder, shared, ["-Wl,-rpath," + os.path.dirname(RT)]) or run(["./use"], cwd=folder)[1]
    TAP.case("the shared run time", problem)


def test_sources(folder):
    """C source that was written is the same program; the header is C++ too."""
    for name, words in OBJECTS.items():
        _, problem = run([ANFORA, "build", *words, "--emit", "c,header", "-o", name], cwd=folder)
        problem = problem or run([*CC, "-std=c11", "-ffp-contract=off", "-c", name + ".c", "-o", name + ".o"], cwd=folder)[1]
        if problem:
            TAP.case("C source", problem)
            return
    TAP.case("C source", link(folder, RT) or run(["./use"], cwd=folder)[1])
    # gcc's default has strings.h behind string.h, whose index is a function
    TAP.case("C source in the compiler's own mode", run([*CC, "-std=gnu17", "-fsyntax-only", *(n + ".c" for n in OBJECTS)], cwd=folder)[1])
    TAP.case("C source as C23", run([*CC, "-std=c2x", "-fsyntax-only", *(n + ".c" for n in OBJECTS)], cwd=folder)[1])
    _, problem = run([ANFORA, "build", PROGRAM + ":steep", "--grad", "--emit", "c", "-o", "steep"], cwd=folder)
    if not problem:
        with open(os.path.join(folder, "steep.c"), encoding="utf-8") as f:
            text = f.read()
        problem = "".join(f"no {name} " for name in ("fwd_steep(", "bwd_steep(") if name not in text)
    TAP.case("marks of graphs are words in C", problem)
    lines = "".join(f'#include "{name}.h"\n' for name in OBJECTS) + "int main() { return 0; }\n"
    with open(os.path.join(folder, "all.cpp"), "w", encoding="utf-8") as f:
        f.write(lines)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", os.path.join(ROOT, "include")]
    TAP.case("headers are C++", run(["c++", *flags, "all.cpp"], cwd=folder)[1])


def test_forms(folder):
    _, problem = run([ANFORA, "build", PROGRAM + ":fib", "--emit", "llvm,asm", "--cpu", "x86-64-v2", "-o", "out"], cwd=folder)
    for name, part in (("out.ll", "define i64 @fib(i64"), ("out.s", "fib_object:")):
        if not problem:
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text = f.read()
            problem = "" if part in text else f"{name} has no '{part}'\n{text}"
    TAP.case("LLVM IR and assembly", problem)
    if platform.machine() == "x86_64":
        for cpu, has, lacks in (("x86-64-v2", "sse4.2,popcnt", "avx"), ("x86-64-v3", "avx2,fma", "avx512"), ("x86-64-v4", "avx512vl", "avx512vnni")):
            _, problem = run([ANFORA, "build", PROGRAM + ":fib", "--cpu", cpu, "-o", "out"], cwd=folder)
            with open(os.path.join(folder, "out.o"), "rb") as f:
                code = f.read()
            TAP.case(f"an object for {cpu} says what it needs", problem or ("" if has.encode() in code and lacks.encode() not in code else "no"))
        for cpu, vectors in (("x86-64", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm"), ("sapphirerapids", "zmm")):
            _, problem = run([ANFORA, "build", PROGRAM + ":product", "--emit", "asm", "--cpu", cpu, "-o", "out"], cwd=folder)
            text = problem or read(os.path.join(folder, "out.s"))
            widest = max((v for v in ("xmm", "ymm", "zmm") if f"%{v}" in text), default="none")
            TAP.case(f"kernels of {cpu}, whatever this processor has", problem or ("" if widest == vectors else widest))
        for cpu, want in (("x86-64", "W0903"), ("native", "")):
            words = ["build", PROGRAM + ":product", "--emit", "asm", "--cpu", cpu, "--tune", "-o", "out"]
            r = subprocess.run([ANFORA, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            good = r.returncode == 0 and (want in r.stderr if want else not r.stderr)
            TAP.case(f"--tune for {cpu}", "" if good else f"status {r.returncode}\n{r.stderr}")
    TAP.case("nothing else is written", " ".join(n for n in os.listdir(folder) if not n.startswith("out.")))


def test_debug(folder):
    """gdb knows the functions of an object, and which line of the program each is from."""
    lines = open(PROGRAM, encoding="utf-8").read().split("\n")
    problem = build_all(folder, "--debug") or link(folder, RT, ["-g"])
    if not problem and shutil.which("gdb") and not WATCHED:
        want = next(i for i, text in enumerate(lines, 1) if "def fib" in text)
        words = ["gdb", "-nx", "-batch", "-ex", "break fib.body", "-ex", "run", "-ex", "bt 1", "./use"]
        out, problem = run(words, cwd=folder)
        problem = problem or ("" if f"program.anf:{want}" in out and "#0  fib" in out else out)
    TAP.case("lines and names for debuggers", problem)


def fails(name, words, code, status=1):
    r = subprocess.run([ANFORA, "build", *words], capture_output=True, text=True, timeout=60, check=False)
    good = r.returncode == status and code in r.stderr
    TAP.case(name, "" if good else f"status {r.returncode}\n{r.stderr}")


def test_names_and_targets(folder):
    with open(os.path.join(folder, "names.anf"), "w", encoding="utf-8") as p:
        p.write("def f(p: ({w: f32[2, 3], b: f32[2]}, f32), x: f32[3]) { ({y = p[0].w @ x + p[0].b, n = p[1]}, p[1] * 2.0) }\n"
                "def read(x: f32) { x * 2.0 }\ndef gamma(x: f32) { x * 2.0 }\n")
    for name in ("read", "gamma"):  # of the C library: a program's own calls of it would come here
        fails("a name of the C library: " + name, [os.path.join(folder, "names.anf:" + name)], "E0920")
    _, problem = run([ANFORA, "build", "names.anf:read", "--name", "my_read", "-o", "r"], cwd=folder)
    TAP.case("another name", problem)
    _, problem = run([ANFORA, "build", "names.anf:f", "-o", "n"], cwd=folder)
    words = "const float *p_0_w /* 6 of f32 */, const float *p_0_b /* 2 of f32 */, float p_1, const float *x /* 3 of f32 */, float *out_0_y /* 2 of f32 */, float *out_1"
    TAP.case("parameters are named by their paths", problem or ("" if words in read(os.path.join(folder, "n.h")) else read(os.path.join(folder, "n.h"))))
    fails("no such target", [PROGRAM + ":fib", "--target", "pdp11-dec-unix"], "E1352")
    _, problem = run([ANFORA, "build", PROGRAM + ":product", "--target", "aarch64-linux-gnu", "--emit", "obj,asm,header", "-o", "arm"], cwd=folder)
    if not problem:
        with open(os.path.join(folder, "arm.o"), "rb") as o:
            head = o.read(20)
        asm = read(os.path.join(folder, "arm.s"))
        problem = "" if head[:5] == b"\x7fELF\x02" and head[18] == 183 and "fmla" in asm and "ret" in asm else repr(head) + asm[:500]
    TAP.case("an object for aarch64", problem)


def test_threads(folder):
    """Loops run on threads only if the object was built so."""
    for words, want in (([], False), (["--threads", "1"], False), (["--threads", "2"], True)):
        undefined, problem = run([ANFORA, "build", PROGRAM + ":spread", *words, "-o", "t"], cwd=folder)
        undefined, problem = (undefined, problem) if problem else run(["nm", "-u", "t.o"], cwd=folder)
        TAP.case("threads: " + (" ".join(words) or "none"), problem or ("" if ("anf_rt_parallel" in undefined) == want else undefined))
    fails("no threads", [PROGRAM + ":spread", "--threads", "0"], "--threads", 2)


def test_sizes(folder):
    """What the command reports of an object for several sizes, and refusals."""
    out, problem = run([ANFORA, "build", PROGRAM + ":sized", "--sizes", "T=2-4  B=1,7,7", "-o", "s"], cwd=folder)
    TAP.case("sizes are counted and listed", problem or ("" if out == "sized: code for 6 combinations of sizes (B = 1, 7 and T = 2, 3, 4)\n" else out))
    head = problem or read(os.path.join(folder, "s.h"))
    words = "float sized(int64_t B, int64_t T, const float *x /* f32[B, 3] */, const float *y /* f32[B, T] */, int64_t n, "\
            "double *out_1 /* f64[B, 2] */, float *out_2 /* 4, 6, 8, 28, 42, 56 of f32 */);"
    TAP.case("sizes are parameters in C", "" if words in head else head)
    out, problem = run([ANFORA, "build", PROGRAM + ":parts", "--sizes", "B=2", "--json", "-o", "p"], cwd=folder)
    TAP.case("sizes in JSON", problem or ("" if json.loads(out)["sizes"] == ["B = 2"] else out))
    _, problem = run([ANFORA, "build", PROGRAM + ":parts", "--sizes", "B=2", "--explain", "--emit", "asm", "-o", "p"], cwd=folder)
    TAP.case("fusion at the first sizes", problem)
    for name, words, code, status in (
            ("no sizes", [":sized"], "E1582", 1), ("sizes of one dim of two", [":sized", "--sizes", "B=1"], "E1582", 1),
            ("a dim that is not there", [":sized", "--sizes", "B=1 T=1 C=2"], "E1581", 1),
            ("sizes of known dims", [":affine", "--sizes", "B=1"], "E1581", 1),
            ("no number", [":sized", "--sizes", "B=1,two T=1"], "E1580", 1), ("no name", [":sized", "--sizes", "=1"], "E1580", 1),
            ("no sizes after the name", [":sized", "--sizes", "B= T=1"], "E1580", 1), ("a comma too many", [":sized", "--sizes", "B=1,"], "E1580", 1),
            ("a range the wrong way round", [":sized", "--sizes", "B=3-1 T=1"], "E1580", 1),
            ("a number that is too large", [":sized", "--sizes", "B=99999999999999999999 T=1"], "E1580", 1),
            ("too many combinations", [":sized", "--sizes", "B=1-13 T=1-5"], "E1583", 1),
            ("as many results as rows", [":parts", "--sizes", "B=1,2"], "E1584", 3)):
        fails(name, [PROGRAM + words[0], *words[1:]], code, status)


def test_errors():
    fails("no such function", [PROGRAM + ":nothing"], "E0010")
    fails("a word of C++", [PROGRAM + ":class"], "E0920")
    fails("a function of C", [PROGRAM + ":printf"], "E0920")
    fails("a function of the run time", [PROGRAM + ":fib", "--name", "anf_rt_enter"], "E0920")
    fails("no identifier", [PROGRAM + ":fib", "--name", "a b"], "E0920")
    fails("the interpreter", [PROGRAM + ":fib", "--backend", "interp"], "E0921", 3)
    fails("a function in the result", [PROGRAM + ":adder"], "E0923", 3)
    fails("types that do not fit", [PROGRAM + ":fib", "--sig", "i64, i64"], "E0510")
    fails("no such CPU", [PROGRAM + ":fib", "--cpu", "abacus"], "E0912")
    fails("no such form", [PROGRAM + ":fib", "--emit", "obj,poem"], "poem", 2)
    fails("a folder that is not there", [PROGRAM + ":fib", "-o", "/nowhere/fib"], "E0301")
    with tempfile.NamedTemporaryFile("w", suffix=".tir") as f:
        f.write("func f(a: s32): s32\n")
        f.flush()
        fails("nothing to build", [f.name], "E0922")


with tempfile.TemporaryDirectory() as top:
    for number, test in enumerate([lambda d: test_use("llvm", d), lambda d: test_use("cjit", d), test_names_and_targets, test_sizes, test_threads, test_shared, test_sources,
                                   test_forms, test_debug]):
        where = os.path.join(top, str(number))
        os.mkdir(where)
        test(where)
test_errors()
TAP.done()
