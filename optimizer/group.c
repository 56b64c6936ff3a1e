// SPDX-License-Identifier: Apache-2.0
/* Call groups by union-find (group.h):
 *   Switch(c, f, g)(x)        f and g are one group: the call fixes one signature for both
 *   h() returns f(x)          h and f are one result class: the call stays in tail position
 * One sweep over uses; almost linear. */
#include "optimizer/group.h"

typedef struct {
  uint32_t *up;
} forest;

static uint32_t find(forest *f, uint32_t i) {
  while (f->up[i] != i) i = f->up[i] = f->up[f->up[i]];
  return i;
}
static void join(forest *f, uint32_t a, uint32_t b) { f->up[find(f, a)] = find(f, b); }

static forest new_forest(anfi_arena *a, size_t n) {
  forest f = {ANFI_NEW_N(a, uint32_t, n)};
  for (uint32_t i = 0; i < n; i++) f.up[i] = i;
  return f;
}

static bool is_choice(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer);
}

size_t anfi_call_targets(const anf_node *call, anf_graph **at) {
  const anf_node *f = call->in[0].def;
  anf_graph *g = anfi_value_graph(f);
  if (g) return at[0] = g, 1;
  if (!is_choice(f)) return 0;
  for (uint32_t i = 1; i < f->nin; i++)
    if (!(at[i - 1] = anfi_value_graph(f->in[i].def))) return 0;
  return f->nin - 1u;
}

static anf_graph *first_target(const anf_node *call) {
  const anf_node *f = call->in[0].def;
  anf_graph *g = anfi_value_graph(f);
  return g ? g : is_choice(f) && f->nin > 1 ? anfi_value_graph(f->in[1].def) : NULL;
}

anfi_group *anfi_group_of_call(const anfi_groups *gs, const anf_node *call) {
  const anf_graph *g = call->kind == ANFI_CALL ? first_target(call) : NULL;
  return g ? &gs->at[gs->of_graph[g->id]] : NULL;
}

/* A choice whose every use is as a callee, and whose branches are all graphs. */
static bool only_called(const anf_node *sw) {
  for (const anfi_use *u = sw->uses; u; u = u->next)
    if (u->user->kind != ANFI_CALL || u != &u->user->in[0]) return false;
  for (uint32_t i = 1; i < sw->nin; i++)
    if (!anfi_value_graph(sw->in[i].def)) return false;
  return !anfi_is_result(sw->graph->module, sw);
}

/* Are all uses of the graph calls, direct or through a choice? Joins it with the other branches. */
static bool join_arms(forest *f, anf_graph *g) {
  bool closed = (g->flags & ANFI_GRAPH_PRIVATE) && g->result;
  if (!g->self) return closed;
  if (anfi_is_result(g->module, g->self)) closed = false;
  for (const anfi_use *u = g->self->uses; u; u = u->next) {
    const anf_node *user = u->user;
    if (user->kind == ANFI_CALL && u == &user->in[0]) continue;
    bool branch = is_choice(user) && u != &user->in[0] && only_called(user);
    if (!branch) closed = false;
    for (uint32_t i = 1; branch && i < user->nin; i++)
      join(f, g->id, anfi_value_graph(user->in[i].def)->id);
  }
  return closed;
}

static void number_groups(anf_module *m, anfi_arena *a, forest *f, const bool *closed,
                          anfi_groups *out) {
  uint32_t *number = ANFI_NEW_N(a, uint32_t, m->graphs.n);
  out->of_graph = ANFI_NEW_N(a, uint32_t, m->graphs.n);
  out->at = ANFI_NEW_N(a, anfi_group, m->graphs.n);
  for (uint32_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    uint32_t root = find(f, i);
    if (!number[root]) number[root] = ++out->n;
    anfi_group *gr = &out->at[out->of_graph[i] = number[root] - 1];
    anfi_push(a, &gr->graphs, g);
    gr->open |= !closed[i];
  }
}

static void collect_calls(anf_module *m, anfi_arena *a, anfi_groups *out) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    anfi_group *gr = n && n->kind == ANFI_CALL ? anfi_group_of_call(out, n) : NULL;
    if (gr) anfi_push(a, &gr->calls, n);
  }
}

/* A result that is a call joins the classes; one that is neither a call nor a tuple being made
 * leaves the class as it is: tuples are made by MakeTuple, or constants. */
static void find_classes(anfi_arena *a, anfi_groups *gs) {
  forest f = new_forest(a, gs->n);
  for (uint32_t i = 0; i < gs->n; i++)
    for (size_t k = 0; k < gs->at[i].graphs.n; k++) {
      const anf_node *r = gs->at[i].graphs.at[k]->result;
      anfi_group *to = r ? anfi_group_of_call(gs, r) : NULL;
      if (to) join(&f, i, (uint32_t)(to - gs->at));
    }
  for (uint32_t i = 0; i < gs->n; i++) {
    anfi_group *g = &gs->at[i], *head = &gs->at[g->result_class = find(&f, i)];
    head->result_open |= g->open;
    for (size_t k = 0; k < g->graphs.n; k++) {
      const anf_node *r = g->graphs.at[k]->result;
      anfi_push(a, &head->in_class, g->graphs.at[k]);
      if (r && !anfi_group_of_call(gs, r) && !anfi_is_made_tuple(r)) head->result_open = true;
    }
  }
}

void anfi_find_groups(anf_module *m, anfi_arena *a, anfi_groups *out) {
  *out = (anfi_groups){0};
  forest f = new_forest(a, m->graphs.n);
  bool *closed = ANFI_NEW_N(a, bool, m->graphs.n);
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) closed[i] = join_arms(&f, m->graphs.at[i]);
  number_groups(m, a, &f, closed, out);
  collect_calls(m, a, out);
  find_classes(a, out);
}
