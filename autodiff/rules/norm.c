// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of normalisations. With h the normalised x, r the factor that scaled it, g = dy * scale:
 *   dx = r (g - mean(g) - h mean(g h)) */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

/* A vector, or dims along axes of the mask, as they stand in x. */
static anf_node *along(anfi_derive *q, anf_node *v, uint32_t mask) {
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t k = 0; k < t->n; k++) dims[k] = mask >> k & 1 ? t->dims[k] : 1;
  return anfi_derive_reshape(q, v, t->n, dims);
}

/* The axes that are not in the mask, as an attribute. */
static anf_value *others(anfi_derive *q, uint32_t mask) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0;
  for (uint32_t k = 0; k < anfi_derive_type(q, 0)->n; k++)
    if (!(mask >> k & 1)) axes[n++] = (int64_t)k;
  return anfi_derive_ints(q, n, axes);
}

/* dy times the scale, if there is one. */
static anf_node *scaled_dy(anfi_derive *q, uint32_t mask) {
  anf_node *s = anfi_derive_given(q, 1) ? along(q, q->in[1], mask) : NULL;
  if (!s) return anfi_derive_given(q, 1) ? NULL : q->dy[0];
  return anfi_derive_build(q, "(Mul dy @0)", &s, 0, NULL);
}

/* Gradients of scale and bias, which have the dims of the mask; h is the normalised x. */
static bool affine(anfi_derive *q, anf_node *h, uint32_t mask) {
  if (anfi_derive_wants(q, 1)) {
    anf_value *v = others(q, mask);
    q->out[1] = anfi_derive_build(q, "(Sum (Mul dy @0) axis=$0)", &h, 1, &v);
    if (!q->out[1]) return false;
  }
  if (!anfi_derive_wants(q, 2)) return true;
  anf_value *v = others(q, mask);
  return (q->out[2] = anfi_derive_build(q, "(Sum dy axis=$0)", NULL, 1, &v)) != NULL;
}

/* in: r, h, g; means along the axes. */
static anf_node *centred(anfi_derive *q, anf_node *const *in, anf_value *axes) {
  if (!in[0] || !in[1] || !in[2]) return NULL;
  return anfi_derive_build(q,
                           "(Mul @0 (Sub (Sub @2 (Mean @2 axis=$0 keepdims=true)) (Mul @1 (Mean "
                           "(Mul @2 @1) axis=$0 keepdims=true))))",
                           in, 1, &axes);
}

static anf_value *again(const anfi_derive *q, const char *attr) {
  anf_value *v = anf_value_retain(anfi_derive_attr(q, attr));
  anfi_value_guard(v);
  return v;
}

bool anfi_vjp_layer_norm(anfi_derive *q) { // x scale? bias?
  if (!anfi_derive_static(q, 0)) return false;
  uint32_t mask = anfi_axes_mask(anfi_derive_attr(q, "axis"), anfi_derive_type(q, 0)->n);
  bool plain = !anfi_derive_given(q, 1) && !anfi_derive_given(q, 2);
  anf_node *in[3] = {anfi_derive_build0(q, "(Rsqrt (Add (Var x axis=axis keepdims=true) eps))"),
                     NULL, NULL};
  if (!in[0]) return false;
  in[1] = plain ? q->y
                : anfi_derive_build(q, "(Mul (Sub x (Mean x axis=axis keepdims=true)) @0)", in, 0,
                                    NULL);
  if (!in[1] || !affine(q, in[1], mask)) return false;
  if (!anfi_derive_wants(q, 0)) return true;
  in[2] = scaled_dy(q, mask);
  return (q->out[0] = centred(q, in, again(q, "axis"))) != NULL;
}

