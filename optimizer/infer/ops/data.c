// SPDX-License-Identifier: Apache-2.0
/* Ops on data: types by the hook of the op's row in ir/ops/op.def.
 *   Add(f32[2,3], f32[3])                f32[2,3]
 *   Shape(x), x: f32[2,3]                (2, 3): known by the type alone
 *   Add(2, 3), needed (need.c)           5, by the reference kernel
 * A function among the arguments is refused. Numbers of branches that differ in type: weak.c. */
#include "optimizer/infer/ops/ops.h"

enum { FOLD_BYTES = 4096 };

/* A nested tuple's abs from its type. */
static const anfi_abs *of_type(const anfi_applied *p, const anf_type *t) {
  const anfi_abs *a = anfi_abs_of_type(&p->q->abs, t);
  return a ? a : anfi_refuse_op(p, ANF_E0524, anfi_op[p->op].name, "");
}

static anfi_infer hook_of(const anfi_applied *p, const anf_type *const *in) {
  return (anfi_infer){.cx = p->q->cx,
                      .op = p->op,
                      .loc = anfi_node_loc(p->at),
                      .n = p->n,
                      .in = in,
                      .attr = p->attr};
}

static anf_status infer_in(const anfi_applied *p, const anf_type *const *t, anf_diag *d,
                           const anf_type **out) {
  ANFI_ENTRY(p->q->cx, d);
  anfi_infer hook = hook_of(p, t);
  if (anfi_infer_op(&hook)) *out = hook.out;
  return anfi_leave(p->q->cx);
}

/* The result's type with other types of arguments; NULL: refused, for other reasons than functions if `other`. */
const anf_type *anfi_type_with(const anfi_applied *p, const anf_type *const *t, bool *other) {
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

static anfi_code function_given(const anfi_applied *p, const anfi_abs *a) {
  if (p->op == ANF_OP_Print) return ANF_E0565;
  return by_inference_alone(p->q, a) ? ANF_E1562 : ANF_E0525;
}

/* Does the op refuse these types for another reason than their functions? Sub({a = 1}, f) is refused for the record. */
static bool refused_otherwise(const anfi_applied *p, const anf_type *const *t) {
  bool other;
  (void)anfi_type_with(p, t, &other);
  return other;
}

/* Argument i is or holds a function: always false. The op's own error comes first, as where it is interpreted. */
static bool fail_function(const anfi_applied *p, size_t i) {
  anfi_code code = function_given(p, p->in[i]);
  const anf_type **t = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (size_t k = 0; k < p->n; k++) t[k] = anfi_abs_shown_type(&p->q->abs, p->in[k]);
  if (code == ANF_E0565 || !refused_otherwise(p, t))
    return (void)anfi_refuse_op(p, code, anfi_op[p->op].name, anfi_show_abs(p->q, p->in[i])), false;
  anfi_infer hook = hook_of(p, t);
  (void)anfi_infer_op(&hook);
  return anfi_infer_trace(p->q), false;
}

static const anf_type **types_of(const anfi_applied *p) {
  const anf_type **t = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (size_t i = 0; i < p->n; i++) {
    if (anfi_abs_has_fn(p->in[i])) return (void)fail_function(p, i), NULL;
    t[i] = anfi_abs_type(&p->q->abs, p->in[i]);
  }
  return t;
}

/* ---- results that are known ---- */

static const anfi_abs *fold(const anfi_applied *p, const anf_type *t) {
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
  return anfi_eval_op(&e) ? anfi_op_constant(p, e.out) : NULL;
}

static bool worth_folding(const anfi_applied *p, const anf_type *t) {
  size_t n;
  if (!p->q->need[p->at->id] || (anfi_op[p->op].flags & (ANFI_EFFECT | ANFI_COLLECTIVE)))
    return false;
  return t->kind != ANF_TYPE_TENSOR ||
         (anfi_type_elements(t, &n) && n * anf_dtype_bytes((anf_dtype)t->dtype) <= FOLD_BYTES);
}

/* The shape of a tensor with known dims is known though the tensor is not; so are rank, size and
 * dtype. */
static const anfi_abs *by_type(const anfi_applied *p) {
  const char *field = p->op == ANF_OP_GetField ? p->attr[0]->u.text : "";
  bool shape = p->op == ANF_OP_Shape || strcmp(field, "shape") == 0;
  bool rank = p->op == ANF_OP_Rank || strcmp(field, "ndim") == 0;
  bool dtype = strcmp(field, "dtype") == 0,
       size = p->op == ANF_OP_Size || strcmp(field, "size") == 0;
  if (!shape && !rank && !size && !dtype) return NULL;
  const anf_type *t = p->in[0]->kind == ANFI_ABS_DATA ? p->in[0]->type : NULL;
  if (!t || t->kind != ANF_TYPE_TENSOR) return NULL;
  if (dtype)
    return anfi_op_constant(
        p, anfi_value_new_type(p->q->cx,
                               anfi_type_scalar(p->q->cx, anfi_dtype_asked((anf_dtype)t->dtype))));
  if (rank) return anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, t->n));
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] < 0) return NULL;
  size_t n;
  if (shape) return anfi_op_constant(p, anfi_value_new_ints(p->q->cx, t->n, t->dims));
  return anfi_type_elements(t, &n)
             ? anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_INT, (int64_t)n))
             : NULL;
}

