#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How strong the tests are: mutate.py TREE COUNT [SEED] [FOLDER...] changes one place of the sources at a time, builds, and runs tests
until one fails. A change that no test notices survives, and is printed; the last line counts them.

    if (n < 2) return x;     becomes     if (n <= 2) return x;     or     if (n < 1) return x;     or     if (false) return x;

TREE is a copy of the project that nobody else uses. TREE/build/mutate/state.json has what was tried: the next run goes on. A
change that gives the same machine code is no change, and is not counted. With COUNT 0 it tries those that survived once more,
which is what to do after tests were written."""
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

FOLDERS = ["optimizer", "autodiff", "ir/ops"]
BUILD = "build/mutate"
COMPILE = 1800  # seconds that a build may take

# What kills a mutant, the fastest first. A test ends where its first `not ok` is printed.
TESTS = ["golden", "rules", "ad-ops", "parse", "interp", "ops_nn", "grad", "verify", "api", "round-trip", "ops-numpy", "ops-lowered",
         "ops-vmap", "ad-edges", "ad-transposes", "exec", "random-programs", "random-gradients", "random-transforms", "engine-tables",
         "random-mistakes", "lib-numpy", "growth", "program-sizes", "tir-footprints", "onnx", "mindir", "stablehlo", "pnnx-layers",
         "cjit", "train", "cli", "python-programs", "python-transforms", "python-integers", "python-arrays"]

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


class Tests:
    """The tests of a build: how each is run, what it needs, and how long it took without a mutant."""

    def __init__(self, tree):
        self.tree, self.seconds = tree, {}
        names = {t["id"]: t["filename"][0] for t in self.ask("--targets")}
        self.tests = {t["name"]: t for t in self.ask("--tests") if t["name"] in TESTS}
        self.order = [name for name in TESTS if name in self.tests]
        self.needs = {n: [os.path.relpath(names[d], os.path.join(tree, BUILD)) for d in t["depends"]] for n, t in self.tests.items()}

    def ask(self, what):
        return json.loads(subprocess.run(["meson", "introspect", BUILD, what], cwd=self.tree, capture_output=True, check=True).stdout)

    def build(self, needs):
        try:
            return subprocess.run(["ninja", "-C", BUILD, *needs], cwd=self.tree, capture_output=True, timeout=COMPILE, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def passes(self, name):
        """Builds what a test needs and runs it, up to its first failure, or five times as long as it took without a mutant."""
        if not self.build(self.needs[name]):
            return False
        test, start = self.tests[name], time.monotonic()
        p = subprocess.Popen(test["cmd"], cwd=os.path.join(self.tree, BUILD), env={**os.environ, **test["env"]}, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True)
        timer = threading.Timer(30 + 5 * self.seconds.get(name, 400), end, [p])
        timer.start()
        failed = any(re.match(rb"\s*not ok", line) for line in p.stdout)
        if failed:
            end(p)
        failed |= p.wait() != 0
        timer.cancel()
        self.seconds.setdefault(name, time.monotonic() - start)
        return not failed

    def first_failing(self, first=None):
        """The test that notices, with one that is likely to tried first; None: all pass."""
        for name in sorted(self.order, key=lambda n: n != first):
            if not self.passes(name):
                return name
        return None


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def digest(tree):
    """Of the code alone: where a line is compiled to the same instructions, what the debugger reads may differ."""
    code = os.path.join(tree, BUILD, "code.bin")
    subprocess.run(["objcopy", "-O", "binary", "-R", ".note.gnu.build-id", os.path.join(tree, BUILD, "cli/anfora"), code], check=True)
    with open(code, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def try_mutant(tests, plain, m, first):
    """'same', 'refused' by the compiler, the test that noticed, or None."""
    full = os.path.join(tests.tree, m["file"])
    with open(full, encoding="utf-8") as f:
        text = f.read()
    lines = text.split("\n")
    lines[m["line"] - 1] = m["new"]
    try:
        with open(full, "w", encoding="utf-8") as f:
            f.write("\n".join(lines))
        if not tests.build(["cli/anfora"]):
            return "refused"
        return "same" if digest(tests.tree) == plain else tests.first_failing(first)
    finally:
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def show(state):
    real = [m for m in state if m["by"] not in ("same", "refused")]
    survived = [m for m in real if m["by"] is None]
    for m in survived:
        print(f"{m['file']}:{m['line']}: {m['new'].strip()}")
    print(f"{len(real) - len(survived)} of {len(real)} mutants were noticed"
          f" ({len(state) - len(real)} more did not compile or gave the same code)")


def write(path, state):
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(state, f, indent=1)
    os.replace(path + ".new", path)


def chosen(tree, state, count, seed, folders):
    """What is tried: mutants that were not yet, in a random order; with a count of 0 those that survived."""
    if count == 0:
        return [m for m in state if m["by"] is None]
    tried = {(m["file"], m["line"], m["new"]) for m in state}
    mutants = list(all_mutants(tree, folders))
    random.Random(seed).shuffle(mutants)
    print(f"{len(mutants)} mutants in all", flush=True)
    return [{"file": f, "line": i + 1, "new": new} for f, i, new in mutants if (f, i + 1, new) not in tried]


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the source is put back
    tree, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    path = os.path.join(tree, BUILD, "state.json")
    state = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else []
    tests = Tests(tree)
    failing = tests.first_failing() if tests.build(["cli/anfora"]) else "the build"
    if failing:
        sys.exit(f"without a mutant, {failing} fails")
    plain, killers, done = digest(tree), {}, 0
    for m in chosen(tree, state, count, seed, sys.argv[4:] or FOLDERS):
        if count and done == count:
            break
        by = try_mutant(tests, plain, m, killers.get(m["file"]))
        done += by not in ("same", "refused")
        killers[m["file"]] = by or killers.get(m["file"])
        if "by" not in m:
            state.append(m)
        m["by"] = by
        write(path, state)
        print(f"{m['file']}:{m['line']}: {by or 'SURVIVED'}: {m['new'].strip()}", flush=True)
    show(state)


main()
