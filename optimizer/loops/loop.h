// SPDX-License-Identifier: Apache-2.0
/* Shared by loop.c and headers.c. */
#ifndef ANFI_LOOP_H
#define ANFI_LOOP_H

#include "optimizer/opt.h"

/* Gives a component of graphs, whose calls of each other all stand in result position, one graph
 * through which all its cycles go. */
void anfi_merge_headers(anf_module *m, const anf_analysis *an, size_t n, anf_graph *const *member);

#endif
