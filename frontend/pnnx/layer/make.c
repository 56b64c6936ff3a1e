// SPDX-License-Identifier: Apache-2.0
/* Fills, ranges and repetitions: their sizes may be known only when the program runs ($size=3).
 *   torch.full size=(2,3) fill_value=1   ->   BroadcastTo(1, shape=(2, 3))
 *   torch.arange end=4                   ->   Arange(stop=4) */
#include "frontend/pnnx/pnnx.h"

/* ---- fills ---- */

bool anfi_layer_dtype(const anfi_layer *l, anf_dtype otherwise, anf_dtype *out) {
  static const anf_dtype of[] = {ANF_BOOL, ANF_I8,   ANF_I16, ANF_I32, ANF_I64, ANF_U8,
                                 ANF_F16,  ANF_BF16, ANF_F32, ANF_F64, ANF_C64, ANF_C128};
  const char *w = anfi_layer_text(l, "dtype");
  *out = otherwise;
  if (!w) return true;
  const anfi_expr_op *op = anfi_expr_find(w, strlen(w));
  if (!op || op->rule < ANFI_EXPR_TO_BOOL) return anfi_layer_only(l, "dtype", "None");
  return *out = of[op->rule - ANFI_EXPR_TO_BOOL], true;
}

static bool ignore_options(const anfi_layer *l) {
  anfi_layer_ignore(l, "device layout pin_memory requires_grad memory_format");
  return true;
}

/* Zeros or ones: of the type of a tensor (new_zeros), or of the default type. */
bool anfi_pnnx_make_fill(anfi_layer *l) {
  anfi_operand x = {.type = NULL};
  anf_dtype d = ANF_F32;
  anfi_sizes s;
  bool of_tensor = strncmp(l->op->type, "Tensor.", 7) == 0;
  if (of_tensor && !anfi_layer_tensor(l, "input", 0, &x)) return false;
  if (!ignore_options(l) || !anfi_layer_sizes(l, "size", &s) ||
      !anfi_layer_dtype(l, of_tensor ? (anf_dtype)x.type->dtype : ANF_F32, &d))
    return false;
  anf_attr a = {"dtype", anfi_layer_v_dtype(l, d), NULL};
  return anfi_layer_sized(l, l->row->op, 0, &x, "shape", &s, &a, 1, d, s.n);
}

/* The type that a number has by itself. */
static anf_dtype own_dtype(const anfi_operand *v) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (!v->number) return d;
  return d == ANF_INT ? ANF_I64 : d == ANF_FLOAT ? ANF_F32 : d;
}

static bool fill_value(const anfi_layer *l, anf_dtype otherwise, anfi_operand *v, anf_dtype *d) {
  if (!anfi_layer_arg(l, "fill_value", v)) return false;
  if (v->kind != ANFI_OPERAND_TENSOR || !v->type || v->type->n)
    return anfi_layer_error(l, ANF_E1055, "fill_value must be a number");
  return anfi_layer_dtype(l, otherwise == ANF_DTYPE_COUNT ? own_dtype(v) : otherwise, d) &&
         anfi_torch_cast(l->t, v, *d, v);
}

bool anfi_pnnx_make_full(anfi_layer *l) {
  anfi_operand v, x;
  anf_dtype d = ANF_F32, otherwise = ANF_DTYPE_COUNT;
  anfi_sizes s;
  if (strncmp(l->op->type, "Tensor.", 7) == 0) {
    if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
    otherwise = (anf_dtype)x.type->dtype;
  }
  if (!ignore_options(l) || !anfi_layer_sizes(l, "size", &s) || !fill_value(l, otherwise, &v, &d))
    return false;
  return anfi_layer_sized(l, ANF_OP_BroadcastTo, 1, &v, "shape", &s, NULL, 0, d, s.n);
}

/* ---- ranges ---- */

/* A bound of a range as an attribute. Numbers that are known only when the program runs must be
 * integers. */
