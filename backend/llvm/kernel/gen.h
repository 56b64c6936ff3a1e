// SPDX-License-Identifier: Apache-2.0
/* What the code generators of kernels share: values whose constants are folded here, loops that carry values in
 * registers, masked vectors, the epilogue. */
#ifndef ANFI_KERNEL_GEN_H
#define ANFI_KERNEL_GEN_H

#include "backend/llvm/kernel/emit.h"

enum { SUMS = TILE_SUMS, VECS = TILE_VECS, ROWS = 32 };

typedef struct kgen {
  /* the product and the processor */
  lgen *g;
  const anfi_gemm *k;
  anfi_isa isa;
  /* arguments */
  LLVMValueRef fn, a, b, c, len, post[3];
  LLVMValueRef size[GEMM_NSIZE]; // elements
  LLVMValueRef fresh;            // 1: sums start from zeros, 0: from C
  /* types */
  uint32_t lanes, bytes_a, bytes_b, bytes_c;
  tdtype sum;
  LLVMTypeRef vec;
  anfi_dot dot; // steps 0: none
  bool pairs;   // of two steps of K the second is summed first
  /* on the stack, or NULL: the panel of B in VNNI layout; the excess of its columns (vnni.c) */
  LLVMValueRef packed, excess;
} kgen;

typedef struct ktile {
  /* place */
  uint32_t rows, vecs, tail; // tail: columns of the last vector, 0 all
  LLVMValueRef a, b, c, col; // where it starts; number of its first column
  /* sums */
  LLVMValueRef acc[SUMS];
  LLVMValueRef excess[VECS]; // signed A is read as A + 128: 128 times the sums of B's columns
} ktile;
static inline uint32_t tail_of(const ktile *t, uint32_t j) {
  return j + 1 == t->vecs ? t->tail : 0;
}

/* ---- values ---- */

static inline LLVMValueRef ci(const kgen *k, int64_t v) {
  return ll.ConstInt(k->g->i64, (uint64_t)v, 1);
}
static inline bool known(LLVMValueRef v, int64_t *n) {
  if (!ll.IsAConstantInt(v)) return false;
  *n = (int64_t)ll.ConstIntGetZExtValue(v);
  return true;
}
static inline LLVMValueRef mul(const kgen *k, LLVMValueRef a, int64_t b) {
  int64_t n;
  return known(a, &n) ? ci(k, n * b) : ll.BuildMul(k->g->b, a, ci(k, b), "");
}
static inline LLVMValueRef mul2(const kgen *k, LLVMValueRef a, LLVMValueRef b) {
  int64_t n;
  if (known(b, &n)) return mul(k, a, n);
  return known(a, &n) ? mul(k, b, n) : ll.BuildMul(k->g->b, a, b, "");
}
static inline LLVMValueRef sum2(const kgen *k, LLVMValueRef a, LLVMValueRef b) {
  int64_t x, y;
  if (known(a, &x) && known(b, &y)) return ci(k, x + y);
  if (known(b, &y) && y == 0) return a;
  if (known(a, &x) && x == 0) return b;
  return ll.BuildAdd(k->g->b, a, b, "");
}
static inline LLVMValueRef move(const kgen *k, LLVMValueRef p, LLVMValueRef bytes) {
  int64_t n;
  if (known(bytes, &n) && n == 0) return p;
  return ll.BuildGEP2(k->g->b, k->g->i8, p, &bytes, 1, "");
}
static inline LLVMValueRef splat(const kgen *k, LLVMValueRef x) {
  return anfi_ll_splat(k->g, x, k->lanes);
}

/* ---- gen.c: loops ---- */

