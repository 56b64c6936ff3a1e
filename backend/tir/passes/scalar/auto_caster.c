// SPDX-License-Identifier: Apache-2.0
/* auto_caster: makes implicit casts and broadcasts explicit, so that the operands of every operation have one type.
 *
 *   var y: f64 = (a + x)          →     var y: f64 = f64((f32(a) + x))            a: s32, x: f32
 *   C[0 @ 4] = C[4 @ 4] * x       →     C[0UL @ 4] = (C[4UL @ 4] * broadcast<f32x4>(x))
 *
 * The operand of lower rank (dtype.def) takes the other's type; f16 and bf16 meet in f32; a scalar beside a
 * vector is broadcast. A constant is converted at once. A value that is assigned, returned, passed or counted
 * over takes the type of its target. */
#include "backend/tir/tir.h"

static texpr to_type(tstore *t, texpr e, tdtype want) {
  if (anfi_t_same(e->dtype, want)) return e;
  if (anfi_t_is_void(e->dtype) || anfi_t_is_void(want)) return e;
  bool scalar = anfi_t_total(e->dtype) == 1 && anfi_t_total(want) != 1;
  tdtype d = want;
  if (scalar) d.lanes = 1, d.rows = 0;
  bool numbers = !e->dtype.ptr && !want.ptr && anfi_t_rank_of(e->dtype) && anfi_t_rank_of(want);
  if (e->kind == TX_constant && !e->sub && numbers)
    return anfi_t_retype(t, e, scalar || anfi_t_same_shape(e->dtype, want) ? want : e->dtype);
  if (!scalar && !anfi_t_same_shape(e->dtype, want)) return e;
  e = anfi_t_cast(t, d, e);
  return scalar ? anfi_t_intrin(t, TI_broadcast, want, 1, &e, (tattrs){0}) : e;
}

static tdtype join(tdtype a, tdtype b) {
  if (a.ptr || b.ptr) return a.ptr ? a : b;
  bool halves = (a.elem == ANF_TIR_f16 && b.elem == ANF_TIR_bf16) ||
                (a.elem == ANF_TIR_bf16 && b.elem == ANF_TIR_f16);
  tdtype shape = anfi_t_total(a) > 1 ? a : b;
  uint8_t elem = anfi_t_rank_of(a) >= anfi_t_rank_of(b) ? a.elem : b.elem;
  return anfi_t_with(shape, halves ? ANF_TIR_f32 : (anf_tir_elem)elem);
}

/* Operands from..n-1 take one type. */
static texpr unify(tvisitor *v, texpr e, uint32_t from) {
  texpr few[4];
  tdtype d = e->in[from]->dtype;
  for (uint32_t i = from; i < e->n; i++) d = join(d, e->in[i]->dtype);
  if (e->n > 4) return e;
  bool changed = false;
  for (uint32_t i = 0; i < e->n; i++) {
    few[i] = i < from ? e->in[i] : to_type(v->t, e->in[i], d);
    changed |= few[i] != e->in[i];
  }
  return changed ? anfi_t_remake(v->t, e, few) : e;
}

static texpr indices(tvisitor *v, texpr e, uint32_t from, uint32_t to) {
  texpr *in = ANFI_NEW_N(v->scratch, texpr, e->n);
  bool changed = false;
  for (uint32_t i = 0; i < e->n; i++) {
    in[i] = i >= from && i < to ? to_type(v->t, e->in[i], anfi_t_dt(ANF_TIR_index)) : e->in[i];
    changed |= in[i] != e->in[i];
  }
  return changed ? anfi_t_remake(v->t, e, in) : e;
}

static texpr call(tvisitor *v, texpr e) {
  const tmod *m = ((tpass_cx *)v->user)->m;
  tfunc f = anfi_t_mod_find(m, e->u.name);
  texpr *in = ANFI_NEW_N(v->scratch, texpr, e->n);
  bool changed = false;
  uint32_t npar;
  anfi_t_triples(e, &npar);
  for (uint32_t i = 0; i < e->n; i++) {
    bool arg = f && i < e->nidx && npar + i < f->n;
    in[i] = arg ? to_type(v->t, e->in[i], f->param[npar + i]->dtype) : e->in[i];
    changed |= in[i] != e->in[i];
  }
  return changed ? anfi_t_remake(v->t, e, in) : e;
}

static texpr fix(tvisitor *v, texpr e) {
  tgroup g = anfi_t_group(e);
  if (g == TG_BINARY || g == TG_CMP || g == TG_LOGIC) return unify(v, e, 0);
  if (e->kind == TX_select) return unify(v, e, 1);
  if (e->kind == TX_indexing || e->kind == TX_tensorptr) return indices(v, e, 1, 1u + e->nidx);
  if (e->kind == TX_call) return call(v, e);
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].typing == TT_SAME) return unify(v, e, 0);
  return e;
}

static tstmt fix_stmt(tvisitor *v, tstmt s) {
  tstore *t = v->t;
  texpr e[4];
  memcpy(e, s->e, sizeof e);
  switch ((tskind)s->kind) {
  case TS_define:
    if (e[1] && e[0]->kind == TX_var) e[1] = to_type(t, e[1], e[0]->dtype);
    break;
  case TS_assign: e[1] = to_type(t, e[1], e[0]->dtype); break;
  case TS_for_loop:
    for (int i = 1; i < 4; i++) e[i] = to_type(t, e[i], e[0]->dtype);
    break;
  default: return s;
  }
  return memcmp(e, s->e, sizeof e) ? anfi_t_remake_stmt(t, s, e, s->s) : s;
}

/* Returns need the function, which the statement does not name. */
static tstmt fix_return(tvisitor *v, tstmt s) {
  tdtype *ret = (tdtype *)v->user;
  if (s->kind != TS_returns || !s->e[0]) return s;
  texpr e[4] = {to_type(v->t, s->e[0], *ret)};
  return e[0] == s->e[0] ? s : anfi_t_remake_stmt(v->t, s, e, NULL);
}

const tmod *anfi_t_pass_auto_caster(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v, r;
    anfi_t_visitor_init(&v, p->t, p->scratch, p);
    v.expr = fix;
    v.stmt = fix_stmt;
    tfunc f = anfi_t_visit_func(&v, m->func.at[i]);
    tdtype ret = f->ret;
    anfi_t_visitor_init(&r, p->t, p->scratch, &ret);
    r.stmt = fix_return;
    anfi_t_mod_add(o, anfi_t_visit_func(&r, f));
  }
  return o;
}
