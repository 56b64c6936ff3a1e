# SPDX-License-Identifier: Apache-2.0
"""Random Python functions that write parts of arrays from other parts of them, as stencils do: slices that overlap (`x[1:] = x[:-1]`),
with steps and backwards, slices of slices, rows and columns, two arrays that are exchanged, conditions within loops, and values that are
read after a write or after the loop. Against CPython: what is compiled gives the same, the rest is refused. Of every third program also
the gradient and what vmap gives, compiled against interpreted.
random_parts.py FOLDER SEED COUNT [BACKEND] runs programs SEED, SEED + 1, ... and says what differs."""
import importlib.util
import pathlib
import random
import re
import sys

import numpy as np
import random_names

NAMES = ["u", "v", "w"]
HEAD = "import numpy as np\n\ndef f(a):\n    u = a.copy()\n    v = a * 0.5 + 1\n    w = np.zeros_like(a)\n    t = 0.0\n"


def span(r, n, length):
    """A slice of `length` of an axis of n elements."""
    step = r.choice([1, 1, 1, 1, 2, -1, -2])
    room = n - (length - 1) * abs(step)
    if room < 1:
        step, room = 1, n - length + 1
    low = r.randrange(room)
    high = low + (length - 1) * abs(step)
    if step > 0:
        begin = str(low) if low or r.random() < 0.3 else ""
        end = "" if high == n - 1 and r.random() < 0.7 else str(high + 1 - n) if high < n - 1 and r.random() < 0.4 else str(high + 1)
        return f"{begin}:{end}" + (f":{step}" if step > 1 else "")
    begin = "" if high == n - 1 and r.random() < 0.7 else str(high)
    return f"{begin}:{str(low - 1) if low else ''}:{step}"


def part(r, name, shape, sizes, often=0.12):
    """A slice of an array with these sizes, sometimes one of a slice."""
    if r.random() < often and shape[0] > sizes[0]:
        inner = (r.randint(sizes[0], shape[0]), *shape[1:])
        return part(r, part(r, name, shape, inner, often), inner, sizes, often)
    return f"{name}[{', '.join(span(r, n, k) for n, k in zip(shape, sizes))}]"


def place(r, name, shape):
    return f"{name}[{', '.join(str(r.randrange(-n, n)) for n in shape)}]"


def value(r, target, shape, sizes):
    """An expression of arrays of these sizes, mostly of parts of the array that is written."""
    terms = [part(r, target if r.random() < 0.6 else r.choice(NAMES), shape, sizes) for _ in range(r.choice([1, 1, 2, 2, 3]))]
    text = terms[0]
    for term in terms[1:]:
        text += r.choice([" + ", " - ", " * 0.25 + "]) + term
    return r.choice([text, text, f"({text}) * 0.5", f"{text} + t", f"np.maximum({text}, 0.5)"])


def statement(r, shape, deep):
    (a, b), sizes = r.sample(NAMES, 2), tuple(r.randint(1, n) for n in shape)
    if r.random() < 0.3:
        sizes = tuple(max(1, n - r.randint(0, 2)) for n in shape)
    kind = r.random()
    if kind < 0.42 or (deep > 1 and kind > 0.8):
        written = part(r, a, shape, sizes, 0.01)  # slices of slices are refused there
        return [f"{written} {r.choice(['=', '=', '=', '+=', '-='])} {value(r, a, shape, sizes)}"]
    if kind < 0.5:
        row = r.randrange(-shape[0], shape[0])
        other = r.randrange(shape[0])
        return [f"{a}[{row}] = {r.choice([a, b])}[{other}]{r.choice(['', ' * 0.5', ' + t'])}"]
    if kind < 0.72:
        return [r.choice([f"{a}, {b} = {b}, {a}", f"{a} = {b}.copy()", f"{a} = {a} * 0.5 + {b}", f"t = {place(r, a, shape)}",
                          f"t = {part(r, a, shape, sizes)}.sum() * 0.125", f"{place(r, a, shape)} = t + 1", f"{a}[:] = {b}",
                          f"{part(r, a, shape, sizes, 0)} = {r.randrange(4)}"])]
    body = ["    " + line for _ in range(r.randint(1, 3)) for line in statement(r, shape, deep + 1)]
    if kind < 0.9:
        return [f"for i{deep} in range({r.choice([1, 2, 3, 5])}):", *body]
    if kind < 0.95:
        i, n = f"i{deep}", shape[0]
        back = r.random() < 0.5
        step = f"{a}[{i}] = {a}[{i} - 1] * 0.5 + {b}[{i}]" if not back else f"{a}[{i}] = {a}[{i}] + {a}[{i} + 1] * 0.5"
        return [f"for {i} in range({'1, ' + str(n) if not back else str(n - 2) + ', -1, -1'}):", f"    {step}"]
    return [f"if {place(r, a, shape)} > {r.choice(['0.5', '1.5', 't'])}:", *body]


def program(seed):
    r = random.Random(seed)
    shape = size(seed)
    lines = [line for _ in range(r.randint(3, 7)) for line in statement(r, shape, 0)]
    return HEAD + "".join(f"    {line}\n" for line in lines) + f"    return {', '.join(r.sample(NAMES, r.randint(1, 3)))}, t\n"


def size(seed):
    """Buffers are written in place from 64 elements on; some arrays have fewer."""
    return [(9,), (80,), (9, 10), (16, 6), (4, 3), (70,)][seed % 6]


def near(got, want):
    return np.shape(got) == np.shape(want) and np.allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9, equal_nan=True)


def by_numpy(seed):
    """The program as CPython runs it. What is written is copied first: NumPy 1.24 overwrites what v[3::2] = v[26:-10] has still to read."""
    scope = {}
    exec(re.sub(r"(\] = \w+\[[^=]*\])$", r"\1.copy()", program(seed), flags=re.M), scope)
    return scope["f"]


def derived(anfora, f, numpy_f, x, backend):
    """The gradient of a sum of results, and the function on three arrays; what that must be."""
    def total(x):
        *arrays, t = f(x)
        s = t
        for a in arrays:
            s = s + (a * a).sum()
        return s
    xs = np.stack([x, x * 0.5, 1 - x])
    return [anfora.jit(anfora.grad(total), backend=backend)(x), *anfora.jit(anfora.vmap(f), backend=backend)(xs)], [numpy_f(y.copy()) for y in xs]


def outcome(anfora, seed, folder, backend):
    path = pathlib.Path(folder) / f"parts_{seed}.py"
    path.write_text(program(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = np.random.default_rng(seed).uniform(0, 2, size(seed))
    numpy_f = by_numpy(seed)
    want = numpy_f(x.copy())
    refused = (anfora.CompileError, anfora.RunError)
    try:
        got = anfora.jit(module.f, backend=backend)(x.copy())
    except refused:
        return "refused"
    if not all(near(g, w) for g, w in zip(got, want)):
        return "wrong"
    if seed % 3:
        return "same"
    try:
        (slope, *lanes), each = derived(anfora, module.f, numpy_f, x, backend)
        (other, *_), _ = derived(anfora, module.f, numpy_f, x, "interp")
    except refused:
        return "same, not derived"
    same = near(slope, other) and all(near(lane, np.stack(want)) for lane, want in zip(lanes, zip(*each)))
    return "same" if same else "wrong"


def run(*given):
    return random_names.counted(outcome, *given)


if __name__ == "__main__":
    sys.exit(random_names.main(run, program))
