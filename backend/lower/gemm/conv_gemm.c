// SPDX-License-Identifier: Apache-2.0
/* Convolutions and their gradients by kernels, without a matrix of patches: some rows of results are a product for each
 * tap of the window, summed by one list_brgemm whose lists say where the taps' weights and rows are.
 *   Conv2D(x, w)   ->   y[rows] = list_brgemm of (x[rows + tap], w[tap]) over the taps of the window
 *
 * Rows of the copy follow each other, so several rows of results are one product, and its columns between two rows are
 * dropped. A window of one element reads the input where it is, and windows side by side are windows of one element of
 * more channels. Weights that never change are packed when code is made.
 *
 * Along each dim position o * stride + t * dilation belongs to phase (t * dilation) % stride, where
 * it is number o + (t * dilation) / stride: so a copy of the input by phases, with its padding, has
 * the rows of every tap dense. The gradient by the input walks the phases of the input instead; that
 * by the weights wants channels next to each other, and sums over the pixels. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"
#include "ir/ops/nn/window.h"
#include "ir/value/mapped.h"

typedef struct walk {
  /* the op */
  anfi_low *L;
  const anfi_conv *c;
  const anfi_conv_work *q;
  anf_tir_elem elem;
  /* sizes */
  uint64_t taps, in, out;       // elements of the window, of planes
  uint64_t reach[3], extent[3]; // greatest number that taps add; size of the copy by phases
  uint64_t phases, plane;       // of the copy: how many phases, elements of one channel of one
  /* memory */
  texpr copy, weights, copy0, weights0; // the last two: where the image and the group start
} walk;

static texpr ix(const walk *w, uint64_t v) { return anfi_ix(w->L, v); }
static texpr add(const walk *w, texpr a, texpr b) { return anfi_ix_add(w->L, a, b); }
static texpr mulc(const walk *w, texpr a, uint64_t c) { return anfi_ix_mulc(w->L, a, c); }
static texpr at(const walk *w, texpr tensor, texpr i) {
  i = anfi_low_atom(w->L, i);
  return anfi_t_addr(w->L->t, tensor, 1, &i);
}
static texpr load(const walk *w, texpr tensor, texpr i) {
  return anfi_low_load(w->L, tensor, anfi_low_atom(w->L, i));
}
static void store(const walk *w, texpr tensor, texpr i, texpr x) {
  anfi_low_put(w->L, tensor, anfi_low_atom(w->L, i), (anfi_elem){x, NULL}, false);
}
static uint64_t u(int64_t v) { return (uint64_t)v; }
static int64_t up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/* ---- loops over several dims ---- */

typedef struct nest {
  anfi_loop l[6];
  texpr at[6];
  size_t n;
} nest;
static void open(const walk *w, nest *k, size_t n, const uint64_t *extent, bool parallel) {
  k->n = n;
  for (size_t d = 0; d < n; d++) {
    anfi_low_loop(w->L, &k->l[d], extent[d], "i");
    k->l[d].parallel = parallel && !k->l[d].none;
    parallel &= !k->l[d].parallel;
    k->at[d] = k->l[d].var;
  }
}
static void close(const walk *w, nest *k) {
  for (size_t d = k->n; d-- > 0;) anfi_low_loop_end(w->L, &k->l[d]);
}
/* ((a * e1 + b) * e2 + c) ... */
static texpr mixed(const walk *w, size_t n, const texpr *digit, const uint64_t *extent) {
  texpr s = ix(w, 0);
  for (size_t d = 0; d < n; d++) s = add(w, mulc(w, s, extent[d]), digit[d]);
  return s;
}

static void fill(const walk *w, texpr to, uint64_t n) {
  anfi_loop l;
  anfi_low_loop(w->L, &l, n, "z");
  store(w, to, l.var, anfi_low_const(w->L, anfi_t_dt(w->elem), 0));
  anfi_low_loop_end(w->L, &l);
}

/* ---- copies ---- */

