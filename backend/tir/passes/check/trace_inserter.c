// SPDX-License-Identifier: Apache-2.0
/* trace_inserter: tracing of functions: calls the tracer at entry (0) and before every return (1).
 *
 *   return n * 2    →     evaluate{anf_rt_trace(0s64, 0)}           0s64: the function's index in the module
 *                         var result: s32 = (n * 2)
 *                         evaluate{anf_rt_trace(0s64, 1)}
 *                         return result */
#include "backend/tir/tir.h"

typedef struct user {
  int64_t id;
  tfunc f;
} user;

static tstmt trace(tstore *t, int64_t id, int32_t leaves) {
  texpr in[] = {anfi_t_int(t, anfi_t_dt(ANF_TIR_s64), id), anfi_t_s32(t, leaves)};
  return anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_trace, 2, in));
}

/* The result is computed before the function counts as left. */
static tstmt at_return(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_returns) return s;
  tstmt out[3];
  uint32_t n = 0;
  texpr result = s->e[0];
  if (result && result->kind != TX_constant && result->kind != TX_var) {
    texpr r = anfi_t_var(v->t, u->f->ret, "result");
    out[n++] = anfi_t_define(v->t, TL_local, r, result);
    result = r;
  }
  out[n++] = trace(v->t, u->id, 1);
  out[n++] = result == s->e[0] ? s : anfi_t_return(v->t, result);
  return anfi_t_splice(v->t, n, out);
}

const tmod *anfi_t_pass_trace_inserter(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    if (!f->body || anfi_t_attr(f->attrs, TA_skip_trace, NULL)) {
      anfi_t_mod_add(o, f);
      continue;
    }
    user u = {(int64_t)i, f};
    tvisitor v;
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.stmt = at_return;
    tstmt body = anfi_t_visit_stmt(&v, f->body);
    tstmt out[] = {trace(p->t, (int64_t)i, 0), anfi_t_splice(p->t, body->n, body->s),
                   trace(p->t, (int64_t)i, 1)};
    bool returns = body->n && body->s[body->n - 1]->kind == TS_returns;
    f = anfi_t_func_without(p->t, f, TA_pure); // a trace is an effect
    anfi_t_mod_add(o, anfi_t_with_body(p->t, f, anfi_t_stmts(p->t, returns ? 2 : 3, out)));
  }
  anfi_t_declare_rt(o);
  return o;
}
