// SPDX-License-Identifier: Apache-2.0
/* Fourier transforms, in double and rounded once, by passes that are helpers (fourier.tir).
 *   Fft(x), x: f32[64, 4096]   ->   rounds of 8 rows:  real parts as [2048, 8];  passes of radix 4;  the rows of the result
 * Lanes are the lines that are transformed; several stand side by side, so that passes run over contiguous memory, whatever the axis.
 * A long line stands alone: as a matrix [a, b] its columns are transformed, turned by roots, and transformed again as [b, a]. Where
 * the length has a large prime, the line is convolved (ir/ops/fourier.c). Lines of real numbers of even length are pairs, as complex
 * numbers of half the length. */
#include <math.h>

#include "backend/lower/low.h"
#include "ir/ops/kernel.h"

enum { SHORT = 4096, BLOCK = 8192, LEAST = 8 };

typedef struct fourier {
  anfi_low *L;
  /* the lines */
  uint64_t outer, n, inner, lanes;
  const anfi_view *x;
  bool inverse, halves; // halves: real, of even length
  /* the transform: s lines of length h side by side */
  uint64_t h, s, size; // size: elements of each array
  texpr re, im, re2, im2;
  texpr to;
  tdtype part; // of the result
} fourier;

typedef struct roots {
  texpr re, im;
  uint64_t n;
} roots;

/* ---- tables ---- */

static roots table_of(anfi_low *L, uint64_t n, const double *pairs) {
  roots r = {.n = n};
  uint64_t *bits = ANFI_NEW_N(L->a, uint64_t, n);
  for (size_t part = 0; part < 2; part++) {
    for (uint64_t k = 0; k < n; k++) memcpy(bits + k, pairs + 2 * k + part, sizeof *bits);
    texpr t = anfi_low_table(L, ANFI_F64, n, bits);
    if (part) r.im = t;
    else r.re = t;
  }
  return r;
}

/* exp(-2 pi i k stride / n) for k < count */
static roots roots_of(anfi_low *L, uint64_t n, uint64_t count, uint64_t stride) {
  double *pairs = ANFI_NEW_N(L->a, double, 2 * count);
  for (uint64_t k = 0; k < count; k++) anfi_fourier_root(n, k * stride, pairs + 2 * k);
  return table_of(L, count, pairs);
}

/* ---- passes ---- */

static void swap(texpr *a, texpr *b) {
  texpr t = *a;
  *a = *b, *b = t;
}

/* The helper reads the arrays and writes the others, which take their place. */
static void call(fourier *f, const char *name, size_t n, const uint64_t *number, const roots *w,
                 const roots *w2) {
  anfi_low *L = f->L;
  texpr in[16];
  uint32_t k = 0;
  for (size_t i = 0; i < n; i++) in[k++] = anfi_ix(L, number[i]);
  in[k++] = anfi_ix(L, f->size);
  in[k++] = anfi_ix(L, w->n);
  if (w2) in[k++] = anfi_ix(L, w2->n);
  in[k++] = f->re, in[k++] = f->im, in[k++] = f->re2, in[k++] = f->im2;
  in[k++] = w->re, in[k++] = w->im;
  if (w2) in[k++] = w2->re, in[k++] = w2->im;
  anfi_low_add(L, anfi_t_eval(L->t, anfi_low_help(L, name, anfi_t_dt(ANF_TIR_void), k, in)));
  swap(&f->re, &f->re2), swap(&f->im, &f->im2);
}

/* Along the first dim of [n, s], where n has small factors. */
static void passes(fourier *f, uint64_t n, uint64_t s) {
  uint64_t factor[64], step = 1;
  size_t count = anfi_fourier_factors(n, factor);
  if (!count) return;
  roots w = roots_of(f->L, n, n, 1);
  for (size_t i = 0; i < count; step *= factor[i++]) {
    uint64_t r = factor[i], number[4] = {r, n / (r * step), s * step, step};
    const char *name = r == 4   ? "anf_fft_4"
                       : r == 2 ? "anf_fft_2"
                       : r == 3 ? "anf_fft_3"
                       : r == 5 ? "anf_fft_5"
                                : NULL;
    if (name) call(f, name, 3, number + 1, &w, NULL);
    else call(f, "anf_fft_any", 4, number, &w, NULL);
  }
}

