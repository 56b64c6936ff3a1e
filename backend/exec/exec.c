// SPDX-License-Identifier: Apache-2.0
/* Compiled functions: options, signatures, variants. The entry points are here. */
#include "backend/exec/exec.h"
#include "backend/jit/jit.h"
#include "ir/interp.h"

/* ---- making ---- */

static void free_exec(void *e) { anf_exec_free((anf_exec *)e); }

void anf_exec_free(anf_exec *e) {
  if (!e) return;
  anf_ctx *cx = e->cx;
  for (anfi_variant *v = e->variant; v;) {
    anfi_variant *next = v->next;
    anfi_variant_free(cx, v);
    v = next;
  }
  anf_jit_engine_free(e->engine);
  anfi_raw(cx, e, sizeof *e, 0);
}

static anf_jit_engine *engine_of(anf_ctx *cx, const anf_exec_opts *o) {
  anf_jit_engine *e = NULL;
  anf_status st = anf_jit_engine_new(cx, o->kind, o->jit.size ? &o->jit : NULL, NULL, &e);
  if (st != ANF_OK) anfi_fail_as(cx, st);
  return e;
}

static void read_opts(const anf_exec_opts *o, anf_exec_opts *out) {
  memset(out, 0, sizeof *out);
  if (o) memcpy(out, o, o->size && o->size < sizeof *out ? o->size : sizeof *out);
  if (!out->max_compiled) out->max_compiled = 64;
}

static bool has_types(const anf_graph *g, const anf_type **types) {
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_type *t = types[i] = g->params.at[i]->type;
    size_t n;
    if (!t || t->kind == ANF_TYPE_FN || t->kind == ANF_TYPE_ANY) return false;
    if (t->kind == ANF_TYPE_TENSOR && !anfi_type_elements(t, &n)) return false;
  }
  return true;
}

static anfi_variant *find(anf_exec *e, size_t n, const anf_type *const *types) {
  for (anfi_variant **at = &e->variant; *at; at = &(*at)->next) {
    anfi_variant *v = *at;
    if (v->n != n || (n && memcmp(v->type, types, n * sizeof *types) != 0)) continue;
    *at = v->next; // used last: to the front
    v->next = e->variant;
    return e->variant = v;
  }
  return NULL;
}

static void drop_oldest(anf_exec *e) {
  anfi_variant **at = &e->variant;
  while ((*at)->next) at = &(*at)->next;
  anfi_variant_free(e->cx, *at);
  *at = NULL;
  e->nvariant--;
}

static anfi_variant *variant(anf_exec *e, size_t n, const anf_type *const *types) {
  anfi_variant *v = find(e, n, types);
  if (v || !(v = anfi_variant_new(e, n, types))) return v;
  if (e->nvariant == e->o.max_compiled) drop_oldest(e);
  v->next = e->variant;
  e->nvariant++;
  return e->variant = v;
}

static anf_exec *new_exec(anf_graph *g, const anf_exec_opts *given) {
  anf_ctx *cx = g->module->cx;
  anf_exec *e = (anf_exec *)anfi_raw(cx, NULL, 0, sizeof *e);
  if (!e) anfi_throw_nomem(cx);
  memset(e, 0, sizeof *e);
  e->cx = cx;
  e->g = g;
  anfi_defer(cx, ANFI_ON_FAIL, free_exec, e);
  read_opts(given, &e->o);
  if (g->module->status != ANF_OK)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E0420, g->name->s,
                           "its module could not be built"),
           NULL;
  if (e->o.engine) {
    e->engine = e->o.engine;
    atomic_fetch_add(&e->engine->refs, 1);
  }
  if (!e->engine && !(e->engine = engine_of(cx, &e->o))) return NULL;
  const anf_type **types = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, g->params.n + 1);
  if (has_types(g, types) && !variant(e, g->params.n, types)) return NULL;
  return e;
}

