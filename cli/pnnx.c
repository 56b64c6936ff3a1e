// SPDX-License-Identifier: Apache-2.0
/* Models of PNNX on the command line: anfora import, and run --debug, which runs a model
 * operator by operator and prints statistics of each operand. All other commands read a model as a program. */
#include "cli/cli.h"
#include "ir/ir.h"

#include <math.h>

static bool ends(const char *s, const char *with) {
  size_t n = strlen(s), k = strlen(with);
  return n > k && strcmp(s + n - k, with) == 0;
}

bool cli_is_param(const char *file) { return ends(file, ".param"); }

static void free_model(void *p) { anf_pnnx_free((anf_pnnx *)p); }

static anf_status load(cli *c, const char *file, anf_pnnx **p) {
  anf_status st = anf_pnnx_load(c->cx, file, NULL, NULL, c->d, p);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, free_model, *p);
  return st;
}

/* ---- import ---- */

/* A model that was read has `net`, which takes the parameters that params() gives. */
typedef anf_status model_writer(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                                anf_text *out);

static anf_status write_model(cli *c, anf_module *m, cli_target target, model_writer *write,
                              anf_text *out) {
  anf_graph *net =
      target.function || !anf_module_find(m, "params") ? NULL : anf_module_find(m, "net");
  anf_graph *g = net ? net : cli_function(c, m, target);
  if (!g) return ANF_INVALID;
  const anf_type **types =
      ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, anf_graph_param_count(g) + 1);
  anf_status st = cli_types(c, g, types);
  return st == ANF_OK ? write(g, anf_graph_param_count(g), types, c->d, out) : st;
}

static int write_module(cli *c, anf_module *m, cli_target target, const char *to) {
  anf_text t = {.cx = c->cx};
  anf_status st = to && ends(to, ".mindir") ? write_model(c, m, target, anf_write_mindir, &t)
                  : to && ends(to, ".onnx") ? write_model(c, m, target, anf_write_onnx, &t)
                  : to && ends(to, ".dat")  ? anf_write_dat(m, &t)
                                            : anf_print_ir(m, &t);
  int status = st == ANF_OK ? cli_write(c, t.text ? t.text : "", t.len) : cli_status(c, st);
  anf_text_free(&t);
  return status;
}

int cmd_import(cli *c) {
  const char *to = c->value[OPT_OUTPUT];
  anf_module *m = NULL;
  anf_pnnx *p = NULL;
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  if (to && !ends(to, ".dat") && !ends(to, ".ir") && !ends(to, ".param") && !ends(to, ".mindir") &&
      !ends(to, ".onnx"))
    return cli_usage(c, "the output must end in .dat, .ir, .mindir, .onnx or .param");
  if (to && cli_is_param(to)) {
    anf_status st = load(c, c->arg[0], &p);
    return cli_status(c, st == ANF_OK ? anf_pnnx_save(p, to, NULL, c->d) : st);
  }
  cli_target target = cli_split(c, c->arg[0]);
  anf_status st = cli_load(c, target.file, &m);
  if (st != ANF_OK) return cli_status(c, st);
  return write_module(c, m, target, to);
}

/* ---- run --debug ---- */

typedef struct {
  double min, max, sum;
  size_t n, bad; // elements; those that are infinite or no number
} statistics;

static statistics measure(const anf_value *v) {
  statistics s = {INFINITY, -INFINITY, 0, anf_value_elements(v), 0};
  for (size_t i = 0; i < s.n; i++) {
    double x = anf_value_get_f64(v, i);
    s.bad += isfinite(x) ? 0 : 1;
    s.min = fmin(s.min, x);
    s.max = fmax(s.max, x);
    s.sum += isfinite(x) ? x : 0;
  }
  return s;
}

static void put_operand(void *user, const char *operand, const anf_pnnx_op *op,
                        const anf_value *v) {
  cli *c = (cli *)user;
  anf_text t = {.cx = c->cx};
  if (anf_value_get_kind(v) != ANF_VALUE_TENSOR) return;
  if (anf_type_print(c->cx, anf_value_type(c->cx, v), &t) != ANF_OK) anfi_throw_nomem(c->cx);
  fprintf(stderr, "%-6s %-24s %-24s %s", operand, anf_pnnx_op_type(op), anf_pnnx_op_name(op),
          t.text);
  anf_text_free(&t);
  anf_dtype d = anf_value_dtype(v);
  statistics s = {0};
  if (d != ANF_C64 && d != ANF_C128 && d != ANF_KEY) s = measure(v);
  if (s.n) fprintf(stderr, " min %g max %g mean %g", s.min, s.max, s.sum / (double)s.n);
  if (s.bad) fprintf(stderr, " (%zu not finite)", s.bad);
  fputc('\n', stderr);
}

/* The tuple of the outputs, or the only one. */
static anf_value *outputs(cli *c, const anf_pnnx *p) {
  size_t n = anf_pnnx_output_count(p);
  anf_value **out = ANFI_NEW_N(anfi_scratch(c->cx), anf_value *, n + 1);
  for (size_t i = 0; i < n; i++) out[i] = (anf_value *)(uintptr_t)anf_pnnx_output(p, i);
  anf_value *v = n == 1 ? anf_value_retain(out[0]) : anf_value_tuple(c->cx, n, out);
  if (!v) anfi_throw_nomem(c->cx);
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

anf_status cli_debug_param(cli *c, const char *file, const anf_exec_opts *exec,
                           anf_value **result) {
  anf_pnnx *p = NULL;
  anf_module *m = NULL;
  anf_value **args = NULL;
  anf_pnnx_opts o = {
      .size = sizeof o, .exec = exec, .interpret = !exec, .debug = put_operand, .user = c};
  anf_status st = load(c, file, &p);
  if (st == ANF_OK) st = cli_load(c, file, &m); // its parameters have the types of the words
  if (st == ANF_OK)
    st = cli_arguments(c, anf_module_find(m, "main"), c->arg + 1, c->narg - 1, &args);
  for (size_t i = 0; st == ANF_OK && i < anf_pnnx_input_count(p); i++)
    st = anf_pnnx_set_input(p, i, args[i], c->d);
  if (st == ANF_OK) st = anf_pnnx_build(p, &o, c->d);
  if (st == ANF_OK) st = anf_pnnx_forward(p, c->d);
  if (st == ANF_OK) *result = outputs(c, p);
  return st;
}
