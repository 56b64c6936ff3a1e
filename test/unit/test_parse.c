// SPDX-License-Identifier: Apache-2.0
/* Reading programs: every error of the text with its place, limits, the graphs that come out,
 * single values and types. Values of programs are in golden/lang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "test/unit/fault.h"
#include "test/unit/context.h"

#include <stdio.h>
#include <string.h>

/* ---- errors: the first one's code and place ---- */

typedef struct {
  const char *code;
  uint32_t line, col;
  const char *text;
} bad;

// clang-format off
static const bad bads[] = {
  {"E0101", 1, 16, "def f(x) { x + \xff 1 }"},
  {"E0101", 1, 13, "def f() { \"a\xc3\" }"},
  {"E0101", 1, 3, "# \xed\xa0\x80"},
  {"E0102", 1, 14, "def f(x) { x $ 1 }"},
  {"E0102", 1, 12, "def f(x) { \x01 }"},
  {"E0102", 1, 5, "def `a\\x00b`() { 1 }"},
  {"E0103", 1, 11, "def f() { \"abc\n }"},
  {"E0103", 1, 5, "def `abc"},
  {"E0104", 1, 13, "def f() { \"a\\q\" }"},
  {"E0104", 1, 12, "def f() { \"\\u{110000}\" }"},
  {"E0105", 1, 11, "def f() { 12abc }"},
  {"E0105", 1, 11, "def f() { 0xfg }"},
  {"E0105", 1, 11, "def f() { 1_ }"},
  {"E0106", 1, 11, "def f() { 9223372036854775808 }"},
  {"E0106", 1, 14, "def f() { i8(300) }"},
  {"E0106", 1, 14, "def f() { u8(-1) }"},
  {"E0106", 1, 11, "def f() { 99999999999999999999999 }"},
  {"E0106", 1, 11, "def f() { 1e999 }"},
  {"E0107", 1, 16, "def f(x) { x + }"},
  {"E0107", 1, 14, "def f(x) { y z }"},
  {"E0107", 1, 1, "x = 3"},
  {"E0107", 2, 6, "def f(x) {\n  if = 3 }"},
  {"E0107", 1, 5, "def 3() { 1 }"},
  {"E0107", 1, 14, "def f() -> { 1 }"},
  {"E0108", 1, 14, "def f(x) { g((1, 2 }"},
  {"E0108", 1, 10, "def f(x) { x + 1\n\ndef h() { 1 }"},
  {"E0108", 1, 6, "def f(x"},
  {"E0109", 1, 7, "def f(i32) { 1 }"},
  {"E0109", 1, 11, "def f() { f32 = 1; 2 }"},
  {"E0111", 1, 12, "def f(x) { x[0] = 1; 3 }"},
  {"E0111", 1, 16, "def f(x) { (a, b + 1) = x; 3 }"},
  {"E0112", 2, 5, "def f(x) { 1 }\ndef f(y) { 2 }"},
  {"E0112", 1, 29, "def g(x) { def k() {1}; def k() {2}; 1 }"},
  {"E0113", 1, 10, "def g(x, x) { 1 }"},
  {"E0114", 1, 16, "def f(value) { valeu + 1 }"},
  {"E0115", 1, 15, "def f() { y = x + 1; x = 2; y }"},
  {"E0116", 1, 28, "def f(c) { if c { x = 1 }; x }"},
  {"E0116", 1, 43, "def g(n) { while n > 0 { y = n; n -= 1 }; y }"},
  {"E0117", 1, 12, "def f(c) { break; 1 }"},
  {"E0117", 1, 34, "def g() { while true { def k() { continue } } }"},
  {"E0118", 1, 20, "def f() { [[1, 2], [3]] }"},
  {"E0118", 1, 18, "def g() { f32[2]([1,2,3]) }"},
  {"E0118", 1, 15, "def g() { [1, [2]] }"},
  {"E0119", 1, 19, "def g() { f32[1]([\"a\"]) }"},
  {"E0120", 1, 10, "def f(x: f33) { x }"},
  {"E0121", 1, 15, "def f() { f32[-1] }"},
  {"E0122", 1, 10, "def f(x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) { x }"},
  {"E0123", 1, 12, "def f(x) { ? + 1 }"},
  {"E0124", 1, 16, "def f(x) { y = if x { return 1 } else { 2 }; y }"},
  {"E0125", 1, 11, "def f() { (a, b) = (1, 2, 3); a }"},
  {"E0126", 1, 14, "def f(x) { f.q }"},
  {"E0127", 1, 5, "def f() { x = g.y; x }\ndef g() { y = f.x; y }"},
  {"E0128", 1, 16, "def f(x) { y = g(); def g() { x }; y }"},
  {"E0128", 1, 32, "def f() { def h() { g() }; y = h(); def g() { y }; y }"},
  {"E0129", 1, 16, "def f(x) { y = if x { 1 }; y }"},
  {"E0130", 1, 22, "def f(x) { return 1; x }"},
  {"E0131", 1, 20, "def f(x) { {a = 1, a = 2} }"},
  {"E0131", 1, 27, "def h(x) { Sum(x, axis=0, axis=1) }"},
  {"E0131", 1, 27, "def h(x: {a: f32, b: f32, a: i32}) { x }"},
  {"E0132", 1, 12, "def f(x) { y: i32 = 1.5; y }"},
  {"E0133", 1, 24, "def f(x, y) { f(x = 1, 2) }"},
  {"E0134", 1, 22, "def f(a, x) { partial(Sum, axis=a)(x) }"},
  {"E0135", 1, 14, "def f(g) { g(x=1) }"},
  {"E0136", 1, 18, "def f(first) { f(frist=1) }"},
  {"E0137", 1, 15, "def f(x, y) { f(1) }"},
  {"E0138", 1, 12, "def f(x) { 3(x) }"},
  {"E0139", 1, 19, "def f(x) { x[..., ...] }"},
  {"E0140", 1, 13, "def g(x) { x[] }"},
  {"E0201", 1, 12, "def f(x) { Conv2d(x) }"},
  {"E0204", 1, 19, "def f(x) { effect y = x; y }"},
  {"E0202", 1, 16, "def g(x) { Relu(x, x) }"},
  {"E0203", 1, 19, "def h(x) { Sum(x, axs=1) }"},
  {"E0205", 1, 19, "def i(x) { Sum(x, keepdims=3) }"},
};
// clang-format on

