// SPDX-License-Identifier: Apache-2.0
/* Kernels: batch-reduce matrix products, C[M, N] (+)= sum over a batch of A[M, K] B[K, N], and the choices behind
 * them: instruction sets, register tiles, cache blocks.
 *
 * This folder and llvm/kernel alone know names of instruction sets. INVARIANT: an element of C is one sum in ascending
 * order of the batch and of K, each product added with one rounding; so all forms of a kernel (any instruction set, any
 * tile, the C text, the interpreter) agree bit for bit in f32, f64, bf16 by way of f32 and integers, and blocks of K
 * that are added up later change nothing. Where A and B are bf16, steps of K are summed in pairs, the second first: the
 * order of the machine's dot product, which also reads denormals as zero. */
#ifndef ANFI_BACKEND_KERNEL_H
#define ANFI_BACKEND_KERNEL_H

#include "base/gemm.h"
#include "backend/tir/tir.h"

struct anf_jit_engine;

/* ---- isa.c: the machine ---- */
typedef enum anfi_cpu {
#define ANF_CPU(name, features, bytes, regs) CPU_##name,
#include "backend/kernel/cpu.def"
#undef ANF_CPU
  CPU_COUNT
} anfi_cpu;
typedef struct anfi_isa {
  uint32_t has, own;    // bits of anfi_cpu; those of the target itself, whatever was chosen
  uint32_t bytes, regs; // of a vector; how many
  bool fma;             // multiply-adds with one rounding
  bool native;          // its dot products are instructions of the target, else equivalent code
  bool exact;           // dot products that reorder sums (dot.def) are not allowed
  uint32_t l1, l2;      // bytes of a core's data caches
  uint32_t l3;          // of the last cache, which cores share
} anfi_isa;
static inline bool anfi_isa_has(const anfi_isa *isa, anfi_cpu cpu) { return isa->has >> cpu & 1; }
/* What the features ("+avx2,-fma,...") of a target offer. */
void anfi_isa_of(const char *triple, const char *features, anfi_isa *out);
/* The one of this name instead of a target's own; NULL or "": its own, with this machine's caches. A wider one than
 * the target's is cut by LLVM: slow, and the same values. False: the name is not known. */
bool anfi_isa_choose(const char *name, anfi_isa *out);

/* ---- tile.c: tiles of registers, blocks of caches ---- */
enum { TILE_VECS = 24, TILE_SUMS = 32 };
typedef struct anfi_tile {
  uint32_t rows, vecs; // rows * vecs sums, each a vector
} anfi_tile;
/* The tile that does m rows and n columns in the fewest cycles; `lanes` elements a vector. */
anfi_tile anfi_tile_pick(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);
/* The height of tiles of so many vectors, for m rows. */
uint32_t anfi_tile_rows(const anfi_isa *isa, uint64_t m, uint32_t vecs);
/* Does it take fewer cycles with sums of 16 rows in a vector? (transposed.c) */
bool anfi_tile_is_transposed(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);
/* Cycles of an m by n product for each step of K, as the model has it. */
double anfi_tile_cost(const anfi_isa *isa, uint32_t lanes, uint64_t m, uint64_t n);

/* Cache blocks of a product: the sums of `mb` rows and a panel of `nr` columns take `kb` steps at a time; `group`
 * panels are packed together. */
typedef struct anfi_blocks {
  uint64_t mb, nr, kb, group;
  bool pack_a, pack_b;
} anfi_blocks;
typedef struct anfi_product {
  /* sizes */
  uint64_t m, n, k;
  uint32_t bytes; // of an element of A and B
  uint32_t sum;   // the same, of C
  /* storage of A and B */
  bool ta, tb;       // A is stored K by M, B is stored N by K
  bool prepacked;    // B is in packed panels already
  bool adds;         // dot products are added in a second instruction (anfi_dot_adds)
  bool wide_a;       // kernels read A in twice as many bytes
  uint64_t lda, ldb; // as stored
} anfi_product;
anfi_blocks anfi_blocks_pick(const anfi_isa *isa, const anfi_product *p);

/* ---- spec.c: the kernel that a call needs ---- */
enum { GEMM_NUM, GEMM_K, GEMM_LDA, GEMM_LDB, GEMM_LDC, GEMM_SA, GEMM_SB, GEMM_NSIZE };
extern const uint8_t anfi_gemm_operand[GEMM_NSIZE]; // their operands of brgemm
typedef struct anfi_gemm {                          // one kernel: its constants
  anf_tir_elem a, b, c;
  int64_t m, n, size[GEMM_NSIZE];
  bool known[GEMM_NSIZE]; // of sizes; others are given when it is called
  bool list;
  int64_t flags;
} anfi_gemm;
/* A row of dot.def. */
typedef enum anfi_dot_form { DOT_PLAIN, DOT_SWAPPED, DOT_BIASED, DOT_WIDENED } anfi_dot_form;
typedef struct anfi_dot_info {
  /* types */
  anf_tir_elem a, b, c;
  uint32_t group; // of k
  /* instructions */
  anfi_cpu cpu, tile_cpu;
  const char *vector, *tile; // LLVM's intrinsics, or NULL
  anfi_dot_form form;
  bool reorders;
} anfi_dot_info;
/* The dot product of these types, or NULL; c may be bf16 where the sum is f32. */
const anfi_dot_info *anfi_dot_of(anf_tir_elem a, anf_tir_elem b, anf_tir_elem c);
/* Does the machine have it by tiles, and may it use that? */
bool anfi_dot_has_tile(const anfi_isa *isa, const anfi_dot_info *d);
/* Steps of K that one dot product of the kernel takes (group of k): 4, 2, or 0 if it has none. */
uint32_t anfi_dot_group(const anfi_isa *isa, const anfi_gemm *k);
/* Has it no dot product of bytes, but that of pairs that fit 16 bits, because B is small? */
bool anfi_dot_is_small(const anfi_isa *isa, const anfi_gemm *k);
/* The group of k of a B in VNNI layout, if kernels of such types and flags read it best so; else 1. */
uint32_t anfi_vnni_group_of(const anfi_isa *isa, const anfi_gemm *k);
/* Of an intrinsic call; false: its shape is not known, or there is no kernel. */
bool anfi_gemm_of(texpr e, anfi_gemm *out);

/* The type as which kernels read the bytes of A: s16 where only pairs of 16 bits have a dot product, which is exact; else
 * its own. `small`: no byte of B is outside [-64, 64]. */
anf_tir_elem anfi_widened_a(const anfi_isa *isa, anf_tir_elem a, anf_tir_elem b, bool small);
/* Has the dot product of these types a result that is added in a second instruction, for which a register is free? */
bool anfi_dot_adds(const anfi_isa *isa, const anfi_gemm *k);

/* Tiles of one height, one below the other, in a panel of columns. Heights are balanced, so a panel has at most two. */
typedef struct anfi_cut {
  uint32_t rows, columns; // of a tile
  int64_t from, count;    // first row; tiles
} anfi_cut;
enum { GEMM_CUTS = 4 }; // of the full panels, and of a narrower last one
/* tile.c: how many; `lanes` sums a vector. */
uint32_t anfi_gemm_cuts(const anfi_isa *isa, uint32_t lanes, const anfi_gemm *k, anfi_cut *out);

/* Is it a product of few columns that vectors of rows do? (llvm/kernel/transposed.c) */
bool anfi_gemm_is_transposed(const anfi_isa *isa, const anfi_gemm *k);
/* tile.c: does it take fewer cycles with tile registers? */
bool anfi_tile_amx(const anfi_isa *isa, const anfi_gemm *k);

#endif
