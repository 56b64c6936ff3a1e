// SPDX-License-Identifier: Apache-2.0
/* Reductions, comparisons, limits, complex numbers, and operators of expressions that stand as
 * operators of their own (torch.add). */
#include "frontend/pnnx/pnnx.h"

/* An input, or a parameter where a number stands. */
static bool operand(const anfi_layer *l, const char *key, size_t place, anfi_operand *x) {
  if (anfi_layer_given(l, key)) return anfi_layer_arg(l, key, x);
  return anfi_layer_tensor(l, key, place, x);
}

/* ---- reductions: no dim means all; an empty list, too ---- */

static bool reduce_attrs(const anfi_layer *l, anf_attr *a, size_t *n) {
  int64_t axes[ANF_MAX_RANK];
  size_t k = 0;
  bool keep;
  *n = 0;
  if (anfi_layer_given(l, "dim") && !anfi_layer_ints(l, "dim", &k, axes)) return false;
  if (!anfi_layer_bool(l, "keepdim", false, &keep)) return false;
  if (k)
    a[(*n)++] = (anf_attr){
        "axis", k == 1 ? anfi_layer_v_int(l, axes[0]) : anfi_layer_v_ints(l, k, axes), NULL};
  a[(*n)++] = (anf_attr){"keepdims", anfi_layer_v_bool(l, keep), NULL};
  return true;
}

/* With two outputs torch.max gives the indices, too. */
static bool reduce(anfi_layer *l) {
  anfi_operand x;
  anf_attr a[2];
  size_t n;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !reduce_attrs(l, a, &n) ||
      !anfi_layer_only(l, "dtype", "None"))
    return false;
  if (!anfi_layer_result(l, l->code, 1, &x, n, a)) return false;
  bool pick = (l->code == ANF_OP_Max || l->code == ANF_OP_Min) && l->op->nout == 2;
  if (!pick) return true;
  l->nresult = 2;
  return anfi_layer_op(l, l->code == ANF_OP_Max ? ANF_OP_ArgMax : ANF_OP_ArgMin, 1, &x, n, a,
                       &l->out[1]);
}

/* Of n - 1 elements unless it is told otherwise. */
static bool spread(anfi_layer *l) {
  anfi_operand x;
  anf_attr a[3];
  size_t n;
  bool unbiased;
  int64_t ddof;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !reduce_attrs(l, a, &n) ||
      !anfi_layer_bool(l, "unbiased", true, &unbiased) ||
      !anfi_layer_int(l, "correction", unbiased, &ddof))
    return false;
  a[n++] = (anf_attr){"ddof", anfi_layer_v_int(l, ddof), NULL};
  return anfi_layer_result(l, l->code, 1, &x, n, a);
}

/* The p-norm along the axes of `a`. */
static bool p_norm(const anfi_layer *l, anfi_operand x, double p, size_t n, const anf_attr *a,
                   anfi_operand *out) {
  anfi_operand by = anfi_layer_number(l, p), root = anfi_layer_number(l, 1 / p), zero;
  if (p == 2)
    return anfi_layer_op1(l, ANF_OP_Square, &x, &x) &&
           anfi_layer_op(l, ANF_OP_Sum, 1, &x, n, a, out) &&
           anfi_layer_op1(l, ANF_OP_Sqrt, out, out);
  if (p == 0) {
    anf_dtype d = (anf_dtype)x.type->dtype;
    zero = anfi_operand_number(l->t, 0);
    return anfi_layer_op2(l, ANF_OP_NotEqual, &x, &zero, &x) && anfi_torch_cast(l->t, &x, d, &x) &&
           anfi_layer_op(l, ANF_OP_Sum, 1, &x, n, a, out);
  }
  if (!anfi_layer_op1(l, ANF_OP_Abs, &x, &x)) return false;
  if (p - p != 0) return anfi_layer_op(l, p > 0 ? ANF_OP_Max : ANF_OP_Min, 1, &x, n, a, out);
  if (p == 1) return anfi_layer_op(l, ANF_OP_Sum, 1, &x, n, a, out);
  return anfi_layer_op2(l, ANF_OP_Power, &x, &by, &x) &&
         anfi_layer_op(l, ANF_OP_Sum, 1, &x, n, a, out) &&
         anfi_layer_op2(l, ANF_OP_Power, out, &root, out);
}

