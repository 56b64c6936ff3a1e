// SPDX-License-Identifier: Apache-2.0
/* Functions that treat the rows of their tensors apart, so that a batch of any size is its pieces one after the other:
 *
 *   def f(x: f32[B, 8]) { Softmax(x @ w) }         rows of B are apart
 *   def f(x: f32[B, 8]) { x - Mean(x, axis=0) }    each needs all others
 */
#ifndef ANFI_ROWS_H
#define ANFI_ROWS_H

#include "exec/exec.h"

/* Does g, of these types, compute its rows along the dim apart? It may be the first dim of tensors only, is of each
 * tensor of the result, and no number of the program depends on it. False with E1595, which says where it does. */
bool anfi_rows_apart(anf_graph *g, size_t n, const anf_type *const *types, int64_t dim,
                     const char *name);

#endif
