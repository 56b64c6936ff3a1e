# SPDX-License-Identifier: Apache-2.0
"""grad_size.py ANFORA FOLDER: how large gradients are after clean-up. For each function whose gradient
a golden case of FOLDER runs, the nodes of `anfora grad` are counted with those of the graphs that it
calls: straight code has at most three times the nodes of the program, what loops, branches and
recurs a fixed number more, for loops, tuples and boxes of what is kept. Of generated programs: bodies of
30 and more operations, in loops, recursions, branches and closures, have at most three times the
operations, and some more nodes, which take what was kept out of tuples; second order has at most five
times the nodes of the first; an MLP
of L layers has 3 L - 1 matrix products with its gradient, and the graphs of a gradient do not become
more with the weights that a recursion in a loop passes on. Speaks TAP."""
import glob
import os
import re
import sys
import tempfile

from command import execute

TIMES, FEW, MANY = 3, 2, 16  # nodes for each of the program's, and besides: straight code, other
AGAIN = 5  # times the nodes of a gradient, for second order
RUNS = 3  # times MANY where a checkpoint has loops of its own for blocks of rounds, and counts what is left of them
NODE = re.compile(r'^  .* = ', re.M)
TAKEN = re.compile(r'^  .* = TupleGet\(', re.M)
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


def taken(graphs, root):
    """Nodes that take an item out of a tuple."""
    return sum(len(TAKEN.findall(g)) for g in reachable(graphs, root))


def gradient(anfora, path, name, options):
    r = execute([anfora, 'grad', f'{path}:{name}', *options])
    return dict(GRAPH.findall(r.stdout)) if r.returncode == 0 else None


def cases(folder):
    for path in sorted(glob.glob(os.path.join(folder, '*.anf'))):
        head = open(path).read().split('\n---\n')[0]
        program = '\n'.join(l for l in head.split('\n') if not l.startswith('#')) + '\n'
        for options, name in sorted(set(RUN.findall(head))):
            wrt = re.findall(r'--wrt \S+', options)
            if '--has-aux' not in options and '--allow-int' not in options:
                yield os.path.basename(path), program, name, wrt[0].split() if wrt else []


def body_of(program, name):
    return re.search(rf'^def {name}\(.*?(?=^def |\Z)', program, re.M | re.S)[0]


def mlp(layers):
    """Its sizes differ from layer to layer."""
    params = [f'w{i}: f32[{i + 2}, {i + 3}], b{i}: f32[{i + 3}]' for i in range(layers)]
    steps = [f'x = Tanh(MatMul(x, w{i}) + b{i})' for i in range(layers)]
    return f"def f(x: f32[8, 2], {', '.join(params)}) {{ {'; '.join(steps)}; Mean(x * x) }}\n"


def recursion_of(weights):
    """A recursion, called in a loop, that takes its weights in two orders and indexes them."""
    w = [f'w{i}' for i in range(weights)]
    params, args, turned = ', '.join(f'{x}: f64[3]' for x in w), ', '.join(w), ', '.join(w[1:] + w[:1])
    item = ' + '.join(f'{x}[i]' for x in w)
    return (f'def r({params}, i: i64, x: f64) {{ if i == 0 {{ x }} else {{ ({item}) * r({args}, i - 1, x) }} }}\n'
            f'def f({params}, n: i64) {{ s = 1.0\n'
            f'  for i in 0..n {{ s = r({args}, i, s) + r({turned}, i, s) * ({item}) }}; s }}\n')


def body(times):
    """Operations on a and b, which give others."""
    lines = []
    for i in range(times):
        lines += [f'p{i} = Sin(a) * b + Cos(b) * a', f'q{i} = Exp(-p{i}) + a * b', f'r{i} = p{i} * q{i} + Log(1.0 + q{i} * q{i})',
                  f't{i} = r{i} / (1.0 + q{i} * q{i}) + b * p{i}', f'u{i} = Tanh(t{i}) * a + Sin(r{i}) * b',
                  f'v{i} = u{i} * p{i} - q{i} * r{i} + Sin(t{i})', f'a = 0.5 * a + 0.1 * u{i}', f'b = Cos(v{i}) + 0.1 * b']
    return '; '.join(lines)


def recursive(name, rest):
    return f'def {name}(a: f64, b: f64, n: i64) {{ if n < 2 {{ a * b }} else {{ {rest} }} }}\n'


