#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of docs/passes.md is true: its pass changes its program. passes.py ANFORA"""
import json
import os
import re
import sys
import tempfile

from tap import ROOT, Tap, read, run

ANFORA = os.path.abspath(sys.argv[1])
# Those of oneDNN's graph compiler.
GRAPHS = """analysis_quantized graph_inline constant_optimization quantized_info_propagation quantized_graph_reschedule
quantize_inline elemwise_bcast_swap permute_propagation quantize_op_compensation elemwise_dimension_alignment layout_propagation
tensor_view_transform graph_simplify global_reschedule partial_reduce_replace fuse_ops horizontal_merge constant_input_folding
inplace_transform batchwise_merge""".split()
# These begin at more code than an example has; each has a case in test/tir/golden/passes.
LONG_CODE = {"function_splitter", "list_splitter", "scalar_splitter"}


def cells(page, title):
    """The rows of the table under a title."""
    part = page.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in part.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): [cell.strip("`") for cell in row[1:]] for row in rows}


class Programs:
    """What the compiler says of each function of the examples, and its loops; each compiled once."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def loops(self, name):
        return os.path.join(ROOT, name) if name.endswith(".tir") else self.built(name)[1]

    def built(self, name):
        if name not in self.known:
            dump, said = os.path.join(self.folder, name), os.path.join(self.folder, name + ".txt")
            os.mkdir(dump)
            script = f'exec "$0" build examples/passes.anf:{name} --threads 2 --explain --emit asm -o {dump}/out --dump {dump} 2>{said}'
            _, problem = run(["sh", "-c", script, ANFORA], cwd=ROOT)
            tir = [f for f in os.listdir(dump) if f.endswith("lowered.tir")]
            self.known[name] = (read(said) + problem, os.path.join(dump, tir[0]) if tir else "")
        return self.known[name]

    def changed(self, file, pipeline, mark):
        """The passes of the pipeline that change a file; `mark` is in their lines of --time-passes."""
        script = 'exec "$0" opt "$1" -p "$2" --time-passes -o /dev/null 2>&1'
        out, problem = run(["sh", "-c", script, ANFORA, file, pipeline], cwd=ROOT)
        return set(re.findall(rf"^(\w+) .* {mark}$", out, re.M)), problem


def over_graphs(tap, page, programs):
    rows = cells(page, "Over graphs")
    tap.case("all passes over graphs have a row", " ".join(set(GRAPHS) ^ set(rows)))
    for name, (_here, program, words) in rows.items():
        said = programs.built(program)[0]
        tap.case(f"{name}: {program}", "" if re.search(re.escape(words) + r"(?!\w)", said) else f"'{words}' is not in\n{said}")


def all_over_graphs(tap, page, programs, names):
    rows = cells(page, "All rows over graphs")
    tap.case("all rows over graphs have one there", " ".join(names ^ set(rows)))
    for name, (pipeline, program, _why) in rows.items():
        if program == "all":
            continue
        if pipeline == "standard":
            said = programs.built(program)[0]
            changed, problem = set(re.findall(r"(\w+) [1-9]\d*\b", said.split("passes of graphs: ")[-1].split("\n")[0])), ""
        else:
            changed, problem = programs.changed(program, pipeline, r" [1-9]\d* rewrites")
        tap.case(f"{name}: {program}", problem or ("" if name in changed else "it changes nothing; these do: " + " ".join(sorted(changed))))


# Programs whose products of dequantised tensors are not of integers, and why.
REASONS = {
    "Dequantize(x, s) @ Dequantize(w, t)": ("x: i8[64, 128], w: i8[128, 64], s: f32[64, 128], t: f32[64]",
                                            "MatMul 1:87 stays one of floats: a scale or zero point varies along the summed axis"),
    "x @ Dequantize(w, t)": ("x: f32[64, 128], w: i8[128, 64], t: f32[64]", "MatMul 1:56 stays one of floats: one operand is not dequantised"),
    "(Cast(x, f32) * s) @ (Cast(w, f32) * 0.1)": ("x: i8[64, 128], w: i8[128, 64], s: f32", "Mul 1:63 stays one of floats: its scale may be infinite"),
    "x @ Reshape(Dequantize(q, s), (128, 64))": ("x: f32[5, 128], q: u8[4, 32, 64], s: f32[4, 1, 64]", "MatMul 1:63 stays one of floats: many rows multiply weights with a scale for each group"),
    "Attention(Dequantize(q, 0.1), Dequantize(q, 0.1), Dequantize(q, 0.1))": ("q: i8[2, 4, 64, 32]", "stays one of floats: of bytes are its products alone"),
    "Conv2D(Dequantize(x, 0.1), Dequantize(w, 0.1), groups=8)": ("x: i8[1, 8, 16, 16], w: i8[8, 1, 3, 3]", "few channels a group"),
}


def reasons(tap, folder):
    for body, (params, words) in REASONS.items():
        path = os.path.join(folder, "why.anf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"def f({params}) {{ {body} }}\n")
        script = f'exec "$0" build {path}:f --explain --emit llvm -o {folder}/why 2>&1'
        said, problem = run(["sh", "-c", script, ANFORA])
        tap.case(f"why floats: {body}", problem or ("" if words in said else f"'{words}' is not in\n{said}"))


def over_loops(tap, page, programs, names):
    rows = cells(page, "Over loops")
    tap.case("all passes over loops have a row", " ".join((names - LONG_CODE) ^ set(rows)))
    for name, (pipeline, program, _why) in rows.items():
        if name == "validator":
            continue
        changed, problem = programs.changed(programs.loops(program), pipeline, " changed")
        tap.case(f"{name}: {program}", problem or ("" if name in changed else "it changes nothing; these do: " + " ".join(sorted(changed))))


def main():
    tap, page = Tap(), read(os.path.join(ROOT, "docs", "passes.md"))
    out, problem = run([ANFORA, "passes", "--json"])
    known = {} if problem else json.loads(out)
    graphs, loops = ({p["name"] for p in known.get(kind, [])} for kind in ("passes", "tensor_ir_passes"))
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(folder)
        over_graphs(tap, page, programs)
        all_over_graphs(tap, page, programs, graphs)
        over_loops(tap, page, programs, loops)
        reasons(tap, folder)
    tap.done()


if __name__ == "__main__":
    main()
