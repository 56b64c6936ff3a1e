// SPDX-License-Identifier: Apache-2.0
/* Pools: of the mean, of the greatest, of powers; of given windows, or of a given size of the result
 * (adaptive). Names of parameters and their defaults are those of PyTorch. */
#include "frontend/pnnx/pnnx.h"

/* The spatial dims of x by one integer each; one integer stands for all. False if absent. */
static bool spatial_ints(const anfi_layer *l, const char *key, size_t spatial, int64_t otherwise,
                         int64_t *v) {
  size_t n = 1;
  v[0] = otherwise;
  if (anfi_layer_given(l, key) && !anfi_layer_ints(l, key, &n, v)) return false;
  for (size_t i = 0; i < n; i++)
    if (v[i] < 0 || v[i] > INT32_MAX)
      return anfi_layer_error(l, ANF_E1055, "a parameter of its window is out of range");
  for (size_t i = n; n && i < spatial; i++) v[i] = v[n - 1];
  return n == 1 || n == spatial ||
         anfi_layer_error(l, ANF_E1055, "a parameter has another number of dims than the input");
}

/* What ceil_mode lets the last window reach beyond the padded input, as padding on the right. */
static int64_t ceil_excess(int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
  int64_t room = size + 2 * pad - kernel, n = (room + stride - 1) / stride + 1;
  if ((n - 1) * stride >= size + pad) n--; // the last window must start in the input
  int64_t excess = (n - 1) * stride - room;
  return excess > 0 ? excess : 0;
}

/* Windows that all lie in the padded input have all kernel's elements: their mean times
 * size / divisor is the sum / divisor. */
static bool divided_pool(anfi_layer *l, anfi_operand *x, size_t spatial, bool ceil_mode,
                         int64_t divisor) {
  int64_t k[ANF_MAX_RANK], stride[ANF_MAX_RANK], pad[ANF_MAX_RANK], width[2 * ANF_MAX_RANK] = {0};
  double size = 1;
  bool strided = anfi_layer_given(l, "stride");
  if (!divisor) return anfi_layer_error(l, ANF_E1055, "divisor_override must not be 0");
  if (!spatial_ints(l, "kernel_size", spatial, 1, k) ||
      !spatial_ints(l, "stride", spatial, 1, stride) ||
      !spatial_ints(l, "padding", spatial, 0, pad))
    return false;
  for (size_t i = 0; i < spatial; i++) {
    if (!strided) stride[i] = k[i];
    if (k[i] < 1 || stride[i] < 1 || x->type->dims[i + 2] < 0)
      return anfi_layer_error(l, ANF_E1053, "divisor_override and a size that is not known");
    size *= (double)k[i];
    width[4 + 2 * i] = pad[i];
    width[5 + 2 * i] =
        pad[i] + (ceil_mode ? ceil_excess(x->type->dims[i + 2], k[i], stride[i], pad[i]) : 0);
  }
  anf_attr padding = {"pad_width", anfi_layer_v_ints(l, 4 + 2 * spatial, width), NULL};
  anf_attr a[] = {{"kernel", anfi_layer_v_ints(l, spatial, k), NULL},
                  {"stride", anfi_layer_v_ints(l, spatial, stride), NULL}};
  anfi_operand by = anfi_layer_number(l, size / (double)divisor);
  return anfi_layer_op(l, ANF_OP_Pad, 1, x, 1, &padding, x) &&
         anfi_layer_result(l, l->code, 1, x, 2, a) &&
         anfi_layer_op2(l, ANF_OP_Mul, &l->out[0], &by, &l->out[0]);
}

