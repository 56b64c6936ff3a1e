// SPDX-License-Identifier: Apache-2.0
/* Calls of compiled functions on values: f(2, 3) of s32   ->   slots {2, 3, result}   ->   the value 5 of f = a + b.
 * Tensors are passed by address, vectors as arrays of their lanes. */
#include "backend/jit/jit.h"

typedef struct user {
  const anf_jit_function *f;
  anf_stream *s;
} user;

static bool call(anf_ctx *cx, void *arg, size_t n, const anf_tir_arg *in, anf_tir_arg *r) {
  const user *u = (const user *)arg;
  const anfi_jit_entry *e = u->f->entry;
  anf_generic *slot = ANFI_NEW_N(anfi_scratch(cx), anf_generic, n + 1);
  if (e->n != n) return anfi_fail(cx, anfi_nowhere(), ANF_E0855, e->name, e->name);
  for (size_t i = 0; i < n; i++) {
    bool address = e->param[i].ptr || anfi_t_total(e->param[i]) != 1;
    if (address) slot[i].ptr = in[i].data;
    else slot[i].bits = anfi_t_is_elem(e->param[i], ANF_TIR_bool) ? in[i].v.b : in[i].v.bits;
  }
  if (anfi_t_total(e->ret) != 1)
    slot[n].ptr = anfi_zalloc(anfi_scratch(cx), anfi_t_total(e->ret) * anfi_t_bytes(e->ret));
  anf_status st = anf_jit_call_generic(u->f, u->s, slot);
  if (st == ANF_OK && anfi_t_total(e->ret) == 1) r->v.bits = slot[n].bits;
  if (st == ANF_OK && anfi_t_total(e->ret) != 1) // as a value of a vector its first lane counts
    memcpy(&r->v, slot[n].ptr, anfi_t_bytes(e->ret));
  if (st != ANF_OK) anfi_jit_report(cx, u->f, u->s);
  return st == ANF_OK;
}

static void call_values(anf_ctx *cx, const anf_tir_module *m, user u, size_t n,
                        anf_value *const *args, anf_value **result, anf_value **outs) {
  anfi_t_call_values(cx, anf_tir_find(m, u.f->entry->name), n, args, call, &u, result, outs);
}

anf_status anf_jit_call_values(const anf_jit_function *f, const anf_tir_module *m, anf_stream *s,
                               size_t n, anf_value *const *args, anf_diag *d, anf_value **result,
                               anf_value **outs) {
  ANFI_NEED(d, f, m, result);
  if (n) ANFI_NEED(d, args);
  *result = NULL;
  for (size_t i = 0; outs && i < n; i++) outs[i] = NULL;
  ANFI_ENTRY(m->t->cx, d);
  call_values(m->t->cx, m, (user){f, s}, n, args, result, outs);
  return anfi_leave(m->t->cx);
}
