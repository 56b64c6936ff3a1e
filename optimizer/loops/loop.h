// SPDX-License-Identifier: Apache-2.0
/* Shared by loop.c and headers.c, hoist.c and tabulate.c. */
#ifndef ANFI_LOOP_H
#define ANFI_LOOP_H

#include "optimizer/opt.h"

/* Gives a component of graphs, whose calls of each other all stand in result position, one graph
 * through which all its cycles go. */
void anfi_merge_headers(anf_module *m, const anf_analysis *an, size_t n, anf_graph *const *member);
/* Ops on elements of invariant arrays become ops on the arrays, which are invariant. */
void anfi_opt_tabulate(anfi_pass *p, anfi_arena *a);

#endif
