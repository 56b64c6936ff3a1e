// SPDX-License-Identifier: Apache-2.0
/* Choices whose condition differs by lane.
 *   c ? f(x) : h(x)     ->  all(c) ? f(x) : none(c) ? h(x) : select(c, f(fill(c, x)), h(fill(!c, x)))
 * where fill gives lanes that do not take the branch the arguments of one that does. So a branch runs only if a
 * lane needs it, a recursion ends when its last lane does, and inactive lanes can neither trap nor make a
 * NaN that a gradient would sum up. Branches with a few ops of the flag ANFI_FINITE are speculated
 * for all lanes: select(c, f(x), h(x)). */
#include "autodiff/batch/vmap.h"
#include "base/mark.h"

/* ---- lanes that count ---- */

static anf_node *any_of(const anfi_batch *b, anf_node *m) { return anfi_b_1(b, ANF_OP_Any, m); }
static anf_node *all_of(const anfi_batch *b, anf_node *m) { return anfi_b_1(b, ANF_OP_All, m); }

static anf_node *fill_item(anfi_batch *b, anf_node *m, anf_node *first, anf_node *x) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Take, NULL);
  anfi_edit_int(&e, "axis", 0);
  anf_node *in[2] = {x, first};
  anf_node *one = anfi_b_apply(b, ANF_OP_Take, anfi_edit_done(&e), 2, in);
  if (one && one->type->dtype == ANF_KEY) one = anfi_b_spread(b, one);
  if (!one) return NULL;
  if (x->type->dtype == ANF_KEY) return anfi_b_select(b, m, x, one);
  return anfi_b_3(b, ANF_OP_Where, anfi_b_align(b, m, x->type->n - 1u), x, one);
}

static anf_node *fill_nest(anfi_vmap *v, anfi_batch *b, anf_node *m, anf_node *first, anf_node *x,
                           const anf_type *t, const bool **mask) {
  if (!anfi_is_nest(t)) {
    bool batched = *(*mask)++;
    return batched && t->kind == ANF_TYPE_TENSOR ? fill_item(b, m, first, x) : x;
  }
  size_t n = anfi_item_count(t);
  if (!anfi_flow_any(*mask, n)) {
    *mask += n;
    return x;
  }
  anf_node **items = ANFI_NEW_N(v->ad->arena, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) {
    items[i] = fill_nest(v, b, m, first, anfi_nest_item(b, x, i), t->items[i], mask);
    if (!items[i]) return NULL;
  }
  return anfi_nest_of(b, t, items);
}

anf_node *anfi_vmap_fill(anfi_vmap *v, anfi_batch *b, anf_node *m, anf_node *x, const anf_type *t,
                         const bool *mask) {
  size_t lanes;
  bool none = anfi_type_elements(anfi_ad_type_of(v->ad, m), &lanes) && !lanes;
  if (!x || none || !anfi_flow_any(mask, anfi_item_count(t))) return x;
  anf_node *first = anfi_b_axis(b, ANF_OP_ArgMax, m, 0); // of equals the first: a lane that counts
  return first ? fill_nest(v, b, m, first, x, t, &mask) : NULL;
}

anf_node *anfi_vmap_select(anfi_vmap *v, anfi_batch *b, anf_node *c, anf_node *x, anf_node *y,
                           const anf_type *t) {
  if (!x || !y) return NULL;
  if (t->kind == ANF_TYPE_TENSOR) return anfi_b_select(b, c, x, y);
  if (t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK) {
    if (x == y || anfi_is_op(y, ANF_OP_Undef)) return x;
    return anfi_is_op(x, ANF_OP_Undef) ? y : anfi_b_3(b, ANF_OP_ResidualSelect, x, y, c);
  }
  if (!anfi_is_nest(t)) return x;
  anf_node **items = ANFI_NEW_N(v->ad->arena, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) {
    items[i] =
        anfi_vmap_select(v, b, c, anfi_nest_item(b, x, i), anfi_nest_item(b, y, i), t->items[i]);
    if (!items[i]) return NULL;
  }
  return anfi_nest_of(b, t, items);
}

/* ---- branches ---- */

/* A choice is between graphs of the same parameters, built here or V of the program's. */
typedef struct {
  anf_graph *g;
  const anf_type *lane; // of the result
  const bool *out;      // which of its items are batched
  bool safe;            // cheap, and defined for any argument together with its derivatives
  bool recurs;          // may come back to the choice
} lane_branch;

