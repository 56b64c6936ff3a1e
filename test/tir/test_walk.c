// SPDX-License-Identifier: Apache-2.0
/* Tensor IR from C: what is read back of nodes, nodes compared and made anew, visitors, passes of the host, globals, products,
 * dims that run-time values are, numbers of every C type, and places in the C source. By the public interface alone. */
#define _XOPEN_SOURCE 700
#include "test/unit/program.h"
#include "test/unit/folder.h"

#include "anfora/jit.h"
#include "test/tir/copy.h"

#include <stdio.h>
#include <stdlib.h>

static anf_tir_module *parsed(world *w, const char *text) {
  anf_tir_module *m = NULL;
  assert_int_equal(anf_tir_parse(w->cx, text, strlen(text), "walk.tir", w->d, &m), ANF_OK);
  return m;
}

static anf_tir_module *built(world *w, anf_tb *b) {
  anf_tir_module *m = NULL;
  if (anf_tb_finish(b, w->d, &m) != ANF_OK) anf_diag_print(w->d, stdout, false);
  assert_non_null(m);
  anf_tb_free(b);
  return m;
}

static void prints(world *w, const anf_tir_module *m, const char *want) {
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_tir_print(m, &t), ANF_OK);
  assert_string_equal(t.text, want);
  anf_text_free(&t);
}

static void finds(world *w, const char *code) {
  const anf_diag_item *it = anf_diag_at(w->d, 0);
  assert_non_null(it);
  assert_string_equal(it->code, code);
  anf_diag_clear(w->d);
}

/* ---- reading ---- */

static const char everything[] =
    "public tensor W: [f32 * 4] = {1.f, 2.f, 3.f, 4.f}\n"
    "private tensor hidden: [s8 * 2 * 2] = {7s8}\n\n"
    "func twice(x: s32): s32 @[inline_level=2, pure] {\n  return (x * 2)\n}\n\n"
    "func one(i: index, A: [f32 * 8]): void {\n  A[i] = f32(i)\n}\n\n"
    "func elsewhere(x: f32): f32\n\n"
    "func f(n: index, A: [f32 * n * 8], flag: bool): f32 {\n"
    "  var p: void* = &twice\n"
    "  var s: f32 = 0.f\n"
    "  tensor row: [f32 * 4 * 2 : 2 * 1] = &A[1UL, 0UL]\n"
    "  tensor T: [f32 * 8]\n"
    "  for i in (0UL, n, 1UL) @[unroll_loop=2] {\n"
    "    if ((flag && (i < 3UL)) || !flag) {\n"
    "      s = (s + A[i, 0UL])\n"
    "    } else {\n"
    "      s = select(flag, min(s, row[0UL, 1UL]), exp(s))\n"
    "    }\n"
    "  }\n"
    "  for k in (0UL, 8UL, 1UL) parallel (2) {\n"
    "    T[k] = (f32(twice(s32(k))) + f32(call(p: s32, 3)))\n"
    "  }\n"
    "  evaluate{one(T)@parallel([0UL, 8UL, 1UL], )}\n"
    "  T[0UL @ 4] = ((W[0UL @ 4] * (2.f x 4)) + (1.f, 2.f, 3.f, 4.f))\n"
    "  T[0UL @ 4 M= (T[0UL @ 4] > (0.f x 4))] = (0.5f x 4)\n"
    "  while (s > 100.f) {\n    s = (s / 2.f)\n  }\n"
    "  evaluate{prefetch(&T[0UL]) @[locality=2]}\n"
    "  return (s + reduce_add(T[0UL @ 8]))\n"
    "}\n";

static void a_module_is_read_whole(void **state) {
  world *w = *state;
  anf_tir_module *m = parsed(w, everything), *copy = tir_copy(w->cx, m);
  anf_text why = {.cx = w->cx}, a = {.cx = w->cx};
  anf_tir_compare_opts o = {.size = sizeof o, .names = true};
  assert_non_null(copy);
  if (!anf_tir_equal(m, copy, &o, &why)) fail_msg("%s", why.text);
  assert_int_equal(anf_tir_print(m, &a), ANF_OK);
  prints(w, copy, a.text);
  assert_int_equal(anf_tir_verify(copy, w->d), ANF_OK);
  anf_text_free(&a), anf_text_free(&why);
  anf_tir_module_free(copy), anf_tir_module_free(m);
}

