// SPDX-License-Identifier: Apache-2.0
/* A copy of a graph, with all that it refers to, in a module of its own: for those who rewrite a
 * program whose owner wants to keep it. The copy borrows names, attributes and texts of the
 * original, which must outlive it. Graphs are made first, so that references and recursion find
 * them; then nodes, graphs that own captured nodes before those that capture. */
#include "ir/ir.h"

typedef struct {
  const anf_analysis *an;
  anf_module *from, *to;
  anfi_arena *scratch;
  anf_graph **graph; // by old id; NULL: not reached
  anf_node **node;   // by old id
  ANFI_VEC(anf_graph *) reached;
} copying;

static bool has_graphs(const anf_value *v) {
  ANFI_VEC(const anf_value *) st = {0};
  anfi_arena *a = anfi_scratch(v->cx);
  anfi_push(a, &st, v);
  while (st.n) {
    const anf_value *x = st.at[--st.n];
    if (x->kind == ANF_VALUE_FN) return true;
    if (x->kind != ANF_VALUE_TUPLE && x->kind != ANF_VALUE_RECORD) continue;
    for (size_t i = 0; i < x->n; i++) anfi_push(a, &st, x->u.item[i]);
  }
  return false;
}

static void reach(copying *c, anf_graph *g) {
  if (c->graph[g->id]) return;
  c->graph[g->id] = anfi_graph_new(c->to, g->name);
  anfi_push(c->scratch, &c->reached, g);
}

/* A function value of the copied graphs. What it holds is data or functions of such graphs. */
static anf_value *copied_value(copying *c, anf_value *v) {
  if (v->kind != ANF_VALUE_FN) {
    if (!has_graphs(v)) return anf_value_retain(v);
    anf_value *t = v->kind == ANF_VALUE_RECORD ? anfi_value_new_record(v->cx, v->type)
                                               : anfi_value_new_tuple(v->cx, v->n);
    anfi_value_guard(t);
    for (size_t i = 0; i < v->n; i++) t->u.item[i] = copied_value(c, v->u.item[i]);
    anfi_value_unguard(t);
    return t;
  }
  const anfi_fn *f = anfi_value_fn(v);
  if (f->graph) reach(c, f->graph);
  anf_value *r = anfi_value_new_fn(v->cx, f->graph ? c->graph[f->graph->id] : NULL, f->op, f->attrs,
                                   f->ncapture, f->nbound);
  anfi_value_guard(r);
  for (uint32_t i = 0; i < f->ncapture + f->nbound; i++)
    anfi_value_fn(r)->at[i] = copied_value(c, f->at[i]);
  anfi_value_unguard(r);
  return r;
}

static anf_node *copied_constant(copying *c, anf_node *n) {
  const anfi_fn *f = n->u.value->kind == ANF_VALUE_FN ? anfi_value_fn(n->u.value) : NULL;
  if (f && f->graph && !f->nbound && !f->ncapture) {
    reach(c, f->graph);
    return anfi_graph_value(c->graph[f->graph->id]);
  }
  if (f && !f->graph && !f->nbound)
    return anfi_op_value_attrs(c->to, (anfi_opcode)f->op, f->attrs);
  anf_node *r = anfi_value(c->to, copied_value(c, n->u.value));
  r->type = n->type;
  return r;
}

static anf_node *copied(copying *c, anf_node *n) {
  if (!c->node[n->id] && n->kind == ANFI_VALUE) c->node[n->id] = copied_constant(c, n);
  return c->node[n->id];
}

static void copy_node(copying *c, anf_graph *g, anf_node *old) {
  anf_node **in = ANFI_NEW_N(c->scratch, anf_node *, old->nin + 1);
  for (uint32_t i = 0; i < old->nin; i++) in[i] = copied(c, old->in[i].def);
  anf_node *n = old->kind == ANFI_CALL
                    ? anfi_call(g, old->nin, in)
                    : anfi_apply(g, (anfi_opcode)old->op, old->u.attrs, old->nin, in);
  n->debug = old->debug;
  n->type = old->type;
  c->node[old->id] = n;
}

/* Everything is reached before a node is copied: the callees of what is reached. */
static void copy_headers(copying *c) {
  for (size_t i = 0; i < c->reached.n; i++) {
    anf_graph *old = c->reached.at[i], *g = c->graph[old->id];
    const anfi_graph_info *gi = &c->an->graphs[old->id];
    g->flags = old->flags;
    g->result_type = old->result_type;
    g->debug = old->debug;
    for (size_t k = 0; k < old->params.n; k++) {
      anf_node *p = old->params.at[k], *q = anfi_param(g, NULL, p->type);
      q->debug = p->debug;
      c->node[p->id] = q;
    }
    for (size_t k = 0; k < gi->callees.n; k++) reach(c, gi->callees.at[k]);
    if (gi->parent) reach(c, gi->parent);
  }
}

static void copy_body(copying *c, anf_graph *old) {
  anf_graph *g = c->graph[old->id];
  const anfi_graph_info *gi = &c->an->graphs[old->id];
  for (size_t i = 0; i < gi->order.n; i++) copy_node(c, g, gi->order.at[i]);
  for (size_t i = 0; i < old->effects.n; i++) anfi_add_effect(g, copied(c, old->effects.at[i]));
  if (old->result) anfi_set_result(g, copied(c, old->result));
}

/* Owners of captured nodes first: by walks down from graphs without a parent. */
static void copy_bodies(copying *c) {
  ANFI_VEC(anf_graph *) todo = {0};
  for (size_t i = 0; i < c->reached.n; i++)
    if (!c->an->graphs[c->reached.at[i]->id].parent)
      anfi_push(c->scratch, &todo, c->reached.at[i]);
  for (size_t i = 0; i < todo.n; i++) {
    const anfi_graph_info *gi = &c->an->graphs[todo.at[i]->id];
    for (size_t k = 0; k < gi->children.n; k++)
      if (c->graph[gi->children.at[k]->id]) anfi_push(c->scratch, &todo, gi->children.at[k]);
  }
  for (size_t i = 0; i < todo.n; i++) copy_body(c, todo.at[i]);
}

anf_module *anfi_module_copy(const anf_analysis *an, anf_graph *const *roots, size_t n,
                             anf_graph **copies) {
  anf_module *m = an->module;
  copying c = {.an = an, .from = m, .to = anfi_module_new(m->cx), .scratch = anfi_scratch(m->cx)};
  c.graph = ANFI_NEW_N(c.scratch, anf_graph *, m->graphs.n);
  c.node = ANFI_NEW_N(c.scratch, anf_node *, m->nodes.n);
  for (size_t i = 1; i < m->debugs.n; i++)
    anfi_push(&c.to->arena, &c.to->debugs, m->debugs.at[i]);
  for (size_t i = 0; i < n; i++) reach(&c, roots[i]);
  copy_headers(&c);
  copy_bodies(&c);
  for (size_t i = 0; i < n; i++) copies[i] = c.graph[roots[i]->id];
  return c.to;
}
