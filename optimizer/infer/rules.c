// SPDX-License-Identifier: Apache-2.0
/* Inference of single ops.
 *   Add(f32[2,3], f32[3])                f32[2,3], by the row's infer hook
 *   TupleGet((f, 3), 0)                  f: tuples and functions are handled on abstract values
 *   Add(2, 3), needed (need.c)           5, by the reference kernel */
#include "optimizer/infer/rules.h"
#include "ir/ops/op.h"

enum { FEW = 8, FOLD_BYTES = 4096 };

typedef struct {
  anfi_inference *q;
  anfi_opcode op;
  const anfi_attrs *attrs;
  size_t n; // arguments, without attribute nodes
  const anfi_abs *const *in;
  anf_node *at;
  anf_value **attr; // by schema index
} applied;

static const anfi_abs *fail(const applied *p, anfi_code code, const char *a, const char *b) {
  anfi_fail(p->q->cx, anfi_node_loc(p->at), code, a, b);
  anfi_infer_trace(p->q);
  return NULL;
}

static const char *show(const applied *p, const anfi_abs *a) {
  anf_text *o = anfi_text_begin(p->q->cx);
  anfi_put_abs(o, p->q->cx, a);
  char *s = anfi_strndup(p->q->arena, o->text, o->len);
  anfi_text_done(o);
  return s;
}

/* ---- constants ---- */

/* Is an input that gives an attribute or an index not known yet, as of a call that was not visited? */
static bool attributes_wait(const applied *p) {
  size_t nodes = 0;
  for (uint32_t k = 0; p->attrs && k < p->attrs->n; k++)
    nodes += p->attrs->at[k] == &anfi_from_node;
  for (size_t i = p->op == ANF_OP_GetItem ? 1 : p->n - nodes; i < p->n; i++)
    if (p->in[i]->partial) return true;
  return false;
}

/* Attribute values: constants of the node, or inputs whose abs must be constant. */
static bool find_attrs(applied *p, size_t n) {
  anfi_inference *q = p->q;
  const anfi_schema *s = anfi_op_schema(q->cx, p->op);
  uint32_t nodes = 0;
  for (uint32_t k = 0; p->attrs && k < p->attrs->n; k++)
    nodes += p->attrs->at[k] == &anfi_from_node;
  p->n = n - nodes;
  p->attr = s->nattr ? ANFI_NEW_N(q->arena, anf_value *, s->nattr) : NULL;
  size_t next = p->n;
  for (uint32_t k = 0; k < s->nattr; k++) {
    p->attr[k] = anfi_attr_value(q->cx, p->op, p->attrs, k);
    if (p->attr[k]) continue;
    const anfi_abs *a = p->in[next++];
    p->attr[k] = anfi_abs_value(q->cx, a);
    if (!p->attr[k])
      return anfi_demand(q, (anfi_demanded){p->at, s->attr[k].name->s, s->name->s, NULL}, p->n);
    anfi_defer(q->cx, ANFI_ALWAYS, anfi_release, p->attr[k]);
    if (!anfi_attr_check(q->cx, p->op, k, p->attr[k], anfi_node_loc(p->at))) return false;
  }
  return true;
}

/* ---- ops on tuples, records and functions ---- */

static const anfi_abs *tuple_item(const applied *p, const anfi_abs *t, int64_t i) {
  if (t->kind == ANFI_ABS_BOTTOM) return t;
  if (t->kind != ANFI_ABS_TUPLE) return fail(p, ANF_E0504, show(p, t), "");
  int64_t at = i < 0 ? i + t->n : i;
  if (at < 0 || at >= (int64_t)t->n) {
    anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0505, (long long)i, show(p, t));
    return anfi_infer_trace(p->q), NULL;
  }
  return t->item[at];
}

static const anfi_abs *tuple_get(const applied *p) {
  int64_t i = 0;
  anfi_value_is_int(p->attr[0], &i);
  return tuple_item(p, p->in[0], i);
}

