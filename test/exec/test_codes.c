// SPDX-License-Identifier: Apache-2.0
/* Codes of reals, compiled and interpreted: the same for each real around the places where a code changes, with many scales.
 *   Quantize([0.5, nextafter(0.5, 0), NaN, ..], 1.0, dtype=u8)   is [0, 0, 0, ..] in both
 * Numbers of rows of a program share a call, so that little is compiled. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"

enum { SCALES = 12, CODES = 256, AROUND = 5, ODD = 16, TEXT = 8192, LENGTH = CODES * AROUND + ODD };

static unsigned tests, bad;
static uint64_t state = 7;

static double next_number(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state >> 40) / (double)(1 << 24);
}

/* The reals whose codes are about to change, and others that no rule may forget. */
static void fill(float *x, float scale, double least, double zero) {
  static const float odd[ODD] = {NAN,    INFINITY, -INFINITY, 0.0f,    -0.0f,  1e38f,
                                 -1e38f, 3.4e38f,  1e-40f,    -1e-40f, 1e-30f, 1e30f,
                                 -1e30f, 16777216, -1e9f,     1e9f};
  for (int k = 0; k < CODES; k++) {
    float at = (float)((least + k - zero + 0.5) * (double)scale);
    for (int i = 0; i < AROUND / 2; i++) at = nextafterf(at, -INFINITY);
    for (int i = 0; i < AROUND; i++, at = nextafterf(at, INFINITY)) x[k * AROUND + i] = at;
  }
  memcpy(x + CODES * AROUND, odd, sizeof odd);
}

typedef struct kind {
  const char *name, *code; // in code @ is the argument, # the scale
  double least, zero;
} kind;
static const kind kinds[] = {
    {"bytes", "Quantize(@, #)", -128, 0},
    {"with a zero point", "Quantize(@, #, Cast(131, u8), dtype=u8)", 0, 131},
    {"as reals", "Dequantize(Quantize(@, #, Cast(7, i8)), 0.3, Cast(7, i8))", -128, 7},
    {"of numbers", "Quantize(Cast(Clip(@, -2000000000.0, 2000000000.0), i32) * 0.37, #, dtype=u8)",
     0, 0},
    {"of few codes", "Cast(Clip(Round(@ / #) - 3.0, -8.0, 7.0), i8)", -8, -3},
    {"limits that are no codes", "Cast(Clip(Round(@ / #), -3.5, 3.5), i8)", -8, 0},
    {"without 0", "Cast(Clip(Round(@ / #), 2.0, 9.0), i8)", 0, 0},
    {"of 16 bits", "Cast(Clip(Round(@ / #) + 5.0, -128.0, 32767.0), i16)", -128, 5},
    {"rounded alone", "Cast(Clip(Round(@) + # - 1.0, 0.0, 255.0), u8)", 0, 0},
};

static double scale_of(size_t i) {
  static const double given[] = {1, 0.125, 0x1p-100, 3e29, 2e-30, 1e-38};
  return i < sizeof given / sizeof *given ? given[i] : exp(next_number() * 12 - 8);
}

/* The program that codes each of its parameters by another scale, and its arguments. */
static void make(anf_ctx *cx, const kind *q, char *text, anf_value **arg) {
  static float x[LENGTH];
  const int64_t dims[1] = {LENGTH};
  bool alone = strcmp(q->name, "rounded alone") == 0; // what stands for a scale is added
  size_t at = (size_t)snprintf(text, TEXT, "def main(");
  for (size_t k = 0; k < SCALES; k++)
    at += (size_t)snprintf(text + at, TEXT - at, "%sx%zu: f32[%d]", k ? ", " : "", k, LENGTH);
  at += (size_t)snprintf(text + at, TEXT - at, ") { (");
  for (size_t k = 0; k < SCALES; k++) {
    char name[8], scale[32];
    double by = alone ? (double)k * 9 : scale_of(k);
    snprintf(name, sizeof name, "x%zu", k);
    snprintf(scale, sizeof scale, "%.9g%s", by, by < 1e6 && by == rint(by) ? ".0" : "");
    at += (size_t)snprintf(text + at, TEXT - at, "%s", k ? ", " : "");
    for (const char *c = q->code; *c; c++) {
      char one[2] = {*c, 0};
      at += (size_t)snprintf(text + at, TEXT - at, "%s",
                             *c == '@'   ? name
                             : *c == '#' ? scale
                                         : one);
    }
    fill(x, alone ? 1.0f : (float)by, q->least, q->zero);
    arg[k] = anf_value_tensor(cx, ANF_F32, 1, dims, x);
  }
  snprintf(text + at, TEXT - at, ") }\n");
}

static void check(const kind *q) {
  static char text[TEXT];
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_value *arg[SCALES], *want = NULL, *got = NULL;
  anf_exec *e = NULL;
  anf_exec_opts o = {.size = sizeof o};
  make(cx, q, text, arg);
  anf_status st = anf_parse(cx, text, "codes.anf", d, &m);
  anf_graph *g = m ? anf_module_find(m, "main") : NULL;
  if (g) st = anf_compile(g, &o, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, SCALES, arg, NULL, d, &got);
  if (st == ANF_OK) st = anf_run(g, SCALES, arg, NULL, d, &want);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  bool good = st == ANF_OK && anf_value_same(want, got);
  bad += !good;
  printf("%s %u - codes: %s\n", good ? "ok" : "not ok", ++tests, q->name);
  anf_value_release(want);
  anf_value_release(got);
  for (size_t k = 0; k < SCALES; k++) anf_value_release(arg[k]);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

int main(void) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) check(&kinds[i]);
  printf("1..%u\n", tests);
  return bad != 0;
}
