// SPDX-License-Identifier: Apache-2.0
/* Two products in a row of many rows become products of blocks of rows, which the lowering puts into one loop: what is between them is
 * then one block, in cache.
 *   Relu(x @ y) @ z        x [4096, 64] -> [32, 128, 64], and back at the end
 * Between them stand pointwise ops alone, of one reader each, whose other operands are the same for all rows. The passes before it
 * merge what reshapes would hide, so it runs last.
 *
 * Hard case: what pays. Each block reads y and z anew, from a cache further out; the tensor between must be larger than that
 * cache. docs/benchmarks.md has the sizes that the limits come from. */
#include "optimizer/opt.h"
#include "optimizer/rules/rule.h"
#include "ir/ops/op.h"

enum {
  BLOCK = 128, // rows, or half as many
  LEAST_BLOCKS = 8,
  LEAST_BETWEEN = 1 << 19, // elements of the tensor between
  MOST_WIDTH = 1 << 11,    // its columns
  MOST_RIGHT = 1 << 19,    // elements of both right operands
  MOST_OPS = 8,            // between the products
};

typedef struct chain {
  anf_node *first, *last;      // the products
  anf_node *op[MOST_OPS];      // from the first to the last
  anf_node *through[MOST_OPS]; // the operand of each that comes from the first product
  size_t n;
} chain;

static bool is_matrix(const anf_node *n) {
  return n->type && n->type->kind == ANF_TYPE_TENSOR && n->type->n == 2 && n->type->dims[0] > 0 &&
         n->type->dims[1] > 0;
}

/* x @ y of two matrices of floats, where rows of x are rows. */
static bool is_product(anf_ctx *cx, const anf_node *n) {
  return anfi_is_op(n, ANF_OP_MatMul) && is_matrix(n) && is_matrix(n->in[0].def) &&
         is_matrix(n->in[1].def) && (n->type->dtype == ANF_F32 || n->type->dtype == ANF_F64) &&
         !anfi_attr_bool(anfi_attr_value(cx, ANF_OP_MatMul, n->u.attrs, 0));
}

static bool has_one_reader(const anf_node *n) {
  return n->uses && !n->uses->next && !anfi_is_result(n->graph->module, n);
}

/* Is it the same for all rows? */
static bool is_of_columns(const anf_node *n) {
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR)
    return n->type && n->type->kind == ANF_TYPE_NONE;
  return n->type->n < 2 || (n->type->n == 2 && n->type->dims[0] == 1);
}

/* The operand of a pointwise op that has rows, if it is one only. */
static anf_node *operand_of(const anf_node *n) {
  anf_node *of = NULL;
  if (n->kind != ANFI_APPLY || anfi_op_of(n)->lower != ANFI_LOWER_POINTWISE ||
      anfi_op_of(n)->flags & ANFI_AS_WHOLE)
    return NULL;
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *x = n->in[i].def;
    if (is_of_columns(x)) continue;
    if (of) return NULL;
    of = x;
  }
  return of;
}

static bool find_chain(anf_ctx *cx, anf_node *last, chain *c) {
  *c = (chain){.last = last};
  if (!is_product(cx, last)) return false;
  anf_node *n = last->in[0].def;
  while (!is_product(cx, n)) {
    anf_node *x = operand_of(n);
    if (!x || c->n == MOST_OPS || !has_one_reader(n) ||
        !anfi_same_dims(n->type, last->in[0].def->type) || n->graph != last->graph)
      return false;
    c->through[c->n] = x, c->op[c->n++] = n, n = x;
  }
  c->first = n;
  return has_one_reader(n) && n->graph == last->graph && n->type == last->in[0].def->type;
}

static int64_t elements(const anf_node *n) { return n->type->dims[0] * n->type->dims[1]; }

/* Rows of a block, or 0: it does not pay. */
static int64_t block_of(const chain *c) {
  int64_t rows = c->first->type->dims[0], width = c->first->type->dims[1];
  int64_t block = rows % BLOCK == 0 ? BLOCK : BLOCK / 2;
  bool pays = rows * width >= LEAST_BETWEEN && width <= MOST_WIDTH &&
              elements(c->first->in[1].def) + elements(c->last->in[1].def) <= MOST_RIGHT;
  return pays && rows % block == 0 && rows / block >= LEAST_BLOCKS ? block : 0;
}

static anf_node *reshaped(anfi_rewriter *r, anf_node *near, anf_node *x, uint32_t n,
                          const int64_t *dims) {
  if (!x) return NULL;
  const anfi_attrs *shape =
      anfi_attrs_one(r->m, ANF_OP_Reshape, anfi_value_new_ints(r->m->cx, n, dims));
  return anfi_rewrite_apply(r, near, ANF_OP_Reshape, shape, 1, &x);
}

/* The product of blocks of rows; attributes stay. */
static anf_node *in_blocks(anfi_rewriter *r, const anf_node *n, anf_node *x) {
  anf_node *in[2] = {x, n->in[1].def};
  return x ? anfi_rewrite_apply(r, (anf_node *)(uintptr_t)n, ANF_OP_MatMul, n->u.attrs, 2, in)
           : NULL;
}

static anf_node *merged(anfi_rewriter *r, const chain *c, int64_t block) {
  anf_node *x = c->first->in[0].def;
  int64_t rows = x->type->dims[0], cut[3] = {rows / block, block, x->type->dims[1]};
  anf_node *h = in_blocks(r, c->first, reshaped(r, c->first, x, 3, cut));
  for (size_t i = c->n; i-- > 0 && h;) {
    anf_node **in = ANFI_NEW_N(r->arena, anf_node *, c->op[i]->nin + 1);
    for (uint32_t k = 0; k < c->op[i]->nin; k++) {
      anf_node *given = c->op[i]->in[k].def;
      in[k] = given == c->through[i] ? h : given;
    }
    h = anfi_rewrite_apply(r, c->op[i], (anfi_opcode)c->op[i]->op, c->op[i]->u.attrs, c->op[i]->nin,
                           in);
  }
  return reshaped(r, c->last, in_blocks(r, c->last, h), 2, c->last->type->dims);
}

bool anfi_opt_batchwise_merge(anfi_pass *p) {
  anf_module *m = p->m;
  anfi_rewriter r = {.pass = p, .m = m, .arena = anfi_scratch(m->cx)};
  size_t known = m->nodes.n;
  for (size_t i = 0; i < known && !anfi_failed(m->cx); i++) {
    anf_node *n = m->nodes.at[i];
    chain c;
    if (!n || n->kind != ANFI_APPLY || !n->type || !find_chain(m->cx, n, &c)) continue;
    int64_t block = block_of(&c);
    anf_node *by = block && p->rewrites < p->limit ? merged(&r, &c, block) : NULL;
    if (by && by->type == n->type && anfi_rewrite(p)) anfi_substitute(n, by);
  }
  return !anfi_failed(m->cx) && anfi_clear_dead(m);
}
