// SPDX-License-Identifier: Apache-2.0
/* The interpreter: what programs give, what they cost, where they stop. Expected values are worked
 * out by hand. */
#include "test/unit/program.h"

#if defined(ANF_HOSTILE) || defined(__SANITIZE_ADDRESS__)
#define LONG_LOOP 100000 // these builds are slow
#else
#define LONG_LOOP 1000000
#endif

/* ---- programs ---- */

static anf_graph *fibonacci(anf_module *m, bool typed) {
  anf_ctx *cx = anf_module_ctx(m);
  anf_graph *fib = anf_graph_new(m, "fibonacci"), *zero = anf_graph_new(m, "✓fibonacci"),
            *more = anf_graph_new(m, "✗fibonacci"), *one = anf_graph_new(m, "✓✗fibonacci"),
            *sum = anf_graph_new(m, "✗✗fibonacci");
  anf_node *n = anf_param(fib, "n", typed ? scalar(cx, ANF_I64) : NULL), *f = anf_graph_node(fib);
  if (typed && fib) anf_graph_set_result_type(fib, scalar(cx, ANF_I64));
  anf_return(zero, anf_int(m, 0));
  anf_return(one, anf_int(m, 1));
  anf_node *a = CALL(sum, f, OP(sum, "Sub", n, anf_int(m, 1))),
           *b = CALL(sum, f, OP(sum, "Sub", n, anf_int(m, 2)));
  anf_return(sum, OP(sum, "Add", a, b));
  anf_node *is1 = OP(more, "Equal", n, anf_int(m, 1));
  anf_return(more, CALL0(more, anf_switch(more, is1, anf_graph_node(one), anf_graph_node(sum))));
  anf_node *is0 = OP(fib, "Less", n, anf_int(m, 1));
  anf_return(fib, CALL0(fib, anf_switch(fib, is0, anf_graph_node(zero), anf_graph_node(more))));
  return fib;
}

static void test_fibonacci(void **state) {
  world *w = *state;
  anf_graph *typed = fibonacci(w->m, true), *plain = fibonacci(w->m, false);
  static const int64_t want[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  for (int64_t n = 0; n <= 10; n++) {
    assert_int_equal(run1(w, typed, n), want[n]);
    assert_int_equal(run1(w, plain, n), want[n]);
  }
  assert_int_equal(run1(w, typed, 20), 6765);
  anf_value *v = run(w, typed, 1, (anf_value *[]){anf_value_int(w->cx, 7)});
  assert_int_equal(anf_value_dtype(v), ANF_I64);
  assert_int_equal(take_i64(v), 13);
}

static void test_hof(void **state) {
  world *w = *state;
  anf_graph *hof = anf_graph_new(w->m, "hof"), *f = anf_graph_new(w->m, "f"),
            *g = anf_graph_new(w->m, "g");
  anf_node *x = anf_param(hof, "x", NULL), *fx = anf_param(f, "x", NULL);
  anf_return(f, OP(f, "Add", fx, anf_int(w->m, 3)));
  anf_node *fn = anf_param(g, "function", NULL), *gx = anf_param(g, "x", NULL);
  anf_return(g, OP(g, "Mul", CALL(g, fn, gx), CALL(g, fn, gx)));
  anf_return(hof, CALL(hof, anf_graph_node(g), anf_graph_node(f), x));
  assert_int_equal(run1(w, hof, 2), 25);
}

static void test_closure(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "ms_closure");
  anf_node *f = CALL(g, anf_graph_node(func_outer(w->m)), anf_int(w->m, 1), anf_int(w->m, 2));
  anf_return(g, anf_tuple(g, 2, NODES(CALL(g, f, anf_int(w->m, 1)), CALL(g, f, anf_int(w->m, 2)))));
  anf_value *v = run(w, g, 0, NULL);
  assert_int_equal(anf_value_count(v), 2);
  assert_int_equal(anf_value_get_i64(anf_value_at(v, 0), 0), 4);
  assert_int_equal(anf_value_get_i64(anf_value_at(v, 1), 0), 5);
  anf_value_release(v);
}

static void test_seed_001(void **state) { // test_f(3, 4): a = 2, b = 6, 6 * (2 / 6)
  world *w = *state;
  anf_graph *t = anf_graph_new(w->m, "test_f"), *func = anf_graph_new(w->m, "func");
  anf_node *x = anf_param(t, "x", NULL), *y = anf_param(t, "y", NULL);
  anf_node *fx = anf_param(func, "x", NULL), *fy = anf_param(func, "y", NULL);
  anf_return(func, OP(func, "Div", fx, fy));
  anf_node *a = OP(t, "Sub", x, anf_int(w->m, 1)), *b = OP(t, "Add", a, y);
  anf_return(t, OP(t, "Mul", b, CALL(t, anf_graph_node(func), a, b)));
  anf_value *v = run(w, t, 2, (anf_value *[]){anf_value_int(w->cx, 3), anf_value_int(w->cx, 4)});
  assert_float_equal(anf_value_get_f64(v, 0), 2.0, 1e-15);
  anf_value_release(v);
}

