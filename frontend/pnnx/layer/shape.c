// SPDX-License-Identifier: Apache-2.0
/* Layers that give tensors another shape: reshape, expand, permute, pad. Sizes may be
 * known only when the program runs ($shape=3): then they are attributes given by nodes, and the type
 * of the result is told here, as inference does not see them. */
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

static bool reshape(anfi_layer *l) {
  anfi_operand x;
  anfi_sizes s;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_sizes(l, "shape", &s)) return false;
  return anfi_layer_sized(l, ANF_OP_Reshape, 1, &x, "shape", &s, NULL, 0, (anf_dtype)x.type->dtype,
                          s.n);
}

/* -1 keeps the size that there is. */
static bool expand(anfi_layer *l) {
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

static bool to(anfi_layer *l) {
  anfi_operand x;
  anf_dtype d;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_dtype(l, (anf_dtype)x.type->dtype, &d))
    return false;
  anfi_layer_ignore(l, "copy non_blocking memory_format device layout pin_memory");
  l->nresult = 1;
  return anfi_torch_cast(l->t, &x, d, &l->out[0]);
}

static bool reshape_as(anfi_layer *l) {
  anfi_operand in[2];
  return anfi_layer_tensor(l, "input", 0, &in[0]) && anfi_layer_tensor(l, "other", 1, &in[1]) &&
         anfi_layer_result(l, ANF_OP_ReshapeLike, 2, in, 0, NULL);
}

/* One dim becomes several. */
static bool unflatten(anfi_layer *l) {
  anfi_operand x;
  anfi_sizes s;
  size_t axis;
  int64_t dims[2 * ANF_MAX_RANK];
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_axis(l, &x, "dim", 0, &axis) ||
      !anfi_layer_sizes(l, "sizes", &s))
    return false;
  size_t n = 0, open = 0;
  for (size_t i = 0; i < axis; i++) dims[n++] = x.type->dims[i];
  for (size_t i = 0; i < s.n; i++) dims[n++] = s.dims[i];
  for (size_t i = axis + 1; i < x.type->n; i++) dims[n++] = x.type->dims[i];
  for (size_t i = 0; i < n; i++) open += dims[i] < 0;
  if (!s.known || open > 1) return anfi_layer_error(l, ANF_E1053, "sizes that are not known");
  if (n > ANF_MAX_RANK) return anfi_layer_error(l, ANF_E1055, "a shape has at most 16 dims");
  l->nresult = 1;
  return anfi_layer_reshape(l, &x, n, dims, &l->out[0]);
}

/* Axes in the opposite order, of a matrix or a vector. */
static bool matrix_transpose(anfi_layer *l) {
  anfi_operand x;
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  if (x.type->n > 2) return anfi_layer_error(l, ANF_E1055, "its input must have at most two dims");
  return anfi_layer_result(l, ANF_OP_Transpose, 1, &x, 0, NULL);
}

static bool permute(anfi_layer *l) {
  anfi_operand x;
  int64_t axes[ANF_MAX_RANK];
  size_t n;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_ints(l, "dims", &n, axes)) return false;
  anf_attr a = {l->code == ANF_OP_Transpose ? "axes" : "axis", anfi_layer_v_ints(l, n, axes), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
}

static bool transpose(anfi_layer *l) {
  anfi_operand x;
  int64_t i, j;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "dim0", &i) ||
      !anfi_layer_need_int(l, "dim1", &j))
    return false;
  anf_attr a[] = {{"axis1", anfi_layer_v_int(l, i), NULL}, {"axis2", anfi_layer_v_int(l, j), NULL}};
  return anfi_layer_result(l, ANF_OP_SwapAxes, 1, &x, 2, a);
}

static bool flatten(anfi_layer *l) {
  anfi_operand x;
  int64_t from, until;
  bool module = strcmp(l->op->type, "nn.Flatten") == 0;
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_int(l, "start_dim", module ? 1 : 0, &from) ||
      !anfi_layer_int(l, "end_dim", -1, &until))
    return false;
  anf_attr a[] = {{"start", anfi_layer_v_int(l, from), NULL},
                  {"end", anfi_layer_v_int(l, until), NULL}};
  return anfi_layer_result(l, ANF_OP_Flatten, 1, &x, 2, a);
}

