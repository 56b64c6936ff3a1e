// SPDX-License-Identifier: Apache-2.0
/* Sums of products in an order that takes fewer steps, and as reductions where there is nothing to multiply by.
 *   Einsum("ij->j", a)                   ->  Sum(a, axis=0)
 *   Einsum("ij,ij->i", a, b)             ->  Sum(Mul(a, b), axis=1)
 *   Einsum("ij,jk,kl->il", a, b, c)      ->  Einsum("ik,kl->il", Einsum("ij,jk->ik", a, b), c)
 * All labels at once take as many steps as there are tuples of all labels. Of three operands and more the pair comes first whose
 * product is the smallest beside what it replaces (the greedy path of opt_einsum). Sums of halves stay in one op, which rounds
 * once. */
#include "optimizer/rules/einsum.h"

#include <string.h>

enum { MOST_OPERANDS = 5, MOST_LABELS = 52 };

typedef struct path {
  anfi_rewriter *r;
  anf_node *near;
  const anfi_einsum *plan;
  anf_node *in[MOST_OPERANDS];
  uint32_t n;
  uint64_t has[MOST_OPERANDS], out; // labels of operand i, of the result: as bits
} path;

static void labels_of_operands(path *p) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->in[i]->type->n; k++)
      p->has[i] |= UINT64_C(1) << p->plan->label[i].at[k];
  p->out = p->plan->nout ? UINT64_MAX >> (64 - p->plan->nout) : 0;
}

static double points(const path *p, uint64_t set) {
  double n = 1;
  for (uint32_t l = 0; l < p->plan->nlabel; l++)
    if (set >> l & 1) n *= (double)p->plan->dim[l];
  return n;
}

static uint32_t count_of(uint64_t set) {
  uint32_t n = 0;
  for (; set; set &= set - 1) n++;
  return n;
}

/* The labels of the product of operands i and j: those that the result or another operand has. */
static uint64_t pair_output(const path *p, uint32_t i, uint32_t j) {
  uint64_t others = p->out;
  for (uint32_t k = 0; k < p->n; k++)
    if (k != i && k != j) others |= p->has[k];
  return (p->has[i] | p->has[j]) & others;
}

/* False: no pair makes the whole cheaper. */
static bool best_pair(const path *p, uint32_t pair[2]) {
  uint64_t all = p->out;
  double best = 0, most = 0;
  bool found = false;
  for (uint32_t i = 0; i < p->n; i++) all |= p->has[i];
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = i + 1; j < p->n; j++) {
      uint64_t output = pair_output(p, i, j), rest = p->out | output;
      for (uint32_t k = 0; k < p->n; k++)
        if (k != i && k != j) rest |= p->has[k];
      double steps = points(p, p->has[i] | p->has[j]);
      if (2 * steps + (p->n - 1) * points(p, rest) >= p->n * points(p, all)) continue;
      if (count_of(output) > ANF_MAX_RANK) continue;
      double grows = points(p, output) - points(p, p->has[i]) - points(p, p->has[j]);
      if (found && (grows > best || (grows == best && steps >= most))) continue;
      best = grows, most = steps, pair[0] = i, pair[1] = j, found = true;
    }
  return found;
}

static char letter_of(uint32_t label) {
  return (char)(label < 26 ? 'a' + (int)label : 'A' + (int)label - 26);
}

static void put_term(anf_text *o, const path *p, uint32_t i) {
  for (uint32_t k = 0; k < p->in[i]->type->n; k++) anfi_putc(o, letter_of(p->plan->label[i].at[k]));
}

static void put_labels(anf_text *o, const path *p, uint64_t set) {
  for (uint32_t l = 0; l < p->plan->nlabel; l++)
    if (set >> l & 1) anfi_putc(o, letter_of(l));
}

static anf_node *apply(const path *p, anfi_opcode op, anf_value *attr, uint32_t n, anf_node **in) {
  const anfi_attrs *at = attr ? anfi_attrs_one(p->r->m, op, attr) : NULL;
  return anfi_rewrite_apply(p->r, p->near, op, at, n, in);
}

/* Ends the equation's text. */
static anf_node *einsum_of(const path *p, anf_text *equation, uint32_t n, anf_node **in) {
  anf_ctx *cx = p->r->m->cx;
  anf_value *v = anfi_value_new_string(cx, equation->text, strlen(equation->text));
  anfi_text_done(equation);
  return apply(p, ANF_OP_Einsum, v, n, in);
}

/* ---- a pair of several ---- */

static anf_node *product_of_pair(const path *p, const uint32_t pair[2]) {
  anf_node *in[2] = {p->in[pair[0]], p->in[pair[1]]};
  anf_text *o = anfi_text_begin(p->r->m->cx);
  put_term(o, p, pair[0]);
  anfi_putc(o, ',');
  put_term(o, p, pair[1]);
  anfi_puts(o, "->");
  put_labels(o, p, pair_output(p, pair[0], pair[1]));
  return einsum_of(p, o, 2, in);
}

