// SPDX-License-Identifier: Apache-2.0
/* Softmax, cross entropy and norms: passes over groups, in double and rounded once.
 *   Softmax(x), for each row   ->   m = max x; e[i] = exp(x[i] - m); y[i] = e[i] / sum e
 * What a pass computes and a later one needs again is kept in an array of the group. */
#include "backend/lower/ops/group.h"

static texpr math(const group *g, tintrin f, texpr x) {
  return anfi_t_intrin(g->L->t, f, x->dtype, 1, &x, (tattrs){0});
}

/* Input i, to be read in passes, in f32 at least. */
static anfi_view *operand(anfi_low *L, const anfi_low_op *q, size_t i) {
  return anfi_group_floats(L, q, anfi_group_whole(L, q, i));
}
static texpr real(const group *g, double v) { return anfi_low_const(g->L, g->real, v); }
static texpr bin(const group *g, tkind k, texpr a, texpr b) { return anfi_t_bin(g->L->t, k, a, b); }

static void put(const group *g, texpr to, texpr i, texpr x, const anf_type *t) {
  x = anfi_t_cast(g->L->t, anfi_low_dt((anf_dtype)t->dtype), x);
  anfi_low_put(g->L, to, i, (anfi_elem){x, NULL}, false);
}

static bool start(anfi_low *L, const anfi_low_op *q, anfi_view **out, texpr *to) {
  *to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, *to);
  return anfi_low_elements(q->type) > 0;
}

/* A state that follows from others, for each group. */
#define DERIVE(g, s, name, value)                                                                  \
  uint32_t s = anfi_group_state((g), (g)->real, real((g), 0), name);                               \
  anfi_group_begin_each(g);                                                                        \
  anfi_group_set((g), s, (value));                                                                 \
  anfi_group_end_each(g)

/* ---- softmax ---- */

/* x - m of a row of f32: m is of two f32, of which the first is mostly subtracted without error. */
static texpr less(const group *g, texpr x, texpr m) {
  tstore *t = g->L->t;
  texpr high = anfi_low_atom(g->L, anfi_t_cast(t, x->dtype, m));
  texpr low = anfi_t_cast(t, x->dtype, bin(g, TX_sub, m, anfi_t_cast(t, g->real, high)));
  return bin(g, TX_sub, bin(g, TX_sub, x, high), anfi_low_atom(g->L, low));
}

/* The array of a group has its elements in the order of the pass. */
static texpr in_array(const group *g) {
  anfi_pt p = {0};
  for (uint32_t k = 0; k < g->n; k++)
    if (g->inside[k] || k >= g->side) anfi_pt_push(&p, g->at[k], g->extent[k]);
  return anfi_pt_linear(g->L, &p);
}

/* A loop over rows of n elements; their differences to the greatest go to e. */
static void less_than_top(group *g, texpr first, texpr rows, texpr e) {
  anfi_low *L = g->L;
  anfi_loop r, k;
  anfi_low_loop_range(L, &r, anfi_ix(L, 0), rows, 1, "r");
  g->at[0] = anfi_low_atom(L, anfi_ix_add(L, first, r.var));
  texpr top = g->state[anfi_rows_reduce(g, ROWS_TOP, NULL, "top")];
  top = anfi_low_let(L, anfi_t_cast(L->t, anfi_t_dt(ANF_TIR_f32), top), "m");
  anfi_low_loop(L, &k, g->size, "k");
  g->at[1] = k.var;
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, r.var, g->size), k.var);
  texpr d = anfi_t_sub(L->t, anfi_group_x(g).re, top);
  anfi_low_put(L, e, at, (anfi_elem){d, NULL}, false);
  anfi_low_loop_end(L, &k);
  anfi_low_loop_end(L, &r);
}

