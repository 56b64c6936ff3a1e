// SPDX-License-Identifier: Apache-2.0
/* The engine cjit: its files, flags, host functions, and what it says when something is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "anfora/build.h"
#include "anfora/jit.h"
#include "anfora/rt_abi.h"
#include "anfora/tir.h"

#include <string.h>

static const char square[] = "func host_add(a: s32, b: s32): s32\n"
                             "func square(x: s32): s32 {\n"
                             "  return host_add((x * x), (10 / x))\n}\n";

static int32_t host_add(int32_t a, int32_t b) { return a + b; }

typedef struct fixture {
  anf_ctx *cx;
  anf_diag *d;
  anf_tir_module *m;
  anf_jit_engine *e;
} fixture;

static anf_status open_engine(fixture *f, const char *text, const anf_jit_opts *o) {
  *f = (fixture){.cx = anf_ctx_new(NULL)};
  f->d = anf_diag_new(f->cx);
  assert_int_equal(anf_tir_parse(f->cx, text, strlen(text), "t.tir", f->d, &f->m), ANF_OK);
  return anf_jit_engine_new(f->cx, ANF_JIT_CJIT, o, f->d, &f->e);
}
static void close_engine(fixture *f) {
  anf_jit_engine_free(f->e);
  anf_tir_module_free(f->m);
  anf_diag_free(f->d);
  anf_ctx_free(f->cx);
}
static const char *code(const fixture *f) {
  return anf_diag_count(f->d) ? anf_diag_at(f->d, 0)->code : "";
}

/* 7 * 7 + 10 / 7 = 50; the host's function is called; by 0 the call stops. */
static void calls_host_functions(void **state) {
  (void)state;
  fixture f;
  anf_jit_opts o = {.size = sizeof o, .level = ANF_JIT_O0};
  anf_jit_module *jm = NULL;
  assert_int_equal(open_engine(&f, square, &o), ANF_OK);
  assert_int_equal(anf_jit_make_module(f.e, f.m, f.d, &jm), ANF_INVALID);
  assert_string_equal(code(&f), "E0914");
  assert_int_equal(anf_jit_engine_define(f.e, "host_add", (void (*)(void))host_add), ANF_OK);
  assert_int_equal(anf_jit_make_module(f.e, f.m, f.d, &jm), ANF_OK);
  assert_int_equal(anf_jit_module_temp_count(jm), 0);
  anf_jit_function *fn = anf_jit_get_function(jm, "square");
  anf_generic args[2] = {{.s32 = 7}};
  assert_int_equal(anf_jit_call_generic(fn, NULL, args), ANF_OK);
  assert_int_equal(args[1].s32, 50);
  int32_t (*natural)(int32_t) = NULL;
  void *p = anf_jit_get_function_pointer(fn);
  memcpy(&natural, &p, sizeof p);
  assert_int_equal(natural(5), 27);
  args[0].s32 = 0;
  assert_int_equal(anf_jit_call_generic(fn, NULL, args), ANF_INVALID);
  assert_int_equal(anf_stream_trap(anf_stream_of_thread())->line, 3);
  anf_jit_function_free(fn);
  anf_jit_module_free(jm);
  close_engine(&f);
}

static void lists_files_for_debugging(void **state) {
  (void)state;
  fixture f;
  struct stat st;
  anf_jit_opts o = {.size = sizeof o, .level = ANF_JIT_O0, .debug = true};
  anf_jit_module *jm = NULL;
  assert_int_equal(open_engine(&f, "func f(x: s32): s32 {\n  return (x + 1)\n}\n", &o), ANF_OK);
  assert_int_equal(anf_jit_make_module(f.e, f.m, f.d, &jm), ANF_OK);
  assert_int_equal(anf_jit_module_temp_count(jm), 2);
  char dir[512];
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(stat(anf_jit_module_temp(jm, i), &st), 0);
    snprintf(dir, sizeof dir, "%s", anf_jit_module_temp(jm, i));
    unlink(dir);
  }
  *strrchr(dir, '/') = 0;
  strcat(dir, "/messages.txt");
  unlink(dir);
  *strrchr(dir, '/') = 0;
  assert_int_equal(rmdir(dir), 0);
  anf_jit_module_free(jm);
  close_engine(&f);
}

static void says_what_is_wrong(void **state) {
  (void)state;
  fixture f;
  anf_jit_module *jm = NULL;
  anf_jit_opts none = {.size = sizeof none, .cc = "/no/such/compiler"};
  assert_int_equal(open_engine(&f, square, &none), ANF_UNSUPPORTED);
  assert_string_equal(code(&f), "E0941");
  close_engine(&f);

  anf_jit_opts flag = {.size = sizeof flag, .cc = "cc -fno-such-flag-at-all"};
  assert_int_equal(open_engine(&f, "func f(): s32 {\n  return 1\n}\n", &flag), ANF_OK);
  assert_int_equal(anf_jit_make_module(f.e, f.m, f.d, &jm), ANF_INTERNAL);
  assert_string_equal(code(&f), "E0942");
  assert_non_null(strstr(anf_diag_at(f.d, 0)->hint, "no-such-flag"));
  close_engine(&f);

  anf_target_machine tm = {.size = sizeof tm, .cpu = "pentium-99"};
  anf_jit_opts cpu = {.size = sizeof cpu, .target = &tm};
  assert_int_equal(open_engine(&f, square, &cpu), ANF_INVALID);
  assert_string_equal(code(&f), "E0943");
  close_engine(&f);
}

/* As source: what C has no form for is said. */
static void prints_source(void **state) {
  (void)state;
  fixture f;
  static const char text[] = "func g(n: index, c: [f32 * 4]): void {\n  tensor t: [f32 * n]\n"
                             "  t[0] = c[0]\n  c[1] = t[0]\n}\n";
  anf_text out = {.text = NULL};
  open_engine(&f, text, NULL);
  out.cx = f.cx;
  assert_int_equal(anf_tir_print_c(f.m, NULL, f.d, &out), ANF_OK);
  assert_non_null(strstr(out.text, "anf_rt_alloc")); // a size that is not constant goes to the heap
  anf_text_free(&out);
  close_engine(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_host_functions), cmocka_unit_test(lists_files_for_debugging),
      cmocka_unit_test(says_what_is_wrong), cmocka_unit_test(prints_source)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
