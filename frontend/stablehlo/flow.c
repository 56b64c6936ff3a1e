// SPDX-License-Identifier: Apache-2.0
/* Ops that choose and repeat, as graphs:
 *   while(x = a) cond { c } do { d }   ->   W(x) = Switch(c, B, X)();  B() = W(d);  X() = x
 *   if(p) {t} {e}                      ->   Switch(p, T, E)()
 *   case(i) {..}                       ->   SwitchLayer(i, ..)(), the last one for an i that is none of them
 *   call @f, composite                 ->   f(..)          calls with derivative rules: rule.c
 * Regions without parameters use the values around them, which are then captured. */
#include "frontend/stablehlo/stablehlo.h"

static bool is(const anfi_sh_op *op, const char *name) { return strcmp(op->name->s, name) == 0; }

static bool is_call(const anfi_sh_op *op) {
  return is(op, "func.call") || is(op, "stablehlo.composite");
}

bool anfi_sh_is_flow(const anfi_sh_op *op) {
  return is_call(op) || is(op, "stablehlo.while") || is(op, "stablehlo.if") ||
         is(op, "stablehlo.case") || anfi_sh_has_rule(op);
}

/* The result of a call, taken apart. */
const anfi_traced *anfi_sh_results(anfi_sh_build *b, const anfi_sh_op *op, anf_node *call) {
  anfi_trace *t = b->t;
  size_t n = op->types.n;
  call->debug = t->debug;
  if (n == 1) return anfi_traced_node(t, call, op->types.at[0]);
  const anfi_traced **item = ANFI_NEW_N(t->arena, const anfi_traced *, n + 1);
  const anfi_traced *whole = anfi_traced_node(t, call, NULL);
  for (size_t i = 0; i < n; i++) {
    anf_value *at[1] = {anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)i))};
    const anfi_traced *x = anfi_trace_op(t, ANF_OP_TupleGet, 1, &whole, at);
    if (!x) return NULL;
    item[i] = anfi_traced_node(t, x->node, op->types.at[i]);
  }
  if (!n) anfi_add_effect(b->to, call);
  return anfi_traced_tuple(t, n, item);
}

anf_graph *anfi_sh_graph(anfi_sh_build *b, const char *name) {
  name = anfi_sprintf(b->t->arena, "%s_%s", b->function, name); // so that programs can stand in one
  anf_graph *g = anfi_graph_new(b->m, anfi_intern_z(&b->m->strings, name));
  g->flags |= ANFI_GRAPH_PRIVATE;
  return g;
}

static void enter(anfi_sh_build *b, anf_graph *g) { b->to = b->t->to = g; }

/* The values as those of the types: items of a tuple, or the one value. */
static anf_node *as_result(anfi_sh_build *b, const anfi_sh_op *op, const anfi_traced *x) {
  size_t n = op->types.n;
  if (x->n != n)
    return (void)anfi_sh_refuse(b, op, "a region that returns another number of values"), NULL;
  const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (!(item[i] = anfi_sh_conform(b, op, x->item[i], op->types.at[i]))) return NULL;
  const anfi_traced *all = n == 1 ? item[0] : anfi_traced_tuple(b->t, n, item);
  return all ? anfi_traced_to_node(b->t, all) : NULL;
}

/* ---- calls ---- */

static const anfi_traced *call(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                               const anfi_traced *const *in) {
  const uint64_t *at = op->symbol ? anfi_map_find(&b->model->by_name, anfi_key(op->symbol)) : NULL;
  const anfi_sh_func *f = at ? (const anfi_sh_func *)(uintptr_t)*at : NULL;
  if (!f) return anfi_sh_refuse(b, op, "a function that is not in this module");
  if (f->body->params.n != op->in.n || f->types.n != op->types.n)
    return anfi_sh_refuse(b, op, "other arguments or results than its function has");
  (void)s;
  if (b->lifted) return anfi_sh_inline(b, NULL, f->body, op->in.n, in);
  anf_node **all = ANFI_NEW_N(b->t->arena, anf_node *, op->in.n + 1);
  all[0] = anfi_graph_value(f->graph);
  for (size_t i = 0; i < op->in.n; i++)
    if (!(all[i + 1] = anfi_traced_to_node(b->t, in[i]))) return NULL;
  return anfi_sh_results(b, op, anfi_call(b->to, op->in.n + 1, all));
}

/* ---- choices ---- */

static anf_node *branch(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op, size_t i) {
  anf_graph *g = anfi_sh_graph(b, is(op, "stablehlo.if") ? i ? "else" : "then" : "case"),
            *outer = b->to;
  const uint32_t debug = b->t->debug;
  enter(b, g);
  const anfi_traced *x = anfi_sh_inline(b, s, op->regions.at[i], 0, NULL);
  enter(b, g);
  anf_node *r = x ? as_result(b, op, x) : NULL;
  if (r) anfi_set_result(g, r);
  enter(b, outer);
  b->t->debug = debug;
  return r ? anfi_graph_value(g) : NULL;
}

static anf_node *branch_index(anfi_sh_build *b, const anfi_sh_op *op,
                              const anfi_traced *const *in) {
  anfi_trace *t = b->t;
  anf_graph *f = anfi_trace_find(t, "branch_index");
  const anfi_traced *args[2] = {
      in[0], anfi_traced_value(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)op->regions.n))};
  const anfi_traced *x = anfi_trace_call(t, f, 2, args);
  return x ? anfi_traced_to_node(t, x) : NULL;
}

