// SPDX-License-Identifier: Apache-2.0
/* The pass `expand`: Derive nodes become calls of the graphs that the drivers make, those whose target
 * holds none first; a round of the pipeline simplifies what comes out before the next order is
 * taken. When none is left, calls that had a rule for derivatives become plain calls. */
#include "autodiff/autodiff.h"

static size_t *positions(anfi_ad *ad, const anf_node *n, size_t *count) {
  const anf_value *v = anfi_attr_value(ad->m->cx, ANF_OP_Derive, n->u.attrs, 1);
  bool one = v->kind != ANF_VALUE_TUPLE;
  *count = one ? 1 : v->n;
  size_t *p = ANFI_NEW_N(ad->arena, size_t, *count + 1);
  for (size_t i = 0; i < *count; i++) p[i] = (size_t)anfi_get_i64(one ? v : v->u.item[i], 0);
  return p;
}

static const char *kind_of(const anf_node *n) {
  return anfi_attr_value(n->graph->module->cx, ANF_OP_Derive, n->u.attrs, 0)->u.text;
}

/* ---- reverse ---- */

typedef struct {
  anfi_ad *ad;
  anf_node *n;
  anf_graph *f, *g; // the target; the graph that the node is in
  size_t np, nwrt, *wrt;
  size_t *first; // by parameter: its first leaf
  anfi_vjp_pair pair;
  size_t first_given, ngiven; // leaves of the result that dy is for
  anf_node *value, **kept;
} reverse;

static bool make_pair(reverse *r) {
  anfi_ad *ad = r->ad;
  int64_t item = -1;
  anfi_value_is_int(anfi_attr_value(ad->m->cx, ANF_OP_Derive, r->n->u.attrs, 2), &item);
  r->np = r->f->params.n;
  r->wrt = positions(ad, r->n, &r->nwrt);
  r->first = ANFI_NEW_N(ad->arena, size_t, r->np + 1);
  for (size_t i = 0; i < r->np; i++)
    r->first[i + 1] = r->first[i] + anfi_ad_leaves(r->f->params.at[i]->type);
  const anf_type *y = anfi_ad_type_of(ad, r->f->result);
  for (int64_t i = 0; i < item; i++) r->first_given += anfi_ad_leaves(y->items[i]);
  r->ngiven = anfi_ad_leaves(item < 0 ? y : y->items[item]);
  bool *want = ANFI_NEW_N(ad->arena, bool, r->first[r->np] + 1),
       *given = ANFI_NEW_N(ad->arena, bool, anfi_ad_leaves(y) + 1);
  for (size_t i = 0; i < r->nwrt; i++)
    for (size_t k = r->first[r->wrt[i]]; k < r->first[r->wrt[i] + 1]; k++) want[k] = true;
  for (size_t i = 0; i < r->ngiven; i++) given[r->first_given + i] = true;
  return anfi_vjp_graphs(ad, r->f, want, given, &r->pair);
}

void anfi_expand_effect(anf_node *n, anf_node *call) {
  if (!(n->flags & ANFI_NODE_EFFECT)) return;
  for (size_t i = 0; i < n->graph->effects.n; i++)
    if (n->graph->effects.at[i] == n) n->graph->effects.at[i] = call;
  n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
  call->flags |= ANFI_NODE_EFFECT;
}

static void call_forward(reverse *r) {
  anf_node **args = ANFI_NEW_N(r->ad->arena, anf_node *, r->np + 1);
  for (size_t i = 0; i < r->np; i++) args[i] = r->n->in[i + 1].def;
  anf_node *t = anfi_ad_call(r->ad, r->g, r->pair.fwd, NULL, r->np, args);
  t->debug = r->n->debug;
  r->value = anfi_ad_get(r->ad, r->g, t, 0);
  r->kept = ANFI_NEW_N(r->ad->arena, anf_node *, r->pair.nkept + 1);
  for (size_t i = 0; i < r->pair.nkept; i++) r->kept[i] = anfi_ad_get(r->ad, r->g, t, i + 1);
  anfi_expand_effect(r->n, t);
}

static anf_node *call_backward(reverse *r) {
  anfi_ad *ad = r->ad;
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, r->pair.nkept + r->np + r->ngiven + 1),
           **dy = ANFI_NEW_N(ad->arena, anf_node *, r->ngiven + 1);
  size_t n = 0;
  for (; n < r->pair.nkept; n++) in[n] = r->kept[n];
  for (size_t i = 0; i < r->np; i++)
    if (r->pair.passed[i]) in[n++] = r->n->in[i + 1].def;
  anfi_leaf_nodes(ad, r->g, r->n->in[r->np + 1].def, dy);
  for (size_t i = 0; i < r->ngiven; i++)
    if (r->pair.given[r->first_given + i]) in[n++] = dy[i];
  return anfi_ad_call(ad, r->g, r->pair.bwd, NULL, n, in);
}