/* Where in its plane the greatest element of each window is: a max pool of x that gives positions. */
static bool pool_indices(anfi_layer *l, const anfi_operand *x, const anfi_layer_attrs *a) {
  size_t rank = x->type->n, n = 1;
  int64_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < rank; i++) {
    dims[i] = i < 2 ? 1 : x->type->dims[i];
    if (dims[i] < 0) return anfi_layer_error(l, ANF_E1053, "indices in a size that is not known");
    if (__builtin_mul_overflow(n, (size_t)dims[i], &n) || n > (size_t)1 << 31)
      return anfi_layer_error(l, ANF_E1055, "its input is too large");
  }
  double *at = ANFI_NEW_N(l->t->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) at[i] = (double)i;
  anfi_operand in[] = {*x, anfi_layer_constant(l, ANF_F64, rank, dims, at)};
  l->nresult = 2;
  return anfi_layer_op2(l, ANF_OP_BroadcastLike, &in[1], x, &in[1]) &&
         anfi_layer_op(l, ANF_OP_MaxPoolPick, 2, in, a->n, a->at, &l->out[1]) &&
         anfi_torch_cast(l->t, &l->out[1], ANF_I64, &l->out[1]);
}

/* Values and positions: as two outputs, or as one that is a tuple. Where nobody wants positions,
 * the file has one output that is a tensor. */
static bool wants_indices(const anfi_layer *l) {
  return l->op->nout == 2 || (l->op->nout == 1 && !l->op->model->operands.at[l->op->out[0]].shape);
}

static bool give(anfi_layer *l, bool batch_added) {
  if (!anfi_layer_drop_batches(l, batch_added)) return false;
  if (l->nresult == 1 || l->op->nout == 2) return true;
  anfi_operand *item = ANFI_NEW_N(l->t->arena, anfi_operand, 2);
  memcpy(item, l->out, 2 * sizeof *item);
  l->out[0] = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = 2, .item = item};
  l->nresult = 1;
  return true;
}

static bool mean_pool(anfi_layer *l) {
  anfi_operand x;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, include, added;
  int64_t divisor;
  size_t spatial = (size_t)(l->code - ANF_OP_AvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_add_batch(l, spatial + 2, &x, &added) ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode) ||
      !anfi_layer_bool(l, "count_include_pad", true, &include))
    return false;
  if (anfi_layer_given(l, "divisor_override"))
    return anfi_layer_need_int(l, "divisor_override", &divisor) &&
           divided_pool(l, &x, spatial, ceil_mode, divisor) && anfi_layer_drop_batches(l, added);
  if (!anfi_layer_add_ints(l, &a, "kernel_size", "kernel") ||
      !anfi_layer_add_ints(l, &a, "stride", "stride") ||
      !anfi_layer_add_ints(l, &a, "padding", "padding"))
    return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  anfi_layer_attr(&a, "count_include_pad", anfi_layer_v_bool(l, include));
  return anfi_layer_result(l, l->code, 1, &x, a.n, a.at) && anfi_layer_drop_batches(l, added);
}

static bool max_pool(anfi_layer *l) {
  anfi_operand x;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, indices, added;
  size_t spatial = (size_t)(l->code - ANF_OP_MaxPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_add_batch(l, spatial + 2, &x, &added) ||
      !anfi_layer_add_ints(l, &a, "kernel_size", "kernel") ||
      !anfi_layer_add_ints(l, &a, "stride", "stride") ||
      !anfi_layer_add_ints(l, &a, "padding", "padding") ||
      !anfi_layer_add_ints(l, &a, "dilation", "dilation") ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode) ||
      !anfi_layer_bool(l, "return_indices", false, &indices))
    return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  if (!anfi_layer_result(l, l->code, 1, &x, a.n, a.at)) return false;
  if (indices && wants_indices(l) && !pool_indices(l, &x, &a)) return false;
  return give(l, added);
}

