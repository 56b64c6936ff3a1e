// SPDX-License-Identifier: Apache-2.0
/* The Tensor IR through its C interface: builders and their errors, invalid modules that no text
 * can say, transforms of loops with their maps, runs with values, wrappers, traces, faults. TAP. */
#define _XOPEN_SOURCE 700
#include "anfora/jit.h"
#include "test/tir/values.h"
#include "test/unit/fault.h"

#include <math.h>
#include <stdlib.h>

static unsigned count, failed;

static void report(bool good, const char *name, const char *got) {
  printf("%sok %u - %s\n", good ? "" : "not ", ++count, name);
  if (good) return;
  failed++;
  printf("# got:\n%s\n", got ? got : "(nothing)");
}

/* Is the first error this one, with this in its message? */
static void report_error(anf_diag *d, const char *code, const char *part, const char *name) {
  const anf_diag_item *it = anf_diag_at(d, 0);
  char got[600];
  snprintf(got, sizeof got, "%zu errors: %s %s", anf_diag_count(d), it ? it->code : "",
           it ? it->message : "");
  report(it && strcmp(it->code, code) == 0 && strstr(it->message, part), name, got);
  anf_diag_clear(d);
}

static anf_tir_module *parse(anf_ctx *cx, const char *text) {
  anf_tir_module *m = NULL;
  anf_diag *d = anf_diag_new(cx);
  if (anf_tir_parse(cx, text, strlen(text), "test", d, &m) != ANF_OK)
    anf_diag_print(d, stdout, false);
  anf_diag_free(d);
  return m;
}

/* ---- builders ---- */

static anf_tir_stmt sum_by_makers(anf_tir_module *m) {
  anf_tir_expr a = anf_tir_make_var(m, anf_tir_scalar(ANF_TIR_s32), "a");
  anf_tir_expr sum = anf_tir_make_add(m, anf_tir_make_s32(m, 1), anf_tir_make_s32(m, 2));
  anf_tir_stmt seq[] = {anf_tir_make_define_unattached(m, a, NULL),
                        anf_tir_make_assign_unattached(m, a, sum)};
  return anf_tir_make_stmts_unattached(m, 2, seq);
}
static anf_tir_stmt sum_by_macros(anf_tb *b) {
  ANF_VAR(b, a, s32);
  ANF_SET(b, a, ANF_ADD(b, 1, 2));
  return anf_tb_take(b);
}

static void sums(anf_ctx *cx) {
  static const char want[] = "{\n  var a: s32\n  a = (1 + 2)\n}\n";
  static const char *const name[] = {"1 + 2 by makers prints as in the seed", "by macros too",
                                     "and from text"};
  anf_tb *b = anf_tb_new(cx);
  anf_tir_module *m = anf_tir_module_new(cx),
                 *t = parse(cx, "func f(): void {\n  var a: s32\n  a = (1 + 2)\n}\n");
  anf_tir_stmt way[] = {sum_by_makers(m), sum_by_macros(b), anf_tir_find(t, "f")->body};
  for (int i = 0; i < 3; i++) {
    anf_text out = {cx, NULL, 0, 0};
    anf_tir_print_stmt(cx, way[i], &out);
    report(out.text && strcmp(out.text, want) == 0, name[i], out.text);
    anf_text_free(&out);
  }
  anfi_arena a;
  tcompare c1, c2;
  anfi_arena_init(&a, cx);
  anfi_t_compare_init(&c1, &a);
  anfi_t_compare_init(&c2, &a);
  report(anfi_t_equal_stmt(&c1, way[0], way[1]) && anfi_t_equal_stmt(&c2, way[1], way[2]),
         "the three are equal", NULL);
  anfi_arena_free(&a);
  anf_tir_module_free(m);
  anf_tir_module_free(t);
  anf_tb_free(b);
}

static void leave_loop(anf_tb *b) {
  ANF_FUNC0(b, void, "f") {
    ANF_FOR(b, i, 0, 4) {
      if (i) break;
    }
  }
}
static void leave_branch(anf_tb *b) {
  ANF_FUNC(b, f32, "f", ANF_ARG("x", f32)) {
    ANF_WHILE(b, ANF_LT(b, ANF_PARAM(b, 0), 1.0f)) {
      ANF_IF(b, true) { // on a line of its own: scopes are named by lines
        break;
      }
    }
    ANF_RETURN(b, ANF_PARAM(b, 0));
  }
}
static void leave_function(anf_tb *b) { ANF_FUNC0(b, void, "f") break; }
static void else_alone(anf_tb *b) {
  ANF_FUNC0(b, void, "f") {
    ANF_VAR(b, x, s32);
    ANF_SET(b, x, 1);
    ANF_ELSE(b) { ANF_SET(b, x, 2); }
  }
}
static void no_parameter(anf_tb *b) {
  ANF_FUNC(b, s32, "f", ANF_ARG("x", s32)) { ANF_RETURN(b, ANF_PARAM(b, 1)); }
}
static void null_operand(anf_tb *b) {
  ANF_FUNC(b, s32, "f", ANF_ARG("x", s32)) {
    ANF_RETURN(b, ANF_ADD(b, ANF_PARAM(b, 0), (anf_tir_expr)NULL));
  }
}

