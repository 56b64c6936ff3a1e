// SPDX-License-Identifier: Apache-2.0
/* vmap: ⇉G(mask) is G with the items in the mask batched.
 *   ⇉f({x}), f(x, w) = x * w             f'(x: f32[n], w) = x * w
 * Masks come from flow.h; ops go by their batching rules (batch.h), choices and loops by branch.c and loop.c.
 * INVARIANT: a node of ⇉G is batched where its mask says so. All ⇉ graphs are made before any of them is
 * filled, so recursion is no special case. */
#include "autodiff/batch/vmap.h"
#include "base/mark.h"

/* ---- items ---- */

size_t anfi_item_count(const anf_type *t) {
  size_t n = 0;
  if (!anfi_is_nest(t)) return 1;
  for (uint32_t i = 0; i < t->n; i++) n += anfi_item_count(t->items[i]);
  return n;
}

static bool can_batch(const anf_type *t) {
  return t->kind == ANF_TYPE_TENSOR || t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK;
}

static void mark_all(const anf_type *t, bool *out) {
  if (!anfi_is_nest(t)) {
    *out = can_batch(t);
    return;
  }
  for (uint32_t i = 0; i < t->n; i++) {
    mark_all(t->items[i], out);
    out += anfi_item_count(t->items[i]);
  }
}

static const anf_type *batched_type(anfi_vmap *v, const anf_type *t, const bool **mask) {
  if (!anfi_is_nest(t)) {
    bool batched = *(*mask)++;
    return batched && t->kind == ANF_TYPE_TENSOR ? anfi_batched_type(v->ad->m->cx, t, v->size) : t;
  }
  const anf_type **items = ANFI_NEW_N(v->ad->arena, const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) items[i] = batched_type(v, t->items[i], mask);
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(v->ad->m->cx, t->n, items)
                                   : anfi_type_record(v->ad->m->cx, t->n, t->names, items);
}

const anf_type *anfi_vmap_type(anfi_vmap *v, const anf_type *t, const bool *mask) {
  return batched_type(v, t, &mask);
}

/* ---- counterparts in the batched graph ---- */

anf_node *anfi_vmap_param(anf_graph *g, const anf_type *t) {
  anf_node *p = anfi_param(g, NULL, t);
  p->type = t;
  return p;
}

anf_node *anfi_vmap_node(anfi_vmap *v, const anf_node *old) {
  if (old->kind == ANFI_PARAM) return v->param[old->u.index];
  if (old->kind == ANFI_VALUE) return (anf_node *)(uintptr_t)(const void *)old;
  return v->node[*anfi_map_find(&v->f.local, old->id)];
}

anfi_batch anfi_vmap_in(const anfi_vmap *v, anf_graph *g, anf_node *like) {
  return (anfi_batch){.ad = v->ad, .g = g, .size = v->size, .like = like};
}

anf_graph *anfi_vmap_made(anfi_vmap *v, anfi_flow_spec *s) {
  if (s->made) return s->made;
  if (!anfi_flow_any(s->in, s->nin) && !anfi_flow_any(s->out, s->nout) &&
      !anfi_vmap_is_named(v, s->graph))
    return s->made = s->graph;
  s->made = anfi_graph_beside(s->graph, ANFI_BATCHED);
  const bool *mask = s->in;
  for (size_t i = 0; i < s->graph->params.n; i++) {
    anf_node *old = s->graph->params.at[i];
    const anf_type *t = anfi_ad_type_of(v->ad, old);
    anf_node *p = anfi_vmap_param(s->made, anfi_vmap_type(v, t, mask));
    p->debug = old->debug;
    mask += anfi_item_count(t);
  }
  anfi_push(v->ad->arena, &v->todo, s);
  return s->made;
}