/* Of rows of exponentials e each part of its sum. */
static void parts_of_sums(group *g, texpr first, texpr rows, texpr e, texpr to) {
  anfi_low *L = g->L;
  anfi_loop r, k;
  anfi_low_loop_range(L, &r, anfi_ix(L, 0), rows, 1, "r");
  g->at[0] = r.var;
  texpr sum = g->state[anfi_rows_reduce(g, ROWS_SUM, NULL, "sum")];
  texpr part = anfi_t_cast(L->t, anfi_t_dt(ANF_TIR_f32), bin(g, TX_div, real(g, 1), sum));
  part = anfi_low_let(L, part, "part");
  anfi_low_loop(L, &k, g->size, "k");
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, r.var, g->size), k.var);
  texpr y = bin(g, TX_mul, anfi_low_load(L, e, at), part);
  put(g, to, anfi_ix_add(L, anfi_ix_mulc(L, first, g->size), at), y, g->q->type);
  anfi_low_loop_end(L, &k);
  anfi_low_loop_end(L, &r);
}

/* Short rows of f32, some at a time, so that exponentials are computed by whole vectors. */
static void softmax_short(anfi_low *L, const anfi_low_op *q, const anfi_view *x, uint64_t n,
                          texpr to) {
  enum { ELEMENTS = 1024 };
  uint64_t all = x->n / n, most = ELEMENTS / n < all ? ELEMENTS / n : all;
  tdtype f = anfi_t_dt(ANF_TIR_f32);
  anfi_loop b, i;
  anfi_low_loop(L, &b, (all + most - 1) / most, "block");
  b.parallel = L->o.parallel && !L->in_parallel && x->n >= ANFI_PARALLEL_WORK;
  texpr first = anfi_low_atom(L, anfi_ix_mulc(L, b.var, most)), rows = anfi_ix(L, most);
  if (all % most)
    rows = anfi_low_atom(
        L, anfi_t_intrin2(L->t, TI_min, rows, anfi_t_sub(L->t, anfi_ix(L, all), first)));
  texpr e = anfi_low_local(L, ANF_TIR_f32, most * n, "e");
  int64_t dims[2] = {(int64_t)most, (int64_t)n};
  group g = {.L = L, .q = q, .x = x, .size = n, .count = all, .n = 2, .extent = {all, n}};
  g.inside[1] = true;
  g.side = 2;
  g.width = 1;
  g.real = ANFI_F64;
  group of = g;
  of.x = anfi_view_buffer(L, anfi_type_tensor(L->cx, ANF_F32, 2, dims), e);
  of.extent[0] = most;
  less_than_top(&g, first, rows, e);
  anfi_low_loop_range(L, &i, anfi_ix(L, 0), anfi_low_atom(L, anfi_ix_mulc(L, rows, n)), 1, "i");
  texpr d = anfi_low_load(L, e, i.var), y = anfi_low_help(L, "anf_exp32_fall", f, 1, &d);
  anfi_low_put(L, e, i.var, (anfi_elem){y, NULL}, false);
  anfi_low_loop_end(L, &i);
  parts_of_sums(&of, first, rows, e, to);
  anfi_low_loop_end(L, &b);
}

/* The length of rows along the last axis, if they are several short ones of f32; else 0. */
static uint64_t short_rows(const anfi_view *x, uint32_t mask) {
  size_t rank = x->type->n;
  uint64_t n = rank ? (uint64_t)x->type->dims[rank - 1] : 0;
  bool last = rank && mask == UINT32_C(1) << (rank - 1);
  return last && x->dtype == ANF_F32 && anfi_rows_short(n) && x->n > n ? n : 0;
}

/* The group is a row of f32. */
static void softmax_row(group *g, texpr to) {
  anfi_low *L = g->L;
  texpr e = anfi_rows_exp(g, anfi_group_top(g));
  texpr sum = anfi_group_get(g, anfi_rows_sum_positive(g, e));
  texpr part = anfi_t_cast(L->t, anfi_t_dt(ANF_TIR_f32), bin(g, TX_div, real(g, 1), sum));
  part = anfi_low_let(L, part, "part");
  anfi_group_begin(g);
  put(g, to, anfi_group_linear(g),
      bin(g, TX_mul, anfi_low_load(L, e, anfi_group_position(g)), part), g->q->type);
  anfi_group_end(g);
}

