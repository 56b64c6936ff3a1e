#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OpInfo, PyTorch's own table of its operations with sample inputs, compiled by Anfora and compared with eager:

    opinfo.py PACKAGE [--samples N] [--only WORD] [--floor N] [--table FILE] [--skip-gradients | --second]

Each sample is traced to ATen (make_fx for values, AOTAutograd's joint graph for gradients), compiled, and its results
in f64 are compared with eager's, 1e-9 relative. An op passes if all its samples do without a node that PyTorch runs.
--second compares derivatives of gradients, by the backend's option create_graph, of the ops that have them in OpInfo."""
import argparse
import collections
import contextlib
import io
import os
import signal
import sys
import time
import warnings


class Late(Exception):
    """A sample took too long."""


class Absent(Exception):
    """Eager itself has not the derivative of a sample."""


def late(*_):
    raise Late("took more than its time")


def leaves(tree):
    import torch
    from torch.utils._pytree import tree_flatten
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


class Runner:
    def __init__(self, package, samples, gradients, second):
        sys.path.insert(0, package)
        import torch
        import anfora.torch._backend as backend
        self.torch, self.backend = torch, backend
        self.samples, self.gradients, self.second = samples, gradients, second

    # ---- one sample ----

    def function(self, op, sample):
        """The op as a function of the tensors of the sample, and these."""
        from torch.utils._pytree import tree_flatten, tree_unflatten
        torch = self.torch
        flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        where = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]

        def f(*tensors):
            full = list(flat)
            for i, t in zip(where, tensors):
                full[i] = t
            x, args, kw = tree_unflatten(full, spec)
            r = op.op(x, *args, **kw)
            return tuple(leaves(sample.output_process_fn_grad(r)))
        return f, [flat[i] for i in where]  # those that want gradients do so still

    def same(self, a, b):
        torch = self.torch
        if len(a) != len(b):
            return f"{len(b)} results, not {len(a)}"
        for x, y in zip(a, b):
            if x is None or y is None:
                if x is not y and (y if x is None else x).abs().max() != 0:
                    return "a gradient is absent"
                continue
            if x.dtype != y.dtype or x.shape != y.shape:
                return f"{y.dtype}{list(y.shape)}, not {x.dtype}{list(x.shape)}"
            rough = x.dtype in (torch.float32, torch.complex64, torch.bfloat16, torch.float16)
            if not torch.allclose(x.detach(), y.detach(), rtol=1e-4 if rough else 1e-9, atol=1e-4 if rough else 1e-9, equal_nan=True):
                return f"differs by {(x.detach() - y.detach()).abs().max().item():.3g}" if x.dtype is not torch.bool else "differs"
        return ""

    def compiled(self, f):
        """The function, compiled when it is called: without gradients if nothing wants them."""
        from functorch.compile import aot_function, make_boxed_func

        def compiler(gm, _):
            return make_boxed_func(self.backend.compile_graph(gm, "part", self.backend._options(None)))
        return aot_function(f, compiler, compiler, decompositions=self.backend.decompositions())

    def value(self, f, xs):
        plain = [x.detach().clone() for x in xs]
        results = []
        for g in (f, self.compiled(f)):
            self.torch.manual_seed(42)
            with self.torch.no_grad():
                results.append(leaves(g(*[x.clone() for x in plain])))
        return self.same(*results)

    def compiled_twice(self, f, n):
        """The function of n tensors as the backend compiles a graph that it is given, with derivatives of any order."""
        import torch.fx
        graph = torch.fx.Graph()
        graph.output(graph.call_function(f, tuple(graph.placeholder(f"x{i}") for i in range(n))))
        gm = torch.fx.GraphModule({}, graph)
        return lambda *xs: self.backend.backend(gm, list(xs), options={"create_graph": True})(*xs)

    def weights(self, ys):
        torch = self.torch
        return [torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape).to(y.dtype) for y in ys]

    def run(self, f, xs):
        """Of a run with copies of xs the results and the arguments that have gradients."""
        inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in xs]
        self.torch.manual_seed(42)
        out = [y for y in f(*inputs) if y.requires_grad]
        return out, [x for x in inputs if x.requires_grad]

    def second_gradient(self, f, xs):
        """Derivatives of weighted gradients, by the arguments and by the weights."""
        torch = self.torch

        def run(g):
            out, wrt = self.run(g, xs)
            if not out or not wrt:
                return None
            ws = [w.requires_grad_() for w in self.weights(out)]
            first = torch.autograd.grad(out, wrt, ws, create_graph=True, allow_unused=True)
            first = [x for x in first if x is not None and x.requires_grad]
            return torch.autograd.grad(first, wrt + ws, self.weights(first), allow_unused=True) if first else None

        try:
            want = run(f)
        except RuntimeError as e:
            raise Absent(e) from None
        return "" if want is None else self.same(want, run(self.compiled_twice(f, len(xs))))

    def gradient(self, f, xs):
        torch = self.torch

        def run(g):
            out, wrt = self.run(g, xs)
            if not out or not wrt:
                return None
            return torch.autograd.grad(out, wrt, self.weights(out), allow_unused=True)

        want = run(f)
        if want is None:
            return ""
        got = run(self.compiled(f))
        return self.same(want, got)

    def sample(self, op, sample, gradient):
        """'' or why it fails."""
        f, xs = self.function(op, sample)
        before = sum(self.backend.fallbacks.values())
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                why = self.second_gradient(f, xs) if self.second else self.value(f, xs)
                if not why and gradient and not self.second:
                    why = self.gradient(f, xs)
                    why = why and "gradient: " + why
        except Absent:
            raise
        except Exception as e:  # noqa: BLE001: whatever a sample raises is its result
            why = f"{type(e).__name__}: {e}".strip().split("\n")[0][:200]
        if not why and sum(self.backend.fallbacks.values()) != before:
            why = "fallback: " + "; ".join(line.strip() for line in said.getvalue().splitlines()[1:3])
        return why

    # ---- ops ----

    def dtype(self, op):
        torch = self.torch
        return next((t for t in (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128) if t in op.supported_dtypes("cpu")), None)

    def is_twice(self, op):
        """Has it second derivatives?"""
        return op.supports_autograd and op.supports_gradgrad and self.dtype(op) is self.torch.float64

    def op(self, op):
        """(samples that pass, samples, the reasons of the others)"""
        torch, dtype = self.torch, self.dtype(op)
        if dtype is None:
            return 0, 0, {"no element type"}
        gradient = self.gradients and op.supports_autograd and dtype in (torch.float64, torch.float32)
        good, n, why = 0, 0, set()
        torch.manual_seed(1)
        for sample in op.sample_inputs("cpu", dtype, requires_grad=gradient):
            if n == self.samples:
                break
            n += 1
            signal.setitimer(signal.ITIMER_PROF, 60)
            try:
                reason = self.sample(op, sample, gradient)
            except Absent:
                n -= 1
                continue
            except Late as e:
                reason = str(e)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            good += not reason
            if reason:
                why.add(reason)
        return good, n, why


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("--samples", type=int, default=1 << 30)
    p.add_argument("--only", default="")
    p.add_argument("--names", default="")
    p.add_argument("--part", default="0/1")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--table")
    p.add_argument("--skip-gradients", action="store_true")
    p.add_argument("--second", action="store_true")
    a = p.parse_args()
    os.environ.setdefault("ANFORA_CACHE", "off")
    warnings.simplefilter("ignore")
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as e:
        print(f"skipped: {e}")
        return 0
    signal.signal(signal.SIGPROF, late)  # of processor time, which other processes do not take
    r = Runner(a.package, a.samples, not a.skip_gradients, a.second)
    names = set(a.names.split(",")) if a.names else None
    k, of = map(int, a.part.split("/"))
    results, reasons = {}, collections.Counter()
    ops = [op for op in op_db if a.only in op.name and (names is None or op.name in names) and (not a.second or r.is_twice(op))][k::of]
    for op in ops:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        start = time.time()
        try:
            good, n, why = r.op(op)
        except Exception as e:  # noqa: BLE001: its samples cannot be made
            good, n, why = 0, 0, {f"{type(e).__name__}: {e}"[:200]}
        results[name] = (good, n, sorted(why))
        reasons.update(why)
        print(f"{'ok' if n and good == n else 'not ok'} {name} {good}/{n} {time.time() - start:.1f}s" + "".join(f"\n    {w}" for w in sorted(why)[:4]), flush=True)
    passed = sum(n > 0 and good == n for good, n, _ in results.values())
    print(f"{passed} passed, {len(results) - passed} failed")
    print(f"samples: {sum(x[0] for x in results.values())} of {sum(x[1] for x in results.values())}")
    if a.table:
        with open(a.table, "w", encoding="utf-8") as f:
            f.writelines(f"{name}\t{good}\t{n}\t{'; '.join(why[:2])}\n" for name, (good, n, why) in sorted(results.items()))
    if passed < a.floor:
        print(f"below the floor of {a.floor}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
