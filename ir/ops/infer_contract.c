// SPDX-License-Identifier: Apache-2.0
/* Result types of contractions: matrix products and Einsum. anfi_einsum_plan is the only reader of
 * equations; inference and evaluation both use its plan. */
#include "ir/ops/op.h"

static bool fail_pair(const anfi_infer *q, const anf_type *a, const anf_type *b) {
  return anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name, anfi_type_text(q->cx, a),
                   anfi_type_text(q->cx, b));
}

/* Two dims that must be equal; unknown ones are checked when the program runs. */
static bool agree(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

bool anfi_infer_matmul(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  const anf_type *a = q->in[0], *b = q->in[1];
  bool ta = anfi_attr_bool(q->attr[0]), tb = anfi_attr_bool(q->attr[1]);
  if (!a->n || !b->n) return anfi_infer_fail(q, "a scalar has no matrix product; use *");
  if ((ta && a->n < 2) || (tb && b->n < 2))
    return anfi_infer_fail(q, "a vector cannot be transposed");
  int64_t ka = a->dims[ta ? a->n - 2 : a->n - 1],
          kb = b->dims[b->n < 2 || tb ? b->n - 1 : b->n - 2];
  if (!agree(ka, kb)) return fail_pair(q, a, b);
  size_t na = a->n > 2 ? a->n - 2 : 0, nb = b->n > 2 ? b->n - 2 : 0, n = na > nb ? na : nb;
  int64_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < n; i++) {
    int64_t x = i + na >= n ? a->dims[i + na - n] : 1, y = i + nb >= n ? b->dims[i + nb - n] : 1;
    if (!anfi_infer_dim(x, y, &dims[i])) return fail_pair(q, a, b);
  }
  if (a->n > 1) dims[n++] = a->dims[ta ? a->n - 1 : a->n - 2];
  if (b->n > 1) dims[n++] = b->dims[tb ? b->n - 2 : b->n - 1];
  q->out = anfi_type_tensor(q->cx, d, n, dims);
  return true;
}

bool anfi_infer_linear(anfi_infer *q) {
  const anf_type *x = q->in[0], *w = q->in[1];
  if (!anfi_is_tensor(x) || !anfi_is_tensor(w)) return anfi_infer_tensors(q);
  bool biased = anfi_infer_given(q, 2);
  anf_dtype d = (anf_dtype)x->dtype;
  for (size_t i = 1; i < (biased ? 3u : 2u); i++) {
    if (!anfi_is_tensor(q->in[i])) return anfi_infer_tensors(q);
    if (!anfi_dtype_promote(d, (anf_dtype)q->in[i]->dtype, &d))
      return anfi_infer_fail(q, "random keys take no part in arithmetic");
  }
  if (x->n < 1 || w->n != 2)
    return anfi_infer_fail(q, "x must be of rank 1 or more and w a matrix [out, in]");
  if (!agree(x->dims[x->n - 1], w->dims[1])) return fail_pair(q, x, w);
  if (biased && (q->in[2]->n != 1 || !agree(q->in[2]->dims[0], w->dims[0])))
    return fail_pair(q, w, q->in[2]);
  int64_t dims[ANF_MAX_RANK];
  memcpy(dims, x->dims, (x->n - 1) * sizeof *dims);
  dims[x->n - 1] = w->dims[0];
  q->out = anfi_type_tensor(q->cx, d, x->n, dims);
  return true;
}

/* ---- einsum ---- */

/* Labels while reading: letters are numbered 0..51, dims of "..." 52 and on, counted from the
 * right. */
enum { LETTERS = 52, LABELS = ANFI_EINSUM_LABELS };

typedef struct {
  anf_ctx *cx;
  anfi_loc loc;
  const char *text, *end, *at;
  int64_t dim[LABELS];
  uint32_t seen[LABELS]; // how often among the inputs
  uint8_t place[LABELS]; // 1 + index in the plan; 0 while it has none
  size_t dots;           // the most dims that "..." stands for
  anfi_einsum *plan;
} reader;

static bool bad(reader *r, const char *why) {
  return anfi_fail(r->cx, r->loc, ANF_E0545, r->text, why);
}

static void skip(reader *r) {
  while (r->at < r->end && *r->at == ' ') r->at++;
}

static int letter(char c) {
  return c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= 'A' && c <= 'Z' ? c - 'A' : -1;
}

