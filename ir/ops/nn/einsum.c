// SPDX-License-Identifier: Apache-2.0
/* Einsum: for each index of the result, the sum over the other labels of the products.
 *
 *     "ij,jk->ik" of f32[2,3] f32[3,4]  ->  f32[2,4]
 *     "ij,jk"                                         without "->": labels that occur once, in order
 *     "...ij,...jk->...ik"                            "..." denotes further dims, which broadcast
 *
 * anfi_einsum_plan is the only reader of equations; inference, evaluation, derivatives and lowering use
 * its plan. */
#include "ir/ops/kernel.h"

/* ---- the equation ---- */

/* Labels while reading: letters are numbered 0..51, dims of "..." 52 and on, counted from the
 * right. */
enum { LETTERS = 52, LABELS = ANFI_EINSUM_LABELS };

typedef struct {
  /* text */
  anf_ctx *cx;
  anfi_loc loc;
  const char *text, *end, *at;
  /* by label */
  int64_t dim[LABELS];
  uint32_t seen[LABELS]; // how often among the inputs
  uint8_t place[LABELS]; // 1 + index in the plan; 0 while it has none
  /* result */
  size_t dots; // the largest number of dims of a "..."
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

/* The labels of one term, without the dims of "..."; *dots is its index among them, or -1. */
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
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, plan.nout, plan.dim));
}

/* ---- evaluation ---- */

typedef struct {
  const anfi_einsum *plan;
  size_t n;
  void **data;                        // operands
  size_t (*step)[ANFI_EINSUM_LABELS]; // elements that a label's index moves operand i by
  size_t index[ANFI_EINSUM_LABELS];
} summing;

static void set_steps(summing *s, size_t i, const anf_type *t) {
  size_t step = 1;
  for (size_t k = t->n; k-- > 0;) {
    size_t d = (size_t)t->dims[k];
    if (d != 1) s->step[i][s->plan->label[i].at[k]] += step; // twice on one label: the diagonal
    step *= d;
  }
}

static size_t offset(const summing *s, size_t i) {
  size_t at = 0;
  for (uint32_t l = 0; l < s->plan->nlabel; l++) at += s->index[l] * s->step[i][l];
  return at;
}

static void add_term(const summing *s, anfi_wide w, void *sum) {
  if (w == ANFI_WIDE_INT) {
    uint64_t p = 1;
    for (size_t i = 0; i < s->n; i++) p *= ((const uint64_t *)s->data[i])[offset(s, i)];
    *(uint64_t *)sum += p;
  } else if (w == ANFI_WIDE_REAL) {
    double p = ((const double *)s->data[0])[offset(s, 0)];
    for (size_t i = 1; i < s->n; i++) p *= ((const double *)s->data[i])[offset(s, i)];
    *(double *)sum += p;
  } else {
    double p[2] = {1.0, 0.0};
    for (size_t i = 0; i < s->n; i++) {
      double next[2] = {0.0, 0.0};
      anfi_add_complex_product(p, (const double *)s->data[i] + 2 * offset(s, i), next);
      memcpy(p, next, sizeof p);
    }
    ((double *)sum)[0] += p[0];
    ((double *)sum)[1] += p[1];
  }
}

/* The next index of labels [from, to), the last fastest; false after the last one. */
static bool advance(summing *s, uint32_t from, uint32_t to) {
  for (uint32_t l = to; l-- > from;) {
    if (++s->index[l] < (size_t)s->plan->dim[l]) return true;
    s->index[l] = 0;
  }
  return false;
}

bool anfi_eval_einsum(anfi_eval *q) {
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  anfi_einsum plan;
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) types[i] = q->in[i]->type;
  if (!anfi_einsum_plan(q->cx, q->loc, q->attr[0], q->n, types, &plan)) return false;
  summing s = {.plan = &plan, .n = q->n, .data = ANFI_NEW_N(q->scratch, void *, q->n)};
  s.step = (size_t(*)[ANFI_EINSUM_LABELS])anfi_zalloc(q->scratch,
                                                      anfi_size_mul(q->cx, q->n, sizeof *s.step));
  for (size_t i = 0; i < q->n; i++) {
    s.data[i] = anfi_load(q->scratch, q->in[i], w);
    set_steps(&s, i, types[i]);
  }
  size_t terms = 1;
  for (uint32_t l = plan.nout; l < plan.nlabel; l++) terms *= plan.dim[l] > 0;
  char *c = ANFI_NEW_N(q->scratch, char, q->out->n *anfi_wide_bytes(w) + 1);
  for (size_t o = 0; terms && o < q->out->n; o++, advance(&s, 0, plan.nout)) do
      add_term(&s, w, c + o * anfi_wide_bytes(w));
    while (advance(&s, plan.nout, plan.nlabel));
  return anfi_store(q->out, c, w);
}
