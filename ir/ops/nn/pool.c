// SPDX-License-Identifier: Apache-2.0
/* Pools: the maximum or mean of windows; a window is a product of spans, one per spatial dim.
 *
 *     MaxPool1D(x [n, c, 6], kernel=2)  ->  [n, c, 3]       spans 0..2, 2..4, 4..6
 *
 * Sliding, adaptive and global pools differ only in the spans of anfi_pool_plan. The gradient of a maximum
 * goes to the first of equal elements; a NaN is greater than all. Means are taken in double. */
#include <math.h>

#include "ir/ops/nn/window.h"

/* ---- inference ---- */

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
  if (n != 1 && n != w->rank) return anfi_infer_bad_count(q, w->rank);
  for (size_t k = 0; k < w->rank; k++) {
    int64_t x = got[n == 1 ? 0 : k];
    if (x < 1 || x > INT32_MAX) return anfi_infer_bad_size(q, x);
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
    if (out[k] > INT32_MAX || out[k] < -1) return anfi_infer_bad_size(q, out[k]);
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
    if (n != 1 && n != p->rank) return anfi_infer_bad_count(q, p->rank);
    for (size_t k = n; n == 1 && k < 3; k++) out[k] = out[0];
    for (size_t k = 0; k < p->rank; k++)
      if (out[k] < 0) return anfi_infer_bad_size(q, out[k]);
  }
  return adaptive_pool(q, p, out);
}

bool anfi_pool_plan(const anfi_infer *q, size_t rank, const int64_t *in, bool spans, anfi_pool *p) {
  *p = (anfi_pool){.rank = rank, .spans = spans};
  for (size_t k = 0; k < 3; k++) {
    p->step[k] = 1;
    p->in[k] = k < 3 - rank ? 1 : in[k - (3 - rank)];
    p->out[k] = 1;
    if (p->in[k] > INT32_MAX) return anfi_infer_bad_size(q, p->in[k]);
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

bool anfi_infer_spatial(const anfi_infer *q, size_t *rank) {
  size_t want = named_rank(q->op), n = q->in[0]->n;
  if (n < 3 || n > 5 || (want && n != want + 2))
    return anfi_infer_fail(q, "x must be [batch, channels, spatial dims]");
  *rank = n - 2;
  return true;
}

static bool pool_dtype(const anfi_infer *q, anf_dtype *d) {
  if (is_mean(q->op)) return anfi_infer_real(q, 0, 1, d);
  if (!anfi_is_tensor(q->in[0])) return anfi_infer_real(q, 0, 1, d);
  *d = (anf_dtype)q->in[0]->dtype;
  return anfi_dtype_class(*d) <= ANFI_CLASS_FLOAT || anfi_infer_bad_dtype(q, *d);
}

/* The result dims of a pool over x. */
static void pooled_dims(const anfi_pool *p, const int64_t *x, int64_t *dims) {
  memcpy(dims, x, 2 * sizeof *dims);
  memcpy(dims + 2, p->out + 3 - p->rank, p->rank * sizeof *dims);
}

bool anfi_infer_pool(anfi_infer *q) {
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t dims[5];
  if (!pool_dtype(q, &d) || !anfi_infer_spatial(q, &rank) ||
      !anfi_pool_plan(q, rank, q->in[0]->dims + 2, false, &p))
    return false;
  pooled_dims(&p, q->in[0]->dims, dims);
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank + 2, dims));
}

bool anfi_infer_max_pool_grad(anfi_infer *q) { // x dy
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t dims[5];
  if (!pool_dtype(q, &d) || !anfi_infer_real(q, 1, 2, &d)) return false;
  if (!anfi_infer_spatial(q, &rank) || !anfi_pool_plan(q, rank, q->in[0]->dims + 2, false, &p))
    return false;
  pooled_dims(&p, q->in[0]->dims, dims);
  if (!anfi_infer_shape_is(q, 1, rank + 2, dims)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[0], d));
}

bool anfi_infer_max_pool_pick(anfi_infer *q) { // x v
  anf_dtype d;
  if (!anfi_infer_pool(q) || !anfi_infer_real(q, 1, 2, &d)) return false;
  if (!anfi_infer_shape_is(q, 1, q->in[0]->n, q->in[0]->dims)) return false;
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->out, d));
}

bool anfi_infer_mean_pool_grad(anfi_infer *q) { // dy; the attribute `shape` is that of x
  anf_dtype d;
  anfi_pool p;
  size_t rank = 0;
  int64_t shape[5], dims[5];
  if (!anfi_infer_real(q, 0, 1, &d) || !anfi_infer_spatial(q, &rank)) return false;
  const anf_value *wanted = q->attr[q->op == ANF_OP_AvgPoolGrad ? WANTED : 0];
  if (anfi_attr_ints(wanted, 5, shape) != rank + 2)
    return anfi_infer_fail(q, "`shape` must have as many dims as dy");
  for (size_t k = 0; k < rank + 2; k++)
    if (shape[k] < 0 || shape[k] > INT32_MAX) return anfi_infer_bad_size(q, shape[k]);
  if (!anfi_pool_plan(q, rank, shape + 2, false, &p)) return false;
  pooled_dims(&p, shape, dims);
  if (!anfi_infer_shape_is(q, 0, rank + 2, dims)) return false;
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank + 2, shape));
}

/* ---- evaluation: windows ---- */

/* One window: its spans, and the odometer over its elements in row-major order. */
typedef struct {
  const anfi_pool *p;
  const anfi_span *s[3];
  int64_t i[3];
} window;

static bool window_start(window *w, const anfi_pool *p, size_t a, size_t b, size_t c) {
  w->p = p;
  const size_t at[3] = {a, b, c};
  for (size_t k = 0; k < 3; k++) {
    w->s[k] = &p->span[k][at[k]];
    w->i[k] = w->s[k]->lo;
    if (w->s[k]->lo >= w->s[k]->hi) return false;
  }
  return true;
}

