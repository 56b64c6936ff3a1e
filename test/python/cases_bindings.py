# SPDX-License-Identifier: Apache-2.0
"""What loops bind stays bound after them, and what functions within bind around them: Python's values, or a refusal at the line."""
import math

import numpy as np
from cases_meaning import M, refused, same

X = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


def test_rows_that_are_read_after_a_loop():
    """The last row that a loop came to, where the name had a value before as well."""


    def a1(v):
        x = 0.0
        for x in v:
            pass
        return x
    same(a1, X)


    def a2(v):
        x = 0.0
        for x in v:
            if x > 4.5:
                break
        return x
    same(a2, X)


    def e9(v):
        x = 2.0
        for x in v:
            x = x * 2
        return x
    same(e9, X)


    def f1(v):
        x = 2.0
        for x in v:
            if x == 4:
                continue
            x = x * 2
            if x > 9:
                break
        return x
    same(f1, X)


    def f2(m):
        row = m[0] * 0
        for row in m:
            if row[0] > 0.1:
                break
        return row
    same(f2, M)


    def f3(v):
        x = 1.0
        if v[0] > 2:
            for x in v:
                pass
        return x
    same(f3, X)


    def f4(v):
        s = 0.0
        for x in v:
            s += x
        for x in v * 2:
            s += x
        y = [x for x in v]
        return (s, x, y[0])
    same(f4, X)


    def e8(v):
        for x in v:
            if x > 4.5:
                break
        else:
            x = -1.0
        return x
    same(e8, X)


def test_loops_in_loops_over_one_name():
    """What the inner loop bound last is what the outer round goes on with."""


    def e1(v):
        s = 0
        for i in range(3):
            for i in range(4):
                pass
            s += i
        return s
    same(e1, X)


    def e2(v):
        s = 0
        i = 5
        for k in range(3):
            s += i
            for i in range(4):
                pass
        return s
    same(e2, X)


    def e3(v):
        s = 0.0
        x = 100.0
        for k in range(3):
            s += x
            for x in v:
                s += 1
        return s
    same(e3, X)


    def e4(v):
        s = 0.0
        x = 100.0
        k = 0
        while k < 3:
            s += x
            for x in v:
                s += 1
            k += 1
        return s
    same(e4, X)


    def e5(v):
        s = 0.0
        for x in v:
            for x in v[:3]:
                s += 1
            s += x
        return s
    same(e5, X)


    def f5(v, n):
        i = 10
        for i in range(n):
            pass
        return i
    same(f5, X, 0)


    def f7(v):
        s = 0.0
        for i in range(3):
            s += i
            for j in range(2):
                for i in range(5, 7):
                    s += 0.5
            s += 100 * i
        return (s, i)
    same(f7, X)


def test_counts_with_rows():
    """enumerate binds both."""


    def a4(v):
        i = -1
        x = 0.0
        for i, x in enumerate(v):
            if x > 4.5:
                break
        return (i, x)
    same(a4, X)


    def a5(v):
        for i, x in enumerate(v):
            if x > 4.5:
                break
        return (i, x)
    same(a5, X)


    def e7(v):
        for i, x in enumerate(v):
            if x > 4.5:
                break
        return (i, x)
    same(e7, X)


    def a6(v):
        a = b = 0.0
        for a, b in zip(v, v[1:]):
            if a > b:
                continue
            if a + b > 9:
                break
        return (a, b)
    same(a6, X)


def test_functions_that_bind_around_them():
    """nonlocal: the names are arguments that the function gives back."""


    def n1(v):
        count = 0


        def bump(x):
            nonlocal count
            if x > 2:
                count += 1
            return x * count
        total = 0.0
        for x in v:
            total += bump(x)
        return (total, count)
    same(n1, X)


    def n2(v):
        lo, hi = (v[0], v[0])


        def see(x):
            nonlocal lo, hi
            if x < lo:
                lo = x
            if x > hi:
                hi = x
        for x in v:
            see(x)
        return (lo, hi)
    same(n2, X)


    def n3(v):
        state = 1.0


        def step(k=2.0):
            nonlocal state
            state = state * k + v[0]
            return state
        a = step()
        b = step(3.0)
        c = step(k=0.5)
        return (a, b, c, state)
    same(n3, X)


    def n4(v):
        n = 0


        def f(x):
            nonlocal n
            n += 1
            if x > 3:
                return x
            else:
                return -x
        n = 5
        y = f(v[0])
        z = f(y)
        return f(z)
    same(n4, X)


    def n5(v):
        n = 0.0


        def f(x):
            nonlocal n
            n += x
            return n
        n = f(v[0])
        n = f(n)
        return n
    same(n5, X)


    def n7(v):


        def make():
            c = 0


            def inc():
                nonlocal c
                c += 1
                return c
            a = inc()
            b = inc()
            return a * 10 + b
        return make()
    same(n7, X)


    def n8(v):
        xs = [0.0, 0.0]


        def f(x):
            nonlocal xs
            xs = [x, xs[0]]
        f(v[0])
        f(v[2])
        return xs
    same(n8, X)


