// SPDX-License-Identifier: Apache-2.0
/* Derivatives of single ops.
 *   reverse: y = a * b                   da = dy * b, in the shape and type of a
 *   forward: the same row                ẏ = ȧ * b + a * ḃ
 * Reverse: formulas and hooks of the row give an adjoint per operand, which is then summed over broadcast dims and
 * cast. Forward, from the same row: a linear op is applied to the tangents; elementwise code takes the tangent in
 * the place of dy; any other op by transposing its pullback, which is linear in dy: it is built for an unknown
 * dy and swept backwards (a jvp is the vjp of the vjp; Radul et al. 2022 go the other way). */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

/* ---- queries of hooks ---- */

anf_value *anfi_derive_ints(const anfi_derive *q, size_t n, const int64_t *x) {
  anf_value *v = anfi_value_new_ints(q->ad->m->cx, n, x);
  anfi_value_guard(v);
  return v;
}

anf_value *anfi_derive_int(const anfi_derive *q, int64_t x) {
  anf_value *v = anfi_value_new_i64(q->ad->m->cx, ANF_INT, x);
  anfi_value_guard(v);
  return v;
}

anf_value *anfi_derive_bool(const anfi_derive *q, bool x) {
  anf_value *v = anfi_value_new_i64(q->ad->m->cx, ANF_BOOL, x);
  anfi_value_guard(v);
  return v;
}

anf_value *anfi_derive_attr(const anfi_derive *q, const char *name) {
  int k = anfi_attr_index(q->ad->m->cx, q->op, name);
  return anfi_attr_value(q->ad->m->cx, q->op, q->primal->u.attrs, (uint32_t)k);
}

bool anfi_derive_flag(const anfi_derive *q, const char *name) {
  return anfi_attr_bool(anfi_derive_attr(q, name));
}

const anf_type *anfi_derive_type(const anfi_derive *q, size_t i) {
  return anfi_ad_type_of(q->ad, q->in[i]);
}

bool anfi_derive_given(const anfi_derive *q, size_t i) {
  return i < q->n && anfi_derive_type(q, i)->kind != ANF_TYPE_NONE;
}

bool anfi_derive_wants(const anfi_derive *q, size_t i) {
  return i < q->n && q->want[i] && anfi_ad_varies(anfi_derive_type(q, i));
}

bool anfi_derive_static(const anfi_derive *q, size_t i) {
  size_t n;
  return anfi_type_elements(anfi_derive_type(q, i), &n) ||
         anfi_derive_refuse(q->ad, q->primal, i, ANFI_DERIVATIVE_MISSING);
}

anf_node *anfi_derive_reshape(anfi_derive *q, anf_node *x, size_t rank, const int64_t *dims) {
  anf_value *v = anfi_derive_ints(q, rank, dims);
  return anfi_derive_build(q, "(Reshape @0 shape=$0)", &x, 1, &v);
}

/* ---- the columns of a row ---- */

anfi_derivative anfi_derivative_of(anf_ctx *cx, anfi_opcode op, size_t input) {
  const char *s = anfi_op[op].grad ? anfi_op[op].grad : anfi_op[op].vjp ? "vjp" : "";
  size_t depth = 0, at = 0;
  const char *word = NULL;
  (void)cx;
  for (; *s; s++) { // the first letter of the item of this input, or of the last one
    bool starts = depth == 0 && *s != ' ' && (!word || s[-1] == ' ');
    if (starts && at++ <= input) word = s;
    depth += *s == '(';
    depth -= *s == ')';
  }
  if (!word) return ANFI_DERIVATIVE_MISSING;
  return *word == '_'   ? ANFI_DERIVATIVE_ZERO
         : *word == '!' ? ANFI_DERIVATIVE_NONE
         : *word == '*' ? ANFI_DERIVATIVE_GRAPH
                        : ANFI_DERIVATIVE;
}

