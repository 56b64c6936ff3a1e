// SPDX-License-Identifier: Apache-2.0
/* tensor_inplace: in-place calls: an output of a call shares the buffer of an input that dies there.
 *
 *   tensor B: [f32 * 4]          →     tensor B: [f32 * 4] = &A[0UL]
 *   neg(A, B)                          neg(A, B)
 *
 * The callee permits it by inplace_hint = 256 * output + input. A and B are local tensors of one scope; nothing
 * uses A after the call, and nothing uses B before it. */
#include "takeover.h"

typedef struct user {
  tpass_cx *p;
  takeovers t;
} user;

/* A view of one tensor may not become a view of the other's type or dims. */
static bool same_type(texpr a, texpr b) {
  return anfi_t_same(a->dtype, b->dtype) && a->sub == b->sub;
}

static void consider(user *u, tstmt s, uint32_t at) {
  int64_t hint;
  texpr call = s->kind == TS_evaluate && s->e[0]->kind == TX_call ? s->e[0] : NULL;
  tfunc f = call ? anfi_t_mod_find(u->p->m, call->u.name) : NULL;
  if (!f || !anfi_t_attr(f->attrs, TA_inplace_hint, &hint) || hint < 0) return;
  uint32_t out = (uint32_t)(hint >> 8), in = (uint32_t)(hint & 255);
  if (out >= call->nidx || in >= call->nidx || out == in) return;
  texpr b = call->in[out], a = call->in[in];
  if (!same_type(a, b)) return;
  for (uint32_t i = 0; i < call->nidx; i++)
    if (i != in && i != out && (anfi_t_uses(call->in[i], a) || anfi_t_uses(call->in[i], b))) return;
  anfi_t_take_over(&u->t, a, b, at, 0);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_stmts || !anfi_t_takeovers_read(&u->t, v->scratch, s)) return s;
  for (uint32_t i = 0; i < s->n; i++) consider(u, s->s[i], i);
  return s;
}

static tstmt define(tvisitor *v, tstmt s) { return anfi_t_taken(&((user *)v->user)->t, v, s); }

const tmod *anfi_t_pass_tensor_inplace(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    user u = {.p = p};
    tvisitor v;
    anfi_t_takeovers_init(&u.t, p->scratch);
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    v.stmt = define;
    anfi_t_mod_add(o, m->func.at[i]->body ? anfi_t_visit_func(&v, m->func.at[i]) : m->func.at[i]);
  }
  return o;
}