def test_finally():
    """What is bound however a block ends."""


    def t1(v):
        out = 0.0
        try:
            for x in v:
                out += math.sqrt(x)
        finally:
            out *= 2
        return out
    same(t1, X)


    def t2(v):
        k = 1.0
        try:
            k = 2.0
            return v[0] * k
        finally:
            k = 3.0
    same(t2, X)


def test_ranges_in_zip():
    """A range counts beside the rows of arrays."""


    def z1(v):
        i, x, s = (0, 0.0, 0.0)
        for i, x in zip(range(3), v):
            s += i * x
        return (i, x, s)
    same(z1, X)


    def z2(v, n):
        s = 0.0
        for x, k in zip(v, range(n, 20, 3)):
            s += x * k
        for k, x in zip(range(9, 2, -2), v):
            s = s * 0.5 + x * k
        for k, x in zip(range(n, 0), v):
            s += 1000
        return s
    same(z2, X, 2)


    def z4(v):
        return ([x * k for x, k in zip(v, range(5))], sum((x * k for k, x in zip(range(3), v))), [k for k, x in zip(range(2, 9, 2), v)])
    same(z4, X)


    def z6(v):
        s = 0.0
        for x, y in zip(v, v[::-1]):
            if x > y:
                continue
            s += x - y
        for p in zip(v, range(3)):
            s += p[0] * p[1]
        return s
    same(z6, X)


def test_names_in_tests_of_loops():
    """while (x := a) < b, with x read after."""


    def w1(v):
        i = 0
        while (y := v[i]) < 8:
            i += 1
        return (y, i)
    same(w1, X)


    def w2(v):
        i = 0
        s = 0.0
        while (y := (v[i] * 2)) < 8:
            i += 1
            if i == 2:
                continue
            s += y
        return (s, i)
    same(w2, X)


    def w3(v):
        x = 10.0
        n = 0
        while not (x := (x / 2)) < 1:
            n += 1
        return (x, n)
    same(w3, X)


    def w5(n):
        k = 0
        while (n := (n // 2)):
            k += 1
        return (n, k)
    same(w5, 12)


def test_an_empty_loop():
    """Without rounds nothing is bound: the name keeps its value, or the run ends where Python"s would."""


    def kept(v):
        x, s = (7.0, 0.0)
        for x in v[:0]:
            s += x
        return (x, s)
    same(kept, X)


    def unbound(v):
        for x in v[:0]:
            if x > 3:
                break
        return x
    refused(unbound, X, say="x is not bound")


def test_names_that_rounds_bind_by_each_other():
    """Their kinds are found once, not for each way from one to another, of which there are very many."""
    def three(v):
        a, b, c, seen = 1.0, 1.0, 1.0, []
        for x in v:
            da, db, dc = 10 * (b - a), a * (28 - c) - b + x, a * b - 8 / 3 * c
            a, b, c = a + 1e-3 * da, b + 1e-3 * db, c + 1e-3 * dc
            seen.append(c)
        return sum(seen) / len(seen)
    same(three, X)


def test_what_stays_refused():


    def by_expression(v):
        n = 0.0


        def f(x):
            nonlocal n
            n += x
            return n
        return f(v[0]) + f(v[1])
    refused(by_expression, X, say="nonlocal")


    def left(v):
        s = 0.0
        for x in v:
            try:
                if x > 4:
                    continue
                s += x
            finally:
                s += 1
        return s
    refused(left, X, say="try")
