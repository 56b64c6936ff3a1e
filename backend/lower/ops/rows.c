// SPDX-License-Identifier: Apache-2.0
/* Sums, products and maxima of rows by vectors, in an order that no machine and no thread changes: element k of a row of 64 or
 * more goes to partial result k mod 32, but that what is after the last multiple of 32 goes to the last of them; halves of the
 * partial results meet until one is left. Of 16 to 63 elements, or 8 to 15, it is k mod 16 or 8 in the same way.
 *   Sum(x: f32[128])   ->   p: f64 x 32 = x[0..32] + x[32..64] + x[64..96] + x[96..128]; y = the sum of p by halves
 * So many, because each waits for its last addition. Sums of 128 and more f32, f16, bf16 and parts of c64 are of fours of f32, in
 * 16 partial sums; one that is not finite, because of a four beyond f32, say, is taken again without them. A row that is computed
 * when read is written to an array first, by a loop of its own; a long one piece by piece, which is the same order. */
#include "backend/lower/ops/group.h"

enum {
  LANES = 32,
  FEW = 16,
  SHORT = 8,
  LEAST = 64,
  FOURS = 128,
  MAX_ROW = 1 << 14,
  PIECE = 1 << 12
};

/* Do groups go one by one, the elements along their last axis one after the other? */
static bool along(const group *g) {
  return g->n && g->side == g->n && g->inside[g->n - 1] && !g->reverse;
}

/* Short rows of f64 are summed as the interpreter does: nothing rounds the order away. */
bool anfi_rows_fit(const group *g) {
  if (!along(g) || !anfi_dtype_is_float(g->x->dtype)) return false;
  return g->extent[g->n - 1] >= (g->x->dtype == ANF_F64 ? LEAST : SHORT);
}

bool anfi_rows_arg_fit(const group *g) {
  return along(g) && g->size == g->extent[g->n - 1] && g->size >= SHORT && g->size <= INT32_MAX &&
         g->x->dtype != ANF_BOOL && !g->x->complex;
}

bool anfi_rows_short(uint64_t n) { return n >= SHORT && n < LEAST; }
static uint16_t lanes_of(uint64_t n) { return n >= LEAST ? LANES : n >= FEW ? FEW : SHORT; }

/* The type in which a maximum or minimum is compared: f32 for narrow floats. */
static tdtype compared(const group *g) {
  tdtype d = anfi_low_dt(g->x->dtype);
  return anfi_t_accumulator(d);
}

static tdtype wide(tdtype d, uint16_t lanes) {
  d.lanes = lanes;
  return d;
}

static texpr all(anfi_low *L, texpr x, uint16_t lanes) {
  return anfi_t_intrin(L->t, TI_broadcast, wide(x->dtype, lanes), 1, &x, (tattrs){0});
}

static texpr real(const group *g, double v) { return anfi_low_const(g->L, g->real, v); }

/* ---- elements ---- */

/* A row in memory: it begins at `base` of `tensor`. */
typedef struct row {
  texpr tensor, base;
} row;

/* Writes n elements of the row that is computed, from `from` (NULL: 0) on, to an array. */
static void fill_row(const group *g, texpr array, texpr from, uint64_t n) {
  anfi_low *L = g->L;
  anfi_pt p = {0};
  anfi_loop l;
  for (uint32_t k = 0; k + 1 < g->n; k++) anfi_pt_push(&p, g->at[k], g->extent[k]);
  anfi_low_loop(L, &l, n, "j");
  texpr at = from ? anfi_low_atom(L, anfi_ix_add(L, from, l.var)) : l.var;
  anfi_pt_push(&p, at, g->extent[g->n - 1]);
  anfi_low_put(L, array, l.var, anfi_view_at(L, g->x, &p), false);
  anfi_low_loop_end(L, &l);
}

static row row_of(const group *g) {
  anfi_low *L = g->L;
  anfi_pt p = {0};
  row r = {g->x->tensor, NULL};
  uint64_t n = g->extent[g->n - 1];
  for (uint32_t k = 0; k + 1 < g->n; k++) anfi_pt_push(&p, g->at[k], g->extent[k]);
  if (r.tensor) {
    r.base = anfi_low_atom(L, anfi_ix_mulc(L, anfi_pt_linear(L, &p), n));
    return r;
  }
  r.tensor = anfi_low_local(L, anfi_lower_elem(g->x->dtype), n, "row");
  r.base = anfi_ix(L, 0);
  fill_row(g, r.tensor, NULL, n);
  return r;
}

