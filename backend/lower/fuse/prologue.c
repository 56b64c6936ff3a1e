// SPDX-License-Identifier: Apache-2.0
/* Prologues: decides for an operand of a product, mostly the left one, whether it is computed while the product packs it.
 *
 *   Gelu(x + 1.0) @ w                    x is in memory as it is: yes, along K
 *   Relu(Transpose(x)) @ w               neighbours in memory are rows of the operand: yes, K by M
 *   Reshape(Transpose(p @ v), ..) @ w    heads that come together: yes, the copy goes
 *   Gelu(x @ v) @ w                      no: Gelu is the epilogue of the first product
 *   (Transpose(x) + y) @ w               no: one of the two is read across, squares of both are better (gemm/transposed.c)
 *
 *   x @ Dequantize(w, s)                 the right operand: of less memory than its result, and so computed into panels
 *
 * The operand has no other reader. Where it is only pointwise, what it reads must be a parameter or a constant: another
 * loop that computes it would be the better place. The walk follows one dim of the rows and one of K down to memory. */
#include "backend/lower/low.h"
#include "ir/ops/kernel.h"

enum { LEAST_SIDE = 32, LEAST_OPERAND = 1 << 12, MOST_NODES = 16, CHEAP = 4 };

typedef struct reach { // a node below the operand
  const anf_node *n;
  int row, col; // the dims where the operand's rows and steps go on by one; -1: none
  bool moved;   // below a transposition
} reach;

static bool has(const anf_node *n, uint32_t flag) { return anfi_op_of(n)->flags & flag; }

static bool is_float(const anf_node *n, size_t least) {
  size_t all;
  return n->type && n->type->kind == ANF_TYPE_TENSOR && n->type->n >= 2 &&
         (n->type->dtype == ANF_F32 || n->type->dtype == ANF_F64) &&
         anfi_type_elements(n->type, &all) && all >= least;
}

static bool flag_of(const anf_node *product, uint32_t i) {
  return product->op == ANF_OP_MatMul &&
         anfi_attr_bool(
             anfi_attr_value(product->graph->module->cx, ANF_OP_MatMul, product->u.attrs, i));
}

/* The dim of `in` along which elements are as far apart as along dim d of `out`, which has the same elements in order. */
static int reshaped_dim(const anf_type *out, const anf_type *in, int d, bool whole) {
  int64_t apart = 1, size = 1;
  if (d < 0) return -1;
  for (int k = (int)out->n - 1; k > d; k--) apart *= out->dims[k];
  for (int k = (int)in->n - 1; k >= 0; k--) {
    if (size == apart && in->dims[k] > 1) return whole && in->dims[k] % out->dims[d] ? -1 : k;
    size *= in->dims[k];
  }
  return -1;
}

static bool permuted(const anf_node *n, size_t *perm) {
  anf_ctx *cx = n->graph->module->cx;
  size_t rank = n->type->n, a, b;
  const anf_value *first = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 0);
  if (n->op == ANF_OP_Transpose) return anfi_permutation(first, rank, perm);
  const anf_value *second = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 1);
  if (!anfi_axis_in(anfi_attr_int(first), rank, &a) ||
      !anfi_axis_in(anfi_attr_int(second), rank, &b))
    return false;
  for (size_t k = 0; k < rank; k++) perm[k] = k;
  perm[a] = b, perm[b] = a;
  return true;
}

/* What n reads at the same points as its own. False: n is no such op. */
static bool below(const reach *at, size_t i, reach *to) {
  const anf_node *n = at->n, *x = n->in[i].def;
  size_t perm[ANF_MAX_RANK];
  *to = (reach){x, at->row, at->col, at->moved};
  if (has(n, ANFI_PERMUTES)) {
    if (!permuted(n, perm)) return false;
    if (at->row >= 0) to->row = (int)perm[at->row];
    if (at->col >= 0) to->col = (int)perm[at->col];
    return to->moved = true;
  }
  if (has(n, ANFI_IN_ORDER) && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP) {
    to->row = reshaped_dim(n->type, x->type, at->row, true);
    to->col = reshaped_dim(n->type, x->type, at->col, false);
    return true;
  }
  return anfi_op_of(n)->lower == ANFI_LOWER_POINTWISE && anfi_lower_is_scalar((anfi_opcode)n->op);
}

