#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a golden case cannot say about the command: exit statuses, JSON, pipes, completions, dumps.
test_cli.py ANFORA"""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import Tap  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
PROGRAM = """def add(x: f32, y: f32) { x + y }
def pair(n: i64) { (n, (n + 1, true)) }
def twice(f, x) { f(f(x)) }
def make(a: i64) { fn (b) { a + b } }
def shout(x: i64) { Print(x); x }
def spin(n: i64) -> i64 { if n == 0 { 0 } else { 1 + spin(n - 1) } }
def main(x: i64) { x * 2 }
"""


def anfora(*words, env=None, stdin=None, binary=False):
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "ANFORA_DUMP")}
    environment.update(env or {})
    r = subprocess.run([ANFORA, *words], input=stdin, capture_output=True, env=environment, timeout=120, check=False)
    if binary:
        return r.returncode, r.stdout, r.stderr
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def check(name, got, status=0, out=None, err=None, no_err=True):
    """`out` is the whole output, or a pattern that occurs in it; `err` is a pattern."""
    problem = ""
    if got[0] != status:
        problem += f"status {got[0]}, not {status}\n"
    if isinstance(out, str) and got[1] != out:
        problem += f"output is not {out!r}\n"
    if isinstance(out, re.Pattern) and not out.search(got[1]):
        problem += f"output lacks {out.pattern!r}\n"
    if err is not None and not re.search(err, got[2]):
        problem += f"standard error lacks {err!r}\n"
    if err is None and no_err and got[2]:
        problem += "standard error is not empty\n"
    TAP.case(name, problem and f"{problem}{got[1]}{got[2]}")


def test_running():
    check("run", anfora("run", "p.anf:add", "1", "2"), out="3.0\n")
    check("main is the default", anfora("run", "p.anf", "21"), out="42\n")
    check("a negative number is no option", anfora("run", "p.anf", "-21"), out="-42\n")
    check("options after arguments", anfora("run", "p.anf:add", "-1.5", "-.5", "--max-steps", "1000"), out="-2.0\n")
    check("by name", anfora("run", "p.anf:add", "y=1", "x=-3"), out="-2.0\n")
    check("by name and by place", anfora("run", "p.anf:add", "x=1", "5"), out="6.0\n")
    check("from standard input", anfora("run", "-", "3", stdin=b"def main(x) { x + 1 }"), out="4\n")
    check("FUNC from standard input", anfora("run", "-:f", "3", stdin=b"def f(x) { x + 1 }"), out="4\n")
    check("the only function", anfora("run", "-", "3", stdin=b"def only(x) { x + 1 }"), out="4\n")
    check("the only one that is not used", anfora("run", "-", "3", stdin=b"def g(x) { x }\ndef f(x) { g(x) }"), out="3\n")
    check("after --", anfora("run", "--", "p.anf", "-4"), out="-8\n")
    check("Print goes to standard output", anfora("run", "p.anf:shout", "7"), out="7\n7\n")
    check("--repeat prints once", anfora("run", "p.anf:shout", "7", "--repeat", "3"), out="7\n7\n")
    check("--time", anfora("run", "p.anf", "1", "--time"), out="2\n", err=r"^compile [\d.]+ ms, run [\d.]+ ms\n$")
    with open("fused.anf", "w", encoding="ascii") as f:
        f.write("def sums(x) { Sum(Exp(x) * x) }\n"
                "def rows(x, w) { y = LayerNorm(Gelu(x) * 2.0); Softmax(y + x) @ w }\n"
                "def pair(x, y) { s = Sigmoid(x); (x * s, y * (1.0 - s)) }\n"
                "def mm(x) { y = Tile(x, (64, 1)); z = y @ y; z[3, 5] }\n"
                "def step(s: {w: f32[64], m: f32[64]}, g: f32[64]) {\n"
                "  m = 0.9 * s.m + g\n"
                "  ({w = s.w - 0.1 * m, m = m}, {loss = Sum(g)})\n"
                "}\n"
                "def near(x, c) { d = x[:, None] - c[None]; Sum(Min(Sum(d * d, axis=2), axis=1)) }\n"
                "def move(x: f64[64, 16], c: f64[64, 16]) { grad(near, wrt=1)(x, c) }\n"
                "def large(x, w) { (Sum(x), Max(x, axis=0), Mean(x, axis=1), x[:, 32:96] @ w) }\n"
                "def bytes(x: u8[64, 64], w: i8[64, 64]) { Quantize(Dequantize(x, 0.5) @ Dequantize(w, 0.5), 0.1) }\n"
                "def gates(x: f32[64, 128], v: f32[128, 128], w: f32[128, 128]) { (x @ v, x @ w) }\n"
                "def residual(x: f32[1, 16, 9, 9], w: f32[16, 16, 3, 3], c: f32[16]) { Relu(BatchNorm(Conv2D(x, w, padding=1), c, c, c, c) + x) }\n"
                "def attend(q: f32[2, 4, 64, 32], k: f32[2, 64, 4, 32], v: f32[2, 4, 64, 32]) {\n"
                "  Softmax(q @ Transpose(k, (0, 2, 3, 1)) * 0.2, axis=-1) @ v\n"
                "}\n"
                "def causal(q: f32[2, 4, 64, 32], k: f32[2, 4, 32, 64], v: f32[2, 4, 64, 32]) {\n"
                "  s = q @ k\n"
                "  Softmax(Where(Tril(OnesLike(s)) > 0.0, s, -1e9), axis=-1) @ v\n"
                "}\n"
                "def stem(x: f32[1, 3, 224, 224], w: f32[64, 3, 7, 7]) { Conv2D(x, w, stride=2, padding=3) }\n")
    check("--explain", anfora("run", "fused.anf:sums", "[[1,2],[3,4]]", "--explain"), out=re.compile("^296[.]14"),
          err=r"^sums\n  computed where it is read: Exp 1:19\n  computed where it is read: Mul 1:26\n  Sum 1:15\npasses of ")
    with open("attend.anf", "w", encoding="utf-8") as f:
        f.write("def many(q: bf16[2, 40, 16], k: bf16[2, 70, 16]) { Attention(q, k, k) }\ndef few(q: f32[2, 1, 4], k: f32[2, 7, 4]) { Attention(q, k, k) }\n"
                "def heads(q: f32[4, 20, 80], k: f32[70, 4, 80]) { h = Transpose(k, (1, 0, 2)); Attention(Exp(q), h, h) }\n")
    for name, how in (("many", "by kernels for 32 queries at a time"), ("few", "each query by itself, in double")):
        check(f"--explain of attention, {name}", anfora("build", f"attend.anf:{name}", "--explain"), out="", err=rf"^{name}\n  Attention \d:\d+, {how}\n")
    check("attention of computed queries and of heads where they lie, by products", anfora("print", "attend.anf:heads", "--as", "tir"),
          out=re.compile(r"(?s)tensor t: \[f32 \* 6400\](?!.*tensor t_1).*brgemm\(&k\[.*brgemm\(&scores\[0UL\], &k\["))
    check("--explain of rows",
          anfora("build", "fused.anf:rows", "--sig", "f32[8, 64], f32[64, 64]", "--explain"), out="",
          err=r"^rows\n  one loop over 8 rows: Mul 2:40, LayerNorm 2:22, Add 2:58, Softmax 2:48\n"
              r"    computed where it is read: Gelu 2:32\n    moves 4104 bytes, op by op 22536\n    ends before MatMul, which does not keep rows apart\n"
              r"  MatMul 2:63\npasses of ")
    check("--explain of a nest that gives two results",
          anfora("build", "fused.anf:pair", "--sig", "f32[8, 64], f32[8, 64]", "--explain"), out="",
          err=r"^pair\n  one loop over 512 elements: Sigmoid 3:22, Mul 3:37, Mul 3:44\n"
              r"    computed where it is read: Sub 3:51\n    moves 8200 bytes, op by op 20488\npasses of ")
    check("--explain of slices of large reductions, and operands that stay in their place",
          anfora("build", "fused.anf:large", "--sig", "f32[512, 1024], f32[64, 32]", "--explain"), out="",
          err=r"^large\n  Sum 11:20, in 32 slices\n  Max 11:28, in 8 slices\n  Mean 11:44\n"
              r"  read by products where it is: Slice 11:66\n  MatMul 11:73\npasses of ")
    check("--explain of products that threads share", anfora("build", "fused.anf:gates", "--threads", "2", "--explain"), out="",
          err=r"^gates\n  MatMul 13:\d+\n  MatMul 13:\d+\nparallel_merge: 2 loops that threads share become 1\npasses of ")
    check("--explain of a product of bytes and its epilogue", anfora("build", "fused.anf:bytes", "--explain"), out="",
          err=r"\n  product whose reader is its epilogue: MatMul 12:[0-9]+, of bytes that are summed in i32\n")
    check("--explain of a convolution and its epilogue", anfora("build", "fused.anf:residual", "--explain"), out="",
          err=r"^residual\n  product whose reader is its epilogue: Conv2D 14:\d+\n  computed where it is read: BatchNorm 14:\d+\n"
              r"  computed where it is read: Add 14:\d+\n  Relu 14:\d+\npasses of ")
    check("--explain of products of batches", anfora("build", "fused.anf:attend", "--explain"), out="",
          err=r"^attend\n  read by products where it is: Transpose 16:\d+\n  one loop over 8 matrices: Mul 16:\d+, Softmax 16:\d+, MatMul 16:\d+\n"
              r"    computed where it is read: MatMul 16:\d+\n    moves 262152 bytes, op by op \d+\npasses of ")
    check("--explain of products of batches with a mask between", anfora("build", "fused.anf:causal", "--explain"), out="",
          err=r"^causal\n  one loop over 8 matrices: Where 20:\d+, Softmax 20:\d+, MatMul 20:\d+\n"
              r"    computed where it is read: MatMul 19:\d+, OnesLike 20:\d+, Tril 20:\d+, Less 20:\d+\n")
    check("of those, no matrix of all scores is in memory", anfora("print", "--as", "tir", "fused.anf:attend"),
          out=re.compile(r"\A(?!.*f32 \* 32768)", re.S))
    check("phases of a padded window are copied by one nest for each group of columns", anfora("print", "--as", "tir", "fused.anf:stem"),
          out=re.compile(r"\A(?!(.*= x\[){5})(.*= x\[){4}", re.S))
    check("--explain of a step",
          anfora("build", "fused.anf:step", "--state", "1", "--explain"), out="",
          err=r"  one loop over 64 elements: Add 6:17, Sub 7:13\n    computed where it is read: Mul 6:11, Mul 7:19\n")
    check("a large difference of small tensors has no buffer", anfora("print", "--as", "tir", "fused.anf:move"),
          out=re.compile(r"\A(?!.*f64 \* 65536)", re.S))
    ones = "[[" + "1," * 63 + "1]]"
    check("--tune", anfora("run", "fused.anf:mm", ones, "--backend", "llvm", "--tune"), out="64\n")
    check("--time, compiled", anfora("run", "p.anf", "1", "--time", "--backend", "llvm"), out="2\n",
          err=r"^compile [\d.]+ ms, run [\d.]+ ms, memory [\d.]+ KiB\n1\. \(i64\) in [\d.]+ ms: the first call\n$")


WORK = """def count(n: i64) { print("start"); i = 0; while i < n { i = i + 1 }; print("end", i); i }
def unknown(n: i64) { i = 0; s = 0; while i < n { s = s + i * i % 7; i = i + 1 }; Sum(Arange(0, s % 10)) }
def checked(n: i64) { s = unknown(n); assert(s > 0, "none"); s }
def product(n: i64) { x = Reshape(Cast(Arange(0, n * n), f32), (n, n)); Sum(x @ x) }
def bad(n: i64) { i = 0; while i < n { i = i + 1 }; assert(i < 10, "too many"); i }
def printed(n: i64) { s = unknown(n); print("sum"); s }
"""


def test_engine_by_work():
    """Little work is interpreted, more is compiled; what cannot be is interpreted, and that is said."""
    with open("work.anf", "w", encoding="utf-8") as f:
        f.write(WORK)
    for function, n, engine in [("count", 10, "interp"), ("count", 300000, "llvm"), ("product", 8, "interp"), ("product", 256, "llvm"),
                                ("unknown", 30, "interp"), ("unknown", 300000, "llvm"), ("checked", 300000, "llvm")]:
        got = [json.loads(anfora("run", "--json", *words, f"work.anf:{function}", str(n))[1]) for words in ([], ["--backend", "interp"])]
        good = got[0]["backend"] == engine and got[0]["result"] == got[1]["result"]
        TAP.case(f"engine: {function} {n}", "" if good else repr(got))
    for n in (10, 300000):
        check(f"engine: printed once {n}", anfora("run", "work.anf:count", str(n)), out=f"start\nend {n}\n{n}\n")
    check("engine: an error has its place", anfora("run", "work.anf:bad", "300000"), status=1, no_err=False,
          err=re.compile("work.anf:5:.*error E0442: assertion failed: too many"))
    check("engine: compiled in part", anfora("run", "work.anf:unknown", "300000"), out="28\n", no_err=False,
          err=re.compile("warning W0908: sizes depend on data"))
    check("engine: not compiled", anfora("run", "work.anf:printed", "300000"), out="sum\n28\n", no_err=False,
          err=re.compile("warning W0905: interpreted, for it cannot be compiled: E0520"))
    check("engine: chosen, so an error", anfora("run", "--backend", "llvm", "work.anf:printed", "300000"), status=3, no_err=False,
          err=re.compile("error E0520"))
    check("engine: limits of operations are the interpreter's", anfora("run", "--max-steps", "2000000", "work.anf:count", "300000"),
          out="start\nend 300000\n300000\n")


def test_statuses():
    check("no such file", anfora("run", "none.anf"), 1, out="", err="E0301")
    check("a folder", anfora("check", "."), 1, err="error E0")
    check("a wrong program", anfora("check", "-", stdin=b"def f( {"), 1, err=r"<stdin>:1:\d+: error E01")
    check("no such function", anfora("run", "p.anf:mian", "1"), 1, err="E0010.*\n.*did you mean 'main'")
    check("which function", anfora("run", "-", stdin=b"def f(x) { x }\ndef g(x) { x }"), 1, err="E0011.*\n.*f, g")
    check("too few arguments", anfora("run", "p.anf:add", "1"), 1, err=r"E0012: add\(x, y\) is called with 1 argument\n")
    check("no such parameter", anfora("run", "p.anf:add", "1", "z=2"), 1, err="E0013")
    check("given twice", anfora("run", "p.anf:add", "x=1", "x=2"), 1, err="E0014")
    check("a bad value", anfora("run", "p.anf", "[1, 2"), 1, err="E01")
    check("a limit of steps", anfora("run", "p.anf:spin", "100000", "--max-steps", "1000"), 4, err="E04")
    check("a limit of depth", anfora("run", "p.anf:spin", "100000", "--max-depth", "1000"), 4, err="E04")
    check("no command", anfora(), 2, err="a command is needed")
    check("an unknown command", anfora("rnu"), 2, err="did you mean 'run'")
    check("an unknown option", anfora("run", "--repaet", "3", "p.anf"), 2, err="did you mean --repeat")
    check("an unknown letter", anfora("run", "-z", "p.anf"), 2, err="no option -z")
    check("an option of another command", anfora("check", "--repeat", "3", "p.anf"), 2, err="no option --repeat")
    check("an option without its argument", anfora("print", "p.anf", "--as"), 2, err="--as needs an argument")
    check("an argument that it does not take", anfora("run", "--json=1", "p.anf"), 2, err="takes no argument")
    check("a wrong choice", anfora("print", "p.anf", "--as", "svg"), 2, err="ir dat dot")
    check("a CPU to print for", anfora("print", "p.anf:main", "--sig", "i64", "--as", "tir", "--cpu", "native"), out=re.compile("func main"))
    check("no CPU to print for", anfora("print", "p.anf:main", "--sig", "i64", "--as", "asm", "--cpu", "abacus"), 1, err="E0912")
    check("a number that is none", anfora("run", "p.anf", "1", "--repeat", "x"), 2, err="--repeat must be a number")
    check("a number that is too large", anfora("run", "p.anf", "1", "--repeat", "99999999999999999999"), 2, err="must be")
    check("nothing to run", anfora("run"), 2, err="which program")
    check("two files to print", anfora("print", "p.anf", "p.anf"), 2, err="one file")
    check("no such op", anfora("ops", "Matmull"), 1, err="E0201.*\n.*did you mean 'MatMul'")
    check("no such code", anfora("explain", "E9999"), 2, err="there is no code")
    check("all files are checked", anfora("check", "none.anf", "p.anf"), 1, out=re.compile("p.anf: ok"), err="E0301")


TIR = "// doubles\nfunc twice(x: f32): f32 {\n  return (x + x)\n}\n"


def test_input():
    """Standard input: the language, the exact form, Tensor IR; what comes from it has a name."""
    dat = anfora("print", "p.anf", "--as", "dat")[1].encode()
    check("input: .dat", anfora("run", "-:add", "1", "2", stdin=dat), out="3.0\n")
    check("input: .dat is checked", anfora("check", "-", stdin=dat[:-20]), 1, err="<stdin>")
    check("input: .dat is reduced", anfora("reduce", "-:spin", "99999", "--max-steps", "100", stdin=dat), out=re.compile("spin"), err="bytes to")
    check("input: .tir", anfora("run", "-", "3", stdin=TIR.encode()), out="6.0\n")
    check("input: .tir compiled", anfora("run", "-:twice", "3", "--backend", "cjit", stdin=TIR.encode()), out="6.0\n")
    check("input: .tir is checked", anfora("check", "-", stdin=TIR.encode()), out="<stdin>: ok, 1 function\n")
    check("input: .tir is printed", anfora("print", "-", stdin=TIR.encode()), out=TIR)
    check("input: .tir with an error", anfora("check", "-", stdin=TIR.replace("x + x", "x + y").encode()), 1, err="<stdin>:3:")
    check("input: .tir is built", anfora("build", "-", "-o", "twice", "--emit", "c", stdin=TIR.encode()), out="")
    check("input: .tir is built under a whole name",
          anfora("build", "-", "-o", "whole.c", "--emit", "c,llvm", stdin=TIR.encode()), out="")
    TAP.case("the ending of a form is not written twice",
             "" if os.path.exists("whole.c") and os.path.exists("whole.ll") else f"{os.listdir()}")
    check("input: a drawing has a name", anfora("view", "-", stdin=b"def f(x) { x }"), out="stdin.html\n")
    check("input: a word that only begins like Tensor IR", anfora("run", "-", "2", stdin=b"# func\ndef function(x) { x }"), out="2\n")


def test_json_everywhere():
    """Every command that prints a result or findings gives one object for --json."""
    def of(*words, status=0):
        got = anfora(*words, "--json", env={"ANFORA_CACHE": os.path.abspath("cache")})
        try:
            return json.loads(got[1]) if got[0] == status and not got[2] else got
        except ValueError:
            return got

    def case(name, good, got):
        TAP.case("json: " + name, "" if good else f"{got!r}")

    for words in (["print", "p.anf"], ["grad", "p.anf:add"], ["opt", "p.anf"], ["import", "p.anf"]):
        got = of(*words)
        case(words[0], isinstance(got, dict) and got["text"] == anfora(*words)[1], got)
    got = of("print", "p.anf", "-o", "printed.ir")
    case("print to a file", got == {"file": "printed.ir"} and os.path.exists("printed.ir"), got)
    got = of("view", "p.anf", "-o", "p.dot")
    case("view", got == {"file": "p.dot"}, got)
    got = of("build", "p.anf:spin")
    case("build", got == {"files": ["spin.o", "spin.h"]}, got)
    with open("named.anf", "w", encoding="utf-8") as f:
        f.write("def t(x: str) { x }\ndef s(x: f64) { if x > 0.0 { \"a\" } else { \"b\" } }\n")
    for name, line, what in (("t", 1, "a parameter"), ("s", 2, "the result")):
        got = of("build", "named.anf:" + name, status=3)
        first = got["error"][0] if isinstance(got, dict) else {}
        case(f"build, {what} has a string", first.get("code") == "E0873" and first["line"] == line and what in first["message"], got)
    got = of("build", "p.anf:twice", status=1)
    case("build that fails", isinstance(got, dict) and got["error"][0]["code"] == "E0954", got)
    of("run", "p.anf", "1", "--backend", "cjit")
    got = of("cache", "list")
    case("cache", isinstance(got, dict) and len(got["files"]) == 1 and got["bytes"] == got["files"][0]["bytes"] > 0, got)
    size = of("cache", "size")
    case("size of the cache", isinstance(size, dict) and size == {k: v for k, v in got.items() if k != "files"} and size["count"] == 1, size)
    got = of("cache", "clear")
    case("cache that is cleared", isinstance(got, dict) and got["count"] == 0, got)
    got = of("passes")
    case("passes", isinstance(got, dict) and {"name", "doc"} == set(got["passes"][0]) and len(got) == 4, got)
    got = of("version")
    case("version", got == {"version": anfora("version")[1].split()[1]}, got)
    got = of("explain")
    bad = [c for c in got["codes"] if re.search(r"%[a-z.]", c["text"])] if isinstance(got, dict) else got
    case("explain shows no format", bad == [], bad)
    TAP.case("explain shows no format", "" if not re.search(r"%[sdzul.]", anfora("explain")[1]) else anfora("explain")[1])
    both = [of("check", f) for f in ("p.anf", "named.anf")]
    got = of("check", "p.anf", "named.anf")
    case("check of several", got == {"programs": both}, got)
    got = of("check", "p.anf", "none.anf", status=1)
    case("check of several, one not there", isinstance(got, dict) and got["error"][0]["code"] == "E0301", got)
    shutil.copy("p.anf", b"\xff.anf")
    got = of("check", b"\xff.anf")
    case("a name that is not UTF-8", isinstance(got, dict) and got["file"] == "\ufffd.anf", got)
    for words, message in ((["run", "p.anf", "--repaet", "3"], "there is no option --repaet; did you mean --repeat?"), (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
                           (["explain", "E9999"], "there is no code 'E9999'; without a code all are listed"), ([], "there is no option --json"),
                           (["view", b"\xff.anf", "-o", b"\xff.gif"], "the output must end in .svg, .png, .pdf, .dot or .html; it is '\ufffd.gif'")):
        got = of(*words, status=2)
        case(f"wrong use: {message}", isinstance(got, dict) and (got["error"][0]["message"], got["status"]) == (message, "usage"), got)
    got = of("help")
    commands = {o["name"]: o for o in got["commands"]} if isinstance(got, dict) else {}
    case("help", [o for o in commands if "json" not in [p["name"] for p in commands[o]["options"]]] == [] and len(commands) == 18
         and sorted(got["statuses"]) == ["0", "1", "2", "3", "4", "70"] and "ANFORA_CACHE" in got["variables"] and got["files"].get(".onnx") == "an ONNX model", got)
    form = {p["name"]: p for p in commands["print"]["options"]}["as"] if "print" in commands else {}
    case("help: an option", form.get("closed") and form["choices"][:2] == ["ir", "dat"] and form["letter"] is None and form["argument"] == "FORM", form)
    case("help: a command", of("help", "print") == commands.get("print") == of("print", "--help"), of("help", "print"))
    case("help: another form", "COMPREPLY" in of("help", "--bash").get("text", ""), None)
    got = of("reduce", "p.anf:spin", "99999", "--max-steps", "100")
    case("reduce", isinstance(got, tuple) and "spin" in json.loads(got[1])["text"], got)
    with open("t.anf", "w", encoding="utf-8") as f:
        f.write("def init(key) { {w = 0.0} }\ndef step(s, text) { Print(7); ({w = s.w + 1.0}, {loss = Sum(Cast(text, f32))}) }\n")
    with open("t.txt", "w", encoding="utf-8") as f:
        f.write("abc" * 4000)
    status, out, err = anfora("train", "t.anf", "--data", "t.txt", "--steps", "2", "--batch", "4", "--backend", "cjit", "--json")
    got = json.loads(out) if status == 0 else None
    case("train", got and got["steps"] == 2 and got["epochs"][0]["epoch"] == 1 and got["epochs"][0]["loss"] > 0 and "7" in err, (out, err))


def test_compiler():
    """Which C compiler: one that CC names must be there."""
    check("CC names nothing", anfora("run", "p.anf", "1", "--backend", "cjit", env={"CC": "no-such-cc"}), 3, err="E0941: there is no C compiler 'no-such-cc'\n.*CC names it")
    check("CC is too long", anfora("run", "p.anf", "1", "--backend", "cjit", env={"CC": "é" * 5000}), 3, err="E0941: there is no C compiler 'é{40}\\.\\.\\.'\n")
    check("CC is empty", anfora("run", "p.anf", "1", "--backend", "cjit", env={"CC": ""}), out="2\n")


def test_memory():
    """The place where memory ended, in every engine."""
    with open("huge.anf", "w", encoding="ascii") as f:
        f.write("def main(n: i64) {\n  y = Zeros((10000, 1000000, 100), f64)\n  y[n, 0, 0] + Sum(Sort(y))\n}\n")
    for backend in ("interp", "tir", "cjit"):
        check("out of memory: " + backend, anfora("run", "huge.anf", "1", "--backend", backend), 4, err=r"^huge.anf:[23]:\d+: error E0872: out of memory\n")


def test_address_space():
    """LLVM ends its process when memory ends: it is not begun where there is too little (ulimit -v)."""
    def limited(megabytes, *words):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        r = subprocess.run([ANFORA, *words], capture_output=True, preexec_fn=limit, timeout=120, check=False, env={**os.environ, "ANFORA_CACHE": "off"})
        return r.returncode, r.stderr.decode(errors="replace")

    if limited(150, "version")[0]:
        TAP.skip("address space", "a sanitizer takes more")
        return
    lines = "".join(f"  x = Sin(x) * {k}.5 + Tanh(x)\n" for k in range(300))
    with open("long.anf", "w", encoding="ascii") as f:
        f.write(f"def f(x: f64) {{\n{lines}  x\n}}\ndef loss(w, x) {{ h = Tanh(x @ w); Sum(Softmax(h @ w) * LayerNorm(h)) }}\n"
                "def main(n: i64) { w = Reshape(Cast(Arange(0, 4096), f32), (64, 64)) * 0.0001\n"
                "  (l, g) = value_and_grad(loss)(w, w + 1.0); l + Sum(g) + Cast(n, f32) + Cast(grad(f)(0.5), f32) }\n")
    got = {mb: limited(mb, "run", "long.anf", "3", "--backend", "llvm") for mb in (160, 200, 220, 240, 260, 280, 300, 340, 420)}
    bad = {mb: g for mb, g in got.items() if g[0] != 0 and (g[0] != 4 or not re.search("E087[124]", g[1]))}
    TAP.case("LLVM never ends the process under ulimit -v", f"{bad}" if bad else "")
    TAP.case("and too little is said", "" if "E0874" in got[160][1] and "ulimit -v" in got[160][1] else f"{got[160]}")
    TAP.case("and enough is enough", "" if got[420][0] == 0 else f"{got[420]}")


def test_cache_tells_apart():
    """Programs whose Tensor IR has the same statements on variables in another order are compiled each for itself."""
    env = {"ANFORA_CACHE": os.path.abspath("apart")}
    args = ["[[1, 2, 3]]", "[[1], [2.5]]", "--backend", "llvm"]
    wants = {"<": "[[false, false, false], [true, true, false]]", ">": "[[false, true, true], [false, false, true]]",
             "<=": "[[true, false, false], [true, true, false]]", ">=": "[[true, true, true], [false, false, true]]",
             "-": "[[0.0, 1.0, 2.0], [-1.5, -0.5, 0.5]]", "-1 * a +": "[[0.0, -1.0, -2.0], [1.5, 0.5, -0.5]]"}
    for op, want in wants.items():
        with open("apart.anf", "w", encoding="utf-8") as f:
            f.write("def main(a: f32[1,3], b: f32[2,1]) { " + ("b - a" if "1" in op else f"a {op} b") + " }\n")
        status, out, err = anfora("run", "apart.anf", *args, env=env)
        TAP.case(f"the cache tells a {op} b apart", "" if status == 0 and out.strip() == want else f"{out}{err}")


def test_json():
    def result(*words):
        status, out, err = anfora("run", *words, "--json")
        return json.loads(out)["result"] if status == 0 and not err else (status, out, err)

    def same(name, got, want):
        TAP.case(name, "" if got == want and repr(got) == repr(want) else f"{got!r} is not {want!r}")

    same("json: a float", result("p.anf:add", "1", "2"), 3.0)
    same("json: nested tuples", result("p.anf:pair", "4"), [4, [5, True]])
    same("json: what it has not", result("p.anf:add", "inf", "1"), "inf")
    same("json: nan", result("p.anf:add", "nan", "1"), "nan")
    same("json: a float to the last bit", result("p.anf:add", "0.1", "0"), 0.10000000149011612)
    value = result("p.anf:make", "4")
    same("json: a function", isinstance(value, dict) and isinstance(value.get("function"), str), True)
    for name, text, want in [
        ("a tensor", "[[1, 2], [3, 4]]", [[1, 2], [3, 4]]), ("a string", '"a\\"<é>"', 'a"<é>'), ("None", "None", None),
        ("a record", "{b = 1, a = (2,)}", {"b": 1, "a": [2]}), ("u64", "u64(18446744073709551615)", "18446744073709551615"),
        ("complex", "c64(1.0, -2.0)", [1.0, -2.0]), ("no elements", "f32[0, 3]([])", []), ("a type", "f32", "f32"),
    ]:
        with open("one.anf", "w", encoding="utf-8") as f:
            f.write(f"def main() {{ {text} }}\n")
        same("json: " + name, result("one.anf"), want)
    status, out, err = anfora("run", "p.anf:add", "1", "2", "--json", "--repeat", "5")
    o = json.loads(out)
    same("json: members", sorted(o), ["backend", "compile_ms", "result", "run_ms", "type"])
    same("json: times are numbers", [isinstance(o[k], float) for k in ("compile_ms", "run_ms")], [True, True])
    same("json: the type", o["type"], "f32")
    status, out, err = anfora("run", "p.anf:shout", "7", "--json")
    same("json: Print goes to standard error", (status, json.loads(out)["result"], err), (0, 7, "7\n"))
    status, out, err = anfora("check", "-", "--json", stdin=b"def f(x) {\n  y\n}")
    o = json.loads(out)
    same("json: an error", (status, o["status"], err), (1, "ANF_INVALID", ""))
    first = o["error"][0]
    same("json: its place", (first["file"], first["line"], first["col"], first["code"][:3]), ("<stdin>", 2, 3, "E01"))
    same("json: its members", sorted(first), ["code", "col", "file", "hint", "line", "message", "severity"])
    status, out, err = anfora("run", "none.anf", "--json")
    same("json: no file", (status, json.loads(out)["status"]), (1, "ANF_IO"))
    status, out, err = anfora("run", "p.anf:spin", "9999", "--max-depth", "10", "--json")
    same("json: a limit", (status, json.loads(out)["status"]), (4, "ANF_LIMIT"))
    status, out, err = anfora("check", "p.anf", "--json")
    same("json: check", (json.loads(out)["graphs"] >= 7, json.loads(out)["status"]), (True, "ANF_OK"))
    status, out, err = anfora("ops", "--json")
    ops = {o["name"]: o for o in json.loads(out)["ops"]}
    same("json: ops", ops["Add"]["inputs"], "a b")
    status, out, err = anfora("explain", "--json")
    same("json: explain", "E0301" in [o["code"] for o in json.loads(out)["codes"]], True)
    deep = "def main() { t = (1,); i = 0; while i < 2000 { t = (t, 1); i = i + 1 }; t }"
    status, out, err = anfora("run", "-", "--json", stdin=deep.encode())
    same("json: too deep", (status, json.loads(out)["error"][0]["code"]), (4, "E0016"))


def test_output():
    with open("/dev/full", "w", encoding="utf-8") as full:
        r = subprocess.run([ANFORA, "ops"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    check("a full disk", (r.returncode, "", r.stderr), 4, err="cannot write to standard output: No space left")
    r = subprocess.run(["bash", "-c", '"$0" print big.anf | head -c 1 >/dev/null; echo ${PIPESTATUS[0]}', ANFORA],
                       capture_output=True, text=True, check=False)
    check("a reader that has gone", (r.returncode, r.stdout, r.stderr), out="4\n")
    check("no place for the file", anfora("print", "p.anf", "-o", "none/x.ir"), 1, err="E0301.*none/x.ir")
    check("a file that is full", anfora("print", "p.anf", "-o", "/dev/full"), 1, err="E0301.*No space")
    anfora("print", "p.anf", "-o", "x.ir")
    with open("x.ir", encoding="utf-8") as f:
        check("-o", (0, f.read(), ""), out=anfora("print", "p.anf")[1])
    check("the .ir runs", anfora("run", "x.ir:add", "1", "2"), out="3.0\n")
    check("an object of standard input", anfora("build", "-", stdin=b"def main(x: f64) { x * x }"), out="")
    TAP.case("its name", "" if os.path.exists("program.o") and os.path.exists("program.h") else "no program.o, program.h")
    check("help goes before what is wrong", anfora("run", "--wrt", "x", "--help"), out=re.compile("^usage: anfora run"))
    anfora("print", "p.anf", "--as", "dat", "-o", "x.dat")
    check("the .dat runs", anfora("run", "x.dat:add", "1", "2"), out="3.0\n")
    check("ANFORA_DUMP", anfora("check", "p.anf", env={"ANFORA_DUMP": "dump"}), out=re.compile("ok"))
    problem = [e for e in ("ir", "dat", "dot") if not os.path.getsize(f"dump/00_parse.{e}")]
    TAP.case("dumps are there", f"empty: {problem}" if problem else "")
    check("the dump runs", anfora("run", "dump/00_parse.dat", "4"), out="8\n")
    check("a folder that cannot be made", anfora("check", "p.anf", env={"ANFORA_DUMP": "p.anf/dump"}), 1, err="E0301")
    test_stages()
    test_elided()


def test_elided():
    """Texts of stages show large constants by their digest, and are refused where they are read; .dat is exact."""
    numbers = ", ".join(f"{i}.5" for i in range(1025))
    with open("large.anf", "w", encoding="ascii") as f:
        f.write(f"def f(i: i64) {{ Take(f32[1025]([{numbers}]), i) }}")
    check("a large constant runs", anfora("run", "--backend", "llvm", "--dump", "elided", "large.anf", "7"), out="7.5\n")
    for form, code in (("00_parse.ir", "E0107"), (max(os.listdir("elided")), "E0802")):
        text = open(os.path.join("elided", form), encoding="utf-8").read()
        TAP.case(f"{form} elides it", "" if "1025 elements, digest 0x" in text and "77.5" not in text else text)
        check(f"{form} is refused", anfora("check", f"elided/{form}"), 1, err=code)
    check("its .dat runs", anfora("run", "elided/00_parse.dat", "7"), out="7.5\n")


def test_stages():
    with open("slope.anf", "w", encoding="ascii") as f:
        f.write("def f(x: f64[3]) { grad(fn (y) { Sum(Sin(y) * 2.0) })(x) }")
    with open("sum.anf", "w", encoding="ascii") as f:
        f.write("def f(x: f64[3]) { Sum(Sin(x) * 2.0) }")
    for words, folder in ((("run", "--backend", "llvm"), "stages/run"), (("opt",), "stages/opt"), (("grad", "-o", "grad.ir"), "stages/grad"),
                          (("build", "-o", "slope"), "stages/build"), (("print", "--as", "asm"), "stages/print")):
        source = "sum.anf" if words[0] == "grad" else "slope.anf"
        run, built, written = words[0] == "run", words[0] in ("build", "print"), words[0] in ("build", "grad", "print")
        check(f"{words[0]} --dump", anfora(*words, "--dump", folder, source, *(["[1,2,3]"] if run else [])),
              out=re.compile("1.08" if run else "" if written else "Cos"))
        files = sorted(os.listdir(folder))
        stage = {f.split("_", 1)[1]: f.split("_")[0] for f in files}
        order = [stage.get(f"{s}.ir", "none") for s in ("parse", "specialise", "expand")] + [stage.get("lowered.tir", "none")] * (run or built)
        forms = {e for f in files if f.startswith("00_") for e in [f.split(".")[1]]}
        TAP.case(f"stages of {words[0]} are numbered", "" if "none" not in order and order == sorted(set(order)) else repr(files))
        TAP.case(f"stages of {words[0]} in three forms", "" if forms == {"ir", "dat", "dot"} else repr(files))
        expanded = next(f for f in files if f.endswith("_expand.ir"))
        text = open(os.path.join(folder, expanded), encoding="utf-8").read()
        TAP.case(f"stages of {words[0]} have places", "" if f"# {source}:1:" in text or "# gradient" in text else text)
        check("a stage is read again", anfora("run", f"{folder}/{expanded}:{'grad_f' if source == 'sum.anf' else 'f'}", "[1,2,3]"), out=re.compile("1.08"))
    with open("places.anf", "w", encoding="ascii") as f:
        f.write("def f(x: f64, n: i64) {\n  while n > 0 { x = x * x; n = n - 1 }\n  x\n}\n")
    plain, places = (anfora("grad", "places.anf", *words, "-p", "expand")[1] for words in ([], ["--places"]))
    TAP.case("places are comments", "" if re.sub("  # .*", "", places) == plain else places)
    for words in ("# places.anf:2:", "# gradient, ", " of loop body of f"):
        TAP.case("places have " + words, "" if words in places else places)
    with open("escape.anf", "w", encoding="ascii") as f:
        f.write('def f(x) { y\x1b[31m }\ndef g(x) { Assert(x > 0, "\\x1b[31mred") }')
    for got in (anfora("check", "escape.anf"), anfora("run", "escape.anf:g", "-1")):
        TAP.case("bytes of a program do not reach the terminal", repr(got) if "\x1b" in got[2] or not got[2] else "")
    with open("bytes.anf", "wb") as f: # a control character of one byte, and in UTF-8; text turned to the left; a letter of two bytes
        f.write(b'def f(x) { "\x9b31m" + "\xc2\x9b \xe2\x80\xae \xe2\x81\xa6 \xc3\xa9" + y }')
    written = subprocess.run([ANFORA, "check", "bytes.anf"], capture_output=True, check=False).stderr
    TAP.case("bytes that are no text do not either", "" if b'"?31m" + "? ? ? \xc3\xa9"' in written and b"\x9b" not in written else repr(written))


def test_long_programs():
    """Functions that nothing needs, each the last user of a value that was the last to need one more: linear."""
    chain = "".join(f"  def k{i}(a) {{ a + v{i} }}\n  v{i + 1} = map(k{i}, (x,))[0]\n" for i in range(50000))
    check("dead captures of dead captures", anfora("opt", "-p", "dce", "-", stdin=f"def main(x: f64) {{\n  v0 = x\n{chain}  x\n}}".encode()),
          out="def main(x: f64) -> f64 {\n  return x\n}\n")


def test_views():
    check("view: a page by default", anfora("view", "p.anf"), out="p.anf.html\n")
    for end, magic in [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("dot", b"digraph"), ("html", b"<!DOCTYPE html>")]:
        got = anfora("view", "p.anf:spin", "-o", "v." + end)
        with open("v." + end, "rb") as f:
            found = magic in f.read()
        check("view: ." + end, (got[0], str(found), got[2]), out="True")
    check("view: an ending that is none", anfora("view", "p.anf", "-o", "v.gif"), 2, err=r"\.svg")
    check("view: without graphviz", anfora("view", "p.anf", "-o", "w.svg", env={"PATH": "/nowhere"}), 3, err="E0018.*graphviz")
    os.mkdir("bin")
    with open("bin/dot", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexit 1\n")
    os.chmod("bin/dot", 0o755)
    check("view: graphviz fails", anfora("view", "p.anf", "-o", "w.svg", env={"PATH": "bin"}), 1, err="E0019")
    hostile = "$(touch pwned);'`.anf"
    shutil.copy("p.anf", hostile)
    check("view: no shell", anfora("view", hostile, "-o", hostile + ".svg"))
    TAP.case("view: nothing was run", "a shell ran" if os.path.exists("pwned") else "")
    check("view: --focus", anfora("view", "p.anf", "--focus", "spin.%1", "--radius", "1", "-o", "v.dot"))
    check("view: no such node", anfora("view", "p.anf", "--focus", "spin.%99", "-o", "v.dot"), 1, err="E0017")


def complete(*words):
    """What bash offers for the last word."""
    script = 'source anfora.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _anfora; printf "%s\\n" "${COMPREPLY[@]}"'
    r = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=False)
    return sorted(r.stdout.split()) if not r.stderr else [r.stderr]


def test_help():
    commands = re.findall(r"^  ([a-z]+) {2,}", anfora("help")[1].split("Commands")[1].split("Options")[0], re.M)
    for command in commands:
        check("help " + command, anfora("help", command), out=re.compile("usage: anfora " + command))
        check(command + " --help", anfora(command, "--help"), out=anfora("help", command)[1])
    check("--help", anfora("--help"), out=anfora("help")[1])
    check("--version", anfora("--version"), out=anfora("version")[1])
    check("no line is too long", (0, str(max(len(l) for c in [""] + commands for l in anfora(c, "--help")[1].splitlines()) <= 98 if commands else 0), ""), out="True")
    manual = anfora("help", "--man")[1]
    options = set(re.findall(r"--([a-z-]+)", "".join(anfora("help", c)[1] for c in commands)))
    missing = [o for o in options if "\\-\\-" + o.replace("-", "\\-") not in manual]
    TAP.case("the manual page has every option", f"missing: {missing}" if missing else "")
    if shutil.which("groff"):
        r = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=manual, capture_output=True, text=True, check=False)
        check("the manual page has no warning", (r.returncode, r.stdout, r.stderr))
    else:
        TAP.skip("the manual page has no warning", "groff is not here")
    with open("anfora.bash", "w", encoding="utf-8") as f:
        f.write(anfora("help", "--bash")[1])
    for name, words, want in [
        ("commands", ["anfora", "che"], ["check"]), ("options", ["anfora", "run", "--max"], ["--max-depth", "--max-ms", "--max-steps"]),
        ("choices", ["anfora", "print", "p.anf", "--as", "d"], ["dat", "dot"]), ("help of a command", ["anfora", "help", "expl"], ["explain"]),
        ("files", ["anfora", "check", "p.anf.h"], ["p.anf.html"]),
        ("processors", ["anfora", "build", "p.anf", "--cpu", "x86-64-v"], ["x86-64-v2", "x86-64-v3", "x86-64-v4"]),
        ("forms", ["anfora", "build", "p.anf", "--emit", "ob"], ["obj"]), ("passes", ["anfora", "opt", "p.anf", "-p", "speci"], ["specialise"]),
        ("behind =", ["anfora", "run", "p.anf", "--backend", "=", "ll"], ["llvm"]), ("behind = alone", ["anfora", "print", "p.anf", "--color", "="], ["always", "auto", "never"]),
        ("words of cache", ["anfora", "cache", "l"], ["list"]), ("operations", ["anfora", "ops", "LayerN"], ["LayerNorm"]),
    ]:
        got = complete(*words)
        TAP.case("completion: " + name, "" if got == want else f"{got} is not {want}")
    zsh = anfora("help", "--zsh")[1]
    if shutil.which("zsh"):
        r = subprocess.run(["zsh", "-n"], input=zsh, capture_output=True, text=True, check=False)
        check("zsh reads its completion", (r.returncode, r.stdout, r.stderr))
    else:
        TAP.case("zsh has every command", "" if all(f"    {c})" in zsh for c in commands) else zsh)


def test_colour():
    bad = b"def f( {"
    check("no colour in a pipe", (0, str("\033" in anfora("check", "-", stdin=bad)[2]), ""), out="False")
    check("--color always", (0, str("\033[" in anfora("check", "-", "--color", "always", stdin=bad)[2]), ""), out="True")
    check("--color before the command", (0, str("\033[" in anfora("--color=always", "check", "-", stdin=bad)[2]), ""), out="True")
    check("--color never", (0, str("\033" in anfora("check", "-", "--color=never", stdin=bad)[2]), ""), out="False")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("p.anf", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        with open("big.anf", "w", encoding="utf-8") as f:
            f.write("def f(x) {\n" + "  x = x + 1\n" * 20000 + "  x\n}\n")
        for test in (test_running, test_engine_by_work, test_input, test_json_everywhere, test_compiler, test_memory, test_address_space, test_statuses, test_cache_tells_apart, test_json, test_output, test_long_programs, test_views, test_help, test_colour):
            test()
        os.chdir("/")
    TAP.done()


main()
