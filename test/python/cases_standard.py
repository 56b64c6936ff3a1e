# SPDX-License-Identifier: Apache-2.0
"""The Array API standard and NumPy's functions beside it, against NumPy; the default element type."""
import math

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import random

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4))
HOLES = A.copy()
HOLES[1, 2] = HOLES[0, 0] = np.nan


def close(have, want, what):
    have, want = ((x if isinstance(x, (tuple, list)) else (x,)) for x in (have, want))
    assert len(have) == len(want), what
    for x, y in zip(have, want):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape and np.allclose(x, y, equal_nan=True, rtol=1e-9), (what, x, y)


def refused(f, *args, word):
    try:
        f(*args)
    except (anfora.CompileError, TypeError, ValueError) as e:
        assert word in str(e), e
        return
    raise AssertionError(f"nothing was refused: {word}")


def test_without_nan():
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanargmax", "nanargmin", "nanmedian"):
        for axis in (None, 0, 1):
            want = getattr(np, name)(HOLES, axis=axis)
            close(getattr(anp, name)(HOLES, axis=axis), want, name)
        close(anfora.jit(lambda x, name=name: getattr(np, name)(x, axis=1))(HOLES), getattr(np, name)(HOLES, axis=1), name)
    close(anp.nanquantile(HOLES, 0.3, axis=1, keepdims=True), np.nanquantile(HOLES, 0.3, axis=1, keepdims=True), "nanquantile")
    close(anp.nancumsum(HOLES, axis=1), np.nancumsum(HOLES, axis=1), "nancumsum")


def test_arguments_of_the_standard():
    for name in ("std", "var"):
        close(getattr(anp, name)(A, axis=0, correction=1), getattr(np, name)(A, axis=0, ddof=1), name)
        close(getattr(anp, name)(A, axis=0, correction=0.5, keepdims=True), getattr(np, name)(A, axis=0, ddof=0.5, keepdims=True), name)
    close(anp.cumulative_sum(A, axis=1, include_initial=True), np.cumsum(np.pad(A, ((0, 0), (1, 0))), axis=1), "cumulative_sum")
    small = np.full((2, 3), 100, "u2")
    for dtype in "uint8", "int32", "float32", "uint64":
        for ours, theirs in (anp.cumulative_sum, np.cumsum), (anp.cumulative_prod, np.cumprod):
            got, want = np.asarray(ours(small, axis=1, dtype=getattr(np, dtype))), theirs(small, axis=1, dtype=dtype)
            assert got.dtype == want.dtype and (got == want).all(), (dtype, got, want)
            assert np.asarray(ours(small, axis=1, dtype=getattr(np, dtype), include_initial=True)).dtype == want.dtype, dtype
    close(anp.diff(A, axis=1, prepend=0.0, append=A[:, :1]), np.diff(A, axis=1, prepend=0.0, append=A[:, :1]), "diff")
    close(anp.clip(A, max=0.5), np.clip(A, None, 0.5), "clip")
    close(anfora.jit(lambda x: np.clip(x, a_min=0, a_max=1))(A), np.clip(A, 0, 1), "clip by name")
    close(anp.sum(A.astype("f4"), dtype=anp.float64), np.sum(A.astype("f4"), dtype="f8"), "sum")
    assert anp.zeros(3, dtype=anp.int32, device="cpu").dtype == anp.int32
    refused(lambda: anp.zeros(3, device="cuda"), word="CPU")
    refused(anfora.jit(lambda x: x + anp.zeros(3, device="cuda")), A[0, :3], word="CPU")


def test_next_floats():
    for x, y in ((A, -A), (A.astype("f4"), -A.astype("f4")), (np.array([0.0, -0.0, 1.0, np.inf, 5e-324, np.nan]), np.array([1.0, -1, 1, 0, -1, 0]))):
        have, want = np.asarray(anp.nextafter(x, y)), np.nextafter(x, y)
        assert have.dtype == want.dtype and np.array_equal(have, want, equal_nan=True), (have, want)


def test_indices():
    close(anp.triu_indices(4, 1), np.triu_indices(4, 1), "triu_indices")
    close(anfora.jit(lambda x: x[np.tril_indices(3, k=-1, m=4)])(A), A[np.tril_indices(3, k=-1, m=4)], "tril_indices")
    close(anfora.jit(lambda v: anp.zeros((3, 3)).at[anp.tril_indices(3)].set(v))(np.arange(6.0)), [[[0, 0, 0], [1, 2, 0], [3, 4, 5]]], "at")
    close(anp.nonzero(A > 0), np.nonzero(A > 0), "nonzero")
    some = tuple(np.concatenate([i, np.full(15 - len(i), -1)]) for i in np.nonzero(A > 0))
    close(anfora.jit(lambda x: anp.nonzero(x > 0, size=15, fill_value=-1))(A), some, "nonzero of a size")
    close(anp.unique(np.array([3, 1, 3, 2]), size=5, fill_value=9), np.array([1, 2, 3, 9, 9]), "unique of a size")
    refused(anfora.vmap(lambda x: anp.nonzero(x)[0]), A, word="size=")
    close(anp.unique_counts(np.array([3, 1, 3])), ([1, 3], [1, 2]), "unique_counts")


