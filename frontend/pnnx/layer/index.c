// SPDX-License-Identifier: Apache-2.0
/* Reading by indices, whose parameter is an expression of the inputs.
 *   x[i]   ->   Take(x, i, axis=0)       x[i, j]   ->   GatherNd(x, Stack(i, j))
 *   x[mask], the mask known   ->   x[positions of True] */
#include "frontend/pnnx/pnnx.h"

/* A list of integers, or the positions of True in a list of bools. */
static bool index_list(const anfi_layer *l, const anfi_operand *list, anfi_operand *out) {
  ANFI_VEC(int64_t) v = {0};
  for (size_t i = 0; i < list->n; i++) {
    const anfi_operand *o = &list->item[i];
    int64_t at;
    bool mask =
        o->kind == ANFI_OPERAND_TENSOR && o->value && !o->type->n && o->type->dtype == ANF_BOOL;
    if (mask && anfi_get_i64(o->value, 0)) anfi_push(l->t->arena, &v, (int64_t)i);
    if (mask) continue;
    if (!anfi_operand_int(o, &at))
      return anfi_layer_error(l, ANF_E1053, "an index that is no list of integers");
    anfi_push(l->t->arena, &v, at);
  }
  int64_t n = (int64_t)v.n;
  anf_value *t = anfi_torch_own(
      l->t, anfi_value_new_tensor(l->t->cx, anfi_type_tensor(l->t->cx, ANF_I64, 1, &n)));
  if (n) memcpy(t->data, v.at, v.n * sizeof *v.at);
  *out = anfi_operand_value(l->t->cx, t);
  return true;
}

/* A mask that is known becomes positions; of another the result's shape would not be known. */
static bool index_tensor(const anfi_layer *l, const anfi_operand *o, anfi_operand *out) {
  if (o->type && anfi_is_tensor(o->type) && anfi_dtype_is_int((anf_dtype)o->type->dtype))
    return *out = *o, true;
  if (!o->type || o->type->dtype != ANF_BOOL || !o->value || o->type->n != 1)
    return anfi_layer_error(l, ANF_E1053, "an index that is no tensor of integers or known mask");
  anfi_operand list = {.kind = ANFI_OPERAND_LIST, .n = o->value->n};
  list.item = ANFI_NEW_N(l->t->arena, anfi_operand, list.n + 1);
  for (size_t i = 0; i < list.n; i++)
    list.item[i] = anfi_operand_value(
        l->t->cx,
        anfi_torch_own(l->t, anfi_value_new_i64(l->t->cx, ANF_BOOL, anfi_get_i64(o->value, i))));
  return index_list(l, &list, out);
}

static anfi_operand list_of_one(const anfi_layer *l, const anfi_operand *o) {
  anfi_operand *one = ANFI_NEW(l->t->arena, anfi_operand);
  *one = *o;
  return (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = 1, .item = one};
}

static bool index_items(const anfi_layer *l, const char *key, anfi_operand *list) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, key);
  if (p) {
    anfi_layer_ignore(l, key);
    if (!anfi_layer_expression(l, p, list)) return false;
  } else if (anfi_layer_given(l, key) ? !anfi_layer_arg(l, key, list)
                                      : !anfi_layer_input(l, "indices", 1, list))
    return false;
  if (list->kind != ANFI_OPERAND_LIST) *list = list_of_one(l, list);
  bool numbers = list->n && list->item[0].kind == ANFI_OPERAND_TENSOR && list->item[0].number;
  if (numbers) *list = list_of_one(l, list); // x[[0, 2]]
  return true;
}

/* One mask of the first dims, not known before the program runs. */
static bool is_open_mask(const anfi_operand *x, const anfi_operand *list) {
  const anfi_operand *o = list->item;
  return list->n == 1 && o->kind == ANFI_OPERAND_TENSOR && o->type && anfi_is_tensor(o->type) &&
         o->type->dtype == ANF_BOOL && o->type->n && o->type->n <= x->type->n &&
         (!o->value || o->type->n > 1);
}

