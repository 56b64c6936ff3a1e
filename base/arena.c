// SPDX-License-Identifier: Apache-2.0
/* Arenas: bump allocation in doubling chunks. No per-object free.
 *   p = anfi_alloc(a, 24); q = anfi_alloc(a, 8);   ->   q = p + 32 (a multiple of 16); anfi_arena_free(a) frees both
 * INVARIANT: a block of ANFI_CHUNK_MIN bytes or more (rounded) is an allocation of its own, a smaller one never; so
 * growing a large array is one resize, and the size of a block alone says where it lives. */
#include "base/base.h"

enum { ALIGN = 16, CHUNK_MAX = 2 * ANFI_HUGE_PAGE, SPARES = 64, SPARE_MIN = 16 * ANFI_CHUNK_MIN };

struct anfi_chunk {
  anfi_chunk *next, *prev; // of its arena; prev is used by large blocks alone
  size_t size;             // of the whole allocation
  anfi_chunk *after,
      **before;            // of all that anfi_visit_memory goes over, unless its arena is `skipped`
  const anfi_arena *arena; // NULL: a skipped one, or no chunk of small allocations
};
_Static_assert(sizeof(anfi_chunk) % ALIGN == 0, "what follows is aligned as the chunk is");

static size_t round_up(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- what anfi_visit_memory looks at ---- */

static void track(anf_ctx *cx, anfi_chunk *c, const anfi_arena *a) {
  c->before = NULL;
  if (a && a->skipped) return;
  c->arena = a;
  c->after = cx->scanned;
  c->before = &cx->scanned;
  if (c->after) c->after->before = &c->after;
  cx->scanned = c;
}

static void untrack(anfi_chunk *c) {
  if (!c->before) return;
  *c->before = c->after;
  if (c->after) c->after->before = c->before;
}

void anfi_visit_memory(const anf_ctx *cx, void (*see)(void *user, const void *from, size_t bytes),
                       void *user) {
  for (const anfi_chunk *c = cx->scanned; c; c = c->after) {
    bool first = c->arena && c->arena->chunks == c; // nothing is in the rest of it
    const char *end = first ? c->arena->at : (const char *)c + c->size;
    see(user, c + 1, (size_t)(end - (const char *)(c + 1)));
  }
}

void *anfi_object(anf_ctx *cx, size_t size) {
  anfi_chunk *c = (anfi_chunk *)anfi_raw(cx, NULL, 0, sizeof *c + size);
  if (!c) return NULL;
  memset(c, 0, sizeof *c + size);
  c->size = sizeof *c + size;
  track(cx, c, NULL);
  return c + 1;
}

void anfi_object_free(anf_ctx *cx, void *p) {
  anfi_chunk *c = (anfi_chunk *)p - 1;
  untrack(c);
  anfi_raw(cx, c, c->size, 0);
}

/* ---- arenas ---- */

void anfi_arena_init(anfi_arena *a, anf_ctx *cx) {
  *a = (anfi_arena){.cx = cx, .chunk_size = ANFI_CHUNK_MIN};
}

/* ---- spare chunks: chunks freed within the outermost entry are reused by the next arenas, as the
 * passes over a large program follow each other. Fresh pages cost more than most passes do. ---- */

static bool kept(const anf_ctx *cx, size_t size) {
  return cx->frame && size >= SPARE_MIN && cx->nspare < SPARES && !ANFI_SANITIZED;
}

static void release(anf_ctx *cx, anfi_chunk *c) {
  untrack(c);
  if (!kept(cx, c->size)) {
    anfi_raw(cx, c, c->size, 0);
    return;
  }
  c->next = cx->spare;
  cx->spare = c;
  cx->nspare++;
}

/* A spare chunk that is large enough, by no more than `more`; or NULL. */
static anfi_chunk *take(anf_ctx *cx, size_t size, size_t more) {
  if (size < SPARE_MIN) return NULL;
  for (anfi_chunk **p = &cx->spare; *p; p = &(*p)->next) {
    anfi_chunk *c = *p;
    if (c->size < size || c->size - size > more) continue;
    *p = c->next;
    cx->nspare--;
    return c;
  }
  return NULL;
}

void anfi_free_spare(anf_ctx *cx) {
  for (anfi_chunk *c = cx->spare, *next; c; c = next) {
    next = c->next;
    anfi_raw(cx, c, c->size, 0);
  }
  cx->spare = NULL;
  cx->nspare = 0;
}

static void free_list(anf_ctx *cx, anfi_chunk *c) {
  while (c) {
    anfi_chunk *next = c->next;
    release(cx, c);
    c = next;
  }
}

void anfi_arena_free(anfi_arena *a) {
  free_list(a->cx, a->chunks);
  free_list(a->cx, a->large);
  *a = (anfi_arena){.cx = a->cx, .chunk_size = ANFI_CHUNK_MIN, .skipped = a->skipped};
}
void anfi_free_arena(void *arena) { anfi_arena_free((anfi_arena *)arena); }

/* A spare one that fits, for `any` also one that is larger, or a new one; NULL if there is no memory. */
static anfi_chunk *find_chunk(anf_ctx *cx, size_t size, bool any) {
  anfi_chunk *c = take(cx, size, size / 4);
  if (!c && any) c = take(cx, size, SIZE_MAX);
  if (c) size = c->size;
  else c = (anfi_chunk *)anfi_raw(cx, NULL, 0, size);
  if (c) *c = (anfi_chunk){.size = size};
  return c;
}

static anfi_chunk *new_chunk(anfi_arena *a, size_t payload, bool any) {
  size_t size = payload + sizeof(anfi_chunk);
  anfi_chunk *c = size < payload ? NULL : find_chunk(a->cx, size, any);
  if (!c) anfi_throw_nomem(a->cx);
  track(a->cx, c, a);
  return c;
}

static void *alloc_large(anfi_arena *a, size_t size) {
  anfi_chunk *c = new_chunk(a, size, false);
  c->next = a->large;
  if (a->large) a->large->prev = c;
  a->large = c;
  return c + 1;
}

static bool is_large(size_t rounded) { return rounded >= ANFI_CHUNK_MIN; }

void *anfi_alloc(anfi_arena *a, size_t size) {
  size_t n = round_up(size ? size : 1);
  if (n < size) anfi_throw_nomem(a->cx);
  if (is_large(n)) return alloc_large(a, n);
  if ((size_t)(a->end - a->at) >= n) {
    void *p = a->at;
    a->at += n;
    return p;
  }
  anfi_chunk *c = new_chunk(a, a->chunk_size, a->chunk_size >= CHUNK_MAX); // it fills any
  c->next = a->chunks;
  a->chunks = c;
  a->at = (char *)(c + 1);
  a->end = (char *)c + c->size;
  if (a->chunk_size < CHUNK_MAX) a->chunk_size *= 2;
  void *p = a->at;
  a->at += n;
  return p;
}

void *anfi_zalloc(anfi_arena *a, size_t size) { return memset(anfi_alloc(a, size), 0, size); }

/* c in a larger chunk; the old one becomes spare, for the next array that grows. */
static anfi_chunk *larger(anfi_arena *a, anfi_chunk *c, size_t size) {
  anf_ctx *cx = a->cx;
  bool both = kept(cx, c->size) && size <= cx->max_bytes - cx->bytes;
  if (!both) untrack(c); // else both have room
  anfi_chunk *moved =
      both ? find_chunk(cx, size, false) : (anfi_chunk *)anfi_raw(cx, c, c->size, size);
  if (!moved) {
    if (!both) track(cx, c, a);
    return NULL;
  }
  if (both) {
    memcpy(moved + 1, c + 1, c->size - sizeof *c);
    moved->next = c->next;
    moved->prev = c->prev;
    release(cx, c);
  } else {
    moved->size = size;
  }
  track(cx, moved, a);
  return moved;
}

static void *grow_large(anfi_arena *a, void *p, size_t size) {
  anfi_chunk *c = (anfi_chunk *)p - 1, *prev = c->prev, *next = c->next;
  size_t whole = size + sizeof(anfi_chunk);
  if (whole >= size && whole <= c->size) return p; // it was a spare one
  anfi_chunk *moved = whole < size ? NULL : larger(a, c, whole);
  if (!moved) anfi_throw_nomem(a->cx);
  if (prev) prev->next = moved;
  else a->large = moved;
  if (next) next->prev = moved;
  return moved + 1;
}

void *anfi_grow(anfi_arena *a, void *p, size_t old, size_t size) {
  size_t was = round_up(old ? old : 1), n = round_up(size ? size : 1);
  if (n < size) anfi_throw_nomem(a->cx);
  if (!p) return anfi_alloc(a, size);
  if (n <= was) return p;
  if (is_large(was)) return grow_large(a, p, n);
  if ((char *)p + was == a->at && !is_large(n) &&
      (size_t)(a->end - a->at) >= n - was) { // the last one: extend
    a->at += n - was;
    return p;
  }
  return memcpy(anfi_alloc(a, n), p, old);
}

void anfi_give_back(anfi_arena *a, void *p, size_t size) {
  if (!p || !is_large(round_up(size ? size : 1))) return;
  anfi_chunk *c = (anfi_chunk *)p - 1;
  if (c->prev) c->prev->next = c->next;
  else a->large = c->next;
  if (c->next) c->next->prev = c->prev;
  release(a->cx, c);
}

void *anfi_vec_grow(anfi_arena *a, void *at, size_t *cap, size_t elem) {
  size_t want = *cap ? *cap * 2 : ANFI_VEC_MIN;
  void *p = anfi_grow(a, at, *cap * elem, anfi_size_mul(a->cx, want, elem));
  *cap = want;
  return p;
}

char *anfi_strndup(anfi_arena *a, const char *s, size_t len) {
  char *p = (char *)anfi_alloc(a, len + 1);
  memcpy(p, s, len);
  p[len] = 0;
  return p;
}

char *anfi_sprintf(anfi_arena *a, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  char *p = (char *)anfi_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
  p[0] = 0;
  if (n > 0) vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}
