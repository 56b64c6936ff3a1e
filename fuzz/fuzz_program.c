// SPDX-License-Identifier: Apache-2.0
/* The whole way of a program: it is read, checked, run by the interpreter and by compiled code, differentiated, and its gradient is
 * run by both. What they give, print or refuse must be one. Functions get arguments of their declared types. The mutator
 * knows tokens: it changes, swaps, repeats and drops tokens, bracketed expressions and lines, also between two programs, so that
 * most inputs are programs. */
#include "fuzz.h"

#include "test/random/oracle.h"

#include <ctype.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m,
                                 uint8_t *out, size_t max, unsigned seed);

static unsigned state;
static unsigned below(unsigned n) { // n > 0
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}

/* ---- arguments, as text: f32[2]([1.5, -0.5]) ---- */

enum { TEXT = 4096, ARGS = 6, ELEMENTS = 64, FUNCTIONS = 8 };

typedef struct text {
  char s[TEXT];
  size_t n;
} text;

static void put(text *t, const char *s) {
  size_t n = strlen(s);
  if (n >= TEXT - t->n) return;
  memcpy(t->s + t->n, s, n + 1);
  t->n += n;
}

static void put_number(text *t, anf_dtype d) {
  static const char *const floats[] = {"1.5", "-0.5", "0.25", "2.0", "-3.0", "0.0", "1.0"};
  static unsigned next;
  char s[8];
  next++;
  if (d == ANF_BOOL) put(t, next % 3 ? "true" : "false");
  else if (d >= ANF_F16 && d != ANF_INT) put(t, floats[next % 7]);
  else snprintf(s, sizeof s, "%u", next % 5), put(t, s);
}

static void put_elements(text *t, anf_dtype d, size_t rank, const int64_t *dims) {
  if (!rank) put_number(t, d);
  else put(t, "[");
  for (int64_t i = 0; rank && i < dims[0]; i++) {
    if (i) put(t, ", ");
    put_elements(t, d, rank - 1, dims + 1);
  }
  if (rank) put(t, "]");
}

static bool put_tensor(text *t, anf_ctx *cx, const anf_type *type) {
  int64_t dims[ANF_MAX_RANK], n = 1;
  anf_dtype d = anf_type_dtype(type);
  size_t rank = anf_type_rank(type);
  if (d == ANF_KEY && !rank) return put(t, "key(0x7)"), true;
  if (d == ANF_KEY || d == ANF_C64 || d == ANF_C128 || d == ANF_COMPLEX) return false;
  for (size_t i = 0; i < rank; i++) {
    dims[i] = anf_type_dim(type, i) < 0 ? 2 : anf_type_dim(type, i);
    if (!dims[i] || dims[i] > ELEMENTS || (n *= dims[i]) > ELEMENTS) return false;
  }
  if (!rank && (d == ANF_BOOL || d == ANF_INT || d == ANF_FLOAT)) return put_number(t, d), true;
  anf_text name = {.cx = cx};
  anf_status st = anf_type_print(cx, anf_type_tensor(cx, d, rank, dims), &name);
  if (st == ANF_OK) put(t, name.text);
  anf_text_free(&name);
  put(t, "(");
  put_elements(t, d, rank, dims);
  return put(t, ")"), st == ANF_OK;
}

/* Tensors, tuples and records of them, and numbers for parameters without a type. False: no value is made of this type. */
static bool put_argument(text *t, anf_ctx *cx, const anf_type *type, unsigned depth) {
  anf_type_kind k = type ? anf_type_get_kind(type) : ANF_TYPE_ANY;
  if (k == ANF_TYPE_ANY) return put(t, below(2) ? "2.5" : "3"), true;
  if (k == ANF_TYPE_NONE) return put(t, "None"), true;
  if (k == ANF_TYPE_TENSOR) return put_tensor(t, cx, type);
  if ((k != ANF_TYPE_TUPLE && k != ANF_TYPE_RECORD) || depth > 3) return false;
  put(t, k == ANF_TYPE_TUPLE ? "(" : "{");
  for (size_t i = 0; i < anf_type_count(type); i++) {
    if (k == ANF_TYPE_RECORD) put(t, anf_type_field(type, i)), put(t, " = ");
    if (!put_argument(t, cx, anf_type_at(type, i), depth + 1)) return false;
    put(t, k == ANF_TYPE_TUPLE || i + 1 < anf_type_count(type) ? ", " : "");
  }
  return put(t, k == ANF_TYPE_TUPLE ? ")" : "}"), true;
}

