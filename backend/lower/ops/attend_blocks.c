// SPDX-License-Identifier: Apache-2.0
/* Attention by kernels, in the type of its elements or in f32 if that is narrower, a block of queries at a time:
 *   Attention(q, k, v)   ->   s = k (scale q)ᵀ; s = e^(s - max of the column); y = sᵀ v / sums of the columns
 * Scores lie transposed, a row for each key, so that loops over the queries of a block are vectors and keys and values
 * are read as they lie, or as copies in f32. Scores of a block stay in the cache (Dao et al., FlashAttention). Sums of exponentials are
 * double. A causal block reads keys up to its last query, CHUNK at a time. */
#include "backend/lower/ops/attend.h"

enum { CHUNK = 64 }; // keys of one product

typedef struct block {
  const attend *a;
  anfi_low *L;
  tdtype dt;
  uint64_t n;       // queries
  texpr first;      // the first of them
  texpr chunks;     // of keys that are read, whole ones
  texpr has_rest;   // are those after the last whole chunk read? NULL: there are none, or always
  texpr keys;       // that are read
  texpr score, top; // [keys][queries], [queries]
} block;

static anf_tir_elem stored(const attend *a) {
  return anfi_lower_elem((anf_dtype)a->q->type->dtype);
}
static bool is_narrow(const attend *a) {
  return stored(a) == ANF_TIR_f16 || stored(a) == ANF_TIR_bf16;
}
/* What is computed in. */
static anf_tir_elem elem_of(const attend *a) { return is_narrow(a) ? ANF_TIR_f32 : stored(a); }

static bool is_plain(const anfi_view *v) { return v->tensor && v->kind == VIEW_BUFFER; }

static uint64_t rows_for(anf_tir_elem e, uint64_t l, uint64_t s, uint64_t d, uint64_t dv) {
  enum { MOST = 32, LEAST = 8, SCORES = 1 << 18, FEW_PRODUCTS = 1 << 15 };
  uint64_t rows = MOST, bytes = e == ANF_TIR_f64 ? 8 : 4;
  if (e != ANF_TIR_f32 && e != ANF_TIR_f64 && e != ANF_TIR_f16 && e != ANF_TIR_bf16) return 0;
  if (d < LEAST || dv < LEAST || l * s * d < FEW_PRODUCTS) return 0;
  while (rows > LEAST && rows * s * bytes > SCORES) rows /= 2;
  return rows < l ? rows : l;
}

uint64_t anfi_attend_rows(const attend *a) {
  if (!is_plain(a->query) || !is_plain(a->key) || !is_plain(a->value)) return 0;
  return rows_for(stored(a), a->l, a->s, a->d, a->dv);
}

uint64_t anfi_attend_rows_of(const anf_node *n) {
  const anf_type *q = n->in[0].def->type, *k = n->in[1].def->type, *v = n->in[2].def->type;
  return rows_for(anfi_lower_elem((anf_dtype)q->dtype), (uint64_t)q->dims[q->n - 2],
                  (uint64_t)k->dims[k->n - 2], (uint64_t)q->dims[q->n - 1],
                  (uint64_t)v->dims[v->n - 1]);
}

static void put(const block *b, texpr to, texpr i, texpr x) {
  anfi_low_put(b->L, to, anfi_low_atom(b->L, i), (anfi_elem){x, NULL}, false);
}
static texpr get(const block *b, texpr from, texpr i) {
  return anfi_low_load(b->L, from, anfi_low_atom(b->L, i));
}
static texpr constant(const block *b, double v) { return anfi_low_const(b->L, b->dt, v); }
static texpr bin(const block *b, tkind k, texpr x, texpr y) { return anfi_t_bin(b->L->t, k, x, y); }

/* to[i] = v, for n elements */
static void fill(const block *b, texpr to, uint64_t n, texpr v) {
  anfi_loop i;
  anfi_low_loop(b->L, &i, n, "i");
  put(b, to, i.var, v);
  anfi_low_loop_end(b->L, &i);
}

texpr anfi_attend_broken(const attend *a, texpr to, texpr first, uint64_t n) {
  anfi_low *L = a->L;
  block b = {.a = a, .L = L, .dt = anfi_t_dt(elem_of(a))};
  anfi_loop r, p;
  texpr start = anfi_attend_result(a, first);
  texpr zeros = anfi_low_local(L, elem_of(a), a->dv, "zeros"); // times 0, which is NaN for others
  fill(&b, zeros, a->dv, constant(&b, 0));
  anfi_low_loop(L, &r, n, "r");
  anfi_low_loop(L, &p, a->dv, "p");
  texpr at = anfi_ix_add(L, start, anfi_ix_add(L, anfi_ix_mulc(L, r.var, a->dv), p.var));
  texpr y = anfi_low_let(L, anfi_t_cast(L->t, b.dt, get(&b, to, at)), "y");
  put(&b, zeros, p.var,
      anfi_t_add(L->t, get(&b, zeros, p.var), anfi_t_mul(L->t, y, constant(&b, 0))));
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &r);
  texpr sum = anfi_low_var(L, b.dt, "sum", constant(&b, 0));
  anfi_low_loop(L, &p, a->dv, "p");
  anfi_low_set(L, sum, anfi_t_add(L->t, sum, get(&b, zeros, p.var)));
  anfi_low_loop_end(L, &p);
  return bin(&b, TX_cmp_ne, sum, constant(&b, 0));
}

