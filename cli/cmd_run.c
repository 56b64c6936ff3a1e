// SPDX-License-Identifier: Apache-2.0
/* anfora run: calls a function with arguments of the command line and prints the result.
 *   anfora run f.anf 3, where def main(x) { x * x }   ->   9
 * Without --backend a program with little work (SMALL) is interpreted: that takes less time than to load LLVM. One
 * with more is compiled and runs again from its start; its prints until then are discarded. The work is counted, not
 * timed, so the same program with the same arguments is always run by the same engine. */
#include "cli/cli.h"
#include "interp/interp.h"
#include "ir/ir.h"

#include <jansson.h>
#include <stdlib.h>

typedef struct {
  /* options and times */
  uint64_t repeat, threads, fold_bytes;
  double compile_ms, run_ms;
  /* the run */
  const char *backend;
  bool chosen;    // by the user
  anf_exec *exec; // NULL: the reference interpreter
  anf_value *result;
} outcome;

static double ms_since(uint64_t start) { return (double)(anfi_os_now_ns() - start) / 1e6; }

/* Output of Print: `user` is stderr with --json, whose standard output is one object. */
static void show(void *user, const char *text, size_t len) { fwrite(text, 1, len, (FILE *)user); }

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *ms, size_t n) {
  qsort(ms, n, sizeof *ms, by_size);
  return n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
}

static anf_status call(cli *c, anf_graph *g, anf_value **args, anf_run_opts *o, outcome *r) {
  anf_value *v = NULL;
  size_t n = anf_graph_param_count(g);
  anf_status st =
      r->exec ? anf_exec_run(r->exec, n, args, o, c->d, &v) : anf_run(g, n, args, o, c->d, &v);
  if (st != ANF_OK) return st;
  anf_value_release(r->result);
  r->result = v;
  return ANF_OK;
}

/* One run; or with --repeat one to warm up and N measured ones, which print nothing again. */
static anf_status call_all(cli *c, anf_graph *g, anf_value **args, anf_run_opts *o, outcome *r) {
  double *ms = ANFI_NEW_N(anfi_scratch(c->cx), double, r->repeat);
  anf_status st = ANF_OK;
  if (r->repeat > 1) {
    st = call(c, g, args, o, r);
    o->print = NULL;
  }
  for (uint64_t i = 0; i < r->repeat && st == ANF_OK; i++) {
    uint64_t start = anfi_os_now_ns();
    st = call(c, g, args, o, r);
    ms[i] = ms_since(start);
  }
  if (r->result) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, r->result);
  if (st == ANF_OK) r->run_ms = median(ms, r->repeat);
  return st;
}

enum { SMALL = 1 << 20 };

static void keep_text(void *user, const char *text, size_t len) {
  anfi_put((anf_text *)user, text, len);
}

/* Options that are about compiled code ask for it. The limits of steps and depth are those of operations. */
static bool wants_code(cli *c, const outcome *r) {
  return c->value[OPT_FIX] || c->value[OPT_TUNE] || c->value[OPT_EXPLAIN] || cli_dump(c) ||
         r->threads > 1 || r->repeat > 1;
}
static bool wants_steps(const cli *c) { return c->value[OPT_MAX_STEPS] || c->value[OPT_MAX_DEPTH]; }

/* Interprets a program with little work. *done: that was all. */
static anf_status call_small(cli *c, anf_graph *g, anf_value **args, const anf_run_opts *given,
                             outcome *r, bool *done) {
  anf_text *text = ANFI_NEW(anfi_scratch(c->cx), anf_text);
  anf_run_opts o = *given;
  anfi_work work = {.most = SMALL};
  text->cx = c->cx;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_text, text);
  o.print = keep_text, o.print_user = text;
  uint64_t start = anfi_os_now_ns();
  anf_status st = anfi_run_small(g, anf_graph_param_count(g), args, &o, &work, c->d, &r->result);
  *done = !work.more;
  if (work.more) return ANF_OK;
  if (text->len) given->print(given->print_user, text->text, text->len);
  if (r->result) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, r->result);
  r->run_ms = ms_since(start);
  r->backend = "interp";
  return st;
}

static void free_exec(void *e) { anf_exec_free((anf_exec *)e); }

/* False: the backend is the interpreter, which compiles nothing. */
static bool exec_options(cli *c, const outcome *r, anf_exec_opts *o) {
  *o = (anf_exec_opts){.size = sizeof *o, .parallel = r->threads > 1};
  o->jit = cli_jit_options(c);
  o->tune = c->value[OPT_TUNE] != NULL;
  o->fold_bytes = r->fold_bytes;
  if (cli_dump(c)) o->stage = anf_dump_stage, o->stage_user = &c->dump;
  if (strcmp(r->backend, "interp") == 0) return false;
  if (!anf_jit_kind_of(r->backend, &o->kind)) o->kind = ANF_JIT_INTERP; // "tir"
  return true;
}

