// SPDX-License-Identifier: Apache-2.0
/* Products by AMX: tile registers of 16 rows of 64 bytes. Four are sums of 32 bits (two by two), two hold A as stored,
 * two hold B in VNNI layout.
 *
 *   for each panel of 32 columns, each pair of matrices, each chunk of K:
 *     pack B: groups of k of 2 or 4 steps, the 16 rows of a tile one after the other, filled with zeros
 *     for each block of 32 rows: load the sums from C or zero them, all steps, store them
 *
 * A last step that fills no tile is copied and filled with zeros. Tile numbers are immediates, so LLVM assigns none. A
 * target without AMX runs equivalent code with tiles in memory. bf16, as TDPBF16PS: of each tile of K one sum of the
 * even steps and one of the odd, which are added to each other, then to C; the instruction flushes denormals, the
 * code does not. */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

enum {
  PAIR = 2,
  HIGH = 16,
  WIDE = 64,
  TILE = HIGH * WIDE,
  DEEP = 16
};                                      // DEEP: tiles in a chunk of K
enum { AT_A = 4, AT_B = 6, TILES = 8 }; // numbers of tiles; those of sums: 2 * row + column

typedef struct shape { // rows of tiles, and their columns in words; 0: there is none
  uint32_t rows[PAIR], cols[PAIR];
} shape;

typedef struct amx {
  const kgen *k;
  shape at;
  bool one;           // is it the only shape?
  V packed, edge, to; // packed B, the last step of A, sums for the epilogue
  V tile[TILES];      // without instructions: where they are
} amx;

typedef struct chunk { // of K
  V a, b;              // what it starts at
  V first, last;       // of all of the sum?
  uint32_t k;          // steps
  V col;               // of the panel
} chunk;

/* ---- tiles ---- */

static uint32_t rows_of(const amx *x, uint32_t t) {
  return t < AT_A ? x->at.rows[t / PAIR] : t < AT_B ? x->at.rows[t - AT_A] : HIGH;
}
static uint32_t words_of(const amx *x, uint32_t t) {
  return t < AT_A ? x->at.cols[t % PAIR] : t < AT_B ? WIDE / 4 : x->at.cols[t - AT_B];
}
static bool exists(const amx *x, uint32_t t) { return rows_of(x, t) && words_of(x, t); }

static bool native(const amx *x) { return x->k->isa.native; }
static V number(const amx *x, uint32_t t) { return ll.ConstInt(x->k->g->i8, t, 0); }
static V instruction(const amx *x, const char *name, V *in, uint32_t n) {
  return anfi_kg_intrinsic(x->k, name, NULL, 0, in, n);
}

static V words(const amx *x, V p, uint32_t n) {
  const kgen *k = x->k;
  return anfi_kg_load_as(k, anfi_ll_vector_of(k->g->i32, HIGH), HIGH, p, 1, n);
}

/* Rows of a tile from one place to another. */
static void copy(const amx *x, uint32_t t, V to, V to_row, V from, V from_row) {
  const kgen *k = x->k;
  kloop l;
  anfi_kg_begin(k, &l, ci(k, rows_of(x, t)), NULL);
  V v = words(x, move(k, from, mul2(k, l.i, from_row)), words_of(x, t));
  anfi_kg_store(k, v, move(k, to, mul2(k, l.i, to_row)), 1, words_of(x, t));
  anfi_kg_end(k, &l);
}

static void load(const amx *x, uint32_t t, V p, V row) {
  V in[] = {number(x, t), p, row};
  if (native(x)) instruction(x, "llvm.x86.tileloadd64", in, 3);
  else copy(x, t, x->tile[t], ci(x->k, WIDE), p, row);
}

static void store(const amx *x, uint32_t t, V p, V row) {
  V in[] = {number(x, t), p, row};
  if (native(x)) instruction(x, "llvm.x86.tilestored64", in, 3);
  else copy(x, t, p, row, x->tile[t], ci(x->k, WIDE));
}

static void zero(const amx *x, uint32_t t) {
  const kgen *k = x->k;
  kloop l;
  V in = number(x, t);
  if (native(x)) {
    instruction(x, "llvm.x86.tilezero", &in, 1);
    return;
  }
  anfi_kg_begin(k, &l, ci(k, HIGH), NULL);
  anfi_kg_store(k, ll.ConstNull(anfi_ll_vector_of(k->g->i32, HIGH)),
                move(k, x->tile[t], mul(k, l.i, WIDE)), 1, 0);
  anfi_kg_end(k, &l);
}

