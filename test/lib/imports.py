#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which files an import reads: imports.py ANFORA."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tap import Tap  # noqa: E402


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def ask(program, *options):
    p = subprocess.run([sys.argv[1], "run", program + ":main", "2", *options], capture_output=True, text=True, timeout=20,
                       stdin=subprocess.DEVNULL, check=False)
    return p.returncode, p.stdout.strip(), p.stderr


def main():
    tap = Tap()

    def check(good, name):
        tap.case(name, "" if good else "another answer")

    with tempfile.TemporaryDirectory() as top:
        at = lambda *parts: os.path.join(top, *parts)  # noqa: E731
        write(at("net", "a.anf"), 'import "./b.anf" as b\ndef f(x) { b.g(x) + 1 }\ndef h(x) { x * 10 }\n')
        write(at("net", "b.anf"), 'import "../net/./a.anf" as a\ndef g(x) { a.h(x) }\n')
        os.symlink("a.anf", at("net", "link.anf"))
        write(at("main.anf"), 'import "net/a.anf"\nimport "./net/../net/link.anf" as again\n'
                              "def main(x) { a.f(x) + again.f(x) }\n")
        check(ask(at("main.anf"))[:2] == (0, "42"), "one file by three paths, in a cycle")
        write(at("self.anf"), 'import "self.anf" as me\ndef twice(x) { x + x }\ndef main(x) { me.twice(x) }\n')
        check(ask(at("self.anf"))[:2] == (0, "4"), "a file imports itself")
        os.mkfifo(at("pipe"))
        os.mkdir(at("folder"))
        with open(at("large"), "wb") as f:
            f.truncate((64 << 20) + 1)
        for name, path, code in [("a pipe", "pipe", "E0301"), ("a folder", "folder", "E0301"),
                                 ("a device", "/dev/zero", "E0151"), ("standard input", "-", "E0301"),
                                 ("a file of more than 64 MB", "large", "E0301"), ("nothing", "none", "E0301"),
                                 ("a path with NUL", "net/a.anf\\0.anf", "E0150")]:
            write(at("bad.anf"), f'import "{path}" as a\ndef main(x) {{ a.f(x) }}\n')
            status, _, err = ask(at("bad.anf"))
            check(status == 1 and code in err, f"{name} is refused")
            check(name != "a device" or "E0301" in ask(at("bad.anf"), "--imports", "/")[2], f"{name}, where imports lead anywhere")
        write(at("net", "out.anf"), 'import "../plain.anf" as s\ndef main(x) { s.twice(x) }\n')
        write(at("plain.anf"), "def twice(x) { x + x }\n")
        os.symlink(at("plain.anf"), at("net", "inside.anf"))
        write(at("net", "by_link.anf"), 'import "inside.anf" as s\ndef main(x) { s.twice(x) }\n')
        for name in ("out.anf", "by_link.anf"):
            status, _, err = ask(at("net", name))
            check(status == 1 and "E0151" in err, f"{name} leads out of its folder")
            check(ask(at("net", name), "--imports", top)[:2] == (0, "4"), f"{name} may, by the option")
            check(ask(at("net", name), "--imports", "/")[:2] == (0, "4"), f"{name} may lead anywhere")
            check(ask(at("net", name), "--imports", at("ne"))[0] == 1, f"{name}: a folder that is not there")
            check("E0151" in ask(at("net", name), "--imports", at("net"))[2], f"{name}: another folder")
        write(at("twice.anf"), 'import "net/a.anf"\nimport "net/b.anf" as a\ndef main(x) { a.f(x) }\n')
        status, _, err = ask(at("twice.anf"))
        check(status == 1 and "twice.anf:2:8: error E0149" in err, "two imports of one name")
    tap.done()


main()
