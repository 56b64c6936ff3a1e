// SPDX-License-Identifier: Apache-2.0
/* Kernels of brgemm against a plain sum in double, and against the interpreter of Tensor IR and
 * the C text bit for bit: types, odd shapes, tails, batches by stride and by lists, both betas, what follows the sum,
 * every width of vectors (those wider than the machine's are cut by LLVM). Rows and columns around C
 * stay as they were. test_brgemm [EVERY]: one of EVERY cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "backend/jit/jit.h"
#include "backend/kernel/kernel.h"
#include "base/base.h"

#include "anfora/jit.h"
#include "anfora/rt_abi.h"
#include "anfora/tir.h"

typedef struct types {
  anf_tir_elem a, b, c;
  const char *name[3];
  bool small; // the signed factor, of A and B the one of weights, is within [-64, 64]
} types;
static const types all_types[] = {
    {ANF_TIR_f32, ANF_TIR_f32, ANF_TIR_f32, {"f32", "f32", "f32"}, false},
    {ANF_TIR_f64, ANF_TIR_f64, ANF_TIR_f64, {"f64", "f64", "f64"}, false},
    {ANF_TIR_bf16, ANF_TIR_bf16, ANF_TIR_f32, {"bf16", "bf16", "f32"}, false},
    {ANF_TIR_f32, ANF_TIR_bf16, ANF_TIR_f32, {"f32", "bf16", "f32"}, false},
    {ANF_TIR_bf16,
     ANF_TIR_bf16,
     ANF_TIR_bf16,
     {"bf16", "bf16", "bf16"},
     false}, // rounded, from zero
    {ANF_TIR_u8, ANF_TIR_s8, ANF_TIR_s32, {"u8", "s8", "s32"}, false},
    {ANF_TIR_s8, ANF_TIR_s8, ANF_TIR_s32, {"s8", "s8", "s32"}, false},
    {ANF_TIR_s8, ANF_TIR_u8, ANF_TIR_s32, {"s8", "u8", "s32"}, false},
    {ANF_TIR_u8, ANF_TIR_u8, ANF_TIR_s32, {"u8", "u8", "s32"}, false},
    {ANF_TIR_s16, ANF_TIR_s8, ANF_TIR_s32, {"s16", "s8", "s32"}, false}, // bytes of A, widened
    {ANF_TIR_s16, ANF_TIR_u8, ANF_TIR_s32, {"s16", "u8", "s32"}, false},
    {ANF_TIR_f16, ANF_TIR_f16, ANF_TIR_f16, {"f16", "f16", "f16"}, false}, // the run time's loops
    {ANF_TIR_u8, ANF_TIR_s8, ANF_TIR_s32, {"u8", "s8", "s32"}, true},
    {ANF_TIR_s8, ANF_TIR_s8, ANF_TIR_s32, {"s8", "s8", "s32"}, true},
    {ANF_TIR_s8, ANF_TIR_u8, ANF_TIR_s32, {"s8", "u8", "s32"}, true},
};

/* One product. The lengths are of the buffers. */
typedef struct product {
  const types *t;
  int64_t m, n, k, num, lda, ldb, ldc, sa, sb;
  int list; // how many lists; 0: by stride
  bool init, bias, inside, scale, relu, ta, words, small;
  int binary;
  bool hidden; // K and the strides are given when it is called
} product;

enum { MOST = 1 << 15, CASES = 24, LARGE = 14 };
typedef struct memory { // 64-byte slots of the largest element
  double a[MOST], b[MOST], c[MOST], bias[MOST], rhs[MOST];
  float scales[MOST];
} memory;

static uint64_t seed;
static uint64_t next(void) { return seed = anfi_hash_mix(seed, 0x9e3779b97f4a7c15U); }
static int64_t upto(int64_t n) { return (int64_t)(next() >> 20) % n; }

/* ---- elements ---- */

