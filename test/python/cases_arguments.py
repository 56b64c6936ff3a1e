# SPDX-License-Identifier: Apache-2.0
"""Arguments as NumPy orders and names them: the same call gives the same values, outside of compiled functions and inside."""
import subprocess
import sys

import anfora
import anfora.numpy as anp
import numpy as onp

rng = onp.random.default_rng(0)
x, t, n = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 4)), onp.arange(6).reshape(2, 3)
m = x > 0


def check(name, f, *args):
    """f(namespace, *args) of NumPy's namespace and of ours."""
    want = anfora.tree_leaves(f(onp, *args))
    for how, g in ("alone", f), ("compiled", anfora.jit(f, static_argnums=0, backend="interp")):
        got = anfora.tree_leaves(g(anp, *args))
        assert len(got) == len(want), (name, how, got, want)
        for a, b in zip(got, want):
            assert onp.shape(a) == onp.shape(b) and onp.allclose(onp.asarray(a), b, equal_nan=True), (name, how, a, b)


def refused(f, say, *args):
    for how, g in ("alone", f), ("compiled", anfora.jit(f)):
        try:
            g(*args)
        except (TypeError, ValueError, anfora.AnforaError) as e:
            assert say in str(e), (how, e)
        else:
            raise AssertionError(f"{say}: not refused {how}")


def test_rows_of_one_array():
    for f in (lambda np, t: np.stack(t), lambda np, t: np.stack(t, 1), lambda np, t: np.stack(t, axis=-1), lambda np, t: np.stack(t * 2),
              lambda np, t: np.concatenate(t), lambda np, t: np.concatenate(t, 1), lambda np, t: np.concatenate(t, axis=-1),
              lambda np, t: np.concatenate(t, axis=None), lambda np, t: np.stack((lambda u: (u, u + 1))(t)),
              lambda np, t: np.concatenate((lambda u: [u, u + 1])(t), -1)):
        check("rows", f, t)
    g = anfora.jit(lambda c: anp.concatenate(anp.stack(t) * c, axis=1))(2.0)
    assert onp.allclose(onp.asarray(g), 2 * onp.concatenate(t, axis=1))


def test_reductions_in_numpys_order():
    for name in "sum prod mean var std nansum nanmean cumsum".split():
        check(name, lambda np, n: getattr(np, name)(n, 1, "float32"), n)  # noqa: B023: called at once
    for name in "sum prod mean all any var std nansum nanmean nanvar".split():
        check(name, lambda np, x, m: (getattr(np, name)(x, 1, where=m), getattr(np, name)(x, where=m[0], keepdims=True)), x, m)  # noqa: B023
    for name in "sum prod max min".split():
        check(name, lambda np, x, m: (getattr(np, name)(x, 1, initial=2.0), getattr(np, name)(x, 1, initial=0.5, where=m)), x, m)  # noqa: B023
    check("in place", lambda np, x: (np.var(x, 0, None, None, 1), np.std(x, 0, None, None, 1, True), np.sum(x, 0, None, None, True),
                                     np.max(x, 0, None, True), np.argmax(x, 1, None), x.var(0, None, None, 1), x.sum(0, "float32")), x)
    slope = anfora.grad(lambda x: anp.sum(x ** 2, where=x > 0))(x)
    assert onp.allclose(onp.asarray(slope), 2 * x * m)
    refused(lambda x: anp.sum(x, out=x), "out", x)
    refused(lambda x: anp.max(x, where=x > 0), "where needs initial", x)


def test_statistics_in_numpys_order():
    for method in "linear lower higher midpoint nearest".split():
        check(method, lambda np, x: (np.quantile(x, onp.array([.1, .77]), 1, method=method), np.nanpercentile(x, 77.0, 1, method=method)), x)  # noqa: B023
    check("cov", lambda np, x: (np.cov(x, rowvar=False, ddof=0), np.cov(x[0]), np.cov(x[0], x[1], bias=True),
                                np.cov(x, fweights=onp.array([1, 2, 3]), aweights=onp.array([.1, .2, .3])),
                                np.corrcoef(x, rowvar=False), np.corrcoef(x[0], x[1])), x)
    check("average", lambda np, x: (np.average(x, 1, onp.array([1., 2, 3]), True), np.average(x, returned=True)), x)
    a, w = onp.arange(27.0).reshape(3, 3, 3), onp.arange(9.0).reshape(3, 3)
    for axis, dims in ((0, 1), "ij"), ((2, 0), "ki"), ((-1, 0), "ki"):
        y, total = anp.average(a, axis, w, True)
        assert onp.allclose(y, onp.einsum("ijk," + dims, a, w) / w.sum()) and onp.allclose(total, w.sum()), axis  # as NumPy's from 2.0 on
    check("as many weights as elements", lambda np, a: (*np.average(a, None, a, True), *np.average(a, 1, a, True)), a)
    check("weights of what is not finite", lambda np, a: (np.average(a, weights=onp.ones(2)), np.average(a, 0, onp.ones(2))), onp.array([onp.inf, 1.0]))
    refused(lambda a, w: anp.average(a, None, w), "average: shapes of a and weights differ", a, w)
    refused(lambda a, w: anp.average(a, 0, w), "average", a, w[0, :1])
    for axis, given in (0, w), ((0, 1), w[0]):
        refused(lambda a, w: anp.average(a, axis, w), "average: weights are as many as elements, or as along the axes", a, given)  # noqa: B023
    check("dims", lambda np, t: (np.trace(t, 1, 1, 0), np.diagonal(t, 0, 1, 2), np.ptp(t, 0, None, True), np.median(t, 0, keepdims=True)), t)
    check("equal", lambda np, x: (np.array_equal(x, x[0]), np.array_equal(x * onp.nan, x * onp.nan, equal_nan=True)), x)