/* The labels of one term, without the dims of "..."; *dots is where it stands among them, or -1. */
static bool read_term(reader *r, uint8_t *label, size_t *n, int *dots) {
  *n = 0;
  *dots = -1;
  for (skip(r); r->at < r->end && *r->at != ',' && *r->at != '-'; skip(r)) {
    if (*r->at == '.') {
      if (r->end - r->at < 3 || memcmp(r->at, "...", 3) != 0 || *dots >= 0)
        return bad(r, "a term has one '...' at most");
      *dots = (int)*n;
      r->at += 3;
      continue;
    }
    int l = letter(*r->at++);
    if (l < 0) return bad(r, "labels are letters");
    if (*n == ANF_MAX_RANK) return bad(r, "a term has too many labels");
    label[(*n)++] = (uint8_t)l;
  }
  return true;
}

static bool set_dim(reader *r, uint8_t l, int64_t d) {
  if (!r->seen[l]++) {
    r->dim[l] = d;
    return true;
  }
  return anfi_infer_dim(r->dim[l], d, &r->dim[l]) ||
         bad(r, "a label stands for dims that do not broadcast");
}

static bool read_operand(reader *r, const anf_type *t, uint8_t *label) {
  uint8_t read[ANF_MAX_RANK];
  size_t n, k = 0;
  int dots;
  if (!read_term(r, read, &n, &dots)) return false;
  if (dots < 0 ? n != t->n : n > t->n)
    return bad(r, "a term has other labels than its operand has dims");
  size_t extra = t->n - n;
  if (extra > r->dots) r->dots = extra;
  for (size_t i = 0; i <= n; i++) {
    for (size_t e = 0; dots == (int)i && e < extra; e++)
      label[k++] = (uint8_t)(LETTERS + extra - 1 - e);
    if (i < n) label[k++] = read[i];
  }
  for (size_t i = 0; i < t->n; i++)
    if (!set_dim(r, label[i], t->dims[i])) return false;
  return true;
}

static void place(reader *r, uint8_t l) {
  r->plan->dim[r->plan->nlabel] = r->dim[l];
  r->place[l] = (uint8_t)++r->plan->nlabel;
}

static bool place_output(reader *r) {
  uint8_t label[ANF_MAX_RANK];
  size_t n = 0;
  int dots = 0;
  bool given = r->at < r->end;
  if (given) {
    if (r->end - r->at < 2 || memcmp(r->at, "->", 2) != 0)
      return bad(r, "'->' comes before the result's labels");
    r->at += 2;
    if (!read_term(r, label, &n, &dots)) return false;
    if (r->at < r->end) return bad(r, "the result has one term");
  }
  for (size_t i = 0; i <= n; i++) {
    for (size_t e = r->dots; dots == (int)i && e-- > 0;) place(r, (uint8_t)(LETTERS + e));
    if (i == n) break;
    if (!r->seen[label[i]]) return bad(r, "a label of the result is in no operand");
    if (r->place[label[i]]) return bad(r, "a label is twice in the result");
    place(r, label[i]);
  }
  for (int l = 0; !given && l < LETTERS; l++)
    if (r->seen[l] == 1) place(r, (uint8_t)l);
  r->plan->nout = r->plan->nlabel;
  return r->plan->nout <= ANF_MAX_RANK || bad(r, "the result has too many dims");
}

bool anfi_einsum_plan(anf_ctx *cx, anfi_loc loc, const anf_value *equation, size_t n,
                      const anf_type *const *in, anfi_einsum *plan) {
  reader r = {.cx = cx,
              .loc = loc,
              .text = equation->u.text,
              .at = equation->u.text,
              .end = equation->u.text + equation->n,
              .plan = plan};
  plan->nlabel = 0;
  plan->label = ANFI_NEW_N(anfi_scratch(cx), anfi_einsum_labels, n);
  for (size_t i = 0; i < n; i++) {
    if (i && (r.at >= r.end || *r.at++ != ','))
      return bad(&r, "it has fewer terms than there are operands");
    if (!read_operand(&r, in[i], plan->label[i].at)) return false;
  }
  if (r.at < r.end && *r.at == ',') return bad(&r, "it has more terms than there are operands");
  if (!place_output(&r)) return false;
  for (size_t i = 0; i < n; i++) // the rest is summed, in the order of first use
    for (uint32_t k = 0; k < in[i]->n; k++)
      if (!r.place[plan->label[i].at[k]]) place(&r, plan->label[i].at[k]);
  for (size_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < in[i]->n; k++)
      plan->label[i].at[k] = (uint8_t)(r.place[plan->label[i].at[k]] - 1);
  return true;
}

bool anfi_infer_einsum(anfi_infer *q) {
  anf_dtype d;
  anfi_einsum plan;
  if (!q->n) return anfi_infer_fail(q, "at least one operand is needed");
  if (!anfi_infer_promoted(q, &d)) return false;
  if (!anfi_einsum_plan(q->cx, q->loc, q->attr[0], q->n, q->in, &plan)) return false;
  q->out = anfi_type_tensor(q->cx, d, plan.nout, plan.dim);
  return true;
}
