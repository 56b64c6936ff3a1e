// SPDX-License-Identifier: Apache-2.0
/* Calls, choices and loops for the writer.
 *   Switch(c, f, g)(x)              ->  if(c), whose regions are the nodes of f and of g
 *   SwitchLayer(i, f, ..)(x)        ->  case(i)
 *   Loop(step, w.., s.., xs..)      ->  while(i, again, s.., o..): x is element i of xs, what the step stacks is written into o
 * A region sees all values around it. */
#include "frontend/stablehlo/write.h"
#include "ir/loop.h"

enum { MAX_ROUNDS = 1 << 24 };

/* Names for the results of an op: %5, or %5#0, %5#1 .. */
static const anfi_out *results_of(anfi_flat *w, const char *name, const anfi_out *like) {
  anfi_outs leaves = {0}, own = {0};
  anfi_out_add(w, like, &leaves);
  for (size_t i = 0; i < leaves.n; i++) {
    const char *s = leaves.n == 1 ? name : anfi_sprintf(w->arena, "%s#%zu", name, i);
    anfi_push(w->arena, &own, anfi_out_leaf(w, s, leaves.at[i]->type));
  }
  const anfi_out *const *next = own.at;
  return anfi_out_like(w, like, &next);
}

static const char *bound(anfi_flat *w, const char *name, size_t n) {
  return n == 0   ? ""
         : n == 1 ? anfi_sprintf(w->arena, "%s = ", name)
                  : anfi_sprintf(w->arena, "%s:%zu = ", name, n);
}

const anfi_out *anfi_sw_call_function(anfi_flat *w, const anf_graph *g, const char *name,
                                      const anfi_outs *args) {
  anfi_outs out = {0};
  const anfi_out *like = anfi_flat_fresh(w, anfi_flat_type_of(g->result), "%");
  if (!like) return NULL;
  anfi_out_add(w, like, &out);
  const char *result = anfi_sw_new_name(w);
  anfi_sw_line(w, "%sfunc.call @%s(%s) : (%s) -> (%s)", bound(w, result, out.n), name,
               anfi_sw_names(w, args), anfi_sw_types(w, args), anfi_sw_types(w, &out));
  return results_of(w, result, like);
}

/* ---- choices ---- */

typedef struct {
  const anf_node *call;
  size_t narg;
  const anfi_out *const *args;
} choice;

static void put_yield(anfi_flat *w, const anfi_outs *x) {
  if (x->n) anfi_sw_line(w, "stablehlo.return %s : %s", anfi_sw_names(w, x), anfi_sw_types(w, x));
  else anfi_sw_line(w, "stablehlo.return");
}

static const anfi_out *branch(anfi_flat *w, const choice *c, const anf_node *f) {
  anfi_outs leaves = {0};
  anfi_sw_own_of(w)->indent++, w->depth++;
  const anfi_out *r = anfi_flat_call(w, c->call, f, c->narg, c->args);
  if (r) anfi_out_add(w, r, &leaves), put_yield(w, &leaves);
  anfi_sw_own_of(w)->indent--, w->depth--;
  return r;
}

/* The regions are written to the text, and before them the op, whose result types are those of the first region. */
static const anfi_out *put_choice(anfi_flat *w, const choice *c, const char *op,
                                  const anfi_out *which, size_t n, const anfi_use *branches) {
  const anfi_out *first = NULL;
  anfi_outs out = {0};
  anf_text *whole = w->out, *regions = ANFI_NEW(w->arena, anf_text);
  *regions = (anf_text){.cx = w->cx};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, regions);
  w->out = regions;
  for (size_t i = 0; i < n; i++) {
    if (i) anfi_sw_line(w, "}, {");
    const anfi_out *r = branch(w, c, branches[i].def);
    if (!r) return NULL;
    if (first && !anfi_out_same_form(w, first, r))
      return (void)anfi_flat_refuse(w, c->call, "a choice between data", "of several forms"), NULL;
    if (!first) first = r;
  }
  w->out = whole;
  anfi_out_add(w, first, &out);
  const char *name = anfi_sw_new_name(w);
  anfi_sw_line(w, "%s\"stablehlo.%s\"(%s) ({", bound(w, name, out.n), op, which->name);
  anfi_put(w->out, regions->text, regions->len);
  anfi_sw_line(w, "}) : (%s) -> (%s)", anfi_sw_type(w, which->type), anfi_sw_types(w, &out));
  return results_of(w, name, first);
}

