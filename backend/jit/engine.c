// SPDX-License-Identifier: Apache-2.0
/* Engines, whatever their kind: making one, compiling with it, registering functions of the host.
 *   anf_jit_engine_new(cx, ANF_JIT_LLVM, NULL, d, &e); anf_jit_make_module(e, m, d, &jm);   ->   code of m
 * Code comes from the cache (memory, then disk) if the key of module, options and build is known there; one process
 * compiles while others wait for its entry. */
#include "backend/jit/jit.h"
#include "backend/kernel/kernel.h"

static const anfi_jit_vtable *const kinds[ANF_JIT_KIND_COUNT] = {[ANF_JIT_LLVM] = &anfi_jit_llvm,
                                                                 [ANF_JIT_CJIT] = &anfi_jit_cjit,
                                                                 [ANF_JIT_INTERP] =
                                                                     &anfi_jit_interp};
static const char *const names[ANF_JIT_KIND_COUNT] = {"llvm", "cjit", "interp"};

const char *anf_jit_kind_name(anf_jit_kind k) {
  return (unsigned)k < ANF_JIT_KIND_COUNT ? names[k] : "";
}
bool anf_jit_kind_of(const char *name, anf_jit_kind *out) {
  if (!name || !out) return false;
  for (int i = 0; i < ANF_JIT_KIND_COUNT; i++)
    if (strcmp(names[i], name) == 0) return *out = (anf_jit_kind)i, true;
  return false;
}

static const anfi_jit_vtable *table(anf_ctx *cx, anf_jit_kind k) {
  if ((unsigned)k < ANF_JIT_KIND_COUNT && kinds[k]) return kinds[k];
  anfi_fail(cx, anfi_nowhere(), ANF_E0901, anf_jit_kind_name(k));
  return NULL;
}

/* ---- target ---- */

bool anfi_jit_isa(const anf_jit_engine *e, anfi_isa *out) {
  anfi_isa_of(e->target.triple, e->target.features, out);
  out->exact = !e->o.contract;
  return anfi_isa_choose(e->o.kernels, out);
}

uint64_t anfi_jit_cache_bytes(const anf_jit_engine *e) {
  anfi_isa isa;
  return e->kind == ANF_JIT_LLVM && anfi_jit_isa(e, &isa) ? isa.l3 : UINT64_MAX;
}

static bool take_text(anf_ctx *cx, const char *from, char *to, size_t size) {
  int n = snprintf(to, size, "%s", from ? from : "");
  if (n >= 0 && (size_t)n < size) return true;
  return anfi_fail(cx, anfi_nowhere(), ANF_E0912, to, "any target");
}

/* Fails with E0912 if a text is longer than any target's. */
static bool read_target(anf_ctx *cx, const anf_target_machine *from, anfi_target *to) {
  anf_target_machine tm;
  *to = (anfi_target){0};
  if (!ANFI_OPTS_IN(cx, anf_target_machine, elsewhere, from, &tm)) return false;
  to->elsewhere = tm.elsewhere;
  return take_text(cx, tm.triple, to->triple, sizeof to->triple) &&
         take_text(cx, tm.cpu, to->cpu, sizeof to->cpu) &&
         take_text(cx, tm.features, to->features, sizeof to->features);
}

static void negotiate(anf_ctx *cx, anf_jit_kind k, anf_target_machine *tm) {
  const anfi_jit_vtable *vt = table(cx, k);
  anfi_target *t = ANFI_NEW(anfi_scratch(cx), anfi_target);
  if (!vt || !read_target(cx, tm, t) || !vt->negotiate(cx, t)) return;
  tm->triple = anfi_intern_z(&cx->strings, t->triple)->s;
  tm->cpu = anfi_intern_z(&cx->strings, t->cpu)->s;
  tm->features = anfi_intern_z(&cx->strings, t->features)->s;
}

