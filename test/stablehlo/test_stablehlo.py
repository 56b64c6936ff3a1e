#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""StableHLO text: files that check themselves pass in the interpreter and compiled, and fail when what they expect is changed; both
forms of ops, loops, choices and calls give what they are to give, and their gradients; what is damaged or unknown is refused; what is written is read again.
test_stablehlo.py ANFORA"""
import glob
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command import execute  # noqa: E402
from tap import ROOT, Tap  # noqa: E402

FIXTURES = os.path.join(ROOT, "test", "fixtures", "stablehlo")
ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()
FOLDER = tempfile.TemporaryDirectory()


def anfora(*args):
    return execute([ANFORA, *args])


def file_of(text, name="case.mlir"):
    path = os.path.join(FOLDER.name, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def fixture(path, backend):
    r = anfora("run", path + ":main", "--backend", backend)
    return TAP.case(f"{os.path.basename(path)} {backend}", r.stderr if r.returncode else "")


def altered(path):
    """A file with one expected element changed fails, so the checks check."""
    with open(path, encoding="utf-8") as f:
        head, tail = f.read().split("@expected() ->", 1)
    number = re.search(r"dense<.*?(\d)\.", tail) or re.search(r"dense<\[*-?(\d)", tail)
    at = number.start(1) if number else tail.index("true", tail.index("dense<"))
    body = tail[:at] + (("3" if number[1] != "3" else "4") + tail[at + 1:] if number else "false" + tail[at + 4:])
    r = anfora("run", file_of(head + "@expected() ->" + body) + ":main")
    wrong = body == tail or r.returncode != 1 or "E0442" not in r.stderr
    return TAP.case(f"{os.path.basename(path)} with another expected element fails", f"status {r.returncode}: {r.stderr}" if wrong else "")


def function(body, params="%a: tensor<f32>", result="tensor<f32>"):
    return f"func.func @main({params}) -> {result} {{\n{body}\n}}\n"


def gives(name, text, args, want, backends=("interp", "llvm")):
    path = file_of(text)
    for b in backends:
        r = anfora("run", path + ":main", *args, "--backend", b)
        TAP.case(f"{name} {b}", "" if r.returncode == 0 and r.stdout.strip() == want else f"status {r.returncode}: {r.stdout}{r.stderr} instead of {want}")


def refused(name, text, code, *words):
    r = anfora("check", file_of(text))
    good = r.returncode in (1, 3, 4) and code in r.stderr and all(w in r.stderr for w in words)
    return TAP.case(f"{name} is refused with {code}", "" if good else f"status {r.returncode}: {r.stderr}{r.stdout}")


WHILE = """
  %i = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%k = %i, %x = %a) : tensor<i32>, tensor<f64>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.multiply %x, %a : tensor<f64>
      %z = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %z, %y : tensor<i32>, tensor<f64>
    }
  return %0#1 : tensor<f64>"""
UNTIL = """
  %0 = stablehlo.while(%x = %a) : tensor<f64>
    cond {
      %n = stablehlo.constant dense<1.0e2> : tensor<f64>
      %c = stablehlo.compare LT, %x, %n, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %y = stablehlo.multiply %x, %a : tensor<f64>
      stablehlo.return %y : tensor<f64>
    }
  return %0 : tensor<f64>"""
IF = """
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %p = stablehlo.compare GT, %a, %zero : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %0 = "stablehlo.if"(%p) ({
    %y = stablehlo.multiply %a, %a : tensor<f64>
    stablehlo.return %y : tensor<f64>
  }, {
    %y = stablehlo.negate %a : tensor<f64>
    stablehlo.return %y : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  return %0 : tensor<f64>"""
CASE = """
  %0:2 = "stablehlo.case"(%i) ({
    stablehlo.return %a, %a : tensor<f64>, tensor<f64>
  }, {
    %y = stablehlo.negate %a : tensor<f64>
    stablehlo.return %y, %a : tensor<f64>, tensor<f64>
  }) : (tensor<i32>) -> (tensor<f64>, tensor<f64>)
  return %0#0 : tensor<f64>"""
