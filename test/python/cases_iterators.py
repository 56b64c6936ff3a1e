# SPDX-License-Identifier: Apache-2.0
"""Iterators, arguments of Python's own functions, lists and objects: each was once another value than Python's, or an idiom that was refused."""
import dataclasses
import functools
import itertools
import typing

import anfora
import anfora.numpy as anp
import numpy as np
from anfora import tree_util
from cases_meaning import M, V, refused, same
from cases_texts import same_text


def test_where_counting_starts():
    def loop(v):
        s = 0.0
        for i, x in enumerate(v, start=3):
            s += i * x
        return s
    same(loop, V)

    def filled(v):
        out = []
        for i, x in enumerate(v, start=3):
            out.append(i * x)
        return np.stack(out)
    same(filled, V)
    same(lambda v: [i * x for i, x in enumerate(v, start=3)], V)
    same(lambda v: [i * x for i, x in enumerate([v[0], v[1]], start=3)], V)
    same(lambda v: list(enumerate(v, 2)), V)
    refused(lambda v: [i * x for i, x in enumerate(v, begin=3)], V)


def test_zip_of_several_lengths():
    same(lambda v: [a * b for a, b in zip(v, v[1:])], V)
    same(lambda v: list(map(lambda a, b: a + b, v, v[1:])), V)
    same(lambda v: list(zip(v, v[1:])), V)
    same(lambda v: dict(zip(["a", "b", "c"], v)), V)
    same(lambda v: [a * b for a, b in zip([v[0], v[1]], [v[1], v[2]], strict=True)], V)

    def strict(v):
        s = 0.0
        for a, b in zip(v, v[1:], strict=True):
            s += a * b
        return s
    refused(strict, V, say="lengths")
    refused(lambda v: [a * b for a, b in zip([v[0]], [v[1], v[2]], strict=True)], V, say="strict")


def test_iterators_end():
    def twice(v):
        g = (x * 2 for x in v)
        return sum(g), sum(g)
    refused(twice, V, say="gone")

    def mapped(v):
        m = map(lambda x: x + 1, [v[0], v[1]])
        return list(m), list(m)
    refused(mapped, V, say="gone")

    def loops(v):
        g, s = (x for x in v), 0.0
        z = zip(v, v)
        for _ in range(2):
            for a, b in z:
                s += a * b
        return s
    refused(loops, V, say="gone")
    refused(lambda v: map(lambda x: x + 1, v)[0], V, say="by index")
    refused(lambda v: len(map(lambda x: x, v)), V, say="len")
    refused(lambda v: (x for x in v), V, say="generator")

    def anew(v):
        g = (x for x in v)
        a = sum(g)
        g = (x * 2 for x in v)
        return a, sum(g)
    same(anew, V)


def test_lists_and_tuples_of_items():
    same(lambda v: (tuple(x + 1 for x in v), tuple(v), list(v), list(x for x in v), tuple(map(lambda x: x, v))), V)
    same(lambda v: ([*v], (*v, 1.0), [0.0, *v]), V)

    def parts(v):
        first, *rest = v
        *most, last = v
        return first, rest, sum(rest), len(most), most, last
    same(parts, V)
    same(lambda v: (sorted(v), sorted([v[2], v[0]], reverse=True)), V[::-1])
    refused(lambda m: sorted(m), M, say="order")
    same(lambda v: (2.0 in v, 9.0 in v, 9.0 not in v), V)
    same(lambda v: (functools.reduce(lambda a, b: a * b, v), functools.reduce(lambda a, b: a * b, v, 10.0)), V)


def test_arguments_that_were_left_out():
    same(lambda x: (pow(x, 2, 7), pow(x, exp=2, mod=7)), 5)
    same(lambda x: (pow(x, 2), pow(base=x, exp=3)), 5)


def test_print_takes_other_ends():
    same_text(lambda v: print(v, end=""), 2.0)
    same_text(lambda v: print(v, 1, sep=", "), V)


def test_least_integer():
    same(lambda x: (-2**63, x + -2**63), 7)
    same(lambda x: x * -2**63, V)


