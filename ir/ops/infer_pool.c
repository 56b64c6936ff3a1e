// SPDX-License-Identifier: Apache-2.0
/* Result types of pools and resizing. A pool's windows are products of spans, one a spatial dim:
 * sliding, adaptive and global pools differ only in the spans that anfi_pool_plan makes. */
#include "ir/ops/window.h"

enum {
  KERNEL,
  STRIDE,
  PADDING,
  CEIL,
  LAST
};                   // LAST: dilation of a max pool, count_include_pad of a mean
enum { WANTED = 5 }; // shape of the input, of AvgPoolGrad

static bool is_adaptive(anfi_opcode op) {
  return op == ANF_OP_AdaptiveAvgPool1D || op == ANF_OP_AdaptiveAvgPool2D ||
         op == ANF_OP_AdaptiveAvgPool3D || op == ANF_OP_AdaptiveAvgPoolGrad;
}
static bool is_global(anfi_opcode op) {
  return op == ANF_OP_GlobalAvgPool || op == ANF_OP_GlobalMaxPool;
}
static bool is_mean(anfi_opcode op) {
  return is_adaptive(op) || op == ANF_OP_GlobalAvgPool || op == ANF_OP_AvgPool1D ||
         op == ANF_OP_AvgPool2D || op == ANF_OP_AvgPool3D || op == ANF_OP_AvgPoolGrad;
}

static anfi_span *new_spans(const anfi_infer *q, anfi_pool *p, size_t k) {
  if (!p->spans || p->in[k] < 0 || p->out[k] < 0) return p->span[k] = NULL;
  return p->span[k] = ANFI_NEW_N(anfi_scratch(q->cx), anfi_span, (size_t)p->out[k] + 1);
}

/* Result i is the mean of the elements from floor(i * in / out) to ceil((i + 1) * in / out). */
static void adaptive_spans(const anfi_infer *q, anfi_pool *p, size_t k) {
  anfi_span *s = new_spans(q, p, k);
  for (int64_t i = 0; s && i < p->out[k]; i++) {
    s[i].lo = i * p->in[k] / p->out[k];
    s[i].hi = ((i + 1) * p->in[k] + p->out[k] - 1) / p->out[k];
    s[i].count = s[i].hi - s[i].lo;
  }
}

static void window_spans(const anfi_infer *q, anfi_pool *p, const anfi_window *w, size_t k,
                         bool include_pad) {
  anfi_span *s = new_spans(q, p, k);
  p->step[k] = w->dilation[k];
  p->first[k] = -w->before[k];
  p->stride[k] = w->stride[k];
  p->taps[k] = w->kernel[k];
  for (int64_t i = 0; s && i < p->out[k]; i++) {
    int64_t lo = i * w->stride[k] - w->before[k], hi = lo + (w->kernel[k] - 1) * w->dilation[k] + 1;
    int64_t end =
        p->in[k] + w->after[k]; // a window that ceil_mode lets reach further counts up to here
    int64_t padded = (hi < end ? hi : end) - lo;
    if (lo < 0) lo += (-lo + p->step[k] - 1) / p->step[k] * p->step[k];
    if (hi > p->in[k]) hi = p->in[k];
    s[i].lo = lo;
    s[i].hi = hi;
    s[i].count = include_pad ? padded : hi > lo ? hi - lo : 0;
  }
}

static bool pool_kernel(const anfi_infer *q, anfi_window *w) {
  int64_t got[3];
  size_t n = anfi_attr_ints(q->attr[KERNEL], 3, got);
  if (n != 1 && n != w->rank)
    return anfi_fail(q->cx, q->loc, ANF_E0547, anfi_op[q->op].name, w->rank);
  for (size_t k = 0; k < w->rank; k++) {
    int64_t x = got[n == 1 ? 0 : k];
    if (x < 1 || x > INT32_MAX)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)x, anfi_op[q->op].name);
    w->kernel[3 - w->rank + k] = x;
  }
  return true;
}

static bool window_pool(const anfi_infer *q, anfi_pool *p) {
  anfi_window w = {.rank = p->rank};
  bool mean = is_mean(q->op);
  memcpy(w.in, p->in, sizeof w.in);
  if (!pool_kernel(q, &w)) return false;
  const anf_value *stride = anfi_attr_given(q->attr[STRIDE]) ? q->attr[STRIDE] : q->attr[KERNEL];
  if (!anfi_window_plan(q, &w, stride, q->attr[PADDING], mean ? NULL : q->attr[LAST],
                        anfi_attr_bool(q->attr[CEIL])))
    return false;
  for (size_t k = 3 - p->rank; k < 3; k++) {
    if (mean && (w.before[k] >= w.kernel[k] || w.after[k] >= w.kernel[k]))
      return anfi_infer_fail(q, "the padding must be smaller than the kernel");
    p->out[k] = w.out[k];
    window_spans(q, p, &w, k, mean && anfi_attr_bool(q->attr[LAST]));
  }
  return true;
}

