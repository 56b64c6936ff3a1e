// SPDX-License-Identifier: Apache-2.0
/* index_flattener: tensors of several dims become one-dimensional, with index arithmetic.
 *
 *   A: [f32 * 4 * 5]      →     A: [f32 * 20]
 *   A[i, j]               →     A[i * 5 + j]
 *
 * A tensor that tiles are read from or written to keeps its last dim, since the rows of a tile need it. */
#include "backend/tir/tir.h"

typedef struct flat {
  tpass_cx *p;
  anfi_map tiled;
  anfi_map old; // new tensor → old one, which has the dims
} flat;

static texpr index_of(tstore *t, texpr e) {
  int64_t k;
  if (anfi_t_const_i64(e, &k)) return anfi_t_index(t, (uint64_t)k);
  return anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), e);
}
static texpr times(tstore *t, texpr a, texpr b) {
  int64_t x, y;
  if (anfi_t_const_i64(a, &x) && anfi_t_const_i64(b, &y))
    return anfi_t_index(t, (uint64_t)x * (uint64_t)y);
  if (anfi_t_is_const(a, 1)) return b;
  return anfi_t_is_const(b, 1) ? a : anfi_t_mul(t, a, b);
}
static texpr plus(tstore *t, texpr a, texpr b) {
  int64_t x, y;
  if (anfi_t_const_i64(a, &x) && anfi_t_const_i64(b, &y))
    return anfi_t_index(t, (uint64_t)x + (uint64_t)y);
  if (anfi_t_is_const(a, 0)) return b;
  return anfi_t_is_const(b, 0) ? a : anfi_t_add(t, a, b);
}

static bool tiled(const flat *f, texpr t) { return anfi_map_find(&f->tiled, anfi_key(t)) != NULL; }

/* How many leading dims become one. */
static uint32_t leading(const flat *f, texpr t) {
  if (!tiled(f, t)) return t->nidx;
  return t->nidx <= 2 || anfi_t_has_strides(t) ? 0 : t->nidx - 1;
}

static texpr stride(tstore *t, texpr tensor, uint32_t k, uint32_t n) {
  if (anfi_t_has_strides(tensor)) return index_of(t, tensor->in[tensor->nidx + k]);
  texpr s = anfi_t_index(t, 1);
  for (uint32_t i = n; i-- > k + 1;) s = times(t, index_of(t, tensor->in[i]), s);
  return s;
}

/* Elements from the first to the last: with strides there may be gaps. */
static texpr extent(tstore *t, texpr tensor, uint32_t n) {
  texpr e = anfi_t_index(t, 1);
  if (!anfi_t_has_strides(tensor)) {
    for (uint32_t i = n; i-- > 0;) e = times(t, index_of(t, tensor->in[i]), e);
    return e;
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t d;
    texpr dim = index_of(t, tensor->in[i]);
    texpr less = anfi_t_const_i64(dim, &d) ? anfi_t_index(t, d ? (uint64_t)d - 1 : 0)
                                           : anfi_t_sub(t, dim, anfi_t_index(t, 1));
    e = plus(t, e, times(t, less, stride(t, tensor, i, n)));
  }
  return e;
}

static texpr flat_tensor(flat *f, texpr t, texpr old) {
  uint32_t n = leading(f, old);
  if (!n || (t->nidx == 1 && !anfi_t_has_strides(t))) return t;
  tstore *s = f->p->t;
  texpr dims[2] = {extent(s, t, n), n < t->nidx ? index_of(s, t->in[n]) : NULL};
  texpr r = anfi_t_tensor(s, (anf_tir_elem)t->dtype.elem, t->sub, t->u.name->s, n < t->nidx ? 2 : 1,
                          dims, NULL);
  *anfi_map_at(&f->old, anfi_key(r)) = anfi_key(t);
  return r;
}

static texpr place(tvisitor *v, texpr e) {
  flat *f = (flat *)v->user;
  uint64_t *at = e->kind == TX_indexing || e->kind == TX_tensorptr
                     ? anfi_map_find(&f->old, anfi_key(e->in[0]))
                     : NULL;
  if (!at) return e;
  texpr old = (texpr)(uintptr_t)*at, sum = anfi_t_index(v->t, 0), idx[2];
  uint32_t n = e->in[0]->nidx == 2 ? old->nidx - 1 : old->nidx;
  if (e->nidx != old->nidx) return e; // the validator's to report
  for (uint32_t k = 0; k < n; k++)
    sum = plus(v->t, sum, times(v->t, index_of(v->t, e->in[1 + k]), stride(v->t, old, k, n)));
  idx[0] = sum;
  if (n < old->nidx) idx[1] = index_of(v->t, e->in[1 + n]);
  if (e->kind == TX_tensorptr) return anfi_t_addr(v->t, e->in[0], e->in[0]->nidx, idx);
  return anfi_t_at(v->t, e->in[0], e->in[0]->nidx, idx, e->dtype.lanes, e->dtype.rows,
                   anfi_t_mask(e));
}

static void define(tvisitor *v, texpr t) {
  flat *f = (flat *)v->user;
  if (t->kind != TX_tensor) return;
  texpr *in = ANFI_NEW_N(v->scratch, texpr, t->n), renamed = t;
  bool changed = false;
  for (uint32_t i = 0; i < t->n; i++) {
    in[i] = anfi_t_visit_expr(v, t->in[i]);
    changed |= in[i] != t->in[i];
  }
  if (changed) renamed = anfi_t_remake(v->t, t, in);
  texpr r = flat_tensor(f, renamed, t);
  if (r != t) anfi_t_map_var(v, t, r);
}

static tstmt enter(tvisitor *v, tstmt s) {
  if (s->kind == TS_define) define(v, s->e[0]);
  return s;
}

static bool see_tile(tviewer *v, texpr e) {
  flat *f = (flat *)v->user;
  if (e->kind == TX_indexing && e->dtype.rows) *anfi_map_at(&f->tiled, anfi_key(e->in[0])) = 1;
  return true;
}

const tmod *anfi_t_pass_index_flattener(tpass_cx *p, const tmod *m) {
  flat f = {.p = p};
  anfi_map_init(&f.tiled, p->scratch);
  anfi_map_init(&f.old, p->scratch);
  tviewer see = {.user = &f, .enter_expr = see_tile};
  tfunc *in = ANFI_NEW_N(p->scratch, tfunc, m->func.n); // settling renames tensors: see tiles after
  for (size_t i = 0; i < m->func.n; i++) {
    in[i] = anfi_t_settle_dims(p->t, p->scratch, m->func.at[i]);
    if (in[i]->body) anfi_t_view_stmt(&see, in[i]->body);
  }
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &f);
  v.expr = place;
  v.enter = enter;
  tmod *o = anfi_t_mod_like(m);
  o->global.n = 0;
  o->global.at = NULL;
  o->global.cap = 0;
  for (size_t i = 0; i < m->global.n; i++) {
    tstmt g = m->global.at[i];
    define(&v, g->e[0]);
    texpr now = anfi_t_mapped(&v, g->e[0]);
    anfi_push(&p->t->arena, &o->global,
              now ? anfi_t_remake_stmt(p->t, g, (const texpr[4]){now, g->e[1]}, NULL) : g);
  }
  for (size_t i = 0; i < m->func.n; i++) {
    for (uint32_t k = 0; k < in[i]->n; k++) define(&v, in[i]->param[k]);
    anfi_t_mod_add(o, anfi_t_visit_func(&v, in[i]));
  }
  return o;
}
