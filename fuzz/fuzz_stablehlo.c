// SPDX-License-Identifier: Apache-2.0
/* The reader of StableHLO: any bytes are refused with a reason, or give a module that is whole. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_status st = anf_read_stablehlo(cx, (const char *)data, size, "fuzz.mlir", d, &m);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_module_free(m);
  anf_diag_free(d);
  return 0;
}
