// SPDX-License-Identifier: Apache-2.0
/* Code objects of the cache, as they are read before anything of them runs: any bytes are refused, or give
 * entries, globals and addresses that lie in what was read. */
#include "fuzz.h"

#include "backend/jit/jit.h"

typedef struct {
  const char *p;
  size_t n;
} part;

static anf_status unpack(anf_ctx *cx, part given, part *code, anfi_jit_code **out) {
  static anf_jit_engine *e;
  if (!e) FUZZ_CHECK(anf_jit_engine_new(cx, ANF_JIT_INTERP, NULL, NULL, &e) == ANF_OK);
  ANFI_ENTRY(cx, NULL);
  *out = anfi_jit_unpack(cx, e, given.p, given.n, &code->p, &code->n);
  return anfi_leave(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static anf_ctx *cx;
  if (!cx) cx = fuzz_ctx();
  part given = {(const char *)data, size}, code = {0};
  anfi_jit_code *c = NULL;
  anf_status st = unpack(cx, given, &code, &c);
  FUZZ_CHECK(st == ANF_OK || st == ANF_NOMEM);
  if (!c) return 0;
  FUZZ_CHECK(code.p >= given.p && code.n <= size - (size_t)(code.p - given.p));
  for (size_t i = 0; i < c->nentry; i++) FUZZ_CHECK(strlen(c->entry[i].name) <= size);
  for (size_t i = 0; i < c->nglobal; i++)
    FUZZ_CHECK(c->global[i].bytes <= c->image_bytes &&
               c->global[i].offset <= c->image_bytes - c->global[i].bytes);
  for (size_t i = 0; i < c->naddress; i++)
    FUZZ_CHECK(c->address[i].offset <= c->image_bytes - sizeof(void *));
  anfi_jit_code_release(c);
  return 0;
}
