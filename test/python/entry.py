# SPDX-License-Identifier: Apache-2.0
"""Programs with mistakes (test/random/mistakes.c) through the Python package against the command: the same value, or the
same refusal at the same place, and the same text printed.

    def main(x: f64, v: f64[2, 2], k: i64, c: bool) { print(k); v[k // 0] }      E0401 at 1:63 of both

entry.py PACKAGES RANDOM_MISTAKES ANFORA [FIRST COUNT]"""
import io
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

ARGUMENTS = (1.5, np.array([[0.5, 2.0], [-1.0, 0.25]]), 1, True)
WORDS = ["1.5", "[[0.5, 2.0], [-1.0, 0.25]]", "1", "true"]


def by_command(anfora, path):
    """(printed text, code and place or None, value)"""
    r = subprocess.run([anfora, "run", "--backend", "llvm", "--json", path, *WORDS], capture_output=True, text=True, check=False)
    answer = json.loads(r.stdout)
    if "error" in answer:
        first = answer["error"][0]
        return "", (first["code"], first["line"], first["col"]), None
    return r.stderr.strip(), None, answer["result"]


def by_python(anfora, path):
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        value = anfora.read(path).main(*ARGUMENTS)
        return sys.stdout.getvalue().strip(), None, value
    except (anfora.CompileError, anfora.RunError) as e:
        if e.status in ("ANF_UNSUPPORTED", "ANF_LIMIT"):  # such as code for the value of an integer, which the command makes
            return None
        first = e.findings[0]
        return "", (first.code, first.line, first.col), None
    finally:
        sys.stdout = out


def number(x):
    return float(x) if isinstance(x, str) else x


def alike(want, got):
    """A value of JSON and one of Python."""
    if callable(got):
        return isinstance(want, dict) and "function" in want
    if isinstance(want, dict):
        return isinstance(got, dict) and list(want) == list(got) and all(alike(want[k], got[k]) for k in want)
    if want is None or got is None:
        return want is got
    if isinstance(want, list) and isinstance(got, (tuple, list)):
        return len(want) == len(got) and all(map(alike, want, got))
    if isinstance(want, str) and isinstance(got, str):
        return want == got
    a, b = np.asarray(want, dtype=object), np.asarray(got)
    if b.dtype.kind == "c":  # pairs in JSON
        b = np.stack([b.real, b.imag], -1)
    if a.shape != b.shape or (b.dtype.kind == "b") != all(isinstance(x, bool) for x in a.flat) and a.size:
        return False
    return all(number(x) == y or math.isnan(number(x)) and math.isnan(y) or math.isclose(number(x), y, rel_tol=1e-6)
               for x, y in zip(a.flat, b.astype(float).flat))


def differs(want, got):
    """What is not the same, or None. What is printed before an error that is found early is not."""
    if want[1] != got[1]:
        return f"refusal {want[1]} and {got[1]}"
    if want[1]:
        return None
    if want[0] != got[0]:
        return f"printed {want[0]!r} and {got[0]!r}"
    return None if alike(want[2], got[2]) else f"value {want[2]!r} and {got[2]!r}"


def main():
    packages, mistakes, command = sys.argv[1:4]
    first, count = (int(x) for x in sys.argv[4:6] or (1, 40))
    sys.path.insert(0, packages)
    import anfora
    values, refused, bad = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main.anf")
        for seed in range(first, first + count):
            text = subprocess.run([mistakes, "--show", str(seed)], capture_output=True, text=True, check=True).stdout
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            want = by_command(command, path)
            got = by_python(anfora, path)
            why = differs(want, got) if got else None
            refused += not got
            values += want[1] is None
            bad += why is not None
            if why:
                print(f"# seed {seed}: of the command and of Python: {why}\n# " + text.replace("\n", "\n# "))
    good = not bad and (values - refused) * 8 > count
    print(f"1..1\n{'ok' if good else 'not ok'} 1 - {count} programs through Python: {values} have a value, {refused} are not compiled, {bad} differ")
    sys.exit(not good)


if __name__ == "__main__":
    main()
