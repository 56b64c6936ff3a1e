// SPDX-License-Identifier: Apache-2.0
/* An op of the host's own, with its derivative, in a program that is differentiated: softplus(x) = log(1 + e^x).
 * prints: [0.1192, 0.5000, 0.8808] */
#include <anfora/anfora.h>
#include <math.h>

static void softplus(int64_t n, const double *x, double *y) {
  for (int64_t i = 0; i < n; i++) y[i] = log1p(exp(x[i]));
}
/* Takes the argument, the result and the cotangent of the result. */
static void softplus_vjp(int64_t n, const double *x, const double *dy, double *dx) {
  for (int64_t i = 0; i < n; i++) dx[i] = dy[i] / (1 + exp(-x[i]));
}

static anf_status plug_in(anf_ctx *cx, anf_diag *d) {
  anf_host_op op = ANF_INIT(anf_host_op), vjp = ANF_INIT(anf_host_op);
  op.name = "softplus", op.type = "fn(f64[N]) -> f64[N]", op.takes = "N 0 out",
  op.vjp = "softplus_vjp";
  op.function = (void (*)(void))softplus;
  vjp.name = "softplus_vjp", vjp.type = "fn(f64[N], f64[N], f64[N]) -> f64[N]",
  vjp.takes = "N 0 2 out";
  vjp.function = (void (*)(void))softplus_vjp;
  anf_status st = anf_op_register(cx, &op, d);
  return st == ANF_OK ? anf_op_register(cx, &vjp, d) : st;
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_graph *g = NULL;
  anf_exec *e = NULL;
  int64_t three = 3;
  anf_value *x = anf_value_tensor(cx, ANF_F64, 1, &three, (double[]){-2, 0, 2}), *r = NULL;
  anf_status st = plug_in(cx, d);
  if (st == ANF_OK) st = anf_parse(cx, "def f(x: f64[3]) { Sum(softplus(x)) }", "plugin.c", d, &m);
  if (st == ANF_OK) st = anf_grad(anf_module_find(m, "f"), NULL, d, &g);
  if (st == ANF_OK) st = anf_compile(g, NULL, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &x, NULL, d, &r);
  const double *s = anf_value_data(r);
  if (s) printf("[%.4f, %.4f, %.4f]\n", s[0], s[1], s[2]);
  anf_diag_print(d, stderr, false);
  anf_value_release(r), anf_value_release(x);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st != ANF_OK;
}
