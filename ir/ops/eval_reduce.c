// SPDX-License-Identifier: Apache-2.0
/* Reductions and running sums.
 * ORDER: elements are taken one after the other in row-major order. Floats of every width are
 * summed in double and rounded once at the end; integers wrap in 64 bits. */
#include "ir/ops/kernel.h"

#include <math.h>

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

/* ---- what is made of a group: stored as element i of v ---- */

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

/* Are the op's elements computed as reals even if they are integers? */
static bool as_reals(anfi_opcode op) {
  return op == ANF_OP_Mean || op == ANF_OP_Var || op == ANF_OP_Std || op == ANF_OP_LogSumExp;
}

static void *load(const anfi_eval *q, anf_dtype *d) {
  *d = (anf_dtype)q->in[0]->type->dtype;
  if (as_reals(q->op) && anfi_wide_of(*d) == ANFI_WIDE_INT) *d = ANF_F64;
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

/* ---- running sums ---- */

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