anf_status anf_jit_set_target_machine(anf_ctx *cx, anf_jit_kind k, anf_target_machine *tm,
                                      anf_diag *d) {
  ANFI_NEED(d, cx, tm);
  ANFI_ENTRY(cx, d);
  negotiate(cx, k, tm);
  return anfi_leave(cx);
}

/* ---- engines ---- */

static void drop(anf_jit_engine *e) {
  if (atomic_fetch_sub(&e->refs, 1) != 1) return;
  e->vt->close(e);
  for (size_t i = 0; i < e->nsymbol; i++) anfi_jit_free(e->symbol[i].name);
  for (size_t i = 0; i < ANFI_JIT_KEPT; i++) anfi_jit_free(e->kept[i].p);
  anfi_jit_free(e->symbol);
  anfi_jit_free(e->fact);
  const char *const owned[] = {e->o.passes, e->o.cc, e->o.temp_dir, e->o.cache_dir, e->o.kernels};
  for (size_t i = 0; i < ANFI_LEN(owned); i++) anfi_jit_free((void *)(uintptr_t)owned[i]);
  pthread_mutex_destroy(&e->lock);
  anfi_jit_free(e);
}

static void drop_engine(void *e) { drop((anf_jit_engine *)e); }

void anf_jit_engine_free(anf_jit_engine *e) {
  if (e) drop(e);
}
void anfi_free_engine(void *e) { anf_jit_engine_free((anf_jit_engine *)e); }

static void own(anf_ctx *cx, const char **s) {
  if (!*s) return;
  *s = anfi_jit_strdup(*s);
  if (!*s) anfi_throw_nomem(cx);
}

static bool own_strings(anf_ctx *cx, anf_jit_engine *e, const anf_jit_opts *o) {
  bool good = ANFI_OPTS_IN(cx, anf_jit_opts, threads, o, &e->o);
  const char *given[] = {e->o.passes, e->o.cc, e->o.temp_dir, e->o.cache_dir, e->o.kernels};
  const char **place[] = {&e->o.passes, &e->o.cc, &e->o.temp_dir, &e->o.cache_dir, &e->o.kernels};
  for (size_t i = 0; i < ANFI_LEN(place); i++) *place[i] = NULL;
  for (size_t i = 0; i < ANFI_LEN(place); i++) {
    own(cx, &given[i]);
    *place[i] = given[i];
  }
  return good;
}

enum { PATIENCE_MS = 60000 };

static void engine_new(anf_ctx *cx, anf_jit_kind k, const anf_jit_opts *o, anf_jit_engine **out) {
  const anfi_jit_vtable *vt = table(cx, k);
  if (!vt) return;
  anf_jit_engine *e = (anf_jit_engine *)anfi_jit_alloc(vt->engine_bytes);
  if (!e) anfi_throw_nomem(cx);
  e->vt = vt;
  e->kind = k;
  e->patience_ms = PATIENCE_MS;
  atomic_init(&e->refs, 1);
  pthread_mutex_init(&e->lock, NULL);
  anfi_defer(cx, ANFI_ON_FAIL, drop_engine, e);
  if (!own_strings(cx, e, o) || !read_target(cx, e->o.target, &e->target)) return;
  snprintf(e->version, sizeof e->version, "%s %s", ANF_VERSION,
           anfi_os_this_build(anfi_scratch(cx)));
  if (!vt->negotiate(cx, &e->target) || !vt->open(cx, e)) return;
  anfi_isa isa;
  if (!anfi_jit_isa(e, &isa)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0912, e->o.kernels, "kernels");
    anfi_hint(cx, "vectors of kernels are those of sse, avx2, avx512, vnni, bf16 or amx");
    return;
  }
  e->shown = (anf_target_machine){.size = sizeof e->shown,
                                  .triple = e->target.triple,
                                  .cpu = e->target.cpu,
                                  .features = e->target.features,
                                  .elsewhere = e->target.elsewhere};
  e->o.target = &e->shown;
  *out = e;
}

