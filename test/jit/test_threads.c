// SPDX-License-Identifier: Apache-2.0
/* Threads: one engine, its caches in memory and on disk, one function and one program with parallel
 * loops are used by several threads at once, each with a context and a stream of its own, while
 * others compile the same. Built with the thread sanitizer this finds races; it checks results too. */
#define _DEFAULT_SOURCE // mkdtemp
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "anfora/exec.h"
#include "anfora/jit.h"
#include "anfora/rt_abi.h"
#include "anfora/tir.h"
#include "anfora/rt.h"
#include "test/unit/folder.h"

enum { THREADS = 4, TURNS = 5, PROGRAMS = 3, N = 64 };

typedef struct worker {
  anf_jit_engine *e;
  anf_jit_module *shared; // of fib, count and fill
  int id;
  bool good;
} worker;

/* count gives how often it was called: of an instance, and so of a thread. */
static const char shared_text[] =
    "private tensor T: [s64 * 1] = {0s64}\n"
    "func fib(n: s64): s64 {\n  if (n < 2s64) {\n    return n\n  }\n"
    "  return (fib((n - 1s64)) + fib((n - 2s64)))\n}\n"
    "func count(x: s64): s64 {\n  T[0] = (T[0] + 1s64)\n  return T[0]\n}\n"
    "func fill(A: [s64 * 64], d: s64): void {\n"
    "  for i in (0, 64, 1) parallel {\n    A[i] = (s64(i) / d)\n  }\n}\n";

static anf_jit_module *compiled(anf_ctx *cx, anf_jit_engine *e, const char *text) {
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *t = NULL;
  anf_jit_module *m = NULL;
  anf_status st = anf_tir_parse(cx, text, strlen(text), "test", d, &t);
  if (st == ANF_OK) st = anf_jit_make_module(e, t, d, &m);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  anf_tir_module_free(t);
  anf_diag_free(d);
  return m;
}

static int64_t called(anf_jit_module *m, anf_stream *s, const char *name, int64_t x) {
  anf_jit_function *f = m ? anf_jit_get_function(m, name) : NULL;
  anf_generic args[2] = {{.s64 = x}};
  anf_status st = f ? anf_jit_call_generic(f, s, args) : ANF_INVALID;
  anf_jit_function_free(f);
  return st == ANF_OK ? args[1].s64 : -1;
}

/* The same few programs by all: made once, found in memory or on disk by the others. */
static bool compiles(worker *w, anf_ctx *cx, int turn) {
  char text[200];
  int k = (turn + w->id) % PROGRAMS + 2;
  snprintf(text, sizeof text, "func f(x: s64): s64 {\n  return (x * %ds64)\n}\n", k);
  anf_jit_module *m = compiled(cx, w->e, text);
  bool good = called(m, NULL, "f", 10) == 10 * k;
  anf_jit_module_free(m);
  return good;
}

static bool fills(worker *w, anf_stream *s, int64_t d) {
  int64_t a[N] = {0};
  anf_jit_function *f = anf_jit_get_function(w->shared, "fill");
  anf_generic args[3] = {{.ptr = a}, {.s64 = d}};
  bool good = f && anf_jit_call_generic(f, s, args) == (d ? ANF_OK : ANF_INVALID);
  for (int i = 0; i < N && good && d; i++) good = a[i] == i / d;
  if (!d) good &= anf_stream_trap(s)->kind == ANF_TRAP_DIVISION;
  anf_jit_function_free(f);
  return good;
}

static void *work(void *arg) {
  worker *w = (worker *)arg;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_stream_opts o = {.size = sizeof o, .threads = 2};
  anf_stream *s = anf_stream_new(&o);
  anf_jit_module *mine = NULL;
  w->good = cx && s && anf_jit_module_instance(w->shared, &mine) == ANF_OK;
  for (int turn = 0; turn < TURNS && w->good; turn++) {
    w->good &= compiles(w, cx, turn);
    w->good &= called(w->shared, s, "fib", 12) == 144;
    w->good &= called(mine, s, "count", 0) == turn + 1;
    w->good &= fills(w, s, turn % 3);
  }
  anf_jit_module_free(mine);
  anf_stream_free(s);
  anf_ctx_free(cx);
  return NULL;
}

static void run(anf_jit_kind kind, const char *dir) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *e = NULL;
  anf_jit_opts o = {.size = sizeof o, .cache_dir = dir};
  assert_int_equal(anf_jit_engine_new(cx, kind, &o, NULL, &e), ANF_OK);
  anf_jit_module *m = compiled(cx, e, shared_text);
  assert_non_null(m);
  pthread_t t[THREADS];
  worker w[THREADS];
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){e, m, i, false};
    assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  anf_jit_module_free(m);
  anf_jit_engine_free(e);
  for (int i = 0; i < THREADS; i++) assert_true(w[i].good);
  if (dir) assert_int_equal(anf_jit_cache_clear(cx, dir, NULL), ANF_OK);
  anf_ctx_free(cx);
}

static void llvm_cached(void **state) {
  (void)state;
  char dir[TEST_PATH];
  assert_true(test_folder(dir));
  run(ANF_JIT_LLVM, dir);
  assert_int_equal(rmdir(dir), 0);
}

static void interp(void **state) {
  (void)state;
  run(ANF_JIT_INTERP, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(llvm_cached), cmocka_unit_test(interp)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
