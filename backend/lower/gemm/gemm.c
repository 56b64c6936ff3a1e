// SPDX-License-Identifier: Apache-2.0
/* Matrix products of floats (and of bytes, summed in i32) as blocked loops over brgemm.
 *
 *   y = x @ w          64 x 64: one call of the kernel, brgemm(x, w, y, m = 64, n = 64, k = 64)
 *   y = Relu(x @ w+b)  the same; bias and Relu are its epilogue, in registers
 *
 * A product that exceeds the caches is cut as in BLIS (Van Zee and van de Geijn) and oneDNN's brgemm matmul:
 *
 *   for each task: a range of rows and a team of groups of panels of columns (parallel)
 *     for each block of K: pack the rows of A, if that helps
 *       for each group of the team: pack its panels of B, if that helps
 *         for each cache block of rows, for each panel of the group: brgemm
 *
 * A group is packed once for all rows of its task, so rows are cut only where columns do not suffice for all
 * threads. Where neither does, K is cut too: each slice is a task of its own (split_k.c).
 *
 * The hard cases: `x @ w.T` with few rows of x computes the transposed product, whose operands are swapped, so that
 * w is read as stored; sums of another type than the result (bf16 by way of f32) and epilogues that no kernel has
 * need a buffer for sums, one register panel if K is a single block.
 *
 * INVARIANT: an element of the result is one sum in ascending order of K in the type of the kernel, taken by one
 * thread; or one for each slice, which the shape alone decides. Blocks and threads change no bit. */
#include "backend/lower/gemm/block.h"

static texpr address(gemm *p, texpr tensor, texpr i) {
  i = atom(p, i);
  return anfi_t_addr(p->L->t, tensor, 1, &i);
}

static texpr least(gemm *p, texpr a, texpr b) {
  texpr x = atom(p, a), y = atom(p, b);
  return atom(p, anfi_t_select(p->L->t, anfi_t_lt(p->L->t, x, y), x, y));
}

/* ---- calls of the kernel ---- */

void anfi_low_gemm_sizes(anfi_low *L, texpr *in, const uint64_t *size) {
  for (uint32_t i = BRGEMM_num; i <= BRGEMM_stride_b; i++)
    in[i] = anfi_t_int(L->t, ANFI_S64, (int64_t)size[i - BRGEMM_num]);
}

typedef struct call {
  /* operands */
  gemm_matrix a, b;     // a: all rows of the task
  texpr row, col, down; // down: rows from the task's first
  /* the block */
  uint64_t m, n, k;
  bool first, last; // of the blocks of K
} call;

/* The part of the epilogue that the kernel applies in registers, as attributes and operands. */
static tattrs kernel_epilogue(gemm *p, const call *c, tattrs a, texpr *in) {
  enum { ADD = 1 };
  const anfi_mm *q = p->q;
  tstore *t = p->L->t;
  if (q->bias && !p->wide) {
    a = anfi_t_attr_set(t, a, TA_post_bias, q->bias_in_sum ? 2 : 1);
    in[BRGEMM_bias] = address(p, q->bias, c->col);
  }
  if (q->rhs) {
    a = anfi_t_attr_set(t, a, TA_post_binary, ADD);
    in[BRGEMM_rhs] = address(p, q->rhs, add(p, q->c0, add(p, mulc(p, c->row, q->ldc), c->col)));
  }
  return q->relu ? anfi_t_attr_set(t, a, TA_post_relu, 1) : a;
}

static void call_kernel(gemm *p, const call *c) {
  anfi_low *L = p->L;
  texpr in[BRGEMM_COUNT] = {NULL};
  bool tile = p->sums == SUMS_IN_TILE;
  texpr to = tile ? ix(p, 0) : add(p, p->to0, add(p, mulc(p, c->row, p->to_ld), c->col));
  anfi_low_open(L);
  in[BRGEMM_A] =
      address(p, c->a.tensor, add(p, c->a.at, mulc(p, c->down, is_by_k(p) ? 1 : c->a.ld)));
  in[BRGEMM_B] = address(p, c->b.tensor, c->b.at);
  in[BRGEMM_C] = address(p, p->to, to);
  anfi_low_gemm_sizes(L, in, (uint64_t[]){1, c->m, c->n, c->k, c->a.ld, c->b.ld, p->to_ld, 0, 0});
  tattrs a = {0};
  if (c->first) a = anfi_t_attr_set(L->t, a, TA_init, 1);
  if (is_by_k(p)) a = anfi_t_attr_set(L->t, a, TA_trans_a, 1);
  if (p->k_group > 1) a = anfi_t_attr_set(L->t, a, TA_vnni_b, p->column_sums ? 2 : 1);
  if (p->q->small) a = anfi_t_attr_set(L->t, a, TA_small, 1);
  if (c->last) a = kernel_epilogue(p, c, a, in);
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_brgemm(L->t, in, a)));
  if (c->last && p->sums != SUMS_IN_C) anfi_gemm_run_epilogue(p, c->row, c->col, c->m, c->n);
  anfi_low_add(L, anfi_low_close(L));
}

