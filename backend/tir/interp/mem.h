// SPDX-License-Identifier: Apache-2.0
/* Memory of the interpreter: blocks behind pointers that carry a slot and a generation, so that no
 * program can reach what is not its own; in checked mode also what was written, and by which
 * iteration of a parallel loop. */
#ifndef ANFI_TIR_INTERP_MEM_H
#define ANFI_TIR_INTERP_MEM_H

#include "backend/tir/tir.h"

typedef struct iblock {
  uint8_t *p;
  size_t size;
  uint8_t *set;             // one flag a byte: has a value; NULL: all have
  uint32_t *written, *read; // place in the tree of iterations + 1, a byte; NULL: not yet
  uint8_t gen;
  bool owned, live;
} iblock;

/* One iteration of one run of a parallel loop, inside another iteration. */
typedef struct ipath {
  uint32_t parent, depth;
  uint32_t run; // of the loop
} ipath;

typedef struct imem {
  anf_ctx *cx;
  anfi_arena *a;
  ANFI_VEC(iblock) block;
  ANFI_VEC(uint32_t) free;
  ANFI_VEC(ipath) path; // path[0] is no iteration
  uint32_t now, runs;
  bool checked;
} imem;

typedef enum imem_error { IM_OK, IM_WILD, IM_RANGE, IM_UNSET, IM_RACE } imem_error;

void anfi_t_mem_init(imem *m, anf_ctx *cx, bool checked);
void anfi_t_mem_free_all(void *m);
/* `data` NULL: new memory, of the block; `set`: counts as written. 0: no memory. */
uint64_t anfi_t_mem_block(imem *m, void *data, size_t size, bool set);
bool anfi_t_mem_release(imem *m, uint64_t ptr);
/* Moves a pointer by elements; false: out of its block. */
bool anfi_t_mem_move(const imem *m, uint64_t *ptr, int64_t bytes);
imem_error anfi_t_mem_read(imem *m, uint64_t ptr, size_t bytes, uint64_t *v);
imem_error anfi_t_mem_write(imem *m, uint64_t ptr, size_t bytes, uint64_t v);
/* interp_host.c: a C function of the host with f's types; `in` is changed. False: it has types that C has
 * not, or too many. */
bool anfi_t_call_outside(imem *m, tfunc f, void (*fn)(void), uint64_t *in, uint64_t *result);
/* The memory itself, or NULL if there are not so many bytes. */
void *anfi_t_mem_host(imem *m, uint64_t ptr, size_t bytes);
/* Parallel loops: enter gives a mark for iterate and leave. */
uint32_t anfi_t_mem_enter(imem *m);
void anfi_t_mem_iterate(imem *m, uint32_t mark);
void anfi_t_mem_leave(imem *m, uint32_t mark);

#endif
