// SPDX-License-Identifier: Apache-2.0
/* Whole parameters and outputs as values: leaves gathered, and values scattered to leaves.
 *   fill    {w: .., b: ..}   ->   the bytes of leaves w and b
 *   value   leaves w and b   ->   {w: .., b: ..} */
#include "step/step.h"

#include "interp/interp.h"

#include <math.h>

/* Walks nest as types do, whose depth is bounded. */
static anfi_step_leaf *fill(const anf_step *s, anfi_step_leaf *at, const anf_value *v) {
  if (v->kind == ANF_VALUE_TENSOR) {
    anfi_step_take(s, at, v->data);
    return at + 1;
  }
  bool nest = v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
  for (size_t i = 0; nest && i < v->n; i++) at = fill(s, at, v->u.item[i]);
  return at;
}

static anfi_step_leaf *first_leaf(const anf_step *s, size_t param) {
  bool state = param < s->nstate;
  return state ? &s->leaf[ANF_STATE][s->first[param]]
               : &s->leaf[ANF_INPUT][s->first[param] - s->nleaf[ANF_STATE]];
}

void anfi_step_fill(anf_step *s, size_t param, const anf_value *v) {
  size_t n = s->first[param + 1] - s->first[param];
  anfi_step_leaf *l = first_leaf(s, param);
  for (size_t i = 0; i < n; i++)
    if (param >= s->nstate) anfi_step_own(s, &l[i]);
  fill(s, l, v);
}

static anf_value *value(const anf_step *s, const anf_type *t, const anfi_step_leaf **at) {
  anf_value *v;
  switch ((anf_type_kind)t->kind) {
  case ANF_TYPE_TENSOR:
    v = anfi_value_new_tensor(s->cx, t);
    if (!anfi_failed(s->cx)) anfi_step_whole(s, *at, v->data);
    ++*at;
    return v;
  case ANF_TYPE_TUPLE: v = anfi_value_new_tuple(s->cx, t->n); break;
  case ANF_TYPE_RECORD: v = anfi_value_new_record(s->cx, t); break;
  default: return anfi_value_new_none(s->cx);
  }
  anfi_value_guard(v);
  for (uint32_t i = 0; i < t->n; i++) v->u.item[i] = value(s, t->items[i], at);
  anfi_value_unguard(v);
  return v;
}

anf_value *anfi_step_value(const anf_step *s, const anf_type *t, const anfi_step_leaf *first) {
  return value(s, t, &first);
}

static bool there_is(const anf_step *s, size_t param) {
  size_t n = s->g->params.n;
  return param < n || anfi_fail(s->cx, anfi_nowhere(), ANF_E1114, "parameter", param, n);
}

static void set(anf_step *s, size_t param, anf_value *v) {
  if (!anfi_step_idle(s) || !there_is(s, param)) return;
  anfi_fit f = {.cx = s->cx, .arena = anfi_scratch(s->cx), .host = true};
  anf_value *fitted = NULL;
  if (!anfi_fit_value(&f, v, s->param[param], &fitted)) {
    anfi_fit_fail_argument(&f, anfi_nowhere(), param, s->g->name->s);
    return;
  }
  anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, fitted);
  anfi_step_fill(s, param, fitted);
}

anf_status anf_step_set(anf_step *s, size_t param, anf_value *v, anf_diag *d) {
  ANFI_NEED(d, s, v);
  ANFI_ENTRY(s->cx, d);
  set(s, param, v);
  return anfi_leave(s->cx);
}

anf_status anf_step_get(const anf_step *s, size_t param, anf_diag *d, anf_value **out) {
  ANFI_NEED(d, s, out);
  *out = NULL;
  ANFI_ENTRY(s->cx, d);
  if (anfi_step_idle(s) && there_is(s, param))
    *out = anfi_step_value(s, s->param[param], first_leaf(s, param));
  if (anfi_failed(s->cx)) {
    anf_value_release(*out); // its parts did not come
    *out = NULL;
  }
  return anfi_leave(s->cx);
}

anf_status anf_step_outputs(const anf_step *s, anf_diag *d, anf_value **out) {
  ANFI_NEED(d, s, out);
  *out = NULL;
  ANFI_ENTRY(s->cx, d);
  if (anfi_step_idle(s)) *out = anfi_step_value(s, s->out, s->leaf[ANF_OUTPUT]);
  return anfi_leave(s->cx);
}

double anf_step_number(const anf_step *s, const char *path) {
  ANFI_NEED_ELSE(s ? s->cx : NULL, 0, s, path);
  size_t i = anf_step_leaf_find(s, ANF_OUTPUT, path);
  if (i == s->nleaf[ANF_OUTPUT] || s->leaf[ANF_OUTPUT][i].type->n) return NAN;
  const anfi_step_leaf *l = &s->leaf[ANF_OUTPUT][i];
  anf_dtype t = (anf_dtype)l->type->dtype;
  if (anfi_dtype_class(t) >= ANFI_CLASS_COMPLEX) return NAN;
  return anfi_step_number_at(t, l->at);
}