static anf_status explain(cli *c, anf_graph *g, anf_value **args) {
  size_t n = anf_graph_param_count(g);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (!(types[i] = anf_value_type(c->cx, args[i]))) anfi_throw_nomem(c->cx);
  return cli_explain(c, g, types, 0);
}

/* Arguments of --fix become constants. */
static anf_status fix_arguments(cli *c, anf_graph *g, anf_value **args, anf_exec *e) {
  anfi_arena *a = anfi_scratch(c->cx);
  const char *s = c->value[OPT_FIX] ? c->value[OPT_FIX] : "";
  anf_status st = ANF_OK;
  while (st == ANF_OK && *(s += strspn(s, " ,"))) {
    size_t len = strcspn(s, " ,"), at = 0;
    if (!cli_parameter(c, g, anfi_strndup(a, s, len), &at)) return ANF_INVALID;
    st = anf_exec_fix(e, at, args[at], c->d);
    s += len;
  }
  return st;
}

/* Compiled for these arguments, unless the backend is the interpreter. */
static anf_status compile(cli *c, anf_graph *g, anf_value **args, outcome *r) {
  anf_exec_opts o;
  if (!exec_options(c, r, &o)) return ANF_OK;
  if (anf_stream_of_thread()) anf_stream_set_threads(anf_stream_of_thread(), (uint32_t)r->threads);
  anf_status st = anf_compile(g, &o, c->d, &r->exec);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, free_exec, r->exec);
  st = fix_arguments(c, g, args, r->exec);
  if (st == ANF_OK) st = anf_exec_prepare_for(r->exec, anf_graph_param_count(g), args, c->d);
  return st == ANF_OK ? c->dump.status : st;
}

static const anf_diag_item *first_error(const anf_diag *d, size_t from) {
  const anf_diag_item *i = anf_diag_at(d, from);
  while (i && i->severity != ANF_ERROR) i = anf_diag_at(d, ++from);
  return i;
}

/* Compiles where nobody asked for an engine: a program that cannot be compiled is interpreted, with a warning. */
static anf_status compile_if_possible(cli *c, anf_graph *g, anf_value **args, outcome *r) {
  size_t had = anf_diag_count(c->d);
  anf_status st = compile(c, g, args, r);
  bool other = st == ANF_UNSUPPORTED || st == ANF_INVALID || st == ANF_LIMIT || st == ANF_IO;
  const anf_diag_item *why = first_error(c->d, had);
  if (!other || !why) return st;
  anfi_diag_forget(c->d, had);
  anfi_warn(c->cx, anfi_nowhere(), ANF_W0905, why->code, why->message);
  r->exec = NULL;
  r->backend = "interp";
  return ANF_OK;
}

/* Compiled, interpreted or, with *done, run already. */
static anf_status prepare(cli *c, anf_graph *g, anf_value **args, const anf_run_opts *o, outcome *r,
                          bool *done) {
  if (r->chosen || wants_code(c, r)) return compile(c, g, args, r);
  if (wants_steps(c)) return r->backend = "interp", ANF_OK;
  anf_status st = call_small(c, g, args, o, r, done);
  return st != ANF_OK || *done ? st : compile_if_possible(c, g, args, r);
}

static anf_status run(cli *c, const anf_run_opts *limits, outcome *r) {
  anf_module *m = NULL;
  anf_value **args = NULL;
  anf_run_opts o = *limits;
  cli_target t = cli_split(c, c->arg[0]);
  bool by_name = !cli_is_tir(c, t.file) && !c->value[OPT_DEBUG];
  if (!r->chosen) r->backend = by_name ? "llvm" : "interp";
  if (cli_is_tir(c, t.file)) return cli_run_tir(c, t, r->backend, o.max_steps, &r->result);
  if (c->value[OPT_DEBUG]) {
    anf_exec_opts eo;
    return cli_debug_param(c, t.file, exec_options(c, r, &eo) ? &eo : NULL, &r->result);
  }
  uint64_t start = anfi_os_now_ns();
  anf_status st = cli_load(c, t.file, &m);
  if (st == ANF_OK) st = anf_verify(m, c->d);
  if (st != ANF_OK) return st;
  anf_graph *g = cli_function(c, m, t);
  if (!g) return ANF_INVALID;
  bool value = c->value[OPT_VALUE_AND_GRAD] != NULL;
  if (value || c->value[OPT_GRAD]) st = cli_grad(c, g, value, &g);
  if (st != ANF_OK) return st;
  st = cli_arguments(c, g, c->arg + 1, c->narg - 1, &args);
  if (st == ANF_OK && c->value[OPT_EXPLAIN]) st = explain(c, g, args);
  bool done = false;
  if (st == ANF_OK) st = prepare(c, g, args, &o, r, &done);
  r->compile_ms = ms_since(start) - r->run_ms;
  return st == ANF_OK && !done ? call_all(c, g, args, &o, r) : st;
}

