// SPDX-License-Identifier: Apache-2.0
/* Pools and their gradients, and resizing.
 *   MaxPool1D(x, kernel=2)   ->   for i: y[i] = max of x[lo[i]] .. x[hi[i] - 1], lo and hi being constant tables
 * The elements that a window spans are in small constant tables by result index, the same that the interpreter plans
 * with (ir/ops/nn/pool.c). */
#include <math.h>

#include "backend/lower/ops/slide.h"
#include "ir/ops/nn/window.h"

typedef struct pool {
  /* the op */
  anfi_low *L;
  const anfi_low_op *q;
  anfi_pool p;
  /* windows */
  texpr lo[3], hi[3], count[3]; // tables of index
  /* sizes, loops and places */
  uint64_t in, out, planes;
  anfi_loop at[3], win[3]; // of the result; of a window
  texpr plane, result;     // where the input's plane starts; the result's element
} pool;

static uint64_t volume(const int64_t *d) { return (uint64_t)(d[0] * d[1] * d[2]); }

static texpr table(anfi_low *L, const anfi_span *s, int64_t n, int which) {
  uint64_t *bits = ANFI_NEW_N(L->a, uint64_t, (size_t)n);
  for (int64_t i = 0; i < n; i++)
    bits[i] = (uint64_t)(which == 0   ? s[i].lo
                         : which == 1 ? (s[i].hi > s[i].lo ? s[i].hi : s[i].lo)
                                      : s[i].count);
  return anfi_low_table(L, ANFI_IX, (uint64_t)n, bits);
}

/* `x`: the type of the side that windows are over. */
static bool plan(pool *p, anfi_low *L, const anfi_low_op *q, const anf_type *x) {
  *p = (pool){.L = L, .q = q};
  anfi_infer t = anfi_low_infer(L, q);
  if (!anfi_pool_plan(&t, x->n - 2, x->dims + 2, true, &p->p)) return false;
  p->planes = (uint64_t)(x->dims[0] * x->dims[1]);
  p->in = volume(p->p.in);
  p->out = volume(p->p.out);
  for (size_t k = 0; k < 3 && p->out; k++) {
    p->lo[k] = table(L, p->p.span[k], p->p.out[k], 0);
    p->hi[k] = table(L, p->p.span[k], p->p.out[k], 1);
    p->count[k] = table(L, p->p.span[k], p->p.out[k], 2);
  }
  return true;
}

/* Loops over the results of a plane. */
static void open_results(pool *p, texpr plane) {
  anfi_pt pt = {0};
  p->plane = anfi_low_atom(p->L, anfi_ix_mulc(p->L, plane, p->in));
  texpr first = anfi_ix_mulc(p->L, plane, p->out);
  for (size_t k = 0; k < 3; k++) {
    anfi_low_loop(p->L, &p->at[k], (uint64_t)p->p.out[k], "o");
    anfi_pt_push(&pt, p->at[k].var, (uint64_t)p->p.out[k]);
  }
  p->result = anfi_low_atom(p->L, anfi_ix_add(p->L, first, anfi_pt_linear(p->L, &pt)));
}

/* Loops over the rows of results alone: `result` is the first of a row. */
static void open_rows(pool *p, texpr plane) {
  texpr row = plane;
  for (size_t k = 0; k < 2; k++) {
    anfi_low_loop(p->L, &p->at[k], (uint64_t)p->p.out[k], "o");
    row = anfi_ix_add(p->L, anfi_ix_mulc(p->L, row, (uint64_t)p->p.out[k]), p->at[k].var);
  }
  p->result = anfi_low_atom(p->L, anfi_ix_mulc(p->L, row, (uint64_t)p->p.out[2]));
}

static void close3(anfi_low *L, anfi_loop *l) {
  for (size_t k = 3; k-- > 0;) anfi_low_loop_end(L, &l[k]);
}

static texpr entry(pool *p, texpr tab, size_t k) {
  return anfi_low_atom(p->L, anfi_low_load(p->L, tab, p->at[k].var));
}

/* Are all windows of dim k alike, but that each starts `*stride` after the one before? */
static bool is_regular(const pool *p, size_t k, uint64_t *stride) {
  const anfi_span *s = p->p.span[k];
  int64_t n = p->p.out[k], by = n > 1 ? s[1].lo - s[0].lo : 0, size = s[0].hi - s[0].lo;
  if (size < 1 || by < 0 || s[0].lo < 0) return false;
  for (int64_t i = 1; i < n; i++)
    if (s[i].lo != s[0].lo + i * by || s[i].hi - s[i].lo != size) return false;
  *stride = (uint64_t)by;
  return true;
}