static texpr load(anfi_low *L, const row *r, texpr at, uint16_t lanes) {
  at = anfi_ix_add(L, r->base, at);
  return anfi_t_at(L->t, r->tensor, 1, &at, lanes, 0, NULL);
}

/* ---- facts about a row ---- */

enum { KNOWN_EXP = 64, KNOWN_EXP_SUM };

static uint64_t memo_key(const group *g, int what) {
  return anfi_hash_mix(anfi_hash_mix(g->x->id, (uint64_t)what), g->size);
}

/* Ops in a loop over rows (rowloop.c) see the same view of a row: each pass over it is made once. */
static texpr recall(const group *g, int what) {
  const anfi_low *L = g->L;
  uint64_t *at = anfi_map_find(&L->row_memo, memo_key(g, what));
  const anfi_row_memo *m = at ? (const anfi_row_memo *)(uintptr_t)*at : NULL;
  bool same = m && m->x == g->x && m->what == what && m->size == g->size;
  return same && m->depth < L->scope.n && L->scope.at[m->depth] == m->scope ? m->value : NULL;
}

static void keep(const group *g, int what, texpr value) {
  anfi_low *L = g->L;
  if (!anfi_rows_one(g)) return;
  anfi_row_memo *m = ANFI_NEW(L->a, anfi_row_memo);
  *m = (anfi_row_memo){g->x, what, g->size, L->scope.at[L->scope.n - 1], L->scope.n - 1, value};
  *anfi_map_at(&L->row_memo, memo_key(g, what)) = anfi_key(m);
}

/* ---- results ---- */

texpr anfi_low_half(anfi_low *L, texpr v, uint32_t from) {
  tstore *t = L->t;
  uint32_t n = v->dtype.lanes / 2u;
  texpr *in = ANFI_NEW_N(L->a, texpr, n + 2);
  tdtype d = v->dtype;
  d.lanes = (uint16_t)n;
  in[0] = in[1] = v;
  for (uint32_t k = 0; k < n; k++) in[2 + k] = anfi_t_s32(t, (int32_t)(from + k));
  return anfi_t_intrin(t, TI_shuffle, d, n + 2, in, (tattrs){0});
}

static bool is_sum(anfi_rows_op op) { return op == ROWS_SUM || op == ROWS_SQUARES; }
/* Is it computed in double, from this neutral element? Else it is compared. */
static bool is_real(anfi_rows_op op) { return is_sum(op) || op == ROWS_PRODUCT; }
static double neutral(anfi_rows_op op) { return op == ROWS_PRODUCT; }

static texpr meet(const group *g, anfi_rows_op op, texpr a, texpr b) {
  tstore *t = g->L->t;
  if (is_sum(op)) return anfi_t_add(t, a, b);
  if (op == ROWS_PRODUCT) return anfi_t_mul(t, a, b);
  if (op == ROWS_TOP) return anfi_t_select(t, anfi_t_bin(t, TX_cmp_gt, b, a), b, a);
  return anfi_t_select(t, anfi_group_beats(g, b, a, op == ROWS_MAX), b, a);
}

/* One element's part, of vectors and of scalars. */
static texpr part(const group *g, anfi_rows_op op, texpr x, texpr mean) {
  tstore *t = g->L->t;
  tdtype d = g->real;
  if (!is_real(op)) d = compared(g);
  d.lanes = x->dtype.lanes;
  x = anfi_t_cast(t, d, x);
  if (op != ROWS_SQUARES) return x;
  if (mean) x = anfi_t_sub(t, x, d.lanes > 1 ? all(g->L, mean, d.lanes) : mean);
  x = anfi_low_let(g->L, x, "d");
  return anfi_t_mul(t, x, x);
}

/* The bits of f16 but for the sign: those of NaN are the greatest. LLVM compares f16 that are seen to be
 * such one by one, so NaN is looked for among the bits. */
static texpr magnitude(anfi_low *L, texpr x) {
  tdtype d = wide(anfi_t_dt(ANF_TIR_u16), x->dtype.lanes);
  x = anfi_t_intrin(L->t, TI_reinterpret, d, 1, &x, (tattrs){0});
  return anfi_low_let(L, anfi_t_intrin2(L->t, TI_int_and, x, anfi_t_int(L->t, d, 0x7fff)), "m");
}