/* The groups are of f32, side by side. */
static void softmax_beside(group *g, texpr to) {
  anfi_low *L = g->L;
  tdtype f = anfi_t_dt(ANF_TIR_f32);
  texpr e = anfi_low_local(L, ANF_TIR_f32, g->size * g->width, "e");
  uint32_t top = anfi_group_max(g), sum = anfi_group_state(g, g->real, real(g, 0), "sum");
  anfi_group_begin(g);
  texpr m = anfi_t_cast(L->t, f, anfi_group_get(g, top));
  texpr x = anfi_low_atom(L, anfi_t_sub(L->t, anfi_group_x(g).re, m));
  texpr y = anfi_low_let(L, anfi_low_help(L, "anf_exp32_fall", f, 1, &x), "y");
  anfi_low_put(L, e, in_array(g), (anfi_elem){y, NULL}, false);
  texpr s = anfi_group_get(g, sum);
  anfi_group_set(g, sum, bin(g, TX_add, s, anfi_t_cast(L->t, g->real, y)));
  anfi_group_end(g);
  DERIVE(g, part, "part", bin(g, TX_div, real(g, 1), anfi_group_get(g, sum)));
  anfi_group_begin(g);
  texpr p = anfi_t_cast(L->t, f, anfi_group_get(g, part));
  put(g, to, anfi_group_linear(g), bin(g, TX_mul, anfi_low_load(L, e, in_array(g)), p), g->q->type);
  anfi_group_end(g);
}

/* The array of exp(x - top), and their sum in the order of the pass. */
static texpr exp_in_order(group *g, uint32_t top, uint32_t *sum) {
  texpr e = anfi_low_local(g->L, (anf_tir_elem)g->real.elem, g->size * g->width, "e");
  *sum = anfi_group_state(g, g->real, real(g, 0), "sum");
  anfi_group_begin(g);
  texpr x = bin(g, TX_sub, anfi_group_real(g), anfi_group_get(g, top));
  texpr y = anfi_low_atom(g->L, anfi_group_exp(g, x));
  anfi_low_put(g->L, e, in_array(g), (anfi_elem){y, NULL}, false);
  anfi_group_set(g, *sum, bin(g, TX_add, anfi_group_get(g, *sum), y));
  anfi_group_end(g);
  return e;
}

bool anfi_lower_softmax(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to;
  group g = {0};
  if (!start(L, q, out, &to)) return true;
  const anfi_view *x = operand(L, q, 0);
  uint64_t n = short_rows(x, anfi_axes_mask(q->attr[0], q->type->n));
  if (n) {
    softmax_short(L, q, x, n, to);
    return true;
  }
  anfi_group_open(&g, L, q, x, anfi_axes_mask(q->attr[0], q->type->n));
  if (anfi_rows_one(&g) || (x->dtype == ANF_F32 && g.side < g.n)) {
    if (g.side < g.n) softmax_beside(&g, to);
    else softmax_row(&g, to);
    anfi_group_close(&g);
    return true;
  }
  uint32_t top = anfi_group_max(&g), sum;
  texpr e = anfi_rows_exp64(&g, top, &sum);
  if (!e) e = exp_in_order(&g, top, &sum);
  anfi_group_begin(&g);
  put(&g, to, anfi_group_linear(&g),
      bin(&g, TX_div, anfi_low_load(L, e, in_array(&g)), anfi_group_get(&g, sum)), q->type);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}

