// SPDX-License-Identifier: Apache-2.0
/* Reductions and running sums.
 *   Sum(x)   ->   s: f64 = 0; for i: s += f64(x[i]); y = f32(s)
 * Elements are taken in the interpreter's order, sums are kept in double (or s64) and rounded once, so results are
 * equal bit for bit; with the option `fast` floats are summed in f32.
 *
 * partial_reduce_replace: a large reduction with no outer loop is cut in slices, which threads share:
 *   Sum(x: f32[4194304])   ->   p: f64[256]; for i: p[i] = Sum(x[16384 i : 16384 (i + 1)]); y = f32(Sum(p))
 *   Var(x)                 ->   m: f64 = Sum(x) / n in slices; y = Sum((x - m)^2) / n in slices
 * The shape alone decides on the slices, so the number of threads changes no bit. */
#include "backend/lower/ops/group.h"
#include "ir/ops/kernel.h"

typedef enum kind { SUM, PROD, EXTREME, ARG_EXTREME, TRUTH, SPREAD, LOG_SUM_EXP } kind;

static kind kind_of(anfi_opcode op) {
  switch (op) {
  case ANF_OP_Prod: return PROD;
  case ANF_OP_Max:
  case ANF_OP_Min: return EXTREME;
  case ANF_OP_ArgMax:
  case ANF_OP_ArgMin: return ARG_EXTREME;
  case ANF_OP_Any:
  case ANF_OP_All: return TRUTH;
  case ANF_OP_Var:
  case ANF_OP_Std: return SPREAD;
  case ANF_OP_LogSumExp: return LOG_SUM_EXP;
  default: return SUM;
  }
}

static bool is_real(const group *g) {
  return anfi_dtype_is_float(g->x->dtype) || g->x->complex || anfi_op[g->q->op].flags & ANFI_REALS;
}

static void add_or_mul(group *g, bool mul) {
  tstore *t = g->L->t;
  tdtype d = is_real(g) ? g->real : ANFI_S64;
  bool fours = !mul && is_real(g) && anfi_rows_fours_fit(g);
  if (is_real(g) && !fours && anfi_rows_fit(g)) {
    anfi_rows_reduce(g, mul ? ROWS_PRODUCT : ROWS_SUM, NULL, mul ? "prod" : "sum");
    return;
  }
  uint32_t s = anfi_group_state(g, d, anfi_low_const(g->L, d, mul), mul ? "prod" : "sum");
  uint32_t im = g->x->complex ? anfi_group_state(g, d, anfi_low_const(g->L, d, 0), "im") : s;
  if (!g->n) return;
  if (fours || (!mul && anfi_rows_pairs_fit(g))) {
    anfi_rows_sum_fours(g, fours ? 1 : 2, (uint32_t[]){s, im});
    return;
  }
  anfi_group_begin(g);
  anfi_elem x = anfi_group_x(g);
  texpr a = anfi_group_get(g, s), b = anfi_t_cast(t, d, x.re);
  if (!g->x->complex) anfi_group_set(g, s, anfi_t_bin(t, mul ? TX_mul : TX_add, a, b));
  else {
    texpr c = anfi_low_let(g->L, anfi_group_get(g, im), "c"),
          e = anfi_low_atom(g->L, anfi_t_cast(t, d, x.im));
    a = anfi_low_let(g->L, a, "a");
    b = anfi_low_atom(g->L, b);
    anfi_group_set(
        g, s, mul ? anfi_t_sub(t, anfi_t_mul(t, a, b), anfi_t_mul(t, c, e)) : anfi_t_add(t, a, b));
    anfi_group_set(
        g, im, mul ? anfi_t_add(t, anfi_t_mul(t, a, e), anfi_t_mul(t, c, b)) : anfi_t_add(t, c, e));
  }
  anfi_group_end(g);
}

