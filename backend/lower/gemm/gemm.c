// SPDX-License-Identifier: Apache-2.0
/* Matrix products of floats as blocked loops over brgemm.
 *
 *   for each part of the rows, and team of groups of panels of columns (parallel):
 *     for each block of K: copy the rows of A, if that helps
 *       for each group of the team: copy it of B by panels, if that helps
 *         for each block of rows, for each panel of the group: brgemm
 *
 * A group is copied once for all rows of its task, so rows are cut only where columns do not suffice
 * for all threads. Where neither does, K is cut in slices, each of which is a task (slices.c).
 *
 * Each element of the result is one sum in ascending order of K in the type of the kernel, taken by
 * one thread, or as many as there are slices, which the shape alone decides: blocks and threads do not
 * change it. */
#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"

typedef struct plan {
  anfi_low *L;
  const anfi_mm *q;
  anfi_blocks b;
  anf_tir_elem ea, eb, es;      // that kernels read, and write
  uint64_t panels, rest;        // full ones, columns left
  uint64_t group, groups;       // panels of a group; the last one has the columns left, too
  uint64_t team, teams;         // groups of a task; tasks for all columns
  uint64_t blocks, each, parts; // of rows: all, those of a task; tasks for all rows
  uint64_t slices, slice;       // of K; steps of one, the last may have fewer
  bool parallel;
  bool piece;    // kernels write a panel that is read right behind
  bool wide;     // sums are of another type than the result, which is rounded once
  bool widened;  // A and B are of another type than what kernels read
  uint32_t word; // steps of K that lie together in B's panels
  bool sums;     // behind them are what kernels add up for signed A, of a fixed B
  bool by_k;     // kernels find A stored by K
  bool by_block; // A is stored by K, and each block of rows copied when it is needed, which is once
  texpr to, to0;
  uint64_t ldc;
  texpr packed; // B of which nothing changes, laid out before; or NULL
} plan;

enum { PARALLEL_MACS = 1 << 20 };

static texpr at(plan *p, texpr tensor, texpr i) {
  i = anfi_low_atom(p->L, i);
  return anfi_t_addr(p->L->t, tensor, 1, &i);
}
static texpr ix(const plan *p, uint64_t v) { return anfi_ix(p->L, v); }
static texpr add(const plan *p, texpr a, texpr b) { return anfi_ix_add(p->L, a, b); }
static texpr mulc(const plan *p, texpr a, uint64_t c) { return anfi_ix_mulc(p->L, a, c); }

static texpr least(plan *p, texpr a, texpr b) {
  texpr x = anfi_low_atom(p->L, a), y = anfi_low_atom(p->L, b);
  return anfi_low_atom(p->L, anfi_t_select(p->L->t, anfi_t_lt(p->L->t, x, y), x, y));
}

/* One element of the result, past all rounding. */
static void give(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr value) {
  plan p = {.L = L};
  if (q->each) {
    q->each(L, q, anfi_low_atom(L, i), anfi_low_atom(L, j), value);
    return;
  }
  texpr to = add(&p, q->c0, add(&p, mulc(&p, i, q->ldc), j));
  anfi_low_put(L, q->c, anfi_low_atom(L, to), (anfi_elem){value, NULL}, false);
}

void anfi_low_gemm_finish(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr v) {
  plan p = {.L = L};
  if (q->bias) v = anfi_t_add(L->t, v, anfi_t_cast(L->t, v->dtype, anfi_low_load(L, q->bias, j)));
  v = anfi_t_cast(L->t, anfi_t_dt(q->elem), v);
  if (q->rhs) {
    texpr at_c = add(&p, q->c0, add(&p, mulc(&p, i, q->ldc), j));
    v = anfi_t_add(L->t, v, anfi_low_load(L, q->rhs, anfi_low_atom(L, at_c)));
  }
  if (q->relu) v = anfi_low_max(L, anfi_low_atom(L, v), anfi_low_const(L, v->dtype, 0), true);
  give(L, q, i, j, v);
}

static void copy(plan *p, anf_tir_elem e, texpr to, texpr i, texpr from, texpr k) {
  texpr x = anfi_low_load(p->L, from, anfi_low_atom(p->L, k));
  x = anfi_t_cast(p->L->t, anfi_t_dt(e), x);
  anfi_low_put(p->L, to, anfi_low_atom(p->L, i), (anfi_elem){x, NULL}, false);
}

/* ---- A ---- */

/* Where kernels find a matrix: from `at` on, with this leading dimension. */
typedef struct block {
  texpr tensor, at;
  uint64_t ld;
} block;

enum { LINE = 16 }; // elements behind rows and panels, so that they fall on different places

typedef struct part { // what is a task's
  texpr slice;
  texpr group, last_group; // from here to there
  texpr block, last_block; // of rows
  texpr row, last_row;     // the same, rows
} part;

/* The last block of rows may be lower than others. */
static uint64_t last_rows(const plan *p) { return p->q->m - (p->blocks - 1) * p->b.mb; }

static texpr place_in_a(plan *p, texpr row, texpr k0) {
  const anfi_mm *q = p->q;
  return add(p, q->a0, q->ta ? add(p, mulc(p, k0, q->lda), row) : add(p, mulc(p, row, q->lda), k0));
}

