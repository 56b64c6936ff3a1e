// SPDX-License-Identifier: Apache-2.0
/* One op: the template of its name in stablehlo.anf.
 *   stablehlo.pad(x, v), edge_padding_low = (0,)  ->  pad_(x, v, edge_padding_low, ..)
 * Parameters are the inputs in order, then attributes by name; what an op does not have is None. `xs` takes all further inputs
 * as a tuple; `shape` and `dtype` are those of the first result, `nout` is the number of results; `body` and `body2` are the
 * regions as functions of tuples; `kind` names the op that the first region applies to its two parameters, or is "". */
#include "frontend/stablehlo/stablehlo.h"

#include <math.h>

static const char *short_name(const anfi_sh_op *op) {
  const char *dot = strchr(op->name->s, '.');
  return dot ? dot + 1 : op->name->s;
}

static bool starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

/* A function of LAPACK, without the letter of its element type: lapack_dpotrf_ffi  ->  potrf */
static const char *lapack_name(anfi_arena *a, const char *s) {
  size_t n = strlen(s), head = strlen("lapack_"), tail = strlen("_ffi");
  bool is = starts(s, "lapack_") && n > head + tail + 1 && strcmp(s + n - tail, "_ffi") == 0;
  if (!is || !strchr("sdcz", s[head])) return NULL;
  return anfi_strndup(a, s + head + 1, n - head - tail - 1);
}

/* custom_call @check.expect_eq  ->  call_check_expect_eq_;  @lapack_dpotrf_ffi  ->  lapack_potrf_ */
static anf_graph *template_of_call(anfi_trace *t, const char *symbol) {
  const char *lapack = lapack_name(t->arena, symbol);
  if (lapack) return anfi_trace_find(t, anfi_sprintf(t->arena, "lapack_%s_", lapack));
  char *name = anfi_sprintf(t->arena, "call_%s_", symbol);
  for (char *p = name; *p; p++)
    if (*p == '.') *p = '_';
  return anfi_trace_find(t, name);
}

static anf_graph *template_of(const anfi_sh_model *m, const anfi_sh_op *op) {
  anfi_trace *t = m->t;
  if (strcmp(op->name->s, "stablehlo.custom_call") == 0)
    return op->symbol ? template_of_call(t, op->symbol->s) : NULL;
  bool ours = starts(op->name->s, "stablehlo.") || starts(op->name->s, "chlo.") ||
              starts(op->name->s, "mhlo.");
  return ours ? anfi_trace_find(t, anfi_sprintf(t->arena, "%s_", short_name(op))) : NULL;
}

/* custom_call @NAME of an op that the host registered, or NULL. */
static const anfi_host *host_of(const anfi_sh_model *m, const anfi_sh_op *op) {
  bool calls = op->symbol && strcmp(op->name->s, "stablehlo.custom_call") == 0;
  return calls ? anfi_host_find(m->t->cx, op->symbol->s, op->symbol->len) : NULL;
}

bool anfi_sh_knows(const anfi_sh_model *m, const anfi_sh_op *op) {
  return template_of(m, op) || host_of(m, op);
}

/* ---- bodies ---- */

/* Ops that give, of tensors, what they give of each of their elements. */
static bool is_elementwise(const anfi_sh_op *op) {
  static const char *const names[] = {"abs",
                                      "add",
                                      "and",
                                      "atan2",
                                      "cbrt",
                                      "ceil",
                                      "clamp",
                                      "compare",
                                      "complex",
                                      "constant",
                                      "convert",
                                      "cosine",
                                      "divide",
                                      "exponential",
                                      "exponential_minus_one",
                                      "floor",
                                      "imag",
                                      "is_finite",
                                      "log",
                                      "log_plus_one",
                                      "logistic",
                                      "maximum",
                                      "minimum",
                                      "multiply",
                                      "negate",
                                      "not",
                                      "or",
                                      "popcnt",
                                      "power",
                                      "real",
                                      "remainder",
                                      "round_nearest_afz",
                                      "round_nearest_even",
                                      "rsqrt",
                                      "select",
                                      "shift_left",
                                      "shift_right_arithmetic",
                                      "shift_right_logical",
                                      "sign",
                                      "sine",
                                      "sqrt",
                                      "subtract",
                                      "tan",
                                      "tanh",
                                      "xor",
                                      "optimization_barrier"};
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (strcmp(short_name(op), names[i]) == 0) return true;
  bool scalars = op->types.n == 1 && op->types.at[0]->n == 0;
  return scalars && (strcmp(short_name(op), "broadcast_in_dim") == 0 ||
                     strcmp(short_name(op), "reshape") == 0);
}

