// SPDX-License-Identifier: Apache-2.0
/* Dot-product instructions: a sum of 32 bits takes four products of bytes, or two of bf16, at once (rows of
 * kernel/dot.def).
 *   acc + a0 b0 + a1 b1 + a2 b2 + a3 b3   ->   one vpdpbusd for 16 sums
 *   acc + a0 b0 + a1 b1 of s16            ->   vpmaddwd and vpaddd, which every x86-64 has
 * One instruction where the target has it, elsewhere equivalent code, so that kernels made of them run on any machine.
 * Bytes are exact; bf16 as VDPBF16PS, the odd product first, each added with one rounding; the instruction flushes
 * denormals, the code does not. */
#include "backend/llvm/kernel/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef words(const anfi_dot *d) { return anfi_ll_vector_of(d->g->i32, d->lanes); }

V anfi_dot_interleave(const anfi_dot *d, V *row) {
  lgen *g = d->g;
  V at[256], both[2] = {row[0], row[1]};
  uint32_t n = d->lanes, rows = 2;
  for (;; rows = 4) { // pairs of rows, then pairs of pairs
    for (uint32_t i = 0; i < n * rows / 2; i++)
      for (uint32_t u = 0; u < 2; u++) at[2 * i + u] = anfi_ll_i32(g, i + u * (n * rows / 2));
    if (rows == 2 && d->steps == 4) break;
    V x = ll.BuildShuffleVector(g->b, both[0], both[1], ll.ConstVector(at, n * rows), "");
    return d->info->form == DOT_WIDENED ? anfi_dot_widen(d, x)
                                        : ll.BuildBitCast(g->b, x, words(d), "");
  }
  V mask = ll.ConstVector(at, 2 * n), half[2];
  for (uint32_t u = 0; u < 2; u++) // rows 0 and 2, rows 1 and 3
    half[u] = ll.BuildShuffleVector(g->b, row[u], row[u + 2], mask, "");
  for (uint32_t i = 0; i < 2 * n; i++)
    for (uint32_t u = 0; u < 2; u++) at[2 * i + u] = anfi_ll_i32(g, i + u * 2 * n);
  return ll.BuildBitCast(
      g->b, ll.BuildShuffleVector(g->b, half[0], half[1], ll.ConstVector(at, 4 * n), ""), words(d),
      "");
}

static V call(const anfi_dot *d, const char *name, V *in, unsigned n) {
  lgen *g = d->g;
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  V f = ll.GetIntrinsicDeclaration(g->m, id, NULL, 0);
  return ll.BuildCall2(g->b, ll.IntrinsicGetType(g->c, id, NULL, 0), f, in, n, "");
}

/* Byte u of each lane: of a as it is, of b with its sign. */
static V bytes_by_hand(const anfi_dot *d, V acc, V a, V b) {
  lgen *g = d->g;
  LLVMTypeRef t = words(d);
  for (unsigned u = 0; u < 4; u++) {
    V x = ll.BuildAnd(g->b, ll.BuildLShr(g->b, a, anfi_ll_int(t, 8 * u), ""), anfi_ll_int(t, 255),
                      ""),
      y = ll.BuildAShr(g->b, ll.BuildShl(g->b, b, anfi_ll_int(t, 24 - 8 * u), ""),
                       anfi_ll_int(t, 24), "");
    acc = ll.BuildAdd(g->b, acc, ll.BuildMul(g->b, x, y, ""), "");
  }
  return acc;
}

static V bf16_by_hand(const anfi_dot *d, V acc, V a, V b) {
  lgen *g = d->g;
  LLVMTypeRef t = words(d), f = anfi_ll_vector_of(g->f32, d->lanes);
  for (int odd = 1; odd >= 0; odd--) {
    V x[3] = {a, b, acc};
    for (int i = 0; i < 2; i++) {
      x[i] = odd ? ll.BuildAnd(g->b, x[i], anfi_ll_int(t, 0xffff0000), "")
                 : ll.BuildShl(g->b, x[i], anfi_ll_int(t, 16), "");
      x[i] = ll.BuildBitCast(g->b, x[i], f, "");
    }
    acc = anfi_ll_intrinsic(g, "llvm.fma", f, 3, x);
  }
  return acc;
}