/* Step u of each word, as lanes of sums. */
static V step_of(const amx *x, V v, uint32_t u, anf_tir_elem e) {
  lgen *g = x->k->g;
  LLVMTypeRef t = anfi_ll_vector_of(g->i32, HIGH);
  uint32_t bits = e == ANF_TIR_bf16 ? 16 : 8;
  V up = ll.BuildShl(g->b, v, anfi_ll_int(t, 32 - bits * (u + 1)), ""),
    by = anfi_ll_int(t, 32 - bits);
  if (e == ANF_TIR_u8) return ll.BuildLShr(g->b, up, by, "");
  if (e == ANF_TIR_s8) return ll.BuildAShr(g->b, up, by, "");
  V high = ll.BuildAnd(g->b, up, anfi_ll_int(t, 0xffff0000), "");
  return ll.BuildBitCast(g->b, high, x->k->vec, "");
}

/* One word of A by a row of B; sum[1]: the odd steps of bf16. */
static void add_word(const amx *x, V a, V b, V *sum) {
  const kgen *k = x->k;
  bool floats = k->k->c == ANF_TIR_f32;
  for (uint32_t u = 0; u < (floats ? 2U : 4U); u++) {
    V p = step_of(x, a, u, k->k->a), q = step_of(x, b, u, k->k->b);
    if (floats) sum[u] = anfi_kg_fma(k, k->vec, p, q, sum[u]);
    else sum[0] = ll.BuildAdd(k->g->b, sum[0], ll.BuildMul(k->g->b, p, q, ""), "");
  }
}

static void dot_by_hand(const amx *x, uint32_t c, uint32_t a, uint32_t b) {
  const kgen *k = x->k;
  LLVMBuilderRef at = k->g->b;
  kloop row, word;
  carried sums = {.n = 0};
  anfi_kg_begin(k, &row, ci(k, rows_of(x, c)), NULL);
  V off = mul(k, row.i, WIDE), pc = move(k, x->tile[c], off), pa = move(k, x->tile[a], off);
  V was = anfi_kg_load(k, anfi_kg_lane(k, k->k->c), pc, 4, 0);
  V sum[2] = {ll.ConstNull(k->vec), ll.ConstNull(k->vec)};
  carry(&sums, &sum[0]), carry(&sums, &sum[1]);
  anfi_kg_begin(k, &word, ci(k, WIDE / 4), &sums);
  V one = ll.BuildLoad2(at, k->g->i32, move(k, pa, mul(k, word.i, 4)), "");
  add_word(x, splat(k, one), words(x, move(k, x->tile[b], mul(k, word.i, WIDE)), 0), sum);
  anfi_kg_end(k, &word);
  V both = k->k->c == ANF_TIR_f32 ? ll.BuildFAdd(at, was, ll.BuildFAdd(at, sum[0], sum[1], ""), "")
                                  : ll.BuildAdd(at, was, sum[0], "");
  anfi_kg_store(k, both, pc, 4, 0);
  anfi_kg_end(k, &row);
}

static void dot(const amx *x, uint32_t c, uint32_t a, uint32_t b) {
  V in[] = {number(x, c), number(x, a), number(x, b)};
  if (native(x)) instruction(x, x->k->dot.info->tile, in, 3);
  else dot_by_hand(x, c, a, b);
}

/* LDTILECFG of 64 bytes: palette 1, bytes of a row of each tile, rows of each. */
static void configure(const amx *x) {
  enum { PALETTE, BYTES = 16, ROWS_AT = 48, SIZE = 64 };
  lgen *g = x->k->g;
  char text[SIZE] = {[PALETTE] = 1};
  if (!native(x)) return;
  for (uint32_t t = 0; t < TILES; t++) {
    if (!exists(x, t)) continue;
    text[BYTES + 2 * t] = (char)(4 * words_of(x, t));
    text[ROWS_AT + t] = (char)rows_of(x, t);
  }
  V bytes = ll.ConstStringInContext2(g->c, text, SIZE, 1),
    at = ll.AddGlobal(g->m, ll.TypeOf(bytes), "anf.tiles");
  ll.SetInitializer(at, bytes);
  ll.SetLinkage(at, LLVMInternalLinkage);
  ll.SetGlobalConstant(at, 1);
  instruction(x, "llvm.x86.ldtilecfg", &at, 1);
}

/* ---- B ---- */

static uint32_t steps_of(const kgen *k) { return 4 / k->bytes_b; }    // in a word
static uint32_t depth_of(const kgen *k) { return WIDE / k->bytes_b; } // in a tile

