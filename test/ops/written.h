// SPDX-License-Identifier: Apache-2.0
#ifndef ANF_TEST_WRITTEN_H
#define ANF_TEST_WRITTEN_H

#include "ir/ops/op.h"

/* Writes a program of the op as .mindir or .onnx, reads that, and interprets it. False with an error recorded. */
bool run_written(anfi_eval *q, bool onnx);

#endif
