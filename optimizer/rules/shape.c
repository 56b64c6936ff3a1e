// SPDX-License-Identifier: Apache-2.0
/* Hooks of shape.def: permutations of axes.
 *   Transpose(Transpose(x, (1, 0)), (1, 0))      ->  x */
#include "ir/ops/op.h"
#include "optimizer/rules/rule.h"

/* The permutation of a Transpose, from its attribute; the default reverses the axes. */
static bool permutation(const anfi_rewriter *r, const anf_node *n, int64_t *perm) {
  const anf_value *axes = anfi_attr_value(r->m->cx, ANF_OP_Transpose, n->u.attrs, 0);
  int64_t rank = (int64_t)n->type->n;
  for (int64_t i = 0; i < rank; i++) {
    perm[i] = rank - 1 - i;
    if (axes && axes->kind == ANF_VALUE_TUPLE && !anfi_value_is_int(axes->u.item[i], &perm[i]))
      return false;
    if (perm[i] < 0) perm[i] += rank;
  }
  return axes != NULL;
}

static bool is_identity(const int64_t *perm, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (perm[i] != (int64_t)i) return false;
  return true;
}

anf_node *anfi_rewrite_transpose(anfi_rewriter *r, anf_node *near, anf_node *x, const int64_t *perm,
                                 uint32_t n) {
  if (is_identity(perm, n)) return x;
  const anfi_attrs *at =
      anfi_attrs_one(r->m, ANF_OP_Transpose, anfi_value_new_ints(r->m->cx, n, perm));
  return anfi_rewrite_apply(r, near, ANF_OP_Transpose, at, 1, &x);
}

anf_node *anfi_rule_transpose_transpose(anfi_rewriter *r, const anfi_match *m) {
  int64_t outer[ANF_MAX_RANK], inner[ANF_MAX_RANK], both[ANF_MAX_RANK];
  anf_node *t = m->root->in[0].def;
  if (!permutation(r, m->root, outer) || !permutation(r, t, inner)) return NULL;
  for (uint32_t i = 0; i < t->type->n; i++) both[i] = inner[outer[i]];
  return anfi_rewrite_transpose(r, m->root, t->in[0].def, both, t->type->n);
}

/* One form for all permutations: SwapAxes(x, 0, 1)  ->  Transpose(x, (1, 0)) */
anf_node *anfi_rule_swap_transpose(anfi_rewriter *r, const anfi_match *m) {
  int64_t axis[2], perm[ANF_MAX_RANK], rank = (int64_t)m->root->type->n;
  for (uint32_t k = 0; k < 2; k++) {
    const anf_value *v = anfi_attr_value(r->m->cx, ANF_OP_SwapAxes, m->root->u.attrs, k);
    if (!v || !anfi_value_is_int(v, &axis[k])) return NULL;
    axis[k] += axis[k] < 0 ? rank : 0;
  }
  for (int64_t i = 0; i < rank; i++) perm[i] = i == axis[0] ? axis[1] : i == axis[1] ? axis[0] : i;
  return anfi_rewrite_transpose(r, m->root, m->root->in[0].def, perm, (uint32_t)rank);
}

anf_node *anfi_rule_transpose_nothing(anfi_rewriter *r, const anfi_match *m) {
  int64_t perm[ANF_MAX_RANK];
  if (!permutation(r, m->root, perm) || !is_identity(perm, m->root->type->n)) return NULL;
  return m->root->in[0].def;
}

/* Does it swap the last two axes and nothing else? */
static bool swaps_last(const anfi_rewriter *r, const anf_node *t) {
  int64_t perm[ANF_MAX_RANK];
  uint32_t n = t->type->n;
  if (n < 2 || !permutation(r, t, perm)) return false;
  if (perm[n - 1] != (int64_t)n - 2 || perm[n - 2] != (int64_t)n - 1) return false;
  return is_identity(perm, n - 2);
}

/* Elements stay where they are if dims of one move alone: f32[197, 1, 64] from f32[1, 197, 64]. A swap of the last two is left to
 * the products that read it. */
anf_node *anfi_rule_transpose_ones(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root, *x = n->in[0].def;
  int64_t perm[ANF_MAX_RANK], last = -1;
  uint32_t rank = n->type->n;
  if (!permutation(r, n, perm) || swaps_last(r, n)) return NULL;
  for (uint32_t i = 0; i < rank; i++) {
    if (x->type->dims[perm[i]] == 1) continue;
    if (perm[i] < last) return NULL;
    last = perm[i];
  }
  const anfi_attrs *at =
      anfi_attrs_one(r->m, ANF_OP_Reshape, anfi_value_new_ints(r->m->cx, rank, n->type->dims));
  return anfi_rewrite_apply(r, n, ANF_OP_Reshape, at, 1, &x);
}

