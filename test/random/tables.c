// SPDX-License-Identifier: Apache-2.0
/* tables [--part I/N] [--show]
 * Programs of one line, derived from the op table, in every engine: each op with 0, 1, 2, ... arguments of some kinds
 * in each form of call, and called by the host, each number for each declared type, and each infix op with constants. Part I/N takes every N-th of them. */
#include "ir/ops/op.h"
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  oracle *o;
  anf_value *arg[4]; // of x: f64, v: f64[2,2], k: i64, c: bool
  size_t number, part, parts;
} bench;

static void try_in(bench *b, const char *body, unsigned engines) {
  char text[1400];
  if (b->number++ % b->parts != b->part) return;
  snprintf(text, sizeof text, "def main(x: f64, v: f64[2, 2], k: i64, c: bool) { %s }\n", body);
  oracle_try(b->o, text, 4, b->arg, engines);
}

static void try_it(bench *b, const char *body) {
  unsigned engines = 1 << ORACLE_TIR | 1 << ORACLE_LLVM_O0 | 1 << ORACLE_BUILT;
  if ((b->number + 1) / b->parts % 64 == 0) engines |= 1 << ORACLE_CJIT;
  try_in(b, body, engines);
}

static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

/* The pattern with each of the letters, where it stands alone, replaced by its text. */
static void expand(char *to, size_t size, const char *pattern, const char *letters,
                   const char *const *texts) {
  size_t at = 0;
  for (const char *s = pattern; *s && at + 1 < size; s++) {
    bool alone = !is_lower(s[1]) && (s == pattern || !is_lower(s[-1]));
    const char *letter = alone ? strchr(letters, *s) : NULL;
    if (letter) at += (size_t)snprintf(to + at, size - at, "%s", texts[letter - letters]);
    else to[at++] = *s;
  }
  if (at >= size) abort();
  to[at] = 0;
}

/* ---- op, number of arguments, form of call ---- */

/* F: the op; A: all arguments; H and T: the first and the others; M: tuples of two of each argument. */
static const char *const forms[] = {"F(A)",
                                    "f = F; f(A)",
                                    "def call(f) { f(A) }; call(F)",
                                    "partial(F, H)(T)",
                                    "partial(F, A)()",
                                    "map(F, M)",
                                    "hyper_map(F, M)",
                                    "switch(c, F, F)(A)",
                                    "switch(k, (F, F))(A)",
                                    "map(fn (f) { f(A) }, (F, F))",
                                    "multitype(F, Neg)(A)",
                                    "{f = F}.f(A)",
                                    "grad(F)(A)",
                                    "vmap(F)(A)",
                                    "checkpoint(F)(A)"};
enum { FORMS = sizeof forms / sizeof *forms, MOST = 6 };

static void put_arguments(char *to, size_t size, char kind, size_t n, const char *name) {
  size_t at = 0;
  bool map = kind == 'M', rest = kind == 'T';
  to[0] = 0;
  for (size_t i = rest; i < (kind == 'H' && n > 1 ? 1 : n); i++)
    at += (size_t)snprintf(to + at, size - at, map ? "%s(%s, %s)" : "%s%s", i > rest ? ", " : "",
                           name, name);
}

static void fill_form(char *to, size_t size, const char *form, const char *op, size_t n,
                      const char *arg) {
  static const char kinds[] = "AHTM";
  char list[4][256];
  const char *texts[5] = {op, list[0], list[1], list[2], list[3]};
  for (int i = 0; i < 4; i++) put_arguments(list[i], sizeof list[i], kinds[i], n, arg);
  expand(to, size, form, "FAHTM", texts);
}

static void try_arity(bench *b) {
  static const char *const args[] = {"x", "v", "k", "c"};
  char body[700];
  for (int op = 1; op < ANF_OP_COUNT; op++)
    for (size_t n = 0; n <= MOST; n++)
      for (size_t a = 0; a < (n ? 4u : 1u); a++)
        for (size_t f = 0; f < FORMS; f++) {
          if (n > anfi_op_schema(b->o->cx, (anfi_opcode)op)->nin + 1) continue;
          fill_form(body, sizeof body, forms[f], anfi_op[op].name, n, args[a]);
          try_it(b, body);
        }
}

