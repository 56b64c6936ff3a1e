// SPDX-License-Identifier: Apache-2.0
/* Kernels as LLVM IR. A call of a brgemm is a call of a function of the same module; its body is
 * added when the module has been optimised, for it needs no pass: it comes shaped. */
#ifndef ANFI_KERNEL_EMIT_H
#define ANFI_KERNEL_EMIT_H

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm.h"

/* The call of a kernel, or, where there is none for it, of the run time. */
LLVMValueRef anfi_kernel_call(lgen *g, texpr e);
/* Bodies of all kernels that calls were made of. */
void anfi_kernel_emit(lgen *g);
/* Adds the kernels that `from` asks for to those of `to`. */
void anfi_kernel_gather(lgen *to, const lgen *from);
/* Is it the name of a kernel, whose body comes later? */
bool anfi_kernel_is_name(const char *name);

/* dot.c. Vectors a and b have `lanes` of 32 bits, each a group of k, the first step lowest. */
typedef struct anfi_dot {
  lgen *g;
  const anfi_dot_info *info; // of the kernel's types, or NULL
  uint32_t lanes, steps;     // steps: the group of k, 0 for no dot product
  bool native;
  bool small; // of bytes: b is within [-64, 64]
} anfi_dot;
/* Rows of B, `lanes` elements each, interleaved to such groups. */
LLVMValueRef anfi_dot_interleave(const anfi_dot *d, LLVMValueRef *row);
LLVMValueRef anfi_dot_bytes(const anfi_dot *d, LLVMValueRef acc, LLVMValueRef a, // a is unsigned,
                            LLVMValueRef b);                                     // b signed
/* Pairs of s16. */
LLVMValueRef anfi_dot_pairs(const anfi_dot *d, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* Bytes of B that lie as groups of k do, as `lanes` such groups of A's type. */
LLVMValueRef anfi_dot_widen(const anfi_dot *d, LLVMValueRef bytes);
/* f32 to the bits of bf16: of a target that has the instruction. */
LLVMValueRef anfi_dot_round(const anfi_dot *d, LLVMValueRef x);
LLVMValueRef anfi_dot_bf16(const anfi_dot *d, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);

#endif