static bool check_bad(const bad *b) {
  anf_module *m = NULL;
  anf_diag_clear(d);
  anf_status st = anf_parse(cx, b->text, "t.anf", d, &m);
  const anf_diag_item *it = anf_diag_at(d, 0);
  bool good = st != ANF_OK && !m && it && strcmp(it->code, b->code) == 0 && it->line == b->line &&
              it->col == b->col;
  if (!good) {
    print_error("%s\nexpected %s at %u:%u, got:\n", b->text, b->code, b->line, b->col);
    anf_diag_print(d, stderr, false);
  }
  anf_module_free(m);
  return good;
}

static void errors_have_code_and_place(void **state) {
  (void)state;
  size_t wrong = 0;
  for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) wrong += !check_bad(&bads[i]);
  assert_int_equal(wrong, 0);
}

static void errors_go_on(void **state) {
  (void)state;
  char text[4096] = "def f() {\n";
  for (int i = 0; i < 30; i++) strcat(text, "a = @\n");
  strcat(text, "1 }");
  anf_module *m = NULL;
  anf_diag_clear(d);
  assert_int_equal(anf_parse(cx, text, "t.anf", d, &m), ANF_INVALID);
  assert_int_equal(anf_diag_count(d), 20); // and no more is read
  for (uint32_t i = 0; i < 20; i++) assert_int_equal(anf_diag_at(d, i)->line, i + 2);
}

