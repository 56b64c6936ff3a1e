// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // mkostemp's relatives, O_DIRECTORY
#include "test/io/wrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which call fails ---- */

static struct {
  bool active, on, cut, hit;
  uint64_t count, at;
  int error;
  io_kind kind;
  FILE *broken; // a stream whose reading failed
} plan;

void io_pass(void) { plan.active = false; }

static void start(uint64_t at) {
  memset(&plan, 0, sizeof plan);
  plan.active = true;
  plan.at = at;
}

void io_fail(uint64_t at, int error, bool on) {
  start(at);
  plan.error = error;
  plan.on = on;
}

void io_cut(uint64_t at) {
  start(at);
  plan.cut = true;
}

uint64_t io_count(void) { return plan.count; }

bool io_hit(io_kind *kind) {
  *kind = plan.kind;
  return plan.hit;
}

const char *io_kind_name(io_kind k) {
  static const char *const names[IO_KINDS] = {"open",   "read",   "write", "sync", "close",
                                              "rename", "remove", "map",   "look"};
  return names[k];
}

static bool meets(io_kind kind) {
  if (!plan.active) return false;
  plan.count++;
  bool now = plan.at && (plan.count == plan.at || (plan.on && plan.count > plan.at));
  if (now && !plan.hit) plan.hit = true, plan.kind = kind;
  return now;
}

/* Must this call fail? */
static bool fails(io_kind kind) {
  if (!meets(kind) || plan.cut) return false;
  errno = plan.error;
  return true;
}

/* The bytes that a call moves; of none, it fails. */
static size_t moved(io_kind kind, size_t n) {
  if (!meets(kind)) return n;
  if (plan.cut) return n > 1 ? 1 : n;
  errno = plan.error;
  return 0;
}

/* ---- what was done ---- */

static struct {
  bool active;
  size_t n;
  io_event event[1000];
} seen;

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static io_event *note(const char *path) {
  if (!seen.active || seen.n == sizeof seen.event / sizeof *seen.event) return NULL;
  io_event *e = &seen.event[seen.n++];
  memset(e, 0, sizeof *e);
  snprintf(e->name, sizeof e->name, "%s", last_part(path));
  return e;
}

/* The same by what a descriptor is open for. */
static io_event *note_file(int f) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", f);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return NULL;
  path[n] = 0;
  return note(path);
}

static void note_written(int f, const void *p, ssize_t n) {
  if (n <= 0) return;
  io_event *e = note_file(f);
  if (!e || !(e->bytes = malloc((size_t)n))) return;
  e->what = IO_WRITTEN;
  e->n = (size_t)n;
  memcpy(e->bytes, p, (size_t)n);
}

void io_record(void) {
  io_forget();
  seen.active = true;
}

const io_event *io_recorded(size_t *n) {
  seen.active = false;
  *n = seen.n;
  return seen.event;
}

void io_forget(void) {
  for (size_t i = 0; i < seen.n; i++) free(seen.event[i].bytes);
  seen.n = 0;
  seen.active = false;
}

/* ---- the calls ----
 * Files of more than 2 GB have names of their own in glibc: open64 beside open. WRAP defines both. */

#define WRAP(type, name, params, ...)                                                              \
  type __real_##name params;                                                                       \
  type __wrap_##name params;                                                                       \
  type __wrap_##name params __VA_ARGS__
