// SPDX-License-Identifier: Apache-2.0
/* The pass `expand`: Derive nodes become calls of the graphs that the drivers make.
 *   y, dx = Derive(f, x, dy :kind "vjp")     ->  (y, r..) = ▶f(x);  dx = ◀f(r.., dy)
 * Innermost first: a node is expanded when its target holds no Derive; a round of the pipeline simplifies the
 * result before the next order. A function that at most two nodes ask for, and that does not call itself, is
 * differentiated right in the graph of the node (anfi_vjp_at). When no Derive is left, calls with a
 * derivative rule of their own become plain calls. */
#include "autodiff/autodiff.h"
#include "ir/worklist.h"

static size_t *positions(anfi_ad *ad, const anf_node *n, size_t *count) {
  const anf_value *v = anfi_attr_value(ad->m->cx, ANF_OP_Derive, n->u.attrs, 1);
  bool one = v->kind != ANF_VALUE_TUPLE;
  *count = one ? 1 : v->n;
  size_t *p = ANFI_NEW_N(ad->arena, size_t, *count + 1);
  for (size_t i = 0; i < *count; i++) p[i] = (size_t)anfi_get_i64(one ? v : v->u.item[i], 0);
  return p;
}

static bool is_past(const anf_node *n) {
  const anf_module *m = n->graph->module;
  return anfi_get_i64(anfi_attr_value(m->cx, ANF_OP_Derive, n->u.attrs, 4), 0) != 0;
}

static const char *kind_of(const anf_node *n) {
  return anfi_attr_value(n->graph->module->cx, ANF_OP_Derive, n->u.attrs, 0)->u.text;
}

/* ---- reverse ---- */

enum { NOT_PASSED = -1 };

/* One gradient that is asked for. */
typedef struct {
  int64_t param; // of f, or NOT_PASSED: then it is zero
  anf_node *x;
  const anf_type *type;
} wanted;

typedef struct {
  /* the call */
  anfi_ad *ad;
  anf_node *n;
  anf_graph *f, *g; // the target; the graph of the node
  size_t np, nwrt;
  anf_node **args; // of f
  wanted *wrt;
  size_t *first; // by parameter: its first leaf
  /* its pullback */
  anfi_vjp_pair pair;
  size_t first_given, ngiven; // leaves of the result that dy is for
  bool *want, *given;         // by leaf of the parameters, of the result
  /* nodes */
  anf_node *dy, *value, **residual;
  anf_node *forward; // the call of ▶
} reverse;

/* The one call that f consists of, if it takes each parameter of f at most once; else NULL. */
static const anf_node *only_call(const anf_graph *f) {
  const anf_node *c = f->result;
  size_t effects = c->flags & ANFI_NODE_EFFECT ? 1 : 0;
  if (c->kind != ANFI_CALL || c->graph != f || f->effects.n != effects) return NULL;
  const anf_graph *callee = anfi_value_graph(c->in[0].def);
  if (!callee || callee->params.n != c->nin - 1u) return NULL;
  for (uint32_t i = 1; i < c->nin; i++) {
    const anf_node *x = c->in[i].def;
    if (x->kind != ANFI_VALUE && (x->kind != ANFI_PARAM || x->graph != f)) return NULL;
    for (const anfi_use *u = x->kind == ANFI_PARAM ? x->uses : NULL; u; u = u->next)
      if (u->user == c && u != &c->in[i]) return NULL;
  }
  return c;
}

static anf_graph *target_of(const anf_node *n) {
  anf_graph *f = anfi_value_graph(n->in[0].def);
  const anf_node *c = only_call(f);
  return c ? anfi_value_graph(c->in[0].def) : f;
}

/* Looks through the wrapper that passes captured values to a function of the program. */
static void pass_on(reverse *r) {
  const anf_node *c = only_call(r->f);
  if (!c) return;
  anf_node **args = ANFI_NEW_N(r->ad->arena, anf_node *, c->nin);
  int64_t *to = ANFI_NEW_N(r->ad->arena, int64_t, r->np + 1);
  for (size_t i = 0; i < r->np; i++) to[i] = NOT_PASSED;
  for (uint32_t i = 1; i < c->nin; i++) {
    anf_node *x = c->in[i].def;
    bool param = x->kind == ANFI_PARAM;
    args[i - 1] = param ? r->args[x->u.index] : x;
    if (param) to[x->u.index] = i - 1;
  }
  for (size_t i = 0; i < r->nwrt; i++) r->wrt[i].param = to[r->wrt[i].param];
  r->f = anfi_value_graph(c->in[0].def);
  r->np = r->f->params.n;
  r->args = args;
}