static texpr element_at(const block *b, texpr tensor, texpr i) {
  i = anfi_low_atom(b->L, i);
  return anfi_t_addr(b->L->t, tensor, 1, &i);
}

static texpr widened(const attend *a, const anfi_view *x, uint64_t n) {
  anfi_low *L = a->L;
  anfi_loop j, p;
  block b = {.a = a, .L = L, .dt = anfi_t_dt(ANF_TIR_f32)};
  texpr to = anfi_low_local(L, ANF_TIR_f32, a->s * n, "wide");
  anfi_low_loop(L, &j, a->s, "j");
  anfi_low_loop(L, &p, n, "p");
  put(&b, to, anfi_ix_add(L, anfi_ix_mulc(L, j.var, n), p.var),
      anfi_attend_element(a, x, j.var, p.var, b.dt));
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &j);
  return to;
}

void anfi_attend_widen(attend *a) {
  if (!is_narrow(a)) return;
  a->wide_key = widened(a, a->key, a->d);
  a->wide_value = widened(a, a->value, a->dv);
}

/* The address of row `row` of the keys or values of the current batch. */
static texpr row_of(const block *b, const anfi_view *x, texpr row) {
  const attend *a = b->a;
  if (a->wide_key && x == a->key) return element_at(b, a->wide_key, anfi_ix_mulc(b->L, row, a->d));
  if (a->wide_value && x == a->value)
    return element_at(b, a->wide_value, anfi_ix_mulc(b->L, row, a->dv));
  anfi_pt p = anfi_attend_point(b->a, x, row, anfi_ix(b->L, 0));
  texpr i = anfi_low_atom(b->L, anfi_pt_linear(b->L, &p));
  return anfi_t_addr(b->L->t, x->tensor, 1, &i);
}

/* size: num, m, n, k, lda, ldb, ldc, stride a, stride b; num: instead of the first, or NULL */
static void product(const block *b, texpr x, texpr y, texpr to, const uint64_t *size, texpr num,
                    bool init, bool ta) {
  tstore *t = b->L->t;
  texpr in[BRGEMM_COUNT] = {x, y, to};
  tattrs attrs = {0};
  anfi_low_gemm_sizes(b->L, in, size);
  if (num) in[BRGEMM_num] = anfi_low_atom(b->L, anfi_t_cast(t, ANFI_S64, num));
  if (init) attrs = anfi_t_attr_set(t, attrs, TA_init, 1);
  if (ta) attrs = anfi_t_attr_set(t, attrs, TA_trans_a, 1);
  anfi_low_add(b->L, anfi_t_eval(t, anfi_t_brgemm(t, in, attrs)));
}

/* Which keys a causal block reads: chunks up to its last query. */
static void plan_keys(block *b) {
  anfi_low *L = b->L;
  uint64_t s = b->a->s, whole = s / CHUNK;
  b->chunks = anfi_ix(L, whole), b->keys = anfi_ix(L, s);
  if (!b->a->causal) return;
  texpr end = anfi_low_atom(L, anfi_ix_addc(L, b->first, (int64_t)b->n)),
        up = anfi_low_atom(L, anfi_ix_divc(L, anfi_ix_addc(L, end, CHUNK - 1), CHUNK));
  texpr all = bin(b, TX_cmp_lt, b->chunks, up); // more than are whole
  b->chunks = anfi_low_atom(L, anfi_t_select(L->t, all, b->chunks, up));
  b->has_rest = anfi_low_atom(L, all);
  b->keys =
      anfi_low_atom(L, anfi_t_select(L->t, all, anfi_ix(L, s), anfi_ix_mulc(L, b->chunks, CHUNK)));
}

/* Opens what runs if the keys after the last whole chunk are read; false if there are none. */
static bool open_rest(const block *b) {
  if (b->a->s % CHUNK == 0) return false;
  if (b->has_rest) anfi_low_if(b->L);
  return true;
}
static void close_rest(const block *b) {
  if (b->has_rest) anfi_low_if_end(b->L, b->has_rest);
}

