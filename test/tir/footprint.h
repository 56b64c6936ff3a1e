// SPDX-License-Identifier: Apache-2.0
/* What a function reads and writes, found by running it on symbols: each element of its tensors and each number that it
 * takes is a symbol, loops are run, and what it leaves in its tensors are terms over symbols.
 *
 *     for i in 0..3 { y[i] = x[2 - i] * s }     y[0]: written, x[2] * s, of {x[2], s}     y[1]: ...
 *
 * That says what it does for all values of x, where bounds and indices do not depend on them. */
#ifndef ANF_TEST_TIR_FOOTPRINT_H
#define ANF_TEST_TIR_FOOTPRINT_H

#include "backend/tir/tir.h"

typedef struct footprint_counts {
  size_t functions,
      skipped; // skipped: control or indices depend on values, or it does what is not followed here
  size_t elements, terms; // that are written; that are the same term in both
} footprint_counts;

/* Do functions of the same name in both write the same elements, each from the same symbols? Else `why` says which. */
bool footprints_agree(const tmod *a, const tmod *b, footprint_counts *n, char *why, size_t len);

#endif
