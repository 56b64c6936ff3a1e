// SPDX-License-Identifier: Apache-2.0
/* Convolutions and pools.
 *   ConvGradInput, ConvTranspose   ->  a convolution of dy, spread by the stride, with the weights reversed
 *   ConvGradWeight                 ->  a convolution of x with dy, batch and channels exchanged
 *   AdaptiveAvgPool, and gradients of means  ->  reduce of select, divided by counts, dim by dim
 *   AvgPool, MaxPool, MaxPoolPick  ->  reduce_window;  MaxPoolGrad  ->  select_and_scatter */
#include "frontend/stablehlo/write.h"
#include "ir/ops/nn/window.h"

/* ---- windows ---- */

typedef struct {
  size_t rank;
  int64_t kernel[3], stride[3], dilation[3], low[3], high[3], in[3], out[3]; // spatial dims first
} window;

static window read_window(const anfi_window *v) {
  window w = {.rank = v->rank};
  for (size_t i = 0; i < v->rank; i++) {
    size_t k = 3 - v->rank + i;
    w.kernel[i] = v->kernel[k], w.stride[i] = v->stride[k], w.dilation[i] = v->dilation[k];
    w.low[i] = v->before[k], w.in[i] = v->in[k], w.out[i] = v->out[k];
    w.high[i] =
        (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - w.in[i] - w.low[i];
  }
  return w;
}

static const char *pads(anfi_flat *w, size_t n, const int64_t *low, const int64_t *high) {
  const char *s = "[";
  for (size_t i = 0; i < n; i++)
    s = anfi_sprintf(w->arena, "%s%s[%lld, %lld]", s, i ? ", " : "", (long long)low[i],
                     (long long)high[i]);
  return anfi_sprintf(w->arena, "%s]", s);
}

/* ---- convolutions ---- */

typedef struct {
  /* dims */
  size_t rank;
  const char *x, *w, *y; // what the first two dims are: "b, f"
  /* window */
  int64_t stride[3], low[3], high[3], spread[3], dilation[3];
  bool reverse;
  /* groups */
  int64_t groups, batch_groups;
} conv;

static const anfi_out *put_conv(anfi_flat *w, const anfi_out *x, const anfi_out *k,
                                const anf_type *t, const conv *c) {
  const char *spatial = "", *reverse = "";
  for (size_t i = 0; i < c->rank; i++) {
    spatial = anfi_sprintf(w->arena, "%s, %zu", spatial, i);
    reverse =
        anfi_sprintf(w->arena, "%s%s%s", reverse, i ? ", " : "", c->reverse ? "true" : "false");
  }
  return anfi_sw_put(
      w, t,
      "stablehlo.convolution(%s, %s) dim_numbers = [%s%s]x[%s%s]->[%s%s], window = {stride = %s, "
      "pad = %s, "
      "lhs_dilate = %s, rhs_dilate = %s, reverse = [%s]} {batch_group_count = %lld : i64, "
      "feature_group_count = %lld : i64, precision_config = [#stablehlo<precision HIGHEST>, "
      "#stablehlo<precision HIGHEST>]} : (%s, %s) -> %s",
      x->name, k->name, c->x, spatial, c->w, spatial, c->y, spatial,
      anfi_sw_ints(w, c->rank, c->stride), pads(w, c->rank, c->low, c->high),
      anfi_sw_ints(w, c->rank, c->spread), anfi_sw_ints(w, c->rank, c->dilation), reverse,
      (long long)c->batch_groups, (long long)c->groups, anfi_sw_type(w, x->type),
      anfi_sw_type(w, k->type), anfi_sw_type(w, t));
}

static bool conv_window(anfi_sw_apply *a, anfi_conv *c, window *v) {
  anfi_infer q = anfi_export_question(a->w->cx, a->w->arena, a->n);
  if (!anfi_conv_plan(&q, c)) return false;
  *v = read_window(&c->win);
  return true;
}

static const anf_type *result_type(anfi_sw_apply *a) {
  return anfi_sw_tensor(a->w, anfi_sw_result_dtype(a), a->n->type->n, a->n->type->dims);
}

/* With a bias of [channels] added. */
static const anfi_out *biased(anfi_sw_apply *a, const anfi_out *y, uint32_t i) {
  anfi_flat *w = a->w;
  if (!y || i >= anfi_arg_count(a->n)) return y;
  const anf_type *given = anfi_flat_type_of(a->n->in[i].def);
  if (given && given->kind == ANF_TYPE_NONE) return y;
  const anfi_out *b = anfi_sw_in_as(a, i, (anf_dtype)y->type->dtype);
  int64_t dims[ANF_MAX_RANK];
  if (!b) return NULL;
  for (uint32_t k = 0; k < y->type->n; k++) dims[k] = k == 1 ? y->type->dims[1] : 1;
  b = anfi_sw_reshape(w, b, y->type->n, dims);
  return anfi_sw_binary(w, "stablehlo.add", y, anfi_sw_broadcast(w, b, y->type->n, y->type->dims));
}

/* The operands and the window of a convolution. */
static bool read_conv(anfi_sw_apply *a, const anfi_out *in[2], anfi_conv *c, window *v, conv *p) {
  anf_dtype d = anfi_sw_result_dtype(a);
  in[0] = anfi_sw_in_as(a, 0, d), in[1] = in[0] ? anfi_sw_in_as(a, 1, d) : NULL;
  if (!in[1] || !conv_window(a, c, v)) return false;
  *p = (conv){.rank = v->rank, .x = "b, f", .w = "o, i", .y = "b, f", .groups = c->groups};
  p->batch_groups = 1;
  return true;
}

static const anfi_out *convolved(anfi_sw_apply *a) {
  const anfi_out *in[2];
  anfi_conv c;
  window v;
  conv p;
  if (!read_conv(a, in, &c, &v, &p)) return NULL;
  for (size_t i = 0; i < v.rank; i++) {
    p.stride[i] = v.stride[i], p.dilation[i] = v.dilation[i], p.spread[i] = 1;
    p.low[i] = v.low[i], p.high[i] = v.high[i];
  }
  return biased(a, put_conv(a->w, in[0], in[1], result_type(a), &p), 2);
}

/* [g * co, ci, ..] -> [g * ci, co, ..]: the channels of each group exchanged */
static const anfi_out *exchanged(anfi_flat *w, const anfi_out *k, const anfi_conv *c) {
  const int64_t perm[6] = {0, 2, 1, 3, 4, 5};
  int64_t apart[6] = {c->groups, c->co, c->ci}, dims[5] = {c->groups * c->ci, c->co};
  uint32_t n = k->type->n;
  for (uint32_t i = 2; i < n; i++) apart[i + 1] = dims[i] = k->type->dims[i];
  const anfi_out *x = anfi_sw_reshape(w, k, n + 1, apart);
  return anfi_sw_reshape(w, anfi_sw_transpose(w, x, perm), n, dims);
}

/* dy (or the x of a ConvTranspose) back to the input of the convolution: v.in is the size of the result. */
static const anfi_out *turned_back(anfi_sw_apply *a, bool bias) {
  const anfi_out *in[2]; // dy, weights
  anfi_conv c;
  window v;
  conv p;
  if (!read_conv(a, in, &c, &v, &p)) return NULL;
  p.reverse = true;
  for (size_t i = 0; i < v.rank; i++) {
    int64_t reach = (v.kernel[i] - 1) * v.dilation[i];
    int64_t got = in[0]->type->dims[2 + i], want = a->n->type->dims[2 + i];
    p.stride[i] = 1, p.dilation[i] = v.dilation[i], p.spread[i] = v.stride[i];
    p.low[i] = reach - v.low[i];
    p.high[i] = want + reach - ((got - 1) * v.stride[i] + 1) - p.low[i];
  }
  const anfi_out *y = put_conv(a->w, in[0], exchanged(a->w, in[1], &c), result_type(a), &p);
  return bias ? biased(a, y, 2) : y;
}

static const anfi_out *weight_gradient(anfi_sw_apply *a) {
  const anfi_out *in[2]; // x, dy
  anfi_conv c;
  window v;
  conv p;
  if (!read_conv(a, in, &c, &v, &p)) return NULL;
  p.x = p.y = "f, b", p.w = "i, o";
  p.groups = 1, p.batch_groups = c.groups;
  for (size_t i = 0; i < v.rank; i++) {
    p.stride[i] = v.dilation[i], p.dilation[i] = v.stride[i], p.spread[i] = 1;
    p.low[i] = v.low[i];
    p.high[i] =
        (v.kernel[i] - 1) * v.dilation[i] + (v.out[i] - 1) * v.stride[i] + 1 - v.in[i] - v.low[i];
  }
  return put_conv(a->w, in[0], in[1], result_type(a), &p);
}

/* ---- means ---- */

/* Means along dim k: [means, 1..], how many elements each is divided by, and [out, in, 1..], which elements take part; of a
 * gradient, which is divided first, [in, out, 1..]. */
typedef struct {
  const anfi_out *count, *part;
} taps;

static anf_value *table(anfi_flat *w, anf_dtype d, size_t rank, const int64_t *dims) {
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_sw_tensor(w, d, rank, dims));
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static taps taps_of(anfi_flat *w, const anfi_pool *p, size_t k, bool back, anf_dtype d) {
  const int64_t dims[4] = {back ? p->in[k] : p->out[k], back ? p->out[k] : p->in[k], 1, 1};
  const int64_t means[3] = {p->out[k], 1, 1};
  anf_value *part = table(w, ANF_BOOL, 4 - k, dims), *count = table(w, d, 3 - k, means);
  for (int64_t o = 0; o < p->out[k]; o++) {
    const anfi_span *s = &p->span[k][o];
    anfi_set_f64(count, (size_t)o, s->count ? (double)s->count : 1.0);
    for (int64_t i = s->lo; i < s->hi; i += p->step[k])
      anfi_set_i64(part, (size_t)(back ? i * p->out[k] + o : o * p->in[k] + i), 1);
  }
  taps t = {anfi_flat_constant(w, count), NULL};
  t.part = anfi_flat_constant(w, part);
  return t;
}

/* Sums along `axis` of x. What takes no part is left out by select: 0 * inf is no 0. */
static const anfi_out *sums(anfi_flat *w, const anfi_out *x, const anfi_out *part, size_t axis) {
  uint32_t n = x->type->n;
  int64_t dims[ANF_MAX_RANK], summed = (int64_t)axis + 1;
  anf_dtype d = (anf_dtype)x->type->dtype;
  memcpy(dims, x->type->dims, axis * sizeof *dims);
  memcpy(dims + axis + 1, x->type->dims + axis, (n - axis) * sizeof *dims);
  dims[axis] = 1;
  const anfi_out *all = anfi_sw_reshape(w, x, n + 1, dims), *none = anfi_sw_number(w, d, 0);
  dims[axis] = part->type->dims[0];
  all = anfi_sw_broadcast(w, all, n + 1, dims);
  part = anfi_sw_broadcast(w, part, n + 1, dims);
  all = anfi_sw_select(w, part, all, anfi_sw_broadcast(w, none, n + 1, dims));
  memmove(dims + axis + 1, dims + axis + 2, (n - axis - 1) * sizeof *dims);
  return anfi_sw_reduce(w, all, "add", none, anfi_sw_tensor(w, d, n, dims), 1, &summed);
}

static const anfi_out *means(anfi_sw_apply *a, bool back) {
  anfi_flat *w = a->w;
  anfi_infer q = anfi_export_question(w->cx, w->arena, a->n);
  const anf_type *in = back ? a->n->type : q.in[0];
  anf_dtype d = anfi_sw_result_dtype(a), wide = d == ANF_F16 || d == ANF_BF16 ? ANF_F32 : d;
  anfi_pool p;
  const anfi_out *x = anfi_sw_in_as(a, 0, wide);
  if (!x || !anfi_pool_plan(&q, in->n - 2, in->dims + 2, true, &p)) return NULL;
  for (size_t i = 0; i < p.rank; i++) {
    taps t = taps_of(w, &p, 3 - p.rank + i, back, wide);
    if (!back) x = sums(w, x, t.part, 2 + i);
    t.count = anfi_sw_broadcast(w, t.count, x->type->n, x->type->dims);
    x = anfi_sw_binary(w, "stablehlo.divide", x, t.count);
    if (back) x = sums(w, x, t.part, 2 + i);
  }
  return wide == d ? x : anfi_sw_cast(w, x, d);
}

/* ---- the greatest ---- */

static bool pool_window(anfi_sw_apply *a, bool mean, window *out) {
  enum { KERNEL, STRIDE, PADDING, CEIL, DILATION };
  anfi_infer q = anfi_export_question(a->w->cx, a->w->arena, a->n);
  const anf_type *x = q.in[0];
  anfi_window v = {.rank = x->n - 2};
  for (size_t k = 0; k < v.rank; k++) v.in[3 - v.rank + k] = x->dims[2 + k];
  anfi_export_sizes(q.attr[KERNEL], v.rank, v.kernel);
  const anf_value *stride =
      q.attr[STRIDE]->kind == ANF_VALUE_NONE ? q.attr[KERNEL] : q.attr[STRIDE];
  if (!anfi_window_plan(&q, &v, stride, q.attr[PADDING], mean ? NULL : q.attr[DILATION],
                        anfi_attr_bool(q.attr[CEIL])))
    return false;
  *out = read_window(&v);
  return true;
}

/* Attributes of a window over [batch, channels, ..]. */
static const char *window_attrs(anfi_flat *w, const window *v, bool dilation) {
  int64_t size[5] = {1, 1}, stride[5] = {1, 1}, apart[5] = {1, 1}, low[5] = {0}, high[5] = {0};
  size_t n = v->rank + 2;
  for (size_t i = 0; i < v->rank; i++) {
    size[2 + i] = v->kernel[i], stride[2 + i] = v->stride[i], apart[2 + i] = v->dilation[i];
    low[2 + i] = v->low[i], high[2 + i] = v->high[i];
  }
  const char *more =
      dilation ? anfi_sprintf(w->arena, "window_dilations = %s, ", anfi_sw_array(w, n, apart)) : "";
  return anfi_sprintf(
      w->arena,
      "padding = dense<%s> : tensor<%zux2xi64>, %swindow_dimensions = %s, window_strides = %s",
      pads(w, n, low, high), n, more, anfi_sw_array(w, n, size), anfi_sw_array(w, n, stride));
}

/* Each window reduced by one op. */
static const anfi_out *slid(anfi_sw_apply *a, const anfi_out *x, const window *v, const char *op,
                            const anfi_out *init) {
  anfi_flat *w = a->w;
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, a->n->type->n, a->n->type->dims);
  const char *e = anfi_sw_type(w, init->type), *l = anfi_sw_new_name(w), *r = anfi_sw_new_name(w),
             *s = anfi_sw_new_name(w), *name = anfi_sw_new_name(w);
  anfi_sw_line(w, "%s = \"stablehlo.reduce_window\"(%s, %s) <{%s}> ({", name, x->name, init->name,
               window_attrs(w, v, true));
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s):", l, e, r, e);
  anfi_sw_line(w, "  %s = stablehlo.%s %s, %s : %s", s, op, l, r, e);
  anfi_sw_line(w, "  stablehlo.return %s : %s", s, e);
  anfi_sw_line(w, "}) : (%s, %s) -> %s", anfi_sw_type(w, x->type), e, anfi_sw_type(w, t));
  return anfi_out_leaf(w, name, t);
}

