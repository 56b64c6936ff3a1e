#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py FOLDER FLOOR: the rules of FOLDER/*.def as theorems of bit vectors and of floats, by z3.

    (Sub (Add x y) y)  ->  x,  exact x          for all x, y of 8 and 16 bits, signed and unsigned:  (x + y) - y = x
    (Sub x 0)          ->  x                    and for all floats, of which 0 and -0 are two and all NaN one:  x - 0 = x

Each elementwise rule is proved for the types that it may see; the others are listed with the reason, and so are those of `fast`,
which promise no bits. FLOOR is how many must be. A planted rule that is wrong must be found in each kind of type. Operands have
the root's type; shapes are not looked at, for both sides are elementwise."""
import glob, re, sys
import z3

ROW = re.compile(r'^ANF_RULE(?:_FN)?\((\w+),\s*"([^"]*)",\s*("[^"]*"|anfi_rule_true|anfi_rule_false),\s*"([^"]*)"\)', re.M)
HOOKS = {"anfi_rule_true": "1", "anfi_rule_false": "0"}
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
        if not self.bits and n in (0, 1): return z3.BoolVal(bool(n))
        if not self.bits: raise OutOfReach("no bool")
        if n < 0 and not self.signed: raise OutOfReach("negative constant")
        return z3.BitVecVal(n, self.bits)

    def of(self, e):
        if isinstance(e, str):
            return self.number(e) if re.match(r'^-?[\d.]+$', e) else self.variable(e.split(":")[0])
        if any(isinstance(x, str) and x.startswith(":") for x in e): raise OutOfReach("attributes")
        f = getattr(self, e[0], None)
        if not f: raise OutOfReach(f"{e[0]}: no meaning here")
        return f(*[self.condition(x) if e[0] in ("Where", "Switch") and i == 0 else self.of(x) for i, x in enumerate(e[1:])])

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
    def Add(self, x, y): return x + y if self.bits else z3.Or(x, y)
    def Sub(self, x, y): self.ints(); return x - y
    def Mul(self, x, y): return x * y if self.bits else z3.And(x, y)
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
    def BitNot(self, x): return ~x if self.bits else z3.Not(x)
    def BitAnd(self, x, y): return x & y if self.bits else z3.And(x, y)
    def BitOr(self, x, y): return x | y if self.bits else z3.Or(x, y)
    def BitXor(self, x, y): return x ^ y if self.bits else z3.Xor(x, y)
    def ShiftLeft(self, x, y): self.ints(); return x << y
    def ShiftRight(self, x, y): self.ints(); return x >> y if self.signed else z3.LShR(x, y)
    def Where(self, c, x, y): return z3.If(self.truth(c), x, y)
    Switch = Where
    def Identity(self, x): return x
    def CastLike(self, x, y): return x
    def Power(self, x, y):
        self.ints()
        n = z3.simplify(y).as_signed_long()
        if n < 0: raise OutOfReach("a negative power")
        r = self.OnesLike(x)
        for _ in range(n): r = r * x
        return r


class Floats(Meaning):
    """Ops on a float type, small enough for the solver: four bits of exponent, five of significand; it works as each IEEE type."""
    kind = z3.FPSort(4, 5)
    nearest = z3.RNE()

    def __init__(self): super().__init__(9, True)
    def variable(self, name): return self.var.setdefault(name, z3.FP(name, self.kind))
    def number(self, text): return z3.fpMinusZero(self.kind) if text == "-0" else z3.FPVal(float(text), self.kind)
    def ints(self): raise OutOfReach("not of floats")
    def less(self, x, y): return z3.And(z3.Not(x), y) if isinstance(x, z3.BoolRef) else z3.fpLT(x, y)
    def same(self, x, y): return x == y if isinstance(x, z3.BoolRef) else z3.fpEQ(x, y)
    def truth(self, x): return x if isinstance(x, z3.BoolRef) else z3.Not(z3.fpIsZero(x))
    def ZerosLike(self, x): return self.number("0")
    def OnesLike(self, x): return self.number("1")
    def Add(self, x, y): return z3.fpAdd(self.nearest, x, y)
    def Sub(self, x, y): return z3.fpSub(self.nearest, x, y)
    def Mul(self, x, y): return z3.fpMul(self.nearest, x, y)
    def Div(self, x, y): return z3.fpDiv(self.nearest, x, y)
    def Reciprocal(self, x): return self.Div(self.number("1"), x)
    def Neg(self, x): return z3.fpNeg(x)
    def Abs(self, x): return z3.fpAbs(x)
    def Square(self, x): return self.Mul(x, x)
    def Fma(self, x, y, z): return z3.fpFMA(self.nearest, x, y, z)
    def Sign(self, x):
        one = self.number("1")
        return z3.If(z3.Or(z3.fpIsZero(x), z3.fpIsNaN(x)), x, z3.If(z3.fpIsNegative(x), z3.fpNeg(one), one))
    def Relu(self, x): return z3.If(self.less(x, self.number("0")), self.number("0"), x)
    def Floor(self, x): return z3.fpRoundToIntegral(z3.RTN(), x)
    def Ceil(self, x): return z3.fpRoundToIntegral(z3.RTP(), x)
    def Round(self, x): return z3.fpRoundToIntegral(self.nearest, x)
    def Trunc(self, x): return z3.fpRoundToIntegral(z3.RTZ(), x)
    def Maximum(self, x, y): return z3.If(z3.fpIsNaN(x), x, z3.If(z3.Or(z3.fpIsNaN(y), self.less(x, y)), y, x))
    def Minimum(self, x, y): return z3.If(z3.fpIsNaN(x), x, z3.If(z3.Or(z3.fpIsNaN(y), self.less(y, x)), y, x))
    def IsNan(self, x): return z3.fpIsNaN(x)
    def Equal(self, x, y): return self.same(x, y)
    def NotEqual(self, x, y): return z3.Not(self.same(x, y))
    def LessEqual(self, x, y): return z3.Or(self.less(x, y), self.same(x, y))
    def GreaterEqual(self, x, y): return self.LessEqual(y, x)
    def Power(self, x, y):
        """C's pow at the exponents for which it rounds nothing."""
        n = z3.simplify(y)
        if z3.is_true(z3.simplify(z3.fpIsZero(n))): return self.number("1")
        if z3.is_true(z3.simplify(n == self.number("1"))): return x
        raise OutOfReach("a power that rounds")


