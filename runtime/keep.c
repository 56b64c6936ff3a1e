// SPDX-License-Identifier: Apache-2.0
/* Memory for residuals of derivatives: chunks, each twice as large as the one before, filled one after the other and
 * all emptied when the next call from outside begins.
 *   p = anf_rt_keep(s, 100); q = anf_rt_keep(s, 8);   ->   q = p + 104; the next call from outside begins at p again
 * A round of a loop that gives no residuals releases what it has kept. Chunks stay the stream's, since new pages cost more than anything that is done with them; a call that needed several
 * is followed by one that has as much in one chunk, where a stack grows without being moved. */
#define _DEFAULT_SOURCE
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST = 256 << 10, HUGE_PAGE = 2 << 20 };

struct anfi_rt_chunk {
  struct anfi_rt_chunk *next;
  size_t bytes; // all of it
};
typedef struct anfi_rt_chunk chunk;

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static chunk *new_chunk(size_t bytes) {
  size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : RT_ALIGN;
  bytes = round_up(bytes, align);
  chunk *c = (chunk *)aligned_alloc(align, bytes);
  if (!c) return NULL;
#ifdef MADV_HUGEPAGE
  if (bytes >= HUGE_PAGE) madvise(c, bytes, MADV_HUGEPAGE);
#endif
  *c = (chunk){NULL, bytes};
  return c;
}

static void open_chunk(anfi_rt_kept *k, chunk *c) {
  k->now = c;
  k->at = (char *)c + RT_ALIGN;
  k->end = (char *)c + c->bytes;
}

static bool next_chunk(anf_stream *s, size_t bytes) {
  anfi_rt_kept *k = &s->kept;
  chunk **at = k->now ? &k->now->next : &k->first;
  for (; *at;
       at = &(*at)->next) // blocks that are too small for this are skipped, and serve the next call
    if ((*at)->bytes - RT_ALIGN >= bytes) {
      open_chunk(k, *at);
      return true;
    }
  size_t want = k->last ? 2 * k->last : FIRST;
  if (bytes > SIZE_MAX / 4) return false;
  if (want < bytes + RT_ALIGN) want = bytes + RT_ALIGN;
  if (!anfi_rt_may_take(s, s->kept.taken, want)) return false;
  if (!(*at = new_chunk(want))) return false;
  k->last = (*at)->bytes;
  k->taken += (*at)->bytes;
  open_chunk(k, *at);
  return true;
}

void *anf_rt_keep(anf_stream *s, uint64_t bytes) {
  uint64_t n = (bytes + 7) / 8 * 8;
  anfi_rt_kept *k = &s->kept;
  if (bytes >= RT_ALIGN) k->at = k->at ? (char *)round_up((uintptr_t)k->at, RT_ALIGN) : NULL;
  if (n < bytes || k->at > k->end || n > (uint64_t)(k->end - k->at))
    if (n < bytes || !next_chunk(s, (size_t)n)) anf_rt_trap(s, ANF_TRAP_MEMORY, 0, 0, NULL, NULL);
  void *p = k->at;
  if (n) k->at += n; // no bytes: there may be no chunk
  return p;
}

void *anf_rt_keep_more(anf_stream *s, void *p, uint64_t old, uint64_t bytes) {
  anfi_rt_kept *k = &s->kept;
  char *end = (char *)p + (old + 7) / 8 * 8;
  uint64_t more = (bytes + 7) / 8 * 8 - (old + 7) / 8 * 8;
  if (old && end == k->at && more <= (uint64_t)(k->end - k->at)) {
    k->at += more;
    return p;
  }
  void *to = anf_rt_keep(s, bytes);
  if (old) memcpy(to, p, (size_t)old);
  return to;
}

void *anf_rt_keep_mark(anf_stream *s) { return s->kept.at; }

/* A chunk that was begun since the mark has nothing that is older. */
void anf_rt_keep_release(anf_stream *s, void *mark) {
  anfi_rt_kept *k = &s->kept;
  uintptr_t at = (uintptr_t)mark, from = (uintptr_t)k->now + RT_ALIGN;
  if (k->now) k->at = at >= from && at <= (uintptr_t)k->end ? (char *)mark : (char *)from;
}

void anfi_rt_keep_reset(anf_stream *s) {
  size_t all = s->kept.taken;
  if (!s->kept.first) return;
  if (s->kept.first->next && s->kept.now != s->kept.first) {
    anfi_rt_keep_free(s);
    if (!next_chunk(s, all - RT_ALIGN)) return; // the call asks again
  }
  open_chunk(&s->kept, s->kept.first);
}

void anfi_rt_keep_free(anf_stream *s) {
  for (chunk *c = s->kept.first; c;) {
    chunk *next = c->next;
    free(c);
    c = next;
  }
  memset(&s->kept, 0, sizeof s->kept);
}
