// SPDX-License-Identifier: Apache-2.0
/* What ONNX says by other attributes and inputs than ours: slices, pads, windows of convolutions and pools.
 *   AvgPool with cut windows, AdaptiveAvgPool, and gradients of both   ->  dim by dim ReduceSum(Where(part, Gather(x, at), 0)) / count
 *   ConvGradInput, ConvTranspose   ->  ConvTranspose
 *   ConvGradWeight   ->  Conv of x and dy with batch and channels exchanged */
#include "frontend/onnx/write.h"
#include "ir/ops/nn/window.h"

/* ---- attributes as inputs ---- */

const char *anfi_ox_as_list(anfi_flat *w, const anfi_out *x) {
  const int64_t zero = 0;
  bool scalar = x->type->n == 0;
  const char *wide = x->type->dtype == ANF_I64 || x->type->dtype == ANF_INT
                         ? x->name
                         : anfi_ox_cast(w, x->name, ANF_I64);
  const char *in[2] = {wide, anfi_ox_ints(w, 1, &zero)};
  return scalar ? anfi_ox_put(w, "Unsqueeze", 2, in) : wide;
}

static const char *joined(anfi_flat *w, size_t n, const char *const *in) {
  if (n == 1) return in[0];
  size_t at = anfi_ox_open(w, "Concat", n, in);
  anfi_ox_attr_int(w, "axis", 0);
  return anfi_ox_close(w, at);
}

/* A tuple of integers, or one, as a tensor of rank 1. */
static const char *list_of(anfi_flat *w, const anfi_out *x) {
  anfi_outs leaves = {0};
  anfi_out_add(w, x, &leaves);
  const char **in = ANFI_NEW_N(w->arena, const char *, leaves.n + 1);
  for (size_t i = 0; i < leaves.n; i++) in[i] = anfi_ox_as_list(w, leaves.at[i]);
  return leaves.n ? joined(w, leaves.n, in) : anfi_ox_ints(w, 0, NULL);
}

static anf_value *attr(const anfi_flat *w, const anf_node *n, uint32_t k) {
  return anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k);
}

const char *anfi_ox_attr_list(anfi_flat *w, const anf_node *n, uint32_t k) {
  const anf_value *v = attr(w, n, k);
  int64_t x[2 * ANF_MAX_RANK];
  if (v && v->kind == ANF_VALUE_NONE) return "";
  if (v) return anfi_ox_ints(w, anfi_attr_ints(v, 2 * ANF_MAX_RANK, x), x);
  const anfi_out *o = anfi_flat_operand(w, anfi_attr_node(n, k));
  return o ? list_of(w, o) : NULL;
}

const char *anfi_ox_attr_scalar(anfi_flat *w, const anf_node *n, uint32_t k, anf_dtype d) {
  const anf_value *v = attr(w, n, k);
  if (v && v->kind == ANF_VALUE_NONE) return "";
  if (v) {
    if (v->kind != ANF_VALUE_TENSOR || v->n != 1)
      return (void)anfi_flat_refuse(w, n, "an attribute that is", "no number"), NULL;
    anf_value *c = anfi_value_cast((anf_value *)(uintptr_t)v, d);
    anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, c);
    const anfi_out *o = anfi_flat_constant(w, c);
    return o ? o->name : NULL;
  }
  const anfi_out *o = anfi_flat_operand(w, anfi_attr_node(n, k));
  if (!o) return NULL;
  if (!o->name) return (void)anfi_flat_refuse(w, n, "an attribute that is", "no number"), NULL;
  return anfi_dtype_settle((anf_dtype)o->type->dtype) == d ? o->name : anfi_ox_cast(w, o->name, d);
}

static void add(anfi_flat *w, anfi_ox_inputs *in, const char *name) {
  anfi_push(w->arena, &in->list, name);
}

