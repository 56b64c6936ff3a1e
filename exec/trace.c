// SPDX-License-Identifier: Apache-2.0
/* Traces of compilation and of runs.
 *
 *   anf_trace_print        [{"name": "simplify", "ts": 12, "dur": 340}, {"name": "MatMul", ...}]
 *   anf_trace_print_table  MatMul   12 runs   3.4 ms
 *
 * Events are in Chrome's trace format, which Perfetto shows: passes and code generation while something is
 * compiled, operations of compiled code while it runs. The table sums up operations.
 * INVARIANT: any thread may record a pass or an exchange, only the thread that runs the step records regions. The number of
 * events is fixed: one thread takes each slot, and events beyond the last slot are dropped. */
#include "exec/exec.h"

#include <stdlib.h>

typedef struct event {
  const char *name;
  uint64_t at, thread; // ns since the trace was made
  uint64_t length;     // of a span
  char phase;          // B and E of a region, X a span
  bool exchange;       // a span of operations between ranks, which sent so many bytes
  uint64_t bytes;
} event;

typedef struct region_time {     // of a region
  const char *name, *op, *place; // place: " file:line" at the end of the name, or NULL
  double flops, bytes;
  uint64_t ns, runs; // all together
} region_time;

typedef struct opened {
  size_t id;
  uint64_t from, inside;
} opened;

enum { MOST_DEEP = 64 };

struct anf_trace {
  anf_ctx *cx;
  anfi_arena arena;
  uint64_t start;
  /* events */
  event *e;
  size_t cap;
  atomic_size_t n;
  anfi_strtab names;
  /* regions of compiled code */
  region_time *region; // by id
  size_t nregion;
  opened open[MOST_DEEP]; // those that were entered and not left
  size_t depth;
};

static void free_trace(void *t) { anf_trace_free((anf_trace *)t); }

static anf_trace *new_trace(anf_ctx *cx, size_t max) {
  anf_trace *t = (anf_trace *)anfi_object(cx, sizeof *t);
  if (!t) anfi_throw_nomem(cx);
  *t = (anf_trace){.cx = cx, .cap = max ? max : 100000, .start = anfi_os_now_ns()};
  anfi_arena_init(&t->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_trace, t);
  anfi_strtab_init(&t->names, &t->arena);
  t->e = ANFI_NEW_N(&t->arena, event, t->cap);
  return t;
}

anf_trace *anf_trace_new(anf_ctx *cx, size_t max_events) {
  if (!cx) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_trace *t = new_trace(cx, max_events);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

void anf_trace_free(anf_trace *t) {
  if (!t) return;
  anfi_arena_free(&t->arena);
  anfi_object_free(t->cx, t);
}

static event *take(anf_trace *t) {
  size_t i = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
  return i < t->cap ? &t->e[i] : NULL;
}

void anfi_trace_span(anf_trace *t, const char *name, uint64_t from, uint64_t to) {
  event *e = t ? take(t) : NULL;
  if (!e) return;
  const char *own = anfi_intern_z(&t->names, name)->s;
  *e = (event){own, from - t->start, anfi_os_thread_id(), to - from, 'X', false, 0};
}

void anfi_trace_exchange(void *user, anf_comm_kind k, uint64_t bytes, uint64_t from, uint64_t to) {
  static const char *const name[ANF_COMM_KIND_COUNT] = {
      "AllReduce", "ReduceScatter", "Reduce", "AllGather", "Broadcast", "AllToAll", "SendRecv"};
  anf_trace *t = (anf_trace *)user;
  event *e = (unsigned)k < ANF_COMM_KIND_COUNT ? take(t) : NULL;
  if (e) *e = (event){name[k], from - t->start, anfi_os_thread_id(), to - from, 'X', true, bytes};
}

void anfi_trace_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  uint64_t now = anfi_os_now_ns(), length = (uint64_t)(ms * 1e6);
  (void)m, (void)rewrites;
  anfi_trace_span((anf_trace *)user, pass, now - length, now);
}

/* Time of its own: without that of the regions inside. A trap leaves regions without telling. */
static void account(anf_trace *t, size_t id, uint64_t now, bool leaves) {
  if (!leaves) {
    if (!id) t->depth = 0; // a new step
    if (t->depth < MOST_DEEP) t->open[t->depth] = (opened){id, now, 0};
    t->depth++;
    return;
  }
  if (t->depth > MOST_DEEP) {
    t->depth--;
    return;
  }
  while (t->depth && t->open[t->depth - 1].id != id) t->depth--;
  if (!t->depth) return;
  const opened *o = &t->open[--t->depth];
  t->region[id].ns += now - o->from - o->inside;
  t->region[id].runs++;
  if (t->depth) t->open[t->depth - 1].inside += now - o->from;
}