bool anfi_vjp_rms_norm(anfi_derive *q) { // x scale?
  if (!anfi_derive_static(q, 0)) return false;
  uint32_t mask = anfi_axes_mask(anfi_derive_attr(q, "axis"), anfi_derive_type(q, 0)->n);
  anf_node *in[3] = {
      anfi_derive_build0(q, "(Rsqrt (Add (Mean (Square x) axis=axis keepdims=true) eps))"), NULL,
      NULL};
  if (!in[0]) return false;
  in[1] = anfi_derive_given(q, 1) ? anfi_derive_build(q, "(Mul x @0)", in, 0, NULL) : q->y;
  if (!in[1] || !affine(q, in[1], mask)) return false;
  if (!anfi_derive_wants(q, 0)) return true;
  in[2] = scaled_dy(q, mask);
  if (in[2])
    q->out[0] = anfi_derive_build(
        q, "(Mul @0 (Sub @2 (Mul @1 (Mean (Mul @2 @1) axis=axis keepdims=true))))", in, 0, NULL);
  return q->out[0] != NULL;
}

/* Below eps the divisor is constant. */
#define LENGTH "(Sqrt (Sum (Square x) axis=axis keepdims=true))"
bool anfi_vjp_l2_normalize(anfi_derive *q) {
  q->out[0] = anfi_derive_build0(
      q, "(Div (Sub dy (Where (Greater " LENGTH
         " eps) (Mul y (Sum (Mul dy y) axis=axis keepdims=true)) 0)) (Maximum " LENGTH " eps))");
  return q->out[0] != NULL;
}

/* ---- with statistics of a channel ---- */

static uint32_t channel(const anfi_derive *q) {
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(anfi_derive_attr(q, "axis")), anfi_derive_type(q, 0)->n, &axis);
  return UINT32_C(1) << axis;
}

bool anfi_vjp_batch_norm(anfi_derive *q) { // x scale bias mean var
  if (!anfi_derive_static(q, 0)) return false;
  uint32_t mask = channel(q);
  anf_node *r = anfi_derive_build0(q, "(Rsqrt (Add var eps))"), *m = along(q, q->in[3], mask),
           *pair[2] = {r, NULL};
  if (!r || !m) return false;
  pair[1] = along(q, r, mask);
  anf_node *three[2] = {m, pair[1]};
  anf_node *h = pair[1] ? anfi_derive_build(q, "(Mul (Sub x @0) @1)", three, 0, NULL) : NULL;
  anf_node *factor = anfi_derive_build(q, "(Mul scale @0)", pair, 0, NULL);
  if (!h || !factor) return false;
  if (anfi_derive_wants(q, 0)) {
    anf_node *f = along(q, factor, mask);
    if (!f || !(q->out[0] = anfi_derive_build(q, "(Mul dy @0)", &f, 0, NULL))) return false;
  }
  anf_value *v[2] = {others(q, mask), others(q, mask)};
  anf_node *in[4] = {factor, anfi_derive_build(q, "(Sum dy axis=$0)", NULL, 1, v),
                     anfi_derive_build(q, "(Sum (Mul dy @0) axis=$0)", &h, 1, v + 1), r};
  if (!in[1] || !in[2]) return false;
  q->out[1] = in[2];
  q->out[2] = in[1];
  q->out[3] = anfi_derive_build(q, "(Neg (Mul @0 @1))", in, 0, NULL);
  q->out[4] = anfi_derive_build(q, "(Mul -0.5 (Mul (Mul @0 @3) @2))", in, 0, NULL);
  return q->out[3] && q->out[4];
}

static anf_node *item(anfi_derive *q, int64_t k) {
  anf_value *v = anfi_derive_int(q, k);
  return anfi_derive_build(q, "(TupleGet y index=$0)", NULL, 1, &v);
}

