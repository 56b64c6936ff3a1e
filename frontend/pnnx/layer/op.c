// SPDX-License-Identifier: Apache-2.0
/* What builders of layers make: values of attributes, and the small ops that many of them need.
 *   anfi_layer_reshape(l, &x, 2, (int64_t[]){2, 3}, &y)   ->   y = Reshape(x, shape=(2, 3)) */
#include "frontend/pnnx/pnnx.h"

anf_value *anfi_layer_v_int(const anfi_layer *l, int64_t v) {
  return anfi_torch_own(l->t, anfi_value_new_i64(l->t->cx, ANF_INT, v));
}
anf_value *anfi_layer_v_bool(const anfi_layer *l, bool v) {
  return anfi_torch_own(l->t, anfi_value_new_i64(l->t->cx, ANF_BOOL, v));
}
anf_value *anfi_layer_v_real(const anfi_layer *l, double v) {
  return anfi_torch_own(l->t, anfi_value_new_f64(l->t->cx, ANF_FLOAT, v));
}
anf_value *anfi_layer_v_text(const anfi_layer *l, const char *v) {
  return anfi_torch_own(l->t, anfi_value_new_string(l->t->cx, v, strlen(v)));
}
anf_value *anfi_layer_v_ints(const anfi_layer *l, size_t n, const int64_t *v) {
  return anfi_torch_own(l->t, anfi_value_new_ints(l->t->cx, n, v));
}
anf_value *anfi_layer_v_dtype(const anfi_layer *l, anf_dtype d) {
  return anfi_torch_own(l->t, anfi_value_new_type(l->t->cx, anfi_type_scalar(l->t->cx, d)));
}

anfi_operand anfi_layer_constant(const anfi_layer *l, anf_dtype d, size_t rank, const int64_t *dims,
                                 const double *v) {
  anf_ctx *cx = l->t->cx;
  anf_value *t =
      anfi_torch_own(l->t, anfi_value_new_tensor(cx, anfi_type_tensor(cx, ANF_F64, rank, dims)));
  if (t->n) memcpy(t->data, v, t->n * sizeof *v);
  if (d != ANF_F64) t = anfi_torch_own(l->t, anfi_value_cast(t, d));
  return anfi_operand_value(cx, t);
}

bool anfi_layer_op(const anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                   size_t nattr, const anf_attr *attrs, anfi_operand *out) {
  return anfi_torch_op(l->t, op, n, in, nattr, attrs, out);
}

bool anfi_layer_result(anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                       size_t nattr, const anf_attr *attrs) {
  l->nresult = 1;
  return anfi_layer_op(l, op, n, in, nattr, attrs, &l->out[0]);
}

bool anfi_layer_along(const anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                      int64_t axis, anfi_operand *out) {
  anf_attr a = {"axis", anfi_layer_v_int(l, axis), NULL};
  return anfi_layer_op(l, op, n, in, 1, &a, out);
}

bool anfi_layer_swap(const anfi_layer *l, const anfi_operand *x, int64_t i, int64_t j,
                     anfi_operand *out) {
  anf_attr a[] = {{"axis1", anfi_layer_v_int(l, i), NULL}, {"axis2", anfi_layer_v_int(l, j), NULL}};
  return anfi_layer_op(l, ANF_OP_SwapAxes, 1, x, 2, a, out);
}

bool anfi_layer_take(const anfi_layer *l, const anfi_operand *x, const anfi_operand *at,
                     int64_t axis, anfi_operand *out) {
  return anfi_layer_along(l, ANF_OP_Take, 2, (const anfi_operand[]){*x, *at}, axis, out);
}

bool anfi_layer_op1(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, anfi_operand *out) {
  return anfi_torch_op(l->t, op, 1, a, 0, NULL, out);
}

bool anfi_layer_op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a,
                    const anfi_operand *b, anfi_operand *out) {
  return anfi_torch_op(l->t, op, 2, (const anfi_operand[]){*a, *b}, 0, NULL, out);
}

bool anfi_layer_reshape(const anfi_layer *l, const anfi_operand *x, size_t n, const int64_t *dims,
                        anfi_operand *out) {
  anf_attr a = {"shape", anfi_layer_v_ints(l, n, dims), NULL};
  return anfi_layer_op(l, ANF_OP_Reshape, 1, x, 1, &a, out);
}

bool anfi_layer_transpose(const anfi_layer *l, const anfi_operand *x, size_t n, const int64_t *axes,
                          anfi_operand *out) {
  anf_attr a = {"axes", anfi_layer_v_ints(l, n, axes), NULL};
  return anfi_layer_op(l, ANF_OP_Transpose, 1, x, 1, &a, out);
}

bool anfi_layer_slice(const anfi_layer *l, const anfi_operand *x, int64_t axis, int64_t start,
                      int64_t stop, anfi_operand *out) {
  anf_attr a[] = {{"start", anfi_layer_v_int(l, start), NULL},
                  {"stop", anfi_layer_v_int(l, stop), NULL},
                  {"axis", anfi_layer_v_int(l, axis), NULL}};
  return anfi_layer_op(l, ANF_OP_Slice, 1, x, 3, a, out);
}

bool anfi_layer_expression(const anfi_layer *l, const anfi_parameter *p, anfi_operand *out) {
  anfi_loc start = anfi_pnnx_at(l->op, p->col);
  anf_expr *e = anfi_expr_read(l->t->cx, p->text, strlen(p->text), start, l->op->nin);
  if (!e) return false;
  for (size_t i = 0; i < e->nodes.n; i++) // by number
    if (e->nodes.at[i].n.kind == ANF_EXPR_INPUT) l->op->in_used[e->nodes.at[i].n.input] = true;
  bool good = anfi_expr_emit(l->t, e, l->op->nin, l->in, out);
  anfi_undefer(l->t->cx, e);
  anf_expr_free(e);
  return good;
}
