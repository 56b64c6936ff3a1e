# SPDX-License-Identifier: Apache-2.0
"""Random functions of JAX, by anfora.from_jax and by JAX: values, element types and shapes, and of functions of f64 gradients, compiled.

    random_jax.py FOLDER SEED COUNT [BACKEND]      v1 = jnp.where(x > 0, x, y); v2 = lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, v1)

A program is made statement by statement: JAX must take each. Prints the programs that differ and a count of those that are refused; the
status says whether any differed."""
import collections
import os
import random
import sys
import warnings

os.environ.setdefault("ANFORA_CACHE", "off")
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

import anfora  # noqa: E402

jax.config.update("jax_enable_x64", True)
SHAPES = [(), (1,), (3,), (2, 3), (3, 2), (3, 3), (1, 3), (2, 1, 3), (0, 3), (2, 2, 3)]
TYPES = ["float64", "float64", "float32", "int64", "int32", "uint8", "int8", "bool", "bfloat16"]
UNARY = ["sin", "tanh", "abs", "negative", "exp", "square", "sign", "floor", "ceil", "round", "trunc", "sqrt", "log1p", "isnan", "logical_not", "cumsum", "sort", "argsort",
         "ravel", "expm1", "arctan", "cbrt", "isfinite", "reciprocal", "deg2rad", "nan_to_num", "sinc", "signbit", "arcsinh", "exp2", "bitwise_not", "rint", "diff"]
