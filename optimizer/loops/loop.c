// SPDX-License-Identifier: Apache-2.0
/* Loop recognition: tail recursion becomes Loop.
 *   while(i, s): i < n ? while(i + 1, s * x) : s
 *   ->  Loop(step, i, s),  step(i, s) = (i < n, i + 1, s * x)
 * General rule: a strongly connected component of graphs whose calls among each other are all in result
 * position, and one graph, the header, on every cycle (headers.c makes one where there is none). Each graph of the
 * component gets a step form with the same parameters, which returns
 *   (true, next state)         where it called the header,
 *   step form of g             where it called g of the component,
 *   (false, what is left)      where it called another graph, an exit;
 * the header becomes Loop(its step form; arguments), and then a call of the exit. Parameters that every call passes on
 * unchanged are the loop's invariants, the others its state.
 *
 * Mostly the exit is one: a choice between the header and one graph, the exit, with the same arguments.
 * Then steps return (again, next state), and the choice at the entry becomes the loop's guard.
 *
 * Of several exits, rounds say which one it is, and leave its arguments. So whatever an exit computes is computed once, after
 * the loop, and its derivative begins there: no round saves anything for it.
 *   find(k) = k == n ? 0 : x[k] > 2 ? sum(x) * k : find(k + 1)
 *   ->  step(x, k, e) = k == n ? (false, k, 0) : x[k] > 2 ? (false, k, 1) : (true, k + 1, undefined)
 *       k, e = Loop(step, x, ..);  e == 0 ? 0 : sum(x) * k
 * An argument that is an invariant is passed as it is; one that holds a state leaves in that state, an array that rounds have
 * written, too, so that it stays in one buffer. Any other leaves in a state of its type that the exit does not ask for, or in
 * a place of its own. */
#include "optimizer/group.h"
#include "ir/loop.h"
#include "optimizer/loops/loop.h"
#include "base/mark.h"

enum { NO_ORIGIN = -1, ANY_ORIGIN = -2, MAX_MEMBERS = 256 };
#define NOWHERE SIZE_MAX

typedef struct {
  anfi_pass *pass;
  anf_module *m;
  anfi_arena *a;
  const anf_analysis *an;
  /* the component */
  ANFI_VEC(anf_graph *) member;
  anf_graph *header, *exit;    // exit: NULL if there is not one alone
  ANFI_VEC(anf_graph *) exits; // otherwise all of them
  uint32_t scc;
  /* what becomes of it */
  int64_t **origin;    // by member and exit: which parameter of the header a parameter is
  int64_t **held;      // the same, where elements of it may have been written
  bool through_writes; // `held` is sought, not `origin`
  bool *invariant;     // by parameter of the header
  size_t **
      leaves; // by exit and parameter: what leaves for it, of parameters of the header and then of `own`
  ANFI_VEC(const anf_type *) own; // places of their own, the number of the exit first
  anf_graph **step;               // by member: its step form
  const anf_type *type;           // the result of a step form
} looping;

static bool in_component(const looping *l, const anf_graph *g) {
  return g->id < l->an->ngraph && l->an->graphs[g->id].scc == l->scc;
}

/* The number of a member, or of an exit after them; that of all if it is neither. */
static size_t number_of(const looping *l, const anf_graph *g) {
  size_t i = 0, n = l->member.n;
  while (i < n && l->member.at[i] != g) i++;
  for (size_t e = 0; i == n + e && e < l->exits.n && l->exits.at[e] != g; e++) i++;
  return i;
}

static size_t count_graphs(const looping *l) { return l->member.n + l->exits.n; }

static anf_graph *graph_at(const looping *l, size_t i) {
  return i < l->member.n ? l->member.at[i] : l->exits.at[i - l->member.n];
}

/* All targets of a call, or 0 when it may reach something else. */
static size_t targets(const looping *l, const anf_node *call, anf_graph ***out) {
  *out = ANFI_NEW_N(l->a, anf_graph *, call->in[0].def->nin + 1);
  return anfi_call_targets(call, *out);
}

static anfi_node_vec order_of(const looping *l, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, l->a, &order); // not that of the analysis: an inner loop may have changed it
  return order;
}

static bool reaches_component(const looping *l, const anf_node *call) {
  anf_graph **t;
  size_t n = targets(l, call, &t);
  for (size_t i = 0; i < n; i++)
    if (in_component(l, t[i])) return true;
  return false;
}