static void extreme(group *g, bool number) {
  tstore *t = g->L->t;
  bool greatest = g->q->op == ANF_OP_Max || g->q->op == ANF_OP_ArgMax;
  tdtype d = anfi_low_dt(g->x->dtype), c = d;
  if (!number && anfi_rows_fit(g)) {
    anfi_rows_reduce(g, greatest ? ROWS_MAX : ROWS_MIN, NULL, "best");
    return;
  }
  if (number && anfi_rows_arg_fit(g)) {
    anfi_rows_arg(g, greatest);
    return;
  }
  if (anfi_t_is_half(d)) c = anfi_t_accumulator(d);
  if (d.elem == ANF_TIR_bool) c = anfi_t_dt(ANF_TIR_u8);
  texpr init = anfi_t_cast(t, c, anfi_group_least(g->L, g->x->dtype, greatest));
  uint32_t best = anfi_group_state(g, c, init, "best");
  uint32_t at = number ? anfi_group_state(g, ANFI_S64, anfi_t_int(t, ANFI_S64, 0), "at") : best;
  if (!g->n) return;
  anfi_group_begin(g);
  texpr x = anfi_low_atom(g->L, anfi_t_cast(t, c, anfi_group_x(g).re)),
        old = anfi_group_get(g, best);
  texpr more = anfi_low_atom(g->L, anfi_group_beats(g, x, old, greatest));
  if (number) {
    texpr k = anfi_t_cast(t, ANFI_S64, anfi_group_position(g));
    anfi_group_set(g, at, anfi_t_select(t, more, k, anfi_group_get(g, at)));
  }
  anfi_group_set(g, best, anfi_t_select(t, more, x, old));
  anfi_group_end(g);
}

static texpr truth_of(const group *g) {
  return anfi_scalar_cast(g->L, anfi_group_x(g), g->x->dtype, ANF_BOOL).re;
}

static void truth(group *g) {
  bool any = g->q->op == ANF_OP_Any;
  uint32_t s = anfi_group_state(g, ANFI_BOOL, anfi_t_bool(g->L->t, !any), "truth");
  if (!g->n) return;
  anfi_group_begin(g);
  texpr x = anfi_low_atom(g->L, truth_of(g)), old = anfi_group_get(g, s);
  anfi_group_set(g, s, anfi_t_bin(g->L->t, any ? TX_logic_or : TX_logic_and, old, x));
  anfi_group_end(g);
}

/* A state that is a function of another. */
static uint32_t derived(group *g, uint32_t of, texpr (*f)(group *g, texpr x), const char *name) {
  uint32_t s = anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), name);
  anfi_group_begin_each(g);
  anfi_group_set(g, s, f(g, anfi_group_get(g, of)));
  anfi_group_end_each(g);
  return s;
}

static texpr over_size(group *g, texpr x) {
  uint64_t n = g->whole ? g->whole : g->size;
  return anfi_t_bin(g->L->t, TX_div, x, anfi_low_const(g->L, g->real, (double)n));
}

static void spread(group *g) {
  if (!g->n) {
    anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), "square");
    return;
  }
  uint32_t mean = derived(g, anfi_group_sum(g), over_size, "mean");
  uint32_t s = anfi_group_sum_squares(g, mean);
  g->state[0] = g->state[s];
}

static void log_sum_exp(group *g) {
  tstore *t = g->L->t;
  uint32_t top, s;
  if (!g->n) {
    anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, -INFINITY), "top");
    anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), "sum");
    return;
  }
  top = anfi_group_max(g);
  if (anfi_rows_one(g)) {
    anfi_rows_sum_positive(g, anfi_rows_exp(g, top));
    return;
  }
  if (anfi_rows_sum_exp(g, top, &s)) return;
  s = anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), "sum");
  anfi_group_begin(g);
  texpr x = anfi_t_sub(t, anfi_group_real(g), anfi_group_get(g, top));
  x = anfi_group_exp(g, x);
  anfi_group_set(g, s, anfi_t_add(t, anfi_group_get(g, s), x));
  anfi_group_end(g);
}

static void passes(group *g) {
  switch (kind_of(g->q->op)) {
  case SUM: add_or_mul(g, false); break;
  case PROD: add_or_mul(g, true); break;
  case EXTREME: extreme(g, false); break;
  case ARG_EXTREME: extreme(g, true); break;
  case TRUTH: truth(g); break;
  case SPREAD: spread(g); break;
  case LOG_SUM_EXP: log_sum_exp(g); break;
  }
}

static texpr math(group *g, tintrin f, texpr x) {
  return anfi_t_intrin(g->L->t, f, x->dtype, 1, &x, (tattrs){0});
}

