// SPDX-License-Identifier: Apache-2.0
/* Functions whose lanes run one after the other.
 *   f(x) = for i in 0..n { if x[i] > 0 { s = s + x[i] } }     ->  Loop over lane l: ys[l] = f(xs[l])
 * Side by side, a branch that only some lanes take gets its arguments filled (branch.c). That costs a copy of every
 * array among them. Where a branch of a loop or a recursion only reads or writes elements of an array, the copies
 * would make linear programs quadratic. Straight programs, and branches that work on whole arrays, stay side by side. */
#include "autodiff/batch/vmap.h"
#include "base/mark.h"

enum { SMALL = 16 }; // elements that are filled without further ado

/* ---- does a branch in a loop copy arrays that it uses by element? ---- */

typedef struct {
  anfi_vmap *v;
  anfi_map seen; // graphs that run in a loop or a recursion
  ANFI_VEC(anf_graph *) todo;
} repeated;

static void add_graph(repeated *r, anf_graph *g) {
  uint64_t *at = anfi_map_at(&r->seen, anfi_key(g));
  if (*at) return;
  *at = 1;
  anfi_push(r->v->ad->arena, &r->todo, g);
}

static bool recursive(anfi_vmap *v, const anf_graph *g) {
  if (!v->an) v->an = anfi_analyse(v->ad->m);
  return g->id < v->an->ngraph && v->an->graphs[g->id].recursive;
}

/* Steps of loops, recursions, and what they refer to. */
static void find_repeated(repeated *r) {
  anfi_vmap *v = r->v;
  for (size_t i = 0; i < v->f.specs.n; i++) {
    anf_graph *g = v->f.specs.at[i]->graph;
    const anfi_node_vec *order = anfi_flow_order(&v->f, g);
    if (recursive(v, g)) add_graph(r, g);
    for (size_t k = 0; k < order->n; k++)
      if (anfi_is_op(order->at[k], ANF_OP_Loop)) add_graph(r, anfi_loop_parts(order->at[k]).step);
  }
  while (r->todo.n) {
    const anfi_node_vec *order = anfi_flow_order(&v->f, r->todo.at[--r->todo.n]);
    for (size_t k = 0; k < order->n; k++)
      for (uint32_t i = 0; i < order->at[k]->nin; i++) {
        anf_graph *g = anfi_value_graph(order->at[k]->in[i].def);
        if (g) add_graph(r, g);
      }
  }
}

/* An array that the graph uses, and by element: indices, or functions it calls. */
static bool by_element(const anf_node *param) {
  for (const anfi_use *u = param->uses; u; u = u->next) {
    const anf_node *n = u->user;
    bool passed = n->kind == ANFI_CALL || n->op == ANF_OP_MakeTuple || n->op == ANF_OP_Loop ||
                  n->op == ANF_OP_GetItem;
    if (!passed && strcmp(anfi_op_of(n)->family, "indexing") != 0) return false;
  }
  return param->uses != NULL;
}

static bool is_large(const anf_type *t) {
  size_t n;
  return t->kind == ANF_TYPE_TENSOR && t->n && (!anfi_type_elements(t, &n) || n > SMALL);
}

static bool copies_arrays(anfi_vmap *v, const anfi_flow_spec *s) {
  const bool *mask = s->in;
  for (size_t i = 0; i < s->graph->params.n; i++) {
    const anf_node *p = s->graph->params.at[i];
    const anf_type *t = anfi_ad_type_of(v->ad, p);
    if (*mask && is_large(t) && by_element(p)) return true;
    mask += anfi_item_count(t);
  }
  return false;
}

static bool choice_copies(anfi_vmap *v, const anf_node *call, const anf_node *choice) {
  bool safe = true, copies = false;
  if (!anfi_flow_mask(&v->f, choice->in[0].def)[0]) return false;
  for (uint32_t k = 1; k < choice->nin; k++) {
    anfi_flow_spec *s = anfi_flow_callee(&v->f, call, k);
    safe &= anfi_vmap_is_safe(v, s->graph);
    copies |= copies_arrays(v, s);
  }
  return copies && !safe;
}