/* A closure returned to the host, called later, and after its program has run again. */
static void test_returned_function(void **state) {
  world *w = *state;
  anf_value *f = run(w, func_outer(w->m), 2,
                     (anf_value *[]){anf_value_i64(w->cx, 10), anf_value_i64(w->cx, 20)});
  assert_int_equal(anf_value_get_kind(f), ANF_VALUE_FN);
  for (int64_t i = 0; i < 3; i++) {
    anf_value *arg = anf_value_i64(w->cx, i), *v = NULL;
    assert_int_equal(anf_run_value(w->cx, f, 1, &arg, NULL, w->d, &v), ANF_OK);
    assert_int_equal(take_i64(v), 30 + i);
    anf_value_release(arg);
  }
  anf_value_release(f);
}

/* pick(n): if n < 0 a closure over a, else one over b and n, called with 100 */
static void test_choice_among_closures(void **state) {
  world *w = *state;
  anf_graph *g = anf_graph_new(w->m, "pick"), *yes = anf_graph_new(w->m, "✓pick"),
            *no = anf_graph_new(w->m, "✗pick");
  anf_node *n = anf_param(g, "n", NULL), *a = OP(g, "Mul", n, anf_int(w->m, 2)),
           *b = OP(g, "Mul", n, anf_int(w->m, 3));
  anf_node *p = anf_param(yes, "p", NULL), *q = anf_param(no, "q", NULL);
  anf_return(yes, OP(yes, "Add", p, a));
  anf_return(no, OP(no, "Sub", OP(no, "Add", q, b), n));
  anf_node *f =
      anf_switch(g, OP(g, "Less", n, anf_int(w->m, 0)), anf_graph_node(yes), anf_graph_node(no));
  anf_return(g, CALL(g, f, anf_int(w->m, 100)));
  assert_int_equal(run1(w, g, -7), 86);
  assert_int_equal(run1(w, g, 7), 114);
}

/* even(n) = n == 0 or odd(n - 1), odd(n) = n != 0 and even(n - 1), as 1 and 0; all calls are last
 * steps */
static anf_graph *even(anf_module *m) {
  anf_graph *f[2] = {anf_graph_new(m, "even"), anf_graph_new(m, "odd")};
  for (int i = 0; i < 2; i++) {
    anf_node *n = anf_param(f[i], "n", NULL);
    anf_graph *end = anf_graph_new(m, "✓"), *go = anf_graph_new(m, "✗");
    anf_return(end, anf_int(m, 1 - i));
    anf_return(go, CALL(go, anf_graph_node(f[1 - i]), OP(go, "Sub", n, anf_int(m, 1))));
    anf_node *is0 = OP(f[i], "Equal", n, anf_int(m, 0));
    anf_return(f[i], CALL0(f[i], anf_switch(f[i], is0, anf_graph_node(end), anf_graph_node(go))));
  }
  return f[0];
}

static void test_mutual_recursion(void **state) {
  world *w = *state;
  anf_graph *f = even(w->m);
  assert_int_equal(run1(w, f, 10), 1);
  assert_int_equal(run1(w, f, 11), 0);
  anf_value *v = NULL;
  anf_run_opts o = {.size = sizeof o, .max_depth = 3}; // last steps take the place of their caller
  assert_int_equal(run_opts(w, &o, f, 1, (anf_value *[]){anf_value_i64(w->cx, 100001)}, &v),
                   ANF_OK);
  assert_int_equal(take_i64(v), 0);
}

static void test_ackermann(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *ack = anf_graph_new(m, "ackermann"), *m0 = anf_graph_new(m, "✓"),
            *m1 = anf_graph_new(m, "✗"), *n0 = anf_graph_new(m, "✓✗"), *n1 = anf_graph_new(m, "✗✗");
  anf_node *a = anf_param(ack, "m", NULL), *b = anf_param(ack, "n", NULL), *f = anf_graph_node(ack);
  anf_return(m0, OP(m0, "Add", b, anf_int(m, 1)));
  anf_return(n0, CALL(n0, f, OP(n0, "Sub", a, anf_int(m, 1)), anf_int(m, 1)));
  anf_node *inner = CALL(n1, f, a, OP(n1, "Sub", b, anf_int(m, 1)));
  anf_return(n1, CALL(n1, f, OP(n1, "Sub", a, anf_int(m, 1)), inner));
  anf_return(m1, CALL0(m1, anf_switch(m1, OP(m1, "Equal", b, anf_int(m, 0)), anf_graph_node(n0),
                                      anf_graph_node(n1))));
  anf_return(ack, CALL0(ack, anf_switch(ack, OP(ack, "Equal", a, anf_int(m, 0)), anf_graph_node(m0),
                                        anf_graph_node(m1))));
  assert_int_equal(
      take_i64(run(w, ack, 2, (anf_value *[]){anf_value_i64(w->cx, 2), anf_value_i64(w->cx, 3)})),
      9);
}

