# SPDX-License-Identifier: Apache-2.0
"""Derivatives and batches against closed forms and differences."""
import functools
from dataclasses import dataclass, field

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import (checkpoint, custom_vjp, grad, hessian, jacfwd, jacrev, jit, jvp, stop_gradient, value_and_grad, vjp,
                    vmap)


def close(got, want, tol=1e-12):
    assert np.allclose(np.asarray(got), want, rtol=tol, atol=tol), (np.asarray(got), want)


def cube(x):
    return x * x * x


def energy(x, y):
    return anp.sum(anp.sin(x) * y) + anp.sum(y ** 2)


def test_grad_of_a_scalar():
    assert grad(cube)(2.0) == 12.0
    assert grad(grad(cube))(2.0) == 12.0
    assert grad(grad(grad(cube)))(2.0) == 6.0
    assert value_and_grad(cube)(3.0) == (27.0, 27.0)


def test_grad_by_several_arguments():
    x, y = np.array([0.1, 0.2]), np.array([1.0, -2.0])
    gx, gy = grad(energy, wrt=(0, 1))(x, y)
    close(gx, np.cos(x) * y)
    close(gy, np.sin(x) + 2 * y)
    close(grad(energy, argnums=1)(x, y), np.sin(x) + 2 * y)
    value, g = value_and_grad(energy, wrt=1)(x, y)
    close(value, np.sum(np.sin(x) * y) + np.sum(y ** 2))
    close(g, np.sin(x) + 2 * y)


def test_in_compiled_functions():
    @jit
    def newton(x):
        for i in range(20):
            x = x - cube_root(x) / grad(cube_root)(x)
        return x
    def cube_root(x):
        return x ** 3 - 2.0
    close(newton(1.0), 2 ** (1 / 3))


def test_control_flow_and_recursion():
    @jit
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)
    def loop(x, n):
        acc = 1.0
        while n > 0:
            acc = acc * x
            n -= 1
        return acc
    close(grad(power)(2.0, 5), 5 * 2.0 ** 4)
    close(grad(loop)(2.0, 5), 5 * 2.0 ** 4)


def test_jvp_and_vjp():
    value, slope = jvp(cube, (2.0,), (10.0,))
    assert (value, slope) == (8.0, 120.0)
    @jit
    def twice_used(x):
        value, pull = vjp(cube, x)
        return value, pull(1.0)[0], pull(2.0)[0]
    assert twice_used(2.0) == (8.0, 12.0, 24.0)


def test_arguments_left_to_defaults():
    def power(x, n=3, scale=2.0):
        return scale * x if n == 0 else x * power(x, n - 1, scale)
    value, slope = jvp(grad(power), (2.0,), (1.0,))  # 2 x ** 4
    assert (value, slope) == (64.0, 96.0)
    value, pull = vjp(power, 2.0)
    assert value == 32.0 and pull(1.0)[0] == 64.0


def test_any_number_of_arguments():
    def f(scale, *xs, power=2):
        total = 0.0
        for x in xs:
            total = total + scale * x ** power
        return total
    assert grad(f)(2.0, 3.0, 4.0) == 25.0 and grad(f, argnums=(1, 2))(2.0, 3.0, 4.0) == (12.0, 16.0)
    assert grad(f)(2.0, 3.0) == 9.0 and grad(grad(f, argnums=1), argnums=1)(2.0, 3.0, 4.0) == 4.0
    assert jvp(f, (2.0, 3.0, 4.0), (0.0, 1.0, 1.0)) == (50.0, 28.0)
    value, pull = vjp(f, 2.0, 3.0)
    assert value == 18.0 and pull(1.0) == (9.0, 12.0)
    assert jit(lambda x, y: grad(f, argnums=2)(2.0, x, y) + value_and_grad(f)(1.0, x)[1])(3.0, 4.0) == 25.0
    close(anfora.vmap(lambda *xs: xs[0] * xs[1])(np.arange(3.0), np.arange(3.0)), np.arange(3.0) ** 2)
    try:
        jvp(f, 2.0, 1.0)
        assert False, "no tuples"
    except TypeError as e:
        assert "a tuple of arguments" in str(e)


