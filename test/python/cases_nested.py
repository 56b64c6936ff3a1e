# SPDX-License-Identifier: Apache-2.0
"""Lists within lists and dictionaries that grow, defaultdict and Counter: as in Python, as long as no list within has another name."""
from collections import Counter, defaultdict

import anfora
import numpy as np

from cases_meaning import refused
from random_programs import differs

X = np.array([1.0, 2.0, 3.0])


def neighbours(x):
    near = [[] for _ in range(3)]
    for a, b in [(0, 1), (1, 2), (0, 2)]:
        near[a].append(b)
        near[b].append(a)
    return [sum(x[j] for j in near[i]) for i in range(3)], len(near[0])


def reversed_edges(x):
    edges = {0: [1, 2], 1: [2], 2: []}
    back = {}
    for k in edges:
        for v in edges[k]:
            back.setdefault(v, []).append(x[k])
    return back, sum(back[2])


def totals(x):
    total = defaultdict(float)
    for i, k in enumerate("aba"):
        total[k] += x[i]
    return total["a"], len(total), sum(total.values()), [v * 2 for k, v in total.items()]


def groups(x):
    group = defaultdict(list)
    for i, k in enumerate([0, 1, 0]):
        group[k].append(x[i])
    group[1].extend(group[0])
    return group[0], sum(group[1]), max(group[1]), 2 in group


def counts(x):
    c = Counter()
    for letter in "abcab":
        c[letter] += 1
    return c["a"] * x, c["z"], len(c)


def got(x):
    d = {}
    for i, k in enumerate("aba"):
        d[k] = d.get(k, []) + [x[i]]
    return d


def test_as_python():
    for f in (neighbours, reversed_edges, totals, groups, counts, got):
        want, have = f(X), anfora.jit(f, backend="interp")(X)
        assert not differs(tree(want), tree(have)), (f.__name__, want, have)


def tree(x):
    return list(map(tree, x.items())) if isinstance(x, dict) else type(x)(map(tree, x)) if isinstance(x, (list, tuple)) else 0.0 if isinstance(x, str) else x


def item_named(x):
    g = [[] for _ in range(3)]
    row = g[0]
    g[0].append(x[0])
    return row


def one_list(x):
    g = [[]] * 3
    g[0].append(x[0])
    return len(g[1])


def list_of_another(x):
    xs = []
    g = [xs, []]
    g[0].append(x[0])
    return xs


def stored_twice(x):
    g = [[], []]
    g[1] = g[0]
    g[0].append(x[0])
    return g


def held(x):
    g = [[], []]
    h = [g[0]]
    g[0].append(x[0])
    return h


def within(x):
    g = [[x[0]], [x[1]]]
    g[0].append(g[1])
    g[1].append(x[2])
    return len(g[0][1])


def default_named(x):
    d = defaultdict(list)
    row = d[0]
    d[0].append(x[0])
    return row


def read_makes(x):
    d = defaultdict(int)
    y = d["q"]
    return len(d) + y


def live(x):
    d = defaultdict(float)
    v = d.values()
    d["b"] += x[0]
    return sum(v)


def array_within(x):
    d = defaultdict(int)
    d["a"] = x
    d["a"] += 1
    return d["a"], x


def new_key(x):
    d = {"k": 2}
    s = 0.0
    for v in x:
        s += d.get("z", 3) + v
        d["z"] = 8
    return s


def new_key_set(x):
    d = {"k": 1.0}
    for v in x:
        d.setdefault("n", 0.0)
        d["n"] += v
    return d


def test_keys_that_rounds_add():
    for f in (new_key, new_key_set):
        refused(f, X.copy(), say="keys")


def test_refusals():
    for f in (item_named, one_list, list_of_another, stored_twice, held, within, default_named, read_makes, live, array_within):
        refused(f, X.copy())


def rows_bound_in_a_later_loop(x):
    rows = []
    for i in range(2):
        row = []
        for v in x:
            row.append(v * i)
        rows.append(row)
    for _ in range(4):
        rows = rows
    return rows


def rows_that_become_an_array(x):
    rows = []
    for i in range(2):
        row = []
        for v in x:
            row.append(v * i)
        rows.append(row)
    for _ in range(2):
        rows = np.array(rows)
    return rows


def test_loops_keep_what_lists_of_lists_are():
    why = differs(rows_bound_in_a_later_loop(X.copy()), anfora.jit(rows_bound_in_a_later_loop)(X.copy()))
    assert not why, why
    refused(rows_that_become_an_array, X.copy(), say="an array here and a list there")
