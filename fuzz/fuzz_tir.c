// SPDX-License-Identifier: Apache-2.0
/* Tensor IR text: any bytes are refused with a reason, or give a module that prints and reads back
 * to the same text; if it is valid, passes and the interpreter take it without a crash. */
#include "fuzz.h"

#include "anfora/tir.h"

static void round_trip(anf_ctx *cx, const anf_tir_module *m) {
  anf_text a = {.cx = cx}, b = {.cx = cx};
  anf_tir_module *back = NULL;
  if (anf_tir_print(m, &a) == ANF_OK) {
    anf_status st = anf_tir_parse(cx, a.text ? a.text : "", a.len, "printed", NULL, &back);
    FUZZ_CHECK(st == ANF_OK || st == ANF_LIMIT);
    if (st == ANF_OK && anf_tir_print(back, &b) == ANF_OK)
      FUZZ_CHECK(a.len == b.len && (!a.len || memcmp(a.text, b.text, a.len) == 0));
  }
  anf_tir_module_free(back);
  anf_text_free(&a);
  anf_text_free(&b);
}

static void run(const anf_tir_module *m) {
  anf_tir_arg args[32] = {{{0}, NULL, 0}};
  anf_tir_run_opts o = {.size = sizeof o, .max_steps = 2000, .max_depth = 100};
  for (size_t i = 0; i < anf_tir_func_count(m) && i < 4; i++)
    for (size_t n = 0; n < 4; n++)
      anf_tir_run(m, anf_tir_func_name(anf_tir_func_at(m, i)), n, args, &o, NULL, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL, *o = NULL;
  anf_status st = anf_tir_parse(cx, (const char *)data, size, "fuzz.tir", d, &m);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) {
    anf_diag_clear(d);
    if (anf_tir_verify(m, d) == ANF_OK) {
      round_trip(cx, m);
      run(m);
      anf_tir_opt_opts oo = {.size = sizeof oo, .verify_each = true};
      st = anf_tir_opt(m, "default", &oo, d, &o);
      fuzz_status(st, d);
    }
  }
  anf_tir_module_free(o);
  anf_tir_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return 0;
}
