# SPDX-License-Identifier: Apache-2.0
"""Sparse Jacobians and Hessians: where the entries are, few directions that show all of them, and one batch of these.

>>> import numpy as np
>>> from anfora import sparse
>>> j = sparse.jacobian(lambda x: x[1:] * x[:-1])
>>> j(np.array([1.0, 2.0, 3.0])).todense()
array([[2., 1., 0.],
       [0., 3., 2.]])

Columns without a common row share a direction: a banded Jacobian takes as many as its band is wide, whatever its size (Curtis,
Powell and Reid 1974). Directions come from a greedy colouring; those of a Hessian from a star colouring, which uses that it is
symmetric (Gebremedhin, Manne and Pothen 2005).

A pattern is given, or found by probing: blocks of columns are halved as long as random directions in them change a row, and
blocks without a common row are probed at once (Griewank and Mitev 2002), so that few directions are computed, not one for
each column. An entry that is zero where it was looked for may be there elsewhere. So each evaluation has one random direction
more, in which the entries are compared with the derivative itself: a pattern that was found is then found anew, one that was
given is an error.
"""
from __future__ import annotations

import importlib
import math
from typing import Any, Callable

import numpy as _np

from ._jit import as_function, jit
from ._transform import eval_shape, grad, jvp, vjp, vmap
from ._tree import tree_leaves

__all__ = ["Matrix", "Pattern", "colours", "hessian", "jacobian", "pattern", "star_colours"]
_LANES = 64  # directions of a batch


class Pattern:
    """Where a matrix may have entries: `rows`, `cols`, sorted and each once, and `shape`."""

    def __init__(self, rows: Any, cols: Any, shape: tuple) -> None:
        rows, cols = _np.asarray(rows, _np.int64).ravel(), _np.asarray(cols, _np.int64).ravel()
        m, n = (int(k) for k in shape)
        if rows.size != cols.size:
            raise ValueError(f"a pattern has as many rows as columns, not {rows.size} and {cols.size}")
        if rows.size and (rows.min() < 0 or cols.min() < 0 or rows.max() >= m or cols.max() >= n):
            raise ValueError(f"a pattern of shape {(m, n)} has an index outside of it")
        flat = _np.unique(rows * n + cols)
        self.rows, self.cols, self.shape = flat // max(n, 1), flat % max(n, 1), (m, n)

    @classmethod
    def of(cls, x: Any) -> "Pattern":
        """Of a Pattern, a Matrix, a matrix of scipy.sparse, (rows, cols, shape), or an array whose entries are not 0."""
        if isinstance(x, Pattern):
            return x
        if isinstance(x, tuple) and len(x) == 3:
            return cls(*x)
        if isinstance(x, Matrix):
            return x.pattern
        if hasattr(x, "tocoo"):
            c = x.tocoo()
            return cls(c.row, c.col, c.shape)
        a = _np.asarray(x)
        if a.ndim != 2:
            raise TypeError(f"a pattern is a matrix, not an array of {a.ndim} dims")
        rows, cols = _np.nonzero(a)
        return cls(rows, cols, a.shape)

    @property
    def nnz(self) -> int:
        return self.rows.size

    @property
    def T(self) -> "Pattern":
        return Pattern(self.cols, self.rows, self.shape[::-1])

    def union(self, other: "Pattern") -> "Pattern":
        """The entries of both."""
        return Pattern(_np.concatenate([self.rows, other.rows]), _np.concatenate([self.cols, other.cols]), self.shape)

    def todense(self) -> Any:
        a = _np.zeros(self.shape, bool)
        a[self.rows, self.cols] = True
        return a

    def __repr__(self) -> str:
        return f"Pattern({self.nnz} entries, shape={self.shape})"