/* Extremes of vectors leave NaN aside, which `nan` has in the end. */
typedef struct extremes {
  bool bits; // NaN is looked for among the bits
  texpr nan;
} extremes;

static extremes open_extremes(const group *g, uint16_t lanes) {
  anfi_low *L = g->L;
  extremes x = {.bits = g->x->dtype == ANF_F16};
  texpr zero = anfi_low_const(L, x.bits ? anfi_t_dt(ANF_TIR_u16) : compared(g), 0);
  x.nan = anfi_low_var(L, wide(zero->dtype, lanes), "nan", all(L, zero, lanes));
  return x;
}

static void take_extremes(const group *g, anfi_rows_op op, const extremes *of, texpr e, texpr acc) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  texpr nan = of->nan;
  texpr x = anfi_low_let(L, part(g, op, e, NULL), "x"), m = of->bits ? magnitude(L, e) : NULL;
  texpr beats = anfi_t_bin(t, op == ROWS_MAX ? TX_cmp_gt : TX_cmp_lt, x, acc);
  anfi_low_set(L, acc, anfi_t_select(t, beats, x, acc));
  anfi_low_set(L, nan,
               m ? anfi_t_select(t, anfi_t_bin(t, TX_cmp_gt, m, nan), m, nan)
                 : anfi_t_select(t, anfi_t_bin(t, TX_cmp_ne, x, x), x, nan));
}

static void close_extremes(const group *g, const extremes *of, texpr acc) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  texpr nan = of->nan;
  texpr is = of->bits ? anfi_t_bin(t, TX_cmp_gt, nan, anfi_t_int(t, nan->dtype, 0x7c00))
                      : anfi_t_bin(t, TX_cmp_ne, nan, nan);
  if (of->bits) nan = all(L, anfi_low_const(L, compared(g), NAN), acc->dtype.lanes);
  anfi_low_set(L, acc, anfi_t_select(t, is, nan, acc));
}

static void open_outer(group *g) {
  for (uint32_t k = 0; k + 1 < g->n; k++) {
    if (!g->inside[k]) continue;
    anfi_low_loop(g->L, &g->loop[k], g->extent[k], "k");
    g->at[k] = g->loop[k].var;
  }
}

static void close_outer(group *g) {
  for (uint32_t k = g->n - 1; k-- > 0;)
    if (g->inside[k]) anfi_low_loop_end(g->L, &g->loop[k]);
}

/* Elements from `from` to n, one by one */
static void take_rest(group *g, anfi_rows_op op, row r, uint64_t from, uint64_t n, texpr s,
                      texpr mean) {
  anfi_low *L = g->L;
  anfi_loop l;
  if (from == n) return;
  anfi_low_loop_range(L, &l, anfi_ix(L, from), anfi_ix(L, n), 1, "k");
  texpr x = anfi_low_let(L, load(L, &r, l.var, 1), "x");
  anfi_low_set(L, s, meet(g, op, s, part(g, op, x, mean)));
  anfi_low_loop_end(L, &l);
}

/* Lanes from `from` on of x, the others `neutral`. */
static texpr lanes_from(const group *g, texpr x, uint64_t from, double neutral) {
  uint64_t on[LANES];
  uint16_t lanes = x->dtype.lanes;
  for (uint16_t k = 0; k < lanes; k++) on[k] = k >= from;
  texpr mask = anfi_t_bits(g->L->t, wide(ANFI_BOOL, lanes), lanes, on);
  return anfi_t_select(g->L->t, mask, x, all(g->L, real(g, neutral), lanes));
}

/* The vector that ends with the n elements of a row, of which those from `whole` on are not in `acc` yet. */
static void take_last(const group *g, anfi_rows_op op, row r, uint64_t whole, uint64_t n, texpr acc,
                      texpr mean) {
  anfi_low *L = g->L;
  uint16_t lanes = acc->dtype.lanes;
  if (whole == n) return;
  texpr x = anfi_low_let(L, load(L, &r, anfi_ix(L, n - lanes), lanes), "x");
  x = anfi_low_let(L, part(g, op, x, mean), "part");
  if (is_real(op)) x = lanes_from(g, x, lanes - (n - whole), neutral(op));
  anfi_low_set(L, acc, meet(g, op, acc, x));
}

