// SPDX-License-Identifier: Apache-2.0
/* The graph passes on the pass manager (base/pass.h).
 *   "(simplify cse)* dce"    rows simplify and cse of pass.def in turn until neither changes anything, then dce
 * Here are the rows, the properties of a module, and a frame for each pass, so that its scratch memory goes when it ends. */
#include "base/pass.h"
#include "optimizer/rules/rule.h"

#include "anfora/opt.h"

static const anfi_pass_info passes[] = {
#define ANF_PASS(nm, ...) {.name = #nm, __VA_ARGS__},
#include "optimizer/pass.def"
#undef ANF_PASS
};
enum {
#define ANF_PASS(nm, ...) PASS_##nm,
#include "optimizer/pass.def"
#undef ANF_PASS
};
static bool (*const bodies[])(anfi_pass *) = {
#define ANF_PASS(nm, ...) anfi_opt_##nm,
#include "optimizer/pass.def"
#undef ANF_PASS
};
static const anfi_pipeline_info pipelines[] = {
#define ANF_PIPELINE(name, text) {#name, text},
#include "optimizer/pipeline.def"
#undef ANF_PIPELINE
};
static const char *const properties[] = {"closed graphs", "a type on every node",
                                         "no function values"};
static const anfi_pass_set graph_passes = {.pass = passes,
                                           .npass = ANFI_LEN(passes),
                                           .pipeline = pipelines,
                                           .npipeline = ANFI_LEN(pipelines),
                                           .property = properties};

const char *anf_pass_name(size_t i, const char **doc) {
  if (i >= ANFI_LEN(passes)) return NULL;
  if (doc) *doc = passes[i].doc;
  return passes[i].name;
}

const char *anf_pipeline_name(size_t i, const char **text) {
  if (i >= ANFI_LEN(pipelines)) return NULL;
  if (text) *text = pipelines[i].text;
  return pipelines[i].name;
}

const char *anf_rule_name(size_t i, const char **lhs, const char **rhs, const char **guards,
                          const char **file) {
  if (i >= anfi_nrules) return NULL;
  const anfi_rule_row *r = &anfi_rule_rows[i];
  if (lhs) *lhs = r->lhs;
  if (rhs) *rhs = r->rhs;
  if (guards) *guards = r->guards;
  if (file) *file = r->file;
  return r->name;
}

/* The properties of a module that comes in: seen on the module itself, whatever made it. */
static uint32_t measure(anf_module *m) {
  const anf_analysis *an = anfi_analyse(m);
  bool closed = true, typed = true;
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anfi_graph_info *gi = &an->graphs[i];
    closed &= gi->free.n == 0;
    for (size_t k = 0; k < gi->order.n; k++)
      typed &= gi->order.at[k]->type || anfi_is_op(gi->order.at[k], ANF_OP_Switch) ||
               anfi_is_op(gi->order.at[k], ANF_OP_SwitchLayer);
  }
  return (closed ? ANFI_CLOSED : 0u) | (typed && closed ? ANFI_TYPED | ANFI_FIRST_ORDER : 0u);
}

typedef struct {
  anfi_pass pass;
  const anf_opt_opts *o;
} graph_run;

static anf_status run_body(anfi_pass *p, size_t pass) {
  ANFI_ENTRY(p->m->cx, NULL);
  bodies[pass](p);
  return anfi_leave(p->m->cx);
}

void anfi_pass_note(const anfi_pass *p, const anf_node *n, const char *stays, const char *why) {
  if (!p->o || !p->o->note) return;
  anf_ctx *cx = p->m->cx;
  anf_text *t = anfi_text_begin(cx);
  anfi_loc at = anfi_node_loc(n);
  anfi_puts(t, anfi_op_of(n)->name);
  if (at.line) anfi_putf(t, " %u:%u", at.line, at.col);
  anfi_putf(t, " %s: %s", stays, why);
  p->o->note(p->o->user, p->m, p->name, t->text ? t->text : "");
  anfi_text_done(t);
}

static bool run_pass(anfi_pass_run *r, size_t pass) {
  anfi_pass *p = &((graph_run *)r->user)->pass;
  anfi_reuse_deleted(p->m);
  p->name = passes[pass].name;
  p->swept = anfi_pass_is_settled(r, PASS_dce);
  anf_status st = run_body(p, pass);
  r->rewrites = p->rewrites;
  return st == ANF_OK || anfi_fail_as(r->cx, st);
}

static anf_status verify_in_frame(anf_module *m) {
  ANFI_ENTRY(m->cx, NULL);
  anfi_verify(m);
  return anfi_leave(m->cx);
}

static bool verify(anfi_pass_run *r, size_t pass) {
  bool typed = (passes[pass].need | passes[pass].make) & ANFI_TYPED;
  if (!r->verify_each && !typed) return true; // untyped, a program's own faults may be left
  anf_status st = verify_in_frame(((graph_run *)r->user)->pass.m);
  return st == ANF_OK || anfi_fail_as(r->cx, st);
}

static void report(anfi_pass_run *r, size_t pass, uint64_t ns, uint64_t rewrites) {
  graph_run *g = (graph_run *)r->user;
  if (g->o->after)
    g->o->after(g->o->user, g->pass.m, passes[pass].name, (double)ns / 1e6, rewrites);
}

static void optimise(anf_module *m, const char *pipeline, const anf_opt_opts *o) {
  graph_run g = {.pass = {.m = m,
                          .fast = o->fast,
                          .limit = o->bisect_limit ? o->bisect_limit : UINT64_MAX,
                          .o = o},
                 .o = o};
  anfi_pass_run r = {.cx = m->cx,
                     .set = &graph_passes,
                     .user = &g,
                     .have = measure(m),
                     .verify_each = o->verify_each,
                     .run = run_pass,
                     .verify = verify,
                     .after = report};
  m->fold_limit = o->fold_bytes;
  anfi_run_pipeline(&r, pipeline);
}

anf_status anf_optimise(anf_module *m, const char *pipeline, const anf_opt_opts *o, anf_diag *d) {
  ANFI_NEED(d, m, pipeline);
  anf_opt_opts opts;
  if (!ANFI_OPTS(m->cx, d, anf_opt_opts, note, o, &opts)) return ANF_INVALID;
  ANFI_ENTRY(m->cx, d);
  if (anfi_is_built(m)) optimise(m, pipeline, &opts);
  return anfi_leave(m->cx);
}

anf_status anf_specialise(anf_module *m, anf_graph *g, size_t n, const anf_type *const *types,
                          anf_diag *d, anf_graph **out) {
  ANFI_NEED(d, m, g, out);
  if (n) ANFI_NEED(d, types);
  for (size_t i = 0; i < n; i++) ANFI_NEED(d, types[i]);
  ANFI_ENTRY(m->cx, d);
  if (!anfi_is_built(m)) return anfi_leave(m->cx);
  anfi_pass p = {.m = m, .limit = UINT64_MAX};
  if (n != g->params.n) anfi_fail(m->cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n);
  else if (anfi_opt_lift(&p) && anfi_specialise(m, 1, &g, &types)) *out = g;
  return anfi_leave(m->cx);
}