/* What the states of a group make. */
static anfi_elem final(group *g) {
  tstore *t = g->L->t;
  anfi_elem e = {
      anfi_group_get(g, g->q->op == ANF_OP_ArgMax || g->q->op == ANF_OP_ArgMin ? 1u : 0u), NULL};
  if (g->x->complex && g->nstate > 1) e.im = anfi_group_get(g, 1);
  if (g->q->op == ANF_OP_Mean) {
    e.re = over_size(g, e.re);
    if (e.im) e.im = over_size(g, e.im);
  }
  if (kind_of(g->q->op) == SPREAD) {
    double ddof = anfi_attr_float(g->q->attr[2]), n = (double)g->size;
    e.re = anfi_t_bin(t, TX_div, e.re, anfi_low_const(g->L, g->real, n > ddof ? n - ddof : 0));
    if (g->q->op == ANF_OP_Std) e.re = math(g, TI_sqrt, e.re);
  }
  if (kind_of(g->q->op) == LOG_SUM_EXP) {
    texpr top = e.re, size = math(g, TI_abs, top);
    texpr finite = anfi_t_lt(t, size, anfi_low_const(g->L, g->real, INFINITY));
    e.re = anfi_t_select(t, finite, anfi_t_add(t, top, math(g, TI_log, anfi_group_get(g, 1))), top);
  }
  return e;
}

static void put(const group *g, texpr to, texpr i, anfi_elem e, const anf_type *t) {
  tdtype d = anfi_low_dt((anf_dtype)t->dtype);
  e.re = anfi_t_cast(g->L->t, d, e.re);
  if (e.im) e.im = anfi_t_cast(g->L->t, d, e.im);
  anfi_low_put(g->L, to, i, e, e.im != NULL);
}

/* Groups without elements all give the same. */
static void fill(group *g, texpr to, const anf_type *t) {
  anfi_elem e = final(g);
  anfi_loop l;
  uint64_t n = anfi_low_elements(t);
  if (!n) return;
  e.re = anfi_low_atom(g->L, e.re);
  if (e.im) e.im = anfi_low_atom(g->L, e.im);
  anfi_low_loop(g->L, &l, n, "i");
  put(g, to, l.var, e, t);
  anfi_low_loop_end(g->L, &l);
}

/* Reduces x to elements of `to` from `first` on, of type t. `whole`: elements that a mean is of, or 0 for those of a
 * group. */
static void reduce_to(anfi_low *L, const anfi_low_op *q, const anfi_view *x, uint32_t mask,
                      texpr to, uint64_t first, const anf_type *t, uint64_t whole) {
  group g = {0};
  if (kind_of(q->op) == ARG_EXTREME) anfi_rows_arg_before(L, x, mask);
  bool any = anfi_group_open(&g, L, q, x, mask);
  g.whole = whole;
  passes(&g);
  if (any) {
    anfi_group_begin_each(&g);
    texpr at = anfi_ix_addc(L, anfi_group_number(&g), (int64_t)first);
    put(&g, to, first ? anfi_low_atom(L, at) : at, final(&g), t);
    anfi_group_end_each(&g);
    anfi_group_close(&g);
  } else fill(&g, to, t);
}

/* ---- large reductions in slices ---- */

typedef struct slicing { // of x as [rows, cols], whose rows are reduced
  uint64_t rows, cols;
  uint64_t size, count; // rows of a slice; whole slices
} slicing;

