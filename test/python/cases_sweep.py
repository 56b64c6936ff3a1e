# SPDX-License-Identifier: Apache-2.0
"""Functions of anfora.numpy against NumPy for each element type: NaN, infinities, zeros with their signs, the largest and the smallest
numbers, no elements, rank 0. Of whole numbers floats are f64 here, where NumPy has narrower ones for narrow types. Alone,
cases_sweep.py FOLDER lists all that differs."""
import collections
import sys
import warnings

import numpy as np

REAL = ["bool", "int8", "int16", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, .5, -.5, 1.5, 2.5, -2.5, .3, 2, -3, 3.75, 88.5, -88.5, 100, 709.5, -745, 1000, np.pi, 20.5, .9999]
UNARY = """abs angle arccos arccosh arcsin arcsinh arctan arctanh bitwise_not cbrt ceil conj cos cosh cumprod cumsum deg2rad diff ediff1d
    exp exp2 expm1 fabs flip floor frexp i0 imag isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2 logical_not modf
    nan_to_num nancumprod nancumsum negative nonzero ones_like positive rad2deg ravel real reciprocal rint sign signbit sin sinc sinh sort
    spacing sqrt square tan tanh trunc unique zeros_like""".split()
REDUCTIONS = """all any argmax argmin average count_nonzero max mean median min nanargmax nanargmin nanmax nanmean nanmedian nanmin
    nanprod nanstd nansum nanvar prod ptp std sum var""".split()
BINARY = """add allclose arctan2 array_equal bitwise_and bitwise_or bitwise_xor copysign divide equal float_power floor_divide fmax fmin
    fmod gcd greater greater_equal heaviside hypot isclose lcm left_shift less less_equal logaddexp logaddexp2 logical_and logical_or
    logical_xor maximum minimum multiply nextafter not_equal power remainder right_shift subtract""".split()
TOLERANCE = {"f2": 4e-3, "f4": 3e-6, "f8": 1e-12}
# What is not as in NumPy: functions, and kinds of elements
OTHER = [("ceil floor trunc rint", "iu"),  # whole numbers stay what they are, as in NumPy 2
         ("reciprocal", "biu"), ("spacing", "iu"),  # they are f64, as in a division
         ("angle sinc", "fc"), ("conj", "b"),  # NumPy's own of rank 0 is f64, of bools i8; its sinc of 0 in f16 is NaN
         ("spacing", "f"),  # NumPy's in f16 is positive
         ("i0", "f"),  # infinite at infinity
         ("reciprocal power float_power isclose mean average nanmean", "c"),  # parts that are no numbers
         ("arccos arccosh arcsin arcsinh arctan arctanh log1p", "c"),  # likewise, or infinite; finite ones are in cases_numpy.py
         ("sign", "c"),  # z / |z|, as in NumPy 2
         ("sort max min median nanmax nanmin nanmedian maximum minimum fmax fmin nextafter", "f")]  # which of two zeros
REFUSED = [("rint sort argmax argmin max median min nanargmax nanargmin nanmax nanmedian nanmin ptp fmax fmin maximum minimum greater greater_equal less less_equal", "c"),
           ("allclose isclose ceil floor trunc rint square diff power remainder fmod floor_divide left_shift right_shift float_power", "b"),
           ("floor_divide remainder fmod", "iu")]  # by zero
ACCEPTED = [("positive gcd lcm", "b"), ("average", "biufc"), ("gradient ediff1d subtract negative", "b")]  # of no elements the mean is NaN


def values(name, few=False):
    """Numbers of a type."""
    d = np.dtype(name)
    if d.kind == "b":
        return np.array([True, False])
    if d.kind in "iu":
        i = np.iinfo(d)
        return np.array([0, 1, 2, 3, 7, 10, 63, 100, 127, i.min, i.max, i.max - 1] + [-1, -2, -7, -128] * (d.kind == "i"), d)
    if d.kind == "c":
        parts = FLOATS[:6] + [.5, -2.5, 30.0]
        return np.array([complex(a, b) for a in parts for b in parts], d)
    f = np.finfo(d)
    return np.array(FLOATS[:15] if few else FLOATS + [f.max, -f.max, f.tiny, -f.tiny, f.smallest_subnormal, f.eps, 1 + f.eps], d)


