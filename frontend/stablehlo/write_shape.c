// SPDX-License-Identifier: Apache-2.0
/* Shapes, reductions and sorting.
 *   Sum(x, axis=0)   ->   stablehlo.reduce(%x init: %c0) applies stablehlo.add across dimensions = [0] */
#include "frontend/stablehlo/write.h"
#include "ir/ops/op.h"

/* ---- shapes ---- */

/* The elements of an input in the dims of the result. */
static const anfi_out *reshaped(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  return x ? anfi_sw_reshape(a->w, x, a->n->type->n, a->n->type->dims) : NULL;
}

static const anfi_out *spread(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in_as(a, 0, anfi_sw_result_dtype(a));
  return x ? anfi_sw_broadcast(a->w, x, a->n->type->n, a->n->type->dims) : NULL;
}

static const anfi_out *transposed(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  const anf_value *v = anfi_sw_attr(a, "axes");
  int64_t perm[ANF_MAX_RANK];
  if (!x || !v) return NULL;
  uint32_t n = x->type->n;
  bool given = v->kind != ANF_VALUE_NONE;
  if (given) anfi_attr_ints(v, ANF_MAX_RANK, perm);
  for (uint32_t i = 0; i < n; i++)
    perm[i] = !given ? (int64_t)(n - 1 - i) : perm[i] < 0 ? perm[i] + n : perm[i];
  return anfi_sw_transpose(a->w, x, perm);
}

static const anfi_out *joined(anfi_sw_apply *a) {
  anfi_outs in = {0};
  anfi_flat *w = a->w;
  for (uint32_t i = 0; i < anfi_arg_count(a->n); i++) {
    const anfi_out *x = anfi_sw_in_as(a, i, anfi_sw_result_dtype(a));
    if (!x) return NULL;
    anfi_push(w->arena, &in, x);
  }
  const anf_type *t = anfi_sw_tensor(w, anfi_sw_result_dtype(a), a->n->type->n, a->n->type->dims);
  return anfi_sw_put(w, t, "stablehlo.concatenate %s, dim = %lld : (%s) -> %s",
                     anfi_sw_names(w, &in), (long long)anfi_sw_axis(a, "axis", t->n),
                     anfi_sw_types(w, &in), anfi_sw_type(w, t));
}

static const anfi_out *reversed(anfi_flat *w, const anfi_out *x, size_t n, const int64_t *dims) {
  if (!n) return x;
  return anfi_sw_put(w, x->type, "stablehlo.reverse %s, dims = %s : %s", x->name,
                     anfi_sw_ints(w, n, dims), anfi_sw_type(w, x->type));
}

static const anfi_out *flipped(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  const anf_value *v = anfi_sw_attr(a, "axis");
  int64_t dims[ANF_MAX_RANK];
  if (!x || !v) return NULL;
  bool all = v->kind == ANF_VALUE_NONE;
  size_t n = all ? (size_t)x->type->n : anfi_attr_ints(v, ANF_MAX_RANK, dims);
  for (size_t i = 0; i < n; i++)
    dims[i] = all ? (int64_t)i : dims[i] < 0 ? dims[i] + (int64_t)x->type->n : dims[i];
  return reversed(a->w, x, n, dims);
}

/* One dim cut: start and stop as NumPy takes them. */
static const anfi_out *cut(anfi_flat *w, const anfi_out *x, size_t axis, int64_t from, int64_t to,
                           int64_t step) {
  int64_t start[ANF_MAX_RANK] = {0}, stop[ANF_MAX_RANK], steps[ANF_MAX_RANK];
  for (uint32_t i = 0; i < x->type->n; i++) stop[i] = x->type->dims[i], steps[i] = 1;
  start[axis] = from, stop[axis] = to, steps[axis] = step;
  return anfi_sw_slice(w, x, start, stop, steps);
}

static int64_t clipped(const anf_value *v, int64_t n, int64_t usual, int64_t lo, int64_t hi) {
  if (v->kind == ANF_VALUE_NONE) return usual;
  int64_t i = anfi_get_i64(v, 0);
  i = i < 0 ? i + n : i;
  return i < lo ? lo : i > hi ? hi : i;
}

