#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules of the source tree that a compiler does not check, as TAP: lint.py BUILD_DIR"""
import fnmatch
import os
import re
import subprocess
import sys

import rooms

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIP = {".git", "out", "build", "__pycache__"}
CODE = (".c", ".h", ".def", ".py", ".sh", ".build", ".txt")

# What a library must not call: it neither prints nor ends the host's process.
FORBIDDEN = {"exit", "_exit", "quick_exit", "printf", "vprintf", "puts", "putchar", "perror",
             "system", "__printf_chk", "__vprintf_chk"}


def files(*endings):
    """Source files below the root, relative to it."""
    for folder, dirs, names in os.walk(ROOT):
        dirs[:] = sorted(d for d in dirs if d not in SKIP and not d.startswith((".venv", "build")))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def lines_matching(pattern, paths):
    for path in paths:
        for number, line in enumerate(text(path).split("\n"), 1):
            if re.search(pattern, line):
                yield f"{path}:{number}: {line.strip()}"


def check_includes(_build):
    """a room includes what its row of test/rooms.py names"""
    for path in files(".c", ".h", ".def"):
        for target in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text(path), re.M):
            if "/" in target and not rooms.may_use(path, target):
                yield f"{path} includes {target}"


def symbols(library, *flags):
    out = subprocess.run(["nm", *flags, library], capture_output=True, encoding="utf-8", check=True).stdout
    return [line.split()[-1] for line in out.splitlines() if len(line.split()) >= 2]


def object_symbols(build):
    """Source file -> (defined, undefined) global names of its object."""
    sources = {p.replace("/", "_"): p for p in files(".c")}
    for folder in os.listdir(build):
        if not re.fullmatch(r"libanfora\.(so[.0-9]*|a)\.p", folder):
            continue
        for name in sorted(os.listdir(os.path.join(build, folder))):
            path = sources.get(name[:-2]) if name.endswith(".o") else None
            if path:
                rows = [line.split() for line in subprocess.run(
                    ["nm", "-g", os.path.join(build, folder, name)], capture_output=True, encoding="utf-8", check=True).stdout.splitlines()]
                yield path, {r[-1] for r in rows if r[-2] != "U"}, {r[-1] for r in rows if r[-2] == "U"}


def check_links(build):
    """a room links what its row of test/rooms.py names"""
    objects = list(object_symbols(build))
    if len(objects) < 100:
        yield f"only {len(objects)} objects were found: is this a build?"
    owner = {name: path for path, defined, _ in objects for name in defined}
    for path, _, undefined in objects:
        targets = {owner[name]: name for name in sorted(undefined) if name in owner}
        yield from (f"{path} uses {name} of {target}" for target, name in targets.items() if not rooms.may_use(path, target))


def check_spine(_build):
    """the functions that docs/spine.md names are where it says"""
    rows = re.findall(r"^\| `(\w+)` \| `([\w/.]+)` \|", text("docs/spine.md"), re.M)
    if len(rows) < 20:
        yield f"only {len(rows)} functions were found: is this the page?"
    for name, path in rows:
        if not os.path.exists(os.path.join(ROOT, path)):
            yield f"{path} is not there"
        elif not re.search(rf"^(?!\s).*\b{name}\(", text(path), re.M):
            yield f"{name} is not defined in {path}"


MOST_FILES = 26


def check_folders(_build):
    """a folder of a room has few files, and a README that names its sources"""
    sources = [f for f in files(".c", ".cc") if rooms.room_of(f) not in (None, "include")]
    for folder in sorted({os.path.dirname(f) for f in sources}):
        names = [n for n in os.listdir(os.path.join(ROOT, folder)) if os.path.isfile(os.path.join(ROOT, folder, n))]
        if len(names) > MOST_FILES:
            yield f"{folder}/ has {len(names)} files: make rooms in it"
        page = os.path.join(folder, "README.md")
        if not os.path.exists(os.path.join(ROOT, page)):
            page = os.path.join(os.path.dirname(folder), "README.md")
            if f"`{os.path.basename(folder)}/`" not in text(page):
                yield f"{folder}/ has no README"
            continue
        named = [w if "." in w else w + ".c" for span in re.findall(r"`([^`]+)`", text(page)) for w in re.split(r"[\s,]+", span)]
        for name in sorted(n for n in names if n.endswith((".c", ".cc"))):
            if not any(fnmatch.fnmatch(name, w) or name[:-1] + "h" == w for w in named):
                yield f"{page} does not name {name}"


