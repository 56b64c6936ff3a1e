// SPDX-License-Identifier: Apache-2.0
/* Convolutions forward by kernels (conv.h).
 *   Conv2D(x, w)   ->   for rows: copy what they read; for parts of the output channels: for blocks of K: sums +=
 *                       list_brgemm of (rows + tap, weights of the block and tap) over the taps; y = epilogue(sums)
 *
 * Rows of the copy follow each other, so several rows of results are one product, and its columns between two rows are
 * dropped; where these would be many (a plane of 7 x 7), rows are copied once for each column of the window instead. Or
 * sums are transposed, and each row of results is a product of its own, without such columns and without the taps that
 * are padding there: the cost model decides (choose_sums).
 *
 * A block of K is so short that weights and rows of it stay in the caches (Goto and van de Geijn, Anatomy of
 * High-Performance Matrix Multiplication). A window of one element reads the input where it is, windows side by
 * side are windows of one element of more channels, and of images of one element all are one product.
 *
 * Where some of a row's results read padding through a tap, taps are added by ranges: first those through which all results
 * of a row read the input, then those of fewer. A range of a transposed row is a product of its own, so it reads the input
 * where it is, and neither copies padding nor multiplies it. */
#include "backend/lower/gemm/conv.h"

enum { COLUMNS = 240, SHARED = 128 }; // of a product; where threads share rows

/* Results of one product: rows from o on, of some channels of a group. */
typedef struct block {
  texpr image, o[2], channel; // channel: of its group
  uint64_t rows, channels;
  bool copied; // rows of the input start at that of o
} block;

/* Where sums go. size: output channels, columns, elements from row to row. */
typedef struct sum_buffer {
  texpr tensor, from;
  uint64_t size[3];
} sum_buffer;

/* size: of the product, but for K and what depends on it; a and b are exchanged with their factors. */
static void multiply(const walk *w, uint64_t k, uint64_t ldw, texpr weights, texpr rows, texpr sums,
                     const uint64_t *size, texpr len, bool init) {
  uint64_t s[9] = {1, size[0], size[1], k, ldw, w->plane, size[2], 0, 0};
  if (w->exchanged) s[1] = size[1], s[2] = size[0], s[4] = w->plane, s[5] = ldw;
  anfi_cv_product(w, w->exchanged ? rows : weights, w->exchanged ? weights : rows, sums, s, len,
                  init, w->exchanged);
}

/* A block of K of a copy that is spread along all dims: rows of it are elements of the window of a channel. */
static void add_column(const walk *w, const block *b, texpr from, uint64_t k, texpr sums,
                       const uint64_t *size, bool init) {
  weights_at at0 = anfi_cv_weights(w, ix(w, 0), u(w->c->ci), b->channel);
  texpr first = w->exchanged ? mulc(w, from, w->panel) : from;
  multiply(w, k, at0.row, at(w, w->weights, add(w, at0.start, first)),
           at(w, w->copy, mulc(w, from, w->plane)), sums, size, NULL, init);
}

/* The results along a dim that read the input, not padding, through tap t: lo..hi. */
static bool readers(const walk *w, size_t d, uint64_t t, uint64_t *lo, uint64_t *hi) {
  const anfi_window *v = &w->c->win;
  int64_t before = v->before[d] - (int64_t)t * v->dilation[d], a = up(before, v->stride[d]),
          b = up(v->in[d] + before, v->stride[d]);
  *lo = a > 0 ? u(a) : 0;
  *hi = b > v->out[d] ? u(v->out[d]) : b > 0 ? u(b) : 0;
  return *lo < *hi;
}

/* The taps of a block of K: lists of addresses of their weights and rows. */
typedef struct tap_lists {
  texpr weights, rows; // the lists
  weights_at from;
  texpr copy0;
  texpr count; // so far: a variable if it depends on the row of results
} tap_lists;

/* Results along the last dim that read the input through the same taps. */
typedef struct range {
  uint64_t lo, hi;
} range;

