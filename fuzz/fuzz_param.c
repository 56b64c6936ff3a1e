// SPDX-License-Identifier: Apache-2.0
/* The reader of PNNX models: any bytes are refused with a reason or give a model that is written
 * and read back to the same text, and is built without harm. A zero byte ends the .param text; what
 * follows is the .bin file. */
#include "fuzz.h"

static void write_again(anf_ctx *cx, const anf_pnnx *p) {
  anf_text param = {.cx = cx}, bin = {.cx = cx}, second = {.cx = cx}, rest = {.cx = cx};
  anf_pnnx *again = NULL;
  if (anf_pnnx_write(p, &param, &bin) == ANF_OK) {
    anf_status st = anf_pnnx_read(cx, param.text, param.len, "written.param", bin.text, bin.len,
                                  NULL, NULL, &again);
    FUZZ_CHECK(st == ANF_OK || st == ANF_LIMIT);
    if (st == ANF_OK && anf_pnnx_write(again, &second, &rest) == ANF_OK)
      FUZZ_CHECK(param.len == second.len && memcmp(param.text, second.text, param.len) == 0);
  }
  anf_pnnx_free(again);
  anf_text_free(&param);
  anf_text_free(&bin);
  anf_text_free(&second);
  anf_text_free(&rest);
}

static void build(anf_diag *d, const anf_pnnx *p) {
  anf_module *m = NULL;
  anf_diag_clear(d);
  anf_status st = anf_pnnx_module(p, NULL, d, &m);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_module_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_pnnx *p = NULL;
  const uint8_t *end = size ? (const uint8_t *)memchr(data, 0, size) : NULL;
  size_t text = end ? (size_t)(end - data) : size;
  const void *bin = end ? end + 1 : NULL;
  anf_status st = anf_pnnx_read(cx, (const char *)data, text, "fuzz.param", bin,
                                end ? size - text - 1 : 0, NULL, d, &p);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (p != NULL));
  if (p) {
    write_again(cx, p);
    build(d, p);
  }
  anf_pnnx_free(p);
  anf_diag_free(d);
  return 0;
}
