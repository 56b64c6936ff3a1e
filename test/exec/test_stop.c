// SPDX-License-Identifier: Apache-2.0
/* Stopping: programs that would run for hours end when another thread cancels the context, when their time is up,
 * and at limits of turns and calls, in every engine; afterwards the same compiled function runs. */
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "test/unit/program.h"

#include <pthread.h>
#include <time.h>

#include "backend/jit/jit.h"
#include "base/base.h"

static const char program[] =
    "def loop(x: f64, n: i64) { i = 0; s = x; while i < n { s = s * 0.5 + Sin(s); i = i + 1 }; s "
    "}\n"
    "def calls(n: i64) -> i64 { if n < 2 { n } else { calls(n - 1) + calls(n - 2) } }\n"
    "def down(n: i64) -> i64 { if n == 0 { 0 } else { 1 + down(n - 1) } }\n"
    "def s4(x) { Sin(Sin(Sin(Sin(x)))) }\n"
    "def s16(x) { s4(s4(s4(s4(x)))) }\n"
    "def large(n: i64) { x = Cast(Arange(0, 20000000), f32); Sum(s16(s16(s16(s16(x))))) + Cast(n, "
    "f32) }\n";

enum { ENGINES = 3, GRAPHS = ENGINES, LATE = 3000 }; // ms: machines that test are busy
static const anf_jit_kind kinds[ENGINES] = {ANF_JIT_INTERP, ANF_JIT_LLVM, ANF_JIT_CJIT};

typedef struct fixture {
  world *w;
  anf_module *m;
  anf_exec *x[ENGINES];
} fixture;

static anf_exec *compiled(world *w, anf_graph *g, anf_jit_kind kind) {
  anf_exec_opts o = {.size = sizeof o, .kind = kind, .parallel = true};
  anf_exec *x = NULL;
  anf_status st = anf_compile(g, &o, w->d, &x);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  return x;
}

static fixture start(world *w, const char *name) {
  fixture f = {.w = w};
  assert_int_equal(anf_parse(w->cx, program, "stop.anf", w->d, &f.m), ANF_OK);
  for (int i = 0; i < ENGINES; i++) f.x[i] = compiled(w, anf_module_find(f.m, name), kinds[i]);
  return f;
}

static void end(fixture *f) {
  for (int i = 0; i < ENGINES; i++) anf_exec_free(f->x[i]);
  anf_module_free(f->m);
}

/* By engine i, or by the interpreter of graphs. */
static anf_status run_by(fixture *f, int i, const char *name, size_t n, anf_value **in,
                         anf_run_opts o, anf_value **out) {
  o.size = sizeof o;
  anf_diag_clear(f->w->d);
  return i < ENGINES ? anf_exec_run(f->x[i], n, in, &o, f->w->d, out)
                     : anf_run(anf_module_find(f->m, name), n, in, &o, f->w->d, out);
}

typedef struct later {
  anf_ctx *cx;
  long ms;
} later;

static void *cancels(void *p) {
  const later *l = (const later *)p;
  nanosleep(&(struct timespec){0, l->ms * 1000000}, NULL);
  anf_ctx_cancel(l->cx);
  return NULL;
}

static void stops_with(const fixture *f, anf_status st, anf_status want, const char *code,
                       uint64_t from) {
  assert_int_equal(st, want);
  assert_int_equal(anf_diag_count(f->w->d) > 0, true);
  assert_string_equal(anf_diag_at(f->w->d, 0)->code, code);
  assert_true(anfi_os_now_ns() - from < (uint64_t)LATE * 1000000);
}

static void is_cancelled(fixture *f, int i, const char *name, size_t n, anf_value **in) {
  later l = {f->w->cx, 30};
  pthread_t t;
  anf_value *out = NULL;
  uint64_t from = anfi_os_now_ns();
  assert_int_equal(pthread_create(&t, NULL, cancels, &l), 0);
  anf_status st = run_by(f, i, name, n, in, (anf_run_opts){0}, &out);
  assert_int_equal(pthread_join(t, NULL), 0);
  stops_with(f, st, ANF_CANCELLED, "E0004", from);
  from = anfi_os_now_ns();
  stops_with(f, run_by(f, i, name, n, in, (anf_run_opts){.max_ms = 20}, &out), ANF_LIMIT, "E0422",
             from);
}

static void endless_loop(void **state) {
  fixture f = start(*state, "loop");
  anf_ctx *cx = f.w->cx;
  anf_value *in[2] = {anf_value_f64(cx, 0.5), anf_value_i64(cx, INT64_MAX)},
            *few[2] = {in[0], anf_value_i64(cx, 10)}, *out = NULL;
  for (int i = 0; i <= GRAPHS; i++) {
    is_cancelled(&f, i, "loop", 2, in);
    uint64_t from = anfi_os_now_ns();
    stops_with(&f, run_by(&f, i, "loop", 2, in, (anf_run_opts){.max_steps = 1000}, &out), ANF_LIMIT,
               "E0415", from);
    assert_int_equal(
        run_by(&f, i, "loop", 2, few, (anf_run_opts){.max_steps = 1000, .max_ms = 60000}, &out),
        ANF_OK);
    anf_value_release(out);
    assert_int_equal(run_by(&f, i, "loop", 2, few, (anf_run_opts){0}, &out), ANF_OK);
    anf_value_release(out);
  }
  anf_value_release(few[1]);
  for (int i = 0; i < 2; i++) anf_value_release(in[i]);
  end(&f);
}