static bool window_next(window *w) {
  for (size_t k = 3; k-- > 0;) {
    w->i[k] += w->p->step[k];
    if (w->i[k] < w->s[k]->hi) return true;
    w->i[k] = w->s[k]->lo;
  }
  return false;
}

static size_t window_at(const window *w) {
  return (size_t)((w->i[0] * w->p->in[1] + w->i[1]) * w->p->in[2] + w->i[2]);
}

static double window_size(const window *w) {
  return (double)(w->s[0]->count * w->s[1]->count * w->s[2]->count);
}

/* Calls `each` for every window of every plane. */
typedef struct {
  const double *x, *dy;
  double *out;
  const anf_value *in; // a max pool of integers compares them as they are
  anf_value *result;
} job;
typedef void (*each_window)(const job *j, window *w, bool any, size_t plane, size_t result);

static void for_each(const anfi_pool *p, size_t planes, const job *j, each_window each) {
  size_t in = anfi_dims_product(p->in, 0, 3), r = 0;
  window w = {.p = p};
  for (size_t n = 0; n < planes; n++)
    for (size_t a = 0; a < (size_t)p->out[0]; a++)
      for (size_t b = 0; b < (size_t)p->out[1]; b++)
        for (size_t c = 0; c < (size_t)p->out[2]; c++) {
          bool any = window_start(&w, p, a, b, c);
          each(j, &w, any, n * in, r++);
        }
}

/* Runs `each` on all windows over an input of type x; `j->out`, if any, becomes the result. */
static bool run(anfi_eval *q, const anf_type *x, job *j, each_window each) {
  anfi_infer t = anfi_as_infer(q);
  anfi_pool p;
  if (!anfi_pool_plan(&t, x->n - 2, x->dims + 2, true, &p)) return false;
  for_each(&p, (size_t)(x->dims[0] * x->dims[1]), j, each);
  return !j->out || anfi_store_f64(q->out, j->out);
}

static double *new_out(anfi_eval *q) { return ANFI_NEW_N(q->scratch, double, q->out->n + 1); }

/* ---- evaluation: maxima ---- */

static bool greater(const anf_value *v, size_t a, size_t b) {
  if (anfi_dtype_is_float((anf_dtype)v->type->dtype)) {
    double x = anfi_get_f64(v, a), y = anfi_get_f64(v, b);
    return x > y || (x != x && y == y);
  }
  int64_t x = anfi_get_i64(v, a), y = anfi_get_i64(v, b);
  return v->type->dtype == ANF_U64 ? (uint64_t)x > (uint64_t)y : x > y;
}

static size_t find_max(const anf_value *x, window *w, size_t plane) {
  size_t best = plane + window_at(w);
  while (window_next(w)) {
    size_t at = plane + window_at(w);
    if (greater(x, at, best)) best = at;
  }
  return best;
}

/* Result of a window without elements: the least value of the type. */
static void set_least(anf_value *v, size_t i) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (anfi_dtype_is_float(d)) anfi_set_f64(v, i, -INFINITY);
  else if (anfi_dtype_class(d) == ANFI_CLASS_SIGNED)
    anfi_set_i64(v, i, (int64_t)(UINT64_MAX << (anf_dtype_bytes(d) * 8 - 1)));
  else anfi_set_i64(v, i, 0);
}

static void max_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  size_t bytes = anf_dtype_bytes((anf_dtype)j->in->type->dtype);
  if (any)
    memcpy(j->result->data + result * bytes, j->in->data + find_max(j->in, w, plane) * bytes,
           bytes);
  else set_least(j->result, result);
}

static void max_grad_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  if (any) j->out[find_max(j->in, w, plane)] += j->dy[result];
}

bool anfi_eval_max_pool(anfi_eval *q) {
  if (!q->out->n) return true;
  job j = {.in = q->in[0], .result = q->out};
  return run(q, q->in[0]->type, &j, max_window);
}

bool anfi_eval_max_pool_grad(anfi_eval *q) {
  if (!q->in[1]->n || !q->out->n) return true;
  job j = {.in = q->in[0], .dy = anfi_load_f64(q->scratch, q->in[1]), .out = new_out(q)};
  return run(q, q->in[0]->type, &j, max_grad_window);
}

static void pick_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  j->out[result] = any ? j->x[find_max(j->in, w, plane)] : 0.0;
}

bool anfi_eval_max_pool_pick(anfi_eval *q) {
  if (!q->out->n) return true;
  job j = {.in = q->in[0], .x = anfi_load_f64(q->scratch, q->in[1]), .out = new_out(q)};
  return run(q, q->in[0]->type, &j, pick_window);
}

/* ---- evaluation: means ---- */

static void mean_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  double sum = 0.0;
  if (any) do
      sum += j->x[plane + window_at(w)];
    while (window_next(w));
  j->out[result] = sum / window_size(w);
}

static void mean_grad_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  double each = j->dy[result] / window_size(w);
  if (any) do
      j->out[plane + window_at(w)] += each;
    while (window_next(w));
}

bool anfi_eval_mean_pool(anfi_eval *q) {
  if (!q->out->n) return true;
  job j = {.x = anfi_load_f64(q->scratch, q->in[0]), .out = new_out(q)};
  return run(q, q->in[0]->type, &j, mean_window);
}

bool anfi_eval_mean_pool_grad(anfi_eval *q) {
  if (!q->in[0]->n || !q->out->n) return true;
  job j = {.dy = anfi_load_f64(q->scratch, q->in[0]), .out = new_out(q)};
  return run(q, q->type, &j, mean_grad_window);
}