static const anfi_out *greatest(anfi_sw_apply *a) {
  window v;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d);
  if (!x || !pool_window(a, false, &v)) return NULL;
  return slid(a, x, &v, "maximum", anfi_sw_limit(a->w, d, true));
}

/* How many elements each window has. */
static const anfi_out *counts(anfi_flat *w, const anfi_pool *p, anf_dtype d) {
  int64_t n[3] = {1, 1, 1}, at[3];
  for (size_t k = 3 - p->rank; k < 3; k++) n[k] = p->out[k];
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_sw_tensor(w, d, p->rank, n + 3 - p->rank));
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  for (size_t i = 0; i < v->n; i++) {
    double count = 1;
    at[2] = (int64_t)i % n[2], at[1] = (int64_t)i / n[2] % n[1], at[0] = (int64_t)i / n[2] / n[1];
    for (size_t k = 3 - p->rank; k < 3; k++) count *= (double)p->span[k][at[k]].count;
    anfi_set_f64(v, i, count);
  }
  return anfi_flat_constant(w, v);
}

static const anfi_out *average(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anfi_infer q = anfi_export_question(w->cx, w->arena, a->n);
  anf_dtype d = anfi_sw_result_dtype(a), wide = d == ANF_F64 ? ANF_F64 : ANF_F32;
  window v;
  anfi_pool p;
  const anfi_out *x = anfi_sw_in_as(a, 0, wide);
  if (!x || !pool_window(a, true, &v)) return NULL;
  if (!anfi_pool_plan(&q, v.rank, q.in[0]->dims + 2, true, &p)) return NULL;
  const anfi_out *sum = slid(a, x, &v, "add", anfi_sw_number(w, wide, 0));
  const anfi_out *n = anfi_sw_broadcast(w, counts(w, &p, wide), sum->type->n, sum->type->dims);
  return anfi_sw_cast(w, anfi_sw_binary(w, "stablehlo.divide", sum, n), d);
}

