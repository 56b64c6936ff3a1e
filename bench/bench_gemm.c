// SPDX-License-Identifier: Apache-2.0
/* Matrix products of f32 with plain row-major operands (copying counted), and with a right one that never
 * changes and is prepacked before; one thread, beside the same with plans that are measured on this machine,
 * a loop of multiply-adds alone and other libraries (peer_gemm.h). All take turns of a millisecond or one product, in the processor's time; the figure
 * of each is the tenth of its turns that was fastest, because what shares a core slows some turns of
 * all. Then two threads, against one, in time of the clock. Answers are checked against sums in
 * double. BENCH_SHAPES: "m,n,k m,n,k ..." instead of the list. */
#define _GNU_SOURCE
#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define BENCH_AVX512 __builtin_cpu_supports("avx512f")
#else
#define BENCH_AVX512 0
#endif
#include "anfora/exec.h"
#include "peer_gemm.h"

typedef struct shape {
  int m, n, k;
} shape;
static const shape shapes[] = {
    {64, 64, 64},       {128, 128, 128},  {256, 256, 256},   {512, 512, 512},   {1024, 1024, 1024},
    {2048, 2048, 2048}, {128, 512, 784},  {128, 512, 512},   {128, 10, 512},    {512, 1024, 1024},
    {256, 768, 768},    {256, 3072, 768}, {256, 768, 3072},  {512, 768, 768},   {512, 3072, 768},
    {512, 768, 3072},   {1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072}, {512, 1024, 4096},
    {1, 1024, 1024},    {4, 1024, 1024},  {33, 65, 129}};

enum { PEAK, PLAIN, FIXED, TUNED, TUNED_FIXED, FIRST_PEER, TURNS = 400, WHO = FIRST_PEER + PEERS };
static const double turn = 1e-3, patience = 1.5; // seconds of a turn, of a shape

/* ---- the peak ---- */

#if defined(__x86_64__) && defined(__GNUC__)
/* Assembler: chains that start equal would else become one, and one is quicker than ten. */
#define FMA(x) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(x) : "v"(b), "v"(a))
#define PEAK_OF(name, lanes, isa)                                                                  \
  typedef float name##_vec __attribute__((vector_size(4 * (lanes))));                              \
  __attribute__((target(isa), optimize("O2"))) static double name(void) {                          \
    const name##_vec zero = {0}, a = zero + 1, b = zero + 0.5f;                                    \
    name##_vec s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a;     \
    const long turns = 100000;                                                                     \
    double start = bench_cpu();                                                                    \
    for (long t = 0; t < turns; t++) {                                                             \
      FMA(s0);                                                                                     \
      FMA(s1);                                                                                     \
      FMA(s2);                                                                                     \
      FMA(s3);                                                                                     \
      FMA(s4);                                                                                     \
      FMA(s5);                                                                                     \
      FMA(s6);                                                                                     \
      FMA(s7);                                                                                     \
      FMA(s8);                                                                                     \
      FMA(s9);                                                                                     \
    }                                                                                              \
    return (double)turns * 10 * 2 * (lanes) / (bench_cpu() - start) * 1e-9;                        \
  }
PEAK_OF(peak512, 16, "avx512f")
PEAK_OF(peak256, 8, "avx2,fma")
static double peak(void) {
  if (BENCH_AVX512) return peak512();
  return __builtin_cpu_supports("fma") ? peak256() : 0;
}
#else
static double peak(void) { return 0; }
#endif

/* ---- ours ---- */

typedef void (*product)(const float *a, const float *b, float *c);
typedef void (*product_by)(const float *a, float *c);
typedef struct work {
  shape s;
  float *a, *b, *c;
  product f[2];     // by the cost model, by measuring
  product_by by[2]; // b is in it
} work;

static void once(const work *w, int who) {
  if (who == PLAIN || who == TUNED) w->f[who == TUNED](w->a, w->b, w->c);
  else if (who < FIRST_PEER) w->by[who == TUNED_FIXED](w->a, w->c);
  else peers[who - FIRST_PEER].run(w->s.m, w->s.n, w->s.k, w->a, w->b, w->c);
}

static bool here[WHO]; // which of them have this shape

static void find_here(const work *w) {
  for (int who = 0; who < WHO; who++) {
    const struct peer *p = who < FIRST_PEER ? NULL : &peers[who - FIRST_PEER];
    here[who] = !p || (p->run && (!p->prepare || p->prepare(w->s.m, w->s.n, w->s.k, w->b)));
  }
}

