// SPDX-License-Identifier: Apache-2.0
/* Programs and values of tests as text. */
#ifndef ANF_TEST_TEXT_H
#define ANF_TEST_TEXT_H

#include "test/unit/program.h"

static inline anf_module *parsed(world *w, const char *text) {
  anf_module *m = NULL;
  anf_status st = anf_parse(w->cx, text, "t.anf", w->d, &m);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return m;
}

static inline anf_value *value(world *w, const char *text) {
  anf_value *v = NULL;
  assert_int_equal(anf_parse_value(w->cx, text, w->d, &v), ANF_OK);
  return v;
}

#endif
