// SPDX-License-Identifier: Apache-2.0
/* brgemm as LLVM IR: panels of columns, in each of them tiles of rows, in each of them sums in
 * registers over the batch and K. Heights of tiles are balanced, so at most two differ; columns that
 * fill no vector are masked. Vectors are explicit: code is what is written here, at any level of
 * optimisation. */
#include "backend/kernel/emit.h"

typedef LLVMValueRef V;
enum { SUMS = TILE_SUMS, VECS = TILE_VECS, ROWS = 32 };

typedef struct kgen {
  lgen *g;
  const anfi_gemm *k;
  anfi_isa isa;
  V fn, a, b, c, len, post[3];
  V size[GEMM_NSIZE]; // elements
  uint32_t lanes, bytes_a, bytes_b, bytes_c;
  tdtype sum;
  LLVMTypeRef vec;
  anfi_dot dot; // steps 0: none
} kgen;

typedef struct tile {
  uint32_t rows, vecs, tail; // tail: columns of the last vector, 0 all
  V a, b, c, col;            // where it starts; number of its first column
  V acc[SUMS];
  V over[VECS]; // of signed A, taken as 128 more: what that makes too much
} tile;

/* ---- values ---- */

static V ci(const kgen *k, int64_t v) { return ll.ConstInt(k->g->i64, (uint64_t)v, 1); }
static bool known(V v, int64_t *n) {
  if (!ll.IsAConstantInt(v)) return false;
  *n = (int64_t)ll.ConstIntGetZExtValue(v);
  return true;
}
static V mul(const kgen *k, V a, int64_t b) {
  int64_t n;
  return known(a, &n) ? ci(k, n * b) : ll.BuildMul(k->g->b, a, ci(k, b), "");
}
static V mul2(const kgen *k, V a, V b) {
  int64_t n;
  if (known(b, &n)) return mul(k, a, n);
  return known(a, &n) ? mul(k, b, n) : ll.BuildMul(k->g->b, a, b, "");
}
static V move(const kgen *k, V p, V bytes) {
  int64_t n;
  if (known(bytes, &n) && n == 0) return p;
  return ll.BuildGEP2(k->g->b, k->g->i8, p, &bytes, 1, "");
}
static LLVMBasicBlockRef block(const kgen *k) {
  return ll.AppendBasicBlockInContext(k->g->c, k->fn, "");
}

static V splat(const kgen *k, V x) { return anfi_ll_splat(k->g, x, k->lanes); }

/* ---- loops ---- */

/* Values that a loop carries; after the loop they are what it left. */
typedef struct carried {
  V *at[SUMS + VECS + 4];
  V phi[SUMS + VECS + 4];
  uint32_t n;
} carried;
typedef struct loop {
  LLVMBasicBlockRef before, body, after;
  V i, count;
  carried *c;
  bool none, guarded;
} loop;

static void carry(carried *c, V *v) { c->at[c->n++] = v; }
static void carry_sums(carried *c, tile *t) {
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) carry(c, &t->acc[i]);
  for (uint32_t j = 0; j < t->vecs && t->over[0]; j++) carry(c, &t->over[j]);
}

/* Turns `count` times; known to be 1, it is no loop. */
static void begin(const kgen *k, loop *l, V count, carried *c) {
  int64_t n = -1;
  LLVMBuilderRef b = k->g->b;
  bool fixed = known(count, &n);
  *l = (loop){.count = count, .c = c, .none = fixed && n == 1, .guarded = !fixed || n == 0};
  l->i = ci(k, 0);
  if (l->none) return;
  l->before = ll.GetInsertBlock(b);
  l->body = block(k), l->after = block(k);
  if (l->guarded)
    ll.BuildCondBr(b, ll.BuildICmp(b, LLVMIntSGT, count, ci(k, 0), ""), l->body, l->after);
  else ll.BuildBr(b, l->body);
  ll.PositionBuilderAtEnd(b, l->body);
  l->i = ll.BuildPhi(b, k->g->i64, "");
  V zero = ci(k, 0);
  ll.AddIncoming(l->i, &zero, &l->before, 1);
  for (uint32_t i = 0; c && i < c->n; i++) {
    c->phi[i] = ll.BuildPhi(b, ll.TypeOf(*c->at[i]), "");
    ll.AddIncoming(c->phi[i], c->at[i], &l->before, 1);
    *c->at[i] = c->phi[i];
  }
}