static void constants_and_names(void **state) {
  world *w = *state;
  anf_tir_module *m = parsed(w, everything);
  int64_t i = 0;
  double x = 0;
  uint64_t bits = 0;
  anf_tir_stmt W = anf_tir_global_at(m, 0), hidden = anf_tir_global_at(m, 1);
  assert_int_equal(anf_tir_global_count(m), 2);
  assert_null(anf_tir_global_at(m, 2));
  assert_false(anf_tir_is_private(W));
  assert_true(anf_tir_is_private(hidden));
  anf_tir_expr list = anf_tir_stmt_expr(W, 1), seven = anf_tir_stmt_expr(hidden, 1);
  assert_int_equal(anf_tir_const_count(list), 4);
  assert_true(anf_tir_const_f64(list, 2, &x) && x == 3);
  assert_false(anf_tir_const_f64(list, 4, &x) || anf_tir_const_i64(list, 0, &i));
  assert_true(anf_tir_const_bits(list, 0, &bits) && bits == 0x3f800000);
  assert_true(anf_tir_const_i64(seven, 0, &i) && i == 7);
  assert_string_equal(anf_tir_expr_name(anf_tir_stmt_expr(W, 0)), "W");
  assert_int_equal(anf_tir_expr_rank(anf_tir_stmt_expr(hidden, 0)), 2);
  assert_int_equal(anf_tir_const_count(anf_tir_stmt_expr(W, 0)), 0);
  anf_tir_func twice = anf_tir_find(m, "twice"), f = anf_tir_find(m, "f");
  assert_true(anf_tir_func_attr(twice, "inline_level", &i) && i == 2);
  assert_false(anf_tir_func_attr(twice, "resolved", NULL) ||
               anf_tir_func_attr(twice, "none", NULL));
  assert_int_equal(anf_tir_func_type(f).elem, ANF_TIR_f32);
  assert_int_equal(anf_tir_func_param_count(f), 3);
  assert_string_equal(anf_tir_expr_name(anf_tir_func_param(f, 2)), "flag");
  assert_null(anf_tir_func_param(f, 3));
  assert_null(anf_tir_func_body(anf_tir_find(m, "elsewhere")));
  anf_tir_module_free(m);
}

static void nothing_is_said_of_null(void **state) {
  (void)state;
  uint32_t col = 7;
  assert_null(anf_tir_expr_name(NULL));
  assert_int_equal(anf_tir_stmt_expr_count(NULL) + anf_tir_stmt_count(NULL) +
                       anf_tir_expr_rank(NULL) + anf_tir_const_count(NULL) +
                       anf_tir_func_param_count(NULL) + anf_tir_global_count(NULL),
                   0);
  assert_int_equal(anf_tir_expr_line(NULL, &col), 0);
  assert_int_equal(col, 0);
  assert_false(anf_tir_is_parallel(NULL, NULL) || anf_tir_is_private(NULL));
}

/* ---- nodes compared and made anew ---- */

static void nodes_are_compared(void **state) {
  world *w = *state;
  anf_tir_module *a = parsed(w, "func f(x: s32, y: s32): s32 {\n  return (x + y)\n}\n"
                                "func g(p: s32, q: s32): s32 {\n  return (q + p)\n}\n"
                                "func h(p: s32, q: s32): s32 {\n  return (p + q)\n}\n");
  anf_tir_func f = anf_tir_find(a, "f"), g = anf_tir_find(a, "g"), h = anf_tir_find(a, "h");
  anf_tir_compare_opts swap = {.size = sizeof swap, .commutative = true};
  anf_text why = {.cx = w->cx};
  assert_true(anf_tir_equal_func(w->cx, f, h, NULL, NULL));
  assert_true(anf_tir_equal_func(w->cx, f, g, &swap, NULL));
  assert_false(anf_tir_equal_func(w->cx, f, g, NULL, &why));
  assert_string_equal(why.text, "function, body, statement 1, return, add: different variables\n"
                                "  left:  x\n  right: q\n");
  anf_tir_expr sum = anf_tir_stmt_expr(anf_tir_stmt_at(anf_tir_func_body(f), 0), 0);
  assert_true(anf_tir_equal_expr(w->cx, sum, sum, NULL, NULL));
  assert_false(anf_tir_equal_stmt(w->cx, anf_tir_func_body(f), anf_tir_func_body(h), NULL, NULL));
  anf_text_free(&why);
  anf_tir_module_free(a);
}

