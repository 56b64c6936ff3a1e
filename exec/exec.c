// SPDX-License-Identifier: Apache-2.0
/* Compiled functions: one variant for each signature, made when it is first called.
 *
 *   anf_exec_run(f, x: f32[4])     compiles f at f32[4]
 *   anf_exec_run(f, y: f32[4])     runs the same variant
 *   anf_exec_run(f, z: f32[8])     compiles f at f32[8]
 *
 * If inference needs the value of an argument (a bound of a slice, an axis), the variant is specialised to values as
 * well. The least recently used variant goes when there are too many. */
#include "exec/exec.h"
#include "exec/partition.h"
#include "backend/jit/jit.h"

/* ---- making ---- */

static void free_exec(void *e) { anf_exec_free((anf_exec *)e); }

static void drop_all(anf_exec *e) {
  for (anfi_variant *v = e->variant, *next; v; v = next) {
    next = v->next;
    anfi_variant_free(e->cx, v);
  }
  e->variant = NULL;
  e->nvariant = 0;
  anfi_batch_free(e->cx, e->batch);
  e->batch = NULL;
  anfi_seldom_free(e->cx, e->seldom);
  e->seldom = NULL;
  e->interpreted = NULL;
  anfi_partition_free(e->cx, e->partition);
  e->partition = NULL;
}

void anf_exec_free(anf_exec *e) {
  if (!e) return;
  anf_ctx *cx = e->cx;
  drop_all(e);
  for (size_t i = 0; i < e->nfixed; i++) anf_value_release(e->fixed[i]);
  anfi_raw(cx, e->fixed, e->nfixed * sizeof *e->fixed, 0);
  anf_jit_engine_free(e->engine);
  anf_value_release(e->fn);
  anf_text_free(&e->log);
  anfi_object_free(cx, e);
}

static anf_jit_engine *engine_of(anf_ctx *cx, const anf_exec_opts *o) {
  anf_jit_engine *e = NULL;
  anf_status st = anf_jit_engine_new(cx, o->kind, o->jit, NULL, &e);
  if (st != ANF_OK) anfi_fail_as(cx, st);
  return e;
}

static bool read_opts(anf_ctx *cx, const anf_exec_opts *o, anf_exec_opts *out) {
  bool good = ANFI_OPTS_IN(cx, anf_exec_opts, interpret_after, o, out);
  if (!out->max_compiled) out->max_compiled = 64;
  return good;
}

static bool has_types(const anf_graph *g, anfi_arg *args) {
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_type *t = args[i].type = g->params.at[i]->type;
    size_t n;
    if (!t || t->kind == ANF_TYPE_FN || t->kind == ANF_TYPE_ANY) return false;
    if (t->kind == ANF_TYPE_TENSOR && !anfi_type_elements(t, &n)) return false;
  }
  return true;
}