def may_be(guards, kind, left):
    """May operands be of this type, where the rule promises bits?"""
    on = lambda g: re.search(rf"\b{g} [a-z]", guards)
    if re.search(r"\bfast\b", guards): return False
    if on("bool"): return kind == "bool" or "Where" in left and not on("bool x") and not on("bool root")
    if on("float"): return kind == "float"
    if on("int"): return kind in ("signed", "unsigned")
    if on("signed"): return kind in ("signed", "float")
    if on("exact") or on("exact_or_fast"): return kind != "float"
    return kind != "bool" or not on("not_bool")


def meaning(kind, bits):
    return Floats() if kind == "float" else Meaning(bits, kind == "signed")


def holds(left, right, guards, kind, bits):
    """None, or a counterexample."""
    if not may_be(guards, kind, left): raise OutOfReach("only with --fast" if "fast" in guards else "not this type")
    m = meaning(kind, bits)
    a = m.of(parse(left))
    if right in HOOKS: b = z3.BoolVal(HOOKS[right] == "1")
    else: b = m.of(parse(right) if right.startswith("(") else right)
    if a.sort() != b.sort():
        if not isinstance(a, z3.BoolRef): raise OutOfReach("sides of two types")
        b = m.truth(b)
    s = z3.Solver()
    s.set("timeout", 20000)
    s.add(a != b)
    r = s.check()
    if r == z3.unknown: raise OutOfReach("the solver: " + s.reason_unknown())
    return s.model() if r == z3.sat else None


def main():
    rules = [(f, name, left, right.strip('"'), guards) for f in sorted(glob.glob(sys.argv[1] + "/*.def"))
             for name, left, right, guards in ROW.findall(open(f).read())]
    planted = [("planted", "planted", "(Sub x (Sub x y))", "x", "exact root"), ("planted", "planted", "(Add x 0)", "x", "float x")]
    proved, floats, wrong, found = 0, 0, 0, 0
    for f, name, left, right, guards in rules + planted:
        why, good = set(), set()
        for kind, bits in (("bool", 0), ("signed", 8), ("unsigned", 8), ("signed", 16), ("unsigned", 16), ("float", 9)):
            try:
                cex = holds(left, right, guards, kind, bits)
            except (OutOfReach, z3.Z3Exception, AttributeError, TypeError) as e:
                why.add(str(e).split("\n")[0]); continue
            if cex is not None and f == "planted":
                found |= 1 << (kind == "float")
            elif cex is not None:
                wrong += 1
                print(f"WRONG {name}: {left} -> {right} ({guards}), {kind} of {bits} bits: {cex}")
            else: good.add(kind)
        proved += bool(good)
        floats += "float" in good
        if not good and f != "planted": print(f"out of reach {name}: {'; '.join(sorted(why))}")
    print(f"{proved} of {len(rules)} rules proved, {floats} of them for floats, {wrong} wrong")
    if found != 3: print("a planted rule, which is wrong, was not found")
    return wrong > 0 or found != 3 or proved < int(sys.argv[2])


sys.exit(main())
