// SPDX-License-Identifier: Apache-2.0
/* Convolutions and their gradients by kernels, without a matrix of patches: some rows of results are a product for each
 * tap of the window, summed by one list_brgemm whose lists say where the taps' weights and rows are.
 *   Conv2D(x, w)   ->   y[rows] = list_brgemm of (x[rows + tap], w[tap]) over the taps of the window
 * This file says which convolutions these are, and has what the other three share (conv.h). */
#include "backend/lower/gemm/conv.h"

/* ---- loops over several dims ---- */

void anfi_cv_open(const walk *w, nest *k, size_t n, const uint64_t *extent, bool parallel) {
  k->n = n;
  for (size_t d = 0; d < n; d++) {
    anfi_low_loop(w->L, &k->l[d], extent[d], "i");
    k->l[d].parallel = parallel && !k->l[d].none;
    parallel &= !k->l[d].parallel;
    k->at[d] = k->l[d].var;
  }
}
void anfi_cv_close(const walk *w, nest *k) {
  for (size_t d = k->n; d-- > 0;) anfi_low_loop_end(w->L, &k->l[d]);
}
/* ((a * e1 + b) * e2 + c) ... */
texpr anfi_cv_mixed(const walk *w, size_t n, const texpr *digit, const uint64_t *extent) {
  texpr s = ix(w, 0);
  for (size_t d = 0; d < n; d++) s = add(w, mulc(w, s, extent[d]), digit[d]);
  return s;
}

void anfi_cv_if_inside(const walk *w, uint64_t size, uint64_t lo, uint64_t hi) {
  if (lo) anfi_low_if(w->L);
  if (hi < size) anfi_low_if(w->L);
}
void anfi_cv_end_if_inside(const walk *w, texpr at, uint64_t size, uint64_t lo, uint64_t hi) {
  if (hi < size) anfi_low_if_end(w->L, anfi_t_lt(w->L->t, at, ix(w, hi)));
  if (lo) anfi_low_if_end(w->L, anfi_t_not(w->L->t, anfi_t_lt(w->L->t, at, ix(w, lo))));
}

void anfi_cv_fill(const walk *w, texpr to, uint64_t n) {
  anfi_loop l;
  anfi_low_loop(w->L, &l, n, "z");
  store(w, to, l.var, anfi_low_const(w->L, anfi_t_dt(w->elem), 0));
  anfi_low_loop_end(w->L, &l);
}

/* ---- kernels ---- */

texpr anfi_cv_list(const walk *w, uint64_t n) {
  texpr size = ix(w, n);
  texpr v = anfi_t_tensor(w->L->t, ANF_TIR_void, true, "list", 1, &size, NULL);
  anfi_low_set_depth(w->L, v, w->L->scope.n);
  anfi_low_add(w->L, anfi_t_define(w->L->t, TL_local, v, NULL));
  return v;
}

void anfi_cv_put_list(const walk *w, texpr l, texpr i, texpr address) {
  anfi_low_set(w->L, anfi_t_at(w->L->t, l, 1, &i, 1, 0, NULL),
               anfi_t_cast(w->L->t, anfi_t_ptr(ANF_TIR_void), address));
}

void anfi_cv_product(const walk *w, texpr a, texpr b, texpr c, const uint64_t *size, texpr len,
                     bool init, bool ta) {
  tstore *t = w->L->t;
  texpr in[BRGEMM_COUNT] = {a, b, c};
  tattrs attrs = {0};
  anfi_low_gemm_sizes(w->L, in, size);
  if (len) in[BRGEMM_len] = anfi_t_cast(t, ANFI_S64, len);
  if (init) attrs = anfi_t_attr_set(t, attrs, TA_init, 1);
  if (ta) attrs = anfi_t_attr_set(t, attrs, TA_trans_a, 1);
  anfi_low_add(w->L, anfi_t_eval(t, anfi_t_brgemm(t, in, attrs)));
}

texpr anfi_cv_first(const walk *w, texpr l) {
  texpr zero = ix(w, 0);
  return anfi_t_addr(w->L->t, l, 1, &zero);
}

/* ---- images ---- */

bool anfi_cv_parallel(const walk *w) {
  uint64_t work = u(w->c->n * w->c->groups * w->c->ci * w->c->co) * w->taps * w->out;
  return w->L->o.parallel && !w->L->in_parallel && work >= ANFI_PARALLEL_MACS;
}

