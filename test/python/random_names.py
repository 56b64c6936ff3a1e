# SPDX-License-Identifier: Apache-2.0
"""Random Python functions whose arrays change in place and share and exchange names, against CPython: what is compiled gives the same,
the rest is refused. random_names.py FOLDER SEED COUNT [BACKEND] runs programs SEED, SEED + 1, ... and says what differs."""
import collections
import importlib.util
import pathlib
import random
import sys
import tempfile

import numpy as np

NAMES = ["u", "v", "w", "k"]
HEAD = "import numpy as np\n\ndef itself(x):\n    return x\n\ndef f(a):\n    u = a.copy()\n    v = a * 2\n    w = np.zeros(len(a))\n    k = np.ones(len(a))\n    t = 0.0\n"


def block(r, deep, low, high):
    return [line for _ in range(r.randint(low, high)) for line in statement(r, deep)]


def statement(r, deep):
    """Lines of a statement, within `deep` others."""
    (a, b, c), i, j = r.sample(NAMES, 3), r.randrange(3), r.randrange(3)
    simple = [
        (6, [f"{a}[{i}] = {b}[{j}] + {r.randrange(5)}.0"]), (5, [f"{a}, {b} = {b}, {a}"]), (2, [f"{a}, {b}, {c} = {b}, {c}, {a}"]),
        (3, [f"{a} = {b}"]), (2, [f"{a} = {b}.copy()"]), (2, [f"{a} = {b} + {c}"]), (2, [f"t = {a}[{i}]"]), (2, [f"{a}[{i}] += t"]),
        (1, [f"{a} = itself({b})"]), (1, [f"x = {a}", f"{a} = {b}", f"{b} = x"]), (1, [f"{a} += {b}"]), (1, [f"t = {a}.sum()"]),
        (1, [f"t = (lambda: {a}[{i}])()"]), (2, [f"if t > {r.randrange(40)}:", f"    {a} = {b}.copy()"]),
    ]
    kind = r.random()
    if deep > 2 or kind < 0.8:
        return r.choices([lines for _, lines in simple], [weight for weight, _ in simple])[0]
    body = ["    " + line for line in block(r, deep + 1, 1, 3)]
    if kind < 0.93:
        return [f"for i{deep} in range({r.choice(['1', '2', '3', 'len(a) // 16'])}):", *body]
    return [f"if a[{i}] > {r.randrange(1, 4)}.5:", *body, "else:", *("    " + line for line in block(r, deep + 1, 1, 2))]


def program(seed):
    r = random.Random(seed)
    lines = block(r, 0, 3, 8)
    return HEAD + "".join(f"    {line}\n" for line in lines) + f"    return {', '.join(r.sample(NAMES, r.randint(1, 3)))}, t\n"


def outcome(anfora, seed, folder, backend):
    path = pathlib.Path(folder) / f"names_{seed}.py"
    path.write_text(program(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = np.arange(1.0, 4.0 if seed % 2 else 101.0)  # buffers are exchanged from 64 elements on
    want = module.f(x.copy())
    try:
        got = anfora.jit(module.f, backend=backend)(x.copy())
    except (anfora.CompileError, anfora.RunError):
        return "refused"
    return "same" if all(np.allclose(np.asarray(g), w) for g, w in zip(got, want)) else "wrong"


def counted(outcome, anfora, first, count, backend="llvm"):
    """Counts of outcomes, and the seeds of wrong ones."""
    with tempfile.TemporaryDirectory() as folder:
        found = {seed: outcome(anfora, seed, folder, backend) for seed in range(first, first + count)}
    return collections.Counter(found.values()), [s for s, what in found.items() if what == "wrong"]


def run(*given):
    return counted(outcome, *given)


def main(run, program):
    """The command: PACKAGE SEED COUNT [BACKEND]."""
    sys.path.insert(0, sys.argv[1])
    import anfora
    counts, wrong = run(anfora, int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    for seed in wrong[:6]:
        print(f"---- program {seed}\n{program(seed)}")
    print(dict(counts))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(run, program))