anf_node *anfi_nest_item(const anfi_batch *b, anf_node *x, size_t i) {
  const anf_type *t = anfi_ad_type_of(b->ad, x);
  if (t->kind == ANF_TYPE_TUPLE) return anfi_ad_get(b->ad, b->g, x, i);
  if (anfi_is_op(x, ANF_OP_MakeRecord)) return x->in[i].def;
  anf_value *name = anfi_value_new_string(b->ad->m->cx, t->names[i]->s, t->names[i]->len);
  return anfi_b_apply(b, ANF_OP_RecordGet, anfi_attrs_one(b->ad->m, ANF_OP_RecordGet, name), 1, &x);
}

anf_node *anfi_nest_of(const anfi_batch *b, const anf_type *t, anf_node **items) {
  if (t->kind == ANF_TYPE_TUPLE) return anfi_ad_tuple(b->ad, b->g, t->n, items);
  anf_ctx *cx = b->ad->m->cx;
  anf_value *names = anfi_value_new_tuple(cx, t->n);
  anfi_value_guard(names);
  for (uint32_t i = 0; i < t->n; i++)
    names->u.item[i] = anfi_value_new_string(cx, t->names[i]->s, t->names[i]->len);
  anfi_value_unguard(names);
  const anfi_attrs *at = anfi_attrs_one(b->ad->m, ANF_OP_MakeRecord, names);
  return anfi_b_apply(b, ANF_OP_MakeRecord, at, t->n, items);
}

/* Any batched tensor among the parts of x. */
static anf_node *find_lanes(const anfi_batch *b, anf_node *x, const anf_type *t, const bool *mask) {
  if (!anfi_is_nest(t)) return *mask && t->kind == ANF_TYPE_TENSOR ? x : NULL;
  for (uint32_t i = 0; i < t->n; i++) {
    size_t n = anfi_item_count(t->items[i]);
    if (anfi_flow_any(mask, n)) {
      anf_node *it = find_lanes(b, anfi_nest_item(b, x, i), t->items[i], mask);
      if (it) return it;
    }
    mask += n;
  }
  return NULL;
}

/* Spreads a box or stack; an undefined one stays undefined for all lanes. */
static anf_node *spread_storage(anfi_batch *b, anf_node *x) {
  if (anfi_is_op(x, ANF_OP_Undef)) return x;
  return anfi_b_2(b, ANF_OP_ResidualSpread, x, anfi_b_lanes(b));
}

typedef struct {
  anfi_vmap *v;
  anfi_batch *b;
  const bool *has, *want;
} raising;

static anf_node *raise_item(raising *r, anf_node *x, const anf_type *t) {
  bool has = *r->has++, want = *r->want++;
  if (!x || has == want) return x;
  if (t->kind == ANF_TYPE_TENSOR) return anfi_b_spread(r->b, x);
  return spread_storage(r->b, x);
}

static anf_node *raise_nest(raising *r, anf_node *x, const anf_type *t) {
  if (!anfi_is_nest(t)) return raise_item(r, x, t);
  size_t n = anfi_item_count(t);
  if (!x || memcmp(r->has, r->want, n) == 0) {
    r->has += n;
    r->want += n;
    return x;
  }
  anf_node **items = ANFI_NEW_N(r->v->ad->arena, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) {
    items[i] = raise_nest(r, anfi_nest_item(r->b, x, i), t->items[i]);
    if (!items[i]) return NULL;
  }
  return anfi_nest_of(r->b, t, items);
}

anf_node *anfi_vmap_raise(anfi_vmap *v, anfi_batch *b, anf_node *x, const anf_type *t,
                          const bool *has, const bool *want) {
  raising r = {v, b, has, want};
  return raise_nest(&r, x, t);
}

/* ---- nodes ---- */

