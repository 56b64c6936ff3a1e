// SPDX-License-Identifier: Apache-2.0
/* A header for mutual tail recursion that has none (a state machine), so that loop.c finds one.
 *   even(n) = n == 0 ? true : odd(n - 1); odd(n) = n == 0 ? false : even(n - 1)
 *   ->  dispatch(tag, n) = SwitchLayer(tag, even, odd)(n);  each call of a state becomes dispatch(k, ..)
 * The states are a few graphs that together break all cycles. The arguments of the other states are undefined. */
#include "optimizer/loops/loop.h"
#include "base/mark.h"

typedef struct {
  /* the component */
  anf_module *m;
  anfi_arena *a;
  const anf_analysis *an;
  size_t n;
  anf_graph *const *member;
  /* the result */
  bool *is_state, *gone; // by member
  ANFI_VEC(anf_graph *) state;
  anf_graph *dispatch;
} merging;

/* Callees of member i that may still lead into a cycle; counts them up in `callers` if given. */
static size_t ways_on(const merging *w, size_t i, size_t *callers) {
  const anfi_graph_info *gi = &w->an->graphs[w->member[i]->id];
  size_t ways = 0;
  for (size_t k = 0; k < gi->callees.n; k++)
    for (size_t j = 0; j < w->n; j++)
      if (gi->callees.at[k] == w->member[j] && !w->is_state[j] && !w->gone[j]) {
        ways++;
        if (callers) callers[j]++;
      }
  return ways;
}

/* Members that reach no cycle without passing a state. */
static void remove_acyclic(merging *w) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < w->n; i++)
      if (!w->gone[i] && (w->is_state[i] || !ways_on(w, i, NULL))) w->gone[i] = changed = true;
  }
}

/* Of the remaining graphs, the one with most callers becomes a state, until no cycle is left. */
static void choose_states(merging *w) {
  w->is_state = ANFI_NEW_N(w->a, bool, w->n);
  w->gone = ANFI_NEW_N(w->a, bool, w->n);
  for (;;) {
    size_t *callers = ANFI_NEW_N(w->a, size_t, w->n), best = w->n;
    remove_acyclic(w);
    for (size_t i = 0; i < w->n; i++)
      if (!w->gone[i]) ways_on(w, i, callers);
    for (size_t i = 0; i < w->n; i++)
      if (!w->gone[i] && (best == w->n || callers[i] > callers[best])) best = i;
    if (best == w->n) return;
    w->is_state[best] = true;
    anfi_push(w->a, &w->state, w->member[best]);
  }
}

static anf_node *copy_param(anf_graph *g, const anf_node *like) {
  anf_node *p = anfi_param(g, NULL, like->type);
  p->debug = like->debug;
  return p;
}

static anf_node *typed_call(anf_graph *g, size_t n, anf_node **in, const anf_node *like) {
  anf_node *c = anfi_call(g, n, in);
  c->type = like->type;
  c->debug = like->debug;
  return c;
}

static size_t count_params(const merging *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->state.n; i++) n += w->state.at[i]->params.n;
  return n;
}

/* Takes the arguments of all states and calls state i with its own. */
static anf_graph *adapter(merging *w, size_t i) {
  anf_graph *g = anfi_graph_beside(w->state.at[0], ANFI_THEN), *s = w->state.at[i];
  anf_node **in = ANFI_NEW_N(w->a, anf_node *, s->params.n + 1);
  in[0] = anfi_graph_value(s);
  for (size_t j = 0; j < w->state.n; j++)
    for (size_t k = 0; k < w->state.at[j]->params.n; k++) {
      anf_node *p = copy_param(g, w->state.at[j]->params.at[k]);
      if (j == i) in[k + 1] = p;
    }
  anfi_set_result(g, typed_call(g, s->params.n + 1, in, s->result));
  return g;
}

/* The callee that replaces state i. */
static anf_graph *entry(merging *w, size_t i) {
  anf_graph *g = anfi_graph_beside(w->state.at[0], ANFI_HEADER), *s = w->state.at[i];
  anf_node **in = ANFI_NEW_N(w->a, anf_node *, count_params(w) + 2);
  size_t n = 0;
  in[n++] = anfi_graph_value(w->dispatch);
  in[n] = anfi_value(w->m, anfi_value_new_i64(w->m->cx, ANF_I64, (int64_t)i));
  in[n++]->type = anfi_type_scalar(w->m->cx, ANF_I64);
  for (size_t j = 0; j < w->state.n; j++)
    for (size_t k = 0; k < w->state.at[j]->params.n; k++) {
      const anf_node *p = w->state.at[j]->params.at[k];
      in[n++] = j == i ? copy_param(g, p) : anfi_undefined(g, p->type);
    }
  anfi_set_result(g, typed_call(g, n, in, s->result));
  return g;
}

/* Before the adapters are made, which are to call the states themselves. */
static void redirect(merging *w) {
  anf_node **to = ANFI_NEW_N(w->a, anf_node *, w->state.n);
  for (size_t i = 0; i < w->state.n; i++) to[i] = anfi_graph_value(entry(w, i));
  for (size_t i = 0; i < w->state.n; i++) {
    anf_node *self = w->state.at[i]->self;
    while (self->uses) {
      anf_node *user = self->uses->user;
      anfi_set_input(user, (size_t)(self->uses - user->in), to[i]);
    }
  }
}

static void fill_dispatch(merging *w) {
  anf_graph *g = w->dispatch;
  anf_node **branch = ANFI_NEW_N(w->a, anf_node *, w->state.n + 1),
           **in = ANFI_NEW_N(w->a, anf_node *, count_params(w) + 1);
  for (size_t i = 0; i < w->state.n; i++) branch[i + 1] = anfi_graph_value(adapter(w, i));
  branch[0] = g->params.at[0];
  in[0] = anfi_apply(g, ANF_OP_SwitchLayer, NULL, w->state.n + 1, branch);
  memcpy(in + 1, g->params.at + 1, (g->params.n - 1) * sizeof *in);
  anfi_set_result(g, typed_call(g, g->params.n, in, w->state.at[0]->result));
}

void anfi_merge_headers(anf_module *m, const anf_analysis *an, size_t n, anf_graph *const *member) {
  merging w = {.m = m, .a = anfi_scratch(m->cx), .an = an, .n = n, .member = member};
  choose_states(&w);
  w.dispatch = anfi_graph_beside(w.state.at[0], ANFI_BODY);
  anfi_param(w.dispatch, NULL, anfi_type_scalar(m->cx, ANF_I64));
  for (size_t i = 0; i < w.state.n; i++)
    for (size_t k = 0; k < w.state.at[i]->params.n; k++)
      copy_param(w.dispatch, w.state.at[i]->params.at[k]);
  redirect(&w);
  fill_dispatch(&w);
}
