# SPDX-License-Identifier: Apache-2.0
"""Functions of NumPy that are made of operations, against NumPy: called alone, and inside of compiled functions by
the package's name and by NumPy's own."""
import anfora.numpy
import numpy as onp
from anfora import jit

rng = onp.random.default_rng(0)
x, y, s = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
v, w = rng.normal(size=4), rng.normal(size=3)
holes = onp.where(x > 0.5, onp.nan, x)

CASES = {
    "trace": lambda np: np.trace(s),
    "norm": lambda np: np.linalg.norm(x),
    "norm1": lambda np: np.linalg.norm(x, axis=1),
    "norm_ord": lambda np: np.linalg.norm(v, 1),
    "norm_inf": lambda np: np.linalg.norm(v, onp.inf),
    "normk": lambda np: np.linalg.norm(x, axis=-1, keepdims=True),
    "moveaxis": lambda np: np.moveaxis(x, 0, 1),
    "moveaxis2": lambda np: np.moveaxis(x[None], (0, 1), (-1, 0)),
    "median": lambda np: np.median(x),
    "median1": lambda np: np.median(x, axis=1),
    "outer": lambda np: np.outer(v, w),
    "inner": lambda np: np.inner(v, v),
    "vdot": lambda np: np.vdot(v, v),
    "kron": lambda np: np.kron(s, x),
    "cross": lambda np: np.cross(w, w + 1),
    "tensordot": lambda np: np.tensordot(x, y, axes=((1,), (1,))),
    "td1": lambda np: np.tensordot(x, s, 1),
    "diagonal": lambda np: np.diagonal(s),
    "vstack": lambda np: np.vstack([x, y]),
    "hstack": lambda np: np.hstack([x, y]),
    "dstack": lambda np: np.dstack([x, y]),
    "column_stack": lambda np: np.column_stack([v, v]),
    "ptp": lambda np: np.ptp(v),
    "average": lambda np: np.average(v),
    "averagew": lambda np: np.average(v, weights=abs(v)),
    "average0": lambda np: np.average(x, 0),
    "average_rows": lambda np: np.average(x, 1, onp.arange(1.0, 5.0)),
    "average_keep": lambda np: np.average(x, 0, weights=x * x, keepdims=True),
    "quantiles": lambda np: np.quantile(x, onp.array([0.1, 0.5, 0.9]), axis=1),
    "quantiles_keep": lambda np: np.quantile(x, onp.array([0.1, 0.9]), axis=-1, keepdims=True),
    "quantiles_all": lambda np: np.quantile(x, onp.array([0.1, 0.9]), keepdims=True),
    "percentiles": lambda np: np.percentile(x, onp.array([10.0, 30.0]), axis=0),
    "median_keep": lambda np: np.median(x, 0, keepdims=True),
    "nan_to_num_copy": lambda np: np.nan_to_num(holes, True),
    "pad_list": lambda np: np.pad(x, [(1, 0), (0, 2)]),
    "modf": lambda np: np.modf(onp.array([1.5, -2.25, onp.inf, -onp.inf, onp.nan])),
    "ldexp": lambda np: np.ldexp(v, onp.array([1, 2, -3, 0])),
    "isposinf": lambda np: (np.isposinf(onp.array([onp.inf, 1.0, -onp.inf])), np.isneginf(onp.array([-onp.inf, 1.0]))),
    "ediff1d": lambda np: np.ediff1d(x),
    "unwrap": lambda np: (np.unwrap(onp.array([0.0, 1, 3, 6, 2, -3, 3.5])), np.unwrap(x * 4, axis=0)),
    "ravel_multi_index": lambda np: np.ravel_multi_index((onp.array([0, 2]), onp.array([1, 3])), (3, 4)),
    "histogram": lambda np: np.histogram(x),
    "histogram_range": lambda np: np.histogram(x, bins=5, range=(0, 1)),
    "histogram_edges": lambda np: np.histogram(x, (-1.0, 0.0, 0.5, 2.0)),
    "histogram_density": lambda np: np.histogram(x, 3, density=True),
    "histogram_weights": lambda np: np.histogram(v, 3, weights=v * v),
    "windows": lambda np: (np.hanning(7), np.hamming(6), np.blackman(5), np.bartlett(8), np.hanning(1)),
    "polyadd": lambda np: (np.polyadd(w, v), np.polysub(v, w), np.polymul(v, w)),
    "polyder": lambda np: (np.polyder(v), np.polyder(v, 2), np.polyint(w)),
    "nansum": lambda np: np.nansum(holes),
    "nanmean": lambda np: np.nanmean(holes, axis=0),
    "nanmax": lambda np: np.nanmax(holes),
    "isclose": lambda np: np.isclose(x, y),
    "allclose": lambda np: np.allclose(x, x),
    "array_equal": lambda np: np.array_equal(x, x),
    "atleast_2d": lambda np: np.atleast_2d(v),
    "atleast_1d": lambda np: np.atleast_1d(v),
    "fliplr": lambda np: np.fliplr(x),
    "flipud": lambda np: np.flipud(x),
    "rot90": lambda np: np.rot90(x),
    "cov": lambda np: np.cov(x),
    "corrcoef": lambda np: np.corrcoef(x),
    "diff": lambda np: np.diff(v),
    "gradient": lambda np: np.gradient(v),
    "interp": lambda np: np.interp(np.asarray([0.5, 1.5]), np.asarray([0.0, 1.0, 2.0]), np.asarray([1.0, 3.0, 5.0])),
    "percentile": lambda np: np.percentile(v, 30),
    "quantile": lambda np: np.quantile(v, 0.3),
    "clip": lambda np: np.clip(x, -0.5, 0.5),
    "heaviside": lambda np: np.heaviside(x, 0.5),
    "sinc": lambda np: np.sinc(x),
    "deg2rad": lambda np: np.deg2rad(x),
    "rad2deg": lambda np: np.rad2deg(x),
    "logaddexp": lambda np: np.logaddexp(x, y),
    "logaddexp2": lambda np: np.logaddexp2(x, y),
    "nan_to_num": lambda np: np.nan_to_num(x),
    "polyval": lambda np: np.polyval([1.0, 2.0, 3.0], v),
    "vander": lambda np: np.vander(v),
    "convolve": lambda np: np.convolve(v, w),
    "correlate": lambda np: np.correlate(v, w),
    "count_nonzero": lambda np: np.count_nonzero(x > 0),
    "solve": lambda np: np.linalg.solve(s, v),
    "slogdet": lambda np: np.linalg.slogdet(s)[1],
    "matrix_power": lambda np: np.linalg.matrix_power(s, 3),
    "multi_dot": lambda np: np.linalg.multi_dot([x, s, s]),
    "logspace": lambda np: np.logspace(0.0, 1.0, 5),
    "geomspace": lambda np: np.geomspace(1.0, 100.0, 3),
    "meshgrid": lambda np: np.meshgrid(v, w)[0],
    "meshgridij": lambda np: np.meshgrid(v, w, indexing='ij')[1],
    "identity": lambda np: np.identity(3),
    "empty": lambda np: np.empty((2, 3)).shape[0],
    "array_split": lambda np: np.array_split(v, 2)[1],
    "hsplit": lambda np: np.hsplit(x, 2)[0],
    "vsplit": lambda np: np.vsplit(s, 2)[0],
    "broadcast_arrays": lambda np: np.broadcast_arrays(v, x)[0],
    "append": lambda np: np.append(v, w),
    "unravel": lambda np: np.unravel_index(5, (3, 4))[0],
    "fmax": lambda np: np.fmax(x, y),
    "select": lambda np: np.select([x > 0, x > -1], [x, 2 * x], 0.0),
    "piecewise": lambda np: np.clip(x, 0, None),
    "trapz": lambda np: np.trapezoid(v) if hasattr(np, 'trapezoid') else np.trapz(v),
    "float_power": lambda np: np.float_power(abs(x), 2),
    "divmod": lambda np: np.divmod(x, 1.0)[0],
    "signbit": lambda np: np.signbit(x),
    "positive": lambda np: np.positive(x),
    "pad": lambda np: np.pad(v, (1, 2)),
    "pad2": lambda np: np.pad(x, ((1, 1), (0, 2))),
    "padc": lambda np: np.pad(x, 1, constant_values=3.0),
    "pade": lambda np: np.pad(v, 1, mode='edge'),
    "padr": lambda np: np.pad(v, 1, mode='reflect'),
    "tri": lambda np: np.tri(3),
    "indices": lambda np: np.indices((2, 3))[0],
    "digitize": lambda np: np.digitize(v, np.asarray([-1.0, 0.0, 1.0])),
    "sum_dtype": lambda np: np.sum(x, dtype=np.float32),
    "asfloat": lambda np: np.asarray(x, dtype=np.float32),
    "zeros_int": lambda np: np.zeros(3, dtype=np.int32),
}