anf_status anf_compile(anf_graph *g, const anf_exec_opts *o, anf_diag *d, anf_exec **out) {
  *out = NULL;
  ANFI_ENTRY(g->module->cx, d);
  *out = new_exec(g, o);
  anf_status st = anfi_leave(g->module->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

/* ---- arguments ---- */

static bool fit_one(anf_exec *e, anfi_fit *f, size_t i, anf_value *v, anf_value **out) {
  const anf_type *t = e->g->params.at[i]->type;
  if (!v) return anfi_fail(e->cx, anfi_nowhere(), ANF_E0002, "an argument");
  if (v->cx != e->cx) return anfi_fail(e->cx, anfi_nowhere(), ANF_E0421, i + 1);
  if (!t) *out = anf_value_retain(v);
  else if (!anfi_fit_value(f, v, t, out)) {
    anf_text words = {.cx = e->cx};
    anfi_fail(e->cx, anfi_node_loc(e->g->params.at[i]), ANF_E0412, i + 1, e->g->name->s,
              anfi_fit_why(f, &words));
    anf_text_free(&words);
    return false;
  }
  return true;
}

static void release(void *v) { anf_value_release((anf_value *)v); }

/* Arguments as the parameters declare them, and their types. */
static bool fit_all(anf_exec *e, size_t n, anf_value *const *args, anf_value **fitting,
                    const anf_type **types) {
  anfi_fit f = {.cx = e->cx, .arena = anfi_scratch(e->cx), .host = true};
  if (n != e->g->params.n)
    return anfi_fail(e->cx, anfi_nowhere(), ANF_E0410, e->g->name->s, e->g->params.n, n);
  for (size_t i = 0; i < n; i++) {
    if (!fit_one(e, &f, i, args[i], &fitting[i])) return false;
    anfi_defer(e->cx, ANFI_ALWAYS, release, fitting[i]);
    if (!(types[i] = anf_value_type(e->cx, fitting[i]))) anfi_throw_nomem(e->cx);
  }
  return true;
}

static bool prepare_for(anf_exec *e, size_t n, anf_value *const *args) {
  anf_value **fitting = ANFI_NEW_N(anfi_scratch(e->cx), anf_value *, n + 1);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(e->cx), const anf_type *, n + 1);
  return fit_all(e, n, args, fitting, types) && variant(e, n, types);
}

static bool run(anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                anf_value **result) {
  anf_value **fitting = ANFI_NEW_N(anfi_scratch(e->cx), anf_value *, n + 1);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(e->cx), const anf_type *, n + 1);
  anfi_variant *v;
  return fit_all(e, n, args, fitting, types) && (v = variant(e, n, types)) &&
         anfi_variant_run(e, v, fitting, o, result);
}

anf_status anf_exec_prepare(anf_exec *e, size_t n, const anf_type *const *types, anf_diag *d) {
  ANFI_ENTRY(e->cx, d);
  variant(e, n, types);
  return anfi_leave(e->cx);
}

anf_status anf_exec_prepare_for(anf_exec *e, size_t n, anf_value *const *args, anf_diag *d) {
  ANFI_ENTRY(e->cx, d);
  prepare_for(e, n, args);
  return anfi_leave(e->cx);
}

anf_status anf_exec_run(anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                        anf_diag *d, anf_value **result) {
  *result = NULL;
  ANFI_ENTRY(e->cx, d);
  run(e, n, args, o, result);
  return anfi_leave(e->cx);
}

/* ---- looking ---- */

anf_jit_function *anf_exec_function(const anf_exec *e) {
  return e->variant ? e->variant->function : NULL;
}
void *anf_exec_pointer(const anf_exec *e) {
  return e->variant ? anf_jit_get_function_pointer(e->variant->function) : NULL;
}
size_t anf_exec_compilations(const anf_exec *e) { return e->compilations; }
double anf_exec_compile_ms(const anf_exec *e) { return e->compile_ms; }

static void free_engine(void *e) { anf_jit_engine_free((anf_jit_engine *)e); }

static void print_form(anf_graph *g, size_t n, const anf_type *const *types, const char *form,
                       const anf_exec_opts *given, anf_text *out) {
  anf_ctx *cx = g->module->cx;
  anf_exec_opts o;
  anfi_lowered low = {.arena = anfi_scratch(cx)};
  read_opts(given, &o);
  if (!anfi_exec_lower(g, n, types, &o, &low)) return;
  if (strcmp(form, "tir") == 0) {
    anfi_t_print_mod(low.module, out);
    return;
  }
  anf_jit_engine *e = o.engine ? o.engine : engine_of(cx, &o);
  if (!e) return;
  if (!o.engine) anfi_defer(cx, ANFI_ALWAYS, free_engine, e);
  anf_status st = anf_jit_print(e, low.module, form, NULL, out);
  if (st != ANF_OK) anfi_fail_as(cx, st);
}

anf_status anf_lowered_print(anf_graph *g, size_t n, const anf_type *const *types, const char *form,
                             const anf_exec_opts *o, anf_diag *d, anf_text *out) {
  ANFI_ENTRY(g->module->cx, d);
  print_form(g, n, types, form, o, out);
  return anfi_leave(g->module->cx);
}
