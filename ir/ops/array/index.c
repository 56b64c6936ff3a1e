// SPDX-License-Identifier: Apache-2.0
/* Reads and writes at integer indices. Whether an index is in range is checked at run time (E0404).
 *
 *     Take(x: f32[5,3], i: i64[2], axis=0)  ->  f32[2,3]     IndexWrite(x, i, u: f32[2,3])  ->  x with new rows
 *
 * A write copies x and then writes in the row-major order of the update, so the last of equal indices wins;
 * sums are added one after the other in the element type. */
#include "ir/ops/kernel.h"

/* ---- write modes: update, add, mul, min, max ---- */

typedef enum { UPDATE, ADD, MUL, MIN, MAX } writing;

static double combine_real(writing how, double a, double b) {
  switch (how) {
  case ADD: return a + b;
  case MUL: return a * b;
  case MIN: return a != a || a <= b ? a : b;
  case MAX: return a != a || a >= b ? a : b;
  default: return b;
  }
}

static int64_t combine_int(writing how, anf_dtype d, int64_t a, int64_t b) {
  bool less = anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED ? (uint64_t)a < (uint64_t)b : a < b;
  switch (how) {
  case ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
  case MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
  case MIN: return less ? a : b;
  case MAX: return less ? b : a;
  default: return b;
  }
}

static void combine_complex(writing how, anf_value *out, size_t to, const anf_value *u,
                            size_t from) {
  double re = anfi_get_f64(out, 2 * to), im = anfi_get_f64(out, 2 * to + 1);
  double x = anfi_get_f64(u, 2 * from), y = anfi_get_f64(u, 2 * from + 1);
  anfi_set_f64(out, 2 * to, how == ADD ? re + x : re * x - im * y);
  anfi_set_f64(out, 2 * to + 1, how == ADD ? im + y : re * y + im * x);
}

static void write(writing how, anf_value *out, size_t to, const anf_value *u, size_t from) {
  anf_dtype d = (anf_dtype)out->type->dtype;
  if (how == UPDATE) anfi_copy_element(out, to, u, from);
  else if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX) combine_complex(how, out, to, u, from);
  else if (anfi_dtype_is_float(d))
    anfi_set_f64(out, to, combine_real(how, anfi_get_f64(out, to), anfi_get_f64(u, from)));
  else anfi_set_i64(out, to, combine_int(how, d, anfi_get_i64(out, to), anfi_get_i64(u, from)));
}

static bool how_of(const anfi_eval *q, const anf_value *mode, writing *how) {
  static const char *const names[] = {"update", "add", "mul", "min", "max"};
  anf_dtype d = (anf_dtype)q->type->dtype;
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (anfi_attr_is(mode, names[i])) {
      *how = (writing)i;
      bool ordered = *how == MIN || *how == MAX;
      if (*how == UPDATE ||
          (d != ANF_KEY && (!ordered || anfi_dtype_class(d) != ANFI_CLASS_COMPLEX)))
        return true;
      return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
    }
  return anfi_fail(q->cx, q->loc, ANF_E0405, anfi_op[q->op].name,
                   "mode must be update, add, mul, min or max");
}

/* ---- Take, IndexWrite, Embedding: rows x[..., index, ...]; x is [outer, n, inner] around the axis ---- */

/* The shape of Take: index's dims replace the axis. */
static bool take_dims(anfi_infer *q, const anf_value *attr, size_t *rank, int64_t *dims) {
  const anf_type *x = q->in[0], *index = q->in[1];
  size_t axis = 0, n = 0;
  if (!anfi_attr_given(attr)) {
    for (size_t k = 0; k < index->n; k++) dims[n++] = index->dims[k];
  } else {
    if (!anfi_infer_axis(q, attr, x->n, &axis)) return false;
    if (x->n + index->n - 1 > ANF_MAX_RANK) return anfi_infer_high_rank(q);
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
  if (!anfi_infer_tensors(q) || !anfi_infer_indices(q, 1) || !take_dims(q, q->attr[0], &rank, dims))
    return false;
  return anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, rank, dims);
}

bool anfi_infer_index_write(anfi_infer *q) {
  size_t rank = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_tensors(q) || !anfi_infer_indices(q, 1) || !anfi_infer_writable(q, 2) ||
      !take_dims(q, q->attr[0], &rank, dims))
    return false;
  return anfi_infer_shape_is(q, 2, rank, dims) && anfi_infer_same(q);
}

bool anfi_infer_embedding(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *w = q->in[0], *i = q->in[1];
  int64_t dims[ANF_MAX_RANK];
  if (w->n < 1) return anfi_infer_fail(q, "the table must have rows");
  if (!anfi_dtype_is_int((anf_dtype)i->dtype))
    return anfi_infer_fail(q, "row numbers are integers");
  size_t rank = i->n + w->n - 1;
  if (rank > ANF_MAX_RANK) return anfi_infer_fail(q, "the rank is above 16");
  if (i->n) memcpy(dims, i->dims, i->n * sizeof *dims);
  if (w->n > 1) memcpy(dims + i->n, w->dims + 1, (w->n - 1) * sizeof *dims);
  return anfi_infer_is(q, anfi_type_tensor(q->cx, (anf_dtype)w->dtype, rank, dims));
}

