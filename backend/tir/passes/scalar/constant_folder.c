// SPDX-License-Identifier: Apache-2.0
/* constant_folder: constant folding and algebraic identities.
 *
 *   var k = 2 * 3;  (1 + n) + k    →     n + 7
 *   x * 1.f                        →     x
 *
 * Constants move to the right operand, so that they meet. A variable that is defined as a constant and never
 * assigned is that constant. Folding never changes a value: an operation that would trap (division by zero) or
 * that depends on the machine (exp) stays, and so do x * 0 and x + 0 of floats. */
#include "backend/tir/tir.h"

typedef struct fold {
  talias alias;
  anfi_map value; // variable → constant
} fold;

static uint64_t lane(texpr k, uint32_t i) { return k->u.k.bits[k->u.k.n == 1 ? 0 : i]; }
static bool is_const(texpr e) {
  return e->kind == TX_constant && !e->sub && !anfi_t_is_void(e->dtype);
}

/* Lane by lane, by a function that may refuse. */
typedef bool (*lane_fn)(texpr e, const uint64_t *in, uint64_t *out);

static texpr fold_lanes(tstore *t, texpr e, lane_fn fn) {
  uint32_t n = 1;
  for (uint32_t k = 0; k < e->n; k++) {
    if (!is_const(e->in[k])) return NULL;
    if (e->in[k]->u.k.n > n) n = e->in[k]->u.k.n;
  }
  uint64_t *out = ANFI_NEW_N(&t->arena, uint64_t, n), in[3] = {0};
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < e->n && k < 3; k++) in[k] = lane(e->in[k], i);
    if (!fn(e, in, &out[i])) return NULL;
  }
  return anfi_t_bits(t, e->dtype, n, out);
}

static bool do_bin(texpr e, const uint64_t *in, uint64_t *out) {
  return anfi_t_lane_bin((tkind)e->kind, e->in[0]->dtype, in[0], in[1], out);
}
static bool do_cast(texpr e, const uint64_t *in, uint64_t *out) {
  return *out = anfi_t_lane_cast(e->dtype, e->in[0]->dtype, in[0]), true;
}
static bool do_not(texpr e, const uint64_t *in, uint64_t *out) {
  return (void)e, *out = !in[0], true;
}
static bool do_intrin(texpr e, const uint64_t *in, uint64_t *out) {
  return *out = anfi_t_lane_intrin((tintrin)e->sub, e->in[0]->dtype, in[0], in[1], in[2]), true;
}
static bool do_convert(texpr e, const uint64_t *in, uint64_t *out) {
  return *out = anfi_t_lane_convert((tintrin)e->sub, e->dtype, e->in[0]->dtype, in[0]), true;
}

/* Exact on every machine */
static bool exact(texpr e) {
  switch ((tintrin)e->sub) {
  case TI_min:
  case TI_max:
  case TI_abs:
  case TI_round:
  case TI_floor:
  case TI_ceil:
  case TI_trunc:
  case TI_sqrt:
  case TI_copysign:
  case TI_isnan:
  case TI_isinf:
  case TI_fmadd:
  case TI_fnmadd:
  case TI_int_and:
  case TI_int_or:
  case TI_int_xor:
  case TI_int_not:
  case TI_shl:
  case TI_shr: return true;
  default: return false;
  }
}

static bool all_equal(texpr e, int64_t v) { // every lane is the integer or float v
  return is_const(e) && e->u.k.n == 1 && anfi_t_rank_of(e->dtype) &&
         e->u.k.bits[0] == anfi_t_lane_of_i64(e->dtype, v);
}
static texpr zero_of(tstore *t, texpr e) { return anfi_t_int(t, e->dtype, 0); }
static bool drop_ok(texpr e) { return anfi_t_pure(e) && !anfi_t_may_trap(e); }

static tkind mirrored(tkind k) {
  switch (k) {
  case TX_cmp_lt: return TX_cmp_gt;
  case TX_cmp_gt: return TX_cmp_lt;
  case TX_cmp_le: return TX_cmp_ge;
  case TX_cmp_ge: return TX_cmp_le;
  default: return k;
  }
}
static bool commutes(tkind k) {
  return k == TX_add || k == TX_mul || (k >= TX_cmp_eq && k <= TX_cmp_ge);
}

/* (x + c1) + c2 → x + (c1 + c2), the same for *; integers wrap alike. */
static texpr reassociate(tstore *t, texpr e) {
  texpr l = e->in[0];
  if (!anfi_t_is_int(e->dtype) || (e->kind != TX_add && e->kind != TX_mul)) return e;
  if (l->kind != e->kind || !is_const(l->in[1]) || !is_const(e->in[1])) return e;
  texpr k = fold_lanes(t, anfi_t_bin(t, (tkind)e->kind, l->in[1], e->in[1]), do_bin);
  return k ? anfi_t_bin(t, (tkind)e->kind, l->in[0], k) : e;
}

static texpr same_sides(tstore *t, texpr e) {
  bool ints = !anfi_t_is_float(e->in[0]->dtype) && anfi_t_class(e->in[0]->dtype) != TC_GENERIC;
  if (!ints || !anfi_t_identical(e->in[0], e->in[1]) || !drop_ok(e->in[0])) return e;
  switch ((tkind)e->kind) {
  case TX_sub: return zero_of(t, e);
  case TX_cmp_eq:
  case TX_cmp_le:
  case TX_cmp_ge: return anfi_t_int(t, e->dtype, 1);
  case TX_cmp_ne:
  case TX_cmp_lt:
  case TX_cmp_gt: return anfi_t_int(t, e->dtype, 0);
  default: return e;
  }
}