/* top + log of the sum of exp(x - top); NaN if one is inf, -inf if all are -inf. */
static uint32_t log_sum(group *g) {
  uint32_t top = anfi_group_max(g), sum;
  if (anfi_rows_one(g)) sum = anfi_rows_sum_positive(g, anfi_rows_exp(g, top));
  else if (!anfi_rows_sum_exp(g, top, &sum)) {
    sum = anfi_group_state(g, g->real, real(g, 0), "sum");
    anfi_group_begin(g);
    texpr y = anfi_group_exp(g, bin(g, TX_sub, anfi_group_real(g), anfi_group_get(g, top)));
    anfi_group_set(g, sum, bin(g, TX_add, anfi_group_get(g, sum), y));
    anfi_group_end(g);
  }
  uint32_t s = anfi_group_state(g, g->real, real(g, 0), "log");
  anfi_group_begin_each(g);
  texpr m = anfi_low_let(g->L, anfi_group_get(g, top), "m");
  texpr l = bin(g, TX_add, m, math(g, TI_log, anfi_group_get(g, sum)));
  texpr edge = anfi_t_select(g->L->t, anfi_t_lt(g->L->t, m, real(g, 0)), m, real(g, (double)NAN));
  texpr infinite = bin(g, TX_cmp_eq, math(g, TI_abs, m), real(g, INFINITY));
  anfi_group_set(g, s, anfi_t_select(g->L->t, infinite, edge, l));
  anfi_group_end_each(g);
  return s;
}

bool anfi_lower_log_softmax(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to;
  group g = {0};
  if (!start(L, q, out, &to)) return true;
  anfi_group_open(&g, L, q, operand(L, q, 0), anfi_axes_mask(q->attr[0], q->type->n));
  uint32_t l = log_sum(&g);
  anfi_group_begin(&g);
  texpr log = anfi_group_get(&g, l);
  texpr y = anfi_rows_one(&g) ? less(&g, anfi_group_x(&g).re, log)
                              : bin(&g, TX_sub, anfi_group_real(&g), log);
  put(&g, to, anfi_group_linear(&g), y, q->type);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}

/* Classes of probability 0 add nothing, though their logit be -inf. */
static void dense_loss(group *g, const anfi_view *labels, uint32_t l, texpr to) {
  tstore *t = g->L->t;
  uint32_t loss = anfi_group_state(g, g->real, real(g, 0), "loss");
  anfi_group_begin(g);
  texpr p = anfi_low_atom(
      g->L, anfi_t_cast(t, g->real, anfi_view_at_flat(g->L, labels, anfi_group_linear(g)).re));
  texpr term = bin(g, TX_mul, p, bin(g, TX_sub, anfi_group_get(g, l), anfi_group_real(g)));
  texpr old = anfi_group_get(g, loss);
  anfi_group_set(
      g, loss, anfi_t_select(t, bin(g, TX_cmp_ne, p, real(g, 0)), bin(g, TX_add, old, term), old));
  anfi_group_end(g);
  anfi_group_begin_each(g);
  put(g, to, anfi_group_number(g), anfi_group_get(g, loss), g->q->type);
  anfi_group_end_each(g);
}

/* The loss of the class that the label names; a label to ignore has none. */
static void label_loss(group *g, uint32_t l, texpr to) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  const anf_value *ignore = g->q->attr[1];
  texpr zero = real(g, 0);
  anfi_group_begin_each(g);
  texpr wide = anfi_t_cast(t, ANFI_S64, anfi_view_at_flat(L, g->q->in[1], anfi_group_number(g)).re),
        none;
  wide = anfi_low_atom(L, wide);
  none = anfi_attr_given(ignore)
             ? bin(g, TX_cmp_eq, wide, anfi_t_int(t, ANFI_S64, anfi_attr_int(ignore)))
             : anfi_t_bool(t, false);
  none = anfi_low_atom(L, none);
  texpr label =
      anfi_low_atom(L, anfi_t_select(t, none, anfi_ix(L, 0), anfi_t_cast(t, ANFI_IX, wide)));
  anfi_low_trap(L, bin(g, TX_cmp_ge, label, anfi_ix(L, g->size)), ANF_E0443, g->q->op, g->q->loc,
                wide, anfi_t_int(t, ANFI_S64, (int64_t)g->size));
  texpr loss = bin(g, TX_sub, anfi_group_get(g, l), anfi_group_real_at(g, label));
  put(g, to, anfi_group_number(g), anfi_t_select(t, none, zero, loss), g->q->type);
  anfi_group_end_each(g);
}

