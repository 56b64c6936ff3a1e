// SPDX-License-Identifier: Apache-2.0
/* Counted loops: where a counter alone ends a loop, the number of rounds is known before it.
 *   while i < n: i, s = i + 1, f(s)      ->  repeat max(n - i, 0): i, s = i + 1, f(s)
 * A counted loop tests nothing, its derivative needs no stack that grows, and no round has to remember its counter.
 * The counter is an integer of the state that a round changes by a number; `again` compares the next one with an
 * invariant, in the direction in which the counter goes. A guard that is the same comparison of the first counter says
 * what the clamp at 0 says; any other guard chooses between no round and at least one, as without a guard there is at
 * least one. INVARIANT: a counter that would pass the ends of its type takes no step but 1, so that it stops there. */
#include "ir/loop.h"
#include "optimizer/opt.h"

enum { LONGEST_STEP = 1 << 20 }; // so that numbers of rounds that overflow are beyond any run time

typedef struct {
  anfi_pass *pass;
  anfi_arena *a;
  anf_node *loop;
  anfi_loop_op l;
  /* the counter and its test */
  anfi_opcode test;
  int64_t by;                // what a round adds to the counter
  anf_node *from, *to;       // before the loop: the first counter, and what it is compared with
  bool first;                // the counter is the first operand of the comparison
  bool or_equal, descending; // the comparison lets equal numbers go on; goes on above `to`
} counting;

static bool is_integer(const anf_node *n) {
  const anf_type *t = n->type;
  if (!t || t->kind != ANF_TYPE_TENSOR || t->n) return false;
  return t->dtype == ANF_INT || t->dtype == ANF_I64 || t->dtype == ANF_I32;
}

static bool is_number(const anf_node *n, int64_t *out) {
  return n->kind == ANFI_VALUE && is_integer(n) && anfi_value_is_int(n->u.value, out);
}

/* Is n the next value of a counter of the state? Finds its first value. */
static bool is_counter(counting *c, const anf_node *n) {
  const anf_node *r = c->l.step->result;
  size_t i = 0;
  while (i < c->l.ns && r->in[1 + i].def != n) i++;
  if (i == c->l.ns || !anfi_loop_counts(&c->l, i, &c->by)) return false;
  bool wraps = n->type->dtype == ANF_I32;
  c->from = c->loop->in[c->l.first_w + c->l.nw + i].def;
  return c->from->type == n->type && c->by && c->by <= (wraps ? 1 : LONGEST_STEP) &&
         c->by >= -(wraps ? 1 : LONGEST_STEP);
}

/* Is n the same in all rounds? Finds it before the loop. */
static bool is_invariant(counting *c, anf_node *n) {
  if (!is_integer(n)) return false;
  if (n->kind == ANFI_VALUE) c->to = n;
  else if (n->kind != ANFI_PARAM || n->u.index >= c->l.nw) return false;
  else c->to = c->loop->in[c->l.first_w + n->u.index].def;
  return is_integer(c->to);
}

static bool find_counter(counting *c) {
  const anf_node *again = c->l.step->result->in[0].def;
  if (again->kind != ANFI_APPLY || again->nin != 2) return false;
  c->test = (anfi_opcode)again->op;
  bool less = c->test == ANF_OP_Less || c->test == ANF_OP_LessEqual,
       greater = c->test == ANF_OP_Greater || c->test == ANF_OP_GreaterEqual;
  if (!less && !greater) return false;
  c->or_equal = c->test == ANF_OP_LessEqual || c->test == ANF_OP_GreaterEqual;
  for (size_t side = 0; side < 2; side++) {
    c->first = side == 0;
    c->descending = c->first == greater;
    if (is_counter(c, again->in[side].def) && is_invariant(c, again->in[1 - side].def))
      return c->descending == (c->by < 0);
  }
  return false;
}

/* ---- the number of rounds ---- */

static anf_node *typed(const counting *c, anf_node *n) {
  n->type = anfi_type_scalar(c->pass->m->cx, ANF_I64);
  n->debug = c->loop->debug;
  return n;
}

static anf_node *number(const counting *c, int64_t x) {
  return typed(c, anfi_value(c->pass->m, anfi_value_new_i64(c->pass->m->cx, ANF_I64, x)));
}

static anf_node *apply(const counting *c, anfi_opcode op, anf_node *a, anf_node *b) {
  return typed(c, anfi_apply(c->loop->graph, op, NULL, 2, (anf_node *const[]){a, b}));
}

static anf_node *wide(const counting *c, anf_node *x) {
  if (x->type->dtype == ANF_I64) return x;
  anf_module *m = c->pass->m;
  const anfi_attrs *at =
      anfi_attrs_one(m, ANF_OP_Cast, anfi_value_new_type(m->cx, anfi_type_scalar(m->cx, ANF_I64)));
  return typed(c, anfi_apply(c->loop->graph, ANF_OP_Cast, at, 1, &x));
}