static V call_on(const anfi_dot *d, const char *name, V a, V b, LLVMTypeRef t) {
  V in[2] = {ll.BuildBitCast(d->g->b, a, t, ""), ll.BuildBitCast(d->g->b, b, t, "")};
  return call(d, name, in, 2);
}

/* Pairs of products in 16 bits, which do not saturate: 255 * 64 twice is less than 2^15. Then pairs of those. */
static V small_bytes(const anfi_dot *d, V acc, V a, V b) {
  lgen *g = d->g;
  bool wide = d->lanes == 16;
  LLVMTypeRef pairs = anfi_ll_vector_of(g->i16, 2 * d->lanes);
  V ones = ll.BuildBitCast(g->b, anfi_ll_int(words(d), 0x00010001), pairs, ""),
    x = call_on(d, wide ? "llvm.x86.avx512.pmaddubs.w.512" : "llvm.x86.avx2.pmadd.ub.sw", a, b,
                anfi_ll_vector_of(g->i8, 4 * d->lanes));
  x = call_on(d, wide ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd", x, ones, pairs);
  return ll.BuildAdd(g->b, acc, x, "");
}

V anfi_dot_bytes(const anfi_dot *d, V acc, V a, V b) {
  V in[3] = {acc, a, b};
  if (d->small && d->native) return small_bytes(d, acc, a, b);
  return d->native ? call(d, d->info->vector, in, 3) : bytes_by_hand(d, acc, a, b);
}

V anfi_dot_bf16(const anfi_dot *d, V acc, V a, V b) {
  lgen *g = d->g;
  LLVMTypeRef t = ll.VectorType(ll.BFloatTypeInContext(g->c), 2 * d->lanes);
  if (!d->native) return bf16_by_hand(d, acc, a, b);
  V in[3] = {acc, ll.BuildBitCast(g->b, a, t, ""), ll.BuildBitCast(g->b, b, t, "")};
  return call(d, d->info->vector, in, 3);
}

V anfi_dot_widen(const anfi_dot *d, V x) {
  lgen *g = d->g;
  LLVMTypeRef t = anfi_ll_vector_of(g->i16, d->lanes * d->steps);
  x = d->info->b == ANF_TIR_u8 ? ll.BuildZExt(g->b, x, t, "") : ll.BuildSExt(g->b, x, t, "");
  return ll.BuildBitCast(g->b, x, words(d), "");
}

static V half(const anfi_dot *d, V x, unsigned u) {
  LLVMTypeRef t = words(d);
  if (!u) x = ll.BuildShl(d->g->b, x, anfi_ll_int(t, 16), "");
  return ll.BuildAShr(d->g->b, x, anfi_ll_int(t, 16), "");
}

V anfi_dot_pairs(const anfi_dot *d, V acc, V a, V b) {
  static const char *const name[] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
                                     "llvm.x86.avx512.pmaddw.d.512"};
  lgen *g = d->g;
  if (!d->native) {
    for (unsigned u = 0; u < 2; u++)
      acc = ll.BuildAdd(g->b, acc, ll.BuildMul(g->b, half(d, a, u), half(d, b, u), ""), "");
    return acc;
  }
  LLVMTypeRef t = anfi_ll_vector_of(g->i16, 2 * d->lanes);
  V in[2] = {ll.BuildBitCast(g->b, a, t, ""), ll.BuildBitCast(g->b, b, t, "")};
  return ll.BuildAdd(g->b, acc, call(d, name[d->lanes / 8], in, 2), "");
}

V anfi_dot_round(const anfi_dot *d, V x) {
  lgen *g = d->g;
  x = call(d, "llvm.x86.avx512bf16.cvtneps2bf16.512", &x, 1);
  return ll.BuildBitCast(g->b, x, anfi_ll_vector_of(g->i16, d->lanes), "");
}
