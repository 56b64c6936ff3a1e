// SPDX-License-Identifier: Apache-2.0
/* Vmap: a batch of calls as one.
 *   vmap(f, in_axes=(0, None))(xs, w)    ->  Derive(g, xs, w :axes ((0, -1), (0,)))
 * The Derive node has one axis for each leaf that is no tuple and no record, counted from the front; -1
 * is not batched. */
#include "optimizer/infer/transform.h"

enum { NO_AXIS = -1 };

static part fail_map(const walk *w, const char *why) {
  return anfi_transform_fail(w, ANF_E0536, why, "");
}

/* ---- axes ---- */

typedef struct {
  const walk *w;
  bool out;        // of results: the axis comes on top of the rank
  int64_t size;    // of the batch; ANF_DIM_UNKNOWN: not known yet
  bool any;        // is anything batched?
  anfi_axes *axes; // by item
} batching;

static bool one_axis(batching *b, const anf_type *t, const anf_value *v, int64_t *axis) {
  *axis = NO_AXIS;
  if (v->kind == ANF_VALUE_NONE || t->kind == ANF_TYPE_NONE) return true;
  int64_t a, rank = t->kind == ANF_TYPE_TENSOR ? (int64_t)t->n + b->out : 0;
  if (!anfi_value_is_int(v, &a)) return fail_map(b->w, "an axis is an integer or None").abs;
  if (!rank && b->out) return fail_map(b->w, "what is no tensor has no batch").abs;
  if (a < -rank || a >= rank)
    return fail_map(b->w, anfi_sprintf(b->w->q->arena, "axis %lld is outside %s of type %s",
                                       (long long)a, b->out ? "a result" : "an argument",
                                       anfi_type_text(b->w->q->cx, t)))
        .abs;
  *axis = a < 0 ? a + rank : a;
  b->any = true;
  if (b->out) return true;
  int64_t size = t->dims[*axis];
  if (size >= 0 && b->size >= 0 && size != b->size)
    return fail_map(b->w, anfi_sprintf(b->w->q->arena, "batched axes differ in size: %lld and %lld",
                                       (long long)b->size, (long long)size))
        .abs;
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
  if (anfi_is_nest(t)) {
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

void anfi_no_axes(const walk *w, const anf_type *t, anfi_axes *axes) {
  if (anfi_is_nest(t))
    for (uint32_t i = 0; i < t->n; i++) anfi_no_axes(w, t->items[i], axes);
  else anfi_push(w->q->arena, axes, NO_AXIS);
}

/* t with each item's axis taken out, or put in with this size. */
static const anf_type *with_axes(const walk *w, const anf_type *t, const anfi_axes *axes,
                                 size_t *next, bool in, int64_t size) {
  anf_ctx *cx = w->q->cx;
  if (anfi_is_nest(t)) {
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

anf_value *anfi_axes_value(const walk *w, const anfi_axes *in, const anfi_axes *out) {
  anf_value *v = anfi_value_new_tuple(w->q->cx, 2);
  anfi_value_guard(v);
  v->u.item[0] = anfi_value_new_ints(w->q->cx, in->n, in->at);
  v->u.item[1] = anfi_value_new_ints(w->q->cx, out->n, out->at);
  anfi_value_unguard(v);
  return v;
}

/* ---- Vmap ---- */

/* f on one element: its arguments' abs, where axes are taken out; those without keep theirs. */
static const anfi_abs *element(const walk *w, const anfi_abs *a, const anfi_axes *axes,
                               size_t from) {
  const anf_type *t = anfi_abs_type(&w->q->abs, a);
  const anf_type *e = with_axes(w, t, axes, &from, false, 0);
  return e == t ? a : anfi_abs_of_type(&w->q->abs, e);
}

static part emit_vmap(const walk *w, part f, size_t n, const part *args, const part *elem,
                      const anfi_abs *y, const anfi_abs *r, const anfi_axes *in,
                      const anfi_axes *out, anf_value *name) {
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
  anfi_axes all = {0};
  anfi_no_axes(w, f.node->type, &all);
  for (size_t i = 0; i < in->n; i++) anfi_push(w->q->arena, &all, in->at[i]);
  anfi_derived d = {"vmap", 0, NULL, -1, anfi_axes_value(w, &all, out), name};
  return (part){r, anfi_emit_derive(w->e, &d, t, n + 1, nodes, anfi_abs_type(&w->q->abs, r))};
}

part anfi_part_vmap(const walk *w, const anfi_attrs *attrs, part f, size_t n, const part *args) {
  const anf_value *vin = anfi_attr_value(w->q->cx, ANF_OP_Vmap, attrs, 0),
                  *vout = anfi_attr_value(w->q->cx, ANF_OP_Vmap, attrs, 1);
  anf_value *name = anfi_attr_value(w->q->cx, ANF_OP_Vmap, attrs, 2);
  anfi_axes in = {0}, out = {0};
  batching b = {w, false, ANF_DIM_UNKNOWN, false, &in};
  part *elem = ANFI_NEW_N(w->q->arena, part, n + 1);
  const anfi_abs **eabs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  if (vin->kind == ANF_VALUE_TUPLE && vin->n != n)
    return fail_map(w, "not as many in_axes as arguments");
  if (name->kind != ANF_VALUE_NONE && name->kind != ANF_VALUE_STRING)
    return fail_map(w, "axis_name is a text or None");
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
  return w->e ? emit_vmap(w, f, n, args, elem, y, r, &in, &out, name) : (part){r, NULL};
}