bool anfi_lower_cross_entropy(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to;
  group g = {0};
  anfi_view *x = operand(L, q, 0), *labels = q->in[1];
  bool dense = anfi_dtype_is_float(labels->dtype);
  if (!start(L, q, out, &to)) return true;
  if (!anfi_group_open(&g, L, q, x, anfi_axes_mask(q->attr[0], x->type->n)))
    return dense && anfi_lower_fill_zero(L, q, to);
  uint32_t l = log_sum(&g);
  if (dense) dense_loss(&g, labels, l, to);
  else label_loss(&g, l, to);
  anfi_group_close(&g);
  return true;
}

bool anfi_lower_fill_zero(anfi_low *L, const anfi_low_op *q, texpr to) {
  anfi_loop l;
  anfi_low_loop(L, &l, anfi_low_elements(q->type), "i");
  anfi_low_put(L, to, l.var,
               (anfi_elem){anfi_low_const(L, anfi_low_dt((anf_dtype)q->type->dtype), 0), NULL},
               false);
  anfi_low_loop_end(L, &l);
  return true;
}

/* ---- norms ---- */

static const anfi_view *given(const anfi_low_op *q, size_t i) { return i < q->n ? q->in[i] : NULL; }

static texpr element_of(const group *g, const anfi_view *v, texpr at) {
  return anfi_t_cast(g->L->t, g->real, anfi_view_at_flat(g->L, v, at).re);
}

/* Times a scale, plus a bias, where they are given. */
static texpr scaled(const group *g, texpr y, const anfi_view *scale, const anfi_view *bias,
                    texpr at) {
  if (scale) y = bin(g, TX_mul, y, element_of(g, scale, at));
  if (bias) y = bin(g, TX_add, y, element_of(g, bias, at));
  return y;
}

static texpr mean_of(const group *g, texpr sum) {
  return bin(g, TX_div, sum, real(g, (double)g->size));
}

/* (x - mean) / sqrt(variance + eps); mean GROUP_STATES: 0. */
static texpr standard(const group *g, uint32_t mean, uint32_t factor) {
  texpr x = anfi_group_real(g);
  if (mean < GROUP_STATES) x = bin(g, TX_sub, x, anfi_group_get(g, mean));
  return bin(g, TX_mul, x, anfi_group_get(g, factor));
}

/* 1 / sqrt(square / n + eps) */
static uint32_t factor_of(group *g, uint32_t square, double eps) {
  DERIVE(
      g, s, "factor",
      bin(g, TX_div, real(g, 1),
          math(g, TI_sqrt, bin(g, TX_add, mean_of(g, anfi_group_get(g, square)), real(g, eps)))));
  return s;
}

static uint32_t mean_state(group *g) {
  uint32_t sum = anfi_group_sum(g);
  anfi_group_begin_each(g);
  anfi_group_set(g, sum, mean_of(g, anfi_group_get(g, sum)));
  anfi_group_end_each(g);
  return sum;
}

static texpr norm_in_row(const group *g, uint32_t mean, uint32_t factor) {
  tstore *t = g->L->t;
  texpr x = anfi_group_x(g).re, f = anfi_t_cast(t, x->dtype, anfi_group_get(g, factor));
  if (mean < GROUP_STATES) x = less(g, x, anfi_group_get(g, mean));
  return bin(g, TX_mul, x, anfi_low_atom(g->L, f));
}

/* The normalised current element: (x - mean) * factor * scale + bias. */
static texpr normed(const group *g, uint32_t mean, uint32_t factor, const anfi_view *scale,
                    const anfi_view *bias) {
  enum { VECTOR = 16 };
  texpr at = anfi_group_position(g);
  if (!anfi_rows_fit(g) || g->x->dtype != ANF_F32 || g->size < VECTOR)
    return scaled(g, standard(g, mean, factor), scale, bias, at);
  group single = *g;
  single.real = anfi_t_dt(ANF_TIR_f32);
  return scaled(&single, norm_in_row(g, mean, factor), scale, bias, at);
}

