// SPDX-License-Identifier: Apache-2.0
/* Expressions are made by type from what is in scope; statements bind and rebind names. All
 * recursion of the made programs ends: its argument falls from a small number, and loops count to a
 * small number. Literals are typed, so that a value has one type whichever way the program takes.
 */
#include "generate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TRANSFORM: from FN_REAL to FN_REAL */
typedef enum { INT, REAL, BOOL, VEC, PAIR, FN_INT, FN_REAL, TRANSFORM, TYPES } type;

typedef struct {
  char name[12];
  type t;
  bool fixed; // a loop counter, a function by name: not to be rebound
} variable;

enum { MAX_VARS = 200, MAX_DEPTH = 5 };

typedef struct {
  uint64_t random;
  char *text;
  size_t len, cap;
  long budget; // operations that may still be made
  int indent, names, loops;
  variable var[MAX_VARS];
  int nvar;
} maker;

uint64_t generate_next(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static int pick(maker *m, int n) { return (int)(generate_next(&m->random) % (uint64_t)n); }

__attribute__((format(printf, 2, 3))) static void put(maker *m, const char *fmt, ...) {
  va_list ap;
  if (m->cap - m->len < 512) {
    m->cap = m->cap * 2 + 4096;
    m->text = (char *)realloc(m->text, m->cap);
    if (!m->text) abort();
  }
  va_start(ap, fmt);
  m->len += (size_t)vsnprintf(m->text + m->len, m->cap - m->len, fmt, ap);
  va_end(ap);
}

static void line(maker *m) { put(m, "\n%*s", 2 * m->indent, ""); }

static void new_name(maker *m, char *out, size_t n) { snprintf(out, n, "n%d", m->names++); }

static void declare(maker *m, const char *name, type t, bool fixed) {
  if (m->nvar == MAX_VARS) return; // it just cannot be used
  variable *v = &m->var[m->nvar++];
  snprintf(v->name, sizeof v->name, "%s", name);
  v->t = t;
  v->fixed = fixed;
}

static const variable *find(maker *m, type t, bool rebind) {
  int from = m->nvar ? pick(m, m->nvar) : 0;
  for (int i = 0; i < m->nvar; i++) {
    const variable *v = &m->var[(from + i) % m->nvar];
    if (v->t == t && !(rebind && v->fixed)) return v;
  }
  return NULL;
}

static void expr(maker *m, type t, int depth);
static void block(maker *m, type t, int depth);

static void literal(maker *m, type t) {
  static const char *const ints[] = {"0", "1", "2", "3", "-1", "7", "-5", "100"};
  static const char *const reals[] = {"0.0",   "1.0", "-1.0", "0.5", "2.0",
                                      "-0.25", "3.5", "1e-3", "10.0"},
                           *const int_ops[] = {"Abs", "Neg", "partial(Add, i64(3))"},
                           *const real_ops[] = {"Sin", "Tanh",
                                                "Neg", "partial(Mul, f32(0.5))",
                                                "Exp", "partial(Maximum, f32(0.25))"},
                           *const transforms[] = {"grad",         "jacrev",
                                                  "jacfwd",       "checkpoint",
                                                  "fn (f) { f }", "fn (f) { grad(f) }"};
  switch (t) {
  case INT: put(m, "i64(%s)", ints[pick(m, 8)]); break;
  case REAL: put(m, "f32(%s)", reals[pick(m, 9)]); break;
  case BOOL: put(m, pick(m, 2) ? "true" : "false"); break;
  case VEC:
    put(m, "f32[3]([%s, %s, %s])", reals[pick(m, 9)], reals[pick(m, 9)], reals[pick(m, 9)]);
    break;
  case PAIR: put(m, "(i64(%s), f32(%s))", ints[pick(m, 8)], reals[pick(m, 9)]); break;
  case FN_INT:
    if (pick(m, 3)) put(m, "fn (q) { q + i64(%s) }", ints[pick(m, 8)]);
    else put(m, "%s", int_ops[pick(m, 3)]);
    break;
  case FN_REAL:
    if (pick(m, 3)) put(m, "fn (q) { q * f32(%s) }", reals[pick(m, 9)]);
    else put(m, "%s", real_ops[pick(m, 6)]);
    break;
  case TRANSFORM: put(m, "(%s)", transforms[pick(m, 6)]); break;
  default: break;
  }
}

static void leaf(maker *m, type t) {
  const variable *v = pick(m, 5) ? find(m, t, false) : NULL;
  if (v) put(m, "%s", v->name);
  else literal(m, t);
}

/* A pattern: I F B V P G(fn int) H(fn real) T(transform) are expressions of that type, everything else
 * stands. */
static void fill(maker *m, const char *pattern, int depth) {
  for (const char *p = pattern; *p; p++) {
    const char *types = "IFBVPGHT", *at = strchr(types, *p);
    bool alone =
        p == pattern || !((p[-1] >= 'a' && p[-1] <= 'z') || (p[-1] >= 'A' && p[-1] <= 'Z'));
    bool end = !((p[1] >= 'a' && p[1] <= 'z') || (p[1] >= 'A' && p[1] <= 'Z'));
    if (at && alone && end) expr(m, (type)(at - types), depth + 1);
    else put(m, "%c", *p);
  }
}

static const char *pattern_for(maker *m, type t) {
  static const char *const ints[] = {
      "(I + I)", "(I - I)", "(I * I)", "(I % i64(7))", "Maximum(I, I)", "Minimum(I, I)", "(-I)",
      "G(I)",    "P[0]",    "(I & I)", "(I ^ I)",      "(I + 1)",       "(I // i64(3))", "Abs(I)"};
  static const char *const reals[] = {
      "(F + F)",   "(F - F)",   "(F * F)", "(F / F)",      "Tanh(F)", "Sin(F)",
      "(-F)",      "H(F)",      "P[1]",    "Sum(V)",       "V[1]",    "Maximum(F, F)",
      "(F * 0.5)", "(F + 0.0)", "Abs(F)",  "Sqrt(Abs(F))", "Max(V)",  "(F - 0.0)"};
  static const char *const bools[] = {"(I < I)", "(F < F)",  "(I == I)", "(B and B)", "(B or B)",
                                      "(not B)", "(I >= I)", "(F <= F)", "(B == B)",  "(I != I)"};
  static const char *const vecs[] = {"(V + V)", "(V * V)",      "(V * F)",        "(V - F)",
                                     "Relu(V)", "(-V)",         "Where(B, V, V)", "Stack(F, F, F)",
                                     "Flip(V)", "Exp(-Abs(V))", "(V * 1.0)"};
  switch (t) {
  case INT: return ints[pick(m, 14)];
  case REAL: return reals[pick(m, 18)];
  case BOOL: return bools[pick(m, 10)];
  case VEC: return vecs[pick(m, 11)];
  default: return "(I, F)";
  }
}

/* fn (p) { ... }: what is in scope may be captured. */
static void lambda(maker *m, type arg, int depth) {
  char name[12];
  int scope = m->nvar;
  new_name(m, name, sizeof name);
  put(m, "fn (%s) { ", name);
  declare(m, name, arg, false);
  expr(m, arg, depth + 1);
  put(m, " }");
  m->nvar = scope;
}

static void conditional(maker *m, type t, int depth) {
  int scope = m->nvar;
  put(m, "(if ");
  expr(m, BOOL, depth + 1);
  put(m, " { ");
  expr(m, t, depth + 1);
  m->nvar = scope;
  put(m, " } else { ");
  expr(m, t, depth + 1);
  put(m, " })");
  m->nvar = scope;
}

/* A transform as a value makes a function: called, mapped over functions, taken from a record or chosen
 * when the program runs. */
static void transformed(maker *m, int depth) {
  static const char *const ways[] = {"T(H)",
                                     "switch(B, T, T)(H)",
                                     "map(T, (H, H))[1]",
                                     "hyper_map(T, (H, (H, H)))[1][0]",
                                     "{t = T}.t(H)",
                                     "(fn (t, f) { t(f) })(T, H)"};
  fill(m, ways[pick(m, 6)], depth);
}

static void expr(maker *m, type t, int depth) {
  if (depth >= MAX_DEPTH || --m->budget <= 0 || !pick(m, 4)) {
    leaf(m, t);
    return;
  }
  if (!pick(m, 6)) conditional(m, t, depth);
  else if (t == TRANSFORM) leaf(m, t);
  else if (t == FN_REAL && !pick(m, 4)) transformed(m, depth);
  else if (t == FN_INT || t == FN_REAL) {
    put(m, "(");
    lambda(m, t == FN_INT ? INT : REAL, depth);
    put(m, ")");
  } else if (t <= VEC && t != BOOL && !pick(m, 12)) { // a function chosen and called at once
    put(m, "switch(");
    expr(m, BOOL, depth + 1);
    put(m, ", (");
    lambda(m, t, depth);
    put(m, "), (");
    lambda(m, t, depth);
    put(m, "))(");
    expr(m, t, depth + 1);
    put(m, ")");
  } else fill(m, pattern_for(m, t), depth);
}

/* ---- statements ---- */

static type data_type(maker *m) { return (type)pick(m, PAIR + 1); }

static void bind(maker *m, int depth) {
  char name[12];
  type t = pick(m, 4) ? data_type(m) : (type)(FN_INT + pick(m, 3));
  const variable *old = pick(m, 3) ? NULL : find(m, t, true);
  if (old) snprintf(name, sizeof name, "%s", old->name);
  else new_name(m, name, sizeof name);
  line(m);
  put(m, "%s = ", name);
  expr(m, t, depth);
  if (!old) declare(m, name, t, false);
}

static void unpack(maker *m, int depth) {
  char a[12], b[12];
  new_name(m, a, sizeof a);
  new_name(m, b, sizeof b);
  line(m);
  put(m, "(%s, %s) = ", a, b);
  expr(m, PAIR, depth);
  declare(m, a, INT, false);
  declare(m, b, REAL, false);
}

/* Rebinds what was there before; what is new inside stays inside. */
static void rebind(maker *m, int depth) {
  type t = data_type(m);
  const variable *v = find(m, t, true);
  if (!v) return;
  char name[12];
  snprintf(name, sizeof name, "%s", v->name);
  line(m);
  put(m, "%s = ", name);
  expr(m, t, depth);
}

static void rebinds(maker *m, int depth) {
  m->indent++;
  for (int n = 1 + pick(m, 3); n > 0; n--) rebind(m, depth);
  m->indent--;
}

static void choose(maker *m, int depth) {
  line(m);
  put(m, "if ");
  expr(m, BOOL, depth);
  put(m, " {");
  rebinds(m, depth);
  line(m);
  put(m, "}");
  if (!pick(m, 2)) return;
  put(m, " else {");
  rebinds(m, depth);
  line(m);
  put(m, "}");
}

static void loop(maker *m, int depth) {
  char i[12];
  if (m->loops >= 2) return;
  m->loops++;
  new_name(m, i, sizeof i);
  bool counted = pick(m, 2);
  int scope = m->nvar;
  line(m);
  if (counted) put(m, "for %s in 0..%d {", i, pick(m, 5));
  else {
    put(m, "%s = i64(%d)", i, pick(m, 5));
    line(m);
    put(m, "while %s > 0 {", i);
  }
  if (!counted) declare(m, i, INT, true);
  rebinds(m, depth);
  m->indent++;
  if (counted && !pick(m, 3)) {
    line(m);
    put(m, "if ");
    expr(m, BOOL, depth + 2);
    put(m, " { %s }", pick(m, 2) ? "break" : "continue");
    rebind(m, depth);
  }
  if (!counted) {
    line(m);
    put(m, "%s = %s - 1", i, i);
  }
  m->indent--;
  line(m);
  put(m, "}");
  m->nvar = scope;
  m->loops--;
}

/* def r(n, p) { if n <= 0 { base } else { ... r(n - 1, ...) ... } }, and a call of it. No two
 * parameters have one name: it would hide a variable of another type. */
static void recursion(maker *m, int depth) {
  char name[12], param[12], result[12];
  type t = data_type(m);
  int scope = m->nvar, loops = m->loops;
  if (t == BOOL) t = INT;
  new_name(m, name, sizeof name);
  new_name(m, param, sizeof param);
  line(m);
  put(m, "def %s(n, %s) { if n <= 0 { ", name, param);
  declare(m, param, t, false);
  expr(m, t, depth + 1);
  put(m, " } else { ");
  bool tail = pick(m, 2);
  if (!tail && t == PAIR) {
    put(m, "k = %s(n - 1, %s); (k[0] + ", name, param);
    expr(m, INT, depth + 2);
    put(m, ", k[1])");
  } else if (!tail) {
    put(m, "%s(n - 1, ", name);
    expr(m, t, depth + 1);
    put(m, ") + %s(n - 2, %s)", name, param);
  } else {
    put(m, "%s(n - 1, ", name);
    expr(m, t, depth + 1);
    put(m, ")");
  }
  put(m, " } }");
  m->nvar = scope;
  m->loops = loops;
  new_name(m, result, sizeof result);
  line(m);
  put(m, "%s = %s(%d, ", result, name, pick(m, 6));
  expr(m, t, depth + 1);
  put(m, ")");
  declare(m, result, t, false);
}

/* def f(p) { statements; value }, called with two arguments. */
static void function(maker *m, int depth) {
  char name[12], param[12];
  type t = (type)pick(m, 2);
  int scope = m->nvar;
  new_name(m, name, sizeof name);
  new_name(m, param, sizeof param);
  line(m);
  put(m, "def %s(%s) {", name, param);
  declare(m, param, t, false);
  m->indent++;
  block(m, t, depth + 1);
  m->indent--;
  line(m);
  put(m, "}");
  m->nvar = scope;
  declare(m, name, t == INT ? FN_INT : FN_REAL, true);
}

static void statement(maker *m, int depth) {
  switch (pick(m, 10)) {
  case 0: unpack(m, depth); break;
  case 1: choose(m, depth); break;
  case 2:
  case 3: loop(m, depth); break;
  case 4: recursion(m, depth); break;
  case 5:
    if (depth < 2) function(m, depth);
    break;
  default: bind(m, depth); break;
  }
}

static void block(maker *m, type t, int depth) {
  for (int n = 1 + pick(m, 3); n > 0 && m->budget > 0; n--) statement(m, depth);
  line(m);
  expr(m, t, depth);
}

static void start(maker *m) {
  put(m, "def main(a: i64, b: i64, x: f32, y: f32, c: bool, v: f32[3]) {");
  declare(m, "a", INT, false);
  declare(m, "b", INT, false);
  declare(m, "x", REAL, false);
  declare(m, "y", REAL, false);
  declare(m, "c", BOOL, false);
  declare(m, "v", VEC, false);
  m->indent = 1;
  while (m->budget > 0) statement(m, 0);
  line(m);
}

char *generate_program(uint64_t seed, size_t size) {
  maker m = {.random = seed * UINT64_C(0x2545f4914f6cdd1d) + 1, .budget = (long)size};
  start(&m);
  put(&m, "(");
  m.budget = 20;
  for (int t = 0; t <= PAIR; t++) {
    if (t) put(&m, ", ");
    leaf(&m, (type)t);
  }
  put(&m, ")\n}\n");
  return m.text;
}

/* zero + before NAME after + ..: for all names of a type. */
static void sum_of(maker *m, type t, const char *zero, const char *before, const char *after) {
  put(m, "%s", zero);
  for (int i = 0; i < m->nvar; i++)
    if (m->var[i].t == t) put(m, " + %s%s%s", before, m->var[i].name, after);
}

char *generate_function(uint64_t seed, size_t size) {
  maker m = {.random = seed * UINT64_C(0x2545f4914f6cdd1d) + 1, .budget = (long)size};
  start(&m);
  put(&m, "(");
  sum_of(&m, REAL, "0.0 * x", "", "");
  put(&m, ", ");
  sum_of(&m, PAIR, "0.0 * x", "", "[1]");
  sum_of(&m, FN_REAL, "", "", "(x + 0.1)");
  put(&m, ", ");
  sum_of(&m, VEC, "0.0 * v", "", "");
  put(&m, ")\n}\n");
  return m.text;
}
