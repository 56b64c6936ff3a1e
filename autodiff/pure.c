// SPDX-License-Identifier: Apache-2.0
/* Copies without effects: a value recomputed by a derivative must not print again.
 *   f(x): Print(x); return x * x         ->  f'(x): return x * x
 * Graphs that cannot reach an effect are not copied. Derivative rules keep their effects: nothing runs them but a
 * derivative. */
#include "autodiff/autodiff.h"

void anfi_spread_to_users(anfi_ad *ad, bool *has) {
  ANFI_VEC(const anf_graph *) todo = {0};
  for (size_t i = 0; i < ad->m->graphs.n; i++)
    if (has[i]) anfi_push(ad->arena, &todo, ad->m->graphs.at[i]);
  while (todo.n) {
    const anf_graph *g = todo.at[--todo.n];
    for (const anfi_use *u = g->self ? g->self->uses : NULL; u; u = u->next) {
      const anf_graph *user = u->user->graph;
      if (!has[user->id]) anfi_push(ad->arena, &todo, user);
      has[user->id] = true;
    }
  }
}

/* By graph id; NULL: no graph has effects. It holds until the next call.
 * INVARIANT: a derivative has no effects if the program has none, so that this needs to be found once. */
static const bool *with_effects(anfi_ad *ad) {
  const anf_module *m = ad->m;
  if (ad->pure) return NULL;
  if (m->graphs.n > ad->neffects) {
    ad->neffects = 2 * m->graphs.n;
    ad->effects = ANFI_NEW_N(ad->arena, bool, ad->neffects);
  }
  ad->pure = true;
  for (size_t i = 0; i < m->graphs.n; i++) {
    ad->effects[i] = m->graphs.at[i] && m->graphs.at[i]->effects.n > 0;
    ad->pure &= !ad->effects[i];
  }
  if (ad->pure) return NULL;
  anfi_spread_to_users(ad, ad->effects);
  return ad->effects;
}

bool anfi_has_effects(anfi_ad *ad, const anf_graph *g) {
  const bool *has = with_effects(ad);
  return has && has[g->id];
}

/* Is input k of n the rule that a backward sweep runs? */
static bool is_rule(const anf_node *n, size_t k) {
  if (!anfi_is_op(n, ANF_OP_Custom)) return false;
  const anf_value *kind = anfi_attr_value(n->graph->module->cx, ANF_OP_Custom, n->u.attrs, 0);
  return k == (strcmp(kind->u.text, "vjp") == 0 ? 2 : 1);
}

void anfi_find_rules(anfi_ad *ad) {
  const bool *has = with_effects(ad);
  if (!has) return;
  bool *rules = ANFI_NEW_N(ad->arena, bool, ad->m->graphs.n + 1);
  for (size_t i = 0; i < ad->m->graphs.n; i++) {
    const anf_graph *g = ad->m->graphs.at[i];
    for (const anfi_use *u = g && has[i] && g->self ? g->self->uses : NULL; u; u = u->next)
      if (is_rule(u->user, (size_t)(u - u->user->in))) rules[u->user->graph->id] = true;
  }
  anfi_spread_to_users(ad, rules);
  ad->rules = rules;
  ad->nrules = ad->m->graphs.n;
}

bool anfi_rule_effects(anfi_ad *ad, const anf_node *n, const anf_graph *rule, bool *good) {
  bool effects = anfi_has_effects(ad, rule);
  *good = !effects || ad->ordered;
  if (!*good)
    anfi_fail(ad->m->cx, anfi_node_loc(n), ANF_E1560, anfi_value_graph(n->in[0].def)->name->s,
              "in a Jacobian or by linearize");
  return effects && *good;
}

typedef struct {
  anfi_ad *ad;
  const bool *has;
  size_t nhas;
  anfi_map copy; // graph -> its copy
  ANFI_VEC(anf_graph *) todo;
} copying;

static anf_graph *copy_of(copying *c, anf_graph *g) {
  if (g->id >= c->nhas || !c->has[g->id]) return g;
  uint64_t *at = anfi_map_at(&c->copy, anfi_key(g));
  if (*at) return (anf_graph *)(uintptr_t)*at;
  anf_graph *to = anfi_graph_beside(g, "");
  *anfi_map_at(&c->copy, anfi_key(g)) = anfi_key(to);
  for (size_t i = 0; i < g->params.n; i++) {
    anf_node *p = anfi_param(to, NULL, g->params.at[i]->type);
    p->debug = g->params.at[i]->debug;
  }
  anfi_push(c->ad->arena, &c->todo, g);
  return to;
}

static void fill(copying *c, anf_graph *g) {
  anf_graph *to = copy_of(c, g);
  anfi_arena *a = c->ad->arena;
  anfi_map copies;
  anfi_node_vec order = {0};
  anfi_map_init(&copies, a);
  anfi_graph_order(g, a, &order);
  for (size_t i = 0; i < g->params.n; i++)
    *anfi_map_at(&copies, g->params.at[i]->id) = anfi_key(to->params.at[i]);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i];
    for (uint32_t k = 0; k < n->nin; k++) {
      anf_graph *f = anfi_value_graph(n->in[k].def);
      if (f && !is_rule(n, k))
        *anfi_map_at(&copies, n->in[k].def->id) = anfi_key(anfi_graph_value(copy_of(c, f)));
    }
    anfi_copy_node(a, to, n, &copies);
  }
  anfi_set_result(to, anfi_copy_of(&copies, g->result));
}

anf_graph *anfi_without_effects(anfi_ad *ad, anf_graph *g) {
  copying c = {.ad = ad, .has = with_effects(ad), .nhas = ad->m->graphs.n};
  if (!c.has || !c.has[g->id]) return g;
  anfi_map_init(&c.copy, ad->arena);
  anf_graph *to = copy_of(&c, g);
  while (c.todo.n) fill(&c, c.todo.at[--c.todo.n]);
  return to;
}
