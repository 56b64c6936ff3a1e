// SPDX-License-Identifier: Apache-2.0
/* Code objects of the cache, as they are read before anything of them runs: any bytes are refused, or give
 * entries, globals and addresses that lie in what was read. */
#include "fuzz.h"

#include "backend/jit/jit.h"

static anf_jit_engine *engine(void) {
  static anf_jit_engine *e;
  if (!e) FUZZ_CHECK(anf_jit_engine_new(fuzz_ctx(), ANF_JIT_INTERP, NULL, NULL, &e) == ANF_OK);
  return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *p = (const char *)data, *code = NULL;
  size_t bytes = 0;
  anfi_jit_code *c = anfi_jit_unpack(engine(), p, size, &code, &bytes);
  if (!c) return 0;
  FUZZ_CHECK(code >= p && bytes <= size - (size_t)(code - p));
  for (size_t i = 0; i < c->nentry; i++) FUZZ_CHECK(strlen(c->entry[i].name) <= size);
  for (size_t i = 0; i < c->nglobal; i++)
    FUZZ_CHECK(c->global[i].bytes <= c->image_bytes &&
               c->global[i].offset <= c->image_bytes - c->global[i].bytes);
  for (size_t i = 0; i < c->naddress; i++)
    FUZZ_CHECK(c->address[i].offset <= c->image_bytes - sizeof(void *));
  anfi_jit_code_release(c);
  return 0;
}
