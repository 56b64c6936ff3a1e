#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How strong the tests are: mutate.py TREE COUNT [SEED] [FOLDER...] changes COUNT places of the sources, one at a time, and runs the tests that
come there until one fails. A change that no test notices survives, and is printed; the last line counts them.

    if (n < 2) return x;     becomes     if (n <= 2) return x;     or     if (n < 1) return x;     or     if (false) return x;

All changes are in one build (mutants.py), and a number that a test is started with says which is in force. So a change costs
no build, and each test is first run without one, which records where it comes. A case of test/golden is a test of its own.
TREE is a copy of the project that nobody else uses. TREE/build/mutate/state.json has what was tried: the next run goes on.
A change that gives the same machine code is no change, and is not counted. With COUNT 0 it tries those that survived once
more, which is what to do after tests were written."""
import concurrent.futures
import glob
import json
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import mutants

FOLDERS = ["optimizer", "autodiff", "ir/ops"]
BUILD = "build/mutate"
RULES = "optimizer/rules/parse.c"  # reads the rows of rules; without a row is a change, too
RULE_LOOP = "index_rule(a, set, rule);"
WITHOUT_RULE = "without rule "
WORKERS = int(os.environ.get("JOBS", os.cpu_count() or 1))
MEMORY = 4 << 30
WAITS = 20  # a test that hangs without work is given up after so many times its limit

# What is run beside the cases of test/golden. A test ends where its first `not ok` is printed.
TESTS = ["rules", "ad-ops", "parse", "interp", "interp-types", "ops_nn", "grad", "verify", "api", "round-trip", "ops-numpy", "ops-lowered",
         "ops-vmap", "ad-edges", "ad-transposes", "exec", "random-programs", "random-gradients", "random-transforms", "engine-tables",
         "random-mistakes", "random-sized", "lib-numpy", "growth", "program-sizes", "tir-footprints", "onnx", "mindir", "stablehlo",
         "pnnx-layers", "cjit", "train", "cli", "python-programs", "python-transforms", "python-integers", "python-arrays", "examples"]


def sources(tree, folders):
    return sorted(os.path.relpath(p, tree) for f in folders for p in glob.glob(f"{tree}/{f}/**/*.c", recursive=True))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".new", path)


def all_changes(tree, folders):
    """Each change as {file, line, old, new}, and those of a statement share `line`."""
    for path in sources(tree, folders):
        for first, _, _, old in mutants.statements(read(os.path.join(tree, path))):
            for new in mutants.changes(old):
                if mutants.woven(1, old, new):
                    yield {"file": path, "line": first + 1, "old": old, "new": new}
        if path == RULES:
            for name in re.findall(r"(?m)^ANF_RULE(?:_FN)?\((\w+),", "".join(map(read, sorted(glob.glob(f"{tree}/optimizer/rules/*.def"))))):
                yield {"file": path, "line": 0, "old": RULE_LOOP, "new": WITHOUT_RULE + name}


def key(m):
    return m["file"], m["line"], m["old"], m["new"]


def chosen(tree, state, count, seed, folders):
    """At most one change of a statement, as two cannot be woven into one; with a count of 0 those that survived."""
    changes = list(all_changes(tree, folders))
    if count == 0:
        known = {key(m) for m in changes}
        out = [m for m in state if m["by"] is None and key(m) in known]
    else:
        tried = {key(m) for m in state}
        random.Random(seed).shuffle(changes)
        print(f"{len(changes)} changes in all", flush=True)
        out = [m for m in changes if key(m) not in tried]
    taken, picked = set(), []
    for m in out:
        place = (m["file"], m["line"], m["new"] if not m["line"] else "")
        if place not in taken and (count == 0 or len(picked) < count):
            taken.add(place)
            picked.append(m)
    return picked


def woven_text(text, changes):
    """A file with its changes, of which each has its number, and the number of the change of each line."""
    lines, at = text.split("\n"), {}
    places = {first + 1: (first, last, indent, old) for first, last, indent, old in mutants.statements(text)}
    for m in changes:
        if not m["line"]:
            continue
        first, last, indent, _ = places[m["line"]]
        lines[first:last + 1] = [indent + mutants.woven(m["number"], m["old"], m["new"])] + [""] * (last - first)
        at[first + 1] = m
    names = [f'!(ANF_MUTANT({m["number"]}) && !strcmp(rule->row->name, "{m["new"][len(WITHOUT_RULE):]}"))' for m in changes if not m["line"]]
    text = "\n".join(lines)
    text = without_first(text, mutants.PRELUDE) if changes else text
    return text.replace(RULE_LOOP, f"if ({' && '.join(names)}) {RULE_LOOP}") if names else text, at


def commands(tree):
    """Of each file the command that compiles it, without its output."""
    out = {}
    for e in json.loads(read(os.path.join(tree, BUILD, "compile_commands.json"))):
        words = shlex.split(e["command"])
        out.setdefault(os.path.relpath(os.path.join(e["directory"], e["file"]), tree), words[:words.index("-o")] + ["-w", "-fdiagnostics-color=never"])
    return out


def without_first(text, line):
    """The first line, a comment, is another."""
    return line + text[text.index("\n"):]


def home(tree):
    """Where the number of the change is read; it is not written again where it is there."""
    path = os.path.join(tree, mutants.HOME)
    if not read(path).startswith(mutants.HOME_PRELUDE):
        write(path, without_first(read(path), mutants.HOME_PRELUDE) + mutants.HOME_END)


def weave(tree, plain, changes):
    """Puts the changes into the sources; one that does not compile is left out, and is `refused`."""
    compile_ = commands(tree)

    def one(path):
        mine = [m for m in changes if m["file"] == path]
        while True:
            text, at = woven_text(plain[path], mine)
            write(os.path.join(tree, path), text)
            p = subprocess.run([*compile_[path], "-fsyntax-only", os.path.join(tree, path)], cwd=os.path.join(tree, BUILD), capture_output=True,
                               text=True, check=False)
            bad = {int(n) for n in re.findall(r"(?m)^[^:\n]*" + re.escape(os.path.basename(path)) + r":(\d+):\d+: error", p.stderr)}
            bad = [at[n] for n in bad if n in at]
            if p.returncode == 0:
                return
            for m in bad or mine[:]:
                m["by"] = "refused"
                mine.remove(m)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(one, sorted({m["file"] for m in changes})))


def same_code(tree, plain, m):
    """Whether the compiler makes the same of the change as of the statement."""
    if not m["line"]:
        return False
    words, made = commands(tree)[m["file"]], []
    for s in (m["old"], m["new"]):
        lines = plain[m["file"]].split("\n")
        first, last = next((a, b) for a, b, _, _ in mutants.statements(plain[m["file"]]) if a + 1 == m["line"])
        lines[first:last + 1] = [s] + [""] * (last - first)
        with tempfile.NamedTemporaryFile("w", suffix=".c", dir=os.path.dirname(os.path.join(tree, m["file"]))) as f:
            f.write("\n".join(lines))
            f.flush()
            p = subprocess.run([*words, "-O2", "-g0", "-S", "-o", "-", f.name], cwd=os.path.join(tree, BUILD), capture_output=True, text=True, check=False)
        made.append(re.sub(r'\.file.*|\.ident.*', "", p.stdout.replace(os.path.basename(f.name), "")))
    return made[0] == made[1]


class Test:
    """A program that fails where a change is noticed."""

    def __init__(self, name, words, folder, env):
        self.name, self.words, self.folder, self.env = name, words, folder, env
        self.seconds, self.reached = 0.0, b""

    def passes(self, env, limit):
        """Whether it ends well. The limit is in seconds of processor time, so that other work on the machine is no finding."""
        p = subprocess.Popen(self.words, cwd=self.folder, env={**os.environ, **self.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             start_new_session=True, preexec_fn=lambda: limits(int(limit) + 1))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            failed = pool.submit(lambda: any(re.match(rb"\s*not ok", line) for line in p.stdout))
            try:
                bad = failed.result(WAITS * limit)
            except concurrent.futures.TimeoutError:
                bad = True
            if bad:
                end(p)
        return p.wait() == 0 and not bad

    def record(self, size):
        """Runs it without a change: where it comes, and how long it takes; False if it fails."""
        with tempfile.NamedTemporaryFile() as f:
            f.truncate(size)
            start = time.monotonic()
            if not self.passes({"ANF_REACHED": f.name, "ANF_MUTANT": "0"}, 1800):
                return False
            self.seconds = time.monotonic() - start
            self.reached = f.read()
        return True


def limits(seconds):
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def all_tests(tree):
    build = os.path.join(tree, BUILD)
    ask = json.loads(subprocess.run(["meson", "introspect", build, "--tests"], capture_output=True, check=True).stdout)
    by = {t["name"]: t for t in ask}
    out = [Test(name, by[name]["cmd"], build, by[name]["env"]) for name in TESTS if name in by]
    golden = by["golden"]
    for case in sorted(sum((glob.glob(f"{tree}/test/golden/**/*.{e}", recursive=True) for e in ("anf", "ir", "dat")), [])):
        out.append(Test(os.path.relpath(case, f"{tree}/test"), [*golden["cmd"], "--filter", case], build, golden["env"]))
    return out


def first_failing(tests, m, last):
    """The test that notices a change; what noticed the last one of the file is tried first, then the quickest."""
    mine = sorted((t for t in tests if t.reached[m["number"]]), key=lambda t: (t.name != last, t.seconds))
    for t in mine:
        if not t.passes({"ANF_MUTANT": str(m["number"])}, 20 + 5 * t.seconds):
            return t.name
    return None


def show(state):
    real = [m for m in state if m["by"] not in ("same", "refused")]
    survived = [m for m in real if m["by"] is None]
    for m in sorted(survived, key=key):
        print(f"{m['file']}:{m['line']}: {m['old']}\n    {m['new']}{'' if m.get('tests') else '    (no test comes here)'}")
    print(f"{len(real) - len(survived)} of {len(real)} changes were noticed"
          f" ({len(state) - len(real)} more did not compile or gave the same code)")


def build(tree):
    p = subprocess.run(["ninja", "-C", os.path.join(tree, BUILD)], capture_output=True, text=True, check=False)
    if p.returncode:
        sys.exit(p.stdout[-3000:])


def try_all(tree, plain, changes, state, path):
    """Each change that compiles, several at a time; the state is written after each."""
    tests = all_tests(tree)
    size = max(m["number"] for m in changes) + 1
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        good = list(pool.map(lambda t: t.record(size), tests))
    print("without a change these fail, and are left out:", *(t.name for t, ok in zip(tests, good) if not ok), flush=True)
    tests, last = [t for t, ok in zip(tests, good) if ok], {}

    def one(m):
        m["tests"] = sum(t.reached[m["number"]] for t in tests)
        by = first_failing(tests, m, last.get(m["file"]))
        if by is None and same_code(tree, plain, m):
            by = "same"
        last[m["file"]] = by or last.get(m["file"])
        return m, by

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, m) for m in changes if "by" not in m or m["by"] is None]):
            m, by = done.result()
            m["by"] = by
            if m not in state:
                state.append(m)
            write(path, json.dumps(state, indent=1))
            print(f"{m['file']}:{m['line']}: {by or 'SURVIVED'}: {m['new']}", flush=True)


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the sources are put back
    tree, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    path = os.path.join(tree, BUILD, "state.json")
    state = json.loads(read(path)) if os.path.exists(path) else []
    changes = chosen(tree, state, min(count, mutants.MOST), seed, sys.argv[4:] or FOLDERS)
    plain = {f: read(os.path.join(tree, f)) for f in {m["file"] for m in changes}}
    for k, m in enumerate(changes):
        m["number"] = k + 1
    try:
        home(tree)
        weave(tree, plain, changes)
        state += [m for m in changes if m.get("by") == "refused"]
        build(tree)
        try_all(tree, plain, changes, state, path)
    finally:
        for f, text in plain.items():
            write(os.path.join(tree, f), text)
    show(state)


main()