def test_order_of_keys():
    def f(p):
        return anp.sum(p["w"]) * p["b"]
    p = {"w": np.array([1.0, 2.0]), "b": 3.0}
    value, slope = jvp(f, [p], [{"b": 10.0, "w": np.array([1.0, 1.0])}])
    assert (value, slope) == (9.0, 36.0)


def test_jacobians_of_trees():
    def f(p):
        return {"u": p["a"][:, None] * p["b"], "v": (anp.sum(p["a"] ** 2),)}
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    for transform in (jacrev, jacfwd):
        j = transform(f)({"a": a, "b": b})
        close(j["u"]["a"], np.einsum("ik,j->ijk", np.eye(2), b)); close(j["u"]["b"], np.einsum("i,jk->ijk", a, np.eye(3)))
        close(j["v"][0]["a"], 2 * a); close(j["v"][0]["b"], np.zeros(3))
    h = hessian(lambda a, b: anp.sum(a ** 2) * b["c"][0], argnums=(0, 1))(a, {"c": b})
    close(h[0][0], 2 * b[0] * np.eye(2)); close(h[0][1]["c"], np.outer(2 * a, [1, 0, 0])); close(h[1]["c"][0], np.outer([1, 0, 0], 2 * a))


def test_jacobians_and_hessian():
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    x = np.array([0.5, -1.0])
    @jit
    def f(x):
        return anp.sin(a @ x)
    want = np.cos(a @ x)[:, None] * a
    close(jacrev(f)(x), want)
    close(jacfwd(f)(x), want)
    def q(x):
        return anp.sum(x ** 3)
    close(hessian(q)(x), np.diag(6 * x))


def test_vmap():
    x, w = np.arange(6.0).reshape(3, 2), np.array([2.0, 3.0])
    close(vmap(lambda v: anp.sum(v * v))(x), np.sum(x * x, 1))
    close(vmap(lambda v, w: v @ w, in_axes=(0, None))(x, w), x @ w)
    close(vmap(grad(lambda v: anp.sum(v ** 3)))(x), 3 * x ** 2)


@dataclass
class Layer:
    w: object
    b: object


def test_vmap_trees():
    """Axes of the parts of an argument are told by a tree, whose fields may come in another order."""
    x, b = np.arange(6.0).reshape(2, 3), np.array([5.0, 7.0])
    def f(p, v):
        return p["w"] @ v + p["b"]
    axes = ({"b": 0, "w": None}, None)
    want = x @ np.ones(3) + b[:, None]
    close(vmap(f, in_axes=axes)({"w": x, "b": b}, np.ones(3)), want)
    @jit
    def inside(p, v):
        return vmap(f, in_axes=({"b": 0, "w": None}, None))(p, v)
    close(inside({"w": x, "b": b}, np.ones(3)), want)
    close(vmap(lambda p, v: p.w @ v + p.b, in_axes=(Layer(None, 0), None))(Layer(x, b), np.ones(3)), want)
    got = vmap(lambda v: {"sum": anp.sum(v), "twice": 2 * v}, out_axes={"twice": 1, "sum": 0})(x)
    close(got["sum"], x.sum(1))
    close(got["twice"], 2 * x.T)
    try:
        vmap(f, in_axes=({"b": 0, "v": None}, None))({"w": x, "b": b}, np.ones(3))
        raise AssertionError("other fields are taken")
    except anfora.CompileError as e:
        assert "axes are for other fields" in str(e)


def test_custom_vjp():
    @custom_vjp
    def clipped(x):
        return x * x
    clipped.defvjp(lambda x: (x * x, x), lambda x, dy: (anp.clip(2 * x * dy, -1.0, 1.0),))
    assert clipped(3.0) == 9.0
    assert grad(clipped)(3.0) == 1.0
    assert grad(lambda x: clipped(x) * 0.125)(3.0) == 0.75