/* Halves are joined: each of n functions that are joined one by one would copy the set of those before. NULL: join_all
 * tells which do not fit. */
static const anfi_abs *join_halves(const applied *p, size_t n, const anfi_abs *const *in) {
  if (n == 1) return in[0];
  const anfi_abs *a = join_halves(p, n / 2, in);
  const anfi_abs *b = a ? join_halves(p, n - n / 2, in + n / 2) : NULL;
  return b ? anfi_abs_join_branches(&p->q->abs, a, b) : NULL;
}

static const anfi_abs *join_all(const applied *p, size_t n, const anfi_abs *const *in) {
  const anfi_abs *r = n > 2 ? join_halves(p, n, in) : NULL;
  if (r) return r;
  r = p->q->abs.bottom;
  for (size_t i = 0; i < n; i++) {
    const anfi_abs *both = anfi_abs_join_branches(&p->q->abs, r, in[i]);
    if (!both && anfi_demand_by_round(p->q, p->at, r, in[i])) return NULL;
    if (!both) {
      anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0515, show(p, r), show(p, in[i]));
      anfi_hint_type(p->q->cx, r, in[i]);
      return anfi_infer_trace(p->q), NULL;
    }
    r = both;
  }
  return r;
}

static const anfi_abs *switch_of(const applied *p) {
  const anfi_abs *c = p->in[0];
  if (c->kind == ANFI_ABS_BOTTOM) return c;
  if (c->kind != ANFI_ABS_DATA || !anfi_is_scalar(c->type) ||
      anfi_dtype_class((anf_dtype)c->type->dtype) > ANFI_CLASS_FLOAT)
    return fail(p, ANF_E0521, show(p, c), "");
  if (c->value) return anfi_get_f64(c->value, 0) != 0 ? p->in[1] : p->in[2];
  return join_all(p, 2, p->in + 1);
}

