// SPDX-License-Identifier: Apache-2.0
/* Modules and graphs: ownership, debug information, the public accessors.
 *   module { graphs: f, ✓f, ✗f;  nodes: by id }      all in the module's arena, freed at once */
#include "ir/ir.h"

/* The module's own memory comes first, so that every later failure can free the module. */
static anf_module *alloc_module(anf_ctx *cx) {
  anf_module *m = (anf_module *)anfi_object(cx, sizeof *m);
  if (!m) anfi_throw_nomem(cx);
  m->cx = cx;
  anfi_arena_init(&m->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, anfi_free_module, m);
  return m;
}

anf_module *anfi_module_new(anf_ctx *cx) {
  anf_module *m = alloc_module(cx);
  m->diag = anf_diag_new(cx);
  if (!m->diag) anfi_throw_nomem(cx);
  anfi_strtab_init(&m->strings, &m->arena);
  anfi_map_init(&m->results, &m->arena);
  anfi_push(&m->arena, &m->debugs, ((anfi_debug){0}));
  return m;
}

anf_module *anf_module_new(anf_ctx *cx) {
  if (!cx) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_module *m = anfi_module_new(cx);
  return anfi_leave(cx) == ANF_OK ? m : NULL;
}

void anfi_module_own(anf_module *m, anf_module *part) {
  anfi_push(&m->arena, &m->parts, part);
  part->owner = m;
}

/* A frame that fails frees every module that was made in it, the younger first: a part before its owner. */
static void free_parts(anf_module *m) {
  while (m->parts.n) anf_module_free(m->parts.at[m->parts.n - 1]);
  if (!m->owner) return;
  size_t k = 0;
  while (m->owner->parts.at[k] != m) k++;
  m->owner->parts.at[k] = m->owner->parts.at[--m->owner->parts.n];
}

void anf_module_free(anf_module *m) {
  if (!m) return;
  anf_ctx *cx = m->cx;
  for (size_t i = 0; i < m->held.n; i++) anf_value_release(m->held.at[i]);
  free_parts(m);
  for (size_t i = 0; i < m->lenders.n; i++) m->lenders.at[i]->borrowers--;
  anf_diag_free(m->diag);
  if (m->source) anfi_source_remove_text(cx, m->source);
  for (size_t i = 0; i < m->imported.n; i++) anfi_source_remove_text(cx, m->imported.at[i]);
  anfi_arena_free(&m->arena);
  anfi_object_free(cx, m);
}
void anfi_free_module(void *m) { anf_module_free((anf_module *)m); }

anf_graph *anfi_graph_new(anf_module *m, const anfi_str *name) {
  anf_graph *g = ANFI_NEW(&m->arena, anf_graph);
  g->module = m;
  g->name = name;
  g->id = (uint32_t)m->graphs.n;
  anfi_push(&m->arena, &m->graphs, g);
  return g;
}

anf_graph *anfi_graph_beside(const anf_graph *like, const char *mark) {
  anf_module *m = like->module;
  const anfi_str *name = like->name;
  if (*mark) name = anfi_intern_z(&m->strings, anfi_sprintf(&m->arena, "%s%s", mark, name->s));
  anf_graph *g = anfi_graph_new(m, name);
  g->flags = ANFI_GRAPH_PRIVATE;
  g->debug = like->debug;
  return g;
}

void anfi_only_public(anf_graph *g) {
  anf_module *m = g->module;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
  g->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
}

uint32_t *anfi_effect_order(const anf_module *m, anfi_arena *a) {
  uint32_t *before = NULL;
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anf_graph *g = m->graphs.at[i];
    for (size_t k = 1; g && k < g->effects.n; k++) {
      if (!before) before = ANFI_NEW_N(a, uint32_t, m->nodes.n);
      before[g->effects.at[k]->id] = g->effects.at[k - 1]->id + 1;
    }
  }
  return before;
}

void anfi_graph_remove(anf_graph *g) {
  anfi_set_result(g, NULL);
  g->removed = true;
  g->module->graphs.at[g->id] = NULL;
}