/* The same op on batched inputs. */
static anf_node *unchanged(anfi_vmap *v, const anf_node *n, anf_node *const *in) {
  if (n->op == ANF_OP_TupleGet || n->op == ANF_OP_RecordGet)
    return anfi_nest_item(&v->b, in[0], anfi_flow_item(&v->f, n));
  if (n->op == ANF_OP_Identity) return in[0];
  return anfi_b_apply(&v->b, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
}

/* Every item that differs is a tensor: the op's rule. */
static anf_node *by_rule(anfi_vmap *v, const anf_node *n, anf_node *const *in) {
  bool *batched = ANFI_NEW_N(v->ad->arena, bool, n->nin + 1u);
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, n->in[i].def);
    batched[i] = anfi_flow_any(anfi_flow_mask(&v->f, n->in[i].def), anfi_item_count(t));
  }
  if (anfi_vmap_names(v, n)) return anfi_vmap_over_lanes(v, n, n->nin ? in[0] : NULL, batched[0]);
  return anfi_batch_op(&v->b, n, in, batched);
}

/* Boxes and stacks: all that is in a batched one is batched. */
static anf_node *storage_op(anfi_vmap *v, const anf_node *n, anf_node **in) {
  bool *all = ANFI_NEW_N(v->ad->arena, bool, anfi_item_count(n->type) + 1);
  if (!anfi_flow_mask(&v->f, n->op == ANF_OP_Unbox ? n->in[0].def : n)[0])
    return unchanged(v, n, in);
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, n->in[i].def);
    bool *want = ANFI_NEW_N(v->ad->arena, bool, anfi_item_count(t) + 1);
    mark_all(t, want);
    in[i] = anfi_vmap_raise(v, &v->b, in[i], t, anfi_flow_mask(&v->f, n->in[i].def), want);
    if (!in[i]) return NULL;
  }
  if (n->op != ANF_OP_Unbox) return unchanged(v, n, in);
  mark_all(n->type, all);
  anf_value *of = anfi_value_new_type(v->ad->m->cx, anfi_vmap_type(v, n->type, all));
  return anfi_b_apply(&v->b, ANF_OP_Unbox, anfi_attrs_one(v->ad->m, ANF_OP_Unbox, of), 1, in);
}

static bool is_storage_op(const anf_node *n) {
  return n->op == ANF_OP_Box || n->op == ANF_OP_Unbox || n->op == ANF_OP_ResidualAdd ||
         n->op == ANF_OP_ResidualZeros || n->op == ANF_OP_ResidualSelect ||
         n->op == ANF_OP_ResidualSpread;
}

/* A choice of data, by lane if the condition differs. */
static anf_node *choice_of_data(anfi_vmap *v, const anf_node *n, anf_node *const *in) {
  const bool *mask = anfi_flow_mask(&v->f, n);
  anf_node **branch = ANFI_NEW_N(v->ad->arena, anf_node *, n->nin + 1u);
  branch[0] = in[0];
  for (uint32_t i = 1; i < n->nin; i++) {
    branch[i] =
        anfi_vmap_raise(v, &v->b, in[i], n->type, anfi_flow_mask(&v->f, n->in[i].def), mask);
    if (!branch[i]) return NULL;
  }
  if (!anfi_flow_mask(&v->f, n->in[0].def)[0]) {
    anf_node *y = anfi_apply(v->b.g, (anfi_opcode)n->op, n->u.attrs, n->nin, branch);
    return anfi_ad_typed(v->ad, y, anfi_vmap_type(v, n->type, mask));
  }
  if (n->op == ANF_OP_Switch)
    return anfi_vmap_select(v, &v->b, branch[0], branch[1], branch[2], n->type);
  anf_node *y = branch[n->nin - 1];
  anf_node *at =
      anfi_b_take(&v->b, anfi_b_arange(&v->b, 0, n->nin - 1, 1), false, branch[0], true, 0);
  for (uint32_t i = n->nin - 2; i >= 1; i--) {
    anf_node *is = anfi_b_2(&v->b, ANF_OP_Equal, at, anfi_b_i64(&v->b, i - 1));
    y = anfi_vmap_select(v, &v->b, is, branch[i], y, n->type);
  }
  return y;
}

