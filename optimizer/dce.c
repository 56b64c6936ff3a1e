// SPDX-License-Identifier: Apache-2.0
/* Dead code: what the public graphs need is found from their results and effects; a graph is needed
 * when a needed node refers to it. Other nodes and private graphs go. (The analysis of a module
 * would not do: it takes every graph that is there as needed.)
 * Nodes are looked at from the last made to the first, in the order of memory: a mark mostly falls on
 * one that is still to come; one that was passed already goes on a list. When the list gets long (an
 * old node uses much that is new), a sweep goes over the newer ones again. */
#include "optimizer/opt.h"

enum { NEEDED = 1, LOOKED_AT };
enum { LONG = 64, SWEEPS = 8 };

typedef struct {
  anfi_arena *a;
  bool *graph;   // by id: needed
  uint8_t *node; // likewise; or looked at, too
  size_t at;     // nodes from here on were passed
  int sweeps;    // over these
  anfi_node_vec todo;
  ANFI_VEC(const anf_graph *) graphs; // needed, not looked at yet
} walk;

static void need_graph(walk *w, const anf_graph *g) {
  if (w->graph[g->id]) return;
  w->graph[g->id] = true;
  anfi_push(w->a, &w->graphs, g);
}

static inline void need(walk *w, anf_node *n) {
  if (n->kind == ANFI_VALUE) {
    const anf_graph *g = anfi_value_graph(n);
    if (g) need_graph(w, g);
    return;
  }
  if (w->node[n->id]) return;
  w->node[n->id] = NEEDED;
  if (n->id >= w->at) anfi_push(w->a, &w->todo, n);
}

static void look_at(walk *w, const anf_node *n) {
  if (w->node[n->id] == LOOKED_AT) return;
  w->node[n->id] = LOOKED_AT;
  for (uint32_t i = 0; i < n->nin; i++) need(w, n->in[i].def);
}

/* Those before number `from` and behind the one that has its turn. */
static void sweep(walk *w, const anf_module *m, size_t from) {
  size_t now = w->at;
  for (w->at = from; w->at-- > now;) {
    anfi_fetch(m, w->at - 8, w->at - 24);
    if (w->node[w->at] == NEEDED) look_at(w, m->nodes.at[w->at]);
  }
  w->at = now;
}

static void sweep_again(walk *w, const anf_module *m) {
  size_t from = 0;
  for (size_t i = 0; i < w->todo.n; i++)
    if (w->todo.at[i]->id >= from) from = w->todo.at[i]->id + (size_t)1;
  w->todo.n = 0;
  w->sweeps++;
  sweep(w, m, from);
}

static void catch_up(walk *w, const anf_module *m) {
  while (w->todo.n || w->graphs.n) {
    if (w->todo.n > LONG && w->sweeps < SWEEPS) {
      sweep_again(w, m);
      continue;
    }
    if (w->todo.n) {
      look_at(w, w->todo.at[--w->todo.n]);
      continue;
    }
    const anf_graph *g = w->graphs.at[--w->graphs.n];
    for (size_t i = 0; i < g->effects.n; i++) need(w, g->effects.at[i]);
    if (g->result) need(w, g->result);
  }
}

static void mark_needed(walk *w, const anf_module *m) {
  w->at = m->nodes.n;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE))
      need_graph(w, m->graphs.at[i]);
  catch_up(w, m);
  while (w->at-- > 0) {
    anfi_fetch(m, w->at - 8, w->at - 24);
    if (w->node[w->at] != NEEDED) continue;
    look_at(w, m->nodes.at[w->at]);
    if (w->todo.n || w->graphs.n) catch_up(w, m);
  }
}

static void remove_graph(anf_graph *g) {
  while (g->effects.n) anfi_remove_effect(g->effects.at[g->effects.n - 1]);
  anfi_graph_remove(g);
}

/* What a bisection's limit keeps of graphs keeps their nodes too. */
static void remove_rest(anfi_pass *p, const walk *w) {
  anf_module *m = p->m;
  if (p->rewrites >= p->limit) return;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !w->graph[i]) {
      remove_graph(m->graphs.at[i]);
      p->rewrites++;
    }
  for (size_t i = 0; i < m->nodes.n; i++) {
    if (w->node[i]) continue;
    anf_node *n = m->nodes.at[i];
    if (!n || (n->kind != ANFI_APPLY && n->kind != ANFI_CALL)) continue;
    anfi_delete(n);
    p->rewrites++;
  }
}

/* An assertion of what is known to hold has no effect. */
static bool holds(const anf_node *n) {
  if (n->kind != ANFI_APPLY || n->op != ANF_OP_Assert) return false;
  const anf_value *v = n->in[0].def->kind == ANFI_VALUE ? n->in[0].def->u.value : NULL;
  return v && v->kind == ANF_VALUE_TENSOR && anfi_is_scalar(v->type) && anfi_get_f64(v, 0) != 0;
}

static void drop_held(anfi_pass *p, anf_graph *g) {
  size_t k = 0;
  for (size_t i = 0; i < g->effects.n; i++) {
    anf_node *n = g->effects.at[i];
    bool gone = p->rewrites < p->limit && holds(n);
    p->rewrites += gone;
    if (gone) n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
    else g->effects.at[k++] = n;
  }
  g->effects.n = k;
}

bool anfi_opt_dce(anfi_pass *p) {
  anf_module *m = p->m;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) drop_held(p, m->graphs.at[i]);
  walk w = {.a = anfi_scratch(m->cx)};
  w.graph = ANFI_NEW_N(w.a, bool, m->graphs.n);
  w.node = ANFI_NEW_N(w.a, uint8_t, m->nodes.n);
  mark_needed(&w, m);
  remove_rest(p, &w);
  return true;
}

bool anfi_clear_dead(anf_module *m) {
  return anfi_opt_dce(&(anfi_pass){.m = m, .limit = UINT64_MAX});
}
