// SPDX-License-Identifier: Apache-2.0
/* Ops on tuples, records, functions and choices, whose results are parts of abstract values.
 *   TupleGet((f, 3), 0)                  f
 *   Partial(f, 3)                        the function f that has bound 3
 *   Switch(c, f, g)                      one of {f, g}, or the one that a known c takes
 * Hard case: functions that wrap functions in each round of a recursion; its rounds are distinguished then, or it is an
 * error. */
#include "optimizer/infer/ops/ops.h"
#include "ir/ops/op.h"

/* ---- tuples ---- */

static const anfi_abs *tuple_item(const anfi_applied *p, const anfi_abs *t, int64_t i) {
  if (t->kind == ANFI_ABS_BOTTOM) return t;
  if (t->kind != ANFI_ABS_TUPLE) return anfi_refuse_op(p, ANF_E0504, anfi_show_abs(p->q, t), "");
  int64_t at = i < 0 ? i + t->n : i;
  if (at < 0 || at >= (int64_t)t->n) {
    anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0505, (long long)i, anfi_show_abs(p->q, t));
    return anfi_infer_trace(p->q), NULL;
  }
  return t->item[at];
}

static const anfi_abs *tuple_get(const anfi_applied *p) {
  int64_t i = 0;
  anfi_value_is_int(p->attr[0], &i);
  return tuple_item(p, p->in[0], i);
}

static const anfi_abs *make_tuple(const anfi_applied *p) {
  return anfi_abs_items(&p->q->abs, ANFI_ABS_TUPLE, NULL, p->n, p->in);
}

static const anfi_abs *length(const anfi_applied *p) {
  const anfi_abs *x = p->in[0];
  bool items = x->kind == ANFI_ABS_TUPLE || x->kind == ANFI_ABS_RECORD;
  if (items) return anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, x->n));
  const anf_type *t = x->kind == ANFI_ABS_DATA && x->type->kind == ANF_TYPE_TENSOR ? x->type : NULL;
  bool known = t && t->n && t->dims[0] >= 0 && p->op == ANF_OP_Len;
  return known ? anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, t->dims[0]))
               : anfi_infer_data(p);
}

static const anfi_abs *rearranged(const anfi_applied *p) {
  anfi_items items = {0};
  for (size_t i = 0; i < p->n; i++)
    if (p->in[i]->kind == ANFI_ABS_BOTTOM) return p->in[i];
  if (!anfi_find_items(p->q, p->op, p->attr, p->n, p->in, &items)) return anfi_infer_data(p);
  const anfi_abs **of = ANFI_NEW_N(p->q->arena, const anfi_abs *, items.n + 1);
  for (size_t i = 0; i < items.n; i++) {
    const anfi_abs *from = p->in[items.at[i].input];
    of[i] = items.at[i].item == ANFI_WHOLE ? from : from->item[items.at[i].item];
  }
  bool record = p->op == ANF_OP_RecordSet;
  return anfi_abs_items(&p->q->abs, record ? ANFI_ABS_RECORD : ANFI_ABS_TUPLE,
                        record ? p->in[0]->type : NULL, items.n, of);
}

/* ---- choices ---- */

/* Halves are joined: each of n functions that are joined one by one would copy the set of those before. NULL: join_all
 * tells which do not fit. */
static const anfi_abs *join_halves(const anfi_applied *p, size_t n, const anfi_abs *const *in) {
  if (n == 1) return in[0];
  const anfi_abs *a = join_halves(p, n / 2, in);
  const anfi_abs *b = a ? join_halves(p, n - n / 2, in + n / 2) : NULL;
  return b ? anfi_abs_join_branches(&p->q->abs, a, b) : NULL;
}

static const anfi_abs *join_all(const anfi_applied *p, size_t n, const anfi_abs *const *in) {
  const anfi_abs *r = n > 2 ? join_halves(p, n, in) : NULL;
  if (r) return r;
  r = p->q->abs.bottom;
  for (size_t i = 0; i < n; i++) {
    const anfi_abs *both = anfi_abs_join_branches(&p->q->abs, r, in[i]);
    if (!both && anfi_demand_by_round(p->q, p->at, r, in[i])) return NULL;
    if (!both) {
      anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0515, anfi_show_abs(p->q, r),
                anfi_show_abs(p->q, in[i]));
      anfi_hint_type(p->q->cx, r, in[i]);
      return anfi_infer_trace(p->q), NULL;
    }
    r = both;
  }
  return r;
}

