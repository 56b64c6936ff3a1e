#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""backends.py ANFORA BACKEND FOLDER... : every golden case and example that runs, runs alike compiled.

What a backend prints, its result and its exit status must be those of the reference interpreter; sums of
adjoints may be taken in another order, which the last digits of a float show. A program that fails must
fail compiled, maybe for another reason: types are known before it runs. A program that cannot be compiled
must say so, and be one of NOT_COMPILED."""
import math
import pathlib
import re
import shlex
import sys
import tempfile

from command import execute
from tap import Tap

anfora, backend, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
# limits count the interpreter's operations
interpreter_only = ('--max-steps', '--max-depth', '--backend', '--json', '--time', '--repeat')
# closures or types that only running tells
NOT_COMPILED = {
    'closure_loop.anf:chain', 'closures.anf:tower', 'compose.anf:main', 'functions_in_tuples.anf:main',
    'loops.anf:first_pair', 'multitype.anf:main', 'shared_tuples.anf:main'}
NUMBER = re.compile(r'-?\d+\.?\d*(?:e[-+]?\d+)?')


def alike(want, got):
    """Equal texts, but for the last digits of floats: what a loop does not change is computed before it, and its
    gradient is then the product of a sum, no longer a sum of products."""
    if want == got:
        return True
    if NUMBER.sub('#', want) != NUMBER.sub('#', got):
        return False
    pairs = zip(NUMBER.findall(want), NUMBER.findall(got))
    return all(a == b or '.' in a and math.isclose(float(a), float(b), rel_tol=1e-6 if len(a) < 12 else 1e-11)
               for a, b in pairs)


def equal(want, got):
    if want[0] == 1 and got[0] in (1, 3):
        return bool(got[2]) == bool(want[2])
    return want[0] == got[0] and alike(want[1], got[1])


def cases(path):
    """(program, lines of arguments) of a golden case or an example"""
    text = path.read_text()
    program = re.split(r'^---$', text, flags=re.M)[0]
    lines = re.findall(r'^# run: run (.*)$', program, re.M)
    lines += [line.replace('examples/' + path.name, '{}') for line in
              re.findall(r'^# try: anfora run (.*)$', program, re.M)]
    return program, [line for line in lines if not any(w in line for w in interpreter_only)]


def run(words, which):
    p = execute([anfora, 'run', *words, '--backend', which])
    return p.returncode, p.stdout, re.findall(r'error (E\d+)', p.stderr)


def function_of(words):
    return next((w for w in words if '.anf' in w), words[0]).split('/')[-1]


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
                    name = function_of(words)
                    want, got = run(words, 'interp'), run(words, backend)
                    refused = got[0] in (1, 3) and want[0] == 0 and bool(got[2])
                    same = refused and function_of(words) in NOT_COMPILED or equal(want, got)
                    tap.case(f'{backend}: {" ".join([name] + [w for w in words if ".anf" not in w])}',
                             '' if same else f'interpreter: {want}\n{backend}: {got}')
    tap.done()


main()
