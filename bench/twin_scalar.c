// SPDX-License-Identifier: Apache-2.0
/* What bench_scalar.c measures, as one writes it in C: compiled by gcc -O2 and clang -O2 when the
 * benchmark runs. Gradients are hand-written adjoints with a tape. */
#include <stdint.h>
#include <stdlib.h>

#define TWIN __attribute__((noinline, visibility("default")))

TWIN int64_t fibonacci(int64_t n) {
  if (n < 1) return 0;
  if (n == 1) return 1;
  return fibonacci(n - 1) + fibonacci(n - 2);
}

TWIN int64_t ackermann(int64_t m, int64_t n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

/* Female and male of Hofstadter: two functions that call each other twice. */
TWIN int64_t male(int64_t n);
TWIN int64_t female(int64_t n) { return n == 0 ? 1 : n - male(female(n - 1)); }
TWIN int64_t male(int64_t n) { return n == 0 ? 0 : n - female(male(n - 1)); }

TWIN double logistic(double x, double h, int64_t n) {
  for (int64_t i = 0; i < n; i++) x = x + h * x * (1.0 - x);
  return x;
}

/* d logistic / dh */
TWIN double logistic_grad(double x, double h, int64_t n) {
  double *tape = malloc((size_t)n * sizeof *tape), dh = 0, g = 1;
  for (int64_t i = 0; i < n; i++) {
    tape[i] = x;
    x = x + h * x * (1.0 - x);
  }
  for (int64_t i = n; i-- > 0;) {
    double v = tape[i];
    dh += g * v * (1 - v);
    g *= 1 + h * (1 - 2 * v);
  }
  free(tape);
  return dh;
}

TWIN double tree(double x, int64_t n) {
  if (n == 0) return x * x;
  return tree(x * 0.5, n - 1) + tree(x * 1.5, n - 1);
}

static double add_one(double x, double a) { return x + a; }
static double scale(double x, double a) { return x * a; }

/* Each turn calls one of two functions, through a pointer. */
TWIN double dispatch(double x, int64_t n) {
  double (*const f[2])(double, double) = {add_one, scale};
  for (int64_t i = 0; i < n; i++) x = f[(i * 7 / 3) & 1](x, 0.75);
  return x;
}

TWIN double plus(double a, double b) { return a + b; }
