// SPDX-License-Identifier: Apache-2.0
/* random [--programs N] [--seed S] [--size N] [--show SEED]
 * Random programs: what the interpreter gives before optimisation it must give after, for every
 * pass alone and for whole pipelines, with the module verified after each pass, and compiled by
 * every engine. Speaks TAP, one
 * line a pipeline; a failure prints the seed and the program. */
#include "generate.h"

#include "anfora/anfora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const pipelines[] = {
    "lift",
    "first_order",
    "first_order cse",
    "first_order fold",
    "first_order simplify",
    "first_order inline",
    "first_order scalarise",
    "first_order need",
    "first_order branch",
    "first_order loop",
    "first_order dce",
    "first_order loop hoist",
    "first_order clean loop clean carry",
    "first_order clean loop hoist unroll clean",
    "first_order clean",
    "standard",
    "first_order loop clean (expand clean)* lift specialise clean"};
enum { PIPELINES = sizeof pipelines / sizeof *pipelines, INPUTS = 2 };
/* Compiled by engines; `every`: one in so many programs. */
static const struct {
  const char *name;
  anf_jit_kind kind;
  anf_jit_level level;
  uint64_t every;
} engines[] = {{"compiled, interpreter of Tensor IR", ANF_JIT_INTERP, ANF_JIT_O0, 1},
               {"compiled by LLVM, not optimised", ANF_JIT_LLVM, ANF_JIT_O0, 4},
               {"compiled by LLVM", ANF_JIT_LLVM, ANF_JIT_O2, 2},
               {"compiled by the C compiler", ANF_JIT_CJIT, ANF_JIT_O2, 50}};
enum { ENGINES = sizeof engines / sizeof *engines, WAYS = PIPELINES + ENGINES };

static const char *way(int p) { return p < PIPELINES ? pipelines[p] : engines[p - PIPELINES].name; }

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_value *arg[INPUTS][6];
  anf_jit_engine *engine[ENGINES];
  size_t ran, failing, tried[WAYS], failed[WAYS];
} bench;

static void make_inputs(bench *b) {
  static const float data[INPUTS][5] = {{1.5f, -2.0f, 0.5f, -1.25f, 3.0f},
                                        {0.0f, -0.0f, 1e20f, -3.0f, 0.1f}};
  int64_t three = 3;
  for (int i = 0; i < INPUTS; i++) {
    b->arg[i][0] = anf_value_i64(b->cx, i ? -4 : 5);
    b->arg[i][1] = anf_value_i64(b->cx, i ? 1000000007 : 2);
    b->arg[i][2] = anf_value_f32(b->cx, data[i][0]);
    b->arg[i][3] = anf_value_f32(b->cx, data[i][1]);
    b->arg[i][4] = anf_value_bool(b->cx, i == 0);
    b->arg[i][5] = anf_value_tensor(b->cx, ANF_F32, 1, &three, data[i] + 2);
  }
}

static anf_status run(bench *b, anf_module *m, int input, anf_value **out) {
  anf_run_opts o = {.size = sizeof o, .max_steps = 2000000, .max_depth = 100000};
  *out = NULL;
  return anf_run(anf_module_find(m, "main"), 6, b->arg[input], &o, b->d, out);
}

/* Compiled functions of f32 over elements are off by some units of the last place (docs/lowering.md):
 * `part` is what such errors may grow to. */
static bool close(double x, double y, double part) {
  double size = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
  return fabs(x - y) <= part * (size > 1 ? size : 1);
}

/* As anf_value_same, but any NaN is as good as another. */
static bool same(const anf_value *a, const anf_value *b, double part) {
  if (anf_value_get_kind(a) != anf_value_get_kind(b)) return false;
  if (anf_value_get_kind(a) == ANF_VALUE_TUPLE) {
    if (anf_value_count(a) != anf_value_count(b)) return false;
    for (size_t i = 0; i < anf_value_count(a); i++)
      if (!same(anf_value_at(a, i), anf_value_at(b, i), part)) return false;
    return true;
  }
  if (anf_value_same(a, b)) return true;
  if (anf_value_get_kind(a) != ANF_VALUE_TENSOR || anf_value_dtype(a) != anf_value_dtype(b))
    return false;
  if (anf_value_dtype(a) != ANF_F32 || anf_value_elements(a) != anf_value_elements(b)) return false;
  const float *x = (const float *)anf_value_data(a), *y = (const float *)anf_value_data(b);
  for (size_t i = 0; i < anf_value_elements(a); i++)
    if (memcmp(&x[i], &y[i], sizeof *x) != 0 && !(x[i] != x[i] && y[i] != y[i]) &&
        !close((double)x[i], (double)y[i], part))
      return false;
  return true;
}

static void complain(bench *b, uint64_t seed, int p, const char *what, const char *text) {
  if (!b->failed[p]++) {
    printf("# seed %llu, %s: %s\n", (unsigned long long)seed, way(p), what);
    for (size_t i = 0; i < anf_diag_count(b->d); i++)
      printf("# %s %s\n", anf_diag_at(b->d, i)->code, anf_diag_at(b->d, i)->message);
    for (const char *s = text; *s;) {
      const char *end = strchr(s, '\n');
      printf("#   %.*s\n", (int)(end - s), s);
      s = end + 1;
    }
  }
}