def close(a, b, name):
    if isinstance(b, tuple):
        assert len(a) == len(b), name
        for k, (x, y) in enumerate(zip(a, b)):
            close(x, y, f"{name} {k}")
        return
    g, w = onp.asarray(a), onp.asarray(b)
    assert g.shape == w.shape and onp.allclose(g, w, equal_nan=True), (name, g, w)


def test_alone():
    for name, f in CASES.items():
        close(f(anfora.numpy), f(onp), name)


def test_in_compiled_functions():
    for name, f in CASES.items():
        close(jit(f, static_argnums=0, backend="interp")(anfora.numpy), f(onp), name)


def test_by_the_names_of_numpy():
    @jit(backend="interp")
    def f(a, b):
        z = onp.dot(a, b)
        return onp.logaddexp(0.0, z) + onp.linalg.norm(a) ** 2, onp.moveaxis(onp.outer(a, b), 0, -1), onp.median(a)
    for got, want in zip(f(v, v + 1), f.__wrapped__(v, v + 1)):
        close(got, want, "by name")


def test_what_must_be_known():
    @jit
    def f(x, axis):
        return onp.moveaxis(x, 0, axis)
    try:
        f(x, onp.array(1))
    except anfora.CompileError as e:
        assert "destination of moveaxis() must be known" in str(e) and "onp.moveaxis(x, 0, axis)" in str(e)
    else:
        raise AssertionError("it took an axis that is not known")
    try:
        anfora.numpy.moveaxis(x, 0, 5)
    except anfora.AnforaError as e:
        assert "there is no such dim" in str(e)
    else:
        raise AssertionError("it took a dim that is not there")


