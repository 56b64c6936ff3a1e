// SPDX-License-Identifier: Apache-2.0
/* random_transforms [--programs N] [--seed S] [--show SEED]
 * vmap of a random function gives each lane what the function gives alone, and fails where one of them fails; half of
 * these functions are gradients. The value that a derivative gives besides is the function's, with what it prints and
 * asserts. The functions branch, loop, return and assert as their numbers say.
 *
 *     def f(x: f64, i: i64) { y = x; k = i; if y > 0.5 { assert(y < 2.0, "a"); k = k + 1 }; (y, k) }
 *     vmap(f)(x, i)      is      (f(x[0], i[0]), f(x[1], i[1]), ..) by columns */
#include "oracle.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 8192, LANES = 4, COMPILED = 10 }; // one program in so many is compiled
enum { KINDS = 6 };                             // of pairs: two of vmap, then of derivatives

typedef struct {
  uint64_t state;
  char text[TEXT];
  size_t n;
  int round; // loops so far: each counter has a name of its own
  bool prints;
} writer;

static size_t draw(writer *w, size_t below) {
  w->state = w->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)((w->state >> 33) % below);
}

static void put(writer *w, const char *s) {
  w->n += (size_t)snprintf(w->text + w->n, TEXT - w->n, "%s", s);
}

/* A pattern: X is a float, I an integer, C a condition, B a block, N the counter of a new loop. */
static void write_form(writer *w, const char *form, int depth);

static void write_one(writer *w, const char *const *forms, size_t n, int depth) {
  write_form(w, forms[draw(w, n)], depth);
}

static void number(writer *w, int depth) {
  static const char *const forms[] = {"x",
                                      "y",
                                      "y",
                                      "0.5",
                                      "-1.5",
                                      "v[k % 3]",
                                      "Sin(X)",
                                      "(X + X)",
                                      "(X - X)",
                                      "(X * 0.75)",
                                      "Maximum(X, X)",
                                      "cast(I, f64)",
                                      "(if C { X } else { X })",
                                      "Sqrt(Abs(X) + 1.0)"};
  write_one(w, forms, depth > 0 ? sizeof forms / sizeof *forms : 6, depth - 1);
}

static void integer(writer *w, int depth) {
  static const char *const forms[] = {
      "i",       "k",       "k",       "1",        "2",
      "(I + I)", "(I - I)", "(I % 3)", "(I // 2)", "(if C { I } else { I })"};
  write_one(w, forms, depth > 0 ? sizeof forms / sizeof *forms : 5, depth - 1);
}

static void condition(writer *w, int depth) {
  static const char *const forms[] = {"X > X",     "X < 0.8",  "I > I",  "I % 2 == 0",
                                      "(C and C)", "(C or C)", "not (C)"};
  write_one(w, forms, depth > 0 ? sizeof forms / sizeof *forms : 4, depth - 1);
}

static void block(writer *w, int depth) {
  static const char *const forms[] = {"y = X",
                                      "k = I",
                                      "y = y + X",
                                      "assert(X < 2.5, \"a\")",
                                      "assert(I < 9, \"a\")",
                                      "y = switch(I % 3, (Sin, Neg, fn (t) { t * X }))(y)",
                                      "if C { B }",
                                      "if C { B } else { B }",
                                      "if C { return (X, I) }",
                                      "for N in 0..3 { B }",
                                      "for N in 0..k % 4 { B }",
                                      "N = 0; while N < 4 and C { B; N = N + 1 }",
                                      "for N in 0..4 { B; if C { break } }",
                                      "for N in 0..3 { if C { continue }; B }"};
  if (w->prints && draw(w, 3) == 0) write_form(w, "print(X, I); ", depth);
  for (size_t n = 1 + draw(w, 2); n > 0; n--) {
    write_one(w, forms, depth > 0 ? sizeof forms / sizeof *forms : 5, depth - 1);
    if (n > 1) put(w, "; ");
  }
}

static void write_form(writer *w, const char *form, int depth) {
  int round = 0;
  for (const char *s = form; *s && w->n + 256 < TEXT; s++) {
    char own[32] = {*s, 0};
    if (*s == 'X') number(w, depth);
    else if (*s == 'I') integer(w, depth);
    else if (*s == 'C') condition(w, depth);
    else if (*s == 'B') block(w, depth);
    else if (*s == 'N') {
      if (!round) round = ++w->round;
      snprintf(own, sizeof own, "n%d", round);
      put(w, own);
    } else put(w, own);
  }
}

