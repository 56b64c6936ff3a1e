// SPDX-License-Identifier: Apache-2.0
/* random_sized [--programs N] [--seed S] [--show SEED]
 * Random functions with sizes that depend on data: elements that a condition keeps, slices to a computed end, vectors of a
 * computed length; with loops that exchange what they carry, vectors that are passed twice, closures that are mapped, and
 * derivatives of what follows. Every engine gives the interpreter's value or refusal; the value that a derivative gives
 * besides is the function's, and forward and reverse derivatives agree.
 *
 *     def f(x: f64, v: f64[5], i: i64) { u = keep(v, x); y = both(u, u); for n1 in 0..2 { (u, w) = (w, u) }; .. } */
#include "oracle.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 8192, KINDS = 3, COMPILED = 6 }; // one program in so many is compiled by LLVM

/* The forms of a letter. Of a nested expression that is deep enough, the first `leaves` alone. */
typedef struct {
  char letter;
  size_t leaves;
  const char *forms[24];
} kind;

/* X a number, V a vector, K an integer, C a condition, B statements, R a number that depends on a vector t. */
static const kind grammar[] = {
    {'X',
     3,
     {"x", "y", "0.5", "Sum(V)", "(X + X)", "(X * 0.75)", "(X - X)", "Sin(X)", "both(u, u)",
      "both(V, V)", "chain(V, X)", "(if C { X } else { X })", "value_and_grad(fn (t) { R })(V)[0]",
      "map(fn (t) { R }, (V, V))[1]", "(fn (a, b) { a * y + b })(X, X)"}},
    {'V',
     3,
     {"u", "w", "v", "keep(V, X)", "keep(V, 0.1)", "V[0:K]", "V[1:]", "fill(K, X)", "(V * X)",
      "Sin(V)", "Concat(V, V, axis=0)", "Where(u > X, u, u * 0.5)", "(u + u)", "Flip(V)",
      "grad(fn (t) { R })(V)", "vmap(fn (a) { a * 0.5 + x })(V)",
      "map(fn (t) { t * X }, (V, V))[0]", "jvp(fn (t) { t * t * x }, (w,), (w,))[1]"}},
    {'R',
     3,
     {"Sum(t * t)", "Sum(Sin(t)) * x", "both(t, t)", "Sum(keep(t, 0.2))", "Sum(t[0:K] * y)",
      "both(keep(t, X), t)", "chain(t, X)", "Sum(t) * R", "(if C { R } else { 0.5 * y })"}},
    {'K', 3, {"i", "k", "2", "len(V)", "count(V)", "(K + 1)", "(K % 4)", "Minimum(K, K)"}},
    {'C', 2, {"X > X", "X < 0.8", "K > K", "len(u) > K", "not (C)"}},
    {'B',
     5,
     {"y = X", "k = K", "u = V", "w = V", "u = keep(u, X)", "if C { y = X } else { k = K }",
      "for N in 0..3 { y = y + X }", "for N in 0..2 { (u, w) = (w, u) }",
      "for N in 0..K % 3 { (y, z) = (z, y * 0.5) }",
      "N = 0; while N < 2 and C { (u, w) = (w, u); N = N + 1 }",
      "g = fn (a, t) { a + R }; y = g(X, V)", "u = (if C { u } else { w })"}}};

#define HELPERS                                                                                    \
  "def count(a) { Sum(Cast(a > 0.3, dtype=i64)) }\n"                                               \
  "def keep(a, t) {\n"                                                                             \
  "  c = a > t\n"                                                                                  \
  "  Take(a, Slice(ArgSort(Cast(c, dtype=u8), descending=true), start=0, stop=Sum(Cast(c, "        \
  "dtype=i64))), axis=0)\n"                                                                        \
  "}\n"                                                                                            \
  "def fill(n, x) { Zeros((n,), dtype=f64) + x }\n"                                                \
  "def both(a, b) { Sum(a * 0.5) + Sum(b * b) }\n"                                                 \
  "def chain(a, x) { p = x; q = 0.25; for j in 0..3 { (p, q) = (q * 0.5, p + Sum(a) * 0.1) }; p "  \
  "+ q }\n"
#define ARGUMENTS "(x: f64, v: f64[5], i: i64) "
#define REAL      "def main" ARGUMENTS "{ g = fn (x, v) { f(x, v, i)[0] }; "

/* What is compared: the function in all engines, with its value by a derivative, both derivatives. */
static const char *const pair[KINDS][2] = {
    {"def main" ARGUMENTS "{ f(x, v, i) }\n", NULL},
    {REAL "g(x, v) }\n", REAL "vjp(g, x, v)[0] }\n"},
    {REAL "Cast(jvp(g, (x, v), (0.5, v))[1], dtype=f32) }\n",
     REAL "d = grad(g, wrt=(0, 1))(x, v); Cast(d[0] * 0.5 + Sum(d[1] * v), dtype=f32) }\n"}};

