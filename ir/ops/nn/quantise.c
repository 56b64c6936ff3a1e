// SPDX-License-Identifier: Apache-2.0
/* Quantised numbers: an integer q stands for the real (q - zero) * scale.
 *
 *     Quantize([0.5, -1], 0.1, dtype=i8)   ->  [5, -10]
 *     Dequantize([5, -10], 0.1)            ->  [0.5, -1.0]
 *
 * Scale and zero broadcast to x. Every step is rounded in f32, of f64 in f64, as the simple ops that the pass
 * quantize_inline makes of these round. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

static bool is_code(anf_dtype d) {
  return d == ANF_I8 || d == ANF_U8 || d == ANF_I16 || d == ANF_U16 || d == ANF_I32;
}

static bool good_code(const anfi_infer *q, anf_dtype d) {
  return is_code(d) || anfi_infer_fail(q, "dtype must be i8, u8, i16, u16 or i32");
}

/* A zero point of integers, if there is one. */
static bool good_zero(const anfi_infer *q) {
  if (!anfi_infer_given(q, 2)) return true;
  if (!anfi_is_tensor(q->in[2])) return anfi_infer_no_tensor(q, 2);
  return anfi_infer_indices(q, 2);
}

static bool real_inputs(const anfi_infer *q, anf_dtype *d) { // x scale zero?
  return anfi_infer_real(q, 0, 2, d) && good_zero(q) && good_code(q, anfi_attr_dtype(q->attr[0]));
}

bool anfi_infer_quantize(anfi_infer *q) {
  anf_dtype d;
  return real_inputs(q, &d) && anfi_infer_broadcast(q, anfi_attr_dtype(q->attr[0]));
}

bool anfi_infer_fake_quantize(anfi_infer *q) {
  anf_dtype d;
  return real_inputs(q, &d) && anfi_infer_broadcast(q, d);
}

bool anfi_infer_dequantize(anfi_infer *q) { // q scale zero?
  anf_dtype d;
  for (size_t i = 0; i < 2; i++)
    if (!anfi_is_tensor(q->in[i])) return anfi_infer_no_tensor(q, i);
  if (!anfi_infer_indices(q, 0) || !good_zero(q) || !anfi_infer_real(q, 1, 2, &d)) return false;
  return anfi_infer_broadcast(
      q, d == ANF_FLOAT ? ANF_F32 : d); // a number without a type is no reason for f64
}

bool anfi_infer_dynamic_quantize(anfi_infer *q) { // dtype axis
  anf_dtype d = ANF_F32, code = anfi_attr_dtype(q->attr[0]);
  uint32_t mask = 0;
  int64_t dims[ANF_MAX_RANK];
  const anf_type *x = q->in[0];
  if (!anfi_infer_real(q, 0, 1, &d) || !good_code(q, code)) return false;
  bool whole = !anfi_attr_given(q->attr[1]);
  if (whole) mask = UINT32_MAX;
  else if (!anfi_infer_axes(q, q->attr[1], x->n, &mask)) return false;
  for (uint32_t k = 0; k < x->n; k++) {
    if (!x->dims[k]) return anfi_infer_fail(q, "x has no element, and so no range");
    dims[k] = mask >> k & 1 ? 1 : x->dims[k];
  }
  size_t rank = whole ? 0 : x->n;
  const anf_type *items[3] = {anfi_type_with_dtype(q->cx, x, code),
                              anfi_type_tensor(q->cx, d, rank, dims),
                              anfi_type_tensor(q->cx, code, rank, dims)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 3, items));
}

/* [.., n] bytes become [.., n * 8 / bits] codes. */
bool anfi_infer_unpack_bits(anfi_infer *q) { // bits axis
  int64_t bits = anfi_attr_int(q->attr[0]), dims[ANF_MAX_RANK];
  size_t axis;
  if (!anfi_infer_tensors(q)) return false;
  const anf_type *t = q->in[0];
  if (t->dtype != ANF_U8 && t->dtype != ANF_I8)
    return anfi_infer_fail(q, "x must be bytes, u8 or i8");
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8)
    return anfi_infer_fail(q, "bits must be 1, 2, 4 or 8");
  if (!anfi_infer_axis(q, q->attr[1], t->n, &axis)) return false;
  for (size_t k = 0; k < t->n; k++)
    dims[k] = k == axis ? anfi_dims_mul(t->dims[k], 8 / bits) : t->dims[k];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
}

/* ---- evaluation ---- */

