// SPDX-License-Identifier: Apache-2.0
/* Vmap: a batch of calls as one; and Jacobians, which are a batch of pullbacks or of pushforwards, one
 * for each unit vector. Axes are written into the Derive node one by one: for each part of an
 * argument or result that is no tuple and no record, an axis counted from the front, or -1. */
#include "optimizer/infer/transform.h"

enum { NO_AXIS = -1 };
typedef ANFI_VEC(int64_t) axes_list;

static part fail_map(const walk *w, const char *why) {
  return anfi_transform_fail(w, ANF_E0536, why, "");
}

static bool is_nest(const anf_type *t) {
  return t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
}

/* ---- axes ---- */

typedef struct {
  const walk *w;
  bool out;        // of results: the axis comes on top of the rank
  int64_t size;    // of the batch; ANF_DIM_UNKNOWN: not known yet
  bool any;        // is anything batched?
  axes_list *axes; // by item
} batching;

static bool one_axis(batching *b, const anf_type *t, const anf_value *v, int64_t *axis) {
  *axis = NO_AXIS;
  if (v->kind == ANF_VALUE_NONE) return true;
  int64_t a, rank = t->kind == ANF_TYPE_TENSOR ? (int64_t)t->n + b->out : 0;
  if (!anfi_value_is_int(v, &a)) return fail_map(b->w, "an axis is an integer or None").abs;
  if (!rank && b->out) return fail_map(b->w, "what is no tensor has no batch").abs;
  if (a < -rank || a >= rank) return fail_map(b->w, "an axis is outside what it is of").abs;
  *axis = a < 0 ? a + rank : a;
  b->any = true;
  if (b->out) return true;
  int64_t size = t->dims[*axis];
  if (size >= 0 && b->size >= 0 && size != b->size)
    return fail_map(b->w, "batched axes differ in size").abs;
  if (size >= 0) b->size = size;
  return true;
}

/* The axes of item i of t: those of the field of its name, those at its place, or those for all. */
static const anf_value *axes_of(const anf_type *t, const anf_value *v, uint32_t i) {
  if (v->kind == ANF_VALUE_TUPLE) return v->u.item[i];
  if (v->kind != ANF_VALUE_RECORD) return v;
  for (size_t k = 0; t->kind == ANF_TYPE_RECORD && k < v->n; k++)
    if (v->type->names[k] == t->names[i]) return v->u.item[k];
  return NULL;
}

/* Axes of the items of t, which nests as types do: not deep. */
static bool find_axes(batching *b, const anf_type *t, const anf_value *v) {
  if (is_nest(t)) {
    bool each = v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
    if (each && v->n != t->n) return fail_map(b->w, "not as many axes as items").abs;
    for (uint32_t i = 0; i < t->n; i++) {
      const anf_value *axes = axes_of(t, v, i);
      if (!axes) return fail_map(b->w, "axes are for other fields").abs;
      if (!find_axes(b, t->items[i], axes)) return false;
    }
    return true;
  }
  int64_t axis;
  if (!one_axis(b, t, v, &axis)) return false;
  anfi_push(b->w->q->arena, b->axes, axis);
  return true;
}

static void no_axes(const walk *w, const anf_type *t, axes_list *axes) {
  if (is_nest(t))
    for (uint32_t i = 0; i < t->n; i++) no_axes(w, t->items[i], axes);
  else anfi_push(w->q->arena, axes, NO_AXIS);
}

/* t with each item's axis taken out, or put in with this size. */
static const anf_type *with_axes(const walk *w, const anf_type *t, const axes_list *axes,
                                 size_t *next, bool in, int64_t size) {
  anf_ctx *cx = w->q->cx;
  if (is_nest(t)) {
    const anf_type **items = ANFI_NEW_N(w->q->arena, const anf_type *, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++) items[i] = with_axes(w, t->items[i], axes, next, in, size);
    return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, items)
                                     : anfi_type_record(cx, t->n, t->names, items);
  }
  int64_t a = axes->at[(*next)++], dims[ANF_MAX_RANK + 1];
  if (a == NO_AXIS) return t;
  size_t n = 0, rank = in ? t->n + 1 : t->n;
  for (size_t i = 0, from = 0; i < rank; i++) {
    if ((int64_t)i != a) dims[n++] = t->dims[from++];
    else if (in) dims[n++] = size;
    else from++;
  }
  if (n > ANF_MAX_RANK) return fail_map(w, "the result would have too many dims"), t;
  return anfi_type_tensor(cx, (anf_dtype)t->dtype, n, dims);
}

