// SPDX-License-Identifier: Apache-2.0
/* Two threads, each with a context of its own: nothing is shared, so nothing is locked.
 * prints: 6765 6765 */
#include <anfora/anfora.h>
#include <pthread.h>

static const char program[] =
    "def fib(n: i64) -> i64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }";

static void *work(void *result) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_value *n = anf_value_i64(cx, 20), *r = NULL;
  anf_status st = anf_parse(cx, program, "threads.c", d, &m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(m, "fib"), NULL, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &n, NULL, d, &r);
  *(int64_t *)result = anf_value_get_i64(r, 0); // 0 if r is NULL
  anf_diag_print(d, stderr, false);
  anf_value_release(r), anf_value_release(n);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return NULL;
}

int main(void) {
  pthread_t other;
  int64_t r[2] = {0, 0};
  if (pthread_create(&other, NULL, work, &r[1])) return 1;
  work(&r[0]);
  pthread_join(other, NULL);
  printf("%lld %lld\n", (long long)r[0], (long long)r[1]);
  return r[0] != r[1];
}
