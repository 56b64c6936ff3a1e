// SPDX-License-Identifier: Apache-2.0
/* Models on the command line: anfora import, and run --debug of a model of PNNX.
 *   anfora import net.param -o net.onnx   ->   the same model as ONNX
 *   anfora run --debug net.param x.npy    ->   for each operand its operator, type, min, max and mean; then the result
 * All other commands read a model as a program. */
#include "cli/cli.h"
#include "frontend/load.h"
#include "ir/ir.h"

#include <math.h>

static bool ends(const char *s, const char *with) {
  size_t n = strlen(s), k = strlen(with);
  return n > k && strcmp(s + n - k, with) == 0;
}

bool cli_is_param(const char *file) { return ends(file, ".param"); }

/* ---- models of one function ---- */

static const struct {
  const char *ending;
  anf_status (*write)(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                      anf_text *out);
} models[] = {
    {".mindir", anf_write_mindir}, {".mlir", anf_write_stablehlo}, {".onnx", anf_write_onnx}};

bool cli_is_model(const char *to) {
  for (size_t i = 0; to && i < ANFI_LEN(models); i++)
    if (ends(to, models[i].ending)) return true;
  return false;
}

/* x.mindir, with its parameters in x.weights. */
static anf_status write_apart(cli *c, anf_graph *g, size_t n, const anf_type *const *types,
                              const char *to, anf_text *out) {
  const char *slash = strrchr(to, '/');
  const char *path =
      anfi_sprintf(anfi_scratch(c->cx), "%.*sweights", (int)(strlen(to) - strlen("mindir")), to);
  anf_text weights = {.cx = c->cx};
  anf_status st = anf_write_mindir_beside(g, n, types, path + (slash ? slash + 1 - to : 0), c->d,
                                          out, &weights);
  if (st == ANF_OK && !anfi_os_write(c->cx, path, weights.text ? weights.text : "", weights.len))
    st = ANF_IO;
  anf_text_free(&weights);
  return st;
}

anf_status cli_write_model(cli *c, anf_graph *g, const char *to, anf_text *out) {
  size_t n = anf_graph_param_count(g);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, n + 1);
  anf_status st = cli_types(c, g, types);
  if (st == ANF_OK && c->value[OPT_BESIDE]) return write_apart(c, g, n, types, to, out);
  for (size_t i = 0; st == ANF_OK && i < ANFI_LEN(models); i++)
    if (ends(to, models[i].ending)) return models[i].write(g, n, types, c->d, out);
  return st;
}

static void free_model(void *p) { anf_pnnx_free((anf_pnnx *)p); }

static anf_status load(cli *c, const char *file, anf_pnnx **p) {
  anf_status st = anf_pnnx_load(c->cx, file, NULL, NULL, c->d, p);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, free_model, *p);
  return st;
}

/* ---- import ---- */

/* A model that was read has `net`, which takes the parameters that params() gives. */
static anf_status write_model(cli *c, anf_module *m, cli_target target, const char *to,
                              anf_text *out) {
  anf_graph *net =
      target.function || !anf_module_find(m, "params") ? NULL : anf_module_find(m, "net");
  anf_graph *g = net ? net : cli_function(c, m, target);
  return g ? cli_write_model(c, g, to, out) : ANF_INVALID;
}

static int write_module(cli *c, anf_module *m, cli_target target, const char *to) {
  anf_text t = {.cx = c->cx};
  anf_status st = cli_is_model(to)         ? write_model(c, m, target, to, &t)
                  : to && ends(to, ".dat") ? anf_write_dat(m, &t)
                                           : anf_print_ir(m, &t);
  return cli_finish(c, st, &t);
}

int cmd_import(cli *c) {
  const char *to = c->value[OPT_OUTPUT];
  anf_module *m = NULL;
  anf_pnnx *p = NULL;
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  if (to && !ends(to, ".dat") && !ends(to, ".ir") && !cli_is_param(to) && !cli_is_model(to))
    return cli_usage(c, "the output must end in .dat, .ir, .mindir, .mlir, .onnx or .param");
  if (c->value[OPT_BESIDE] && !(to && ends(to, ".mindir")))
    return cli_usage(c, "--beside is for an output that ends in .mindir");
  if (to && cli_is_param(to)) {
    const anfi_format *format = anfi_format_of(cli_split(c, c->arg[0]).file);
    if (format && strcmp(format->ending, ".param") != 0)
      return cli_usage(c, "only a .param model is written as .param; see .onnx, .mlir and .mindir");
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
  if (d != ANF_C64 && d != ANF_C128 && d != ANF_COMPLEX && d != ANF_KEY) s = measure(v);
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
