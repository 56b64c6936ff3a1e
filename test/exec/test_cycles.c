// SPDX-License-Identifier: Apache-2.0
/* Programs compiled, run and freed again and again, each another one: memory stays as it is. TAP;
 * test_cycles N: so many cycles. What is kept is bounded by the caches, which are full before it is
 * measured.
 *
 * Programs that have names, fields and shapes of their own get a new context now and then, as a server does that runs for
 * months; the engine stays. test_trim.c has them all in one context. */
#include "anfora/anfora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t resident(void) { // KB
  char row[128];
  size_t kb = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(row, sizeof row, f))
    if (strncmp(row, "VmRSS:", 6) == 0) kb = strtoul(row + 6, NULL, 10);
  if (f) fclose(f);
  return kb;
}

/* x * i + 0.5, a program of its own for each i. */
static bool cycle(anf_ctx *cx, anf_diag *d, int i) {
  char text[96];
  anf_module *m = NULL;
  anf_exec *e = NULL;
  double x = 3.0, y = 0.0;
  anf_value *arg = anf_value_tensor(cx, ANF_F64, 0, NULL, &x), *result = NULL;
  snprintf(text, sizeof text, "def f(x: f64) { x * %d.0 + 0.5 }\n", i);
  anf_status st = anf_parse(cx, text, "cycle.anf", d, &m);
  anf_exec_opts o = {.size = sizeof o};
  if (st == ANF_OK) st = anf_compile(anf_module_find(m, "f"), &o, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &arg, NULL, d, &result);
  if (st == ANF_OK) memcpy(&y, anf_value_data(result), sizeof y);
  anf_value_release(result);
  anf_value_release(arg);
  anf_exec_free(e);
  anf_module_free(m);
  return st == ANF_OK && y == 3.0 * i + 0.5;
}

enum { RENEW = 50 }; // programs of one context

/* A program with names and a shape of its own, in the contexts' common engine. */
static bool named_cycle(anf_ctx *cx, anf_jit_engine *engine, int i) {
  char text[200], name[32];
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_value *arg, *result = NULL;
  int64_t dim = i % 1000 + 1;
  snprintf(name, sizeof name, "g%d", i);
  snprintf(text, sizeof text, "def %s(v%d: f64[%d]) { r%d = {a%d = Sum(v%d) + %d.0}; r%d.a%d }\n",
           name, i, (int)dim, i, i, i, i, i, i);
  anf_exec_opts o = {.size = sizeof o, .engine = engine};
  anf_status st = anf_parse(cx, text, "named.anf", NULL, &m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(m, name), &o, NULL, &e);
  arg = anf_value_tensor(cx, ANF_F64, 1, &dim, NULL);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &arg, NULL, NULL, &result);
  bool good = st == ANF_OK && anf_value_get_f64(result, 0) == i;
  if (!good) printf("# %s", text), anf_diag_print(anf_ctx_diag(cx), stdout, false);
  anf_value_release(result);
  anf_value_release(arg);
  anf_exec_free(e);
  anf_module_free(m);
  return good;
}

static void named_cycles(int n) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *engine = NULL;
  anf_jit_opts o = {.size = sizeof o, .level = ANF_JIT_O0};
  size_t kb = 0;
  int good = 0;
  if (anf_jit_engine_new(cx, ANF_JIT_LLVM, &o, NULL, &engine) != ANF_OK) n = 0;
  for (int i = 0; i < n; i++) {
    if (i % RENEW == 0) anf_ctx_free(cx), cx = anf_ctx_new(NULL);
    good += named_cycle(cx, engine, i);
    if (i == n / 2) kb = resident();
  }
  size_t now = resident();
  printf("%sok 4 - %d of %d programs with names of their own\n", n && good == n ? "" : "not ", good,
         n);
  printf("%sok 5 - resident memory: %zu KB, %zu in the middle\n",
         now <= kb + kb / 100 + 256 ? "" : "not ", now, kb);
  anf_jit_engine_free(engine);
  anf_ctx_free(cx);
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 300, good = 0;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  size_t bytes = 0, kb = 0;
  for (int i = 0; i < n; i++) {
    good += cycle(cx, d, i);
    if (i != n / 2) continue;
    bytes = anf_ctx_bytes(cx);
    kb = resident();
  }
  size_t bytes_now = anf_ctx_bytes(cx), kb_now = resident();
  printf("1..5\n%sok 1 - %d of %d programs give their value\n", good == n ? "" : "not ", good, n);
  printf("%sok 2 - bytes of the context: %zu, %zu in the middle\n",
         bytes_now <= bytes + bytes / 100 ? "" : "not ", bytes_now, bytes);
  printf("%sok 3 - resident memory: %zu KB, %zu in the middle\n",
         kb_now <= kb + kb / 100 + 256 ? "" : "not ", kb_now, kb);
  if (anf_diag_count(d)) anf_diag_print(d, stderr, false);
  anf_diag_free(d);
  anf_ctx_free(cx);
  named_cycles(n);
  return 0;
}