/* fact = fn (self, n) if n < 1 then 1 else n * self(self, n - 1); fact(fact, n) */
static void test_self_application(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *f = anf_graph_new(m, "fact"), *end = anf_graph_new(m, "✓fact"),
            *go = anf_graph_new(m, "✗fact"), *top = anf_graph_new(m, "top");
  anf_node *self = anf_param(f, "self", NULL), *n = anf_param(f, "n", NULL),
           *x = anf_param(top, "x", NULL);
  anf_return(end, anf_int(m, 1));
  anf_return(go, OP(go, "Mul", n, CALL(go, self, self, OP(go, "Sub", n, anf_int(m, 1)))));
  anf_return(f, CALL0(f, anf_switch(f, OP(f, "Less", n, anf_int(m, 1)), anf_graph_node(end),
                                    anf_graph_node(go))));
  anf_return(top, CALL(top, anf_graph_node(f), anf_graph_node(f), x));
  assert_int_equal(run1(w, top, 10), 3628800);
}

/* A nested function that calls itself and captures: its own function value serves. */
static void test_recursion_with_captures(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g"), *times = anf_graph_new(m, "times"),
            *end = anf_graph_new(m, "✓times"), *go = anf_graph_new(m, "✗times");
  anf_node *x = anf_param(g, "x", NULL), *n = anf_param(times, "n", NULL);
  anf_return(end, anf_int(m, 0));
  anf_return(go,
             OP(go, "Add", x, CALL(go, anf_graph_node(times), OP(go, "Sub", n, anf_int(m, 1)))));
  anf_return(times, CALL0(times, anf_switch(times, OP(times, "Less", n, anf_int(m, 1)),
                                            anf_graph_node(end), anf_graph_node(go))));
  anf_return(g, CALL(g, anf_graph_node(times), anf_int(m, 6)));
  assert_int_equal(run1(w, g, 7), 42);
}

/* The same, entered through Partial: the function value that runs has arguments bound, the one it
 * makes must not have them. */
static void test_recursion_with_captures_and_bound(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g"), *times = anf_graph_new(m, "times"),
            *end = anf_graph_new(m, "✓times"), *go = anf_graph_new(m, "✗times");
  anf_node *x = anf_param(g, "x", NULL), *n = anf_param(times, "n", NULL),
           *k = anf_param(times, "k", NULL);
  anf_return(end, k);
  anf_return(go,
             OP(go, "Add", x, CALL(go, anf_graph_node(times), OP(go, "Sub", n, anf_int(m, 1)), k)));
  anf_return(times, CALL0(times, anf_switch(times, OP(times, "Less", n, anf_int(m, 1)),
                                            anf_graph_node(end), anf_graph_node(go))));
  anf_node *bound = anf_partial(g, anf_graph_node(times), 1, NODES(anf_int(m, 6)));
  anf_return(g, CALL(g, bound, anf_int(m, 100)));
  assert_int_equal(run1(w, g, 7), 142);
}

static void test_functions_in_tuples(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g"), *inc = anf_graph_new(m, "inc"),
            *scale = anf_graph_new(m, "scale");
  anf_node *x = anf_param(g, "x", NULL), *a = anf_param(inc, "a", NULL),
           *b = anf_param(scale, "b", NULL);
  anf_return(inc, OP(inc, "Add", a, anf_int(m, 1)));
  anf_return(scale, OP(scale, "Mul", b, x));
  anf_node *fs =
      anf_tuple(g, 3, NODES(anf_graph_node(inc), anf_graph_node(scale), anf_op_node(m, "Sub")));
  anf_node *p = CALL(g, anf_tuple_get(g, fs, 0), x), *q = CALL(g, anf_tuple_get(g, fs, 1), p);
  anf_return(g, CALL(g, anf_tuple_get(g, fs, 2), q, p));
  assert_int_equal(run1(w, g, 5), 24); // p = 6, q = 30
}

static void test_partial(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g"), *f = anf_graph_new(m, "f");
  anf_node *x = anf_param(g, "x", NULL), *a = anf_param(f, "a", NULL), *b = anf_param(f, "b", NULL),
           *c = anf_param(f, "c", NULL);
  anf_return(f, OP(f, "Sub", OP(f, "Mul", a, b), c));
  anf_node *p = anf_partial(g, anf_graph_node(f), 1, NODES(x)),
           *q = anf_partial(g, p, 1, NODES(anf_int(m, 10)));
  anf_node *minus = anf_partial(g, anf_op_node(m, "Sub"), 1, NODES(CALL(g, q, anf_int(m, 1))));
  anf_return(g, CALL(g, minus, anf_int(m, 4)));
  assert_int_equal(run1(w, g, 3), 25); // 3 * 10 - 1 - 4
}