static void broken_builds(anf_ctx *cx) {
  static const struct {
    void (*build)(anf_tb *b);
    const char *code, *part, *name;
  } row[] = {{leave_loop, "E0866", "left early", "a break out of a loop is caught"},
             {leave_branch, "E0866", "left early", "out of a branch in a loop"},
             {leave_function, "E0866", "left early", "out of a function"},
             {else_alone, "E0867", "ANF_ELSE", "an else without its if"},
             {no_parameter, "E0868", "parameter", "a parameter that there is not"},
             {null_operand, "E0868", "expression", "an operand that is NULL"}};
  anf_diag *d = anf_diag_new(cx);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    anf_tir_module *m = NULL;
    anf_tb *b = anf_tb_new(cx);
    row[i].build(b);
    anf_status st = anf_tb_finish(b, d, &m);
    report_error(d, row[i].code, row[i].part, row[i].name);
    report(st == ANF_INVALID && !m, "and gives no module", NULL);
    anf_tb_free(b);
  }
  anf_diag_free(d);
}

static void every_macro(anf_tb *b) {
  ANF_FUNC(b, s32, "f", ANF_ARG("n", s32), ANF_ARG_TENSOR("A", s32, 4)) {
    anf_tir_expr n = ANF_PARAM(b, 0), A = ANF_PARAM(b, 1);
    ANF_VAR_INIT(b, s, s32, 0);
    ANF_FOR_STEP(b, i, 0, 4, 2) {
      ANF_FOR(b, j, 0, 2) {
        ANF_IF(b, ANF_LT(b, i, n)) {
          ANF_SET(b, s, ANF_ADD(b, s, ANF_AT(b, A, ANF_ADD(b, i, j))));
          continue; // ends the body, as it does in C
        }
        ANF_ELSE(b) { ANF_SET(b, s, ANF_SUB(b, s, 1)); }
      }
    }
    ANF_PFOR(b, k, 0, 4) { ANF_SET(b, ANF_AT(b, A, k), k); }
    ANF_WHILE(b, ANF_GT(b, s, 100)) { ANF_SET(b, s, ANF_DIV(b, s, 2)); }
    ANF_RETURN(b, s);
  }
}

static void macros(anf_ctx *cx) {
  static const char want[] = "func f(n: s32, A: [s32 * 4]): s32 {\n"
                             "  var s: s32 = 0\n"
                             "  for i in (0, 4, 2) {\n"
                             "    for j in (0, 2, 1) {\n"
                             "      if (i < n) {\n"
                             "        s = (s + A[(i + j)])\n"
                             "      } else {\n"
                             "        s = (s - 1)\n"
                             "      }\n"
                             "    }\n"
                             "  }\n"
                             "  for k in (0, 4, 1) parallel {\n"
                             "    A[k] = k\n"
                             "  }\n"
                             "  while (s > 100) {\n"
                             "    s = (s / 2)\n"
                             "  }\n"
                             "  return s\n"
                             "}\n";
  anf_tir_module *m = NULL;
  anf_tb *b = anf_tb_new(cx);
  anf_text out = {cx, NULL, 0, 0};
  every_macro(b);
  anf_status st = anf_tb_finish(b, NULL, &m);
  if (m) anf_tir_print(m, &out);
  report(st == ANF_OK && out.text && strcmp(out.text, want) == 0, "macros nest", out.text);
  anf_text_free(&out);
  anf_tir_module_free(m);
  anf_tb_free(b);
}

static void kinds(anf_ctx *cx) {
  anf_tir_module *m = anf_tir_module_new(cx);
  anf_tir_expr one = anf_tir_make_s32(m, 1), two = anf_tir_make_s32(m, 2),
               sum = anf_tir_make_add(m, one, two);
  report(anf_tir_isa(sum, "add") && !anf_tir_isa(sum, "binary") && !anf_tir_isa(sum, "sub") &&
             anf_tir_instanceof(sum, "binary") && !anf_tir_instanceof(sum, "cmp") &&
             !anf_tir_isa(NULL, "add") && !anf_tir_instanceof(NULL, "binary"),
         "isa knows kinds, instanceof groups too, and both NULL", NULL);
  report(anf_tir_as(sum, "add") == sum && !anf_tir_as(sum, "binary") && !anf_tir_as(sum, "sub") &&
             anf_tir_dyn_as(sum, "binary") == sum && !anf_tir_dyn_as(sum, "logic") &&
             anf_tir_static_as(sum, "sub") == sum && anf_tir_checked_as(sum, "binary") == sum,
         "as, dyn_as, static_as, checked_as", NULL);
  anf_tir_expr swapped = anf_tir_remake(m, sum, (anf_tir_expr[]){two, one});
  report(anf_tir_ptr_same(sum, sum) && !anf_tir_ptr_same(sum, swapped) &&
             anf_tir_isa(swapped, "add") && anf_tir_ptr_same(anf_tir_expr_at(swapped, 0), two) &&
             anf_tir_ptr_same(anf_tir_expr_at(sum, 0), one),
         "remake makes another node and leaves the first", NULL);
  anf_tir_dtype a = anf_tir_vector(ANF_TIR_f32, 16), tile = a;
  tile.rows = 4;
  report(!anfi_t_same(a, tile) && anfi_t_same(a, anf_tir_vector(ANF_TIR_f32, 16)),
         "types are equal with element, lanes and rows", NULL);
  anf_tir_module_free(m);
}

