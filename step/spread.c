// SPDX-License-Identifier: Apache-2.0
/* Data parallel steps: each rank has its part of the batch, and all have the same state.
 *   (l, dw) = value_and_grad(loss)(w, x)   ->   l = AllReduce(l, mean), dw = AllReduce(dw, mean)
 * A loss that is a mean over the rows of the batch is then that of all ranks' rows. What a gradient is taken by decides:
 * the state is the same on all ranks, so its gradient is averaged; a gradient by an input is of this rank's rows, and stays.
 *
 * Afterwards the new state must be the same on all ranks again. A forward dataflow finds what differs between ranks: inputs,
 * and all that is computed of them but sums and copies over all ranks. State that differs is refused: the ranks would
 * train models that drift apart, in silence. A mean of what is the same on all ranks is left out: the norm of all gradients is
 * computed as a derivative, too.
 * INVARIANT: derivatives are Derive nodes where means are put in; they have been expanded where the new state is checked, so that
 * what a loss gives beside its value is looked into, too. */
#include "step/step.h"

#include "optimizer/opt.h"

typedef struct spread {
  anf_ctx *cx;
  anf_module *m;
  anf_graph *g;
  anfi_arena *a;
  anfi_map differs;  // node ids
  bool calls_differ; // a function has ops whose results differ
  uint32_t debug;    // of the derivative whose gradients become means: their place
} spread;

static bool differs(const spread *s, const anf_node *n) {
  return n->kind != ANFI_VALUE && anfi_map_find(&s->differs, n->id) != NULL;
}

static bool is_gradient(const spread *s, const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Derive) &&
         strcmp(anfi_attr_value(s->cx, ANF_OP_Derive, n->u.attrs, 0)->u.text, "vjp") == 0;
}

/* ---- what differs ---- */

typedef enum way { AS_INPUTS, SAME, OTHER } way;

static way way_of(const anf_node *n) {
  if (!(anfi_op_of(n)->flags & ANFI_COLLECTIVE)) return AS_INPUTS;
  bool same = n->op == ANF_OP_AllReduce || n->op == ANF_OP_AllGather || n->op == ANF_OP_Broadcast ||
              n->op == ANF_OP_CommSize;
  return same ? SAME : OTHER;
}

static bool node_differs(const spread *s, const anf_node *n) {
  way w = way_of(n);
  if (w != AS_INPUTS) return w == OTHER;
  bool any = s->calls_differ && (n->kind == ANFI_CALL || anfi_op_of(n)->flags & ANFI_CALLS);
  for (uint32_t i = 0; i < n->nin && !any; i++) any = differs(s, n->in[i].def);
  return any;
}

/* Ops in other graphs: their callers' results may differ, whatever the arguments. */
static void look_at_calls(spread *s) {
  for (size_t i = 0; i < s->m->nodes.n; i++) {
    const anf_node *n = s->m->nodes.at[i];
    s->calls_differ |= n && n->graph && n->graph != s->g && way_of(n) == OTHER;
  }
}

static anfi_node_vec find_differing(spread *s, size_t nstate) {
  anfi_node_vec order = {0};
  anfi_map_init(&s->differs, s->a);
  look_at_calls(s);
  for (size_t i = nstate; i < s->g->params.n; i++)
    *anfi_map_at(&s->differs, s->g->params.at[i]->id) = 1;
  anfi_graph_order(s->g, s->a, &order);
  for (size_t i = 0; i < order.n; i++)
    if (node_differs(s, order.at[i])) *anfi_map_at(&s->differs, order.at[i]->id) = 1;
  return order;
}

anfi_node_vec anfi_step_find_differing(anf_graph *g, size_t nstate, anfi_arena *a, anfi_map *out) {
  spread s = {.cx = g->module->cx, .m = g->module, .g = g, .a = a};
  anfi_node_vec order = find_differing(&s, nstate);
  *out = s.differs;
  return order;
}

/* ---- means over ranks ---- */

static anf_node *mean(spread *s, anf_node *n) {
  anf_value *yes = anfi_value_new_i64(s->cx, ANF_BOOL, 1);
  const anfi_attrs *at = anfi_attrs_one(s->m, ANF_OP_AllReduce, yes);
  anf_node *r = anfi_typed(anfi_apply(s->g, ANF_OP_AllReduce, at, 1, &n), n->type);
  r->debug = s->debug;
  return r;
}

/* A tuple or record of other items. */
static anf_node *made(spread *s, const anf_type *t, anf_node **items) {
  if (t->kind == ANF_TYPE_TUPLE)
    return anfi_typed(anfi_apply(s->g, ANF_OP_MakeTuple, NULL, t->n, items), t);
  anf_value *names = anfi_value_new_tuple(s->cx, t->n);
  for (uint32_t i = 0; i < t->n; i++)
    names->u.item[i] = anfi_value_new_string(s->cx, t->names[i]->s, t->names[i]->len);
  const anfi_attrs *at = anfi_attrs_one(s->m, ANF_OP_MakeRecord, names);
  return anfi_typed(anfi_apply(s->g, ANF_OP_MakeRecord, at, t->n, items), t);
}