anf_status anf_jit_engine_new(anf_ctx *cx, anf_jit_kind k, const anf_jit_opts *o, anf_diag *d,
                              anf_jit_engine **out) {
  ANFI_NEED(d, cx, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  engine_new(cx, k, o, out);
  return anfi_leave(cx);
}

anf_jit_kind anf_jit_engine_kind(const anf_jit_engine *e) { return e ? e->kind : (anf_jit_kind)0; }
const anf_target_machine *anf_jit_engine_target(const anf_jit_engine *e) {
  return e ? &e->shown : NULL;
}

/* Under the lock. NULL: none of that name. */
static anfi_jit_symbol *symbol(anf_jit_engine *e, const char *name) {
  for (size_t i = e->nsymbol; i-- > 0;)
    if (strcmp(e->symbol[i].name, name) == 0) return &e->symbol[i];
  return NULL;
}

/* Under the lock. False: out of memory. */
static bool add_symbol(anf_jit_engine *e, const char *name, void (*function)(void)) {
  char *s = anfi_jit_strdup(name);
  size_t n = e->nsymbol;
  bool full = !(n & (n - 1)); // room is a power of two
  anfi_jit_symbol *more = e->symbol;
  if (s && full) more = (anfi_jit_symbol *)anfi_jit_alloc((n ? 2 * n : 1) * sizeof *more);
  if (!s || !more) return anfi_jit_free(s), false;
  if (full && n) memcpy(more, e->symbol, n * sizeof *more);
  if (full) anfi_jit_free(e->symbol);
  e->symbol = more;
  e->symbol[e->nsymbol++] = (anfi_jit_symbol){s, function};
  return true;
}

anf_status anf_jit_engine_define(anf_jit_engine *e, const char *name, void (*function)(void)) {
  if (!e || !name || !function) return ANF_INVALID;
  pthread_mutex_lock(&e->lock);
  bool good = add_symbol(e, name, function);
  pthread_mutex_unlock(&e->lock);
  return good ? ANF_OK : ANF_NOMEM;
}

bool anfi_jit_define_once(anf_ctx *cx, anf_jit_engine *e, const char *name, void (*fn)(void)) {
  if (anfi_jit_builtin(name)) return anfi_fail(cx, anfi_nowhere(), ANF_E0906, name);
  pthread_mutex_lock(&e->lock);
  const anfi_jit_symbol *there = symbol(e, name);
  bool same = !there || there->fn == fn, good = there || add_symbol(e, name, fn);
  pthread_mutex_unlock(&e->lock);
  if (!good) anfi_throw_nomem(cx);
  return same || anfi_fail(cx, anfi_nowhere(), ANF_E0906, name);
}

void *anfi_jit_resolve(anf_jit_engine *e, const char *name) {
  void *p = anfi_jit_builtin(name);
  if (p) return p;
  pthread_mutex_lock(&e->lock);
  const anfi_jit_symbol *s = symbol(e, name);
  if (s) memcpy(&p, &s->fn, sizeof p);
  pthread_mutex_unlock(&e->lock);
  return p;
}

/* ---- compiling ---- */

void anfi_jit_code_release(anfi_jit_code *c) {
  if (atomic_fetch_sub(&c->refs, 1) != 1) return;
  if (c->impl) c->engine->vt->drop(c);
  for (size_t i = 0; i < c->nentry; i++) {
    anfi_jit_free(c->entry[i].name);
    anfi_jit_free(c->entry[i].param);
  }
  for (size_t i = 0; i < c->nglobal; i++) anfi_jit_free((void *)(uintptr_t)c->global[i].name);
  for (size_t i = 0; i < c->ntemp; i++) anfi_jit_free(c->temp[i]);
  anfi_jit_free(c->temp);
  anfi_jit_free(c->entry);
  anfi_jit_free(c->global);
  anfi_jit_free(c->image);
  anfi_jit_free(c->address);
  drop(c->engine);
  anfi_jit_free(c);
}

static void release_code(void *c) { anfi_jit_code_release((anfi_jit_code *)c); }

/* Of the frame: whoever keeps the code takes a reference. */
static anfi_jit_code *compiled(anf_ctx *cx, anf_jit_engine *e, const tmod *m,
                               const anfi_jit_id *id) {
  anfi_jit_lowered l = {0};
  if (!anfi_jit_lower(cx, e, m, e->vt->make != NULL, &l)) return NULL;
  anfi_jit_code *code = anfi_jit_describe(e, &l);
  if (!code) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, release_code, code);
  if (e->vt->compile) return e->vt->compile(cx, e, &l, code) ? code : NULL;
  anf_text *bytes = anfi_text_begin(cx), *packed = anfi_text_begin(cx);
  if (!e->vt->make(cx, e, &l, code, bytes) || !e->vt->load(cx, e, code, bytes->text, bytes->len))
    return NULL;
  if (!id) return code;
  anfi_jit_pack(code, bytes->text, bytes->len, packed);
  anfi_jit_remember(cx, e, *id, packed->text, packed->len);
  return code;
}