typedef struct row_view {
  size_t outer, n, inner;
} row_view;

static row_view rows_of(const anfi_eval *q) {
  const anf_value *x = q->in[0];
  row_view r = {1, x->n, 1};
  size_t axis;
  if (!anfi_attr_given(q->attr[0])) return r;
  anfi_axis_in(anfi_attr_int(q->attr[0]), x->type->n, &axis);
  anfi_split_axis(x->type, axis, &r.outer, &r.n, &r.inner);
  return r;
}

bool anfi_eval_take(anfi_eval *q) {
  row_view r = rows_of(q);
  const anf_value *index = q->in[1];
  int64_t at;
  for (size_t j = 0; j < index->n && q->out->n; j++) {
    if (!anfi_index_at(q, index, j, (int64_t)r.n, &at)) return false;
    for (size_t o = 0; o < r.outer; o++)
      anfi_copy_run(q->out, (o * index->n + j) * r.inner, q->in[0],
                    (o * r.n + (size_t)at) * r.inner, r.inner);
  }
  return true;
}

bool anfi_eval_index_write(anfi_eval *q) {
  row_view r = rows_of(q);
  const anf_value *index = q->in[1], *u = anfi_eval_converted(q, 2);
  writing how;
  int64_t at;
  if (!how_of(q, q->attr[1], &how)) return false;
  anfi_eval_copy(q);
  for (size_t j = 0; j < index->n && u->n; j++) {
    if (!anfi_index_at(q, index, j, (int64_t)r.n, &at)) return false;
    for (size_t o = 0; o < r.outer; o++)
      for (size_t i = 0; i < r.inner; i++)
        write(how, q->out, (o * r.n + (size_t)at) * r.inner + i, u,
              (o * index->n + j) * r.inner + i);
  }
  return true;
}

bool anfi_eval_embedding(anfi_eval *q) {
  const anf_value *w = q->in[0], *ids = q->in[1];
  size_t rows = (size_t)w->type->dims[0], row = rows ? w->n / rows : 0;
  size_t bytes = row * anf_dtype_bytes((anf_dtype)w->type->dtype);
  for (size_t i = 0; i < ids->n; i++) {
    int64_t k = anfi_get_i64(ids, i);
    size_t at = 0;
    if (!anfi_axis_in(k, rows, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0404, "Embedding", (long long)k, (long long)rows);
    memcpy(q->out->data + i * bytes, w->data + at * bytes, bytes);
  }
  return true;
}

/* ---- TakeAlong, WriteAlong: single elements along an axis; index has the rank of x ---- */

static bool along(anfi_infer *q) {
  const anf_type *x = q->in[0], *index = q->in[1];
  size_t axis;
  if (!anfi_infer_indices(q, 1) || !anfi_infer_axis(q, q->attr[0], x->n, &axis)) return false;
  bool fits = index->n == x->n;
  for (size_t k = 0; fits && k < x->n; k++)
    fits = k == axis || anfi_infer_agree(x->dims[k], index->dims[k]);
  return fits || anfi_infer_mismatch(q, x, index);
}

bool anfi_infer_take_along(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !along(q)) return false;
  return anfi_infer_result(q, (anf_dtype)q->in[0]->dtype, q->in[1]->n, q->in[1]->dims);
}

bool anfi_infer_write_along(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !along(q) || !anfi_infer_writable(q, 2)) return false;
  return anfi_infer_shape_is(q, 2, q->in[1]->n, q->in[1]->dims) && anfi_infer_same(q);
}

/* Walks the index tensor; operand 0 is x with index 0 along the axis. */
static size_t along_walk(const anfi_eval *q, anfi_nd *it, int64_t *stride) {
  const anf_type *t = q->in[0]->type;
  size_t axis;
  int64_t dense[ANF_MAX_RANK];
  anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &axis);
  anfi_dense_strides(t->n, t->dims, dense);
  *stride = dense[axis];
  dense[axis] = 0;
  anfi_nd_init(it, t->n, q->in[1]->type->dims);
  anfi_nd_strides(it, 0, 0, dense);
  return axis;
}

bool anfi_eval_take_along(anfi_eval *q) {
  anfi_nd it;
  int64_t stride, at;
  size_t axis = along_walk(q, &it, &stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    if (!anfi_index_at(q, q->in[1], i, q->in[0]->type->dims[axis], &at)) return false;
    anfi_copy_element(q->out, i, q->in[0], it.at[0] + (size_t)(at * stride));
  }
  return true;
}

