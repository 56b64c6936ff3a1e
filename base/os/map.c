// SPDX-License-Identifier: Apache-2.0
/* Mapping of files: whole pages, from the one in which the wanted bytes begin.
 *   bytes 5000 .. 5100 of a file   ->   a mapping from byte 4096 on, data = its address + 904
 * And blocks of equal bytes, such as a weight that is packed for code of several sizes, which are one (anfi_os_block_one). */
#define _DEFAULT_SOURCE // madvise
#include "base/os/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPIED = 16 << 20 }; // at a time

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void anfi_os_view_close(anfi_os_view *v) {
  if (v->data) munmap((void *)(uintptr_t)v->data, v->len);
  if (v->f >= 0) close(v->f);
  *v = (anfi_os_view){.f = -1};
}

static void close_view(void *p) { anfi_os_view_close((anfi_os_view *)p); }

bool anfi_os_view_file(anf_ctx *cx, const char *path, size_t least, anfi_os_view *out) {
  anfi_os_view *v = ANFI_NEW(anfi_scratch(cx), anfi_os_view);
  *v = (anfi_os_view){.f = -1};
  anfi_defer(cx, ANFI_ALWAYS, close_view, v);
  struct stat st;
  v->f = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (v->f < 0 || fstat(v->f, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  if (st.st_size <= 0 || (uint64_t)st.st_size < least || (uint64_t)st.st_size > SIZE_MAX / 2)
    return false;
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, v->f, 0);
  if (p == MAP_FAILED) return false;
  v->data = (const char *)p;
  v->len = (size_t)st.st_size;
  *out = *v;
  return true;
}

/* ---- blocks ---- */

struct anfi_os_block {
  atomic_uint refs;
  bool of_file;
  unsigned char *pages, *data; // data: in the first page
  size_t mapped;
  /* of one that is in the table of blocks with one content */
  bool listed;
  uint64_t hash;
  anfi_os_block *next;
};

static anfi_os_block *block(int f, uint64_t offset, size_t n) {
  size_t within = f < 0 ? 0 : (size_t)(offset % page_size());
  int flags = MAP_PRIVATE | (f < 0 ? MAP_ANONYMOUS : 0);
  int access = f < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  anfi_os_block *b = (anfi_os_block *)calloc(1, sizeof *b);
  if (!b || n > SIZE_MAX / 2) return free(b), NULL;
  b->mapped = within + n + !n;
  void *p = mmap(NULL, b->mapped, access, flags, f, (off_t)(offset - within));
  if (p == MAP_FAILED) return free(b), NULL;
  atomic_init(&b->refs, 1);
  b->of_file = f >= 0;
  b->pages = (unsigned char *)p;
  b->data = b->pages + within;
  return b;
}

anfi_os_block *anfi_os_block_new(size_t n) { return block(-1, 0, n); }

static bool read_all(int f, uint64_t offset, unsigned char *to, size_t n) {
  for (size_t at = 0; at < n;) {
    ssize_t got = pread(f, to + at, n - at, (off_t)(offset + at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += (size_t)got;
  }
  return true;
}

bool anfi_os_view_read(const anfi_os_view *v, uint64_t offset, void *to, size_t n) {
  return offset <= INT64_MAX && read_all(v->f, offset, (unsigned char *)to, n);
}

anfi_os_block *anfi_os_block_view(const anfi_os_view *v, uint64_t offset, size_t n, size_t align) {
  if (offset > v->len || n > v->len - offset || offset > INT64_MAX) return NULL;
  if (offset % align == 0) return block(v->f, offset, n);
  anfi_os_block *b = anfi_os_block_new(n);
  if (!b || read_all(v->f, offset, b->data, n)) return b;
  anfi_os_block_release(b);
  return NULL;
}

anfi_os_block *anfi_os_block_retain(anfi_os_block *b) {
  if (b) atomic_fetch_add(&b->refs, 1);
  return b;
}

static void give_up(anfi_os_block *b);

void anfi_os_block_release(anfi_os_block *b) {
  if (b && b->listed) {
    give_up(b);
    return;
  }
  if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
  munmap(b->pages, b->mapped);
  free(b);
}

unsigned char *anfi_os_block_data(const anfi_os_block *b) { return b->data; }

void anfi_os_block_leave(const anfi_os_block *b) {
  if (b->of_file) (void)madvise(b->pages, b->mapped, MADV_DONTNEED);
}

/* ---- blocks with one content ---- */

enum { BUCKETS = 1024, SAMPLE = 1 << 12, APART = 1 << 18 };

/* Of all that live. */
static struct {
  pthread_mutex_t lock;
  anfi_os_block *bucket[BUCKETS];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Of some of the bytes: those of equal hash are compared. */
static uint64_t hash_of(const anfi_os_block *b) {
  uint64_t h = b->mapped;
  for (size_t at = 0; at < b->mapped; at += APART)
    h = anfi_hash(b->pages + at, b->mapped - at < SAMPLE ? b->mapped - at : SAMPLE, h);
  return h;
}

static void give_up(anfi_os_block *b) {
  pthread_mutex_lock(&table.lock);
  bool last = atomic_fetch_sub(&b->refs, 1) == 1;
  anfi_os_block **at = &table.bucket[b->hash % BUCKETS];
  while (last && *at != b) at = &(*at)->next;
  if (last) *at = b->next;
  pthread_mutex_unlock(&table.lock);
  if (!last) return;
  munmap(b->pages, b->mapped);
  free(b);
}

/* The one in the table with the same bytes; NULL: there was none, and b is in it now. */
static anfi_os_block *same_listed(anfi_os_block *b) {
  anfi_os_block **first = &table.bucket[b->hash % BUCKETS];
  for (anfi_os_block *o = *first; o; o = o->next)
    if (o->hash == b->hash && o->mapped == b->mapped && memcmp(o->pages, b->pages, b->mapped) == 0)
      return o;
  b->next = *first;
  b->listed = true;
  return *first = b, NULL;
}

anfi_os_block *anfi_os_block_one(anfi_os_block *b) {
  if (b->of_file || b->listed) return anfi_os_block_retain(b);
  b->hash = hash_of(b);
  pthread_mutex_lock(&table.lock);
  anfi_os_block *one = anfi_os_block_retain(same_listed(b));
  pthread_mutex_unlock(&table.lock);
  if (!one) return anfi_os_block_retain(b);
  (void)madvise(b->pages, b->mapped, MADV_DONTNEED);
  return one;
}

void anfi_os_view_copy(void *to, const anfi_os_view *v, uint64_t offset, size_t n) {
  size_t page = page_size();
  for (size_t at = 0; at < n; at += COPIED) {
    size_t now = n - at < COPIED ? n - at : COPIED, from = (size_t)offset + at;
    memcpy((char *)to + at, v->data + from, now);
    size_t whole = (from + page - 1) / page * page;
    if (whole < from + now)
      (void)madvise((void *)(uintptr_t)(v->data + whole), from + now - whole, MADV_DONTNEED);
  }
}