def unlike(a, b):
    """Where parts of numbers differ."""
    if a.dtype.kind != "f":
        return a != b
    near = TOLERANCE[f"f{a.dtype.itemsize}"] * np.abs(a) + 8 * np.finfo(a.dtype).tiny
    same = (a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b))) | np.isnan(a) & np.isnan(b)
    return ~(same | np.isfinite(a) & np.isfinite(b) & (a != 0) & (np.abs(a - b) <= near))


def difference(want, got, kind):
    """How results differ, or None."""
    if isinstance(want, tuple):
        return next((d for w, g in zip(want, got) if (d := difference(w, g, kind))), None) if len(want) == len(got) else "their number"
    w, g = np.asarray(want), np.asarray(got)
    if w.shape != g.shape:
        return f"shape {w.shape}, not {g.shape}"
    if kind in "biu" and w.dtype.kind == "f" and g.dtype == "f8":
        g = g.astype(w.dtype)
        w, g = (w, g) if w.dtype != "f2" else (np.zeros(0, "f2"),) * 2  # its numbers are too few to say much
    if w.dtype != g.dtype:
        return f"dtype {w.dtype}, not {g.dtype}"
    other = unlike(w.real, g.real) | unlike(w.imag, g.imag) if w.dtype.kind == "c" else unlike(w, g)
    at = np.argwhere(other)
    return "; ".join(f"{tuple(map(int, i))} {w[tuple(i)]!r}, not {g[tuple(i)]!r}" for i in at[:4]) + f" ({len(at)} of {w.size})" if len(at) else None


def call(f, args, kw):
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return f(*args, **kw), None
    except Exception as e:
        return None, e


def forms(x):
    """Arrays of these numbers."""
    finite = x[np.isfinite(x)]
    if x.dtype in ("i2", "u1", "u4", "c8"):
        return {"": x}
    return {"": x, "one": np.array(x[3 % len(x)]), "none": x[:0], "rows": finite[:4].reshape(2, -1), "no rows": np.zeros((0, 3), x.dtype), "no columns": np.zeros((3, 0), x.dtype)}


def unary():
    for dtype in REAL + COMPLEX:
        for form, x in forms(values(dtype)).items():
            for name in UNARY:
                yield name, dtype, form, (np.array(x),), {}


def reductions():
    for dtype in REAL + COMPLEX:
        x = values(dtype)
        for name in REDUCTIONS:
            for form, a in forms(x[np.isfinite(x)][:6]).items():
                yield name, dtype, form, (np.array(a),), {}
                if form.startswith("no "):
                    yield name, dtype, form + ", axis 0", (a,), {"axis": 0}
                    yield name, dtype, form + ", axis 1", (a,), {"axis": 1}
            if np.dtype(dtype).kind == "f":
                for row in ([1, np.inf], [1, -np.inf], [1, np.inf, np.inf], [-np.inf, np.inf], [np.nan, 1], [np.nan, np.nan], [np.inf, np.nan, np.inf], [-0.0, 0.0], [0.0, -0.0], [-0.0]):
                    yield name, dtype, str(row), (np.array(row, dtype),), {}


def binary():
    for dtype in ("bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex128"):
        x = values(dtype, True)
        for name in BINARY:
            right = x[x >= 0] if "shift" in name else x
            yield name, dtype, "", (x[:, None], right[None, :]), {}
            if dtype == "float32":
                yield name, dtype, "none", (x[:0], x[:0]), {}
                yield name, dtype, "one", (np.array(x[0]), np.array(x[1])), {}


