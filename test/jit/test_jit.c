// SPDX-License-Identifier: Apache-2.0
/* The interface of engines, with the llvm and interp engines: calls, instances, traps, threads,
 * memory. Values were computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "anfora/build.h"
#include "anfora/jit.h"
#include "anfora/rt_abi.h"
#include "anfora/tir.h"

static const char fib_text[] = "func fib(n: s64): s64 {\n"
                               "  if (n < 2s64) {\n"
                               "    return n\n"
                               "  }\n"
                               "  return (fib((n - 1s64)) + fib((n - 2s64)))\n"
                               "}\n";

typedef struct bench {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *e;
} bench;

static bench begin(anf_jit_kind k, const anf_jit_opts *o) {
  bench b = {anf_ctx_new(NULL), NULL, NULL};
  b.d = anf_diag_new(b.cx);
  anf_status st = anf_jit_engine_new(b.cx, k, o, b.d, &b.e);
  if (st != ANF_OK) anf_diag_print(b.d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return b;
}
static void end(bench *b) {
  anf_jit_engine_free(b->e);
  anf_diag_free(b->d);
  anf_ctx_free(b->cx);
}

static anf_status compile(bench *b, const char *text, anf_jit_module **m) {
  anf_tir_module *t = NULL;
  anf_status st = anf_tir_parse(b->cx, text, strlen(text), "test", b->d, &t);
  if (st == ANF_OK) st = anf_jit_make_module(b->e, t, b->d, m);
  anf_tir_module_free(t);
  return st;
}
static anf_jit_module *compiled(bench *b, const char *text) {
  anf_jit_module *m = NULL;
  anf_status st = compile(b, text, &m);
  if (st != ANF_OK) anf_diag_print(b->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return m;
}
static anf_jit_function *function(anf_jit_module *m, const char *name) {
  anf_jit_function *f = anf_jit_get_function(m, name);
  assert_non_null(f);
  return f;
}
static const char *first_code(const bench *b) {
  const anf_diag_item *it = anf_diag_at(b->d, 0);
  return it ? it->code : "";
}

static void *address(void *p, void *out, size_t size) { // a function pointer out of a void pointer
  memcpy(out, &p, size);
  return p;
}

static const anf_jit_kind both[] = {ANF_JIT_LLVM, ANF_JIT_INTERP};

static void fibonacci(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    bench b = begin(both[k], NULL);
    anf_tir_module *t = NULL;
    anf_jit_function *f = NULL;
    assert_int_equal(anf_tir_parse(b.cx, fib_text, strlen(fib_text), "fib", b.d, &t), ANF_OK);
    assert_int_equal(anf_jit_get_entry_func(b.e, t, b.d, &f), ANF_OK);
    anf_tir_module_free(t);
    anf_generic args[2] = {{.s64 = 15}};
    assert_int_equal(anf_jit_call_generic(f, NULL, args), ANF_OK);
    assert_int_equal(args[1].s64, 610);
    assert_int_equal(anf_jit_function_arity(f), 1);
    assert_string_equal(anf_jit_function_name(f), "fib");
    int64_t (*natural)(int64_t) = NULL;
    if (address(anf_jit_get_function_pointer(f), &natural, sizeof natural))
      assert_int_equal(natural(20), 6765);
    assert_true((k == 0) == (natural != NULL));
    anf_jit_function_free(f);
    end(&b);
  }
}

/* What a host built may not be Tensor IR: an index too few would read some other element. */
static void invalid(void **state) {
  (void)state;
  static const char text[] = "func f(x: [f32 * 2 * 2]): f32 {\n  return x[1]\n}\n";
  for (int k = 0; k < ANF_JIT_KIND_COUNT; k++) {
    bench b = begin((anf_jit_kind)k, NULL);
    anf_tir_module *t = NULL;
    anf_jit_module *m = NULL;
    anf_jit_function *f = NULL;
    anf_text out[ANF_BUILD_FORM_COUNT] = {{0}}, printed = {.cx = b.cx};
    anf_build_opts o = {.size = sizeof o, .kind = (anf_jit_kind)k};
    assert_int_equal(anf_tir_parse(b.cx, text, sizeof text - 1, "bad", b.d, &t), ANF_OK);
    assert_int_equal(anf_jit_make_module(b.e, t, b.d, &m), ANF_INVALID);
    assert_int_equal(anf_jit_get_entry_func(b.e, t, b.d, &f), ANF_INVALID);
    assert_int_equal(anf_jit_print(b.e, t, k == ANF_JIT_CJIT ? "c" : "llvm", b.d, &printed),
                     ANF_INVALID);
    assert_int_equal(anf_build_tir(t, 1u << ANF_BUILD_C, &o, b.d, out), ANF_INVALID);
    assert_int_equal(anf_diag_count(b.d), 4);
    for (size_t i = 0; i < 4; i++) assert_string_equal(anf_diag_at(b.d, i)->code, "E0822");
    assert_null(m);
    assert_null(f);
    anf_tir_module_free(t);
    anf_text_free(&printed);
    end(&b);
  }
}