/* Values that a loop carries; after the loop they are what it left. */
typedef struct carried {
  LLVMValueRef *at[SUMS + VECS + 4];
  LLVMValueRef phi[SUMS + VECS + 4];
  uint32_t n;
} carried;
typedef struct kloop {
  LLVMBasicBlockRef before, body, after;
  LLVMValueRef i, count;
  carried *c;
  bool none, guarded;
} kloop;
static inline void carry(carried *c, LLVMValueRef *v) { c->at[c->n++] = v; }
void anfi_kg_carry_sums(carried *c, ktile *t);
/* Runs `count` times; a constant 1 is no loop. */
void anfi_kg_begin(const kgen *k, kloop *l, LLVMValueRef count, carried *c);
void anfi_kg_end(const kgen *k, kloop *l);
/* body(k, from, width) for blocks of `width` of n, in a loop, and then for the rest. */
void anfi_kg_blocks(const kgen *k, int64_t n, uint32_t width,
                    void (*body)(const kgen *k, LLVMValueRef from, uint32_t width));
LLVMBasicBlockRef anfi_kg_block(const kgen *k);

/* On the stack; the builder is in the function's first block. */
LLVMValueRef anfi_kg_stack(const kgen *k, uint64_t bytes);

/* ---- gen.c: memory; `tail`: of the lanes only so many, 0 all ---- */
LLVMTypeRef anfi_kg_lane(const kgen *k, anf_tir_elem e);
LLVMValueRef anfi_kg_load(const kgen *k, LLVMTypeRef lane, LLVMValueRef p, uint32_t bytes,
                          uint32_t tail);
LLVMValueRef anfi_kg_load_as(const kgen *k, LLVMTypeRef vec, uint32_t lanes, LLVMValueRef p,
                             uint32_t bytes, uint32_t tail);
void anfi_kg_store(const kgen *k, LLVMValueRef v, LLVMValueRef p, uint32_t bytes, uint32_t tail);
/* a * b + c, rounded once, of vectors or numbers of that type. */
LLVMValueRef anfi_kg_fma(const kgen *k, LLVMTypeRef type, LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef c);
LLVMValueRef anfi_kg_of_bf16(const kgen *k, LLVMValueRef v, uint32_t n); // n lanes as f32
LLVMValueRef anfi_kg_intrinsic(const kgen *k, const char *name, LLVMTypeRef *over, uint32_t nover,
                               LLVMValueRef *in, uint32_t n);

/* ---- gen.c: the epilogue ---- */
/* A vector of C: bytes from C's start, its first column less that of vector `nth`. */
typedef struct kplace {
  LLVMValueRef at, col;
  uint32_t nth, tail;
} kplace;
LLVMValueRef anfi_kg_epilogue(const kgen *k, LLVMValueRef x, const kplace *p);

/* ---- vnni.c: sums by dot products ---- */
bool anfi_kg_biased(const kgen *k); // is signed A read as unsigned A + 128?
/* Sums whole groups of k; gives the steps left, fewer than a group. `row`: bytes from row to row of A. */
LLVMValueRef anfi_kg_dots(const kgen *k, ktile *t, LLVMValueRef *a, LLVMValueRef *b,
                          const LLVMValueRef *row);
/* Room on the stack for a panel of B in VNNI layout, if more than one tile of rows reads it and it fits. */
void anfi_kg_alloc_panel(kgen *k, const anfi_tile *t);
void anfi_kg_pack_panel(const kgen *k, ktile *t);
/* Does each tile sum the excess itself? */
bool anfi_kg_tiles_sum_excess(const kgen *k);
/* The excess of vector j of a row of sums. */
LLVMValueRef anfi_kg_excess(const kgen *k, const ktile *t, uint32_t j);

/* gemm.c: `count` tiles of k's M rows and N columns, from row m0 and column col on. */
void anfi_kg_tiles(const kgen *k, LLVMValueRef m0, LLVMValueRef col, LLVMValueRef count);
/* call.c: calls the function of these tiles, if another kernel has such; false: there is none. */
bool anfi_kernel_call_tiles(const kgen *k, const anfi_cut *cut, LLVMValueRef col);

/* The three forms of a kernel. gemm.c: vectors of columns; amx.c: tile registers (anfi_tile_amx) */
void anfi_kg_panels(kgen *k);
void anfi_kg_amx(const kgen *k);
/* transposed.c: vectors of rows (anfi_gemm_is_transposed) */
void anfi_kg_transposed(const kgen *k);

#endif