/* SwitchLayer(i, f, g, ...) or SwitchLayer(i, (f, g, ...)). */
static const anfi_abs *switch_layer(const applied *p) {
  const anfi_abs *c = p->in[0], *t = p->in[p->n - 1];
  if (c->kind == ANFI_ABS_BOTTOM) return c;
  if (c->kind != ANFI_ABS_DATA || !anfi_is_scalar(c->type) ||
      !anfi_dtype_is_int((anf_dtype)c->type->dtype))
    return fail(p, ANF_E0501, "SwitchLayer", "it needs an integer as its index");
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

/* Codes in codes in codes, as a recursion makes that wraps a function each time: then its rounds are
 * distinguished, which bounds them if they are known. */
static bool nests_too_deep(const applied *p, const anfi_abs *c) {
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

static const anfi_abs *partial(const applied *p) {
  anfi_inference *q = p->q;
  const anfi_abs *f = p->in[0];
  if (f->kind == ANFI_ABS_BOTTOM) return f;
  if (f->kind != ANFI_ABS_FN) return fail(p, ANF_E0501, "Partial", "it needs a function");
  const anfi_abs *r = q->abs.bottom;
  for (uint32_t i = 0; i < f->n; i++) {
    const anfi_abs *c = f->item[i],
                   **bound = ANFI_NEW_N(q->arena, const anfi_abs *, c->n + p->n - 1);
    if (c->n) memcpy(bound, c->item, c->n * sizeof *bound);
    memcpy(bound + c->n, p->in + 1, (p->n - 1) * sizeof *bound);
    const anf_node *bad = anfi_box_bound(&q->abs, c->graph, c->n + p->n - 1, bound);
    if (bad)
      return fail(p, ANF_E0515, show(p, q->abs.boxed[bad->id]), show(p, bound[bad->u.index]));
    const anfi_abs *code =
        anfi_abs_code(&q->abs, c->graph, c->op, c->attrs, c->n + p->n - 1, bound);
    if (nests_too_deep(p, code)) return NULL;
    r = anfi_abs_join(&q->abs, r, anfi_abs_fn1(&q->abs, code), true);
  }
  return r;
}

static const anfi_abs *make_record(const applied *p) {
  anfi_inference *q = p->q;
  const anfi_str **s = ANFI_NEW_N(q->arena, const anfi_str *, p->n);
  const anf_type **t = ANFI_NEW_N(q->arena, const anf_type *, p->n),
                 *any = anfi_type_simple(q->cx, ANF_TYPE_ANY);
  if (!anfi_record_names(q->cx, anfi_node_loc(p->at), p->attr[0], p->n, s))
    return anfi_infer_trace(q), NULL;
  for (size_t i = 0; i < p->n; i++) t[i] = any;
  return anfi_abs_items(&q->abs, ANFI_ABS_RECORD, anfi_type_record(q->cx, p->n, s, t), p->n, p->in);
}

static const anfi_abs *record_get(const applied *p) {
  const anfi_abs *r = p->in[0];
  if (r->kind == ANFI_ABS_BOTTOM) return r;
  for (uint32_t i = 0; r->kind == ANFI_ABS_RECORD && i < r->n; i++)
    if (strcmp(r->type->names[i]->s, p->attr[0]->u.text) == 0) return r->item[i];
  const anfi_abs *none = fail(p, ANF_E0523, p->attr[0]->u.text, show(p, r));
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

static const anfi_abs *tuple_part(const applied *p, const anfi_abs *t) {
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

/* ---- everything else: the row's hook ---- */

/* A nested tuple's abs from its type. */
static const anfi_abs *of_type(const applied *p, const anf_type *t) {
  const anfi_abs *a = anfi_abs_of_type(&p->q->abs, t);
  return a ? a : fail(p, ANF_E0524, anfi_op[p->op].name, "");
}

static anfi_infer hook_of(const applied *p, const anf_type *const *in) {
  return (anfi_infer){.cx = p->q->cx,
                      .op = p->op,
                      .loc = anfi_node_loc(p->at),
                      .n = p->n,
                      .in = in,
                      .attr = p->attr};
}

static anf_status infer_in(const applied *p, const anf_type *const *t, anf_diag *d,
                           const anf_type **out) {
  ANFI_ENTRY(p->q->cx, d);
  anfi_infer hook = hook_of(p, t);
  if (anfi_infer_op(&hook)) *out = hook.out;
  return anfi_leave(p->q->cx);
}

/* The result's type with other types of arguments; NULL: refused, for other reasons than functions if `other`. */
static const anf_type *type_with(const applied *p, const anf_type *const *t, bool *other) {
  anf_diag *d = anf_diag_new(p->q->cx);
  if (!d) anfi_throw_nomem(p->q->cx);
  const anf_type *out = NULL;
  anf_status st = infer_in(p, t, d, &out);
  if (other) *other = !out && anf_diag_count(d) && !anfi_diag_has(d, 0, ANF_E0525);
  anf_diag_free(d);
  if (st == ANF_NOMEM) anfi_throw_nomem(p->q->cx);
  return out;
}

/* ---- functions among the arguments ---- */

/* One of several functions, here or in what these bind. */
static bool has_choice(const anfi_abs *a) {
  if (a->kind == ANFI_ABS_FN && a->n > 1) return true;
  for (uint32_t i = 0; i < a->n; i++)
    if (has_choice(a->item[i])) return true;
  return false;
}

/* One of several functions may be there by inference alone, which tells calls of one function apart by their
 * arguments up to a limit: two(two)(two)(f) gives f where it seems to give two as well. So may a call be that a caller
 * with such an argument makes. */
static bool by_inference_alone(const anfi_inference *q, const anfi_abs *a) {
  bool found = has_choice(a);
  for (const anfi_spec *s = q->now; s && !found; s = s->caller)
    for (size_t i = 0; i < s->graph->params.n; i++) found |= has_choice(s->arg[i]);
  return found;
}

static anfi_code function_given(const applied *p, const anfi_abs *a) {
  if (p->op == ANF_OP_Print) return ANF_E0565;
  return by_inference_alone(p->q, a) ? ANF_E1562 : ANF_E0525;
}

/* Does the op refuse these types for another reason than their functions? Sub({a = 1}, f) is refused for the record. */
static bool refused_otherwise(const applied *p, const anf_type *const *t) {
  bool other;
  (void)type_with(p, t, &other);
  return other;
}

/* Argument i is or holds a function: always false. The op's own error comes first, as where it is interpreted. */
static bool fail_function(const applied *p, size_t i) {
  anfi_code code = function_given(p, p->in[i]);
  const anf_type **t = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (size_t k = 0; k < p->n; k++) t[k] = anfi_abs_shown_type(&p->q->abs, p->in[k]);
  if (code == ANF_E0565 || !refused_otherwise(p, t))
    return (void)fail(p, code, anfi_op[p->op].name, show(p, p->in[i])), false;
  anfi_infer hook = hook_of(p, t);
  (void)anfi_infer_op(&hook);
  return anfi_infer_trace(p->q), false;
}

static const anf_type **types_of(const applied *p) {
  const anf_type **t = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (size_t i = 0; i < p->n; i++) {
    if (anfi_abs_has_fn(p->in[i])) return (void)fail_function(p, i), NULL;
    t[i] = anfi_abs_type(&p->q->abs, p->in[i]);
  }
  return t;
}

/* Takes the reference. (A guard would not do: the abstract value is released at the end of the frame, too.) */
static const anfi_abs *constant(const applied *p, anf_value *v) {
  anfi_defer(p->q->cx, ANFI_ALWAYS, anfi_release, v);
  return anfi_abs_const(&p->q->abs, v);
}

static const anfi_abs *fold(const applied *p, const anf_type *t) {
  anfi_inference *q = p->q;
  anf_value **in = ANFI_NEW_N(q->arena, anf_value *, p->n + 1);
  for (size_t i = 0; i < p->n; i++) {
    if (!(in[i] = anfi_abs_value(q->cx, p->in[i]))) return NULL;
    anfi_defer(q->cx, ANFI_ALWAYS, anfi_release, in[i]);
  }
  anfi_eval e = {.cx = q->cx,
                 .scratch = q->arena,
                 .op = p->op,
                 .loc = anfi_node_loc(p->at),
                 .n = p->n,
                 .in = in,
                 .attr = p->attr,
                 .type = t};
  return anfi_eval_op(&e) ? constant(p, e.out) : NULL;
}

static bool worth_folding(const applied *p, const anf_type *t) {
  size_t n;
  if (!p->q->need[p->at->id] || (anfi_op[p->op].flags & (ANFI_EFFECT | ANFI_COLLECTIVE)))
    return false;
  return t->kind != ANF_TYPE_TENSOR ||
         (anfi_type_elements(t, &n) && n * anf_dtype_bytes((anf_dtype)t->dtype) <= FOLD_BYTES);
}

/* The shape of a tensor with known dims is known though the tensor is not; so are rank, size and
 * dtype. */
static const anfi_abs *by_type(const applied *p) {
  const char *field = p->op == ANF_OP_GetField ? p->attr[0]->u.text : "";
  bool shape = p->op == ANF_OP_Shape || strcmp(field, "shape") == 0;
  bool rank = p->op == ANF_OP_Rank || strcmp(field, "ndim") == 0;
  bool dtype = strcmp(field, "dtype") == 0,
       size = p->op == ANF_OP_Size || strcmp(field, "size") == 0;
  if (!shape && !rank && !size && !dtype) return NULL;
  const anf_type *t = p->in[0]->kind == ANFI_ABS_DATA ? p->in[0]->type : NULL;
  if (!t || t->kind != ANF_TYPE_TENSOR) return NULL;
  if (dtype)
    return constant(p,
                    anfi_value_new_type(p->q->cx, anfi_type_scalar(p->q->cx, (anf_dtype)t->dtype)));
  if (rank) return constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, t->n));
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] < 0) return NULL;
  size_t n;
  if (shape) return constant(p, anfi_value_new_ints(p->q->cx, t->n, t->dims));
  return anfi_type_elements(t, &n) ? constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, (int64_t)n))
                                   : NULL;
}