/* ---- code and data apart ---- */

static const char counter_text[] = "public tensor count: [s64 * 1] = {40s64}\n"
                                   "private tensor wide: [f32 * 20] = {0.5f}\n"
                                   "func next(by: s64): s64 {\n"
                                   "  count[0] = (count[0] + by)\n"
                                   "  return count[0]\n"
                                   "}\n"
                                   "func half(): f32 {\n"
                                   "  return wide[19]\n"
                                   "}\n";

static int64_t next(const anf_jit_function *f, int64_t by) {
  anf_generic args[2] = {{.s64 = by}};
  assert_int_equal(anf_jit_call_generic(f, NULL, args), ANF_OK);
  return args[1].s64;
}

static void instances(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    bench b = begin(both[k], NULL);
    anf_jit_module *m = compiled(&b, counter_text), *other = NULL;
    assert_int_equal(anf_jit_module_instance(m, &other), ANF_OK);
    anf_jit_function *f = function(m, "next"), *g = function(other, "next");
    assert_int_equal(next(f, 2), 42);
    assert_int_equal(next(f, 1), 43);
    assert_int_equal(next(g, 0), 40);
    assert_ptr_not_equal(anf_jit_get_module_data(f), anf_jit_get_module_data(g));
    assert_int_equal(*(int64_t *)anf_jit_get_address_of_symbol(m, "count"), 43);
    assert_int_equal(anf_jit_module_global_count(m), 2);
    anf_jit_global wide = anf_jit_module_global(m, 1);
    assert_string_equal(wide.name, "wide");
    assert_int_equal(wide.offset, 64);
    assert_int_equal(wide.bytes, 80);
    int64_t mine[16] = {100};
    anf_generic args[2] = {{.s64 = 7}};
    assert_int_equal(anf_jit_call_generic_data(f, NULL, mine, args), ANF_OK);
    assert_int_equal(args[1].s64, 107);
    assert_int_equal(next(f, 0), 43);
    if (k == 0) { // the natural function is bound to the first instance
      int64_t (*natural)(int64_t) = NULL;
      address(anf_jit_get_function_pointer(f), &natural, sizeof natural);
      assert_int_equal(natural(7), 50);
      assert_null(anf_jit_get_function_pointer(g));
    }
    anf_jit_function_free(f);
    anf_jit_module_free(m);
    assert_int_equal(next(g, 5), 45); // keeps what it needs
    anf_jit_function_free(g);
    anf_jit_module_free(other);
    end(&b);
  }
}

/* ---- traps ---- */

static const char trap_text[] =
    "func divide(a: s32, b: s32): s32 {\n"
    "  return (a / b)\n" // line 2
    "}\n"
    "func step(n: s32): s32 {\n"
    "  var s: s32 = 0\n"
    "  for i in (0, 10, n) {\n" // line 6
    "    s = (s + i)\n"
    "  }\n"
    "  return s\n"
    "}\n"
    "func deep(n: s64): s64 {\n" // line 11
    "  if (n == 0s64) {\n"
    "    return 0s64\n"
    "  }\n"
    "  return ((deep((n - 1s64)) * 3s64) + n)\n" // no loop can stand for it
    "}\n"
    "func tail(n: s64, acc: s64): s64 {\n"
    "  if (n == 0s64) {\n"
    "    return acc\n"
    "  }\n"
    "  return tail((n - 1s64), (acc + n))\n"
    "}\n";