/* start or stop of a Slice; None is the end that the sign of the step says. */
static const char *bound(anfi_flat *w, const anf_node *n, uint32_t k) {
  enum { STEP = 2 };
  const anf_value *v = attr(w, n, k), *step = attr(w, n, STEP);
  if (!v || v->kind != ANF_VALUE_NONE) return anfi_ox_attr_list(w, n, k);
  if (!step) return (void)anfi_flat_refuse(w, n, "a slice", "whose step is computed"), NULL;
  bool down = anfi_get_i64(step, 0) < 0;
  int64_t x = k == 0 ? (down ? INT64_MAX : 0) : down ? INT64_MIN + 1 : INT64_MAX;
  return anfi_ox_ints(w, 1, &x);
}

static bool slice(anfi_flat *w, const anf_node *n, anfi_ox_inputs *in) {
  enum { START, STOP, STEP, AXIS };
  const char *x[4] = {bound(w, n, START), bound(w, n, STOP), anfi_ox_attr_list(w, n, AXIS),
                      anfi_ox_attr_list(w, n, STEP)};
  for (size_t i = 0; i < 4; i++) {
    if (!x[i]) return false;
    add(w, in, x[i]);
  }
  return true;
}

/* (before, after) of each dim -> all before, then all after */
static bool pads(anfi_flat *w, const anf_node *n, anfi_ox_inputs *in) {
  const anf_value *v = attr(w, n, 0);
  uint32_t rank = n->type->n;
  if (v) {
    int64_t x[2 * ANF_MAX_RANK], y[2 * ANF_MAX_RANK];
    if (anfi_attr_ints(v, 2 * ANF_MAX_RANK, x) != 2 * (size_t)rank)
      return anfi_flat_refuse(w, n, "a Pad", "with one width for several dims");
    for (uint32_t i = 0; i < rank; i++) y[i] = x[2 * i], y[rank + i] = x[2 * i + 1];
    return add(w, in, anfi_ox_ints(w, 2 * rank, y)), true;
  }
  const anfi_out *o = anfi_flat_operand(w, anfi_attr_node(n, 0));
  if (!o) return false;
  if (o->name || o->n != 2 * (size_t)rank)
    return anfi_flat_refuse(w, n, "a Pad", "whose widths are no tuple");
  const char **part = ANFI_NEW_N(w->arena, const char *, 2 * rank + 1);
  for (uint32_t i = 0; i < rank; i++) {
    part[i] = anfi_ox_as_list(w, o->item[2 * i]);
    part[rank + i] = anfi_ox_as_list(w, o->item[2 * i + 1]);
  }
  return add(w, in, joined(w, 2 * rank, part)), true;
}

static bool known_dims(anfi_flat *w, const anf_node *n, size_t count, const int64_t *dims,
                       anfi_ox_inputs *in) {
  for (size_t i = 0; i < count; i++)
    if (dims[i] < 0)
      return anfi_flat_refuse(w, n, "sizes that are not known, of", anfi_op_of(n)->name);
  return add(w, in, anfi_ox_ints(w, count, dims)), true;
}

static bool split_sizes(anfi_flat *w, const anf_node *n, anfi_ox_inputs *in) {
  enum { AXIS = 1 };
  int64_t axis = anfi_get_i64(attr(w, n, AXIS), 0),
          *size = ANFI_NEW_N(w->arena, int64_t, n->type->n + 1);
  for (uint32_t i = 0; i < n->type->n; i++) {
    const anf_type *t = n->type->items[i];
    size[i] = t->dims[axis < 0 ? axis + t->n : axis];
  }
  return known_dims(w, n, n->type->n, size, in);
}

bool anfi_ox_window_inputs(anfi_flat *w, const anf_node *n, const char *word, anfi_ox_inputs *in) {
  switch (word[2]) {
  case 'l': return slice(w, n, in);
  case 'a': return pads(w, n, in);
  case 'i': return split_sizes(w, n, in);
  default: // |resize
    add(w, in, "");
    add(w, in, "");
    return known_dims(w, n, n->type->n, n->type->dims, in);
  }
}

/* ---- windows ---- */

typedef struct {
  size_t rank;
  int64_t kernel[3], stride[3], dilation[3], pads[6], in[3], out[3]; // spatial dims first
} window;

