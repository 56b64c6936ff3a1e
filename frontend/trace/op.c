// SPDX-License-Identifier: Apache-2.0
/* One primitive while a template is traced: on tuples and functions by what it does to their items, on values that
 * are known by its reference kernel, else as a node.
 *   Shape(x) of a node of type f32[2, N]  ->  the tuple (2, TupleGet(Shape(x), 1))
 *   Add(2, 3)                             ->  5
 *   Add(x, 3)                             ->  a node */
#include "frontend/trace/trace.h"
#include "ir/ops/op.h"
#include "ir/value/mapped.h"

typedef struct {
  anfi_trace *t;
  anfi_opcode op;
  size_t n;
  const anfi_traced *const *in;
  anf_value *const *attr;
} call;

static const anfi_traced *truth(anfi_trace *t, bool b) {
  return anfi_traced_value(t, anfi_value_new_i64(t->cx, ANF_BOOL, b));
}

/* "with ..": what is not done; else what is wrong. */
static const anfi_traced *wrong(const call *c, const char *why) {
  const char *subject = c->t->subject;
  bool with = strncmp(why, "with ", 5) == 0;
  if (!subject) anfi_fail(c->t->cx, c->t->loc, ANF_E1151, why);
  else if (with) anfi_fail(c->t->cx, c->t->loc, ANF_E1053, subject, why + 5);
  else anfi_fail(c->t->cx, c->t->loc, ANF_E1055, subject, why);
  return NULL;
}

static const anfi_traced *not_known(const call *c, const char *what) {
  c->t->unknown = true;
  return wrong(c, what);
}

/* ---- nodes ---- */

static bool given_attrs(const call *c, const anfi_attrs **out) {
  const anfi_schema *s = anfi_op_schema(c->t->cx, c->op);
  anf_value **v = ANFI_NEW_N(c->t->arena, anf_value *, s->nattr + 1);
  for (uint32_t k = 0; k < s->nattr; k++) {
    anf_value *usual = anfi_attr_value(c->t->cx, c->op, NULL, k);
    bool same = c->attr[k] == usual || (usual && anfi_value_same(c->attr[k], usual));
    v[k] = same ? NULL : c->attr[k];
  }
  return anfi_attrs_new(c->t->to->module, c->op, v, c->t->loc, out);
}

static const anf_type *result_type(const call *c) {
  const anf_type **in = ANFI_NEW_N(c->t->arena, const anf_type *, c->n + 1);
  for (size_t i = 0; i < c->n; i++)
    if ((in[i] = anfi_traced_type(c->t, c->in[i]))->kind == ANF_TYPE_ANY) return in[i];
  anfi_infer q = {
      .cx = c->t->cx, .op = c->op, .loc = c->t->loc, .n = c->n, .in = in, .attr = c->attr};
  return anfi_infer_op(&q) ? q.out : NULL;
}

static const anfi_traced *build(const call *c, const anf_type *type) {
  const anfi_attrs *attrs = NULL;
  anf_node **in = ANFI_NEW_N(c->t->arena, anf_node *, c->n + 1);
  for (size_t i = 0; i < c->n; i++)
    if (!(in[i] = anfi_traced_to_node(c->t, c->in[i]))) return NULL;
  if (!given_attrs(c, &attrs)) return NULL;
  anf_node *n = anfi_apply(c->t->to, c->op, attrs, c->n, in);
  n->debug = c->t->debug;
  if (c->t->typed) n->type = type;
  if (type->kind != ANF_TYPE_TUPLE) return anfi_traced_node(c->t, n, type);
  const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, type->n + 1);
  for (size_t i = 0; i < type->n; i++) {
    anf_value *v[1] = {anfi_traced_int(c->t, (int64_t)i)->value};
    const anfi_traced *whole = anfi_traced_node(c->t, n, NULL);
    const call get = {c->t, ANF_OP_TupleGet, 1, &whole, v};
    if (!(item[i] = build(&get, type->items[i]))) return NULL;
  }
  return anfi_traced_tuple(c->t, type->n, item);
}

/* ---- values ---- */

static bool is_small(const anfi_trace *t, const anf_type *type) {
  size_t n;
  return !anfi_is_tensor(type) || (anfi_type_elements(type, &n) &&
                                   n * anf_dtype_bytes((anf_dtype)type->dtype) <= t->most_folded);
}