CALLS = """module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> {jax.arg_info = "x"}) -> (tensor<2xf32> {jax.result_info = ""}) {
    %0:2 = call @two(%arg0) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) loc(#loc1)
    %1 = "func.call"(%0#1) <{callee = @one}> : (tensor<2xf32>) -> tensor<2xf32>
    %2 = stablehlo.composite "my.op" %1 {composite_attributes = {k = 1 : i32}, decomposition = @one} : (tensor<2xf32>) -> tensor<2xf32>
    return %2 : tensor<2xf32> loc("here")
  }
  func.func private @two(%arg0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %cst = stablehlo.constant dense<2.0> : tensor<2xf32> // a splat
    %0 = "stablehlo.multiply"(%arg0, %cst) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %arg0, %0 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @one(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
#loc1 = loc("f.py":3:1)
"""
REDUCE = """
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.multiply %y, %y : tensor<f32>
    %2 = stablehlo.multiply %x, %x : tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    %4 = stablehlo.sqrt %3 : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>"""
SORT = """
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>, %p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %2 = stablehlo.compare EQ, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = stablehlo.compare GT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.and %2, %3 : tensor<i1>
    %5 = stablehlo.or %1, %4 : tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) : (tensor<5xi32>, tensor<5xf32>) -> (tensor<5xi32>, tensor<5xf32>)
  return %0#0, %0#1 : tensor<5xi32>, tensor<5xf32>"""
F64 = ("%a: tensor<f64>", "tensor<f64>")


def one(op, params="%a: tensor<2xf32>", result="tensor<2xf32>"):
    return function(f"  %0 = {op}\n  return %0 : {result}", params, result)


def values():
    gives("a loop", function(WHILE, *F64), ["2.0"], "16.0")
    gives("a loop of one value", function(UNTIL, *F64), ["3.0"], "243.0")
    gives("a choice of two, first", function(IF, *F64), ["3.0"], "9.0")
    gives("a choice of two, second", function(IF, *F64), ["-3.0"], "3.0")
    for i, want in ((0, "2.0"), (1, "-2.0"), (-1, "-2.0"), (7, "-2.0")):
        gives(f"case {i}", function(CASE, "%i: tensor<i32>, %a: tensor<f64>", "tensor<f64>"), [str(i), "2.0"], want)
    gives("calls, composites, locations, notes and hex", CALLS, ["[1.0, 2.0]"], "[4.0, 8.0]")
    gives("a reduce with a body of several ops", function(REDUCE, "%a: tensor<2x3xf32>", "tensor<3xf32>"), ["[[3.0, 6.0, 5.0], [4.0, 8.0, 12.0]]"], "[5.0, 10.0, 13.0]")
    gives("a sort by two keys", function(SORT, "%a: tensor<5xi32>, %b: tensor<5xf32>", "(tensor<5xi32>, tensor<5xf32>)"),
          ["[2, 1, 2, 1, 0]", "[1.0, 2.0, 3.0, 4.0, 5.0]"], "([0, 1, 1, 2, 2], [5.0, 4.0, 2.0, 3.0, 1.0])")
    gives("division of integers", one("stablehlo.divide %a, %b : tensor<4xi32>", "%a: tensor<4xi32>, %b: tensor<4xi32>", "tensor<4xi32>"),
          ["[7, -7, -7, 5]", "[2, 2, -2, 0]"], "[3, -3, 3, -1]")
    gives("remainders", one("stablehlo.remainder %a, %b : tensor<4xi32>", "%a: tensor<4xi32>, %b: tensor<4xi32>", "tensor<4xi32>"),
          ["[7, -7, -7, 5]", "[2, 2, -2, 0]"], "[1, -1, -1, 5]")
    gives("floats that no integer holds", one("stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi8>", "%a: tensor<4xf32>", "tensor<4xi8>"),
          ["[nan, 300.0, -300.0, -1.5]"], "[0, 127, -128, -1]")
    gives("a start outside", one("stablehlo.dynamic_slice %a, %b, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>", "%a: tensor<4xi32>, %b: tensor<i32>",
                                 "tensor<2xi32>"), ["[1, 2, 3, 4]", "-5"], "[1, 2]")
    gives("negative padding around a value that is an input",
          one("stablehlo.pad %a, %b, low = [1], high = [-1], interior = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<5xi32>", "%a: tensor<3xi32>, %b: tensor<i32>",
              "tensor<5xi32>"), ["[1, 2, 3]", "9"], "[9, 1, 9, 2, 9]")
    gives("half away from zero", one("stablehlo.round_nearest_afz %a : tensor<4xf64>", "%a: tensor<4xf64>", "tensor<4xf64>"),
          ["[0.5, -2.5, 0.49999999999999994, -0.2]"], "[1.0, -3.0, 0.0, -0.0]")
    gives("shardings, which are notes", """module @m {
  sdy.mesh @one = <[], device_ids=[0]> {stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}}
  sdy.mesh @two = <["x"=1]>
""" + one("stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@one, [{}]>]>} : tensor<2xf32>") + "}", ["[1.0, 2.0]"], "[2.0, 4.0]")
    gives("a splat of a megabyte", one("stablehlo.constant dense<1.5> : tensor<512x512xf32>", "", "tensor<512x512xf32>").replace(
        "  return %0 : tensor<512x512xf32>", "  %s = stablehlo.slice %0 [3:5, 7:8] : (tensor<512x512xf32>) -> tensor<2x1xf32>\n  return %s : tensor<2x1xf32>").replace(
        "-> tensor<512x512xf32> {", "-> tensor<2x1xf32> {"), [], "[[1.5], [1.5]]")