/* n with means over the ranks in the place of its real leaves; `scalars`: of those without dims only. Types nest no deeper
 * than inference allows. */
static anf_node *means(spread *s, anf_node *n, bool scalars) {
  const anf_type *t = n->type;
  if (t->kind == ANF_TYPE_TENSOR) return t->varies && (!scalars || !t->n) ? mean(s, n) : n;
  if ((t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) || !t->varies) return n;
  anf_node **items = ANFI_NEW_N(s->a, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) items[i] = means(s, anfi_item(s->g, n, i), scalars);
  return made(s, t, items);
}

/* The argument that gradient k of a Derive is taken by. */
static anf_node *argument_of(const spread *s, const anf_node *n, uint32_t k) {
  const anf_value *wrt = anfi_attr_value(s->cx, ANF_OP_Derive, n->u.attrs, 1);
  const anf_value *at = wrt->kind == ANF_VALUE_TUPLE ? wrt->u.item[k] : wrt;
  return n->in[1 + (size_t)anfi_get_i64(at, 0)].def;
}

/* (value, (gradients)) with means in it. */
static anf_node *averaged(spread *s, anf_node *n) {
  anf_node *value = anfi_item(s->g, n, 0), *all = anfi_item(s->g, n, 1);
  const anf_type *t = all->type;
  anf_node **items = ANFI_NEW_N(s->a, anf_node *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) {
    items[i] = anfi_item(s->g, all, i);
    if (!differs(s, argument_of(s, n, i))) items[i] = means(s, items[i], false);
  }
  anf_node *both[2] = {means(s, value, true), made(s, t, items)};
  return made(s, n->type, both);
}

static void average(spread *s, anf_node *n) {
  ANFI_VEC(anfi_use *) uses = {0};
  for (anfi_use *u = n->uses; u; u = u->next) anfi_push(s->a, &uses, u);
  bool result = s->g->result == n;
  s->debug = n->debug;
  anf_node *by = averaged(s, n);
  for (size_t i = 0; i < uses.n; i++)
    anfi_set_input(uses.at[i]->user, (size_t)(uses.at[i] - uses.at[i]->user->in), by);
  if (result) anfi_set_result(s->g, by);
}

static bool is_mean(const spread *s, const anf_node *n) {
  return anfi_is_op(n, ANF_OP_AllReduce) &&
         anfi_get_i64(anfi_attr_value(s->cx, ANF_OP_AllReduce, n->u.attrs, 0), 0);
}

static bool has_sums(const spread *s) {
  for (size_t i = 0; i < s->m->nodes.n; i++) {
    const anf_node *n = s->m->nodes.at[i];
    if (n && n->graph && anfi_is_op(n, ANF_OP_AllReduce) && !is_mean(s, n)) return true;
  }
  return false;
}

bool anfi_step_spread(anf_graph *g, size_t nstate) {
  spread s = {.cx = g->module->cx, .m = g->module, .g = g, .a = anfi_scratch(g->module->cx)};
  anfi_node_vec order = find_differing(&s, nstate);
  bool alike = !has_sums(&s);
  for (size_t i = 0; i < order.n; i++)
    if (is_gradient(&s, order.at[i])) average(&s, order.at[i]);
  return alike;
}

bool anfi_step_leave_out_means(anf_graph *g, size_t nstate) {
  spread s = {.cx = g->module->cx, .m = g->module, .g = g, .a = anfi_scratch(g->module->cx)};
  anfi_node_vec order = find_differing(&s, nstate);
  bool any = false;
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i];
    bool mean = is_mean(&s, n);
    any |= mean && differs(&s, n->in[0].def);
    if (mean && !differs(&s, n->in[0].def)) anfi_replace(n, n->in[0].def);
  }
  return any;
}

/* ---- the new state ---- */

static const anf_node *first_that_differs(const spread *s, const anf_node *n) {
  if (!differs(s, n)) return NULL;
  if (!anfi_is_op(n, ANF_OP_MakeTuple) && !anfi_is_op(n, ANF_OP_MakeRecord)) return n;
  const anf_node *r = NULL;
  for (uint32_t i = 0; i < n->nin && !r; i++) r = first_that_differs(s, n->in[i].def);
  return r;
}

bool anfi_step_check_spread(anf_graph *g, size_t nstate) {
  spread s = {.cx = g->module->cx, .m = g->module, .g = g, .a = anfi_scratch(g->module->cx)};
  find_differing(&s, nstate);
  const anf_node *r = g->result;
  for (uint32_t i = 0; nstate && i < nstate; i++) {
    bool tuple = anfi_is_op(r, ANF_OP_MakeTuple) && i < r->nin;
    const anf_node *bad = first_that_differs(&s, tuple ? r->in[i].def : r);
    if (bad) return anfi_fail(s.cx, anfi_node_loc(bad), ANF_E1210, anf_node_name(g->params.at[i]));
  }
  return true;
}