static anf_node *gradients(reverse *r) {
  anfi_ad *ad = r->ad;
  size_t total = r->first[r->np], item = 0;
  bool some = false;
  for (size_t k = 0; k < total; k++) some |= r->pair.out[k];
  anf_node *d = some ? call_backward(r) : NULL,
           **leaf = ANFI_NEW_N(ad->arena, anf_node *, total + 1),
           **out = ANFI_NEW_N(ad->arena, anf_node *, r->nwrt + 1);
  for (size_t k = 0; k < total; k++)
    if (r->pair.out[k]) leaf[k] = anfi_ad_get(ad, r->g, d, item++);
  for (size_t i = 0; i < r->nwrt; i++) {
    size_t p = r->wrt[i];
    out[i] =
        anfi_of_leaves(ad, r->g, r->f->params.at[p]->type, r->n->in[p + 1].def, leaf + r->first[p]);
  }
  return anfi_ad_tuple(ad, r->g, r->nwrt, out);
}

static anf_node *expand_reverse(anfi_ad *ad, anf_node *n, bool value_alone) {
  reverse r = {.ad = ad, .n = n, .f = anfi_value_graph(n->in[0].def), .g = n->graph};
  if (!(n->flags & ANFI_NODE_EFFECT)) r.f = anfi_silent(ad, r.f);
  ad->at = n;
  if (!make_pair(&r)) return NULL;
  ad->how = anfi_debug_derive(ad->m, n->debug, "gradient of");
  call_forward(&r);
  if (value_alone) return r.value;
  anf_node *pair[2] = {r.value, gradients(&r)};
  return anfi_ad_tuple(ad, n->graph, 2, pair);
}

/* ---- which nodes, and in which order ---- */

static anf_node *expanded(anfi_ad *ad, anf_node *n) {
  const char *kind = kind_of(n);
  if (strcmp(kind, "jvp") == 0) return anfi_expand_jvp(ad, n);
  if (strcmp(kind, "vmap") == 0) return anfi_expand_vmap(ad, n);
  return expand_reverse(ad, n, strcmp(kind, "value") == 0);
}

static bool expand_node(anfi_ad *ad, anf_node *n) {
  anf_node *by = expanded(ad, n);
  if (!by) return false;
  if (n->flags & ANFI_NODE_EFFECT) {
    anfi_substitute(n, by);
    return true;
  }
  anfi_replace(n, by);
  anfi_delete(n);
  return true;
}

static bool *graphs_with_derive(anfi_ad *ad, const anf_analysis *an, anfi_node_vec *all) {
  bool *has = ANFI_NEW_N(ad->arena, bool, an->ngraph + 1);
  for (size_t i = 0; i < ad->m->nodes.n; i++) {
    anf_node *n = ad->m->nodes.at[i];
    if (!n || !anfi_is_op(n, ANF_OP_Derive)) continue;
    has[n->graph->id] = true;
    anfi_push(ad->arena, all, n);
  }
  for (bool rose = all->n > 0; rose;) { // callees come first, so once more is for recursions alone
    rose = false;
    for (size_t i = 0; i < an->by_scc.n; i++) {
      uint32_t id = an->by_scc.at[i]->id;
      for (size_t k = 0; !has[id] && k < an->graphs[id].callees.n; k++)
        if (has[an->graphs[id].callees.at[k]->id]) has[id] = rose = true;
    }
  }
  return has;
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
  for (size_t i = 0; i < n; i++) {
    anf_node *x = p->m->nodes.at[i];
    if (x && (anfi_is_op(x, ANF_OP_Custom) || anfi_is_op(x, ANF_OP_Recompute))) make_plain(p, x);
  }
}

/* What this pass is about: transforms, and calls with rules for them. */
static bool has_work(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && n->kind == ANFI_APPLY &&
        (n->op == ANF_OP_Derive || n->op == ANF_OP_Custom || n->op == ANF_OP_Recompute))
      return true;
  }
  return false;
}

bool anfi_opt_expand(anfi_pass *p) {
  anf_module *m = p->m;
  if (!has_work(m)) return true;
  if (!anfi_clear_dead(m)) return false;
  anfi_ad *ad = anfi_ad_new(m);
  anfi_node_vec all = {0};
  const anf_analysis *an = anfi_analyse(m);
  const bool *has = graphs_with_derive(ad, an, &all);
  size_t done = 0;
  for (size_t i = 0; i < all.n; i++) {
    if (has[anfi_value_graph(all.at[i]->in[0].def)->id]) continue;
    if (!expand_node(ad, all.at[i])) return false;
    p->rewrites++;
    done++;
  }
  if (all.n && !done)
    return anfi_fail(m->cx, anfi_node_loc(all.at[0]), ANF_E0702, all.at[0]->graph->name->s);
  if (!all.n) make_all_plain(p);
  return anfi_clear_dead(m);
}