def checks_within():
    """What a called function and the body of a loop check is checked, though nothing reads their results, in a derivative too."""
    check = "stablehlo.custom_call @check.expect_eq(%y, %two) {has_side_effect = true} : (tensor<f64>, tensor<f64>) -> ()"
    called = "  %0 = call @f(%a, %two) : (tensor<f64>, tensor<f64>) -> tensor<f64>"
    looped = f"""  %0 = stablehlo.while(%y = %a) : tensor<f64>
  cond {{
    %p = stablehlo.compare LT, %y, %two : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    {check}
    stablehlo.return %two : tensor<f64>
  }}"""
    for name, body, passes, fails in ("function", called, "2.0", "3.0"), ("loop", looped, "5.0", "1.5"):
        path = file_of(function("  %two = stablehlo.constant dense<2.0> : tensor<f64>\n" + body + "\n  return %a : tensor<f64>", "%a: tensor<f64>", "tensor<f64>")
                       + f"func.func private @f(%y: tensor<f64>, %two: tensor<f64>) -> tensor<f64> {{\n  {check}\n  return %y : tensor<f64>\n}}\n")
        for options in ["--backend", "interp"], ["--backend", "llvm"], ["--backend", "interp", "--grad"], ["--backend", "llvm", "--grad"]:
            good, bad = (anfora("run", path + ":main", x, *options) for x in (passes, fails))
            wrong = good.returncode or bad.returncode != 1 or "E0442" not in bad.stderr
            TAP.case(f"a check in a {name} {' '.join(options[1:])}", f"{good.stdout}{good.stderr}; {bad.stdout}{bad.stderr}" if wrong else "")


def lapack(name, config, operands, results):
    """One call of LAPACK, as JAX writes it, of operands a, b, .. and all of its results."""
    ins, outs = (", ".join(f"tensor<{t}>" for t in types) for types in (operands, results))
    names = [f"%{c}" for c in "abc"[:len(operands)]]
    call = (f"  %0:{len(results)} = stablehlo.custom_call @lapack_{name}_ffi({', '.join(names)}) {{backend_config = \"\", mhlo.backend_config = {{{config}}}, "
            f"operand_layouts = [dense<[0, 1]> : tensor<2xindex>]}} : ({ins}) -> ({outs})\n")
    values = ", ".join(f"%0#{i}" for i in range(len(results)))
    return function(call + f"  return {values} : {outs}", ", ".join(f"{n}: tensor<{t}>" for n, t in zip(names, operands)), f"({outs})")


