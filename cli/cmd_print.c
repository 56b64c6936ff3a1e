// SPDX-License-Identifier: Apache-2.0
/* anfora check and print: what a program is, and the same program in another form.
 *   anfora check f.anf   ->   f.anf: ok, 1 graph, 4 nodes */
#include "cli/cli.h"
#include "ir/ir.h"

#include <jansson.h>

static json_t *check_json(cli *c, const char *file, size_t ngraph, size_t nnode) {
  json_t *j = json_object();
  cli_json_put(c, j, "file", cli_json_text(c, file, strlen(file)));
  cli_json_put(c, j, "status", json_string(anf_status_name(ANF_OK)));
  cli_json_put(c, j, "graphs", json_integer((json_int_t)ngraph));
  cli_json_put(c, j, "nodes", json_integer((json_int_t)nnode));
  return j;
}

/* *said: what is said of the program with --json. */
static anf_status check(cli *c, const char *given, json_t **said) {
  anf_module *m = NULL;
  if (cli_is_tir(c, given)) return cli_check_tir(c, given, said);
  const char *file = cli_source(given);
  anf_status st = cli_load(c, given, &m);
  if (st == ANF_OK) st = anf_verify(m, c->d);
  if (st == ANF_OK && !anfi_check_grounded(m)) st = ANF_INVALID;
  if (st != ANF_OK) return st;
  size_t ngraph = anf_module_graph_count(m), nnode = 0;
  for (size_t i = 0; i < anf_module_node_limit(m); i++) nnode += anf_module_node(m, i) != NULL;
  if (c->value[OPT_JSON]) return *said = check_json(c, file, ngraph, nnode), ANF_OK;
  printf("%s: ok, %zu graph%s, %zu node%s\n", file, ngraph, ngraph == 1 ? "" : "s", nnode,
         nnode == 1 ? "" : "s");
  return ANF_OK;
}

static int whole_file(const cli *c, const char *spec, const char *more) {
  return cli_usage(c, "it takes the whole file %s, not one function%s", cli_split(c, spec).file,
                   more);
}

/* One program is its object, several are {"programs": [..]}; if one is bad, the errors are the object. */
int cmd_check(cli *c) {
  int worst = EXIT_OK;
  if (!c->narg) return cli_usage(c, "which program?");
  for (size_t i = 0; i < c->narg; i++)
    if (cli_names_function(c, c->arg[i])) return whole_file(c, c->arg[i], "");
  json_t *list = c->value[OPT_JSON] ? json_array() : NULL, *said = NULL;
  for (size_t i = 0; i < c->narg; i++) {
    said = NULL;
    int status = cli_status(c, check(c, c->arg[i], &said));
    if (status > worst) worst = status;
    if (said && c->narg > 1) cli_json_append(c, list, said);
  }
  if (!list || worst != EXIT_OK) return json_decref(list), worst;
  if (c->narg == 1) return json_decref(list), cli_json_write(c, said);
  json_t *all = json_object();
  cli_json_put(c, all, "programs", list);
  return cli_json_write(c, all);
}

/* ---- what compiling makes of a function: --as tir, llvm, asm, c ---- */

static int print_lowered(cli *c, const char *as) {
  anf_module *m = NULL;
  anf_text t = {.cx = c->cx};
  cli_target target = cli_split(c, c->arg[0]);
  anf_exec_opts o = {.size = sizeof o, .kind = strcmp(as, "c") == 0 ? ANF_JIT_CJIT : ANF_JIT_LLVM};
  anf_status st = cli_load(c, target.file, &m);
  anf_graph *g = st == ANF_OK ? cli_function(c, m, target) : NULL;
  anf_target_machine tm;
  if (!cli_cpu(c, &tm)) return EXIT_USAGE;
  tm.elsewhere = true; // it is only printed
  if (!g) return cli_status(c, st == ANF_OK ? ANF_INVALID : st);
  const anf_type **types =
      ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, anf_graph_param_count(g) + 1);
  st = cli_types(c, g, types);
  bool lines = strcmp(as, "asm") == 0;
  anf_jit_opts jit = {
      .size = sizeof jit, .debug = lines, .target = tm.cpu || tm.triple ? &tm : NULL};
  o.jit = &jit;
  if (cli_dump(c)) o.stage = anf_dump_stage, o.stage_user = &c->dump;
  if (st == ANF_OK) st = anf_lowered_print(g, anf_graph_param_count(g), types, as, &o, c->d, &t);
  if (st == ANF_OK) st = c->dump.status;
  if (st == ANF_OK && lines) cli_interleave(c, &t);
  return cli_finish(c, st, &t);
}

anf_status cli_explain(cli *c, anf_graph *g, const anf_type *const *types, size_t nstate) {
  uint64_t threads = 1;
  if (!cli_number(c, OPT_THREADS, 1024, &threads)) return ANF_INVALID;
  anf_exec_opts o = {.size = sizeof o, .nstate = (uint32_t)nstate, .parallel = threads > 1};
  anf_text t = {.cx = c->cx};
  anf_status st = anf_lowered_print(g, anf_graph_param_count(g), types, "fusion", &o, c->d, &t);
  if (st == ANF_OK && t.len) fputs(t.text, stderr);
  anf_text_free(&t);
  return st;
}

int cmd_print(cli *c) {
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  if (cli_is_tir(c, c->arg[0])) return cli_print_tir(c);
  const char *as = c->value[OPT_AS] ? c->value[OPT_AS] : "ir";
  if (cli_has_word("tir llvm asm c", as)) return print_lowered(c, as);
  if (cli_names_function(c, c->arg[0]))
    return whole_file(c, c->arg[0], ", but --as tir, llvm, asm or c; see also: anfora opt");
  if (c->value[OPT_SIG]) return cli_usage(c, "--sig is for --as tir, llvm, asm or c");
  uint64_t depth = 0, max_nodes = 0;
  if (!cli_number(c, OPT_DEPTH, UINT32_MAX, &depth) ||
      !cli_number(c, OPT_MAX_NODES, UINT32_MAX, &max_nodes))
    return EXIT_USAGE;
  anf_view_opts o = {.size = sizeof o, .depth = (uint32_t)depth, .max_nodes = (uint32_t)max_nodes};
  anf_module *m = NULL;
  anf_text t = {.cx = c->cx};
  anf_status st = cli_load(c, c->arg[0], &m);
  if (st != ANF_OK) return cli_status(c, st);
  if (strcmp(as, "ir") == 0) st = cli_print_ir(c, m, &t);
  else if (strcmp(as, "dat") == 0) st = anf_write_dat(m, &t);
  else if (strcmp(as, "dot") == 0) st = anf_write_dot(m, &o, &t);
  else st = anf_write_html(m, &o, &t);
  return cli_finish(c, st, &t);
}