/* Is l, which comes first, kept beside r? A NaN is greater than all. */
static const anfi_out *chosen_of(anfi_flat *w, const anfi_out *l, const anfi_out *r) {
  const anfi_out *not_less = anfi_sw_compare(w, "GE", l, r);
  if (!anfi_dtype_is_float((anf_dtype)l->type->dtype)) return not_less;
  const anfi_out *nan = anfi_sw_compare(w, "NE", l, l);
  return anfi_sw_binary(w, "stablehlo.or", not_less, nan);
}

static const anfi_out *gradient(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  window v;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *dy = x ? anfi_sw_in_as(a, 1, d) : NULL;
  if (!dy || !pool_window(a, false, &v)) return NULL;
  for (size_t i = 0; i < v.rank; i++)
    if (v.dilation[i] != 1)
      return (void)anfi_flat_refuse(w, a->n, "the gradient of a pool", "with a dilation"), NULL;
  const anfi_out *zero = anfi_sw_number(w, d, 0);
  const anf_type *element = anfi_sw_tensor(w, d, 0, NULL);
  const char *e = anfi_sw_type(w, element), *t = anfi_sw_type(w, x->type),
             *name = anfi_sw_new_name(w);
  const anfi_out *l = anfi_out_leaf(w, anfi_sw_new_name(w), element),
                 *r = anfi_out_leaf(w, anfi_sw_new_name(w), element);
  const char *p = anfi_sw_new_name(w), *q = anfi_sw_new_name(w), *s = anfi_sw_new_name(w);
  anfi_sw_line(w, "%s = \"stablehlo.select_and_scatter\"(%s, %s, %s) <{%s}> ({", name, x->name,
               dy->name, zero->name, window_attrs(w, &v, false));
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s):", l->name, e, r->name, e);
  anfi_sw_own_of(w)->indent++;
  anfi_sw_line(w, "stablehlo.return %s : tensor<i1>", chosen_of(w, l, r)->name);
  anfi_sw_own_of(w)->indent--;
  anfi_sw_line(w, "}, {");
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s):", p, e, q, e);
  anfi_sw_line(w, "  %s = stablehlo.add %s, %s : %s", s, p, q, e);
  anfi_sw_line(w, "  stablehlo.return %s : %s", s, e);
  anfi_sw_line(w, "}) : (%s, %s, %s) -> %s", t, anfi_sw_type(w, dy->type), e, t);
  return anfi_out_leaf(w, name, x->type);
}