anf_node *anfi_rewrite_matmul(anfi_rewriter *r, anf_node *near, anf_node *a, bool ta, anf_node *b,
                              bool tb) {
  anf_value *v[2] = {anfi_value_new_i64(r->m->cx, ANF_BOOL, ta), NULL};
  anfi_value_guard(v[0]);
  v[1] = anfi_value_new_i64(r->m->cx, ANF_BOOL, tb);
  anfi_value_guard(v[1]);
  const anfi_attrs *at;
  anfi_attrs_new(r->m, ANF_OP_MatMul, v, anfi_nowhere(), &at);
  for (int i = 0; i < 2; i++) {
    anfi_value_unguard(v[i]);
    anf_value_release(v[i]);
  }
  return anfi_rewrite_apply(r, near, ANF_OP_MatMul, at, 2, (anf_node *const[]){a, b});
}

static bool flag(const anfi_rewriter *r, const anf_node *mm, uint32_t k) {
  return anfi_get_i64(anfi_attr_value(r->m->cx, ANF_OP_MatMul, mm->u.attrs, k), 0) != 0;
}

anf_node *anfi_rule_matmul_ta(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root, *t = n->in[0].def;
  if (!swaps_last(r, t)) return NULL;
  return anfi_rewrite_matmul(r, n, t->in[0].def, !flag(r, n, 0), n->in[1].def, flag(r, n, 1));
}

anf_node *anfi_rule_matmul_tb(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root, *t = n->in[1].def;
  if (!swaps_last(r, t)) return NULL;
  return anfi_rewrite_matmul(r, n, n->in[0].def, flag(r, n, 0), t->in[0].def, !flag(r, n, 1));
}

/* Products read their operands transposed where they are. */
static bool only_products_read(const anf_node *t) {
  for (const anfi_use *u = t->uses; u; u = u->next)
    if (!anfi_is_op(u->user, ANF_OP_MatMul)) return false;
  return t->uses != NULL;
}

/* (a b)' = b' a', for matrices. */
anf_node *anfi_rule_transposed_matmul(anfi_rewriter *r, const anfi_match *m) {
  anf_node *mm = m->root->in[0].def, *a = mm->in[0].def, *b = mm->in[1].def;
  if (only_products_read(m->root)) return NULL;
  if (!swaps_last(r, m->root) || a->type->n < 2 || b->type->n < 2 || !mm->uses || mm->uses->next)
    return NULL;
  return anfi_rewrite_matmul(r, m->root, b, !flag(r, mm, 1), a, !flag(r, mm, 0));
}

/* The reduction of x along other axes, without keepdims. */
static anf_node *reduce_along(anfi_rewriter *r, const anf_node *n, anf_node *x, const int64_t *axis,
                              uint32_t count) {
  const anfi_schema *s = anfi_op_schema(r->m->cx, (anfi_opcode)n->op);
  anf_value **v = ANFI_NEW_N(r->arena, anf_value *, s->nattr + 1);
  const anfi_attrs *at;
  for (uint32_t k = 0; k < s->nattr; k++)
    v[k] = (anf_value *)(uintptr_t)anfi_attr_value(r->m->cx, (anfi_opcode)n->op, n->u.attrs, k);
  v[0] = anfi_value_new_ints(r->m->cx, count, axis);
  anfi_value_guard(v[0]);
  bool good = anfi_attrs_new(r->m, (anfi_opcode)n->op, v, anfi_nowhere(), &at);
  anfi_value_unguard(v[0]);
  anf_value_release(v[0]);
  return good ? anfi_rewrite_apply(r, (anf_node *)(uintptr_t)n, (anfi_opcode)n->op, at, 1, &x)
              : NULL;
}

/* Sum(Transpose(x, (1, 0)), axis=1)  ->  Sum(x, axis=0): no tensor is transposed but the result, if dims stay in another
 * order. The elements of each sum keep theirs. */
anf_node *anfi_rule_reduce_transpose(anfi_rewriter *r, const anfi_match *m) {
  anf_node *n = m->root, *t = n->in[0].def;
  uint32_t rank = t->type->n, count = 0, left = 0;
  int64_t perm[ANF_MAX_RANK], axis[ANF_MAX_RANK], order[ANF_MAX_RANK];
  const anf_value *along = anfi_attr_value(r->m->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  const anf_value *keep = anfi_attr_value(r->m->cx, (anfi_opcode)n->op, n->u.attrs, 1);
  if (!along || !keep || anfi_get_i64(keep, 0) || !permutation(r, t, perm)) return NULL;
  uint32_t mask = anfi_reduced_axes(along, rank), in_x = 0;
  for (uint32_t i = 0; i < rank; i++) {
    if (!(mask >> i & 1)) continue;
    if (count && perm[i] < axis[count - 1]) return NULL; // they would be added in another order
    axis[count++] = perm[i];
    in_x |= UINT32_C(1) << perm[i];
  }
  for (uint32_t i = 0; i < rank;
       i++) // dims of the result, by their number among those of x that stay
    if (!(mask >> i & 1)) {
      order[left] = 0;
      for (int64_t k = 0; k < perm[i]; k++) order[left] += !(in_x >> k & 1);
      left++;
    }
  anf_node *sum = count ? reduce_along(r, n, t->in[0].def, axis, count) : NULL;
  return sum ? anfi_rewrite_transpose(r, n, sum, order, left) : NULL;
}