static anf_status load_apart(anf_ctx *cx, anf_jit_engine *e, anfi_jit_code *c, const char *p,
                             size_t n, anf_diag *d, bool *out) {
  ANFI_ENTRY(cx, d);
  *out = e->vt->load(cx, e, c, p, n);
  return anfi_leave(cx);
}

/* Loads code from the cache. Findings about damaged bytes are dropped: the module is then compiled anew. */
static bool loads(anf_ctx *cx, anf_jit_engine *e, anfi_jit_code *c, const char *p, size_t n) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  bool good = false;
  anf_status st = load_apart(cx, e, c, p, n, d, &good);
  if (st == ANF_NOMEM) anfi_throw_nomem(cx);
  return good && st == ANF_OK;
}

static anfi_jit_code *recalled(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id) {
  const char *p = NULL, *bytes = NULL;
  size_t n = 0, len = 0;
  if (!anfi_jit_recall(cx, e, id, &p, &n)) return NULL;
  anfi_jit_code *code = anfi_jit_unpack(cx, e, p, n, &bytes, &len);
  if (code) anfi_defer(cx, ANFI_ALWAYS, release_code, code);
  if (code && loads(cx, e, code, bytes, len)) return code;
  anfi_warn(cx, anfi_nowhere(), ANF_W0902, e->o.cache_dir ? e->o.cache_dir : "memory");
  return NULL;
}

/* Are all functions there that the module takes from outside? */
static bool complete(anf_jit_engine *e, const tmod *m) {
  for (size_t i = 0; i < m->func.n; i++)
    if (!m->func.at[i]->body && !anfi_jit_resolve(e, m->func.at[i]->name->s)) return false;
  return true;
}

/* Debuggers want files that are written on the way; what a host's pass does, a key does not tell. */
static anfi_jit_code *code_of(anf_ctx *cx, anf_jit_engine *e, const tmod *m) {
  anfi_jit_id id;
  if (e->vt->compile || anfi_t_names_host(cx, e->o.passes) || e->o.debug || !complete(e, m))
    return compiled(cx, e, m, NULL);
  anfi_jit_key(cx, e, m, &id);
  anfi_jit_code *code = recalled(cx, e, id);
  if (code || anfi_failed(cx)) return code;
  anfi_claim *claim;
  if (anfi_jit_claim(cx, e, id, &claim)) code = recalled(cx, e, id);
  if (!code && !anfi_failed(cx)) code = compiled(cx, e, m, &id);
  anfi_os_unclaim(claim);
  return code;
}

/* The module's, borrowed. */
static anfi_jit_blocks blocks_of(anfi_arena *a, const tmod *m) {
  anfi_jit_blocks b = {ANFI_NEW_N(a, anfi_os_block *, m->global.n + 1), 0};
  for (size_t i = 0; i < m->global.n; i++)
    if (anfi_t_is_bound(m->global.at[i])) b.at[b.n++] = m->global.at[i]->e[1]->u.list.block;
  return b;
}