static void statements_are_made_anew(void **state) {
  world *w = *state;
  anf_tir_module *m = parsed(
      w, "func f(x: s32): s32 {\n  // why\n  if (x < 3) @[inline_level=0] {\n    x = 1\n  }\n"
         "  return x\n}\n");
  anf_tir_func f = anf_tir_find(m, "f");
  anf_tir_stmt body = anf_tir_func_body(f), branch = anf_tir_stmt_at(body, 0);
  anf_tir_expr x = anf_tir_func_param(f, 0), two = anf_tir_make_s32(m, 2),
               cond = anf_tir_make_binary(m, "cmp_gt", x, two);
  anf_tir_stmt set = anf_tir_make_assign_unattached(m, x, two);
  anf_tir_stmt other = anf_tir_remake_stmt(m, branch, &cond, (anf_tir_stmt[]){set, set});
  /* an `else` where there was none is another place of the same statement */
  anf_tir_stmt seq =
      anf_tir_remake_stmt(m, body, NULL, (anf_tir_stmt[]){other, anf_tir_stmt_at(body, 1)});
  anf_tir_module *n = anf_tir_module_new(w->cx);
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_tir_print_stmt(w->cx, seq, &t), ANF_OK);
  assert_string_equal(t.text,
                      "{\n  // why\n  if (x > 2) @[inline_level=0] {\n    x = 2\n  } else {\n"
                      "    x = 2\n  }\n  return x\n}\n");
  assert_string_equal(anf_tir_comment(other), "why");
  assert_int_equal(anf_tir_stmt_line(other, NULL), anf_tir_stmt_line(branch, NULL));
  assert_int_equal(anf_tir_module_status(m), ANF_OK);
  assert_null(anf_tir_remake_stmt(m, set, (anf_tir_expr[]){two, two}, NULL)); // 2 = 2
  assert_int_equal(anf_tir_module_status(m), ANF_INVALID);
  anf_text_free(&t);
  anf_tir_module_free(n), anf_tir_module_free(m);
}

/* ---- visitors ---- */

typedef struct counts {
  unsigned exprs, stmts, left, loops;
} counts;
static bool see_expr(void *user, anf_tir_expr e) {
  ((counts *)user)->exprs++;
  return !anf_tir_isa(e, "call");
}
static bool see_stmt(void *user, anf_tir_stmt s) {
  counts *c = user;
  c->stmts++;
  c->loops += strcmp(anf_tir_stmt_kind(s), "for_loop") == 0;
  return true;
}
static void leave_stmt(void *user, anf_tir_stmt s) { (void)s, ((counts *)user)->left++; }

static void a_viewer_sees_all(void **state) {
  world *w = *state;
  anf_tir_module *m = parsed(w, "func g(a: s32): s32 {\n  return a\n}\n"
                                "func f(x: s32): s32 {\n  var s: s32 = g((x + 1))\n"
                                "  for i in (0, x, 1) {\n    s = (s + i)\n  }\n  return s\n}\n");
  counts c = {0};
  anf_tir_viewer v = {sizeof v, see_expr, see_stmt, leave_stmt, &c};
  assert_int_equal(anf_tir_view_func(w->cx, anf_tir_find(m, "f"), &v), ANF_OK);
  assert_int_equal(c.loops, 1);
  assert_int_equal(c.stmts, 6); // body, var, for, its body, assign, return
  assert_int_equal(c.left, 6);
  assert_int_equal(c.exprs, 12); // x · s, g( left out · i, 0, x, 1 · s + i, s, i, s · s
  anf_tir_module_free(m);
}

static anf_tir_expr add_to_sub(void *user, anf_tir_module *m, anf_tir_expr e) {
  (void)user;
  return anf_tir_isa(e, "add") ? anf_tir_make_sub(m, anf_tir_expr_at(e, 0), anf_tir_expr_at(e, 1))
                               : e;
}
static anf_tir_stmt no_evaluate(void *user, anf_tir_module *m, anf_tir_stmt s) {
  (void)user, (void)m;
  return strcmp(anf_tir_stmt_kind(s), "evaluate") == 0 ? NULL : s;
}
static anf_tir_expr nothing(void *user, anf_tir_module *m, anf_tir_expr e) {
  (void)user, (void)m;
  return anf_tir_isa(e, "add") ? NULL : e;
}

