// SPDX-License-Identifier: Apache-2.0
/* What convolutions copy (conv.h): their weights, block of K by block, and the rows of the input that a product reads.
 *   weights   [co][ci][taps]   ->   [blocks of ci][co][taps][channels of the block], or, exchanged,
 *                                   [blocks of ci][panels of co][taps][channels of the block][channels of the panel]
 *   x         [ci][in]         ->   [phases][ci][rows and the ones that taps add]
 * A block of weights, and of a copy, is dense: it is streamed through the caches once. */
#include "backend/lower/gemm/conv.h"
#include "ir/value/mapped.h"

/* ---- weights ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t channels_of_block(const walk *w) { return w->spread == 3 ? u(w->c->ci) : w->step; }

static uint64_t panel_of(const walk *w) { return w->exchanged ? w->panel : 1; }

/* Where tap 0 of this pair of channels is packed, of one group, and how far apart taps are. */
static uint64_t packed_at(const walk *w, uint64_t out, uint64_t in, uint64_t *tap) {
  uint64_t step = channels_of_block(w), first = in / step * step, p = panel_of(w);
  *tap = least(step, u(w->c->ci) - first) * p;
  return first * w->taps * u(w->c->co) + out / p * w->taps * *tap + (in - first) * p + out % p;
}

/* All taps of one pair of channels. Most elements have 4 bytes, which one move takes. */
static void pack_pair(const walk *w, unsigned char *to, uint64_t apart, const unsigned char *from,
                      size_t bytes) {
  for (uint64_t t = 0; t < w->taps; t++, from += bytes) {
    unsigned char *at = to + (w->flipped ? w->taps - 1 - t : t) * apart * bytes;
    if (bytes == 4) memcpy(at, from, 4);
    else memcpy(at, from, bytes);
  }
}

/* `n` columns of some rows of pairs of 4-byte elements, to places that are `apart` elements from one tap to the next and `p`
 * from one column to the next. Rows lie powers of two apart, where a cache has few places for their lines: a few at once. */
static void pack_words(const walk *w, uint32_t *to, uint64_t apart, uint64_t p,
                       const uint32_t *from, uint64_t rows, uint64_t stride, uint64_t n) {
  enum { ROWS = 8 };
  for (uint64_t r = 0; r < rows; r += ROWS)
    for (uint64_t c = 0; c < n; c++)
      for (uint64_t t = 0; t < w->taps; t++) {
        const uint32_t *x = from + r * stride + c * w->taps + t;
        uint32_t *y = to + t * apart + c * p + r;
        if (rows - r >= ROWS)
          for (uint64_t i = 0; i < ROWS; i++) y[i] = x[i * stride];
        else
          for (uint64_t i = 0; i < rows - r; i++) y[i] = x[i * stride];
      }
}

/* `high` rows of pairs from `row` on, of `inner` columns each. */
static void pack_rows(const walk *w, unsigned char *to, uint64_t row, const unsigned char *from,
                      uint64_t high, uint64_t inner, size_t bytes) {
  uint64_t each = w->taps * bytes, step = channels_of_block(w), apart;
  for (uint64_t col = 0, n = 1; col < inner; col += n) {
    uint64_t at = packed_at(w, w->flipped ? col : row, w->flipped ? row : col, &apart);
    unsigned char *start = to + at * bytes;
    const unsigned char *x = from + col * each;
    if (bytes == sizeof(uint32_t) && !w->flipped) {
      n = least(step, inner - col);
      pack_words(w, (uint32_t *)(void *)start, apart, high, (const uint32_t *)(const void *)x, high,
                 inner * w->taps, n);
    } else
      for (uint64_t r = 0; r < high; r++)
        pack_pair(w, start + r * bytes, apart, x + r * inner * each, bytes);
  }
}

