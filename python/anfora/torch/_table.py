# SPDX-License-Identifier: Apache-2.0
"""ATen ops and what each is in Anfora's language: one row an op, or one for an overload of it ("sum.dim_IntList").

A row is a template, in which {name} is the argument that ATen's schema calls so, {self} among them, or a function
f(g, **arguments) that gives text; g is the Writer. Three tables of templates differ in what they do with operands:

    POINTWISE  operands are cast to the element type of the result, numbers are constants of it
    COMPARE    operands are cast to the type that torch.result_type tells
    PLAIN      operands stay as they are; {out} is the result: {out.shape}, {out.dtype}

Ops without a row are taken apart by PyTorch's own decompositions."""
from __future__ import annotations

import functools
import re
from typing import Any, Callable

import torch

from ._graph import DTYPES, Dims, Expr, LOW, Unsupported, Value, number, text_of

aten, prims = torch.ops.aten, torch.ops.prims

# ---- what eager refuses of types ----

ONE_TYPE = {  # operands of one element type
    "mm": "self mat2", "mv": "self vec", "dot": "self tensor", "vdot": "self other", "bmm": "self mat2", "linear": "input weight bias",
    **dict.fromkeys(["addmm", "baddbmm", "addbmm", "addmv"], "self mat1 mat2 batch1 batch2 mat vec"), "convolution": "input weight bias",
    **dict.fromkeys(["index_put", "_unsafe_index_put"], "self values"), "index_add": "self source", "index_copy": "self source",
    "linalg_cross": "self other", "complex": "real imag",
}
NORMS = dict.fromkeys(["native_layer_norm", "native_group_norm", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training"],
                      "weight bias running_mean running_var")  # are of the input's type, or of f32 beside bf16 and f16
NO_INTEGERS = {"_softmax", "_log_softmax", "log_sigmoid", "lerp", "hypot", "var", "var_mean", "_native_batch_norm_legit_functional", "huber_loss", "_prelu_kernel"}


def refuse_types(name: str, given: dict) -> None:
    """Raises where eager has no kernel for the types of the operands, by their names in the schema: PyTorch then says what it says."""
    types = {k.rstrip("_"): v.dtype for k, v in given.items() if isinstance(v, Value)}
    of = {types[k] for k in ONE_TYPE.get(name, "").split() if k in types}
    beside = {types[k] for k in NORMS.get(name, "").split() if k in types}
    first = types.get("input", types.get("self"))
    wrong = len(of) > 1 or beside and beside != {first} and not (first in LOW and beside == {torch.float32})
    if wrong or name in NO_INTEGERS and first is not None and not (first.is_floating_point or first.is_complex):
        raise Unsupported(f"eager has no {name} of {', '.join(DTYPES[t] for t in types.values())}")
    if any(k in ("index", "indices") and t.is_floating_point for k, t in types.items()):
        raise Unsupported("its index is not of integers")


POINTWISE = {
    # of one operand
    "acos": "Acos({self})", "acosh": "Acosh({self})", "asin": "Asin({self})", "asinh": "Asinh({self})", "atan": "Atan({self})",
    "atanh": "Atanh({self})", "ceil": "Ceil({self})", "cos": "Cos({self})", "cosh": "Cosh({self})", "digamma": "Digamma({self})",
    "erf": "Erf({self})", "erfc": "Erfc({self})", "exp": "Exp({self})", "exp2": "Exp2({self})", "expm1": "Expm1({self})",
    "floor": "Floor({self})", "lgamma": "Lgamma({self})", "log": "Log({self})", "log10": "Log10({self})", "log1p": "Log1p({self})",
    "log2": "Log2({self})", "neg": "Neg({self})", "reciprocal": "Reciprocal({self})", "relu": "Relu({self})", "round.default": "Round({self})",
    "rsqrt": "Rsqrt({self})", "sigmoid": "Sigmoid({self})", "silu": "Silu({self})",
    "sin": "Sin({self})", "sinh": "Sinh({self})", "sqrt": "Sqrt({self})", "square": "Square({self})", "tan": "Tan({self})",
    "tanh": "Tanh({self})", "trunc": "Trunc({self})", "bitwise_not": "BitNot({self})", "conj_physical": "Conj({self})",
    "_conj": "Conj({self})", "_conj_physical": "Conj({self})", "fill": "BroadcastTo({value}, shape={out.shape})", "special_erfcx": "Exp(Square({self})) * Erfc({self})",
    # of several
    "mul": "{self} * {other}", "div.Tensor": "{self} / {other}", "div.Scalar": "{self} / {other}", "true_divide": "{self} / {other}",
    "atan2": "Atan2({self}, {other})", "bitwise_and": "BitAnd({self}, {other})", "bitwise_or": "BitOr({self}, {other})",
    "bitwise_xor": "BitXor({self}, {other})", "bitwise_left_shift": "ShiftLeft({self}, {other})",
    "bitwise_right_shift": "ShiftRight({self}, {other})", "__lshift__": "ShiftLeft({self}, {other})",
    "__rshift__": "ShiftRight({self}, {other})", "copysign": "Copysign({self}, {other})", "fmod": "Fmod({self}, {other})",
    "remainder": "Mod({self}, {other})", "floor_divide": "FloorDiv({self}, {other})", "hypot": "Hypot({self}, {other})",
    "add": "{self} + {other}", "sub": "{self} - {other}", "rsub": "{other} - {self}",
    "threshold": "Where({self} <= {threshold}, {value}, {self})",
    "addcmul": "{self} + {value} * {tensor1} * {tensor2}", "addcdiv": "{self} + {value} * ({tensor1} / {tensor2})",
    "leaky_relu": "Where({self} > 0, {self}, {self} * {negative_slope})",
    "mish": "Mish({self})", "hardsigmoid": "HardSigmoid({self})",     "log_sigmoid": "LogSigmoid({self})",
    "prims.fma": "Fma({a}, {b}, {c})",
}
# Those of the same name mean the same, but for div of integers
POINTWISE |= {f"prims.{n}": POINTWISE[k] for k in POINTWISE for n in [k.split(".")[0]] if hasattr(prims, n) and n != "div" and "." not in k.replace(".default", "")}
COMPARE = {
    "eq": "{self} == {other}", "ne": "{self} != {other}", "lt": "{self} < {other}", "le": "{self} <= {other}",
    "gt": "{self} > {other}", "ge": "{self} >= {other}", "isnan": "{self} != {self}",
    "isinf": "IsInf({self})", "isfinite": "IsFinite({self})", "logical_and": "LogicalAnd({self}, {other})",
    "logical_or": "LogicalOr({self}, {other})", "logical_xor": "LogicalXor({self}, {other})", "logical_not": "LogicalNot({self})",
}
PLAIN = {
    # the same elements in another shape
    **dict.fromkeys(["view.default", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "_reshape_alias", "flatten"], "Reshape({self}, shape={out.shape})"),
    **dict.fromkeys(["clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "contiguous", "lift", "resolve_conj", "resolve_neg",
                     "view_as_real_copy", "_to_copy", "positive"], "{self}"),
    "anfora.stop_gradient": "StopGradient({self})",
    "expand": "BroadcastTo({self}, shape={out.shape})",
    # made of nothing
    **dict.fromkeys(["zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided",
                     "empty_permuted", "_efficientzerotensor"], "Zeros(shape={out.shape}, dtype={out.type})"),
    **dict.fromkeys(["ones", "ones_like", "new_ones"], "Ones(shape={out.shape}, dtype={out.type})"),
    "eye": "Eye({n}, m={out.shape[1]}, dtype={out.type})",
    # products
    "mm": "{self} @ {mat2}", "mv": "{self} @ {vec}", "dot": "{self} @ {tensor}", "vdot": "Conj({self}) @ {other}",
    "_is_all_true": "All({self})", "_is_any_true": "Any({self})",
    # linear algebra
    "inverse": "Inverse({self})",
    # parts
    "tril": "Tril({self}, k={diagonal})", "triu": "Triu({self}, k={diagonal})",
}
# What the host gives: nothing in a program decides them but the generator's state, so eager's numbers are met
RANDOM = {getattr(getattr(aten, name), o) for name in (
    "bernoulli.p rand.default rand.generator randn.default randn.generator randint.default randint.low randint.generator "
    "randint.low_generator rand_like.default randn_like.default randint_like.default randint_like.low_dtype randperm.default "
    "uniform.default normal_functional.default normal.float_float exponential.default geometric.default cauchy.default "
    "log_normal.default random.default random.from random.to").split()
    for name, o in [name.split(".")] if hasattr(aten, name) and hasattr(getattr(aten, name), o)} | {torch.get_rng_state}

ROWS: dict[str, Callable] = {}
Row = Callable[..., Any]


def row(*names: str) -> Callable[[Row], Row]:
    """The function is the row of these ops."""
    def add(f: Row) -> Row:
        for n in names:
            assert n not in ROWS, n
            ROWS[n] = f
        return f
    return add


class Output:
    """{out} of a template."""

    def __init__(self, out: Value) -> None:
        self.shape, self.dtype, self.type, self.ndim = out.shape, out.dtype, DTYPES.get(out.dtype), out.ndim


# Arguments that say nothing about values, or what the traced result says too
SILENT = set("""alpha dtype layout device pin_memory memory_format non_blocking implicit size shape m padding_idx scale_grad_by_freq
    sparse dim copy physical_layout stride start_dim end_dim""".split())


def checked(target: Any, template: str, row: Row) -> Row | None:
    """The row, if its template reads each argument of the overload."""
    read = set(re.findall(r"\{(\w+)", template))
    missing = {a.name for a in target._schema.arguments} - read - SILENT
    return None if missing else row


def _fill(template: str, values: dict) -> str:
    return template.replace("{self", "{self_").format_map(values)


def pointwise(template: str) -> Row:
    """A row whose operands are cast to the element type of the result."""
    def write(g: Any, **args: Any) -> Any:
        out, numbers = g.out, [x for x in args.values() if isinstance(x, (int, float, complex)) and not isinstance(x, bool)]
        several = "{tensor1}" in template or any(x not in (0, 1) for x in numbers)
        low = out.dtype in LOW and several  # PyTorch rounds the result, not the number nor the product
        dtype = torch.float32 if low else out.dtype
        alpha = args.pop("alpha", 1)
        if isinstance(alpha, Value) or alpha != 1:
            name = "self_" if "rsub" in str(g.node.target) else "other"
            args[name] = g.let(f"{g.cast(alpha, dtype)} * {g.cast(args[name], dtype)}", dtype, getattr(args[name], "shape", ()))
        values = {k: g.cast(v, dtype) if isinstance(v, (Value, int, float, complex)) else v for k, v in args.items()}
        return Expr(_shaped(_fill(template, {**values, "out": Output(out)}), values, out), dtype, out.shape)
    return write


def _shaped(text: str, values: dict, out: Value) -> str:
    """What broadcasting numbers alone would not bring to the shape of the result."""
    return text if any(isinstance(v, Value) and v.shape == out.shape for v in values.values()) or len(values) > 1 \
        else f"BroadcastTo({text}, shape={out.shape})"


def compare(template: str) -> Row:
    """A row whose operands are cast to the type that they promote to."""
    def write(g: Any, **args: Any) -> Any:
        metas = [a.meta["val"] if isinstance(a, torch.fx.Node) else g.sizes(a) for a in g.node.args]
        dtype = torch.result_type(*metas) if len(metas) == 2 else metas[0].dtype
        values = {k: g.cast(v, dtype) for k, v in args.items()}
        if not dtype.is_floating_point and not dtype.is_complex and "Is" in template:
            return g.broadcast(Value("true" if "Finite" in template else "false", torch.bool, ()), g.out.shape)
        return Expr(_fill(template, values), torch.bool, g.out.shape)
    return write


def plain(template: str) -> Row:
    """A row whose operands stay as they are."""
    def write(g: Any, **args: Any) -> Any:
        out = g.out
        tensors = [x for x in args.values() if isinstance(x, Value)]
        values: dict = {k: text_of(v) for k, v in args.items()}
        text = _fill(template, {**values, "out": Output(out)})
        return Expr(text, tensors[0].dtype if tensors and "dtype=" not in template else out.dtype, out.shape)
    return write


@functools.cache
def row_of(target: Any) -> Row | None:
    """The row of an overload, or None."""
    from . import _known, _rows_index, _rows_kinks, _rows_linalg, _rows_nn, _rows_shape, _rows_special  # noqa: F401: they fill ROWS
    namespace, name = target.namespace, target._schema.name.split("::")[1]
    overload = target._overloadname
    if namespace not in ("aten", "prims", "anfora"):
        return None
    prefix = "" if namespace == "aten" else f"{namespace}."
    for key in (f"{prefix}{name}.{overload}", prefix + name):
        for table, kind in ((ROWS, None), (POINTWISE, pointwise), (COMPARE, compare), (PLAIN, plain)):
            if key in table:
                return table[key] if kind is None else checked(target, table[key], kind(table[key]))
    return None


def has_row(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable and \
        not target._overloadname.endswith("out") and row_of(target) is not None