def of_body(text):
    """Programs around a body, and how many times their nodes the gradient may have."""
    start = 'def f(x: f64, n: i64) { a = x; b = x * x; '
    call = 'def f(x: f64, n: i64) { r(x, x * x, n) }\n'
    return {
        'a loop': (3.3, f'{start} for i in 0..n {{ {text} }}; a * b }}\n'),
        'a loop until': (3.3, f'{start} while Abs(a) < 4.0 {{ {text} }}; a * b }}\n'),
        'a loop in a loop': (3.5, f'{start} for i in 0..n {{ {text}; for j in 0..i {{ {text} }} }}; a * b }}\n'),
        'a loop that is left': (3.6, f'{start} for i in 0..n {{ {text}; if a > 3.0 {{ break }} }}; a * b }}\n'),
        'a branch': (3.1, f'{start} if x > 0.5 {{ {text}; a * b }} else {{ {text}; a - b }} }}\n'),
        'a branch in a loop':
            (3.3, f'{start} for i in 0..n {{ if a > b {{ {text} }} else {{ a = a * b; {text} }} }}; a * b }}\n'),
        'a call at the end': (3.3, recursive('r', f'{text}; r(a, b, n - 1)') + call),
        'a recursion': (3.7, recursive('r', f'{text}; c = r(a, b, n - 1); c * a + b') + call),
        'a recursion of two calls': (3.7, recursive('r', f'{text}; r(a, b, n - 1) * r(b, a, n - 2)') + call),
        'two recursions':
            (3.8, recursive('r', f'{text}; a * s(b, a, n - 1)') + recursive('s', f'{text}; b * r(a, b, n - 1)') + call),
        'closures': (3.9, f'def f(x: f64, n: i64) {{ g = if n > 3 {{ fn (a, b) {{ {text}; a * b + x }} }} else '
                          f'{{ fn (a, b) {{ {text}; a - b * x }} }}; g(x, x * x) * g(x + 1.0, x) }}\n'),
    }


def of_bodies(of):
    for times in 1, 2, 4:
        for what, (limit, program) in of_body(body(times)).items():
            graphs = of(program)
            n, m = size(graphs, 'f'), size(graphs, 'grad_f')
            k, l = n - taken(graphs, 'f'), m - taken(graphs, 'grad_f')
            second = size(of(program + 'def g(x: f64, n: i64) { grad(f)(x, n) }\n', name='g'), 'grad_g')
            good = l <= TIMES * k and m <= limit * n and second <= AGAIN * m
            yield good, f'a body in {what}: {k} operations of {n} nodes, gradient {l} of {m}, of second order {second} nodes'


def generated(anfora, path):
    """(is it as it should be, what was found), for each program."""
    def of(program, *options, name='f'):
        with open(path, 'w') as f:
            f.write(program)
        return gradient(anfora, path, name, options)

    yield from of_bodies(of)

    for layers in range(1, 9):
        wrt = ','.join(f'w{i},b{i}' for i in range(layers))
        products = of(mlp(layers), '--value', '--wrt', wrt)['value_and_grad_f'].count(' MatMul(')
        yield products == 3 * layers - 1, f'an MLP of {layers} layers with its gradient: {products} products'
    few = None
    for weights in range(1, 7):
        graphs = len(of(recursion_of(weights), '--wrt', ','.join(f'w{i}' for i in range(weights))))
        few = few or graphs
        yield graphs == few, f'a recursion of {weights} weights in a loop: {graphs} graphs with its gradient'


def main(anfora, folder):
    count = 0
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, 'program.anf')
        for good, found in generated(anfora, path):
            count += 1
            print(f'{"ok" if good else "not ok"} {count} - {found}')
        for file, program, name, wrt in cases(folder):
            with open(path, 'w') as f:
                f.write(program)
            graphs = gradient(anfora, path, name, wrt)
            if graphs is None:  # a case of an error
                continue
            primal, dual = size(graphs, name), size(graphs, 'grad_' + name)
            straight = len(reachable(graphs, 'grad_' + name)) == 1
            count += 1
            besides = FEW if straight else MANY * (RUNS if 'checkpoint(' in body_of(program, name) else 1)
            good = dual <= TIMES * primal + besides
            print(f'{"ok" if good else "not ok"} {count} - {file}:{name}: {primal} nodes, its gradient {dual}')
    few = count < 50
    print(f'{"not ok" if few else "ok"} {count + 1} - there are cases')
    print(f'1..{count + 1}')


main(*sys.argv[1:])