/* Taps of one row of the window, but those that no result reads the input through; `only`: those of a range. */
static void put_taps(const walk *w, const block *b, tap_lists *l, uint64_t t0, uint64_t t1,
                     const range *only, bool counted) {
  uint64_t e[3], lo, hi;
  kernel_dims(w, e);
  for (uint64_t t2 = 0; t2 < e[2]; t2++) {
    uint64_t tap = (t0 * e[1] + t1) * e[2] + t2;
    texpr t[3] = {ix(w, t0), ix(w, t1), ix(w, t2)}, phase, pos[3];
    if (!readers(w, 2, t2, &lo, &hi) || (only && (lo != only->lo || hi != only->hi))) continue;
    anfi_cv_split_tap(w, t, &phase, pos);
    for (size_t d = 0; d < 2 && !b->copied; d++) pos[d] = add(w, b->o[d], pos[d]);
    texpr col = add(w, mulc(w, phase, u(w->c->ci) * w->plane), anfi_cv_mixed(w, 3, pos, w->extent)),
          weights = anfi_ix_addc(w->L, l->from.start, (int64_t)(tap * l->from.tap));
    anfi_cv_put_list(w, l->weights, l->count, at(w, w->weights, weights));
    anfi_cv_put_list(w, l->rows, l->count, at(w, w->copy, add(w, l->copy0, col)));
    texpr next = anfi_ix_addc(w->L, l->count, 1);
    if (counted) anfi_low_set(w->L, l->count, next);
    else l->count = next;
  }
}

/* All taps, or those of a range; `at`: of the only row of results, whose taps of padding are left out, or NULL. */
static void put_all_taps(const walk *w, const block *b, tap_lists *l, const range *only,
                         const texpr *at) {
  const int64_t *out = w->c->win.out;
  uint64_t e[3], lo[2], hi[2];
  kernel_dims(w, e);
  for (uint64_t t0 = 0; t0 < e[0]; t0++)
    for (uint64_t t1 = 0; t1 < e[1]; t1++) {
      if (!readers(w, 0, t0, &lo[0], &hi[0]) || !readers(w, 1, t1, &lo[1], &hi[1])) continue;
      for (size_t d = 0; at && d < 2; d++) anfi_cv_if_inside(w, u(out[d]), lo[d], hi[d]);
      put_taps(w, b, l, t0, t1, only, at != NULL);
      for (size_t d = 2; at && d-- > 0;) anfi_cv_end_if_inside(w, at[d], u(out[d]), lo[d], hi[d]);
    }
}

/* The next range after `*r`, which starts as zeros: the widest first, of equal ones the first. */
static bool next_range(const walk *w, range *r) {
  uint64_t wide = r->hi - r->lo, lo, hi;
  range best = {0, 0};
  for (uint64_t t = 0; t < u(w->c->win.kernel[2]); t++) {
    if (!readers(w, 2, t, &lo, &hi)) continue;
    bool after = !wide || hi - lo < wide || (hi - lo == wide && lo > r->lo);
    uint64_t n = best.hi - best.lo;
    if (after && (hi - lo > n || (hi - lo == n && lo < best.lo))) best = (range){lo, hi};
  }
  *r = best;
  return best.hi > 0;
}

/* A block of K, `wide` input channels from `first` on, of all rows of a block or of row `row` of it. */
typedef struct k_block {
  texpr first, row;
  uint64_t wide;
  bool init;
} k_block;

static tap_lists empty_lists(const walk *w, const block *b, const k_block *k) {
  tap_lists l = {anfi_cv_list(w, w->taps), anfi_cv_list(w, w->taps),
                 anfi_cv_weights(w, k->first, k->wide, b->channel), NULL, ix(w, 0)};
  texpr copy0 = add(w, w->copy0, mulc(w, k->first, w->plane));
  if (k->row) {
    copy0 = add(w, copy0, mulc(w, k->row, w->extent[2]));
    l.count = anfi_low_var(w->L, ANFI_IX, "count", l.count);
  }
  l.copy0 = anfi_low_atom(w->L, copy0);
  return l;
}

