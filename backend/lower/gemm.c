// SPDX-License-Identifier: Apache-2.0
/* Matrix products of floats as blocked loops over brgemm.
 *
 *   for each block of rows, and group of panels of columns (parallel):
 *     for each block of K: copy the block of A, if that helps
 *       for each panel of the group: copy it of B, if that helps; brgemm
 *
 * A copied panel of B never leaves the first cache; it is copied again for each block of rows, which
 * are so many that it costs a hundredth.
 *
 * Each element of the result is one sum in ascending order of K in the type of the kernel, taken by
 * one thread: blocks and threads do not change it. */
#include "backend/lower/low.h"

typedef struct plan {
  anfi_low *L;
  const anfi_mm *q;
  anfi_blocks b;
  anf_tir_elem elem;                            // of kernels
  uint64_t panels, rest, blocks, groups, group; // full panels, columns left, of rows, of panels
  bool parallel;
  texpr to, to0; // where kernels write
  uint64_t ldc;
} plan;

enum { TASKS = 8, PARALLEL_MACS = 1 << 20 };

static texpr at(plan *p, texpr tensor, texpr i) {
  i = anfi_low_atom(p->L, i);
  return anfi_t_addr(p->L->t, tensor, 1, &i);
}
static texpr ix(const plan *p, uint64_t v) { return anfi_ix(p->L, v); }
static texpr add(const plan *p, texpr a, texpr b) { return anfi_ix_add(p->L, a, b); }
static texpr mulc(const plan *p, texpr a, uint64_t c) { return anfi_ix_mulc(p->L, a, c); }

static void copy(plan *p, texpr to, texpr i, texpr from, texpr k) {
  tdtype d = anfi_t_dt(p->elem);
  texpr x = anfi_t_cast(p->L->t, d, anfi_low_load(p->L, from, anfi_low_atom(p->L, k)));
  anfi_low_put(p->L, to, anfi_low_atom(p->L, i), (anfi_elem){x, NULL}, false);
}

/* ---- A ---- */

/* Where a block of A starts for kernels, and its leading dimension. */
typedef struct block {
  texpr tensor, at;
  uint64_t ld;
} block;

enum { LINE = 16 }; // elements behind each row, so that rows fall on different places

static block block_of_a(plan *p, texpr row, texpr k0, uint64_t rows, uint64_t kb) {
  const anfi_mm *q = p->q;
  texpr from =
      add(p, q->a0, q->ta ? add(p, mulc(p, k0, q->lda), row) : add(p, mulc(p, row, q->lda), k0));
  if (!p->b.pack_a) return (block){q->a, from, q->lda};
  anfi_loop i, j;
  uint64_t outer = q->ta ? kb : rows, inner = q->ta ? rows : kb, ld = inner + LINE;
  block r = {anfi_low_local(p->L, p->elem, outer * ld, "block"), ix(p, 0), ld};
  from = anfi_low_atom(p->L, from);
  anfi_low_loop(p->L, &i, outer, "i");
  anfi_low_loop(p->L, &j, inner, "j");
  copy(p, r.tensor, add(p, mulc(p, i.var, ld), j.var), q->a,
       add(p, from, add(p, mulc(p, i.var, q->lda), j.var)));
  anfi_low_loop_end(p->L, &j);
  anfi_low_loop_end(p->L, &i);
  return r;
}

/* ---- kernels ---- */

typedef struct call {
  block a;
  texpr row, col, k0;
  uint64_t m, n, k;
  bool first, last; // of the blocks of K
} call;

/* Columns of B for one block of K, [kb][nr] from [K][ldb] or [N][ldb], or where they are. */
static block block_of_b(plan *p, const call *c) {
  const anfi_mm *q = p->q;
  texpr from =
      add(p, q->b0,
          q->tb ? add(p, mulc(p, c->col, q->ldb), c->k0) : add(p, mulc(p, c->k0, q->ldb), c->col));
  if (!p->b.pack_b) return (block){q->b, from, q->ldb};
  anfi_loop k, j;
  block r = {anfi_low_local(p->L, p->elem, c->k * p->b.nr, "panel"), ix(p, 0), p->b.nr};
  from = anfi_low_atom(p->L, from);
  // neighbours are read, whichever way they are stored
  anfi_loop *outer = q->tb ? &j : &k, *inner = q->tb ? &k : &j;
  anfi_low_loop(p->L, outer, q->tb ? c->n : c->k, "i");
  anfi_low_loop(p->L, inner, q->tb ? c->k : c->n, "j");
  texpr at = q->tb ? add(p, mulc(p, j.var, q->ldb), k.var) : add(p, mulc(p, k.var, q->ldb), j.var);
  copy(p, r.tensor, add(p, mulc(p, k.var, p->b.nr), j.var), q->b, add(p, from, at));
  anfi_low_loop_end(p->L, inner);
  anfi_low_loop_end(p->L, outer);
  return r;
}

