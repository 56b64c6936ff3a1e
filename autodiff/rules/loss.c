// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of cross entropy and attention.
 *   y = -log softmax(x)[t]               dx = (softmax(x) - onehot(t)) * dy */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

#include <math.h>

/* The loss of examples with the label `ignore` is constant. */
static anf_node *counted_dy(anfi_derive *q) {
  int64_t ignore;
  if (anfi_ad_varies(anfi_derive_type(q, 1)) ||
      !anfi_value_is_int(anfi_derive_attr(q, "ignore"), &ignore))
    return q->dy[0];
  anf_node *in = anfi_ad_const(q->ad, anfi_value_new_i64(q->ad->m->cx, ANF_I64, ignore));
  return anfi_derive_build(q, "(Where (Equal labels @0) 0 dy)", &in, 0, NULL);
}

bool anfi_vjp_cross_entropy(anfi_derive *q) { // logits labels
  const anf_type *t = anfi_derive_type(q, 0);
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(anfi_derive_attr(q, "axis")), t->n, &axis);
  anf_node *d = counted_dy(q);
  if (d) d = anfi_derive_build(q, "(ExpandDims @0 axis=axis)", &d, 0, NULL);
  if (!d) return false;
  if (anfi_ad_varies(anfi_derive_type(q, 1))) {
    q->out[0] = anfi_derive_build(q,
                                  "(Mul @0 (Sub (Mul (Softmax logits axis=axis) (Sum labels "
                                  "axis=axis keepdims=true)) labels))",
                                  &d, 0, NULL);
    if (anfi_derive_wants(q, 1))
      q->out[1] = anfi_derive_build(q, "(Neg (Mul @0 (LogSoftmax logits axis=axis)))", &d, 0, NULL);
    return q->out[0] && (q->out[1] || !anfi_derive_wants(q, 1));
  }
  if (t->dims[axis] < 0) return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_MISSING);
  anf_value *n = anfi_derive_int(q, t->dims[axis]);
  q->out[0] = anfi_derive_build(q,
                                "(Mul @0 (Sub (Softmax logits axis=axis) (CastLike (OneHot labels "
                                "depth=$0 axis=axis) dy)))",
                                &d, 1, &n);
  return q->out[0] != NULL;
}

/* ---- attention: q k v mask? ---- */

static double least(anf_dtype d) {
  return d == ANF_F16 ? -65504.0 : d == ANF_BF16 || d == ANF_F32 ? -3e38 : -1e308;
}

/* The mask of keys for each query, as bools, or NULL with *all set when nothing is masked. */
static anf_node *allowed(anfi_derive *q, bool *all) {
  const anf_type *a = anfi_derive_type(q, 0), *k = anfi_derive_type(q, 1);
  anf_node *in[2] = {NULL, NULL};
  *all = false;
  if (anfi_attr_bool(anfi_derive_attr(q, "causal"))) {
    int64_t dims[2] = {a->dims[a->n - 2], k->dims[k->n - 2]};
    if (!anfi_derive_static(q, 0) || !anfi_derive_static(q, 1)) return NULL;
    in[0] = anfi_ad_full(q->ad, q->g, anfi_type_tensor(q->ad->m->cx, ANF_BOOL, 2, dims), 1);
    if (!in[0] || !(in[0] = anfi_derive_build(q, "(Tril @0)", in, 0, NULL))) return NULL;
  }
  if (anfi_derive_given(q, 3)) {
    in[1] = q->in[3];
    if (anfi_ad_varies(anfi_derive_type(q, 3))) { // -inf is added where nothing is to be seen
      anf_dtype d = (anf_dtype)anfi_derive_type(q, 3)->dtype;
      in[1] = anfi_ad_apply2(q->ad, q->g, ANF_OP_Greater, q->in[3],
                             anfi_ad_number(q->ad, d, -INFINITY));
    }
    if (!in[1]) return NULL;
  }
  *all = !in[0] && !in[1];
  if (!in[0] || !in[1]) return in[0] ? in[0] : in[1];
  return anfi_ad_apply2(q->ad, q->g, ANF_OP_LogicalAnd, in[0], in[1]);
}

