#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every op of the table against NumPy: numpy_check.py OP_SERVER [--only OP] [--list]

Cases come from the table's `.sample` column, expected values from its `.numpy` column, evaluated here in
the same element types (bf16 in float32, rounded). Integers, bools, shapes and types must agree exactly,
floats within the op's tolerance. An op that has no `.numpy` must occur in a golden or unit test.
"""
import ast
import itertools
import math
import os
import re
import subprocess
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import Tap  # noqa: E402
import reference  # noqa: E402

warnings.filterwarnings("ignore")
np.seterr(all="ignore")

DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64, "c64": np.complex64, "c128": np.complex128, "key": np.uint64, "int": np.int64,
    "float": np.float64, "bf16": np.float32,
}
NAMES = {np.dtype(t): n for n, t in DTYPES.items() if n not in ("key", "int", "float", "bf16")}

# Tolerance in units in the last place of the result's type; 0 where absent.
ULPS = reference.ULPS
ULPS_BY_FAMILY = reference.ULPS_BY_FAMILY


TRANSFORM = 64  # the flag of rows that are expanded before a program runs


# ---- bf16: NumPy has none, so a float32 array whose values are bf16 ----

def to_bf16_bits(x):
    u = np.atleast_1d(np.asarray(x, np.float32)).view(np.uint32).astype(np.uint64)
    r = ((u + 0x7FFF + ((u >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    nan = np.isnan(np.atleast_1d(np.asarray(x, np.float32)))
    r[nan] = 0x7FC0
    return r.reshape(np.shape(x))


def from_bf16_bits(b):
    return (np.asarray(b, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


class Tensor:
    """An array with the name of its element type."""

    def __init__(self, dtype, array):
        self.dtype, self.array = dtype, np.asarray(array)
        if dtype == "bf16":
            self.array = from_bf16_bits(np.atleast_1d(to_bf16_bits(array))).reshape(np.shape(array))

    def text(self):
        a = to_bf16_bits(self.array) if self.dtype == "bf16" else self.array
        dims = ",".join(str(d) for d in self.array.shape)
        return f"{self.dtype}[{dims}]:{np.ascontiguousarray(a).tobytes().hex()}"


def text_of(v):
    if v is None:
        return "None"
    if isinstance(v, tuple):
        return "( " + " ".join(text_of(x) for x in v) + " )"
    return v.text()


# ---- reading answers ----

def read_value(words):
    w = words.pop(0)
    if w == "None":
        return None
    if w == "(":
        items = []
        while words[0] != ")":
            items.append(read_value(words))
        words.pop(0)
        return tuple(items)
    dtype, dims, data = re.fullmatch(r"(\w+)\[([\d,]*)\]:([0-9a-f]*)", w).groups()
    shape = tuple(int(d) for d in dims.split(",") if d)
    raw = np.frombuffer(bytes.fromhex(data), np.uint16 if dtype == "bf16" else DTYPES[dtype])
    t = Tensor.__new__(Tensor)
    t.dtype = dtype
    t.array = (from_bf16_bits(raw) if dtype == "bf16" else raw).reshape(shape)
    return t


# ---- making cases ----

SHAPES = {
    1: [[()], [(3,)], [(2, 3)], [(0,)], [(2, 0, 3)], [(2, 1, 5)]],
    2: [[(), ()], [(7,), (7,)], [(2, 3), (3,)], [(4, 1), (1, 5)], [(), (2, 2)], [(0,), (1,)],
        [(2, 0, 3), (3,)], [(2, 1, 3), (4, 1)]],
    3: [[(), (), ()], [(5,), (5,), (5,)], [(2, 3), (3,), ()], [(2, 1), (1, 3), (2, 3)], [(0,), (1,), ()]],
}
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.0, 1e-3, 1e4, math.inf, -math.inf, math.nan, 7.25, -0.1]


def integers(dtype):
    i = np.iinfo(DTYPES[dtype])
    small = [0, 1, 2, 3, 5, 7, 100, i.max, i.max - 1, i.min, i.min + 1]
    return small + ([-1, -2, -3, -7] if i.min < 0 else [])


def values(rng, dtype, shape, spec):
    """An array of the type: within the limits if there are any, else ordinary and special values."""
    n = int(np.prod(shape, dtype=int))
    lo, hi = spec["limits"] or (None, None)
    t = DTYPES[dtype]
    if dtype == "bool":
        a = rng.integers(0, 2, n).astype(bool)
    elif dtype == "key":
        a = rng.integers(0, 2**63, n).astype(np.uint64)
    elif np.issubdtype(t, np.integer):
        if lo is not None:
            a = rng.integers(int(lo), int(hi), n).astype(t)
        else:
            a = np.array([integers(dtype)[k] for k in rng.integers(0, len(integers(dtype)), n)], t)
        if spec["nonzero"]:
            a[a == 0] = 3
    elif np.issubdtype(t, np.complexfloating):
        lo, hi = (lo, hi) if lo is not None else (-3, 3)
        a = (rng.uniform(lo, hi, n) + 1j * rng.uniform(lo, hi, n)).astype(t)
    elif lo is not None:
        a = rng.uniform(lo, hi, n).astype(t)
    else:
        a = rng.normal(0, 3, n).astype(t)
        special = rng.uniform(size=n) < (0.5 if spec["special"] else 0)
        a[special] = np.array(FLOATS, t)[rng.integers(0, len(FLOATS), int(special.sum()))]
    return Tensor(dtype, a.reshape(shape))


SPEC = re.compile(r"(nonzero:)?(%s)(\[[^\]]*\])?(\((-?[\d.e+-]+?)\.\.(-?[\d.e+-]+)\))?(\.)?" % "|".join(
    sorted(DTYPES, key=len, reverse=True)))


def words_of(case):
    """Splits at spaces outside parentheses and brackets."""
    return re.findall(r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\]|[^\s(\[])+", case)


def parse_attr(text):
    if text in ("true", "false", "None"):
        return {"true": True, "false": False, "None": None}[text]
    if text in DTYPES:
        return reference.DType(text)
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if text.startswith("("):
        return ast.literal_eval(text)
    try:
        return float(text)
    except ValueError:
        return text


def attr_text(v):
    if v is None or isinstance(v, bool):
        return {None: "None", True: "true", False: "false"}[v]
    if isinstance(v, reference.DType):
        return "@" + v.name
    if isinstance(v, str):
        return "'" + v
    if isinstance(v, tuple):
        return "(" + ",".join(map(attr_text, v)) + ")"
    return repr(v)


def parse_case(case):
    specs, attrs = [], {}
    for w in words_of(case):
        if re.match(r"[a-z_]\w*=", w):
            k, v = w.split("=", 1)
            attrs[k] = parse_attr(v)
        elif w.startswith("("):
            specs.append([parse_spec(x) for x in words_of(w[1:-1])])
        else:
            specs.append(parse_spec(w))
    return specs, attrs


def parse_spec(w):
    if w == "None":
        return None
    m = SPEC.fullmatch(w)
    if not m:
        raise ValueError(f"cannot read sample word {w!r}")
    nonzero, dtype, dims, _, lo, hi, plain = m.groups()
    shape = None if dims is None else [d.strip() for d in dims[1:-1].split(",") if d.strip()]
    return {"dtype": dtype, "shape": shape, "limits": (float(lo), float(hi)) if lo else None,
            "nonzero": bool(nonzero), "special": not plain}


def dim_sizes(specs, rng):
    flat = [s for x in specs for s in (x if isinstance(x, list) else [x]) if s]
    letters = {d for s in flat for d in s["shape"] or [] if not re.fullmatch(r"\d+", d)}
    return {d: int(rng.integers(1, 6)) for d in sorted(letters)}


def arguments(specs, rng, attempt):
    """All inputs of a case; None when this attempt is not needed."""
    sizes = dim_sizes(specs, rng)
    free = [s for s in specs if isinstance(s, dict) and s["shape"] is None]
    choices = SHAPES.get(len(free), [[(3,)] * len(free)]) if free else [[]] * 2
    if attempt >= len(choices):
        return None
    shapes = iter(choices[attempt])

    def make(s):
        if s is None:
            return None
        if isinstance(s, list):
            return tuple(make(x) for x in s)
        shape = next(shapes) if s["shape"] is None else tuple(
            int(d) if d.isdigit() else sizes[d] for d in s["shape"])
        return values(rng, s["dtype"], shape, s)

    return [make(s) for s in specs]


def cases(op, rng):
    for case in op["sample"].split(";"):
        specs, attrs = parse_case(case.strip())
        for attempt in range(8):
            args = arguments(specs, rng, attempt)
            if args is None:
                break
            yield case.strip(), args, attrs


# ---- expected values ----

def array_of(v):
    if isinstance(v, tuple):
        return [array_of(x) for x in v]
    return None if v is None else v.array


def expected(op, args, attrs):
    names = [n.rstrip("?*") for n in op["in"].split()]
    env = dict(reference.__dict__)
    env.update(op["defaults"])
    env.update({k: (v.numpy if isinstance(v, reference.DType) else v) for k, v in attrs.items()})
    if op["scalar"] == "1" and op["name"] != "Where" and len({a.dtype for a in args}) > 1:
        d = args[0].dtype
        for a in args[1:]:
            d = reference.promote(d, a.dtype)
        args = [Tensor(d, a.array.astype(DTYPES[d])) for a in args]
    variadic = op["in"].endswith("*")
    if op["name"] in reference.IN_DOUBLE and args[0].array.dtype.kind in "fc":
        return in_double(op, env, names, args)
    for i, n in enumerate(names):
        if variadic and i == len(names) - 1:
            rest = args[i:]
            env[n] = array_of(rest[0] if len(rest) == 1 and isinstance(rest[0], tuple) else tuple(rest))
        else:
            env[n] = array_of(args[i]) if i < len(args) else None
    return eval(op["numpy"], env)  # pylint: disable=eval-used


def in_double(op, env, names, args):
    kind = args[0].array.dtype
    env.update({n: a.array.astype(np.complex128 if kind.kind == "c" else np.float64) for n, a in zip(names, args)})
    return np.asarray(eval(op["numpy"], env)).astype(kind)  # pylint: disable=eval-used


def ulp_distance(a, b):
    """How many representable values lie between; 0 for NaN against NaN."""
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[a.dtype.itemsize]
    def order(x):
        i = np.ascontiguousarray(x).view(bits).astype(np.int64)
        return np.where(i < 0, np.iinfo(bits).min - i, i)
    with np.errstate(all="ignore"):
        i, k = order(a), order(b)
        d = (np.maximum(i, k).view(np.uint64) - np.minimum(i, k).view(np.uint64)).astype(np.float64)
    return np.where(np.isnan(a) & np.isnan(b), 0, np.where(np.isnan(a) | np.isnan(b), np.inf, d))


def compare_arrays(got, want, ulps, atol):
    a = got.array
    w = np.asarray(want)
    name = "bf16" if got.dtype == "bf16" else NAMES[a.dtype]
    if got.dtype == "bf16":
        w = from_bf16_bits(to_bf16_bits(w.astype(np.float32))).reshape(w.shape)
    elif got.dtype == "key":
        w = w.astype(np.uint64)
    elif NAMES.get(w.dtype) != name:
        return f"type {got.dtype}, expected {w.dtype}"
    if a.shape != w.shape:
        return f"shape {a.shape}, expected {w.shape}"
    if a.dtype.kind == "c":
        parts = np.float32 if a.dtype == np.complex64 else np.float64
        a, w = (np.ascontiguousarray(np.atleast_1d(x)).view(parts) for x in (a, w))
        scale = max(1.0, float(np.max(np.abs(w[np.isfinite(w)]), initial=0)))
        atol = max(atol, max(ulps, 2) * float(np.finfo(parts).eps) * scale)
    if a.dtype.kind != "f":
        bad = a != w
    else:
        unit = 65536 if got.dtype == "bf16" else 1
        bad = ulp_distance(a, w) > ulps * unit
        bad &= ~(np.abs(a.astype(np.float64) - w.astype(np.float64)) <= atol)
        if ulps == 0:
            bad |= (a == 0) & (w == 0) & (np.signbit(a) != np.signbit(w)) & (atol == 0)
    if not np.any(bad):
        return ""
    i = tuple(x[0] for x in np.nonzero(np.atleast_1d(bad)))
    return f"at {i}: {np.atleast_1d(a)[i]!r}, expected {np.atleast_1d(w)[i]!r} ({int(np.sum(bad))} differ)"


def compare(got, want, ulps, atol):
    if isinstance(got, tuple):
        if not isinstance(want, (tuple, list)) or len(want) != len(got):
            return f"a tuple of {len(got)}, expected {want!r}"
        for k, (g, w) in enumerate(zip(got, want)):
            problem = compare(g, w, ulps, atol)
            if problem:
                return f"item {k}: {problem}"
        return ""
    if got is None or want is None:
        return "" if got is want else f"{got!r}, expected {want!r}"
    if isinstance(want, int) and not isinstance(want, bool):
        want = np.int64(want)
    return compare_arrays(got, want, ulps, atol)


# ---- the table ----

def defaults(attrs):
    out = {}
    for a in attrs.split():
        name, rest = a.split(":", 1)
        if rest.endswith("?"):
            out[name] = None
        elif "=" in rest:
            v = parse_attr(rest.split("=", 1)[1])
            out[name] = v.numpy if isinstance(v, reference.DType) else v
    return out


def table(server):
    rows = subprocess.run([server, "--table"], capture_output=True, text=True, check=True).stdout
    keys = ["name", "family", "in", "attrs", "numpy", "sample", "grad", "eval", "scalar", "flags"]
    for line in rows.splitlines():
        op = dict(zip(keys, line.split("\t")))
        op["defaults"] = defaults(op["attrs"])
        yield op


def requests_of(op, rng):
    """(line for the server, description, expected value) of each case."""
    for case, args, attrs in cases(op, rng):
        flat = []
        variadic = op["in"].endswith("*")
        for k, a in enumerate(args):
            last = k == len(args) - 1
            flat += list(a) if isinstance(a, tuple) and variadic and last else [a]
        given = "".join(f" {k}={attr_text(v)}" for k, v in attrs.items())
        line = f"{op['name']}{given} | " + " ".join(text_of(a) for a in flat)
        shapes = " ".join(str(None if a is None else "tuple" if isinstance(a, tuple) else a.array.shape)
                          for a in flat)
        try:
            want = expected(op, args, attrs)
        except Exception as e:  # pylint: disable=broad-except
            want = e
        yield line, f"{case} {shapes}", want


def tolerance(op, rng_case):
    u = ULPS.get(op["name"], ULPS_BY_FAMILY.get(op["family"], 0))
    u, atol = u if isinstance(u, tuple) else (u, 0.0)
    if re.search(r"\bf16|\bbf16", rng_case):
        u, atol = min(u, 2), atol and max(atol, 2e-3)
    return u, atol


def check(op, cases_of_op, answers):
    """What is wrong, at most five findings."""
    problems = []
    for (line, case, want), answer in zip(cases_of_op, answers):
        if isinstance(want, Exception):
            problem = f"NumPy says {type(want).__name__}: {want}; we say {answer[:80]}"
        elif answer.startswith("error"):
            problem = answer
        else:
            problem = compare(read_value(answer.split()), want, *tolerance(op, case))
        if problem:
            problems.append(f"{case}: {problem}" + (f"\n  {line}" if len(line) < 300 else ""))
    return "\n".join(problems[:5]) + (f"\n{len(problems)} of {len(cases_of_op)}" if problems else "")


def where_named():
    """Names of ops that occur in golden and unit tests, with the file."""
    found = {}
    for folder in ("golden", "unit"):
        top = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), folder)
        for base, _, files in os.walk(top):
            for f in sorted(files):
                with open(os.path.join(base, f), encoding="utf-8", errors="replace") as text:
                    for word in set(re.findall(r"\b[A-Z][A-Za-z0-9]+\b", text.read())):
                        found.setdefault(word, os.path.join(folder, f))
    return found


def extra_requests(op):
    for name, attrs, inputs in reference.EXTRA:
        if name != op["name"]:
            continue
        attrs = {k: reference.DType(v) if k == "dtype" else v for k, v in attrs.items()}
        args = [Tensor(NAMES[np.asarray(x).dtype], x) for x in inputs]
        given = "".join(f" {k}={attr_text(v)}" for k, v in attrs.items())
        yield (f"{name}{given} | " + " ".join(text_of(a) for a in args), "extra " + str(inputs)[:60],
               expected(op, args, attrs))


def promotions():
    """Add of every pair of types: (line, expected type)."""
    names = [d for d in DTYPES if d != "key"]
    for a, b in itertools.product(names, names):
        x, y = (Tensor(d, np.zeros(1, DTYPES[d])) for d in (a, b))
        yield f"Add | {x.text()} {y.text()}", reference.promote(a, b)


def formula_problem(op, names):
    """A `.grad` column: one formula for each input (`_` if there is none), of names that exist; `*`: the transform's."""
    words = re.findall(r"\w+=\([^()]*\)|[()]|[^\s()]+", op["grad"])
    formulas, calls = 0, []
    inputs = {n.rstrip("?*") for n in op["in"].split()}
    attrs = {a.split(":")[0] for a in op["attrs"].split()}
    if op["grad"] == "*":
        return ""
    for before, w in zip([""] + words, words):
        formulas += not calls and before != "("  # a name, or the bracket that opens one
        if before == "(":
            if w not in names:
                return f"no op {w}"
            calls.append(names[w])
        elif w == ")":
            if not calls:
                return "a bracket too many"
            calls.pop()
        elif re.match(r"\w+=", w):
            k = w.split("=", 1)[0]
            if k not in {a.split(":")[0] for a in calls[-1]["attrs"].split()}:
                return f"{calls[-1]['name']} has no attribute {k}"
        elif w not in "(_!" and w not in inputs | attrs | {"dy", "y", "vjp"} and not re.fullmatch(r"-?[\d.]+", w):
            return f"unknown name {w}"
    if calls or (formulas != len(inputs) and op["grad"] != "!" and (inputs or op["grad"] != "_")):
        return f"{formulas} formulas for {len(inputs)} inputs"
    return ""