/* A product for each range of a row, from the input where it is: it neither reads nor multiplies padding. */
static void add_ranges(const walk *w, const block *b, const k_block *k, const texpr *at0,
                       const sum_buffer *sums) {
  const anfi_window *v = &w->c->win;
  int64_t before = (v->before[0] * v->in[1] + v->before[1]) * v->in[2] + v->before[2];
  bool init = k->init;
  for (range r = {0, 0}; next_range(w, &r); init = false) {
    uint64_t size[] = {sums->size[0], r.hi - r.lo, sums->size[2]};
    tap_lists l = empty_lists(w, b, k);
    l.copy0 = anfi_low_atom(w->L, anfi_ix_addc(w->L, l.copy0, (int64_t)r.lo - before));
    put_all_taps(w, b, &l, &r, at0);
    texpr to = at(w, sums->tensor, anfi_ix_addc(w->L, sums->from, (int64_t)(r.lo * size[2])));
    multiply(w, k->wide, l.from.row, anfi_cv_first(w, l.weights), anfi_cv_first(w, l.rows), to,
             size, l.count, init);
  }
}

/* Adds a block of K to sums. Where taps are by ranges they are added in that order in every way. */
static void add_taps(const walk *w, const block *b, const k_block *k, const sum_buffer *sums) {
  texpr o[2] = {b->o[0], b->o[1]};
  if (k->row) o[1] = anfi_low_atom(w->L, add(w, o[1], k->row));
  if (w->ranged && w->in_place) {
    add_ranges(w, b, k, o, sums);
    return;
  }
  tap_lists l = empty_lists(w, b, k);
  if (w->ranged)
    for (range r = {0, 0}; next_range(w, &r);) put_all_taps(w, b, &l, &r, k->row ? o : NULL);
  else put_all_taps(w, b, &l, NULL, k->row ? o : NULL);
  multiply(w, k->wide, l.from.row, anfi_cv_first(w, l.weights), anfi_cv_first(w, l.rows),
           at(w, sums->tensor, sums->from), sums->size, l.count, k->init);
}

/* The part of a window's rows, over all rows of results, that are not padding. */
static double part_read(const walk *w) {
  const anfi_window *v = &w->c->win;
  double part = 1;
  for (size_t d = 0; d < 2; d++) {
    uint64_t sum = 0, lo, hi;
    for (uint64_t t = 0; t < u(v->kernel[d]); t++)
      if (readers(w, d, t, &lo, &hi)) sum += hi - lo;
    part *= (double)sum / (double)u(v->kernel[d] * v->out[d]);
  }
  return part;
}

/* Has each row of results a product of its own? Transposed sums have no columns that lie between two rows, and leave
 * out what is padding of a row. */
static bool is_by_rows(const walk *w) {
  if (!w->exchanged || w->spread == 3) return false;
  return w->ranged || w->extent[2] != u(w->c->win.out[2]) || part_read(w) < 1;
}

static void add_rows(const walk *w, const block *b, texpr from, uint64_t k, const sum_buffer *sums,
                     bool init) {
  uint64_t cols = u(w->c->win.out[2]);
  anfi_loop l;
  anfi_low_loop(w->L, &l, b->rows, "row");
  texpr to = anfi_low_atom(w->L, add(w, sums->from, mulc(w, l.var, cols * sums->size[2])));
  sum_buffer row = {sums->tensor, to, {sums->size[0], cols, sums->size[2]}};
  add_taps(w, b, &(k_block){from, l.var, k, init}, &row);
  anfi_low_loop_end(w->L, &l);
}

static void add_one(const walk *w, const block *b, texpr from, uint64_t k, const sum_buffer *sums,
                    bool init) {
  if (is_by_rows(w)) {
    add_rows(w, b, from, k, sums, init);
    return;
  }
  if (w->spread < 3) add_taps(w, b, &(k_block){from, NULL, k, init}, sums);
  else add_column(w, b, from, k, at(w, sums->tensor, sums->from), sums->size, init);
}

