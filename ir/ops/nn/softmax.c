// SPDX-License-Identifier: Apache-2.0
/* Softmax, LogSoftmax and CrossEntropy, relative to the greatest element, so that exp does not overflow.
 *
 *     Softmax(x) = exp(x - max) / sum(exp(x - max))     LogSoftmax(x) = x - max - log(sum(exp(x - max)))
 *
 * Computed in double and rounded once. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

bool anfi_infer_softmax(anfi_infer *q) {
  anf_dtype d;
  uint32_t mask;
  if (!anfi_infer_real(q, 0, 1, &d)) return false;
  if (!anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

static size_t without(const anf_type *t, size_t axis, int64_t *dims) {
  size_t n = 0;
  for (size_t k = 0; k < t->n; k++)
    if (k != axis) dims[n++] = t->dims[k];
  return n;
}

bool anfi_infer_cross_entropy(anfi_infer *q) {
  anf_dtype d;
  size_t axis = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real(q, 0, 1, &d)) return false;
  if (!anfi_is_tensor(q->in[1])) return anfi_infer_real(q, 1, 2, &d);
  const anf_type *x = q->in[0], *y = q->in[1];
  if (!anfi_infer_axis(q, q->attr[0], x->n, &axis)) return false;
  size_t rank = without(x, axis, dims);
  if (anfi_dtype_is_float((anf_dtype)y->dtype)) {
    if (!anfi_infer_shape_is(q, 1, x->n, x->dims)) return false;
    anfi_dtype_promote(d, (anf_dtype)y->dtype, &d);
  } else {
    if (!anfi_dtype_is_int((anf_dtype)y->dtype))
      return anfi_infer_fail(q, "labels are integers or probabilities");
    if (!anfi_infer_shape_is(q, 1, rank, dims)) return false;
  }
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank, dims));
}

/* ---- evaluation ---- */

static double greatest(const double *x, const size_t *at, size_t n) {
  double m = -INFINITY;
  for (size_t k = 0; k < n; k++)
    if (x[at[k]] > m || x[at[k]] != x[at[k]]) m = x[at[k]];
  return m;
}

/* Log of the sum of exponentials; NaN if one is inf, for its share is then not known. */
static double log_sum_exp(const double *x, const size_t *at, size_t n) {
  double m = greatest(x, at, n), sum = 0.0;
  if (isinf(m)) return m < 0.0 ? m : NAN;
  for (size_t k = 0; k < n; k++) sum += exp(x[at[k]] - m);
  return m + log(sum);
}

bool anfi_eval_softmax(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], m = greatest(p, g.at, g.size), sum = 0.0;
    for (size_t k = 0; k < g.size; k++) sum += p[g.at[k]] = exp(p[g.at[k]] - m);
    for (size_t k = 0; k < g.size; k++) p[g.at[k]] /= sum;
  }
  return anfi_store_f64(q->out, x);
}

bool anfi_eval_log_softmax(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], l = log_sum_exp(p, g.at, g.size);
    for (size_t k = 0; k < g.size; k++) p[g.at[k]] -= l;
  }
  return anfi_store_f64(q->out, x);
}

static bool label_loss(anfi_eval *q, size_t i, const double *x, const anfi_groups *g,
                       double *loss) {
  int64_t label = anfi_get_i64(q->in[1], i), skip;
  if (anfi_attr_given(q->attr[1]) && anfi_value_is_int(q->attr[1], &skip) && skip == label)
    return *loss = 0.0, true;
  if ((uint64_t)label >= g->size)
    return anfi_fail(q->cx, q->loc, ANF_E0443, (long long)label, g->size);
  *loss = log_sum_exp(x, g->at, g->size) - x[g->at[label]];
  return true;
}

/* A class of probability 0 adds nothing, though its logit be -inf. */
static double dense_loss(const double *x, const double *p, const anfi_groups *g) {
  double l = log_sum_exp(x, g->at, g->size), loss = 0.0;
  for (size_t k = 0; k < g->size; k++)
    if (p[g->at[k]] != 0.0) loss += p[g->at[k]] * (l - x[g->at[k]]);
  return loss;
}

bool anfi_eval_cross_entropy(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  const double *x = anfi_load_f64(q->scratch, q->in[0]);
  bool dense = anfi_dtype_is_float((anf_dtype)q->in[1]->type->dtype);
  const double *p = dense ? anfi_load_f64(q->scratch, q->in[1]) : NULL;
  anfi_groups g = anfi_groups_of(q->scratch, t, anfi_axes_mask(q->attr[0], t->n));
  for (size_t i = 0; i < g.count; i++) {
    double loss = 0.0;
    if (dense) loss = dense_loss(x + g.base[i], p + g.base[i], &g);
    else if (!label_loss(q, i, x + g.base[i], &g, &loss)) return false;
    anfi_set_f64(q->out, i, loss);
  }
  return true;
}
