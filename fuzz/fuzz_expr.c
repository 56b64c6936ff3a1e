// SPDX-License-Identifier: Apache-2.0
/* The reader of expressions: any text is refused with a place or gives an expression that prints to
 * the same one, and is evaluated and built without harm. */
#include "fuzz.h"

static void print_again(anf_ctx *cx, const anf_expr *e) {
  anf_text first = {.cx = cx}, second = {.cx = cx};
  anf_expr *again = NULL;
  if (anf_expr_print(e, &first) == ANF_OK) {
    size_t n = anf_expr_input_count(e);
    anf_status st = anf_expr_parse(cx, first.text, first.len, n, NULL, &again);
    FUZZ_CHECK(st == ANF_OK || st == ANF_LIMIT);
    if (st == ANF_OK && anf_expr_print(again, &second) == ANF_OK)
      FUZZ_CHECK(first.len == second.len && memcmp(first.text, second.text, first.len) == 0);
  }
  anf_expr_free(again);
  anf_text_free(&first);
  anf_text_free(&second);
}

static void evaluate(anf_diag *d, const anf_expr *e, anf_value *const *in) {
  anf_value *out = NULL;
  anf_diag_clear(d);
  anf_status st = anf_expr_eval(e, 3, 1, in, d, &out);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (out != NULL));
  anf_value_release(out);
}

static void build(anf_ctx *cx, anf_diag *d, const anf_expr *e, anf_value *const *in) {
  anf_module *m = anf_module_new(cx);
  anf_graph *g = NULL;
  const anf_type *types[3];
  for (size_t i = 0; i < 3; i++) types[i] = anf_value_type(cx, in[i]);
  anf_diag_clear(d);
  anf_status st = anf_expr_graph(e, m, "f", 3, types, d, &g);
  fuzz_status(st, d);
  if (st == ANF_OK) FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_module_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_expr *e = NULL;
  anf_status st = anf_expr_parse(cx, (const char *)data, size, 3, d, &e);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (e != NULL));
  anf_value *in[] = {anf_value_tensor(cx, ANF_F32, 1, (int64_t[]){2}, (float[]){1.5f, -2}),
                     anf_value_tensor(cx, ANF_I64, 2, (int64_t[]){2, 1}, (int64_t[]){3, -4}),
                     anf_value_int(cx, 2)};
  if (e) {
    print_again(cx, e);
    evaluate(d, e, in);
    build(cx, d, e, in);
  }
  for (size_t i = 0; i < 3; i++) anf_value_release(in[i]);
  anf_expr_free(e);
  anf_diag_free(d);
  return 0;
}
