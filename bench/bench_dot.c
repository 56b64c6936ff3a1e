// SPDX-License-Identifier: Apache-2.0
/* Products of bf16 and of bytes by dot products, beside a loop of the instruction alone, one thread: kernels of each
 * tile of registers with operands in the first cache, then whole products with plain row-major operands and with a
 * right one that never changes. All take turns of a millisecond or one product, in the processor's time; the figure
 * of each is the tenth of its turns that was fastest. Answers are checked against sums in double. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "anfora/exec.h"
#include "bench.h"

#include "anfora/jit.h"
#include "anfora/tir.h"

enum { TURNS = 300, BF16 = 0, U8S8, S8S8, KINDS };
static const double turn = 1e-3, patience = 0.6; // seconds of a turn, of a shape

typedef struct kind {
  const char *name, *a, *b, *c; // as Tensor IR has them
  anf_dtype da, db;
  const char *program;
  int bytes; // of an element
} kind;
static const kind kinds[KINDS] = {
    {"bf16 bf16", "bf16", "bf16", "f32", ANF_BF16, ANF_BF16, "def mm(a, b) { a @ b }", 2},
    {"u8 s8", "u8", "s8", "s32", ANF_U8, ANF_I8,
     "def mm(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) }", 1},
    {"s8 s8", "s8", "s8", "s32", ANF_I8, ANF_I8,
     "def mm(a, b) { MatMul(Cast(a, i32), Cast(b, i32)) }", 1}};

typedef struct shape {
  int m, n, k;
} shape;
static const shape tiles[] = {{28, 32, 0}, {12, 64, 0}, {6, 64, 0}, {18, 48, 0}, {48, 16, 0}};
static const shape shapes[] = {{128, 128, 128},  {256, 256, 256},   {512, 512, 512},
                               {128, 512, 512},  {512, 1024, 1024}, {256, 3072, 768},
                               {256, 768, 3072}, {4, 1024, 1024},   {33, 65, 129}};

/* ---- the peak: products a second, a sum is two operations ---- */

#if defined(__x86_64__) && defined(__GNUC__)
/* Assembler: 24 chains, that no compiler makes one of. */
#define DOT(op, i)                op " %%zmm30, %%zmm31, %%zmm" #i "\n\t"
#define SIX(op, a, b, c, d, e, f) DOT(op, a) DOT(op, b) DOT(op, c) DOT(op, d) DOT(op, e) DOT(op, f)
#define ALL(op)                                                                                    \
  SIX(op, 0, 1, 2, 3, 4, 5)                                                                        \
  SIX(op, 6, 7, 8, 9, 10, 11) SIX(op, 12, 13, 14, 15, 16, 17) SIX(op, 18, 19, 20, 21, 22, 23)
#define USED                                                                                       \
  "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",         \
      "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20",    \
      "zmm21", "zmm22", "zmm23", "zmm30", "zmm31"
#define LOOP(op)                                                                                   \
  for (long t = 0; t < turns; t++) __asm__ volatile(ALL(op)::: USED)
static bool has_dots(int type) {
  return type == BF16 ? __builtin_cpu_supports("avx512bf16") : __builtin_cpu_supports("avx512vnni");
}
__attribute__((target("avx512f,avx512vnni,avx512bf16"))) static double peak(int type) {
  const long turns = 100000, each = 24L * 16 * 4 / kinds[type].bytes;
  __asm__ volatile("vpxorq %%zmm30, %%zmm30, %%zmm30\n\tvpxorq %%zmm31, %%zmm31, %%zmm31" ::: USED);
  double start = bench_cpu();
  if (type == BF16) LOOP("vdpbf16ps");
  else LOOP("vpdpbusd");
  return 2.0 * (double)turns * (double)each / (bench_cpu() - start) * 1e-9;
}
#else
static bool has_dots(int type) { return (void)type, false; }
static double peak(int type) { return (void)type, 0; }
#endif

/* ---- elements ---- */

static double element(const void *p, int i, anf_dtype d) {
  if (d == ANF_I8) return ((const int8_t *)p)[i];
  if (d == ANF_U8) return ((const uint8_t *)p)[i];
  if (d == ANF_I32) return ((const int32_t *)p)[i];
  float f = d == ANF_F32 ? ((const float *)p)[i] : 0;
  uint32_t word = d == ANF_BF16 ? (uint32_t)((const uint16_t *)p)[i] << 16 : 0;
  if (d == ANF_BF16) memcpy(&f, &word, sizeof f);
  return (double)f;
}

