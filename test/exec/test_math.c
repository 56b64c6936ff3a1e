// SPDX-License-Identifier: Apache-2.0
/* Functions of f32 as compiled loops compute them, against the C library's of double: every argument
 * whose bits are a multiple of a prime, or all of them with --full. The error is in units of the last
 * place of the nearest f32. */
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
static const row rows[] = {{"Exp", exp, 2},        {"Log", log, 2}, {"Log1p", log1p, 2},
                           {"Tanh", tanh, 2},      {"Erf", erf, 2}, {"Erfc", erfc, 6},
                           {"Sigmoid", sigmoid, 2}};

static float of_bits(uint32_t b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}

/* Distance in the last place; 0 for what agrees that has none. Results below the normal numbers of
 * 1 / (1 + exp(-x)), whose exp is infinite, count by their size alone. */
static double distance(const row *r, float got, double want) {
  float near = (float)want;
  if (isnan(near) || isnan(got)) return isnan(near) && isnan(got) ? 0 : INFINITY;
  if (isinf(near) || isinf(got)) return got == near ? 0 : INFINITY;
  if (r->f == sigmoid && fabs(want) < 0x1p-126) return got <= 0x1p-126f ? 0 : INFINITY;
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
    double d = distance(k->r, k->y[i], k->r->f((double)k->x[i]));
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

int main(int argc, char **argv) {
  uint64_t step = argc > 1 && strcmp(argv[1], "--full") == 0 ? 1 : PRIME;
  anf_ctx *cx = anf_ctx_new(NULL);
  run k = {.x = calloc(BLOCK, sizeof(float)), .y = calloc(BLOCK, sizeof(float))};
  size_t n = sizeof rows / sizeof *rows;
  printf("1..%zu\n", n);
  for (size_t i = 0; i < n && k.x && k.y; i++) {
    bool good = check(cx, &rows[i], step, &k);
    printf("%sok %zu - %s: %.3f ulp at %a\n", good ? "" : "not ", i + 1, rows[i].op, k.worst,
           (double)k.at);
  }
  free(k.x);
  free(k.y);
  anf_ctx_free(cx);
  return 0;
}