/* ---- is it a loop? ---- */

static bool only_tail_calls(const looping *l) {
  for (size_t i = 0; i < l->member.n; i++) {
    anf_graph *g = l->member.at[i];
    const anfi_node_vec order = order_of(l, g);
    for (size_t k = 0; k < order.n; k++) {
      const anf_node *n = order.at[k];
      for (uint32_t j = 0; j < n->nin; j++) { // as data, or in a choice that is not called
        const anf_graph *f = anfi_value_graph(n->in[j].def);
        bool callee = n->kind == ANFI_CALL && j == 0,
             branch = anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer);
        if (f && in_component(l, f) && !callee && !branch) return false;
      }
      if (n->kind == ANFI_CALL && reaches_component(l, n) &&
          (n != g->result || (n->flags & ANFI_NODE_EFFECT)))
        return false;
    }
    if (g->effects.n) return false; // the order of effects is that of calls: left to recursion
    if (g->result->kind != ANFI_CALL || !reaches_component(l, g->result)) return false;
  }
  return true;
}

/* Without the header the component has no cycle: remove graphs that call none of those left. */
static bool breaks_cycles(const looping *l, const anf_graph *header) {
  bool *gone = ANFI_NEW_N(l->a, bool, l->member.n);
  for (size_t removed = 1, left = l->member.n - 1; left; left -= removed) {
    removed = 0;
    for (size_t i = 0; i < l->member.n; i++) {
      const anfi_graph_info *gi = &l->an->graphs[l->member.at[i]->id];
      bool calls = gone[i] || l->member.at[i] == header;
      for (size_t k = 0; !calls && k < gi->callees.n; k++) {
        const anf_graph *c = gi->callees.at[k];
        calls = in_component(l, c) && c != header && !gone[number_of(l, c)];
      }
      if (calls) continue;
      gone[i] = true;
      removed++;
    }
    if (!removed) return false;
  }
  return true;
}

/* ---- the exit ---- */

/* The other graph of a choice between the header and one graph, or NULL. */
static anf_graph *other_than_header(const looping *l, const anf_node *sw) {
  if (!anfi_is_op(sw, ANF_OP_Switch)) return NULL;
  const anf_type *c = sw->in[0].def->type;
  anf_graph *yes = anfi_value_graph(sw->in[1].def), *no = anfi_value_graph(sw->in[2].def);
  if (!yes || !no || (yes == l->header) == (no == l->header)) return NULL;
  if (!c || c->kind != ANF_TYPE_TENSOR || c->n || c->dtype != ANF_BOOL) return NULL;
  return yes == l->header ? no : yes;
}

static void find_exit(looping *l) {
  anf_graph *found = NULL;
  l->exit = NULL;
  for (size_t i = 0; i < l->member.n; i++) {
    const anf_node *r = l->member.at[i]->result;
    if (r->kind != ANFI_CALL) return;
    anf_graph **t, *out = NULL;
    size_t n = targets(l, r, &t);
    for (size_t k = 0; k < n; k++)
      if (!in_component(l, t[k])) out = t[k];
    if (n && !out) continue;
    if (!n || other_than_header(l, r->in[0].def) != out || (found && found != out)) return;
    found = out;
  }
  l->exit = found;
}

static void list_exits(looping *l) {
  l->exits.n = 0;
  for (size_t i = 0; !l->exit && i < l->member.n; i++) {
    anf_graph **t;
    size_t n = targets(l, l->member.at[i]->result, &t);
    for (size_t k = 0; k < n; k++)
      if (number_of(l, t[k]) == count_graphs(l)) anfi_push(l->a, &l->exits, t[k]);
  }
}

/* ---- the header ---- */

static bool is_called_from_outside(const looping *l, const anf_graph *g) {
  for (const anfi_use *u = g->self ? g->self->uses : NULL; u; u = u->next)
    if (!in_component(l, u->user->graph)) return true;
  return false;
}

/* Best is one that there is one exit for; then one that is called from outside, as what is before
 * another header is there twice: before the loop, and in it. */
