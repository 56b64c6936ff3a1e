// SPDX-License-Identifier: Apache-2.0
/* Nodes that the transforms of a step add to the optimised graph.
 *   anfi_reshaped(g, x, f32[6]), x: f32[2,3]     Reshape(x, (6)): f32[6]
 * Nothing infers them any more, so each is given its type. */
#include "step/step.h"

anf_node *anfi_typed_op(anf_graph *g, anfi_opcode op, const anfi_attrs *at, anf_node *x,
                        const anf_type *t) {
  anf_node *n = anfi_typed(anfi_apply(g, op, at, 1, &x), t);
  n->debug = x->debug;
  return n;
}

anf_node *anfi_reshaped(anf_graph *g, anf_node *x, const anf_type *t) {
  if (x->type == t) return x;
  anf_module *m = g->module;
  anf_value *dims = anfi_value_new_ints(m->cx, t->n, t->dims);
  return anfi_typed_op(g, ANF_OP_Reshape, anfi_attrs_one(m, ANF_OP_Reshape, dims), x, t);
}

anf_node *anfi_item(anf_graph *g, anf_node *x, uint32_t i) {
  anf_module *m = g->module;
  const anf_type *t = x->type;
  bool record = t->kind == ANF_TYPE_RECORD;
  anfi_opcode op = record ? ANF_OP_RecordGet : ANF_OP_TupleGet;
  anf_value *which = record ? anfi_value_new_string(m->cx, t->names[i]->s, t->names[i]->len)
                            : anfi_value_new_i64(m->cx, ANF_INT, i);
  return anfi_typed(anfi_apply(g, op, anfi_attrs_one(m, op, which), 1, &x), t->items[i]);
}
