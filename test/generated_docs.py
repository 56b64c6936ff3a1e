#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are written by the command from its tables are as it writes them now:
generated_docs.py ANFORA [--write]"""
import os
import sys

from tap import ROOT, Tap, read, run

GENERATED = {
    "docs/ops.md": ["ops", "--markdown"],
    "docs/status.md": ["ops", "--status"],
    "docs/anfora.1": ["help", "--man"],
    "cli/completion.bash": ["help", "--bash"],
    "cli/completion.zsh": ["help", "--zsh"],
}


def main():
    anfora, write = os.path.abspath(sys.argv[1]), "--write" in sys.argv[2:]
    tap = Tap()
    for name, words in GENERATED.items():
        path = os.path.join(ROOT, name)
        text, problem = run([anfora, *words])
        if not problem and write:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not problem and (not os.path.exists(path) or read(path) != text):
            problem = "it is out of date; `./dev docs` writes it anew"
        tap.case(name, problem)
    tap.done()


if __name__ == "__main__":
    main()