static void read_derive(reverse *r) {
  anfi_ad *ad = r->ad;
  r->np = r->f->params.n;
  r->args = ANFI_NEW_N(ad->arena, anf_node *, r->np + 1);
  for (size_t i = 0; i < r->np; i++) r->args[i] = r->n->in[i + 1].def;
  r->dy = r->np + 1 < r->n->nin ? r->n->in[r->np + 1].def : NULL; // the value alone has none
  const size_t *at = positions(ad, r->n, &r->nwrt);
  r->wrt = ANFI_NEW_N(ad->arena, wanted, r->nwrt + 1);
  for (size_t i = 0; i < r->nwrt; i++)
    r->wrt[i] = (wanted){(int64_t)at[i], r->args[at[i]], r->f->params.at[at[i]]->type};
  pass_on(r);
}

static void make_masks(reverse *r) {
  anfi_ad *ad = r->ad;
  int64_t item = -1;
  anfi_value_is_int(anfi_attr_value(ad->m->cx, ANF_OP_Derive, r->n->u.attrs, 2), &item);
  r->first = ANFI_NEW_N(ad->arena, size_t, r->np + 1);
  for (size_t i = 0; i < r->np; i++)
    r->first[i + 1] = r->first[i] + anfi_ad_leaves(r->f->params.at[i]->type);
  const anf_type *y = anfi_ad_type_of(ad, r->f->result);
  for (int64_t i = 0; i < item; i++) r->first_given += anfi_ad_leaves(y->items[i]);
  r->ngiven = anfi_ad_leaves(item < 0 ? y : y->items[item]);
  r->want = ANFI_NEW_N(ad->arena, bool, r->first[r->np] + 1);
  r->given = ANFI_NEW_N(ad->arena, bool, anfi_ad_leaves(y) + 1);
  for (size_t i = 0; i < r->nwrt; i++) {
    int64_t p = r->wrt[i].param;
    for (size_t k = p < 0 ? 0 : r->first[p]; p >= 0 && k < r->first[p + 1]; k++) r->want[k] = true;
  }
  for (size_t i = 0; i < r->ngiven; i++) r->given[r->first_given + i] = true;
}

void anfi_expand_effect(anf_node *n, anf_node *call) {
  if (!(n->flags & ANFI_NODE_EFFECT)) return;
  for (size_t i = 0; i < n->graph->effects.n; i++)
    if (n->graph->effects.at[i] == n) n->graph->effects.at[i] = call;
  n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
  call->flags |= ANFI_NODE_EFFECT;
}

static void call_forward(reverse *r) {
  anf_node *t = anfi_ad_call(r->ad, r->g, r->pair.fwd, NULL, r->np, r->args);
  t->debug = r->n->debug;
  r->value = anfi_ad_get(r->ad, r->g, t, 0);
  r->residual = ANFI_NEW_N(r->ad->arena, anf_node *, r->pair.nresidual + 1);
  for (size_t i = 0; i < r->pair.nresidual; i++)
    r->residual[i] = anfi_ad_get(r->ad, r->g, t, i + 1);
  if (!is_past(r->n)) anfi_expand_effect(r->n, t);
  r->forward = t;
}

static anf_node *call_backward(reverse *r) {
  anfi_ad *ad = r->ad;
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, r->pair.nresidual + r->np + r->ngiven + 1),
           **dy = ANFI_NEW_N(ad->arena, anf_node *, r->ngiven + 1);
  size_t n = 0;
  for (; n < r->pair.nresidual; n++) in[n] = r->residual[n];
  for (size_t i = 0; i < r->np; i++)
    if (r->pair.passed[i]) in[n++] = r->args[i];
  anfi_leaf_nodes(ad, r->g, r->dy, dy);
  for (size_t i = 0; i < r->ngiven; i++)
    if (r->pair.given[r->first_given + i]) in[n++] = dy[i];
  return anfi_ad_call(ad, r->g, r->pair.bwd, NULL, n, in);
}