static bool find_header(looping *l) {
  anf_graph *any = NULL, *outer = NULL;
  for (size_t i = 0; i < l->member.n; i++) {
    if (!breaks_cycles(l, l->header = l->member.at[i])) continue;
    find_exit(l);
    if (l->exit) return true;
    if (!any) any = l->header;
    if (!outer && is_called_from_outside(l, l->header)) outer = l->header;
  }
  return (l->header = outer ? outer : any) != NULL;
}

/* ---- which parameters do not change ---- */

static const anf_node *written_from(const looping *l, const anf_node *x, unsigned depth);

/* The one parameter that item i of what each target of the call gives is made of, or of what they give if i is SIZE_MAX: its
 * argument, or NULL. */
static const anf_node *argument_written(const looping *l, const anf_node *call, size_t i,
                                        unsigned depth) {
  anf_graph **t;
  size_t n = targets(l, call, &t), at = SIZE_MAX;
  for (size_t k = 0; k < n; k++) {
    const anf_node *r = t[k]->result;
    bool calls = r && i != SIZE_MAX && r->kind == ANFI_CALL;
    if (calls) r = depth ? argument_written(l, r, i, depth - 1) : NULL;
    else if (r && i != SIZE_MAX) r = anfi_is_op(r, ANF_OP_MakeTuple) ? r->in[i].def : NULL;
    if (r) r = written_from(l, r, depth);
    if (!r || r->kind != ANFI_PARAM || r->graph != t[k]) return NULL;
    if (at != SIZE_MAX && at != r->u.index) return NULL;
    at = r->u.index;
  }
  return at == SIZE_MAX ? NULL : call->in[at + 1].def;
}

/* What x is an item of, or what a branch or an inner loop gives, is made of by writes of elements. */
static const anf_node *source_of(const looping *l, const anf_node *x, unsigned depth) {
  int64_t i = -1;
  if (x->kind == ANFI_CALL) return depth ? argument_written(l, x, SIZE_MAX, depth - 1) : NULL;
  if (!anfi_is_op(x, ANF_OP_TupleGet)) return NULL;
  const anf_node *from = x->in[0].def;
  anfi_value_is_int(anfi_attr_value(l->m->cx, ANF_OP_TupleGet, x->u.attrs, 0), &i);
  if (i < 0 || !depth) return NULL;
  if (from->kind == ANFI_CALL) return argument_written(l, from, (size_t)i, depth - 1);
  if (!anfi_is_op(from, ANF_OP_Loop)) return NULL;
  anfi_loop_op inner = anfi_loop_parts(from);
  return (size_t)i < inner.ns ? from->in[inner.first_w + inner.nw + (size_t)i].def : NULL;
}

static const anf_node *written_from(const looping *l, const anf_node *x, unsigned depth) {
  for (const anf_node *next = x; next;) {
    x = next;
    bool write = x->kind == ANFI_APPLY && anfi_op_of(x)->flags & ANFI_WRITES_OVER;
    next = write ? x->in[0].def : source_of(l, x, depth);
  }
  return x;
}

static int64_t origin_of(const looping *l, const anf_graph *caller, const anf_node *arg) {
  enum { DEPTH = 4 }; // of branches in branches
  if (l->through_writes) arg = written_from(l, arg, DEPTH);
  if (arg->kind != ANFI_PARAM || arg->graph != caller) return NO_ORIGIN;
  int64_t **of = l->through_writes ? l->held : l->origin;
  return of[number_of(l, caller)][arg->u.index];
}

static bool meet(int64_t *at, int64_t o) {
  if (o == ANY_ORIGIN || *at == o || *at == NO_ORIGIN) return false;
  *at = *at == ANY_ORIGIN ? o : NO_ORIGIN;
  return true;
}

static bool flow_call(looping *l, const anf_graph *g, const anf_node *call) {
  anf_graph **t;
  size_t n = targets(l, call, &t);
  int64_t **of = l->through_writes ? l->held : l->origin;
  bool changed = false;
  for (size_t i = 0; i < n; i++) {
    size_t to = number_of(l, t[i]);
    for (uint32_t k = 1; to < count_graphs(l) && k < call->nin; k++) {
      int64_t o = origin_of(l, g, call->in[k].def);
      if (t[i] != l->header) changed |= meet(&of[to][k - 1], o);
      else if (!l->through_writes && o != ANY_ORIGIN && o != (int64_t)k - 1 &&
               l->invariant[k - 1]) {
        l->invariant[k - 1] = false;
        changed = true;
      }
    }
  }
  return changed;
}