bool anfi_lower_layer_norm(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool rms = q->op == ANF_OP_RMSNorm;
  texpr to;
  group g = {0};
  if (!start(L, q, out, &to)) return true;
  anfi_group_open(&g, L, q, operand(L, q, 0), anfi_axes_mask(q->attr[0], q->type->n));
  if (!rms) anfi_rows_moments(&g);
  uint32_t mean = rms ? GROUP_STATES : mean_state(&g);
  uint32_t factor = factor_of(&g, anfi_group_sum_squares(&g, mean), anfi_attr_float(q->attr[1]));
  anfi_group_begin(&g);
  texpr y = normed(&g, mean, factor, given(q, 1), rms ? NULL : given(q, 2));
  put(&g, to, anfi_group_linear(&g), y, q->type);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}

bool anfi_lower_l2_normalize(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  double eps = anfi_attr_float(q->attr[1]);
  texpr to;
  group g = {0};
  if (!start(L, q, out, &to)) return true;
  anfi_group_open(&g, L, q, operand(L, q, 0), anfi_axes_mask(q->attr[0], q->type->n));
  uint32_t s = anfi_group_sum_squares(&g, GROUP_STATES);
  anfi_group_begin_each(&g);
  texpr norm = anfi_low_let(L, math(&g, TI_sqrt, anfi_group_get(&g, s)), "norm");
  anfi_group_set(&g, s,
                 anfi_t_select(L->t, anfi_t_lt(L->t, norm, real(&g, eps)), real(&g, eps), norm));
  anfi_group_end_each(&g);
  anfi_group_begin(&g);
  put(&g, to, anfi_group_linear(&g), bin(&g, TX_div, anfi_group_real(&g), anfi_group_get(&g, s)),
      q->type);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}

/* A row of elements of channels, `spatial` of each. */
static void normed_channels(group *g, uint32_t mean, uint32_t factor, uint64_t spatial,
                            uint64_t channels, texpr to) {
  anfi_low *L = g->L;
  const anfi_view *scale = given(g->q, 1), *bias = given(g->q, 2);
  uint64_t each = g->size / spatial;
  anfi_loop c, s;
  anfi_low_loop(L, &c, each, "c");
  texpr first = anfi_ix_mulc(L, anfi_ix_modc(L, anfi_group_number(g), channels / each), each);
  texpr channel = anfi_low_atom(L, anfi_ix_add(L, first, c.var));
  anfi_low_loop(L, &s, spatial, "s");
  g->at[g->n - 1] = anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, c.var, spatial), s.var));
  group single = *g;
  single.real = anfi_t_dt(ANF_TIR_f32);
  texpr y = scaled(&single, norm_in_row(g, mean, factor), scale, bias, channel);
  put(g, to, anfi_group_linear(g), y, g->q->type);
  anfi_low_loop_end(L, &s);
  anfi_low_loop_end(L, &c);
}

