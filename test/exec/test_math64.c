// SPDX-License-Identifier: Apache-2.0
/* Functions of f64 as compiled loops compute them, against the C library's of long double: edges and random
 * arguments, of all exponents, of where the function changes, around one; test_math64 --long OP takes many more.
 * The error is in units of the last place of the nearest f64. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"

enum { BLOCK = 1 << 13, BLOCKS = 24, BLOCKS_LONG = 12000 };

static long double sigmoid(long double x) { return 1 / (1 + expl(-x)); }

typedef struct row {
  const char *op;
  long double (*f)(long double);
  double ulp;
  double low, high; // the function changes between them
} row;
static const row rows[] = {
    {"Exp", expl, 1.1, -750, 715}, {"Log", logl, 1, 0, 4},
    {"Log1p", log1pl, 1.5, -1, 4}, {"Expm1", expm1l, 1.5, -45, 715},
    {"Tanh", tanhl, 2, -20, 20},   {"Erf", erfl, 1.5, -7, 7},
    {"Erfc", erfcl, 3, -7, 28},    {"Sigmoid", sigmoid, 2, -720, 60},
    {"Sin", sinl, 1, -100, 100},   {"Cos", cosl, 1, -100, 100},
    {"Tan", tanl, 1.1, -100, 100}, {"Exp2", exp2l, 1.5, -1080, 1030},
    {"Log2", log2l, 2, 0, 4},      {"Log10", log10l, 2, 0, 4},
    {"Sinh", sinhl, 3, -715, 715}, {"Cosh", coshl, 3, -715, 715},
    {"Asinh", asinhl, 3, -9, 9},   {"Acosh", acoshl, 3, 1, 9},
    {"Atanh", atanhl, 3, -1, 1},   {"Atan", atanl, 2, -9, 9},
    {"Asin", asinl, 3, -1, 1},     {"Acos", acosl, 3, -1, 1},
};
static const double edges[] = {
    0,
    -0.0,
    1,
    -1,
    INFINITY,
    -INFINITY,
    NAN,
    0x1p-1074,
    -0x1p-1074,
    DBL_MIN,
    -1e-310,
    DBL_MAX,
    -DBL_MAX,
    0.5,
    -0.5,
    2,
    -3,
    1e-17,
    -2.5,
    1e300,
    1023,
    -1075,
    709.782712893384,
    709.7827128933841,
    -709.782712893384,
    -745.1332191019411,
    -745.1332191019412,
    26.6,
    27.3,
    0x1p52,
    0x1p53,
    1.5707963267948966,
    3.141592653589793,
    0.9999999999999999,
    1.0000000000000002,
    6381956970095103.0 * 0x1p797, // the nearest to a multiple of pi / 2
};
enum { EDGES = sizeof edges / sizeof *edges };

static uint64_t state = 88172645463325252u;
static uint64_t bits(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state * 0x2545F4914F6CDD1Du;
}
static double unit(void) { return (double)(bits() >> 11) * 0x1p-53; }
static double any_bits(void) {
  uint64_t b = bits();
  double x;
  memcpy(&x, &b, sizeof x);
  return x;
}
static double argument(const row *r) {
  switch (bits() >> 62) {
  case 0: return any_bits();
  case 1: return r->low + (r->high - r->low) * unit();
  case 2: return ldexp(2 * unit() - 1, (int)(bits() % 12) - 6);
  default: return 1 + ldexp(2 * unit() - 1, -(int)(bits() % 50));
  }
}

/* Distance in the last place; 0 for what agrees that has none. Results below the normal numbers of
 * 1 / (1 + exp(-x)), whose exp is infinite, count by their size alone. */
static double distance(bool any, double got, long double want) {
  double near = (double)want;
  if (isnan(near) || isnan(got)) return isnan(near) && isnan(got) ? 0 : INFINITY;
  if (isinf(near) || isinf(got)) return got == near ? 0 : INFINITY;
  if (near == 0 && got == 0) return signbit(near) == signbit(got) ? 0 : INFINITY;
  if (any && near < DBL_MIN) return got <= DBL_MIN ? 0 : INFINITY;
  double size = fabs(near), ulp = near == DBL_MAX ? 0x1p971 : nextafter(size, INFINITY) - size;
  return (double)fabsl(((long double)got - want) / (long double)ulp);
}

