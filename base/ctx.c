// SPDX-License-Identifier: Apache-2.0
/* The context: allocator, protected frames, cancellation.
 *   ANFI_ENTRY(cx, d); p = anfi_alloc(a, n); return anfi_leave(cx);   // no memory: a jump to the entry, ANF_NOMEM
 * Deferred functions run when the frame ends, in either way. Memory is counted here, so that a test can fail any
 * allocation and prove that none leaks. */
#include "base/base.h"

#include "anfora/comm.h"

#include <sched.h>

#include <stdlib.h>

const char *anf_version(void) { return ANF_VERSION; }
int anf_abi_version(void) { return ANF_ABI_VERSION; }

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "C"
#endif
#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "aarch64"
#else
#define PROCESSOR "other"
#endif
#if defined(__OPTIMIZE__)
#define OPTIMISED "optimised"
#else
#define OPTIMISED "not optimised"
#endif
#if defined(NDEBUG)
#define CHECKED ""
#else
#define CHECKED ", assertions"
#endif

const char *anf_build_info(void) {
  return "anfora " ANF_VERSION ", ABI " TEXT(ANF_ABI_VERSION) ", " COMPILER ", " PROCESSOR
                                                              ", " OPTIMISED CHECKED;
}

const char *anf_status_name(anf_status s) {
  static const char *const names[] = {"ANF_OK",        "ANF_INVALID", "ANF_UNSUPPORTED",
                                      "ANF_LIMIT",     "ANF_NOMEM",   "ANF_IO",
                                      "ANF_CANCELLED", "ANF_INTERNAL"};
  return (size_t)s < ANFI_LEN(names) ? names[s] : "ANF_?";
}

/* The C library's functions, whichever the host chose: a library that brought an allocator would bring its
 * malloc and operator new, too. Large blocks ask for huge pages: graphs are walked in any order, and half of
 * such a walk is looking up small ones. */
static void *default_alloc(void *user, void *ptr, size_t old, size_t size) {
  (void)user;
  if (!size) {
    free(ptr);
    return NULL;
  }
  if (size < ANFI_HUGE_PAGE || size < old) return realloc(ptr, size);
  if (size > SIZE_MAX / 2) return NULL;
  size_t whole = (size + ANFI_HUGE_PAGE - 1) & ~(size_t)(ANFI_HUGE_PAGE - 1);
  void *q = anfi_os_huge(aligned_alloc(ANFI_HUGE_PAGE, whole), size);
  if (q && ptr) memcpy(q, ptr, old), free(ptr);
  return q;
}

/* ---- small blocks that were freed within the outermost entry: the next of their size take them. The
 * interpreter makes and frees values of a few sizes; this is half of what malloc and free take. ---- */

enum { SMALL_STEP = 16, SMALL_MAX = SMALL_STEP * ANFI_SMALL_SIZES, SMALL_KEPT = 1024 };

static bool reuses_small(const anf_ctx *cx) {
  return cx->alloc.fn == default_alloc && !ANFI_SANITIZED;
}

static void free_small(anf_ctx *cx) {
  for (size_t i = 0; cx->nsmall && i < ANFI_SMALL_SIZES; i++)
    for (anfi_small *b; (b = cx->small[i]); cx->nsmall--) {
      cx->small[i] = b->next;
      free(b);
    }
}

/* As an allocator's function; a small size is rounded up, so that a block serves each size that rounds to it. */
static void *small_alloc(anf_ctx *cx, void *p, size_t old, size_t size) {
  size_t from = (old + SMALL_STEP - 1) / SMALL_STEP, to = (size + SMALL_STEP - 1) / SMALL_STEP;
  if (!p && cx->small[to - 1]) {
    anfi_small *b = cx->small[to - 1];
    cx->small[to - 1] = b->next;
    cx->nsmall--;
    return b;
  }
  if (!size && from && cx->frame && cx->nsmall < SMALL_KEPT) {
    anfi_small *b = (anfi_small *)p;
    b->next = cx->small[from - 1];
    cx->small[from - 1] = b;
    cx->nsmall++;
    return NULL;
  }
  return default_alloc(NULL, p, old, to * SMALL_STEP);
}

void *anfi_raw(anf_ctx *cx, void *p, size_t old, size_t size) {
  if (!p) old = 0;
  if (size > old && size - old > cx->max_bytes - cx->bytes) anfi_free_spare(cx);
  if (size > old && size - old > cx->max_bytes - cx->bytes) {
    cx->over_limit = true;
    return NULL;
  }
  void *q = NULL;
  if (!p && !size) return NULL;
  if ((size ? size : old) <= SMALL_MAX && reuses_small(cx)) q = small_alloc(cx, p, old, size);
  else q = cx->alloc.fn(cx->alloc.user, p, old, size);
  if (!q && size) return NULL;
  cx->bytes = cx->bytes - old + size;
  return q;
}