/* `m` rows of A, which is stored by K, by rows: from `row` on as row `down` of the copy and on. */
static void turn_rows(plan *p, const block *to, texpr row, texpr down, uint64_t m, texpr k0,
                      uint64_t kb) {
  const anfi_mm *q = p->q;
  texpr from = anfi_low_atom(p->L, place_in_a(p, row, k0)),
        at = anfi_low_atom(p->L, mulc(p, down, to->ld));
  anfi_transposed x = {p->ea, q->a, to->tensor, from, at, kb, m, q->lda, to->ld};
  anfi_low_transpose(p->L, &x);
}

/* The same for all rows of the part. */
static void turn_part(plan *p, const part *t, const block *to, texpr k0, uint64_t kb) {
  anfi_low *L = p->L;
  anfi_loop i;
  if (p->parts == 1) {
    turn_rows(p, to, ix(p, 0), ix(p, 0), p->q->m, k0, kb);
    return;
  }
  anfi_low_loop_range(L, &i, t->block, t->last_block, 1, "m");
  texpr row = anfi_low_atom(L, mulc(p, i.var, p->b.mb)),
        down = anfi_low_atom(L, anfi_t_sub(L->t, row, t->row));
  anfi_low_if(L);
  turn_rows(p, to, row, down, p->b.mb, k0, kb);
  tstmt then_ = anfi_low_then(L);
  anfi_low_if(L);
  turn_rows(p, to, row, down, last_rows(p), k0, kb);
  anfi_low_if_else_end(L, anfi_t_lt(L->t, i.var, ix(p, p->blocks - 1)), then_);
  anfi_low_loop_end(L, &i);
}

/* The part's rows of A for one block of K. */
static block rows_of_a(plan *p, const part *t, texpr k0, uint64_t kb) {
  const anfi_mm *q = p->q;
  anfi_low *L = p->L;
  texpr from = anfi_low_atom(L, place_in_a(p, t->row, k0)), rows;
  if (!p->b.pack_a) return (block){q->a, from, q->lda};
  uint64_t most = p->by_block ? p->b.mb : p->each * p->b.mb, ld = (p->by_k ? most : kb) + LINE;
  anfi_loop i, j;
  block r = {anfi_low_local(L, p->ea, (p->by_k ? kb : most) * ld, "rows"), ix(p, 0), ld};
  if (q->ta && !p->by_k) {
    if (!p->by_block) turn_part(p, t, &r, k0, kb);
    return r;
  }
  rows = p->parts == 1 ? ix(p, q->m) : anfi_low_atom(L, anfi_t_sub(L->t, t->last_row, t->row));
  anfi_low_loop_range(L, &i, ix(p, 0), q->ta ? ix(p, kb) : rows, 1, "i");
  anfi_low_loop_range(L, &j, ix(p, 0), q->ta ? rows : ix(p, kb), 1, "j");
  copy(p, p->ea, r.tensor, add(p, mulc(p, i.var, ld), j.var), q->a,
       add(p, from, add(p, mulc(p, i.var, q->lda), j.var)));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  return r;
}

/* ---- B ---- */

/* A group of panels for one block of K. Those of a group are counted from 0; what fills no panel
 * comes last, behind the panels of the largest group. */
typedef struct slab {
  texpr group, first, count; // which; its first panel; how many, a constant if they are all alike
  texpr k0, nth;             // its block of K: where that starts, how many are before
  uint64_t k;
  texpr tensor; // NULL: they are not copied
} slab;

static uint64_t by_words(const plan *p, uint64_t k) { return anfi_mm_up(k, p->word) * p->word; }
static uint64_t panel_size(const plan *p, uint64_t k) { return by_words(p, k) * p->b.nr + LINE; }

static slab slab_of(plan *p, texpr group) {
  anfi_low *L = p->L;
  slab s = {.group = group, .first = ix(p, 0), .count = ix(p, p->panels)};
  if (p->groups == 1) return s;
  s.first = anfi_low_atom(L, mulc(p, group, p->group));
  s.count = ix(p, p->group);
  if (p->panels % p->group == 0) return s;
  s.count = least(p, anfi_t_sub(L->t, ix(p, p->panels), s.first), s.count);
  return s;
}

static void each_panel(plan *p, anfi_loop *l, const slab *s, const char *name) {
  anfi_low_loop_range(p->L, l, ix(p, 0), s->count, 1, name);
}

static texpr column(plan *p, const slab *s, texpr nth) {
  return anfi_low_atom(p->L, mulc(p, add(p, s->first, nth), p->b.nr));
}

/* Where B[k0, col] is. */
static texpr place_in_b(plan *p, const slab *s, texpr col) {
  const anfi_mm *q = p->q;
  return add(p, q->b0,
             q->tb ? add(p, mulc(p, col, q->ldb), s->k0) : add(p, mulc(p, s->k0, q->ldb), col));
}