/* The pair (x, v) of the greatest x. */
static const anfi_out *picked(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  window v;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in(a, 0), *y = x ? anfi_sw_in_as(a, 1, d) : NULL, *in[4];
  if (!y || !pool_window(a, false, &v)) return NULL;
  const anfi_out *least = anfi_sw_limit(w, (anf_dtype)x->type->dtype, true),
                 *zero = anfi_sw_number(w, d, 0);
  for (size_t i = 0; i < 4; i++)
    in[i] = anfi_out_leaf(w, anfi_sw_new_name(w), i % 2 ? zero->type : least->type);
  const char *e = anfi_sw_type(w, least->type), *f = anfi_sw_type(w, zero->type),
             *name = anfi_sw_new_name(w);
  anfi_sw_line(w, "%s:2 = \"stablehlo.reduce_window\"(%s, %s, %s, %s) <{%s}> ({", name, x->name,
               y->name, least->name, zero->name, window_attrs(w, &v, true));
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s, %s: %s, %s: %s):", in[0]->name, e, in[1]->name, f,
               in[2]->name, e, in[3]->name, f);
  anfi_sw_own_of(w)->indent++;
  const anfi_out *c = chosen_of(w, in[0], in[2]);
  const anfi_out *most = anfi_sw_select(w, c, in[0], in[2]);
  const anfi_out *its = anfi_sw_select(w, c, in[1], in[3]);
  anfi_sw_line(w, "stablehlo.return %s, %s : %s, %s", most->name, its->name, e, f);
  anfi_sw_own_of(w)->indent--;
  const anf_type *t = result_type(a),
                 *s = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, t->n, t->dims);
  anfi_sw_line(w, "}) : (%s, %s, %s, %s) -> (%s, %s)", anfi_sw_type(w, x->type),
               anfi_sw_type(w, y->type), e, f, anfi_sw_type(w, s), anfi_sw_type(w, t));
  return anfi_out_leaf(w, anfi_sprintf(w->arena, "%s#1", name), t);
}