static void attributes(anf_ctx *cx) {
  static const char want[] = "func one(i: index, x: f32): void @[inline_level=2] {\n}\n\n"
                             "func f(x: f32): void {\n"
                             "  evaluate{one(x)@parallel([0UL, 4UL, 1UL], )}\n"
                             "  for i in (0UL, 4UL, 1UL) @[unroll_loop=2] {\n"
                             "    evaluate{one(i, x)}\n"
                             "  }\n"
                             "}\n";
  anf_tir_module *m = anf_tir_module_new(cx);
  anf_tir_dtype f32 = anf_tir_scalar(ANF_TIR_f32), idx = anf_tir_scalar(ANF_TIR_index),
                none = anf_tir_scalar(ANF_TIR_void);
  anf_tir_expr p[] = {anf_tir_make_var(m, idx, "i"), anf_tir_make_var(m, f32, "x")};
  anf_tir_func one =
      anf_tir_make_func(m, "one", none, 2, p, anf_tir_make_stmts_unattached(m, 0, NULL));
  anf_tir_module_add(m, anf_tir_func_with_attr(m, one, "inline_level", 2));
  anf_tir_expr x = anf_tir_make_var(m, f32, "x"), i = anf_tir_make_var(m, idx, "i");
  anf_tir_expr range[] = {anf_tir_make_index(m, 0), anf_tir_make_index(m, 4),
                          anf_tir_make_index(m, 1)};
  anf_tir_stmt turn = anf_tir_make_evaluate_unattached(
      m, anf_tir_make_call(m, "one", none, 2, (anf_tir_expr[]){i, x}));
  anf_tir_stmt loop =
      anf_tir_make_for_unattached(m, i, range[0], range[1], range[2], turn, false, 0);
  anf_tir_stmt seq[] = {
      anf_tir_make_evaluate_unattached(m, anf_tir_make_parallel_call(m, "one", 1, &x, 1, range)),
      anf_tir_with_attr(m, loop, "unroll_loop", 2)};
  anf_tir_module_add(
      m, anf_tir_make_func(m, "f", none, 1, &x, anf_tir_make_stmts_unattached(m, 2, seq)));
  anf_text out = {cx, NULL, 0, 0};
  anf_tir_print(m, &out);
  report(out.text && strcmp(out.text, want) == 0, "attributes and parallel calls", out.text);
  report(anf_tir_verify(m, NULL) == ANF_OK, "which are valid", NULL);
  report(!anf_tir_with_attr(m, loop, "no such", 1) && anf_tir_module_status(m) == ANF_INVALID,
         "an attribute that there is not gives NULL", NULL);
  anf_text_free(&out);
  anf_tir_module_free(m);
}

/* ---- invalid modules that no text says ---- */

static const char *const invalid_code[] = {"E0821", "E0820", "E0825", "E0825"};
static const char *const invalid_text[] = {"'x' is defined twice (in f, var x)",
                                           "'y' is used where it is not defined (in f, assign)",
                                           "no function 'nobody' in the module (in f, assign)",
                                           "no function 'nowhere' in the module (in f, evaluate)"};

static anf_tir_module *invalid_module(anf_ctx *cx) {
  anf_tir_module *m = anf_tir_module_new(cx);
  anf_tir_dtype s32 = anf_tir_scalar(ANF_TIR_s32);
  anf_tir_expr x = anf_tir_make_var(m, s32, "x"), stray = anf_tir_make_var(m, s32, "y");
  anf_tir_stmt twice = anf_tir_make_define_unattached(m, x, anf_tir_make_s32(m, 1));
  anf_tir_expr missing = anf_tir_make_call(m, "nobody", s32, 0, NULL),
               address = anf_tir_make_func_addr(m, "nowhere");
  anf_tir_stmt seq[] = {twice, twice, anf_tir_make_assign_unattached(m, x, stray),
                        anf_tir_make_assign_unattached(m, x, missing),
                        anf_tir_make_evaluate_unattached(m, address)};
  anf_tir_module_add(m, anf_tir_make_func(m, "f", anf_tir_scalar(ANF_TIR_void), 0, NULL,
                                          anf_tir_make_stmts_unattached(m, 5, seq)));
  return m;
}

/* What verification says of the module is what was said, and nothing else. */
static void says_why(anf_diag *d, const char *who) {
  for (size_t i = 0; i < 4; i++) {
    const anf_diag_item *it = anf_diag_at(d, i);
    bool good = it && strcmp(it->code, invalid_code[i]) == 0 &&
                strcmp(it->message, invalid_text[i]) == 0 && anf_diag_count(d) == 4;
    char name[128];
    snprintf(name, sizeof name, "%s: %s", who, invalid_text[i]);
    report(good, name, it ? it->message : NULL);
  }
  anf_diag_clear(d);
}

/* Every way to code refuses what verification refuses, in its words. */
static void engines_refuse(anf_ctx *cx, const anf_tir_module *m, anf_diag *d, anf_jit_kind k) {
  anf_jit_engine *e = NULL;
  anf_jit_module *made = NULL;
  anf_jit_function *f = NULL;
  report(anf_jit_engine_new(cx, k, NULL, d, &e) == ANF_OK, anf_jit_kind_name(k), NULL);
  if (!e) return;
  report(anf_jit_make_module(e, m, d, &made) == ANF_INVALID && !made, "a module", NULL);
  says_why(d, anf_jit_kind_name(k));
  report(anf_jit_get_entry_func(e, m, d, &f) == ANF_INVALID && !f, "an entry function", NULL);
  says_why(d, anf_jit_kind_name(k));
  anf_jit_engine_free(e);
}

