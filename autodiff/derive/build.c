// SPDX-License-Identifier: Apache-2.0
/* Builds typed nodes for derivatives (derive.h), without those that change nothing.
 *   Mul(dy, 1)                           ->  dy
 *   SumTo(dy, x), both f64[3]            ->  dy
 *   ReshapeLike(dy, x), x: f64[2,3]      ->  Reshape(dy, (2, 3)): ◀ needs no residual x
 * So the text of a gradient is about as short as by hand before any pass has run. General rules are those of
 * optimizer/rules (anfi_make_clean); here are only those that must hold at construction, by op in two tables. */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"
#include "optimizer/rules/rule.h"
#include "ir/worklist.h"

anfi_ad *anfi_ad_new(anf_module *m) {
  anfi_ad *ad = ANFI_NEW(anfi_scratch(m->cx), anfi_ad);
  ad->m = m;
  ad->arena = anfi_scratch(m->cx);
  anfi_map_init(&ad->numbers, ad->arena);
  anfi_map_init(&ad->formulas, ad->arena);
  anfi_map_init(&ad->lanes, ad->arena);
  ad->work = ANFI_WORK_DCE;
  ad->clean = ANFI_NEW(ad->arena, anfi_rewriter);
  *ad->clean = (anfi_rewriter){
      .m = m, .arena = ad->arena, .pass = ANFI_NEW(ad->arena, anfi_pass), .set = anfi_rules(m->cx)};
  return ad;
}

const anf_type *anfi_ad_constant_type(anfi_ad *ad, const anf_node *n) {
  return anfi_value_type(ad->m->cx, n->u.value);
}

/* ---- constants ---- */

anf_node *anfi_ad_const(anfi_ad *ad, anf_value *v) {
  anf_node *n = anfi_value(ad->m, v); // first: the node owns v if memory runs out
  n->type = anfi_value_type(ad->m->cx, v);
  return n;
}

/* The number that a scalar constant holds, if it is a real one. */
static bool number_of(const anf_node *n, double *x) {
  if (n->kind != ANFI_VALUE || n->u.value->kind != ANF_VALUE_TENSOR || n->u.value->type->n)
    return false;
  if (anfi_dtype_class((anf_dtype)n->u.value->type->dtype) >= ANFI_CLASS_COMPLEX) return false;
  *x = anfi_get_f64(n->u.value, 0);
  return true;
}

static bool is_live(const anf_module *m, const anf_node *n) {
  return n->id < m->nodes.n && m->nodes.at[n->id] == n && n->kind == ANFI_VALUE;
}

/* The cache entry of a constant. */
static anfi_ad_recent *recent(anfi_ad *ad, uint64_t bits, anf_dtype d) {
  return &ad->recent[anfi_hash_mix(bits, d) % ANFI_AD_NUMBERS];
}

static anf_node *older_number(anfi_ad *ad, anf_dtype d, double x, uint64_t key) {
  const uint64_t *at = anfi_map_find(&ad->numbers, key);
  anf_node *old = at ? (anf_node *)(uintptr_t)*at : NULL;
  if (!old || !is_live(ad->m, old) || old->u.value->type->dtype != d) return NULL;
  anf_value *same = anfi_value_new_f64(ad->m->cx, d, x);
  anfi_value_guard(same);
  bool equal = anfi_value_same(same, old->u.value);
  anfi_value_unguard(same);
  anf_value_release(same);
  return equal ? old : NULL;
}

anf_node *anfi_ad_number(anfi_ad *ad, anf_dtype d, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  anfi_ad_recent *r = recent(ad, bits, d);
  if (r->node && r->bits == bits && r->dtype == d && is_live(ad->m, r->node)) return r->node;
  uint64_t key = anfi_hash_mix(bits, d);
  anf_node *n = older_number(ad, d, x, key);
  if (!n) {
    n = anfi_ad_const(ad, anfi_value_new_f64(ad->m->cx, d, x));
    *anfi_map_at(&ad->numbers, key) = anfi_key(n);
  }
  *r = (anfi_ad_recent){bits, d, n};
  return n;
}

/* ---- attributes ---- */

const anfi_attrs *anfi_ad_attrs(anfi_ad *ad, anfi_opcode op, anf_value *const *v) {
  const anfi_attrs *at = NULL;
  uint32_t n = anfi_op_schema(ad->m->cx, op)->nattr;
  anfi_attrs_new(ad->m, op, v, anfi_nowhere(), &at);
  for (uint32_t k = 0; k < n; k++) {
    if (!v[k]) continue;
    anfi_value_unguard(v[k]);
    anf_value_release(v[k]);
  }
  return at;
}

