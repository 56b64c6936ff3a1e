// SPDX-License-Identifier: Apache-2.0
/* The few calls of the operating system that the compiler side needs.
 *   anfi_os_write(cx, "out.c", text, n)   ->   .out.c.tmp-PID-0, then renamed to out.c: it is whole, or what it was */
#define _DEFAULT_SOURCE // madvise, flock, realpath
#include "base/os/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void close_file(void *f) {
  if (f != (void *)stdin) fclose((FILE *)f);
}

static bool io_error(anf_ctx *cx, const char *verb, const char *path) {
  return anfi_fail(cx, anfi_nowhere(), ANF_E0301, verb, path, strerror(errno));
}

bool anfi_os_read(anf_ctx *cx, anfi_arena *a, const char *path, char **text, size_t *len) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  if (!f) return io_error(cx, "read", path);
  anfi_defer(cx, ANFI_ALWAYS, close_file, f);
  struct stat st;
  bool known = fstat(fileno(f), &st) == 0;
  if (known && S_ISDIR(st.st_mode)) errno = EISDIR;
  if (!known || S_ISDIR(st.st_mode)) return io_error(cx, "read", path);
  size_t cap = st.st_size > 0 ? (size_t)st.st_size + 1 : 4096, n = 0;
  char *p = (char *)anfi_alloc(a, cap);
  for (size_t got; (got = fread(p + n, 1, cap - n, f)) > 0;) {
    n += got;
    if (n < cap) continue;
    p = (char *)anfi_grow(a, p, cap, anfi_size_mul(cx, cap, 2));
    cap *= 2;
  }
  if (ferror(f)) return io_error(cx, "read", path);
  p[n] = 0;
  *text = p;
  *len = n;
  return true;
}

size_t anfi_os_head(const char *path, char *to, size_t n) {
  FILE *f = fopen(path, "rb");
  size_t got = f ? fread(to, 1, n, f) : 0;
  if (f) (void)fclose(f);
  return got;
}

/* ---- files below a folder ---- */

/* One folder after the other, so that no part is a link or leads up. -1: errno says why. */
static int open_below(const char *dir, const char *name) {
  int at = open(*dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (at >= 0) {
    char part[256];
    size_t n = strcspn(name, "/");
    bool last = !name[n];
    if (!n || n >= sizeof part || (n == 2 && memcmp(name, "..", 2) == 0)) {
      (void)close(at);
      return errno = ELOOP, -1;
    }
    memcpy(part, name, n);
    part[n] = 0;
    int next =
        openat(at, part, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    int why = errno;
    (void)close(at);
    if (last || next < 0) return errno = why, next;
    at = next;
    name += n + 1;
  }
  return at;
}

bool anfi_os_is_below(const char *name, size_t len) {
  if (!len || strlen(name) != len || name[0] == '/') return false;
  for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
    if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return false;
  return true;
}

bool anfi_os_read_below(anf_ctx *cx, const char *dir, const char *name, uint64_t offset, void *to,
                        size_t n, uint64_t *size) {
  int f = open_below(dir, name);
  if (f < 0) return io_error(cx, "read", name);
  struct stat st;
  bool good = fstat(f, &st) == 0 && S_ISREG(st.st_mode);
  *size = good ? (uint64_t)st.st_size : 0;
  bool fits = good && offset <= *size && n <= *size - offset;
  if (!good) errno = EISDIR;
  good = good && (!fits || anfi_os_view_read(&(anfi_os_view){.f = f}, offset, to, n));
  int why = errno;
  (void)close(f);
  errno = why;
  return good || io_error(cx, "read", name);
}

bool anfi_os_view_below(anf_ctx *cx, const char *dir, const char *name, anfi_os_view *out) {
  struct stat st = {0};
  *out = (anfi_os_view){.f = open_below(dir, name)};
  bool good = out->f >= 0 && fstat(out->f, &st) == 0;
  if (good && S_ISREG(st.st_mode)) return out->len = (size_t)st.st_size, true;
  if (good) errno = EISDIR;
  int why = errno;
  anfi_os_view_close(out);
  errno = why;
  return io_error(cx, "read", name);
}

/* ---- writing: a file is whole, or what it was ----
 * The bytes go to a new file beside it, DIR/.NAME.tmp-PID-N, which then takes its name. The writer holds a lock on
 * it, so that a later one can tell what a dead process left from what another is writing. */

/* False with errno, which is 0 if a part could not be had. */
static bool put_parts(int f, size_t n, const anfi_bytes *part, const anfi_part_source *from) {
  for (size_t i = 0; i < n; i++) {
    const void *p = part[i].p;
    if (!p && part[i].n && from) p = from->part(from->user, i);
    if (!p && part[i].n) return errno = 0, false;
    if (!anfi_os_put_all(f, (const char *)p, part[i].n)) return false;
  }
  return true;
}

typedef struct output {
  anfi_arena *a;                // made before the cleanup is listed, so that it outlives it
  const char *dir, *name, *tmp; // tmp: NULL, or the new file
  int f;                        // open, or -1
  bool keep_mode;
  mode_t mode;
} output;

static void close_output(void *p) {
  output *o = (output *)p;
  if (o->tmp) unlink(o->tmp);
  if (o->f >= 0) close(o->f);
  o->tmp = NULL;
  o->f = -1;
}

static output *new_output(anf_ctx *cx) {
  anfi_arena *a = anfi_scratch(cx);
  output *o = ANFI_NEW(a, output);
  o->a = a;
  o->f = -1;
  anfi_defer(cx, ANFI_ALWAYS, close_output, o);
  return o;
}

/* Removes temporary files of processes that died while they wrote this file, .NAME.tmp-PID-N, or one beside it whose name
 * goes on: .NAME.MORE.tmp-PID-N */
static void remove_left(anf_ctx *cx, const output *o) {
  anfi_arena *a = anfi_scratch(cx);
  anfi_files all = {0};
  const char *begin = anfi_sprintf(a, ".%s.", o->name);
  if (!anfi_os_list(cx, o->dir, begin, &all)) return;
  for (size_t i = 0; i < all.n; i++) {
    if (!strstr(all.at[i].name + strlen(begin) - 1, ".tmp-")) continue;
    const char *path = anfi_sprintf(a, "%s/%s", o->dir, all.at[i].name);
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f < 0) continue;
    if (flock(f, LOCK_EX | LOCK_NB) == 0) unlink(path);
    close(f);
  }
}

/* The path with links followed; a link's target need not exist yet. A ring of links is left as it is. */
static const char *followed(anfi_arena *a, const char *path) {
  char *real = realpath(path, NULL);
  if (real) path = anfi_strndup(a, real, strlen(real));
  free(real);
  for (int turn = 0; turn < 40; turn++) {
    char to[4096];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n <= 0) return path;
    to[n] = 0;
    const char *slash = strrchr(path, '/');
    path = *to == '/' || !slash ? anfi_strndup(a, to, (size_t)n)
                                : anfi_sprintf(a, "%.*s/%s", (int)(slash - path), path, to);
  }
  return path;
}

