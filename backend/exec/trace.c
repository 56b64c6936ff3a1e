// SPDX-License-Identifier: Apache-2.0
/* What took how long, as events of Chrome's trace format, which Perfetto shows: passes and code
 * generation when something is compiled, regions of compiled code when it runs.
 * INVARIANT: regions are told from any thread; there is room for a fixed number of events, each of
 * which is taken by one thread, and what does not fit is dropped. */
#include "backend/exec/exec.h"

#include <stdlib.h>

typedef struct event {
  const char *name;
  uint64_t at, thread; // ns since the trace was made
  uint64_t length;     // of a span
  char phase;          // B and E of a region, X a span
} event;

struct anf_trace {
  anf_ctx *cx;
  anfi_arena arena;
  uint64_t start;
  event *e;
  size_t cap;
  atomic_size_t n;
  anfi_strtab names;
  const char **region; // by id
  size_t nregion;
};

static void free_trace(void *t) { anf_trace_free((anf_trace *)t); }

static anf_trace *new_trace(anf_ctx *cx, size_t max) {
  anf_trace *t = (anf_trace *)anfi_raw(cx, NULL, 0, sizeof *t);
  if (!t) anfi_throw_nomem(cx);
  *t = (anf_trace){.cx = cx, .cap = max ? max : 100000, .start = anfi_os_now_ns()};
  anfi_arena_init(&t->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_trace, t);
  anfi_strtab_init(&t->names, &t->arena);
  t->e = ANFI_NEW_N(&t->arena, event, t->cap);
  return t;
}

anf_trace *anf_trace_new(anf_ctx *cx, size_t max_events) {
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_trace *t = new_trace(cx, max_events);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

void anf_trace_free(anf_trace *t) {
  if (!t) return;
  anfi_arena_free(&t->arena);
  anfi_raw(t->cx, t, sizeof *t, 0);
}

static event *take(anf_trace *t) {
  size_t i = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
  return i < t->cap ? &t->e[i] : NULL;
}

void anfi_trace_span(anf_trace *t, const char *name, uint64_t from, uint64_t to) {
  event *e = t ? take(t) : NULL;
  if (!e) return;
  const char *own = anfi_intern_z(&t->names, name)->s;
  *e = (event){own, from - t->start, anfi_os_thread_id(), to - from, 'X'};
}

void anfi_trace_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  uint64_t now = anfi_os_now_ns(), length = (uint64_t)(ms * 1e6);
  (void)m, (void)rewrites;
  anfi_trace_span((anf_trace *)user, pass, now - length, now);
}

void anfi_trace_region(void *user, int64_t id, bool leaves) {
  anf_trace *t = (anf_trace *)user;
  event *e = (uint64_t)id < t->nregion ? take(t) : NULL;
  if (e)
    *e = (event){t->region[id], anfi_os_now_ns() - t->start, anfi_os_thread_id(), 0,
                 leaves ? 'E' : 'B'};
}

static void free_module(void *m) { anf_tir_module_free((anf_tir_module *)m); }

tmod *anfi_trace_insert(anf_trace *t, tmod *m) {
  anf_tir_module *traced = NULL;
  t->nregion = m->func.n;
  t->region = ANFI_NEW_N(&t->arena, const char *, m->func.n + 1);
  for (size_t i = 0; i < m->func.n; i++)
    t->region[i] = anfi_intern_z(&t->names, m->func.at[i]->name->s)->s;
  anf_status st = anf_tir_opt(m, "trace_inserter", NULL, NULL, &traced);
  if (st != ANF_OK) return (void)anfi_fail_as(t->cx, st), m;
  anfi_defer(t->cx, ANFI_ALWAYS, free_module, traced);
  return traced;
}

/* ---- what is told ---- */

static size_t count(const anf_trace *t) {
  size_t n = atomic_load(&((anf_trace *)(uintptr_t)t)->n);
  return n < t->cap ? n : t->cap;
}

static void put_name(anf_text *o, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') anfi_putc(o, '\\');
    anfi_putc(o, *s);
  }
}

static void put_trace(const anf_trace *t, anf_text *o) {
  anfi_puts(o, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  for (size_t i = 0; i < count(t); i++) {
    const event *e = &t->e[i];
    anfi_puts(o, i ? ",\n{\"name\":\"" : "\n{\"name\":\"");
    put_name(o, e->name);
    anfi_putf(o, "\",\"cat\":\"%s\",\"ph\":\"%c\",\"pid\":1,\"tid\":%llu,\"ts\":%.3f",
              e->phase == 'X' ? "compile" : "run", e->phase, (unsigned long long)e->thread,
              (double)e->at / 1e3);
    if (e->phase == 'X') anfi_putf(o, ",\"dur\":%.3f", (double)e->length / 1e3);
    anfi_putc(o, '}');
  }
  anfi_puts(o, "\n]}\n");
}

anf_status anf_trace_print(const anf_trace *t, anf_text *out) {
  ANFI_ENTRY(t->cx, NULL);
  put_trace(t, out);
  return anfi_leave(t->cx);
}