/* loop(i, acc) counts down in constant space: `depth` says how deep it may get. */
static anf_graph *loop(anf_module *m) {
  anf_graph *f = anf_graph_new(m, "↻loop"), *end = anf_graph_new(m, "✓loop"),
            *go = anf_graph_new(m, "✗loop");
  anf_node *i = anf_param(f, "i", NULL), *acc = anf_param(f, "acc", NULL);
  anf_return(end, acc);
  anf_return(go,
             CALL(go, anf_graph_node(f), OP(go, "Sub", i, anf_int(m, 1)), OP(go, "Add", acc, i)));
  anf_return(f, CALL0(f, anf_switch(f, OP(f, "Less", i, anf_int(m, 1)), anf_graph_node(end),
                                    anf_graph_node(go))));
  return f;
}

/* How many bytes the context holds when the progress callback sees it. */
typedef struct meter {
  anf_ctx *cx;
  size_t least, most;
  uint64_t polls;
} meter;

static bool measure(void *user, const char *what, double done) {
  meter *t = user;
  (void)what, (void)done;
  if (++t->polls < 4) return true; // plans are made in the first steps
  size_t b = anf_ctx_bytes(t->cx);
  if (!t->least || b < t->least) t->least = b;
  if (b > t->most) t->most = b;
  return true;
}

static void test_loop_in_constant_space(void **state) {
  (void)state;
  meter t = {0};
  anf_ctx_opts co = {.size = sizeof co, .progress = measure, .progress_user = &t};
  t.cx = anf_ctx_new(&co);
  anf_module *m = anf_module_new(t.cx);
  anf_graph *f = loop(m);
  anf_run_opts o = {.size = sizeof o, .max_depth = 2};
  anf_value *args[] = {anf_value_i64(t.cx, LONG_LOOP), anf_value_i64(t.cx, 0)}, *v = NULL;
  assert_int_equal(anf_run(f, 2, args, &o, NULL, &v), ANF_OK);
  assert_int_equal(take_i64(v), (int64_t)LONG_LOOP * (LONG_LOOP + 1) / 2);
  assert_true(t.polls > 100);
  assert_true(t.most - t.least < 4096);
  anf_value_release(args[0]);
  anf_value_release(args[1]);
  anf_module_free(m);
  anf_ctx_free(t.cx);
}

/* sum_to(n) = if n < 1 then 0 else n + sum_to(n - 1), which is no last step */
static anf_graph *sum_to(anf_module *m) {
  anf_graph *f = anf_graph_new(m, "sum_to"), *end = anf_graph_new(m, "✓sum_to"),
            *go = anf_graph_new(m, "✗sum_to");
  anf_node *n = anf_param(f, "n", scalar(anf_module_ctx(m), ANF_I64));
  anf_node_set_loc(n, "sum.anf", 1, 12);
  anf_return(end, anf_int(m, 0));
  anf_node *rest = CALL(go, anf_graph_node(f), OP(go, "Sub", n, anf_int(m, 1)));
  anf_node_set_loc(rest, "sum.anf", 2, 30);
  anf_return(go, OP(go, "Add", n, rest));
  anf_node *call = CALL0(
      f, anf_switch(f, OP(f, "Less", n, anf_int(m, 1)), anf_graph_node(end), anf_graph_node(go)));
  anf_return(f, call);
  return f;
}

static void test_deep_recursion(void **state) {
  world *w = *state;
  anf_graph *f = sum_to(w->m);
  assert_int_equal(run1(w, f, LONG_LOOP), (int64_t)LONG_LOOP * (LONG_LOOP + 1) / 2);
  anf_value *v = NULL;
  anf_run_opts o = {.size = sizeof o, .max_depth = 1000};
  assert_int_equal(run_opts(w, &o, f, 1, (anf_value *[]){anf_value_i64(w->cx, LONG_LOOP)}, &v),
                   ANF_LIMIT);
  assert_null(v);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0416");
  says(w, 0, "1000");
  assert_int_equal(anf_diag_count(w->d), 12); // the error, ten callers, and how many more
  assert_int_equal(anf_diag_at(w->d, 1)->line, 2);
  says(w, 1, "called from ✗sum_to");
  says(w, 11, "989 more");
}

/* chain(n, acc): each turn makes a closure that holds the closure of the turn before. */
static anf_graph *closure_chain(anf_module *m, bool in_tuples) {
  anf_graph *f = anf_graph_new(m, "chain"), *end = anf_graph_new(m, "✓chain"),
            *go = anf_graph_new(m, "✗chain"), *link = anf_graph_new(m, "link");
  anf_node *n = anf_param(f, "n", NULL), *acc = anf_param(f, "acc", NULL),
           *x = anf_param(link, "x", NULL);
  anf_return(link, anf_tuple(link, 3, NODES(x, n, acc)));
  anf_return(end, acc);
  anf_node *made = anf_graph_node(link);
  if (in_tuples) made = anf_tuple(go, 2, NODES(made, acc));
  anf_return(go, CALL(go, anf_graph_node(f), OP(go, "Sub", n, anf_int(m, 1)), made));
  anf_return(f, CALL0(f, anf_switch(f, OP(f, "Less", n, anf_int(m, 1)), anf_graph_node(end),
                                    anf_graph_node(go))));
  return f;
}

