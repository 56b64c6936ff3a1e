// SPDX-License-Identifier: Apache-2.0
/* Gradients of convolutions by kernels (conv.h).
 *   by the input, stride 1    a convolution of dy with the taps from the last on, inputs and outputs exchanged
 *   by the input, stride 2    each phase of the input apart: dx[phase, row] = list_brgemm of the taps that belong to it
 *   by the weights            dw[tap] = sum over rows of dy[row] @ x[row + tap], with channels next to each other */
#include "backend/lower/gemm/conv.h"

/* ---- by the input ---- */

/* Copies dy to [co][extent] with zeros around it: index o of each dim goes to o + reach. */
static void copy_dy(walk *w, texpr from) {
  const anfi_window *v = &w->c->win;
  uint64_t co = u(w->c->co), e[4] = {co, u(v->out[0]), u(v->out[1]), u(v->out[2])};
  nest k;
  w->copy = anfi_low_local(w->L, w->elem, co * w->plane, "phases");
  anfi_cv_fill(w, w->copy, co * w->plane);
  anfi_cv_open(w, &k, 4, e, false);
  texpr dst = k.at[0];
  for (size_t d = 0; d < 3; d++)
    dst = add(w, mulc(w, dst, w->extent[d]), anfi_ix_addc(w->L, k.at[d + 1], (int64_t)w->reach[d]));
  store(w, w->copy, dst, load(w, w->q->y, add(w, from, anfi_cv_mixed(w, 4, k.at, e))));
  anfi_cv_close(w, &k);
}

typedef struct span { // of one phase: numbers lo..hi lie inside
  uint64_t lo[3], n[3];
} span;

static bool span_of(const walk *w, const uint64_t *f, span *s) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++) {
    int64_t a = up(v->before[d] - (int64_t)f[d], v->stride[d]),
            b = up(v->in[d] + v->before[d] - (int64_t)f[d], v->stride[d]);
    s->lo[d] = a > 0 ? u(a) : 0;
    if (b <= (int64_t)s->lo[d]) return false;
    s->n[d] = u(b) - s->lo[d];
  }
  return true;
}

static bool in_phase(const walk *w, const uint64_t *f, uint64_t tap, uint64_t *more) {
  uint64_t e[3], t[3];
  kernel_dims(w, e);
  t[0] = tap / (e[1] * e[2]), t[1] = tap / e[2] % e[1], t[2] = tap % e[2];
  for (size_t d = 0; d < 3; d++) {
    uint64_t j = t[d] * u(w->c->win.dilation[d]), s = u(w->c->win.stride[d]);
    if (j % s != f[d]) return false;
    more[d] = j / s;
  }
  return true;
}

/* A row of one phase, as a product into `sums`: [ci][n]. */
static uint64_t phase_row(const walk *w, const uint64_t *f, const span *s, const texpr *q,
                          texpr sums, uint64_t ld, texpr start, bool init) {
  uint64_t ci = u(w->c->ci), co = u(w->c->co), more[3], n = 0, count = 0;
  for (uint64_t tap = 0; tap < w->taps; tap++) count += in_phase(w, f, tap, more);
  if (!count) return 0;
  weights_at from = anfi_cv_weights(w, ix(w, 0), ci, ix(w, 0));
  texpr la = anfi_cv_list(w, count), lb = anfi_cv_list(w, count);
  for (uint64_t tap = 0; tap < w->taps; tap++) {
    if (!in_phase(w, f, tap, more)) continue;
    texpr o[3] = {q[0], q[1], ix(w, 0)};
    for (size_t d = 0; d < 3; d++)
      o[d] = anfi_ix_addc(w->L, o[d], (int64_t)(s->lo[d] + w->reach[d] - more[d]));
    anfi_cv_put_list(w, la, ix(w, n), at(w, w->weights, add(w, from.start, ix(w, tap * from.tap))));
    anfi_cv_put_list(w, lb, ix(w, n++), at(w, w->copy, anfi_cv_mixed(w, 3, o, w->extent)));
  }
  uint64_t size[] = {1, ci, s->n[2], co, from.row, w->plane, ld, 0, 0};
  anfi_cv_product(w, anfi_cv_first(w, la), anfi_cv_first(w, lb), at(w, sums, start), size,
                  ix(w, count), init, true);
  return count;
}