static void hints(void **state) {
  (void)state;
  anf_module *m = NULL;
  anf_diag_clear(d);
  anf_parse(cx, "def f(value) { valeu }\ndef g(x) { Conv2d(x) }\ndef h(x) { Sum(x, axs=1) }",
            "t.anf", d, &m);
  assert_string_equal(anf_diag_at(d, 0)->hint, "did you mean 'value'?");
  assert_string_equal(anf_diag_at(d, 1)->hint, "did you mean 'Conv2D'?");
  assert_string_equal(anf_diag_at(d, 2)->hint, "did you mean 'axis'?");
  assert_string_equal(anf_diag_at(d, 0)->source, "def f(value) { valeu }");
}

/* ---- limits ---- */

static char *repeat(const char *before, const char *s, size_t n, const char *after) {
  size_t len = strlen(s);
  char *t = (char *)malloc(strlen(before) + n * len + strlen(after) + 1);
  char *p = t + strlen(before);
  strcpy(t, before);
  for (size_t i = 0; i < n; i++, p += len) memcpy(p, s, len);
  strcpy(p, after);
  return t;
}

static anf_status parse_status(char *text, const char *code) {
  anf_module *m = NULL;
  anf_diag_clear(d);
  anf_status st = anf_parse(cx, text, "t.anf", d, &m);
  free(text);
  if (code) {
    assert_int_equal(anf_diag_count(d), 1);
    assert_string_equal(anf_diag_at(d, 0)->code, code);
  }
  anf_module_free(m);
  return st;
}

static void nesting_is_limited(void **state) {
  (void)state;
  static const char *const openers[] = {"(", "[",    "{a=",    "f(",      "x[",
                                        "-", "not ", "if x {", "fn (x) {"};
  for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++)
    assert_int_equal(parse_status(repeat("def f(x) { ", openers[i], 1000000, ""), "E0110"),
                     ANF_LIMIT);
  assert_int_equal(parse_status(repeat("def f(x: ", "(", 1000000, ""), "E0110"), ANF_LIMIT);
  assert_int_equal(parse_status(repeat("", "def f(x) {", 1000000, ""), "E0110"), ANF_LIMIT);
}

static void chains_are_not_nesting(void **state) {
  (void)state;
  assert_int_equal(parse_status(repeat("def f(x) { x", " + x", 1000000, " }"), NULL), ANF_OK);
  assert_int_equal(parse_status(repeat("def f(x) { x", " ** x", 100000, " }"), NULL), ANF_OK);
  assert_int_equal(parse_status(repeat("def f(x) { x", " and x", 20000, " }"), NULL), ANF_OK);
  assert_int_equal(parse_status(repeat("def f(x) { x", " < x", 20000, " }"), NULL), ANF_OK);
  assert_int_equal(parse_status(repeat("def f(x) { x", "(1)", 100000, " }"), NULL), ANF_OK);
  assert_int_equal(
      parse_status(repeat("def f(x) { ", "if x == 1 { 2 } else ", 20000, "{ 3 } }"), NULL), ANF_OK);
  assert_int_equal(
      parse_status(repeat("def f(x) {\n", "if x == 1 { return 2 }\n", 20000, "3 }"), NULL), ANF_OK);
  assert_int_equal(
      parse_status(repeat("def f(x) {\n", "while x < 1 { x += 1 }\n", 20000, "3 }"), NULL), ANF_OK);
}

/* ---- graphs ---- */

