// SPDX-License-Identifier: Apache-2.0
/* What builders of layers ask an operator for: parameters, weights, inputs by name.
 *   nn.Conv2d .. stride=(2,2)   ->   anfi_layer_ints(l, "stride", &n, v): n = 2, v = {2, 2}
 * What is asked for is marked; a parameter, weight or named input that is left at the end is not known, and the
 * operator is refused. */
#include "frontend/pnnx/pnnx.h"

#include <stdlib.h>

bool anfi_layer_error(const anfi_layer *l, anfi_code code, const char *what) {
  return anfi_fail(l->t->cx, l->t->loc, code, l->op->type, what);
}

/* ---- finding ---- */

static anfi_parameter *param(const anfi_layer *l, const char *key) {
  anfi_parameter *p = anfi_pnnx_param(l->op, key);
  if (p) p->used = true;
  return p;
}

static bool named_input(const anfi_layer *l, const char *key, size_t *at) {
  for (uint32_t i = 0; i < l->op->nin; i++)
    if (l->op->in_name[i] && strcmp(l->op->in_name[i], key) == 0)
      return l->op->in_used[i] = true, *at = i, true;
  return false;
}

static bool is_none(const anfi_parameter *p) {
  return !p->n || (!p->list && p->item[0].kind == ANFI_ITEM_NONE);
}

bool anfi_layer_given(const anfi_layer *l, const char *key) {
  size_t at;
  if (named_input(l, key, &at)) return l->in[at].kind != ANFI_OPERAND_NONE;
  anfi_parameter *p = param(l, key);
  return p && !is_none(p);
}

