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

static anfi_elem at_cast(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  anfi_elem code;
  if (anfi_low_code_at(L, v, p, &code)) return code;
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

bool anfi_view_is_same(const anfi_view *v) { return v->at == at_same; }

/* The same elements in the same order: reshapes and identities. */
bool anfi_lower_same(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_view *x = q->in[0];
  if (anfi_view_is_lazy(x)) {
    out[0] = anfi_view_lazy(L, q, ORDER_FLAT, at_same);
    return true;
  }
  out[0] = anfi_view_new(L, q->type, (anfi_view_kind)x->kind);
  out[0]->value = x->value;
  out[0]->tensor = x->tensor;
  if (anfi_view_in_memory(x)) out[0]->kind = VIEW_BUFFER;
  return true;
}