static void graphs_of_a_loop(void **state) {
  (void)state;
  anf_module *m = NULL;
  assert_int_equal(anf_parse(cx,
                             "def pow(x: f32, n: i64) -> f32 {\n  acc = 1.0\n  while n > 0 { acc = "
                             "acc * x; n = n - 1 }\n  acc\n}",
                             "pow.anf", d, &m),
                   ANF_OK);
  anf_graph *pow = anf_module_find(m, "pow"), *head = anf_module_find(m, "↵pow");
  assert_non_null(anf_module_find(m, "↻pow"));
  assert_non_null(anf_module_find(m, "↓pow"));
  assert_int_equal(anf_graph_param_count(head), 2);
  assert_string_equal(anf_node_name(anf_graph_param(head, 0)), "acc");
  assert_string_equal(anf_node_name(anf_graph_param(head, 1)), "n");
  assert_ptr_equal(anf_node_callee_graph(anf_graph_result(pow)), head);
  assert_ptr_equal(anf_graph_result_type(pow), anf_type_scalar(cx, ANF_F32));
  anf_node *pick = anf_node_input(anf_graph_result(head), 0);
  assert_string_equal(anf_node_op(pick), "Switch");
  anf_node *more = anf_node_input(pick, 1);
  assert_string_equal(anf_node_op(more), "Greater");
  assert_string_equal(anf_node_file(more), "pow.anf");
  assert_int_equal(anf_node_line(more), 3);
  assert_int_equal(anf_node_col(more), 11);
  assert_int_equal(anf_verify(m, NULL), ANF_OK);
  anf_module_free(m);
}

static void marks_do_not_grow(void **state) {
  (void)state;
  anf_module *m = NULL;
  char *text = repeat("def f(x) { ", "if x == 1 { 2 } else ", 500, "{ 3 } }");
  assert_int_equal(anf_parse(cx, text, "t.anf", d, &m), ANF_OK);
  free(text);
  assert_non_null(anf_module_find(m, "✗✗✗✗✗✗✗✗f"));
  assert_non_null(anf_module_find(m, "✗500_f"));
  anf_module_free(m);
}

static void source_lines_outlive_parsing(void **state) {
  (void)state;
  anf_module *m = NULL;
  char text[] = "def f(x) { x }\ndef g(c) { if c { g } else { 1 } }";
  assert_int_equal(anf_parse(cx, text, "kept.anf", d, &m), ANF_OK);
  memset(text, 'z', sizeof text - 1);
  anf_value *s = anf_value_string(cx, "text", 4), *out = NULL;
  anf_diag_clear(d);
  assert_int_equal(anf_run(anf_module_find(m, "g"), 1, &s, NULL, d, &out), ANF_INVALID);
  assert_string_equal(anf_diag_at(d, 0)->source, "def g(c) { if c { g } else { 1 } }");
  anf_value_release(s);
  anf_module_free(m);
}

/* ---- single values and types ---- */

static void values_from_text(void **state) {
  (void)state;
  static const struct {
    const char *text, *print;
  } good[] = {{"3", "3"},
              {" -2.5 ", "-2.5"},
              {"true", "true"},
              {"None", "None"},
              {"(1, 2.0)", "(1, 2.0)"},
              {"(7,)", "(7,)"},
              {"[[1, 2], [3, 4]]", "[[1, 2], [3, 4]]"},
              {"\"a b\"", "\"a b\""},
              {"f32[2]([1, 2])", "[1.0, 2.0]"},
              {"{w = 1}", "{w = 1}"},
              {"nan", "nan"},
              {"-9223372036854775808", "-9223372036854775808"},
              {"f32[2, 3]", "f32[2, 3]"},
              {"(1,\n 2)", "(1, 2)"}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    anf_value *v = NULL;
    anf_text out = {cx, NULL, 0, 0};
    assert_int_equal(anf_parse_value(cx, good[i].text, d, &v), ANF_OK);
    assert_int_equal(anf_value_print(cx, v, 0, &out), ANF_OK);
    assert_string_equal(out.text, good[i].print);
    anf_text_free(&out);
    anf_value_release(v);
  }
}