static anf_value *axes_value(const walk *w, const axes_list *in, const axes_list *out) {
  anf_value *v = anfi_value_new_tuple(w->q->cx, 2);
  anfi_value_guard(v);
  v->u.item[0] = anfi_value_new_ints(w->q->cx, in->n, in->at);
  v->u.item[1] = anfi_value_new_ints(w->q->cx, out->n, out->at);
  anfi_value_unguard(v);
  return v;
}

/* ---- Vmap ---- */

/* f on one element: its arguments' abs, where axes are taken out; those without keep theirs. */
static const anfi_abs *element(const walk *w, const anfi_abs *a, const axes_list *axes,
                               size_t from) {
  const anf_type *t = anfi_abs_type(&w->q->abs, a);
  const anf_type *e = with_axes(w, t, axes, &from, false, 0);
  return e == t ? a : anfi_abs_of_type(&w->q->abs, e);
}

static part emit_vmap(const walk *w, part f, size_t n, const part *args, const part *elem,
                      const anfi_abs *y, const anfi_abs *r, const axes_list *in,
                      const axes_list *out) {
  part *shown = ANFI_NEW_N(w->q->arena, part, n + 1);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n + 1);
  nodes[0] = f.node;
  for (size_t i = 0; i < n; i++) { // the target's parameters have the elements' types
    shown[i] = (part){elem[i].abs, anfi_emit_const(w->e, anfi_value_new_none(w->q->cx))};
    shown[i].node->type = anfi_abs_type(&w->q->abs, elem[i].abs);
    nodes[i + 1] = args[i].node;
  }
  anf_graph *t = anfi_emit_target(w->e, f, n, shown, y, w->at);
  if (!t) return failed();
  axes_list all = {0};
  no_axes(w, f.node->type, &all);
  for (size_t i = 0; i < in->n; i++) anfi_push(w->q->arena, &all, in->at[i]);
  anfi_derived d = {"vmap", 0, NULL, -1, axes_value(w, &all, out)};
  return (part){r, anfi_emit_derive(w->e, &d, t, n + 1, nodes, anfi_abs_type(&w->q->abs, r))};
}

part anfi_part_vmap(const walk *w, const anfi_attrs *attrs, part f, size_t n, const part *args) {
  const anf_value *vin = anfi_attr_value(w->q->cx, ANF_OP_Vmap, attrs, 0),
                  *vout = anfi_attr_value(w->q->cx, ANF_OP_Vmap, attrs, 1);
  axes_list in = {0}, out = {0};
  batching b = {w, false, ANF_DIM_UNKNOWN, false, &in};
  part *elem = ANFI_NEW_N(w->q->arena, part, n + 1);
  const anfi_abs **eabs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  if (vin->kind == ANF_VALUE_TUPLE && vin->n != n)
    return fail_map(w, "not as many in_axes as arguments");
  for (size_t i = 0; i < n; i++) {
    size_t from = in.n;
    if (!find_axes(&b, anfi_abs_type(&w->q->abs, args[i].abs),
                   vin->kind == ANF_VALUE_TUPLE ? vin->u.item[i] : vin))
      return failed();
    elem[i] = (part){eabs[i] = element(w, args[i].abs, &in, from), NULL};
    if (!eabs[i]) return fail_map(w, "a function cannot be batched");
  }
  if (!b.any) return fail_map(w, "no argument has a batched axis");
  const anfi_abs *y = anfi_whole_abs(w, anfi_infer_call(w->q, f.abs, n, eabs, w->at));
  if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, f.node};
  if (anfi_abs_has_fn(y)) return fail_map(w, "the result must not be a function");
  const anf_type *t = anfi_abs_type(&w->q->abs, y);
  batching o = {w, true, b.size, false, &out};
  if (!find_axes(&o, t, vout)) return failed();
  size_t next = 0;
  const anf_type *rt = with_axes(w, t, &out, &next, true, b.size);
  if (anfi_failed(w->q->cx)) return failed();
  const anfi_abs *r = anfi_abs_of_type(&w->q->abs, rt);
  return w->e ? emit_vmap(w, f, n, args, elem, y, r, &in, &out) : (part){r, NULL};
}