static void end(const kgen *k, loop *l) {
  LLVMBuilderRef b = k->g->b;
  if (l->none) return;
  carried *c = l->c;
  LLVMBasicBlockRef last = ll.GetInsertBlock(b);
  V next = ll.BuildNUWAdd(b, l->i, ci(k, 1), "");
  ll.AddIncoming(l->i, &next, &last, 1);
  ll.BuildCondBr(b, ll.BuildICmp(b, LLVMIntSLT, next, l->count, ""), l->body, l->after);
  ll.PositionBuilderAtEnd(b, l->after);
  for (uint32_t i = 0; c && i < c->n; i++) {
    V left = *c->at[i];
    ll.AddIncoming(c->phi[i], &left, &last, 1);
    if (!l->guarded) continue;
    V in[2] = {NULL, left}; // not turned: what it was before
    LLVMBasicBlockRef from[2] = {l->before, last};
    in[0] = ll.GetIncomingValue(c->phi[i], 0);
    *c->at[i] = ll.BuildPhi(b, ll.TypeOf(left), "");
    ll.AddIncoming(*c->at[i], in, from, 2);
  }
}

/* ---- memory ---- */

static V mask_of(const kgen *k, uint32_t n) {
  V on[64];
  for (uint32_t i = 0; i < k->lanes; i++) on[i] = ll.ConstInt(k->g->i1, i < n, 0);
  return ll.ConstVector(on, k->lanes);
}

static V intrinsic2(const kgen *k, const char *name, LLVMTypeRef *over, uint32_t nover, V *in,
                    uint32_t n) {
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  V f = ll.GetIntrinsicDeclaration(k->g->m, id, over, nover);
  return ll.BuildCall2(k->g->b, ll.IntrinsicGetType(k->g->c, id, over, nover), f, in, n, "");
}

static V load_vec(const kgen *k, LLVMTypeRef lane, V p, uint32_t bytes, uint32_t tail) {
  LLVMTypeRef t = anfi_ll_vector_of(lane, k->lanes), over[2] = {t, k->g->ptr};
  if (!tail) {
    V v = ll.BuildLoad2(k->g->b, t, p, "");
    ll.SetAlignment(v, bytes);
    return v;
  }
  V in[] = {p, anfi_ll_i32(k->g, bytes), mask_of(k, tail), ll.ConstNull(t)};
  return intrinsic2(k, "llvm.masked.load", over, 2, in, 4);
}

static void store_vec(const kgen *k, V v, V p, uint32_t bytes, uint32_t tail) {
  LLVMTypeRef over[2] = {ll.TypeOf(v), k->g->ptr};
  if (!tail) {
    ll.SetAlignment(ll.BuildStore(k->g->b, v, p), bytes);
    return;
  }
  V in[] = {v, p, anfi_ll_i32(k->g, bytes), mask_of(k, tail)};
  intrinsic2(k, "llvm.masked.store", over, 2, in, 4);
}

/* As lanes of sums: exact. `n` lanes; 1 is a scalar. */
static V widen(const kgen *k, V v, anf_tir_elem e, uint32_t n) {
  lgen *g = k->g;
  LLVMTypeRef i32 = anfi_ll_vector_of(g->i32, n);
  switch (e) { /* dispatch */
  case ANF_TIR_bf16: {
    V x = ll.BuildShl(g->b, ll.BuildZExt(g->b, v, i32, ""), anfi_ll_int(i32, 16), "");
    return ll.BuildBitCast(g->b, x, anfi_ll_vector_of(g->f32, n), "");
  }
  case ANF_TIR_u8: return ll.BuildZExt(g->b, v, i32, "");
  case ANF_TIR_s8: return ll.BuildSExt(g->b, v, i32, "");
  default: return v;
  }
}