/* The mean of powers, times the window's size, to the power 1 / p. */
static bool power_pool(anfi_layer *l) {
  anfi_operand x, y, by, root;
  anfi_layer_attrs a = {.n = 0};
  bool ceil_mode, added;
  double p, size = 1;
  int64_t k[ANF_MAX_RANK];
  size_t spatial = (size_t)(l->code - ANF_OP_AvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_add_batch(l, spatial + 2, &x, &added) ||
      !spatial_ints(l, "kernel_size", spatial, 1, k) || !anfi_layer_real(l, "norm_type", 2, &p) ||
      !anfi_layer_bool(l, "ceil_mode", false, &ceil_mode))
    return false;
  if (p == 0) return anfi_layer_error(l, ANF_E1055, "norm_type must not be 0");
  for (size_t i = 0; i < spatial; i++) size *= (double)k[i];
  anfi_layer_attr(&a, "kernel", anfi_layer_v_ints(l, spatial, k));
  if (!anfi_layer_add_ints(l, &a, "stride", "stride")) return false;
  anfi_layer_attr(&a, "ceil_mode", anfi_layer_v_bool(l, ceil_mode));
  by = anfi_layer_number(l, p), root = anfi_layer_number(l, 1 / p);
  anfi_operand times = anfi_layer_number(l, size);
  l->nresult = 1;
  return anfi_layer_op2(l, ANF_OP_Power, &x, &by, &x) &&
         anfi_layer_op(l, l->code, 1, &x, a.n, a.at, &y) &&
         anfi_layer_op1(l, ANF_OP_Relu, &y, &y) && anfi_layer_op2(l, ANF_OP_Mul, &y, &times, &y) &&
         anfi_layer_op2(l, ANF_OP_Power, &y, &root, &l->out[0]) &&
         anfi_layer_drop_batches(l, added);
}

/* None in output_size keeps the input's size; pnnx writes it as 0. */
static bool adaptive_sizes(const anfi_layer *l, const anfi_operand *x, size_t spatial, int64_t *v) {
  anfi_operand size;
  if (!anfi_layer_arg(l, "output_size", &size)) return false;
  if (x->type->n != spatial + 2)
    return anfi_layer_error(l, ANF_E1055, "its input has the wrong rank");
  for (size_t i = 0; i < spatial; i++) {
    const anfi_operand *o = size.kind != ANFI_OPERAND_LIST ? &size
                            : i < size.n                   ? &size.item[i]
                                                           : &size;
    if (o->kind == ANFI_OPERAND_NONE) v[i] = 0;
    else if (!anfi_operand_int(o, &v[i])) v[i] = -1;
    if (v[i] == 0) v[i] = x->type->dims[i + 2];
    if (v[i] < 0 || v[i] > INT32_MAX || x->type->dims[i + 2] > INT32_MAX)
      return anfi_layer_error(l, ANF_E1055,
                              "output_size must be known integers, or None of a known dim");
  }
  return true;
}

static bool adaptive_mean_pool(anfi_layer *l) {
  anfi_operand x;
  int64_t v[3];
  bool added;
  size_t spatial = (size_t)(l->code - ANF_OP_AdaptiveAvgPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_add_batch(l, spatial + 2, &x, &added) ||
      !adaptive_sizes(l, &x, spatial, v))
    return false;
  anf_attr a = {"shape", anfi_layer_v_ints(l, spatial, v), NULL};
  return anfi_layer_result(l, l->code, 1, &x, 1, &a) && anfi_layer_drop_batches(l, added);
}

/* Window i of n windows that cover an axis. */
static int64_t window_start(int64_t size, int64_t n, int64_t i) { return i * size / n; }
static int64_t window_end(int64_t size, int64_t n, int64_t i) {
  return ((i + 1) * size + n - 1) / n;
}

/* Along one axis: windows of different lengths are filled up with their last element. */
static bool adaptive_max_along(const anfi_layer *l, anfi_operand *x, size_t axis, int64_t n) {
  int64_t size = x->type->dims[axis], longest = 1;
  if (size < 1 || n > 1 << 20)
    return anfi_layer_error(l, ANF_E1053, "an input whose size is 0 or not known");
  if (size == n) return true;
  for (int64_t i = 0; i < n; i++) {
    int64_t len = window_end(size, n, i) - window_start(size, n, i);
    if (len > longest) longest = len;
  }
  int64_t dims[] = {n, longest};
  double *at = ANFI_NEW_N(l->t->arena, double, (size_t)(n * longest) + 1);
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < longest; k++) {
      int64_t from = window_start(size, n, i), last = window_end(size, n, i) - 1;
      at[i * longest + k] = (double)(from + k < last ? from + k : last);
    }
  anfi_operand where = anfi_layer_constant(l, ANF_I64, 2, dims, at);
  return anfi_layer_take(l, x, &where, (int64_t)axis, x) &&
         anfi_layer_along(l, ANF_OP_Max, 1, x, (int64_t)axis + 1, x);
}