static void invalid(anf_ctx *cx) {
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = invalid_module(cx);
  report(anf_tir_verify(m, d) == ANF_INVALID, "an invalid module is refused", NULL);
  says_why(d, "verify");
  anf_tir_arg out = {0};
  anf_tir_run_opts o = {.size = sizeof o};
  report(anf_tir_run(m, "f", 0, NULL, &o, d, &out) == ANF_INVALID, "a run", NULL);
  says_why(d, "run");
  for (int k = 0; k < ANF_JIT_KIND_COUNT; k++) engines_refuse(cx, m, d, (anf_jit_kind)k);
  anf_tir_module_free(m);
  anf_diag_free(d);
}

static char *nested(size_t n, const char *open, const char *mid, const char *close) {
  size_t o = strlen(open), c = strlen(close);
  char *s = (char *)malloc(n * (o + c) + strlen(mid) + 64), *w = s;
  w += sprintf(w, "func f(n: s32): s32 {\n  ");
  for (size_t i = 0; i < n; i++) memcpy(w, open, o), w += o;
  w += sprintf(w, "%s", mid);
  for (size_t i = 0; i < n; i++) memcpy(w, close, c), w += c;
  strcpy(w, "\n  return n\n}\n");
  return s;
}

static void deep(anf_ctx *cx) {
  anf_diag *d = anf_diag_new(cx);
  static const struct {
    const char *open, *mid, *close, *what;
  } row[] = {{"(", "n", ")", "expression"}, {"{ ", "n = 1", " }", "statement"}};
  for (int i = 0; i < 2; i++) {
    anf_tir_module *m = NULL;
    char *s = nested(100000, row[i].open, row[i].mid, row[i].close);
    anf_status st = anf_tir_parse(cx, s, strlen(s), "deep", d, &m);
    report(st == ANF_LIMIT && !m, "text nested a hundred thousand deep is refused", NULL);
    report_error(d, "E0801", row[i].what, row[i].what);
    free(s);
  }
  anf_tir_module *m = anf_tir_module_new(cx);
  anf_tir_expr e = anf_tir_make_s32(m, 1), one = e;
  size_t n = 0;
  for (; e && n < 100000; n++) e = anf_tir_make_add(m, e, one);
  report(!e && n > 500 && anf_tir_module_status(m) == ANF_LIMIT, "so are nodes", NULL);
  anf_tir_module_free(m);
  anf_diag_free(d);
}

static void hashes(anf_ctx *cx) {
  static const char *const text[] = {
      "private tensor W: [f32 * 2] = {1.f, 2.f}\nfunc f(i: index): f32 {\n  return W[i]\n}\n",
      "private tensor V: [f32 * 2] = {1.f, 2.f}\nfunc f(k: index): f32 {\n  return V[k]\n}\n",
      "private tensor W: [f32 * 2] = {1.f, 3.f}\nfunc f(i: index): f32 {\n  return W[i]\n}\n",
      "data 1 {\n  00\n}\nfunc f(i: index): f32 {\n  return 1.f\n}\n",
      "data 1 {\n  01\n}\nfunc f(i: index): f32 {\n  return 1.f\n}\n"};
  anf_tir_module *m[5];
  for (int i = 0; i < 5; i++) m[i] = parse(cx, text[i]);
  bool renamed = anf_tir_equal(m[0], m[1], NULL, NULL) && anf_tir_hash(m[0]) == anf_tir_hash(m[1]);
  bool other = !anf_tir_equal(m[0], m[2], NULL, NULL) && anf_tir_hash(m[0]) != anf_tir_hash(m[2]);
  bool data = !anf_tir_equal(m[3], m[4], NULL, NULL) && anf_tir_hash(m[3]) != anf_tir_hash(m[4]);
  report(renamed && other && data, "hashes and comparison see globals and module data", NULL);
  for (int i = 0; i < 5; i++) anf_tir_module_free(m[i]);
}

/* ---- transforms of loops ---- */

typedef tstmt (*transform)(tstore *t, anfi_arena *a, tstmt body, tloop_map *map);

static tstmt split4(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_split(t, a, b->s[0], 4, m);
}
static tstmt fuse(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_fuse(t, a, b->s[0], m);
}
static tstmt swap(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_reorder(t, a, b->s[0], 2, (const uint32_t[]){1, 0}, m);
}
static tstmt merge(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_merge(t, a, b->s[0], b->s[1], m);
}
static tstmt unroll3(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_unroll(t, a, b->s[0], 3, m);
}
static tstmt unroll(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_unroll(t, a, b->s[0], 0, m);
}
static tstmt both(tstore *t, anfi_arena *a, tstmt b, tloop_map *m) {
  return anfi_t_loop_parallel_merge(t, a, b->s[0], b->s[1], m);
}

