// SPDX-License-Identifier: Apache-2.0
/* Layers that make tensors of numbers alone: fills, ranges, diagonals; and those that order
 * elements or repeat them. */
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
static bool fill(anfi_layer *l) {
  anfi_operand x = {.type = NULL};
  anf_dtype d;
  anfi_sizes s;
  bool of_tensor = strncmp(l->op->type, "Tensor.", 7) == 0;
  if (of_tensor && !anfi_layer_tensor(l, "input", 0, &x)) return false;
  if (!ignore_options(l) || !anfi_layer_sizes(l, "size", &s) ||
      !anfi_layer_dtype(l, of_tensor ? (anf_dtype)x.type->dtype : ANF_F32, &d))
    return false;
  anf_attr a = {"dtype", anfi_layer_v_dtype(l, d), NULL};
  return anfi_layer_sized(l, l->code, 0, &x, "shape", &s, &a, 1, d, s.n);
}

static bool like(anfi_layer *l) {
  anfi_operand x;
  anf_dtype d;
  if (!ignore_options(l) || !anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_dtype(l, (anf_dtype)x.type->dtype, &d))
    return false;
  anf_attr a = {"dtype", anfi_layer_v_dtype(l, d), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
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

static bool full(anfi_layer *l) {
  anfi_operand v, x;
  anf_dtype d, otherwise = ANF_DTYPE_COUNT;
  anfi_sizes s;
  if (strncmp(l->op->type, "Tensor.", 7) == 0) {
    if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
    otherwise = (anf_dtype)x.type->dtype;
  }
  if (!ignore_options(l) || !anfi_layer_sizes(l, "size", &s) || !fill_value(l, otherwise, &v, &d))
    return false;
  return anfi_layer_sized(l, ANF_OP_BroadcastTo, 1, &v, "shape", &s, NULL, 0, d, s.n);
}

static bool full_like(anfi_layer *l) {
  anfi_operand in[2];
  anf_dtype d;
  return ignore_options(l) && anfi_layer_tensor(l, "input", 0, &in[1]) &&
         fill_value(l, (anf_dtype)in[1].type->dtype, &in[0], &d) &&
         anfi_layer_result(l, ANF_OP_BroadcastLike, 2, in, 0, NULL);
}

/* ---- ranges and diagonals ---- */

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
static bool arange(anfi_layer *l) {
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

static bool linspace(anfi_layer *l) {
  double from, to;
  int64_t n;
  anf_dtype d;
  if (!ignore_options(l) || !anfi_layer_real(l, "start", 0, &from) ||
      !anfi_layer_real(l, "end", 0, &to) || !anfi_layer_need_int(l, "steps", &n) ||
      !anfi_layer_dtype(l, ANF_F32, &d))
    return false;
  anf_attr a[] = {{"start", anfi_layer_v_real(l, from), NULL},
                  {"stop", anfi_layer_v_real(l, to), NULL},
                  {"num", anfi_layer_v_int(l, n), NULL},
                  {"dtype", anfi_layer_v_dtype(l, d), NULL}};
  return anfi_layer_result(l, ANF_OP_Linspace, 0, NULL, 4, a);
}

static bool eye(anfi_layer *l) {
  int64_t n, m;
  anf_dtype d;
  if (!ignore_options(l) || !anfi_layer_need_int(l, "n", &n) || !anfi_layer_int(l, "m", n, &m) ||
      !anfi_layer_dtype(l, ANF_F32, &d))
    return false;
  anf_attr a[] = {{"n", anfi_layer_v_int(l, n), NULL},
                  {"m", anfi_layer_v_int(l, m), NULL},
                  {"dtype", anfi_layer_v_dtype(l, d), NULL}};
  return anfi_layer_result(l, ANF_OP_Eye, 0, NULL, 3, a);
}

static bool diagonal(anfi_layer *l) {
  anfi_operand x;
  int64_t k;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_int(l, "diagonal", 0, &k)) return false;
  anf_attr a = {"k", anfi_layer_v_int(l, k), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
}

/* ---- order and repetition ---- */

static bool topk(anfi_layer *l) {
  anfi_operand x, pair;
  int64_t k, dim;
  bool largest, sorted;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "k", &k) ||
      !anfi_layer_int(l, "dim", -1, &dim) || !anfi_layer_bool(l, "largest", true, &largest) ||
      !anfi_layer_bool(l, "sorted", true, &sorted))
    return false;
  anf_attr a[] = {{"k", anfi_layer_v_int(l, k), NULL},
                  {"axis", anfi_layer_v_int(l, dim), NULL},
                  {"largest", anfi_layer_v_bool(l, largest), NULL}};
  return anfi_layer_op(l, ANF_OP_TopK, 1, &x, 3, a, &pair) && anfi_layer_untuple(l, &pair);
}

/* torch.sort gives the positions, too. */
static bool sort(anfi_layer *l) {
  anfi_operand x;
  int64_t dim;
  bool descending, stable;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_int(l, "dim", -1, &dim) ||
      !anfi_layer_bool(l, "descending", false, &descending) ||
      !anfi_layer_bool(l, "stable", false, &stable))
    return false;
  anf_attr a[] = {{"axis", anfi_layer_v_int(l, dim), NULL},
                  {"descending", anfi_layer_v_bool(l, descending), NULL}};
  if (!anfi_layer_result(l, l->code, 1, &x, 2, a)) return false;
  if (l->code == ANF_OP_ArgSort) return true;
  l->nresult = 2;
  return l->op->nout != 2 || anfi_layer_op(l, ANF_OP_ArgSort, 1, &x, 2, a, &l->out[1]);
}

