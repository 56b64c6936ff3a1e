// SPDX-License-Identifier: Apache-2.0
/* Resize, Upsample and their gradients: nearest, or linear interpolation.
 *
 *     [1, 3] linear, 2 -> 4, corners not aligned  ->  [1, 1.5, 2.5, 3]
 *
 * Each result element is a weighted sum of at most two elements along each dim: its taps. */
#include "ir/ops/nn/window.h"

/* ---- inference ---- */

bool anfi_infer_resize(anfi_infer *q) { // attributes: shape or scale, mode, align_corners
  anf_dtype d;
  size_t rank = 0;
  int64_t got[3], dims[5];
  if (!anfi_infer_tensors(q) || !anfi_infer_spatial(q, &rank)) return false;
  d = (anf_dtype)q->in[0]->dtype;
  bool nearest = anfi_attr_is(q->attr[1], "nearest");
  if (!nearest && !anfi_attr_is(q->attr[1], "linear"))
    return anfi_infer_fail(q, "mode is \"nearest\" or \"linear\"");
  if (!nearest && !anfi_infer_real(q, 0, 1, &d)) return false;
  size_t n = anfi_attr_ints(q->attr[0], 3, got);
  if (n != 1 && n != rank) return anfi_infer_bad_count(q, rank);
  memcpy(dims, q->in[0]->dims, 2 * sizeof *dims);
  for (size_t k = 0; k < rank; k++) {
    int64_t x = got[n == 1 ? 0 : k], in = q->in[0]->dims[2 + k];
    if (x < 0 || x > INT32_MAX || in > INT32_MAX) return anfi_infer_bad_size(q, x);
    dims[2 + k] = q->op == ANF_OP_Upsample ? (in < 0 ? in : in * x) : x;
    if (in == 0 && dims[2 + k] > 0) return anfi_infer_fail(q, "an empty dim cannot be resized");
  }
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank + 2, dims));
}

bool anfi_infer_resize_grad(anfi_infer *q) { // dy; attribute 0 is the shape of x
  anf_dtype d;
  size_t rank = 0;
  int64_t shape[5];
  if (!anfi_infer_real(q, 0, 1, &d) || !anfi_infer_spatial(q, &rank)) return false;
  if (!anfi_attr_is(q->attr[1], "nearest") && !anfi_attr_is(q->attr[1], "linear"))
    return anfi_infer_fail(q, "mode is \"nearest\" or \"linear\"");
  if (anfi_attr_ints(q->attr[0], 5, shape) != rank + 2)
    return anfi_infer_fail(q, "`shape` must have as many dims as dy");
  for (size_t k = 0; k < rank + 2; k++) {
    int64_t dy = q->in[0]->dims[k];
    if (shape[k] < 0 || shape[k] > INT32_MAX) return anfi_infer_bad_size(q, shape[k]);
    if ((k < 2 && !anfi_infer_agree(shape[k], dy)) || (shape[k] == 0 && dy > 0) || dy > INT32_MAX)
      return anfi_infer_fail(q, "`shape` and dy's shape do not fit");
  }
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank + 2, shape));
}

/* ---- evaluation ---- */

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
  size_t in = anfi_dims_product(r->in, 0, 3), at[8], o[3], i = 0;
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
  size_t bytes = anf_dtype_bytes((anf_dtype)q->type->dtype), in = anfi_dims_product(r->in, 0, 3),
         at[8], o[3], i = 0;
  double weight[8];
  for (size_t p = 0; p < r->planes; p++)
    for (o[0] = 0; o[0] < (size_t)r->out[0]; o[0]++)
      for (o[1] = 0; o[1] < (size_t)r->out[1]; o[1]++)
        for (o[2] = 0; o[2] < (size_t)r->out[2]; o[2]++, i++) {
          corners(r, o, at, weight);
          memcpy(q->out->data + i * bytes, q->in[0]->data + (p * in + at[0]) * bytes, bytes);
        }
  return true;
}

bool anfi_eval_resize(anfi_eval *q) {
  if (!q->out->n) return true;
  resizing r = resizing_of(q, q->in[0]->type, q->type);
  if (anfi_attr_is(q->attr[1], "nearest")) return copy_nearest(q, &r);
  double *y = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  resize(&r, anfi_load_f64(q->scratch, q->in[0]), y, false);
  return anfi_store_f64(q->out, y);
}

bool anfi_eval_resize_grad(anfi_eval *q) {
  if (!q->in[0]->n || !q->out->n) return true;
  resizing r = resizing_of(q, q->type, q->in[0]->type);
  double *x = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  resize(&r, x, anfi_load_f64(q->scratch, q->in[0]), true);
  return anfi_store_f64(q->out, x);
}