#define WRAP64(type, name, params, body, body64)                                                   \
  WRAP(type, name, params, body)                                                                   \
  WRAP(type, name##64, params, body64)

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names

static int opened(int f, const char *path, int flags) {
  io_event *e = f >= 0 && (flags & O_CREAT) ? note(path) : NULL;
  if (e) e->what = IO_CREATED;
  return f;
}

static mode_t mode_of(int flags, va_list more) {
  return flags & O_CREAT ? (mode_t)va_arg(more, unsigned) : 0;
}

#define OPEN(name)                                                                                 \
  int __real_##name(const char *path, int flags, ...);                                             \
  int __wrap_##name(const char *path, int flags, ...);                                             \
  int __wrap_##name(const char *path, int flags, ...) {                                            \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode_t mode = mode_of(flags, more);                                                            \
    va_end(more);                                                                                  \
    return fails(IO_OPEN) ? -1 : opened(__real_##name(path, flags, mode), path, flags);            \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
  int __real_##name(int dir, const char *path, int flags, ...);                                    \
  int __wrap_##name(int dir, const char *path, int flags, ...);                                    \
  int __wrap_##name(int dir, const char *path, int flags, ...) {                                   \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode_t mode = mode_of(flags, more);                                                            \
    va_end(more);                                                                                  \
    return fails(IO_OPEN) ? -1 : opened(__real_##name(dir, path, flags, mode), path, flags);       \
  }
OPENAT(openat)
OPENAT(openat64)

WRAP64(
    FILE *, fopen, (const char *path, const char *mode),
    { return fails(IO_OPEN) ? NULL : __real_fopen(path, mode); },
    { return fails(IO_OPEN) ? NULL : __real_fopen64(path, mode); })
WRAP64(
    int, mkstemp, (char *path),
    { return fails(IO_OPEN) ? -1 : opened(__real_mkstemp(path), path, O_CREAT); },
    { return fails(IO_OPEN) ? -1 : opened(__real_mkstemp64(path), path, O_CREAT); })
WRAP(DIR *, opendir, (const char *path), { return fails(IO_OPEN) ? NULL : __real_opendir(path); })
WRAP(int, mkdir, (const char *path, mode_t mode),
     { return fails(IO_OPEN) ? -1 : __real_mkdir(path, mode); })

WRAP(size_t, fread, (void *to, size_t size, size_t n, FILE *f), {
  size_t some = moved(IO_READ, n);
  if (n && !some) plan.broken = f;
  return some ? __real_fread(to, size, some, f) : 0;
})
WRAP(int, ferror, (FILE * f), { return (plan.active && plan.broken == f) || __real_ferror(f); })
WRAP(ssize_t, read, (int f, void *to, size_t n), {
  size_t some = moved(IO_READ, n);
  return some || !n ? __real_read(f, to, some) : -1;
})
WRAP64(
    ssize_t, pread, (int f, void *to, size_t n, off_t at),
    {
      size_t some = moved(IO_READ, n);
      return some || !n ? __real_pread(f, to, some, at) : -1;
    },
    {
      size_t some = moved(IO_READ, n);
      return some || !n ? __real_pread64(f, to, some, at) : -1;
    })
WRAP(ssize_t, write, (int f, const void *p, size_t n), {
  size_t some = moved(IO_WRITE, n);
  if (!some && n) return -1;
  ssize_t done = __real_write(f, p, some);
  note_written(f, p, done);
  return done;
})
WRAP(int, fsync, (int f), {
  struct stat st;
  if (fails(IO_SYNC)) return -1;
  int done = __real_fsync(f);
  io_event *e = done == 0 ? note_file(f) : NULL;
  if (e) e->what = fstat(f, &st) == 0 && S_ISDIR(st.st_mode) ? IO_DIR_SYNCED : IO_SYNCED;
  return done;
})
WRAP(int, fchmod, (int f, mode_t mode), { return fails(IO_SYNC) ? -1 : __real_fchmod(f, mode); })
WRAP(int, close, (int f), {
  bool bad = fails(IO_CLOSE); // the descriptor is closed all the same
  int why = errno;
  int done = __real_close(f);
  if (bad) errno = why;
  return bad ? -1 : done;
})
WRAP(int, rename, (const char *from, const char *to), {
  if (fails(IO_RENAME)) return -1;
  int done = __real_rename(from, to);
  io_event *e = done == 0 ? note(from) : NULL;
  if (e) e->what = IO_RENAMED;
  if (e) snprintf(e->to, sizeof e->to, "%s", last_part(to));
  return done;
})
WRAP(int, unlink, (const char *path), {
  if (fails(IO_REMOVE)) return -1;
  int done = __real_unlink(path);
  io_event *e = done == 0 ? note(path) : NULL;
  if (e) e->what = IO_REMOVED;
  return done;
})
WRAP64(
    void *, mmap, (void *at, size_t n, int access, int flags, int f, off_t offset),
    { return f >= 0 && fails(IO_MAP) ? MAP_FAILED : __real_mmap(at, n, access, flags, f, offset); },
    {
      return f >= 0 && fails(IO_MAP) ? MAP_FAILED : __real_mmap64(at, n, access, flags, f, offset);
    })
WRAP64(
    int, stat, (const char *path, struct stat *st),
    { return fails(IO_LOOK) ? -1 : __real_stat(path, st); },
    { return fails(IO_LOOK) ? -1 : __real_stat64(path, st); })
WRAP64(
    int, fstat, (int f, struct stat *st), { return fails(IO_LOOK) ? -1 : __real_fstat(f, st); },
    { return fails(IO_LOOK) ? -1 : __real_fstat64(f, st); })

// NOLINTEND(bugprone-reserved-identifier)
