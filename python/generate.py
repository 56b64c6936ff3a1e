#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of operations for the package, from the command: generate.py ANFORA OUT.py"""
import json
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


if __name__ == "__main__":
    main()
