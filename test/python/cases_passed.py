# SPDX-License-Identifier: Apache-2.0
"""x += v of what a call gives: an array that the call was given, or holds, would change with it. Refused there, or the same as in NumPy."""
import dataclasses
import functools
from typing import Any, NamedTuple

import anfora
import anfora.numpy as anp
import numpy as np

from cases_stores import V, refused, same

OUTSIDE = np.ones(4)


class Pair(NamedTuple):
    a: Any
    b: Any = 1.0

    def pick(self, u):
        return u

    def first(self):
        return self.a

    def bump(self, u):
        u += 1
        return 0.0

    def bump_first(self):
        a = self.a
        a += 1
        return a

    def times(self, u):
        return u * self.a


@dataclasses.dataclass
class Box:
    a: Any


class Layer:
    def __init__(self):
        self.w = np.ones(4)

    def act(self, x):
        return x

    def weight(self):
        return self.w

    def bump(self, x):
        x += 1
        return 0.0

    def bump_own(self):
        w = self.w
        w += 1
        return w

    def apply(self, x):
        return np.tanh(x * self.w)


LAYER = Layer()


def local(u):
    v = u
    return v


def by_another(u):
    return local(u)


def on_one_way(u, c):
    v = u * 2
    if c > 0:
        v = u
    return v


def flat(u):
    return u.reshape(-1)


def held(u):
    d = {"a": u}
    return d


def any_of(*us):
    return us[0]


def bump_any(*us):
    a = us[0]
    a += 1
    return 0.0


def from_outside():
    return OUTSIDE


GIVEN = {  # what gives u or a part of it, which changes then
    "functions": [local, by_another, flat, any_of, lambda u: on_one_way(u, 1.0), lambda u: held(u)["a"], lambda u: u[1:]],
    "objects": [lambda u: Pair(0.0).pick(u), lambda u: Pair(u).first(), lambda u: Pair(0.0)._replace(a=u).a, lambda u: dataclasses.replace(Box(0.0), a=u).a, LAYER.act],
    "libraries": [lambda u: list(map(local, [u]))[0], lambda u: anfora.tree_map(lambda t: t, [u])[0], lambda u: np.split(u, 2)[0], lambda u: np.einsum("i->i", u),
                  lambda u: functools.partial(any_of, u)()],
}


def changed(give):
    """u changes as part of what a call gives. The texts of both functions are of this file, as jit reads them."""
    def f(x):
        u = x * 2
        v = give(u)
        v += 1
        return v, u
    return f


def test_what_a_call_gives_is_what_it_was_given():
    for kind, gives in GIVEN.items():
        for i, give in enumerate(gives):
            try:
                refused(changed(give), "v += 1", V)
            except AssertionError as e:
                raise AssertionError(f"{kind} {i}") from e


def starred(x):
    u = x * 2
    a, *b = [u, u]
    b[0] += 1
    return u


def given_by_its_own(x):
    def loc(w):
        z = w
        return z
    u = x * 2
    v = loc(u)
    v += 1
    return v, u


def changed_by_its_own(x):
    def bump(w):
        w += 1
        return 0.0
    u = x * 2
    bump(u)
    return u


def changed_by_method(x):
    u, p = x * 2, Pair(0.0)
    p.bump(u)
    return u


def changed_in_object(x):
    p = Pair(x * 2)
    p.bump_first()
    return p.a


def changed_among_any(x):
    u = x * 2
    bump_any(u)
    return u


def outside(x):
    v = OUTSIDE
    v += x
    return v


def outside_by_call(x):
    v = from_outside()
    v += x
    return v


def outside_in_object(x):
    v = LAYER.weight()
    v += x
    return v


def changed_by_constant(x):
    u = x * 2
    LAYER.bump(u)
    return u


def changed_by_its_name(x):
    u, f = x * 2, LAYER.bump
    f(u)
    return u


def test_constants_that_methods_change():
    refused(lambda x: LAYER.bump_own() + x, "w += 1", V)


def test_what_changes_is_seen_elsewhere():
    for f, line in ((starred, "b[0] += 1"), (given_by_its_own, "v += 1"), (changed_by_its_own, "bump(u)"), (changed_by_method, "p.bump(u)"),
                    (changed_in_object, "p.bump_first()"), (changed_among_any, "bump_any(u)"), (outside, "v += x"), (outside_by_call, "v += x"),
                    (outside_in_object, "v += x"), (changed_by_constant, "LAYER.bump(u)"), (changed_by_its_name, "f(u)")):
        refused(f, line, V)


def network(x):
    p = Pair(x + 1)
    for _ in range(3):
        h = LAYER.apply(x)
        h += x
        h += np.linalg.norm(x)
        x = h
    s, n = x[0], len(x)
    s += LAYER.act(s)
    n += 1
    t = p.times(x)
    t = t + local(x)
    y = np.fft.ifft(np.fft.fft(x)).real * anp.sum(local(x))
    y += 1
    return h, s * n, t, y


def test_what_is_new_may_change():
    same(network, V)


def tallied(x):
    p = Pair(1.0)
    n = p.first()
    n += 2
    return n * x, p.a * x


def divided(x, n):
    return x / float(len(x)) * float(n) + float(-2), x * float(x.shape[0] + 1)


def test_numbers_of_python_take_the_type_of_arrays():
    same(tallied, V)
    for x in (V, V.astype(np.float32)):
        same(divided, x, 3)
    small = anfora.jit(divided)(V.astype(np.float32), 3)
    assert [str(y.dtype) for y in small] == ["f32", "f32"]