uint16_t anfi_ad_inactive_inputs(anfi_ad *ad, anfi_opcode op) {
  unsigned bits = 1;
  for (size_t k = 0; k < ANFI_AD_INPUTS; k++)
    if (anfi_derivative_of(ad->m->cx, op, k) == ANFI_DERIVATIVE_ZERO) bits |= 2u << k;
  return ad->inactive[op] = (uint16_t)bits;
}

bool anfi_derive_refuse(anfi_ad *ad, const anf_node *primal, size_t input, anfi_derivative why) {
  anf_ctx *cx = ad->m->cx;
  const anfi_schema *s = anfi_op_schema(cx, (anfi_opcode)primal->op);
  const char *name = s->in[input < s->nin ? input : s->nin - 1]->s;
  if (why == ANFI_DERIVATIVE_NONE)
    return anfi_fail(cx, anfi_node_loc(primal), ANF_E0721, anfi_op_of(primal)->name, name);
  return anfi_fail(cx, anfi_node_loc(primal), ANF_E0722, anfi_op_of(primal)->name, name);
}

/* ---- reverse ---- */

static void look_at(anfi_ad *ad, const anf_node *primal) {
  ad->at = primal;
  if (ad->how && ad->from == primal->debug) return;
  ad->from = primal->debug;
  ad->how = anfi_debug_derive(ad->m, primal->debug, "gradient of");
}

/* Adjoints by formula and hook; shape and type may still be those of the broadcast result. */
static bool operand_adjoints(anfi_derive *q) {
  const anfi_formula *f = anfi_formula_of_row(q->ad, q->op);
  bool hook = false, some = false;
  if (!f) return false;
  for (size_t i = 0; i < q->n; i++) {
    if (!anfi_derive_wants(q, i)) continue;
    int says = anfi_formula_says(f, i);
    hook |= says == ANFI_BY_HOOK;
    some |= says == ANFI_DERIVATIVE;
    if (says != ANFI_BY_HOOK && says > ANFI_DERIVATIVE_ZERO)
      return anfi_derive_refuse(q->ad, q->primal, i, (anfi_derivative)says);
  }
  if (some && !anfi_formula_build(q, f)) return false;
  return !hook || anfi_op[q->op].vjp(q);
}

static bool has_unknown(const anf_type *t) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->dims[k] == ANF_DIM_UNKNOWN) return true;
  return false;
}

/* c in the shape and element type of `like`: sums over what was broadcast (or, for a tangent,
 * broadcasts) and casts. A dim that is not known may have been 1 where there are other operands. */
static anf_node *fit(anfi_ad *ad, anf_graph *g, anf_node *c, anf_node *like, bool alone) {
  const anf_type *t = anfi_ad_type_of(ad, c), *to = anfi_ad_type_of(ad, like);
  if (t == to && (alone || !has_unknown(to))) return c;
  if (anfi_ad_is_complex(t) && !anfi_ad_is_complex(to)) c = anfi_ad_apply1(ad, g, ANF_OP_Real, c);
  bool more = t->n > to->n, less = t->n < to->n;
  for (uint32_t k = 0; t->n == to->n && k < t->n; k++) {
    more |= to->dims[k] == 1 && t->dims[k] != 1;
    less |= t->dims[k] == 1 && to->dims[k] != 1;
  }
  if (c && less) c = anfi_ad_apply2(ad, g, ANF_OP_BroadcastLike, c, like);
  else if (c && (more || !anfi_same_dims(t, to) || (!alone && has_unknown(to))))
    c = anfi_ad_apply2(ad, g, ANF_OP_SumTo, c, like);
  return c ? anfi_ad_apply2(ad, g, ANF_OP_CastLike, c, like) : NULL;
}

static bool all_zero(size_t n, anf_node *const *x) {
  for (size_t i = 0; i < n; i++)
    if (x[i]) return false;
  return true;
}

