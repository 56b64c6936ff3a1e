// SPDX-License-Identifier: Apache-2.0
/* Convolutions of bytes, summed in i32, by dot products.
 *
 *   y = Conv2D(Cast(x, i32), Cast(w, i32))          x: u8 or i8, w: i8
 *   Quantize(Relu(Cast(y, f32) * s + b), t)         the epilogue: no tensor of i32 is written
 *
 * x is copied once with its padding, by phases of the stride (conv_gemm.c tells why), a group of k (four channels with
 * VNNI, two where weights are widened to s16) to a word: [phases][words of channels][extent][4]. Then the rows of results from row `r` on are one product for the taps of each
 * row of the kernel, and several rows of results are one product, too: rows of the copy follow each other, so columns
 * between two rows of results are computed and dropped.
 *
 *   x: 14 x 14, padding 1     rows of the copy have 16 words: 14 rows are 15 * 16 + 14 columns, of which 2 in 16 are dropped
 *
 * Where weights are constant and dot products are VNNI's, an unsigned x is copied with its channels last instead: what a
 * result reads of a row of the window is dense, weights are the right factor, packed in panels of channels, and a row of
 * results is one product for the whole window, with no column dropped. Its sums, [columns][channels], are transposed.
 *
 * VNNI reads x as unsigned: signed x is copied as x + 128, and 128 times the sum of a channel's weights is
 * subtracted from its sums. All sums are exact modulo 2^32. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"
#include "ir/ops/nn/window.h"

/* Planes so many words apart share sets of the first cache (conflict misses). */
enum { FLIP = 128, SAME_SETS = 64 };

typedef struct conv_bytes {
  /* the convolution */
  anfi_low *L;
  anfi_conv c;
  anfi_view *x, *w;
  const anf_type *type;
  /* types as kernels read them; channels of a word; whether signed x is copied as unsigned */
  anf_tir_elem weight, byte;
  uint64_t word;
  bool flipped, small; // small: no byte of constant weights is outside [-64, 64]
  bool last;           // channels last; then the next two, else unused
  bool skips; // rows of the window that are padding are left out: tiles of AMX ask for their number
  uint64_t run; // bytes of a row of the window, to whole words
  /* elements of the window, of a plane of x; words of channels, channels of them; the copy by phases */
  uint64_t taps, in, words, depth, phases, plane, extent[3];
  /* results of one product: rows, columns, channels */
  uint64_t rows, cols, channels;
  /* while it is lowered; excess: 128 times the sums of weights by channel, or NULL */
  texpr copy, weights, excess, to;
  const anfi_view *product, *root;
} conv_bytes;

static uint64_t u(int64_t v) { return (uint64_t)v; }
static int64_t up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
static uint64_t parts(uint64_t n, uint64_t by) { return (n + by - 1) / by; }

static texpr ix(const conv_bytes *q, uint64_t v) { return anfi_ix(q->L, v); }
static texpr atom(const conv_bytes *q, texpr e) { return anfi_low_atom(q->L, e); }
/* a * times + b */
static texpr mix(const conv_bytes *q, texpr a, uint64_t times, texpr b) {
  return anfi_ix_add(q->L, anfi_ix_mulc(q->L, a, times), b);
}

static texpr load(const conv_bytes *q, texpr tensor, texpr i) {
  return anfi_low_load(q->L, tensor, atom(q, i));
}
static void store(const conv_bytes *q, texpr tensor, texpr i, texpr x) {
  anfi_low_put(q->L, tensor, atom(q, i), (anfi_elem){x, NULL}, false);
}
static texpr address(const conv_bytes *q, texpr tensor, texpr i) {
  i = atom(q, i);
  return anfi_t_addr(q->L->t, tensor, 1, &i);
}

static void fill(const conv_bytes *q, texpr to, uint64_t n, anf_tir_elem d, int64_t value) {
  anfi_loop l;
  anfi_low_loop(q->L, &l, n, "z");
  store(q, to, l.var, anfi_t_int(q->L->t, anfi_t_dt(d), value));
  anfi_low_loop_end(q->L, &l);
}

/* ---- weights: [groups][taps][channels of y][depth], zeros where there is no channel of x ---- */

