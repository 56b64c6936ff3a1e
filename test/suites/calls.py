# SPDX-License-Identifier: Apache-2.0
"""Calls of functions as Python makes them and by anfora.jit: what the suites of other compilers' tests have in common."""
import argparse
import collections
import contextlib
import copy
import inspect
import io
import re
import signal
import sys
import warnings

import numpy

SECONDS = 15  # for a call


class Late(BaseException):
    pass


def ring(*_):
    raise Late


class Tally:
    """Outcomes by function."""

    def __init__(self, backend, allowed):
        self.backend, self.allowed, self.module, self.same, self.wrong, self.refused = backend, allowed, "", set(), [], set()
        self.reasons = collections.defaultdict(set)  # functions by the message of what refuses them

    def note(self, what, f, text):
        name = f"{self.module}.{f.__name__}"
        if what == "same":
            self.same.add((name, f.__code__.co_firstlineno))
        elif what == "refused":
            self.refused.add((name, f.__code__.co_firstlineno))
            self.reasons[text].add(name)
        elif name not in self.allowed:
            self.wrong.append(name)
            print(f"{what}: {name} {text:.300}".replace("\n", " "), file=sys.__stdout__, flush=True)


def plain(x):
    """Arrays and numbers as their kind, shape and items."""
    if hasattr(x, "__dlpack__") or isinstance(x, (numpy.generic, bool, int, float, complex)):
        x = numpy.asarray(x)
        kind = x.dtype.kind if x.ndim == 0 else x.dtype.str
        return "array", {"u": "i"}.get(kind, kind), x.shape, x.tolist()
    if isinstance(x, (list, tuple)):
        return type(x), *map(plain, x)
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def same(a, b):
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or a != a and b != b or abs(a - b) <= 1e-5 * max(1, abs(a))
    try:
        return bool(a == b)
    except ValueError:
        return False


def outcome(f, args, kw):
    """(whether it gives a value, the value or exception, what it prints)"""
    out = io.StringIO()
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out):
            value = f(*args, **kw)
        return True, value, out.getvalue()
    except (Late, Exception) as e:
        return False, e, ""
    finally:
        signal.alarm(0)


def compared(tally, f, compiled, args, kw):
    """What Python's call gives; the other is compared with it."""
    ours = copy.deepcopy((args, kw))
    given, want, said = outcome(f, args, kw)
    if inspect.isgenerator(want) or callable(want):
        return given, want
    gives, got, says = outcome(compiled, *ours)
    if not gives:
        tally.note("refused" if given else "same", f, re.sub(r"^.*?error: ", "", str(got).split("\n")[0]))
    elif not given:
        tally.note("accepted", f, f"{args!r:.100} gives {got!r:.100}, Python raises {want!r:.100}")
    elif not same(plain(want), plain(got)) or said != says:
        tally.note("wrong", f, f"{args!r:.100} gives {want!r:.100} {said!r:.40} in Python, compiled {got!r:.100} {says!r:.40}")
    else:
        changed = not same(plain(args), plain(ours[0]))
        tally.note("argument" if changed else "same", f, f"{args!r:.120} became {ours[0]!r:.120}")
    return given, want


def main(doc, modules, allowed, load):
    """The command run.py PACKAGE [--floor N] [--backend B] [--refusals N] [MODULE...]; load(tally, PACKAGE) gives what runs a module by its name."""
    p = argparse.ArgumentParser(description=doc)
    p.add_argument("package")
    p.add_argument("modules", nargs="*")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--backend", default="interp")
    p.add_argument("--refusals", type=int, default=0, help="list so many of the messages that refuse most functions")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, ring)
    tally = Tally(a.backend, allowed)
    run = load(tally, a.package)
    for name in a.modules or modules:
        run(name)
        print(f"{name}: {len(tally.same)} functions have a call that is the same so far, {len(tally.refused - tally.same)} are refused alone", flush=True)
    for why, of in sorted(tally.reasons.items(), key=lambda r: -len(r[1]))[:a.refusals]:
        print(f"{len(of)} refused: {why} ({', '.join(sorted(of)[:3])})")
    print(f"{len(tally.same)} the same, {len(tally.refused - tally.same)} refused, {len(tally.wrong)} wrong")
    sys.exit(len(tally.same) < a.floor or bool(tally.wrong))
