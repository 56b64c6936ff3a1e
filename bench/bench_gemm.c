// SPDX-License-Identifier: Apache-2.0
/* Matrix products of f32 with plain row-major operands (copying counted), one thread: GFLOP/s beside
 * the peak of multiply-adds measured between them, and OpenBLAS if the machine has it. The figure of
 * a shape is its best run in the processor's time; answers are checked against sums in double.
 * BENCH_SHAPES: "m,n,k m,n,k ..." instead of the list. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <dlfcn.h>
#include <math.h>

#include "anfora/exec.h"

typedef struct shape {
  int m, n, k;
} shape;
static const shape shapes[] = {
    {64, 64, 64},     {128, 128, 128},  {256, 256, 256}, {512, 512, 512},   {1024, 1024, 1024},
    {128, 512, 784},  {128, 512, 512},  {128, 10, 512},  {512, 1024, 1024}, {256, 768, 768},
    {256, 3072, 768}, {256, 768, 3072}, {1, 1024, 1024}, {4, 1024, 1024},   {33, 65, 129}};

enum { ROUNDS = 7 };
static const double room = 0.05; // seconds that one measurement takes at least

/* ---- the peak ---- */

#if defined(__x86_64__) && defined(__GNUC__)
typedef float v8 __attribute__((vector_size(32)));
#define FMA(x) x = __builtin_ia32_vfmaddps256(x, b, a)
__attribute__((target("avx2,fma"), optimize("O2"))) static double peak(void) {
  if (!__builtin_cpu_supports("fma")) return 0;
  v8 a = {1, 1, 1, 1, 1, 1, 1, 1}, b = a * 0.5f;
  v8 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
  const long turns = 4000000;
  double start = bench_cpu();
  for (long t = 0; t < turns; t++) {
    FMA(s0), FMA(s1), FMA(s2), FMA(s3), FMA(s4), FMA(s5), FMA(s6), FMA(s7), FMA(s8), FMA(s9);
  }
  double time = bench_cpu() - start;
  v8 sum = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9;
  volatile float keep = sum[0];
  (void)keep;
  return (double)turns * 10 * 16 / time * 1e-9;
}
#else
static double peak(void) { return 0; }
#endif

/* ---- the peer ---- */

typedef void (*sgemm_fn)(const char *, const char *, const int *, const int *, const int *,
                         const float *, const float *, const int *, const float *, const int *,
                         const float *, float *, const int *);
static sgemm_fn sgemm;
static void find_openblas(void) {
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL), *f;
  void (*threads)(int);
  if (!lib) return;
  if ((f = dlsym(lib, "openblas_set_num_threads"))) {
    memcpy(&threads, &f, sizeof f);
    threads(1);
  }
  if ((f = dlsym(lib, "sgemm_"))) memcpy(&sgemm, &f, sizeof f);
}

/* ---- ours ---- */

typedef void (*product)(const float *a, const float *b, float *c);
typedef struct work {
  shape s;
  float *a, *b, *c;
  product f;
} work;

static void once(const work *w, bool peer) {
  if (!peer) {
    w->f(w->a, w->b, w->c);
    return;
  }
  float one = 1, zero = 0; // by columns: the transposed product
  sgemm("N", "N", &w->s.n, &w->s.m, &w->s.k, &one, w->b, &w->s.n, w->a, &w->s.k, &zero, w->c,
        &w->s.n);
}

static double rate(const work *w, bool peer) {
  double flops = 2.0 * w->s.m * w->s.n * w->s.k, time = 0;
  long turns = (long)(room * 40e9 / flops) + 1, n = 0;
  double start = bench_cpu();
  while (time < room) {
    for (long i = 0; i < turns; i++) once(w, peer);
    n += turns;
    time = bench_cpu() - start;
  }
  return flops * (double)n / time * 1e-9;
}

static void check(const work *w, const char *who) {
  for (int t = 0; t < 200; t++) {
    int i = t * 7919 % w->s.m, j = t * 104729 % w->s.n;
    double s = 0, size = 0;
    for (int k = 0; k < w->s.k; k++) {
      double x = (double)w->a[i * w->s.k + k] * (double)w->b[k * w->s.n + j];
      s += x, size += fabs(x);
    }
    bench_check(fabs((double)w->c[i * w->s.n + j] - s) <= size * w->s.k * 0x1p-24 + 1e-30, who);
  }
}

static double best(size_t n, double *v) {
  qsort(v, n, sizeof *v, bench_order);
  return v[n - 1];
}

static void measure(work *w) {
  double ours[ROUNDS], top[ROUNDS], theirs[ROUNDS];
  once(w, false);
  check(w, "our product");
  for (int r = 0; r < ROUNDS; r++) {
    top[r] = peak();
    ours[r] = rate(w, false);
    theirs[r] = sgemm ? rate(w, true) : 0;
  }
  if (sgemm) check(w, "the peer's product");
  double p = best(ROUNDS, top), o = best(ROUNDS, ours);
  printf("  %5dx%dx%-6d %7.1f GF/s (median %.1f)", w->s.m, w->s.n, w->s.k, o, ours[ROUNDS / 2]);
  if (p > 0) printf("  %3.0f %% of %.1f", 100 * o / p, p);
  if (sgemm) printf("  openblas %.1f", best(ROUNDS, theirs));
  putchar('\n');
  fflush(stdout);
}

static float *fill(size_t n, unsigned seed) {
  float *p = (float *)aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
  if (!p) exit(2);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    p[i] = (float)(seed >> 8) * 0x1p-24f - 0.5f;
  }
  return p;
}

static void one_shape(shape s) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_exec *e = NULL;
  char text[160];
  snprintf(text, sizeof text, "def mm(a: f32[%d, %d], b: f32[%d, %d]) { a @ b }", s.m, s.k, s.k,
           s.n);
  anf_status st = anf_parse(cx, text, "mm.anf", d, &m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(m, "mm"), NULL, d, &e);
  void *p = st == ANF_OK ? anf_exec_pointer(e) : NULL;
  bench_check(p != NULL, "it does not compile");
  if (!p) anf_diag_print(d, stderr, false);
  size_t M = (size_t)s.m, N = (size_t)s.n, K = (size_t)s.k;
  work w = {s, fill(M * K, 1), fill(K * N, 2), fill(M * N, 3), NULL};
  if (p) {
    memcpy(&w.f, &p, sizeof p);
    measure(&w);
  }
  free(w.a), free(w.b), free(w.c);
  anf_exec_free(e);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

int main(void) {
  find_openblas();
  printf("f32 products, one thread, best of %d\n", ROUNDS);
  const char *given = getenv("BENCH_SHAPES");
  shape s;
  for (int n = 0; given && sscanf(given, "%d,%d,%d%n", &s.m, &s.n, &s.k, &n) == 3; given += n)
    one_shape(s);
  for (size_t i = 0; !getenv("BENCH_SHAPES") && i < sizeof shapes / sizeof *shapes; i++)
    one_shape(shapes[i]);
  return bench_bad;
}