/* Any bytes, and bf16 between 1/2 and 1 with either sign. */
static void *fill(size_t n, anf_dtype d, unsigned seed) {
  uint16_t *p = (uint16_t *)aligned_alloc(64, (n * 4 + 127) / 64 * 64);
  if (!p) exit(2);
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    if (d == ANF_BF16) p[i] = (uint16_t)((seed >> 16 & 0x807fu) | 0x3f00u);
    else ((uint8_t *)p)[i] = (uint8_t)(seed >> 16);
  }
  return p;
}

/* ---- what is measured ---- */

typedef void (*product)(const void *a, const void *b, void *c);
typedef void (*product_by)(const void *a, void *c);
typedef struct work {
  int kind;
  shape s;
  void *a, *b, *c;
  anf_dtype dc;
  bool by_words; // b is prepacked so
  anf_jit_function *kernel;
  product plain;
  product_by fixed;
} work;
enum { PEAK, KERNEL, PLAIN, FIXED, WHO };

static void once(const work *w, int who) {
  anf_generic in[] = {{.ptr = w->a}, {.ptr = w->b}, {.ptr = w->c}};
  if (who == PLAIN) w->plain(w->a, w->b, w->c);
  else if (who == FIXED) w->fixed(w->a, w->c);
  else anf_jit_call_generic(w->kernel, anf_stream_of_thread(), in);
}

static double rate(const work *w, int who) {
  if (who == PEAK) return peak(w->kind);
  double flops = 2.0 * w->s.m * w->s.n * w->s.k, time = 0, start = bench_cpu();
  long n = 0, some = (long)(turn * 500e9 / flops) + 1;
  for (; time < turn; time = bench_cpu() - start, n += some)
    for (long i = 0; i < some; i++) once(w, who);
  return flops * (double)n / time * 1e-9;
}

static int place_in_b(const work *w, int k, int j) {
  int steps = w->by_words ? 4 / kinds[w->kind].bytes : 1;
  return k / steps * steps * w->s.n + j * steps + k % steps;
}

static void check(const work *w, const char *who) {
  const kind *t = &kinds[w->kind];
  for (int r = 0; r < 200; r++) {
    int i = r * 7919 % w->s.m, j = r * 104729 % w->s.n;
    double s = 0, size = 0;
    for (int k = 0; k < w->s.k; k++) {
      double x = element(w->a, i * w->s.k + k, t->da) * element(w->b, place_in_b(w, k, j), t->db);
      s += x, size += fabs(x);
    }
    double far = fabs(element(w->c, i * w->s.n + j, w->dc) - s),
           room = size * w->s.k * 0x1p-24 + fabs(s) * (w->dc == ANF_BF16 ? 0x1p-8 : 0);
    bench_check(far <= (w->dc == ANF_I32 ? 0 : room), who);
  }
}

static void measure(const work *w) {
  static double took[WHO][TURNS];
  static const char *const label[WHO] = {"peak", "kernel", "plain", "prepacked"};
  const bool here[WHO] = {true, w->kernel != NULL, w->plain != NULL, w->fixed != NULL};
  size_t n = 0;
  for (int who = KERNEL; who < WHO; who++)
    if (here[who]) once(w, who), check(w, label[who]);
  for (double start = bench_cpu(); n < TURNS && (n < 10 || bench_cpu() - start < patience); n++)
    for (int who = 0; who < WHO; who++)
      if (here[who]) took[who][n] = rate(w, who);
  double top = bench_fast_tenth(n, took[PEAK]);
  printf("  %-9s %5dx%dx%-6d peak %6.1f GOP/s", kinds[w->kind].name, w->s.m, w->s.n, w->s.k, top);
  for (int who = KERNEL; who < WHO; who++)
    if (here[who]) {
      double v = bench_fast_tenth(n, took[who]);
      printf("; %s %6.1f, %5.1f %%", label[who], v, 100 * v / top);
    }
  putchar('\n');
  fflush(stdout);
}

/* ---- kernels ---- */