/* All blocks of K. init: sums start as zeros, else as they are. */
static void add_blocks(const walk *w, const block *b, const sum_buffer *sums, bool init) {
  uint64_t all = u(w->c->ci) * (w->spread == 3 ? w->taps : 1), full = all / w->step;
  add_one(w, b, ix(w, 0), w->step, sums, init);
  if (full > 1) {
    anfi_loop l;
    anfi_low_loop(w->L, &l, full - 1, "k");
    texpr from = anfi_ix_addc(w->L, mulc(w, l.var, w->step), (int64_t)w->step);
    add_one(w, b, anfi_low_atom(w->L, from), w->step, sums, false);
    anfi_low_loop_end(w->L, &l);
  }
  if (all % w->step) add_one(w, b, ix(w, full * w->step), all % w->step, sums, false);
}

/* The epilogue of element `at` of the rows of a block, on its sum x: the op that reads the convolution. */
static texpr consumed(const walk *w, const block *b, texpr channel, texpr at, texpr x) {
  anfi_low *L = w->L;
  const int64_t *out = w->c->win.out;
  anfi_pt p = {0};
  anfi_pt_push(&p, b->image, u(w->c->n));
  anfi_pt_push(&p, channel, u(w->c->groups * w->c->co));
  anfi_pt_push(&p, b->o[0], u(out[0]));
  anfi_pt_push(&p, anfi_low_atom(L, add(w, mulc(w, b->o[1], u(out[2])), at)), u(out[1] * out[2]));
  anfi_view_know(L, w->q->product, &p, x);
  return anfi_view_at(L, w->q->root, &p).re;
}

/* Transposed sums by channels, so that the epilogue reads and writes along rows. */
static sum_buffer by_channels(const walk *w, const sum_buffer *sums) {
  uint64_t n = sums->size[1], ld = anfi_cv_lanes(n);
  sum_buffer r = {anfi_low_local(w->L, w->elem, sums->size[0] * ld, "transposed"),
                  ix(w, 0),
                  {sums->size[0], n, ld}};
  anfi_low_transpose(w->L, &(anfi_transposed){w->elem, sums->tensor, r.tensor, sums->from, r.from,
                                              n, sums->size[0], sums->size[2], ld, 0});
  return r;
}

/* Sums of rows, `apart` elements from one to the next, to the rows of results, with the bias if they have begun without.
 * Rows without columns between them are one loop: of rows of 14, LLVM makes gathers. */
static void end_rows(const walk *w, const block *b, const sum_buffer *sums, uint64_t apart,
                     texpr row, texpr channel0) {
  uint64_t cols = u(w->c->win.out[2]), wide = apart == cols ? b->rows * cols : cols;
  nest k;
  anfi_cv_open(w, &k, 3, (uint64_t[]){b->channels, b->rows * cols / wide, wide}, false);
  texpr col = add(w, mulc(w, k.at[1], apart), k.at[2]),
        at = add(w, mulc(w, k.at[1], cols), k.at[2]);
  texpr channel = anfi_low_atom(w->L, add(w, channel0, k.at[0])),
        x = load(w, sums->tensor, add(w, mulc(w, k.at[0], sums->size[2]), col));
  if (w->q->bias) x = anfi_t_add(w->L->t, x, load(w, w->q->bias, channel));
  if (w->q->root) x = consumed(w, b, channel, at, x);
  store(w, w->q->to, add(w, row, add(w, mulc(w, k.at[0], w->out), at)), x);
  anfi_cv_close(w, &k);
}

/* Sums in memory of their own, then results. */
static void sum_and_end(const walk *w, const block *b, texpr row, texpr channel0) {
  uint64_t cols = u(w->c->win.out[2]), apart = is_by_rows(w) ? cols : w->extent[2],
           n = (b->rows - 1) * apart + cols;
  sum_buffer sums = {
      NULL, ix(w, 0), {b->channels, n, w->exchanged ? b->channels : anfi_cv_lanes(n)}};
  if (b->copied && !w->exchanged) sums.size[1] = anfi_cv_lanes(n);
  sums.tensor =
      anfi_low_local(w->L, w->elem, (w->exchanged ? n : b->channels) * sums.size[2], "sums");
  add_blocks(w, b, &sums, true);
  if (w->exchanged) sums = by_channels(w, &sums);
  end_rows(w, b, &sums, apart, row, channel0);
}