static LLVMTypeRef lane_of(const kgen *k, anf_tir_elem e) {
  lgen *g = k->g;
  return e == ANF_TIR_bf16                    ? g->i16
         : e == ANF_TIR_u8 || e == ANF_TIR_s8 ? g->i8
         : e == ANF_TIR_f64                   ? g->f64
         : e == ANF_TIR_s32                   ? g->i32
                                              : g->f32;
}

static uint32_t tail_of(const tile *t, uint32_t j) { return j + 1 == t->vecs ? t->tail : 0; }

/* ---- sums ---- */

static V product(const kgen *k, V a, V b, V acc) {
  lgen *g = k->g;
  if (k->sum.elem == ANF_TIR_s32) return ll.BuildAdd(g->b, acc, ll.BuildMul(g->b, a, b, ""), "");
  V in[3] = {a, b, acc};
  return intrinsic2(k, "llvm.fma", &((kgen *)(uintptr_t)k)->vec, 1, in, 3);
}

/* One step of K. `row`: bytes from row to row of A. */
static void step(const kgen *k, tile *t, V a, V b, const V *row) {
  V bv[VECS];
  for (uint32_t j = 0; j < t->vecs; j++) {
    V p = move(k, b, ci(k, (int64_t)j * k->lanes * k->bytes_b));
    V x = load_vec(k, lane_of(k, k->k->b), p, k->bytes_b, tail_of(t, j));
    bv[j] = widen(k, x, k->k->b, k->lanes);
  }
  for (uint32_t r = 0; r < t->rows; r++) {
    V x = ll.BuildLoad2(k->g->b, lane_of(k, k->k->a), move(k, a, row[r]), "");
    ll.SetAlignment(x, k->bytes_a);
    V s = splat(k, widen(k, x, k->k->a, 1));
    for (uint32_t j = 0; j < t->vecs; j++) {
      V *acc = &t->acc[r * t->vecs + j];
      *acc = product(k, s, bv[j], *acc);
    }
  }
}

/* A is what a dot takes as unsigned, unless B is: then it is the other way round. */
static V dot(const kgen *k, V a, V b, V acc) {
  if (k->dot.steps == 2) return anfi_dot_bf16(&k->dot, acc, a, b);
  return k->k->b == ANF_TIR_u8 ? anfi_dot_bytes(&k->dot, acc, b, a)
                               : anfi_dot_bytes(&k->dot, acc, a, b);
}

/* As many steps of K as a dot product takes. */
static void dot_step(const kgen *k, tile *t, V a, V b, const V *row, V db) {
  lgen *g = k->g;
  V bv[VECS], bias = splat(k, anfi_ll_i32(g, 0x80808080));
  for (uint32_t j = 0; j < t->vecs; j++) {
    V r[4];
    for (uint32_t u = 0; u < k->dot.steps; u++) {
      V p = move(k, move(k, b, mul(k, db, u)), ci(k, (int64_t)j * k->lanes * k->bytes_b));
      r[u] = load_vec(k, lane_of(k, k->k->b), p, k->bytes_b, tail_of(t, j));
    }
    bv[j] = anfi_dot_interleave(&k->dot, r);
    if (t->over[0]) t->over[j] = anfi_dot_bytes(&k->dot, t->over[j], bias, bv[j]);
  }
  for (uint32_t r = 0; r < t->rows; r++) {
    V x = ll.BuildLoad2(g->b, g->i32, move(k, a, row[r]), "");
    ll.SetAlignment(x, k->bytes_a);
    x = splat(k, x);
    if (t->over[0]) x = ll.BuildXor(g->b, x, bias, "");
    for (uint32_t j = 0; j < t->vecs; j++) {
      V *acc = &t->acc[r * t->vecs + j];
      *acc = dot(k, x, bv[j], *acc);
    }
  }
}