static anf_node *call_of(anfi_vmap *v, const anf_node *n) {
  const anf_node *choice = anfi_flow_choice(n);
  if (choice) return anfi_vmap_choice(v, n, choice);
  anfi_flow_spec *s = anfi_flow_callee(&v->f, n, 0);
  anf_node **args = ANFI_NEW_N(v->ad->arena, anf_node *, n->nin);
  for (uint32_t i = 1; i < n->nin; i++) args[i - 1] = anfi_vmap_node(v, n->in[i].def);
  const anf_type *t = anfi_vmap_type(v, n->type, s->out);
  return anfi_ad_call(v->ad, v->b.g, anfi_vmap_made(v, s), t, n->nin - 1u, args);
}

static anf_node *recomputed(anfi_vmap *v, const anf_node *n, anf_node **in) {
  anfi_flow_spec *s = anfi_flow_callee(&v->f, n, 0);
  in[0] = anfi_graph_value(anfi_vmap_made(v, s));
  anf_node *y = anfi_apply(v->b.g, ANF_OP_Recompute, n->u.attrs, n->nin, in);
  return anfi_ad_typed(v->ad, y, anfi_vmap_type(v, n->type, s->out));
}

typedef struct {
  anfi_vmap *v;
  anfi_flow_spec *root;
  anf_graph *made;
} batch_of;

static batch_of begin(anfi_ad *ad, anf_graph *g, const bool *in, int64_t size,
                      const anf_value *name);
static bool fill(const batch_of *q);

static bool raise_result(anfi_vmap *v, const anf_graph *g, anf_graph *made, const bool *in,
                         const bool *out) {
  const anf_type *to = anfi_ad_type_of(v->ad, g->result);
  bool *want = ANFI_NEW_N(v->ad->arena, bool, anfi_item_count(to) + 1);
  mark_all(to, want);
  anfi_batch b = anfi_vmap_in(v, made, NULL);
  for (size_t i = 0; i < g->params.n && !b.like; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, g->params.at[i]);
    b.like = find_lanes(&b, made->params.at[i], t, in);
    in += anfi_item_count(t);
  }
  anf_node *y = anfi_vmap_raise(v, &b, made->result, to, out, want);
  if (y && y != made->result) anfi_set_result(made, y);
  return y != NULL;
}

/* g with parameters batched as the mask says, and its results; `known`: to rules in it, which may call it. */
static anf_graph *make_batched(anfi_vmap *v, anf_graph *g, const bool *in, bool known) {
  if (!v->ad->nlanes++) anfi_map_init(&v->ad->lanes, v->ad->arena);
  batch_of q = begin(v->ad, g, in, v->size, v->name);
  if (known) *anfi_map_at(&v->ad->lanes, anfi_key(g)) = anfi_key(q.made);
  bool good = fill(&q) && raise_result(v, g, q.made, in, q.root->out);
  v->ad->nlanes--;
  return good ? q.made : NULL;
}

/* A function whose arguments and results are all batched. A rule may call the function that it is for, so what is being made is
 * known before it has a body; later ones are made anew, since g may be another one then. */
static anf_graph *all_batched(anfi_vmap *v, anf_graph *g) {
  const uint64_t *known = v->ad->nlanes ? anfi_map_find(&v->ad->lanes, anfi_key(g)) : NULL;
  if (known) return (anf_graph *)(uintptr_t)*known;
  size_t n = 0;
  for (size_t i = 0; i < g->params.n; i++) n += anfi_item_count(g->params.at[i]->type);
  bool *in = ANFI_NEW_N(v->ad->arena, bool, n + 1), *at = in;
  for (size_t i = 0; i < g->params.n; i++) {
    mark_all(g->params.at[i]->type, at);
    at += anfi_item_count(g->params.at[i]->type);
  }
  return make_batched(v, g, in, true);
}

static bool is_batched(anfi_vmap *v, const anf_node *n) {
  return anfi_flow_any(anfi_flow_mask(&v->f, n), anfi_item_count(anfi_ad_type_of(v->ad, n)));
}

/* Marks the items of t as the input of n is batched. */
static bool *mark_as(anfi_vmap *v, const anf_node *n, uint32_t input, const anf_type *t, bool *at) {
  if (is_batched(v, n->in[input].def)) mark_all(t, at);
  return at + anfi_item_count(t);
}