/* The factor of n that is nearest to its root, 1 if there is none of which both parts are worth a pass. */
static uint64_t split_of(uint64_t n) {
  uint64_t best = 1;
  for (uint64_t a = LEAST; a * a <= n; a++)
    if (n % a == 0) best = a;
  return best;
}

/* Of one line whose length has small factors: of columns, of rows. */
static void one_line(fourier *f, uint64_t n) {
  uint64_t a = split_of(n), b = n / a, shift = 0;
  if (a == 1) {
    passes(f, n, 1);
    return;
  }
  passes(f, a, b);
  while (UINT64_C(1) << (2 * shift) < n) shift++;
  roots low = roots_of(f->L, n, UINT64_C(1) << shift, 1);
  roots high = roots_of(f->L, n, (n >> shift) + 1, UINT64_C(1) << shift);
  call(f, "anf_fft_turn", 3, (uint64_t[]){a, b, shift}, &low, &high);
  passes(f, b, a);
}

static void smooth(fourier *f, uint64_t n) {
  if (f->s == 1) one_line(f, n);
  else passes(f, n, f->s);
}

/* The transform of the other sign is that with the parts exchanged. */
static void exchange(fourier *f) { swap(&f->re, &f->im), swap(&f->re2, &f->im2); }

static void convolve(fourier *f, uint64_t n, uint64_t size) {
  anfi_low *L = f->L;
  const double *chirp = anfi_fourier_chirp(L->a, n);
  roots c = table_of(L, n, chirp), k = table_of(L, size, anfi_fourier_kernel(L->a, n, chirp));
  call(f, "anf_fft_scale", 3, (uint64_t[]){n, size, f->s}, &c, NULL);
  smooth(f, size);
  call(f, "anf_fft_scale", 3, (uint64_t[]){size, size, f->s}, &k, NULL);
  exchange(f);
  smooth(f, size);
  exchange(f);
  call(f, "anf_fft_scale", 3, (uint64_t[]){n, n, f->s}, &c, NULL);
}

/* ---- lines in and out ---- */

typedef struct lane { // of a block
  texpr o, i;
} lane;

/* Where lane `first + b` is: its row of the outer dims and its place in the inner ones. */
static lane lane_at(fourier *f, texpr first, texpr b) {
  anfi_low *L = f->L;
  texpr g = anfi_ix_add(L, first, b);
  if (f->inner % f->s == 0 && f->lanes % f->s == 0) // blocks do not straddle
    return (lane){anfi_ix_divc(L, first, f->inner),
                  anfi_ix_add(L, anfi_ix_modc(L, first, f->inner), b)};
  return (lane){anfi_ix_divc(L, g, f->inner), anfi_ix_modc(L, g, f->inner)};
}

static anfi_elem element(fourier *f, const lane *l, texpr j) {
  anfi_pt p = {0};
  anfi_low *L = f->L;
  anfi_pt_push(&p, l->o, f->outer);
  anfi_pt_push(&p, j, f->n);
  anfi_pt_push(&p, l->i, f->inner);
  anfi_elem e = anfi_view_at(L, f->x, &p);
  anf_dtype to = f->x->complex ? ANF_C128 : ANF_F64;
  return anfi_scalar_cast(L, e, f->x->dtype, to);
}

static void load_one(fourier *f, const lane *l, texpr j, texpr b) {
  anfi_low *L = f->L;
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, j, f->s), b);
  anfi_elem e = element(f, l, f->halves ? anfi_ix_mulc(L, j, 2) : j);
  texpr im = f->halves       ? element(f, l, anfi_ix_addc(L, anfi_ix_mulc(L, j, 2), 1)).re
             : f->x->complex ? e.im
                             : anfi_low_const(L, ANFI_F64, 0);
  anfi_low_put(L, f->re, at, (anfi_elem){e.re, NULL}, false);
  anfi_low_put(L, f->im, at, (anfi_elem){im, NULL}, false);
}