/* ---- showing ---- */

static anf_status save_one(cli *c, const anf_value *v, const char *path) {
  if (anf_value_get_kind(v) == ANF_VALUE_TENSOR) return anf_save_npy(c->cx, v, path, c->d);
  static const char *const kind[] = {"None", "tensor",   "string", "tuple", "record",
                                     "type", "function", "box",    "stack"};
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0015, kind[anf_value_get_kind(v)]);
  return ANF_INVALID;
}

static anf_status save(cli *c, const anf_value *v, const char *path) {
  if (anf_value_get_kind(v) != ANF_VALUE_TUPLE) return save_one(c, v, path);
  size_t n = strlen(path);
  bool npy = n > 4 && strcmp(path + n - 4, ".npy") == 0;
  anf_status st = ANF_OK;
  for (size_t i = 0; i < anf_value_count(v) && st == ANF_OK; i++) {
    const char *name =
        anfi_sprintf(anfi_scratch(c->cx), "%.*s.%zu.npy", (int)(npy ? n - 4 : n), path, i);
    st = save_one(c, anf_value_at(v, i), name);
  }
  return st;
}

static int show_json(cli *c, const outcome *r) {
  json_t *j = json_object(), *result = cli_json_value(c, r->result);
  if (anfi_failed(c->cx)) {
    json_decref(j), json_decref(result);
    return cli_status(c, ANF_LIMIT);
  }
  cli_json_put(c, j, "result", result);
  cli_json_put(c, j, "type", cli_json_type(c, r->result));
  cli_json_put(c, j, "compile_ms", json_real(r->compile_ms));
  cli_json_put(c, j, "run_ms", json_real(r->run_ms));
  cli_json_put(c, j, "backend", json_string(r->backend));
  return cli_json_write(c, j);
}

static int show_text(cli *c, const outcome *r) {
  anf_text t = {.cx = c->cx};
  anf_status st = anf_value_print(c->cx, r->result, 0, &t);
  if (st == ANF_OK) {
    anfi_putc(&t, '\n');
    cli_put(c, t.text, t.len);
  }
  anf_text_free(&t);
  return cli_status(c, st);
}

/* The memory is what compiled code took of its stream, beside arguments and result. Then what code
 * was made for. */
static void show_time(anf_ctx *cx, const outcome *r) {
  fprintf(stderr, "compile %.3f ms, run %.3f ms%s", r->compile_ms, r->run_ms,
          r->repeat > 1 ? " (median)" : "");
  if (r->exec)
    fprintf(stderr, ", memory %.1f KiB",
            (double)anf_stream_peak_bytes(anf_stream_of_thread()) / 1024.0);
  fputc('\n', stderr);
  anf_text why = {.cx = cx};
  if (r->exec && anf_exec_explain(r->exec, &why) == ANF_OK && why.len)
    fprintf(stderr, "%s", why.text);
  anf_text_free(&why);
}

int cmd_run(cli *c) {
  outcome r = {.repeat = 1,
               .threads = 1,
               .backend = c->value[OPT_BACKEND],
               .chosen = c->value[OPT_BACKEND] != NULL};
  anf_run_opts o = {
      .size = sizeof o, .print = show, .print_user = c->value[OPT_JSON] ? stderr : stdout};
  if (!c->narg) return cli_usage(c, "which program?");
  if (c->value[OPT_FIX] && r.chosen && strcmp(r.backend, "interp") == 0)
    return cli_usage(c, "--fix needs a backend that compiles: llvm, cjit or tir");
  if (c->value[OPT_DEBUG] && !cli_is_param(c->arg[0]))
    return cli_usage(c, "--debug is for a .param model");
  if (!cli_number(c, OPT_REPEAT, 1000000000, &r.repeat) ||
      !cli_number(c, OPT_THREADS, 1024, &r.threads) ||
      !cli_number(c, OPT_FOLD_BYTES, INT64_MAX, &r.fold_bytes) ||
      !cli_number(c, OPT_MAX_STEPS, INT64_MAX, &o.max_steps) ||
      !cli_number(c, OPT_MAX_DEPTH, INT64_MAX, &o.max_depth) ||
      !cli_number(c, OPT_MAX_MS, INT32_MAX, &o.max_ms))
    return EXIT_USAGE;
  anf_status st = run(c, &o, &r);
  if (st == ANF_OK && c->value[OPT_OUTPUT]) st = save(c, r.result, c->value[OPT_OUTPUT]);
  if (st != ANF_OK) return cli_status(c, st);
  if (c->value[OPT_TIME]) show_time(c->cx, &r);
  if (c->value[OPT_JSON]) return show_json(c, &r);
  return c->value[OPT_OUTPUT] ? EXIT_OK : show_text(c, &r);
}