/* An index from 0, or from the end; case takes the last branch for one that is none. */
const anfi_out *anfi_sw_branch_number(anfi_flat *w, const anfi_out *i, size_t n) {
  const anfi_out *at = anfi_sw_cast(w, i, ANF_I32), *zero = anfi_sw_int(w, ANF_I32, 0),
                 *count = anfi_sw_int(w, ANF_I32, (int64_t)n);
  const anfi_out *below = anfi_sw_compare(w, "LT", at, zero);
  const anfi_out *end = anfi_sw_binary(w, "stablehlo.add", at, count);
  return anfi_sw_select(w, below, end, at);
}

const anfi_out *anfi_sw_choice(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args) {
  const choice c = {.call = n, .narg = narg, .args = args};
  bool two = anfi_is_op(callee, ANF_OP_Switch);
  if (!two && !anfi_is_op(callee, ANF_OP_SwitchLayer))
    return (void)anfi_flat_refuse(w, n, "a call of", "a function that is data"), NULL;
  const anfi_out *which = anfi_flat_operand(w, callee->in[0].def);
  if (which && !two) which = anfi_sw_branch_number(w, which, callee->nin - 1);
  return which ? put_choice(w, &c, two ? "if" : "case", which, callee->nin - 1, callee->in + 1)
               : NULL;
}

/* ---- loops ---- */

typedef struct {
  /* the node */
  anfi_loop_op op;
  size_t narg;
  const anfi_out *count, *go, **arg; // arg: w.., s.., xs..
  /* its text */
  anf_text *whole;   // around the loop
  anfi_outs before;  // what the while carries: round, again, s.., o..
  anfi_outs inside;  // the same in its body
  anfi_outs stacked; // o.. of a round
} loop;

static bool read_loop(anfi_flat *w, loop *l) {
  const anf_node *n = l->op.loop;
  if (!l->op.step) return anfi_flat_refuse(w, n, "a loop of", "a function that is data");
  if (l->op.counted && !(l->count = anfi_flat_operand(w, l->op.n))) return false;
  if (l->count) l->count = anfi_sw_cast(w, l->count, ANF_I64);
  if (l->op.go && !(l->go = anfi_flat_operand(w, l->op.go))) return false;
  l->narg = l->op.nw + l->op.ns + l->op.nx;
  l->arg = ANFI_NEW_N(w->arena, const anfi_out *, l->narg + 1);
  for (size_t k = 0; k < l->narg; k++)
    if (!(l->arg[k] = anfi_flat_operand(w, n->in[l->op.first_w + k].def))) return false;
  return !w->an->graphs[l->op.step->id].recursive ||
         anfi_flat_refuse(w, n, "a loop of", "a recursion");
}

/* ---- the most rounds that a loop can have, which is the size of its stacks ---- */

static bool known(const anf_node *n, int64_t *x) {
  bool good = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR && n->u.value->n == 1;
  if (good) *x = anfi_get_i64(n->u.value, 0);
  return good;
}

static bool holds(anfi_opcode op, int64_t a, int64_t b) {
  switch (op) {
  case ANF_OP_Less: return a < b;
  case ANF_OP_LessEqual: return a <= b;
  case ANF_OP_Greater: return a > b;
  case ANF_OP_GreaterEqual: return a >= b;
  case ANF_OP_NotEqual: return a != b;
  default: return false;
  }
}

/* How often the step i' = i + by is taken while i' compares so: what the loop's condition says of a counter. */
static int64_t steps(anfi_opcode op, int64_t i, int64_t by, int64_t end) {
  int64_t n = 1;
  for (i += by; holds(op, i, end); i += by)
    if (++n > MAX_ROUNDS) return -1;
  return n;
}

/* again = i' < end, where i' = i + by is state item k of the step: from that item's first value on. */
static int64_t by_counter(const anfi_loop_op *l, const anf_node *again) {
  int64_t start, by, end;
  const anf_node *next = again->kind == ANFI_APPLY && again->nin == 2 ? again->in[0].def : NULL;
  if (!next || !anfi_is_op(next, ANF_OP_Add) || !known(again->in[1].def, &end)) return -1;
  const anf_node *i = next->in[0].def;
  if (!known(next->in[1].def, &by)) return -1;
  for (size_t k = 0; k < l->ns; k++)
    if (l->step->params.at[l->nw + k] == i && l->step->result->in[1 + k].def == next &&
        known(l->loop->in[l->first_w + l->nw + k].def, &start))
      return steps((anfi_opcode)again->op, start, by, end);
  return -1;
}