static uint64_t weights_size(const conv_bytes *q) {
  return u(q->c.co) * (q->last ? u(q->c.win.kernel[1]) * q->run : q->taps * q->depth);
}

/* Channels last: [groups][panels of channels][rows of the window][words][channels of the panel][4]. */
static void pack_panels(conv_bytes *q) {
  uint64_t co = u(q->c.co), ci = u(q->c.ci), groups = u(q->c.groups), n = weights_size(q),
           p = q->channels, high = u(q->c.win.kernel[1]), wide = u(q->c.win.kernel[2]);
  anfi_os_block *b = anfi_low_block(q->L, groups * n);
  int8_t *to = (int8_t *)anfi_os_block_data(b);
  const int8_t *from = (const int8_t *)q->w->constant->data;
  for (uint64_t o = 0; o < groups * co; o++)
    for (uint64_t k = 0; k < ci; k++)
      for (uint64_t t = 0; t < high * wide; t++) {
        uint64_t at = t % wide * ci + k, panel = o / co * n + o % co / p * p * high * q->run;
        to[panel + t / wide * q->run * p + (at / q->word * p + o % co % p) * q->word +
           at % q->word] = *from++;
      }
  q->weights = anfi_low_block_table(q->L, anfi_t_dt(q->weight), groups * n, b);
}

static void pack_constant(conv_bytes *q) {
  uint64_t co = u(q->c.co), ci = u(q->c.ci), groups = u(q->c.groups), n = weights_size(q);
  tdtype d = anfi_t_dt(q->weight);
  bool wide = q->weight == ANF_TIR_s16;
  anfi_os_block *b = anfi_low_block(q->L, groups * n * anfi_t_bytes(d));
  void *to = anfi_os_block_data(b);
  const int8_t *from = (const int8_t *)q->w->constant->data;
  uint64_t *excess = ANFI_NEW_N(q->L->a, uint64_t, groups * co);
  for (uint64_t o = 0; o < groups * co; o++) {
    uint32_t sum = 0;
    uint64_t row = o / co * n + o % co * q->depth;
    for (uint64_t k = 0; k < ci; k++)
      for (uint64_t t = 0; t < q->taps; t++, from++) {
        uint64_t at = row + t * co * q->depth + k;
        if (wide) ((int16_t *)to)[at] = *from;
        else ((int8_t *)to)[at] = *from;
        sum += (uint32_t)*from * FLIP;
      }
    excess[o] = sum;
  }
  q->weights = anfi_low_block_table(q->L, d, groups * n, b);
  if (q->flipped) q->excess = anfi_low_table(q->L, anfi_t_dt(ANF_TIR_s32), groups * co, excess);
}

/* The group's weights, and their sums. */
static void pack_group(conv_bytes *q, texpr group) {
  anfi_low *L = q->L;
  uint64_t co = u(q->c.co), ci = u(q->c.ci);
  tdtype sum = anfi_t_dt(ANF_TIR_s32);
  anfi_loop o, k, t;
  q->weights = anfi_low_local(L, q->weight, weights_size(q), "taps");
  if (q->flipped) q->excess = anfi_low_local(L, ANF_TIR_s32, co, "excess");
  if (q->depth != ci) fill(q, q->weights, weights_size(q), q->weight, 0);
  anfi_low_loop(L, &o, co, "o");
  texpr acc = q->flipped ? anfi_low_var(L, sum, "sum", anfi_t_int(L->t, sum, 0)) : NULL;
  anfi_low_loop(L, &k, ci, "k");
  anfi_low_loop(L, &t, q->taps, "t");
  texpr from = mix(q, mix(q, mix(q, group, co, o.var), ci, k.var), q->taps, t.var);
  texpr x = anfi_low_let(L, load(q, q->w->tensor, from), "w");
  store(q, q->weights, mix(q, mix(q, t.var, co, o.var), q->depth, k.var),
        anfi_t_cast(L->t, anfi_t_dt(q->weight), x));
  if (acc) anfi_low_set(L, acc, anfi_t_add(L->t, acc, anfi_t_cast(L->t, sum, x)));
  anfi_low_loop_end(L, &t);
  anfi_low_loop_end(L, &k);
  if (acc) store(q, q->excess, o.var, anfi_t_mul(L->t, acc, anfi_t_int(L->t, sum, FLIP)));
  anfi_low_loop_end(L, &o);
}

