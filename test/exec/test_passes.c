// SPDX-License-Identifier: Apache-2.0
/* Programs of examples/passes.anf and the loops of examples/passes.tir, each compiled without each of the passes that change
 * it: the results are the same, bit for bit; within a bound where the pass says that it rounds otherwise.
 * test_passes FILE.anf FILE.tir --time [NAME] tells what each saves on one thread, of all programs or of one. */
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

enum { MOST_PARAMS = 8, TEXT = 4096, TURNS = 40, ROUNDS = 3, MOST_PASSES = 64, CALLS = 200 };

static const char *const programs[] = {
    "widened", "heads",  "residual", "scores", "attend", "qkv",     "block",   "sums",
    "columns", "biased", "folded",   "step",   "half",   "batches", "chain",   "attend_grad",
    "rounds",  "swing",  "growth",   "chosen", "hidden", "merged",  "crossed", "split"};
/* Without it a product is one of dequantised floats, which rounds every factor. */
static const char *const rounding[] = {"analysis_quantized", "quantized_graph_reschedule",
                                       "quantize_op_compensation", "factor"};
/* `factor` fires there only after other passes. */
static const char *const factored[] = {"growth"};
static const double bound = 1e-5; // of the largest element
/* What code cannot be made without. */
static const char *const needed[] = {"expand", "quantize_inline", "index_flattener", "auto_caster"};

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
  if (d == ANF_BOOL) return anf_value_bool(cx, true);
  if (d == ANF_I64) return anf_value_i64(cx, 1000);
  bool bytes = d == ANF_I8 || d == ANF_U8, half = d == ANF_BF16, wide = d == ANF_F64;
  unsigned char *at = (unsigned char *)malloc(many * 8);
  for (size_t i = 0; at && i < many; i++) {
    double number = 0.5 + random_number(seed);
    float x = (float)number;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t top = (uint16_t)(bits >> 16);
    if (bytes) at[i] = (unsigned char)(random_number(seed) * 256);
    else if (half) memcpy(at + 2 * i, &top, sizeof top);
    else if (wide) memcpy(at + 8 * i, &number, sizeof number);
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
  double most = 0, off = 0;
  if (anf_value_dtype(a) == ANF_I8) return true; // steps of a scale
  for (size_t i = 0; i < anf_value_elements(a); i++) {
    double x = anf_value_get_f64(a, i);
    most = fmax(most, fabs(x));
    off = fmax(off, fabs(x - anf_value_get_f64(b, i)));
  }
  return off <= bound * most;
}