def test_functions_of_two_numbers_at_their_edges():
    edges = onp.array([0.0, -0.0, 1, -1, onp.inf, -onp.inf, onp.nan, 5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 0.5, 3, 1e-160, 1e160])
    bits = rng.integers(0, 2**63, (2, 50000), dtype=onp.int64).view(onp.float64) * rng.choice([-1, 1], 50000)
    with onp.errstate(all="ignore"):
        for dtype in onp.float64, onp.float32:
            a = onp.concatenate([onp.repeat(edges, 16), bits[0], rng.normal(size=50000)]).astype(dtype)
            b = onp.concatenate([onp.tile(edges, 16), bits[1], rng.normal(size=50000)]).astype(dtype)
            for name in "arctan2", "hypot", "fmod", "mod", "floor_divide":
                f, by = getattr(anfora.numpy, name), getattr(onp, name)
                exact, ulps = name in ("fmod", "mod", "floor_divide"), {"fmod": 0, "mod": 0, "floor_divide": 1}.get(name, 2.1)
                want = by(a, b) if exact else by(a.astype(onp.longdouble), b.astype(onp.longdouble)).astype(dtype)
                got = onp.asarray(jit(lambda x, y, f=f: f(x, y))(a, b))
                close = onp.abs(got - want) <= ulps * onp.spacing(onp.abs(want))
                same = (got == want) & (onp.signbit(got) == onp.signbit(want)) | onp.isnan(got) & onp.isnan(want)
                bad = onp.flatnonzero(~(same | close))
                assert not len(bad), (name, dtype, a[bad[0]], b[bad[0]], got[bad[0]], want[bad[0]])


