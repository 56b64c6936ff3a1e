// SPDX-License-Identifier: Apache-2.0
/* Edits of graphs that `anfora reduce` tries: a row each, with a way to enumerate places and one to edit.
 *   a call becomes its input or 0; an effect, a parameter goes; a constant is halved; calls are inlined
 * An edit need not preserve meaning: the reducer keeps it only if the program still fails. */
#include "reduce/reduce.h"

#include "anfora/opt.h"

typedef struct {
  anf_node *node; // or
  anf_graph *graph;
} place;

typedef struct {
  anf_module *m;
  anfi_arena *a;
  ANFI_VEC(place) at;
} places;

static void add_node(places *p, anf_node *n) { anfi_push(p->a, &p->at, ((place){.node = n})); }
static void add_graph(places *p, anf_graph *g) { anfi_push(p->a, &p->at, ((place){.graph = g})); }

/* ---- places ---- */

static void public_graphs(places *p) {
  for (size_t i = 0; i < p->m->graphs.n; i++) {
    anf_graph *g = p->m->graphs.at[i];
    if (g && !(g->flags & ANFI_GRAPH_PRIVATE)) add_graph(p, g);
  }
}

static void all_graphs(places *p) {
  for (size_t i = 0; i < p->m->graphs.n; i++)
    if (p->m->graphs.at[i] && p->m->graphs.at[i]->result) add_graph(p, p->m->graphs.at[i]);
}

/* From the result towards the parameters: a node that goes takes others with it. */
static void calls(places *p) {
  for (size_t i = p->m->nodes.n; i--;)
    if (p->m->nodes.at[i] && anfi_is_cnode(p->m->nodes.at[i])) add_node(p, p->m->nodes.at[i]);
}

static void effects(places *p) {
  for (size_t i = p->m->nodes.n; i--;)
    if (p->m->nodes.at[i] && (p->m->nodes.at[i]->flags & ANFI_NODE_EFFECT))
      add_node(p, p->m->nodes.at[i]);
}

static void used_params(places *p) {
  for (size_t i = 0; i < p->m->nodes.n; i++) {
    anf_node *n = p->m->nodes.at[i];
    if (n && n->kind == ANFI_PARAM && anfi_is_used(n)) add_node(p, n);
  }
}

static void constants(places *p) {
  for (size_t i = 0; i < p->m->nodes.n; i++) {
    anf_node *n = p->m->nodes.at[i];
    if (n && n->kind == ANFI_VALUE && n->u.value->kind != ANF_VALUE_FN && anfi_is_used(n))
      add_node(p, n);
  }
}

static bool only_called(const anf_graph *g) {
  for (const anfi_use *u = g->self ? g->self->uses : NULL; u; u = u->next)
    if (u->user->kind != ANFI_CALL || u != &u->user->in[0] || u->user->nin != g->params.n + 1)
      return false;
  return !g->self || !anfi_is_result(g->module, g->self);
}

static void idle_params(places *p) {
  for (size_t i = p->m->nodes.n; i--;) {
    anf_node *n = p->m->nodes.at[i];
    if (n && n->kind == ANFI_PARAM && !anfi_is_used(n) && only_called(n->graph)) add_node(p, n);
  }
}

static void whole(places *p) { anfi_push(p->a, &p->at, (place){0}); }

/* ---- changes ---- */

static anf_node *simple(anf_module *m, int which) {
  anf_value *v = which == 0   ? anfi_value_new_i64(m->cx, ANF_INT, 0)
                 : which == 1 ? anfi_value_new_f64(m->cx, ANF_FLOAT, 1.0)
                              : anfi_value_new_i64(m->cx, ANF_BOOL, 1);
  return anfi_value(m, v);
}

static void hide(places *p, place at, int v) {
  (void)v, (void)p;
  at.graph->flags |= ANFI_GRAPH_PRIVATE;
}

static void empty(places *p, place at, int v) {
  while (at.graph->effects.n) anfi_remove_effect(at.graph->effects.at[at.graph->effects.n - 1]);
  anfi_set_result(at.graph, simple(p->m, v));
}

