// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of ops that cut, join and rearrange: each op is linear, and this is its transpose.
 *   y = Pad(x)                           dx = Slice(dy) */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

static size_t axis_of(const anfi_derive *q, const char *name, size_t rank) {
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(anfi_derive_attr(q, name)), rank, &axis);
  return axis;
}

/* x[from:to] along an axis; `to` beyond the end when the rest is meant. */
static anf_node *part(anfi_derive *q, anf_node *x, int64_t from, int64_t to, size_t axis) {
  anf_value *v[3] = {anfi_derive_int(q, from), anfi_derive_int(q, to), NULL};
  v[2] = anfi_derive_int(q, (int64_t)axis);
  return anfi_derive_build(q, "(Slice @0 start=$0 stop=$1 axis=$2)", &x, 3, v);
}

static anf_node *padded(anfi_derive *q, anf_node *x, size_t rank, const int64_t *widths) {
  anf_value *v = anfi_derive_ints(q, 2 * rank, widths);
  return anfi_derive_build(q, "(Pad @0 pad_width=$0)", &x, 1, &v);
}

/* ---- joining ---- */

bool anfi_vjp_concat(anfi_derive *q) {
  size_t axis = axis_of(q, "axis", anfi_derive_type(q, 0)->n);
  int64_t from = 0;
  for (size_t i = 0; i < q->n; i++) {
    if (!anfi_derive_static(q, i)) return false;
    int64_t to = from + anfi_derive_type(q, i)->dims[axis];
    if (anfi_derive_wants(q, i)) {
      q->out[i] = q->n == 1 ? q->dy[0] : part(q, q->dy[0], from, to, axis);
      if (!q->out[i]) return false;
    }
    from = to;
  }
  return true;
}

bool anfi_vjp_stack(anfi_derive *q) {
  for (size_t i = 0; i < q->n; i++) {
    anf_node *at = anfi_ad_number(q->ad, ANF_I64, (double)i);
    if (!anfi_derive_wants(q, i)) continue;
    q->out[i] = anfi_derive_build(q, "(Take dy @0 axis=axis)", &at, 0, NULL);
    if (!q->out[i]) return false;
  }
  return true;
}

/* ---- cutting ---- */

/* The places of dy, zeros where nothing comes in. */
static anf_node **all_places(anfi_derive *q) {
  const anf_type *t = anfi_ad_type_of(q->ad, q->y);
  anf_node **in = ANFI_NEW_N(q->ad->arena, anf_node *, q->ndy + 1);
  for (size_t k = 0; k < q->ndy; k++) {
    in[k] = q->dy[k] ? q->dy[k] : anfi_ad_full(q->ad, q->g, t->items[k], 0);
    if (!in[k]) return NULL;
  }
  return in;
}

static size_t given_places(const anfi_derive *q) {
  size_t n = 0;
  for (size_t k = 0; k < q->ndy; k++) n += q->dy[k] != NULL;
  return n;
}

/* Part k of x goes back to its place. */
static anf_node *put_back(anfi_derive *q, size_t k, size_t axis, int64_t from, int64_t to) {
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t widths[2 * ANF_MAX_RANK] = {0};
  widths[2 * axis] = from;
  widths[2 * axis + 1] = t->dims[axis] - to;
  return padded(q, q->dy[k], t->n, widths);
}