static bool read_window(anfi_flat *w, const anf_node *n, const anfi_window *v, window *out) {
  *out = (window){.rank = v->rank};
  for (size_t i = 0; i < v->rank; i++) {
    size_t k = 3 - v->rank + i;
    out->kernel[i] = v->kernel[k], out->stride[i] = v->stride[k], out->dilation[i] = v->dilation[k];
    out->pads[i] = v->before[k], out->pads[v->rank + i] = v->after[k];
    out->in[i] = v->in[k], out->out[i] = v->out[k];
    if (v->kernel[k] < 0) return anfi_flat_refuse(w, n, "a window", "whose size is not known");
  }
  return true;
}

static bool conv_window(anfi_flat *w, const anf_node *n, anfi_conv *c, window *out) {
  enum { PADDING = 1 };
  anfi_infer q = anfi_export_question(w->cx, w->arena, n);
  const anf_value *padding = attr(w, n, PADDING);
  if (!anfi_conv_plan(&q, c) || !read_window(w, n, &c->win, out)) return false;
  bool same = padding->kind == ANF_VALUE_STRING && padding->u.text[0] == 's';
  for (size_t i = 0; same && i < out->rank; i++)
    if (out->in[i] < 0) return anfi_flat_refuse(w, n, "padding that depends", "on sizes not known");
  return true;
}

static void put_window(anfi_flat *w, const window *v, bool kernel) {
  if (kernel) anfi_ox_attr_ints(w, "kernel_shape", v->rank, v->kernel);
  anfi_ox_attr_ints(w, "strides", v->rank, v->stride);
  anfi_ox_attr_ints(w, "pads", 2 * v->rank, v->pads);
}

static bool put_conv(anfi_flat *w, const anf_node *n) {
  anfi_conv c;
  window v;
  if (!conv_window(w, n, &c, &v)) return false;
  put_window(w, &v, true);
  anfi_ox_attr_ints(w, "dilations", v.rank, v.dilation);
  anfi_ox_attr_int(w, "group", c.groups);
  return true;
}

/* A sliding pool; windows that ceil_mode lets reach further are padded. */
static bool pool_window(anfi_flat *w, const anf_node *n, bool mean, window *out) {
  enum { KERNEL, STRIDE, PADDING, CEIL, DILATION };
  anfi_infer q = anfi_export_question(w->cx, w->arena, n);
  const anf_type *x = q.in[0];
  anfi_window v = {.rank = x->n - 2};
  bool ceil_mode = anfi_attr_bool(q.attr[CEIL]);
  for (size_t k = 0; k < v.rank; k++) v.in[3 - v.rank + k] = x->dims[2 + k];
  anfi_export_sizes(q.attr[KERNEL], v.rank, v.kernel);
  const anf_value *stride =
      q.attr[STRIDE]->kind == ANF_VALUE_NONE ? q.attr[KERNEL] : q.attr[STRIDE];
  if (!anfi_window_plan(&q, &v, stride, q.attr[PADDING], mean ? NULL : q.attr[DILATION], ceil_mode))
    return false;
  if (!read_window(w, n, &v, out)) return false;
  for (size_t i = 0; i < out->rank; i++) {
    int64_t reach = (out->out[i] - 1) * out->stride[i] + (out->kernel[i] - 1) * out->dilation[i] +
                    1 - out->in[i] - out->pads[i];
    bool known = out->in[i] >= 0 && out->out[i] >= 0;
    if (!known && (ceil_mode || q.attr[PADDING]->kind == ANF_VALUE_STRING))
      return anfi_flat_refuse(w, n, "padding that depends", "on sizes not known");
    if (known && ceil_mode && reach > out->pads[out->rank + i]) out->pads[out->rank + i] = reach;
  }
  return true;
}

bool anfi_ox_window_attrs(anfi_flat *w, const anf_node *n, const char *word) {
  window v;
  if (word[1] == 'c') return put_conv(w, n);
  if (!pool_window(w, n, false, &v)) return false;
  put_window(w, &v, true);
  anfi_ox_attr_ints(w, "dilations", v.rank, v.dilation);
  return true;
}