/* [groups][taps][co][ci] of weights that never change, from [groups][co][ci][taps]. */
static void pack_constant(walk *w) {
  enum { OFTEN = 8 << 20 }; // bytes after which the source's pages leave memory
  anfi_os_block *file = anfi_value_block(w->q->const_w);
  tdtype d = anfi_t_dt(w->elem);
  size_t bytes = anfi_t_bytes(d), plane = u(w->c->co * w->c->ci), all = plane * w->taps, read = 0;
  anfi_os_block *b = anfi_low_block(w->L, anfi_size_mul(w->L->cx, w->q->const_w->n, bytes));
  const unsigned char *from = w->q->const_w->data;
  for (size_t g = 0; g < u(w->c->groups); g++)
    for (size_t i = 0; i < plane; i++) {
      unsigned char *to = anfi_os_block_data(b) + (g * all + i) * bytes;
      for (size_t tap = 0; tap < w->taps; tap++, from += bytes)
        memcpy(to + tap * plane * bytes, from, bytes);
      if ((read += w->taps * bytes) < OFTEN) continue;
      if (file) anfi_os_block_leave(file);
      read = 0;
    }
  if (file) anfi_os_block_leave(file);
  w->weights = anfi_low_block_table(w->L, d, w->q->const_w->n, b);
}

/* Before the loop over groups: weights of one tap stay as they are, constant ones are packed once. */
static void begin_weights(walk *w) {
  if (w->taps == 1) w->weights = w->q->w;
  else if (w->q->const_w) pack_constant(w);
}

/* [taps][co][ci] of one group's weights, from [co][ci][taps]. */
static void group_weights(walk *w, texpr group) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci), e[3] = {co, ci, w->taps};
  nest k;
  w->weights0 = ix(w, 0);
  if (w->taps == 1 || w->q->const_w) {
    w->weights0 = anfi_low_atom(w->L, mulc(w, group, co * ci * w->taps));
    return;
  }
  w->weights = anfi_low_local(w->L, w->elem, co * ci * w->taps, "taps");
  open(w, &k, 3, e, false);
  texpr x = load(w, w->q->w, add(w, mulc(w, group, co * ci * w->taps), mixed(w, 3, k.at, e)));
  texpr to[3] = {k.at[2], k.at[0], k.at[1]};
  store(w, w->weights, mixed(w, 3, to, (uint64_t[]){w->taps, co, ci}), x);
  close(w, &k);
}

/* One phase of `channels` planes, from `from` on: those elements that lie inside. `last`: channels
 * are the innermost dim of the copy. */
static void copy_phase(const walk *w, const uint64_t *f, texpr tensor, texpr from,
                       uint64_t channels, bool last) {
  const anfi_window *v = &w->c->win;
  uint64_t e[4] = {channels}, lo[3], id = 0;
  nest k;
  for (size_t d = 0; d < 3; d++) {
    int64_t a = up(v->before[d] - (int64_t)f[d], v->stride[d]),
            b = up(v->in[d] + v->before[d] - (int64_t)f[d], v->stride[d]);
    lo[d] = a > 0 ? u(a) : 0;
    if (b > (int64_t)w->extent[d]) b = (int64_t)w->extent[d];
    if (b <= (int64_t)lo[d]) return;
    e[d + 1] = u(b) - lo[d];
    id = id * u(v->stride[d]) + f[d];
  }
  open(w, &k, 4, e, false);
  texpr src = ix(w, 0), dst = ix(w, 0);
  for (size_t d = 0; d < 3; d++) {
    texpr pos = anfi_ix_addc(w->L, k.at[d + 1], (int64_t)lo[d]);
    dst = add(w, mulc(w, dst, w->extent[d]), pos);
    src = add(w, mulc(w, src, u(v->in[d])),
              anfi_ix_addc(w->L, mulc(w, pos, u(v->stride[d])), (int64_t)f[d] - v->before[d]));
  }
  dst = last ? add(w, mulc(w, dst, channels), k.at[0]) : add(w, mulc(w, k.at[0], w->plane), dst);
  dst = add(w, ix(w, id * channels * w->plane), dst);
  store(w, w->copy, dst, load(w, tensor, add(w, from, add(w, mulc(w, k.at[0], w->in), src))));
  close(w, &k);
}