static void one_panel(gemm *p, call *c, const gemm_group *s, texpr nth, texpr col, uint64_t n) {
  c->n = n, c->k = s->k, c->col = col;
  c->b = anfi_gemm_panel(p, s, nth, col, n);
  call_kernel(p, c);
}

/* All panels of a group, for one block of rows. */
static void all_panels(gemm *p, call *c, const gemm_group *s) {
  anfi_loop l;
  if (p->panels) {
    anfi_low_loop_range(p->L, &l, ix(p, 0), s->count, 1, "p");
    one_panel(p, c, s, l.var, column(p, s, l.var), p->b.nr);
    anfi_low_loop_end(p->L, &l);
  }
  if (!p->tail) return;
  begin_tail(p);
  one_panel(p, c, s, ix(p, p->group), ix(p, p->panels * p->b.nr), p->tail);
  end_tail(p, s);
}

/* ---- blocks ---- */

static void block_of_rows(gemm *p, call c, const gemm_group *s, const gemm_task *t, texpr nth,
                          uint64_t m) {
  c.m = m;
  c.row = atom(p, mulc(p, nth, p->b.mb));
  c.down = p->row_tasks == 1 ? c.row : minus(p, c.row, t->row);
  if (p->a == A_TRANSPOSED_BY_BLOCK) {
    c.down = ix(p, 0);
    anfi_gemm_transpose_rows(p, &c.a, c.row, c.down, m, s->k0, s->k);
  }
  if (p->a == A_WIDENED_BY_BLOCK) {
    c.down = ix(p, 0);
    anfi_gemm_copy_rows(p, &c.a, c.row, m, s->k0, s->k);
  }
  if (p->a == A_COMPUTED_BY_BLOCK || p->a == A_COMPUTED_BY_K) {
    c.down = ix(p, 0);
    anfi_gemm_compute_a(p, &c.a, c.row, ix(p, m), s->k0, s->k);
  }
  all_panels(p, &c, s);
}

static void blocks_of_task(gemm *p, const call *c, const gemm_group *s, const gemm_task *t) {
  anfi_loop i;
  anfi_sizes m = {.full = p->b.mb, .last = last_rows(p)};
  if (p->blocks == 1) {
    block_of_rows(p, *c, s, t, ix(p, 0), m.last);
    return;
  }
  anfi_low_loop_range(p->L, &i, t->block, t->last_block, 1, "m");
  while (anfi_low_each_size(p->L, &m, i.var, p->blocks)) block_of_rows(p, *c, s, t, i.var, m.size);
  anfi_low_loop_end(p->L, &i);
}

static gemm_group group_of(gemm *p, texpr group) {
  gemm_group s = {.group = group, .first = ix(p, 0), .count = ix(p, p->panels)};
  if (p->groups == 1) return s;
  s.first = atom(p, mulc(p, group, p->group));
  s.count = ix(p, p->group);
  if (p->panels % p->group)
    s.count = least(p, anfi_t_sub(p->L->t, ix(p, p->panels), s.first), s.count);
  return s;
}

/* Block `nth` of a slice of K: its packed copies live as long as the block. */
static void block_of_k(gemm *p, call c, const gemm_task *t, texpr nth, uint64_t kb) {
  anfi_low *L = p->L;
  anfi_loop g;
  texpr k0 = atom(p, add(p, mulc(p, t->slice, p->slice), mulc(p, nth, p->b.kb)));
  anfi_low_open(L);
  c.a = anfi_gemm_pack_a(p, t, k0, kb);
  if (p->team == 1) anfi_low_open(L);
  else anfi_low_loop_range(L, &g, t->group, t->last_group, 1, "g");
  gemm_group s = group_of(p, p->team == 1 ? t->group : g.var);
  s.k0 = k0, s.k = kb;
  s.block_of_k = add(p, mulc(p, t->slice, anfi_mm_up(p->slice, p->b.kb)), nth);
  anfi_gemm_pack_group(p, &s);
  blocks_of_task(p, &c, &s, t);
  if (p->team == 1) anfi_low_add(L, anfi_low_close(L));
  else anfi_low_loop_end(L, &g);
  anfi_low_add(L, anfi_low_close(L));
}

