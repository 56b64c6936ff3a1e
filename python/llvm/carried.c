// SPDX-License-Identifier: Apache-2.0
/* The part of LLVM that a wheel carries for machines without libLLVM: linked with LLVM's static archives (-Dllvm=carried)
 * this file becomes a library of 43 MB. The references below keep the functions of api.def and the backend of this machine's
 * processor in it; the linker drops the rest. backend/llvm/api.c prefers this library to the system's. */
#include "backend/llvm/llvm.h"

extern __attribute__((visibility("default")))
const void *const anfi_llvm_carried[]; // the root of what stays

#define ANF_LLVM(name) (const void *)LLVM##name,
const void *const anfi_llvm_carried[] = {
#include "backend/llvm/api.def"
    (const void *)LLVM_NATIVE_TARGETINFO, (const void *)LLVM_NATIVE_TARGET,
    (const void *)LLVM_NATIVE_TARGETMC,   (const void *)LLVM_NATIVE_ASMPRINTER,
    (const void *)LLVM_NATIVE_ASMPARSER,
};