def sweep(cases):
    """Of each kind (other, refused, accepted) the differences by function and kind of elements."""
    import anfora._ops
    import anfora.numpy
    few, anfora._ops.FEW = anfora._ops.FEW, 10 ** 6  # interpreted, which needs no code for each type and shape
    found = collections.defaultdict(list)
    try:
        for name, dtype, form, args, kw in cases:
            theirs = getattr(np, name)
            (want, raised), (got, refused) = call(theirs, args, kw), call(getattr(anfora.numpy, name), args, kw)
            if raised and refused:
                continue
            kind = "".join(dict.fromkeys(np.asarray(a).dtype.kind for a in args))
            what = "accepted" if raised else "refused" if refused else "other"
            why = str(raised) if raised else str(refused).split("\n")[0] if refused else difference(want, got, kind)
            if why:
                found[what, name, kind].append(f"{dtype} {form}: {why}")
    finally:
        anfora._ops.FEW = few
    return found


def unexpected(cases):
    lines = []
    for (what, name, kind), notes in sweep(cases).items():
        if not any(name in names.split() and set(kind) & set(kinds) for names, kinds in {"other": OTHER, "refused": REFUSED, "accepted": ACCEPTED}[what]):
            lines.append(f"{what}: {name} {kind}, {len(notes)}: {notes[0]}")
    return "\n".join(lines)


def test_functions_of_one_array():
    assert not (found := unexpected(unary())), found


def test_reductions():
    assert not (found := unexpected(reductions())), found


def test_functions_of_two_arrays():
    assert not (found := unexpected(binary())), found


inf, nan = np.inf, np.nan
ALIKE = {  # what was once another value
    "median": [([1, inf, inf],), ([-inf, 1.0],), ([],)], "nanmedian": [([nan, inf, inf],)], "digitize": [([0.5, 2.5, 1], [3.0, 2, 1])],
    "power": [(np.array([0j, 1 + 1j, 2j]), np.array([0j, 2 + 0j, -1 + 0j]))], "gradient": [([1.0, 4, 9, 16], np.array([1.0, 2, 4, 5]))],
    "isclose": [(np.array([100], "i1"), np.array([-100], "i1"))], "i0": [(np.array([-128], "i1"),)],
    "nextafter": [(np.array([1.0], "f2"), np.array([2.0], "f2"))], "angle": [([complex(inf, 1), complex(-inf, 0)],)],
    "ravel_multi_index": [((np.array([100], "i1"), np.array([3], "i1")), (200, 300))],
    "unravel_index": [(np.array([100], "i1"), (200, 300))], "nan_to_num": [([inf, nan, 1.0], True, inf, 99.0), ([complex(nan, inf), complex(1, nan)],), ([1, 2],)], "cov": [([],)], "var": [([1 + 1j, 2, 3j],)],
    "nanstd": [([1 + 1j, 2, nan],)], "flip": [([[1, 2], [3, 4]],)], "add": [([1, 2], [3, 4])], "einsum": [("i,i", [1, 2], [3, 4])],
    "concatenate": [(([1, 2], [3]),)], "hanning": [(np.int8(5),)], "delete": [([1, 2, 3], np.array([1]))],
}


def test_what_was_found():
    import anfora.numpy
    for name, calls in ALIKE.items():
        for args in calls:
            (want, _), got = call(getattr(np, name), args, {}), getattr(anfora.numpy, name)(*args)
            assert not (why := difference(want, got, "f")), f"{name}{args}: {why}"


def test_what_is_refused():
    import anfora.numpy
    for name, args in (("gcd", (nan, 1.0)), ("nanargmax", ([nan, nan],)), ("vander", (np.ones((2, 2)),)), ("isposinf", (np.array([1j]),)), ("gradient", (np.ones(1),))):
        _, refused = call(getattr(anfora.numpy, name), args, {})
        assert refused is not None, name


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    for cases in [{"unary": unary, "reductions": reductions, "binary": binary}[n] for n in sys.argv[2:]]:
        for (what, name, kind), notes in sorted(sweep(cases()).items()):
            print(f"{what}: {name} {kind}, {len(notes)}", *notes[:3], sep="\n    ")
