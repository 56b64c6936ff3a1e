// SPDX-License-Identifier: Apache-2.0
#ifndef ANF_TEST_WRITTEN_H
#define ANF_TEST_WRITTEN_H

#include "ir/ops/op.h"

typedef enum { FORM_MINDIR, FORM_ONNX, FORM_STABLEHLO } written_form;

/* Writes a program of the op in a format, reads that, and interprets it. False with an error recorded. */
bool run_written(anfi_eval *q, written_form form);

#endif
