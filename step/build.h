// SPDX-License-Identifier: Apache-2.0
/* Steps that are compiled ahead of time, inside: what the header says of one. */
#ifndef ANFI_STEP_BUILD_H
#define ANFI_STEP_BUILD_H

#include "backend/c/c.h"
#include "step/step.h"

typedef struct anfi_step_built {
  const anf_graph *g;
  size_t nstate;
  bool stops; // it can be stopped until it writes to its state
  const anf_type **param;
  const anf_type *out; // of the outputs, which are the same whatever the sizes
  bool *given;         // by leaf of the state
} anfi_step_built;

/* header.c: structures of state and outputs, and NAME_run. For anfi_build_hooks; doc->user is an
 * anfi_step_built. */
void anfi_step_put(cgen *c, tfunc f, uint32_t flags, const anfi_c_doc *doc);

#endif