/* ---- the copy of x ---- */

/* The channels of word `w`, or the `n` that the last word has, at one position of a phase. */
static void copy_word(const conv_bytes *q, texpr from, texpr w, uint64_t n, texpr src, texpr dst) {
  anfi_low *L = q->L;
  tdtype byte = anfi_t_dt(q->byte), sum = anfi_t_dt(ANF_TIR_s32);
  for (uint64_t i = 0; i < n; i++) {
    texpr plane = anfi_ix_addc(L, anfi_ix_mulc(L, w, q->word), (int64_t)i);
    texpr x = load(q, q->x->tensor, anfi_ix_add(L, from, mix(q, plane, q->in, src)));
    if (q->flipped) x = anfi_t_add(L->t, anfi_t_cast(L->t, sum, x), anfi_t_int(L->t, sum, FLIP));
    store(q, q->copy, anfi_ix_addc(L, anfi_ix_mulc(L, dst, q->word), (int64_t)i),
          anfi_t_cast(L->t, byte, x));
  }
}

/* Words `first` to `first + count`, of n channels each, of the elements of phase f that lie inside. */
static void copy_phase(const conv_bytes *q, const uint64_t *f, texpr from, uint64_t first,
                       uint64_t count, uint64_t n) {
  const anfi_window *v = &q->c.win;
  anfi_low *L = q->L;
  anfi_loop l[4];
  uint64_t lo[3], size[3], id = 0;
  for (size_t d = 0; d < 3; d++) {
    int64_t a = up(v->before[d] - (int64_t)f[d], v->stride[d]),
            b = up(v->in[d] + v->before[d] - (int64_t)f[d], v->stride[d]);
    lo[d] = a > 0 ? u(a) : 0;
    if (b > (int64_t)q->extent[d]) b = (int64_t)q->extent[d];
    if (b <= (int64_t)lo[d]) return;
    size[d] = u(b) - lo[d];
    id = id * u(v->stride[d]) + f[d];
  }
  anfi_low_loop(L, &l[3], count, "c");
  texpr word = anfi_ix_addc(L, l[3].var, (int64_t)first), src = ix(q, 0), dst = ix(q, 0);
  for (size_t d = 0; d < 3; d++) {
    anfi_low_loop(L, &l[d], size[d], "i");
    texpr pos = anfi_ix_addc(L, l[d].var, (int64_t)lo[d]);
    texpr at = anfi_ix_addc(L, anfi_ix_mulc(L, pos, u(v->stride[d])), (int64_t)f[d] - v->before[d]);
    dst = mix(q, dst, q->extent[d], pos);
    src = mix(q, src, u(v->in[d]), at);
  }
  dst = anfi_ix_add(L, mix(q, word, q->plane, dst), ix(q, id * q->words * q->plane));
  copy_word(q, from, word, n, src, dst);
  for (size_t d = 3; d-- > 0;) anfi_low_loop_end(L, &l[d]);
  anfi_low_loop_end(L, &l[3]);
}

/* Does a tap of the window read this phase? */
static bool is_read(const conv_bytes *q, const uint64_t *f) {
  const anfi_window *v = &q->c.win;
  for (size_t d = 0; d < 3; d++) {
    uint64_t t = 0;
    while (t < u(v->kernel[d]) && t * u(v->dilation[d]) % u(v->stride[d]) != f[d]) t++;
    if (t == u(v->kernel[d])) return false;
  }
  return true;
}

/* The planes of one image and group, from `from` on. */
static void copy_input(conv_bytes *q, texpr from) {
  const int64_t *stride = q->c.win.stride;
  uint64_t f[3], size = q->phases * q->plane * q->depth, full = u(q->c.ci) / q->word,
                 rest = u(q->c.ci) % q->word;
  q->copy = anfi_low_local(q->L, q->byte, size, "phases");
  fill(q, q->copy, size, q->byte, q->flipped ? FLIP : 0);
  for (f[0] = 0; f[0] < u(stride[0]); f[0]++)
    for (f[1] = 0; f[1] < u(stride[1]); f[1]++)
      for (f[2] = 0; f[2] < u(stride[2]); f[2]++) {
        if (!is_read(q, f)) continue;
        if (full) copy_phase(q, f, from, 0, full, q->word);
        if (rest) copy_phase(q, f, from, full, 1, rest);
      }
}