def linear_algebra():
    """Calls of LAPACK; the half of a matrix that is not read keeps what it has, and `info` tells where there is no factor."""
    m, i = "2x2xf64", "i32"
    potrf, getrf = (lambda uplo: lapack("dpotrf", f"uplo = {uplo} : ui8", [m], [m, i])), lapack("dgetrf", "", [m], [m, "2xi32", i])
    gives("potrf of the lower half", potrf(76), ["[[4, 9], [2, 5]]"], "([[2.0, 9.0], [1.0, 2.0]], 0)")
    gives("potrf of the upper half", potrf(85), ["[[4, 2], [9, 5]]"], "([[2.0, 1.0], [9.0, 2.0]], 0)")
    gives("potrf of what has no factor", potrf(76), ["[[-1, 0], [0, 1]]"], "([[nan, 0.0], [nan, nan]], 1)")
    gives("getrf", getrf, ["[[1, 2], [4, 4]]"], "([[4.0, 4.0], [0.25, 1.0]], [2, 2], 0)")
    gives("getrf of a singular matrix", getrf, ["[[1, 2], [2, 4]]"], "([[2.0, 4.0], [0.5, 0.0]], [2, 2], 2)")
    gives("getrf of a batch", lapack("sgetrf", "", ["2x1x2xf32"], ["2x1x2xf32", "2x1xi32", "2xi32"]), ["[[[1, 2]], [[0, 4]]]"], "([[[1.0, 2.0]], [[0.0, 4.0]]], [[1], [1]], [0, 1])")
    gives("trsm from the right", lapack("dtrsm", "diag = 85 : ui8, side = 82 : ui8, trans_x = 84 : ui8, uplo = 85 : ui8", [m, "1x2xf64"], ["1x2xf64"]).replace("%0#0", "%0"),
          ["[[7, 2], [9, 7]]", "[[5, 1]]"], "[[3.0, 1.0]]")
    gives("geqrf", lapack("dgeqrf", "", ["2x1xf64"], ["2x1xf64", "1xf64"]), ["[[3], [4]]"], "([[-5.0], [0.5]], [1.6])")
    gives("orgqr", lapack("dorgqr", "", [m, "1xf64"], [m]).replace("%0#0", "%0"), ["[[-5, 7], [0.5, 7]]", "[1.6]"], "[[-0.6000000000000001, -0.8], [-0.8, 0.6]]")
    gives("gesdd with whole bases", lapack("dgesdd", "mode = 65 : ui8", ["2x1xf64"], ["2x1xf64", "1xf64", m, "1x1xf64", i]), ["[[0], [2]]"],
          "([[0.0], [2.0]], [2.0], [[-0.0, -1.0], [1.0, 0.0]], [[1.0]], 0)")
    text = lapack("dsyevd", "mode = 86 : ui8, uplo = 76 : ui8", [m], [m, "2xf64", i])
    gives("syevd of the lower half", text.replace("return %0#0, %0#1, %0#2 : tensor<2x2xf64>, tensor<2xf64>, tensor<i32>", "return %0#1 : tensor<2xf64>")
          .replace("-> (tensor<2x2xf64>, tensor<2xf64>, tensor<i32>) {\n", "-> tensor<2xf64> {\n"), ["[[1, 9], [0, 3]]"], "[1.0, 3.0]")
    refused("a triangle that is none", potrf(90), "E1055", "a triangle that is not L or U")
    refused("a setting that is not known", lapack("dgetrf", "extra = 1 : i32", [m], [m, "2xi32", i]), "E1224", "the attribute extra")
    refused("matrices of complex numbers", lapack("zgetrf", "", ["2x2xcomplex<f64>"], ["2x2xcomplex<f64>", "2xi32", i]), "E0506")


