// SPDX-License-Identifier: Apache-2.0
/* Loop-invariant code motion.
 *   repeat: s = s + w * 2                ->  v = w * 2; repeat: s = s + v
 * A node of the step whose operands are invariants moves before the loop and becomes an invariant. A loop
 * that takes at least one iteration computes it anyway. A counted or guarded loop may take none: there only
 * speculatable nodes move, and calls only under the guard. The step is copied without the nodes that moved. */
#include "ir/loop.h"
#include "ir/ops/op.h"
#include "optimizer/loops/loop.h"

typedef struct {
  anfi_pass *pass;
  anfi_arena *a;
  anf_node *loop;
  anf_graph *step;
  /* its parts */
  bool may_skip; // counted or guarded: it has one more input
  anf_node *go;  // the guard, or NULL
  size_t nw;     // invariants so far
  bool *keep;    // by invariant: the rest of the step uses it
  /* what moves */
  anfi_node_vec order;  // of the step
  anfi_map outer;       // step node id -> its counterpart before the loop
  anfi_node_vec handed; // moved nodes that the rest of the step needs
} hoisting;

static bool is_moved(const hoisting *h, const anf_node *n) {
  return n->kind != ANFI_VALUE && anfi_map_find(&h->outer, n->id);
}

/* Broadcasts and fills cost nothing where they are used, and memory where they are stored. */
static bool grows(const anf_node *n) {
  size_t made, used = 0, k;
  if (anfi_op_of(n)->lower != ANFI_LOWER_INDEX_MAP) return false;
  if (n->type->kind != ANF_TYPE_TENSOR || !anfi_type_elements(n->type, &made)) return true;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_type *t = n->in[i].def->type;
    if (t && t->kind == ANF_TYPE_TENSOR && anfi_type_elements(t, &k)) used += k;
  }
  return made > used;
}

static bool is_real(const anf_type *t) {
  size_t n;
  return t && t->kind == ANF_TYPE_TENSOR && anfi_dtype_is_float((anf_dtype)t->dtype) &&
         anfi_type_elements(t, &n) && n > 0;
}

/* Ops on whole arrays fail for their shapes, or for an index. */
static bool is_safe(const anf_node *n) {
  if (anfi_is_total(n)) return true;
  switch (anfi_op_of(n)->lower) {
  case ANFI_LOWER_INDEX_MAP:
  case ANFI_LOWER_REDUCE:
  case ANFI_LOWER_CONTRACT:
  case ANFI_LOWER_WINDOW: break;
  default: return false;
  }
  for (uint32_t i = 0; i < n->nin; i++)
    if (!is_real(n->in[i].def->type)) return false;
  return true;
}

static bool may_move(const hoisting *h, const anf_node *n) {
  if (!n->type || !n->nin || (n->flags & ANFI_NODE_EFFECT)) return false;
  if (n->kind == ANFI_APPLY && ((anfi_op_of(n)->flags & ANFI_EFFECT) || grows(n))) return false;
  bool call = n->kind == ANFI_CALL;
  if (h->may_skip && !(call ? h->go && anfi_value_graph(n->in[0].def) : is_safe(n))) return false;
  for (uint32_t i = 0; i < n->nin; i++)
    if (n->in[i].def->kind != ANFI_VALUE && !is_moved(h, n->in[i].def)) return false;
  return true;
}

/* Moved nodes that the remaining nodes or the result use become invariants. */
static void hand_in(hoisting *h, anf_node *n, anfi_map *seen) {
  if (!is_moved(h, n)) return;
  if (n->kind == ANFI_PARAM) {
    h->keep[n->u.index] = true;
    return;
  }
  uint64_t *at = anfi_map_at(seen, n->id);
  if (!*at) anfi_push(h->a, &h->handed, n);
  *at = 1;
}

static bool find_moves(hoisting *h) {
  anfi_map seen;
  anfi_map_init(&h->outer, h->a);
  anfi_map_init(&seen, h->a);
  for (size_t i = 0; i < h->nw; i++)
    *anfi_map_at(&h->outer, h->step->params.at[i]->id) =
        anfi_key(h->loop->in[1 + h->may_skip + i].def);
  size_t moved = 0;
  h->keep = ANFI_NEW_N(h->a, bool, h->nw);
  for (size_t i = 0; i < h->order.n; i++) {
    anf_node *n = h->order.at[i];
    if (may_move(h, n)) *anfi_map_at(&h->outer, n->id) = anfi_key(n), moved++;
    else
      for (uint32_t k = 0; k < n->nin; k++) hand_in(h, n->in[k].def, &seen);
  }
  hand_in(h, h->step->result, &seen);
  return moved > 0;
}