def test_logarithms_of_powers_are_whole():
    ten, two = 10.0 ** onp.arange(-5, 23), 2.0 ** onp.arange(-1074, 1023)
    assert (onp.asarray(jit(lambda x: anfora.numpy.log10(x))(ten)) == onp.arange(-5, 23)).all()
    assert (onp.asarray(jit(lambda x: anfora.numpy.log2(x))(two)) == onp.arange(-1074, 1023)).all()
    assert (onp.asarray(jit(lambda x: anfora.numpy.exp2(x))(onp.log2(two))) == two).all()


def test_convolutions_of_any_lengths():
    for n in (1, 2, 3, 4, 7):
        for m in (1, 2, 3, 5, 8):
            a, b = rng.normal(size=n), rng.normal(size=m)
            for mode in "full", "same", "valid":
                for name in "convolve", "correlate":
                    want, got = getattr(onp, name)(a, b, mode), onp.asarray(getattr(anfora.numpy, name)(a, b, mode))
                    assert want.shape == got.shape and onp.allclose(want, got), (name, n, m, mode)


def test_words_that_are_none_are_refused():
    a, square, vector = anfora.numpy, onp.eye(3), onp.arange(3.0)
    calls = {"meshgrid": lambda: a.meshgrid(vector, vector, indexing="yx"), "convolve": lambda: a.convolve(vector, vector, "whole"),
             "choose": lambda: a.choose(onp.array([0, 1]), [vector[:2], vector[:2]], mode="rise"),
             "qr": lambda: anfora.scipy.linalg.qr(square, mode="reduced"), "polar": lambda: anfora.scipy.linalg.polar(square, side="top"),
             "convolution_matrix": lambda: anfora.scipy.linalg.convolution_matrix(vector, 3, mode="whole"),
             "solve_triangular": lambda: anfora.scipy.linalg.solve_triangular(square, vector, trans="H"),
             "lu_solve": lambda: anfora.scipy.linalg.lu_solve(anfora.scipy.linalg.lu_factor(square), vector, trans=3)}
    for name, call in calls.items():
        try:
            call()
        except anfora.AnforaError as e:
            assert name in str(e), (name, e)
        else:
            raise AssertionError(f"{name} took a word that it does not have")


