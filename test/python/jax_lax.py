# SPDX-License-Identifier: Apache-2.0
"""Functions by the names of jax.lax, with JAX's values and gradients: part of jax_programs.py."""
import sys

import numpy as np

if "--write" in sys.argv:
    import jax
    import jax.numpy as jnp
    from jax import lax
else:
    import anfora as jax
    import anfora.numpy as jnp
    from anfora import lax

r = np.random.default_rng(1)
x, v, X, W = (r.normal(size=n).astype("f4") for n in ((3, 4), 7, (2, 5, 6, 3), (3, 2, 3, 4)))
I, J = np.array([7, -7, 7, -7, 0, 5], "i4"), np.array([2, 2, -2, -2, 3, 7], "i4")
k1, k2, k3 = np.array([2, 1, 2, 1, 3], "i4"), np.array([1, 5, 0, 4, 2], "f4"), np.arange(5, dtype="i4")
NHWC = ("NHWC", "HWIO", "NHWC")


def slope(f, *args):
    return jax.grad(lambda *a: jnp.sum(jnp.sin(f(*a))))(*args)


def prog_lax_padding():
    def inside(x): return lax.pad(x, 0.0, ((1, 2, 1), (-1, 1, 2)))
    return inside(x), jax.jit(inside)(x), slope(inside, x), lax.pad(x, np.float32(2.5), ((-1, 2, 0), (1, -2, 1))), lax.pad(I, 7, [(-1, -1, 3)])


def prog_lax_windows():
    def largest(x): return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    def sums(x): return lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 1), ((1, 2), (0, 1)))
    return (largest(X), slope(largest, X), sums(x), jax.jit(sums)(x), slope(sums, x), lax.reduce_window(I, 0, lax.add, (3,), (1,), "SAME"),
            lax.reduce_window(x, 0.25, lax.add, (2, 2), (1, 1), ((1, 1), (0, 0))), lax.reduce_window(x, np.inf, lax.min, (2, 2), (1, 1), "VALID"),
            lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 1), ((1, 1), (0, 0)), (2, 1), (1, 2)),
            lax.reduce(x, 1.0, lax.mul, (0, 1)), lax.reduce((x, x * 2), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)))


def prog_lax_convolutions():
    def spread(x): return lax.conv_general_dilated(x, W, (1, 2), ((1, 2), (0, 1)), (2, 3), (1, 1), NHWC)
    def back(w): return lax.conv_transpose(X, w, (2, 3), "SAME")
    return (spread(X), jax.jit(spread)(X), slope(spread, X), lax.conv_general_dilated(X, W, (1, 1), ((-1, 2), (0, -1)), dimension_numbers=NHWC),
            lax.conv_general_dilated(X, W[:, :, :1, :3], (1, 1), "SAME", dimension_numbers=NHWC, feature_group_count=3),
            lax.conv_general_dilated(X, W, (1, 1), "VALID", dimension_numbers=("NWHC", "HWIO", "NHWC")),
            back(W), slope(back, W), lax.conv_transpose(X, W, (2, 2), "VALID", rhs_dilation=(2, 1)), lax.conv_transpose(X, W, (5, 2), ((1, 2), (0, 3))),
            lax.conv_transpose(X, np.moveaxis(W, 3, 2), (2, 2), "SAME", transpose_kernel=True), lax.conv_transpose(X[0], W[0], (2,), "SAME"))


def prog_lax_elements():
    halves = np.array([.5, -.5, 1.5, 2.5, -2.5, .49999997, 3.2], "f4")
    return (lax.div(I, J), lax.div(v, v + 3), lax.rem(I, J), lax.rem(v * 3, v[::-1] + 4), lax.div(np.array([200, 7], "u1"), np.array([3, 2], "u1")),
            lax.round(halves), lax.round(halves, lax.RoundingMethod.TO_NEAREST_EVEN), lax.reduce_precision(v, 8, 7), lax.reduce_precision(v, 5, 10),
            lax.shift_right_arithmetic(I, np.full(6, 1, "i4")), lax.shift_right_logical(I, np.full(6, 28, "i4")), lax.mulhi(I * 99999999, J * 99999999),
            lax.bitcast_convert_type(I, jnp.uint32), lax.select_n(x > 0, x, x * 2), lax.clamp(-.5, x, .5), lax.cumlogsumexp(x, 1),
            lax.cumlogsumexp(x, axis=0, reverse=True), slope(lambda x: lax.cumlogsumexp(x, 1), x), lax.igamma(np.abs(v), v * v), lax.igammac(np.abs(v), v * v),
            lax.polygamma(1., np.abs(v) + 1), lax.erf_inv(v / 4), lax.bessel_i1e(v))