/* The call of ◀ takes the place of a past Derive among the effects, else the one after ▶. */
static void backward_effect(reverse *r, anf_node *d) {
  anf_graph *g = r->g;
  if (!anfi_runs_rule(r->ad, r->f)) return;
  if (is_past(r->n)) {
    anfi_expand_effect(r->n, d);
    return;
  }
  anfi_add_effect(g, d);
  for (size_t i = g->effects.n - 1; i > 0 && g->effects.at[i - 1] != r->forward; i--) {
    g->effects.at[i] = g->effects.at[i - 1];
    g->effects.at[i - 1] = d;
  }
}

/* The tuple of gradients, whose leaves are by leaf of the parameters; NULL: zero. */
static anf_node *gradients(reverse *r, anf_node *const *leaf) {
  anf_node **out = ANFI_NEW_N(r->ad->arena, anf_node *, r->nwrt + 1);
  for (size_t i = 0; i < r->nwrt; i++) {
    const wanted *w = &r->wrt[i];
    anf_node *const *at = w->param < 0
                              ? ANFI_NEW_N(r->ad->arena, anf_node *, anfi_ad_leaves(w->type) + 1)
                              : leaf + r->first[w->param];
    out[i] = anfi_of_leaves(r->ad, r->g, w->type, w->x, at);
  }
  return anfi_ad_tuple(r->ad, r->g, r->nwrt, out);
}

static anf_node *gradients_of_call(reverse *r) {
  size_t total = r->first[r->np], item = 0;
  bool some = false;
  for (size_t k = 0; k < total; k++) some |= r->pair.out[k];
  anf_node *d = some ? call_backward(r) : NULL,
           **leaf = ANFI_NEW_N(r->ad->arena, anf_node *, total + 1);
  if (d) backward_effect(r, d);
  for (size_t k = 0; k < total; k++)
    if (r->pair.out[k]) leaf[k] = anfi_ad_get(r->ad, r->g, d, item++);
  return gradients(r, leaf);
}

static anf_node *pair_of(reverse *r, anf_node *const *leaf) {
  r->ad->how = anfi_debug_derive(r->ad->m, r->n->debug, "gradient of");
  return anfi_ad_tuple(
      r->ad, r->g, 2,
      (anf_node *const[]){r->value, leaf ? gradients(r, leaf) : gradients_of_call(r)});
}

/* In the graph that asks, as few others do; false: f calls itself, or an error. */
static bool expand_here(reverse *r, anf_node **out) {
  anfi_ad *ad = r->ad;
  size_t nresult = anfi_ad_leaves(anfi_ad_type_of(ad, r->f->result));
  anf_node **dy = ANFI_NEW_N(ad->arena, anf_node *, nresult + 1);
  anfi_leaf_nodes(ad, r->g, r->dy, dy + r->first_given);
  anfi_vjp_inline at = {.g = r->g, .args = r->args, .dy = dy};
  at.dx = ANFI_NEW_N(ad->arena, anf_node *, r->first[r->np] + 1);
  if (!anfi_vjp_at(ad, r->f, r->want, r->given, &at) || !at.value) return false;
  r->value = at.value;
  *out = pair_of(r, at.dx);
  return true;
}

static anf_node *expand_reverse(anfi_ad *ad, anf_node *n, bool value_alone, bool here) {
  reverse r = {.ad = ad, .n = n, .f = anfi_value_graph(n->in[0].def), .g = n->graph};
  anf_node *out = NULL;
  read_derive(&r);
  bool effect = n->flags & ANFI_NODE_EFFECT;
  ad->nrules = 0;
  ad->ordered = effect;
  if (!effect || is_past(n)) r.f = anfi_without_effects(ad, r.f);
  if (effect && !anfi_has_effects(ad, r.f)) anfi_remove_effect(n);
  else if (effect) anfi_find_rules(ad);
  ad->at = n;
  make_masks(&r);
  here &= !value_alone && !(n->flags & ANFI_NODE_EFFECT);
  if (here && (expand_here(&r, &out) || anfi_failed(ad->m->cx))) return out;
  if (!anfi_vjp_graphs(ad, r.f, r.want, r.given, &r.pair)) return NULL;
  ad->how = anfi_debug_derive(ad->m, n->debug, "gradient of");
  call_forward(&r);
  out = value_alone ? r.value : pair_of(&r, NULL);
  if (n->flags & ANFI_NODE_EFFECT) anfi_remove_effect(n); // past, and no rule ran
  return out;
}

