// SPDX-License-Identifier: Apache-2.0
/* Between scalar.c and complex.c: the machine that turns elementwise code into expressions. */
#ifndef ANFI_LOWER_SCALAR_H
#define ANFI_LOWER_SCALAR_H

#include <math.h>

#include "backend/lower/low.h"
#include "ir/ops/kernel.h"
#include "ir/value/scalar.h"

enum { MAX_INPUTS = ANFI_ND };

typedef struct step {
  anfi_elem e;
  bool truth; // e.re is a bool, whatever the type of the computation
} step;

typedef struct machine {
  /* the op */
  anfi_low *L;
  anfi_opcode op;
  anfi_loc loc;
  /* types */
  anf_dtype dtype; // of the computation
  tdtype type;     // that it is done in: f32 for f16 and bf16, the part's for complex
  bool complex;
  /* program */
  bool many; // of a tensor's elements: functions are those of vecmath.c
  const anfi_scalar *code;
  step at[ANFI_SCALAR_MAX];
} machine;

texpr anfi_s_const(machine *m, double v);
texpr anfi_s_call(machine *m, tintrin f, uint32_t n, const texpr *in);
texpr anfi_s_atom(machine *m, texpr e);
/* The number that e is, perhaps converted. */
bool anfi_s_is_number(texpr e, double *x);

/* complex.c */
bool anfi_s_complex_knows(anfi_scalar_op op);
void anfi_s_complex_step(machine *m, const anfi_scalar_ins *i, step *out);
anfi_elem anfi_s_complex_store(machine *m, const step *s, anf_dtype to);

#endif
