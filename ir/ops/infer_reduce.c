// SPDX-License-Identifier: Apache-2.0
/* Result types of reductions and running sums. `axis` None means all axes, () none; reduced axes
 * vanish, or stay as 1 with keepdims. */
#include "ir/ops/op.h"

bool anfi_infer_result(anfi_infer *q, anf_dtype d, size_t rank, const int64_t *dims) {
  if (rank > ANF_MAX_RANK)
    return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
  q->out = anfi_type_tensor(q->cx, d, rank, dims);
  return true;
}

uint32_t anfi_reduced_axes(const anf_value *axis, size_t rank) {
  return anfi_attr_given(axis) ? anfi_axes_mask(axis, rank) : (UINT32_C(1) << rank) - 1;
}

/* Sets the result of reducing t; attributes 0 and 1 are axis and keepdims. */
static bool reduced_type(anfi_infer *q, const anf_type *t, anf_dtype d, bool needs_elements) {
  uint32_t mask = (UINT32_C(1) << t->n) - 1;
  if (anfi_attr_given(q->attr[0]) && !anfi_infer_axes(q, q->attr[0], t->n, &mask)) return false;
  bool keep = anfi_attr_bool(q->attr[1]), empty = false, none = false;
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  for (size_t k = 0; k < t->n; k++) {
    bool gone = mask >> k & 1;
    if (t->dims[k] == 0) *(gone ? &empty : &none) = true;
    if (!gone || keep) dims[rank++] = gone ? 1 : t->dims[k];
  }
  if (needs_elements && empty && !none)
    return anfi_infer_fail(q, "there is no element to choose from");
  return anfi_infer_result(q, d, rank, dims);
}

static bool reduced(anfi_infer *q, anf_dtype d, bool needs_elements) {
  return reduced_type(q, q->in[0], d, needs_elements);
}

static bool real_argument(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anfi_class c = anfi_dtype_class((anf_dtype)q->in[0]->dtype);
  if (c < ANFI_CLASS_COMPLEX) return true;
  return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name,
                   anf_dtype_name((anf_dtype)q->in[0]->dtype));
}

static bool number_argument(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != ANF_KEY) return true;
  return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, "key");
}

/* Sums of narrow integers are 64 bits wide, as NumPy's. */
static anf_dtype sum_dtype(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_BOOL: return ANF_I64;
  case ANFI_CLASS_SIGNED: return d == ANF_INT ? ANF_INT : ANF_I64;
  case ANFI_CLASS_UNSIGNED: return ANF_U64;
  default: return d;
  }
}

static anf_dtype mean_dtype(anf_dtype d) {
  if (anfi_dtype_class(d) >= ANFI_CLASS_FLOAT) return d;
  return d == ANF_INT ? ANF_FLOAT : ANF_F64;
}

bool anfi_infer_sum(anfi_infer *q) {
  return number_argument(q) && reduced(q, sum_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_mean(anfi_infer *q) {
  return number_argument(q) && reduced(q, mean_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_spread(anfi_infer *q) {
  return real_argument(q) && reduced(q, mean_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_extreme(anfi_infer *q) {
  return real_argument(q) && reduced(q, (anf_dtype)q->in[0]->dtype, true);
}

bool anfi_infer_arg_extreme(anfi_infer *q) { return real_argument(q) && reduced(q, ANF_I64, true); }

bool anfi_infer_any_all(anfi_infer *q) { return number_argument(q) && reduced(q, ANF_BOOL, false); }

/* Attribute 0 is the axis; None runs over all elements in row-major order. */
static bool running(anfi_infer *q, anf_dtype d) {
  const anf_type *t = q->in[0];
  size_t axis;
  if (anfi_attr_given(q->attr[0]))
    return anfi_infer_axis(q, q->attr[0], t->n, &axis) && anfi_infer_result(q, d, t->n, t->dims);
  int64_t n = 1;
  for (size_t k = 0; k < t->n && n >= 0; k++) n = t->dims[k] < 0 ? ANF_DIM_UNKNOWN : n * t->dims[k];
  return anfi_infer_result(q, d, 1, &n);
}

bool anfi_infer_cumsum(anfi_infer *q) {
  return number_argument(q) && running(q, sum_dtype((anf_dtype)q->in[0]->dtype));
}

bool anfi_infer_cummax(anfi_infer *q) {
  return real_argument(q) && running(q, (anf_dtype)q->in[0]->dtype);
}

/* x broadcast from `like`, summed back to its shape. */
bool anfi_infer_sum_to(anfi_infer *q) {
  if (!number_argument(q)) return false;
  const anf_type *x = q->in[0], *to = q->in[1];
  if (to->n > x->n) return anfi_infer_fail(q, "the second argument has more dims than the first");
  for (size_t k = 0; k < to->n; k++) {
    int64_t have = x->dims[x->n - to->n + k], want = to->dims[k];
    if (have != want && want != 1 && have >= 0 && want >= 0)
      return anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, anfi_type_text(q->cx, x),
                       anfi_type_text(q->cx, to));
  }
  return anfi_infer_result(q, (anf_dtype)x->dtype, to->n, to->dims);
}

/* y is what a reduction of `like` gives; the result has the shape of `like`. */
bool anfi_infer_unreduce(anfi_infer *q) {
  const anf_type *y = q->in[0], *like = q->in[1];
  if (!number_argument(q) || !reduced_type(q, like, (anf_dtype)y->dtype, false)) return false;
  bool fits = y->n == q->out->n;
  for (size_t k = 0; fits && k < y->n; k++)
    fits = y->dims[k] == q->out->dims[k] || y->dims[k] < 0 || q->out->dims[k] < 0;
  if (!fits)
    return anfi_fail(q->cx, q->loc, ANF_E0546, (size_t)1, anfi_op[q->op].name,
                     anfi_type_text(q->cx, q->out), anfi_type_text(q->cx, y));
  return anfi_infer_result(q, (anf_dtype)y->dtype, like->n, like->dims);
}
