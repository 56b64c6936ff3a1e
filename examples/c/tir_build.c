// SPDX-License-Identifier: Apache-2.0
/* A module of Tensor IR built, read, changed and compiled in C: a dense layer by a kernel of products with bias and ReLU behind it, a
 * column as a strided view, a counter of the module. What the validator refuses an engine does not compile, and says in which line of this file.
 * prints: layer 4 0 11, calls 1, column 2 8 14, kinds 78, 10 casts, made anew equal, E0822 at its line, 3 functions */
#include <anfora/anfora.h>
#include <anfora/jit.h>
#include <anfora/tir.h>

typedef struct parts { // of the module
  anf_tir_expr w, bias, calls;
} parts;

static parts add_data(anf_tir_module *m) {
  static const float weight[4 * 3] = {1, -1, 0, 0, -1, 1, 1, 0, 1, 0, 0, 1}, bias[3] = {0, 1, 2};
  parts p = {.w = anf_tir_make_tensor(m, ANF_TIR_f32, "w", 2, (const int64_t[]){4, 3}),
             .bias = anf_tir_make_tensor(m, ANF_TIR_f32, "bias", 1, (const int64_t[]){3}),
             .calls = anf_tir_module_add_scalar(m, ANF_TIR_s64, "calls", NULL, false)};
  anf_tir_expr w = anf_tir_make_values(m, ANF_TIR_f32, 12, weight);
  anf_tir_expr b = anf_tir_make_values(m, ANF_TIR_f32, 3, bias);
  anf_tir_module_add_private(m, anf_tir_make_define_unattached(m, p.w, w));
  anf_tir_module_add_private(m, anf_tir_make_define_unattached(m, p.bias, b));
  return p;
}

static anf_tir_expr start_of(anf_tb *b, anf_tir_expr tensor, size_t rank) {
  anf_tir_expr zero[2] = {ANF_E(b, 0UL), ANF_E(b, 0UL)};
  return anf_tir_make_tensorptr(anf_tb_module(b), tensor, rank, zero);
}

/* Any number of rows: out = relu(x w + bias). */
static void add_layer(anf_tb *b, const parts *p) {
  ANF_FUNC(b, void, "layer", ANF_ARG("n", index), ANF_ARG_TENSOR("x", f32, ANF_DIM(0), 4),
           ANF_ARG_TENSOR("out", f32, ANF_DIM(0), 3)) {
    anf_tir_brgemm product = {.size = sizeof product,
                              .a = start_of(b, ANF_PARAM(b, 1), 2),
                              .b = start_of(b, p->w, 2),
                              .c = start_of(b, ANF_PARAM(b, 2), 2),
                              .num = ANF_E(b, 1),
                              .m = ANF_PARAM(b, 0),
                              .n = ANF_E(b, 3),
                              .k = ANF_E(b, 4),
                              .lda = ANF_E(b, 4),
                              .ldb = ANF_E(b, 3),
                              .ldc = ANF_E(b, 3),
                              .stride_a = ANF_E(b, 0),
                              .stride_b = ANF_E(b, 0),
                              .init = true,
                              .relu = true,
                              .bias = start_of(b, p->bias, 1)};
    ANF_EVAL(b, anf_tir_make_brgemm(anf_tb_module(b), &product));
    ANF_SET(b, p->calls, ANF_ADD(b, p->calls, 1L));
    ANF_RETURN_VOID(b);
  }
}

/* Column k of a table, by a view with a stride. */
static void add_column(anf_tb *b) {
  ANF_FUNC(b, void, "column", ANF_ARG("k", index), ANF_ARG_TENSOR("x", f32, 3, 6),
           ANF_ARG_TENSOR("out", f32, 3)) {
    anf_tir_expr at[2] = {ANF_E(b, 0UL), ANF_PARAM(b, 0)};
    anf_tir_expr from = anf_tir_make_tensorptr(anf_tb_module(b), ANF_PARAM(b, 1), 2, at);
    anf_tir_expr rows = ANF_E(b, 3UL), stride = ANF_E(b, 6UL);
    anf_tir_expr column = anf_tb_tensor_of(b, ANF_TIR_f32, "column", 1, &rows, &stride, from);
    ANF_FOR(b, i, 0UL, 3UL) { ANF_SET(b, ANF_AT(b, ANF_PARAM(b, 2), i), ANF_AT(b, column, i)); }
    ANF_RETURN_VOID(b);
  }
}

/* A number of each type of C, and a bool. */
static void add_kinds(anf_tb *b) {
  ANF_FUNC(b, s64, "kinds", ANF_ARG("flag", bool)) {
    ANF_VAR_INIT(b, sum, s64, 0L);
    ANF_VAR(b, yes, bool);
    ANF_SET(b, yes, ANF_PARAM(b, 0));
    anf_tir_expr number[] = {ANF_E(b, (char)1),
                             ANF_E(b, (signed char)2),
                             ANF_E(b, (unsigned char)3),
                             ANF_E(b, (short)4),
                             ANF_E(b, (unsigned short)5),
                             ANF_E(b, 6),
                             ANF_E(b, 7U),
                             ANF_E(b, 8L),
                             ANF_E(b, 9UL),
                             ANF_E(b, 10LL),
                             ANF_E(b, 11ULL),
                             ANF_E(b, 12.0)};
    anf_tir_dtype s64 = anf_tir_scalar(ANF_TIR_s64);
    ANF_IF(b, yes) {
      for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        ANF_SET(b, sum, ANF_ADD(b, sum, anf_tir_make_cast(anf_tb_module(b), s64, number[i])));
    }
    ANF_RETURN(b, sum);
  }
}

