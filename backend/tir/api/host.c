// SPDX-License-Identifier: Apache-2.0
/* What a host adds: visitors with hooks of its own, and passes that pipelines of a context name.
 *   anf_tir_pass_register(cx, &(anf_tir_pass){.name = "mine", .func = f}, d)   ->   anf_tir_opt(m, "mine", ..) calls f
 * INVARIANT: a hook works with the makers of the module that it is given; one that fails sets the status of that
 * module, which ends the visit. */
#include "backend/tir/api/api.h"

/* ---- visitors ---- */

typedef struct hooks {
  anf_tir_visitor host;
  tmod *m;
} hooks;

/* The hook or a maker that it called has failed. */
ANFI_NORETURN static void give_up(const hooks *h) {
  if (h->m->status == ANF_OK) h->m->status = ANF_INVALID;
  anfi_fail_as(h->m->t->cx, h->m->status);
  anfi_throw(h->m->t->cx);
}

static texpr on_expr(tvisitor *v, texpr e) {
  const hooks *h = (const hooks *)v->user;
  uint32_t line = v->t->line, col = v->t->col;
  texpr r = h->host.expr(h->host.user, h->m, e);
  v->t->line = line, v->t->col = col;
  if (!r || h->m->status != ANF_OK) give_up(h);
  return r;
}
static tstmt on_stmt(tvisitor *v, tstmt s) {
  const hooks *h = (const hooks *)v->user;
  uint32_t line = v->t->line, col = v->t->col;
  tstmt r = h->host.stmt(h->host.user, h->m, s);
  v->t->line = line, v->t->col = col;
  if (h->m->status != ANF_OK) give_up(h);
  return r;
}

static bool visitor_of(tvisitor *v, hooks *h, tmod *m, const anf_tir_visitor *given) {
  anf_ctx *cx = m->t->cx;
  if (!ANFI_OPTS_IN(cx, anf_tir_visitor, user, given, &h->host)) return false;
  h->m = m;
  anfi_t_visitor_init(v, m->t, anfi_scratch(cx), h);
  v->expr = h->host.expr ? on_expr : NULL;
  v->stmt = h->host.stmt ? on_stmt : NULL;
  return true;
}

static texpr visit_expr(tmod *m, texpr e, const anf_tir_visitor *given) {
  tvisitor v;
  hooks h;
  return visitor_of(&v, &h, m, given) ? anfi_t_visit_expr(&v, e) : NULL;
}
static tstmt visit_stmt(tmod *m, tstmt s, const anf_tir_visitor *given) {
  tvisitor v;
  hooks h;
  return visitor_of(&v, &h, m, given) ? anfi_t_visit_stmt(&v, s) : NULL;
}
static tfunc visit_func(tmod *m, tfunc f, const anf_tir_visitor *given) {
  tvisitor v;
  hooks h;
  return visitor_of(&v, &h, m, given) ? anfi_t_visit_func(&v, f) : NULL;
}

texpr anf_tir_visit_expr(tmod *m, texpr e, const anf_tir_visitor *v) {
  if (!e || !v) return (texpr)bad(m);
  MAKE(texpr, visit_expr(m, e, v));
}
tstmt anf_tir_visit_stmt(tmod *m, tstmt s, const anf_tir_visitor *v) {
  if (!s || !v) return (tstmt)bad(m);
  MAKE(tstmt, visit_stmt(m, s, v));
}
tfunc anf_tir_visit_func(tmod *m, tfunc f, const anf_tir_visitor *v) {
  if (!f || !v) return (tfunc)bad(m);
  MAKE(tfunc, visit_func(m, f, v));
}

/* ---- passes ---- */

static const char host_passes; // its address is the key

static void forget(void *p) { (void)p; } // in the context's arena

static bool is_name(const char *s) {
  size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") : 0;
  return n && !s[n];
}

static bool is_taken(const anf_ctx *cx, const char *name) {
  for (size_t i = 0; i < anf_tir_pass_count(); i++)
    if (strcmp(anf_tir_pass_name(i), name) == 0) return true;
  if (anf_tir_pipeline(name)) return true;
  for (const thostpass *p = anfi_t_host_passes(cx); p; p = p->next)
    if (strcmp(p->row.name, name) == 0) return true;
  return false;
}