static double get(const void *p, anf_tir_elem e, int64_t i) {
  switch (e) {
  case ANF_TIR_u8: return ((const uint8_t *)p)[i];
  case ANF_TIR_s8: return ((const int8_t *)p)[i];
  case ANF_TIR_s16: return ((const int16_t *)p)[i];
  case ANF_TIR_s32: return ((const int32_t *)p)[i];
  case ANF_TIR_bf16: return (double)anfi_bf16_to_f32(((const uint16_t *)p)[i]);
  case ANF_TIR_f16: return (double)anfi_f16_to_f32(((const uint16_t *)p)[i]);
  case ANF_TIR_f64: return ((const double *)p)[i];
  default: return (double)((const float *)p)[i];
  }
}
static void put(void *p, anf_tir_elem e, int64_t i, double v) {
  switch (e) {
  case ANF_TIR_u8: ((uint8_t *)p)[i] = (uint8_t)v; break;
  case ANF_TIR_s8: ((int8_t *)p)[i] = (int8_t)v; break;
  case ANF_TIR_s16: ((int16_t *)p)[i] = (int16_t)v; break;
  case ANF_TIR_s32: ((int32_t *)p)[i] = (int32_t)v; break;
  case ANF_TIR_bf16: ((uint16_t *)p)[i] = anfi_f64_to_bf16(v); break;
  case ANF_TIR_f16: ((uint16_t *)p)[i] = anfi_f64_to_f16(v); break;
  case ANF_TIR_f64: ((double *)p)[i] = v; break;
  default: ((float *)p)[i] = (float)v; break;
  }
}
static void fill(void *p, anf_tir_elem e) {
  for (int64_t i = 0; i < MOST; i++) {
    double v = (double)(next() >> 11) * 0x1p-53 * 2 - 1;
    if (e == ANF_TIR_u8) v = (double)(next() & 255);
    if (e == ANF_TIR_s8) v = (double)(next() & 255) - 128;
    if (e == ANF_TIR_s16) v = (double)(next() & 511) - 256;
    if (e == ANF_TIR_s32) v = (double)(next() & 1023) - 512;
    put(p, e, i, v);
  }
}

/* ---- products ---- */

typedef struct sizes { // to choose from
  int64_t m[9], n[10], k[7];
} sizes;
static const sizes small = {
    {1, 2, 3, 5, 6, 7, 13, 24, 31}, {1, 3, 4, 7, 8, 15, 16, 17, 33, 50}, {1, 2, 3, 4, 7, 16, 31}};
static const sizes large = {{17, 31, 32, 33, 47, 48, 64, 70, 1},
                            {3, 15, 16, 17, 31, 32, 33, 48, 50, 64},
                            {65, 100, 130, 257, 300, 512, 1030}};

static const sizes few = { // columns: vectors of rows
    {15, 16, 17, 31, 32, 33, 48, 64, 70},
    {1, 2, 3, 4, 5, 8, 9, 10, 11, 12},
    {1, 15, 16, 17, 48, 130, 257}};

static product choose(const types *t, const sizes *s) {
  product p = {.t = t,
               .small = t->small,
               .m = s->m[upto(9)],
               .n = s->n[upto(10)],
               .k = s->k[upto(7)],
               .num = 1};
  bool integer = t->c == ANF_TIR_s32;
  p.ta = upto(s == &small ? 3 : 9) == 0;
  p.lda = (p.ta ? p.m : p.k) + upto(3);
  p.ldb = p.n + upto(4);
  p.ldc = p.n + upto(4);
  if (s != &few && upto(2)) p.num = 1 + upto(4);
  p.sa = (p.ta ? p.k : p.m) * p.lda + upto(3);
  p.words = s == &small && t->b != ANF_TIR_f32 && t->b != ANF_TIR_f64 && upto(3) == 0;
  p.sb = (p.k + 3) / 4 * 4 * p.ldb + upto(3);
  if (p.num * p.sa > MOST || p.num * p.sb > MOST || p.m * p.n * p.k * p.num > 1 << 18)
    return choose(t, s);
  bool same = t->a == t->c && t->b == t->c;
  if (same && s != &few && upto(3) == 0) p.list = 1 + (int)upto(3);
  p.init = upto(2);
  p.relu = upto(3) == 0;
  p.bias = !integer && upto(3) == 0;
  p.inside = t->c == ANF_TIR_bf16 && upto(2);
  p.init |= t->c == ANF_TIR_bf16 && upto(4);
  p.scale = !integer && upto(4) == 0;
  p.binary = integer || upto(3) ? 0 : 1 + (int)upto(4);
  p.hidden = upto(s == &small ? 4 : 12) == 0;
  return p;
}

