// SPDX-License-Identifier: Apache-2.0
/* Ops in terms of others, for writers of formats that lack them (legalisation). A template has the op's name and an
 * underscore, and the op's inputs and attributes as parameters; inputs that may be repeated are one tuple:
 *   def SwapAxes_(x, axis1, axis2) { Transpose(x, axes=..) }
 * An attribute that is a list of integers is a tuple even where it is one number. A template that gives None leaves the node
 * as it is. Nodes that a template makes are legalised, too. */
#include "frontend/trace/trace.h"

typedef struct {
  anfi_trace *t;
  anf_module *m;
  size_t replaced;
} legal;

static const anfi_traced *traced(legal *q, anf_node *n) {
  if (n->kind == ANFI_VALUE && !anfi_value_graph(n))
    return anfi_traced_value(q->t, anf_value_retain(n->u.value));
  return anfi_traced_node(q->t, n, n->type);
}

static const anfi_traced *cast(legal *q, const anfi_traced *x, anf_dtype d) {
  anf_value *to[1] = {
      anfi_trace_hold(q->t, anfi_value_new_type(q->t->cx, anfi_type_scalar(q->t->cx, d)))};
  return anfi_trace_op(q->t, ANF_OP_Cast, 1, &x, to);
}

static bool has_dtype(legal *q, const anfi_traced *x, bool (*is)(anf_dtype)) {
  const anf_type *t = anfi_traced_type(q->t, x);
  return anfi_is_tensor(t) && is((anf_dtype)t->dtype);
}

static bool gives_floats(const anf_node *n) {
  return n->type && anfi_is_tensor(n->type) && anfi_dtype_is_float((anf_dtype)n->type->dtype);
}

/* Templates are written for floats: integers that an elementwise op converts are converted before. */
static const anfi_traced *converted(legal *q, const anf_node *n, const anfi_traced *x) {
  bool each = anfi_op_of(n)->lower == ANFI_LOWER_POINTWISE && gives_floats(n);
  return each && has_dtype(q, x, anfi_dtype_is_int) ? cast(q, x, (anf_dtype)n->type->dtype) : x;
}

static const anfi_traced *input(legal *q, const anf_node *n, const anfi_schema *s, size_t i) {
  size_t narg = anfi_arg_count(n);
  if (!s->variadic || i + 1 < s->nin)
    return i < narg ? converted(q, n, traced(q, n->in[i].def)) : anfi_traced_none(q->t);
  const anfi_traced **item = ANFI_NEW_N(q->t->arena, const anfi_traced *, narg - i + 1);
  for (size_t k = i; k < narg; k++) item[k - i] = traced(q, n->in[k].def);
  return anfi_traced_tuple(q->t, narg - i, item);
}

/* A list that is one integer is passed as a tuple. */
static const anfi_traced *attribute(legal *q, const anf_node *n, const anfi_schema *s, uint32_t k) {
  anf_value *v = anfi_attr_value(q->t->cx, (anfi_opcode)n->op, n->u.attrs, k);
  if (v && s->attr[k].type == ANFI_ATTR_INTS && v->kind == ANF_VALUE_TENSOR) {
    const int64_t one = anfi_get_i64(v, 0);
    return anfi_traced_value(q->t, anfi_value_new_ints(q->t->cx, 1, &one));
  }
  return v ? anfi_traced_value(q->t, anf_value_retain(v)) : traced(q, anfi_attr_node(n, k));
}

static bool replace(legal *q, anf_node *n, anf_graph *f) {
  const anfi_schema *s = anfi_op_schema(q->t->cx, (anfi_opcode)n->op);
  const anfi_traced **arg = ANFI_NEW_N(q->t->arena, const anfi_traced *, f->params.n + 1);
  q->t->to = n->graph;
  q->t->loc = anfi_node_loc(n);
  q->t->debug = n->debug;
  for (size_t i = 0; i < f->params.n; i++) {
    arg[i] = i < s->nin ? input(q, n, s, i) : attribute(q, n, s, (uint32_t)(i - s->nin));
    if (!arg[i]) return false;
  }
  const anfi_traced *r = anfi_trace_call(q->t, f, f->params.n, arg);
  if (!r) return false;
  if (anfi_traced_is_none(r)) return true;
  if (n->type && anfi_is_tensor(n->type) && anfi_is_tensor(anfi_traced_type(q->t, r)) &&
      anfi_traced_type(q->t, r)->dtype != n->type->dtype)
    r = cast(q, r, anfi_dtype_settle((anf_dtype)n->type->dtype));
  anf_node *by = r ? anfi_traced_to_node(q->t, r) : NULL;
  if (!by) return false;
  anfi_replace(n, by);
  q->replaced++;
  return true;
}

bool anfi_legalise(anfi_trace *t, anf_module *m, size_t *replaced) {
  legal q = {.t = t, .m = m};
  t->typed = true;
  anf_graph **f = ANFI_NEW_N(t->arena, anf_graph *, ANF_OP_COUNT);
  for (size_t op = 0; op < ANF_OP_COUNT; op++)
    f[op] = anfi_trace_find(t, anfi_sprintf(t->arena, "%s_", anfi_op[op].name));
  for (size_t i = 0; i < m->nodes.n; i++) { // grows while templates add nodes
    anf_node *n = m->nodes.at[i];
    if (n && n->kind == ANFI_APPLY && f[n->op] && anfi_is_used(n) && !replace(&q, n, f[n->op]))
      return false;
  }
  *replaced = q.replaced;
  return true;
}