/* The first block of K starts the sums, the last one applies the epilogue (with split-K nobody does before all slices
 * are added); the blocks between are a loop. */
static void blocks_of_k(gemm *p, const gemm_task *t, uint64_t k) {
  uint64_t kb = p->b.kb, n = anfi_mm_up(k, kb), last = k - (n - 1) * kb;
  bool whole = p->slices == 1;
  call c = {.first = true, .last = whole && n == 1};
  block_of_k(p, c, t, ix(p, 0), n == 1 ? last : kb);
  c.first = false;
  if (n > 2) {
    anfi_loop l;
    anfi_low_loop(p->L, &l, n - 2, "kb");
    block_of_k(p, c, t, atom(p, anfi_ix_addc(p->L, l.var, 1)), kb);
    anfi_low_loop_end(p->L, &l);
  }
  c.last = whole;
  if (n > 1) block_of_k(p, c, t, ix(p, n - 1), last);
}

/* ---- tasks ---- */

/* Range number i of those that cut n things, `each` at a time. */
static void range(gemm *p, texpr i, uint64_t n, uint64_t each, texpr *first, texpr *end) {
  *first = ix(p, 0), *end = ix(p, n);
  if (each >= n) return;
  *first = atom(p, mulc(p, i, each));
  *end = atom(p, anfi_ix_addc(p->L, *first, (int64_t)each));
  if (n % each) *end = least(p, *end, ix(p, n));
}

/* Rows vary fastest: the last range of rows may be short, and threads, which take consecutive tasks, share those. */
static gemm_task task_of(gemm *p, texpr nth) {
  gemm_task t = {.slice = ix(p, 0)};
  uint64_t tasks = p->row_tasks * p->teams;
  if (p->slices > 1) {
    t.slice = atom(p, anfi_ix_divc(p->L, nth, tasks));
    nth = atom(p, anfi_ix_modc(p->L, nth, tasks));
  }
  range(p, atom(p, anfi_ix_divc(p->L, nth, p->row_tasks)), p->groups, p->team, &t.group,
        &t.last_group);
  range(p, atom(p, anfi_ix_modc(p->L, nth, p->row_tasks)), p->blocks, p->task_blocks, &t.block,
        &t.last_block);
  t.row = atom(p, mulc(p, t.block, p->b.mb));
  t.last_row = ix(p, p->q->m);
  if (p->row_tasks > 1) t.last_row = least(p, mulc(p, t.last_block, p->b.mb), t.last_row);
  return t;
}

static void all_tasks(gemm *p) {
  anfi_loop l;
  anfi_low_loop(p->L, &l, p->slices * p->row_tasks * p->teams, "task");
  l.parallel = p->parallel && !l.none;
  if (p->sums == SUMS_IN_TILE) p->to = anfi_low_local(p->L, p->type.sum, p->b.mb * p->b.nr, "sums");
  gemm_task t = task_of(p, l.var);
  if (p->slices > 1) p->to0 = atom(p, mulc(p, t.slice, p->q->m * p->q->n));
  anfi_sizes k = {.full = p->slice, .last = p->q->k - (p->slices - 1) * p->slice};
  while (anfi_low_each_size(p->L, &k, t.slice, p->slices)) blocks_of_k(p, &t, k.size);
  anfi_low_loop_end(p->L, &l);
}

/* ---- the plan ---- */

/* With more rows than columns a prologue computes each element once: rows alone are cut, finer if need be. Else teams
 * of columns compute it again, which fuse/prologue.c allows to cheap ones. */
static bool cuts_rows_alone(const anfi_mm *q) { return q->prologue && q->m >= q->n; }
static uint64_t rows_of_tasks(const gemm *p, uint64_t want) {
  enum { LEAST = 32 }; // rows of a cache block
  uint64_t most = anfi_mm_up(anfi_mm_up(p->q->m, want), LEAST) * LEAST;
  return cuts_rows_alone(p->q) && p->parallel && most < p->b.mb ? most : p->b.mb;
}

/* A B that is computed is read by rows far from each other: of each a stretch that is worth it. */
static uint64_t columns_at_once(const gemm *p) {
  enum { WIDE = 512 };
  uint64_t panels = WIDE / p->b.nr;
  return panels < p->panels ? panels : p->panels;
}