static anf_value *guarded(anf_value *v) {
  anfi_value_guard(v);
  return v;
}

static anf_value *shape_value(anfi_ad *ad, const anf_type *t) {
  return guarded(anfi_value_new_ints(ad->m->cx, t->n, t->dims));
}

static anf_value *dtype_value(anfi_ad *ad, anf_dtype d) {
  return guarded(anfi_value_new_type(ad->m->cx, anfi_type_scalar(ad->m->cx, d)));
}

/* ---- static shapes ---- */

static bool is_static(const anf_type *t) {
  size_t n;
  return anfi_is_tensor(t) && anfi_type_elements(t, &n);
}

static anf_node *reshape(anfi_ad *ad, anf_graph *g, anf_node *x, size_t rank, const int64_t *dims) {
  anf_value *v = guarded(anfi_value_new_ints(ad->m->cx, rank, dims));
  return anfi_ad_apply(ad, g, ANF_OP_Reshape, anfi_ad_attrs(ad, ANF_OP_Reshape, &v), 1, &x);
}

static anf_node *reshape_like(anfi_ad *ad, anf_graph *g, anf_node *x, const anf_type *like) {
  return reshape(ad, g, x, like->n, like->dims);
}

static anf_node *broadcast(anfi_ad *ad, anf_graph *g, anf_node *x, const anf_type *to) {
  anf_value *v = shape_value(ad, to);
  return anfi_ad_apply(ad, g, ANF_OP_BroadcastTo, anfi_ad_attrs(ad, ANF_OP_BroadcastTo, &v), 1, &x);
}

static anf_node *cast(anfi_ad *ad, anf_graph *g, anf_node *x, anf_dtype d) {
  anf_value *v = dtype_value(ad, d);
  return anfi_ad_apply(ad, g, ANF_OP_Cast, anfi_ad_attrs(ad, ANF_OP_Cast, &v), 1, &x);
}

static anf_node *sum(anfi_ad *ad, anf_graph *g, anf_node *x, size_t n, const int64_t *axes,
                     bool keep) {
  anf_value *v[2] = {NULL, NULL};
  if (n < anfi_ad_type_of(ad, x)->n) v[0] = guarded(anfi_value_new_ints(ad->m->cx, n, axes));
  v[1] = guarded(anfi_value_new_i64(ad->m->cx, ANF_BOOL, keep));
  return anfi_ad_apply(ad, g, ANF_OP_Sum, anfi_ad_attrs(ad, ANF_OP_Sum, v), 1, &x);
}

/* x summed to the dims of `like`, which are static as its own. */
static anf_node *sum_to(anfi_ad *ad, anf_graph *g, anf_node *x, const anf_type *like) {
  const anf_type *t = anfi_ad_type_of(ad, x);
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0, lead = t->n - like->n;
  for (size_t k = 0; k < t->n; k++)
    if (k < lead || t->dims[k] != like->dims[k - lead]) axes[n++] = (int64_t)k;
  if (!n) return x;
  anf_node *s = sum(ad, g, x, n, axes, lead == 0 && like->n);
  return s ? reshape_like(ad, g, s, like) : NULL;
}

/* y, a reduction of `like` along the axes, repeated to the shape of `like`. */
static anf_node *unreduce(anfi_ad *ad, anf_graph *g, anf_node *y, const anf_type *like,
                          uint32_t axes, bool keep) {
  int64_t dims[ANF_MAX_RANK];
  bool leads = (axes & (axes + 1)) == 0; // then shapes align at the right as they are
  for (size_t k = 0; k < like->n; k++) dims[k] = axes >> k & 1 ? 1 : like->dims[k];
  if (!keep && !leads) y = reshape(ad, g, y, like->n, dims);
  return y ? broadcast(ad, g, y, like) : NULL;
}

static anf_node *filled(anfi_ad *ad, anf_graph *g, anf_node *x, const anf_type *t, double with) {
  anfi_opcode like = with != 0 ? ANF_OP_OnesLike : ANF_OP_ZerosLike;
  if (!is_static(t)) return anfi_ad_apply1(ad, g, like, x);
  if (!t->n) return anfi_ad_number(ad, (anf_dtype)t->dtype, with);
  anfi_opcode op = with != 0 ? ANF_OP_Ones : ANF_OP_Zeros;
  anf_value *v[2] = {shape_value(ad, t), NULL};
  v[1] = dtype_value(ad, (anf_dtype)t->dtype);
  return anfi_ad_apply(ad, g, op, anfi_ad_attrs(ad, op, v), 0, NULL);
}

