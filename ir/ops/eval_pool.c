// SPDX-License-Identifier: Apache-2.0
/* Pools over products of spans (infer_pool.c), and resizing. The first of equal greatest elements
 * is the one that a gradient goes to; a NaN is greater than all. Means are taken in double. */
#include <math.h>

#include "ir/ops/window.h"

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

static size_t volume(const int64_t *d) { return (size_t)(d[0] * d[1] * d[2]); }

/* Calls `each` for every window of every plane. */
typedef struct {
  const double *x, *dy;
  double *out;
  const anf_value *in; // a max pool of integers compares them as they are
  anf_value *result;
} job;
typedef void (*each_window)(const job *j, window *w, bool any, size_t plane, size_t result);

static void for_each(const anfi_pool *p, size_t planes, const job *j, each_window each) {
  size_t in = volume(p->in), r = 0;
  window w = {.p = p};
  for (size_t n = 0; n < planes; n++)
    for (size_t a = 0; a < (size_t)p->out[0]; a++)
      for (size_t b = 0; b < (size_t)p->out[1]; b++)
        for (size_t c = 0; c < (size_t)p->out[2]; c++) {
          bool any = window_start(&w, p, a, b, c);
          each(j, &w, any, n * in, r++);
        }
}

static bool pool_of(anfi_eval *q, const anf_type *x, anfi_pool *p, size_t *planes) {
  anfi_infer t = anfi_as_infer(q);
  *planes = (size_t)(x->dims[0] * x->dims[1]);
  return anfi_pool_plan(&t, x->n - 2, x->dims + 2, true, p);
}

/* ---- greatest ---- */

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

/* What a window without elements gives: the least value of the type. */
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
    memcpy(j->result->u.data + result * bytes, j->in->u.data + find_max(j->in, w, plane) * bytes,
           bytes);
  else set_least(j->result, result);
}

static void max_grad_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  if (any) j->out[find_max(j->in, w, plane)] += j->dy[result];
}

bool anfi_eval_max_pool(anfi_eval *q) {
  if (!q->out->n) return true;
  anfi_pool p;
  size_t planes;
  if (!pool_of(q, q->in[0]->type, &p, &planes)) return false;
  for_each(&p, planes, &(job){.in = q->in[0], .result = q->out}, max_window);
  return true;
}

bool anfi_eval_max_pool_grad(anfi_eval *q) {
  if (!q->in[1]->n || !q->out->n) return true;
  anfi_pool p;
  size_t planes;
  if (!pool_of(q, q->in[0]->type, &p, &planes)) return false;
  job j = {.in = q->in[0],
           .dy = anfi_load_f64(q->scratch, q->in[1]),
           .out = ANFI_NEW_N(q->scratch, double, q->out->n + 1)};
  for_each(&p, planes, &j, max_grad_window);
  anfi_store_f64(q->out, j.out);
  return true;
}

static void pick_window(const job *j, window *w, bool any, size_t plane, size_t result) {
  j->out[result] = any ? j->x[find_max(j->in, w, plane)] : 0.0;
}

bool anfi_eval_max_pool_pick(anfi_eval *q) {
  if (!q->out->n) return true;
  anfi_pool p;
  size_t planes;
  if (!pool_of(q, q->in[0]->type, &p, &planes)) return false;
  job j = {.in = q->in[0],
           .x = anfi_load_f64(q->scratch, q->in[1]),
           .out = ANFI_NEW_N(q->scratch, double, q->out->n + 1)};
  for_each(&p, planes, &j, pick_window);
  anfi_store_f64(q->out, j.out);
  return true;
}

/* ---- means ---- */

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
  anfi_pool p;
  size_t planes;
  if (!pool_of(q, q->in[0]->type, &p, &planes)) return false;
  job j = {.x = anfi_load_f64(q->scratch, q->in[0]),
           .out = ANFI_NEW_N(q->scratch, double, q->out->n + 1)};
  for_each(&p, planes, &j, mean_window);
  anfi_store_f64(q->out, j.out);
  return true;
}

bool anfi_eval_mean_pool_grad(anfi_eval *q) {
  if (!q->in[0]->n || !q->out->n) return true;
  anfi_pool p;
  size_t planes;
  if (!pool_of(q, q->type, &p, &planes)) return false;
  job j = {.dy = anfi_load_f64(q->scratch, q->in[0]),
           .out = ANFI_NEW_N(q->scratch, double, q->out->n + 1)};
  for_each(&p, planes, &j, mean_grad_window);
  anfi_store_f64(q->out, j.out);
  return true;
}

/* ---- resizing: each result element is a weighted sum of at most two elements along each dim ----
 */

typedef struct {
  int64_t at[2];
  double weight[2];
} tap;

