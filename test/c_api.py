# SPDX-License-Identifier: Apache-2.0
"""The reference of the C interface, docs/c-api.md, from the comments of include/anfora/*.h: a comment and
the declarations up to the next blank line or comment make an entry."""
import os
import re

from tap import ROOT, read

ORDER = "base types ir text run opt grad exec step jit build rt rt_abi tir expr pnnx".split()
FOLDER = os.path.join(ROOT, "include", "anfora")
PAGE = """# The C interface

Written by `./dev docs` from `include/anfora/*.h`. `#include <anfora/anfora.h>` has all of them.
Names begin with `anf_`. A call that can fail gives an `anf_status` and fills the list of diagnostics it is
given; the library never prints and never exits. What a call returns is the caller's to free, unless it is said
to be borrowed. A structure of options begins with its own `size`; its other fields may be zero.

"""


def plain(comment):
    """The text of a comment, without its stars."""
    body = re.sub(r"^/\*+ ?|\s*\*+/$", "", comment.strip())
    return "\n".join(re.sub(r"^ \* ?|^ \*$", "", line) for line in body.split("\n")).strip("\n")


def prose(comment):
    """A comment as Markdown: an indented part is an example."""
    out, code = [], False
    for line in plain(comment).split("\n"):
        indented = line.startswith("  ") and (code or not out or out[-1] in ("", "```") or out[-1].endswith(":"))
        if indented and not code:
            out.append("```c skip")
        elif code and line and not line.startswith("  "):
            out.append("```")
        code = indented or (code and not line)
        out.append(line[2:] if code else line)
    return "\n".join(out + ["```"] * code)


def entries(text):
    """(comment, declarations) in order; headings are comments between dashes."""
    body = text.split("/* ", 1)[1]
    head, rest = body.split("*/", 1)
    yield head, None
    rest = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", rest, flags=re.S)
    for part in re.split(r"\n\n+|\n(?=/\* )", rest):
        comment = re.match(r"/\*.*?\*/", part, re.S)
        code = "\n".join(line for line in part[comment.end() if comment else 0:].strip("\n").split("\n")
                         if not re.match(r"#(include|ifndef|endif|define ANFORA_\w+_H$)", line))
        if "__GNUC__" in code:
            continue
        if comment or code.strip():
            yield comment[0] if comment else "", code.replace("ANF_API ", "").strip("\n")


def header(name):
    parts = list(entries(read(os.path.join(FOLDER, name))))
    out = [f"## {name}\n\n{prose('/* ' + parts[0][0] + '*/')}\n"]
    for comment, code in parts[1:]:
        title = re.match(r"/\* ---- (.*?) ----", comment)
        if title:
            out.append(f"### {title[1][0].upper()}{title[1][1:]}\n")
            comment = re.sub(r"---- .*? ----\n?( \* )?", "", comment)
        if plain(comment):
            out.append(prose(comment) + "\n")
        if code:
            out.append(f"```c skip\n{code}\n```\n")
    return "\n".join(out)


def page():
    names = [f"{n}.h" for n in ORDER]
    names += sorted(n for n in os.listdir(FOLDER) if n not in names and n != "anfora.h")
    links = "".join(f"- [{n}](#{n.replace('.', '')})\n" for n in names)
    return PAGE + links + "\n" + "\n".join(header(n) for n in names)
