// SPDX-License-Identifier: Apache-2.0
/* Tensor IR files (.tir) in the commands that take programs: check, print, opt and run.
 *   anfora run t.tir 7 2, where func g(a: s32, b: s32): s32 { return a / b }   ->   3 */
#include "cli/cli.h"

#include "anfora/build.h"
#include "anfora/jit.h"
#include "anfora/tir.h"
#include "backend/tir/tir.h"
#include "ir/ir.h"
#include "backend/jit/jit.h"

#include <ctype.h>
#include <jansson.h>

/* Behind blanks and comments. */
static const char *first_word(const char *s) {
  for (;;) {
    s += strspn(s, " \t\r\n");
    if (s[0] != '/' || s[1] != '/') return s;
    s += strcspn(s, "\n");
  }
}

/* Every module of Tensor IR begins with one of these, no program of the language does. */
static bool begins_tir(const char *text) {
  static const char *const words[] = {"func", "public", "private", "data"};
  const char *s = first_word(text);
  size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
  for (size_t i = 0; i < ANFI_LEN(words); i++)
    if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0 && (s[n] == ' ' || s[n] == '\t'))
      return true;
  return false;
}

bool cli_is_tir(cli *c, const char *file) {
  size_t n = strlen(file);
  if (strcmp(file, "-") == 0) return cli_read_input(c) && begins_tir(c->input);
  return n > 4 && strcmp(file + n - 4, ".tir") == 0;
}

anf_status cli_load_tir(cli *c, const char *file, anf_tir_module **m) {
  anf_status st = strcmp(file, "-") == 0
                      ? anf_tir_parse(c->cx, c->input, c->input_len, "<stdin>", c->d, m)
                      : anf_tir_load(c->cx, file, c->d, m);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_tir, *m);
  return st;
}

static int write_module(cli *c, const anf_tir_module *m) {
  anf_text t = {.cx = c->cx};
  anf_status st = anf_tir_print(m, &t);
  return cli_finish(c, st, &t);
}

static anf_status print_as(cli *c, const anf_tir_module *m, const char *form, anf_text *out) {
  anf_jit_engine *e = NULL;
  if (strcmp(form, "c") == 0) return anf_tir_print_c(m, NULL, c->d, out);
  anf_status st = anf_jit_engine_new(c->cx, ANF_JIT_LLVM, NULL, c->d, &e);
  if (st == ANF_OK) st = anf_jit_print(e, m, form, c->d, out);
  anf_jit_engine_free(e);
  return st;
}

int cli_print_tir(cli *c) {
  const char *as = c->value[OPT_AS] ? c->value[OPT_AS] : "tir";
  bool code = cli_has_word("c llvm asm", as);
  anf_tir_module *m = NULL;
  if (!code && strcmp(as, "tir") != 0)
    return cli_usage(c, "a .tir file is printed as tir, c, llvm or asm, not as %s", as);
  anf_status st = cli_load_tir(c, c->arg[0], &m);
  if (st != ANF_OK) return cli_status(c, st);
  if (!code) return write_module(c, m);
  anf_text t = {.cx = c->cx};
  st = print_as(c, m, as, &t);
  return cli_finish(c, st, &t);
}

anf_status cli_check_tir(cli *c, const char *given, json_t **said) {
  anf_tir_module *m = NULL;
  const char *file = cli_source(given);
  anf_status st = cli_load_tir(c, given, &m);
  if (st == ANF_OK) st = anf_tir_verify(m, c->d);
  if (st != ANF_OK) return st;
  size_t n = anf_tir_func_count(m);
  if (!c->value[OPT_JSON])
    return printf("%s: ok, %zu function%s\n", file, n, n == 1 ? "" : "s"), ANF_OK;
  json_t *j = *said = json_object();
  cli_json_put(c, j, "file", cli_json_text(c, file, strlen(file)));
  cli_json_put(c, j, "status", json_string(anf_status_name(ANF_OK)));
  cli_json_put(c, j, "functions", json_integer((json_int_t)n));
  return ANF_OK;
}

const char *cli_tir_pass(size_t i, const char **doc) {
  if (i >= anf_tir_pass_count()) return NULL;
  return *doc = anf_tir_pass_doc(i), anf_tir_pass_name(i);
}

const char *cli_tir_pipeline(size_t i, const char **passes) {
  const char *name = anf_tir_pipeline_name(i);
  if (name) *passes = anf_tir_pipeline(name);
  return name;
}

/* ---- opt ---- */

static void dump(void *user, const char *pass, const char *text, size_t len) {
  (void)user;
  fprintf(stderr, "// after %s\n%.*s", pass, (int)len, text);
}

/* `ran` is called before `timed`. */
static void ran(void *user, const char *pass, bool changed) {
  (void)pass;
  *(bool *)user = changed;
}
static void timed(void *user, const char *pass, uint64_t ns) {
  const bool *changed = (const bool *)user;
  fprintf(stderr, "%-28s %10.3f ms%s\n", pass, (double)ns / 1e6, *changed ? "  changed" : "");
}