static anfi_variant *find(anf_exec *e, const anfi_sig *sig) {
  size_t bytes = sig->word.n * sizeof *sig->word.at;
  for (anfi_variant **at = &e->variant; *at; at = &(*at)->next) {
    anfi_variant *v = *at;
    if (v->sig.word.n != sig->word.n || (bytes && memcmp(v->sig.word.at, sig->word.at, bytes) != 0))
      continue;
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

/* In a frame of its own, so that a failure can be taken back. */
static anf_status try_variant(anf_exec *e, size_t n, const anfi_arg *args, anf_diag *d,
                              anfi_variant **v) {
  *v = NULL;
  ANFI_ENTRY(e->cx, d);
  *v = anfi_variant_new(e, n, args);
  anf_status st = anfi_leave(e->cx);
  if (st != ANF_OK) *v = NULL;
  return st;
}

/* The list that this frame records to, or one that is lost with it. */
static anf_diag *diag_of(anf_ctx *cx) {
  if (cx->frame->diag) return cx->frame->diag;
  anf_diag *d = anf_diag_new(cx);
  if (!d) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  return d;
}

/* Code is made for more values than before. False: it was made for all. */
static bool fix_more(anf_exec *e, size_t n, const anfi_arg *args) {
  if (e->fixing == ANFI_FIX_NONE) e->needed = e->g ? anfi_needed_arguments(e->g) : 0;
  while (e->fixing < e->most_fixing) {
    e->fixing++;
    for (size_t i = 0; i < n; i++)
      if (args[i].type && !args[i].value && anfi_exec_fixes(e, i, args[i].type)) return true;
  }
  return false;
}

/* NULL without an error: values of arguments have to be known, too, or the function was cut into parts. */
static anfi_variant *compiled(anf_exec *e, size_t n, const anfi_arg *args) {
  anf_diag *d = diag_of(e->cx);
  size_t had = anf_diag_count(d);
  anfi_variant *v;
  anf_status st = try_variant(e, n, args, d, &v);
  if (st == ANF_OK) return v;
  bool unknown = anfi_diag_has(d, had, ANF_E0520) || anfi_diag_has(d, had, ANF_E0724) ||
                 anfi_diag_has(d, had, ANF_E0953);
  if (!unknown || !(fix_more(e, n, args) || (e->partition = anfi_partition_new(e, n, args))))
    return (void)anfi_fail_as(e->cx, st), NULL;
  anfi_diag_forget(d, had);
  if (e->partition) anfi_partition_warn(e);
  return NULL;
}

static anfi_variant *variant(anf_exec *e, size_t n, const anfi_arg *args) {
  anfi_sig sig = {0};
  e->interpreted = NULL;
  anfi_exec_sig(e, anfi_scratch(e->cx), n, args, &sig);
  anfi_variant *v = find(e, &sig);
  if (v) return v;
  bool apart = false;
  v = e->o.any_size_after ? anfi_batch_variant(e, n, args, &sig, &apart) : NULL;
  if (!v && anfi_failed(e->cx)) return NULL;
  if (!v && !apart && e->may_interpret && (e->interpreted = anfi_seldom_work(e, n, args, &sig)))
    return NULL;
  if (!v && !(v = compiled(e, n, args))) return NULL;
  if (e->nvariant == e->o.max_compiled) drop_oldest(e);
  v->next = e->variant;
  e->nvariant++;
  return e->variant = v;
}

/* Arguments whose values have to be known are given as such from here on. */
static void fix(const anf_exec *e, size_t n, anfi_arg *args, anf_value *const *v) {
  for (size_t i = 0; i < n; i++)
    if (args[i].type && anfi_exec_fixes(e, i, args[i].type)) args[i].value = v[i];
}

anfi_variant *anfi_exec_variant(anf_exec *e, size_t n, const anfi_arg *args) {
  bool may = e->may_interpret;
  anfi_variant *v;
  e->may_interpret = false;   // a piece of a call that may be interpreted has code
  do v = variant(e, n, args); // the last time for the error
  while (!v && !e->partition && !anfi_failed(e->cx));
  e->may_interpret = may;
  return v;
}

/* The variant for given values: while there is none, more of them become part of the code. NULL without an error: the
 * call is interpreted. */
static anfi_variant *variant_for(anf_exec *e, size_t n, anfi_arg *args, anf_value *const *values) {
  anfi_fixing before = e->fixing;
  anfi_variant *v;
  do {
    fix(e, n, args, values);
    v = variant(e, n, args);
  } while (!v && !e->partition && !e->interpreted && !anfi_failed(e->cx));
  if (!v) e->fixing = before;
  return v;
}

static anf_exec *new_exec(anf_ctx *cx, const anf_exec_opts *given) {
  anf_exec *e = (anf_exec *)anfi_object(cx, sizeof *e);
  if (!e) anfi_throw_nomem(cx);
  e->cx = e->log.cx = cx;
  e->most_fixing = ANFI_FIX_ALL;
  anfi_defer(cx, ANFI_ON_FAIL, free_exec, e);
  if (!read_opts(cx, given, &e->o)) return NULL;
  if (e->o.engine) {
    e->engine = e->o.engine;
    atomic_fetch_add(&e->engine->refs, 1);
  }
  if (!e->engine) e->engine = engine_of(cx, &e->o);
  e->o.jit = NULL; // the host's
  return e->engine ? e : NULL;
}

anf_exec *anfi_exec_new(anf_graph *g, const anf_exec_opts *given) {
  anf_ctx *cx = g->module->cx;
  if (!anfi_is_built(g->module)) return NULL;
  anf_exec *e = new_exec(cx, given);
  if (e) e->g = g;
  return e;
}

static anf_exec *exec_of_graph(anf_graph *g, const anf_exec_opts *given) {
  anf_exec *e = anfi_exec_new(g, given);
  if (!e) return NULL;
  e->cuts = true;
  anfi_arg *args = ANFI_NEW_N(anfi_scratch(e->cx), anfi_arg, g->params.n + 1);
  if (has_types(g, args)) variant(e, g->params.n, args);
  return anfi_failed(e->cx) ? NULL : e;
}

anf_status anf_compile(anf_graph *g, const anf_exec_opts *o, anf_diag *d, anf_exec **out) {
  ANFI_NEED(d, g, out);
  *out = NULL;
  ANFI_ENTRY(g->module->cx, d);
  *out = exec_of_graph(g, o);
  anf_status st = anfi_leave(g->module->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

static anf_exec *exec_of_value(anf_ctx *cx, anf_value *f, const anf_exec_opts *given) {
  if (!f || f->kind != ANF_VALUE_FN)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E0514, "no function"), NULL;
  anf_exec *e = new_exec(cx, given);
  if (e) e->fn = anf_value_retain(f);
  return e;
}

anf_status anf_compile_value(anf_ctx *cx, anf_value *f, const anf_exec_opts *o, anf_diag *d,
                             anf_exec **out) {
  ANFI_NEED(d, cx, f, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = exec_of_value(cx, f, o);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

/* ---- arguments ---- */

bool anfi_exec_fit(anf_ctx *cx, const anf_graph *g, anfi_fit *f, size_t i, anf_value *v,
                   anf_value **out) {
  const anf_type *t = g ? g->params.at[i]->type : NULL;
  if (!v) return anfi_fail(cx, anfi_nowhere(), ANF_E0002, "an argument");
  if (v->cx != cx) return anfi_fail(cx, anfi_nowhere(), ANF_E0421, i + 1);
  if (!t) *out = anf_value_retain(v);
  else if (!anfi_fit_value(f, v, t, out)) {
    return anfi_fit_fail_argument(f, anfi_node_loc(g->params.at[i]), i, g->name->s);
  }
  return true;
}

/* The arguments of a call as the parameters declare them; the function value is the first. */
typedef struct given {
  size_t n;
  anf_value **v; // NULL: fixed
  anfi_arg *arg;
} given;

static void add(anf_exec *e, given *g, anf_value *v) {
  g->v[g->n] = v;
  if (v->kind == ANF_VALUE_FN) g->arg[g->n].fn = v;
  else if (!(g->arg[g->n].type = anf_value_type(e->cx, v))) anfi_throw_nomem(e->cx);
  g->n++;
}

static anf_value *fixed(const anf_exec *e, size_t i) { return i < e->nfixed ? e->fixed[i] : NULL; }
static anfi_arg fixed_arg(const anf_exec *e, size_t i) {
  if (fixed(e, i)->kind == ANF_VALUE_FN) return (anfi_arg){.fn = fixed(e, i)};
  anfi_arg a = {.type = anf_value_type(e->cx, fixed(e, i)), .fixed = fixed(e, i)};
  if (!a.type) anfi_throw_nomem(e->cx);
  return a;
}

static bool fit_all(anf_exec *e, size_t n, anf_value *const *args, given *g) {
  anfi_arena *a = anfi_scratch(e->cx);
  anfi_fit f = {.cx = e->cx, .arena = a, .host = true};
  *g = (given){.v = ANFI_NEW_N(a, anf_value *, n + 2), .arg = ANFI_NEW_N(a, anfi_arg, n + 2)};
  if (e->g && n != e->g->params.n)
    return anfi_fail(e->cx, anfi_nowhere(), ANF_E0510, e->g->name->s, e->g->params.n, n);
  if (e->fn) add(e, g, e->fn);
  for (size_t i = 0; i < n; i++) {
    anf_value *v = NULL;
    anf_value *always = fixed(e, i); // a function's captures are data all the same
    if (always && always->kind != ANF_VALUE_FN) {
      g->arg[g->n++] = fixed_arg(e, i);
      continue;
    }
    if (!anfi_exec_fit(e->cx, e->g, &f, i, always ? always : args[i], &v)) return false;
    anfi_defer(e->cx, ANFI_ALWAYS, anfi_release, v);
    add(e, g, v);
  }
  return true;
}

/* NULL without an error: the call is interpreted, which must be allowed, or the function was cut into parts. */
static anfi_variant *variant_or_none(anf_exec *e, given *g, bool may_interpret) {
  e->may_interpret = may_interpret;
  anfi_variant *v = variant_for(e, g->n, g->arg, g->v);
  e->may_interpret = false;
  return v;
}

static bool prepare_for(anf_exec *e, size_t n, anf_value *const *args) {
  given g;
  if (!e->partition && fit_all(e, n, args, &g)) variant_or_none(e, &g, false);
  return !anfi_failed(e->cx);
}

/* Destination of the result: a new value, or the host's buffers. */
typedef struct outcome {
  anf_value **value; // NULL: into the buffers
  size_t n;
  const anf_array *buffer;
} outcome;

static bool run_partition(const anf_exec *e, size_t n, anf_value *const *args,
                          const anf_run_opts *o, const outcome *to) {
  if (n != e->g->params.n)
    return anfi_fail(e->cx, anfi_nowhere(), ANF_E0510, e->g->name->s, e->g->params.n, n);
  return to->value ? anfi_partition_run(e, n, args, o, to->value)
                   : anfi_fail(e->cx, anfi_node_loc(e->g->result), ANF_E0956, e->g->name->s);
}

static bool run(anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                const outcome *to) {
  given g;
  anfi_variant *v;
  e->counts = o->max_steps || o->max_depth;
  if (e->partition) return run_partition(e, n, args, o, to);
  if (!fit_all(e, n, args, &g)) return false;
  v = variant_or_none(e, &g, to->value && !o->max_ms && anfi_seldom_may(e));
  if (!v && e->interpreted) {
    if (anfi_seldom_run(e, e->interpreted, n, args, o, to->value)) return true;
    v = anfi_failed(e->cx) ? NULL : variant_or_none(e, &g, false);
  }
  if (!v) return e->partition && run_partition(e, n, args, o, to);
  size_t ngiven = 0; // arguments that are not part of the program
  for (size_t i = 0; i < g.n; i++)
    if (!g.arg[i].value && !g.arg[i].fixed) g.v[ngiven++] = g.v[i];
  return to->value ? anfi_variant_run(e, v, ngiven, g.v, o, to->value)
                   : anfi_variant_run_into(e, v, ngiven, g.v, o, to->n, to->buffer);
}

static void prepare(anf_exec *e, size_t n, const anf_type *const *types) {
  anfi_arg *args = ANFI_NEW_N(anfi_scratch(e->cx), anfi_arg, n + 2);
  size_t at = 0;
  if (e->fn) args[at++].fn = e->fn;
  for (size_t i = 0; i < n; i++)
    args[at++] = fixed(e, i) ? fixed_arg(e, i) : (anfi_arg){.type = types[i]};
  if (!e->partition) anfi_exec_variant(e, at, args);
}

static void make_room(anf_exec *e, size_t n) {
  anf_value **p = (anf_value **)anfi_raw(e->cx, e->fixed, e->nfixed * sizeof *p, n * sizeof *p);
  if (!p) anfi_throw_nomem(e->cx);
  for (size_t i = e->nfixed; i < n; i++) p[i] = NULL;
  e->fixed = p;
  e->nfixed = n;
}

static void fix_argument(anf_exec *e, size_t i, anf_value *v) {
  anfi_fit f = {.cx = e->cx, .arena = anfi_scratch(e->cx), .host = true};
  size_t n = e->g ? e->g->params.n : i + 1;
  anf_value *as = NULL;
  if (i >= n) {
    anfi_fail(e->cx, anfi_nowhere(), ANF_E0510, e->g->name->s, n, i + 1);
    return;
  }
  if (v && !anfi_exec_fit(e->cx, e->g, &f, i, v, &as)) return;
  if (as) anfi_defer(e->cx, ANFI_ON_FAIL, anfi_release, as);
  if (n > e->nfixed) make_room(e, n);
  drop_all(e);
  anf_value_release(e->fixed[i]);
  e->fixed[i] = as;
}

anf_status anf_exec_fix(anf_exec *e, size_t i, anf_value *v, anf_diag *d) {
  ANFI_NEED(d, e);
  ANFI_ENTRY(e->cx, d);
  fix_argument(e, i, v);
  return anfi_leave(e->cx);
}

anf_status anf_exec_prepare(anf_exec *e, size_t n, const anf_type *const *types, anf_diag *d) {
  ANFI_NEED(d, e);
  if (n) ANFI_NEED(d, types);
  ANFI_ENTRY(e->cx, d);
  prepare(e, n, types);
  return anfi_leave(e->cx);
}

anf_status anf_exec_prepare_for(anf_exec *e, size_t n, anf_value *const *args, anf_diag *d) {
  ANFI_NEED(d, e);
  if (n) ANFI_NEED(d, args);
  ANFI_ENTRY(e->cx, d);
  prepare_for(e, n, args);
  return anfi_leave(e->cx);
}

anf_status anf_exec_run(anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                        anf_diag *d, anf_value **result) {
  ANFI_NEED(d, e, result);
  if (n) ANFI_NEED(d, args);
  *result = NULL;
  anf_run_opts opts;
  if (!ANFI_OPTS(e->cx, d, anf_run_opts, max_ms, o, &opts)) return ANF_INVALID;
  ANFI_ENTRY(e->cx, d);
  run(e, n, args, &opts, &(outcome){.value = result});
  return anfi_leave(e->cx);
}

anf_status anf_exec_run_into(anf_exec *e, size_t n, anf_value *const *args, size_t nout,
                             const anf_array *out, const anf_run_opts *o, anf_diag *d) {
  ANFI_NEED(d, e);
  if (n) ANFI_NEED(d, args);
  if (nout) ANFI_NEED(d, out);
  anf_run_opts opts;
  if (!ANFI_OPTS(e->cx, d, anf_run_opts, max_ms, o, &opts)) return ANF_INVALID;
  ANFI_ENTRY(e->cx, d);
  run(e, n, args, &opts, &(outcome){.n = nout, .buffer = out});
  return anfi_leave(e->cx);
}

/* ---- looking ---- */

anf_jit_function *anf_exec_function(const anf_exec *e) {
  if (!e) return NULL;
  return e->variant ? e->variant->function : NULL;
}
const anf_type *anf_exec_result_type(const anf_exec *e) {
  if (!e) return NULL;
  if (e->partition) return anfi_partition_result(e->partition);
  if (e->interpreted) return anfi_seldom_result(e);
  return e->variant && !e->variant->form ? e->variant->low.result_type : NULL;
}
void *anf_exec_pointer(const anf_exec *e) {
  if (!e) return NULL;
  return e->variant ? anf_jit_get_function_pointer(e->variant->function) : NULL;
}
size_t anf_exec_compilations(const anf_exec *e) {
  if (!e) return 0;
  return e->compilations + (e->partition ? anfi_partition_compilations(e->partition) : 0);
}
double anf_exec_compile_ms(const anf_exec *e) {
  if (!e) return 0;
  return e->compile_ms + (e->partition ? anfi_partition_compile_ms(e->partition) : 0);
}
size_t anf_exec_interpreted(const anf_exec *e) {
  return e && e->seldom ? anfi_seldom_calls(e->seldom) : 0;
}

static void print_form(anf_graph *g, size_t n, const anf_type *const *types, const char *form,
                       const anf_exec_opts *given_opts, anf_text *out) {
  anf_ctx *cx = g->module->cx;
  anf_exec_opts o;
  anfi_variant *v = (anfi_variant *)anfi_zalloc(anfi_scratch(cx), sizeof *v);
  anfi_arg *args = ANFI_NEW_N(anfi_scratch(cx), anfi_arg, n + 1);
  for (size_t i = 0; i < n; i++) args[i].type = types[i];
  if (!read_opts(cx, given_opts, &o)) return;
  anfi_arena_init(&v->arena, cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_arena, &v->arena);
  bool tir = strcmp(form, "tir") == 0, fusion = strcmp(form, "fusion") == 0;
  anfi_pass_log log = {.arena = &v->arena};
  if (fusion) v->job.fusion = out, v->job.log = &log;
  v->job.nstate = o.nstate < g->params.n ? o.nstate : g->params.n;
  bool anywhere = (tir || fusion) && !(o.jit && o.jit->target); // is it the same on all machines?
  if (!o.engine && !anywhere) {
    if (!(o.engine = engine_of(cx, &o))) return;
    anfi_defer(cx, ANFI_ALWAYS, anfi_free_engine, o.engine);
  }
  if (!anfi_exec_lower(cx, g, n, args, &o, v)) return;
  if (fusion) anfi_explain_passes(cx, &log, v->low.module, o.parallel, out);
  if (fusion) return;
  if (tir) {
    anfi_t_print_mod(v->low.module, out);
    return;
  }
  anf_status st = anf_jit_print(o.engine, v->low.module, form, NULL, out);
  if (st != ANF_OK) anfi_fail_as(cx, st);
}

anf_status anf_lowered_print(anf_graph *g, size_t n, const anf_type *const *types, const char *form,
                             const anf_exec_opts *o, anf_diag *d, anf_text *out) {
  ANFI_NEED(d, g, form, out);
  if (n) ANFI_NEED(d, types);
  anfi_text_of(out, g->module->cx);
  ANFI_ENTRY(g->module->cx, d);
  print_form(g, n, types, form, o, out);
  return anfi_leave(g->module->cx);
}
