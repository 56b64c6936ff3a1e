// SPDX-License-Identifier: Apache-2.0
/* Batches of many sizes: from some size on they run in pieces, with the interpreter's values, if rows are apart. */
#define _XOPEN_SOURCE 700 // mkstemp
#include "test/exec/text.h"

#include "anfora/exec.h"
#include "backend/jit/jit.h"
#include "exec/exec.h"
#include "ir/value/mapped.h"
#include "test/unit/folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static anf_exec *compiled(world *w, anf_module *m, const anf_exec_opts *o) {
  anf_exec *e = NULL;
  assert_int_equal(anf_compile(anf_module_find(m, "f"), o, w->d, &e), ANF_OK);
  return e;
}

/* Integers as floats, so that no order of sums matters: each element is another one. */
static anf_value *batch(world *w, int64_t n) {
  static float x[20000 * 4];
  for (int64_t i = 0; i < n * 4; i++) x[i] = (float)(i * 7 % 1013);
  return anf_value_tensor(w->cx, ANF_F32, 2, (int64_t[]){n, 4}, x);
}

static void same(world *w, anf_module *m, anf_exec *e, size_t n, anf_value **args) {
  anf_value *want = NULL, *got = NULL;
  anf_text a = {.cx = w->cx}, b = {.cx = w->cx};
  anf_status st = anf_run(anf_module_find(m, "f"), n, args, NULL, w->d, &want);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  st = anf_exec_run(e, n, args, NULL, w->d, &got);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_value_print(w->cx, want, 0, &a), ANF_OK);
  assert_int_equal(anf_value_print(w->cx, got, 0, &b), ANF_OK);
  assert_string_equal(a.text, b.text);
  anf_text_free(&a);
  anf_text_free(&b);
  anf_value_release(want);
  anf_value_release(got);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
}

static bool explained(world *w, const anf_exec *e, const char *words) {
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_exec_explain(e, &t), ANF_OK);
  bool has = t.text && strstr(t.text, words);
  anf_text_free(&t);
  return has;
}

static const char *const apart =
    "def f(x: f32[B, 4], w: f32[4, 4]) { (Maximum(x @ w - 900.0, 0.0), {s = Sum(x, axis=1)}) }";

static void from_the_third_size_on_batches_run_in_pieces(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, apart);
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 3};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 1; n < 150; n++) same(w, m, e, 2, (anf_value *[]){batch(w, n), batch(w, 4)});
  assert_int_equal(anf_exec_compilations(e), 7); // 1, 2, 4, .. 64
  same(w, m, e, 2, (anf_value *[]){batch(w, 18001), batch(w, 4)});
  same(w, m, e, 2, (anf_value *[]){batch(w, 0), batch(w, 4)});
  assert_int_equal(anf_exec_compilations(e), 10); // and 1024, 16384, and no rows
  assert_true(explained(w, e, "(f32[rows, 4], f32[4, 4]): rows are apart"));
  anf_exec_free(e);
  anf_module_free(m);
}

static void without_the_option_each_size_has_code(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, apart);
  anf_exec *e = compiled(w, m, NULL);
  for (int64_t n = 1; n < 7; n++) same(w, m, e, 2, (anf_value *[]){batch(w, n), batch(w, 4)});
  assert_int_equal(anf_exec_compilations(e), 6);
  anf_exec_free(e);
  anf_module_free(m);
}

/* The only block of constants that the code made last reads. */
static const anfi_os_block *weights_of(const anf_exec *e) {
  const anfi_jit_blocks *b = &e->variant->code->blocks;
  const anfi_os_block *one = NULL;
  for (size_t i = 0; i < b->n; i++) {
    assert_true(!one || !b->at[i]);
    if (b->at[i]) one = b->at[i];
  }
  return one;
}

static void code_of_all_sizes_has_one_packed_weight(void **state) {
  world *w = *state;
  const anf_exec_opts o = {.size = sizeof o};
  anf_module *m = parsed(w, "def f(x: f32[B, 4], w: f32[4096, 4]) { x @ SwapAxes(w, 0, 1) }");
  anf_exec *e = compiled(w, m, &o);
  const anfi_os_block *first = NULL;
  anf_value *weights = batch(w, 4096);
  assert_int_equal(anf_exec_fix(e, 1, weights, w->d), ANF_OK);
  anf_value_release(weights);
  for (int64_t n = 16; n <= 64; n += 16) {
    same(w, m, e, 2, (anf_value *[]){batch(w, n), batch(w, 4096)});
    const anfi_os_block *now = weights_of(e);
    assert_non_null(now);
    if (first) assert_ptr_equal(now, first);
    first = now;
  }
  assert_int_equal(anf_exec_compilations(e), 4);
  anf_exec_free(e);
  anf_module_free(m);
}