static bool is_word_of(const char *keys, const char *key) {
  size_t n = strlen(key);
  for (const char *at = strstr(keys, key); at; at = strstr(at + 1, key))
    if ((at == keys || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

void anfi_layer_ignore(const anfi_layer *l, const char *keys) {
  for (size_t i = 0; i < l->op->params.n; i++) {
    anfi_parameter *p = &l->op->params.at[i];
    if (is_word_of(keys, p->key)) p->used = true;
  }
  for (uint32_t i = 0; i < l->op->nin; i++)
    if (l->op->in_name[i] && is_word_of(keys, l->op->in_name[i])) l->op->in_used[i] = true;
}

/* The input of the key, else the place-th of those without a key. */
bool anfi_layer_input(const anfi_layer *l, const char *key, size_t place, anfi_operand *out) {
  size_t at, seen = 0;
  if (named_input(l, key, &at)) return *out = l->in[at], true;
  for (uint32_t i = 0; i < l->op->nin; i++)
    if (!l->op->in_name[i] && seen++ == place) return *out = l->in[i], true;
  return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "input", key);
}

bool anfi_layer_tensor(const anfi_layer *l, const char *key, size_t place, anfi_operand *out) {
  if (!anfi_layer_input(l, key, place, out)) return false;
  if (out->kind == ANFI_OPERAND_TENSOR && out->type && anfi_is_tensor(out->type)) return true;
  return anfi_layer_error(l, ANF_E1055, "the type of its input is not known, or is no tensor");
}

static bool item_operand(const anfi_layer *l, const anfi_item *it, anfi_operand *out) {
  anf_ctx *cx = l->t->cx;
  anf_value *v = NULL;
  switch (it->kind) {
  case ANFI_ITEM_NONE: return *out = (anfi_operand){.kind = ANFI_OPERAND_NONE}, true;
  case ANFI_ITEM_STRING: return false;
  case ANFI_ITEM_BOOL: v = anfi_value_new_i64(cx, ANF_BOOL, it->i); break;
  case ANFI_ITEM_INT: v = anfi_value_new_i64(cx, ANF_INT, it->i); break;
  case ANFI_ITEM_REAL: v = anfi_value_new_f64(cx, ANF_FLOAT, it->re); break;
  case ANFI_ITEM_COMPLEX:
    v = anfi_value_new_tensor(cx, anfi_type_scalar(cx, ANF_C128));
    memcpy(v->data, (const double[]){it->re, it->im}, 2 * sizeof(double));
  }
  *out = anfi_operand_value(cx, anfi_torch_own(l->t, v));
  return out->number = true;
}

/* inf and nan are words to pnnx, and numbers where a number is wanted. */
static anfi_item as_number(anfi_item it) {
  char *end;
  if (it.kind != ANFI_ITEM_STRING) return it;
  double v = anfi_read_f64(it.s, &end);
  if (*it.s && !*end) it.kind = ANFI_ITEM_REAL, it.re = v;
  return it;
}

static bool wrong(const anfi_layer *l, const char *key, const char *what) {
  anfi_parameter *p = anfi_pnnx_param(l->op, key);
  return anfi_fail(l->t->cx, p ? anfi_pnnx_at(l->op, p->col) : l->t->loc, ANF_E1052, key,
                   l->op->type, what);
}

static bool param_operand(const anfi_layer *l, const anfi_parameter *p, anfi_operand *out) {
  anfi_item it;
  if (!p->list) {
    it = as_number(p->item[0]);
    return item_operand(l, &it, out) || wrong(l, p->key, "a number or a list of numbers");
  }
  *out = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = p->n};
  out->item = ANFI_NEW_N(l->t->arena, anfi_operand, p->n + 1);
  for (size_t i = 0; i < p->n; i++) {
    it = as_number(p->item[i]);
    if (!item_operand(l, &it, &out->item[i])) return wrong(l, p->key, "a list of numbers");
  }
  return true;
}

bool anfi_layer_arg(const anfi_layer *l, const char *key, anfi_operand *out) {
  size_t at;
  if (named_input(l, key, &at)) return *out = l->in[at], true;
  anfi_parameter *p = param(l, key);
  if (p) return param_operand(l, p, out);
  return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", key);
}

/* ---- of one kind ---- */

bool anfi_layer_need_int(const anfi_layer *l, const char *key, int64_t *out) {
  anfi_operand o;
  if (!anfi_layer_arg(l, key, &o)) return false;
  if (o.kind == ANFI_OPERAND_LIST && o.n == 1) o = o.item[0];
  return anfi_operand_int(&o, out) || wrong(l, key, "a known integer");
}

bool anfi_layer_int(const anfi_layer *l, const char *key, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return !anfi_layer_given(l, key) || anfi_layer_need_int(l, key, out);
}

bool anfi_layer_bool(const anfi_layer *l, const char *key, bool otherwise, bool *out) {
  anfi_operand o;
  *out = otherwise;
  if (!anfi_layer_given(l, key)) return true;
  if (!anfi_layer_arg(l, key, &o)) return false;
  if (o.kind != ANFI_OPERAND_TENSOR || !o.value || o.type->n || o.type->dtype != ANF_BOOL)
    return wrong(l, key, "True or False");
  return *out = anfi_get_i64(o.value, 0) != 0, true;
}

bool anfi_layer_real(const anfi_layer *l, const char *key, double otherwise, double *out) {
  anfi_operand o;
  *out = otherwise;
  if (!anfi_layer_given(l, key)) return true;
  if (!anfi_layer_arg(l, key, &o)) return false;
  if (o.kind == ANFI_OPERAND_TENSOR && o.value && !o.type->n &&
      anfi_dtype_class((anf_dtype)o.type->dtype) <= ANFI_CLASS_FLOAT)
    return *out = anf_value_get_f64(o.value, 0), true;
  return wrong(l, key, "a known real number");
}

bool anfi_layer_axis_of(const anfi_layer *l, const anfi_operand *x, int64_t v, size_t *out) {
  int64_t rank = (int64_t)x->type->n;
  if (v < -rank || v >= rank)
    return anfi_fail(l->t->cx, l->t->loc, ANF_E0540, (long long)v, l->op->type, x->type->n);
  *out = (size_t)(v < 0 ? v + rank : v);
  return true;
}

const char *anfi_layer_text(const anfi_layer *l, const char *key) {
  size_t at;
  if (named_input(l, key, &at))
    return l->in[at].kind == ANFI_OPERAND_TEXT ? anf_value_text(l->in[at].value) : NULL;
  anfi_parameter *p = param(l, key);
  return p && !is_none(p) && !p->list ? p->text : NULL;
}

/* An input says the text False, True or a number. */
static bool says(const anfi_operand *o, const char *text) {
  int64_t v, want = strcmp(text, "True") == 0;
  char *end = NULL;
  if (o->kind == ANFI_OPERAND_NONE) return true;
  bool boolean = o->kind == ANFI_OPERAND_TENSOR && o->value && o->type &&
                 o->type->dtype == ANF_BOOL && o->value->n == 1;
  if (boolean) v = anfi_get_i64(o->value, 0);
  else if (!anfi_operand_int(o, &v)) return false;
  if (!want && strcmp(text, "False") != 0) want = strtoll(text, &end, 10);
  return (!end || (end != text && !*end)) && v == want;
}

bool anfi_layer_only(const anfi_layer *l, const char *key, const char *text) {
  size_t at;
  if (named_input(l, key, &at))
    return says(&l->in[at], text) ||
           anfi_layer_error(l, ANF_E1053,
                            anfi_sprintf(anfi_scratch(l->t->cx), "%s other than %s", key, text));
  anfi_parameter *p = param(l, key);
  if (!p || is_none(p) || strcmp(p->text, text) == 0) return true;
  return anfi_layer_error(l, ANF_E1053,
                          anfi_sprintf(anfi_scratch(l->t->cx), "%s=%.60s", p->key, p->text));
}

bool anfi_layer_ints(const anfi_layer *l, const char *key, size_t *n, int64_t *out) {
  anfi_operand o;
  if (!anfi_layer_arg(l, key, &o)) return false;
  *n = o.kind == ANFI_OPERAND_LIST ? o.n : 1;
  if (*n > ANF_MAX_RANK) return wrong(l, key, "at most 16 integers");
  for (size_t i = 0; i < *n; i++)
    if (!anfi_operand_int(o.kind == ANFI_OPERAND_LIST ? &o.item[i] : &o, &out[i]))
      return wrong(l, key, "known integers");
  return true;
}

bool anfi_layer_has_weight(const anfi_layer *l, const char *key) {
  return anfi_pnnx_weight(l->op, key) != NULL;
}

bool anfi_layer_weight(const anfi_layer *l, const char *key, anfi_operand *out) {
  anfi_weight *w = anfi_pnnx_weight(l->op, key);
  if (!w) return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "weight", key);
  w->used = true;
  *out = (anfi_operand){.type = w->type, .value = w->node ? NULL : w->value, .node = w->node};
  return true;
}

