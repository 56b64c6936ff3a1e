// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of products, running sums and products, extremes, and linear recurrences.
 *   y = x0 * x1 * x2                     dx1 = dy * (x0 * x2): the products before and after it, not y / x1
 * so that zeros do no harm. */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

/* ---- running along an axis; without one along all elements ---- */

/* x, or its elements in one line. */
static anf_node *in_line(anfi_derive *q, anf_node *x, size_t *axis) {
  const anf_type *t = anfi_ad_type_of(q->ad, x);
  const anf_value *given = anfi_derive_attr(q, "axis");
  size_t n;
  *axis = 0;
  if (anfi_attr_given(given)) return anfi_axis_in(anfi_attr_int(given), t->n, axis), x;
  int64_t all = anfi_type_elements(t, &n) ? (int64_t)n : -1;
  return anfi_derive_reshape(q, x, 1, &all);
}

bool anfi_vjp_cumsum(anfi_derive *q) {
  anf_value *v = anfi_derive_bool(q, !anfi_derive_flag(q, "reverse"));
  q->out[0] = anfi_derive_build(
      q, "(ReshapeLike (CumSum dy axis=axis reverse=$0 exclusive=exclusive) x)", NULL, 1, &v);
  return q->out[0] != NULL;
}

/* x moved by one along the axis, against the direction of the run or with it; zero comes in. */
static anf_node *moved(anfi_derive *q, anf_node *x, size_t axis, bool up) {
  anf_value *v[4] = {anfi_derive_int(q, up ? 1 : -1), NULL, NULL, NULL};
  v[1] = anfi_derive_int(q, (int64_t)axis);
  v[2] = anfi_derive_int(q, up ? 0 : -1);
  if (up) v[3] = anfi_derive_int(q, 1);
  else {
    v[3] = anfi_value_new_none(q->ad->m->cx);
    anfi_value_guard(v[3]);
  }
  return anfi_derive_build(q, "(SliceUpdate (Roll @0 shift=$0 axis=$1) 0 start=$2 stop=$3 axis=$1)",
                           &x, 4, v);
}

/* t_i = b_i + a_i t_before, against the direction of the run. */
static anf_node *recurrence(anfi_derive *q, anf_node *a, anf_node *b, size_t axis, bool reverse) {
  anf_node *in[2] = {a, b};
  anf_value *v[2] = {anfi_derive_int(q, (int64_t)axis), anfi_derive_bool(q, reverse)};
  return anfi_derive_build(q, "(LinearScan (Conj @0) @1 axis=$0 reverse=$1)", in, 2, v);
}

/* y_i = b_i + a_i y_before: the adjoint of y_i flows on to y_before times a_i. */
bool anfi_vjp_linear_scan(anfi_derive *q) {
  size_t axis = 0;
  bool back = anfi_derive_flag(q, "reverse");
  anfi_axis_in(anfi_attr_int(anfi_derive_attr(q, "axis")), anfi_derive_type(q, 0)->n, &axis);
  anf_node *a = moved(q, q->in[0], axis, back);
  anf_node *t = a ? recurrence(q, a, q->dy[0], axis, !back) : NULL;
  if (!t) return false;
  q->out[1] = t;
  anf_node *in[2] = {t, moved(q, q->y, axis, !back)};
  if (in[1]) q->out[0] = anfi_derive_build(q, "(Mul @0 (Conj @1))", in, 0, NULL);
  return q->out[0] != NULL;
}

/* Of y_j = x_0..x_j the factor x_i is left out: the product before it, times the recurrence that
 * gathers dy_j x_i+1..x_j from the end. */
bool anfi_vjp_cumprod(anfi_derive *q) {
  size_t axis;
  bool back = anfi_derive_flag(q, "reverse"), exclusive = anfi_derive_flag(q, "exclusive");
  anf_node *x = in_line(q, q->in[0], &axis), *s;
  if (!x) return false;
  if (exclusive) { // y_j ends before x_j
    s = recurrence(q, x, q->dy[0], axis, !back);
    s = s ? moved(q, s, axis, back) : NULL;
  } else {
    anf_node *next = moved(q, x, axis, back);
    s = next ? recurrence(q, next, q->dy[0], axis, !back) : NULL;
  }
  anf_node *in[2] = {x, s};
  anf_value *v[2] = {anfi_derive_int(q, (int64_t)axis), anfi_derive_bool(q, back)};
  anf_node *before =
      anfi_derive_build(q, "(CumProd (Conj @0) axis=$0 reverse=$1 exclusive=true)", in, 2, v);
  in[0] = before;
  if (before && s) q->out[0] = anfi_derive_build(q, "(ReshapeLike (Mul @0 @1) x)", in, 0, NULL);
  return q->out[0] != NULL;
}