/* The same with the channels last: [positions][channels], and a word after them. */
static void copy_channels_last(conv_bytes *q, texpr from) {
  const anfi_window *v = &q->c.win;
  anfi_low *L = q->L;
  uint64_t ci = u(q->c.ci), size = q->extent[1] * q->extent[2] * ci + q->word, n[3];
  anfi_loop l;
  q->copy = anfi_low_local(L, q->byte, size, "pixels");
  fill(q, q->copy, size, q->byte, 0);
  for (size_t d = 1; d < 3; d++) {
    int64_t room = (int64_t)q->extent[d] - v->before[d];
    if (room <= 0) return;
    n[d] = u(room < v->in[d] ? room : v->in[d]);
  }
  anfi_low_loop(L, &l, n[1], "row");
  texpr to = mix(q, anfi_ix_addc(L, l.var, v->before[1]), q->extent[2], ix(q, u(v->before[2])));
  anfi_low_transpose(L, &(anfi_transposed){.elem = q->byte,
                                           .from = q->x->tensor,
                                           .to = q->copy,
                                           .from0 = atom(q, mix(q, l.var, u(v->in[2]), from)),
                                           .to0 = atom(q, anfi_ix_mulc(L, to, ci)),
                                           .rows = ci,
                                           .cols = n[2],
                                           .from_ld = q->in,
                                           .to_ld = ci});
  anfi_low_loop_end(L, &l);
}

/* ---- products ---- */

/* A block of results: where it starts, its rows, columns and channels. */
typedef struct block {
  texpr image, group, at[3], channel;
  uint64_t rows, cols, channels;
  uint64_t row, plane; // sums from row to row, from channel to channel
} block;

static uint64_t width_of(const conv_bytes *q, const block *b) {
  return (b->rows - 1) * q->extent[2] + b->cols;
}

/* Taps t[2], t[2] + step, .. of a row of the kernel, whose phase is the same: one product. */
static void some_taps(const conv_bytes *q, const block *b, const uint64_t *t, uint64_t step,
                      uint64_t n, texpr sums, bool init) {
  const anfi_window *v = &q->c.win;
  anfi_low *L = q->L;
  texpr in[BRGEMM_COUNT] = {NULL}, pos = ix(q, 0);
  tattrs attrs = {0};
  uint64_t co = u(q->c.co), phase = 0, tap = 0, width = width_of(q, b);
  for (size_t d = 0; d < 3; d++) {
    uint64_t j = t[d] * u(v->dilation[d]), s = u(v->stride[d]);
    phase = phase * s + j % s;
    tap = tap * u(v->kernel[d]) + t[d];
    pos = mix(q, pos, q->extent[d], anfi_ix_addc(L, b->at[d], (int64_t)(j / s)));
  }
  pos = anfi_ix_add(L, pos, ix(q, phase * q->words * q->plane));
  texpr a = mix(q, b->channel, q->depth, ix(q, tap * co * q->depth));
  if (q->w->constant) a = mix(q, b->group, weights_size(q), a);
  in[BRGEMM_A] = address(q, q->weights, a);
  in[BRGEMM_B] = address(q, q->copy, anfi_ix_mulc(L, pos, q->word));
  in[BRGEMM_C] = address(q, sums, ix(q, 0));
  uint64_t next = step * u(v->dilation[2]) / u(v->stride[2]) * q->word;
  anfi_low_gemm_sizes(L, in,
                      (uint64_t[]){n, b->channels, width, q->depth, q->depth, q->plane, width,
                                   step * co * q->depth, next});
  if (init) attrs = anfi_t_attr_set(L->t, attrs, TA_init, 1);
  if (q->word > 1) attrs = anfi_t_attr_set(L->t, attrs, TA_vnni_b, 1);
  if (q->small) attrs = anfi_t_attr_set(L->t, attrs, TA_small, 1);
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_brgemm(L->t, in, attrs)));
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

