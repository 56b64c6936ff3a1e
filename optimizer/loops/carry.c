// SPDX-License-Identifier: Apache-2.0
/* Loop-carried values: each item of a loop's state, outputs and invariants that can go, goes.
 *   s, t = s + 1, t + 1, both from 0     t is s: equal state items become one
 *   s, w = s + w, w                      w is an invariant, its result the initial value
 *   w = 2.0, an invariant                the number stands in the step
 *   v, w, invariants that are both x     w is v
 *   stack o[i] = x[i]                    o is x
 *   an item that nothing reads           removed, of a step that returns what a call gives, too
 *   a guard that is true                 removed
 * Hard case: two items equal after each iteration are equal in the result only if there is an iteration, or if
 * they start equal. */
#include "ir/loop.h"
#include "optimizer/opt.h"

typedef struct {
  /* the loop */
  anfi_pass *pass;
  anfi_arena *a;
  anf_node *loop;
  anf_graph *step;
  anfi_node_vec order; // of the step
  bool counted, guarded;
  /* its parts */
  size_t first_w, nw, ns, nout; // inputs of the loop: w at first_w.., then s, then stacks
  size_t first_item;            // of the step's result: the first of the state, then outs
  /* liveness */
  bool *read;         // by item of the loop's result
  size_t *to;         // by item: the one to read in its place
  anf_node **instead; // by item: a node outside to read in its place, or NULL
  anfi_map seen;      // nodes of the step that are needed
  anfi_node_vec todo;
  bool *live;  // by item of state and outs
  size_t *one; // by input of the step: the first invariant that is the same
} carried;

static size_t items(const carried *c) { return c->ns + c->nout; }
static anf_node *next(const carried *c, size_t i) {
  return c->step->result->in[c->first_item + i].def;
}

/* ---- who reads which result ---- */

static size_t item_of(const anf_node *get) {
  int64_t i = 0, n = get->in[0].def->type->n;
  anfi_value_is_int(anfi_attr_value(get->graph->module->cx, ANF_OP_TupleGet, get->u.attrs, 0), &i);
  return (size_t)(i < 0 ? i + n : i);
}

/* False: the tuple is used as a whole. */
static bool find_reads(carried *c) {
  c->read = ANFI_NEW_N(c->a, bool, c->loop->type->n + 1);
  if (anfi_is_result(c->loop->graph->module, c->loop)) return false;
  for (const anfi_use *u = c->loop->uses; u; u = u->next) {
    if (!anfi_is_op(u->user, ANF_OP_TupleGet)) return false;
    c->read[item_of(u->user)] = true;
  }
  return true;
}

static anf_node *get(const anf_node *like, anf_node *t, size_t i) {
  anf_value *v = anfi_value_new_i64(t->graph->module->cx, ANF_INT, (int64_t)i);
  const anfi_attrs *at = anfi_attrs_one(like->graph->module, ANF_OP_TupleGet, v);
  anf_node *n = anfi_apply(like->graph, ANF_OP_TupleGet, at, 1, &t);
  n->type = like->type;
  n->debug = like->debug;
  return n;
}

/* The step returns what a call gives: where an item of it can go, the items of the call in its place. */
static bool takes_apart(carried *c) {
  anf_node *r = c->step->result;
  bool goes = false;
  for (size_t i = 0; i < c->ns; i++)
    goes |= !c->read[i] && !anfi_is_used(c->step->params.at[c->nw + i]);
  if (r->kind != ANFI_CALL || r->type->kind != ANF_TYPE_TUPLE || !goes || !anfi_rewrite(c->pass))
    return false;
  anf_node **in = ANFI_NEW_N(c->a, anf_node *, r->type->n);
  for (size_t i = 0; i < r->type->n; i++) in[i] = anfi_tuple_item(c->step, r, i);
  anf_node *all = anfi_apply(c->step, ANF_OP_MakeTuple, NULL, r->type->n, in);
  all->type = r->type;
  all->debug = r->debug;
  anfi_set_result(c->step, all);
  return true;
}

