#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py FOLDER FLOOR: the rules of FOLDER/*.def as theorems of bit vectors, by z3.

    (Sub (Add x y) y)  ->  x,  exact x          for all x, y of 8 and 16 bits, signed and unsigned:  (x + y) - y = x

Elementwise rules of integers and bools are proved; the others are listed with the reason. FLOOR is how many must be. A
planted rule that is wrong must be found. Operands have the root's type; shapes are not looked at, for both sides are elementwise."""
import glob, re, sys
import z3

ROW = re.compile(r'^ANF_RULE\((\w+),\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\)', re.M)
TOKEN = re.compile(r'[()]|[^\s()]+')


class OutOfReach(Exception):
    pass


def parse(text):
    stack = [[]]
    for t in TOKEN.findall(text):
        if t == "(": stack.append([])
        elif t == ")": top = stack.pop(); stack[-1].append(top)
        else: stack[-1].append(t)
    return stack[0][0]


class Meaning:
    """Ops on one type: bools, or integers of some bits."""
    def __init__(self, bits, signed):
        self.bits, self.signed, self.var = bits, signed, {}

    def variable(self, name):
        if name not in self.var:
            self.var[name] = z3.BitVec(name, self.bits) if self.bits else z3.Bool(name)
        return self.var[name]

    def number(self, text):
        if text in ("-0", "0.5"): raise OutOfReach("a float constant")
        n = int(text)
        if not self.bits: return z3.BoolVal(bool(n))
        if n < 0 and not self.signed: raise OutOfReach("negative constant")
        return z3.BitVecVal(n, self.bits)

    def of(self, e):
        if isinstance(e, str):
            return self.number(e) if re.match(r'^-?[\d.]+$', e) else self.variable(e.split(":")[0])
        if any(isinstance(x, str) and x.startswith(":") for x in e): raise OutOfReach("attributes")
        f = getattr(self, e[0], None)
        if not f: raise OutOfReach(f"{e[0]}: floats or shapes")
        return f(*[self.condition(x) if e[0] == "Where" and i == 0 else self.of(x) for i, x in enumerate(e[1:])])

    def condition(self, e):
        """Of a Where: a bool (E0501), whatever it chooses."""
        if isinstance(e, list): return self.of(e)
        if re.match(r'^[01]$', e): return z3.BoolVal(e == "1")
        return self.var.setdefault(e, z3.Bool(e))

    def ints(self):
        if not self.bits: raise OutOfReach("arithmetic of bools is not of bools")

    def less(self, x, y):
        if isinstance(x, z3.BoolRef): return z3.And(z3.Not(x), y)
        return x < y if self.signed else z3.ULT(x, y)

    def ZerosLike(self, x): return z3.BitVecVal(0, self.bits) if self.bits else z3.BoolVal(False)
    def OnesLike(self, x): return z3.BitVecVal(1, self.bits) if self.bits else z3.BoolVal(True)
    def Add(self, x, y): self.ints(); return x + y
    def Sub(self, x, y): self.ints(); return x - y
    def Mul(self, x, y): self.ints(); return x * y
    def Neg(self, x): self.ints(); return -x
    def Square(self, x): self.ints(); return x * x
    def Fma(self, x, y, z): self.ints(); return x * y + z
    def Abs(self, x): self.ints(); return z3.If(x < 0, -x, x) if self.signed else x
    def Sign(self, x):
        self.ints()
        one, zero = z3.BitVecVal(1, self.bits), z3.BitVecVal(0, self.bits)
        return z3.If(x == 0, zero, z3.If(x < 0, -one, one) if self.signed else one)
    def Relu(self, x): self.ints(); return z3.If(x < 0, x * 0, x) if self.signed else x
    def FloorDiv(self, x, y):
        self.ints()
        if not self.signed: return z3.UDiv(x, y)
        q = x / y
        return z3.If(z3.And(z3.SRem(x, y) != 0, (x < 0) != (y < 0)), q - 1, q)
    def Mod(self, x, y): return x - self.FloorDiv(x, y) * y
    def Floor(self, x): self.ints(); return x
    Ceil = Round = Trunc = Floor
    def Maximum(self, x, y): return z3.If(self.less(x, y), y, x)
    def Minimum(self, x, y): return z3.If(self.less(x, y), x, y)
    def Equal(self, x, y): return x == y
    def NotEqual(self, x, y): return x != y
    def Less(self, x, y): return self.less(x, y)
    def Greater(self, x, y): return self.less(y, x)
    def LessEqual(self, x, y): return z3.Not(self.less(y, x))
    def GreaterEqual(self, x, y): return z3.Not(self.less(x, y))
    def truth(self, x): return x if isinstance(x, z3.BoolRef) else x != 0
    def LogicalNot(self, x): return z3.Not(self.truth(x))
    def LogicalAnd(self, x, y): return z3.And(self.truth(x), self.truth(y))
    def LogicalOr(self, x, y): return z3.Or(self.truth(x), self.truth(y))
    def LogicalXor(self, x, y): return z3.Xor(self.truth(x), self.truth(y))
    def BitNot(self, x): self.ints(); return ~x
    def BitAnd(self, x, y): self.ints(); return x & y
    def BitOr(self, x, y): self.ints(); return x | y
    def BitXor(self, x, y): self.ints(); return x ^ y
    def ShiftLeft(self, x, y): self.ints(); return x << y
    def ShiftRight(self, x, y): self.ints(); return x >> y if self.signed else z3.LShR(x, y)
    def Where(self, c, x, y): return z3.If(self.truth(c), x, y)
    def Power(self, x, y):
        self.ints()
        n = z3.simplify(y).as_signed_long()
        if n < 0: raise OutOfReach("a negative power")
        r = self.OnesLike(x)
        for _ in range(n): r = r * x
        return r


