# SPDX-License-Identifier: Apache-2.0
"""Cases of a test program that speaks TAP (Test Anything Protocol)."""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Tap:
    """Numbers the cases, prints a verdict a line, and tells at the end how many there were."""

    def __init__(self):
        self.count = self.failed = 0

    def case(self, name, problem=""):
        """A case passed if `problem` is empty; else it says what is wrong."""
        self.count += 1
        self.failed += bool(problem)
        print(f"{'not ok' if problem else 'ok'} {self.count} - {name}")
        for line in problem.splitlines()[:60]:
            print(f"#   {line}")
        sys.stdout.flush()

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}")

    def done(self):
        """Prints the plan and ends the program."""
        if not self.count:
            self.case("there is something to test", "no case was found")
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)


def run(words, status=0, cwd=None, env=None, seconds=120):
    """Runs a program; returns its standard output and what is wrong with how it ended ("": nothing)."""
    try:
        r = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", cwd=cwd, timeout=seconds, check=False,
                           env=None if env is None else {**os.environ, **env})
    except subprocess.TimeoutExpired:
        return "", f"{words[0]} ran longer than {seconds} seconds"
    if r.returncode == status:
        return r.stdout, ""
    return r.stdout, f"{' '.join(words)}\nstatus {r.returncode}, not {status}\n{r.stdout}{r.stderr}"


def valgrind_finds(tap, watched, command, folder, build):
    """A case: valgrind finds nothing in what `build(*options)` makes, for a processor with what valgrind knows of this
    one's: no AVX-512, nor what one maker's processors alone have."""
    name = "valgrind finds nothing"
    if watched or not shutil.which("valgrind"):
        tap.skip(name, "the program is watched by a sanitizer" if watched else "no valgrind")
        return
    has = read("/proc/cpuinfo").split() if os.path.exists("/proc/cpuinfo") else []
    level = "x86-64-v3" if "avx2" in has else "x86-64-v2" if "sse4_2" in has else ""
    older = ["--cpu", level] if level else []
    watch = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", *command]
    tap.case(name, older and build(*older) or run(watch, cwd=folder, seconds=300)[1])


def public_headers():
    """Names such as anfora/ir.h, in order."""
    folder = os.path.join(ROOT, "include", "anfora")
    return [f"anfora/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".h")]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()
