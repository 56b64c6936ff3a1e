// SPDX-License-Identifier: Apache-2.0
/* Result types of the softmax family, losses, normalisations, attention and embedding. */
#include "ir/ops/op.h"

/* ---- what hooks of neural-network ops share ---- */

bool anfi_infer_real_dtype(const anfi_infer *q, size_t n, const size_t *which, anf_dtype *out) {
  bool first = true;
  for (size_t i = 0; i < n; i++) {
    size_t k = which[i];
    bool required = k < anfi_op_schema(q->cx, q->op)->min_in;
    if (!required && !anfi_infer_given(q, k)) continue;
    if (!anfi_is_tensor(q->in[k]))
      return anfi_fail(q->cx, q->loc, ANF_E0502, k + 1, anfi_op[q->op].name,
                       anfi_type_text(q->cx, q->in[k]));
    anf_dtype d = (anf_dtype)q->in[k]->dtype;
    if (anfi_dtype_class(d) > ANFI_CLASS_FLOAT)
      return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
    if (first) *out = d;
    else anfi_dtype_promote(*out, d, out);
    first = false;
  }
  if (!anfi_dtype_is_float(*out)) *out = *out == ANF_INT ? ANF_FLOAT : ANF_F64;
  return true;
}

bool anfi_infer_agree(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

/* The argument, if given, must have exactly these dims. */
bool anfi_infer_shape_is(const anfi_infer *q, size_t i, size_t rank, const int64_t *dims) {
  if (!anfi_infer_given(q, i)) return true;
  const anf_type *t = q->in[i];
  bool fits = t->n == rank;
  for (size_t k = 0; fits && k < rank; k++) fits = anfi_infer_agree(t->dims[k], dims[k]);
  if (fits) return true;
  const anf_type *want = anfi_type_tensor(q->cx, (anf_dtype)t->dtype, rank, dims);
  return anfi_fail(q->cx, q->loc, ANF_E0546, i + 1, anfi_op[q->op].name,
                   anfi_type_text(q->cx, want), anfi_type_text(q->cx, t));
}

/* ---- softmax family and losses ---- */

bool anfi_infer_softmax(anfi_infer *q) {
  anf_dtype d;
  uint32_t mask;
  if (!anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d)) return false;
  if (!anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

static size_t without(const anf_type *t, size_t axis, int64_t *dims) {
  size_t n = 0;
  for (size_t k = 0; k < t->n; k++)
    if (k != axis) dims[n++] = t->dims[k];
  return n;
}

bool anfi_infer_cross_entropy(anfi_infer *q) {
  anf_dtype d;
  size_t axis = 0;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d)) return false;
  if (!anfi_is_tensor(q->in[1])) return anfi_infer_real_dtype(q, 1, (size_t[]){1}, &d);
  const anf_type *x = q->in[0], *y = q->in[1];
  if (!anfi_infer_axis(q, q->attr[0], x->n, &axis)) return false;
  size_t rank = without(x, axis, dims);
  if (anfi_dtype_is_float((anf_dtype)y->dtype)) {
    if (!anfi_infer_shape_is(q, 1, x->n, x->dims)) return false;
    anfi_dtype_promote(d, (anf_dtype)y->dtype, &d);
  } else {
    if (!anfi_dtype_is_int((anf_dtype)y->dtype))
      return anfi_infer_fail(q, "labels are integers or probabilities");
    if (!anfi_infer_shape_is(q, 1, rank, dims)) return false;
  }
  q->out = anfi_type_tensor(q->cx, d, rank, dims);
  return true;
}

/* ---- normalisations ---- */

/* Dims along the axes of the mask, in order. */
static size_t dims_along(const anf_type *t, uint32_t mask, int64_t *dims) {
  size_t n = 0;
  for (uint32_t k = 0; k < t->n; k++)
    if (mask >> k & 1) dims[n++] = t->dims[k];
  return n;
}

