// SPDX-License-Identifier: Apache-2.0
/* Convolutions, their gradients and transposes, in one to three spatial dims.
 *
 *     y[n, o, i] = sum over c, k of x[n, c, i * stride + k * dilation - before] * w[o, c, k]
 *
 * One walk over all (x, w, y) triples serves the forward direction and both gradients; a transpose is the
 * gradient with respect to the input. Reals are summed in double, integers wrap, the bias starts the sum, and
 * the result is rounded once. anfi_conv_plan is the only reader of the attributes: stride padding dilation
 * groups, then output_padding or the wanted shape. */
#include "ir/ops/nn/window.h"

anfi_infer anfi_as_infer(const anfi_eval *q) {
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++)
    types[i] = q->in[i]->kind == ANF_VALUE_TENSOR ? q->in[i]->type
                                                  : anfi_type_simple(q->cx, ANF_TYPE_NONE);
  return (anfi_infer){
      .cx = q->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = types, .attr = q->attr};
}

/* ---- windows ---- */

/* One integer for all spatial dims, or one for each. */
static bool each_dim(const anfi_infer *q, const anf_value *v, size_t rank, int64_t least,
                     int64_t *out) {
  int64_t got[3];
  size_t n = anfi_attr_ints(v, 3, got);
  if (n != 1 && n != rank) return anfi_infer_bad_count(q, rank);
  for (size_t k = 0; k < rank; k++) {
    int64_t x = got[n == 1 ? 0 : k];
    if (x < least || x > INT32_MAX) return anfi_infer_bad_size(q, x);
    out[3 - rank + k] = x;
  }
  return true;
}

static bool bad_padding(const anfi_infer *q) {
  return anfi_fail(q->cx, q->loc, ANF_E0549, anfi_op[q->op].name);
}

static bool pad_size(const anfi_infer *q, const anf_value *v, int64_t *out) {
  if (!anfi_value_is_int(v, out)) return bad_padding(q);
  return (*out >= 0 && *out <= INT32_MAX) || anfi_infer_bad_size(q, *out);
}

/* n, (n, ...) or ((before, after), ...) */
static bool explicit_padding(const anfi_infer *q, anfi_window *w, const anf_value *v) {
  bool tuple = v->kind == ANF_VALUE_TUPLE;
  if (tuple && v->n != w->rank) return bad_padding(q);
  for (size_t k = 0; k < w->rank; k++) {
    const anf_value *p = tuple ? v->u.item[k] : v;
    bool pair = p->kind == ANF_VALUE_TUPLE;
    if (pair && p->n != 2) return bad_padding(q);
    size_t at = 3 - w->rank + k;
    anf_value *const *end = p->u.item;
    if (!pad_size(q, pair ? end[0] : p, &w->before[at])) return false;
    if (!pad_size(q, pair ? end[1] : p, &w->after[at])) return false;
  }
  return true;
}

static int64_t extent(const anfi_window *w, size_t k) {
  return (w->kernel[k] - 1) * w->dilation[k] + 1;
}

static void same_padding(anfi_window *w, size_t k) {
  w->before[k] = w->after[k] = 0;
  if (w->in[k] < 0 || w->kernel[k] < 0) return;
  int64_t out = (w->in[k] + w->stride[k] - 1) / w->stride[k];
  int64_t total = (out - 1) * w->stride[k] + extent(w, k) - w->in[k];
  if (total < 0 || !w->in[k]) total = 0;
  w->before[k] = total / 2; // an odd one goes to the end
  w->after[k] = total - w->before[k];
}

static bool read_padding(const anfi_infer *q, anfi_window *w, const anf_value *v) {
  if (v->kind != ANF_VALUE_STRING) return explicit_padding(q, w, v);
  bool same = anfi_attr_is(v, "same");
  if (!same && !anfi_attr_is(v, "valid")) return bad_padding(q);
  for (size_t k = 3 - w->rank; same && k < 3; k++) same_padding(w, k);
  return true;
}

static bool out_dim(const anfi_infer *q, anfi_window *w, size_t k, bool ceil_mode) {
  w->out[k] = ANF_DIM_UNKNOWN;
  if (w->in[k] < 0 || w->kernel[k] < 0) return true;
  int64_t room = w->in[k] + w->before[k] + w->after[k] - extent(w, k), s = w->stride[k];
  if (room < 0 || !w->kernel[k])
    return anfi_infer_fail(q, "the kernel is larger than the padded input");
  w->out[k] = (ceil_mode ? room + s - 1 : room) / s + 1;
  if (ceil_mode && (w->out[k] - 1) * s >= w->in[k] + w->before[k])
    w->out[k]--; // starts beyond the input
  return true;
}