static void all_taps(const conv_bytes *q, const block *b, texpr sums) {
  const anfi_window *v = &q->c.win;
  uint64_t s = u(v->stride[2]), step = s / divisor(s, u(v->dilation[2])), n = u(v->kernel[2]), t[3];
  bool init = true;
  for (t[0] = 0; t[0] < u(v->kernel[0]); t[0]++)
    for (t[1] = 0; t[1] < u(v->kernel[1]); t[1]++)
      for (t[2] = 0; t[2] < step && t[2] < n; t[2]++, init = false)
        some_taps(q, b, t, step, parts(n - t[2], step), sums, init);
}

/* Sums become results: what reads them, or elements of i32. */
static void store_block(const conv_bytes *q, const block *b, texpr sums) {
  anfi_low *L = q->L;
  const int64_t *out = q->c.win.out;
  anfi_loop c, r, o;
  anfi_low_loop(L, &c, b->channels, "c");
  texpr channel = atom(q, anfi_ix_add(L, b->channel, c.var)), excess = NULL;
  texpr whole = atom(q, mix(q, b->group, u(q->c.co), channel));
  if (q->excess)
    excess = anfi_low_let(L, load(q, q->excess, q->w->constant ? whole : channel), "excess");
  uint64_t wide = b->row == b->cols && b->cols == u(out[2]) ? b->rows * b->cols : b->cols;
  anfi_low_loop(L, &r, b->rows * b->cols / wide, "r");
  anfi_low_loop(L, &o, wide, "o");
  texpr from = mix(q, c.var, b->plane, mix(q, r.var, b->row, o.var));
  texpr x = anfi_low_let(L, load(q, sums, from), "x");
  if (excess) x = anfi_low_let(L, anfi_t_sub(L->t, x, excess), "x");
  texpr first = mix(q, b->at[1], u(out[2]), b->at[2]), at = mix(q, r.var, u(out[2]), o.var);
  anfi_pt p = {0};
  anfi_pt_push(&p, b->image, u(q->c.n));
  anfi_pt_push(&p, whole, u(q->c.groups * q->c.co));
  anfi_pt_push(&p, b->at[0], u(out[0]));
  anfi_pt_push(&p, atom(q, anfi_ix_add(L, first, at)), u(out[1] * out[2]));
  if (q->root) anfi_view_know(L, q->product, &p, x);
  anfi_elem y = q->root ? anfi_view_at(L, q->root, &p) : (anfi_elem){x, NULL};
  anfi_low_put(L, q->to, anfi_pt_linear(L, &p), y, false);
  anfi_low_loop_end(L, &o);
  anfi_low_loop_end(L, &r);
  anfi_low_loop_end(L, &c);
}

/* The rows of the window from a row of the padded input on that are before `end` there: all at most. */
static texpr window_rows(const conv_bytes *q, texpr row, uint64_t end) {
  const anfi_window *v = &q->c.win;
  tstore *t = q->L->t;
  texpr left = anfi_t_sub(t, anfi_t_intrin2(t, TI_max, row, ix(q, end)), row);
  left =
      anfi_ix_divc(q->L, anfi_ix_addc(q->L, atom(q, left), v->dilation[1] - 1), u(v->dilation[1]));
  return atom(q, anfi_t_intrin2(t, TI_min, left, ix(q, u(v->kernel[1]))));
}

/* Channels last: a product of one row of results, [cols][channels], without the rows of the window that are padding:
 * a third of 3 x 3 windows at two borders of the plane. */
