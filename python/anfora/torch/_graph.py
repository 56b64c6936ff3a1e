# SPDX-License-Identifier: Apache-2.0
"""From a graph of ATen ops (torch.fx) to a program in Anfora's language: one assignment a node.

    add_1: f32[2, 3] = torch.ops.aten.add.Tensor(x, y, alpha=2)     becomes     n4 = n1 + f32(2) * n2

The tables in _rows*.py say what each op is. Sizes are those of one call: symbolic dims have their values by then."""
from __future__ import annotations

import functools
import linecache
import operator
import re
from typing import Any

import torch

from .._compile.source import emit_function
from .._errors import CompileError, Finding, Place
from .._function import Function

DTYPES = {
    torch.bool: "bool", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128",
}
LOW = (torch.float16, torch.bfloat16)
UNQUOTED = re.compile(r'["\\\n]')  # what a text in a program has not


AGAIN = torch.ops.higher_order.run_with_rng_state  # draws the numbers of a forward pass that is computed again
TRUTHS = {torch.ops.aten.bernoulli.p}  # draw 0 and 1, which the host gives as truth values: a backward pass keeps them
COMPUTED = {torch.ops.aten.select.int, torch.ops.aten.select_scatter.default}  # take an integer that the program computes
SCALAR = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "truediv": "{} / {}", "pow": "Power({}, {})", "neg": "Neg({})",
          "sym_float": "{}", "_sym_sqrt": "Sqrt({})", "sym_sqrt": "Sqrt({})"}


def drawing(node: Any) -> tuple:
    """(the op of a node that draws random numbers, its arguments)"""
    return (node.args[1], node.args[2:]) if node.target is AGAIN else (node.target, node.args)


# What _linalg_check_errors says of the functions with this word in their name, but for the number of the row
FAILED = (("inv", "The inversion could not be completed because the input matrix is singular."), ("solve", "The solver failed because the input matrix is singular."),
          ("cholesky", "The factorization could not be completed because the input is not positive-definite."), ("", "The factorization failed."))


class Unsupported(Exception):
    """An op, or an op with these arguments, that no row has."""


class Dims(tuple):
    """A shape, as the language writes it."""

    def __str__(self) -> str:
        return "(" + "".join(f"{d}, " for d in self) + ")"

    __repr__ = __str__


class Value(str):
    """An operand: the name or the constant that stands for it in the program, with its element type and shape."""
    dtype: torch.dtype
    shape: Dims

    def __new__(cls, text: str, dtype: torch.dtype, shape: Any) -> "Value":
        self = super().__new__(cls, text)
        self.dtype, self.shape = dtype, Dims(shape)
        return self

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return functools.reduce(operator.mul, self.shape, 1)


class Expr(Value):
    """The same of an expression: an operand only once it is bound to a name."""


def number(x: Any, dtype: torch.dtype) -> str:
    """A constant of an element type."""
    name = DTYPES[dtype]
    if dtype is torch.bool:
        return "true" if x else "false"
    if dtype.is_complex:
        x = complex(x)
        return f"{name}({_real(x.real)}, {_real(x.imag)})"
    if dtype.is_floating_point:
        return f"{name}({_real(float(x))})"
    bits = torch.iinfo(dtype).bits
    x = int(x)
    if not torch.iinfo(dtype).min <= x <= torch.iinfo(dtype).max:  # integers wrap
        x &= (1 << bits) - 1
        x -= (1 << bits) if dtype.is_signed and x >> (bits - 1) else 0
    return f"{name}({x})"


def _real(x: float) -> str:
    return "nan" if x != x else ("inf" if x > 0 else "-inf") if x in (float("inf"), -float("inf")) else repr(x)


def text_of(x: Any) -> str:
    """An attribute: numbers, booleans, texts and tuples of these."""
    if isinstance(x, Value):
        return x
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, float):
        return _real(x)
    if isinstance(x, str):
        return f'"{x}"'
    if isinstance(x, (list, tuple)):
        return "(" + "".join(text_of(v) + ", " for v in x) + ")"
    return str(x)