static const anfi_abs *switch_of(const anfi_applied *p) {
  const anfi_abs *c = p->in[0];
  if (c->kind == ANFI_ABS_BOTTOM) return c;
  if (c->kind != ANFI_ABS_DATA || !anfi_is_scalar(c->type) ||
      anfi_dtype_class((anf_dtype)c->type->dtype) > ANFI_CLASS_FLOAT)
    return anfi_refuse_op(p, ANF_E0521, anfi_show_abs(p->q, c), "");
  if (c->value) return anfi_get_f64(c->value, 0) != 0 ? p->in[1] : p->in[2];
  return join_all(p, 2, p->in + 1);
}

/* SwitchLayer(i, f, g, ...) or SwitchLayer(i, (f, g, ...)). */
static const anfi_abs *switch_layer(const anfi_applied *p) {
  const anfi_abs *c = p->in[0], *t = p->in[p->n - 1];
  if (c->kind == ANFI_ABS_BOTTOM) return c;
  if (c->kind != ANFI_ABS_DATA || !anfi_is_scalar(c->type) ||
      !anfi_dtype_is_int((anf_dtype)c->type->dtype))
    return anfi_refuse_op(p, ANF_E0501, "SwitchLayer", "it needs an integer as its index");
  bool packed = p->n == 2 && t->kind == ANFI_ABS_TUPLE;
  size_t n = packed ? t->n : p->n - 1;
  if (!n) {
    int64_t i = 0;
    anfi_abs_int(c, &i);
    anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0441, (long long)i, n);
    return anfi_infer_trace(p->q), NULL;
  }
  const anfi_abs *r = join_all(p, n, packed ? t->item : p->in + 1);
  return r && n == 1 ? anfi_abs_broaden(&p->q->abs, r) : r; // the index is checked when it runs
}

/* ---- functions ---- */

/* Codes in codes in codes, as a recursion makes that wraps a function each time: then its rounds are
 * distinguished, which bounds them if they are known. */
static bool nests_too_deep(const anfi_applied *p, const anfi_abs *c) {
  enum { LOOSE = 8, DEEPEST = 200, LARGEST = 100000 };
  anfi_inference *q = p->q;
  anfi_demanded d = {p->at, NULL, c->graph ? c->graph->name->s : anfi_op[c->op].name, c};
  if (c->depth > DEEPEST || c->size > LARGEST) return !anfi_endless_closures(q, d);
  for (const anfi_spec *s = q->now; s && c->depth > LOOSE; s = s->caller) {
    if (!q->an->graphs[s->graph->id].recursive) continue;
    if (!q->exact_graph[s->graph->id])
      return anfi_demand_rounds(q, s->graph, d) || !anfi_endless_closures(q, d);
    if (!anfi_is_counted(q, s->graph)) return !anfi_endless_closures(q, d);
  }
  return false;
}

static const anfi_abs *partial(const anfi_applied *p) {
  anfi_inference *q = p->q;
  const anfi_abs *f = p->in[0];
  if (f->kind == ANFI_ABS_BOTTOM) return f;
  if (f->kind != ANFI_ABS_FN) return anfi_refuse_op(p, ANF_E0501, "Partial", "it needs a function");
  const anfi_abs *r = q->abs.bottom;
  for (uint32_t i = 0; i < f->n; i++) {
    const anfi_abs *c = f->item[i],
                   **bound = ANFI_NEW_N(q->arena, const anfi_abs *, c->n + p->n - 1);
    if (c->n) memcpy(bound, c->item, c->n * sizeof *bound);
    memcpy(bound + c->n, p->in + 1, (p->n - 1) * sizeof *bound);
    const anf_node *bad = anfi_box_bound(&q->abs, c->graph, c->n + p->n - 1, bound);
    if (bad)
      return anfi_refuse_op(p, ANF_E0515, anfi_show_abs(p->q, q->abs.boxed[bad->id]),
                            anfi_show_abs(p->q, bound[bad->u.index]));
    const anfi_abs *code =
        anfi_abs_code(&q->abs, c->graph, c->op, c->attrs, c->n + p->n - 1, bound);
    if (nests_too_deep(p, code)) return NULL;
    r = anfi_abs_join(&q->abs, r, anfi_abs_fn1(&q->abs, code), true);
  }
  return r;
}

/* ---- records ---- */

static const anfi_abs *make_record(const anfi_applied *p) {
  anfi_inference *q = p->q;
  const anfi_str **s = ANFI_NEW_N(q->arena, const anfi_str *, p->n);
  const anf_type **t = ANFI_NEW_N(q->arena, const anf_type *, p->n),
                 *any = anfi_type_simple(q->cx, ANF_TYPE_ANY);
  if (!anfi_record_names(q->cx, anfi_node_loc(p->at), p->attr[0], p->n, s))
    return anfi_infer_trace(q), NULL;
  for (size_t i = 0; i < p->n; i++) t[i] = any;
  return anfi_abs_items(&q->abs, ANFI_ABS_RECORD, anfi_type_record(q->cx, p->n, s, t), p->n, p->in);
}