/* The elements of every window as positions in the plane, windows filled up with their last
 * elements: the first greatest one is where the maximum is. */
static bool adaptive_indices(anfi_layer *l, anfi_operand x, size_t spatial, const int64_t *v) {
  int64_t windows = 1, longest = 1, plane = 1, dims[ANF_MAX_RANK];
  const int64_t *size = x.type->dims + 2;
  for (size_t i = 0; i < spatial; i++) {
    int64_t most = 1;
    for (int64_t k = 0; k < v[i]; k++) {
      int64_t len = window_end(size[i], v[i], k) - window_start(size[i], v[i], k);
      if (len > most) most = len;
    }
    dims[i] = most, windows *= v[i], longest *= most, plane *= size[i];
    if (windows > 1 << 20 || longest > (1 << 24) / (windows ? windows : 1))
      return anfi_layer_error(l, ANF_E1053, "indices of so many windows");
  }
  double *at = ANFI_NEW_N(l->t->arena, double, (size_t)(windows * longest) + 1);
  for (int64_t w = 0; w < windows; w++)
    for (int64_t e = 0; e < longest; e++) {
      int64_t which = w, element = e, place = 0, step = 1;
      for (size_t i = spatial; i-- > 0;) {
        int64_t k = which % v[i], from = window_start(size[i], v[i], k) + element % dims[i],
                last = window_end(size[i], v[i], k) - 1;
        place += step * (from < last ? from : last);
        which /= v[i], element /= dims[i], step *= size[i];
      }
      at[w * longest + e] = (double)place;
    }
  anfi_operand where = anfi_layer_constant(l, ANF_I64, 2, (const int64_t[]){windows, longest}, at);
  const int64_t flat[] = {x.type->dims[0], x.type->dims[1], plane},
                wide[] = {flat[0], flat[1], windows, longest};
  int64_t shape[ANF_MAX_RANK] = {flat[0], flat[1]};
  anf_attr to = {"shape", anfi_layer_v_ints(l, 4, wide), NULL};
  anfi_operand in[2], all, first;
  memcpy(shape + 2, v, spatial * sizeof *v);
  l->nresult = 2;
  return anfi_layer_reshape(l, &x, 3, flat, &x) && anfi_layer_take(l, &x, &where, 2, &all) &&
         anfi_layer_along(l, ANF_OP_Max, 1, &all, 3, &first) &&
         anfi_layer_reshape(l, &first, spatial + 2, shape, &l->out[0]) &&
         anfi_layer_along(l, ANF_OP_ArgMax, 1, &all, 3, &first) &&
         anfi_layer_along(l, ANF_OP_ExpandDims, 1, &first, 3, &in[1]) &&
         anfi_layer_op(l, ANF_OP_BroadcastTo, 1, &where, 1, &to, &in[0]) &&
         anfi_layer_along(l, ANF_OP_TakeAlongAxis, 2, in, 3, &first) &&
         anfi_layer_reshape(l, &first, spatial + 2, shape, &l->out[1]);
}