static void test_closures_in_a_loop(void **state) {
  world *w = *state;
  for (int tuples = 0; tuples < 2; tuples++) {
    anf_graph *f = closure_chain(w->m, tuples);
    int64_t n = tuples ? 100000 : LONG_LOOP;
    anf_value *v = run(w, f, 2, (anf_value *[]){anf_value_i64(w->cx, n), anf_value_none(w->cx)});
    assert_int_equal(anf_value_get_kind(v), tuples ? ANF_VALUE_TUPLE : ANF_VALUE_FN);
    anf_value *last = tuples ? anf_value_at(v, 0) : v, *arg = anf_value_i64(w->cx, 5), *got = NULL;
    assert_int_equal(anf_run_value(w->cx, last, 1, &arg, NULL, w->d, &got), ANF_OK);
    assert_int_equal(anf_value_get_i64(anf_value_at(got, 0), 0), 5);
    assert_int_equal(anf_value_get_i64(anf_value_at(got, 1), 0), 1); // made in the last turn
    anf_value_release(arg);
    anf_value_release(got);
    anf_value_release(v); // a chain of n closures: its release must not recurse
  }
}

/* ---- functions of functions ---- */

static anf_graph *mapping(anf_module *m, const char *op, size_t nargs) {
  anf_graph *g = anf_graph_new(m, op), *f = anf_graph_new(m, "f");
  anf_node *k = anf_param(g, "k", NULL), *in[4], *fp[4], *sum = k;
  in[0] = anf_graph_node(f);
  for (size_t i = 0; i < nargs; i++) {
    in[i + 1] = anf_param(g, "x", NULL);
    fp[i] = anf_param(f, "a", NULL);
    sum = OP(f, "Add", OP(f, "Mul", sum, anf_int(m, 10)), fp[i]);
  }
  anf_return(f, sum);
  anf_return(g, anf_op(g, op, nargs + 1, in));
  return g;
}

static void test_hyper_map(void **state) {
  world *w = *state;
  anf_graph *one = mapping(w->m, "HyperMap", 1), *two = mapping(w->m, "HyperMap", 2);
  gives(w->cx, run(w, one, 2, (anf_value *[]){num(w, 4), num(w, 2)}), "42", "int");
  anf_value *nest = pair(w->cx, num(w, 1), pair(w->cx, num(w, 2), anf_value_tuple(w->cx, 0, NULL)));
  gives(w->cx, run(w, one, 2, (anf_value *[]){num(w, 4), anf_value_retain(nest)}), "(41, (42, ()))",
        "(int, (int, ()))");
  gives(w->cx,
        run(w, two, 3, (anf_value *[]){num(w, 4), anf_value_retain(nest), anf_value_retain(nest)}),
        "(411, (422, ()))", "(int, (int, ()))");
  gives(w->cx, run(w, two, 3, (anf_value *[]){num(w, 4), anf_value_retain(nest), num(w, 9)}),
        "(419, (429, ()))", "(int, (int, ()))");
  run_fails(w, two, 3,
            (anf_value *[]){
                num(w, 4), anf_value_retain(nest),
                pair(w->cx, num(w, 1), pair(w->cx, num(w, 1), pair(w->cx, num(w, 1), num(w, 1))))},
            ANF_INVALID, "E0527");
  anf_value_release(nest);
  anf_value *fields[] = {num(w, 1), pair(w->cx, num(w, 2), num(w, 3))};
  anf_value *rec = anf_value_record(w->cx, 2, (const char *[]){"a", "b"}, fields);
  gives(w->cx, run(w, one, 2, (anf_value *[]){anf_value_f64(w->cx, 4.0), rec}),
        "{a = 41.0, b = (42.0, 43.0)}", "{a: f64, b: (f64, f64)}");
  anf_value_release(fields[0]);
  anf_value_release(fields[1]);
}

static void test_map(void **state) {
  world *w = *state;
  anf_graph *two = mapping(w->m, "Map", 2);
  gives(w->cx,
        run(w, two, 3,
            (anf_value *[]){num(w, 4), pair(w->cx, num(w, 1), num(w, 2)),
                            pair(w->cx, num(w, 3), num(w, 5))}),
        "(413, 425)", "(int, int)");
  run_fails(w, two, 3, (anf_value *[]){num(w, 4), pair(w->cx, num(w, 1), num(w, 2)), num(w, 3)},
            ANF_INVALID, "E0527");
  run_fails(w, two, 3, (anf_value *[]){num(w, 4), num(w, 1), num(w, 3)}, ANF_INVALID, "E0539");
  anf_graph *none = anf_graph_new(w->m, "none");
  anf_return(none, anf_op(none, "Map", 1, NODES(anf_op_node(w->m, "Neg"))));
  run_fails(w, none, 0, NULL, ANF_INVALID, "E0202");
}

static void test_deep_hyper_map(void **state) {
  world *w = *state;
  anf_value *v = num(w, 1);
  for (int i = 0; i < 100000; i++) v = pair(w->cx, v, num(w, i));
  anf_graph *one = mapping(w->m, "HyperMap", 1);
  anf_value *got = run(w, one, 2, (anf_value *[]){num(w, 0), v});
  assert_int_equal(anf_value_get_i64(anf_value_at(got, 1), 0), 99999);
  anf_value_release(got);
}

