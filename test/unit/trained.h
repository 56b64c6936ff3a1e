// SPDX-License-Identifier: Apache-2.0
/* A small training that tests save, load and compare: two parameters, Adam, dropout with a random key. */
#ifndef ANF_TEST_TRAINED_H
#define ANF_TEST_TRAINED_H

#include "test/unit/program.h"

static const char MODEL[] =
    "import optim\n"
    "def loss(p, x) { Mean(Square(x @ p.w + p.b - 1.0)) }\n"
    "def step(p: {w: f32[3, 2], b: f32[2]}, o: {m: {w: f32[3, 2], b: f32[2]},\n"
    "         v: {w: f32[3, 2], b: f32[2]}, t: i32}, k: key, x: f32[4, 3]) {\n"
    "  (l, g) = value_and_grad(loss)(p, Dropout(x, k, rate=0.3))\n"
    "  (p, o) = optim.adam(p, g, o, 0.01)\n"
    "  (p, o, FoldIn(k, o.t), {loss = l})\n"
    "}\n";

typedef struct trained {
  anf_module *m;
  anf_step *s;
  float x[12];
} trained;

static inline void start(world *w, trained *t, const char *text) {
  anf_step_opts o = {.size = sizeof o, .exec = &(anf_exec_opts){.kind = ANF_JIT_INTERP}};
  int64_t dims[] = {4, 3};
  *t = (trained){0};
  for (int i = 0; i < 12; i++) t->x[i] = (float)i / 6 - 1;
  assert_int_equal(anf_parse(w->cx, text, "model.anf", w->d, &t->m), ANF_OK);
  anf_status st = anf_step_new(anf_module_find(t->m, "step"), 3, 0, NULL, &o, w->d, &t->s);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_array x = {.dtype = ANF_F32, .rank = 2, .dims = dims, .data = t->x};
  assert_int_equal(anf_step_bind(t->s, ANF_INPUT, 0, &x, w->d), ANF_OK);
}

static inline void stop(trained *t) {
  anf_step_free(t->s);
  anf_module_free(t->m);
}

static inline void run_steps(world *w, trained *t, int n) {
  for (int i = 0; i < n; i++) assert_int_equal(anf_step_run(t->s, w->d), ANF_OK);
}

static inline void check_same(const anf_step *a, const anf_step *b) {
  assert_int_equal(anf_step_count(a), anf_step_count(b));
  for (size_t i = 0; i < anf_step_leaf_count(a, ANF_STATE); i++) {
    anf_array x, y;
    size_t bytes;
    assert_int_equal(anf_step_leaf(a, ANF_STATE, i, &x), ANF_OK);
    assert_int_equal(anf_step_leaf(b, ANF_STATE, i, &y), ANF_OK);
    bytes = anf_dtype_bytes(x.dtype);
    for (size_t k = 0; k < x.rank; k++) bytes *= (size_t)x.dims[k];
    assert_memory_equal(x.data, y.data, bytes);
  }
}

#endif
