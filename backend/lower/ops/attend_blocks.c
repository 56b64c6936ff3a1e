// SPDX-License-Identifier: Apache-2.0
/* Attention by kernels, in the type of its elements or in f32 if that is narrower, a block of queries at a time:
 *   Attention(q, k, v)   ->   s = k (scale q)ᵀ; s = e^(s - max of the column); y = sᵀ v / sums of the columns
 * Scores lie transposed, a row for each key, so that loops over the queries of a block are vectors and keys and values
 * are read as they lie, or as copies in f32. Scores of a block stay in the cache (Dao et al., FlashAttention). Sums of exponentials are
 * double. A causal block reads keys up to its last query, CHUNK at a time.
 * Where there is a dot product of bf16, keys of bf16 are read as they are, exponentials are rounded to bf16, and sᵀ v is made
 * as (vᵀ s)ᵀ: pairs of parts of a query, and of keys of a score, lie together then (VNNI layout).
 * Else narrow keys and values become f32 before they are multiplied: all of them once where several blocks read them, a
 * chunk at a time where one does, as in decoding. */
#include "backend/lower/gemm/plan.h"
#include "backend/lower/ops/attend.h"

enum { CHUNK = 64, WIDE_CHUNK = 16 }; // keys of one product, and where they become f32 first

typedef struct block {
  const attend *a;
  anfi_low *L;
  tdtype dt;
  bool dots;        // are products of bf16?
  uint64_t n;       // queries
  uint64_t chunk;   // keys of one product
  texpr first;      // the first of them
  texpr chunks;     // of keys that are read, whole ones
  texpr has_rest;   // are those after the last whole chunk read? NULL: there are none, or always
  texpr keys;       // that are read
  texpr score, top; // [keys][queries], [queries]
  texpr weight;     // `dots`: exponentials, [keys / 2][queries][2]
  texpr wide;       // room for a chunk of keys or values in f32; NULL: they are read as they are
} block;

static anf_tir_elem stored(const attend *a) {
  return anfi_lower_elem((anf_dtype)a->q->type->dtype);
}
static bool is_narrow(const attend *a) {
  return stored(a) == ANF_TIR_f16 || stored(a) == ANF_TIR_bf16;
}
/* What is computed in. */
static anf_tir_elem elem_of(const attend *a) { return is_narrow(a) ? ANF_TIR_f32 : stored(a); }

/* With fewer queries most lanes of the dot products would be idle. */
static bool has_dots(const attend *a) {
  enum { LEAST_QUERIES = 16 };
  anfi_isa isa = anfi_low_isa(a->L);
  anfi_gemm k = {.a = ANF_TIR_bf16, .b = ANF_TIR_bf16, .c = ANF_TIR_f32};
  return stored(a) == ANF_TIR_bf16 && a->l >= LEAST_QUERIES && a->d % 2 == 0 &&
         anfi_dot_group(&isa, &k) == 2;
}

static uint64_t rows_for(anf_tir_elem e, uint64_t l, uint64_t s, uint64_t d, uint64_t dv) {
  enum { MOST = 32, LEAST = 8, SCORES = 1 << 18, FEW_PRODUCTS = 1 << 15 };
  uint64_t rows = MOST, bytes = e == ANF_TIR_f64 ? 8 : 4;
  if (e != ANF_TIR_f32 && e != ANF_TIR_f64 && e != ANF_TIR_f16 && e != ANF_TIR_bf16) return 0;
  if (d < LEAST || dv < LEAST || l * s * d < FEW_PRODUCTS) return 0;
  while (rows > LEAST && rows * s * bytes > SCORES) rows /= 2;
  return rows < l ? rows : l;
}

uint64_t anfi_attend_rows(const attend *a) { return rows_for(stored(a), a->l, a->s, a->d, a->dv); }

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

/* to[i] = v, for n elements from `from` on */
static void fill(const block *b, texpr to, uint64_t from, uint64_t n, texpr v) {
  anfi_loop i;
  anfi_low_loop(b->L, &i, n, "i");
  put(b, to, anfi_ix_addc(b->L, i.var, (int64_t)from), v);
  anfi_low_loop_end(b->L, &i);
}