bool anfi_infer_layer_norm(anfi_infer *q) { // x scale? bias?; axis is attribute 0
  anf_dtype d;
  uint32_t mask;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real_dtype(q, 3, (size_t[]){0, 1, 2}, &d)) return false;
  if (!anfi_infer_axes(q, q->attr[0], q->in[0]->n, &mask)) return false;
  size_t n = dims_along(q->in[0], mask, dims);
  if (!anfi_infer_shape_is(q, 1, n, dims) || !anfi_infer_shape_is(q, 2, n, dims)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

static bool channels(anfi_infer *q, size_t axis, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    if (!anfi_infer_shape_is(q, i, 1, &q->in[0]->dims[axis])) return false;
  return true;
}

bool anfi_infer_batch_norm(anfi_infer *q) { // x scale bias mean var; axis is attribute 0
  anf_dtype d;
  size_t axis = 0;
  if (!anfi_infer_real_dtype(q, 5, (size_t[]){0, 1, 2, 3, 4}, &d)) return false;
  if (!anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis) || !channels(q, axis, 1, 5)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

bool anfi_infer_batch_norm_train(anfi_infer *q) { // x scale bias -> (y, mean, var)
  anf_dtype d;
  size_t axis = 0;
  if (!anfi_infer_real_dtype(q, 3, (size_t[]){0, 1, 2}, &d)) return false;
  if (!anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis) || !channels(q, axis, 1, 3)) return false;
  const anf_type *stat = anfi_type_tensor(q->cx, d, 1, &q->in[0]->dims[axis]);
  const anf_type *items[3] = {anfi_type_with_dtype(q->cx, q->in[0], d), stat, stat};
  q->out = anfi_type_tuple(q->cx, 3, items);
  return true;
}

bool anfi_infer_group_norm(anfi_infer *q) { // x scale? bias?; groups is attribute 0
  anf_dtype d;
  if (!anfi_infer_real_dtype(q, 3, (size_t[]){0, 1, 2}, &d)) return false;
  if (q->in[0]->n < 2) return anfi_infer_fail(q, "x must have a batch and a channel dim");
  int64_t c = q->in[0]->dims[1], groups = q->op == ANF_OP_GroupNorm ? anfi_attr_int(q->attr[0]) : 1;
  if (groups < 1 || (c >= 0 && c % groups))
    return anfi_infer_fail(q, "groups must divide the number of channels");
  if (!channels(q, 1, 1, 3)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

/* ---- attention, embedding ---- */

static bool attention_batch(anfi_infer *q, size_t rank, int64_t *dims) {
  for (size_t k = 0; k < rank; k++) dims[k] = 1;
  for (size_t i = 0; i < 3; i++) {
    const anf_type *t = q->in[i];
    for (size_t k = 0; k + 2 < t->n; k++) {
      int64_t *to = &dims[rank - (t->n - 2) + k];
      if (!anfi_infer_dim(*to, t->dims[k], to))
        return anfi_fail(q->cx, q->loc, ANF_E0544, "Attention", anfi_type_text(q->cx, q->in[0]),
                         anfi_type_text(q->cx, t));
    }
  }
  return true;
}

static bool attention_mask(anfi_infer *q, const anf_type *full) {
  const anf_type *m = q->in[3];
  if (!anfi_is_tensor(m)) return anfi_infer_fail(q, "the mask must be a tensor");
  bool fits = m->n <= full->n;
  for (size_t k = 0; fits && k < m->n; k++)
    fits = m->dims[k] == 1 || anfi_infer_agree(m->dims[k], full->dims[full->n - m->n + k]);
  if (!fits)
    return anfi_fail(q->cx, q->loc, ANF_E0544, "Attention", anfi_type_text(q->cx, full),
                     anfi_type_text(q->cx, m));
  anfi_class c = anfi_dtype_class((anf_dtype)m->dtype);
  return c == ANFI_CLASS_BOOL || c == ANFI_CLASS_FLOAT ||
         anfi_infer_fail(q, "the mask must be of bools or reals");
}

bool anfi_infer_attention(anfi_infer *q) {
  anf_dtype d;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real_dtype(q, 3, (size_t[]){0, 1, 2}, &d)) return false;
  const anf_type *a = q->in[0], *k = q->in[1], *v = q->in[2];
  if (a->n < 2 || k->n < 2 || v->n < 2)
    return anfi_infer_fail(q, "q, k and v must have two dims or more");
  if (!anfi_infer_agree(a->dims[a->n - 1], k->dims[k->n - 1]))
    return anfi_fail(q->cx, q->loc, ANF_E0544, "Attention", anfi_type_text(q->cx, a),
                     anfi_type_text(q->cx, k));
  if (!anfi_infer_agree(k->dims[k->n - 2], v->dims[v->n - 2]))
    return anfi_fail(q->cx, q->loc, ANF_E0544, "Attention", anfi_type_text(q->cx, k),
                     anfi_type_text(q->cx, v));
  size_t rank = a->n > k->n ? a->n : k->n;
  if (v->n > rank) rank = v->n;
  if (!attention_batch(q, rank - 2, dims)) return false;
  dims[rank - 2] = a->dims[a->n - 2];
  dims[rank - 1] = k->dims[k->n - 2];
  if (anfi_infer_given(q, 3) && !attention_mask(q, anfi_type_tensor(q->cx, d, rank, dims)))
    return false;
  dims[rank - 1] = v->dims[v->n - 1];
  q->out = anfi_type_tensor(q->cx, d, rank, dims);
  return true;
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
  q->out = anfi_type_tensor(q->cx, (anf_dtype)w->dtype, rank, dims);
  return true;
}