typedef struct {
  anfi_vmap *v;
  size_t n;              // arguments
  const anf_type **lane; // of each: its type for one lane, and as it is here
  const anf_type **type;
  const bool *mask;       // of all
  const anf_type *result; // for one lane
  bool *all;              // its items that can be batched
  bool effect;            // the call is one of its graph's effects, and so are those made of it
} choice;

static bool is_safe_op(const anf_node *n) {
  return n->kind == ANFI_APPLY && !(n->flags & ANFI_NODE_EFFECT) &&
         (anfi_op_of(n)->flags & ANFI_FINITE);
}

enum { CHEAP = 12 }; // ops of a branch that is computed whether or not a lane needs it

bool anfi_vmap_is_safe(anfi_vmap *v, anf_graph *g) {
  const anfi_node_vec *order = anfi_flow_order(&v->f, g);
  if (order->n > CHEAP) return false;
  for (size_t i = 0; i < order->n; i++)
    if (!is_safe_op(order->at[i])) return false;
  return true;
}

static uint32_t component(anfi_vmap *v, const anf_graph *g) {
  if (!v->an) v->an = anfi_analyse(v->ad->m);
  return g->id < v->an->ngraph ? v->an->graphs[g->id].scc : UINT32_MAX;
}

static lane_branch branch_of(anfi_vmap *v, anfi_flow_spec *s) {
  lane_branch a = {anfi_vmap_made(v, s), s->graph->result->type, s->out,
                   anfi_vmap_is_safe(v, s->graph), false};
  a.lane = anfi_ad_type_of(v->ad, s->graph->result);
  if (!a.safe) a.recurs = component(v, s->graph) == component(v, v->now->graph);
  return a;
}

static void keep_effect(const choice *c, anf_graph *g, anf_node *call) {
  if (c->effect && call) anfi_add_effect(g, call);
}

/* The branch's value with all that can be batched so. */
static anf_node *call_branch(const choice *c, anfi_batch *b, const lane_branch *a,
                             anf_node *const *args) {
  const anf_type *t = anfi_vmap_type(c->v, a->lane, a->out);
  anf_node *y = anfi_ad_call(c->v->ad, b->g, a->g, t, c->n, args);
  keep_effect(c, b->g, y);
  return anfi_vmap_raise(c->v, b, y, a->lane, a->out, c->all);
}

static anf_node *filled_call(const choice *c, anfi_batch *b, anf_node *m, const lane_branch *a,
                             anf_node *const *args) {
  anf_node **in = ANFI_NEW_N(c->v->ad->arena, anf_node *, c->n + 1);
  const bool *mask = c->mask;
  for (size_t i = 0; i < c->n; i++) {
    in[i] = anfi_vmap_fill(c->v, b, m, args[i], c->lane[i], mask);
    if (!in[i]) return NULL;
    mask += anfi_item_count(c->lane[i]);
  }
  return call_branch(c, b, a, in);
}

/* A graph (condition, arguments..) to be filled. */
static anf_graph *part_graph(const choice *c, anfi_batch *b) {
  anf_graph *g = anfi_graph_beside(c->v->now->graph, ANFI_BATCHED "?");
  const anf_type *bools = anfi_type_tensor(c->v->ad->m->cx, ANF_BOOL, 1, &c->v->size);
  *b = anfi_vmap_in(c->v, g, anfi_vmap_param(g, bools));
  for (size_t i = 0; i < c->n; i++) anfi_vmap_param(g, c->type[i]);
  return g;
}

static anf_graph *closed(anf_graph *g, anf_node *y) {
  if (y) anfi_set_result(g, y);
  return y ? g : NULL;
}

static anf_graph *only_branch(const choice *c, const lane_branch *a) {
  anfi_batch b;
  anf_graph *g = part_graph(c, &b);
  return closed(g, call_branch(c, &b, a, g->params.at + 1));
}