/* Are the reduced axes those in front? */
static bool reduces_front(const anf_type *t, uint32_t mask, slicing *s) {
  bool front = true;
  *s = (slicing){.rows = 1, .cols = 1};
  for (uint32_t k = 0; k < t->n; k++) {
    bool in = mask >> k & 1;
    if (t->dims[k] == 1) continue;
    if (in && !front) return false;
    front &= in;
    *(in ? &s->rows : &s->cols) *= (uint64_t)t->dims[k];
  }
  return s->rows > 1;
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Slices that divide the rows, if there are such: x then need not be in memory. */
static void choose_slices(slicing *s) {
  enum { ROW = 1 << 14, LEAST_ROW = 1 << 12, SLICE = 1 << 15, LEAST = 16, MOST = 64 };
  uint64_t most = ROW, least = LEAST_ROW; // rows of a slice
  if (s->cols > 1) {
    least = larger(LEAST, larger(SLICE / s->cols, s->rows / MOST));
    most = 2 * least;
  }
  s->size = most;
  for (uint64_t n = (s->rows + most - 1) / most; n <= s->rows / least; n++)
    if (s->rows % n == 0) {
      s->size = s->rows / n;
      break;
    }
  s->count = s->rows / s->size;
}

static bool is_sliced(anfi_opcode op, const anf_type *x, uint32_t mask, slicing *s) {
  enum { LEAST_WORK = 1 << 18, LEAST_SLICES = 4 };
  kind k = kind_of(op);
  anf_dtype d = (anf_dtype)x->dtype;
  bool ints = !anfi_dtype_is_float(d), other = anfi_low_complex(d) || d == ANF_KEY;
  if ((k != SUM && k != EXTREME && k != TRUTH && k != SPREAD) || other) return false;
  if (ints && (op == ANF_OP_Mean || k == SPREAD)) return false;
  if (anfi_low_elements(x) < LEAST_WORK || !reduces_front(x, mask, s)) return false;
  choose_slices(s);
  return s->count >= LEAST_SLICES;
}

uint64_t anfi_low_slices(const anf_node *n) {
  slicing s;
  if (n->kind != ANFI_APPLY || !n->nin) return 0;
  const anfi_op_info *o = anfi_op_of(n);
  const anf_type *x = n->in[0].def->type;
  if (!x || x->kind != ANF_TYPE_TENSOR || o->lower != ANFI_LOWER_REDUCE || !(o->flags & ANFI_ALONG))
    return 0;
  switch (n->op) { // others of kind SUM are norms
  case ANF_OP_Sum:
  case ANF_OP_Mean:
  case ANF_OP_Max:
  case ANF_OP_Min:
  case ANF_OP_Any:
  case ANF_OP_All:
  case ANF_OP_Var:
  case ANF_OP_Std: break;
  default: return 0;
  }
  const anf_value *axis = anfi_attr_value(n->graph->module->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  if (!axis || !is_sliced((anfi_opcode)n->op, x, anfi_reduced_axes(axis, x->n), &s)) return 0;
  return s.count + (s.count * s.size < s.rows);
}

static anfi_elem at_rest(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const slicing *s = (const slicing *)v->data;
  texpr at[2];
  anfi_pt_dims(L, p, 2, v->type->dims, at);
  at[0] = anfi_low_atom(L, anfi_ix_addc(L, at[0], (int64_t)(s->count * s->size)));
  anfi_pt x = anfi_pt_of(2, (int64_t[]){(int64_t)s->rows, (int64_t)s->cols}, at);
  return anfi_view_at(L, v->in[0], &x);
}

static anfi_view *slices_of(anfi_low *L, const anfi_low_op *q, anfi_view *x, const slicing *s) {
  int64_t dims[3] = {(int64_t)s->count, (int64_t)s->size, (int64_t)s->cols};
  anfi_view *in[1] = {x}, *v;
  anfi_low_op one = {.op = q->op, .loc = q->loc, .n = 1, .in = in, .attr = q->attr};
  one.type = anfi_type_tensor(L->cx, x->dtype, 3, dims);
  if (s->count * s->size == s->rows) anfi_lower_same(L, &one, &v);
  else v = anfi_view_buffer(L, one.type, anfi_view_force(L, x));
  return v;
}

static anfi_view *rest_of(anfi_low *L, const anfi_low_op *q, anfi_view *x, const slicing *s) {
  int64_t dims[2] = {(int64_t)(s->rows - s->count * s->size), (int64_t)s->cols};
  anfi_view *in[1] = {x};
  anfi_low_op one = {.op = q->op, .loc = q->loc, .n = 1, .in = in, .attr = q->attr};
  one.type = anfi_type_tensor(L->cx, x->dtype, 2, dims);
  anfi_view *v = anfi_view_lazy(L, &one, ORDER_ANY, at_rest);
  v->data = ANFI_NEW(L->a, slicing);
  *(slicing *)v->data = *s;
  return v;
}

/* The element type of the results of slices. */
static anf_dtype part_type(kind k, anf_dtype d) {
  if (k == TRUTH) return ANF_BOOL;
  if (k == EXTREME) return d;
  return anfi_dtype_is_float(d) ? ANF_F64 : ANF_I64;
}

static void reduce_slices(anfi_low *L, const anfi_low_op *q, anfi_view *x, const slicing *s,
                          texpr to) {
  bool rest = s->count * s->size < s->rows, sum = kind_of(q->op) == SUM;
  uint64_t n = s->count + rest;
  anf_dtype d = part_type(kind_of(q->op), x->dtype);
  int64_t dims[2] = {(int64_t)n, (int64_t)s->cols};
  const anf_type *t = anfi_type_tensor(L->cx, d, 2, dims);
  anfi_low_op part = *q;
  if (sum) part.op = ANF_OP_Sum; // a mean divides at the end
  anfi_low_open(L);
  texpr parts = anfi_low_local(L, anfi_lower_elem(d), n * s->cols, "parts");
  anfi_view *slices = slices_of(L, q, x, s);
  reduce_to(L, &part, slices, 1 << 1, parts, 0, t, 0);
  if (rest) reduce_to(L, &part, rest_of(L, q, x, s), 1 << 0, parts, s->count * s->cols, t, 0);
  reduce_to(L, q, anfi_view_buffer(L, t, parts), 1 << 0, to, 0, q->type, s->rows);
  anfi_low_add(L, anfi_low_close(L));
}

/* ---- Var and Std in slices ---- */

typedef struct moments {
  const slicing *s;
  texpr mean; // by column
} moments;

/* (x - mean)^2 in double */
static anfi_elem square_at(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const moments *m = (const moments *)v->data;
  texpr at[2];
  anfi_pt_dims(L, p, 2, (int64_t[]){(int64_t)m->s->rows, (int64_t)m->s->cols}, at);
  texpr x = anfi_t_cast(L->t, ANFI_F64, anfi_view_at(L, v->in[0], p).re);
  texpr mean = anfi_low_load(L, m->mean, anfi_low_atom(L, at[1]));
  texpr d = anfi_low_atom(L, anfi_t_sub(L->t, x, mean));
  return (anfi_elem){anfi_t_mul(L->t, d, d), NULL};
}

static anfi_view *squares_of(anfi_low *L, const anfi_low_op *q, anfi_view *x, const moments *m) {
  anfi_view *in[1] = {x};
  anfi_low_op one = {.op = q->op, .loc = q->loc, .n = 1, .in = in, .attr = q->attr};
  one.type = anfi_type_tensor(L->cx, ANF_F64, x->type->n, x->type->dims);
  anfi_view *v = anfi_view_lazy(L, &one, ORDER_FLAT, square_at);
  v->data = ANFI_NEW(L->a, moments);
  *(moments *)v->data = *m;
  return v;
}

/* Of each group the sum of squares around the one mean, to elements of `to` from `first` on. */
static void squares_to(anfi_low *L, const anfi_low_op *q, const anfi_view *x, uint32_t mask,
                       texpr mean, texpr to, uint64_t first) {
  group g = {0};
  anfi_group_open(&g, L, q, x, mask);
  texpr m = anfi_t_cast(L->t, g.real, anfi_low_load(L, mean, anfi_ix(L, 0)));
  uint32_t s = anfi_group_sum_squares(&g, anfi_group_state(&g, g.real, m, "mean"));
  anfi_group_begin_each(&g);
  texpr at = anfi_low_atom(L, anfi_ix_addc(L, anfi_group_number(&g), (int64_t)first));
  texpr e = anfi_t_cast(L->t, ANFI_F64, anfi_group_get(&g, s));
  anfi_low_put(L, to, at, (anfi_elem){e, NULL}, false);
  anfi_group_end_each(&g);
  anfi_group_close(&g);
}

/* The same of all elements: of slices, then of their sums. */
static void squares_of_all(anfi_low *L, const anfi_low_op *sum, anfi_view *x, const moments *m,
                           texpr to) {
  const slicing *s = m->s;
  bool rest = s->count * s->size < s->rows;
  int64_t dims[1] = {(int64_t)(s->count + rest)};
  const anf_type *t = anfi_type_tensor(L->cx, ANF_F64, 1, dims);
  texpr parts = anfi_low_local(L, ANF_TIR_f64, s->count + rest, "parts");
  squares_to(L, sum, slices_of(L, sum, x, s), 1 << 1, m->mean, parts, 0);
  if (rest) squares_to(L, sum, rest_of(L, sum, x, s), 1 << 0, m->mean, parts, s->count);
  reduce_to(L, sum, anfi_view_buffer(L, t, parts), 1 << 0, to, 0, sum->type, 0);
}

/* The result of a sum of squares of `n` elements. */
static texpr spread_of(anfi_low *L, const anfi_low_op *q, texpr squares, uint64_t n) {
  double ddof = anfi_attr_float(q->attr[2]), less = (double)n > ddof ? (double)n - ddof : 0;
  texpr y = anfi_t_bin(L->t, TX_div, squares, anfi_low_const(L, ANFI_F64, less));
  if (q->op == ANF_OP_Std) y = anfi_t_intrin(L->t, TI_sqrt, ANFI_F64, 1, &y, (tattrs){0});
  return anfi_t_cast(L->t, anfi_low_dt((anf_dtype)q->type->dtype), y);
}

static void spread_slices(anfi_low *L, const anfi_low_op *q, anfi_view *x, const slicing *s,
                          texpr to) {
  anfi_loop l;
  int64_t dims[1] = {(int64_t)s->cols};
  anfi_low_op step = *q;
  step.type = anfi_type_tensor(L->cx, ANF_F64, 1, dims);
  anfi_low_open(L);
  moments m = {s, anfi_low_local(L, ANF_TIR_f64, s->cols, "mean")};
  texpr squares = anfi_low_local(L, ANF_TIR_f64, s->cols, "square");
  step.op = ANF_OP_Mean;
  reduce_slices(L, &step, x, s, m.mean);
  step.op = ANF_OP_Sum;
  if (s->cols == 1) squares_of_all(L, &step, x, &m, squares);
  else reduce_slices(L, &step, squares_of(L, q, x, &m), s, squares);
  anfi_low_loop(L, &l, s->cols, "i");
  texpr y = spread_of(L, q, anfi_low_load(L, squares, l.var), s->rows);
  anfi_low_put(L, to, l.var, (anfi_elem){y, NULL}, false);
  anfi_low_loop_end(L, &l);
  anfi_low_add(L, anfi_low_close(L));
}

static bool reduce(anfi_low *L, const anfi_low_op *q, uint32_t mask, anfi_view **out) {
  kind k = kind_of(q->op);
  anfi_view *x = k == SPREAD || k == LOG_SUM_EXP ? anfi_group_whole(L, q, 0) : q->in[0];
  slicing s;
  if (k == LOG_SUM_EXP) x = anfi_group_floats(L, q, x);
  if (x->dtype == ANF_KEY) return false;
  texpr to = anfi_low_result(L, q, 0, q->type);
  bool sliced = is_sliced(q->op, x->type, mask, &s);
  if (sliced && k == SPREAD) spread_slices(L, q, x, &s, to);
  else if (sliced) reduce_slices(L, q, x, &s, to);
  else reduce_to(L, q, x, mask, to, 0, q->type, 0);
  out[0] = anfi_view_of_result(L, q->type, to);
  return true;
}

bool anfi_lower_reduce(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  return reduce(L, q, anfi_reduced_axes(q->attr[0], q->in[0]->type->n), out);
}

bool anfi_lower_reduce_planes(anfi_low *L, const anfi_low_op *q, anfi_opcode op, anfi_view **out) {
  anfi_low_op one = *q;
  uint32_t mask = 0;
  one.op = op;
  for (size_t k = 2; k < q->in[0]->type->n; k++) mask |= UINT32_C(1) << k;
  return reduce(L, &one, mask, out);
}

bool anfi_lower_sum_to(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[0]->type;
  uint32_t mask = 0;
  if (t == q->type) return anfi_lower_same(L, q, out);
  for (size_t k = 0; k < t->n; k++) {
    size_t lead = t->n - q->type->n;
    if (k < lead || (q->type->dims[k - lead] == 1 && t->dims[k] != 1)) mask |= UINT32_C(1) << k;
  }
  return reduce(L, q, mask, out);
}

/* ---- running sums ---- */

static uint32_t running(group *g) {
  bool greatest = g->q->op == ANF_OP_CumMax;
  if (g->q->op == ANF_OP_CumSum || g->q->op == ANF_OP_CumProd) {
    bool mul = g->q->op == ANF_OP_CumProd;
    tdtype d = is_real(g) ? ANFI_F64 : ANFI_S64;
    texpr init = anfi_low_const(g->L, d,
                                mul          ? 1
                                : is_real(g) ? -0.0
                                             : 0); // so that a first -0.0 stays
    uint32_t s = anfi_group_state(g, d, init, "run");
    if (g->x->complex) anfi_group_state(g, d, anfi_low_const(g->L, d, mul ? 0 : -0.0), "im");
    return s;
  }
  return anfi_group_state(g, anfi_low_dt(g->x->dtype),
                          anfi_group_least(g->L, g->x->dtype, greatest), "run");
}

static void step_complex(group *g, anfi_elem x) {
  tstore *t = g->L->t;
  texpr re = anfi_t_cast(t, ANFI_F64, x.re), im = anfi_t_cast(t, ANFI_F64, x.im);
  texpr a = anfi_low_let(g->L, anfi_group_get(g, 0), "a"),
        b = anfi_low_let(g->L, anfi_group_get(g, 1), "b");
  if (g->q->op == ANF_OP_CumSum) {
    anfi_group_set(g, 0, anfi_t_add(t, a, re));
    anfi_group_set(g, 1, anfi_t_add(t, b, im));
    return;
  }
  texpr first =
      anfi_t_bin(t, TX_cmp_eq, anfi_group_position(g), anfi_ix(g->L, g->reverse ? g->size - 1 : 0));
  texpr r = anfi_t_sub(t, anfi_t_mul(t, a, re), anfi_t_mul(t, b, im));
  texpr i = anfi_t_add(t, anfi_t_mul(t, a, im), anfi_t_mul(t, b, re));
  anfi_group_set(g, 0, anfi_t_select(t, first, re, r));
  anfi_group_set(g, 1, anfi_t_select(t, first, im, i));
}

static void step(group *g, uint32_t s) {
  tstore *t = g->L->t;
  anfi_elem x = anfi_group_x(g);
  if (g->x->complex) {
    step_complex(g, x);
    return;
  }
  texpr old = anfi_group_get(g, s);
  if (g->q->op == ANF_OP_CumSum || g->q->op == ANF_OP_CumProd) {
    tkind k = g->q->op == ANF_OP_CumSum ? TX_add : TX_mul;
    anfi_group_set(g, s, anfi_t_bin(t, k, old, anfi_t_cast(t, g->type[s], x.re)));
  } else {
    bool greatest = g->q->op == ANF_OP_CumMax;
    texpr more = g->x->dtype == ANF_BOOL
                     ? anfi_t_bin(t, greatest ? TX_logic_or : TX_logic_and, old, x.re)
                     : anfi_t_select(t, anfi_group_beats(g, x.re, old, greatest), x.re, old);
    anfi_group_set(g, s, more);
  }
}

/* Before the first element an exclusive sum is 0, not the -0.0 that the state starts with. */
static anfi_elem current(group *g, bool exclusive) {
  tstore *t = g->L->t;
  anfi_elem e = {anfi_group_get(g, 0), NULL};
  if (g->x->complex) e.im = anfi_group_get(g, 1);
  if (!exclusive || g->q->op != ANF_OP_CumSum || !is_real(g)) return e;
  texpr first =
      anfi_t_bin(t, TX_cmp_eq, anfi_group_position(g), anfi_ix(g->L, g->reverse ? g->size - 1 : 0));
  texpr zero = anfi_low_const(g->L, ANFI_F64, 0);
  e.re = anfi_t_select(t, first, zero, e.re);
  if (e.im) e.im = anfi_t_select(t, first, zero, e.im);
  return e;
}

/* Sums of a row of f16 or bf16 that its array has, rounded: by vectors, where each would be rounded between two additions. */
static void round_row(const group *g, texpr array, texpr to) {
  anfi_loop l;
  texpr first = anfi_ix_mulc(g->L, anfi_group_number(g), g->size);
  anfi_low_loop(g->L, &l, g->size, "k");
  anfi_elem e = {anfi_low_load(g->L, array, l.var), NULL};
  put(g, to, anfi_low_atom(g->L, anfi_ix_add(g->L, first, l.var)), e, g->q->type);
  anfi_low_loop_end(g->L, &l);
}

bool anfi_lower_cumulate(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anfi_view *x = q->in[0];
  bool sums = q->op == ANF_OP_CumSum || q->op == ANF_OP_CumProd;
  bool exclusive = sums && anfi_attr_bool(q->attr[2]);
  texpr to = anfi_low_result(L, q, 0, q->type);
  group g = {.reverse = anfi_attr_bool(q->attr[1])};
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!anfi_group_open(&g, L, q, x, anfi_reduced_axes(q->attr[0], x->type->n))) return true;
  enum { MOST = 1 << 14 };
  uint32_t s = running(&g);
  bool staged = sums && anfi_t_is_half(anfi_low_dt(x->dtype)) && g.side == g.n &&
                g.size == g.extent[g.n - 1] && g.size <= MOST;
  texpr row = staged ? anfi_low_local(L, ANF_TIR_f64, g.size, "row") : to;
  const anf_type *t =
      staged ? anfi_type_tensor(L->cx, ANF_F64, q->type->n, q->type->dims) : q->type;
  anfi_group_begin(&g);
  texpr i = staged ? anfi_group_position(&g) : anfi_group_linear(&g);
  if (exclusive) put(&g, row, i, current(&g, true), t);
  step(&g, s);
  if (!exclusive) put(&g, row, i, current(&g, false), t);
  anfi_group_end(&g);
  if (staged) round_row(&g, row, to);
  anfi_group_close(&g);
  return true;
}

/* y[i] = b[i] + a[i] * y[i - 1]. */
static void scan_step(group *g, const anfi_view *a, texpr first) {
  tstore *t = g->L->t;
  anf_dtype d = (anf_dtype)g->q->type->dtype;
  tdtype w = g->type[0];
  anfi_pt p = anfi_pt_flat(anfi_group_linear(g), a->n);
  anfi_elem x = anfi_scalar_cast(g->L, anfi_view_at(g->L, a, &p), a->dtype, d);
  anfi_elem y = anfi_scalar_cast(g->L, anfi_group_x(g), g->x->dtype, d);
  texpr re = anfi_t_cast(t, w, y.re), xr = anfi_low_atom(g->L, anfi_t_cast(t, w, x.re)),
        old = anfi_group_get(g, 0);
  if (!x.im) {
    anfi_group_set(g, 0, anfi_t_select(t, first, re, anfi_t_add(t, re, anfi_t_mul(t, xr, old))));
    return;
  }
  texpr xi = anfi_low_atom(g->L, anfi_t_cast(t, w, x.im)), im = anfi_t_cast(t, w, y.im);
  texpr c = anfi_low_let(g->L, old, "c"), e = anfi_low_let(g->L, anfi_group_get(g, 1), "e");
  texpr pr = anfi_t_sub(t, anfi_t_mul(t, xr, c), anfi_t_mul(t, xi, e));
  texpr pi = anfi_t_add(t, anfi_t_mul(t, xr, e), anfi_t_mul(t, xi, c));
  anfi_group_set(g, 0, anfi_t_select(t, first, re, anfi_t_add(t, re, pr)));
  anfi_group_set(g, 1, anfi_t_select(t, first, im, anfi_t_add(t, im, pi)));
}

bool anfi_lower_linear_scan(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *type = q->type;
  size_t axis = 0;
  texpr to = anfi_low_result(L, q, 0, type);
  group g = {.reverse = anfi_attr_bool(q->attr[1])};
  anf_dtype d = (anf_dtype)type->dtype;
  bool complex = anfi_low_complex(d);
  tdtype w = complex || anfi_dtype_is_float(d) ? ANFI_F64 : ANFI_S64;
  out[0] = anfi_view_of_result(L, type, to);
  anfi_axis_in(anfi_attr_int(q->attr[0]), type->n, &axis);
  if (!anfi_group_open(&g, L, q, q->in[1], UINT32_C(1) << axis)) return true;
  for (int k = 0; k < (complex ? 2 : 1); k++) anfi_group_state(&g, w, anfi_low_const(L, w, 0), "y");
  anfi_group_begin(&g);
  texpr start = anfi_ix(L, g.reverse ? g.size - 1 : 0);
  scan_step(&g, q->in[0],
            anfi_low_let(L, anfi_t_bin(L->t, TX_cmp_eq, anfi_group_position(&g), start), "first"));
  anfi_elem e = {anfi_group_get(&g, 0), complex ? anfi_group_get(&g, 1) : NULL};
  put(&g, to, anfi_group_linear(&g), e, type);
  anfi_group_end(&g);
  anfi_group_close(&g);
  return true;
}
