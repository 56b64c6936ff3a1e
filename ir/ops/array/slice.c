// SPDX-License-Identifier: Apache-2.0
/* Slices: x[start:stop:step] along one axis by attributes, or a window of fixed size by inputs.
 *
 *     Slice(f32[6], 1, 5, 2)  ->  f32[2]     DynamicSlice(f32[6], start, sizes=(2,))  ->  f32[2]
 *
 * Bounds outside the axis clamp as in Python; a dynamic start clamps so that the whole window is inside. */
#include "ir/ops/kernel.h"

/* Python's rule: bounds outside the tuple are moved to its ends. */
static int64_t clip(int64_t i, int64_t n, int64_t low, int64_t high) {
  if (i < 0) i += n;
  return i < low ? low : i > high ? high : i;
}

size_t anfi_slice_ints(size_t len, const int64_t *from, const int64_t *to, int64_t step,
                       int64_t *start) {
  int64_t n = (int64_t)len;
  if (step == INT64_MIN) step = -INT64_MAX;
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  *start = from ? clip(*from, n, low, high) : step < 0 ? high : 0;
  int64_t stop = to ? clip(*to, n, low, high) : step < 0 ? -1 : n;
  if (step > 0) return *start < stop ? (size_t)((stop - *start - 1) / step) + 1 : 0;
  return *start > stop ? (size_t)((*start - stop - 1) / -step) + 1 : 0;
}

size_t anfi_slice(size_t len, anf_value *const *attr, int64_t *start, int64_t *step) {
  int64_t from = anfi_attr_given(attr[0]) ? anfi_attr_int(attr[0]) : 0;
  int64_t to = anfi_attr_given(attr[1]) ? anfi_attr_int(attr[1]) : 0;
  *step = anfi_attr_int(attr[2]);
  if (*step == INT64_MIN) *step = -INT64_MAX;
  return anfi_slice_ints(len, anfi_attr_given(attr[0]) ? &from : NULL,
                         anfi_attr_given(attr[1]) ? &to : NULL, *step, start);
}

/* ---- Slice, SliceUpdate: attributes start stop step axis ---- */

static bool slice_dims(anfi_infer *q, size_t *rank, int64_t *dims) {
  const anf_type *t = q->in[0];
  size_t axis;
  int64_t start, step;
  if (!anfi_infer_tensors(q) || !anfi_infer_axis(q, q->attr[3], t->n, &axis)) return false;
  if (anfi_attr_int(q->attr[2]) == 0) return anfi_infer_fail(q, "the step must not be 0");
  *rank = t->n;
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[k];
  int64_t by = anfi_attr_int(q->attr[2]);
  bool all = !anfi_attr_given(q->attr[0]) && !anfi_attr_given(q->attr[1]) && (by == 1 || by == -1);
  if (dims[axis] >= 0) dims[axis] = (int64_t)anfi_slice((size_t)dims[axis], q->attr, &start, &step);
  else if (!all) dims[axis] = ANF_DIM_UNKNOWN;
  return true;
}

bool anfi_infer_slice(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  return slice_dims(q, &rank, dims) && anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, rank, dims);
}

/* The update broadcasts to the shape of the slice. */
bool anfi_infer_slice_update(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!slice_dims(q, &rank, dims) || !anfi_infer_writable(q, 1)) return false;
  const anf_type *u = q->in[1];
  bool fits = u->n <= rank;
  for (size_t k = 0; fits && k < u->n; k++)
    fits = u->dims[k] == 1 || anfi_infer_agree(u->dims[k], dims[rank - u->n + k]);
  if (fits) return anfi_infer_same(q);
  const anf_type *part = anfi_type_tensor(q->cx, (anf_dtype)q->in[0]->dtype, rank, dims);
  return anfi_infer_no_broadcast(q, u, part);
}

