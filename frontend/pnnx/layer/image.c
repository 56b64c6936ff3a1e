// SPDX-License-Identifier: Apache-2.0
/* Layers of images that are made of reshapes, convolutions and gathers: shuffles of pixels and
 * channels, fold and unfold, normalisation over neighbouring channels, sampling along a grid. */
#include "frontend/pnnx/pnnx.h"

#include <math.h>

static bool known_dims(const anfi_layer *l, const anfi_operand *x) {
  for (size_t i = 0; i < x->type->n; i++)
    if (x->type->dims[i] < 0) return anfi_layer_error(l, ANF_E1053, "a size that is not known");
  return true;
}

/* ---- shuffles: some axes cut in two, permuted, joined ---- */

/* `front` dims stay as they are before those of `dims`. */
static bool with_front(const anfi_layer *l, anfi_operand *x, size_t front, size_t n,
                       const int64_t *dims) {
  int64_t all[ANF_MAX_RANK];
  if (front + n > ANF_MAX_RANK) return anfi_layer_error(l, ANF_E1055, "it has too many dims");
  for (size_t i = 0; i < front; i++) all[i] = x->type->dims[i];
  memcpy(all + front, dims, n * sizeof *dims);
  return anfi_layer_reshape(l, x, front + n, all, x);
}

static bool permute_back(const anfi_layer *l, anfi_operand *x, size_t front, size_t n,
                         const int64_t *order) {
  int64_t axes[ANF_MAX_RANK];
  for (size_t i = 0; i < front + n; i++)
    axes[i] = (int64_t)(i < front ? i : front + (size_t)order[i - front]);
  return anfi_layer_transpose(l, x, front + n, axes, x);
}

/* [c r r, h, w] to [c, h r, w r], or back. */
static bool pixel_shuffle(anfi_layer *l) {
  anfi_operand x;
  int64_t r;
  bool back = strstr(l->op->type, "nshuffle") != NULL;
  if (!anfi_layer_tensor(l, "input", 0, &x) ||
      !anfi_layer_need_int(l, back ? "downscale_factor" : "upscale_factor", &r) ||
      !known_dims(l, &x))
    return false;
  if (x.type->n < 3) return anfi_layer_error(l, ANF_E1055, "its input must have channels and dims");
  size_t front = x.type->n - 3;
  const int64_t *d = x.type->dims + front;
  if (r < 1 || r > 1 << 15 || (back ? d[1] % r || d[2] % r : d[0] % (r * r)))
    return anfi_layer_error(l, ANF_E1055, "its input does not divide by the factor");
  int64_t c = back ? d[0] : d[0] / (r * r), h = back ? d[1] / r : d[1], w = back ? d[2] / r : d[2];
  l->nresult = 1;
  l->out[0] = x;
  if (back)
    return with_front(l, &l->out[0], front, 5, (const int64_t[]){c, h, r, w, r}) &&
           permute_back(l, &l->out[0], front, 5, (const int64_t[]){0, 2, 4, 1, 3}) &&
           with_front(l, &l->out[0], front, 3, (const int64_t[]){c * r * r, h, w});
  return with_front(l, &l->out[0], front, 5, (const int64_t[]){c, r, r, h, w}) &&
         permute_back(l, &l->out[0], front, 5, (const int64_t[]){0, 3, 1, 4, 2}) &&
         with_front(l, &l->out[0], front, 3, (const int64_t[]){c, h * r, w * r});
}

static bool channel_shuffle(anfi_layer *l) {
  anfi_operand x;
  int64_t groups, dims[ANF_MAX_RANK], *d = dims;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "groups", &groups) ||
      !known_dims(l, &x))
    return false;
  size_t n = x.type->n;
  if (n < 3 || n >= ANF_MAX_RANK || groups < 1 || x.type->dims[1] % groups)
    return anfi_layer_error(l, ANF_E1055, "its channels do not divide by groups");
  *d++ = x.type->dims[0], *d++ = groups, *d++ = x.type->dims[1] / groups;
  memcpy(d, x.type->dims + 2, (n - 2) * sizeof *d);
  l->nresult = 1;
  return anfi_layer_reshape(l, &x, n + 1, dims, &l->out[0]) &&
         anfi_layer_swap(l, &l->out[0], 1, 2, &l->out[0]) &&
         anfi_layer_reshape(l, &l->out[0], n, x.type->dims, &l->out[0]);
}