static void find_origins(looping *l, bool through_writes) {
  size_t n = count_graphs(l);
  int64_t **of = ANFI_NEW_N(l->a, int64_t *, n + 1);
  l->through_writes = through_writes;
  *(through_writes ? &l->held : &l->origin) = of;
  for (size_t i = 0; i < n; i++) {
    const anf_graph *g = graph_at(l, i);
    of[i] = ANFI_NEW_N(l->a, int64_t, g->params.n + 1);
    for (size_t k = 0; k < g->params.n; k++) of[i][k] = g == l->header ? (int64_t)k : ANY_ORIGIN;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < l->member.n; i++)
      changed |= flow_call(l, l->member.at[i], l->member.at[i]->result);
  }
}

static void find_invariants(looping *l) {
  l->invariant = ANFI_NEW_N(l->a, bool, l->header->params.n + 1);
  for (size_t k = 0; k < l->header->params.n; k++) l->invariant[k] = true;
  find_origins(l, false);
  find_origins(l, true);
}

/* ---- step forms ---- */

static anf_node *typed(anf_node *n, const anf_type *t, const anf_node *like) {
  n->type = t;
  if (like) n->debug = like->debug;
  return n;
}

static anf_node *truth(looping *l, bool b) {
  return typed(anfi_value(l->m, anfi_value_new_i64(l->m->cx, ANF_BOOL, b)),
               anfi_type_scalar(l->m->cx, ANF_BOOL), NULL);
}

static bool is_array(const anf_type *t) { return t->kind == ANF_TYPE_TENSOR && t->n; }

/* ---- what the exits are given ---- */

/* May it leave in a state that held something else? An integer may be a counter. */
static bool may_share(const anf_type *t) {
  if (t->kind != ANF_TYPE_TENSOR) return false;
  return t->n || (t->dtype != ANF_INT && t->dtype != ANF_I64 && t->dtype != ANF_I32);
}

/* A state of this type that is not taken, or a place of its own. */
static size_t place_for(looping *l, const anf_type *t, const bool *taken) {
  const anf_graph *h = l->header;
  size_t n = h->params.n;
  for (size_t k = 0; k < n && may_share(t); k++)
    if (!taken[k] && !l->invariant[k] && h->params.at[k]->type == t) return k;
  for (size_t i = l->exits.n > 1; i < l->own.n; i++)
    if (!taken[n + i] && l->own.at[i] == t) return n + i;
  anfi_push(l->a, &l->own, t);
  return n + l->own.n - 1;
}

/* The parameter of the header that leaves the loop for a parameter of this type, or NOWHERE. */
static size_t holder(const looping *l, const anf_type *t, int64_t origin, int64_t held,
                     const bool *taken) {
  const anf_node *const *p = (const anf_node *const *)l->header->params.at;
  if (origin >= 0 && l->invariant[origin] && p[origin]->type == t) return (size_t)origin;
  if (held < 0 || l->invariant[held] || taken[held] || p[held]->type != t) return NOWHERE;
  return (size_t)held;
}

static void place_params(looping *l, size_t e, size_t most) {
  const anf_graph *x = l->exits.at[e];
  size_t i = l->member.n + e, *at = ANFI_NEW_N(l->a, size_t, x->params.n + 1);
  bool *taken = ANFI_NEW_N(l->a, bool, most);
  for (size_t k = 0; k < x->params.n; k++) {
    at[k] = NOWHERE;
    if (anfi_is_used(x->params.at[k]))
      at[k] = holder(l, x->params.at[k]->type, l->origin[i][k], l->held[i][k], taken);
    if (at[k] != NOWHERE) taken[at[k]] = true;
  }
  for (size_t k = 0; k < x->params.n; k++) {
    if (at[k] != NOWHERE || !anfi_is_used(x->params.at[k])) continue;
    at[k] = place_for(l, x->params.at[k]->type, taken);
    taken[at[k]] = true;
  }
  l->leaves[e] = at;
}