static const anfi_traced *choice(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                 const anfi_traced *const *in) {
  bool two = is(op, "stablehlo.if");
  size_t n = op->regions.n;
  if (op->in.n != 1 || !n || (two && n != 2))
    return anfi_sh_refuse(b, op, "one operand and a region for each branch only");
  anf_node **part = ANFI_NEW_N(b->t->arena, anf_node *, n + 1), *all[1];
  if (!(part[0] = two ? anfi_traced_to_node(b->t, in[0]) : branch_index(b, op, in))) return NULL;
  for (size_t i = 0; i < n; i++)
    if (!(part[i + 1] = branch(b, s, op, i))) return NULL;
  all[0] = anfi_apply(b->to, two ? ANF_OP_Switch : ANF_OP_SwitchLayer, NULL, n + 1, part);
  return anfi_sh_results(b, op, anfi_call(b->to, 1, all));
}

/* ---- loops ---- */

static bool loop_body(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op, anf_graph *header,
                      const anfi_traced *const *carried) {
  size_t n = op->in.n;
  const anfi_traced *x = anfi_sh_inline(b, s, op->regions.at[1], n, carried);
  if (!x) return false;
  if (x->n != n)
    return anfi_sh_refuse(b, op, "a body that returns another number of values") != NULL;
  anf_node **next = ANFI_NEW_N(b->t->arena, anf_node *, n + 1);
  next[0] = anfi_graph_value(header);
  for (size_t i = 0; i < n; i++) {
    const anfi_traced *v = anfi_sh_conform(b, op, x->item[i], op->types.at[i]);
    if (!v || !(next[i + 1] = anfi_traced_to_node(b->t, v))) return false;
  }
  anfi_set_result(b->to, anfi_call(b->to, n + 1, next));
  return true;
}

static bool loop_graphs(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                        anf_graph *header) {
  size_t n = op->in.n;
  anf_graph *body = anfi_sh_graph(b, "body"), *after = anfi_sh_graph(b, "after");
  const anfi_traced **carried = ANFI_NEW_N(b->t->arena, const anfi_traced *, n + 1);
  for (size_t i = 0; i < n; i++)
    carried[i] = anfi_traced_node(
        b->t,
        anfi_param(header,
                   anfi_intern(&b->m->strings, op->regions.at[0]->params.at[i].name->s,
                               op->regions.at[0]->params.at[i].name->len),
                   op->types.at[i]),
        op->types.at[i]);
  enter(b, header);
  const anfi_traced *c = anfi_sh_inline(b, s, op->regions.at[0], n, carried);
  if (!c) return false;
  if (c->n != 1) return anfi_sh_refuse(b, op, "a condition of one value only") != NULL;
  enter(b, header);
  anf_node *choose[3] = {anfi_traced_to_node(b->t, c->item[0]), anfi_graph_value(body),
                         anfi_graph_value(after)},
           *f[1];
  if (!choose[0]) return false;
  f[0] = anfi_apply(header, ANF_OP_Switch, NULL, 3, choose);
  anfi_set_result(header, anfi_call(header, 1, f));
  enter(b, body);
  if (!loop_body(b, s, op, header, carried)) return false;
  enter(b, after);
  const anfi_traced *all = n == 1 ? carried[0] : anfi_traced_tuple(b->t, n, carried);
  anf_node *r = all ? anfi_traced_to_node(b->t, all) : NULL;
  if (r) anfi_set_result(after, r);
  return r != NULL;
}

static const anfi_traced *loop(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                               const anfi_traced *const *in) {
  size_t n = op->in.n;
  if (op->regions.n != 2 || op->types.n != n || op->regions.at[0]->params.n != n ||
      op->regions.at[1]->params.n != n)
    return anfi_sh_refuse(b, op,
                          "a condition and a body with the carried values as parameters only");
  anf_graph *header = anfi_sh_graph(b, "while"), *outer = b->to;
  const uint32_t debug = b->t->debug;
  bool good = loop_graphs(b, s, op, header);
  enter(b, outer);
  b->t->debug = debug;
  if (!good) return NULL;
  anf_node **all = ANFI_NEW_N(b->t->arena, anf_node *, n + 1);
  all[0] = anfi_graph_value(header);
  for (size_t i = 0; i < n; i++) {
    const anfi_traced *x = anfi_sh_conform(b, op, in[i], op->types.at[i]);
    if (!x || !(all[i + 1] = anfi_traced_to_node(b->t, x))) return NULL;
  }
  return anfi_sh_results(b, op, anfi_call(outer, n + 1, all));
}

const anfi_traced *anfi_sh_flow(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                const anfi_traced *const *in) {
  if (is_call(op)) return call(b, s, op, in);
  if (anfi_sh_has_rule(op)) return anfi_sh_rule(b, op, in);
  if (b->lifted)
    return anfi_sh_refuse(
        b, op, "a place in the body of another op: only elementwise ops are supported there");
  return is(op, "stablehlo.while") ? loop(b, s, op, in) : choice(b, s, op, in);
}