/* All operands if they are known and small, else NULL. */
static anf_value **known(const call *c) {
  anf_value **in = ANFI_NEW_N(c->t->arena, anf_value *, c->n + 1);
  for (size_t i = 0; i < c->n; i++)
    if (!(in[i] = anfi_traced_known(c->t, c->in[i])) ||
        anfi_value_size(in[i]) > 2 * c->t->most_folded)
      return NULL;
  return in;
}

static bool can_fold(const call *c) {
  const anfi_op_info *op = &anfi_op[c->op];
  return (op->eval || op->scalar) &&
         !(op->flags & (ANFI_EFFECT | ANFI_RANDOM | ANFI_CALLS | ANFI_TRANSFORM | ANFI_COLLECTIVE));
}

static const anfi_traced *fold(const call *c, anf_value **in) {
  anfi_eval q = {
      .cx = c->t->cx, .op = c->op, .loc = c->t->loc, .n = c->n, .in = in, .attr = c->attr};
  return anfi_eval_op(&q) ? anfi_traced_value(c->t, q.out) : NULL;
}

/* Arity and attributes: files may say any. */
static bool fits_schema(const call *c) {
  const anfi_schema *s = anfi_op_schema(c->t->cx, c->op);
  if (!anfi_op_check_count(c->t->cx, c->op, c->n, c->t->loc)) return false;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!c->attr[k])
      return anfi_fail(c->t->cx, c->t->loc, ANF_E0206, s->name->s, s->attr[k].name->s);
    else if (!anfi_attr_check(c->t->cx, c->op, k, c->attr[k], c->t->loc)) return false;
  return true;
}

static const anfi_traced *ordinary(const call *c) {
  anf_value **in = can_fold(c) ? known(c) : NULL;
  const anf_type *type = result_type(c);
  if (!type) return NULL;
  bool fits = is_small(c->t, type) && !(c->n && anfi_widens_codes(c->op, c->in[0]->type, type));
  return in && fits ? fold(c, in) : build(c, type);
}

/* ---- shapes ---- */

static const anfi_traced *dim(const call *c, size_t i) {
  const anf_type *type = c->in[0]->type;
  if (type->dims[i] >= 0) return anfi_traced_int(c->t, type->dims[i]);
  const anfi_schema *s = anfi_op_schema(c->t->cx, ANF_OP_Shape);
  anf_value **none = ANFI_NEW_N(c->t->arena, anf_value *, s->nattr + 1);
  const call shape = {c->t, ANF_OP_Shape, 1, c->in, none};
  anf_value *v[1] = {anfi_traced_int(c->t, (int64_t)i)->value};
  const anfi_traced *whole =
      build(&shape, c->t->typed ? result_type(&shape) : anfi_type_simple(c->t->cx, ANF_TYPE_ANY));
  if (c->t->typed) return whole ? whole->item[i] : NULL;
  const call get = {c->t, ANF_OP_TupleGet, 1, &whole, v};
  return whole ? build(&get, anfi_type_scalar(c->t->cx, ANF_INT)) : NULL;
}

static const anfi_traced *shape(const call *c) {
  const anf_type *type = c->in[0]->type;
  const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, type->n + 1);
  for (uint32_t i = 0; i < type->n; i++)
    if (!(item[i] = dim(c, i))) return NULL;
  return anfi_traced_tuple(c->t, type->n, item);
}

/* The sizes as they are known: -1 where they are not. */
static const anfi_traced *dims(const call *c) {
  const anf_type *type = c->in[0]->type;
  return anfi_traced_value(c->t, anfi_value_new_ints(c->t->cx, type->n, type->dims));
}

static const anfi_traced *length(const call *c) {
  const anfi_traced *x = c->in[0];
  if (x->kind == ANFI_TRACED_TUPLE) return anfi_traced_int(c->t, (int64_t)x->n);
  return x->type && anfi_is_tensor(x->type) && x->type->n ? dim(c, 0) : ordinary(c);
}

static const anfi_traced *field(const call *c) {
  const anfi_traced *x = c->in[0];
  const char *name = c->attr[0]->u.text;
  size_t n;
  if (strcmp(name, "is_tuple") == 0) return truth(c->t, x->kind == ANFI_TRACED_TUPLE);
  if (!x->type || !anfi_is_tensor(x->type)) return ordinary(c);
  if (strcmp(name, "known") == 0) return truth(c->t, anfi_traced_known(c->t, x) != NULL);
  if (strcmp(name, "shape") == 0) return shape(c);
  if (strcmp(name, "dims") == 0) return dims(c);
  if (strcmp(name, "ndim") == 0) return anfi_traced_int(c->t, x->type->n);
  if (strcmp(name, "dtype") == 0)
    return anfi_traced_value(
        c->t, anfi_value_new_type(c->t->cx, anfi_type_scalar(c->t->cx, (anf_dtype)x->type->dtype)));
  if (strcmp(name, "size") == 0 && anfi_type_elements(x->type, &n))
    return anfi_traced_int(c->t, (int64_t)n);
  return ordinary(c);
}

