// SPDX-License-Identifier: Apache-2.0
/* Files of tensors and checkpoints: bytes written out by hand, damaged files, a full disk. */
#define _DEFAULT_SOURCE // setrlimit, mkdtemp
#include "test/unit/program.h"
#include "test/unit/folder.h"
#include "test/unit/trained.h"
#include "frontend/store/zip.h"

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

/* The state goes to the file from where it is. */
static void test_save_takes_no_memory(void **state) {
  static const char large[] = "def step(p: f32[512, 512], o: f32[2], k: key, x: f32[4, 3]) { (p * "
                              "0.5, o, k, {loss = Sum(x)}) }\n";
  enum { STATE = 512 * 512 * 4 };
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 32];
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  trained t;
  start(w, &t, large);
  run_steps(w, &t, 1);
  uint64_t given = w->heap.given;
  assert_int_equal(anf_step_save(t.s, path, w->d), ANF_OK);
  assert_true(w->heap.given - given < STATE / 4);
  stop(&t);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

/* ---- deflate ---- */

/* The same 748 bytes as zlib wrote them: with codes of their own, and with the fixed ones. */
static const unsigned char own[] = {
    0x85, 0x52, 0x31, 0x12, 0x80, 0x20, 0x0c, 0xfb, 0x4a, 0x9e, 0x40, 0x01, 0x41, 0x9e, 0x83, 0x8a,
    0xa3, 0xde, 0xf9, 0xff, 0xc1, 0x41, 0x38, 0x95, 0x02, 0xcd, 0x58, 0xd2, 0xa4, 0x25, 0x4d, 0xa9,
    0x42, 0x3c, 0xf6, 0xf3, 0x8a, 0xb0, 0x1e, 0xab, 0x88, 0xcc, 0x25, 0x6c, 0x15, 0x8a, 0x08, 0x21,
    0x7e, 0xf0, 0x14, 0x45, 0xe1, 0xa2, 0x3a, 0x31, 0xd9, 0x06, 0x32, 0xd9, 0xa1, 0xb3, 0x87, 0xc2,
    0xd2, 0x47, 0x71, 0xf2, 0x10, 0x29, 0x0a, 0xf5, 0x1e, 0x26, 0x30, 0xcf, 0xd6, 0x00, 0x33, 0x96,
    0xce, 0x28, 0xaf, 0x74, 0xdf, 0x57, 0x0f, 0xe7, 0xaf, 0xc8, 0xd6, 0xa0, 0x55, 0xb5, 0xf2, 0x76,
    0xe1, 0x97, 0x53, 0xe4, 0xa1, 0x69, 0x07, 0xde, 0xe5, 0x30, 0xec, 0x21, 0xe1, 0x83, 0x78, 0x54,
    0xc3, 0x67, 0x0b, 0xe1, 0x5e, 0x02, 0x46, 0x17, 0x42, 0x84, 0x1b};
static const unsigned char fixed[] = {
    0x4b, 0x4d, 0x45, 0x03, 0x89, 0x79, 0x69, 0xf9, 0x45, 0x89, 0x0a, 0x26, 0xe6, 0x0a, 0xc9,
    0x04, 0x01, 0x54, 0xad, 0xa1, 0x42, 0x0a, 0x1a, 0x80, 0x19, 0x62, 0xa8, 0x90, 0x88, 0x04,
    0x20, 0x82, 0x04, 0x0d, 0x86, 0x99, 0x6a, 0x8a, 0x61, 0x2c, 0x16, 0x00, 0x55, 0x6c, 0xa6,
    0x80, 0xc3, 0x1f, 0x06, 0x0a, 0x49, 0xb8, 0x01, 0xcc, 0x26, 0x73, 0x05, 0x82, 0x4a, 0x0c,
    0x14, 0xd0, 0xfd, 0x61, 0x6c, 0x89, 0x61, 0x27, 0x36, 0x07, 0x58, 0x28, 0x24, 0xe1, 0x70,
    0x0a, 0xc2, 0x68, 0xdc, 0xf6, 0x1a, 0xe1, 0x75, 0x3f, 0x9a, 0x62, 0x13, 0x63, 0x05, 0x6c,
    0xa2, 0x26, 0x84, 0x7d, 0x67, 0x89, 0x12, 0x4f, 0x89, 0x98, 0x91, 0x66, 0x64, 0xa6, 0x80,
    0xa9, 0xcb, 0x4c, 0x01, 0xaf, 0x1e, 0x43, 0x02, 0x01, 0x84, 0x19, 0x55, 0x78, 0xa5, 0x4d,
    0x14, 0x08, 0xa4, 0x17, 0x4b, 0x05, 0x7c, 0x29, 0xc4, 0xd0, 0x50, 0x01, 0x00};
enum { TEXT = 748 };
static const uint32_t ADLER = UINT32_C(0x625f10da); // of the text

static uint32_t adler(const char *p, size_t n) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < n; i++) a = (a + (unsigned char)p[i]) % 65521, b = (b + a) % 65521;
  return b << 16 | a;
}

/* Cut off anywhere, with any bit changed, or of another size: refused, or other bytes, and never a byte outside. */
static void inflate_damaged(anfi_inflating *z, const unsigned char *data, size_t len) {
  char *out = malloc(TEXT), *bytes = malloc(len);
  size_t changed = 0;
  for (size_t k = 0; k < len; k++) assert_false(anfi_inflate(z, (const char *)data, k, out, TEXT));
  assert_false(anfi_inflate(z, (const char *)data, len, out, TEXT - 1));
  for (size_t k = 0; k < 8 * len; k++) {
    memcpy(bytes, data, len);
    bytes[k / 8] = (char)(bytes[k / 8] ^ 1 << k % 8);
    bool same = anfi_inflate(z, bytes, len, out, TEXT) && adler(out, TEXT) == ADLER;
    changed += !same;
  }
  assert_true(changed > 7 * len); // some bits are padding, or of codes that are not used
  free(out);
  free(bytes);
}

static void inflate_all(anf_ctx *cx) {
  anfi_inflating *z = anfi_inflating_new(anfi_scratch(cx));
  char out[TEXT], stored[TEXT + 5] = {1, (char)(TEXT & 0xff), (char)(TEXT >> 8),
                                      (char)(~TEXT & 0xff), (char)(~TEXT >> 8)};
  assert_true(anfi_inflate(z, (const char *)own, sizeof own, out, TEXT));
  assert_int_equal(adler(out, TEXT), ADLER);
  memcpy(stored + 5, out, TEXT);
  memset(out, 0, TEXT);
  assert_true(anfi_inflate(z, (const char *)fixed, sizeof fixed, out, TEXT));
  assert_int_equal(adler(out, TEXT), ADLER);
  memset(out, 0, TEXT);
  assert_true(anfi_inflate(z, stored, sizeof stored, out, TEXT));
  assert_int_equal(adler(out, TEXT), ADLER);
  inflate_damaged(z, own, sizeof own);
  inflate_damaged(z, fixed, sizeof fixed);
  inflate_damaged(z, (const unsigned char *)stored, sizeof stored);
}

static anf_status inflate_in_frame(anf_ctx *cx) {
  ANFI_ENTRY(cx, NULL);
  inflate_all(cx);
  return anfi_leave(cx);
}

static void test_inflate(void **state) {
  assert_int_equal(inflate_in_frame(((world *)*state)->cx), ANF_OK);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_read, setup, teardown),
      cmocka_unit_test_setup_teardown(test_inflate, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_resume, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_state, setup, teardown),
      cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
      cmocka_unit_test_setup_teardown(test_save_takes_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