/* Row `k` of words of `n` columns of a panel; of the words' steps so many are there. */
static void copy_words(plan *p, const slab *s, texpr to, texpr from, texpr k, uint64_t n,
                       uint64_t steps) {
  anfi_low *L = p->L;
  anfi_loop j;
  texpr row = anfi_low_atom(L, mulc(p, k, p->b.nr * p->word)),
        step = anfi_low_atom(L, mulc(p, k, p->word));
  anfi_low_loop(L, &j, n, "j");
  for (uint64_t u = 0; u < p->word; u++) {
    texpr at = add(p, to, add(p, row, anfi_ix_addc(L, mulc(p, j.var, p->word), (int64_t)u)));
    texpr b = mulc(p, anfi_ix_addc(L, step, (int64_t)u), p->q->ldb);
    if (u < steps) copy(p, p->eb, s->tensor, at, p->q->b, add(p, from, add(p, b, j.var)));
    else {
      anfi_elem zero = {anfi_low_const(L, anfi_t_dt(p->eb), 0), NULL};
      anfi_low_put(L, s->tensor, anfi_low_atom(L, at), zero, false);
    }
  }
  anfi_low_loop_end(L, &j);
}

/* The same of all panels but the rest. */
static void copy_row(plan *p, const slab *s, texpr from, texpr k, uint64_t steps) {
  anfi_loop i;
  each_panel(p, &i, s, "p");
  texpr to = anfi_low_atom(p->L, mulc(p, i.var, panel_size(p, s->k))),
        at = anfi_low_atom(p->L, add(p, from, mulc(p, i.var, p->b.nr)));
  copy_words(p, s, to, at, k, p->b.nr, steps);
  anfi_low_loop_end(p->L, &i);
}

/* Panels of B stored by rows: a row of all panels after the other, for rows are far apart. */
static void copy_rows(plan *p, const slab *s) {
  anfi_loop k;
  texpr from = anfi_low_atom(p->L, place_in_b(p, s, column(p, s, ix(p, 0))));
  uint64_t words = s->k / p->word, left = s->k % p->word;
  anfi_low_loop(p->L, &k, words, "k");
  copy_row(p, s, from, k.var, p->word);
  anfi_low_loop_end(p->L, &k);
  if (left) copy_row(p, s, from, ix(p, words), left);
}

/* `n` columns of B stored by columns; neighbours are read. */
static void turn_panel(plan *p, const slab *s, texpr to, texpr from, uint64_t n) {
  const anfi_mm *q = p->q;
  anfi_loop k, j;
  if (!p->widened) {
    anfi_transposed t = {p->eb, q->b, s->tensor, from, to, n, s->k, q->ldb, p->b.nr};
    anfi_low_transpose(p->L, &t);
    return;
  }
  anfi_low_loop(p->L, &j, n, "i");
  anfi_low_loop(p->L, &k, s->k, "j");
  copy(p, p->eb, s->tensor, add(p, to, add(p, mulc(p, k.var, p->b.nr), j.var)), q->b,
       add(p, from, add(p, mulc(p, j.var, q->ldb), k.var)));
  anfi_low_loop_end(p->L, &k);
  anfi_low_loop_end(p->L, &j);
}

static void copy_panel(plan *p, const slab *s, texpr nth, texpr col, uint64_t n) {
  anfi_loop k;
  texpr from = anfi_low_atom(p->L, place_in_b(p, s, col)),
        to = anfi_low_atom(p->L, mulc(p, nth, panel_size(p, s->k)));
  uint64_t words = s->k / p->word, left = s->k % p->word;
  if (p->q->tb) {
    turn_panel(p, s, to, from, n);
    return;
  }
  anfi_low_loop(p->L, &k, words, "i");
  copy_words(p, s, to, from, k.var, n, p->word);
  anfi_low_loop_end(p->L, &k);
  if (left) copy_words(p, s, to, from, ix(p, words), n, left);
}

/* The columns that fill no panel are of the last group. */
static void begin_rest(plan *p) {
  if (p->groups > 1) anfi_low_if(p->L);
}
static void end_rest(plan *p, const slab *s) {
  if (p->groups > 1)
    anfi_low_if_end(p->L, anfi_t_bin(p->L->t, TX_cmp_eq, s->group, ix(p, p->groups - 1)));
}

/* An element as kernels read it: they widen bf16 as they load it, f16 is widened here. */
static uint64_t fixed_at(const anfi_mm *q, uint64_t k, uint64_t j) {
  uint64_t bits = anfi_low_bits(q->fixed, q->tb ? j * q->ldb + k : k * q->ldb + j);
  if (q->elem != ANF_TIR_f16) return bits;
  float wide = anfi_f16_to_f32((uint16_t)bits);
  uint32_t word;
  memcpy(&word, &wide, sizeof word);
  return word;
}

/* Bytes of the word that follows a column of signed bytes: 128 times their sum. */
static void lay_sum(const plan *p, uint64_t *to, uint64_t k0, uint64_t kb, uint64_t j) {
  uint32_t sum = 0;
  for (uint64_t k = k0; k < k0 + kb; k++) sum += 128 * (uint32_t)(int8_t)fixed_at(p->q, k, j);
  for (int u = 0; u < 4; u++) to[u] = sum >> 8 * u & 255;
}

/* Steps of a panel as it is laid out, with those of the sums. */
static uint64_t laid_steps(const plan *p, uint64_t k) {
  return by_words(p, k) + (p->sums ? p->word : 0);
}

