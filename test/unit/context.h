// SPDX-License-Identifier: Apache-2.0
/* A context and a list of errors for each test. */
#ifndef ANF_TEST_CONTEXT_H
#define ANF_TEST_CONTEXT_H

#include "anfora/anfora.h"

static anf_ctx *cx;
static anf_diag *d;

static int setup(void **state) {
  (void)state;
  cx = anf_ctx_new(NULL);
  d = cx ? anf_diag_new(cx) : NULL;
  return d ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  anf_diag_free(d);
  anf_ctx_free(cx);
  return 0;
}

#endif