static bool search_sorted(anfi_layer *l) {
  anfi_operand in[2];
  bool right;
  if (!anfi_layer_tensor(l, "sorted_sequence", 0, &in[0]) ||
      !anfi_layer_tensor(l, "input", 1, &in[1]) || !anfi_layer_bool(l, "right", false, &right) ||
      !anfi_layer_only(l, "out_int32", "False") || !anfi_layer_only(l, "sorter", "None"))
    return false;
  const char *side = anfi_layer_text(l, "side");
  right = right || (side && strcmp(side, "right") == 0);
  anf_attr a = {"side", anfi_layer_v_text(l, right ? "right" : "left"), NULL};
  return anfi_layer_result(l, ANF_OP_SearchSorted, 2, in, 1, &a);
}

/* How often each element is repeated is one number, or known for each: then it is an index. */
static bool repeat_interleave(anfi_layer *l) {
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
  if (anfi_operand_int(&r, &times) && !r.type->n) {
    a[0].value = anfi_layer_v_int(l, times);
    return anfi_layer_result(l, ANF_OP_Repeat, 1, &x, 2, a);
  }
  if (r.kind != ANFI_OPERAND_TENSOR || !r.value || r.type->n != 1)
    return anfi_layer_error(l, ANF_E1053, "repeats that are not known");
  for (size_t i = 0; i < r.value->n; i++) {
    times = anfi_get_i64(r.value, r.value->n == 1 ? 0 : i);
    if (times < 0 || times > 1 << 24 || at.n > 1 << 24)
      return anfi_layer_error(l, ANF_E1055, "repeats are out of range");
    if (r.value->n == 1) {
      a[0].value = anfi_layer_v_int(l, times);
      return anfi_layer_result(l, ANF_OP_Repeat, 1, &x, 2, a);
    }
    for (int64_t k = 0; k < times; k++) anfi_push(l->t->arena, &at, (double)i);
  }
  int64_t n = (int64_t)at.n;
  anfi_operand where = anfi_layer_constant(l, ANF_I64, 1, &n, at.at);
  l->nresult = 1;
  return anfi_layer_take(l, &x, &where, dim, &l->out[0]);
}

const anfi_layer_row anfi_layers_make[] = {
    ANFI_LAYER("Tensor.new_zeros", fill, Zeros),
    ANFI_LAYER("Tensor.new_ones", fill, Ones),
    ANFI_LAYER("Tensor.new_empty", fill, Zeros),
    ANFI_LAYER("torch.zeros", fill, Zeros),
    ANFI_LAYER("torch.ones", fill, Ones),
    ANFI_LAYER("torch.empty", fill, Zeros),
    ANFI_LAYER("torch.zeros_like", like, ZerosLike),
    ANFI_LAYER("torch.ones_like", like, OnesLike),
    ANFI_LAYER("torch.empty_like", like, ZerosLike),
    ANFI_LAYER("torch.full", full, Full),
    ANFI_LAYER("Tensor.new_full", full, Full),
    ANFI_LAYER("torch.full_like", full_like, FullLike),
    ANFI_LAYER("torch.arange", arange, Arange),
    ANFI_LAYER("torch.linspace", linspace, Linspace),
    ANFI_LAYER("torch.eye", eye, Eye),
    ANFI_LAYER("torch.diag", diagonal, Diag),
    ANFI_LAYER("torch.tril", diagonal, Tril),
    ANFI_LAYER("torch.triu", diagonal, Triu),
    ANFI_LAYER("torch.topk", topk, TopK),
    ANFI_LAYER("torch.sort", sort, Sort),
    ANFI_LAYER("torch.argsort", sort, ArgSort),
    ANFI_LAYER("torch.searchsorted", search_sorted, SearchSorted),
    ANFI_LAYER("torch.repeat_interleave", repeat_interleave, Repeat),
    {NULL, NULL, ANF_OP_NONE},
};