static tap linear_tap(int64_t o, int64_t in, int64_t out, bool align) {
  double x = align ? (out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0.0)
                   : ((double)o + 0.5) * (double)in / (double)out - 0.5;
  if (x < 0.0) x = 0.0;
  int64_t i = (int64_t)x;
  if (i > in - 1) i = in - 1;
  double w = x - (double)i;
  if (i == in - 1) w = 0.0;
  return (tap){.at = {i, i == in - 1 ? i : i + 1}, .weight = {1.0 - w, w}};
}

static tap *taps_of(anfi_eval *q, int64_t in, int64_t out) {
  bool nearest = anfi_attr_is(q->attr[1], "nearest"), align = anfi_attr_bool(q->attr[2]);
  tap *t = ANFI_NEW_N(q->scratch, tap, (size_t)out + 1);
  for (int64_t o = 0; o < out; o++)
    t[o] = nearest ? (tap){.at = {o * in / out, 0}, .weight = {1.0, 0.0}}
                   : linear_tap(o, in, out, align);
  return t;
}

typedef struct {
  int64_t in[3], out[3];
  tap *taps[3];
  size_t planes;
} resizing;

static resizing resizing_of(anfi_eval *q, const anf_type *x, const anf_type *y) {
  resizing r = {.planes = (size_t)(x->dims[0] * x->dims[1])};
  size_t first = 3 - (x->n - 2);
  for (size_t k = 0; k < 3; k++) {
    r.in[k] = k < first ? 1 : x->dims[2 + k - first];
    r.out[k] = k < first ? 1 : y->dims[2 + k - first];
    r.taps[k] = taps_of(q, r.in[k], r.out[k]);
  }
  return r;
}

/* The eight corners of one result element, those of weight 0 left out. */
static size_t corners(const resizing *r, const size_t *o, size_t *at, double *weight) {
  size_t n = 0;
  for (int c = 0; c < 8; c++) {
    const int side[3] = {c >> 2 & 1, c >> 1 & 1, c & 1};
    double w = 1.0;
    int64_t i = 0;
    for (size_t k = 0; k < 3; k++) {
      w *= r->taps[k][o[k]].weight[side[k]];
      i = i * r->in[k] + r->taps[k][o[k]].at[side[k]];
    }
    if (w == 0.0) continue;
    at[n] = (size_t)i;
    weight[n++] = w;
  }
  return n;
}

/* Forward: y from x; back: x gathers from y. */
static void resize(const resizing *r, double *x, double *y, bool back) {
  size_t in = volume(r->in), at[8], o[3], i = 0;
  double weight[8];
  for (size_t p = 0; p < r->planes; p++)
    for (o[0] = 0; o[0] < (size_t)r->out[0]; o[0]++)
      for (o[1] = 0; o[1] < (size_t)r->out[1]; o[1]++)
        for (o[2] = 0; o[2] < (size_t)r->out[2]; o[2]++, i++) {
          size_t n = corners(r, o, at, weight);
          for (size_t c = 0; c < n; c++)
            if (back) x[p * in + at[c]] += weight[c] * y[i];
            else y[i] += weight[c] * x[p * in + at[c]];
        }
}

static bool copy_nearest(anfi_eval *q, const resizing *r) {
  size_t bytes = anf_dtype_bytes((anf_dtype)q->type->dtype), in = volume(r->in), at[8], o[3], i = 0;
  double weight[8];
  for (size_t p = 0; p < r->planes; p++)
    for (o[0] = 0; o[0] < (size_t)r->out[0]; o[0]++)
      for (o[1] = 0; o[1] < (size_t)r->out[1]; o[1]++)
        for (o[2] = 0; o[2] < (size_t)r->out[2]; o[2]++, i++) {
          corners(r, o, at, weight);
          memcpy(q->out->u.data + i * bytes, q->in[0]->u.data + (p * in + at[0]) * bytes, bytes);
        }
  return true;
}

bool anfi_eval_resize(anfi_eval *q) {
  if (!q->out->n) return true;
  resizing r = resizing_of(q, q->in[0]->type, q->type);
  if (anfi_attr_is(q->attr[1], "nearest")) return copy_nearest(q, &r);
  double *y = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  resize(&r, anfi_load_f64(q->scratch, q->in[0]), y, false);
  anfi_store_f64(q->out, y);
  return true;
}

bool anfi_eval_resize_grad(anfi_eval *q) {
  if (!q->in[0]->n || !q->out->n) return true;
  resizing r = resizing_of(q, q->type, q->in[0]->type);
  double *x = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  resize(&r, x, anfi_load_f64(q->scratch, q->in[0]), true);
  anfi_store_f64(q->out, x);
  return true;
}
