// SPDX-License-Identifier: Apache-2.0
/* Steps that are compiled ahead of time, inside: what the header says of one. */
#ifndef ANFI_STEP_BUILD_H
#define ANFI_STEP_BUILD_H

#include "backend/c/c.h"
#include "step/step.h"

typedef struct anfi_step_built {
  const anf_graph *g;
  size_t nstate;
  const anf_type **param;
  const anf_type *out;     // of the outputs
  const anfi_lowered *low; // of the function
  bool *given;             // by leaf of the state
} anfi_step_built;

/* header.c: structures of state and outputs, and NAME_run. For anfi_build_hooks; `user` is an
 * anfi_step_built. */
void anfi_step_put(cgen *c, tfunc f, uint32_t flags, const void *user);

#endif
