// SPDX-License-Identifier: Apache-2.0
/* Programs of examples/passes.anf, each compiled without each of the passes that change it: the results are the same, bit
 * for bit; within a bound where the pass says that it rounds otherwise. test_passes FILE --time tells what each saves on one thread. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"
#include "anfora/opt.h"
#include "anfora/tir.h"

enum { MOST_PARAMS = 8, TEXT = 4096, TURNS = 40, ROUNDS = 3 };

static const char *const programs[] = {"widened", "heads", "residual", "scores",  "attend",
                                       "qkv",     "block", "sums",     "columns", "biased",
                                       "folded",  "step",  "half",     "batches"};
/* Without it a product is one of dequantised floats, which rounds every factor. */
static const char *const rounding[] = {"analysis_quantized", "quantized_graph_reschedule",
                                       "quantize_op_compensation"};
static const double bound = 1e-5; // of the largest element
/* What code cannot be made without. */
static const char *const needed[] = {"expand", "quantize_inline"};

static unsigned n, bad;

static void ok(bool good, const char *program, const char *pass, const char *why) {
  bad += !good;
  printf("%s %u - %s without %s%s%s\n", good ? "ok" : "not ok", ++n, program, pass,
         *why ? ": " : "", why);
}

static bool among(const char *const *list, size_t many, const char *name) {
  for (size_t i = 0; i < many; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}
#define AMONG(list, name) among(list, sizeof(list) / sizeof *(list), name)

/* ---- pipelines ---- */

static const char *of_graphs(const char *name) {
  const char *text, *found;
  for (size_t i = 0; (found = anf_pipeline_name(i, &text)); i++)
    if (strcmp(found, name) == 0) return text;
  return NULL;
}

/* The pipeline, and those that it names, without the pass. */
static void put_without(const char *text, const char *pass, const char *(*named)(const char *),
                        char *out) {
  while (*text) {
    size_t len = strcspn(text, " ()*");
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    size_t at = strlen(out);
    if (!len) snprintf(out + at, TEXT - at, "%c", *text++);
    else if (named(word)) put_without(named(word), pass, named, out);
    else if (strcmp(word, pass) != 0) snprintf(out + at, TEXT - at, "%s", word);
    text += len;
  }
}

/* ---- a program ---- */

typedef struct run {
  anf_ctx *cx;
  anf_diag *d;
  anf_graph *g;
  size_t n;
  anf_value *arg[MOST_PARAMS];
  const anf_type *type[MOST_PARAMS];
} run;

static double random_number(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*seed >> 40) / (double)(1 << 24);
}

