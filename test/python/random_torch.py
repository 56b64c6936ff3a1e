# SPDX-License-Identifier: Apache-2.0
"""Random functions of PyTorch, eager beside torch.compile(backend="anfora"): views, writes in place to arguments and through views, mixed
types, indices, outputs that share memory.

    random_torch.py FOLDER SEED COUNT      v2 = x.t()[1:]; v2.mul_(y); return v2, x.sum(0)

Values, element types, shapes, what arguments hold afterwards, which outputs share memory with arguments, and gradients (of f64) must be
eager's; where eager raises, compiled code must raise. What PyTorch's own backend `aot_eager` does in the same way is none of ours: it drops
what nothing uses, with its errors. Prints the programs that differ and a count; the status says whether any did."""
import functools
import logging
import os
import random
import sys
import warnings

os.environ.setdefault("ANFORA_CACHE", "off")
if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
import torch  # noqa: E402

import anfora.torch as at  # noqa: E402

SHAPES = [(), (1,), (3,), (2, 3), (3, 2), (3, 3), (1, 3), (3, 1), (2, 1, 3), (0, 3), (2, 2, 3)]
FLOATS, INTS = ["float64", "float32"], ["int64", "int32", "uint8", "bool"]
UNARY = ["sin", "tanh", "abs", "neg", "exp", "square", "sigmoid", "relu", "sign", "floor", "ceil", "round", "frac", "trunc", "sqrt", "log1p",
         "reciprocal", "isnan", "logical_not", "clone", "detach", "contiguous", "erf", "rsqrt", "cumsum_", "softmax_", "isfinite", "expm1", "atan"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", "&", "|", "^"]
PAIRS = ["maximum", "minimum", "atan2", "fmod", "remainder", "hypot", "where_", "lerp_", "addcmul_", "xlogy", "floor_divide", "logaddexp"]
VIEWS = ["{x}.t()", "{x}.transpose(0, -1)", "{x}[1:]", "{x}[..., :2]", "{x}[::2]", "{x}[0]", "{x}[-1]", "{x}[..., None]", "{x}[None]", "{x}.unsqueeze(0)",
         "{x}.squeeze()", "{x}.reshape(-1)", "{x}.view(-1)", "{x}.flatten()", "{x}.expand(2, *{x}.shape)", "{x}.movedim(0, -1)", "{x}.flip(0)", "{x}.diagonal()",
         "{x}.narrow(0, 0, 1)", "{x}.select(0, -1)", "{x}.unbind(0)[-1]", "{x}.chunk(2)[0]", "{x}.split(1)[-1]", "{x}.permute(*reversed(range({x}.dim())))",
         "{x}.view_as({x})", "{x}.unfold(0, 2, 1)", "{x}.repeat(2, *[1] * {x}.dim())", "{x}.mT", "{x}.ravel()", "{x}[[0, -1]]", "{x}[torch.arange({x}.shape[0]) % 2 == 0]",
         "{x}.roll(1)", "{x}.tril()", "{x}.expand_as({y})", "{x}.index_select(0, torch.tensor([0, 0]))", "{x}.as_strided((2,), (1,))", "torch.broadcast_to({x}, (2, 3))",
         "torch.cat([{x}, {x}])", "torch.stack([{x}, {x}], -1)", "{x}.gather(0, torch.zeros_like({x}, dtype=torch.int64))", "{x}.masked_select({x} > 0)", "{x}[{x} > 0]"]
REDUCED = ["sum", "mean", "amax", "amin", "prod", "any", "all", "std", "var", "logsumexp", "argmax", "cumprod", "norm", "median", "max", "min", "nansum", "count_nonzero", "sort"]
WRITES = ["{x}.add_({y})", "{x}.mul_({k})", "{x}.copy_({y})", "{x}.zero_()", "{x}.fill_({k})", "{x}[0] = {k}", "{x}[..., 0] = {y}", "{x}[1:] = {y}", "{x} += {y}",
          "{x} *= {k}", "{x} -= {k}", "{x}[0] += {y}", "{x}.sin_()", "{x}.clamp_(-1, 1)", "{x}.masked_fill_({x} > 0, {k})", "{x}[{x} > 0] = {k}", "{x}.t_()", "{x}.unsqueeze_(0)",
          "{x}.squeeze_()", "{x}.index_fill_(0, torch.tensor([0]), {k})", "{x}.index_add_(0, torch.tensor([0]), {y})", "{x}.exp_()", "{x}.relu_()", "{x}.diagonal().fill_({k})",
          "{x}.t().mul_({k})", "{x}.view(-1)[0] = {k}", "{x}.reshape(-1)[0] = {k}", "{x}.flatten().add_({k})", "{x}.sub_({y}, alpha=2)", "{x}.addcmul_({y}, {y})", "{x}.div_({y})",
          "{x}.floor_()", "{x}.data.mul_({k})", "{x}.scatter_(0, torch.zeros_like({x}, dtype=torch.int64), {k})", "{x}[..., [0, -1]] = {k}", "{x}.transpose_(0, -1)", "{x}.lerp_({y}, 0.5)",
          "{x}.pow_(2)", "{x}.logical_not_()", "{x}[{y} > 0] += {k}", "{x}.put_(torch.tensor([0]), torch.ones(1, dtype={x}.dtype))"]


class Program:
    """Writes one function of tensors; `floats` are f64 alone, for gradients."""

    def __init__(self, seed, floats):
        self.r = random.Random(seed)
        self.floats = floats
        self.names, self.lines = [], []
        self.arguments = [self.argument(i) for i in range(self.r.randrange(1, 4))]
        self.made = self.tensors()
        self.scope = {"torch": torch, **{n: t.clone().requires_grad_(floats) * 1 for (n, _, _), t in zip(self.arguments, self.made)}}
        mistake = self.r.random() < 0.1
        for i in range(40):
            if len(self.lines) == 8:
                break
            name, line = self.statement(i)
            if not self.runs(line) and not (mistake and i > 8):
                continue
            self.lines.append(line)
            if name:
                self.names.append(name)
        if self.r.random() < 0.2:
            self.branch()
        kept = self.r.sample(self.names, min(len(self.names), self.r.randrange(1, 4)))
        self.lines.append(f"return {', '.join(kept)},")
        self.text = f"def f({', '.join(n for n, _, _ in self.arguments)}):\n" + "".join(f"    {s}\n" for s in self.lines)

    def argument(self, i):
        kind = "float64" if self.floats or self.r.random() < 0.5 else self.r.choice(FLOATS + INTS)
        self.names.append("xyz"[i])
        return "xyz"[i], kind, self.r.choice(SHAPES[:7] if self.r.random() < 0.8 else SHAPES)

    def some(self): return self.r.choice(self.names[-4:] + self.names)
    def number(self): return self.r.choice(["2", "-1", "0.5", "3", "1.5", "0", "True"])

    def value(self):
        """An expression."""
        x, y, r = self.some(), self.some(), self.r
        kind = r.random()
        if kind < 0.2: return self.unary(x)
        if kind < 0.4: return f"({x} {r.choice(BINARY)} {r.choice([y, y, self.number()])})"
        if kind < 0.5: return self.pair(x, y)
        if kind < 0.75: return r.choice(VIEWS).format(x=x, y=y)
        if kind < 0.9: return self.reduced(x)
        return r.choice(["{x}.to(torch.float32)", "{x}.double()", "{x}.long()", "{x}.bool()", "{x}.int()", "{x}.to({y}.dtype)", "{x}.type_as({y})", "{x} @ {y}", "torch.zeros_like({x})",
                         "torch.full_like({x}, 2)", "torch.arange({x}.numel()) * 1.5", "{x}.new_ones(3)", "torch.tensor({k})", "torch.outer({x}, {y})", "{x}.clamp(min={k})", "{x} if {x}.dim() > 1 else {y}",
                         "torch.einsum('...i,...i->...', {x}, {y})", "{x}.half().double()", "{x}.to(torch.bfloat16)"]).format(x=x, y=y, k=self.number())

    def unary(self, x):
        name = self.r.choice(UNARY)
        return {"cumsum_": f"{x}.cumsum(0)", "softmax_": f"{x}.softmax(-1)"}.get(name, f"{x}.{name}()")

    def pair(self, x, y):
        name = self.r.choice(PAIRS)
        form = {"where_": "torch.where({x} > 0, {x}, {y})", "lerp_": "torch.lerp({x}, {y}, 0.25)", "addcmul_": "torch.addcmul({x}, {x}, {y}, value=2)"}
        return form.get(name, f"torch.{name}({{x}}, {{y}})").format(x=x, y=y)

    def reduced(self, x):
        name, r = self.r.choice(REDUCED), self.r
        if name in ("logsumexp", "cumprod"): return f"{x}.{name}({r.choice([0, -1])})"
        if name in ("sort", "max", "min", "median"): return r.choice([f"{x}.{name}(dim=0)[{r.randrange(2)}]", f"{x}.{name}()" if name != "sort" else f"{x}.sort(descending=True)[0]"])
        return f"{x}.{name}({r.choice(['', '', '0', '-1', '0, keepdim=True' if name not in ('norm', 'count_nonzero') else '0'])})"

    def statement(self, i):
        """What it binds, and its text."""
        if self.r.random() < 0.35:
            x, y = self.some(), self.some()
            return None, self.r.choice(WRITES).format(x=x, y=y, k=self.number())
        return f"v{i}", f"v{i} = {self.value()}"

    def runs(self, line):
        try:
            exec(line, self.scope)
        except Exception:
            return False
        return True

    def branch(self):
        x = self.some()
        self.lines += [f"for k in range({self.r.randrange(1, 3)}):", f"    {x} = {x} * 0.5 + k", f"if {x}.dim() == {self.r.randrange(3)}:", f"    {x} = {x} + 1"]

    def tensors(self):
        g = torch.Generator().manual_seed(self.r.randrange(1 << 30))
        made = []
        for _, kind, shape in self.arguments:
            x = torch.randn(shape, generator=g, dtype=torch.float64) * 2
            made.append((x > 0) if kind == "bool" else x.abs().to(torch.uint8) if kind == "uint8" else x.to(getattr(torch, kind)))
        return made


def shared(out, args):
    """For each output, what it shares memory with: arguments, and outputs before it."""
    key = [(t.untyped_storage().data_ptr() if t.numel() else None) for t in [*args, *out]]
    return [[j for j in range(len(args) + i) if key[j] is not None and key[j] == key[len(args) + i]] for i in range(len(out))]


def outcome(f, program, made, gradients):
    """What a run gives: the exception, or values, arguments afterwards, sharing and gradients."""
    args = [t.clone() for t in made]
    leaves = [t.requires_grad_() for t in args] if gradients else []
    held = [t * 1 for t in leaves] or args  # writes in place need what is no leaf
    try:
        out = f(*held)
        sums = [(t * torch.cos(torch.arange(t.numel(), dtype=t.dtype)).reshape(t.shape)).sum() for t in out if t.requires_grad]
        if sums:
            sum(sums).backward()
    except Exception as e:
        return e
    return list(out), held, shared(out, held), [t.grad for t in leaves], [t.requires_grad for t in out]


def differs(want, got):
    if want is None or got is None:
        return None if want is got or torch.all((got if want is None else want) == 0) else f"{want} became {got}"
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        return f"{want.dtype}{list(want.shape)} became {got.dtype}{list(got.shape)}"
    tol = 1e-9 if want.dtype == torch.float64 else 2e-2 if want.dtype in (torch.half, torch.bfloat16) else 2e-5
    return None if torch.allclose(want.detach().double(), got.detach().double(), tol, tol, equal_nan=True) else f"{want} became {got}"


def compare(want, got):
    """None, or how they differ."""
    if isinstance(want, NotImplementedError) or "modified by an inplace operation" in str(want):
        return None  # eager lacks a kernel of this type, or keeps results that are written, where compiled code computes them again
    if isinstance(want, Exception):
        return None if isinstance(got, Exception) else f"raises {type(want).__name__}: {str(want)[:200]}; compiled gives {got[0]}"
    if isinstance(got, Exception):
        return f"compiled raises {type(got).__name__}: {str(got)[:600]}"
    for name, a, b in (("output", want[0], got[0]), ("argument", want[1], got[1]), ("gradient", want[3], got[3])):
        for i, (x, y) in enumerate(zip(a, b)):
            if d := differs(x, y):
                return f"{name} {i}: {d}"
    if want[2] != got[2]:
        return f"shared memory {want[2]} became {got[2]}"
    return None if want[4] == got[4] else f"requires_grad {want[4]} became {got[4]}"


def difference(program):
    """None, or how compiled code differs from eager."""
    scope = {"torch": torch}
    exec(program.text, scope)
    run = functools.partial(outcome, program=program, made=program.made, gradients=program.floats)
    torch._dynamo.reset()
    want, got = run(scope["f"]), run(torch.compile(scope["f"], backend="anfora"))
    if not compare(want, got):
        return None
    torch._dynamo.reset()
    return compare(run(torch.compile(scope["f"], backend="aot_eager")), got) and compare(want, got)


def run(first, count):
    """The programs that differ, with their seeds."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)  # PyTorch's, of programs that raise
    programs = [(s, Program(s, s % 2 == 1)) for s in range(first, first + count)]
    return [f"seed {s}: {d}\n{p.arguments}\n{p.text}" for s, p in programs if (d := difference(p))]


if __name__ == "__main__":
    bad = 0
    for s in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
        for text in run(s, 1):
            bad += 1
            print(text, flush=True)
    print(f"{sys.argv[3]} programs: {bad} differ; fallbacks: {dict(at.fallbacks)}")
    sys.exit(bad > 0)