void anfi_trace_region(void *user, int64_t id, bool leaves) {
  anf_trace *t = (anf_trace *)user;
  if ((uint64_t)id >= t->nregion) return;
  uint64_t now = anfi_os_now_ns();
  event *e = take(t);
  if (e)
    *e = (event){
        t->region[id].name, now - t->start, anfi_os_thread_id(), 0, leaves ? 'E' : 'B', false, 0};
  account(t, (size_t)id, now, leaves);
}

void anfi_trace_regions(anf_trace *t, const anfi_lowered *low) {
  t->nregion = low->regions.n;
  t->depth = 0;
  t->region = ANFI_NEW_N(&t->arena, region_time, t->nregion + 1);
  for (size_t i = 0; i < t->nregion; i++) {
    const anfi_region *r = &low->regions.at[i];
    const char *name = r->name;
    if (i && r->loc.file)
      name = anfi_sprintf(anfi_scratch(t->cx), "%s %s:%u", name, r->loc.file, r->loc.line);
    t->region[i] = (region_time){.name = anfi_intern_z(&t->names, name)->s,
                                 .op = anfi_intern_z(&t->names, r->name)->s,
                                 .flops = r->flops,
                                 .bytes = r->bytes};
    t->region[i].place = strchr(t->region[i].name, ' ');
  }
}

/* ---- events ---- */

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
              e->exchange       ? "exchange"
              : e->phase == 'X' ? "compile"
                                : "run",
              e->phase, (unsigned long long)e->thread, (double)e->at / 1e3);
    if (e->phase == 'X') anfi_putf(o, ",\"dur\":%.3f", (double)e->length / 1e3);
    if (e->exchange) anfi_putf(o, ",\"args\":{\"bytes\":%llu}", (unsigned long long)e->bytes);
    anfi_putc(o, '}');
  }
  anfi_puts(o, "\n]}\n");
}

anf_status anf_trace_print(const anf_trace *t, anf_text *out) {
  ANFI_TEXT_ENTRY(t, out);
  put_trace(t, out);
  return anfi_leave(t->cx);
}

/* ---- the table ---- */

typedef struct row {
  const char *what;
  double ns, runs, flops, bytes; // ns of products alone: of those with flops
  double product_ns;
} row;
typedef ANFI_VEC(row) rows;

static int longest_first(const void *a, const void *b) {
  double x = ((const row *)a)->ns, y = ((const row *)b)->ns;
  return (x < y) - (x > y);
}

static void add_row(const anf_trace *t, rows *to, anfi_map *at, const region_time *r,
                    const char *what) {
  uint64_t *i = anfi_map_at(at, anfi_key(anfi_intern_z((anfi_strtab *)(uintptr_t)&t->names, what)));
  if (!*i) {
    anfi_push(at->arena, to, ((row){.what = what}));
    *i = to->n;
  }
  row *w = &to->at[*i - 1];
  w->ns += (double)r->ns;
  w->runs += (double)r->runs;
  w->flops += r->flops * (double)r->runs;
  w->bytes += r->bytes * (double)r->runs;
  if (r->flops > 0) w->product_ns += (double)r->ns;
}

static void put_rows(rows *all, double steps, double whole, size_t most, anf_text *o) {
  if (all->n) qsort(all->at, all->n, sizeof *all->at, longest_first);
  for (size_t i = 0; i < all->n && i < most; i++) {
    const row *w = &all->at[i];
    anfi_putf(o, "%11.4f %6.1f %% %9.1f", w->ns / steps / 1e6, 100 * w->ns / whole,
              w->runs / steps);
    if (w->flops > 0) anfi_putf(o, " %9.1f", w->flops / w->product_ns);
    else anfi_putf(o, " %9s", "");
    anfi_putf(o, " %7.1f  %s\n", w->bytes / w->ns, w->what);
  }
}

static void put_table(const anf_trace *t, bool by_line, anf_text *o) {
  rows all = {0};
  anfi_map at;
  double whole = 0;
  anfi_map_init(&at, anfi_scratch(t->cx));
  for (size_t i = 0; i < t->nregion; i++) {
    const region_time *r = &t->region[i];
    whole += (double)r->ns;
    if (r->runs)
      add_row(t, &all, &at, r, !i ? "between" : !by_line ? r->op : r->place ? r->place + 1 : "");
  }
  if (!t->nregion || !t->region[0].runs) return;
  anfi_putf(o, "%11s %8s %9s %9s %7s  %s\n", "ms a step", "share", "runs", "GFLOP/s", "GB/s",
            by_line ? "line" : "operation");
  put_rows(&all, (double)t->region[0].runs, whole, by_line ? 20 : SIZE_MAX, o);
}

anf_status anf_trace_print_table(const anf_trace *t, anf_text *out) {
  ANFI_TEXT_ENTRY(t, out);
  put_table(t, false, out);
  anfi_putc(out, '\n');
  put_table(t, true, out);
  return anfi_leave(t->cx);
}