enum {
  ROWS = 4096,
  OFFSET = 2
}; // floats at an offset of 2 bytes are read into a block of their own

static anf_status map_rows(world *w, const char *path, anf_value **out) {
  anfi_os_view file;
  ANFI_ENTRY(w->cx, w->d);
  const anf_type *t = anf_type_tensor(w->cx, ANF_F32, 2, (int64_t[]){ROWS, 4});
  if (anfi_os_view_file(w->cx, path, 1, &file)) *out = anfi_value_map(w->cx, t, &file, OFFSET);
  return anfi_leave(w->cx);
}

static anf_value *in_a_block(world *w, const char *path) {
  anf_value *v = NULL;
  assert_int_equal(map_rows(w, path, &v), ANF_OK);
  assert_non_null(v);
  assert_non_null(anfi_value_block(v));
  return v;
}

static void weights_that_were_read_twice_stay_as_they_are(void **state) {
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 8], zeros[OFFSET] = {0};
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/rows", folder);
  int f = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  anf_value *rows = batch(w, ROWS);
  assert_int_equal(write(f, zeros, OFFSET), OFFSET);
  assert_int_equal(write(f, anf_value_data(rows), ROWS * 16), ROWS * 16);
  close(f);
  anf_module *m = parsed(w, "def f(x: f32[B, 4], w: f32[4096, 4]) { Max(w * Sum(x), axis=0) }");
  const anf_exec_opts o = {.size = sizeof o};
  anf_value *of[] = {in_a_block(w, path), in_a_block(w, path)};
  anf_exec *e[] = {compiled(w, m, &o), compiled(w, m, &o)};
  for (int k = 0; k < 2; k++) {
    assert_int_equal(anf_exec_fix(e[k], 1, of[k], w->d), ANF_OK);
    same(w, m, e[k], 2, (anf_value *[]){batch(w, 1), batch(w, ROWS)});
  }
  for (int k = 0; k < 2; k++) {
    assert_memory_equal(anf_value_data(of[k]), anf_value_data(rows), ROWS * 16);
    anf_exec_free(e[k]);
    anf_value_release(of[k]);
  }
  anf_value_release(rows);
  anf_module_free(m);
  unlink(path);
  rmdir(folder);
}

static void code_that_was_dropped_is_made_again(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, apart);
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 2, .max_compiled = 2};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 1; n < 40; n++)
    same(w, m, e, 2, (anf_value *[]){batch(w, n * 5 % 61), batch(w, 4)});
  anf_exec_free(e);
  anf_module_free(m);
}

static void fixed_arguments_are_constants_of_the_pieces(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, apart);
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 2};
  anf_exec *e = compiled(w, m, &o);
  anf_value *weights = batch(w, 4);
  assert_int_equal(anf_exec_fix(e, 1, weights, w->d), ANF_OK);
  anf_value_release(weights);
  for (int64_t n = 5; n < 30; n++) same(w, m, e, 2, (anf_value *[]){batch(w, n), batch(w, 4)});
  assert_int_equal(anf_exec_compilations(e), 6); // 5, and 1 to 16
  anf_exec_free(e);
  anf_module_free(m);
}

static void rows_that_need_others_have_code_for_each_size(void **state) {
  world *w = *state;
  static const char *const texts[] = {"def f(x) { x - Mean(x, axis=0) }",
                                      "def f(x) { Sum(x) }",
                                      "def f(x) { x * Cast(x.shape[0], f32) }",
                                      "def f(x) { Flip(x, axis=0) }",
                                      "def f(x) { x @ SwapAxes(x, 0, 1) }",
                                      "def f(x) { Concat(x, x, axis=0) }",
                                      "def f(x) { if x.shape[0] > 4 { x } else { x * 2.0 } }"};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
    anf_module *m = parsed(w, texts[k]);
    anf_exec_opts o = {.size = sizeof o, .any_size_after = 3};
    anf_exec *e = compiled(w, m, &o);
    for (int64_t n = 2; n < 9; n++) same(w, m, e, 1, (anf_value *[]){batch(w, n)});
    assert_int_equal(anf_exec_compilations(e), 7);
    assert_true(explained(w, e, "code is made for each size: "));
    anf_exec_free(e);
    anf_module_free(m);
  }
}