static void a_visitor_makes_anew(void **state) {
  world *w = *state;
  anf_tir_module *m = parsed(w, "func f(x: s32, A: [s32 * 4]): s32 {\n  evaluate{prefetch(&A[0])}\n"
                                "  A[1] = 2\n  return (x + A[(1 + 0)])\n}\n");
  anf_tir_func f = anf_tir_find(m, "f");
  anf_tir_stmt kept = anf_tir_stmt_at(anf_tir_func_body(f), 1);
  anf_tir_visitor v = {sizeof v, add_to_sub, no_evaluate, NULL};
  anf_tir_func g = anf_tir_visit_func(m, f, &v);
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_tir_print_stmt(w->cx, anf_tir_func_body(g), &t), ANF_OK);
  assert_string_equal(t.text, "{\n  A[1] = 2\n  return (x - A[(1 - 0)])\n}\n");
  assert_ptr_equal(anf_tir_stmt_at(anf_tir_func_body(g), 0), kept); // shared
  anf_tir_visitor idle = {.size = sizeof idle};
  assert_ptr_equal(anf_tir_visit_func(m, f, &idle), f);
  anf_tir_visitor fails = {.size = sizeof fails, .expr = nothing};
  assert_null(anf_tir_visit_func(m, f, &fails));
  assert_int_equal(anf_tir_module_status(m), ANF_INVALID);
  anf_text_free(&t);
  anf_tir_module_free(m);
}

/* ---- passes of the host ---- */

static anf_tir_func subtracts(void *user, anf_tir_module *m, anf_tir_func f) {
  anf_tir_visitor v = {.size = sizeof v, .expr = add_to_sub};
  if (user) ++*(unsigned *)user;
  return anf_tir_visit_func(m, f, &v);
}
static anf_tir_func wrong(void *user, anf_tir_module *m, anf_tir_func f) {
  anf_tir_expr stray = anf_tir_make_var(m, anf_tir_scalar(ANF_TIR_s32), "stray");
  (void)user;
  return anf_tir_remake_func(m, f, anf_tir_make_return_unattached(m, stray));
}
static anf_status only_first(void *user, anf_tir_module *m, const anf_tir_module *from) {
  (void)user;
  return anf_tir_module_add(m, anf_tir_func_at(from, 0));
}
static anf_tir_func gives_up(void *user, anf_tir_module *m, anf_tir_func f) {
  (void)user, (void)m, (void)f;
  return NULL;
}

static const char adds[] = "func f(x: s32): s32 {\n  return (x + 2)\n}\n\n"
                           "func g(x: s32): s32 {\n  return (x + (1 + 2))\n}\n";

static void a_pass_of_the_host_runs_by_name(void **state) {
  world *w = *state;
  unsigned runs = 0;
  anf_tir_pass sub = {.size = sizeof sub,
                      .name = "subtract",
                      .needs = "CAST NO_PHI",
                      .func = subtracts,
                      .user = &runs},
               first = {.size = sizeof first, .name = "first", .module = only_first};
  assert_int_equal(anf_tir_pass_register(w->cx, &sub, w->d), ANF_OK);
  assert_int_equal(anf_tir_pass_register(w->cx, &first, w->d), ANF_OK);
  anf_tir_module *m = parsed(w, adds), *o = NULL;
  assert_int_equal(anf_tir_opt(m, "auto_caster (subtract constant_folder)* first", NULL, w->d, &o),
                   ANF_OK);
  prints(w, o, "func f(x: s32): s32 {\n  return (x - 2)\n}\n");
  assert_true(runs >= 4); // two functions, until nothing changes
  prints(w, m, adds);
  anf_tir_module_free(o), anf_tir_module_free(m);
}

static void what_a_pass_of_the_host_gives_is_verified(void **state) {
  world *w = *state;
  anf_tir_pass bad = {.size = sizeof bad, .name = "bad", .func = wrong},
               none = {.size = sizeof none, .name = "none", .func = gives_up},
               needs = {
                   .size = sizeof needs, .name = "ssa_only", .needs = "SSA", .func = subtracts};
  assert_int_equal(anf_tir_pass_register(w->cx, &bad, w->d), ANF_OK);
  assert_int_equal(anf_tir_pass_register(w->cx, &none, w->d), ANF_OK);
  assert_int_equal(anf_tir_pass_register(w->cx, &needs, w->d), ANF_OK);
  anf_tir_module *m = parsed(w, "func f(): s32 {\n  var x: s32\n  x = 1\n  return x\n}\n"),
                 *o = NULL;
  assert_int_equal(anf_tir_opt(m, "bad", NULL, w->d, &o), ANF_INVALID);
  finds(w, "E0820");
  assert_int_equal(anf_tir_opt(m, "none", NULL, w->d, &o), ANF_INVALID);
  finds(w, "E0607");
  assert_int_equal(anf_tir_opt(m, "ssa_only", NULL, w->d, &o), ANF_INVALID);
  finds(w, "E0603");
  assert_null(o);
  anf_tir_module_free(m);
}

