// SPDX-License-Identifier: Apache-2.0
/* Files of tensors and checkpoints: bytes written out by hand, damaged files, a full disk. */
#define _DEFAULT_SOURCE // setrlimit, mkdtemp
#include "test/unit/program.h"
#include "test/unit/folder.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* A file as the format's description has it: f32[2] a, u8[3] "b.c", and metadata. */
static const char HEAD[] =
    "{\"__metadata__\":{\"k\":\"v\\u00e9\\n\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
    "\"data_offsets\":[0,8]}, \"b.c\" : "
    "{\"data_offsets\":[8,11],\"shape\":[3,1],\"dtype\":\"U8\"}}";

static size_t make_file(char *out, const char *head, const void *data, size_t n) {
  size_t len = strlen(head);
  for (int i = 0; i < 8; i++) out[i] = (char)(len >> 8 * i & 0xff);
  memcpy(out + 8, head, len);
  if (n) memcpy(out + 8 + len, data, n);
  return 8 + len + n;
}

static void test_read(void **state) {
  world *w = *state;
  static const unsigned char data[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 7, 8, 9};
  char file[400];
  size_t n = make_file(file, HEAD, data, sizeof data);
  anf_value *v = NULL, *meta = NULL;
  assert_int_equal(anf_read_safetensors(w->cx, file, n, "x", w->d, &v, &meta), ANF_OK);
  assert_int_equal(anf_value_count(v), 2);
  assert_true(anf_value_get_f64(anf_value_at(v, 0), 0) == 1.0);
  assert_true(anf_value_get_f64(anf_value_at(v, 0), 1) == -2.0);
  assert_int_equal(anf_value_get_i64(anf_value_at(v, 1), 2), 9);
  assert_string_equal(anf_value_text(anf_value_at(meta, 0)), "v\xc3\xa9\n");
  anf_value_release(v);
  anf_value_release(meta);
  for (size_t k = 0; k < n; k++) { // cut off anywhere
    anf_status st = anf_read_safetensors(w->cx, file, k, "x", w->d, &v, NULL);
    assert_int_equal(st, ANF_INVALID);
    assert_null(v);
    assert_string_equal(anf_diag_at(w->d, 0)->code, "E0351");
    anf_diag_clear(w->d);
  }
}

static void refused(world *w, const char *head, const char *code) {
  char file[400], data[16] = {0};
  size_t n = make_file(file, head, data, sizeof data);
  anf_value *v = NULL;
  assert_int_not_equal(anf_read_safetensors(w->cx, file, n, "x", w->d, &v, NULL), ANF_OK);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  anf_diag_clear(w->d);
}

static void test_refused(void **state) {
  world *w = *state;
  refused(w, "[]", "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}", "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}",
          "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775807,3]}}",
          "E0351");
  refused(w, "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", "E0341");
  refused(w,
          "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
          "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
          "E0350");
  refused(w, "{\"a\":{\"dtype\":\"U8\",\"shape\":[15],\"data_offsets\":[0,15]}}",
          "E0351"); // a byte behind
  refused(w, "{\"a\":{\"dtype\":\"U8\",\"shape\":[15],\"data_offsets\":[1,16]}}",
          "E0351");                       // before
  for (int from = 7; from <= 9; from++) { // overlapping, side by side, with a byte between
    char head[200];
    snprintf(head, sizeof head,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,16]}}",
             16 - from, from);
    if (from != 8) refused(w, head, "E0351");
  }
  refused(w, "{\"__metadata__\":{\"k\":1}}", "E0351");
  refused(w, "{\"\\ud800\":{}}", "E0351");
  refused(w, "{} x", "E0351");
}

/* ---- checkpoints ---- */

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

static void start(world *w, trained *t, const char *text) {
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

static void stop(trained *t) {
  anf_step_free(t->s);
  anf_module_free(t->m);
}

static void run_steps(world *w, trained *t, int n) {
  for (int i = 0; i < n; i++) assert_int_equal(anf_step_run(t->s, w->d), ANF_OK);
}

static void check_same(const anf_step *a, const anf_step *b) {
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

static void test_resume(void **state) {
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 32];
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  trained whole, first, second;
  start(w, &whole, MODEL);
  run_steps(w, &whole, 9);
  start(w, &first, MODEL);
  run_steps(w, &first, 4);
  assert_int_equal(anf_step_save(first.s, path, w->d), ANF_OK);
  stop(&first);
  start(w, &second, MODEL);
  assert_int_equal(anf_step_load(second.s, path, w->d), ANF_OK);
  run_steps(w, &second, 5);
  check_same(whole.s, second.s);
  stop(&whole);
  stop(&second);
  unlink(path);
  rmdir(folder);
}

static void not_loaded(world *w, trained *t, const char *path, const char *code) {
  assert_int_not_equal(anf_step_load(t->s, path, w->d), ANF_OK);
  assert_string_equal(anf_diag_at(w->d, 0)->code, code);
  anf_diag_clear(w->d);
}

static void test_other_state(void **state) {
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 32];
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  trained t;
  start(w, &t, MODEL);
  run_steps(w, &t, 1);
  anf_value *p = NULL, *part = NULL, *wrong = NULL;
  assert_int_equal(anf_step_get(t.s, 0, w->d, &p), ANF_OK);
  const char *name = "p";
  part = anf_value_record(w->cx, 1, &name, &p);
  assert_int_equal(anf_save_safetensors(w->cx, part, 0, NULL, path, w->d), ANF_OK);
  not_loaded(w, &t, path, "E1121");
  const char *names[] = {"p.w", "x"};
  wrong = anf_value_record(w->cx, 2, names, (anf_value *[]){anf_value_at(p, 1), p});
  assert_int_equal(anf_save_safetensors(w->cx, wrong, 0, NULL, path, w->d), ANF_OK);
  not_loaded(w, &t, path, "E1122");
  anf_value *text = anf_value_string(w->cx, "a", 1);
  assert_int_not_equal(anf_save_safetensors(w->cx, text, 0, NULL, path, w->d), ANF_OK);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0352");
  anf_diag_clear(w->d);
  run_steps(w, &t, 1); // the state is as it was
  assert_int_equal(anf_step_count(t.s), 2);
  anf_value_release(text);
  anf_value_release(wrong);
  anf_value_release(part);
  anf_value_release(p);
  stop(&t);
  unlink(path);
  rmdir(folder);
}

/* A file may be no longer than some bytes, as if the disk were full: the old checkpoint stays. */
static void test_full_disk(void **state) {
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 32];
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  trained t, again;
  start(w, &t, MODEL);
  run_steps(w, &t, 2);
  assert_int_equal(anf_step_save(t.s, path, w->d), ANF_OK);
  run_steps(w, &t, 1);
  struct rlimit old, little;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  little = old;
  little.rlim_cur = 200;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  anf_status st = anf_step_save(t.s, path, w->d);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_int_equal(st, ANF_IO);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0301");
  anf_diag_clear(w->d);
  start(w, &again, MODEL);
  assert_int_equal(anf_step_load(again.s, path, w->d), ANF_OK);
  assert_int_equal(anf_step_count(again.s), 2);
  run_steps(w, &again, 1);
  check_same(t.s, again.s);
  stop(&t);
  stop(&again);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0); // nothing half written is left
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_read, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_resume, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_state, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