void anfi_throw_nomem(anf_ctx *cx) {
  if (!cx->frame) abort();       // our bug: an allocation outside a protected entry
  cx->frame->status = ANF_NOMEM; // over an error before it: the list of errors may be cut short
  longjmp(cx->frame->jump, 1);
}

void anfi_throw(anf_ctx *cx) {
  if (!cx->frame) abort();
  longjmp(cx->frame->jump, 1);
}

size_t anfi_size_mul(anf_ctx *cx, size_t a, size_t b) {
  if (b && a > SIZE_MAX / 2 / b) anfi_throw_nomem(cx);
  return a * b;
}

static anf_ctx *new_ctx(const anf_ctx_opts *o) {
  if (o->max_bytes && o->max_bytes < sizeof(anf_ctx)) return NULL;
  anf_allocator al = o->allocator.fn ? o->allocator : (anf_allocator){default_alloc, NULL};
  anf_ctx *cx = (anf_ctx *)al.fn(al.user, NULL, 0, sizeof *cx);
  if (!cx) return NULL;
  memset(cx, 0, sizeof *cx);
  cx->alloc = al;
  cx->bytes = sizeof *cx;
  cx->max_bytes = o->max_bytes ? o->max_bytes : SIZE_MAX / 2;
  cx->max_errors = o->max_errors ? o->max_errors : 20;
  cx->max_nesting = o->max_nesting ? o->max_nesting : 1000;
  cx->progress = o->progress;
  cx->progress_user = o->progress_user;
  anfi_arena_init(&cx->arena, cx);
  anfi_arena_init(&cx->tables, cx);
  cx->tables.skipped = true;
  return cx;
}

static anf_status fill_ctx(anf_ctx *cx, void (*fill)(anf_ctx *)) {
  ANFI_ENTRY(cx, NULL);
  anfi_strtab_init(&cx->strings, &cx->tables);
  cx->strings.shared = true;
  fill(cx);
  return anfi_leave(cx);
}

anf_ctx *anfi_ctx_new(const anf_ctx_opts *o, void (*fill)(anf_ctx *)) {
  anf_ctx_opts given;
  if (!ANFI_OPTS(NULL, NULL, anf_ctx_opts, progress_user, o, &given)) return NULL;
  anf_ctx *cx = new_ctx(&given);
  if (cx && fill_ctx(cx, fill) != ANF_OK) {
    anf_ctx_free(cx);
    return NULL;
  }
  return cx;
}

typedef struct anfi_kept {
  struct anfi_kept *next;
  const void *key;
  void *value;
  void (*free)(void *);
} kept;

void anfi_ctx_keep(anf_ctx *cx, const void *key, void *value, void (*free)(void *)) {
  kept *k = ANFI_NEW(&cx->arena, kept);
  *k = (kept){cx->kept, key, value, free};
  cx->kept = k;
}

void *anfi_ctx_kept(const anf_ctx *cx, const void *key) {
  const kept *k = cx->kept;
  while (k && k->key != key) k = k->next;
  return k ? k->value : NULL;
}

void anf_ctx_free(anf_ctx *cx) {
  if (!cx) return;
  for (const kept *k = cx->kept; k; k = k->next) k->free(k->value);
  anf_diag_free(cx->own);
  anfi_source_remove_text(cx, NULL); // all
  anfi_arena_free(&cx->arena);
  anfi_arena_free(&cx->tables);
  for (anfi_shared *b = cx->shared; b; b = b->next) b->live = false;
  anfi_free_unmarked(cx);
  anf_allocator al = cx->alloc;
  al.fn(al.user, cx, sizeof *cx, 0);
}

size_t anf_ctx_bytes(const anf_ctx *cx) { return cx ? cx->bytes : 0; }
const anf_diag *anf_ctx_diag(const anf_ctx *cx) { return cx ? cx->own : NULL; }

/* The order of stores and loads: either the code that begins to run sees `cancel`, or this sees the code. */
void anf_ctx_cancel(anf_ctx *cx) {
  if (!cx) return;
  atomic_store(&cx->cancel, true);
  atomic_fetch_add(&cx->cancelling, 1);
  const anfi_running *r = atomic_load(&cx->running);
  if (r) r->stop(r->arg);
  atomic_fetch_sub(&cx->cancelling, 1);
}