/* x seen as [batch * groups, the rest], whose elements are of channels. */
bool anfi_lower_group_norm(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  enum { VECTOR = 16 };
  bool instance = q->op == ANF_OP_InstanceNorm;
  const int64_t *dims = q->type->dims;
  uint64_t groups = (uint64_t)(instance ? dims[1] : anfi_attr_int(q->attr[0])), many;
  double eps = anfi_attr_float(q->attr[instance ? 0 : 1]);
  texpr to;
  anfi_view *flat;
  group g = {0};
  if (!start(L, q, out, &to)) return true;
  many = (uint64_t)dims[0] * groups;
  int64_t shape[2] = {(int64_t)many, (int64_t)(q->in[0]->n / many)};
  uint64_t spatial = (uint64_t)shape[1] / ((uint64_t)dims[1] / groups);
  anfi_low_op one = *q;
  one.n = 1;
  one.type = anfi_type_tensor(L->cx, q->in[0]->dtype, 2, shape);
  anfi_group_whole(L, q, 0);
  anfi_lower_same(L, &one, &flat);
  anfi_group_open(&g, L, q, anfi_group_floats(L, q, flat), 2);
  anfi_rows_moments(&g);
  uint32_t mean = mean_state(&g);
  uint32_t factor = factor_of(&g, anfi_group_sum_squares(&g, mean), eps);
  if (anfi_rows_one(&g) && spatial >= VECTOR)
    normed_channels(&g, mean, factor, spatial, (uint64_t)dims[1], to);
  else {
    anfi_group_begin(&g);
    texpr y = standard(&g, mean, factor), at = anfi_group_linear(&g);
    texpr channel = anfi_ix_modc(L, anfi_ix_divc(L, at, spatial), (uint64_t)dims[1]);
    put(&g, to, at, scaled(&g, y, given(q, 1), given(q, 2), channel), q->type);
    anfi_group_end(&g);
  }
  anfi_group_close(&g);
  return true;
}

/* ---- one scale and bias a channel ---- */

static texpr batch_element(const group *g, texpr mean, texpr root, texpr channel) {
  texpr y = bin(g, TX_div, bin(g, TX_sub, anfi_group_real(g), mean), root);
  return scaled(g, y, g->q->in[1], g->q->in[2], channel);
}

static uint32_t all_but(const anfi_low_op *q) {
  size_t rank = q->in[0]->type->n;
  return ((UINT32_C(1) << rank) - 1) & ~anfi_axes_mask(q->attr[0], rank);
}

/* What it is computed in. */
static anf_dtype batch_type(anf_dtype d) {
  return anfi_t_is_half(anfi_low_dt(d)) ? ANF_F32 : ANF_F64;
}

/* Views of numbers by channel: mean, root of the variance, scale, bias; or, if `joined`, mean, scale over root,
 * bias. They broadcast to x. */
enum { BATCH_TABLES = 4 };

static void batch_tables(anfi_low *L, const anfi_low_op *q, bool joined, anfi_view **table) {
  static const uint8_t OF[BATCH_TABLES] = {3, 4, 1, 2}; // inputs
  int64_t dims[ANF_MAX_RANK];
  size_t rank = q->type->n, axis = 0;
  anfi_loop c;
  anfi_axis_in(anfi_attr_int(q->attr[0]), rank, &axis);
  for (size_t k = 0; k < rank; k++) dims[k] = k == axis ? q->type->dims[k] : 1;
  for (size_t k = 0; k < BATCH_TABLES; k++) {
    anfi_view_force(L, q->in[OF[k]]);
    if (joined && k == 1) continue;
    anf_dtype d = batch_type((anf_dtype)q->type->dtype);
    texpr t = anfi_low_local(L, anfi_lower_elem(d), (uint64_t)dims[axis], "table");
    table[k] = anfi_view_buffer(L, anfi_type_tensor(L->cx, d, rank, dims), t);
  }
  anfi_low_loop(L, &c, (uint64_t)dims[axis], "c");
  texpr x[BATCH_TABLES], eps = anfi_low_const(L, ANFI_F64, anfi_attr_float(q->attr[1]));
  anfi_pt p = anfi_pt_flat(c.var, (uint64_t)dims[axis]);
  for (size_t k = 0; k < BATCH_TABLES; k++) x[k] = anfi_view_real(L, q->in[OF[k]], &p, ANFI_F64);
  x[1] = anfi_low_atom(L, anfi_t_add(L->t, x[1], eps));
  x[1] = anfi_t_intrin(L->t, TI_sqrt, ANFI_F64, 1, &x[1], (tattrs){0});
  if (joined) x[2] = anfi_t_bin(L->t, TX_div, x[2], anfi_low_atom(L, x[1]));
  for (size_t k = 0; k < BATCH_TABLES; k++) {
    if (!table[k]) continue;
    x[k] = anfi_t_cast(L->t, anfi_low_dt(table[k]->dtype), x[k]);
    anfi_low_put(L, table[k]->tensor, c.var, (anfi_elem){x[k], NULL}, false);
  }
  anfi_low_loop_end(L, &c);
}

