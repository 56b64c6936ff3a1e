// SPDX-License-Identifier: Apache-2.0
/* PyTorch's type promotion.
 *   f32[2] + 2.5   ->   f32[2]          i64[2] + 2.5   ->   f32[2]          i64[2] + f16[]   ->   f16[2]
 * Operands fall into three ranks: tensors with dims, tensors without, numbers; a lower rank changes the result's type
 * only by being of a higher category (bool, integer, real, complex). Every conversion is explicit in the graph, so
 * Anfora's own promotion never decides. */
#include "frontend/pnnx/pnnx.h"

typedef enum { CATEGORY_BOOL, CATEGORY_INT, CATEGORY_REAL, CATEGORY_COMPLEX } category;

static category category_of(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_BOOL: return CATEGORY_BOOL;
  case ANFI_CLASS_SIGNED:
  case ANFI_CLASS_UNSIGNED: return CATEGORY_INT;
  case ANFI_CLASS_COMPLEX: return CATEGORY_COMPLEX;
  default: return CATEGORY_REAL;
  }
}

/* The type of a number on its own. */
static anf_dtype default_dtype(category c) {
  static const anf_dtype d[] = {ANF_BOOL, ANF_I64, ANF_F32, ANF_C64};
  return d[c];
}

static anf_dtype combine(anf_dtype high, anf_dtype low) {
  anf_dtype d;
  if (high == ANF_DTYPE_COUNT) return low;
  if (low == ANF_DTYPE_COUNT) return high;
  category h = category_of(high), l = category_of(low);
  if (l <= h) return high;
  if (l == CATEGORY_COMPLEX && h == CATEGORY_REAL) return high == ANF_F64 ? ANF_C128 : ANF_C64;
  return h == CATEGORY_BOOL || l > h ? low : (anfi_dtype_promote(high, low, &d), d);
}

/* The common element type; ANF_DTYPE_COUNT if all are numbers. */
static anf_dtype common(size_t n, const anfi_operand *in) {
  anf_dtype rank[3] = {ANF_DTYPE_COUNT, ANF_DTYPE_COUNT, ANF_DTYPE_COUNT};
  for (size_t i = 0; i < n; i++) {
    size_t r = in[i].number ? 2 : in[i].type->n ? 0 : 1;
    anf_dtype d = (anf_dtype)in[i].type->dtype;
    if (r == 2) d = default_dtype(category_of(d));
    if (rank[r] == ANF_DTYPE_COUNT) rank[r] = d;
    else anfi_dtype_promote(rank[r], d, &rank[r]);
  }
  if (rank[0] == ANF_DTYPE_COUNT && rank[1] == ANF_DTYPE_COUNT) return ANF_DTYPE_COUNT;
  return combine(rank[0], combine(rank[1], rank[2]));
}

/* A known number takes the type of the tensor that it meets, all others are converted. */
static bool convert(anfi_torch *t, anfi_operand *x, anf_dtype d) {
  if (x->number && x->value && category_of((anf_dtype)x->type->dtype) != CATEGORY_COMPLEX)
    return true;
  return anfi_torch_cast(t, x, d, x);
}

/* Numbers alone: bools count as integers; `least` is the category that an op raises to. */
static bool raise_numbers(anfi_torch *t, size_t n, anfi_operand *in, category least) {
  for (size_t i = 0; i < n; i++) {
    category c = category_of((anf_dtype)in[i].type->dtype);
    if (c >= least) continue;
    if (!anfi_torch_cast(t, &in[i], least == CATEGORY_INT ? ANF_INT : ANF_FLOAT, &in[i]))
      return false;
    in[i].number = true;
  }
  return true;
}

bool anfi_torch_promote(anfi_torch *t, size_t n, anfi_operand *in) {
  anf_dtype d = common(n, in);
  if (d == ANF_DTYPE_COUNT) return raise_numbers(t, n, in, CATEGORY_INT);
  for (size_t i = 0; i < n; i++)
    if (!convert(t, &in[i], d)) return false;
  return true;
}

/* As promote, and integers become real. */
static bool promote_real(anfi_torch *t, size_t n, anfi_operand *in) {
  anf_dtype d = common(n, in);
  if (d == ANF_DTYPE_COUNT) return raise_numbers(t, n, in, CATEGORY_REAL);
  if (category_of(d) < CATEGORY_REAL) d = ANF_F32;
  for (size_t i = 0; i < n; i++)
    if (!convert(t, &in[i], d)) return false;
  return true;
}

static bool all_numbers(size_t n, const anfi_operand *in) {
  for (size_t i = 0; i < n; i++)
    if (!in[i].number) return false;
  return true;
}

