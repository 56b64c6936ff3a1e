// SPDX-License-Identifier: Apache-2.0
/* tensor_inplace: in-place calls: an output of a call shares the buffer of an input that dies there.
 *
 *   tensor B: [f32 * 4]          →     tensor B: [f32 * 4] = &A[0UL]
 *   neg(A, B)                          neg(A, B)
 *
 * The callee permits it by inplace_hint = 256 * output + input. A and B are local tensors of one scope; nothing
 * uses A after the call, and nothing uses B before it. */
#include "backend/tir/tir.h"

typedef struct use { // of a tensor defined in the current sequence, by statements of it
  uint32_t defined, first, last, views;
  tstmt define;
} use;

typedef struct user {
  tpass_cx *p;
  anfi_map uses;
  uint32_t at;
  anfi_map into; // tensor → tensor whose buffer it takes
} user;

static bool see(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  uint64_t *at = e->kind == TX_tensor ? anfi_map_find(&u->uses, anfi_key(e)) : NULL;
  if (!at) return true;
  use *x = (use *)(uintptr_t)*at;
  if (x->first == UINT32_MAX) x->first = u->at;
  x->last = u->at;
  return true;
}
static bool see_view(tviewer *v, tstmt s) { // a view lives on: nothing is known of its uses
  user *u = (user *)v->user;
  texpr init = s->kind == TS_define && s->e[0]->kind == TX_tensor ? s->e[1] : NULL;
  texpr of = init && init->kind == TX_tensorptr ? init->in[0] : init;
  uint64_t *at = of && of->kind == TX_tensor ? anfi_map_find(&u->uses, anfi_key(of)) : NULL;
  if (at) ((use *)(uintptr_t)*at)->views++;
  return true;
}

static use *use_of(user *u, texpr t) {
  uint64_t *at = t->kind == TX_tensor ? anfi_map_find(&u->uses, anfi_key(t)) : NULL;
  return at ? (use *)(uintptr_t)*at : NULL;
}

static bool same_size(texpr a, texpr b) {
  uint64_t x, y;
  return anfi_t_same(a->dtype, b->dtype) && a->sub == b->sub && anfi_t_const_elems(a, &x) &&
         anfi_t_const_elems(b, &y) && x == y;
}

static void consider(user *u, tstmt s, uint32_t at) {
  int64_t hint;
  texpr call = s->kind == TS_evaluate && s->e[0]->kind == TX_call ? s->e[0] : NULL;
  tfunc f = call ? anfi_t_mod_find(u->p->m, call->u.name) : NULL;
  if (!f || !anfi_t_attr(f->attrs, TA_inplace_hint, &hint) || hint < 0) return;
  uint32_t out = (uint32_t)(hint >> 8), in = (uint32_t)(hint & 255);
  if (out >= call->nidx || in >= call->nidx || out == in) return;
  texpr b = call->in[out], a = call->in[in];
  use *ub = use_of(u, b), *ua = use_of(u, a);
  if (!ua || !ub || a == b || ua->views || ub->views || !same_size(a, b)) return;
  if (ua->last != at || ub->first != at || ua->defined > ub->defined || ub->define->e[1] ||
      ua->define->e[1])
    return;
  for (uint32_t i = 0; i < call->nidx; i++)
    if (i != in && i != out && (anfi_t_uses(call->in[i], a) || anfi_t_uses(call->in[i], b))) return;
  if (anfi_map_find(&u->into, anfi_key(a)) || anfi_map_find(&u->into, anfi_key(b))) return;
  *anfi_map_at(&u->into, anfi_key(b)) = anfi_key(a);
  ua->views = ub->views = 1; // a buffer is shared once
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_stmts) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->s[i]->kind != TS_define || s->s[i]->e[0]->kind != TX_tensor) continue;
    use *x = ANFI_NEW(v->scratch, use);
    *x = (use){i, UINT32_MAX, 0, 0, s->s[i]};
    *anfi_map_at(&u->uses, anfi_key(s->s[i]->e[0])) = anfi_key(x);
  }
  tviewer see_all = {.user = u, .enter_expr = see, .enter_stmt = see_view};
  for (u->at = 0; u->at < s->n; u->at++) anfi_t_view_stmt(&see_all, s->s[u->at]);
  for (uint32_t i = 0; i < s->n; i++) consider(u, s->s[i], i);
  return s;
}

static tstmt define(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  uint64_t *at = s->kind == TS_define ? anfi_map_find(&u->into, anfi_key(s->e[0])) : NULL;
  if (!at) return s;
  texpr a = (texpr)(uintptr_t)*at, *zero = ANFI_NEW_N(v->scratch, texpr, a->nidx);
  for (uint32_t i = 0; i < a->nidx; i++) zero[i] = anfi_t_index(v->t, 0);
  return anfi_t_define(v->t, TL_local, s->e[0], anfi_t_addr(v->t, a, a->nidx, zero));
}

const tmod *anfi_t_pass_tensor_inplace(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    user u = {.p = p};
    tvisitor v;
    anfi_map_init(&u.uses, p->scratch);
    anfi_map_init(&u.into, p->scratch);
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    v.stmt = define;
    anfi_t_mod_add(o, m->func.at[i]->body ? anfi_t_visit_func(&v, m->func.at[i]) : m->func.at[i]);
  }
  return o;
}