def check_installed(_build):
    """each source of the Python package is named in its folder's meson.build, which installs it"""
    for path in files(".py"):
        folder, name = os.path.split(path)
        if path.startswith("python/anfora/") and f"'{name}'" not in text(os.path.join(folder, "meson.build")):
            yield f"{folder}/meson.build does not name {name}"


def check_words(_build):
    """the words that docs/glossary.md replaces are not used"""
    table = text("docs/glossary.md").split("## Words that are not used")[1]
    words = [w.strip() for row in re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.M)[1:] for w in row.split(",")]
    if len(words) < 8:
        yield f"only {len(words)} words were found: is this the table?"
    phrases = "|".join(re.escape(w).replace(r"\ ", r"[\s*/#]+") for w in words)  # lines of a comment begin with * or #
    pattern = re.compile(rf"\b({phrases})s?\b")
    for path in files(".c", ".h", ".def", ".md", ".anf", ".py"):
        if rooms.room_of(path) or path.startswith("python/anfora/") or (path.startswith("docs/") and path != "docs/glossary.md"):
            prose = re.sub(r"`[^`\n]*`", "", text(path))
            for m in pattern.finditer(prose):
                yield f"{path}:{prose.count(chr(10), 0, m.start()) + 1}: {' '.join(m[0].split())}"


def check_adding(_build):
    """what docs/adding.md counts is where it says, and nowhere else"""
    rows = re.findall(r"^\|[^|]+\| (\d)[^|]*\|[^|]+\| `(.+?)`: (.+) \|$", text("docs/adding.md"), re.M)
    if len(rows) < 6:
        yield f"only {len(rows)} rows were found in docs/adding.md"
    for count, word, where in rows:
        word = word.replace("\\|", "|")
        listed = re.findall(r"`([^`]+)`", where)
        found = [f for f in files(".c", ".h", ".def", ".anf", ".build") if not f.startswith(("test/", "bench/", "fuzz/", "python/", "lib/", "examples/"))
                 and re.search(word, text(f))]
        if sorted(listed) != sorted(found):
            yield f"{word} is in {' '.join(sorted(found))}, not in {' '.join(sorted(listed))}"
        if int(count) > 3:
            yield f"{word}: {count} places are too many"


def check_exports(build):
    """the shared library exports anf_ names alone"""
    names = symbols(os.path.join(build, "libanfora.so"), "-D", "--defined-only")
    if len(names) < 10:
        yield f"only {len(names)} symbols are exported: is this the library?"
    yield from (n for n in names if not n.startswith(("anf_", "ANFORA_")))  # ANFORA_1: the version of the symbols


def check_static_names(build):
    """global names of the static library start with anf_ or anfi_"""
    names = symbols(os.path.join(build, "libanfora.a"), "-g", "--defined-only")
    yield from (n for n in names if not n.startswith(("anf_", "anfi_")) and not n.endswith(":"))


def check_forbidden_calls(build):
    """the library calls nothing that prints or exits"""
    names = symbols(os.path.join(build, "libanfora.so"), "-D", "--undefined-only")
    yield from (n for n in names if n.split("@")[0] in FORBIDDEN)


def check_leftovers(_build):
    """no leftovers"""
    words = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"])
    yield from lines_matching(rf"\b({words})\b", files(*CODE))


def check_arenas(_build):
    """arrays grow in one arena: anfi_scratch makes a new one by each call"""
    yield from lines_matching(r"anfi_(push|grow|vec_grow)\(\s*anfi_scratch\(", files(*CODE))


def check_pushes(_build):
    """nothing is pushed onto an array through a pointer into it: the array grows first, and may move"""
    push = re.compile(r"anfi_push\([^,]+, &?([\w>.-]+), (.*?)\);\n", re.S)
    for path in files(".c", ".h"):
        code = text(path)
        for m in push.finditer(code):
            function = code[code.rfind("\n}\n", 0, m.start()) + 1:m.start()]
            into = re.findall(rf"(\w+) = &{re.escape(m[1])}(?:\.|->)at\[", function)
            if any(re.search(rf"\b{pointer}->", m[2]) for pointer in into):
                yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {m[0].strip()}"


def check_rows(_build):
    """the row of a node is anfi_op_of(node): a node that applies no op has a number beyond the table"""
    for path in files(".c", ".h"):
        if path not in ("ir/ir.h", "ir/node.c"):
            yield from (f"{path}: {m[0]}" for m in re.finditer(r"\banfi_op\[(?:\w+->)*(?:n|x|node|next|root|user|primal)->op\]", text(path)))