def test_comparisons_with_numbers_that_a_type_has_not():
    small = np.array([1, 2, 255], np.uint8)
    same(lambda a: (a > -1, a < 300, a == 256), small)
    same(lambda a: np.array(a.astype(int) + 300), small)


def test_integers_that_wrapped():
    small = np.array([100, 120, -128], np.int8)
    for f in (lambda a: np.gradient(a), lambda a: np.vander(a, 2), lambda a: np.average(a, weights=a), lambda a: np.polyval([1, 2], a),
              lambda a: np.logaddexp(a, 1)):
        want = f(small.astype(int))
        assert np.allclose(np.asarray(anfora.jit(f)(small)), want), want
    assert anfora.jit(lambda a: np.full(3, 2) * a)(small).dtype == np.int64


def test_lists_where_arrays_stand():
    same(lambda m: (np.take(m, [1], 1), np.dot([1.0, 2.0], [3.0, 4.0]), np.max([m[0, 1], m[1, 2]]), np.sum([x * 2 for x in m[0]])), M)
    same(lambda v: (np.concatenate([v, [1.0]]), np.digitize(v, [1.5, 2.5]), np.exp([v[0], 1.0])), V)
    same(lambda v: np.mean([np.sum(v), 2.0]), V)


def test_lists_that_change():
    def swapped(x):
        a = [x, x + 1, x + 2]
        a[0], a[1] = a[1], a[0]
        a.insert(1, 5.0)
        a.reverse()
        del a[0]
        return a
    same(swapped, 2.0)

    def names(x):
        d = {"a": x}
        d.update(b=x + 1)
        d.update({"c": 3.0})
        del d["a"]
        return d
    same(names, 2.0)

    def gone(x):
        y = x
        del y
        return y
    refused(gone, 2.0, say="deletes")

    def shared(x):
        a = [x]
        b = a
        a.insert(0, 1.0)
        return b
    refused(shared, 2.0)


def test_truth_of_structures():
    same(lambda x: 1 if x else 2, [])
    same(lambda x: 1 if x else 2, [1.0])
    same(lambda x: x or {"a": 1.0}, {})
    same(lambda x: not x, ())


class Pair(typing.NamedTuple):
    u: float
    v: float = 5.0

    def total(self):
        return self.u + self.v


@dataclasses.dataclass
class Money:
    a: float

    def __add__(self, other):
        return Money(self.a + other.a)

    def __len__(self):
        return 7

    def __getitem__(self, i):
        return self.a * i

    @staticmethod
    def twice(x):
        return 2 * x


@dataclasses.dataclass
class Prepared:
    a: float
    b: float = 0.0

    def __post_init__(self):
        self.b = self.a * 2


@dataclasses.dataclass
class Filled:
    a: float
    items: list = dataclasses.field(default_factory=list)
    c: float = dataclasses.field(init=False, default=3.0)


def test_objects():
    assert float(anfora.jit(lambda x: Pair(x).total())(2.0)) == 7
    same(lambda x: Pair(x)._asdict(), 2.0)
    assert float(anfora.jit(lambda x: Money(x).twice(x))(2.0)) == 4
    assert float(anfora.jit(lambda p, q: (p + q).a)(Money(1.0), Money(2.0))) == 3
    same(lambda p: (len(p), p[3]), Money(2.0))
    refused(lambda x: Prepared(x), 2.0, say="__post_init__")
    made = anfora.jit(lambda x: Filled(x))(2.0)
    assert made.items == [] and float(made.c) == 3 and float(made.a) == 2


def test_errors_of_the_library_stand_at_the_call():
    for f, x in ((lambda x: np.dot(x, np.ones(4)), np.ones(3)), (lambda x: anp.linalg.solve(x, np.ones(3)), np.ones((4, 4)))):
        try:
            anfora.jit(f)(x)
        except anfora.CompileError as e:
            first = e.findings[0]
            assert first.file == __file__ and first.line == f.__code__.co_firstlineno, e
            assert "✗" not in str(e) and len(e.findings) <= 3 and e.findings[1].note, e
        else:
            raise AssertionError("not refused")



