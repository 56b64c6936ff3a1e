# SPDX-License-Identifier: Apache-2.0
"""The code of pages in docs/, from top to bottom."""
import linecache
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_blocks(name, least):
    """Runs the Python code of a page in one namespace, which it gives back."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        blocks = re.findall(r"^```python\n(.*?)^```$", f.read(), re.S | re.M)
    assert len(blocks) >= least
    names = {"__name__": "page"}
    for i, code in enumerate(blocks):
        file = f"<{name} {i}>"
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        exec(compile(code, file, "exec"), names)  # noqa: S102
    return names


def test_tutorial():
    run_blocks("docs/python.md", 7)


def test_readme():
    os.chdir(ROOT)
    step = run_blocks("README.md", 1)["step"]
    assert step.count == 22 * 30 and step.losses[-1] < 0.2


def test_distributed():
    run_blocks("docs/distributed.md", 1)
