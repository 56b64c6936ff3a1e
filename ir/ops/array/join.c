// SPDX-License-Identifier: Apache-2.0
/* Joining, cutting and repeating tensors.
 *
 *     Concat(f32[2,3], f32[4,3], axis=0)  ->  f32[6,3]     Split(f32[6,3], 2)  ->  (f32[3,3], f32[3,3])
 *
 * An unknown dim stays unknown; computed dims saturate, so that a result too large is refused. */
#include "ir/ops/kernel.h"

/* ---- Concat, Stack ---- */

static bool same_but(const anfi_infer *q, size_t axis, int64_t *dims) {
  for (size_t i = 1; i < q->n; i++)
    for (size_t k = 0; k < q->in[0]->n; k++) {
      int64_t d = q->in[i]->dims[k];
      if (k == axis) continue;
      if (dims[k] >= 0 && d >= 0 && d != dims[k]) return anfi_infer_mismatch(q, q->in[0], q->in[i]);
      if (dims[k] < 0) dims[k] = d;
    }
  return true;
}

/* Checks that all arguments are tensors of one rank; gives their promoted type. */
static bool alike(anfi_infer *q, anf_dtype *d) {
  if (!q->n) return anfi_infer_fail(q, "there is nothing to join");
  bool keys = true;
  for (size_t i = 0; i < q->n; i++) keys &= anfi_is_tensor(q->in[i]) && q->in[i]->dtype == ANF_KEY;
  *d = ANF_KEY;
  if (!keys && !anfi_infer_promoted(q, d)) return false;
  for (size_t i = 1; i < q->n; i++)
    if (q->in[i]->n != q->in[0]->n) return anfi_infer_mismatch(q, q->in[0], q->in[i]);
  return true;
}

bool anfi_infer_concat(anfi_infer *q) {
  anf_dtype d;
  size_t axis;
  int64_t dims[ANF_MAX_RANK];
  if (!alike(q, &d) || !anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis)) return false;
  const anf_type *t = q->in[0];
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[k];
  if (!same_but(q, axis, dims)) return false;
  for (size_t i = 1; i < q->n; i++) dims[axis] = anfi_dims_add(dims[axis], q->in[i]->dims[axis]);
  return anfi_infer_result(q, d, t->n, dims);
}

bool anfi_infer_stack(anfi_infer *q) {
  anf_dtype d;
  size_t axis;
  int64_t dims[ANF_MAX_RANK], out[ANF_MAX_RANK + 1];
  if (!alike(q, &d) || !anfi_infer_axis(q, q->attr[0], q->in[0]->n + 1, &axis)) return false;
  const anf_type *t = q->in[0];
  for (size_t k = 0; k < t->n; k++) dims[k] = t->dims[k];
  if (!same_but(q, ANF_MAX_RANK, dims)) return false;
  for (size_t k = 0; k <= t->n; k++)
    out[k] = k == axis ? (int64_t)q->n : dims[k < axis ? k : k - 1];
  return anfi_infer_result(q, d, t->n + 1, out);
}

/* Elements from `at` on in runs of n, which start `step` apart: all elements of the other tensor. */
typedef struct runs {
  size_t at, step, n;
} runs;

/* The part of a tensor of these dims that begins at index `from` along the axis and has so many of it. */
static runs runs_of(const anf_type *t, size_t axis, int64_t from, size_t many) {
  size_t inner = 1;
  for (size_t k = axis + 1; k < t->n; k++) inner *= (size_t)t->dims[k];
  return (runs){(size_t)from * inner, (size_t)t->dims[axis] * inner, many * inner};
}

/* Writes x into the result, from index `from` along the axis on, where it has so many. */
static void place(anfi_eval *q, const anf_value *x, size_t axis, int64_t from, size_t many) {
  runs r = runs_of(q->type, axis, from, many);
  for (size_t i = 0, to = r.at; r.n && i < x->n; i += r.n, to += r.step)
    anfi_copy_run(q->out, to, x, i, r.n);
}

bool anfi_eval_concat(anfi_eval *q) {
  size_t axis;
  int64_t from = 0;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  for (size_t i = 0; i < q->n; i++) {
    const anf_type *t = q->in[i]->type;
    place(q, anfi_eval_converted(q, i), axis, from, (size_t)t->dims[axis]);
    from += t->dims[axis];
  }
  return true;
}