/* `to`: where the group's results start. */
static void one_block(const walk *w, texpr to, const block *b, texpr channel0) {
  const anfi_window *v = &w->c->win;
  uint64_t cols = u(v->out[2]), n = (b->rows - 1) * w->extent[2] + cols;
  texpr row = mulc(w, add(w, mulc(w, b->o[0], u(v->out[1])), b->o[1]), cols);
  row = anfi_low_atom(w->L, add(w, add(w, to, mulc(w, b->channel, w->out)), row));
  channel0 = anfi_low_atom(w->L, add(w, channel0, b->channel));
  bool dense = b->rows == 1 || w->extent[2] == cols;
  bool plain = !w->q->root && !w->q->bias && !w->exchanged;
  if (plain && dense && !(b->copied && n % ANFI_CV_LANES))
    add_blocks(w, b, &(sum_buffer){w->q->to, row, {b->channels, n, w->out}}, true);
  else sum_and_end(w, b, row, channel0);
}

/* As many blocks of `rows` rows as `many`, from row `first` on, each in parts of channels. */
static void blocks(const walk *w, const place *p, uint64_t first, uint64_t rows, uint64_t many,
                   uint64_t parts) {
  uint64_t e[2] = {u(w->c->win.out[0]), many}, channels = u(w->c->co) / parts;
  bool share = anfi_cv_parallel(w) && w->c->n == 1;
  nest k, c;
  if (!many) return;
  anfi_cv_open(w, &k, 2, e, share);
  texpr row = anfi_ix_addc(w->L, mulc(w, k.at[1], rows), (int64_t)first);
  block b = {.image = p->image,
             .o = {k.at[0], anfi_low_atom(w->L, row)},
             .rows = rows,
             .channels = channels,
             .copied = !w->copy};
  walk mine = b.copied ? anfi_cv_copy_rows(w, b.o, rows, p->x) : *w;
  anfi_cv_open(w, &c, 1, &parts, share && e[0] * many == 1);
  b.channel = anfi_low_atom(w->L, mulc(w, c.at[0], channels));
  one_block(&mine, p->y, &b, p->co0);
  anfi_cv_close(w, &c);
  anfi_cv_close(w, &k);
}

/* Channels are shared among threads where there are few rows; sums that are consumed stay in the first cache. */
static uint64_t channel_parts(const walk *w, uint64_t many) {
  enum { PARTS = 4, LEAST = 16, CONSUMED = 64 };
  uint64_t co = u(w->c->co);
  if (w->exchanged) return co / w->panel;
  for (uint64_t p = anfi_mm_up(co, CONSUMED), most = 2 * p; p < most; p++)
    if (p > 1 && co % p == 0) return p;
  bool some = anfi_cv_parallel(w) && w->c->n == 1 && many * u(w->c->win.out[0]) < PARTS;
  return some && co % PARTS == 0 && co >= PARTS * LEAST ? PARTS : 1;
}

typedef struct point { // of a window of one element
  const walk *w;
  const place *p;
} point;

static void store_point(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr sum) {
  const point *f = (const point *)q->user;
  const walk *w = f->w;
  texpr channel = anfi_low_atom(L, add(w, f->p->co0, i));
  if (w->q->bias) sum = anfi_t_add(L->t, sum, load(w, w->q->bias, channel));
  if (w->q->root) {
    anfi_pt at = {0};
    anfi_pt_push(&at, f->p->image, u(w->c->n));
    anfi_pt_push(&at, channel, u(w->c->groups * w->c->co));
    anfi_pt_push(&at, j, w->out);
    anfi_view_know(L, w->q->product, &at, sum);
    sum = anfi_view_at(L, w->q->root, &at).re;
  }
  store(w, q->c, add(w, q->c0, add(w, mulc(w, i, q->ldc), j)), sum);
}