/* A row of n elements: vectors to `acc`, fewer than one to `s`. */
static void take_row(group *g, anfi_rows_op op, row r, uint64_t n, texpr acc, texpr s, texpr mean) {
  anfi_low *L = g->L;
  anfi_loop l;
  uint64_t whole = n / LANES * LANES;
  bool extreme = op == ROWS_MAX || op == ROWS_MIN, last = whole && whole < n;
  extremes of = {0};
  if (extreme) of = open_extremes(g, LANES);
  anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), LANES, "k");
  texpr x = anfi_low_let(L, load(L, &r, l.var, LANES), "x");
  if (extreme) take_extremes(g, op, &of, x, acc);
  else anfi_low_set(L, acc, meet(g, op, acc, part(g, op, x, mean)));
  anfi_low_loop_end(L, &l);
  if (last && extreme)
    take_extremes(g, op, &of, anfi_low_let(L, load(L, &r, anfi_ix(L, n - LANES), LANES), "x"), acc);
  else if (last) take_last(g, op, r, whole, n, acc, mean);
  if (extreme) close_extremes(g, &of, acc);
  if (!whole) take_rest(g, op, r, 0, n, s, mean);
}

/* A row of no more than a few vectors: the last one ends with the row, and has only its last lanes where it begins before the
 * end of that before. */
static void take_short(group *g, anfi_rows_op op, row r, uint64_t n, texpr acc, texpr mean) {
  anfi_low *L = g->L;
  uint16_t lanes = acc->dtype.lanes;
  bool extreme = op == ROWS_MAX || op == ROWS_MIN;
  extremes of = {0};
  if (extreme) of = open_extremes(g, lanes);
  for (uint64_t k = 0; k < n; k += lanes) {
    uint64_t from = k + lanes <= n ? k : n - lanes;
    texpr x = anfi_low_let(L, load(L, &r, anfi_ix(L, from), lanes), "x");
    if (extreme) {
      take_extremes(g, op, &of, x, acc);
      continue;
    }
    x = anfi_low_let(L, part(g, op, x, mean), "part");
    if (from < k && is_real(op)) x = lanes_from(g, x, k - from, neutral(op));
    anfi_low_set(L, acc, meet(g, op, acc, x));
  }
  if (extreme) close_extremes(g, &of, acc);
}

/* The same of a long row that is computed when read. */
static void take_pieces(group *g, anfi_rows_op op, texpr acc, texpr s, texpr mean) {
  anfi_low *L = g->L;
  anfi_loop l;
  uint64_t n = g->extent[g->n - 1], whole = n / PIECE, rest = n % PIECE;
  row r = {anfi_low_local(L, anfi_lower_elem(g->x->dtype), PIECE, "piece"), anfi_ix(L, 0)};
  anfi_low_loop(L, &l, whole, "piece");
  fill_row(g, r.tensor, anfi_low_atom(L, anfi_ix_mulc(L, l.var, PIECE)), PIECE);
  take_row(g, op, r, PIECE, acc, s, mean);
  anfi_low_loop_end(L, &l);
  if (!rest) return;
  fill_row(g, r.tensor, anfi_ix(L, whole * PIECE), rest);
  take_row(g, op, r, rest, acc, s, mean);
}

/* What the partial results make, met with `s`. */
static void finish(group *g, anfi_rows_op op, texpr acc, texpr s) {
  anfi_low *L = g->L;
  texpr v = acc;
  for (uint32_t n = acc->dtype.lanes / 2u; n >= 1; n /= 2) {
    texpr a = anfi_low_let(L, anfi_low_half(L, v, 0), "a"),
          b = anfi_low_let(L, anfi_low_half(L, v, n), "b");
    v = anfi_low_let(L, meet(g, op, a, b), "h");
  }
  anfi_low_set(L, s, meet(g, op, s, v));
}

static uint32_t start(group *g, anfi_rows_op op, uint16_t lanes, texpr *acc, const char *name) {
  tdtype d = is_real(op) ? g->real : compared(g);
  texpr init = is_real(op)
                   ? anfi_low_const(g->L, d, neutral(op))
                   : anfi_t_cast(g->L->t, d, anfi_group_least(g->L, g->x->dtype, op != ROWS_MIN));
  uint32_t i = anfi_group_state(g, d, init, name);
  *acc = anfi_low_var(g->L, wide(d, lanes), "acc", all(g->L, init, lanes));
  return i;
}

bool anfi_rows_pairs_fit(const group *g) {
  return along(g) && g->x->dtype == ANF_C64 && g->x->tensor && g->extent[g->n - 1] >= LEAST / 2;
}

