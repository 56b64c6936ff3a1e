// SPDX-License-Identifier: Apache-2.0
/* Products and convolutions on streams of 1 to 5 threads give the same bits, also on two streams at
 * once, and the same as code without parallel loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"

typedef struct program {
  const char *text, *name;
  size_t n[3]; // elements of a, b and the result
} program;
static const program programs[] = {
    {"def mm(a: f32[200, 310], b: f32[310, 130]) { a @ b }", "mm", {62000, 40300, 26000}},
    {"def tall(a: f32[900, 40], b: f32[50, 40]) { MatMul(a, b, tb=true) }",
     "tall",
     {36000, 2000, 45000}},
    {"def turned(a: f32[300, 410], b: f32[300, 250]) { MatMul(a, b, ta=true) }",
     "turned",
     {123000, 75000, 102500}},
    {"def flat(a: f32[8, 700], b: f32[700, 500]) { a @ b }", "flat", {5600, 350000, 4000}},
    {"def long(a: f32[16, 9000], b: f32[9000, 16]) { a @ b }", "long", {144000, 144000, 256}},
    {"def thin(a: f32[1, 4096], b: f32[4096, 64]) { Relu(a @ b + b[7]) * a[0, 2] }",
     "thin",
     {4096, 262144, 64}},
    {"def two(a: f32[4099, 130], b: f32[4099, 33]) { Tanh(MatMul(a, b, ta=true)) }",
     "two",
     {532870, 135267, 4290}},
    {"def dots(a: f32[9, 30001], b: f32[30001]) { a @ b + b[0:9] }", "dots", {270009, 30001, 9}},
    {"def across(a: f32[40, 600], b: f32[1100, 600]) { Tanh(MatMul(a, b, tb=true)) }",
     "across",
     {24000, 660000, 44000}},
    {"def many(a: f32[6, 70, 80], b: f32[6, 80, 60]) { a @ b }", "many", {33600, 28800, 25200}},
    {"def image(a: f32[1, 32, 30, 31], b: f32[24, 32, 3, 3]) { Conv2D(a, b, padding=1, stride=2) }",
     "image",
     {29760, 6912, 5760}},
    {"def images(a: f32[3, 16, 20, 20], b: f32[16, 16, 3, 3]) { Conv2D(a, b, padding=1) }",
     "images",
     {19200, 2304, 19200}},
    {"def patches(a: f32[1, 32, 56, 56], b: f32[64, 32, 2, 2]) {"
     " Conv2D(a, b, b[:, 0, 0, 0], stride=2) }",
     "patches",
     {100352, 8192, 50176}},
    {"def small(a: f32[1, 64, 7, 7], b: f32[256, 64, 3, 3]) { Relu(Conv2D(a, b, padding=1)) }",
     "small",
     {3136, 147456, 12544}},
    {"def ranges(a: f32[1, 40, 12, 13], b: f32[64, 40, 3, 3]) {"
     " Conv2D(a, b, padding=8, dilation=8) }",
     "ranges",
     {6240, 23040, 9984}},
    {"def heads(a: f32[3, 5, 70, 16], b: f32[3, 5, 100, 16]) { Attention(a, b, b, causal=true) }",
     "heads",
     {16800, 24000, 16800}},
    {"def loss(a, w, c) { Sum(Conv2D(a, w, padding=1) * c) }"
     "\ndef weights(a: f32[13, 8, 20, 20], c: f32[13, 16, 20, 20]) {"
     " (grad(loss, wrt=\"w\"))(a, Zeros((16, 8, 3, 3), f32), c) }",
     "weights",
     {41600, 83200, 1152}},
    {"def loss(a, w, c) { Sum(Conv2D(a, w, padding=1) * c) }"
     "\ndef many_weights(a: f32[3, 32, 6, 6], c: f32[3, 256, 6, 6]) {"
     " (grad(loss, wrt=\"w\"))(a, Zeros((256, 32, 3, 3), f32), c) }",
     "many_weights",
     {3456, 27648, 73728}}};
enum { PROGRAMS = sizeof programs / sizeof *programs, TURNS = 8 };

static float *fill(size_t n, unsigned seed) {
  float *p = (float *)malloc(n * sizeof *p);
  assert_non_null(p);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    p[i] = (float)(seed >> 8) * 0x1p-24f - 0.5f;
  }
  return p;
}

typedef struct compiled {
  anf_ctx *cx;
  anf_module *m;
  anf_exec *e;
} compiled;

static compiled compile(const program *p, bool parallel) {
  compiled c = {anf_ctx_new(NULL), NULL, NULL};
  anf_diag *d = anf_diag_new(c.cx);
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM, .parallel = parallel};
  anf_status st = anf_parse(c.cx, p->text, "threads.anf", d, &c.m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(c.m, p->name), &o, d, &c.e);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_diag_free(d);
  return c;
}

static void release(compiled *c) {
  anf_exec_free(c->e);
  anf_module_free(c->m);
  anf_ctx_free(c->cx);
}

static void call(const anf_jit_function *f, anf_stream *s, float *a, float *b, float *to) {
  anf_generic args[4] = {{.ptr = a}, {.ptr = b}, {.ptr = to}};
  assert_int_equal(anf_jit_call_generic(f, s, args), ANF_OK);
}

typedef struct job {
  const anf_jit_function *f;
  uint32_t threads;
  float *a, *b;
  const float *want;
  size_t n;
  bool same;
} job;

static void *turns(void *arg) {
  job *j = (job *)arg;
  anf_stream_opts o = {.size = sizeof o, .threads = j->threads};
  anf_stream *s = anf_stream_new(&o);
  float *to = (float *)malloc(j->n * sizeof *to);
  j->same = s && to;
  for (int i = 0; i < TURNS && j->same; i++) {
    anf_generic args[4] = {{.ptr = j->a}, {.ptr = j->b}, {.ptr = to}};
    memset(to, 0xff, j->n * sizeof *to);
    j->same = anf_jit_call_generic(j->f, s, args) == ANF_OK &&
              memcmp(to, j->want, j->n * sizeof *to) == 0;
  }
  free(to);
  anf_stream_free(s);
  return NULL;
}

static void same_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < PROGRAMS; i++) {
    const program *p = &programs[i];
    compiled plain = compile(p, false), c = compile(p, true);
    float *a = fill(p->n[0], 1), *b = fill(p->n[1], 2), *want = fill(p->n[2], 3);
    call(anf_exec_function(plain.e), NULL, a, b, want);
    job j = {anf_exec_function(c.e), 1, a, b, want, p->n[2], false};
    for (; j.threads <= 5; j.threads++) {
      turns(&j);
      assert_true(j.same);
    }
    job two[2] = {j, j};
    pthread_t t[2];
    for (int k = 0; k < 2; k++) {
      two[k].threads = 2 + (uint32_t)k;
      assert_int_equal(pthread_create(&t[k], NULL, turns, &two[k]), 0);
    }
    for (int k = 0; k < 2; k++) {
      pthread_join(t[k], NULL);
      assert_true(two[k].same);
    }
    free(a), free(b), free(want);
    release(&plain);
    release(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
