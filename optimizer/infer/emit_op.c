// SPDX-License-Identifier: Apache-2.0
/* Primitives in first-order form.
 *   Add(x, y)            ->  Add(x, y), with attributes made constant
 *   f == g, functions    ->  a comparison of their tags and environments
 * A primitive on function values works on the data that represents them. */
#include "optimizer/infer/emit.h"

/* Attribute nodes become constants: inference found their values. */
static const anfi_attrs *constant_attrs(anfi_emit *e, anfi_opcode op, const anfi_attrs *at,
                                        size_t *n, const anfi_abs *const *iabs,
                                        const anf_node *where) {
  uint32_t nodes = 0;
  for (uint32_t k = 0; at && k < at->n; k++) nodes += at->at[k] == &anfi_from_node;
  if (!nodes) return at;
  anf_value **values = ANFI_NEW_N(e->arena, anf_value *, at->n);
  *n -= nodes;
  size_t next = *n;
  for (uint32_t k = 0; k < at->n; k++) {
    bool given = at->at[k] != &anfi_from_node;
    values[k] = given ? anf_value_retain(at->at[k]) : anfi_abs_value(e->q->cx, iabs[next++]);
    if (values[k]) anfi_value_guard(values[k]);
  }
  const anfi_attrs *out = NULL;
  anfi_attrs_new(e->q->m, op, values, anfi_node_loc(where), &out);
  for (uint32_t k = 0; k < at->n; k++)
    if (values[k]) anfi_value_unguard(values[k]), anf_value_release(values[k]);
  return out;
}

/* The environment of a code with more values bound: data of `to`. */
static anf_node *bind_more(anfi_emit *e, anf_node *bound, const anfi_abs *code,
                           const anfi_abs *const *iabs, anf_node *const *more, const anfi_abs *to) {
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, to->n);
  for (uint32_t i = 0; i < code->n; i++) items[i] = anfi_emit_get(e, bound, i);
  for (uint32_t i = code->n; i < to->n; i++)
    items[i] = anfi_emit_coerce(e, more[i - code->n], iabs[i - code->n], to->item[i]);
  return anfi_emit_tuple(e, to->n, items);
}

/* The member of `set` that is this code with `more` bound. */
static const anfi_abs *bound_in(const anfi_abs *set, const anfi_abs *code, size_t more) {
  anfi_abs of = *code;
  of.n += (uint32_t)more;
  return set->item[anfi_abs_member(set, &of)];
}

static anf_node *emit_partial(anfi_emit *e, size_t n, const anfi_abs *const *iabs,
                              anf_node *const *in, const anfi_abs *result) {
  const anfi_abs *f = iabs[0], **to = ANFI_NEW_N(e->arena, const anfi_abs *, f->n);
  if (f->n == 1) return bind_more(e, in[0], f->item[0], iabs + 1, in + 1, result->item[0]);
  for (uint32_t i = 0; i < f->n; i++) to[i] = bound_in(result, f->item[i], n - 1);
  const anfi_abs *made = anfi_abs_items(e->abs, ANFI_ABS_FN, NULL, f->n, to); // in the order of f
  uint32_t count = anfi_abs_type(e->abs, made)->n;
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, count);
  items[0] = anfi_emit_get(e, in[0], 0);
  for (uint32_t i = 0; i < f->n; i++) {
    uint32_t slot = anfi_abs_slot(e->abs, made, i), old = anfi_abs_slot(e->abs, f, i);
    if (!slot || items[slot]) continue; // what shares one here did so before
    anf_node *bound = old ? anfi_emit_get(e, in[0], old) : NULL;
    items[slot] = bind_more(e, bound, f->item[i], iabs + 1, in + 1, to[i]);
  }
  return anfi_emit_coerce(e, anfi_emit_tuple(e, count, items), made, result);
}

/* Each branch is one function, another one:
 *   SwitchLayer(k, f, g, h)  ->  (SwitchLayer(k, tag of f, of g, of h), environments of f, of g, of h)
 * where a tuple of all environments for each branch, most of them undefined, would take the square. */