/* A comparison with None is answered by the kinds, one of texts and types by their values. */
static const anfi_abs *by_kind(const applied *p, const anf_type *const *t, const anf_type *out) {
  bool equal = p->op == ANF_OP_Equal;
  if ((!equal && p->op != ANF_OP_NotEqual) || p->n != 2) return NULL;
  bool a = t[0]->kind == ANF_TYPE_NONE, b = t[1]->kind == ANF_TYPE_NONE;
  if (a || b) return constant(p, anfi_value_new_i64(p->q->cx, ANF_BOOL, (a && b) == equal));
  return t[0]->kind == ANF_TYPE_TENSOR ? NULL : fold(p, out);
}

/* ---- numbers that have a type or none, depending on the branch that ran ---- */

static uint8_t weak_bits(const applied *p) {
  uint8_t any = 0;
  for (size_t i = 0; i < p->n; i++) any |= p->in[i]->kind == ANFI_ABS_DATA ? p->in[i]->weak : 0;
  return any;
}

/* Type i if its number is one of `weak` instead. */
static const anf_type *weak_type(const applied *p, size_t i, const anf_type *t, uint8_t weak) {
  const anfi_abs *a = p->in[i];
  if (a->kind != ANFI_ABS_DATA || !(a->weak & weak)) return t;
  return anfi_type_with_dtype(p->q->cx, t, weak == ANFI_WEAK_INT ? ANF_INT : ANF_FLOAT);
}