static void dot_steps(const kgen *k, tile *t, V *a, V *b, const V *row, V n) {
  carried c = {.n = 0};
  loop l;
  V db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  carry(&c, a), carry(&c, b), carry_sums(&c, t);
  begin(k, &l, n, &c);
  V a0 = *a, b0 = *b;
  dot_step(k, t, a0, b0, row, db);
  *a = move(k, a0, ci(k, (int64_t)k->dot.steps * k->bytes_a));
  *b = move(k, b0, mul(k, db, k->dot.steps));
  end(k, &l);
}

/* `n` steps from a and b on, `each` at a time. */
static void steps(const kgen *k, tile *t, V *a, V *b, const V *row, V n, uint32_t each) {
  carried c = {.n = 0};
  loop l;
  bool ta = k->k->flags & GEMM_TA;
  V da = ta ? mul(k, k->size[GEMM_LDA], k->bytes_a) : ci(k, k->bytes_a),
    db = mul(k, k->size[GEMM_LDB], k->bytes_b);
  V ua[8], ub[8];
  for (uint32_t u = 0; u <= each; u++) ua[u] = mul(k, da, u), ub[u] = mul(k, db, u);
  carry(&c, a), carry(&c, b), carry_sums(&c, t);
  begin(k, &l, n, &c);
  V a0 = *a, b0 = *b;
  for (uint32_t u = 0; u < each; u++) step(k, t, move(k, a0, ua[u]), move(k, b0, ub[u]), row);
  *a = move(k, a0, ua[each]);
  *b = move(k, b0, ub[each]);
  end(k, &l);
}

/* All of K of one pair of matrices. */
static void sum_k(const kgen *k, tile *t, V a, V b, const V *row) {
  int64_t n;
  uint32_t each = t->rows * t->vecs > 16 ? 2 : 4;
  V kk = k->size[GEMM_K];
  if (k->dot.steps) {
    uint32_t shift = k->dot.steps / 2; // steps are 2 or 4
    bool fixed = known(kk, &n);
    V dots = fixed ? ci(k, n >> shift) : ll.BuildLShr(k->g->b, kk, ci(k, shift), "");
    kk = fixed ? ci(k, n % k->dot.steps) : ll.BuildAnd(k->g->b, kk, ci(k, k->dot.steps - 1), "");
    if (!fixed || n >> shift) dot_steps(k, t, &a, &b, row, dots);
  }
  if (!known(kk, &n)) {
    steps(k, t, &a, &b, row, kk, 1);
    return;
  }
  if (n / each) steps(k, t, &a, &b, row, ci(k, n / each), each);
  for (int64_t u = 0; u < n % each; u++) steps(k, t, &a, &b, row, ci(k, 1), 1);
}

static void sum_batch(const kgen *k, tile *t, V a, V b, const V *row) {
  carried c = {.n = 0};
  loop l;
  carry(&c, &a), carry(&c, &b), carry_sums(&c, t);
  begin(k, &l, k->size[GEMM_NUM], &c);
  sum_k(k, t, a, b, row);
  a = move(k, a, mul(k, k->size[GEMM_SA], k->bytes_a));
  b = move(k, b, mul(k, k->size[GEMM_SB], k->bytes_b));
  end(k, &l);
}

/* a and b are offsets into what the lists point to. */
static void sum_list(const kgen *k, tile *t, const V *row) {
  carried c = {.n = 0};
  loop l;
  carry_sums(&c, t);
  begin(k, &l, k->len, &c);
  V at = mul(k, l.i, 8), a = ll.BuildLoad2(k->g->b, k->g->ptr, move(k, k->a, at), ""),
    b = ll.BuildLoad2(k->g->b, k->g->ptr, move(k, k->b, at), "");
  sum_batch(k, t, move(k, a, t->a), move(k, b, t->b), row);
  end(k, &l);
}