def test_edges_of_arguments_as_numpy_has_them():
    whole, hole, rows = onp.array([[3, 1, 8], [2, 9, 4]]), onp.array([1.0, onp.nan, 3.0]), rng.normal(size=(2, 3))
    z, five, deep = rows + 1j * rows[::-1], rng.normal(size=5), rng.normal(size=(2, 3, 4))
    cases = {"median of integers": lambda np: np.median(whole), "percentile of integers": lambda np: np.percentile(whole, 30.0, axis=1),
             "median with NaN": lambda np: np.median(hole), "quantiles with NaN": lambda np: np.quantile(hole, onp.array([0.1, 0.6])),
             "quantiles of numbers": lambda np: np.nanquantile(hole, onp.array([0.25, 0.75])),
             "nanpercentile": lambda np: np.nanpercentile(rows, onp.array([10.0, 60.0]), axis=1, keepdims=True),
             "counts": lambda np: np.histogram(five)[0], "edges": lambda np: np.histogram(whole, 7)[1], "frexp": lambda np: np.frexp(whole)[0],
             "isin": lambda np: np.isin(whole, onp.array([1, 9]), True), "no differences": lambda np: np.diff(rows, n=0, prepend=1.0),
             "cov": lambda np: np.cov(z), "corrcoef": lambda np: np.corrcoef(z), "float_power": lambda np: np.float_power(z, 2.0),
             "rollaxis": lambda np: np.rollaxis(deep, -1), "rollaxis to the end": lambda np: np.rollaxis(deep, 0, -1), "kron": lambda np: np.kron(3.0, 4.0),
             "nextafter": lambda np: np.nextafter(whole, 5), "rows stacked": lambda np: np.stack(rows), "rows joined": lambda np: np.concatenate(rows)}
    for name, case in cases.items():
        want, got = onp.asarray(case(onp)), onp.asarray(case(anfora.numpy))
        assert want.shape == got.shape and onp.allclose(want, got, rtol=1e-12, atol=0, equal_nan=True), (name, want, got)
    for name, args in {"negative": (five, five), "abs": (2, five), "ndim": (rows, 0)}.items():
        try:
            getattr(anfora.numpy, name)(*args)
        except TypeError as e:
            assert "takes 1 argument, not 2" in str(e)
        else:
            raise AssertionError(f"{name} took another argument")


def test_special_functions_at_their_edges():
    special, inf, nan = anfora.scipy.special, onp.inf, onp.nan
    x, m = onp.array([-2.5, -1.0, 0.0, 2.0, nan, inf, -inf]), rng.normal(size=(2, 3))
    near = {"gammasgn": [-1, nan, 1, 1, nan, 1, nan], "loggamma": [nan, nan, inf, 0, nan, inf, nan]}
    for name, want in near.items():
        assert onp.array_equal(onp.asarray(getattr(special, name)(x)), want, equal_nan=True), name
    at = onp.asarray(special.expi(x))
    assert onp.isnan(at[4]) and at[2] == -inf and at[5] == inf and at[6] == 0
    assert onp.array_equal(onp.asarray(special.zeta(2.0, onp.array([-1.0, 0.0]))), [inf, inf])
    assert onp.allclose(onp.asarray(special.xlogy(1j, -2.5)), 1j * onp.log(-2.5 + 0j))
    whole = onp.exp(m) / onp.exp(m).sum()
    assert onp.allclose(onp.asarray(special.softmax(m)), whole) and onp.allclose(onp.asarray(special.log_softmax(m)), onp.log(whole))
    assert onp.allclose(onp.asarray(special.softmax(m, axis=0)).sum(0), 1.0)