/* Of a comparison: are the arguments compared in one type? Integers are compared exactly in any; two numbers without a type
 * as they are, which rounding to the type of the other branch could only make equal. */
static bool compares_alike(const applied *p, const anf_type *const *t, const anf_type *const *u) {
  anf_dtype a, b;
  if (!anfi_op_is_comparison(p->op) || p->n != 2) return true;
  if (!anfi_dtype_promote((anf_dtype)t[0]->dtype, (anf_dtype)t[1]->dtype, &a)) return true;
  if (!anfi_dtype_promote((anf_dtype)u[0]->dtype, (anf_dtype)u[1]->dtype, &b)) return false;
  if (anfi_dtype_is_weak(b)) return true;
  a = anfi_dtype_settle(a), b = anfi_dtype_settle(b);
  return a == b || (anfi_dtype_is_int(a) && anfi_dtype_is_int(b));
}

static bool fail_branches(const applied *p, const anf_type *t) {
  anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0562, anfi_op[p->op].name);
  anfi_hint(p->q->cx, "write %s(...) for the number in the other branch",
            anf_dtype_name((anf_dtype)t->dtype));
  return anfi_infer_trace(p->q), false;
}

/* 7 // 0 is an error and 7.0 // 0 is not, nor is 7 ** -1: what a constant of the text is not. */
static bool fails_of_integers(const applied *p, const anf_type *out) {
  bool floats = anfi_is_tensor(out) && !anfi_dtype_is_int((anf_dtype)out->dtype);
  if (!(anfi_op[p->op].flags & ANFI_FAILS) || !floats) return false;
  const anf_value *v = p->n == 2 && p->in[1]->kind == ANFI_ABS_DATA ? p->in[1]->value : NULL;
  double x = v && v->n == 1 ? anfi_get_f64(v, 0) : 0;
  return !(x > 0 || (x < 0 && p->op != ANF_OP_Power));
}

