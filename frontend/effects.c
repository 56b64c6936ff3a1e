// SPDX-License-Identifier: Apache-2.0
/* Which calls have effects, and their order.
 *   f(x): print(x)           g(x): f(x); f(x)       ->   effects of f: Print;  of g: both calls of f, in order
 * A graph has effects if it holds an op that has, or calls a graph that may have. Hard case: what a computed function may
 * do is not known: its call has effects if any function that has is used as a value in the module. Programs without
 * effectful ops pay one look at each node. Calls that are listed already, as a text marks them, stay listed. Linear: a graph
 * is marked once, and its callers are then visited once. */
#include "frontend/load.h"

typedef ANFI_VEC(anf_node *) nodes;

typedef struct {
  anf_module *m;
  anfi_arena *a;
  bool *marked;     // by graph id
  nodes *calls;     // by graph id: nodes that run the graph
  nodes unknown;    // calls of unknown functions
  bool *escapes;    // by graph id: used as a value beyond a choice that is called at once
  bool any_escaped; // a graph with effects, or an op, is used as a value
  ANFI_VEC(anf_graph *) work;
} effects;

static bool is_effect_op(uint16_t op) {
  return op < ANF_OP_COUNT && (anfi_op[op].flags & ANFI_EFFECT);
}

static void mark(effects *q, anf_graph *g) {
  if (q->marked[g->id]) return;
  q->marked[g->id] = true;
  anfi_push(q->a, &q->work, g);
}

static void mark_unknown(effects *q) {
  if (q->any_escaped) return;
  q->any_escaped = true;
  for (size_t i = 0; i < q->unknown.n; i++) mark(q, q->unknown.at[i]->graph);
}

/* A graph as a callee: it runs when `user` runs. */
static bool add_callee(effects *q, const anf_node *f, anf_node *user) {
  if (f->kind != ANFI_VALUE) return false;
  anf_graph *g = anfi_value_graph(f);
  if (g) anfi_push(q->a, &q->calls[g->id], user);
  return g || !is_effect_op(f->op);
}

static bool is_choice(const anf_node *n) {
  return (anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer)) && n->nin > 1;
}

static void add_call(effects *q, anf_node *n) {
  const anf_node *f = n->in[0].def;
  bool known = true;
  if (!is_choice(f)) known = add_callee(q, f, n);
  for (uint32_t i = 1; is_choice(f) && i < f->nin; i++) known &= add_callee(q, f->in[i].def, n);
  if (!known) anfi_push(q->a, &q->unknown, n);
}

/* Is the choice only called, never stored? */
static bool only_called(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (u->user->kind != ANFI_CALL || u != &u->user->in[0]) return false;
  return n->graph->result != n;
}

static void add_values(effects *q, anf_node *n) {
  bool choice = is_choice(n) && only_called(n);
  for (uint32_t i = n->kind == ANFI_CALL ? 1 : 0; i < n->nin; i++) {
    const anf_node *d = n->in[i].def;
    if (d->kind != ANFI_VALUE || choice) continue;
    anf_graph *g = anfi_value_graph(d);
    if (g) q->escapes[g->id] = true;
    if (is_effect_op(d->op)) mark_unknown(q);
  }
}

static void look(effects *q, anf_node *n) {
  if (n->kind == ANFI_CALL) add_call(q, n);
  if (anfi_is_cnode(n)) add_values(q, n);
  if (n->kind == ANFI_APPLY && !is_effect_op(n->op) && (anfi_op_of(n)->flags & ANFI_CALLS)) {
    bool known = true; // it calls functions among its arguments
    for (uint32_t i = 0; i < n->nin; i++)
      known &= add_callee(q, n->in[i].def, n) || n->in[i].def->kind == ANFI_VALUE;
    if (!known) anfi_push(q->a, &q->unknown, n);
  }
}

/* An op that has effects, or a call that is listed. */
static bool is_effect(const anf_node *n) {
  return n->graph &&
         ((n->kind == ANFI_APPLY && is_effect_op(n->op)) || n->flags & ANFI_NODE_EFFECT);
}

static bool any_effect(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && (is_effect_op(n->op) || n->flags & ANFI_NODE_EFFECT)) return true;
  }
  return false;
}

static void spread(effects *q) {
  while (q->work.n) {
    anf_graph *g = q->work.at[--q->work.n];
    if (q->escapes[g->id]) mark_unknown(q);
    for (size_t i = 0; i < q->calls[g->id].n; i++) mark(q, q->calls[g->id].at[i]->graph);
  }
}

/* By ids, which are the order of the text. */
static void add_all(effects *q) {
  bool *has = ANFI_NEW_N(q->a, bool, q->m->nodes.n);
  for (size_t i = 0; i < q->m->graphs.n; i++)
    if (q->m->graphs.at[i]) q->m->graphs.at[i]->effects.n = 0;
  for (size_t i = 0; i < q->m->graphs.n; i++)
    for (size_t k = 0; q->m->graphs.at[i] && q->marked[i] && k < q->calls[i].n; k++)
      has[q->calls[i].at[k]->id] = true;
  for (size_t i = 0; q->any_escaped && i < q->unknown.n; i++) has[q->unknown.at[i]->id] = true;
  for (size_t i = 0; i < q->m->nodes.n; i++) {
    anf_node *n = q->m->nodes.at[i];
    if (!n || !n->graph || !(has[i] || is_effect(n))) continue;
    n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
    anfi_add_effect(n->graph, n);
  }
}

void anfi_find_effects(anf_module *m, anfi_arena *a) {
  if (!any_effect(m)) return;
  effects q = {.m = m, .a = a};
  q.marked = ANFI_NEW_N(a, bool, m->graphs.n);
  q.escapes = ANFI_NEW_N(a, bool, m->graphs.n);
  q.calls = ANFI_NEW_N(a, nodes, m->graphs.n);
  size_t n = m->nodes.n;
  for (size_t i = 0; i < n; i++)
    if (m->nodes.at[i]) look(&q, m->nodes.at[i]);
  for (size_t i = 0; i < m->graphs.n; i++) { // a function that is returned
    const anf_graph *r = m->graphs.at[i] && m->graphs.at[i]->result
                             ? anfi_value_graph(m->graphs.at[i]->result)
                             : NULL;
    if (r) q.escapes[r->id] = true;
  }
  for (size_t i = 0; i < n; i++)
    if (m->nodes.at[i] && is_effect(m->nodes.at[i])) mark(&q, m->nodes.at[i]->graph);
  spread(&q);
  add_all(&q);
}
