#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Expressions by the command: values with PyTorch's rules, the forms of pnnx, malformed text. test_expr.py ANFORA"""
import json
import math
import os
import tempfile

import numpy as np

from model import Tap, anfora

TAP = Tap()


def value(text, *inputs, warns=False):
    r = anfora("expr", text, *map(str, inputs), "--json")
    if r.returncode or ("W0101" in r.stderr) != warns:
        return f"status {r.returncode}\n{r.stdout}{r.stderr}"
    return json.loads(r.stdout)["result"]


def gives(text, inputs, want, warns=False):
    got = value(text, *inputs, warns=warns)
    good = not isinstance(got, str) if not isinstance(want, str) else True
    if good and isinstance(want, float):
        good = isinstance(got, float) and (math.isclose(got, want, rel_tol=1e-12) or (math.isnan(got) and math.isnan(want)))
    elif good:
        good = got == want and type(got) is type(want)
    TAP.case(f"{text} of {inputs}", "" if good else f"{got!r} is not {want!r}")


def refused(text, code, place, words, inputs=(2, 3)):
    """An error with its code, its column, what was found and what was expected."""
    r = anfora("expr", text, *map(str, inputs), "--json")
    errors = json.loads(r.stdout)["error"] if r.stdout.startswith("{") else []
    error = next((e for e in errors if e["severity"] == "error"), {"code": "", "col": 0, "message": "", "hint": ""})
    said = error["message"] + " " + error["hint"]
    good = r.returncode == 1 and error["code"] == code and error["col"] == place and all(w in said for w in words)
    TAP.case(f"refused: {text!r}", "" if good else f"status {r.returncode}\n{r.stdout}{r.stderr}")


# The seed, and the cases of KuiperInfer's test_expression.cpp
for text, inputs, want in [
    ("add(mul(@0,@1),@2)", (2, 3, 4), 10),
    ("mul(@2, add(@0, @1))", (2, 3, 4), 20),
    ("add(add(mul(@0, @1), mul(@2, add(add(add(@0, @2), @3), @4))), @5)", (1, 2, 3, 4, 5, 6), 47),
    ("add(@0,@1)", (1, 1), 2),
    ("add(@0,@1)", (2, 3), 5),
    ("mul(@0,@1)", (2, 3), 6),
    ("mul(@2,add(@0,@1))", (2, 3, 4), 20),
    ("mul(add(@0,@1),add(@2,@3))", (2, 3, 4, 4), 40),
    ("mul(mul(@0,@1),add(@2,@3))", (2, 3, 4, 4), 48),
    ("mul(mul(@0,@1), mul(@2,@3))", (2, 3, 4, 4), 96),
    ("mul(mul(@0,@1), mul(@2,add(@3,@4)))", (1, 2, 3, 4, 5), 54),
    ("mul(mul(@0,@1), mul(@2,mul(@3,@4)))", (1, 2, 3, 4, 5), 120),
    ("sqrt(div(add(mul(@0,2),@1),12))", (3, 42), 2.0),
]:
    gives(text, inputs, want)