bool anfi_window_plan(const anfi_infer *q, anfi_window *w, const anf_value *stride,
                      const anf_value *padding, const anf_value *dilation, bool ceil_mode) {
  for (size_t k = 0; k < 3; k++) {
    w->stride[k] = w->dilation[k] = 1;
    w->before[k] = w->after[k] = 0;
    if (k < 3 - w->rank) w->in[k] = w->out[k] = w->kernel[k] = 1;
  }
  if (!each_dim(q, stride, w->rank, 1, w->stride)) return false;
  if (dilation && !each_dim(q, dilation, w->rank, 1, w->dilation)) return false;
  if (!read_padding(q, w, padding)) return false;
  for (size_t k = 3 - w->rank; k < 3; k++)
    if (!out_dim(q, w, k, ceil_mode)) return false;
  return true;
}

/* ---- convolutions: inference ---- */

enum { STRIDE, PADDING, DILATION, GROUPS, WANTED };

static size_t spatial_rank(const anfi_infer *q) {
  switch (q->op) {
  case ANF_OP_Conv1D:
  case ANF_OP_ConvTranspose1D: return 1;
  case ANF_OP_Conv2D:
  case ANF_OP_ConvTranspose2D: return 2;
  case ANF_OP_Conv3D:
  case ANF_OP_ConvTranspose3D: return 3;
  default: return q->in[0]->n - 2; // of a gradient: that of its arguments
  }
}

/* The shape that a gradient is asked for. */
static bool wanted_shape(const anfi_infer *q, size_t rank, int64_t *dims) {
  size_t n = anfi_attr_ints(q->attr[WANTED], ANF_MAX_RANK, dims);
  if (n != rank) return anfi_infer_fail(q, "`shape` must have as many dims as the arguments");
  for (size_t k = 0; k < n; k++)
    if (dims[k] < 0 || dims[k] > INT32_MAX) return anfi_infer_bad_size(q, dims[k]);
  return true;
}

/* Channels and spatial dims of x and w. */
static bool set_dims(const anfi_infer *q, anfi_conv *c, const int64_t *x, const int64_t *w) {
  size_t r = c->win.rank;
  int64_t g = c->groups = anfi_attr_int(q->attr[GROUPS]);
  if (g < 1 || g > INT32_MAX) return anfi_infer_fail(q, "groups must be 1 or more");
  if (w[0] >= 0 && w[0] % g)
    return anfi_infer_fail(q, "groups must divide the number of result channels");
  c->n = x[0];
  c->ci = w[1];
  c->co = w[0] < 0 ? w[0] : w[0] / g;
  for (size_t k = 0; k < r; k++) {
    c->win.in[3 - r + k] = x[2 + k];
    c->win.kernel[3 - r + k] = w[2 + k];
  }
  return true;
}

/* The input size of a transpose: that of the forward convolution's input. */
static bool transposed_input(const anfi_infer *q, anfi_conv *c, const anf_type *y) {
  anfi_window *w = &c->win;
  int64_t extra[3] = {0, 0, 0};
  size_t first = 3 - w->rank;
  for (size_t k = first; k < 3; k++) w->in[k] = ANF_DIM_UNKNOWN;
  if (!anfi_window_plan(q, w, q->attr[STRIDE], q->attr[PADDING], q->attr[DILATION], false))
    return false;
  if (!each_dim(q, q->attr[WANTED], w->rank, 0, extra)) return false;
  bool same = anfi_attr_is(q->attr[PADDING], "same");
  for (size_t k = first; k < 3; k++) {
    int64_t out = w->out[k] = y->dims[2 + k - first];
    if (extra[k] && extra[k] >= w->stride[k] && extra[k] >= w->dilation[k])
      return anfi_infer_fail(q, "output_padding must be smaller than stride or dilation");
    if (out < 0 || w->kernel[k] < 0) continue;
    w->in[k] = same ? out * w->stride[k]
                    : (out - 1) * w->stride[k] + extent(w, k) - w->before[k] - w->after[k];
    w->in[k] += extra[k];
    if (!out && w->in[k] < 0) w->in[k] = 0;
    if (same) same_padding(w, k);
    if (w->in[k] < 0) return anfi_infer_fail(q, "the padding is larger than the result");
  }
  return true;
}

static bool plan_forward(const anfi_infer *q, anfi_conv *c, const int64_t *x, const int64_t *w) {
  return set_dims(q, c, x, w) &&
         anfi_window_plan(q, &c->win, q->attr[STRIDE], q->attr[PADDING], q->attr[DILATION], false);
}

static bool is_transpose(anfi_opcode op) {
  return op == ANF_OP_ConvTranspose1D || op == ANF_OP_ConvTranspose2D ||
         op == ANF_OP_ConvTranspose3D;
}

