// SPDX-License-Identifier: Apache-2.0
/* Operations on operands: one op computed at once when all is known, else a node of the graph.
 *   add of 2 and 3   ->   5          add of x and 3   ->   the node Add(x, 3)
 * A graph's numbers are computed while it is built, so the sizes of static shapes never reach the program that runs. */
#include "frontend/pnnx/pnnx.h"

static void release_live(void *p) {
  anfi_torch *t = (anfi_torch *)p;
  for (size_t i = 0; i < t->live.n; i++) anf_value_release(t->live.at[i]);
  t->live.n = 0;
}

anfi_torch *anfi_torch_new(anf_ctx *cx, anf_graph *g) {
  anfi_torch *t = ANFI_NEW(anfi_scratch(cx), anfi_torch);
  t->cx = cx;
  t->arena = anfi_scratch(cx);
  t->graph = g;
  anfi_defer(cx, ANFI_ALWAYS, release_live, t);
  return t;
}

anf_value *anfi_torch_own(anfi_torch *t, anf_value *v) {
  anfi_value_guard(v);
  anfi_push(t->arena, &t->live, v);
  anfi_value_unguard(v);
  return v;
}

/* Searches from the end: values that are dropped were made lately. */
void anfi_torch_drop(anfi_torch *t, const anfi_operand *o) {
  if (t->graph) return;
  for (size_t i = 0; i < o->n; i++) anfi_torch_drop(t, &o->item[i]);
  if (!o->value) return;
  for (size_t i = t->live.n; i-- > 0;) {
    if (t->live.at[i] != o->value) continue;
    memmove(&t->live.at[i], &t->live.at[i + 1], (--t->live.n - i) * sizeof *t->live.at);
    anf_value_release(o->value);
    return;
  }
}

/* ---- operands ---- */

anfi_operand anfi_operand_value(anf_ctx *cx, anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR) return (anfi_operand){.kind = ANFI_OPERAND_NONE};
  const anf_type *t = anf_value_type(cx, v);
  if (!t) anfi_throw_nomem(cx);
  return (anfi_operand){
      .type = t, .value = v, .number = !t->n && (t->dtype == ANF_INT || t->dtype == ANF_FLOAT)};
}

anfi_operand anfi_operand_node(anf_node *n, const anf_type *type) {
  return (anfi_operand){.type = type, .node = n};
}

anfi_operand anfi_operand_number(anfi_torch *t, int64_t v) {
  return anfi_operand_value(t->cx, anfi_torch_own(t, anfi_value_new_i64(t->cx, ANF_INT, v)));
}

bool anfi_operand_int(const anfi_operand *o, int64_t *out) {
  return o->kind == ANFI_OPERAND_TENSOR && o->value && anfi_value_is_int(o->value, out);
}

/* ---- one op ---- */

static bool find_attrs(anfi_torch *t, anfi_opcode op, size_t nattr, const anf_attr *attrs,
                       anf_value **values, anf_node **nodes) {
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  for (uint32_t k = 0; k < s->nattr; k++) values[k] = NULL, nodes[k] = NULL;
  for (size_t i = 0; i < nattr; i++) {
    int k = anfi_attr_index(t->cx, op, attrs[i].name);
    if (k < 0) return anfi_fail(t->cx, t->loc, ANF_E0203, s->name->s, attrs[i].name);
    values[k] = attrs[i].value;
    nodes[k] = attrs[i].value ? NULL : attrs[i].node;
  }
  return true;
}

static void use_defaults(anfi_torch *t, anfi_opcode op, anf_value **values,
                         anf_node *const *nodes) {
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!values[k] && !nodes[k]) values[k] = anfi_attr_value(t->cx, op, NULL, k);
}

static bool evaluate(anfi_torch *t, anfi_opcode op, size_t n, const anfi_operand *in,
                     anf_value *const *attr, anfi_operand *out) {
  anf_value *few[4], **args = few;
  if (n > ANFI_LEN(few)) args = ANFI_NEW_N(t->arena, anf_value *, n);
  for (size_t i = 0; i < n; i++) args[i] = in[i].value;
  anfi_eval q = {.cx = t->cx, .op = op, .loc = t->loc, .n = n, .in = args, .attr = attr};
  if (!anfi_eval_op(&q)) return false;
  *out = anfi_operand_value(t->cx, anfi_torch_own(t, q.out));
  return true;
}

static const anf_type *type_of_operand(anfi_torch *t, const anfi_operand *o) {
  if (o->kind == ANFI_OPERAND_NONE) return anfi_type_simple(t->cx, ANF_TYPE_NONE);
  return o->type ? o->type : anfi_type_simple(t->cx, ANF_TYPE_ANY);
}

static bool is_any(const anf_type *t) { return !t || t->kind == ANF_TYPE_ANY; }