/* Sizes that divide the input's are plain windows. */
static bool adaptive_max_pool(anfi_layer *l) {
  anfi_operand x;
  int64_t v[3], k[3];
  bool added, indices, even = true;
  size_t spatial = (size_t)(l->code - ANF_OP_MaxPool1D) + 1;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_add_batch(l, spatial + 2, &x, &added) ||
      !adaptive_sizes(l, &x, spatial, v) || !anfi_layer_bool(l, "return_indices", false, &indices))
    return false;
  indices = indices && wants_indices(l);
  for (size_t i = 0; i < spatial; i++) {
    even = even && v[i] && x.type->dims[i + 2] > 0 && x.type->dims[i + 2] % v[i] == 0;
    k[i] = even ? x.type->dims[i + 2] / v[i] : 0;
  }
  anfi_layer_attrs a = {{{"kernel", anfi_layer_v_ints(l, spatial, k), NULL}}, 1};
  if (even)
    return anfi_layer_result(l, l->code, 1, &x, a.n, a.at) &&
           (!indices || pool_indices(l, &x, &a)) && give(l, added);
  if (indices) return adaptive_indices(l, x, spatial, v) && give(l, added);
  for (size_t i = 0; i < spatial; i++)
    if (!adaptive_max_along(l, &x, i + 2, v[i])) return false;
  l->nresult = 1;
  l->out[0] = x;
  return anfi_layer_drop_batches(l, added);
}

const anfi_layer_row anfi_layers_pool[] = {
    ANFI_LAYER("nn.MaxPool1d", max_pool, MaxPool1D),
    ANFI_LAYER("F.max_pool1d", max_pool, MaxPool1D),
    ANFI_LAYER("nn.MaxPool2d", max_pool, MaxPool2D),
    ANFI_LAYER("F.max_pool2d", max_pool, MaxPool2D),
    ANFI_LAYER("nn.MaxPool3d", max_pool, MaxPool3D),
    ANFI_LAYER("F.max_pool3d", max_pool, MaxPool3D),
    ANFI_LAYER("nn.AvgPool1d", mean_pool, AvgPool1D),
    ANFI_LAYER("F.avg_pool1d", mean_pool, AvgPool1D),
    ANFI_LAYER("nn.AvgPool2d", mean_pool, AvgPool2D),
    ANFI_LAYER("F.avg_pool2d", mean_pool, AvgPool2D),
    ANFI_LAYER("nn.AvgPool3d", mean_pool, AvgPool3D),
    ANFI_LAYER("F.avg_pool3d", mean_pool, AvgPool3D),
    ANFI_LAYER("nn.AdaptiveAvgPool1d", adaptive_mean_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("F.adaptive_avg_pool1d", adaptive_mean_pool, AdaptiveAvgPool1D),
    ANFI_LAYER("nn.AdaptiveAvgPool2d", adaptive_mean_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("F.adaptive_avg_pool2d", adaptive_mean_pool, AdaptiveAvgPool2D),
    ANFI_LAYER("nn.AdaptiveAvgPool3d", adaptive_mean_pool, AdaptiveAvgPool3D),
    ANFI_LAYER("F.adaptive_avg_pool3d", adaptive_mean_pool, AdaptiveAvgPool3D),
    ANFI_LAYER("nn.AdaptiveMaxPool1d", adaptive_max_pool, MaxPool1D),
    ANFI_LAYER("F.adaptive_max_pool1d", adaptive_max_pool, MaxPool1D),
    ANFI_LAYER("nn.AdaptiveMaxPool2d", adaptive_max_pool, MaxPool2D),
    ANFI_LAYER("F.adaptive_max_pool2d", adaptive_max_pool, MaxPool2D),
    ANFI_LAYER("nn.AdaptiveMaxPool3d", adaptive_max_pool, MaxPool3D),
    ANFI_LAYER("F.adaptive_max_pool3d", adaptive_max_pool, MaxPool3D),
    ANFI_LAYER("nn.LPPool1d", power_pool, AvgPool1D),
    ANFI_LAYER("F.lp_pool1d", power_pool, AvgPool1D),
    ANFI_LAYER("nn.LPPool2d", power_pool, AvgPool2D),
    ANFI_LAYER("F.lp_pool2d", power_pool, AvgPool2D),
    {NULL, NULL, ANF_OP_NONE},
};