def test_items_of_itertools_that_are_computed():
    same(lambda v: list(itertools.accumulate([v[0], v[1], v[2]])), V)
    same(lambda v: list(itertools.accumulate([v[0], v[1]], lambda a, b: a * b, initial=2.0)), V)
    same(lambda v: sum(a * b for a, b in itertools.chain([(v[0], v[1])], [(v[1], v[2])])), V)
    same(lambda v: list(itertools.chain.from_iterable([[v[0]], [v[1], v[2]]])), V)
    same(lambda v: [a + b for a, b in itertools.zip_longest([v[0], v[1]], [v[2]], fillvalue=0.0)], V)

    def differences(v):
        s = 0.0
        for a, b in itertools.pairwise(v):
            s += (b - a) * a
        return s
    same(differences, V)

    def chosen(v):
        s = 0.0
        for i, j in itertools.combinations(range(len(v)), 2):
            s += v[i] * v[j] * (i + 2 * j)
        return s
    same(chosen, V)
    same(chosen, np.arange(1.0, 6.0))
    same(chosen, np.ones(1))
    refused(lambda v: sum(v[i] - v[j] for i, j in itertools.combinations(range(len(v)), 2)), V)

    def last(v):  # the index that is left is not that of loops within loops
        i = 0
        for i, j in itertools.combinations(range(len(v)), 2):
            pass
        return i
    refused(last, V)


def test_paths_of_leaves():
    tree = {"w": V, "b": [V * 2, (V * 3, None)]}

    def sums(p):
        leaves, _ = tree_util.tree_flatten_with_path(p)
        return {tree_util.keystr(path): leaf.sum() for path, leaf in leaves}
    got = anfora.jit(sums)(tree)
    assert {k: float(x) for k, x in got.items()} == {k: float(x) for k, x in sums(tree).items()} and list(got) == ["['w']", "['b'][0]", "['b'][1][0]"], got

    def weights(p):
        return sum(leaf.sum() * (2.0 if path[0].key == "w" else 1.0) for path, leaf in tree_util.tree_leaves_with_path(p))
    same(weights, tree)
    assert anfora.jit(lambda p: [v.sum() for k, v in tree_util.tree_leaves_with_path(p) if tree_util.keystr(k, simple=True, separator="/") == "b/0"])(tree) == [(V * 2).sum()]


def test_constants_of_registered_named_tuples():
    class State(typing.NamedTuple):
        x: typing.Any
        structure: typing.Any
    anfora.tree_util.register_pytree_node(State, lambda s: ((s.x,), (s.structure,)), lambda constant, parts: State(parts[0], constant[0]))

    @anfora.jit
    def step(s):
        x, structure = s
        return State(x * len(structure), structure)
    for structure in ([0, {"a": 0}], [0, 0, 0]):
        got = step(State(V, structure))
        assert np.allclose(got.x, V * len(structure)) and got.structure == structure, got


def test_a_name_for_the_batch():
    f = anfora.vmap(lambda x: x * 2, axis_name="batch")
    assert np.allclose(f(V), V * 2) and np.allclose(anfora.jit(lambda v: anfora.vmap(lambda x: x + 1, in_axes=0, axis_name="i")(v))(V), V + 1)


def test_bodies_that_bind_what_a_loop_binds():
    """Each round binds the names anew, whatever the body made of them: of pairs as well, or there is a refusal."""
    def numbered(x):
        s = 0.0
        for i, v in enumerate(x):
            i, v = i + 10, v * 2
            s += i * v
        return s, i, v

    def nested(x):
        s = 0.0
        for i in range(len(x)):
            for j in range(i, len(x)):
                i = i + 1
                s += i * j * x[j]
        return s
    x = np.array([0.2, 0.9, 0.1, 0.7])
    for f in (numbered, nested):
        assert np.allclose(anfora.jit(f)(x), f(x))

    def products(n):
        s = 0
        for i, j in itertools.product(range(n), range(3)):
            i = i + 10
            s += i * j
        return s

    def pairs(n):
        s = 0
        for i, j in itertools.combinations(range(n), 2):
            i = i + 10
            s += i * j
        return s
    for f in (products, pairs):
        try:
            assert anfora.jit(f)(5) == f(5)
        except anfora.CompileError as e:
            assert "it is not known which items" in str(e)
