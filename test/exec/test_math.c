// SPDX-License-Identifier: Apache-2.0
/* Functions of f32 as compiled loops compute them, against the C library's of double: every argument
 * whose bits are a multiple of a prime, or all of them with --full; test_math --full OP takes one alone.
 * The error is in units of the last place of the nearest f32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"

enum { BLOCK = 1 << 16, PRIME = 8191 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

typedef struct row {
  const char *op;
  double (*f)(double);
  double ulp;
} row;
static const row rows[] = {
    {"Exp", exp, 2},       {"Log", log, 2},       {"Log1p", log1p, 2},   {"Expm1", expm1, 2},
    {"Tanh", tanh, 2},     {"Erf", erf, 2},       {"Erfc", erfc, 6},     {"Sigmoid", sigmoid, 2},
    {"Sin", sin, 2},       {"Cos", cos, 2},       {"Tan", tan, 4},       {"Exp2", exp2, 0.6},
    {"Log2", log2, 0.6},   {"Log10", log10, 0.6}, {"Sinh", sinh, 0.6},   {"Cosh", cosh, 0.6},
    {"Asinh", asinh, 0.6}, {"Acosh", acosh, 0.6}, {"Atanh", atanh, 0.6}, {"Cbrt", cbrt, 0.6},
    {"Atan", atan, 0.6},   {"Asin", asin, 0.6},   {"Acos", acos, 0.6}};

/* As Python has them: the remainder has the sign of y. */
static double modulo(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (y < 0) != (r < 0) ? r + y : r;
}
static double floor_quotient(double x, double y) {
  if (y == 0) return x / y;
  double r = fmod(x, y), q = (x - r) / y;
  return rint(r != 0 && (y < 0) != (r < 0) ? q - 1 : q);
}

typedef struct pair_row {
  const char *op;
  double (*f)(double, double);
  double ulp;
} pair_row;
static const pair_row pair_rows[] = {{"Power", pow, 1},     {"Atan2", atan2, 0.6},
                                     {"Hypot", hypot, 0.6}, {"Fmod", fmod, 0.5},
                                     {"Mod", modulo, 0.5},  {"FloorDiv", floor_quotient, 0.5}};

static float of_bits(uint32_t b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}

/* Distance in the last place; 0 for what agrees that has none. Results below the normal numbers of
 * 1 / (1 + exp(-x)), whose exp is infinite, count by their size alone. */
static double distance(bool any, float got, double want) {
  float near = (float)want;
  if (isnan(near) || isnan(got)) return isnan(near) && isnan(got) ? 0 : INFINITY;
  if (isinf(near) || isinf(got)) return got == near ? 0 : INFINITY;
  if (any && fabs(want) < 0x1p-126) return got <= 0x1p-126f ? 0 : INFINITY;
  float size = fabsf(near);
  double ulp = (double)nextafterf(size, INFINITY) - (double)size;
  return fabs((double)got - want) / ulp;
}

typedef struct run {
  anf_jit_function *f;
  float *x, *y;
  size_t n;
  const row *r;
  double worst;
  float at;
} run;

static void flush(run *k) {
  anf_generic slot[2] = {{.ptr = k->x}, {.ptr = k->y}};
  if (anf_jit_call_generic(k->f, anf_stream_of_thread(), slot) != ANF_OK) k->worst = INFINITY;
  for (size_t i = 0; i < k->n; i++) {
    double d = distance(k->r->f == sigmoid, k->y[i], k->r->f((double)k->x[i]));
    if (d > k->worst) k->worst = d, k->at = k->x[i];
  }
  k->n = 0;
}

static bool check(anf_ctx *cx, const row *r, uint64_t step, run *k) {
  char text[80];
  anf_module *m = NULL;
  anf_exec *e = NULL;
  snprintf(text, sizeof text, "def f(x: f32[%d]) { %s(x) }", (int)BLOCK, r->op);
  bool good = anf_parse(cx, text, "math.anf", NULL, &m) == ANF_OK &&
              anf_compile(anf_module_find(m, "f"), NULL, NULL, &e) == ANF_OK;
  k->r = r;
  k->worst = 0;
  k->f = good ? anf_exec_function(e) : NULL;
  for (uint64_t b = 0; b <= UINT32_MAX && good; b += step) {
    k->x[k->n++] = of_bits((uint32_t)b);
    if (k->n == BLOCK) flush(k);
  }
  if (good) flush(k);
  anf_exec_free(e);
  anf_module_free(m);
  return good && k->worst <= r->ulp;
}

