// SPDX-License-Identifier: Apache-2.0
/* Checks of numbers that compiling adds, as assertions of the graph (emit.h):
 *   x + i, x: u8, of an integer i without a type        assert(0 <= i < 256)
 *   (if c { 70 } else { f16(1) }) * 1000                assert(|result| < inf), for the number is 70000
 *   (if c { i } else { 1.0 }) + 1                       assert(|result| < 2^63), for an integer wraps there
 * A constant is checked when the code is made. */
#include "optimizer/infer/emit.h"

#include <float.h>
#include <math.h>

static anf_node *compare(anfi_emit *e, anfi_opcode op, anf_node *n, int64_t with) {
  anf_ctx *cx = e->q->cx;
  const anf_type *t = anfi_type_with_dtype(cx, n->type, ANF_BOOL);
  anf_node *in[2] = {n, anfi_emit_const(e, anfi_value_new_i64(cx, ANF_INT, with))};
  return anfi_emit_apply(e, op, NULL, t, 2, in);
}

/* E0561 in `to` unless all of `good` hold. */
static void assert_holds(anfi_emit *e, anf_node *good, anf_dtype to) {
  anf_ctx *cx = e->q->cx;
  if (good->type->n)
    good = anfi_emit_apply(e, ANF_OP_All, NULL, anfi_type_scalar(cx, ANF_BOOL), 1, &good);
  anf_node *in[2] = {good, anfi_emit_const(e, anfi_value_new_type(cx, anfi_type_scalar(cx, to)))};
  anfi_add_effect(
      e->g, anfi_emit_apply(e, ANF_OP_Assert, NULL, anfi_type_simple(cx, ANF_TYPE_NONE), 2, in));
}

void anfi_emit_check_range(anfi_emit *e, anf_node *n, anf_dtype to) {
  unsigned bits = 8 * (unsigned)anf_dtype_bytes(to);
  bool is_signed = anfi_dtype_class(to) == ANFI_CLASS_SIGNED;
  if (anfi_dtype_holds(to, INT64_MIN, INT64_MAX)) return;
  int64_t end = bits == 64 ? 0 : (int64_t)1 << (bits - is_signed);
  anf_node *good = compare(e, ANF_OP_GreaterEqual, n, is_signed ? -end : 0);
  if (end) {
    anf_node *both[2] = {good, compare(e, ANF_OP_Less, n, end)};
    good = anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, good->type, 2, both);
  }
  assert_holds(e, good, to);
}

static bool is_finite_in(const anf_value *v, double end) {
  size_t parts = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX ? 2 : 1;
  for (size_t i = 0; i < parts * v->n; i++) {
    double x = fabs(anfi_get_f64(v, i));
    if (x >= end && x <= DBL_MAX) return false;
  }
  return true;
}

static anf_node *as_float(anfi_emit *e, anf_node *n) {
  anf_ctx *cx = e->q->cx;
  const anf_type *real = anfi_type_with_dtype(cx, n->type, ANF_FLOAT);
  anf_value *d = anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_FLOAT));
  return anfi_emit_apply(e, ANF_OP_Cast, anfi_attrs_one(e->q->m, ANF_OP_Cast, d), real, 1, &n);
}

void anfi_emit_check_finite(anfi_emit *e, anf_node *n, anf_dtype to) {
  anf_ctx *cx = e->q->cx;
  bool constant = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  double end = anfi_dtype_infinite_from(to), of_int = n->type->dtype == ANF_INT ? 0x1p63 : INFINITY;
  if (end > of_int || isinf(end) || (constant && is_finite_in(n->u.value, end))) return;
  const anf_type *t = anfi_type_with_dtype(cx, n->type, ANF_BOOL);
  anf_node *x = n;
  anf_dtype part = anfi_dtype_part((anf_dtype)n->type->dtype);
  if (part != n->type->dtype) {
    const anf_type *real = anfi_type_with_dtype(cx, n->type, part);
    anfi_emit_check_finite(e, anfi_emit_apply(e, ANF_OP_Real, NULL, real, 1, &n), to);
    anfi_emit_check_finite(e, anfi_emit_apply(e, ANF_OP_Imag, NULL, real, 1, &n), to);
    return;
  }
  if (n->type->dtype == ANF_INT) x = as_float(e, n); // |x| of the least integer is that
  anf_node *size = anfi_emit_apply(e, ANF_OP_Abs, NULL, x->type, 1, &x);
  anf_node *below[2] = {size, anfi_emit_const(e, anfi_value_new_f64(cx, ANF_FLOAT, end))};
  anf_node *finite[2] = {size, anfi_emit_const(e, anfi_value_new_f64(cx, ANF_FLOAT, DBL_MAX))};
  anf_node *either[2] = {anfi_emit_apply(e, ANF_OP_Less, NULL, t, 2, below),
                         anfi_emit_apply(e, ANF_OP_LessEqual, NULL, t, 2, finite)};
  either[1] = anfi_emit_apply(e, ANF_OP_LogicalNot, NULL, t, 1, &either[1]);
  assert_holds(e, anfi_emit_apply(e, ANF_OP_LogicalOr, NULL, t, 2, either), to);
}