def test_gradient_and_insert():
    """As NumPy: spacings of each axis, places, edges of second order; rows before several indices, which must be there."""
    m, v, x = onp.arange(12.0).reshape(3, 4) ** 2, onp.array([1.0, 4, 9, 16, 30]), onp.array([0.0, 1, 3, 4, 7])
    a, two = onp.arange(4), onp.array([1.0, 2.0])
    calls = [lambda n: n.gradient(v), lambda n: n.gradient(v, x), lambda n: n.gradient(v, x, edge_order=2), lambda n: n.gradient(v, 0.5, edge_order=2),
             lambda n: n.gradient(m), lambda n: n.gradient(m, 2.0, 3.0), lambda n: n.gradient(m, x[:3], x[:4], edge_order=2),
             lambda n: n.gradient(m, axis=(1, 0)), lambda n: n.gradient(m, 2.0, axis=1, edge_order=2), lambda n: n.insert(a, 1, 9),
             lambda n: n.insert(a, [3, 1], [8, 9]), lambda n: n.insert(a, [1, 1], 7), lambda n: n.insert(a, -1, 1), lambda n: n.insert(a, 4, 1),
             lambda n: n.insert(a, 2, onp.array([5, 6, 7])), lambda n: n.insert(m, 1, two[:1], axis=1), lambda n: n.insert(m, [0, 2], 5, axis=0),
             lambda n: n.insert(m, 1, onp.ones((2, 4)), axis=0), lambda n: n.insert(m, [1], onp.ones((3, 1)), axis=1), lambda n: n.insert(m, 3, 2.0),
             lambda n: n.indices((2, 3))]
    for i, call in enumerate(calls):
        want, got = call(onp), call(anfora.numpy)
        pairs = zip(want, got) if isinstance(want, (list, tuple)) else [(want, got)]
        for w, g in pairs:
            assert onp.asarray(g).dtype == w.dtype and onp.asarray(g).shape == w.shape and onp.allclose(g, w), i
    at = anfora.jit(lambda a, i: anfora.numpy.insert(a, i, 7))
    assert onp.array_equal(at(a, onp.array([0, 3])), onp.insert(a, [0, 3], 7))
    assert anfora.numpy.indices((2, 2), dtype="f4").dtype == onp.float32
    for f, words in ((lambda: anfora.numpy.insert(a, 9, 1), "outside of the axis"), (lambda: anfora.numpy.gradient(v[:2], edge_order=2), "edge_order + 1"),
                     (lambda: anfora.numpy.gradient(m, 1.0, 2.0, 3.0), "one for each axis"), (lambda: anfora.numpy.gradient(v, edge_order=3), "edge_order is 1 or 2")):
        try:
            f()
            raise AssertionError(words)
        except anfora.RunError as e:
            assert words in str(e)


def test_sorts_are_stable():
    """Values and orders of many equal, signed, infinite and missing elements, of each element type: few are inserted, more are sorted by bytes."""
    np = anfora.numpy
    both = jit(lambda x: (np.sort(x), np.argsort(x)))
    for dtype in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"):
        for n in (32, 300):
            x = (rng.integers(-9, 9, n) * 2.0 ** rng.integers(0, 7, n)).astype("i8").astype(dtype)
            if dtype[0] == "f":
                x[::7], x[1::9], x[2::11], x[3::13] = onp.nan, -0.0, onp.inf, -onp.inf
            else:
                x[::7], x[1::9] = (False, True) if dtype == "?" else (onp.iinfo(dtype).min, onp.iinfo(dtype).max)
            order = onp.argsort(x, kind="stable")
            values, places = both(x)
            assert onp.array_equal(places, order) and onp.array_equal(values, x[order], equal_nan=dtype[0] == "f"), (dtype, n)


Z = onp.array([0.3 + 0.5j, -1.2 + 0.7j, 2 - 0.1j, -3 - 2j, 1.5 + 0j, -1.5 + 0j, 2j, -0.5j, 1e-9 + 1e-9j])


def test_complex_numbers():
    """Inverse functions with the branch cuts of C, logarithms to bases, and what is exact near 0."""
    with onp.errstate(all="ignore"):
        wants = {n: getattr(onp, n)(Z) for n in "exp2 expm1 log1p log2 log10 arcsin arccos arctan arcsinh arccosh arctanh".split()}
    wants["sign"] = onp.where(Z == 0, 0, Z / onp.where(Z == 0, 1, onp.abs(Z)))
    for name, want in wants.items():
        for f in (getattr(anfora.numpy, name), jit(getattr(anfora.numpy, name), backend="interp")):
            got = onp.asarray(f(Z))
            assert got.dtype == Z.dtype and onp.allclose(got, want, rtol=1e-9, atol=1e-15), (name, got, want)
        got = onp.asarray(getattr(anfora.numpy, name)(Z.astype("complex64")))
        assert got.dtype == onp.complex64, name
    for name in ("arcsin", "log2", "sign", "expm1"):
        close(getattr(anfora.numpy, name)(onp.array([0.5, 0.25])), getattr(onp, name)(onp.array([0.5, 0.25])), name)
    close(anfora.numpy.asin(Z), onp.arcsin(Z), "asin")
    assert complex(anfora.numpy.log2(0j)) == complex(-onp.inf, 0) and complex(anfora.numpy.sign(0j)) == 0
    for name, slope in (("arctan", lambda z: 1 / (1 + z * z)), ("expm1", onp.exp), ("log2", lambda z: 1 / z / onp.log(2)), ("arcsin", lambda z: 1 / onp.sqrt(1 - z * z))):
        close(anfora.grad(getattr(anfora.numpy, name), holomorphic=True)(0.3 + 0.5j), slope(0.3 + 0.5j), name)


