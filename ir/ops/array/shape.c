// SPDX-License-Identifier: Apache-2.0
/* Shapes as values, and the same elements in another shape or order.
 *
 *     Shape(f32[2,3])  ->  (2, 3)     Reshape(f32[2,3], (3, -1))  ->  f32[3,2]     Transpose: f32[3,2]
 *
 * A copied dim that is not constant keeps its symbol; a computed one becomes unknown. Nearly all evaluation is
 * one walk over the result with strides into the argument. */
#include "ir/ops/kernel.h"

/* ---- inference: the shape as a value ---- */

bool anfi_infer_shape(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *items[ANF_MAX_RANK];
  for (size_t k = 0; k < q->in[0]->n; k++) items[k] = anfi_type_scalar(q->cx, ANF_INT);
  return anfi_infer_is(q, anfi_type_tuple(q->cx, q->in[0]->n, items));
}

bool anfi_infer_rank(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  return anfi_infer_is(q, anfi_type_scalar(q->cx, ANF_INT));
}

bool anfi_infer_len(anfi_infer *q) {
  const anf_type *t = q->in[0];
  bool composite =
      t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD || t->kind == ANF_TYPE_STRING;
  if (!composite && t->kind != ANF_TYPE_ANY && !(anfi_is_tensor(t) && t->n))
    return anfi_infer_fail(q,
                           "only a tensor with dims, a tuple, a record or a string has a length");
  return anfi_infer_is(q, anfi_type_scalar(q->cx, ANF_INT));
}

/* ---- inference: the same elements in another shape ---- */

bool anfi_infer_reshape(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  int64_t dims[ANF_MAX_RANK], have = anfi_dims_elements(q->in[0], 0, q->in[0]->n), rest = 1;
  size_t rank = anfi_attr_ints(q->attr[0], ANF_MAX_RANK, dims), open = ANF_MAX_RANK;
  for (size_t k = 0; k < rank && rank <= ANF_MAX_RANK; k++) {
    if (dims[k] < -1) return anfi_infer_fail(q, "a dim must not be negative");
    if (dims[k] >= 0) rest = anfi_dims_mul(rest, dims[k]);
    else if (open < ANF_MAX_RANK) return anfi_infer_fail(q, "only one dim may be -1");
    else open = k;
  }
  bool fits = open < ANF_MAX_RANK ? rest > 0 && have % rest == 0 : have == rest;
  if (have >= 0 && !fits)
    return anfi_fail(q->cx, q->loc, ANF_E0508, anfi_type_text(q->cx, q->in[0]),
                     anfi_value_text(q->cx, q->attr[0]));
  if (open < ANF_MAX_RANK) dims[open] = have >= 0 ? have / rest : ANF_DIM_UNKNOWN;
  return anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, rank, dims);
}

bool anfi_infer_reshape_like(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *x = q->in[0], *like = q->in[1];
  int64_t have = anfi_dims_elements(x, 0, x->n), want = anfi_dims_elements(like, 0, like->n);
  if (have >= 0 && want >= 0 && have != want)
    return anfi_fail(q->cx, q->loc, ANF_E0508, anfi_type_text(q->cx, x),
                     anfi_type_text(q->cx, like));
  return anfi_infer_result(q, (anf_dtype)x->dtype, like->n, like->dims);
}

bool anfi_infer_flatten(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  size_t from = 0, to = 0, rank = 0;
  int64_t dims[ANF_MAX_RANK], one = 1;
  if (!t->n) return anfi_infer_result(q, (anf_dtype)t->dtype, 1, &one);
  if (!anfi_infer_axis(q, q->attr[0], t->n, &from) || !anfi_infer_axis(q, q->attr[1], t->n, &to))
    return false;
  if (from > to) return anfi_infer_fail(q, "start is behind end");
  for (size_t k = 0; k < t->n; k++)
    if (k < from || k > to) dims[rank++] = t->dims[k];
    else if (k == from) dims[rank++] = anfi_dims_elements(t, from, to + 1);
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
}