static void put_func(anf_text *out, const product *p, int i) {
  const char *const *t = p->t->name;
  anfi_putf(out, "func case_%d(", i);
  if (p->list) anfi_putf(out, "a0: [%s * %d], b0: [%s * %d]", t[0], MOST, t[1], MOST);
  else anfi_putf(out, "a: [%s * %d], b: [%s * %d]", t[0], MOST, t[1], MOST);
  anfi_putf(out,
            ", c: [%s * %d], bias: [%s * %d], scales: [f32 * %d], rhs: [%s * %d], k: s64, lda: "
            "s64, ldb: s64, ldc: s64, sa: s64, sb: s64): void {\n",
            t[2], MOST, t[2], MOST, MOST, t[2], MOST);
  if (p->list) {
    anfi_putf(out, "  tensor a: [void* * %d]\n  tensor b: [void* * %d]\n", p->list, p->list);
    for (int l = 0; l < p->list; l++) // the lists go backwards through the memory
      anfi_putf(out, "  a[%d] = &a0[%lld]\n  b[%d] = &b0[%lld]\n", l,
                (long long)((p->list - 1 - l) * p->num * p->sa), l,
                (long long)((p->list - 1 - l) * p->num * p->sb));
  }
  anfi_putf(out, "  evaluate{%sbrgemm(&a[0], &b[0], &c[0], %lld, %lld, %lld",
            p->list ? "list_" : "", (long long)p->num, (long long)p->m, (long long)p->n);
  if (p->hidden) anfi_puts(out, ", k, lda, ldb, ldc, sa, sb");
  else
    anfi_putf(out, ", %lld, %lld, %lld, %lld, %lld, %lld", (long long)p->k, (long long)p->lda,
              (long long)p->ldb, (long long)p->ldc, (long long)p->sa, (long long)p->sb);
  if (p->list) anfi_putf(out, ", %d", p->list);
  anfi_putf(out, ", %s, %s, %s) @[%s", p->bias ? "&bias[0]" : "none",
            p->scale ? "&scales[0]" : "none", p->binary ? "&rhs[0]" : "none",
            p->init ? "init" : "init=0");
  if (p->bias) anfi_putf(out, ", post_bias=%d", p->bias + p->inside);
  if (p->scale) anfi_puts(out, ", post_scale");
  if (p->relu) anfi_puts(out, ", post_relu");
  if (p->ta) anfi_puts(out, ", trans_a");
  if (p->words) anfi_puts(out, ", vnni_b");
  if (p->small) anfi_puts(out, ", small");
  if (p->binary) anfi_putf(out, ", post_binary=%d", p->binary);
  anfi_puts(out, "]}\n}\n");
}

/* ---- the answer ---- */

static double after(const product *p, const memory *x, int64_t i, int64_t j, double v) {
  const types *t = p->t;
  if (p->bias && p->inside) v += get(x->bias, t->c, j);
  if (p->scale) v *= (double)x->scales[j];
  if (p->bias && !p->inside) v += get(x->bias, t->c, j);
  double r = get(x->rhs, t->c, i * p->ldc + j);
  if (p->binary == 1) v += r;
  if (p->binary == 2) v *= r;
  if (p->binary == 3) v = fmax(v, r);
  if (p->binary == 4) v = fmin(v, r);
  return p->relu && v < 0 ? 0 : v;
}

static int64_t at_b(const product *p, int64_t k, int64_t j) {
  int64_t steps = !p->words ? 1 : (int64_t)anfi_vnni_group((int32_t)p->t->a, (int32_t)p->t->b);
  return k / steps * steps * p->ldb + j * steps + k % steps;
}