/* -1: not known. A condition of several parts ends the loop where the first of them does. */
static int64_t most_rounds(anfi_arena *a, const anf_node *node) {
  int64_t n;
  anfi_loop_op l = anfi_loop_parts(node);
  while (l.counted) {
    if (known(l.n, &n)) return n;
    const anf_node *from = anfi_is_op(l.n, ANF_OP_TupleGet) ? l.n->in[0].def : NULL;
    if (!from || !anfi_is_op(from, ANF_OP_Loop)) return -1; // the rounds of another loop
    l = anfi_loop_parts(from);
    if (!l.rounds) return -1;
  }
  if (!l.step || !anfi_is_op(l.step->result, ANF_OP_MakeTuple)) return -1;
  ANFI_VEC(const anf_node *) todo = {0};
  anfi_push(a, &todo, l.step->result->in[0].def);
  for (size_t i = 0; i < todo.n; i++) {
    bool both = anfi_is_op(todo.at[i], ANF_OP_LogicalAnd);
    for (uint32_t k = 0; both && k < 2; k++) anfi_push(a, &todo, todo.at[i]->in[k].def);
    if (!both && (n = by_counter(&l, todo.at[i])) >= 0) return n;
  }
  return -1;
}

/* Zeros, into which the rounds write elements of this type; before the loop. */
static const anfi_out *room(anfi_flat *w, const loop *l, const anf_type *element) {
  int64_t dims[ANF_MAX_RANK + 1];
  anf_text *inside = w->out;
  dims[0] = most_rounds(w->arena, l->op.loop);
  if (dims[0] < 0 || element->n == ANF_MAX_RANK)
    return (void)anfi_flat_refuse(w, l->op.loop, "a loop that stacks a value of each round,",
                                  "and can have any number of them,"),
           NULL;
  for (uint32_t i = 0; i < element->n; i++) dims[i + 1] = element->dims[i];
  w->out = l->whole;
  const anfi_out *zero = anfi_sw_number(w, (anf_dtype)element->dtype, 0);
  const anfi_out *x = anfi_sw_broadcast(w, zero, element->n + 1, dims);
  w->out = inside;
  return x;
}

/* The starts (index, 0, ..) of an element of a stack. */
static const char *starts(anfi_flat *w, const anfi_out *index, const anf_type *t,
                          const char **types) {
  anfi_outs at = {0};
  anfi_push(w->arena, &at, index);
  for (uint32_t i = 1; i < t->n; i++) anfi_push(w->arena, &at, anfi_sw_int(w, ANF_I64, 0));
  *types = anfi_sw_types(w, &at);
  return anfi_sw_names(w, &at);
}

/* Element `index` of each of the stacks. */
static const anfi_out *element(anfi_flat *w, const anfi_out *stack, const anfi_out *index) {
  anfi_outs all = {0}, own = {0};
  anfi_out_add(w, stack, &all);
  for (size_t i = 0; i < all.n; i++) {
    const anf_type *t = all.at[i]->type;
    int64_t dims[ANF_MAX_RANK] = {1};
    const char *types, *at = starts(w, index, t, &types);
    for (uint32_t k = 1; k < t->n; k++) dims[k] = t->dims[k];
    const anf_type *one = anfi_sw_tensor(w, (anf_dtype)t->dtype, t->n, dims);
    const anfi_out *x = anfi_sw_put(
        w, one, "stablehlo.dynamic_slice %s, %s, sizes = %s : (%s, %s) -> %s", all.at[i]->name, at,
        anfi_sw_ints(w, t->n, dims), anfi_sw_type(w, t), types, anfi_sw_type(w, one));
    anfi_push(w->arena, &own, anfi_sw_reshape(w, x, t->n - 1, dims + 1));
  }
  const anfi_out *const *next = own.at;
  return anfi_out_like(w, stack, &next);
}

