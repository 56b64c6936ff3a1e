#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants of C, many in one build: a changed form of a statement is compiled beside the statement, and a number that is read when
the program starts says which of them is in force.

    if (n < 2) return x;      becomes      if (ANF_MUTANT(7) ? (n <= 2) : (n < 2)) return x;
    count++;                               { if (ANF_MUTANT(8)) { } else { count++; } }

statements() finds the statements of a file, changes() the changed forms of one, woven() puts both together. A
statement is of one line after it was joined; lines keep their numbers."""
import re

SWAPS = [("==", "!="), ("!=", "=="), ("<=", "<"), (">=", ">"), (" < ", " <= "), (" > ", " >= "), ("&&", "||"), ("||", "&&"),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), ("true", "false"), ("false", "true"), ("++", "--"), ("!", ""),
         ("|=", "&="), ("&=", "|="), ("+=", "-="), ("-=", "+=")]
FUNCTION = re.compile(r"(?!typedef|enum|struct \w+ \{|union|#|static const \w+ \w+\[)[A-Za-z_].*\) \{$")
NEVER = re.compile(r"(static|enum|typedef|union|struct \w* ?\{|goto|_Static_assert|va_|#|break;|continue;|return;|\{|do \{)")
TYPE = r"(?!return\b|else\b|case\b)((?:const |struct |enum |unsigned )*[A-Za-z_]\w*(?: const)?) ((?:\*(?:const )?)*\w+(?:\[[^]]*\])*"
DECLARATION = re.compile(TYPE + r" = .*);$")
BARE = re.compile(TYPE + r"[,;])")  # a declaration whose first name has no value
MOST = 16383
PRELUDE = ("extern int anf_mutant_chosen; extern unsigned char *anf_mutant_reached; void anf_mutant_begin(void); "
           "static inline int ANF_MUTANT(int n) { if (!anf_mutant_reached) anf_mutant_begin(); anf_mutant_reached[n] = 1; return anf_mutant_chosen == n; }")
HOME = "base/arena.c"  # which each program of the compiler has
HOME_PRELUDE = "#define _GNU_SOURCE"
HOME_END = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int anf_mutant_chosen;
unsigned char *anf_mutant_reached;
void anf_mutant_begin(void);
void anf_mutant_begin(void) {
  static unsigned char none[%d];
  const char *chosen = getenv("ANF_MUTANT"), *path = getenv("ANF_REACHED");
  int fd = path ? open(path, O_RDWR) : -1;
  void *p = fd < 0 ? MAP_FAILED : mmap(0, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  anf_mutant_chosen = chosen ? atoi(chosen) : 0;
  anf_mutant_reached = p == MAP_FAILED ? none : (unsigned char *)p;
}
""" % (MOST + 1)


def quoted(s):
    return [m.span() for m in re.finditer(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'', s)]


def blank(s):
    """With texts blanked, of the same length."""
    for a, b in quoted(s):
        s = s[:a + 1] + "_" * (b - a - 2) + s[b - 1:]
    return s


def without_comment(line):
    at = blank(line).find("//")
    return (line if at < 0 else line[:at]).rstrip()


def depth(s):
    """How many brackets are open at its end; braces of blocks, which a space is before, do not count outside of others."""
    open_, s = 0, blank(s)
    for i, c in enumerate(s):
        before = s[:i].rstrip()
        if c in "([":
            open_ += 1
        elif c in ")]":
            open_ -= 1
        elif c == "{" and (open_ or before.endswith("=") or s[i - 1:i] == ")"):
            open_ += 1
        elif c == "}" and open_:
            open_ -= 1
    return open_


def statements(text):
    """(first line, last line, indentation, statement) of those in functions."""
    inside, parts, first, comment = False, [], 0, False
    for i, line in enumerate(text.split("\n")):
        s = without_comment(line)
        if comment or s.lstrip().startswith("/*"):
            comment = "*/" not in s
            continue
        if not line.startswith(" "):
            inside, parts = bool(FUNCTION.match(s)) or (inside and line != "}"), []
            continue
        if not inside or not s.strip():
            continue
        if s.lstrip().startswith("#") or s.endswith("\\"):
            parts = []
            continue
        first = first if parts else i
        parts.append(s.strip())
        whole = " ".join(parts)
        if depth(whole) == 0 and whole[-1] in ";{}:":
            indent = re.match(" *", text.split("\n")[first])[0]
            parts = []
            yield first, i, indent, whole


