// SPDX-License-Identifier: Apache-2.0
/* The reader of StableHLO: any bytes are refused with a reason, or give a module that is whole. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(anf_read_stablehlo, true, "fuzz.mlir", data, size);
}
