#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""backends.py ANFORA BACKEND FOLDER... : every golden case and example that runs, runs alike compiled.

What a backend prints, its result, its errors' codes and its exit status must be those of the reference
interpreter. A program that cannot be compiled must say so (status 3), and be one of `not_compiled`."""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from tap import Tap

anfora, backend, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
# limits count the interpreter's operations; the others nest closures without bound
interpreter_only = ('--max-steps', '--max-depth', '--backend', '--json', '--time', '--repeat')
not_compiled = {'closure_loop.anf:chain', 'self_application.anf:fact', 'self_application.anf:fib'}


def cases(path):
    """(program, lines of arguments) of a golden case or an example"""
    text = path.read_text()
    program = re.split(r'^---$', text, flags=re.M)[0]
    lines = re.findall(r'^# run: run (.*)$', program, re.M)
    lines += [line.replace('examples/' + path.name, '{}') for line in
              re.findall(r'^# try: anfora run (.*)$', program, re.M)]
    return program, [line for line in lines if not any(w in line for w in interpreter_only)]


def run(words, which):
    p = subprocess.run([anfora, 'run', *words, '--backend', which], capture_output=True, text=True,
                       timeout=120)
    return p.returncode, p.stdout, re.findall(r'error (E\d+)', p.stderr)


def main():
    tap = Tap()
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob('*.anf')):
            program, lines = cases(path)
            with tempfile.TemporaryDirectory() as d:
                copy = pathlib.Path(d) / path.name
                copy.write_text(program)
                for line in lines:
                    line = line.replace('{dir}', str(path.parent)).replace('{}', str(copy))
                    words = shlex.split(line)
                    name = words[0].split('/')[-1]
                    want, got = run(words, 'interp'), run(words, backend)
                    refused = got[0] == 3 and want[0] != 3
                    same = refused and name in not_compiled or want == got
                    tap.case(f'{backend}: {" ".join([name] + words[1:])}',
                             '' if same else f'interpreter: {want}\n{backend}: {got}')
    tap.done()


main()
