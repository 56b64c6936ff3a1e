// SPDX-License-Identifier: Apache-2.0
/* Reductions, running sums and linear recurrences.
 *
 *     Sum(f32[2,3], axis=1)  ->  f32[2]     keepdims: f32[2,1]     axis None: all axes, (): none
 *
 * ORDER: elements are taken one after the other in row-major order. Floats of every width are summed in
 * double and rounded once at the end; integers wrap in 64 bits. */
#include <math.h>

#include "ir/ops/kernel.h"

/* ---- inference ---- */

uint32_t anfi_reduced_axes(const anf_value *axis, size_t rank) {
  return anfi_attr_given(axis) ? anfi_axes_mask(axis, rank) : (UINT32_C(1) << rank) - 1;
}

/* Sets the result of reducing t; attributes 0 and 1 are axis and keepdims. */
static bool reduced_type(anfi_infer *q, const anf_type *t, anf_dtype d, bool needs_elements) {
  uint32_t mask = (UINT32_C(1) << t->n) - 1;
  if (anfi_attr_given(q->attr[0]) && !anfi_infer_axes(q, q->attr[0], t->n, &mask)) return false;
  bool keep = anfi_attr_bool(q->attr[1]), empty = false, none = false;
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  for (size_t k = 0; k < t->n; k++) {
    bool gone = mask >> k & 1;
    if (t->dims[k] == 0) *(gone ? &empty : &none) = true;
    if (!gone || keep) dims[rank++] = gone ? 1 : t->dims[k];
  }
  if (needs_elements && empty && !none)
    return anfi_infer_fail(q, "there is no element to choose from");
  return anfi_infer_result(q, d, rank, dims);
}

static bool reduced(anfi_infer *q, anf_dtype d, bool needs_elements) {
  return reduced_type(q, q->in[0], d, needs_elements);
}

static bool real_argument(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  anfi_class c = anfi_dtype_class((anf_dtype)q->in[0]->dtype);
  if (c < ANFI_CLASS_COMPLEX) return true;
  return anfi_infer_bad_dtype(q, (anf_dtype)q->in[0]->dtype);
}

static bool number_argument(anfi_infer *q) {
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != ANF_KEY) return true;
  return anfi_infer_bad_dtype(q, ANF_KEY);
}

/* Sums of narrow integers are 64 bits wide, as NumPy's. */
static anf_dtype sum_dtype(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_BOOL: return ANF_I64;
  case ANFI_CLASS_SIGNED: return d == ANF_INT ? ANF_INT : ANF_I64;
  case ANFI_CLASS_UNSIGNED: return ANF_U64;
  default: return d;
  }
}

static anf_dtype mean_dtype(anf_dtype d) {
  if (anfi_dtype_class(d) >= ANFI_CLASS_FLOAT) return d;
  return d == ANF_INT ? ANF_FLOAT : ANF_F64;
}

