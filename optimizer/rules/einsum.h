// SPDX-License-Identifier: Apache-2.0
/* What the rules of Einsum share (einsum.c, einsum_path.c). */
#ifndef ANFI_RULES_EINSUM_H
#define ANFI_RULES_EINSUM_H

#include "ir/ops/op.h"
#include "optimizer/rules/rule.h"

/* The operand's dim with the label; -1: none. */
int anfi_einsum_dim(const anfi_einsum *plan, uint32_t operand, uint32_t rank, uint32_t label);

/* Each dim has a label of its own and the label's size: no diagonal, nothing is broadcast. */
bool anfi_einsum_is_plain(const anfi_einsum *plan, uint32_t operand, const anf_type *t);

#endif