static void find_places(looping *l) {
  size_t most = l->header->params.n + 2;
  l->own.n = 0;
  l->leaves = ANFI_NEW_N(l->a, size_t *, l->exits.n + 1);
  if (l->exits.n > 1)
    anfi_push(l->a, &l->own, anfi_type_scalar(l->m->cx, l->exits.n == 2 ? ANF_BOOL : ANF_I64));
  for (size_t e = 0; e < l->exits.n; e++) most += l->exits.at[e]->params.n;
  for (size_t e = 0; e < l->exits.n; e++) place_params(l, e, most);
}

static anf_node *exit_number(const looping *l, size_t e) {
  anf_node *x =
      anfi_value(l->m, anfi_value_new_i64(l->m->cx, (anf_dtype)l->own.at[0]->dtype, (int64_t)e));
  return typed(x, l->own.at[0], NULL);
}

static bool is_among(const anf_node *x, size_t n, anf_node *const *in) {
  for (size_t i = 0; i < n; i++)
    if (in[i] == x) return true;
  return false;
}

/* What the state k is where the loop is left, which nothing reads: the array that rounds write stays where it is, one of those
 * that they exchange in any place. */
static anf_node *left(const looping *l, anf_graph *g, size_t k, const int64_t *held, size_t n,
                      anf_node *const *in) {
  const anf_type *t = l->header->params.at[k]->type;
  const int64_t from[] = {(int64_t)k, NO_ORIGIN};
  for (size_t j = 0; j < 2 && held && is_array(t); j++)
    for (size_t i = 0; i < g->params.n; i++) {
      anf_node *x = g->params.at[i];
      if (held[i] == from[j] && x->type == t && !is_among(x, n, in)) return x;
    }
  return anfi_undefined(g, t);
}

static size_t count_state(const looping *l) { return l->type->n - 1 - l->own.n; }

/* (again, state): `args` are the next arguments of the header. */
static anf_node *goes_on_with(looping *l, anf_graph *g, anf_node *again, anf_node *const *args,
                              const anf_node *like) {
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, l->type->n);
  size_t n = 0;
  in[n++] = again;
  for (size_t k = 0; k < l->header->params.n; k++)
    if (!l->invariant[k]) in[n++] = args[k];
  for (; n < l->type->n; n++) in[n] = anfi_undefined(g, l->type->items[n]);
  return typed(anfi_apply(g, ANF_OP_MakeTuple, NULL, n, in), l->type, like);
}

/* (false, state), where g takes the parameters of exit e, which are `held`. */
static anf_node *ends_with(looping *l, anf_graph *g, size_t e, const int64_t *held) {
  size_t np = l->header->params.n, at = 1, first_own = 1 + count_state(l);
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, l->type->n),
           **out = ANFI_NEW_N(l->a, anf_node *, np + l->own.n + 1);
  for (size_t k = 0; k < g->params.n; k++)
    if (l->leaves[e][k] != NOWHERE) out[l->leaves[e][k]] = g->params.at[k];
  in[0] = truth(l, false);
  for (size_t k = 0; k < np; k++)
    if (!l->invariant[k]) in[at++] = out[k];
  for (size_t i = 0; i < l->own.n; i++) in[at++] = out[np + i];
  if (l->exits.n > 1) in[first_own] = exit_number(l, e);
  at = 1;
  for (size_t k = 0; k < np; k++) {
    if (l->invariant[k]) continue;
    if (!in[at]) in[at] = left(l, g, k, held, l->type->n, in);
    at++;
  }
  for (at = 1; at < l->type->n; at++)
    if (!in[at]) in[at] = anfi_undefined(g, l->type->items[at]);
  return typed(anfi_apply(g, ANF_OP_MakeTuple, NULL, l->type->n, in), l->type,
               l->exits.at[e]->result);
}

static anf_node **copy_params(looping *l, anf_graph *g, const anf_graph *like) {
  anf_node **p = ANFI_NEW_N(l->a, anf_node *, like->params.n + 1);
  for (size_t k = 0; k < like->params.n; k++)
    p[k] = typed(anfi_param(g, NULL, like->params.at[k]->type), like->params.at[k]->type,
                 like->params.at[k]);
  return p;
}

/* Which parameters of the header the arguments of a call of `old` hold. */
static const int64_t *held_by(looping *l, const anf_graph *old, const anf_node *call) {
  int64_t *held = ANFI_NEW_N(l->a, int64_t, call->nin);
  for (uint32_t i = 1; i < call->nin; i++) held[i - 1] = origin_of(l, old, call->in[i].def);
  return held;
}