/* A loop over dim k of a window; gives the place. */
static texpr open_dim(pool *p, size_t k) {
  const anfi_span *s = p->p.span[k];
  uint64_t stride, step = (uint64_t)p->p.step[k];
  if (!is_regular(p, k, &stride)) {
    anfi_low_loop_range(p->L, &p->win[k], entry(p, p->lo[k], k), entry(p, p->hi[k], k), step, "w");
    return p->win[k].var;
  }
  anfi_low_loop(p->L, &p->win[k], ((uint64_t)(s->hi - s->lo) + step - 1) / step, "w");
  texpr first = anfi_ix_addc(p->L, anfi_ix_mulc(p->L, p->at[k].var, stride), s->lo);
  return anfi_ix_add(p->L, first, anfi_ix_mulc(p->L, p->win[k].var, step));
}

/* Loops over the elements of a window; gives the place in the plane. */
static texpr open_window(pool *p) {
  texpr sum = NULL;
  for (size_t k = 0; k < 3; k++) {
    texpr i = open_dim(p, k);
    sum = sum ? anfi_ix_add(p->L, anfi_ix_mulc(p->L, sum, (uint64_t)p->p.in[k]), i) : i;
  }
  return anfi_low_atom(p->L, sum);
}

static texpr window_size(pool *p) {
  texpr n = NULL;
  for (size_t k = 0; k < 3; k++) {
    texpr c = entry(p, p->count[k], k);
    n = n ? anfi_t_mul(p->L->t, n, c) : c;
  }
  return anfi_low_atom(p->L, anfi_t_cast(p->L->t, ANFI_F64, anfi_t_cast(p->L->t, ANFI_S64, n)));
}

static texpr read(pool *p, const anfi_view *x, texpr at) {
  return anfi_view_at_flat(p->L, x, at).re;
}

static void put(pool *p, texpr to, texpr at, texpr x) {
  x = anfi_t_cast(p->L->t, anfi_low_dt((anf_dtype)p->q->type->dtype), x);
  anfi_low_put(p->L, to, at, (anfi_elem){x, NULL}, false);
}

static const anfi_view *held(anfi_low *L, anfi_view *v) {
  anfi_view_force(L, v);
  return v;
}

/* The type that windows compare in: f32 for narrow floats, u8 for bools. */
static tdtype compared(tdtype d) {
  return d.elem == ANF_TIR_bool ? anfi_t_dt(ANF_TIR_u8) : anfi_t_accumulator(d);
}

static texpr least(anfi_low *L, tdtype d) {
  if (anfi_t_is_float(d)) return anfi_low_const(L, d, -INFINITY);
  if (anfi_t_class(d) != TC_SINT) return anfi_low_const(L, d, 0);
  return anfi_t_int(L->t, d, (int64_t)(UINT64_MAX << (anfi_t_bytes(d) * 8 - 1)));
}

/* The greatest element of the window: its place, if `where`, which starts at the first one. */
static texpr find_max(pool *p, const anfi_view *x, texpr *where) {
  anfi_low *L = p->L;
  tstore *t = L->t;
  tdtype d = compared(anfi_low_dt(x->dtype));
  texpr best = anfi_low_var(L, d, "best", least(L, d));
  texpr none = anfi_ix(L, UINT64_MAX),
        found = where ? anfi_low_var(L, ANFI_IX, "where", none) : NULL;
  texpr at = open_window(p);
  texpr e = anfi_low_let(L, anfi_t_cast(t, d, read(p, x, anfi_ix_add(L, p->plane, at))), "e");
  texpr more = anfi_t_bin(t, TX_cmp_gt, e, best);
  if (anfi_t_is_float(d))
    more = anfi_t_bin(t, TX_logic_or, more,
                      anfi_t_bin(t, TX_logic_and, anfi_t_bin(t, TX_cmp_ne, e, e),
                                 anfi_t_bin(t, TX_cmp_eq, best, best)));
  if (where) more = anfi_t_bin(t, TX_logic_or, more, anfi_t_bin(t, TX_cmp_eq, found, none));
  more = anfi_low_let(L, more, "more");
  anfi_low_set(L, best, anfi_t_select(t, more, e, best));
  if (where) anfi_low_set(L, found, anfi_t_select(t, more, at, found));
  close3(L, p->win);
  if (where) *where = found;
  return best;
}

static texpr mean(pool *p, const anfi_view *x) {
  anfi_low *L = p->L;
  texpr sum = anfi_low_var(L, ANFI_F64, "sum", anfi_low_const(L, ANFI_F64, 0));
  texpr at = open_window(p);
  texpr e = anfi_t_cast(L->t, ANFI_F64, read(p, x, anfi_ix_add(L, p->plane, at)));
  anfi_low_set(L, sum, anfi_t_add(L->t, sum, e));
  close3(L, p->win);
  return anfi_t_bin(L->t, TX_div, sum, window_size(p));
}