/* Adjoints of the statistics themselves. */
static bool statistics(anfi_derive *q, uint32_t mask, anf_node *distance) {
  size_t n = 1;
  const anf_type *t = anfi_derive_type(q, 0);
  for (uint32_t k = 0; k < t->n; k++) n *= mask >> k & 1 ? 1 : (size_t)t->dims[k];
  for (size_t k = 1; k < 3; k++) {
    if (!q->dy[k]) continue;
    anf_node *in[3] = {along(q, q->dy[k], mask), distance, NULL};
    in[2] = anfi_ad_number(q->ad, (anf_dtype)anfi_ad_type_of(q->ad, q->dy[k])->dtype,
                           (double)k / (double)n);
    if (!in[0]) return false;
    anf_node *d = k == 1 ? anfi_derive_build(q, "(BroadcastLike (Mul @0 @2) x)", in, 0, NULL)
                         : anfi_derive_build(q, "(Mul (Mul @0 @2) @1)", in, 0, NULL);
    if (!d || !(q->out[0] = anfi_ad_add(q->ad, q->g, q->out[0], d))) return false;
  }
  return true;
}

bool anfi_vjp_batch_norm_train(anfi_derive *q) { // x scale bias -> (y, mean, var)
  if (!anfi_derive_static(q, 0)) return false;
  uint32_t mask = channel(q);
  anf_node *mean = item(q, 1), *var = item(q, 2);
  if (!mean || !var || !(mean = along(q, mean, mask)) || !(var = along(q, var, mask))) return false;
  anf_node *distance = anfi_derive_build(q, "(Sub x @0)", &mean, 0, NULL);
  if (!distance || (anfi_derive_wants(q, 0) && !statistics(q, mask, distance))) return false;
  if (!q->dy[0]) return true;
  anf_node *in[3] = {anfi_derive_build(q, "(Rsqrt (Add @0 eps))", &var, 0, NULL), NULL, NULL};
  anf_node *pair[2] = {distance, in[0]};
  in[1] = in[0] ? anfi_derive_build(q, "(Mul @0 @1)", pair, 0, NULL) : NULL;
  if (!in[1] || !affine(q, in[1], mask)) return false;
  if (!anfi_derive_wants(q, 0)) return true;
  in[2] = scaled_dy(q, mask);
  anf_node *d = centred(q, in, others(q, mask));
  return d && (q->out[0] = anfi_ad_add(q->ad, q->g, q->out[0], d)) != NULL;
}

/* ---- groups of channels, each example by itself: [n, groups, the rest] ---- */

bool anfi_vjp_group_norm(anfi_derive *q) { // x scale? bias?
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t dims[3] = {t->dims[0], t->dims[1], 1};
  if (q->op == ANF_OP_GroupNorm) dims[1] = anfi_attr_int(anfi_derive_attr(q, "groups"));
  dims[2] = dims[1] ? t->dims[1] / dims[1] : 0;
  for (uint32_t k = 2; k < t->n; k++) dims[2] *= t->dims[k];
  anf_node *x = anfi_derive_reshape(q, q->in[0], 3, dims), *in[3] = {NULL}, *pair[2] = {x, NULL};
  if (x)
    in[0] = anfi_derive_build(q, "(Rsqrt (Add (Var @0 axis=2 keepdims=true) eps))", &x, 0, NULL);
  pair[1] = in[0];
  if (in[0])
    in[1] = anfi_derive_build(q, "(Mul (Sub @0 (Mean @0 axis=2 keepdims=true)) @1)", pair, 0, NULL);
  anf_node *h = in[1] ? anfi_derive_build(q, "(ReshapeLike @0 x)", &in[1], 0, NULL) : NULL;
  if (!h || !affine(q, h, 2)) return false;
  if (!anfi_derive_wants(q, 0)) return true;
  in[2] = scaled_dy(q, 2);
  if (in[2]) in[2] = anfi_derive_reshape(q, in[2], 3, dims);
  anf_node *d = centred(q, in, anfi_derive_ints(q, 1, (int64_t[]){2}));
  if (d) q->out[0] = anfi_derive_build(q, "(ReshapeLike @0 x)", &d, 0, NULL);
  return q->out[0] != NULL;
}