def test_checkpoint_and_stop_gradient():
    def f(x):
        return checkpoint(inner)(x) * stop_gradient(x)
    def inner(v):
        return anp.sin(v) * v
    close(grad(f)(0.7), (np.sin(0.7) + 0.7 * np.cos(0.7)) * 0.7)


@dataclass
class Params:
    w: object
    b: object


def test_trees():
    def loss(p, x):
        return anp.sum((x @ p.w + p.b) ** 2)
    p = Params(np.ones((2, 1)), np.zeros(1))
    g = grad(loss)(p, np.eye(2))
    assert isinstance(g, Params)
    close(g.w, 2 * np.ones((2, 1)))
    close(g.b, 4 * np.ones(1))
    def loss2(p, x):
        return anp.sum((x @ p["w"] + p["layers"][0]) ** 2)
    value, g = value_and_grad(loss2)({"w": np.ones((2, 1)), "layers": [np.zeros(1)]}, np.eye(2))
    assert value == 2.0 and list(g) == ["w", "layers"] and isinstance(g["layers"], list)
    close(g["layers"][0], [4.0])


def test_step_keeps_the_structure():
    @jit
    def step(p, x):
        g = grad(lambda p: anp.sum((x * p["w"] + p["b"]) ** 2))(p)
        return anfora.tree_map(lambda v, d: v - 0.1 * d, p, g)
    p = {"w": np.float64(1.0), "b": np.float64(2.0)}
    q = step(p, np.array([1.0, 2.0]))
    close([q["w"], q["b"]], [1 - 0.1 * 2 * (3 + 4 * 2), 2 - 0.1 * 2 * (3 + 4)])


def test_has_aux():
    def f(x):
        return x * x, {"twice": x + x}
    assert grad(f, has_aux=True)(3.0) == (6.0, {"twice": 6.0})


def test_transforms_are_values():
    def slopes(t, x):
        return t(cube)(x)
    through = jit(slopes)
    assert through(grad, 3.0) == 27.0
    assert through(jacrev, 3.0) == through(jacfwd, 3.0) == 27.0
    assert through(checkpoint, 3.0) == 27.0
    assert through(hessian, 3.0) == 18.0
    assert through(value_and_grad, 3.0) == (27.0, 27.0)
    close(through(vmap, np.array([1.0, 2.0])), [1.0, 8.0])

    @jit
    def several(x, c):
        table = {"t": grad, "u": jacrev}
        chosen = grad if c else checkpoint
        f = cube
        for t in (grad, grad):
            f = t(f)
        return [g(x) for g in map(grad, (cube, anp.sin))], table["u"](cube)(x), chosen(cube)(x), f(x)
    for c in (True, False):
        mapped, by_name, chosen, second = several(2.0, c)
        close(mapped, [12.0, np.cos(2.0)])
        assert (by_name, chosen, second) == (12.0, 12.0 if c else 8.0, 12.0)


def test_a_pullback_leaves_its_compiled_function():
    """With an aux value the pullback is of an item of the result: what says so lives as long as the pullback."""
    def f(x):
        return anp.sin(x) * 2.0, x * x
    x = np.array([1.0, 2.0])
    for _ in range(3):
        back = jit(lambda x: vjp(f, x, has_aux=True)[1])(x)
        close(back(np.ones(2))[0], 2 * np.cos(x))


def test_rules_that_call_their_function():
    """What a rule computes by the function whose rule it is has that rule, too, at every order: here the slope is twice that of tanh."""
    @anfora.custom_jvp
    def steep(x):
        return anp.tanh(x)

    @steep.defjvp
    def _(primals, tangents):
        y = steep(primals[0])
        return y, 2 * (1 - y * y) * tangents[0]

    @anfora.custom_vjp
    def back(x):
        return anp.tanh(x)
    back.defvjp(lambda x: (lambda y: (y, y))(back(x)), lambda y, dy: (2 * (1 - y * y) * dy,))
    x, t = 0.7, np.tanh(0.7)
    first, second = 2 * (1 - t * t), -8 * t * (1 - t * t)
    third = -8 * (1 - 3 * t * t) * first
    for f in (steep, back):
        assert abs(anfora.grad(f)(x) - first) < 1e-12
        assert abs(anfora.grad(lambda x: anfora.vjp(f, x)[0])(x) - first) < 1e-12  # noqa: B023: called at once
        assert abs(anfora.grad(anfora.grad(f))(x) - second) < 1e-12
        assert abs(anfora.grad(anfora.grad(anfora.grad(f)))(x) - third) < 1e-11
    assert abs(anfora.jvp(lambda x: anfora.jvp(steep, (x,), (1.0,))[0], (x,), (1.0,))[1] - first) < 1e-12