bool anfi_layer_weight_or_input(const anfi_layer *l, const char *key, size_t place,
                                anfi_operand *out) {
  size_t at, unnamed = 0;
  *out = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  if (named_input(l, key,
                  &at)) { // before the weight of that name, which is its copy (tied weights)
    if (anfi_layer_has_weight(l, key)) anfi_pnnx_weight(l->op, key)->used = true;
    return *out = l->in[at], true;
  }
  if (anfi_layer_has_weight(l, key)) return anfi_layer_weight(l, key, out);
  for (uint32_t i = 0; i < l->op->nin; i++) unnamed += !l->op->in_name[i];
  anfi_layer_ignore(l, key);
  return place >= unnamed || anfi_layer_input(l, key, place, out);
}

bool anfi_layer_need(const anfi_layer *l, const anfi_operand *x, const char *key) {
  if (x->kind == ANFI_OPERAND_TENSOR && x->type) return true;
  return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "weight", key);
}

/* An input whose key nothing asked for would have no effect. Those of aten.def that change nothing are called "-". */
static bool inputs_used(const anfi_layer *l) {
  for (uint32_t i = 0; i < l->op->nin; i++) {
    const char *key = l->op->in_name[i];
    if (key && !l->op->in_used[i] && strcmp(key, "-") != 0)
      return anfi_fail(l->t->cx, l->t->loc, ANF_E1054, l->op->type, "named input", key);
  }
  return true;
}

bool anfi_layer_all_used(const anfi_layer *l) {
  if (!inputs_used(l)) return false;
  for (size_t i = 0; i < l->op->params.n; i++) {
    const anfi_parameter *p = &l->op->params.at[i];
    if (!p->used)
      return anfi_fail(l->t->cx, anfi_pnnx_at(l->op, p->col), ANF_E1054, l->op->type, "parameter",
                       p->key);
  }
  for (size_t i = 0; i < l->op->weights.n; i++) {
    const anfi_weight *w = &l->op->weights.at[i];
    if (!w->used)
      return anfi_fail(l->t->cx, anfi_pnnx_at(l->op, w->col), ANF_E1054, l->op->type, "weight",
                       w->key);
  }
  return true;
}