static void store_pixel(anfi_low *L, const anfi_mm *q, texpr image, texpr channel, texpr sum) {
  const walk *w = (const walk *)q->user;
  if (w->q->bias) sum = anfi_t_add(L->t, sum, load(w, w->q->bias, channel));
  if (w->q->root) {
    anfi_pt at = {0};
    anfi_pt_push(&at, image, u(w->c->n));
    anfi_pt_push(&at, channel, u(w->c->co));
    anfi_view_know(L, w->q->product, &at, sum);
    sum = anfi_view_at(L, w->q->root, &at).re;
  }
  store(w, q->c, add(w, q->c0, add(w, mulc(w, image, q->ldc), channel)), sum);
}

/* Images of one element a channel, as squeezed ones are: [n, ci] @ [ci, co]; but one image whose channels fill panels. */
static bool product_of_images(walk *w) {
  if (!anfi_cv_of_pixels(w) || (w->c->n == 1 && w->c->co % ANFI_CV_PANEL == 0)) return false;
  uint64_t ci = u(w->c->ci), co = u(w->c->co);
  texpr zero = ix(w, 0);
  anfi_mm q = {.elem = w->elem, .m = u(w->c->n), .n = co, .k = ci, .user = w};
  q.a = w->q->x, q.b = w->q->w, q.c = w->q->to, q.a0 = q.b0 = q.c0 = zero;
  q.lda = ci, q.ldb = w->flipped ? co : ci, q.ldc = co, q.tb = !w->flipped;
  q.const_b = w->q->const_w;
  if (w->q->bias || w->q->root) q.store_element = store_pixel;
  if (!anfi_low_gemm_wanted(&q)) return false;
  anfi_low_gemm(w->L, &q);
  return true;
}

/* A window of one element over a dense plane: [co, ci] @ [ci, plane], blocked as products are. */
static bool one_product(const walk *w, const place *p) {
  point f = {w, p};
  uint64_t ci = u(w->c->ci);
  anfi_mm q = {.elem = w->elem, .m = u(w->c->co), .n = w->out, .k = ci, .user = &f};
  q.a = w->weights, q.b = w->copy, q.c = w->q->to;
  q.a0 = w->weights0, q.b0 = w->copy0, q.c0 = p->y;
  q.lda = ci, q.ldb = w->plane, q.ldc = w->out;
  q.serial = anfi_cv_parallel(w) && w->c->n > 1;
  if (w->q->bias || w->q->root) q.store_element = store_point;
  if (w->taps > 1 || w->plane != w->out || !anfi_low_gemm_wanted(&q)) return false;
  anfi_low_gemm(w->L, &q);
  return true;
}

/* Rows of results of a block: of a product, or of products that share a copy. Where windows reach so far that most of a copy
 * would be made again for the next block, there is one block. */
static uint64_t rows_of(const walk *w, uint64_t columns) {
  enum { FAR = 2 };
  uint64_t high = u(w->c->win.out[1]), wide = w->exchanged ? u(w->c->win.out[2]) : w->extent[2],
           most = columns / wide;
  if (w->exchanged && most && w->reach[1] >= FAR * most) return high;
  return most ? anfi_mm_up(high, anfi_mm_up(high, most)) : 1;
}

/* Where threads share them they are few enough for tasks; no bit depends on that. */
static uint64_t rows_to_share(const walk *w) {
  uint64_t rows = rows_of(w, COLUMNS), all = u(w->c->win.out[0] * w->c->win.out[1]);
  bool share = anfi_cv_parallel(w) && w->c->n == 1 && all < rows * ANFI_LOW_TASKS;
  return share ? rows_of(w, SHARED) : rows;
}

static void all_rows(const walk *w, const place *p) {
  if (w->unpacked && one_product(w, p)) return;
  uint64_t high = u(w->c->win.out[1]), rows = rows_to_share(w), many = high / rows,
           parts = channel_parts(w, many);
  blocks(w, p, 0, rows, many, parts);
  blocks(w, p, many * rows, high % rows, high % rows ? 1 : 0, parts);
}