# ---- places ----

@functools.lru_cache(4096)
def place_of(trace: str | None) -> Place | None:
    """The line of the model's source that a node came from."""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace or "")
    if not found:
        return None
    file, line = found[-1][0], int(found[-1][1])
    text = linecache.getline(file, line).rstrip() or " "
    col = len(text) - len(text.lstrip()) + 1
    return Place(file, line, col, max(col, len(text)) + 1)


def describe(node: Any) -> str:
    """A node for messages: the op and where the model has it."""
    where = place_of(node.meta.get("stack_trace"))
    return f"{node.target}" + (f" at {where.file}:{where.line}" if where else "")


def attribute(node: Any, module: Any) -> Any:
    """What a get_attr node stands for: of the module of its own graph, which is not the outermost one in a branch or a loop."""
    value = node.graph.owning_module if node.graph.owning_module is not None else module
    for part in node.target.split("."):
        value = getattr(value, part)
    return value


def _listed(x: Any) -> Any:
    return x if isinstance(x, (list, tuple)) else [x]


# ---- sizes of a call ----

class Sizes:
    """The values of the symbols in shapes, for one call."""

    def __init__(self, values: dict) -> None:
        self.values = values

    def __call__(self, x: Any) -> Any:
        if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            known = x.node.maybe_as_int() if isinstance(x, torch.SymInt) else None
            if known is not None:
                return known
            value = x.node.expr.xreplace(self.values)
            if isinstance(x, torch.SymInt) and value.free_symbols:
                raise Unsupported("its size depends on data")
            return (int if isinstance(x, torch.SymInt) else float if isinstance(x, torch.SymFloat) else bool)(value)
        return x

    def dims(self, t: Any) -> Dims:
        return Dims(self(d) for d in t.shape)


# ---- the writer ----

