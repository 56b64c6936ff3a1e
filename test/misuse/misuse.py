#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No misuse of a public function crashes: misuse.py LIB -- CC FLAGS...

The cases follow from the headers: each pointer NULL in turn, each enum out of range, each name mistyped, each index
past the end, each value and type of another kind. A pointer that may not be NULL gives a status that is not ANF_OK
or a NULL, with a finding where a context is at hand."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from prototypes import prototypes  # noqa: E402
from tap import ROOT, Tap, run  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
# What a good argument is, by type; "type name" is looked up first.
GOOD = {
    "anf_ctx *": "cx", "const anf_ctx *": "cx", "anf_diag *": "d", "const anf_diag *": "d", "anf_module *": "m",
    "const anf_module *": "m", "anf_graph *": "g", "const anf_graph *": "g", "anf_node *": "node",
    "const anf_node *": "node", "const anf_use *": "use", "anf_value *": "number", "const anf_value *": "number",
    "const anf_type *": "type", "anf_exec *": "exec", "const anf_exec *": "exec", "anf_step *": "step",
    "const anf_step *": "step", "anf_jit_engine *": "engine", "const anf_jit_engine *": "engine",
    "anf_jit_module *": "jit_module", "const anf_jit_module *": "jit_module", "anf_jit_function *": "jit_function",
    "const anf_jit_function *": "jit_function", "anf_tir_module *": "tir_new", "const anf_tir_module *": "tir",
    "anf_tir_expr": "expr", "anf_tir_stmt": "stmt", "anf_tir_func": "func", "anf_tb *": "tb",
    "anf_tb_scope *": "&scope", "anf_analysis *": "analysis", "const anf_analysis *": "analysis",
    "anf_trace *": "trace", "const anf_trace *": "trace", "anf_expr *": "expression", "const anf_expr *": "expression",
    "anf_pnnx *": "pnnx", "const anf_pnnx *": "pnnx", "const anf_pnnx_op *": "pnnx_op",
    "anf_pnnx_registry *": "registry", "const anf_pnnx_registry *": "registry", "anf_stream *": "stream",
    "const anf_stream *": "stream", "anf_text *": "&text", "const anf_array *": "&array", "anf_array *": "&array",
    "anf_generic *": "generics", "FILE *": "nowhere", "const int64_t *": "dims", "anf_value *const *": "&number",
    "const anf_type *const *": "&type", "anf_node *const *": "&node", "const anf_tir_expr *": "&expr",
    "const anf_tir_stmt *": "&stmt", "anf_tir_dtype": "anf_tir_scalar(ANF_TIR_s32)", "const char *": '"f"',
    "const char *const *": '((const char *const[]){"a", "b"})', "const void *": "reals", "anf_tir_expr var": "var",
    "anf_tir_expr tensor": "tir_tensor", "anf_tir_expr e": "sum", "const char *form": '"tir"', "double": "1.0", "float": "1.0F",
    "const anf_tir_visitor *": "&visitor", "const anf_tir_viewer *": "&viewer", "const anf_tir_pass *": "&pass",
    "const anf_tir_brgemm *": "&brgemm", "const uint64_t *": "((const uint64_t[]){1})", "anf_tir_stmt define": "define",
    "anf_tir_stmt loop": "stmt",
    "anf_graph *step": "step_graph", "anf_comm *": "((anf_comm *)NULL)", "const anf_comm *": "((anf_comm *)NULL)",  # one rank
}
CONTEXTUAL = re.compile(r"anf_(ctx|diag|module|graph|exec|step|pnnx|expr|tir_module|text)\b")
POINTERS = ("anf_tir_expr", "anf_tir_stmt", "anf_tir_func", "anf_rt_wrapper", "anf_pnnx_creator")
ENUMS = ("anf_dtype", "anf_type_kind", "anf_role", "anf_jit_kind", "anf_tir_elem", "anf_build_form", "anf_status",
         "anf_expr_token_kind", "anf_trap_kind")
VALUES = ("tensor", "string", "none", "tuple", "record", "function", "of_type")
TYPES = ("vector_type", "tuple_type", "record_type", "fn_type", "none_type")
WHY = {1: "it was accepted", 2: "no finding says what is wrong", 3: "an output was left as it was"}


def is_pointer(kind):
    return "*" in kind or kind in POINTERS


def may_be_null(function, kind, name):
    """Options, lists of findings, a host's own pointer, what is freed, and what the header says."""
    if "ANF_NULLABLE" in kind or name in ("d", "o", "user") or kind == "anf_diag *":
        return True
    return re.search(r"_(free|release|retain)$", function) is not None


def good(kind, name):
    kind = kind.replace("ANF_NULLABLE", "").strip()
    if f"{kind} {name}" in GOOD:
        return GOOD[f"{kind} {name}"]
    if kind in GOOD:
        return GOOD[kind]
    if name in ("o", "user") or "(*" in kind or kind in POINTERS:
        return "0"
    if "*" in kind:
        return "(void *)buffer"
    return "1" if re.match(r"n\w*$|rank$|len$|batch$", name) else "0"