typedef struct {
  anfi_sh_build *b;
  anfi_sh_scope *scope;
  const anfi_sh_op *op;
  const anfi_sh_region *region;
} body;

static bool flatten(anfi_sh_build *b, const anfi_traced *x, const anfi_traced **out, size_t *n,
                    size_t most) {
  if (x->kind != ANFI_TRACED_TUPLE) return *n < most && (out[(*n)++] = x, true);
  for (size_t i = 0; i < x->n; i++)
    if (!flatten(b, x->item[i], out, n, most)) return false;
  return true;
}

/* Of the dims of the first argument, where the body gives a constant. */
static const anfi_traced *spread(anfi_sh_build *b, const anfi_traced *x, const anfi_traced *like) {
  const anf_type *t = anfi_traced_type(b->t, x), *to = anfi_traced_type(b->t, like);
  if (!anfi_is_tensor(t) || !anfi_is_tensor(to) || t->n == to->n) return x;
  anf_value *shape[1] = {anfi_trace_hold(b->t, anfi_value_new_ints(b->t->cx, to->n, to->dims))};
  return anfi_trace_op(b->t, ANF_OP_BroadcastTo, 1, &x, shape);
}

/* The ops of a region built on what a template applies it to. */
static const anfi_traced *apply_body(void *user, size_t n, const anfi_traced *const *args) {
  const body *q = (const body *)user;
  anfi_sh_build *b = q->b;
  size_t most = q->region->params.n, have = 0;
  const anfi_traced **in = ANFI_NEW_N(b->t->arena, const anfi_traced *, most + 1);
  for (size_t i = 0; i < n; i++)
    if (!flatten(b, args[i], in, &have, most))
      return anfi_sh_refuse(b, q->op, "a region with fewer parameters");
  bool lifted = b->lifted;
  b->lifted = true;
  const anfi_traced *x = anfi_sh_inline(b, q->scope, q->region, have, in);
  b->lifted = lifted;
  b->t->loc = anfi_sh_op_loc(b, q->op);
  if (!x) return NULL;
  const anfi_traced **out = ANFI_NEW_N(b->t->arena, const anfi_traced *, x->n + 1);
  for (size_t i = 0; i < x->n; i++)
    if (!(out[i] = have ? spread(b, x->item[i], in[0]) : x->item[i])) return NULL;
  return anfi_traced_tuple(b->t, x->n, out);
}

static const anfi_traced *region(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                 size_t i) {
  if (i >= op->regions.n) return anfi_sh_refuse(b, op, "fewer regions than it needs");
  body *q = ANFI_NEW(b->t->arena, body);
  *q = (body){b, s, op, op->regions.at[i]};
  return anfi_traced_host(b->t, apply_body, q);
}

/* "add" of (%a, %b) { return add(%a, %b) } in either order, "second" of { return %b }. */
static const char *kind_of(const anfi_sh_op *op, size_t i) {
  const anfi_sh_region *g = i < op->regions.n ? op->regions.at[i] : NULL;
  if (!g || g->params.n != 2 || !g->ops.n) return "";
  const anfi_sh_op *first = g->ops.at[0], *last = g->ops.at[g->ops.n - 1];
  const anfi_str *a = g->params.at[0].name, *b = g->params.at[1].name;
  if (last->in.n != 1) return "";
  if (g->ops.n == 1)
    return last->in.at[0].name == b ? "second" : last->in.at[0].name == a ? "first" : "";
  bool both = g->ops.n == 2 && first->in.n == 2 && first->results.n == 1 &&
              first->results.at[0].name == last->in.at[0].name;
  if (!both || first->attrs.n) return "";
  const anfi_str *x = first->in.at[0].name, *y = first->in.at[1].name;
  return (x == a && y == b) || (x == b && y == a) ? short_name(first) : "";
}

/* ---- comparisons ---- */