/* ---- what comes after the sum ---- */

static V float_op(const kgen *k, int64_t op, V x, V y) {
  LLVMBuilderRef b = k->g->b;
  if (op == 1) return ll.BuildFAdd(b, x, y, "");
  if (op == 2) return ll.BuildFMul(b, x, y, "");
  LLVMTypeRef over = ll.TypeOf(x);
  V in[2] = {x, y};
  return intrinsic2(k, op == 3 ? "llvm.maxnum" : "llvm.minnum", &over, 1, in, 2);
}

static V column_data(const kgen *k, const tile *t, V p, uint32_t j, anf_tir_elem e) {
  uint32_t bytes = (uint32_t)anfi_t_bytes(anfi_t_dt(e));
  V at = move(k, move(k, p, mul(k, t->col, bytes)), ci(k, (int64_t)j * k->lanes * bytes));
  V v = load_vec(k, lane_of(k, e), at, bytes, tail_of(t, j));
  if (e == k->sum.elem) return v;
  return ll.BuildFPExt(k->g->b, v, k->vec, "");
}

static V finish(const kgen *k, const tile *t, V x, V at, uint32_t j) {
  LLVMBuilderRef b = k->g->b;
  int64_t f = k->k->flags, binary = (f & GEMM_BINARY) >> 4;
  if (f & GEMM_SCALE) x = ll.BuildFMul(b, x, column_data(k, t, k->post[1], j, ANF_TIR_f32), "");
  if (f & GEMM_BIAS) x = ll.BuildFAdd(b, x, column_data(k, t, k->post[0], j, k->k->c), "");
  if (binary) {
    V p = move(k, k->post[2], at);
    x = float_op(k, binary, x, load_vec(k, lane_of(k, k->k->c), p, k->bytes_c, tail_of(t, j)));
  }
  if (!(f & GEMM_RELU)) return x;
  V zero = ll.ConstNull(k->vec);
  V less = k->sum.elem == ANF_TIR_s32 ? ll.BuildICmp(b, LLVMIntSLT, x, zero, "")
                                      : ll.BuildFCmp(b, LLVMRealOLT, x, zero, "");
  return ll.BuildSelect(b, less, zero, x, "");
}

/* ---- tiles ---- */

/* What the tile will write is on its way to the cache while it is computed; what it starts from has
 * to be there already, so then it is the next tile's that is fetched. */
static void fetch_c(const kgen *k, const tile *t, V ldc) {
  enum { LINE = 64 };
  uint32_t first = k->k->flags & GEMM_INIT ? 0 : t->rows;
  for (uint32_t r = 0; r < t->rows; r++)
    for (uint32_t at = 0; at < t->vecs * k->lanes * k->bytes_c; at += LINE) {
      V p = move(k, move(k, k->c, t->c), mul(k, ldc, first + r));
      V in[] = {move(k, p, ci(k, at)), anfi_ll_i32(k->g, 1), anfi_ll_i32(k->g, 3),
                anfi_ll_i32(k->g, 1)};
      anfi_ll_intrinsic(k->g, "llvm.prefetch", k->g->ptr, 4, in);
    }
}