/* Weights that never change: rows of a panel side by side, for that is how they lie in it. */
static void pack_constant(walk *w) {
  enum { OFTEN = 8 << 20 }; // bytes after which the source's pages leave memory
  anfi_os_block *file = anfi_value_block(w->q->const_w);
  tdtype d = anfi_t_dt(w->elem);
  size_t bytes = anfi_t_bytes(d), each = w->taps * bytes, read = 0;
  anfi_os_block *b = anfi_low_block(w->L, anfi_size_mul(w->L->cx, w->q->const_w->n, bytes));
  const unsigned char *from = w->q->const_w->data;
  unsigned char *to = (unsigned char *)anfi_os_block_data(b);
  uint64_t inner = u(w->flipped ? w->c->co : w->c->ci), pairs = u(w->c->co * w->c->ci),
           high = w->flipped ? 1 : panel_of(w);
  for (uint64_t all = u(w->c->groups) * pairs; all; all -= pairs, to += pairs * each)
    for (uint64_t i = 0; i < pairs; i += inner * high, from += inner * high * each) {
      pack_rows(w, to, i / inner, from, high, inner, bytes);
      if ((read += inner * high * each) < OFTEN) continue;
      if (file) anfi_os_block_leave(file);
      read = 0;
    }
  if (file) anfi_os_block_leave(file);
  w->weights = anfi_low_block_table(w->L, d, w->q->const_w->n, b);
}

void anfi_cv_begin_weights(walk *w) {
  if (w->unpacked) w->weights = w->q->w;
  else if (w->q->const_w) pack_constant(w);
}

/* Blocks of `wide` input channels, `count` of them from channel `first` on: of which pack_pairs takes elements one by one, and
 * pack_panels, for which rows of a panel lie pages apart, squares in registers. */
typedef struct packing {
  texpr group0;
  uint64_t first, count, wide;
} packing;

static void pack_pairs(const walk *w, const packing *q) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci), p = panel_of(w),
           e[5] = {q->count, co / p, w->taps, q->wide, p};
  nest k;
  anfi_cv_open(w, &k, 5, e, anfi_cv_parallel(w));
  texpr in = add(w, mulc(w, k.at[0], q->wide), k.at[3]),
        out = anfi_low_atom(w->L, add(w, mulc(w, k.at[1], p), k.at[4])),
        to = anfi_cv_mixed(w, 5, k.at, e);
  in = anfi_low_atom(w->L, anfi_ix_addc(w->L, in, (int64_t)q->first));
  texpr pair = w->flipped ? add(w, mulc(w, in, co), out) : add(w, mulc(w, out, ci), in),
        tap = w->flipped ? anfi_low_atom(w->L, anfi_t_sub(w->L->t, ix(w, w->taps - 1), k.at[2]))
                         : k.at[2];
  store(w, w->weights, anfi_ix_addc(w->L, to, (int64_t)(q->first * co * w->taps)),
        load(w, w->q->w, add(w, q->group0, add(w, mulc(w, pair, w->taps), tap))));
  anfi_cv_close(w, &k);
}

/* One panel of a block: its rows are output channels, its columns taps of input channels; flipped, a square for each of these. */
static void pack_panels(const walk *w, const packing *q) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci), p = panel_of(w), tap = q->wide * p,
           e[3] = {q->count, co / p, w->flipped ? q->wide : 1};
  nest k;
  anfi_cv_open(w, &k, 3, e, anfi_cv_parallel(w));
  anfi_transposed t = {.elem = w->elem, .from = w->q->w, .to = w->weights, .rows = p};
  texpr in = anfi_ix_addc(w->L, add(w, mulc(w, k.at[0], q->wide), k.at[2]), (int64_t)q->first),
        out = mulc(w, k.at[1], p),
        to = mulc(w, add(w, mulc(w, k.at[0], co / p), k.at[1]), w->taps * tap);
  to = anfi_ix_addc(w->L, add(w, to, mulc(w, k.at[2], p)), (int64_t)(q->first * co * w->taps));
  texpr pair = w->flipped ? add(w, mulc(w, in, co), out) : add(w, mulc(w, out, ci), in);
  t.from0 = anfi_low_atom(w->L, add(w, q->group0, mulc(w, pair, w->taps)));
  if (w->flipped) {
    t.cols = t.from_ld = w->taps, t.to_ld = (uint64_t) - (int64_t)tap; // from the last tap on
    to = anfi_ix_addc(w->L, to, (int64_t)((w->taps - 1) * tap));
  } else t.cols = q->wide * w->taps, t.from_ld = ci * w->taps, t.to_ld = p, t.inner = w->taps;
  t.to0 = anfi_low_atom(w->L, to);
  anfi_low_transpose(w->L, &t);
  anfi_cv_close(w, &k);
}