/* A step below 0 is a slice of the reversed tensor. */
static const anfi_out *sliced(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  const anf_value *from = anfi_sw_attr(a, "start"), *to = anfi_sw_attr(a, "stop"),
                  *by = anfi_sw_attr(a, "step");
  if (!x) return NULL;
  if (!from || !to || !by)
    return (void)anfi_flat_refuse(a->w, a->n, "a slice", "whose bounds are computed"), NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n), n = x->type->dims[axis],
          step = anfi_get_i64(by, 0);
  if (step > 0) {
    int64_t start = clipped(from, n, 0, 0, n), stop = clipped(to, n, n, 0, n);
    return cut(a->w, x, (size_t)axis, start, stop < start ? start : stop, step);
  }
  int64_t start = n - 1 - clipped(from, n, n - 1, -1, n - 1),
          stop = n - 1 - clipped(to, n, -1, -1, n - 1);
  return cut(a->w, reversed(a->w, x, 1, &axis), (size_t)axis, start, stop < start ? start : stop,
             -step);
}

static const anfi_out *parts(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  const anf_value *v = anfi_sw_attr(a, "sections");
  if (!x || !v) return NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n), n = x->type->dims[axis],
          cuts[ANF_MAX_RANK * 64];
  uint32_t count = a->n->type->n;
  if (count > ANFI_LEN(cuts))
    return (void)anfi_flat_refuse(a->w, a->n, "so many parts of", "Split"), NULL;
  bool equal = v->kind == ANF_VALUE_TENSOR && v->n == 1;
  if (!equal) anfi_attr_ints(v, ANFI_LEN(cuts), cuts);
  const anfi_out **item = ANFI_NEW_N(a->w->arena, const anfi_out *, count + 1);
  int64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t end = equal ? at + a->n->type->items[i]->dims[axis] : i + 1 < count ? cuts[i] : n;
    end = end < 0 ? end + n : end > n ? n : end;
    item[i] = cut(a->w, x, (size_t)axis, at, end < at ? at : end, 1);
    at = end;
  }
  return anfi_out_tuple(a->w, count, item);
}

static const anfi_out *number_attr(anfi_sw_apply *a, const char *name, anf_dtype d) {
  const anf_value *v = anfi_sw_attr(a, name);
  if (!v || v->kind != ANF_VALUE_TENSOR || v->n != 1)
    return (void)anfi_flat_refuse(a->w, a->n, "an attribute that is computed:", name), NULL;
  anf_value *c = anfi_value_cast((anf_value *)(uintptr_t)v, d);
  anfi_defer(a->w->cx, ANFI_ALWAYS, anfi_release, c);
  return anfi_dtype_is_int(d) ? anfi_sw_int(a->w, d, anfi_get_i64(c, 0))
                              : anfi_sw_number(a->w, d, anfi_get_f64(c, 0));
}

static const anfi_out *put_pad(anfi_flat *w, const anfi_out *x, const anfi_out *v,
                               const anf_type *t, const int64_t *low, const int64_t *high) {
  const int64_t none[ANF_MAX_RANK] = {0};
  return anfi_sw_put(
      w, t, "stablehlo.pad %s, %s, low = %s, high = %s, interior = %s : (%s, %s) -> %s", x->name,
      v->name, anfi_sw_ints(w, t->n, low), anfi_sw_ints(w, t->n, high), anfi_sw_ints(w, t->n, none),
      anfi_sw_type(w, x->type), anfi_sw_type(w, v->type), anfi_sw_type(w, t));
}

static const anfi_out *padded(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *v = x ? number_attr(a, "value", d) : NULL;
  const anf_value *p = anfi_sw_attr(a, "pad_width"), *mode = anfi_sw_attr(a, "mode");
  int64_t width[2 * ANF_MAX_RANK], low[ANF_MAX_RANK], high[ANF_MAX_RANK];
  if (!v || !p) return NULL;
  uint32_t n = x->type->n;
  size_t given = anfi_attr_ints(p, ANFI_LEN(width), width);
  if (mode->n != 8 || (given != 2 * (size_t)n && given > 2))
    return (void)anfi_flat_refuse(a->w, a->n, "the mode of", "Pad"), NULL;
  for (uint32_t i = 0; i < n; i++) {
    low[i] = given == 1 ? width[0] : given == 2 ? width[0] : width[2 * i];
    high[i] = given == 1 ? width[0] : given == 2 ? width[1] : width[2 * i + 1];
  }
  return put_pad(a->w, x, v, anfi_sw_tensor(a->w, d, n, a->n->type->dims), low, high);
}

