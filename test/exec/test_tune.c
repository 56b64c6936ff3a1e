// SPDX-License-Identifier: Apache-2.0
/* Plans of products that are measured: the bits are those of the cost model's plans, what was measured is
 * found again in the folder, also by others, and what is damaged there is measured again.
 * test_tune [EVERY]: one of EVERY programs. */
#define _DEFAULT_SOURCE // mkdtemp
#include "test/unit/program.h"

#include <stdio.h>
#include <stdlib.h>

#include "anfora/exec.h"
#include "test/unit/folder.h"

typedef struct program {
  const char *text, *kernels;
  anf_dtype a, b;
  int64_t da[2], db[2];
  bool fixed;
} program;

static const program programs[] = {
    {"def f(a, b) { Tanh(a @ b + b[3]) }", NULL, ANF_F32, ANF_F32, {77, 90}, {90, 130}, false},
    {"def f(a, b) { Relu(a @ b) }", "avx512", ANF_F32, ANF_F32, {40, 700}, {700, 33}, true},
    {"def f(a, b) { MatMul(a, b, ta=true) }", "avx2", ANF_F32, ANF_F32, {300, 50}, {300, 9}, false},
    {"def f(a, b) { MatMul(a, b, tb=true) }",
     "avx512",
     ANF_F64,
     ANF_F64,
     {20, 300},
     {60, 300},
     false},
    {"def f(a, b) { Relu(a @ b + b[0]) }",
     "bf16",
     ANF_BF16,
     ANF_BF16,
     {30, 2100},
     {2100, 40},
     false},
    {"def f(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) }",
     "vnni",
     ANF_I8,
     ANF_I8,
     {35, 90},
     {90, 66},
     true}};

static anf_value *tensor(anf_ctx *cx, anf_dtype d, const int64_t *dims) {
  static double data[1 << 17];
  size_t n = (size_t)(dims[0] * dims[1]);
  uint32_t seed = 1;
  for (size_t i = 0; i < n; i++) {
    float x = (float)((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-24F - 0.5F;
    if (d == ANF_F64) data[i] = (double)x;
    else if (d == ANF_F32) ((float *)data)[i] = x;
    else if (d == ANF_BF16) ((uint16_t *)data)[i] = anfi_f32_to_bf16(x);
    else ((int8_t *)data)[i] = (int8_t)(seed >> 16);
  }
  return anf_value_tensor(cx, d, 2, dims, data);
}

static anf_value *result(world *w, const program *p, const char *dir, bool tune) {
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_value *args[] = {tensor(w->cx, p->a, p->da), tensor(w->cx, p->b, p->db)}, *got = NULL;
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM, .tune = tune};
  anf_jit_opts jit = {.size = sizeof jit, .kernels = p->kernels, .cache_dir = dir};
  o.jit = &jit;
  assert_int_equal(anf_parse(w->cx, p->text, "p.anf", w->d, &m), ANF_OK);
  anf_status st = anf_compile(anf_module_find(m, "f"), &o, w->d, &e);
  if (st == ANF_OK && p->fixed) st = anf_exec_fix(e, 1, args[1], w->d);
  if (st == ANF_OK) st = anf_exec_run(e, 2, args, NULL, w->d, &got);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_value_release(args[0]), anf_value_release(args[1]);
  anf_exec_free(e);
  anf_module_free(m);
  return got;
}

static size_t every = 1;

static void same_bits(void **state) {
  for (size_t i = 0; i < ANFI_LEN(programs); i += every) {
    anf_value *want = result(*state, &programs[i], NULL, false),
              *got = result(*state, &programs[i], NULL, true);
    assert_true(anf_value_same(got, want));
    anf_value_release(want), anf_value_release(got);
  }
}

typedef struct seen { // in the folder
  char name[64][64];
  size_t n;
} seen;

static bool see(void *user, const anf_jit_cached *f) {
  seen *s = (seen *)user;
  assert_true(s->n < ANFI_LEN(s->name));
  snprintf(s->name[s->n++], sizeof s->name[0], "%s", f->name);
  return true;
}

static seen look(world *w, const char *dir) {
  seen s = {.n = 0};
  assert_int_equal(anf_jit_cache_visit(w->cx, dir, see, &s, w->d), ANF_OK);
  return s;
}

/* A bit of every file is another one. */
static void damage_all(const seen *s, const char *dir) {
  char path[2 * TEST_PATH];
  for (size_t i = 0; i < s->n; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, s->name[i]);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -3, SEEK_END);
    int c = fgetc(f);
    fseek(f, -3, SEEK_END);
    fputc(c ^ 16, f);
    fclose(f);
  }
}

static void found_again(void **state) {
  world *w = (world *)*state;
  char dir[TEST_PATH], path[2 * TEST_PATH];
  assert_true(test_folder(dir));
  program p = programs[0];
  anf_value *want = result(w, &p, dir, true), *got;
  seen first = look(w, dir);
  assert_int_equal(first.n, 2); // a plan, and code
  got = result(w, &p, dir, true);
  assert_int_equal(look(w, dir).n, first.n);
  assert_true(anf_value_same(got, want));
  anf_value_release(got);
  assert_int_equal(anf_diag_count(w->d), 0);
  damage_all(&first, dir);
  got = result(w, &p, dir, true);
  assert_true(anf_value_same(got, want));
  assert_true(anf_diag_count(w->d) >=
              1); // what is measured again may be another plan, whose code is elsewhere
  assert_string_equal(anf_diag_at(w->d, 0)->code, "W0902");
  anf_value_release(got);
  p.kernels = "sse"; // another machine
  size_t before = look(w, dir).n;
  got = result(w, &p, dir, true);
  assert_int_equal(look(w, dir).n, before + 2);
  assert_true(anf_value_same(got, want));
  anf_value_release(got), anf_value_release(want);
  seen all = look(w, dir);
  for (size_t i = 0; i < all.n; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, all.name[i]);
    assert_int_equal(remove(path), 0);
  }
  assert_int_equal(remove(dir), 0);
}

int main(int argc, char **argv) {
  if (argc > 1) every = strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(same_bits, setup, teardown),
                                     cmocka_unit_test_setup_teardown(found_again, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