#define F1 "func f(n: s32, A: [f32 * 12]): void {\n"
#define F2 "func f(A: [f32 * 3 * 4]): void {\n"
#define F3 "func f(A: [f32 * 8], B: [f32 * 8]): void {\n"
static const struct {
  transform fn;
  unsigned used; // statements of the body that the transform takes
  bool applies;
  const char *name, *text, *want;
} loops[] = {
    {split4, 1, true, "split: the block divides",
     F1 "  for i in (0, 12, 1) {\n    A[i] = 1.f\n  }\n}\n",
     F1 "  for i_o in (0, 12, 4) {\n    for i in (i_o, (i_o + 4), 1) {\n      A[i] = 1.f\n"
        "    }\n  }\n}\n"},
    {split4, 1, true, "split: it does not", F1 "  for i in (1, 11, 1) {\n    A[i] = 1.f\n  }\n}\n",
     F1 "  for i_o in (1, 11, 4) {\n    for i in (i_o, (i_o + min((11 - i_o), 4)), 1) {\n"
        "      A[i] = 1.f\n    }\n  }\n}\n"},
    {split4, 1, true, "split: the end is not known",
     F1 "  for i in (0, (n % 5), 2) {\n    A[i] = 1.f\n  }\n}\n",
     F1 "  for i_o in (0, (n % 5), 8) {\n"
        "    for i in (i_o, (i_o + min(((n % 5) - i_o), 8)), 2) {\n      A[i] = 1.f\n"
        "    }\n  }\n}\n"},
    {fuse, 1, true, "fuse: one loop over both",
     F2 "  for i in (0, 3, 1) {\n    for j in (0, 4, 2) {\n      A[i, j] = f32(j)\n    }\n  }\n}\n",
     F2 "  for i_j in (0, 6, 1) {\n    A[(i_j / 2), ((i_j % 2) * 2)] = f32(((i_j % 2) * 2))\n"
        "  }\n}\n"},
    {fuse, 1, false, "fuse: the body has more than the loop",
     F2 "  for i in (0, 3, 1) {\n    A[i, 0] = 1.f\n    for j in (0, 4, 1) {\n"
        "      A[i, j] = 2.f\n    }\n  }\n}\n",
     NULL},
    {swap, 1, true, "reorder: the inner becomes the outer",
     F2 "  for i in (0, 3, 1) {\n    for j in (0, 4, 1) {\n      A[i, j] = f32(j)\n    }\n  }\n}\n",
     F2
     "  for j in (0, 4, 1) {\n    for i in (0, 3, 1) {\n      A[i, j] = f32(j)\n    }\n  }\n}\n"},
    {swap, 1, false, "reorder: bounds depend on the outer counter",
     F2 "  for i in (0, 3, 1) {\n    for j in (0, i, 1) {\n      A[i, j] = f32(j)\n    }\n  }\n}\n",
     NULL},
    {merge, 2, true, "merge: both bodies, one counter",
     F3 "  for i in (0, 8, 1) {\n    A[i] = 1.f\n  }\n  for j in (0, 8, 1) {\n    B[j] = 2.f\n"
        "  }\n}\n",
     F3 "  for i in (0, 8, 1) {\n    A[i] = 1.f\n    B[i] = 2.f\n  }\n}\n"},
    {merge, 2, false, "merge: other bounds",
     F3 "  for i in (0, 8, 1) {\n    A[i] = 1.f\n  }\n  for j in (0, 7, 1) {\n    B[j] = 2.f\n"
        "  }\n}\n",
     NULL},
    {unroll3, 1, true, "unroll: with a remainder",
     F1 "  for i in (1, 12, 1) {\n    A[i] = 1.f\n  }\n}\n",
     F1 "  for i in (1, 10, 3) {\n    {\n      A[i] = 1.f\n    }\n    {\n      A[(i + 1)] = 1.f\n"
        "    }\n    {\n      A[(i + 2)] = 1.f\n    }\n  }\n  for i in (10, 12, 1) {\n"
        "    A[i] = 1.f\n  }\n}\n"},
    {unroll, 1, true, "unroll: wholly", F1 "  for i in (2, 6, 3) {\n    A[i] = 1.f\n  }\n}\n",
     F1 "  {\n    A[2] = 1.f\n  }\n  {\n    A[5] = 1.f\n  }\n}\n"},
    {unroll, 1, false, "unroll: the number of turns is not known",
     F1 "  for i in (0, (n % 4), 1) {\n    A[i] = 1.f\n  }\n}\n", NULL},
    {both, 2, true, "parallel merge: one loop, a branch",
     F3 "  for i in (0, 8, 1) parallel {\n    A[i] = 1.f\n  }\n  for j in (2, 8, 2) parallel {\n"
        "    B[j] = 2.f\n  }\n}\n",
     F3 "  for i_m in (0, 11, 1) parallel {\n    if (i_m < 8) {\n      A[i_m] = 1.f\n"
        "    } else {\n      B[(((i_m - 8) * 2) + 2)] = 2.f\n    }\n  }\n}\n"},
    {both, 2, false, "parallel merge: one of them is not parallel",
     F3 "  for i in (0, 8, 1) parallel {\n    A[i] = 1.f\n  }\n  for j in (0, 8, 1) {\n"
        "    B[j] = 2.f\n  }\n}\n",
     NULL}};

/* Does the map lead from nodes of the old body to nodes that stand in the new one? */
typedef struct search {
  const void *node;
  bool found;
} search;
static bool is_stmt(tviewer *v, tstmt s) {
  search *w = (search *)v->user;
  return w->found |= s == w->node, true;
}
static bool is_expr(tviewer *v, texpr e) {
  search *w = (search *)v->user;
  return w->found |= e == w->node, true;
}
static bool stands_in(tstmt s, const void *node) {
  search w = {node, false};
  tviewer v = {.user = &w, .enter_stmt = is_stmt, .enter_expr = is_expr};
  anfi_t_view_stmt(&v, s);
  return w.found;
}
typedef struct traced {
  const tloop_map *map;
  tstmt now;
  unsigned told, lost;
} traced;
static bool trace_stmt(tviewer *v, tstmt s) {
  traced *u = (traced *)v->user;
  const void *to = anfi_t_map_stmt(u->map, s);
  if (to) u->told++, u->lost += !stands_in(u->now, to);
  else u->lost += s->kind == TS_assign && !stands_in(u->now, s); // untold: still there itself
  return true;
}