/* ---- fold and unfold: convolutions whose weights pick one element of a window each ---- */

typedef struct {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
} window;

static bool pair(const anfi_layer *l, const char *key, int64_t otherwise, int64_t least,
                 int64_t *v) {
  size_t n = 1;
  v[0] = otherwise;
  if (anfi_layer_given(l, key) && !anfi_layer_ints(l, key, &n, v)) return false;
  if (n == 1) v[1] = v[0];
  if ((n == 1 || n == 2) && v[0] >= least && v[1] >= least && v[0] < 1 << 20 && v[1] < 1 << 20)
    return true;
  return anfi_layer_error(l, ANF_E1055, "a parameter of its window is out of range");
}

static bool read_window(const anfi_layer *l, window *w) {
  return pair(l, "kernel_size", 0, 1, w->kernel) && pair(l, "stride", 1, 1, w->stride) &&
         pair(l, "padding", 0, 0, w->padding) && pair(l, "dilation", 1, 1, w->dilation);
}

/* [c kh kw, 1, kh, kw] */
static bool picking_weight(const anfi_layer *l, const window *w, int64_t channels, anf_dtype d,
                           anfi_operand *out) {
  int64_t k = w->kernel[0] * w->kernel[1];
  if (k > 1 << 12 || channels > (1 << 24) / (k * k))
    return anfi_layer_error(l, ANF_E1053, "a window that is so large");
  int64_t dims[] = {channels * k, 1, w->kernel[0], w->kernel[1]};
  double *v = ANFI_NEW_N(l->t->arena, double, (size_t)(channels * k * k) + 1);
  for (int64_t i = 0; i < channels * k; i++) v[i * k + i % k] = 1;
  return *out = anfi_layer_constant(l, d, 4, dims, v), true;
}

static bool add_batch(const anfi_layer *l, anfi_operand *x, size_t rank, bool *added) {
  *added = x->type->n + 1 == rank;
  if (*added && !anfi_layer_along(l, ANF_OP_ExpandDims, 1, x, 0, x)) return false;
  return x->type->n == rank ? known_dims(l, x)
                            : anfi_layer_error(l, ANF_E1055, "its input has the wrong rank");
}

static bool convolve(anfi_layer *l, anfi_opcode op, const window *w, const anfi_operand *x,
                     int64_t channels, anfi_operand *out) {
  anfi_operand in[2] = {*x};
  anf_attr a[] = {{"stride", anfi_layer_v_ints(l, 2, w->stride), NULL},
                  {"padding", anfi_layer_v_ints(l, 2, w->padding), NULL},
                  {"dilation", anfi_layer_v_ints(l, 2, w->dilation), NULL},
                  {"groups", anfi_layer_v_int(l, channels), NULL}};
  return picking_weight(l, w, channels, (anf_dtype)x->type->dtype, &in[1]) &&
         anfi_layer_op(l, op, 2, in, 4, a, out);
}

static bool unfold(anfi_layer *l) {
  anfi_operand x, y;
  window w;
  bool added;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !read_window(l, &w) || !add_batch(l, &x, 4, &added))
    return false;
  int64_t channels = x.type->dims[1];
  if (!convolve(l, ANF_OP_Conv2D, &w, &x, channels, &y)) return false;
  const int64_t dims[] = {y.type->dims[0], y.type->dims[1], y.type->dims[2] * y.type->dims[3]};
  l->nresult = 1;
  return anfi_layer_reshape(l, &y, 3, dims, &l->out[0]) &&
         (!added || anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[0], 0, &l->out[0]));
}

