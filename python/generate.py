#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of operations for the package, from the command, and types for checkers, of operations and of functions
that are made of them: generate.py ANFORA _table.py numpy.pyi linalg.pyi random.pyi fft.pyi"""
import ast
import json
import pathlib
import pprint
import re
import subprocess
import sys

# Not for functions of a host: what transforms and passes make, and what the package has words of its own for.
HIDDEN = {"collective", "control", "lanes", "meta", "residual", "transforms", "parts", "records", "tuples"}


def inputs(text):
    """[(name, kind)]: kind "" is required, "?" may be absent, "*" any number."""
    return [(w.rstrip("?*"), w[-1] if w[-1] in "?*" else "") for w in text.split()]


def attributes(text):
    """[(name, type, default as text or None)]: a type that ends in ? may be None, which is its default."""
    out = []
    for word in text.split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        if kind.endswith("?"):
            kind, default = kind[:-1], default or "None"
        out.append((name, kind, default or None))
    return out


def snake(name):
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def python_name(op):
    """NumPy's name where there is one."""
    match = re.match(r"(?:np\.asarray\()?np\.(?:linalg\.)?(\w+)\(", op["numpy"] or "")
    plain = match and op["family"] not in ("activations", "losses", "pools") and match[1] not in ("divide", "where")
    if plain and not (op["numpy"].startswith("np.minimum(np")):
        return match[1]
    return snake(op["name"])


TYPES = {"int": "int", "ints": "int | Sequence[int]", "float": "float", "bool": "bool", "str": "str"}


def stub(name, row):
    """One operation as a checker of types sees it."""
    parts, star = [], False
    for word, kind in row[2]:
        parts.append(f"*{word}: ArrayLike" if kind == "*" else f"{word}: ArrayLike" + (" | None = ..." if kind == "?" else ""))
        star = star or kind == "*"
    optional = any("= ..." in p for p in parts)
    if name == "full":
        parts, star = ["shape: int | Sequence[int]", "fill_value: ArrayLike"], True
    for word, kind, default in row[3]:
        if name == "full" and word == "shape":
            continue
        t = TYPES.get(kind, "Any")
        needed = default is None
        if needed and optional and not star:
            parts.append("*")
            star = True
        optional = optional or not needed
        parts.append(f"{word}: {t}" if needed else f"{word}: {t}{' | None' if default == 'None' and t != 'Any' else ''} = ...")
    if name == "arange":
        parts = ["*limits: Any", "dtype: Any = ..."]
    result = "tuple[Array, ...]" if name in ("split", "unstack", "top_k", "batch_norm_train", "split_key") else "Array"
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


HEAD = ['"""Written from the table of operations and from _library/composed.py."""', "from collections.abc import Sequence",
        "from typing import Any", "", "from ._core import Array", "", "ArrayLike = Any"]
NUMBERS = {"num": "int", "n": "int", "k": "int", "offset": "int", "keepdims": "bool", "right": "bool", "rtol": "float", "atol": "float",
           "dx": "float", "base": "float", "mode": "str", "indexing": "str", "minval": "float", "maxval": "float"}


def composed_stub(f):
    """One function of _library/composed.py: what stands before the / are arrays."""
    a = f.args
    defaults = [None] * (len(a.posonlyargs) + len(a.args) - len(a.defaults)) + list(a.defaults)
    parts = []
    for i, (arg, default) in enumerate(zip([*a.posonlyargs, *a.args], defaults)):
        t = "Any" if i < len(a.posonlyargs) else NUMBERS.get(arg.arg, "Any")
        none = isinstance(default, ast.Constant) and default.value is None and t != "Any"
        parts.append(f"{arg.arg}: {t}{' | None' if none else ''}{' = ...' if default is not None else ''}")
    parts += [f"*{a.vararg.arg}: ArrayLike"] if a.vararg else []
    parts += [f"{arg.arg}: {NUMBERS.get(arg.arg, 'Any')} = ..." for arg in a.kwonlyargs]
    returned = [n.value for n in ast.walk(f) if isinstance(n, ast.Return)]
    plain = all(isinstance(r, (ast.Call, ast.BinOp, ast.Compare, ast.Name)) for r in returned)
    result = "Array" if plain and f.name not in ("unravel_index", "array_split", "hsplit", "vsplit", "cond", "fori_loop", "while_loop") else "Any"
    return f"def {f.name.rstrip('_')}({', '.join(parts)}) -> {result}: ..."


