# SPDX-License-Identifier: Apache-2.0
"""What is over the lanes of a vmap with a name: psum and its like, their derivatives, and where they are refused."""
import anfora
import anfora.numpy as anp
import numpy as np
from anfora import grad, jit, lax, vmap

V = np.array([1.0, 2.0, 3.0, 4.0])
M = np.arange(12.0).reshape(3, 4) / 7 + 0.1
W = np.array([1.0, -2.0, 0.5, 3.0])


def close(got, want):
    assert np.shape(got) == np.shape(want) and np.allclose(got, want, rtol=1e-12, atol=1e-12), (got, want)


def named(f, **axes):
    return vmap(f, axis_name="i", **axes)


def slope(f, x, h=1e-6):
    """The gradient of f by differences."""
    x = np.asarray(x)
    step = np.eye(x.size).reshape(x.size, *x.shape) * h
    return np.array([(float(f(x + d)) - float(f(x - d))) / (2 * h) for d in step]).reshape(x.shape)


def test_values():
    close(named(lambda a: a / lax.psum(a, "i"))(V), V / 10)
    close(jit(named(lambda a: a - lax.pmean(a, axis_name="i")))(M), M - M.mean(0))
    close(named(lambda a: lax.pmean(a, "i"))(np.array([1, 2, 4])), np.full(3, 7 / 3))
    close(named(lambda a: lax.pmax(a, "i") - lax.pmin(a, "i"))(M), np.tile(M.max(0) - M.min(0), (3, 1)))
    close(named(lambda a: lax.axis_index("i") * 10 + lax.axis_size("i"))(V), np.arange(4) * 10 + 4)
    close(named(lambda a: lax.psum(a > 2, "i"))(V), np.full(4, 2))
    close(named(lambda a: lax.psum(a, "i"), in_axes=1, out_axes=1)(M), np.tile(M.sum(1)[:, None], (1, 4)))
    close(named(lambda a: lax.psum(a, "i"), out_axes=None)(V), 10.0)
    got = named(lambda d: lax.psum(d, "i"))({"a": V, "b": M.T})
    assert set(got) == {"a", "b"}
    close(got["a"], np.full(4, 10.0))
    close(got["b"], np.tile(M.sum(1), (4, 1)))


def test_what_no_lane_differs_in():
    """The sum of what is the same for all lanes is that many times it, wherever it comes from."""
    got = named(lambda a, b: (lax.psum(b, "i"), lax.pmean(b, "i"), lax.pmax(b, "i")), in_axes=(0, None))(V, 2.5)
    close(got, np.array([[10.0] * 4, [2.5] * 4, [2.5] * 4]))
    close(named(lambda a: a + lax.psum(anp.ones(2), "i")[0])(V), V + 4)

    def helper(b):
        return lax.psum(b, "i") * 2
    close(named(lambda a, b: a * 0 + helper(b), in_axes=(0, None))(V, 3.0), np.full(4, 24.0))


def test_names_of_several_batches():
    def both(a):
        return lax.psum(a, "i"), lax.psum(a, "j"), lax.psum(a, ("i", "j")), lax.axis_index("i") * 10 + lax.axis_index("j")
    i, j, ij, at = vmap(vmap(both, axis_name="j"), axis_name="i")(M)
    close(i, np.tile(M.sum(0), (3, 1)))
    close(j, np.tile(M.sum(1)[:, None], (1, 4)))
    close(ij, np.full((3, 4), M.sum()))
    close(at, np.arange(3)[:, None] * 10 + np.arange(4))
    close(vmap(named(lambda a: lax.psum(a, "i")))(M), np.tile(M.sum(1)[:, None], (1, 4)))
    close(named(lambda r: vmap(lambda a: lax.psum(a, "i") + a)(r))(M), M.sum(0) + M)
    close(named(lambda r: named(lambda a: lax.psum(a, "i"))(r) + lax.psum(r, "i"))(M), M.sum(1)[:, None] + M.sum(0))


