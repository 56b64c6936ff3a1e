// SPDX-License-Identifier: Apache-2.0
/* Reshape, expand and pad.
 *   Tensor.reshape shape=(2,-1)   ->   Reshape(x, shape=(2, -1))       $shape=3   ->   the same, shape given by a node
 * Sizes that are known only when the program runs are attributes given by nodes; the type of the result is set here,
 * as inference does not see them. */
#include "frontend/pnnx/pnnx.h"

bool anfi_layer_sizes(const anfi_layer *l, const char *key, anfi_sizes *s) {
  if (!anfi_layer_arg(l, key, &s->list)) return false;
  if (s->list.kind != ANFI_OPERAND_LIST) {
    anfi_operand *one = ANFI_NEW(l->t->arena, anfi_operand);
    *one = s->list;
    s->list = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = 1, .item = one};
  }
  s->n = s->list.n;
  s->known = true;
  if (s->n > ANF_MAX_RANK) return anfi_layer_error(l, ANF_E1055, "a shape has at most 16 dims");
  for (size_t i = 0; i < s->n; i++) {
    const anfi_operand *o = &s->list.item[i];
    if (o->kind != ANFI_OPERAND_TENSOR || !o->type || o->type->n)
      return anfi_layer_error(l, ANF_E1055, "a size must be an integer");
    if (!anfi_operand_int(o, &s->dims[i])) s->dims[i] = -1, s->known = false;
  }
  return true;
}

bool anfi_layer_sized(anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *x,
                      const char *name, const anfi_sizes *s, const anf_attr *more, size_t nmore,
                      anf_dtype d, size_t rank) {
  anf_attr a[4];
  int64_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < nmore; i++) a[i] = more[i];
  a[nmore] = s->known ? (anf_attr){name, anfi_layer_v_ints(l, s->n, s->dims), NULL}
                      : (anf_attr){name, NULL, anfi_torch_node(l->t, &s->list)};
  l->nresult = 1;
  if (!anfi_layer_op(l, op, n, x, nmore + 1, a, &l->out[0])) return false;
  if (l->out[0].type) return true;
  for (size_t i = 0; i < rank; i++)
    dims[i] = i + s->n < rank ? x->type->dims[i] : s->dims[i - (rank - s->n)];
  l->out[0].type = l->out[0].node->type = anfi_type_tensor(l->t->cx, d, rank, dims);
  return true;
}

bool anfi_pnnx_make_reshape(anfi_layer *l) {
  anfi_operand x;
  anfi_sizes s;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_sizes(l, "shape", &s)) return false;
  return anfi_layer_sized(l, ANF_OP_Reshape, 1, &x, "shape", &s, NULL, 0, (anf_dtype)x.type->dtype,
                          s.n);
}

/* -1 keeps the size that there is. */
bool anfi_pnnx_make_expand(anfi_layer *l) {
  anfi_operand x;
  anfi_sizes s;
  const char *key = anfi_layer_given(l, "sizes")   ? "sizes"
                    : anfi_layer_given(l, "shape") ? "shape"
                                                   : "size";
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_sizes(l, key, &s)) return false;
  anfi_layer_ignore(l, "implicit");
  if (s.n < x.type->n)
    return anfi_layer_error(l, ANF_E1055, "it is given fewer sizes than its input has");
  for (size_t i = s.n - x.type->n; i < s.n; i++) {
    int64_t v;
    if (!anfi_operand_int(&s.list.item[i], &v) || v != -1) continue;
    if (!anfi_torch_size(l->t, &x, i - (s.n - x.type->n), &s.list.item[i])) return false;
    s.known = s.known && anfi_operand_int(&s.list.item[i], &s.dims[i]);
  }
  return anfi_layer_sized(l, ANF_OP_BroadcastTo, 1, &x, "shape", &s, NULL, 0,
                          (anf_dtype)x.type->dtype, s.n);
}

/* Widths that are known when the program runs are an attribute given by a node. */
static bool open_pad(anfi_layer *l, const anfi_operand *x, const anfi_sizes *s, const char *mode,
                     double value) {
  const anf_type *t = x->type;
  int64_t dims[ANF_MAX_RANK];
  anfi_operand list = {.kind = ANFI_OPERAND_LIST, .n = (size_t)2 * t->n};
  list.item = ANFI_NEW_N(l->t->arena, anfi_operand, list.n + 1);
  if (s->n % 2 || s->n > list.n)
    return anfi_layer_error(l, ANF_E1055, "pad must have two numbers for each of the last dims");
  for (size_t i = 0; i < list.n; i++) list.item[i] = anfi_operand_number(l->t, 0);
  for (size_t i = 0; i < t->n; i++) dims[i] = t->dims[i];
  for (size_t i = 0; i < s->n; i++) {
    list.item[2 * (t->n - 1 - i / 2) + i % 2] = s->list.item[i];
    dims[t->n - 1 - i / 2] = ANF_DIM_UNKNOWN;
  }
  anf_attr a[] = {{"pad_width", NULL, anfi_torch_node(l->t, &list)},
                  {"mode", anfi_layer_v_text(l, mode), NULL},
                  {"value", anfi_layer_v_real(l, value), NULL}};
  if (!anfi_layer_result(l, ANF_OP_Pad, 1, x, strcmp(mode, "constant") == 0 ? 3 : 2, a))
    return false;
  l->out[0].type = l->out[0].node->type =
      anfi_type_tensor(l->t->cx, (anf_dtype)t->dtype, t->n, dims);
  return true;
}

/* F.pad; the modules are rows of layer.def. */
bool anfi_pnnx_make_pad(anfi_layer *l) {
  static const char params[] =
      "input pad:sizes mode={constant,reflect,replicate,circular} value:fill";
  anfi_operand x;
  anfi_sizes s;
  double value;
  const char *mode = anfi_layer_text(l, "mode");
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_sizes(l, "pad", &s) ||
      !anfi_layer_real(l, "value", 0, &value))
    return false;
  if (s.known) return anfi_layer_template(l, "pad_last", ANF_OP_NONE, params);
  return anfi_layer_only(l, "mode", "constant") &&
         open_pad(l, &x, &s, mode ? mode : "constant", value);
}
