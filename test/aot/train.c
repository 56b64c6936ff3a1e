// SPDX-License-Identifier: Apache-2.0
/* Trains with the objects of train.anf, linked with libanfora_rt alone; with WITH_JIT, beside an anf_step
 * of the same program, whose numbers must be the same. Reports the first difference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "step.h"
#include "test.h"

#ifdef WITH_JIT
#include <anfora/anfora.h>
#endif

static int wrong;
#define EXPECT(claim)                                                                              \
  ((claim) ? (void)0 : (void)(wrong++, printf("line %d: not %s\n", __LINE__, #claim)))

enum { ROWS = 32, STEPS = 60 };
static uint8_t x[ROWS * 64], y[ROWS];
static const step_rate rate = {.lr = 0.1f, .by = {{7, 0.1f}, 3}};

/* Pictures that their labels tell */
static void make_data(void) {
  for (int i = 0; i < ROWS; i++) {
    y[i] = (uint8_t)(i % 10);
    for (int j = 0; j < 64; j++) x[i * 64 + j] = (uint8_t)(j * (y[i] + 3) % 17 & 15);
  }
}

static void start(step_state *s) {
  static init_out first;
  EXPECT(init_run(NULL, 0, &first) == ANF_OK);
  EXPECT(sizeof first == sizeof s->s);
  memcpy(&s->s, &first, sizeof first);
  EXPECT(s->s.even && s->s.double_1 == 0.5 && s->s.turn._0[3] == 1 && s->s.t == 0);
}

static void learn(void) {
  static step_state s, before;
  step_out out = {0};
  test_out tested;
  start(&s);
  anf_stream *stream = anf_stream_new(NULL);
  for (int i = 0; i < STEPS; i++) EXPECT(step_run(stream, &s, x, y, &rate, &out) == ANF_OK);
  EXPECT(out.loss < 0.1f && out.accuracy == 1);
  EXPECT(s.s.t == STEPS && s.s.opt.t == STEPS && s.s.even && out.register_1 == STEPS - 1);
  EXPECT(out.first[2] == s.s.p._1.b[2]);
  EXPECT(s.s.turn._0[0] == 1 + STEPS / 2 && s.s.turn._1[0] == STEPS / 2);
  EXPECT(test_run(stream, (const test_s *)(const void *)&s.s, x, y, &tested) == ANF_OK);
  EXPECT(tested.out == 1);
  /* No such label: nothing has changed. */
  memcpy(&before, &s, sizeof s);
  y[5] = 10;
  EXPECT(step_run(stream, &s, x, y, &rate, &out) == ANF_INVALID);
  EXPECT(strstr(anf_stream_trap(stream)->text, "10") &&
         strstr(anf_stream_trap(stream)->file, "nn.anf"));
  EXPECT(memcmp(&before, &s, sizeof s) == 0);
  y[5] = 5;
  anf_stream_free(stream);
}

#ifdef WITH_JIT
static void same(const anf_step *j, anf_role r, const char *path, const void *p, size_t bytes) {
  anf_array a = {0};
  EXPECT(anf_step_leaf(j, r, anf_step_leaf_find(j, r, path), &a) == ANF_OK);
  if (!a.data || memcmp(a.data, p, bytes) != 0) printf("%s differs\n", path), wrong++;
}

static anf_step *make(anf_ctx *cx, anf_diag *d, anf_module *m) {
  static int64_t dims[] = {ROWS, 8, 8}, two[] = {2};
  anf_value *arg[4] = {0}, *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, NULL), *part[2];
  anf_step *j = NULL;
  EXPECT(anf_run(anf_module_find(m, "init"), 1, &key, NULL, d, &arg[0]) == ANF_OK);
  arg[1] = anf_value_tensor(cx, ANF_U8, 3, dims, x);
  arg[2] = anf_value_tensor(cx, ANF_U8, 1, dims, y);
  part[0] = anf_value_tensor(cx, ANF_F32, 1, two, rate.by._0);
  part[1] = anf_value_tensor(cx, ANF_F32, 0, NULL, &rate.by._1);
  anf_value *pair = anf_value_tuple(cx, 2, part);
  anf_value *rates[2] = {anf_value_tensor(cx, ANF_F32, 0, NULL, &rate.lr), pair};
  static const char *const names[] = {"lr", "by"};
  arg[3] = anf_value_record(cx, 2, names, rates);
  EXPECT(anf_step_new(anf_module_find(m, "step"), 1, 4, arg, NULL, d, &j) == ANF_OK);
  anf_value *all[] = {arg[0], arg[1], arg[2], arg[3], key, part[0], part[1], pair, rates[0]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) anf_value_release(all[i]);
  return j;
}

static void compare(const char *file) {
  static step_state s;
  step_out out;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  EXPECT(anf_load(cx, file, d, &m) == ANF_OK);
  anf_step *j = make(cx, d, m);
  anf_diag_print(d, stdout, false);
  if (!j) exit(1);
  start(&s);
  for (int i = 0; i < STEPS; i++) {
    EXPECT(step_run(NULL, &s, x, y, &rate, &out) == ANF_OK);
    EXPECT(anf_step_run(j, d) == ANF_OK);
    same(j, ANF_OUTPUT, "loss", &out.loss, sizeof out.loss);
  }
  same(j, ANF_STATE, "s.p.0.w", s.s.p._0.w, sizeof s.s.p._0.w);
  same(j, ANF_STATE, "s.opt.v.1.b", s.s.opt.v._1.b, sizeof s.s.opt.v._1.b);
  same(j, ANF_STATE, "s.opt.t", &s.s.opt.t, sizeof s.s.opt.t);
  same(j, ANF_STATE, "s.turn.1", s.s.turn._1, sizeof s.s.turn._1);
  same(j, ANF_STATE, "s.double", &s.s.double_1, sizeof s.s.double_1);
  same(j, ANF_OUTPUT, "first", out.first, sizeof out.first);
  anf_step_free(j);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}
#endif

int main(int argc, char **argv) {
  make_data();
  learn();
#ifdef WITH_JIT
  compare(argv[argc - 1]);
#else
  (void)argc, (void)argv;
#endif
  return wrong != 0;
}
