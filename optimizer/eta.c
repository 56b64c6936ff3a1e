// SPDX-License-Identifier: Apache-2.0
/* Eta reduction: a graph that only passes its parameters on is the graph that it calls.
 *   def g(a, b) { f(a, b) }   Switch(c, g, h)(x, y)      ->  Switch(c, f, h)(x, y)
 * Specialisation makes such adapters of the branches of a Switch. What several of them call then stays one graph,
 * where `inline` would copy it into each; so a program that is written and read over and over keeps its size.
 *
 * Hard case: g calls f and f only calls g. Graphs that only go round stay as they are. */
#include "optimizer/opt.h"

/* The graph that g passes all its parameters on to, in order and as they are. */
static anf_graph *passed_on(const anf_graph *g) {
  const anf_node *call = g->result;
  if (!call || call->kind != ANFI_CALL || call->nin != g->params.n + 1) return NULL;
  anf_graph *f = anfi_value_graph(call->in[0].def);
  if (!f || !f->result || f->params.n != g->params.n || f->result->type != call->type) return NULL;
  if (g->effects.n > 1 || (g->effects.n == 1 && g->effects.at[0] != call)) return NULL;
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    if (call->in[i + 1].def != p || f->params.at[i]->type != p->type) return NULL;
  }
  return f;
}

/* Each graph's last one of g -> f -> .., by id; of those that lead into a ring: itself. */
static void find_last(anf_graph **last, anf_graph *g, anfi_arena *a) {
  ANFI_VEC(anf_graph *) path = {0};
  anf_graph *next = g;
  for (; next && !last[next->id]; next = passed_on(next)) {
    last[next->id] = next;
    anfi_push(a, &path, next);
  }
  bool ring = false;
  for (size_t i = 0; i < path.n && !ring; i++) ring = path.at[i] == next;
  if (!path.n || ring) return;
  anf_graph *end = next ? last[next->id] : path.at[path.n - 1];
  for (size_t i = 0; i < path.n; i++) last[path.at[i]->id] = end;
}

bool anfi_opt_eta(anfi_pass *p) {
  if (!anfi_has_calls(p->m)) return true;
  anfi_arena *a = anfi_scratch(p->m->cx);
  size_t n = p->m->graphs.n;
  anf_graph **last = ANFI_NEW_N(a, anf_graph *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (p->m->graphs.at[i]) find_last(last, p->m->graphs.at[i], a);
  for (size_t i = 0; i < n; i++) {
    anf_graph *g = p->m->graphs.at[i];
    if (!g || last[i] == g || !g->self || !g->self->uses || !anfi_rewrite(p)) continue;
    anfi_replace(g->self, last[i]->self);
  }
  return true;
}