static void put_one(fourier *f, const lane *l, texpr k, texpr re, texpr im) {
  anfi_low *L = f->L;
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, l->o, f->n), k);
  at = anfi_ix_add(L, anfi_ix_mulc(L, at, f->inner), l->i);
  anfi_low_put(L, f->to, at,
               (anfi_elem){anfi_t_cast(L->t, f->part, re), anfi_t_cast(L->t, f->part, im)}, true);
}

static texpr at_lane(fourier *f, texpr array, texpr k, texpr b) {
  anfi_low *L = f->L;
  return anfi_low_atom(L, anfi_low_load(L, array, anfi_ix_add(L, anfi_ix_mulc(L, k, f->s), b)));
}

static void store_one(fourier *f, const lane *l, texpr k, texpr b) {
  put_one(f, l, k, at_lane(f, f->re, k, b), at_lane(f, f->im, k, b));
}

static texpr half(anfi_low *L, texpr x) {
  return anfi_low_atom(L, anfi_t_mul(L->t, x, anfi_low_const(L, ANFI_F64, 0.5)));
}

/* Elements k and n - k of a line of pairs: with z of half the length, e + w o and its conjugate, where e = (z[k] + conj z[h - k]) / 2
 * and o = -i (z[k] - conj z[h - k]) / 2. */
static void store_pair(fourier *f, const lane *l, texpr k, texpr b, const roots *w) {
  anfi_low *L = f->L;
  tstore *t = L->t;
  texpr other = anfi_low_atom(L, anfi_t_select(t, anfi_t_bin(t, TX_cmp_eq, k, anfi_ix(L, 0)),
                                               anfi_ix(L, 0), anfi_t_sub(t, anfi_ix(L, f->h), k)));
  texpr zr = at_lane(f, f->re, k, b), zi = at_lane(f, f->im, k, b);
  texpr yr = at_lane(f, f->re, other, b), yi = at_lane(f, f->im, other, b);
  texpr er = half(L, anfi_t_add(t, zr, yr)), ei = half(L, anfi_t_sub(t, zi, yi));
  texpr or = half(L, anfi_t_add(t, zi, yi)), oi = half(L, anfi_t_sub(t, yr, zr));
  texpr wr = anfi_low_atom(L, anfi_low_load(L, w->re, k)),
        wi = anfi_low_atom(L, anfi_low_load(L, w->im, k));
  texpr pr = anfi_low_atom(L, anfi_t_sub(t, anfi_t_mul(t, or, wr), anfi_t_mul(t, oi, wi)));
  texpr pi = anfi_low_atom(L, anfi_t_add(t, anfi_t_mul(t, or, wi), anfi_t_mul(t, oi, wr)));
  texpr re = anfi_low_atom(L, anfi_t_add(t, er, pr)), im = anfi_low_atom(L, anfi_t_add(t, ei, pi));
  texpr minus = anfi_low_atom(L, anfi_t_mul(t, im, anfi_low_const(L, ANFI_F64, -1)));
  put_one(f, l, k, re, f->inverse ? minus : im);
  anfi_low_if(L);
  put_one(f, l, anfi_t_sub(t, anfi_ix(L, f->n), k), re, f->inverse ? im : minus);
  anfi_low_if_end(L, anfi_t_bin(t, TX_cmp_gt, k, anfi_ix(L, 0)));
}

/* Element h of a line of pairs: the difference of its sums. */
static void store_middle(fourier *f, const lane *l, texpr b) {
  anfi_low *L = f->L;
  texpr zero = anfi_ix(L, 0), r = at_lane(f, f->re, zero, b), i = at_lane(f, f->im, zero, b);
  put_one(f, l, anfi_ix(L, f->h), anfi_low_atom(L, anfi_t_sub(L->t, r, i)),
          anfi_low_const(L, ANFI_F64, 0));
}

typedef enum way { IN, OUT, OUT_PAIRS } way;

