// SPDX-License-Identifier: Apache-2.0
/* The elementwise language of `.scalar` columns, parsed: what interpreter, code generators and
 * derivatives share.
 *
 * Code is a list of instructions, each after its arguments, the last one being the result. arg[]
 * are indices of earlier instructions. All of an op's code is computed in one type, the computation
 * type: that of the inputs promoted together, or the result's if that is of a higher class (a real
 * function of integers). Integers wrap to their width after every step; f64 is computed in double,
 * f32 rounded to float after every step, f16 and bf16 likewise as float and rounded once at the
 * end. */
#ifndef ANFI_SCALAR_H
#define ANFI_SCALAR_H

#include "ir/ir.h"

typedef enum anfi_scalar_op {
#define ANF_SCALAR(id, text, arity, domain, doc) ANFI_S_##id,
#include "ir/value/scalar.def"
#undef ANF_SCALAR
  ANFI_S_COUNT
} anfi_scalar_op;

enum { ANFI_SCALAR_INT = 1, ANFI_SCALAR_REAL = 2, ANFI_SCALAR_COMPLEX = 4 };
enum { ANFI_SCALAR_MAX = 64 }; // instructions in one op's code

typedef struct anfi_scalar_info {
  const char *text; // spelling
  uint8_t arity, domain;
} anfi_scalar_info;
extern const anfi_scalar_info anfi_scalar_ops[ANFI_S_COUNT];

typedef struct anfi_scalar_ins {
  uint16_t op;     // anfi_scalar_op
  uint16_t arg[3]; // instructions, or the number of the input or attribute
  double number;
} anfi_scalar_ins;

typedef struct anfi_scalar {
  uint32_t n;
  uint8_t domain; // classes of types that all its instructions are defined for
  anfi_scalar_ins at[];
} anfi_scalar;

/* The code of a row that has `.scalar`; parsed at first use and owned by the context. */
const anfi_scalar *anfi_scalar_of(anf_ctx *cx, anfi_opcode op);
/* The computation type for these inputs (all tensors) and result. What gives a bool, as a comparison, takes integers
 * without a type as they are: they need not be in the range of the type that they meet, unless that is u64. */
anf_dtype anfi_scalar_dtype(size_t n, const anf_type *const *in, const anf_type *out);
/* The function of complex numbers that the operation is, or -1. */
int anfi_scalar_complex(anfi_scalar_op op);
/* ANFI_SCALAR_* of a type, 0 for keys. */
unsigned anfi_scalar_domain(anf_dtype d);

#endif