/* A function of one kernel, by the text of Tensor IR. */
static anf_jit_function *kernel_of(anf_ctx *cx, anf_jit_engine *e, const work *w, anf_diag *d,
                                   anf_jit_module **m) {
  const kind *t = &kinds[w->kind];
  const shape *s = &w->s;
  char text[600];
  anf_tir_module *tir = NULL;
  int n = snprintf(text, sizeof text,
                   "func f(a: [%s * %d], b: [%s * %d], c: [%s * %d]): void {\n"
                   "  evaluate{brgemm(&a[0], &b[0], &c[0], 1, %d, %d, %d, %d, %d, %d, 0, 0, none, "
                   "none, none) @[init, vnni_b]}\n}\n",
                   t->a, s->m * s->k, t->b, s->k * s->n, t->c, s->m * s->n, s->m, s->n, s->k, s->k,
                   s->n, s->n);
  anf_status st = anf_tir_parse(cx, text, (size_t)n, "kernel", d, &tir);
  if (st == ANF_OK) st = anf_jit_make_module(e, tir, d, m);
  anf_tir_module_free(tir);
  return st == ANF_OK ? anf_jit_get_function(*m, "f") : NULL;
}

static void one_kernel(anf_ctx *cx, anf_jit_engine *e, anf_diag *d, int type, shape s) {
  enum { BYTES_OF_K = 512 };
  s.k = BYTES_OF_K / kinds[type].bytes;
  work w = {.kind = type, .s = s, .dc = type == BF16 ? ANF_F32 : ANF_I32, .by_words = true};
  anf_jit_module *m = NULL;
  w.a = fill((size_t)(s.m * s.k), kinds[type].da, 1);
  w.b = fill((size_t)(s.k * s.n), kinds[type].db, 2);
  w.c = fill((size_t)(s.m * s.n * 2), ANF_BF16, 3);
  w.kernel = kernel_of(cx, e, &w, d, &m);
  bench_check(w.kernel != NULL, "the kernel");
  if (w.kernel) measure(&w);
  free(w.a), free(w.b), free(w.c);
  if (w.kernel) anf_jit_function_free(w.kernel);
  if (m) anf_jit_module_free(m);
}

/* ---- whole products ---- */

static void *compiled(anf_graph *g, const anf_type *const *of, anf_value *b, anf_diag *d,
                      anf_exec **e) {
  anf_status st = anf_compile(g, NULL, d, e);
  if (st == ANF_OK && b) st = anf_exec_fix(*e, 1, b, d);
  if (st == ANF_OK) st = anf_exec_prepare(*e, 2, of, d);
  void *p = st == ANF_OK ? anf_exec_pointer(*e) : NULL;
  bench_check(p != NULL, "it does not compile");
  return p;
}

static void one_product(anf_ctx *cx, anf_diag *d, int type, shape s) {
  const int64_t da[] = {s.m, s.k}, db[] = {s.k, s.n};
  anf_dtype ta = kinds[type].da, tb = kinds[type].db;
  work w = {.kind = type, .s = s, .dc = type == BF16 ? ANF_BF16 : ANF_I32};
  w.a = fill((size_t)(s.m * s.k), ta, 1);
  w.b = fill((size_t)(s.k * s.n), tb, 2);
  w.c = fill((size_t)(s.m * s.n * 2), ANF_BF16, 3);
  const anf_type *of[] = {anf_type_tensor(cx, ta, 2, da), anf_type_tensor(cx, tb, 2, db)};
  anf_value *b = anf_value_tensor(cx, tb, 2, db, w.b);
  anf_module *m = NULL;
  anf_exec *e = NULL, *with_b = NULL;
  bench_check(anf_parse(cx, kinds[type].program, "mm.anf", d, &m) == ANF_OK, "the program");
  anf_graph *g = anf_module_find(m, "mm");
  void *plain = compiled(g, of, NULL, d, &e), *fixed = compiled(g, of, b, d, &with_b);
  memcpy(&w.plain, &plain, sizeof plain);
  memcpy(&w.fixed, &fixed, sizeof fixed);
  if (plain && fixed) measure(&w);
  free(w.a), free(w.b), free(w.c);
  anf_value_release(b);
  anf_exec_free(e);
  anf_exec_free(with_b);
  anf_module_free(m);
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_jit_engine *e = NULL;
  bench_check(anf_jit_engine_new(cx, ANF_JIT_LLVM, NULL, d, &e) == ANF_OK, "the engine");
  for (int type = 0; e && type < KINDS; type++) {
    if (!has_dots(type)) continue;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) one_kernel(cx, e, d, type, tiles[i]);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) one_product(cx, d, type, shapes[i]);
  }
  if (bench_bad) anf_diag_print(d, stderr, false);
  anf_jit_engine_free(e);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return bench_bad;
}