static double rate(const work *w, int who) {
  if (who == PEAK) return peak();
  once(w, who); // the others' turns took the caches
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

static void measure(work *w) {
  static double took[WHO][TURNS];
  size_t n = 0;
  find_here(w);
  for (int who = PLAIN; who < WHO; who++) {
    if (!here[who]) continue;
    once(w, who);
    check(w, who < FIRST_PEER ? "our product" : peers[who - FIRST_PEER].name);
  }
  for (double start = bench_cpu(); n < TURNS && (n < 10 || bench_cpu() - start < patience); n++)
    for (int who = 0; who < WHO; who++)
      if (here[who]) took[who][n] = rate(w, who);
  double top = bench_fast_tenth(n, took[PEAK]), ours = bench_fast_tenth(n, took[PLAIN]),
         fixed = bench_fast_tenth(n, took[FIXED]);
  printf("  %5dx%dx%-6d %6.1f GF/s, prepacked %6.1f", w->s.m, w->s.n, w->s.k, ours, fixed);
  if (top > 0) printf("; %5.1f %% and %5.1f %% of %.1f", 100 * ours / top, 100 * fixed / top, top);
  for (int who = FIRST_PEER; who < WHO; who++)
    if (here[who])
      printf("  %s %.1f", peers[who - FIRST_PEER].name, bench_fast_tenth(n, took[who]));
  double best[2] = {bench_fast_tenth(n, took[TUNED]), bench_fast_tenth(n, took[TUNED_FIXED])};
  printf("  of the measured plan %.3f and %.3f\n", ours / best[0], fixed / best[1]);
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

/* ---- two threads ---- */

/* Seconds of the clock that a product takes, on so many threads. */
static double spent(const work *w, uint32_t threads) {
  anf_stream_set_threads(anf_stream_of_thread(), threads);
  once(w, PLAIN); // makes the threads
  long n = 0;
  double start = bench_now(), time = 0;
  for (; time < 3 * turn; time = bench_now() - start, n++) once(w, PLAIN);
  return time / (double)n;
}

static void measure_threads(work *w) {
  static double took[2][TURNS];
  size_t n = 0;
  for (double start = bench_now(); n < TURNS && (n < 10 || bench_now() - start < patience); n++)
    for (uint32_t i = 0; i < 2; i++) took[i][n] = -spent(w, i + 1);
  check(w, "our product on two threads");
  double one = -bench_fast_tenth(n, took[0]), two = -bench_fast_tenth(n, took[1]);
  printf("  %5dx%dx%-6d two threads %.2fx one\n", w->s.m, w->s.n, w->s.k, one / two);
  fflush(stdout);
}

/* ---- shapes ---- */

/* The function's address, of so many arguments; b, if there is one, is always the same. */
static void *compiled(anf_ctx *cx, anf_graph *g, bool parallel, bool tune, anf_value *b,
                      const shape *s, anf_diag *d, anf_exec **e) {
  anf_exec_opts o = {.size = sizeof o, .parallel = parallel, .tune = tune};
  const anf_type *a = anf_type_tensor(cx, ANF_F32, 2, (int64_t[]){s->m, s->k}),
                 *types[] = {a, anf_type_tensor(cx, ANF_F32, 2, (int64_t[]){s->k, s->n})};
  anf_status st = anf_compile(g, &o, d, e);
  if (st == ANF_OK && b) st = anf_exec_fix(*e, 1, b, d);
  if (st == ANF_OK) st = anf_exec_prepare(*e, 2, types, d);
  void *p = st == ANF_OK ? anf_exec_pointer(*e) : NULL;
  bench_check(p != NULL, "it does not compile");
  if (!p) anf_diag_print(d, stderr, false);
  return p;
}

static void one_shape(shape s, bool threads) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_exec *e[4] = {NULL};
  size_t M = (size_t)s.m, N = (size_t)s.n, K = (size_t)s.k;
  work w = {.s = s, .a = fill(M * K, 1), .b = fill(K * N, 2), .c = fill(M * N, 3)};
  anf_value *b = anf_value_tensor(cx, ANF_F32, 2, (int64_t[]){s.k, s.n}, w.b);
  anf_status st = anf_parse(cx, "def mm(a, b) { a @ b }", "mm.anf", d, &m);
  bench_check(st == ANF_OK && b, "the program is not read");
  anf_graph *g = anf_module_find(m, "mm");
  bool all = true;
  for (int i = 0; i < (threads ? 1 : 2); i++) {
    void *plain = compiled(cx, g, threads, i, NULL, &s, d, &e[i]),
         *fixed = threads ? NULL : compiled(cx, g, false, i, b, &s, d, &e[2 + i]);
    memcpy(&w.f[i], &plain, sizeof plain);
    memcpy(&w.by[i], &fixed, sizeof fixed);
    all = all && plain && (threads || fixed);
  }
  if (all && threads) measure_threads(&w);
  if (all && !threads) measure(&w);
  free(w.a), free(w.b), free(w.c);
  anf_value_release(b);
  for (int i = 0; i < 4; i++) anf_exec_free(e[i]);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void all_shapes(bool threads) {
  const char *given = getenv("BENCH_SHAPES");
  shape s;
  for (int n = 0; given && sscanf(given, "%d,%d,%d%n", &s.m, &s.n, &s.k, &n) == 3; given += n)
    one_shape(s, threads);
  for (size_t i = 0; !given && i < sizeof shapes / sizeof *shapes; i++)
    if (!threads || (shapes[i].m >= 128 && shapes[i].n >= 256)) one_shape(shapes[i], threads);
}

int main(void) {
  find_peers();
  printf("f32 products, one thread, the fast tenth of turns\n");
  all_shapes(false);
  printf("the same on two threads, against one\n");
  all_shapes(true);
  return bench_bad;
}