# x^2 y with its own rules, whose factors 5 and 7 are wrong; %k is an integer, which has no tangent
RULE = """
func.func @main(%a: tensor<f64>, %k: tensor<i64>) -> tensor<f64> {
  %0 = stablehlo.custom_call @anfora.NAME(%k, %a, %a) {called_computations = [NAMES], anfora.captured = 0 : i64} : (tensor<i64>, tensor<f64>, tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func private @f(%k: tensor<i64>, %x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.multiply %x, %x : tensor<f64>
  %1 = stablehlo.multiply %0, %y : tensor<f64>
  return %1 : tensor<f64>
}
func.func private @jvp(%k: tensor<i64>, %x: tensor<f64>, %y: tensor<f64>, %tx: tensor<f64>, %ty: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %0 = call @f(%k, %x, %y) : (tensor<i64>, tensor<f64>, tensor<f64>) -> tensor<f64>
  %5 = stablehlo.constant dense<5.0> : tensor<f64>
  %7 = stablehlo.constant dense<7.0> : tensor<f64>
  %1 = stablehlo.multiply %tx, %5 : tensor<f64>
  %2 = stablehlo.multiply %ty, %7 : tensor<f64>
  %3 = stablehlo.add %1, %2 : tensor<f64>
  return %0, %3 : tensor<f64>, tensor<f64>
}
func.func private @fwd(%k: tensor<i64>, %x: tensor<f64>, %y: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %0 = call @f(%k, %x, %y) : (tensor<i64>, tensor<f64>, tensor<f64>) -> tensor<f64>
  return %0, %x : tensor<f64>, tensor<f64>
}
func.func private @bwd(%x: tensor<f64>, %d: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %5 = stablehlo.constant dense<5.0> : tensor<f64>
  %0 = stablehlo.multiply %d, %5 : tensor<f64>
  %1 = stablehlo.multiply %d, %x : tensor<f64>
  return %0, %1 : tensor<f64>, tensor<f64>
}
"""


def rule(name, *functions):
    return RULE.replace("NAMES", ", ".join("@" + f for f in functions)).replace("NAME", name)


def rules():
    """Calls with derivative rules of their own."""
    for name, text, want in (("a forward rule", rule("custom_jvp", "f", "jvp"), "12.0"), ("a backward rule", rule("custom_vjp", "f", "fwd", "bwd"), "7.0"),
                             ("what is computed again", rule("checkpoint", "f"), "12.0")):
        gives(name, text, ["2.0", "3"], "8.0")
        r = anfora("grad", file_of(text) + ":main", "--wrt", "a", "-o", os.path.join(FOLDER.name, "grad.anf"))
        r = r if r.returncode else anfora("run", os.path.join(FOLDER.name, "grad.anf") + ":grad_main", "2.0", "3")
        TAP.case(f"the gradient of {name}", "" if want in r.stdout else f"{r.stdout}{r.stderr} instead of {want}")
    refused("a rule that is nowhere", rule("custom_jvp", "f", "g"), "E1224", "not in this module")
    refused("a rule less", rule("custom_vjp", "f", "fwd"), "E1224", "not in this module")
    refused("a rule of another function", rule("custom_jvp", "f", "bwd"), "E1224", "other arguments")
    refused("a rule without tangents", rule("custom_jvp", "f", "f"), "E1224", "other arguments")
    refused("a backward rule that is none", rule("custom_vjp", "f", "fwd", "fwd"), "E1224", "other arguments")
    refused("a function of other arguments", rule("custom_jvp", "bwd", "jvp"), "E1224", "other arguments")
    refused("more captured values than arguments", rule("custom_vjp", "f", "fwd", "bwd").replace("captured = 0", "captured = 9"), "E1224", "other arguments")
    refused("a negative number of captured values", rule("custom_vjp", "f", "fwd", "bwd").replace("captured = 0", "captured = -1"), "E1224", "other arguments")


def gradients():
    """Reverse mode through loops that depend on data."""
    for name, text, x, want in (("a loop", function(WHILE, *F64), "2.0", "32.0"), ("a loop until", function(UNTIL, *F64), "3.0", "405.0"),
                                ("a choice", function(IF, *F64), "3.0", "6.0")):
        out = os.path.join(FOLDER.name, "grad.anf")
        r = anfora("grad", file_of(text) + ":main", "-o", out)
        if r.returncode:
            TAP.case(f"the gradient of {name}", r.stderr)
            continue
        r = anfora("run", out + ":grad_main", x)
        TAP.case(f"the gradient of {name}", "" if r.stdout.strip().endswith(want) else f"{r.stdout}{r.stderr} instead of {want}")