/* ---- rows of windows by vectors ---- */

typedef struct pool_rows {
  pool p;
  texpr from, to, counts; // counts: of the last dim by result, in double, or what they make of 1
  tdtype type, result;    // of `from`; of `to`
  bool across;            // `from` has sums along rows
} pool_rows;

/* Loops over the rows of a window; gives where the row begins. */
static texpr open_window_rows(pool *p) {
  texpr sum = open_dim(p, 0);
  sum = anfi_ix_add(p->L, anfi_ix_mulc(p->L, sum, (uint64_t)p->p.in[1]), open_dim(p, 1));
  sum = anfi_ix_mulc(p->L, sum, (uint64_t)p->p.in[2]);
  return anfi_low_atom(p->L, anfi_ix_add(p->L, p->plane, sum));
}

static void close2(anfi_low *L, anfi_loop *l) {
  for (size_t k = 2; k-- > 0;) anfi_low_loop_end(L, &l[k]);
}

static void put_part(const pool_rows *r, const anfi_slide_part *s, texpr x) {
  tdtype d = r->result;
  d.lanes = s->lanes;
  anfi_slide_put(s, r->to, r->p.result, anfi_t_cast(r->p.L->t, d, x));
}

/* The maximum; NaN is kept apart, as in rows.c: comparisons with it are false. */
static void max_part(void *user, const anfi_slide_part *s) {
  pool_rows *r = (pool_rows *)user;
  anfi_low *L = r->p.L;
  tstore *t = L->t;
  texpr none = anfi_slide_all(s, least(L, r->type)), inside;
  texpr best = anfi_low_var(L, none->dtype, "best", none),
        nan = anfi_low_var(L, none->dtype, "nan", anfi_slide_all(s, anfi_low_const(L, r->type, 0)));
  texpr row = open_window_rows(&r->p);
  for (int64_t k = 0; k < s->s->taps; k++) {
    texpr x = anfi_slide_load(s, r->from, row, k, &inside);
    anfi_low_set(L, nan, anfi_t_select(t, anfi_t_bin(t, TX_cmp_ne, x, x), x, nan));
    if (inside) x = anfi_low_let(L, anfi_t_select(t, inside, x, none), "x");
    anfi_low_set(L, best, anfi_t_select(t, anfi_t_bin(t, TX_cmp_gt, x, best), x, best));
  }
  close2(L, r->p.win);
  best = anfi_t_select(t, anfi_t_bin(t, TX_cmp_ne, nan, nan), nan, best);
  put_part(r, s, best);
}

/* Of what the taps read in a row, added to `sum`, or to none. An element that is not there adds 0, which changes no sum that starts with
 * 0. */
static texpr sum_taps(const pool_rows *r, const anfi_slide_part *s, texpr row, texpr sum) {
  anfi_low *L = r->p.L;
  texpr zero = anfi_slide_all(s, anfi_low_const(L, ANFI_F64, 0)), inside;
  if (!sum) sum = anfi_low_var(L, zero->dtype, "sum", zero);
  for (int64_t k = 0; k < s->s->taps; k++) {
    texpr x = anfi_slide_load(s, r->from, row, k, &inside);
    anfi_low_set(L, sum, anfi_t_add(L->t, sum, anfi_t_cast(L->t, zero->dtype, x)));
  }
  return sum;
}

/* The sums along the rows of a window. */
static void sum_down(const pool_rows *r, const anfi_slide_part *s, texpr sum) {
  anfi_low *L = r->p.L;
  const anfi_pool *w = &r->p.p;
  texpr first = anfi_low_atom(L, anfi_ix_mulc(L, r->p.at[1].var, (uint64_t)w->stride[1]));
  for (int64_t k = 0; k < w->taps[1]; k++) {
    texpr row = anfi_ix_addc(L, first, k * w->step[1]);
    sum_taps(r, s, anfi_low_atom(L, anfi_ix_mulc(L, row, (uint64_t)s->s->n)), sum);
  }
}