def test_norms():
    for order in ("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf, None):
        close(anp.linalg.norm(A, ord=order), np.linalg.norm(A, ord=order), order)
    for order in (2, 1, 0, 3, math.inf, -math.inf, None):
        close(anp.linalg.norm(A, ord=order, axis=1, keepdims=True), np.linalg.norm(A, ord=order, axis=1, keepdims=True), order)
    three = RNG.normal(size=(2, 4, 5))
    close(anp.linalg.diagonal(three, offset=-1), np.diagonal(three, -1, 1, 2), "diagonal")
    close(anp.linalg.trace(three, offset=2), np.trace(three, 2, 1, 2), "trace")
    close(anp.linalg.cross(A[:, :3], A[:, 1:], axis=0), np.cross(A[:, :3], A[:, 1:], axis=0), "cross")


def test_logarithms_of_determinants_neither_overflow_nor_vanish():
    for m in (RNG.normal(size=(4, 4)) * 1e100, RNG.normal(size=(30, 30)) * 1e-20):
        close(anp.linalg.slogdet(m), tuple(np.linalg.slogdet(m)), "slogdet")


def test_element_types():
    assert anp.result_type(np.float32(1), anp.int32, 1.5) == anp.float32 and anp.result_type(anp.int8, anp.uint8) == anp.int16
    assert anp.isdtype(anp.float32, "real floating") and not anp.isdtype(anp.int32, ("bool", "real floating"))
    assert anp.can_cast(anp.int8, anp.int16) and not anp.can_cast(anp.int16, anp.int8)
    assert {anp.float32: 1}[anp.zeros(2, dtype="f32").dtype] == 1
    x = anp.ones(2)
    assert x.__array_namespace__() is anp and x.to_device("cpu") is x
    assert anp.__array_namespace_info__().default_dtypes()["real floating"] == anp.float64


def test_one_default_type():
    def made():
        key = random.key(0)
        return (anp.zeros(2), anp.ones(2), anp.eye(2), anp.linspace(0, 1, 3), anp.full(2, 0.5), random.normal(key, (2,)),
                random.uniform(key, (2,)), anp.array([0.5, 1.0]), anp.tri(2), np.arange(2.0), np.zeros(2), np.linspace(0, 1, 3))
    compiled = anfora.jit(made)
    half = anfora.jit(lambda: 0.5)
    assert {str(x.dtype) for x in map(anfora.asarray, made())} == {"f64"}
    assert {str(x.dtype) for x in compiled()} == {"f64"} and half().dtype == "f64"
    anfora.set_default_dtype(anfora.f32)
    try:
        assert {str(x.dtype) for x in made()[:9]} | {str(anp.arange(0, 1, 0.5).dtype)} == {"f32"} and {str(x.dtype) for x in compiled()} == {"f32"}
        assert half().dtype == "f32" and half() == 0.5 and anfora.default_dtype() == anfora.f32
        twice = anfora.jit(lambda x: {"a": x * 2, "b": [x + 1, np.ones(2) * x]})(3.0)
        assert twice["a"] == 6.0 and twice["b"][0] == 4.0 and twice["a"].dtype == "f32" and anp.add(1, 1.0) == 2.0
        assert anfora.grad(lambda p: p["b"] ** 2)({"b": 0.5})["b"] == 1.0 and anfora.vmap(lambda x, y: x * y, (None, 0))(0.5, np.ones(2))[0] == 0.5
        assert anfora.jvp(lambda x: x * x, (3.0,), (1.0,)) == (9.0, 6.0)
        assert anp.asarray(np.ones(2)).dtype == "f64" and anp.arange(3).dtype == "i64"
    finally:
        anfora.set_default_dtype(anfora.f64)
    assert {str(x.dtype) for x in compiled()} == {"f64"}


def test_indices_outside():
    x, m, i = np.arange(4.0), np.arange(12.0).reshape(4, 3), np.array([0, 3, 7, -1, -9])
    close(anp.take(x, i, mode="clip"), np.take(x, i, mode="clip"), "clip")
    close(anfora.jit(lambda x, i: anp.take(x, i, mode="wrap"))(x, i), np.take(x, i, mode="wrap"), "wrap")
    close(anfora.jit(lambda x, i: anp.take(x, i, mode="fill"))(x, i), np.array([0, 3, np.nan, 3, np.nan]), "fill")
    close(anfora.jit(lambda m, i: anp.take(m, i, axis=1, mode="fill", fill_value=-1))(m, np.array([0, 5])),
          np.stack([m[:, 0], np.full(4, -1.0)], 1), "fill along a dim")
    for mode, want in (("clip", [20, 1, 2, 33]), ("drop", [10, 1, 2, 23]), ("wrap", [10, 1, 2, 43])):
        close(anfora.jit(lambda x, i, mode=mode: x.at[i].add(10.0, mode=mode))(x, i), np.array(want), mode)
    close(anfora.jit(lambda m, i: m.at[i].set(np.ones(3), mode="drop"))(m, 9), m, "drop")
    refused(anfora.jit(lambda x, i: x.at[i].set(0.0, mode="round")), x, i, word="promise_in_bounds")


def test_hints_for_users_of_other_libraries():
    refused(anfora.jit(lambda x: x.unsqueeze(0)), A, word="expand_dims")
    refused(anfora.jit(lambda x: x.detach()), A, word="stop_gradient")
    refused(anfora.jit(lambda x: x + np.random.normal(size=3)), A, word="anfora.random with a key")
    refused(anfora.vmap(lambda n: anp.zeros(n)), np.array([3, 3]), word="static_argnums")
    refused(anfora.grad(lambda x: x * 2), A, word="jacrev")