/* The sum and, as its bound, that of the absolute products. */
static double sum(const product *p, const memory *x, int64_t i, int64_t j, double *size) {
  double s = p->init ? 0 : get(x->c, p->t->c, i * p->ldc + j);
  *size = fabs(s);
  int64_t all = p->num * (p->list ? p->list : 1);
  for (int64_t h = 0; h < all; h++)
    for (int64_t l = 0; l < p->k; l++) {
      double a = get(x->a, p->t->a, h * p->sa + (p->ta ? l * p->lda + i : i * p->lda + l)),
             b = get(x->b, p->t->b, h * p->sb + at_b(p, l, j));
      s += a * b;
      *size += fabs(a * b);
    }
  return s;
}

static double unit(anf_tir_elem e, int64_t terms) {
  double eps = e == ANF_TIR_f64    ? 0x1p-53
               : e == ANF_TIR_f32  ? 0x1p-24
               : e == ANF_TIR_f16  ? 0x1p-11
               : e == ANF_TIR_bf16 ? 0x1p-8
                                   : 0;
  return eps * (double)(terms + 4) * 2;
}

static void check_answer(const product *p, const memory *before, const memory *x, int i) {
  for (int64_t r = 0; r <= p->m; r++)
    for (int64_t j = 0; j < p->ldc; j++) {
      double got = get(x->c, p->t->c, r * p->ldc + j), size = 0;
      if (r == p->m || j >= p->n) {
        assert_true(got == get(before->c, p->t->c, r * p->ldc + j)); // not C's
        continue;
      }
      double s = sum(p, before, r, j, &size), want = after(p, before, r, j, s);
      double most =
          fabs(after(&(product){.t = p->t, .scale = p->scale, .ldc = p->ldc}, before, r, j, size)) +
          fabs(get(before->bias, p->t->c, j)) * (p->scale ? 4 : 1);
      if (p->binary) most = (most + 1) * (1 + fabs(get(before->rhs, p->t->c, r * p->ldc + j)));
      double room = most * unit(p->t->c, p->k * p->num * (p->list ? p->list : 1));
      if (!(fabs(got - want) <= room))
        fail_msg("case %d: C[%lld, %lld] is %.9g, not %.9g (+- %g)", i, (long long)r, (long long)j,
                 got, want, room);
    }
}

/* ---- running ---- */

static void run(anf_jit_module *m, const product *p, int i, memory *x) {
  char name[16];
  snprintf(name, sizeof name, "case_%d", i);
  anf_jit_function *f = anf_jit_get_function(m, name);
  anf_generic args[] = {{.ptr = x->a},      {.ptr = x->b},   {.ptr = x->c},  {.ptr = x->bias},
                        {.ptr = x->scales}, {.ptr = x->rhs}, {.s64 = p->k},  {.s64 = p->lda},
                        {.s64 = p->ldb},    {.s64 = p->ldc}, {.s64 = p->sa}, {.s64 = p->sb},
                        {.bits = 0}};
  assert_non_null(f);
  assert_int_equal(anf_jit_call_generic(f, NULL, args), ANF_OK);
  anf_jit_function_free(f);
}

