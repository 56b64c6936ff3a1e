#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed_tir.py TABLE out.c a.tir b.tir ..: functions of Tensor IR as rows of a C table {name, needs, text}, where needs
are the functions that it calls, and those that they call. Lines that several functions share are named once:
  // define NAME parameters   ..   // end     then   // use NAME arguments   stands for them, $parameter (or ${parameter}) replaced.
A definition holds from its line on in its file, and in the files after it until one gives the name again."""
import re
import sys


def expand(lines, macros):
    out = []
    for line in lines:
        use = re.match(r"\s*// use (\w+)(.*)", line)
        if not use:
            out.append(line)
            continue
        params, body = macros[use[1]]
        args = dict(zip(params, use[2].split()))
        out += expand([re.sub(r"\$(?:{(\w+)}|(\w+))", lambda m: args[m[1] or m[2]], b) for b in body], macros)
    return out


def functions(path, macros):
    """{name: text} of a file, in its order."""
    found, text, define = {}, [], None
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for line in lines:
        start = re.match(r"// define (\w+)(.*)", line)
        if start:
            define = (start[1], start[2].split(), [])
        elif define and line == "// end":
            macros[define[0]] = define[1:]
            define = None
        elif define:
            define[2].append(line)
        else:
            text += expand([line], macros)
    for m in re.finditer(r"^func (\w+)\(.*?^}\n", "\n".join(text) + "\n", re.M | re.S):
        found[m[1]] = m[0]
    return found


def closure(name, calls, seen):
    for c in calls[name]:
        if c not in seen:
            seen.append(c)
            closure(c, calls, seen)
    return seen


def main():
    table, target, *paths = sys.argv[1:]
    macros, all_text = {}, {}
    for path in paths:
        all_text.update(functions(path, macros))
    calls = {n: [c for c in dict.fromkeys(re.findall(r"\b(\w+)\(", t)) if c in all_text and c != n] for n, t in all_text.items()}
    with open(target, "w", encoding="utf-8") as out:
        out.write('/* Written by embed_tir.py. */\n#include "backend/lower/low.h"\n\n')
        for n, t in all_text.items():
            out.write(f"static const char text_{n}[] = {{{','.join(str(b) for b in t.encode())},0}};\n")
        out.write(f"const anfi_helper {table}[] = {{\n")
        for n in all_text:
            needs = " ".join(c for c in closure(n, calls, []) if c != n)
            out.write(f'    {{"{n}", "{needs}", text_{n}}},\n')
        out.write("    {NULL, NULL, NULL}};\n")


main()