static anf_node *scale_of(const anfi_derive *q) {
  const anf_value *s = anfi_derive_attr(q, "scale");
  const anf_type *t = anfi_derive_type(q, 0);
  double x = anfi_attr_given(s) ? anfi_attr_float(s) : 1 / sqrt((double)t->dims[t->n - 1]);
  return anfi_ad_number(q->ad, (anf_dtype)anfi_ad_type_of(q->ad, q->y)->dtype, x);
}

/* How much of each value a query takes; 0 everywhere for one that may see nothing. */
static anf_node *weights(anfi_derive *q, anf_node *scale) {
  bool all;
  anf_node *may = allowed(q, &all);
  anf_node *s = anfi_derive_build(q, "(Mul (MatMul q k tb=true) @0)", &scale, 0, NULL);
  if (!s || (!may && !all)) return NULL;
  if (anfi_derive_given(q, 3) && anfi_ad_varies(anfi_derive_type(q, 3)))
    s = anfi_ad_apply2(q->ad, q->g, ANF_OP_Add, s, q->in[3]);
  if (!s) return NULL;
  if (all) return anfi_derive_build(q, "(Softmax @0)", &s, 0, NULL);
  anf_dtype d = (anf_dtype)anfi_ad_type_of(q->ad, s)->dtype;
  anf_node *in[3] = {may, s, anfi_ad_number(q->ad, d, least(d))};
  return anfi_derive_build(q, "(Where @0 (Softmax (Where @0 @1 @2)) 0)", in, 0, NULL);
}

/* The weights are there, and the derivative reads them: the value is made of them too, so that they
 * are computed once. Not where that saves much more than their operands. */
static bool reuse_weights(anfi_derive *q, anf_node *w) {
  enum { MOST = 4 }; // times the width of a query
  const anf_type *t = anfi_derive_type(q, 0), *k = anfi_derive_type(q, 1);
  int64_t keys = k->dims[k->n - 2];
  bool wide = t->dtype == ANF_F32 || t->dtype == ANF_F64;
  if (!wide || keys < 0 || keys > MOST * t->dims[t->n - 1]) return true;
  if (!anfi_is_op(q->y, ANF_OP_Attention) || q->y->graph != q->g)
    return true; // saved by another node
  anf_node *y = anfi_derive_build(q, "(MatMul @0 v)", &w, 0, NULL);
  if (!y || y->type != q->y->type) return y != NULL;
  anfi_replace(q->y, y);
  return true;
}

bool anfi_vjp_attention(anfi_derive *q) {
  const anf_type *t = anfi_derive_type(q, 0);
  if (t->dims[t->n - 1] < 0)
    return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_MISSING);
  anf_node *scale = scale_of(q), *in[3] = {weights(q, scale), NULL, NULL};
  if (!in[0] || !reuse_weights(q, in[0])) return false;
  if (anfi_derive_wants(q, 2))
    q->out[2] = anfi_derive_build(q, "(MatMul @0 dy ta=true)", in, 0, NULL);
  in[1] = anfi_derive_build0(q, "(MatMul dy v tb=true)");
  if (!in[1]) return false;
  in[1] = anfi_derive_build(q, "(Mul @0 (Sub @1 (Sum (Mul @1 @0) axis=-1 keepdims=true)))", in, 0,
                            NULL);
  if (!in[1]) return false;
  if (anfi_derive_wants(q, 3)) q->out[3] = in[1];
  in[2] = scale;
  anf_node *s = anfi_derive_build(q, "(Mul @1 @2)", in, 0, NULL);
  if (!s) return false;
  q->out[0] = anfi_derive_build(q, "(MatMul @0 k)", &s, 0, NULL);
  q->out[1] = anfi_derive_build(q, "(MatMul @0 q ta=true)", &s, 0, NULL);
  return q->out[0] && q->out[1] && (q->out[2] || !anfi_derive_wants(q, 2));
}
