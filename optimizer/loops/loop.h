// SPDX-License-Identifier: Apache-2.0
/* Shared by loop.c and headers.c, hoist.c and tabulate.c, and ../branch_adds.c. */
#ifndef ANFI_LOOP_H
#define ANFI_LOOP_H

#include "optimizer/opt.h"

/* Gives a component of graphs, whose calls of each other all stand in result position, one graph
 * through which all its cycles go. */
void anfi_merge_headers(anf_module *m, const anf_analysis *an, size_t n, anf_graph *const *member);
/* Ops on elements of invariant arrays become ops on the arrays, which are invariant. */
void anfi_opt_tabulate(anfi_pass *p, anfi_arena *a);
/* id of a step → the loop node that alone has it, or 0 */
void anfi_loops_by_step(anf_module *m, anfi_map *loops);
/* The loop of which g is the step; NULL: none, or several. */
const anf_node *anfi_loop_of_step(const anfi_map *loops, const anf_graph *g);
/* Is n one element of a parameter of its graph, with an index for each dim? */
bool anfi_reads_element(anf_ctx *cx, const anf_node *n);

#endif