def test_element_types_by_their_names():
    for f, want in ((lambda x: x.dtype == "float64", True), (lambda x: x.dtype != "f64", False), (lambda x: x.dtype == "i32", False),
                    (lambda x: x.dtype in ("float32", onp.float64), True)):
        assert bool(f(anp.array(x))) is want and bool(anfora.jit(f)(x)) is want
    try:
        anfora.jit(lambda x: x.dtype == "nonsense")(x)
    except anfora.AnforaError as e:
        assert "'nonsense' is not an element type" in str(e)
    else:
        raise AssertionError("an element type that there is not")


def test_sums_of_lax_keep_the_type():
    u = onp.arange(200, dtype="u1")
    for name in "cumsum", "cumprod":
        got = getattr(anfora.lax, name)(u)
        assert got.dtype == "uint8" and onp.array_equal(onp.asarray(got), getattr(onp, name)(u, dtype="u1")), name
    assert anfora.lax.reduce_sum(u, axes=(0,)).dtype == "uint8"


def test_no_dims_have_no_indices():
    assert anp.argwhere(onp.float64(3)).shape == (1, 0) and anp.argwhere(onp.float64(0)).shape == (0, 0)


def test_without_numpy():
    """What is missing, and how to install it, in one line."""
    code = ("import sys\nclass Without:\n  def find_spec(self, name, *_):\n    if name.split('.')[0] == 'numpy': raise ImportError(name)\n"
            "sys.meta_path.insert(0, Without())\nimport anfora\n")
    run = subprocess.run([sys.executable, "-c", f"import sys\nsys.path[:] = {sys.path!r}\n{code}"], capture_output=True, text=True, check=False)
    assert run.returncode == 1 and run.stderr.strip().endswith("python3 -m pip install numpy"), run.stderr


class Told(float):
    """A number that prints as NumPy's do from its second version on."""

    def __repr__(self):
        return f"np.float64({float(self)})"


def test_constants_of_numpys_types():
    by = Told(2.5)
    assert float(anfora.jit(lambda x: x * by)(2.0)) == 5.0 and float(anfora.jit(lambda x: anp.clip(x, by, 3.0))(2.0)) == 2.5


def test_sets_and_parts():
    a, b = onp.array([3, 1, 2, 3, 1]), onp.array([[5, 3], [2, 2]])
    for f in (lambda np: np.intersect1d(a, b), lambda np: np.union1d(a, b), lambda np: np.setdiff1d(a, b), lambda np: np.setxor1d(a, b),
              lambda np: np.compress([True, False], x, axis=0), lambda np: np.extract(x > 0, x), lambda np: np.trim_zeros(onp.array([0, 1, 0, 2, 0])),
              lambda np: np.tril_indices_from(x), lambda np: np.mgrid[0:2, 0:3], lambda np: np.ogrid[0:2, 0:3], lambda np: np.r_[1:4, 0, 4],
              lambda np: np.intersect1d(a, b, return_indices=True)):
        want, got = anfora.tree_leaves(f(onp)), anfora.tree_leaves(f(anp))
        assert len(want) == len(got) and all(onp.array_equal(onp.asarray(g), w) for g, w in zip(got, want)), (want, got)
    check("resized", lambda np, x: (np.resize(x, (2, 5)), np.resize(x, 4), np.radians(x), np.degrees(x)), x)
    check("interp", lambda np, x: np.interp(x, onp.array([-1., 0, 1]), onp.array([3., 1, 2]), left=-7.0, right=9.0), 2 * x)
    def unique(a):
        return anp.unique(a, return_index=True, return_inverse=True, return_counts=True, size=4, fill_value=9)
    for how in unique, anfora.jit(unique):
        values, index, inverse, counts = how(a)
        assert onp.array_equal(values, [1, 2, 3, 9]) and onp.array_equal(onp.asarray(index)[:3], [1, 2, 0])
        assert onp.array_equal(inverse, [2, 0, 1, 2, 0]) and onp.array_equal(counts, [2, 1, 2, 0])
    assert onp.array_equal(anfora.jit(lambda a, b: anp.union1d(a, b, size=4))(a, b), [1, 2, 3, 5])
    for name, say in {"frompyfunc": "vectorize", "load": "anfora.load", "random": "anfora.random", "copyto": "x.at[i].set"}.items():
        try:
            getattr(anp, name)
        except AttributeError as e:
            assert say in str(e)
        else:
            raise AssertionError(name)