static void it_is_an_error_where_any_size_is_asked_for(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, "def f(x) { x - Mean(x, axis=0) }");
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 2, .any_size_only = true};
  anf_exec *e = compiled(w, m, &o);
  anf_value *v = NULL, *x = batch(w, 3);
  same(w, m, e, 1, (anf_value *[]){batch(w, 2)});
  anf_diag_clear(w->d);
  assert_int_equal(anf_exec_run(e, 1, &x, NULL, w->d, &v), ANF_UNSUPPORTED);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E1595");
  anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
}

/* The place and the words are those of the interpreter. */
static void what_stops_a_piece_stops_the_batch(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, "def f(t: f32[4, 4], x: i64[B]) { Embedding(t, x) }");
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 2};
  anf_exec *e = compiled(w, m, &o);
  int64_t id[100] = {0};
  for (int64_t n = 90; n <= 100; n++)
    same(w, m, e, 2, (anf_value *[]){batch(w, 4), anf_value_tensor(w->cx, ANF_I64, 1, &n, id)});
  id[97] = 4;
  anf_value *args[] = {batch(w, 4), anf_value_tensor(w->cx, ANF_I64, 1, (int64_t[]){100}, id)};
  anf_value *v = NULL;
  anf_diag *d = anf_diag_new(w->cx);
  anf_diag_clear(w->d);
  assert_int_not_equal(anf_run(anf_module_find(m, "f"), 2, args, NULL, d, &v), ANF_OK);
  assert_int_not_equal(anf_exec_run(e, 2, args, NULL, w->d, &v), ANF_OK);
  assert_string_equal(anf_diag_at(w->d, 0)->code, anf_diag_at(d, 0)->code);
  assert_string_equal(anf_diag_at(w->d, 0)->message, anf_diag_at(d, 0)->message);
  assert_int_equal(anf_diag_at(w->d, 0)->col, anf_diag_at(d, 0)->col);
  anf_diag_free(d);
  for (size_t i = 0; i < 2; i++) anf_value_release(args[i]);
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_function_may_outlive_its_exec(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, "def f(x) { x + 1.0 }");
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 2};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 2; n < 4; n++) same(w, m, e, 1, (anf_value *[]){batch(w, n)});
  anf_jit_function *f = anf_jit_function_retain(anf_exec_function(e));
  assert_null(anf_exec_pointer(e));
  anf_exec_free(e);
  float x[12] = {1}, y[12] = {0};
  anf_generic slot[3] = {{.ptr = x}, {.ptr = y}};
  assert_int_equal(anf_jit_call_generic(f, NULL, slot), ANF_OK);
  assert_true(y[0] == 2 && y[11] == 1);
  anf_jit_function_free(f);
  anf_module_free(m);
}

/* ---- sizes that change with each call ---- */

static const char *const together = "def f(x: f32[N, 4]) { x - Max(x, axis=0) }";

static void has_result(world *w, const anf_exec *e, const char *type) {
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_type_print(w->cx, anf_exec_result_type(e), &t), ANF_OK);
  assert_string_equal(t.text, type);
  anf_text_free(&t);
}

static void sizes_that_do_not_come_back_are_interpreted(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, together);
  anf_exec_opts o = {.size = sizeof o, .interpret_after = 2};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 2; n < 12; n++) same(w, m, e, 1, (anf_value *[]){batch(w, n)});
  assert_int_equal(anf_exec_compilations(e), 2);
  assert_true(explained(w, e, "8 calls of 8 sizes were interpreted"));
  has_result(w, e, "f32[11, 4]");
  anf_value *known = batch(w, 3);
  assert_int_equal(anf_exec_prepare_for(e, 1, &known, w->d), ANF_OK);
  anf_value_release(known);
  has_result(w, e, "f32[3, 4]");
  same(w, m, e, 1, (anf_value *[]){batch(w, 2)});
  assert_true(explained(w, e, "8 calls of 8 sizes were interpreted"));
  anf_exec_free(e);
  anf_module_free(m);
}

/* So many calls of a size until it has code. */
static int calls_before_code(world *w, anf_module *m, anf_exec *e, int64_t n) {
  size_t had = anf_exec_compilations(e);
  int calls = 0;
  while (calls < 1000 && anf_exec_compilations(e) == had) {
    same(w, m, e, 1, (anf_value *[]){batch(w, n)});
    calls++;
  }
  return calls;
}