static bool is_last(const anf_type *t, int d) {
  int last = (int)t->n - 1;
  while (last > 0 && t->dims[last] == 1) last--;
  return d >= 0 && d == last;
}

typedef struct ways {
  /* once: it is too dear for several times; near: only a copy that goes is worth it */
  bool in_place, rows, by_k, once, near;
  uint64_t elements; // of the operand
  reach stack[MOST_NODES];
  size_t n, seen;
} ways;

/* Memory that the operand is computed of. */
static bool take_leaf(ways *w, const reach *at) {
  const anf_node *given = anfi_low_given(at->n);
  if (w->in_place && given) return false; // it may be state, which a later node writes
  if ((w->near || (at->n->kind != ANFI_VALUE && !given)) && !at->moved) return false;
  w->rows &= is_last(at->n->type, at->col);
  w->by_k &= is_last(at->n->type, at->row);
  return w->rows || w->by_k;
}

static bool take(ways *w, const reach *at, const anf_node *reader) {
  size_t all;
  const anf_node *n = at->n;
  if (anfi_low_asks_type(reader, 0) && reader->in[0].def == n) return false;
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR || !anfi_type_elements(n->type, &all))
    return false;
  if (all != w->elements) return all * 8 <= w->elements; // small, and stays in cache
  bool inner = anfi_low_may_inline(n) && n->uses && !n->uses->next;
  if (!inner) return take_leaf(w, at);
  if (w->n == MOST_NODES || w->seen++ == MOST_NODES) return false;
  if (w->once && anfi_op_of(n)->cost > CHEAP) return false;
  w->stack[w->n++] = *at;
  return true;
}

static bool walk(ways *w) {
  while (w->n) {
    reach at = w->stack[--w->n], to;
    for (uint32_t i = 0; i < at.n->nin; i++)
      if (!below(&at, i, &to) || !take(w, &to, at.n)) return false;
  }
  return true;
}

anfi_prologue_way anfi_low_prologue(const anf_node *product, bool in_place) {
  bool matmul = anfi_is_op(product, ANF_OP_MatMul), ta, tb;
  if (!matmul && !anfi_is_op(product, ANF_OP_Linear)) return PROLOGUE_NONE;
  const anf_node *x = product->in[0].def, *w = product->in[1].def;
  if (!is_float(product, 1) || !is_float(x, LEAST_OPERAND) || !w->type ||
      w->type->kind != ANF_TYPE_TENSOR || w->type->n < 2 ||
      x->type->dtype != product->type->dtype || w->type->dtype != product->type->dtype || x == w ||
      !x->uses || x->uses->next || !anfi_low_may_inline(x))
    return PROLOGUE_NONE;
  ta = flag_of(product, 0), tb = !matmul || flag_of(product, 1);
  int last = (int)x->type->n - 1, row = ta ? last : last - 1, col = ta ? last - 1 : last;
  int64_t m = x->type->dims[row], k = x->type->dims[col],
          n = product->type->dims[product->type->n - 1];
  if (m < LEAST_SIDE || n < LEAST_SIDE || k < LEAST_SIDE) return PROLOGUE_NONE;
  if (tb && m * (k + n) <= n * k) return PROLOGUE_NONE; // operands are exchanged (gemm/plan.c)
  for (size_t i = 0, over = product->type->n - x->type->n; i + 2 < x->type->n; i++)
    if (product->type->n != x->type->n || x->type->dims[i] != product->type->dims[i + over])
      return PROLOGUE_NONE; // a batch would compute it again
  ways q = {.in_place = in_place, .rows = true, .by_k = matmul || last == 1};
  size_t all = 0;
  anfi_type_elements(x->type, &all);
  q.elements = all;
  q.once = m < n;
  q.near =
      m < n || tb; // a B that is packed goes by groups, so that all rows would be computed first
  if (!take(&q, &(reach){x, row, col, false}, product) || !walk(&q) || q.rows == q.by_k)
    return PROLOGUE_NONE;
  return q.rows ? PROLOGUE_BY_ROWS : PROLOGUE_BY_K;
}

