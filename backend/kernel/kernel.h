// SPDX-License-Identifier: Apache-2.0
/* Kernels: batch-reduce matrix products, C[M, N] (+)= sum over a batch of A[M, K] B[K, N], and what
 * they follow: registers of the machine at hand, tiles of registers, blocks of caches.
 *
 * This folder alone knows names of instruction sets. INVARIANT: an element of C is one sum in
 * ascending order of the batch and of K, each product added with one rounding; so all forms of a
 * kernel (any instruction set, any tile, the C text, the interpreter) agree bit for bit in f32, f64,
 * bf16 by way of f32 and integers, and blocks of K that are added up later change nothing. Where A and
 * B are bf16, steps of K are taken in pairs, the second first: the order of the machine's dot product,
 * which also takes denormals as zero. */
#ifndef ANFI_BACKEND_KERNEL_H
#define ANFI_BACKEND_KERNEL_H

#include "base/gemm.h"
#include "backend/tir/tir.h"

struct anf_jit_engine;

/* ---- isa.c: the machine ---- */
typedef enum anfi_isa_level { ISA_PLAIN, ISA_SSE, ISA_AVX2, ISA_AVX512, ISA_COUNT } anfi_isa_level;
typedef struct anfi_isa {
  anfi_isa_level level;
  uint32_t bytes, regs; // of a vector; how many
  bool fma, bf16, vnni; // products of one rounding; dot products of pairs and quads,
  bool amx;             // products of tiles of such dots
  bool native;          // which are instructions of the target: dot.c, amx.c
  bool exact;           // sums of bf16 in another order than that of kernels are not taken
  uint32_t l1, l2;      // bytes of the caches that a core has for data
} anfi_isa;
/* What the features ("+avx2,-fma,...") of a target offer. */
void anfi_isa_of(const char *triple, const char *features, anfi_isa *out);
/* As an engine has it: its target's, unless its options name another one. A wider one than the
 * target's is cut by LLVM: slow, and the same values. False: the name is not known. */
bool anfi_isa_of_engine(const struct anf_jit_engine *e, anfi_isa *out);

/* ---- tile.c: tiles of registers, blocks of caches ---- */
enum { TILE_VECS = 24, TILE_SUMS = 32 };
typedef struct anfi_tile {
  uint32_t rows, vecs; // rows * vecs sums, each a vector
} anfi_tile;
/* The tile that does m rows and n columns in the fewest cycles; `lanes` elements a vector. */
anfi_tile anfi_tile_pick(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);
/* The height of tiles of so many vectors, for m rows. */
uint32_t anfi_tile_rows(const anfi_isa *isa, uint64_t m, uint32_t vecs);
/* Is it done in fewer cycles with sums of 16 rows in a vector? (turned.c) */
bool anfi_tile_is_transposed(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);
/* Cycles of an m by n product for each step of K, as the model has it. */
double anfi_tile_cost(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);

/* How a product of m, n, k is cut: the sums of `mb` rows and a panel of `nr` columns take `kb` steps
 * at a time; `group` panels are copied together. */
typedef struct anfi_blocks {
  uint64_t mb, nr, kb, group;
  bool pack_a, pack_b; // copy blocks to where they lie close together
} anfi_blocks;
typedef struct anfi_product {
  uint64_t m, n, k;
  uint32_t bytes;    // of an element of A and B
  uint32_t sum;      // the same, of C
  bool ta, tb;       // A is stored K by M, B is stored N by K
  bool prepacked;    // B lies by panels already
  uint64_t lda, ldb; // as stored
} anfi_product;
anfi_blocks anfi_blocks_pick(const anfi_isa *isa, const anfi_product *p);

/* ---- spec.c: what is asked for ---- */
/* GEMM_INIT and so on */
int64_t anfi_gemm_flags(tattrs a);
enum { GEMM_NUM, GEMM_K, GEMM_LDA, GEMM_LDB, GEMM_LDC, GEMM_SA, GEMM_SB, GEMM_NSIZE };
typedef struct anfi_gemm { // one kernel: what is constant
  anf_tir_elem a, b, c;
  int64_t m, n, size[GEMM_NSIZE];
  bool known[GEMM_NSIZE]; // of sizes; others are given when it is called
  bool list;
  int64_t flags;
} anfi_gemm;
/* Is there a kernel for these types and flags? */
bool anfi_gemm_supported(const anfi_gemm *g);
/* Steps of K that one dot product takes, for a kernel: 4, 2, or 0 if it has none. */
uint32_t anfi_dot_group(const anfi_isa *isa, const anfi_gemm *k);
/* Steps of K that kernels of such types read at once of B, if it is best laid out by words; else 1. */
uint32_t anfi_vnni_group_of(const anfi_isa *isa, anf_tir_elem a, anf_tir_elem b, anf_tir_elem c);
/* Of an intrinsic call; false: its shape is not known, or there is no kernel. */
bool anfi_gemm_of(texpr e, anfi_gemm *out);

/* turned.c: has the product few columns, and is one that vectors of rows can do? */
bool anfi_gemm_is_transposed(const anfi_isa *isa, const anfi_gemm *k);
/* tile.c: is it done in fewer cycles by tiles of AMX? */
bool anfi_tile_amx(const anfi_isa *isa, const anfi_gemm *k);

#endif