def refusals():
    refused("text of another kind", "hello", "E1220", "a function")
    refused("an op without types", function("  %0 = stablehlo.add %a, %a\n  return %0 : tensor<f32>"), "E1220", ":3:3:")
    refused("a function without an end", "func.func @main() -> tensor<f32> {", "E1220")
    refused("a text without an end", 'module @"abc', "E1220", "the end of a text")
    refused("a mesh without a name", "module { sdy.mesh = <[]> }", "E1220", "@")
    refused("a module whose name is none", "module @? { }", "E1220", "the name of a module")
    refused("a value defined twice", function("  %0 = stablehlo.add %a, %a : tensor<f32>\n  %0 = stablehlo.multiply %a, %a : tensor<f32>\n  return %0 : tensor<f32>"),
            "E1223", ":3:3:", "%0 is defined twice")
    refused("a parameter defined twice", "func.func @main(%a: tensor<f32>, %a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }", "E1223")
    refused("lists deeper than the type", one("stablehlo.constant dense<[[1]]> : tensor<1xi32>", "", "tensor<1xi32>"), "E1220", "as deep as")
    refused("an integer too large", one("stablehlo.constant dense<300> : tensor<i8>", "", "tensor<i8>"), "E1220", "the element type holds")
    refused("a rank of 40", one("stablehlo.abs %a", "%a: tensor<f32>", f"tensor<{'1x' * 40}f32>"), "E0507")
    refused("regions that nest", function('  %0 = "stablehlo.case"(%a) (' + "{" * 100), "E1220")
    refused("deep regions", function(('  %0 = "stablehlo.map"(%a) ({\n' * 100)), "E1220", "nest so deeply")
    refused("deep attributes", function("  %0 = stablehlo.add %a, %a {x = " + "[" * 10000), "E1220", "nest so deeply")
    refused("what has no operation", function('  %0 = "stablehlo.all_reduce"(%a) ({\n  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n    stablehlo.return %x : tensor<f32>\n'
                                              '  }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<f32>) -> tensor<f32>\n'
                                              '  %1 = stablehlo.custom_call @lapack_sgeev(%0) : (tensor<f32>) -> tensor<f32>\n'
                                              '  %2 = stablehlo.custom_call @lapack_sgeev(%1) : (tensor<f32>) -> tensor<f32>\n  return %2 : tensor<f32>'),
            "E1221", "stablehlo.all_reduce is not", ":2:", "custom_call @lapack_sgeev", "(2 operations)")
    for t in ("tensor<4x!quant.uniform<i8:f32, 0.1>>", "tensor<*xf32>", "!stablehlo.token", "tensor<4xf8E4M3FN>", "tensor<4xf32, #stablehlo.bounds<4>>"):
        refused(t, function("  return %a : " + t, "%a: " + t, t), "E1222")
    refused("a value that is nowhere", function("  return %b : tensor<f32>"), "E1223", "%b")
    refused("a result that there is not", function("  %0 = stablehlo.negate %a : tensor<f32>\n  return %0#1 : tensor<f32>"), "E1223", "%0")
    refused("a function twice", function("  return %a : tensor<f32>") * 2, "E1223", "twice")
    refused("an attribute that means something", one("stablehlo.negate %a {colour = 3 : i32} : tensor<2xf32>"), "E1224", "colour")
    refused("a body that is not elementwise", function(REDUCE.replace("stablehlo.sqrt %3 : tensor<f32>", "stablehlo.reshape %3 : (tensor<f32>) -> tensor<1xf32>"),
                                                       "%a: tensor<2x3xf32>", "tensor<3xf32>"), "E1224", "elementwise")
    refused("a call of nothing", function("  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>"), "E1224", "not in this module")
    refused("a result of another shape", one("stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>", "%a: tensor<2x3xf32>", "tensor<2x3xf32>"),
            "E1225", "f32[3, 2]", "f32[2, 3]")
    refused("too few elements", one("stablehlo.constant dense<[1, 2]> : tensor<3xi32>", "", "tensor<3xi32>"), "E1226")
    refused("too few bytes", one('stablehlo.constant dense<"0x0102"> : tensor<900000000000xi32>', "", "tensor<900000000000xi32>"), "E1226")
    refused("more elements than there is text", one("stablehlo.constant dense<[1, 2]> : tensor<9000000000000xi32>", "", "tensor<9000000000000xi32>"), "E1226")