static void when_a_size_has_code_is_counted_and_not_timed(void **state) {
  world *w = *state;
  anf_exec_opts o = {.size = sizeof o, .interpret_after = 2};
  int calls[2];
  for (int k = 0; k < 2; k++) {
    anf_module *m = parsed(w, together);
    anf_exec *e = compiled(w, m, &o);
    for (int64_t n = 2; n < 4; n++) same(w, m, e, 1, (anf_value *[]){batch(w, n)});
    calls[k] = calls_before_code(w, m, e, 10000);
    assert_int_equal(anf_exec_compilations(e), 3);
    anf_exec_free(e);
    anf_module_free(m);
  }
  assert_true(calls[0] > 2);
  assert_int_equal(calls[0], calls[1]);
}

static void pieces_of_a_batch_have_code(void **state) {
  world *w = *state;
  anf_module *m = parsed(w, "def f(x: f32[N, 4]) { Exp(x) - x }");
  anf_exec_opts o = {.size = sizeof o, .any_size_after = 3, .interpret_after = 2};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 3; n < 12; n++) same(w, m, e, 1, (anf_value *[]){batch(w, n)});
  assert_int_equal(anf_exec_interpreted(e), 0);
  anf_exec_free(e);
  anf_module_free(m);
}

static void a_call_that_is_more_work_than_code_has_code(void **state) {
  world *w = *state;
  anf_module *m =
      parsed(w, "def f(x: f32[N, 4], n: f32) {\n"
                "  i = n; y = x; while i > 0.0 { y = y * 0.5 + 1.0; i = i - 1.0 }; Sum(y)\n}");
  anf_exec_opts o = {.size = sizeof o, .interpret_after = 1};
  anf_exec *e = compiled(w, m, &o);
  for (int64_t n = 2; n < 4; n++) {
    anf_value *args[] = {batch(w, n), anf_value_f32(w->cx, 1000000)}, *y = NULL;
    assert_int_equal(anf_exec_run(e, 2, args, NULL, w->d, &y), ANF_OK);
    assert_int_equal(anf_diag_count(w->d), 0);
    assert_true(*(const float *)anf_value_data(y) == (float)(8 * n));
    for (int i = 0; i < 2; i++) anf_value_release(args[i]);
    anf_value_release(y);
  }
  assert_int_equal(anf_exec_compilations(e), 2);
  anf_exec_free(e);
  anf_module_free(m);
}

static void effects_and_limits_have_code_for_each_size(void **state) {
  world *w = *state;
  const anf_run_opts limits[] = {{.size = sizeof *limits, .max_steps = 1 << 20},
                                 {.size = sizeof *limits, .max_ms = 1 << 20},
                                 {.size = sizeof *limits}};
  const char *texts[] = {together, together,
                         "def f(x: f32[N, 4]) { Print(x.shape[0]); x - Max(x, axis=0) }"};
  for (int k = 0; k < 3; k++) {
    anf_module *m = parsed(w, texts[k]);
    anf_exec_opts o = {.size = sizeof o, .interpret_after = 1};
    anf_exec *e = compiled(w, m, &o);
    for (int64_t n = 2; n < 5; n++) {
      anf_value *x = batch(w, n), *y = NULL;
      assert_int_equal(anf_exec_run(e, 1, &x, &limits[k], w->d, &y), ANF_OK);
      anf_value_release(x);
      anf_value_release(y);
    }
    assert_int_equal(anf_exec_compilations(e), 3);
    anf_exec_free(e);
    anf_module_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(from_the_third_size_on_batches_run_in_pieces),
      TEST(without_the_option_each_size_has_code),
      TEST(code_of_all_sizes_has_one_packed_weight),
      TEST(weights_that_were_read_twice_stay_as_they_are),
      TEST(code_that_was_dropped_is_made_again),
      TEST(fixed_arguments_are_constants_of_the_pieces),
      TEST(rows_that_need_others_have_code_for_each_size),
      TEST(it_is_an_error_where_any_size_is_asked_for),
      TEST(what_stops_a_piece_stops_the_batch),
      TEST(a_function_may_outlive_its_exec),
      TEST(sizes_that_do_not_come_back_are_interpreted),
      TEST(pieces_of_a_batch_have_code),
      TEST(when_a_size_has_code_is_counted_and_not_timed),
      TEST(a_call_that_is_more_work_than_code_has_code),
      TEST(effects_and_limits_have_code_for_each_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
