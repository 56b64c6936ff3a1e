// SPDX-License-Identifier: Apache-2.0
/* Code of the interpreter: registers of 64 bits, one for each lane, numbered in a call's frame. A
 * tensor takes 1 + 2 * rank registers: pointer, dims, strides in elements. */
#ifndef ANFI_TIR_INTERP_H
#define ANFI_TIR_INTERP_H

#include "backend/tir/tir.h"

typedef enum iop {
  I_CONST, // d.. = constant node, n lanes
  I_MOV,   // d.. = a.., n
  I_BIN,   // d = a (sub) b, type t
  I_NOT,
  I_SELECT, // d = a ? b : c; x: lanes of a
  I_CAST,   // d = t(a), of type from
  I_LANE,   // d = intrinsic sub (a, b, c)
  I_INTRIN, // d = intrinsic of node, arguments at aux[a..]
  I_ADDR, // d = address in the tensor at a, indices at aux[b..]; node: the indexing; c: mask + 1 or
          // 0
  I_LOAD, // d.. = lanes at address a; b: tensor (for rows); c: mask + 1 or 0
  I_STORE, // lanes at address a = d..; b, c as above
  I_JMP,   // to x
  I_JZ,    // if !a to x
  I_JNZ,
  I_CALL,    // d = function x, arguments at aux[a..], b of them
  I_CALLP,   // d = function at pointer c, the same
  I_RET,     // a, n cells
  I_MARK,    // d = height of the stack of local tensors
  I_FREE,    // frees those above mark a
  I_DIMS,    // strides of the tensor at d from its dims; node: the tensor
  I_ALLOC,   // memory of the tensor at d
  I_FILL,    // tensor at d = list node
  I_GLOBAL,  // tensor registers at d = global x; n cells
  I_PREP,    // d = trip count of a, b, c (begin end step), type t; d + 1 = next value
  I_NEXT,    // if !d-- to x; a = value d + 1, advanced by c
  I_PAR,     // a parallel loop begins; d = its mark
  I_PARITER, // its next iteration; a = mark
  I_PAREND,
  I_UNSET,  // variable at d, n cells, has no value
  I_CHECK,  // it has; node: the variable
  I_OUTSIDE // d = function x of the host, arguments at aux[a..], b of them
} iop;

typedef struct ins {
  /* operation */
  uint8_t op, sub;
  tdtype t, from;
  /* registers */
  uint32_t n, d, a, b, c, x;
  const void *node;
} ins;

typedef struct icode {
  tfunc f;
  ANFI_VEC(ins) code;
  ANFI_VEC(uint32_t) aux;
  uint32_t nreg;
  uint32_t *param; // first register of each
} icode;

/* The program, and the code of its functions made so far. */
typedef struct iprog {
  const tmod *m;
  anfi_arena *a;
  icode **code;     // by place in the module; NULL not made yet
  anfi_map globals; // tensor → 1 + place
  bool checked;
} iprog;

enum { I_RT_BASE = 1 << 30 }; // I_CALL of I_RT_BASE + trt

icode *anfi_t_compile(iprog *p, size_t func);
static inline uint32_t anfi_t_cells(texpr v) {
  return v->kind == TX_tensor ? 1u + 2u * v->nidx : anfi_t_total(v->dtype);
}

#endif