/* Replaces t in step forms where it is called with arguments that are `held`: a graph of t's parameters that gives an
 * outcome. */
static anf_graph *outcome_of(looping *l, anf_graph *t, const int64_t *held) {
  if (in_component(l, t) && t != l->header) return l->step[number_of(l, t)];
  anf_graph *g = anfi_graph_beside(t, t == l->header ? ANFI_BODY : ANFI_AFTER);
  anf_node **p = copy_params(l, g, t);
  anfi_set_result(g, t == l->header ? goes_on_with(l, g, truth(l, true), p, NULL)
                                    : ends_with(l, g, number_of(l, t) - l->member.n, held));
  return g;
}

static anf_node *chosen_outcome(looping *l, anf_graph *g, const anf_node *sw,
                                const anfi_map *copies, const int64_t *held) {
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, sw->nin);
  in[0] = anfi_copy_of(copies, sw->in[0].def);
  for (uint32_t i = 1; i < sw->nin; i++)
    in[i] = anfi_graph_value(outcome_of(l, anfi_value_graph(sw->in[i].def), held));
  return typed(anfi_apply(g, (anfi_opcode)sw->op, NULL, sw->nin, in), NULL, sw);
}

/* Does a choice of the header and the exit go on? */
static anf_node *goes_on(const looping *l, anf_graph *g, const anf_node *sw, anf_node *condition) {
  if (anfi_value_graph(sw->in[1].def) == l->header) return condition;
  return typed(anfi_apply1(g, ANF_OP_LogicalNot, condition), condition->type, sw);
}

static anf_node *result_outcome(looping *l, anf_graph *g, const anf_graph *old,
                                const anfi_map *copies) {
  anf_node *r = old->result, **in = ANFI_NEW_N(l->a, anf_node *, r->nin);
  for (uint32_t i = 1; i < r->nin; i++) in[i] = anfi_copy_of(copies, r->in[i].def);
  anf_graph *t = anfi_value_graph(r->in[0].def);
  if (t == l->header) return goes_on_with(l, g, truth(l, true), in + 1, NULL);
  const anf_node *sw = r->in[0].def;
  if (l->exit && !t && other_than_header(l, sw) == l->exit)
    return goes_on_with(l, g, goes_on(l, g, sw, anfi_copy_of(copies, sw->in[0].def)), in + 1, NULL);
  const int64_t *held = held_by(l, old, r);
  in[0] = t ? anfi_graph_value(outcome_of(l, t, held)) : chosen_outcome(l, g, sw, copies, held);
  return typed(anfi_call(g, r->nin, in), l->type, r);
}

static void fill_step(looping *l, anf_graph *old, anf_graph *g, anfi_map *copies) {
  const anfi_node_vec order = order_of(l, old);
  for (size_t k = 0; k < order.n; k++) {
    anf_node *n = order.at[k];
    if (n == old->result || n == old->result->in[0].def) continue;
    anfi_copy_node(l->a, g, n, copies);
  }
  anfi_set_result(g, result_outcome(l, g, old, copies));
}

/* The header's step takes the invariants, then the state, then what exits are given in places of their own. */
static anf_graph *header_step(looping *l, anfi_map *copies) {
  anf_graph *h = l->header, *g = anfi_graph_beside(h, ANFI_BODY);
  for (int state = 0; state < 2; state++)
    for (size_t k = 0; k < h->params.n; k++) {
      anf_node *p = h->params.at[k];
      if (l->invariant[k] == (state == 0))
        *anfi_map_at(copies, p->id) = anfi_key(typed(anfi_param(g, NULL, p->type), p->type, p));
    }
  for (size_t i = 0; i < l->own.n; i++) anfi_param(g, NULL, l->own.at[i]);
  return g;
}

static void make_steps(looping *l) {
  anfi_map *copies = ANFI_NEW_N(l->a, anfi_map, l->member.n);
  l->step = ANFI_NEW_N(l->a, anf_graph *, l->member.n);
  for (size_t i = 0; i < l->member.n; i++) {
    anf_graph *g = l->member.at[i];
    anfi_map_init(&copies[i], l->a);
    if (g == l->header) {
      l->step[i] = header_step(l, &copies[i]);
      continue;
    }
    l->step[i] = anfi_graph_beside(g, ANFI_BODY);
    anf_node **p = copy_params(l, l->step[i], g);
    for (size_t k = 0; k < g->params.n; k++)
      *anfi_map_at(&copies[i], g->params.at[k]->id) = anfi_key(p[k]);
  }
  for (size_t i = 0; i < l->member.n; i++) fill_step(l, l->member.at[i], l->step[i], &copies[i]);
}

