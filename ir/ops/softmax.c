// SPDX-License-Identifier: Apache-2.0
/* Softmax, log-softmax, cross entropy and attention: exponents are taken relative to the greatest,
 * so that nothing overflows. Computed in double and rounded once. */
#include <math.h>

#include "ir/ops/op.h"

static double greatest(const double *x, const size_t *at, size_t n) {
  double m = -INFINITY;
  for (size_t k = 0; k < n; k++)
    if (x[at[k]] > m || x[at[k]] != x[at[k]]) m = x[at[k]];
  return m;
}

/* Log of the sum of exponentials; NaN if one is inf, for its share is then not known. */
static double log_sum_exp(const double *x, const size_t *at, size_t n) {
  double m = greatest(x, at, n), sum = 0.0;
  if (isinf(m)) return m < 0.0 ? m : NAN;
  for (size_t k = 0; k < n; k++) sum += exp(x[at[k]] - m);
  return m + log(sum);
}

bool anfi_eval_softmax(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], m = greatest(p, g.at, g.size), sum = 0.0;
    for (size_t k = 0; k < g.size; k++) sum += p[g.at[k]] = exp(p[g.at[k]] - m);
    for (size_t k = 0; k < g.size; k++) p[g.at[k]] /= sum;
  }
  anfi_store_f64(q->out, x);
  return true;
}

bool anfi_eval_log_softmax(anfi_eval *q) {
  if (!q->out->n) return true;
  double *x = anfi_load_f64(q->scratch, q->in[0]);
  anfi_groups g = anfi_groups_of(q->scratch, q->type, anfi_axes_mask(q->attr[0], q->type->n));
  for (size_t i = 0; i < g.count; i++) {
    double *p = x + g.base[i], l = log_sum_exp(p, g.at, g.size);
    for (size_t k = 0; k < g.size; k++) p[g.at[k]] -= l;
  }
  anfi_store_f64(q->out, x);
  return true;
}

/* ---- cross entropy ---- */

static bool label_loss(anfi_eval *q, size_t i, const double *x, const anfi_groups *g,
                       double *loss) {
  int64_t label = anfi_get_i64(q->in[1], i), skip;
  if (anfi_attr_given(q->attr[1]) && anfi_value_is_int(q->attr[1], &skip) && skip == label)
    return *loss = 0.0, true;
  if ((uint64_t)label >= g->size)
    return anfi_fail(q->cx, q->loc, ANF_E0443, (long long)label, g->size);
  *loss = log_sum_exp(x, g->at, g->size) - x[g->at[label]];
  return true;
}

/* A class of probability 0 adds nothing, though its logit be -inf. */
static double dense_loss(const double *x, const double *p, const anfi_groups *g) {
  double l = log_sum_exp(x, g->at, g->size), loss = 0.0;
  for (size_t k = 0; k < g->size; k++)
    if (p[g->at[k]] != 0.0) loss += p[g->at[k]] * (l - x[g->at[k]]);
  return loss;
}

bool anfi_eval_cross_entropy(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  const double *x = anfi_load_f64(q->scratch, q->in[0]);
  bool dense = anfi_dtype_is_float((anf_dtype)q->in[1]->type->dtype);
  const double *p = dense ? anfi_load_f64(q->scratch, q->in[1]) : NULL;
  anfi_groups g = anfi_groups_of(q->scratch, t, anfi_axes_mask(q->attr[0], t->n));
  for (size_t i = 0; i < g.count; i++) {
    double loss = 0.0;
    if (dense) loss = dense_loss(x + g.base[i], p + g.base[i], &g);
    else if (!label_loss(q, i, x + g.base[i], &g, &loss)) return false;
    anfi_set_f64(q->out, i, loss);
  }
  return true;
}

/* ---- attention ---- */

typedef struct {
  size_t l, s, d, dv; // queries, keys, their width, width of values
  const double *q, *k, *v, *mask;
  bool causal, is_bool;
  double scale;
  double *score; // of one query
} attending;

/* One query: scores, softmax, weighted sum of values. A row that may attend to nothing gives zeros.
 */