const anfi_out *anfi_sw_window_op(anfi_sw_apply *a, bool *taken) {
  *taken = true;
  switch (a->n->op) {
  case ANF_OP_Conv1D:
  case ANF_OP_Conv2D:
  case ANF_OP_Conv3D: return convolved(a);
  case ANF_OP_ConvTranspose1D:
  case ANF_OP_ConvTranspose2D:
  case ANF_OP_ConvTranspose3D: return turned_back(a, true);
  case ANF_OP_ConvGradInput: return turned_back(a, false);
  case ANF_OP_ConvGradWeight: return weight_gradient(a);
  case ANF_OP_AvgPool1D:
  case ANF_OP_AvgPool2D:
  case ANF_OP_AvgPool3D: return average(a);
  case ANF_OP_AdaptiveAvgPool1D:
  case ANF_OP_AdaptiveAvgPool2D:
  case ANF_OP_AdaptiveAvgPool3D: return means(a, false);
  case ANF_OP_AvgPoolGrad:
  case ANF_OP_AdaptiveAvgPoolGrad: return means(a, true);
  case ANF_OP_MaxPool1D:
  case ANF_OP_MaxPool2D:
  case ANF_OP_MaxPool3D: return greatest(a);
  case ANF_OP_MaxPoolGrad: return gradient(a);
  case ANF_OP_MaxPoolPick: return picked(a);
  default: return *taken = false, NULL;
  }
}