uint32_t anfi_debug_new(anf_module *m, anfi_debug d) {
  anfi_push(&m->arena, &m->debugs, d);
  return (uint32_t)(m->debugs.n - 1);
}

uint32_t anfi_debug_derive(anf_module *m, uint32_t from, const char *how) {
  anfi_debug d = m->debugs.at[from];
  d.name = NULL;
  d.origin = from;
  d.how = how;
  return anfi_debug_new(m, d);
}

anfi_loc anfi_node_loc(const anf_node *n) {
  const anf_module *m = n->graph ? n->graph->module : NULL;
  const anfi_debug *d = m ? &m->debugs.at[n->debug] : NULL;
  return d && d->file ? (anfi_loc){d->file->s, d->line, d->col} : anfi_nowhere();
}

bool anfi_module_has_op(const anf_module *m, anfi_opcode op) {
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && anfi_is_op(m->nodes.at[i], op)) return true;
  return false;
}

bool anfi_module_has_effects(const anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && m->graphs.at[i]->effects.n) return true;
  return false;
}

anfi_loc anfi_graph_loc(const anf_graph *g) {
  const anfi_debug *d = &g->module->debugs.at[g->debug];
  return d->file ? (anfi_loc){d->file->s, d->line, d->col} : anfi_nowhere();
}

bool anfi_is_built(const anf_module *m) {
  if (m->status == ANF_OK) return true;
  if (!anfi_repeat(m->cx, m->diag)) return anfi_fail_as(m->cx, m->status);
  anfi_note(m->cx, anfi_nowhere(),
            "the module is not built to the end, so nothing can be made of it");
  return false;
}

/* ---- the public face ---- */

anf_graph *anf_graph_new(anf_module *m, const char *name) {
  if (!m || m->status != ANF_OK) return NULL;
  ANFI_ENTRY_ELSE(m->cx, m->diag, (m->status = ANF_NOMEM, (anf_graph *)NULL));
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, name ? name : ""));
  return (void)anfi_leave(m->cx), g;
}

anf_ctx *anf_module_ctx(const anf_module *m) { return m ? m->cx : NULL; }
anf_status anf_module_status(const anf_module *m) { return m ? m->status : ANF_INVALID; }
const anf_diag *anf_module_diag(const anf_module *m) { return m ? m->diag : NULL; }
size_t anf_module_graph_count(const anf_module *m) { return m ? m->graphs.n : 0; }
anf_graph *anf_module_graph(const anf_module *m, size_t i) {
  if (!m) return NULL;
  return i < m->graphs.n ? m->graphs.at[i] : NULL;
}
size_t anf_module_node_limit(const anf_module *m) { return m ? m->nodes.n : 0; }
anf_node *anf_module_node(const anf_module *m, size_t id) {
  if (!m) return NULL;
  return id < m->nodes.n ? m->nodes.at[id] : NULL;
}

/* The name of graph i, empty if it is gone; NULL after the last. */
static const char *graph_name(void *module, size_t i) {
  const anf_module *m = (const anf_module *)module;
  if (i >= m->graphs.n) return NULL;
  return m->graphs.at[i] ? m->graphs.at[i]->name->s : "";
}

anf_graph *anf_module_find(const anf_module *m, const char *name) {
  ANFI_NEED_ELSE(m ? m->cx : NULL, NULL, m, name);
  const anfi_str *s = anfi_interned(&m->strings, name, strlen(name));
  for (size_t i = 0; s && i < m->graphs.n; i++)
    if (m->graphs.at[i] && m->graphs.at[i]->name == s) return m->graphs.at[i];
  anfi_missed(m->cx, "function", name, graph_name, (void *)(uintptr_t)m);
  return NULL;
}