static void one_loop(anf_ctx *cx, size_t i) {
  char why[600] = "";
  unsigned ran = 0;
  anf_tir_module *m = parse(cx, loops[i].text);
  tfunc f = anf_tir_find(m, "f");
  anfi_arena a;
  tloop_map map;
  anfi_arena_init(&a, cx);
  anfi_map_init(&map.map, &a);
  tstmt s = loops[i].fn(m->t, &a, f->body, &map);
  if (s && loops[i].applies) {
    tstmt body = anfi_t_body(m->t, s);
    anf_text t = {cx, NULL, 0, 0};
    anfi_t_print_func(anfi_t_with_body(m->t, f, body), &t);
    anf_tir_module *o = parse(cx, t.text);
    bool good = t.text && strcmp(t.text, loops[i].want) == 0 && f->body->n == loops[i].used;
    report(good, loops[i].name, t.text);
    values_opts vo = {.seed = 3};
    report(anf_tir_verify(o, NULL) == ANF_OK && same_values(m, o, &vo, why, sizeof why, &ran) &&
               ran,
           "computes the same", why);
    traced u = {.map = &map, .now = body};
    tviewer v = {.user = &u, .enter_stmt = trace_stmt};
    for (uint32_t k = 0; k < f->body->n; k++) anfi_t_view_stmt(&v, f->body->s[k]);
    snprintf(why, sizeof why, "%u told, %u lost", u.told, u.lost);
    report(u.told && !u.lost, "every old node is told where it went, or is still there", why);
    anf_text_free(&t);
    anf_tir_module_free(o);
  } else report(!s && !loops[i].applies, loops[i].name, "applies");
  anfi_arena_free(&a);
  anf_tir_module_free(m);
}

/* What is called inside of the library needs a frame. */
static void in_frame(anf_ctx *cx, size_t i) {
  anfi_frame frame;
  anfi_enter(cx, NULL, &frame);
  if (!setjmp(frame.jump)) one_loop(cx, i);
  anfi_leave(cx);
}

/* ---- running ---- */

static void run_values(anf_ctx *cx) {
  anf_tir_module *m = parse(cx, "func f(n: s32, x: f32, A: [f32 * 2 * 2], b: bool): f32 {\n"
                                "  A[1, 1] = (A[0, 1] * x)\n  return (f32(n) + select(b, x, 0.f))\n"
                                "}\nfunc g(v: f32x2): void {\n}\n");
  anf_diag *d = anf_diag_new(cx);
  anf_value *in[4] = {anf_value_i64(cx, 3), anf_value_f64(cx, 0.5),
                      anf_value_tensor(cx, ANF_F32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4}),
                      anf_value_bool(cx, true)},
            *out[4] = {0}, *r = NULL;
  anf_status st = anf_tir_run_values(m, "f", 4, in, NULL, d, &r, out);
  report(st == ANF_OK && r && anf_value_dtype(r) == ANF_F32 && anf_value_get_f64(r, 0) == 3.5,
         "values go in, numbers take the type of the parameter, the result comes out", NULL);
  const float *left = out[2] ? (const float *)anf_value_data(out[2]) : NULL;
  const float *kept = (const float *)anf_value_data(in[2]);
  report(left && left[3] == 1 && left[0] == 1 && kept[3] == 4 && anf_value_rank(out[2]) == 2,
         "tensors come out as the function left them, the given ones stay", NULL);
  if (r) anf_value_release(r);
  for (int i = 0; i < 4; i++)
    if (out[i]) anf_value_release(out[i]);
  anf_value *swapped[4] = {in[0], in[2], in[1], in[3]};
  st = anf_tir_run_values(m, "f", 4, swapped, NULL, d, &r, NULL);
  report_error(d, "E0869", "argument 2 of 'f' must be a number", "a tensor for a number");
  st =
      anf_tir_run_values(m, "f", 4, (anf_value *[]){in[0], in[1], in[1], in[3]}, NULL, d, &r, NULL);
  report_error(d, "E0869", "argument 3 of 'f' must be a tensor of f32",
               "a number of f64 for a tensor");
  anf_tir_run_values(m, "f", 3, in, NULL, d, &r, NULL);
  report_error(d, "E0855", "wrong number", "three arguments for four");
  anf_tir_run_values(m, "h", 0, NULL, NULL, d, &r, NULL);
  report_error(d, "E0864", "'h'", "no such function");
  st = anf_tir_run_values(m, "g", 1, &in[2], NULL, d, &r, NULL);
  report_error(d, "E0869", "as many numbers", "four numbers for two lanes");
  for (int i = 0; i < 4; i++) anf_value_release(in[i]);
  anf_diag_free(d);
  anf_tir_module_free(m);
}

static void wrapper(anf_ctx *cx) {
  anf_tir_module *o = NULL, *w = NULL,
                 *bare = parse(cx, "func f(n: s32, A: [f32 * 2]): f32 {\n"
                                   "  A[0UL] = 7.f\n  return (A[1UL] * f32(n))\n}\n");
  anf_tir_arg r = {{0}, NULL, 0};
  anf_text t = {cx, NULL, 0, 0};
  anf_diag *d = anf_diag_new(cx);
  anf_tir_opt(bare, "interface_generalizer", NULL, d, &w);
  anf_tir_print(w, &t);
  char *text = (char *)malloc(t.len + 1000);
  static const char driver[] =
      "func g(): s64 {\n  var n: s32 = 3\n  tensor A: [f32 * 2] = {2.5f}\n"
      "  tensor args: [generic * 3]\n  args[0UL] = generic(n)\n  args[1UL] = generic(A)\n"
      "  f_0wrapper(args)\n  return s64(((f32(args[2UL]) * 10.f) + A[0UL]))\n}\n";
  sprintf(text, "%s\n%s", t.text, driver);
  o = parse(cx, text);
  anf_status st = o ? anf_tir_run(o, "g", 0, NULL, NULL, d, &r) : ANF_INVALID;
  const anf_diag_item *it = anf_diag_at(d, 0);
  report(st == ANF_OK && r.v.s64 == 82, "a wrapper takes slots and gives its result behind them",
         it ? it->message : NULL);
  free(text);
  anf_text_free(&t);
  anf_diag_free(d);
  anf_tir_module_free(bare);
  anf_tir_module_free(w);
  anf_tir_module_free(o);
}

