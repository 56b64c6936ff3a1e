#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in public headers' comments: each compiles without a warning, runs, and ends with a good
status: header_examples.py LIB -- CC FLAGS...

What an example takes for granted (a context cx, a diagnostics list d, a module m holding
examples/fibonacci.anf) is declared around it if it does not declare it itself. If it declares a
status `st` or a `bool good`, that must come out as ANF_OK or true."""
import os
import re
import sys
import tempfile

from tap import ROOT, Tap, public_headers, read, run

FRAME = """\
#include <anfora/anfora.h>
#include <anfora/tir.h>
#include <{header}>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {{
{before}
{body}
{after}
  return {result};
}}
"""


def examples_of(text):
    """The code after each line "Example...:" of a comment."""
    for comment in re.findall(r"/\*(.*?)\*/", text, re.S):
        lines = [re.sub(r"^ ?\*? ?", "", line) for line in comment.split("\n")]
        for i, line in enumerate(lines):
            if re.match(r"\s*Example\b.*:\s*$", line):
                body = lines[i + 1:]
                end = next((k for k, b in enumerate(body) if b.strip() and not b.startswith("  ")), len(body))
                yield "\n".join(body[:end])


def program_of(header, body):
    """A whole program around an example."""
    def declares(name, kind=r"anf_\w+"):
        return re.search(rf"\b{kind}\b\s[^;()=]*?\b{name}\s*(=|;|,|\[)", body) is not None

    def uses(name):
        return re.search(rf"\b{name}\b", body) is not None

    before, after = [], []
    if not declares("cx"):
        before.append("  anf_ctx *cx = anf_ctx_new(NULL);")
        after.insert(0, "  anf_ctx_free(cx);")
    if uses("d") and not declares("d"):
        before.append("  anf_diag *d = anf_diag_new(cx);")
        after.insert(0, "  anf_diag_free(d);")
    if uses("m") and not declares("m"):
        path = os.path.join(ROOT, "examples", "fibonacci.anf")
        before.append(f'  anf_module *m = NULL;\n  if (anf_load(cx, "{path}", NULL, &m) != ANF_OK) return 9;')
        after.insert(0, "  anf_module_free(m);")
    results = ["st == ANF_OK"] if declares("st", "anf_status") else []
    results += ["good"] if declares("good", "bool") else []
    result = f"{' && '.join(results)} ? 0 : 1" if results else "0"
    return FRAME.format(header=header, before="\n".join(before), body=body, after="\n".join(after), result=result)


def problem_of(header, body, library, compiler, folder):
    source, program = os.path.join(folder, "example.c"), os.path.join(folder, "example")
    with open(source, "w", encoding="utf-8") as f:
        f.write(program_of(header, body))
    words = [*compiler, "-std=c11", "-g", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-I",
             os.path.join(ROOT, "include"), "-o", program, source, library,
             "-Wl,-rpath," + os.path.dirname(library)]
    return run(words)[1] or run([program], cwd=folder)[1]


def main():
    split = sys.argv.index("--")
    library, compiler = os.path.abspath(sys.argv[split - 1]), sys.argv[split + 1:]
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for header in public_headers():
            bodies = list(examples_of(read(os.path.join(ROOT, "include", header))))
            for number, body in enumerate(bodies, 1):
                tap.case(f"{header}, example {number}", problem_of(header, body, library, compiler, folder))
            if not bodies and header not in ("anfora/anfora.h", "anfora/mpi.h"):  # mpi.h: libanfora_mpi, which needs MPI
                tap.case(header, "no comment of it has an example")
    tap.done()


if __name__ == "__main__":
    main()