def prog_lax_order():
    return (lax.sort((k1, k2, k3)), lax.sort((k1, k2, k3), num_keys=2), jax.jit(lambda a, b: lax.sort((a, b), num_keys=2))(k1, k2), lax.sort(x, dimension=0),
            lax.sort_key_val(k1, k2), slope(lambda b: lax.sort((k1, b), num_keys=1)[1] * k2, k2), lax.top_k(x, 2), lax.approx_min_k(x, 2))


def prog_lax_shapes():
    return (lax.split(v, (2, 4, 1)), lax.expand_dims(x, (0, 2)), lax.squeeze(x[None], dimensions=(0,)), lax.collapse(X, 1, 3), lax.broadcast_to_rank(x, 4),
            lax.reshape(x, (4, 3), (1, 0)), lax.unstack(x, 1), lax.fft(x + 1j, "FFT", (3, 4)), lax.fft(x, "RFFT", (4,)), lax.optimization_barrier((x, v)),
            lax.dot_general(x.astype("f2"), x.T.astype("f2"), (((1,), (0,)), ((), ())), preferred_element_type=np.float32))


def prog_lax_implicit():
    def root(a):
        return lax.custom_root(lambda y: y ** 3 - a, 1.0, lambda f, y: lax.fori_loop(0, 60, lambda i, y: y - f(y) / (3 * y * y), y), lambda g, y: y / g(1.0))
    one = jax.grad(root)
    two = jax.grad(one)
    return root(2.0), one(2.0), two(2.0), jax.grad(two)(2.0), jax.jit(one)(3.0)


def prog_lax_linalg():
    m, t = x @ x.T + np.eye(3, dtype="f4"), np.tril(x[:, :3]) + 2 * np.eye(3, dtype="f4")
    batch, solve = np.stack([m, 2 * m]), lax.linalg.triangular_solve
    ways = [{"left_side": a, "lower": b, "transpose_a": c} for a in (False, True) for b in (False, True) for c in (False, True)]
    q, r = lax.linalg.qr(x, full_matrices=False)
    vectors, values = lax.linalg.eigh(m)
    return (lax.linalg.cholesky(batch), lax.linalg.cholesky(t, symmetrize_input=False), slope(lax.linalg.cholesky, m), [solve(t, m, **way) for way in ways],
            solve(t, m, left_side=True, lower=True, conjugate_a=True), solve(t, m, left_side=True, unit_diagonal=True), q @ r,
            lax.linalg.qr(x)[0].shape, lax.linalg.svd(x, compute_uv=False), lax.linalg.svd(x, full_matrices=False)[1], values,
            (vectors * values) @ vectors.T, lax.linalg.lu(x), lax.linalg.lu(batch), slope(lambda m: lax.linalg.eigh(m)[1], m))


def prog_lax_shapes_of_convolutions():
    last, first = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC")
    return ([lax.conv_general_shape_tuple((2, 9, 8, 3), (3, 2, 3, 5), (2, 1), p, last) for p in ("SAME", "VALID", ((1, 2), (0, 3)))],
            [lax.conv_transpose_shape_tuple((2, 3, 9, 8), (5, 3, 3, 2), (2, 3), p, first) for p in ("SAME", "VALID", ((1, 2), (0, 3)))],
            [lax.padtype_to_pads((8, 5), (3, 2), (2, 3), p) for p in ("SAME", "VALID", "SAME_LOWER")],
            lax.reduce_window_shape_tuple((8, 5), (3, 2), (2, 3), ((1, 0), (0, 1))))
