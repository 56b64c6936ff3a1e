// SPDX-License-Identifier: Apache-2.0
/* Matrix products of f32 with plain row-major operands (copying counted), one thread, beside a loop of
 * multiply-adds alone and other libraries (peer_gemm.h). All take turns of a millisecond or one
 * product, in the processor's time; the figure of each is the tenth of its turns that was fastest,
 * because what shares a core slows some turns of all. Answers are checked against sums in double.
 * BENCH_SHAPES: "m,n,k m,n,k ..." instead of the list. */
#define _GNU_SOURCE
#include <math.h>

#include "anfora/exec.h"
#include "peer_gemm.h"

typedef struct shape {
  int m, n, k;
} shape;
static const shape shapes[] = {
    {64, 64, 64},     {128, 128, 128},  {256, 256, 256}, {512, 512, 512},   {1024, 1024, 1024},
    {128, 512, 784},  {128, 512, 512},  {128, 10, 512},  {512, 1024, 1024}, {256, 768, 768},
    {256, 3072, 768}, {256, 768, 3072}, {1, 1024, 1024}, {4, 1024, 1024},   {33, 65, 129}};

enum { TURNS = 400, WHO = 2 + PEERS };           // who: the peak, we, peers
static const double turn = 1e-3, patience = 1.5; // seconds of a turn, of a shape

/* ---- the peak ---- */

#if defined(__x86_64__) && defined(__GNUC__)
typedef float v8 __attribute__((vector_size(32)));
/* Assembler: chains that start equal would else become one, and one is quicker than ten. */
#define FMA(x) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+x"(x) : "x"(b), "x"(a))
__attribute__((target("avx2,fma"), optimize("O2"))) static double peak(void) {
  if (!__builtin_cpu_supports("fma")) return 0;
  v8 a = {1, 1, 1, 1, 1, 1, 1, 1}, b = a * 0.5f;
  v8 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;
  const long turns = 100000;
  double start = bench_cpu();
  for (long t = 0; t < turns; t++) {
    FMA(s0);
    FMA(s1);
    FMA(s2);
    FMA(s3);
    FMA(s4);
    FMA(s5);
    FMA(s6);
    FMA(s7);
    FMA(s8);
    FMA(s9);
  }
  return (double)turns * 10 * 16 / (bench_cpu() - start) * 1e-9;
}
#else
static double peak(void) { return 0; }
#endif

/* ---- ours ---- */

typedef void (*product)(const float *a, const float *b, float *c);
typedef struct work {
  shape s;
  float *a, *b, *c;
  product f;
} work;

static void once(const work *w, int who) {
  if (who == 1) w->f(w->a, w->b, w->c);
  else peers[who - 2].run(w->s.m, w->s.n, w->s.k, w->a, w->b, w->c);
}

static double rate(const work *w, int who) {
  if (who == 0) return peak();
  double flops = 2.0 * w->s.m * w->s.n * w->s.k, time = 0, start = bench_cpu();
  long n = 0, some = (long)(turn * 50e9 / flops) + 1;
  for (; time < turn; time = bench_cpu() - start, n += some)
    for (long i = 0; i < some; i++) once(w, who);
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

static double fast_tenth(size_t n, double *v) {
  qsort(v, n, sizeof *v, bench_order);
  return v[n - 1 - n / 10];
}

static void measure(work *w) {
  static double took[WHO][TURNS];
  size_t n = 0;
  for (int who = 1; who < WHO; who++) {
    if (who > 1 && !peers[who - 2].run) continue;
    once(w, who);
    check(w, who == 1 ? "our product" : peers[who - 2].name);
  }
  for (double start = bench_cpu(); n < TURNS && (n < 10 || bench_cpu() - start < patience); n++)
    for (int who = 0; who < WHO; who++)
      if (who < 2 || peers[who - 2].run) took[who][n] = rate(w, who);
  double top = fast_tenth(n, took[0]), ours = fast_tenth(n, took[1]);
  printf("  %5dx%dx%-6d %7.1f GF/s", w->s.m, w->s.n, w->s.k, ours);
  if (top > 0) printf("  %5.1f %% of %.1f", 100 * ours / top, top);
  for (int who = 2; who < WHO; who++)
    if (peers[who - 2].run) printf("  %s %.1f", peers[who - 2].name, fast_tenth(n, took[who]));
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
  find_peers();
  printf("f32 products, one thread, the fast tenth of turns\n");
  const char *given = getenv("BENCH_SHAPES");
  shape s;
  for (int n = 0; given && sscanf(given, "%d,%d,%d%n", &s.m, &s.n, &s.k, &n) == 3; given += n)
    one_shape(s);
  for (size_t i = 0; !given && i < sizeof shapes / sizeof *shapes; i++) one_shape(shapes[i]);
  return bench_bad;
}