int cli_opt_tir(cli *c) {
  const char *after = c->value[OPT_DUMP_AFTER];
  anf_tir_opt_opts o = {
      .size = sizeof o, .verify_each = c->value[OPT_VERIFY_EACH] != NULL, .dump = dump};
  o.dump_after = after && strcmp(after, "all") == 0 ? "*" : after;
  bool changed = false;
  if (c->value[OPT_TIME_PASSES]) o.user = &changed, o.ran = ran, o.timed = timed;
  anf_tir_module *m = NULL, *out = NULL;
  anf_status st = cli_load_tir(c, c->arg[0], &m);
  if (st == ANF_OK)
    st = anf_tir_opt(m, c->value[OPT_PASSES] ? c->value[OPT_PASSES] : "default", &o, c->d, &out);
  if (st != ANF_OK) return cli_status(c, st);
  int status = write_module(c, out); // it shares nodes with m, which goes after it
  anf_tir_module_free(out);
  return status;
}

/* ---- run ---- */

static anf_tir_func find(cli *c, const anf_tir_module *m, const char *file, const char *name) {
  size_t n = anf_tir_func_count(m);
  anf_tir_func f = name     ? anf_tir_find(m, name)
                   : n == 1 ? anf_tir_func_at(m, 0)
                            : anf_tir_find(m, "main");
  if (!f) anfi_fail(c->cx, anfi_nowhere(), ANF_E0010, name ? name : "main", file);
  return f;
}

/* The element types of Tensor IR are s8 … s64 where programs say i8 … i64. */
static bool element(const anf_tir_expr param, anf_dtype *d) {
  char name[8];
  snprintf(name, sizeof name, "%s", anfi_t_elem_names[param->dtype.elem]);
  if (name[0] == 's' && isdigit((unsigned char)name[1])) name[0] = 'i';
  return anfi_dtype_parse(name, strlen(name), d);
}

/* Numbers that were typed take the parameter's type; a file's stay what they are. */
static anf_status argument(cli *c, anf_tir_func f, size_t i, const char *word, anf_value **out) {
  anf_dtype d;
  anf_status st = word[0] == '@' ? anf_load_npy(c->cx, word + 1, c->d, out)
                                 : anf_parse_value(c->cx, word, c->d, out);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, *out);
  if (word[0] == '@' || anf_value_get_kind(*out) != ANF_VALUE_TENSOR || !element(f->param[i], &d))
    return ANF_OK;
  *out = anfi_value_cast(*out, d);
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, *out);
  return ANF_OK;
}

/* The function's result; of one that returns nothing, its tensors after the call. */
static anf_value *outcome(cli *c, anf_tir_func f, size_t n, anf_value *result, anf_value **outs) {
  size_t k = 0;
  if (anf_value_get_kind(result) != ANF_VALUE_NONE) return result;
  for (size_t i = 0; i < n; i++)
    if (f->param[i]->dtype.ptr) outs[k++] = outs[i];
  if (k == 1) return outs[0];
  anf_value *v = anf_value_tuple(c->cx, k, outs);
  if (v) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

/* Compiled, with a check of every index that is not known to be in bounds. */
static anf_status run_compiled(cli *c, const anf_tir_module *m, const char *func, anf_jit_kind kind,
                               size_t n, anf_value **args, anf_value **r, anf_value **outs) {
  anf_jit_opts o = {.size = sizeof o, .passes = "dyn_boundary_check codegen"};
  anf_jit_engine *e = NULL;
  anf_jit_module *code = NULL;
  anf_status st = anf_jit_engine_new(c->cx, kind, &o, c->d, &e);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_engine, e);
  if ((st = anf_jit_make_module(e, m, c->d, &code)) != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_code, code);
  anf_jit_function *f = anf_jit_get_function(code, func);
  if (!f) return ANF_NOMEM;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_function, f);
  return anf_jit_call_values(f, m, NULL, n, args, c->d, r, outs);
}

anf_status cli_run_tir(cli *c, cli_target t, const char *backend, uint64_t max_steps,
                       anf_value **result) {
  anf_tir_module *m = NULL;
  anf_status st = cli_load_tir(c, t.file, &m);
  if (st != ANF_OK) return st;
  anf_tir_func f = find(c, m, t.file, t.function);
  if (!f) return ANF_INVALID;
  size_t n = c->narg - 1;
  anfi_arena *a = anfi_scratch(c->cx);
  anf_value **args = ANFI_NEW_N(a, anf_value *, n + 1), **outs = ANFI_NEW_N(a, anf_value *, n + 1),
            *r = NULL;
  if (n != f->n) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0510, f->name->s, (size_t)f->n, n);
    return ANF_INVALID;
  }
  for (size_t i = 0; i < n; i++)
    if ((st = argument(c, f, i, c->arg[i + 1], &args[i])) != ANF_OK) return st;
  anf_tir_run_opts o = {.size = sizeof o, .max_steps = max_steps};
  anf_jit_kind kind;
  bool compiled = anf_jit_kind_of(backend, &kind) && kind != ANF_JIT_INTERP;
  st = compiled ? run_compiled(c, m, f->name->s, kind, n, args, &r, outs)
                : anf_tir_run_values(m, f->name->s, n, args, &o, c->d, &r, outs);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, r);
  for (size_t i = 0; i < n; i++)
    if (outs[i]) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, outs[i]);
  *result = outcome(c, f, n, r, outs);
  return *result ? ANF_OK : ANF_NOMEM;
}