static void expect_trap(anf_jit_module *m, const char *name, anf_generic *args, anf_status want,
                        anf_trap_kind kind, unsigned line, const char *func) {
  anf_jit_function *f = function(m, name);
  anf_stream *s = anf_stream_new(NULL);
  assert_int_equal(anf_jit_call_generic(f, s, args), want);
  const anf_trap *t = anf_stream_trap(s);
  assert_int_equal(t->kind, kind);
  assert_int_equal(t->line, line);
  assert_string_equal(t->func, func);
  assert_true(strlen(anf_trap_words(kind)) > 3);
  anf_stream_free(s);
  anf_jit_function_free(f);
}

static void traps(void **state) {
  (void)state;
  const anf_jit_level levels[] = {ANF_JIT_O0, ANF_JIT_O2};
  for (int k = 0; k < 2; k++) {
    anf_jit_opts o = {.size = sizeof o, .level = levels[k]};
    bench b = begin(ANF_JIT_LLVM, &o);
    anf_jit_module *m = compiled(&b, trap_text);
    anf_generic zero[3] = {{.s32 = 7}, {.s32 = 0}}, least[3] = {{.s32 = INT32_MIN}, {.s32 = -1}};
    expect_trap(m, "divide", zero, ANF_INVALID, ANF_TRAP_DIVISION, 2, "divide");
    anf_jit_function *f = function(m, "divide");
    assert_int_equal(anf_jit_call_generic(f, NULL, least), ANF_OK); // wraps
    assert_int_equal(least[2].s32, INT32_MIN);
    int32_t (*divide)(int32_t, int32_t) = NULL;
    address(anf_jit_get_function_pointer(f), &divide, sizeof divide);
    assert_int_equal(divide(7, 2), 3);
    assert_int_equal(divide(7, 0), 0);
    assert_int_equal(anf_stream_trap(anf_stream_of_thread())->kind, ANF_TRAP_DIVISION);
    anf_diag_clear(b.d);
    assert_int_equal(anf_jit_report(b.cx, f, NULL, b.d), ANF_INVALID);
    assert_string_equal(first_code(&b), "E0858");
    anf_jit_function_free(f);
    anf_generic step[2] = {{.s32 = -1}}, forever[2] = {{.s64 = INT64_C(1) << 40}},
                much[2] = {{.s64 = 1000000}}, tail[3] = {{.s64 = 30000000}, {.s64 = 0}};
    expect_trap(m, "step", step, ANF_INVALID, ANF_TRAP_STEP, 6, "step");
    expect_trap(m, "deep", forever, ANF_LIMIT, ANF_TRAP_DEPTH, 11, "deep");
    f = function(m, "deep");
    assert_int_equal(anf_jit_call_generic(f, NULL, much), ANF_OK);
    uint64_t r = 0;
    for (uint64_t n = 1; n <= 1000000; n++) r = r * 3 + n;
    assert_true(much[1].u64 == r);
    anf_jit_function_free(f);
    f = function(m, "tail"); // takes no stack, at any level
    assert_int_equal(anf_jit_call_generic(f, NULL, tail), ANF_OK);
    assert_int_equal(tail[2].s64, INT64_C(450000015000000));
    anf_jit_function_free(f);
    anf_jit_module_free(m);
    end(&b);
  }
}

