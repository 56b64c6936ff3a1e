// SPDX-License-Identifier: Apache-2.0
/* The interp engine: the interpreter of Tensor IR behind the interface of engines.
 *   call f with args {2, 3}   ->   anf_tir_run(m, "f", 2, {2, 3}, ..)   ->   args[2]
 * It is the oracle that the other engines are tested against, and needs no compiler. The module lives in a context of
 * its own, which one thread uses at a time. */
#define _XOPEN_SOURCE 700 // recursive mutexes
#include "backend/jit/jit.h"

#include "anfora/comm.h"
#include "runtime/rt.h"

typedef struct program {
  anf_ctx *cx;
  anf_jit_engine *engine;
  tmod *m;
  pthread_mutex_t lock; // a host's function may call back: recursive
} program;

enum { UNKNOWN_BYTES = 1 << 30 }; // of memory that a host gave without its size

static bool negotiate(anf_ctx *cx, anfi_target *tm) {
  (void)cx;
  tm->features[0] = tm->cpu[0] = tm->triple[0] = 0; // it runs on any
  return true;
}

static bool open_engine(anf_ctx *cx, anf_jit_engine *e) { return (void)cx, (void)e, true; }
static void close_engine(anf_jit_engine *e) { (void)e; }

static void drop(anfi_jit_code *code) {
  program *p = (program *)code->impl;
  anf_tir_module_free(p->m);
  anf_ctx_free(p->cx);
  pthread_mutex_destroy(&p->lock);
  anfi_jit_free(p);
}

static void copy(anf_ctx *cx, const tmod *m, tmod **out) {
  tstore *t = anfi_t_store_new(cx);
  *out = anfi_t_clone(m, t);
  (*out)->cx = cx;
  anfi_t_mod_keep(*out);
}

/* Inside a frame of the copy's own context */
static anf_status copy_module(anf_ctx *cx, const tmod *m, tmod **out) {
  ANFI_ENTRY(cx, NULL);
  copy(cx, m, out);
  return anfi_leave(cx);
}

static void new_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(lock, &attr);
  pthread_mutexattr_destroy(&attr);
}

static bool compile(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l,
                    anfi_jit_code *code) {
  program *p = (program *)anfi_jit_alloc(sizeof *p);
  if (!p) anfi_throw_nomem(cx);
  p->engine = e;
  new_lock(&p->lock);
  code->impl = p;
  p->cx = anf_ctx_new(NULL);
  if (!p->cx || copy_module(p->cx, l->m, &p->m) != ANF_OK) anfi_throw_nomem(cx);
  return true;
}

/* ---- calls ---- */

typedef struct calling {
  anf_stream *s;
  anf_jit_engine *engine;
  bool stopped; // by the stream, whose trap says why
} calling;

typedef struct asking {
  anf_stream *s;
  int32_t what;
} asking;

static anf_stream *stream_of(void *user) { return ((calling *)user)->s; }

static void on_stop(void *user, int64_t site, int64_t a, int64_t b) {
  anf_trap t = *anf_stream_trap(stream_of(user));
  t.site = site, t.a = a, t.b = b;
  anf_rt_tell(stream_of(user), &t);
}
static void on_print(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  for (size_t i = 0; i < n; i++) anf_rt_put(stream_of(user), leaf[i]);
  anf_rt_print(stream_of(user), site);
}
/* Polls and counts on the stream, as machine code does; what stops it is kept for the report. */
static void ask(void *p) {
  const asking *q = (const asking *)p;
  if (q->what < 0) anf_rt_poll(q->s);
  else anf_rt_count(q->s, q->what);
}
static bool on_go_on(void *user, int32_t what) {
  calling *c = (calling *)user;
  asking q = {c->s, what};
  if (what < 0 && !anfi_rt_stopped(c->s)) return true;
  c->stopped = anfi_rt_protect(c->s, ask, &q) != ANF_OK;
  return !c->stopped;
}
static void on_trace(void *user, int64_t id, bool leaves) {
  anf_rt_trace(stream_of(user), id, leaves);
}
static void *find(void *user, const char *name) {
  return anfi_jit_resolve(((calling *)user)->engine, name);
}