class Matrix:
    """A sparse matrix: data[k] is the entry at rows[k], cols[k] of its pattern, sorted by rows."""

    def __init__(self, data: Any, pattern: Pattern) -> None:
        self.data, self.pattern, self.shape = data, pattern, pattern.shape
        self.rows, self.cols = pattern.rows, pattern.cols

    def todense(self) -> Any:
        a = _np.zeros(self.shape, self.data.dtype)
        a[self.rows, self.cols] = self.data
        return a

    def csr(self) -> tuple:
        """(indptr, indices, data): row i is data[indptr[i]:indptr[i + 1]], at these columns."""
        indptr = _np.concatenate([[0], _np.cumsum(_np.bincount(self.rows, minlength=self.shape[0]))])
        return indptr, self.cols, self.data

    def toscipy(self) -> Any:
        """A csr_matrix of scipy.sparse, which is needed for it."""
        indptr, indices, data = self.csr()
        return importlib.import_module("scipy.sparse").csr_matrix((data, indices, indptr), shape=self.shape)

    def __repr__(self) -> str:
        return f"Matrix({self.data.size} entries, shape={self.shape}, {self.data.dtype})"


# ---- colourings ----

def _starts(sorted_by: Any, n: int) -> Any:
    return _np.searchsorted(sorted_by, _np.arange(n + 1))


def colours(p: Pattern) -> Any:
    """A colour for each column, from 0: columns of one colour have no common row. -1: the column has no entry. Greedy, columns with
    many entries first."""
    m, n = p.shape
    order = _np.argsort(p.cols, kind="stable")
    rows, first = p.rows[order].tolist(), _starts(p.cols[order], n).tolist()
    used = [0] * m  # by row, bits of the colours of its columns
    colour = _np.full(n, -1, _np.int64)
    for c in sorted(range(n), key=lambda c: first[c] - first[c + 1]):
        own, taken = rows[first[c]:first[c + 1]], 0
        for r in own:
            taken |= used[r]
        if own:
            bit = ~taken & (taken + 1)
            colour[c] = bit.bit_length() - 1
            for r in own:
                used[r] |= bit
    return colour


def star_colours(p: Pattern) -> Any:
    """A colour for each row of a symmetric pattern: neighbours differ, and each path of four nodes has three colours. So of
    entries (i, j) and (j, i) one at least is alone in its row among those of its colour."""
    n = p.shape[0]
    both = p.union(p.T)
    near: list[list[int]] = [[] for _ in range(n)]
    for i, j in zip(both.rows.tolist(), both.cols.tolist()):
        if i != j:
            near[i].append(j)
    colour = [-1] * n
    for v in sorted(range(n), key=lambda v: -len(near[v])):
        taken = set()
        for w in near[v]:
            taken.add(colour[w])
            for x in near[w]:  # v, w, x and a neighbour of x with the colour of w would have two colours, if v had that of x
                if x == v or colour[x] < 0 or colour[x] in taken:
                    continue
                if colour[w] < 0 or any(y != w and colour[y] == colour[w] for y in near[x]):
                    taken.add(colour[x])
        colour[v] = next(k for k in range(n) if k not in taken)
    return _np.array(colour, _np.int64)


# ---- directions ----

class _Linear:
    """A linear map at a point, applied to rows of seeds: `(lanes, n)` to `(lanes, m)`."""

    def __init__(self, apply: Callable, args: tuple, size: int, shape: tuple, dtype: Any) -> None:
        self._apply, self._args, self._size, self._shape, self._dtype = apply, args, size, shape, dtype

    def __call__(self, seeds: Any) -> Any:
        n = len(seeds)
        lanes = n if n <= _LANES else _LANES  # one signature for all parts
        out = []
        for k in range(0, n, lanes):
            part = _np.zeros((lanes, self._size), self._dtype)
            part[:len(seeds[k:k + lanes])] = seeds[k:k + lanes]
            y = self._apply(part.reshape(lanes, *self._shape), *self._args)
            out.append(_np.asarray(y).reshape(lanes, -1)[:n - k])
        return _np.concatenate(out) if out else _np.zeros((0, 0), self._dtype)


def _pushing(f: Any, wrt: int) -> Callable:
    @jit
    def push(seeds, *a):
        return vmap(lambda d: jvp(lambda x: f(*a[:wrt], x, *a[wrt + 1:]), (a[wrt],), (d,))[1])(seeds)
    return push


