// SPDX-License-Identifier: Apache-2.0
/* Tensors made of a shape or a range: constants of every element, or functions of the index.
 *   Zeros((3,))  ->  0 at each i;    Arange(2, 10, 3)  ->  2 + 3 i at i */
#include "backend/lower/low.h"

static bool splat(anfi_low *L, const anfi_low_op *q, anfi_elem e, anfi_view **out) {
  out[0] = anfi_view_new(L, q->type, VIEW_SCALAR);
  out[0]->value = e;
  return true;
}

static anfi_elem number(anfi_low *L, anf_dtype d, double v) {
  tdtype t = anfi_low_dt(d);
  return (anfi_elem){anfi_low_const(L, t, v), anfi_low_complex(d) ? anfi_low_const(L, t, 0) : NULL};
}

bool anfi_lower_fill(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool ones = q->op == ANF_OP_Ones || q->op == ANF_OP_OnesLike;
  return splat(L, q, number(L, (anf_dtype)q->type->dtype, ones), out);
}

/* Full(value) and FullLike(x, value). */
bool anfi_lower_full(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anfi_view *x = q->in[q->op == ANF_OP_FullLike];
  if (x->dtype == ANF_KEY && q->type->dtype != ANF_KEY) return false;
  anfi_elem e = anfi_view_at(L, x, &(anfi_pt){0});
  e = anfi_scalar_cast(L, e, x->dtype, (anf_dtype)q->type->dtype);
  e.re = anfi_low_atom(L, e.re);
  if (e.im) e.im = anfi_low_atom(L, e.im);
  return splat(L, q, e, out);
}

/* A real number of any type, from a real or an integer in 64 bits. */
static anfi_elem as(anfi_low *L, const anfi_view *v, texpr x, anf_dtype from) {
  return anfi_scalar_cast(L, (anfi_elem){x, NULL}, from, v->dtype);
}

static anfi_elem at_eye(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr at[2];
  anfi_pt_dims(L, p, 2, v->type->dims, at);
  texpr on = anfi_t_bin(L->t, TX_cmp_eq, anfi_ix_addc(L, at[0], anfi_attr_int(v->attr[2])), at[1]);
  anfi_elem one = number(L, v->dtype, 1), zero = number(L, v->dtype, 0);
  one.re = anfi_t_select(L->t, on, one.re, zero.re);
  return one;
}

bool anfi_lower_eye(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_eye);
  return true;
}

/* start + i * step in 64-bit integers. */
static anfi_elem at_int_range(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  tstore *t = L->t;
  texpr i = anfi_t_cast(t, ANFI_S64, anfi_pt_linear(L, p));
  texpr x = anfi_t_mul(t, i, anfi_t_int(t, ANFI_S64, anfi_attr_int(v->attr[2])));
  x = anfi_t_add(t, x, anfi_t_int(t, ANFI_S64, anfi_attr_int(v->attr[0])));
  return as(L, v, anfi_low_atom(L, x), ANF_I64);
}

static texpr on_line(anfi_low *L, const anfi_pt *p, double start, double step) {
  texpr i = anfi_t_cast(L->t, ANFI_F64, anfi_t_cast(L->t, ANFI_S64, anfi_pt_linear(L, p)));
  texpr x = anfi_t_mul(L->t, i, anfi_low_const(L, ANFI_F64, step));
  return anfi_t_add(L->t, anfi_low_const(L, ANFI_F64, start), x);
}

static anfi_elem at_real_range(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr x = on_line(L, p, anfi_attr_float(v->attr[0]), anfi_attr_float(v->attr[2]));
  return as(L, v, anfi_low_atom(L, x), ANF_F64);
}

bool anfi_lower_arange(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool ints = true;
  for (size_t k = 0; k < 3; k++)
    ints &= anfi_dtype_class((anf_dtype)q->attr[k]->type->dtype) < ANFI_CLASS_FLOAT;
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, ints ? at_int_range : at_real_range);
  return true;
}

static anfi_elem at_linspace(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  double start = anfi_attr_float(v->attr[0]), stop = anfi_attr_float(v->attr[1]);
  bool endpoint = anfi_attr_bool(v->attr[3]) && v->n > 1;
  double step = (stop - start) / (double)(endpoint ? v->n - 1 : v->n);
  texpr x = on_line(L, p, start, step);
  if (endpoint) {
    texpr last = anfi_t_bin(L->t, TX_cmp_eq, anfi_pt_linear(L, p), anfi_ix(L, v->n - 1));
    x = anfi_t_select(L->t, last, anfi_low_const(L, ANFI_F64, stop), x);
  }
  return as(L, v, anfi_low_atom(L, x), ANF_F64);
}

bool anfi_lower_linspace(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_linspace);
  return true;
}

/* x.T, or a number. */
bool anfi_lower_get_field(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anf_value *order = anfi_attr_value(L->cx, ANF_OP_Transpose, NULL, 0);
  anfi_low_op t = *q;
  if (strcmp(q->attr[0]->u.text, "T") != 0) return anfi_lower_shape(L, q, out);
  t.op = ANF_OP_Transpose;
  t.attr = &order;
  return anfi_lower_transpose(L, &t, out);
}

/* Shape, Rank, Size, Len, and fields of tensors: numbers that the type has. */
bool anfi_lower_shape(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  if (!q->in[0]) return false;
  const anf_type *x = q->in[0]->type;
  const char *field = q->op == ANF_OP_GetField ? q->attr[0]->u.text : "";
  bool shape = q->op == ANF_OP_Shape || strcmp(field, "shape") == 0;
  for (uint32_t i = 0; i < (shape ? x->n : 1); i++) {
    const anf_type *t = shape ? q->type->items[i] : q->type;
    bool rank = q->op == ANF_OP_Rank || strcmp(field, "ndim") == 0,
         size = q->op == ANF_OP_Size || strcmp(field, "size") == 0;
    int64_t v = rank ? (int64_t)x->n : size ? (int64_t)q->in[0]->n : x->dims[i];
    out[i] = anfi_view_scalar(L, t, anfi_t_int(L->t, anfi_low_dt((anf_dtype)t->dtype), v));
  }
  return true;
}
