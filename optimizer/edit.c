// SPDX-License-Identifier: Apache-2.0
/* Edits that several passes share: attributes with one value changed, items of tuples, copies of nodes and
 * their effects, and the order of one graph:
 *   r = a * b; a = x + 1      anfi_graph_order gives a, r: inputs before users */
#include "optimizer/opt.h"

enum { ATTRS = 16 }; // no op has more

/* Called for every node that some passes make: no scratch arena, which is a page of its own. */
const anfi_attrs *anfi_attrs_one(anf_module *m, anfi_opcode op, anf_value *v) {
  return anfi_attrs_nth(m, op, 0, v);
}

const anfi_attrs *anfi_attrs_nth(anf_module *m, anfi_opcode op, uint32_t k, anf_value *v) {
  const anfi_attrs *at = NULL;
  anf_value *all[ATTRS] = {NULL};
  all[k] = v;
  anfi_value_guard(v);
  anfi_attrs_new(m, op, all, anfi_nowhere(), &at);
  anfi_value_unguard(v);
  anf_value_release(v);
  return at;
}

const anfi_attrs *anfi_attrs_set(anf_module *m, const anf_node *n, uint32_t k, anf_value *v) {
  const anfi_attrs *at = NULL;
  anf_value *all[ATTRS] = {NULL};
  anfi_value_guard(v);
  if (n->u.attrs) memcpy(all, n->u.attrs->at, n->u.attrs->n * sizeof *all);
  all[k] = v;
  anfi_attrs_new(m, (anfi_opcode)n->op, all, anfi_nowhere(), &at);
  anfi_value_unguard(v);
  anf_value_release(v);
  return at;
}

static bool is_constant_tuple(const anf_node *n) {
  return n->kind == ANFI_VALUE && n->op == ANF_OP_NONE && n->u.value->kind == ANF_VALUE_TUPLE;
}

bool anfi_is_made_tuple(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_MakeTuple) || is_constant_tuple(n);
}

anf_node *anfi_tuple_item(anf_graph *g, anf_node *t, size_t i) {
  anf_node *n;
  if (anfi_is_op(t, ANF_OP_MakeTuple)) return t->in[i].def;
  if (is_constant_tuple(t)) n = anfi_value(g->module, anf_value_retain(t->u.value->u.item[i]));
  else {
    anf_value *k = anfi_value_new_i64(g->module->cx, ANF_INT, (int64_t)i);
    n = anfi_apply(g, ANF_OP_TupleGet, anfi_attrs_one(g->module, ANF_OP_TupleGet, k), 1, &t);
    n->debug = t->debug;
  }
  n->type = t->type->items[i];
  return n;
}

anf_node *anfi_undefined(anf_graph *g, const anf_type *t) {
  const anfi_attrs *at =
      anfi_attrs_one(g->module, ANF_OP_Undef, anfi_value_new_type(g->module->cx, t));
  anf_node *n = anfi_apply(g, ANF_OP_Undef, at, 0, NULL);
  n->type = t;
  return n;
}

bool anfi_is_total(const anf_node *n) {
  const anfi_op_info *op = anfi_op_of(n);
  bool whole =
      n->type && n->type->kind == ANF_TYPE_TENSOR && anfi_dtype_is_int((anf_dtype)n->type->dtype);
  if ((op->flags & ANFI_FAILS) && whole) return false;
  return (op->flags & ANFI_MOVES) || op->lower == ANFI_LOWER_POINTWISE;
}

static void take_effect_place(anf_node *n, anf_node *by) {
  anf_graph *g = n->graph;
  for (size_t i = 0; i < g->effects.n; i++)
    if (g->effects.at[i] == n) g->effects.at[i] = by;
  n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
  by->flags |= ANFI_NODE_EFFECT;
}

void anfi_substitute(anf_node *n, anf_node *by) {
  bool call = by->graph == n->graph && anfi_is_cnode(by);
  if ((n->flags & ANFI_NODE_EFFECT) && call && !(by->flags & ANFI_NODE_EFFECT))
    take_effect_place(n, by);
  else if (n->flags & ANFI_NODE_EFFECT) anfi_remove_effect(n);
  anfi_replace(n, by);
  anfi_delete(n);
}

anf_node *anfi_copy_of(const anfi_map *copies, anf_node *old) {
  const uint64_t *at = anfi_map_find(copies, old->id);
  return at ? (anf_node *)(uintptr_t)*at : old;
}

anf_node *anfi_copy_node(anfi_arena *a, anf_graph *to, anf_node *old, anfi_map *copies) {
  anf_node **in = ANFI_NEW_N(a, anf_node *, old->nin);
  for (uint32_t i = 0; i < old->nin; i++) in[i] = anfi_copy_of(copies, old->in[i].def);
  anf_node *n = old->kind == ANFI_CALL
                    ? anfi_call(to, old->nin, in)
                    : anfi_apply(to, (anfi_opcode)old->op, old->u.attrs, old->nin, in);
  n->debug = old->debug;
  n->type = old->type;
  *anfi_map_at(copies, old->id) = anfi_key(n);
  return n;
}

void anfi_splice_effects(anf_node *call, const anf_graph *callee, anfi_map *copies) {
  anf_graph *g = call->graph;
  anfi_arena *a = &g->module->arena;
  anfi_node_vec all = {0};
  for (size_t i = 0; i < g->effects.n; i++) {
    if (g->effects.at[i] != call) {
      anfi_push(a, &all, g->effects.at[i]);
      continue;
    }
    for (size_t k = 0; k < callee->effects.n; k++) {
      anf_node *n = copies ? anfi_copy_of(copies, callee->effects.at[k]) : callee->effects.at[k];
      n->flags |= ANFI_NODE_EFFECT;
      anfi_push(a, &all, n);
    }
  }
  call->flags &= (uint8_t)~ANFI_NODE_EFFECT;
  g->effects.at = all.at;
  g->effects.n = all.n;
  g->effects.cap = all.cap;
}

/* ---- order of one closed graph, without an analysis of the module ---- */

typedef struct {
  anf_node *node;
  uint32_t next;
} visit;

static bool is_new(const anf_node *n, const anf_graph *g) {
  return n->graph == g && anfi_is_cnode(n) && !(n->flags & ANFI_NODE_MARK);
}

static void order_from(anf_graph *g, anf_node *root, anfi_arena *a, anfi_node_vec *out) {
  ANFI_VEC(visit) st = {0};
  if (!is_new(root, g)) return;
  root->flags |= ANFI_NODE_MARK;
  anfi_push(a, &st, ((visit){root, 0}));
  while (st.n) {
    visit *top = &st.at[st.n - 1];
    if (top->next == top->node->nin) {
      anfi_push(a, out, top->node);
      st.n--;
      continue;
    }
    anf_node *def = top->node->in[top->next++].def;
    if (!is_new(def, g)) continue;
    def->flags |= ANFI_NODE_MARK;
    anfi_push(a, &st, ((visit){def, 0}));
  }
}

void anfi_graph_order(anf_graph *g, anfi_arena *a, anfi_node_vec *out) {
  size_t first = out->n;
  for (size_t i = 0; i < g->effects.n; i++) order_from(g, g->effects.at[i], a, out);
  if (g->result) order_from(g, g->result, a, out);
  for (size_t i = first; i < out->n; i++) out->at[i]->flags &= (uint8_t)~ANFI_NODE_MARK;
}