texpr anfi_attend_broken(const attend *a, texpr to, texpr first, uint64_t n) {
  anfi_low *L = a->L;
  block b = {.a = a, .L = L, .dt = anfi_t_dt(elem_of(a))};
  anfi_loop r, p;
  texpr start = anfi_attend_result(a, first);
  texpr zeros = anfi_low_local(L, elem_of(a), a->dv, "zeros"); // times 0, which is NaN for others
  fill(&b, zeros, 0, a->dv, constant(&b, 0));
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

/* A copy of keys or values of the current batch, of n parts. */
static texpr copied(const attend *a, const anfi_view *x, anf_tir_elem e, uint64_t n) {
  anfi_low *L = a->L;
  anfi_loop j, p;
  block b = {.a = a, .L = L, .dt = anfi_t_dt(e)};
  texpr to = anfi_low_local(L, e, a->s * n, "copy");
  anfi_low_loop(L, &j, a->s, "j");
  anfi_low_loop(L, &p, n, "p");
  put(&b, to, anfi_ix_add(L, anfi_ix_mulc(L, j.var, n), p.var),
      anfi_attend_element(a, x, j.var, p.var, b.dt));
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &j);
  return to;
}

/* vᵀ of the current batch */
static texpr turned(const attend *a) {
  anfi_low *L = a->L;
  texpr to = anfi_low_local(L, stored(a), a->s * a->dv, "turned"), zero = anfi_ix(L, 0);
  anfi_low_transpose(L,
                     &(anfi_transposed){.elem = stored(a),
                                        .from = a->values.tensor,
                                        .from0 = anfi_attend_place(a, a->value, &a->values, zero),
                                        .from_ld = a->values.ld,
                                        .rows = a->s,
                                        .cols = a->dv,
                                        .to = to,
                                        .to0 = zero,
                                        .to_ld = a->s});
  return to;
}

/* Several blocks read a copy of narrow elements, and of rows that are far apart in memory, which share few lines of the first cache. */
void anfi_attend_copy(attend *a, uint64_t rows) {
  bool dots = has_dots(a), wide = is_narrow(a) && !dots, often = a->l > rows;
  anf_tir_elem e = dots ? stored(a) : elem_of(a);
  if (often && (wide || a->keys.ld != a->d)) a->wide_key = copied(a, a->key, e, a->d);
  if (dots) a->turned_value = turned(a);
  else if (often && (wide || a->values.ld != a->dv)) a->wide_value = copied(a, a->value, e, a->dv);
}

static uint64_t key_ld(const block *b) {
  return b->wide || b->a->wide_key ? b->a->d : b->a->keys.ld;
}
static uint64_t value_ld(const block *b) {
  return b->wide || b->a->wide_value ? b->a->dv : b->a->values.ld;
}

/* n rows of x from `row` on, in the room for a chunk. */
static texpr widened(const block *b, const anfi_view *x, texpr row, uint64_t n, uint64_t parts) {
  anfi_low *L = b->L;
  anfi_loop j, p;
  anfi_low_loop(L, &j, n, "j");
  texpr from = anfi_low_atom(L, anfi_ix_add(L, row, j.var));
  anfi_low_loop(L, &p, parts, "p");
  put(b, b->wide, anfi_ix_add(L, anfi_ix_mulc(L, j.var, parts), p.var),
      anfi_attend_element(b->a, x, from, p.var, b->dt));
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &j);
  return element_at(b, b->wide, anfi_ix(L, 0));
}

