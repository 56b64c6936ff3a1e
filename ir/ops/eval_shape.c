// SPDX-License-Identifier: Apache-2.0
/* Kernels that look at shapes or move whole tensors about. Nearly all are one walk over the result
 * with strides into the argument. */
#include "ir/ops/kernel.h"

/* Walks the result; element `start` and strides say where each element is in x. */
static bool gather(anfi_eval *q, size_t start, const int64_t *stride) {
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  anfi_nd_strides(&it, 0, start, stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_copy_element(q->out, i, q->in[0], it.at[0]);
  return true;
}

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
  memcpy(q->out->u.data, q->in[0]->u.data, q->out->n * anf_dtype_bytes((anf_dtype)q->type->dtype));
  return true;
}

bool anfi_eval_transpose(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  size_t perm[ANF_MAX_RANK];
  int64_t dense[ANF_MAX_RANK], stride[ANF_MAX_RANK];
  anfi_permutation(q->attr[0], t->n, perm);
  anfi_dense_strides(t->n, t->dims, dense);
  for (size_t k = 0; k < t->n; k++) stride[k] = dense[perm[k]];
  return gather(q, 0, stride);
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
  return gather(q, 0, stride);
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
  return gather(q, (size_t)start, stride);
}

bool anfi_eval_diag(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  int64_t k = anfi_attr_int(q->attr[0]), row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  if (t->n == 2) return gather(q, (size_t)(row * t->dims[1] + column), (int64_t[]){t->dims[1] + 1});
  for (int64_t i = 0; i < t->dims[0]; i++)
    anfi_copy_element(q->out, (size_t)((row + i) * q->type->dims[1] + column + i), q->in[0],
                      (size_t)i);
  return true;
}

/* ---- joining and cutting ---- */

/* Writes x into the result, from index `from` along the axis on. */
static void place(anfi_eval *q, const anf_value *x, const int64_t *dims, size_t rank, size_t axis,
                  int64_t from) {
  anfi_nd it;
  int64_t dense[ANF_MAX_RANK];
  anfi_dense_strides(q->type->n, q->type->dims, dense);
  anfi_nd_init(&it, rank, dims);
  anfi_nd_strides(&it, 0, (size_t)(from * dense[axis]), dense);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) anfi_copy_element(q->out, it.at[0], x, i);
}

/* The argument in the result's element type; released with the frame. */
static anf_value *converted(anfi_eval *q, size_t i) {
  if (q->in[i]->type->dtype == q->type->dtype) return q->in[i];
  anf_value *v = anfi_value_cast(q->in[i], (anf_dtype)q->type->dtype);
  anfi_release_later(v);
  return v;
}

bool anfi_eval_concat(anfi_eval *q) {
  size_t axis;
  int64_t from = 0;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  for (size_t i = 0; i < q->n; i++) {
    const anf_type *t = q->in[i]->type;
    place(q, converted(q, i), t->dims, t->n, axis, from);
    from += t->dims[axis];
  }
  return true;
}

bool anfi_eval_stack(anfi_eval *q) {
  size_t axis;
  int64_t dims[ANF_MAX_RANK];
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  for (size_t k = 0; k < q->type->n; k++) dims[k] = k == axis ? 1 : q->type->dims[k];
  for (size_t i = 0; i < q->n; i++) place(q, converted(q, i), dims, q->type->n, axis, (int64_t)i);
  return true;
}

/* Each part of the result is a walk over the argument from where it starts. */
static bool cut(anfi_eval *q, size_t axis, const anf_value *sections) {
  const anf_type *t = q->in[0]->type;
  int64_t dense[ANF_MAX_RANK], dims[ANF_MAX_RANK], from, to;
  anfi_dense_strides(t->n, t->dims, dense);
  q->out = anfi_value_new_tuple(q->cx, q->type->n);
  for (size_t i = 0; i < q->type->n; i++) {
    anf_value *part = q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
    from = (int64_t)i, to = from + 1;
    if (sections) anfi_split_part(sections, t->dims[axis], i, &from, &to);
    for (size_t k = 0; k < t->n; k++) dims[k] = k == axis ? to - from : t->dims[k];
    anfi_nd it;
    anfi_nd_init(&it, t->n, dims);
    anfi_nd_strides(&it, 0, (size_t)(from * dense[axis]), dense);
    for (size_t j = 0; it.more; j++, anfi_nd_next(&it))
      anfi_copy_element(part, j, q->in[0], it.at[0]);
  }
  return true;
}

bool anfi_eval_split(anfi_eval *q) {
  size_t axis;
  anfi_axis_in(anfi_attr_int(q->attr[1]), q->in[0]->type->n, &axis);
  return cut(q, axis, q->attr[0]);
}

