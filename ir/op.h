// SPDX-License-Identifier: Apache-2.0
/* The hooks that rows of op.def name. */
#ifndef ANFI_OP_H
#define ANFI_OP_H

#include "ir/ir.h"

/* infer.c: what hooks share */
bool anfi_infer_fail(const anfi_infer *q, const char *why);   // "Op: why"
bool anfi_infer_tensors(anfi_infer *q);                       // every argument must be a tensor
bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out);      // two dims that broadcast
bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d);        // of all arguments, which are tensors
bool anfi_infer_broadcast(anfi_infer *q, anf_dtype d);        // sets the result: all shapes broadcast

/* infer.c: families of elementwise ops and of values without shape */
bool anfi_infer_arith(anfi_infer *q);   // promoted type, broadcast shape
bool anfi_infer_divide(anfi_infer *q);  // as arith, integers give f64
bool anfi_infer_compare(anfi_infer *q); // bool, broadcast shape
bool anfi_infer_switch(anfi_infer *q);
bool anfi_infer_tuple(anfi_infer *q);
bool anfi_infer_tuple_get(anfi_infer *q);
bool anfi_infer_any(anfi_infer *q);     // not known before the program runs

/* eval.c: values without shape */
bool anfi_eval_partial(anfi_eval *q);
bool anfi_eval_switch(anfi_eval *q);
bool anfi_eval_tuple(anfi_eval *q);
bool anfi_eval_tuple_get(anfi_eval *q);

#endif