/* What the result is instead of `out`, for arguments of type `t` some of which are `weak` instead. */
static bool add_weak(const applied *p, const anf_type *const *t, const anf_type *const *u,
                     const anf_type *out, uint8_t *weak) {
  const anf_type *other = type_with(p, u, NULL);
  if (other == out && compares_alike(p, t, u)) return true;
  bool number = !fails_of_integers(p, out) && other && compares_alike(p, t, u) &&
                other->kind == ANF_TYPE_TENSOR && out->kind == ANF_TYPE_TENSOR &&
                anfi_dtype_is_weak((anf_dtype)other->dtype);
  if (number) {
    *weak |= other->dtype == ANF_INT ? ANFI_WEAK_INT : ANFI_WEAK_FLOAT;
    if (anfi_dtype_weak_becomes((anf_dtype)other->dtype, (anf_dtype)out->dtype)) return true;
    if (other->dtype == ANF_INT && out->dtype == ANF_FLOAT) return true;
  }
  size_t i = 0;
  while (i + 1 < p->n && u[i] == t[i]) i++;
  return fail_branches(p, t[i]);
}

/* 3 and 3.0 are one number, and not one text. */
static bool prints_alike(const anfi_abs *a) {
  if (a->kind != ANFI_ABS_DATA) return true;
  bool other = (a->weak & ANFI_WEAK_INT && a->type->dtype != ANF_I64) ||
               (a->weak & ANFI_WEAK_FLOAT && a->type->dtype != ANF_F64);
  return !other;
}

/* Arguments one by one, and all at once: they may come from different branches. */
static bool meets_branches(const applied *p, const anf_type *const *t, const anf_type *out,
                           uint8_t *weak) {
  uint8_t any = weak_bits(p);
  for (size_t i = 0; any && p->op == ANF_OP_Print && i < p->n; i++)
    if (!prints_alike(p->in[i])) return fail_branches(p, p->in[i]->type);
  for (uint8_t bit = 1; bit <= any; bit = (uint8_t)(bit * 2)) {
    const anf_type **u = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
    if (!(any & bit)) continue;
    for (size_t one = 0; one <= p->n; one++) { // the last: all
      bool changed = one == p->n;
      for (size_t i = 0; i < p->n; i++) {
        u[i] = one == p->n || one == i ? weak_type(p, i, t[i], bit) : t[i];
        changed |= u[i] != t[i];
      }
      if (changed && !add_weak(p, t, u, out, weak)) return false;
    }
  }
  return true;
}

/* Does the op take the number that one branch gives, and not the type that both have, as Mod of 2.5 and c64? */
static bool takes_one_branch(const applied *p, const anf_type *const *t) {
  if (!weak_bits(p)) return false;
  const anf_type **u = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (uint8_t bit = ANFI_WEAK_INT; bit <= ANFI_WEAK_FLOAT; bit = (uint8_t)(bit * 2)) {
    size_t changed = p->n;
    for (size_t i = 0; i < p->n; i++)
      if ((u[i] = weak_type(p, i, t[i], bit)) != t[i]) changed = i;
    if (changed < p->n && !type_with(p, t, NULL) && type_with(p, u, NULL))
      return fail_branches(p, t[changed]), true;
  }
  return false;
}

/* A function, or what holds one, is not None. */
static const anfi_abs *function_and_none(const applied *p) {
  bool equal = p->op == ANF_OP_Equal;
  if ((!equal && p->op != ANF_OP_NotEqual) || p->n != 2) return NULL;
  for (size_t i = 0; i < 2; i++) {
    const anfi_abs *x = p->in[i];
    bool none = x->kind == ANFI_ABS_DATA && x->type->kind == ANF_TYPE_NONE;
    if (none && anfi_abs_has_fn(p->in[1 - i]))
      return constant(p, anfi_value_new_i64(p->q->cx, ANF_BOOL, !equal));
  }
  return NULL;
}