static bool parts(carried *c) {
  anfi_loop_op l = anfi_loop_parts(c->loop);
  c->step = l.step;
  if (!c->step || c->step->effects.n) return false;
  c->counted = l.counted;
  c->guarded = l.go;
  c->first_w = l.first_w;
  c->first_item = anfi_loop_first_item(&l);
  c->nw = l.nw;
  c->nout = l.nout;
  c->ns = l.ns;
  if (!anfi_is_op(c->step->result, ANF_OP_MakeTuple) && !takes_apart(c)) return false;
  anfi_graph_order(c->step, c->a, &c->order);
  return true;
}

/* Item i of the loop is item place[i] of `by`. */
static void redirect(carried *c, anf_node *by, const size_t *place) {
  for (anfi_use *u = c->loop->uses; u;) {
    anf_node *g = u->user;
    u = u->next;
    size_t i = item_of(g), at = c->to[i];
    if (c->instead[i]) anfi_substitute(g, c->instead[i]);
    else if (by != c->loop || at != i) anfi_substitute(g, get(g, by, place[at]));
  }
}

/* ---- items equal to another value ---- */

/* The value of item i outside the loop, if the loop does not change it. */
static anf_node *unchanged(const carried *c, size_t i) {
  const anf_node *n = next(c, i);
  if (n->kind != ANFI_PARAM) return NULL;
  bool stack = i >= c->ns;
  size_t at = n->u.index;
  if (stack ? !c->counted || at < c->nw + c->ns : at != c->nw + i) return NULL;
  anf_node *was = c->loop->in[c->first_w + at].def;
  return was->type == c->loop->type->items[i] ? was : NULL;
}

static bool same_start(const carried *c, size_t i, size_t k) {
  const anfi_use *s = c->loop->in + c->first_w + c->nw;
  return (!c->counted && !c->guarded) || i >= c->ns || s[i].def == s[k].def;
}

static size_t same_item(const carried *c, size_t i) {
  for (size_t k = i < c->ns ? 0 : c->ns; k < i; k++)
    if (next(c, k) == next(c, i) && c->loop->type->items[k] == c->loop->type->items[i] &&
        !c->instead[k] && same_start(c, i, k))
      return c->to[k];
  return i;
}

static void find_others(carried *c) {
  size_t n = c->loop->type->n;
  c->to = ANFI_NEW_N(c->a, size_t, n + 1);
  c->instead = ANFI_NEW_N(c->a, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) c->to[i] = i;
  for (size_t i = 0; i < items(c); i++) {
    c->instead[i] = unchanged(c, i);
    if (!c->instead[i] && c->read[i]) c->to[i] = same_item(c, i);
  }
  for (size_t i = 0; i < items(c); i++) {
    if (!c->read[i] || (c->to[i] == i && !c->instead[i])) continue;
    c->read[i] = false;
    if (!c->instead[i]) c->read[c->to[i]] = true;
  }
}

/* ---- liveness of items ---- */

static void want(carried *c, anf_node *n) {
  if (n->kind == ANFI_VALUE) return;
  uint64_t *at = anfi_map_at(&c->seen, n->id);
  if (*at) return;
  *at = 1;
  anfi_push(c->a, &c->todo, n);
}

static void keep(carried *c, size_t i) {
  if (c->live[i]) return;
  c->live[i] = true;
  want(c, next(c, i));
}

static void find_live(carried *c) {
  anfi_map_init(&c->seen, c->a);
  c->live = ANFI_NEW_N(c->a, bool, items(c) + 1);
  if (c->first_item) want(c, c->step->result->in[0].def);
  for (size_t i = 0; i < items(c); i++)
    if (c->read[i]) keep(c, i);
  while (c->todo.n) {
    anf_node *n = c->todo.at[--c->todo.n];
    for (uint32_t i = 0; i < n->nin; i++) want(c, n->in[i].def);
    if (n->kind == ANFI_PARAM && n->u.index >= c->nw && n->u.index < c->nw + c->ns)
      keep(c, n->u.index - c->nw);
  }
}

/* Inputs of the step, from the first w on: which do not change, which of them are numbers, which
 * become or stay invariants, which are state. */
