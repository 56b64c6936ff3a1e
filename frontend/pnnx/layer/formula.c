// SPDX-License-Identifier: Apache-2.0
/* Functions that are one formula of a few ops, and those of linear algebra. */
#include "frontend/pnnx/pnnx.h"

static bool op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, const anfi_operand *b,
                anfi_operand *out) {
  return anfi_layer_op2(l, op, a, b, out);
}

/* An input, or a parameter where a number stands. */
static bool number_or_tensor(const anfi_layer *l, const char *key, size_t place, anfi_operand *x) {
  if (anfi_layer_given(l, key)) return anfi_layer_arg(l, key, x);
  return anfi_layer_tensor(l, key, place, x);
}

/* ---- pointwise ---- */

/* input + value a b, or input + value a / b */
static bool add_scaled(anfi_layer *l) {
  anfi_operand in[3], v;
  double value;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || !anfi_layer_tensor(l, "tensor1", 1, &in[1]) ||
      !anfi_layer_tensor(l, "tensor2", 2, &in[2]) || !anfi_layer_real(l, "value", 1, &value))
    return false;
  v = anfi_layer_number(l, value);
  l->nresult = 1;
  return op2(l, l->code, &in[1], &in[2], &in[1]) && op2(l, ANF_OP_Mul, &in[1], &v, &in[1]) &&
         op2(l, ANF_OP_Add, &in[0], &in[1], &l->out[0]);
}

/* input + weight (end - input) */
static bool lerp(anfi_layer *l) {
  anfi_operand in[3], d;
  l->nresult = 1;
  return anfi_layer_tensor(l, "input", 0, &in[0]) && anfi_layer_tensor(l, "end", 1, &in[1]) &&
         number_or_tensor(l, "weight", 2, &in[2]) && op2(l, ANF_OP_Sub, &in[1], &in[0], &d) &&
         op2(l, ANF_OP_Mul, &in[2], &d, &d) && op2(l, ANF_OP_Add, &in[0], &d, &l->out[0]);
}

/* What a function takes away from its argument. */
static bool rest(anfi_layer *l) {
  anfi_operand in[2];
  return anfi_layer_tensor(l, "input", 0, &in[0]) && anfi_layer_op1(l, l->code, &in[0], &in[1]) &&
         anfi_layer_result(l, ANF_OP_Sub, 2, in, 0, NULL);
}

/* Two operands of one type, real ones where the op is. */
static bool pair(anfi_layer *l) {
  anfi_operand in[2];
  return anfi_layer_tensor(l, "input", 0, &in[0]) && number_or_tensor(l, "other", 1, &in[1]) &&
         anfi_torch_promote(l->t, 2, in) && anfi_layer_result(l, l->code, 2, in, 0, NULL);
}

/* ---- vectors and matrices ---- */

static bool dot(anfi_layer *l) {
  anfi_operand in[2];
  return anfi_layer_tensor(l, "input", 0, &in[0]) && anfi_layer_tensor(l, "tensor", 1, &in[1]) &&
         anfi_layer_result(l, ANF_OP_MatMul, 2, in, 0, NULL);
}

static bool outer(anfi_layer *l) {
  anfi_operand in[2];
  return anfi_layer_tensor(l, "input", 0, &in[0]) && anfi_layer_tensor(l, "vec2", 1, &in[1]) &&
         anfi_layer_along(l, ANF_OP_ExpandDims, 1, &in[0], 1, &in[0]) &&
         anfi_torch_promote(l->t, 2, in) && anfi_layer_result(l, ANF_OP_Mul, 2, in, 0, NULL);
}

static bool trace(anfi_layer *l) {
  anfi_operand x;
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  if (x.type->n != 2) return anfi_layer_error(l, ANF_E1055, "its input must have two dims");
  return anfi_layer_op1(l, ANF_OP_Diag, &x, &x) && anfi_layer_result(l, ANF_OP_Sum, 1, &x, 0, NULL);
}

/* sum(a b) / max(|a| |b|, eps), each norm being at least eps */
static bool cosine_similarity(anfi_layer *l) {
  anfi_operand in[2], n[2], x, least;
  int64_t dim;
  double eps;
  if (!anfi_layer_tensor(l, "x1", 0, &in[0]) || !anfi_layer_tensor(l, "x2", 1, &in[1]) ||
      !anfi_layer_int(l, "dim", 1, &dim) || !anfi_layer_real(l, "eps", 1e-8, &eps))
    return false;
  least = anfi_layer_number(l, eps);
  for (size_t i = 0; i < 2; i++)
    if (!anfi_layer_op1(l, ANF_OP_Square, &in[i], &x) ||
        !anfi_layer_along(l, ANF_OP_Sum, 1, &x, dim, &n[i]) ||
        !anfi_layer_op1(l, ANF_OP_Sqrt, &n[i], &n[i]) ||
        !op2(l, ANF_OP_Maximum, &n[i], &least, &n[i]))
      return false;
  l->nresult = 1;
  return op2(l, ANF_OP_Mul, &in[0], &in[1], &x) &&
         anfi_layer_along(l, ANF_OP_Sum, 1, &x, dim, &x) && op2(l, ANF_OP_Div, &x, &n[0], &x) &&
         op2(l, ANF_OP_Div, &x, &n[1], &l->out[0]);
}