static void bounds(void **state) {
  (void)state;
  anf_jit_opts o = {.size = sizeof o, .bounds = true};
  bench b = begin(ANF_JIT_LLVM, &o);
  anf_jit_module *m = compiled(&b, "func at(A: [f32 * 8], i: index): f32 {\n"
                                   "  return A[i]\n"
                                   "}\n");
  float a[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  anf_generic good[3] = {{.ptr = a}, {.u64 = 7}}, bad[3] = {{.ptr = a}, {.u64 = 8}};
  anf_jit_function *f = function(m, "at");
  assert_int_equal(anf_jit_call_generic(f, NULL, good), ANF_OK);
  assert_true(good[2].f32 == 7);
  assert_int_equal(anf_jit_call_generic(f, NULL, bad), ANF_INVALID);
  assert_int_equal(anf_jit_report(b.cx, f, NULL, b.d), ANF_INVALID);
  assert_string_equal(first_code(&b), "E0852");
  anf_jit_function_free(f);
  anf_jit_module_free(m);
  end(&b);
}

/* ---- parallel loops ---- */

static const char parallel_text[] = "func squares(A: [s64 * 1000], n: s64): void {\n"
                                    "  for i in (0UL, 1000UL, 1UL) parallel {\n"
                                    "    A[i] = ((s64(i) * s64(i)) / n)\n"
                                    "  }\n"
                                    "}\n";

static void parallel(void **state) {
  (void)state;
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_jit_module *m = compiled(&b, parallel_text);
  anf_jit_function *f = function(m, "squares");
  anf_stream_opts so = {.size = sizeof so, .threads = 4};
  anf_stream *s = anf_stream_new(&so);
  assert_int_equal(anf_stream_threads(s), 4);
  int64_t a[1000];
  for (int turn = 0; turn < 20; turn++) {
    memset(a, 0, sizeof a);
    anf_generic args[3] = {{.ptr = a}, {.s64 = turn % 3}};
    anf_status st = anf_jit_call_generic(f, s, args);
    assert_int_equal(st, turn % 3 ? ANF_OK : ANF_INVALID);
    for (int i = 0; i < 1000 && turn % 3; i++) assert_int_equal(a[i], i * i / (turn % 3));
    if (turn % 3 == 0) assert_int_equal(anf_stream_trap(s)->kind, ANF_TRAP_DIVISION);
  }
  anf_stream_free(s);
  anf_jit_function_free(f);
  anf_jit_module_free(m);
  end(&b);
}

/* ---- threads ---- */

typedef struct worker {
  anf_jit_engine *e;
  anf_jit_function *shared;
  int id;
  bool good;
} worker;

static void *work(void *arg) {
  worker *w = (worker *)arg;
  char text[300];
  w->good = true;
  bench b = {anf_ctx_new(NULL), NULL, w->e};
  b.d = anf_diag_new(b.cx);
  for (int turn = 0; turn < 4; turn++) {
    snprintf(text, sizeof text, "func f(x: s64): s64 {\n  return ((x * %ds64) + %ds64)\n}\n",
             w->id + 2, turn);
    anf_jit_module *m = NULL;
    w->good &= compile(&b, text, &m) == ANF_OK;
    anf_jit_function *f = m ? anf_jit_get_function(m, "f") : NULL;
    anf_generic args[2] = {{.s64 = 10}}, fib[2] = {{.s64 = 15}};
    w->good &= f && anf_jit_call_generic(f, NULL, args) == ANF_OK &&
               args[1].s64 == 10 * (w->id + 2) + turn;
    w->good &= anf_jit_call_generic(w->shared, NULL, fib) == ANF_OK && fib[1].s64 == 610;
    anf_jit_function_free(f);
    anf_jit_module_free(m);
  }
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return NULL;
}

static void threads(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) {
    bench b = begin(both[k], NULL);
    anf_jit_module *m = compiled(&b, fib_text);
    anf_jit_function *f = function(m, "fib");
    anf_jit_module_free(m);
    pthread_t t[4];
    worker w[4];
    for (int i = 0; i < 4; i++) {
      w[i] = (worker){b.e, f, i, false};
      assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) assert_true(w[i].good);
    anf_jit_function_free(f);
    end(&b);
  }
}

/* ---- memory ---- */

static void no_page_is_writable_and_executable(void **state) {
  (void)state;
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_jit_module *m = compiled(&b, counter_text), *n = compiled(&b, trap_text);
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[1000];
  unsigned executable = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    const char *rights = strchr(line, ' ');
    assert_non_null(rights);
    if (rights[3] == 'x') executable++;
    assert_false(rights[2] == 'w' && rights[3] == 'x');
  }
  if (maps) {
    fclose(maps);
    assert_true(executable > 3);
  }
  anf_jit_module_free(m);
  anf_jit_module_free(n);
  end(&b);
}