bool anfi_eval_stack(anfi_eval *q) {
  size_t axis;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  for (size_t i = 0; i < q->n; i++) place(q, anfi_eval_converted(q, i), axis, (int64_t)i, 1);
  return true;
}

/* ---- Split, Unstack ---- */

/* Part i of n along a dim of this size: [*from, *to). Cut positions clamp as slices do. */
void anfi_split_part(const anf_value *sections, int64_t size, size_t i, int64_t *from,
                     int64_t *to) {
  if (sections->kind != ANF_VALUE_TUPLE) {
    int64_t each = size / anfi_attr_int(sections);
    *from = (int64_t)i * each;
    *to = *from + each;
    return;
  }
  int64_t bound[2] = {0, size};
  for (size_t k = 0; k < 2; k++) {
    if (i + k == 0 || i + k > sections->n) continue;
    int64_t c = anfi_get_i64(sections->u.item[i + k - 1], 0);
    bound[k] = c < 0 ? (c + size < 0 ? 0 : c + size) : c < size ? c : size;
  }
  *from = bound[0];
  *to = bound[1] > bound[0] ? bound[1] : bound[0];
}

static bool parts(anfi_infer *q, size_t n, size_t axis, bool drop) {
  const anf_type *t = q->in[0], **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) {
    int64_t dims[ANF_MAX_RANK], from, to;
    size_t rank = 0;
    for (size_t k = 0; k < t->n; k++) {
      if (k != axis) dims[rank++] = t->dims[k];
      else if (!drop && t->dims[k] < 0) dims[rank++] = ANF_DIM_UNKNOWN;
      else if (!drop) {
        anfi_split_part(q->attr[0], t->dims[k], i, &from, &to);
        dims[rank++] = to - from;
      }
    }
    items[i] = anfi_type_tensor(q->cx, (anf_dtype)t->dtype, rank, dims);
  }
  return anfi_infer_is(q, anfi_type_tuple(q->cx, n, items));
}

bool anfi_infer_split(anfi_infer *q) {
  size_t axis;
  if (!anfi_infer_tensors(q) || !anfi_infer_axis(q, q->attr[1], q->in[0]->n, &axis)) return false;
  if (q->attr[0]->kind == ANF_VALUE_TUPLE) return parts(q, q->attr[0]->n + 1, axis, false);
  int64_t n = anfi_attr_int(q->attr[0]), size = q->in[0]->dims[axis];
  if (n <= 0 || n > 1 << 20)
    return anfi_infer_fail(q, "the number of parts must be between 1 and 2^20");
  if (size >= 0 && size % n)
    return anfi_infer_fail(q, "the dim is no multiple of the number of parts");
  return parts(q, (size_t)n, axis, false);
}

bool anfi_infer_unstack(anfi_infer *q) {
  size_t axis;
  if (!anfi_infer_tensors(q) || !anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis)) return false;
  int64_t size = q->in[0]->dims[axis];
  if (size < 0) return anfi_infer_any(q);
  if (size > 1 << 20) return anfi_infer_fail(q, "the number of parts must be between 1 and 2^20");
  return parts(q, (size_t)size, axis, true);
}

