// SPDX-License-Identifier: Apache-2.0
/* Tensors whose elements lie in a block: mostly, they stay in their file. */
#ifndef ANFI_MAPPED_H
#define ANFI_MAPPED_H

#include "base/os/map.h"
#include "ir/ir.h"

enum { ANFI_LEAST_BORROWED = 1 << 16 }; // bytes: fewer are copied

/* A tensor of the elements at `offset`, in a block that whoever reads them may share; they stay in the file where they are aligned.
 * NULL: it is small or of bools, or cannot be mapped, so it is to be copied. */
anf_value *anfi_value_map(anf_ctx *cx, const anf_type *t, const anfi_os_view *file,
                          uint64_t offset);
/* The block that holds the elements, borrowed; NULL: there is none. */
anfi_os_block *anfi_value_block(const anf_value *v);

/* Bytes of a tensor's elements, wherever they are; of another value, of its payload. */
static inline size_t anfi_value_size(const anf_value *v) {
  bool tensor = v->kind == ANF_VALUE_TENSOR;
  return tensor ? v->n * anf_dtype_bytes((anf_dtype)v->type->dtype) : v->bytes;
}

#endif