/* ---- the host ---- */

static int64_t twice(int64_t x) { return 2 * x; }

static void host_functions(void **state) {
  (void)state;
  const char *text = "func twice(x: s64): s64\n"
                     "func four(x: s64): s64 {\n"
                     "  return twice(twice(x))\n"
                     "}\n";
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_jit_module *m = NULL;
  assert_int_equal(compile(&b, text, &m), ANF_INVALID);
  assert_string_equal(first_code(&b), "E0914");
  assert_null(m);
  anf_diag_clear(b.d);
  assert_int_equal(anf_jit_engine_define(b.e, "twice", (void (*)(void))twice), ANF_OK);
  m = compiled(&b, text);
  anf_jit_function *f = function(m, "four");
  assert_int_equal(next(f, 5), 20);
  anf_jit_function_free(f);
  assert_null(anf_jit_get_function(m, "nothing"));
  anf_jit_module_free(m);
  end(&b);
}

typedef struct heard {
  int64_t site;
  size_t n;
  uint64_t leaf[4];
} heard;
static void hear(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  heard *h = (heard *)user;
  h->site = site;
  h->n = n;
  memcpy(h->leaf, leaf, (n < 4 ? n : 4) * sizeof *leaf);
}

static void sites(void **state) {
  (void)state;
  const char *text = "func anf_rt_stop(a: s64, b: s64, c: s64): void\n"
                     "func anf_rt_put(a: generic): void\n"
                     "func anf_rt_print(a: s64): void\n"
                     "func f(x: s64): s64 {\n"
                     "  evaluate{anf_rt_put(generic(x))}\n"
                     "  evaluate{anf_rt_put(generic((x + 1s64)))}\n"
                     "  evaluate{anf_rt_print(3s64)}\n"
                     "  if (x == 9s64) {\n"
                     "    evaluate{anf_rt_stop(4s64, x, 5s64)}\n"
                     "  }\n"
                     "  return x\n"
                     "}\n";
  for (int k = 0; k < 2; k++) {
    bench b = begin(both[k], NULL);
    anf_jit_module *m = compiled(&b, text);
    anf_jit_function *f = function(m, "f");
    anf_stream *s = anf_stream_new(NULL);
    heard h = {0};
    anf_stream_set_print(s, hear, &h);
    anf_generic args[2] = {{.s64 = 9}};
    assert_int_equal(anf_jit_call_generic(f, s, args), ANF_INVALID);
    assert_int_equal(anf_stream_trap(s)->kind, ANF_TRAP_SITE);
    assert_int_equal(anf_stream_trap(s)->site, 4);
    assert_int_equal(anf_stream_trap(s)->a, 9);
    assert_int_equal(anf_stream_trap(s)->b, 5);
    assert_int_equal(h.site, 3);
    assert_int_equal(h.n, 2);
    assert_int_equal(h.leaf[1], 10);
    anf_stream_free(s);
    anf_jit_function_free(f);
    anf_jit_module_free(m);
    end(&b);
  }
}

/* ---- targets ---- */

static void targets(void **state) {
  (void)state;
  bench b = begin(ANF_JIT_INTERP, NULL);
  anf_target_machine tm = {.size = sizeof tm};
  assert_int_equal(anf_jit_set_target_machine(b.cx, ANF_JIT_LLVM, &tm, b.d), ANF_OK);
  assert_true(tm.triple[0] && tm.cpu[0] && tm.features[0]);
  anf_target_machine less = {.size = sizeof less, .features = "-avx2,+nonsense"};
  assert_int_equal(anf_jit_set_target_machine(b.cx, ANF_JIT_LLVM, &less, b.d), ANF_OK);
  assert_null(strstr(less.features, "+avx2"));
  assert_null(strstr(less.features, "nonsense"));
  anf_target_machine wrong = {.size = sizeof wrong, .cpu = "abacus"};
  assert_int_equal(anf_jit_set_target_machine(b.cx, ANF_JIT_LLVM, &wrong, b.d), ANF_INVALID);
  assert_string_equal(first_code(&b), "E0912");
  anf_jit_opts o = {.size = sizeof o, .target = &less};
  bench c = begin(ANF_JIT_LLVM, &o);
  anf_jit_module *m = compiled(&c, fib_text);
  anf_jit_function *f = function(m, "fib");
  assert_int_equal(next(f, 10), 55);
  assert_null(strstr(anf_jit_engine_target(c.e)->features, "+avx2"));
  anf_jit_function_free(f);
  anf_jit_module_free(m);
  end(&c);
  end(&b);
}