static void mean_part(void *user, const anfi_slide_part *s) {
  pool_rows *r = (pool_rows *)user;
  anfi_low *L = r->p.L;
  tstore *t = L->t;
  texpr zero = anfi_slide_all(s, anfi_low_const(L, ANFI_F64, 0));
  texpr sum = anfi_low_var(L, zero->dtype, "sum", zero);
  if (r->across) sum_down(r, s, sum);
  else {
    sum_taps(r, s, open_window_rows(&r->p), sum);
    close2(L, r->p.win);
  }
  texpr n = anfi_t_mul(t, entry(&r->p, r->p.count[0], 0), entry(&r->p, r->p.count[1], 1));
  n = anfi_low_atom(L, anfi_t_cast(t, ANFI_F64, anfi_t_cast(t, ANFI_S64, n)));
  texpr by = anfi_t_at(t, r->counts, 1, &s->at, s->lanes, 0, NULL);
  bool divides = r->result.elem == ANF_TIR_f64;
  if (!divides) n = anfi_low_atom(L, anfi_t_bin(t, TX_div, anfi_low_const(L, ANFI_F64, 1), n));
  by = anfi_t_mul(t, by, anfi_slide_all(s, n));
  n = divides ? anfi_t_bin(t, TX_div, sum, by) : anfi_t_mul(t, sum, by);
  put_part(r, s, n);
}

/* What sums are divided by for the last dim; of results narrower than f64 what they are multiplied by, which rounding hides. */
static texpr last_counts(const pool *p, bool divides) {
  uint64_t *bits = ANFI_NEW_N(p->L->a, uint64_t, (size_t)p->p.out[2]);
  for (int64_t i = 0; i < p->p.out[2]; i++) {
    double n = (double)p->p.span[2][i].count;
    bits[i] = anfi_t_lane_of_f64(ANFI_F64, divides ? n : 1 / n);
  }
  return anfi_low_table(p->L, ANFI_F64, (uint64_t)p->p.out[2], bits);
}

/* Do windows read most elements so often that converting them once pays, and do these stay in the first cache? */
static bool is_read_often(const anfi_pool *w, uint64_t in, uint64_t out) {
  enum { OFTEN = 3, MOST = 4096 };
  uint64_t reads = out;
  for (size_t k = 0; k < 3; k++) reads *= w->taps[k] ? (uint64_t)w->taps[k] : 1; // 0: no such dim
  return in <= MOST && reads >= OFTEN * in;
}

/* The plane in a wider type. */
static texpr widened(const pool *p, texpr x, tdtype wide, texpr plane) {
  anfi_low *L = p->L;
  anfi_loop l;
  texpr to = anfi_low_local(L, (anf_tir_elem)wide.elem, p->in, "wide");
  anfi_low_loop(L, &l, p->in, "i");
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, plane, p->in), l.var);
  texpr e = anfi_t_cast(L->t, wide, anfi_low_load(L, x, at));
  anfi_low_put(L, to, l.var, (anfi_elem){e, NULL}, false);
  anfi_low_loop_end(L, &l);
  return to;
}

/* Rows of zeros before and after those that sums along rows are of, so that all windows have as many: there is one plane
 * of rows. */
static void zero_rows(const pool_rows *r, uint64_t from, uint64_t n) {
  anfi_low *L = r->p.L;
  anfi_loop l;
  anfi_low_loop_range(L, &l, anfi_ix(L, from), anfi_ix(L, from + n), 1, "i");
  anfi_low_put(L, r->to, l.var, (anfi_elem){anfi_low_const(L, ANFI_F64, 0), NULL}, false);
  anfi_low_loop_end(L, &l);
}

/* Are sums along rows, which windows share, and sums of these less work than a sum for each window? */
static bool shares_rows(const anfi_pool *w) {
  enum { MOST = 1 << 15 };
  int64_t above = w->taps[1], rows = w->in[1], out = w->out[1];
  return w->in[0] == 1 && w->out[0] == 1 && rows * w->out[2] <= MOST && w->first[1] <= 0 &&
         rows * w->taps[2] + out * above <= out * above * w->taps[2];
}

static void across_part(void *user, const anfi_slide_part *s) {
  pool_rows *r = (pool_rows *)user;
  anfi_slide_put(s, r->to, r->p.result, sum_taps(r, s, r->p.plane, NULL));
}

/* Sums along the rows of a plane, of which `r` makes means then. */
static void sum_across(pool_rows *r, anfi_slide *s) {
  anfi_low *L = r->p.L;
  anfi_pool *w = &r->p.p;
  int64_t top = -w->first[1],
          end = (w->out[1] - 1) * w->stride[1] + (w->taps[1] - 1) * w->step[1] + 1;
  uint64_t n = (uint64_t)s->n, below = end > top + w->in[1] ? (uint64_t)(end - top - w->in[1]) : 0;
  uint64_t rows = (uint64_t)w->in[1], before = (uint64_t)top;
  pool_rows a = *r;
  anfi_loop l;
  a.to = anfi_low_local(L, ANF_TIR_f64, (before + rows + below) * n, "across");
  zero_rows(&a, 0, before * n);
  zero_rows(&a, (before + rows) * n, below * n);
  anfi_low_loop(L, &l, rows, "row");
  a.p.plane = anfi_low_atom(L, anfi_ix_add(L, r->p.plane, anfi_ix_mulc(L, l.var, (uint64_t)s->in)));
  a.p.result = anfi_low_atom(L, anfi_ix_mulc(L, anfi_ix_addc(L, l.var, top), n));
  anfi_slide_row(L, s, across_part, &a);
  anfi_low_loop_end(L, &l);
  *s = (anfi_slide){.n = s->n, .in = s->n, .stride = 1, .taps = 1, .step = 1};
  r->across = true;
  r->from = a.to;
  r->type = ANFI_F64;
}

