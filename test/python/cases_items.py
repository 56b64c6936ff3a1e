# SPDX-License-Identifier: Apache-2.0
"""Items: what itertools, keys, sets and ranges give, how long lists are after loops, and what is a list and what a tuple."""
import itertools
import operator
import warnings

import anfora
import numpy as np
from anfora import jit
from cases_meaning import V, refused, same

M = np.arange(6.0).reshape(2, 3)


def test_lists_of_numpy():
    same(lambda x: (np.split(x, 3), np.array_split(x, 2), np.hsplit(x, [1]), np.vsplit(x.reshape(3, 1), 3)), V)
    same(lambda x: (np.meshgrid(x, x), np.broadcast_arrays(x, np.ones((2, 3))), np.gradient(np.outer(x, x)), np.gradient(x)), V)
    same(lambda x: [p * 2 for p in np.split(x, 3)] + [1], V)
    same(lambda x: (sorted(x), sorted(x, reverse=True)[1:], sorted(x) + [1.0], isinstance(np.split(x, 3), list)), V)


def test_what_itertools_gives_are_tuples():
    L = [1, 2, 3]
    same(lambda l: (list(itertools.permutations(l)), tuple(itertools.combinations(l, 2)), list(itertools.product(l, l)), list(itertools.pairwise(l))), L)
    same(lambda l: (list(itertools.chain(l, l)), list(itertools.zip_longest(l, l[:1])), list(itertools.combinations_with_replacement(l, 2)), list(itertools.islice(l, 2))), L)


def test_lists_that_loops_change():
    """Each was once as long as in the first round, or a tuple."""
    def inserted(x):
        path = [int(x[0])]
        for t in range(3, 0, -1):
            path.insert(0, int(x[path[0] % 3]) + t)
        return path, len(path), path[-1], path[1:], sum(path), [p * 2 for p in path]
    same(inserted, V)

    def joined(x):
        path, other = [1], (1,)
        for t in range(len(x)):
            path = [t] + path
            other = (t, *other)
        return path, len(path), other, len(other)
    same(joined, V)

    def from_nothing(x):
        path, i = [], 0
        while i < 3:
            path.insert(0, x[i])
            i += 1
        return path, len(path)
    same(from_nothing, V)

    def rows(x):
        made = [(1, x)]
        for t in range(3):
            made.insert(0, (t, x * t))
        return made, len(made)
    same(rows, V)

    def turned(x):
        path = [1]
        for t in range(3):
            path.reverse()
            path.append(t)
            path.insert(1, 7)
        return path, len(path)
    same(turned, V)

    def by_a_function(x):
        def longer(p):
            return [*p, p[0]]
        path = [x, x]
        for _ in range(2):
            path = longer(path)
        return len(path)
    try:
        assert jit(by_a_function)(V) == 4
    except anfora.CompileError as e:  # a refusal, though the program finds it when it runs: not one of Python's errors
        assert "the loop in line" in str(e) and "changes how many items" in str(e), e


def test_loops_that_bind_another_structure_on_one_way():
    def shorter(x):
        p, s = (0, 1, 4), 0
        for i in range(3, 0, -1):
            s = s + len(p)
            for j in range(3):
                if [j == 1, i < 3][0]:
                    p = (1, 2)
                s += len(p)
        return p, s, len(p)
    same(shorter, V)

    def never(x):
        p, n = (0, 1, 4), 0
        for i in range(3):
            if x[0] - x[0] > i:
                p = (1, 2)
            n += len(p)
        return p, n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # W0908
        same(never, V)


def test_lists_of_functions_within():
    def f(x):
        def g(n):
            ts, ys = [0.0], [[1.0]]
            for _ in range(n):
                ts.append(x[0])
                ys.append([x[1]])
            return ts, ys
        return g(5)
    same(f, V)

    def unpacked(x):
        def g(p):
            v = [p]
            for _ in range(3):
                v.append(v[-1] * 0.5)
            return [v, v[::-1]]
        a, b = g(x[0])
        return a, b
    same(unpacked, V)


