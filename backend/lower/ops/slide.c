// SPDX-License-Identifier: Apache-2.0
/* Rows of windows by vectors (slide.h).
 *   y[i] = x[i] + x[i + 1], 16 lanes   ->   y[0..16] = x[0..16] + x[1..17]: two loads and an addition
 * Hard case: with a stride of 2 a tap takes every second lane of a load that is twice as wide and starts at an even
 * distance, so that two taps share it. */
#include "backend/lower/ops/slide.h"

enum { WIDEST = 16, NARROWEST = 4, MAX_TAPS = 16, MAX_EDGES = 4 };

/* The vector width with the fewest lanes computed twice. */
static int64_t lanes_of(const anfi_slide *s) {
  if (s->lanes) return s->lanes;
  int64_t wide = (s->n + WIDEST - 1) / WIDEST, half = (s->n + WIDEST / 2 - 1) / (WIDEST / 2);
  if (s->n >= WIDEST && half == 2 * wide) return WIDEST;
  return s->n >= WIDEST / 2 ? WIDEST / 2 : NARROWEST;
}

static int64_t phase(const anfi_slide *s, int64_t t) {
  return s->stride == 2 ? (s->first + t * s->step) & 1 : 0;
}

/* The begin of tap t's load, relative to the place of the first lane's first result. */
static int64_t begin(const anfi_slide *s, int64_t t) {
  return s->first + t * s->step - phase(s, t);
}

/* Are all lanes of all loads of a part inside? */
static bool is_inner(const anfi_slide *s, int64_t start) {
  int64_t from = start * s->stride + begin(s, 0),
          to = start * s->stride + begin(s, s->taps - 1) + lanes_of(s) * s->stride;
  return from >= 0 && to <= s->in;
}

static int64_t part_count(const anfi_slide *s) { return (s->n + lanes_of(s) - 1) / lanes_of(s); }

static int64_t start_of(const anfi_slide *s, int64_t part) {
  int64_t at = part * lanes_of(s), last = s->n - lanes_of(s);
  return at < last || last < 0 ? at : last;
}

/* The inner parts that are whole: from..to. */
static void inner_parts(const anfi_slide *s, int64_t *from, int64_t *to) {
  int64_t whole = s->n / lanes_of(s);
  *from = 0;
  while (*from < whole && !is_inner(s, start_of(s, *from))) ++*from;
  *to = *from;
  while (*to < whole && is_inner(s, start_of(s, *to))) ++*to;
}

bool anfi_slide_fits(const anfi_slide *s, anf_dtype d) {
  int64_t from, to;
  if (d != ANF_F32 && d != ANF_F64) return false;
  if (s->n < NARROWEST || s->taps < 1 || s->taps > MAX_TAPS) return false;
  if (s->stride != 1 && s->stride != 2) return false;
  inner_parts(s, &from, &to);
  return part_count(s) - (to - from) <= MAX_EDGES;
}

uint16_t anfi_slide_lanes(const anfi_slide *s) { return (uint16_t)lanes_of(s); }

void anfi_slide_row(anfi_low *L, const anfi_slide *s, anfi_slide_each each, void *user) {
  int64_t lanes = lanes_of(s), from, to;
  anfi_slide_part p = {.L = L, .s = s, .lanes = (uint16_t)lanes};
  inner_parts(s, &from, &to);
  for (int64_t k = 0; k < part_count(s); k++) {
    p.at = anfi_ix(L, (uint64_t)start_of(s, k));
    p.repeated = k * lanes - start_of(s, k);
    if (k != from || to - from < 2) {
      each(user, &p);
      continue;
    }
    anfi_loop l;
    anfi_low_loop_range(L, &l, p.at, anfi_ix(L, (uint64_t)(to * lanes)), (uint64_t)lanes, "o");
    p.at = l.var;
    each(user, &p);
    anfi_low_loop_end(L, &l);
    k = to - 1;
  }
}

static tdtype wide(tdtype d, int64_t lanes) {
  d.lanes = (uint16_t)lanes;
  return d;
}

/* A mask of the lanes that are inside, of n lanes at elements `at`, `at` + `by`, .. of the row, of which those from `real` on
 * do not matter; NULL: all are. */
static texpr lanes_inside(const anfi_slide_part *p, int64_t at, int64_t n, int64_t by,
                          int64_t real) {
  uint64_t bits[2 * WIDEST];
  bool all = true;
  for (int64_t k = 0; k < n; k++, at += by)
    all &= (bits[k] = k >= real || (at >= 0 && at < p->s->in)) != 0;
  return all ? NULL : anfi_t_bits(p->L->t, wide(ANFI_BOOL, n), (uint32_t)n, bits);
}

/* Lane k is lane from + k * stride of x, 0 where there is none. */
static texpr picked(const anfi_slide_part *p, texpr x, int64_t from) {
  tstore *t = p->L->t;
  int64_t n = x->dtype.lanes;
  texpr in[2 + WIDEST] = {x, anfi_t_int(t, x->dtype, 0)};
  if (n == p->lanes && !from) return x;
  for (int k = 0; k < p->lanes; k++, from += p->s->stride)
    in[2 + k] = anfi_t_s32(t, (int32_t)(from < 0 ? n : from));
  x = anfi_t_intrin(t, TI_shuffle, wide(x->dtype, p->lanes), p->lanes + 2u, in, (tattrs){0});
  return anfi_low_let(p->L, x, "x");
}

/* A load never begins before the row: there may be nothing. */
texpr anfi_slide_load(const anfi_slide_part *p, texpr tensor, texpr row, int64_t t, texpr *inside) {
  const anfi_slide *s = p->s;
  int64_t n = p->lanes * s->stride, start, missing = 0;
  texpr mask = *inside = NULL, at;
  if (anfi_t_const_i64(p->at, &start)) {
    start = start * s->stride + begin(s, t);
    *inside = lanes_inside(p, start + phase(s, t), p->lanes, s->stride, s->n);
    if (start < 0) missing = -start;
    mask = lanes_inside(p, start += missing, n, 1, n);
    at = anfi_ix_addc(p->L, row, start < s->in ? start : s->in);
  } else {
    at = anfi_ix_addc(p->L, anfi_ix_mulc(p->L, p->at, (uint64_t)s->stride), begin(s, t));
    at = anfi_ix_add(p->L, row, at);
  }
  texpr x = anfi_low_let(p->L, anfi_t_at(p->L->t, tensor, 1, &at, (uint16_t)n, 0, mask), "x");
  return picked(p, x, phase(s, t) - missing);
}

texpr anfi_slide_all(const anfi_slide_part *p, texpr x) {
  return anfi_t_intrin(p->L->t, TI_broadcast, wide(x->dtype, p->lanes), 1, &x, (tattrs){0});
}

void anfi_slide_put(const anfi_slide_part *p, texpr to, texpr row, texpr value) {
  texpr at = anfi_ix_add(p->L, row, p->at);
  uint64_t real[WIDEST];
  for (int64_t k = 0; k < p->lanes; k++) real[k] = k < p->s->n;
  texpr mask =
      p->lanes <= p->s->n ? NULL : anfi_t_bits(p->L->t, wide(ANFI_BOOL, p->lanes), p->lanes, real);
  anfi_low_set(p->L, anfi_t_at(p->L->t, to, 1, &at, p->lanes, 0, mask), value);
}
