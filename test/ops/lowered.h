// SPDX-License-Identifier: Apache-2.0
#ifndef ANF_TEST_LOWERED_H
#define ANF_TEST_LOWERED_H

#include "ir/ops/op.h"

/* Types the op, lowers it to Tensor IR and runs that. False with an error recorded. */
bool run_lowered(anfi_eval *q, bool print);

#endif