static anf_graph *both_branches(const choice *c, const lane_branch *yes, const lane_branch *no) {
  anfi_batch b;
  anf_graph *g = part_graph(c, &b);
  anf_node *m = g->params.at[0], *const *args = g->params.at + 1;
  anf_node *x = filled_call(c, &b, m, yes, args);
  anf_node *y = filled_call(c, &b, anfi_b_1(&b, ANF_OP_LogicalNot, m), no, args);
  return closed(g, anfi_vmap_select(c->v, &b, m, x, y, c->result));
}

/* Switch(test, yes, no)(m, args..) */
static anf_node *guarded(const choice *c, const anfi_batch *b, anf_node *test, anf_graph *yes,
                         anf_graph *no, anf_node *m, anf_node *const *args) {
  if (!test || !yes || !no) return NULL;
  anf_node **in = ANFI_NEW_N(c->v->ad->arena, anf_node *, c->n + 1);
  anf_node *sw =
      anfi_apply3(b->g, ANF_OP_Switch, test, anfi_graph_value(yes), anfi_graph_value(no));
  sw->debug = c->v->ad->how;
  in[0] = m;
  memcpy(in + 1, args, c->n * sizeof *in);
  anf_node *y =
      anfi_ad_call_node(c->v->ad, b->g, sw, anfi_vmap_type(c->v, c->result, c->all), c->n + 1, in);
  keep_effect(c, b->g, y);
  return y;
}

/* A recursive branch is tested last, so that a batch without lanes terminates too. */
static anf_node *choose_by_lane(const choice *c, anfi_batch *b, anf_node *m, const lane_branch *yes,
                                const lane_branch *no, anf_node *const *args) {
  if (yes->safe && no->safe)
    return anfi_vmap_select(c->v, b, m, call_branch(c, b, yes, args), call_branch(c, b, no, args),
                            c->result);
  anf_graph *only_yes = only_branch(c, yes), *only_no = only_branch(c, no),
            *both = both_branches(c, yes, no);
  anfi_batch in;
  anf_graph *g = part_graph(c, &in);
  anf_node *gm = g->params.at[0], *const *gargs = g->params.at + 1;
  bool yes_last = yes->recurs && !no->recurs;
  anf_node *inner = yes_last ? guarded(c, &in, all_of(&in, gm), only_yes, both, gm, gargs)
                             : guarded(c, &in, any_of(&in, gm), both, only_no, gm, gargs);
  g = closed(g, inner);
  return yes_last ? guarded(c, b, any_of(b, m), g, only_no, m, args)
                  : guarded(c, b, all_of(b, m), only_yes, g, m, args);
}

/* ---- a choice of more than two ---- */

/* The choice from branch k on is a graph (number, arguments..). */
static lane_branch with_number(const choice *c, const lane_branch *a) {
  anf_graph *g = anfi_graph_beside(c->v->now->graph, ANFI_BATCHED "?");
  for (size_t i = 0; i < c->n; i++) anfi_vmap_param(g, c->type[i]);
  anfi_batch b = anfi_vmap_in(c->v, g, g->params.at[0]);
  choice inner = *c;
  inner.n--;
  anf_node *y = call_branch(&inner, &b, a, g->params.at + 1);
  return (lane_branch){closed(g, y), c->result, c->all, a->safe, a->recurs};
}

static lane_branch rest_of(const choice *c, const lane_branch *first, const lane_branch *rest,
                           int64_t k) {
  anf_graph *g = anfi_graph_beside(c->v->now->graph, ANFI_BATCHED "?");
  for (size_t i = 0; i < c->n; i++) anfi_vmap_param(g, c->type[i]);
  anfi_batch b = anfi_vmap_in(c->v, g, g->params.at[0]);
  anf_node *is = anfi_b_2(&b, ANF_OP_Equal, g->params.at[0], anfi_b_i64(&b, k));
  anf_node *y = is ? choose_by_lane(c, &b, is, first, rest, g->params.at) : NULL;
  return (lane_branch){closed(g, y), c->result, c->all, false, first->recurs || rest->recurs};
}

/* One more argument in front: the number of the branch, from 0. */
static choice numbered(const choice *c, const anf_type *number) {
  choice d = *c;
  anfi_arena *a = c->v->ad->arena;
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) n += anfi_item_count(c->lane[i]);
  bool *mask = ANFI_NEW_N(a, bool, n + 1);
  mask[0] = true;
  memcpy(mask + 1, c->mask, n);
  d.mask = mask;
  d.n = c->n + 1;
  d.lane = ANFI_NEW_N(a, const anf_type *, d.n);
  d.type = ANFI_NEW_N(a, const anf_type *, d.n);
  d.lane[0] = anfi_type_scalar(c->v->ad->m->cx, ANF_I64);
  d.type[0] = number;
  memcpy(d.lane + 1, c->lane, c->n * sizeof *d.lane);
  memcpy(d.type + 1, c->type, c->n * sizeof *d.type);
  return d;
}