/* ---- pools that are several operators ---- */

static const char *operand(anfi_flat *w, const anf_node *n, uint32_t i, anf_dtype d) {
  const anfi_out *x =
      i < anfi_arg_count(n) ? anfi_flat_operand(w, n->in[i].def) : anfi_out_leaf(w, "", NULL);
  if (!x || !x->name) return NULL;
  bool same = !*x->name || anfi_dtype_settle((anf_dtype)x->type->dtype) == d;
  return same ? x->name : anfi_ox_cast(w, x->name, d);
}

static const char *constant(anfi_flat *w, anf_value *v) {
  const anfi_out *c = anfi_flat_constant(w, v);
  return c ? c->name : NULL;
}

/* Means along dim k are sums over the elements that take part, divided by a count for each mean. Gradients are divided
 * first: an element is the sum of the means that it takes part in. What takes no part is left out by Where, for 0 * inf is
 * no 0. */
typedef struct {
  anf_value *at, *part; // [results, most that take part]; part: [.., 1..]
  anf_value *count;     // [means, 1..]
} taps;

static bool takes_part(const anfi_pool *p, size_t k, bool back, int64_t result, int64_t from) {
  const anfi_span *s = &p->span[k][back ? from : result];
  int64_t i = back ? result : from;
  return i >= s->lo && i < s->hi && (i - s->lo) % p->step[k] == 0;
}

static int64_t most_taps(const anfi_pool *p, size_t k, bool back, int64_t results, int64_t from) {
  int64_t most = 1;
  for (int64_t i = 0; i < results; i++) {
    int64_t n = 0;
    for (int64_t j = 0; j < from; j++) n += takes_part(p, k, back, i, j);
    if (n > most) most = n;
  }
  return most;
}

static anf_value *table(anfi_flat *w, anf_dtype d, size_t rank, const int64_t *dims) {
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_type_tensor(w->cx, d, rank, dims));
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static taps taps_of(anfi_flat *w, const anfi_pool *p, size_t k, bool back, anf_dtype d) {
  int64_t from = back ? p->out[k] : p->in[k], results = back ? p->in[k] : p->out[k];
  int64_t most = most_taps(p, k, back, results, from);
  const int64_t dims[4] = {results, most, 1, 1}, means[3] = {p->out[k], 1, 1};
  taps t = {table(w, ANF_I64, 2, dims), NULL, NULL};
  t.part = table(w, ANF_BOOL, 4 - k, dims);
  t.count = table(w, d, 3 - k, means);
  for (int64_t i = 0; i < results; i++)
    for (int64_t j = 0, n = i * most; j < from; j++) {
      if (!takes_part(p, k, back, i, j)) continue;
      anfi_set_i64(t.at, (size_t)n, j);
      anfi_set_i64(t.part, (size_t)n++, 1);
    }
  for (int64_t o = 0; o < p->out[k]; o++)
    anfi_set_f64(t.count, (size_t)o, p->span[k][o].count ? (double)p->span[k][o].count : 1.0);
  return t;
}

static const char *sums(anfi_flat *w, const char *x, const taps *t, const char *none,
                        int64_t axis) {
  const int64_t summed = axis + 1;
  const char *gathered[2] = {x}, *chosen[3] = {NULL, NULL, none}, *sum[2];
  gathered[1] = constant(w, t->at);
  chosen[0] = constant(w, t->part);
  sum[1] = anfi_ox_ints(w, 1, &summed);
  size_t at = anfi_ox_open(w, "Gather", 2, gathered);
  anfi_ox_attr_int(w, "axis", axis);
  chosen[1] = anfi_ox_close(w, at);
  sum[0] = anfi_ox_put(w, "Where", 3, chosen);
  at = anfi_ox_open(w, "ReduceSum", 2, sum);
  anfi_ox_attr_int(w, "keepdims", 0);
  return anfi_ox_close(w, at);
}

