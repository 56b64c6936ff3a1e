// SPDX-License-Identifier: Apache-2.0
/* pnnx.Expression, and the operators of expressions as operators of their own.
 *   torch.add a 2 1 x y z alpha=2   ->   z = x + y * 2, with PyTorch's rules of types (torch_rules.c) */
#include "frontend/pnnx/pnnx.h"

/* An input, or a parameter where a number stands. */
static bool operand(const anfi_layer *l, const char *key, size_t place, anfi_operand *x) {
  if (anfi_layer_given(l, key)) return anfi_layer_arg(l, key, x);
  return anfi_layer_tensor(l, key, place, x);
}

bool anfi_pnnx_make_where(anfi_layer *l) {
  anfi_operand in[3];
  if (!anfi_layer_tensor(l, "condition", 0, &in[0]) || !operand(l, "input", 1, &in[1]) ||
      !operand(l, "other", 2, &in[2]))
    return false;
  if (!anfi_torch_promote(l->t, 2, &in[1])) return false;
  if (in[1].number && in[2].number) { // what numbers are by themselves
    bool real = in[1].type->dtype == ANF_FLOAT || in[2].type->dtype == ANF_FLOAT;
    for (size_t i = 1; i < 3; i++)
      if (!anfi_torch_cast(l->t, &in[i], real ? ANF_F32 : ANF_I64, &in[i])) return false;
  }
  return anfi_layer_result(l, ANF_OP_Where, 3, in, 0, NULL);
}

/* A word that is no number and no operator: a text that an operator takes, such as indexing=xy. */
static bool is_text(const anfi_layer *l, const anfi_parameter *p) {
  static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  static const char *const constants[] = {"True", "False", "None", "inf", "nan"};
  size_t n = strlen(p->text);
  for (size_t i = 0; i < ANFI_LEN(constants); i++)
    if (strcmp(p->text, constants[i]) == 0) return false;
  return !l->op->nin && n && strspn(p->text, letters) == n && strspn(p->text, letters + 10) &&
         !anfi_expr_find(p->text, n);
}

bool anfi_pnnx_make_expression(anfi_layer *l) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, "expr");
  if (!p) return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", "expr");
  anfi_layer_ignore(l, "expr");
  l->nresult = 1;
  if (is_text(l, p)) {
    anf_value *v = anfi_layer_v_text(l, p->text);
    const anf_type *t = anf_value_type(l->t->cx, v);
    if (!t) anfi_throw_nomem(l->t->cx);
    l->out[0] = (anfi_operand){.kind = ANFI_OPERAND_TEXT, .type = t, .value = v};
    return true;
  }
  if (!anfi_layer_expression(l, p, &l->out[0])) return false;
  for (uint32_t i = 0; i < l->op->nin; i++)
    if (!l->op->in_used[i]) return anfi_layer_error(l, ANF_E1053, "inputs that it does not name");
  return true;
}

/* div with rounding is floor_divide, or division and truncation. */
static bool rounded_division(anfi_layer *l, const anfi_operand *in) {
  const char *mode = anfi_layer_text(l, "rounding_mode");
  bool floor = strcmp(mode, "floor") == 0;
  if (!floor && strcmp(mode, "trunc") != 0) return anfi_layer_only(l, "rounding_mode", "None");
  if (floor) return anfi_torch_apply(l->t, anfi_expr_find("floor_divide", 12), 2, in, &l->out[0]);
  return anfi_torch_apply(l->t, anfi_expr_find("div", 3), 2, in, &l->out[0]) &&
         anfi_torch_apply(l->t, anfi_expr_find("trunc", 5), 1, &l->out[0], &l->out[0]);
}

bool anfi_pnnx_make_of_expressions(anfi_layer *l) {
  static const char *const bits[][2] = {{"bitwise_and", "and"},
                                        {"bitwise_or", "or"},
                                        {"bitwise_xor", "xor"},
                                        {"bitwise_left_shift", "lshift"},
                                        {"bitwise_right_shift", "rshift"}};
  const char *name = strchr(l->op->type, '.') + 1;
  for (size_t i = 0; i < ANFI_LEN(bits); i++)
    if (strcmp(bits[i][0], name) == 0) name = bits[i][1];
  const anfi_expr_op *row = anfi_expr_find(name, strlen(name));
  anfi_operand in[3];
  size_t n = row->least;
  const char *second = row->op == ANF_OP_Power ? "exponent" : "other";
  if (!operand(l, "input", 0, &in[0]) || (n == 2 && !operand(l, second, 1, &in[1]))) return false;
  l->nresult = 1;
  if (row->op == ANF_OP_Div && anfi_layer_text(l, "rounding_mode")) return rounded_division(l, in);
  if (row->most == 3 && anfi_layer_given(l, "alpha") && !anfi_layer_arg(l, "alpha", &in[n++]))
    return false;
  return anfi_torch_apply(l->t, row, n, in, &l->out[0]);
}
