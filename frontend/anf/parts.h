// SPDX-License-Identifier: Apache-2.0
/* Ops of the host that take or give records: see parts.c. */
#ifndef ANFI_ANF_PARTS_H
#define ANFI_ANF_PARTS_H

#include "anfora/host.h"
#include "frontend/anf/anf.h"

/* Is it the type of a function with a record, or a tuple among the arguments or in the result's tuple? */
bool anfi_anf_has_parts(const anf_type *t);
bool anfi_anf_add_parts(anf_ctx *cx, const anf_host_op *op, const anf_type *type);

#endif
