// SPDX-License-Identifier: Apache-2.0
/* Memory of large arrays. malloc maps a block above its threshold (32 MB at most) anew and unmaps it when it is freed, so
 * that a result of that size costs a page fault every 4 KB at every call: more than computing it. Here large blocks ask for
 * huge pages, and the last few that were freed serve the next of their size. */
#include "core.h"

#include "base/base.h"

enum { LARGE = 4 << 20, KEPT_MOST = 256 << 20 }; // bytes; blocks below LARGE are malloc's

static size_t whole_pages(size_t bytes) {
  return (bytes + ANFI_HUGE_PAGE - 1) & ~(size_t)(ANFI_HUGE_PAGE - 1);
}

/* Takes the block i out of those that are kept. */
static void *take(core_kept *k, size_t i) {
  void *p = k->block[i].at;
  k->bytes -= k->block[i].bytes;
  k->n--;
  memmove(k->block + i, k->block + i + 1, (k->n - i) * sizeof *k->block);
  return p;
}

void *memory_new(core *c, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  if (bytes < LARGE) return aligned_alloc(CORE_ALIGN, bytes / CORE_ALIGN * CORE_ALIGN + CORE_ALIGN);
  size_t whole = whole_pages(bytes);
  for (size_t i = c->kept.n; i-- > 0;)
    if (c->kept.block[i].bytes == whole) return take(&c->kept, i);
  void *p = aligned_alloc(ANFI_HUGE_PAGE, whole);
  if (!p) { // what is kept may be what is lacking
    memory_drop(c);
    p = aligned_alloc(ANFI_HUGE_PAGE, whole);
  }
  return anfi_os_huge(p, bytes); // and small ones for the rest
}

void memory_free(core *c, void *p, size_t bytes) {
  core_kept *k = &c->kept;
  size_t whole = whole_pages(bytes);
  if (!p || bytes < LARGE || whole > KEPT_MOST) {
    free(p);
    return;
  }
  while (k->n == CORE_KEPT || k->bytes + whole > KEPT_MOST) free(take(k, 0)); // the oldest
  k->block[k->n++] = (core_block){p, whole};
  k->bytes += whole;
}

void memory_drop(core *c) {
  while (c->kept.n) free(take(&c->kept, c->kept.n - 1));
}