/* Is a group several rows? */
static bool has_outer(const group *g) {
  for (uint32_t k = 0; k + 1 < g->n; k++)
    if (g->inside[k]) return true;
  return false;
}

/* A row that is computed is there to be read twice; rows are not. */
bool anfi_rows_fours_fit(const group *g) {
  uint64_t n = along(g) ? g->extent[g->n - 1] : 0;
  bool narrow = anfi_dtype_is_float(g->x->dtype) && g->x->dtype != ANF_F64;
  if (!narrow || g->real.elem != ANF_TIR_f64 || recall(g, 2 * ROWS_SUM)) return false;
  return n >= FOURS && (g->x->tensor || (n <= MAX_ROW && !has_outer(g)));
}

/* Whole vectors of four times as many floats, which meet twice before they are numbers of double. */
static uint64_t take_fours(const group *g, row r, uint64_t n, texpr acc) {
  anfi_low *L = g->L;
  anfi_loop l;
  uint16_t four = 4 * FEW;
  uint64_t whole = n / four * four;
  anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), four, "k");
  texpr v = anfi_t_cast(L->t, wide(anfi_t_dt(ANF_TIR_f32), four), load(L, &r, l.var, four));
  v = anfi_low_let(L, v, "x");
  for (uint32_t k = four / 2u; k >= FEW; k /= 2)
    v = anfi_low_let(L, anfi_t_add(L->t, anfi_low_half(L, v, 0), anfi_low_half(L, v, k)), "h");
  anfi_low_set(L, acc, meet(g, ROWS_SUM, acc, part(g, ROWS_SUM, v, NULL)));
  anfi_low_loop_end(L, &l);
  return whole;
}

/* Adds a row of n numbers to acc: fours, if so, then vectors. */
static void add_row(const group *g, row r, uint64_t n, bool fours, texpr acc) {
  anfi_low *L = g->L;
  anfi_loop l;
  uint64_t from = fours ? take_fours(g, r, n, acc) : 0, whole = n / FEW * FEW;
  if (from < whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, from), anfi_ix(L, whole), FEW, "k");
    texpr x = part(g, ROWS_SUM, load(L, &r, l.var, FEW), NULL);
    anfi_low_set(L, acc, meet(g, ROWS_SUM, acc, x));
    anfi_low_loop_end(L, &l);
  }
  take_last(g, ROWS_SUM, r, whole, n, acc, NULL);
}

/* `computed`: the row, if it has been computed before; then what it is. */
static void add_rows(group *g, bool fours, uint32_t parts, const texpr *s, row *computed) {
  anfi_low *L = g->L;
  texpr acc = anfi_low_var(L, wide(g->real, FEW), "acc", all(L, real(g, 0), FEW)), v = acc;
  open_outer(g);
  row r = g->x->tensor || !computed->tensor ? row_of(g) : *computed;
  *computed = r;
  if (parts > 1) r.base = anfi_low_atom(L, anfi_ix_mulc(L, r.base, parts));
  add_row(g, r, parts * g->extent[g->n - 1], fours, acc);
  close_outer(g);
  for (uint32_t k = FEW / 2; k >= parts; k /= 2)
    v = anfi_low_let(L, meet(g, ROWS_SUM, anfi_low_half(L, v, 0), anfi_low_half(L, v, k)), "h");
  for (uint32_t k = 0; k < parts; k++)
    anfi_low_set(L, s[k], meet(g, ROWS_SUM, s[k], parts > 1 ? anfi_low_half(L, v, k) : v));
}

void anfi_rows_sum_fours(group *g, uint32_t parts, const uint32_t *state) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  texpr s[2] = {0}, finite = NULL;
  row computed = {0};
  bool fours = parts * g->extent[g->n - 1] >= FOURS && g->real.elem == ANF_TIR_f64;
  for (uint32_t k = 0; k < parts; k++) s[k] = g->state[state[k]];
  add_rows(g, fours, parts, s, &computed);
  if (!fours) return;
  for (uint32_t k = 0; k < parts; k++) {
    texpr size = anfi_t_intrin(t, TI_abs, g->real, 1, &s[k], (tattrs){0}),
          is = anfi_t_lt(t, size, real(g, INFINITY));
    finite = finite ? anfi_t_bin(t, TX_logic_and, finite, is) : is;
  }
  finite = anfi_low_let(L, finite, "finite");
  anfi_low_if(L);
  for (uint32_t k = 0; k < parts; k++) anfi_low_set(L, s[k], real(g, 0));
  add_rows(g, false, parts, s, &computed);
  anfi_low_if_end(L, anfi_t_not(t, finite));
}