static const anfi_abs *record_get(const anfi_applied *p) {
  const anfi_abs *r = p->in[0];
  if (r->kind == ANFI_ABS_BOTTOM) return r;
  for (uint32_t i = 0; r->kind == ANFI_ABS_RECORD && i < r->n; i++)
    if (strcmp(r->type->names[i]->s, p->attr[0]->u.text) == 0) return r->item[i];
  const anfi_abs *none = anfi_refuse_op(p, ANF_E0523, p->attr[0]->u.text, anfi_show_abs(p->q, r));
  anfi_hint_method(p->q->cx, p->attr[0]->u.text);
  return none;
}

/* ---- x[...] and x.f of tuples and records: as the ops on those ---- */

/* A constant part of a subscript, or one given by an input whose abs is constant. */
static bool known_part(const anfi_abs *const *in, const anfi_part *part, int k, int64_t *v) {
  *v = part->v[k];
  if (part->given[k] != ANFI_INPUT) return true;
  return anfi_abs_int(in[part->v[k]], v);
}

bool anfi_tuple_parts(anfi_inference *q, const anf_value *spec, size_t n, const anfi_abs *const *in,
                      anf_node *at, anfi_chosen *out) {
  anfi_subscript s;
  int64_t v[3], first, count = in[0]->n;
  if (!anfi_subscript_read(q->cx, anfi_node_loc(at), spec, n, &s)) return false;
  const anfi_part *part = &s.part[0];
  bool known = true;
  for (int k = 0; k < 3; k++) known &= known_part(in, part, k, &v[k]);
  if (s.n != 1 || part->kind > ANFI_PART_SLICE ||
      (part->kind == ANFI_PART_SLICE && part->given[2] && !v[2]))
    return anfi_fail(q->cx, anfi_node_loc(at), ANF_E0501, "GetItem",
                     "a tuple has one index or slice");
  if (!known) return anfi_demand(q, (anfi_demanded){at, "index", "GetItem of a tuple", NULL}, 1);
  out->slice = part->kind == ANFI_PART_SLICE;
  if (!out->slice) {
    bool from_end = v[0] < 0 && v[0] >= -count; // out of range: unchanged
    *out = (anfi_chosen){false, 1, from_end ? v[0] + count : v[0], 1};
    return true;
  }
  int64_t step = part->given[2] ? v[2] : 1;
  out->n = anfi_slice_ints((size_t)count, part->given[0] ? &v[0] : NULL,
                           part->given[1] ? &v[1] : NULL, step, &first);
  out->first = first;
  out->step = step;
  return true;
}

static const anfi_abs *tuple_part(const anfi_applied *p) {
  const anfi_abs *t = p->in[0];
  anfi_chosen c;
  if (!anfi_tuple_parts(p->q, p->attr[0], p->n, p->in, p->at, &c)) {
    anfi_infer_trace(p->q);
    return NULL;
  }
  if (!c.slice) return tuple_item(p, t, c.first);
  const anfi_abs **items = ANFI_NEW_N(p->q->arena, const anfi_abs *, c.n);
  for (size_t i = 0; i < c.n; i++) items[i] = t->item[c.first + (int64_t)i * c.step];
  return anfi_abs_items(&p->q->abs, ANFI_ABS_TUPLE, NULL, c.n, items);
}

anfi_op_rule *anfi_nest_rule(const anfi_applied *p) {
  switch (p->op) {
  case ANF_OP_MakeTuple: return make_tuple;
  case ANF_OP_TupleGet: return tuple_get;
  case ANF_OP_Len:
  case ANF_OP_TupleLen: return length;
  case ANF_OP_TupleConcat:
  case ANF_OP_TupleSet:
  case ANF_OP_TupleSlice:
  case ANF_OP_RecordSet: return rearranged;
  case ANF_OP_MakeRecord: return make_record;
  case ANF_OP_RecordGet: return record_get;
  case ANF_OP_Switch: return switch_of;
  case ANF_OP_SwitchLayer: return switch_layer;
  case ANF_OP_Partial: return partial;
  case ANF_OP_GetItem: return p->in[0]->kind == ANFI_ABS_TUPLE ? tuple_part : NULL;
  case ANF_OP_GetField: return p->in[0]->kind == ANFI_ABS_RECORD ? record_get : NULL;
  default: return NULL;
  }
}