/* ---- Jacobians ---- */

static bool is_known_tensor(const anfi_abs *a, size_t *n) {
  return a->kind == ANFI_ABS_DATA && a->type->kind == ANF_TYPE_TENSOR &&
         anfi_type_elements(a->type, n);
}

static anf_node *op1(const walk *w, anfi_opcode op, anf_value *attr, const anf_type *t,
                     anf_node *x) {
  return anfi_emit_apply(w->e, op, anfi_attrs_one(w->q->m, op, attr), t, 1, &x);
}

static anf_node *reshaped(const walk *w, anf_node *x, const anf_type *t) {
  return x->type == t ? x
                      : op1(w, ANF_OP_Reshape, anfi_value_new_ints(w->q->cx, t->n, t->dims), t, x);
}

/* The unit vectors of t's shape: [n, dims of t]. */
static anf_node *unit_vectors(const walk *w, const anf_type *t, size_t n, const anf_type *batch) {
  anf_ctx *cx = w->q->cx;
  const anf_type *square =
      anfi_type_tensor(cx, (anf_dtype)t->dtype, 2, (const int64_t[]){(int64_t)n, (int64_t)n});
  anf_value *v[4] = {anfi_value_new_i64(cx, ANF_INT, (int64_t)n), NULL, NULL, NULL};
  const anfi_attrs *at = NULL;
  anfi_value_guard(v[0]);
  v[3] = anfi_value_new_type(cx, anfi_type_scalar(cx, (anf_dtype)t->dtype));
  anfi_value_guard(v[3]);
  anfi_attrs_new(w->q->m, ANF_OP_Eye, v, anfi_nowhere(), &at);
  anfi_value_unguard(v[3]);
  anfi_value_unguard(v[0]);
  anf_value_release(v[0]);
  anf_value_release(v[3]);
  return reshaped(w, anfi_emit_apply(w->e, ANF_OP_Eye, at, square, 0, NULL), batch);
}

static const anf_type *joined(const walk *w, const anf_type *a, const anf_type *b, anf_dtype d) {
  int64_t dims[2 * ANF_MAX_RANK];
  size_t n = 0;
  for (uint32_t i = 0; i < a->n; i++) dims[n++] = a->dims[i];
  for (uint32_t i = 0; i < b->n; i++) dims[n++] = b->dims[i];
  return n <= ANF_MAX_RANK ? anfi_type_tensor(w->q->cx, d, n, dims) : NULL;
}

typedef struct {
  const walk *w;
  part f;
  size_t n;
  const part *args;
  const anfi_abs *y;      // what f gives
  const anf_type *number; // of the part of it that is differentiated
  int64_t item;
} jacobian;

/* Derive(vmap) over a graph P(data, args, v) that holds the derivative in direction v: [n, ..] with
 * the new axis at `axis`. */
static anf_node *batch_of(const jacobian *j, size_t pos, bool forward, const anf_type *vt,
                          const anf_type *rt, size_t n, size_t axis) {
  const walk *w = j->w;
  anfi_emit *e = w->e;
  anf_graph *outer = e->g, *p = anfi_graph_new(w->q->m, outer->name);
  p->flags = ANFI_GRAPH_PRIVATE;
  part *args = ANFI_NEW_N(w->q->arena, part, j->n + 1);
  part f = {j->f.abs, anfi_param(p, NULL, j->f.node->type)};
  for (size_t i = 0; i < j->n; i++)
    args[i] = (part){j->args[i].abs, anfi_param(p, NULL, j->args[i].node->type)};
  part v = {anfi_abs_data(&w->q->abs, vt), anfi_param(p, NULL, vt)};
  e->g = p;
  part r = forward ? anfi_part_jvp(w, f, j->n, args, 1, &pos, &v)
                   : anfi_part_vjp(w, f, j->n, args, 1, &pos, j->item, v);
  if (r.abs) {
    anf_node *out = anfi_emit_get(e, r.node, 1);
    if (!forward || j->item >= 0) out = anfi_emit_get(e, out, 0);
    anfi_set_result(p, out);
  }
  e->g = outer;
  if (!r.abs) return NULL;
  const anf_type *batch =
      joined(w, anfi_type_tensor(w->q->cx, ANF_F32, 1, (const int64_t[]){(int64_t)n}), vt,
             (anf_dtype)vt->dtype);
  anf_node **in = ANFI_NEW_N(w->q->arena, anf_node *, j->n + 2);
  axes_list ain = {0}, aout = {0};
  in[0] = j->f.node;
  no_axes(w, j->f.node->type, &ain);
  for (size_t i = 0; i < j->n; i++) {
    in[i + 1] = j->args[i].node;
    no_axes(w, j->args[i].node->type, &ain);
  }
  in[j->n + 1] = unit_vectors(w, vt, n, batch);
  anfi_push(w->q->arena, &ain, 0);
  anfi_push(w->q->arena, &aout, (int64_t)axis);
  anfi_derived d = {"vmap", 0, NULL, -1, axes_value(w, &ain, &aout)};
  return anfi_emit_derive(e, &d, p, j->n + 2, in, rt);
}