/* A link is followed to the file that it names; a new file gets the mode of the one that was. */
static bool open_output(const char *path, output *o) {
  static atomic_uint number;
  anfi_arena *a = o->a;
  struct stat st;
  path = followed(a, path);
  const char *slash = strrchr(path, '/');
  o->dir = !slash ? "." : slash == path ? "/" : anfi_strndup(a, path, (size_t)(slash - path));
  o->name = slash ? slash + 1 : path;
  if ((o->keep_mode = stat(path, &st) == 0)) o->mode = st.st_mode & 07777;
  for (int turn = 0; turn < 100; turn++) {
    const char *tmp = anfi_sprintf(a, "%s/.%s.tmp-%ld-%u", o->dir, o->name, (long)getpid(),
                                   atomic_fetch_add(&number, 1));
    o->f = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (o->f >= 0) return flock(o->f, LOCK_EX | LOCK_NB), o->tmp = tmp, true;
    if (errno != EEXIST) return false;
  }
  return false;
}

/* Onto the disk, the name as well as the bytes. */
static bool rename_output(output *o, bool durable) {
  const char *path = anfi_sprintf(o->a, "%s/%s", o->dir, o->name);
  if (o->keep_mode && fchmod(o->f, o->mode) != 0) return false;
  if (durable && fsync(o->f) != 0) return false;
  if (rename(o->tmp, path) != 0) return false;
  o->tmp = NULL;
  int f = o->f, dir = durable ? open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  o->f = -1;
  bool good = close(f) == 0;
  if (dir < 0) return good;
  good &= fsync(dir) == 0 || errno == EINVAL; // a file system without
  close(dir);
  return good;
}

static bool is_special(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && !S_ISREG(st.st_mode); // a device or a pipe cannot be renamed over
}

bool anfi_os_write_parts(anf_ctx *cx, const char *path, size_t n, const anfi_bytes *part,
                         bool durable) {
  return anfi_os_write_parts_from(cx, path, n, part, NULL, durable);
}

bool anfi_os_write_parts_from(anf_ctx *cx, const char *path, size_t n, const anfi_bytes *part,
                              const anfi_part_source *from, bool durable) {
  output *o = new_output(cx);
  bool special = is_special(path);
  if (special) o->f = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  else if (open_output(path, o) && durable) remove_left(cx, o);
  bool good = o->f >= 0 && put_parts(o->f, n, part, from);
  if (good && !special) good = rename_output(o, durable);
  return good || (errno && io_error(cx, "write", path));
}

bool anfi_os_write(anf_ctx *cx, const char *path, const char *text, size_t len) {
  anfi_bytes whole = {text, len};
  return anfi_os_write_parts(cx, path, 1, &whole, false);
}

bool anfi_os_may_write(anf_ctx *cx, const char *path) {
  output *o = new_output(cx);
  if (is_special(path)) return access(path, W_OK) == 0 || io_error(cx, "write", path);
  bool good = open_output(path, o) || io_error(cx, "write", path);
  close_output(o); // now: the frame may be that of the whole command
  return good;
}

uint64_t anfi_os_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t anfi_os_thread_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* sysconf may add up the third caches of a processor, of which a core has one. */
static uint64_t third_cache(void) {
  unsigned long kb = 0;
  FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
  if (!f) return 0;
  if (fscanf(f, "%luK", &kb) != 1) kb = 0;
  fclose(f);
  return (uint64_t)kb << 10;
}

uint64_t anfi_os_cache_bytes(uint32_t level) {
  if (level == 3) return third_cache();
#ifdef _SC_LEVEL1_DCACHE_SIZE
  long n = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  return n > 0 ? (uint64_t)n : 0;
#else
  (void)level;
  return 0;
#endif
}

bool anfi_os_has_room(size_t bytes) {
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

void *anfi_os_huge(void *p, size_t size) {
#ifdef MADV_HUGEPAGE
  if (p) madvise(p, size, MADV_HUGEPAGE); // a wish: nothing depends on it
#else
  (void)size;
#endif
  return p;
}