static void pack_blocks(const walk *w, const packing *q) {
  if (!q->count || !q->wide) return;
  if (w->exchanged && !(w->flipped && w->taps == 1)) pack_panels(w, q);
  else pack_pairs(w, q);
}

void anfi_cv_group_weights(walk *w, texpr group) {
  uint64_t ci = u(w->c->ci), all = u(w->c->co) * ci * w->taps, step = channels_of_block(w),
           blocks = ci / step;
  texpr group0 = anfi_low_atom(w->L, mulc(w, group, all));
  w->weights0 = group0;
  if (w->unpacked || w->q->const_w) return;
  w->weights0 = ix(w, 0);
  w->weights = anfi_low_local(w->L, w->elem, all, "taps");
  pack_blocks(w, &(packing){group0, 0, blocks, step});
  pack_blocks(w, &(packing){group0, blocks * step, 1, ci % step});
}

weights_at anfi_cv_weights(const walk *w, texpr first, uint64_t wide, texpr channel) {
  uint64_t p = panel_of(w), row = w->unpacked ? u(w->c->ci) : w->taps * wide;
  texpr start = add(w, w->weights0, mulc(w, first, w->unpacked ? 1 : w->taps * u(w->c->co)));
  start = anfi_low_atom(w->L, add(w, start, mulc(w, channel, row)));
  return (weights_at){start, w->exchanged ? p : row, w->unpacked ? 0 : wide * p};
}

/* ---- the input ---- */

/* Of the last dim alone: there are no columns between rows of results. Of all dims: what a result reads is a column. */
static uint64_t phases_along(const walk *w, size_t d) {
  return u(anfi_cv_spread(w, d) ? w->c->win.kernel[d] : w->c->win.stride[d]);
}

/* Places from one phase to the next. */
static uint64_t apart(const walk *w, size_t d) {
  return anfi_cv_spread(w, d) ? u(w->c->win.dilation[d]) : 1;
}

/* Where a phase starts in x with its padding before. */
static int64_t start_of(const walk *w, size_t d, uint64_t f) {
  return (int64_t)(f * apart(w, d)) - w->c->win.before[d];
}

/* The positions of a phase that lie in x along a dim: lo..hi. */
static bool span_in(const walk *w, size_t d, uint64_t f, uint64_t *lo, uint64_t *hi) {
  const anfi_window *v = &w->c->win;
  int64_t a = up(-start_of(w, d, f), v->stride[d]),
          b = up(v->in[d] - start_of(w, d, f), v->stride[d]);
  *lo = a > 0 ? u(a) : 0;
  *hi = b > (int64_t)w->extent[d] ? w->extent[d] : b > 0 ? u(b) : 0;
  return *lo < *hi;
}

/* Does a tap of the window read this phase of a dim? */
static bool is_read(const walk *w, size_t d, uint64_t f) {
  const anfi_window *v = &w->c->win;
  if (anfi_cv_spread(w, d)) return true;
  for (uint64_t t = 0; t < u(v->kernel[d]); t++)
    if (t * u(v->dilation[d]) % u(v->stride[d]) == f) return true;
  return false;
}

/* Neighbouring phases that one nest copies, so that a window of 16 x 16 is one nest and not 256. Along the last dim they lie
 * at the same positions of x, lo..hi; along others within these, and rows that are outside are skipped where they are mixed. */
typedef struct box {
  uint64_t first[3], count[3], lo[3], hi[3];
  bool mixed[3];
} box;

/* The next run of such phases along a dim; false: there is none. */
static bool next_run(const walk *w, size_t d, box *b) {
  uint64_t f = b->first[d] + b->count[d], n = phases_along(w, d), lo, hi;
  while (f < n && (!is_read(w, d, f) || !span_in(w, d, f, &b->lo[d], &b->hi[d]))) f++;
  b->first[d] = f, b->count[d] = 0, b->mixed[d] = false;
  for (; f < n && is_read(w, d, f) && span_in(w, d, f, &lo, &hi); f++, b->count[d]++) {
    if (lo == b->lo[d] && hi == b->hi[d]) continue;
    if (d == 2) break;
    b->mixed[d] = true;
    if (lo < b->lo[d]) b->lo[d] = lo;
    if (hi > b->hi[d]) b->hi[d] = hi;
  }
  return b->count[d] > 0;
}