/* Does a tap of the window read this phase? */
static bool is_read(const walk *w, const uint64_t *f) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++) {
    uint64_t t = 0;
    while (t < u(v->kernel[d]) && t * u(v->dilation[d]) % u(v->stride[d]) != f[d]) t++;
    if (t == u(v->kernel[d])) return false;
  }
  return true;
}

/* x by phases: [phases][channels][extent] or [phases][extent][channels] */
static void copy_input(walk *w, texpr from, bool last) {
  const anfi_window *v = &w->c->win;
  uint64_t f[3], all = w->phases * u(w->c->ci) * w->plane;
  w->copy = anfi_low_local(w->L, w->elem, all, "phases");
  fill(w, w->copy, all);
  for (f[0] = 0; f[0] < u(v->stride[0]); f[0]++)
    for (f[1] = 0; f[1] < u(v->stride[1]); f[1]++)
      for (f[2] = 0; f[2] < u(v->stride[2]); f[2]++)
        if (is_read(w, f)) copy_phase(w, f, w->q->x, from, u(w->c->ci), last);
}

/* Of a tap along each dim, as indices: its phase, and what it adds. */
static void split_tap(const walk *w, const texpr *tap, texpr *phase, texpr *more) {
  *phase = ix(w, 0);
  for (size_t d = 0; d < 3; d++) {
    texpr t = mulc(w, tap[d], u(w->c->win.dilation[d]));
    *phase = add(w, mulc(w, *phase, u(w->c->win.stride[d])),
                 anfi_ix_modc(w->L, t, u(w->c->win.stride[d])));
    more[d] = anfi_ix_divc(w->L, t, u(w->c->win.stride[d]));
  }
}

static void kernel_dims(const walk *w, uint64_t *e) {
  for (size_t d = 0; d < 3; d++) e[d] = u(w->c->win.kernel[d]);
}

/* ---- kernels ---- */

static texpr list(const walk *w, uint64_t n) {
  texpr size = ix(w, n);
  texpr v = anfi_t_tensor(w->L->t, ANF_TIR_void, true, "list", 1, &size, NULL);
  anfi_low_set_depth(w->L, v, w->L->scope.n);
  anfi_low_add(w->L, anfi_t_define(w->L->t, TL_local, v, NULL));
  return v;
}

static void put_list(const walk *w, texpr l, uint64_t i, texpr address) {
  texpr n = ix(w, i);
  anfi_low_set(w->L, anfi_t_at(w->L->t, l, 1, &n, 1, 0, NULL),
               anfi_t_cast(w->L->t, anfi_t_ptr(ANF_TIR_void), address));
}

/* size: num, m, n, k, lda, ldb, ldc, stride a, stride b; len 0: no lists */
static void product(const walk *w, texpr a, texpr b, texpr c, const uint64_t *size, uint64_t len,
                    bool init, bool ta) {
  tstore *t = w->L->t;
  texpr in[BRGEMM_COUNT] = {a, b, c};
  tattrs attrs = {0};
  anfi_low_gemm_sizes(w->L, in, size);
  if (len) in[BRGEMM_len] = anfi_t_int(t, ANFI_S64, (int64_t)len);
  if (init) attrs = anfi_t_attr_set(t, attrs, TA_init, 1);
  if (ta) attrs = anfi_t_attr_set(t, attrs, TA_trans_a, 1);
  anfi_low_add(w->L, anfi_t_eval(t, anfi_t_brgemm(t, in, attrs)));
}

/* Rows of sums begin with the bias of their channel, if there is one. */
static void begin_rows(const walk *w, texpr sums, texpr channel0, texpr to, uint64_t m, uint64_t n,
                       uint64_t ld) {
  if (!w->q->bias) return;
  nest k;
  open(w, &k, 2, (uint64_t[]){m, n}, false);
  texpr b = load(w, w->q->bias, add(w, channel0, k.at[0]));
  store(w, sums, add(w, to, add(w, mulc(w, k.at[0], ld), k.at[1])), b);
  close(w, &k);
}

static texpr first_address(const walk *w, texpr l) {
  texpr zero = ix(w, 0);
  return anfi_t_addr(w->L->t, l, 1, &zero);
}

/* ---- forward ---- */