static void recursion(void **state) {
  fixture f = start(*state, "calls");
  anf_value *in = anf_value_i64(f.w->cx, 90), *few = anf_value_i64(f.w->cx, 10), *out = NULL;
  for (int i = 0; i <= GRAPHS; i++) {
    is_cancelled(&f, i, "calls", 1, &in);
    uint64_t from = anfi_os_now_ns();
    stops_with(&f, run_by(&f, i, "calls", 1, &in, (anf_run_opts){.max_steps = 5000}, &out),
               ANF_LIMIT, "E0415", from);
    stops_with(&f, run_by(&f, i, "calls", 1, &in, (anf_run_opts){.max_depth = 20}, &out), ANF_LIMIT,
               "E0416", from);
    assert_int_equal(
        run_by(&f, i, "calls", 1, &few, (anf_run_opts){.max_steps = 5000, .max_depth = 50}, &out),
        ANF_OK);
    assert_int_equal(anf_value_get_i64(out, 0), 55);
    anf_value_release(out);
  }
  anf_value_release(in);
  anf_value_release(few);
  end(&f);
}

/* A limit of depth counts calls that wait, so it counts down again. */
static void depth(void **state) {
  fixture f = start(*state, "down");
  anf_value *in = anf_value_i64(f.w->cx, 200), *out = NULL;
  for (int i = 0; i <= GRAPHS; i++) {
    stops_with(&f, run_by(&f, i, "down", 1, &in, (anf_run_opts){.max_depth = 100}, &out), ANF_LIMIT,
               "E0416", anfi_os_now_ns());
    for (int k = 0; k < 2; k++) {
      assert_int_equal(run_by(&f, i, "down", 1, &in, (anf_run_opts){.max_depth = 10000}, &out),
                       ANF_OK);
      assert_int_equal(anf_value_get_i64(out, 0), 200);
      anf_value_release(out);
    }
  }
  anf_value_release(in);
  end(&f);
}

/* One loop with 1.3 * 10^9 sines, on one thread and on two. */
static void parallel_loop(void **state) {
  fixture f = start(*state, "large");
  anf_stream *s = anf_stream_of_thread();
  uint32_t threads = anf_stream_threads(s);
  anf_value *in = anf_value_i64(f.w->cx, 1);
  for (uint32_t n = 1; n <= 2; n++) {
    anf_stream_set_threads(s, n);
    for (int i = 0; i < ENGINES; i++) is_cancelled(&f, i, "large", 1, &in);
  }
  anf_stream_set_threads(s, threads);
  anf_value_release(in);
  end(&f);
}

/* The interpreter looks at the time after an operation that takes long, however few there are. */
static void few_long_operations(void **state) {
  fixture f = start(*state, "loop");
  anf_module *m = NULL;
  anf_value *out = NULL;
  anf_run_opts o = {.size = sizeof o, .max_ms = 1};
  const char *text = "def f() { x = Full(0.5, (384, 384)); x @ x @ x }";
  assert_int_equal(anf_parse(f.w->cx, text, "stop.anf", f.w->d, &m), ANF_OK);
  uint64_t from = anfi_os_now_ns();
  stops_with(&f, anf_run(anf_module_find(m, "f"), 0, NULL, &o, f.w->d, &out), ANF_LIMIT, "E0422",
             from);
  anf_module_free(m);
  end(&f);
}

/* A request that comes when nothing runs stops what runs next, and no more than that. */
static void before_the_call(void **state) {
  fixture f = start(*state, "loop");
  anf_value *in[2] = {anf_value_f64(f.w->cx, 0.5), anf_value_i64(f.w->cx, INT64_MAX)}, *out = NULL;
  for (int i = 0; i < ENGINES; i++) {
    uint64_t from = anfi_os_now_ns();
    anf_ctx_cancel(f.w->cx);
    stops_with(&f, run_by(&f, i, "loop", 2, in, (anf_run_opts){0}, &out), ANF_CANCELLED, "E0004",
               from);
    stops_with(&f, run_by(&f, i, "loop", 2, in, (anf_run_opts){.max_ms = 20}, &out), ANF_LIMIT,
               "E0422", from);
  }
  for (int i = 0; i < 2; i++) anf_value_release(in[i]);
  end(&f);
}

static anf_status print_stoppable(anf_ctx *cx, const anf_tir_module *m, anf_diag *d,
                                  anf_text *out) {
  ANFI_ENTRY(cx, d);
  anfi_t_print_mod(anfi_jit_stoppable(cx, m, false), out);
  return anfi_leave(cx);
}