static void registration_is_checked(void **state) {
  world *w = *state;
  const anf_tir_pass row[] = {
      {.size = sizeof *row, .name = "fold", .func = subtracts},      // a pipeline
      {.size = sizeof *row, .name = "validator", .func = subtracts}, // a pass
      {.size = sizeof *row, .name = "two words", .func = subtracts},
      {.size = sizeof *row, .name = "", .func = subtracts},
      {.size = sizeof *row, .name = NULL, .func = subtracts},
      {.size = sizeof *row, .name = "no_function"},
      {.size = sizeof *row, .name = "both", .func = subtracts, .module = only_first},
      {.size = sizeof *row, .name = "needs", .func = subtracts, .needs = "CAST ROUND"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    assert_int_equal(anf_tir_pass_register(w->cx, &row[i], w->d), ANF_INVALID);
    finds(w, "E0606");
  }
  anf_tir_pass twice = {.size = sizeof twice, .name = "mine", .func = subtracts};
  assert_int_equal(anf_tir_pass_register(w->cx, &twice, w->d), ANF_OK);
  assert_int_equal(anf_tir_pass_register(w->cx, &twice, w->d), ANF_INVALID);
  finds(w, "E0606");
}

static int32_t compiled(world *w, const anf_tir_module *m, const char *passes, const char *cache,
                        int32_t x) {
  anf_jit_engine *e = NULL;
  anf_jit_module *code = NULL;
  anf_jit_opts o = {.size = sizeof o, .passes = passes, .cache_dir = cache};
  assert_int_equal(anf_jit_engine_new(w->cx, ANF_JIT_LLVM, &o, w->d, &e), ANF_OK);
  assert_int_equal(anf_jit_make_module(e, m, w->d, &code), ANF_OK);
  anf_jit_function *f = anf_jit_get_function(code, "f");
  anf_value *in = anf_value_i32(w->cx, x), *out = NULL;
  assert_int_equal(anf_jit_call_values(f, m, NULL, 1, &in, w->d, &out, NULL), ANF_OK);
  int32_t r = (int32_t)anf_value_get_i64(out, 0);
  anf_value_release(in), anf_value_release(out);
  anf_jit_function_free(f), anf_jit_module_free(code), anf_jit_engine_free(e);
  return r;
}

/* The same names, the same cache: other code, for the pass is another. */
static void engines_run_passes_of_the_host(void **state) {
  world *w = *state;
  static anf_tir_pass sub = {.size = sizeof sub, .name = "mine", .func = subtracts};
  static const char passes[] = "auto_caster mine codegen";
  char dir[TEST_PATH], command[TEST_PATH + 8];
  assert_true(test_folder(dir));
  for (int with = 0; with < 2; with++) {
    world *v = with ? w : calloc(1, sizeof *v);
    if (!with) v->cx = anf_ctx_new(NULL), v->d = anf_diag_new(v->cx);
    anf_tir_pass idle = {.size = sizeof idle, .name = "mine", .module = only_first};
    assert_int_equal(anf_tir_pass_register(v->cx, with ? &sub : &idle, v->d), ANF_OK);
    anf_tir_module *m = parsed(v, adds);
    assert_int_equal(compiled(v, m, passes, dir, 40), with ? 38 : 42);
    anf_tir_module_free(m);
    if (!with) anf_diag_free(v->d), anf_ctx_free(v->cx), free(v);
  }
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
}

/* ---- what is verified before it is used ---- */

static void an_index_too_few_is_refused(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  ANF_FUNC(b, f32, "f", ANF_ARG_TENSOR("x", f32, 2, 2)) {
    ANF_RETURN(b, ANF_AT(b, ANF_PARAM(b, 0), 1));
  }
  anf_tir_module *m = built(w, b), *o = NULL;
  anf_text c = {.cx = w->cx};
  assert_int_equal(anf_tir_opt(m, "index_flattener", NULL, w->d, &o), ANF_INVALID);
  finds(w, "E0822");
  assert_null(o);
  assert_int_equal(anf_tir_print_c(m, NULL, w->d, &c), ANF_INVALID);
  finds(w, "E0822");
  for (int k = 0; k < ANF_JIT_KIND_COUNT; k++) {
    anf_jit_engine *e = NULL;
    anf_jit_module *code = NULL;
    assert_int_equal(anf_jit_engine_new(w->cx, (anf_jit_kind)k, NULL, w->d, &e), ANF_OK);
    assert_int_equal(anf_jit_make_module(e, m, w->d, &code), ANF_INVALID);
    finds(w, "E0822");
    anf_jit_engine_free(e);
  }
  anf_text_free(&c);
  anf_tir_module_free(m);
}

/* ---- globals, dims, products ---- */

static int64_t runs(world *w, const anf_tir_module *m, const char *f, size_t n,
                    anf_value *const *in, double *out) {
  anf_value *r = NULL;
  anf_status st = anf_tir_run_values(m, f, n, in, NULL, w->d, &r, NULL);
  if (st != ANF_OK) anf_diag_print(w->d, stdout, false);
  assert_int_equal(st, ANF_OK);
  if (out) *out = anf_value_get_f64(r, 0);
  int64_t i = out ? 0 : anf_value_get_i64(r, 0);
  anf_value_release(r);
  return i;
}

static void globals(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  anf_tir_module *m = anf_tb_module(b);
  static const int16_t table[] = {1, -2, 3};
  int64_t three = 3;
  anf_tir_expr T = anf_tir_make_tensor(m, ANF_TIR_s16, "table", 1, &three),
               init = anf_tir_make_values(m, ANF_TIR_s16, 3, table);
  assert_int_equal(anf_tir_module_add_private(m, anf_tir_make_define_unattached(m, T, init)),
                   ANF_OK);
  anf_tir_expr count = anf_tir_module_add_scalar(m, ANF_TIR_s64, "count", anf_tir_make_s32(m, -5),
                                                 false),
               zero = anf_tir_module_add_scalar(m, ANF_TIR_f32, "zero", NULL, true);
  ANF_FUNC(b, s64, "f", ANF_ARG("i", index)) {
    ANF_SET(b, count, ANF_ADD(b, count, ANF_AT(b, T, ANF_PARAM(b, 0))));
    ANF_RETURN(b, ANF_ADD(b, count, anf_tir_make_cast(m, anf_tir_scalar(ANF_TIR_s64), zero)));
  }
  anf_tir_module *done = built(w, b);
  prints(w, done,
         "private tensor table: [s16 * 3] = {1s16, -2s16, 3s16}\npublic tensor count: [s64 * 1] = "
         "{-5s64}\n"
         "private tensor zero: [f32 * 1] = {0.f}\n\n"
         "func f(i: index): s64 {\n  count[0UL] = (count[0UL] + table[i])\n"
         "  return (count[0UL] + s64(zero[0UL]))\n}\n");
  anf_value *in = anf_value_u64(w->cx, 1);
  assert_int_equal(runs(w, done, "f", 1, &in, NULL), -7);
  anf_value_release(in);
  anf_tir_module_free(done);
}

/* f(n, A): the sum of the diagonal of A, of n by n, through a strided view of its middle. */
static void dims_of_run_time(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  ANF_FUNC(b, f64, "f", ANF_ARG("n", index), ANF_ARG_TENSOR("A", f64, ANF_DIM(0), ANF_DIM(0))) {
    anf_tir_expr n = ANF_PARAM(b, 0), A = ANF_PARAM(b, 1);
    anf_tir_expr stride = ANF_ADD(b, n, 1UL), zero = ANF_E(b, 0UL);
    anf_tir_expr from =
        anf_tir_make_tensorptr(anf_tb_module(b), A, 2, (anf_tir_expr[]){zero, zero});
    anf_tir_expr D = anf_tb_tensor_of(b, ANF_TIR_f64, "D", 1, &n, &stride, from);
    ANF_TENSOR_OF(b, T, f64, n, 1UL);
    ANF_VAR_INIT(b, s, f64, 0.0);
    ANF_FOR(b, i, 0UL, n) {
      ANF_SET(b, ANF_AT(b, T, i, 0UL), ANF_AT(b, D, i));
      ANF_SET(b, s, ANF_ADD(b, s, ANF_AT(b, T, i, 0UL)));
    }
    ANF_RETURN(b, s);
  }
  anf_tir_module *m = built(w, b);
  prints(w, m,
         "func f(n: index, A: [f64 * n * n]): f64 {\n"
         "  tensor D: [f64 * n : (n + 1UL)] = &A[0UL, 0UL]\n  tensor T: [f64 * n * 1]\n"
         "  var s: f64 = 0.0f64\n  for i in (0UL, n, 1UL) {\n    T[i, 0UL] = D[i]\n"
         "    s = (s + T[i, 0UL])\n  }\n  return s\n}\n");
  int64_t dims[] = {3, 3};
  anf_value *in[] = {
      anf_value_u64(w->cx, 3),
      anf_value_tensor(w->cx, ANF_F64, 2, dims, (double[]){1, 9, 9, 9, 20, 9, 9, 9, 300})};
  double sum = 0;
  runs(w, m, "f", 2, in, &sum);
  assert_true(sum == 321);
  anf_value_release(in[0]), anf_value_release(in[1]);
  anf_tir_module_free(m);
  anf_tb *bad = anf_tb_new(w->cx); // a dim that comes after
  ANF_FUNC(bad, void, "f", ANF_ARG_TENSOR("A", f64, ANF_DIM(1)), ANF_ARG("n", index)) {}
  assert_int_equal(anf_tb_finish(bad, w->d, &m), ANF_INVALID);
  finds(w, "E0868");
  anf_tb_free(bad);
}

static anf_tir_expr start_of(anf_tb *b, anf_tir_expr t) {
  anf_tir_expr zero[] = {ANF_E(b, 0UL), ANF_E(b, 0UL)};
  return anf_tir_make_tensorptr(anf_tb_module(b), t, anf_tir_expr_rank(t), zero);
}

/* C = max(0, A B * scales + bias + rhs), from zero. */
static void products(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  ANF_FUNC(b, void, "f", ANF_ARG_TENSOR("A", f32, 2, 3), ANF_ARG_TENSOR("B", f32, 3, 2),
           ANF_ARG_TENSOR("C", f32, 2, 2), ANF_ARG_TENSOR("bias", f32, 2),
           ANF_ARG_TENSOR("scales", f32, 2), ANF_ARG_TENSOR("rhs", f32, 2, 2)) {
    anf_tir_expr p[6];
    for (size_t i = 0; i < 6; i++) p[i] = start_of(b, ANF_PARAM(b, i));
    anf_tir_expr one = ANF_E(b, 1UL), two = ANF_E(b, 2UL), three = ANF_E(b, 3UL),
                 zero = ANF_E(b, 0UL);
    anf_tir_brgemm g = {.size = sizeof g,
                        .a = p[0],
                        .b = p[1],
                        .c = p[2],
                        .num = one,
                        .m = two,
                        .n = two,
                        .k = three,
                        .lda = three,
                        .ldb = two,
                        .ldc = two,
                        .stride_a = zero,
                        .stride_b = zero,
                        .init = true,
                        .relu = true,
                        .bias = p[3],
                        .scales = p[4],
                        .rhs = p[5],
                        .rhs_op = 1};
    ANF_EVAL(b, anf_tir_make_brgemm(anf_tb_module(b), &g));
    ANF_RETURN_VOID(b);
  }
  anf_tir_module *m = built(w, b);
  int64_t d23[] = {2, 3}, d32[] = {3, 2}, d22[] = {2, 2};
  anf_value *in[] = {anf_value_tensor(w->cx, ANF_F32, 2, d23, (float[]){1, 2, 3, -1, 0, 1}),
                     anf_value_tensor(w->cx, ANF_F32, 2, d32, (float[]){1, 4, 2, 5, 3, 6}),
                     anf_value_tensor(w->cx, ANF_F32, 2, d22, (float[]){9, 9, 9, 9}),
                     anf_value_tensor(w->cx, ANF_F32, 1, d22, (float[]){1, -2}),
                     anf_value_tensor(w->cx, ANF_F32, 1, d22, (float[]){2, 10}),
                     anf_value_tensor(w->cx, ANF_F32, 2, d22, (float[]){0, 1, -100, 0.5f})};
  anf_value *out[6] = {NULL}, *r = NULL;
  assert_int_equal(anf_tir_run_values(m, "f", 6, in, NULL, w->d, &r, out), ANF_OK);
  /* A B = 14 32 / 2 2 */
  const float want[] = {14 * 2 + 1, 32 * 10 - 2 + 1, 0, 2 * 10 - 2 + 0.5f};
  assert_memory_equal(anf_value_data(out[2]), want, sizeof want);
  anf_value_release(r);
  for (size_t i = 0; i < 6; i++) anf_value_release(in[i]), anf_value_release(out[i]);
  anf_tir_brgemm none = {.size = sizeof none};
  assert_null(anf_tir_make_brgemm(m, &none));
  anf_tir_module_free(m);
}

/* ---- numbers, places, C++'s reading of the macros is test/headers.py's ---- */

static void numbers_of_every_type(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  signed char sc = -1;
  unsigned char uc = 255;
  short s = -2;
  unsigned short us = 65535;
  unsigned u = 4000000000u;
  long long ll = -3;
  unsigned long long ull = 5;
  char c = 'a';
  const anf_tir_elem want[] = {ANF_TIR_s8,   ANF_TIR_u8,
                               ANF_TIR_s16,  ANF_TIR_u16,
                               ANF_TIR_s32,  ANF_TIR_u32,
                               ANF_TIR_s64,  ANF_TIR_index,
                               ANF_TIR_s64,  ANF_TIR_index,
                               ANF_TIR_f32,  ANF_TIR_f64,
                               ANF_TIR_bool, (char)-1 < 0 ? ANF_TIR_s8 : ANF_TIR_u8};
  const double value[] = {-1, 255, -2, 65535, -7, 4e9, -8, 9, -3, 5, 0.5, 0.25, 1, 97};
  anf_tir_expr e[] = {ANF_E(b, sc),      ANF_E(b, uc),  ANF_E(b, s),    ANF_E(b, us),
                      ANF_E(b, -7),      ANF_E(b, u),   ANF_E(b, -8L),  ANF_E(b, 9UL),
                      ANF_E(b, ll),      ANF_E(b, ull), ANF_E(b, 0.5f), ANF_E(b, 0.25),
                      ANF_E(b, (bool)1), ANF_E(b, c)};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    double v = 0;
    assert_int_equal(anf_tir_type(e[i]).elem, want[i]);
    assert_true(anf_tir_const_f64(e[i], 0, &v) && v == value[i]);
  }
  anf_tb_free(b);
}