/* Between 0.5 and 1.5, which may be a variance, too; of bytes, any. */
static anf_value *argument(anf_ctx *cx, const anf_type *t, uint64_t *seed) {
  int64_t dims[8];
  size_t many = 1, rank = anf_type_rank(t);
  for (size_t i = 0; i < rank; i++) many *= (size_t)(dims[i] = anf_type_dim(t, i));
  anf_dtype d = anf_type_dtype(t);
  bool bytes = d == ANF_I8 || d == ANF_U8, half = d == ANF_BF16;
  unsigned char *at = (unsigned char *)malloc(many * 4);
  for (size_t i = 0; at && i < many; i++) {
    float x = (float)(0.5 + random_number(seed));
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t top = (uint16_t)(bits >> 16);
    if (bytes) at[i] = (unsigned char)(random_number(seed) * 256);
    else if (half) memcpy(at + 2 * i, &top, sizeof top);
    else memcpy(at + 4 * i, &x, sizeof x);
  }
  anf_value *v = at ? anf_value_tensor(cx, d, rank, dims, at) : NULL;
  free(at);
  return v;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* NULL: it cannot be compiled so. */
static anf_value *result(run *r, const char *pipeline, const char *passes, bool timed, double *ms) {
  anf_jit_opts jit = {.size = sizeof jit, .passes = passes};
  anf_exec_opts o = {.size = sizeof o, .jit = &jit, .parallel = true, .pipeline = pipeline};
  anf_exec *e = NULL;
  anf_value *v = NULL;
  if (anf_compile(r->g, &o, r->d, &e) != ANF_OK) return NULL;
  anf_stream_set_threads(anf_stream_of_thread(), timed ? 1 : 2);
  *ms = INFINITY;
  for (int i = 0; i < (timed ? TURNS : 1); i++) {
    double from = now_ms();
    anf_value_release(v);
    v = NULL;
    if (anf_exec_run(e, r->n, r->arg, NULL, r->d, &v) != ANF_OK) break;
    *ms = fmin(*ms, now_ms() - from);
  }
  anf_exec_free(e);
  return v;
}

static bool near(const anf_value *a, const anf_value *b) {
  if (anf_value_get_kind(a) != ANF_VALUE_TENSOR) return false;
  const float *x = (const float *)anf_value_data(a), *y = (const float *)anf_value_data(b);
  double most = 0, off = 0;
  if (anf_value_dtype(a) != ANF_F32) return true; // bytes: steps of a scale
  for (size_t i = 0; i < anf_value_elements(a); i++) {
    most = fmax(most, fabs((double)x[i]));
    off = fmax(off, fabs((double)x[i] - (double)y[i]));
  }
  return off <= bound * most;
}

static void without(run *r, const char *program, const char *pass, bool graphs,
                    const anf_value *want, bool timed) {
  char pipeline[TEXT] = "", passes[TEXT] = "";
  double with = INFINITY, ms = INFINITY, once = 0;
  put_without("standard", graphs ? pass : "", of_graphs, pipeline);
  put_without("codegen", graphs ? "" : pass, anf_tir_pipeline, passes);
  anf_value *got = result(r, pipeline, passes, timed, &ms);
  if (!got) ok(AMONG(needed, pass), program, pass, "no code");
  else if (AMONG(rounding, pass)) ok(near(want, got), program, pass, "within its bound");
  else ok(anf_value_same(want, got), program, pass, "");
  for (int i = 0; timed && got && i < ROUNDS; i++) { // in turn
    anf_value_release(result(r, NULL, NULL, true, &once));
    with = fmin(with, once);
    anf_value_release(result(r, pipeline, passes, true, &once));
    ms = fmin(ms, once);
  }
  if (timed && got)
    printf("# %-10s %-28s %8.1f us, without %8.1f\n", program, pass, with * 1e3, ms * 1e3);
  anf_value_release(got);
}

/* "passes of graphs: simplify 3, cse 1" */
static void each(run *r, const char *program, char *line, bool graphs, const anf_value *want,
                 bool timed) {
  char *save = NULL;
  for (char *word = strtok_r(line, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
    bool number = word[0] >= '0' && word[0] <= '9';
    bool engine = strcmp(word, "module_globals_resolver") == 0 ||
                  strcmp(word, "local_tensor_lowering_cpu") == 0;
    if (!number && !engine) without(r, program, word, graphs, want, timed);
  }
}

static void try_program(anf_ctx *cx, anf_module *m, const char *name, bool timed) {
  run r = {.cx = cx, .d = anf_diag_new(cx), .g = anf_module_find(m, name)};
  anf_text t = {.cx = cx};
  anf_exec_opts o = {.size = sizeof o, .parallel = true};
  uint64_t seed = 7;
  double ms = 0;
  r.n = r.g ? anf_graph_param_count(r.g) : 0;
  for (size_t i = 0; i < r.n; i++) {
    r.type[i] = anf_node_type(anf_graph_param(r.g, i));
    r.arg[i] = argument(cx, r.type[i], &seed);
  }
  anf_value *want = r.g ? result(&r, NULL, NULL, timed, &ms) : NULL;
  if (!want || anf_lowered_print(r.g, r.n, r.type, "fusion", &o, r.d, &t) != ANF_OK)
    ok(false, name, "nothing", "fails");
  char *graphs = t.text ? strstr(t.text, "passes of graphs: ") : NULL,
       *loops = t.text ? strstr(t.text, "passes of loops: ") : NULL;
  if (graphs)
    graphs[strcspn(graphs, "\n")] = '\0',
                           each(&r, name, graphs + strlen("passes of graphs: "), true, want, timed);
  if (loops)
    loops[strcspn(loops, "\n")] = '\0',
                         each(&r, name, loops + strlen("passes of loops: "), false, want, timed);
  else ok(false, name, "nothing", "no pass over loops is listed");
  for (size_t i = 0; i < r.n; i++) anf_value_release(r.arg[i]);
  anf_value_release(want);
  anf_text_free(&t);
  anf_diag_free(r.d);
}

int main(int argc, char **argv) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  bool timed = argc > 2 && strcmp(argv[2], "--time") == 0;
  if (argc < 2 || anf_load(cx, argv[1], d, &m) != ANF_OK)
    return anf_diag_print(d, stderr, false), 2;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    try_program(cx, m, programs[i], timed);
  printf("1..%u\n", n);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bad > 0;
}