/* score = k (scale q)ᵀ */
static void multiply_keys(const block *b, texpr q) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  anfi_loop c;
  uint64_t whole = a->s / CHUNK * CHUNK, rest = a->s - whole;
  texpr zero = anfi_ix(L, 0), query = element_at(b, q, zero);
  uint64_t size[] = {1, CHUNK, b->n, a->d, a->d, b->n, b->n, 0, 0};
  anfi_low_loop_range(L, &c, zero, b->chunks, 1, "c");
  texpr j = anfi_low_atom(L, anfi_ix_mulc(L, c.var, CHUNK));
  product(b, row_of(b, a->key, j), query, element_at(b, b->score, anfi_ix_mulc(L, j, b->n)), size,
          NULL, true, false);
  anfi_low_loop_end(L, &c);
  if (!open_rest(b)) return;
  size[1] = rest;
  product(b, row_of(b, a->key, anfi_ix(L, whole)), query,
          element_at(b, b->score, anfi_ix(L, whole * b->n)), size, NULL, true, false);
  close_rest(b);
}

/* y = scoreᵀ v */
static void multiply_values(const block *b, texpr y) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  uint64_t whole = a->s / CHUNK * CHUNK, rest = a->s - whole;
  texpr zero = anfi_ix(L, 0);
  uint64_t size[] = {1, b->n, a->dv, CHUNK, b->n, a->dv, a->dv, CHUNK * b->n, CHUNK * a->dv};
  if (whole)
    product(b, element_at(b, b->score, zero), row_of(b, a->value, zero), y, size, b->chunks, true,
            true);
  if (!open_rest(b)) return;
  size[3] = rest;
  product(b, element_at(b, b->score, anfi_ix(L, whole * b->n)),
          row_of(b, a->value, anfi_ix(L, whole)), y, size, NULL, !whole, true);
  close_rest(b);
}

/* scale qᵀ: parts of queries as rows */
static texpr copy_queries(const block *b) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  anfi_loop i;
  texpr q = anfi_low_local(L, elem_of(a), a->d * b->n, "q");
  anfi_pt from = anfi_attend_point(a, a->query, b->first, anfi_ix(L, 0));
  anfi_low_transpose(L, &(anfi_transposed){.elem = elem_of(a),
                                           .from = a->query->tensor,
                                           .from0 = anfi_low_atom(L, anfi_pt_linear(L, &from)),
                                           .from_ld = a->d,
                                           .rows = b->n,
                                           .cols = a->d,
                                           .to = q,
                                           .to0 = anfi_ix(L, 0),
                                           .to_ld = b->n});
  anfi_low_loop(L, &i, a->d * b->n, "i");
  put(b, q, i.var, anfi_t_mul(L->t, get(b, q, i.var), constant(b, a->scale)));
  anfi_low_loop_end(L, &i);
  return q;
}

/* For each key and query of the block, loops of their own for each step: so they are vectors. */
typedef struct pair {
  anfi_loop j, r;
  texpr at; // in scores
} pair;
static void open_pairs(const block *b, texpr from, pair *p) {
  anfi_low_loop_range(b->L, &p->j, from, b->keys, 1, "j");
  anfi_low_loop(b->L, &p->r, b->n, "r");
  p->at = anfi_low_atom(b->L, anfi_ix_add(b->L, anfi_ix_mulc(b->L, p->j.var, b->n), p->r.var));
}
static void close_pairs(const block *b, pair *p) {
  anfi_low_loop_end(b->L, &p->r);
  anfi_low_loop_end(b->L, &p->j);
}

/* Without a mask all queries of the block see the keys up to its first. */
static void mask_scores(const block *b) {
  anfi_low *L = b->L;
  pair p;
  open_pairs(b, b->a->mask ? anfi_ix(L, 0) : b->first, &p);
  texpr i = anfi_low_atom(L, anfi_ix_add(L, b->first, p.r.var));
  texpr x = anfi_low_let(L, get(b, b->score, p.at), "x");
  if (b->a->mask) x = anfi_attend_masked(b->a, x, i, p.j.var, b->dt);
  if (b->a->causal)
    x = anfi_t_select(L->t, bin(b, TX_cmp_lt, i, p.j.var), constant(b, -INFINITY), x);
  put(b, b->score, p.at, x);
  close_pairs(b, &p);
}

typedef texpr meeting(const block *b, texpr before, texpr score);

