// SPDX-License-Identifier: Apache-2.0
/* Calls every public function wrongly: each pointer NULL in turn, enums out of range, names mistyped, values and types
 * of other kinds. misuse.py writes cases.inc from the headers. A case runs in a child process of its own, on fixtures
 * that the parent made, and may report; it may not crash, hang or print.
 *
 *   case 17: anf_compile, `g` NULL    the child calls it, expects a status and a finding, and exits with 0 */
#include <anfora/anfora.h>
#include <anfora/tir.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Why a case fails; the number is the child's exit status. */
enum { GOOD, ACCEPTED, NO_FINDING, OUT_LEFT };

static anf_ctx *cx;
static anf_diag *d;
static anf_module *m;
static anf_graph *g, *g2, *step_graph;
static anf_node *node, *constant;
static const anf_use *use;
static anf_value *number, *tensor, *string, *none, *tuple, *record, *function, *of_type;
static const anf_type *type, *tuple_type, *record_type, *fn_type, *none_type, *vector_type;
static anf_exec *exec;
static anf_step *step;
static anf_jit_engine *engine;
static anf_jit_module *jit_module;
static anf_jit_function *jit_function;
static anf_tir_module *tir, *tir_new;
static anf_tir_expr expr, sum, var, tir_tensor;
static anf_tir_stmt stmt, define;
static anf_tir_visitor visitor;
static anf_tir_viewer viewer;
static anf_tir_pass pass;
static anf_tir_brgemm brgemm;
static anf_tir_func func;
static anf_tb *tb;
static anf_tb_scope scope;
static anf_analysis *analysis;
static anf_trace *trace;
static anf_expr *expression;
static anf_pnnx *pnnx;
static const anf_pnnx_op *pnnx_op;
static anf_pnnx_registry *registry;
static anf_stream *stream;
static anf_text text;
static anf_array array;
static anf_generic generics[4];
static max_align_t buffer[1 << 12]; // whatever an out-parameter points to
static int64_t dims[2] = {2, 3};
static double reals[8];
static FILE *nowhere;

static void must(bool good, const char *what) {
  if (good) return;
  printf("fixture %s\n", what);
  if (d) anf_diag_print(d, stdout, false);
  exit(9);
}

static void make_graphs(void) {
  static const char program[] = "def f(x: f64) { x * x }\n"
                                "def sum(x: f64[2, 3]) { Sum(x) }\n"
                                "def train(w: f64, x: f64) { (w - 0.1 * x, {loss = w * x}) }\n";
  must(anf_parse(cx, program, "misuse.anf", d, &m) == ANF_OK, "module");
  g = anf_module_find(m, "f");
  g2 = anf_module_find(m, "sum");
  step_graph = anf_module_find(m, "train");
  node = anf_graph_result(g);
  constant = anf_int(m, 3);
  use = anf_node_first_use(anf_graph_param(g, 0));
  must(anf_analyse(m, d, &analysis) == ANF_OK, "analysis");
}

static void make_values(void) {
  const char *name = "field";
  number = anf_value_f64(cx, 2);
  tensor = anf_value_tensor(cx, ANF_F64, 2, dims, NULL);
  string = anf_value_string(cx, "abc", 3);
  none = anf_value_none(cx);
  tuple = anf_value_tuple(cx, 1, &number);
  record = anf_value_record(cx, 1, &name, &number);
  function = (anf_value *)(uintptr_t)anf_node_value(anf_graph_node(g));
  type = anf_type_scalar(cx, ANF_F64);
  vector_type = anf_type_tensor(cx, ANF_F64, 2, dims);
  tuple_type = anf_type_tuple(cx, 1, &type);
  record_type = anf_type_record(cx, 1, &name, &type);
  fn_type = anf_type_fn(cx, 1, &type, type);
  none_type = anf_type_simple(cx, ANF_TYPE_NONE);
  of_type = anf_value_of_type(cx, type);
  array = (anf_array){.dtype = ANF_F64, .rank = 0, .dims = dims, .data = reals};
}