static bool is_steady(const carried *c, size_t i) {
  return i < c->nw || (i < c->nw + c->ns && c->live[i - c->nw] && c->instead[i - c->nw]);
}

static bool is_number(const carried *c, size_t i) {
  const anf_node *x = c->loop->in[c->first_w + i].def;
  return is_steady(c, i) && x->kind == ANFI_VALUE && x->type == c->step->params.at[i]->type &&
         x->type && x->type->kind == ANF_TYPE_TENSOR && !x->type->n;
}

static bool may_be_invariant(const carried *c, size_t i) {
  return is_steady(c, i) && !is_number(c, i);
}

static bool is_invariant(const carried *c, size_t i) {
  return may_be_invariant(c, i) && c->one[i] == i;
}

static void find_same_invariants(carried *c) {
  const anfi_use *in = c->loop->in + c->first_w;
  anfi_map first; // node -> 1 + the first input that is it
  anfi_map_init(&first, c->a);
  c->one = ANFI_NEW_N(c->a, size_t, c->step->params.n + 1);
  for (size_t i = 0; i < c->step->params.n; i++) {
    c->one[i] = i;
    if (!may_be_invariant(c, i)) continue;
    uint64_t *at = anfi_map_at(&first, in[i].def->id);
    if (!*at) *at = i + 1;
    else if (c->step->params.at[*at - 1]->type == c->step->params.at[i]->type)
      c->one[i] = (size_t)*at - 1;
  }
}

static bool is_state(const carried *c, size_t i) {
  return i >= c->nw && i < c->nw + c->ns && c->live[i - c->nw] && !c->instead[i - c->nw];
}

static bool stays(const carried *c, size_t item) { // of the loop's result
  return item >= items(c) || (c->live[item] && !c->instead[item]);
}

/* ---- rewriting ---- */

typedef bool in_part(const carried *c, size_t i);
static bool is_stack(const carried *c, size_t i) { return i >= c->nw + c->ns; }
static in_part *const part[] = {is_invariant, is_state, is_stack};

static void make_params(const carried *c, anf_graph *g, anfi_map *copies) {
  for (size_t p = 0; p < ANFI_LEN(part); p++)
    for (size_t i = 0; i < c->step->params.n; i++) {
      const anf_node *was = c->step->params.at[i];
      if (!part[p](c, i)) continue;
      anf_node *by = anfi_param(g, NULL, was->type);
      by->debug = was->debug;
      *anfi_map_at(copies, was->id) = anfi_key(by);
    }
  for (size_t i = 0; i < c->step->params.n; i++) {
    anf_node *const *was = c->step->params.at;
    anf_node *by = NULL;
    if (is_number(c, i)) by = c->loop->in[c->first_w + i].def;
    else if (c->one[i] != i) by = anfi_copy_of(copies, was[c->one[i]]);
    if (by) *anfi_map_at(copies, was[i]->id) = anfi_key(by);
  }
}

static anf_graph *smaller_step(const carried *c) {
  anf_graph *old = c->step, *g = anfi_graph_new(old->module, old->name);
  const anf_node *r = old->result;
  anf_node **in = ANFI_NEW_N(c->a, anf_node *, r->nin + 1);
  const anf_type **t = ANFI_NEW_N(c->a, const anf_type *, r->nin + 1);
  anfi_map copies;
  size_t n = 0;
  anfi_map_init(&copies, c->a);
  g->flags = old->flags;
  g->debug = old->debug;
  make_params(c, g, &copies);
  for (size_t i = 0; i < c->order.n; i++)
    if (anfi_map_find(&c->seen, c->order.at[i]->id))
      anfi_copy_node(c->a, g, c->order.at[i], &copies);
  for (size_t i = 0; i < r->nin; i++) {
    if (i >= c->first_item && !stays(c, i - c->first_item)) continue;
    t[n] = r->type->items[i];
    in[n++] = anfi_copy_of(&copies, r->in[i].def);
  }
  anf_node *result = anfi_apply(g, ANF_OP_MakeTuple, NULL, n, in);
  result->type = anfi_type_tuple(old->module->cx, n, t);
  result->debug = r->debug;
  anfi_set_result(g, result);
  return g;
}