/* How many windows an axis of the image has; -1 if none fits. */
static int64_t windows_along(const window *w, int64_t size, int i) {
  int64_t room = size + 2 * w->padding[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
  return room < 0 ? -1 : room / w->stride[i] + 1;
}

/* What the windows cover is cut to the image, or padded where no window reaches. */
static bool fold(anfi_layer *l) {
  anfi_operand x, y;
  window w;
  bool added;
  int64_t size[2], n[2], pads[8] = {0};
  if (!anfi_layer_tensor(l, "input", 0, &x) || !read_window(l, &w) ||
      !pair(l, "output_size", 0, 1, size) || !add_batch(l, &x, 3, &added))
    return false;
  int64_t k = w.kernel[0] * w.kernel[1], channels = x.type->dims[1] / k;
  for (int i = 0; i < 2; i++) n[i] = windows_along(&w, size[i], i);
  if (n[0] < 1 || n[1] < 1 || n[0] * n[1] != x.type->dims[2] || channels * k != x.type->dims[1])
    return anfi_layer_error(l, ANF_E1055, "its input does not fit output_size and the window");
  const int64_t dims[] = {x.type->dims[0], x.type->dims[1], n[0], n[1]};
  for (size_t i = 0; i < 2; i++) pads[4 + 2 * i] = -w.padding[i], w.padding[i] = 0;
  if (!anfi_layer_reshape(l, &x, 4, dims, &x) ||
      !convolve(l, ANF_OP_ConvTranspose2D, &w, &x, channels, &y))
    return false;
  for (size_t i = 0; i < 2; i++) pads[5 + 2 * i] = size[i] - pads[4 + 2 * i] - y.type->dims[2 + i];
  l->nresult = 1;
  return anfi_layer_pad(l, &y, pads, "constant", 0, &l->out[0]) &&
         (!added || anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[0], 0, &l->out[0]));
}

/* ---- x / (k + alpha mean(x^2 of `size` channels))^beta ---- */

static bool local_response_norm(anfi_layer *l) {
  anfi_operand x, y;
  int64_t size;
  double v[3];
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_need_int(l, "size", &size) ||
      !anfi_layer_real(l, "alpha", 1e-4, &v[0]) || !anfi_layer_real(l, "beta", 0.75, &v[1]) ||
      !anfi_layer_real(l, "k", 1, &v[2]) || !known_dims(l, &x))
    return false;
  size_t n = x.type->n;
  if (n < 3 || size < 1 || size > x.type->dims[1] * 2 + 1)
    return anfi_layer_error(l, ANF_E1055, "its input is too small");
  int64_t pads[2 * ANF_MAX_RANK] = {0, 0, size / 2, (size - 1) / 2}, plane = 1;
  for (size_t i = 2; i < n; i++) plane *= x.type->dims[i];
  anf_attr pad = {"pad_width", anfi_layer_v_ints(l, 2 * n, pads), NULL};
  anf_attr pool[] = {{"kernel", anfi_layer_v_ints(l, 2, (const int64_t[]){size, 1}), NULL},
                     {"stride", anfi_layer_v_int(l, 1), NULL}};
  anfi_operand alpha = anfi_layer_number(l, v[0]), beta = anfi_layer_number(l, v[1]),
               k = anfi_layer_number(l, v[2]);
  const int64_t dims[] = {x.type->dims[0], 1, x.type->dims[1] + size - 1, plane};
  return anfi_layer_op1(l, ANF_OP_Square, &x, &y) &&
         anfi_layer_op(l, ANF_OP_Pad, 1, &y, 1, &pad, &y) &&
         anfi_layer_reshape(l, &y, 4, dims, &y) &&
         anfi_layer_op(l, ANF_OP_AvgPool2D, 1, &y, 2, pool, &y) &&
         anfi_layer_reshape(l, &y, n, x.type->dims, &y) &&
         anfi_layer_op2(l, ANF_OP_Mul, &y, &alpha, &y) &&
         anfi_layer_op2(l, ANF_OP_Add, &y, &k, &y) &&
         anfi_layer_op2(l, ANF_OP_Power, &y, &beta, &y) &&
         anfi_layer_result(l, ANF_OP_Div, 2, (const anfi_operand[]){x, y}, 0, NULL);
}

const anfi_layer_row anfi_layers_image[] = {
    ANFI_LAYER("nn.PixelShuffle", pixel_shuffle, Reshape),
    ANFI_LAYER("F.pixel_shuffle", pixel_shuffle, Reshape),
    ANFI_LAYER("nn.PixelUnshuffle", pixel_shuffle, Reshape),
    ANFI_LAYER("F.pixel_unshuffle", pixel_shuffle, Reshape),
    ANFI_LAYER("nn.ChannelShuffle", channel_shuffle, Reshape),
    ANFI_LAYER("nn.Unfold", unfold, Conv2D),
    ANFI_LAYER("F.unfold", unfold, Conv2D),
    ANFI_LAYER("nn.Fold", fold, ConvTranspose2D),
    ANFI_LAYER("F.fold", fold, ConvTranspose2D),
    ANFI_LAYER("nn.LocalResponseNorm", local_response_norm, Div),
    ANFI_LAYER("F.local_response_norm", local_response_norm, Div),
    {NULL, NULL, ANF_OP_NONE},
};
