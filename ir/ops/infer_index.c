// SPDX-License-Identifier: Apache-2.0
/* Result types of ops that read or write at indices. Index tensors are integers; whether the
 * indices are in range is for the kernels to see. */
#include "ir/ops/op.h"

static bool indices(const anfi_infer *q, size_t i) {
  if (anfi_dtype_is_int((anf_dtype)q->in[i]->dtype)) return true;
  return anfi_fail(q->cx, q->loc, ANF_E0546, i + 1, anfi_op[q->op].name, "integers",
                   anfi_type_text(q->cx, q->in[i]));
}

static bool agree(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

static bool shapes_are(const anfi_infer *q, size_t i, size_t rank, const int64_t *dims) {
  bool fits = q->in[i]->n == rank;
  for (size_t k = 0; fits && k < rank; k++) fits = agree(q->in[i]->dims[k], dims[k]);
  if (fits) return true;
  const anf_type *want = anfi_type_tensor(q->cx, (anf_dtype)q->in[i]->dtype, rank, dims);
  return anfi_fail(q->cx, q->loc, ANF_E0546, i + 1, anfi_op[q->op].name,
                   anfi_type_text(q->cx, want), anfi_type_text(q->cx, q->in[i]));
}

/* A write keeps the type of x: what is written must not need a wider class. */
static bool writable(const anfi_infer *q, size_t i) {
  anf_dtype x = (anf_dtype)q->in[0]->dtype, u = (anf_dtype)q->in[i]->dtype;
  bool keys = x == ANF_KEY || u == ANF_KEY;
  if (keys ? x == u
           : anfi_dtype_class(u) <= anfi_dtype_class(x) ||
                 (anfi_dtype_is_int(x) && anfi_dtype_is_int(u)))
    return true;
  return anfi_fail(q->cx, q->loc, ANF_E0546, i + 1, anfi_op[q->op].name, anf_dtype_name(x),
                   anfi_type_text(q->cx, q->in[i]));
}

static bool result_like(anfi_infer *q, size_t i) {
  q->out = q->in[i];
  return true;
}

/* ---- slices: attributes start stop step axis ---- */

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
  if (!slice_dims(q, &rank, dims) || !writable(q, 1)) return false;
  const anf_type *u = q->in[1];
  bool fits = u->n <= rank;
  for (size_t k = 0; fits && k < u->n; k++)
    fits = u->dims[k] == 1 || agree(u->dims[k], dims[rank - u->n + k]);
  if (fits) return result_like(q, 0);
  const anf_type *part = anfi_type_tensor(q->cx, (anf_dtype)q->in[0]->dtype, rank, dims);
  return anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, anfi_type_text(q->cx, u),
                   anfi_type_text(q->cx, part));
}

/* ---- whole rows: x[..., index, ...] ---- */

/* The shape of Take: index's dims stand where the axis was. */
static bool take_dims(anfi_infer *q, const anf_value *attr, size_t *rank, int64_t *dims) {
  const anf_type *x = q->in[0], *index = q->in[1];
  size_t axis = 0, n = 0;
  if (!anfi_attr_given(attr)) {
    for (size_t k = 0; k < index->n; k++) dims[n++] = index->dims[k];
  } else {
    if (!anfi_infer_axis(q, attr, x->n, &axis)) return false;
    if (x->n + index->n - 1 > ANF_MAX_RANK)
      return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
    for (size_t k = 0; k < axis; k++) dims[n++] = x->dims[k];
    for (size_t k = 0; k < index->n; k++) dims[n++] = index->dims[k];
    for (size_t k = axis + 1; k < x->n; k++) dims[n++] = x->dims[k];
  }
  *rank = n;
  return true;
}

bool anfi_infer_take(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !indices(q, 1) || !take_dims(q, q->attr[0], &rank, dims))
    return false;
  return anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, rank, dims);
}

