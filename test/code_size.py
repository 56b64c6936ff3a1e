# SPDX-License-Identifier: Apache-2.0
"""code_size.py ANFORA: long programs are lowered to code that code generators compile in linear time. Of programs with n and
4 n lines, and of their gradients, what the passes for engines give (`codegen`) grows by no more than its lines, and none of
its functions grows: LLVM takes more than linear time for a function. (Code that is
split loads and stores what its parts share, which the smaller programs need not: hence a growth of 7.) A loop of few turns with `Sin` in it is one function,
however many there are. What layers have in common is one function: the shuffles that transpose, and loops that may stop the program, each at a
site of its own. No clock. Speaks TAP."""
import os
import re
import subprocess
import sys
import tempfile

N, TIMES, LARGEST = 120, 7, 2000  # lines of the smaller program; growth; lines of a function
FUNC = re.compile(r'^func (\w+)\(.*?^}', re.M | re.S)


def lines(n, text):
    return '; '.join(text.format(i=i, j=i * 7 % n) for i in range(n))


PROGRAMS = {
    'divisions by a sum': lambda n: f'def f(x: f64[4]) {{ y = x; {lines(n, "y = y / Sum(y * y)")}; Sum(y) }}',
    'loops': lambda n: f'def f(x: f64[9]) {{ s = 0.0; {lines(n, "for i in 0..9 {{ s = s * 0.9 + Sin(x[i]) }}")}; s }}',
    'branches': lambda n: 'def f(x: f64[4]) { y = x; ' + lines(
        n, 'if Sum(y) > {i}.0 {{ y = y * y + 0.1 }} else {{ y = y * 0.9 - x }}') + '; Sum(y) }',
    'writes': lambda n: f'def f(x: f64[{n}]) {{ y = x; {lines(n, "y = IndexWrite(y, {i}, y[{j}] * x[{i}])")}; Sum(y) }}',
    'reads': lambda n: f'def f(x: f64[{n}]) {{ s = 0.5; {lines(n, "s = s * x[{i}] + x[{j}]")}; s }}',
    'sines of vectors': lambda n: f'def f(x: f64[4]) {{ y = x; {lines(n, "y = Sin(y) * Sum(y)")}; Sum(y) }}',
}

# program, what its code holds, how often at most
SHARED = {
    'squares that are transposed': (
        'def f(x: f32[1, 64, 14, 14], a: f32[64, 64, 3, 3], b: f32[128, 64, 3, 3], c: f32[32, 128, 3, 3]) {\n'
        '  y = Conv2D(Conv2D(x, a, padding=1), b, padding=1)\n  Conv2D(y, c, padding=1)\n}', r'shuffle<f32x8>', 4 * 24),
    'loops that check indices': (
        'def f(x: f32[40, 70], i: i32[40], w: f32[70, 70]) {\n  y = x\n' + '  y = Sin(Take(y @ w, i, axis=0))\n' * 24 + '  y\n}',
        r'anf_rt_stop\(', 2),
}


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f'{" ".join(command)}: {r.stderr}')
    return r.stdout


def code(anfora, folder, program, gradient):
    """The functions that an engine compiles, by name."""
    source, derived, lowered = (os.path.join(folder, name) for name in ('p.anf', 'g.ir', 'l.tir'))
    with open(source, 'w') as f:
        f.write(program + '\n')
    if gradient:
        run(anfora, 'grad', source + ':f', '-o', derived)
    run(anfora, 'print', '--as', 'tir', derived + ':grad_f' if gradient else source + ':f', '-o', lowered)
    text = run(anfora, 'opt', lowered, '-p', 'codegen')
    return {m[1]: m[0].count('\n') for m in FUNC.finditer(text)}, text


def main(anfora):
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, program in PROGRAMS.items():
            for gradient in (False, True) if name.startswith('sines') else (True,):
                (few, _), (many, text) = (code(anfora, folder, program(n), gradient) for n in (N, 4 * N))
                grows, largest = sum(many.values()) / sum(few.values()), max(many.values())
                good = grows <= TIMES and largest <= LARGEST
                if not gradient:
                    good = good and text.count('anf_sin64(') <= 4
                count += 1
                print(f'{"ok" if good else "not ok"} {count} - {name}{", gradient" if gradient else ""}: '
                      f'{4 * N} lines give {grows:.2f} times the code of {N}, the largest function {largest} lines')
        for name, (program, what, most) in SHARED.items():
            found = len(re.findall(what, code(anfora, folder, program, False)[1], re.M))
            count += 1
            print(f'{"ok" if found <= most else "not ok"} {count} - {name}: {found} in place of at most {most}')
    print(f'1..{count}')


main(*sys.argv[1:])