/* (bool, state types.., types of places of their own..) */
static void find_type(looping *l) {
  const anf_graph *h = l->header;
  const anf_type **t = ANFI_NEW_N(l->a, const anf_type *, h->params.n + l->own.n + 1);
  size_t n = 0;
  t[n++] = anfi_type_scalar(l->m->cx, ANF_BOOL);
  for (size_t k = 0; k < h->params.n; k++)
    if (!l->invariant[k]) t[n++] = h->params.at[k]->type;
  for (size_t i = 0; i < l->own.n; i++) t[n++] = l->own.at[i];
  l->type = anfi_type_tuple(l->m->cx, n, t);
}

static anf_node *item(looping *l, anf_node *loop, size_t i) {
  const anfi_attrs *at =
      anfi_attrs_one(l->m, ANF_OP_TupleGet, anfi_value_new_i64(l->m->cx, ANF_INT, (int64_t)i));
  return typed(anfi_apply(loop->graph, ANF_OP_TupleGet, at, 1, &loop), loop->type->items[i], loop);
}

/* Takes the parameters of the header and what is in places of its own, and calls exit e. */
static anf_node *leaver(looping *l, size_t e) {
  anf_graph *x = l->exits.at[e], *g = anfi_graph_beside(x, ANFI_AFTER);
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, x->params.n + 1);
  copy_params(l, g, l->header);
  for (size_t i = 0; i < l->own.n; i++)
    typed(anfi_param(g, NULL, l->own.at[i]), l->own.at[i], NULL);
  in[0] = anfi_graph_value(x);
  for (size_t k = 0; k < x->params.n; k++) {
    size_t at = l->leaves[e][k];
    in[k + 1] = at == NOWHERE ? anfi_undefined(g, x->params.at[k]->type) : g->params.at[at];
  }
  anf_node *call = anfi_call(g, x->params.n + 1, in);
  anfi_set_result(g, typed(call, l->header->result->type, x->result));
  return anfi_graph_value(g);
}

/* What is called after the loop. */
static anf_node *after(looping *l, anf_graph *g, anf_node *number) {
  size_t n = l->exits.n;
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, n + 1);
  if (l->exit) return anfi_graph_value(l->exit);
  if (n == 1) return leaver(l, 0);
  in[0] = number;
  for (size_t e = 0; e < n; e++) in[n == 2 ? 2 - e : e + 1] = leaver(l, e);
  return anfi_apply(g, n == 2 ? ANF_OP_Switch : ANF_OP_SwitchLayer, NULL, n + 1, in);
}

/* The header's value for these arguments, in g; if there is `go` and it is false, the exit's. */
static anf_node *looped(looping *l, anf_graph *g, anf_node *go, anf_node **args,
                        const anf_node *like) {
  const anf_graph *h = l->header;
  anf_node **in = ANFI_NEW_N(l->a, anf_node *, h->params.n + l->own.n + 3);
  size_t n = 0, item_at = 0;
  in[n++] = anfi_graph_value(l->step[number_of(l, h)]);
  if (go) in[n++] = go;
  for (int state = 0; state < 2; state++)
    for (size_t k = 0; k < h->params.n; k++)
      if (l->invariant[k] == (state == 0)) in[n++] = args[k];
  for (size_t i = 0; i < l->own.n; i++) in[n++] = anfi_undefined(g, l->own.at[i]);
  size_t ns = l->type->n - 1, nw = n - (go ? 2 : 1) - ns;
  const anfi_attrs *at =
      anfi_attrs_one(l->m, ANF_OP_Loop, anfi_value_new_i64(l->m->cx, ANF_INT, (int64_t)nw));
  anf_node *loop = typed(anfi_apply(g, ANF_OP_Loop, at, n, in),
                         anfi_type_tuple(l->m->cx, ns, l->type->items + 1), like);
  if (go)
    anfi_set_attrs(loop, anfi_attrs_set(l->m, loop, ANFI_LOOP_GUARDED,
                                        anfi_value_new_i64(l->m->cx, ANF_BOOL, 1)));
  size_t first_own = count_state(l);
  in[0] = after(l, g, l->exits.n > 1 ? item(l, loop, first_own) : NULL);
  for (n = 1; n <= h->params.n; n++)
    in[n] = l->invariant[n - 1] ? args[n - 1] : item(l, loop, item_at++);
  for (size_t i = 0; i < l->own.n; i++) in[n++] = item(l, loop, first_own + i);
  return typed(anfi_call(g, n, in), h->result->type, like);
}

