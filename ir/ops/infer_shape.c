// SPDX-License-Identifier: Apache-2.0
/* Result types of ops that look at shapes or rearrange whole tensors. A dim that is not constant
 * stays as it is where it is copied, and becomes unknown where it is computed with. */
#include "ir/ops/op.h"

bool anfi_infer_shape_attr(const anfi_infer *q, const anf_value *v, size_t *rank, int64_t *dims) {
  *rank = anfi_attr_ints(v, ANF_MAX_RANK, dims);
  if (*rank > ANF_MAX_RANK)
    return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
  for (size_t k = 0; k < *rank; k++)
    if (dims[k] < 0) return anfi_infer_fail(q, "a dim must not be negative");
  return true;
}

bool anfi_infer_number_attr(const anfi_infer *q, const anf_value *v) {
  bool good = v->kind == ANF_VALUE_TENSOR && v->type->n == 0 && v->type->dtype != ANF_KEY;
  return good || anfi_infer_fail(q, "an attribute must be a number");
}

/* a + b and a * b of dims; unknown if one is, or out of range: such a type is refused as too large.
 */
static int64_t add_dims(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return ANF_DIM_UNKNOWN;
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static int64_t mul_dims(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return ANF_DIM_UNKNOWN;
  return a > INT64_MAX / b ? INT64_MAX : a * b;
}

static int64_t product(const anf_type *t, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t k = from; k < to; k++)
    if (t->dims[k] == 0) return 0;
  for (size_t k = from; k < to; k++) n = mul_dims(n, t->dims[k]);
  return n;
}

/* ---- looking at shapes: weak integers ---- */

bool anfi_infer_shape(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *items[ANF_MAX_RANK];
  for (size_t k = 0; k < q->in[0]->n; k++) items[k] = anfi_type_scalar(q->cx, ANF_INT);
  q->out = anfi_type_tuple(q->cx, q->in[0]->n, items);
  return true;
}

bool anfi_infer_rank(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  q->out = anfi_type_scalar(q->cx, ANF_INT);
  return true;
}

bool anfi_infer_len(anfi_infer *q) {
  const anf_type *t = q->in[0];
  bool composite =
      t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD || t->kind == ANF_TYPE_STRING;
  if (!composite && t->kind != ANF_TYPE_ANY && !(anfi_is_tensor(t) && t->n))
    return anfi_infer_fail(q,
                           "only a tensor with dims, a tuple, a record or a string has a length");
  q->out = anfi_type_scalar(q->cx, ANF_INT);
  return true;
}

/* ---- the same elements in another shape ---- */

bool anfi_infer_reshape(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  int64_t dims[ANF_MAX_RANK], have = product(q->in[0], 0, q->in[0]->n), rest = 1;
  size_t rank = anfi_attr_ints(q->attr[0], ANF_MAX_RANK, dims), open = ANF_MAX_RANK;
  for (size_t k = 0; k < rank && rank <= ANF_MAX_RANK; k++) {
    if (dims[k] < -1) return anfi_infer_fail(q, "a dim must not be negative");
    if (dims[k] >= 0) rest = mul_dims(rest, dims[k]);
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
  int64_t have = product(x, 0, x->n), want = product(like, 0, like->n);
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
    else if (k == from) dims[rank++] = product(t, from, to + 1);
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
  return fits || anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, anfi_type_text(q->cx, t),
                           anfi_type_text(q->cx, q->out));
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
  if (rank > ANF_MAX_RANK)
    return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
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

/* ---- joining and cutting ---- */

static bool same_but(const anfi_infer *q, size_t axis, int64_t *dims) {
  for (size_t i = 1; i < q->n; i++)
    for (size_t k = 0; k < q->in[0]->n; k++) {
      int64_t d = q->in[i]->dims[k];
      if (k == axis) continue;
      if (dims[k] >= 0 && d >= 0 && d != dims[k])
        return anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name,
                         anfi_type_text(q->cx, q->in[0]), anfi_type_text(q->cx, q->in[i]));
      if (dims[k] < 0) dims[k] = d;
    }
  return true;
}

/* All arguments are tensors of one rank; their promoted type. */
static bool alike(anfi_infer *q, anf_dtype *d) {
  if (!q->n) return anfi_infer_fail(q, "there is nothing to join");
  bool keys = true;
  for (size_t i = 0; i < q->n; i++) keys &= anfi_is_tensor(q->in[i]) && q->in[i]->dtype == ANF_KEY;
  *d = ANF_KEY;
  if (!keys && !anfi_infer_promoted(q, d)) return false;
  for (size_t i = 1; i < q->n; i++)
    if (q->in[i]->n != q->in[0]->n)
      return anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name,
                       anfi_type_text(q->cx, q->in[0]), anfi_type_text(q->cx, q->in[i]));
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
  for (size_t i = 1; i < q->n; i++) dims[axis] = add_dims(dims[axis], q->in[i]->dims[axis]);
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
  q->out = anfi_type_tuple(q->cx, n, items);
  return true;
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