static anf_jit_module *compiled(anf_ctx *cx, anf_jit_kind kind, const char *isa, const char *text,
                                size_t len) {
  anf_diag *d = anf_diag_new(cx);
  anf_jit_engine *e = NULL;
  anf_tir_module *t = NULL;
  anf_jit_module *m = NULL;
  anf_jit_opts o = {.size = sizeof o, .kernels = isa};
  o.contract = isa && strcmp(isa, "amx") == 0; // its tiles sum bf16 in another order
  anf_status st = anf_jit_engine_new(cx, kind, &o, d, &e);
  if (st == ANF_OK) st = anf_tir_parse(cx, text, len, "brgemm", d, &t);
  if (st == ANF_OK) st = anf_jit_make_module(e, t, d, &m);
  if (st != ANF_OK) anf_diag_print(d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_tir_module_free(t);
  anf_jit_engine_free(e);
  anf_diag_free(d);
  return m;
}

/* Weights that are small, often at their ends, and bytes that often are. */
static void fill_small(const types *t, memory *x) {
  void *w = t->b == ANF_TIR_s8 ? x->b : x->a, *bytes = w == x->a ? x->b : x->a;
  anf_tir_elem e = w == x->a ? t->b : t->a;
  for (int64_t i = 0; i < MOST; i++) {
    int64_t v = upto(4) ? (int64_t)(next() % 129) - 64 : upto(2) ? 64 : -64;
    put(w, ANF_TIR_s8, i, (double)v);
    if (upto(4) == 0) put(bytes, e, i, e == ANF_TIR_u8 ? 255 : upto(2) ? 127 : -128);
  }
}

static void fill_all(const types *t, memory *x) {
  fill(x->a, t->a), fill(x->b, t->b);
  if (t->small) fill_small(t, x);
  fill(x->c, t->c), fill(x->bias, t->c), fill(x->rhs, t->c);
  for (int i = 0; i < MOST; i++) x->scales[i] = (float)upto(64) / 16;
}

static int every = 1; // one of so many cases

/* Runs them, against the formula and, if there are others that give the same bits, those. */
static void run_all(const types *t, const product *p, int cases, const char *isa,
                    anf_jit_kind other) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_text text = {.cx = cx};
  for (int i = 0; i < cases; i++) put_func(&text, &p[i], i);
  bool alike = other != ANF_JIT_KIND_COUNT;
  anf_jit_module *m = compiled(cx, ANF_JIT_LLVM, isa, text.text, text.len),
                 *same = alike ? compiled(cx, other, NULL, text.text, text.len) : NULL;
  memory *before = malloc(3 * sizeof *before), *x = before + 1, *y = before + 2;
  for (int i = 0; i < cases; i++) {
    fill_all(t, before);
    *x = *y = *before;
    run(m, &p[i], i, x);
    check_answer(&p[i], before, x, i);
    if (!alike) continue;
    run(same, &p[i], i, y);
    assert_memory_equal(x->c, y->c, sizeof x->c);
  }
  free(before);
  anf_jit_module_free(m);
  if (same) anf_jit_module_free(same);
  anf_text_free(&text);
  anf_ctx_free(cx);
}

static void one_type(const types *t, const sizes *s, const char *isa, int most,
                     anf_jit_kind other) {
  int cases = (most + every - 1) / every;
  product p[CASES];
  seed = 1 + (uint64_t)t->a * 64 + (uint64_t)t->b;
  for (int i = 0; i < cases; i++) p[i] = choose(t, s);
  run_all(t, p, cases, isa, other);
}

static void every_type(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    one_type(&all_types[i], &small, NULL, CASES, ANF_JIT_INTERP);
}
static void wide_vectors(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    one_type(&all_types[i], &small, "avx512", 12, ANF_JIT_INTERP);
}
/* Dot products of pairs and quads, done by hand where the machine has no instructions for them. */
static void dots(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    if (all_types[i].c == ANF_TIR_s32) one_type(&all_types[i], &small, "vnni", 24, ANF_JIT_INTERP);
}
/* Pairs of s16, of which every x86-64 has a dot product. */
static void pairs(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    if (all_types[i].a == ANF_TIR_s16) {
      one_type(&all_types[i], &small, "sse", 24, ANF_JIT_INTERP);
      one_type(&all_types[i], &small, "avx2", 24, ANF_JIT_INTERP);
      one_type(&all_types[i], &large, "avx2", LARGE, ANF_JIT_INTERP);
    }
}
/* Pairs of products of bytes in 16 bits, which do not saturate if B is small. */
static void small_bytes(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    if (all_types[i].small) {
      one_type(&all_types[i], &small, "avx2", 24, ANF_JIT_INTERP);
      one_type(&all_types[i], &large, "avx2", LARGE, ANF_JIT_INTERP);
      one_type(&all_types[i], &small, "avx512", 12, ANF_JIT_INTERP);
    }
}
static void dots_of_bf16(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    if (all_types[i].b == ANF_TIR_bf16) one_type(&all_types[i], &small, "bf16", 24, ANF_JIT_INTERP);
}

