// SPDX-License-Identifier: Apache-2.0
/* Files and functions as the command line names them.
 *   net.anf:step   ->   the file net.anf and its function step          net.anf   ->   main, or the only function */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include "frontend/load.h"
#include "ir/ir.h"
#include "base/mark.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* FILE:FUNC splits at the last colon after the last slash, unless there is a file of the whole
 * name. */
cli_target cli_split(const cli *c, const char *spec) {
  const char *slash = strrchr(spec, '/'), *colon = strrchr(slash ? slash : spec, ':');
  if (!colon || colon == spec || !colon[1] || access(spec, F_OK) == 0)
    return (cli_target){spec, NULL};
  const char *file = anfi_strndup(anfi_scratch(c->cx), spec, (size_t)(colon - spec));
  return (cli_target){file, colon + 1};
}

bool cli_names_function(const cli *c, const char *spec) {
  cli_target t = cli_split(c, spec);
  return t.function && (strcmp(t.file, "-") == 0 || access(t.file, F_OK) == 0);
}

/* ---- dumps ---- */

anf_dump *cli_dump(cli *c) {
  const char *folder = c->value[OPT_DUMP] ? c->value[OPT_DUMP] : getenv("ANFORA_DUMP");
  c->dump.folder = folder && *folder ? folder : NULL;
  c->dump.diag = c->d;
  return c->dump.folder ? &c->dump : NULL;
}

anf_status cli_print_ir(const cli *c, anf_module *m, anf_text *out) {
  return c->value[OPT_PLACES] ? anf_print_ir_places(m, out) : anf_print_ir(m, out);
}

bool cli_read_input(cli *c) {
  return c->input || anfi_os_read(c->cx, anfi_scratch(c->cx), "-", &c->input, &c->input_len);
}

static anf_status load(cli *c, const char *file, anf_module **m) {
  const char *folder = c->value[OPT_IMPORTS];
  anf_status st = folder ? anf_allow_imports(c->cx, folder, c->d) : ANF_OK;
  if (st != ANF_OK) return st;
  anfi_input in = {.path = file, .weights = c->value[OPT_WEIGHTS] != NULL};
  bool input = strcmp(file, "-") == 0;
  if (input && !cli_read_input(c)) return ANF_IO;
  in.text = c->input;
  in.len = c->input_len;
  ANFI_ENTRY(c->cx, c->d);
  *m = input ? anfi_load_input(c->cx, &in) : anfi_load_file(c->cx, file, in.weights);
  return anfi_leave(c->cx);
}

anf_status cli_load(cli *c, const char *file, anf_module **out) {
  anf_module *m = NULL;
  anf_status st = load(c, file, &m);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_module, m);
  *out = m;
  anf_dump *d = cli_dump(c);
  if (d) anf_dump_stage(d, c->cx, "parse", m, NULL);
  return d ? d->status : ANF_OK;
}

/* ---- choosing a function ---- */

/* Was g made for a branch or loop, or by a pass? Names in programs begin with no mark. */
static bool is_made(const anf_graph *g) {
  size_t len;
  return anfi_mark_word(g->name->s, &len) != NULL;
}

typedef ANFI_VEC(anf_graph *) graphs;

/* By id: do others refer to the graph? */
static const bool *find_used(const anf_module *m, const anf_analysis *an, anfi_arena *a) {
  bool *used = ANFI_NEW_N(a, bool, m->graphs.n + 1);
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anfi_graph_info *u = &an->graphs[i];
    for (size_t k = 0; m->graphs.at[i] && k < u->callees.n; k++)
      used[u->callees.at[k]->id] |= u->scc != an->graphs[u->callees.at[k]->id].scc;
  }
  return used;
}

/* Closed graphs with a name of their own; `roots`: only those that others do not refer to. */
static graphs candidates(cli *c, anf_module *m, bool roots) {
  graphs list = {0};
  anfi_arena *a = anfi_scratch(c->cx);
  anf_analysis *an = anfi_analyse(m);
  const bool *used = find_used(m, an, a);
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    bool own = g && !is_made(g) && !(g->flags & ANFI_GRAPH_PRIVATE) && !an->graphs[i].parent;
    if (own && !(roots && used[i])) anfi_push(a, &list, g);
  }
  return list;
}

enum { SHOWN = 20 };

static void hint_list(cli *c, const graphs *list) {
  anf_text t = {.cx = c->cx};
  for (size_t i = 0; i < list->n && i < SHOWN; i++)
    anfi_putf(&t, "%s%s", i ? ", " : "", list->at[i]->name->s);
  if (list->n > SHOWN) anfi_putf(&t, " and %zu more", list->n - SHOWN);
  if (t.text) anfi_hint(c->cx, "it defines %s", t.text);
  else anfi_hint(c->cx, "it defines no function");
  anf_text_free(&t);
}