#ifdef __x86_64__
/* Functions of double, `lines` long, for a processor that LLVM cannot give a double back on. */
static void refused(int lines) {
  enum { ROOM = 1 << 16 };
  char *text = malloc(ROOM);
  assert_non_null(text);
  size_t n = (size_t)snprintf(text, ROOM, "func f(x: f64): f64 {\n  var y: f64\n  y = x\n");
  for (int i = 0; i < lines; i++) n += (size_t)snprintf(text + n, ROOM - n, "  y = (y * x)\n");
  snprintf(text + n, ROOM - n, "  return y\n}\n");
  anf_target_machine tm = {.size = sizeof tm, .cpu = "x86-64", .features = "-sse,-sse2"};
  anf_jit_opts o = {.size = sizeof o, .target = &tm};
  bench b = begin(ANF_JIT_LLVM, &o);
  anf_jit_module *m = NULL;
  assert_int_equal(compile(&b, text, &m), ANF_INTERNAL);
  assert_null(m);
  assert_string_equal(first_code(&b), "E0911");
  assert_non_null(strstr(anf_diag_at(b.d, 0)->message, "SSE"));
  end(&b);
  free(text);
}

static void errors_of_llvm(void **state) {
  (void)state;
  refused(1);   // one module
  refused(600); // code made by threads
}
#endif

/* ---- errors and texts ---- */

static void errors(void **state) {
  (void)state;
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_tir_module *t = NULL;
  anf_jit_function *f = NULL;
  const char *two = "func a(): s32 {\n  return 1\n}\nfunc b(): s32 {\n  return 2\n}\n";
  assert_int_equal(anf_tir_parse(b.cx, two, strlen(two), "two", b.d, &t), ANF_OK);
  assert_int_equal(anf_jit_get_entry_func(b.e, t, b.d, &f), ANF_INVALID);
  assert_string_equal(first_code(&b), "E0902");
  anf_diag_clear(b.d);
  anf_text out = {.cx = b.cx};
  assert_int_equal(anf_jit_print(b.e, t, "llvm", b.d, &out), ANF_OK);
  assert_non_null(strstr(out.text, "define i32 @a()"));
  anf_text_free(&out);
  assert_int_equal(anf_jit_print(b.e, t, "asm", b.d, &out), ANF_OK);
  assert_non_null(strstr(out.text, "b_0wrapper"));
  anf_text_free(&out);
  assert_int_equal(anf_jit_print(b.e, t, "poem", b.d, &out), ANF_UNSUPPORTED);
  assert_string_equal(first_code(&b), "E0904");
  anf_tir_module_free(t);
  anf_diag_clear(b.d);
  anf_jit_module *m = NULL;
  const char *start = "private tensor T: [s32 * 2]\n"
                      "func __tir_init(): void {\n"
                      "  T[0] = 0\n"
                      "  T[1] = (1 / T[0])\n"
                      "}\n"
                      "func f(): s32 {\n"
                      "  return T[1]\n"
                      "}\n";
  assert_int_equal(compile(&b, start, &m), ANF_INVALID);
  assert_string_equal(first_code(&b), "E0903");
  anf_diag_clear(b.d);
  anf_jit_engine *none = NULL;
  assert_int_equal(anf_jit_engine_new(b.cx, (anf_jit_kind)7, NULL, b.d, &none), ANF_UNSUPPORTED);
  assert_string_equal(first_code(&b), "E0901");
  end(&b);
  anf_jit_kind k;
  assert_true(anf_jit_kind_of("interp", &k) && k == ANF_JIT_INTERP);
  assert_false(anf_jit_kind_of("abacus", &k));
}