/* The sum, and the sum of squared distances to the mean m, in one pass. Squares are of distances to the
 * first element f: those to m are less by n (m - f)^2, which is never more than n times as much, so
 * double has digits enough. */
static void both_sums(group *g, row r, texpr s, texpr q, texpr first) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  uint64_t n = g->size, whole = n / FEW * FEW;
  texpr sum = anfi_low_var(L, wide(g->real, FEW), "acc", all(L, real(g, 0), FEW)),
        square = anfi_low_var(L, wide(g->real, FEW), "acc", all(L, real(g, 0), FEW));
  anfi_loop l;
  for (int last = 0; last < 1 + (whole != n); last++) {
    uint64_t from = last ? n - FEW : 0, to = last ? n : whole;
    anfi_low_loop_range(L, &l, anfi_ix(L, from), anfi_ix(L, to), FEW, "k");
    texpr x = anfi_low_let(L, part(g, ROWS_SUM, load(L, &r, l.var, FEW), NULL), "x");
    texpr d = anfi_low_let(L, anfi_t_sub(t, x, all(L, first, FEW)), "d");
    if (last) {
      x = lanes_from(g, x, FEW - (n - whole), 0);
      d = anfi_low_let(L, lanes_from(g, d, FEW - (n - whole), 0), "d");
    }
    anfi_low_set(L, sum, anfi_t_add(t, sum, x));
    anfi_low_set(L, square,
                 anfi_t_intrin(t, TI_fmadd, d->dtype, 3, (texpr[]){d, d, square}, (tattrs){0}));
    anfi_low_loop_end(L, &l);
  }
  finish(g, ROWS_SUM, sum, s);
  finish(g, ROWS_SUM, square, q);
}

void anfi_rows_moments(group *g) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  enum { SUM = 2 * ROWS_SUM, SQUARES = 2 * ROWS_SQUARES + 1 };
  if (!anfi_rows_one(g) || recall(g, SUM) || recall(g, SQUARES)) return;
  row r = row_of(g);
  texpr s = anfi_low_var(L, g->real, "sum", real(g, 0)),
        q = anfi_low_var(L, g->real, "square", real(g, 0));
  texpr first = anfi_low_let(L, anfi_t_cast(t, g->real, load(L, &r, anfi_ix(L, 0), 1)), "first");
  both_sums(g, r, s, q, first);
  texpr n = real(g, (double)g->size);
  texpr off = anfi_low_let(L, anfi_t_sub(t, s, anfi_t_mul(t, n, first)), "off");
  texpr v = anfi_low_let(L, anfi_t_sub(t, q, anfi_t_bin(t, TX_div, anfi_t_mul(t, off, off), n)),
                         "square");
  keep(g, SUM, anfi_low_let(L, s, "sum"));
  keep(g, SQUARES,
       anfi_low_let(L, anfi_t_select(t, anfi_t_lt(t, v, real(g, 0)), real(g, 0), v), "square"));
}

uint32_t anfi_rows_reduce(group *g, anfi_rows_op op, texpr mean, const char *name) {
  texpr acc;
  uint64_t n = g->extent[g->n - 1];
  int what = 2 * (int)op + (mean != NULL);
  texpr known = recall(g, what);
  if (!known && op == ROWS_TOP) known = recall(g, 2 * (int)ROWS_MAX);
  if (known) return anfi_group_state(g, known->dtype, known, name);
  uint16_t lanes = lanes_of(n);
  uint32_t i = start(g, op, lanes, &acc, name);
  open_outer(g);
  if (n < LEAST) take_short(g, op, row_of(g), n, acc, mean);
  else if (!g->x->tensor && n > MAX_ROW) take_pieces(g, op, acc, g->state[i], mean);
  else take_row(g, op, row_of(g), n, acc, g->state[i], mean);
  close_outer(g);
  finish(g, op, acc, g->state[i]);
  keep(g, what, anfi_low_let(g->L, g->state[i], name));
  return i;
}

