// SPDX-License-Identifier: Apache-2.0
/* Graphs first, as nodes may call any of them, then their parameters, then nodes after what they need, by a list of those
 * that wait: nodes of a graph may be captured by another. */
#include "rebuild.h"

#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  anf_module *from, *to;
  anf_graph **graph; // by id in `from`
  anf_node **node;   // likewise
  const anf_node **wait;
  size_t nwait, room;
} builder;

static void *zeros(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

static void wait_for(builder *b, const anf_node *n) {
  if (b->node[n->id]) return;
  if (b->nwait == b->room) {
    b->room = 2 * b->room + 64;
    b->wait = (const anf_node **)realloc((void *)b->wait, b->room * sizeof *b->wait);
    if (!b->wait) abort();
  }
  b->wait[b->nwait++] = n;
}

static anf_node *build_constant(builder *b, const anf_node *n) {
  const anfi_fn *f = n->u.value->kind == ANF_VALUE_FN ? anfi_value_fn(n->u.value) : NULL;
  if (f && f->graph) return anf_graph_node(b->graph[f->graph->id]);
  if (f && !f->attrs && !f->nbound) return anf_op_node(b->to, anfi_op[f->op].name);
  return anf_constant(b->to, n->u.value);
}

/* Attributes that differ from their defaults; those that nodes give are the inputs from `next` on. */
static size_t list_attrs(builder *b, const anf_node *n, size_t next, anf_attr *to) {
  const anfi_attrs *at = n->u.attrs;
  const anfi_schema *s = anfi_op_schema(anf_module_ctx(b->to), (anfi_opcode)n->op);
  size_t count = 0;
  for (uint32_t k = 0; at && k < at->n; k++) {
    if (!at->at[k]) continue;
    bool by_node = at->at[k] == &anfi_from_node;
    to[count++] = (anf_attr){.name = s->attr[k].name->s,
                             .value = by_node ? NULL : at->at[k],
                             .node = by_node ? b->node[n->in[next].def->id] : NULL};
    next += by_node;
  }
  return count;
}

static anf_node *build_call(builder *b, const anf_node *n) {
  anf_graph *g = b->graph[n->graph->id];
  anf_node **in = (anf_node **)zeros(n->nin, sizeof *in), *made;
  anf_attr *attr = (anf_attr *)zeros(n->u.attrs ? n->u.attrs->n : 0, sizeof *attr);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = b->node[n->in[i].def->id];
  if (n->kind == ANFI_CALL) made = anf_call(g, in[0], n->nin - 1, in + 1);
  else {
    size_t args = anfi_arg_count(n), nattr = list_attrs(b, n, args, attr);
    made = anf_op_attrs(g, anfi_op_of(n)->name, args, in, nattr, attr);
  }
  free(in);
  free(attr);
  return made;
}

static void describe(anf_node *to, const anf_node *from) {
  anf_node_set_loc(to, anf_node_file(from), anf_node_line(from), anf_node_col(from));
  anf_node_set_name(to, anf_node_name(from));
  anf_node_set_type(to, anf_node_type(from));
}

static void build_node(builder *b, const anf_node *first) {
  wait_for(b, first);
  while (b->nwait && anf_module_status(b->to) == ANF_OK) {
    const anf_node *n = b->wait[b->nwait - 1];
    size_t before = b->nwait;
    for (uint32_t i = n->nin; i-- > 0;) wait_for(b, n->in[i].def);
    if (b->nwait > before) continue;
    b->nwait--;
    if (b->node[n->id]) continue;
    b->node[n->id] = n->kind == ANFI_VALUE ? build_constant(b, n) : build_call(b, n);
    if (n->kind != ANFI_VALUE && b->node[n->id]) describe(b->node[n->id], n);
  }
}

static void build_params(builder *b, const anf_graph *g) {
  const anfi_debug *at = &b->from->debugs.at[g->debug];
  if (at->file) anf_graph_set_loc(b->graph[g->id], at->file->s, at->line, at->col);
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    b->node[p->id] = anf_param(b->graph[g->id], anf_node_name(p), anf_node_type(p));
    if (b->node[p->id]) describe(b->node[p->id], p);
  }
}

static void build_result(builder *b, const anf_graph *g) {
  anf_graph *to = b->graph[g->id];
  for (size_t i = 0; i < g->effects.n; i++) anf_effect(to, b->node[g->effects.at[i]->id]);
  if (g->result_type) anf_graph_set_result_type(to, g->result_type);
  if (g->result) anf_return(to, b->node[g->result->id]);
}

anf_module *rebuild(anf_module *from) {
  builder b = {.from = from, .to = anf_module_new(from->cx)};
  if (!b.to) abort();
  b.graph = (anf_graph **)zeros(from->graphs.n, sizeof *b.graph);
  b.node = (anf_node **)zeros(from->nodes.n, sizeof *b.node);
  for (size_t i = 0; i < from->graphs.n; i++)
    if (from->graphs.at[i]) b.graph[i] = anf_graph_new(b.to, anf_graph_name(from->graphs.at[i]));
  for (size_t i = 0; i < from->graphs.n; i++)
    if (from->graphs.at[i]) build_params(&b, from->graphs.at[i]);
  for (size_t i = 0; i < from->nodes.n && anf_module_status(b.to) == ANF_OK; i++)
    if (from->nodes.at[i]) build_node(&b, from->nodes.at[i]);
  for (size_t i = 0; i < from->graphs.n && anf_module_status(b.to) == ANF_OK; i++)
    if (from->graphs.at[i]) build_result(&b, from->graphs.at[i]);
  free(b.graph);
  free(b.node);
  free((void *)b.wait);
  return b.to;
}
