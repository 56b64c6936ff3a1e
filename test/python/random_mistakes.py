# SPDX-License-Identifier: Apache-2.0
"""Random Python functions (random_programs.py) with what people get wrong: a name, a number, an operator, an argument, a statement is
another, is missing or is there twice. Where Python gives a value, so does compiled code, or it is refused; where Python raises,
compiled code raises or is refused. Alone: random_mistakes.py FOLDER SEED COUNT."""
import ast
import collections
import copy
import os
import random
import sys
import tempfile
import traceback

import numpy as np
import random_programs

NUMBERS = [0, 1, -1, 2, 7, 2.5, -0.5, 1e300, True, False, None, "a", 2**40, (), (1, 2), []]
OPERATORS = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.MatMult]
COMPARISONS = [ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.In]
FUNCTIONS = ["np.sum", "np.sin", "np.sqrt", "np.dot", "np.mean", "np.stack", "np.where", "np.clip", "np.argmax", "np.cumsum", "np.sort",
             "np.concatenate", "len", "abs", "sum", "max", "min", "float", "int", "bool", "list", "tuple", "round", "sorted", "zip"]


def constant(r):
    return ast.parse(repr(r.choice(NUMBERS)), mode="eval").body


def name(r, tree):
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {"unknown"})
    return ast.Name(r.choice(names), ast.Load())


def change_call(r, node):
    how = r.randrange(4)
    if how == 0 and node.args:
        node.args.pop(r.randrange(len(node.args)))
    elif how == 1:
        node.args.insert(r.randrange(len(node.args) + 1), constant(r))
    elif how == 2:
        r.shuffle(node.args)
    else:
        node.func = ast.parse(r.choice(FUNCTIONS), mode="eval").body


def change_expression(r, tree):
    """Changes one expression where it stands. False: the one that was met has no other form."""
    node = r.choice([n for n in ast.walk(tree) if isinstance(n, (ast.BinOp, ast.Compare, ast.Call, ast.BoolOp, ast.IfExp, ast.Subscript,
                                                               ast.Return, ast.Assign, ast.AugAssign))] or [tree])
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and r.random() < 0.5:
        node.op = r.choice(OPERATORS)()
    elif isinstance(node, ast.Compare) and r.random() < 0.6:
        node.ops[0] = r.choice(COMPARISONS)()
    elif isinstance(node, ast.Call) and r.random() < 0.7:
        change_call(r, node)
    else:
        fields = [(f, v) for f, v in ast.iter_fields(node) if isinstance(v, ast.expr) and not isinstance(v, ast.Slice) and isinstance(getattr(v, "ctx", ast.Load()), ast.Load)]
        if not fields:
            return False
        field, old = r.choice(fields)
        setattr(node, field, r.choice([constant(r), name(r, tree), ast.List([old], ast.Load()), ast.Tuple([old, constant(r)], ast.Load()),
                                       ast.UnaryOp(ast.USub(), old), ast.Subscript(old, constant(r), ast.Load())]))
    return True


def change_statement(r, tree):
    """Drops, repeats or moves a statement."""
    body = r.choice([b for n in ast.walk(tree) for b in (getattr(n, "body", None), getattr(n, "orelse", None)) if isinstance(b, list) and b])
    i = r.randrange(len(body))
    how = r.randrange(3)
    if how == 0 and len(body) > 1:
        body.pop(i)
    elif how == 1:
        body.insert(i, copy.deepcopy(body[i]))
    else:
        r.shuffle(body)
    return True


def use_all(f):
    """All that the function's outermost statements assign becomes a part of its result: what nothing uses is not computed."""
    names = {t.id for s in f.body if isinstance(s, ast.Assign) for t in ast.walk(s.targets[0]) if isinstance(t, ast.Name) and t.id != "_"}
    f.body[-1].value = ast.Tuple([f.body[-1].value, *(ast.Name(n, ast.Load()) for n in sorted(names))], ast.Load())


def with_mistakes(text, seed):
    r = random.Random(seed)
    tree = ast.parse(text)
    use_all(tree.body[0])
    for _ in range(r.choice([1, 1, 2])):
        for _ in range(8):
            if (change_expression if r.random() < 0.8 else change_statement)(r, tree.body[0]):
                break
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


LINES = 100_000  # that Python may run


class Endless(Exception):
    """A mistake in the counter of a loop, probably."""


def limited():
    """A trace function that ends what runs more than LINES lines."""
    left = [LINES]

    def trace(_frame, event, _arg):
        left[0] -= event == "line"
        if left[0] < 0:
            raise Endless
        return trace
    return trace


def call(f, arguments):
    """(value, None) or (None, the exception)"""
    given, before = copy.deepcopy(arguments), sys.gettrace()
    sys.settrace(limited())
    try:
        return f(*given), None
    except Exception as e:
        return None, e
    finally:
        sys.settrace(before)


def is_value(v):
    """Does the package have values of this kind?"""
    if isinstance(v, (tuple, list)):
        return all(is_value(x) for x in v)
    return isinstance(v, (bool, int, float, np.generic, np.ndarray)) and np.asarray(v).dtype.kind in "biuf"


def outcome(anfora, seed, folder, backend):
    """(what happened: same, refused, raises, accepted, broken, wrong or endless; why; the text, the arguments)"""
    p = random_programs.Program(seed)
    text = "import numpy as np\n" + with_mistakes(p.text, seed)
    path = os.path.join(folder, f"mistake_{seed}.py")
    with open(path, "w") as file:
        file.write(text)
    space = {}
    exec(compile(text, path, "exec"), space)
    want, raised = call(space["f"], p.arguments)
    if isinstance(raised, Endless):
        return "endless", "", text, p.arguments
    try:
        got = anfora.jit(space["f"], backend=backend)(*copy.deepcopy(p.arguments))
    except (anfora.CompileError, anfora.RunError) as e:
        if raised is None and isinstance(e, anfora.RunError):
            return "wrong", f"{want!r}, but {e}", text, p.arguments
        return "raises" if raised else "refused", str(e), text, p.arguments
    except Exception:
        return "broken", traceback.format_exc(), text, p.arguments
    if raised is not None:
        return "accepted", f"{raised!r}, but {got!r}", text, p.arguments
    why = random_programs.differs(want, got) if is_value(want) else None
    return "wrong" if why else "same", why or "", text, p.arguments


def run(anfora, first, count, folder, backend="interp"):
    """Counts of outcomes, and those that are not Python's."""
    counts, bad = collections.Counter(), []
    with np.errstate(all="ignore"):
        for seed in range(first, first + count):
            what, *more = outcome(anfora, seed, folder, backend)
            counts[what] += 1
            if what in ("wrong", "accepted", "broken"):
                bad.append((seed, what, *more))
    return counts, bad


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    import anfora
    with tempfile.TemporaryDirectory() as folder:
        counts, bad = run(anfora, int(sys.argv[2]), int(sys.argv[3]), folder, *sys.argv[4:])
    for seed, what, reason, text, arguments in bad[:int(os.environ.get("SHOW", "6"))]:
        print(f"---- program {seed}, {what}: {reason}\n{text}{arguments}")
    print(dict(counts))