/* ---- tuples and choices ---- */

static const anfi_traced *picked(const call *c, const anfi_traced *x, const anf_value *at) {
  int64_t i;
  if (at->kind == ANF_VALUE_TUPLE) {
    const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, at->n + 1);
    for (size_t k = 0; k < at->n; k++)
      if (!(item[k] = picked(c, x, at->u.item[k]))) return NULL;
    return anfi_traced_tuple(c->t, at->n, item);
  }
  return anfi_value_is_int(at, &i) ? x->item[i] : wrong(c, "an index that is no integer");
}

/* An op that moves the items of a tuple does the same to their positions. */
static const anfi_traced *of_tuple(const call *c) {
  anf_value **in = ANFI_NEW_N(c->t->arena, anf_value *, c->n + 1);
  const anfi_traced **all = NULL;
  size_t total = 0, at = 0;
  for (size_t i = 0; i < c->n; i++) total += c->in[i]->kind == ANFI_TRACED_TUPLE ? c->in[i]->n : 0;
  all = ANFI_NEW_N(c->t->arena, const anfi_traced *, total + 1);
  for (size_t i = 0; i < c->n; i++) {
    const anfi_traced *x = c->in[i];
    if (x->kind != ANFI_TRACED_TUPLE) {
      if (!(in[i] = anfi_traced_known(c->t, x)))
        return not_known(c, "an index that is not known when the model is read");
      continue;
    }
    int64_t *position = ANFI_NEW_N(c->t->arena, int64_t, x->n + 1);
    for (size_t k = 0; k < x->n; k++) position[k] = (int64_t)at, all[at++] = x->item[k];
    in[i] = anfi_trace_hold(c->t, anfi_value_new_ints(c->t->cx, x->n, position));
  }
  anfi_eval q = {
      .cx = c->t->cx, .op = c->op, .loc = c->t->loc, .n = c->n, .in = in, .attr = c->attr};
  if (!anfi_eval_op(&q)) return NULL;
  const anfi_traced whole = {.kind = ANFI_TRACED_TUPLE, .n = total, .item = all};
  return picked(c, &whole, anfi_trace_hold(c->t, q.out));
}

static const anfi_traced *set_item(const call *c) {
  const anfi_traced *x = c->in[0];
  int64_t i = 0;
  anfi_value_is_int(c->attr[0], &i);
  if (i < 0) i += (int64_t)x->n;
  if (i < 0 || i >= (int64_t)x->n) return wrong(c, "an index outside of a tuple");
  const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, x->n + 1);
  for (size_t k = 0; k < x->n; k++) item[k] = x->item[k];
  item[i] = c->in[1];
  return anfi_traced_tuple(c->t, x->n, item);
}

static const anfi_traced *chosen(const call *c) {
  anf_value *cond = anfi_traced_known(c->t, c->in[0]);
  int64_t i = 0;
  if (cond && anfi_value_is_int(cond, &i)) return c->in[i ? 1 : 2];
  if (cond && cond->kind == ANF_VALUE_TENSOR && cond->n == 1)
    return c->in[anfi_get_i64(cond, 0) ? 1 : 2];
  if (c->in[1]->kind == ANFI_TRACED_FN)
    return not_known(c, "a condition that is not known when the model is read");
  return ordinary(c);
}

static const anfi_traced *bound(const call *c) {
  const anfi_traced *f = c->in[0];
  if (f->kind != ANFI_TRACED_FN) return ordinary(c); // a function of the model
  anfi_traced *x = ANFI_NEW(c->t->arena, anfi_traced);
  const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, f->n + c->n);
  *x = *f;
  for (size_t i = 0; i < f->n; i++) item[i] = f->item[i];
  for (size_t i = 1; i < c->n; i++) item[x->n++] = c->in[i];
  x->item = item;
  return x;
}