typedef struct trail {
  int64_t at[16];
  size_t n;
} trail;
static void note(void *user, int64_t id, bool leaves) {
  trail *t = (trail *)user;
  if (t->n < 16) t->at[t->n++] = leaves ? -id - 1 : id + 1;
}

static void traces(anf_ctx *cx) {
  anf_tir_module *m = parse(cx, "func g(n: s32): s32 {\n  if (n > 1) {\n    return 2\n  }\n"
                                "  return n\n}\n"
                                "func f(n: s32): s32 {\n  return (g(n) + g(1))\n}\n"),
                 *o = NULL;
  trail t = {{0}, 0};
  anf_tir_arg in = {.v = {.s32 = 5}}, r;
  anf_tir_run_opts ro = {.size = sizeof ro, .trace = note, .user = &t};
  anf_tir_opt(m, "trace_inserter", NULL, NULL, &o);
  anf_status st = anf_tir_run(o, "f", 1, &in, &ro, NULL, &r);
  static const int64_t want[] = {2, 1, -1, 1, -1, -2};
  report(st == ANF_OK && r.v.s32 == 3 && t.n == 6 && memcmp(t.at, want, sizeof want) == 0,
         "traces tell every entry and every way out", NULL);
  anf_tir_module_free(m);
  anf_tir_module_free(o);
}

/* ---- math ---- */

enum { SAMPLES = 60000 };

