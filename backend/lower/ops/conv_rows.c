// SPDX-License-Identifier: Apache-2.0
/* Convolutions of few channels, depthwise ones above all, by vectors along rows of results.
 *   Conv1D(x, w), 8 lanes   ->   y[0..8] = w[0] * x[0..8] + w[1] * x[1..9] + w[2] * x[2..10]
 * Four rows of results whose windows are inside share each weight that is loaded; rows at the edges go one by one, with
 * tables of the taps that are inside. By the input with a stride of one it is the convolution of dy with the taps in
 * reverse order.
 *
 * Hard case, by the weights: each tap of a row of the kernel has a vector of partial sums over an image, of which the
 * sums over all images are made in double; lanes that two parts of a row share count once. */
#include "backend/lower/ops/slide.h"
#include "ir/ops/nn/window.h"

enum { BLOCK = 4, FEW_MACS = 1 << 13, MOST_FUSED = 1 << 16, MOST_ROLLED = 512 };

/* `in`: of what the windows slide over; `mine`: channels of a group of the result, `other`: that are summed. */
typedef struct shape {
  anfi_conv c;
  uint64_t in, out, kernel, mine, other;
} shape;

typedef struct walk {
  /* the op */
  anfi_low *L;
  const anfi_conv_work *q;
  shape s;
  tdtype type;
  texpr from; // what the windows slide over
  /* by results along the first two dims, the taps that are inside: from..to; or by taps, the results */
  texpr lo[2], hi[2];
  /* where the planes of this channel start */
  texpr x, y, weights, bias;
  anfi_loop image, group, mine, at, tap[2];
} walk;

static texpr add(const walk *w, texpr a, texpr b) { return anfi_ix_add(w->L, a, b); }
static texpr mulc(const walk *w, texpr a, uint64_t n) { return anfi_ix_mulc(w->L, a, n); }
static texpr atom(const walk *w, texpr x) { return anfi_low_atom(w->L, x); }
static uint64_t u(int64_t x) { return (uint64_t)x; }
static uint64_t volume(const int64_t *d) { return u(d[0] * d[1] * d[2]); }

/* ---- which ---- */

/* The convolution of dy that gives dx, for strides of one. */
static anfi_conv reversed(const anfi_conv *c) {
  anfi_conv r = *c;
  for (size_t d = 0; d < 3; d++) {
    r.win.in[d] = c->win.out[d];
    r.win.out[d] = c->win.in[d];
    r.win.before[d] = (c->win.kernel[d] - 1) * c->win.dilation[d] - c->win.before[d];
  }
  return r;
}

static shape shape_of(const anfi_conv *c, anfi_conv_way way) {
  bool back = way == ANFI_CONV_BY_INPUT;
  shape s = {.c = back ? reversed(c) : *c, .kernel = volume(c->win.kernel)};
  s.in = volume(s.c.win.in), s.out = volume(s.c.win.out);
  s.mine = u(back ? c->ci : c->co), s.other = u(back ? c->co : c->ci);
  return s;
}

static uint64_t products_of(const shape *s) {
  return u(s->c.n * s->c.groups) * s->mine * s->other * s->kernel * s->out;
}

static anfi_slide slide_of(const anfi_window *w) {
  return (anfi_slide){.n = w->out[2],
                      .in = w->in[2],
                      .first = -w->before[2],
                      .stride = w->stride[2],
                      .taps = w->kernel[2],
                      .step = w->dilation[2]};
}

bool anfi_low_conv_rows_wanted(const anfi_conv *c, const anfi_conv_work *q) {
  shape s = shape_of(c, q->way);
  anfi_slide row = slide_of(&s.c.win);
  if (q->elem != ANF_TIR_f32 && q->elem != ANF_TIR_f64) return false;
  if (!s.in || products_of(&s) < FEW_MACS) return false; // plain loops are as good
  for (size_t d = 0; d < 3; d++)
    if (q->way == ANFI_CONV_BY_INPUT && c->win.stride[d] != 1) return false;
  return anfi_slide_fits(&row, q->elem == ANF_TIR_f32 ? ANF_F32 : ANF_F64);
}

