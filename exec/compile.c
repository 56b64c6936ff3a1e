// SPDX-License-Identifier: Apache-2.0
/* Compiles a variant.
 *   f for (f32[3]):   copy of the graph  ->  optimiser  ->  Tensor IR  ->  code
 *
 * The program is copied because passes rewrite it. Graphs and analyses are freed before code is made. */
#include "exec/exec.h"
#include "exec/tune.h"
#include "backend/kernel/kernel.h"

#include "anfora/opt.h"

static anf_graph *public_graph(anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE)) return m->graphs.at[i];
  return NULL;
}

/* The form outlives the module that it is in; attributes in it are the context's. */
static const anfi_form *kept_form(anfi_arena *a, const anfi_form *f) {
  size_t bytes = sizeof *f + f->n * sizeof(const anfi_form *);
  anfi_form *r = (anfi_form *)anfi_alloc(a, bytes);
  memcpy(r, f, bytes);
  for (uint32_t i = 0; i < f->n; i++) r->item[i] = kept_form(a, f->item[i]);
  return r;
}

static size_t count_work_nodes(const anf_module *m) {
  size_t k = 0;
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    k += n && (n->kind == ANFI_APPLY || n->kind == ANFI_CALL);
  }
  return k;
}

static void edit(void *p) {
  anfi_variant *v = (anfi_variant *)p;
  if (v->job.edit) v->job.edit(v->job.user, v);
}

/* The module and the constants that sites show are held for whoever frees them. */
static void hold(anfi_lowered *low) {
  anfi_t_mod_keep(low->module);
  for (size_t i = 0; i < low->names.n; i++) anf_value_retain(low->names.at[i]);
  for (size_t i = 0; i < low->sites.n; i++)
    for (size_t k = 0; k < low->sites.at[i].n; k++) anf_value_retain(low->sites.at[i].value[k]);
}

static void release_constants(const anfi_lowered *low) {
  for (size_t i = 0; i < low->names.n; i++) anf_value_release(low->names.at[i]);
  for (size_t i = 0; i < low->sites.n; i++)
    for (size_t k = 0; k < low->sites.at[i].n; k++) anf_value_release(low->sites.at[i].value[k]);
}

typedef struct watching {
  anf_trace *trace;
  const anf_exec_opts *o;
  anfi_pass_log *log;
} watching;

static void after_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  const watching *w = (const watching *)user;
  if (w->trace) anfi_trace_pass(w->trace, m, pass, ms, rewrites);
  if (w->log) anfi_pass_log_add(w->log, pass, rewrites);
  bool changed = rewrites || strcmp(pass, "specialise") == 0;
  if (w->o->stage && changed) w->o->stage(w->o->stage_user, m->cx, pass, m, NULL);
}

static void note_of_pass(void *user, anf_module *m, const char *pass, const char *text) {
  const watching *w = (const watching *)user;
  (void)m, (void)pass;
  if (w->log)
    anfi_push(w->log->arena, &w->log->note, anfi_strndup(w->log->arena, text, strlen(text)));
}

static void show_lowered(anf_ctx *cx, const anf_exec_opts *o, const tmod *m) {
  anf_text *t = anfi_text_begin(cx);
  if (!o->stage) return;
  anfi_t_print_brief(m, t);
  o->stage(o->stage_user, cx, "lowered", NULL, t->text ? t->text : "");
  anfi_text_done(t);
}

static bool passes(anf_module *m, const char *pipeline, const anf_opt_opts *opt) {
  anf_status st = anf_optimise(m, pipeline, opt, NULL);
  return st == ANF_OK || anfi_fail_as(m->cx, st);
}

/* For several ranks: before derivatives are expanded. The step is called once more when the result is clean. */
static bool spread(const anfi_variant *v, anf_module *m, const anf_opt_opts *opt) {
  if (!passes(m, "first_order clean", opt)) return false;
  v->job.spread(v->job.user, public_graph(m));
  if (!passes(m, "clean", opt)) return false;
  v->job.spread(v->job.user, public_graph(m));
  return true;
}

