// SPDX-License-Identifier: Apache-2.0
/* Copies of a graph, with all that it refers to, in a module of its own: for those who rewrite a program whose owner
 * wants to keep it.
 *   m: f calls g, h        ->  m2: f2 calls g2         h, which f does not reach, is not copied
 * The copy borrows names, attributes and texts of the original, which must outlive it. Hard case: recursion. Graphs and
 * nodes are made when they are first met, and filled in later, from lists. */
#include "ir/ir.h"

typedef struct {
  const anf_analysis *an;
  anf_module *to;
  uint32_t debug; // added to the numbers of names and locations
  bool whole;     // `to` has copies alone, and says of which graphs
  anfi_arena *scratch;
  /* by old id */
  anf_graph **graph; // NULL: not reached
  anf_node **node;
  /* the worklist */
  ANFI_VEC(anf_graph *) reached;
  ANFI_VEC(anf_node *) unlinked; // old nodes
  size_t bodies, links;          // of `reached` and `unlinked`, those that are done
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

static void reach(copying *c, anf_graph *g);

static uint32_t debug_of(const copying *c, uint32_t old) { return old ? old + c->debug : 0; }

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
  if (f && !f->graph && !f->nbound) return anfi_op_value_attrs(c->to, (anfi_opcode)f->op, f->attrs);
  anf_node *r = anfi_value(c->to, copied_value(c, n->u.value));
  r->type = n->type;
  return r;
}

/* Without its inputs, which are linked later: a captured node may be met before its turn. */
static anf_node *copied(copying *c, anf_node *n) {
  anf_node **at = &c->node[n->id];
  if (*at) return *at;
  if (n->kind == ANFI_VALUE) return *at = copied_constant(c, n);
  reach(c, n->graph);
  *at = anfi_node_blank(c->to, (anfi_kind)n->kind, c->graph[n->graph->id], n->nin);
  (*at)->op = n->op;
  (*at)->u = n->u;
  (*at)->debug = debug_of(c, n->debug);
  (*at)->type = n->type;
  anfi_push(c->scratch, &c->unlinked, n);
  return *at;
}

static void copy_header(copying *c, anf_graph *old) {
  anf_graph *g = c->graph[old->id];
  g->flags = old->flags;
  g->result_type = old->result_type;
  g->debug = debug_of(c, old->debug);
  for (size_t k = 0; k < old->params.n; k++) {
    anf_node *p = old->params.at[k], *q = anfi_param(g, NULL, p->type);
    q->debug = debug_of(c, p->debug);
    c->node[p->id] = q;
  }
}

static void reach(copying *c, anf_graph *g) {
  if (c->graph[g->id]) return;
  c->graph[g->id] = anfi_graph_new(c->to, g->name);
  copy_header(c, g);
  if (c->whole) anfi_push(&c->to->arena, &c->to->origin, g);
  anfi_push(c->scratch, &c->reached, g);
}

static void copy_body(copying *c, anf_graph *old) {
  anf_graph *g = c->graph[old->id];
  const anfi_graph_info *gi = &c->an->graphs[old->id];
  for (size_t k = 0; k < gi->order.n; k++) copied(c, gi->order.at[k]);
  for (size_t i = 0; i < old->effects.n; i++) anfi_add_effect(g, copied(c, old->effects.at[i]));
  if (old->result) anfi_set_result(g, copied(c, old->result));
}

static void copy_all(copying *c) {
  while (c->bodies < c->reached.n || c->links < c->unlinked.n) {
    if (c->links == c->unlinked.n) {
      copy_body(c, c->reached.at[c->bodies++]);
      continue;
    }
    anf_node *old = c->unlinked.at[c->links++];
    for (uint32_t i = 0; i < old->nin; i++)
      anfi_set_input(c->node[old->id], i, copied(c, old->in[i].def));
  }
}

static void start(copying *c, const anf_analysis *an, anf_module *to, anfi_arena *scratch) {
  anf_module *m = an->module;
  *c = (copying){.an = an, .to = to, .scratch = scratch, .debug = (uint32_t)to->debugs.n - 1};
  c->graph = ANFI_NEW_N(scratch, anf_graph *, m->graphs.n);
  c->node = ANFI_NEW_N(scratch, anf_node *, m->nodes.n);
  for (size_t i = 1; i < m->debugs.n; i++) anfi_push(&to->arena, &to->debugs, m->debugs.at[i]);
}

anf_module *anfi_module_copy(const anf_analysis *an, anf_graph *const *roots, size_t n,
                             anf_graph **copies) {
  anf_ctx *cx = an->module->cx;
  copying c;
  start(&c, an, anfi_module_new(cx), anfi_scratch(cx));
  c.whole = true;
  for (size_t i = 0; i < n; i++) reach(&c, roots[i]);
  copy_all(&c);
  for (size_t i = 0; i < n; i++) copies[i] = c.graph[roots[i]->id];
  return c.to;
}

anf_graph *anfi_module_origin(const anf_module *copy, size_t i) {
  return i < copy->origin.n ? copy->origin.at[i] : NULL;
}

/* ---- graphs of one module in another ---- */

struct anfi_merge {
  copying c;
};

anfi_merge *anfi_merge_new(anf_module *to, anf_module *from) {
  anfi_arena *scratch = anfi_scratch(to->cx);
  anfi_merge *g = ANFI_NEW(scratch, anfi_merge);
  start(&g->c, anfi_analyse(from), to, scratch);
  return g;
}

anf_graph *anfi_merge_graph(anfi_merge *g, anf_graph *of) {
  reach(&g->c, of);
  copy_all(&g->c);
  return g->c.graph[of->id];
}