static bool range_bound(const anfi_layer *l, const char *key, const char *name, anf_attr *a,
                        bool *whole, bool *known) {
  anfi_operand o;
  int64_t i;
  if (!anfi_layer_arg(l, key, &o)) return false;
  if (o.kind != ANFI_OPERAND_TENSOR || !o.type || o.type->n)
    return anfi_layer_error(l, ANF_E1055, "a bound must be a number");
  *a = (anf_attr){name, o.value, NULL};
  if (o.value) *whole = *whole && anfi_operand_int(&o, &i);
  else *a = (anf_attr){name, NULL, anfi_torch_node(l->t, &o)}, *known = false;
  if (o.value || anfi_dtype_is_int((anf_dtype)o.type->dtype)) return true;
  return anfi_layer_error(l, ANF_E1053, "a real bound that is not known");
}

/* Integers make a range of integers. */
bool anfi_pnnx_make_arange(anfi_layer *l) {
  static const char *const keys[][2] = {{"start", "start"}, {"end", "stop"}, {"step", "step"}};
  bool whole = true, known = true;
  anf_dtype d;
  anf_attr a[4];
  size_t n = 0;
  if (!anfi_layer_given(l, "end"))
    return anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", "end");
  for (size_t i = 0; i < 3; i++)
    if (anfi_layer_given(l, keys[i][0]) &&
        !range_bound(l, keys[i][0], keys[i][1], &a[n++], &whole, &known))
      return false;
  if (!ignore_options(l) || !anfi_layer_dtype(l, whole ? ANF_I64 : ANF_F32, &d)) return false;
  a[n++] = (anf_attr){"dtype", anfi_layer_v_dtype(l, d), NULL};
  if (!anfi_layer_result(l, ANF_OP_Arange, 0, NULL, n, a)) return false;
  if (!known) {
    int64_t open = ANF_DIM_UNKNOWN;
    l->out[0].type = l->out[0].node->type = anfi_type_tensor(l->t->cx, d, 1, &open);
  }
  return true;
}

/* ---- repetition ---- */

/* How often each element is repeated is one number, or known for each: then it is an index. */
bool anfi_pnnx_make_repeat_interleave(anfi_layer *l) {
  anfi_operand x, r;
  int64_t dim = 0, times;
  ANFI_VEC(double) at = {0};
  bool flat = !anfi_layer_given(l, "dim");
  anfi_layer_ignore(l, "output_size");
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_arg(l, "repeats", &r) ||
      !anfi_layer_int(l, "dim", 0, &dim))
    return false;
  if (flat && !anfi_layer_reshape(l, &x, 1, (const int64_t[]){-1}, &x)) return false;
  anf_attr a[] = {{"repeats", NULL, NULL}, {"axis", anfi_layer_v_int(l, dim), NULL}};
  bool one = anfi_operand_int(&r, &times) && !r.type->n;
  if (!one && (r.kind != ANFI_OPERAND_TENSOR || !r.value || r.type->n != 1))
    return anfi_layer_error(l, ANF_E1053, "repeats that are not known");
  for (size_t i = 0; !one && i < r.value->n; i++) {
    times = anfi_get_i64(r.value, i);
    if (times < 0 || times > 1 << 24 || at.n > 1 << 24)
      return anfi_layer_error(l, ANF_E1055, "repeats are out of range");
    if (r.value->n == 1) one = true;
    for (int64_t k = 0; !one && k < times; k++) anfi_push(l->t->arena, &at, (double)i);
  }
  if (one) {
    a[0].value = anfi_layer_v_int(l, times);
    return anfi_layer_result(l, ANF_OP_Repeat, 1, &x, 2, a);
  }
  int64_t n = (int64_t)at.n;
  anfi_operand where = anfi_layer_constant(l, ANF_I64, 1, &n, at.at);
  l->nresult = 1;
  return anfi_layer_take(l, &x, &where, dim, &l->out[0]);
}