/* The addresses of n rows, from `row` on, of the keys and the values of the current batch. */
static texpr keys_at(const block *b, texpr row, uint64_t n) {
  const attend *a = b->a;
  if (b->wide) return widened(b, a->key, row, n, a->d);
  if (a->wide_key) return element_at(b, a->wide_key, anfi_ix_mulc(b->L, row, a->d));
  return element_at(b, a->keys.tensor, anfi_attend_place(a, a->key, &a->keys, row));
}
static texpr values_at(const block *b, texpr row, uint64_t n) {
  const attend *a = b->a;
  if (b->wide) return widened(b, a->value, row, n, a->dv);
  if (a->wide_value) return element_at(b, a->wide_value, anfi_ix_mulc(b->L, row, a->dv));
  return element_at(b, a->values.tensor, anfi_attend_place(a, a->value, &a->values, row));
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
  if (b->dots) attrs = anfi_t_attr_set(t, attrs, TA_vnni_b, 1);
  else if (ta) attrs = anfi_t_attr_set(t, attrs, TA_trans_a, 1);
  anfi_low_add(b->L, anfi_t_eval(t, anfi_t_brgemm(t, in, attrs)));
}

/* Which keys a causal block reads: chunks up to its last query. */
static void plan_keys(block *b) {
  anfi_low *L = b->L;
  uint64_t s = b->a->s, whole = s / b->chunk;
  b->chunks = anfi_ix(L, whole), b->keys = anfi_ix(L, s);
  if (!b->a->causal) return;
  texpr end = anfi_low_atom(L, anfi_ix_addc(L, b->first, (int64_t)b->n)),
        up = anfi_low_atom(L,
                           anfi_ix_divc(L, anfi_ix_addc(L, end, (int64_t)b->chunk - 1), b->chunk));
  texpr all = bin(b, TX_cmp_lt, b->chunks, up); // more than are whole
  b->chunks = anfi_low_atom(L, anfi_t_select(L->t, all, b->chunks, up));
  b->has_rest = anfi_low_atom(L, all);
  b->keys = anfi_low_atom(
      L, anfi_t_select(L->t, all, anfi_ix(L, s), anfi_ix_mulc(L, b->chunks, b->chunk)));
}

/* Opens what runs if the keys after the last whole chunk are read; false if there are none. */
static bool open_rest(const block *b) {
  if (b->a->s % b->chunk == 0) return false;
  if (b->has_rest) anfi_low_if(b->L);
  return true;
}
static void close_rest(const block *b) {
  if (b->has_rest) anfi_low_if_end(b->L, b->has_rest);
}

/* score = k (scale q)ᵀ, without the scale if `dots` */
static void multiply_keys(const block *b, texpr q) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  anfi_loop c;
  uint64_t whole = a->s / b->chunk * b->chunk, rest = a->s - whole;
  texpr zero = anfi_ix(L, 0), query = element_at(b, q, zero);
  uint64_t size[] = {1, b->chunk, b->n, a->d, key_ld(b), b->n, b->n, 0, 0};
  anfi_low_loop_range(L, &c, zero, b->chunks, 1, "c");
  texpr j = anfi_low_atom(L, anfi_ix_mulc(L, c.var, b->chunk));
  product(b, keys_at(b, j, b->chunk), query, element_at(b, b->score, anfi_ix_mulc(L, j, b->n)),
          size, NULL, true, false);
  anfi_low_loop_end(L, &c);
  if (!open_rest(b)) return;
  size[1] = rest;
  product(b, keys_at(b, anfi_ix(L, whole), rest), query,
          element_at(b, b->score, anfi_ix(L, whole * b->n)), size, NULL, true, false);
  close_rest(b);
}

/* y += scoreᵀ v of n keys, from `from` on */
static void add_values(const block *b, texpr y, texpr from, uint64_t n) {
  uint64_t dv = b->a->dv, size[] = {1, b->n, dv, n, b->n, dv, dv, 0, 0};
  texpr values = values_at(b, from, n);
  texpr scores = element_at(b, b->score, anfi_ix_mulc(b->L, from, b->n));
  product(b, scores, values, element_at(b, y, anfi_ix(b->L, 0)), size, NULL, false, true);
}