/* by type: f32 vectors of any length +1, integers * 2, pairs: their first item */
static anf_graph *by_type(anf_module *m) {
  anf_ctx *cx = anf_module_ctx(m);
  anf_graph *g = anf_graph_new(m, "by_type"), *f[3];
  const anf_type *any = anf_type_simple(cx, ANF_TYPE_ANY);
  const anf_type *types[] = {anf_type_tensor(cx, ANF_F32, 1, (int64_t[]){anf_dim_symbol(cx, "N")}),
                             scalar(cx, ANF_I64),
                             anf_type_tuple(cx, 2, (const anf_type *[]){any, any})};
  for (int i = 0; i < 3; i++) {
    f[i] = anf_graph_new(m, i == 0 ? "vector" : i == 1 ? "integer" : "couple");
    anf_node *x = anf_param(f[i], "x", types[i]);
    anf_return(f[i], i == 0   ? OP(f[i], "Add", x, anf_int(m, 1))
                     : i == 1 ? OP(f[i], "Mul", x, anf_int(m, 2))
                              : anf_tuple_get(f[i], x, 0));
  }
  anf_node *x = anf_param(g, "x", NULL);
  anf_node *fs =
      anf_tuple(g, 3, NODES(anf_graph_node(f[0]), anf_graph_node(f[1]), anf_graph_node(f[2])));
  anf_node *multi = anf_partial(g, anf_op_node(m, "MultiType"), 1, NODES(fs));
  anf_return(g, CALL(g, multi, x));
  return g;
}

static void test_multitype(void **state) {
  world *w = *state;
  anf_graph *g = by_type(w->m);
  float data[] = {1, 2};
  gives(w->cx,
        run(w, g, 1, (anf_value *[]){anf_value_tensor(w->cx, ANF_F32, 1, (int64_t[]){2}, data)}),
        "[2.0, 3.0]", "f32[2]");
  assert_int_equal(run1(w, g, 21), 42);
  gives(w->cx, run(w, g, 1, (anf_value *[]){num(w, 4)}), "8",
        "i64"); // a weak integer takes the parameter's type
  gives(w->cx, run(w, g, 1, (anf_value *[]){pair(w->cx, num(w, 7), num(w, 8))}), "7", "int");
  run_fails(w, g, 1, (anf_value *[]){anf_value_f64(w->cx, 1.0)}, ANF_INVALID, "E0528");
  says(w, 0, "no function of the multitype takes (f64)");
  says(w, 1, "vector(f32[N])");
  says(w, 3, "couple((any, any))");
  anf_graph *bad = anf_graph_new(w->m, "bad");
  anf_return(bad,
             OP(bad, "MultiType", anf_tuple(bad, 1, NODES(anf_int(w->m, 1))), anf_int(w->m, 2)));
  run_fails(w, bad, 0, NULL, ANF_INVALID, "E0501");
}

/* ---- effects ---- */

static void print_to(void *user, const char *text, size_t len) {
  world *w = user;
  size_t at = strlen(w->printed);
  if (at + len < sizeof w->printed) memcpy(w->printed + at, text, len);
}

static void test_print_in_order(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g");
  anf_node *x = anf_param(g, "x", NULL), *s = NULL;
  anf_value *text = anf_value_string(w->cx, "x is", 4);
  s = anf_constant(m, text);
  anf_value_release(text);
  anf_effect(g, OP(g, "Print", s, x));
  anf_node *y = OP(g, "Add", x, anf_int(m, 1));
  anf_effect(g, OP(g, "Print", anf_tuple(g, 2, NODES(x, y))));
  anf_effect(
      g, CALL(g, anf_switch(g, OP(g, "Less", x, y), anf_op_node(m, "Print"), anf_op_node(m, "Neg")),
              y));
  anf_return(g, y);
  anf_run_opts o = {.size = sizeof o, .print = print_to, .print_user = w};
  anf_value *v = NULL;
  assert_int_equal(run_opts(w, &o, g, 1, (anf_value *[]){num(w, 1)}, &v), ANF_OK);
  assert_int_equal(take_i64(v), 2);
  assert_string_equal(w->printed, "x is 1\n(1, 2)\n2\n");
  assert_int_equal(run1(w, g, 1), 2); // nowhere to print to
}

static void test_assert(void **state) {
  world *w = *state;
  anf_module *m = w->m;
  anf_graph *g = anf_graph_new(m, "g");
  anf_node *x = anf_param(g, "x", NULL);
  anf_value *text = anf_value_string(w->cx, "x must be positive", 18);
  anf_node *check = OP(g, "Assert", OP(g, "Less", anf_int(m, 0), x), anf_constant(m, text));
  anf_value_release(text);
  anf_node_set_loc(check, "a.anf", 4, 2);
  anf_effect(g, check);
  anf_return(g, x);
  assert_int_equal(run1(w, g, 1), 1);
  run_fails(w, g, 1, (anf_value *[]){num(w, -1)}, ANF_INVALID, "E0442");
  says(w, 0, "x must be positive");
  assert_int_equal(anf_diag_at(w->d, 0)->line, 4);
}