/* Results of one product: rows from o on, of some channels of a group. */
typedef struct block {
  texpr image, o[2], channel; // channel: of its group
  uint64_t rows, channels;
} block;

/* Fills the lists of addresses: weights and columns of each tap. */
static void list_taps(const walk *w, const block *b, texpr la, texpr lb) {
  uint64_t ci = u(w->c->ci), co = u(w->c->co), e[3];
  texpr weights = anfi_low_atom(w->L, add(w, w->weights0, mulc(w, b->channel, ci)));
  kernel_dims(w, e);
  for (uint64_t tap = 0; tap < w->taps; tap++) {
    texpr t[3] = {ix(w, tap / (e[1] * e[2])), ix(w, tap / e[2] % e[1]), ix(w, tap % e[2])}, phase,
          more[3];
    split_tap(w, t, &phase, more);
    texpr pos = mixed(w, 3, (texpr[]){add(w, b->o[0], more[0]), add(w, b->o[1], more[1]), more[2]},
                      w->extent);
    pos = add(w, w->copy0, add(w, mulc(w, phase, ci * w->plane), pos));
    put_list(w, la, tap, at(w, w->weights, add(w, weights, ix(w, tap * co * ci))));
    put_list(w, lb, tap, at(w, w->copy, pos));
  }
}

/* The epilogue of this element, on its sum x: the op that reads the convolution. */
static texpr consumed(const walk *w, const block *b, texpr channel, texpr row, texpr col, texpr x) {
  anfi_low *L = w->L;
  const int64_t *out = w->c->win.out;
  anfi_pt p = {0};
  anfi_pt_push(&p, b->image, u(w->c->n));
  anfi_pt_push(&p, channel, u(w->c->groups * w->c->co));
  anfi_pt_push(&p, b->o[0], u(out[0]));
  anfi_pt_push(&p, anfi_low_atom(L, add(w, b->o[1], row)), u(out[1]));
  anfi_pt_push(&p, col, u(out[2]));
  anfi_view_know(L, w->q->product, &p, x);
  return anfi_view_at(L, w->q->root, &p).re;
}

/* Sums of rows with columns between them, to the rows of results, with the bias if they have begun without. */
static void end_rows(const walk *w, const block *b, texpr sums, texpr row, texpr channel0,
                     bool bias) {
  uint64_t cols = u(w->c->win.out[2]), ld = b->rows * w->extent[2];
  nest k;
  open(w, &k, 3, (uint64_t[]){b->channels, b->rows, cols}, false);
  texpr from = add(w, mulc(w, k.at[0], ld), add(w, mulc(w, k.at[1], w->extent[2]), k.at[2]));
  texpr channel = anfi_low_atom(w->L, add(w, channel0, k.at[0])), x = load(w, sums, from);
  if (bias) x = anfi_t_add(w->L->t, x, load(w, w->q->bias, channel));
  if (w->q->root) x = consumed(w, b, channel, k.at[1], k.at[2], x);
  texpr to = add(w, mulc(w, k.at[0], w->out), add(w, mulc(w, k.at[1], cols), k.at[2]));
  store(w, w->q->to, add(w, row, to), x);
  close(w, &k);
}

/* `to`: where the group's results start. */
static void one_block(const walk *w, texpr to, const block *b, texpr channel0) {
  const anfi_window *v = &w->c->win;
  uint64_t ci = u(w->c->ci), cols = u(v->out[2]), n = (b->rows - 1) * w->extent[2] + cols;
  texpr la = list(w, w->taps), lb = list(w, w->taps);
  list_taps(w, b, la, lb);
  texpr row = mulc(w, add(w, mulc(w, b->o[0], u(v->out[1])), b->o[1]), cols);
  row = anfi_low_atom(w->L, add(w, add(w, to, mulc(w, b->channel, w->out)), row));
  channel0 = anfi_low_atom(w->L, add(w, channel0, b->channel));
  uint64_t size[] = {1, b->channels, n, ci, ci, w->plane, w->out, 0, 0};
  bool dense = b->rows == 1 || w->extent[2] == cols, apart = !dense || w->q->root;
  texpr sums = w->q->to, at0 = row;
  if (apart) {
    size[6] = b->rows * w->extent[2];
    sums = anfi_low_local(w->L, w->elem, b->channels * size[6], "sums");
    at0 = ix(w, 0);
  }
  if (dense) begin_rows(w, sums, channel0, at0, b->channels, n, size[6]);
  product(w, first_address(w, la), first_address(w, lb), at(w, sums, at0), size, w->taps,
          !dense || !w->q->bias, false);
  if (apart) end_rows(w, b, sums, row, channel0, w->q->bias && !dense);
}