/* start + iota * step, in the type that counts exactly */
static const anfi_out *counted(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a), by = anfi_dtype_is_int(d) ? d : ANF_F64;
  anfi_flat *w = a->w;
  const anf_type *t = anfi_sw_tensor(w, by, 1, a->n->type->dims);
  const anfi_out *first = number_attr(a, "start", by),
                 *step = first ? number_attr(a, "step", by) : NULL;
  if (!step) return NULL;
  const anfi_out *i = anfi_sw_iota(w, t, 0);
  const anfi_out *m =
      anfi_sw_binary(w, "stablehlo.multiply", i, anfi_sw_broadcast(w, step, 1, t->dims));
  const anfi_out *x =
      anfi_sw_binary(w, "stablehlo.add", m, anfi_sw_broadcast(w, first, 1, t->dims));
  return anfi_sw_cast(w, x, d);
}

static const anfi_out *dims_of(anfi_sw_apply *a) {
  const anf_type *x = anfi_flat_type_of(a->n->in[0].def);
  const anfi_out **item = ANFI_NEW_N(a->w->arena, const anfi_out *, ANF_MAX_RANK);
  for (uint32_t i = 0; i < x->n; i++) item[i] = anfi_sw_int(a->w, ANF_I64, x->dims[i]);
  return anfi_out_tuple(a->w, x->n, item);
}

/* ---- reductions ---- */

const anfi_out *anfi_sw_reduce(anfi_flat *w, const anfi_out *x, const char *op,
                               const anfi_out *init, const anf_type *t, size_t n,
                               const int64_t *dims) {
  if (!n) return x;
  return anfi_sw_put(
      w, t,
      "stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = %s : (%s, %s) -> %s",
      x->name, init->name, op, anfi_sw_ints(w, n, dims), anfi_sw_type(w, x->type),
      anfi_sw_type(w, init->type), anfi_sw_type(w, t));
}

static size_t axes_of(const anfi_sw_apply *a, size_t rank, int64_t *dims) {
  const anf_value *v = anfi_sw_attr(a, "axis");
  bool gone[ANF_MAX_RANK] = {false};
  int64_t given[ANF_MAX_RANK];
  size_t n = 0, k = v->kind == ANF_VALUE_NONE ? 0 : anfi_attr_ints(v, ANF_MAX_RANK, given);
  for (size_t i = 0; i < k; i++) gone[given[i] < 0 ? given[i] + (int64_t)rank : given[i]] = true;
  for (size_t i = 0; i < rank; i++)
    if (gone[i] || v->kind == ANF_VALUE_NONE) dims[n++] = (int64_t)i;
  return n;
}

static const anfi_out *reduced(anfi_sw_apply *a, const char *op, const anfi_out *x,
                               const anfi_out *init) {
  int64_t dims[ANF_MAX_RANK], left[ANF_MAX_RANK];
  size_t n = axes_of(a, x->type->n, dims), k = 0, m = 0;
  for (size_t i = 0; i < x->type->n; i++) {
    if (k < n && dims[k] == (int64_t)i) k++;
    else left[m++] = x->type->dims[i];
  }
  const anf_type *t = anfi_sw_tensor(a->w, (anf_dtype)x->type->dtype, m, left);
  const anfi_out *y = anfi_sw_reduce(a->w, x, op, init, t, n, dims);
  return anfi_sw_reshape(a->w, y, a->n->type->n, a->n->type->dims);
}