/* y = scoreᵀ v, a chunk of values after the other */
static void multiply_widened(const block *b, texpr y) {
  anfi_loop c;
  uint64_t rest = b->a->s % b->chunk;
  fill(b, y, 0, b->n * b->a->dv, constant(b, 0));
  anfi_low_loop_range(b->L, &c, anfi_ix(b->L, 0), b->chunks, 1, "c");
  add_values(b, y, anfi_low_atom(b->L, anfi_ix_mulc(b->L, c.var, b->chunk)), b->chunk);
  anfi_low_loop_end(b->L, &c);
  if (!open_rest(b)) return;
  add_values(b, y, anfi_ix(b->L, b->a->s - rest), rest);
  close_rest(b);
}

/* y = scoreᵀ v; yᵀ if `dots` */
static void multiply_values(const block *b, texpr y) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  uint64_t whole = a->s / b->chunk * b->chunk, rest = a->s - whole;
  texpr x[2] = {NULL}, v[2] = {NULL}, at[2] = {anfi_ix(L, 0), anfi_ix(L, whole)};
  for (int k = whole ? 0 : 1; k < (rest ? 2 : 1); k++) {
    texpr row = anfi_ix_mulc(L, at[k], b->n);
    x[k] = b->dots ? element_at(b, a->turned_value, at[k]) : element_at(b, b->score, row);
    v[k] = b->dots ? element_at(b, b->weight, row) : values_at(b, at[k], 0);
  }
  uint64_t ld = value_ld(b),
           by_rows[] = {1, b->n, a->dv, b->chunk, b->n, ld, a->dv, b->chunk * b->n, b->chunk * ld},
           turned[] = {1, a->dv, b->n, b->chunk, a->s, b->n, b->n, b->chunk, b->chunk * b->n},
           *size = b->dots ? turned : by_rows;
  if (whole) product(b, x[0], v[0], y, size, b->chunks, true, true);
  if (!open_rest(b)) return;
  size[3] = rest;
  product(b, x[1], v[1], y, size, NULL, !whole, true);
  close_rest(b);
}

/* qᵀ: pairs of parts of queries as rows */
static texpr pair_queries(const block *b) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  anfi_loop r, p;
  texpr q = anfi_low_local(L, stored(a), a->d * b->n, "q");
  anfi_low_loop(L, &r, b->n, "r");
  anfi_low_loop(L, &p, a->d / 2, "p");
  texpr i = anfi_low_atom(L, anfi_ix_add(L, b->first, r.var)), from = anfi_ix_mulc(L, p.var, 2),
        to = anfi_ix_mulc(L, anfi_ix_add(L, anfi_ix_mulc(L, p.var, b->n), r.var), 2);
  for (int64_t u = 0; u < 2; u++) {
    texpr part = anfi_low_atom(L, anfi_ix_addc(L, from, u));
    texpr x = anfi_attend_element(a, a->query, i, part, anfi_t_dt(stored(a)));
    put(b, q, anfi_ix_addc(L, to, u), x);
  }
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &r);
  return q;
}