def holds(left, right, guards, bits, signed):
    """None, or a counterexample."""
    if "bool x" in guards or "bool c" in guards and "Where" not in left:
        if bits: raise OutOfReach("not this type")
    if re.search(r"\b(float|fast)\b(?! root)", guards) and "exact_or_fast" not in guards:
        raise OutOfReach("floats")
    if "float root" in guards: raise OutOfReach("floats")
    if re.search(r"\b(signed|int|not_bool)\b", guards) and not bits: raise OutOfReach("not this type")
    if re.search(r"\bsigned\b", guards) and not signed: raise OutOfReach("not this type")
    m = Meaning(bits, signed)
    a, b = m.of(parse("(" + left + ")" if not left.startswith("(") else left)), m.of(
        parse(right) if right.startswith("(") else right)
    if a.sort() != b.sort():
        if not isinstance(a, z3.BoolRef): raise OutOfReach("sides of two types")
        b = m.truth(b)
    s = z3.Solver()
    s.set("timeout", 20000)
    s.add(a != b)
    r = s.check()
    if r == z3.unknown: raise OutOfReach("the solver does not end")
    return s.model() if r == z3.sat else None


def main():
    rules = [(f, *m) for f in sorted(glob.glob(sys.argv[1] + "/*.def")) for m in ROW.findall(open(f).read())]
    planted = ("planted", "planted", "(Sub x (Sub x y))", "x", "exact root")
    proved, wrong, found = 0, 0, False
    for f, name, left, right, guards in rules + [planted]:
        why, good = set(), 0
        for bits, signed in ((0, False), (8, True), (8, False), (16, True), (16, False)):
            try:
                cex = holds(left, right, guards, bits, signed)
            except (OutOfReach, z3.Z3Exception, AttributeError, TypeError) as e:
                why.add(str(e).split("\n")[0]); continue
            if cex is not None and f == "planted":
                found = True
            elif cex is not None:
                wrong += 1
                print(f"WRONG {name}: {left} -> {right} ({guards}), {bits} bits {'signed' if signed else 'unsigned'}: {cex}")
            else: good += 1
        proved += good > 0
        if not good and f != "planted": print(f"out of reach {name}: {'; '.join(sorted(why))}")
    print(f"{proved} of {len(rules)} rules proved, {wrong} wrong")
    if not found: print("the planted rule, which is wrong, was not found")
    return wrong > 0 or not found or proved < int(sys.argv[2])


sys.exit(main())
