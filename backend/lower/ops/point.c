// SPDX-License-Identifier: Apache-2.0
/* Pointwise ops: their scalar code on the elements of inputs that broadcast.
 *   Mul(x, y), x: f64[3, 4], y: f64[4]   ->   x[i, j] * y[j] at (i, j) */
#include "backend/lower/math/scalar.h"

static anfi_elem at_point(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  anfi_elem in[MAX_INPUTS];
  const anf_type *types[MAX_INPUTS];
  for (size_t i = 0; i < v->nin; i++) {
    types[i] = v->in[i]->type;
    in[i] = anfi_view_at_broadcast(L, v->in[i], v->type->n, v->type->dims, p);
  }
  return anfi_scalar_emit(L, v->op, v->loc, v->attr, v->nin, in, types, v->type);
}

bool anfi_lower_pointwise(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *types[MAX_INPUTS];
  if (q->n > MAX_INPUTS) return false;
  for (size_t i = 0; i < q->n; i++) types[i] = q->in[i]->type;
  if (!anfi_scalar_supported(L->cx, q->op, q->n, types, q->type)) return false;
  out[0] = anfi_view_lazy(L, q, ORDER_POINT, at_point);
  return true;
}

static anfi_elem at_polygamma(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr x = anfi_t_cast(L->t, ANFI_F64, anfi_view_at(L, v->in[0], p).re);
  texpr in[2] = {anfi_t_s32(L->t, (int32_t)anfi_attr_int(v->attr[0])), x};
  texpr y = anfi_t_rt_call(L->t, TRT_anf_rt_polygamma, 2, in);
  return (anfi_elem){anfi_t_cast(L->t, anfi_low_dt(v->dtype), y), NULL};
}

bool anfi_lower_polygamma(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_FLAT, at_polygamma);
  return true;
}

static anfi_elem at_same(anfi_low *L, const anfi_view *v, const anfi_pt *p);

/* Reals that a Clip limits to the range of the type, or NaN: Cast(Clip(x, -128, 127), i8). */
static bool is_limited(const anfi_view *x, anf_dtype to) {
  double lo, hi, least, most;
  if (x->op != ANF_OP_Clip || x->kind != VIEW_LAZY || x->tensor || x->nin != 3) return false;
  if (x->dtype != ANF_F32 && x->dtype != ANF_F64) return false;
  if (x->in[1]->kind != VIEW_SCALAR || x->in[2]->kind != VIEW_SCALAR) return false;
  anfi_quantise_range(to, true, &least, &most);
  return anfi_s_is_number(x->in[1]->value.re, &lo) && anfi_s_is_number(x->in[2]->value.re, &hi) &&
         lo >= least && lo <= hi && hi <= most;
}

static bool is_whole_number(const anfi_view *x) {
  double k;
  if (x->kind == VIEW_SCALAR) return anfi_s_is_number(x->value.re, &k) && k == rint(k);
  return x->kind == VIEW_LAZY && !x->tensor && x->op == ANF_OP_Cast &&
         anfi_dtype_is_int(x->in[0]->dtype);
}

/* Is it a whole number, an infinity or NaN? Such are Round(x), an integer that was converted, and their sums. */
static bool is_whole(const anfi_view *x) {
  while (x->kind == VIEW_LAZY && !x->tensor && x->nin == 2 &&
         (x->op == ANF_OP_Add || x->op == ANF_OP_Sub) && is_whole_number(x->in[1]))
    x = x->in[0];
  return is_whole_number(x) || (x->kind == VIEW_LAZY && !x->tensor && x->op == ANF_OP_Round);
}

/* By way of s32, which vectors convert to in one step; NaN gives 0. */
static anfi_elem limited_cast(anfi_low *L, const anfi_view *v, texpr x) {
  texpr y = anfi_low_atom(L, anfi_t_cast(L->t, anfi_t_dt(ANF_TIR_s32), x));
  return (anfi_elem){anfi_t_cast(L->t, anfi_low_dt(v->dtype), y), NULL};
}

/* Whole numbers of few bits: 1.5 * 2^23 is added, and they are the low bits of the sum. A conversion would have to look
 * at both limits again. */
static anfi_elem whole_cast(anfi_low *L, const anfi_view *v, texpr x) {
  tstore *t = L->t;
  tdtype s32 = anfi_t_dt(ANF_TIR_s32);
  x = anfi_low_atom(L, x);
  texpr zero = anfi_low_const(L, x->dtype, 0),
        real = anfi_low_atom(L, anfi_t_select(t, anfi_t_bin(t, TX_cmp_eq, x, x), x, zero)),
        sum = anfi_low_atom(L, anfi_t_add(t, real, anfi_low_const(L, x->dtype, 0x1.8p23))),
        bits = anfi_t_intrin(t, TI_reinterpret, s32, 1, &sum, (tattrs){0});
  bits = anfi_low_atom(L, anfi_t_sub(t, anfi_low_atom(L, bits), anfi_t_int(t, s32, 0x4b400000)));
  return (anfi_elem){anfi_t_cast(t, anfi_low_dt(v->dtype), bits), NULL};
}

static anfi_elem at_cast(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anfi_view *x = v->in[0];
  bool code = anfi_dtype_is_int(v->dtype) && anf_dtype_bytes(v->dtype) <= 4 && v->dtype != ANF_U32;
  if (code && is_limited(x, (anf_dtype)v->dtype)) {
    bool whole = x->dtype == ANF_F32 && anf_dtype_bytes(v->dtype) <= 2 && is_whole(x->in[0]);
    return (whole ? whole_cast : limited_cast)(L, v, anfi_view_at(L, x, p).re);
  }
  return anfi_scalar_cast(L, anfi_view_at(L, v->in[0], p), v->in[0]->dtype, v->dtype);
}

/* Cast and CastLike; Key, which takes the bits of any integer. */
bool anfi_lower_cast(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  if (q->in[0]->dtype == ANF_KEY && q->type->dtype != ANF_KEY) return false;
  out[0] = anfi_view_lazy(L, q, ORDER_FLAT, at_cast);
  return true;
}

static anfi_elem at_bitcast(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr x = anfi_view_at(L, v->in[0], p).re;
  return (anfi_elem){anfi_t_intrin(L->t, TI_reinterpret, anfi_low_dt(v->dtype), 1, &x, (tattrs){0}),
                     NULL};
}

bool anfi_lower_bitcast(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool same = q->in[0]->dtype == q->type->dtype;
  out[0] = anfi_view_lazy(L, q, ORDER_FLAT, same ? at_same : at_bitcast);
  return true;
}

static anfi_elem at_same(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  return anfi_view_at(L, v->in[0], p);
}

/* The same elements in the same order: reshapes and identities. */
bool anfi_lower_same(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_view *x = q->in[0];
  if (x->kind == VIEW_LAZY && !x->tensor) {
    out[0] = anfi_view_lazy(L, q, ORDER_FLAT, at_same);
    return true;
  }
  out[0] = anfi_view_new(L, q->type, (anfi_view_kind)x->kind);
  out[0]->value = x->value;
  out[0]->tensor = x->tensor;
  if (x->kind == VIEW_LAZY) out[0]->kind = VIEW_BUFFER;
  return true;
}