/* Rows of sums begin with the bias of their channel, if there is one. */
static void begin_rows(const walk *w, texpr sums, texpr channel0, texpr to, uint64_t m, uint64_t n,
                       uint64_t ld) {
  if (!w->q->bias) return;
  nest k;
  anfi_cv_open(w, &k, 2, (uint64_t[]){m, n}, false);
  texpr b = load(w, w->q->bias, add(w, channel0, k.at[0]));
  store(w, sums, add(w, to, add(w, mulc(w, k.at[0], ld), k.at[1])), b);
  anfi_cv_close(w, &k);
}

static void one_phase(const walk *w, const uint64_t *f, texpr to, texpr channel0) {
  const anfi_window *v = &w->c->win;
  uint64_t ci = u(w->c->ci);
  span s;
  nest r, k;
  if (!span_of(w, f, &s)) return;
  anfi_cv_open(w, &r, 2, s.n, anfi_cv_parallel(w) && w->c->n == 1);
  texpr at0[3] = {r.at[0], r.at[1], ix(w, 0)}, row = ix(w, 0);
  for (size_t d = 0; d < 3; d++) // where number lo + q of the phase is in x
    row = add(w, mulc(w, row, u(v->in[d])),
              anfi_ix_addc(w->L, mulc(w, at0[d], u(v->stride[d])),
                           (int64_t)(s.lo[d] * u(v->stride[d]) + f[d]) - v->before[d]));
  row = anfi_low_atom(w->L, add(w, to, row));
  bool dense = v->stride[2] == 1;
  if (dense) {
    begin_rows(w, w->q->to, channel0, row, ci, s.n[2], w->in);
    if (!phase_row(w, f, &s, r.at, w->q->to, w->in, row, !w->q->bias) && !w->q->bias) {
      anfi_cv_open(w, &k, 2, (uint64_t[]){ci, s.n[2]}, false);
      store(w, w->q->to, add(w, row, add(w, mulc(w, k.at[0], w->in), k.at[1])),
            anfi_low_const(w->L, anfi_t_dt(w->elem), 0));
      anfi_cv_close(w, &k);
    }
  } else {
    texpr sums = anfi_low_local(w->L, w->elem, ci * s.n[2], "row"), x;
    bool any = phase_row(w, f, &s, r.at, sums, s.n[2], ix(w, 0), true);
    anfi_cv_open(w, &k, 2, (uint64_t[]){ci, s.n[2]}, false);
    x = any ? load(w, sums, add(w, mulc(w, k.at[0], s.n[2]), k.at[1]))
            : anfi_low_const(w->L, anfi_t_dt(w->elem), 0);
    if (w->q->bias) x = anfi_t_add(w->L->t, load(w, w->q->bias, add(w, channel0, k.at[0])), x);
    store(w, w->q->to,
          add(w, row, add(w, mulc(w, k.at[0], w->in), mulc(w, k.at[1], u(v->stride[2])))), x);
    anfi_cv_close(w, &k);
  }
  anfi_cv_close(w, &r);
}

static void by_phases(walk *w) {
  const anfi_window *v = &w->c->win;
  uint64_t f[3];
  nest g, n;
  w->unpacked = w->taps == 1;
  place p = anfi_cv_open_images(w, w, &g, &n);
  copy_dy(w, p.y);
  for (f[0] = 0; f[0] < u(v->stride[0]); f[0]++)
    for (f[1] = 0; f[1] < u(v->stride[1]); f[1]++)
      for (f[2] = 0; f[2] < u(v->stride[2]); f[2]++) one_phase(w, f, p.x, p.ci0);
  anfi_cv_close(w, &n);
  anfi_cv_close(w, &g);
}

/* Is it a convolution of dy? Not if dy would be cropped. */
static bool is_forward(const walk *w) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++)
    if (v->stride[d] != 1 || (v->kernel[d] - 1) * v->dilation[d] < v->before[d]) return false;
  return true;
}

