// SPDX-License-Identifier: Apache-2.0
/* The Tensor IR passes on the pass manager (base/pass.h): their rows, and the module that a run holds.
 *
 *   "exact loops"   →   index_flattener: module 1 → module 2, auto_caster: module 2 → module 3, ...
 *
 * Modules are immutable, so a pass gives a new one and the last one's store is dropped. Modules share
 * nodes, so garbage collects in the store: between passes the module moves to a new store once garbage
 * outweighs it. */
#include "backend/tir/tir.h"
#include "base/pass.h"

static const anfi_pass_info passes[] = {
#define ANF_TIR_PASS_M(nm, ...) {.name = #nm, __VA_ARGS__},
#define ANF_TIR_PASS_F(nm, ...) {.name = #nm, __VA_ARGS__},
#include "backend/tir/passes/pass.def"
#undef ANF_TIR_PASS_M
#undef ANF_TIR_PASS_F
};
static const struct {
  const tmod *(*module)(tpass_cx *p, const tmod *m);
  tfunc (*func)(tpass_cx *p, tfunc f);
} bodies[] = {
#define ANF_TIR_PASS_M(nm, ...) {.module = anfi_t_pass_##nm},
#define ANF_TIR_PASS_F(nm, ...) {.func = anfi_t_pass_##nm},
#include "backend/tir/passes/pass.def"
#undef ANF_TIR_PASS_M
#undef ANF_TIR_PASS_F
};
static const anfi_pipeline_info pipelines[] = {
#define ANF_PIPELINE(name, text) {#name, text},
#include "backend/tir/passes/pipeline.def"
#undef ANF_PIPELINE
};
static const char *const properties[] = {
#define ANF_TIR_PROPERTY(name, text) text,
#include "backend/tir/passes/property.def"
#undef ANF_TIR_PROPERTY
};
static const anfi_pass_set tir_passes = {.pass = passes,
                                         .npass = ANFI_LEN(passes),
                                         .pipeline = pipelines,
                                         .npipeline = ANFI_LEN(pipelines),
                                         .property = properties};

size_t anf_tir_pass_count(void) { return ANFI_LEN(passes); }
const char *anf_tir_pass_name(size_t i) { return i < ANFI_LEN(passes) ? passes[i].name : NULL; }
const char *anf_tir_pass_doc(size_t i) { return i < ANFI_LEN(passes) ? passes[i].doc : NULL; }
const char *anf_tir_pipeline_name(size_t i) {
  return i < ANFI_LEN(pipelines) ? pipelines[i].name : NULL;
}
const char *anf_tir_pipeline(const char *name) {
  if (!name) return NULL;
  for (size_t i = 0; i < ANFI_LEN(pipelines); i++)
    if (strcmp(pipelines[i].name, name) == 0) return pipelines[i].text;
  return NULL;
}

typedef struct tir_run {
  tpass_cx p;
  const anf_tir_opt_opts *o;
  const tmod *m, *input; // now; at the start: never dropped
  size_t base, live; // bytes of the context: when the store was new, and the module's share of them
} tir_run;

static const tmod *over_functions(tpass_cx *p, size_t pass, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  bool changed = false;
  for (size_t i = 0; i < m->func.n && !p->failed; i++) {
    tfunc f = m->func.at[i], g = f->body ? bodies[pass].func(p, f) : f;
    changed |= g != f;
    anfi_t_mod_add(o, g);
  }
  if (p->failed) return NULL;
  if (changed) return anfi_t_declare_rt(o), o;
  anfi_t_mod_drop(o);
  return m;
}

static void go_to(tir_run *u, const tmod *m) {
  if (u->m != m && u->m != u->input) anfi_t_mod_drop((tmod *)(uintptr_t)u->m);
  u->m = m;
}

/* NULL: one of ours. */
static const thostpass *of_host(const anfi_pass_run *r, size_t pass) {
  const thostpass *h = pass < ANFI_LEN(passes) ? NULL : anfi_t_host_passes(r->cx);
  for (size_t i = ANFI_LEN(passes); h && i < pass; i++) h = h->next;
  return h;
}

/* A pass over modules may give one of the same functions: then it had nothing to do. */
static bool is_same(const tmod *a, const tmod *b) {
  if (a->func.n != b->func.n || a->global.n != b->global.n || a->bound.n != b->bound.n ||
      a->image != b->image || a->image_size != b->image_size || a->binds != b->binds)
    return false;
  for (size_t i = 0; i < a->func.n; i++)
    if (a->func.at[i] != b->func.at[i]) return false;
  for (size_t i = 0; i < a->global.n; i++)
    if (a->global.at[i] != b->global.at[i]) return false;
  return true;
}

static bool run_pass(anfi_pass_run *r, size_t pass) {
  tir_run *u = (tir_run *)r->user;
  const tmod *m = u->m;
  u->p.m = m;
  u->p.t = m->t;
  m->t->line = m->t->col = 0;
  const tmod *o = of_host(r, pass)      ? anfi_t_run_host(&u->p, of_host(r, pass), m)
                  : bodies[pass].module ? bodies[pass].module(&u->p, m)
                                        : over_functions(&u->p, pass, m);
  if (!o || u->p.failed || anfi_failed(r->cx)) return false;
  if (o != m && is_same(o, m)) {
    anfi_t_mod_drop((tmod *)(uintptr_t)o);
    o = m;
  }
  if (of_host(r, pass) && o != m) r->have = anfi_t_measure(o);
  r->rewrites += o != m;
  go_to(u, o);
  anfi_arena_free(u->p.scratch);
  return true;
}