void anfi_emit_check_index(anfi_emit *e, anf_node *i, size_t n) {
  anf_ctx *cx = e->q->cx;
  int64_t known, count = (int64_t)n;
  if (i->kind == ANFI_VALUE && anfi_value_is_int(i->u.value, &known) && known >= -count &&
      known < count)
    return;
  anf_node *good = compare(e, ANF_OP_Less, i, count);
  if (anfi_dtype_class((anf_dtype)i->type->dtype) != ANFI_CLASS_UNSIGNED) {
    anf_node *both[2] = {compare(e, ANF_OP_GreaterEqual, i, -count), good};
    good = anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, good->type, 2, both);
  }
  const char *why = anfi_sprintf(e->arena, "there is no function of that index among %zu", n);
  anf_node *in[2] = {good, anfi_emit_const(e, anfi_value_new_string(cx, why, strlen(why)))};
  anfi_add_effect(
      e->g, anfi_emit_apply(e, ANF_OP_Assert, NULL, anfi_type_simple(cx, ANF_TYPE_NONE), 2, in));
}

/* |x| OP limit, of a number x. */
static anf_node *compare_size(anfi_emit *e, anfi_opcode op, anf_node *x, double limit) {
  anf_ctx *cx = e->q->cx;
  if (anfi_dtype_is_int((anf_dtype)x->type->dtype)) x = as_float(e, x);
  anf_dtype d = (anf_dtype)x->type->dtype;
  anf_dtype real = anfi_dtype_part(d);
  anf_node *size =
      anfi_emit_apply(e, ANF_OP_Abs, NULL, anfi_type_with_dtype(cx, x->type, real), 1, &x);
  anf_node *in[2] = {size, anfi_emit_const(e, anfi_value_new_f64(cx, ANF_FLOAT, limit))};
  return anfi_emit_apply(e, op, NULL, anfi_type_with_dtype(cx, x->type, ANF_BOOL), 2, in);
}

/* E0561 where |p| reaches the limit though no argument does. An argument of 0 makes a pole, or nothing large:
 * 1 / 0 is infinite of any type. */
static void assert_below(anfi_emit *e, anf_node *p, double limit, anf_dtype to) {
  const anf_type *t = anfi_type_with_dtype(e->q->cx, p->type, ANF_BOOL);
  anf_node *bad = compare_size(e, ANF_OP_GreaterEqual, p, limit);
  anfi_opcode within =
      isinf(limit) ? ANF_OP_Less : ANF_OP_LessEqual; // the greatest integer rounds to 2^63
  for (uint32_t i = 0; i < p->nin; i++) {
    anf_node *x = p->in[i].def;
    anf_node *in[2] = {bad, compare_size(e, within, x, limit)};
    in[0] = anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, t, 2, in);
    in[1] = compare_size(e, ANF_OP_Greater, x, 0);
    bad = anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, t, 2, in);
  }
  assert_holds(e, anfi_emit_apply(e, ANF_OP_LogicalNot, NULL, t, 1, &bad), to);
}

void anfi_emit_check_result(anfi_emit *e, anfi_opcode op, anf_node *p, uint8_t weak) {
  anf_dtype d = (anf_dtype)p->type->dtype;
  anfi_class class = anfi_dtype_class(d);
  if (p->type->kind != ANF_TYPE_TENSOR || !(anfi_op[op].flags & ANFI_GROWS)) return;
  if (class != ANFI_CLASS_FLOAT && class != ANFI_CLASS_COMPLEX) return;
  double end = anfi_dtype_infinite_from(d);
  if (end < 0x1p63)
    assert_below(e, p, INFINITY, d); // f32 reaches far: no check in each round of a loop
  else if (weak & ANFI_WEAK_INT) assert_below(e, p, 0x1p63, ANF_INT);
}