/* ---- op, number of arguments, with the attributes that must be given ---- */

/* `name=value` of each such attribute; values by type, of two kinds. How many. */
static size_t put_required(char *to, size_t size, const anfi_schema *s, int kind, bool comma) {
  static const char *const values[][2] = {
      [ANFI_ATTR_INT] = {"0", "2"},          [ANFI_ATTR_BOOL] = {"true", "false"},
      [ANFI_ATTR_FLOAT] = {"0.5", "2.0"},    [ANFI_ATTR_STR] = {"\"add\"", "\"i\""},
      [ANFI_ATTR_INTS] = {"(0,)", "(2, 2)"}, [ANFI_ATTR_DTYPE] = {"f32", "i8"},
      [ANFI_ATTR_ANY] = {"0", "(\"a\",)"}};
  size_t at = 0, n = 0;
  to[0] = 0;
  for (uint32_t k = 0; k < s->nattr; k++) {
    if (s->attr[k].initial || s->attr[k].optional) continue;
    at += (size_t)snprintf(to + at, size - at, "%s%s=%s", comma || n ? ", " : "",
                           s->attr[k].name->s, values[s->attr[k].type][kind]);
    n++;
  }
  return n;
}

static void try_required(bench *b) {
  static const char *const args[] = {"x", "v", "k", "c", "(x, k)", "{a = x}", "Sin"};
  static const char *const with[] = {"F(AR)", "partial(F, P)(A)", "map(partial(F, P), M)",
                                     "grad(partial(F, P))(A)"};
  char list[2][256], required[2][300], body[1000];
  for (int op = 1; op < ANF_OP_COUNT; op++)
    for (size_t n = 0; n <= MOST; n++)
      for (size_t a = 0; a < (n ? ANFI_LEN(args) : 1u); a++)
        for (size_t f = 0; f < 2 * ANFI_LEN(with); f++) {
          const anfi_schema *s = anfi_op_schema(b->o->cx, (anfi_opcode)op);
          if (n > s->nin + 1 || !put_required(required[0], 300, s, f & 1, n > 0)) continue;
          put_required(required[1], sizeof required[1], s, f & 1, false);
          put_arguments(list[0], sizeof list[0], 'A', n, args[a]);
          put_arguments(list[1], sizeof list[1], 'M', n, args[a]);
          const char *texts[] = {anfi_op[op].name, list[0], required[0], required[1], list[1]};
          expand(body, sizeof body, with[f / 2], "FARPM", texts);
          try_it(b, body);
        }
}

/* ---- op, number of arguments, called by the host ---- */

/* The op is run itself, and is an argument of what is run. */
static void try_called(bench *b, anf_value *op, const char *name, size_t n, size_t a,
                       const char *arg) {
  char list[256], text[400];
  anf_value *args[MOST + 5] = {op, b->arg[0], b->arg[1], b->arg[2], b->arg[3]};
  unsigned engines = 1 << ORACLE_TIR | 1 << ORACLE_LLVM_O0;
  put_arguments(list, sizeof list, 'A', n, arg);
  snprintf(text, sizeof text, "def main(f, x, v, k, c) { f(%s) } # %s\n", list, name);
  oracle_try(b->o, text, 5, args, engines);
  for (size_t i = 0; i < n; i++) args[i] = b->arg[a];
  b->o->callee = op;
  oracle_try(b->o, text, n, args, engines);
  b->o->callee = NULL;
}

static void try_host(bench *b) {
  static const char *const args[] = {"x", "v", "k", "c"};
  anf_module *m = anf_module_new(b->o->cx);
  for (int op = 1; op < ANF_OP_COUNT; op++) {
    anf_node *node = anf_op_node(m, anfi_op[op].name);
    for (size_t n = 0; n <= MOST; n++)
      for (size_t a = 0; a < (n ? 4u : 1u); a++) {
        if (n > anfi_op_schema(b->o->cx, (anfi_opcode)op)->nin + 1) continue;
        if (b->number++ % b->parts != b->part) continue;
        anf_value *f = (anf_value *)(uintptr_t)anf_node_value(node);
        try_called(b, f, anfi_op[op].name, n, a, args[a]);
      }
  }
  anf_module_free(m);
}