void anfi_cv_by_input(walk *w) {
  if (!is_forward(w)) {
    by_phases(w);
    return;
  }
  anfi_conv c = *w->c;
  anfi_conv_work q = *w->q;
  walk of = *w;
  of.c = &c, of.q = &q, of.flipped = true;
  c.ci = w->c->co, c.co = w->c->ci;
  q.way = ANFI_CONV_FORWARD, q.x = q.y;
  for (size_t d = 0; d < 3; d++) {
    c.win.in[d] = w->c->win.out[d], c.win.out[d] = w->c->win.in[d];
    c.win.before[d] = (c.win.kernel[d] - 1) * c.win.dilation[d] - c.win.before[d];
  }
  of.step = u(c.ci);
  anfi_cv_sizes(&of);
  anfi_cv_forward(&of);
}

/* ---- by the weights ---- */

/* Images whose copies stay in the second cache: a tap's sums go through memory once for all of them. */
static uint64_t images_at_once(const walk *w) {
  enum { BYTES = 1 << 19 };
  uint64_t n = u(w->c->n),
           bytes = w->phases * u(w->c->ci) * w->plane * anfi_t_bytes(anfi_t_dt(w->elem)),
           most = BYTES / bytes;
  return most < 1 ? 1 : most < n ? most : n;
}

/* Adds rows of `images` images, one after the other, to the sums of tap number `number`. */
static void one_tap(const walk *w, const texpr *tap, texpr number, const place *p,
                    uint64_t images) {
  const anfi_window *v = &w->c->win;
  uint64_t ci = u(w->c->ci), co = u(w->c->co), all = w->phases * ci * w->plane,
           rows = images * u(v->out[1]);
  texpr phase, more[3], ly = anfi_cv_list(w, rows), lx = anfi_cv_list(w, rows);
  anfi_loop o;
  nest k;
  anfi_cv_split_tap(w, tap, &phase, more);
  anfi_low_loop(w->L, &o, u(v->out[0]), "o");
  anfi_cv_open(w, &k, 2, (uint64_t[]){images, u(v->out[1])}, false);
  texpr pos[3] = {add(w, o.var, more[0]), add(w, k.at[1], more[1]), more[2]},
        x = add(w, mulc(w, phase, w->plane), anfi_cv_mixed(w, 3, pos, w->extent)),
        y = add(w, mulc(w, o.var, u(v->out[1])), k.at[1]),
        nth = anfi_cv_mixed(w, 2, k.at, (uint64_t[]){0, u(v->out[1])});
  x = add(w, mulc(w, k.at[0], all), mulc(w, x, ci));
  y = add(w, add(w, p->y, mulc(w, k.at[0], u(w->c->groups) * co * w->out)),
          mulc(w, y, u(v->out[2])));
  nth = anfi_low_atom(w->L, nth);
  anfi_cv_put_list(w, ly, nth, at(w, w->q->y, y));
  anfi_cv_put_list(w, lx, nth, at(w, w->copy, x));
  anfi_cv_close(w, &k);
  uint64_t size[] = {1, co, ci, u(v->out[2]), w->out, ci, ci, 0, 0};
  anfi_cv_product(w, anfi_cv_first(w, ly), anfi_cv_first(w, lx),
                  at(w, w->weights, mulc(w, number, co * ci)), size, ix(w, rows), false, false);
  anfi_low_loop_end(w->L, &o);
}

/* [co][ci][taps] of one group, from the sums of all images. */
static void transpose_weights(const walk *w, texpr group) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci);
  nest k;
  anfi_cv_open(w, &k, 1, &co, anfi_cv_parallel(w));
  texpr to = mulc(w, add(w, mulc(w, group, co), k.at[0]), ci * w->taps);
  anfi_low_transpose(w->L, &(anfi_transposed){.elem = w->elem,
                                              .from = w->weights,
                                              .to = w->q->to,
                                              .from0 = anfi_low_atom(w->L, mulc(w, k.at[0], ci)),
                                              .to0 = anfi_low_atom(w->L, to),
                                              .rows = w->taps,
                                              .cols = ci,
                                              .from_ld = co * ci,
                                              .to_ld = w->taps});
  anfi_cv_close(w, &k);
}