/* A plane, row by row. False: the windows are not such. */
static bool plane_by_rows(const pool *p, const anfi_view *x, texpr to, bool greatest, texpr plane) {
  enum { MOST_HALVES = 1 << 18 };
  const anfi_pool *w = &p->p;
  anfi_slide s = {w->out[2], w->in[2], w->first[2], w->stride[2], w->taps[2], w->step[2], 0};
  tdtype d = anfi_low_dt(x->dtype), wide = d;
  bool half = anfi_t_is_half(d);
  if (!anfi_slide_fits(&s, half ? ANF_F32 : x->dtype) || (half && p->in > MOST_HALVES))
    return false;
  bool shared = !greatest && d.elem != ANF_TIR_f64 && shares_rows(w);
  if (half) wide = anfi_t_dt(ANF_TIR_f32);
  if (!greatest && !shared && is_read_often(w, p->in, p->out)) wide = ANFI_F64;
  pool_rows r = {*p, x->tensor, to, NULL, wide, d, false};
  bool copy = wide.elem != d.elem;
  if (!greatest) r.counts = last_counts(p, d.elem == ANF_TIR_f64);
  if (copy) r.from = widened(p, x->tensor, wide, plane);
  r.p.plane = copy ? anfi_ix(p->L, 0) : anfi_low_atom(p->L, anfi_ix_mulc(p->L, plane, p->in));
  if (shared) sum_across(&r, &s);
  open_rows(&r.p, plane);
  anfi_slide_row(p->L, &s, greatest ? max_part : mean_part, &r);
  close2(p->L, r.p.at);
  return true;
}

static void open_planes(pool *p, anfi_loop *l) {
  anfi_low_loop(p->L, l, p->planes, "plane");
  l->parallel =
      p->L->o.parallel && !p->L->in_parallel && !l->none && p->planes * p->in >= ANFI_PARALLEL_WORK;
}

/* Is the result one mean of each whole plane of floats? */
static bool is_mean_of_planes(const anfi_low_op *q) {
  const anf_type *x = q->in[0]->type;
  uint64_t n = 1;
  for (size_t k = 2; k < q->type->n; k++) n *= (uint64_t)q->type->dims[k];
  bool whole = q->op == ANF_OP_GlobalAvgPool || q->op == ANF_OP_AdaptiveAvgPool1D ||
               q->op == ANF_OP_AdaptiveAvgPool2D || q->op == ANF_OP_AdaptiveAvgPool3D;
  return whole && n == 1 && q->type->dtype == x->dtype && anfi_dtype_is_float((anf_dtype)x->dtype);
}

/* Is the result one greatest element of each whole plane? */
static bool is_greatest_of_planes(anfi_low *L, const anfi_low_op *q) {
  const anf_type *x = q->in[0]->type;
  anfi_infer t = anfi_low_infer(L, q);
  anfi_pool p;
  if (!anfi_pool_plan(&t, x->n - 2, x->dims + 2, true, &p) || volume(p.out) != 1) return false;
  for (size_t k = 0; k < 3; k++)
    if (p.span[k]->lo || p.span[k]->hi != p.in[k] || p.step[k] != 1) return false;
  return true;
}

bool anfi_lower_pool(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  if (is_mean_of_planes(q)) return anfi_lower_reduce_planes(L, q, ANF_OP_Mean, out);
  bool greatest = q->op == ANF_OP_GlobalMaxPool || q->op == ANF_OP_MaxPool1D ||
                  q->op == ANF_OP_MaxPool2D || q->op == ANF_OP_MaxPool3D;
  if (greatest && is_greatest_of_planes(L, q))
    return anfi_lower_reduce_planes(L, q, ANF_OP_Max, out);
  pool p;
  anfi_loop l;
  texpr to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  const anfi_view *x = held(L, q->in[0]);
  if (!plan(&p, L, q, x->type)) return false;
  open_planes(&p, &l);
  if (!plane_by_rows(&p, x, to, greatest, l.var)) {
    open_results(&p, l.var);
    put(&p, to, p.result, greatest ? find_max(&p, x, NULL) : mean(&p, x));
    close3(L, p.at);
  }
  anfi_low_loop_end(L, &l);
  return true;
}