bool anfi_eval_unstack(anfi_eval *q) {
  size_t axis;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->in[0]->type->n, &axis);
  return cut(q, axis, NULL);
}

/* ---- larger or rearranged: where each element of the result comes from, axis by axis ---- */

static int64_t floor_mod(int64_t a, int64_t n) {
  int64_t r = a % n;
  return r < 0 ? r + n : r;
}

int64_t anfi_padded_from(const anf_value *mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (anfi_attr_is(mode, "edge")) return i < 0 ? 0 : n - 1;
  if (anfi_attr_is(mode, "wrap")) return floor_mod(i, n);
  if (anfi_attr_is(mode, "reflect")) {
    if (n == 1) return 0;
    int64_t r = floor_mod(i, 2 * n - 2);
    return r < n ? r : 2 * n - 2 - r;
  }
  if (anfi_attr_is(mode, "symmetric")) {
    int64_t r = floor_mod(i, 2 * n);
    return r < n ? r : 2 * n - 1 - r;
  }
  return -1;
}

bool anfi_eval_pad(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  int64_t w[2 * ANF_MAX_RANK], dense[ANF_MAX_RANK];
  anfi_attr_ints(q->attr[0], 2 * ANF_MAX_RANK, w);
  anfi_dense_strides(t->n, t->dims, dense);
  anf_value *fill = anfi_value_cast(q->attr[2], (anf_dtype)t->dtype);
  anfi_release_later(fill);
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    int64_t at = 0;
    for (size_t k = 0; k < t->n && at >= 0; k++) {
      int64_t from = anfi_padded_from(q->attr[1], it.index[k] - w[2 * k], t->dims[k]);
      at = from < 0 ? -1 : at + from * dense[k];
    }
    anfi_copy_element(q->out, i, at < 0 ? fill : q->in[0], at < 0 ? 0 : (size_t)at);
  }
  return true;
}

bool anfi_eval_tile(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  int64_t dense[ANF_MAX_RANK];
  size_t lead = q->type->n - t->n;
  anfi_dense_strides(t->n, t->dims, dense);
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    int64_t at = 0;
    for (size_t k = 0; k < t->n; k++) at += it.index[lead + k] % t->dims[k] * dense[k];
    anfi_copy_element(q->out, i, q->in[0], (size_t)at);
  }
  return true;
}

bool anfi_eval_repeat(anfi_eval *q) {
  size_t outer = 1, n = q->in[0]->n, inner = 1, axis = 0, times = (size_t)anfi_attr_int(q->attr[0]),
         to = 0;
  if (anfi_attr_given(q->attr[1])) {
    anfi_axis_in(anfi_attr_int(q->attr[1]), q->in[0]->type->n, &axis);
    anfi_split_axis(q->in[0]->type, axis, &outer, &n, &inner);
  }
  if (!q->out->n) return true;
  for (size_t i = 0; i < outer * n; i++)
    for (size_t r = 0; r < times; r++)
      for (size_t j = 0; j < inner; j++) anfi_copy_element(q->out, to++, q->in[0], i * inner + j);
  return true;
}

bool anfi_eval_roll(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  int64_t shift[ANF_MAX_RANK], axes[ANF_MAX_RANK], dense[ANF_MAX_RANK], by[ANF_MAX_RANK] = {0};
  size_t n = anfi_attr_ints(q->attr[0], ANF_MAX_RANK, shift), axis = 0;
  if (!anfi_attr_given(q->attr[1])) {
    for (size_t i = 0; i < q->in[0]->n; i++)
      anfi_copy_element(
          q->out, i, q->in[0],
          (size_t)floor_mod((int64_t)i - shift[0] % (int64_t)q->in[0]->n, (int64_t)q->in[0]->n));
    return true;
  }
  size_t m = anfi_attr_ints(q->attr[1], ANF_MAX_RANK, axes);
  for (size_t i = 0; i < m && q->in[0]->n; i++) {
    anfi_axis_in(axes[i], t->n, &axis);
    by[axis] = floor_mod(by[axis] + shift[n == 1 ? 0 : i] % t->dims[axis], t->dims[axis]);
  }
  anfi_dense_strides(t->n, t->dims, dense);
  anfi_nd it;
  anfi_nd_init(&it, t->n, t->dims);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    int64_t at = 0;
    for (size_t k = 0; k < t->n; k++) at += floor_mod(it.index[k] - by[k], t->dims[k]) * dense[k];
    anfi_copy_element(q->out, i, q->in[0], (size_t)at);
  }
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
