// SPDX-License-Identifier: Apache-2.0
/* random_mistakes [--programs N] [--seed S] [--size N] [--show SEED]
 * Programs as people write them, with the mistakes that they make: numbers without a type against declared types, wrong
 * types, shapes and numbers of arguments, names that are not bound, branches that bind less or give something else,
 * indices outside, functions and records in the wrong places, effects in callbacks.
 *
 *     def g(p: i8, q) { y: f32 = p * 2; if q > 1 { y } else { (y, q) } }
 *     def main(x: f64, v: f64[2, 2], k: i64, c: bool) { a = g(k, 300); print(a); a[0] + v }
 *
 * Each program runs in every engine: value, refusal and place, printed text must be the interpreter's. And each is
 * written again in ways that must make no difference: calls of ops in another form (f = Add; f(a, b)), other names,
 * dead branches between the statements, expressions as calls of functions without parameters. */
#include "oracle.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1 << 14, NAMES = 48, FORMS = 6 };

/* What an expression is meant to be. */
typedef enum { NUMBER, INTEGER, BOOLEAN, TENSOR, TUPLE, RECORD, FUNCTION, KINDS } kind;

typedef struct {
  kind kind;
  char name[12];
} bound;

typedef struct {
  uint64_t state;
  char text[TEXT];
  size_t n;
  bound name[NAMES];
  size_t nname, fresh, mistakes;
  int form; // of calls of ops
  bool dead,
      wrapped; // branches that are not taken between statements; expressions as functions that are called
  size_t expressions;
} writer;

