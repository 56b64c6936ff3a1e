// SPDX-License-Identifier: Apache-2.0
/* Caches of packed code.
 *
 *   in memory: the last few modules of an engine      on disk: one file for each key
 *
 * A file is written whole and renamed, and holds a checksum of its bytes, so any number of processes may share the
 * folder; a damaged file is deleted and made anew. Ranks that need the same code at the same time compile it once: who comes
 * first holds a lock, and the others find the file. A folder that is too large loses its least recently used files.
 * A cache that cannot be used is a warning: compiling goes on without it. */
#include "backend/jit/jit.h"

#include <errno.h>
#include <stdlib.h>

/* ---- memory ---- */

static bool same(anfi_jit_id a, anfi_jit_id b) {
  return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* A copy, for the entry may go as soon as the lock is free. */
static char *copy_kept(anf_jit_engine *e, anfi_jit_id id, size_t *n) {
  char *copy = NULL;
  pthread_mutex_lock(&e->lock);
  for (size_t i = 0; i < ANFI_JIT_KEPT && !copy; i++) {
    const anfi_jit_kept *k = &e->kept[i];
    if (!k->p || !same(k->id, id)) continue;
    copy = (char *)anfi_jit_alloc(k->n);
    *n = k->n;
    if (copy) memcpy(copy, k->p, k->n);
  }
  pthread_mutex_unlock(&e->lock);
  return copy;
}

static void keep(anf_jit_engine *e, anfi_jit_id id, const char *p, size_t n) {
  if (n > ANFI_JIT_KEPT_BYTES) return;
  char *copy = (char *)anfi_jit_alloc(n), *old = NULL;
  if (!copy) return; // it is a cache
  memcpy(copy, p, n);
  pthread_mutex_lock(&e->lock);
  anfi_jit_kept *k = NULL;
  for (size_t i = 0; i < ANFI_JIT_KEPT && !k; i++) // in the place of what proved to be no code
    if (e->kept[i].p && same(e->kept[i].id, id)) k = &e->kept[i];
  if (!k) k = &e->kept[e->next_kept++ % ANFI_JIT_KEPT];
  old = k->p;
  *k = (anfi_jit_kept){id, copy, n};
  pthread_mutex_unlock(&e->lock);
  anfi_jit_free(old);
}

/* ---- disk ---- */

typedef struct head {
  char magic[8];
  anfi_jit_id id, sum;
  uint64_t bytes; // that follow
} head;
static const char magic[8] = "ANFCODE";
static const char suffix[] = ".anfcode";

static const char *file_name(anfi_arena *a, anfi_jit_id id) {
  return anfi_sprintf(a, "%016llx%016llx%s", (unsigned long long)id.word[1],
                      (unsigned long long)id.word[0], suffix);
}

static bool is_sound(const char *p, size_t n, anfi_jit_id id) {
  head h;
  if (n < sizeof h) return false;
  memcpy(&h, p, sizeof h);
  return memcmp(h.magic, magic, sizeof magic) == 0 && same(h.id, id) && h.bytes == n - sizeof h &&
         same(h.sum, anfi_jit_sum(p + sizeof h, n - sizeof h));
}

static bool read_file(anf_ctx *cx, const char *dir, anfi_jit_id id, const char **p, size_t *n) {
  anfi_arena *a = anfi_scratch(cx);
  const char *path = anfi_sprintf(a, "%s/%s", dir, file_name(a, id));
  char *bytes;
  size_t len;
  bool foreign;
  if (anfi_os_is_foreign(dir)) return false; // said when something is to be kept there
  if (!anfi_os_get(cx, path, &bytes, &len, &foreign)) {
    if (!foreign) return false;
    anfi_os_remove(path);
    anfi_warn(cx, anfi_nowhere(), ANF_W0904, path);
    return false;
  }
  if (!is_sound(bytes, len, id)) {
    anfi_os_remove(path);
    anfi_warn(cx, anfi_nowhere(), ANF_W0902, path);
    return false;
  }
  anfi_os_touch(path);
  *p = bytes + sizeof(head);
  *n = len - sizeof(head);
  return true;
}

static bool is_ours(const char *name) {
  size_t n = strlen(name), k = sizeof suffix - 1;
  return n > k && strcmp(name + n - k, suffix) == 0;
}

static int oldest_first(const void *a, const void *b) {
  int64_t x = ((const anfi_file *)a)->used, y = ((const anfi_file *)b)->used;
  return (x > y) - (x < y);
}

/* Files of the cache; what was left by processes that died while they wrote is thrown away. */
static bool list(anf_ctx *cx, const char *dir, anfi_files *out) {
  anfi_files all = {0};
  anfi_arena *a = anfi_scratch(cx);
  enum { HOUR = 3600 };
  if (!anfi_os_list(cx, dir, "", &all)) return false;
  int64_t newest = 0;
  for (size_t i = 0; i < all.n; i++)
    if (all.at[i].used > newest) newest = all.at[i].used;
  for (size_t i = 0; i < all.n; i++) {
    anfi_file f = all.at[i];
    if (is_ours(f.name)) anfi_push(a, out, f);
    else if (strncmp(f.name, "tmp-", 4) == 0 && f.used < newest - HOUR * INT64_C(1000000000))
      anfi_os_remove(anfi_sprintf(a, "%s/%s", dir, f.name));
  }
  if (out->n) qsort(out->at, out->n, sizeof *out->at, oldest_first);
  return true;
}

/* Down to nine tenths, so that the next few need no room made. */
static void make_room(anf_ctx *cx, const char *dir, uint64_t limit) {
  anfi_files all = {0};
  uint64_t total = 0;
  if (!list(cx, dir, &all)) return;
  for (size_t i = 0; i < all.n; i++) total += all.at[i].bytes;
  if (total <= limit) return;
  for (size_t i = 0; i < all.n && total > limit / 10 * 9; i++) {
    anfi_os_remove(anfi_sprintf(anfi_scratch(cx), "%s/%s", dir, all.at[i].name));
    total -= all.at[i].bytes;
  }
}

/* To look at all files takes as long as there are many. A large file does it, and one in so many small ones, as their ids
 * have it, so that all processes together do: the folder holds an eighth more than its limit at times. */
static bool is_turn(anfi_jit_id id, uint64_t bytes, uint64_t limit) {
  enum { TURNS = 32, SMALL = 256 };
  return bytes > limit / SMALL || id.word[0] % TURNS == 0;
}

static void write_file(anf_ctx *cx, const anf_jit_engine *e, anfi_jit_id id, const char *p,
                       size_t n) {
  const char *dir = e->o.cache_dir;
  head h = {.id = id, .sum = anfi_jit_sum(p, n), .bytes = n};
  uint64_t limit = e->o.cache_bytes ? e->o.cache_bytes : UINT64_C(1) << 30;
  memcpy(h.magic, magic, sizeof magic);
  char *all = (char *)anfi_alloc(anfi_scratch(cx), sizeof h + n);
  memcpy(all, &h, sizeof h);
  memcpy(all + sizeof h, p, n);
  if (sizeof h + n > limit) return;
  if (anfi_os_is_foreign(dir)) {
    anfi_warn(cx, anfi_nowhere(), ANF_W0904, dir);
    return;
  }
  const char *name = file_name(anfi_scratch(cx), id);
  bool good = anfi_os_put(cx, dir, name, all, sizeof h + n) ||
              (anfi_os_make_dirs(cx, dir) && anfi_os_put(cx, dir, name, all, sizeof h + n));
  if (good && is_turn(id, sizeof h + n, limit)) make_room(cx, dir, limit);
  if (!good) anfi_warn(cx, anfi_nowhere(), ANF_W0901, dir, strerror(errno));
}

/* ---- both ---- */

static void free_copy(void *p) { anfi_jit_free(p); }

bool anfi_jit_recall(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const char **p, size_t *n) {
  char *copy = copy_kept(e, id, n);
  if (copy) {
    anfi_defer(cx, ANFI_ALWAYS, free_copy, copy);
    return *p = copy, true;
  }
  if (!e->o.cache_dir || !read_file(cx, e->o.cache_dir, id, p, n)) return false;
  keep(e, id, *p, *n);
  return true;
}

void anfi_jit_remember(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const char *p, size_t n) {
  keep(e, id, p, n);
  if (e->o.cache_dir) write_file(cx, e, id, p, n);
}

/* While it is somebody else's: until the call is cancelled, or patience ends and it is compiled twice. */
static bool await_claim(anf_ctx *cx, const anf_jit_engine *e, const char *path, anfi_claim *c) {
  enum { TURN_MS = 20 };
  uint64_t end = anfi_os_now_ns() + e->patience_ms * UINT64_C(1000000);
  while (!anfi_os_claim(path, TURN_MS, c) && errno == EWOULDBLOCK) {
    if (!anfi_go_on(cx, "waiting for who compiles the same", 0.0)) return false;
    if (anfi_os_now_ns() < end) continue;
    anfi_warn(cx, anfi_nowhere(), ANF_W0906, (unsigned long long)e->patience_ms / 1000);
    break;
  }
  return true;
}

bool anfi_jit_claim(anf_ctx *cx, const anf_jit_engine *e, anfi_jit_id id, anfi_claim **out) {
  anfi_arena *a = anfi_scratch(cx);
  anfi_claim *c = *out = ANFI_NEW(a, anfi_claim);
  const char *dir = e->o.cache_dir;
  c->f = -1;
  if (!dir || anfi_os_is_foreign(dir)) return false;
  anfi_defer(cx, ANFI_ALWAYS, anfi_os_unclaim, c);
  const char *path = anfi_sprintf(a, "%s/tmp-%016llx%016llx", dir, (unsigned long long)id.word[1],
                                  (unsigned long long)id.word[0]);
  if (anfi_os_claim(path, 0, c)) return false;
  if (errno == EWOULDBLOCK) return await_claim(cx, e, path, c);
  if (errno == ENOENT && anfi_os_make_dirs(cx, dir)) anfi_os_claim(path, 0, c);
  return false;
}

/* ---- facts ---- */

/* Under the lock. NULL: there is none. */
static anfi_jit_fact *fact(const anf_jit_engine *e, anfi_jit_id id) {
  for (size_t i = 0; i < e->nfact; i++)
    if (same(e->fact[i].id, id)) return &e->fact[i];
  return NULL;
}

/* Under the lock. False: out of memory. */
static bool add_fact(anf_jit_engine *e, anfi_jit_id id, const void *p, size_t n) {
  bool full = !(e->nfact & (e->nfact - 1)); // room is a power of two
  if (full) {
    size_t room = e->nfact ? 2 * e->nfact : 1;
    anfi_jit_fact *more = (anfi_jit_fact *)anfi_jit_alloc(room * sizeof *more);
    if (!more) return false;
    if (e->nfact) memcpy(more, e->fact, e->nfact * sizeof *more);
    anfi_jit_free(e->fact);
    e->fact = more;
  }
  anfi_jit_fact *f = &e->fact[e->nfact++];
  f->id = id;
  memcpy(f->bytes, p, n);
  return true;
}

static void keep_fact(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const void *p, size_t n) {
  pthread_mutex_lock(&e->lock);
  bool good = fact(e, id) || add_fact(e, id, p, n); // another thread may have been first
  pthread_mutex_unlock(&e->lock);
  if (!good) anfi_throw_nomem(cx);
}

bool anfi_jit_noted(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, void *to, size_t n) {
  const char *p;
  size_t len;
  pthread_mutex_lock(&e->lock);
  const anfi_jit_fact *f = fact(e, id);
  if (f) memcpy(to, f->bytes, n);
  pthread_mutex_unlock(&e->lock);
  if (f) return true;
  if (!e->o.cache_dir || !read_file(cx, e->o.cache_dir, id, &p, &len) || len != n) return false;
  memcpy(to, p, n);
  keep_fact(cx, e, id, to, n);
  return true;
}

void anfi_jit_note(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const void *p, size_t n) {
  keep_fact(cx, e, id, p, n);
  if (e->o.cache_dir) write_file(cx, e, id, (const char *)p, n);
}

/* ---- looking at it ---- */

static void visit(anf_ctx *cx, const char *dir, bool (*see)(void *, const anf_jit_cached *),
                  void *user) {
  anfi_files all = {0};
  if (!list(cx, dir, &all)) return; // not made yet: empty
  for (size_t i = 0; i < all.n; i++) {
    anf_jit_cached c = {all.at[i].name, all.at[i].bytes, all.at[i].used / 1000000000};
    if (!see(user, &c)) return;
  }
}

anf_status anf_jit_cache_visit(anf_ctx *cx, const char *dir,
                               bool (*see)(void *user, const anf_jit_cached *file), void *user,
                               anf_diag *d) {
  ANFI_NEED(d, cx, dir, see ? dir : NULL);
  ANFI_ENTRY(cx, d);
  visit(cx, dir, see, user);
  return anfi_leave(cx);
}

static void clear(anf_ctx *cx, const char *dir) {
  anfi_files all = {0};
  if (!list(cx, dir, &all)) return;
  for (size_t i = 0; i < all.n; i++)
    anfi_os_remove(anfi_sprintf(anfi_scratch(cx), "%s/%s", dir, all.at[i].name));
}

anf_status anf_jit_cache_clear(anf_ctx *cx, const char *dir, anf_diag *d) {
  ANFI_NEED(d, cx, dir);
  ANFI_ENTRY(cx, d);
  clear(cx, dir);
  return anfi_leave(cx);
}

static void find_dir(anf_ctx *cx, anf_text *out) {
  const char *dir = anfi_os_cache_dir(anfi_scratch(cx));
  if (dir) anfi_puts(out, dir);
}

anf_status anf_jit_cache_dir(anf_text *out) {
  if (!out || !out->cx) return ANF_INVALID;
  ANFI_ENTRY(out->cx, NULL);
  find_dir(out->cx, out);
  return anfi_leave(out->cx);
}
