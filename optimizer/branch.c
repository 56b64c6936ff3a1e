// SPDX-License-Identifier: Apache-2.0
/* If-conversion: a branch whose sides are cheap becomes a choice of data.
 *   Switch(c, f, g)(x)  with f(x) = x + 1, g(x) = x      ->  Switch(c, x + 1, x)
 *   Switch(c, f, f)(x)                                   ->  f(x)
 *   Switch(c, f, g)(x, y)[1] with f = (x + 1, y), g = (x - 1, y)  ->  y
 * Both sides then run, so each may have only a few speculatable ops on scalars: an op that may trap (an
 * integer division, an index) stays behind its branch. Sides that exchange arrays, (u, v) and (v, u), stay: a branch moves
 * none of them (backend/lower/graph/linear.c), two choices of data copy both.
 *
 * Hard case: while derivatives are still to be taken, sides with a product also stay. The side that was not
 * taken has the adjoint 0, and 0 * inf would be a NaN. */
#include "optimizer/branch_adds.h"

enum { CHEAP = 4 };

static bool is_linear(const anf_node *n) {
  return !n->type || n->type->kind != ANF_TYPE_TENSOR || !n->type->varies ||
         (anfi_op_of(n)->flags & (ANFI_LINEAR | ANFI_MOVES));
}

/* A tensor that is not a scalar costs work in the branch that is not wanted. */
bool anfi_is_cheap(const anf_node *n) {
  if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT) || !anfi_is_total(n)) return false;
  return !n->type || n->type->kind != ANF_TYPE_TENSOR || n->type->n == 0;
}

static bool is_cheap_graph(anf_graph *g, bool derived, anfi_arena *a) {
  anfi_node_vec order = {0};
  if (!g || !g->result || g->effects.n) return false;
  anfi_graph_order(g, a, &order);
  bool cheap = order.n <= CHEAP;
  for (size_t i = 0; cheap && i < order.n; i++)
    cheap = anfi_is_cheap(order.at[i]) && (!derived || is_linear(order.at[i]));
  return cheap;
}

/* The number of the parameter that item i of what g gives is, if that is an array; or SIZE_MAX. */
static size_t array_param(const anf_graph *g, uint32_t i) {
  const anf_node *x = g->result->in[i].def;
  size_t k = 0;
  if (x->kind != ANFI_PARAM || !x->type || x->type->kind != ANF_TYPE_TENSOR || !x->type->n)
    return SIZE_MAX;
  while (k < g->params.n && g->params.at[k] != x) k++;
  return k < g->params.n ? k : SIZE_MAX;
}

/* Does an array go to one item of the result on this side, and to another on that? */
static bool exchange(const anf_graph *f, const anf_graph *g) {
  enum { MANY = 64 };
  const anf_node *x = f->result, *y = g->result;
  if (!anfi_is_op(x, ANF_OP_MakeTuple) || !anfi_is_op(y, ANF_OP_MakeTuple)) return false;
  if (x->nin != y->nin || x->nin > MANY) return false;
  for (uint32_t i = 0; i < x->nin; i++) {
    size_t p = array_param(f, i);
    for (uint32_t k = 0; k < y->nin && p != SIZE_MAX; k++)
      if (k != i && array_param(g, k) == p && array_param(g, i) != p) return true;
  }
  return false;
}

/* Does each side give an array that it was given, so that the choice would copy one in each round of a loop (exchange.c)? */
static bool copies(const anf_node *call, const anf_graph *f, const anf_graph *g) {
  const anf_node *x = f->result, *y = g->result;
  if (x->kind != ANFI_PARAM || y->kind != ANFI_PARAM || x->graph != f || y->graph != g)
    return false;
  return anfi_copies_array(call, call->in[x->u.index + 1].def, call->in[y->u.index + 1].def);
}

static anf_node *body(anfi_arena *a, anf_graph *g, anf_node *call) {
  anfi_map copies;
  anfi_node_vec order = {0};
  anfi_map_init(&copies, a);
  anfi_graph_order(g, a, &order);
  for (size_t i = 0; i < g->params.n; i++)
    *anfi_map_at(&copies, g->params.at[i]->id) = anfi_key(call->in[i + 1].def);
  for (size_t i = 0; i < order.n; i++) anfi_copy_node(a, call->graph, order.at[i], &copies);
  return anfi_copy_of(&copies, g->result);
}