static void make_module(anf_ctx *cx, anf_jit_engine *e, const tmod *m, anf_jit_module **out) {
  anfi_jit_code *code = code_of(cx, e, m);
  if (!code) return;
  anfi_jit_blocks blocks = blocks_of(anfi_scratch(cx), m);
  anf_status st = anfi_jit_instance(code, &blocks, out);
  if (st == ANF_NOMEM) anfi_throw_nomem(cx);
  if (st != ANF_OK) anfi_fail(cx, anfi_nowhere(), ANF_E0903, "__tir_init");
  else if (m->t->file && !((*out)->file = anfi_jit_strdup(m->t->file))) {
    anf_jit_module_free(*out);
    *out = NULL;
    anfi_throw_nomem(cx);
  }
}

anf_status anfi_jit_make_module(anf_jit_engine *e, const tmod *m, anf_jit_module **out) {
  *out = NULL;
  ANFI_ENTRY(m->t->cx, NULL);
  make_module(m->t->cx, e, m, out);
  return anfi_leave(m->t->cx);
}

anf_status anf_jit_make_module(anf_jit_engine *e, const anf_tir_module *m, anf_diag *d,
                               anf_jit_module **out) {
  ANFI_NEED(d, e, m, out);
  *out = NULL;
  ANFI_ENTRY(m->t->cx, d);
  if (anfi_t_validate(m->t->cx, m)) make_module(m->t->cx, e, m, out);
  return anfi_leave(m->t->cx);
}

static const char *entry_name(anf_ctx *cx, const tmod *m) {
  const char *only = NULL;
  size_t n = 0;
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    if (!f->body || anfi_t_attr(f->attrs, TA_is_private, NULL)) continue;
    if (strcmp(f->name->s, "main") == 0) return "main";
    only = f->name->s;
    n++;
  }
  if (n == 1) return only;
  anfi_fail(cx, anfi_nowhere(), ANF_E0902, n);
  return NULL;
}

static void entry_func(anf_ctx *cx, anf_jit_engine *e, const tmod *m, anf_jit_function **out) {
  const char *name = entry_name(cx, m);
  anf_jit_module **made = ANFI_NEW(anfi_scratch(cx), anf_jit_module *);
  if (name && anfi_t_validate(cx, m)) make_module(cx, e, m, made);
  if (!*made) return;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_code, *made);
  *out = anf_jit_get_function(*made, name);
  if (!*out) anfi_throw_nomem(cx);
}

anf_status anf_jit_get_entry_func(anf_jit_engine *e, const anf_tir_module *m, anf_diag *d,
                                  anf_jit_function **out) {
  ANFI_NEED(d, e, m, out);
  *out = NULL;
  ANFI_ENTRY(m->t->cx, d);
  entry_func(m->t->cx, e, m, out);
  return anfi_leave(m->t->cx);
}

/* ---- printing ---- */

static void print(anf_ctx *cx, anf_jit_engine *e, const tmod *m, const char *form, anf_text *out) {
  anfi_jit_lowered l = {0};
  if (!anfi_t_validate(cx, m) || !anfi_jit_lower(cx, e, m, false, &l)) return;
  if (!e->vt->print || !e->vt->print(cx, e, &l, form, out))
    if (!anfi_failed(cx)) anfi_fail(cx, anfi_nowhere(), ANF_E0904, e->vt->name, form);
}

anf_status anf_jit_print(anf_jit_engine *e, const anf_tir_module *m, const char *form, anf_diag *d,
                         anf_text *out) {
  ANFI_NEED(d, e, m, form, out);
  anfi_text_of(out, m->t->cx);
  ANFI_ENTRY(m->t->cx, d);
  print(m->t->cx, e, m, form, out);
  return anfi_leave(m->t->cx);
}