def test_itertools():
    def loops(x, n):
        s = 0
        for i, j in itertools.product(range(2), range(n)):
            if i == j:
                continue
            s += i * x[j] + j
        return s
    same(loops, V, 3)
    same(lambda n: [i * j for i, j in itertools.product([1, 2], repeat=2)] + [i + j * n for i, j in itertools.product(range(2), range(3)) if i < j], 2)
    same(lambda x: [x[i] * x[j] for i, j in itertools.combinations(range(3), 2)], V)
    same(lambda x: sum(x[i] * x[j] * (i - j) for i, j in itertools.permutations(range(3), 2)), V)
    same(lambda x, n: (list(itertools.chain([1, 2], [3, n])), sum(itertools.chain(range(3), range(2))), [b - a for a, b in itertools.pairwise([1, 4, n])]), V, 4)
    same(lambda n: ([a for a in itertools.islice(range(10), 2, 5)], list(itertools.zip_longest([1, 2], [n], fillvalue=0)), [v * n for v in itertools.repeat(2, 3)]), 3)
    same(lambda n: (list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2, 3], operator.mul)), list(filter(lambda a: a > 1, [1, 2, 3]))), 3)
    refused(lambda x: list(itertools.chain(x, x)), V, say="which items chain() gives")


def test_keys():
    same(lambda n: (sorted([3, 1, 2], key=lambda v: -v), sorted(["bb", "a"], key=len), min([3, -5, 2], key=abs)), 1)
    same(lambda x: (max(range(3), key=lambda i: x[i]), min([x[0], x[1]], key=lambda v: -v), max([(1, x[0]), (2, x[1])], key=lambda t: t[1])), V)
    same(lambda n: (max([], default=3), min([n], default=2)), 5)
    refused(lambda x: max(x, key=lambda v: -v), V, say="items that are known")


def test_sets_and_dictionaries():
    same(lambda n: (n in {1, 4, 5}, 3 in {1, 2}, len({1, 2, 2}), sorted({3, 1, 2}), n not in {4}), 4)

    def f(n):
        d, e = {"a": 1}, {"b": n, "a": 2}
        d |= {"c": 3}
        d.setdefault("d", n)
        d.setdefault("a", 9)
        return d | e, {**d, **e}, len(d | e)
    same(f, 4)
    refused(lambda n: {n, 1}, 2, say="a set")


G = 3


def test_names_and_ranges():
    def f(x, n):
        global G
        r = [x[i] for i in reversed(range(3))]
        for i in reversed(range(1, n)):
            r.append(x[i])
        return r, G + n, len(range(3, 10, 2)), len(range(n)), len(range(n, len(x)))
    same(f, V, 3)

    def various(*args):
        def g(*args, **kw):
            return sum(args) + kw["a"] * len(kw) + max(args)
        return g(1, args[0], a=2, b=3)
    same(various, 4)
    same(lambda n, x: (isinstance(n, int), isinstance(n, float), isinstance(x, (int, float))), 2, 1.5)
    same(lambda x: 1.0 if isinstance(x, np.ndarray) else 2.0, V)


def test_ranges_whose_ends_change():
    def start(n):
        a = s = 0
        for j in range(a, n, 2):
            a = 100
            s += j
        return s, a
    same(start, 9)

    def steps(n, k):
        s = 0
        for j in range(0, n, k):
            s = s * 3 + j
        for j in range(n, 0, -k):
            s = s * 3 + j
            k = 5
        return s
    for n, k in ((10, 3), (-7, -2), (0, 1)):
        same(steps, n, k)

    def sieve(n):
        is_prime = np.ones(40, dtype=bool)
        for i in range(2, 7):
            if is_prime[i]:
                for j in range(i * i, 40, i):
                    is_prime[j] = False
        return is_prime[n:].sum()
    same(sieve, 2)


def test_names_of_rounds_that_end_a_loop():
    def root(x):
        while True:
            new = 0.5 * (x + 2 / x)
            if abs(new - x) < 1e-10:
                x = -1.0
                break
            x = new
        return new, x
    same(root, 1.0)

    def halved(eps):
        lo, hi = 0.0, 2.0
        for i in range(50):
            mid = (lo + hi) / 2
            if hi - lo < eps:
                hi = -1.0
                break
            if mid ** 2 < 2:
                lo = mid
            else:
                hi = mid
        return mid, i, hi
    same(halved, 1e-3)
    same(halved, 0.0)
    same(lambda x, y: complex(x, y) * 2, 1.0, 3)