static void try_pipeline(bench *b, uint64_t seed, int p, const char *text, anf_value *const *want) {
  anf_opt_opts o = {.size = sizeof o, .verify_each = true};
  anf_module *m = NULL;
  anf_diag_clear(b->d);
  if (anf_parse(b->cx, text, "random.anf", b->d, &m) != ANF_OK) return;
  anf_status st = anf_optimise(m, pipelines[p], &o, b->d);
  if (st == ANF_UNSUPPORTED || st == ANF_LIMIT)
    b->failing++; // closures without bound: said, and not compiled
  else if (st != ANF_OK) complain(b, seed, p, anf_status_name(st), text);
  for (int i = 0; st == ANF_OK && i < INPUTS; i++) {
    anf_value *got = NULL;
    if (!want[i]) continue;
    if (run(b, m, i, &got) != ANF_OK) complain(b, seed, p, "it does not run any more", text);
    else if (!same(want[i], got, 0)) complain(b, seed, p, "another value", text);
    anf_value_release(got);
  }
  anf_module_free(m);
}

static void try_engine(bench *b, uint64_t seed, int e, const char *text, anf_value *const *want) {
  anf_exec_opts o = {.size = sizeof o, .engine = b->engine[e]};
  anf_run_opts ro = {.size = sizeof ro};
  anf_module *m = NULL;
  anf_exec *x = NULL;
  int p = PIPELINES + e;
  anf_diag_clear(b->d);
  if (anf_parse(b->cx, text, "random.anf", b->d, &m) != ANF_OK) return;
  anf_status st = anf_compile(anf_module_find(m, "main"), &o, b->d, &x);
  b->tried[p]++;
  if (st == ANF_UNSUPPORTED || st == ANF_LIMIT) b->failing++;
  else if (st != ANF_OK) complain(b, seed, p, anf_status_name(st), text);
  for (int i = 0; st == ANF_OK && i < INPUTS; i++) {
    anf_value *got = NULL;
    if (!want[i]) continue;
    if (anf_exec_run(x, 6, b->arg[i], &ro, b->d, &got) != ANF_OK)
      complain(b, seed, p, "it does not run any more", text);
    else if (!same(want[i], got, 1e-5)) complain(b, seed, p, "another value", text);
    anf_value_release(got);
  }
  anf_exec_free(x);
  anf_module_free(m);
}

static bool make_engines(bench *b) {
  for (int e = 0; e < ENGINES; e++) {
    anf_jit_opts o = {.size = sizeof o, .level = engines[e].level};
    if (anf_jit_engine_new(b->cx, engines[e].kind, &o, b->d, &b->engine[e]) != ANF_OK) return false;
  }
  return true;
}

static void try_program(bench *b, uint64_t seed, size_t size) {
  char *text = generate_program(seed, size);
  anf_module *m = NULL;
  anf_value *want[INPUTS] = {0};
  anf_diag_clear(b->d);
  if (anf_parse(b->cx, text, "random.anf", b->d, &m) != ANF_OK)
    complain(b, seed, 0, "it does not parse", text);
  for (int i = 0; m && i < INPUTS; i++)
    if (run(b, m, i, &want[i]) == ANF_OK) b->ran++;
  anf_module_free(m);
  for (int p = 0; m && p < PIPELINES; p++) try_pipeline(b, seed, p, text, want);
  for (int e = 0; m && e < ENGINES; e++)
    if (seed % engines[e].every == 0) try_engine(b, seed, e, text, want);
  for (int i = 0; i < INPUTS; i++) anf_value_release(want[i]);
  free(text);
}

int main(int argc, char **argv) {
  generate_opts o = generate_read_opts(argc, argv, 300, 40);
  if (o.show) {
    char *text = generate_program(o.seed, o.size);
    fputs(text, stdout);
    free(text);
    return 0;
  }
  bench b = {.cx = anf_ctx_new(NULL)};
  b.d = anf_diag_new(b.cx);
  make_inputs(&b);
  if (!make_engines(&b)) {
    anf_diag_print(b.d, stderr, false);
    return 1;
  }
  for (size_t i = 0; i < o.programs; i++) try_program(&b, o.seed + i, o.size);
  printf("1..%d\n", WAYS + 1);
  for (int p = 0; p < WAYS; p++)
    printf("%s %d - %zu random programs: %s\n", b.failed[p] ? "not ok" : "ok", p + 1,
           p < PIPELINES ? o.programs : b.tried[p], way(p));
  /* A generator of programs that mostly fail would test nothing. */
  bool useful =
      b.ran * 10 >= o.programs * INPUTS * 8 && b.failing * 10 <= o.programs * PIPELINES * 2;
  printf("%s %d - most programs run (%zu of %zu) and compile (all but %zu of %zu)\n",
         useful ? "ok" : "not ok", WAYS + 1, b.ran, o.programs * INPUTS, b.failing,
         o.programs * PIPELINES);
  for (int i = 0; i < INPUTS; i++)
    for (int k = 0; k < 6; k++) anf_value_release(b.arg[i][k]);
  for (int e = 0; e < ENGINES; e++) anf_jit_engine_free(b.engine[e]);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return !useful;
}