typedef struct {
  size_t n;
  const anfi_abs *const *abs;
  anf_node *const *node;
} branches;

static bool are_distinct(const branches *b, const anfi_abs *result) {
  bool good = result->kind == ANFI_ABS_FN && result->n > 1 && result->n == b->n;
  for (size_t i = 0; i < b->n && good; i++)
    good = b->abs[i]->kind == ANFI_ABS_FN && b->abs[i]->n == 1;
  return good;
}

static anf_node *choose_tag(anfi_emit *e, anfi_opcode op, anf_node *chooser, const branches *b,
                            const anfi_abs *result) {
  uint32_t count = anfi_abs_type(e->abs, result)->n;
  anf_node **tag = ANFI_NEW_N(e->arena, anf_node *, b->n + 1);
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, count);
  tag[0] = chooser;
  for (size_t i = 0; i < b->n; i++)
    tag[i + 1] = anfi_emit_i32(e, anfi_abs_member(result, b->abs[i]->item[0]));
  items[0] = anfi_emit_apply(e, op, NULL, anfi_type_scalar(e->q->cx, ANF_I32), b->n + 1, tag);
  for (size_t i = 0; i < b->n; i++) {
    uint32_t k = anfi_abs_member(result, b->abs[i]->item[0]),
             slot = anfi_abs_slot(e->abs, result, k);
    if (!slot) continue;
    anf_node *bound = anfi_emit_coerce(e, b->node[i], b->abs[i]->item[0], result->item[k]);
    items[slot] =
        items[slot] ? anfi_emit_choose(e, ANF_OP_Equal, items[0], k, bound, items[slot]) : bound;
  }
  return anfi_emit_tuple(e, count, items);
}

static anf_node *emit_switch(anfi_emit *e, const anfi_abs *const *iabs, anf_node *const *in,
                             const anfi_abs *result) {
  const anfi_abs *c = iabs[0];
  if (c->value) {
    size_t k = anfi_get_f64(c->value, 0) != 0 ? 1 : 2;
    return anfi_emit_coerce(e, in[k], iabs[k], result);
  }
  branches both = {2, iabs + 1, in + 1};
  if (are_distinct(&both, result)) return choose_tag(e, ANF_OP_Switch, in[0], &both, result);
  anf_node *branch[3] = {in[0], anfi_emit_coerce(e, in[1], iabs[1], result),
                         anfi_emit_coerce(e, in[2], iabs[2], result)};
  return anfi_emit_apply(e, ANF_OP_Switch, NULL, anfi_abs_type(e->abs, result), 3, branch);
}

static anf_node *emit_switch_layer(anfi_emit *e, size_t n, const anfi_abs *const *iabs,
                                   anf_node *const *in, const anfi_abs *result) {
  bool packed = n == 2 && iabs[1]->kind == ANFI_ABS_TUPLE;
  size_t nbranch = packed ? iabs[1]->n : n - 1;
  anf_node **branch = ANFI_NEW_N(e->arena, anf_node *, nbranch + 1);
  const anfi_abs *const *babs = packed ? iabs[1]->item : iabs + 1;
  bool one = nbranch == 1 || (result->kind == ANFI_ABS_FN && result->n == 1);
  if (one) anfi_emit_check_index(e, in[0], nbranch); // nothing is left to choose
  if (nbranch == 1)
    return anfi_emit_coerce(e, packed ? anfi_emit_get(e, in[1], 0) : in[1], babs[0], result);
  branch[0] = in[0];
  for (size_t i = 0; i < nbranch; i++)
    branch[i + 1] = packed ? anfi_emit_get(e, in[1], i) : in[i + 1];
  branches all = {nbranch, babs, branch + 1};
  if (are_distinct(&all, result)) return choose_tag(e, ANF_OP_SwitchLayer, in[0], &all, result);
  for (size_t i = 0; i < nbranch; i++)
    branch[i + 1] = anfi_emit_coerce(e, branch[i + 1], babs[i], result);
  return anfi_emit_apply(e, ANF_OP_SwitchLayer, NULL, anfi_abs_type(e->abs, result), nbranch + 1,
                         branch);
}