static bool node_copies(anfi_vmap *v, const anf_node *n, bool repeats) {
  const anf_node *choice = n->kind == ANFI_CALL && repeats ? anfi_flow_choice(n) : NULL;
  if (choice) return choice_copies(v, n, choice);
  if (!anfi_is_op(n, ANF_OP_Loop)) return false;
  anfi_flow_loop p = anfi_flow_loop_of(&v->f, n);
  return p.freeze && !anfi_vmap_is_safe(v, p.l.step) && copies_arrays(v, p.step);
}

static bool copies_in_loops(anfi_vmap *v) {
  repeated r = {.v = v};
  anfi_map_init(&r.seen, v->ad->arena);
  find_repeated(&r);
  for (size_t i = 0; i < v->f.specs.n; i++) {
    anfi_flow_spec *s = v->f.specs.at[i];
    bool repeats = anfi_map_find(&r.seen, anfi_key(s->graph)) != NULL;
    const anfi_node_vec *order = anfi_flow_order(&v->f, s->graph);
    anfi_flow_visit(&v->f, s);
    for (size_t k = 0; k < order->n; k++)
      if (node_copies(v, order->at[k], repeats)) return true;
  }
  return false;
}

/* ---- can the results of lanes be collected? ---- */

static bool collects(const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) return anfi_is_static(t) && t->dtype != ANF_KEY;
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; nest && i < t->n; i++) nest = collects(t->items[i]);
  return nest;
}

bool anfi_vmap_is_serial(anfi_vmap *v, const anfi_flow_spec *root) {
  return v->size > 0 && !anfi_vmap_is_named(v, root->graph) &&
         collects(anfi_ad_type_of(v->ad, root->graph->result)) &&
         !anfi_has_effects(v->ad, root->graph) && copies_in_loops(v);
}

/* ---- the loop over lanes ---- */

/* Lane i of x, of type t for one lane. */
static anf_node *lane_of(const anfi_batch *b, anf_node *x, const anf_type *t, const bool **mask,
                         anf_node *i) {
  if (!anfi_is_nest(t)) {
    bool batched = *(*mask)++;
    anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Take, NULL);
    if (!batched || t->kind != ANF_TYPE_TENSOR) return x;
    anfi_edit_int(&e, "axis", 0);
    return anfi_b_apply(b, ANF_OP_Take, anfi_edit_done(&e), 2, (anf_node *const[]){x, i});
  }
  anf_node **items = ANFI_NEW_N(b->ad->arena, anf_node *, t->n + 1);
  for (uint32_t k = 0; k < t->n; k++)
    if (!(items[k] = lane_of(b, anfi_nest_item(b, x, k), t->items[k], mask, i))) return NULL;
  return anfi_nest_of(b, t, items);
}

/* The tensors of x, which is of type t, in order. */
static size_t put_items(const anfi_batch *b, anf_node *x, const anf_type *t, anf_node **out) {
  if (!anfi_is_nest(t)) return *out = x, 1;
  size_t n = 0;
  for (uint32_t k = 0; k < t->n; k++)
    n += put_items(b, anfi_nest_item(b, x, k), t->items[k], out + n);
  return n;
}

static size_t put_types(const anf_type *t, const anf_type **out) {
  if (!anfi_is_nest(t)) return *out = t, 1;
  size_t n = 0;
  for (uint32_t k = 0; k < t->n; k++) n += put_types(t->items[k], out + n);
  return n;
}

/* A value of type t of its tensors; *at moves on. */
static anf_node *of_items(const anfi_batch *b, const anf_type *t, anf_node ***at) {
  if (!anfi_is_nest(t)) return *(*at)++;
  anf_node **items = ANFI_NEW_N(b->ad->arena, anf_node *, t->n + 1);
  for (uint32_t k = 0; k < t->n; k++) items[k] = of_items(b, t->items[k], at);
  return anfi_nest_of(b, t, items);
}

static anf_node *zeros(const anfi_batch *b, const anf_type *lane) {
  const anf_type *t = anfi_batched_type(b->ad->m->cx, lane, b->size);
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
  anfi_edit_ints(&e, "shape", t->n, t->dims);
  anfi_edit_set(
      &e, "dtype",
      anfi_value_new_type(b->ad->m->cx, anfi_type_scalar(b->ad->m->cx, (anf_dtype)t->dtype)));
  return anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
}