def test_element_types_of_joined_arrays():
    a, b = onp.arange(3.0), onp.arange(3)
    for f in (lambda a, b: anfora.numpy.concatenate([a, b], dtype="float32"), lambda a, b: anfora.numpy.stack([a, b], 1, dtype=int),
              lambda a, b: anfora.numpy.concatenate([a[:, None], b[:, None]], axis=None, dtype=onp.float32)):
        for g in (f, jit(f)):
            assert g(a, b).dtype == (onp.int64 if g(a, b).ndim == 2 else onp.float32)
    assert anfora.numpy.concatenate([a, b], dtype=None).dtype == onp.float64
    close(anfora.numpy.searchsorted(a, 1.5, method="sort"), 2, "method")


def test_complex_logarithms_far_out():
    """log1p, arctanh and arctan of complex numbers square no parts: these overflow, and leave nothing beside the poles. Their derivatives hold, too."""
    at = onp.array([1e-15 + 1.7e23j, 1e30 + 1e30j, 1e-9 - 1j, -2 + 1e-3j, 0.3 - 0.2j, 1e-3 + 1e-3j, 0j, 2 - 3j])
    poles = onp.array([-1 + 1e-25j, 1 + 1e-25j, 1j * (1 + 1e-9)])
    for t, close in (onp.complex64, 1e-5), (onp.complex128, 1e-12):
        for name, f, of in (("log1p", anfora.numpy.log1p, [*at, -1 + 1e-20j]), ("arctanh", anfora.numpy.arctanh, [*at, *poles[:2], 0.9999 + 1e-6j]), ("arctan", anfora.numpy.arctan, [*at, poles[2]])):
            x = onp.array(of, t)
            got, want = onp.asarray(anfora.jit(f, backend="interp")(x)), getattr(onp, name)(x.astype(onp.complex128))
            assert onp.allclose(got.real, want.real, close, 1e-15) and onp.allclose(got.imag, want.imag, close, 1e-15), (name, got, want)
        most = float(onp.finfo(t(0).real.dtype).max)
        for name, f in ("arctanh", anfora.numpy.arctanh), ("arctan", anfora.numpy.arctan):  # the greatest numbers and what is beyond
            x = onp.array([complex(a, b) for a in (most, -most, 0.0, most / 4, onp.inf, -onp.inf) for b in (0.0, -0.0, 1.0, most, -most, onp.inf)], t)
            got, want = onp.asarray(anfora.jit(f, backend="interp")(x)), getattr(onp, name)(x)
            for part in "real", "imag":
                assert onp.allclose(getattr(got, part), getattr(want, part), 1e-6, 1e-30), (name, x, got, want)
                assert (onp.signbit(getattr(got, part)) == onp.signbit(getattr(want, part))).all(), (name, part, x, got, want)
    x = onp.array([0.0, 0.3, -0.4, 0.9995])
    got = anfora.vmap(anfora.grad(lambda a: anfora.numpy.real(anfora.numpy.arctanh(anfora.numpy.astype(a, "c128") + 0.1j))))(x)
    assert onp.allclose(got, (1 / (1 - (x + 0.1j) ** 2)).real)
    got = anfora.vmap(anfora.grad(lambda a: anfora.numpy.real(anfora.numpy.log1p(anfora.numpy.astype(a, "c128") + 2j))))(x * 5)
    assert onp.allclose(got, (1 / (1 + x * 5 + 2j)).real)