/* ---- right operands ---- */

typedef struct narrow { // what a right operand is computed of
  bool in_place;
  uint64_t elements, bytes; // of the operand; bytes that are read for it
  reach stack[MOST_NODES];
  size_t n, seen;
} narrow;

static bool take_right(narrow *w, const reach *at) {
  size_t all;
  const anf_node *n = at->n, *given = anfi_low_given(n);
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR || !anfi_type_elements(n->type, &all))
    return false;
  bool inner = anfi_low_may_inline(n) && n->uses && !n->uses->next && all * 8 > w->elements;
  if (inner) {
    if (w->n == MOST_NODES || w->seen++ == MOST_NODES || anfi_op_of(n)->cost > CHEAP) return false;
    w->stack[w->n++] = *at;
    return true;
  }
  w->bytes += all * anf_dtype_bytes((anf_dtype)n->type->dtype);
  if (all * 8 <= w->elements) return true; // small, and stays in cache
  return (n->kind == ANFI_VALUE || (given && !w->in_place)) && is_last(n->type, at->col);
}

/* Packed codes are read by vectors unless they are packed along the columns. */
static bool below_right(const reach *at, size_t i, reach *to) {
  const anf_node *n = at->n;
  size_t axis;
  if (n->op != ANF_OP_UnpackBits && n->op != ANF_OP_Cast) return below(at, i, to);
  *to = (reach){n->in[0].def, at->row, at->col, at->moved};
  if (n->op == ANF_OP_Cast) return true;
  const anf_value *v = anfi_attr_value(n->graph->module->cx, ANF_OP_UnpackBits, n->u.attrs, 1);
  return anfi_axis_in(anfi_attr_int(v), n->type->n, &axis) && (int)axis != at->col;
}

bool anfi_low_computes_right(const anf_node *product, bool in_place) {
  size_t all, rows;
  if (!anfi_is_op(product, ANF_OP_MatMul) || flag_of(product, 1) || !is_float(product, 1))
    return false;
  const anf_node *x = product->in[0].def, *w = product->in[1].def;
  if (!is_float(w, LEAST_OPERAND) || w->type->n != 2 || w->type->dtype != product->type->dtype ||
      x == w || !x->type || x->type->kind != ANF_TYPE_TENSOR ||
      x->type->dtype != product->type->dtype || !w->uses || w->uses->next ||
      !anfi_low_may_inline(w) || anfi_low_asks_type(product, 1))
    return false;
  if (!anfi_type_elements(w->type, &all) || !anfi_type_elements(product->type, &rows)) return false;
  int64_t k = w->type->dims[0], n = w->type->dims[1];
  if (k < LEAST_SIDE || n < LEAST_SIDE || rows < 2 * (uint64_t)n) return false;
  narrow q = {.in_place = in_place, .elements = all};
  if (!take_right(&q, &(reach){w, 0, 1, false})) return false;
  while (q.n) {
    reach at = q.stack[--q.n], to;
    for (uint32_t i = 0; i < at.n->nin; i++)
      if (anfi_low_asks_type(at.n, i) || !below_right(&at, i, &to) || !take_right(&q, &to))
        return false;
  }
  return 2 * q.bytes <= all * anf_dtype_bytes((anf_dtype)w->type->dtype);
}

bool anfi_low_is_prologue(const anf_node *n) {
  const anf_node *user = n->uses && !n->uses->next ? n->uses->user : NULL;
  if (!user || user->kind != ANFI_APPLY || !user->nin) return false;
  if (user->in[0].def == n) return anfi_low_prologue(user, false) != PROLOGUE_NONE;
  return user->nin > 1 && user->in[1].def == n && anfi_low_computes_right(user, false);
}