/* Moves the block of lanes that begins with `first`: of lines that are contiguous a few elements of each lane at a time. */
static void move(fourier *f, texpr first, way y) {
  enum { PART = 16 };
  anfi_low *L = f->L;
  anfi_loop at, b, k;
  uint64_t count = f->h, parts = f->inner == 1 && f->s > 1 ? (count + PART - 1) / PART : count;
  uint64_t size = parts == count ? 1 : PART;
  roots w = {0};
  if (y == OUT_PAIRS) w = roots_of(L, f->n, f->h, 1);
  anfi_low_loop(L, &at, parts, "part");
  anfi_sizes s = {.full = size, .last = count - (parts - 1) * size};
  while (anfi_low_each_size(L, &s, at.var, parts)) {
    anfi_low_loop(L, &b, f->s, "lane");
    lane l = lane_at(f, first, b.var);
    anfi_low_loop(L, &k, s.size, "k");
    texpr j = anfi_ix_add(L, anfi_ix_mulc(L, at.var, size), k.var);
    if (y == IN) load_one(f, &l, j, b.var);
    else if (y == OUT) store_one(f, &l, j, b.var);
    else store_pair(f, &l, j, b.var, &w);
    anfi_low_loop_end(L, &k);
    anfi_low_loop_end(L, &b);
  }
  anfi_low_loop_end(L, &at);
  if (y != OUT_PAIRS) return;
  anfi_low_loop(L, &b, f->s, "lane");
  lane l = lane_at(f, first, b.var);
  store_middle(f, &l, b.var);
  anfi_low_loop_end(L, &b);
}

static void block(fourier *f, texpr first, uint64_t s) {
  anfi_low *L = f->L;
  uint64_t length = anfi_fourier_length(f->h);
  fourier g = *f;
  g.s = s;
  g.size = length * s;
  g.re = anfi_low_local(L, ANF_TIR_f64, g.size, "re");
  g.im = anfi_low_local(L, ANF_TIR_f64, g.size, "im");
  g.re2 = anfi_low_local(L, ANF_TIR_f64, g.size, "re");
  g.im2 = anfi_low_local(L, ANF_TIR_f64, g.size, "im");
  move(&g, first, IN);
  if (g.inverse && !g.halves) exchange(&g);
  if (length == g.h) smooth(&g, g.h);
  else convolve(&g, g.h, length);
  if (g.inverse && !g.halves) exchange(&g);
  move(&g, first, g.halves ? OUT_PAIRS : OUT);
}

/* How many lines stand side by side. */
static uint64_t lanes_of(const fourier *f) {
  uint64_t length = anfi_fourier_length(f->h);
  if (length > SHORT || (f->lanes < LEAST && split_of(length) > 1)) return 1;
  uint64_t most = BLOCK / length > LEAST ? BLOCK / length : LEAST;
  if (most > f->lanes) most = f->lanes;
  return most;
}

bool anfi_lower_fft(anfi_low *L, const anfi_low_op *q, anfi_view **out) { // axis inverse
  fourier f = {.L = L, .x = q->in[0], .inverse = anfi_attr_bool(q->attr[1])};
  size_t axis = 0, outer, n, inner;
  anfi_loop l;
  f.to = anfi_low_result(L, q, 0, q->type);
  f.part = anfi_low_dt((anf_dtype)q->type->dtype);
  out[0] = anfi_view_of_result(L, q->type, f.to);
  if (!out[0]->n) return true;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &outer, &n, &inner);
  f.outer = outer, f.n = n, f.inner = inner, f.lanes = f.outer * f.inner;
  f.halves = !f.x->complex && n % 2 == 0 && n > 2;
  f.h = f.halves ? n / 2 : n;
  anfi_view_force(L, q->in[0]);
  uint64_t s = lanes_of(&f), blocks = (f.lanes + s - 1) / s;
  anfi_low_loop(L, &l, blocks, "block");
  anfi_sizes size = {.full = s, .last = f.lanes - (blocks - 1) * s};
  texpr first = anfi_low_atom(L, anfi_ix_mulc(L, l.var, s));
  while (anfi_low_each_size(L, &size, l.var, blocks)) block(&f, first, size.size);
  anfi_low_loop_end(L, &l);
  return true;
}