/* Choices between the header and the exit: ways in. Members of the component are called from outside
 * alone, now that there are steps. */
static void guard_calls(looping *l) {
  anfi_node_vec calls = {0};
  for (const anfi_use *u = l->header->self->uses; u; u = u->next) {
    if (other_than_header(l, u->user) != l->exit) continue;
    for (const anfi_use *c = u->user->uses; c; c = c->next)
      if (c->user->kind == ANFI_CALL && c == c->user->in && c->user->graph != l->header)
        anfi_push(l->a, &calls, c->user);
  }
  for (size_t i = 0; i < calls.n; i++) {
    anf_node *call = calls.at[i], **args = ANFI_NEW_N(l->a, anf_node *, call->nin);
    const anf_node *sw = call->in[0].def;
    for (uint32_t k = 1; k < call->nin; k++) args[k - 1] = call->in[k].def;
    anfi_substitute(call,
                    looped(l, call->graph, goes_on(l, call->graph, sw, sw->in[0].def), args, call));
  }
}

static void replace_header(looping *l) {
  anf_graph *h = l->header;
  anf_node *old = h->result, **args = ANFI_NEW_N(l->a, anf_node *, h->params.n + 1);
  for (size_t k = 0; k < h->params.n; k++) args[k] = h->params.at[k];
  if (l->exit) guard_calls(l);
  anfi_set_result(h, looped(l, h, NULL, args, old));
}

/* Its graphs are neighbours in the order of components. Calls in result position alone? */
static bool is_candidate(looping *l, size_t first) {
  const anf_analysis *an = l->an;
  anf_graph *const *at = an->by_scc.at;
  l->scc = an->graphs[at[first]->id].scc;
  l->member.n = 0;
  for (size_t i = first; i < an->by_scc.n && an->graphs[at[i]->id].scc == l->scc; i++)
    anfi_push(l->a, &l->member, at[i]);
  if (l->member.n > MAX_MEMBERS) return false;
  for (size_t i = 0; i < l->member.n; i++)
    if (!l->member.at[i]->result || !l->member.at[i]->result->type) return false;
  return only_tail_calls(l);
}

static bool begins_recursion(const looping *l, size_t i) {
  const anf_analysis *an = l->an;
  const anfi_graph_info *gi = &an->graphs[an->by_scc.at[i]->id];
  return gi->recursive && (i == 0 || an->graphs[an->by_scc.at[i - 1]->id].scc != gi->scc);
}

/* False: all that could have one has one. */
static bool give_headers(looping *l) {
  bool changed = false;
  for (size_t i = 0; i < l->an->by_scc.n; i++) {
    if (!begins_recursion(l, i) || !is_candidate(l, i) || find_header(l) || !anfi_rewrite(l->pass))
      continue;
    anfi_merge_headers(l->m, l->an, l->member.n, l->member.at);
    changed = true;
  }
  return changed;
}

bool anfi_opt_loop(anfi_pass *p) {
  looping l = {.pass = p, .m = p->m, .a = anfi_scratch(p->m->cx)};
  if (!anfi_has_calls(p->m)) return true;
  if (!anfi_clear_dead(p->m)) return false;
  l.an = anfi_analyse(p->m);
  if (give_headers(&l)) l.an = anfi_analyse(p->m);
  for (size_t i = 0; i < l.an->by_scc.n; i++) {
    if (!begins_recursion(&l, i) || !is_candidate(&l, i) || !find_header(&l) || !anfi_rewrite(p))
      continue;
    list_exits(&l);
    find_invariants(&l);
    find_places(&l);
    find_type(&l);
    make_steps(&l);
    replace_header(&l);
  }
  return anfi_clear_dead(p->m);
}