/* [co][ci][taps] of one group, from the sums of each part, which are added in order. */
static void unpack_weights(const walk *w, texpr group, uint64_t parts) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci), e[3] = {co, ci, w->taps};
  nest k;
  anfi_cv_open(w, &k, 3, e, false);
  texpr from[3] = {k.at[2], k.at[0], k.at[1]};
  texpr at = anfi_low_atom(w->L, anfi_cv_mixed(w, 3, from, (uint64_t[]){w->taps, co, ci})),
        x = load(w, w->weights, at);
  for (uint64_t p = 1; p < parts; p++)
    x = anfi_t_add(w->L->t, x,
                   load(w, w->weights, anfi_ix_addc(w->L, at, (int64_t)(p * co * ci * w->taps))));
  store(w, w->q->to, add(w, mulc(w, group, co * ci * w->taps), anfi_cv_mixed(w, 3, k.at, e)), x);
  anfi_cv_close(w, &k);
}

/* Adds the gradient of images from `image` on to sums from `sums` on. */
static void some_images(walk *w, texpr image, uint64_t images, texpr group, texpr sums,
                        bool in_parallel) {
  uint64_t taps[3];
  nest t;
  if (!images) return;
  kernel_dims(w, taps);
  anfi_low_open(w->L); // the copy ends with it
  place p = anfi_cv_place(w, image, group);
  anfi_cv_copy_images(w, p.x, images);
  anfi_cv_open(w, &t, 3, taps, in_parallel);
  one_tap(w, t.at, add(w, sums, anfi_cv_mixed(w, 3, t.at, taps)), &p, images);
  anfi_cv_close(w, &t);
  anfi_low_add(w->L, anfi_low_close(w->L));
}

/* Images are shared among tasks with sums of their own, if these are few and long; by the shape alone,
 * as slices of K are (slices.c). */
static uint64_t parts_of(const walk *w) {
  enum { MOST_SUMS = 1 << 16, LEAST_STEPS = 1024 };
  uint64_t n = u(w->c->n), sums = u(w->c->co * w->c->ci) * w->taps, most = n * w->out / LEAST_STEPS;
  if (n > ANFI_LOW_TASKS) n = ANFI_LOW_TASKS;
  return sums > MOST_SUMS || !most ? 1 : n < most ? n : most;
}

/* The images of part `nth`: of those that cut n in `parts`, nearly equal. */
static void images_of_part(walk *w, texpr nth, uint64_t parts, texpr group) {
  anfi_low *L = w->L;
  anfi_loop i;
  uint64_t n = u(w->c->n);
  texpr first = anfi_low_atom(L, anfi_ix_divc(L, mulc(w, nth, n), parts)),
        end = anfi_low_atom(
            L, anfi_ix_divc(L, mulc(w, anfi_low_atom(L, anfi_ix_addc(L, nth, 1)), n), parts)),
        sums = anfi_low_atom(L, mulc(w, nth, w->taps));
  anfi_low_loop_range(L, &i, first, end, 1, "n");
  some_images(w, i.var, 1, group, sums, false);
  anfi_low_loop_end(L, &i);
}

static void all_images(walk *w, texpr group) {
  uint64_t n = u(w->c->n), some = images_at_once(w), full = n / some;
  anfi_loop i;
  anfi_low_loop(w->L, &i, full, "n");
  some_images(w, anfi_low_atom(w->L, mulc(w, i.var, some)), some, group, ix(w, 0),
              anfi_cv_parallel(w));
  anfi_low_loop_end(w->L, &i);
  some_images(w, ix(w, full * some), n % some, group, ix(w, 0), anfi_cv_parallel(w));
}

void anfi_cv_by_weights(walk *w) {
  uint64_t groups = u(w->c->groups), parts = parts_of(w),
           sums = parts * u(w->c->co * w->c->ci) * w->taps;
  nest g, p;
  anfi_cv_open(w, &g, 1, &groups, false);
  w->weights = anfi_low_local(w->L, w->elem, sums, "taps");
  anfi_cv_fill(w, w->weights, sums);
  if (w->c->n && parts == 1) all_images(w, g.at[0]);
  else if (w->c->n) {
    anfi_cv_open(w, &p, 1, &parts, anfi_cv_parallel(w));
    images_of_part(w, p.at[0], parts, g.at[0]);
    anfi_cv_close(w, &p);
  }
  if (parts == 1) transpose_weights(w, g.at[0]);
  else unpack_weights(w, g.at[0], parts);
  anfi_cv_close(w, &g);
}