def _pulling(f: Any, wrt: int) -> Callable:
    @jit
    def pull(seeds, *a):
        return vmap(lambda d: vjp(lambda x: f(*a[:wrt], x, *a[wrt + 1:]), a[wrt])[1](d)[0])(seeds)
    return pull


# ---- where entries are ----

def _weights(rng: Any, n: int) -> Any:
    """Numbers whose sums are not 0 by chance."""
    return rng.uniform(0.5, 1.5, n) * rng.choice([-1.0, 1.0], n)


def _probe(linear: _Linear, m: int, n: int, rng: Any) -> Pattern:
    """The entries of a map of n numbers to m that random directions show: blocks of columns with the rows that they change."""
    bounds, blocks, rows = _np.array([0, n]), _np.zeros(m, _np.int64), _np.arange(m)  # one block, which changes every row
    while n and m:
        width = _np.diff(bounds)
        blocks, rows = blocks[width[blocks] > 0], rows[width[blocks] > 0]
        colour = colours(Pattern(rows, blocks, (m, len(width))))
        k = int(colour.max(initial=-1)) + 1
        seeds = _np.where(_np.repeat(colour, width) == _np.arange(k)[:, None], _weights(rng, n), 0.0)
        hit = linear(seeds)[colour[blocks], rows] != 0 if k else _np.zeros(0, bool)
        blocks, rows = blocks[hit], rows[hit]
        if width.max() <= 1:
            break
        middle = (bounds[:-1] + bounds[1:] + 1) // 2  # halves may change the rows that their block changes
        bounds = _np.append(_np.stack([bounds[:-1], middle], 1).ravel(), n)
        blocks, rows = _np.concatenate([2 * blocks, 2 * blocks + 1]), _np.concatenate([rows, rows])
    return Pattern(rows, bounds[blocks], (m, n)) if n and m else Pattern([], [], (m, n))


class _Sparse:
    """Jacobian or Hessian of f as a function of the arguments of f."""

    def __init__(self, f: Any, wrt: int, given: Any, symmetric: bool, mode: str | None) -> None:
        if mode not in (None, "forward", "reverse"):
            raise ValueError(f"mode is \"forward\", \"reverse\" or None, not {mode!r}")
        self._f, self._wrt, self._symmetric, self._mode = as_function(f), wrt, symmetric, mode
        g = grad(self._f, wrt=wrt) if symmetric else self._f
        self._value, self._push, self._pull = g, _pushing(g, wrt), _pulling(g, wrt)
        self._given = None if given is None else Pattern.of(given)
        self._types: dict[tuple, Any] = {}  # of the value, by types of the arguments
        self._plans: dict[tuple, _Plan] = {}
        self._rng = _np.random.default_rng(0)

    def _maps(self, args: tuple) -> tuple:
        x = _np.asarray(args[self._wrt])
        if x.dtype not in (_np.float32, _np.float64):
            raise TypeError(f"a sparse derivative is by an array of f32 or f64, not of {x.dtype}")
        key = tuple((_np.shape(a), str(getattr(a, "dtype", type(a)))) for a in tree_leaves(args))
        if key not in self._types:
            self._types[key] = eval_shape(self._value, *args)
        y = self._types[key]
        if not hasattr(y, "shape"):
            raise TypeError("a sparse Jacobian is of a function that gives one array")
        forward = _Linear(self._push, args, x.size, x.shape, x.dtype)
        return key, y.size, x.size, forward, _Linear(self._pull, args, y.size, y.shape, x.dtype)

    def pattern(self, *args: Any) -> Pattern:
        """The entries that probing finds at these arguments."""
        _, m, n, forward, back = self._maps(args)
        if self._mode == "reverse" or (self._mode is None and m < n and not self._symmetric):
            return _probe(back, n, m, self._rng).T
        p = _probe(forward, m, n, self._rng)
        return p.union(p.T) if self._symmetric else p

    def _plan(self, p: Pattern, m: int, n: int) -> "_Plan":
        if p.shape != (m, n):
            raise ValueError(f"the pattern is of shape {p.shape}, the derivative of {(m, n)}")
        return _Plan(p, self._symmetric, self._mode)

    def __call__(self, *args: Any) -> Matrix:
        key, m, n, forward, back = self._maps(args)
        plan = self._plans.get(key)
        if plan is None:
            p = self.pattern(*args) if self._given is None else self._given
            plan = self._plans[key] = self._plan(p, m, n)
        data, whole = plan.run(forward, back, self._rng)
        if not whole and self._given is not None:
            raise ValueError("the derivative has entries that the pattern does not have: give a pattern with these, "
                             "or none, so that it is found")
        if not whole:
            plan = self._plans[key] = self._plan(plan.pattern.union(self.pattern(*args)), m, n)
            data, whole = plan.run(forward, back, self._rng)
        if not whole:
            raise ArithmeticError("the entries of the derivative are not those of its products with random directions: it may be "
                                  "too badly scaled")
        return Matrix(data, plan.pattern)

    @property
    def directions(self) -> int | None:
        """How many directions the last pattern takes, without the one that checks; None before the first call."""
        return next(reversed(self._plans.values())).count if self._plans else None