static void attend_row(const attending *a, size_t i, const double *q, const double *k,
                       const double *v, const double *mask, const size_t *mask_step, double *out) {
  double m = -INFINITY, sum = 0.0;
  for (size_t j = 0; j < a->s; j++) {
    double x = 0.0, add = mask ? mask[i * mask_step[0] + j * mask_step[1]] : 0.0;
    for (size_t p = 0; p < a->d; p++) x += q[i * a->d + p] * k[j * a->d + p];
    x *= a->scale;
    if (mask && a->is_bool) x = add != 0.0 ? x : -INFINITY;
    else x += add;
    if (a->causal && j > i) x = -INFINITY;
    a->score[j] = x;
    if (x > m || x != x) m = x;
  }
  for (size_t j = 0; j < a->s; j++)
    sum += a->score[j] = m == -INFINITY ? 0.0 : exp(a->score[j] - m);
  for (size_t p = 0; p < a->dv; p++) {
    double y = 0.0;
    for (size_t j = 0; j < a->s; j++)
      if (a->score[j] != 0.0) y += a->score[j] / sum * v[j * a->dv + p];
    out[i * a->dv + p] = y;
  }
}

/* Number of the matrix in t (last two dims) for result batch b; *step of the mask's last two dims.
 */
static size_t matrix_at(const anf_type *t, const anf_type *out, size_t b) {
  size_t at = 0, step = 1;
  for (size_t k = out->n - 2; k-- > 0;) {
    size_t i = b % (size_t)out->dims[k];
    b /= (size_t)out->dims[k];
    if (k + t->n < out->n) continue;
    size_t d = (size_t)t->dims[k + t->n - out->n];
    at += (d == 1 ? 0 : i) * step;
    step *= d;
  }
  return at;
}

bool anfi_eval_attention(anfi_eval *q) {
  const anf_type *tq = q->in[0]->type, *tk = q->in[1]->type, *tv = q->in[2]->type, *tm = NULL;
  const anf_value *mask = anfi_eval_given(q, 3);
  attending a = {.l = (size_t)tq->dims[tq->n - 2],
                 .s = (size_t)tk->dims[tk->n - 2],
                 .d = (size_t)tq->dims[tq->n - 1],
                 .dv = (size_t)tv->dims[tv->n - 1],
                 .causal = anfi_attr_bool(q->attr[0])};
  a.scale = anfi_attr_given(q->attr[1]) ? anfi_attr_float(q->attr[1]) : 1.0 / sqrt((double)a.d);
  a.q = anfi_load_f64(q->scratch, q->in[0]);
  a.k = anfi_load_f64(q->scratch, q->in[1]);
  a.v = anfi_load_f64(q->scratch, q->in[2]);
  a.score = ANFI_NEW_N(q->scratch, double, a.s + 1);
  size_t rows = 1, cols = 1, step[2] = {0, 0};
  if (mask) {
    tm = mask->type;
    a.mask = anfi_load_f64(q->scratch, mask);
    a.is_bool = tm->dtype == ANF_BOOL;
    cols = tm->n > 0 ? (size_t)tm->dims[tm->n - 1] : 1;
    rows = tm->n > 1 ? (size_t)tm->dims[tm->n - 2] : 1;
    step[0] = rows == 1 ? 0 : cols;
    step[1] = cols == 1 ? 0 : 1;
  }
  double *out = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  size_t per = a.l * a.dv;
  for (size_t b = 0; per && b < q->out->n / per; b++) {
    const double *m = mask ? a.mask + matrix_at(tm, q->type, b) * rows * cols : NULL;
    for (size_t i = 0; i < a.l; i++)
      attend_row(&a, i, a.q + matrix_at(tq, q->type, b) * a.l * a.d,
                 a.k + matrix_at(tk, q->type, b) * a.s * a.d,
                 a.v + matrix_at(tv, q->type, b) * a.s * a.dv, m, step, out + b * per);
  }
  anfi_store_f64(q->out, out);
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
    memcpy(q->out->u.data + i * bytes, w->u.data + at * bytes, bytes);
  }
  return true;
}