/* The v at the first greatest x of each window. */
bool anfi_lower_pool_pick(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  pool p;
  anfi_loop l;
  texpr to = anfi_low_result(L, q, 0, q->type), where = NULL;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  const anfi_view *x = held(L, q->in[0]), *v = held(L, q->in[1]);
  if (!plan(&p, L, q, x->type)) return false;
  open_planes(&p, &l);
  open_results(&p, l.var);
  find_max(&p, x, &where);
  texpr r =
      anfi_low_var(L, anfi_low_dt(v->dtype), "r", anfi_low_const(L, anfi_low_dt(v->dtype), 0));
  anfi_low_if(L);
  anfi_low_set(L, r, anfi_low_load(L, v->tensor, anfi_ix_add(L, p.plane, where)));
  anfi_low_if_end(L, anfi_t_lt(L->t, where, anfi_ix(L, p.in)));
  put(&p, to, p.result, r);
  close3(L, p.at);
  anfi_low_loop_end(L, &l);
  return true;
}

static void add(anfi_low *L, texpr acc, texpr at, texpr x) {
  texpr old = anfi_low_load(L, acc, at);
  anfi_low_put(L, acc, at, (anfi_elem){anfi_t_add(L->t, old, x), NULL}, false);
}

static void zero(anfi_low *L, texpr acc, uint64_t n) {
  anfi_loop l;
  anfi_low_loop(L, &l, n, "i");
  anfi_low_put(L, acc, l.var, (anfi_elem){anfi_low_const(L, ANFI_F64, 0), NULL}, false);
  anfi_low_loop_end(L, &l);
}

/* Do the windows share no element, and leave none out? */
static bool is_tiled(const pool *p) {
  uint64_t stride;
  for (size_t k = 0; k < 3; k++) {
    const anfi_span *s = p->p.span[k];
    if (!is_regular(p, k, &stride) || s->lo || p->p.step[k] != 1) return false;
    if (p->p.out[k] > 1 && stride != (uint64_t)s->hi) return false;
    if (p->p.out[k] * s->hi != p->p.in[k]) return false;
  }
  return true;
}

/* Of such windows each element is written once: dy if it is the first greatest of its own, else 0.
 * Without branches, so that it becomes vector code. */
static bool tiled_grad(pool *p, const anfi_view *dy, const anfi_view *x, texpr to) {
  anfi_low *L = p->L;
  tstore *t = L->t;
  tdtype d = compared(anfi_low_dt(x->dtype));
  anfi_loop l;
  open_planes(p, &l);
  open_results(p, l.var);
  texpr given = anfi_low_let(L, read(p, dy, p->result), "d"), best = find_max(p, x, NULL),
        done = anfi_low_var(L, ANFI_BOOL, "done", anfi_t_bool(t, false)),
        at = anfi_low_atom(L, anfi_ix_add(L, p->plane, open_window(p)));
  texpr e = anfi_low_let(L, anfi_t_cast(t, d, read(p, x, at)), "e"),
        hit = anfi_t_bin(t, TX_cmp_eq, e, best);
  if (anfi_t_is_float(d)) hit = anfi_t_bin(t, TX_logic_or, hit, anfi_t_bin(t, TX_cmp_ne, e, e));
  hit = anfi_low_let(L, anfi_t_bin(t, TX_logic_and, hit, anfi_t_not(t, done)), "hit");
  put(p, to, at, anfi_t_select(t, hit, given, anfi_low_const(L, given->dtype, 0)));
  anfi_low_set(L, done, anfi_t_bin(t, TX_logic_or, done, hit));
  close3(L, p->win);
  close3(L, p->at);
  anfi_low_loop_end(L, &l);
  return true;
}

/* dy goes to the first greatest element, or in equal parts to all. */
bool anfi_lower_pool_grad(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool greatest = q->op == ANF_OP_MaxPoolGrad;
  pool p;
  anfi_loop l;
  texpr to = anfi_low_result(L, q, 0, q->type), where = NULL;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  const anfi_view *dy = held(L, q->in[greatest ? 1 : 0]), *x = greatest ? held(L, q->in[0]) : NULL;
  if (!dy->n) return anfi_lower_fill_zero(L, q, to);
  if (!plan(&p, L, q, q->type)) return false;
  if (greatest && is_tiled(&p)) return tiled_grad(&p, dy, x, to);
  open_planes(&p, &l);
  texpr acc = anfi_low_local(L, ANF_TIR_f64, p.in, "acc");
  zero(L, acc, p.in);
  open_results(&p, l.var);
  texpr d = anfi_low_let(L, anfi_t_cast(L->t, ANFI_F64, read(&p, dy, p.result)), "d");
  if (greatest) {
    find_max(&p, x, &where);
    anfi_low_if(L);
    add(L, acc, where, d);
    anfi_low_if_end(L, anfi_t_lt(L->t, where, anfi_ix(L, p.in)));
  } else {
    texpr each = anfi_low_let(L, anfi_t_bin(L->t, TX_div, d, window_size(&p)), "each");
    add(L, acc, open_window(&p), each);
    close3(L, p.win);
  }
  close3(L, p.at);
  anfi_low_put_part(L, q, acc, to, l.var, p.in);
  anfi_low_loop_end(L, &l);
  return true;
}

