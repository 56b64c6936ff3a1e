# SPDX-License-Identifier: Apache-2.0
"""The rooms of the source tree: what each is for, and which others it may use. lint.py holds includes and links
against this table; docs/architecture.md is written from it (`./dev docs`)."""

# room, what is in it, the rooms it uses (itself and include/ always)
ROOMS = [
    ("include", "the public interface", ""),
    ("base", "arenas, protected entries, interning, diagnostics, the operating system", ""),
    ("comm", "communicators: operations between ranks, sums in a fixed order, links", "base"),
    ("runtime", "what compiled code calls while it runs: memory, threads, products, errors", "base comm"),
    ("ir", "nodes, graphs, modules, types, values; the op table with inference and reference kernels", "base comm"),
    ("optimizer", "inference, specialisation, rewrite rules, passes over graphs", "base ir"),
    ("autodiff", "reverse mode, forward mode, batching: graphs to graphs", "base ir optimizer"),
    ("interp", "the reference interpreter of graphs, the oracle of every engine", "base ir optimizer autodiff"),
    ("reduce", "makes a failing program small", "base ir optimizer frontend/anf"),
    ("frontend", "the loader: from the ending or magic of a file to its reader", "base ir frontend/anf frontend/dat frontend/mindir frontend/onnx frontend/stablehlo frontend/pnnx frontend/view"),
    ("frontend/anf", "the language: lexer, parser, lowering to graphs", "base ir frontend"),
    ("frontend/dat", "the exact form of a module", "base ir frontend"),
    ("frontend/npy", "NumPy's .npy", "base ir"),
    ("frontend/store", "archives of tensors: .npz, safetensors", "base ir frontend/npy"),
    ("frontend/proto", "the wire format of Protocol Buffers, read in place", "base"),
    ("frontend/trace", "ops of other formats as templates in the language", "base ir optimizer frontend/anf"),
    ("frontend/mindir", "MindSpore's .mindir", "base ir optimizer frontend frontend/proto frontend/trace frontend/anf"),
    ("frontend/onnx", "ONNX models", "base ir optimizer frontend frontend/proto frontend/trace"),
    ("frontend/stablehlo", "StableHLO text, as JAX and OpenXLA print it", "base ir frontend frontend/trace"),
    ("frontend/view", "drawings: .dot, .svg, .html", "base ir"),
    ("frontend/pnnx", "PNNX expressions and models", "base ir interp exec frontend frontend/store frontend/trace"),
    ("backend/tir", "the Tensor IR: loops over buffers, its text, passes and interpreter", "base comm ir interp"),
    ("backend/kernel", "the cost model of matrix products: tiles, blocks, CPU features", "base backend/tir"),
    ("backend/lower", "graphs to Tensor IR: fusion, products, loops", "base comm ir backend/tir backend/kernel"),
    ("backend/jit", "engines: code in memory, its cache, calls", "base comm ir backend/tir backend/kernel runtime"),
    ("backend/c", "Tensor IR to C text; the cjit engine", "base ir backend/tir backend/kernel backend/jit"),
    ("backend/llvm", "Tensor IR to LLVM IR; the llvm engine; kernels of products",
     "base backend/tir backend/kernel backend/jit runtime"),
    ("exec", "compiled functions: a variant for each signature",
     "base comm ir optimizer interp backend/tir backend/kernel backend/lower backend/jit backend/c runtime"),
    ("step", "training steps: state in place, checkpoints, AOT objects",
     "base comm ir optimizer interp backend/tir backend/kernel backend/lower backend/jit backend/c exec frontend/store runtime"),
    ("cli", "the command", "base comm ir optimizer autodiff interp reduce frontend frontend/anf frontend/dat frontend/npy frontend/store "
     "frontend/view frontend/pnnx frontend/mindir frontend/onnx frontend/stablehlo backend/tir backend/kernel backend/lower backend/jit backend/c backend/llvm exec step runtime"),
]

# Tables name functions of rooms above their own, so that a row says everything about its subject.
TABLES = {
    "comm/sum.c": "dtype.def gives the sizes of elements",
    "ir/op.c": "op.def names the derivative and batching hooks of autodiff and the host call of interp",
    "optimizer/driver.c": "pass.def names the pass that expands derivatives",
    "backend/jit/engine.c": "the engines: interp, cjit, llvm",
}

USES = {name: set(uses.split()) | {"include"} for name, _, uses in ROOMS}


def room_of(path):
    """The room of a source file: the longest entry that its folder begins with, or None."""
    folder = path.rsplit("/", 1)[0] + "/"
    return max((n for n in USES if folder.startswith(n + "/")), key=len, default=None)


def may_use(path, target):
    """Whether the file `path` may name something of the file `target`."""
    a, b = room_of(path), room_of(target)
    return a is None or b is None or a == b or b in USES[a] or path in TABLES


def page():
    """docs/architecture.md."""
    rows = "\n".join(f"| `{n}/` | {what} | {' '.join(f'`{u}`' for u in uses.split()) or '–'} |" for n, what, uses in ROOMS)
    tables = "\n".join(f"- `{path}`: {why}" for path, why in TABLES.items())
    return f"""# Architecture
The rooms of the source tree from the bottom up, written from `test/rooms.py`. A room includes and links only what its row
names; `./dev lint` checks both, the links by the symbols of object files. [spine.md](spine.md) follows one program
through the rooms.

| room | what is in it | uses |
|---|---|---|
{rows}

Three tables name functions of rooms above their own:
{tables}
"""