/* Known numbers that the type which they meet does not hold. Others are checked when the program runs (emit_op.c). */
static bool numbers_fit(const applied *p, const anfi_infer *hook) {
  for (size_t i = hook->meet[0]; i < hook->meet[1]; i++) {
    const anf_value *v = p->in[i]->kind == ANFI_ABS_DATA ? p->in[i]->value : NULL;
    if (v && !anfi_infer_holds(hook, i, v)) return anfi_infer_outside(hook);
  }
  return true;
}

static const anfi_abs *by_hook(const applied *p) {
  anfi_inference *q = p->q;
  for (size_t i = 0; i < p->n; i++)
    if (p->in[i]->kind == ANFI_ABS_BOTTOM) return p->in[i];
  const anfi_abs *answer = function_and_none(p);
  if (answer) return answer;
  const anf_type **t = types_of(p);
  if (!t) return NULL;
  if (takes_one_branch(p, t)) return NULL;
  anfi_infer hook = hook_of(p, t);
  if (!anfi_infer_op(&hook) || !numbers_fit(p, &hook)) return anfi_infer_trace(q), NULL;
  const anfi_abs *known = by_type(p);
  if (known || (known = by_kind(p, t, hook.out))) return known;
  if (anfi_failed(q->cx)) return anfi_infer_trace(q), NULL;
  const anfi_abs *folded = worth_folding(p, hook.out) ? fold(p, hook.out) : NULL;
  if (folded) return folded;
  if (anfi_failed(q->cx)) return anfi_infer_trace(q), NULL;
  uint8_t weak = 0;
  if (!meets_branches(p, t, hook.out, &weak)) return NULL;
  return weak ? anfi_abs_mixed(&q->abs, hook.out, weak) : of_type(p, hook.out);
}

static const anfi_abs *length(const applied *p) {
  const anfi_abs *x = p->in[0];
  bool items = x->kind == ANFI_ABS_TUPLE || x->kind == ANFI_ABS_RECORD;
  if (items) return constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, x->n));
  const anf_type *t = x->kind == ANFI_ABS_DATA && x->type->kind == ANF_TYPE_TENSOR ? x->type : NULL;
  bool known = t && t->n && t->dims[0] >= 0 && p->op == ANF_OP_Len;
  return known ? constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, t->dims[0])) : by_hook(p);
}

static const anfi_abs *rearranged(const applied *p) {
  anfi_items items = {0};
  for (size_t i = 0; i < p->n; i++)
    if (p->in[i]->kind == ANFI_ABS_BOTTOM) return p->in[i];
  if (!anfi_find_items(p->q, p->op, p->attr, p->n, p->in, &items)) return by_hook(p);
  const anfi_abs **of = ANFI_NEW_N(p->q->arena, const anfi_abs *, items.n + 1);
  for (size_t i = 0; i < items.n; i++) {
    const anfi_abs *from = p->in[items.at[i].input];
    of[i] = items.at[i].item == ANFI_WHOLE ? from : from->item[items.at[i].item];
  }
  bool record = p->op == ANF_OP_RecordSet;
  return anfi_abs_items(&p->q->abs, record ? ANFI_ABS_RECORD : ANFI_ABS_TUPLE,
                        record ? p->in[0]->type : NULL, items.n, of);
}

/* ---- any op ---- */

/* The type of x once windows are taken of it. */
static const anfi_abs *windows_of(const applied *p, const anfi_bounds *b) {
  const anf_type *x = p->in[0]->type;
  int64_t dims[ANF_MAX_RANK];
  memcpy(dims, x->dims, x->n * sizeof *dims);
  for (size_t i = 0; i < b->nwindow; i++) dims[b->window[i].axis] = b->window[i].size;
  return anfi_abs_data(&p->q->abs, anfi_type_tensor(p->q->cx, (anf_dtype)x->dtype, x->n, dims));
}