const anfi_running *anfi_run_begin(anf_ctx *cx, const anfi_running *r) {
  const anfi_running *outer = atomic_exchange(&cx->running, r);
  if (atomic_load(&cx->cancel)) r->stop(r->arg);
  return outer;
}

void anfi_run_end(anf_ctx *cx, const anfi_running *outer) {
  atomic_store(&cx->running, outer);
  while (atomic_load(&cx->cancelling)) sched_yield(); // one of them may look at what ended
}

typedef struct anfi_defer {
  struct anfi_defer *next;
  anfi_when when;
  void (*fn)(void *);
  void *arg;
} defer;

void anfi_enter(anf_ctx *cx, anf_diag *d, anfi_frame *f) {
  f->outer = cx->frame;
  f->defers = NULL;
  f->diag = d ? d : cx->frame ? cx->frame->diag : NULL;
  f->status = ANF_OK;
  f->nerror = 0;
  f->where = NULL;
  if (!f->outer) cx->own_is_old = true, cx->over_limit = cx->reported_memory = false;
  cx->frame = f;
}

bool anfi_fail_memory(anf_ctx *cx, anfi_loc loc) {
  if (cx->reported_memory) return false;
  cx->reported_memory = true;
  if (cx->over_limit) return anfi_fail(cx, loc, ANF_E0871, cx->max_bytes);
  return anfi_fail(cx, loc, ANF_E0872);
}

/* Records that memory ended, once the frame has given its own back: in the list of errors that the call was given, else in
 * that of the context, if the memory limit was the cause. */
static void record_memory(anf_ctx *cx, anfi_frame *f, anfi_loc at) {
  bool list = f->diag || cx->over_limit;
  if (list && (f->where || !f->outer)) anfi_fail_memory(cx, at);
  if (cx->over_limit && !f->outer) f->status = ANF_LIMIT;
}

anf_status anfi_leave(anf_ctx *cx) {
  anfi_frame *f = cx->frame;
  bool nomem = f->status == ANF_NOMEM;
  anfi_loc at = nomem && f->where ? f->where(f->of) : anfi_nowhere();
  for (defer *d = f->defers; d;) {
    defer *next = d->next;
    if (d->when == ANFI_ALWAYS || f->status != ANF_OK) d->fn(d->arg);
    anfi_raw(cx, d, sizeof *d, 0);
    d = next;
  }
  f->defers = NULL;
  if (nomem) record_memory(cx, f, at);
  cx->frame = f->outer;
  if (f->outer) return f->status;
  anfi_free_spare(cx);
  free_small(cx);
  atomic_store(&cx->cancel, false);
  return f->status;
}

void anfi_defer(anf_ctx *cx, anfi_when when, void (*fn)(void *), void *arg) {
  defer *d = (defer *)anfi_raw(cx, NULL, 0, sizeof *d);
  if (!d) {
    fn(arg);
    anfi_throw_nomem(cx);
  }
  *d = (defer){cx->frame->defers, when, fn, arg};
  cx->frame->defers = d;
}

void anfi_undefer(anf_ctx *cx, const void *arg) {
  defer **p = &cx->frame->defers;
  while (*p && (*p)->arg != arg) p = &(*p)->next;
  defer *d = *p;
  if (!d) return;
  *p = d->next;
  anfi_raw(cx, d, sizeof *d, 0);
}

static void free_scratch(void *p) {
  anfi_arena *a = (anfi_arena *)p;
  anf_ctx *cx = a->cx;
  anfi_arena_free(a);
  anfi_raw(cx, a, sizeof *a, 0);
}

anfi_arena *anfi_scratch(anf_ctx *cx) {
  anfi_arena *a = (anfi_arena *)anfi_raw(cx, NULL, 0, sizeof *a);
  if (!a) anfi_throw_nomem(cx);
  anfi_arena_init(a, cx);
  anfi_defer(cx, ANFI_ALWAYS, free_scratch, a);
  return a;
}

bool anfi_failed(const anf_ctx *cx) { return cx->frame->status != ANF_OK; }

bool anfi_go_on(anf_ctx *cx, const char *what, double done) {
  bool wanted = !cx->progress || cx->progress(cx->progress_user, what, done);
  if (wanted && !atomic_load(&cx->cancel)) return true;
  return anfi_fail(cx, anfi_nowhere(), ANF_E0004, what);
}

void anf_ctx_set_comm(anf_ctx *cx, anf_comm *c) {
  if (cx) cx->comm = c;
}
