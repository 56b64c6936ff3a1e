// SPDX-License-Identifier: Apache-2.0
/* Functions with derivative rules of their own; the functions that a call names become those of the language's transforms:
 *   custom_call @anfora.custom_jvp(x..) {called_computations = [@f, @jvp]}         ->  CustomJvp(F, RULE)(x..)
 *     RULE((x..), (t..)) = ((y..), (ty..))          where jvp(x.., t..) = y.., ty..
 *   custom_call @anfora.custom_vjp(c.., x..) {.. [@f, @fwd, @bwd], anfora.captured = n}  ->  CustomVjp(F, FWD, BWD)(x..)
 *     FWD(x..) = ((y..), (r..))                     where fwd(c.., x..) = y.., r..
 *     BWD((r..), (dy..)) = (dx..)                   where bwd(r.., dy..) = dx..
 *   custom_call @anfora.checkpoint(x..) {.. [@f], anfora.keep = ".."}              ->  Checkpoint(F)(x..)
 * jvp and bwd have tangents and adjoints of what is real or complex alone; the transforms have zeros for the rest. F and FWD
 * capture the n values c, so their gradient is refused. */
#include "frontend/stablehlo/stablehlo.h"

typedef struct {
  anfi_sh_build *b;
  const anfi_sh_op *op;
  size_t captured;
  const anfi_traced *const *in; // of the call
} rule;

static void *refuse(const rule *q, const char *what) {
  anfi_fail(q->b->t->cx, anfi_sh_op_loc(q->b, q->op), ANF_E1224, q->op->name->s, what);
  return NULL;
}

static bool is(const anfi_sh_op *op, const char *name) {
  return op->symbol && strcmp(op->symbol->s, name) == 0;
}

bool anfi_sh_has_rule(const anfi_sh_op *op) {
  return strcmp(op->name->s, "stablehlo.custom_call") == 0 &&
         (is(op, "anfora.custom_jvp") || is(op, "anfora.custom_vjp") ||
          is(op, "anfora.checkpoint"));
}

/* Function number i of those that the call names. */
static const anfi_sh_func *function(const rule *q, size_t i) {
  const anf_value *v = anfi_sh_op_attr(q->op, "called_computations");
  const anf_value *name = v && v->kind == ANF_VALUE_TUPLE && i < v->n ? v->u.item[i] : NULL;
  const anfi_str *s = name && name->kind == ANF_VALUE_STRING
                          ? anfi_intern_z(&q->b->t->cx->strings, name->u.text)
                          : NULL;
  const uint64_t *at = s ? anfi_map_find(&q->b->model->by_name, anfi_key(s)) : NULL;
  return at ? (const anfi_sh_func *)(uintptr_t)*at
            : refuse(q, "a function that is not in this module");
}

static bool is_inexact(const anf_type *t) {
  anfi_class c = anfi_dtype_class((anf_dtype)t->dtype);
  return c == ANFI_CLASS_FLOAT || c == ANFI_CLASS_COMPLEX;
}

/* ---- parts of graphs ---- */

typedef ANFI_VEC(const anfi_traced *) list;

static anf_graph *enter_new(const rule *q, const char *name) {
  anf_graph *g = anfi_sh_graph(q->b, name);
  q->b->to = q->b->t->to = g;
  return g;
}

static const anfi_traced *param(const rule *q, anf_graph *g, const char *name,
                                const anf_type *type) {
  return anfi_traced_node(q->b->t, anfi_param(g, anfi_intern_z(&q->b->m->strings, name), type),
                          type);
}

static void add_params(const rule *q, anf_graph *g, list *to) {
  for (size_t i = q->captured; i < q->op->in.n; i++)
    anfi_push(
        q->b->t->arena, to,
        param(q, g, anfi_sprintf(q->b->t->arena, "x%zu", i), anfi_traced_type(q->b->t, q->in[i])));
}

static const anfi_traced *get(const rule *q, const anfi_traced *tuple, size_t i,
                              const anf_type *type) {
  anfi_trace *t = q->b->t;
  anf_value *at[1] = {anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)i))};
  const anfi_traced *x = anfi_trace_op(t, ANF_OP_TupleGet, 1, &tuple, at);
  return x && x->node ? anfi_traced_node(t, x->node, type) : x;
}

