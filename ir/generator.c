// SPDX-License-Identifier: Apache-2.0
/* MetaFuncGraphs of the host: a C function makes a graph for the types of a call's arguments.
 *   double_all(x, y), x: f32[3], y: i64      the C function makes  g(x, y): (x + x, y + y)  once for these types
 * The context owns the graphs, one for each list of types, in modules of their own; programs that call them have copies
 * (copy.c, anfi_merge), which inference asks for (optimizer/infer/specialise.c). */
#include "ir/ops/op.h"

#include "anfora/host.h"

static void free_generator(void *p) {
  anfi_generator *g = (anfi_generator *)p;
  for (size_t i = 0; i < g->parts.n; i++) anf_module_free(g->parts.at[i].module);
  for (int i = 0; i < 2; i++) anfi_arena_free(&g->arena[i]);
  if (g->release) g->release(g->user);
}

bool anfi_generator_add(anf_ctx *cx, const struct anf_meta_op *op) {
  if (!anfi_host_may_add(cx, op->name)) return false;
  if (!op->generate)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0231, op->name, "it has no function");
  anfi_generator *g = ANFI_NEW(&cx->arena, anfi_generator);
  *g = (anfi_generator){.generate = op->generate, .user = op->user};
  for (int i = 0; i < 2; i++) anfi_arena_init(&g->arena[i], cx);
  anfi_map_init(&g->made, g->arena);
  anfi_host *h = ANFI_NEW(&cx->arena, anfi_host);
  h->name = anfi_intern_z(&cx->strings, op->name);
  h->generator = g;
  anfi_ctx_keep(cx, h, g, free_generator);
  g->next = cx->generators;
  cx->generators = g;
  *anfi_map_at(&cx->hosts, h->name->id) = anfi_key(h);
  g->release = op->release; // from here on nothing fails: `user` is the context's
  return true;
}

const anfi_host *anfi_generator_of(anf_ctx *cx, const anf_value *name, anfi_loc loc) {
  const anfi_host *h = anfi_host_find(cx, name->u.text, name->n);
  if (h && h->generator) return h;
  anfi_fail(cx, loc, ANF_E0230, name->u.text);
  return NULL;
}

/* ---- the graphs ---- */

static uint64_t hash_of(size_t n, const anf_type *const *types) {
  uint64_t hash = anfi_hash_mix(1, n);
  for (size_t i = 0; i < n; i++) hash = anfi_hash_mix(hash, types[i]->hash);
  return hash;
}

/* A new entry of a table, which is in arena a. */
static anfi_generated *add_entry(anfi_arena *a, anfi_map *made, const anfi_host *h, size_t n,
                                 const anf_type *const *types) {
  const anf_type **copy = ANFI_NEW_N(a, const anf_type *, n + 1);
  if (n) memcpy(copy, types, n * sizeof *types);
  anfi_generated *e = ANFI_NEW(a, anfi_generated);
  uint64_t *at = anfi_map_at(made, hash_of(n, types));
  *e = (anfi_generated){.next = (anfi_generated *)(uintptr_t)*at, .of = h, .n = n, .types = copy};
  *at = anfi_key(e);
  return e;
}

anfi_generated *anfi_generated_for(const anfi_host *h, size_t n, const anf_type *const *types) {
  anfi_generator *g = h->generator;
  const uint64_t *at = anfi_map_find(&g->made, hash_of(n, types));
  for (anfi_generated *e = at ? (anfi_generated *)(uintptr_t)*at : NULL; e; e = e->next)
    if (e->n == n && (!n || memcmp(e->types, types, n * sizeof *types) == 0)) return e;
  return add_entry(&g->arena[g->now], &g->made, h, n, types);
}

static bool refuse(const anfi_generated *e, anf_ctx *cx, anfi_loc loc, const char *why) {
  return anfi_fail(cx, loc, ANF_E1586, e->of->name->s, why);
}

static bool no_graph(const anfi_generated *e, anf_ctx *cx, anfi_loc loc) {
  const char *all = "";
  anfi_arena *a = anfi_scratch(cx);
  for (size_t i = 0; i < e->n; i++)
    all = anfi_sprintf(a, "%s%s%s", all, i ? ", " : "", anfi_type_text(cx, e->types[i]));
  return anfi_fail(cx, loc, ANF_E1585, e->of->name->s, all);
}

static bool is_part(const anfi_generator *g, const anf_module *m) {
  for (size_t i = 0; i < g->parts.n; i++)
    if (g->parts.at[i].module == m) return true;
  return false;
}

static bool check(const anfi_generated *e, anf_ctx *cx, anf_graph *g, anfi_loc loc) {
  if (!g->result) return refuse(e, cx, loc, "it has no result");
  if (g->params.n != e->n) return refuse(e, cx, loc, "it has another number of parameters");
  if (anfi_analyse(g->module)->graphs[g->id].free.n)
    return refuse(e, cx, loc, "it refers to nodes of a function around it");
  if (anfi_module_has_effects(g->module)) return refuse(e, cx, loc, "it has effects");
  anf_status st = anf_verify(g->module, cx->frame->diag);
  return st == ANF_OK || (refuse(e, cx, loc, "it is not well formed"), false);
}

bool anfi_generate(anf_ctx *cx, anfi_generated *e, anfi_loc loc) {
  if (e->graph) return true;
  anfi_generator *gen = e->of->generator;
  anf_graph *g = NULL;
  anf_status st = gen->generate(gen->user, cx, e->n, e->types, cx->frame->diag, &g);
  if (st != ANF_OK || !g) return no_graph(e, cx, loc);
  if (g->module->cx != cx) return refuse(e, cx, loc, "it is of another context");
  if (is_part(gen, g->module)) return refuse(e, cx, loc, "its module has another of its graphs");
  anfi_push(&gen->arena[gen->now], &gen->parts, ((anfi_generated_module){e, g->module}));
  if (g->module->status != ANF_OK) {
    const anf_diag_item *why = anf_diag_at(anf_module_diag(g->module), 0);
    return refuse(e, cx, loc, why ? why->message : "building it failed");
  }
  if (!check(e, cx, g, loc)) return false;
  e->graph = g;
  return true;
}

/* ---- trimming ---- */

void anfi_module_borrow(anf_module *m, anf_module *part) {
  anfi_push(&m->arena, &m->lenders, part);
  part->borrowers++;
}

/* Graphs that no program has a copy of are made again when they are asked for. */
static void trim(anfi_generator *g) {
  anfi_arena *a = &g->arena[!g->now];
  anfi_generator fresh = {0};
  anfi_arena_free(a); // where memory ended in the trim before
  anfi_map_init(&fresh.made, a);
  for (size_t i = 0; i < g->parts.n; i++) {
    anfi_generated_module p = g->parts.at[i];
    if (!p.module->borrowers) continue;
    anfi_generated *e = add_entry(a, &fresh.made, p.of->of, p.of->n, p.of->types);
    e->graph = p.of->graph;
    anfi_push(a, &fresh.parts, ((anfi_generated_module){e, p.module}));
  }
  for (size_t i = 0; i < g->parts.n; i++)
    if (!g->parts.at[i].module->borrowers) anf_module_free(g->parts.at[i].module);
  anfi_arena_free(&g->arena[g->now]);
  g->now = !g->now;
  g->made = fresh.made;
  memcpy(&g->parts, &fresh.parts, sizeof g->parts);
}

void anfi_generators_trim(anf_ctx *cx) {
  for (anfi_generator *g = cx->generators; g; g = g->next) trim(g);
}
