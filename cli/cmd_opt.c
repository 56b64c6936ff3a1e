// SPDX-License-Identifier: Apache-2.0
/* anfora opt, passes and rules: a pipeline run on a program, text to text, and what a pipeline is made of.
 *   anfora opt f.anf, where def f(x: f32[4]) { Mul(x, 1.0) }   ->   def f(x: f32[4]) -> f32[4] { return x } */
#include "cli/cli.h"

#include "anfora/opt.h"
#include "ir/ir.h"

#include <jansson.h>

typedef struct {
  cli *c;
  const char *dump_after;
  bool time;
  anf_status dump_status;
} watch;

static void dump(watch *w, anf_module *m, const char *pass) {
  anf_text t = {.cx = w->c->cx};
  w->dump_status = anf_print_ir(m, &t);
  if (w->dump_status == ANF_OK) fprintf(stderr, "# after %s\n%s", pass, t.text ? t.text : "");
  anf_text_free(&t);
}

static void after(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  watch *w = (watch *)user;
  if (w->time)
    fprintf(stderr, "%-12s %10.3f ms %10llu rewrites\n", pass, ms, (unsigned long long)rewrites);
  if ((rewrites || strcmp(pass, "specialise") == 0) && cli_dump(w->c))
    anf_dump_stage(&w->c->dump, w->c->cx, pass, m, NULL);
  if (w->dump_after && (strcmp(w->dump_after, pass) == 0 || strcmp(w->dump_after, "all") == 0))
    dump(w, m, pass);
}

/* FILE:FUNC is the program of FUNC alone. --sig is of FUNC. */
static anf_status take_function(cli *c, anf_module *m, cli_target t) {
  anf_graph *g = cli_function(c, m, t);
  if (!g) return c->cx->frame->status;
  if (t.function) cli_hide_others(m, g, NULL);
  return c->value[OPT_SIG] ? cli_declare(c, g, c->value[OPT_SIG]) : ANF_OK;
}

/* Is the word of --dump-after a name that `name_of` lists? */
static bool is_pass(const char *word, const char *(*name_of)(size_t i, const char **doc)) {
  const char *name, *doc;
  for (size_t i = 0; (name = name_of(i, &doc)); i++)
    if (strcmp(name, word) == 0) return true;
  return strcmp(word, "all") == 0;
}

int cmd_opt(cli *c) {
  const char *dumped = c->value[OPT_DUMP_AFTER];
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  bool tir = cli_is_tir(c, c->arg[0]);
  if (dumped && !is_pass(dumped, tir ? cli_tir_pass : anf_pass_name))
    return cli_usage(c, "--dump-after: there is no pass '%s'; see: anfora passes", dumped);
  if (tir) return cli_opt_tir(c);
  watch w = {.c = c, .dump_after = dumped, .time = c->value[OPT_TIME_PASSES] != NULL};
  uint64_t limit = 0;
  if (!cli_number(c, OPT_BISECT_LIMIT, UINT64_MAX, &limit)) return EXIT_USAGE;
  anf_opt_opts o = {.size = sizeof o,
                    .fast = c->value[OPT_FAST] != NULL,
                    .verify_each = c->value[OPT_VERIFY_EACH] != NULL,
                    .bisect_limit = limit,
                    .after = after,
                    .user = &w};
  cli_target t = cli_split(c, c->arg[0]);
  anf_module *m = NULL;
  anf_text out = {.cx = c->cx};
  anf_status st = cli_load(c, t.file, &m);
  if (st == ANF_OK && (t.function || c->value[OPT_SIG])) st = take_function(c, m, t);
  if (st == ANF_OK)
    st = anf_optimise(m, c->value[OPT_PASSES] ? c->value[OPT_PASSES] : "standard", &o, c->d);
  if (st == ANF_OK) st = w.dump_status;
  if (st == ANF_OK) st = c->dump.status;
  if (st == ANF_OK) st = cli_print_ir(c, m, &out);
  return cli_finish(c, st, &out);
}

typedef const char *(*nth_name)(size_t i, const char **doc);

static json_t *names_json(cli *c, nth_name name_of) {
  const char *doc, *name;
  json_t *list = json_array();
  for (size_t i = 0; (name = name_of(i, &doc)); i++) {
    json_t *j = json_object();
    cli_json_put(c, j, "name", json_string(name));
    cli_json_put(c, j, "doc", json_string(doc));
    cli_json_append(c, list, j);
  }
  return list;
}

static int passes_json(cli *c) {
  json_t *j = json_object();
  cli_json_put(c, j, "passes", names_json(c, anf_pass_name));
  cli_json_put(c, j, "pipelines", names_json(c, anf_pipeline_name));
  cli_json_put(c, j, "tensor_ir_passes", names_json(c, cli_tir_pass));
  cli_json_put(c, j, "tensor_ir_pipelines", names_json(c, cli_tir_pipeline));
  return cli_json_write(c, j);
}

static void names_text(nth_name name_of, int width) {
  const char *doc, *name;
  for (size_t i = 0; (name = name_of(i, &doc)); i++) printf("%-*s %s\n", width, name, doc);
}

int cmd_passes(cli *c) {
  if (c->narg) return cli_usage(c, "it takes no argument");
  if (c->value[OPT_JSON]) return passes_json(c);
  names_text(anf_pass_name, 12);
  printf("\nPipelines:\n");
  names_text(anf_pipeline_name, 12);
  printf("\nOf Tensor IR (.tir):\n");
  names_text(cli_tir_pass, 28);
  printf("\nPipelines of Tensor IR:\n");
  names_text(cli_tir_pipeline, 12);
  return EXIT_OK;
}

static json_t *rule_json(cli *c, const char *name, const char *lhs, const char *rhs,
                         const char *guards, const char *file) {
  json_t *j = json_object();
  cli_json_put(c, j, "name", json_string(name));
  cli_json_put(c, j, "file", json_string(file));
  cli_json_put(c, j, "pattern", json_string(lhs));
  cli_json_put(c, j, "template", rhs ? json_string(rhs) : json_null());
  cli_json_put(c, j, "guards", json_string(guards));
  return j;
}

int cmd_rules(cli *c) {
  const char *name, *lhs, *rhs, *guards, *file, *word = c->narg ? c->arg[0] : NULL;
  if (c->narg > 1) return cli_usage(c, "it takes one name at most");
  json_t *all = c->value[OPT_JSON] ? json_array() : NULL;
  for (size_t i = 0; (name = anf_rule_name(i, &lhs, &rhs, &guards, &file)); i++) {
    if (word && !strstr(name, word) && !strstr(lhs, word) && strcmp(file, word) != 0) continue;
    if (all) json_array_append_new(all, rule_json(c, name, lhs, rhs, guards, file));
    else
      printf("%-24s %s -> %s%s%s\n", name, lhs, rhs ? rhs : "(computed)", *guards ? "  if " : "",
             guards);
  }
  if (!all) return EXIT_OK;
  json_t *j = json_object();
  cli_json_put(c, j, "rules", all);
  return cli_json_write(c, j);
}