/* Are planes of the input what the only tap reads? */
static bool reads_in_place(const walk *w) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++)
    if (v->kernel[d] != 1 || v->stride[d] != 1 || v->before[d] || v->in[d] != v->out[d])
      return false;
  return true;
}

/* Do the windows lie side by side? */
bool anfi_cv_of_patches(const walk *w) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++)
    if (v->kernel[d] != v->stride[d] || v->before[d] || v->dilation[d] != 1 ||
        v->in[d] < v->out[d] * v->kernel[d])
      return false;
  return w->taps > 1;
}

/* Columns of a product with those that are dropped: of blocks of rows, and to whole vectors if they are exchanged or not. */
static uint64_t columns_of(const walk *w, bool *exchanged) {
  enum { SAVED = 106, OF = 100 };
  uint64_t n = (rows_of(w, COLUMNS) - 1) * w->extent[2] + u(w->c->win.out[2]),
           whole = anfi_cv_lanes(n);
  *exchanged = w->c->co % ANFI_CV_PANEL == 0 && whole * OF >= n * SAVED;
  return *exchanged ? n : whole;
}

/* Multiplications for a result and input channel, with those of padded columns, and copies that take as long as. */
static double cost_of(const walk *w) {
  static const double COPY = 24; // multiplications: rows of 14 x 14 and 7 x 7 of bench/conv.py
  bool exchanged;
  uint64_t rows = rows_of(w, COLUMNS), sums = columns_of(w, &exchanged),
           copied = w->phases * (1 + w->reach[0]) * (rows + w->reach[1]) * w->extent[2];
  return ((double)(w->taps * u(w->c->co) * sums) + COPY * (double)copied) /
         (double)(rows * u(w->c->win.out[2]));
}

/* How many dims are spread (conv.h): all where K of a tap is short; the last where many columns would be between rows,
 * as in planes of 7 x 7; the one before it where taps are so far apart that most rows between them are not read. */
static size_t spread_of(const walk *w) {
  enum { LEAST = 32, SHORT = 4 };
  if (w->taps == 1) return 0;
  if (anfi_cv_of_patches(w) || (w->c->ci <= SHORT && w->c->co >= LEAST)) return 3;
  size_t best = 0;
  double cost = cost_of(w);
  for (size_t s = 1; s < 3; s++) {
    walk other = *w;
    other.spread = s;
    anfi_cv_sizes(&other);
    double c = cost_of(&other);
    if (c < cost) cost = c, best = s;
  }
  return best;
}

/* Of a block of K, input channels, or rows of a copy that is spread along all dims: a panel of what they read stays in
 * the first cache, where taps share most of it; more of their weights, if each tap has rows of its own. */
static uint64_t step_of(const walk *w) {
  enum { TAPS_SHARE = 288, APART = 160, ONE_TAP = 128 };
  uint64_t taps = w->spread == 3 ? 1 : w->taps, all = u(w->c->ci) * w->taps / taps,
           most = (w->taps == 1              ? ONE_TAP
                   : w->ranged || !w->spread ? TAPS_SHARE
                                             : APART) /
                  taps;
  return anfi_mm_up(all, anfi_mm_up(all, most ? most : 1));
}

/* Do so many results read padding along the last dim that taps are added by ranges? With a stride of one, and a tap for which
 * all results read the input. */
static bool has_ranges(const walk *w) {
  static const double LEAST = 0.96; // of what reads the input
  const anfi_window *v = &w->c->win;
  uint64_t sum = 0, lo, hi;
  bool whole = false;
  if (w->spread == 3) return false;
  for (size_t d = 0; d < 3; d++)
    if (v->stride[d] != 1) return false;
  for (uint64_t t = 0; t < u(v->kernel[2]); t++)
    if (readers(w, 2, t, &lo, &hi)) sum += hi - lo, whole |= hi - lo == u(v->out[2]);
  return whole && (double)sum < LEAST * (double)(v->kernel[2] * v->out[2]);
}