/* Pairs: bits of x step through all floats, those of y are mixed from them; and all pairs of edges. */
static double pairs(anf_ctx *cx, const pair_row *r, uint32_t step, double *worst_x,
                    double *worst_y) {
  static const float edge[] = {0,  -0.0f, 1,      -1,    INFINITY, -INFINITY, NAN,     2,
                               -3, 0.5f,  1e-45f, -2.5f, 3.4e38f,  1e10f,     -1e-40f, 16777215};
  enum { EDGES = sizeof edge / sizeof *edge };
  static float x[BLOCK], y[BLOCK], z[BLOCK];
  anf_module *m = NULL;
  anf_exec *e = NULL;
  char text[80];
  double worst = 0;
  snprintf(text, sizeof text, "def f(x: f32[%d], y: f32[%d]) { %s(x, y) }", (int)BLOCK, (int)BLOCK,
           r->op);
  bool good = anf_parse(cx, text, "math.anf", NULL, &m) == ANF_OK &&
              anf_compile(anf_module_find(m, "f"), NULL, NULL, &e) == ANF_OK;
  for (uint64_t b = 0; b <= UINT32_MAX && good; b += (uint64_t)step * BLOCK) {
    for (uint32_t i = 0; i < BLOCK; i++) {
      uint32_t bits = (uint32_t)b + i * step, mixed = (bits ^ bits >> 15) * 0x2C1B3C6Du;
      x[i] = of_bits(bits);
      y[i] = i % 3 ? of_bits(mixed) : (float)((int32_t)mixed % 1000) / 16;
      if (i < EDGES * EDGES) x[i] = edge[i / EDGES], y[i] = edge[i % EDGES];
    }
    anf_generic slot[3] = {{.ptr = x}, {.ptr = y}, {.ptr = z}};
    good = anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot) == ANF_OK;
    for (uint32_t i = 0; i < BLOCK; i++) {
      double d = distance(false, z[i], r->f((double)x[i], (double)y[i]));
      if (d > worst) worst = d, *worst_x = (double)x[i], *worst_y = (double)y[i];
    }
  }
  anf_exec_free(e);
  anf_module_free(m);
  return good ? worst : INFINITY;
}

int main(int argc, char **argv) {
  uint64_t step = argc > 1 && strcmp(argv[1], "--full") == 0 ? 1 : PRIME;
  anf_ctx *cx = anf_ctx_new(NULL);
  run k = {.x = calloc(BLOCK, sizeof(float)), .y = calloc(BLOCK, sizeof(float))};
  size_t n = sizeof rows / sizeof *rows, npair = sizeof pair_rows / sizeof *pair_rows;
  const char *only = argc > 2 ? argv[2] : NULL;
  if (!only) printf("1..%zu\n", n + npair);
  for (size_t i = 0; i < n && k.x && k.y; i++) {
    if (only && strcmp(only, rows[i].op) != 0) continue;
    bool good = check(cx, &rows[i], step, &k);
    printf("%sok %zu - %s: %.3f ulp at %a\n", good ? "" : "not ", i + 1, rows[i].op, k.worst,
           (double)k.at);
  }
  for (size_t i = 0; i < npair; i++) {
    const pair_row *r = &pair_rows[i];
    if (only && strcmp(only, r->op) != 0) continue;
    double x = 0, y = 0, off = pairs(cx, r, step == 1 ? 31 : PRIME, &x, &y);
    printf("%sok %zu - %s: %.3f ulp at %a, %a\n", off <= r->ulp ? "" : "not ", n + 1 + i, r->op,
           off, x, y);
  }
  free(k.x);
  free(k.y);
  anf_ctx_free(cx);
  return 0;
}
