#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of operations for the package, from the command, and their types for checkers: generate.py ANFORA OUT.py
OUT.pyi"""
import ast
import json
import pathlib
import pprint
import re
import subprocess
import sys

# Not for functions of a host: what transforms and passes make, and what the package has words of its own for.
HIDDEN = {"control", "meta", "kept", "transforms", "parts", "records", "tuples"}


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


def stubs(table, aliases):
    """The module anfora.numpy for checkers of types."""
    lines = ['"""Written from ir/op.def."""', "from collections.abc import Sequence", "from typing import Any", "",
             "from ._core import Array", "", "ArrayLike = Any", "pi: float", "e: float", "inf: float", "nan: float", "newaxis: None"]
    lines += [stub(name, row) for name, row in table.items()]
    lines += [stub(alias, table[name]) for alias, name in aliases.items() if name in table and alias not in table]
    return "\n".join(lines) + "\n"


def aliases_of(folder):
    """ALIASES of _ops.py, which is not imported: it needs what is made here."""
    tree = ast.parse((folder / "anfora" / "_ops.py").read_text(encoding="utf-8"))
    return next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "ALIASES")


def main():
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
        f.write('"""Written from ir/op.def: name -> (operation, family, inputs, attributes, description)."""\n')
        f.write("TABLE = " + pprint.pformat(table, width=110, sort_dicts=False) + "\n")
    with open(sys.argv[3], "w", encoding="utf-8") as f:
        f.write(stubs(table, aliases_of(pathlib.Path(__file__).parent)))


if __name__ == "__main__":
    main()
