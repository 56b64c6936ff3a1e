# SPDX-License-Identifier: Apache-2.0
"""grad_size.py ANFORA FOLDER: how large gradients are after clean-up. For each function whose gradient
a golden case of FOLDER runs, the nodes of `anfora grad` are counted with those of the graphs that it
calls: straight code has at most three times the nodes of the program, what loops, branches and
recurs a fixed number more, for loops, tuples and boxes of what is kept. Speaks TAP."""
import glob
import os
import re
import subprocess
import sys
import tempfile

TIMES, FEW, MANY = 3, 2, 30  # nodes for each of the program's, and besides: straight code, other
NODE = re.compile(r'^  .* = ', re.M)
GRAPH = re.compile(r'^def (\S+?)\((.*?)^}', re.M | re.S)
RUN = re.compile(r'^# run: run (.*--(?:value-and-)?grad.*)\{\}:(\w+)', re.M)


def reachable(graphs, root):
    """The text of the graph and of all that it refers to."""
    seen, todo = {}, [root]
    while todo:
        name = todo.pop()
        if name in seen or name not in graphs:
            continue
        seen[name] = graphs[name]
        todo += re.findall(r'[^\s(),=:]+', graphs[name])
    return list(seen.values())


def size(graphs, root):
    return sum(len(NODE.findall(g)) for g in reachable(graphs, root))


def gradient(anfora, path, name, wrt):
    r = subprocess.run([anfora, 'grad', f'{path}:{name}', *wrt], capture_output=True, text=True)
    return dict(GRAPH.findall(r.stdout)) if r.returncode == 0 else None


def cases(folder):
    for path in sorted(glob.glob(os.path.join(folder, '*.anf'))):
        head = open(path).read().split('\n---\n')[0]
        program = '\n'.join(l for l in head.split('\n') if not l.startswith('#')) + '\n'
        for options, name in sorted(set(RUN.findall(head))):
            wrt = re.findall(r'--wrt \S+', options)
            if '--has-aux' not in options and '--allow-int' not in options:
                yield os.path.basename(path), program, name, wrt[0].split() if wrt else []


def main(anfora, folder):
    count = 0
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, 'program.anf')
        for file, program, name, wrt in cases(folder):
            with open(path, 'w') as f:
                f.write(program)
            graphs = gradient(anfora, path, name, wrt)
            if graphs is None:  # a case of an error
                continue
            primal, dual = size(graphs, name), size(graphs, 'grad_' + name)
            straight = len(reachable(graphs, 'grad_' + name)) == 1
            count += 1
            good = dual <= TIMES * primal + (FEW if straight else MANY)
            print(f'{"ok" if good else "not ok"} {count} - {file}:{name}: {primal} nodes, its gradient {dual}')
    few = count < 50
    print(f'{"not ok" if few else "ok"} {count + 1} - there are cases')
    print(f'1..{count + 1}')


main(*sys.argv[1:])