static void to_simple(places *p, place at, int v) {
  if (anfi_is_cnode(at.node)) anfi_substitute(at.node, simple(p->m, v));
  else anfi_replace(at.node, simple(p->m, v));
}

static void to_input(places *p, place at, int v) {
  (void)p;
  if ((uint32_t)v < at.node->nin) anfi_substitute(at.node, at.node->in[v].def);
}

static void drop_effect(places *p, place at, int v) {
  (void)v, (void)p;
  anfi_remove_effect(at.node);
}

static void untype(places *p, place at, int v) {
  (void)v, (void)p;
  at.node->type = NULL;
}

static void untype_result(places *p, place at, int v) {
  (void)v, (void)p;
  at.graph->result_type = NULL;
}

static void halve(places *p, place at, int v) {
  int64_t i;
  (void)v;
  const anf_value *old = at.node->u.value;
  if (!anfi_value_is_int(old, &i) || !anfi_is_tensor(old->type)) return;
  anf_dtype d = (anf_dtype)old->type->dtype;
  if (d != ANF_BOOL)
    anfi_replace(at.node, anfi_value(p->m, anfi_value_new_i64(p->m->cx, d, i / 2)));
}

/* The calls lose the argument; those of the graph to itself too. */
static void drop_param(places *p, place at, int v) {
  anf_graph *g = at.node->graph;
  size_t gone = at.node->u.index;
  anfi_node_vec users = {0};
  (void)v;
  if (anfi_is_used(at.node) || !only_called(g)) return;
  for (const anfi_use *u = g->self ? g->self->uses : NULL; u; u = u->next)
    anfi_push(p->a, &users, u->user);
  for (size_t i = 0; i < users.n; i++) {
    anf_node *old = users.at[i], **in = ANFI_NEW_N(p->a, anf_node *, old->nin);
    size_t n = 0;
    for (uint32_t k = 0; k < old->nin; k++)
      if (k != gone + 1) in[n++] = old->in[k].def;
    anfi_substitute(old, anfi_call(old->graph, n, in));
  }
  anfi_remove_param(g, gone);
}

/* Small graphs into their callers; one that another uses need not be there for the host. */
static void inlined(places *p, place at, int v) {
  (void)at, (void)v;
  for (size_t i = 0; i < p->m->graphs.n; i++) {
    anf_graph *g = p->m->graphs.at[i];
    if (g && g->self && g->self->uses) g->flags |= ANFI_GRAPH_PRIVATE;
  }
  anfi_pass pass = {.m = p->m, .limit = UINT64_MAX};
  if (anfi_opt_lift(&pass)) anfi_opt_inline(&pass);
}

static const struct {
  void (*find)(places *);
  void (*change)(places *, place, int);
  int variant;
} kinds[] = {
    {public_graphs, hide, 0},    {effects, drop_effect, 0},      {all_graphs, empty, 0},
    {calls, to_simple, 0},       {calls, to_simple, 1},          {calls, to_simple, 2},
    {calls, to_input, 0},        {calls, to_input, 1},           {calls, to_input, 2},
    {calls, to_input, 3},        {used_params, to_simple, 0},    {used_params, to_simple, 1},
    {used_params, to_simple, 2}, {idle_params, drop_param, 0},   {whole, inlined, 0},
    {calls, untype, 0},          {all_graphs, untype_result, 0}, {constants, to_simple, 0},
    {constants, to_simple, 2},   {constants, halve, 0},
};
const uint32_t anfi_reduce_kinds = (uint32_t)ANFI_LEN(kinds);

size_t anfi_reduce_edit(anf_module *m, const anfi_edit *e) {
  places p = {.m = m, .a = anfi_scratch(m->cx)};
  kinds[e->kind].find(&p);
  for (size_t i = e->from; i < p.at.n && i - e->from < e->count; i++)
    if (p.at.at[i].graph || !p.at.at[i].node || p.at.at[i].node->kind != ANFI_DEAD)
      kinds[e->kind].change(&p, p.at.at[i], kinds[e->kind].variant);
  return p.at.n;
}