class Writer:
    """Writes the program of one graph for one set of sizes.

    ``inputs``: nodes whose values the host gives, in the order of the parameters. ``outputs``: for each output of the
    graph ("node", input node), ("value", a number or None), ("number", index), one that the program computes, or ("made", index,
    shape, order), the index among the results of the program and, if memory is not to be row-major, the order of its axes. ``checked``: what tells whether
    factorizations went well: an index among the results, and the arguments of PyTorch's function that raises."""

    def __init__(self, graph: Any, attributes: Any, sizes: Sizes, keep_order: bool = True) -> None:
        self.graph, self.attributes, self.sizes, self.keep_order = graph, attributes, sizes, keep_order
        self.derived = not keep_order  # Anfora differentiates the program, and rows are written such that PyTorch's derivative comes of it
        self.env: dict = {}
        self.lines: list[str] = []
        self.inputs: list = []
        self.is_input: set = set()
        self.outputs: list = []
        self.results: list[str] = []
        self.count = 0
        self.node: Any = None
        self.out: Any = None
        self.places: list = []
        self.functions: list = []
        self.checks: list = []
        self.checked: list = []
        self.inside = 0  # of how many graphs that are operands
        self.passes: dict = {}  # of nodes in the backward pass of a torch.autograd.Function, the lines of it

    # ---- what rows use ----

    def let(self, text: str, dtype: torch.dtype, shape: Any) -> Value:
        """Binds a name to an expression."""
        if type(text) is Value and text.dtype == dtype:
            return Value(text, dtype, shape)
        return Value(self.name(text), dtype, shape)

    def cast(self, x: Any, dtype: torch.dtype) -> Value:
        """The operand in another element type; a number becomes a constant of it."""
        if not isinstance(x, Value):
            return Value(number(x, dtype), dtype, ())
        if x.dtype == dtype:
            return x
        if x.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool:
            x = self.let(f"Real({x})", torch.float32 if x.dtype is torch.complex64 else torch.float64, x.shape)
        if dtype is torch.bool:
            return self.let(f"{x} != {number(0, x.dtype)}", dtype, x.shape)
        return self.let(f"Cast({x}, dtype={DTYPES[dtype]})", dtype, x.shape)

    def fresh(self) -> str:
        """A name that nothing has."""
        self.count += 1
        return f"n{self.count - 1}"

    def name(self, text: str) -> str:
        """A new name of an expression, which later lines may bind anew."""
        name = self.fresh()
        self.lines.append((self.node, f"{name} = {text}"))
        return name

    def raw(self, text: str) -> None:
        """A line of control flow."""
        self.lines.append((None, text))

    def check(self, condition: Value, message: str) -> None:
        """A line that raises the message where the condition does not hold."""
        self.raw(f"assert({self.reshape(self.cast(condition, torch.bool), ())}, {text_of(re.sub(UNQUOTED, ' ', message))})")

    def check_all(self, condition: str, message: str) -> None:
        """The same of a condition on each element."""
        self.check(self.let(f"All({condition})", torch.bool, ()), message)

    def block(self, body: Any, args: Any, like: list) -> list:
        """Writes the lines of a graph that is an operand, called with these values; gives its results, of such types."""
        before, results = len(self.checks), []
        for n, x in zip(body.graph.find_nodes(op="placeholder"), args):
            self.env[n] = x
        for node in body.graph.nodes:
            self.node, self.inside = node, self.inside + 1
            if node.op == "output":
                results = [self._like(self.argument(x), o) for x, o in zip(_listed(node.args[0]), like)]
            elif node.op != "placeholder":
                getattr(self, node.op)(node)
            self.inside -= 1
        if len(self.checks) != before:
            raise Unsupported("a factorization in it may fail")
        return results

    def _like(self, x: Any, o: Any) -> Any:
        return None if x is None else self.broadcast(self.cast(x, o.dtype), o.shape) if not isinstance(x, Value) or not x.shape \
            else self.reshape(self.cast(x, o.dtype), o.shape)

    def function(self, f: Any, **constants: Any) -> str:
        """What a call of a function of the library is written with; parameters that are constants have these values."""
        self.functions.append((getattr(f, "__wrapped__", f), constants))
        return f"\ue004{len(self.functions) - 1}\ue005"

    def reshape(self, x: Value, shape: Any) -> Value:
        shape = Dims(shape)
        return x if x.shape == shape else self.let(f"Reshape({x}, shape={shape})", x.dtype, shape)

    def broadcast(self, x: Value, shape: Any) -> Value:
        shape = Dims(shape)
        return x if x.shape == shape else self.let(f"BroadcastTo({x}, shape={shape})", x.dtype, shape)

    def transpose(self, x: Value, axes: Any) -> Value:
        axes = [a % max(1, x.ndim) for a in axes]
        if axes == list(range(x.ndim)):
            return x
        return self.let(f"Transpose({x}, axes={Dims(axes)})", x.dtype, [x.shape[a] for a in axes])

    def slice(self, x: Value, axis: int, start: int | None, stop: int | None, step: int = 1) -> Value:
        n = x.shape[axis]
        rounds = range(*slice(start, stop, step).indices(n))
        if len(rounds) == n:
            return x
        shape = [len(rounds) if i == axis else d for i, d in enumerate(x.shape)]
        return self.let(f"Slice({x}, start={rounds.start}, stop={rounds.stop}, step={step}, axis={axis})", x.dtype, shape)

    def uses(self, i: int) -> bool:
        """Is output i of the node read?"""
        return any(u.op == "output" or u.target is not operator.getitem or u.args[1] == i for u in self.node.users)

    def positions(self, shape: Any, strides: Any, start: int) -> Value:
        """start + the sum of each index times its stride, for all elements of a shape."""
        parts = [str(start)]
        for k, (n, s) in enumerate(zip(shape, strides)):
            line = Dims(n if i == k else 1 for i in range(len(shape)))
            parts.append(f"Reshape(Arange(0, {n}, dtype=i64), shape={line}) * {s}")
        return self.let(f"BroadcastTo({' + '.join(parts)}, shape={Dims(shape)})" if len(shape) else f"i64({start})", torch.int64, shape)

    @staticmethod
    def reads_memory_of(node: Any) -> bool:
        """Does the node give a part of another tensor's memory?"""
        return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and \
            node.target._schema.name not in ("aten::view", "aten::detach", "aten::alias", "aten::unsqueeze", "aten::squeeze")

    # ---- values ----

    def spec(self, meta: Any) -> Any:
        """What is known of a result: a Value without a name, or a list of them; numbers as they are in this call."""
        if isinstance(meta, torch.Tensor):
            if meta.dtype not in DTYPES:
                raise Unsupported(f"element type {meta.dtype}")
            return Value("", meta.dtype, self.sizes.dims(meta))
        if isinstance(meta, (list, tuple)):
            return [self.spec(m) for m in meta]
        return self.sizes(meta)

    def argument(self, a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            if self.env[a] is None and a.meta.get("val") is not None:
                raise Unsupported(f"its operand {a} is not made here")
            return self.env[a]
        if isinstance(a, (list, tuple)):
            return [self.argument(x) for x in a]
        if isinstance(a, slice):
            return slice(*map(self.argument, (a.start, a.stop, a.step)))
        return self.sizes(a)

    # ---- nodes ----

    def run(self) -> None:
        lines = self.lines
        for node in self.graph.nodes:
            self.node = node
            self.lines = lines if node.target is torch.ops.anfora.with_backward.default else self.passes.get(node, lines)
            try:
                getattr(self, node.op)(node)
            except Unsupported as e:
                place = place_of(node.meta.get("stack_trace"))
                at = (place.file, place.line, place.col) if place else ()
                raise CompileError([Finding("", f"{node.target} is not supported: {e}", *at)], "ANF_UNSUPPORTED") from None

    def run_all(self) -> dict:
        """Writes what can be written; gives the nodes that cannot, and why."""
        refused = {}
        for node in self.graph.nodes:
            self.node = node
            try:
                getattr(self, node.op)(node)
            except Unsupported as e:
                refused[node] = str(e)
                try:
                    self.env[node] = self._unnamed(self.spec(node.meta.get("val")))
                except Unsupported:
                    self.env[node] = None
        return refused

    def _unnamed(self, out: Any) -> Any:
        return [self._unnamed(o) for o in out] if isinstance(out, list) else out

    def given(self, node: Any) -> None:
        """A value that the host gives."""
        self.out = self.spec(node.meta["val"])
        name = f"a{len(self.inputs)}"
        self.inputs.append(node)
        self.is_input.add(node)
        self.env[node] = Value(name, self.out.dtype, self.out.shape) if drawing(node)[0] not in TRUTHS else \
            self.cast(Value(name, torch.bool, self.out.shape), self.out.dtype)

    def placeholder(self, node: Any) -> None:
        meta = node.meta["val"]
        if node.users and all(u.target is torch.ops.higher_order.with_effects and u.args[0] is node for u in node.users):
            self.env[node] = None  # stands for an order of effects, and is None when the graph runs
        elif isinstance(meta, torch.Tensor):
            self.given(node)
        else:
            self.env[node] = self.sizes(meta)

    def get_attr(self, node: Any) -> None:
        value = attribute(node, self.attributes)
        if isinstance(value, torch.fx.GraphModule):
            self.env[node] = value
        else:
            self.given(node)

    def call_function(self, node: Any) -> None:
        from ._table import RANDOM, refuse_types, row_of
        if node.target is operator.getitem:
            if self.env[node.args[0]] is None:
                raise Unsupported(f"its operand {node.args[0]} is not made here")
            self.env[node] = self.env[node.args[0]][node.args[1]]
        elif node.target in RANDOM or node.target is AGAIN and node.args[1] in RANDOM and node.args[0].op == "placeholder":
            if self.inside:
                raise Unsupported(f"it draws random numbers ({node.target}) in a branch or a loop")
            self.given(node)
        elif node.target is torch.ops.aten._local_scalar_dense.default:
            x = self.env[node.args[0]]
            of = torch.float64 if x.dtype.is_floating_point else torch.bool if x.dtype is torch.bool else torch.int64
            self.env[node] = self.reshape(self.cast(x, of), ())
        elif node.target is torch.ops.higher_order.with_effects and node.args[1] is torch.ops.aten._linalg_check_errors.default:
            self.checks.append((self.env[node.args[2]], node.args[3:], node.kwargs))
            self.env[node] = [None]
        elif node.target is torch.ops.aten._assert_async.msg:
            self.check(self.argument(node.args[0]), node.args[1])
            self.env[node] = None
        elif node.target is torch.ops.aten._linalg_check_errors.default:  # of a step, which raises by itself
            info, name = self.env[node.args[0]], node.args[1]
            self.check(self.let(f"All({info} == i32(0))", torch.bool, ()), f"{name}: {next(text for word, text in FAILED if word in name)}")
            self.env[node] = None
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            self.env[node] = self._controlled(node)
        elif not isinstance(node.target, torch._ops.OpOverload) and any(isinstance(self.env.get(a), Value) for a in node.all_input_nodes):
            self.env[node] = self._scalar(node)
        elif not isinstance(node.target, torch._ops.OpOverload):
            self.env[node] = node.target(*self.argument(node.args), **{k: self.argument(v) for k, v in node.kwargs.items()})
        else:
            row = row_of(node.target)
            if row is None and torch.Tag.nondeterministic_seeded in node.target.tags:
                raise Unsupported("it draws random numbers by values that the program computes")
            if row is None or "val" not in node.meta:
                raise Unsupported("no row has it")
            self.out = self.spec(node.meta["val"])
            given = self.bound(node)
            refuse_types(node.target._schema.name.split("::")[1], given)
            self._check_fits(given)
            self.env[node] = self._result(row(self, **given), self.out)

    def _check_fits(self, given: dict) -> None:
        """Numbers that become elements: one that an integer type does not hold is for PyTorch to refuse. Those of arithmetic wrap."""
        out = self.out.dtype if isinstance(self.out, Value) else torch.bool
        if out.is_floating_point or out.is_complex or out is torch.bool:
            return
        most = torch.iinfo(out).max
        for x in (given.get(name) for name in ("fill_value", "s", "value")):
            if isinstance(x, (int, float)) and not (-most - 1 if out.is_signed else -most) <= x <= most:
                raise Unsupported(f"{x} is no {DTYPES[out]}")

    def _controlled(self, node: Any) -> Any:
        """Control flow, with all that it holds, or nothing of it."""
        from ._control import CONTROL
        write, kept = CONTROL.get(node.target.__name__), len(self.lines)
        if write is None or "val" not in node.meta:
            raise Unsupported("no row has it")
        inside = self.inside
        try:
            return write(self, *self.argument(node.args), **{k: self.argument(v) for k, v in node.kwargs.items()})
        except Unsupported:
            del self.lines[kept:]
            raise
        finally:
            self.node, self.inside = node, inside

    def _scalar(self, node: Any) -> Value:
        """Arithmetic on numbers that the program computes: step_t.item() and what follows from it."""
        template = SCALAR.get(getattr(node.target, "__name__", ""))
        if template is None:
            raise Unsupported("it computes a number of a tensor's elements")
        args = [self.cast(self.argument(a), torch.float64) for a in node.args]
        return self.let(template.format(*args), torch.float64, ())

    def bound(self, node: Any) -> dict:
        """The arguments by the names that the schema has for them."""
        schema = node.target._schema.arguments
        values = {}
        for i, a in enumerate(schema):
            x = node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
            values["self_" if a.name == "self" else a.name] = self.argument(x)
            if "int" in str(a.type) and node.target not in COMPUTED and any(isinstance(v, Value) for v in _listed(values.get(a.name))):
                raise Unsupported(f"{a.name} is a number that the program computes")
        return values

    def _result(self, r: Any, out: Any) -> Any:
        if isinstance(out, list):
            return [self._result(x, o) if x is not None else None for x, o in zip(r, out)]
        if not isinstance(out, Value):
            return out if r is None else r
        shaped = isinstance(r, Value)
        if isinstance(r, Expr):
            r = self.let(r, r.dtype, r.shape)
        if shaped and r.shape != out.shape:
            r = self.reshape(r, out.shape)
        if shaped and r.dtype != out.dtype:
            r = self.cast(r, out.dtype)
        return self.let(r, out.dtype, out.shape)

    # ---- results ----

    def output(self, node: Any) -> None:
        made: dict = {}
        for x in _listed(node.args[0]):
            if not isinstance(x, torch.fx.Node):
                self.outputs.append(("value", self.sizes(x)))
            elif x in self.is_input:
                self.outputs.append(("node", x))
            elif not isinstance(self.env[x], Value):
                self.outputs.append(("value", self.env[x]))
            else:
                if x not in made:
                    made[x] = self._made(self.env[x], x.meta["val"])
                self.outputs.append(made[x])
        for v, args, kwargs in self.checks:
            self.results.append(v if v.ndim else self.reshape(v, (1,)))
            self.checked.append((len(self.results) - 1, v.shape, args, kwargs))

    def _made(self, v: Value, meta: Any) -> tuple:
        if not isinstance(meta, torch.Tensor):  # a number, which PyTorch goes on with
            self.results.append(self.reshape(v, (1,)))
            return "number", len(self.results) - 1
        order = self._order(meta) if self.keep_order else None
        shape = v.shape
        if order is not None:
            v = self.transpose(v, order)
        if not v.ndim:
            v = self.reshape(v, (1,))
        self.results.append(v)
        return "made", len(self.results) - 1, shape, order and [order.index(i) for i in range(len(order))]

    def _order(self, meta: Any) -> list[int] | None:
        """The axes from the outermost in memory to the innermost, if that is not their own order."""
        if meta.layout is not torch.strided or meta.is_contiguous():
            return None
        strides, dims = [self.sizes(s) for s in meta.stride()], self.sizes.dims(meta)
        order = sorted(range(len(dims)), key=lambda i: (-strides[i], -dims[i]))
        step = 1
        for i in reversed(order):
            if dims[i] != 1 and strides[i] != step:
                return None  # not dense
            step *= max(1, dims[i])
        return order if order != sorted(order) else None

    # ---- the text ----

    def write(self, b: Any, name: str) -> str:
        parts = [f"def {name}({', '.join(f'a{i}' for i in range(len(self.inputs)))}) {{\n"]
        for node, line in self.lines:
            if node is None:
                parts.append(f"  {line}\n")
                continue
            place = place_of(node.meta.get("stack_trace"))
            left, right = line.split(" = ", 1)
            right = re.sub("\ue004(\\d+)\ue005", lambda m: emit_function(b, *self.functions[int(m[1])]), right)
            parts.append(f"  {left} = {b.mark(place) if place else ''}{right}\n")
        parts.append(f"  ({''.join(r + ', ' for r in self.results)})\n}}\n")
        return "".join(parts)


class Traced(Function):
    """The compiled function of one graph for one set of sizes; takes and gives tensors without names."""

    def __init__(self, name: str, writer: Writer, **options: Any) -> None:
        super().__init__(name, len(writer.inputs), **options)
        self.writer = writer

    def _root(self, b: Any, statics: dict, shapes: list) -> tuple[str, list[str]]:
        root = b.unit(self, self.__name__, lambda u: self.writer.write(b, f"\ue001{u.number}\ue002"))
        return root, [f"a{i}" for i in range(len(self.writer.inputs))]