/* After all other passes: what it changes is cleaned once more. */
static bool shard(const anfi_variant *v, anf_module *m, const anf_opt_opts *opt) {
  uint64_t from = anfi_os_now_ns();
  size_t n = v->job.shard(v->job.user, public_graph(m));
  if (anfi_failed(m->cx)) return false;
  if (opt->after) opt->after(opt->user, m, "shard", (double)(anfi_os_now_ns() - from) / 1e6, n);
  return !n || passes(m, "clean", opt);
}

/* A pipeline of the host's may leave out what code cannot be made without. */
static bool check_ready(anf_module *m) {
  const anf_analysis *an = anfi_analyse(m);
  for (size_t i = 0; i < m->graphs.n; i++)
    for (size_t k = 0; k < an->graphs[i].order.n; k++) {
      const anf_node *n = an->graphs[i].order.at[k];
      bool derivative = anfi_is_op(n, ANF_OP_Derive);
      if (n->type && !derivative) continue;
      if (anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer)) continue;
      anfi_fail(m->cx, anfi_node_loc(n), ANF_E0603, "lower",
                derivative ? "derivatives that are expanded" : "types on every node");
      anfi_hint(m->cx, "run %s before it", derivative ? "expand" : "specialise");
      return false;
    }
  return true;
}

static bool lower(anf_ctx *cx, anf_graph *g, size_t n, const anfi_arg *args, const anf_exec_opts *o,
                  anfi_variant *v) {
  anf_graph *program = anfi_applied(cx, g, n, args, &v->arena, &v->origins);
  if (!program) return false;
  anf_module *m = program->module;
  const char *name =
      v->name ? v->name : anfi_strndup(&v->arena, program->name->s, program->name->len);
  v->loc = anfi_node_loc(program->result);
  if (v->loc.file) v->loc.file = anfi_strndup(&v->arena, v->loc.file, strlen(v->loc.file));
  watching watch = {v->job.trace, o, v->job.log};
  anf_opt_opts opt = {
      .size = sizeof opt, .fast = o->fast, .user = &watch, .fold_bytes = o->fold_bytes};
  if (v->job.trace || o->stage || v->job.log) opt.after = after_pass;
  if (v->job.log) opt.note = note_of_pass;
  if (v->job.spread && !spread(v, m, &opt)) return false;
  const char *rest = v->job.spread ? "derive batchwise_merge" : "standard batchwise_merge";
  anf_status st = anf_optimise(m, o->pipeline ? o->pipeline : rest, &opt, NULL);
  if (st != ANF_OK) return anfi_fail_as(cx, st);
  if (o->pipeline && !check_ready(m)) return false;
  if (v->job.spread && !v->job.check_spread(v->job.user, public_graph(m))) return false;
  if (v->job.shard && !shard(v, m, &opt)) return false;
  anfi_lower_opts lo = {.fast = o->fast,
                        .parallel = o->parallel,
                        .name = name,
                        .regions = v->job.trace != NULL,
                        .nstate = v->job.nstate,
                        .first_site = v->job.first_site,
                        .plans = v->job.plans,
                        .fusion = v->job.fusion,
                        .edit = edit,
                        .user = v};
  anfi_isa isa;
  if (o->engine && anfi_jit_isa(o->engine, &isa)) lo.isa = &isa;
  anfi_tuner tuner;
  if (o->tune && o->engine && anfi_tuner_open(&tuner, cx, o->engine)) lo.plans = &tuner.plans;
  anf_graph *entry = public_graph(m);
  if (entry && v->job.amend) v->job.amend(v->job.user, entry);
  v->nodes = count_work_nodes(m);
  v->low.cx = cx;
  v->low.arena = &v->arena;
  uint64_t from = anfi_os_now_ns();
  if (!entry || !anfi_lower_graph(entry, &lo, &v->low)) return false;
  anfi_trace_span(v->job.trace, "lower", from, anfi_os_now_ns());
  show_lowered(cx, o, v->low.module);
  if (entry->form) v->form = kept_form(&v->arena, entry->form);
  if (anfi_failed(cx)) return false;
  hold(&v->low);
  return true;
}