static void add_param(anf_graph *g, const anf_node *like, anfi_map *copies) {
  anf_node *p = anfi_param(g, NULL, like->type);
  p->debug = like->debug;
  *anfi_map_at(copies, like->id) = anfi_key(p);
}

static anf_graph *copy_step(hoisting *h) {
  anf_graph *old = h->step, *g = anfi_graph_new(old->module, old->name);
  anfi_map copies;
  anfi_map_init(&copies, h->a);
  g->flags = old->flags;
  g->debug = old->debug;
  for (size_t i = 0; i < h->nw; i++)
    if (h->keep[i]) add_param(g, old->params.at[i], &copies);
  for (size_t i = 0; i < h->handed.n; i++) add_param(g, h->handed.at[i], &copies);
  for (size_t i = h->nw; i < old->params.n; i++) add_param(g, old->params.at[i], &copies);
  for (size_t i = 0; i < h->order.n; i++)
    if (!is_moved(h, h->order.at[i])) anfi_copy_node(h->a, g, h->order.at[i], &copies);
  anfi_set_result(g, anfi_copy_of(&copies, old->result));
  return g;
}

/* A call before a guarded loop is made if there is a round: else one of a graph that gives nothing. */
static void guard_call(const hoisting *h, anf_node *call) {
  const anf_graph *f = anfi_value_graph(call->in[0].def);
  anf_graph *none = anfi_graph_beside(f, "");
  for (size_t i = 0; i < f->params.n; i++) anfi_param(none, NULL, f->params.at[i]->type);
  anfi_set_result(none, anfi_undefined(none, call->type));
  anf_node *either =
      anfi_apply3(call->graph, ANF_OP_Switch, h->go, call->in[0].def, anfi_graph_value(none));
  either->debug = call->debug;
  anfi_set_input(call, 0, either);
}

static void rebuild(hoisting *h) {
  anf_node *l = h->loop, **in = ANFI_NEW_N(h->a, anf_node *, l->nin + h->handed.n);
  for (size_t i = 0; i < h->order.n; i++) { // before the loop
    if (!is_moved(h, h->order.at[i])) continue;
    anf_node *n = anfi_copy_node(h->a, l->graph, h->order.at[i], &h->outer);
    if (h->go && n->kind == ANFI_CALL) guard_call(h, n);
  }
  size_t n = 0, first = 1 + h->may_skip;
  in[n++] = anfi_graph_value(copy_step(h));
  if (h->may_skip) in[n++] = l->in[1].def;
  for (size_t i = 0; i < h->nw; i++)
    if (h->keep[i]) in[n++] = l->in[first + i].def;
  for (size_t i = 0; i < h->handed.n; i++) in[n++] = anfi_copy_of(&h->outer, h->handed.at[i]);
  int64_t nw = (int64_t)(n - first);
  for (size_t i = first + h->nw; i < l->nin; i++) in[n++] = l->in[i].def;
  anf_module *m = l->graph->module;
  const anfi_attrs *at =
      anfi_attrs_set(m, l, ANFI_LOOP_INVARIANT, anfi_value_new_i64(m->cx, ANF_INT, nw));
  anf_node *by = anfi_apply(l->graph, ANF_OP_Loop, at, n, in);
  by->type = l->type;
  by->debug = l->debug;
  anfi_substitute(l, by);
}

static bool hoist(anfi_pass *p, anfi_arena *a, anf_node *loop) {
  anfi_loop_op l = anfi_loop_parts(loop);
  if (!l.step || l.step->effects.n || !l.step->result) return false;
  hoisting h = {.pass = p, .a = a, .loop = loop, .step = l.step, .nw = l.nw, .go = l.go};
  h.may_skip = l.counted || l.go;
  anfi_graph_order(l.step, a, &h.order);
  if (!find_moves(&h) || !anfi_rewrite(p)) return false;
  rebuild(&h);
  return true;
}

bool anfi_opt_hoist(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  anfi_opt_tabulate(p, a);
  for (bool moved = true; moved;) { // out of as many loops as there are around
    moved = false;
    for (size_t i = 0; i < p->m->nodes.n; i++) { // new loops too: an inner one may move outwards
      anf_node *n = p->m->nodes.at[i];
      if (n && anfi_is_op(n, ANF_OP_Loop) && n->type && n->u.attrs) moved |= hoist(p, a, n);
    }
  }
  return true;
}