def test_kinds_of_element_types():
    assert anp.issubdtype(anp.float32, onp.floating) and not anp.issubdtype("i32", onp.floating) and anp.issubdtype(anp.array([1]).dtype, onp.integer)
    assert anp.promote_types("float32", "int32") == anfora.f32 and anp.iscomplexobj(onp.array([1j])) and anp.isscalar(2.0) and not anp.isscalar(x)
    assert isinstance(anp.array(x), anp.ndarray)


def test_bfloat16_of_ml_dtypes():
    """Arrays of ml_dtypes' bfloat16 are taken as they lie, and bf16 comes back as such; its other types are refused with their names."""
    try:
        import ml_dtypes
    except ImportError:
        return
    x = onp.array([[1, 2.5], [-3, 4]], ml_dtypes.bfloat16)
    doubled = anfora.jit(lambda x: x + x)
    for given in (x, x.T, x[::-1], anfora.asarray(x)):
        got, want = onp.asarray(doubled(given)), onp.asarray(given) + onp.asarray(given)
        assert doubled(given).dtype == "bf16" and got.dtype == x.dtype and onp.array_equal(got, want)
    lent = anfora.asarray(x)
    x[0, 0] = 7
    assert lent.tolist()[0][0] == 7.0
    assert onp.asarray(lent, onp.float32).dtype == onp.float32
    try:
        anfora.asarray(onp.zeros(2, ml_dtypes.float8_e5m2))
    except TypeError as e:
        assert "float8_e5m2" in str(e)
    else:
        raise AssertionError("a type that there is not")


X, M, A = onp.array([3.0, 1.0, 2.0]), onp.arange(6.0).reshape(2, 3) + 1, onp.arange(9.0).reshape(3, 3) + 1
BY_PLACE = [  # arguments of NumPy that other libraries have at other places
    lambda: onp.logspace(0, 2, 5, True), lambda: onp.logspace(0, 2, 5, False, 2.0), lambda: onp.geomspace(1.0, 8.0, 4, False), lambda: onp.linspace(0, 1, 5, True, False),
    lambda: onp.histogram(X, 5, None, True), lambda: onp.histogram(X, 5, (0.0, 4.0), True), lambda: onp.histogram(X, 5, None, None, X), lambda: onp.histogram2d(X, X, 3, None, True)[0],
    lambda: onp.cross(A, A[::-1] * 2, 0), lambda: onp.cross(A, A[::-1] * 2, 0, 0), lambda: onp.cross(A, A[::-1] * 2, 0, 1, 0), lambda: onp.cross(A, A[::-1] * 2, 0, 0, 0, 1),
    lambda: onp.take(X, [0, 2], 0, None), lambda: onp.take(X, [2, 4], 0, None, "clip"), lambda: onp.choose(onp.array([0, 1, 0]), (X, X * 2), None), lambda: onp.polyfit(X, X * 2, 1, None, False),
    lambda: onp.polyfit(X, X * 2, 1, None, False, X), lambda: onp.linalg.pinv(A[:, :2], 1e-10, False), lambda: onp.linalg.matrix_rank(A, 1e-10, True), lambda: onp.sort(X, 0, "stable"),
    lambda: onp.argsort(X, 0, "stable"), lambda: onp.ravel(M, "C"), lambda: onp.reshape(M, (3, 2), "C"), lambda: onp.std(M, 0, None, None, 1, True), lambda: onp.round(X / 3, 1, None),
    lambda: onp.cumsum(X, 0, onp.float32), lambda: onp.max(M, 0, None, True), lambda: onp.median(M, 0, None), lambda: onp.average(M, 0, None, False), lambda: onp.cov(M, None, True, True),
    lambda: onp.trace(M, 0, 0, 1, None), lambda: onp.nansum(M, 0, None), lambda: onp.vander(X, 3, True), lambda: onp.trapezoid(X, None, 2.0) if hasattr(onp, "trapezoid") else X,
    lambda: onp.clip(X, 1, 2, None), lambda: onp.matmul(A, A, None), lambda: onp.matmul(A, A, A * 0)]


def test_arguments_by_place():
    """NumPy's value, or a refusal: no argument is taken for another one."""
    def alike(want, got):
        if isinstance(want, tuple):
            return len(want) == len(got) and all(map(alike, want, got))
        return onp.shape(want) == onp.shape(got) and onp.allclose(want, got, 1e-6)
    same = 0
    for f in BY_PLACE:
        try:
            got = anfora.jit(f, backend="interp")()
        except (anfora.CompileError, anfora.RunError):
            continue
        assert alike(f(), got), (f.__code__.co_names, f.__code__.co_consts, f(), got)
        same += 1
    assert same > 20, same
