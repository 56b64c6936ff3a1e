// SPDX-License-Identifier: Apache-2.0
/* A sum of products of two tensors as a matrix product, which has kernels.
 *   Einsum("bij,bjk->bik", a, b)         ->  MatMul(a, b)
 * Labels: in both operands and the result, batch; in one operand and the result, rows or columns; in
 * both and summed, the inner dimension. Transposes that this adds cancel by other rules. */
#include "optimizer/rules/einsum.h"

#include <string.h>

typedef struct labels {
  uint8_t at[ANF_MAX_RANK];
  uint32_t n;
} labels;

/* The labels of a product of x and y; rows are x's. */
typedef struct product {
  anfi_rewriter *r;
  anf_node *near;
  const anfi_einsum *plan;
  labels batch, row, col, inner;
} product;

static void put(labels *to, uint32_t label) { to->at[to->n++] = (uint8_t)label; }

static int64_t size_of(const product *p, const labels *l) {
  int64_t n = 1;
  for (uint32_t i = 0; i < l->n; i++) n *= p->plan->dim[l->at[i]];
  return n;
}

/* The operand's dim with the label; -1: none. */
int anfi_einsum_dim(const anfi_einsum *plan, uint32_t operand, uint32_t rank, uint32_t label) {
  for (uint32_t k = 0; k < rank; k++)
    if (plan->label[operand].at[k] == label) return (int)k;
  return -1;
}

/* Each dim has a label of its own and the label's size: no diagonal, nothing is broadcast. */
bool anfi_einsum_is_plain(const anfi_einsum *plan, uint32_t operand, const anf_type *t) {
  for (uint32_t k = 0; k < t->n; k++) {
    uint32_t l = plan->label[operand].at[k];
    if (anfi_einsum_dim(plan, operand, t->n, l) != (int)k || t->dims[k] < 0 ||
        plan->dim[l] != t->dims[k])
      return false;
  }
  return true;
}

/* False: a label is summed in one operand alone, or none is, or neither has one of its own. */
static bool sort_labels(product *p, const anf_type *x, const anf_type *y) {
  const anfi_einsum *plan = p->plan;
  for (uint32_t l = 0; l < plan->nlabel; l++) {
    bool in_x = anfi_einsum_dim(plan, 0, x->n, l) >= 0,
         in_y = anfi_einsum_dim(plan, 1, y->n, l) >= 0;
    if (l >= plan->nout && !(in_x && in_y)) return false;
    put(l >= plan->nout ? &p->inner : in_x && in_y ? &p->batch : in_x ? &p->row : &p->col, l);
  }
  return p->inner.n && (p->row.n || p->col.n);
}

static anf_node *reshape(const product *p, anf_node *x, uint32_t n, const int64_t *dims) {
  if (x && x->type->n == n && (!n || memcmp(x->type->dims, dims, n * sizeof *dims) == 0)) return x;
  const anfi_attrs *at =
      anfi_attrs_one(p->r->m, ANF_OP_Reshape, anfi_value_new_ints(p->r->m->cx, n, dims));
  return x ? anfi_rewrite_apply(p->r, p->near, ANF_OP_Reshape, at, 1, &x) : NULL;
}

/* An operand with batches first, then the labels of `a`, then those of `b`, as one to three dims. */
static anf_node *arranged(const product *p, uint32_t operand, const labels *a, const labels *b) {
  anf_node *x = p->near->in[operand].def;
  const labels *part[] = {&p->batch, a, b};
  int64_t perm[ANF_MAX_RANK], dims[3];
  uint32_t n = 0, rank = 0;
  for (int k = 0; k < 3; k++) {
    for (uint32_t i = 0; i < part[k]->n; i++)
      perm[n++] = anfi_einsum_dim(p->plan, operand, x->type->n, part[k]->at[i]);
    if (k || p->batch.n) dims[rank++] = size_of(p, part[k]);
  }
  return reshape(p, anfi_rewrite_transpose(p->r, p->near, x, perm, n), rank, dims);
}

/* The result's dims from batches, rows and columns, which are apart again. */
static anf_node *in_order(const product *p, anf_node *x, const labels *a, const labels *b) {
  const labels *part[] = {&p->batch, a, b};
  int64_t dims[ANF_MAX_RANK], perm[ANF_MAX_RANK];
  uint32_t n = 0;
  for (int k = 0; k < 3; k++)
    for (uint32_t i = 0; i < part[k]->n; i++, n++) {
      dims[n] = p->plan->dim[part[k]->at[i]];
      perm[part[k]->at[i]] = n; // labels of the result are numbered in its order
    }
  x = reshape(p, x, n, dims);
  return x ? anfi_rewrite_transpose(p->r, p->near, x, perm, n) : NULL;
}

/* Are the labels neighbours in the operand, in their order, so that one dim can have them all? */
static bool ends_with(const product *p, uint32_t operand, const labels *l) {
  uint32_t rank = p->near->in[operand].def->type->n;
  for (uint32_t i = 0; i < l->n; i++)
    if (anfi_einsum_dim(p->plan, operand, rank, l->at[i]) != (int)(rank - l->n + i)) return false;
  return true;
}

anf_node *anfi_rule_einsum_matmul(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root;
  const anf_type *type[] = {n->in[0].def->type, n->in[1].def->type};
  const anf_value *equation = anfi_attr_value(r->m->cx, ANF_OP_Einsum, n->u.attrs, 0);
  anfi_einsum plan;
  product p = {.r = r, .near = n, .plan = &plan};
  if (!anfi_einsum_plan(r->m->cx, anfi_node_loc(n), equation, 2, type, &plan)) return NULL;
  if (!anfi_einsum_is_plain(&plan, 0, type[0]) || !anfi_einsum_is_plain(&plan, 1, type[1]))
    return NULL;
  if (!sort_labels(&p, type[0], type[1])) return NULL;
  bool ta = ends_with(&p, 0, &p.row) && !ends_with(&p, 0, &p.inner),
       tb = ends_with(&p, 1, &p.inner) && !ends_with(&p, 1, &p.col);
  anf_node *x = arranged(&p, 0, ta ? &p.inner : &p.row, ta ? &p.row : &p.inner),
           *y = arranged(&p, 1, tb ? &p.col : &p.inner, tb ? &p.inner : &p.col);
  if (!x || !y) return NULL;
  bool transposed = p.row.n && p.col.n && p.col.at[0] < p.row.at[0]; // the result has columns first
  anf_node *z = transposed ? anfi_rewrite_matmul(r, n, y, !tb, x, !ta)
                           : anfi_rewrite_matmul(r, n, x, ta, y, tb);
  return z ? in_order(&p, z, transposed ? &p.col : &p.row, transposed ? &p.row : &p.col) : NULL;
}
