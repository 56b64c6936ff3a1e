// SPDX-License-Identifier: Apache-2.0
/* Kernels that read or write at indices. Writes go in the row-major order of the update, so the
 * last of equal indices wins; sums are added one after the other in the element type. */
#include "ir/ops/kernel.h"

/* ---- writing: x is copied, then elements are changed ---- */

typedef enum { UPDATE, ADD, MUL, MIN, MAX } writing;

static void copy_x(anfi_eval *q) {
  memcpy(q->out->u.data, q->in[0]->u.data, q->out->n * anf_dtype_bytes((anf_dtype)q->type->dtype));
}

/* Argument i in the element type of the result. */
static anf_value *converted(anfi_eval *q, size_t i) {
  anf_value *v = anfi_value_cast(q->in[i], (anf_dtype)q->type->dtype);
  anfi_release_later(v);
  return v;
}

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

/* ---- slices ---- */

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
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, dims);
  anfi_nd_strides(&it, 0, start, stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_copy_element(q->out, i, q->in[0], it.at[0]);
  return true;
}

bool anfi_eval_slice_update(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK], dims[ANF_MAX_RANK];
  size_t start = slice_walk(q, stride, dims);
  anf_value *u = converted(q, 1);
  copy_x(q);
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, dims);
  anfi_nd_strides(&it, 0, start, stride);
  anfi_nd_broadcast(&it, 1, u->type);
  for (; it.more; anfi_nd_next(&it)) anfi_copy_element(q->out, it.at[0], u, it.at[1]);
  return true;
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
  anfi_nd it;
  anfi_nd_init(&it, q->type->n, q->type->dims);
  anfi_nd_strides(&it, 0, start, stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    anfi_copy_element(q->out, i, q->in[0], it.at[0]);
  return true;
}

bool anfi_eval_dynamic_update_slice(anfi_eval *q) {
  int64_t stride[ANF_MAX_RANK];
  anf_value *u = converted(q, 1);
  copy_x(q);
  anfi_nd it;
  anfi_nd_init(&it, u->type->n, u->type->dims);
  anfi_nd_strides(&it, 0, dynamic_walk(q, 2, u->type->dims, stride), stride);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) anfi_copy_element(q->out, it.at[0], u, i);
  return true;
}

/* ---- whole rows: x seen as [outer, n, inner] around the axis, or as [1, all, 1] ---- */

typedef struct rows {
  size_t outer, n, inner;
} rows;

static rows rows_of(const anfi_eval *q) {
  const anf_value *x = q->in[0];
  rows r = {1, x->n, 1};
  size_t axis;
  if (!anfi_attr_given(q->attr[0])) return r;
  anfi_axis_in(anfi_attr_int(q->attr[0]), x->type->n, &axis);
  anfi_split_axis(x->type, axis, &r.outer, &r.n, &r.inner);
  return r;
}

bool anfi_eval_take(anfi_eval *q) {
  rows r = rows_of(q);
  const anf_value *index = q->in[1];
  int64_t at;
  for (size_t j = 0; j < index->n && q->out->n; j++) {
    if (!anfi_index_at(q, index, j, (int64_t)r.n, &at)) return false;
    for (size_t o = 0; o < r.outer; o++)
      for (size_t i = 0; i < r.inner; i++)
        anfi_copy_element(q->out, (o * index->n + j) * r.inner + i, q->in[0],
                          (o * r.n + (size_t)at) * r.inner + i);
  }
  return true;
}

bool anfi_eval_index_write(anfi_eval *q) {
  rows r = rows_of(q);
  const anf_value *index = q->in[1], *u = converted(q, 2);
  writing how;
  int64_t at;
  if (!how_of(q, q->attr[1], &how)) return false;
  copy_x(q);
  for (size_t j = 0; j < index->n && u->n; j++) {
    if (!anfi_index_at(q, index, j, (int64_t)r.n, &at)) return false;
    for (size_t o = 0; o < r.outer; o++)
      for (size_t i = 0; i < r.inner; i++)
        write(how, q->out, (o * r.n + (size_t)at) * r.inner + i, u,
              (o * index->n + j) * r.inner + i);
  }
  return true;
}

/* ---- single elements along an axis ---- */

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
  anf_value *u = converted(q, 2);
  if (!how_of(q, q->attr[1], &how)) return false;
  copy_x(q);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it)) {
    if (!anfi_index_at(q, q->in[1], i, q->in[0]->type->dims[axis], &at)) return false;
    write(how, q->out, it.at[0] + (size_t)(at * stride), u, i);
  }
  return true;
}

/* ---- index tuples ---- */

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
    for (size_t i = 0; i < b.size; i++)
      anfi_copy_element(q->out, j * b.size + i, q->in[0], from + i);
  }
  return true;
}

bool anfi_eval_scatter_nd(anfi_eval *q) {
  blocks b = blocks_of(q);
  anf_value *u = converted(q, 2);
  writing how;
  if (!how_of(q, q->attr[0], &how)) return false;
  copy_x(q);
  for (size_t j = 0, to; j < b.count && u->n; j++) {
    if (!block_at(q, &b, j, &to)) return false;
    for (size_t i = 0; i < b.size; i++) write(how, q->out, to + i, u, j * b.size + i);
  }
  return true;
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