static anf_node *by_pair(const path *p) {
  uint32_t pair[2] = {0, 1}, n = 1;
  if (p->n < 3 || !best_pair(p, pair)) return NULL;
  anf_node *in[MOST_OPERANDS] = {product_of_pair(p, pair)};
  if (!in[0]) return NULL;
  anf_text *o = anfi_text_begin(p->r->m->cx);
  put_labels(o, p, pair_output(p, pair[0], pair[1]));
  for (uint32_t i = 0; i < p->n; i++) {
    if (i == pair[0] || i == pair[1]) continue;
    anfi_putc(o, ',');
    put_term(o, p, i);
    in[n++] = p->in[i];
  }
  anfi_puts(o, "->");
  put_labels(o, p, p->out);
  return einsum_of(p, o, n, in);
}

/* ---- sums ---- */

/* The sum of x, whose dims have the labels of operand i, over those that are not in `labels`. */
static anf_node *sum_of(const path *p, uint32_t i, anf_node *x, uint64_t labels) {
  int64_t axis[ANF_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = 0; k < x->type->n; k++)
    if (!(labels >> p->plan->label[i].at[k] & 1)) axis[n++] = k;
  return n ? apply(p, ANF_OP_Sum, anfi_value_new_ints(p->r->m->cx, n, axis), 1, &x) : x;
}

/* The same in the order of the result, whose labels are numbered so. */
static anf_node *in_order(const path *p, uint32_t i, anf_node *x) {
  int64_t perm[ANF_MAX_RANK], at = 0;
  anf_node *sum = sum_of(p, i, x, p->out);
  for (uint32_t k = 0; k < x->type->n; k++) {
    uint32_t l = p->plan->label[i].at[k];
    if (p->out >> l & 1) perm[l] = at++;
  }
  return sum ? anfi_rewrite_transpose(p->r, p->near, sum, perm, p->plan->nout) : NULL;
}

/* Both operands have the same labels: b in the order of a, times a. */
static anf_node *product_of_alike(const path *p) {
  int64_t perm[ANF_MAX_RANK];
  uint32_t rank = p->in[0]->type->n;
  for (uint32_t k = 0; k < rank; k++)
    perm[k] = anfi_einsum_dim(p->plan, 1, rank, p->plan->label[0].at[k]);
  anf_node *in[2] = {p->in[0], anfi_rewrite_transpose(p->r, p->near, p->in[1], perm, rank)};
  return in[1] ? apply(p, ANF_OP_Mul, NULL, 2, in) : NULL;
}

/* Labels that operand i alone has are summed first. */
static anf_node *summed_first(const path *p, uint32_t i, uint64_t labels) {
  anf_node *in[MOST_OPERANDS];
  anf_text *o = anfi_text_begin(p->r->m->cx);
  for (uint32_t k = 0; k < p->n; k++) {
    if (k) anfi_putc(o, ',');
    for (uint32_t d = 0; d < p->in[k]->type->n; d++)
      if (k != i || labels >> p->plan->label[k].at[d] & 1)
        anfi_putc(o, letter_of(p->plan->label[k].at[d]));
    in[k] = k == i ? sum_of(p, i, p->in[k], labels) : p->in[k];
  }
  anfi_puts(o, "->");
  put_labels(o, p, p->out);
  return einsum_of(p, o, p->n, in);
}

static anf_node *by_sum(const path *p) {
  if (p->n == 1) return in_order(p, 0, p->in[0]);
  for (uint32_t i = 0; i < p->n; i++) {
    uint64_t labels = p->out;
    for (uint32_t k = 0; k < p->n; k++)
      if (k != i) labels |= p->has[k];
    if (p->has[i] & ~labels) return summed_first(p, i, labels);
  }
  if (p->n != 2 || p->has[0] != p->has[1]) return NULL;
  anf_node *y = product_of_alike(p);
  return y ? in_order(p, 0, y) : NULL;
}

static bool is_half(const anf_type *t) {
  return anfi_dtype_is_float((anf_dtype)t->dtype) && anf_dtype_bytes((anf_dtype)t->dtype) < 4;
}

anf_node *anfi_rule_einsum_path(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root;
  const anf_type *type[MOST_OPERANDS];
  const anf_value *equation = anfi_attr_value(r->m->cx, ANF_OP_Einsum, n->u.attrs, 0);
  anfi_einsum plan;
  path p = {.r = r, .near = n, .plan = &plan, .n = n->nin};
  if (n->nin > MOST_OPERANDS || is_half(n->type)) return NULL;
  for (uint32_t i = 0; i < n->nin; i++) p.in[i] = n->in[i].def, type[i] = p.in[i]->type;
  if (!anfi_einsum_plan(r->m->cx, anfi_node_loc(n), equation, n->nin, type, &plan)) return NULL;
  if (plan.nlabel > MOST_LABELS) return NULL;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!anfi_einsum_is_plain(&plan, i, type[i])) return NULL;
  labels_of_operands(&p);
  anf_node *sum = by_sum(&p);
  return sum ? sum : by_pair(&p);
}