def check_c23(_build):
    """no name is a word or a macro of C23"""
    words = "nullptr|constexpr|typeof|typeof_unqual|alignas|alignof|unreachable|ckd_add|ckd_sub|ckd_mul"
    for path in files(".c", ".h"):
        code = re.sub(r'//[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"', "", text(path), flags=re.S)
        yield from (f"{path}: {word}" for word in sorted(set(re.findall(rf"\b(?:{words})\b", code))))


def check_machine_paths(_build):
    """no paths of one machine"""
    folders = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me"])
    yield from lines_matching(rf"(?<![\w.}}])/({folders})/\w", files(*CODE, ".md", ".anf", ".ir"))


def check_spdx(_build):
    """every source file names its licence in the first lines"""
    for path in files(".c", ".h", ".def", ".py", ".sh"):
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text(path).split("\n")[:3]):
            yield path


def check_length(_build):
    """no .c, .h or .py file is longer than 1000 lines"""
    for path in files(".c", ".h", ".py"):
        n = text(path).count("\n")
        if n > 1000:
            yield f"{path}: {n} lines"


def check_platform(_build):
    """only base/os_*.c and runtime/ ask for the operating system"""
    paths = (p for p in files(".c", ".h") if not p.startswith(("base/os_", "runtime/", "test/")))
    yield from lines_matching(r"#\s*if.*\b(_WIN32|__linux__|__APPLE__|__unix__)\b", paths)


def check_codes(_build):
    """every diagnostic code is reported by the code and provoked by a test"""
    codes = re.findall(r"^ANF_MSG\((\w+)", text("base/diag.def"), re.M)
    sources = [p for p in files(".c", ".h") if not p.startswith(("test/", "fuzz/", "bench/"))]
    used = set(re.findall(r"ANF_([EW]\d{4})\b", "\n".join(text(p) for p in sources)))
    tests = "\n".join(text(p) for p in files("") if p.startswith("test/") and p not in ("test/lint.py", "test/untested_codes.txt"))
    tested = set(re.findall(r"(?<![A-Za-z0-9])(?:ANF_)?([EW]\d{4})\b", tests))
    yield from (f"{c} is never reported" for c in codes if c not in used)
    known = set(text("test/untested_codes.txt").split()) & set(codes)  # may only become fewer
    yield from (f"{c} is in no test" for c in codes if c not in tested | known)
    yield from (f"{c} is tested now: take it off test/untested_codes.txt" for c in sorted(known & tested))
    yield from (f"{c} occurs twice" for c in sorted({c for c in codes if codes.count(c) > 1}))


def check_doubled(_build):
    """no message, help or page has a word twice in a row"""
    for path in ["base/diag.def", "cli/option.def", *(p for p in files(".md") if p not in ("docs/ops.md", "docs/c-api.md"))]:
        prose = re.sub(r"```.*?```", "", re.sub(r'"\s*\n\s*"', "", text(path)), flags=re.S)
        for m in re.finditer(r"(?<![\w.`(])([A-Za-z]{2,}) \1\b(?! \))", prose):
            yield f"{path}: {m[0]}"


def check_passes(_build):
    """every pass of the optimizer is in the pipeline of a golden case that shows its result"""
    named = {"standard"}
    for path in files(".anf"):
        if path.startswith("test/golden/opt/"):
            named |= {w for line in re.findall(r"^# run: opt .*?-p (.*)", text(path), re.M) for w in re.findall(r"\w+", line)}
    pipelines = re.findall(r'^ANF_PIPELINE\((\w+), *"(.*)"', text("optimizer/pipeline.def"), re.M)
    for name, words in reversed(pipelines):  # one names those before it
        named |= set(re.findall(r"\w+", words)) if name in named else set()
    yield from (p for p in re.findall(r"^ANF_PASS\((\w+)", text("optimizer/pass.def"), re.M) if p not in named)


def check_format(_build):
    """sources are formatted by clang-format 14"""
    paths = [p for p in files(".c", ".h")]
    run = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *paths], cwd=ROOT,
                         capture_output=True, encoding="utf-8", check=False)
    bad = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line})
    yield from bad
    if run.returncode and not bad:
        yield run.stderr


CHECKS = [check_includes, check_links, check_folders, check_installed, check_spine, check_words, check_adding, check_exports, check_static_names, check_forbidden_calls, check_leftovers,
          check_arenas, check_pushes, check_rows, check_c23, check_machine_paths, check_spdx, check_length, check_platform, check_codes, check_doubled, check_passes,
          check_format]


def main():
    build = os.path.abspath(sys.argv[1])
    print(f"1..{len(CHECKS)}")
    bad = 0
    for number, check in enumerate(CHECKS, 1):
        found = list(check(build))
        bad += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {check.__doc__}")
        for line in found[:40]:
            print(f"# {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