/* torch.squeeze leaves axes of another size than 1 alone. */
static bool squeeze(anfi_layer *l) {
  anfi_operand x;
  int64_t v[ANF_MAX_RANK], keep[ANF_MAX_RANK];
  size_t n, kept = 0, axis;
  if (!anfi_layer_tensor(l, "input", 0, &x)) return false;
  if (!anfi_layer_given(l, "dim")) return anfi_layer_result(l, l->code, 1, &x, 0, NULL);
  if (!anfi_layer_ints(l, "dim", &n, v)) return false;
  for (size_t i = 0; i < n; i++) {
    if (!anfi_layer_axis_of(l, &x, v[i], &axis)) return false;
    if (x.type->dims[axis] == 1) keep[kept++] = (int64_t)axis;
  }
  l->nresult = 1;
  if (!kept) return l->out[0] = x, true;
  anf_attr a = {"axis", anfi_layer_v_ints(l, kept, keep), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a);
}

static bool unsqueeze(anfi_layer *l) {
  anfi_operand x;
  int64_t v;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "dim", &v)) return false;
  l->nresult = 1;
  return anfi_layer_along(l, ANF_OP_ExpandDims, 1, &x, v, &l->out[0]);
}

static bool tile(anfi_layer *l) {
  anfi_operand x;
  int64_t v[ANF_MAX_RANK];
  size_t n;
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_ints(l,
                       anfi_layer_given(l, "sizes")  ? "sizes"
                       : anfi_layer_given(l, "dims") ? "dims"
                                                     : "repeats",
                       &n, v))
    return false;
  anf_attr a = {"reps", anfi_layer_v_ints(l, n, v), NULL};
  return anfi_layer_result(l, ANF_OP_Tile, 1, &x, 1, &a);
}

static bool roll(anfi_layer *l) {
  anfi_operand x;
  int64_t shift[ANF_MAX_RANK], axis[ANF_MAX_RANK];
  size_t n, k = 0;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_ints(l, "shifts", &n, shift))
    return false;
  if (anfi_layer_given(l, "dims") && !anfi_layer_ints(l, "dims", &k, axis)) return false;
  if (n != (k ? k : 1)) return anfi_layer_error(l, ANF_E1055, "each shift needs a dim");
  anf_attr a[] = {
      {"shift", k ? anfi_layer_v_ints(l, n, shift) : anfi_layer_v_int(l, shift[0]), NULL},
      {"axis", anfi_layer_v_ints(l, k, axis), NULL}};
  return anfi_layer_result(l, ANF_OP_Roll, 1, &x, k ? 2 : 1, a);
}

/* F.pad says its mode, a module's name does. */
static const char *pad_mode(const anfi_layer *l) {
  static const char *const ours[][3] = {{"constant", "constant", "nn.ConstantPad"},
                                        {"constant", "constant", "nn.ZeroPad"},
                                        {"reflect", "reflect", "nn.ReflectionPad"},
                                        {"replicate", "edge", "nn.ReplicationPad"},
                                        {"circular", "wrap", "nn.CircularPad"}};
  const char *mode = anfi_layer_text(l, "mode");
  bool module = strncmp(l->op->type, "nn.", 3) == 0;
  if (!mode) mode = "constant";
  for (size_t k = 0; k < ANFI_LEN(ours); k++)
    if (module ? strncmp(l->op->type, ours[k][2], strlen(ours[k][2])) == 0
               : strcmp(mode, ours[k][0]) == 0)
      return ours[k][1];
  anfi_layer_only(l, "mode", "constant");
  return NULL;
}

/* Two numbers for each of the last dims; a module's one number is for all sides. */
static bool pad_widths(const anfi_layer *l, const anfi_operand *x, int64_t *width) {
  int64_t p[ANF_MAX_RANK];
  size_t n;
  bool module = strncmp(l->op->type, "nn.", 3) == 0;
  if (!anfi_layer_ints(l, module ? "padding" : "pad", &n, p)) return false;
  size_t digit = strlen(l->op->type) - 2;
  if (module && n == 1) {
    n = 2 * (size_t)(l->op->type[digit] - '0');
    for (size_t i = 1; i < n; i++) p[i] = p[0];
  }
  if (n % 2 || n / 2 > x->type->n)
    return anfi_layer_error(l, ANF_E1055, "pad must have two numbers for each of the last dims");
  for (size_t i = 0; i < n; i++) width[2 * (x->type->n - 1 - i / 2) + i % 2] = p[i];
  return true;
}