/* Does y have the shape that the plan gives? */
static bool result_fits(const anfi_infer *q, const anfi_conv *c, const anf_type *y) {
  size_t r = c->win.rank;
  bool fits = anfi_infer_agree(y->dims[0], c->n) &&
              anfi_infer_agree(y->dims[1], c->co < 0 ? c->co : c->co * c->groups);
  for (size_t k = 0; k < r; k++) fits &= anfi_infer_agree(y->dims[2 + k], c->win.out[3 - r + k]);
  return fits || anfi_infer_fail(q, "the arguments do not have the shapes of one convolution");
}

/* Below this no product of a dim with a stride, dilation or number of groups overflows. */
static bool small_dims(const anfi_infer *q, const anf_type *t) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->dims[k] > INT32_MAX) return anfi_infer_bad_size(q, t->dims[k]);
  return true;
}

bool anfi_conv_plan(const anfi_infer *q, anfi_conv *c) {
  const anf_type *a = q->in[0], *b = q->in[1];
  if (!small_dims(q, a) || !small_dims(q, b)) return false;
  size_t r = c->win.rank = spatial_rank(q);
  int64_t dims[ANF_MAX_RANK];
  if (a->n < 3 || a->n > 5 || a->n != r + 2 || b->n != a->n)
    return anfi_infer_fail(q, "both arguments are [., ., spatial dims]");
  if (q->op == ANF_OP_ConvGradInput) {
    if (!wanted_shape(q, r + 2, dims) || !plan_forward(q, c, dims, b->dims) ||
        !result_fits(q, c, a))
      return false;
    return dims[1] == c->ci * c->groups || c->ci < 0 || anfi_infer_mismatch(q, a, b);
  }
  if (q->op == ANF_OP_ConvGradWeight) {
    if (!wanted_shape(q, r + 2, dims) || !plan_forward(q, c, a->dims, dims) ||
        !result_fits(q, c, b))
      return false;
    return anfi_infer_agree(a->dims[1], c->ci * c->groups) || anfi_infer_mismatch(q, a, b);
  }
  if (is_transpose(q->op)) {
    dims[0] = a->dims[0];
    for (size_t k = 1; k < r + 2; k++) dims[k] = ANF_DIM_UNKNOWN;
    if (!anfi_infer_agree(a->dims[1], b->dims[0])) return anfi_infer_mismatch(q, a, b);
    return set_dims(q, c, dims, b->dims) && transposed_input(q, c, a);
  }
  if (!plan_forward(q, c, a->dims, b->dims)) return false;
  return a->dims[1] < 0 || c->ci < 0 || a->dims[1] == c->ci * c->groups ||
         anfi_infer_mismatch(q, a, b);
}

static bool conv_dtype(const anfi_infer *q, anf_dtype *d) {
  for (size_t i = 0; i < q->n; i++) {
    if (!anfi_infer_given(q, i)) continue;
    if (!anfi_is_tensor(q->in[i])) return anfi_infer_no_tensor(q, i);
    anf_dtype e = (anf_dtype)q->in[i]->dtype;
    if (anfi_dtype_class(e) > ANFI_CLASS_FLOAT) return anfi_infer_bad_dtype(q, e);
    if (!i) *d = e;
    else anfi_dtype_promote(*d, e, d);
  }
  return true;
}

static int64_t times(int64_t a, int64_t b) { return a < 0 || b < 0 ? ANF_DIM_UNKNOWN : a * b; }

bool anfi_infer_conv(anfi_infer *q) {
  anf_dtype d = ANF_F32;
  anfi_conv c;
  int64_t dims[5];
  if (!conv_dtype(q, &d) || !anfi_conv_plan(q, &c)) return false;
  size_t r = c.win.rank;
  if (q->op == ANF_OP_ConvGradInput || q->op == ANF_OP_ConvGradWeight) {
    anfi_attr_ints(q->attr[WANTED], 5, dims);
    q->out = anfi_type_tensor(q->cx, d, r + 2, dims);
    return true;
  }
  bool back = is_transpose(q->op);
  dims[0] = c.n;
  dims[1] = times(back ? c.ci : c.co, c.groups);
  for (size_t k = 0; k < r; k++) dims[2 + k] = (back ? c.win.in : c.win.out)[3 - r + k];
  if (!anfi_infer_shape_is(q, 2, 1, &dims[1])) return false;
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, r + 2, dims));
}

/* ---- evaluation ---- */

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
  return anfi_store(q->out, result, w);
}

bool anfi_eval_conv(anfi_eval *q) { return run(q, TO_Y, 0, 1, 0); }
bool anfi_eval_conv_grad_input(anfi_eval *q) { return run(q, TO_X, 0, 1, 0); } // and transposes
bool anfi_eval_conv_grad_weight(anfi_eval *q) { return run(q, TO_W, 0, 0, 1); }