/* A comparison with None is answered by the kinds, one of texts and types by their values. */
static const anfi_abs *by_kind(const anfi_applied *p, const anf_type *const *t,
                               const anf_type *out) {
  bool equal = p->op == ANF_OP_Equal;
  if ((!equal && p->op != ANF_OP_NotEqual) || p->n != 2) return NULL;
  bool a = t[0]->kind == ANF_TYPE_NONE, b = t[1]->kind == ANF_TYPE_NONE;
  if (a || b) return anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_BOOL, (a && b) == equal));
  return t[0]->kind == ANF_TYPE_TENSOR ? NULL : fold(p, out);
}

/* A function, or what holds one, is not None. */
static const anfi_abs *function_and_none(const anfi_applied *p) {
  bool equal = p->op == ANF_OP_Equal;
  if ((!equal && p->op != ANF_OP_NotEqual) || p->n != 2) return NULL;
  for (size_t i = 0; i < 2; i++) {
    const anfi_abs *x = p->in[i];
    bool none = x->kind == ANFI_ABS_DATA && x->type->kind == ANF_TYPE_NONE;
    if (none && anfi_abs_has_fn(p->in[1 - i]))
      return anfi_op_constant(p, anfi_value_new_i64(p->q->cx, ANF_BOOL, !equal));
  }
  return NULL;
}

/* ---- any op on data ---- */

/* Known numbers that the type which they meet does not hold. Others are checked when the program runs (emit_op.c). */
static bool numbers_fit(const anfi_applied *p, const anfi_infer *hook) {
  for (size_t i = hook->meet[0]; i < hook->meet[1]; i++) {
    const anf_value *v = p->in[i]->kind == ANFI_ABS_DATA ? p->in[i]->value : NULL;
    if (v && !anfi_infer_holds(hook, i, v)) return anfi_infer_outside(hook);
  }
  return true;
}

const anfi_abs *anfi_infer_data(const anfi_applied *p) {
  anfi_inference *q = p->q;
  for (size_t i = 0; i < p->n; i++)
    if (p->in[i]->kind == ANFI_ABS_BOTTOM) return p->in[i];
  const anfi_abs *answer = function_and_none(p);
  if (answer) return answer;
  const anf_type **t = types_of(p);
  if (!t) return NULL;
  if (anfi_takes_one_branch(p, t)) return NULL;
  anfi_infer hook = hook_of(p, t);
  if (!anfi_infer_op(&hook) || !numbers_fit(p, &hook)) return anfi_infer_trace(q), NULL;
  const anfi_abs *known = by_type(p);
  if (known || (known = by_kind(p, t, hook.out))) return known;
  if (anfi_failed(q->cx)) return anfi_infer_trace(q), NULL;
  const anfi_abs *folded = worth_folding(p, hook.out) ? fold(p, hook.out) : NULL;
  if (folded) return folded;
  if (anfi_failed(q->cx)) return anfi_infer_trace(q), NULL;
  uint8_t weak = 0;
  if (!anfi_meets_branches(p, t, hook.out, &weak)) return NULL;
  return weak ? anfi_abs_mixed(&q->abs, hook.out, weak) : of_type(p, hook.out);
}
