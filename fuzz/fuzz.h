// SPDX-License-Identifier: Apache-2.0
/* What fuzzers share. A fuzzer is a file fuzz_NAME.c with LLVMFuzzerTestOneInput; whatever it finds
 * wrong ends in abort, or in what a sanitizer says. */
#ifndef ANF_FUZZ_H
#define ANF_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(claim)                                                                          \
  ((claim) ? (void)0                                                                               \
           : (fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim), abort()))

/* Input must not make the library take more memory than this, and a limit is no finding. */
enum { FUZZ_BYTES = 256 << 20 };

static inline anf_ctx *fuzz_ctx(void) {
  anf_ctx_opts o = {.size = sizeof o, .max_bytes = FUZZ_BYTES};
  anf_ctx *cx = anf_ctx_new(&o);
  FUZZ_CHECK(cx);
  return cx;
}

/* The same context for many inputs, as making one takes longer than reading most of them. It belongs
 * to this function; what an input makes in it is freed with that input. */
static inline anf_ctx *fuzz_shared_ctx(void) {
  enum { INPUTS = 256 };
  static anf_ctx *cx;
  static unsigned used;
  if (used++ % INPUTS == 0) {
    anf_ctx_free(cx);
    cx = fuzz_ctx();
  }
  return cx;
}

/* A refusal says why, and is never a bug of ours; a success says nothing is wrong. */
static inline void fuzz_status(anf_status st, const anf_diag *d) {
  FUZZ_CHECK(st != ANF_INTERNAL);
  bool error = false;
  for (size_t i = 0; i < anf_diag_count(d); i++) {
    const anf_diag_item *it = anf_diag_at(d, i);
    FUZZ_CHECK(it->message && it->file && it->source && it->hint && it->code);
    error = error || it->severity == ANF_ERROR;
  }
  FUZZ_CHECK(st == ANF_NOMEM || error == (st != ANF_OK));
}

#endif