static const char features[] = "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512vnni,"
                               "+avx512bf16,+amx-tile,+amx-int8,+amx-bf16";

/* How many of a type's cases are worth tiles of AMX? */
static int by_tiles(const types *t) {
  anfi_isa isa;
  int n = 0;
  anfi_isa_of("x86_64", features, &isa);
  seed = 1 + (uint64_t)t->a * 64 + (uint64_t)t->b;
  for (int i = 0; i < LARGE; i++) {
    product p = choose(t, &large);
    anfi_gemm k = {.a = t->a, .b = t->b, .c = t->c, .m = p.m, .n = p.n, .list = p.list};
    if (p.ta) k.flags |= GEMM_TA;
    k.size[GEMM_K] = p.k, k.size[GEMM_NUM] = p.num;
    k.known[GEMM_K] = k.known[GEMM_NUM] = !p.hidden;
    n += anfi_tile_amx(&isa, &k);
  }
  return n;
}
/* Tiles of AMX, by hand where the machine has none. */
static void tiles(void **state) {
  (void)state;
  int n = 0, least = LARGE;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++) {
    const types *t = &all_types[i];
    bool bytes = t->c == ANF_TIR_s32 && t->a != ANF_TIR_s16;
    int some = by_tiles(t);
    if (!bytes && (t->a != ANF_TIR_bf16 || t->c == t->a)) {
      assert_int_equal(some, 0);
      continue;
    }
    one_type(t, &large, "amx", LARGE, bytes ? ANF_JIT_INTERP : ANF_JIT_KIND_COUNT);
    n += some, least = some < least ? some : least;
  }
  assert_true(n >= 30 && least >= 4);
}

/* The same for an object: it asks the system for the tiles when it is loaded. */
static anf_status print_object(anf_ctx *cx, anf_jit_engine *e, anf_tir_module *t, anf_text *out) {
  static const anfi_jit_aot aot = {.name = "dots", .file = "dots.tir"};
  anfi_jit_lowered l = {0};
  ANFI_ENTRY(cx, NULL);
  if (anfi_jit_lower(cx, e, t, false, &l)) {
    l.aot = &aot;
    e->vt->print(cx, e, &l, "asm", out);
  }
  return anfi_leave(cx);
}

/* Code for a machine that has the instructions: they are in it. */
static void instructions(void **state) {
  (void)state;
  static const char *const want[] = {
      "vpdpbusd", "vdpbf16ps", "zmm",     "ldtilecfg", "tileloadd",  "tilezero",   "tdpbf16ps",
      "tdpbusd",  "tdpbssd",   "tdpbsud", "tdpbuud",   "tilestored", "tilerelease"};
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *e = NULL;
  anf_tir_module *t = NULL;
  anf_jit_opts o = {.size = sizeof o, .contract = true};
  anf_text text = {.cx = cx}, code = {.cx = cx};
  int n = 0;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++) {
    product p = {&all_types[i], 4, 32, 64, 1, 64, 32, 32, 0, 0, .init = true}, high = p;
    bool dot = p.t->c == ANF_TIR_s32 || p.t->a == ANF_TIR_bf16;
    high.m = 64, high.k = high.lda = 512; // worth tiles of AMX
    if (dot) put_func(&text, &p, n++), put_func(&text, &high, n++);
  }
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, &o, NULL, &e), ANF_OK);
  snprintf(e->target.cpu, sizeof e->target.cpu, "sapphirerapids");
  snprintf(e->target.features, sizeof e->target.features, "%s", features);
  assert_int_equal(anf_tir_parse(cx, text.text, text.len, "dots", NULL, &t), ANF_OK);
  assert_int_equal(anf_jit_print(e, t, "asm", NULL, &code), ANF_OK);
  for (size_t i = 0; i < ANFI_LEN(want); i++) assert_non_null(strstr(code.text, want[i]));
  assert_null(strstr(code.text, "anf_rt_tiles"));
  assert_int_equal(print_object(cx, e, t, &code), ANF_OK);
  assert_non_null(strstr(strstr(code.text, ".init_array.101"), "anf_rt_tiles"));
  anf_tir_module_free(t);
  anf_jit_engine_free(e);
  anf_text_free(&text);
  anf_text_free(&code);
  anf_ctx_free(cx);
}