static texpr binary(tstore *t, texpr e) {
  texpr k = fold_lanes(t, e, do_bin);
  if (k) return k;
  if (commutes((tkind)e->kind) && is_const(e->in[0]) && !is_const(e->in[1]))
    e = anfi_t_bin(t, mirrored((tkind)e->kind), e->in[1], e->in[0]);
  texpr l = e->in[0], r = e->in[1];
  bool ints = anfi_t_is_int(e->dtype);
  switch ((tkind)e->kind) {
  case TX_add:
  case TX_sub:
    if (ints && all_equal(r, 0)) return l;
    break;
  case TX_mul:
    if (all_equal(r, 1)) return l;
    if (ints && all_equal(r, 0) && drop_ok(l)) return r;
    break;
  case TX_div:
    if (all_equal(r, 1)) return l;
    break;
  case TX_mod:
    if (ints && all_equal(r, 1) && drop_ok(l)) return zero_of(t, e);
    break;
  default: break;
  }
  e = reassociate(t, e);
  return e->n == 2 && anfi_t_group(e) != TG_LEAF ? same_sides(t, e) : e;
}

static texpr logic(tstore *t, texpr e) {
  bool is_and = e->kind == TX_logic_and;
  texpr k = fold_lanes(t, e, do_bin), l = e->in[0], r = e->in[1];
  if (k) return k;
  if (is_const(l) && l->u.k.n == 1) return (l->u.k.bits[0] != 0) == is_and ? r : l;
  if (is_const(r) && r->u.k.n == 1) {
    if ((r->u.k.bits[0] != 0) == is_and) return l;
    if (drop_ok(l)) return r;
  }
  return e;
}

static texpr negation(tstore *t, texpr e) {
  static const uint8_t flip[] = {TX_cmp_ne, TX_cmp_eq, TX_cmp_ge, TX_cmp_gt, TX_cmp_le, TX_cmp_lt};
  texpr x = e->in[0], k = fold_lanes(t, e, do_not);
  if (k) return k;
  if (x->kind == TX_logic_not) return x->in[0];
  if (anfi_t_group(x) == TG_CMP && !anfi_t_is_float(x->in[0]->dtype)) // NaN has no order
    return anfi_t_bin(t, (tkind)flip[x->kind - TX_cmp_eq], x->in[0], x->in[1]);
  return e;
}

static texpr choice(texpr e) {
  texpr c = e->in[0];
  if (is_const(c) && c->u.k.n == 1) {
    texpr drop = e->in[c->u.k.bits[0] ? 2 : 1];
    if (drop_ok(drop)) return e->in[c->u.k.bits[0] ? 1 : 2];
  }
  return anfi_t_identical(e->in[1], e->in[2]) && drop_ok(c) && drop_ok(e->in[2]) ? e->in[1] : e;
}

static texpr intrinsic(tstore *t, texpr e) {
  texpr k = NULL;
  if (anfi_t_lanewise((tintrin)e->sub) && exact(e)) k = fold_lanes(t, e, do_intrin);
  else if (e->sub >= TI_reinterpret && e->sub <= TI_round_and_cast)
    k = fold_lanes(t, e, do_convert);
  else if (e->sub == TI_broadcast && is_const(e->in[0]) && e->in[0]->u.k.n == 1)
    k = anfi_t_bits(t, e->dtype, 1, e->in[0]->u.k.bits);
  if (k) return k;
  bool ints = anfi_t_is_int(e->dtype);
  if ((e->sub == TI_min || e->sub == TI_max) && ints && anfi_t_identical(e->in[0], e->in[1]) &&
      drop_ok(e->in[0]))
    return e->in[0];
  return e;
}

static texpr simplify(tvisitor *v, texpr e) {
  fold *f = (fold *)v->user;
  switch ((tkind)e->kind) { /* dispatch */
  case TX_var: {
    uint64_t *at = v->lvalue ? NULL : anfi_map_find(&f->value, anfi_key(e));
    return at ? (texpr)(uintptr_t)*at : e;
  }
  case TX_cast: {
    texpr k = anfi_t_class(e->dtype) == TC_GENERIC ? NULL : fold_lanes(v->t, e, do_cast);
    return k ? k : e;
  }
  case TX_logic_and:
  case TX_logic_or: return logic(v->t, e);
  case TX_logic_not: return negation(v->t, e);
  case TX_select: return choice(e);
  case TX_intrin_call: return intrinsic(v->t, e);
  default: return anfi_t_group(e) == TG_BINARY || anfi_t_group(e) == TG_CMP ? binary(v->t, e) : e;
  }
}

static tstmt learn(tvisitor *v, tstmt s) {
  fold *f = (fold *)v->user;
  if (s->kind == TS_define && s->e[0]->kind == TX_var && s->e[1] && is_const(s->e[1]) &&
      !anfi_t_assigned(&f->alias, s->e[0]) && anfi_t_same(s->e[0]->dtype, s->e[1]->dtype))
    *anfi_map_at(&f->value, anfi_key(s->e[0])) = anfi_key(s->e[1]);
  return s;
}

tfunc anfi_t_pass_constant_folder(tpass_cx *p, tfunc f) {
  fold u;
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  anfi_map_init(&u.value, p->scratch);
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.expr = simplify;
  v.stmt = learn;
  return anfi_t_visit_func(&v, f);
}