static bool cut(anfi_eval *q, size_t axis, const anf_value *sections) {
  const anf_type *t = q->in[0]->type;
  int64_t from, to;
  q->out = anfi_value_new_tuple(q->cx, q->type->n);
  for (size_t i = 0; i < q->type->n; i++) {
    anf_value *part = q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
    from = (int64_t)i, to = from + 1;
    if (sections) anfi_split_part(sections, t->dims[axis], i, &from, &to);
    runs r = runs_of(t, axis, from, (size_t)(to - from));
    for (size_t j = 0, at = r.at; r.n && j < part->n; j += r.n, at += r.step)
      anfi_copy_run(part, j, q->in[0], at, r.n);
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

/* ---- Pad, Tile, Repeat, Roll: each element of the result comes from one of x, axis by axis ---- */

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

static bool is_pad_mode(const anf_value *v) {
  static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", "wrap"};
  for (size_t i = 0; i < ANFI_LEN(modes); i++)
    if (anfi_attr_is(v, modes[i])) return true;
  return false;
}

/* A number without a type fills integers only if it is one of their range; a complex number fills no real ones. */
static bool fills(anfi_infer *q, const anf_value *v, anf_dtype d) {
  if (!anfi_infer_number_attr(q, v)) return false;
  anf_dtype is = (anf_dtype)v->type->dtype;
  if (anfi_dtype_class(is) == ANFI_CLASS_COMPLEX && anfi_dtype_class(d) != ANFI_CLASS_COMPLEX)
    return anfi_fail(q->cx, q->loc, ANF_E0561, anf_dtype_name(d));
  if (!anfi_dtype_is_weak(is) || !anfi_dtype_is_int(d)) return true;
  double x = is == ANF_FLOAT ? anfi_get_f64(v, 0) : 0;
  bool whole = x >= -0x1p63 && x < 0x1p63 && x == (double)(int64_t)x;
  int64_t i = is == ANF_INT ? anfi_get_i64(v, 0) : whole ? (int64_t)x : 0;
  if (whole && anfi_dtype_holds(d, i, i)) return true;
  return anfi_fail(q->cx, q->loc, ANF_E0561, anf_dtype_name(d));
}

bool anfi_infer_pad(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t w[2 * ANF_MAX_RANK], dims[ANF_MAX_RANK];
  if (anfi_attr_ints(q->attr[0], 2 * ANF_MAX_RANK, w) != 2 * (size_t)t->n)
    return anfi_infer_fail(q, "pad_width needs two numbers for each axis, before and after");
  if (!fills(q, q->attr[2], (anf_dtype)t->dtype)) return false;
  if (!is_pad_mode(q->attr[1]))
    return anfi_infer_fail(q, "mode must be constant, edge, reflect, symmetric or wrap");
  bool constant = anfi_attr_is(q->attr[1], "constant");
  for (size_t k = 0; k < t->n; k++) {
    if (w[2 * k] < 0 || w[2 * k + 1] < 0) return anfi_infer_fail(q, "a width must not be negative");
    int64_t more = anfi_dims_add(w[2 * k], w[2 * k + 1]);
    if (t->dims[k] == 0 && more > 0 && !constant)
      return anfi_infer_fail(q, "an empty dim has no element to pad with");
    dims[k] = anfi_dims_add(t->dims[k], more);
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
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

bool anfi_infer_tile(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t reps[ANF_MAX_RANK], dims[ANF_MAX_RANK];
  size_t n, rank;
  if (!anfi_infer_shape_attr(q, q->attr[0], &n, reps)) return false;
  rank = n > t->n ? n : t->n;
  for (size_t k = 0; k < rank; k++) {
    int64_t have = k + t->n < rank ? 1 : t->dims[k + t->n - rank],
            times = k + n < rank ? 1 : reps[k + n - rank];
    dims[k] = times == 1 ? have : anfi_dims_mul(have, times);
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
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

bool anfi_infer_repeat(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t times = anfi_attr_int(q->attr[0]), dims[ANF_MAX_RANK], all;
  size_t axis;
  if (times < 0) return anfi_infer_fail(q, "repeats must not be negative");
  if (!anfi_attr_given(q->attr[1])) {
    all = anfi_dims_mul(anfi_dims_elements(t, 0, t->n), times);
    return anfi_infer_result(q, (anf_dtype)t->dtype, 1, &all);
  }
  if (!anfi_infer_axis(q, q->attr[1], t->n, &axis)) return false;
  for (size_t k = 0; k < t->n; k++)
    dims[k] = k == axis ? anfi_dims_mul(t->dims[k], times) : t->dims[k];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
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
    for (size_t r = 0; r < times; r++, to += inner)
      anfi_copy_run(q->out, to, q->in[0], i * inner, inner);
  return true;
}

bool anfi_infer_roll(anfi_infer *q) {
  int64_t shift[ANF_MAX_RANK], axis[ANF_MAX_RANK];
  size_t at, n = anfi_attr_ints(q->attr[0], ANF_MAX_RANK, shift), m;
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_attr_given(q->attr[1]))
    return n == 1 ? anfi_infer_same(q) : anfi_infer_fail(q, "without axis there is one shift");
  m = anfi_attr_ints(q->attr[1], ANF_MAX_RANK, axis);
  if (m > ANF_MAX_RANK || (n != m && n != 1)) return anfi_infer_fail(q, "each axis needs a shift");
  for (size_t i = 0; i < m; i++)
    if (!anfi_axis_in(axis[i], q->in[0]->n, &at))
      return anfi_infer_bad_axis(q, axis[i], (size_t)q->in[0]->n);
  return anfi_infer_same(q);
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
