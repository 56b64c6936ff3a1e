// SPDX-License-Identifier: Apache-2.0
/* Normalisations: y = (x - mean) / sqrt(var + eps) * scale + bias, over different groups of elements.
 *
 *     LayerNorm: along given axes     BatchNorm: per channel     GroupNorm: per batch entry and group
 *
 * Mean and variance take two passes in double, with one rounding at the end. The variance is that of the
 * whole population (divided by n), also in the result of BatchNormTrain. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

/* Dims along the axes of the mask, in order. */
static size_t dims_along(const anf_type *t, uint32_t mask, int64_t *dims) {
  size_t n = 0;
  for (uint32_t k = 0; k < t->n; k++)
    if (mask >> k & 1) dims[n++] = t->dims[k];
  return n;
}

bool anfi_infer_layer_norm(anfi_infer *q) { // x scale? bias?; axis is attribute 0
  anf_dtype d;
  uint32_t mask;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real(q, 0, 3, &d)) return false;
  if (!anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask)) return false;
  size_t n = dims_along(q->in[0], mask, dims);
  if (!anfi_infer_shape_is(q, 1, n, dims) || !anfi_infer_shape_is(q, 2, n, dims)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

static bool channels(anfi_infer *q, size_t axis, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (!anfi_infer_shape_is(q, i, 1, &q->in[0]->dims[axis])) return false;
  return true;
}

bool anfi_infer_batch_norm(anfi_infer *q) { // x scale bias mean var; axis is attribute 0
  anf_dtype d;
  size_t axis = 0;
  if (!anfi_infer_real(q, 0, 5, &d)) return false;
  if (!anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis) || !channels(q, axis, 1, 5)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_batch_norm_train(anfi_infer *q) { // x scale bias -> (y, mean, var)
  anf_dtype d;
  size_t axis = 0;
  if (!anfi_infer_real(q, 0, 3, &d)) return false;
  if (!anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis) || !channels(q, axis, 1, 3)) return false;
  const anf_type *stat = anfi_type_tensor(q->cx, d, 1, &q->in[0]->dims[axis]);
  const anf_type *items[3] = {anfi_type_with_dtype(q->cx, q->in[0], d), stat, stat};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 3, items));
}

bool anfi_infer_group_norm(anfi_infer *q) { // x scale? bias?; groups is attribute 0
  anf_dtype d;
  if (!anfi_infer_real(q, 0, 3, &d)) return false;
  if (q->in[0]->n < 2) return anfi_infer_fail(q, "x must have a batch and a channel dim");
  int64_t c = q->in[0]->dims[1], groups = q->op == ANF_OP_GroupNorm ? anfi_attr_int(q->attr[0]) : 1;
  if (groups < 1 || (c >= 0 && c % groups))
    return anfi_infer_fail(q, "groups must divide the number of channels");
  if (!channels(q, 1, 1, 3)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

/* ---- evaluation: statistics ---- */

static double mean_of(const double *x, const size_t *at, size_t n) {
  double sum = 0.0;
  for (size_t k = 0; k < n; k++) sum += x[at[k]];
  return sum / (double)n;
}

static double variance_of(const double *x, const size_t *at, size_t n, double mean) {
  double sum = 0.0;
  for (size_t k = 0; k < n; k++) sum += (x[at[k]] - mean) * (x[at[k]] - mean);
  return sum / (double)n;
}

static double *load_given(anfi_eval *q, size_t i) {
  const anf_value *v = anfi_eval_given(q, i);
  return v ? anfi_load_f64(q->scratch, v) : NULL;
}

/* Element k of the group with the k-th scale and bias. */
static void scale_shift(double *x, const anfi_groups *g, const double *scale, const double *bias) {
  for (size_t k = 0; k < g->size; k++) {
    if (scale) x[g->at[k]] *= scale[k];
    if (bias) x[g->at[k]] += bias[k];
  }
}

static void standardize(double *x, const anfi_groups *g, double mean, double var, double eps) {
  double s = 1.0 / sqrt(var + eps);
  for (size_t k = 0; k < g->size; k++) x[g->at[k]] = (x[g->at[k]] - mean) * s;
}

bool anfi_eval_layer_norm(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]), eps = anfi_attr_float(q->attr[1]);
  const double *scale = load_given(q, 1), *bias = load_given(q, 2);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], mean = mean_of(p, g.at, g.size);
    standardize(p, &g, mean, variance_of(p, g.at, g.size, mean), eps);
    scale_shift(p, &g, scale, bias);
  }
  return anfi_store_f64(q->out, x);
}

