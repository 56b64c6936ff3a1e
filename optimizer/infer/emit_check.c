// SPDX-License-Identifier: Apache-2.0
/* Checks of numbers that compiling adds, as assertions of the graph (emit.h):
 *   x + i, x: u8, of an integer i without a type        assert(0 <= i < 256)
 *   (if c { 70 } else { f16(1) }) * 1000                assert(|result| < inf), for the number is 70000
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

/* The least number that a float type rounds to infinity; infinity: there is none. */
static double overflow_of(anf_dtype d) {
  switch (d) {
  case ANF_F16: return 65520;
  case ANF_BF16: return 0x1.FFp127;
  case ANF_F32:
  case ANF_C64: return 0x1.FFFFFFp127;
  default: return INFINITY;
  }
}

static bool is_finite_in(const anf_value *v, double end) {
  for (size_t i = 0; i < v->n; i++) {
    double x = fabs(anfi_get_f64(v, i));
    if (x >= end && x <= DBL_MAX) return false;
  }
  return true;
}

void anfi_emit_check_finite(anfi_emit *e, anf_node *n, anf_dtype to) {
  anf_ctx *cx = e->q->cx;
  bool constant = n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  double end = overflow_of(to), of_int = n->type->dtype == ANF_INT ? 0x1p63 : INFINITY;
  if (end > of_int || isinf(end) || (constant && is_finite_in(n->u.value, end))) return;
  const anf_type *t = anfi_type_with_dtype(cx, n->type, ANF_BOOL);
  anf_node *x = n;
  if (n->type->dtype == ANF_INT) { // |x| of the least integer is that
    const anf_type *real = anfi_type_with_dtype(cx, n->type, ANF_FLOAT);
    anf_value *d = anfi_value_new_type(cx, anfi_type_scalar(cx, ANF_FLOAT));
    x = anfi_emit_apply(e, ANF_OP_Cast, anfi_attrs_one(e->q->m, ANF_OP_Cast, d), real, 1, &n);
  }
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

/* Ops whose result may be too large where no argument is. */
static bool may_overflow(anfi_opcode op) {
  static const anfi_opcode ops[] = {ANF_OP_Add,    ANF_OP_Sub, ANF_OP_Mul,   ANF_OP_Div,
                                    ANF_OP_Square, ANF_OP_Exp, ANF_OP_Power, ANF_OP_Expm1,
                                    ANF_OP_Sinh,   ANF_OP_Cosh};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (ops[i] == op) return true;
  return false;
}

/* Is n a finite number that is not 0, by which 1 may be divided? */
static anf_node *is_proper(anfi_emit *e, anf_node *n, bool no_zero) {
  anf_ctx *cx = e->q->cx;
  const anf_type *t = anfi_type_with_dtype(cx, n->type, ANF_BOOL);
  anf_node *good = anfi_emit_apply(e, ANF_OP_IsFinite, NULL, t, 1, &n);
  if (!no_zero) return good;
  anf_node *of[2] = {n, anfi_emit_const(e, anfi_value_new_f64(cx, ANF_FLOAT, 0))};
  anf_node *both[2] = {good, anfi_emit_apply(e, ANF_OP_NotEqual, NULL, t, 2, of)};
  return anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, t, 2, both);
}

void anfi_emit_check_result(anfi_emit *e, anfi_opcode op, anf_node *p) {
  if (p->type->kind != ANF_TYPE_TENSOR || p->type->dtype != ANF_F16 || !may_overflow(op)) return;
  const anf_type *t = anfi_type_with_dtype(e->q->cx, p->type, ANF_BOOL);
  anf_node *inf = anfi_emit_apply(e, ANF_OP_IsInf, NULL, t, 1, &p);
  bool poles = op == ANF_OP_Div || op == ANF_OP_Power; // 1 / 0 is infinite of any type
  for (uint32_t i = 0; i < p->nin; i++) {
    anf_node *both[2] = {inf, is_proper(e, p->in[i].def, poles)};
    inf = anfi_emit_apply(e, ANF_OP_LogicalAnd, NULL, t, 2, both);
  }
  assert_holds(e, anfi_emit_apply(e, ANF_OP_LogicalNot, NULL, t, 1, &inf), ANF_F16);
}
