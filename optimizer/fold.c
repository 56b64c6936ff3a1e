// SPDX-License-Identifier: Apache-2.0
/* Constant folding: an op with constant arguments is evaluated by the reference kernel.
 *   Add(2, 3)                 ->  5
 *   FloorDiv(1, 0)            stays, and fails when the program runs
 * Results of more than LIMIT bytes stay unfolded, unless they take no more memory than the constants that they are made
 * of element by element, or are short products; of these a module computes fold_limit bytes. Widened bytes stay unfolded,
 * too: products read the narrow bytes directly. Boxes and stacks are records that a run makes: no constant holds one. */
#include "ir/ops/op.h"
#include "optimizer/opt.h"

enum { LIMIT = 64 * 1024 };    // bytes of a result
enum { FOLD_BYTES = 1 << 30 }; // of those beyond LIMIT, in all

/* Does it take the place of constants of as many bytes? */
static bool shrinks(const anf_node *n, size_t bytes) {
  bool maps =
      anfi_op_of(n)->lower == ANFI_LOWER_POINTWISE || anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP;
  size_t k, all = 0;
  for (uint32_t i = 0; maps && i < n->nin; i++) {
    const anf_type *t = n->in[i].def->type;
    if (t && t->kind == ANF_TYPE_TENSOR && anfi_type_elements(t, &k))
      all += k * anf_dtype_bytes((anf_dtype)t->dtype);
  }
  return all >= bytes;
}

/* A product of constants that takes milliseconds: of weights that are fixed. */
static bool is_short_product(const anf_node *n, size_t elements) {
  enum { MOST_STEPS = 1 << 26 };
  const anf_type *a = n->in[0].def->type;
  bool product = n->op == ANF_OP_MatMul || n->op == ANF_OP_Linear;
  if (!product || !a || a->kind != ANF_TYPE_TENSOR || !a->n) return false;
  size_t k = 1; // the larger of the last two dims is the sum's length at most
  for (uint32_t i = a->n > 2 ? a->n - 2 : 0; i < a->n; i++)
    if (a->dims[i] > 0 && (size_t)a->dims[i] > k) k = (size_t)a->dims[i];
  return elements <= MOST_STEPS / k;
}

/* Does it swap the last two axes and nothing else? */
static bool swaps_last(const anf_node *n) {
  anf_ctx *cx = n->graph->module->cx;
  size_t rank = n->type->n, perm[ANF_MAX_RANK];
  if (rank < 2 || (n->op != ANF_OP_Transpose && n->op != ANF_OP_SwapAxes)) return false;
  const anf_value *at = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 0);
  if (n->op == ANF_OP_Transpose) {
    if (!anfi_permutation(at, rank, perm)) return false;
    for (size_t k = 0; k + 2 < rank; k++)
      if (perm[k] != k) return false;
    return perm[rank - 1] == rank - 2;
  }
  return anfi_axis_in(anfi_attr_int(at), rank, &perm[0]) &&
         anfi_axis_in(anfi_attr_int(anfi_attr_value(cx, ANF_OP_SwapAxes, n->u.attrs, 1)), rank,
                      &perm[1]) &&
         perm[0] + perm[1] == 2 * rank - 3 && perm[0] != perm[1];
}

/* Weights that products read transposed where they are (rule matmul_transposed_b). */
static bool only_products_read(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (!anfi_is_op(u->user, ANF_OP_MatMul)) return false;
  return n->uses != NULL && swaps_last(n);
}

/* Bytes of the result that count against the limit. */
static uint64_t large_bytes(const anf_node *n) {
  size_t elements;
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR || anfi_op_of(n)->flags & ANFI_MOVES) return 0;
  if (!anfi_type_elements(n->type, &elements)) return 0;
  uint64_t bytes = (uint64_t)elements * anf_dtype_bytes((anf_dtype)n->type->dtype);
  return bytes > LIMIT ? bytes : 0;
}

static bool has_room(const anf_module *m, uint64_t bytes) {
  uint64_t limit = m->fold_limit ? m->fold_limit : FOLD_BYTES;
  return m->folded <= limit && bytes <= limit - m->folded;
}

static bool is_widening(const anf_node *n) {
  return anfi_widens_codes((anfi_opcode)n->op, n->in[0].def->type, n->type);
}

