// SPDX-License-Identifier: Apache-2.0
/* What the code generators of kernels share: loops, masked vectors, the epilogue.
 *   anfi_kg_begin(k, &l, n, &c); .. anfi_kg_end(k, &l);   ->   for (i = 0; i < n; i++) .., the values of c being phis
 * Vectors are explicit: the code is what is written here, at any level of optimisation. */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

/* ---- loops ---- */

LLVMBasicBlockRef anfi_kg_block(const kgen *k) {
  return ll.AppendBasicBlockInContext(k->g->c, k->fn, "");
}

void anfi_kg_carry_sums(carried *c, ktile *t) {
  for (uint32_t i = 0; i < t->rows * t->vecs; i++) carry(c, &t->acc[i]);
  for (uint32_t j = 0; j < t->vecs && t->excess[0]; j++) carry(c, &t->excess[j]);
}

void anfi_kg_begin(const kgen *k, kloop *l, V count, carried *c) {
  int64_t n = -1;
  LLVMBuilderRef b = k->g->b;
  bool fixed = known(count, &n);
  *l = (kloop){.count = count, .c = c, .none = fixed && n == 1, .guarded = !fixed || n == 0};
  l->i = ci(k, 0);
  if (l->none) return;
  l->before = ll.GetInsertBlock(b);
  l->body = anfi_kg_block(k), l->after = anfi_kg_block(k);
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

void anfi_kg_end(const kgen *k, kloop *l) {
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
    V in[2] = {NULL, left}; // of no iterations: the value before
    LLVMBasicBlockRef from[2] = {l->before, last};
    in[0] = ll.GetIncomingValue(c->phi[i], 0);
    *c->at[i] = ll.BuildPhi(b, ll.TypeOf(left), "");
    ll.AddIncoming(*c->at[i], in, from, 2);
  }
}

void anfi_kg_blocks(const kgen *k, int64_t n, uint32_t width,
                    void (*body)(const kgen *k, LLVMValueRef from, uint32_t width)) {
  int64_t full = n / width, rest = n % width;
  kloop l;
  if (full) {
    anfi_kg_begin(k, &l, ci(k, full), NULL);
    body(k, mul(k, l.i, width), width);
    anfi_kg_end(k, &l);
  }
  if (rest) body(k, ci(k, full * width), (uint32_t)rest);
}

/* ---- memory ---- */

V anfi_kg_stack(const kgen *k, uint64_t bytes) {
  enum { LINE = 64 };
  V at = ll.BuildAlloca(k->g->b, ll.ArrayType2(k->g->i8, bytes), "");
  ll.SetAlignment(at, LINE);
  return at;
}

static V mask_of(const kgen *k, uint32_t lanes, uint32_t n) {
  V on[64];
  for (uint32_t i = 0; i < lanes; i++) on[i] = ll.ConstInt(k->g->i1, i < n, 0);
  return ll.ConstVector(on, lanes);
}

V anfi_kg_intrinsic(const kgen *k, const char *name, LLVMTypeRef *over, uint32_t nover, V *in,
                    uint32_t n) {
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  V f = ll.GetIntrinsicDeclaration(k->g->m, id, over, nover);
  return ll.BuildCall2(k->g->b, ll.IntrinsicGetType(k->g->c, id, over, nover), f, in, n, "");
}

V anfi_kg_fma(const kgen *k, LLVMTypeRef type, V a, V b, V c) {
  V in[3] = {a, b, c};
  return anfi_kg_intrinsic(k, "llvm.fma", &type, 1, in, 3);
}

V anfi_kg_load_as(const kgen *k, LLVMTypeRef vec, uint32_t lanes, V p, uint32_t bytes,
                  uint32_t tail) {
  LLVMTypeRef over[2] = {vec, k->g->ptr};
  if (!tail || tail == lanes) {
    V v = ll.BuildLoad2(k->g->b, vec, p, "");
    ll.SetAlignment(v, bytes);
    return v;
  }
  V in[] = {p, anfi_ll_i32(k->g, bytes), mask_of(k, lanes, tail), ll.ConstNull(vec)};
  return anfi_kg_intrinsic(k, "llvm.masked.load", over, 2, in, 4);
}

V anfi_kg_load(const kgen *k, LLVMTypeRef lane, V p, uint32_t bytes, uint32_t tail) {
  return anfi_kg_load_as(k, anfi_ll_vector_of(lane, k->lanes), k->lanes, p, bytes, tail);
}

