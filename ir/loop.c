// SPDX-License-Identifier: Apache-2.0
/* Reads a Loop node's attributes once (loop.h); all passes, derivatives and the lowering start here.
 *   Loop(step, 10, w, s, xs, invariant=1, stacks=1, counted=true)  ->  n = 10, nw = 1, ns = 1, nx = 1 */
#include "ir/loop.h"

size_t anfi_loop_attr(const anf_node *loop, uint32_t k) {
  const anf_value *v = anfi_attr_value(loop->graph->module->cx, ANF_OP_Loop, loop->u.attrs, k);
  return v ? (size_t)anfi_get_i64(v, 0) : 0;
}

anfi_loop_op anfi_loop_parts(const anf_node *loop) {
  bool counted = anfi_loop_attr(loop, ANFI_LOOP_COUNTED),
       guarded = anfi_loop_attr(loop, ANFI_LOOP_GUARDED);
  anfi_loop_op l = {.step = anfi_value_graph(loop->in[0].def),
                    .n = counted ? loop->in[1].def : NULL,
                    .go = guarded ? loop->in[1].def : NULL,
                    .nw = anfi_loop_attr(loop, ANFI_LOOP_INVARIANT),
                    .nx = anfi_loop_attr(loop, ANFI_LOOP_STACKS),
                    .nout = anfi_loop_attr(loop, ANFI_LOOP_OUTS),
                    .counted = counted,
                    .reverse = anfi_loop_attr(loop, ANFI_LOOP_REVERSE),
                    .rounds = anfi_loop_attr(loop, ANFI_LOOP_ROUNDS),
                    .loop = loop,
                    .first_w = counted || guarded ? 2 : 1};
  l.ns = loop->nin - l.first_w - l.nw - l.nx;
  return l;
}

static bool is_counter(const anf_node *n) {
  const anf_type *t = n->type;
  return t && t->kind == ANF_TYPE_TENSOR && !t->n &&
         (t->dtype == ANF_INT || t->dtype == ANF_I64 || t->dtype == ANF_I32);
}

static bool is_number(const anf_node *n, int64_t *out) {
  return n->kind == ANFI_VALUE && is_counter(n) && anfi_value_is_int(n->u.value, out);
}

bool anfi_loop_counts(const anfi_loop_op *l, size_t i, int64_t *by) {
  if (!l->step || !l->step->result || !anfi_is_op(l->step->result, ANF_OP_MakeTuple)) return false;
  const anf_node *n = l->step->result->in[anfi_loop_first_item(l) + i].def,
                 *p = l->step->params.at[l->nw + i];
  bool plus = anfi_is_op(n, ANF_OP_Add);
  if (!is_counter(p) || p->type != n->type || (!plus && !anfi_is_op(n, ANF_OP_Sub))) return false;
  const anf_node *a = n->in[0].def, *b = n->in[1].def;
  if (plus && is_number(a, by)) return b == p;
  if (a != p || !is_number(b, by)) return false;
  if (!plus) *by = -*by;
  return true;
}