/* The results of a function of the file. */
static bool call(const rule *q, const anfi_sh_func *f, const list *args, list *out) {
  anfi_trace *t = q->b->t;
  if (f->body->params.n != args->n) return refuse(q, "a rule with other arguments") != NULL;
  anf_node **in = ANFI_NEW_N(t->arena, anf_node *, args->n + 1);
  in[0] = anfi_graph_value(f->graph);
  for (size_t i = 0; i < args->n; i++) {
    const anfi_traced *x = anfi_sh_conform(q->b, q->op, args->at[i], f->body->params.at[i].type);
    if (!x || !(in[i + 1] = anfi_traced_to_node(t, x))) return false;
  }
  anf_node *r = anfi_call(q->b->to, args->n + 1, in);
  r->debug = t->debug;
  const anfi_traced *whole = anfi_traced_node(t, r, NULL);
  for (size_t i = 0; i < f->types.n; i++) {
    const anfi_traced *y =
        f->types.n == 1 ? anfi_traced_node(t, r, f->types.at[0]) : get(q, whole, i, f->types.at[i]);
    if (!y) return false;
    anfi_push(t->arena, out, y);
  }
  return true;
}

static const anfi_traced *zeros(const rule *q, const anf_type *type) {
  anfi_trace *t = q->b->t;
  const anfi_traced *args[2] = {
      anfi_traced_value(t, anfi_value_new_ints(t->cx, type->n, type->dims)),
      anfi_traced_value(
          t, anfi_value_new_type(t->cx, anfi_type_scalar(t->cx, (anf_dtype)type->dtype)))};
  return anfi_trace_call(t, anfi_trace_find(t, "zeros_of"), 2, args);
}

/* As many as there are types: the next of `given` from *at on for what is inexact, else zeros. */
static bool spread(const rule *q, const list *given, size_t at, size_t n,
                   const anf_type *const *types, list *out) {
  for (size_t i = 0; i < n; i++) {
    bool real = is_inexact(types[i]);
    if (real && at >= given->n) return refuse(q, "a rule with fewer results") != NULL;
    const anfi_traced *x = real ? given->at[at++] : zeros(q, types[i]);
    if (!x) return false;
    anfi_push(q->b->t->arena, out, x);
  }
  return at == given->n || refuse(q, "a rule with more results");
}

/* Those of the items of a tuple that are inexact. */
static bool pick(const rule *q, const anfi_traced *whole, bool is_tuple, size_t n,
                 const anf_type *const *types, bool all, list *out) {
  for (size_t i = 0; i < n; i++) {
    if (!all && !is_inexact(types[i])) continue;
    const anfi_traced *x = is_tuple ? get(q, whole, i, types[i]) : whole;
    if (!x) return false;
    anfi_push(q->b->t->arena, out, x);
  }
  return true;
}

static const anf_type *tuple_type(const rule *q, size_t n, const anf_type *const *types) {
  return anfi_type_tuple(q->b->t->cx, n, types);
}

/* One value, or their tuple. */
static const anfi_traced *value_of(const rule *q, size_t n, const anfi_traced *const *x) {
  return n == 1 ? x[0] : anfi_traced_tuple(q->b->t, n, x);
}

static bool give(const rule *q, anf_graph *g, const anfi_traced *x) {
  anf_node *r = x ? anfi_traced_to_node(q->b->t, x) : NULL;
  if (r) anfi_set_result(g, r);
  return r != NULL;
}

static bool give_pair(const rule *q, anf_graph *g, const anfi_traced *a, const anfi_traced *b) {
  const anfi_traced *both[2] = {a, b};
  return a && b && give(q, g, anfi_traced_tuple(q->b->t, 2, both));
}

/* ---- the functions of the transforms ---- */

/* F(x..) = f(c.., x..); with n results and more, ((y..), (more..)) */
static anf_graph *primal(const rule *q, size_t number, const char *name, size_t n) {
  const anfi_sh_func *f = function(q, number);
  list args = {0}, out = {0};
  anf_graph *g = enter_new(q, name);
  for (size_t i = 0; i < q->captured; i++) anfi_push(q->b->t->arena, &args, q->in[i]);
  add_params(q, g, &args);
  if (!f || !call(q, f, &args, &out)) return NULL;
  if (out.n < n) return refuse(q, "a rule with fewer results");
  const anfi_traced *y = value_of(q, n, out.at);
  bool good = number == 0 ? out.n == n && give(q, g, y)
                          : give_pair(q, g, y, anfi_traced_tuple(q->b->t, out.n - n, out.at + n));
  return good ? g : NULL;
}

static const anf_type *const *argument_types(const rule *q, size_t *n) {
  *n = q->op->in.n - q->captured;
  const anf_type **types = ANFI_NEW_N(q->b->t->arena, const anf_type *, *n + 1);
  for (size_t i = 0; i < *n; i++) types[i] = anfi_traced_type(q->b->t, q->in[q->captured + i]);
  return types;
}

