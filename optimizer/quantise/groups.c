// SPDX-License-Identifier: Apache-2.0
/* Weights with a scale for each group of steps of the sum, as of 4-bit networks. K = G groups of B steps:
 *
 *   w = Reshape(Dequantize(q, s, z), (K, N))       q: [G, B, N], s and z: [G, 1, N]
 *   x @ w   ->   Sum((X @ Cast(q, f32) - Sum(X) * z) * s, axis=0)       X: [G, M, B], of x: [M, K], few rows
 *
 * A few rows are bound by memory: codes are read once, as bytes, and no dequantised weight is made. The sums of a group are scaled
 * after it, so that rounding is that of the group's terms. Transposed weights, q: [N, G, B], are permuted once where
 * they are constants; packed ones, q = UnpackBits(c, bits=4, axis=2), stay packed: UnpackBits(Transpose(c), axis=1).
 * More rows multiply dequantised weights. */
#include "optimizer/quantise/quantise.h"

typedef struct grouped {
  anf_node *code, *scale, *zero; // [G, B, N], [G, 1, N] or broadcast to it; zero: or NULL
  int64_t groups, steps, columns;
} grouped;

static anf_node *reshaped(quantiser *q, anf_node *x, uint32_t rank, const int64_t *dims) {
  anf_value *shape = anfi_value_new_ints(q->r.m->cx, rank, dims);
  const anfi_attrs *at = anfi_attrs_one(q->r.m, ANF_OP_Reshape, shape);
  return anfi_q_apply(q, ANF_OP_Reshape, at, 1, &x);
}

/* Has it one value for all steps of a group? */
static bool is_by_group(const anf_node *v, uint32_t step_axis) {
  if (!v || !anfi_q_is_tensor(v)) return !v;
  return v->type->n == 0 || (v->type->n == 3 && v->type->dims[step_axis] == 1);
}

/* [N, G, B] as [G, B, N]. */
static anf_node *by_rows(quantiser *q, anf_node *v) {
  static const int64_t perm[3] = {1, 2, 0};
  return !v || v->type->n == 0 ? v : anfi_q_permute(q, v, perm, 3);
}

/* w, stored transposed if `transposed`, as codes by groups. */
static bool grouped_of(const anf_node *w, bool transposed, grouped *g) {
  const anf_node *d = anfi_is_op(w, ANF_OP_Reshape) ? w->in[0].def : NULL;
  if (!d || !anfi_is_op(d, ANF_OP_Dequantize) || !anfi_q_count(d) || d->type->n != 3 ||
      !anfi_q_count(w) || w->type->n != 2)
    return false;
  *g = (grouped){d->in[0].def, d->in[1].def, anfi_q_input(d, 2), 0, 0, 0};
  const anf_type *t = g->code->type;
  uint32_t step = transposed ? 2 : 1;
  if (!anfi_q_is_tensor(g->code) || !anfi_q_is_byte((anf_dtype)t->dtype) || t->n != 3 ||
      anfi_q_count(g->code) != anfi_q_count(d))
    return false;
  if (transposed && !anfi_q_is_fixed(g->code)) return false; // a copy in each call
  g->groups = t->dims[transposed ? 1 : 0], g->steps = t->dims[step],
  g->columns = t->dims[transposed ? 0 : 2];
  if (w->type->dims[transposed ? 0 : 1] != g->columns) return false;
  if (g->zero && anfi_q_is_no_offset(g->zero)) g->zero = NULL;
  return is_by_group(g->scale, step) && is_by_group(g->zero, step);
}

static void store_by_rows(quantiser *q, grouped *g) {
  g->code = by_rows(q, g->code), g->scale = by_rows(q, g->scale), g->zero = by_rows(q, g->zero);
}

/* More than a few rows: packed weights are dequantised in each call, by rows, which vectors do. */
static anf_node *many_rows(quantiser *q, anf_node *n, grouped *g, bool transposed) {
  anfi_q_refuse(q, "many rows multiply weights with a scale for each group of steps");
  if (!transposed || !anfi_is_op(g->code, ANF_OP_UnpackBits)) return NULL;
  store_by_rows(q, g);
  anf_node *in[3] = {g->code, g->scale, g->zero};
  anf_node *w = anfi_q_apply(q, ANF_OP_Dequantize, NULL, g->zero ? 3 : 2, in);
  if (w) w = reshaped(q, w, 2, (int64_t[]){g->groups * g->steps, g->columns});
  return w ? anfi_rewrite_matmul(&q->r, n, n->in[0].def, false, w, false) : NULL;
}

/* [M, K] as [G, M, B]. */
static anf_node *rows_by_group(quantiser *q, const grouped *g, anf_node *x, int64_t rows) {
  static const int64_t perm[3] = {1, 0, 2};
  if (rows == 1) return reshaped(q, x, 3, (int64_t[]){g->groups, 1, g->steps});
  x = reshaped(q, x, 3, (int64_t[]){rows, g->groups, g->steps});
  return x ? anfi_q_permute(q, x, perm, 3) : NULL;
}

/* ..and the bias of Linear. */
static anf_node *biased(quantiser *q, const anf_node *n, anf_node *y) {
  anf_node *bias = n->op == ANF_OP_Linear ? anfi_q_input(n, 2) : NULL;
  return bias ? anfi_q_apply2(q, ANF_OP_Add, y, bias) : y;
}

anf_node *anfi_q_reschedule_groups(quantiser *q, anf_node *n) {
  enum { LEAST = 64 }; // columns, and terms of a sum
  grouped g;
  anf_node *x = n->in[0].def, *w = n->in[1].def;
  bool linear = n->op == ANF_OP_Linear, transposed = linear || anfi_q_flag(n, 1);
  if (n->type->dtype != ANF_F32 || n->type->n < 2 || (!linear && anfi_q_flag(n, 0)) ||
      !anfi_q_is_tensor(x) || x->type->dtype != ANF_F32 || !grouped_of(w, transposed, &g))
    return NULL;
  size_t rows = g.columns ? anfi_q_count(n) / (size_t)g.columns : 0;
  if (rows > ANFI_FEW_ROWS) return biased(q, n, many_rows(q, n, &g, transposed));
  if (g.columns < LEAST || g.groups * g.steps < LEAST || !rows ||
      anfi_q_count(n) != rows * (size_t)g.columns ||
      anfi_q_count(x) != rows * (size_t)(g.groups * g.steps))
    return NULL;
  if (transposed) store_by_rows(q, &g);
  anf_node *row = rows_by_group(q, &g, x, (int64_t)rows);
  anf_node *codes = anfi_q_cast(q, g.code, ANF_F32);
  anf_node *y = row && codes ? anfi_rewrite_matmul(&q->r, n, row, false, codes, false) : NULL;
  if (g.zero) {
    anf_node *zero = anfi_q_cast(q, g.zero, ANF_F32);
    y = anfi_q_apply2(q, ANF_OP_Sub, y,
                      anfi_q_apply2(q, ANF_OP_Mul, anfi_q_sum(q, row, 2, true), zero));
  }
  y = anfi_q_apply2(q, ANF_OP_Mul, y, anfi_q_cast(q, g.scale, ANF_F32));
  y = anfi_q_sum(q, y, 0, false);
  return biased(q, n, y ? reshaped(q, y, n->type->n, n->type->dims) : NULL);
}