static void flatten(anfi_pass *p, bool derived, anfi_arena *a, const anfi_map *loops,
                    anf_node *call) {
  anf_node *sw = call->in[0].def;
  if (!anfi_is_op(sw, ANF_OP_Switch) || (call->flags & ANFI_NODE_EFFECT) || !call->type) return;
  anf_graph *f = anfi_value_graph(sw->in[1].def), *g = anfi_value_graph(sw->in[2].def);
  if (!derived && anfi_branch_adds(p, a, loops, call, f, g)) return;
  if (!is_cheap_graph(f, derived, a) || !is_cheap_graph(g, derived, a)) return;
  if (exchange(f, g) || copies(call, f, g) || !anfi_rewrite(p)) return;
  anf_node *branch[3] = {sw->in[0].def, body(a, f, call), body(a, g, call)};
  anf_node *n = anfi_apply(call->graph, ANF_OP_Switch, NULL, 3, branch);
  n->type = call->type;
  n->debug = call->debug;
  anfi_substitute(call, n);
}

static size_t param_given(const anf_graph *g, int64_t i, unsigned depth);

/* Is x given once, and read otherwise for numbers alone? */
static bool is_given_once(const anf_node *x) {
  enum { FEW = 16 };
  size_t given = 0, n = 0;
  for (const anfi_use *u = x->uses; u; u = u->next) {
    const anf_node *r = u->user;
    if (++n > FEW) return false;
    bool number = r->kind == ANFI_APPLY && r->type && r->type->kind == ANF_TYPE_TENSOR &&
                  !r->type->n && !(r->flags & ANFI_NODE_EFFECT);
    given += !number;
  }
  return given == 1;
}

/* The number of the argument that each side of a branch gives as item i, unchanged, or SIZE_MAX. */
static size_t argument_given(const anf_node *call, int64_t i, unsigned depth) {
  const anf_node *sw = call->kind == ANFI_CALL ? call->in[0].def : NULL;
  if (!sw || !anfi_is_op(sw, ANF_OP_Switch) || sw->nin != 3 || !depth) return SIZE_MAX;
  size_t k = param_given(anfi_value_graph(sw->in[1].def), i, depth - 1);
  if (k == SIZE_MAX || k != param_given(anfi_value_graph(sw->in[2].def), i, depth - 1))
    return SIZE_MAX;
  return k;
}

/* The number of the parameter that g, or a branch in its result, gives as item i, or SIZE_MAX. */
static size_t param_given(const anf_graph *g, int64_t i, unsigned depth) {
  const anf_node *r = g ? g->result : NULL, *x = NULL;
  if (!r || i < 0) return SIZE_MAX;
  if (anfi_is_op(r, ANF_OP_MakeTuple)) x = i < r->nin ? r->in[i].def : NULL;
  size_t k = x ? SIZE_MAX : argument_given(r, i, depth);
  if (k != SIZE_MAX) x = r->in[k + 1].def;
  if (!x || x->kind != ANFI_PARAM || x->graph != g || !is_given_once(x)) return SIZE_MAX;
  return x->u.index;
}

/* An item of the result of a branch that is the same argument on both sides: a loop sees that its state does not change. An array
 * that a side also writes stays: it would live on after the branch, and a write within would copy it. */
static void pass_by(anfi_pass *p, anf_node *get) {
  anf_node *call = get->in[0].def;
  if (call->kind != ANFI_CALL || call->graph != get->graph) return;
  enum { DEPTH = 4 }; // of branches in branches
  int64_t i = -1;
  anfi_value_is_int(anfi_attr_value(p->m->cx, ANF_OP_TupleGet, get->u.attrs, 0), &i);
  size_t k = argument_given(call, i, DEPTH);
  if (k == SIZE_MAX) return;
  if (call->in[k + 1].def->type == get->type && anfi_rewrite(p))
    anfi_substitute(get, call->in[k + 1].def);
}

bool anfi_opt_branch(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  size_t n = anfi_has_calls(p->m) ? p->m->nodes.n : 0;
  bool derived = n && anfi_module_has_op(p->m, ANF_OP_Derive);
  anfi_map loops;
  anfi_map_init(&loops, a);
  if (n && !derived) anfi_loops_by_step(p->m, &loops);
  for (size_t i = 0; i < n; i++) {
    anf_node *c = p->m->nodes.at[i];
    if (c && c->kind == ANFI_CALL) flatten(p, derived, a, &loops, c);
    if (c && anfi_is_op(c, ANF_OP_TupleGet)) pass_by(p, c);
  }
  return true;
}
