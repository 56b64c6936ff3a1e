# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python.md, from top to bottom."""
import linecache
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_tutorial():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        text = f.read()
    names = {"__name__": "tutorial"}
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) >= 5
    for i, code in enumerate(blocks):
        file = f"<docs/python.md {i}>"
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        exec(compile(code, file, "exec"), names)  # noqa: S102