/* Columns `col` and on of a block of K, by words of steps; the last is filled with zeros. */
static uint64_t *lay_panel(const plan *p, uint64_t *to, uint64_t k0, uint64_t kb, uint64_t col,
                           uint64_t nr) {
  for (uint64_t k = 0; k < by_words(p, kb); k += p->word)
    for (uint64_t j = col; j < col + nr; j++)
      for (uint64_t u = k; u < k + p->word; u++) *to++ = u < kb ? fixed_at(p->q, k0 + u, j) : 0;
  for (uint64_t j = col; j < col + nr && p->sums; j++, to += p->word) lay_sum(p, to, k0, kb, j);
  return to;
}

/* Steps of the block that starts at k0: it ends with its slice, and with K. */
static uint64_t block_of_k(const plan *p, uint64_t k0) {
  uint64_t end = (k0 / p->slice + 1) * p->slice, left = (end < p->q->k ? end : p->q->k) - k0;
  return left < p->b.kb ? left : p->b.kb;
}

static anf_tir_elem laid_type(const plan *p) {
  return p->q->elem == ANF_TIR_bf16 ? p->q->elem : p->eb;
}
static uint64_t laid_size(const plan *p) {
  uint64_t blocks = p->slices * anfi_mm_up(p->slice, p->b.kb);
  return (by_words(p, p->q->k) + (p->sums ? blocks * p->word : 0)) * p->q->n;
}

/* A constant as the panels of all blocks of K, one behind the other: that of columns `col` and on
 * from step k0 on starts at (steps of the blocks before) * n + col * (steps of its block). */
static texpr laid_out(plan *p) {
  const anfi_mm *q = p->q;
  uint64_t *bits = ANFI_NEW_N(p->L->a, uint64_t, laid_size(p)), *at = bits;
  for (uint64_t k0 = 0, kb; k0 < q->k; k0 += kb) {
    kb = block_of_k(p, k0);
    for (uint64_t col = 0, nr; col < q->n; col += nr) {
      nr = q->n - col < p->b.nr ? q->n - col : p->b.nr;
      at = lay_panel(p, at, k0, kb, col, nr);
    }
  }
  return anfi_low_table(p->L, anfi_t_dt(laid_type(p)), (uint64_t)(at - bits), bits);
}

static void copy_slab(plan *p, slab *s) {
  anfi_loop i;
  if (!p->b.pack_b || p->packed) return;
  uint64_t n = p->group + (p->rest > 0);
  s->tensor = anfi_low_local(p->L, p->eb, n * panel_size(p, s->k), "panels");
  if (p->panels && !p->q->tb) copy_rows(p, s);
  else if (p->panels) {
    each_panel(p, &i, s, "p");
    copy_panel(p, s, i.var, column(p, s, i.var), p->b.nr);
    anfi_low_loop_end(p->L, &i);
  }
  if (!p->rest) return;
  begin_rest(p);
  copy_panel(p, s, ix(p, p->group), ix(p, p->panels * p->b.nr), p->rest);
  end_rest(p, s);
}

/* ---- kernels ---- */

typedef struct call {
  block a, b;           // a: of all rows of the part
  texpr row, col, down; // down: rows from the part's first
  uint64_t m, n, k;
  bool first, last; // of the blocks of K
} call;

/* The rows and columns of a call, when their sums are done. */
static void read_piece(plan *p, const call *c) {
  anfi_loop i, j;
  anfi_low *L = p->L;
  anfi_low_loop(L, &i, c->m, "i");
  anfi_low_loop(L, &j, c->n, "j");
  texpr row = p->piece ? i.var : add(p, c->row, i.var),
        col = p->piece ? j.var : add(p, c->col, j.var);
  texpr x = anfi_low_load(L, p->to, anfi_low_atom(L, add(p, mulc(p, row, p->ldc), col)));
  texpr at_col = anfi_low_atom(L, add(p, c->col, j.var));
  if (p->wide && p->q->bias)
    x = anfi_t_add(L->t, x, anfi_t_cast(L->t, x->dtype, anfi_low_load(L, p->q->bias, at_col)));
  give(L, p->q, add(p, c->row, i.var), at_col, anfi_t_cast(L->t, anfi_t_dt(p->q->elem), x));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

/* What the kernel does in registers when a sum is done. */
static tattrs after_sum(plan *p, const call *c, tattrs a, texpr *slot) {
  enum { ADD = 1 };
  const anfi_mm *q = p->q;
  tstore *t = p->L->t;
  if (q->bias && !p->wide) {
    a = anfi_t_attr_set(t, a, TA_post_bias, q->bias_in ? 2 : 1);
    slot[TSLOT_bias] = at(p, q->bias, c->col);
  }
  if (q->rhs) {
    a = anfi_t_attr_set(t, a, TA_post_binary, ADD);
    slot[TSLOT_binary_rhs] = at(p, q->rhs, add(p, q->c0, add(p, mulc(p, c->row, q->ldc), c->col)));
  }
  return q->relu ? anfi_t_attr_set(t, a, TA_post_relu, 1) : a;
}

static void kernel(plan *p, const call *c) {
  anfi_low *L = p->L;
  const anfi_mm *q = p->q;
  texpr in[12 + TSLOT_COUNT], none = anfi_t_none(L->t);
  texpr to = p->piece ? ix(p, 0) : add(p, p->to0, add(p, mulc(p, c->row, p->ldc), c->col));
  anfi_low_open(L);
  in[0] = at(p, c->a.tensor, add(p, c->a.at, mulc(p, c->down, p->by_k ? 1 : c->a.ld)));
  in[1] = at(p, c->b.tensor, c->b.at);
  in[2] = at(p, p->to, to);
  uint64_t size[] = {1, c->m, c->n, c->k, c->a.ld, c->b.ld, p->ldc, 0, 0};
  for (int i = 0; i < 9; i++) in[3 + i] = anfi_t_int(L->t, ANFI_S64, (int64_t)size[i]);
  for (int i = 0; i < TSLOT_COUNT; i++) in[12 + i] = none;
  tattrs a = {0};
  if (c->first) a = anfi_t_attr_set(L->t, a, TA_init, 1);
  if (p->by_k) a = anfi_t_attr_set(L->t, a, TA_trans_a, 1);
  if (p->word > 1) a = anfi_t_attr_set(L->t, a, TA_words_b, p->sums ? 2 : 1);
  if (c->last) a = after_sum(p, c, a, in + 12);
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_intrin(L->t, TI_brgemm, anfi_t_dt(ANF_TIR_void),
                                                  12 + TSLOT_COUNT, in, a)));
  if (c->last && (p->to != q->c)) read_piece(p, c);
  anfi_low_add(L, anfi_low_close(L));
}