void anfi_quantise_range(anf_dtype code, bool wide, double *lo, double *hi) {
  int bits = 8 * (int)anf_dtype_bytes(code);
  bool sign = anfi_dtype_class(code) == ANFI_CLASS_SIGNED;
  *lo = sign ? -ldexp(1, bits - 1) : 0;
  *hi = ldexp(1, sign ? bits - 1 : bits) - 1;
  if (!wide && bits > 24) *hi = ldexp(1, bits - 1) - ldexp(1, bits - 25); // the next f32 below
}

anf_dtype anfi_quantise_dtype(anf_dtype d) {
  return d == ANF_F64 || d == ANF_FLOAT ? ANF_F64 : ANF_F32;
}

/* A vector, such as the zero points of channels, is no weight. */
static bool is_weight(const anf_type *t) {
  enum { SMALL = 64 };
  size_t n, wide = 0;
  for (uint32_t i = 0; i < t->n; i++) wide += t->dims[i] != 1;
  return wide > 1 && (!anfi_type_elements(t, &n) || n > SMALL);
}

bool anfi_widens_codes(anfi_opcode op, const anf_type *from, const anf_type *to) {
  if (!from || !anfi_is_tensor(from) || !anfi_is_tensor(to)) return false;
  if (op == ANF_OP_Dequantize) return to->n > 0; // becomes simple ops if no product reads it
  if (op == ANF_OP_UnpackBits) return is_weight(to);
  return op == ANF_OP_Cast && to->dtype == ANF_I32 && is_weight(to) &&
         (from->dtype == ANF_I8 || from->dtype == ANF_U8);
}

/* One step, in the type that is computed in. */
static double rounded(bool wide, double x) { return wide ? x : (double)(float)x; }

typedef struct {
  bool wide;
  double lo, hi;
} code_range;

static code_range range_of(anf_dtype code, anf_dtype real) {
  code_range r = {.wide = anfi_quantise_dtype(real) == ANF_F64};
  anfi_quantise_range(code, r.wide, &r.lo, &r.hi);
  return r;
}

/* The integer for x, or NaN. A quotient or sum of two floats that is rounded to double first is rounded to f32 as if at
 * once: a double has more than twice as many digits. */
static double to_code(const code_range *r, double x, double scale, double zero) {
  double t = rounded(r->wide, rint(rounded(r->wide, x / scale)) + zero);
  return t < r->lo ? r->lo : t > r->hi ? r->hi : t;
}

static double from_code(bool wide, double q, double scale, double zero) {
  double d = rounded(wide, rounded(wide, q) - rounded(wide, zero));
  return rounded(wide, d * rounded(wide, scale));
}

typedef struct {
  const double *x, *scale, *zero; // zero: or NULL
  anfi_nd it;
} operands;

static operands operands_of(anfi_eval *q) {
  const anf_value *z = anfi_eval_given(q, 2);
  operands o = {.x = anfi_load_f64(q->scratch, q->in[0]),
                .scale = anfi_load_f64(q->scratch, q->in[1]),
                .zero = z ? anfi_load_f64(q->scratch, z) : NULL};
  anfi_nd_init(&o.it, q->type->n, q->type->dims);
  anfi_nd_broadcast(&o.it, 0, q->in[0]->type);
  anfi_nd_broadcast(&o.it, 1, q->in[1]->type);
  if (z) anfi_nd_broadcast(&o.it, 2, z->type);
  return o;
}

/* The type that x and scale are computed in. */
static anf_dtype real_of(const anfi_eval *q) {
  anf_dtype d = ANF_F32;
  anfi_dtype_promote((anf_dtype)q->in[0]->type->dtype, (anf_dtype)q->in[1]->type->dtype, &d);
  return anfi_dtype_is_float(d) ? d : ANF_F64;
}

static void set_code(anf_value *v, size_t i, double t) {
  anfi_set_i64(v, i, isnan(t) ? 0 : (int64_t)t);
}

bool anfi_eval_quantize(anfi_eval *q) {
  operands o = operands_of(q);
  code_range r = range_of((anf_dtype)q->type->dtype, real_of(q));
  for (size_t i = 0; o.it.more; i++, anfi_nd_next(&o.it)) {
    double z = o.zero ? o.zero[o.it.at[2]] : 0;
    double x = rounded(r.wide, o.x[o.it.at[0]]), s = rounded(r.wide, o.scale[o.it.at[1]]);
    set_code(q->out, i, to_code(&r, x, s, rounded(r.wide, z)));
  }
  return true;
}

