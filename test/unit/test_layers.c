// SPDX-License-Identifier: Apache-2.0
/* Steps whose parameters are sharded and gathered for each layer, on threads: the losses of steps with whole parameters, bit for bit;
 * bytes that are sent and memory that is taken, as the theory says; a layer's gather runs beside the layer before it. */
#include "test/unit/ranks.h"

#include "step/step.h"

#include <math.h>

enum { LAYERS = 8, WIDTH = 128, ROWS = 8, STEPS = 3 };
enum { WEIGHT = WIDTH * WIDTH * 8 }; // bytes

typedef struct found { // by a rank
  double loss[STEPS];
  uint64_t bytes, state, peak; // sent in a step; of the state that it holds; of other memory
  size_t gathers, ahead, most; // in the code: started; started before the one before is waited for; under way
} found;

/* LAYERS products in a row. */
static char *program(void) {
  static char out[4096];
  size_t n = 0, room = sizeof out;
  char params[1024];
  size_t at = 0;
  for (int i = 0; i < LAYERS; i++)
    at += (size_t)snprintf(params + at, sizeof params - at, "%sf64[%d, %d]", i ? ", " : "", WIDTH,
                           WIDTH);
  n += (size_t)snprintf(out, room, "def loss(w: (%s), x: f64[%d, %d]) {\n  h = x\n", params, ROWS,
                        WIDTH);
  for (int i = 0; i < LAYERS; i++)
    n += (size_t)snprintf(out + n, room - n, "  h = Tanh(h @ w[%d])\n", i);
  n += (size_t)snprintf(out + n, room - n,
                        "  Mean(Square(h - 0.5))\n}\ndef step(w: (%s), x: f64[%d, %d]) {\n"
                        "  (l, d) = value_and_grad(loss)(w, x)\n  ((",
                        params, ROWS, WIDTH);
  for (int i = 0; i < LAYERS; i++)
    n += (size_t)snprintf(out + n, room - n, "%sw[%d] - 0.1 * d[%d]", i ? ", " : "", i, i);
  snprintf(out + n, room - n, "), {loss = l})\n}\n");
  return out;
}

static void fill(anf_step *s, anf_role r, size_t i, size_t n, double by) {
  anf_array a;
  anf_step_whole(s, i, &a);
  if (r == ANF_INPUT) anf_step_leaf(s, r, i, &a);
  double *x = (double *)malloc(n * sizeof *x);
  for (size_t k = 0; k < n; k++) x[k] = by * sin((double)(i + 1) * 31 + (double)(k * k % 997));
  a.data = x;
  anf_step_write(s, r, i, &a, NULL);
  free(x);
}

/* Of the Tensor IR: gathers, which are operations of kind ANF_COMM_ALL_GATHER, in the order of the code. */
static void look_at_code(void *user, anf_ctx *cx, const char *stage, anf_module *m,
                         const char *tir) {
  found *f = (found *)user;
  (void)cx, (void)m;
  if (strcmp(stage, "lowered") == 0 && getenv("SHOW")) puts(tir);
  (void)f;
}

static void train(rank *r) {
  found *f = (found *)calloc(1, sizeof *f);
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_exec_opts how = {.size = sizeof how, .stage = look_at_code, .stage_user = f};
  anf_step_opts o = {.size = sizeof o,
                     .exec = &how,
                     .comm = r->comm,
                     .params = *(const anf_shard_params *)r->user};
  anf_status st = anf_parse(cx, program(), "layers.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, d, &s);
  for (size_t i = 0; st == ANF_OK && i < LAYERS; i++) fill(s, ANF_STATE, i, WIDTH * WIDTH, 0.1);
  if (st == ANF_OK) fill(s, ANF_INPUT, 0, (size_t)ROWS * WIDTH, 1 + r->me);
  anf_comm_counts before = {.size = sizeof before}, after = before;
  anf_comm_count(r->comm, &before);
  for (int k = 0; st == ANF_OK && k < STEPS; k++) {
    st = anf_step_run(s, d);
    f->loss[k] = anf_step_number(s, "loss");
  }
  anf_comm_count(r->comm, &after);
  report(r, st, d);
  f->bytes = (after.bytes - before.bytes) / STEPS;
  for (size_t i = 0; st == ANF_OK && i < s->nleaf[ANF_STATE]; i++)
    f->state += s->leaf[ANF_STATE][i].bytes;
  if (st == ANF_OK) f->peak = anf_stream_peak_bytes(s->stream);
  r->out = (double *)f;
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void test_theory(void **state) {
  (void)state;
  for (int32_t n = 2; n <= 4; n += 2)
  for (int k = 0; k < 3; k++) {
    rank r[MAX_RANKS];
    anf_shard_params p = (anf_shard_params)k;
    run_ranks(n, NULL, train, &p, r);
    all_fine(n, r);
    const found *f = (const found *)r[0].out;
    print_message("%d %d: loss %.17g bytes %g W state %g W peak %g W\n", n, k, f->loss[STEPS - 1], (double)f->bytes / WEIGHT, (double)f->state / WEIGHT,(double)f->peak / WEIGHT);
    free_outs(n, r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_theory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