/* The stack with element `index` written. */
static const anfi_out *written(anfi_flat *w, const anfi_out *stack, const anfi_out *x,
                               const anfi_out *index) {
  int64_t dims[ANF_MAX_RANK] = {1};
  const anf_type *t = stack->type;
  for (uint32_t k = 0; k < x->type->n; k++) dims[k + 1] = x->type->dims[k];
  const char *types, *at = starts(w, index, t, &types);
  const anfi_out *one =
      anfi_sw_reshape(w, anfi_sw_cast(w, x, (anf_dtype)t->dtype), x->type->n + 1, dims);
  return anfi_sw_put(w, t, "stablehlo.dynamic_update_slice %s, %s, %s : (%s, %s, %s) -> %s",
                     stack->name, one->name, at, anfi_sw_type(w, t), anfi_sw_type(w, one->type),
                     types, anfi_sw_type(w, t));
}

static const anfi_out *carry(anfi_flat *w, loop *l, const anfi_out *before) {
  const anfi_out *x = anfi_out_leaf(w, anfi_sw_new_name(w), before->type);
  anfi_push(w->arena, &l->before, before);
  anfi_push(w->arena, &l->inside, x);
  return x;
}

/* round, again, s.. before the loop, in the types that the step takes. */
static bool begin(anfi_flat *w, loop *l) {
  carry(w, l, anfi_sw_int(w, ANF_I64, 0));
  carry(w, l, l->op.go ? l->go : anfi_sw_number(w, ANF_BOOL, 1));
  for (size_t k = 0; k < l->op.ns; k++) {
    anfi_outs have = {0}, want = {0};
    const anfi_out *like = anfi_flat_fresh(w, l->op.step->params.at[l->op.nw + k]->type, "%");
    if (!like) return false;
    anfi_out_add(w, l->arg[l->op.nw + k], &have);
    anfi_out_add(w, like, &want);
    if (have.n != want.n)
      return anfi_flat_refuse(w, l->op.loop, "a loop that carries", "other data");
    for (size_t i = 0; i < have.n; i++) {
      const anfi_out *x = anfi_sw_cast(w, have.at[i], (anf_dtype)want.at[i]->type->dtype);
      if (x->type != want.at[i]->type)
        return anfi_flat_refuse(w, l->op.loop, "a loop that carries", "tensors of several sizes");
      carry(w, l, x);
    }
  }
  return true;
}

/* The numbers of the elements of stacks: the round, or from the end. */
static const anfi_out *element_number(anfi_flat *w, const loop *l) {
  if (!l->op.reverse || !(l->op.nx || l->op.nout)) return l->inside.at[0];
  const anfi_out *last =
      anfi_sw_binary(w, "stablehlo.subtract", l->count, anfi_sw_int(w, ANF_I64, 1));
  return anfi_sw_binary(w, "stablehlo.subtract", last, l->inside.at[0]);
}

/* Item k of what the step gives, carried. */
static bool carried_on(anfi_flat *w, const loop *l, const anfi_out *x, anfi_outs *next) {
  anfi_outs made = {0};
  anfi_out_add(w, x, &made);
  for (size_t i = 0; i < made.n; i++) {
    if (next->n >= l->inside.n)
      return anfi_flat_refuse(w, l->op.loop, "a loop that carries", "other data");
    const anf_type *t = l->inside.at[next->n]->type;
    const anfi_out *y = anfi_sw_cast(w, made.at[i], (anf_dtype)t->dtype);
    if (y->type != t)
      return anfi_flat_refuse(w, l->op.loop, "a loop that carries", "tensors of several sizes");
    anfi_push(w->arena, next, y);
  }
  return true;
}

/* .. and stacked; its leaves in the body are remembered for the result. */
static bool stacked(anfi_flat *w, loop *l, const anfi_out *x, const anfi_out *index,
                    anfi_outs *next) {
  anfi_outs made = {0};
  anfi_out_add(w, x, &made);
  anfi_push(w->arena, &l->stacked, x);
  for (size_t i = 0; i < made.n; i++) {
    const anfi_out *zeros = room(w, l, made.at[i]->type);
    if (!zeros) return false;
    anfi_push(w->arena, next, written(w, carry(w, l, zeros), made.at[i], index));
  }
  return true;
}