/* scale qᵀ: parts of queries as rows */
static texpr copy_queries(const block *b) {
  const attend *a = b->a;
  anfi_low *L = b->L;
  anfi_loop i;
  texpr q = anfi_low_local(L, elem_of(a), a->d * b->n, "q");
  texpr from = anfi_attend_place(a, a->query, &a->queries, b->first);
  anfi_low_transpose(L, &(anfi_transposed){.elem = elem_of(a),
                                           .from = a->queries.tensor,
                                           .from0 = from,
                                           .from_ld = a->queries.ld,
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

/* Scales scores that are not yet. Else, without a mask, all queries of the block see the keys up to its first. */
static void mask_scores(const block *b) {
  anfi_low *L = b->L;
  const attend *a = b->a;
  pair p;
  if (!a->mask && !a->causal && !b->dots) return;
  open_pairs(b, a->mask || b->dots ? anfi_ix(L, 0) : b->first, &p);
  texpr i = anfi_low_atom(L, anfi_ix_add(L, b->first, p.r.var));
  texpr x = anfi_low_let(L, get(b, b->score, p.at), "x");
  if (b->dots) x = anfi_low_let(L, anfi_t_mul(L->t, x, constant(b, a->scale)), "x");
  if (a->mask) x = anfi_attend_masked(a, x, i, p.j.var, b->dt);
  if (a->causal) x = anfi_t_select(L->t, bin(b, TX_cmp_lt, i, p.j.var), constant(b, -INFINITY), x);
  put(b, b->score, p.at, x);
  close_pairs(b, &p);
}

/* Queries from `first` on whose scores of a key are one vector, and a number for each, which starts from `init`. */
typedef struct queries {
  uint64_t first;
  uint16_t lanes;
  texpr acc;
} queries;
/* The next ones; false: there are no more. */
static bool next_queries(const block *b, queries *q, texpr init) {
  enum { MOST = 32 };
  tdtype d = init->dtype;
  q->first += q->lanes;
  if (q->first == b->n) return false;
  for (q->lanes = MOST; q->lanes > b->n - q->first;) q->lanes /= 2;
  d.lanes = q->lanes;
  if (d.lanes > 1) init = anfi_t_intrin(b->L->t, TI_broadcast, d, 1, &init, (tattrs){0});
  q->acc = anfi_low_var(b->L, d, "acc", init);
  return true;
}
static texpr vector_at(const block *b, texpr tensor, texpr i, uint64_t lanes) {
  i = anfi_low_atom(b->L, i);
  return anfi_t_at(b->L->t, tensor, 1, &i, (uint16_t)lanes, 0, NULL);
}
static texpr scores_of(const block *b, const queries *q, texpr key) {
  texpr at = anfi_ix_addc(b->L, anfi_ix_mulc(b->L, key, b->n), (int64_t)q->first);
  return anfi_low_let(b->L, vector_at(b, b->score, at, q->lanes), "x");
}

typedef texpr meeting(const block *b, texpr before, texpr score);

/* to[query] = the scores of a query, met from `init` on key by key. */
static void meet_scores(const block *b, texpr to, texpr init, meeting *meet) {
  anfi_low *L = b->L;
  anfi_loop j;
  queries q = {0};
  while (next_queries(b, &q, init)) {
    anfi_low_loop_range(L, &j, anfi_ix(L, 0), b->keys, 1, "j");
    anfi_low_set(L, q.acc, meet(b, q.acc, scores_of(b, &q, j.var)));
    anfi_low_loop_end(L, &j);
    anfi_low_set(L, vector_at(b, to, anfi_ix(L, q.first), q.lanes), q.acc);
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

static void take_exponentials(const block *b) {
  pair p;
  open_pairs(b, anfi_ix(b->L, 0), &p);
  texpr x = anfi_t_sub(b->L->t, get(b, b->score, p.at), get(b, b->top, p.r.var));
  const char *exp = b->dt.elem == ANF_TIR_f32 ? "anf_exp32_fall" : "anf_exp64";
  put(b, b->score, p.at, anfi_low_help(b->L, exp, b->dt, 1, &x));
  close_pairs(b, &p);
}

/* to[i] = x0, to[i + 1] = y0, to[i + 2] = x1, .. */
static void put_pairs(const block *b, texpr to, texpr i, texpr x, texpr y) {
  tdtype d = x->dtype;
  uint32_t n = d.lanes, k = 2;
  if (n == 1) {
    put(b, to, i, x), put(b, to, anfi_ix_addc(b->L, i, 1), y);
    return;
  }
  texpr *in = ANFI_NEW_N(b->L->a, texpr, 2 * n + 2);
  in[0] = x, in[1] = y;
  for (uint32_t from = 0; from < n; from++)
    for (uint32_t u = 0; u < 2; u++) in[k++] = anfi_t_s32(b->L->t, (int32_t)(from + u * n));
  d.lanes = (uint16_t)(2 * n);
  texpr v = anfi_t_intrin(b->L->t, TI_shuffle, d, 2 * n + 2, in, (tattrs){0});
  anfi_low_set(b->L, vector_at(b, to, i, 2 * n), v);
}

/* The weights that exponentials are in bf16, after an odd number of keys with one of 0; sums[query] is what they add to. */
static void pair_weights(block *b, texpr sums) {
  anfi_low *L = b->L;
  tdtype half = anfi_t_dt(stored(b->a));
  anfi_loop j;
  queries q = {0};
  uint64_t s = b->a->s;
  b->weight = anfi_low_local(L, half.elem, (s + s % 2) * b->n, "weights");
  if (s % 2) fill(b, b->score, s * b->n, b->n, constant(b, 0));
  texpr end = anfi_low_atom(L, anfi_ix_divc(L, anfi_ix_addc(L, b->keys, 1), 2));
  while (next_queries(b, &q, anfi_low_const(L, ANFI_F64, 0))) {
    texpr w[2];
    half.lanes = q.lanes;
    anfi_low_loop_range(L, &j, anfi_ix(L, 0), end, 1, "j");
    for (int64_t u = 0; u < 2; u++) {
      texpr e = scores_of(b, &q, anfi_ix_addc(L, anfi_ix_mulc(L, j.var, 2), u));
      w[u] = anfi_low_let(L, anfi_t_cast(L->t, half, e), "w");
      anfi_low_set(L, q.acc, sum_of(b, q.acc, anfi_t_cast(L->t, e->dtype, w[u])));
    }
    texpr at = anfi_ix_addc(L, anfi_ix_mulc(L, j.var, b->n), (int64_t)q.first);
    put_pairs(b, b->weight, anfi_ix_mulc(L, at, 2), w[0], w[1]);
    anfi_low_loop_end(L, &j);
    anfi_low_set(L, vector_at(b, sums, anfi_ix(L, q.first), q.lanes), q.acc);
  }
}

/* Scores become exponentials; their sums. */
static texpr add_exponentials(block *b) {
  texpr sums = anfi_low_local(b->L, ANF_TIR_f64, b->n, "sums");
  take_exponentials(b);
  if (b->dots) pair_weights(b, sums);
  else meet_scores(b, sums, anfi_low_const(b->L, ANFI_F64, 0), sum_of);
  return sums;
}

/* yᵀ of the block as y, in f32 */
static void turn_back(const block *b, texpr from, texpr to) {
  texpr zero = anfi_ix(b->L, 0);
  anfi_low_transpose(b->L, &(anfi_transposed){.elem = b->dt.elem,
                                              .from = from,
                                              .from0 = zero,
                                              .from_ld = b->n,
                                              .rows = b->a->dv,
                                              .cols = b->n,
                                              .to = to,
                                              .to0 = zero,
                                              .to_ld = b->a->dv});
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
  anfi_low *L = a->L;
  block b = {.a = a, .L = L, .dt = anfi_t_dt(elem_of(a)), .n = n, .first = first};
  texpr start = anfi_attend_result(a, first);
  b.dots = has_dots(a);
  b.score = anfi_low_local(L, elem_of(a), (a->s + b.dots) * n, "scores");
  b.top = anfi_low_local(L, elem_of(a), n, "top");
  b.chunk = CHUNK;
  if (is_narrow(a) && !b.dots && !a->wide_key) {
    b.chunk = WIDE_CHUNK;
    b.wide = anfi_low_local(L, elem_of(a), b.chunk * (a->d > a->dv ? a->d : a->dv), "wide");
  }
  plan_keys(&b);
  multiply_keys(&b, b.dots ? pair_queries(&b) : copy_queries(&b));
  mask_scores(&b);
  find_greatest(&b);
  texpr sums = add_exponentials(&b);
  bool narrow = is_narrow(a);
  texpr y = narrow ? anfi_low_local(L, ANF_TIR_f32, n * a->dv, "y") : to;
  texpr from = narrow ? anfi_ix(L, 0) : start;
  texpr turned = b.dots ? anfi_low_local(L, ANF_TIR_f32, n * a->dv, "turned") : NULL;
  if (b.wide) multiply_widened(&b, y);
  else multiply_values(&b, element_at(&b, b.dots ? turned : y, from));
  if (b.dots) turn_back(&b, turned, y);
  divide(&b, y, from, to, start, sums);
}