static const anfi_out *reduction(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  bool truth = a->n->op == ANF_OP_All || a->n->op == ANF_OP_Any;
  anf_dtype d = truth ? ANF_BOOL : anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d);
  if (!x) return NULL;
  switch (a->n->op) {
  case ANF_OP_All: return reduced(a, "and", x, anfi_sw_number(w, d, 1));
  case ANF_OP_Any: return reduced(a, "or", x, anfi_sw_number(w, d, 0));
  case ANF_OP_Max: return reduced(a, "maximum", x, anfi_sw_limit(w, d, true));
  case ANF_OP_Min: return reduced(a, "minimum", x, anfi_sw_limit(w, d, false));
  case ANF_OP_Prod: return reduced(a, "multiply", x, anfi_sw_number(w, d, 1));
  default: return reduced(a, "add", x, anfi_sw_number(w, d, 0));
  }
}

/* A window of all elements up to this one. */
static const anfi_out *running(anfi_sw_apply *a, const char *op, const anfi_out *x,
                               const anfi_out *init, int64_t axis, bool reverse) {
  int64_t window[ANF_MAX_RANK], pads[2 * ANF_MAX_RANK] = {0};
  anfi_flat *w = a->w;
  uint32_t n = x->type->n;
  for (uint32_t i = 0; i < n; i++) window[i] = 1;
  window[axis] = x->type->dims[axis] ? x->type->dims[axis] : 1;
  pads[2 * axis + reverse] = window[axis] - 1;
  const char *element = anfi_sw_type(w, init->type), *t = anfi_sw_type(w, x->type), *p = "";
  for (uint32_t i = 0; i < n; i++)
    p = anfi_sprintf(w->arena, "%s%s[%lld, %lld]", p, i ? ", " : "", (long long)pads[2 * i],
                     (long long)pads[2 * i + 1]);
  const char *l = anfi_sw_new_name(w), *r = anfi_sw_new_name(w), *s = anfi_sw_new_name(w),
             *name = anfi_sw_new_name(w);
  anfi_sw_line(w,
               "%s = \"stablehlo.reduce_window\"(%s, %s) <{padding = dense<[%s]> : "
               "tensor<%ux2xi64>, window_dimensions = %s}> ({",
               name, x->name, init->name, p, n, anfi_sw_array(w, n, window));
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s):", l, element, r, element);
  anfi_sw_line(w, "  %s = stablehlo.%s %s, %s : %s", s, op, l, r, element);
  anfi_sw_line(w, "  stablehlo.return %s : %s", s, element);
  anfi_sw_line(w, "}) : (%s, %s) -> %s", t, element, t);
  return anfi_out_leaf(w, name, x->type);
}

/* For an exclusive scan: x shifted by one element, with the initial value in the gap. */
static const anfi_out *moved_on(anfi_flat *w, const anfi_out *x, const anfi_out *init, int64_t axis,
                                bool reverse) {
  int64_t low[ANF_MAX_RANK] = {0}, high[ANF_MAX_RANK] = {0};
  low[axis] = reverse ? -1 : 1, high[axis] = -low[axis];
  return put_pad(w, x, init, x->type, low, high);
}

static const anfi_out *cumulated(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d);
  bool reverse = anfi_sw_true(a, "reverse"), sum = a->n->op == ANF_OP_CumSum,
       product = a->n->op == ANF_OP_CumProd, most = a->n->op == ANF_OP_CumMax;
  if (!x) return NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n);
  if (axis < 0) x = anfi_sw_reshape(w, x, 1, a->n->type->dims), axis = 0;
  if (x->type->dims[axis] == 0) return x;
  const anfi_out *init = sum || product ? anfi_sw_number(w, d, product) : anfi_sw_limit(w, d, most);
  const char *op = sum ? "add" : product ? "multiply" : most ? "maximum" : "minimum";
  if ((sum || product) && anfi_sw_true(a, "exclusive")) x = moved_on(w, x, init, axis, reverse);
  return running(a, op, x, init, axis, reverse);
}

/* ---- sorting: elements and their numbers together, NaN last in both orders ---- */

static const anfi_out *nan_of(anfi_flat *w, const anfi_out *x) {
  return anfi_sw_compare(w, "NE", x, x);
}

