// SPDX-License-Identifier: Apache-2.0
/* Steps whose parameters are sharded and gathered for each layer, on threads: the losses of steps with whole parameters, bit for bit;
 * bytes that are sent and memory that is taken, as the theory says; a layer's gather runs beside the layer before it. */
#include "test/unit/ranks.h"

#include "runtime/rt.h"
#include "step/step.h"

#include <math.h>

enum { MOST = 14, WIDTH = 128, ROWS = 8, STEPS = 3 };
static const int WEIGHT = WIDTH * WIDTH * 8; // bytes

typedef struct plan {
  int layers;
  anf_shard_params params;
} plan;

typedef struct found { // by a rank
  double loss[STEPS];
  uint64_t bytes, state, peak; // sent in a step; of the state that it holds; of other memory
  size_t gathers, ahead;       // in the code: started; waited for when exactly one more is started
} found;

enum { ROOM = 4096 };

/* So many products in a row. */
static char *program(int layers) {
  char *out = (char *)malloc(ROOM), params[1024];
  size_t n = 0, room = ROOM, at = 0;
  for (int i = 0; i < layers; i++)
    at += (size_t)snprintf(params + at, sizeof params - at, "%sf64[%d, %d]", i ? ", " : "", WIDTH,
                           WIDTH);
  n += (size_t)snprintf(out, room, "def loss(w: (%s), x: f64[%d, %d]) {\n  h = x\n", params, ROWS,
                        WIDTH);
  for (int i = 0; i < layers; i++)
    n += (size_t)snprintf(out + n, room - n, "  h = Tanh(h @ w[%d])\n", i);
  n += (size_t)snprintf(out + n, room - n,
                        "  Mean(Square(h - 0.5))\n}\ndef step(w: (%s), x: f64[%d, %d]) {\n"
                        "  (l, d) = value_and_grad(loss)(w, x)\n  ((",
                        params, ROWS, WIDTH);
  for (int i = 0; i < layers; i++)
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

/* The number of the ticket that is named here. */
static long ticket_at(const char *p) {
  return strncmp(p, "ticket_", 7) == 0 ? strtol(p + 7, NULL, 10) : 0;
}

/* Of the Tensor IR: tickets of gathers in the order of their starts; each is waited for when the next has been started, and
 * none after that. */
static void look_at_code(void *user, anf_ctx *cx, const char *stage, anf_module *m,
                         const char *tir) {
  static const char start[] = ": s64 = anf_rt_comm_start(3, ", wait[] = "anf_rt_comm_wait(";
  found *f = (found *)user;
  long gather[64];
  size_t waited = 0;
  (void)cx, (void)m;
  if (strcmp(stage, "lowered") != 0) return;
  for (const char *line = tir; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    size_t len = strcspn(line, "\n");
    const char *var = strstr(line, "var ticket"), *s = strstr(line, start), *w = strstr(line, wait);
    if (s && s < line + len && f->gathers < 64) gather[f->gathers++] = ticket_at(var + 4);
    if (!w || w > line + len || waited == f->gathers || line[0] != ' ') continue;
    if (ticket_at(w + strlen(wait)) != gather[waited]) continue;
    f->ahead += ++waited + 1 == f->gathers;
  }
}

static void train(rank *r) {
  const plan *p = (const plan *)r->user;
  found *f = (found *)calloc(1, sizeof *f);
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_exec_opts how = {.size = sizeof how, .stage = look_at_code, .stage_user = f};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .comm = r->comm, .params = p->params};
  char *text = program(p->layers);
  anf_status st = anf_parse(cx, text, "layers.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, d, &s);
  for (size_t i = 0; st == ANF_OK && i < (size_t)p->layers; i++)
    fill(s, ANF_STATE, i, WIDTH * WIDTH, 0.1);
  if (st == ANF_OK) fill(s, ANF_INPUT, 0, (size_t)ROWS * WIDTH, 1 + r->me);
  if (s)
    s->stream->o.block_bytes = 1 << 12; // the peak is what tensors take, not a block of a megabyte
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
  free(text);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static found run(int32_t ranks, int layers, anf_shard_params params) {
  rank r[MAX_RANKS];
  run_ranks(ranks, NULL, train, &(plan){layers, params}, r);
  all_fine(ranks, r);
  const found *f = (const found *)r[0].out, first = *f;
  for (int32_t i = 1; i < ranks; i++)
    assert_memory_equal(f->loss, ((const found *)r[i].out)->loss, sizeof f->loss);
  free_outs(ranks, r);
  return first;
}

static void near(double a, double b, double by) {
  if (!(fabs(a - b) <= by)) fail_msg("%g, not %g", a, b);
}

/* A rank sends (R - 1) / R of a parameter to gather it or to scatter its gradient, twice as much to sum a gradient. The first layer's is
 * not read backward, and those of the last two are kept from the forward sweep. */
static void test_bytes(void **state) {
  (void)state;
  for (int32_t n = 2; n <= 4; n += 2) {
    double part = (n - 1.0) / n * WEIGHT;
    found whole = run(n, 8, ANF_PARAMS_WHOLE), again = run(n, 8, ANF_PARAMS_AGAIN),
          once = run(n, 8, ANF_PARAMS_ONCE);
    near((double)whole.bytes, 2 * 8 * part, 100);
    near((double)once.bytes, 2 * 8 * part, 100);
    near((double)again.bytes, (2 * 8 + 8 - 3) * part, 100);
    assert_memory_equal(whole.loss, again.loss, sizeof whole.loss);
    assert_memory_equal(whole.loss, once.loss, sizeof whole.loss);
  }
}

/* What another layer adds, in parameters: whole ones are held with their gradients; in parts, both are. One that is gathered once is
 * there as well. Activations are small. */
static void test_memory(void **state) {
  (void)state;
  enum { FEW = MOST - 6 };
  for (int32_t n = 2; n <= 4; n += 2)
    for (int k = ANF_PARAMS_WHOLE; k <= ANF_PARAMS_ONCE; k++) {
      found few = run(n, FEW, (anf_shard_params)k), many = run(n, MOST, (anf_shard_params)k);
      double held = (double)(many.state - few.state) / 6 / WEIGHT,
             other = ((double)many.peak - (double)few.peak) / 6 / WEIGHT;
      near(held, k ? 1.0 / n : 1, 0);
      near(other, k == ANF_PARAMS_WHOLE ? 1 : k == ANF_PARAMS_AGAIN ? 1.0 / n : 1 + 1.0 / n, 0.2);
      assert_int_equal(few.state, k ? FEW * WEIGHT / n : FEW * WEIGHT);
    }
}

/* One layer ahead, in both sweeps; the last gather has none after it. */
static void test_order(void **state) {
  (void)state;
  found again = run(2, 8, ANF_PARAMS_AGAIN), once = run(2, 8, ANF_PARAMS_ONCE);
  assert_int_equal(again.gathers, 8 + 8 - 3);
  assert_int_equal(again.ahead, again.gathers - 1);
  assert_int_equal(once.gathers, 8);
  assert_int_equal(once.ahead, once.gathers - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