static const anfi_traced *mapped(const call *c) {
  const anfi_traced *xs = c->in[1];
  const anfi_traced **item = ANFI_NEW_N(c->t->arena, const anfi_traced *, xs->n + 1),
                    **args = ANFI_NEW_N(c->t->arena, const anfi_traced *, c->n);
  for (size_t i = 0; i < xs->n; i++) {
    for (size_t k = 1; k < c->n; k++) {
      if (c->in[k]->kind != ANFI_TRACED_TUPLE || c->in[k]->n != xs->n)
        return wrong(c, "map over tuples of different lengths");
      args[k - 1] = c->in[k]->item[i];
    }
    if (!(item[i] = anfi_trace_apply(c->t, c->in[0], c->n - 1, args))) return NULL;
  }
  return anfi_traced_tuple(c->t, xs->n, item);
}

/* == and != of texts, None, types and tuples are answered at once. */
static const anfi_traced *compared(const call *c) {
  anf_value *a = anfi_traced_known(c->t, c->in[0]), *b = anfi_traced_known(c->t, c->in[1]);
  bool none = (a && a->kind == ANF_VALUE_NONE) || (b && b->kind == ANF_VALUE_NONE);
  bool other = (a && a->kind != ANF_VALUE_TENSOR) || (b && b->kind != ANF_VALUE_TENSOR);
  for (size_t i = 0; i < 2; i++) // a node of no known type may be None when the program runs
    if (c->in[i]->kind == ANFI_TRACED_DATA && c->in[i]->node && !c->in[i]->type) return ordinary(c);
  if (!none && !(other && a && b)) return ordinary(c);
  bool same = a && b && anfi_value_same(a, b);
  return truth(c->t, same == (c->op == ANF_OP_Equal));
}

/* A template's own check: a false claim is an error at once, an unknown one is checked when the program runs. */
static const anfi_traced *asserted(const call *c) {
  anf_value *cond = anfi_traced_known(c->t, c->in[0]),
            *why = c->n > 1 ? anfi_traced_known(c->t, c->in[1]) : NULL;
  if (cond && cond->kind == ANF_VALUE_TENSOR && cond->n == 1) {
    if (anfi_get_i64(cond, 0)) return anfi_traced_none(c->t);
    return wrong(c, why && why->kind == ANF_VALUE_STRING ? why->u.text : "another form of this op");
  }
  const anfi_traced *x = ordinary(c);
  if (x && x->node) anfi_add_effect(c->t->to, x->node);
  return x;
}

static bool takes_items(anfi_opcode op) {
  return op == ANF_OP_TupleGet || op == ANF_OP_TupleSlice || op == ANF_OP_TupleConcat ||
         op == ANF_OP_GetItem;
}

/* Ops of any number of tensors take the items of a tuple. */
static bool is_of_tensors(anfi_opcode op) { return op == ANF_OP_Stack || op == ANF_OP_Concat; }

const anfi_traced *anfi_trace_op(anfi_trace *t, anfi_opcode op, size_t n,
                                 const anfi_traced *const *in, anf_value *const *attrs) {
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  bool items = s->variadic && n == 1 && in[0]->kind == ANFI_TRACED_TUPLE && is_of_tensors(op);
  if (items) n = in[0]->n, in = in[0]->item;
  while (!s->variadic && n > s->min_in && anfi_traced_is_none(in[n - 1])) n--;
  const call c = {t, op, n, in, attrs};
  bool tuple = n && in[0]->kind == ANFI_TRACED_TUPLE,
       typed = n && in[0]->type && anfi_is_tensor(in[0]->type);
  if (!fits_schema(&c)) return NULL;
  switch (op) {
  case ANF_OP_MakeTuple: return anfi_traced_tuple(t, n, in);
  case ANF_OP_Switch: return n == 3 ? chosen(&c) : ordinary(&c);
  case ANF_OP_Partial: return bound(&c);
  case ANF_OP_Assert: return asserted(&c);
  case ANF_OP_TupleLen:
  case ANF_OP_Len: return length(&c);
  case ANF_OP_Shape: return typed ? shape(&c) : ordinary(&c);
  case ANF_OP_Rank: return typed ? anfi_traced_int(t, in[0]->type->n) : ordinary(&c);
  case ANF_OP_RecordGet:
  case ANF_OP_GetField: return field(&c);
  case ANF_OP_TupleSet: return tuple ? set_item(&c) : ordinary(&c);
  case ANF_OP_Map: return n > 1 && in[1]->kind == ANFI_TRACED_TUPLE ? mapped(&c) : ordinary(&c);
  case ANF_OP_Equal:
  case ANF_OP_NotEqual: return n == 2 ? compared(&c) : ordinary(&c);
  default: return tuple && takes_items(op) ? of_tuple(&c) : ordinary(&c);
  }
}