static uint64_t draw(writer *w, uint64_t n) {
  uint64_t z = (w->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (z ^ z >> 31) % n;
}
static bool one_in(writer *w, uint64_t n) { return draw(w, n) == 0; }
#define PICK(w, list) ((list)[draw((w), sizeof(list) / sizeof *(list))])

#if defined __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static void
put(writer *w, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(w->text + w->n, TEXT - w->n, format, ap);
  va_end(ap);
  w->n += (size_t)n;
  if (w->n >= TEXT) abort();
}

/* ---- names ---- */

static void bind(writer *w, kind k, const char *name) {
  bound *b = &w->name[w->nname < NAMES ? w->nname++ : draw(w, NAMES)];
  b->kind = k;
  snprintf(b->name, sizeof b->name, "%s", name);
}

static const char *fresh(writer *w) {
  static const char *const usual[] = {"a", "b", "d", "y", "z", "s", "t", "n", "i"};
  static char name[12];
  snprintf(name, sizeof name, "%s", PICK(w, usual));
  if (one_in(w, 2)) snprintf(name, sizeof name, "%s%zu", PICK(w, usual), w->fresh++);
  return name;
}

/* A name of the kind, mostly; NULL if there is none. */
static const char *known(writer *w, kind k) {
  const char *found = NULL;
  size_t n = 0;
  bool any = one_in(w, 40);
  for (size_t i = 0; i < w->nname; i++)
    if ((any || w->name[i].kind == k) && one_in(w, ++n)) found = w->name[i].name;
  w->mistakes += any;
  return found;
}

/* ---- expressions ---- */

static void expr(writer *w, kind k, int depth);

static const char *const types[] = {"i8",        "i64", "u8",  "f32",    "f64",
                                    "bool",      "int", "u64", "float",  "f64[2]",
                                    "f64[2, 2]", "i32", "c64", "complex"};

/* Negative numbers are in brackets: -1 ** x is -(1 ** x), and other forms of the program bind its parts. */
static void literal(writer *w, kind k) {
  static const char *const numbers[] = {"0.5", "2.0", "(-1.5)", "1", "3", "0", "1e10", "0.1"};
  static const char *const ints[] = {"0",   "1",   "2",   "3",   "7",    "100",
                                     "127", "128", "255", "300", "(-1)", "(-129)"};
  static const char *const typed[] = {"i8(100)", "u8(200)", "i32(7)",
                                      "i64(3)",  "u64(5)",  "i16(-3)"};
  static const char *const reals[] = {"f32(0.5)",  "f64(2.5)",          "f32(0.1)",     "f16(1.5)",
                                      "bf16(3.0)", "complex(0.5, 2.0)", "c64(0.1, 2.0)"};
  static const char *const tensors[] = {
      "[1.0, 2.0]",         "[1, 2]",          "[[1.0, 2.0], [3.0, 4.0]]", "[0.5]",
      "f32[2]([1.0, 2.0])", "[1.0, 2.0, 3.0]", "i8[2]([100, 2])"};
  static const char *const functions[] = {"Sin", "Neg", "Exp", "Abs", "Square"};
  switch (k) {
  case NUMBER: put(w, "%s", one_in(w, 4) ? PICK(w, reals) : PICK(w, numbers)); break;
  case INTEGER: put(w, "%s", one_in(w, 4) ? PICK(w, typed) : PICK(w, ints)); break;
  case BOOLEAN: put(w, one_in(w, 2) ? "true" : "false"); break;
  case TENSOR: put(w, "%s", PICK(w, tensors)); break;
  case FUNCTION: put(w, "%s", PICK(w, functions)); break;
  case TUPLE: put(w, "(1, 0.5)"); break;
  default: put(w, "{a = 1, b = 0.5}"); break;
  }
}

/* Op(a, b) in one of the forms that mean the same. */
static void call_op(writer *w, const char *op, int n, const kind *k, int depth) {
  static const struct {
    const char *before, *after;
  } forms[FORMS] = {{"", "("},         {"(fn (f) { f })(", ")("},    {"partial(", ", "},
                    {"{f = ", "}.f("}, {"switch(true, ", ", Neg)("}, {"(", ", Neg)[0]("}};
  int form = w->form;
  put(w, "%s%s%s", forms[form].before, op, forms[form].after);
  for (int i = 0; i < n; i++) {
    if (i) put(w, form == 2 && i == 1 ? ")(" : ", ");
    expr(w, k[i], depth);
  }
  put(w, form == 2 && n == 1 ? ")()" : ")");
}

static void arithmetic(writer *w, kind k, int depth) {
  static const char *const infix[] = {" + ", " - ", " * ", " / ", " ** ", " // ", " % "};
  static const char *const two[] = {"Add", "Sub", "Mul", "Maximum", "Minimum", "Div"};
  static const char *const one[] = {"Neg", "Abs", "Square", "Sin",
                                    "Exp", "Sum", "Cast",   "Identity"};
  kind other = one_in(w, 3) ? (kind)draw(w, 4) : k;
  switch (draw(w, 6)) {
  case 0: call_op(w, PICK(w, two), one_in(w, 30) ? 3 : 2, (kind[]){k, other, k}, depth); break;
  case 1: call_op(w, PICK(w, one), 1, &k, depth); break;
  default:
    put(w, "(");
    expr(w, k, depth);
    put(w, "%s", one_in(w, 3) ? PICK(w, infix) : infix[draw(w, 3)]);
    expr(w, other, depth);
    put(w, ")");
  }
}

static void condition(writer *w, int depth) {
  static const char *const compare[] = {" < ", " > ", " == ", " != ", " <= ", " and ", " or "};
  kind k = one_in(w, 3) ? NUMBER : INTEGER;
  size_t at = draw(w, 7);
  if (at >= 5) k = BOOLEAN;
  expr(w, k, depth);
  put(w, "%s", compare[at]);
  expr(w, one_in(w, 8) ? NUMBER : k, depth);
}

static void choice(writer *w, kind k, int depth) {
  put(w, "(if ");
  condition(w, depth);
  put(w, " { ");
  expr(w, k, depth);
  bool none = one_in(w, 60);
  w->mistakes += none;
  put(w, none ? " }" : " } else { ");
  if (!none) expr(w, one_in(w, 12) ? (kind)draw(w, KINDS) : k, depth);
  put(w, none ? ")" : " })");
}

static void lambda(writer *w, int depth) {
  size_t names = w->nname;
  put(w, one_in(w, 25) ? "fn (p, q) { " : "fn (p) { ");
  bind(w, NUMBER, "p");
  if (one_in(w, 6)) put(w, "print(p); ");
  if (one_in(w, 12)) put(w, "assert(p < 100, \"large\"); ");
  expr(w, NUMBER, depth);
  put(w, " }");
  w->nname = names;
}

static void function_value(writer *w, int depth) {
  const char *f = known(w, FUNCTION);
  if (f && !one_in(w, 4)) put(w, "%s", f);
  else lambda(w, depth);
}

/* One of two functions, by a bool or by an index that may be outside. */
static void chosen(writer *w, int depth) {
  bool index = one_in(w, 2);
  put(w, "switch(");
  expr(w, index ? INTEGER : BOOLEAN, depth - 1);
  put(w, index ? ", (" : ", ");
  for (int i = 0; i < 2; i++) function_value(w, depth - 1), put(w, i ? "" : ", ");
  put(w, index ? "))" : ")");
}

/* A derivative of some function by other transforms than grad. `F`: the function; `E`: a number. */
static void derivative(writer *w, int depth) {
  static const char *const forms[] = {
      "grad(custom_vjp(F, fn (p) { (p * p, p) }, fn (r, d) { print(r); (d * r,) }))(E)",
      ("grad(custom_vjp(F, fn (p) { print(p); (p, p) }, fn (r, d) { assert(r < 2, \"r\"); (d,) "
       "}))(E)"),
      "grad(custom_jvp(F, fn (p, t) { print(t[0]); (p[0] * 2.0, t[0] * 2.0) }))(E)",
      "jvp(F, (E,), (E,))[1]",
      "vjp(F, E)[1](E)[0]",
      "linearize(F, E)[1](E)",
      "value_and_grad(F)(E)[1]",
      "hessian(F)(E)",
      "grad(grad(F))(E)",
      "jacrev(F)(E)",
      "vmap(grad(F))([E, E])[0]"};
  for (const char *s = PICK(w, forms); *s; s++) {
    if (*s == 'F') function_value(w, depth);
    else if (*s == 'E') expr(w, NUMBER, depth - 1);
    else put(w, "%c", *s);
  }
}

/* A call of something that is bound, or of a transform of it. */
static void call(writer *w, int depth) {
  static const char *const over[] = {"", "", "", "grad(", "checkpoint(", "vmap("};
  const char *f = known(w, FUNCTION), *transform = PICK(w, over);
  put(w, "%s", transform);
  if (f && !one_in(w, 4)) put(w, "%s", f);
  else {
    put(w, "(");
    lambda(w, depth);
    put(w, ")");
  }
  put(w, "%s(", *transform ? ")" : "");
  if (!one_in(w, 40)) expr(w, strcmp(transform, "vmap(") == 0 ? TENSOR : NUMBER, depth);
  if (one_in(w, 20)) {
    put(w, ", ");
    expr(w, INTEGER, depth);
  }
  put(w, ")");
}

static void part(writer *w, int depth) {
  static const char *const index[] = {"[0]",  "[1]",    "[-1]",   "[k]",    "[2]",
                                      "[1:]", "[0, 1]", "[:, 0]", "[k - 1]"};
  static const char *const field[] = {".a", ".b", ".a", ".c"};
  bool record = one_in(w, 3);
  expr(w, record ? RECORD : one_in(w, 2) ? TUPLE : TENSOR, depth);
  put(w, "%s", record ? PICK(w, field) : PICK(w, index));
}

static void items(writer *w, kind k, int depth) {
  bool record = k == RECORD, swapped = one_in(w, 8);
  put(w, record ? swapped ? "{b = " : "{a = " : "(");
  expr(w, one_in(w, 3) ? INTEGER : NUMBER, depth);
  put(w, record ? swapped ? ", a = " : ", b = " : ", ");
  expr(w, one_in(w, 4) ? (kind)draw(w, KINDS) : NUMBER, depth);
  put(w, record ? "}" : ")");
}

static void mapped(writer *w, int depth) {
  static const char *const by[] = {"map(", "hyper_map(", "map("};
  put(w, "%s", PICK(w, by));
  if (one_in(w, 3)) literal(w, FUNCTION);
  else lambda(w, depth);
  put(w, ", ");
  expr(w, one_in(w, 5) ? RECORD : TUPLE, depth);
  put(w, ")");
}

static void compound(writer *w, kind k, int depth) {
  switch (k) {
  case NUMBER:
  case INTEGER:
    switch (draw(w, 8)) {
    case 0: choice(w, k, depth); return;
    case 1: one_in(w, 3) ? derivative(w, depth) : call(w, depth); return;
    case 2: part(w, depth); return;
    case 3: put(w, "%s(", PICK(w, types)), expr(w, k, depth), put(w, ")"); return;
    default: arithmetic(w, k, depth); return;
    }
  case BOOLEAN:
    put(w, "(");
    condition(w, depth);
    put(w, ")");
    return;
  case TENSOR:
    if (one_in(w, 4)) choice(w, k, depth);
    else if (one_in(w, 3)) part(w, depth);
    else arithmetic(w, k, depth);
    return;
  case TUPLE:
    if (one_in(w, 4)) mapped(w, depth);
    else items(w, k, depth);
    return;
  case RECORD: items(w, k, depth); return;
  default: one_in(w, 4) ? chosen(w, depth) : lambda(w, depth); return;
  }
}

static void written(writer *w, kind k, int depth);

static void expr(writer *w, kind k, int depth) {
  bool wrap = w->wrapped && ++w->expressions % 3 == 0;
  if (wrap) put(w, "(fn () { ");
  written(w, k, depth);
  if (wrap) put(w, " })()");
}

static void written(writer *w, kind k, int depth) {
  if (one_in(w, 50)) k = (kind)draw(w, KINDS), w->mistakes++;
  if (one_in(w, 300)) {
    put(w, "missing");
    w->mistakes++;
    return;
  }
  const char *name = one_in(w, 3) || depth <= 0 ? known(w, k) : NULL;
  if (name) put(w, "%s", name);
  else if (depth <= 0 || one_in(w, 4)) literal(w, k);
  else compound(w, k, depth - 1);
}

/* ---- statements ---- */

static void block(writer *w, int n, int depth);

static kind any_kind(writer *w) {
  static const kind likely[] = {NUMBER, NUMBER, INTEGER,  INTEGER, TENSOR,
                                TUPLE,  RECORD, FUNCTION, BOOLEAN};
  return PICK(w, likely);
}

static void assignment(writer *w, int depth) {
  kind k = any_kind(w);
  char name[12];
  snprintf(name, sizeof name, "%s", fresh(w));
  put(w, "%s", name);
  if (k < TENSOR && one_in(w, 3)) put(w, ": %s", PICK(w, types));
  put(w, " = ");
  expr(w, k, depth);
  bind(w, k, name);
}

static void branch(writer *w, int depth) {
  const char *name = known(w, one_in(w, 2) ? NUMBER : INTEGER);
  put(w, "if ");
  condition(w, 1);
  put(w, " { %s = ", name ? name : "y");
  expr(w, NUMBER, depth);
  put(w, " }");
  if (one_in(w, 2)) return;
  put(w, " else { %s = ", one_in(w, 8) || !name ? "y" : name);
  expr(w, INTEGER, depth);
  put(w, " }");
}

static void loop(writer *w, int depth) {
  char name[12];
  const char *over = known(w, one_in(w, 2) ? NUMBER : INTEGER);
  snprintf(name, sizeof name, "%s", over ? over : "s");
  put(w, "for j in 0..%s { %s = ", one_in(w, 3) ? "k" : "3", name);
  size_t names = w->nname;
  bind(w, INTEGER, "j");
  expr(w, NUMBER, depth);
  if (one_in(w, 6)) put(w, "; print(j)");
  if (one_in(w, 10)) put(w, "; if j > 1 { break }");
  put(w, " }");
  w->nname = names;
}

/* A tuple that a loop makes item by item. */
static void gathering(writer *w, int depth) {
  char name[12];
  snprintf(name, sizeof name, "%s", fresh(w));
  put(w, "%s = %s; for j in 0..%s { %s = TupleConcat(%s, (", name, one_in(w, 4) ? "(x,)" : "()",
      one_in(w, 6) ? "k" : "3", name, name);
  size_t names = w->nname;
  bind(w, INTEGER, "j");
  expr(w, one_in(w, 3) ? FUNCTION : NUMBER, depth);
  put(w, ",)) }");
  w->nname = names;
  bind(w, TUPLE, name);
}

/* What is known before the program runs. */
static void shape_condition(writer *w) {
  put(w, "Rank(");
  expr(w, one_in(w, 3) ? any_kind(w) : TENSOR, 1);
  put(w, ") %s %d", one_in(w, 2) ? "==" : ">", (int)draw(w, 3));
}

static void statement(writer *w, int depth) {
  if (w->dead) put(w, "if 1 > 2 { assert(false, \"dead\"); unused = [1.0, 2.0][5] }; ");
  switch (draw(w, 9)) {
  case 0: branch(w, depth); break;
  case 1: one_in(w, 4) ? gathering(w, depth) : loop(w, depth); break;
  case 2: put(w, "print("), expr(w, any_kind(w), 1), put(w, ")"); break;
  case 3:
    put(w, "assert("), one_in(w, 3) ? shape_condition(w) : condition(w, 1), put(w, ", \"no\")");
    break;
  default: assignment(w, depth);
  }
  put(w, "; ");
}

static void block(writer *w, int n, int depth) {
  for (int i = 0; i < n; i++) statement(w, depth);
  if (one_in(w, 3)) {
    put(w, "(");
    for (int i = 0; i < 3; i++) expr(w, (kind)draw(w, RECORD), depth), put(w, i < 2 ? ", " : ")");
  } else expr(w, any_kind(w), depth);
}

/* A function of one parameter, mostly, that may have a type; the second has a default in mind: it is a number. */
static void function(writer *w, size_t number, int size) {
  char name[12];
  size_t names = w->nname;
  bool typed = one_in(w, 2), gives = one_in(w, 4), second = one_in(w, 6);
  snprintf(name, sizeof name, "g%zu", number);
  put(w, "def %s(p%s%s%s)%s%s { ", name, typed ? ": " : "", typed ? PICK(w, types) : "",
      second ? ", q" : "", gives ? " -> " : "", gives ? PICK(w, types) : "");
  bind(w, NUMBER, "p");
  if (second) bind(w, INTEGER, "q");
  block(w, (int)draw(w, 3), size);
  put(w, " }\n");
  w->nname = names;
  bind(w, FUNCTION, name);
}

typedef struct {
  int form;
  bool dead, wrapped;
} style;

static void program(writer *w, uint64_t seed, int size, style how) {
  memset(w, 0, sizeof *w);
  w->state = seed * UINT64_C(0xd1342543de82ef95) + 1;
  w->form = how.form;
  w->dead = how.dead;
  w->wrapped = how.wrapped;
  size_t n = draw(w, 3);
  for (size_t i = 0; i < n; i++) function(w, i, size);
  bind(w, NUMBER, "x");
  bind(w, TENSOR, "v");
  bind(w, INTEGER, "k");
  bind(w, BOOLEAN, "c");
  put(w, "def main(x: f64, v: f64[2, 2], k: i64, c: bool) { ");
  block(w, 1 + (int)draw(w, 4), size);
  put(w, " }\n");
}

/* ---- other names ---- */

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Is this a name that a program binds? Fields of records, {a = 1, b = 2}.a, are none, nor is i64. */
static bool is_name(const char *text, size_t from, size_t to) {
  static const char *const alike[] = {"i8", "i16", "i32", "i64", "c64", "c128"}; // element types
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
    if (strlen(alike[i]) == to - from && strncmp(text + from, alike[i], to - from) == 0)
      return false;
  bool one = strchr("abdyzstnigpqjxvkc", text[from]) != NULL;
  for (size_t i = from + 1; i < to; i++) one &= text[i] >= '0' && text[i] <= '9';
  bool field = from && text[from - 1] == '.' && !(from > 1 && text[from - 2] == '.'); // not 0..k
  if (!one || field || (from && text[from - 1] == '{')) return false;
  bool next = from > 1 && text[from - 2] == ',' && text[from - 1] == ' ';
  return !(next && strncmp(text + to, " = ", 3) == 0);
}

/* The program of w with other names. */
static void rename_all(const writer *w, writer *to) {
  memset(to, 0, sizeof *to);
  for (size_t i = 0; i < w->n;) {
    size_t end = i + 1;
    while (is_word(w->text[i]) && is_word(w->text[end])) end++;
    bool name = is_word(w->text[i]) && is_name(w->text, i, end);
    put(to, "%.*s%s", (int)(end - i), w->text + i, name ? "_other" : "");
    i = end;
  }
}

/* ---- the test ---- */

typedef struct {
  oracle *o;
  anf_value *arg[4];
  uint64_t seed;
  size_t programs, variants;
  int size;
} bench;

/* Engines that compile for long take a part of the programs. */
static unsigned engines_of(uint64_t seed) {
  unsigned e = 1 << ORACLE_TIR | 1 << ORACLE_BUILT;
  if (seed % 4 == 3) e |= 1 << ORACLE_BUILT_TIR;
  if (seed % 4 == 0) e |= 1 << ORACLE_LLVM_O0;
  if (seed % 16 == 1) e |= 1 << ORACLE_LLVM;
  if (seed % 16 == 9) e |= 1 << ORACLE_BUILT_LLVM;
  if (seed % 8 == 5) e |= 1 << ORACLE_STANDARD_TIR;
  if (seed % 64 == 2) e |= 1 << ORACLE_CJIT;
  return e;
}

static bool same_in(bench *b, const writer *w, const writer *other, int engine) {
  if (strcmp(w->text, other->text) == 0) return true;
  b->variants++;
  return oracle_equal(b->o, w->text, other->text, 4, b->arg, engine);
}

/* Effects and all. */
static bool try_variants(bench *b, const writer *w, uint64_t seed) {
  static writer other;
  int engine = seed / 3 % 2 ? ORACLE_TIR : ORACLE_INTERP;
  if (seed % 3 == 0) rename_all(w, &other);
  else program(&other, seed, b->size, (style){.dead = seed % 3 == 1, .wrapped = seed % 3 == 2});
  return same_in(b, w, &other, engine);
}

static bool try_program(bench *b, uint64_t seed) {
  static writer w, other;
  program(&w, seed, b->size, (style){0});
  bool good = oracle_try(b->o, w.text, 4, b->arg, engines_of(seed)) == 0;
  program(&other, seed, b->size, (style){.form = 1 + (int)(seed % (FORMS - 1))});
  bool effects =
      strstr(w.text, "print(") || strstr(w.text, "assert("); // of functions that nobody knows
  if (good && !effects) good = same_in(b, &w, &other, seed % 2 ? ORACLE_TIR : ORACLE_INTERP);
  if (good) good = try_variants(b, &w, seed);
  if (!good) printf("# seed %llu\n", (unsigned long long)seed);
  return good;
}

int main(int argc, char **argv) {
  bench b = {.seed = 1, .programs = 300, .size = 3};
  static writer w;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0) b.programs = (size_t)v;
    else if (strcmp(argv[i], "--seed") == 0) b.seed = v;
    else if (strcmp(argv[i], "--size") == 0) b.size = (int)v;
    else if (strcmp(argv[i], "--show") == 0) {
      program(&w, v, b.size, (style){0});
      fputs(w.text, stdout);
      return 0;
    }
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!(b.o = oracle_new())) return 2;
  static const double numbers[4] = {0.5, 2.0, -1.0, 0.25};
  static const int64_t dims[2] = {2, 2};
  b.arg[0] = anf_value_f64(b.o->cx, 1.5);
  b.arg[1] = anf_value_tensor(b.o->cx, ANF_F64, 2, dims, numbers);
  b.arg[2] = anf_value_i64(b.o->cx, 1);
  b.arg[3] = anf_value_bool(b.o->cx, true);
  b.o->several = true;
  printf("1..1\n");
  size_t failed = 0;
  for (size_t i = 0; i < b.programs; i++) failed += !try_program(&b, b.seed + i);
  printf("%s 1 - %zu programs with mistakes: %zu run, %zu are not compiled, %zu have errors that "
         "inference finds first, "
         "%zu have an error in what nothing uses, %zu variants, %zu differ\n",
         failed ? "not ok" : "ok", b.programs, b.o->ran, b.o->unsupported, b.o->earlier,
         b.o->unused, b.variants, failed);
  for (int i = 0; i < 4; i++) anf_value_release(b.arg[i]);
  oracle_free(b.o);
  return failed > 0;
}