static bool finish(anfi_torch *t, anfi_opcode op, size_t n, anfi_operand *in, bool numbers,
                   anfi_operand *out) {
  if (!anfi_torch_op(t, op, n, in, 0, NULL, out)) return false;
  out->number = numbers;
  return true;
}

/* ---- operators with a rule of their own ---- */

static bool operand_error(anfi_torch *t, const anfi_expr_op *row, const char *what) {
  return anfi_fail(t->cx, t->loc, ANF_E1007, row->name, what);
}

/* Python gives 0.5 for 2 ** -1, where integer tensors have no such power. */
static bool power_of_numbers(anfi_torch *t, anfi_operand *in) {
  int64_t b;
  bool negative = anfi_operand_int(&in[1], &b) && b < 0;
  return raise_numbers(t, 2, in, negative ? CATEGORY_REAL : CATEGORY_INT);
}

static bool same(anfi_torch *t, const anfi_expr_op *row, size_t n, anfi_operand *in,
                 anfi_operand *out) {
  bool numbers = all_numbers(n, in);
  if (numbers && row->op == ANF_OP_Power) {
    if (!power_of_numbers(t, in)) return false;
  } else if (!anfi_torch_promote(t, n, in)) return false;
  return finish(t, (anfi_opcode)row->op, n, in, numbers, out);
}

static bool is_one(const anfi_operand *x) {
  int64_t v;
  return anfi_operand_int(x, &v) && v == 1;
}

static bool scaled(anfi_torch *t, anfi_operand *x, const anfi_operand *by, anfi_operand *out) {
  anfi_operand in[] = {*x, *by};
  bool numbers = all_numbers(2, in);
  if (is_one(by)) return *out = *x, true;
  return anfi_torch_promote(t, 2, in) && finish(t, ANF_OP_Mul, 2, in, numbers, out);
}

/* a op b * alpha; rsub is b - a * alpha. */
static bool with_alpha(anfi_torch *t, const anfi_expr_op *row, size_t n, anfi_operand *in,
                       anfi_operand *out) {
  anfi_operand two[] = {in[0], in[1]};
  if (row->rule == ANFI_EXPR_RSUB) two[0] = in[1], two[1] = in[0];
  if (n == 3 && !scaled(t, &two[1], &in[2], &two[1])) return false;
  return same(t, row, 2, two, out);
}

static bool rounded(anfi_torch *t, const anfi_expr_op *row, anfi_operand *in, anfi_operand *out) {
  if (!same(t, row, 1, in, out)) return false;
  if (!out->number || category_of((anf_dtype)out->type->dtype) != CATEGORY_REAL) return true;
  if (!anfi_torch_cast(t, out, ANF_INT, out)) return false;
  return out->number = true;
}

static bool op2(anfi_torch *t, anfi_opcode op, const anfi_operand *a, const anfi_operand *b,
                anfi_operand *out) {
  return anfi_torch_op(t, op, 2, (const anfi_operand[]){*a, *b}, 0, NULL, out);
}

static bool op1(anfi_torch *t, anfi_opcode op, const anfi_operand *a, anfi_operand *out) {
  return anfi_torch_op(t, op, 1, a, 0, NULL, out);
}

/* log(exp(a) + exp(b)) = max + log1p(exp(-|a - b|)). Equal operands, infinite ones above all, are
 * taken apart: a - b of infinities is no number, and the gradient there is one half for each. */
static bool logaddexp(anfi_torch *t, anfi_operand *in, anfi_operand *out) {
  bool numbers = all_numbers(2, in);
  anfi_operand half =
      anfi_operand_value(t->cx, anfi_torch_own(t, anfi_value_new_f64(t->cx, ANF_FLOAT, 0.5)));
  anfi_operand ln2 = anfi_operand_value(
      t->cx, anfi_torch_own(t, anfi_value_new_f64(t->cx, ANF_FLOAT, 0.69314718055994530942)));
  anfi_operand eq, even, d, m, part;
  if (!promote_real(t, 2, in)) return false;
  const anfi_operand *a = &in[0], *b = &in[1];
  bool good = op2(t, ANF_OP_Equal, a, b, &eq) && op2(t, ANF_OP_Mul, a, &half, &even) &&
              op2(t, ANF_OP_Mul, b, &half, &part) && op2(t, ANF_OP_Add, &even, &part, &even) &&
              op2(t, ANF_OP_Add, &even, &ln2, &even) && op2(t, ANF_OP_Sub, a, b, &d) &&
              op1(t, ANF_OP_Abs, &d, &d) && op1(t, ANF_OP_Neg, &d, &d) &&
              op1(t, ANF_OP_Exp, &d, &d) && op1(t, ANF_OP_Log1p, &d, &d) &&
              op2(t, ANF_OP_Maximum, a, b, &m) && op2(t, ANF_OP_Add, &m, &d, &d) &&
              anfi_torch_op(t, ANF_OP_Where, 3, (const anfi_operand[]){eq, even, d}, 0, NULL, out);
  if (good) out->number = numbers;
  return good;
}