/* The extreme so far is where x equals it last: that place gets dy. */
bool anfi_vjp_cumextreme(anfi_derive *q) {
  size_t axis;
  bool back = anfi_derive_flag(q, "reverse");
  anf_node *x = in_line(q, q->in[0], &axis), *in[3] = {x, NULL, NULL};
  if (!x || !anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_ad_type_of(q->ad, x);
  if (!t->n) return (q->out[0] = anfi_derive_build0(q, "(ReshapeLike dy x)")) != NULL;
  int64_t n = t->dims[axis], dims[ANF_MAX_RANK];
  for (size_t k = 0; k < t->n; k++) dims[k] = k == axis ? n : 1;
  anf_value *v[2] = {anfi_derive_int(q, n), anfi_derive_ints(q, t->n, dims)};
  in[1] = anfi_derive_build(q, "(Reshape (Arange stop=$0 dtype=i64) shape=$1)", NULL, 2, v);
  in[2] = anfi_ad_number(q->ad, ANF_I64, back ? (double)(n - 1) : 0);
  v[0] = anfi_derive_int(q, (int64_t)axis);
  in[1] = !in[1] ? NULL
          : back ? anfi_derive_build(q, "(CumMin (Where (Equal @0 y) @1 @2) axis=$0 reverse=true)",
                                     in, 1, v)
                 : anfi_derive_build(q, "(CumMax (Where (Equal @0 y) @1 @2) axis=$0)", in, 1, v);
  if (!in[1]) return false;
  v[0] = anfi_derive_int(q, (int64_t)axis);
  q->out[0] = anfi_derive_build(
      q, "(ReshapeLike (WriteAlongAxis (ZerosLike @0) @1 dy axis=$0 mode=add) x)", in, 1, v);
  return q->out[0] != NULL;
}

/* ---- products ---- */

/* Some axes, but not all: they are brought together after the others. */
static bool product_of_some(anfi_derive *q, uint32_t mask) {
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t perm[ANF_MAX_RANK], back[ANF_MAX_RANK], dims[ANF_MAX_RANK], moved_dims[ANF_MAX_RANK];
  size_t n = 0, kept = 0;
  for (int reduced = 0; reduced < 2; reduced++)
    for (size_t k = 0; k < t->n; k++)
      if ((int)(mask >> k & 1) == reduced) perm[n++] = (int64_t)k;
  for (size_t k = 0; k < t->n; k++) {
    back[perm[k]] = (int64_t)k;
    moved_dims[k] = t->dims[perm[k]];
    kept += !(mask >> k & 1);
  }
  memcpy(dims, moved_dims, kept * sizeof *dims);
  dims[kept] = 1;
  for (size_t k = kept; k < t->n; k++) dims[kept] *= moved_dims[k];
  anf_value *v[4] = {anfi_derive_ints(q, t->n, perm), anfi_derive_ints(q, kept + 1, dims), NULL,
                     NULL};
  anf_node *x = anfi_derive_build(q, "(Conj (Reshape (Transpose x axes=$0) shape=$1))", NULL, 2, v);
  v[0] = anfi_derive_ints(q, t->n, moved_dims);
  v[1] = anfi_derive_ints(q, t->n, back);
  if (x)
    q->out[0] = anfi_derive_build(
        q,
        "(Mul (Unreduce dy x axis=axis keepdims=keepdims) (Transpose (Reshape (Mul (CumProd @0 "
        "axis=-1 exclusive=true) (CumProd @0 axis=-1 exclusive=true reverse=true)) shape=$0) "
        "axes=$1))",
        &x, 2, v);
  return q->out[0] != NULL;
}

bool anfi_vjp_prod(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  uint32_t mask = anfi_reduced_axes(anfi_derive_attr(q, "axis"), t->n), all = (1u << t->n) - 1;
  if (!mask) q->out[0] = anfi_derive_build0(q, "(ReshapeLike dy x)");
  else if (mask == all)
    q->out[0] = anfi_derive_build0(
        q, "(Mul (Unreduce dy x axis=axis keepdims=keepdims) (ReshapeLike (Mul (CumProd (Conj x) "
           "exclusive=true) (CumProd (Conj x) exclusive=true reverse=true)) x))");
  else if ((mask & (mask - 1)) == 0) {
    size_t axis = 0;
    while (!(mask >> axis & 1)) axis++;
    anf_value *v = anfi_derive_int(q, (int64_t)axis);
    q->out[0] = anfi_derive_build(
        q,
        "(Mul (Unreduce dy x axis=axis keepdims=keepdims) (Mul (CumProd (Conj x) axis=$0 "
        "exclusive=true) (CumProd (Conj x) axis=$0 exclusive=true reverse=true)))",
        NULL, 1, &v);
  } else return product_of_some(q, mask);
  return q->out[0] != NULL;
}