def changes(s):
    """The changed forms of a statement."""
    out, inner = [], quoted(s)

    def outside(at):
        return not any(a <= at < b for a, b in inner)

    for old, new in SWAPS:
        for m in re.finditer(r"\b%s\b" % old if old.isalpha() else re.escape(old), s):
            if outside(m.start()) and (old != "!" or s[m.end():m.end() + 1] != "="):
                out.append(s[:m.start()] + new + s[m.end():])
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", s):
        if s[:m.start()].endswith(" + ") and re.search(r"ANFI_NEW_N\([^;]*$", s[:m.start()]):
            continue  # more room than is used is none
        if outside(m.start()) and not re.match(r"[^=;(]*\w\[\d*$", s[:m.start()]):  # a longer array is none
            out.append(s[:m.start()] + str(int(m[1]) + 1) + s[m.end():])
    if re.match(r"(?!if\b|while\b|for\b|return\b|case\b|else\b|switch\b|default\b)(\*?\w[^=;]*\([^;]*\)|[*\w.>\[\]-]+ [|&+-]?= [^;]*|\w[\w.>-]*(\+\+|--));$", s) and not DECLARATION.match(s):
        out.append(";")  # the statement is gone
    m = re.match(r"((?:\} )?(?:else )?if )\(", s)
    if m:
        at = closing(s, m.end() - 1)
        out.append(f"{m[1]}(false && {s[m.end() - 1:at]}){s[at:]}")
    return [c for c in dict.fromkeys(out) if c != s]


def closing(s, at):
    """The position behind the bracket that closes the one at `at`."""
    b, n = blank(s), 0
    for i in range(at, len(b)):
        n += (b[i] in "([{") - (b[i] in ")]}")
        if n == 0:
            return i + 1
    return len(s)


def split(s, at):
    """At separators outside of brackets."""
    b, out, n, start = blank(s), [], 0, 0
    for i, c in enumerate(b):
        n += (c in "([{") - (c in ")]}")
        if c == at and n == 0:
            out.append(s[start:i])
            start = i + 1
    return out + [s[start:]]


def choice(k, new, old):
    return f"ANF_MUTANT({k}) ? ({new}) : ({old})"


def declarators(k, old, new):
    """`a = f(x), b = 2` where one initialiser changed."""
    olds, news = split(old, ","), split(new, ",")
    if len(olds) != len(news):
        return None
    out = []
    for o, n in zip(olds, news):
        if o != n:
            left, is_, value = o.partition(" = ")
            left2, _, value2 = n.partition(" = ")
            if not is_ or left != left2 or value.startswith("{") or "[" in left:
                return None
            o = f"{left} = {choice(k, value2, value)}"
        out.append(o)
    return ",".join(out)


def loop_head(k, old, new):
    """`size_t i = 0; i < n; i++` where one of three changed."""
    olds, news = split(old, ";"), split(new, ";")
    if len(olds) != 3 or len(news) != 3:
        return None
    which = [i for i in range(3) if olds[i] != news[i]]
    if len(which) != 1:
        return None
    i = which[0]
    if i == 0:
        m, m2 = DECLARATION.match(olds[0] + ";"), DECLARATION.match(news[0] + ";")
        olds[0] = m and m2 and m[1] == m2[1] and declarators(k, m[2], m2[2]) and f"{m[1]} {declarators(k, m[2], m2[2])}"
    elif i == 1:
        olds[1] = " " + choice(k, news[1], olds[1])
    else:
        olds[2] = f" ANF_MUTANT({k}) ? (void)({news[2]}) : (void)({olds[2]})"
    return olds[i] and ";".join(olds)


def woven(k, old, new):
    """The statement with its changed form of number k; None: this cannot be said in C."""
    if NEVER.match(old) or BARE.match(old):
        return None
    m = re.match(r"case [^:]+: |default: ", old)
    if m:
        inner = new.startswith(m[0]) and old != m[0].strip() and woven(k, old[m.end():], new[m.end():])
        return inner and m[0] + inner
    m = re.match(r"((?:\} )?(?:else )?)(if|while|switch|for) \(", old) or re.match(r"(\} )(while) \(", old)
    if m:
        at, at2 = closing(old, m.end() - 1), closing(new, m.end() - 1)
        if not new.startswith(m[0]):
            return None
        head, head2, rest, rest2 = old[m.end():at - 1], new[m.end():at2 - 1], old[at:], new[at2:]
        if head != head2:
            head = loop_head(k, head, head2) if m[2] == "for" else choice(k, head2, head)
            return head and rest == rest2 and f"{m[0]}{head}){rest}" or None
        inner = woven(k, rest.strip(), rest2.strip())
        return inner and (f"{m[0]}{head}) {inner}" if rest.endswith("{") else f"{m[0]}{head}) {{ {inner} }}")
    m = re.match(r"else ", old)
    if m:
        inner = new.startswith(m[0]) and woven(k, old[5:], new[5:])
        return inner and f"else {{ {inner} }}"
    if old.endswith(("{", "}", ":")):
        return None
    m, m2 = DECLARATION.match(old), DECLARATION.match(new)
    if m:
        inner = m2 and m[1] == m2[1] and declarators(k, m[2], m2[2])
        return inner and f"{m[1]} {inner};"
    if len(split(old, ";")) != 2:
        return None
    return f"{{ if (ANF_MUTANT({k})) {{ {'' if new == ';' else new} }} else {{ {old} }} }}"