static bool size(anfi_torch *t, const anfi_expr_op *row, size_t n, const anfi_operand *in,
                 anfi_operand *out) {
  int64_t axis = 0;
  if (in[0].kind != ANFI_OPERAND_TENSOR || in[0].number)
    return operand_error(t, row, "what has no shape");
  size_t rank = in[0].type->n;
  if (n == 2) {
    if (!anfi_operand_int(&in[1], &axis))
      return operand_error(t, row, "a dim that is no known integer");
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
      return anfi_fail(t->cx, t->loc, ANF_E0540, (long long)axis, row->name, rank);
    return anfi_torch_size(t, &in[0], (size_t)(axis < 0 ? axis + (int64_t)rank : axis), out);
  }
  *out = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = rank};
  out->item = ANFI_NEW_N(t->arena, anfi_operand, rank + 1);
  for (size_t i = 0; i < rank; i++)
    if (!anfi_torch_size(t, &in[0], i, &out->item[i])) return false;
  return true;
}

/* int() and torch.float() of a number give a number; int() of one element, too. */
static bool conversion(anfi_torch *t, const anfi_expr_op *row, const anfi_operand *x,
                       anfi_operand *out) {
  static const anf_dtype to[] = {ANF_I64, ANF_BOOL, ANF_I8,  ANF_I16, ANF_I32, ANF_I64, ANF_U8,
                                 ANF_F16, ANF_BF16, ANF_F32, ANF_F64, ANF_C64, ANF_C128};
  anf_dtype d = to[row->rule - ANFI_EXPR_TO_INT];
  bool number = x->number || (row->rule == ANFI_EXPR_TO_INT && !x->type->n);
  if (number && category_of(d) == CATEGORY_INT) d = ANF_INT;
  if (number && category_of(d) == CATEGORY_REAL) d = ANF_FLOAT;
  if (!anfi_torch_cast(t, x, d, out)) return false;
  out->number = number;
  return true;
}

static bool need_tensors(anfi_torch *t, const anfi_expr_op *row, size_t n, const anfi_operand *in) {
  for (size_t i = 0; i < n; i++) {
    if (in[i].kind == ANFI_OPERAND_LIST) return operand_error(t, row, "a list");
    if (in[i].kind == ANFI_OPERAND_NONE) return operand_error(t, row, "None");
    if (!in[i].type || !anfi_is_tensor(in[i].type))
      return operand_error(t, row, "an operand whose type is not known");
  }
  return true;
}

static bool ints(anfi_torch *t, const anfi_expr_op *row, anfi_operand *in, anfi_operand *out) {
  bool numbers = all_numbers(2, in), bools = numbers;
  for (size_t i = 0; i < 2; i++) bools = bools && in[i].type->dtype == ANF_BOOL;
  if (bools && row->op != ANF_OP_ShiftLeft && row->op != ANF_OP_ShiftRight)
    return finish(t, (anfi_opcode)row->op, 2, in, true, out);
  return same(t, row, 2, in, out);
}

bool anfi_torch_apply(anfi_torch *t, const anfi_expr_op *row, size_t n, const anfi_operand *given,
                      anfi_operand *out) {
  anfi_operand in[3] = {0};
  if (row->rule == ANFI_EXPR_SIZE) return size(t, row, n, given, out);
  if (!need_tensors(t, row, n, given)) return false;
  memcpy(in, given, n * sizeof *in);
  bool numbers = all_numbers(n, in);
  switch ((anfi_expr_rule)row->rule) {
  case ANFI_EXPR_SAME: return same(t, row, n, in, out);
  case ANFI_EXPR_REAL:
    return promote_real(t, n, in) && finish(t, (anfi_opcode)row->op, n, in, numbers, out);
  case ANFI_EXPR_INTS: return ints(t, row, in, out);
  case ANFI_EXPR_ROUND: return rounded(t, row, in, out);
  case ANFI_EXPR_ALPHA:
  case ANFI_EXPR_RSUB: return with_alpha(t, row, n, in, out);
  case ANFI_EXPR_LOGADDEXP: return logaddexp(t, in, out);
  default: return conversion(t, row, in, out);
  }
}