static anf_exec *compiled(anf_ctx *cx, const char *text, anf_module **m) {
  anf_exec *e = NULL;
  bool good = anf_parse(cx, text, "math.anf", NULL, m) == ANF_OK &&
              anf_compile(anf_module_find(*m, "f"), NULL, NULL, &e) == ANF_OK;
  return good ? e : NULL;
}

static double x[BLOCK], y[BLOCK], z[BLOCK];

static double check(anf_ctx *cx, const row *r, int blocks, double *at) {
  char text[80];
  anf_module *m = NULL;
  double worst = 0;
  snprintf(text, sizeof text, "def f(x: f64[%d]) { %s(x) }", (int)BLOCK, r->op);
  anf_exec *e = compiled(cx, text, &m);
  bool good = e;
  for (int b = 0; b < blocks && good; b++) {
    for (int i = 0; i < BLOCK; i++) x[i] = b == 0 && i < EDGES ? edges[i] : argument(r);
    anf_generic slot[2] = {{.ptr = x}, {.ptr = y}};
    good = anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot) == ANF_OK;
    for (int i = 0; i < BLOCK; i++) {
      double d = distance(r->f == sigmoid, y[i], r->f((long double)x[i]));
      if (d > worst) worst = d, *at = x[i];
    }
  }
  anf_exec_free(e);
  anf_module_free(m);
  return good ? worst : INFINITY;
}

/* All numbers; those whose powers are numbers; those near one; negative ones to whole powers. */
static void pair(double *a, double *b) {
  switch (bits() >> 62) {
  case 0: *a = any_bits(), *b = any_bits(); break;
  case 1:
    *a = ldexp(1 + unit(), (int)(bits() % 2000) - 1000),
    *b = (2 * unit() - 1) * 1080 / (fabs(log2(*a)) + 1e-3);
    break;
  case 2:
    *a = 1 + ldexp(2 * unit() - 1, -(int)(bits() % 50));
    *b = (2 * unit() - 1) * 1080 / (fabs(log2(*a)) + 1e-300);
    break;
  default: *a = -10 * unit(), *b = (double)(bits() % 601) - 300; break;
  }
}

static double powers(anf_ctx *cx, int blocks, double *worst_x, double *worst_y) {
  char text[80];
  anf_module *m = NULL;
  double worst = 0;
  snprintf(text, sizeof text, "def f(x: f64[%d], y: f64[%d]) { x ** y }", (int)BLOCK, (int)BLOCK);
  anf_exec *e = compiled(cx, text, &m);
  bool good = e;
  for (int b = 0; b < blocks && good; b++) {
    for (int i = 0; i < BLOCK; i++) {
      pair(&x[i], &y[i]);
      if (b == 0 && i < EDGES * EDGES) x[i] = edges[i / EDGES], y[i] = edges[i % EDGES];
    }
    anf_generic slot[3] = {{.ptr = x}, {.ptr = y}, {.ptr = z}};
    good = anf_jit_call_generic(anf_exec_function(e), anf_stream_of_thread(), slot) == ANF_OK;
    for (int i = 0; i < BLOCK; i++) {
      double d = distance(false, z[i], powl((long double)x[i], (long double)y[i]));
      if (d > worst) worst = d, *worst_x = x[i], *worst_y = y[i];
    }
  }
  anf_exec_free(e);
  anf_module_free(m);
  return good ? worst : INFINITY;
}

int main(int argc, char **argv) {
  int blocks = argc > 1 && strcmp(argv[1], "--long") == 0 ? BLOCKS_LONG : BLOCKS;
  const char *only = argc > 2 ? argv[2] : NULL;
  anf_ctx *cx = anf_ctx_new(NULL);
  size_t n = sizeof rows / sizeof *rows;
  if (!only) printf("1..%zu\n", n + 1);
  for (size_t i = 0; i < n; i++) {
    if (only && strcmp(only, rows[i].op) != 0) continue;
    double at = 0, off = check(cx, &rows[i], blocks, &at);
    printf("%sok %zu - %s: %.3f ulp at %a\n", off <= rows[i].ulp ? "" : "not ", i + 1, rows[i].op,
           off, at);
  }
  if (!only || strcmp(only, "Power") == 0) {
    double a = 0, b = 0, off = powers(cx, blocks, &a, &b);
    printf("%sok %zu - Power: %.3f ulp at %a, %a\n", off <= 2 ? "" : "not ", n + 1, off, a, b);
  }
  anf_ctx_free(cx);
  return 0;
}
