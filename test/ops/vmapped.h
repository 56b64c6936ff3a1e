// SPDX-License-Identifier: Apache-2.0
#ifndef ANF_TEST_VMAPPED_H
#define ANF_TEST_VMAPPED_H

#include "ir/ops/op.h"

/* Makes a graph of the op, batches it and runs that. `mode`: 0 or 1 for each argument, whether it has
 * lanes, then c (their number is known), s (it is not) or d (nor are any dims), and n when there are
 * two such axes, one outside the other. False with an error recorded. */
bool run_vmapped(anfi_eval *q, const char *mode);

#endif