static void kernel(plan *p, const call *c) {
  anfi_low *L = p->L;
  const anfi_mm *q = p->q;
  texpr in[12 + TSLOT_COUNT], none = anfi_t_none(L->t);
  anfi_low_open(L);
  block b = block_of_b(p, c);
  in[0] = at(p, c->a.tensor, c->a.at);
  in[1] = at(p, b.tensor, b.at);
  in[2] = at(p, p->to, add(p, p->to0, add(p, mulc(p, c->row, p->ldc), c->col)));
  uint64_t size[] = {1, c->m, c->n, c->k, c->a.ld, b.ld, p->ldc, 0, 0};
  for (int i = 0; i < 9; i++) in[3 + i] = anfi_t_int(L->t, ANFI_S64, (int64_t)size[i]);
  for (int i = 0; i < TSLOT_COUNT; i++) in[12 + i] = none;
  tattrs a = {0};
  if (c->first) a = anfi_t_attr_set(L->t, a, TA_init, 1);
  if (q->ta) a = anfi_t_attr_set(L->t, a, TA_trans_a, 1);
  if (c->last && q->bias) {
    a = anfi_t_attr_set(L->t, a, TA_post_bias, 1);
    in[12 + TSLOT_bias] = at(p, q->bias, c->col);
  }
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_intrin(L->t, TI_brgemm, anfi_t_dt(ANF_TIR_void),
                                                  12 + TSLOT_COUNT, in, a)));
  anfi_low_add(L, anfi_low_close(L));
}

/* All panels of one group, for one block of rows and of K. Columns that fill no panel belong to the
 * last group. */
static void panels(plan *p, call *c, texpr group) {
  anfi_low *L = p->L;
  anfi_loop l;
  if (p->panels && p->groups == 1) anfi_low_loop(L, &l, p->panels, "p");
  else if (p->panels) {
    texpr b = anfi_low_atom(L, mulc(p, group, p->group)),
          e = anfi_low_atom(L, anfi_ix_addc(L, b, (int64_t)p->group)), most = ix(p, p->panels);
    if (p->panels % p->group)
      e = anfi_low_atom(L, anfi_t_select(L->t, anfi_t_lt(L->t, e, most), e, most));
    anfi_low_loop_range(L, &l, b, e, 1, "p");
  }
  if (p->panels) {
    c->n = p->b.nr;
    c->col = anfi_low_atom(L, mulc(p, l.var, p->b.nr));
    kernel(p, c);
    anfi_low_loop_end(L, &l);
  }
  if (!p->rest) return;
  if (p->groups > 1) anfi_low_if(L);
  c->n = p->rest;
  c->col = ix(p, p->panels * p->b.nr);
  kernel(p, c);
  if (p->groups > 1) anfi_low_if_end(L, anfi_t_bin(L->t, TX_cmp_eq, group, ix(p, p->groups - 1)));
}

static void step_of_k(plan *p, call c, texpr k0, uint64_t kb, texpr group) {
  c.k0 = k0;
  c.k = kb;
  anfi_low_open(p->L); // its block of A ends with it
  c.a = block_of_a(p, c.row, k0, c.m, kb);
  panels(p, &c, group);
  anfi_low_add(p->L, anfi_low_close(p->L));
}

/* The first block of K starts the sums, the last ends them; those between are a loop. */
static void rows(plan *p, texpr row, uint64_t m, texpr group) {
  uint64_t k = p->q->k, kb = p->b.kb, n = (k + kb - 1) / kb, last = k - (n - 1) * kb;
  call c = {.row = row, .m = m, .first = true, .last = n == 1};
  step_of_k(p, c, ix(p, 0), n == 1 ? last : kb, group);
  c.first = false;
  if (n > 2) {
    anfi_loop l;
    anfi_low_loop(p->L, &l, n - 2, "kb");
    step_of_k(p, c, anfi_low_atom(p->L, mulc(p, anfi_ix_addc(p->L, l.var, 1), kb)), kb, group);
    anfi_low_loop_end(p->L, &l);
  }
  c.last = true;
  if (n > 1) step_of_k(p, c, ix(p, (n - 1) * kb), last, group);
}

/* ---- tasks ---- */

static void tasks(plan *p) {
  anfi_low *L = p->L;
  anfi_loop l;
  uint64_t mb = p->b.mb, m = p->q->m, last = m - (p->blocks - 1) * mb;
  anfi_low_loop(L, &l, p->blocks * p->groups, "task");
  l.parallel = p->parallel && !l.none;
  texpr i = anfi_low_atom(L, anfi_ix_divc(L, l.var, p->groups)),
        group = anfi_low_atom(L, anfi_ix_modc(L, l.var, p->groups)),
        row = anfi_low_atom(L, mulc(p, i, mb));
  if (last == mb) rows(p, row, mb, group);
  else if (p->blocks == 1) rows(p, row, last, group);
  else {
    anfi_low_if(L);
    rows(p, row, mb, group);
    tstmt then_ = anfi_low_then(L);
    anfi_low_if(L);
    rows(p, row, last, group);
    anfi_low_if_else_end(L, anfi_t_lt(L->t, i, ix(p, p->blocks - 1)), then_);
  }
  anfi_low_loop_end(L, &l);
}