bool anfi_vjp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, size_t ndy, anf_node *const *dy, const bool *want, anf_node **out) {
  anfi_derive q = {.ad = ad,
                   .g = g,
                   .primal = primal,
                   .op = (anfi_opcode)primal->op,
                   .n = anfi_arg_count(primal),
                   .ndy = ndy,
                   .in = in,
                   .dy = dy,
                   .y = y,
                   .want = want,
                   .out = out};
  for (size_t i = 0; i < q.n; i++) out[i] = NULL;
  if (all_zero(ndy, dy)) return true;
  look_at(ad, primal);
  if (q.n != primal->nin) // inference makes attributes constant
    return anfi_fail(ad->m->cx, anfi_node_loc(primal), ANF_E0001, "an attribute is not constant");
  const anfi_recipe *known = anfi_recipe_of(&q);
  if (known) return anfi_recipe_follow(&q, known);
  if (!operand_adjoints(&q)) return false;
  for (size_t i = 0; i < q.n; i++) {
    if (!anfi_derive_wants(&q, i)) out[i] = NULL;
    else if (out[i] && !(out[i] = fit(ad, g, out[i], in[i], q.n == 1))) return false;
  }
  return true;
}

/* ---- forward ---- */

static size_t places_of(const anf_type *t) { return t->kind == ANF_TYPE_TUPLE ? t->n : 1; }

static const anf_type *place_type(const anf_type *t, size_t k) {
  return t->kind == ANF_TYPE_TUPLE ? t->items[k] : t;
}

static anf_node *item(anfi_ad *ad, anf_graph *g, anf_node *t, size_t k) {
  anf_value *v[1] = {anfi_value_new_i64(ad->m->cx, ANF_INT, (int64_t)k)};
  const anfi_attrs *at = NULL;
  anfi_value_guard(v[0]);
  anfi_attrs_new(ad->m, ANF_OP_TupleGet, v, anfi_nowhere(), &at);
  anfi_value_unguard(v[0]);
  anf_value_release(v[0]);
  return anfi_ad_apply(ad, g, ANF_OP_TupleGet, at, 1, &t);
}

typedef struct {
  /* the node */
  anfi_ad *ad;
  anf_graph *g;
  const anf_node *primal;
  /* its inputs with their tangents */
  size_t n;
  anf_node *const *in, *const *tin;
  /* its result */
  anf_node *y;
  const anf_type *type; // of y
  anf_node **ty;
} forward;

/* Is the op linear in the arguments that have tangents, and has every argument that it is linear
 * in one? */
static bool is_linear(const forward *q) {
  anfi_opcode op = (anfi_opcode)q->primal->op;
  if (!(anfi_op[op].flags & ANFI_LINEAR)) return false;
  for (size_t i = 0; i < q->n; i++)
    if (!q->tin[i] && anfi_derivative_of(q->ad->m->cx, op, i) == ANFI_DERIVATIVE) return false;
  return true;
}

static bool apply_linear(const forward *q) {
  anf_node **in = ANFI_NEW_N(q->ad->arena, anf_node *, q->n + 1);
  for (size_t i = 0; i < q->n; i++) in[i] = q->tin[i] ? q->tin[i] : q->in[i];
  anf_node *t =
      anfi_ad_apply(q->ad, q->g, (anfi_opcode)q->primal->op, q->primal->u.attrs, q->n, in);
  if (!t) return false;
  if (q->type->kind != ANF_TYPE_TUPLE) return q->ty[0] = t, true;
  for (size_t k = 0; k < q->type->n; k++)
    if (anfi_ad_varies(q->type->items[k]) && !(q->ty[k] = item(q->ad, q->g, t, k))) return false;
  return true;
}

static bool is_elementwise(const forward *q) {
  if (!anfi_op_of(q->primal)->scalar || anfi_ad_is_complex(q->type)) return false;
  for (size_t i = 0; i < q->n; i++)
    if (anfi_ad_is_complex(anfi_ad_type_of(q->ad, q->in[i]))) return false;
  return true;
}