/* round + 1, again, s'.., o.. with the elements written */
static bool put_next(anfi_flat *w, loop *l, const anfi_out *r, const anfi_out *index) {
  anfi_outs next = {0};
  size_t first = !l->op.counted, state = l->inside.n;
  if (r->name || r->n != l->op.ns + l->op.nout + first)
    return anfi_flat_refuse(w, l->op.loop, "a loop whose step", "gives no tuple");
  anfi_push(w->arena, &next,
            anfi_sw_binary(w, "stablehlo.add", l->inside.at[0], anfi_sw_int(w, ANF_I64, 1)));
  anfi_push(w->arena, &next, first ? r->item[0] : l->inside.at[1]);
  for (size_t k = first; k < first + l->op.ns; k++)
    if (!carried_on(w, l, r->item[k], &next)) return false;
  if (next.n != state) return anfi_flat_refuse(w, l->op.loop, "a loop that carries", "other data");
  for (size_t k = first + l->op.ns; k < r->n; k++)
    if (!stacked(w, l, r->item[k], index, &next)) return false;
  return put_yield(w, &next), true;
}

/* The body, which says what is carried besides: the stacks. */
static bool put_body(anfi_flat *w, loop *l) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, l->narg + 1);
  const anfi_out *const *next = l->inside.at + 2, *index = element_number(w, l);
  for (size_t k = 0; k < l->narg; k++) {
    bool invariant = k < l->op.nw, stack = k >= l->narg - l->op.nx;
    args[k] = invariant ? l->arg[k]
              : stack   ? element(w, l->arg[k], index)
                        : anfi_out_like(w, l->arg[k], &next);
  }
  const anfi_out *r = anfi_flat_body(w, l->op.step, args);
  return r && put_next(w, l, r, index);
}

/* %7:3 = stablehlo.while(%8 = %1, ..) : types cond { round < count and again } do { */
static const char *put_header(anfi_flat *w, loop *l) {
  anf_text *o = ANFI_NEW(w->arena, anf_text);
  const char *name = anfi_sw_new_name(w);
  *o = (anf_text){.cx = w->cx};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, o);
  for (size_t i = 0; i < l->before.n; i++)
    anfi_putf(o, "%s%s = %s", i ? ", " : "", l->inside.at[i]->name, l->before.at[i]->name);
  anfi_sw_line(w, "%s:%zu = stablehlo.while(%s) : %s", name, l->before.n, o->text,
               anfi_sw_types(w, &l->before));
  anfi_sw_line(w, "cond {");
  anfi_sw_own_of(w)->indent++;
  const anfi_out *again = l->inside.at[1];
  if (l->op.counted) {
    const anfi_out *more = anfi_sw_compare(w, "LT", l->inside.at[0], l->count);
    again = anfi_sw_binary(w, "stablehlo.and", more, again);
  }
  anfi_sw_line(w, "stablehlo.return %s : tensor<i1>", again->name);
  anfi_sw_own_of(w)->indent--;
  anfi_sw_line(w, "} do {");
  return name;
}

/* (s.., stacks.., rounds) */
static const anfi_out *loop_results(anfi_flat *w, const loop *l, const char *name) {
  anfi_outs own = {0};
  size_t n = 0;
  for (size_t i = 2; i < l->before.n; i++)
    anfi_push(w->arena, &own,
              anfi_out_leaf(w, anfi_sprintf(w->arena, "%s#%zu", name, i), l->before.at[i]->type));
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, l->op.ns + l->op.nout + 2);
  const anfi_out *const *next = own.at;
  for (size_t k = 0; k < l->op.ns; k++) item[n++] = anfi_out_like(w, l->arg[l->op.nw + k], &next);
  for (size_t k = 0; k < l->op.nout; k++) item[n++] = anfi_out_like(w, l->stacked.at[k], &next);
  if (l->op.rounds)
    item[n++] = anfi_out_leaf(w, anfi_sprintf(w->arena, "%s#0", name), l->before.at[0]->type);
  return anfi_out_tuple(w, n, item);
}

const anfi_out *anfi_sw_loop(anfi_flat *w, const anf_node *n) {
  loop l = {.op = anfi_loop_parts(n), .whole = w->out};
  anf_text *body = ANFI_NEW(w->arena, anf_text);
  *body = (anf_text){.cx = w->cx};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, body);
  if (!read_loop(w, &l) || !begin(w, &l)) return NULL;
  w->out = body;
  anfi_sw_own_of(w)->indent++, w->depth++;
  bool good = put_body(w, &l);
  anfi_sw_own_of(w)->indent--, w->depth--;
  w->out = l.whole;
  if (!good) return NULL;
  const char *name = put_header(w, &l);
  anfi_put(w->out, body->text, body->len);
  anfi_sw_line(w, "}");
  return loop_results(w, &l, name);
}