/* Is it an input of which the op reads the type alone, a number's? Any value of that type does. */
static bool is_type_alone(const anf_node *n, uint32_t i) {
  const anf_type *t = n->in[i].def->type;
  return n->op == ANF_OP_CastLike && i == 1 && t && t->kind == ANF_TYPE_TENSOR && !t->n;
}

static bool is_constant(const anf_node *x) {
  return x->kind == ANFI_VALUE && x->u.value->kind != ANF_VALUE_FN;
}

bool anfi_fold_may(const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (!is_constant(n->in[i].def) && !is_type_alone(n, i)) return false;
  return n->nin > 0;
}

static bool foldable(const anf_node *n) {
  if (n->kind != ANFI_APPLY || !anfi_fold_may(n)) return false;
  if ((anfi_op_of(n)->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_TRANSFORM | ANFI_COLLECTIVE)) ||
      n->op == ANF_OP_Undef)
    return false;
  size_t elements;
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR) return n->type && !n->type->kept;
  if (anfi_op_of(n)->flags & ANFI_MOVES) return true; // nothing is copied
  if (!anfi_type_elements(n->type, &elements) || is_widening(n)) return false;
  uint64_t bytes = large_bytes(n);
  if (bytes && only_products_read(n)) return false;
  return !bytes || (has_room(n->graph->module, bytes) &&
                    (shrinks(n, bytes) || is_short_product(n, elements)));
}

/* In a frame without diagnostics: a failure here is not reported, the op fails at run time. */
static anf_status eval_quietly(anf_ctx *cx, anfi_eval *e) {
  anf_diag *none = NULL;
  ANFI_ENTRY(cx, none);
  cx->frame->diag = NULL;
  e->scratch = anfi_scratch(cx);
  anfi_eval_op(e);
  return anfi_leave(cx);
}

static anf_value *value_of(anfi_arena *a, const anf_node *n) {
  anf_ctx *cx = n->graph->module->cx;
  const anfi_schema *s = anfi_op_schema(cx, (anfi_opcode)n->op);
  anf_value **in = ANFI_NEW_N(a, anf_value *, n->nin),
            **attr = ANFI_NEW_N(a, anf_value *, s->nattr + 1);
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!(attr[k] = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, k))) return NULL;
  anf_value *any = NULL;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    in[i] = is_constant(x) ? x->u.value : (any = anfi_value_new_tensor(cx, x->type));
  }
  anfi_eval e = {.cx = cx, .op = (anfi_opcode)n->op, .n = n->nin, .in = in, .attr = attr};
  anf_status st = eval_quietly(cx, &e);
  anf_value_release(any);
  if (st == ANF_NOMEM) anfi_throw_nomem(cx);
  return st == ANF_OK ? e.out : NULL;
}

anf_node *anfi_fold_node(anfi_arena *a, const anf_node *n) {
  anf_module *m = n->graph->module;
  anf_value *v = foldable(n) ? value_of(a, n) : NULL;
  if (!v) return NULL;
  m->folded += large_bytes(n);
  anf_node *c = anfi_value(m, v);
  c->type = anfi_value_type(m->cx, v);
  return c->type == n->type ? c : NULL;
}

static void fold_graph(anfi_pass *p, anfi_arena *a, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, a, &order);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i];
    anf_node *c = p->rewrites < p->limit ? anfi_fold_node(a, n) : NULL;
    if (!c || !anfi_rewrite(p)) continue;
    anfi_replace(n, c);
    anfi_delete(n);
  }
}

/* Most graphs have nothing to fold, which one sweep in memory order finds out. */
static bool *graphs_with_work(anfi_arena *a, const anf_module *m) {
  bool *has = ANFI_NEW_N(a, bool, m->graphs.n + 1);
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    anfi_fetch(m, i + 8, i + 24);
    if (n && foldable(n)) has[n->graph->id] = true;
  }
  return has;
}

bool anfi_opt_fold(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  const bool *has = graphs_with_work(a, p->m);
  for (size_t i = 0; i < p->m->graphs.n; i++)
    if (p->m->graphs.at[i] && has[i]) fold_graph(p, a, p->m->graphs.at[i]);
  return true;
}