bool anfi_eval_dequantize(anfi_eval *q) {
  operands o = operands_of(q);
  bool wide = anfi_quantise_dtype((anf_dtype)q->type->dtype) == ANF_F64;
  for (size_t i = 0; o.it.more; i++, anfi_nd_next(&o.it)) {
    double z = o.zero ? o.zero[o.it.at[2]] : 0;
    anfi_set_f64(q->out, i, from_code(wide, o.x[o.it.at[0]], o.scale[o.it.at[1]], z));
  }
  return true;
}

bool anfi_eval_fake_quantize(anfi_eval *q) {
  operands o = operands_of(q);
  code_range r = range_of(anfi_attr_dtype(q->attr[0]), (anf_dtype)q->type->dtype);
  for (size_t i = 0; o.it.more; i++, anfi_nd_next(&o.it)) {
    double z = rounded(r.wide, o.zero ? o.zero[o.it.at[2]] : 0);
    double x = rounded(r.wide, o.x[o.it.at[0]]), s = rounded(r.wide, o.scale[o.it.at[1]]);
    double t = to_code(&r, x, s, z);
    anfi_set_f64(q->out, i, from_code(r.wide, isnan(t) ? 0 : t, s, z));
  }
  return true;
}

/* The least and the greatest of the elements and 0; NaN if one is. */
static void extent_of(const anfi_groups *g, size_t group, const double *x, double *lo, double *hi) {
  *lo = *hi = 0;
  for (size_t k = 0; k < g->size; k++) {
    double v = x[g->base[group] + g->at[k]];
    if (isnan(v) || isnan(*lo)) *lo = *hi = NAN;
    else if (v < *lo) *lo = v;
    else if (v > *hi) *hi = v;
  }
}

bool anfi_eval_dynamic_quantize(anfi_eval *q) {
  anf_dtype code = anfi_attr_dtype(q->attr[0]), d = (anf_dtype)q->type->items[1]->dtype;
  code_range r = range_of(code, d);
  const double *x = anfi_load_f64(q->scratch, q->in[0]);
  anfi_groups g =
      anfi_groups_of(q->scratch, q->in[0]->type, anfi_reduced_axes(q->attr[1], q->in[0]->type->n));
  q->out = anfi_value_new_tuple(q->cx, 3);
  for (size_t i = 0; i < 3; i++)
    q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
  anf_value **out = q->out->u.item;
  for (size_t i = 0; i < g.count; i++) {
    double lo, hi, zero = 0;
    extent_of(&g, i, x, &lo, &hi);
    double span = r.lo < 0 ? fmax(-lo, hi) : rounded(r.wide, hi - lo);
    if (isnan(lo)) span = NAN;
    anfi_set_f64(out[1], i, rounded(r.wide, span / r.hi));
    double s = anfi_get_f64(out[1], i);
    if (s == 0) anfi_set_f64(out[1], i, s = 1);
    if (r.lo == 0) zero = to_code(&r, -lo, s, 0);
    set_code(out[2], i, zero);
    for (size_t k = 0; k < g.size; k++) {
      size_t at = g.base[i] + g.at[k];
      set_code(out[0], at, to_code(&r, x[at], s, isnan(zero) ? 0 : zero));
    }
  }
  return true;
}

/* Code `nth` of a byte. */
static int64_t code_of(uint8_t byte, unsigned bits, size_t nth, bool sign) {
  int64_t code = byte >> bits * nth & ((1 << bits) - 1), half = INT64_C(1) << (bits - 1);
  return sign && code >= half ? code - 2 * half : code;
}

bool anfi_eval_unpack_bits(anfi_eval *q) {
  unsigned bits = (unsigned)anfi_attr_int(q->attr[0]);
  size_t outer, n, inner, axis, per = 8 / bits, to = 0;
  const uint8_t *x = (const uint8_t *)q->in[0]->data;
  bool sign = q->type->dtype == ANF_I8;
  anfi_axis_in(anfi_attr_int(q->attr[1]), q->type->n, &axis);
  anfi_split_axis(q->in[0]->type, axis, &outer, &n, &inner);
  for (size_t i = 0; i < outer * n; i++)
    for (size_t k = 0; k < per; k++)
      for (size_t j = 0; j < inner; j++)
        anfi_set_i64(q->out, to++, code_of(x[i * inner + j], bits, k, sign));
  return true;
}
