#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary interface of the shared libraries: abi.py LIBANFORA LIBANFORA_RT [--write].

They export what the headers declare and nothing else, each symbol with the ABI's version, and their own calls do not go
through the table that a host could replace. abidiff (libabigail) compares structures and signatures with the dump of the
last release, libanfora-N.abi.xz of the ABI number N: what a program that was built before would notice needs a new
number. --write makes that dump."""
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from prototypes import prototypes  # noqa: E402
from tap import ROOT, Tap, read, run  # noqa: E402

HEADERS = os.path.join(ROOT, "include")
NUMBER = re.search(r"#define ANF_ABI_VERSION +(\d+)", read(os.path.join(HEADERS, "anfora/base.h")))[1]
DUMP = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"libanfora-{NUMBER}.abi.xz")
VERSION = f"ANFORA_{NUMBER}"
APART = "anfora/mpi.h"  # is exported by libanfora_mpi


def exported(library):
    """{symbol: version}"""
    out = run(["nm", "-D", "--defined-only", library])[0]
    words = [line.split()[-1] for line in out.splitlines() if not re.search(r" [AVW] ", line)]
    return {name: version for name, _, version in (w.partition("@@") for w in words)}


def unlike(library, whole):
    declared, there = {name for header, _, name, _ in prototypes() if header != APART}, exported(library)
    problems = [f"{n} is exported, and no header declares it" for n in sorted(set(there) - declared)]
    problems += [f"{n} is declared and not exported" for n in sorted(declared - set(there)) if whole]
    problems += [f"{n} has the version '{v}', not {VERSION}" for n, v in sorted(there.items()) if v != VERSION]
    return "\n".join(problems)


def replaceable(library):
    """Own functions that are called through the table of symbols."""
    slots = re.findall(r"JUMP_SLO\w* .*? (anf_\w+)", run(["readelf", "-rW", library])[0])
    return "\n".join(f"{name} is called through a slot" for name in slots)


def dump_of(library):
    words = ["abidw", "--headers-dir", HEADERS, "--drop-private-types", "--no-show-locs", "--no-corpus-path",
             "--no-comp-dir-path", library]
    return subprocess.run(words, capture_output=True, check=True).stdout


def changes(library):
    """What abidiff finds; added functions and options at the end of a structure are no change."""
    with tempfile.NamedTemporaryFile(suffix=".abi") as before:
        with lzma.open(DUMP) as f:
            before.write(f.read())
        before.flush()
        words = ["abidiff", "--headers-dir2", HEADERS, "--drop-private-types", "--no-added-syms", before.name, library]
        r = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    incompatible = r.returncode & 8 or r.returncode & 3  # the bits of its status: incompatible, error, usage
    hint = f"raise ANF_ABI_VERSION and the version in include/anfora.map, then {os.path.relpath(__file__, ROOT)} --write"
    return f"{r.stdout}{r.stderr}\n{hint}" if incompatible else ""


def main():
    library, runtime = sys.argv[1:3]
    if "--write" in sys.argv:
        with lzma.open(DUMP, "wb", preset=9) as f:
            f.write(dump_of(library))
        return
    tap = Tap()
    tap.case("libanfora exports what the headers declare", unlike(library, True))
    tap.case("libanfora_rt exports nothing else", unlike(runtime, False))
    tap.case("calls within libanfora are its own", replaceable(library))
    if not shutil.which("abidiff"):
        tap.skip("programs built before still fit", "no abidiff: install abigail-tools")
    elif not os.path.exists(DUMP):
        tap.skip("programs built before still fit", f"ABI {NUMBER} has not been released")
    else:
        tap.case("programs built before still fit", changes(library))
    tap.done()


if __name__ == "__main__":
    main()