/* Axis k of the result is axis perm[k] of x; reversed when the attribute is None. */
bool anfi_permutation(const anf_value *axes, size_t rank, size_t *perm) {
  int64_t at[ANF_MAX_RANK];
  uint32_t seen = 0;
  if (!anfi_attr_given(axes)) {
    for (size_t k = 0; k < rank; k++) perm[k] = rank - 1 - k;
    return true;
  }
  if (anfi_attr_ints(axes, ANF_MAX_RANK, at) != rank) return false;
  for (size_t k = 0; k < rank; k++) {
    if (!anfi_axis_in(at[k], rank, &perm[k]) || (seen >> perm[k] & 1)) return false;
    seen |= UINT32_C(1) << perm[k];
  }
  return true;
}

bool anfi_infer_transpose(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  size_t perm[ANF_MAX_RANK];
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_permutation(q->attr[0], t->n, perm))
    return anfi_infer_fail(q, "axes must name every axis once");
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[perm[k]];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
}

bool anfi_infer_swap_axes(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  size_t a, b;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_axis(q, q->attr[0], t->n, &a) || !anfi_infer_axis(q, q->attr[1], t->n, &b))
    return false;
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[k == a ? b : k == b ? a : k];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
}

static bool broadcast_to(anfi_infer *q, size_t rank, const int64_t *dims) {
  const anf_type *t = q->in[0];
  bool fits = t->n <= rank;
  for (size_t k = 0; fits && k < t->n; k++) {
    int64_t have = t->dims[k], want = dims[rank - t->n + k];
    fits = have == want || have == 1 || have < 0 || want < 0;
  }
  anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
  return fits || anfi_infer_no_broadcast(q, t, q->out);
}

bool anfi_infer_broadcast_to(anfi_infer *q) {
  size_t rank;
  int64_t dims[ANF_MAX_RANK];
  return anfi_infer_tensors(q) && anfi_infer_shape_attr(q, q->attr[0], &rank, dims) &&
         broadcast_to(q, rank, dims);
}

bool anfi_infer_broadcast_like(anfi_infer *q) {
  return anfi_infer_tensors(q) && broadcast_to(q, q->in[1]->n, q->in[1]->dims);
}

bool anfi_infer_expand_dims(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t at[ANF_MAX_RANK], dims[ANF_MAX_RANK];
  size_t rank = t->n + anfi_attr_ints(q->attr[0], ANF_MAX_RANK, at), from = 0;
  uint32_t mask;
  if (rank > ANF_MAX_RANK) return anfi_infer_high_rank(q);
  if (!anfi_infer_axes(q, q->attr[0], rank, &mask)) return false;
  for (size_t k = 0; k < rank; k++) dims[k] = mask >> k & 1 ? 1 : t->dims[from++];
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
}

bool anfi_infer_squeeze(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  bool all = !anfi_attr_given(q->attr[0]);
  uint32_t mask = 0;
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  if (!all && !anfi_infer_axes(q, q->attr[0], t->n, &mask)) return false;
  for (size_t k = 0; k < t->n; k++) {
    bool named = mask >> k & 1;
    if (named && t->dims[k] != 1 && t->dims[k] >= 0)
      return anfi_infer_fail(q, "a dim that is not 1 cannot be removed");
    if (!named && !(all && t->dims[k] == 1)) dims[rank++] = t->dims[k];
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
}

bool anfi_infer_flip(anfi_infer *q) {
  uint32_t mask;
  if (!anfi_infer_tensors(q)) return false;
  if (anfi_attr_given(q->attr[0]) && !anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask))
    return false;
  return anfi_infer_same(q);
}

bool anfi_infer_tri(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  return q->in[0]->n >= 2 ? anfi_infer_same(q)
                          : anfi_infer_fail(q, "a matrix, or a stack of them, is needed");
}

bool anfi_infer_diag(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t k = anfi_attr_int(q->attr[0]), dims[2] = {ANF_DIM_UNKNOWN, ANF_DIM_UNKNOWN};
  if (k < -(INT64_C(1) << 40) || k > INT64_C(1) << 40)
    return anfi_infer_fail(q, "k is out of range");
  if (t->n != 1 && t->n != 2) return anfi_infer_fail(q, "a vector or a matrix is needed");
  if (t->n == 1) {
    dims[0] = dims[1] = anfi_dims_add(t->dims[0], k < 0 ? -k : k);
    return anfi_infer_result(q, (anf_dtype)t->dtype, 2, dims);
  }
  if (t->dims[0] >= 0 && t->dims[1] >= 0) {
    int64_t rows = t->dims[0] - (k < 0 ? -k : 0), columns = t->dims[1] - (k > 0 ? k : 0);
    dims[0] = rows < columns ? rows : columns;
    if (dims[0] < 0) dims[0] = 0;
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, 1, dims);
}