static bool norm(anfi_layer *l) {
  anfi_operand x;
  anf_attr a[2];
  size_t n;
  double p = 2;
  const char *word = anfi_layer_text(l, "p");
  if (!anfi_layer_tensor(l, "input", 0, &x) || !reduce_attrs(l, a, &n)) return false;
  if (!(word && strcmp(word, "fro") == 0) && !anfi_layer_real(l, "p", 2, &p)) return false;
  if (!anfi_layer_only(l, "dtype", "None")) return false;
  l->nresult = 1;
  return p_norm(l, x, p, n, a, &l->out[0]);
}

/* x divided by its norm, or by eps if that is greater. */
static bool normalize(anfi_layer *l) {
  anfi_operand x, by, least;
  int64_t dim;
  double p, e;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_int(l, "dim", 1, &dim) ||
      !anfi_layer_real(l, "p", 2, &p) || !anfi_layer_real(l, "eps", 1e-12, &e))
    return false;
  anf_attr a[] = {{"axis", anfi_layer_v_int(l, dim), NULL}, {"eps", anfi_layer_v_real(l, e), NULL}};
  if (p == 2) return anfi_layer_result(l, ANF_OP_L2Normalize, 1, &x, 2, a);
  a[1] = (anf_attr){"keepdims", anfi_layer_v_bool(l, true), NULL};
  least = anfi_layer_number(l, e);
  return p_norm(l, x, p, 2, a, &by) && anfi_layer_op2(l, ANF_OP_Maximum, &by, &least, &by) &&
         anfi_layer_result(l, ANF_OP_Div, 2, (const anfi_operand[]){x, by}, 0, NULL);
}

static bool pairwise_distance(anfi_layer *l) {
  anfi_operand in[2], d, e;
  double p, eps;
  bool keep;
  if (!anfi_layer_tensor(l, "x1", 0, &in[0]) || !anfi_layer_tensor(l, "x2", 1, &in[1]) ||
      !anfi_layer_real(l, "p", 2, &p) || !anfi_layer_real(l, "eps", 1e-6, &eps) ||
      !anfi_layer_bool(l, "keepdim", false, &keep))
    return false;
  e = anfi_layer_number(l, eps);
  anf_attr a[] = {{"axis", anfi_layer_v_int(l, -1), NULL},
                  {"keepdims", anfi_layer_v_bool(l, keep), NULL}};
  l->nresult = 1;
  return anfi_layer_op2(l, ANF_OP_Sub, &in[0], &in[1], &d) &&
         anfi_layer_op2(l, ANF_OP_Add, &d, &e, &d) && p_norm(l, d, p, 2, a, &l->out[0]);
}

static bool cumulate(anfi_layer *l) {
  anfi_operand x;
  int64_t axis;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "dim", &axis) ||
      !anfi_layer_only(l, "dtype", "None"))
    return false;
  anf_attr a = {"axis", anfi_layer_v_int(l, axis), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
}

/* ---- two operands ---- */

static bool compare(anfi_layer *l) {
  anfi_operand in[2];
  if (!operand(l, "input", 0, &in[0]) || !operand(l, "other", 1, &in[1])) return false;
  return anfi_torch_promote(l->t, 2, in) && anfi_layer_result(l, l->code, 2, in, 0, NULL);
}

static bool logical(anfi_layer *l) {
  anfi_operand in[2];
  size_t n = l->code == ANF_OP_LogicalNot || l->code == ANF_OP_BitNot ? 1 : 2;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || (n == 2 && !operand(l, "other", 1, &in[1])))
    return false;
  return anfi_layer_result(l, l->code, n, in, 0, NULL);
}