/* to[query] = the scores of a query, met from `init` on key by key, for some queries at a time in registers. */
static void meet_scores(const block *b, texpr to, texpr init, meeting *meet) {
  enum { MOST = 32 };
  anfi_low *L = b->L;
  tstore *t = L->t;
  anfi_loop j;
  tdtype d = init->dtype;
  d.lanes = MOST;
  for (uint64_t r = 0; r < b->n; r += d.lanes) {
    while (d.lanes > b->n - r) d.lanes /= 2;
    texpr first = d.lanes > 1 ? anfi_t_intrin(t, TI_broadcast, d, 1, &init, (tattrs){0}) : init;
    texpr acc = anfi_low_var(L, d, "acc", first), place = anfi_ix(L, r);
    anfi_low_loop_range(L, &j, anfi_ix(L, 0), b->keys, 1, "j");
    texpr at = anfi_ix_addc(L, anfi_ix_mulc(L, j.var, b->n), (int64_t)r);
    texpr x = anfi_low_let(L, anfi_t_at(t, b->score, 1, &at, d.lanes, 0, NULL), "x");
    anfi_low_set(L, acc, meet(b, acc, x));
    anfi_low_loop_end(L, &j);
    anfi_low_set(L, anfi_t_at(t, to, 1, &place, d.lanes, 0, NULL), acc);
  }
}

/* NaN may be left aside: its exponential is NaN, whatever the greatest score is. */
static texpr greater(const block *b, texpr top, texpr x) {
  return anfi_t_select(b->L->t, bin(b, TX_cmp_gt, x, top), x, top);
}

/* The greatest score of each query; 0 of those that may attend to nothing, whose exponentials are 0 then. */
static void find_greatest(const block *b) {
  anfi_low *L = b->L;
  anfi_loop r;
  texpr least = constant(b, -INFINITY);
  meet_scores(b, b->top, least, greater);
  anfi_low_loop(L, &r, b->n, "r");
  texpr top = anfi_low_let(L, get(b, b->top, r.var), "top");
  put(b, b->top, r.var, anfi_t_select(L->t, bin(b, TX_cmp_eq, top, least), constant(b, 0), top));
  anfi_low_loop_end(L, &r);
}

static texpr sum_of(const block *b, texpr sum, texpr x) {
  return anfi_t_add(b->L->t, sum, anfi_t_cast(b->L->t, sum->dtype, x));
}

/* Scores become exponentials; their sums. */
static texpr add_exponentials(const block *b) {
  anfi_low *L = b->L;
  pair p;
  open_pairs(b, anfi_ix(L, 0), &p);
  texpr x = anfi_t_sub(L->t, get(b, b->score, p.at), get(b, b->top, p.r.var));
  const char *exp = b->dt.elem == ANF_TIR_f32 ? "anf_exp32_fall" : "anf_exp64";
  put(b, b->score, p.at, anfi_low_help(L, exp, b->dt, 1, &x));
  close_pairs(b, &p);
  texpr sums = anfi_low_local(L, ANF_TIR_f64, b->n, "sums");
  meet_scores(b, sums, anfi_low_const(L, ANFI_F64, 0), sum_of);
  return sums;
}

/* Rows of y are divided by their sums, to be the result; of no sum they are zeros. `y` starts at `from`, `to` at `start`. */
static void divide(const block *b, texpr y, texpr from, texpr to, texpr start, texpr sums) {
  anfi_low *L = b->L;
  anfi_loop r, p;
  anfi_low_loop(L, &r, b->n, "r");
  texpr sum = anfi_low_let(L, get(b, sums, r.var), "sum"), zero = anfi_low_const(L, ANFI_F64, 0),
        part = anfi_t_select(L->t, bin(b, TX_cmp_eq, sum, zero), zero,
                             bin(b, TX_div, anfi_low_const(L, ANFI_F64, 1), sum)),
        w = anfi_low_let(L, anfi_t_cast(L->t, b->dt, part), "w");
  anfi_low_loop(L, &p, b->a->dv, "p");
  texpr at = anfi_low_atom(L, anfi_ix_add(L, anfi_ix_mulc(L, r.var, b->a->dv), p.var));
  texpr x = anfi_t_mul(L->t, get(b, y, anfi_ix_add(L, from, at)), w);
  put(b, to, anfi_ix_add(L, start, at), anfi_t_cast(L->t, anfi_t_dt(stored(b->a)), x));
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &r);
}

void anfi_attend_block(const attend *a, texpr to, texpr first, uint64_t n) {
  block b = {.a = a, .L = a->L, .dt = anfi_t_dt(elem_of(a)), .n = n, .first = first};
  texpr start = anfi_attend_result(a, first);
  b.score = anfi_low_local(a->L, elem_of(a), a->s * n, "scores");
  b.top = anfi_low_local(a->L, elem_of(a), n, "top");
  plan_keys(&b);
  multiply_keys(&b, copy_queries(&b));
  if (a->mask || a->causal) mask_scores(&b);
  find_greatest(&b);
  texpr sums = add_exponentials(&b);
  bool narrow = is_narrow(a);
  texpr y = narrow ? anfi_low_local(a->L, ANF_TIR_f32, n * a->dv, "y") : to;
  texpr from = narrow ? anfi_ix(a->L, 0) : start;
  multiply_values(&b, element_at(&b, y, from));
  divide(&b, y, from, to, start, sums);
}
