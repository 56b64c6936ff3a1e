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

/* The same context for many inputs: a new one parses the templates of a format, which takes longer than reading most inputs. It
 * belongs to this function; what an input makes in it is freed with that input, but for names and types. */
static inline anf_ctx *fuzz_shared_ctx(void) {
  enum { INPUTS = 4096, NAMES = 64 << 20 };
  static anf_ctx *cx;
  static unsigned used;
  if (used++ % INPUTS == 0 || anf_ctx_bytes(cx) > NAMES) {
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

/* What is wrong with a text is at a line of it. */
static inline void fuzz_placed(anf_status st, const anf_diag *d) {
  bool placed = false;
  for (size_t i = 0; i < anf_diag_count(d); i++) placed = placed || anf_diag_at(d, i)->line;
  FUZZ_CHECK(placed || (st != ANF_INVALID && st != ANF_UNSUPPORTED));
}

/* A reader of modules: any bytes are refused with a reason, or give a module that is whole. `text`: the reason has a line. */
typedef anf_status fuzz_reader(anf_ctx *cx, const char *text, size_t len, const char *name,
                               anf_diag *d, anf_module **out);
static inline int fuzz_read(fuzz_reader *read, bool text, const char *name, const uint8_t *data,
                            size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_status st = read(cx, (const char *)data, size, name, d, &m);
  fuzz_status(st, d);
  if (text) fuzz_placed(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_module_free(m);
  anf_diag_free(d);
  return 0;
}

#endif