static bool where(anfi_layer *l) {
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

static bool clamp(anfi_layer *l) {
  anfi_operand in[3];
  size_t n = 1;
  bool lo = anfi_layer_given(l, "min"), hi = anfi_layer_given(l, "max");
  if (!anfi_layer_tensor(l, "input", 0, &in[0])) return false;
  if (lo && !anfi_layer_arg(l, "min", &in[n++])) return false;
  if (hi && !anfi_layer_arg(l, "max", &in[n++])) return false;
  if (n == 1) return anfi_layer_error(l, ANF_E1055, "it needs min or max");
  if (!anfi_torch_promote(l->t, n, in)) return false;
  return anfi_layer_result(l,
                           n == 3 ? ANF_OP_Clip
                           : lo   ? ANF_OP_Maximum
                                  : ANF_OP_Minimum,
                           n, in, 0, NULL);
}

static bool einsum(anfi_layer *l) {
  const char *equation = anfi_layer_text(l, "equation");
  if (!equation)
    return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", "equation");
  anf_attr a = {"equation", anfi_layer_v_text(l, equation), NULL};
  return anfi_layer_result(l, ANF_OP_Einsum, l->op->nin, l->in, 1, &a);
}

/* Along the first dim of size 3 if none is told. */
static bool cross(anfi_layer *l) {
  anfi_operand in[2], p[2], part[2], shift[2];
  int64_t dim = 0;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || !anfi_layer_tensor(l, "other", 1, &in[1]))
    return false;
  while (dim < (int64_t)in[0].type->n && in[0].type->dims[dim] != 3) dim++;
  if (!anfi_layer_int(l, "dim", dim, &dim)) return false;
  shift[0] = anfi_layer_constant(l, ANF_I64, 1, (const int64_t[]){3}, (const double[]){1, 2, 0});
  shift[1] = anfi_layer_constant(l, ANF_I64, 1, (const int64_t[]){3}, (const double[]){2, 0, 1});
  for (size_t i = 0; i < 2; i++)
    if (!anfi_layer_take(l, &in[0], &shift[i], dim, &p[0]) ||
        !anfi_layer_take(l, &in[1], &shift[1 - i], dim, &p[1]) ||
        !anfi_layer_op2(l, ANF_OP_Mul, &p[0], &p[1], &part[i]))
      return false;
  return anfi_layer_result(l, ANF_OP_Sub, 2, part, 0, NULL);
}

/* ---- complex numbers: pairs along the last dim ---- */

static bool view_as_real(anfi_layer *l) {
  anfi_operand x, part[2];
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_op1(l, ANF_OP_Real, &x, &part[0]) ||
      !anfi_layer_op1(l, ANF_OP_Imag, &x, &part[1]))
    return false;
  l->nresult = 1;
  return anfi_layer_along(l, ANF_OP_Stack, 2, part, -1, &l->out[0]);
}

/* The real or the imaginary part, or a complex number of both. */
static bool parts(anfi_layer *l) {
  anfi_operand in[2];
  size_t n = l->code == ANF_OP_MakeComplex ? 2 : 1;
  return anfi_layer_tensor(l, n == 2 ? "real" : "input", 0, &in[0]) &&
         (n == 1 || anfi_layer_tensor(l, "imag", 1, &in[1])) &&
         anfi_layer_result(l, l->code, n, in, 0, NULL);
}

static bool view_as_complex(anfi_layer *l) {
  anfi_operand x, in[2], part[2];
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  for (int64_t i = 0; i < 2; i++) {
    in[0] = x;
    in[1] = anfi_operand_number(l->t, i);
    if (!anfi_layer_along(l, ANF_OP_Take, 2, in, -1, &part[i])) return false;
  }
  return anfi_layer_result(l, ANF_OP_MakeComplex, 2, part, 0, NULL);
}

/* ---- pnnx.Expression, and operators of expressions by themselves ---- */

static bool expression(anfi_layer *l) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, "expr");
  if (!p) return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", "expr");
  anfi_layer_ignore(l, "expr");
  l->nresult = 1;
  return anfi_layer_expression(l, p, &l->out[0]);
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