/* The image and group that results are of: where its planes start in x and in y. */
typedef struct place {
  texpr image, x, y, ci0, co0;
} place;
static place place_of(const walk *w, texpr n, texpr g) {
  uint64_t ci = u(w->c->ci), co = u(w->c->co), groups = u(w->c->groups);
  texpr ng = add(w, mulc(w, n, groups), g);
  return (place){n, anfi_low_atom(w->L, mulc(w, ng, ci * w->in)),
                 anfi_low_atom(w->L, mulc(w, ng, co * w->out)), mulc(w, g, ci), mulc(w, g, co)};
}

static bool parallel(const walk *w) {
  uint64_t work = u(w->c->n * w->c->groups * w->c->ci * w->c->co) * w->taps * w->out;
  return w->L->o.parallel && !w->L->in_parallel && work >= ANFI_PARALLEL_MACS;
}

/* As many blocks of `rows` rows as `many`, from row `first` on, each in parts of channels. */
static void blocks(const walk *w, const place *p, uint64_t first, uint64_t rows, uint64_t many,
                   uint64_t parts) {
  uint64_t e[3] = {u(w->c->win.out[0]), many, parts}, channels = u(w->c->co) / parts;
  nest k;
  if (!many) return;
  open(w, &k, 3, e, parallel(w) && w->c->n == 1);
  texpr row = anfi_ix_addc(w->L, mulc(w, k.at[1], rows), (int64_t)first);
  block b = {.image = p->image,
             .o = {k.at[0], anfi_low_atom(w->L, row)},
             .rows = rows,
             .channels = channels};
  b.channel = anfi_low_atom(w->L, mulc(w, k.at[2], channels));
  one_block(w, p->y, &b, p->co0);
  close(w, &k);
}

/* Channels are shared among threads where there are few rows; sums that are consumed stay in the first cache. */
static uint64_t channel_parts(const walk *w, uint64_t many) {
  enum { PARTS = 4, LEAST = 16, CONSUMED = 64 };
  uint64_t co = u(w->c->co);
  if (w->q->root && co > CONSUMED && co % CONSUMED == 0) return co / CONSUMED;
  bool some = parallel(w) && w->c->n == 1 && many * u(w->c->win.out[0]) < PARTS;
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

/* A window of one element over a dense plane: [co, ci] @ [ci, plane], blocked as products are. */
static bool one_product(const walk *w, const place *p) {
  point f = {w, p};
  uint64_t ci = u(w->c->ci);
  anfi_mm q = {.elem = w->elem, .m = u(w->c->co), .n = w->out, .k = ci, .user = &f};
  q.a = w->weights, q.b = w->copy, q.c = w->q->to;
  q.a0 = w->weights0, q.b0 = w->copy0, q.c0 = p->y;
  q.lda = ci, q.ldb = w->plane, q.ldc = w->out;
  q.serial = parallel(w) && w->c->n > 1;
  if (w->q->bias || w->q->root) q.store_element = store_point;
  if (w->taps > 1 || w->plane != w->out || !anfi_low_gemm_wanted(&q)) return false;
  anfi_low_gemm(w->L, &q);
  return true;
}

static void all_rows(const walk *w, const place *p) {
  enum { COLUMNS = 128 }; // of a product, or one row
  if (one_product(w, p)) return;
  uint64_t high = u(w->c->win.out[1]), rows = COLUMNS / w->extent[2];
  if (!rows) rows = 1;
  rows = anfi_mm_up(high, anfi_mm_up(high, rows));
  uint64_t many = high / rows, parts = channel_parts(w, many);
  blocks(w, p, 0, rows, many, parts);
  blocks(w, p, many * rows, high % rows, high % rows ? 1 : 0, parts);
}

/* Are the rows of the only tap dense as they are? */
static bool reads_in_place(const walk *w) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++)
    if (v->kernel[d] != 1 || v->stride[d] != 1 || v->before[d] || v->in[d] != v->out[d])
      return false;
  return true;
}