static void set_number(anf_node *loop, uint32_t k, size_t x) {
  if (anfi_loop_attr(loop, k) == x) return;
  anf_module *m = loop->graph->module;
  anf_value *v = anfi_value_new_i64(m->cx, k < ANFI_LOOP_COUNTED ? ANF_INT : ANF_BOOL, (int64_t)x);
  anfi_set_attrs(loop, anfi_attrs_set(m, loop, k, v));
}

static void rebuild(carried *c) {
  anf_node *l = c->loop, **in = ANFI_NEW_N(c->a, anf_node *, l->nin + 1);
  const anf_type **t = ANFI_NEW_N(c->a, const anf_type *, l->type->n + 1);
  size_t *place = ANFI_NEW_N(c->a, size_t, l->type->n + 1), n = 0, nt = 0, nw = 0, nout = 0;
  in[n++] = anfi_graph_value(smaller_step(c));
  if (c->first_w > 1) in[n++] = l->in[1].def;
  for (size_t p = 0; p < ANFI_LEN(part); p++)
    for (size_t i = 0; i + c->first_w < l->nin; i++)
      if (part[p](c, i)) in[n++] = l->in[c->first_w + i].def, nw += p == 0;
  for (size_t i = 0; i < l->type->n; i++)
    if (stays(c, i)) {
      place[i] = nt;
      t[nt++] = l->type->items[i];
      nout += i >= c->ns && i < items(c);
    }
  anf_node *by = anfi_apply(l->graph, ANF_OP_Loop, l->u.attrs, n, in);
  by->type = anfi_type_tuple(l->graph->module->cx, nt, t);
  by->debug = l->debug;
  set_number(by, ANFI_LOOP_INVARIANT, nw);
  set_number(by, ANFI_LOOP_OUTS, nout);
  redirect(c, by, place);
  anfi_delete(l);
}

static bool is_true(const anf_node *n) {
  return n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR &&
         anfi_get_i64(n->u.value, 0) != 0;
}

/* The loop without its guard. */
static anf_node *unguarded(anfi_arena *a, anf_node *loop) {
  anf_node **in = ANFI_NEW_N(a, anf_node *, loop->nin);
  in[0] = loop->in[0].def;
  for (uint32_t i = 2; i < loop->nin; i++) in[i - 1] = loop->in[i].def;
  anf_node *by = anfi_apply(loop->graph, ANF_OP_Loop, loop->u.attrs, loop->nin - 1u, in);
  by->type = loop->type;
  by->debug = loop->debug;
  set_number(by, ANFI_LOOP_GUARDED, 0);
  anfi_substitute(loop, by);
  return by;
}

static void carry(anfi_pass *p, anfi_arena *a, anf_node *loop) {
  if (!(loop->flags & ANFI_NODE_EFFECT) && anfi_loop_parts(loop).go && is_true(loop->in[1].def) &&
      anfi_rewrite(p))
    loop = unguarded(a, loop);
  carried c = {.pass = p, .a = a, .loop = loop};
  if ((loop->flags & ANFI_NODE_EFFECT) || !find_reads(&c) || !parts(&c)) return;
  find_others(&c);
  find_live(&c);
  find_same_invariants(&c);
  bool smaller = false, read_elsewhere = false;
  for (size_t i = 0; i < items(&c); i++) {
    smaller |= !stays(&c, i);
    read_elsewhere |= c.to[i] != i;
  }
  for (size_t i = 0; i < c.step->params.n; i++) smaller |= c.one[i] != i;
  for (size_t i = 0; i < c.nw; i++) smaller |= is_number(&c, i);
  if (!(smaller || read_elsewhere) || !anfi_rewrite(p)) return;
  if (smaller) rebuild(&c);
  else redirect(&c, loop, c.to);
}

bool anfi_opt_carry(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  size_t n = p->m->nodes.n;
  for (size_t i = 0; i < n; i++) {
    anf_node *l = p->m->nodes.at[i];
    if (l && anfi_is_op(l, ANF_OP_Loop) && l->type) carry(p, a, l);
  }
  return true;
}