static bool of_expressions(anfi_layer *l) {
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

#define OPERATOR(name, op) ANFI_LAYER("torch." name, of_expressions, op)
const anfi_layer_row anfi_layers_math[] = {
    ANFI_LAYER("pnnx.Expression", expression, Identity),
    ANFI_LAYER("torch.mean", reduce, Mean),
    ANFI_LAYER("torch.sum", reduce, Sum),
    ANFI_LAYER("torch.prod", reduce, Prod),
    ANFI_LAYER("torch.amax", reduce, Max),
    ANFI_LAYER("torch.amin", reduce, Min),
    ANFI_LAYER("torch.max", reduce, Max),
    ANFI_LAYER("torch.min", reduce, Min),
    ANFI_LAYER("torch.argmax", reduce, ArgMax),
    ANFI_LAYER("torch.argmin", reduce, ArgMin),
    ANFI_LAYER("torch.logsumexp", reduce, LogSumExp),
    ANFI_LAYER("torch.any", reduce, Any),
    ANFI_LAYER("torch.all", reduce, All),
    ANFI_LAYER("torch.std", spread, Std),
    ANFI_LAYER("torch.var", spread, Var),
    ANFI_LAYER("torch.norm", norm, Sum),
    ANFI_LAYER("F.normalize", normalize, L2Normalize),
    ANFI_LAYER("F.pairwise_distance", pairwise_distance, Sum),
    ANFI_LAYER("torch.cross", cross, Mul),
    ANFI_LAYER("torch.real", parts, Real),
    ANFI_LAYER("torch.imag", parts, Imag),
    ANFI_LAYER("torch.complex", parts, MakeComplex),
    ANFI_LAYER("torch.cumsum", cumulate, CumSum),
    ANFI_LAYER("torch.cumprod", cumulate, CumProd),
    ANFI_LAYER("torch.gt", compare, Greater),
    ANFI_LAYER("torch.ge", compare, GreaterEqual),
    ANFI_LAYER("torch.lt", compare, Less),
    ANFI_LAYER("torch.le", compare, LessEqual),
    ANFI_LAYER("torch.eq", compare, Equal),
    ANFI_LAYER("torch.ne", compare, NotEqual),
    ANFI_LAYER("torch.logical_and", logical, LogicalAnd),
    ANFI_LAYER("torch.logical_or", logical, LogicalOr),
    ANFI_LAYER("torch.logical_xor", logical, LogicalXor),
    ANFI_LAYER("torch.logical_not", logical, LogicalNot),
    ANFI_LAYER("torch.bitwise_not", logical, BitNot),
    ANFI_LAYER("torch.where", where, Where),
    ANFI_LAYER("torch.clamp", clamp, Clip),
    ANFI_LAYER("torch.einsum", einsum, Einsum),
    ANFI_LAYER("torch.view_as_real", view_as_real, Stack),
    ANFI_LAYER("torch.view_as_complex", view_as_complex, MakeComplex),
    OPERATOR("abs", Abs),
    OPERATOR("add", Add),
    OPERATOR("sub", Sub),
    OPERATOR("mul", Mul),
    OPERATOR("div", Div),
    OPERATOR("pow", Power),
    OPERATOR("exp", Exp),
    OPERATOR("log", Log),
    OPERATOR("sqrt", Sqrt),
    OPERATOR("rsqrt", Rsqrt),
    OPERATOR("square", Square),
    OPERATOR("neg", Neg),
    OPERATOR("sign", Sign),
    OPERATOR("sin", Sin),
    OPERATOR("cos", Cos),
    OPERATOR("erf", Erf),
    OPERATOR("floor", Floor),
    OPERATOR("ceil", Ceil),
    OPERATOR("round", Round),
    OPERATOR("acos", Acos),
    OPERATOR("acosh", Acosh),
    OPERATOR("asin", Asin),
    OPERATOR("asinh", Asinh),
    OPERATOR("atan", Atan),
    OPERATOR("atanh", Atanh),
    OPERATOR("cosh", Cosh),
    OPERATOR("expm1", Expm1),
    OPERATOR("log10", Log10),
    OPERATOR("log1p", Log1p),
    OPERATOR("reciprocal", Reciprocal),
    OPERATOR("sinh", Sinh),
    OPERATOR("tan", Tan),
    OPERATOR("trunc", Trunc),
    OPERATOR("maximum", Maximum),
    OPERATOR("minimum", Minimum),
    OPERATOR("floor_divide", FloorDiv),
    OPERATOR("remainder", Mod),
    OPERATOR("fmod", Fmod),
    OPERATOR("atan2", Atan2),
    OPERATOR("logaddexp", Add),
    OPERATOR("bitwise_and", BitAnd),
    OPERATOR("bitwise_or", BitOr),
    OPERATOR("bitwise_xor", BitXor),
    OPERATOR("bitwise_left_shift", ShiftLeft),
    OPERATOR("bitwise_right_shift", ShiftRight),
    {NULL, NULL, ANF_OP_NONE},
};
