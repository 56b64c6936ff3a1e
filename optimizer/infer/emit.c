// SPDX-License-Identifier: Apache-2.0
/* Typed nodes of a specialisation, and widening one representation to another (emit.h):
 *   a value of type {f} passed where {f, g} is expected     ->  (tag 0, environment of f, undefined) */
#include "optimizer/infer/emit.h"

anf_node *anfi_emit_apply(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs,
                          const anf_type *type, size_t n, anf_node *const *in) {
  anf_node *p = anfi_apply(e->g, op, attrs, n, in);
  p->type = type;
  p->debug = e->debug;
  return p;
}

anf_node *anfi_emit_effect(anfi_emit *e, anf_node *n) {
  if (e->effect) anfi_add_effect(e->g, n);
  return n;
}

anf_node *anfi_emit_const(anfi_emit *e, anf_value *v) {
  anf_node *n = anfi_value(e->q->m, v);
  n->type = anfi_value_type(e->q->cx, v);
  return n;
}

anf_node *anfi_emit_i32(anfi_emit *e, int64_t v) {
  return anfi_emit_const(e, anfi_value_new_i64(e->q->cx, ANF_I32, v));
}

anf_node *anfi_emit_tuple(anfi_emit *e, size_t n, anf_node *const *items) {
  const anf_type **t = ANFI_NEW_N(e->arena, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) t[i] = items[i]->type;
  const anf_type *type = anfi_type_tuple(e->q->cx, n, t);
  if (n) return anfi_emit_apply(e, ANF_OP_MakeTuple, NULL, type, n, items);
  return anfi_emit_const(e, anfi_value_new_tuple(e->q->cx, 0));
}

anf_node *anfi_emit_get(anfi_emit *e, anf_node *t, size_t i) {
  if (anfi_is_op(t, ANF_OP_MakeTuple)) return t->in[i].def;
  const anfi_attrs *at =
      anfi_attrs_one(e->q->m, ANF_OP_TupleGet, anfi_value_new_i64(e->q->cx, ANF_INT, (int64_t)i));
  return anfi_emit_apply(e, ANF_OP_TupleGet, at, t->type->items[i], 1, &t);
}

anf_node *anfi_emit_field(anfi_emit *e, anf_node *record, size_t i) {
  const anfi_str *name = record->type->names[i];
  const anfi_attrs *at = anfi_attrs_one(e->q->m, ANF_OP_RecordGet,
                                        anfi_value_new_string(e->q->cx, name->s, name->len));
  return anfi_emit_apply(e, ANF_OP_RecordGet, at, record->type->items[i], 1, &record);
}

anf_node *anfi_emit_record(anfi_emit *e, const anfi_abs *abs, anf_node *const *items) {
  const anf_type *t = abs->type;
  anf_value *names = anfi_value_new_tuple(e->q->cx, abs->n);
  anfi_value_guard(names);
  for (uint32_t i = 0; i < abs->n; i++)
    names->u.item[i] = anfi_value_new_string(e->q->cx, t->names[i]->s, t->names[i]->len);
  anfi_value_unguard(names);
  const anfi_attrs *at = anfi_attrs_one(e->q->m, ANF_OP_MakeRecord, names);
  return anfi_emit_apply(e, ANF_OP_MakeRecord, at, anfi_abs_type(e->abs, abs), abs->n, items);
}

/* Data that is never read. */
static anf_node *undefined(anfi_emit *e, const anf_type *type) {
  const anfi_attrs *at = anfi_attrs_one(e->q->m, ANF_OP_Undef, anfi_value_new_type(e->q->cx, type));
  return anfi_emit_apply(e, ANF_OP_Undef, at, type, 0, NULL);
}

static bool in_range(const anf_value *v, anf_dtype to) {
  for (size_t i = 0; i < v->n; i++)
    if (!anfi_dtype_holds(to, anfi_get_i64(v, i), anfi_get_i64(v, i))) return false;
  return true;
}

anf_node *anfi_emit_compared(anfi_emit *e, anf_node *n, anf_dtype with) {
  bool constant = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  if (n->type->dtype != ANF_INT || !anfi_dtype_is_int(with) || with == ANF_I64 || with == ANF_INT)
    return n;
  bool fits = constant && in_range(n->u.value, with);
  return with != ANF_U64 && fits ? anfi_emit_const(e, anfi_value_cast(n->u.value, with)) : n;
}

static anf_node *cast(anfi_emit *e, anf_node *n, const anf_type *to) {
  bool constant = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  if (n->type->dtype == ANF_INT && anfi_dtype_is_int((anf_dtype)to->dtype) &&
      !(constant && in_range(n->u.value, (anf_dtype)to->dtype)))
    anfi_emit_check_range(e, n, (anf_dtype)to->dtype);
  if (constant) return anfi_emit_const(e, anfi_value_cast(n->u.value, (anf_dtype)to->dtype));
  anf_value *d = anfi_value_new_type(e->q->cx, anfi_type_scalar(e->q->cx, (anf_dtype)to->dtype));
  return anfi_emit_apply(e, ANF_OP_Cast, anfi_attrs_one(e->q->m, ANF_OP_Cast, d), to, 1, &n);
}

anf_node *anfi_emit_taken(anfi_emit *e, anf_node *n, anf_dtype to) {
  bool constant = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  if (constant && in_range(n->u.value, to)) return n;
  return cast(e, n, anfi_type_with_dtype(e->q->cx, n->type, to));
}

