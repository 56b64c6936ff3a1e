// SPDX-License-Identifier: Apache-2.0
/* The reader of safetensors: any bytes are refused with a reason, or give a record of tensors that
 * have no more bytes than the file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_value *v = NULL, *meta = NULL;
  anf_status st = anf_read_safetensors(cx, data, size, "fuzz.safetensors", d, &v, &meta);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (v != NULL));
  size_t bytes = 0;
  for (size_t i = 0; v && i < anf_value_count(v); i++) {
    const anf_value *t = anf_value_at(v, i);
    bytes += anf_value_elements(t) * anf_dtype_bytes(anf_value_dtype(t));
  }
  FUZZ_CHECK(bytes <= size);
  anf_value_release(meta);
  anf_value_release(v);
  anf_diag_free(d);
  return 0;
}
