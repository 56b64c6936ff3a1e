// SPDX-License-Identifier: Apache-2.0
/* Copies of a graph with the graphs nested in it.
 *   f(x): g(y) = x + y; g(1)        ->  f2(x2): g2(y2) = x2 + y2; g2(1)
 * Graphs are made first, so that references to them and recursion find the copies; then nodes in evaluation order,
 * parents before children, so that every input is there already. */
#include "ir/ir.h"

typedef struct {
  const anf_analysis *an;
  anf_module *m;
  anfi_arena *scratch;
  anfi_map *nodes;            // old id -> new node
  anfi_map graphs;            // old id -> new graph
  ANFI_VEC(anf_graph *) todo; // old graphs, parents first
} cloning;

static anf_node *new_of(const cloning *c, anf_node *old) {
  const uint64_t *at = anfi_map_find(c->nodes, old->id);
  if (at) return (anf_node *)(uintptr_t)*at;
  anf_graph *g = anfi_value_graph(old);
  const uint64_t *copy = g ? anfi_map_find(&c->graphs, g->id) : NULL;
  return copy ? anfi_graph_value((anf_graph *)(uintptr_t)*copy)
              : old; // a constant or a capture from outside
}

static void copy_header(cloning *c, anf_graph *old) {
  anf_graph *g = anfi_graph_new(c->m, old->name);
  g->flags = old->flags;
  g->result_type = old->result_type;
  g->debug = old->debug;
  *anfi_map_at(&c->graphs, old->id) = anfi_key(g);
  for (size_t i = 0; i < old->params.n; i++) {
    anf_node *p = old->params.at[i];
    if (anfi_map_find(c->nodes, p->id)) continue;
    anf_node *q = anfi_param(g, NULL, p->type);
    q->debug = p->debug;
    *anfi_map_at(c->nodes, p->id) = anfi_key(q);
  }
}

static void copy_node(cloning *c, anf_graph *to, anf_node *old) {
  anf_node **in = ANFI_NEW_N(c->scratch, anf_node *, old->nin);
  for (uint32_t i = 0; i < old->nin; i++) in[i] = new_of(c, old->in[i].def);
  anf_node *n = old->kind == ANFI_CALL
                    ? anfi_call(to, old->nin, in)
                    : anfi_apply(to, (anfi_opcode)old->op, old->u.attrs, old->nin, in);
  n->debug = old->debug;
  n->type = old->type;
  *anfi_map_at(c->nodes, old->id) = anfi_key(n);
}

static void copy_body(cloning *c, anf_graph *old) {
  anf_graph *g = (anf_graph *)(uintptr_t)*anfi_map_find(&c->graphs, old->id);
  const anfi_graph_info *gi = &c->an->graphs[old->id];
  for (size_t i = 0; i < gi->order.n; i++) copy_node(c, g, gi->order.at[i]);
  for (size_t i = 0; i < old->effects.n; i++) anfi_add_effect(g, new_of(c, old->effects.at[i]));
  if (old->result) anfi_set_result(g, new_of(c, old->result));
}

anf_graph *anfi_clone(const anf_analysis *an, anf_graph *g, anfi_map *nodes) {
  cloning c = {.an = an, .m = g->module, .scratch = anfi_scratch(g->module->cx), .nodes = nodes};
  anfi_map_init(&c.graphs, c.scratch);
  anfi_push(c.scratch, &c.todo, g);
  for (size_t i = 0; i < c.todo.n; i++) {
    const anfi_graph_info *gi = &an->graphs[c.todo.at[i]->id];
    for (size_t k = 0; k < gi->children.n; k++) anfi_push(c.scratch, &c.todo, gi->children.at[k]);
  }
  for (size_t i = 0; i < c.todo.n; i++) copy_header(&c, c.todo.at[i]);
  for (size_t i = 0; i < c.todo.n; i++) copy_body(&c, c.todo.at[i]);
  return (anf_graph *)(uintptr_t)*anfi_map_find(&c.graphs, g->id);
}

static anf_graph *clone_alone(anf_graph *g) {
  anfi_map nodes;
  anfi_map_init(&nodes, anfi_scratch(g->module->cx));
  return anfi_clone(anfi_analyse(g->module), g, &nodes);
}

anf_graph *anf_graph_clone(anf_graph *g) {
  if (!g) return NULL;
  anf_module *m = g->module;
  if (m->status != ANF_OK) return NULL;
  ANFI_ENTRY_ELSE(m->cx, m->diag, (m->status = ANF_NOMEM, (anf_graph *)NULL));
  anf_graph *copy = clone_alone(g);
  return anfi_leave(m->cx) == ANF_OK ? copy : NULL;
}