/* In a frame of its own, so that graphs and what was known of them are gone before code is made. */
static anf_status lower_framed(anf_ctx *cx, anf_graph *g, size_t n, const anfi_arg *args,
                               const anf_exec_opts *o, anfi_variant *v) {
  ANFI_ENTRY(cx, NULL);
  lower(cx, g, n, args, o, v);
  return anfi_leave(cx);
}

static void free_module(anfi_lowered *low) {
  anf_tir_module_free(low->module);
  low->module = NULL;
}

static void release(void *lowered) {
  release_constants((const anfi_lowered *)lowered);
  free_module((anfi_lowered *)lowered);
}

bool anfi_exec_lower(anf_ctx *cx, anf_graph *g, size_t n, const anfi_arg *args,
                     const anf_exec_opts *o, anfi_variant *v) {
  if (g && !anfi_is_built(g->module)) return false;
  anf_status st = lower_framed(cx, g, n, args, o, v);
  if (st != ANF_OK) return anfi_fail_as(cx, st);
  anfi_defer(cx, ANFI_ALWAYS, release, &v->low);
  return true;
}

/* ---- variants ---- */

void anfi_variant_free(anf_ctx *cx, anfi_variant *v) {
  if (!v) return;
  if (v->holders) {
    v->holders--;
    return;
  }
  for (size_t i = 0; i < v->npiece; i++) anfi_variant_free(cx, v->piece[i]);
  if (v->function) release_constants(&v->low);
  anf_jit_function_free(v->function);
  anf_jit_module_free(v->code);
  anfi_arena_free(&v->arena);
  anfi_object_free(cx, v);
}

static void free_variant(void *p) {
  anfi_variant *v = (anfi_variant *)p;
  anfi_variant_free(v->arena.cx, v);
}

/* The engine must know the C functions that the module declares. */
static bool define_hosts(anf_exec *e, const tmod *m) {
  for (size_t i = 0; i < m->func.n; i++) {
    const anfi_str *name = m->func.at[i]->body ? NULL : m->func.at[i]->name;
    const anfi_host *h = name ? anfi_host_find(e->cx, name->s, name->len) : NULL;
    if (h && !anfi_jit_define_once(e->cx, e->engine, name->s, h->function)) return false;
  }
  return true;
}

anfi_variant *anfi_variant_new(anf_exec *e, size_t n, const anfi_arg *args) {
  uint64_t start = anfi_os_now_ns();
  anfi_variant *v = (anfi_variant *)anfi_object(e->cx, sizeof *v);
  if (!v) anfi_throw_nomem(e->cx);
  anfi_arena_init(&v->arena, e->cx);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_variant, v);
  anfi_exec_sig(e, &v->arena, n, args, &v->sig);
  v->job = e->job;
  anf_exec_opts o = e->o;
  o.engine = e->engine;
  if (!anfi_exec_lower(e->cx, e->g, n, args, &o, v)) return NULL;
  if (e->job.trace) anfi_trace_regions(e->job.trace, &v->low);
  if (!define_hosts(e, v->low.module)) return NULL;
  v->low.module->stops = !v->job.whole;
  v->low.module->counts = e->counts;
  uint64_t from = anfi_os_now_ns();
  anf_status st = anfi_jit_make_module(e->engine, v->low.module, &v->code);
  anfi_trace_span(v->job.trace, "code", from, anfi_os_now_ns());
  if (st != ANF_OK) return (void)anfi_fail_as(e->cx, st), NULL;
  if (!(v->function = anf_jit_get_function(v->code, v->low.entry))) anfi_throw_nomem(e->cx);
  anfi_undefer(e->cx, &v->low); // its constants are the variant's
  free_module(&v->low);
  e->compilations++;
  e->nodes += v->nodes;
  double ms = (double)(anfi_os_now_ns() - start) / 1e6;
  e->compile_ms += ms;
  anfi_exec_log(e, v, n, args, ms);
  anfi_batch_note(v, n, args);
  return v;
}