static bool narrow(anf_tir_elem e) { return e == ANF_TIR_f16 || e == ANF_TIR_bf16; }

static void cut(plan *p) {
  const anfi_mm *q = p->q;
  anfi_isa isa;
  p->elem = narrow(q->elem) ? ANF_TIR_f32 : q->elem;
  if (p->L->o.isa) isa = *p->L->o.isa;
  else anfi_isa_of("x86_64", "+avx2,+fma", &isa);
  anfi_product shape = {q->m,  q->n,  q->k,   (uint32_t)anfi_t_bytes(anfi_t_dt(p->elem)),
                        q->ta, q->tb, q->lda, q->ldb};
  p->b = anfi_blocks_pick(&isa, &shape);
  if (narrow(q->elem)) p->b.pack_a = p->b.pack_b = true;
  p->panels = q->n / p->b.nr;
  p->rest = q->n % p->b.nr;
  p->blocks = (q->m + p->b.mb - 1) / p->b.mb;
  p->parallel =
      p->L->o.parallel && !p->L->in_parallel && !q->serial && q->m * q->n >= PARALLEL_MACS / q->k;
  uint64_t want = p->parallel && p->blocks < TASKS ? (TASKS + p->blocks - 1) / p->blocks : 1;
  if (want > p->panels) want = p->panels ? p->panels : 1;
  p->group = p->panels ? (p->panels + want - 1) / want : 0;
  p->groups = p->panels ? (p->panels + p->group - 1) / p->group : 1;
}

bool anfi_low_gemm_wanted(const anfi_mm *q) {
  enum { FEW = 1 << 11 }; // products: less is not worth a kernel
  bool type = q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64 || narrow(q->elem);
  return type && q->k && q->m && q->n && q->m * q->n >= FEW / q->k;
}

/* B is stored by columns and A has few rows: with the roles exchanged, B is read as it is, and only
 * A, which is small, is copied. The result comes out by columns. */
static bool better_exchanged(const anfi_mm *q) { return q->tb && 2 * q->m <= q->n; }

static void exchanged(anfi_low *L, const anfi_mm *q) {
  anfi_mm x = *q;
  plan p = {.L = L};
  anfi_loop i, j;
  anfi_low_open(L);
  x.m = q->n, x.n = q->m;
  x.a = q->b, x.a0 = q->b0, x.lda = q->ldb, x.ta = false;
  x.b = q->a, x.b0 = q->a0, x.ldb = q->lda, x.tb = !q->ta;
  x.bias = NULL;
  x.c = anfi_low_local(L, q->elem, q->m * q->n, "columns");
  x.c0 = anfi_ix(L, 0), x.ldc = q->m;
  anfi_low_gemm(L, &x);
  anfi_low_loop(L, &i, q->m, "i");
  anfi_low_loop(L, &j, q->n, "j");
  texpr v = anfi_low_load(L, x.c, anfi_low_atom(L, add(&p, mulc(&p, j.var, q->m), i.var)));
  if (q->bias) v = anfi_t_add(L->t, v, anfi_low_load(L, q->bias, j.var));
  texpr to = add(&p, q->c0, add(&p, mulc(&p, i.var, q->ldc), j.var));
  anfi_low_put(L, q->c, anfi_low_atom(L, to), (anfi_elem){v, NULL}, false);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  anfi_low_add(L, anfi_low_close(L));
}

void anfi_low_gemm(anfi_low *L, const anfi_mm *q) {
  plan p = {.L = L, .q = q, .to = q->c, .to0 = q->c0, .ldc = q->ldc};
  anfi_loop i, j;
  if (better_exchanged(q) && !narrow(q->elem)) {
    exchanged(L, q);
    return;
  }
  cut(&p);
  anfi_low_open(L); // what is local to it ends with it
  if (narrow(q->elem)) {
    p.to = anfi_low_local(L, p.elem, q->m * q->n, "wide");
    p.to0 = ix(&p, 0);
    p.ldc = q->n;
  }
  tasks(&p);
  if (narrow(q->elem)) {
    anfi_low_loop(L, &i, q->m, "i");
    i.parallel = p.parallel && !i.none;
    anfi_low_loop(L, &j, q->n, "j");
    texpr x = anfi_low_load(L, p.to, anfi_low_atom(L, add(&p, mulc(&p, i.var, q->n), j.var)));
    texpr to = add(&p, q->c0, add(&p, mulc(&p, i.var, q->ldc), j.var));
    anfi_low_put(L, q->c, anfi_low_atom(L, to),
                 (anfi_elem){anfi_t_cast(L->t, anfi_t_dt(q->elem), x), NULL}, false);
    anfi_low_loop_end(L, &j);
    anfi_low_loop_end(L, &i);
  }
  anfi_low_add(L, anfi_low_close(L));
}