static void write_function(writer *w, uint64_t seed) {
  *w = (writer){.state = seed * UINT64_C(0xd1342543de82ef95) + 1, .prints = seed % KINDS >= 2};
  put(w, "def f(x: f64, i: i64, v: f64[3]) {\n  y = x; k = i; ");
  block(w, 3);
  put(w, "; ");
  block(w, 3);
  put(w, "\n  (y, k)\n}\n");
}

#define MAIN "def main(x: f64[4], i: i64[4], v: f64[3]) "
#define EACH                                                                                       \
  MAIN "{\n  hyper_map(fn (a, b, c, d) { Stack(a, b, c, d) }, one(x[0], i[0], v), one(x[1], "      \
       "i[1], v),\n"                                                                               \
       "            one(x[2], i[2], v), one(x[3], i[3], v))\n}\n"
#define BATCH MAIN "{ vmap(one, in_axes=(0, 0, None))(x, i, v) }\n"
#define GRADIENT                                                                                   \
  "def one(x, i, v) {\n  ((y, k), (a, b)) = value_and_grad(f, wrt=(0, 2), has_aux=true)(x, i, "    \
  "v)\n"                                                                                           \
  "  (y, k, a, b)\n}\n"
#define FLOATS "def real(i) { fn (x, v) { f(x, i, v) } }\n"

/* Two that give the same. */
static const char *const pair[KINDS][2] = {
    {"def one(x, i, v) { f(x, i, v) }\n" EACH, "def one(x, i, v) { f(x, i, v) }\n" BATCH},
    {GRADIENT EACH, GRADIENT BATCH},
    {MAIN "{ f(x[1], i[1], v) }\n", MAIN "{ checkpoint(f)(x[1], i[1], v) }\n"},
    {MAIN "{ f(x[2], i[2], v) }\n", FLOATS MAIN "{ jvp(real(i[2]), (x[2], v), (1.0, v))[0] }\n"},
    {MAIN "{ f(x[3], i[3], v) }\n", FLOATS MAIN "{ vjp(real(i[3]), x[3], v)[0] }\n"},
    {MAIN "{ f(x[0], i[0], v)[0] }\n",
     MAIN "{ value_and_grad(f, wrt=2, has_aux=true)(x[0], i[0], v)[0][0] }\n"}};

typedef struct {
  oracle *o;
  anf_value *arg[3];
} bench;

static bool try_program(bench *b, uint64_t seed) {
  static writer w;
  static char alone[TEXT + 1024], other[TEXT + 1024];
  write_function(&w, seed);
  snprintf(alone, sizeof alone, "%s%s", w.text, pair[seed % KINDS][0]);
  snprintf(other, sizeof other, "%s%s", w.text, pair[seed % KINDS][1]);
  bool good = oracle_equal(b->o, alone, other, 3, b->arg, ORACLE_INTERP);
  if (good && seed % COMPILED == 0) good = oracle_equal(b->o, alone, other, 3, b->arg, ORACLE_TIR);
  if (good && seed % COMPILED == 1) good = oracle_equal(b->o, alone, other, 3, b->arg, ORACLE_LLVM);
  if (!good) printf("# seed %llu\n", (unsigned long long)seed);
  return good;
}

int main(int argc, char **argv) {
  uint64_t seed = 1, programs = 300;
  bench b;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0) programs = v;
    else if (strcmp(argv[i], "--seed") == 0) seed = v;
    else if (strcmp(argv[i], "--show") == 0) {
      static writer w;
      write_function(&w, v);
      fputs(w.text, stdout);
      return 0;
    }
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!(b.o = oracle_new())) return 2;
  static const double x[LANES] = {0.3, 1.4, -0.9, 2.1}, v[3] = {0.7, -1.3, 1.9};
  static const int64_t i[LANES] = {0, 3, 2, -1}, n = LANES, three = 3;
  b.arg[0] = anf_value_tensor(b.o->cx, ANF_F64, 1, &n, x);
  b.arg[1] = anf_value_tensor(b.o->cx, ANF_I64, 1, &n, i);
  b.arg[2] = anf_value_tensor(b.o->cx, ANF_F64, 1, &three, v);
  printf("1..1\n");
  size_t failed = 0;
  for (uint64_t k = 0; k < programs; k++) failed += !try_program(&b, seed + k);
  bool some = b.o->values * 3 > b.o->pairs; // else it compares little but refusals
  printf("%s 1 - transforms of %llu functions, %zu pairs: %zu have a value, %zu differ in what "
         "nothing "
         "uses, %zu differ\n",
         failed || !some ? "not ok" : "ok", (unsigned long long)programs, b.o->pairs, b.o->values,
         b.o->unused, failed);
  for (int k = 0; k < 3; k++) anf_value_release(b.arg[k]);
  oracle_free(b.o);
  return failed > 0 || !some;
}