/* Do the windows lie side by side? */
static bool of_patches(const walk *w) {
  const anfi_window *v = &w->c->win;
  for (size_t d = 0; d < 3; d++)
    if (v->kernel[d] != v->stride[d] || v->before[d] || v->dilation[d] != 1 ||
        v->in[d] < v->out[d] * v->kernel[d])
      return false;
  return w->taps > 1;
}

/* x by places in the window: [channels][kernel][out], each element of x at most once. */
static void copy_patches(walk *w, texpr from) {
  const anfi_window *v = &w->c->win;
  uint64_t e[6];
  nest c, k;
  for (size_t d = 0; d < 3; d++) e[d] = u(v->kernel[d]), e[3 + d] = u(v->out[d]);
  w->copy = anfi_low_local(w->L, w->elem, u(w->c->ci) * w->taps * w->out, "patches");
  open(w, &c, 1, &(uint64_t){u(w->c->ci)}, false);
  open(w, &k, 6, e, false);
  texpr src = c.at[0];
  for (size_t d = 0; d < 3; d++)
    src = add(w, mulc(w, src, u(v->in[d])), add(w, mulc(w, k.at[3 + d], e[d]), k.at[d]));
  texpr dst = add(w, mulc(w, c.at[0], w->taps * w->out), mixed(w, 6, k.at, e));
  store(w, w->copy, dst, load(w, w->q->x, add(w, from, src)));
  close(w, &k);
  close(w, &c);
}

/* for groups, whose weights `of` packs; for images */
static place open_images(walk *w, walk *of, nest *g, nest *n) {
  uint64_t e[2] = {u(w->c->groups), u(w->c->n)};
  begin_weights(of);
  open(w, g, 1, e, false);
  group_weights(of, g->at[0]);
  open(w, n, 1, e + 1, parallel(w));
  return place_of(w, n->at[0], g->at[0]);
}

/* im2col: a convolution with a window of one over channels * taps planes; weights lie in that order already. */
static void forward_patches(walk *w) {
  anfi_conv whole = *w->c;
  walk one = *w;
  nest g, n;
  whole.ci *= (int64_t)w->taps;
  one.c = &whole, one.taps = 1, one.phases = 1, one.plane = w->out;
  for (size_t d = 0; d < 3; d++) {
    whole.win.kernel[d] = whole.win.stride[d] = 1;
    one.extent[d] = u(w->c->win.out[d]);
    one.reach[d] = 0;
  }
  place p = open_images(w, &one, &g, &n);
  copy_patches(w, p.x);
  one.copy = w->copy;
  all_rows(&one, &p);
  close(w, &n);
  close(w, &g);
}

static void forward(walk *w) {
  nest g, n;
  place p = open_images(w, w, &g, &n);
  if (reads_in_place(w)) w->copy = w->q->x, w->copy0 = p.x;
  else copy_input(w, p.x, false);
  all_rows(w, &p);
  close(w, &n);
  close(w, &g);
}

/* ---- by the input ---- */

