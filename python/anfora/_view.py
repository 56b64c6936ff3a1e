# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs, drawn by graphviz."""
from __future__ import annotations

import subprocess


def svg(dot: str) -> str:
    """The drawing of a graph in graphviz's language; OSError if graphviz is not there."""
    try:
        done = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        raise OSError("pictures are drawn by the program dot, which is not installed: its package is graphviz; "
                      "f.dot() and f.ir() need nothing") from None
    if done.returncode:
        raise OSError(f"dot cannot draw the graph: {done.stderr.strip()}")
    return done.stdout[done.stdout.find("<svg"):]