static thostpass **first_of(anf_ctx *cx) {
  thostpass **first = (thostpass **)anfi_ctx_kept(cx, &host_passes);
  if (first) return first;
  first = ANFI_NEW(&cx->arena, thostpass *);
  anfi_ctx_keep(cx, &host_passes, first, forget);
  return first;
}

const thostpass *anfi_t_host_passes(const anf_ctx *cx) {
  thostpass *const *first = (thostpass *const *)anfi_ctx_kept(cx, &host_passes);
  return first ? *first : NULL;
}

static bool refuse(anf_ctx *cx, const char *name, const char *why) {
  return anfi_fail(cx, anfi_nowhere(), ANF_E0606, name ? name : "", why);
}

static void add_pass(anf_ctx *cx, const anf_tir_pass *given) {
  anf_tir_pass p;
  uint32_t need = 0;
  if (!ANFI_OPTS_IN(cx, anf_tir_pass, user, given, &p)) return;
  if (!is_name(p.name)) refuse(cx, p.name, "its name has other than letters, digits and _");
  else if (is_taken(cx, p.name)) refuse(cx, p.name, "there is a pass or pipeline of the name");
  else if (!p.func == !p.module) refuse(cx, p.name, "it has one function, `func` or `module`");
  else if (!anfi_t_properties_of(p.needs ? p.needs : "", &need))
    refuse(cx, p.name, "`needs` has a word that is no property");
  if (anfi_failed(cx)) return;
  thostpass *h = ANFI_NEW(&cx->arena, thostpass);
  h->host = p;
  h->row.name = anfi_strndup(&cx->arena, p.name, strlen(p.name));
  h->row.doc = anfi_strndup(&cx->arena, p.doc ? p.doc : "", p.doc ? strlen(p.doc) : 0);
  h->row.need = need;
  thostpass **at = first_of(cx);
  while (*at) at = &(*at)->next;
  *at = h;
}

anf_status anf_tir_pass_register(anf_ctx *cx, const anf_tir_pass *p, anf_diag *d) {
  ANFI_NEED(d, cx, p);
  ANFI_ENTRY(cx, d);
  add_pass(cx, p);
  return anfi_leave(cx);
}

bool anfi_t_names_host(const anf_ctx *cx, const char *pipeline) {
  for (const char *w = pipeline; w && *w;) {
    size_t n = strcspn(w, " ,\t\n()*");
    for (const thostpass *p = anfi_t_host_passes(cx); p; p = p->next)
      if (strlen(p->row.name) == n && memcmp(p->row.name, w, n) == 0) return true;
    w += n ? n : 1;
  }
  return false;
}

/* A module that the host's makers write to: its status tells of them. */
static const tmod *whole(const thostpass *h, tmod *o, const tmod *m) {
  anf_status st = h->host.module(h->host.user, o, m);
  if (st != ANF_OK) anfi_t_remember(o, st);
  return o;
}
static const tmod *each(const thostpass *h, tmod *o, const tmod *m) {
  bool changed = false;
  for (size_t i = 0; i < m->func.n && o->status == ANF_OK; i++) {
    tfunc f = m->func.at[i], g = f->body ? h->host.func(h->host.user, o, f) : f;
    if (!g) return anfi_t_remember(o, ANF_INVALID), o;
    changed |= g != f;
    anfi_t_mod_add(o, g);
  }
  return changed || o->status != ANF_OK ? o : m;
}

const tmod *anfi_t_run_host(tpass_cx *p, const thostpass *h, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  const tmod *r = h->host.func ? each(h, o, m) : whole(h, o, m);
  if (o->status != ANF_OK) {
    if (!anfi_failed(p->cx)) anfi_fail(p->cx, anfi_nowhere(), ANF_E0607, h->row.name);
    return NULL;
  }
  if (r == m) anfi_t_mod_drop(o);
  else anfi_t_declare_rt(o);
  return anfi_t_validate(p->cx, r) ? r : NULL;
}