/* Of kind jvp: f or its rule (which takes tuples of the arguments and of their tangents), with those arguments batched that are so,
 * and their tangents. The adjoint of another one is the sum over the lanes. */
static anf_graph *batched_as(anfi_vmap *v, const anf_node *n, uint32_t which) {
  anf_graph *g = anfi_value_graph(n->in[which].def);
  size_t count = 0;
  for (size_t i = 0; i < g->params.n; i++) count += anfi_item_count(g->params.at[i]->type);
  bool *in = ANFI_NEW_N(v->ad->arena, bool, count + 1),
       *at = mark_as(v, n, which + 3, g->params.at[0]->type, in);
  for (uint32_t i = 1; i < g->params.n; i++) {
    const anf_type *t = g->params.at[i]->type;
    if (which != 1) at = mark_as(v, n, i + 5, t, at);
    for (uint32_t k = 0; which == 1 && k < t->n; k++) at = mark_as(v, n, k + 6, t->items[k], at);
  }
  return make_batched(v, g, in, false);
}

/* Are those arguments batched that are so, and no others? Within a rule, all are, as the rule may call its function. */
static bool is_batched_as(anfi_vmap *v, const anf_node *n) {
  const anf_value *kind = anfi_attr_value(v->ad->m->cx, ANF_OP_Custom, n->u.attrs, 0);
  bool some = false;
  for (uint32_t i = 6; i < n->nin; i++) some |= is_batched(v, n->in[i].def);
  return some && !v->ad->nlanes && strcmp(kind->u.text, "jvp") == 0;
}

/* Custom(f, fwd, bwd, fdata, fwddata, bwddata, args..): the batches of all three, of kind vjp with all arguments batched, so
 * that what the forward rule saves and the gradients that the backward rule gives are batched too. */
static anf_node *custom_of(anfi_vmap *v, const anf_node *n, anf_node **in) {
  bool any = false, exact = is_batched_as(v, n);
  for (uint32_t i = 3; i < n->nin; i++) any |= is_batched(v, n->in[i].def);
  for (uint32_t i = 0; i < 3; i++) any |= anfi_vmap_is_named(v, anfi_value_graph(n->in[i].def));
  for (uint32_t i = 0; any && i < n->nin; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, n->in[i].def);
    bool *want = i < 3 ? NULL : ANFI_NEW_N(v->ad->arena, bool, anfi_item_count(t) + 1);
    const anf_node *at = v->ad->at;
    if (i < 3) {
      anf_graph *old = anfi_value_graph(n->in[i].def),
                *g = exact ? batched_as(v, n, i) : all_batched(v, old);
      in[i] = g ? anfi_graph_value(g) : NULL;
    } else if (!exact || is_batched(v, n->in[i].def)) {
      mark_all(t, want);
      in[i] = anfi_vmap_raise(v, &v->b, in[i], t, anfi_flow_mask(&v->f, n->in[i].def), want);
    }
    v->ad->at = at;
    if (!in[i]) return NULL;
  }
  anf_node *y = anfi_apply(v->b.g, ANF_OP_Custom, n->u.attrs, n->nin, in);
  return anfi_ad_typed(v->ad, y, anfi_vmap_type(v, n->type, anfi_flow_mask(&v->f, n)));
}

static anf_node *apply_of(anfi_vmap *v, const anf_node *n) {
  anf_node **in = ANFI_NEW_N(v->ad->arena, anf_node *, n->nin + 1u);
  if (n->op == ANF_OP_Loop) return anfi_vmap_loop(v, n);
  for (uint32_t i = 0; i < n->nin; i++) {
    in[i] = anfi_value_graph(n->in[i].def) ? n->in[i].def : anfi_vmap_node(v, n->in[i].def);
    if (!in[i]) return NULL;
  }
  if (n->op == ANF_OP_Recompute) return recomputed(v, n, in);
  if (n->op == ANF_OP_Custom) return custom_of(v, n, in);
  if (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) return choice_of_data(v, n, in);
  if (n->op == ANF_OP_Undef || anfi_flow_parts(&v->f, n)) return unchanged(v, n, in);
  return is_storage_op(n) ? storage_op(v, n, in) : by_rule(v, n, in);
}