def test_rules_that_call_their_function_with_a_function_of_their_own():
    """The adjoint of a fixed point is one, too, of a step that the rule makes: the rules hold there, and in what these make."""
    @functools.partial(anfora.custom_vjp, nondiff_argnums=(0,))
    def fixed(f, a, x):
        def goes_on(s):
            return abs(s[0] - s[1]) > 1e-13
        return anfora.lax.while_loop(goes_on, lambda s: (s[1], f(a, s[1])), (x, f(a, x)))[1]

    def forward(f, a, x):
        x = fixed(f, a, x)
        return x, (a, x)

    def backward(f, kept, dx):
        a, x = kept
        _, by_a = anfora.vjp(lambda a: f(a, x), a)
        return by_a(fixed(functools.partial(step, f), (a, x, dx), dx))[0], anp.zeros_like(x)

    def step(f, packed, u):
        a, x, dx = packed
        return dx + anfora.vjp(lambda x: f(a, x), x)[1](u)[0]
    fixed.defvjp(forward, backward)

    def root(a):
        return fixed(lambda a, x: 0.5 * (x + a / x), a, a)
    want, f, a = 2 ** 0.5, root, 2.0
    for order in range(4):
        assert abs(f(a) - want) < 1e-9, (order, f(a), want)
        f, want = anfora.grad(f), want * (0.5 - order) / a
    close(anfora.vmap(anfora.grad(root))(np.array([1.0, 4.0])), [0.5, 0.25])


def test_rules_at_each_depth():
    """A rule whose slope is no derivative of the function shows which calls have it: those of functions that it makes, in two places
    and by a helper, at every order."""
    for give in ("lambda", "name", "partial"):
        @functools.partial(anfora.custom_vjp, nondiff_argnums=(0,))
        def applied(f, x):
            return f(x)

        def twice(f, y):
            return 2 * f(y)

        def helper(f, x):
            if give == "lambda":  # noqa: B023: called at once
                return applied(lambda y: 2 * f(y), x)  # noqa: B023
            if give == "partial":  # noqa: B023
                return applied(functools.partial(twice, f), x)  # noqa: B023

            def g(y):
                return 2 * f(y)
            return applied(g, x)  # noqa: B023
        applied.defvjp(lambda f, x: (0.5 * helper(f, x), x), lambda f, x, dy: (3 * helper(f, x) * dy,))  # noqa: B023
        f = functools.partial(applied, anp.sin)
        for order in range(6):
            assert abs(f(0.7) - 6 ** order * np.sin(0.7)) < 1e-9, (give, order, f(0.7))
            f = anfora.grad(f)


def test_rules_by_names():
    @functools.partial(anfora.custom_vjp, nondiff_argnames=("k",))
    def scaled(k, x):
        return x * k
    scaled.defvjp(lambda k, x: (scaled(k, x), None), lambda k, _, dy: (dy * k * 10,), optimize_remat=True)
    assert anfora.grad(lambda x: scaled(3, x))(2.0) == 30
    try:
        scaled.defvjp(None, None, symbolic_zeros=True)
    except TypeError as e:
        assert "symbolic_zeros" in str(e)
    else:
        raise AssertionError