/* Columns first: each range of rows packs B again. */
static void share_tasks(gemm *p) {
  const anfi_mm *q = p->q;
  p->parallel = p->L->o.parallel && !p->L->in_parallel && !q->serial &&
                (p->slices > 1 || q->m * q->n >= ANFI_PARALLEL_MACS / q->k);
  p->panels = q->n / p->b.nr;
  p->tail = q->n % p->b.nr;
  uint64_t want = p->parallel ? anfi_mm_up(ANFI_LOW_TASKS, p->slices) : 1, rows = want;
  p->b.mb = rows_of_tasks(p, want);
  p->blocks = anfi_mm_up(q->m, p->b.mb);
  p->group = p->b.group;
  if (q->right && p->group < columns_at_once(p)) p->group = columns_at_once(p);
  if (cuts_rows_alone(q)) want = 1;
  if (cuts_rows_alone(q) && !p->b.pack_b && p->panels)
    p->group = p->panels; // one block of A at a time
  if (want > 1 && p->panels > 1 && anfi_mm_up(p->panels, p->group) < want)
    p->group = anfi_mm_up(p->panels, want);
  p->groups = p->panels ? anfi_mm_up(p->panels, p->group) : 1;
  p->team = anfi_mm_up(p->groups, want);
  p->teams = anfi_mm_up(p->groups, p->team);
  want = anfi_mm_up(rows, p->teams);
  p->task_blocks = anfi_mm_up(p->blocks, want < p->blocks ? want : p->blocks);
  p->row_tasks = anfi_mm_up(p->blocks, p->task_blocks);
}

anfi_isa anfi_low_isa(const anfi_low *L) {
  anfi_isa isa;
  if (L->o.isa) return *L->o.isa;
  anfi_isa_of("x86_64", "+avx2,+fma", &isa);
  return isa;
}

static bool is_prepacked(const anfi_low *L, const anfi_mm *q) {
  return q->const_b || (L->o.plans && L->o.plans->prepack);
}

static anfi_mm_shape shape_of(const anfi_low *L, const anfi_mm *q) {
  bool prepacked = is_prepacked(L, q);
  return (anfi_mm_shape){.elem = q->elem,
                         .bytes_a = q->bytes_a,
                         .bytes_b = q->bytes_b,
                         .m = q->m,
                         .n = q->n,
                         .k = q->k,
                         .ta = q->ta,
                         .tb = q->tb || q->right, // a B that is packed
                         .prepacked = prepacked,
                         .small = q->small};
}

static anfi_mm_types types_of(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = anfi_low_isa(L);
  anfi_mm_shape s = shape_of(L, q);
  return anfi_mm_types_of(&isa, &s);
}

static anfi_mm_plan plan_of(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = anfi_low_isa(L);
  anfi_mm_shape s = shape_of(L, q);
  anfi_mm_plan p = anfi_mm_plan_of(&isa, &s);
  if (L->o.plans) L->o.plans->find(L->o.plans->user, &s, &p);
  if ((q->prologue || q->right) && p.exchanged) p = (anfi_mm_plan){false, anfi_mm_blocks(&isa, &s)};
  return p;
}

bool anfi_low_gemm_cuts_k(const anfi_low *L, const anfi_mm *q) { return plan_of(L, q).b.kb < q->k; }

bool anfi_low_gemm_rounds(const anfi_low *L, const anfi_mm *q) {
  anfi_isa isa = anfi_low_isa(L);
  anfi_mm_types t = types_of(L, q);
  anfi_gemm k = {.a = t.a, .b = t.b, .c = t.sum};
  return q->elem == ANF_TIR_bf16 && t.a == q->elem && t.b == q->elem &&
         anfi_vnni_group_of(&isa, &k) > 1 && !anfi_low_gemm_cuts_k(L, q);
}

static gemm_a a_layout(const gemm *p, bool dots) {
  bool widened = p->q->bytes_a && p->type.a != p->q->bytes_a;
  if (p->q->prologue && p->team == 1) return p->q->ta ? A_COMPUTED_BY_K : A_COMPUTED_BY_BLOCK;
  if (p->q->prologue) return p->q->ta ? A_BY_K : A_BY_ROWS;
  if (!p->q->ta) return widened && p->team == 1 ? A_WIDENED_BY_BLOCK : A_BY_ROWS;
  if (!dots && (p->widened || !p->b.pack_a)) return A_BY_K;
  return p->team == 1 ? A_TRANSPOSED_BY_BLOCK : A_TRANSPOSED;
}