/* ---- resizing ---- */

typedef struct taps { // of one dim, by result index
  texpr at[2], weight[2];
  bool one;       // a single element of weight 1
  uint64_t times; // each element so often, or 0
} taps;

typedef struct resizing {
  anfi_low *L;
  uint64_t planes, in, out;
  int64_t dim_in[3], dim_out[3];
  taps t[3];
} resizing;

static void linear_tap(int64_t o, int64_t in, int64_t out, bool align, uint64_t *at,
                       double *weight) {
  double x = align ? (out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0.0)
                   : ((double)o + 0.5) * (double)in / (double)out - 0.5;
  if (x < 0.0) x = 0.0;
  int64_t i = (int64_t)x;
  if (i > in - 1) i = in - 1;
  double w = i == in - 1 ? 0.0 : x - (double)i;
  at[0] = (uint64_t)i;
  at[1] = (uint64_t)(i == in - 1 ? i : i + 1);
  weight[0] = 1.0 - w;
  weight[1] = w;
}

static taps taps_of(anfi_low *L, const anfi_low_op *q, int64_t in, int64_t out) {
  bool nearest = anfi_attr_is(q->attr[1], "nearest"), align = anfi_attr_bool(q->attr[2]);
  size_t n = (size_t)out;
  uint64_t *bits[4];
  taps t = {.one = true, .times = nearest && in && out % in == 0 ? (uint64_t)(out / in) : 0};
  for (int k = 0; k < 4; k++) bits[k] = ANFI_NEW_N(L->a, uint64_t, n + 1);
  for (int64_t o = 0; o < out; o++) {
    uint64_t at[2] = {(uint64_t)(o * in / out), 0};
    double w[2] = {1.0, 0.0};
    if (!nearest) linear_tap(o, in, out, align, at, w);
    t.one &= w[1] == 0.0;
    for (int k = 0; k < 2; k++) {
      bits[k][o] = at[k];
      memcpy(&bits[2 + k][o], &w[k], 8);
    }
  }
  for (int k = 0; k < 2; k++) {
    t.at[k] = anfi_low_table(L, ANFI_IX, n, bits[k]);
    t.weight[k] = anfi_low_table(L, ANFI_F64, n, bits[2 + k]);
  }
  return t;
}

static resizing resizing_of(anfi_low *L, const anfi_low_op *q, const anf_type *x,
                            const anf_type *y) {
  resizing r = {.L = L, .planes = (uint64_t)(x->dims[0] * x->dims[1])};
  size_t first = 3 - (x->n - 2);
  for (size_t k = 0; k < 3; k++) {
    r.dim_in[k] = k < first ? 1 : x->dims[2 + k - first];
    r.dim_out[k] = k < first ? 1 : y->dims[2 + k - first];
    r.t[k] = taps_of(L, q, r.dim_in[k], r.dim_out[k]);
  }
  r.in = volume(r.dim_in);
  r.out = volume(r.dim_out);
  return r;
}

/* One of the eight corners: its place in the input's plane and its weight; false: it has none. */
static bool corner(const resizing *r, const texpr *o, int c, texpr *at, texpr *weight) {
  anfi_low *L = r->L;
  const int side[3] = {c >> 2 & 1, c >> 1 & 1, c & 1};
  texpr w = anfi_low_const(L, ANFI_F64, 1), i = anfi_ix(L, 0);
  for (size_t k = 0; k < 3; k++) {
    if (side[k] && r->t[k].one) return false;
    texpr here = anfi_low_atom(L, anfi_low_load(L, r->t[k].at[side[k]], o[k]));
    i = anfi_ix_add(L, anfi_ix_mulc(L, i, (uint64_t)r->dim_in[k]), here);
    if (!r->t[k].one)
      w = anfi_t_mul(L->t, w, anfi_low_atom(L, anfi_low_load(L, r->t[k].weight[side[k]], o[k])));
  }
  *at = i;
  *weight = anfi_low_atom(L, w);
  return true;
}