/* The lines of a comparator's region. */
static void put_order(anfi_flat *w, const anf_type *element, bool down) {
  const anfi_out *l = anfi_out_leaf(w, anfi_sw_new_name(w), element),
                 *r = anfi_out_leaf(w, anfi_sw_new_name(w), element);
  const char *i = anfi_sw_new_name(w), *j = anfi_sw_new_name(w), *t = anfi_sw_type(w, element);
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s, %s: tensor<i64>, %s: tensor<i64>):", l->name, t, r->name, t,
               i, j);
  anfi_sw_own_of(w)->indent++;
  const anfi_out *first = anfi_sw_compare(w, down ? "GT" : "LT", l, r);
  if (anfi_dtype_is_float((anf_dtype)element->dtype)) {
    const anfi_out *one = anfi_sw_unary(w, "stablehlo.not", nan_of(w, l));
    const anfi_out *both = anfi_sw_binary(w, "stablehlo.and", one, nan_of(w, r));
    first = anfi_sw_binary(w, "stablehlo.or", first, both);
  }
  anfi_sw_line(w, "stablehlo.return %s : tensor<i1>", first->name);
  anfi_sw_own_of(w)->indent--;
}

/* (values, numbers), sorted along an axis */
static void sorted(anfi_flat *w, const anfi_out *x, int64_t axis, bool down,
                   const anfi_out *both[2]) {
  const anf_type *at = anfi_sw_tensor(w, ANF_I64, x->type->n, x->type->dims);
  const anfi_out *number = anfi_sw_iota(w, at, (size_t)axis);
  const char *name = anfi_sw_new_name(w), *s = anfi_sw_type(w, x->type), *t = anfi_sw_type(w, at);
  anfi_sw_line(w,
               "%s:2 = \"stablehlo.sort\"(%s, %s) <{dimension = %lld : i64, is_stable = true}> ({",
               name, x->name, number->name, (long long)axis);
  put_order(w, anfi_sw_tensor(w, (anf_dtype)x->type->dtype, 0, NULL), down);
  anfi_sw_line(w, "}) : (%s, %s) -> (%s, %s)", s, t, s, t);
  both[0] = anfi_out_leaf(w, anfi_sprintf(w->arena, "%s#0", name), x->type);
  both[1] = anfi_out_leaf(w, anfi_sprintf(w->arena, "%s#1", name), at);
}

static const anfi_out *in_order(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0), *both[2];
  anfi_flat *w = a->w;
  bool top = a->n->op == ANF_OP_TopK, down = anfi_sw_true(a, top ? "largest" : "descending");
  if (!x) return NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n);
  if (x->type->n == 0) return a->n->op == ANF_OP_ArgSort ? anfi_sw_int(w, ANF_I64, 0) : x;
  sorted(w, x, axis, down, both);
  if (!top) return both[a->n->op == ANF_OP_ArgSort];
  const anf_type *t = a->n->type->items[0];
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, 2);
  for (size_t i = 0; i < 2; i++) item[i] = cut(w, both[i], (size_t)axis, 0, t->dims[axis], 1);
  return anfi_out_tuple(w, 2, item);
}

const anfi_out *anfi_sw_shape_op(anfi_sw_apply *a, bool *taken) {
  *taken = true;
  switch (a->n->op) {
  case ANF_OP_Reshape:
  case ANF_OP_ExpandDims:
  case ANF_OP_Squeeze:
  case ANF_OP_Flatten: return reshaped(a);
  case ANF_OP_BroadcastTo:
  case ANF_OP_Full: return spread(a);
  case ANF_OP_Transpose: return transposed(a);
  case ANF_OP_Concat: return joined(a);
  case ANF_OP_Flip: return flipped(a);
  case ANF_OP_Slice: return sliced(a);
  case ANF_OP_Split: return parts(a);
  case ANF_OP_Pad: return padded(a);
  case ANF_OP_Arange: return counted(a);
  case ANF_OP_Shape: return dims_of(a);
  case ANF_OP_All:
  case ANF_OP_Any:
  case ANF_OP_Max:
  case ANF_OP_Min:
  case ANF_OP_Prod:
  case ANF_OP_Sum: return reduction(a);
  case ANF_OP_CumSum:
  case ANF_OP_CumProd:
  case ANF_OP_CumMax:
  case ANF_OP_CumMin: return cumulated(a);
  case ANF_OP_Sort:
  case ANF_OP_ArgSort:
  case ANF_OP_TopK: return in_order(a);
  default: return *taken = false, NULL;
  }
}