static void panel(plan *p, call *c, const slab *s, texpr nth, texpr col, uint64_t n) {
  c->n = n, c->k = s->k, c->col = col;
  if (p->packed) {
    texpr before = s->k0; // steps of the blocks before
    if (p->sums) before = add(p, before, mulc(p, s->nth, p->word));
    c->b =
        (block){p->packed, add(p, mulc(p, before, p->q->n), mulc(p, col, laid_steps(p, s->k))), n};
    kernel(p, c);
    return;
  }
  c->b = s->tensor ? (block){s->tensor, mulc(p, nth, panel_size(p, s->k)), p->b.nr}
                   : (block){p->q->b, place_in_b(p, s, col), p->q->ldb};
  kernel(p, c);
}

/* All panels of a slab, for one block of rows. */
static void panels(plan *p, call *c, const slab *s) {
  anfi_loop l;
  if (p->panels) {
    each_panel(p, &l, s, "p");
    panel(p, c, s, l.var, column(p, s, l.var), p->b.nr);
    anfi_low_loop_end(p->L, &l);
  }
  if (!p->rest) return;
  begin_rest(p);
  panel(p, c, s, ix(p, p->group), ix(p, p->panels * p->b.nr), p->rest);
  end_rest(p, s);
}

/* ---- blocks ---- */

static void block_of_rows(plan *p, call c, const slab *s, const part *t, texpr nth, uint64_t m) {
  anfi_low *L = p->L;
  c.m = m;
  c.row = anfi_low_atom(L, mulc(p, nth, p->b.mb));
  c.down = p->parts == 1 ? c.row : anfi_low_atom(L, anfi_t_sub(L->t, c.row, t->row));
  if (p->by_block) {
    c.down = ix(p, 0);
    turn_rows(p, &c.a, c.row, c.down, m, s->k0, s->k);
  }
  panels(p, &c, s);
}

/* All rows of a task. */
static void blocks(plan *p, const call *c, const slab *s, const part *t) {
  anfi_low *L = p->L;
  anfi_loop i;
  uint64_t last = last_rows(p);
  if (p->blocks == 1) {
    block_of_rows(p, *c, s, t, ix(p, 0), last);
    return;
  }
  anfi_low_loop_range(L, &i, t->block, t->last_block, 1, "m");
  if (last == p->b.mb) block_of_rows(p, *c, s, t, i.var, last);
  else {
    anfi_low_if(L);
    block_of_rows(p, *c, s, t, i.var, p->b.mb);
    tstmt then_ = anfi_low_then(L);
    anfi_low_if(L);
    block_of_rows(p, *c, s, t, i.var, last);
    anfi_low_if_else_end(L, anfi_t_lt(L->t, i.var, ix(p, p->blocks - 1)), then_);
  }
  anfi_low_loop_end(L, &i);
}

/* Block `nth` of a slice. */
static void step_of_k(plan *p, call c, const part *t, texpr nth, uint64_t kb) {
  anfi_low *L = p->L;
  anfi_loop g;
  texpr k0 = anfi_low_atom(L, add(p, mulc(p, t->slice, p->slice), mulc(p, nth, p->b.kb)));
  anfi_low_open(L); // its copies end with it
  c.a = rows_of_a(p, t, k0, kb);
  if (p->team == 1) anfi_low_open(L);
  else anfi_low_loop_range(L, &g, t->group, t->last_group, 1, "g");
  slab s = slab_of(p, p->team == 1 ? t->group : g.var);
  s.k0 = k0, s.k = kb;
  s.nth = add(p, mulc(p, t->slice, anfi_mm_up(p->slice, p->b.kb)), nth);
  copy_slab(p, &s);
  blocks(p, &c, &s, t);
  if (p->team == 1) anfi_low_add(L, anfi_low_close(L));
  else anfi_low_loop_end(L, &g);
  anfi_low_add(L, anfi_low_close(L));
}

