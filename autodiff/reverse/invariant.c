// SPDX-License-Identifier: Apache-2.0
/* Recursion invariants: parameters that a recursion passes on unchanged.
 *   pow(x, n) = n == 0 ? 1 : x * pow(x, n - 1)      x is invariant, n is not
 * Only invariants may be constants of a spec (j.h): otherwise the recursion would be differentiated
 * twice, as it is called from outside and as it calls itself. Recursions are the strongly connected
 * components of the graphs that name each other (Tarjan 1972, with an explicit stack); in each component a
 * greatest fixpoint drops parameters that some call changes. Each graph is visited once. */
#include "autodiff/reverse/j.h"

typedef struct {
  anf_graph *g;
  size_t node, input; // the next to visit
} visit;

typedef struct {
  anfi_j *j;
  ANFI_VEC(visit) visits;
  ANFI_VEC(anf_graph *) open; // of components that are not complete
  uint32_t count;
} walk;

static anfi_jrecursion *of(const walk *w, const anf_graph *g) { return &w->j->recursion.at[g->id]; }

static void enter(walk *w, anf_graph *g) {
  anfi_jrecursion none = {0};
  while (w->j->recursion.n <= g->id) anfi_push(w->j->a, &w->j->recursion, none);
  of(w, g)->seen = of(w, g)->low = ++w->count;
  of(w, g)->open = true;
  anfi_push(w->j->a, &w->open, g);
  anfi_push(w->j->a, &w->visits, ((visit){g, 0, 0}));
}

static bool is_seen(const walk *w, const anf_graph *g) {
  return g->id < w->j->recursion.n && of(w, g)->seen;
}

static bool is_in(const walk *w, const anf_graph *g, uint32_t component) {
  return g && is_seen(w, g) && of(w, g)->component == component;
}

/* ---- one component ---- */

static bool drop(walk *w, const anf_graph *t, size_t k) {
  bool was = of(w, t)->param[k];
  of(w, t)->param[k] = false;
  return was;
}

/* A call n in h passes inputs from `from` on to the first `count` parameters of t. */
static bool flow(walk *w, const anf_graph *h, const anf_node *n, size_t from, const anf_graph *t,
                 size_t count) {
  bool changed = false;
  for (size_t k = 0; k < t->params.n; k++) {
    const anf_node *x = k < count ? n->in[from + k].def : NULL;
    bool same = x && x->kind == ANFI_PARAM && x->graph == h && of(w, h)->param[x->u.index];
    if (!same) changed |= drop(w, t, k);
  }
  return changed;
}

static bool flow_node(walk *w, const anf_graph *h, const anf_node *n, uint32_t component) {
  bool changed = false, loop = anfi_is_op(n, ANF_OP_Loop), called = n->kind == ANFI_CALL;
  if (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) return false; // as it is called
  const anf_node *f = called ? n->in[0].def : NULL;
  for (uint32_t i = 1; f && f->kind == ANFI_APPLY && i < f->nin; i++) {
    const anf_graph *t = anfi_value_graph(f->in[i].def);
    if (is_in(w, t, component)) changed |= flow(w, h, n, 1, t, n->nin - 1u);
  }
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_graph *t = anfi_value_graph(n->in[i].def);
    if (!is_in(w, t, component)) continue;
    size_t from = loop ? anfi_loop_parts(n).first_w : 1, count = called ? n->nin - 1u : 0;
    if (loop) count = anfi_loop_parts(n).nw;
    changed |= flow(w, h, n, from, t, i ? 0 : count);
  }
  return changed;
}

/* The last of `open` from `first` on are a component. */
static void complete(walk *w, size_t first, bool recursive) {
  uint32_t component = of(w, w->open.at[first])->seen;
  for (size_t i = first; i < w->open.n; i++) {
    anfi_jrecursion *s = of(w, w->open.at[i]);
    s->open = false;
    s->component = component;
    if (!recursive) continue;
    s->param = ANFI_NEW_N(w->j->a, bool, w->open.at[i]->params.n + 1);
    memset(s->param, true, w->open.at[i]->params.n);
  }
  for (bool changed = recursive; changed;) {
    changed = false;
    for (size_t i = first; i < w->open.n; i++) {
      const anfi_node_vec *order = &anfi_jgraph_of(w->j, w->open.at[i])->order;
      for (size_t k = 0; k < order->n; k++)
        changed |= flow_node(w, w->open.at[i], order->at[k], component);
    }
  }
  w->open.n = first;
}

/* ---- all that a graph reaches ---- */

/* The next graph that the graph on top names, or NULL. */
static anf_graph *next_named(walk *w) {
  visit *v = &w->visits.at[w->visits.n - 1];
  const anfi_jgraph *jg = anfi_jgraph_of(w->j, v->g);
  const anfi_node_vec *order = &jg->order;
  for (; v->node < order->n; v->node++, v->input = 0)
    while (!jg->taped[v->node] && v->input < order->at[v->node]->nin) {
      anf_graph *t = anfi_value_graph(order->at[v->node]->in[v->input++].def);
      if (t && t->result) return t;
    }
  return NULL;
}

static void leave(walk *w) {
  const anf_graph *g = w->visits.at[--w->visits.n].g;
  anfi_jrecursion *s = of(w, g);
  if (w->visits.n) {
    anfi_jrecursion *up = of(w, w->visits.at[w->visits.n - 1].g);
    if (s->low < up->low) up->low = s->low;
  }
  if (s->low != s->seen) return;
  size_t first = w->open.n;
  while (w->open.at[--first] != g) continue;
  complete(w, first, first + 1 < w->open.n || s->names_itself);
}

bool anfi_same_recursion(const anfi_j *j, const anf_graph *a, const anf_graph *b) {
  return j->recursion.at[a->id].component == j->recursion.at[b->id].component;
}

const bool *anfi_recursion_invariants(anfi_j *j, anf_graph *g) {
  walk w = {.j = j, .count = j->nvisited};
  if (!is_seen(&w, g)) enter(&w, g);
  while (w.visits.n) {
    anf_graph *at = w.visits.at[w.visits.n - 1].g, *t = next_named(&w);
    if (!t) leave(&w);
    else if (!is_seen(&w, t)) enter(&w, t);
    else if (of(&w, t)->open && of(&w, t)->seen < of(&w, at)->low)
      of(&w, at)->low = of(&w, t)->seen;
    if (t == at) of(&w, at)->names_itself = true;
  }
  j->nvisited = w.count;
  return j->recursion.at[g->id].param;
}