typedef struct {
  uint64_t state;
  char text[TEXT];
  size_t n;
  int names; // of counters so far
} writer;

static size_t draw(writer *w, size_t below) {
  w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)((w->state >> 33) % below);
}

static void put(writer *w, const char *s) {
  w->n += (size_t)snprintf(w->text + w->n, TEXT - w->n, "%s", s);
}

static const kind *kind_of(char letter) {
  for (size_t i = 0; i < sizeof grammar / sizeof *grammar; i++)
    if (grammar[i].letter == letter) return &grammar[i];
  return NULL;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* A capital letter that stands alone is a form of its kind; N is the counter of a new loop. */
static void write_form(writer *w, const char *form, int depth) {
  int counter = 0;
  for (const char *s = form; *s && w->n + 256 < TEXT; s++) {
    bool alone = !is_letter(s[1]) && (s == form || !is_letter(s[-1]));
    const kind *k = alone ? kind_of(*s) : NULL;
    char own[32] = {*s, 0};
    if (k) {
      size_t all = k->leaves;
      while (depth > 0 && all < sizeof k->forms / sizeof *k->forms && k->forms[all]) all++;
      write_form(w, k->forms[draw(w, all)], depth - 1);
      continue;
    }
    if (alone && *s == 'N') {
      if (!counter) counter = ++w->names;
      snprintf(own, sizeof own, "n%d", counter);
    }
    put(w, own);
  }
}

static void write_function(writer *w, uint64_t seed) {
  *w = (writer){.state = seed * UINT64_C(0xd1342543de82ef95) + 1};
  put(w, HELPERS "def f" ARGUMENTS "{\n  y = x; z = 0.25; k = i; u = v; w = v * 0.5\n  ");
  for (size_t n = 2 + draw(w, 4); n > 0; n--) {
    write_form(w, "B", 3);
    put(w, "\n  ");
  }
  put(w, "(y + Sum(u) + 0.5 * Sum(w) + z, k, u, w)\n}\n");
}

static bool try_program(oracle *o, uint64_t seed, anf_value *const *args) {
  static writer w;
  static char text[TEXT + 512], other[TEXT + 512];
  const char *const *with = pair[seed % KINDS];
  unsigned engines = 1 << ORACLE_TIR | 1 << ORACLE_BUILT;
  if (seed / KINDS % COMPILED == 0) engines |= 1 << ORACLE_LLVM_O0;
  if (seed / KINDS % (4 * COMPILED) == 0) engines |= 1 << ORACLE_LLVM;
  write_function(&w, seed);
  snprintf(text, sizeof text, "%s%s", w.text, with[0]);
  bool good = oracle_try(o, text, 3, args, engines) == 0;
  if (with[1]) {
    snprintf(other, sizeof other, "%s%s", w.text, with[1]);
    good = good && oracle_equal(o, text, other, 3, args, ORACLE_INTERP);
    if (good && seed / KINDS % COMPILED == 0)
      good = oracle_equal(o, text, other, 3, args, ORACLE_TIR);
  }
  if (!good) printf("# seed %llu\n", (unsigned long long)seed);
  return good;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, programs = 200;
  oracle *o;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0) programs = v;
    else if (strcmp(argv[i], "--seed") == 0) seed = v;
    else if (strcmp(argv[i], "--show") == 0) {
      static writer w;
      write_function(&w, v);
      printf("%s%s", w.text, pair[v % KINDS][0]);
      return 0;
    }
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!(o = oracle_new())) return 2;
  o->several = true;
  static const double v[5] = {0.7, -0.3, 1.9, 0.15, -1.2};
  const int64_t five = 5;
  anf_value *args[3] = {anf_value_f64(o->cx, 0.4), anf_value_tensor(o->cx, ANF_F64, 1, &five, v),
                        anf_value_i64(o->cx, 2)};
  size_t failed = 0;
  printf("1..1\n");
  for (uint64_t k = 0; k < programs; k++) failed += !try_program(o, seed + k, args);
  bool some = o->ran * 2 > o->tried; // else it compares little but refusals
  printf("%s 1 - %llu programs with sizes that depend on data: %zu run, %zu are not compiled, %zu "
         "have errors that inference "
         "finds first, %zu pairs, %zu of which have a value; %zu differ\n",
         failed || !some ? "not ok" : "ok", (unsigned long long)programs, o->ran, o->unsupported,
         o->earlier, o->pairs, o->values, failed);
  for (int k = 0; k < 3; k++) anf_value_release(args[k]);
  oracle_free(o);
  return failed > 0 || !some;
}
