// SPDX-License-Identifier: Apache-2.0
/* The reader of .anf and .ir: any bytes are refused with a reason or give a module that the
 * verifier accepts and whose printed form reads back to the same text. */
#include "fuzz.h"

static void check_module(anf_ctx *cx, anf_module *m) {
  FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_text first = {.cx = cx}, second = {.cx = cx};
  if (anf_print_ir(m, &first) == ANF_OK) {
    anf_diag *d = anf_diag_new(cx);
    anf_module *again = NULL;
    anf_status st =
        anf_parse_n(cx, first.text ? first.text : "", first.len, "printed.ir", d, &again);
    if (st != ANF_OK && st != ANF_LIMIT) {
      fwrite(first.text, 1, first.len, stderr);
      anf_diag_print(d, stderr, false);
    }
    FUZZ_CHECK(st == ANF_OK || st == ANF_LIMIT);
    if (st == ANF_OK && anf_print_ir(again, &second) == ANF_OK) {
      bool same = first.len == second.len &&
                  (!first.len || memcmp(first.text, second.text, first.len) == 0);
      if (!same) fprintf(stderr, "%s\n---- and then ----\n%s\n", first.text, second.text);
      FUZZ_CHECK(same);
    }
    anf_module_free(again);
    anf_diag_free(d);
  }
  anf_text_free(&first);
  anf_text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_status st = anf_parse_n(cx, (const char *)data, size, "fuzz.anf", d, &m);
  fuzz_status(st, d);
  fuzz_placed(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) check_module(cx, m);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return 0;
}