static anf_value *argument(anf_ctx *cx, const anf_type *type) {
  text t = {.n = 0};
  anf_value *v = NULL;
  if (!put_argument(&t, cx, type, 0) || t.n + 1 >= TEXT) return NULL;
  return anf_parse_value(cx, t.s, NULL, &v) == ANF_OK ? v : NULL;
}

/* ---- one program ---- */

static oracle *the_oracle(void) {
  static oracle *o;
  static unsigned used;
  if (o && used++ % 1024 != 0) return o;
  if (o) oracle_free(o);
  FUZZ_CHECK((o = oracle_new()));
  o->several = true;
  o->max_steps = 20000;
  return o;
}

/* Compared in engines that take little time, and now and then in machine code. */
static void compare(oracle *o, const char *program, size_t n, anf_value *const *args) {
  static unsigned number;
  unsigned engines = 1u << ORACLE_TIR | (number++ % 16 ? 0 : 1u << ORACLE_LLVM_O0);
  FUZZ_CHECK(oracle_try(o, program, n, args, engines) == 0);
}

/* The gradient along all arguments that have one: other paths of every pass. */
static void compare_gradient(oracle *o, const char *program, const char *name, size_t n,
                             anf_value *const *args) {
  static const char *const params[ARGS + 1] = {
      "", "a", "a, b", "a, b, c", "a, b, c, d", "a, b, c, d, e", "a, b, c, d, e, f"};
  size_t len = strlen(program) + strlen(name) + 120;
  char *with = (char *)malloc(len);
  FUZZ_CHECK(with);
  snprintf(with, len, "%s\ndef fuzz_gradient(%s) { value_and_grad(%s)(%s) }\n", program, params[n],
           name, params[n]);
  o->function = "fuzz_gradient";
  compare(o, with, n, args);
  free(with);
}