/* dims of the value, then those of the argument */
static part one_jacobian(const jacobian *j, size_t pos, bool forward) {
  const walk *w = j->w;
  size_t nx = 0, ny = 0;
  const anfi_abs *x = j->args[pos].abs;
  if (!is_known_tensor(x, &nx) || !anfi_type_elements(j->number, &ny))
    return anfi_transform_fail(w, ANF_E0535, forward ? "JacFwd" : "JacRev", anfi_show_abs(w, x));
  const anf_type *t = joined(w, j->number, x->type, (anf_dtype)x->type->dtype);
  if (!t) return anfi_transform_fail(w, ANF_E0535, "a Jacobian", "too many dims");
  part r = {anfi_abs_data(&w->q->abs, t), NULL};
  if (!w->e) return r;
  const anf_type *count = anfi_type_tensor(w->q->cx, ANF_F32, 1,
                                           (const int64_t[]){(int64_t)(forward ? nx : ny)}),
                 *flat = forward ? joined(w, j->number, count, (anf_dtype)j->number->dtype)
                                 : joined(w, count, x->type, (anf_dtype)x->type->dtype);
  anf_node *b = forward ? batch_of(j, pos, true, x->type, flat, nx, j->number->n)
                        : batch_of(j, pos, false, j->number, flat, ny, 0);
  if (!b) return failed();
  r.node = reshaped(w, b, anfi_type_with_dtype(w->q->cx, t, (anf_dtype)flat->dtype));
  r.abs = anfi_abs_data(&w->q->abs, r.node->type);
  return r;
}

part anfi_part_jacobian(const walk *w, bool forward, anfi_opcode op, part f, size_t n,
                        const part *args, size_t npos, const size_t *pos, bool single, bool aux) {
  part y = anfi_part_call(&(walk){w->q, NULL, w->at}, f, n, args);
  y.abs = anfi_whole_abs(w, y.abs);
  if (!y.abs || anfi_is_bottom(y)) return (part){y.abs, f.node};
  if (aux && (y.abs->kind != ANFI_ABS_TUPLE || y.abs->n != 2))
    return anfi_transform_fail(w, ANF_E0534, anfi_op[op].name, anfi_show_abs(w, y.abs));
  const anfi_abs *number = aux ? y.abs->item[0] : y.abs;
  size_t ny;
  if (!is_known_tensor(number, &ny))
    return anfi_transform_fail(w, ANF_E0535, anfi_op[op].name, anfi_show_abs(w, number));
  jacobian j = {w, f, n, args, y.abs, number->type, aux ? 0 : -1};
  part *r = ANFI_NEW_N(w->q->arena, part, npos + 1);
  for (size_t i = 0; i < npos; i++)
    if (!(r[i] = one_jacobian(&j, pos[i], forward)).abs) return failed();
  part all = single ? r[0] : anfi_part_tuple(w, npos, r);
  if (!aux) return all;
  part value = anfi_part_call(w, f, n, args);
  return value.abs ? anfi_part_tuple(w, 2, (const part[]){all, anfi_part_item(w, value, 1)})
                   : value;
}
