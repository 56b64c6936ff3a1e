// SPDX-License-Identifier: Apache-2.0
/* Shared by branch.c and branch_adds.c. */
#ifndef ANFI_BRANCH_ADDS_H
#define ANFI_BRANCH_ADDS_H

#include "optimizer/loops/loop.h"

/* May a branch that does not want it run it all the same, for next to nothing? */
bool anfi_is_cheap(const anf_node *n);
/* The call of f or g, which add numbers to elements of arrays: makes it straight code, or gives false. `loops`: anfi_loops_by_step. */
bool anfi_branch_adds(anfi_pass *p, anfi_arena *a, const anfi_map *loops, anf_node *call,
                      anf_graph *f, anf_graph *g);

#endif