# Numbers, as Python and PyTorch have them
for text, want in [
    ("floor_divide(-7,2)", -4), ("remainder(-7,2)", 1), ("remainder(7,-2)", -1), ("fmod(-7,2)", -1), ("div(7,2)", 3.5),
    ("mul(65536,65536)", 4294967296), ("lshift(1,40)", 1 << 40), ("rshift(-8,1)", -4), ("abs(-3)", 3), ("abs(-3.5)", 3.5),
    ("round(2.5)", 2), ("round(3.5)", 4), ("ceil(2.1)", 3), ("floor(-2.1)", -3), ("trunc(-2.9)", -2), ("int(2.9)", 2),
    ("int(-2.9)", -2), ("torch.long(2.5)", 2), ("torch.float(2)", 2.0), ("torch.bool(3)", True), ("pow(2,10)", 1024),
    ("pow(2,-1)", 0.5), ("pow(2.0,0.5)", math.sqrt(2)), ("and(6,3)", 2), ("or(6,3)", 7), ("xor(6,3)", 5), ("and(True,False)", False),
    ("add(True,True)", 2), ("max(2,3.5)", 3.5), ("min(2,3)", 2), ("neg(4)", -4), ("sign(-3)", -1), ("square(5)", 25),
    ("sqrt(2)", math.sqrt(2)), ("rsqrt(4)", 0.5), ("reciprocal(4)", 0.25), ("exp(1)", math.e), ("log(10)", math.log(10)),
    ("log10(1000)", 3.0), ("log1p(1)", math.log(2)), ("expm1(1)", math.expm1(1)), ("erf(1)", math.erf(1)), ("sin(1)", math.sin(1)),
    ("cos(1)", math.cos(1)), ("tan(1)", math.tan(1)), ("asin(1)", math.pi / 2), ("acos(0)", math.pi / 2), ("atan(1)", math.pi / 4),
    ("sinh(1)", math.sinh(1)), ("cosh(1)", math.cosh(1)), ("tanh(1)", math.tanh(1)), ("asinh(1)", math.asinh(1)),
    ("acosh(2)", math.acosh(2)), ("atanh(0.5)", math.atanh(0.5)), ("atan2(1,2)", math.atan2(1, 2)),
    ("logaddexp(1,2)", float(np.logaddexp(1, 2))), ("logaddexp(3,3)", 3 + math.log(2)), ("maximum(1,2)", 2), ("minimum(1,2)", 1),
    ("sub(1,2147483648)", -2147483647), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("True", True),
    ("None", None), ("1.000000e-5", 1e-5), ("0.353553385", 0.353553385), ("inf", "inf"), ("-inf", "-inf"), ("nan", "nan"),
    ("2.000000e+00+3.000000e+00j", [2.0, 3.0]), ("0.0+-1.0e+00j", [0.0, -1.0]), ("[1,[2,None],[]]", [1, [2, None], []]),
    ("logaddexp(inf,inf)", "inf"), ("logaddexp(-inf,-inf)", "-inf"),
]:
    gives(text, (), want)
gives("[size(@0,0),2,mul(size(@0,1),size(@0,-1)),-1]", ("[[1,2,3],[4,5,6]]",), [2, 2, 9, -1])
gives("size(@0)", ("[[1,2,3],[4,5,6]]",), [2, 3])

# The forms that pnnx writes against its own grammar
gives("mul(expm1,@0),@1", (1.0, 2.0), 2 * math.expm1(1), warns=True)
gives("mul(log1p,@0),@1", (1.0, 2.0), 2 * math.log(2), warns=True)
gives("sub(@1,log1p),@0", (1.0, 2.0), 2 - math.log(2), warns=True)
gives("sub(@0,,mul(@1,2))", (2, 3), -4, warns=True)
gives("sub(,mul(@0,2),@1)", (2, 3), 1, warns=True)
gives("add(mul(@0,2),@1,1)", (2, 3), 7, warns=True)
gives("sub(@0,@1,3)", (2, 3), -7, warns=True)
gives("size(@0,0),size(@0,1)", ("[[1,2,3],[4,5,6]]",), [2, 3], warns=True)