/* Copies dy to [co][extent] with zeros around it: index o of each dim goes to o + reach. */
static void copy_dy(walk *w, texpr from) {
  const anfi_window *v = &w->c->win;
  uint64_t co = u(w->c->co), e[4] = {co, u(v->out[0]), u(v->out[1]), u(v->out[2])};
  nest k;
  w->copy = anfi_low_local(w->L, w->elem, co * w->plane, "phases");
  fill(w, w->copy, co * w->plane);
  open(w, &k, 4, e, false);
  texpr dst = k.at[0];
  for (size_t d = 0; d < 3; d++)
    dst = add(w, mulc(w, dst, w->extent[d]), anfi_ix_addc(w->L, k.at[d + 1], (int64_t)w->reach[d]));
  store(w, w->copy, dst, load(w, w->q->y, add(w, from, mixed(w, 4, k.at, e))));
  close(w, &k);
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
  texpr la = list(w, count), lb = list(w, count);
  for (uint64_t tap = 0; tap < w->taps; tap++) {
    if (!in_phase(w, f, tap, more)) continue;
    texpr o[3] = {q[0], q[1], ix(w, 0)};
    for (size_t d = 0; d < 3; d++)
      o[d] = anfi_ix_addc(w->L, o[d], (int64_t)(s->lo[d] + w->reach[d] - more[d]));
    put_list(w, la, n, at(w, w->weights, add(w, w->weights0, ix(w, tap * co * ci))));
    put_list(w, lb, n++, at(w, w->copy, mixed(w, 3, o, w->extent)));
  }
  uint64_t size[] = {1, ci, s->n[2], co, ci, w->plane, ld, 0, 0};
  product(w, first_address(w, la), first_address(w, lb), at(w, sums, start), size, count, init,
          true);
  return count;
}

static void one_phase(const walk *w, const uint64_t *f, texpr to, texpr channel0) {
  const anfi_window *v = &w->c->win;
  uint64_t ci = u(w->c->ci);
  span s;
  nest r, k;
  if (!span_of(w, f, &s)) return;
  open(w, &r, 2, s.n, parallel(w) && w->c->n == 1);
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
      open(w, &k, 2, (uint64_t[]){ci, s.n[2]}, false);
      store(w, w->q->to, add(w, row, add(w, mulc(w, k.at[0], w->in), k.at[1])),
            anfi_low_const(w->L, anfi_t_dt(w->elem), 0));
      close(w, &k);
    }
  } else {
    texpr sums = anfi_low_local(w->L, w->elem, ci * s.n[2], "row"), x;
    bool any = phase_row(w, f, &s, r.at, sums, s.n[2], ix(w, 0), true);
    open(w, &k, 2, (uint64_t[]){ci, s.n[2]}, false);
    x = any ? load(w, sums, add(w, mulc(w, k.at[0], s.n[2]), k.at[1]))
            : anfi_low_const(w->L, anfi_t_dt(w->elem), 0);
    if (w->q->bias) x = anfi_t_add(w->L->t, load(w, w->q->bias, add(w, channel0, k.at[0])), x);
    store(w, w->q->to,
          add(w, row, add(w, mulc(w, k.at[0], w->in), mulc(w, k.at[1], u(v->stride[2])))), x);
    close(w, &k);
  }
  close(w, &r);
}

static void by_input(walk *w) {
  const anfi_window *v = &w->c->win;
  uint64_t f[3];
  nest g, n;
  place p = open_images(w, w, &g, &n);
  copy_dy(w, p.y);
  for (f[0] = 0; f[0] < u(v->stride[0]); f[0]++)
    for (f[1] = 0; f[1] < u(v->stride[1]); f[1]++)
      for (f[2] = 0; f[2] < u(v->stride[2]); f[2]++) one_phase(w, f, p.x, p.ci0);
  close(w, &n);
  close(w, &g);
}

/* ---- by the weights ---- */

static void one_tap(const walk *w, const texpr *tap, texpr number, const place *p) {
  const anfi_window *v = &w->c->win;
  uint64_t ci = u(w->c->ci), co = u(w->c->co);
  texpr phase, more[3];
  anfi_loop o;
  split_tap(w, tap, &phase, more);
  texpr c = at(w, w->weights, mulc(w, number, co * ci));
  anfi_low_loop(w->L, &o, u(v->out[0]), "o");
  texpr pos = mixed(w, 3, (texpr[]){add(w, o.var, more[0]), more[1], more[2]}, w->extent);
  texpr b = mulc(w, add(w, mulc(w, phase, w->plane), pos), ci),
        a = add(w, p->y, mulc(w, o.var, u(v->out[1] * v->out[2])));
  uint64_t size[] = {u(v->out[1]), co, ci,           u(v->out[2]),     w->out,
                     ci,           ci, u(v->out[2]), w->extent[2] * ci};
  product(w, at(w, w->q->y, a), at(w, w->copy, b), c, size, 0, false, false);
  anfi_low_loop_end(w->L, &o);
}

