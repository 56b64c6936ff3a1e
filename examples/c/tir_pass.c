// SPDX-License-Identifier: Apache-2.0
/* A pass of the host's own over Tensor IR, run by its name among others: x / 2^k becomes a product, which is exact.
 * prints: 12 divisions in 2 functions, 1 left: f(3) = 0.75 */
#include <anfora/anfora.h>
#include <anfora/tir.h>

static bool is_power_of_two(anf_tir_expr e, float *inverse) {
  double v = 0;
  if (!anf_tir_const_f64(e, 0, &v) || anf_tir_type(e).elem != ANF_TIR_f32) return false;
  for (int k = 0; k < 64; k++, v /= 2)
    if (v == 1) return *inverse = 1.0f / (float)(1ull << k), true;
  return false;
}

static anf_tir_expr to_product(void *user, anf_tir_module *m, anf_tir_expr e) {
  float inverse;
  if (!anf_tir_isa(e, "div") || !is_power_of_two(anf_tir_expr_at(e, 1), &inverse)) return e;
  ++*(int *)user;
  return anf_tir_make_mul(m, anf_tir_expr_at(e, 0), anf_tir_make_f32(m, inverse));
}
static anf_tir_func reciprocals(void *user, anf_tir_module *m, anf_tir_func f) {
  anf_tir_visitor v = {.size = sizeof v, .expr = to_product, .user = user};
  return anf_tir_visit_func(m, f, &v);
}

static bool count_division(void *user, anf_tir_expr e) {
  *(int *)user += anf_tir_isa(e, "div");
  return true;
}
static int divisions(anf_ctx *cx, const anf_tir_module *m) {
  int n = 0;
  anf_tir_viewer v = {.size = sizeof v, .enter_expr = count_division, .user = &n};
  for (size_t i = 0; i < anf_tir_func_count(m); i++)
    anf_tir_view_func(cx, anf_tir_func_at(m, i), &v);
  return n;
}

static anf_status build(anf_ctx *cx, anf_diag *d, anf_tir_module **out) {
  anf_tb *b = anf_tb_new(cx);
  ANF_FUNC(b, f32, "f", ANF_ARG("x", f32)) {
    anf_tir_expr x = ANF_PARAM(b, 0);
    ANF_RETURN(b, ANF_DIV(b, x, 4.0f));
  }
  ANF_FUNC(b, void, "g", ANF_ARG("n", index), ANF_ARG_TENSOR("A", f32, ANF_DIM(0))) {
    anf_tir_expr n = ANF_PARAM(b, 0), A = ANF_PARAM(b, 1);
    ANF_FOR(b, i, 0UL, n) {
      anf_tir_expr at = ANF_AT(b, A, i), value = at;
      for (int k = 0; k < 10; k++) value = ANF_DIV(b, value, 8.0f);
      ANF_SET(b, at, ANF_DIV(b, value, 3.0f));
    }
    ANF_RETURN_VOID(b);
  }
  anf_status st = anf_tb_finish(b, d, out);
  anf_tb_free(b);
  return st;
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL, *o = NULL;
  int rewrites = 0;
  anf_tir_pass pass = {.size = sizeof pass,
                       .name = "reciprocals",
                       .needs = "CAST",
                       .func = reciprocals,
                       .user = &rewrites};
  anf_tir_arg x = {.v.f32 = 3}, y = {.v.f32 = 0};
  anf_status st = anf_tir_pass_register(cx, &pass, d);
  if (st == ANF_OK) st = build(cx, d, &m);
  if (st == ANF_OK) st = anf_tir_opt(m, "auto_caster reciprocals fold", NULL, d, &o);
  if (st == ANF_OK) st = anf_tir_run(o, "f", 1, &x, NULL, d, &y);
  if (st == ANF_OK)
    printf("%d divisions in %zu functions, %d left: f(3) = %g\n", divisions(cx, m),
           anf_tir_func_count(m), divisions(cx, o), (double)y.v.f32);
  anf_diag_print(d, stderr, false);
  anf_tir_module_free(o);
  anf_tir_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st != ANF_OK;
}