/* Start and strides of the walk over the slice of x. */
static size_t slice_walk(const anfi_eval *q, int64_t *stride, int64_t *dims) {
  const anf_type *t = q->in[0]->type;
  size_t axis;
  int64_t start, step;
  anfi_axis_in(anfi_attr_int(q->attr[3]), t->n, &axis);
  anfi_dense_strides(t->n, t->dims, stride);
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[k];
  dims[axis] = (int64_t)anfi_slice((size_t)t->dims[axis], q->attr, &start, &step);
  if (!dims[axis]) return 0;
  size_t at = (size_t)(start * stride[axis]);
  stride[axis] = dims[axis] > 1 ? stride[axis] * step : 0; // a huge step is never taken
  return at;
}

bool anfi_eval_slice(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK], dims[ANF_MAX_RANK];
  size_t start = slice_walk(q, stride, dims);
  return anfi_eval_gather(q, start, stride);
}

bool anfi_eval_slice_update(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK], dims[ANF_MAX_RANK];
  size_t start = slice_walk(q, stride, dims);
  anf_value *u = anfi_eval_converted(q, 1);
  anfi_eval_copy(q);
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, dims);
  anfi_nd_strides(&it, 0, start, stride);
  anfi_nd_broadcast(&it, 1, u->type);
  for (; it.more; anfi_nd_next(&it)) anfi_copy_element(q->out, it.at[0], u, it.at[1]);
  return true;
}

/* ---- DynamicSlice, DynamicUpdateSlice: the starts are inputs ---- */

static bool starts(const anfi_infer *q, size_t from) {
  if (q->n - from != q->in[0]->n) return anfi_infer_fail(q, "each dim needs a start");
  for (size_t i = from; i < q->n; i++)
    if (!anfi_is_scalar(q->in[i]) || !anfi_infer_indices(q, i))
      return anfi_infer_fail(q, "a start must be one integer");
  return true;
}

bool anfi_infer_dynamic_slice(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !starts(q, 1) || !anfi_infer_shape_attr(q, q->attr[0], &rank, dims))
    return false;
  const anf_type *t = q->in[0];
  bool fits = rank == t->n;
  for (size_t k = 0; fits && k < rank; k++) fits = t->dims[k] < 0 || dims[k] <= t->dims[k];
  if (!fits) return anfi_infer_fail(q, "each dim needs a size, at most that of the argument");
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
}

bool anfi_infer_dynamic_update_slice(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !starts(q, 2) || !anfi_infer_writable(q, 1)) return false;
  const anf_type *t = q->in[0], *u = q->in[1];
  bool fits = u->n == t->n;
  for (size_t k = 0; fits && k < t->n; k++) fits = t->dims[k] < 0 || u->dims[k] <= t->dims[k];
  if (fits) return anfi_infer_same(q);
  return anfi_infer_mismatch(q, t, u);
}

/* Start of a dynamic slice: clamped, so that the whole slice is inside. */
static int64_t clamped(const anf_value *start, int64_t size, int64_t dim) {
  int64_t at = anfi_get_i64(start, 0);
  if (start->type->dtype == ANF_U64 && at < 0) at = INT64_MAX;
  else if (at < 0) at = at < -dim ? 0 : at + dim;
  return at > dim - size ? dim - size : at;
}

static size_t dynamic_walk(const anfi_eval *q, size_t first, const int64_t *dims, int64_t *stride) {
  const anf_type *t = q->in[0]->type;
  int64_t at = 0;
  anfi_dense_strides(t->n, t->dims, stride);
  for (size_t k = 0; k < t->n; k++)
    at += clamped(q->in[first + k], dims[k], t->dims[k]) * stride[k];
  return (size_t)at;
}

bool anfi_eval_dynamic_slice(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK];
  size_t start = dynamic_walk(q, 1, q->type->dims, stride);
  return anfi_eval_gather(q, start, stride);
}

bool anfi_eval_dynamic_update_slice(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK];
  anf_value *u = anfi_eval_converted(q, 1);
  anfi_eval_copy(q);
  anfi_nd it;
  anfi_nd_init(&it, u->type->n, u->type->dims);
  anfi_nd_strides(&it, 0, dynamic_walk(q, 2, u->type->dims, stride), stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) anfi_copy_element(q->out, it.at[0], u, i);
  return true;
}