anf_node *anfi_ad_full(anfi_ad *ad, anf_graph *g, const anf_type *t, double with) {
  return filled(ad, g, NULL, t, with);
}

anf_node *anfi_ad_zeros(anfi_ad *ad, anf_graph *g, anf_node *x) {
  return filled(ad, g, x, anfi_ad_type_of(ad, x), 0);
}

anf_node *anfi_ad_ones(anfi_ad *ad, anf_graph *g, anf_node *x) {
  return filled(ad, g, x, anfi_ad_type_of(ad, x), 1);
}

/* ---- nodes that need not be built ---- */

typedef struct {
  anfi_ad *ad;
  anf_graph *g;
  anfi_opcode op;
  const anfi_attrs *attrs;
  size_t n;
  anf_node *const *in;
  const anf_type *type; // of the result
} plan;

static const anf_type *type_in(const plan *p, size_t i) { return anfi_ad_type_of(p->ad, p->in[i]); }

/* Has argument i the result's very type? A dim that is not static might still broadcast. */
static bool is_whole(const plan *p, size_t i) {
  return type_in(p, i) == p->type && is_static(p->type);
}

/* A real constant full of x, as it is or broadcast. */
static bool is_number(const anf_node *n, double x) {
  double v;
  if (anfi_is_op(n, ANF_OP_BroadcastTo)) n = n->in[0].def;
  if (anfi_is_op(n, ANF_OP_Ones)) return x == 1;
  return number_of(n, &v) && v == x;
}

static bool is_finite_number(const anf_node *n, bool zero_too) {
  double v;
  return number_of(n, &v) && v - v == 0 && (zero_too || v != 0);
}

static anf_node *again(const plan *p, anfi_opcode op, size_t n, anf_node *const *in) {
  return anfi_ad_apply(p->ad, p->g, op, NULL, n, in);
}

static anf_node *shorter_product(const plan *p) {
  for (size_t i = 0; i < 2; i++) {
    if (!is_whole(p, 1 - i)) continue;
    if (is_number(p->in[i], 1)) return p->in[1 - i];
    if (is_number(p->in[i], -1)) return again(p, ANF_OP_Neg, 1, &p->in[1 - i]);
  }
  if (p->op == ANF_OP_SafeMul &&
      (is_finite_number(p->in[0], false) || is_finite_number(p->in[1], true)))
    return again(p, ANF_OP_Mul, 2, p->in);
  return NULL;
}

/* x + -y is x - y to the bit. */
static anf_node *shorter_sum(const plan *p) {
  for (size_t i = 2; i-- > 0;) {
    const anf_node *n = p->in[i];
    if (!anfi_is_op(n, ANF_OP_Neg) || n->type != p->type || n->in[0].def->type != p->type) continue;
    return again(p, ANF_OP_Sub, 2, (anf_node *const[]){p->in[1 - i], n->in[0].def});
  }
  return NULL;
}

static anf_node *shorter_quotient(const plan *p) {
  if (is_number(p->in[1], 1) && is_whole(p, 0)) return p->in[0];
  if (p->op == ANF_OP_SafeDiv &&
      (is_finite_number(p->in[0], false) || is_finite_number(p->in[1], false)))
    return again(p, ANF_OP_Div, 2, p->in);
  return NULL;
}

static anf_node *shorter_power(const plan *p) {
  if (is_number(p->in[1], 1) && is_whole(p, 0)) return p->in[0];
  return is_number(p->in[1], 2) && is_whole(p, 0) ? again(p, ANF_OP_Square, 1, p->in) : NULL;
}

static anf_node *shorter_choice(const plan *p) {
  double c;
  if (p->in[1] == p->in[2] && is_whole(p, 1)) return p->in[1];
  if (!number_of(p->in[0], &c)) return NULL;
  size_t k = c != 0 ? 1 : 2;
  return is_whole(p, k) ? p->in[k] : NULL;
}