def decorated(folder, kind, file):
    """The names of the functions of a file with this decorator, which may be called."""
    tree = ast.parse((folder / "anfora" / file).read_text(encoding="utf-8"))
    return [f.name for f in tree.body if isinstance(f, ast.FunctionDef) and
            any(getattr(getattr(d, "func", d), "id", None) == kind for d in f.decorator_list)]


def composed_of(folder, kind, file):
    """The functions of a file with this decorator, by name."""
    tree = ast.parse((folder / "anfora" / file).read_text(encoding="utf-8"))
    return {f.name.rstrip("_"): composed_stub(f) for f in tree.body if isinstance(f, ast.FunctionDef) and
            any(isinstance(d, ast.Name) and d.id == kind for d in f.decorator_list)}


def stubs(table, aliases, composed, dtypes):
    """The module anfora.numpy for checkers of types."""
    lines = [*HEAD[:-1], "from . import fft as fft, linalg as linalg", "from ._types import DType", "", HEAD[-1],
             "pi: float", "e: float", "inf: float", "nan: float", "newaxis: None"]
    lines += [f"{name}: DType" for name in dtypes]
    lines += [f"def {name}(x: Any, dtype: Any = ...) -> Array: ..." for name in ("array", "asarray")]
    lines += [f"def {name}(dtype: Any, /) -> Any: ..." for name in ("finfo", "iinfo")]
    lines += [stub(name, row) for name, row in table.items() if name not in (*composed, "fft")]  # that is a module
    lines += [stub(alias, table[name]) for alias, name in aliases.items()
              if name in table and alias not in table and alias not in composed]
    return "\n".join([*lines, *composed.values()]) + "\n"


def literal_of(folder, file, name):
    """A constant of a file of the package, which is not imported: it needs what is made here."""
    tree = ast.parse((folder / "anfora" / file).read_text(encoding="utf-8"))
    return next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == name)


def reserved_words(folder):
    """The words of the language that are names between backticks alone."""
    return re.findall(r"^ANF_WORD\((\w+)\)", (folder.resolve().parent / "ir" / "word.def").read_text(encoding="utf-8"), re.M)


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def main():
    folder = pathlib.Path(__file__).parent
    text = subprocess.run([sys.argv[1], "ops", "--json"], check=True, capture_output=True, encoding="utf-8").stdout
    table, seen = {}, set()
    for op in json.loads(text)["ops"]:
        if op["family"] in HIDDEN:
            continue
        name = python_name(op)
        name = snake(op["name"]) if name in seen else name
        seen.add(name)
        table[name] = (op["name"], op["family"], inputs(op["inputs"]), attributes(op["attributes"]), op["doc"])
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write('"""Written from ir/ops/op.def and ir/word.def: name -> (operation, family, inputs, attributes, description),\n')
        f.write('and the words that are no names."""\n')
        f.write("TABLE = " + pprint.pformat(table, width=110, sort_dicts=False) + "\n")
        f.write(f"RESERVED = {reserved_words(folder)!r}\n")
    linear = composed_of(folder, "linear", "_library/linalg.py")
    files = sorted(f"_library/{p.name}" for p in (folder / "anfora" / "_library").glob("*.py"))
    composed = {n: text for f in files for n, text in composed_of(folder, "composed", f).items()}
    composed |= {n: linear[n] for n in ("norm", "slogdet", "cross", "matrix_transpose", "vecdot")}
    composed |= {n: f"def {n}(*args: Any, **kw: Any) -> Any: ..." for n in decorated(folder, "outside", "_library/standard.py")}
    composed |= {n: f"def {n}(n: int, *args: Any, **kw: Any) -> tuple[Array, ...]: ..." for n in decorated(folder, "indices_of", "_library/arrays.py")}
    dtypes = literal_of(folder, "_types.py", "_NUMPY")
    aliases = literal_of(folder, "_ops.py", "ALIASES")
    with open(sys.argv[3], "w", encoding="utf-8") as f:
        f.write(stubs(table, aliases, composed, [d for d in dtypes if d not in ("bool", "int", "float", "complex")]))
    here = literal_of(folder, "_library/composed.py", "LINALG")
    matrices = {n: composed[n] for n in here} | composed_of(folder, "decomposed", "_library/decompositions.py") | linear
    write(sys.argv[4], [*HEAD, *matrices.values(), *(stub(n, table[aliases.get(n, n)]) for n in ("inv", "det", "matmul", "triangular_solve"))])
    write(sys.argv[5], [*HEAD, *composed_of(folder, "randomly", "_library/random.py").values()])
    write(sys.argv[6], [*HEAD, *composed_of(folder, "transform", "fft.py").values()])


if __name__ == "__main__":
    main()
