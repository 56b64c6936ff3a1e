#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How strong the tests are: mutate.py TREE COUNT [SEED] [FOLDER...] changes one place of the sources at a time, builds, and runs tests
until one fails. A change that no test notices survives, and is printed; the last line counts them.

    if (n < 2) return x;     becomes     if (n <= 2) return x;     or     if (n < 1) return x;     or     if (false) return x;

TREE is a copy of the project that nobody else uses. TREE/build/mutate/state.json has what was tried: the next run goes on. A
change that gives the same machine code is no change, and is not counted."""
import hashlib
import json
import os
import random
import re
import subprocess
import sys

FOLDERS = ["optimizer", "autodiff", "ir/ops"]
SECONDS = 600  # a mutant that runs longer than this is noticed

# What kills a mutant, the fastest first. Each is arguments of `meson test`, which ends at the first failure.
TESTS = ["golden", "parse", "interp", "ops_nn", "grad", "verify", "api", "round-trip", "rules", "ad-ops", "ops-numpy", "ops-lowered",
         "random-programs", "random-gradients", "ops-vmap", "exec", "lib-numpy", "ad-edges", "engine-tables", "random-mistakes",
         "growth", "program-sizes", "pnnx-layers", "onnx", "mindir", "python-programs", "python-transforms"]

BUILD = ["ninja", "-C", "build/mutate", "cli/anfora"]  # tests build what they run themselves

SWAPS = [("==", "!="), ("!=", "=="), ("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), ("&&", "||"), ("||", "&&"),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), ("true", "false"), ("false", "true"), ("++", "--"), ("!", ""),
         ("|=", "&="), ("&=", "|="), ("+=", "-="), ("-=", "+=")]


def files(tree, folders):
    """C files and the tables of rules, but for what only tells of them."""
    out = []
    for folder in folders:
        for at, _, names in os.walk(os.path.join(tree, folder)):
            for n in names:
                if n.endswith(".c") or n in ("algebra.def", "logic.def", "shape.def", "tuple.def", "formula.def"):
                    out.append(os.path.relpath(os.path.join(at, n), tree))
    return sorted(out)


def code_lines(text):
    """Numbers of lines with code of a function or a row of a table: no comments, declarations, includes."""
    lines, comment = text.split("\n"), False
    for i, line in enumerate(lines):
        s = line.strip()
        if comment or s.startswith("/*"):
            comment = "*/" not in s
            continue
        row = s.startswith("ANF_RULE")
        if row or (line.startswith("  ") and not s.startswith(("//", "case", "static const", "#", "}")) and s):
            yield i


def mutants_of(line):
    """The changed forms of a line."""
    code = line.split("//")[0]
    if code.strip().startswith("ANF_RULE"):
        return ["// " + line]  # the rule is gone
    quoted = [m.span() for m in re.finditer(r'"(\\.|[^"\\])*"', code)]
    out = []

    def outside(at):
        return not any(a <= at < b for a, b in quoted)

    for old, new in SWAPS:
        for m in re.finditer(re.escape(old), code):
            if outside(m.start()) and (old != "!" or code[m.end():m.end() + 1] != "="):
                out.append(line[:m.start()] + new + line[m.end():])
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", code):
        if outside(m.start()):
            out.append(line[:m.start()] + str(int(m[1]) + 1) + line[m.end():])
    m = re.match(r"(\s*)(\w[^=;]*\([^;]*\)|[\w.>\-\[\]]+ [|&+-]?= [^;]*);\s*$", code)
    if m and not re.match(r"\s*(return|const|anf_\w+ \*?\w+ =|\w+ \*\w+ =|(size_t|bool|int|uint\w+) \w)", code):
        out.append(m[1] + ";")  # the statement is gone
    m = re.match(r"(\s*)if \((.*)\) (return|continue|break|\{|[^{]*;)(.*)$", code)
    if m:
        out.append(f"{m[1]}if (false && ({m[2]})) {m[3]}{m[4]}")
    return out


def all_mutants(tree, folders):
    for path in files(tree, folders):
        with open(os.path.join(tree, path), encoding="utf-8") as f:
            text = f.read()
        for i in code_lines(text):
            for new in mutants_of(text.split("\n")[i]):
                yield path, i, new


def run(words, cwd, timeout=SECONDS):
    try:
        return subprocess.run(words, cwd=cwd, capture_output=True, timeout=timeout, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def digest(tree):
    with open(os.path.join(tree, "build/mutate/cli/anfora"), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def first_failing(tree):
    """The test that notices; None: all pass."""
    for test in TESTS:
        if not run(["meson", "test", "-C", "build/mutate", "--maxfail", "1", test], tree):
            return test
    return None


def try_mutant(tree, path, i, new):
    """'same', 'refused' by the compiler, the test that noticed, or None."""
    full = os.path.join(tree, path)
    with open(full, encoding="utf-8") as f:
        text = f.read()
    lines = text.split("\n")
    lines[i] = new
    before = digest(tree)
    try:
        with open(full, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        if not run(BUILD, tree):
            return "refused"
        return "same" if digest(tree) == before else first_failing(tree)
    finally:
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
        run(BUILD, tree)


def show(state):
    real = [m for m in state if m["by"] not in ("same", "refused")]
    survived = [m for m in real if m["by"] is None]
    for m in survived:
        print(f"{m['file']}:{m['line']}: {m['new'].strip()}")
    print(f"{len(real) - len(survived)} of {len(real)} mutants were noticed"
          f" ({len(state) - len(real)} more did not compile or gave the same code)")


def main():
    tree, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    path = os.path.join(tree, "build/mutate/state.json")
    state = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else []
    tried = {(m["file"], m["line"], m["new"]) for m in state}
    mutants = list(all_mutants(tree, sys.argv[4:] or FOLDERS))
    random.Random(seed).shuffle(mutants)
    print(f"{len(mutants)} mutants in all", flush=True)
    if not run(BUILD, tree, 3600) or first_failing(tree):
        sys.exit("the tests do not pass without a mutant")
    for file, i, new in mutants:
        if count <= 0:
            break
        if (file, i + 1, new) in tried:
            continue
        by = try_mutant(tree, file, i, new)
        count -= by not in ("same", "refused")
        state.append({"file": file, "line": i + 1, "new": new, "by": by})
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(state, f, indent=1)
        os.replace(path + ".new", path)
        print(f"{file}:{i + 1}: {by or 'SURVIVED'}: {new.strip()}", flush=True)
    show(state)


main()
