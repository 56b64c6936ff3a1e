#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that are written from tables are as they would be written now:
generated_docs.py ANFORA [--write]"""
import os
import subprocess
import sys

import c_api
import rooms
from tap import ROOT, Tap, read, run

GENERATED = {
    "docs/ops.md": ["ops", "--markdown"],
    "docs/status.md": ["ops", "--status"],
}

NEEDS = {"run": "To build and run", "python": "For the Python package", "test": "To build and run the tests",
         "late": "To run the tests", "peers": "To measure other projects beside ours"}


def dependencies():
    """The table of packages.txt as a page."""
    rows = [line.split(None, 3) for line in read(os.path.join(ROOT, "packages.txt")).splitlines()
            if line and not line.startswith("#")]
    page = "# What Anfora needs, and why\n\nWritten by `./dev docs` from `packages.txt`, which `./dev` " \
           "installs from\nwhere there is apt-get. The names are those of Debian 12 and Ubuntu 24.04, and those of Fedora.\n"
    for need, title in NEEDS.items():
        page += f"\n## {title}\n| Debian, Ubuntu | Fedora | why |\n|---|---|---|\n"
        page += "".join(f"| {name} | {fedora} | {why} |\n" for name, fedora, of, why in rows if of == need)
    return page


def manual_problem(anfora):
    page, problem = run([anfora, "help", "--man"])
    if problem:
        return problem
    r = subprocess.run(["man", "--warnings", "--encoding=UTF-8", "-l", "-"], input=page, capture_output=True,
                       text=True, env={**os.environ, "MANWIDTH": "100"}, check=False)
    return r.stderr or ("" if r.returncode == 0 and len(r.stdout) > 1000 else "man shows little or nothing")


def main():
    anfora, write = os.path.abspath(sys.argv[1]), "--write" in sys.argv[2:]
    tap = Tap()
    texts = {name: run([anfora, *words]) for name, words in GENERATED.items()}
    texts["docs/dependencies.md"] = (dependencies(), "")
    texts["docs/architecture.md"] = (rooms.page(), "")
    texts["docs/c-api.md"] = (c_api.page(), "")
    for name, (text, problem) in texts.items():
        path = os.path.join(ROOT, name)
        if not problem and write:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not problem and (not os.path.exists(path) or read(path) != text):
            problem = "it is out of date; `./dev docs` writes it anew"
        tap.case(name, problem)
    tap.case("the manual page renders without a warning", manual_problem(anfora))
    tap.done()


if __name__ == "__main__":
    main()
