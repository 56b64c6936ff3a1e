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
LONG_CODE = {"function_splitter", "scalar_splitter"}


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

    def changed(self, name, pipeline):
        """The passes of the pipeline that change the loops of the program."""
        script = 'exec "$0" opt "$1" -p "$2" --time-passes -o /dev/null 2>&1'
        out, problem = run(["sh", "-c", script, ANFORA, self.loops(name), pipeline])
        return set(re.findall(r"^(\w+) .*  changed$", out, re.M)), problem


def over_graphs(tap, page, programs):
    rows = cells(page, "Over graphs")
    tap.case("all passes over graphs have a row", " ".join(set(GRAPHS) ^ set(rows)))
    for name, (_here, program, words) in rows.items():
        said = programs.built(program)[0]
        tap.case(f"{name}: {program}", "" if re.search(re.escape(words) + r"(?!\w)", said) else f"'{words}' is not in\n{said}")


def over_loops(tap, page, programs):
    rows = cells(page, "Over loops")
    out, problem = run([ANFORA, "passes", "--json"])
    names = set() if problem else {p["name"] for p in json.loads(out)["tensor_ir_passes"]}
    tap.case("all passes over loops have a row", problem or " ".join((names - LONG_CODE) ^ set(rows)))
    for name, (pipeline, program, _why) in rows.items():
        if name == "validator":
            continue
        changed, problem = programs.changed(program, pipeline)
        tap.case(f"{name}: {program}", problem or ("" if name in changed else "it changes nothing; these do: " + " ".join(sorted(changed))))


def main():
    tap, page = Tap(), read(os.path.join(ROOT, "docs", "passes.md"))
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(folder)
        over_graphs(tap, page, programs)
        over_loops(tap, page, programs)
    tap.done()


if __name__ == "__main__":
    main()