bool anfi_infer_sum(anfi_infer *q) {
  return number_argument(q) && reduced(q, sum_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_mean(anfi_infer *q) {
  return number_argument(q) && reduced(q, mean_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_spread(anfi_infer *q) {
  return real_argument(q) && reduced(q, mean_dtype((anf_dtype)q->in[0]->dtype), false);
}

bool anfi_infer_extreme(anfi_infer *q) {
  return real_argument(q) && reduced(q, (anf_dtype)q->in[0]->dtype, true);
}

bool anfi_infer_arg_extreme(anfi_infer *q) { return real_argument(q) && reduced(q, ANF_I64, true); }

bool anfi_infer_any_all(anfi_infer *q) { return number_argument(q) && reduced(q, ANF_BOOL, false); }

/* Attribute 0 is the axis; None runs over all elements in row-major order. */
static bool running(anfi_infer *q, anf_dtype d) {
  const anf_type *t = q->in[0];
  size_t axis;
  if (anfi_attr_given(q->attr[0]))
    return anfi_infer_axis(q, q->attr[0], t->n, &axis) && anfi_infer_result(q, d, t->n, t->dims);
  int64_t n = 1;
  for (size_t k = 0; k < t->n && n >= 0; k++) n = t->dims[k] < 0 ? ANF_DIM_UNKNOWN : n * t->dims[k];
  return anfi_infer_result(q, d, 1, &n);
}

bool anfi_infer_cumsum(anfi_infer *q) {
  return number_argument(q) && running(q, sum_dtype((anf_dtype)q->in[0]->dtype));
}

bool anfi_infer_cummax(anfi_infer *q) {
  return real_argument(q) && running(q, (anf_dtype)q->in[0]->dtype);
}

/* x broadcast from `like`, summed back to its shape. */
bool anfi_infer_sum_to(anfi_infer *q) {
  if (!number_argument(q)) return false;
  const anf_type *x = q->in[0], *to = q->in[1];
  if (to->n > x->n) return anfi_infer_fail(q, "the second argument has more dims than the first");
  for (size_t k = 0; k < to->n; k++) {
    int64_t have = x->dims[x->n - to->n + k], want = to->dims[k];
    if (have != want && want != 1 && have >= 0 && want >= 0)
      return anfi_infer_no_broadcast(q, x, to);
  }
  return anfi_infer_result(q, (anf_dtype)x->dtype, to->n, to->dims);
}

/* y is the result of reducing `like`; the result has the shape of `like`. */
bool anfi_infer_unreduce(anfi_infer *q) {
  const anf_type *y = q->in[0], *like = q->in[1];
  if (!number_argument(q) || !reduced_type(q, like, (anf_dtype)y->dtype, false)) return false;
  bool fits = y->n == q->out->n;
  for (size_t k = 0; fits && k < y->n; k++)
    fits = y->dims[k] == q->out->dims[k] || y->dims[k] < 0 || q->out->dims[k] < 0;
  if (!fits)
    return anfi_fail(q->cx, q->loc, ANF_E0546, (size_t)1, anfi_op[q->op].name,
                     anfi_type_text(q->cx, q->out), anfi_type_text(q->cx, y));
  return anfi_infer_result(q, (anf_dtype)y->dtype, like->n, like->dims);
}

/* ---- evaluation: groups of elements ---- */

typedef struct elements { // of one group
  const void *data;       // double, uint64_t or pairs of double
  const anfi_groups *g;
  size_t base;
  anf_dtype dtype;
} elements;

static double real_at(const elements *e, size_t k) {
  return ((const double *)e->data)[e->base + e->g->at[k]];
}
static uint64_t int_at(const elements *e, size_t k) {
  return ((const uint64_t *)e->data)[e->base + e->g->at[k]];
}
static const double *pair_at(const elements *e, size_t k) {
  return (const double *)e->data + 2 * (e->base + e->g->at[k]);
}

static bool int_less(anf_dtype d, uint64_t a, uint64_t b) {
  return anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED ? a < b : (int64_t)a < (int64_t)b;
}

static double real_sum(const elements *e) {
  double s = 0;
  for (size_t k = 0; k < e->g->size; k++) s += real_at(e, k);
  return s;
}

static void sum(const elements *e, anf_value *v, size_t i, double divisor) {
  anfi_wide w = anfi_wide_of(e->dtype);
  if (w == ANFI_WIDE_REAL) anfi_set_f64(v, i, real_sum(e) / divisor);
  else if (w == ANFI_WIDE_COMPLEX) {
    double re = 0, im = 0;
    for (size_t k = 0; k < e->g->size; k++) re += pair_at(e, k)[0], im += pair_at(e, k)[1];
    anfi_set_f64(v, 2 * i, re / divisor);
    anfi_set_f64(v, 2 * i + 1, im / divisor);
  } else {
    uint64_t s = 0;
    for (size_t k = 0; k < e->g->size; k++) s += int_at(e, k);
    anfi_set_i64(v, i, (int64_t)s);
  }
}

static void prod(const elements *e, anf_value *v, size_t i) {
  anfi_wide w = anfi_wide_of(e->dtype);
  double p = 1, re = 1, im = 0;
  uint64_t n = 1;
  for (size_t k = 0; k < e->g->size; k++) {
    if (w == ANFI_WIDE_REAL) p *= real_at(e, k);
    else if (w == ANFI_WIDE_INT) n *= int_at(e, k);
    else {
      const double *z = pair_at(e, k);
      double r = re * z[0] - im * z[1];
      im = re * z[1] + im * z[0];
      re = r;
    }
  }
  if (w == ANFI_WIDE_REAL) anfi_set_f64(v, i, p);
  else if (w == ANFI_WIDE_INT) anfi_set_i64(v, i, (int64_t)n);
  else anfi_set_f64(v, 2 * i, re), anfi_set_f64(v, 2 * i + 1, im);
}

/* Position of the greatest (or least) element, the first of equals; a NaN beats all. */
static size_t extreme(const elements *e, bool greatest) {
  size_t best = 0;
  bool real = anfi_wide_of(e->dtype) == ANFI_WIDE_REAL;
  for (size_t k = 1; k < e->g->size; k++) {
    if (real) {
      double a = real_at(e, best), b = real_at(e, k);
      if (isnan(a)) break;
      if (isnan(b) || (greatest ? b > a : b < a)) best = k;
    } else {
      uint64_t a = int_at(e, best), b = int_at(e, k);
      if (greatest ? int_less(e->dtype, a, b) : int_less(e->dtype, b, a)) best = k;
    }
  }
  return best;
}

/* Sum of squared distances from the mean; two passes. */
static double squares(const elements *e) {
  double n = (double)e->g->size, mean = real_sum(e) / n, s = 0;
  for (size_t k = 0; k < e->g->size; k++) s += (real_at(e, k) - mean) * (real_at(e, k) - mean);
  return s;
}

static double log_sum_exp(const elements *e) {
  if (!e->g->size) return -INFINITY;
  double top = real_at(e, extreme(e, true)), s = 0;
  if (!isfinite(top)) return top; // all -inf, or some inf or NaN
  for (size_t k = 0; k < e->g->size; k++) s += exp(real_at(e, k) - top);
  return top + log(s);
}

static bool is_true(const elements *e, size_t k) {
  switch (anfi_wide_of(e->dtype)) {
  case ANFI_WIDE_REAL: return real_at(e, k) != 0;
  case ANFI_WIDE_INT: return int_at(e, k) != 0;
  default: return pair_at(e, k)[0] != 0 || pair_at(e, k)[1] != 0;
  }
}

static bool any(const elements *e, bool wanted) {
  for (size_t k = 0; k < e->g->size; k++)
    if (is_true(e, k) == wanted) return true;
  return false;
}

/* dispatch */
static void reduce(const anfi_eval *q, const elements *e, size_t i) {
  double n = (double)e->g->size,
         ddof = q->op == ANF_OP_Var || q->op == ANF_OP_Std ? anfi_attr_float(q->attr[2]) : 0;
  double left = n > ddof ? n - ddof : 0;
  switch (q->op) {
  case ANF_OP_Sum: sum(e, q->out, i, 1); break;
  case ANF_OP_Mean: sum(e, q->out, i, n); break;
  case ANF_OP_Prod: prod(e, q->out, i); break;
  case ANF_OP_Max:
  case ANF_OP_Min:
    anfi_copy_element(q->out, i, q->in[0], e->base + e->g->at[extreme(e, q->op == ANF_OP_Max)]);
    break;
  case ANF_OP_ArgMax:
  case ANF_OP_ArgMin: anfi_set_i64(q->out, i, (int64_t)extreme(e, q->op == ANF_OP_ArgMax)); break;
  case ANF_OP_Any: anfi_set_i64(q->out, i, any(e, true)); break;
  case ANF_OP_All: anfi_set_i64(q->out, i, !any(e, false)); break;
  case ANF_OP_Var: anfi_set_f64(q->out, i, squares(e) / left); break;
  case ANF_OP_Std: anfi_set_f64(q->out, i, sqrt(squares(e) / left)); break;
  default: anfi_set_f64(q->out, i, log_sum_exp(e)); break; // LogSumExp
  }
}

static void *load(const anfi_eval *q, anf_dtype *d) {
  *d = (anf_dtype)q->in[0]->type->dtype;
  if (anfi_op[q->op].flags & ANFI_REALS && anfi_wide_of(*d) == ANFI_WIDE_INT) *d = ANF_F64;
  return anfi_wide_of(*d) == ANFI_WIDE_REAL ? anfi_load_f64(q->scratch, q->in[0])
                                            : anfi_load(q->scratch, q->in[0], anfi_wide_of(*d));
}

bool anfi_eval_reduce(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  anfi_groups g = anfi_groups_of(q->scratch, t, anfi_reduced_axes(q->attr[0], t->n));
  elements e = {.g = &g};
  e.data = load(q, &e.dtype);
  for (size_t i = 0; i < g.count; i++) {
    e.base = g.base[i];
    reduce(q, &e, i);
  }
  return true;
}

/* ---- evaluation: running sums ---- */

typedef struct run_state {
  double f, im;
  uint64_t n;
} run_state;

static void step_real(anfi_opcode op, run_state *s, double x) {
  if (op == ANF_OP_CumSum) s->f += x;
  else if (op == ANF_OP_CumProd) s->f *= x;
  else if (isnan(x) || (op == ANF_OP_CumMax ? x > s->f : x < s->f)) s->f = isnan(s->f) ? s->f : x;
}

static void step_int(anfi_opcode op, anf_dtype d, run_state *s, uint64_t x) {
  if (op == ANF_OP_CumSum) s->n += x;
  else if (op == ANF_OP_CumProd) s->n *= x;
  else if (op == ANF_OP_CumMax ? int_less(d, s->n, x) : int_less(d, x, s->n)) s->n = x;
}

static void step_complex(anfi_opcode op, run_state *s, const double *z) {
  if (op == ANF_OP_CumSum) {
    s->f += z[0], s->im += z[1];
    return;
  }
  double re = s->f * z[0] - s->im * z[1];
  s->im = s->f * z[1] + s->im * z[0];
  s->f = re;
}

static void set(anf_value *v, size_t i, anfi_wide w, const run_state *s) {
  if (w == ANFI_WIDE_INT) anfi_set_i64(v, i, (int64_t)s->n);
  else if (w == ANFI_WIDE_REAL) anfi_set_f64(v, i, s->f);
  else anfi_set_f64(v, 2 * i, s->f), anfi_set_f64(v, 2 * i + 1, s->im);
}

/* One line of elements. Exclusive leaves out the element itself. */
static void run_along(const anfi_eval *q, const elements *e, bool reverse, bool exclusive) {
  anfi_wide w = anfi_wide_of(e->dtype);
  run_state s = {.f = q->op == ANF_OP_CumProd ? 1 : 0, .n = q->op == ANF_OP_CumProd};
  for (size_t j = 0; j < e->g->size; j++) {
    size_t k = reverse ? e->g->size - 1 - j : j, to = e->base + e->g->at[k];
    if (exclusive) set(q->out, to, w, &s);
    if (j == 0) { // so that a first -0.0 stays one
      if (w == ANFI_WIDE_REAL) s.f = real_at(e, k);
      else if (w == ANFI_WIDE_INT) s.n = int_at(e, k);
      else s.f = pair_at(e, k)[0], s.im = pair_at(e, k)[1];
    } else if (w == ANFI_WIDE_REAL) step_real(q->op, &s, real_at(e, k));
    else if (w == ANFI_WIDE_INT) step_int(q->op, e->dtype, &s, int_at(e, k));
    else step_complex(q->op, &s, pair_at(e, k));
    if (!exclusive) set(q->out, to, w, &s);
  }
}

bool anfi_eval_cumulate(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  bool sums = q->op == ANF_OP_CumSum || q->op == ANF_OP_CumProd;
  anfi_groups g = anfi_groups_of(q->scratch, t, anfi_reduced_axes(q->attr[0], t->n));
  elements e = {.g = &g};
  e.data = load(q, &e.dtype);
  for (size_t i = 0; i < g.count; i++) {
    e.base = g.base[i];
    run_along(q, &e, anfi_attr_bool(q->attr[1]), sums && anfi_attr_bool(q->attr[2]));
  }
  return true;
}

/* ---- SumTo, Unreduce ---- */

bool anfi_eval_sum_to(anfi_eval *q) {
  const anf_type *t = q->in[0]->type;
  uint32_t mask = 0;
  if (t == q->type) { // nothing to sum: also -0.0 stays
    for (size_t i = 0; i < q->out->n; i++) anfi_copy_element(q->out, i, q->in[0], i);
    return true;
  }
  for (size_t k = 0; k < t->n; k++) {
    size_t lead = t->n - q->type->n;
    if (k < lead || (q->type->dims[k - lead] == 1 && t->dims[k] != 1)) mask |= UINT32_C(1) << k;
  }
  anfi_groups g = anfi_groups_of(q->scratch, t, mask);
  elements e = {.g = &g};
  e.data = load(q, &e.dtype);
  for (size_t i = 0; i < g.count; i++) {
    e.base = g.base[i];
    sum(&e, q->out, i, 1);
  }
  return true;
}

bool anfi_eval_unreduce(anfi_eval *q) {
  if (!q->out->n) return true;
  const anf_type *t = q->in[1]->type;
  anfi_groups g = anfi_groups_of(q->scratch, t, anfi_reduced_axes(q->attr[0], t->n));
  for (size_t i = 0; i < g.count; i++)
    for (size_t k = 0; k < g.size; k++) anfi_copy_element(q->out, g.base[i] + g.at[k], q->in[0], i);
  return true;
}

/* ---- LinearScan: y_i = b_i + a_i * y_before ---- */

static void scan_complex(double *y, const double *a, const double *b, const double *before) {
  double re = before ? a[0] * before[0] - a[1] * before[1] : 0,
         im = before ? a[0] * before[1] + a[1] * before[0] : 0;
  y[0] = b[0] + re;
  y[1] = b[1] + im;
}

bool anfi_infer_linear_scan(anfi_infer *q) { // a b; attributes axis reverse
  anf_dtype d;
  size_t axis;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (d == ANF_BOOL) return anfi_infer_bad_dtype(q, d);
  const anf_type *a = q->in[0];
  if (!anfi_infer_axis(q, q->attr[0], a->n, &axis) || !anfi_infer_shape_is(q, 1, a->n, a->dims))
    return false;
  return anfi_infer_result(q, d, a->n, a->dims);
}

bool anfi_eval_linear_scan(anfi_eval *q) {
  size_t outer, n, inner, axis = 0;
  anfi_wide w = anfi_wide_of((anf_dtype)q->type->dtype);
  if (!q->out->n) return true;
  anf_value *in[2] = {anfi_value_cast(q->in[0], (anf_dtype)q->type->dtype), NULL};
  anfi_release_later(in[0]);
  in[1] = anfi_value_cast(q->in[1], (anf_dtype)q->type->dtype);
  anfi_release_later(in[1]);
  void *a = anfi_load(q->scratch, in[0], w), *b = anfi_load(q->scratch, in[1], w);
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &n, &inner);
  bool back = anfi_attr_bool(q->attr[1]);
  for (size_t o = 0; o < outer; o++)
    for (size_t j = 0; j < inner; j++)
      for (size_t i = 0, before = 0; i < n; i++) { // b becomes y
        size_t at = (o * n + (back ? n - 1 - i : i)) * inner + j;
        double *f = (double *)b;
        uint64_t *u = (uint64_t *)b;
        if (w == ANFI_WIDE_COMPLEX)
          scan_complex(f + 2 * at, (double *)a + 2 * at, f + 2 * at, i ? f + 2 * before : NULL);
        else if (i && w == ANFI_WIDE_INT) u[at] += ((uint64_t *)a)[at] * u[before];
        else if (i) f[at] += ((double *)a)[at] * f[before];
        before = at;
      }
  return anfi_store(q->out, b, w);
}