static void one_row(const conv_bytes *q, const block *b, texpr r, texpr sums) {
  const anfi_window *v = &q->c.win;
  anfi_low *L = q->L;
  texpr in[BRGEMM_COUNT] = {NULL};
  uint64_t ci = u(q->c.ci), high = u(v->kernel[1]), next = u(v->dilation[1]) * q->extent[2] * ci,
           panel = q->run * b->channels;
  texpr row = atom(q, anfi_ix_mulc(L, anfi_ix_add(L, b->at[1], r), u(v->stride[1])));
  texpr first = ix(q, 0), count = NULL;
  if (q->skips) {
    texpr end = window_rows(q, row, u(v->in[1] + v->before[1]));
    first = window_rows(q, row, u(v->before[1]));
    count = anfi_t_cast(L->t, ANFI_S64, anfi_t_sub(L->t, end, first));
  }
  texpr x = mix(q, row, q->extent[2], anfi_ix_mulc(L, b->at[2], u(v->stride[2])));
  texpr w = mix(q, b->group, weights_size(q), anfi_ix_mulc(L, b->channel, high * q->run));
  in[BRGEMM_A] = address(q, q->copy, mix(q, first, next, anfi_ix_mulc(L, x, ci)));
  in[BRGEMM_B] = address(q, q->weights, mix(q, first, panel, w));
  in[BRGEMM_C] = address(q, sums, anfi_ix_mulc(L, r, b->cols * b->channels));
  anfi_low_gemm_sizes(L, in,
                      (uint64_t[]){high, b->cols, b->channels, q->run, u(v->stride[2]) * ci,
                                   b->channels, b->channels, next, panel});
  if (count) in[BRGEMM_num] = count;
  tattrs attrs = anfi_t_attr_set(L->t, (tattrs){0}, TA_init, 1);
  attrs = anfi_t_attr_set(L->t, attrs, TA_vnni_b, 1);
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_brgemm(L->t, in, attrs)));
}

static void all_rows(const conv_bytes *q, const block *b, texpr sums) {
  anfi_loop l;
  anfi_low_loop(q->L, &l, b->rows, "row");
  one_row(q, b, l.var, sums);
  anfi_low_loop_end(q->L, &l);
}

static texpr by_channels(const conv_bytes *q, const block *b, texpr sums) {
  texpr to = anfi_low_local(q->L, ANF_TIR_s32, b->channels * b->plane, "transposed");
  anfi_low_transpose(q->L,
                     &(anfi_transposed){ANF_TIR_s32, sums, to, ix(q, 0), ix(q, 0),
                                        b->rows * b->cols, b->channels, b->channels, b->plane, 0});
  return to;
}

static void one_block(const conv_bytes *q, block b) {
  enum { LINE = 16 };
  b.row = q->last ? b.cols : q->extent[2];
  b.plane = q->last ? parts(b.rows * b.cols, LINE) * LINE : width_of(q, &b);
  anfi_low_open(q->L); // the sums end with it
  texpr sums = anfi_low_local(q->L, ANF_TIR_s32, b.channels * b.plane, "sums");
  if (q->last) {
    all_rows(q, &b, sums);
    sums = by_channels(q, &b, sums);
  } else all_taps(q, &b, sums);
  store_block(q, &b, sums);
  anfi_low_add(q->L, anfi_low_close(q->L));
}

static anfi_sizes sizes_of(uint64_t n, uint64_t each) {
  return (anfi_sizes){.full = each, .last = n - (parts(n, each) - 1) * each};
}

/* Number i of the blocks of an image and group: channels vary slowest. */
static void nth_block(const conv_bytes *q, block b, texpr i) {
  anfi_low *L = q->L;
  const int64_t *out = q->c.win.out;
  uint64_t down = parts(u(out[1]), q->rows), across = parts(u(out[2]), q->cols),
           channels = parts(u(q->c.co), q->channels);
  texpr col = atom(q, anfi_ix_modc(L, i, across)), left = atom(q, anfi_ix_divc(L, i, across));
  texpr row = atom(q, anfi_ix_modc(L, left, down));
  left = atom(q, anfi_ix_divc(L, left, down));
  b.at[0] = atom(q, anfi_ix_modc(L, left, u(out[0])));
  texpr channel = atom(q, anfi_ix_divc(L, left, u(out[0])));
  b.at[1] = atom(q, anfi_ix_mulc(L, row, q->rows));
  b.at[2] = atom(q, anfi_ix_mulc(L, col, q->cols));
  b.channel = atom(q, anfi_ix_mulc(L, channel, q->channels));
  anfi_sizes c = sizes_of(u(q->c.co), q->channels);
  while (anfi_low_each_size(L, &c, channel, channels)) {
    anfi_sizes r = sizes_of(u(out[1]), q->rows);
    while (anfi_low_each_size(L, &r, row, down)) {
      anfi_sizes w = sizes_of(u(out[2]), q->cols);
      while (anfi_low_each_size(L, &w, col, across)) {
        b.channels = c.size, b.rows = r.size, b.cols = w.size;
        one_block(q, b);
      }
    }
  }
}