bool anfi_infer_index_write(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !indices(q, 1) || !writable(q, 2) ||
      !take_dims(q, q->attr[0], &rank, dims))
    return false;
  return shapes_are(q, 2, rank, dims) && result_like(q, 0);
}

/* ---- single elements along an axis: index has the rank of x ---- */

static bool along(anfi_infer *q) {
  const anf_type *x = q->in[0], *index = q->in[1];
  size_t axis;
  if (!indices(q, 1) || !anfi_infer_axis(q, q->attr[0], x->n, &axis)) return false;
  bool fits = index->n == x->n;
  for (size_t k = 0; fits && k < x->n; k++) fits = k == axis || agree(x->dims[k], index->dims[k]);
  return fits || anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name, anfi_type_text(q->cx, x),
                           anfi_type_text(q->cx, index));
}

bool anfi_infer_take_along(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !along(q)) return false;
  return anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, q->in[1]->n, q->in[1]->dims);
}

bool anfi_infer_write_along(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !along(q) || !writable(q, 2)) return false;
  return shapes_are(q, 2, q->in[1]->n, q->in[1]->dims) && result_like(q, 0);
}

/* ---- index tuples in the last dim of index ---- */

static bool nd_dims(anfi_infer *q, size_t *rank, int64_t *dims) {
  const anf_type *x = q->in[0], *index = q->in[1];
  if (!indices(q, 1)) return false;
  if (!index->n || index->dims[index->n - 1] < 0)
    return anfi_infer_fail(q, "the last dim of the indices must be known");
  if (index->dims[index->n - 1] > (int64_t)x->n)
    return anfi_infer_fail(q, "there are more indices than dims");
  size_t depth = (size_t)index->dims[index->n - 1], n = 0;
  if (index->n - 1 + x->n - depth > ANF_MAX_RANK)
    return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
  for (size_t k = 0; k + 1 < index->n; k++) dims[n++] = index->dims[k];
  for (size_t k = depth; k < x->n; k++) dims[n++] = x->dims[k];
  *rank = n;
  return true;
}

bool anfi_infer_gather_nd(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  return anfi_infer_tensors(q) && nd_dims(q, &rank, dims) &&
         anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, rank, dims);
}

bool anfi_infer_scatter_nd(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !nd_dims(q, &rank, dims) || !writable(q, 2)) return false;
  return shapes_are(q, 2, rank, dims) && result_like(q, 0);
}

/* ---- slices whose start is known only when the program runs ---- */

static bool starts(const anfi_infer *q, size_t from) {
  if (q->n - from != q->in[0]->n) return anfi_infer_fail(q, "each dim needs a start");
  for (size_t i = from; i < q->n; i++)
    if (!anfi_is_scalar(q->in[i]) || !indices(q, i))
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
  if (!anfi_infer_tensors(q) || !starts(q, 2) || !writable(q, 1)) return false;
  const anf_type *t = q->in[0], *u = q->in[1];
  bool fits = u->n == t->n;
  for (size_t k = 0; fits && k < t->n; k++) fits = t->dims[k] < 0 || u->dims[k] <= t->dims[k];
  if (fits) return result_like(q, 0);
  return anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name, anfi_type_text(q->cx, t),
                   anfi_type_text(q->cx, u));
}

bool anfi_infer_one_hot(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !indices(q, 0)) return false;
  const anf_type *t = q->in[0];
  int64_t depth = anfi_attr_int(q->attr[0]), dims[ANF_MAX_RANK + 1];
  size_t axis;
  if (depth < 0) return anfi_infer_fail(q, "depth must not be negative");
  if (!anfi_infer_axis(q, q->attr[1], t->n + 1, &axis)) return false;
  for (size_t k = 0; k <= t->n; k++) dims[k] = k == axis ? depth : t->dims[k < axis ? k : k - 1];
  return anfi_infer_result(q, anfi_attr_dtype(q->attr[2]), t->n + 1, dims);
}