/* The rows from p on as row `word` of the tiles, `n` steps of them; none: zeros. */
static void pack_group(const amx *x, V p, V to, uint32_t n) {
  const kgen *k = x->k;
  V db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  LLVMTypeRef lane = anfi_kg_lane(k, k->k->b);
  anfi_dot d = {.g = k->g, .info = k->dot.info, .lanes = HIGH, .steps = steps_of(k)};
  for (uint32_t c = 0; c < PAIR && x->at.cols[c]; c++) {
    V row[4], word = ll.ConstNull(anfi_ll_vector_of(k->g->i32, HIGH));
    for (uint32_t u = 0; u < d.steps && n; u++) {
      V at = move(k, move(k, p, mul(k, db, u)), ci(k, (int64_t)c * HIGH * k->bytes_b));
      row[u] = u < n ? anfi_kg_load(k, lane, at, k->bytes_b, x->at.cols[c])
                     : ll.ConstNull(anfi_ll_vector_of(lane, HIGH));
    }
    if (n) word = anfi_dot_interleave(&d, row);
    anfi_kg_store(k, word, move(k, to, ci(k, (int64_t)c * TILE)), WIDE, 0);
  }
}

static void pack(const amx *x, const chunk *h) {
  const kgen *k = x->k;
  kloop l;
  uint32_t each = steps_of(k), full = h->k / each, rest = h->k % each, w = full;
  V db = mul(k, k->size[GEMM_LDB], (int64_t)each * k->bytes_b);
  if (full) {
    anfi_kg_begin(k, &l, ci(k, full), NULL);
    V tile = ll.BuildLShr(k->g->b, l.i, ci(k, 4), ""),
      row = ll.BuildAnd(k->g->b, l.i, ci(k, 15), "");
    V to = move(k, move(k, x->packed, mul(k, tile, PAIR * TILE)), mul(k, row, WIDE));
    pack_group(x, move(k, h->b, mul2(k, l.i, db)), to, each);
    anfi_kg_end(k, &l);
  }
  for (; w % HIGH || (w == full && rest); w++) {
    V to =
        move(k, x->packed, ci(k, (int64_t)(w / HIGH) * PAIR * TILE + (int64_t)(w % HIGH) * WIDE));
    pack_group(x, move(k, h->b, mul(k, db, w)), to, w == full ? rest : 0);
  }
}

/* ---- rows ---- */

typedef struct fork {
  LLVMBasicBlockRef other, after;
} fork;

static fork begin_if(const kgen *k, V is) {
  LLVMBasicBlockRef then = anfi_kg_block(k);
  fork f = {anfi_kg_block(k), anfi_kg_block(k)};
  ll.BuildCondBr(k->g->b, is, then, f.other);
  ll.PositionBuilderAtEnd(k->g->b, then);
  return f;
}
static void begin_else(const kgen *k, const fork *f) {
  ll.BuildBr(k->g->b, f->after);
  ll.PositionBuilderAtEnd(k->g->b, f->other);
}
static void end_if(const kgen *k, const fork *f) {
  ll.BuildBr(k->g->b, f->after);
  ll.PositionBuilderAtEnd(k->g->b, f->after);
}

static V row_of_c(const kgen *k) { return mul(k, k->size[GEMM_LDC], k->bytes_c); }

/* Address of the sums of tile t in C; `off`: bytes to those of the first one. */
static V address_of(const amx *x, uint32_t t, V off) {
  const kgen *k = x->k;
  V down = mul(k, row_of_c(k), t / PAIR * HIGH);
  return move(k, move(k, k->c, sum2(k, off, down)), ci(k, t % PAIR * WIDE));
}

static void sums_from(const amx *x, V off) { // NULL: zero
  for (uint32_t t = 0; t < AT_A; t++) {
    if (!exists(x, t)) continue;
    if (off) load(x, t, address_of(x, t, off), row_of_c(x->k));
    else zero(x, t);
  }
}

static void start(const amx *x, const chunk *h, V off) {
  const kgen *k = x->k;
  int64_t first = 0;
  bool init = k->k->flags & GEMM_INIT;
  if (!init || known(h->first, &first)) {
    sums_from(x, init && first ? NULL : off);
    return;
  }
  fork f = begin_if(k, h->first);
  sums_from(x, NULL);
  begin_else(k, &f);
  sums_from(x, off);
  end_if(k, &f);
}

