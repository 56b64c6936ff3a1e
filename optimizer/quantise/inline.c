// SPDX-License-Identifier: Apache-2.0
/* quantize_inline: ops of quantised numbers become the simple ops that they stand for.
 *   Quantize(x, s, z, dtype=i8)   ->  Cast(Clip(Round(x / s) + z, -128, 127), i8)
 *   Dequantize(q, s, z)           ->  (Cast(q, f32) - z) * s
 *   DynamicQuantize(x)            ->  scale = (Max(x) - Min(x)) / 255 and so on, as a tuple
 * Each step is an op that rounds as the reference kernel (ir/ops/nn/quantise.c) does, so no bit changes. */
#include "optimizer/quantise/quantise.h"

static anf_node *limited(quantiser *q, anf_node *x, anf_dtype code) {
  double lo, hi;
  if (!x) return NULL;
  anf_dtype d = (anf_dtype)x->type->dtype;
  anfi_quantise_range(code, d == ANF_F64, &lo, &hi);
  anf_node *in[3] = {x, anfi_q_number(q, d, lo), anfi_q_number(q, d, hi)};
  return anfi_q_apply(q, ANF_OP_Clip, NULL, 3, in);
}

/* The codes of x, still reals of type d. */
static anf_node *codes(quantiser *q, anf_node *x, anf_node *scale, anf_node *zero, anf_dtype code,
                       anf_dtype d) {
  anf_node *t = anfi_q_cast(q, x, d);
  t = anfi_q_apply2(q, ANF_OP_Div, t, anfi_q_cast(q, scale, d));
  t = anfi_q_apply1(q, ANF_OP_Round, t);
  if (zero) t = anfi_q_apply2(q, ANF_OP_Add, t, anfi_q_cast(q, zero, d));
  return limited(q, t, code);
}

static anf_node *reals(quantiser *q, anf_node *x, anf_node *scale, anf_node *zero, anf_dtype d) {
  anf_node *t = anfi_q_cast(q, x, d);
  if (zero) t = anfi_q_apply2(q, ANF_OP_Sub, t, anfi_q_cast(q, zero, d));
  return anfi_q_apply2(q, ANF_OP_Mul, t, anfi_q_cast(q, scale, d));
}

static anf_dtype code_attr(const anf_node *n) {
  return anfi_attr_dtype(anfi_attr_value(n->graph->module->cx, (anfi_opcode)n->op, n->u.attrs, 0));
}

/* The type that x and scale are computed in. */
static anf_dtype real_of(const anf_node *n) {
  anf_dtype d = ANF_F32;
  anfi_dtype_promote((anf_dtype)n->in[0].def->type->dtype, (anf_dtype)n->in[1].def->type->dtype,
                     &d);
  return anfi_dtype_is_float(d) ? anfi_quantise_dtype(d) : ANF_F64;
}

static anf_node *inline_one(quantiser *q, anf_node *n) {
  anf_node *x = n->in[0].def, *scale = n->in[1].def, *zero = anfi_q_input(n, 2);
  anf_dtype to = (anf_dtype)n->type->dtype, d = anfi_quantise_dtype(to);
  if (n->op == ANF_OP_Dequantize) return anfi_q_cast(q, reals(q, x, scale, zero, d), to);
  d = real_of(n);
  anf_node *t = codes(q, x, scale, zero, code_attr(n), d);
  if (n->op == ANF_OP_FakeQuantize) {
    anf_node *nan = t ? anfi_q_apply1(q, ANF_OP_IsNan, t) : NULL; // NaN has the code 0
    anf_node *in[3] = {nan, anfi_q_number(q, d, 0), t};
    t = reals(q, anfi_q_apply(q, ANF_OP_Where, NULL, 3, in), scale, zero, d);
  }
  return anfi_q_cast(q, t, to);
}

/* ---- DynamicQuantize ---- */

/* The extreme of x along the op's axes, and of 0. */
static anf_node *extreme(quantiser *q, const anf_node *n, anfi_opcode op, anf_node *x) {
  anf_ctx *cx = q->r.m->cx;
  anf_value *axis = anfi_attr_value(cx, ANF_OP_DynamicQuantize, n->u.attrs, 1);
  anf_value *at[2] = {axis, anfi_value_new_i64(cx, ANF_BOOL, anfi_attr_given(axis))};
  const anfi_attrs *attrs;
  anfi_value_guard(at[1]);
  anfi_attrs_new(q->r.m, op, at, anfi_nowhere(), &attrs);
  anfi_value_unguard(at[1]);
  anf_value_release(at[1]);
  anf_node *m = anfi_q_apply(q, op, attrs, 1, &x);
  if (!m) return NULL;
  anf_node *zero = anfi_q_number(q, (anf_dtype)m->type->dtype, 0);
  return anfi_q_apply2(q, op == ANF_OP_Max ? ANF_OP_Maximum : ANF_OP_Minimum, m, zero);
}

static anf_node *dynamic(quantiser *q, anf_node *n) {
  anf_node *in = n->in[0].def, *out[3];
  anf_dtype code = code_attr(n), to = (anf_dtype)n->type->items[1]->dtype,
            d = anfi_quantise_dtype(to);
  bool sign = anfi_dtype_class(code) == ANFI_CLASS_SIGNED;
  double least, most;
  anfi_quantise_range(code, d == ANF_F64, &least, &most);
  anf_node *x = anfi_q_cast(q, in, d);
  anf_node *lo = extreme(q, n, ANF_OP_Min, x), *hi = extreme(q, n, ANF_OP_Max, x);
  anf_node *down = lo ? anfi_q_apply1(q, ANF_OP_Neg, lo) : NULL;
  anf_node *span = anfi_q_apply2(q, sign ? ANF_OP_Maximum : ANF_OP_Add, down, hi);
  anf_node *scale = anfi_q_apply2(q, ANF_OP_Div, span, anfi_q_number(q, d, most));
  scale = anfi_q_cast(q, scale, to);
  if (!scale) return NULL;
  anf_node *flat = anfi_q_apply2(q, ANF_OP_Equal, scale, anfi_q_number(q, to, 0));
  out[1] = anfi_q_apply(q, ANF_OP_Where, NULL, 3,
                        (anf_node *const[]){flat, anfi_q_number(q, to, 1), scale});
  anf_node *zero =
      sign ? anfi_q_apply1(q, ANF_OP_ZerosLike, out[1]) : codes(q, down, out[1], NULL, code, d);
  out[2] = zero ? anfi_q_cast(q, zero, code) : NULL;
  if (!out[2]) return NULL;
  out[0] = anfi_q_cast(q, codes(q, x, out[1], sign ? NULL : out[2], code, d), code);
  return anfi_q_apply(q, ANF_OP_MakeTuple, NULL, 3, out);
}

static anf_node *expand(quantiser *q, anf_node *n) {
  if (!anfi_q_is_quantised(n)) return NULL;
  return n->op == ANF_OP_DynamicQuantize ? dynamic(q, n) : inline_one(q, n);
}

bool anfi_opt_quantize_inline(anfi_pass *p) {
  return anfi_quantise_each(p, anfi_q_is_quantised, expand);
}