/* ---- declared type, number ---- */

static void try_declared(bench *b) {
  static const char *const types[] = {"bool", "i8",  "i16",  "i32", "i64",   "u8",
                                      "u16",  "u32", "u64",  "f16", "bf16",  "f32",
                                      "f64",  "c64", "c128", "int", "float", "complex"};
  static const char *const numbers[] = {"0",
                                        "1",
                                        "-1",
                                        "127",
                                        "128",
                                        "-128",
                                        "-129",
                                        "255",
                                        "256",
                                        "32767",
                                        "32768",
                                        "65535",
                                        "65536",
                                        "2147483647",
                                        "2147483648",
                                        "-2147483649",
                                        "4294967296",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "0.0",
                                        "-0.0",
                                        "0.5",
                                        "2.0",
                                        "2.7",
                                        "-1.5",
                                        "1e300",
                                        "1e40",
                                        "70000.0",
                                        "true",
                                        "i8(100)",
                                        "u8(200)",
                                        "f32(1.5)",
                                        "complex(1.5, -2.0)",
                                        "complex(70000.0, 0.0)",
                                        "complex(1e40, 0.1)",
                                        "c64(1.5, -2.0)",
                                        "(k + 1)",
                                        "(2 * x)",
                                        "Len(v) + 200",
                                        "(0 - 200)",
                                        "if c { 100 } else { 300 }"};
  static const char *const uses[] = {"def f(p: T) { p }; f(N)",
                                     "def f(p: T) { p + 100 }; f(N)",
                                     "def f() -> T { N }; f()",
                                     "y: T = N; y",
                                     "y: T = N; y + 100",
                                     "y: T = N + 0; y",
                                     "def f(p: T) { (p == N, p < N, N <= p) }; f(T(1))",
                                     "T(N)",
                                     "Cast(N, dtype=T)",
                                     "def f(p: (T, T)) { p[1] }; f((N, N))",
                                     "def f(p: T[2]) { p }; f([N, N])",
                                     "y = if c { N } else { T(1) }; y + 100",
                                     "y = if c { N } else { T(1) }; y // 0",
                                     "y = if c { N } else { T(1) }; Abs(y)",
                                     "y = if c { T(1) } else { N }; y == f16(1)",
                                     "y = 0; for i in 0..3 { y = y * T(1) + N }; y",
                                     "y = if c { N } else { T(1) }; Fmod(7, y - y)",
                                     "y = if c { N } else { T(1) }; Maximum(y, y) + 1",
                                     "T(1) + N",
                                     "Stack(T(1), N)",
                                     "Where(c, T(1), N)",
                                     "T([1, 2]) * N"};
  char body[700];
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
      for (size_t u = 0; u < sizeof uses / sizeof *uses; u++) {
        expand(body, sizeof body, uses[u], "TN", (const char *[]){types[t], numbers[n]});
        bool complex =
            strstr(body, "complex(") && strstr(body, "Maximum("); // no order of one of the branches
        if (!complex) try_it(b, body);
      }
}

/* ---- op, element type, values ---- */