/* Code for a machine with AVX2: pairs of bytes where the weights are small, and only there. */
static void small_instructions(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++) {
    product p = {&all_types[i], 4, 16, 64, 1, 64, 16, 16, 0, 0, .init = true};
    anf_ctx *cx = anf_ctx_new(NULL);
    anf_jit_engine *e = NULL;
    anf_tir_module *t = NULL;
    anf_text text = {.cx = cx}, code = {.cx = cx};
    p.small = p.t->small;
    put_func(&text, &p, 0);
    assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, NULL, NULL, &e), ANF_OK);
    snprintf(e->target.cpu, sizeof e->target.cpu, "haswell");
    snprintf(e->target.features, sizeof e->target.features, "+avx2,+fma");
    assert_int_equal(anf_tir_parse(cx, text.text, text.len, "small", NULL, &t), ANF_OK);
    assert_int_equal(anf_jit_print(e, t, "asm", NULL, &code), ANF_OK);
    assert_true((strstr(code.text, "vpmaddubsw") != NULL) == p.small);
    anf_tir_module_free(t);
    anf_jit_engine_free(e);
    anf_text_free(&text);
    anf_text_free(&code);
    anf_ctx_free(cx);
  }
}

/* How often `word` is in the code for these products. */
static int count_in_code(const product *p, int cases, const char *word) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *e = NULL;
  anf_tir_module *t = NULL;
  anf_text text = {.cx = cx}, code = {.cx = cx};
  int n = 0;
  for (int i = 0; i < cases; i++) put_func(&text, &p[i], i);
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, NULL, NULL, &e), ANF_OK);
  assert_int_equal(anf_tir_parse(cx, text.text, text.len, "sums", NULL, &t), ANF_OK);
  assert_int_equal(anf_jit_print(e, t, "llvm", NULL, &code), ANF_OK);
  for (const char *at = code.text; (at = strstr(at, word)); at += strlen(word)) n++;
  anf_tir_module_free(t);
  anf_jit_engine_free(e);
  anf_text_free(&text);
  anf_text_free(&code);
  anf_ctx_free(cx);
  return n;
}

/* Products whose tiles have one size share the code of the sums, whatever M, K, the strides are and where sums start. */
static void shared_sums(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++) {
    const types *t = &all_types[i];
    bool alike = t->a == t->c && t->b == t->c;
    product p[6];
    for (int64_t k = 0; k < 6; k++) {
      p[k] = (product){t, 18, 48, 16 + k, 2, 17 + k, 48, 48, 1024, 2048, .init = true};
      if (k == 1) p[k].m = 36;
      if (k == 2 && alike) p[k].init = false, p[k].ldc = 50;
      if (k >= 3 && alike) p[k].list = 2;
    }
    seed = 1;
    run_all(t, p, 6, NULL, ANF_JIT_INTERP);
    if (t->a != ANF_TIR_f32 || t->b != t->a) continue;
    int one = count_in_code(p, 1, "llvm.fma.v"), two = count_in_code(p, 2, "llvm.fma.v");
    assert_true(one > 0);
    assert_true(two < 2 * one);
    assert_int_equal(two, count_in_code(p, 3, "llvm.fma.v"));
  }
}

static bool is_product(const char *line) {
  return strstr(line, "vfmadd") || strstr(line, "vpdpbusd") || strstr(line, "vdpbf16ps");
}

/* Vectors that the loops of products in the text move to or from the stack; *loops: how many there
 * are. A loop is a label and the lines to a jump to it. */