/* With lines for debuggers, and names that mathematics has */
static void debug_and_names(void **state) {
  (void)state;
  anf_jit_opts o = {.size = sizeof o, .debug = true};
  bench b = begin(ANF_JIT_LLVM, &o);
  anf_jit_module *m = compiled(&b, "func memcpy(x: s64): s64 {\n"
                                   "  if (x > 3s64) {\n"
                                   "    return (100s64 / (x - 4s64))\n"
                                   "  }\n"
                                   "  return (x + 1s64)\n"
                                   "}\n"
                                   "func main(x: s64): s64 {\n"
                                   "  return memcpy(memcpy(x))\n"
                                   "}\n");
  anf_jit_function *f = function(m, "main");
  assert_int_equal(next(f, 1), 3);
  assert_non_null(anf_jit_get_address_of_symbol(m, "memcpy"));
  anf_jit_function_free(f);
  anf_jit_module_free(m);
  end(&b);
}

/* A short loop around loops is not copied: each copy would have vectors, remainders and rests. */
/* Lanes past the caches stay so behind LLVM's passes, and a fence stands before the end. */
static void streams_and_fences(void **state) {
  (void)state;
  static const char text[] = "func f(x: [f32 * 64], y: [f32 * 64]): void {\n"
                             "  for i in (0UL, 64UL, 16UL) {\n"
                             "    y[i @ 16] = x[i @ 16] @[stream]\n"
                             "  }\n"
                             "}\n";
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_tir_module *t = NULL;
  anf_text out = {.cx = b.cx};
  assert_int_equal(anf_tir_parse(b.cx, text, strlen(text), "stream", b.d, &t), ANF_OK);
  assert_int_equal(anf_jit_print(b.e, t, "llvm", b.d, &out), ANF_OK);
  assert_non_null(strstr(out.text, "!nontemporal"));
  assert_non_null(strstr(out.text, "fence seq_cst"));
  anf_tir_module_free(t);
  anf_text_free(&out);
  end(&b);
}

static void loops_around_loops_stay(void **state) {
  (void)state;
  static const char text[] = "func f(x: [f32 * 4096], y: [f32 * 4096]): void {\n"
                             "  for i: s64 in (0s64, 8s64, 1s64) {\n"
                             "    for j: s64 in (0s64, 54s64, 1s64) {\n"
                             "      y[((i * 54s64) + j)] = x[((i * 200s64) + (j * 3s64))]\n"
                             "    }\n"
                             "  }\n"
                             "}\n";
  bench b = begin(ANF_JIT_LLVM, NULL);
  anf_tir_module *t = NULL;
  anf_text out = {.cx = b.cx};
  int stores = 0;
  anf_status st = anf_tir_parse(b.cx, text, strlen(text), "nest", b.d, &t);
  if (st != ANF_OK) anf_diag_print(b.d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_jit_print(b.e, t, "llvm", b.d, &out), ANF_OK);
  for (const char *at = out.text; (at = strstr(at, "store ")); at++) stores++;
  assert_in_range(stores, 1, 7); // fewer than turns
  anf_tir_module_free(t);
  anf_text_free(&out);
  end(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fibonacci),
                                     cmocka_unit_test(invalid),
                                     cmocka_unit_test(instances),
                                     cmocka_unit_test(traps),
                                     cmocka_unit_test(bounds),
                                     cmocka_unit_test(parallel),
                                     cmocka_unit_test(threads),
                                     cmocka_unit_test(no_page_is_writable_and_executable),
                                     cmocka_unit_test(host_functions),
                                     cmocka_unit_test(sites),
                                     cmocka_unit_test(targets),
#ifdef __x86_64__
                                     cmocka_unit_test(errors_of_llvm),
#endif
                                     cmocka_unit_test(errors),
                                     cmocka_unit_test(debug_and_names),
                                     cmocka_unit_test(streams_and_fences),
                                     cmocka_unit_test(loops_around_loops_stay)};
  return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