static void try_dtypes(bench *b) {
  static const char *const types[] = {"bool", "i8",   "i64", "u8",  "u64",
                                      "f16",  "bf16", "f32", "f64", "c64"};
  static const char *const values[] = {"T(1)", "T([])", "T([0, 1, 0])", "T([[1, 0], [0, 1]])",
                                       "T([S])"};
  static const char *const floats =
      "0.0, -0.0, 1.0, -1.0, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e-40, 65504.0";
  static const char *const ints = "0, 1, 2, 100, 127, 7, 3, 5, 11";
  char body[1200];
  for (int op = 1; op < ANF_OP_COUNT; op++)
    for (size_t n = 1; n <= 2; n++)
      for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
          const anfi_schema *s = anfi_op_schema(b->o->cx, (anfi_opcode)op);
          if (n < s->min_in || (n > s->nin && !s->variadic)) continue;
          bool is_float = types[t][0] == 'f' || types[t][0] == 'b' || types[t][0] == 'c';
          char value[400];
          const char *special = is_float && types[t][1] != 'o' ? floats : ints;
          expand(value, sizeof value, values[v], "TS", (const char *[]){types[t], special});
          snprintf(body, sizeof body, n == 1 ? "y = %s; %s(y)" : "y = %s; %s(y, y)", value,
                   anfi_op[op].name);
          try_it(b, body);
        }
}

/* ---- op, element type, constant ---- */

/* y OP C and C OP y for each constant, of a number and of a tensor, in every engine: (y // -2, y // 3, ..). */
static void put_constants(char *to, size_t size, const char *op, const char *type, bool left) {
  static const char *const ints[] = {"1",   "2",  "3",  "7",  "8",   "100",
                                     "127", "-1", "-2", "-7", "-128"};
  static const char *const reals[] = {"0",     "0.5",   "-0.5", "0.0", "-0.0",
                                      "1e300", "1e-40", "3",    "-1"};
  bool real = (type[0] == 'f' || type[0] == 'b'), powers = strcmp(op, "**") == 0;
  bool natural = powers || type[0] == 'u'; // the first 7 are not negative
  size_t n = real ? sizeof reals / sizeof *reals : natural ? 7 : sizeof ints / sizeof *ints;
  size_t at = (size_t)snprintf(to, size, "(");
  for (size_t i = 0; i < n; i++) {
    const char *k = real ? reals[i] : ints[i];
    at += (size_t)snprintf(to + at, size - at, left ? "%s %s y, " : "y %s (%s), ", left ? k : op,
                           left ? op : k);
  }
  snprintf(to + at, size - at, "y)");
}

static void try_constants(bench *b) {
  static const char *const types[] = {"i8",  "i16", "i32", "i64",  "u8",  "u16",
                                      "u32", "u64", "f16", "bf16", "f32", "f64"};
  static const char *const ops[] = {"+",  "-", "*", "/", "//", "%",  "**", "<<",
                                    ">>", "&", "|", "^", "<",  "==", "<="};
  char body[700], list[600];
  for (int form = 0; form < 4; form++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        put_constants(list, sizeof list, ops[o], types[t], form & 1);
        snprintf(body, sizeof body, "y = %s(%s); %s", types[t], form & 2 ? "v * 100" : "k * 99",
                 list);
        try_in(b, body, ORACLE_ALL);
      }
}

/* ---- op, integer type, number that it may not hold ---- */

static const anf_dtype narrow[] = {ANF_I8, ANF_U8, ANF_I16, ANF_U16, ANF_I32, ANF_U32, ANF_U64};

static bool is_refused(bench *b, const char *body) {
  char text[1400];
  snprintf(text, sizeof text, "def main(x: f64, v: f64[2, 2], k: i64, c: bool) { %s }\n", body);
  return oracle_refuses(b->o, text, 4, b->arg, "E0561");
}

/* Elementwise ops of integers that give integers, but those that compare, refuse what the type does not hold. */
static void expect_range(bench *b, anfi_opcode op, anf_dtype d, const char *number,
                         const char *body) {
  char *end;
  long long x = strtoll(number, &end, 10);
  bool integers = anfi_op[op].infer == anfi_infer_arith || anfi_op[op].infer == anfi_infer_number;
  bool real = strpbrk(number, ".e") != NULL;
  if (!integers || real || (b->number - 1) % b->parts != b->part) return;
  bool want = !anfi_dtype_holds(d, x, x);
  if (is_refused(b, body) == want) return;
  printf("# %s %s refused: %s\n", body, want ? "is not" : "is", anfi_op[op].name);
  b->o->differ++;
}