static const char *put_means(anfi_flat *w, const anf_node *n, const anfi_pool *p, bool back) {
  anf_dtype d = (anf_dtype)n->type->dtype, wide = d == ANF_F16 || d == ANF_BF16 ? ANF_F32 : d;
  const char *x = operand(w, n, 0, wide), *none = constant(w, table(w, wide, 0, NULL));
  for (size_t i = 0; x && i < p->rank; i++) {
    taps t = taps_of(w, p, 3 - p->rank + i, back, wide);
    const char *mean[2] = {x};
    if (!back) mean[0] = sums(w, x, &t, none, (int64_t)i + 2);
    mean[1] = constant(w, t.count);
    x = anfi_ox_put(w, "Div", 2, mean);
    if (back) x = sums(w, x, &t, none, (int64_t)i + 2);
  }
  return x && wide != d ? anfi_ox_cast(w, x, d) : x;
}

static const char *means(anfi_flat *w, const anf_node *n, bool back) {
  anfi_infer q = anfi_export_question(w->cx, w->arena, n);
  const anf_type *x = back ? n->type : q.in[0];
  anfi_pool p;
  if (!anfi_pool_plan(&q, x->n - 2, x->dims + 2, true, &p)) return NULL;
  for (size_t k = 0; k < 3; k++)
    if (!p.span[k])
      return (void)anfi_flat_refuse(w, n, "sizes that are not known, of", anfi_op_of(n)->name),
             NULL;
  return put_means(w, n, &p, back);
}

static const char *average(anfi_flat *w, const anf_node *n) {
  enum { CEIL = 3, COUNT };
  window v;
  bool pads_count = anfi_get_i64(attr(w, n, COUNT), 0) != 0;
  if (anfi_get_i64(attr(w, n, CEIL), 0) && pads_count) return means(w, n, false);
  const char *x = operand(w, n, 0, (anf_dtype)n->type->dtype);
  if (!x || !pool_window(w, n, true, &v)) return NULL;
  size_t at = anfi_ox_open(w, "AveragePool", 1, &x);
  put_window(w, &v, true);
  anfi_ox_attr_int(w, "count_include_pad", pads_count);
  return anfi_ox_close(w, at);
}

/* The second output of MaxPool: the numbers of the elements of x, in row-major order. */
static const char *chosen(anfi_flat *w, const anf_node *n) {
  window v;
  const char *x = operand(w, n, 0, (anf_dtype)n->in[0].def->type->dtype);
  if (!x || !pool_window(w, n, false, &v)) return NULL;
  size_t at = anfi_ox_open(w, "MaxPool", 1, &x);
  put_window(w, &v, true);
  anfi_ox_attr_ints(w, "dilations", v.rank, v.dilation);
  anfi_wire_put_text(w->out, 2, anfi_ox_new_name(w));
  return anfi_ox_close(w, at);
}

static const char *flat(anfi_flat *w, const char *x) {
  const int64_t all = -1;
  const char *in[2] = {x, anfi_ox_ints(w, 1, &all)};
  return anfi_ox_put(w, "Reshape", 2, in);
}

/* Are these the numbers 0, 1, ..? So the reader says what the second output is. */
static bool counts_up(const anfi_flat *w, const anf_node *n) {
  while (anfi_is_op(n, ANF_OP_Reshape) || anfi_is_op(n, ANF_OP_Cast)) n = n->in[0].def;
  if (n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR) {
    for (size_t i = 0; i < n->u.value->n; i++)
      if (anfi_get_f64(n->u.value, i) != (double)i) return false;
    return true;
  }
  return anfi_is_op(n, ANF_OP_Arange) && n->nin == 0 && anfi_get_f64(attr(w, n, 0), 0) == 0 &&
         anfi_get_f64(attr(w, n, 2), 0) == 1;
}