static anf_trap_kind kind_of(const char *code) {
  static const struct {
    const char *code;
    anf_trap_kind kind;
  } kinds[] = {{"E0858", ANF_TRAP_DIVISION}, {"E0861", ANF_TRAP_STEP},   {"E0856", ANF_TRAP_DEPTH},
               {"E0857", ANF_TRAP_MEMORY},   {"E0871", ANF_TRAP_MEMORY}, {"E0872", ANF_TRAP_MEMORY},
               {"E0870", ANF_TRAP_SITE}};
  for (size_t i = 0; i < ANFI_LEN(kinds); i++)
    if (strcmp(kinds[i].code, code) == 0) return kinds[i].kind;
  return ANF_TRAP_BOUNDS; // of what the unchecked interpreter finds, the rest is memory
}

static void report(anf_stream *s, const anfi_jit_entry *f, anf_status st, const anf_diag *d) {
  anf_trap t = *anf_stream_trap(s);
  const anf_diag_item *it = d ? anf_diag_at(d, 0) : NULL;
  t.status = st;
  t.func = f->name;
  t.kind = it ? kind_of(it->code) : ANF_TRAP_MEMORY;
  t.line = it ? it->line : 0;
  t.col = it ? it->col : 0;
  snprintf(t.text, sizeof t.text, "%s", it && t.kind == ANF_TRAP_BOUNDS ? it->message : "");
  anf_rt_tell(s, &t);
}

static anf_tir_arg argument(tdtype d, anf_generic g) {
  anf_tir_arg a = {.v = {.bits = g.bits}};
  bool vector = !d.ptr && anfi_t_total(d) != 1;
  if (!d.ptr && !vector) return a;
  a.data = g.ptr;
  a.bytes = vector ? anfi_t_total(d) * anfi_t_bytes(d) : (size_t)UNKNOWN_BYTES;
  return a;
}

static anf_status run(program *p, const anfi_jit_entry *f, anf_stream *s, void *data,
                      anf_generic *args, anf_tir_arg *in) {
  calling who = {.s = s, .engine = p->engine};
  anf_tir_run_opts o = {.size = sizeof o,
                        .plain = true,
                        .data = data,
                        .user = &who,
                        .find = find,
                        .stop = on_stop,
                        .print = on_print,
                        .go_on = on_go_on,
                        .trace = on_trace,
                        .comm = anf_stream_comm(s)};
  anf_tir_arg r = {.v = {.bits = 0}};
  anf_trap none = {.func = "", .file = ""};
  anf_diag *d = anf_diag_new(p->cx);
  anf_rt_tell(s, &none);
  anfi_rt_begin(s);
  for (uint32_t i = 0; i < f->n; i++) in[i] = argument(f->param[i], args[i]);
  size_t most = p->cx->max_bytes;
  if (s->limit && s->limit < most - p->cx->bytes) p->cx->max_bytes = p->cx->bytes + s->limit;
  anf_status st = anf_tir_run(p->m, f->name, f->n, in, &o, d, &r);
  p->cx->max_bytes = most;
  s->over_limit = st == ANF_LIMIT && p->cx->over_limit;
  if (st == ANF_OK && !anfi_t_is_void(f->ret)) args[f->n].bits = r.v.bits;
  if (who.stopped) st = anf_stream_trap(s)->status;
  else if (st != ANF_OK) report(s, f, st, d);
  anf_diag_free(d);
  return st;
}

static anf_status call(const anfi_jit_code *code, const anfi_jit_entry *f, anf_stream *s,
                       void *data, anf_generic *args) {
  program *p = (program *)code->impl;
  if (anfi_t_total(f->ret) != 1) return ANF_UNSUPPORTED; // a run gives one lane
  anf_tir_arg *in = (anf_tir_arg *)anfi_jit_alloc((f->n + 1) * sizeof *in);
  if (!in) return ANF_NOMEM;
  pthread_mutex_lock(&p->lock);
  anf_status st = run(p, f, s, data, args, in);
  pthread_mutex_unlock(&p->lock);
  anfi_jit_free(in);
  return st;
}

const anfi_jit_vtable anfi_jit_interp = {.name = "interp",
                                         .passes = "index_flattener auto_caster",
                                         .scalar_passes = "index_flattener auto_caster",
                                         .engine_bytes = sizeof(anf_jit_engine),
                                         .negotiate = negotiate,
                                         .open = open_engine,
                                         .compile = compile,
                                         .close = close_engine,
                                         .drop = drop,
                                         .call = call};
