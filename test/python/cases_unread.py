# SPDX-License-Identifier: Apache-2.0
"""Values that nothing reads: Python computes them, so what raises there is an error, and no code remains of the others."""
import tempfile

import anfora
import anfora.numpy as anp
import numpy as np

X = np.arange(3.0)


def add(a, b):
    return a + b


def method(x):
    x.nope(1)
    return x


def attribute(x):
    y = x.nope
    return x


def index(x):
    x[7]
    return x


def shapes(x):
    x + np.ones(5)
    return x


def axis(x):
    np.sum(x, axis=3)
    return x


def reshaped(x):
    y = x.reshape(7)
    return x


def text_and_number(x):
    "s" + 1
    return x


def length(x):
    len(5)
    return x


def overwritten(x):
    y = x[7]
    y = x[1]
    return y


def several(x):
    y, z = x[7], 2
    return x * z


def both(x):
    y = z = x[7]
    return x


def added(x):
    y = 1.0
    y += x[7]
    return x


def items(x):
    y = np.zeros(3)
    y[1] = 2
    y[7] = 1
    return x


def listed(x):
    y = []
    y.append(x[7])
    return x


def listed_in_a_loop(x):
    y = []
    for _ in range(3):
        y.append(x[7])
    return x


def in_a_loop(x):
    for i in range(3):
        x[i] @ x
    return x


def divided(x):
    y = 1 / 0
    return x


def deleted(x):
    del y
    return x


RAISE = (method, attribute, index, shapes, axis, reshaped, text_and_number, length, overwritten, several, both, added, items, listed,
         listed_in_a_loop, in_a_loop, divided, deleted)


def test_what_raises_is_an_error_at_its_line():
    for f in RAISE:
        for g in (f, anfora.jit(f, backend="interp")):
            try:
                g(X)
            except anfora.AnforaError as e:
                first = f.__code__.co_firstlineno
                assert e.findings[0].file == __file__ and first < e.findings[0].line < first + 5, e
            except Exception:
                assert g is f
                continue
            else:
                raise AssertionError(f.__name__)


def ways(x):
    if x.shape[0] == 3:
        return x
    x.nope(1)
    return x[7]


def in_its_branch(x):
    return x if x[0] == 0 else x * (1 // 0)


def chosen(x, how="sum"):
    if how == "max":
        y = x.nope
    return np.sum(x)


def sized_by_data(x):
    y = x[x > 0]
    z = np.zeros(int(x[0]))
    x[x > 1]
    return x


def no_rounds(x):
    for _ in range(0):
        y = x[7]
    for v in x[:0]:
        z = v.nope
    return x


def branch_of_data(x):
    if x[0] > 100:
        y = x.nope
        x[7]
    while x[0] > 100:
        y = x[7]
    return x


def behind_a_return(x):
    if x[0] == 0:
        return x
    y = x[7]
    return x + 1


def called(x):
    def first(u):
        if u[0] > 100:
            return u[7]
        y = u[8] if u[0] > 100 else u
        return u[1]
    z = first(x)
    t = z + 1
    return x


def lazy(x):
    y = x[7] if x[0] > 100 else x
    z = x[0] < 100 or x[7]
    items = (x[7] for _ in range(2))
    f = lambda: x.nope  # noqa: E731
    none = [v.nope for v in x[:0]]
    return x


def test_what_is_not_reached_does_not_raise():
    for f in (ways, in_its_branch, chosen, sized_by_data, no_rounds, branch_of_data, behind_a_return, called, lazy):
        assert np.array_equal(anfora.jit(f)(X), f(X))


def test_divisions_of_numbers_by_zero():
    def number(x):
        return x * (float(x[0]) / 0)

    def whole(x):
        n = 0
        return x + 5 % n

    for f, kind in ((number, ZeroDivisionError), (whole, ZeroDivisionError), (lambda x: x * 0.0 ** -1, ZeroDivisionError), (lambda x: x * (1 << -1), ValueError),
                    (lambda x: x + int("abc"), ValueError)):
        try:
            anfora.jit(f)(X)
        except kind as e:
            assert isinstance(e, anfora.AnforaError) and "cases_unread.py" in str(e)
        else:
            raise AssertionError(f.__name__)
    with np.errstate(all="ignore"):
        assert np.array_equal(anfora.jit(lambda x: x / 0)(X), X / 0, equal_nan=True)


def loss(x):
    total, rest = np.sum(x * x), np.exp(x) @ np.ones((3, 3))
    np.sin(x)
    unread = rest
    return total


def test_no_code_remains():
    """Derivatives and batches are those of the function without what nothing reads."""
    assert np.array_equal(anfora.grad(loss)(X), 2 * X)
    assert np.array_equal(anfora.vmap(anfora.grad(loss))(np.ones((2, 3))), 2 * np.ones((2, 3)))
    f = anfora.jit(lambda x: anp.tanh(x @ np.ones((3, 2))))

    @anfora.jit
    def g(x):
        n, d = x.shape
        h = x @ np.ones((3, 2))
        np.exp(h)
        unread = np.sum(h)
        return anp.tanh(h)
    for n in range(1, 20):
        assert np.array_equal(f(np.ones((n, 3))), g(np.ones((n, 3))))
    assert f.explain().splitlines()[0] == g.explain().splitlines()[0]  # a code for any number of rows


def test_what_is_made_of_a_function_leaves_out_sizes_that_data_decide():
    with tempfile.TemporaryDirectory() as folder:
        assert anfora.jit(sized_by_data).tir(X) and anfora.jit(sized_by_data).build(f"{folder}/f", X)
        anfora.jit(sized_by_data).save(f"{folder}/f.onnx", X)
    assert np.array_equal(anfora.grad(lambda x: np.sum(sized_by_data(x) ** 2))(X), 2 * X)