/* The product cut into these blocks, with its operands as they are. */
static gemm gemm_of(anfi_low *L, const anfi_mm *q, const anfi_blocks *b) {
  gemm p = {.L = L, .q = q, .b = *b, .type = types_of(L, q)};
  bool dots = p.type.b != p.type.sum; // a dot product reads a group of k: A must lie by rows
  if (anfi_low_gemm_rounds(L, q)) p.type.sum = q->elem;
  p.wide = p.type.sum != q->elem;
  p.widened = anfi_t_elem_is_half(q->elem) && p.type.b != q->elem;
  if (p.widened) p.b.pack_a = p.b.pack_b = true;
  if (q->prologue) p.b.pack_a = true;
  if (q->right) p.b.pack_b = true;
  if (dots && (q->ta || (q->bytes_a && p.type.a != q->bytes_a))) p.b.pack_a = true;
  anfi_isa isa = anfi_low_isa(L);
  bool prepacked = is_prepacked(L, q), packed = prepacked || (p.b.pack_b && !q->tb);
  anfi_gemm kernel = {
      .a = p.type.a, .b = p.type.b, .c = p.type.sum, .flags = q->small ? GEMM_SMALL : 0};
  p.k_group = packed ? anfi_vnni_group_of(&isa, &kernel) : 1;
  p.column_sums = prepacked && p.k_group == 4 && p.type.a == ANF_TIR_s8 && p.type.b == p.type.a;
  p.slice = anfi_mm_split_k(q->m, q->n, q->k);
  p.slices = anfi_mm_up(q->k, p.slice);
  share_tasks(&p);
  p.a = a_layout(&p, dots);
  if ((p.wide || q->store_element) && q->k <= p.b.kb) p.sums = SUMS_IN_TILE;
  else if (p.wide || q->store_element || p.slices > 1) p.sums = SUMS_IN_FULL;
  return p;
}

bool anfi_low_gemm_wanted(const anfi_mm *q) {
  enum { FEW = 1 << 11 }; // products: less is not worth a kernel
  bool type = q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64 || anfi_t_elem_is_half(q->elem) ||
              q->bytes_a;
  return type && q->k && q->m && q->n && q->m * q->n >= FEW / q->k;
}

void anfi_low_gemm_prepack(anfi_low *L, const anfi_mm *q) {
  if (anfi_low_is_matvec(q)) return;
  anfi_mm_plan best = plan_of(L, q);
  if (best.exchanged) return;
  gemm p = gemm_of(L, q, &best.b);
  anfi_gemm_prepack_invariant(&p);
}

static void in_blocks(anfi_low *L, const anfi_mm *q, const anfi_blocks *b) {
  gemm p = gemm_of(L, q, b);
  p.to = q->c, p.to0 = q->c0, p.to_ld = p.sums == SUMS_IN_TILE ? p.b.nr : q->ldc;
  p.prepacked = q->const_b ? anfi_gemm_prepack(&p) : anfi_gemm_prepacked_invariant(&p);
  anfi_low_open(L); // the scope of its local buffers
  if (!q->const_b && is_prepacked(L, q))
    p.prepacked = anfi_low_part(L, q->b, anfi_gemm_prepacked_type(&p), ix(&p, 0),
                                anfi_gemm_prepacked_size(&p));
  if (p.sums == SUMS_IN_FULL) {
    p.to = anfi_low_local(L, p.type.sum, p.slices * q->m * q->n, "sums");
    p.to0 = ix(&p, 0);
    p.to_ld = q->n;
  }
  all_tasks(&p);
  if (p.slices > 1) anfi_low_add_split_k(L, q, p.to);
  anfi_low_add(L, anfi_low_close(L));
}

/* C = A B by way of the transposed C' = B' A'. */
static void with_swapped_operands(anfi_low *L, const anfi_mm *q, const anfi_blocks *b) {
  anfi_mm x = *q;
  anfi_low_open(L);
  x.m = q->n, x.n = q->m; // as anfi_mm_exchanged
  x.a = q->b, x.a0 = q->b0, x.lda = q->ldb, x.ta = !q->tb;
  x.b = q->a, x.b0 = q->a0, x.ldb = q->lda, x.tb = !q->ta;
  x.const_b = NULL, x.small = false, x.bias = x.rhs = NULL, x.store_element = NULL, x.relu = false;
  x.c = anfi_low_local(L, q->elem, q->m * q->n, "columns");
  x.c0 = anfi_ix(L, 0), x.ldc = q->m;
  in_blocks(L, &x, b);
  anfi_gemm_store_transposed(L, q, x.c);
  anfi_low_add(L, anfi_low_close(L));
}

void anfi_low_gemm(anfi_low *L, const anfi_mm *q) {
  if (anfi_low_is_matvec(q)) {
    anfi_low_matvec(L, q);
    return;
  }
  anfi_mm_plan best = plan_of(L, q);
  if (best.exchanged) with_swapped_operands(L, q, &best.b);
  else in_blocks(L, q, &best.b);
}
