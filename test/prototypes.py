# SPDX-License-Identifier: Apache-2.0
"""The public functions, read from include/anfora/*.h: (header, return type, name, [(type, name)])."""
import os
import re

from tap import ROOT, public_headers, read

DECLARATION = re.compile(r"ANF_API\s+([^;{]*?)\b(anf_\w+)\(((?:[^()]|\([^()]*\))*)\)[^;()]*;")


def plain(text):
    """Without comments and preprocessor lines."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"//.*", "", re.sub(r"\\\n", " ", text))


def split(words):
    """Parameters between commas that are outside of brackets."""
    part, depth, out = "", 0, []
    for c in re.sub(r"\s+", " ", words):
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            out.append(part.strip())
            part = ""
        else:
            part += c
    return [] if part.strip() == "void" and not out else out + [part.strip()]


def parameter(words):
    """(type, name); a pointer to a function has the name inside its type."""
    inside = re.search(r"\(\*(\w+)\)", words)
    if inside:
        return words, inside[1]
    name = re.search(r"(\w+)$", words)
    return words[:name.start()].strip() if name else words, name[1] if name else ""


def prototypes():
    for header in public_headers():
        for ret, name, params in DECLARATION.findall(plain(read(os.path.join(ROOT, "include", header)))):
            yield header, re.sub(r"\s+", " ", ret).strip(), name, [parameter(p) for p in split(params)]
