// SPDX-License-Identifier: Apache-2.0
/* From a graph and types to a compiled variant. The program is copied, for the passes rewrite it. */
#include "backend/exec/exec.h"

#include "anfora/opt.h"

static void free_module(void *m) { anf_module_free((anf_module *)m); }

/* A copy in which the graph, at these types, is all that the host sees. */
static anf_graph *copy_for(anf_graph *g, size_t n, const anf_type *const *types) {
  anf_graph *copy = NULL;
  anf_analysis *an = anfi_analyse(g->module);
  const anfi_graph_info *gi = &an->graphs[g->id];
  if (gi->free.n) {
    anfi_fail(g->module->cx, anfi_nowhere(), ANF_E0414, g->name->s,
              anf_node_name(gi->free.at[0]));
    return NULL;
  }
  if (n != g->params.n) {
    anfi_fail(g->module->cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n);
    return NULL;
  }
  anf_module *m = anfi_module_copy(an, &g, 1, &copy);
  anfi_undefer(m->cx, m); // it was to go on failure
  anfi_defer(m->cx, ANFI_ALWAYS, free_module, m);
  for (size_t i = 0; i < m->graphs.n; i++) m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
  copy->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
  for (size_t i = 0; i < n; i++) copy->params.at[i]->type = types[i];
  return copy;
}

static anf_graph *public_graph(anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE)) return m->graphs.at[i];
  return NULL;
}

static bool lower(anf_graph *g, size_t n, const anf_type *const *types, const anf_exec_opts *o,
                  anfi_lowered *low) {
  anf_ctx *cx = low->cx;
  anf_graph *copy = copy_for(g, n, types);
  if (!copy) return false;
  anf_module *m = copy->module;
  anf_opt_opts opt = {.size = sizeof opt, .fast = o->fast};
  anf_status st = anf_optimise(m, o->pipeline ? o->pipeline : "standard", &opt, NULL);
  if (st != ANF_OK) return anfi_fail_as(cx, st);
  anfi_lower_opts lo = {.fast = o->fast, .parallel = o->parallel, .name = g->name->s};
  anf_graph *entry = public_graph(m);
  return entry && anfi_lower_graph(entry, &lo, low);
}

bool anfi_exec_lower(anf_graph *g, size_t n, const anf_type *const *types, const anf_exec_opts *o,
                     anfi_lowered *low) {
  low->cx = g->module->cx;
  return lower(g, n, types, o, low);
}

/* ---- variants ---- */

static void retain_constants(const anfi_lowered *low) {
  for (size_t i = 0; i < low->sites.n; i++)
    for (size_t k = 0; k < low->sites.at[i].n; k++) anf_value_retain(low->sites.at[i].value[k]);
}

void anfi_variant_free(anf_ctx *cx, anfi_variant *v) {
  if (!v) return;
  for (size_t i = 0; v->function && i < v->low.sites.n; i++)
    for (size_t k = 0; k < v->low.sites.at[i].n; k++) anf_value_release(v->low.sites.at[i].value[k]);
  anf_jit_function_free(v->function);
  anf_jit_module_free(v->code);
  anfi_arena_free(&v->arena);
  anfi_raw(cx, v, sizeof *v, 0);
}

static void free_variant(void *p) {
  anfi_variant *v = (anfi_variant *)p;
  anfi_variant_free(v->arena.cx, v);
}

anfi_variant *anfi_variant_new(anf_exec *e, size_t n, const anf_type *const *types) {
  uint64_t start = anfi_os_now_ns();
  anfi_variant *v = (anfi_variant *)anfi_raw(e->cx, NULL, 0, sizeof *v);
  if (!v) anfi_throw_nomem(e->cx);
  memset(v, 0, sizeof *v);
  anfi_arena_init(&v->arena, e->cx);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_variant, v);
  v->n = n;
  v->type = ANFI_NEW_N(&v->arena, const anf_type *, n + 1);
  if (n) memcpy(v->type, types, n * sizeof *types);
  v->low.arena = &v->arena;
  if (!anfi_exec_lower(e->g, n, types, &e->o, &v->low)) return NULL;
  anf_status st = anf_jit_make_module(e->engine, v->low.module, NULL, &v->code);
  if (st != ANF_OK) return (void)anfi_fail_as(e->cx, st), NULL;
  if (!(v->function = anf_jit_get_function(v->code, v->low.entry))) anfi_throw_nomem(e->cx);
  retain_constants(&v->low);
  v->low.module = NULL;
  e->compilations++;
  e->compile_ms += (double)(anfi_os_now_ns() - start) / 1e6;
  return v;
}