bool anfi_vjp_split(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  const anf_value *sections = anfi_derive_attr(q, "sections");
  size_t axis = axis_of(q, "axis", t->n);
  int64_t from, to, end = 0;
  bool tiles = true; // parts follow each other; cut positions that fall back make parts overlap
  for (size_t k = 0; k < q->ndy; k++) {
    anfi_split_part(sections, t->dims[axis], k, &from, &to);
    tiles &= from == end;
    end = to;
  }
  if (tiles && given_places(q) > 1) {
    anf_node **in = all_places(q);
    anf_value *v = anfi_derive_int(q, (int64_t)axis);
    const anfi_attrs *at = anfi_ad_attrs(q->ad, ANF_OP_Concat, &v);
    q->out[0] = in ? anfi_ad_apply(q->ad, q->g, ANF_OP_Concat, at, q->ndy, in) : NULL;
    return q->out[0] != NULL;
  }
  for (size_t k = 0; k < q->ndy; k++) {
    if (!q->dy[k]) continue;
    anfi_split_part(sections, t->dims[axis], k, &from, &to);
    anf_node *p = put_back(q, k, axis, from, to);
    if (!p || !(q->out[0] = anfi_ad_add(q->ad, q->g, q->out[0], p))) return false;
  }
  return true;
}

bool anfi_vjp_unstack(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  anf_node **in = all_places(q);
  anf_value *v = anfi_derive_int(q, anfi_attr_int(anfi_derive_attr(q, "axis")));
  const anfi_attrs *at = anfi_ad_attrs(q->ad, ANF_OP_Stack, &v);
  q->out[0] = in ? anfi_ad_apply(q->ad, q->g, ANF_OP_Stack, at, q->ndy, in) : NULL;
  return q->out[0] != NULL;
}

/* ---- padding, repeating ---- */

/* Along one axis a pad takes elements at constant positions: adjoints are summed there. */
static anf_node *unpad(anfi_derive *q, anf_node *dy, size_t axis, const int64_t *width) {
  const anf_type *t = anfi_ad_type_of(q->ad, dy);
  int64_t size = anfi_derive_type(q, 0)->dims[axis], dims[ANF_MAX_RANK];
  const anf_value *mode = anfi_derive_attr(q, "mode");
  if (anfi_attr_is(mode, "constant")) return part(q, dy, width[0], width[0] + size, axis);
  anf_value *from = anfi_value_new_tensor(
      q->ad->m->cx, anfi_type_tensor(q->ad->m->cx, ANF_I64, 1, &t->dims[axis]));
  for (size_t i = 0; i < from->n; i++)
    anfi_set_i64(from, i, anfi_padded_from(mode, (int64_t)i - width[0], size));
  if (t->n) memcpy(dims, t->dims, t->n * sizeof *dims);
  dims[axis] = size;
  const anf_type *to = anfi_type_tensor(q->ad->m->cx, (anf_dtype)t->dtype, t->n, dims);
  anf_node *in[3] = {anfi_ad_const(q->ad, from), anfi_ad_full(q->ad, q->g, to, 0), dy};
  anf_value *v = anfi_derive_int(q, (int64_t)axis);
  return anfi_derive_build(q, "(IndexWrite @1 @0 @2 axis=$0 mode=add)", in, 1, &v);
}

bool anfi_vjp_pad(anfi_derive *q) {
  int64_t w[2 * ANF_MAX_RANK];
  if (!anfi_derive_static(q, 0)) return false;
  anfi_attr_ints(anfi_derive_attr(q, "pad_width"), 2 * ANF_MAX_RANK, w);
  anf_node *d = q->dy[0];
  for (size_t k = 0; d && k < anfi_derive_type(q, 0)->n; k++)
    if (w[2 * k] || w[2 * k + 1]) d = unpad(q, d, k, w + 2 * k);
  return (q->out[0] = d) != NULL;
}

/* dy in these dims, summed along the axes of the mask, in the shape of x. */
static bool summed(anfi_derive *q, size_t rank, const int64_t *dims, size_t n,
                   const int64_t *axes) {
  if (rank > ANF_MAX_RANK) return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_MISSING);
  anf_value *v[2] = {anfi_derive_ints(q, rank, dims), NULL};
  v[1] = anfi_derive_ints(q, n, axes);
  q->out[0] =
      anfi_derive_build(q, "(ReshapeLike (Sum (Reshape dy shape=$0) axis=$1) x)", NULL, 2, v);
  return q->out[0] != NULL;
}