/* The first block of K starts the sums, the last ends them, unless those of other slices are to come;
 * the blocks between are a loop. */
static void steps_of_k(plan *p, const part *t, uint64_t k) {
  uint64_t kb = p->b.kb, n = anfi_mm_up(k, kb), last = k - (n - 1) * kb;
  bool whole = p->slices == 1;
  call c = {.first = true, .last = whole && n == 1};
  step_of_k(p, c, t, ix(p, 0), n == 1 ? last : kb);
  c.first = false;
  if (n > 2) {
    anfi_loop l;
    anfi_low_loop(p->L, &l, n - 2, "kb");
    step_of_k(p, c, t, anfi_low_atom(p->L, anfi_ix_addc(p->L, l.var, 1)), kb);
    anfi_low_loop_end(p->L, &l);
  }
  c.last = whole;
  if (n > 1) step_of_k(p, c, t, ix(p, n - 1), last);
}

/* The last slice may be shorter than others. */
static void slice_of_k(plan *p, const part *t) {
  anfi_low *L = p->L;
  uint64_t last = p->q->k - (p->slices - 1) * p->slice;
  if (last == p->slice) {
    steps_of_k(p, t, last);
    return;
  }
  anfi_low_if(L);
  steps_of_k(p, t, p->slice);
  tstmt then_ = anfi_low_then(L);
  anfi_low_if(L);
  steps_of_k(p, t, last);
  anfi_low_if_else_end(L, anfi_t_lt(L->t, t->slice, ix(p, p->slices - 1)), then_);
}

/* ---- tasks ---- */

/* Range number i of those that cut n things, `each` at a time. */
static void range(plan *p, texpr i, uint64_t n, uint64_t each, texpr *first, texpr *end) {
  *first = ix(p, 0), *end = ix(p, n);
  if (each >= n) return;
  *first = anfi_low_atom(p->L, mulc(p, i, each));
  *end = anfi_low_atom(p->L, anfi_ix_addc(p->L, *first, (int64_t)each));
  if (n % each) *end = least(p, *end, ix(p, n));
}

/* The last rows may be few: threads, which do tasks behind one another, get some of each. */
static part part_of(plan *p, texpr nth) {
  part t = {.slice = ix(p, 0)};
  uint64_t tasks = p->parts * p->teams;
  if (p->slices > 1) {
    t.slice = anfi_low_atom(p->L, anfi_ix_divc(p->L, nth, tasks));
    nth = anfi_low_atom(p->L, anfi_ix_modc(p->L, nth, tasks));
  }
  range(p, anfi_low_atom(p->L, anfi_ix_divc(p->L, nth, p->parts)), p->groups, p->team, &t.group,
        &t.last_group);
  range(p, anfi_low_atom(p->L, anfi_ix_modc(p->L, nth, p->parts)), p->blocks, p->each, &t.block,
        &t.last_block);
  t.row = anfi_low_atom(p->L, mulc(p, t.block, p->b.mb));
  t.last_row = ix(p, p->q->m);
  if (p->parts > 1) t.last_row = least(p, mulc(p, t.last_block, p->b.mb), t.last_row);
  return t;
}

static void tasks(plan *p) {
  anfi_loop l;
  anfi_low_loop(p->L, &l, p->slices * p->parts * p->teams, "task");
  l.parallel = p->parallel && !l.none;
  if (p->piece) p->to = anfi_low_local(p->L, p->es, p->b.mb * p->b.nr, "piece");
  part t = part_of(p, l.var);
  if (p->slices > 1) p->to0 = anfi_low_atom(p->L, mulc(p, t.slice, p->q->m * p->q->n));
  slice_of_k(p, &t);
  anfi_low_loop_end(p->L, &l);
}

/* Columns first: rows that are cut copy B again. */
static void share(plan *p) {
  const anfi_mm *q = p->q;
  p->parallel = p->L->o.parallel && !p->L->in_parallel && !q->serial &&
                (p->slices > 1 || q->m * q->n >= PARALLEL_MACS / q->k);
  p->panels = q->n / p->b.nr;
  p->rest = q->n % p->b.nr;
  p->blocks = anfi_mm_up(q->m, p->b.mb);
  p->group = p->b.group;
  uint64_t want = p->parallel ? anfi_mm_up(ANFI_LOW_TASKS, p->slices) : 1; // tasks
  if (want > 1 && p->panels > 1 && anfi_mm_up(p->panels, p->group) < want)
    p->group = anfi_mm_up(p->panels, want);
  p->groups = p->panels ? anfi_mm_up(p->panels, p->group) : 1;
  p->team = anfi_mm_up(p->groups, want);
  p->teams = anfi_mm_up(p->groups, p->team);
  want = anfi_mm_up(want, p->teams);
  p->each = anfi_mm_up(p->blocks, want < p->blocks ? want : p->blocks);
  p->parts = anfi_mm_up(p->blocks, p->each);
}

static anfi_isa isa_of(const anfi_low *L) {
  anfi_isa isa;
  if (L->o.isa) return *L->o.isa;
  anfi_isa_of("x86_64", "+avx2,+fma", &isa);
  return isa;
}

