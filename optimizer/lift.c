// SPDX-License-Identifier: Apache-2.0
/* Lambda lifting (Johnsson 1985): captured values become leading parameters, so every graph is closed.
 *   f(x): g(y) = x + y; return g(1)      ->  g(x, y) = x + y;  f(x) = g(x, 1)
 *   g used as a value, not called        ->  Partial(g, x)
 * A graph captures what the graphs that it refers to capture (ir/analysis.c), so a value captured two levels
 * down is passed through both. Linear in the module and its captures. */
#include "optimizer/opt.h"

typedef struct {
  anf_module *m;
  const anf_analysis *an;
  anfi_arena *scratch;
  anfi_map lifted; // (graph id, node id) -> the graph's parameter for that node
  anfi_map moved;  // node id -> the call that took its place
  anfi_map was;    // id of such a call -> the node that it was, which captures are known by
} lifting;

static uint64_t pair(const anf_graph *g, const anf_node *n) {
  return (uint64_t)g->id << 32 | n->id;
}

/* The captured node as graph g sees it. */
static anf_node *seen_from(const lifting *l, const anf_graph *g, anf_node *n) {
  const uint64_t *old = anfi_map_find(&l->was, n->id), *p = NULL;
  if (n->graph == g) p = anfi_map_find(&l->moved, n->id);
  else p = anfi_map_find(&l->lifted, pair(g, old ? (const anf_node *)(uintptr_t)*old : n));
  return p ? (anf_node *)(uintptr_t)*p : n;
}

static void add_params(lifting *l, anf_graph *g) {
  const anfi_graph_info *gi = &l->an->graphs[g->id];
  const anf_type **types = ANFI_NEW_N(l->scratch, const anf_type *, gi->free.n + 1);
  for (size_t i = 0; i < gi->free.n; i++) types[i] = gi->free.at[i]->type;
  anf_node **params = anfi_insert_params(g, 0, gi->free.n, types);
  for (size_t i = 0; i < gi->free.n; i++) {
    anf_node *n = gi->free.at[i], *p = params[i];
    p->debug = anfi_debug_derive(l->m, n->debug, "captured");
    l->m->debugs.at[p->debug].name = l->m->debugs.at[n->debug].name;
    *anfi_map_at(&l->lifted, pair(g, n)) = anfi_key(p);
  }
}

/* Appends the captures of k, as g sees them. */
static size_t captures(const lifting *l, const anf_graph *g, const anf_graph *k, anf_node **in) {
  const anfi_graph_info *ki = &l->an->graphs[k->id];
  for (size_t i = 0; i < ki->free.n; i++) in[i] = seen_from(l, g, ki->free.at[i]);
  return ki->free.n;
}

static size_t free_count(const lifting *l, const anf_node *n) {
  const anf_graph *k = anfi_value_graph(n);
  return k ? l->an->graphs[k->id].free.n : 0;
}

/* The graph of a function value, its captures as g sees them, and what the value binds, which comes after them:
 *   partial(k, 2.0), k captures x   ->   k, x, 2.0 */
static size_t code_and_bound(const lifting *l, const anf_graph *g, anf_node *value, anf_node **in) {
  anf_graph *k = anfi_value_graph(value);
  const anfi_fn *f = anfi_value_fn(value->u.value);
  in[0] = f->nbound ? anfi_graph_value(k) : value;
  size_t n = 1 + captures(l, g, k, in + 1);
  for (uint32_t i = 0; i < f->nbound; i++)
    in[n++] = anfi_value(l->m, anf_value_retain(f->at[f->ncapture + i]));
  return n;
}

static size_t most_bound(const lifting *l, const anf_node *value) {
  return 1 + free_count(l, value) + anfi_value_fn(value->u.value)->nbound;
}

static anf_node *make_partial(lifting *l, anf_graph *g, anf_node *value) {
  anf_node **in = ANFI_NEW_N(l->scratch, anf_node *, most_bound(l, value));
  size_t n = code_and_bound(l, g, value, in);
  return anfi_apply(g, ANF_OP_Partial, NULL, n, in);
}

/* An operand of a node of g: another graph's node becomes a parameter, a capturing graph a Partial.
 */
static void fix_operand(lifting *l, anf_node *n, uint32_t i) {
  anf_node *def = n->in[i].def;
  if (def->graph && def->graph != n->graph) anfi_set_input(n, i, seen_from(l, n->graph, def));
  else if (free_count(l, def)) anfi_set_input(n, i, make_partial(l, n->graph, def));
}

static void replace_call(lifting *l, anf_node *n) {
  anf_node **in = ANFI_NEW_N(l->scratch, anf_node *, n->nin + most_bound(l, n->in[0].def));
  size_t at = code_and_bound(l, n->graph, n->in[0].def, in);
  for (uint32_t i = 1; i < n->nin; i++) in[at++] = n->in[i].def;
  anf_node *call = anfi_call(n->graph, at, in);
  call->debug = n->debug;
  call->type = n->type;
  *anfi_map_at(&l->moved, n->id) = anfi_key(call);
  *anfi_map_at(&l->was, call->id) = anfi_key(n);
  anfi_substitute(n, call);
}

static void fix_node(lifting *l, anf_node *n) {
  bool direct = n->kind == ANFI_CALL && free_count(l, n->in[0].def);
  for (uint32_t i = direct ? 1 : 0; i < n->nin; i++) fix_operand(l, n, i);
  if (direct) replace_call(l, n);
}

static void fix_result(lifting *l, anf_graph *g) {
  anf_node *r = g->result;
  if (!r) return;
  if (r->graph && r->graph != g) anfi_set_result(g, seen_from(l, g, r));
  else if (free_count(l, r)) anfi_set_result(g, make_partial(l, g, r));
}

bool anfi_opt_lift(anfi_pass *p) {
  anf_module *m = p->m;
  anfi_clear_unneeded(m); // dead graphs are not lifted, so they must go first
  lifting l = {.m = m, .an = anfi_analyse(m), .scratch = anfi_scratch(m->cx)};
  anfi_map_init(&l.lifted, l.scratch);
  anfi_map_init(&l.moved, l.scratch);
  anfi_map_init(&l.was, l.scratch);
  size_t ngraph = m->graphs.n;
  for (size_t i = 0; i < ngraph; i++)
    if (m->graphs.at[i]) add_params(&l, m->graphs.at[i]);
  for (size_t i = 0; i < ngraph; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    const anfi_graph_info *gi = &l.an->graphs[i];
    for (size_t k = 0; k < gi->order.n; k++) fix_node(&l, gi->order.at[k]);
    fix_result(&l, g);
  }
  return true;
}