/* The next box; false after the last. It starts as zeros and `*any` as false. */
static bool next_box(const walk *w, box *b, bool *any) {
  if (!*any) {
    *any = true;
    return next_run(w, 0, b) && next_run(w, 1, b) && next_run(w, 2, b);
  }
  for (size_t d = 3; d-- > 0;) {
    if (next_run(w, d, b)) return true;
    b->first[d] = b->count[d] = 0;
    next_run(w, d, b);
  }
  return false;
}

/* The number of a phase of a box, `f` of its first one on. */
static texpr phase_number(const walk *w, const box *b, const texpr *f) {
  texpr at[3];
  uint64_t n[3];
  for (size_t d = 0; d < 3; d++) {
    at[d] = anfi_ix_addc(w->L, f[d], (int64_t)b->first[d]);
    n[d] = phases_along(w, d);
  }
  return anfi_cv_mixed(w, 3, at, n);
}

/* Where positions of a phase are in x. */
static texpr source(const walk *w, const box *b, const texpr *f, const texpr *pos) {
  const anfi_window *v = &w->c->win;
  texpr src = ix(w, 0);
  for (size_t d = 0; d < 3; d++) {
    texpr at = add(w, mulc(w, pos[d], u(v->stride[d])), mulc(w, f[d], apart(w, d)));
    src = add(w, mulc(w, src, u(v->in[d])), anfi_ix_addc(w->L, at, start_of(w, d, b->first[d])));
  }
  return src;
}

/* at: lo <= at < hi where a position of a box lies in x, of `size` numbers. */
typedef struct inside {
  texpr at;
  uint64_t size, lo, hi;
} inside;

static inside inside_of(const walk *w, const box *b, size_t d, texpr f, texpr pos) {
  const anfi_window *v = &w->c->win;
  if (!b->mixed[d]) return (inside){pos, w->extent[d], b->lo[d], b->hi[d]};
  uint64_t stride = u(v->stride[d]), last = b->first[d] + b->count[d] - 1;
  f = anfi_ix_addc(w->L, f, (int64_t)b->first[d]);
  texpr padded = add(w, mulc(w, pos, stride), mulc(w, f, apart(w, d)));
  return (inside){anfi_low_atom(w->L, padded), (w->extent[d] - 1) * stride + last * apart(w, d) + 1,
                  v->before[d] > 0 ? u(v->before[d]) : 0, u(v->before[d] + v->in[d])};
}

/* What is added between these runs if all are inside. */
static void if_all(const walk *w, const inside *in, size_t n) {
  for (size_t i = 0; i < n; i++) anfi_cv_if_inside(w, in[i].size, in[i].lo, in[i].hi);
}
static void end_if_all(const walk *w, const inside *in, size_t n) {
  while (n-- > 0) anfi_cv_end_if_inside(w, in[n].at, in[n].size, in[n].lo, in[n].hi);
}

/* Phases of all planes of an image, to `to` on: those elements that lie inside. */
static void copy_phases(const walk *w, const box *b, texpr from, texpr to) {
  uint64_t ci = u(w->c->ci), e[4] = {ci};
  nest f, r, k;
  texpr pos[3];
  inside in[2];
  size_t n = 0;
  for (size_t d = 0; d < 3; d++) e[d + 1] = b->hi[d] - b->lo[d];
  anfi_cv_open(w, &f, 3, b->count, false);
  anfi_cv_open(w, &r, 3, e, false);
  for (size_t d = 0; d < 2; d++) {
    pos[d] = anfi_ix_addc(w->L, r.at[d + 1], (int64_t)b->lo[d]);
    if (b->mixed[d]) in[n++] = inside_of(w, b, d, f.at[d], pos[d]);
  }
  if_all(w, in, n);
  anfi_cv_open(w, &k, 1, &e[3], false);
  pos[2] = anfi_ix_addc(w->L, k.at[0], (int64_t)b->lo[2]);
  texpr src = add(w, mulc(w, r.at[0], w->in), source(w, b, f.at, pos)),
        dst = anfi_cv_mixed(w, 3, pos, w->extent);
  dst = add(w, to, add(w, mulc(w, dst, ci), r.at[0]));
  dst = add(w, mulc(w, phase_number(w, b, f.at), ci * w->plane), dst);
  store(w, w->copy, dst, load(w, w->q->x, add(w, from, src)));
  anfi_cv_close(w, &k);
  end_if_all(w, in, n);
  anfi_cv_close(w, &r);
  anfi_cv_close(w, &f);
}