/* The first place of what is no other than `best`: the least of them, which needs no order. */
static texpr place_of(group *g, row r, texpr best) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  anfi_loop l;
  tdtype d = compared(g), n = anfi_t_bytes(d) > 4 ? ANFI_S64 : anfi_t_dt(ANF_TIR_s32);
  texpr size = anfi_t_int(t, n, (int64_t)g->size), at = anfi_low_var(L, n, "at", size);
  anfi_low_loop(L, &l, g->size, "k");
  texpr x = anfi_low_let(L, part(g, ROWS_MAX, load(L, &r, l.var, 1), NULL), "x");
  texpr hit = anfi_t_bin(t, TX_cmp_eq, x, best);
  if (anfi_t_is_float(d)) hit = anfi_t_bin(t, TX_logic_or, hit, anfi_t_bin(t, TX_cmp_ne, x, x));
  texpr k = anfi_low_let(L, anfi_t_select(t, hit, anfi_t_cast(t, n, l.var), size), "here");
  anfi_low_set(L, at, anfi_t_select(t, anfi_t_lt(t, k, at), k, at));
  anfi_low_loop_end(L, &l);
  return anfi_t_cast(t, ANFI_S64, at);
}

/* The same of a short row: the least of the places in each lane, and of the lanes. */
static texpr place_in_short(group *g, row r, texpr best, uint16_t lanes) {
  anfi_low *L = g->L;
  tstore *t = L->t;
  tdtype n = wide(anfi_t_dt(ANF_TIR_s32), lanes);
  texpr none = all(L, anfi_t_int(t, anfi_t_dt(ANF_TIR_s32), (int64_t)g->size), lanes),
        at = anfi_low_var(L, n, "at", none);
  best = all(L, best, lanes);
  for (uint64_t k = 0; k < g->size; k += lanes) {
    uint64_t from = k + lanes <= g->size ? k : g->size - lanes, places[FEW];
    for (uint16_t i = 0; i < lanes; i++) places[i] = from + i;
    texpr x = part(g, ROWS_MAX, load(L, &r, anfi_ix(L, from), lanes), NULL);
    x = anfi_low_let(L, x, "x");
    texpr hit = anfi_t_bin(t, TX_cmp_eq, x, best);
    if (anfi_t_is_float(x->dtype))
      hit = anfi_t_bin(t, TX_logic_or, hit, anfi_t_bin(t, TX_cmp_ne, x, x));
    texpr here = anfi_t_select(t, hit, anfi_t_bits(t, n, lanes, places), none);
    anfi_low_set(L, at, anfi_t_intrin2(t, TI_min, at, here));
  }
  texpr v = at;
  for (uint32_t k = lanes / 2u; k >= 1; k /= 2)
    v = anfi_low_let(L, anfi_t_intrin2(t, TI_min, anfi_low_half(L, v, 0), anfi_low_half(L, v, k)),
                     "h");
  return anfi_t_cast(t, ANFI_S64, v);
}

void anfi_rows_arg_before(anfi_low *L, const anfi_view *x, uint32_t mask) {
  uint64_t size = 1;
  for (size_t k = 0; k < x->type->n; k++)
    if (mask >> k & 1) size *= (uint64_t)x->type->dims[k];
  if (x->n && size > MAX_ROW) anfi_view_force(L, (anfi_view *)(uintptr_t)x);
}

void anfi_rows_arg(group *g, bool greatest) {
  anfi_low *L = g->L;
  anfi_rows_op op = greatest ? ROWS_MAX : ROWS_MIN;
  texpr acc;
  row r = row_of(g);
  bool few = anfi_rows_short(g->size);
  uint16_t lanes = lanes_of(g->size);
  uint32_t i = start(g, op, lanes, &acc, "best");
  if (few) take_short(g, op, r, g->size, acc, NULL);
  else take_row(g, op, r, g->size, acc, g->state[i], NULL);
  finish(g, op, acc, g->state[i]);
  texpr best = anfi_low_let(L, g->state[i], "best");
  texpr at = few ? place_in_short(g, r, best, lanes) : place_of(g, r, best);
  anfi_group_state(g, ANFI_S64, at, "at");
}

uint32_t anfi_rows_sum_positive(group *g, texpr array) {
  texpr acc, known = recall(g, KNOWN_EXP_SUM);
  row r = {array, anfi_ix(g->L, 0)};
  if (known) return anfi_group_state(g, known->dtype, known, "sum");
  uint32_t i = start(g, ROWS_SUM, FEW, &acc, "sum");
  add_row(g, r, g->size, true, acc);
  finish(g, ROWS_SUM, acc, g->state[i]);
  keep(g, KNOWN_EXP_SUM, anfi_low_let(g->L, g->state[i], "sum"));
  return i;
}