static void run_tile(const kgen *k, tile *t) {
  V row[ROWS], at[SUMS];
  bool ta = k->k->flags & GEMM_TA;
  V ldc = mul(k, k->size[GEMM_LDC], k->bytes_c),
    lda = ta ? ci(k, k->bytes_a) : mul(k, k->size[GEMM_LDA], k->bytes_a);
  LLVMTypeRef lane = lane_of(k, k->k->c);
  for (uint32_t r = 0; r < t->rows; r++) row[r] = mul(k, lda, r);
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) {
    V off = mul(k, ldc, i / t->vecs);
    int64_t col = (int64_t)(i % t->vecs) * k->lanes * k->bytes_c, n;
    at[i] = known(off, &n) ? ci(k, n + col) : ll.BuildAdd(k->g->b, off, ci(k, col), "");
    t->acc[i] = k->k->flags & GEMM_INIT ? ll.ConstNull(k->vec)
                                        : load_vec(k, lane, move(k, move(k, k->c, t->c), at[i]),
                                                   k->bytes_c, tail_of(t, i % t->vecs));
  }
  bool biased = k->dot.steps == 4 && k->k->a == ANF_TIR_s8 && k->k->b == ANF_TIR_s8;
  for (uint32_t j = 0; j < t->vecs && biased; j++) t->over[j] = ll.ConstNull(k->vec);
  fetch_c(k, t, ldc);
  if (k->k->list) sum_list(k, t, row);
  else sum_batch(k, t, move(k, k->a, t->a), move(k, k->b, t->b), row);
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) {
    int64_t n, base;
    V off = known(at[i], &n) && known(t->c, &base) ? ci(k, n + base)
                                                   : ll.BuildAdd(k->g->b, t->c, at[i], "");
    V x = t->acc[i];
    if (biased) x = ll.BuildSub(k->g->b, x, t->over[i % t->vecs], "");
    x = finish(k, t, x, off, i % t->vecs);
    store_vec(k, x, move(k, k->c, off), k->bytes_c, tail_of(t, i % t->vecs));
  }
}

static V sum2(const kgen *k, V a, V b) {
  int64_t x, y;
  if (known(a, &x) && known(b, &y)) return ci(k, x + y);
  if (known(b, &y) && y == 0) return a;
  if (known(a, &x) && x == 0) return b;
  return ll.BuildAdd(k->g->b, a, b, "");
}

/* `count` tiles of one height from row m0 on, in the panel that t says. */
static void tiles(const kgen *k, const tile *panel, int64_t m0, uint32_t rows, int64_t count) {
  if (!count) return;
  loop l;
  bool ta = k->k->flags & GEMM_TA;
  begin(k, &l, ci(k, count), NULL);
  tile t = *panel;
  t.rows = rows;
  V m = sum2(k, ci(k, m0), mul(k, l.i, rows));
  t.a = mul(k, ta ? m : mul2(k, m, k->size[GEMM_LDA]), k->bytes_a);
  t.c = sum2(k, mul(k, mul2(k, m, k->size[GEMM_LDC]), k->bytes_c), mul(k, panel->col, k->bytes_c));
  run_tile(k, &t);
  end(k, &l);
}

static void panel(const kgen *k, V col, uint32_t n) {
  tile t = {.vecs = (n + k->lanes - 1) / k->lanes, .tail = n % k->lanes, .col = col};
  int64_t m = k->k->m, rows = anfi_tile_rows(&k->isa, (uint64_t)m, t.vecs),
          count = (m + rows - 1) / rows, q = m / count, more = m % count;
  t.b = mul(k, col, k->bytes_b);
  tiles(k, &t, 0, (uint32_t)q + 1, more);
  tiles(k, &t, more * (q + 1), (uint32_t)q, count - more);
}

static void panels(const kgen *k) {
  anfi_tile best = anfi_tile_pick(&k->isa, k->lanes, (uint64_t)k->k->m, (uint64_t)k->k->n);
  uint32_t width = best.vecs * k->lanes;
  int64_t full = k->k->n / width, rest = k->k->n % width;
  loop l;
  if (full) {
    begin(k, &l, ci(k, full), NULL);
    panel(k, mul(k, l.i, width), width);
    end(k, &l);
  }
  if (rest) panel(k, ci(k, full * width), (uint32_t)rest);
}

/* ---- functions ---- */

typedef struct lkernel {
  anfi_gemm spec;
  V fn;
} lkernel;