class _Plan:
    """Seeds for a pattern, and where its entries are in what comes of them."""

    def __init__(self, p: Pattern, symmetric: bool, mode: str | None) -> None:
        if symmetric:
            p = p.union(p.T)
            colour = star_colours(p)
            self.reverse = False
        else:
            colour = colours(p) if mode != "reverse" else None
            other = colours(p.T) if mode != "forward" else None
            self.reverse = colour is None or (other is not None and 2 * other.max(initial=-1) < colour.max(initial=-1))
            colour = other if self.reverse else colour
        self.pattern, self.count = p, int(colour.max(initial=-1)) + 1
        self.seeds = (colour == _np.arange(self.count)[:, None]).astype(float)
        rows, cols = (p.cols, p.rows) if self.reverse else (p.rows, p.cols)
        if symmetric:  # (i, j), or (j, i) where i has another neighbour of the colour of j
            _, where, times = _np.unique(rows * self.count + colour[cols], return_inverse=True, return_counts=True)
            alone = (times[where] == 1) | (rows == cols)
            rows, cols = _np.where(alone, rows, cols), _np.where(alone, cols, rows)
        self.lane, self.at = colour[cols], rows

    def run(self, forward: _Linear, back: _Linear, rng: Any) -> tuple:
        """(entries, do they make the derivative in a random direction?)"""
        m, n = self.pattern.shape
        into, out = (self.pattern.cols, self.pattern.rows)
        size, linear = n, forward
        if self.reverse:
            into, out, size, linear = out, into, m, back
        v = _weights(rng, size)
        y = linear(_np.concatenate([self.seeds, v[None]]))
        data = y[self.lane, self.at]
        terms = data.astype(float) * v[into]
        length = y.shape[1]
        got, scale = (_np.bincount(out, t, minlength=length) for t in (terms, abs(terms)))
        true = y[-1].astype(float)
        known = _np.isfinite(true) & _np.isfinite(got)
        eps = float(_np.finfo(y.dtype).eps)
        far = abs(true - got) > math.sqrt(eps) * (scale + abs(true))
        return data, not (far & known).any()


def jacobian(f: Any, wrt: int = 0, pattern: Any = None, mode: str | None = None) -> _Sparse:
    """The Jacobian of f by argument `wrt`, an array of real numbers, as a function that gives a Matrix: a row for each element of
    the value, a column for each of the argument. `pattern`: whatever Pattern.of takes; None: it is found at the first call.
    `mode`: "forward" combines columns, "reverse" rows; None: whichever takes less time."""
    return _Sparse(f, wrt, pattern, False, mode)


def hessian(f: Any, wrt: int = 0, pattern: Any = None) -> _Sparse:
    """The Hessian of f, which gives one number, likewise."""
    return _Sparse(f, wrt, pattern, True, None)


def pattern(f: Any, *args: Any, wrt: int = 0) -> Pattern:
    """Where the Jacobian of f has entries at these arguments."""
    return jacobian(f, wrt).pattern(*args)