/* ---- larger or rearranged ---- */

static bool is_pad_mode(const anf_value *v) {
  static const char *const modes[] = {"constant", "edge", "reflect", "symmetric", "wrap"};
  for (size_t i = 0; i < ANFI_LEN(modes); i++)
    if (anfi_attr_is(v, modes[i])) return true;
  return false;
}

bool anfi_infer_pad(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t w[2 * ANF_MAX_RANK], dims[ANF_MAX_RANK];
  if (anfi_attr_ints(q->attr[0], 2 * ANF_MAX_RANK, w) != 2 * (size_t)t->n)
    return anfi_infer_fail(q, "pad_width needs two numbers for each axis, before and after");
  if (!anfi_infer_number_attr(q, q->attr[2])) return false;
  if (!is_pad_mode(q->attr[1]))
    return anfi_infer_fail(q, "mode must be constant, edge, reflect, symmetric or wrap");
  bool constant = anfi_attr_is(q->attr[1], "constant");
  for (size_t k = 0; k < t->n; k++) {
    if (w[2 * k] < 0 || w[2 * k + 1] < 0) return anfi_infer_fail(q, "a width must not be negative");
    int64_t more = add_dims(w[2 * k], w[2 * k + 1]);
    if (t->dims[k] == 0 && more > 0 && !constant)
      return anfi_infer_fail(q, "an empty dim has no element to pad with");
    dims[k] = add_dims(t->dims[k], more);
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
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
    dims[k] = times == 1 ? have : mul_dims(have, times);
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, rank, dims);
}

bool anfi_infer_repeat(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t times = anfi_attr_int(q->attr[0]), dims[ANF_MAX_RANK], all;
  size_t axis;
  if (times < 0) return anfi_infer_fail(q, "repeats must not be negative");
  if (!anfi_attr_given(q->attr[1])) {
    all = mul_dims(product(t, 0, t->n), times);
    return anfi_infer_result(q, (anf_dtype)t->dtype, 1, &all);
  }
  if (!anfi_infer_axis(q, q->attr[1], t->n, &axis)) return false;
  for (size_t k = 0; k < t->n; k++) dims[k] = k == axis ? mul_dims(t->dims[k], times) : t->dims[k];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
}

static bool same(anfi_infer *q) {
  q->out = q->in[0];
  return true;
}

bool anfi_infer_flip(anfi_infer *q) {
  uint32_t mask;
  if (!anfi_infer_tensors(q)) return false;
  if (anfi_attr_given(q->attr[0]) && !anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask))
    return false;
  return same(q);
}

bool anfi_infer_roll(anfi_infer *q) {
  int64_t shift[ANF_MAX_RANK], axis[ANF_MAX_RANK];
  size_t at, n = anfi_attr_ints(q->attr[0], ANF_MAX_RANK, shift), m;
  if (!anfi_infer_tensors(q)) return false;
  if (!anfi_attr_given(q->attr[1]))
    return n == 1 ? same(q) : anfi_infer_fail(q, "without axis there is one shift");
  m = anfi_attr_ints(q->attr[1], ANF_MAX_RANK, axis);
  if (m > ANF_MAX_RANK || (n != m && n != 1)) return anfi_infer_fail(q, "each axis needs a shift");
  for (size_t i = 0; i < m; i++)
    if (!anfi_axis_in(axis[i], q->in[0]->n, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0540, (long long)axis[i], anfi_op[q->op].name,
                       (size_t)q->in[0]->n);
  return same(q);
}

bool anfi_infer_tri(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  return q->in[0]->n >= 2 ? same(q) : anfi_infer_fail(q, "a matrix, or a stack of them, is needed");
}

bool anfi_infer_diag(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  int64_t k = anfi_attr_int(q->attr[0]), dims[2] = {ANF_DIM_UNKNOWN, ANF_DIM_UNKNOWN};
  if (k < -(INT64_C(1) << 40) || k > INT64_C(1) << 40)
    return anfi_infer_fail(q, "k is out of range");
  if (t->n != 1 && t->n != 2) return anfi_infer_fail(q, "a vector or a matrix is needed");
  if (t->n == 1) {
    dims[0] = dims[1] = add_dims(t->dims[0], k < 0 ? -k : k);
    return anfi_infer_result(q, (anf_dtype)t->dtype, 2, dims);
  }
  if (t->dims[0] >= 0 && t->dims[1] >= 0) {
    int64_t rows = t->dims[0] - (k < 0 ? -k : 0), columns = t->dims[1] - (k > 0 ? k : 0);
    dims[0] = rows < columns ? rows : columns;
    if (dims[0] < 0) dims[0] = 0;
  }
  return anfi_infer_result(q, (anf_dtype)t->dtype, 1, dims);
}
