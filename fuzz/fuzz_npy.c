// SPDX-License-Identifier: Apache-2.0
/* The reader of .npy: any bytes are refused with a reason or give a tensor with as many bytes of
 * elements as the file has. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_value *v = NULL;
  anf_status st = anf_read_npy(cx, data, size, "fuzz.npy", d, &v);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (v != NULL));
  if (v) {
    size_t n = anf_value_elements(v) * anf_dtype_bytes(anf_value_dtype(v));
    FUZZ_CHECK(n < size);
  }
  anf_value_release(v);
  anf_diag_free(d);
  return 0;
}