bool anfi_layer_pad(const anfi_layer *l, const anfi_operand *x, const int64_t *width,
                    const char *mode, double value, anfi_operand *out) {
  int64_t more[2 * ANF_MAX_RANK];
  size_t n = x->type->n;
  bool constant = strcmp(mode, "constant") == 0,
       whole = anfi_dtype_class((anf_dtype)x->type->dtype) < ANFI_CLASS_FLOAT;
  *out = *x;
  for (size_t i = 0; i < n; i++) {
    int64_t from = width[2 * i] < 0 ? -width[2 * i] : 0, size = x->type->dims[i],
            until = width[2 * i + 1] < 0 ? width[2 * i + 1] : INT64_MAX;
    more[2 * i] = width[2 * i] < 0 ? 0 : width[2 * i];
    more[2 * i + 1] = width[2 * i + 1] < 0 ? 0 : width[2 * i + 1];
    if (size >= 0 && from - (until < 0 ? until : 0) > size)
      return anfi_layer_error(l, ANF_E1055, "more is cut away than there is");
    if ((from || until < 0) && !anfi_layer_slice(l, out, (int64_t)i, from, until, out))
      return false;
  }
  anf_attr a[] = {
      {"pad_width", anfi_layer_v_ints(l, 2 * n, more), NULL},
      {"mode", anfi_layer_v_text(l, mode), NULL},
      {"value", whole ? anfi_layer_v_int(l, (int64_t)value) : anfi_layer_v_real(l, value), NULL}};
  return anfi_layer_op(l, ANF_OP_Pad, 1, out, constant ? 3 : 2, a, out);
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

static bool pad(anfi_layer *l) {
  anfi_operand x;
  int64_t width[2 * ANF_MAX_RANK] = {0};
  double value;
  anfi_sizes s;
  const char *mode = pad_mode(l);
  if (mode && strncmp(l->op->type, "nn.", 3) != 0) {
    if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_sizes(l, "pad", &s) ||
        !anfi_layer_real(l, "value", 0, &value))
      return false;
    if (!s.known) return open_pad(l, &x, &s, mode, value);
  }
  if (!mode || !anfi_layer_tensor(l, "input", 0, &x) || !pad_widths(l, &x, width) ||
      !anfi_layer_real(l, "value", 0, &value))
    return false;
  l->nresult = 1;
  return anfi_layer_pad(l, &x, width, mode, value, &l->out[0]);
}

const anfi_layer_row anfi_layers_shape[] = {
    ANFI_LAYER("Tensor.reshape", reshape, Reshape),
    ANFI_LAYER("Tensor.view", reshape, Reshape),
    ANFI_LAYER("torch.reshape", reshape, Reshape),
    ANFI_LAYER("Tensor.reshape_as", reshape_as, ReshapeLike),
    ANFI_LAYER("Tensor.unflatten", unflatten, Reshape),
    ANFI_LAYER("nn.Unflatten", unflatten, Reshape),
    ANFI_LAYER("torch.unflatten", unflatten, Reshape),
    ANFI_LAYER("torch.t", matrix_transpose, Transpose),
    ANFI_LAYER("torch.tile", tile, Tile),
    ANFI_LAYER("Tensor.expand", expand, BroadcastTo),
    ANFI_LAYER("Tensor.to", to, Cast),
    ANFI_LAYER("Tensor.permute", permute, Transpose),
    ANFI_LAYER("torch.permute", permute, Transpose),
    ANFI_LAYER("torch.flip", permute, Flip),
    ANFI_LAYER("torch.transpose", transpose, SwapAxes),
    ANFI_LAYER("torch.flatten", flatten, Flatten),
    ANFI_LAYER("nn.Flatten", flatten, Flatten),
    ANFI_LAYER("torch.squeeze", squeeze, Squeeze),
    ANFI_LAYER("torch.unsqueeze", unsqueeze, ExpandDims),
    ANFI_LAYER("Tensor.repeat", tile, Tile),
    ANFI_LAYER("torch.roll", roll, Roll),
    ANFI_LAYER("F.pad", pad, Pad),
    ANFI_LAYER("nn.ConstantPad1d", pad, Pad),
    ANFI_LAYER("nn.ConstantPad2d", pad, Pad),
    ANFI_LAYER("nn.ConstantPad3d", pad, Pad),
    ANFI_LAYER("nn.ReflectionPad1d", pad, Pad),
    ANFI_LAYER("nn.ReflectionPad2d", pad, Pad),
    ANFI_LAYER("nn.ReflectionPad3d", pad, Pad),
    ANFI_LAYER("nn.ReplicationPad1d", pad, Pad),
    ANFI_LAYER("nn.ReplicationPad2d", pad, Pad),
    ANFI_LAYER("nn.ReplicationPad3d", pad, Pad),
    ANFI_LAYER("nn.ZeroPad1d", pad, Pad),
    ANFI_LAYER("nn.ZeroPad2d", pad, Pad),
    ANFI_LAYER("nn.ZeroPad3d", pad, Pad),
    ANFI_LAYER("nn.CircularPad1d", pad, Pad),
    ANFI_LAYER("nn.CircularPad2d", pad, Pad),
    ANFI_LAYER("nn.CircularPad3d", pad, Pad),
    {NULL, NULL, ANF_OP_NONE},
};