/* A user raises an input that is less batched than its mask: masks are exact here but
 * for results that had to be raised. */
static bool fill_graph(anfi_vmap *v, anfi_flow_spec *s) {
  const anfi_node_vec *order = anfi_flow_order(&v->f, s->graph);
  anfi_flow_visit(&v->f, s);
  v->now = s;
  v->param = s->made->params.at;
  v->node = ANFI_NEW_N(v->ad->arena, anf_node *, order->n + 1);
  v->b = anfi_vmap_in(v, s->made, NULL);
  const bool *mask = s->in;
  for (size_t i = 0; i < s->graph->params.n && !v->b.like; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, s->graph->params.at[i]);
    v->b.like = find_lanes(&v->b, v->param[i], t, mask);
    mask += anfi_item_count(t);
  }
  for (size_t i = 0; i < order->n; i++) {
    anf_node *n = order->at[i];
    if (anfi_flow_is_callee(n)) continue;
    v->ad->at = n;
    anf_node *y = n->kind == ANFI_CALL ? call_of(v, n) : apply_of(v, n);
    if (!y) return false;
    v->node[i] = y;
    bool effect = (n->flags & ANFI_NODE_EFFECT) && y->graph == s->made;
    if (effect && y->kind == n->kind)
      anfi_add_effect(s->made, y); // else the choice has added its calls
  }
  const anf_node *r = s->graph->result;
  anf_node *y = anfi_vmap_raise(v, &v->b, anfi_vmap_node(v, r), anfi_ad_type_of(v->ad, r),
                                anfi_flow_mask(&v->f, r), s->out);
  if (y) anfi_set_result(s->made, y);
  return y != NULL;
}

/* ---- the transform ---- */

static void flow_op(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  bool *batched = ANFI_NEW_N(f->a, bool, n->nin + 1u), any;
  for (uint32_t i = 0; i < n->nin; i++)
    batched[i] = anfi_flow_any(anfi_flow_mask(f, n->in[i].def),
                               anfi_item_count(anfi_ad_type_of(f->ad, n->in[i].def)));
  const anfi_vmap *v = (const anfi_vmap *)(const void *)f; // its first member
  any = anfi_vmap_names(v, n) ? n->op == ANF_OP_LaneIndex : anfi_batch_flows(f->ad, n, batched);
  mark_all(n->type, out);
  for (size_t i = 0; i < nout; i++) out[i] &= any;
}

static batch_of begin(anfi_ad *ad, anf_graph *g, const bool *in, int64_t size,
                      const anf_value *name) {
  anfi_vmap *v = ANFI_NEW(ad->arena, anfi_vmap);
  v->ad = ad;
  v->size = size;
  v->name = name;
  anfi_vmap_find_named(v);
  const anfi_flow_rules rules = {
      .count = anfi_item_count, .op = flow_op, .all = mark_all, .batch = true};
  anfi_flow_spec *root = anfi_flow_solve(&v->f, ad, &rules, g, in);
  return (batch_of){v, root, anfi_vmap_made(v, root)};
}

static bool fill(const batch_of *q) {
  anfi_vmap *v = q->v;
  if (q->made != q->root->graph && anfi_vmap_is_serial(v, q->root))
    return anfi_vmap_serially(v, q->root, q->made);
  while (v->todo.n)
    if (!fill_graph(v, v->todo.at[--v->todo.n])) return false;
  return true;
}

anf_graph *anfi_vmap_graph(anfi_ad *ad, anf_graph *g, const bool *in, int64_t size,
                           const anf_value *name, const bool **out) {
  batch_of q = begin(ad, g, in, size, name);
  *out = q.root->out;
  return fill(&q) ? q.made : NULL;
}

/* ---- Derive nodes: axes are ((axis of each item of the arguments..), (of the result..)) ---- */