static const char prefix[] = "anf.brgemm.";
bool anfi_kernel_is_name(const char *name) { return strncmp(name, prefix, sizeof prefix - 1) == 0; }

static const char *name_of(lgen *g, const anfi_gemm *k) {
  const char *s =
      anfi_sprintf(g->a, "%s%s%s.%s.%s.m%lldn%lldf%lld", prefix, k->list ? "list." : "",
                   anfi_t_elem_names[k->a], anfi_t_elem_names[k->b], anfi_t_elem_names[k->c],
                   (long long)k->m, (long long)k->n, (long long)k->flags);
  for (int i = 0; i < GEMM_NSIZE; i++)
    s = k->known[i] ? anfi_sprintf(g->a, "%s.%lld", s, (long long)k->size[i])
                    : anfi_sprintf(g->a, "%s.r", s);
  return s;
}

enum { NARGS = 3 + GEMM_NSIZE + 1 + 3 };

static LLVMTypeRef type_of(const lgen *g) {
  LLVMTypeRef t[NARGS];
  for (int i = 0; i < NARGS; i++) t[i] = i < 3 || i > 3 + GEMM_NSIZE ? g->ptr : g->i64;
  return ll.FunctionType(g->none, t, NARGS, 0);
}

static V function(lgen *g, const anfi_gemm *k) {
  const char *name = name_of(g, k);
  V fn = ll.GetNamedFunction(g->m, name);
  if (fn) return fn;
  fn = ll.AddFunction(g->m, name, type_of(g));
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind", false);
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "noinline", false);
  anfi_ll_text_attr(g, fn, "min-legal-vector-width", "512");
  anfi_ll_text_attr(g, fn, "prefer-vector-width", "512");
  lkernel *one = ANFI_NEW(g->a, lkernel);
  *one = (lkernel){*k, fn};
  anfi_push(g->a, &g->kernel, one);
  return fn;
}

/* Of sizes or types that there is no kernel for: the run time's loops. */
static V by_run_time(lgen *g, texpr e) {
  bool list = e->sub == TI_list_brgemm;
  uint32_t n = 0, slot = list ? 13 : 12;
  tdtype s64 = anfi_t_dt(ANF_TIR_s64);
  V in[12];
  for (uint32_t k = slot + TSLOT_binary_rhs + 1; k < e->n; k++)
    if (!anfi_t_is_void(e->in[k]->dtype))
      return anfi_ll_unsupported(g, e, "this post-operation of brgemm");
  for (uint32_t i = 4; i < 12; i++)
    in[n++] = anfi_ll_cast(g, s64, e->in[i]->dtype, anfi_ll_expr(g, e->in[i]));
  for (uint32_t i = 0; i < 3; i++) in[n++] = anfi_ll_i32(g, e->in[list ? 2 : i]->dtype.elem);
  in[n++] = anfi_ll_i64(g, (uint64_t)anfi_gemm_flags(e->u.attrs));
  V kernel = anfi_ll_call_rt(g, "anf_rt_brgemm_kernel", g->ptr, n, in);
  in[n = 0] = kernel;
  for (uint32_t i = 0; i < 3; i++) in[++n] = anfi_ll_expr(g, e->in[i]);
  in[++n] = anfi_ll_cast(g, s64, e->in[3]->dtype, anfi_ll_expr(g, e->in[3]));
  if (list) in[++n] = anfi_ll_cast(g, s64, e->in[12]->dtype, anfi_ll_expr(g, e->in[12]));
  for (uint32_t i = slot; i < slot + 3; i++) {
    bool there = i < e->n && !anfi_t_is_void(e->in[i]->dtype);
    in[++n] = there ? anfi_ll_expr(g, e->in[i]) : ll.ConstNull(g->ptr);
  }
  return anfi_ll_call_rt(g, list ? "anf_rt_brgemm_list_call" : "anf_rt_brgemm_call", g->none, n + 1,
                         in);
}