/* The module is valid, and nodes bear out every property that the rows say it has by now. */
static bool verify(anfi_pass_run *r, size_t pass) {
  const tmod *m = ((tir_run *)r->user)->m;
  if (!anfi_t_validate(r->cx, m)) return false;
  uint32_t lacks = anfi_t_contradicted(m, r->have), bit = 0;
  if (!lacks) return true;
  while (!(lacks >> bit & 1)) bit++;
  return anfi_fail(r->cx, anfi_nowhere(), ANF_E0608, r->set->pass[pass].name, properties[bit]);
}

static void dump(anf_ctx *cx, const tir_run *u, const char *pass) {
  const anf_tir_opt_opts *o = u->o;
  if (!o->dump || !o->dump_after ||
      (strcmp(o->dump_after, "*") != 0 && strcmp(o->dump_after, pass) != 0))
    return;
  anf_text *t = ANFI_NEW(anfi_scratch(cx), anf_text);
  t->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, t);
  anfi_t_print_mod(u->m, t);
  o->dump(o->user, pass, t->text ? t->text : "", t->len);
}

/* Moves to a new store when the old one holds several times what the module needs. */
static void compact(anf_ctx *cx, tir_run *u) {
  enum { SLACK = 48 << 20 };
  if (anf_ctx_bytes(cx) < u->base + SLACK + 4 * u->live) return;
  size_t before = anf_ctx_bytes(cx);
  const tmod *m = anfi_t_clone(u->m, anfi_t_store_new(cx));
  u->live = anf_ctx_bytes(cx) - before;
  go_to(u, m);
  u->base = anf_ctx_bytes(cx) - u->live;
}

static void report(anfi_pass_run *r, size_t pass, uint64_t ns, uint64_t rewrites) {
  tir_run *u = (tir_run *)r->user;
  if (u->o->ran) u->o->ran(u->o->user, r->set->pass[pass].name, rewrites != 0);
  if (u->o->timed) u->o->timed(u->o->user, r->set->pass[pass].name, ns);
  dump(r->cx, u, r->set->pass[pass].name);
  compact(r->cx, u);
}

static const anf_tir_opt_opts *with_defaults(anf_ctx *cx, const anf_tir_opt_opts *o) {
  anf_tir_opt_opts *full = ANFI_NEW(anfi_scratch(cx), anf_tir_opt_opts);
  if (!ANFI_OPTS_IN(cx, anf_tir_opt_opts, cache_bytes, o, full)) anfi_throw(cx);
  if (!full->max_threads) full->max_threads = 8;
  if (!full->local_tensor_bytes) full->local_tensor_bytes = 128;
  if (!full->cache_bytes) full->cache_bytes = 32 << 20;
  return full;
}

/* Our passes and those of the host. */
static const anfi_pass_set *passes_of(anf_ctx *cx) {
  const thostpass *first = anfi_t_host_passes(cx);
  if (!first) return &tir_passes;
  anfi_pass_set *set = ANFI_NEW(anfi_scratch(cx), anfi_pass_set);
  size_t n = ANFI_LEN(passes);
  for (const thostpass *h = first; h; h = h->next) n++;
  anfi_pass_info *row = ANFI_NEW_N(anfi_scratch(cx), anfi_pass_info, n);
  memcpy(row, passes, sizeof passes);
  n = ANFI_LEN(passes);
  for (const thostpass *h = first; h; h = h->next) row[n++] = h->row;
  *set = tir_passes;
  set->pass = row;
  set->npass = n;
  return set;
}

static const tmod *run_from(anf_ctx *cx, const tmod *m, uint32_t have, const char *pipeline,
                            const anf_tir_opt_opts *o) {
  o = with_defaults(cx, o);
  tir_run u = {.p = {.cx = cx, .scratch = anfi_scratch(cx), .opts = o},
               .o = o,
               .m = m,
               .input = m,
               .base = anf_ctx_bytes(cx)};
  anfi_pass_run r = {.cx = cx,
                     .set = passes_of(cx),
                     .user = &u,
                     .have = have,
                     .verify_each = o->verify_each,
                     .run = run_pass,
                     .verify = verify,
                     .after = report};
  if (!anfi_run_pipeline(&r, pipeline)) return NULL;
  tmod *out = (tmod *)(uintptr_t)u.m;
  if (u.m == m) { // a module of its own, so that its properties are
    out = anfi_t_mod_like(m);
    for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(out, m->func.at[i]);
  }
  out->props = r.have;
  return out;
}

const tmod *anfi_t_run_passes(anf_ctx *cx, const tmod *m, const char *pipeline,
                              const anf_tir_opt_opts *o) {
  return run_from(cx, m, anfi_t_measure(m), pipeline, o);
}

const tmod *anfi_t_run_more(anf_ctx *cx, const tmod *m, const char *pipeline,
                            const anf_tir_opt_opts *o) {
  return run_from(cx, m, m->props, pipeline, o);
}