/* The derivative for one input with its tangent for dy; each place depends on its own alone. */
static bool add_partial(const forward *q, size_t i, bool *want, anf_node **out) {
  anfi_ad *ad = q->ad;
  anf_node *t = anfi_ad_apply2(ad, q->g, ANF_OP_CastLike, q->tin[i], q->y);
  anfi_derive d = {.ad = ad,
                   .g = q->g,
                   .primal = q->primal,
                   .op = (anfi_opcode)q->primal->op,
                   .n = q->n,
                   .ndy = 1,
                   .in = q->in,
                   .dy = &t,
                   .y = q->y,
                   .want = want,
                   .out = out};
  for (size_t k = 0; k < q->n; k++) {
    want[k] = k == i;
    out[k] = NULL;
  }
  if (!t || !operand_adjoints(&d)) return false;
  if (!out[i]) return true;
  anf_node *c = anfi_ad_apply2(ad, q->g, ANF_OP_CastLike, out[i], q->y);
  return c && (q->ty[0] = anfi_ad_add(ad, q->g, q->ty[0], c)) != NULL;
}

static bool apply_elementwise(const forward *q) {
  bool *want = ANFI_NEW_N(q->ad->arena, bool, q->n);
  anf_node **out = ANFI_NEW_N(q->ad->arena, anf_node *, q->n);
  for (size_t i = 0; i < q->n; i++)
    if (q->tin[i] && !add_partial(q, i, want, out)) return false;
  if (!q->ty[0]) return true;
  const anf_type *t = anfi_ad_type_of(q->ad, q->ty[0]);
  if (t == q->type && !has_unknown(t)) return true;
  return (q->ty[0] = fit(q->ad, q->g, q->ty[0], q->y, true)) != NULL;
}

/* ---- the transpose of a reverse derivative ---- */

typedef struct {
  const forward *q;
  uint32_t base, first,
      last;        // node ids: the unknown dy, the first and the last node of the pullback
  anf_node ***cot; // by id - base: one a place of the node's type; NULL: none yet
  bool *linear;    // by id - base: does it depend on dy?
} transpose;

static bool is_part(const transpose *t, const anf_node *n) {
  return n->id >= t->base && n->id < t->last && t->linear[n->id - t->base];
}

static bool add_to(transpose *t, const anf_node *n, size_t place, anf_node *c) {
  if (!c || !is_part(t, n)) return true;
  anf_node ***at = &t->cot[n->id - t->base];
  if (!*at) *at = ANFI_NEW_N(t->q->ad->arena, anf_node *, places_of(n->type));
  return ((*at)[place] = anfi_ad_sum(t->q->ad, t->q->g, (*at)[place], c)) != NULL;
}

static bool step_back(transpose *t, anf_node *n) {
  anfi_ad *ad = t->q->ad;
  anf_node *const *c = t->cot[n->id - t->base];
  if (n->op == ANF_OP_TupleGet) {
    size_t k = (size_t)anfi_get_i64(anfi_attr_value(ad->m->cx, ANF_OP_TupleGet, n->u.attrs, 0), 0);
    return add_to(t, n->in[0].def, k, c[0]);
  }
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, n->nin),
           **out = ANFI_NEW_N(ad->arena, anf_node *, n->nin);
  bool *want = ANFI_NEW_N(ad->arena, bool, n->nin);
  for (uint32_t i = 0; i < n->nin; i++) {
    in[i] = n->in[i].def;
    want[i] = is_part(t, in[i]);
  }
  if (!anfi_vjp_op(ad, t->q->g, n, in, n, places_of(n->type), c, want, out)) return false;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!add_to(t, in[i], 0, out[i])) return false;
  return true;
}

static void mark_linear(transpose *t) {
  const anf_module *m = t->q->ad->m;
  for (uint32_t id = t->first; id < t->last; id++) {
    const anf_node *n = m->nodes.at[id];
    for (uint32_t i = 0; n && n->graph == t->q->g && i < n->nin; i++)
      t->linear[id - t->base] |= is_part(t, n->in[i].def);
  }
}