# Malformed text: code, column, what is said
for text, code, column, words in [
    ("", "E1001", 1, ["empty"]),
    (" ", "E1001", 1, ["empty"]),
    ("add(@0,@1", "E1003", 10, ["the end", "')'"]),
    ("add@0,@1)", "E1003", 4, ["'@0'", "'('"]),
    ("add(@0 @1)", "E1003", 8, ["'@1'", "','"]),
    ("mul(@0,,@1)", "E1003", 8, ["','", "an operand"]),
    ("add)@0,@1(", "E1003", 4, ["')'", "'('"]),
    ("add(@0,#)", "E1002", 8, ["'#'"]),
    ("add(@0,é)", "E1002", 8, ["'é'"]),
    ("foo(@0,@1)", "E1006", 1, ["'foo'"]),
    ("add(@0,mull(@1,2))", "E1006", 8, ["'mull'", "'mul'"]),
    ("add(@0,@9)", "E1005", 8, ["'@9'", "2 inputs"]),
    ("@99999999999", "E1005", 1, ["'@99999999999'"]),
    ("@99999999999999999999999", "E1005", 1, ["2 inputs"]),
    ("@", "E1003", 2, ["the end", "number of an input"]),
    ("@x", "E1003", 2, ["'x'", "number of an input"]),
    ("@-1", "E1003", 2, ["'-'", "number of an input"]),
    ("mul(@0)", "E1003", 7, ["')'", "mul takes 2 operands"]),
    ("mul(@0,@1,@1)", "E1003", 10, ["','", "mul takes 2 operands"]),
    ("mul(@0,@1),@1", "E1003", 11, ["','", "the end of the expression"]),
    ("add(@0,@1) @1", "E1003", 12, ["'@1'", "the end of the expression"]),
    ("add(@0,@1))", "E1003", 11, ["')'", "the end of the expression"]),
    ("add(@0,@1]", "E1003", 10, ["']'", "')'"]),
    ("[@0,@1", "E1003", 7, ["the end", "']'"]),
    ("[@0,@1)", "E1003", 7, ["')'", "']'"]),
    ("[@0,]", "E1003", 5, ["']'", "an operand"]),
    ("neg()", "E1003", 5, ["')'", "an operand"]),
    ("neg", "E1003", 4, ["the end", "'('"]),
    ("expm1", "E1003", 6, ["the end", "'('"]),
    ("mul(expm1,@0),@1,@1", "E1003", 18, ["'@1'", "the end of the expression"]),
    ("mul(expm1,@0)", "E1003", 14, ["the end", "another operand"]),
    ("mul(expm1,[@0]),@1", "E1003", 11, ["'['"]),
    ("size(@0,0),@1", "E1003", 11, ["','"]),
    ("1e999", "E1004", 1, ["1e999"]),
    ("99999999999999999999", "E1004", 1, ["99999999999999999999"]),
    ("1.5e", "E1002", 4, ["'e'"]),
    ("3x", "E1002", 2, ["'x'"]),
    ("1.0+2.0", "E1003", 8, ["'j'"]),
    ("add([1,2],3)", "E1007", 1, ["add", "a list"]),
    ("add(None,3)", "E1007", 1, ["None"]),
    ("size(3)", "E1007", 1, ["size"]),
    ("floor_divide(1,0)", "E0401", 1, ["zero"]),
    ("remainder(1,0)", "E0401", 1, ["zero"]),
    ("and(1.5,2)", "E0506", 1, ["BitAnd"]),
]:
    refused(text, code, column, words)
refused("add(@0,@1)", "E1008", 1, ["2 inputs"], inputs=())
refused("@4294967296", "E1004", 1, ["out of range"], inputs=())
gives("floor_divide(-9223372036854775808,-1)", (), -(2**63))

# Line and column in a file; depth; the drawing
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("two.txt", "w", encoding="utf-8") as f:
        f.write("add(@0,\n    mul(@1,!))\n")
    r = anfora("expr", "--file", "two.txt", "2", "3")
    TAP.case("the place in a file", "" if r.returncode == 1 and "two.txt:2:12: error E1002" in r.stderr else r.stderr)
    with open("deep.txt", "w", encoding="utf-8") as f:
        f.write("add(" * 10**6 + "@0" + ",1)" * 10**6)
    r = anfora("expr", "--file", "deep.txt", "2", "--json")
    TAP.case("a million nested calls", "" if r.returncode == 0 and json.loads(r.stdout)["result"] == 1000002 else r.stderr[:500])
    with open("deep.txt", "w", encoding="utf-8") as f:
        f.write("[" * 10**6 + "]" * 10**6)
    r = anfora("expr", "--file", "deep.txt")
    TAP.case("a million nested lists", "" if r.returncode == 0 else r.stderr[:500])
    os.chdir("/")
r = anfora("expr", "add(@0,mul(@1,@2))")
want = """tokens
  0..3 operator add
  3..4 left bracket (
  4..6 input number @0
  6..7 comma ,
  7..10 operator mul
  10..11 left bracket (
  11..13 input number @1
  13..14 comma ,
  14..16 input number @2
  16..17 right bracket )
  17..18 right bracket )
tree
  add
    @0
    mul
      @1
      @2
reverse Polish
  @0 @1 @2 mul add
"""
TAP.case("tokens, tree and reverse Polish form of the seed's example", "" if r.stdout == want else r.stdout + r.stderr)
r = anfora("expr", "add(@0,2)", "--dot")
good = "digraph" in r.stdout and "n0 -> n1" in r.stdout and "n0 -> n2" in r.stdout and 'label="@0"' in r.stdout
TAP.case("the tree for graphviz", "" if good else r.stdout)
TAP.done()