static bool in_parallel(const conv_bytes *q) {
  uint64_t macs = u(q->c.n * q->c.groups * q->c.co) * q->depth * q->taps;
  const int64_t *out = q->c.win.out;
  return q->L->o.parallel && !q->L->in_parallel &&
         macs * u(out[0] * out[1] * out[2]) >= ANFI_PARALLEL_MACS;
}

static void convolve(conv_bytes *q) {
  anfi_low *L = q->L;
  anfi_loop g, n, l;
  const int64_t *out = q->c.win.out;
  uint64_t blocks = parts(u(q->c.co), q->channels) * u(out[0]) * parts(u(out[1]), q->rows) *
                    parts(u(out[2]), q->cols);
  bool parallel = in_parallel(q);
  anfi_low_open(L);
  if (q->last) pack_panels(q);
  else if (q->w->constant) pack_constant(q);
  anfi_low_loop(L, &g, u(q->c.groups), "g");
  if (!q->w->constant) pack_group(q, g.var);
  anfi_low_loop(L, &n, u(q->c.n), "n");
  n.parallel = parallel && !n.none;
  texpr planes = mix(q, n.var, u(q->c.groups), g.var);
  texpr from = atom(q, anfi_ix_mulc(L, planes, u(q->c.ci) * q->in));
  if (q->last) copy_channels_last(q, from);
  else copy_input(q, from);
  anfi_low_loop(L, &l, blocks, "block");
  l.parallel = parallel && !n.parallel && !l.none;
  nth_block(q, (block){.image = n.var, .group = g.var}, l.var);
  anfi_low_loop_end(L, &l);
  anfi_low_loop_end(L, &n);
  anfi_low_loop_end(L, &g);
  anfi_low_add(L, anfi_low_close(L));
}

/* ---- which ---- */

/* Rows of results that are about as many columns as a few panels. */
static void plan_blocks(conv_bytes *q) {
  enum { COLUMNS = 256, CHANNELS = 64 };
  uint64_t high = u(q->c.win.out[1]), wide = u(q->c.win.out[2]), rows = COLUMNS / q->extent[2];
  q->cols = wide <= COLUMNS ? wide : COLUMNS;
  if (q->cols < wide || !rows) rows = 1;
  q->rows = parts(high, parts(high, rows));
  q->channels = u(q->c.co) < CHANNELS ? u(q->c.co) : CHANNELS;
}

/* Channels last, if the machine has VNNI, channels fill vectors and rows of the window are dense. */
static void plan_last(conv_bytes *q) {
  enum { VECTOR = 16, PANEL = 64, COLUMNS = 256 };
  const anfi_window *v = &q->c.win;
  anfi_isa isa = anfi_low_isa(q->L);
  uint64_t co = u(q->c.co);
  bool dense = v->kernel[2] == 1 || v->dilation[2] == 1,
       plane = v->kernel[0] == 1 && v->in[0] == 1 && v->out[0] == 1 && !v->before[0];
  q->last = dense && plane && anfi_isa_has(&isa, CPU_vnni) && q->w->constant && !q->flipped &&
            q->x->dtype == ANF_U8 && co % VECTOR == 0;
  if (!q->last) return;
  for (size_t d = 1; d < 3; d++)
    q->extent[d] = u((v->out[d] - 1) * v->stride[d] + (v->kernel[d] - 1) * v->dilation[d] + 1);
  q->run = parts(u(v->kernel[2]) * u(q->c.ci), q->word) * q->word;
  q->skips = !anfi_isa_has(&isa, CPU_amx) &&
             (v->before[1] > 0 || (int64_t)q->extent[1] > v->in[1] + v->before[1]);
  q->channels = divisor(co, PANEL);
  uint64_t rows = COLUMNS / q->cols;
  q->rows = parts(u(v->out[1]), parts(u(v->out[1]), rows));
}