static bool is_laid(const anfi_low *L, const anfi_mm *q) {
  return q->fixed || (L->o.plans && L->o.plans->laid);
}

static anfi_mm_shape shape_of(const anfi_low *L, const anfi_mm *q) {
  bool laid = is_laid(L, q);
  return (anfi_mm_shape){q->elem, q->bytes_a, q->bytes_b, q->m, q->n, q->k, q->ta, q->tb, laid};
}

static anfi_mm_types types_of(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = isa_of(L);
  anfi_mm_shape s = shape_of(L, q);
  return anfi_mm_types_of(&isa, &s);
}

static anfi_mm_plan plan_of(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = isa_of(L);
  anfi_mm_shape s = shape_of(L, q);
  anfi_mm_plan p = anfi_mm_plan_of(&isa, &s);
  if (L->o.plans) L->o.plans->find(L->o.plans->user, &s, &p);
  return p;
}

bool anfi_low_gemm_cuts_k(const anfi_low *L, const anfi_mm *q) { return plan_of(L, q).b.kb < q->k; }

bool anfi_low_gemm_rounds(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = isa_of(L);
  anfi_mm_types t = types_of(L, q);
  return q->elem == ANF_TIR_bf16 && t.a == q->elem && t.b == q->elem &&
         anfi_words_of(&isa, t.a, t.b, t.sum) > 1 && !anfi_low_gemm_cuts_k(L, q);
}

/* By these blocks, which are those of q as it stands. */
static void cut(plan *p, const anfi_blocks *b) {
  const anfi_mm *q = p->q;
  anfi_mm_types t = types_of(p->L, q);
  p->ea = t.a, p->eb = t.b, p->es = t.sum;
  p->b = *b;
  bool dots = p->eb != p->es; // no step of K alone is read of A: it lies by rows
  if (anfi_low_gemm_rounds(p->L, q)) p->es = q->elem;
  p->wide = p->es != q->elem;
  p->widened = anfi_mm_is_narrow(q->elem) && p->eb != q->elem;
  if (p->widened) p->b.pack_a = p->b.pack_b = true;
  anfi_isa isa = isa_of(p->L);
  bool fixed = is_laid(p->L, q), laid = fixed || (p->b.pack_b && !q->tb);
  p->word = laid ? anfi_words_of(&isa, p->ea, p->eb, p->es) : 1;
  p->sums = fixed && p->word == 4 && p->ea == ANF_TIR_s8 && p->eb == p->ea;
  if (dots && q->ta) p->b.pack_a = true;
  p->slice = anfi_mm_slice(q->m, q->n, q->k);
  p->slices = anfi_mm_up(q->k, p->slice);
  p->by_k = q->ta && !dots && (p->widened || !p->b.pack_a);
  share(p);
  p->by_block = q->ta && !p->by_k && p->team == 1;
  p->piece = (p->wide || q->each) && q->k <= p->b.kb;
}

bool anfi_low_gemm_wanted(const anfi_mm *q) {
  enum { FEW = 1 << 11 }; // products: less is not worth a kernel
  bool type =
      q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64 || anfi_mm_is_narrow(q->elem) || q->bytes_a;
  return type && q->k && q->m && q->n && q->m * q->n >= FEW / q->k;
}

/* `m` rows from `first` on, of which `columns` are the sums by columns: turned, then followed. */
static void some_rows(anfi_low *L, const anfi_mm *q, texpr columns, texpr first, uint64_t m) {
  anfi_loop i, j;
  texpr rows = anfi_low_local(L, q->elem, m * q->n, "rows");
  anfi_transposed t = {q->elem, columns, rows, first, anfi_ix(L, 0), q->n, m, q->m, q->n};
  anfi_low_transpose(L, &t);
  anfi_low_loop(L, &i, m, "i");
  anfi_low_loop(L, &j, q->n, "j");
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, i.var, q->n), j.var),
        row = anfi_low_atom(L, anfi_ix_add(L, first, i.var));
  anfi_low_gemm_finish(L, q, row, j.var, anfi_low_load(L, rows, anfi_low_atom(L, at)));
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

/* The result of all rows. */
static void by_rows(anfi_low *L, const anfi_mm *q, texpr columns) {
  enum { ROWS = 16, PARALLEL_ELEMENTS = 1 << 15 };
  anfi_loop l;
  if (!q->bias && !q->rhs && !q->relu && !q->each) {
    anfi_transposed t = {q->elem, columns, q->c, anfi_ix(L, 0), q->c0, q->n, q->m, q->m, q->ldc};
    anfi_low_transpose(L, &t);
    return;
  }
  uint64_t whole = q->m / ROWS, left = q->m % ROWS;
  if (whole) {
    anfi_low_loop(L, &l, whole, "m");
    l.parallel = L->o.parallel && !L->in_parallel && !q->serial && !l.none &&
                 q->m * q->n >= PARALLEL_ELEMENTS;
    some_rows(L, q, columns, anfi_low_atom(L, anfi_ix_mulc(L, l.var, ROWS)), ROWS);
    anfi_low_loop_end(L, &l);
  }
  if (left) some_rows(L, q, columns, anfi_ix(L, whole * ROWS), left);
}

