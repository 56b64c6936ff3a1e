// SPDX-License-Identifier: Apache-2.0
/* The reader of ONNX. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(anf_read_onnx, false, "/nowhere/fuzz.onnx", data, size);
}
