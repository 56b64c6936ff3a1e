// SPDX-License-Identifier: Apache-2.0
/* Declared types: does an abstract value fit, and what becomes of it.
 *   f(x: f32[n], y: f32[n]),  f(a, 1.0) with a: f32[3]:    n = 3; 1.0 has no dims: E0511
 *   g(s: f32),  g(1.0):                                    fits; the number becomes f32
 * The rules are those that interp/type.c has for values. A number without a type takes the declared one if that holds it;
 * all else must match. A dim's name stands for one size throughout a signature. Hard case: where the number or the size
 * is not known yet, it fits, and emit.c asserts that the number is in range. Recursion is over the nesting of types. */
#include "optimizer/infer/rules.h"

/* The size that a name stands for, or NULL. */
static int64_t *size_of(anfi_fitting *f, int64_t dim) {
  for (size_t i = 0; i < f->sizes.n; i++)
    if (f->sizes.at[i].dim == dim) return &f->sizes.at[i].size;
  return NULL;
}

/* Sizes that may be equal when the program runs are. Two names differ: nothing says that they are equal. */
static bool dim_fits(anfi_fitting *f, int64_t want, int64_t have) {
  if (want == ANF_DIM_UNKNOWN || want == have) return true;
  if (want >= 0) {
    f->open |= have == ANF_DIM_UNKNOWN;
    return have < 0 && (f->unsure = true);
  }
  int64_t *known = size_of(f, want);
  if (!known) {
    anfi_push(f->q->arena, &f->sizes, ((anfi_size_of_dim){want, have}));
    return true;
  }
  if (*known == have) return true;
  bool named = *known < ANF_DIM_UNKNOWN && have < ANF_DIM_UNKNOWN, sizes = *known >= 0 && have >= 0;
  if (named || sizes) return false;
  f->open |= *known == ANF_DIM_UNKNOWN || have == ANF_DIM_UNKNOWN;
  if (*known < have) *known = have; // a size says more than a name or nothing
  return f->unsure = true;
}

typedef enum outcome { REFUSED, CONVERTED, TAKEN } outcome;

static outcome becomes(anf_dtype from, anf_dtype to) {
  if (anfi_dtype_settle(from) == to || from == to) return TAKEN;
  return anfi_dtype_weak_becomes(from, to) ? CONVERTED : REFUSED;
}

/* `if c { 1 } else { 2.5 }` is a `float` here and may be an `int` in the interpreter. Is the choice the same for both? */
static bool one_outcome(const anfi_abs *a, anf_dtype to) {
  outcome is = becomes((anf_dtype)a->type->dtype, to);
  for (uint8_t bit = ANFI_WEAK_INT; bit <= ANFI_WEAK_COMPLEX; bit = (uint8_t)(bit * 2))
    if (a->weak & bit && becomes(anfi_weak_dtype(bit), to) != is) return false;
  return true;
}

static const anfi_abs *number(anfi_fitting *f, const anfi_abs *a, const anf_type *type) {
  anf_dtype from = (anf_dtype)a->type->dtype, to = (anf_dtype)type->dtype;
  anfi_inference *q = f->q;
  if (f->choosing && !one_outcome(a, to)) return f->unsure = true, a;
  if (from == to) return a->weak ? anfi_abs_data(&q->abs, a->type) : a;
  if (!anfi_dtype_weak_becomes(from, to)) return NULL;
  f->converted |= to != anfi_dtype_settle(from);
  bool whole = anfi_dtype_is_int(to) && !anfi_dtype_holds(to, INT64_MIN, INT64_MAX);
  if (!a->value) {
    f->unsure |= whole;
    return anfi_abs_data(&q->abs, anfi_type_with_dtype(q->cx, a->type, to));
  }
  for (size_t i = 0; whole && i < a->value->n; i++) {
    int64_t x = anfi_get_i64(a->value, i);
    if (!anfi_dtype_holds(to, x, x)) return f->outside = type, NULL;
  }
  anf_value *v = anfi_value_cast(a->value, to);
  const anfi_abs *cast = anfi_abs_const(&q->abs, v);
  anf_value_release(v);
  return cast;
}

static const anfi_abs *items(anfi_fitting *f, const anfi_abs *a, const anf_type *type) {
  anfi_abs_kind kind = type->kind == ANF_TYPE_TUPLE ? ANFI_ABS_TUPLE : ANFI_ABS_RECORD;
  if (a->kind != kind || a->n != type->n) return NULL;
  if (kind == ANFI_ABS_RECORD && type->n &&
      memcmp(a->type->names, type->names, type->n * sizeof *type->names) != 0)
    return NULL;
  const anfi_abs **of = ANFI_NEW_N(f->q->arena, const anfi_abs *, type->n + 1);
  for (uint32_t i = 0; i < type->n; i++)
    if (!(of[i] = anfi_abs_declared(f, a->item[i], type->items[i]))) return NULL;
  return anfi_abs_items(&f->q->abs, kind, a->type, a->n, of);
}

bool anfi_abs_takes_n(const anfi_abs *a, size_t n) {
  if (a->kind != ANFI_ABS_FN) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->item[i]->graph && a->item[i]->graph->params.n != a->item[i]->n + n) return false;
  return true;
}

static const anfi_abs *pattern(anfi_fitting *f, const anfi_abs *a, const anf_type *type) {
  anf_type_kind kind = a->kind == ANFI_ABS_TUPLE    ? ANF_TYPE_TUPLE
                       : a->kind == ANFI_ABS_RECORD ? ANF_TYPE_RECORD
                                                    : ANF_TYPE_ANY;
  const anf_type *tensor =
      a->kind == ANFI_ABS_DATA && a->type->kind == ANF_TYPE_TENSOR ? a->type : NULL;
  if (!anfi_pattern_takes(type, kind, tensor)) return NULL;
  return type->pattern == ANF_PATTERN_RANKS ? number(f, a, type) : a;
}

const anfi_abs *anfi_abs_declared(anfi_fitting *f, const anfi_abs *a, const anf_type *type) {
  if (a->kind == ANFI_ABS_BOTTOM) return a;
  if (type->kind == ANF_TYPE_ANY) return pattern(f, a, type);
  if (type->kind == ANF_TYPE_FN) return anfi_abs_takes_n(a, type->n) ? a : NULL;
  if (type->kind == ANF_TYPE_TUPLE || type->kind == ANF_TYPE_RECORD) return items(f, a, type);
  if (a->kind != ANFI_ABS_DATA || a->type->kind != type->kind) return NULL;
  if (type->kind != ANF_TYPE_TENSOR) return a;
  if (a->type->n != type->n) return NULL;
  for (uint32_t i = 0; i < type->n; i++)
    if (!dim_fits(f, type->dims[i], a->type->dims[i])) return NULL;
  return number(f, a, type);
}