static void no_values(void **state) {
  (void)state;
  static const bad bad_values[] = {{"E0143", 1, 3, "1 + 2"}, {"E0107", 1, 1, ""},
                                   {"E0107", 1, 3, "1 2"},   {"E0114", 1, 1, "x"},
                                   {"E0108", 1, 1, "(1, 2"}, {"E0143", 1, 1, "fn (x) { x }"}};
  for (size_t i = 0; i < sizeof bad_values / sizeof bad_values[0]; i++) {
    anf_value *v = NULL;
    anf_diag_clear(d);
    assert_int_equal(anf_parse_value(cx, bad_values[i].text, d, &v), ANF_INVALID);
    assert_null(v);
    assert_string_equal(anf_diag_at(d, 0)->code, bad_values[i].code);
  }
}

static void types_from_text(void **state) {
  (void)state;
  static const char *const good[] = {"f32",
                                     "f32[2, B, ?]",
                                     "(i64, f32)",
                                     "(f32,)",
                                     "()",
                                     "{w: f32[3], b: none}",
                                     "fn(f32, str) -> (i64, any)",
                                     "type",
                                     "key",
                                     "int",
                                     "float",
                                     "fn() -> fn() -> bool",
                                     "i8[0]"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    const anf_type *t = NULL;
    anf_text out = {cx, NULL, 0, 0};
    assert_int_equal(anf_parse_type(cx, good[i], d, &t), ANF_OK);
    assert_int_equal(anf_type_print(cx, t, &out), ANF_OK);
    assert_string_equal(out.text, good[i]);
    anf_text_free(&out);
  }
  const anf_type *t = NULL;
  assert_int_equal(anf_parse_type(cx, "f32[2", d, &t), ANF_INVALID);
  assert_int_equal(anf_parse_type(cx, "f32 f32", d, &t), ANF_INVALID);
}

static void write_file(const char *path, const char *text, size_t len) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, len, f), len);
  assert_int_equal(fclose(f), 0);
}

/* A file with a foreign ending is read by its first bytes. */
static void files_by_magic(void **state) {
  (void)state;
  static const char model[] = "7767517\n2 1\npnnx.Input a 0 1 0 #0=(2)f32\npnnx.Output b 1 0 0\n";
  anf_module *m = NULL;
  anf_text out = {cx, NULL, 0, 0};
  assert_int_equal(anf_parse(cx, "def twice(x: f32) { x + x }", "t.anf", d, &m), ANF_OK);
  assert_int_equal(anf_write_dat(m, &out), ANF_OK);
  anf_module_free(m);
  write_file("magic_of_load.txt", out.text, out.len);
  anf_text_free(&out);
  assert_int_equal(anf_load(cx, "magic_of_load.txt", d, &m), ANF_OK);
  assert_non_null(anf_module_find(m, "twice"));
  anf_module_free(m);
  write_file("magic_of_load.txt", model, sizeof model - 1);
  assert_int_equal(anf_load(cx, "magic_of_load.txt", d, &m), ANF_OK);
  assert_non_null(anf_module_find(m, "main"));
  anf_module_free(m);
  anf_text mindir = {cx, NULL, 0, 0};
  assert_int_equal(anf_parse(cx, "def main(x: f32[2]) { Tanh(x) * 2 }", "t.anf", d, &m), ANF_OK);
  const anf_type *type = NULL;
  assert_int_equal(anf_parse_type(cx, "f32[2]", d, &type), ANF_OK);
  assert_int_equal(anf_write_mindir(anf_module_find(m, "main"), 1, &type, d, &mindir), ANF_OK);
  anf_module_free(m);
  write_file("magic_of_load.txt", mindir.text, mindir.len);
  anf_text_free(&mindir);
  assert_int_equal(anf_load(cx, "magic_of_load.txt", d, &m), ANF_OK);
  assert_non_null(anf_module_find(m, "net"));
  anf_module_free(m);
  write_file("magic_of_load.txt", model, 4);
  assert_int_equal(anf_load(cx, "magic_of_load.txt", d, &m), ANF_INVALID);
  assert_int_equal(remove("magic_of_load.txt"), 0);
}

