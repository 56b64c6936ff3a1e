#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is in the text for graphviz, by graphviz's own reading of it: test_dot.py ANFORA"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.dom.minidom

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), HERE]
from programs import EFFECTS, FIBONACCI, HOSTILE, chain, many_graphs  # noqa: E402
from tap import ROOT, Tap  # noqa: E402

ANFORA = os.path.abspath(sys.argv[1])
TAP = Tap()


def run(words, text=None):
    r = subprocess.run(words, input=text, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    if r.returncode or r.stderr:
        raise AssertionError(f"{words}: status {r.returncode}\n{r.stderr[:2000]}")
    return r.stdout


class Drawing:
    """Nodes and edges as graphviz understands them."""

    def __init__(self, program, *options):
        with open("p.anf", "w", encoding="utf-8") as f:
            f.write(program)
        run([ANFORA, "view", "p.anf", "-o", "p.dot", *options])
        with open("p.dot", encoding="utf-8") as f:
            self.text = f.read()
        raw = json.loads(run(["dot", "-Tdot_json", "p.dot"]))
        objects = raw.get("objects", [])
        self.clusters = [o for o in objects if o["name"].startswith("cluster")]
        self.nodes = {o["name"]: o for o in objects if not o["name"].startswith("cluster")}
        names = [o["name"] for o in objects]
        self.edges = [(names[e["tail"]], names[e["head"]], e) for e in raw.get("edges", [])]

    def titles(self):
        return sorted(c["label"] for c in self.clusters)

    def count(self, prefix):
        return sum(1 for n in self.nodes if n.startswith(prefix))

    def labels(self, prefix):
        return sorted(o["label"] for n, o in self.nodes.items() if n.startswith(prefix))


def want(name, got, expected):
    TAP.case(name, "" if got == expected else f"{got!r}\nis not {expected!r}")


def test_fibonacci():
    d = Drawing(FIBONACCI)
    want("a cluster for each graph", [t.split(" ")[0] for t in d.titles()], ["fibonacci", "✓fibonacci", "✓✗fibonacci", "✗fibonacci", "✗✗fibonacci"])
    want("parameters are octagons", [o["label"] for o in d.nodes.values() if o.get("shape") == "octagon"], ["n\\ni64"])
    # Less Switch call · Equal Switch call · Sub call Sub call Add, and the parameter
    want("nodes", d.count("n"), 12)
    want("constants, one for each use", d.labels("c"), ["0", "1", "1", "1", "1", "2"])
    want("functions, one for each graph that uses them", d.labels("f"), sorted(["✓fibonacci", "✗fibonacci", "✓✗fibonacci", "✗✗fibonacci", "fibonacci"]))
    want("a call has a dashed edge", len([e for *_, e in d.edges if e.get("style") == "dashed"]), 4)
    want("a dashed edge goes to port 0", {e.get("headport") for *_, e in d.edges if e.get("style") == "dashed"}, {"0"})
    want("functions lead to their clusters", sorted({e["lhead"] for *_, e in d.edges if "lhead" in e}), sorted(c["name"] for c in d.clusters))
    # n is used in fibonacci itself, in Equal of the first branch and in both Subs of the second
    want("what is captured is orange", len([e for *_, e in d.edges if e.get("color") == "darkorange"]), 3)
    want("every graph returns", d.count("r"), 5)


def test_parts():
    d = Drawing(FIBONACCI, "--depth", "1")
    want("--depth: one graph is open", (d.count("n"), len([o for o in d.nodes.values() if o.get("shape") == "box3d"])), (4, 2))
    d = Drawing(FIBONACCI, "--focus", "✗✗fibonacci.%1", "--radius", "1")
    want("--focus: the node, what it uses and what uses it", d.count("n"), 3)
    text = chain(5000)
    with open("p.anf", "w", encoding="utf-8") as f:
        f.write(text)
    run([ANFORA, "view", "p.anf", "-o", "p.dot"])  # graphviz takes a minute for a chain of this length
    with open("p.dot", encoding="utf-8") as f:
        dot = f.read()
    want("a graph that is too large: its end is drawn", (len(re.findall(r"^n\d+\[", dot, re.M)), "4000 of 5001 nodes" in dot), (4000, True))
    d = Drawing(text, "--max-nodes", "50")
    want("--max-nodes", d.count("n"), 50)
    want("--max-nodes: what is not drawn is named", d.labels("c").count("chain.a4950"), 1)
    d = Drawing(many_graphs(100), "--max-nodes", "60")
    want("--max-nodes over many graphs", d.count("n") + len(d.clusters) <= 60, True)


def test_function():
    with open("p.anf", "w", encoding="utf-8") as f:
        f.write(many_graphs(5) + "def h(x) { x }\n")
    run([ANFORA, "view", "p.anf:g1", "-o", "p.dot"])
    with open("p.dot", encoding="utf-8") as f:
        text = f.read()
    want("FILE:FUNC draws what it refers to", [f'label="{g}"' in text for g in ("g0", "g1", "g2", "h")], [True, True, False, False])


def test_effects():
    d = Drawing(EFFECTS)
    want("effects have an order", len([e for *_, e in d.edges if e.get("style") == "dotted"]), 1)


def test_svg(name, path_or_text, is_path=True):
    try:
        if not is_path:
            with open("q.anf", "w", encoding="utf-8") as f:
                f.write(path_or_text)
        run([ANFORA, "print", path_or_text if is_path else "q.anf", "--as", "dot", "-o", "q.dot"])
        xml.dom.minidom.parseString(run(["dot", "-Tsvg", "q.dot"]))
        TAP.case(name)
    except (AssertionError, ValueError, xml.parsers.expat.ExpatError) as e:
        TAP.case(name, str(e))


def main():
    examples = sorted(glob.glob(os.path.join(ROOT, "examples", "*.anf")))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for test in (test_fibonacci, test_parts, test_function, test_effects):
            try:
                test()
            except AssertionError as e:
                TAP.case(test.__name__, str(e))
        for path in examples:
            test_svg("dot -Tsvg of " + os.path.basename(path), path)
        test_svg("dot -Tsvg of hostile names", HOSTILE, False)
        test_svg("dot -Tsvg of some thousand nodes", chain(2000), False)
        os.chdir("/")
    TAP.done()


main()