/* ---- B that a loop reads in each round ---- */

enum { KEPT_BYTES = 4 << 20, NEAR_ROWS = 256 };

/* Rows of B that are apart fall on the same places of the first cache, and those of a panel do not
 * stay there; with many rows of A panels are copied in any case. */
static bool is_worth_keeping(const plan *p) {
  const anfi_mm *q = p->q;
  uint64_t bytes = anfi_t_bytes(anfi_t_dt(p->eb));
  return !q->tb && !q->fixed && !p->wide && !p->b.pack_b && p->panels > 1 && q->k <= p->b.kb &&
         q->ldb * bytes >= NEAR_ROWS && q->k * q->n * bytes <= KEPT_BYTES;
}

/* Columns `col` and on of all rows, as `laid_out` has them. */
static void keep_panel(plan *p, texpr to, texpr col, uint64_t n) {
  const anfi_mm *q = p->q;
  anfi_loop k, j;
  texpr at = anfi_low_atom(p->L, mulc(p, col, q->k));
  anfi_low_loop(p->L, &k, q->k, "k");
  anfi_low_loop(p->L, &j, n, "j");
  copy(p, p->eb, to, add(p, at, add(p, mulc(p, k.var, n), j.var)), q->b,
       add(p, col, add(p, mulc(p, k.var, q->ldb), j.var)));
  anfi_low_loop_end(p->L, &j);
  anfi_low_loop_end(p->L, &k);
}

void anfi_low_gemm_keep(anfi_low *L, const anfi_mm *q) {
  plan p = {.L = L, .q = q};
  anfi_loop l;
  anfi_mm_plan best = plan_of(L, q);
  if (best.exchanged) return;
  cut(&p, &best.b);
  if (!is_worth_keeping(&p)) return;
  anfi_laid one = {.b = q->b, .n = q->n, .k = q->k, .ldb = q->ldb, .nr = p.b.nr};
  one.panels = anfi_low_local(L, p.eb, q->k * q->n, "panels");
  anfi_low_loop(L, &l, p.panels, "p");
  keep_panel(&p, one.panels, anfi_low_atom(L, mulc(&p, l.var, p.b.nr)), p.b.nr);
  anfi_low_loop_end(L, &l);
  if (p.rest) keep_panel(&p, one.panels, ix(&p, p.panels * p.b.nr), p.rest);
  anfi_push(L->a, &L->laid, one);
}

void anfi_low_gemm_forget(anfi_low *L, size_t kept) { L->laid.n = kept; }

static texpr kept(const plan *p) {
  const anfi_mm *q = p->q;
  if (q->tb || !anfi_t_is_const(q->b0, 0) || p->b.pack_b) return NULL;
  for (size_t i = p->L->laid.n; i-- > 0;) {
    const anfi_laid *l = &p->L->laid.at[i];
    if (l->b == q->b && l->n == q->n && l->k == q->k && l->ldb == q->ldb && l->nr == p->b.nr)
      return l->panels;
  }
  return NULL;
}

static void by_blocks(anfi_low *L, const anfi_mm *q, const anfi_blocks *b) {
  plan p = {.L = L, .q = q, .to = q->c, .to0 = q->c0, .ldc = q->ldc};
  cut(&p, b);
  p.packed = q->fixed ? laid_out(&p) : kept(&p);
  anfi_low_open(L); // what is local to it ends with it
  if (!q->fixed && is_laid(L, q))
    p.packed = anfi_low_part(L, q->b, laid_type(&p), ix(&p, 0), laid_size(&p));
  if (p.piece) p.ldc = p.b.nr;
  else if (p.wide || q->each || p.slices > 1) {
    p.to = anfi_low_local(L, p.es, p.slices * q->m * q->n, "sums");
    p.to0 = ix(&p, 0);
    p.ldc = q->n;
  }
  tasks(&p);
  if (p.slices > 1) anfi_low_add_slices(L, q, p.to);
  anfi_low_add(L, anfi_low_close(L));
}

static void exchanged(anfi_low *L, const anfi_mm *q, const anfi_blocks *b) {
  anfi_mm x = *q;
  anfi_low_open(L);
  x.m = q->n, x.n = q->m; // as anfi_mm_exchanged
  x.a = q->b, x.a0 = q->b0, x.lda = q->ldb, x.ta = !q->tb;
  x.b = q->a, x.b0 = q->a0, x.ldb = q->lda, x.tb = !q->ta;
  x.fixed = NULL, x.bias = x.rhs = NULL, x.each = NULL, x.relu = false;
  x.c = anfi_low_local(L, q->elem, q->m * q->n, "columns");
  x.c0 = anfi_ix(L, 0), x.ldc = q->m;
  by_blocks(L, &x, b);
  by_rows(L, q, x.c);
  anfi_low_add(L, anfi_low_close(L));
}

void anfi_low_gemm(anfi_low *L, const anfi_mm *q) {
  if (anfi_low_dots_suit(q)) {
    anfi_low_dots(L, q);
    return;
  }
  anfi_mm_plan best = plan_of(L, q);
  if (best.exchanged) exchanged(L, q, &best.b);
  else by_blocks(L, q, &best.b);
}
