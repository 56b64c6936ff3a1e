// SPDX-License-Identifier: Apache-2.0
/* Values of x[...] and x.shape. Each element of the result is computed by itself: its position
 * gives a position along each slice and in each index tensor, and these the place in x. */
#include "ir/ops/getitem.h"

static bool give(anfi_eval *q, anf_value *v) {
  q->out = anf_value_retain(v);
  return true;
}

/* A number of a part, from the spec or an input; NULL when absent. */
static const int64_t *number(const anfi_eval *q, const anfi_part *p, int k, int64_t *to) {
  *to = p->given[k] == ANFI_INPUT ? anfi_get_i64(q->in[p->v[k]], 0) : p->v[k];
  return p->given[k] ? to : NULL;
}

static bool slice_of(const anfi_eval *q, const anfi_part *p, size_t len, int64_t *start,
                     int64_t *step, size_t *n) {
  int64_t from, to;
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT && q->in[p->v[k]]->n != 1)
      return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, "a slice needs integers");
  if (!number(q, p, 2, step)) *step = 1;
  if (*step == 0)
    return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, "the step must not be 0");
  if (*step == INT64_MIN) *step = -INT64_MAX;
  const int64_t *a = number(q, p, 0, &from), *b = number(q, p, 1, &to);
  *n = anfi_slice_ints(len, a, b, *step, start);
  return true;
}

/* ---- tuples ---- */

static bool tuple_item(anfi_eval *q, const anfi_part *p) {
  const anf_value *x = q->in[0];
  int64_t i, start, step;
  size_t at, n;
  if (p->kind == ANFI_PART_INDEX) {
    number(q, p, 0, &i);
    if (!anfi_axis_in(i, x->n, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i,
                       anfi_sprintf(q->scratch, "a tuple of %zu", x->n));
    return give(q, x->u.item[at]);
  }
  if (!slice_of(q, p, x->n, &start, &step, &n)) return false;
  q->out = anfi_value_new_tuple(q->cx, n);
  for (size_t k = 0; k < n; k++)
    q->out->u.item[k] = anf_value_retain(x->u.item[start + (int64_t)k * step]);
  return true;
}

/* ---- tensors ---- */

typedef struct {
  anfi_layout l;
  int64_t dims[ANF_MAX_RANK];   // of the result
  int64_t stride[ANF_MAX_RANK]; // in x, of each dim of the result; 0 for dims of the indices
  int64_t xstride[ANF_MAX_RANK];
  int64_t base; // where all slices start
} gather;

static bool lay_dim(const anfi_eval *q, const anfi_subscript *s, gather *g, size_t k) {
  int from = g->l.out[k].from;
  const anf_type *x = q->in[0]->type;
  if (from < 0) {
    g->dims[k] = from == -1 ? 1 : g->l.bdims[-2 - from];
    return true;
  }
  int64_t start = 0, step = 1;
  size_t n = (size_t)x->dims[from];
  if (g->l.out[k].part != ANFI_PARTS &&
      !slice_of(q, &s->part[g->l.out[k].part], n, &start, &step, &n))
    return false;
  g->dims[k] = (int64_t)n;
  g->stride[k] = n > 1 ? step * g->xstride[from] : 0;
  if (n) g->base += start * g->xstride[from];
  return true;
}

/* The position that index tensor `i` has at a position of the result. */
static bool index_value(const anfi_eval *q, const anfi_subscript *s, const gather *g, size_t i,
                        const int64_t *at, int64_t *out) {
  const anfi_part *p = &s->part[g->l.index[i].part];
  int64_t size = q->in[0]->type->dims[g->l.index[i].axis];
  if (p->given[0] == ANFI_CONSTANT) {
    size_t v = 0;
    if (!anfi_axis_in(p->v[0], (size_t)size, &v))
      return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)p->v[0],
                       (long long)size);
    return *out = (int64_t)v, true;
  }
  const anf_value *index = q->in[p->v[0]];
  size_t place = 0;
  for (uint32_t d = 0; d < index->type->n; d++) {
    size_t j = g->l.brank - index->type->n + d; // dim of the common shape
    int64_t c = 0;
    for (size_t k = 0; k < g->l.rank; k++)
      if (g->l.out[k].from == (int8_t)(-2 - (int)j)) c = at[k];
    place = place * (size_t)index->type->dims[d] + (index->type->dims[d] == 1 ? 0 : (size_t)c);
  }
  return anfi_index_at(q, index, place, size, out);
}