static void files_by_ending(void **state) {
  (void)state;
  anf_module *m = NULL;
  anf_diag_clear(d);
  assert_int_equal(anf_load(cx, "model.txt", d, &m), ANF_INVALID);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0142");
  anf_diag_clear(d);
  assert_int_equal(anf_load(cx, "there/is/none.anf", d, &m), ANF_IO);
  assert_null(m);
}

static void text_is_limited(void **state) {
  (void)state;
  anf_module *m = NULL;
  anf_diag_clear(d);
  assert_int_equal(anf_parse_n(cx, "not looked at", (size_t)1 << 31, "t.anf", d, &m), ANF_LIMIT);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0141");
  char *line = repeat("def f() { 1 }\n# ", "0123456789", 10000000, ""); // 100 MB
  anf_diag_clear(d);
  assert_int_equal(anf_parse(cx, line, "t.anf", d, &m), ANF_LIMIT);
  free(line);
  assert_string_equal(anf_diag_at(d, 0)->code, "E0144");
  assert_int_equal(anf_diag_at(d, 0)->line, 2);
  anf_ctx_opts o = {.size = sizeof o, .max_bytes = 1 << 20};
  anf_ctx *small = anf_ctx_new(&o);
  char *text = repeat("def f(x) { x", " + x", 100000, " }");
  assert_int_equal(anf_parse(small, text, "t.anf", NULL, &m), ANF_LIMIT);
  free(text);
  anf_ctx_free(small);
}

/* ---- out of memory ---- */

static const char wide[] =
    "def f(x: f32[2, B], n) -> any {\n"
    "  (a, b) = (x, {w = n, v = 2})\n  s = 0\n"
    "  for i in 0..n { if i == 3 { continue }; while s > i { s -= 1; if s == 7 { return b.w } }; s "
    "+= i }\n"
    "  def g(y) { h(y, [s, y]) }\n  def h(y, z) { z[1] + y }\n"
    "  print(\"text\", g(1)); c = if s > 1 and n < 2 < s { f32[2]([1, 2]) } else { x[0, 1:] }\n"
    "  Sum(c, axis=(0,)) + partial(Sum, axis=0)([1.0, 2.0]) + switch(n, (Neg, Abs))(x.T)\n}\n";

static anf_status parse_wide(anf_ctx *c, void *user) {
  (void)user;
  anf_module *m = NULL;
  anf_value *v = NULL;
  anf_status st = anf_parse(c, wide, "wide.anf", NULL, &m);
  if (st == ANF_OK) st = anf_parse_value(c, "(1, [[2.0]], {a = \"b\"}, f32[1]([2]))", NULL, &v);
  anf_value_release(v);
  anf_module_free(m);
  return st;
}

static anf_status parse_bad(anf_ctx *c, void *user) {
  (void)user;
  anf_module *m = NULL;
  anf_diag *list = anf_diag_new(c);
  anf_status st = list
                      ? anf_parse(c, "def f(x) { y = (x; z }\ndef g() { h(x }", "bad.anf", list, &m)
                      : ANF_NOMEM;
  if (st == ANF_INVALID && anf_diag_count(list) < 3)
    st = ANF_NOMEM; // an error could not be written down
  anf_diag_free(list);
  return st == ANF_INVALID ? ANF_OK : st;
}

static void faults(void **state) {
  (void)state;
  fault_loop(parse_wide, NULL);
  fault_loop(parse_bad, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_have_code_and_place),
      cmocka_unit_test(errors_go_on),
      cmocka_unit_test(hints),
      cmocka_unit_test(nesting_is_limited),
      cmocka_unit_test(chains_are_not_nesting),
      cmocka_unit_test(graphs_of_a_loop),
      cmocka_unit_test(marks_do_not_grow),
      cmocka_unit_test(source_lines_outlive_parsing),
      cmocka_unit_test(values_from_text),
      cmocka_unit_test(no_values),
      cmocka_unit_test(types_from_text),
      cmocka_unit_test(files_by_magic),
      cmocka_unit_test(files_by_ending),
      cmocka_unit_test(text_is_limited),
      cmocka_unit_test(faults),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
