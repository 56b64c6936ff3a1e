// SPDX-License-Identifier: Apache-2.0
/* Blocks shared by all that a context has (types, names): which are still referred to.
 *   a module is freed   ->   anfi_mark finds no address in the type f32[7]   ->   anfi_free_unmarked frees it
 * A conservative mark and sweep (Boehm, Weiser 1988) over the context's own memory: any word that is an address inside
 * a block keeps it, so no structure has to say where its types and names are. It runs between entries of the
 * interface, when stacks have no references. */
#include "base/base.h"

#include <stdlib.h>

struct anfi_marking {
  anfi_shared **block; // in the order of addresses
  size_t n;
  uintptr_t low, high; // all of them lie there
  anfi_shared **todo;  // live ones whose contents are not scanned yet
  size_t ntodo;
};

void *anfi_share(anf_ctx *cx, size_t size) {
  size += sizeof(anfi_shared);
  anfi_shared *b = size < INT32_MAX ? (anfi_shared *)anfi_raw(cx, NULL, 0, size) : NULL;
  if (!b) anfi_throw_nomem(cx);
  memset(b, 0, size);
  *b = (anfi_shared){.next = cx->shared, .size = (uint32_t)size & INT32_MAX};
  cx->shared = b;
  cx->nshared++;
  return b + 1;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (anfi_shared *const *)a, y = (uintptr_t) * (anfi_shared *const *)b;
  return (x > y) - (x < y);
}

static void set_live(anfi_marking *m, anfi_shared *b) {
  if (b->live) return;
  b->live = true;
  m->todo[m->ntodo++] = b;
}

void anfi_revive(anfi_marking *m, const void *p) { set_live(m, anfi_shared_of(p)); }

/* The block that has the address, or NULL. */
static anfi_shared *block_at(const anfi_marking *m, uintptr_t at) {
  size_t lo = 0, hi = m->n; // the last one that begins at or before it
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if ((uintptr_t)m->block[mid] <= at) lo = mid + 1;
    else hi = mid;
  }
  if (!lo) return NULL;
  anfi_shared *b = m->block[lo - 1];
  return at - (uintptr_t)b < b->size ? b : NULL;
}

static void look_at(void *user, const void *from, size_t bytes) {
  anfi_marking *m = (anfi_marking *)user;
  const char *p = (const char *)from;
  for (size_t i = 0; i + sizeof(uintptr_t) <= bytes; i += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, p + i, sizeof word);
    if (word < m->low || word >= m->high) continue;
    anfi_shared *b = block_at(m, word);
    if (b) set_live(m, b);
  }
}

void anfi_mark_on(anfi_marking *m) {
  while (m->ntodo) {
    const anfi_shared *b = m->todo[--m->ntodo];
    look_at(m, b + 1, b->size - sizeof *b);
  }
}

anfi_marking *anfi_mark(anf_ctx *cx) {
  anfi_arena *a = anfi_scratch(cx);
  a->skipped = true;
  anfi_marking *m = ANFI_NEW(a, anfi_marking);
  m->block = ANFI_NEW_N(a, anfi_shared *, cx->nshared + 1);
  m->todo = ANFI_NEW_N(a, anfi_shared *, cx->nshared + 1);
  for (anfi_shared *b = cx->shared; b; b = b->next) m->block[m->n++] = b;
  qsort(m->block, m->n, sizeof(anfi_shared *), by_address);
  m->low = m->n ? (uintptr_t)m->block[0] : 0;
  m->high = m->n ? (uintptr_t)m->block[m->n - 1] + m->block[m->n - 1]->size : 0;
  for (size_t i = 0; i < m->n; i++) {
    m->block[i]->live = false;
    if (m->block[i]->pins) set_live(m, m->block[i]);
  }
  anfi_visit_memory(cx, look_at, m);
  anfi_mark_on(m);
  return m;
}

void anfi_free_unmarked(anf_ctx *cx) {
  for (anfi_shared **p = &cx->shared; *p;) {
    anfi_shared *b = *p;
    if (b->live) {
      p = &b->next;
      continue;
    }
    *p = b->next;
    cx->nshared--;
    anfi_raw(cx, b, b->size, 0);
  }
}