static const char *picked(anfi_flat *w, const anf_node *n) {
  anf_dtype d = (anf_dtype)n->type->dtype;
  const char *at = chosen(w, n);
  if (!at) return NULL;
  if (counts_up(w, n->in[1].def)) return anfi_ox_real(w, at, d);
  const char *y = operand(w, n, 1, d);
  if (!y) return NULL;
  const char *in[2] = {flat(w, y), at};
  return anfi_ox_put(w, "Gather", 2, in);
}

/* dy is added to zeros where the elements were chosen. */
static const char *max_gradient(anfi_flat *w, const anf_node *n) {
  anf_dtype d = (anf_dtype)n->type->dtype;
  size_t count;
  const char *at = chosen(w, n), *dy = at ? operand(w, n, 1, d) : NULL;
  if (!dy) return NULL;
  if (!anfi_type_elements(n->type, &count))
    return (void)anfi_flat_refuse(w, n, "sizes that are not known, of", anfi_op_of(n)->name), NULL;
  const int64_t all = (int64_t)count;
  const char *zeros[2] = {anfi_ox_number(w, d, 0), anfi_ox_ints(w, 1, &all)};
  const char *in[3] = {anfi_ox_put(w, "Expand", 2, zeros), flat(w, at), flat(w, dy)};
  size_t node = anfi_ox_open(w, "ScatterElements", 3, in);
  anfi_ox_attr_text(w, "reduction", "add", 3);
  const char *back[2] = {anfi_ox_close(w, node), anfi_ox_ints(w, n->type->n, n->type->dims)};
  return anfi_ox_put(w, "Reshape", 2, back);
}

/* ---- convolutions the other way ---- */

static const char *transposed(anfi_flat *w, const anf_node *n, bool gradient) {
  enum { EXTRA = 4 };
  anfi_conv c;
  window v;
  int64_t extra[3] = {0}, got[3];
  anf_dtype d = (anf_dtype)n->type->dtype;
  const char *in[3] = {operand(w, n, 0, d), operand(w, n, 1, d),
                       gradient ? "" : operand(w, n, 2, d)};
  if (!in[0] || !in[1] || !in[2] || !conv_window(w, n, &c, &v)) return NULL;
  size_t given = gradient ? 0 : anfi_attr_ints(attr(w, n, EXTRA), 3, got);
  for (size_t i = 0; i < v.rank; i++) {
    int64_t least = (v.out[i] - 1) * v.stride[i] + (v.kernel[i] - 1) * v.dilation[i] + 1 -
                    v.pads[i] - v.pads[v.rank + i];
    if (gradient && v.out[i] < 0)
      return (void)anfi_flat_refuse(w, n, "sizes that are not known, of", anfi_op_of(n)->name),
             NULL;
    extra[i] = gradient ? v.in[i] - least : got[given == 1 ? 0 : i];
  }
  size_t at = anfi_ox_open(w, "ConvTranspose", 3, in);
  put_window(w, &v, true);
  anfi_ox_attr_ints(w, "dilations", v.rank, v.dilation);
  anfi_ox_attr_ints(w, "output_padding", v.rank, extra);
  anfi_ox_attr_int(w, "group", c.groups);
  return anfi_ox_close(w, at);
}

static const char *permuted(anfi_flat *w, const char *x, size_t n, const int64_t *perm) {
  size_t at = anfi_ox_open(w, "Transpose", 1, &x);
  anfi_ox_attr_ints(w, "perm", n, perm);
  return anfi_ox_close(w, at);
}

static const char *reshaped(anfi_flat *w, const char *x, int64_t a, int64_t b, size_t rank,
                            const int64_t *size) {
  int64_t dims[6] = {a, b};
  for (size_t i = 0; i < rank; i++) dims[2 + i] = size[i];
  const char *in[2] = {x, anfi_ox_ints(w, rank + 2, dims)};
  return anfi_ox_put(w, "Reshape", 2, in);
}