static void store_sums(const amx *x, V off) {
  for (uint32_t t = 0; t < AT_A; t++)
    if (exists(x, t)) store(x, t, address_of(x, t, off), row_of_c(x->k));
}

/* By way of memory: vectors apply the epilogue. */
static void apply_epilogue(const amx *x, const chunk *h, V off) {
  const kgen *k = x->k;
  kloop l;
  for (uint32_t t = 0; t < AT_A; t++)
    if (exists(x, t))
      store(x, t, move(k, x->to, ci(k, t / PAIR * PAIR * TILE + t % PAIR * WIDE)),
            ci(k, PAIR * WIDE));
  anfi_kg_begin(k, &l, ci(k, x->at.rows[0] + x->at.rows[1]), NULL);
  V row = sum2(k, off, mul2(k, l.i, row_of_c(k))), from = move(k, x->to, mul(k, l.i, PAIR * WIDE));
  for (uint32_t c = 0; c < PAIR && x->at.cols[c]; c++) {
    V v = anfi_kg_load(k, anfi_kg_lane(k, k->k->c), move(k, from, ci(k, c * WIDE)), WIDE, 0);
    kplace p = {sum2(k, row, ci(k, c * WIDE)), h->col, c, x->at.cols[c]};
    anfi_kg_store(k, anfi_kg_epilogue(k, v, &p), move(k, k->c, p.at), k->bytes_c, p.tail);
  }
  anfi_kg_end(k, &l);
}

static void end(const amx *x, const chunk *h, V off) {
  const kgen *k = x->k;
  int64_t last = 0;
  if (!(k->k->flags & (GEMM_BIAS | GEMM_SCALE | GEMM_RELU | GEMM_BINARY))) store_sums(x, off);
  else if (known(h->last, &last)) {
    if (last) apply_epilogue(x, h, off);
    else store_sums(x, off);
  } else {
    fork f = begin_if(k, h->last);
    apply_epilogue(x, h, off);
    begin_else(k, &f);
    store_sums(x, off);
    end_if(k, &f);
  }
}

/* A tile of K. `down`: bytes to the second tile of A. */
static void step(const amx *x, V a, V row, V down, V b) {
  const kgen *k = x->k;
  for (uint32_t r = 0; r < PAIR; r++)
    if (x->at.rows[r]) load(x, AT_A + r, r ? move(k, a, down) : a, row);
  for (uint32_t c = 0; c < PAIR; c++) {
    if (!x->at.cols[c]) continue;
    load(x, AT_B + c, move(k, b, ci(k, c * TILE)), ci(k, WIDE));
    for (uint32_t r = 0; r < PAIR; r++)
      if (x->at.rows[r]) dot(x, r * PAIR + c, AT_A + r, AT_B + c);
  }
}

/* The last `n` steps of rows of A, with zeros after them. */
static void copy_edge(const amx *x, V a, V row, uint32_t n) {
  const kgen *k = x->k;
  uint32_t depth = depth_of(k);
  LLVMTypeRef vec = anfi_ll_vector_of(anfi_kg_lane(k, k->k->a), depth);
  kloop l;
  anfi_kg_begin(k, &l, ci(k, x->at.rows[0] + x->at.rows[1]), NULL);
  V v = anfi_kg_load_as(k, vec, depth, move(k, a, mul2(k, l.i, row)), k->bytes_a, n);
  ll.SetAlignment(ll.BuildStore(k->g->b, v, move(k, x->edge, mul(k, l.i, WIDE))), WIDE);
  anfi_kg_end(k, &l);
}

static void block_of_rows(const amx *x, const chunk *h, V m) {
  const kgen *k = x->k;
  kloop l;
  uint32_t full = h->k / depth_of(k), rest = h->k % depth_of(k);
  V row = mul(k, k->size[GEMM_LDA], k->bytes_a), a = move(k, h->a, mul2(k, m, row));
  V off = sum2(k, mul2(k, m, row_of_c(k)), mul(k, h->col, k->bytes_c));
  start(x, h, off);
  if (full) {
    anfi_kg_begin(k, &l, ci(k, full), NULL);
    step(x, move(k, a, mul(k, l.i, WIDE)), row, mul(k, row, HIGH),
         move(k, x->packed, mul(k, l.i, PAIR * TILE)));
    anfi_kg_end(k, &l);
  }
  if (rest) {
    copy_edge(x, move(k, a, ci(k, (int64_t)full * WIDE)), row, rest);
    step(x, x->edge, ci(k, WIDE), ci(k, TILE),
         move(k, x->packed, ci(k, (int64_t)full * PAIR * TILE)));
  }
  end(x, h, off);
}