/* ---- which nodes, and in which order ---- */

static anf_node *expanded(anfi_ad *ad, anf_node *n, bool here) {
  const char *kind = kind_of(n);
  if (strcmp(kind, "jvp") == 0) return anfi_expand_jvp(ad, n);
  if (strcmp(kind, "vmap") == 0) return anfi_expand_vmap(ad, n);
  return expand_reverse(ad, n, strcmp(kind, "value") == 0, here);
}

static bool expand_node(anfi_ad *ad, anf_node *n, bool here) {
  anf_node *by = expanded(ad, n, here);
  if (!by) return false;
  if (n->flags & ANFI_NODE_EFFECT) {
    anfi_substitute(n, by);
    return true;
  }
  anfi_replace(n, by);
  anfi_delete(n);
  return true;
}

/* The next transform, or call with a derivative rule, from node i on. */
static size_t next_work(const anf_module *m, size_t i) {
  while ((i = anfi_work_next(m, i, ANFI_WORK_EXPAND)) < m->nodes.n) {
    const anf_node *n = m->nodes.at[i];
    if (n && n->kind == ANFI_APPLY && anfi_op_of(n)->flags & ANFI_EXPANDS) break;
    anfi_work_done(m, i++, ANFI_WORK_EXPAND);
  }
  return i;
}

static bool *graphs_with_derive(anfi_ad *ad, anfi_node_vec *all) {
  bool *has = ANFI_NEW_N(ad->arena, bool, ad->m->graphs.n + 1);
  for (size_t i = 0; (i = next_work(ad->m, i)) < ad->m->nodes.n; i++) {
    anf_node *n = ad->m->nodes.at[i];
    if (!anfi_is_op(n, ANF_OP_Derive)) continue;
    has[n->graph->id] = true;
    anfi_push(ad->arena, all, n);
  }
  anfi_spread_to_users(ad, has);
  return has;
}

/* Up to so many gradients of one graph get their own ▶ and ◀; more of them share one pair. */
enum { COPIES = 2 };

/* By graph id: how many Derive nodes ask for it. */
static size_t *times_asked(anfi_ad *ad, const anfi_node_vec *all) {
  size_t *n = ANFI_NEW_N(ad->arena, size_t, ad->m->graphs.n + 1);
  for (size_t i = 0; i < all->n; i++) n[target_of(all->at[i])->id]++;
  return n;
}

/* Calls with rules become calls. */
static void make_plain(anfi_pass *p, anf_node *n) {
  bool custom = n->op == ANF_OP_Custom;
  anf_node **in = ANFI_NEW_N(anfi_scratch(p->m->cx), anf_node *, n->nin);
  size_t k = 0;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!custom || i == 0 || i == 3 || i > 5) in[k++] = n->in[i].def;
  anf_node *c = anfi_call(n->graph, k, in);
  c->type = n->type;
  c->debug = n->debug;
  anfi_substitute(n, c);
  p->rewrites++;
}

static void make_all_plain(anfi_pass *p) {
  size_t n = p->m->nodes.n;
  for (size_t i = 0; (i = next_work(p->m, i)) < n; i++) {
    anf_node *x = p->m->nodes.at[i];
    if (anfi_is_op(x, ANF_OP_Custom) || anfi_is_op(x, ANF_OP_Recompute)) make_plain(p, x);
  }
}

bool anfi_opt_expand(anfi_pass *p) {
  anf_module *m = p->m;
  if (next_work(m, 0) == m->nodes.n) return true;
  if (!p->swept && !anfi_clear_dead(m)) return false;
  anfi_ad *ad = anfi_ad_new(m);
  anfi_node_vec all = {0};
  const bool *has = graphs_with_derive(ad, &all);
  const size_t *times = times_asked(ad, &all);
  size_t done = 0;
  for (size_t i = 0; i < all.n; i++) {
    if (has[anfi_value_graph(all.at[i]->in[0].def)->id]) continue;
    bool here = times[target_of(all.at[i])->id] <= COPIES;
    if (!expand_node(ad, all.at[i], here)) return false;
    p->rewrites++;
    done++;
  }
  if (all.n && !done)
    return anfi_fail(m->cx, anfi_node_loc(all.at[0]), ANF_E0702, all.at[0]->graph->name->s);
  if (!all.n) make_all_plain(p);
  return anfi_clear_dead(m);
}
