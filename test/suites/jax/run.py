# SPDX-License-Identifier: Apache-2.0
"""run.py PACKAGE TESTS [--floor N] [--filter WORD] [--backend llvm] [--cases N] [FILE...]: JAX's own tests with the functions that Anfora
has in place of JAX's (exchange.py). A test counts if it calls one of them and does not look inside of JAX. Each file is run by a
process of its own, and again from the next test where that one ends. --table FILE has a line for each test."""
import argparse
import collections
import os
import re
import resource
import signal
import subprocess
import sys
import traceback
import unittest
import warnings

FILES = ["lax_numpy_reducers_test", "lax_numpy_operators_test", "lax_numpy_test", "lax_test", "lax_control_flow_test", "lax_autodiff_test"]


class Late(BaseException):
    """A test took too long."""


def late(*_):
    raise Late


def tests_of(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from tests_of(t)
        else:
            yield t


def kind(e, seen):
    """How a test failed, as a word."""
    import exchange
    text = str(e)
    if isinstance(e, unittest.SkipTest):
        return "skipped"
    if isinstance(e, exchange.Own) or not seen:
        return "inside"
    if isinstance(e, exchange.Absent):
        return "absent"
    if isinstance(e, Late):
        return "late"
    if isinstance(e, AssertionError) and type(e).__name__ != "RunError":  # which is a refusal, in words
        if "it is accepted" in text:
            return "accepted"
        if "dtype" in text and "!=" in text:
            return "type"
        if "(shapes" in text or "Tuples differ" in text or re.match(r"\(.*\) != \(", text):
            return "shape"
        return "wrong"
    return "refused"


def one(test, seconds, verbose):
    """(how it ended, why) of a test."""
    import exchange
    exchange.Seen.ours = False
    errors = []

    class Result(unittest.TestResult):
        def addError(self, _test, err):
            errors.append(err[1])
        addFailure = addError

        def addSkip(self, _test, reason):
            errors.append(unittest.SkipTest(reason))
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 3 * seconds + 1, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        test.run(Result())
    except Late as e:
        errors.append(e)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if not errors:
        return ("passed" if exchange.Seen.ours else "others"), ""
    if verbose:
        traceback.print_exception(errors[0])
    return kind(errors[0], exchange.Seen.ours), f"{type(errors[0]).__name__}: {errors[0]}"


def child(o, name):
    """Runs the tests of a file from the number o.start on, with a line for each."""
    os.environ |= {"JAX_NUM_GENERATED_CASES": str(o.cases), "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
    warnings.simplefilter("ignore")
    sys.path[:0] = [os.path.abspath(o.package), os.path.dirname(os.path.abspath(__file__))]
    import anfora._ops
    anfora.set_default_dtype("f64")
    if o.backend == "interp":
        anfora._ops.FEW = 10 ** 6  # interpreted, which needs no code for each of their shapes
    import exchange
    exchange.Seen.backend = o.backend
    argv, sys.argv = sys.argv, sys.argv[:1]
    module = exchange.load(name, os.path.abspath(o.tests))
    sys.argv = argv
    signal.signal(signal.SIGPROF, late)
    tests = [t for t in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)) if o.filter in t.id()]
    for i, t in list(enumerate(tests))[o.start::o.every]:
        print(f"begin\t{i}\t{t.id()}", flush=True)
        what, why = one(t, o.seconds, o.verbose)
        print(f"end\t{what}\t{' '.join(why.split())[:400]}", flush=True)
    print("all", flush=True)


def run(o, name, count):
    """Runs a file in as many processes as it takes."""
    start, why_not = o.start, 0
    while True:
        given = [sys.executable, "-W", "ignore", __file__, o.package, o.tests, "--child", "--start", str(start), "--filter", o.filter, "--backend", o.backend,
                 "--cases", str(o.cases), "--every", str(o.every), "--seconds", str(o.seconds), *(["--verbose"] if o.verbose else []), name]
        p = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE if not o.verbose else None, encoding="utf-8", errors="replace")
        begun = None
        for line in p.stdout:
            word, *rest = line.rstrip("\n").split("\t")
            if word == "begin":
                begun = rest
            elif word == "end":
                count(name, begun[1], *rest)
                start, begun = int(begun[0]) + o.every, None
            elif word == "all":
                why_not = -1
        p.wait()
        if why_not < 0:
            return
        if begun is None:
            raise SystemExit(f"{name} does not load; --verbose says why")
        count(name, begun[1], "died", f"status {p.returncode}")
        start = int(begun[0]) + o.every


def main():
    p = argparse.ArgumentParser()
    p.add_argument("package")
    p.add_argument("tests")
    p.add_argument("--floor", type=int, default=0)
    p.add_argument("--filter", default="")
    p.add_argument("--backend", default="interp")
    p.add_argument("--cases", type=int, default=2)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--seconds", type=int, default=10, help="of CPU, for a test")
    p.add_argument("--start", type=int, default=0)
    p.add_argument("--child", action="store_true")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--table")
    p.add_argument("files", nargs="*", default=FILES)
    o = p.parse_intermixed_args()
    if o.child:
        return child(o, o.files[0])
    counts = collections.Counter()
    table = open(o.table or os.devnull, "w", encoding="utf-8")  # noqa: SIM115: to the end

    def count(file, test, what, why):
        counts[what] += 1
        print(what, file, test, why, sep="\t", file=table, flush=True)
        if what not in ("passed", "others", "skipped", "inside"):
            print(f"{what}: {test.split('.', 1)[-1]} {why[:200]}", flush=True)
    for name in o.files:
        run(o, name, count)
    left = sum(counts[n] for n in ("others", "skipped", "inside"))
    failed = {n: c for n, c in counts.items() if n not in ("passed", "others", "skipped", "inside")}
    print(f"{counts['passed']} pass, {sum(failed.values())} do not ({', '.join(f'{n} {c}' for n, c in sorted(failed.items()))}); left out are {left}; "
          f"the floor is {o.floor}")
    return not o.filter and counts["passed"] < o.floor


if __name__ == "__main__":
    sys.exit(main())