NN = ["relu", "sigmoid", "softplus", "silu", "gelu", "softmax", "log_softmax", "elu", "logsumexp", "leaky_relu", "hard_tanh", "standardize"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", "&", "|", "^", "@", "<<", ">>"]
PAIRS = ["maximum", "minimum", "arctan2", "fmod", "remainder", "hypot", "logaddexp", "power", "copysign", "floor_divide", "heaviside", "outer", "dot", "nextafter", "divmod_", "gcd", "isclose",
         "array_equal", "searchsorted_", "convolve_", "kron", "append_", "ldexp_", "float_power", "matmul", "inner", "vdot", "cross", "allclose", "polyval_", "interp_", "left_shift"]
REDUCED = ["sum", "mean", "max", "min", "prod", "any", "all", "std", "var", "argmax", "argmin", "cumprod", "nansum", "median", "ptp", "count_nonzero", "nanmax", "average", "flip"]
VIEWS = ["{x}.T", "{x}[1:]", "{x}[..., :2]", "{x}[::-1]", "{x}[0]", "{x}[-1]", "{x}[..., None]", "{x}[None]", "{x}[::2]", "{x}.reshape(-1)", "jnp.squeeze({x})", "jnp.swapaxes({x}, 0, -1)",
         "jnp.broadcast_to({x}, (2, *{x}.shape))", "jnp.concatenate([{x}, {x}])", "jnp.stack([{x}, {x}], -1)", "jnp.tile({x}, 2)", "jnp.repeat({x}, 2, 0)", "jnp.roll({x}, 1, 0)", "jnp.tril({x})",
         "{x}[jnp.array([0, -1, 0])]", "jnp.take({x}, jnp.array([0, 5]), axis=0, mode='clip')", "jnp.pad({x}, 1)", "jnp.where({x} > 0, {x}, {y})", "jnp.expand_dims({x}, 0)", "jnp.diagonal({x})",
         "jnp.trace({x})", "jnp.split({x}, 1)[0]", "jnp.moveaxis({x}, 0, -1)", "jnp.rot90({x})", "jnp.atleast_2d({x})", "jnp.take_along_axis({x}, jnp.argsort({x}, 0), 0)", "jnp.pad({x}, 1, mode='edge')",
         "{x}[jnp.arange({x}.shape[0])[::-1]]", "lax.dynamic_slice({x}, [1] * {x}.ndim, [1] * {x}.ndim)", "jnp.flip({x}, -1)", "jnp.triu({x}, 1)", "jnp.unravel_index(3, (2, 3))[1] + {x}", "{x}[7:]",
         "lax.dynamic_index_in_dim({x}, {x}.size, 0)", "jnp.nonzero({x}, size=2)[0]", "jnp.unique({x}, size=3)", "jnp.bincount(jnp.array([0, 1, 1]), {x}[:3], length=4)", "jnp.array_split({x}, 2)[0]"]
WRITES = ["{x}.at[0].set({k})", "{x}.at[..., 0].add({k})", "{x}.at[jnp.array([0, 0])].add(1)", "{x}.at[1:].multiply({k})", "{x}.at[{x}.shape[0]].set({k})", "{x}.at[jnp.array([5, 0])].set({k}, mode='drop')",
          "{x}.at[0].max({y})", "{x}.at[-1].set({y})", "{x}.at[::2].min({k})", "{x}.at[0].divide({k})", "{x}.at[0].power(2)", "lax.dynamic_update_slice({x}, {x}[:1] * 2, [1] * {x}.ndim)", "{x}.at[jnp.array([0, -1])].get()"]
LOOPS = ["lax.fori_loop(0, 3, lambda i, c: c * 0.5 + i, {x} * 1.0)", "lax.while_loop(lambda c: jnp.sum(c[0]) < 9, lambda c: (c[0] + jnp.abs(c[1]) + 1, c[1]), ({x} * 1.0, {x} * 1.0))[0]",
         "lax.scan(lambda c, r: (c + jnp.sum(r), c * r), 0.0, {x} * 1.0)[1]", "lax.cond(jnp.sum({x}) > 0, lambda a: a * 2, lambda a: a - a, {x})", "jax.vmap(lambda r: r * jnp.sum(r))({x})",
         "lax.switch(jnp.int32({x}.size), [lambda a: a, lambda a: a + a, lambda a: a * 0], {x})", "lax.associative_scan(jnp.add, {x})", "lax.map(lambda r: r + 1, {x})",
         "jax.grad(lambda a: jnp.sum(jnp.sin(a) * a))({x})", "jax.jvp(jnp.sin, ({x},), ({x},))[1]", "lax.scan(lambda c, r: (r, c), {x}[0], {x}, reverse=True)[1]", "jax.jacfwd(lambda a: a * a)({x})",
         "jax.checkpoint(lambda a: jnp.tanh(a) * 2)({x})", "lax.fori_loop(0, {x}.shape[0], lambda i, c: c.at[i].add(c[i - 1]), {x})", "jax.vmap(jnp.dot, (0, None))({x}, {y})", "lax.cummax({x})", "lax.top_k(jnp.nan_to_num({x}), 1)[0]",
         "jax.lax.stop_gradient({x}) * {x}", "jax.nn.one_hot({x}, 3)", "jax.ops.segment_sum({x}, jnp.zeros({x}.shape[0], int), 2)", "lax.reduce_window({x}, 0.0, lax.add, (2,) * {x}.ndim, (1,) * {x}.ndim, 'SAME')",
         "lax.expand_dims({x}, [0])", "lax.clamp({x}.dtype.type(0), {x}, {x}.dtype.type(1))", "lax.sort([{x}, {x} * 2], num_keys=1)[1]", "jnp.linalg.norm({x})", "jnp.einsum('...i,...i->...', {x}, {y})",
         "jnp.linalg.solve({x} @ {x}.T + 3 * jnp.eye({x}.shape[0]), {x})", "jnp.linalg.det({x})", "jnp.select([{x} > 1, {x} > 0], [{x}, {x} * 2], 0)", "jnp.histogram({x}, 3)[0]", "jnp.digitize({x}, jnp.array([0., 1.]))"]


class Program:
    """Writes one function of arrays; `floats` are f64 alone, for gradients."""

    def __init__(self, seed):
        self.r, self.floats = random.Random(seed), seed % 2 == 1
        self.names, self.lines = [], []
        self.arguments = [self.argument(i) for i in range(self.r.randrange(1, 4))]
        g = np.random.default_rng(seed)
        self.made = [self.array(g, kind, shape) for _, kind, shape in self.arguments]
        self.scope = {"jnp": jnp, "jax": jax, "lax": lax, **{n: jnp.asarray(a) for (n, _, _), a in zip(self.arguments, self.made)}}
        for i in range(40):
            line = f"v{i} = {self.value()}"
            if len(self.lines) == 7:
                break
            if self.runs(line, f"v{i}"):
                self.lines.append(line)
                self.names.append(f"v{i}")
        kept = self.r.sample(self.names, min(len(self.names), self.r.randrange(1, 4)))
        self.lines.append(f"return {', '.join(kept)},")
        self.text = f"def f({', '.join(n for n, _, _ in self.arguments)}):\n" + "".join(f"    {s}\n" for s in self.lines)

    def argument(self, i):
        self.names.append("xyz"[i])
        return "xyz"[i], "float64" if self.floats else self.r.choice(TYPES), self.r.choice(SHAPES[:7] if self.r.random() < 0.8 else SHAPES)

    def array(self, g, kind, shape):
        x = g.standard_normal(shape) * 2
        return np.asarray(x > 0 if kind == "bool" else np.abs(x) if kind == "uint8" else x).astype(jnp.dtype(kind))

    def some(self): return self.r.choice(self.names[-3:] + self.names)
    def number(self): return self.r.choice(["2", "-1", "0.5", "3", "1.5", "0", "True"])

    def value(self):
        x, y, r = self.some(), self.some(), self.r
        kind = r.random()
        if kind < 0.15: return f"jnp.{r.choice(UNARY)}({x})"
        if kind < 0.2: return f"jax.nn.{r.choice(NN)}({x})"
        if kind < 0.35: return f"({x} {r.choice(BINARY)} {r.choice([y, y, self.number()])})"
        if kind < 0.45: return self.pair(x, y)
        if kind < 0.6: return r.choice(VIEWS).format(x=x, y=y)
        if kind < 0.72: return f"jnp.{r.choice(REDUCED)}({x}{r.choice(['', ', 0', ', axis=-1', ', axis=0'])})"
        if kind < 0.82: return r.choice(WRITES).format(x=x, y=y, k=self.number())
        if kind < 0.95: return r.choice(LOOPS).format(x=x, y=y)
        return r.choice(["{x}.astype(jnp.float32)", "{x}.astype(int)", "{x}.astype({y}.dtype)", "{x}.astype(jnp.uint8)", "{x}.astype(jnp.bfloat16)", "jnp.zeros_like({x})", "jnp.arange({x}.size) * 1.5",
                         "jnp.full_like({x}, 2)", "{x}.astype(bool)", "jnp.float32({k}) * {x}", "lax.convert_element_type({x}, jnp.int8)", "lax.bitcast_convert_type({x}, jnp.uint8)"]).format(x=x, y=y, k=self.number())

    def pair(self, x, y):
        form = {"divmod_": "jnp.divmod({x}, {y})[1]", "searchsorted_": "jnp.searchsorted(jnp.sort({x}), {y})", "convolve_": "jnp.convolve({x}, {y}, 'same')", "append_": "jnp.append({x}, {y})",
                "ldexp_": "jnp.ldexp({x}, 2)", "polyval_": "jnp.polyval({x}, {y})", "interp_": "jnp.interp({x}, jnp.array([0., 1., 2.]), jnp.array([1., 3., 0.]))"}
        name = self.r.choice(PAIRS)
        return form.get(name, f"jnp.{name}({{x}}, {{y}})").format(x=x, y=y)

    def runs(self, line, name):
        try:
            exec(line, self.scope)
        except Exception:
            return False
        return isinstance(self.scope[name], jax.Array) and not jnp.iscomplexobj(self.scope[name])


def loss(f):
    """Of the outputs of a function that are floats, a sum with weights."""
    def total(*args):
        outs = [o for o in f(*args) if jnp.issubdtype(o.dtype, jnp.floating)]
        return sum(jnp.sum(o * jnp.cos(jnp.arange(o.size, dtype=o.dtype)).reshape(o.shape)) for o in outs)
    return total


def differs(want, got):
    w, g = np.asarray(want), np.asarray(got)
    if (w.dtype, w.shape) != (g.dtype, g.shape):
        return f"{w.dtype}{list(w.shape)} became {g.dtype}{list(g.shape)}"
    tol = {"float64": 1e-8, "float32": 2e-4, "bfloat16": 5e-2}.get(str(w.dtype), 0)
    return None if np.allclose(w.astype(float), g.astype(float), tol, tol, equal_nan=True) else f"{w} became {g}"


def difference(program, backend="llvm"):
    """None, or (a kind, how the program differs): "differs" or "refused"."""
    exec(program.text, program.scope)
    f = program.scope["f"]
    total, wrt = loss(f), tuple(range(len(program.made)))
    try:
        want = jax.jit(f)(*program.made)
    except Exception:  # it runs operation by operation alone
        return None
    try:
        slopes = jax.jit(jax.grad(total, wrt))(*program.made) if program.floats and any(jnp.issubdtype(o.dtype, jnp.floating) for o in want) else None
    except Exception:  # a while loop, which JAX does not differentiate
        slopes = None
    try:
        got = anfora.jit(anfora.from_jax(f), backend=backend)(*program.made)
        d = next((f"output {i}: {d}" for i, (w, g) in enumerate(zip(want, got)) if (d := differs(w, g))), None)
        if not d and slopes is not None:
            found = anfora.jit(anfora.grad(anfora.from_jax(total), wrt=wrt), backend=backend)(*program.made)
            known = [np.where(np.isnan(w), g, w) for w, g in zip(slopes, found)]  # JAX's is NaN where a zero meets an infinite slope
            d = next((f"gradient {i}: {d}" for i, (w, g) in enumerate(zip(known, found)) if (d := differs(w, g))), None)
    except Exception as e:
        return "refused", f"{type(e).__name__}: {str(e)[:500]}"
    return ("differs", d) if d else None


def run(first, count, backend="llvm"):
    """(programs that differ, as texts; counts of refusals)"""
    warnings.filterwarnings("ignore")
    bad, refused = [], collections.Counter()
    for s in range(first, first + count):
        program = Program(s)
        if found := difference(program, backend):
            kind, why = found
            refused[why.split("\n")[0][:140]] += kind == "refused"
            if kind == "differs":
                bad.append(f"seed {s}: {why}\n{program.arguments}\n{program.text}")
                print(bad[-1], flush=True)
    return bad, +refused


if __name__ == "__main__":
    wrong, refusals = run(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    print(f"{sys.argv[3]} programs: {len(wrong)} differ, {sum(refusals.values())} are refused")
    for text, n in refusals.most_common(20):
        print(n, text)
    sys.exit(bool(wrong))