static const anfi_abs *tensor_item(applied *p) {
  anfi_arena *a = p->q->arena;
  anfi_bounds b;
  bool known = anfi_find_bounds(p->q, p->q->now, p->attr[0], p->n, p->in, p->at, &b);
  if (!known && anfi_failed(p->q->cx)) return anfi_infer_trace(p->q), NULL;
  if (b.open && anfi_wish(p->q, p->at)) return NULL;
  if (!known) return by_hook(p);
  const anfi_abs **in = ANFI_NEW_N(a, const anfi_abs *, p->n);
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++)
    if (!b.gone[i]) in[n++] = p->in[i];
  if (b.nwindow) in[0] = windows_of(p, &b);
  p->attr[0] = b.subscript;
  p->in = in;
  p->n = n;
  return by_hook(p);
}

static const anfi_abs *apply(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                             const anfi_abs *const *in, anf_node *at) {
  applied p = {.q = q, .op = op, .attrs = attrs, .n = n, .in = in, .at = at};
  if (anfi_op_makes_function(op)) {
    if (!anfi_is_of_function(q, op, n, in, at)) return NULL;
    const anfi_abs *code = anfi_abs_code(&q->abs, NULL, (uint16_t)op, attrs, n, in);
    return anfi_abs_fn1(&q->abs, code);
  }
  if (attributes_wait(&p)) return q->abs.bottom;
  if (!find_attrs(&p, n)) return anfi_infer_trace(q), NULL;
  switch (op) {
  case ANF_OP_MakeTuple: return anfi_abs_items(&q->abs, ANFI_ABS_TUPLE, NULL, p.n, in);
  case ANF_OP_TupleGet: return tuple_get(&p);
  case ANF_OP_Len:
  case ANF_OP_TupleLen: return length(&p);
  case ANF_OP_TupleConcat:
  case ANF_OP_TupleSet:
  case ANF_OP_TupleSlice:
  case ANF_OP_RecordSet: return rearranged(&p);
  case ANF_OP_MakeRecord: return make_record(&p);
  case ANF_OP_RecordGet: return record_get(&p);
  case ANF_OP_Switch: return switch_of(&p);
  case ANF_OP_SwitchLayer: return switch_layer(&p);
  case ANF_OP_Partial: return partial(&p);
  case ANF_OP_GetItem:
    return in[0]->kind == ANFI_ABS_TUPLE ? tuple_part(&p, in[0]) : tensor_item(&p);
  case ANF_OP_GetField: return in[0]->kind == ANFI_ABS_RECORD ? record_get(&p) : by_hook(&p);
  default: return by_hook(&p);
  }
}

/* Where the result for these arguments is remembered. It depends on nothing else, unless the node's
 * value is needed, which is then computed, or bounds may be nodes that differ by a number. */
static anfi_known *known_place(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                               const anfi_abs *const *in, const anf_node *at) {
  if (n > ANFI_KNOWN_ARGS || q->need[at->id] || op == ANF_OP_GetItem) return NULL;
  uint64_t h = anfi_hash_mix(op, anfi_key(attrs));
  for (size_t i = 0; i < n; i++) h = anfi_hash_mix(h, in[i]->id);
  return &q->known[h % ANFI_KNOWN];
}

const anfi_abs *anfi_infer_apply(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs,
                                 size_t n, const anfi_abs *const *in, anf_node *at) {
  if (anfi_op_is_meta(op))
    return anfi_infer_meta(q, op, attrs, n, in, at); // its calls have effects here
  anfi_known *k = known_place(q, op, attrs, n, in, at);
  size_t bytes = n * sizeof *in;
  if (k && k->result && k->op == op && k->attrs == attrs && k->n == n &&
      memcmp(k->in, in, bytes) == 0)
    return k->result;
  const anfi_abs *r = apply(q, op, attrs, n, in, at);
  if (!k || !r) return r;
  *k = (anfi_known){.op = op, .n = (uint32_t)n, .attrs = attrs, .result = r};
  memcpy(k->in, in, bytes);
  return r;
}