static anfi_elem at_resize(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const resizing *r = (const resizing *)v->data;
  const anf_type *x = v->in[0]->type;
  texpr o[4], sum = anfi_low_const(L, ANFI_F64, 0), i, w;
  int64_t dims[4] = {(int64_t)r->planes, r->dim_out[0], r->dim_out[1], r->dim_out[2]};
  anfi_pt_dims(L, p, 4, dims, o);
  bool single = r->t[0].one && r->t[1].one && r->t[2].one && (anfi_attr_is(v->attr[1], "nearest"));
  (void)x;
  for (int c = 0; c < 8; c++) {
    if (!corner(r, o + 1, c, &i, &w)) continue;
    anfi_pt at = {0};
    anfi_pt_push(&at, o[0], r->planes);
    anfi_pt_push(&at, i, r->in);
    anfi_elem e = anfi_view_at(L, v->in[0], &at);
    if (single) return e;
    texpr term = anfi_t_mul(L->t, w, anfi_t_cast(L->t, ANFI_F64, e.re));
    texpr none = anfi_t_bin(L->t, TX_cmp_eq, w, anfi_low_const(L, ANFI_F64, 0));
    sum = anfi_low_atom(L, anfi_t_select(L->t, none, sum, anfi_t_add(L->t, sum, term)));
  }
  return anfi_scalar_cast(L, (anfi_elem){sum, NULL}, ANF_F64, v->dtype);
}

/* Each element so often: a loop for the elements of a dim, and one for their copies. */
static void store_copies(anfi_low *L, const anfi_view *v, texpr to) {
  const resizing *r = (const resizing *)v->data;
  anfi_loop plane, of[3], copies[3];
  anfi_pt from = {0}, p = {0};
  anfi_low_loop(L, &plane, r->planes, "plane");
  plane.parallel = L->o.parallel && !L->in_parallel && v->n >= ANFI_PARALLEL_WORK;
  anfi_pt_push(&from, plane.var, r->planes);
  anfi_pt_push(&p, plane.var, r->planes);
  for (size_t k = 0; k < 3; k++) {
    anfi_low_loop(L, &of[k], (uint64_t)r->dim_in[k], "i");
    anfi_low_loop(L, &copies[k], r->t[k].times, "r");
    anfi_pt_push(&from, of[k].var, (uint64_t)r->dim_in[k]);
    anfi_pt_push(&p, of[k].var, (uint64_t)r->dim_in[k]);
    anfi_pt_push(&p, copies[k].var, r->t[k].times);
  }
  anfi_low_put(L, to, anfi_pt_linear(L, &p), anfi_view_at(L, v->in[0], &from), v->complex);
  for (size_t k = 3; k-- > 0;) {
    anfi_low_loop_end(L, &copies[k]);
    anfi_low_loop_end(L, &of[k]);
  }
  anfi_low_loop_end(L, &plane);
}

bool anfi_lower_resize(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_resize);
  if (!out[0]->n) return true;
  resizing *r = ANFI_NEW(L->a, resizing);
  *r = resizing_of(L, q, q->in[0]->type, q->type);
  out[0]->data = r;
  if (r->t[0].times && r->t[1].times && r->t[2].times) out[0]->store = store_copies;
  return true;
}

bool anfi_lower_resize_grad(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to = anfi_low_result(L, q, 0, q->type), at, w, i[3];
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  if (!q->in[0]->n) return anfi_lower_fill_zero(L, q, to);
  const anfi_view *dy = held(L, q->in[0]);
  resizing r = resizing_of(L, q, q->type, q->in[0]->type);
  anfi_loop plane, o[3];
  anfi_low_loop(L, &plane, r.planes, "plane");
  texpr acc = anfi_low_local(L, ANF_TIR_f64, r.in, "acc");
  zero(L, acc, r.in);
  anfi_pt p = {0};
  anfi_pt_push(&p, plane.var, r.planes);
  for (size_t k = 0; k < 3; k++) {
    anfi_low_loop(L, &o[k], (uint64_t)r.dim_out[k], "o");
    anfi_pt_push(&p, i[k] = o[k].var, (uint64_t)r.dim_out[k]);
  }
  texpr d = anfi_view_real(L, dy, &p, ANFI_F64);
  for (int c = 0; c < 8; c++) {
    if (!corner(&r, i, c, &at, &w)) continue;
    anfi_low_if(L);
    add(L, acc, at, anfi_t_mul(L->t, w, d));
    anfi_low_if_end(L, anfi_t_bin(L->t, TX_cmp_ne, w, anfi_low_const(L, ANFI_F64, 0)));
  }
  close3(L, o);
  anfi_low_put_part(L, q, acc, to, plane.var, r.in);
  anfi_low_loop_end(L, &plane);
  return true;
}