static bool plan_of(conv_bytes *q) {
  enum { MOST_PHASES = 16, MOST_TAPS = 128, LEAST = 1 << 13, FEW = 16 };
  const anfi_window *v = &q->c.win;
  uint64_t out = 1;
  q->taps = q->in = q->phases = q->plane = 1;
  for (size_t d = 0; d < 3; d++) {
    if (v->before[d] < 0 || v->kernel[d] < 1 || v->out[d] < 1) return false;
    uint64_t reach = u((v->kernel[d] - 1) * v->dilation[d] / v->stride[d]);
    q->taps *= u(v->kernel[d]), q->in *= u(v->in[d]), out *= u(v->out[d]);
    q->phases *= u(v->stride[d]);
    q->extent[d] = u(v->out[d]) + reach;
    q->plane *= q->extent[d];
  }
  if (q->plane % SAME_SETS == 0) q->plane += SAME_SETS / 4;
  uint64_t ci = u(q->c.ci), co = u(q->c.co);
  q->words = parts(ci, q->word), q->depth = q->words * q->word;
  if (!q->in || !q->c.n || q->taps > MOST_TAPS || q->phases > MOST_PHASES) return false;
  if (ci * co < FEW || ci * co * q->taps * out < LEAST) return false;
  plan_blocks(q);
  plan_last(q);
  return true;
}

static void take_types(conv_bytes *q) {
  anfi_isa isa = anfi_low_isa(q->L);
  bool is_signed = q->x->dtype == ANF_I8;
  q->byte = is_signed ? ANF_TIR_s8 : ANF_TIR_u8;
  q->small = q->w->constant && anfi_mm_is_small(q->w->constant);
  q->weight = anfi_widened_a(&isa, ANF_TIR_s8, ANF_TIR_u8, q->small);
  anfi_gemm k = {.a = q->weight, .b = ANF_TIR_u8, .c = ANF_TIR_s32};
  if (q->small) k.flags = GEMM_SMALL;
  uint32_t group = anfi_dot_group(&isa, &k);
  q->word = group ? group : 1;
  q->flipped = is_signed && group && q->weight == ANF_TIR_s8;
  if (q->flipped) q->byte = ANF_TIR_u8;
}

static anfi_view *bytes_of(const anfi_view *v) {
  if (v->op != ANF_OP_Cast || !anfi_view_is_lazy(v) || v->nin != 1) return NULL;
  return v->dtype == ANF_I32 && anfi_low_byte(v->in[0]->dtype) ? v->in[0] : NULL;
}

static void write_now(anfi_low *L, const anfi_view *v, const anfi_view *root, texpr to) {
  conv_bytes q = *(const conv_bytes *)v->data;
  q.product = v, q.root = root, q.to = to;
  convolve(&q);
  (void)L;
}
static void store_product(anfi_low *L, const anfi_view *v, texpr to) { write_now(L, v, NULL, to); }

bool anfi_low_conv_bytes(anfi_low *L, const anfi_low_op *q, const struct anfi_conv *c,
                         anfi_view **out) {
  conv_bytes k = {.L = L, .c = *c, .type = q->type};
  if (q->type->dtype != ANF_I32 || (q->n > 2 && q->in[2])) return false;
  k.x = bytes_of(q->in[0]), k.w = bytes_of(q->in[1]);
  if (!k.x || !k.w || k.w->dtype != ANF_I8) return false;
  take_types(&k);
  if (!plan_of(&k)) return false;
  anfi_view_force(L, k.x);
  if (!k.w->constant) anfi_view_force(L, k.w);
  if (q->inlined && !L->o.no_fuse && !(q->to && q->to[0])) {
    anfi_view *v = out[0] = anfi_view_new(L, q->type, VIEW_LAZY);
    v->order = ORDER_OWN;
    v->op = q->op;
    v->store = store_product, v->write_fused = write_now;
    v->data = ANFI_NEW(L->a, conv_bytes);
    *(conv_bytes *)v->data = k;
    return true;
  }
  k.to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, k.to);
  convolve(&k);
  return true;
}