static const char *name_at(void *user, size_t i) {
  const graphs *list = (const graphs *)user;
  return i < list->n ? list->at[i]->name->s : NULL;
}

anf_graph *cli_function(cli *c, anf_module *m, cli_target t) {
  anf_graph *g = anf_module_find(m, t.function ? t.function : "main");
  if (g) return g;
  graphs all = candidates(c, m, false);
  if (t.function) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0010, t.function, t.file);
    if (!anfi_suggest(c->cx, t.function, name_at, &all)) hint_list(c, &all);
    return NULL;
  }
  if (all.n == 1) return all.at[0];
  graphs roots = candidates(c, m, true);
  if (roots.n == 1) return roots.at[0];
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0011, t.file);
  hint_list(c, &all);
  return NULL;
}

void cli_hide_others(anf_module *m, const anf_graph *f, const anf_graph *other) {
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *x = m->graphs.at[i];
    if (x && x != f && x != other) x->flags |= ANFI_GRAPH_PRIVATE;
  }
}

/* Types of parameters from `first` on. The text is a tuple's inside: "f32[2, 3], i64". */
static anf_status read_types(cli *c, anf_graph *g, const char *sig, size_t first,
                             const anf_type **types) {
  const anf_type *tuple = NULL;
  size_t n = anf_graph_param_count(g) - first;
  anf_status st = anf_parse_type(
      c->cx, anfi_sprintf(anfi_scratch(c->cx), *sig ? "(%s,)" : "()", sig), c->d, &tuple);
  if (st != ANF_OK) return st;
  if (anf_type_count(tuple) != n) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0510, anf_graph_name(g), n, anf_type_count(tuple));
    return ANF_INVALID;
  }
  for (size_t i = 0; i < n; i++) types[first + i] = anf_type_at(tuple, i);
  return ANF_OK;
}

/* May a tensor of type t be given where `want` is written? Of other types inference sees to it. */
static bool fits(const anf_type *want, const anf_type *t) {
  if (!want || want->kind != ANF_TYPE_TENSOR) return true;
  if (t->kind != ANF_TYPE_TENSOR || t->dtype != want->dtype || t->n != want->n) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (want->dims[i] >= 0 && t->dims[i] >= 0 && want->dims[i] != t->dims[i]) return false;
  return true;
}

static anf_status unfit(cli *c, anf_graph *g, size_t i, const anf_type *want, const anf_type *t) {
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0511, i + 1, anf_graph_name(g), anfi_type_text(c->cx, want),
            anfi_type_text(c->cx, t));
  return ANF_INVALID;
}

anf_status cli_declare(cli *c, anf_graph *g, const char *sig) {
  size_t n = anf_graph_param_count(g);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, n + 1);
  anf_status st = read_types(c, g, sig, 0, types);
  for (size_t i = 0; st == ANF_OK && i < n; i++) {
    anf_node *p = anf_graph_param(g, i);
    const anf_type *want = anf_node_type(p);
    if (types[i]->kind == ANF_TYPE_FN || types[i]->kind == ANF_TYPE_ANY)
      st = (anfi_fail(c->cx, anfi_node_loc(p), ANF_E0517, anf_graph_name(g), i + 1), ANF_INVALID);
    else if (!fits(want, types[i])) st = unfit(c, g, i, want, types[i]);
    else anf_node_set_type(p, types[i]);
  }
  return st;
}

static anf_status types_from(cli *c, anf_graph *g, size_t first, const anf_type **types) {
  size_t n = anf_graph_param_count(g);
  const char *sig = c->value[OPT_SIG];
  if (sig) return read_types(c, g, sig, first, types);
  for (size_t i = first; i < n; i++)
    if (!(types[i] = anf_node_type(anf_graph_param(g, i)))) {
      anfi_fail(c->cx, anfi_nowhere(), ANF_E0954, anf_graph_name(g),
                anf_node_name(anf_graph_param(g, i)));
      anfi_hint(c->cx, "say what it is called with: --sig \"f32[2], i64\"");
      return ANF_INVALID;
    }
  return ANF_OK;
}

anf_status cli_types(cli *c, anf_graph *g, const anf_type **types) {
  return types_from(c, g, 0, types);
}

anf_status cli_types_after(cli *c, anf_graph *g, const anf_type *first, const anf_type **types) {
  types[0] = first;
  return types_from(c, g, 1, types);
}