void anfi_cv_copy_images(walk *w, texpr from, uint64_t images) {
  box b = {0};
  uint64_t all = w->phases * u(w->c->ci) * w->plane;
  bool any = false;
  anfi_loop i;
  w->copy = anfi_low_local(w->L, w->elem, images * all, "phases");
  anfi_cv_fill(w, w->copy, images * all);
  anfi_low_loop(w->L, &i, images, "n");
  texpr to = anfi_low_atom(w->L, mulc(w, i.var, all));
  from = anfi_low_atom(w->L, add(w, from, mulc(w, i.var, u(w->c->groups * w->c->ci) * w->in)));
  while (next_box(w, &b, &any)) copy_phases(w, &b, from, to);
  anfi_low_loop_end(w->L, &i);
}

/* Phases of the rows from o on that `rows` holds: those that lie inside. */
static void copy_phase_rows(const walk *w, const walk *rows, const box *b, const texpr *o,
                            texpr from) {
  nest f, r, k;
  texpr pos[3];
  inside in[2];
  anfi_cv_open(w, &f, 3, b->count, false);
  anfi_cv_open(w, &r, 2, rows->extent, false);
  for (size_t d = 0; d < 2; d++) {
    pos[d] = anfi_low_atom(w->L, add(w, o[d], r.at[d]));
    in[d] = inside_of(w, b, d, f.at[d], pos[d]);
  }
  if_all(w, in, 2);
  anfi_cv_open(w, &k, 2, (uint64_t[]){u(w->c->ci), b->hi[2] - b->lo[2]}, false);
  pos[2] = anfi_ix_addc(w->L, k.at[1], (int64_t)b->lo[2]);
  texpr dst = anfi_cv_mixed(w, 4, (texpr[]){k.at[0], r.at[0], r.at[1], pos[2]},
                            (uint64_t[]){0, rows->extent[0], rows->extent[1], rows->extent[2]});
  dst = add(w, mulc(w, phase_number(w, b, f.at), u(w->c->ci) * rows->plane), dst);
  texpr src = add(w, mulc(w, k.at[0], w->in), source(w, b, f.at, pos));
  store(w, rows->copy, dst, load(w, w->q->x, add(w, from, src)));
  anfi_cv_close(w, &k);
  end_if_all(w, in, 2);
  anfi_cv_close(w, &r);
  anfi_cv_close(w, &f);
}

walk anfi_cv_copy_rows(const walk *w, const texpr *o, uint64_t n, texpr from) {
  box b = {0};
  bool any = false;
  walk rows = *w;
  rows.extent[0] = 1 + w->reach[0], rows.extent[1] = n + w->reach[1];
  rows.plane = rows.extent[0] * rows.extent[1] * rows.extent[2];
  uint64_t all = anfi_cv_lanes(w->phases * u(w->c->ci) * rows.plane) + ANFI_CV_LANES;
  rows.copy = anfi_low_local(w->L, w->elem, all, "rows");
  rows.copy0 = ix(w, 0);
  anfi_cv_fill(w, rows.copy, all);
  while (next_box(w, &b, &any)) copy_phase_rows(w, &rows, &b, o, from);
  return rows;
}

void anfi_cv_split_tap(const walk *w, const texpr *tap, texpr *phase, texpr *more) {
  *phase = ix(w, 0);
  for (size_t d = 0; d < 3; d++) {
    uint64_t phases = phases_along(w, d);
    texpr t = anfi_cv_spread(w, d) ? tap[d] : mulc(w, tap[d], u(w->c->win.dilation[d]));
    *phase = add(w, mulc(w, *phase, phases), anfi_ix_modc(w->L, t, phases));
    more[d] = anfi_ix_divc(w->L, t, phases);
  }
}