static void try_function(oracle *o, const char *program, const anf_graph *g) {
  anf_value *args[ARGS];
  size_t n = anf_graph_param_count(g), made = 0;
  if (n > ARGS) return;
  while (made < n && (args[made] = argument(o->cx, anf_node_type(anf_graph_param(g, made)))))
    made++;
  o->function = anf_graph_name(g);
  if (made == n) compare(o, program, n, args);
  if (made == n && n && below(2)) compare_gradient(o, program, anf_graph_name(g), n, args);
  for (size_t i = 0; i < made; i++) anf_value_release(args[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  oracle *o = the_oracle();
  char *program = (char *)malloc(size + 1);
  FUZZ_CHECK(program);
  if (size) memcpy(program, data, size);
  program[size] = 0;
  anf_module *m = NULL;
  anf_diag_clear(o->d);
  anf_status st =
      strlen(program) == size ? anf_parse(o->cx, program, "fuzz.anf", o->d, &m) : ANF_IO;
  if (st != ANF_IO) fuzz_status(st, o->d);
  state = (unsigned)size;
  for (size_t i = 0, tried = 0; m && i < anf_module_graph_count(m) && tried < FUNCTIONS; i++) {
    anf_graph *g = anf_module_graph(m, i);
    if (anf_module_find(m, anf_graph_name(g)) != g) continue;
    try_function(o, program, g);
    tried++;
  }
  anf_module_free(m);
  free(program);
  return 0;
}

/* ---- mutation ---- */

typedef struct span {
  size_t from, to;
} span;

enum { TOKENS = 4096 };

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

static size_t tokens(const char *s, size_t n, span *out) {
  size_t count = 0;
  for (size_t at = 0; at < n && count < TOKENS;) {
    size_t from = at++;
    if (isspace((unsigned char)s[from])) continue;
    if (in_word(s[from]))
      while (at < n && in_word(s[at])) at++;
    else if (at < n && strchr("=>*&|/.", s[at]) && strchr("=<>!*&|/-.", s[from])) at++;
    out[count++] = (span){from, at};
  }
  return count;
}

/* From a token to the bracket that closes it, if it opens one. */
static span expression(const char *s, const span *t, size_t n, size_t i) {
  size_t last = i, depth = 0;
  bool call = i + 1 < n && in_word(s[t[i].from]) && s[t[i + 1].from] == '(';
  for (size_t k = call ? i + 1 : i; k < n; k++) {
    depth += strchr("([{", s[t[k].from]) != NULL;
    if (strchr(")]}", s[t[k].from])) depth -= depth > 0;
    last = k;
    if (!depth) break;
  }
  return (span){t[i].from, t[last].to};
}

static span line_at(const char *s, size_t n, size_t at) {
  span l = {at, at};
  while (l.from && s[l.from - 1] != '\n') l.from--;
  while (l.to < n && s[l.to] != '\n') l.to++;
  if (l.to < n) l.to++;
  return l;
}

/* A part of the text: a token, an expression, a line. */
static span part(const char *s, size_t n, const span *t, size_t count, unsigned kind) {
  size_t i = below((unsigned)count);
  return kind == 0 ? t[i] : kind == 1 ? expression(s, t, count, i) : line_at(s, n, t[i].from);
}

/* `s` with a part replaced; 0: no room. */
static size_t replace(const char *s, size_t n, span at, const char *with, size_t len, char *out,
                      size_t room) {
  size_t rest = n - at.to;
  if (at.from + len + rest > room) return 0;
  memcpy(out, s, at.from);
  memcpy(out + at.from, with, len);
  memcpy(out + at.from + len, s + at.to, rest);
  return at.from + len + rest;
}

/* Replaces a part of `s` by one of `q` of the same kind, or puts that before it. */
static size_t graft(const char *s, size_t n, const char *q, size_t m, char *out, size_t room) {
  static span mine[TOKENS], theirs[TOKENS];
  size_t a = tokens(s, n, mine), b = tokens(q, m, theirs);
  if (!a || !b) return 0;
  unsigned kind = below(3);
  span at = part(s, n, mine, a, kind), from = part(q, m, theirs, b, kind);
  if (kind == 2 && below(2)) at.to = at.from;
  return replace(s, n, at, q + from.from, from.to - from.from, out, room);
}

static size_t change_token(const char *s, size_t n, char *out, size_t room) {
  static const char *const words[] = {
      "0",      "1",      "-1",      "2",       "9",    "0.5",         "1e300",  "inf",
      "nan",    "true",   "false",   "None",    "f32",  "i64",         "u8",     "bool",
      "bf16",   "grad",   "vmap",    "map",     "+",    "-",           "*",      "/",
      "//",     "%",      "**",      "@",       "==",   "<",           "Sum",    "Sin",
      "Exp",    "MatMul", "Reshape", "Where",   "Relu", "print",       "assert", "switch",
      "(1, 2)", "[1.0]",  "()",      "{a = 1}", "[]",   "fn (x) { x }"};
  static span t[TOKENS];
  size_t count = tokens(s, n, t);
  const char *w = words[below(sizeof words / sizeof *words)];
  return count ? replace(s, n, t[below((unsigned)count)], w, strlen(w), out, room) : 0;
}

static size_t drop(const char *s, size_t n, char *out, size_t room) {
  static span t[TOKENS];
  size_t count = tokens(s, n, t);
  return count ? replace(s, n, part(s, n, t, count, below(3)), "", 0, out, room) : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
  static char out[1 << 16];
  const char *s = (const char *)data;
  size_t room = max < sizeof out ? max : sizeof out, n = 0;
  state = seed;
  for (unsigned tries = 0; !n && tries < 8; tries++) {
    unsigned how = below(8);
    n = how < 4   ? graft(s, size, s, size, out, room)
        : how < 7 ? change_token(s, size, out, room)
                  : drop(s, size, out, room);
  }
  if (n) memcpy(data, out, n);
  return n ? n : size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m,
                                 uint8_t *out, size_t max, unsigned seed) {
  state = seed;
  size_t made = graft((const char *)p, n, (const char *)q, m, (char *)out, max);
  return made;
}