/* Arguments: one number, the others of the type. */
static void put_one_number(char *to, size_t size, size_t n, size_t place, const char *number) {
  size_t at = 0;
  to[0] = 0;
  for (size_t i = 0; i < n; i++)
    at += (size_t)snprintf(to + at, size - at, "%s%s", i ? ", " : "", i == place ? number : "y");
}

static void try_range(bench *b) {
  static const char *const numbers[] = {
      "1",   "-1",         "127",        "128",        "-128",       "-129",
      "255", "256",        "32768",      "-32769",     "65535",      "65536",
      "1.0", "2147483648", "4294967295", "4294967296", "-2147483649"};
  static const char *const range_forms[] = {"y = T(3); F(A)", "y = T([1, 2]); F(A)",
                                            "y = T(3); n = N + Len(v) - 2; F(A)"};
  char args[200], body[500];
  for (int op = 1; op < ANF_OP_COUNT; op++)
    for (size_t t = 0; t < ANFI_LEN(narrow); t++)
      for (size_t k = 0; k < ANFI_LEN(numbers); k++)
        for (size_t f = 0; f < ANFI_LEN(range_forms); f++) {
          const anfi_schema *s = anfi_op_schema(b->o->cx, (anfi_opcode)op);
          size_t n = s->variadic ? 2 : s->nin;
          for (size_t place = 0; n > 1 && n < 5 && place < n; place++) {
            bool computed = strchr(range_forms[f], 'N') != NULL;
            put_one_number(args, sizeof args, n, place, computed ? "n" : numbers[k]);
            expand(body, sizeof body, range_forms[f], "TFAN",
                   (const char *[]){anf_dtype_name(narrow[t]), anfi_op[op].name, args, numbers[k]});
            try_it(b, body);
            expect_range(b, (anfi_opcode)op, narrow[t], numbers[k], body);
          }
        }
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(bench *);
  } tables[] = {{"op, number of arguments, form of call", try_arity},
                {"op, number of arguments, attributes that must be given", try_required},
                {"op, number of arguments, called by the host", try_host},
                {"declared type, number", try_declared},
                {"op, element type, special values", try_dtypes},
                {"op, element type, constant", try_constants},
                {"op, integer type, number", try_range}};
  enum { TABLES = sizeof tables / sizeof *tables };
  bench b = {.parts = 1};
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--part") == 0) {
      char *end;
      b.part = strtoul(argv[i + 1], &end, 10);
      b.parts = *end == '/' ? strtoul(end + 1, NULL, 10) : 0;
    } else if (strcmp(argv[i], "--table") == 0) only = argv[i + 1];
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!b.parts || b.part >= b.parts || !(b.o = oracle_new())) return 2;
  static const double numbers[4] = {0.5, 2.0, -1.0, 0.25};
  static const int64_t dims[2] = {2, 2};
  b.arg[0] = anf_value_f64(b.o->cx, 1.5);
  b.arg[1] = anf_value_tensor(b.o->cx, ANF_F64, 2, dims, numbers);
  b.arg[2] = anf_value_i64(b.o->cx, 1);
  b.arg[3] = anf_value_bool(b.o->cx, true);
  printf("1..%d\n", TABLES);
  size_t failed = 0;
  for (size_t i = 0; i < TABLES; i++) {
    size_t tried = b.o->tried, differ = b.o->differ, ran = b.o->ran, not = b.o->unsupported;
    b.number = 0;
    if (!only || strstr(tables[i].name, only)) tables[i].run(&b);
    tried = b.o->tried - tried, differ = b.o->differ - differ, ran = b.o->ran - ran;
    failed += differ > 0;
    printf("%s %zu - %s: of %zu programs %zu run, %zu differ, %zu are not compiled\n",
           differ ? "not ok" : "ok", i + 1, tables[i].name, tried, ran, differ,
           b.o->unsupported - not );
    b.o->shown = 0;
  }
  for (int i = 0; i < 4; i++) anf_value_release(b.arg[i]);
  oracle_free(b.o);
  return failed > 0;
}