static bool copy_all(anfi_eval *q, const anfi_subscript *s, const gather *g) {
  anfi_nd it;
  anfi_nd_init(&it, g->l.rank, g->dims);
  for (size_t e = 0; it.more; e++, anfi_nd_next(&it)) {
    int64_t at = g->base, k;
    for (size_t d = 0; d < g->l.rank; d++) at += it.index[d] * g->stride[d];
    for (size_t i = 0; i < g->l.nindex; i++) {
      if (!index_value(q, s, g, i, it.index, &k)) return false;
      at += k * g->xstride[g->l.index[i].axis];
    }
    anfi_copy_element(q->out, e, q->in[0], (size_t)at);
  }
  return true;
}

static bool tensor_item(anfi_eval *q, const anfi_subscript *s) {
  const anf_type *x = q->in[0]->type;
  const anf_type **in = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) in[i] = q->in[i]->type;
  anfi_infer t = {.cx = q->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = in, .attr = q->attr};
  gather g = {0};
  if (!anfi_layout_of(&t, s, &g.l)) return false;
  anfi_dense_strides(x->n, x->dims, g.xstride);
  for (size_t k = 0; k < g.l.rank; k++)
    if (!lay_dim(q, s, &g, k)) return false;
  if (!q->out)
    q->out = anfi_value_new_tensor(q->cx,
                                   anfi_type_tensor(q->cx, (anf_dtype)x->dtype, g.l.rank, g.dims));
  return copy_all(q, s, &g);
}

bool anfi_eval_get_item(anfi_eval *q) {
  anfi_subscript s;
  if (!anfi_subscript_read(q->cx, q->loc, q->attr[0], q->n, &s)) return false;
  return q->in[0]->kind == ANF_VALUE_TUPLE ? tuple_item(q, &s.part[0]) : tensor_item(q, &s);
}

/* ---- fields ---- */

static bool transposed(anfi_eval *q) {
  const anf_value *x = q->in[0];
  anfi_nd it;
  int64_t stride[ANF_MAX_RANK], back[ANF_MAX_RANK];
  anfi_dense_strides(x->type->n, x->type->dims, stride);
  for (uint32_t k = 0; k < x->type->n; k++) back[k] = stride[x->type->n - 1 - k];
  anfi_nd_init(&it, x->type->n, q->out->type->dims);
  anfi_nd_strides(&it, 0, 0, back);
  for (size_t e = 0; it.more; e++, anfi_nd_next(&it)) anfi_copy_element(q->out, e, x, it.at[0]);
  return true;
}

bool anfi_eval_get_field(anfi_eval *q) {
  const anf_value *x = q->in[0];
  const char *name = q->attr[0]->u.text;
  if (x->kind == ANF_VALUE_RECORD) return anfi_eval_record_get(q);
  if (strcmp(name, "T") == 0) return transposed(q);
  if (strcmp(name, "shape") == 0) q->out = anfi_value_new_ints(q->cx, x->type->n, x->type->dims);
  else if (strcmp(name, "dtype") == 0)
    q->out = anfi_value_new_type(q->cx, anfi_type_scalar(q->cx, (anf_dtype)x->type->dtype));
  else anfi_set_i64(q->out, 0, strcmp(name, "ndim") == 0 ? (int64_t)x->type->n : (int64_t)x->n);
  return true;
}