static bool is_same(const anf_node *a, const anf_node *b) {
  int64_t x, y;
  return a == b || (is_number(a, &x) && is_number(b, &y) && x == y);
}

/* Does the guard compare the first counter as `again` does the later ones? */
static bool guard_is_test(const counting *c) {
  const anf_node *go = c->l.go;
  return anfi_is_op(go, c->test) && is_same(go->in[!c->first].def, c->from) &&
         is_same(go->in[c->first].def, c->to);
}

/* The way is to - from, or from - to; the last step may go beyond it. */
static anf_node *rounds(const counting *c) {
  anf_node *from = wide(c, c->from), *to = wide(c, c->to);
  int64_t step = c->descending ? -c->by : c->by, more = c->or_equal ? step : step - 1;
  anf_node *n = c->descending ? apply(c, ANF_OP_Sub, from, to) : apply(c, ANF_OP_Sub, to, from);
  if (more) n = apply(c, ANF_OP_Add, n, number(c, more));
  if (step > 1) n = apply(c, ANF_OP_FloorDiv, n, number(c, step));
  if (c->l.go && guard_is_test(c)) return apply(c, ANF_OP_Maximum, n, number(c, 0));
  n = apply(c, ANF_OP_Maximum, n, number(c, 1));
  if (!c->l.go) return n;
  return typed(c, anfi_apply3(c->loop->graph, ANF_OP_Switch, c->l.go, n, number(c, 0)));
}

/* ---- rewriting ---- */

/* The step without `again`. */
static anf_graph *plain_step(const counting *c) {
  anf_graph *old = c->l.step, *g = anfi_graph_new(old->module, old->name);
  const anf_node *r = old->result;
  anf_node **in = ANFI_NEW_N(c->a, anf_node *, r->nin);
  anfi_node_vec order = {0};
  anfi_map copies;
  anfi_map_init(&copies, c->a);
  anfi_graph_order(old, c->a, &order);
  g->flags = old->flags;
  g->debug = old->debug;
  for (size_t i = 0; i < old->params.n; i++) {
    anf_node *was = old->params.at[i], *p = anfi_param(g, NULL, was->type);
    p->debug = was->debug;
    *anfi_map_at(&copies, was->id) = anfi_key(p);
  }
  for (size_t i = 0; i < order.n; i++)
    if (order.at[i] != r) anfi_copy_node(c->a, g, order.at[i], &copies);
  for (uint32_t i = 1; i < r->nin; i++) in[i - 1] = anfi_copy_of(&copies, r->in[i].def);
  anf_node *result = anfi_apply(g, ANF_OP_MakeTuple, NULL, r->nin - 1u, in);
  result->type = anfi_type_tuple(old->module->cx, r->nin - 1u, r->type->items + 1);
  result->debug = r->debug;
  anfi_set_result(g, result);
  return g;
}

static const anfi_attrs *flag(const counting *c, uint32_t k, bool x) {
  return anfi_attrs_set(c->pass->m, c->loop, k, anfi_value_new_i64(c->pass->m->cx, ANF_BOOL, x));
}

static void rebuild(counting *c) {
  anf_node *l = c->loop, **in = ANFI_NEW_N(c->a, anf_node *, l->nin + 1u);
  size_t n = 0;
  in[n++] = anfi_graph_value(plain_step(c));
  in[n++] = rounds(c);
  for (uint32_t i = (uint32_t)c->l.first_w; i < l->nin; i++) in[n++] = l->in[i].def;
  anfi_set_attrs(l, flag(c, ANFI_LOOP_GUARDED, false));
  anf_node *by = anfi_apply(l->graph, ANF_OP_Loop, flag(c, ANFI_LOOP_COUNTED, true), n, in);
  by->type = l->type;
  by->debug = l->debug;
  anfi_substitute(l, by);
}

static void count(anfi_pass *p, anfi_arena *a, anf_node *loop) {
  counting c = {.pass = p, .a = a, .loop = loop, .l = anfi_loop_parts(loop)};
  const anf_graph *step = c.l.step;
  if ((loop->flags & ANFI_NODE_EFFECT) || c.l.counted || !step || step->effects.n ||
      !step->result || !anfi_is_op(step->result, ANF_OP_MakeTuple) || !step->result->type)
    return;
  if (find_counter(&c) && anfi_rewrite(p)) rebuild(&c);
}

bool anfi_opt_count(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  for (size_t i = 0; i < p->m->nodes.n; i++) { // new loops too: those in steps that were copied
    anf_node *l = p->m->nodes.at[i];
    if (l && anfi_is_op(l, ANF_OP_Loop) && l->type) count(p, a, l);
  }
  return true;
}