bool anfi_layer_indices(const anfi_layer *l, const anfi_operand *x, const char *key,
                        anfi_indices *out) {
  anfi_operand list;
  *out = (anfi_indices){.n = 0};
  if (!index_items(l, key, &list)) return false;
  if (is_open_mask(x, &list)) return out->index[0] = list.item[0], out->masked = true;
  if (list.n > x->type->n)
    return anfi_layer_error(l, ANF_E1055, "it is given more indices than its input has dims");
  for (size_t i = 0; i < list.n; i++) {
    const anfi_operand *o = &list.item[i];
    if (o->kind == ANFI_OPERAND_NONE) continue;
    anfi_operand *at = &out->index[out->n];
    if (!(o->kind == ANFI_OPERAND_LIST ? index_list(l, o, at) : index_tensor(l, o, at)))
      return false;
    out->axis[out->n++] = i;
  }
  return true;
}

bool anfi_layer_stack_indices(const anfi_layer *l, anfi_indices *i, anfi_operand *out) {
  anfi_operand sum = i->index[0];
  for (size_t k = 1; k < i->n; k++)
    if (!anfi_layer_op2(l, ANF_OP_Add, &sum, &i->index[k], &sum)) return false;
  for (size_t k = 0; k < i->n; k++)
    if (!anfi_layer_op2(l, ANF_OP_BroadcastLike, &i->index[k], &sum, &i->index[k])) return false;
  return anfi_torch_promote(l->t, i->n, i->index) &&
         anfi_layer_along(l, ANF_OP_Stack, i->n, i->index, -1, out);
}

/* The indexed axes first, the others in their order. */
static bool indexed_first(const anfi_layer *l, const anfi_indices *i, anfi_operand *x) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = i->n;
  for (size_t k = 0; k < i->n; k++) axes[k] = (int64_t)i->axis[k];
  for (size_t a = 0, k = 0; a < x->type->n; a++)
    if (k < i->n && i->axis[k] == a) k++;
    else axes[n++] = (int64_t)a;
  return anfi_layer_transpose(l, x, n, axes, x);
}

/* x[:, i, j]: what was read stands where the indices stood, if they stand side by side; else it is
 * first. */
static bool read_indices(anfi_layer *l, anfi_operand *x, anfi_indices *i) {
  anfi_operand where;
  size_t before = i->axis[0];
  bool together = i->axis[i->n - 1] - before + 1 == i->n, first = together && !before;
  l->nresult = 1;
  if (!first && !indexed_first(l, i, x)) return false;
  if (!anfi_layer_stack_indices(l, i, &where) ||
      !anfi_layer_op2(l, ANF_OP_GatherNd, x, &where, &l->out[0]))
    return false;
  if (first || !together) return true;
  int64_t axes[ANF_MAX_RANK];
  size_t own = where.type->n - 1, n = 0, rank = l->out[0].type->n;
  for (size_t a = 0; a < before; a++) axes[n++] = (int64_t)(own + a);
  for (size_t a = 0; a < own; a++) axes[n++] = (int64_t)a;
  for (size_t a = own + before; a < rank; a++) axes[n++] = (int64_t)a;
  return anfi_layer_transpose(l, &l->out[0], rank, axes, &l->out[0]);
}

bool anfi_pnnx_make_index(anfi_layer *l) {
  anfi_operand x;
  anfi_indices i;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_indices(l, &x, "expr", &i)) return false;
  if (i.masked)
    return anfi_layer_error(l, ANF_E1053, "a mask that is not known before the program runs");
  l->nresult = 1;
  if (!i.n) return l->out[0] = x, true;
  if (i.n == 1) return anfi_layer_take(l, &x, &i.index[0], (int64_t)i.axis[0], &l->out[0]);
  return read_indices(l, &x, &i);
}