place anfi_cv_place(const walk *w, texpr n, texpr g) {
  uint64_t ci = u(w->c->ci), co = u(w->c->co), groups = u(w->c->groups);
  texpr ng = add(w, mulc(w, n, groups), g);
  return (place){n, anfi_low_atom(w->L, mulc(w, ng, ci * w->in)),
                 anfi_low_atom(w->L, mulc(w, ng, co * w->out)), mulc(w, g, ci), mulc(w, g, co)};
}

place anfi_cv_open_images(walk *w, walk *of, nest *g, nest *n) {
  uint64_t e[2] = {u(w->c->groups), u(w->c->n)};
  anfi_cv_begin_weights(of);
  anfi_cv_open(w, g, 1, e, false);
  anfi_cv_group_weights(of, g->at[0]);
  anfi_cv_open(w, n, 1, e + 1, anfi_cv_parallel(w));
  return anfi_cv_place(w, n->at[0], g->at[0]);
}

/* ---- which ---- */

void anfi_cv_sizes(walk *w) {
  const anfi_window *v = &w->c->win;
  w->taps = w->in = w->out = w->phases = w->plane = 1;
  for (size_t d = 0; d < 3; d++) {
    bool spread = anfi_cv_spread(w, d);
    w->taps *= u(v->kernel[d]), w->in *= u(v->in[d]), w->out *= u(v->out[d]);
    w->phases *= u(spread ? v->kernel[d] : v->stride[d]);
    w->reach[d] =
        spread || !v->kernel[d] ? 0 : u((v->kernel[d] - 1) * v->dilation[d] / v->stride[d]);
    uint64_t most = w->q->way == ANFI_CONV_BY_INPUT ? u(up(v->in[d] + v->before[d], v->stride[d]))
                                                    : u(v->out[d]);
    if (most < u(v->out[d])) most = u(v->out[d]);
    w->extent[d] = most + w->reach[d];
    w->plane *= w->extent[d];
  }
}

bool anfi_cv_of_pixels(const walk *w) {
  for (size_t d = 0; d < 3; d++)
    if (w->c->win.before[d]) return false;
  return w->taps * w->in * w->out * u(w->c->groups) == 1;
}

enum { MOST_PHASES = 16, MOST_TAPS = 128, FEW_CHANNELS = 16, FEW = 1 << 13, FEW_EACH = 128 };

static bool plan_of(walk *w) {
  const anfi_conv *c = w->c;
  anfi_cv_sizes(w);
  w->step = u(c->ci);
  for (size_t d = 0; d < 3; d++)
    if (c->win.before[d] < 0) return false;
  if (w->elem != ANF_TIR_f32 && w->elem != ANF_TIR_f64) return false;
  if (!w->taps || !w->out || !w->in) return false;
  bool patches = w->q->way == ANFI_CONV_FORWARD && anfi_cv_of_patches(w);
  if (!patches && (w->taps > MOST_TAPS || w->phases > MOST_PHASES)) return false;
  uint64_t each = u(c->ci * c->co) * w->taps * w->out, all = each * u(c->n * c->groups);
  if (w->q->way != ANFI_CONV_BY_WEIGHTS && anfi_cv_of_pixels(w)) each *= u(c->n); // one product
  return c->ci * c->co >= FEW_CHANNELS && each >= FEW_EACH && all >= FEW;
}

bool anfi_low_conv_gemm_wanted(const anfi_conv *c, const anfi_conv_work *q) {
  walk w = {.c = c, .q = q, .elem = q->elem};
  return plan_of(&w);
}

bool anfi_low_conv_gemm(anfi_low *L, const anfi_conv *c, const anfi_conv_work *q) {
  walk w = {.L = L, .c = c, .q = q, .elem = q->elem};
  if (!plan_of(&w)) return false;
  w.copy0 = ix(&w, 0);
  anfi_low_open(L);
  if (q->way == ANFI_CONV_FORWARD) anfi_cv_forward(&w);
  else if (q->way == ANFI_CONV_BY_INPUT) anfi_cv_by_input(&w);
  else anfi_cv_by_weights(&w);
  anfi_low_add(L, anfi_low_close(L));
  return true;
}