/* Ranges of rows are read where they are. */
static void place_ranges(walk *w) {
  if (!w->ranged || w->spread) return;
  w->in_place = true, w->plane = w->in;
  for (size_t d = 0; d < 3; d++) w->extent[d] = u(w->c->win.in[d]);
}

/* Vectors of sums of the ranges of a row, of a panel of channels: their cost for a tap of the last dim. */
static double cost_of_ranges(const walk *w, const anfi_isa *isa, uint32_t lanes) {
  double cost = 0;
  uint64_t lo, hi;
  for (uint64_t t = 0; t < u(w->c->win.kernel[2]); t++)
    if (readers(w, 2, t, &lo, &hi)) cost += anfi_tile_cost(isa, lanes, hi - lo, w->panel);
  return cost / (double)w->c->win.kernel[2];
}

/* Cycles for a result and step of K, as the cost model has it: of the products, of the copy of the input, and of
 * transposing the sums. */
static double cycles_of(const walk *w, const anfi_isa *isa) {
  static const double TRANSPOSE = 6, COPY = 12; // of a vector of sums, of the copy
  uint32_t lanes = isa->bytes / (uint32_t)anfi_t_bytes(anfi_t_dt(w->elem));
  uint64_t rows = rows_of(w, COLUMNS), cols = u(w->c->win.out[2]), co = u(w->c->co),
           between = w->extent[2] - cols, parts = channel_parts(w, 1), tall = co / parts,
           n = anfi_cv_lanes(rows * w->extent[2] - between);
  double products = anfi_tile_cost(isa, lanes, tall, n), transposed = 0, copied = 0;
  if (!w->in_place)
    copied = (double)(w->phases * (1 + w->reach[0]) * (rows + w->reach[1]) * w->extent[2]);
  if (w->exchanged) {
    double row = w->ranged && w->in_place ? cost_of_ranges(w, isa, lanes)
                                          : anfi_tile_cost(isa, lanes, cols, w->panel);
    products = is_by_rows(w) ? part_read(w) * (double)rows * row
                             : anfi_tile_cost(isa, lanes, rows * cols, w->panel);
    transposed = TRANSPOSE * (double)(rows * cols * co) / (double)u(w->c->ci);
  }
  return ((double)parts * products + (COPY * copied + transposed) / (double)(w->taps * lanes)) /
         (double)(rows * cols);
}

/* Are sums transposed, and by how many channels? Rows that have products of their own need no copy for each column of
 * the window. No bit depends on any of that, only on the blocks of K. */
static void choose_sums(walk *w) {
  anfi_isa isa = anfi_low_isa(w->L);
  walk best = *w;
  double least = cycles_of(w, &isa);
  for (size_t spread = 0; spread <= w->spread; spread += w->spread ? w->spread : 1)
    for (uint64_t panel = ANFI_CV_PANEL; panel <= 4 * ANFI_CV_PANEL; panel *= 2) {
      walk other = *w;
      if (w->c->co % (int64_t)panel || (spread != w->spread && w->spread == 3)) continue;
      other.exchanged = true, other.panel = panel, other.spread = spread;
      anfi_cv_sizes(&other);
      place_ranges(&other);
      double c = cycles_of(&other, &isa);
      if (c < least) least = c, best = other;
    }
  *w = best;
}

void anfi_cv_forward(walk *w) {
  enum { LONG = 512 }; // results of a plane, from which on it is blocked as a product
  nest g, n;
  if (product_of_images(w)) return;
  w->in_place = reads_in_place(w);
  w->unpacked = w->in_place && !w->flipped && w->out >= LONG;
  w->spread = w->in_place ? 0 : spread_of(w);
  anfi_cv_sizes(w);
  w->ranged = has_ranges(w);
  if (!w->unpacked) {
    w->step = step_of(w);
    choose_sums(w);
  }
  place p = anfi_cv_open_images(w, w, &g, &n);
  if (w->in_place) w->copy = w->q->x, w->copy0 = p.x;
  all_rows(w, &p);
  anfi_cv_close(w, &n);
  anfi_cv_close(w, &g);
}