/* Does a loop of so many turns poll? At most 0: it says nothing of its turns. */
static bool polls(world *w, long turns) {
  char text[400], say[40] = "";
  anf_tir_module *m = NULL;
  anf_text out = {.cx = w->cx};
  if (turns > 0) snprintf(say, sizeof say, " @[turns=%ld]", turns);
  snprintf(text, sizeof text,
           "func f(n: s64): s64 {\n  var next: s64 = 0s64\n  while (next < n)%s {\n"
           "    next = (next + 1s64)\n  }\n  return next\n}\n",
           say);
  anf_status st = anf_tir_parse(w->cx, text, strlen(text), "loop.tir", w->d, &m);
  if (st == ANF_OK) st = print_stoppable(w->cx, m, w->d, &out);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  bool found = strstr(out.text, "anf_rt_poll") != NULL;
  anf_text_free(&out);
  anf_tir_module_free(m);
  return found;
}

/* A loop that says how many turns it takes at most is left alone if they are few. */
static void few_turns(void **state) {
  assert_true(polls(*state, 0));
  assert_false(polls(*state, 1));
  assert_false(polls(*state, 100000));
  assert_true(polls(*state, 100000000));
  assert_true(polls(*state, INT64_MAX));
}

/* Rounds that take gradients of their own release what these kept: many take as much memory as few. */
static void rounds_release(void **state) {
  world *w = (world *)*state;
  fixture f = {.w = w};
  const char *text =
      "def inner(x) { t = 1.0; for v in x { t = Sin(t + v) }; t }\n"
      "def down(x: f64[100], n: i64) { for i in 0..n { x = x - 0.1 * grad(inner)(x) }; Sum(x) }\n";
  assert_int_equal(anf_parse(w->cx, text, "down.anf", w->d, &f.m), ANF_OK);
  static const double data[100];
  const int64_t dims[1] = {100};
  anf_value *in[2] = {anf_value_tensor(w->cx, ANF_F64, 1, dims, data), NULL}, *out = NULL;
  for (int i = 0; i < ENGINES; i++) f.x[i] = compiled(w, anf_module_find(f.m, "down"), kinds[i]);
  for (int i = 1; i < ENGINES; i++) { // the first one has no stream
    size_t peak[2];
    for (int k = 0; k < 2; k++) {
      in[1] = anf_value_i64(w->cx, k ? 20000 : 2);
      assert_int_equal(run_by(&f, i, "down", 2, in, (anf_run_opts){0}, &out), ANF_OK);
      peak[k] = anf_stream_peak_bytes(anf_stream_of_thread());
      anf_value_release(out);
      anf_value_release(in[1]);
    }
    assert_int_equal(peak[0], peak[1]);
  }
  anf_value_release(in[0]);
  end(&f);
}

/* A context's limit of memory holds for what compiled code takes, too; the next run has all of it again. */
static void memory(void **state) {
  (void)state;
  world w = {.cx =
                 anf_ctx_new(&(anf_ctx_opts){.size = sizeof(anf_ctx_opts), .max_bytes = 64 << 20})};
  w.d = anf_diag_new(w.cx);
  fixture f = {.w = &w};
  const char *text = "def sorted(x: f32[N]) {\n  Sort(Tile(x, (1000,)))[5]\n}\n";
  assert_int_equal(anf_parse(w.cx, text, "sort.anf", w.d, &f.m), ANF_OK);
  for (int i = 0; i < ENGINES; i++) f.x[i] = compiled(&w, anf_module_find(f.m, "sorted"), kinds[i]);
  static const float data[40000];
  const int64_t large[1] = {40000}, small[1] = {2};
  anf_value *many = anf_value_tensor(w.cx, ANF_F32, 1, large, data),
            *few = anf_value_tensor(w.cx, ANF_F32, 1, small, data), *out = NULL;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i <= GRAPHS; i++) {
      anf_run_opts o = {0};
      stops_with(&f, run_by(&f, i, "sorted", 1, &many, o, &out), ANF_LIMIT, "E0871",
                 anfi_os_now_ns());
      assert_int_equal(anf_diag_count(w.d), 1);
      assert_int_equal(anf_diag_at(w.d, 0)->line, 2);
      assert_int_equal(run_by(&f, i, "sorted", 1, &few, o, &out), ANF_OK);
      assert_true(anf_value_get_f64(out, 0) == 0.0);
      anf_value_release(out);
    }
  anf_value_release(many);
  anf_value_release(few);
  end(&f);
  anf_diag_free(w.d);
  anf_ctx_free(w.cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rounds_release, setup, teardown),
      cmocka_unit_test_setup_teardown(endless_loop, setup, teardown),
      cmocka_unit_test_setup_teardown(recursion, setup, teardown),
      cmocka_unit_test_setup_teardown(depth, setup, teardown),
      cmocka_unit_test_setup_teardown(parallel_loop, setup, teardown),
      cmocka_unit_test_setup_teardown(few_long_operations, setup, teardown),
      cmocka_unit_test_setup_teardown(before_the_call, setup, teardown),
      cmocka_unit_test_setup_teardown(few_turns, setup, teardown),
      cmocka_unit_test(memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