static const anfi_sh_op *defining(const anfi_sh_region *g, const anfi_str *name) {
  for (size_t i = 0; i < g->ops.n; i++)
    if (g->ops.at[i]->results.n == 1 && g->ops.at[i]->results.at[0].name == name)
      return g->ops.at[i];
  return NULL;
}

static bool is_op(const anfi_sh_op *op, const char *name, size_t n) {
  return op && strcmp(short_name(op), name) == 0 && op->in.n == n;
}

static bool compares(const anfi_sh_op *op, const char *direction) {
  const anf_value *v = is_op(op, "compare", 2) ? anfi_sh_op_attr(op, "comparison_direction") : NULL;
  return v && v->kind == ANF_VALUE_STRING && strcmp(v->u.text, direction) == 0;
}

static bool is_number(const anfi_sh_region *g, const anfi_str *name, bool nan) {
  const anfi_sh_op *op = defining(g, name);
  const anf_value *v = is_op(op, "constant", 0) ? anfi_sh_op_attr(op, "value") : NULL;
  if (!v || v->kind != ANF_VALUE_TENSOR || v->n != 1 ||
      !anfi_dtype_is_float((anf_dtype)v->type->dtype))
    return false;
  double x = anfi_get_f64(v, 0);
  return nan ? isnan(x) : x == 0 && !signbit(x);
}

/* The value after what makes -0 to 0 and any NaN to NaN: select(x == 0, 0, x), select(x != x, NaN, x). */
static const anfi_str *origin(const anfi_sh_region *g, const anfi_str *name, unsigned *forms) {
  const anfi_str *tested[2] = {NULL, NULL};
  for (size_t depth = 0; depth < 2; depth++) {
    const anfi_sh_op *op = defining(g, name),
                     *c = is_op(op, "select", 3) ? defining(g, op->in.at[0].name) : NULL;
    bool zero = compares(c, "EQ") && is_number(g, c->in.at[1].name, false) &&
                is_number(g, op->in.at[1].name, false);
    bool nan = compares(c, "NE") && c->in.at[0].name == c->in.at[1].name &&
               is_number(g, op->in.at[1].name, true);
    if (!zero && !nan) break;
    *forms |= zero ? 1u : 2u;
    tested[depth] = c->in.at[0].name;
    name = op->in.at[2].name;
  }
  bool same = (!tested[0] || tested[0] == name) && (!tested[1] || tested[1] == name);
  return same ? name : NULL;
}

/* "ascending": the body is first < second, in the total order that -0 and NaN have but for those forms. */
static const char *order_of(const anfi_sh_op *op) {
  const anfi_sh_region *g = op->regions.n ? op->regions.at[0] : NULL;
  const anfi_sh_op *last = g && g->ops.n ? g->ops.at[g->ops.n - 1] : NULL;
  const anfi_sh_op *c = last && last->in.n == 1 ? defining(g, last->in.at[0].name) : NULL;
  unsigned left = 0, right = 0;
  if (g && g->params.n < 2) return "";
  if (!compares(c, "LT") && !compares(c, "GT")) return "";
  const anfi_str *a = origin(g, c->in.at[0].name, &left), *b = origin(g, c->in.at[1].name, &right);
  bool real = anfi_dtype_is_float((anf_dtype)g->params.at[0].type->dtype);
  if (real && (left != 3 || right != 3)) return "";
  if (a == g->params.at[0].name && b == g->params.at[1].name)
    return compares(c, "LT") ? "ascending" : "descending";
  return "";
}

/* ---- arguments ---- */

static const anfi_traced *text(anfi_trace *t, const char *s) {
  return anfi_traced_value(t, anfi_value_new_string(t->cx, s, strlen(s)));
}

