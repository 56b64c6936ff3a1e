// SPDX-License-Identifier: Apache-2.0
/* What the passes of the quantised path share: the walk over a module and the building of nodes.
 *   anfi_quantise_each(p, is_product, visit):   visit(MatMul(x, w)) gives a node of its type, which replaces it */
#include <math.h>

#include "optimizer/quantise/quantise.h"

bool anfi_quantise_each(anfi_pass *p, bool (*relevant)(const anf_node *),
                        anf_node *(*visit)(quantiser *q, anf_node *n)) {
  anf_module *m = p->m;
  quantiser q = {.r = {.pass = p, .m = m, .arena = anfi_scratch(m->cx)}};
  bool *has = ANFI_NEW_N(q.r.arena, bool, m->graphs.n + 1);
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && n->kind == ANFI_APPLY && relevant(n)) has[n->graph->id] = true;
  }
  for (size_t i = 0; i < m->graphs.n; i++) {
    anfi_node_vec order = {0};
    if (!m->graphs.at[i] || !has[i]) continue;
    anfi_graph_order(m->graphs.at[i], q.r.arena, &order);
    for (size_t k = 0; k < order.n && !anfi_failed(m->cx); k++) {
      anf_node *n = order.at[k];
      if (n->kind != ANFI_APPLY || !n->type || p->rewrites >= p->limit) continue;
      q.near = n, q.why = NULL;
      anf_node *by = visit(&q, n);
      if (by && by != n && by->type == n->type && anfi_rewrite(p)) anfi_substitute(n, by);
      else if (q.why) anfi_pass_note(p, n, "stays one of floats", q.why);
    }
  }
  return !anfi_failed(m->cx);
}

anf_node *anfi_q_apply(quantiser *q, anfi_opcode op, const anfi_attrs *at, size_t n,
                       anf_node *const *in) {
  for (size_t i = 0; i < n; i++)
    if (!in[i]) return NULL;
  return anfi_rewrite_apply(&q->r, q->near, op, at, n, in);
}

anf_node *anfi_q_apply1(quantiser *q, anfi_opcode op, anf_node *x) {
  return anfi_q_apply(q, op, NULL, 1, &x);
}

anf_node *anfi_q_apply2(quantiser *q, anfi_opcode op, anf_node *x, anf_node *y) {
  return anfi_q_apply(q, op, NULL, 2, (anf_node *const[]){x, y});
}

anf_node *anfi_q_cast(quantiser *q, anf_node *x, anf_dtype d) {
  anf_ctx *cx = q->r.m->cx;
  if (!x || x->type->dtype == d) return x;
  anf_value *to = anfi_value_new_type(cx, anfi_type_scalar(cx, d));
  return anfi_q_apply(q, ANF_OP_Cast, anfi_attrs_one(q->r.m, ANF_OP_Cast, to), 1, &x);
}

anf_node *anfi_q_number(quantiser *q, anf_dtype d, double x) {
  return anfi_rewrite_number(&q->r, anfi_type_scalar(q->r.m->cx, d), x);
}

anf_node *anfi_q_swap(quantiser *q, anf_node *x) {
  int64_t perm[ANF_MAX_RANK];
  if (!x || x->type->n < 2) return x;
  uint32_t n = x->type->n;
  for (uint32_t i = 0; i < n; i++) perm[i] = i;
  perm[n - 1] = n - 2, perm[n - 2] = n - 1;
  return anfi_q_permute(q, x, perm, n);
}

const anfi_attrs *anfi_q_attrs2(quantiser *q, anfi_opcode op, int64_t first, anf_dtype d,
                                int64_t second) {
  anf_ctx *cx = q->r.m->cx;
  anf_value *at[2] = {anfi_value_new_i64(cx, ANF_INT, first), NULL};
  const anfi_attrs *attrs;
  anfi_value_guard(at[0]);
  at[1] = anfi_value_new_i64(cx, d, second);
  anfi_value_guard(at[1]);
  anfi_attrs_new(q->r.m, op, at, anfi_nowhere(), &attrs);
  for (int i = 0; i < 2; i++) {
    anfi_value_unguard(at[i]);
    anf_value_release(at[i]);
  }
  return attrs;
}

anf_node *anfi_q_sum(quantiser *q, anf_node *x, int64_t axis, bool keepdims) {
  if (!x) return NULL;
  const anfi_attrs *at = anfi_q_attrs2(q, ANF_OP_Sum, axis, ANF_BOOL, keepdims);
  return anfi_q_apply(q, ANF_OP_Sum, at, 1, &x);
}

static int64_t attr_int(const anf_node *n, uint32_t k) {
  return anfi_attr_int(anfi_attr_value(n->graph->module->cx, (anfi_opcode)n->op, n->u.attrs, k));
}

/* Packed codes stay packed: along the axis that theirs becomes. */
anf_node *anfi_q_permute(quantiser *q, anf_node *x, const int64_t *perm, uint32_t rank) {
  size_t axis;
  if (!anfi_is_op(x, ANF_OP_UnpackBits))
    return anfi_rewrite_transpose(&q->r, q->near, x, perm, rank);
  anf_node *bytes = anfi_rewrite_transpose(&q->r, q->near, x->in[0].def, perm, rank);
  if (!anfi_axis_in(attr_int(x, 1), rank, &axis)) return NULL;
  int64_t to = 0;
  while (perm[to] != (int64_t)axis) to++;
  const anfi_attrs *at = anfi_q_attrs2(q, ANF_OP_UnpackBits, attr_int(x, 0), ANF_INT, to);
  return anfi_q_apply(q, ANF_OP_UnpackBits, at, 1, &bytes);
}

bool anfi_q_is_fixed(const anf_node *code) {
  if (anfi_is_op(code, ANF_OP_UnpackBits)) code = code->in[0].def;
  return code->kind == ANFI_VALUE;
}

bool anfi_q_flag(const anf_node *n, uint32_t attr) {
  const anf_value *v = anfi_attr_value(n->graph->module->cx, (anfi_opcode)n->op, n->u.attrs, attr);
  return v && anfi_get_i64(v, 0) != 0;
}

bool anfi_q_is_quantised(const anf_node *n) {
  return n->op == ANF_OP_Quantize || n->op == ANF_OP_Dequantize || n->op == ANF_OP_FakeQuantize ||
         n->op == ANF_OP_DynamicQuantize;
}

bool anfi_q_is_sound(const anf_node *scale) {
  const double least = 1e-30, most = 1e30;
  if (scale->kind != ANFI_VALUE || !anfi_q_is_tensor(scale)) return false;
  for (size_t i = 0; i < scale->u.value->n; i++) {
    double x = fabs(anfi_get_f64(scale->u.value, i));
    if (!(x >= least && x <= most)) return false;
  }
  return true;
}