static bool adaptive_pool(const anfi_infer *q, anfi_pool *p, const int64_t *out) {
  for (size_t k = 0; k < p->rank; k++) {
    size_t at = 3 - p->rank + k;
    p->out[at] = out[k];
    if (out[k] > INT32_MAX || out[k] < -1)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)out[k], anfi_op[q->op].name);
    if (p->in[at] == 0 && out[k] > 0)
      return anfi_infer_fail(q, "there is nothing to take a mean of");
    adaptive_spans(q, p, at);
  }
  return true;
}

/* The result size of an adaptive pool: an attribute, or the shape of the gradient that came in. */
static bool adaptive_shape(const anfi_infer *q, anfi_pool *p) {
  int64_t out[3] = {1, 1, 1};
  if (q->op == ANF_OP_AdaptiveAvgPoolGrad) return adaptive_pool(q, p, q->in[0]->dims + 2);
  if (!is_global(q->op)) {
    size_t n = anfi_attr_ints(q->attr[0], 3, out);
    if (n != 1 && n != p->rank)
      return anfi_fail(q->cx, q->loc, ANF_E0547, anfi_op[q->op].name, p->rank);
    for (size_t k = n; n == 1 && k < 3; k++) out[k] = out[0];
    for (size_t k = 0; k < p->rank; k++)
      if (out[k] < 0)
        return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)out[k], anfi_op[q->op].name);
  }
  return adaptive_pool(q, p, out);
}

bool anfi_pool_plan(const anfi_infer *q, size_t rank, const int64_t *in, bool spans, anfi_pool *p) {
  *p = (anfi_pool){.rank = rank, .spans = spans};
  for (size_t k = 0; k < 3; k++) {
    p->step[k] = 1;
    p->in[k] = k < 3 - rank ? 1 : in[k - (3 - rank)];
    p->out[k] = 1;
    if (p->in[k] > INT32_MAX)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)p->in[k], anfi_op[q->op].name);
    if (k < 3 - rank) adaptive_spans(q, p, k);
  }
  return is_adaptive(q->op) || is_global(q->op) ? adaptive_shape(q, p) : window_pool(q, p);
}

static size_t named_rank(anfi_opcode op) {
  switch (op) {
  case ANF_OP_MaxPool1D:
  case ANF_OP_AvgPool1D:
  case ANF_OP_AdaptiveAvgPool1D: return 1;
  case ANF_OP_MaxPool2D:
  case ANF_OP_AvgPool2D:
  case ANF_OP_AdaptiveAvgPool2D: return 2;
  case ANF_OP_MaxPool3D:
  case ANF_OP_AvgPool3D:
  case ANF_OP_AdaptiveAvgPool3D: return 3;
  default: return 0;
  }
}

static bool spatial(const anfi_infer *q, size_t *rank) {
  size_t want = named_rank(q->op), n = q->in[0]->n;
  if (n < 3 || n > 5 || (want && n != want + 2))
    return anfi_infer_fail(q, "x must be [batch, channels, spatial dims]");
  *rank = n - 2;
  return true;
}

static bool pool_dtype(const anfi_infer *q, anf_dtype *d) {
  if (is_mean(q->op)) return anfi_infer_real_dtype(q, 1, (size_t[]){0}, d);
  if (!anfi_is_tensor(q->in[0])) return anfi_infer_real_dtype(q, 1, (size_t[]){0}, d);
  *d = (anf_dtype)q->in[0]->dtype;
  return anfi_dtype_class(*d) <= ANFI_CLASS_FLOAT ||
         anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(*d));
}

bool anfi_infer_pool(anfi_infer *q) {
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t dims[5];
  if (!pool_dtype(q, &d) || !spatial(q, &rank) ||
      !anfi_pool_plan(q, rank, q->in[0]->dims + 2, false, &p))
    return false;
  memcpy(dims, q->in[0]->dims, 2 * sizeof *dims);
  memcpy(dims + 2, p.out + 3 - rank, rank * sizeof *dims);
  q->out = anfi_type_tensor(q->cx, d, rank + 2, dims);
  return true;
}