void anfi_kg_store(const kgen *k, V v, V p, uint32_t bytes, uint32_t tail) {
  LLVMTypeRef over[2] = {ll.TypeOf(v), k->g->ptr};
  if (!tail || tail == k->lanes) {
    ll.SetAlignment(ll.BuildStore(k->g->b, v, p), bytes);
    return;
  }
  V in[] = {v, p, anfi_ll_i32(k->g, bytes), mask_of(k, k->lanes, tail)};
  anfi_kg_intrinsic(k, "llvm.masked.store", over, 2, in, 4);
}

LLVMTypeRef anfi_kg_lane(const kgen *k, anf_tir_elem e) {
  lgen *g = k->g;
  return e == ANF_TIR_bf16 || e == ANF_TIR_s16 ? g->i16
         : e == ANF_TIR_u8 || e == ANF_TIR_s8  ? g->i8
         : e == ANF_TIR_f64                    ? g->f64
         : e == ANF_TIR_s32                    ? g->i32
                                               : g->f32;
}

/* ---- the epilogue ---- */

static V float_op(const kgen *k, int64_t op, V x, V y) {
  LLVMBuilderRef b = k->g->b;
  if (op == 1) return ll.BuildFAdd(b, x, y, "");
  if (op == 2) return ll.BuildFMul(b, x, y, "");
  LLVMTypeRef over = ll.TypeOf(x);
  V in[2] = {x, y};
  return anfi_kg_intrinsic(k, op == 3 ? "llvm.maxnum" : "llvm.minnum", &over, 1, in, 2);
}

V anfi_kg_of_bf16(const kgen *k, V v, uint32_t n) {
  lgen *g = k->g;
  LLVMTypeRef t = anfi_ll_vector_of(g->i32, n);
  v = ll.BuildShl(g->b, ll.BuildZExt(g->b, v, t, ""), anfi_ll_int(t, 16), "");
  return ll.BuildBitCast(g->b, v, anfi_ll_vector_of(g->f32, n), "");
}
static V widened(const kgen *k, V v) { return anfi_kg_of_bf16(k, v, k->lanes); }

static V column_data(const kgen *k, const kplace *to, V p, anf_tir_elem e) {
  uint32_t bytes = (uint32_t)anfi_t_bytes(anfi_t_dt(e));
  V at = move(k, move(k, p, mul(k, to->col, bytes)), ci(k, (int64_t)to->nth * k->lanes * bytes));
  V v = anfi_kg_load(k, anfi_kg_lane(k, e), at, bytes, to->tail);
  if (e == k->sum.elem) return v;
  return e == ANF_TIR_bf16 ? widened(k, v) : ll.BuildFPExt(k->g->b, v, k->vec, "");
}

/* Ends as what C holds; to bf16 each step is rounded. */
static V as_c(const kgen *k, V x) {
  if (k->k->c != ANF_TIR_bf16) return x;
  if (anfi_isa_has(&k->isa, CPU_bf16) && k->isa.native && k->dot.steps)
    return anfi_dot_round(&k->dot, x);
  tdtype f32 = anfi_t_dt(ANF_TIR_f32), c = anfi_t_dt(ANF_TIR_bf16);
  f32.lanes = c.lanes = (uint16_t)k->lanes;
  return anfi_ll_cast(k->g, c, f32, x);
}
static V rounded(const kgen *k, V x) {
  return k->k->c == ANF_TIR_bf16 ? widened(k, as_c(k, x)) : x;
}

V anfi_kg_epilogue(const kgen *k, V x, const kplace *p) {
  LLVMBuilderRef b = k->g->b;
  int64_t f = k->k->flags, binary = (f & GEMM_BINARY) >> GEMM_BINARY_AT;
  V bias = f & GEMM_BIAS ? column_data(k, p, k->post[0], k->k->c) : NULL;
  if (f & GEMM_BIAS_IN) x = ll.BuildFAdd(b, x, bias, "");
  if (f & GEMM_SCALE)
    x = ll.BuildFMul(b, rounded(k, x), column_data(k, p, k->post[1], ANF_TIR_f32), "");
  if (bias && !(f & GEMM_BIAS_IN)) x = ll.BuildFAdd(b, rounded(k, x), bias, "");
  if (binary) {
    V at = move(k, k->post[2], p->at);
    V y = anfi_kg_load(k, anfi_kg_lane(k, k->k->c), at, k->bytes_c, p->tail);
    x = float_op(k, binary, rounded(k, x), k->k->c == ANF_TIR_bf16 ? widened(k, y) : y);
  }
  if (!(f & GEMM_RELU)) return as_c(k, x);
  V zero = ll.ConstNull(k->vec);
  V less = k->sum.elem == ANF_TIR_s32 ? ll.BuildICmp(b, LLVMIntSLT, x, zero, "")
                                      : ll.BuildFCmp(b, LLVMRealOLT, x, zero, "");
  return as_c(k, ll.BuildSelect(b, less, zero, x, ""));
}
