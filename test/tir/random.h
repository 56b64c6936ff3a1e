// SPDX-License-Identifier: Apache-2.0
/* The generator of random tensor programs, inside: what is in scope, and what its parts give each
 * other. INVARIANT: what is written is valid, exactly typed, in bounds, free of races and of reads
 * of what was never written. */
#ifndef ANF_TEST_TIR_RANDOM_H
#define ANF_TEST_TIR_RANDOM_H

#include "test/tir/values.h"

typedef enum {
  R_bool,
  R_s8,
  R_s16,
  R_s32,
  R_s64,
  R_u8,
  R_u16,
  R_u32,
  R_u64,
  R_index,
  R_f16,
  R_bf16,
  R_f32,
  R_f64,
  R_COUNT
} rtype;
extern const char *const rg_type[R_COUNT], *const rg_suffix[R_COUNT];
static inline bool rg_is_float(rtype t) { return t >= R_f16; }
static inline bool rg_is_half(rtype t) { return t == R_f16 || t == R_bf16; }

typedef struct rvar {
  char name[12];
  rtype type;
  unsigned lanes;
  bool assignable;
  unsigned bound; // a counter: its values are below it; 0 unknown
  unsigned par;   // parallel loops around its definition
} rvar;

typedef struct rtensor {
  char name[12];
  rtype type;
  unsigned rank, dim[3];
  unsigned par;
  int own; // in a parallel loop: 0 is indexed in dim 0 by its variable, -1 only read, -2 neither
  bool strided; // a view: no lanes, no address is taken of it
} rtensor;

typedef struct rgen {
  uint64_t s;
  char *text;
  size_t n, cap;
  rvar var[64];
  unsigned nvar, nt, names, indent, par;
  rtensor t[32];
  unsigned budget, work; // statements left; product of loops around
  bool half;             // f16 and bf16 too
  unsigned helpers;      // functions that expressions may call
  int counter;           // of the parallel loop around, -1 none
  bool dynamic;          // there is D, a tensor of mm rows
} rgen;

/* random.c: text, scope, places */
unsigned rg_pick(rgen *g, unsigned n);
unsigned rg_id(rgen *g);
void rg_out(rgen *g, const char *fmt, ...) ANFI_PRINTF(2, 3);
void rg_line(rgen *g); // indents
rtype rg_any_type(rgen *g);
rtype rg_number_type(rgen *g); // no bool
int rg_some_var(rgen *g, rtype t, bool to_assign);
rvar *rg_new_var(rgen *g, rtype t, const char *prefix); // NULL: there are enough
bool rg_must_own(const rgen *g, const rtensor *t);
rtensor *rg_some_tensor(rgen *g, rtype t, bool write, unsigned lanes);
void rg_index(rgen *g, unsigned dim, unsigned extent);
void rg_place(rgen *g, const rtensor *t, unsigned lanes, unsigned rows, bool own);
void rg_load(rgen *g, rtype t, unsigned lanes);
void rg_address(rgen *g, const rtensor *t);
rtensor *rg_addressed(rgen *g, rtype t, unsigned rank); // NULL: none whose address may be taken
void rg_constant(rgen *g, rtype t);

/* random_expr.c */
void rg_expr(rgen *g, rtype t, unsigned depth);
void rg_boolean(rgen *g, unsigned depth);
/* random_lanes.c: expressions of lanes, and scalars from them */
void rg_vector(rgen *g, rtype t, unsigned lanes, unsigned depth);
void rg_from_lanes(rgen *g, rtype t, unsigned depth);
/* random_stmt.c */
void rg_body(rgen *g, unsigned most);
void rg_define(rgen *g);
void rg_assign(rgen *g);
/* random_memory.c: statements about tensors, views, kernels */
void rg_tensor(rgen *g);
void rg_view(rgen *g);
void rg_effect(rgen *g);
void rg_lanes_assign(rgen *g);
void rg_temporary(rgen *g);
void rg_small_tensor(rgen *g);
void rg_in_place(rgen *g);
void rg_kernel(rgen *g);
void rg_tile(rgen *g);
void rg_struct_write(rgen *g);

#endif
