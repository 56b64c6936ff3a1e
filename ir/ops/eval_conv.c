// SPDX-License-Identifier: Apache-2.0
/* Convolutions: one walk over all (x, w, y) triples serves the forward direction and both
 * gradients; a transpose is the gradient with respect to the input. Reals are summed in double,
 * integers wrap, the bias starts the sum, and the result is rounded once. */
#include "ir/ops/window.h"

typedef enum { TO_Y, TO_X, TO_W } direction;

/* One row: y[o] and x[off + o * step] for o in [lo, hi) share the weight. */
typedef struct {
  size_t x, w, y; // elements where the rows start; x is that of o == 0 and may be outside
  int64_t off, step, lo, hi;
} row;

/* The same walk over reals, and over integers, which wrap. */
#define ROW(name, number)                                                                          \
  static void name(const row *r, direction to, number *x, number *w, number *y) {                  \
    int64_t first = (int64_t)r->x + r->off, step = r->step;                                        \
    number *at = w + r->w, sum = *at;                                                              \
    y += r->y;                                                                                     \
    switch (to) {                                                                                  \
    case TO_Y:                                                                                     \
      for (int64_t o = r->lo; o < r->hi; o++) y[o] += sum * x[first + o * step];                   \
      break;                                                                                       \
    case TO_X:                                                                                     \
      for (int64_t o = r->lo; o < r->hi; o++) x[first + o * step] += sum * y[o];                   \
      break;                                                                                       \
    case TO_W:                                                                                     \
      for (int64_t o = r->lo; o < r->hi; o++) sum += x[first + o * step] * y[o];                   \
      *at = sum;                                                                                   \
      break;                                                                                       \
    }                                                                                              \
  }
ROW(row_real, double)
ROW(row_int, uint64_t)
#undef ROW

typedef struct {
  anfi_conv c;
  direction to;
  bool ints;
  void *x, *w, *y;
} walk;

/* The results o whose input o * stride + shift lies inside. */
static void clip(const anfi_window *w, size_t d, int64_t shift, int64_t *lo, int64_t *hi) {
  int64_t s = w->stride[d];
  *lo = shift < 0 ? (-shift + s - 1) / s : 0;
  *hi = shift >= w->in[d] ? 0 : (w->in[d] - 1 - shift) / s + 1;
  if (*hi > w->out[d]) *hi = w->out[d];
}

/* All results of one pair of planes for one element of the kernel. */
static void walk_plane(const walk *v, size_t x, size_t w, size_t y, const int64_t *tap) {
  const anfi_window *n = &v->c.win;
  int64_t shift[3], lo[3], hi[3];
  for (size_t d = 0; d < 3; d++) {
    shift[d] = tap[d] * n->dilation[d] - n->before[d];
    clip(n, d, shift[d], &lo[d], &hi[d]);
  }
  for (int64_t a = lo[0]; a < hi[0]; a++)
    for (int64_t b = lo[1]; b < hi[1]; b++) {
      int64_t i = a * n->stride[0] + shift[0], j = b * n->stride[1] + shift[1];
      row r = {.x = x + (size_t)((i * n->in[1] + j) * n->in[2]),
               .w = w,
               .y = y + (size_t)((a * n->out[1] + b) * n->out[2]),
               .off = shift[2],
               .step = n->stride[2],
               .lo = lo[2],
               .hi = hi[2]};
      if (v->ints) row_int(&r, v->to, (uint64_t *)v->x, (uint64_t *)v->w, (uint64_t *)v->y);
      else row_real(&r, v->to, (double *)v->x, (double *)v->w, (double *)v->y);
    }
}

static void walk_taps(const walk *v, size_t x, size_t w, size_t y) {
  const int64_t *k = v->c.win.kernel;
  int64_t tap[3];
  for (tap[0] = 0; tap[0] < k[0]; tap[0]++)
    for (tap[1] = 0; tap[1] < k[1]; tap[1]++)
      for (tap[2] = 0; tap[2] < k[2]; tap[2]++) walk_plane(v, x, w++, y, tap);
}

static size_t volume(const int64_t *d) { return (size_t)(d[0] * d[1] * d[2]); }

static void walk_all(const walk *v) {
  const anfi_conv *c = &v->c;
  size_t in = volume(c->win.in), out = volume(c->win.out), kernel = volume(c->win.kernel);
  size_t ci = (size_t)c->ci, co = (size_t)c->co, g = (size_t)c->groups;
  for (size_t n = 0; n < (size_t)c->n; n++)
    for (size_t o = 0; o < g * co; o++)
      for (size_t i = 0; i < ci; i++)
        walk_taps(v, (n * g * ci + o / co * ci + i) * in, (o * ci + i) * kernel,
                  (n * g * co + o) * out);
}

/* The bias in every element of its channel. */
static void start_with(anfi_eval *q, void *y, const anf_value *bias, anfi_wide w) {
  const char *b = (const char *)anfi_load(q->scratch, bias, w);
  size_t channels = bias->n, plane = 1;
  for (uint32_t k = 2; k < q->type->n; k++) plane *= (size_t)q->type->dims[k];
  for (size_t i = 0; i < q->out->n; i++)
    memcpy((char *)y + 8 * i, b + 8 * (i / plane % channels), 8);
}

static bool run(anfi_eval *q, direction to, size_t ix, size_t iw, size_t iy) {
  walk v = {.to = to};
  anfi_infer t = anfi_as_infer(q);
  if (!anfi_conv_plan(&t, &v.c)) return false;
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  v.ints = w == ANFI_WIDE_INT;
  void *result = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  v.x = to == TO_X ? result : anfi_load(q->scratch, q->in[ix], w);
  v.w = to == TO_W ? result : anfi_load(q->scratch, q->in[iw], w);
  v.y = to == TO_Y ? result : anfi_load(q->scratch, q->in[iy], w);
  const anf_value *bias = q->op == ANF_OP_ConvGradInput || q->op == ANF_OP_ConvGradWeight
                              ? NULL
                              : anfi_eval_given(q, 2);
  if (bias) start_with(q, result, bias, w);
  walk_all(&v);
  anfi_store(q->out, result, w);
  return true;
}

bool anfi_eval_conv(anfi_eval *q) { return run(q, TO_Y, 0, 1, 0); }
bool anfi_eval_conv_grad_input(anfi_eval *q) { return run(q, TO_X, 0, 1, 0); } // and transposes
bool anfi_eval_conv_grad_weight(anfi_eval *q) { return run(q, TO_W, 0, 0, 1); }