bool anfi_low_conv_rows_fuses(const anfi_conv *c) {
  return u(c->win.out[1] * c->win.out[2]) <= MOST_FUSED;
}

/* ---- tables and loops ---- */

static int64_t start_of(const anfi_window *w, size_t d, int64_t o) {
  return o * w->stride[d] - w->before[d];
}

static bool is_inside(const anfi_window *w, size_t d, int64_t o, int64_t t) {
  int64_t at = start_of(w, d, o) + t * w->dilation[d];
  return at >= 0 && at < w->in[d];
}

/* For each of n results (or taps) of dim d, the first tap (or result) that is inside, or the one after the last. */
static texpr table(const walk *w, size_t d, bool by_tap, bool end) {
  const anfi_window *v = &w->s.c.win;
  int64_t n = by_tap ? v->kernel[d] : v->out[d], m = by_tap ? v->out[d] : v->kernel[d];
  uint64_t *bits = ANFI_NEW_N(w->L->a, uint64_t, (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = 0, last;
    while (k < m && !is_inside(v, d, by_tap ? k : i, by_tap ? i : k)) k++;
    for (last = k; last < m && is_inside(v, d, by_tap ? last : i, by_tap ? i : last);) last++;
    bits[i] = u(end ? last : k);
  }
  return anfi_low_table(w->L, ANFI_IX, u(n), bits);
}

static void make_tables(walk *w, bool by_tap) {
  for (size_t d = 0; d < 2; d++) {
    w->lo[d] = table(w, d, by_tap, false);
    w->hi[d] = table(w, d, by_tap, true);
  }
}

static bool all_inside(const anfi_window *w, size_t d) {
  return is_inside(w, d, 0, 0) && is_inside(w, d, w->out[d] - 1, w->kernel[d] - 1);
}

/* A loop over the taps, or results, that are inside along dim d, for entry i of the tables. */
static void open_inside(walk *w, anfi_loop *l, size_t d, texpr i, const char *name) {
  texpr lo = atom(w, anfi_low_load(w->L, w->lo[d], i)),
        hi = atom(w, anfi_low_load(w->L, w->hi[d], i));
  anfi_low_loop_range(w->L, l, lo, hi, 1, name);
}

/* The index along dim d that tap t reads for the result o. */
static texpr input_at(const walk *w, size_t d, texpr o, texpr t) {
  const anfi_window *v = &w->s.c.win;
  texpr at = add(w, mulc(w, o, u(v->stride[d])), mulc(w, t, u(v->dilation[d])));
  return anfi_ix_addc(w->L, at, -v->before[d]);
}

/* Makes one of the outermost loops parallel, if there is work for threads. */
static void share(const walk *w, size_t n, anfi_loop **l) {
  if (!w->L->o.parallel || w->L->in_parallel || products_of(&w->s) < ANFI_PARALLEL_MACS) return;
  size_t i = 0;
  while (i < n && l[i]->none) i++;
  if (i < n) l[i]->parallel = true;
}

/* ---- forward, and by the input ---- */

/* Rows of results from `row` on; of one, the taps may be outside. */
typedef struct block {
  walk *w;
  texpr row[2]; // along the first two dims
  int64_t rows;
  texpr to, at; // where the first row starts
} block;

static void open_taps(walk *w, const block *b) {
  const int64_t *kernel = w->s.c.win.kernel;
  if (all_inside(&w->s.c.win, 0)) anfi_low_loop(w->L, &w->tap[0], u(kernel[0]), "tap");
  else open_inside(w, &w->tap[0], 0, b->row[0], "tap");
  if (b->rows > 1 || all_inside(&w->s.c.win, 1))
    anfi_low_loop(w->L, &w->tap[1], u(kernel[1]), "tap");
  else open_inside(w, &w->tap[1], 1, b->row[1], "tap");
}

static void close_taps(walk *w) {
  anfi_low_loop_end(w->L, &w->tap[1]);
  anfi_low_loop_end(w->L, &w->tap[0]);
}

/* sum += weight * x */
static void add_product(const anfi_slide_part *s, texpr sum, texpr weight, texpr x) {
  texpr in[] = {weight, x, sum};
  anfi_low_set(s->L, sum, anfi_t_intrin(s->L->t, TI_fmadd, sum->dtype, 3, in, (tattrs){0}));
}

/* Weight `at` in each lane that is inside. Outside x is 0, and so that infinite weights add nothing there, the weight is -0:
 * a product of -0 changes no sum, be it 0 or -0. */
static texpr weight_at(const walk *w, const anfi_slide_part *s, texpr at, texpr inside) {
  texpr weight = anfi_slide_all(s, anfi_low_let(w->L, anfi_low_load(w->L, w->weights, at), "w"));
  if (!inside) return anfi_low_let(w->L, weight, "w");
  texpr none = anfi_slide_all(s, anfi_low_const(w->L, w->type, -0.0));
  return anfi_low_let(w->L, anfi_t_select(w->L->t, inside, weight, none), "w");
}

static void block_part(void *user, const anfi_slide_part *s) {
  const block *b = (const block *)user;
  walk *w = b->w;
  anfi_low *L = w->L;
  const anfi_window *v = &w->s.c.win;
  anfi_loop other;
  texpr start = anfi_slide_all(s, w->bias), sum[BLOCK], row[BLOCK];
  for (int64_t r = 0; r < b->rows; r++) sum[r] = anfi_low_var(L, start->dtype, "sum", start);
  anfi_low_loop(L, &other, w->s.other, "d");
  open_taps(w, b);
  texpr plane = add(w, w->x, mulc(w, other.var, w->s.in));
  plane = add(w, plane, mulc(w, input_at(w, 0, b->row[0], w->tap[0].var), u(v->in[1] * v->in[2])));
  texpr first = input_at(w, 1, b->row[1], w->tap[1].var);
  for (int64_t r = 0; r < b->rows; r++) {
    texpr at = anfi_ix_addc(L, first, r * v->stride[1]);
    row[r] = atom(w, add(w, plane, mulc(w, at, u(v->in[2]))));
  }
  texpr tap = mulc(w, add(w, mulc(w, other.var, u(v->kernel[0])), w->tap[0].var), u(v->kernel[1]));
  tap = mulc(w, add(w, tap, w->tap[1].var), u(v->kernel[2]));
  for (int64_t k = 0; k < v->kernel[2]; k++) {
    texpr weight = NULL, inside;
    for (int64_t r = 0; r < b->rows; r++) {
      texpr x = anfi_slide_load(s, w->from, row[r], k, &inside);
      if (!weight) weight = weight_at(w, s, atom(w, anfi_ix_addc(L, tap, k)), inside);
      add_product(s, sum[r], weight, x);
    }
  }
  close_taps(w);
  anfi_low_loop_end(L, &other);
  for (int64_t r = 0; r < b->rows; r++)
    anfi_slide_put(s, b->to, anfi_ix_addc(L, b->at, r * v->out[2]), sum[r]);
}

/* ---- small planes: each row of the input is read once, for all rows of results that it is in ---- */

/* The row's vectors hold the whole of it, if that is 16 results or fewer. */
static anfi_slide rolled_row(const anfi_window *v) {
  anfi_slide row = slide_of(v);
  if (row.n <= 16) row.lanes = row.n <= 4 ? 4 : row.n <= 8 ? 8 : 16;
  return row;
}

/* Is all of a plane little enough code, without loops? */
static bool is_rolled(const shape *s) {
  const anfi_window *v = &s->c.win;
  anfi_slide row = rolled_row(v);
  int64_t lanes = anfi_slide_lanes(&row), parts = (row.n + lanes - 1) / lanes;
  return s->other == 1 && s->in == u(v->in[1] * v->in[2]) && v->out[0] == 1 && all_inside(v, 0) &&
         v->in[1] <= MOST_ROLLED && parts * v->out[1] * (int64_t)s->kernel <= MOST_ROLLED;
}

/* The row of the kernel through which row o of the results reads row i of the input, or -1. */
static int64_t tap_of(const anfi_window *v, int64_t o, int64_t i) {
  int64_t d = i - start_of(v, 1, o), step = v->dilation[1];
  return d >= 0 && d % step == 0 && d / step < v->kernel[1] ? d / step : -1;
}

/* Row i of the input, in all rows of results that read it. `weight`: by tap, what was loaded already. */
static void roll_in(const walk *w, const anfi_slide_part *s, int64_t i, const texpr *sum,
                    texpr *weight) {
  const anfi_window *v = &w->s.c.win;
  anfi_low *L = w->L;
  texpr row = atom(w, anfi_ix_addc(L, w->x, i * v->in[2]));
  for (int64_t k = 0; k < v->kernel[2]; k++) {
    texpr x = NULL, inside = NULL;
    for (int64_t o = 0; o < v->out[1]; o++) {
      int64_t t = tap_of(v, o, i);
      if (t < 0) continue;
      uint64_t tap = u(t * v->kernel[2] + k);
      if (!x) x = anfi_slide_load(s, w->from, row, k, &inside);
      if (!weight[tap]) weight[tap] = weight_at(w, s, anfi_ix(L, tap), inside);
      add_product(s, sum[o], weight[tap], x);
    }
  }
}

/* The last row of the input that row o of the results reads; -1: none. */
static int64_t last_row(const anfi_window *v, int64_t o) {
  int64_t i = v->in[1] - 1;
  while (i >= 0 && tap_of(v, o, i) < 0) i--;
  return i;
}

static void rolled_part(void *user, const anfi_slide_part *s) {
  const block *b = (const block *)user;
  const walk *w = b->w;
  const anfi_window *v = &w->s.c.win;
  texpr start = anfi_slide_all(s, w->bias), *sum = ANFI_NEW_N(w->L->a, texpr, (size_t)v->out[1]),
        *weight = ANFI_NEW_N(w->L->a, texpr, w->s.kernel);
  for (int64_t o = 0; o < v->out[1]; o++) sum[o] = anfi_low_var(w->L, start->dtype, "sum", start);
  for (int64_t i = -1; i < v->in[1]; i++) {
    if (i >= 0) roll_in(w, s, i, sum, weight);
    for (int64_t o = 0; o < v->out[1]; o++)
      if (last_row(v, o) == i)
        anfi_slide_put(s, b->to, anfi_ix_addc(w->L, b->at, o * v->out[2]), sum[o]);
  }
}

/* `many` blocks of rows of one plane, from row `first` on. */
static void blocks(walk *w, block b, int64_t first, int64_t rows, int64_t many, texpr at) {
  anfi_slide s = slide_of(&w->s.c.win);
  anfi_loop l;
  if (many <= 0) return;
  anfi_low_loop(w->L, &l, u(many), "o");
  b.w = w, b.rows = rows;
  b.row[1] = atom(w, anfi_ix_addc(w->L, mulc(w, l.var, u(rows)), first));
  b.at = atom(w, add(w, at, mulc(w, b.row[1], u(s.n))));
  anfi_slide_row(w->L, &s, block_part, &b);
  anfi_low_loop_end(w->L, &l);
}

/* All rows of a plane: those at the edges one by one. */
static void plane_rows(walk *w, texpr o, texpr to, texpr at) {
  const anfi_window *v = &w->s.c.win;
  if (is_rolled(&w->s)) {
    anfi_slide row = rolled_row(v);
    anfi_slide_row(w->L, &row, rolled_part, &(block){.w = w, .to = to, .at = at});
    return;
  }
  int64_t n = v->out[1], last = v->kernel[1] - 1, from = 0, end;
  while (from < n && !(is_inside(v, 1, from, 0) && is_inside(v, 1, from, last))) from++;
  for (end = from; end < n && is_inside(v, 1, end, 0) && is_inside(v, 1, end, last);) end++;
  int64_t many = (end - from) / BLOCK;
  block b = {.row = {o}, .to = to};
  blocks(w, b, 0, 1, from, at);
  blocks(w, b, from, BLOCK, many, at);
  blocks(w, b, from + many * BLOCK, 1, n - from - many * BLOCK, at);
}

/* The epilogue on a plane of sums: the op that reads the convolution. */
static void consume(const walk *w, texpr channel, texpr o, texpr sums, texpr at) {
  anfi_low *L = w->L;
  const int64_t *out = w->s.c.win.out;
  anfi_loop l;
  anfi_pt p = {0};
  anfi_low_loop(L, &l, u(out[1] * out[2]), "i");
  anfi_pt_push(&p, w->image.var, u(w->s.c.n));
  anfi_pt_push(&p, channel, u(w->s.c.groups) * w->s.mine);
  anfi_pt_push(&p, o, u(out[0]));
  anfi_pt_push(&p, l.var, u(out[1] * out[2]));
  anfi_view_know(L, w->q->product, &p, anfi_low_load(L, sums, l.var));
  texpr y = anfi_view_at(L, w->q->root, &p).re;
  anfi_low_put(L, w->q->to, atom(w, add(w, at, l.var)), (anfi_elem){y, NULL}, false);
  anfi_low_loop_end(L, &l);
}

/* [other][taps] of the weights of one channel of the result, which by the input is a copy. */
static texpr own_weights(const walk *w) {
  anfi_low *L = w->L;
  anfi_loop d, t;
  uint64_t n = w->s.kernel, mine = w->s.mine, other = w->s.other;
  texpr group = mulc(w, w->group.var, mine * other);
  if (w->q->way != ANFI_CONV_BY_INPUT) {
    texpr from = mulc(w, add(w, group, mulc(w, w->mine.var, other)), n);
    return anfi_low_part(L, w->q->w, w->q->elem, atom(w, from), other * n);
  }
  texpr own = anfi_low_local(L, w->q->elem, other * n, "w");
  anfi_low_loop(L, &d, other, "d");
  anfi_low_loop(L, &t, n, "tap");
  texpr channel = add(w, add(w, group, mulc(w, d.var, mine)), w->mine.var),
        tap = atom(w, anfi_t_sub(L->t, anfi_ix(L, n - 1), t.var));
  texpr x = anfi_low_load(L, w->q->w, atom(w, add(w, mulc(w, channel, n), tap)));
  texpr to = atom(w, add(w, mulc(w, d.var, n), t.var));
  anfi_low_put(L, own, to, (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &t);
  anfi_low_loop_end(L, &d);
  return own;
}

/* One channel of one image. */
static void channel_planes(walk *w) {
  anfi_low *L = w->L;
  const int64_t *out = w->s.c.win.out;
  uint64_t plane = u(out[1] * out[2]);
  texpr group = add(w, mulc(w, w->image.var, u(w->s.c.groups)), w->group.var);
  texpr channel = atom(w, add(w, mulc(w, w->group.var, w->s.mine), w->mine.var));
  w->x = atom(w, mulc(w, group, w->s.other * w->s.in));
  w->y = add(w, mulc(w, group, w->s.mine), w->mine.var);
  w->weights = own_weights(w);
  w->bias =
      w->q->bias ? atom(w, anfi_low_load(L, w->q->bias, channel)) : anfi_low_const(L, w->type, 0);
  anfi_low_loop(L, &w->at, u(out[0]), "o");
  texpr at = atom(w, mulc(w, add(w, mulc(w, w->y, u(out[0])), w->at.var), plane));
  if (w->q->root) {
    texpr sums = anfi_low_local(L, w->q->elem, plane, "sums");
    plane_rows(w, w->at.var, sums, anfi_ix(L, 0));
    consume(w, channel, w->at.var, sums, at);
  } else {
    plane_rows(w, w->at.var, w->q->to, at);
  }
  anfi_low_loop_end(L, &w->at);
}

static void to_results(walk *w) {
  anfi_low *L = w->L;
  make_tables(w, false);
  anfi_low_loop(L, &w->image, u(w->s.c.n), "n");
  anfi_low_loop(L, &w->group, u(w->s.c.groups), "g");
  anfi_low_loop(L, &w->mine, w->s.mine, "c");
  share(w, 3, (anfi_loop *[]){&w->image, &w->group, &w->mine});
  channel_planes(w);
  anfi_low_loop_end(L, &w->mine);
  anfi_low_loop_end(L, &w->group);
  anfi_low_loop_end(L, &w->image);
}

/* ---- by the weights ---- */

typedef struct sums {
  const walk *w;
  texpr x, y;  // where the rows start
  texpr *part; // by tap of the row of the kernel, a vector of partial sums
  uint16_t lanes;
} sums;

static texpr lanes_from(const anfi_slide_part *s, int64_t first) {
  tdtype d = ANFI_BOOL;
  uint64_t bits[64];
  d.lanes = s->lanes;
  for (int64_t k = 0; k < s->lanes; k++) bits[k] = k >= first;
  return anfi_t_bits(s->L->t, d, s->lanes, bits);
}

static void sums_part(void *user, const anfi_slide_part *s) {
  const sums *q = (const sums *)user;
  anfi_low *L = s->L;
  texpr fresh = s->repeated ? lanes_from(s, s->repeated) : NULL;
  texpr at = add(q->w, q->y, s->at), inside;
  texpr y = anfi_low_let(L, anfi_t_at(L->t, q->w->q->y, 1, &at, s->lanes, 0, NULL), "y");
  for (int64_t k = 0; k < s->s->taps; k++) {
    texpr x = anfi_slide_load(s, q->w->from, q->x, k, &inside), sum = q->part[k];
    texpr in[] = {x, y, sum};
    texpr next = anfi_t_intrin(L->t, TI_fmadd, sum->dtype, 3, in, (tattrs){0});
    texpr mask = inside && fresh ? anfi_t_bin(L->t, TX_logic_and, inside, fresh)
                 : inside        ? inside
                                 : fresh;
    anfi_low_set(L, sum, mask ? anfi_t_select(L->t, mask, next, sum) : next);
  }
}

/* The results that the taps of one row of the kernel see, of one image. */
static void image_rows(walk *w, sums *q) {
  anfi_low *L = w->L;
  const anfi_window *v = &w->s.c.win;
  anfi_slide s = slide_of(v);
  anfi_loop o[2];
  for (size_t d = 0; d < 2; d++) open_inside(w, &o[d], d, w->tap[d].var, "o");
  texpr x = mulc(w, input_at(w, 0, o[0].var, w->tap[0].var), u(v->in[1]));
  x = mulc(w, add(w, x, input_at(w, 1, o[1].var, w->tap[1].var)), u(v->in[2]));
  texpr y = mulc(w, add(w, mulc(w, o[0].var, u(v->out[1])), o[1].var), u(v->out[2]));
  q->x = atom(w, add(w, w->x, x));
  q->y = atom(w, add(w, w->y, y));
  anfi_slide_row(L, &s, sums_part, q);
  anfi_low_loop_end(L, &o[1]);
  anfi_low_loop_end(L, &o[0]);
}

/* Sums over the images for one row of the kernel: of each in `type`, of all in double. */
static void kernel_row(walk *w, texpr y_channel, texpr x_channel, texpr to) {
  anfi_low *L = w->L;
  const anfi_window *v = &w->s.c.win;
  anfi_slide s = slide_of(v);
  sums q = {.w = w, .part = ANFI_NEW_N(L->a, texpr, (size_t)s.taps), .lanes = anfi_slide_lanes(&s)};
  texpr *total = ANFI_NEW_N(L->a, texpr, (size_t)s.taps);
  tdtype wide = w->type;
  wide.lanes = q.lanes;
  for (int64_t k = 0; k < s.taps; k++)
    total[k] = anfi_low_var(L, ANFI_F64, "total", anfi_low_const(L, ANFI_F64, 0));
  anfi_low_loop(L, &w->image, u(w->s.c.n), "n");
  uint64_t groups = u(w->s.c.groups);
  w->x = atom(w, mulc(w, add(w, mulc(w, w->image.var, groups * u(w->s.c.ci)), x_channel), w->s.in));
  w->y =
      atom(w, mulc(w, add(w, mulc(w, w->image.var, groups * u(w->s.c.co)), y_channel), w->s.out));
  for (int64_t k = 0; k < s.taps; k++)
    q.part[k] = anfi_low_var(L, wide, "sum", anfi_low_const(L, wide, 0));
  image_rows(w, &q);
  for (int64_t k = 0; k < s.taps; k++) {
    texpr sum = anfi_t_intrin(L->t, TI_reduce_add, w->type, 1, &q.part[k], (tattrs){0});
    anfi_low_set(L, total[k], anfi_t_add(L->t, total[k], anfi_t_cast(L->t, ANFI_F64, sum)));
  }
  anfi_low_loop_end(L, &w->image);
  for (int64_t k = 0; k < s.taps; k++)
    anfi_low_put(L, w->q->to, atom(w, anfi_ix_addc(L, to, k)),
                 (anfi_elem){anfi_t_cast(L->t, w->type, total[k]), NULL}, false);
}

static void to_weights(walk *w) {
  anfi_low *L = w->L;
  const anfi_window *v = &w->s.c.win;
  anfi_loop other;
  make_tables(w, true);
  anfi_low_loop(L, &w->group, u(w->s.c.groups), "g");
  anfi_low_loop(L, &w->mine, u(w->s.c.co), "o");
  anfi_low_loop(L, &other, u(w->s.c.ci), "i");
  share(w, 3, (anfi_loop *[]){&w->group, &w->mine, &other});
  texpr y = add(w, mulc(w, w->group.var, u(w->s.c.co)), w->mine.var),
        x = add(w, mulc(w, w->group.var, u(w->s.c.ci)), other.var),
        to = add(w, mulc(w, y, u(w->s.c.ci)), other.var);
  for (size_t d = 0; d < 2; d++) {
    anfi_low_loop(L, &w->tap[d], u(v->kernel[d]), "tap");
    to = add(w, mulc(w, to, u(v->kernel[d])), w->tap[d].var);
  }
  kernel_row(w, atom(w, y), atom(w, x), mulc(w, to, u(v->kernel[2])));
  close_taps(w);
  anfi_low_loop_end(L, &other);
  anfi_low_loop_end(L, &w->mine);
  anfi_low_loop_end(L, &w->group);
}

void anfi_low_conv_rows(anfi_low *L, const anfi_conv *c, const anfi_conv_work *q) {
  walk w = {.L = L, .q = q, .s = shape_of(c, q->way), .type = anfi_t_dt(q->elem)};
  w.from = q->way == ANFI_CONV_BY_INPUT ? q->y : q->x;
  anfi_low_open(L);
  if (q->way == ANFI_CONV_BY_WEIGHTS) to_weights(&w);
  else to_results(&w);
  anfi_low_add(L, anfi_low_close(L));
}