typedef struct {
  anfi_batch b;
  const anf_value *axes; // -1: none
  size_t next;           // item
  bool *mask;
} boundary;

static int64_t next_axis(boundary *e) { return anfi_get_i64(e->axes->u.item[e->next], 0); }

/* Items with their batch axis in front. */
static anf_node *to_front(boundary *e, anf_node *x) {
  const anf_type *t = anfi_ad_type_of(e->b.ad, x);
  if (!anfi_is_nest(t)) {
    int64_t axis = next_axis(e);
    e->mask[e->next++] = axis >= 0;
    if (axis < 0) return x;
    if (t->dims[axis] >= 0) e->b.size = t->dims[axis];
    anf_node *y = anfi_b_move(&e->b, x, (size_t)axis, 0);
    if (!e->b.like) e->b.like = y;
    return y;
  }
  anf_node **items = ANFI_NEW_N(e->b.ad->arena, anf_node *, t->n + 1);
  bool same = true;
  for (uint32_t i = 0; i < t->n; i++) {
    anf_node *old = anfi_nest_item(&e->b, x, i);
    if (!(items[i] = to_front(e, old))) return NULL;
    same &= items[i] == old;
  }
  return same ? x : anfi_nest_of(&e->b, t, items);
}

static anf_node *to_place(boundary *e, anf_node *x) {
  const anf_type *t = anfi_ad_type_of(e->b.ad, x);
  if (!anfi_is_nest(t)) {
    int64_t axis = next_axis(e);
    bool batched = e->mask[e->next++];
    if (axis < 0 && batched && t->kind == ANF_TYPE_TENSOR) {
      anfi_fail(e->b.ad->m->cx, anfi_node_loc(e->b.ad->at), ANF_E0713, e->next);
      return NULL;
    }
    return axis < 0 ? x
                    : anfi_b_move(&e->b, batched ? x : anfi_b_spread(&e->b, x), 0, (size_t)axis);
  }
  anf_node **items = ANFI_NEW_N(e->b.ad->arena, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(items[i] = to_place(e, anfi_nest_item(&e->b, x, i)))) return NULL;
  return anfi_nest_of(&e->b, t, items);
}

anf_node *anfi_expand_vmap(anfi_ad *ad, anf_node *n) {
  anf_graph *f = anfi_value_graph(n->in[0].def);
  if (!(n->flags & ANFI_NODE_EFFECT)) f = anfi_without_effects(ad, f);
  const anf_value *axes = anfi_attr_value(ad->m->cx, ANF_OP_Derive, n->u.attrs, 3);
  size_t np = f->params.n;
  ad->at = n;
  ad->how = anfi_debug_derive(ad->m, n->debug, "batch of");
  boundary in = {.b = {.ad = ad, .g = n->graph, .size = ANF_DIM_UNKNOWN}, .axes = axes->u.item[0]};
  in.mask = ANFI_NEW_N(ad->arena, bool, in.axes->n + 1);
  anf_node **args = ANFI_NEW_N(ad->arena, anf_node *, np + 1);
  for (size_t i = 0; i < np; i++)
    if (!(args[i] = to_front(&in, n->in[i + 1].def))) return NULL;
  const bool *out = NULL;
  const anf_value *name = anfi_attr_value(ad->m->cx, ANF_OP_Derive, n->u.attrs, 5);
  if (name->kind == ANF_VALUE_NONE) name = NULL;
  anf_graph *v = anfi_vmap_graph(ad, f, in.mask, in.b.size, name, &out);
  if (!v) return NULL;
  ad->how = anfi_debug_derive(ad->m, n->debug, "batch of");
  ad->at = n;
  anf_node *y = anfi_ad_call(ad, n->graph, v, NULL, np, args);
  anfi_expand_effect(n, y);
  boundary to = {.b = in.b, .axes = axes->u.item[1]};
  to.mask = ANFI_NEW_N(ad->arena, bool, to.axes->n + 1);
  memcpy(to.mask, out, to.axes->n);
  return to_place(&to, y);
}