static anf_node *emit_tuple_part(anfi_emit *e, const anfi_attrs *attrs, size_t n,
                                 const anfi_abs *const *iabs, anf_node *t, anf_node *at) {
  anfi_chosen c;
  anf_value *spec = anfi_attr_value(e->q->cx, ANF_OP_GetItem, attrs, 0);
  if (!anfi_tuple_parts(e->q, spec, n, iabs, at, &c)) return NULL;
  if (!c.slice) return anfi_emit_get(e, t, (size_t)c.first);
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, c.n);
  for (size_t i = 0; i < c.n; i++)
    items[i] = anfi_emit_get(e, t, (size_t)(c.first + (int64_t)i * c.step));
  return anfi_emit_tuple(e, c.n, items);
}

/* The begin of a window, checked to be inside. */
static anf_node *emit_start(anfi_emit *e, anf_node *start, int64_t size, int64_t length) {
  anf_ctx *cx = e->q->cx;
  const int64_t given[2] = {size, length};
  anf_value *attr[2];
  const anfi_attrs *at = NULL;
  for (int k = 0; k < 2; k++) {
    attr[k] = anfi_value_new_i64(cx, ANF_INT, given[k]);
    anfi_value_guard(attr[k]);
  }
  anfi_attrs_new(e->q->m, ANF_OP_WindowStart, attr, anfi_nowhere(), &at);
  for (int k = 0; k < 2; k++) anfi_value_unguard(attr[k]), anf_value_release(attr[k]);
  return anfi_emit_apply(e, ANF_OP_WindowStart, at, anfi_type_scalar(cx, ANF_I64), 1, &start);
}

/* Elements start, start + 1, ... of x along an axis. */
static anf_node *emit_window(anfi_emit *e, anf_node *x, anf_node *start, const anfi_window *w) {
  anf_ctx *cx = e->q->cx;
  anf_module *m = e->q->m;
  start = emit_start(e, start, w->size, x->type->dims[w->axis]);
  const anf_type *whole = anfi_type_tensor(cx, ANF_I64, 1, &w->size);
  int64_t dims[ANF_MAX_RANK];
  memcpy(dims, x->type->dims, x->type->n * sizeof *dims);
  dims[w->axis] = w->size;
  const anf_type *type = anfi_type_tensor(cx, (anf_dtype)x->type->dtype, x->type->n, dims);
  anf_node *steps[2] = {start};
  const anfi_attrs *stop =
      anfi_attrs_nth(m, ANF_OP_Arange, 1, anfi_value_new_i64(cx, ANF_INT, w->size));
  steps[1] = anfi_emit_apply(e, ANF_OP_Arange, stop, whole, 0, NULL);
  anf_node *in[2] = {x, anfi_emit_apply(e, ANF_OP_Add, NULL, whole, 2, steps)};
  const anfi_attrs *axis = anfi_attrs_one(m, ANF_OP_Take, anfi_value_new_i64(cx, ANF_INT, w->axis));
  return anfi_emit_apply(e, ANF_OP_Take, axis, type, 2, in);
}

static anf_node *emit_tensor_item(anfi_emit *e, const anfi_attrs *attrs, const anf_type *type,
                                  size_t n, const anfi_abs *const *iabs, anf_node *const *in,
                                  anf_node *at) {
  anfi_bounds b;
  anf_value *spec = anfi_attr_value(e->q->cx, ANF_OP_GetItem, attrs, 0);
  if (!anfi_find_bounds(e->q, e->spec, spec, n, iabs, at, &b))
    return anfi_emit_apply(e, ANF_OP_GetItem, attrs, type, n, in);
  anf_node **left = ANFI_NEW_N(e->arena, anf_node *, n);
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (!b.gone[i]) left[k++] = in[i];
  for (size_t i = 0; i < b.nwindow; i++)
    left[0] = emit_window(e, left[0], in[b.window[i].start], &b.window[i]);
  anfi_attrs_new(e->q->m, ANF_OP_GetItem, &b.subscript, anfi_node_loc(at), &attrs);
  return anfi_emit_apply(e, ANF_OP_GetItem, attrs, type, k, left);
}

