// SPDX-License-Identifier: Apache-2.0
/* random_tensors [--programs N] [--seed S] [--size N] [--show SEED]
 * Random programs over tensors, of ops that fuse with one another: pointwise ones, index maps,
 * reductions, rows, products. Compiled code must give what the interpreter does, plain, with loops on
 * many threads, with fast sums, and by the C compiler: within BOUND of the largest element of each
 * tensor, for values and for gradients. All functions are smooth enough that rounding does not grow.
 * Speaks TAP, one line a way of compiling; a failure prints the seed and the program. */
#include "generate.h"
#include "tensor_program.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ways to compile ---- */

static const struct {
  const char *name;
  anf_jit_kind kind;
  anf_jit_level level; // LLVM's optimiser takes most of the time
  bool parallel, fast;
  uint64_t every; // one in so many programs
} ways[] = {{"LLVM, not optimised", ANF_JIT_LLVM, ANF_JIT_O0, false, false, 1},
            {"LLVM", ANF_JIT_LLVM, ANF_JIT_O2, false, false, 4},
            {"LLVM, not optimised, parallel", ANF_JIT_LLVM, ANF_JIT_O0, true, false, 2},
            {"LLVM, parallel", ANF_JIT_LLVM, ANF_JIT_O2, true, false, 9},
            {"LLVM, fast", ANF_JIT_LLVM, ANF_JIT_O2, false, true, 5},
            {"the C compiler, parallel and fast", ANF_JIT_CJIT, ANF_JIT_O2, true, true, 40}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *engine[WAYS];
  size_t ran, refused, tried[WAYS], failed[WAYS];
} bench;

static double bound(anf_dtype d) { return d == ANF_F32 ? 2e-4 : d == ANF_BF16 ? 0.06 : 1e-10; }