/* ---- reading ---- */

static bool count_cast(void *user, anf_tir_expr e) {
  double v;
  bool number = anf_tir_isa(e, "cast") && anf_tir_const_count(anf_tir_expr_at(e, 0)) == 1 &&
                anf_tir_const_f64(anf_tir_expr_at(e, 0), 0, &v) && v >= 1;
  *(int *)user += number;
  return true;
}
static anf_tir_expr as_it_is(void *user, anf_tir_module *m, anf_tir_expr e) {
  (void)user, (void)m;
  return e;
}
/* Is a body that is made anew of its own parts equal to it? */
static bool is_equal_made_anew(anf_ctx *cx, anf_tir_module *m, anf_tir_func f) {
  anf_tir_visitor v = {.size = sizeof v, .expr = as_it_is};
  anf_tir_stmt body = anf_tir_func_body(f), part[8];
  for (size_t i = 0; i < anf_tir_stmt_count(body); i++)
    part[i] = anf_tir_visit_stmt(m, anf_tir_stmt_at(body, i), &v);
  return anf_tir_equal_stmt(cx, body, anf_tir_remake_stmt(m, body, NULL, part), NULL, NULL);
}

/* A pass of the host's, which engines run as they do theirs: it counts the functions. */
static anf_tir_func seen(void *user, anf_tir_module *m, anf_tir_func f) {
  (void)m;
  ++*(int *)user;
  return f;
}

/* One index for two dims: the code of what the engine says, if it is of the line that has it; else "". */
static const char *refusal(anf_ctx *cx, anf_jit_engine *e) {
  static char code[16];
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL;
  anf_jit_module *made = NULL;
  anf_tb *b = anf_tb_new(cx);
  uint32_t line = 0;
  ANF_FUNC(b, f32, "wrong", ANF_ARG_TENSOR("x", f32, 2, 2)) {
    line = __LINE__ + 1;
    ANF_RETURN(b, ANF_AT(b, ANF_PARAM(b, 0), 1));
  }
  anf_status st = anf_tb_finish(b, d, &m);
  if (st == ANF_OK) st = anf_jit_make_module(e, m, d, &made);
  const anf_diag_item *said = anf_diag_count(d) ? anf_diag_at(d, 0) : NULL;
  if (st != ANF_OK && said && said->line == line) snprintf(code, sizeof code, "%s", said->code);
  anf_jit_module_free(made);
  anf_tir_module_free(m);
  anf_tb_free(b);
  anf_diag_free(d);
  return code;
}

static void show(anf_ctx *cx, anf_diag *d, anf_tir_module *m, anf_jit_engine *e,
                 const int *functions) {
  static float x[4] = {1, 2, 3, 4}, table[18], layer[3], column[3];
  for (int i = 0; i < 18; i++) table[i] = (float)i;
  anf_jit_module *code = NULL;
  int numbers = 0;
  anf_tir_viewer v = {.size = sizeof v, .enter_expr = count_cast, .user = &numbers};
  anf_tir_func kinds = anf_tir_find(m, "kinds");
  if (anf_jit_make_module(e, m, d, &code) != ANF_OK) return;
  int of_module = *functions;
  anf_tir_view_func(cx, kinds, &v);
  anf_generic rows[] = {{.u64 = 1}, {.ptr = x}, {.ptr = layer}};
  anf_generic second[] = {{.u64 = 2}, {.ptr = table}, {.ptr = column}};
  anf_generic flag[] = {{.u64 = 1}, {.u64 = 0}};
  anf_generic *args[] = {rows, second, flag};
  const char *const name[] = {"layer", "column", "kinds"};
  for (int i = 0; i < 3; i++) {
    anf_jit_function *f = anf_jit_get_function(code, name[i]);
    anf_jit_call_generic(f, NULL, args[i]);
    anf_jit_function_free(f);
  }
  const int64_t *calls = (const int64_t *)anf_jit_get_address_of_symbol(code, "calls");
  printf("layer %g %g %g, calls %lld, column %g %g %g, kinds %lld, %d casts, made anew %s, %s at "
         "its line, %d functions\n",
         (double)layer[0], (double)layer[1], (double)layer[2], calls ? (long long)*calls : -1,
         (double)column[0], (double)column[1], (double)column[2], (long long)flag[1].s64, numbers,
         is_equal_made_anew(cx, m, kinds) ? "equal" : "another", refusal(cx, e), of_module);
  anf_jit_module_free(code);
}

int main(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_tb *b = anf_tb_new(cx);
  anf_tir_module *m = NULL;
  anf_jit_engine *e = NULL;
  int functions = 0;
  anf_tir_pass pass = {.size = sizeof pass, .name = "seen", .func = seen, .user = &functions};
  anf_jit_opts o = {.size = sizeof o, .passes = "codegen seen"};
  parts p = add_data(anf_tb_module(b));
  add_layer(b, &p), add_column(b), add_kinds(b);
  anf_status st = anf_tb_finish(b, d, &m);
  if (st == ANF_OK) st = anf_tir_pass_register(cx, &pass, d);
  if (st == ANF_OK) st = anf_jit_engine_new(cx, ANF_JIT_LLVM, &o, d, &e);
  if (st == ANF_OK) show(cx, d, m, e, &functions);
  anf_diag_print(d, stderr, false);
  anf_jit_engine_free(e);
  anf_tir_module_free(m);
  anf_tb_free(b);
  anf_diag_free(d);
  anf_ctx_free(cx);
  return st != ANF_OK;
}