/* [n, g * c, ..] -> [c, g * n, ..], or [g * c, n, ..]: batch and channels exchanged, group by group */
static const char *exchanged(anfi_flat *w, const char *x, int64_t n, int64_t g, int64_t c,
                             bool groups_first, size_t rank, const int64_t *size) {
  int64_t dims[6] = {n, g, c};
  int64_t perm[6] = {groups_first ? 1 : 2, groups_first ? 2 : 1, 0, 3, 4, 5};
  const int64_t plain[5] = {1, 0, 2, 3, 4};
  if (g == 1) return permuted(w, x, rank + 2, plain);
  for (size_t i = 0; i < rank; i++) dims[3 + i] = size[i];
  const char *in[2] = {x, anfi_ox_ints(w, rank + 3, dims)};
  const char *y = permuted(w, anfi_ox_put(w, "Reshape", 2, in), rank + 3, perm);
  return reshaped(w, y, groups_first ? g * c : c, groups_first ? n : g * n, rank, size);
}

static const char *weight_gradient(anfi_flat *w, const anf_node *n) {
  anfi_conv c;
  window v;
  anf_dtype d = (anf_dtype)n->type->dtype;
  const int64_t plain[5] = {1, 0, 2, 3, 4}, zero[3] = {0}, axes[3] = {2, 3, 4};
  const char *x = operand(w, n, 0, d), *dy = operand(w, n, 1, d);
  if (!x || !dy || !conv_window(w, n, &c, &v)) return NULL;
  bool known = c.n > 0 || c.groups == 1;
  for (size_t i = 0; i < v.rank; i++) known = known && v.in[i] >= 0 && v.out[i] >= 0;
  if (!known)
    return (void)anfi_flat_refuse(w, n, "sizes that are not known, of", anfi_op_of(n)->name), NULL;
  const char *in[2] = {exchanged(w, x, c.n, c.groups, c.ci, false, v.rank, v.in),
                       exchanged(w, dy, c.n, c.groups, c.co, true, v.rank, v.out)};
  size_t at = anfi_ox_open(w, "Conv", 2, in);
  anfi_ox_attr_ints(w, "kernel_shape", v.rank, v.out);
  anfi_ox_attr_ints(w, "strides", v.rank, v.dilation);
  anfi_ox_attr_ints(w, "pads", 2 * v.rank, v.pads);
  anfi_ox_attr_ints(w, "dilations", v.rank, v.stride);
  anfi_ox_attr_int(w, "group", c.groups);
  const char *y = permuted(w, anfi_ox_close(w, at), v.rank + 2, plain);
  const char *cut[4] = {y, anfi_ox_ints(w, v.rank, zero), anfi_ox_ints(w, v.rank, v.kernel),
                        anfi_ox_ints(w, v.rank, axes)};
  return anfi_ox_put(w, "Slice", 4, cut);
}

static const char *window_op(anfi_flat *w, const anf_node *n, bool *taken) {
  *taken = true;
  switch (n->op) {
  case ANF_OP_AvgPool1D:
  case ANF_OP_AvgPool2D:
  case ANF_OP_AvgPool3D: return average(w, n);
  case ANF_OP_AdaptiveAvgPool1D:
  case ANF_OP_AdaptiveAvgPool2D:
  case ANF_OP_AdaptiveAvgPool3D: return means(w, n, false);
  case ANF_OP_AvgPoolGrad:
  case ANF_OP_AdaptiveAvgPoolGrad: return means(w, n, true);
  case ANF_OP_MaxPoolPick: return picked(w, n);
  case ANF_OP_MaxPoolGrad: return max_gradient(w, n);
  case ANF_OP_ConvTranspose1D:
  case ANF_OP_ConvTranspose2D:
  case ANF_OP_ConvTranspose3D: return transposed(w, n, false);
  case ANF_OP_ConvGradInput: return transposed(w, n, true);
  case ANF_OP_ConvGradWeight: return weight_gradient(w, n);
  default: return *taken = false, NULL;
  }
}

bool anfi_ox_window_op(anfi_flat *w, const anf_node *n, const anfi_out **out) {
  bool taken;
  const char *name = window_op(w, n, &taken);
  *out = name ? anfi_out_leaf(w, name, n->type) : NULL;
  return taken;
}