static double element(const anf_value *v, size_t i) {
  const void *p = anf_value_data(v);
  if (anf_value_dtype(v) == ANF_F64) return ((const double *)p)[i];
  uint32_t bits = anf_value_dtype(v) == ANF_BF16 ? (uint32_t)((const uint16_t *)p)[i] << 16
                                                 : ((const uint32_t *)p)[i];
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

static bool near(const anf_value *a, const anf_value *b) {
  size_t n = anf_value_elements(a);
  double most = 1;
  if (anf_value_dtype(a) != anf_value_dtype(b) || n != anf_value_elements(b)) return false;
  for (size_t i = 0; i < n; i++)
    if (isfinite(element(a, i))) most = fmax(most, fabs(element(a, i)));
  for (size_t i = 0; i < n; i++) {
    double x = element(a, i), y = element(b, i);
    bool equal = x == y || (isnan(x) && isnan(y));
    if (!equal && !(fabs(x - y) <= bound(anf_value_dtype(a)) * most)) return false;
  }
  return true;
}

static bool same(const anf_value *a, const anf_value *b) {
  if (anf_value_get_kind(a) != anf_value_get_kind(b)) return false;
  if (anf_value_get_kind(a) != ANF_VALUE_TUPLE) return near(a, b);
  for (size_t i = 0; i < anf_value_count(a); i++)
    if (!same(anf_value_at(a, i), anf_value_at(b, i))) return false;
  return anf_value_count(a) == anf_value_count(b);
}

static void complain(bench *b, uint64_t seed, int way, const char *what, const char *text) {
  if (b->failed[way]++) return;
  printf("# seed %llu, %s: %s\n", (unsigned long long)seed, ways[way].name, what);
  for (size_t i = 0; i < anf_diag_count(b->d); i++)
    printf("# %s %s\n", anf_diag_at(b->d, i)->code, anf_diag_at(b->d, i)->message);
  for (const char *s = text, *stop; *s; s = stop + 1) {
    stop = strchr(s, '\n');
    printf("#   %.*s\n", (int)(stop - s), s);
  }
}

/* A program that the interpreter refuses is to be refused for the same reason. Fast code does not keep the
 * NaN that means of nothing are. */
static void try_way(bench *b, uint64_t seed, int way, anf_graph *g, const tensor_program *p,
                    anf_value *const *args, const anf_value *want, const char *code) {
  anf_exec_opts o = {.size = sizeof o,
                     .engine = b->engine[way],
                     .parallel = ways[way].parallel,
                     .fast = ways[way].fast};
  anf_exec *e = NULL;
  anf_value *got = NULL;
  anf_diag_clear(b->d);
  b->tried[way]++;
  anf_status st = anf_compile(g, &o, b->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, (size_t)p->params, args, NULL, b->d, &got);
  bool refused = st != ANF_OK && anf_diag_count(b->d) > 0;
  if (!want && (!refused || strcmp(anf_diag_at(b->d, 0)->code, code) != 0))
    complain(b, seed, way, refused ? "refused otherwise" : "not refused", p->text);
  else if (want && st != ANF_OK) complain(b, seed, way, anf_status_name(st), p->text);
  else if (want && !same(want, got)) complain(b, seed, way, "another value", p->text);
  anf_value_release(got);
  anf_exec_free(e);
}

static anf_value *input(bench *b, const tensor_param *p, anf_dtype dtype, uint64_t *state) {
  int64_t n = tensor_elements(&p->shape);
  size_t width = anf_dtype_bytes(dtype);
  char *data = malloc((size_t)n * width + 1);
  if (!data) abort();
  for (int64_t i = 0; i < n; i++) {
    double x = p->scale * ((double)(generate_next(state) % 4001) / 1000.0 - 2.0);
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t high = (uint16_t)(bits >> 16);
    memcpy(data + (size_t)i * width,
           dtype == ANF_F64   ? (void *)&x
           : dtype == ANF_F32 ? (void *)&f
                              : (void *)&high,
           width);
  }
  anf_value *v = anf_value_tensor(b->cx, dtype, (size_t)p->shape.rank, p->shape.dim, data);
  free(data);
  return v;
}

static volatile sig_atomic_t under_way; // the seed

/* Says which program it was; signal-safe. */
static void died(int sig) {
  char line[] = "# died at seed 0000000000\n";
  unsigned long long seed = (unsigned long long)under_way;
  for (size_t i = sizeof line - 3; seed; seed /= 10) line[i--] = (char)('0' + seed % 10);
  if (write(STDOUT_FILENO, line, sizeof line - 1) < 0) _exit(2);
  signal(sig, SIG_DFL);
  raise(sig);
}

static void try_program(bench *b, uint64_t seed, size_t size) {
  tensor_program p = generate_tensors(seed, size);
  anf_value *args[TENSOR_PARAMS], *want = NULL;
  anf_module *m = NULL;
  char code[16] = "";
  uint64_t state = seed;
  under_way = (sig_atomic_t)seed;
  for (int i = 0; i < p.params; i++) args[i] = input(b, &p.param[i], p.dtype, &state);
  anf_diag_clear(b->d);
  anf_graph *g = anf_parse(b->cx, p.text, "tensors.anf", b->d, &m) == ANF_OK
                     ? anf_module_find(m, "main")
                     : NULL;
  bool ran = g && anf_run(g, (size_t)p.params, args, NULL, b->d, &want) == ANF_OK;
  if (!ran && anf_diag_count(b->d)) snprintf(code, sizeof code, "%s", anf_diag_at(b->d, 0)->code);
  if (ran) b->ran++;
  else if (p.may_fail && g) b->refused++;
  else complain(b, seed, 0, "the interpreter does not run it", p.text);
  for (int w = 0; w < WAYS && (ran || (p.may_fail && g)); w++)
    if (seed % ways[w].every == 0 && !(p.may_fail && ways[w].fast))
      try_way(b, seed, w, g, &p, args, want, code);
  anf_value_release(want);
  for (int i = 0; i < p.params; i++) anf_value_release(args[i]);
  anf_module_free(m);
  free(p.text);
}

static bool start(bench *b) {
  *b = (bench){.cx = anf_ctx_new(NULL)};
  b->d = anf_diag_new(b->cx);
  for (int w = 0; w < WAYS; w++) {
    anf_jit_opts o = {.size = sizeof o, .level = ways[w].level};
    if (anf_jit_engine_new(b->cx, ways[w].kind, &o, b->d, &b->engine[w]) != ANF_OK) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  generate_opts o = generate_read_opts(argc, argv, 100, 16);
  if (o.show) {
    tensor_program p = generate_tensors(o.seed, o.size);
    fputs(p.text, stdout);
    free(p.text);
    return 0;
  }
  bench b;
  signal(SIGSEGV, died);
  signal(SIGFPE, died);
  signal(SIGABRT, died);
  if (!start(&b)) return 1;
  for (size_t i = 0; i < o.programs; i++) try_program(&b, o.seed + i, o.size);
  printf("1..%d\n", WAYS);
  for (int w = 0; w < WAYS; w++)
    printf("%s %d - %zu random tensor programs: %s\n", b.failed[w] ? "not ok" : "ok", w + 1,
           b.tried[w], ways[w].name);
  for (int w = 0; w < WAYS; w++) anf_jit_engine_free(b.engine[w]);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return b.ran + b.refused == o.programs && b.refused * 20 <= o.programs ? 0 : 1;
}