bool anfi_infer_max_pool_grad(anfi_infer *q) { // x dy
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t dims[5];
  if (!pool_dtype(q, &d) || !anfi_infer_real_dtype(q, 1, (size_t[]){1}, &d)) return false;
  if (!spatial(q, &rank) || !anfi_pool_plan(q, rank, q->in[0]->dims + 2, false, &p)) return false;
  memcpy(dims, q->in[0]->dims, 2 * sizeof *dims);
  memcpy(dims + 2, p.out + 3 - rank, rank * sizeof *dims);
  if (!anfi_infer_shape_is(q, 1, rank + 2, dims)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->in[0], d);
  return true;
}

bool anfi_infer_max_pool_pick(anfi_infer *q) { // x v
  anf_dtype d;
  if (!anfi_infer_pool(q) || !anfi_infer_real_dtype(q, 1, (size_t[]){1}, &d)) return false;
  if (!anfi_infer_shape_is(q, 1, q->in[0]->n, q->in[0]->dims)) return false;
  q->out = anfi_type_with_dtype(q->cx, q->out, d);
  return true;
}

bool anfi_infer_mean_pool_grad(anfi_infer *q) { // dy; the attribute `shape` is that of x
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t shape[5], dims[5];
  if (!anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d) || !spatial(q, &rank)) return false;
  const anf_value *wanted = q->attr[q->op == ANF_OP_AvgPoolGrad ? WANTED : 0];
  if (anfi_attr_ints(wanted, 5, shape) != rank + 2)
    return anfi_infer_fail(q, "`shape` must have as many dims as dy");
  for (size_t k = 0; k < rank + 2; k++)
    if (shape[k] < 0 || shape[k] > INT32_MAX)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)shape[k], anfi_op[q->op].name);
  if (!anfi_pool_plan(q, rank, shape + 2, false, &p)) return false;
  memcpy(dims, shape, 2 * sizeof *dims);
  memcpy(dims + 2, p.out + 3 - rank, rank * sizeof *dims);
  if (!anfi_infer_shape_is(q, 0, rank + 2, dims)) return false;
  q->out = anfi_type_tensor(q->cx, d, rank + 2, shape);
  return true;
}

/* ---- resizing ---- */

bool anfi_infer_resize(anfi_infer *q) { // attributes: shape or scale, mode, align_corners
  anf_dtype d;
  size_t rank = 0;
  int64_t got[3], dims[5];
  if (!anfi_infer_tensors(q) || !spatial(q, &rank)) return false;
  d = (anf_dtype)q->in[0]->dtype;
  bool nearest = anfi_attr_is(q->attr[1], "nearest");
  if (!nearest && !anfi_attr_is(q->attr[1], "linear"))
    return anfi_infer_fail(q, "mode is \"nearest\" or \"linear\"");
  if (!nearest && !anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d)) return false;
  size_t n = anfi_attr_ints(q->attr[0], 3, got);
  if (n != 1 && n != rank) return anfi_fail(q->cx, q->loc, ANF_E0547, anfi_op[q->op].name, rank);
  memcpy(dims, q->in[0]->dims, 2 * sizeof *dims);
  for (size_t k = 0; k < rank; k++) {
    int64_t x = got[n == 1 ? 0 : k], in = q->in[0]->dims[2 + k];
    if (x < 0 || x > INT32_MAX || in > INT32_MAX)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)x, anfi_op[q->op].name);
    dims[2 + k] = q->op == ANF_OP_Upsample ? (in < 0 ? in : in * x) : x;
    if (in == 0 && dims[2 + k] > 0) return anfi_infer_fail(q, "an empty dim cannot be resized");
  }
  q->out = anfi_type_tensor(q->cx, d, rank + 2, dims);
  return true;
}

bool anfi_infer_resize_grad(anfi_infer *q) { // dy; attribute 0 is the shape of x
  anf_dtype d;
  size_t rank = 0;
  int64_t shape[5];
  if (!anfi_infer_real_dtype(q, 1, (size_t[]){0}, &d) || !spatial(q, &rank)) return false;
  if (!anfi_attr_is(q->attr[1], "nearest") && !anfi_attr_is(q->attr[1], "linear"))
    return anfi_infer_fail(q, "mode is \"nearest\" or \"linear\"");
  if (anfi_attr_ints(q->attr[0], 5, shape) != rank + 2)
    return anfi_infer_fail(q, "`shape` must have as many dims as dy");
  for (size_t k = 0; k < rank + 2; k++) {
    int64_t dy = q->in[0]->dims[k];
    if (shape[k] < 0 || shape[k] > INT32_MAX)
      return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)shape[k], anfi_op[q->op].name);
    if ((k < 2 && !anfi_infer_agree(shape[k], dy)) || (shape[k] == 0 && dy > 0) || dy > INT32_MAX)
      return anfi_infer_fail(q, "`shape` and dy's shape do not fit");
  }
  q->out = anfi_type_tensor(q->cx, d, rank + 2, shape);
  return true;
}