static void test_step_limit(void **state) {
  world *w = *state;
  anf_graph *f = loop(w->m);
  anf_run_opts o = {.size = sizeof o, .max_steps = 5000};
  anf_value *v = NULL;
  assert_int_equal(run_opts(w, &o, f, 2, (anf_value *[]){num(w, 2000), num(w, 0)}, &v), ANF_LIMIT);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0415");
  o.max_steps = 100000;
  assert_int_equal(run_opts(w, &o, f, 2, (anf_value *[]){num(w, 2000), num(w, 0)}, &v), ANF_OK);
  assert_int_equal(take_i64(v), 2001000);
}

static bool stop_at_third(void *user, const char *what, double done) {
  (void)what, (void)done;
  return ++((meter *)user)->polls < 3;
}

static bool cancel_at_third(void *user, const char *what, double done) {
  (void)what, (void)done;
  if (++((meter *)user)->polls == 3) anf_ctx_cancel(((meter *)user)->cx);
  return true;
}

static void test_cancel(void **state) {
  (void)state;
  for (int way = 0; way < 2; way++) {
    meter t = {0};
    anf_ctx_opts co = {
        .size = sizeof co, .progress = way ? cancel_at_third : stop_at_third, .progress_user = &t};
    t.cx = anf_ctx_new(&co);
    anf_module *m = anf_module_new(t.cx);
    anf_diag *d = anf_diag_new(t.cx);
    anf_value *args[] = {anf_value_i64(t.cx, LONG_LOOP), anf_value_i64(t.cx, 0)}, *v = NULL;
    assert_int_equal(anf_run(loop(m), 2, args, NULL, d, &v), ANF_CANCELLED);
    assert_string_equal(anf_diag_at(d, 0)->code, "E0004");
    assert_null(v);
    anf_value_release(args[0]);
    anf_value_release(args[1]);
    anf_diag_free(d);
    anf_module_free(m);
    anf_ctx_free(t.cx);
  }
}

/* ---- size ---- */

/* A chain of 10^6 nodes holds two values at a time, not 10^6. */
static void test_long_chain(void **state) {
  (void)state;
  meter t = {0};
  anf_ctx_opts co = {.size = sizeof co, .progress = measure, .progress_user = &t};
  t.cx = anf_ctx_new(&co);
  anf_module *m = anf_module_new(t.cx);
  anf_graph *g = anf_graph_new(m, "chain");
  anf_node *x = anf_param(g, "x", NULL), *one = anf_int(m, 1);
  for (int i = 0; i < LONG_LOOP; i++) x = OP(g, "Add", x, one);
  anf_return(g, x);
  anf_value *arg = anf_value_tensor(t.cx, ANF_I64, 1, (int64_t[]){16}, NULL), *v = NULL;
  assert_int_equal(anf_run(g, 1, &arg, NULL, NULL, &v), ANF_OK);
  assert_int_equal(anf_value_get_i64(v, 15), LONG_LOOP);
  assert_true(t.most - t.least < 4096);
  anf_value_release(v);
  anf_value_release(arg);
  anf_module_free(m);
  anf_ctx_free(t.cx);
}

/* ---- memory that runs out ---- */

static anf_status run_once(anf_graph *g, size_t n, anf_value **args) {
  anf_value *v = NULL;
  anf_status st = anf_module_status(anf_graph_module(g));
  for (size_t i = 0; i < n; i++)
    if (!args[i]) st = ANF_NOMEM;
  if (st == ANF_OK) st = anf_run(g, n, args, NULL, NULL, &v);
  for (size_t i = 0; i < n; i++) anf_value_release(args[i]);
  anf_value_release(v);
  return st;
}

/* The types of the programs, which make them again: NULL for the type of a parameter is no error. */
static bool types_are_there(anf_ctx *cx) {
  int64_t n = anf_dim_symbol(cx, "N");
  const anf_type *any = anf_type_simple(cx, ANF_TYPE_ANY);
  return n && any && anf_type_tensor(cx, ANF_F32, 1, &n) && scalar(cx, ANF_I64) &&
         anf_type_tuple(cx, 2, (const anf_type *[]){any, any});
}

