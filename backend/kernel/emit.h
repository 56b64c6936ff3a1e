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
/* Is it the name of a kernel, whose body comes later? */
bool anfi_kernel_is_name(const char *name);

#endif