# ---- writing ----

PROGRAMS = """
def net(x: f32[4, 3], w: f32[3, 5]) { y = Tanh(x @ w); s = Softmax(y, axis=-1); (Sum(s * s), {best = ArgMax(y, axis=1)}) }
def conv(x: f64[2, 4, 8, 8], w: f64[6, 2, 3, 3]) { Sum(MaxPool2D(Relu(Conv2D(x, w, stride=2, padding=1, groups=2)), kernel=2) ** 2) }
def counted(x: f64) { y = x; for i in 0..7 { y = Sin(y) * x }; y }
def nested(w: f64[3], x: f64) {
  y = x
  for i in 0..4 { z = y; for k in 0..3 { z = w[k] * z + Sin(y) }; y = z / 2 }
  y
}
def until(x: f64) { if x > 1 { y = x; while y > 1 { y = y / 2 }; y * x } else { x * 3 } }
def recursive(n: i64) -> i64 { if n < 2 { n } else { recursive(n - 1) + recursive(n - 2) } }
def open(x: f64[N]) { Sum(x) }
def loud(x: f64) { Print(x); x }
def root(x: f64) { y = x; while Abs(y * y - x) > 0.001 { y = (y + x / y) / 2 }; y }
"""


def written(name, args, gradient=True):
    """A function, and its gradient, written as text and read again, give the same."""
    path, to = file_of(PROGRAMS, "programs.anf"), os.path.join(FOLDER.name, "written.mlir")
    for grad in (False, True)[:1 + gradient]:
        made = anfora(*(["grad"] if grad else ["import"]), f"{path}:{name}", "-o", to)
        want = anfora("run", f"{path}:{name}", *args, *(["--grad"] if grad else []))
        for b in ("interp", "llvm"):
            got = anfora("run", to + ":main", *args, "--backend", b)
            numbers = [[float(x) for x in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", t.stdout)] for t in (got, want)]
            near = len(numbers[0]) == len(numbers[1]) > 0 and all(abs(p - q) <= 1e-5 * max(1, abs(q)) for p, q in zip(*numbers))
            TAP.case(f"{name}{' gradient' if grad else ''} written {b}", "" if near else made.stderr + got.stderr + got.stdout + want.stdout)


def no_form(name, what, *words):
    path = file_of(PROGRAMS, "programs.anf")
    r = anfora(what, f"{path}:{name}", "-o", os.path.join(FOLDER.name, "none.mlir"))
    good = r.returncode == 3 and "E1330" in r.stderr and all(w in r.stderr for w in words)
    TAP.case(f"{name} cannot be written by {what}", "" if good else f"status {r.returncode}: {r.stderr}")


def tensor_text(*dims):
    """Numbers for a tensor of these dims."""
    count = iter(range(1, 100000))

    def part(k):
        return str(next(count) * 37 % 101 / 50 - 1) if k == len(dims) else "[" + ", ".join(part(k + 1) for _ in range(dims[k])) + "]"
    return part(0)


def writing():
    written("net", [tensor_text(4, 3), tensor_text(3, 5)], gradient=False)
    written("conv", [tensor_text(2, 4, 8, 8), tensor_text(6, 2, 3, 3)])
    written("counted", ["0.7"])
    written("nested", ["[0.5, -0.25, 1.5]", "0.7"])
    written("until", ["5.0"], gradient=False)
    written("until", ["0.5"], gradient=False)
    written("root", ["2.0"], gradient=False)
    no_form("recursive", "import", "a recursion that is no loop")
    no_form("open", "import", "sizes are not known")
    no_form("loud", "import", "Print")
    no_form("root", "grad", "any number of them")


def main():
    for path in sorted(glob.glob(os.path.join(FIXTURES, "*.mlir"))):
        for backend in ("interp", "llvm"):
            fixture(path, backend)
        altered(path)
    values()
    gradients()
    checks_within()
    linear_algebra()
    rules()
    refusals()
    writing()
    TAP.done()


main()
