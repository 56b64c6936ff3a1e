#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs of ONNX beside ONNX Runtime: random_graphs.py FOLDER SEED COUNT [interp], FOLDER with the Python package.

    x: f32[N, 3] -> Pad(reflect) -> If(sum > 0, Conv, Identity) -> ReduceL2(axes=[-1])

Nodes, types and attributes come from the format's own schemas, so that each operator comes in each form; a node that ONNX Runtime refuses is
drawn again. Branches, loops and scans hold nodes of their own. Values are some roundings apart, types and shapes are equal; where ours and
ONNX Runtime's differ, the reference of the onnx package decides, or nobody does if it agrees with neither. Prints the graphs that differ and
what is refused; the status says whether any value is wrong."""
import collections
import os
import pickle
import random
import sys
import tempfile
import warnings

os.environ.setdefault("ANFORA_CACHE", "off")
sys.path.insert(0, sys.argv[1])
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import anfora  # noqa: E402

FLOATS, INTS = ["float", "double", "float16"], ["int64", "int32", "uint8", "int8", "int16", "uint32", "uint64", "uint16"]
TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_} | {i: np.dtype(i).type for i in INTS}
SHAPES = [(), (1,), (3,), (4,), (2, 3), (3, 4), (1, 4), (3, 1), (2, 3, 4), (1, 3, 4), (2, 4, 3, 3), (1, 4, 5, 6), (2, 2, 3, 4, 3), (0, 3), (2, 0)]
LEFT_OUT = {"If", "Loop", "Scan", "ImageDecoder", "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
            "RandomUniformLike", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "SequenceMap", "Optional",
            "OptionalGetElement", "OptionalHasElement", "Dropout", "Scatter", "Upsample", "BitCast"}
OFTEN = ["Add", "Mul", "Sub", "Div", "MatMul", "Gemm", "Conv", "Relu", "Reshape", "Transpose", "Slice", "Concat", "Gather", "Where", "Softmax", "ReduceSum",
         "ReduceMean", "Cast", "Expand", "Unsqueeze", "Squeeze", "Split", "Shape", "Pad", "LayerNormalization", "BatchNormalization", "MaxPool",
         "AveragePool", "QuantizeLinear", "DequantizeLinear", "Resize", "Clip", "Pow", "Sqrt", "Erf", "Tile", "TopK", "GatherElements", "ScatterND"]
STRINGS = {"mode": ["constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "bilinear", "avg", "max", "DCR", "CRD"], "padding_mode": ["zeros", "border", "reflection"],
           "auto_pad": ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"], "reduction": ["none", "add", "mul", "max", "min"],
           "direction": ["LEFT", "RIGHT", "forward", "reverse", "bidirectional"], "approximate": ["none", "tanh"], "nearest_mode": ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"],
           "coordinate_transformation_mode": ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "output_half_pixel"],
           "equation": ["ij,jk->ik", "bij,bjk->bik", "ii->i", "ij->ji", "i,j->ij", "...ij,...jk->...ik", "ij->", "bhwc,bkc->bhwk"], "keep_aspect_ratio_policy": ["stretch", "not_larger", "not_smaller"]}
SMALL = {"axis": (-3, 3), "keepdims": (0, 1), "noop_with_empty_axes": (0, 1), "group": (1, 2), "hidden_size": (2, 3), "k": (-1, 2), "upper": (0, 1), "batch_dims": (0, 1),
         "num_outputs": (1, 3), "block_size": (2, 2), "blocksize": (2, 2), "num_groups": (1, 4), "size": (1, 4), "p": (1, 3), "start": (-2, 2), "end": (-1, 3), "allowzero": (0, 1),
         "q_num_heads": (1, 4), "kv_num_heads": (1, 2), "num_heads": (1, 2), "output_height": (1, 3), "output_width": (1, 3), "sampling_ratio": (0, 2), "ignore_index": (-1, 2), "stash_type": (1, 1)}
PER_DIM = {"kernel_shape": (1, 3), "strides": (1, 2), "dilations": (1, 2), "output_padding": (0, 1)}
SIZES = {"axes": (-2, 2), "shape": (-1, 4), "starts": (-3, 3), "ends": (-4, 5), "steps": (-2, 2), "pads": (0, 2), "split": (1, 2), "repeats": (0, 2), "k": (0, 3), "K": (0, 3),
         "sizes": (1, 6), "axis": (-2, 2), "depth": (1, 5), "indices": (-2, 2), "size": (2, 6), "limit": (0, 6), "delta": (1, 2), "start": (0, 3), "sequence_lens": (1, 3),
         "dft_length": (2, 5), "frame_step": (1, 2), "frame_length": (2, 4), "batch_indices": (0, 1), "position": (0, 0), "tensor": (0, 4), "target": (0, 2), "output_shape": (1, 6),
         "image_shape": (3, 6), "block_shape": (1, 2), "position_ids": (0, 2), "write_indices": (0, 1), "nonpad_kv_seqlen": (1, 3), "max_output_boxes_per_class": (0, 3)}
SCALARS = {"axis", "k", "depth", "limit", "delta", "start", "dft_length", "frame_step", "frame_length", "position", "training_mode", "ratio", "min", "max", "size",
           "max_output_boxes_per_class", "iou_threshold", "score_threshold", "constant_value"}
PLAIN = onnxruntime.SessionOptions()
PLAIN.graph_optimization_level, PLAIN.log_severity_level, PLAIN.intra_op_num_threads = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 4, 1


def kind_of(x): return helper.np_dtype_to_tensor_dtype(x.dtype)


class Graph:
    """Draws nodes over values that are known, so that what comes next fits."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.opset = self.r.choice([11, 13, 13, 14, 16, 17, 18, 18, 19, 20, 21, 22, 23])
        self.ops = [s.name for s in onnx.defs.get_all_schemas() if not s.domain and s.name not in LEFT_OUT and not s.deprecated]
        self.values, self.inputs, self.constants, self.count = {}, {}, {}, 0
        self.floats = self.r.choice(["float", "float", "float", "double", "float16"] if self.r.random() < 0.3 else ["float"])

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def tensor(self, kind, shape):
        """Numbers of every sign, some of them equal."""
        if kind == "bool":
            return self.rng.random(shape) < 0.5
        if kind in FLOATS:
            x = self.rng.normal(size=shape) * 2
            return np.asarray(np.where(self.rng.random(shape) < 0.2, np.round(x), x), TYPES[kind])
        return np.asarray(self.rng.integers(0 if kind[0] == "u" else -4, 6, size=shape), TYPES[kind])

    def add(self, x, input_=False):
        name = self.name()
        (self.inputs if input_ else self.constants)[name] = self.values[name] = x
        return name

    def operand(self, what, kind, scope, like):
        """A value for an input that the schema calls `what`."""
        r = self.r
        if what in SIZES and kind in ("int64", "int32") and (what not in ("indices", "tensor", "target") or r.random() < 0.7):
            rank = like.ndim if like is not None else 2
            if what in ("shape", "sizes", "output_shape") and like is not None and like.size and r.random() < 0.6:
                dims = r.sample(like.shape, rank)
                return self.add(np.array(dims if r.random() < 0.5 else [dims[0], -1] if rank > 1 else [-1], TYPES[kind]))
            n = {"pads": 2 * rank, "repeats": rank}.get(what, r.randrange(1, max(rank, 1) + 1))
            shape = () if what in SCALARS and r.random() < 0.8 else (1,) if what in SCALARS else r.choice(SHAPES[1:8]) if what in ("indices", "tensor", "target") else (n,)
            low, high = SIZES[what]
            if what == "axes" and rank:
                return self.add(np.array([i - rank * r.randint(0, 1) for i in r.sample(range(rank), n)], TYPES[kind]))
            return self.add(np.asarray(self.rng.integers(low, high + 1, size=shape), TYPES[kind]), r.random() < 0.1)
        if what in ("scales", "roi") and kind == "float" and like is not None:
            return self.add(np.array([r.choice([0.5, 1, 1, 1.5, 2]) for _ in like.shape], np.float32)) if what == "scales" else ""
        if what.endswith("scale") and kind in FLOATS:
            shape = (like.shape[r.randrange(like.ndim)],) if like is not None and like.ndim and r.random() < 0.4 else ()
            return self.add(np.asarray(self.rng.uniform(0.02, 0.5, size=shape), TYPES[kind]))
        if what == "input_var" or what == "var":
            return self.add(np.asarray(self.rng.uniform(0.5, 2, size=(like.shape[1] if like.ndim > 1 else 1,)), TYPES[kind]))
        fitting = [n for n in scope if self.values[n].dtype == TYPES[kind]]
        if fitting and r.random() < 0.75:
            return r.choice(fitting[-6:])
        shape = () if what in SCALARS else r.choice(SHAPES)
        if like is not None and like.ndim:
            c = like.shape[1] if like.ndim > 1 else like.shape[0]
            weight = (r.choice([2, 4]), r.choice([c, max(c // 2, 1)]), *[r.randrange(1, 4) for _ in like.shape[2:]])
            shape = r.choice([like.shape, like.shape[-1:], (like.shape[-1], 4), weight, (c,), (1,) * like.ndim, shape, like.shape[:-2] + like.shape[-2:][::-1]])
        return self.add(self.tensor(kind, shape), r.random() < 0.3)

    def attribute(self, a, rank):
        r, kind = self.r, a.type.name
        if a.name in PER_DIM:
            return [r.randint(*PER_DIM[a.name]) for _ in range(max(rank - 2, 1))]
        if a.name == "pads":
            return [r.randint(0, 1) for _ in range(2 * max(rank - 2, 1))]
        if a.name == "perm":
            return r.sample(range(rank), rank)
        if a.name == "axes":
            return [i - rank * r.randint(0, 1) for i in r.sample(range(rank), r.randint(1, rank))] if rank else None
        if a.name in ("to", "dtype", "output_dtype"):
            return r.choice([1, 1, 11, 7, 6, 2, 3, 9, 10])
        if kind == "STRING":
            return r.choice(STRINGS[a.name]) if a.name in STRINGS else None
        if kind == "INT":
            return r.randint(*SMALL.get(a.name, (0, 1)))
        if kind == "FLOAT":
            return r.choice([0.0, 1.0, 0.5, 2.0, -1.0, 0.01])
        if kind == "TENSOR":
            return numpy_helper.from_array(self.tensor(r.choice(["float", "int64", "int32"]), (1,)))
        return None

    def node(self, scope):
        """A node and its results' values, or None where it does not fit."""
        r = self.r
        op = r.choice(OFTEN if r.random() < 0.5 else self.ops)
        try:
            schema = onnx.defs.get_schema(op, self.opset, "")
        except onnx.defs.SchemaError:
            return None
        kinds, inputs, like, before = {}, [], None, set(self.values)
        for i, p in enumerate(schema.inputs):
            option = p.option.name
            if option == "Optional" and r.random() < (0.5 if i < 3 else 0.75):
                inputs.append("")
                continue
            for _ in range(r.randrange(1, 4) if option == "Variadic" else 1):
                allowed = [t[7:-1] for t in sorted(p.types) if t.startswith("tensor(") and t[7:-1] in TYPES]
                if not allowed:
                    return None
                first = [k for k in (self.floats, "int64", "bool", self.floats) if k in allowed]
                kind = kinds.setdefault(p.type_str, r.choice(first if first and r.random() < 0.8 else allowed))
                inputs.append(self.operand(p.name, kind, scope, like))
                like = self.values[inputs[-1]] if like is None and inputs[-1] else like
        while inputs and not inputs[-1]:
            inputs.pop()
        rank = like.ndim if like is not None else 2
        attributes = {}
        for a in schema.attributes.values():
            if a.required or op == "MeanVarianceNormalization" or (r.random() < 0.5 and (op != "Constant" or not attributes)):
                v = self.attribute(a, rank)
                if v is not None:
                    attributes[a.name] = v
        outputs = sum(1 for o in schema.outputs if o.option.name != "Optional" or r.random() < 0.3) or 1
        if schema.outputs[0].option.name == "Variadic":
            outputs = attributes.get("num_outputs", r.randrange(1, 4))
        node = helper.make_node(op, inputs, [self.name() for _ in range(outputs)], **attributes)
        return node if self.try_([node], before) and not self.undefined(node) else None

    def undefined(self, node):
        """Whether a number is one that the type of a result does not hold, of which the format says nothing."""
        if node.op_type not in ("Cast", "CastLike", "Pow") or self.values[node.output[0]].dtype.kind not in "iu":
            return False
        with np.errstate(all="ignore"):
            x, to = self.values[node.input[0]], np.iinfo(self.values[node.output[0]].dtype)
            x = x if node.op_type != "Pow" else x.astype(float) ** self.values[node.input[1]]
        return x.dtype.kind == "f" and not np.all((x > to.min) & (x < to.max))

    def try_(self, nodes, before):
        """Whether ONNX Runtime runs them with what is known; keeps what they give, else forgets what was made for them."""
        used = list(dict.fromkeys(i for n in nodes for i in self.read(n)))
        made = [o for n in nodes[-1:] for o in n.output]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = self.run(nodes, used, made, {}, self.values)
            if any(not isinstance(y, np.ndarray) or y.size > 4000 or y.dtype.type not in TYPES.values() for y in got):
                raise ValueError("no tensor of a kind that is drawn")
        except Exception:  # whatever ONNX Runtime says
            for n in set(self.values) - before:
                for d in (self.values, self.inputs, self.constants):
                    d.pop(n, None)
            return False
        self.values.update(zip(made, got))
        return True

    def read(self, node):
        """What a node reads of the outside, its bodies included."""
        inner = [i for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in a.g.node for i in self.read(n)]
        outer = [o.name for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for o in a.g.output]
        return [i for i in [*node.input, *inner, *outer] if i in self.values]

    def model(self, nodes, used, made, symbols, values):
        """All of it as a model; `symbols` has of each input a dim that has a name."""
        ins = [helper.make_tensor_value_info(n, kind_of(values[n]), [symbols.get((n, k), d) for k, d in enumerate(values[n].shape)])
               for n in used if n not in self.constants]
        constants = [numpy_helper.from_array(self.constants[n], n) for n in used if n in self.constants]
        graph = helper.make_graph(nodes, "g", ins, [onnx.ValueInfoProto(name=n) for n in made], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def run(self, nodes, used, made, symbols, values, options=PLAIN):
        s = onnxruntime.InferenceSession(self.model(nodes, used, made, symbols, values).SerializeToString(), options, providers=["CPUExecutionProvider"])
        return s.run(made, {n: values[n] for n in used if n not in self.constants})

    def some(self, scope, count):
        """Nodes one behind the other."""
        nodes, scope = [], list(scope)
        for _ in range(count * 12):
            if len(nodes) == count:
                break
            n = self.node(scope)
            if n:
                nodes.append(n)
                scope += n.output
        return nodes

    def same_type(self, nodes, x):
        """A result of the nodes that may stand for x in the next round."""
        return next((o for n in reversed(nodes) for o in n.output if self.values[o].dtype == x.dtype and self.values[o].shape == x.shape), None)

    def flow(self, scope):
        """A choice, a loop or a scan over nodes of its own."""
        r, before = self.r, set(self.values)
        x = r.choice(scope)
        kind = r.choice(["If", "Loop", "Scan"])
        if kind == "If":
            c = self.add(np.array(r.random() < 0.5), r.random() < 0.7)
            arms = [self.some(scope, r.randrange(1, 3)) for _ in "ab"]
            ends = [n[-1].output[0] if n and r.random() < 0.8 else x for n in arms]
            if any(self.values[ends[0]].dtype != self.values[e].dtype for e in ends):
                return None
            arms = [n + [helper.make_node("Identity", [e], [self.name()])] for n, e in zip(arms, ends)]
            graphs = [helper.make_graph(n, "b", [], [onnx.ValueInfoProto(name=n[-1].output[0])]) for n in arms]
            node = helper.make_node("If", [c], [self.name()], then_branch=graphs[0], else_branch=graphs[1])
            return node if self.try_([node], before) else None
        v, i = self.name(), self.name()
        value = self.values[x]
        if kind == "Scan" and (value.ndim < 1 or not value.shape[0]):
            return None
        state = value[0] if kind == "Scan" else value
        self.values[v], self.values[i] = state, np.array(1, np.int64)
        nodes = self.some([*scope, v, v] + [i] * (kind == "Loop"), r.randrange(1, 4))
        out, last = self.same_type(nodes, state), nodes[-1].output[0] if nodes else v
        info = [onnx.ValueInfoProto(name=self.name()) for _ in range(3)]
        nodes = nodes + [helper.make_node("Identity", [n], [q.name]) for n, q in zip([out or v, last], info)]
        value_of = {n: self.values[n] for n in (v, i)}
        del self.values[v], self.values[i]
        vi = helper.make_tensor_value_info(v, kind_of(value_of[v]), value_of[v].shape)
        if kind == "Loop":
            cond = self.name()
            nodes.insert(0, helper.make_node("Identity", [cond], [info[2].name]))
            g = helper.make_graph(nodes, "b", [helper.make_tensor_value_info(i, 7, []), helper.make_tensor_value_info(cond, 9, []), vi], [info[2], info[0], info[1]])
            trips = self.add(np.array(r.randrange(0, 4), np.int64), r.random() < 0.4)
            node = helper.make_node("Loop", [trips, "", x], [self.name(), self.name()], body=g)
        else:
            s = self.name()
            nodes.insert(0, helper.make_node("Identity", [s], [self.name()]))
            g = helper.make_graph(nodes, "b", [vi, helper.make_tensor_value_info(s, kind_of(value_of[v]), value_of[v].shape)], info[:2])
            first = self.add(np.asarray(state), r.random() < 0.4)
            node = helper.make_node("Scan", [first, x], [self.name(), self.name()], body=g, num_scan_inputs=1)
        return node if self.try_([node], before) else None

    def whole(self):
        """A model, its arguments by name, and what ONNX Runtime gives."""
        scope = [self.add(self.tensor(self.floats, self.r.choice(SHAPES)), True), self.add(self.tensor(self.floats, self.r.choice(SHAPES)), True)]
        if self.r.random() < 0.4:
            scope.append(self.add(self.tensor(self.r.choice(["int64", "bool", "int32", "double", "uint8"]), self.r.choice(SHAPES)), True))
        nodes, count = [], self.r.randrange(1, 9)
        for _ in range(count * 12):
            if len(nodes) == count:
                break
            n = self.flow(scope) if self.r.random() < 0.1 else self.node(scope)
            if n:
                nodes.append(n)
                scope += [o for o in n.output if o]
        made = [o for n in nodes for o in n.output]
        read = {i for n in nodes for i in self.read(n)}
        made = [o for o in made if o not in read or self.r.random() < 0.2]
        used = [n for n in self.values if n in read and (n in self.inputs or n in self.constants)]
        symbols = {(n, k): self.r.choice([f"N{d}", f"{n}_{k}"]) for n in used for k, d in enumerate(self.values[n].shape) if n in self.inputs and self.r.random() < 0.15}
        if not made:
            return None
        got = self.run(nodes, used, made, symbols, self.values)
        return self.model(nodes, used, made, symbols, self.values), {n: self.values[n] for n in used if n in self.inputs}, got


def same(a, b):
    """Why results differ, or nothing."""
    if len(a) != len(b):
        return f"{len(a)} results for {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        x = np.asarray(x)
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"result {i}: {x.dtype}{list(x.shape)} for {y.dtype}{list(y.shape)}"
        bound = {np.float16: 4e-3, np.float32: 2e-5}.get(y.dtype.type, 1e-6)
        p, q = x.astype(complex if x.dtype.kind == "c" else float), y.astype(complex if y.dtype.kind == "c" else float)
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(q[np.isfinite(q)]), initial=1.0)
            if not np.all((np.abs(p - q) <= bound * scale) | (p == q) | (np.isnan(p) & np.isnan(q))):
                return f"result {i}: {x.ravel()[:6]} for {y.ravel()[:6]}"
    return None


def ours(path, arguments, backend):
    f = anfora.read(path, backend=backend).main
    got = f(*arguments)
    return [np.asarray(y) for y in (got if isinstance(got, tuple) else (got,))]


def referenced(model, arguments):
    """What onnx's own reference gives, or None."""
    try:
        from onnx.reference import ReferenceEvaluator
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, arguments)]
    except Exception:
        return None


def drawn(seed):
    """What Graph(seed).whole() gives, or why it gives nothing; in a process of its own, as some nodes end ONNX Runtime's."""
    out, in_ = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            whole = Graph(seed).whole() or "empty"
        except Exception:  # whatever ONNX Runtime says
            whole = "not run by ONNX Runtime"
        with open(in_, "wb") as f:
            pickle.dump(whole if isinstance(whole, str) else (whole[0].SerializeToString(), *whole[1:]), f)
        os._exit(0)
    os.close(in_)
    with open(out, "rb") as f:
        data = f.read()
    os.waitpid(child, 0)
    whole = pickle.loads(data) if data else "ends ONNX Runtime"
    return whole if isinstance(whole, str) else (onnx.load_from_string(whole[0]), *whole[1:])


def main():
    seed, count = int(sys.argv[2]), int(sys.argv[3])
    backends = ["interp"] if sys.argv[4:] == ["interp"] else ["interp", "llvm"]
    warnings.simplefilter("ignore")
    counts, refused, wrong = collections.Counter(), collections.Counter(), 0
    path = os.path.join(tempfile.mkdtemp(), "g.onnx")
    for s in range(seed, seed + count):
        found = drawn(s)
        if isinstance(found, str):
            counts[found] += 1
            continue
        model, arguments, want = found
        onnx.save(model, path)
        for backend in backends:
            try:
                got = ours(path, arguments.values(), backend)
            except Exception as e:
                text = str(e).split("\n")[0].replace(path, "")
                refused[f"{backend}: {text[:150]}"] += 1
                print(f"# seed {s} {backend} refuses: {text[:300]}\n{onnx.printer.to_text(model)}", flush=True)
                continue
            why = same(got, want)
            if why:
                reference = referenced(model, arguments)
                judge = "no reference" if reference is None else "the reference has ours" if not same(got, reference) else \
                    "the reference has ONNX Runtime's" if not same(want, reference) else "the reference has neither"
                counts[f"{backend} differs, {judge}"] += 1
                wrong += judge in ("the reference has ONNX Runtime's", "no reference")
                print(f"# seed {s} {backend} differs, {judge}: {why}\n{onnx.printer.to_text(model)}", flush=True)
            else:
                counts[backend + " equal"] += 1
    for t, n in [*counts.most_common(), *refused.most_common()]:
        print(f"{n:6} {t}")
    sys.exit(wrong > 0)


main()