static bool linear_algebra(anfi_layer *l) {
  anfi_operand in[2];
  bool two = l->code != ANF_OP_Cholesky;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || (two && !anfi_layer_tensor(l, "B", 1, &in[1])) ||
      !anfi_layer_only(l, "left", "True") || (!two && !anfi_layer_only(l, "upper", "False")))
    return false;
  if (l->code != ANF_OP_TriangularSolve)
    return anfi_layer_result(l, l->code, two ? 2 : 1, in, 0, NULL);
  bool upper;
  if (!anfi_layer_bool(l, "upper", false, &upper) || !anfi_layer_only(l, "unitriangular", "False"))
    return false;
  anf_attr a = {"lower", anfi_layer_v_bool(l, !upper), NULL};
  return anfi_layer_result(l, l->code, 2, in, 1, &a);
}

/* ---- counting and placing ---- */

/* input with alpha source added in the rows that index names */
static bool index_add(anfi_layer *l) {
  anfi_operand in[3];
  int64_t dim;
  double alpha;
  if (!anfi_layer_tensor(l, "input", 0, &in[0]) || !anfi_layer_tensor(l, "index", 1, &in[1]) ||
      !anfi_layer_tensor(l, "source", 2, &in[2]) || !anfi_layer_need_int(l, "dim", &dim) ||
      !anfi_layer_real(l, "alpha", 1, &alpha))
    return false;
  anfi_operand by = anfi_layer_number(l, alpha);
  if (alpha != 1 && !op2(l, ANF_OP_Mul, &in[2], &by, &in[2])) return false;
  anf_attr a[] = {{"axis", anfi_layer_v_int(l, dim), NULL},
                  {"mode", anfi_layer_v_text(l, "add"), NULL}};
  return anfi_layer_result(l, ANF_OP_IndexWrite, 3, in, 2, a);
}

static bool one_hot(anfi_layer *l) {
  anfi_operand x;
  int64_t n;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "num_classes", &n))
    return false;
  if (n < 1) return anfi_layer_error(l, ANF_E1053, "a number of classes that is not known");
  anf_attr a[] = {{"depth", anfi_layer_v_int(l, n), NULL},
                  {"dtype", anfi_layer_v_dtype(l, ANF_I64), NULL}};
  return anfi_layer_result(l, ANF_OP_OneHot, 1, &x, 2, a);
}

/* A list of tensors, each in the shape of all. */
static bool broadcast_tensors(anfi_layer *l) {
  anfi_operand list, sum = {.kind = ANFI_OPERAND_NONE};
  if (!anfi_layer_input(l, "tensors", 0, &list)) return false;
  if (list.kind != ANFI_OPERAND_LIST || !list.n)
    return anfi_layer_error(l, ANF_E1055, "it takes a list of tensors");
  anfi_operand *item = ANFI_NEW_N(l->t->arena, anfi_operand, list.n);
  for (size_t i = 0; i < list.n; i++) {
    const anfi_operand *x = &list.item[i];
    if (x->kind != ANFI_OPERAND_TENSOR || !x->type)
      return anfi_layer_error(l, ANF_E1055, "it takes a list of tensors");
    if (!i ? !anfi_layer_op1(l, ANF_OP_ZerosLike, x, &sum) : !op2(l, ANF_OP_Add, &sum, x, &sum))
      return false;
  }
  for (size_t i = 0; i < list.n; i++)
    if (!op2(l, ANF_OP_BroadcastLike, &list.item[i], &sum, &item[i])) return false;
  l->out[0] = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = list.n, .item = item};
  l->nresult = 1;
  return true;
}

const anfi_layer_row anfi_layers_formula[] = {
    ANFI_LAYER("torch.addcmul", add_scaled, Mul),
    ANFI_LAYER("torch.addcdiv", add_scaled, Div),
    ANFI_LAYER("torch.lerp", lerp, Mul),
    ANFI_LAYER("torch.frac", rest, Trunc),
    ANFI_LAYER("nn.Tanhshrink", rest, Tanh),
    ANFI_LAYER("F.tanhshrink", rest, Tanh),
    ANFI_LAYER("torch.hypot", pair, Hypot),
    ANFI_LAYER("torch.copysign", pair, Copysign),
    ANFI_LAYER("torch.dot", dot, MatMul),
    ANFI_LAYER("torch.outer", outer, Mul),
    ANFI_LAYER("torch.trace", trace, Diag),
    ANFI_LAYER("F.cosine_similarity", cosine_similarity, Sum),
    ANFI_LAYER("torch.linalg.cholesky", linear_algebra, Cholesky),
    ANFI_LAYER("torch.linalg.solve", linear_algebra, Solve),
    ANFI_LAYER("torch.linalg.solve_triangular", linear_algebra, TriangularSolve),
    ANFI_LAYER("torch.index_add", index_add, IndexWrite),
    ANFI_LAYER("torch.broadcast_tensors", broadcast_tensors, BroadcastLike),
    ANFI_LAYER("F.one_hot", one_hot, OneHot),
    {NULL, NULL, ANF_OP_NONE},
};
