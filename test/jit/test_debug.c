// SPDX-License-Identifier: Apache-2.0
/* What gdb and perf are told of code that an engine with the option `debug` made: looked up where they
 * look it up. gdb reads the list that __jit_debug_descriptor begins, of objects in memory; perf
 * inject reads a file that begins with JiTD. Both must name functions and lines of the program, and
 * the list must shrink when code goes. */
#define _GNU_SOURCE // memmem, nftw
#include <dlfcn.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"
#include "anfora/jit.h"
#include "test/unit/folder.h"

/* The interface of gdb, as its manual has it. */
typedef struct jit_entry {
  struct jit_entry *next, *prev;
  const char *file;
  uint64_t size;
} jit_entry;
typedef struct jit_descriptor {
  uint32_t version, action;
  jit_entry *relevant, *first;
} jit_descriptor;

static const char program[] = "def told_to_debuggers(n: i64) -> i64 {\n"
                              "  if n < 2 { n } else { told_to_debuggers(n - 1) + n }\n"
                              "}\n";
static const char name[] = "told_to_debuggers", file[] = "told.anf";

static bool has(const char *p, size_t n, const char *what) {
  return memmem(p, n, what, strlen(what)) != NULL;
}

static const jit_descriptor *descriptor(void) {
  void *lib = dlopen("libLLVM.so.19.1", RTLD_NOW | RTLD_NOLOAD);
  if (!lib) lib = dlopen("libLLVM-19.so.1", RTLD_NOW | RTLD_NOLOAD);
  return lib ? (const jit_descriptor *)dlsym(lib, "__jit_debug_descriptor") : NULL;
}

static size_t objects_that_tell(void) {
  size_t n = 0;
  const jit_descriptor *d = descriptor();
  assert_non_null(d);
  assert_int_equal(d->version, 1);
  for (const jit_entry *e = d->first; e; e = e->next) {
    assert_memory_equal(e->file, "\177ELF", 4);
    n += has(e->file, e->size, name) && has(e->file, e->size, file) &&
         has(e->file, e->size, ".debug_line");
  }
  return n;
}

/* ---- the files of perf ---- */

static size_t dumps;

static int see_dump(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)at;
  if (type != FTW_F || !strstr(path, ".dump")) return 0;
  FILE *f = fopen(path, "rb");
  char *text = (char *)malloc((size_t)st->st_size + 1);
  size_t n = f && text ? fread(text, 1, (size_t)st->st_size, f) : 0;
  bool head = n > 4 && (memcmp(text, "JiTD", 4) == 0 || memcmp(text, "DTiJ", 4) == 0);
  if (head && has(text, n, name) && has(text, n, file)) dumps++;
  free(text);
  if (f) fclose(f);
  return 0;
}

static int remove_it(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st, (void)type, (void)at;
  return remove(path);
}

static void told(void **state) {
  (void)state;
  char dir[TEST_PATH];
  assert_true(test_folder(dir));
  assert_int_equal(setenv("JITDUMPDIR", dir, 1), 0); // read when LLVM makes its first listener
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_module *m = NULL;
  anf_jit_engine *e = NULL;
  anf_exec *x = NULL;
  anf_jit_opts jo = {.size = sizeof jo, .debug = true};
  assert_int_equal(anf_parse(cx, program, file, NULL, &m), ANF_OK);
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, &jo, NULL, &e), ANF_OK);
  anf_exec_opts o = {.size = sizeof o, .engine = e};
  assert_int_equal(anf_compile(anf_module_find(m, name), &o, NULL, &x), ANF_OK);
  int64_t (*f)(int64_t) = NULL;
  void *p = anf_exec_pointer(x);
  memcpy(&f, &p, sizeof f);
  assert_int_equal(f(10), 55);
  assert_int_equal(objects_that_tell(), 1);
  assert_int_equal(nftw(dir, see_dump, 8, FTW_PHYS), 0);
  assert_int_equal(dumps, 1);
  anf_exec_free(x);
  assert_int_equal(objects_that_tell(), 0);
  anf_jit_engine_free(e);
  anf_module_free(m);
  anf_ctx_free(cx);
  assert_int_equal(nftw(dir, remove_it, 8, FTW_PHYS | FTW_DEPTH), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(told)};
  return cmocka_run_group_tests_name("jit-debug", tests, NULL, NULL);
}