/* In double (f16 and bf16: in f32) and rounded once; of f64 by the steps that the interpreter takes. */
static anfi_elem at_batch_norm(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr by[BATCH_TABLES], x = anfi_view_real(L, v->in[0], p, anfi_low_dt(batch_type(v->dtype)));
  bool joined = v->dtype != ANF_F64;
  for (size_t k = 0; k < BATCH_TABLES; k++)
    if (v->in[k + 1])
      by[k] = anfi_view_at_broadcast(L, v->in[k + 1], v->type->n, v->type->dims, p).re;
  texpr y = anfi_t_sub(L->t, x, by[0]);
  if (!joined) y = anfi_t_bin(L->t, TX_div, y, by[1]);
  y = anfi_t_add(L->t, anfi_t_mul(L->t, y, by[2]), by[3]);
  return (anfi_elem){anfi_t_cast(L->t, anfi_low_dt(v->dtype), anfi_low_atom(L, y)), NULL};
}

bool anfi_lower_batch_norm(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_view *in[1 + BATCH_TABLES] = {q->in[0]};
  anfi_low_op point = *q;
  if (anfi_low_elements(q->type)) batch_tables(L, q, q->type->dtype != ANF_F64, in + 1);
  point.in = in;
  point.n = anfi_low_elements(q->type) ? ANFI_LEN(in) : 1;
  out[0] = anfi_view_lazy(L, &point, ORDER_POINT, at_batch_norm);
  return true;
}

/* Without elements the mean and variance are 0 / 0. */
static bool no_batch(anfi_low *L, const anfi_low_op *q, texpr const *to) {
  anfi_loop l;
  for (size_t i = 1; i < 3; i++) {
    const anf_type *t = q->type->items[i];
    if (!anfi_low_elements(t)) continue;
    anfi_low_loop(L, &l, anfi_low_elements(t), "i");
    anfi_low_put(
        L, to[i], l.var,
        (anfi_elem){anfi_low_const(L, anfi_low_dt((anf_dtype)t->dtype), (double)NAN), NULL}, false);
    anfi_low_loop_end(L, &l);
  }
  return true;
}

bool anfi_lower_batch_norm_train(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *const *t = q->type->items;
  texpr to[3];
  group g = {0};
  for (size_t i = 0; i < 3; i++) {
    to[i] = anfi_low_result(L, q, i, t[i]);
    out[i] = anfi_view_of_result(L, t[i], to[i]);
  }
  if (!anfi_group_open(&g, L, q, anfi_group_whole(L, q, 0), all_but(q))) return no_batch(L, q, to);
  texpr eps = real(&g, anfi_attr_float(q->attr[1]));
  uint32_t mean = mean_state(&g), var = anfi_group_sum_squares(&g, mean);
  uint32_t root = anfi_group_state(&g, g.real, real(&g, 0), "root");
  anfi_group_begin_each(&g);
  anfi_group_set(&g, var, mean_of(&g, anfi_group_get(&g, var)));
  anfi_group_set(&g, root, math(&g, TI_sqrt, bin(&g, TX_add, anfi_group_get(&g, var), eps)));
  put(&g, to[1], anfi_group_number(&g), anfi_group_get(&g, mean), t[1]);
  put(&g, to[2], anfi_group_number(&g), anfi_group_get(&g, var), t[2]);
  anfi_group_end_each(&g);
  anfi_group_begin(&g);
  texpr y =
      batch_element(&g, anfi_group_get(&g, mean), anfi_group_get(&g, root), anfi_group_number(&g));
  put(&g, to[0], anfi_group_linear(&g), y, t[0]);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}
