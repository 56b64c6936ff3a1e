// SPDX-License-Identifier: Apache-2.0
/* Programs on several ranks, threads of this process: each has a context of its own. Threads report, the test's own
 * thread asserts. */
#ifndef ANF_TEST_RANKS_H
#define ANF_TEST_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"

enum { MAX_RANKS = 8 };
enum { BY_INTERP, BY_TIR, BY_LLVM, BY_CJIT, ENGINES };

typedef struct rank {
  anf_comm *comm;
  int32_t me, ranks;
  void (*work)(struct rank *r);
  const void *user;
  /* what it reports */
  anf_status status;
  char code[16], message[300];
  double *out;
  size_t nout;
  pthread_t thread;
} rank;

static inline size_t elements(const anf_array *a) {
  size_t n = 1;
  for (size_t k = 0; k < a->rank; k++) n *= (size_t)a->dims[k];
  return n;
}

static inline void *rank_thread(void *p) {
  rank *r = (rank *)p;
  r->work(r);
  return NULL;
}

/* One thread for each communicator. */
static inline void run_ranks_on(int32_t n, anf_comm **comm, void (*work)(rank *), const void *user,
                                rank *r) {
  for (int32_t i = 0; i < n; i++) {
    r[i] = (rank){.comm = comm[i], .me = i, .ranks = n, .work = work, .user = user};
    assert_int_equal(pthread_create(&r[i].thread, NULL, rank_thread, &r[i]), 0);
  }
  for (int32_t i = 0; i < n; i++) pthread_join(r[i].thread, NULL);
}

static inline void run_ranks(int32_t n, const anf_comm_opts *o, void (*work)(rank *),
                             const void *user, rank *r) {
  anf_comm *comm[MAX_RANKS];
  assert_true(anf_comm_threads(n, o, comm));
  run_ranks_on(n, comm, work, user, r);
  for (int32_t i = 0; i < n; i++) anf_comm_free(comm[i]);
}

/* Takes the findings and the status of what a rank did. */
static inline void report(rank *r, anf_status st, const anf_diag *d) {
  r->status = st;
  if (st == ANF_OK || !anf_diag_count(d)) return;
  snprintf(r->code, sizeof r->code, "%s", anf_diag_at(d, 0)->code);
  snprintf(r->message, sizeof r->message, "%s", anf_diag_at(d, 0)->message);
}

static inline void all_fine(int32_t n, const rank *r) {
  for (int32_t i = 0; i < n; i++)
    if (r[i].status != ANF_OK) fail_msg("rank %d: %s %s", (int)i, r[i].code, r[i].message);
}

static inline void free_outs(int32_t n, rank *r) {
  for (int32_t i = 0; i < n; i++) free(r[i].out);
}

/* Calls `f` of a program on arguments, by one of the engines; its result, f64s, is r->out. */
static inline void call_program(rank *r, const char *text, int engine, size_t nin,
                                const size_t *rows, const size_t *len, const double *const *in) {
  static const anf_jit_kind kind[ENGINES] = {
      [BY_TIR] = ANF_JIT_INTERP, [BY_LLVM] = ANF_JIT_LLVM, [BY_CJIT] = ANF_JIT_CJIT};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_value *arg[4] = {NULL}, *v = NULL;
  anf_exec *e = NULL;
  anf_ctx_set_comm(cx, r->comm);
  anf_status st = anf_parse(cx, text, "ranks.anf", d, &m);
  for (size_t i = 0; i < nin; i++) {
    int64_t dims[2] = {(int64_t)rows[i], (int64_t)len[i]};
    arg[i] = rows[i] ? anf_value_tensor(cx, ANF_F64, 2, dims, in[i])
                     : anf_value_tensor(cx, ANF_F64, 1, dims + 1, in[i]);
  }
  anf_graph *f = st == ANF_OK ? anf_module_find(m, "f") : NULL;
  if (st == ANF_OK && engine == BY_INTERP) st = anf_run(f, nin, arg, NULL, d, &v);
  else if (st == ANF_OK) {
    anf_exec_opts o = {.size = sizeof o, .kind = kind[engine]};
    st = anf_compile(f, &o, d, &e);
    if (st == ANF_OK) st = anf_exec_run(e, nin, arg, NULL, d, &v);
  }
  report(r, st, d);
  if (v) {
    r->nout = anf_value_elements(v);
    r->out = (double *)malloc((r->nout + 1) * sizeof(double));
    for (size_t i = 0; i < r->nout; i++) r->out[i] = anf_value_get_f64(v, i);
  }
  anf_value_release(v);
  for (size_t i = 0; i < nin; i++) anf_value_release(arg[i]);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

#endif