static void variables_of_bool(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  ANF_FUNC(b, bool, "f", ANF_ARG("p", bool), ANF_ARG_TENSOR("A", bool, 2)) {
    ANF_VAR(b, flag, bool);
    ANF_SET(b, flag, true);
    ANF_VAR_INIT(b, other, bool, false);
    ANF_TENSOR(b, T, bool, 2);
    ANF_SET(b, ANF_AT(b, T, 0), ANF_EQ(b, flag, other));
    ANF_RETURN(b, ANF_CALL(b, bool, "f", ANF_AT(b, T, 0), ANF_PARAM(b, 1)));
  }
  anf_tir_module *m = built(w, b);
  prints(w, m,
         "func f(p: bool, A: [bool * 2]): bool {\n  var flag: bool\n  flag = 1\n"
         "  var other: bool = 0\n  tensor T: [bool * 2]\n  T[0] = (flag == other)\n"
         "  return f(T[0], A)\n}\n");
  anf_tir_module_free(m);
}

static void findings_are_at_lines_of_c(void **state) {
  world *w = *state;
  anf_tb *b = anf_tb_new(w->cx);
  unsigned line = 0, set = 0;
  ANF_FUNC(b, f32, "f", ANF_ARG("i", s32), ANF_ARG_TENSOR("A", f32, 2)) {
    ANF_VAR_INIT(b, x, f32, 0.0f);
    set = __LINE__ + 1;
    ANF_SET(b, x, 1.0f);
    line = __LINE__ + 1;
    ANF_RETURN(b, ANF_ADD(b, x, ANF_AT(b, ANF_PARAM(b, 1), ANF_PARAM(b, 0))));
  }
  anf_tir_module *m = built(w, b);
  int64_t two = 2;
  anf_value *in[] = {anf_value_i32(w->cx, 2), anf_value_tensor(w->cx, ANF_F32, 1, &two, NULL)},
            *r = NULL;
  anf_tir_stmt body = anf_tir_func_body(anf_tir_find(m, "f"));
  assert_string_equal(anf_tir_file(m), __FILE__);
  assert_int_equal(anf_tir_stmt_line(anf_tir_stmt_at(body, 1), NULL), set);
  assert_int_equal(anf_tir_func_line(anf_tir_find(m, "f"), NULL), set - 3);
  assert_int_equal(anf_tir_run_values(m, "f", 2, in, NULL, w->d, &r, NULL), ANF_INVALID);
  const anf_diag_item *it = anf_diag_at(w->d, 0);
  assert_string_equal(it->code, "E0852");
  assert_string_equal(it->file, __FILE__);
  assert_int_equal(it->line, line);
  anf_value_release(in[0]), anf_value_release(in[1]);
  anf_tir_module_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(a_module_is_read_whole),
      T(constants_and_names),
      T(nothing_is_said_of_null),
      T(nodes_are_compared),
      T(statements_are_made_anew),
      T(a_viewer_sees_all),
      T(a_visitor_makes_anew),
      T(a_pass_of_the_host_runs_by_name),
      T(what_a_pass_of_the_host_gives_is_verified),
      T(registration_is_checked),
      T(engines_run_passes_of_the_host),
      T(an_index_too_few_is_refused),
      T(globals),
      T(dims_of_run_time),
      T(products),
      T(numbers_of_every_type),
      T(variables_of_bool),
      T(findings_are_at_lines_of_c),
  };
  cmocka_set_message_output(CM_OUTPUT_TAP);
  return cmocka_run_group_tests_name("tensor IR from C", tests, NULL, NULL);
}