static bool result_type(anfi_torch *t, anfi_opcode op, size_t n, const anfi_operand *in,
                        anf_value *const *attr, const anf_type **out) {
  const anf_type *few[4], **types = few;
  if (n > ANFI_LEN(few)) types = ANFI_NEW_N(t->arena, const anf_type *, n);
  for (size_t i = 0; i < n; i++) types[i] = type_of_operand(t, &in[i]);
  anfi_infer q = {.cx = t->cx, .op = op, .loc = t->loc, .n = n, .in = types, .attr = attr};
  if (!anfi_infer_op(&q)) return false;
  *out = is_any(q.out) ? NULL : q.out;
  return true;
}

static bool build(anfi_torch *t, anfi_opcode op, size_t n, const anfi_operand *in,
                  anf_value **values, anf_node *const *nodes, anfi_operand *out) {
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  anf_node *few[8], **args = few;
  anf_value *given[32];
  const anfi_attrs *attrs;
  const anf_type *type = NULL;
  size_t narg = n;
  if (n + s->nattr > ANFI_LEN(few)) args = ANFI_NEW_N(t->arena, anf_node *, n + s->nattr);
  for (size_t i = 0; i < n; i++) args[i] = anfi_torch_node(t, &in[i]);
  for (uint32_t k = 0; k < s->nattr; k++) {
    given[k] = nodes[k] ? &anfi_from_node : values[k];
    if (nodes[k]) args[narg++] = nodes[k];
  }
  if (!anfi_attrs_new(t->graph->module, op, given, t->loc, &attrs)) return false;
  use_defaults(t, op, values, nodes);
  if (!result_type(t, op, n, in, values, &type)) return false;
  anf_node *node = anfi_apply(t->graph, op, attrs, narg, args);
  node->debug = t->debug;
  node->type = type;
  *out = anfi_operand_node(node, type);
  return true;
}

bool anfi_torch_op(anfi_torch *t, anfi_opcode op, size_t n, const anfi_operand *in, size_t nattr,
                   const anf_attr *attrs, anfi_operand *out) {
  anf_value *values[32];
  anf_node *nodes[32];
  bool known = true;
  if (!anfi_op_check_count(t->cx, op, n, t->loc) || !find_attrs(t, op, nattr, attrs, values, nodes))
    return false;
  for (size_t i = 0; i < n; i++) known &= in[i].value && (!t->graph || in[i].number);
  for (size_t i = 0; i < nattr; i++) known &= attrs[i].value != NULL;
  if ((!t->graph || (n && known))) {
    use_defaults(t, op, values, nodes);
    return evaluate(t, op, n, in, values, out);
  }
  return build(t, op, n, in, values, nodes, out);
}

anf_node *anfi_torch_node(anfi_torch *t, const anfi_operand *o) {
  anf_module *m = t->graph->module;
  if (o->kind == ANFI_OPERAND_LIST) {
    anf_node **items = ANFI_NEW_N(t->arena, anf_node *, o->n + 1);
    for (size_t i = 0; i < o->n; i++) items[i] = anfi_torch_node(t, &o->item[i]);
    anf_node *tuple = anfi_apply(t->graph, ANF_OP_MakeTuple, NULL, o->n, items);
    tuple->debug = t->debug;
    return tuple;
  }
  if (o->node) return o->node;
  return anfi_value(m, o->value ? anf_value_retain(o->value) : anfi_value_new_none(t->cx));
}

bool anfi_torch_cast(anfi_torch *t, const anfi_operand *x, anf_dtype d, anfi_operand *out) {
  if (x->type && x->type->dtype == d) return *out = *x, true;
  if (x->value && (!t->graph || x->number)) {
    *out = anfi_operand_value(t->cx, anfi_torch_own(t, anfi_value_cast(x->value, d)));
    return true;
  }
  if (d == ANF_INT || d == ANF_FLOAT) d = d == ANF_INT ? ANF_I64 : ANF_F64;
  anf_value *v = anfi_torch_own(t, anfi_value_new_type(t->cx, anfi_type_scalar(t->cx, d)));
  return anfi_torch_op(t, ANF_OP_Cast, 1, x, 1, &(anf_attr){"dtype", v, NULL}, out);
}

bool anfi_torch_size(anfi_torch *t, const anfi_operand *x, size_t axis, anfi_operand *out) {
  anfi_operand shape;
  if (x->type->dims[axis] >= 0) return *out = anfi_operand_number(t, x->type->dims[axis]), true;
  if (!anfi_torch_op(t, ANF_OP_Shape, 1, x, 0, NULL, &shape)) return false;
  anf_value *k = anfi_torch_own(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)axis));
  if (!anfi_torch_op(t, ANF_OP_TupleGet, 1, &shape, 1, &(anf_attr){"index", k, NULL}, out))
    return false;
  return out->number = true;
}