texpr anfi_rows_exp(group *g, uint32_t top) {
  anfi_low *L = g->L;
  tdtype f = anfi_t_dt(ANF_TIR_f32);
  texpr known = recall(g, KNOWN_EXP);
  if (known) return known;
  texpr m = anfi_low_let(L, anfi_t_cast(L->t, f, anfi_group_get(g, top)), "m");
  texpr e = anfi_low_local(L, ANF_TIR_f32, g->size, "e");
  anfi_group_begin(g);
  texpr x = anfi_low_atom(L, anfi_t_sub(L->t, anfi_group_x(g).re, m));
  texpr y = anfi_low_help(L, "anf_exp32_fall", f, 1, &x);
  anfi_low_put(L, e, anfi_group_position(g), (anfi_elem){y, NULL}, false);
  anfi_group_end(g);
  keep(g, KNOWN_EXP, e);
  return e;
}

/* exp(x - m) of `count` elements of a row, from `from` on, to the array e; vectors of it to `acc`, fewer than one to s. */
static void take_exp(group *g, row r, texpr from, uint64_t count, texpr m, texpr e, texpr acc,
                     texpr s) {
  anfi_low *L = g->L;
  anfi_loop l;
  uint64_t whole = count / LANES * LANES;
  row of = {e, anfi_ix(L, 0)};
  anfi_low_loop(L, &l, count, "k");
  texpr x = load(L, &r, anfi_ix_add(L, from, l.var), 1);
  x = anfi_low_atom(L, anfi_t_sub(L->t, x, m));
  texpr y = anfi_low_help(L, "anf_exp64", g->real, 1, &x);
  anfi_low_put(L, e, l.var, (anfi_elem){y, NULL}, false);
  anfi_low_loop_end(L, &l);
  anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), LANES, "k");
  anfi_low_set(L, acc, anfi_t_add(L->t, acc, load(L, &of, l.var, LANES)));
  anfi_low_loop_end(L, &l);
  if (whole) take_last(g, ROWS_SUM, of, whole, count, acc, NULL);
  else take_rest(g, ROWS_SUM, of, 0, count, s, NULL);
}

bool anfi_rows_sum_exp(group *g, uint32_t top, uint32_t *sum) {
  enum { BLOCK = 512 };
  anfi_low *L = g->L;
  texpr acc;
  anfi_loop l;
  if (!anfi_rows_fit(g) || g->x->dtype != ANF_F64 || g->x->complex) return false;
  uint64_t n = g->extent[g->n - 1], whole = n / BLOCK * BLOCK;
  if (!g->x->tensor && n > MAX_ROW) anfi_view_force(L, (anfi_view *)(uintptr_t)g->x);
  texpr m = anfi_low_let(L, anfi_group_get(g, top), "m"),
        e = anfi_low_local(L, ANF_TIR_f64, n < BLOCK ? n : BLOCK, "e");
  uint32_t i = start(g, ROWS_SUM, LANES, &acc, "sum");
  open_outer(g);
  row r = row_of(g);
  if (whole) {
    anfi_low_loop_range(L, &l, anfi_ix(L, 0), anfi_ix(L, whole), BLOCK, "k");
    take_exp(g, r, l.var, BLOCK, m, e, acc, g->state[i]);
    anfi_low_loop_end(L, &l);
  }
  if (whole != n) take_exp(g, r, anfi_ix(L, whole), n - whole, m, e, acc, g->state[i]);
  close_outer(g);
  finish(g, ROWS_SUM, acc, g->state[i]);
  *sum = i;
  return true;
}

texpr anfi_rows_exp64(group *g, uint32_t top, uint32_t *sum) {
  texpr acc;
  uint64_t n = g->extent[g->n - 1];
  if (!anfi_rows_fit(g) || g->x->dtype != ANF_F64 || g->size != n || n > MAX_ROW) return NULL;
  texpr m = anfi_low_let(g->L, anfi_group_get(g, top), "m"),
        e = anfi_low_local(g->L, ANF_TIR_f64, n, "e");
  *sum = start(g, ROWS_SUM, LANES, &acc, "sum");
  take_exp(g, row_of(g), anfi_ix(g->L, 0), n, m, e, acc, g->state[*sum]);
  finish(g, ROWS_SUM, acc, g->state[*sum]);
  return e;
}

bool anfi_rows_one(const group *g) {
  return anfi_rows_fit(g) && g->x->dtype == ANF_F32 && g->size >= LEAST &&
         g->size == g->extent[g->n - 1];
}
