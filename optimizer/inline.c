// SPDX-License-Identifier: Apache-2.0
/* Inlining of direct calls in a closed module.
 *   f(x) = g(x) + 1; g(y) = y * y        ->  f(x) = x * x + 1
 * First graphs with one use move into their caller, each straight to its final one, so a chain of calls costs
 * its size once. Then small graphs are copied, callees before callers, until the caller has doubled.
 * Recursive graphs stay calls; loops/ turns tail recursion into Loop. */
#include "optimizer/opt.h"
#include "ir/worklist.h"

enum { TRIVIAL = 2, SMALL = 40, SLACK = 200 };

typedef struct {
  anfi_pass *pass;
  anfi_arena *a;
  const anf_analysis *an;
  uint32_t *size; // by graph id, of graphs that are done
} inlining;

/* Is g called once, not used otherwise, and not known to the host? */
static bool used_once(const anf_graph *g) {
  const anfi_use *u = g->self ? g->self->uses : NULL;
  return (g->flags & ANFI_GRAPH_PRIVATE) && u && !u->next && !anfi_is_result(g->module, g->self);
}

/* The graph that a node calls, if the call could be replaced by its body. */
static anf_graph *callee_of(const anf_node *n, const anf_graph *g) {
  anf_graph *callee = n->kind == ANFI_CALL ? anfi_value_graph(n->in[0].def) : NULL;
  return callee && callee != g && callee->result && callee->params.n == n->nin - 1u ? callee : NULL;
}

static bool wanted(const inlining *in, const anf_graph *callee, size_t now, size_t before) {
  size_t size = in->size[callee->id];
  if (in->an->graphs[callee->id].recursive) return false;
  return size <= TRIVIAL || (size <= SMALL && now + size <= 2 * before + SLACK);
}

/* The call's users get the callee's result; the order of effects keeps its place. */
static void finish(anf_node *call, anf_node *result, const anf_graph *callee, anfi_map *copies) {
  if (call->flags & ANFI_NODE_EFFECT) anfi_splice_effects(call, callee, copies);
  anfi_replace(call, result);
  anfi_delete(call);
}

/* Its nodes join `order`: there may be more to move among them. */
static void move_in(inlining *in, anf_node *call, anf_graph *callee, anfi_node_vec *order) {
  size_t first = order->n;
  anfi_graph_order(callee, in->a, order);
  for (size_t i = 0; i < callee->params.n; i++)
    anfi_replace(callee->params.at[i], call->in[i + 1].def);
  for (size_t i = first; i < order->n; i++) anfi_move(order->at[i], call->graph);
  for (size_t i = 0; !(call->flags & ANFI_NODE_EFFECT) && i < callee->effects.n; i++) {
    callee->effects.at[i]->flags &= (uint8_t)~ANFI_NODE_EFFECT; // as copies of them have none
    anfi_work_add(callee->effects.at[i], ANFI_WORK_DCE);
  }
  finish(call, callee->result, callee, NULL);
  callee->effects.n = 0;
  anfi_graph_remove(callee);
}

/* In a recursion too: one graph less each time. */
static void move_into(inlining *in, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, in->a, &order);
  for (size_t i = 0; i < order.n; i++) {
    anf_graph *callee = callee_of(order.at[i], g);
    if (callee && used_once(callee) && anfi_rewrite(in->pass))
      move_in(in, order.at[i], callee, &order);
  }
}

void anfi_inline_call(anfi_arena *a, anf_node *call) {
  anf_graph *callee = anfi_value_graph(call->in[0].def);
  anfi_map copies;
  anfi_map_init(&copies, a);
  anfi_node_vec order = {0};
  anfi_graph_order(callee, a, &order);
  for (size_t i = 0; i < callee->params.n; i++)
    *anfi_map_at(&copies, callee->params.at[i]->id) = anfi_key(call->in[i + 1].def);
  for (size_t i = 0; i < order.n; i++) anfi_copy_node(a, call->graph, order.at[i], &copies);
  finish(call, anfi_copy_of(&copies, callee->result), callee, &copies);
}

static void copy_into(inlining *in, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, in->a, &order);
  size_t before = order.n, now = before;
  for (size_t i = 0; i < order.n; i++) {
    anf_graph *callee = callee_of(order.at[i], g);
    if (!callee || !wanted(in, callee, now, before)) continue;
    if (!anfi_rewrite(in->pass)) break;
    now += in->size[callee->id];
    anfi_inline_call(in->a, order.at[i]);
  }
  in->size[g->id] = (uint32_t)now;
}

bool anfi_opt_inline(anfi_pass *p) {
  anf_module *m = p->m;
  if (!anfi_has_calls(m)) return true;
  inlining in = {.pass = p, .a = anfi_scratch(m->cx), .an = anfi_analyse(m)};
  in.size = ANFI_NEW_N(in.a, uint32_t, m->graphs.n);
  for (size_t i = in.an->by_scc.n; i-- > 0;) { // callers first
    anf_graph *g = in.an->by_scc.at[i];
    if (!g->removed && g->result) move_into(&in, g);
  }
  for (size_t i = 0; i < in.an->by_scc.n; i++) {
    anf_graph *g = in.an->by_scc.at[i];
    if (!g->removed && g->result) copy_into(&in, g);
  }
  return true;
}