static void without(run *r, const char *program, const char *pass, bool graphs,
                    const anf_value *want, bool timed) {
  char pipeline[TEXT] = "", passes[TEXT] = "";
  double with = INFINITY, ms = INFINITY, once = 0;
  put_without("standard batchwise_merge", graphs ? pass : "", of_graphs, pipeline);
  put_without("codegen", graphs ? "" : pass, anf_tir_pipeline, passes);
  anf_value *got = result(r, pipeline, passes, timed, &ms);
  if (!got) ok(AMONG(needed, pass), program, pass, "no code");
  else if (AMONG(rounding, pass) || AMONG(factored, program))
    ok(near(want, got), program, pass, "within its bound");
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

/* ---- loops ---- */

/* A function of a module of loops and what it is called with: tensors of f32 or bf16 with at most LARGEST bytes. */
enum { LARGEST = 1 << 16 };
typedef struct loops {
  anf_ctx *cx;
  anf_diag *d;
  anf_tir_module *m;
  anf_tir_func f;
  unsigned char buf[MOST_PARAMS][LARGEST];
  anf_generic slot[MOST_PARAMS + 1];
} loops;

static void fill(loops *l) {
  uint64_t seed = 7;
  memset(l->slot, 0, sizeof l->slot);
  for (size_t k = 0; k < anf_tir_func_param_count(l->f); k++) {
    bool half = anf_tir_type(anf_tir_func_param(l->f, k)).elem == ANF_TIR_bf16;
    for (size_t i = 0; i < LARGEST / 4; i++) {
      float x = (float)(0.5 + random_number(&seed));
      uint32_t bits;
      memcpy(&bits, &x, sizeof bits);
      if (half) bits = (bits & 0xffff0000u) | bits >> 16;
      memcpy(l->buf[k] + 4 * i, &bits, sizeof bits);
    }
    l->slot[k].ptr = l->buf[k];
  }
}

/* The least time of a call, in us; the tensors and the result are of the first call. */
static double call(loops *l, const char *passes, bool timed) {
  anf_jit_opts o = {.size = sizeof o, .passes = passes};
  anf_jit_engine *e = NULL;
  anf_jit_module *code = NULL;
  double least = INFINITY;
  fill(l);
  anf_status st = anf_jit_engine_new(l->cx, ANF_JIT_LLVM, &o, l->d, &e);
  if (st == ANF_OK) st = anf_jit_make_module(e, l->m, l->d, &code);
  anf_jit_function *f = st == ANF_OK ? anf_jit_get_function(code, anf_tir_func_name(l->f)) : NULL;
  anf_stream_set_threads(anf_stream_of_thread(), timed ? 1 : 2);
  for (int turn = 0; f && turn < (timed ? TURNS : 1); turn++) {
    double from = now_ms();
    for (int i = 0; i < (timed ? CALLS : 1); i++)
      anf_jit_call_generic(f, anf_stream_of_thread(), l->slot);
    least = fmin(least, (now_ms() - from) * 1e3 / (timed ? CALLS : 1));
  }
  anf_jit_function_free(f);
  anf_jit_module_free(code);
  anf_jit_engine_free(e);
  return least;
}

static void note_pass(void *user, const char *pass, bool changed) {
  const char **list = (const char **)user;
  size_t many = 0;
  while (list[many]) many++;
  if (changed && many + 1 < MOST_PASSES && !among(list, many, pass)) list[many] = pass;
}

/* Is the function another with these passes than with all? */
static bool differs(const loops *l, const anf_tir_module *all, const char *passes) {
  const char *name = anf_tir_func_name(l->f);
  anf_tir_module *m = NULL;
  bool made = anf_tir_opt(l->m, passes, NULL, l->d, &m) == ANF_OK;
  bool same = made && anf_tir_find(all, name) && anf_tir_find(m, name) &&
              anf_tir_equal_func(l->cx, anf_tir_find(all, name), anf_tir_find(m, name), NULL, NULL);
  anf_tir_module_free(m);
  return !same;
}

static void loops_without(loops *l, const loops *want, const anf_tir_module *all, const char *pass,
                          bool timed) {
  const char *name = anf_tir_func_name(l->f);
  char passes[TEXT] = "";
  put_without("codegen", pass, anf_tir_pipeline, passes);
  if (!differs(l, all, passes)) return;
  if (call(l, passes, false) == INFINITY) { // a pass after it needs what it makes
    ok(AMONG(needed, pass), name, pass, "no code");
    return;
  }
  ok(memcmp(l->buf, want->buf, sizeof l->buf) == 0, name, pass, "");
  if (!timed) return;
  double with = INFINITY, than = INFINITY;
  for (int i = 0; i < ROUNDS; i++)
    with = fmin(with, call(l, NULL, true)), than = fmin(than, call(l, passes, true));
  printf("# %-10s %-28s %8.2f us, without %8.2f\n", name, pass, with, than);
}

/* The functions that are entries, each without the passes that change it. */
static bool try_loops(anf_ctx *cx, const char *file, const char *only, bool timed) {
  loops *l = (loops *)calloc(2, sizeof *l), *want = l ? l + 1 : NULL;
  const char *changed[MOST_PASSES] = {NULL};
  anf_tir_opt_opts o = {.size = sizeof o, .user = changed, .ran = note_pass};
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *made = NULL;
  bool good = l && anf_tir_load(cx, file, d, &l->m) == ANF_OK &&
              anf_tir_opt(l->m, "codegen", &o, d, &made) == ANF_OK;
  for (size_t i = 0; good && i < anf_tir_func_count(l->m); i++) {
    l->cx = cx, l->d = d, l->f = anf_tir_func_at(l->m, i);
    if (anf_tir_func_attr(l->f, "is_private", NULL) ||
        (only && strcmp(only, anf_tir_func_name(l->f)) != 0))
      continue;
    call(l, NULL, false);
    memcpy(want->buf, l->buf, sizeof l->buf);
    for (size_t k = 0; changed[k]; k++) loops_without(l, want, made, changed[k], timed);
  }
  if (!good) anf_diag_print(d, stderr, false);
  anf_tir_module_free(made);
  if (l) anf_tir_module_free(l->m);
  anf_diag_free(d);
  free(l);
  return good;
}

int main(int argc, char **argv) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  bool timed = argc > 3 && strcmp(argv[3], "--time") == 0;
  if (argc < 3 || anf_load(cx, argv[1], d, &m) != ANF_OK)
    return anf_diag_print(d, stderr, false), 2;
  const char *only = argc > 4 ? argv[4] : NULL;
  if (!try_loops(cx, argv[2], only, timed)) return 2;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    if (!only || strcmp(only, programs[i]) == 0) try_program(cx, m, programs[i], timed);
  printf("1..%u\n", n);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bad > 0;
}