/* (params.., l, ys..) -> (l + 1, ys[l] = f(params[l])..) */
static anf_graph *lane_step(anfi_vmap *v, const anfi_flow_spec *root, const anf_graph *like,
                            size_t n, anf_node *const *room) {
  anfi_ad *ad = v->ad;
  anf_graph *g = anfi_graph_beside(root->graph, ANFI_BATCHED ANFI_BODY);
  anfi_batch b = anfi_vmap_in(v, g, NULL);
  size_t np = like->params.n;
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, np + 1),
           **y = ANFI_NEW_N(ad->arena, anf_node *, n + 1),
           **out = ANFI_NEW_N(ad->arena, anf_node *, n + 1);
  for (size_t i = 0; i < np; i++) in[i] = anfi_vmap_param(g, like->params.at[i]->type);
  anf_node *lane = anfi_vmap_param(g, anfi_type_scalar(ad->m->cx, ANF_I64));
  const bool *mask = root->in;
  for (size_t i = 0; i < np; i++)
    if (!(in[i] = lane_of(&b, in[i], anfi_ad_type_of(ad, root->graph->params.at[i]), &mask, lane)))
      return NULL;
  put_items(&b, anfi_ad_call(ad, g, root->graph, NULL, np, in),
            anfi_ad_type_of(ad, root->graph->result), y);
  anfi_attr_edit e = anfi_edit_attrs(ad, ANF_OP_IndexWrite, NULL);
  anfi_edit_int(&e, "axis", 0);
  const anfi_attrs *first = anfi_edit_done(&e);
  out[0] = anfi_b_2(&b, ANF_OP_Add, lane, anfi_b_i64(&b, 1));
  for (size_t k = 0; k < n; k++) {
    anf_node *acc = anfi_vmap_param(g, room[k]->type);
    out[k + 1] =
        anfi_b_apply(&b, ANF_OP_IndexWrite, first, 3, (anf_node *const[]){acc, lane, y[k]});
    if (!out[k + 1]) return NULL;
  }
  anfi_set_result(g, anfi_ad_tuple(ad, g, n + 1, out));
  return g;
}

/* The results of all lanes; an item that is no batch is that of lane 0. */
static bool set_results(const anfi_batch *b, const anfi_flow_spec *root, size_t n, anf_node *loop) {
  anf_node **item = ANFI_NEW_N(b->ad->arena, anf_node *, n + 1), **at = item;
  bool *all = ANFI_NEW_N(b->ad->arena, bool, n + 1);
  for (size_t k = 0; k < n; k++) all[k] = true;
  for (size_t k = 0; k < n; k++) {
    const bool *mask = all;
    item[k] = anfi_ad_get(b->ad, b->g, loop, k + 1);
    if (!root->out[k])
      item[k] = lane_of(b, item[k], anfi_ad_type_of(b->ad, item[k]), &mask, anfi_b_i64(b, 0));
    if (!item[k]) return false;
  }
  anfi_set_result(b->g, of_items(b, anfi_ad_type_of(b->ad, root->graph->result), &at));
  return true;
}

bool anfi_vmap_serially(anfi_vmap *v, const anfi_flow_spec *root, anf_graph *made) {
  anfi_ad *ad = v->ad;
  const anf_type *result = anfi_ad_type_of(ad, root->graph->result);
  size_t n = anfi_item_count(result), np = made->params.n;
  anfi_batch b = anfi_vmap_in(v, made, NULL);
  const anf_type **types = ANFI_NEW_N(ad->arena, const anf_type *, n + 1);
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, np + n + 1);
  put_types(result, types);
  if (np) memcpy(in, made->params.at, np * sizeof *in);
  in[np] = anfi_b_i64(&b, 0);
  for (size_t k = 0; k < n; k++)
    if (!(in[np + 1 + k] = zeros(&b, types[k]))) return false;
  anf_graph *step = lane_step(v, root, made, n, in + np + 1);
  if (!step) return false;
  anfi_loop_op parts = {.step = step, .n = anfi_b_i64(&b, v->size), .nw = np, .ns = n + 1};
  return set_results(&b, root, n, anfi_ad_loop(ad, made, &parts, in));
}