/* Ops that read only the type of their last argument. */
static anf_node *without_like(const plan *p) {
  const anf_type *x = type_in(p, 0), *like = type_in(p, p->n - 1);
  if (x == p->type && (p->op == ANF_OP_CastLike || is_static(x))) return p->in[0];
  if (p->op == ANF_OP_CastLike) return cast(p->ad, p->g, p->in[0], (anf_dtype)like->dtype);
  if (!is_static(x) || !is_static(like)) return NULL;
  anf_value *axis, *keep;
  switch (p->op) {
  case ANF_OP_SumTo: // Sum widens integers
    return anfi_ad_varies(x) ? sum_to(p->ad, p->g, p->in[0], like) : NULL;
  case ANF_OP_ReshapeLike: return reshape_like(p->ad, p->g, p->in[0], like);
  case ANF_OP_BroadcastLike: return broadcast(p->ad, p->g, p->in[0], like);
  case ANF_OP_Unreduce:
    axis = anfi_attr_value(p->ad->m->cx, p->op, p->attrs, 0);
    keep = anfi_attr_value(p->ad->m->cx, p->op, p->attrs, 1);
    return unreduce(p->ad, p->g, p->in[0], like, anfi_reduced_axes(axis, like->n),
                    anfi_attr_bool(keep));
  default: return NULL;
  }
}

static anf_node *shorter_negation(const plan *p) {
  return anfi_is_op(p->in[0], ANF_OP_Neg) ? p->in[0]->in[0].def : NULL;
}

static anf_node *if_real(const plan *p) {
  return anfi_ad_is_complex(type_in(p, 0)) ? NULL : p->in[0];
}

static anf_node *if_of_type(const plan *p) { return type_in(p, 0) == p->type ? p->in[0] : NULL; }

static anf_node *if_whole(const plan *p) { return is_whole(p, 0) ? p->in[0] : NULL; }

static anf_node *filled_like(const plan *p) {
  if (p->attrs || !is_static(p->type)) return NULL;
  return filled(p->ad, p->g, p->in[0], p->type, p->op == ANF_OP_OnesLike);
}

typedef anf_node *shortening(const plan *);

/* Shortenings by op: those that depend on types, and those that depend on a special operand (is_special). */
static shortening *const by_type[ANF_OP_COUNT] = {
    [ANF_OP_Where] = shorter_choice,
    [ANF_OP_Conj] = if_real,
    [ANF_OP_Real] = if_real,
    [ANF_OP_Cast] = if_of_type,
    [ANF_OP_Reshape] = if_whole,
    [ANF_OP_BroadcastTo] = if_whole,
    [ANF_OP_SumTo] = without_like,
    [ANF_OP_ReshapeLike] = without_like,
    [ANF_OP_BroadcastLike] = without_like,
    [ANF_OP_CastLike] = without_like,
    [ANF_OP_Unreduce] = without_like,
    [ANF_OP_ZerosLike] = filled_like,
    [ANF_OP_OnesLike] = filled_like,
};
static shortening *const by_operand[ANF_OP_COUNT] = {
    [ANF_OP_Add] = shorter_sum,      [ANF_OP_Mul] = shorter_product,
    [ANF_OP_Div] = shorter_quotient, [ANF_OP_SafeMul] = shorter_product,
    [ANF_OP_Neg] = shorter_negation, [ANF_OP_SafeDiv] = shorter_quotient,
    [ANF_OP_Power] = shorter_power,
};

/* A node that is the same, or NULL. */
static anf_node *shorter(const plan *p) {
  shortening *rule = by_operand[p->op] ? by_operand[p->op] : by_type[p->op];
  return rule ? rule(p) : NULL;
}

/* ---- building ---- */

static bool attr_values(anfi_ad *ad, anfi_opcode op, const anfi_attrs *attrs, anf_value **out) {
  uint32_t n = anfi_op_schema(ad->m->cx, op)->nattr;
  for (uint32_t k = 0; k < n; k++)
    if (!(out[k] = anfi_attr_value(ad->m->cx, op, attrs, k))) return false;
  return true;
}

enum { FEW = 8, ATTRS = 16 };

static const anf_type *inferred(const plan *p) {
  anfi_ad *ad = p->ad;
  const anf_type *few[FEW], **t = few;
  anf_value *attr[ATTRS];
  if (p->n > FEW) t = ANFI_NEW_N(ad->arena, const anf_type *, p->n);
  for (size_t i = 0; i < p->n; i++)
    if (!(t[i] = type_in(p, i))) {
      anfi_fail(ad->m->cx, anfi_nowhere(), ANF_E0001, "a derivative of an untyped node");
      return NULL;
    }
  anfi_infer q = {.cx = ad->m->cx, .op = p->op, .n = p->n, .in = t, .attr = attr};
  if (ad->at) q.loc = anfi_node_loc(ad->at);
  if (!attr_values(ad, p->op, p->attrs, attr) || !anfi_infer_op(&q) ||
      q.out->kind == ANF_TYPE_ANY) {
    if (!anfi_failed(ad->m->cx)) anfi_fail(ad->m->cx, q.loc, ANF_E0001, anfi_op[p->op].name);
    return NULL;
  }
  return q.out;
}