def test_check_grads():
    from anfora.test_util import check_grads
    check_grads(lambda d: {"a": anp.sum(d["w"] ** 3), "b": d["w"] * d["k"]}, ({"w": np.ones((2, 2), np.float32), "k": np.float32(2)},), order=2)

    @anfora.custom_jvp
    def wrong(x):
        return x * x

    @wrong.defjvp
    def _(primals, tangents):
        return wrong(primals[0]), primals[0] * tangents[0]
    for mode in ("fwd", "rev"):
        try:
            check_grads(wrong, (2.0,), 1, modes=[mode])
        except AssertionError as e:
            assert "derivative and difference" in str(e)
            continue
        raise ValueError(f"it is taken for right in {mode}")


def test_axes_of_the_arguments_that_are_given():
    """in_axes has an axis for each argument that is given: parameters with defaults that are not given need none."""
    def f(x, w, scale=3.0, shift=1.0):
        return x * w[0] * scale + shift
    x, w = np.array([1.0, 2.0]), np.array([2.0, 5.0])
    rows = anfora.vmap(f, in_axes=(0, None))
    for g in (rows, anfora.jit(rows), anfora.jit(lambda x, w: rows(x, w))):
        assert np.allclose(g(x, w), [7.0, 13.0])
    try:
        anfora.vmap(f, in_axes=(0,))(x, w)
    except anfora.CompileError as e:
        assert "in_axes" in str(e)
    else:
        raise AssertionError("an argument without an axis")


def test_derivatives_have_the_constants_of_their_arguments():
    """Two objects of the same fields and types, whose constants differ."""
    @anfora.tree_util.register_dataclass
    @dataclass
    class Named:
        w: object
        name: str = field(metadata={"static": True})
    a, b = Named(np.ones(3), "a"), Named(np.ones(3), "b")

    def f(a, b):
        return anp.sum(a.w ** 2) * anp.sum(b.w)

    def names(x):
        return "".join(n.name for n in anfora.tree_util.tree_leaves(x, is_leaf=lambda n: isinstance(n, Named)) if isinstance(n, Named))

    def whole(p):
        return p["k"] * f(p["l"][0], p["l"][1][0])
    p = {"l": [a, (b,)], "k": 2.0, "n": None}
    for got, want in ((grad(f, (0, 1))(a, b), "ab"), (grad(f, (1, 0))(a, b), "ba"), (grad(f, 1)(a, b), "b"), (grad(f, "b")(a, b), "b"),
                      (value_and_grad(f, 1)(a, b)[1], "b"), (grad(whole)(p), "ab"), (vmap(grad(f, (0, 1)))(a, b), "ab"),
                      (grad(lambda a, b: (f(a, b), [b, a]), (0, 1), has_aux=True)(a, b), "abba"), (jvp(lambda p: p, (p,), (p,)), "abab")):
        assert names(got) == want, (got, want)


    for derivative, want in ((lambda a, b: grad(f, (0, 1))(a, b), "ab"), (lambda a, b: grad(f, 1)(a, b), "b"), (lambda a, b: value_and_grad(f, (1, 0))(a, b)[1], "ba"),
                             (lambda a, b: [b, grad(lambda p: f(a, p))(b)], "bb")):
        assert names(jit(derivative)(a, b)) == want, want

    def bound(a, b):
        g = grad(f, (0, 1))
        return g(a, b)
    try:
        jit(bound)(a, b)
    except TypeError as e:
        assert "whose objects differ" in str(e)
    else:
        raise AssertionError("it took the constants of one for those of the other")


def test_none_has_no_batch():
    x = np.array([3.0, 4.0])

    def f(x, n=None):
        return {"y": x * 2, "n": n}, None
    assert vmap(lambda x: f(x))(x)[1] is None and vmap(lambda x: f(x))(x)[0]["n"] is None
    y, none = vmap(f, in_axes=(0, 0))(x, None)
    assert none is None and y["n"] is None
    close(y["y"], 2 * x)
    close(vmap(lambda p: p["x"] if p["n"] is None else -p["x"])({"x": x, "n": None}), x)
    carry, none = vmap(lambda c: anfora.lax.scan(lambda c, _: ((c[1], 0.0), None), (1.0, c), None, 1))(x)
    assert none is None
    close(carry[0], x)
    close(carry[1], 0 * x)