def test_lanes_exchanged():
    close(named(lambda a: lax.all_gather(a, "i"))(V), np.tile(V, (4, 1)))
    close(named(lambda a: anp.mean(lax.all_gather(a, "i", axis=1), axis=1) + a)(M), M + M.mean(0))
    close(named(lambda a: lax.ppermute(a, "i", [(0, 1), (1, 2), (2, 0)]))(M), np.roll(M, 1, 0))
    close(named(lambda a: lax.ppermute(a, "i", [(0, 1)]))(M), np.stack([0 * M[0], M[0], 0 * M[0]]))


def test_loops_that_all_lanes_run():
    def relaxed(a):
        for _ in range(3):
            a = a + lax.psum(a, "i") * 0.1
        return a
    want = V
    for _ in range(3):
        want = want + want.sum() * 0.1
    close(named(relaxed)(V), want)
    close(named(lambda a: lax.while_loop(lambda s: lax.psum(s, "i") > 1.0, lambda s: s * 0.5, a))(V), V / 16)
    close(named(lambda a: lax.cond(lax.psum(a, "i") > 3.0, lambda z: lax.psum(z, "i"), lambda z: z * 0.0, a))(V), np.full(4, 10.0))
    close(named(lambda a: lax.scan(lambda c, y: (c + lax.psum(y, "i"), c), 0.0, a))(M)[0], np.full(3, M.sum()))


def test_gradients():
    """Within the batch, where the sum of all lanes' gradients comes back, and around it."""
    close(named(grad(lambda a: lax.psum(a * a, "i")))(V), 2 * V * 4)
    close(named(anfora.checkpoint(grad(lambda a: anp.sin(lax.psum(anp.cos(a), "i")))))(V), -4 * np.cos(np.cos(V).sum()) * np.sin(V))

    def normed(a):
        mean = lax.pmean(a, "i")
        return (a - mean) / anp.sqrt(lax.pmean((a - mean) ** 2, "i") + 1e-5)
    for lane in (normed, lambda a: a ** 2 / lax.psum(a, "i"), lambda a: anp.sum(lax.all_gather(a, "i") ** 2) * a,
                 lambda a: lax.ppermute(a, "i", [(0, 1), (1, 3), (3, 2)]) ** 2 * a, lambda a: a * lax.pmax(a * a, "i"), lambda a: a / lax.pmin(a, "i")):
        def loss(v):
            return anp.sum(named(lane)(v) * W)  # noqa: B023: called at once
        assert np.allclose(grad(loss)(V), slope(loss, V), rtol=1e-6, atol=1e-7)
        (value, tangent), g = anfora.jvp(loss, (V,), (W,)), grad(loss)(V)
        assert np.allclose(tangent, np.dot(g, W)) and np.allclose(value, loss(V))
    h = anfora.hessian(lambda v: anp.sum(named(lambda a: a ** 2 / lax.psum(a, "i"))(v) * W))(V)
    close(h, np.array(h).T)


def test_own_rules():
    @anfora.custom_vjp
    def squares(a):
        return lax.psum(a * a, "i")
    squares.defvjp(lambda a: (squares(a), a), lambda r, g: (g * r * 7 + lax.pmean(r, "i"),))
    close(named(grad(squares))(V), 7 * V + 2.5)


def refused(f, *words):
    try:
        f()
    except anfora.AnforaError as e:
        for w in words:
            assert w in str(e), (w, str(e))
        return
    raise AssertionError("not refused")


def test_refusals():
    refused(lambda: lax.psum(V, "i"), 'no vmap with axis_name "i"', "E0714")
    refused(lambda: named(lambda a: lax.psum(a, "j"))(V), 'no vmap with axis_name "j"')
    refused(lambda: named(lambda a: lax.cond(a > 3.0, lambda z: lax.psum(z, "i"), lambda z: z * 0.0, a))(V), "a branch that lanes choose", "E0715")
    refused(lambda: named(lambda a: lax.while_loop(lambda s: s > 1.0, lambda s: s * 0.5 + 0 * lax.psum(s, "i"), a))(V), "end at different times")
    refused(lambda: vmap(lambda a: a, axis_name=3)(V), "axis_name is a text or None")
    try:
        lax.all_to_all
    except AttributeError as e:
        assert "psum" in str(e)
    else:
        raise AssertionError("there is all_to_all")