static const anf_type *result_type(const plan *p) {
  const anf_type *t = p->n ? type_in(p, 0) : NULL;
  bool alike = t && !anfi_op_schema(p->ad->m->cx, p->op)->nattr;
  for (size_t i = 1; alike && i < p->n; i++) alike = type_in(p, i) == t;
  if (!alike) return inferred(p);
  anfi_ad_known *k = &p->ad->known[(t->hash ^ p->op) % ANFI_AD_TYPES];
  if (k->in == t && k->op == p->op && k->n == p->n) return k->out;
  const anf_type *out = inferred(p);
  if (out) *k = (anfi_ad_known){p->op, p->n, t, out};
  return out;
}

/* Scalars that are known now are computed now. */
static anf_node *folded(const plan *p) {
  anf_value *in[4], *attr[ATTRS];
  if (!p->n || p->n > ANFI_LEN(in) || (anfi_op[p->op].flags & ANFI_COLLECTIVE)) return NULL;
  for (size_t i = 0; i < p->n; i++) {
    if (p->in[i]->kind != ANFI_VALUE || p->in[i]->u.value->kind != ANF_VALUE_TENSOR) return NULL;
    in[i] = p->in[i]->u.value;
    if (in[i]->type->n) return NULL;
  }
  if (!anfi_is_scalar(p->type) || !anfi_ad_varies(p->type)) return NULL;
  attr_values(p->ad, p->op, p->attrs, attr);
  anfi_eval q = {.cx = p->ad->m->cx, .op = p->op, .n = p->n, .in = in, .attr = attr};
  return anfi_eval_op(&q) ? anfi_ad_const(p->ad, q.out) : NULL;
}

static bool may_fold(anfi_opcode op) {
  return anfi_op[op].scalar || op == ANF_OP_Cast || op == ANF_OP_Sum;
}

/* Inputs may have been made only for the node that `same` replaces. */
static anf_node *instead(const plan *p, anf_node *same) {
  for (size_t i = 0; same && i < p->n; i++)
    if (p->in[i]->graph) anfi_work_add(p->in[i], ANFI_WORK_DCE);
  return same;
}

static anf_node *made(const plan *p) {
  anf_node *same = shorter(p);
  if (same || anfi_failed(p->ad->m->cx)) return instead(p, same);
  if (may_fold(p->op) && (same = folded(p))) return same;
  if (!p->attrs && !(anfi_op[p->op].flags & ANFI_EFFECT) && p->ad->clean->set) {
    anfi_apply_of of = anfi_ad_next(p->ad, p->g);
    of.op = (uint16_t)p->op;
    of.type = p->type;
    return anfi_make_clean(p->ad->clean, &of, p->n, p->in, anfi_rule_has(p->type, p->n, p->in));
  }
  anf_node *node = anfi_apply(p->g, p->op, p->attrs, p->n, p->in);
  node->type = p->type;
  node->debug = p->ad->how;
  return node;
}

anf_node *anfi_ad_apply(anfi_ad *ad, anf_graph *g, anfi_opcode op, const anfi_attrs *attrs,
                        size_t n, anf_node *const *in) {
  plan p = {.ad = ad, .g = g, .op = op, .attrs = attrs, .n = n, .in = in};
  p.type = result_type(&p);
  return p.type ? made(&p) : NULL;
}

/* An input for which a rule of by_operand might fire, or that may be folded. */
static bool is_special(uint64_t has) {
  return has & (anfi_rule_bit(true, 0) | anfi_rule_bit(false, ANF_OP_Neg) |
                anfi_rule_bit(false, ANF_OP_BroadcastTo) | anfi_rule_bit(false, ANF_OP_Ones));
}

anf_node *anfi_ad_apply_typed(anfi_ad *ad, const anfi_apply_of *of, size_t n, anf_node *const *in) {
  anfi_opcode op = (anfi_opcode)of->op;
  uint64_t has = anfi_rule_has(of->type, n, in);
  if (!is_special(has) && !by_type[op] && ad->clean->set)
    return anfi_make_clean(ad->clean, of, n, in, has);
  return made(&(plan){.ad = ad, .g = of->graph, .op = op, .n = n, .in = in, .type = of->type});
}

anf_node *anfi_ad_add(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b) {
  if (!a || !b) return a ? a : b;
  return anfi_ad_apply2(ad, g, ANF_OP_Add, a, b);
}