/* ---- evaluation ---- */

bool anfi_eval_shape(anfi_eval *q) {
  q->out = anfi_value_new_ints(q->cx, q->in[0]->type->n, q->in[0]->type->dims);
  return true;
}

bool anfi_eval_rank(anfi_eval *q) {
  anfi_set_i64(q->out, 0, q->in[0]->type->n);
  return true;
}

bool anfi_eval_size(anfi_eval *q) {
  anfi_set_i64(q->out, 0, (int64_t)q->in[0]->n);
  return true;
}

bool anfi_eval_len(anfi_eval *q) {
  const anf_value *v = q->in[0];
  anfi_set_i64(q->out, 0, v->kind == ANF_VALUE_TENSOR ? v->type->dims[0] : (int64_t)v->n);
  return true;
}

bool anfi_eval_copy(anfi_eval *q) {
  if (q->out == q->in[0]) return true; // it is overwritten
  memcpy(q->out->data, q->in[0]->data, q->out->n * anf_dtype_bytes((anf_dtype)q->type->dtype));
  return true;
}

bool anfi_eval_transpose(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t perm[ANF_MAX_RANK];
  int64_t dense[ANF_MAX_RANK], stride[ANF_MAX_RANK];
  anfi_permutation(q->attr[0], t->n, perm);
  anfi_dense_strides(t->n, t->dims, dense);
  for (size_t k = 0; k < t->n; k++) stride[k] = dense[perm[k]];
  return anfi_eval_gather(q, 0, stride);
}

bool anfi_eval_swap_axes(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t a, b;
  int64_t stride[ANF_MAX_RANK];
  anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &a);
  anfi_axis_in(anfi_attr_int(q->attr[1]), t->n, &b);
  anfi_dense_strides(t->n, t->dims, stride);
  int64_t keep = stride[a];
  stride[a] = stride[b];
  stride[b] = keep;
  return anfi_eval_gather(q, 0, stride);
}

bool anfi_eval_broadcast_to(anfi_eval *q) {
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  anfi_nd_broadcast(&it, 0, q->in[0]->type);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_copy_element(q->out, i, q->in[0], it.at[0]);
  return true;
}

bool anfi_eval_flip(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  uint32_t mask = anfi_reduced_axes(q->attr[0], t->n);
  int64_t stride[ANF_MAX_RANK], start = 0;
  anfi_dense_strides(t->n, t->dims, stride);
  for (size_t k = 0; k < t->n; k++)
    if (mask >> k & 1) {
      start += stride[k] * (t->dims[k] - 1);
      stride[k] = -stride[k];
    }
  return anfi_eval_gather(q, (size_t)start, stride);
}

bool anfi_eval_diag(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  int64_t k = anfi_attr_int(q->attr[0]), row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  if (t->n == 2)
    return anfi_eval_gather(q, (size_t)(row * t->dims[1] + column), (int64_t[]){t->dims[1] + 1});
  for (int64_t i = 0; i < t->dims[0]; i++)
    anfi_copy_element(q->out, (size_t)((row + i) * q->type->dims[1] + column + i), q->in[0],
                      (size_t)i);
  return true;
}

/* Keeps the elements on one side of diagonal k; the rest stays 0. */
bool anfi_eval_tri(anfi_eval *q) {
  int64_t k = anfi_attr_int(q->attr[0]);
  size_t r = q->type->n;
  anfi_nd it;
  anfi_nd_init(&it, r, q->type->dims);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    int64_t above = it.index[r - 1] - it.index[r - 2];
    if (q->op == ANF_OP_Tril ? above <= k : above >= k) anfi_copy_element(q->out, i, q->in[0], i);
  }
  return true;
}