static anf_node *many(const choice *c, anf_node *index, size_t nbranch, const lane_branch *branches,
                      anf_node *const *args) {
  anfi_batch *b = &c->v->b;
  anf_node *at = anfi_b_take(b, anfi_b_arange(b, 0, (int64_t)nbranch, 1), false, index, true, 0);
  if (!at) return NULL;
  choice d = numbered(c, at->type);
  lane_branch rest = with_number(&d, &branches[nbranch - 1]);
  for (size_t k = nbranch - 1; rest.g && k-- > 0;) {
    lane_branch first = with_number(&d, &branches[k]);
    if (!first.g) return NULL;
    rest = rest_of(&d, &first, &rest, (int64_t)k);
  }
  anf_node **in = ANFI_NEW_N(c->v->ad->arena, anf_node *, d.n);
  in[0] = at;
  memcpy(in + 1, args, c->n * sizeof *in);
  return rest.g ? call_branch(&d, b, &rest, in) : NULL;
}

/* ---- a choice that is called ---- */

static anf_node *same_for_all(anfi_vmap *v, const anf_node *call, const anf_node *sw,
                              anf_node *const *args) {
  anf_node **switch_in = ANFI_NEW_N(v->ad->arena, anf_node *, sw->nin);
  switch_in[0] = anfi_vmap_node(v, sw->in[0].def);
  for (uint32_t k = 1; k < sw->nin; k++)
    switch_in[k] = anfi_graph_value(anfi_vmap_made(v, anfi_flow_callee(&v->f, call, k)));
  anf_node *callee = anfi_apply(v->b.g, (anfi_opcode)sw->op, sw->u.attrs, sw->nin, switch_in);
  callee->debug = v->ad->how;
  const anf_type *t = anfi_vmap_type(v, call->type, anfi_flow_mask(&v->f, call));
  return anfi_ad_call_node(v->ad, v->b.g, callee, t, call->nin - 1u, args);
}

anf_node *anfi_vmap_choice(anfi_vmap *v, const anf_node *call, const anf_node *sw) {
  size_t n = call->nin - 1u;
  anfi_arena *a = v->ad->arena;
  anf_node **args = ANFI_NEW_N(a, anf_node *, n + 1);
  choice c = {.v = v, .n = n, .result = call->type, .effect = call->flags & ANFI_NODE_EFFECT};
  c.lane = ANFI_NEW_N(a, const anf_type *, n + 1);
  c.type = ANFI_NEW_N(a, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) args[i] = anfi_vmap_node(v, call->in[i + 1].def);
  if (!anfi_flow_mask(&v->f, sw->in[0].def)[0]) return same_for_all(v, call, sw, args);
  for (size_t i = 0; i < n; i++) {
    c.lane[i] = anfi_ad_type_of(v->ad, call->in[i + 1].def);
    c.type[i] = anfi_ad_type_of(v->ad, args[i]);
  }
  c.mask = anfi_flow_join_args(&v->f, call, 1);
  c.all = ANFI_NEW_N(a, bool, anfi_item_count(call->type) + 1);
  v->f.rules.all(call->type, c.all);
  lane_branch *branches = ANFI_NEW_N(a, lane_branch, sw->nin);
  for (uint32_t k = 1; k < sw->nin; k++)
    branches[k - 1] = branch_of(v, anfi_flow_callee(&v->f, call, k));
  for (uint32_t k = 1; k < sw->nin; k++)
    if (!anfi_vmap_whole(v, anfi_value_graph(sw->in[k].def), call, "a branch that lanes choose"))
      return NULL;
  anf_node *cond = anfi_vmap_node(v, sw->in[0].def);
  if (sw->op == ANF_OP_SwitchLayer) return many(&c, cond, sw->nin - 1u, branches, args);
  return choose_by_lane(&c, &v->b, cond, &branches[0], &branches[1], args);
}
