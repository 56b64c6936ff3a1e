// SPDX-License-Identifier: Apache-2.0
/* The reader of .dat: any bytes are refused with a reason or give a module that is written and read
 * back to the same text. The checksum would refuse nearly all that a fuzzer makes, so every input
 * is tried as it is and, if it has a checksum line, with the right one (see seal). */
#include "fuzz.h"

#include "base/base.h"
#include "frontend/dat/dat.h"

static void check_module(anf_ctx *cx, anf_module *m) {
  FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_text first = {.cx = cx}, second = {.cx = cx};
  if (anf_write_dat(m, &first) == ANF_OK) {
    anf_module *again = NULL;
    anf_status st = anf_read_dat(cx, first.text, first.len, "written.dat", NULL, &again);
    FUZZ_CHECK(st == ANF_OK || st == ANF_LIMIT);
    if (st == ANF_OK && anf_write_dat(again, &second) == ANF_OK)
      FUZZ_CHECK(first.len == second.len && memcmp(first.text, second.text, first.len) == 0);
    anf_module_free(again);
  }
  anf_text_free(&first);
  anf_text_free(&second);
}

static void try_bytes(const char *text, size_t size) {
  anf_ctx *cx = fuzz_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_status st = anf_read_dat(cx, text, size, "fuzz.dat", d, &m);
  fuzz_status(st, d);
  fuzz_placed(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) check_module(cx, m);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

/* Puts the right sum into the last line, if that is the one of the checksum. */
static bool seal(char *text, size_t size) {
  const size_t word = sizeof ANFI_DAT_CHECKSUM - 1, line = word + ANFI_DAT_HEX + 1;
  if (size < line || memcmp(text + size - line, ANFI_DAT_CHECKSUM, word) != 0) return false;
  char hex[ANFI_DAT_HEX + 1];
  snprintf(hex, sizeof hex, "%016llx", (unsigned long long)anfi_hash(text, size - line, 0));
  memcpy(text + size - line + word, hex, ANFI_DAT_HEX);
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try_bytes((const char *)data, size);
  char *copy = (char *)malloc(size + 1);
  FUZZ_CHECK(copy);
  memcpy(copy, data, size);
  if (seal(copy, size)) try_bytes(copy, size);
  free(copy);
  return 0;
}