static anf_status fault_work_programs(anf_ctx *cx, void *user) {
  int which = *(int *)user;
  anf_module *m = types_are_there(cx) ? anf_module_new(cx) : NULL;
  if (!m) return ANF_NOMEM;
  anf_status st = ANF_NOMEM;
  anf_graph *g = which == 0   ? fibonacci(m, true)
                 : which == 1 ? closure_chain(m, true)
                 : which == 2 ? mapping(m, "HyperMap", 1)
                 : which == 3 ? by_type(m)
                              : sum_to(m);
  anf_value *a = anf_value_int(cx, 3), *b = anf_value_int(cx, 4),
            *p = a && b ? anf_value_tuple(cx, 2, (anf_value *[]){a, b}) : NULL;
  anf_value *q =
      p ? anf_value_record(cx, 2, (const char *[]){"u", "v"}, (anf_value *[]){p, b}) : NULL;
  if (q && anf_module_status(m) == ANF_OK) {
    if (which == 0 || which == 4) st = run_once(g, 1, (anf_value *[]){anf_value_retain(b)});
    if (which == 1) st = run_once(g, 2, (anf_value *[]){anf_value_retain(b), anf_value_retain(a)});
    if (which == 2) st = run_once(g, 2, (anf_value *[]){anf_value_retain(b), anf_value_retain(q)});
    if (which == 3) st = run_once(g, 1, (anf_value *[]){anf_value_retain(p)});
  }
  anf_value_release(q);
  anf_value_release(p);
  anf_value_release(b);
  anf_value_release(a);
  anf_module_free(m);
  return st;
}

static void print_nowhere(void *user, const char *text, size_t len) {
  (void)user, (void)text, (void)len;
}

/* Every kind of step, conversion and frame, in one small program. */
static anf_status fault_work_text(anf_ctx *cx, void *user) {
  anf_module *m = NULL;
  anf_value *v = NULL, *arg = NULL;
  anf_run_opts o = {.size = sizeof o, .print = print_nowhere};
  anf_status st = anf_parse(cx, user, "all.anf", NULL, &m);
  if (st == ANF_OK) st = anf_parse_value(cx, "((3, [1, 2]), 1.5)", NULL, &arg);
  if (st == ANF_OK) st = anf_run(anf_module_find(m, "main"), 1, &arg, &o, NULL, &v);
  anf_value_release(v);
  anf_value_release(arg);
  anf_module_free(m);
  return st;
}

static void test_out_of_memory_in_text(void **state) {
  (void)state;
  static char text[] =
      "def whole(x: i64) { x + 1 }\n"
      "def pairs(x: (f32, f32)) -> (f64, f32) { (1, x[1]) }\n"
      "def main(x: ((i8, f32[N]), f64)) -> f64 {\n"
      "  kind = partial(multitype, (whole, pairs))\n"
      "  w = hyper_map(fn (a, b) { a * b }, {u = (1.0, 2.0), v = {k = 3.0}}, 2.0)\n"
      "  print(\"w\", w, kind(4))\n"
      "  assert(w.v.k == 6.0, \"three times two\")\n"
      "  (p, q) = kind((1, 2))\n"
      "  s = 0.0\n"
      "  for i in 0..3 { f = fn (y) { y + s + i }; s = if i == 1 { f(p) } else { (f, 2)[0](q) } }\n"
      "  s + Sum(cast(x[0][1], dtype=f64)) + x[1]\n"
      "}\n";
  assert_true(fault_loop(fault_work_text, text) > 0);
}

/* Bytes for a walk through a list of n pairs, one in another: (n, (n - 1, ... ())). */
static uint64_t walk(world *w, int64_t n) {
  static const char text[] =
      "def list(n) { if n == 0 { () } else { (n, list(n - 1)) } }\n"
      "def main(n) { t = list(n); s = 0; while len(t) > 0 { s = s + t[0]; t = t[1] }; s }\n";
  anf_module *m = NULL;
  assert_int_equal(anf_parse(w->cx, text, "walk.anf", w->d, &m), ANF_OK);
  uint64_t before = w->heap.given;
  assert_int_equal(run1(w, anf_module_find(m, "main"), n), n * (n + 1) / 2);
  uint64_t made = w->heap.given - before;
  anf_module_free(m);
  return made;
}

static void test_walk_through_pairs(void **state) {
  world *w = *state;
  walk(w, 100);
  uint64_t one = walk(w, 1000), four = walk(w, 4000);
  assert_true(four <= 5 * one + 65536); // the type of each rest is found once
}

static void test_out_of_memory(void **state) {
  (void)state;
  for (int which = 0; which < 5; which++) assert_true(fault_loop(fault_work_programs, &which) > 0);
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(test_fibonacci),
      TEST(test_hof),
      TEST(test_closure),
      TEST(test_seed_001),
      TEST(test_returned_function),
      TEST(test_choice_among_closures),
      TEST(test_mutual_recursion),
      TEST(test_ackermann),
      TEST(test_self_application),
      TEST(test_recursion_with_captures),
      TEST(test_recursion_with_captures_and_bound),
      TEST(test_functions_in_tuples),
      TEST(test_partial),
      cmocka_unit_test(test_loop_in_constant_space),
      TEST(test_deep_recursion),
      TEST(test_closures_in_a_loop),
      TEST(test_hyper_map),
      TEST(test_map),
      TEST(test_deep_hyper_map),
      TEST(test_multitype),
      TEST(test_print_in_order),
      TEST(test_assert),
      TEST(test_step_limit),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_long_chain),
      TEST(test_walk_through_pairs),
      cmocka_unit_test(test_out_of_memory_in_text),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