def wrong(function, kind, name):
    """(how, argument, must it be refused?)"""
    bare = kind.replace("ANF_NULLABLE", "").strip()
    if is_pointer(kind):
        yield "NULL", "NULL", not may_be_null(function, kind, name)
    if bare in ENUMS:
        yield from ((f"= {v}", f"({bare}){v}", False) for v in (9999, -1))
    if bare == "const char *":
        yield from ((f"= {v}", f'"{v}"', False) for v in ("", "fibbonacci", "\\xff(%s"))
    if re.match(r"(i|index|id|node|param|at|size|max\w*)$", name) and kind in ("size_t", "int64_t", "uint32_t"):
        yield "past the end", f"({kind})-1", False
    if bare in ("anf_value *", "const anf_value *"):
        yield from ((f"a {v}", v, False) for v in VALUES)
    if bare == "const anf_type *":
        yield from ((f"a {v}", v, False) for v in TYPES)
    if bare in ("anf_node *", "const anf_node *"):
        yield "a constant", "constant", False
    if bare == "anf_value *const *":
        yield from ((f"of a {v}", f"&{v}", False) for v in VALUES)
        yield "of NULL", "((anf_value *const[]){NULL})", False
    if bare == "const anf_type *const *":
        yield from ((f"of a {v}", f"&{v}", False) for v in TYPES)
        yield "of NULL", "((const anf_type *const[]){NULL})", False


def body(ret, name, args, refused, finding):
    call = f"{name}({', '.join(args)})"
    finding = "true" if finding else "false"
    if ret == "anf_status" and refused:
        return f"return refused({call}, {finding});"
    if is_pointer(ret) and "char" not in ret and refused:
        return f"return is_null({call}, {finding});"
    if ret == "const char *":
        return f"const char *s = {call}; return s && strlen(s) > sizeof buffer;"
    return f"{'(void)' if ret != 'void' else ''}{call}; return GOOD;"


def cases():
    for header, ret, name, params in prototypes():
        if header in ("anfora/rt_abi.h", "anfora/mpi.h") or name == "anf_rt_enter":
            continue  # compiled code's own; of another library
        for i, (kind, word) in enumerate(params):
            others = any(CONTEXTUAL.search(k) for j, (k, _) in enumerate(params) if j != i)
            for how, value, refused in wrong(name, kind, word):
                args = [value if j == i else good(k, w) for j, (k, w) in enumerate(params)]
                finding = others and not re.match(r"anf_(tir_make|tir_module|tb_)", name)
                yield f"{name}, `{word}` {how}", body(ret, name, args, refused, finding)


def source(all_cases):
    lines = [f"static int case_{i}(void) {{ {code} }}" for i, (_, code) in enumerate(all_cases)]
    table = "\n".join(f"    {{case_{i}}}," for i in range(len(all_cases)))
    return "\n".join(lines) + f"\nstatic const struct {{\n  int (*call)(void);\n}} cases[] = {{\n{table}\n}};\n"


def problems(output):
    """{case: what is wrong}"""
    out = {}
    for line in output.splitlines():
        part = re.match(r"(\d+) (signal|status) (\d+)$", line)
        if part:
            end = int(part[3])
            out[int(part[1])] = f"signal {end}" if part[2] == "signal" else WHY.get(end, f"status {end}")
    return out


def main():
    split = sys.argv.index("--")
    library, compiler = sys.argv[split - 1], sys.argv[split + 1:]
    tap, every = Tap(), list(cases())
    folder = tempfile.mkdtemp() if "KEEP" in os.environ else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = folder or temporary
        with open(os.path.join(folder, "cases.inc"), "w", encoding="utf-8") as f:
            f.write(source(every))
        program = os.path.join(folder, "misuse")
        words = [*compiler, "-std=gnu11", "-g", "-Wno-nonnull", "-I", os.path.join(ROOT, "include"), "-I", folder, "-o", program,
                 os.path.join(FOLDER, "misuse.c"), library, "-lffi", "-lz", "-lm"]
        wrong_words = run(words)[1]
        output, bad = ("", wrong_words) if wrong_words else run([program], cwd=folder, seconds=200)
        if bad or not output.endswith("done\n"):
            tap.case("the cases run", bad or output)
        found = problems(output)
    names = {}
    for i, (name, _) in enumerate(every):
        names.setdefault(name.split(",")[0], []).append(i)
    for function, numbers in names.items():
        tap.case(f"{function}, {len(numbers)} wrong calls",
                 "\n".join(f"{i}: {every[i][0]}: {found[i]}" for i in numbers if i in found))
    tap.done()


if __name__ == "__main__":
    main()