static anf_node *emit_rearranged(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                                 const anfi_abs *const *iabs, anf_node *const *in,
                                 const anfi_abs *result) {
  anfi_items items = {0};
  uint32_t nattr = anfi_op_schema(e->q->cx, op)->nattr;
  anf_value **attr = ANFI_NEW_N(e->arena, anf_value *, nattr + 1);
  for (uint32_t k = 0; k < nattr; k++) attr[k] = anfi_attr_value(e->q->cx, op, attrs, k);
  if (!anfi_find_items(e->q, op, attr, n, iabs, &items)) return NULL;
  anf_node **of = ANFI_NEW_N(e->arena, anf_node *, items.n + 1);
  for (size_t i = 0; i < items.n; i++) {
    anf_node *from = in[items.at[i].input];
    int64_t k = items.at[i].item;
    if (k == ANFI_WHOLE) of[i] = from;
    else
      of[i] = op == ANF_OP_RecordSet ? anfi_emit_field(e, from, (size_t)k)
                                     : anfi_emit_get(e, from, (size_t)k);
  }
  return op == ANF_OP_RecordSet ? anfi_emit_record(e, result, of) : anfi_emit_tuple(e, items.n, of);
}

static anf_node *emit_field(anfi_emit *e, const anfi_attrs *attrs, const anfi_abs *r,
                            anf_node *record) {
  const anf_value *name = anfi_attr_value(e->q->cx, ANF_OP_GetField, attrs, 0);
  for (uint32_t i = 0; i < r->n; i++)
    if (strcmp(r->type->names[i]->s, name->u.text) == 0) return anfi_emit_field(e, record, i);
  return NULL;
}

/* The op with its arguments exchanged. */
static anfi_opcode exchanged(anfi_opcode op) {
  switch (op) {
  case ANF_OP_Less: return ANF_OP_Greater;
  case ANF_OP_LessEqual: return ANF_OP_GreaterEqual;
  case ANF_OP_Greater: return ANF_OP_Less;
  case ANF_OP_GreaterEqual: return ANF_OP_LessEqual;
  default: return op;
  }
}

/* u64 with signed integers, for which no type holds both:
 *   x < s      s >= 0 and x < u64(s)
 *   x > s      s < 0 or x > u64(s) */
static anf_node *emit_mixed(anfi_emit *e, anfi_opcode op, anf_node *x, anf_node *s,
                            const anf_type *type) {
  anf_ctx *cx = e->q->cx;
  bool below = op == ANF_OP_Equal || op == ANF_OP_Less || op == ANF_OP_LessEqual;
  const anf_type *sign = anfi_type_with_dtype(cx, s->type, ANF_BOOL);
  anf_node *zero = anfi_emit_const(e, anfi_value_new_i64(cx, (anf_dtype)s->type->dtype, 0));
  anf_node *of[2] = {s, zero};
  anf_node *known =
      anfi_emit_apply(e, below ? ANF_OP_GreaterEqual : ANF_OP_Less, NULL, sign, 2, of);
  anf_value *u64 = anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_U64));
  const anfi_attrs *to = anfi_attrs_one(e->q->m, ANF_OP_Cast, u64);
  of[0] = x;
  of[1] = anfi_emit_apply(e, ANF_OP_Cast, to, anfi_type_with_dtype(cx, s->type, ANF_U64), 1, &s);
  of[1] = anfi_emit_apply(e, op, NULL, type, 2, of);
  of[0] = known;
  return anfi_emit_apply(e, below ? ANF_OP_LogicalAnd : ANF_OP_LogicalOr, NULL, type, 2, of);
}