bool anfi_eval_rms_norm(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]), eps = anfi_attr_float(q->attr[1]);
  const double *scale = load_given(q, 1);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], square = variance_of(p, g.at, g.size, 0.0);
    standardize(p, &g, 0.0, square, eps);
    scale_shift(p, &g, scale, NULL);
  }
  return anfi_store_f64(q->out, x);
}

bool anfi_eval_l2_normalize(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]), eps = anfi_attr_float(q->attr[1]);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], square = 0.0;
    for (size_t k = 0; k < g.size; k++) square += p[g.at[k]] * p[g.at[k]];
    double norm = sqrt(square), by = norm < eps ? eps : norm;
    for (size_t k = 0; k < g.size; k++) p[g.at[k]] /= by;
  }
  return anfi_store_f64(q->out, x);
}

/* ---- evaluation: one scale and bias per channel ---- */

static anfi_groups channels_of(anfi_eval *q, const anf_value *axis_attr) {
  const anf_type *t = q->in[0]->type;
  uint32_t axis = anfi_axes_mask(axis_attr, t->n), all = (UINT32_C(1) << t->n) - 1;
  return anfi_groups_of(q->scratch, t, all & ~axis);
}

bool anfi_eval_batch_norm(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]), eps = anfi_attr_float(q->attr[1]);
  const double *scale = load_given(q, 1), *bias = load_given(q, 2), *mean = load_given(q, 3),
               *var = load_given(q, 4);
  anfi_groups g = channels_of(q, q->attr[0]);
  for (size_t c = 0; c < g.count; c++)
    for (size_t k = 0; k < g.size; k++) {
      double *p = x + g.base[c] + g.at[k];
      *p = (*p - mean[c]) / sqrt(var[c] + eps) * scale[c] + bias[c];
    }
  return anfi_store_f64(q->out, x);
}

bool anfi_eval_batch_norm_train(anfi_eval *q) {
  double *x = anfi_load_f64(q->scratch, q->in[0]), eps = anfi_attr_float(q->attr[1]);
  const double *scale = load_given(q, 1), *bias = load_given(q, 2);
  anfi_groups g = channels_of(q, q->attr[0]);
  q->out = anfi_value_new_tuple(q->cx, 3);
  anf_value **part = q->out->u.item; // y, mean, variance
  for (size_t i = 0; i < 3; i++) part[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
  for (size_t c = 0; c < g.count; c++) {
    double *p = x + g.base[c], mean = mean_of(p, g.at, g.size),
           var = variance_of(p, g.at, g.size, mean);
    anfi_set_f64(part[1], c, mean);
    anfi_set_f64(part[2], c, var);
    for (size_t k = 0; k < g.size; k++)
      p[g.at[k]] = (p[g.at[k]] - mean) / sqrt(var + eps) * scale[c] + bias[c];
  }
  anfi_store_f64(part[0], x);
  return true;
}

/* Group and instance norm: x is [batch, groups, rest] where rest holds whole channels. */
static bool grouped(anfi_eval *q, size_t groups, double eps) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  const double *scale = load_given(q, 1), *bias = load_given(q, 2);
  const int64_t *dims = q->type->dims;
  size_t channels = (size_t)dims[1], many = (size_t)dims[0] * groups,
         size = many ? q->out->n / many : 0;
  size_t spatial = channels ? size / (channels / groups) : 0;
  size_t *at = ANFI_NEW_N(q->scratch, size_t, size + 1);
  for (size_t k = 0; k < size; k++) at[k] = k;
  anfi_groups g = {.count = many, .size = size, .at = at};
  for (size_t i = 0; size && i < many; i++) {
    double *p = x + i * size, mean = mean_of(p, at, size);
    standardize(p, &g, mean, variance_of(p, at, size, mean), eps);
    for (size_t k = 0; k < size; k++) {
      size_t c = (i * size + k) / spatial % channels;
      if (scale) p[k] *= scale[c];
      if (bias) p[k] += bias[c];
    }
  }
  return anfi_store_f64(q->out, x);
}

bool anfi_eval_group_norm(anfi_eval *q) {
  return grouped(q, (size_t)anfi_attr_int(q->attr[0]), anfi_attr_float(q->attr[1]));
}

bool anfi_eval_instance_norm(anfi_eval *q) {
  return grouped(q, (size_t)q->type->dims[1], anfi_attr_float(q->attr[0]));
}