bool anfi_eval_write_along(anfi_eval *q) {
  anfi_nd it;
  int64_t stride, at;
  writing how;
  size_t axis = along_walk(q, &it, &stride);
  anf_value *u = anfi_eval_converted(q, 2);
  if (!how_of(q, q->attr[1], &how)) return false;
  anfi_eval_copy(q);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    if (!anfi_index_at(q, q->in[1], i, q->in[0]->type->dims[axis], &at)) return false;
    write(how, q->out, it.at[0] + (size_t)(at * stride), u, i);
  }
  return true;
}

/* ---- GatherNd, ScatterNd: index tuples in the last dim of index ---- */

static bool nd_dims(anfi_infer *q, size_t *rank, int64_t *dims) {
  const anf_type *x = q->in[0], *index = q->in[1];
  if (!anfi_infer_indices(q, 1)) return false;
  if (!index->n || index->dims[index->n - 1] < 0)
    return anfi_infer_fail(q, "the last dim of the indices must be known");
  if (index->dims[index->n - 1] > (int64_t)x->n)
    return anfi_infer_fail(q, "there are more indices than dims");
  size_t depth = (size_t)index->dims[index->n - 1], n = 0;
  if (index->n - 1 + x->n - depth > ANF_MAX_RANK) return anfi_infer_high_rank(q);
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
  if (!anfi_infer_tensors(q) || !nd_dims(q, &rank, dims) || !anfi_infer_writable(q, 2))
    return false;
  return anfi_infer_shape_is(q, 2, rank, dims) && anfi_infer_same(q);
}

typedef struct blocks { // x seen as blocks that one index tuple picks
  size_t depth, count, size;
} blocks;

static blocks blocks_of(const anfi_eval *q) {
  const anf_type *x = q->in[0]->type, *index = q->in[1]->type;
  size_t depth = (size_t)index->dims[index->n - 1];
  return (blocks){depth, anfi_dims_product(index->dims, 0, index->n - 1),
                  anfi_dims_product(x->dims, depth, x->n)};
}

static bool block_at(const anfi_eval *q, const blocks *b, size_t j, size_t *out) {
  size_t at = 0;
  for (size_t k = 0; k < b->depth; k++) {
    int64_t i, dim = q->in[0]->type->dims[k];
    if (!anfi_index_at(q, q->in[1], j * b->depth + k, dim, &i)) return false;
    at = at * (size_t)dim + (size_t)i;
  }
  *out = at * b->size;
  return true;
}

bool anfi_eval_gather_nd(anfi_eval *q) {
  blocks b = blocks_of(q);
  for (size_t j = 0, from; j < b.count && q->out->n; j++) {
    if (!block_at(q, &b, j, &from)) return false;
    anfi_copy_run(q->out, j * b.size, q->in[0], from, b.size);
  }
  return true;
}

bool anfi_eval_scatter_nd(anfi_eval *q) {
  blocks b = blocks_of(q);
  anf_value *u = anfi_eval_converted(q, 2);
  writing how;
  if (!how_of(q, q->attr[0], &how)) return false;
  anfi_eval_copy(q);
  for (size_t j = 0, to; j < b.count && u->n; j++) {
    if (!block_at(q, &b, j, &to)) return false;
    for (size_t i = 0; i < b.size; i++) write(how, q->out, to + i, u, j * b.size + i);
  }
  return true;
}

/* ---- OneHot ---- */

bool anfi_infer_one_hot(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !anfi_infer_indices(q, 0)) return false;
  const anf_type *t = q->in[0];
  int64_t depth = anfi_attr_int(q->attr[0]), dims[ANF_MAX_RANK + 1];
  size_t axis;
  if (depth < 0) return anfi_infer_fail(q, "depth must not be negative");
  if (!anfi_infer_axis(q, q->attr[1], t->n + 1, &axis)) return false;
  for (size_t k = 0; k <= t->n; k++) dims[k] = k == axis ? depth : t->dims[k < axis ? k : k - 1];
  return anfi_infer_result(q, anfi_attr_dtype(q->attr[2]), t->n + 1, dims);
}

/* An index outside 0..depth gives zeros. */
bool anfi_eval_one_hot(anfi_eval *q) {
  size_t axis, outer, depth, inner;
  anfi_axis_in(anfi_attr_int(q->attr[1]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &depth, &inner);
  bool pairs = anfi_dtype_class((anf_dtype)q->type->dtype) == ANFI_CLASS_COMPLEX;
  for (size_t o = 0; o < outer; o++)
    for (size_t i = 0; i < inner; i++) {
      int64_t at = anfi_get_i64(q->in[0], o * inner + i);
      if (at < 0 || at >= (int64_t)depth) continue;
      size_t to = (o * depth + (size_t)at) * inner + i;
      anfi_set_f64(q->out, pairs ? 2 * to : to, 1);
    }
  return true;
}