bool anfi_vjp_tile(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t reps[ANF_MAX_RANK], dims[2 * ANF_MAX_RANK], axes[ANF_MAX_RANK];
  size_t n = anfi_attr_ints(anfi_derive_attr(q, "reps"), ANF_MAX_RANK, reps), rank = 0, naxes = 0;
  size_t most = n > t->n ? n : t->n;
  for (size_t k = 0; k < most; k++) {
    int64_t times = k + n < most ? 1 : reps[k + n - most];
    if (times != 1) {
      axes[naxes++] = (int64_t)rank;
      dims[rank++] = times;
    }
    if (k + t->n >= most) dims[rank++] = t->dims[k + t->n - most];
  }
  return summed(q, rank, dims, naxes, axes);
}

bool anfi_vjp_repeat(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t dims[ANF_MAX_RANK + 1], at;
  size_t rank = 0, axis = t->n;
  if (anfi_attr_given(anfi_derive_attr(q, "axis"))) axis = axis_of(q, "axis", t->n) + 1;
  for (size_t k = 0; k <= t->n; k++) {
    if (k == axis) dims[rank++] = anfi_attr_int(anfi_derive_attr(q, "repeats"));
    if (k < t->n) dims[rank++] = t->dims[k];
  }
  at = (int64_t)axis;
  return summed(q, rank, dims, 1, &at);
}

/* ---- rearranging ---- */

bool anfi_vjp_roll(anfi_derive *q) {
  int64_t shift[ANF_MAX_RANK];
  const anf_value *given = anfi_derive_attr(q, "shift");
  size_t n = anfi_attr_ints(given, ANF_MAX_RANK, shift);
  for (size_t i = 0; i < n; i++) shift[i] = -shift[i];
  anf_value *v =
      given->kind == ANF_VALUE_TUPLE ? anfi_derive_ints(q, n, shift) : anfi_derive_int(q, shift[0]);
  q->out[0] = anfi_derive_build(q, "(Roll dy shift=$0 axis=axis)", NULL, 1, &v);
  return q->out[0] != NULL;
}

bool anfi_vjp_transpose(anfi_derive *q) {
  size_t rank = anfi_derive_type(q, 0)->n, perm[ANF_MAX_RANK];
  const anf_value *axes = anfi_derive_attr(q, "axes");
  int64_t back[ANF_MAX_RANK];
  if (!anfi_attr_given(axes)) return (q->out[0] = anfi_derive_build0(q, "(Transpose dy)")) != NULL;
  anfi_permutation(axes, rank, perm);
  for (size_t k = 0; k < rank; k++) back[perm[k]] = (int64_t)k;
  anf_value *v = anfi_derive_ints(q, rank, back);
  q->out[0] = anfi_derive_build(q, "(Transpose dy axes=$0)", NULL, 1, &v);
  return q->out[0] != NULL;
}

/* A diagonal put back is a square matrix, which is cut or padded to the shape of x. */
bool anfi_vjp_diag(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  anf_node *d = anfi_derive_build0(q, "(Diag dy k=k)");
  int64_t width[4] = {0};
  bool pads = false;
  for (size_t k = 0; d && t->n == 2 && k < 2; k++) {
    int64_t have = anfi_ad_type_of(q->ad, d)->dims[k];
    if (have > t->dims[k]) d = part(q, d, 0, t->dims[k], k);
    else width[2 * k + 1] = t->dims[k] - have;
    pads |= width[2 * k + 1] > 0;
  }
  if (d && pads) d = padded(q, d, 2, width);
  return (q->out[0] = d) != NULL;
}

/* ---- x.T, x[...] ---- */

bool anfi_vjp_get_field(anfi_derive *q) {
  if (anfi_derive_type(q, 0)->kind != ANF_TYPE_TENSOR)
    return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_GRAPH);
  q->out[0] = anfi_derive_build0(q, "(Transpose dy)");
  return q->out[0] != NULL;
}