static anf_graph *tangent(const rule *q) {
  const anfi_sh_func *f = function(q, 1);
  size_t n, m = q->op->types.n;
  const anf_type *const *types = argument_types(q, &n), *const *outs = q->op->types.at;
  list args = {0}, out = {0}, ts = {0};
  anf_graph *g = enter_new(q, "jvp");
  const anf_type *whole = tuple_type(q, n, types);
  const anfi_traced *x = param(q, g, "x", whole), *t = param(q, g, "t", whole);
  bool good = f && pick(q, x, true, n, types, true, &args) &&
              pick(q, t, true, n, types, false, &args) && call(q, f, &args, &out);
  if (!good) return NULL;
  if (out.n < m) return refuse(q, "a rule with fewer results");
  if (!spread(q, &out, m, m, outs, &ts)) return NULL;
  return give_pair(q, g, value_of(q, m, out.at), value_of(q, m, ts.at)) ? g : NULL;
}

static anf_graph *backward(const rule *q) {
  const anfi_sh_func *fwd = function(q, 1), *f = function(q, 2);
  size_t n, m = q->op->types.n;
  if (!f || fwd->types.n < m) return f ? refuse(q, "a rule with fewer results") : NULL;
  const anf_type *const *types = argument_types(q, &n), *const *outs = q->op->types.at,
                        *const *residuals = fwd->types.at + m;
  list args = {0}, out = {0}, dx = {0};
  anf_graph *g = enter_new(q, "bwd");
  const anfi_traced *r = param(q, g, "r", tuple_type(q, fwd->types.n - m, residuals)),
                    *dy = param(q, g, "dy", m == 1 ? outs[0] : tuple_type(q, m, outs));
  bool good = pick(q, r, true, fwd->types.n - m, residuals, true, &args) &&
              pick(q, dy, m != 1, m, outs, false, &args) && call(q, f, &args, &out) &&
              spread(q, &out, 0, n, types, &dx) && give(q, g, anfi_traced_tuple(q->b->t, n, dx.at));
  return good ? g : NULL;
}

/* The function of the transform. */
static anf_node *transformed(const rule *q, anf_graph *to) {
  bool is_jvp = is(q->op, "anfora.custom_jvp"), is_vjp = is(q->op, "anfora.custom_vjp");
  anf_graph *g[3] = {primal(q, 0, "primal", q->op->types.n), NULL, NULL};
  size_t n = is_jvp ? 2 : is_vjp ? 3 : 1;
  if (g[0] && is_jvp) g[1] = tangent(q);
  if (g[0] && is_vjp && (g[1] = primal(q, 1, "fwd", q->op->types.n))) g[2] = backward(q);
  if (!g[n - 1]) return NULL;
  anf_node *in[3];
  for (size_t i = 0; i < n; i++) in[i] = anfi_graph_value(g[i]);
  if (n > 1) return anfi_apply(to, is_jvp ? ANF_OP_CustomJvp : ANF_OP_CustomVjp, NULL, n, in);
  anfi_trace *t = q->b->t;
  t->to = to;
  anf_value *keep = anfi_sh_op_attr(q->op, "anfora.keep");
  anf_value *zero = anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_I64, 0));
  anf_value *all =
      anfi_trace_hold(t, anfi_value_new_string(t->cx, "arguments", strlen("arguments")));
  anf_value *attrs[4] = {keep ? keep : all, zero, zero};
  attrs[3] = anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_BOOL, 0));
  const anfi_traced *f = anfi_traced_node(t, in[0], NULL);
  const anfi_traced *y = anfi_trace_op(t, ANF_OP_Checkpoint, 1, &f, attrs);
  return y ? anfi_traced_to_node(t, y) : NULL;
}

const anfi_traced *anfi_sh_rule(anfi_sh_build *b, const anfi_sh_op *op,
                                const anfi_traced *const *in) {
  anf_value *captured = anfi_sh_op_attr(op, "anfora.captured");
  rule q = {b, op, captured ? (size_t)anfi_get_i64(captured, 0) : 0, in};
  const anfi_sh_func *f = function(&q, 0);
  if (!f) return NULL;
  if (q.captured > op->in.n || f->body->params.n != op->in.n || f->types.n != op->types.n)
    return refuse(&q, "other arguments or results than its function has");
  if (b->lifted) return anfi_sh_inline(b, NULL, f->body, op->in.n, in);
  anf_graph *outer = b->to;
  const uint32_t debug = b->t->debug;
  anf_node *custom = transformed(&q, outer);
  b->to = b->t->to = outer;
  b->t->debug = debug;
  if (!custom) return NULL;
  size_t n = op->in.n - q.captured;
  anf_node **all = ANFI_NEW_N(b->t->arena, anf_node *, n + 1);
  all[0] = custom;
  for (size_t i = 0; i < n; i++)
    if (!(all[i + 1] = anfi_traced_to_node(b->t, in[q.captured + i]))) return NULL;
  return anfi_sh_results(b, op, anfi_call(outer, n + 1, all));
}