def check_formulas(ops, tap):
    names = {op["name"]: op for op in ops}
    wrong = [f"{op['name']}: {p}" for op in ops if op["grad"] for p in [formula_problem(op, names)] if p]
    tap.case("gradient formulas are well formed", "\n".join(wrong))


def ask(server, lines, tap, *words):
    r = subprocess.run([server, *words], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    answers = r.stdout.splitlines()
    if r.returncode or len(answers) != len(lines):
        at = lines[len(answers)] if len(answers) < len(lines) else ""
        tap.case("the server answers every line", f"status {r.returncode} at: {at[:300]}\n{r.stderr[-3000:]}")
        tap.done()
    return answers


def check_errors(server, tap):
    for (line, code), answer in zip(reference.ERRORS, ask(server, [e[0] for e in reference.ERRORS], tap)):
        good = answer.startswith(f"error {code}") if code else not answer.startswith("error")
        tap.case(f"{code or 'no error'}: {line[:70]}", "" if good else f"got {answer[:200]}")


def check_promotions(server, tap):
    pairs = list(promotions())
    wrong = [f"{line}: {answer[:60]}, expected {want}" for (line, want), answer in
             zip(pairs, ask(server, [p[0] for p in pairs], tap)) if not answer.startswith(want + "[")]
    tap.case(f"promotion of {len(pairs)} pairs of types", "\n".join(wrong[:9]))


def check_memory(server, tap):
    """A second round of the same requests leaves no more memory in use."""
    lines = [e[0] for e in reference.ERRORS] + [p[0] for p in promotions()]
    answers = ask(server, lines + ["bytes"] + lines + ["bytes"], tap)
    first, second = answers[len(lines)], answers[-1]
    tap.case("nothing leaks", "" if first == second else f"{first} bytes, then {second}")


def check_faults(server, todo, tap):
    """The first and the last case of each op, and the errors, with each allocation failed in turn."""
    lines = [r[0] for _, rs in todo for r in {rs[0][0]: rs[0], rs[-1][0]: rs[-1]}.values()]
    lines += [e[0] for e in reference.ERRORS]
    wrong = [f"{answer}: {line[:200]}" for line, answer in zip(lines, ask(server, lines, tap, "--faults"))
             if not answer.endswith("allocations")]
    tap.case(f"each allocation of {len(lines)} requests may fail", "\n".join(wrong[:20]))


EXTREMES = [0, 1, 2, 3, -1, -2, 5, 2**31, 2**32, 2**62, 2**63 - 1, -2**63, -2**31 - 1, 1 << 20]
WORDS = ["", "constant", "reflect", "wrap", "add", "max", "ij,jk->ik", "->", "ii->i", "nearest", "shape", "i", "..."]


def random_attr(rng, kind):
    """A value of an attribute's type that may be quite wrong."""
    def pick(of):
        return of[int(rng.integers(0, len(of)))]

    def small():
        return int(rng.integers(-2, 4)) if rng.uniform() < 0.7 else pick(EXTREMES)

    if rng.uniform() < 0.03:
        kind = pick(["int", "bool", "float", "ints", "str", "dtype"])
    if kind == "ints" and rng.uniform() < 0.7:
        return "(" + ",".join(str(small()) for _ in range(int(rng.integers(0, 6)))) + ")"
    if kind in ("int", "ints"):
        return str(small())
    if kind == "bool":
        return pick(["true", "false"])
    if kind == "float":
        return pick(["0.0", "1.0", "-0.5", "nan", "1e300", "-1e-300", "3"])
    if kind == "dtype":
        return "@" + pick(list(DTYPES))
    return pick([str(small()), "'" + pick(WORDS), "true", "2.5"])


def random_input(rng):
    if rng.uniform() < 0.04:
        return "None"
    shape = tuple(int(d) for d in rng.integers(0, 4, int(rng.integers(0, 5))))
    dtype = list(DTYPES)[int(rng.integers(0, len(DTYPES)))]
    t, n = DTYPES[dtype], int(np.prod(shape, dtype=int))
    if dtype == "bool":
        a = rng.integers(0, 2, n).astype(bool)
    elif np.issubdtype(t, np.integer) and rng.uniform() < 0.8:
        a = rng.integers(0, 3, n).astype(t)
    elif np.issubdtype(t, np.integer):
        a = np.frombuffer(rng.bytes(n * np.dtype(t).itemsize), t)
    else:
        a = rng.normal(0, 2, n).astype(t)
    return Tensor(dtype, a.reshape(shape)).text()


def random_requests(op, rng, n):
    """Requests that are mostly wrong; they must be answered."""
    names = op["in"].split()
    least = sum(not x.endswith(("?", "*")) for x in names)
    most = least + 3 if op["in"].endswith("*") else len(names)
    for _ in range(n):
        given = ""
        for a in op["attrs"].split():
            name, kind = a.split(":", 1)
            if rng.uniform() < 0.6 or not re.search(r"[?=]", kind):
                given += f" {name}={random_attr(rng, re.match('[a-z]+', kind).group())}"
        count = int(rng.integers(least, most + 1)) + (rng.uniform() < 0.03)
        first, alike = random_input(rng), rng.uniform() < 0.6  # inputs that are alike get further
        inputs = [first if alike and rng.uniform() < 0.8 else random_input(rng) for _ in range(count)]
        yield f"{op['name']}{given} | " + " ".join(inputs)


def check_random(server, ops, tap):
    rng = np.random.default_rng(int(os.environ.get("SEED", "7")))
    n = int(os.environ.get("RANDOM_REQUESTS", "25"))
    lines = [line for op in ops for line in random_requests(op, rng, n)]
    answers = ask(server, lines, tap)
    bugs = [f"{a[:80]}: {line[:300]}" for line, a in zip(lines, answers) if a.startswith("error E0001")]
    good = sum(not a.startswith("error") for a in answers)
    tap.case(f"{len(lines)} random requests are answered, {good} without an error", "\n".join(bugs[:9]))


def main():
    server, only = sys.argv[1], sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    tap, named = Tap(), where_named()
    rng = np.random.default_rng(int(os.environ.get("SEED", "7")))
    todo, ops = [], list(table(server))
    for op in ops:
        if only and op["name"] != only:
            continue
        if op["numpy"] and op["sample"]:
            try:
                todo.append((op, list(requests_of(op, rng)) + list(extra_requests(op))))
            except ValueError as e:
                tap.case(op["name"], str(e))
        elif not int(op["flags"]) & TRANSFORM:
            tap.case(f"{op['name']} is checked", "" if op["name"] in named else
                     "it has neither .numpy with .sample nor a test in test/golden or test/unit")
    answers = ask(server, [r[0] for _, rs in todo for r in rs], tap)
    for op, rs in todo:
        tap.case(f"{op['name']}: {len(rs)} cases", check(op, rs, answers[: len(rs)]))
        answers = answers[len(rs):]
    if not only:
        check_formulas(ops, tap)
        check_errors(server, tap)
        check_promotions(server, tap)
        check_memory(server, tap)
        check_random(server, ops, tap)
        check_faults(server, todo, tap)
    tap.done()


if __name__ == "__main__":
    main()