static bool is_ignored(const char *name) {
  static const char *const names[] = {
      "indices_are_sorted", "unique_indices", "precision_config",       "result_accuracy",
      "has_side_effect",    "api_version",    "backend_config",         "called_computations",
      "operand_layouts",    "result_layouts", "output_operand_aliases", "call_target_name",
      "is_stable",          "algorithm",      "frontend_attributes"};
  if (strchr(name, '.')) return true; // of another dialect: a note
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static bool takes_all(anfi_sh_build *b, const anfi_sh_op *op, const anf_graph *f) {
  for (size_t k = 0; k < op->attrs.n; k++) {
    const char *name = op->attrs.at[k].name->s;
    bool found = is_ignored(name);
    for (size_t i = 0; i < f->params.n && !found; i++)
      found = strcmp(anfi_template_param(f, i), name) == 0;
    if (!found)
      return anfi_sh_refuse(b, op, anfi_sprintf(b->t->arena, "the attribute %s", name)) != NULL;
  }
  return true;
}

static const anfi_traced *attribute(anfi_sh_build *b, const anfi_sh_op *op, const char *name) {
  for (size_t i = op->attrs.n; i > 0; i--)
    if (strcmp(op->attrs.at[i - 1].name->s, name) == 0)
      return anfi_traced_value(b->t, anf_value_retain(op->attrs.at[i - 1].value));
  return anfi_traced_none(b->t);
}

static const anfi_traced *special(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                  const char *name, bool *is) {
  anfi_trace *t = b->t;
  const anf_type *type = op->types.n ? op->types.at[0] : NULL;
  *is = true;
  if (strcmp(name, "body") == 0) return region(b, s, op, 0);
  if (strcmp(name, "body2") == 0) return region(b, s, op, 1);
  if (strcmp(name, "kind") == 0) return text(t, kind_of(op, 0));
  if (strcmp(name, "kind2") == 0) return text(t, kind_of(op, 1));
  if (strcmp(name, "order") == 0) return text(t, order_of(op));
  if (strcmp(name, "nout") == 0)
    return anfi_traced_value(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)op->types.n));
  if (strcmp(name, "shape") == 0 && type)
    return anfi_traced_value(t, anfi_value_new_ints(t->cx, type->n, type->dims));
  if (strcmp(name, "dtype") == 0 && type)
    return anfi_traced_value(
        t, anfi_value_new_type(t->cx, anfi_type_scalar(t->cx, (anf_dtype)type->dtype)));
  return *is = false, NULL;
}

static const anfi_traced **arguments(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                     const anf_graph *f, const anfi_traced *const *in) {
  anfi_trace *t = b->t;
  const anfi_traced **all = ANFI_NEW_N(t->arena, const anfi_traced *, f->params.n + 1);
  size_t used = 0, have = op->in.n;
  for (size_t i = 0; i < f->params.n; i++) {
    bool is;
    const char *name = anfi_template_param(f, i);
    all[i] = special(b, s, op, name, &is);
    if (!is && strcmp(name, "xs") == 0)
      all[i] = anfi_traced_tuple(t, have - used, in + used), used = have;
    else if (!is) all[i] = used < have ? in[used++] : attribute(b, op, name);
    if (!all[i]) return NULL;
  }
  if (used < have) return (void)anfi_sh_refuse(b, op, "more operands than it takes"), NULL;
  return takes_all(b, op, f) ? all : NULL;
}

static const anfi_traced *call_host(anfi_sh_build *b, const anfi_sh_op *op, const anfi_host *h,
                                    const anfi_traced *const *in) {
  if (b->lifted)
    return anfi_sh_refuse(b, op, "a place in the body of another op, where the host is not called");
  anf_node **all = ANFI_NEW_N(b->t->arena, anf_node *, op->in.n + 1);
  for (size_t i = 0; i < op->in.n; i++)
    if (!(all[i] = anfi_traced_to_node(b->t, in[i]))) return NULL;
  const anfi_attrs *attrs = anfi_host_attrs(b->to->module, h);
  anf_node *call = anfi_apply(b->to, anfi_host_op(h), attrs, op->in.n, all);
  if (anfi_host_op(h) == ANF_OP_HostEffect && op->types.n) anfi_add_effect(b->to, call);
  return anfi_sh_results(b, op, call);
}

const anfi_traced *anfi_sh_operation(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                     const anfi_traced *const *in) {
  anf_graph *f = template_of(b->model, op);
  const anfi_host *h = f ? NULL : host_of(b->model, op);
  if (h) return call_host(b, op, h, in);
  if (!f) return anfi_sh_refuse(b, op, "a name that no template has");
  if (b->lifted && !is_elementwise(op))
    return anfi_sh_refuse(
        b, op, "a place in the body of another op: only elementwise ops are supported there");
  const anfi_traced *const *all = arguments(b, s, op, f, in);
  b->t->subject = op->name->s;
  return all ? anfi_trace_call(b->t, f, f->params.n, all) : NULL;
}