static void make_code(void) {
  static const char source[] =
      "func fun(a: s32, A: [f32 * 4]): s32 {\n  A[0] = 1.f\n  return (a + 1)\n}\n";
  must(anf_tir_parse(cx, source, strlen(source), "misuse.tir", d, &tir) == ANF_OK, "tensor IR");
  func = anf_tir_func_at(tir, 0);
  must(anf_jit_engine_new(cx, ANF_JIT_INTERP, NULL, d, &engine) == ANF_OK, "engine");
  must(anf_jit_make_module(engine, tir, d, &jit_module) == ANF_OK, "code");
  jit_function = anf_jit_get_function(jit_module, "fun");
  anf_exec_opts o = {.size = sizeof o, .engine = engine};
  must(anf_compile(g, &o, d, &exec) == ANF_OK, "compiled function");
  anf_step_opts so = {.size = sizeof so, .exec = &o};
  must(anf_step_new(step_graph, 1, 0, NULL, &so, d, &step) == ANF_OK, "step");
  tir_new = anf_tir_module_new(cx);
  expr = anf_tir_make_s32(tir_new, 3);
  sum = anf_tir_make_add(tir_new, expr, expr);
  var = anf_tir_make_var(tir_new, anf_tir_scalar(ANF_TIR_s32), "v");
  tir_tensor = anf_tir_make_tensor(tir_new, ANF_TIR_f32, "T", 1, dims);
  stmt = anf_tir_make_evaluate_unattached(tir_new, expr);
  define = anf_tir_make_define_unattached(tir_new, tir_tensor, NULL);
  tb = anf_tb_new(cx);
  stream = anf_stream_new(NULL);
  trace = anf_trace_new(cx, 0);
}

static void make_models(void) {
  static const char model[] = "7767517\n3 2\npnnx.Input a 0 1 0 #0=(2)f32\n"
                              "pnnx.Expression e 1 1 0 1 expr=mul(@0,3)\npnnx.Output b 1 0 1\n";
  must(anf_expr_parse(cx, "add(@0,1)", 9, 1, d, &expression) == ANF_OK, "expression");
  must(anf_pnnx_read(cx, model, strlen(model), "misuse", NULL, 0, NULL, d, &pnnx) == ANF_OK,
       "model");
  pnnx_op = anf_pnnx_op_at(pnnx, 1);
  registry = anf_pnnx_registry_new(cx);
}

/* ---- what a case asks ---- */

static bool found(void) {
  const anf_diag *lists[] = {d, anf_ctx_diag(cx), anf_module_diag(m)};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i] && anf_diag_count(lists[i])) return true;
  return false;
}

static int refused(anf_status st, bool needs_finding) {
  if (st == ANF_OK) return ACCEPTED;
  return needs_finding && !found() ? NO_FINDING : GOOD;
}

static int is_null(const void *p, bool needs_finding) {
  if (p) return ACCEPTED;
  return needs_finding && !found() ? NO_FINDING : GOOD;
}

#include "cases.inc"

static void run(size_t i) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    alarm(20);
    signal(SIGPIPE, SIG_DFL);
    _exit(cases[i].call());
  }
  int how = 0;
  waitpid(child, &how, 0);
  if (WIFSIGNALED(how)) printf("%zu signal %d\n", i, WTERMSIG(how));
  else if (WEXITSTATUS(how)) printf("%zu status %d\n", i, WEXITSTATUS(how));
}

int main(int argc, char **argv) {
  cx = anf_ctx_new(NULL);
  d = anf_diag_new(cx);
  nowhere = fopen("/dev/null", "w");
  make_graphs();
  make_values();
  make_code();
  make_models();
  text.cx = cx;
  anf_diag_clear(d);
  size_t n = sizeof cases / sizeof *cases;
  if (argc > 1) return cases[strtoul(argv[1], NULL, 10)].call(); // one case, under a debugger
  for (size_t i = 0; i < n; i++) run(i);
  printf("done\n");
  return 0;
}
