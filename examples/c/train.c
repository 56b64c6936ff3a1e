// SPDX-License-Identifier: Apache-2.0
/* A line through points, trained in place on the host's arrays.
 * prints: w = 2.00, b = -1.00 */
#include <anfora/anfora.h>

static const char program[] = "def loss(p, x, y) { Mean((p.w * x + p.b - y) ** 2) }\n"
                              "def step(p: {w: f32, b: f32}, x: f32[4], y: f32[4]) {\n"
                              "  (l, g) = value_and_grad(loss)(p, x, y)\n"
                              "  ({w = p.w - 0.2 * g.w, b = p.b - 0.2 * g.b}, {loss = l})\n"
                              "}\n";

int main(void) {
  float x[4] = {-1, 0, 1, 2}, y[4], w = 0, b = 0; // y = 2 x - 1
  for (int i = 0; i < 4; i++) y[i] = 2 * x[i] - 1;
  int64_t four = 4;
  const anf_array number[] = {{.dtype = ANF_F32, .data = &w}, {.dtype = ANF_F32, .data = &b}};
  const anf_array input[] = {{.dtype = ANF_F32, .rank = 1, .dims = &four, .data = x},
                             {.dtype = ANF_F32, .rank = 1, .dims = &four, .data = y}};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_status st = anf_parse(cx, program, "train.c", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, NULL, d, &s);
  for (size_t i = 0; i < 2 && st == ANF_OK; i++) st = anf_step_bind(s, ANF_STATE, i, &number[i], d);
  for (size_t i = 0; i < 2 && st == ANF_OK; i++) st = anf_step_bind(s, ANF_INPUT, i, &input[i], d);
  for (int i = 0; i < 200 && st == ANF_OK; i++) st = anf_step_run(s, d);
  if (st == ANF_OK) printf("w = %.2f, b = %.2f\n", w, b);
  anf_diag_print(d, stderr, false);
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st != ANF_OK;
}