const char *anf_graph_name(const anf_graph *g) { return g ? g->name->s : ""; }
anf_module *anf_graph_module(const anf_graph *g) { return g ? g->module : NULL; }
size_t anf_graph_param_count(const anf_graph *g) { return g ? g->params.n : 0; }
anf_node *anf_graph_param(const anf_graph *g, size_t i) {
  if (!g) return NULL;
  return i < g->params.n ? g->params.at[i] : NULL;
}
anf_node *anf_graph_result(const anf_graph *g) { return g ? g->result : NULL; }
void anf_graph_set_result_type(anf_graph *g, const anf_type *t) {
  if (!g) return;
  g->result_type = t;
}
const anf_type *anf_graph_result_type(const anf_graph *g) { return g ? g->result_type : NULL; }

/* NULL, and the module marked as failed, when out of memory. */
static const anfi_str *intern_in(anf_module *m, const char *text) {
  ANFI_ENTRY_ELSE(m->cx, m->diag, (m->status = ANF_NOMEM, (const anfi_str *)NULL));
  const anfi_str *s = anfi_intern_z(&m->strings, text ? text : "");
  return (void)anfi_leave(m->cx), s;
}

void anf_graph_set_name(anf_graph *g, const char *name) {
  if (!g) return;
  const anfi_str *s = intern_in(g->module, name);
  if (s) g->name = s;
}

anf_status anf_graph_remove(anf_graph *g) {
  if (!g) return ANF_INVALID;
  ANFI_ENTRY(g->module->cx, g->module->diag);
  if (g->self && anfi_is_used(g->self))
    anfi_fail(g->module->cx, anfi_nowhere(), ANF_E0209, g->name->s);
  else anfi_graph_remove(g);
  return anfi_leave(g->module->cx);
}

/* ---- debug information of nodes: a node's entry is copied before it is changed, entries are
 * shared ---- */

static const anfi_debug *debug_of(const anf_node *n) {
  static const anfi_debug nothing = {0};
  return n->graph ? &n->graph->module->debugs.at[n->debug] : &nothing;
}

const char *anf_node_name(const anf_node *n) {
  if (!n) return "";
  return debug_of(n)->name ? debug_of(n)->name->s : "";
}
const char *anf_node_scope(const anf_node *n) {
  if (!n) return "";
  return debug_of(n)->scope ? debug_of(n)->scope->s : "";
}
const char *anf_node_file(const anf_node *n) {
  if (!n) return "";
  return debug_of(n)->file ? debug_of(n)->file->s : "";
}
uint32_t anf_node_line(const anf_node *n) { return n ? debug_of(n)->line : 0; }
uint32_t anf_node_col(const anf_node *n) { return n ? debug_of(n)->col : 0; }

static uint32_t new_debug(anf_module *m, anfi_debug d, uint32_t old) {
  ANFI_ENTRY_ELSE(m->cx, m->diag, (m->status = ANF_NOMEM, old));
  uint32_t k = anfi_debug_new(m, d);
  return (void)anfi_leave(m->cx), k;
}

void anf_node_set_name(anf_node *n, const char *name) {
  if (!n || !n->graph) return;
  anfi_debug d = *debug_of(n);
  d.name = intern_in(n->graph->module, name);
  n->debug = new_debug(n->graph->module, d, n->debug);
}

void anf_node_set_scope(anf_node *n, const char *scope) {
  if (!n || !n->graph) return;
  anfi_debug d = *debug_of(n);
  d.scope = intern_in(n->graph->module, scope);
  n->debug = new_debug(n->graph->module, d, n->debug);
}

static uint32_t located(anf_module *m, uint32_t old, const char *file, uint32_t line,
                        uint32_t col) {
  anfi_debug d = m->debugs.at[old];
  d.file = intern_in(m, file);
  d.line = line;
  d.col = col;
  return new_debug(m, d, old);
}

void anf_node_set_loc(anf_node *n, const char *file, uint32_t line, uint32_t col) {
  if (n && n->graph) n->debug = located(n->graph->module, n->debug, file, line, col);
}

void anf_graph_set_loc(anf_graph *g, const char *file, uint32_t line, uint32_t col) {
  if (g) g->debug = located(g->module, g->debug, file, line, col);
}
