// SPDX-License-Identifier: Apache-2.0
/* A graph built node by node, its gradient, both compiled: f(x, y) = x sin(y).
 * prints: f = 0.9975, df/dx = 0.9975, df/dy = 0.0707 */
#include <anfora/anfora.h>

static anf_graph *build(anf_module *m) {
  const anf_type *real = anf_type_scalar(anf_module_ctx(m), ANF_F64);
  anf_graph *f = anf_graph_new(m, "f");
  anf_node *x = anf_param(f, "x", real), *y = anf_param(f, "y", real);
  anf_return(f, ANF_APPLY(f, "Mul", x, ANF_APPLY(f, "Sin", y)));
  return f;
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = anf_module_new(cx);
  anf_graph *f = build(m), *df = NULL;
  anf_exec *e = NULL;
  anf_value *at[] = {anf_value_f64(cx, 1), anf_value_f64(cx, 1.5)}, *r = NULL;
  anf_grad_opts both = ANF_INIT(anf_grad_opts);
  both.wrt = "x y";
  both.value = true;
  anf_status st = anf_module_status(m); // what went wrong while it was built, if anything did
  if (st == ANF_OK) st = anf_grad(f, &both, d, &df);
  if (st == ANF_OK) st = anf_compile(df, NULL, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 2, at, NULL, d, &r);
  if (st == ANF_OK) {
    anf_value *slope = anf_value_at(r, 1);
    printf("f = %.4f, df/dx = %.4f, df/dy = %.4f\n", anf_value_get_f64(anf_value_at(r, 0), 0),
           anf_value_get_f64(anf_value_at(slope, 0), 0),
           anf_value_get_f64(anf_value_at(slope, 1), 0));
  }
  anf_diag_print(d, stderr, false);
  anf_value_release(r), anf_value_release(at[0]), anf_value_release(at[1]);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st != ANF_OK;
}
