// SPDX-License-Identifier: Apache-2.0
/* Attention: softmax(q k^T * scale + mask) v, one matrix product after the other, in double.
 *
 *     q [.., l, d]   k [.., s, d]   v [.., s, dv]   mask [.., l, s]   ->   [.., l, dv]
 *
 * Leading dims broadcast. A bool mask keeps the true positions; a real one is added to the scores. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

static bool attention_batch(anfi_infer *q, size_t rank, int64_t *dims) {
  for (size_t k = 0; k < rank; k++) dims[k] = 1;
  for (size_t i = 0; i < 3; i++) {
    const anf_type *t = q->in[i];
    for (size_t k = 0; k + 2 < t->n; k++) {
      int64_t *to = &dims[rank - (t->n - 2) + k];
      if (!anfi_infer_dim(*to, t->dims[k], to)) return anfi_infer_mismatch(q, q->in[0], t);
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
  if (!fits) return anfi_infer_mismatch(q, full, m);
  anfi_class c = anfi_dtype_class((anf_dtype)m->dtype);
  return c == ANFI_CLASS_BOOL || c == ANFI_CLASS_FLOAT ||
         anfi_infer_fail(q, "the mask must be of bools or reals");
}

bool anfi_infer_attention(anfi_infer *q) {
  anf_dtype d;
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_infer_real(q, 0, 3, &d)) return false;
  const anf_type *a = q->in[0], *k = q->in[1], *v = q->in[2];
  if (a->n < 2 || k->n < 2 || v->n < 2)
    return anfi_infer_fail(q, "q, k and v must have two dims or more");
  if (!anfi_infer_agree(a->dims[a->n - 1], k->dims[k->n - 1])) return anfi_infer_mismatch(q, a, k);
  if (!anfi_infer_agree(k->dims[k->n - 2], v->dims[v->n - 2])) return anfi_infer_mismatch(q, k, v);
  size_t rank = a->n > k->n ? a->n : k->n;
  if (v->n > rank) rank = v->n;
  if (!attention_batch(q, rank - 2, dims)) return false;
  dims[rank - 2] = a->dims[a->n - 2];
  dims[rank - 1] = k->dims[k->n - 2];
  if (anfi_infer_given(q, 3) && !attention_mask(q, anfi_type_tensor(q->cx, d, rank, dims)))
    return false;
  dims[rank - 1] = v->dims[v->n - 1];
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank, dims));
}

/* ---- evaluation ---- */

typedef struct {
  /* sizes */
  size_t l, s, d, dv; // queries, keys, their width, width of values
  /* operands */
  const double *q, *k, *v, *mask;
  bool causal, is_bool;
  double scale;
  /* scratch */
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
  return anfi_store_f64(q->out, out);
}