static int spills(char *text, int *loops) {
  char label[40] = "";
  int products = 0, moved = 0, all = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char *jump = strstr(line, "\tj"), *to = jump ? strstr(jump, ".LBB") : NULL;
    if (strncmp(line, ".LBB", 4) == 0) {
      snprintf(label, sizeof label, "%.*s", (int)strcspn(line, ":"), line);
      products = moved = 0;
    } else if (to && label[0] && strcmp(to, label) == 0 && products > 3) {
      all += moved;
      ++*loops;
    }
    products += is_product(line);
    moved += strstr(line, "zmm") && strstr(line, "(%rsp)");
  }
  return all;
}

/* The sums of a tile and what they are made of are in registers, for every tile of 512 bits. */
static void tiles_fit_registers(void **state) {
  (void)state;
  static const int64_t size[][2] = {{28, 32}, {12, 64}, {18, 48}, {48, 16}, {5, 32}};
  static const int of[] = {0, 2, 4, 5}; // f32, bf16 to f32 and to bf16, u8 by s8
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_jit_engine *e = NULL;
  anf_jit_opts o = {.size = sizeof o, .contract = true};
  anf_text text = {.cx = cx}, code = {.cx = cx};
  anf_tir_module *t = NULL;
  int n = 0, loops = 0;
  for (size_t i = 0; i < ANFI_LEN(of); i++)
    for (size_t k = 0; k < ANFI_LEN(size); k++) {
      int64_t rows = size[k][0], cols = size[k][1];
      product p = {&all_types[of[i]], rows, cols, 64, 1, 64, cols, cols, 0, 0, .init = true};
      put_func(&text, &p, n++);
      p.k = p.lda = 72, p.init = false; // shares its tiles with the one before
      if (i == 0) put_func(&text, &p, n++);
    }
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_LLVM, &o, NULL, &e), ANF_OK);
  snprintf(e->target.cpu, sizeof e->target.cpu, "sapphirerapids");
  snprintf(e->target.features, sizeof e->target.features, "%.*s",
           (int)(strstr(features, ",+amx") - features), features);
  assert_int_equal(anf_tir_parse(cx, text.text, text.len, "tiles", NULL, &t), ANF_OK);
  assert_int_equal(anf_jit_print(e, t, "asm", NULL, &code), ANF_OK);
  assert_int_equal(spills(code.text, &loops), 0);
  assert_true(loops >= n);
  anf_tir_module_free(t);
  anf_jit_engine_free(e);
  anf_text_free(&text);
  anf_text_free(&code);
  anf_ctx_free(cx);
}

static void few_columns(void **state) {
  (void)state;
  one_type(&all_types[0], &few, "avx512", CASES, ANF_JIT_INTERP);
}
static void narrow_vectors(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    one_type(&all_types[i], &small, "sse", 8, ANF_JIT_INTERP);
}
static void c_text(void **state) {
  (void)state;
  for (size_t i = 0; i < ANFI_LEN(all_types); i++)
    one_type(&all_types[i], &small, NULL, 10, ANF_JIT_CJIT);
}
static void unknown_name(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_jit_engine *e = NULL;
  anf_jit_opts o = {.size = sizeof o, .kernels = "abacus"};
  assert_int_equal(anf_jit_engine_new(cx, ANF_JIT_INTERP, &o, d, &e), ANF_INVALID);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0912");
  anf_diag_free(d);
  anf_ctx_free(cx);
}

int main(int argc, char **argv) {
  if (argc > 1) every = (int)strtol(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_type),
                                     cmocka_unit_test(wide_vectors),
                                     cmocka_unit_test(dots),
                                     cmocka_unit_test(pairs),
                                     cmocka_unit_test(small_bytes),
                                     cmocka_unit_test(dots_of_bf16),
                                     cmocka_unit_test(tiles),
                                     cmocka_unit_test(instructions),
                                     cmocka_unit_test(small_instructions),
                                     cmocka_unit_test(shared_sums),
                                     cmocka_unit_test(tiles_fit_registers),
                                     cmocka_unit_test(few_columns),
                                     cmocka_unit_test(narrow_vectors),
                                     cmocka_unit_test(c_text),
                                     cmocka_unit_test(unknown_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