/* Removes the pullback for the unknown dy; a guard that reads dy reads ones. */
static bool clear(transpose *t, anf_node *const *dy, size_t n) {
  anfi_ad *ad = t->q->ad;
  for (uint32_t id = t->last; id-- > t->first;) {
    anf_node *p = ad->m->nodes.at[id];
    if (p && t->linear[id - t->base] && !anfi_is_used(p)) anfi_delete(p);
  }
  for (size_t k = 0; k < n; k++) {
    if (!dy[k]) continue;
    if (anfi_is_used(dy[k])) {
      anf_node *y = n > 1 ? item(ad, t->q->g, t->q->y, k) : t->q->y;
      anf_node *ones = y ? anfi_ad_ones(ad, t->q->g, y) : NULL;
      if (!ones) return false;
      anfi_replace(dy[k], ones);
    }
    anfi_delete(dy[k]);
  }
  return true;
}

static bool sweep(transpose *t, anf_node *const *out) {
  const forward *q = t->q;
  size_t n = t->last - t->base;
  t->cot = ANFI_NEW_N(q->ad->arena, anf_node **, n);
  mark_linear(t);
  for (size_t i = 0; i < q->n; i++)
    if (out[i] && !add_to(t, out[i], 0, q->tin[i])) return false;
  for (uint32_t id = t->last; id-- > t->first;) {
    anf_node *p = q->ad->m->nodes.at[id];
    if (p && t->linear[id - t->base] && t->cot[id - t->base] && !step_back(t, p)) return false;
  }
  return true;
}

static bool apply_transposed(const forward *q) {
  anfi_ad *ad = q->ad;
  size_t np = places_of(q->type);
  transpose t = {.q = q, .base = (uint32_t)ad->m->nodes.n};
  anf_node **dy = ANFI_NEW_N(ad->arena, anf_node *, np),
           **out = ANFI_NEW_N(ad->arena, anf_node *, q->n);
  bool *want = ANFI_NEW_N(ad->arena, bool, q->n);
  for (size_t k = 0; k < np; k++) {
    if (!anfi_ad_varies(place_type(q->type, k))) continue;
    dy[k] = anfi_apply(q->g, ANF_OP_Undef, NULL, 0, NULL); // in place of any dy
    dy[k]->type = place_type(q->type, k);
  }
  t.first = (uint32_t)ad->m->nodes.n;
  for (size_t i = 0; i < q->n; i++) want[i] = q->tin[i] != NULL;
  if (!anfi_vjp_op(ad, q->g, q->primal, q->in, q->y, np, dy, want, out)) return false;
  t.last = (uint32_t)ad->m->nodes.n;
  t.linear = ANFI_NEW_N(ad->arena, bool, t.last - t.base);
  for (uint32_t id = t.base; id < t.first; id++) t.linear[id - t.base] = true;
  if (!sweep(&t, out)) return false;
  for (size_t k = 0; k < np; k++)
    if (dy[k] && t.cot[dy[k]->id - t.base]) q->ty[k] = t.cot[dy[k]->id - t.base][0];
  return clear(&t, dy, np);
}

bool anfi_jvp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, anf_node *const *tin, anf_node **ty) {
  forward q = {.ad = ad,
               .g = g,
               .primal = primal,
               .n = anfi_arg_count(primal),
               .in = in,
               .tin = tin,
               .y = y,
               .type = anfi_ad_type_of(ad, y),
               .ty = ty};
  for (size_t k = 0; k < places_of(q.type); k++) ty[k] = NULL;
  if (all_zero(q.n, tin) || !anfi_ad_varies(q.type)) return true;
  look_at(ad, primal);
  if (is_linear(&q)) return apply_linear(&q);
  return is_elementwise(&q) ? apply_elementwise(&q) : apply_transposed(&q);
}
