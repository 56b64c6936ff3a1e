// SPDX-License-Identifier: Apache-2.0
/* Numbers that have a type or none, depending on the branch that ran.
 *   a = c ? 2 : f32(2);  a * x, x: f16   the product is f16 or f32: an error with a hint
 *   a = c ? 2 : f32(2);  a * x, x: f32   f32 by either branch
 * The op is inferred for the types of each branch; what differs in more than a number without a type is refused. */
#include "optimizer/infer/ops/ops.h"

static uint8_t weak_bits(const anfi_applied *p) {
  uint8_t any = 0;
  for (size_t i = 0; i < p->n; i++) any |= p->in[i]->kind == ANFI_ABS_DATA ? p->in[i]->weak : 0;
  return any;
}

/* Type i if its number is one of `weak` instead. */
static const anf_type *weak_type(const anfi_applied *p, size_t i, const anf_type *t, uint8_t weak) {
  const anfi_abs *a = p->in[i];
  if (a->kind != ANFI_ABS_DATA || !(a->weak & weak)) return t;
  return anfi_type_with_dtype(p->q->cx, t, anfi_weak_dtype(weak));
}

/* Of a comparison: are the arguments compared in one type? Integers are compared exactly in any; two numbers without a type
 * as they are, which rounding to the type of the other branch could only make equal. */
static bool compares_alike(const anfi_applied *p, const anf_type *const *t,
                           const anf_type *const *u) {
  anf_dtype a, b;
  if (!anfi_op_is_comparison(p->op) || p->n != 2) return true;
  if (!anfi_dtype_promote((anf_dtype)t[0]->dtype, (anf_dtype)t[1]->dtype, &a)) return true;
  if (!anfi_dtype_promote((anf_dtype)u[0]->dtype, (anf_dtype)u[1]->dtype, &b)) return false;
  if (anfi_dtype_is_weak(b)) return true;
  a = anfi_dtype_settle(a), b = anfi_dtype_settle(b);
  return a == b || (anfi_dtype_is_int(a) && anfi_dtype_is_int(b));
}

static bool fail_branches(const anfi_applied *p, const anf_type *t) {
  anfi_fail(p->q->cx, anfi_node_loc(p->at), ANF_E0562, anfi_op[p->op].name);
  anfi_hint(p->q->cx, "write %s(...) for the number in the other branch",
            anf_dtype_name((anf_dtype)t->dtype));
  return anfi_infer_trace(p->q), false;
}

/* 7 // 0 is an error and 7.0 // 0 is not, nor is 7 ** -1: what a constant of the text is not. */
static bool fails_of_integers(const anfi_applied *p, const anf_type *out) {
  bool floats = anfi_is_tensor(out) && !anfi_dtype_is_int((anf_dtype)out->dtype);
  if (!(anfi_op[p->op].flags & ANFI_FAILS) || !floats) return false;
  const anf_value *v = p->n == 2 && p->in[1]->kind == ANFI_ABS_DATA ? p->in[1]->value : NULL;
  double x = v && v->n == 1 ? anfi_get_f64(v, 0) : 0;
  return !(x > 0 || (x < 0 && p->op != ANF_OP_Power));
}

/* Adds to `weak` the result's other type, for arguments of types `u` instead of `t`. */
static bool add_weak(const anfi_applied *p, const anf_type *const *t, const anf_type *const *u,
                     const anf_type *out, uint8_t *weak) {
  const anf_type *other = anfi_type_with(p, u, NULL);
  if (other == out && compares_alike(p, t, u)) return true;
  bool number = !fails_of_integers(p, out) && other && compares_alike(p, t, u) &&
                other->kind == ANF_TYPE_TENSOR && out->kind == ANF_TYPE_TENSOR &&
                anfi_dtype_is_weak((anf_dtype)other->dtype);
  if (number) {
    *weak |= anfi_weak_bit((anf_dtype)other->dtype);
    if (anfi_dtype_weak_becomes((anf_dtype)other->dtype, (anf_dtype)out->dtype)) return true;
    if (anfi_dtype_is_weak((anf_dtype)out->dtype) && other->dtype < out->dtype) return true;
  }
  size_t i = 0;
  while (i + 1 < p->n && u[i] == t[i]) i++;
  return fail_branches(p, t[i]);
}

/* 3 and 3.0 are one number, and not one text. */
static bool prints_alike(const anfi_abs *a) {
  if (a->kind != ANFI_ABS_DATA) return true;
  bool other = (a->weak & ANFI_WEAK_INT && a->type->dtype != ANF_I64) ||
               (a->weak & ANFI_WEAK_FLOAT && a->type->dtype != ANF_F64) ||
               (a->weak & ANFI_WEAK_COMPLEX && a->type->dtype != ANF_C128);
  return !other;
}

/* Arguments one by one, and all at once: they may come from different branches. */
bool anfi_meets_branches(const anfi_applied *p, const anf_type *const *t, const anf_type *out,
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
bool anfi_takes_one_branch(const anfi_applied *p, const anf_type *const *t) {
  if (!weak_bits(p)) return false;
  const anf_type **u = ANFI_NEW_N(p->q->arena, const anf_type *, p->n + 1);
  for (uint8_t bit = ANFI_WEAK_INT; bit <= ANFI_WEAK_COMPLEX; bit = (uint8_t)(bit * 2)) {
    size_t changed = p->n;
    for (size_t i = 0; i < p->n; i++)
      if ((u[i] = weak_type(p, i, t[i], bit)) != t[i]) changed = i;
    if (changed < p->n && !anfi_type_with(p, t, NULL) && anfi_type_with(p, u, NULL))
      return fail_branches(p, t[changed]), true;
  }
  return false;
}