/* [co][ci][taps] of one group, from the sums of each part, which are added in order. */
static void unpack_weights(const walk *w, texpr group, uint64_t parts) {
  uint64_t co = u(w->c->co), ci = u(w->c->ci), e[3] = {co, ci, w->taps};
  nest k;
  open(w, &k, 3, e, false);
  texpr from[3] = {k.at[2], k.at[0], k.at[1]};
  texpr at = anfi_low_atom(w->L, mixed(w, 3, from, (uint64_t[]){w->taps, co, ci})),
        x = load(w, w->weights, at);
  for (uint64_t p = 1; p < parts; p++)
    x = anfi_t_add(w->L->t, x,
                   load(w, w->weights, anfi_ix_addc(w->L, at, (int64_t)(p * co * ci * w->taps))));
  store(w, w->q->to, add(w, mulc(w, group, co * ci * w->taps), mixed(w, 3, k.at, e)), x);
  close(w, &k);
}

/* Adds one image's gradient to sums from `sums` on. */
static void one_image(walk *w, texpr image, texpr group, texpr sums, bool in_parallel) {
  uint64_t taps[3];
  nest t;
  kernel_dims(w, taps);
  anfi_low_open(w->L); // the copy ends with it
  place p = place_of(w, image, group);
  copy_input(w, p.x, true);
  open(w, &t, 3, taps, in_parallel);
  one_tap(w, t.at, add(w, sums, mixed(w, 3, t.at, taps)), &p);
  close(w, &t);
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
  one_image(w, i.var, group, sums, parallel(w) && parts == 1);
  anfi_low_loop_end(L, &i);
}

static void by_weights(walk *w) {
  uint64_t groups = u(w->c->groups), parts = parts_of(w),
           sums = parts * u(w->c->co * w->c->ci) * w->taps;
  nest g, p;
  open(w, &g, 1, &groups, false);
  w->weights = anfi_low_local(w->L, w->elem, sums, "taps");
  fill(w, w->weights, sums);
  if (w->c->n) {
    open(w, &p, 1, &parts, parallel(w) && parts > 1);
    images_of_part(w, p.at[0], parts, g.at[0]);
    close(w, &p);
  }
  unpack_weights(w, g.at[0], parts);
  close(w, &g);
}

/* ---- which ---- */

enum { MOST_PHASES = 16, MOST_TAPS = 128, FEW_CHANNELS = 16, FEW = 1 << 13 };

static bool plan_of(walk *w) {
  const anfi_conv *c = w->c;
  const anfi_window *v = &c->win;
  w->taps = w->in = w->out = w->phases = w->plane = 1;
  for (size_t d = 0; d < 3; d++) {
    w->taps *= u(v->kernel[d]), w->in *= u(v->in[d]), w->out *= u(v->out[d]);
    w->phases *= u(v->stride[d]);
    if (v->before[d] < 0) return false;
    w->reach[d] = v->kernel[d] ? u((v->kernel[d] - 1) * v->dilation[d] / v->stride[d]) : 0;
    uint64_t most = w->q->way == ANFI_CONV_BY_INPUT ? u(up(v->in[d] + v->before[d], v->stride[d]))
                                                    : u(v->out[d]);
    if (most < u(v->out[d])) most = u(v->out[d]);
    w->extent[d] = most + w->reach[d];
    w->plane *= w->extent[d];
  }
  if (w->elem != ANF_TIR_f32 && w->elem != ANF_TIR_f64) return false;
  if (!w->taps || !w->out || !w->in) return false;
  bool patches = w->q->way == ANFI_CONV_FORWARD && of_patches(w);
  if (!patches && (w->taps > MOST_TAPS || w->phases > MOST_PHASES)) return false;
  return c->ci * c->co >= FEW_CHANNELS && u(c->ci * c->co) * w->taps * w->out >= FEW;
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
  if (q->way == ANFI_CONV_FORWARD && of_patches(&w)) forward_patches(&w);
  else if (q->way == ANFI_CONV_FORWARD) forward(&w);
  else if (q->way == ANFI_CONV_BY_INPUT) by_input(&w);
  else by_weights(&w);
  anfi_low_add(L, anfi_low_close(L));
  return true;
}