static anf_node *emit_compare(anfi_emit *e, anfi_opcode op, anf_node *const *in,
                              const anfi_abs *result) {
  anf_dtype a = (anf_dtype)in[0]->type->dtype, b = (anf_dtype)in[1]->type->dtype;
  const anf_type *type = anfi_abs_type(e->abs, result);
  if (anfi_op_is_comparison(op) && a == ANF_U64 && anfi_dtype_class(b) == ANFI_CLASS_SIGNED)
    return emit_mixed(e, op, in[0], in[1], type);
  if (anfi_op_is_comparison(op) && b == ANF_U64 && anfi_dtype_class(a) == ANFI_CLASS_SIGNED)
    return emit_mixed(e, exchanged(op), in[1], in[0], type);
  anf_node *of[2] = {anfi_emit_compared(e, in[0], b), anfi_emit_compared(e, in[1], a)};
  return anfi_emit_apply(e, op, NULL, type, 2, of);
}

/* Integers without a type that the op makes ones of a narrower type, checked. */
static anf_node *const *take_types(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                                   anf_node *const *in) {
  size_t weak = 0;
  for (size_t i = 0; i < n; i++)
    weak +=
        in[i]->kind != ANFI_VALUE && anfi_is_tensor(in[i]->type) && in[i]->type->dtype == ANF_INT;
  if (!weak || weak == n) return in;
  anf_ctx *cx = e->q->cx;
  uint32_t nattr = anfi_op_schema(cx, op)->nattr;
  anf_value **attr = ANFI_NEW_N(e->arena, anf_value *, nattr + 1);
  const anf_type **t = ANFI_NEW_N(e->arena, const anf_type *, n);
  for (uint32_t k = 0; k < nattr; k++) attr[k] = anfi_attr_value(cx, op, attrs, k);
  for (size_t i = 0; i < n; i++) t[i] = in[i]->type;
  anfi_infer hook = {.cx = cx, .op = op, .n = n, .in = t, .attr = attr};
  if (!anfi_infer_op(&hook)) return NULL;
  anf_node **out = ANFI_NEW_N(e->arena, anf_node *, n);
  for (size_t i = 0; i < n; i++)
    out[i] = anfi_infer_holds(&hook, i, NULL) ? in[i] : anfi_emit_taken(e, in[i], hook.takes);
  return out;
}

anf_node *anfi_emit_op(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                       const anfi_abs *const *iabs, anf_node *const *in, const anfi_abs *result,
                       anf_node *at) {
  if (anfi_op_makes_function(op)) return anfi_emit_tuple(e, n, in);
  if (anfi_op_is_meta(op)) return anfi_emit_meta(e, op, attrs, n, iabs, in, at);
  attrs = constant_attrs(e, op, attrs, &n, iabs, at);
  if (n == 2 && anfi_op[op].infer == anfi_infer_compare) return emit_compare(e, op, in, result);
  switch (op) {
  case ANF_OP_Partial: return emit_partial(e, n, iabs, in, result);
  case ANF_OP_Switch: return emit_switch(e, iabs, in, result);
  case ANF_OP_SwitchLayer: return emit_switch_layer(e, n, iabs, in, result);
  case ANF_OP_MakeTuple: return anfi_emit_tuple(e, n, in);
  case ANF_OP_GetItem:
    if (iabs[0]->kind == ANFI_ABS_TUPLE) return emit_tuple_part(e, attrs, n, iabs, in[0], at);
    return emit_tensor_item(e, attrs, anfi_abs_type(e->abs, result), n, iabs, in, at);
  case ANF_OP_TupleConcat:
  case ANF_OP_TupleSet:
  case ANF_OP_TupleSlice:
  case ANF_OP_RecordSet: {
    anf_node *r = emit_rearranged(e, op, attrs, n, iabs, in, result);
    if (r) return r;
    break;
  }
  case ANF_OP_GetField:
    if (iabs[0]->kind == ANFI_ABS_RECORD) return emit_field(e, attrs, iabs[0], in[0]);
    break;
  default: break;
  }
  if (!(in = take_types(e, op, attrs, n, in))) return NULL;
  anf_node *p = anfi_emit_apply(e, op, attrs, anfi_abs_type(e->abs, result), n, in);
  if (result->kind == ANFI_ABS_DATA && result->weak) anfi_emit_check_result(e, op, p, result->weak);
  return anfi_op[op].flags & (ANFI_EFFECT | ANFI_CALLS) ? anfi_emit_effect(e, p) : p;
}