static void cut(uint32_t *two, uint32_t n) {
  two[0] = n < HIGH ? n : HIGH;
  two[1] = n - two[0];
}

static void rows(amx *x, const chunk *h) {
  const kgen *k = x->k;
  int64_t full = k->k->m / (PAIR * HIGH), rest = k->k->m % (PAIR * HIGH);
  kloop l;
  if (full) {
    cut(x->at.rows, PAIR * HIGH);
    if (!x->one) configure(x);
    anfi_kg_begin(k, &l, ci(k, full), NULL);
    block_of_rows(x, h, mul(k, l.i, PAIR * HIGH));
    anfi_kg_end(k, &l);
  }
  if (!rest) return;
  cut(x->at.rows, (uint32_t)rest);
  if (!x->one) configure(x);
  block_of_rows(x, h, ci(k, full * PAIR * HIGH));
}

/* ---- K, batches, columns ---- */

static V is(const kgen *k, V a, V b) { return ll.BuildICmp(k->g->b, LLVMIntEQ, a, b, ""); }

/* Chunks of K: as many tiles each, but for the last. */
static void chunks(amx *x, const chunk *pair) {
  const kgen *k = x->k;
  int64_t all = k->k->size[GEMM_K], tiles = (all + depth_of(k) - 1) / depth_of(k),
          n = (tiles + DEEP - 1) / DEEP, each = (tiles + n - 1) / n * depth_of(k);
  kloop l;
  chunk h = *pair;
  V never = ll.ConstInt(k->g->i1, 0, 0), db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  n = (all + each - 1) / each;
  if (n > 1) {
    anfi_kg_begin(k, &l, ci(k, n - 1), NULL);
    h.a = move(k, pair->a, mul(k, l.i, each * k->bytes_a));
    h.b = move(k, pair->b, mul(k, mul2(k, l.i, db), each));
    h.k = (uint32_t)each;
    h.first = ll.BuildAnd(k->g->b, pair->first, is(k, l.i, ci(k, 0)), "");
    h.last = never;
    pack(x, &h);
    rows(x, &h);
    anfi_kg_end(k, &l);
    h.first = never;
  }
  int64_t done = (n - 1) * each;
  h.a = move(k, pair->a, ci(k, done * k->bytes_a));
  h.b = move(k, pair->b, mul(k, db, done));
  h.k = (uint32_t)(all - done);
  h.last = pair->last;
  pack(x, &h);
  rows(x, &h);
}

static void panel(amx *x, V col, uint32_t n) {
  const kgen *k = x->k;
  kloop l;
  V num = k->size[GEMM_NUM];
  cut(x->at.cols, n);
  anfi_kg_begin(k, &l, num, NULL);
  chunk h = {.col = col};
  h.a = move(k, k->a, mul2(k, l.i, mul(k, k->size[GEMM_SA], k->bytes_a)));
  h.b = move(k, k->b, mul2(k, l.i, mul(k, k->size[GEMM_SB], k->bytes_b)));
  h.b = move(k, h.b, mul(k, col, k->bytes_b));
  h.first = is(k, l.i, ci(k, 0));
  h.last = is(k, sum2(k, l.i, ci(k, 1)), num);
  chunks(x, &h);
  anfi_kg_end(k, &l);
}

void anfi_kg_amx(const kgen *k) {
  amx x = {.k = k};
  kloop l;
  int64_t width = PAIR * HIGH, full = k->k->n / width, rest = k->k->n % width, m = k->k->m;
  x.packed = anfi_kg_stack(k, DEEP * PAIR * TILE), x.edge = anfi_kg_stack(k, PAIR * TILE);
  x.to = anfi_kg_stack(k, PAIR * PAIR * TILE);
  for (uint32_t t = 0; t < TILES && !native(&x); t++) x.tile[t] = anfi_kg_stack(k, TILE);
  x.one = (m < width || m % width == 0) && (!full || !rest);
  if (x.one) {
    cut(x.at.rows, (uint32_t)(m < width ? m : width));
    cut(x.at.cols, (uint32_t)(full ? width : rest));
    configure(&x);
  }
  if (full) {
    anfi_kg_begin(k, &l, ci(k, full), NULL);
    panel(&x, mul(k, l.i, width), (uint32_t)width);
    anfi_kg_end(k, &l);
  }
  if (rest) panel(&x, ci(k, full * width), (uint32_t)rest);
  if (native(&x)) instruction(&x, "llvm.x86.tilerelease", NULL, 0);
}