LLVMValueRef anfi_kernel_call(lgen *g, texpr e) {
  static const uint8_t at[GEMM_NSIZE] = {3, 6, 7, 8, 9, 10, 11};
  anfi_gemm k;
  V in[NARGS];
  uint32_t n = 0, slot = e->sub == TI_list_brgemm ? 13 : 12;
  tdtype s64 = anfi_t_dt(ANF_TIR_s64);
  if (!anfi_gemm_of(e, &k)) return by_run_time(g, e);
  if (k.m <= 0 || k.n <= 0) return ll.GetPoison(g->ptr); // nothing to do
  V fn = function(g, &k);
  for (; n < 3; n++) in[n] = anfi_ll_expr(g, e->in[n]);
  for (uint32_t i = 0; i < GEMM_NSIZE; i++)
    in[n++] = anfi_ll_cast(g, s64, e->in[at[i]]->dtype, anfi_ll_expr(g, e->in[at[i]]));
  in[n++] = k.list ? anfi_ll_cast(g, s64, e->in[12]->dtype, anfi_ll_expr(g, e->in[12]))
                   : anfi_ll_i64(g, 1);
  for (uint32_t i = 0; i < 3; i++) {
    bool there = slot + i < e->n && !anfi_t_is_void(e->in[slot + i]->dtype);
    in[n++] = there ? anfi_ll_expr(g, e->in[slot + i]) : ll.ConstNull(g->ptr);
  }
  return ll.BuildCall2(g->b, type_of(g), fn, in, n, "");
}

static void body(lgen *g, const lkernel *one) {
  kgen k = {.g = g, .k = &one->spec, .fn = one->fn};
  anfi_isa_of_engine(g->e, &k.isa);
  k.sum = anfi_t_dt(one->spec.c);
  k.bytes_a = (uint32_t)anfi_t_bytes(anfi_t_dt(one->spec.a));
  k.bytes_b = (uint32_t)anfi_t_bytes(anfi_t_dt(one->spec.b));
  k.bytes_c = (uint32_t)anfi_t_bytes(k.sum);
  k.lanes = k.isa.bytes / k.bytes_c;
  k.vec = anfi_ll_vector_of(lane_of(&k, one->spec.c), k.lanes);
  k.dot = (anfi_dot){g, k.lanes, anfi_dot_steps(&k.isa, &one->spec), k.isa.native};
  k.a = ll.GetParam(k.fn, 0), k.b = ll.GetParam(k.fn, 1), k.c = ll.GetParam(k.fn, 2);
  for (unsigned i = 0; i < GEMM_NSIZE; i++)
    k.size[i] = one->spec.known[i] ? ci(&k, one->spec.size[i]) : ll.GetParam(k.fn, 3 + i);
  k.len = ll.GetParam(k.fn, 3 + GEMM_NSIZE);
  for (unsigned i = 0; i < 3; i++) k.post[i] = ll.GetParam(k.fn, 4 + GEMM_NSIZE + i);
  ll.PositionBuilderAtEnd(g->b, block(&k));
  panels(&k);
  ll.BuildRetVoid(g->b);
  if (!g->split) ll.SetLinkage(k.fn, LLVMInternalLinkage);
}

void anfi_kernel_emit(lgen *g) {
  for (size_t i = 0; i < g->kernel.n; i++) body(g, g->kernel.at[i]);
}

/* By its name: the same kernel of two modules goes to the same one. */
static uint64_t place_of(const lkernel *one) {
  size_t n;
  const char *name = ll.GetValueName2(one->fn, &n);
  return anfi_jit_sum(name, n).word[0];
}

void anfi_kernel_gather(lgen *to, const lgen *from) {
  uint32_t n = to->split->kernels, at = to->group - to->split->groups;
  for (size_t i = 0; i < from->kernel.n; i++)
    if (place_of(from->kernel.at[i]) % n == at) function(to, &from->kernel.at[i]->spec);
}