static anf_node *coerce_items(anfi_emit *e, anf_node *n, const anfi_abs *from, const anfi_abs *to) {
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, to->n + 1);
  bool record = from->kind == ANFI_ABS_RECORD;
  for (uint32_t i = 0; i < to->n; i++) {
    anf_node *it = record ? anfi_emit_field(e, n, i) : anfi_emit_get(e, n, i);
    items[i] = anfi_emit_coerce(e, it, from->item[i], to->item[i]);
  }
  return record ? anfi_emit_record(e, to, items) : anfi_emit_tuple(e, to->n, items);
}

/* Is it the same, or a tuple of the same? */
static bool is_same(const anf_node *a, const anf_node *b) {
  if (a == b) return true;
  if (!anfi_is_op(a, ANF_OP_MakeTuple) || !anfi_is_op(b, ANF_OP_MakeTuple) || a->nin != b->nin)
    return false;
  for (uint32_t i = 0; i < a->nin; i++)
    if (a->in[i].def != b->in[i].def) return false;
  return true;
}

anf_node *anfi_emit_choose(anfi_emit *e, anfi_opcode op, anf_node *tag, int64_t with, anf_node *yes,
                           anf_node *no) {
  if (is_same(yes, no)) return no;
  anf_node *k[2] = {tag, anfi_emit_i32(e, with)};
  anf_node *is = anfi_emit_apply(e, op, NULL, anfi_type_scalar(e->q->cx, ANF_BOOL), 2, k);
  anf_node *in[3] = {is, yes, no};
  return anfi_emit_apply(e, ANF_OP_Switch, NULL, yes->type, 3, in);
}

/* Translates the tag of a set to that of a larger one. A run of members that is a run there, too, is shifted by one Add. */
static anf_node *retag(anfi_emit *e, anf_node *tag, const anfi_abs *from, const anfi_abs *to) {
  anf_node *r = NULL;
  int64_t next = 0;
  for (uint32_t i = from->n; i-- > 0;) {
    int64_t by = (int64_t)anfi_abs_member(to, from->item[i]) - i;
    if (r && by == next) continue;
    anf_node *sum[2] = {tag, anfi_emit_i32(e, by)},
             *moved = by ? anfi_emit_apply(e, ANF_OP_Add, NULL, tag->type, 2, sum) : tag;
    r = r ? anfi_emit_choose(e, ANF_OP_LessEqual, tag, i, moved, r) : moved;
    next = by;
  }
  return r;
}

/* Members that share an environment in both sets are widened together; where several of `from` come to share one, the
 * tag chooses. */
static anf_node *coerce_fn(anfi_emit *e, anf_node *n, const anfi_abs *from, const anfi_abs *to) {
  if (to->n == 1) return coerce_items(e, n, from->item[0], to->item[0]);
  const anf_type *type = anfi_abs_type(e->abs, to);
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, type->n), *tag = NULL;
  uint32_t *first = ANFI_NEW_N(e->arena, uint32_t, type->n);
  bool one = from->n == 1;
  if (!one) tag = anfi_emit_get(e, n, 0);
  items[0] = one ? anfi_emit_i32(e, anfi_abs_member(to, from->item[0])) : retag(e, tag, from, to);
  for (uint32_t i = 0; i < from->n; i++) {
    const anfi_abs *code = from->item[i];
    if (!code->n) continue;
    uint32_t k = anfi_abs_member(to, code), slot = anfi_abs_slot(e->abs, to, k),
             old = one ? 0 : anfi_abs_slot(e->abs, from, i);
    if (items[slot] && first[slot] == old) continue;
    anf_node *bound = anfi_emit_coerce(e, one ? n : anfi_emit_get(e, n, old), code, to->item[k]);
    if (!items[slot]) first[slot] = old;
    items[slot] =
        items[slot] ? anfi_emit_choose(e, ANF_OP_Equal, tag, i, bound, items[slot]) : bound;
  }
  for (uint32_t i = 1; i < type->n; i++)
    if (!items[i]) items[i] = undefined(e, type->items[i]);
  return anfi_emit_tuple(e, type->n, items);
}

/* The data of `from` in a box, which holds data of `held`. */
static anf_node *box(anfi_emit *e, anf_node *n, const anfi_abs *from, const anfi_abs *held) {
  n = anfi_emit_coerce(e, n, from, held);
  return anfi_emit_apply(e, ANF_OP_Box, NULL, anfi_type_simple(e->q->cx, ANF_TYPE_BOX), 1, &n);
}

anf_node *anfi_emit_open(anfi_emit *e, anf_node *n, const anfi_abs *a) {
  if (a->kind != ANFI_ABS_BOXED) return n;
  const anf_type *type = anfi_abs_type(e->abs, anfi_abs_open(e->abs, a));
  const anfi_attrs *of = anfi_attrs_one(e->q->m, ANF_OP_Unbox, anfi_value_new_type(e->q->cx, type));
  return anfi_emit_apply(e, ANF_OP_Unbox, of, type, 1, &n);
}

anf_node *anfi_emit_coerce(anfi_emit *e, anf_node *n, const anfi_abs *from, const anfi_abs *to) {
  if (from == to || to->kind == ANFI_ABS_BOTTOM) return n;
  if (from->kind == ANFI_ABS_BOTTOM) return undefined(e, anfi_abs_type(e->abs, to));
  if (to->kind == ANFI_ABS_BOXED) return box(e, n, from, anfi_abs_open(e->abs, to));
  if (to->kind == ANFI_ABS_FN) return coerce_fn(e, n, from, to);
  if (to->kind != ANFI_ABS_DATA) return coerce_items(e, n, from, to);
  bool same = from->type->kind != ANF_TYPE_TENSOR || from->type->dtype == to->type->dtype;
  if (!same && to->weak) anfi_emit_check_finite(e, n, (anf_dtype)to->type->dtype);
  return same ? n : cast(e, n, to->type);
}