/* Floats of all magnitudes in [lo, hi], and the ends. */
static float sample(uint64_t *s, float lo, float hi) {
  for (;;) {
    uint32_t bits = (uint32_t)next_random(s);
    float x;
    memcpy(&x, &bits, sizeof x);
    if (x >= lo && x <= hi) return x;
    x = lo + (float)(bits >> 8) / 16777216.0f * (hi - lo);
    if (bits & 1 && x >= lo && x <= hi) return x;
  }
}
static double units(double got, double want) { // of the last place of a f32
  int e;
  if (got == want || (isnan(got) && isnan(want))) return 0;
  frexp(want, &e);
  return fabs(got - want) / ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

static double worst(anf_ctx *cx, const char *fn, const char *passes, double (*ref)(double),
                    float lo, float hi, bool absolute) {
  char text[300];
  float *in = (float *)calloc(SAMPLES, sizeof *in), *out = (float *)calloc(SAMPLES, sizeof *out);
  uint64_t s = 11;
  double most = 0;
  snprintf(text, sizeof text,
           "func f(A: [f32 * %d], B: [f32 * %d]): void {\n  for i in (0UL, %dUL, 1UL) {\n"
           "    B[i] = %s(A[i])\n  }\n}\n",
           SAMPLES, SAMPLES, SAMPLES, fn);
  for (int i = 0; i < SAMPLES; i++) in[i] = i == 0 ? lo : i == 1 ? hi : sample(&s, lo, hi);
  anf_tir_module *m = parse(cx, text), *o = NULL;
  anf_tir_arg arg[2] = {{{0}, in, SAMPLES * sizeof *in}, {{0}, out, SAMPLES * sizeof *out}}, r;
  anf_tir_run_opts ro = {.size = sizeof ro, .plain = true};
  bool good = anf_tir_opt(m, passes, NULL, NULL, &o) == ANF_OK &&
              anf_tir_run(o, "f", 2, arg, &ro, NULL, &r) == ANF_OK;
  for (int i = 0; i < SAMPLES && good; i++) {
    double want = ref((double)in[i]), got = (double)out[i];
    double e = absolute ? fabs(got - want) : units(got, want);
    if (!(e <= most)) most = e;
  }
  free(in);
  free(out);
  anf_tir_module_free(m);
  anf_tir_module_free(o);
  return good ? most : INFINITY;
}

static void accuracy(anf_ctx *cx) {
  static const char lower[] = "auto_caster bf16_legalizer target_specific_lowering_cpu";
  static const struct {
    const char *fn, *passes, *name;
    double (*ref)(double);
    float lo, hi;
    double limit;
    bool absolute;
  } row[] = {{"exp", lower, "helper exp: 2 units", exp, -103.9f, 88.7f, 2, false},
             {"log", lower, "helper log: 2 units", log, 1e-45f, 3.4e38f, 2, false},
             {"erf", lower, "helper erf: 5e-7", erf, -1e3f, 1e3f, 5e-7, true},
             {"exp", "auto_caster", "interpreter exp: 1 unit", exp, -103.9f, 88.7f, 1, false},
             {"log", "auto_caster", "interpreter log: 1 unit", log, 1e-45f, 3.4e38f, 1, false},
             {"tanh", "auto_caster", "interpreter tanh: 1 unit", tanh, -50, 50, 1, false},
             {"lgamma", "auto_caster", "interpreter lgamma: 1 unit", lgamma, 0.1f, 1e4f, 1, false},
             {"erf", "auto_caster", "interpreter erf: 1 unit", erf, -1e3f, 1e3f, 1, false}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char got[64];
    double e =
        worst(cx, row[i].fn, row[i].passes, row[i].ref, row[i].lo, row[i].hi, row[i].absolute);
    snprintf(got, sizeof got, "%g", e);
    report(e <= row[i].limit, row[i].name, got);
    if (getenv("SHOW")) printf("# %s %s\n", row[i].name, got);
  }
}

/* ---- faults ---- */

static const char faulty[] =
    "private tensor W: [f32 * 4] = {1.f, 2.f, 3.f, 4.f}\n"
    "func sq(x: f32): f32 @[inline_level=2, is_private, pure] {\n  return (x * x)\n}\n"
    "func each(i: index, A: [f32 * 4]): void @[is_private] {\n  A[i] = (A[i] + W[i])\n}\n"
    "func f(n: s32, A: [f32 * 2 * 4]): f32 {\n"
    "  var s: f32 = 0\n  var d: s32 = 4\n  tensor T: [f32 * 2 * d] = {0.5f}\n  d = 1\n"
    "  for i in (0, 4, 1) parallel {\n    T[1, i] = sq(A[0, i])\n  }\n"
    "  for i in (0, 4, 1) @[unroll_loop=3] {\n    if (i < 2) {\n      s = (s + T[1, i])\n    }\n  "
    "}\n"
    "  while (s > 100.f) {\n    s = (s / 2)\n  }\n"
    "  each(&A[1, 0])@parallel([0UL, 4UL, 1UL])\n"
    "  A[0, 0 @ 4] = (A[1, 0 @ 4] + bf16x4(A[1, 0 @ 4]))\n"
    "  return (exp(s) + call(&sq: f32, s))\n}\n";

static anf_status work_parse(anf_ctx *cx, void *user) {
  anf_tir_module *m = NULL, *back = NULL;
  anf_text t = {cx, NULL, 0, 0};
  anf_status st = anf_tir_parse(cx, faulty, sizeof faulty - 1, "fault", NULL, &m);
  (void)user;
  if (st == ANF_OK) st = anf_tir_verify(m, NULL);
  if (st == ANF_OK) st = anf_tir_print(m, &t);
  if (st == ANF_OK) st = anf_tir_parse(cx, t.text, t.len, "back", NULL, &back);
  if (st == ANF_OK && !anf_tir_equal(m, back, NULL, NULL)) st = ANF_NOMEM; // it has no status
  anf_text_free(&t);
  anf_tir_module_free(m);
  anf_tir_module_free(back);
  return st;
}
static anf_status work_opt(anf_ctx *cx, void *user) {
  anf_tir_module *m = NULL, *o = NULL;
  anf_tir_opt_opts oo = {.size = sizeof oo, .verify_each = true};
  anf_status st = anf_tir_parse(cx, faulty, sizeof faulty - 1, "fault", NULL, &m);
  if (st == ANF_OK) st = anf_tir_opt(m, (const char *)user, &oo, NULL, &o);
  anf_tir_module_free(m);
  anf_tir_module_free(o);
  return st;
}
static anf_status work_run(anf_ctx *cx, void *user) {
  anf_tir_module *m = NULL;
  anf_value *in[2] = {anf_value_i64(cx, 3),
                      anf_value_tensor(cx, ANF_F32, 2, (int64_t[]){2, 4}, NULL)};
  anf_value *r = NULL, *out[2] = {0};
  anf_status st = in[0] && in[1] ? ANF_OK : ANF_NOMEM;
  (void)user;
  if (st == ANF_OK) st = anf_tir_parse(cx, faulty, sizeof faulty - 1, "fault", NULL, &m);
  if (st == ANF_OK) st = anf_tir_run_values(m, "f", 2, in, NULL, NULL, &r, out);
  anf_value *all[] = {in[0], in[1], r, out[0], out[1]};
  for (int i = 0; i < 5; i++)
    if (all[i]) anf_value_release(all[i]);
  anf_tir_module_free(m);
  return st;
}
static anf_status work_build(anf_ctx *cx, void *user) {
  anf_tir_module *m = NULL;
  anf_tb *b = anf_tb_new(cx);
  (void)user;
  if (!b) return ANF_NOMEM;
  every_macro(b);
  anf_status st = anf_tb_finish(b, NULL, &m);
  anf_tir_module_free(m);
  anf_tb_free(b);
  return st;
}

static void faults(void) {
  report(fault_loop(work_parse, NULL) > 0, "no allocation of parser, printer, validator is missed",
         NULL);
  report(fault_loop(work_opt, (void *)(uintptr_t) "trace_inserter default") > 0, "nor of passes",
         NULL);
  report(fault_loop(work_opt, (void *)(uintptr_t) "dyn_boundary_check codegen") > 0,
         "nor of those of engines", NULL);
  report(fault_loop(work_run, NULL) > 0, "nor of runs", NULL);
  report(fault_loop(work_build, NULL) > 0, "nor of builders", NULL);
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  sums(cx);
  kinds(cx);
  macros(cx);
  broken_builds(cx);
  attributes(cx);
  invalid(cx);
  deep(cx);
  hashes(cx);
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) in_frame(cx, i);
  run_values(cx);
  wrapper(cx);
  traces(cx);
  accuracy(cx);
  anf_ctx_free(cx);
  faults();
  printf("1..%u\n", count);
  return failed != 0;
}
