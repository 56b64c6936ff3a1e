// SPDX-License-Identifier: Apache-2.0
/* Folders of files that several processes share: written whole by renaming, listed, examined.
 *   anfi_os_put(cx, dir, "a", p, n)   ->   dir/tmp-XXXXXX, then renamed to dir/a: a reader sees all or nothing
 * A file that another process has removed meanwhile is no error. */
#define _GNU_SOURCE // mkstemp, flock
#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool anfi_os_make_dirs(anf_ctx *cx, const char *path) {
  char *p = anfi_strndup(anfi_scratch(cx), path, strlen(path));
  for (char *s = p + 1; *s; s++) {
    if (*s != '/') continue;
    *s = 0;
    if (mkdir(p, 0700) != 0 && errno != EEXIST) return false;
    *s = '/';
  }
  return mkdir(p, 0700) == 0 || errno == EEXIST;
}

bool anfi_os_put_all(int f, const char *p, size_t n) {
  while (n) {
    ssize_t k = write(f, p, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

bool anfi_os_put(anf_ctx *cx, const char *dir, const char *name, const void *p, size_t n) {
  anfi_arena *a = anfi_scratch(cx);
  char *tmp = anfi_sprintf(a, "%s/tmp-XXXXXX", dir);
  int f = mkstemp(tmp);
  if (f < 0) return false;
  bool good = anfi_os_put_all(f, (const char *)p, n);
  good &= close(f) == 0;
  if (good && rename(tmp, anfi_sprintf(a, "%s/%s", dir, name)) == 0) return true;
  int why = errno;
  unlink(tmp);
  errno = why;
  return false;
}

/* ---- folders of ours alone: code that another user could have written is not run ---- */

static bool owned(const struct stat *st) {
  return st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

bool anfi_os_is_foreign(const char *dir) {
  struct stat st;
  return stat(dir, &st) == 0 && !owned(&st);
}

static void close_fd(void *p) {
  if (*(int *)p >= 0) close(*(int *)p);
}

static size_t read_all(int f, char *p, size_t n) {
  size_t at = 0;
  while (at < n) {
    ssize_t k = read(f, p + at, n - at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) break; // cut short: whoever reads it sees that
    at += (size_t)k;
  }
  return at;
}

bool anfi_os_get(anf_ctx *cx, const char *path, char **out, size_t *len, bool *foreign) {
  anfi_arena *a = anfi_scratch(cx);
  struct stat st;
  int *f = ANFI_NEW(a, int);
  *f = -1;
  *foreign = false;
  anfi_defer(cx, ANFI_ALWAYS, close_fd, f);
  *f = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
                      O_NONBLOCK); // of a pipe, do not wait for its writer
  if (*f < 0 && errno == ELOOP) *foreign = true;
  if (*f < 0 || fstat(*f, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  if (!owned(&st)) return *foreign = true, false;
  *out = (char *)anfi_alloc(a, (size_t)st.st_size + 1);
  *len = read_all(*f, *out, (size_t)st.st_size);
  close(*f);
  *f = -1;
  return true;
}

/* The system gives the lock up when its process ends. A name that is removed while others wait for it stays theirs; who comes
 * later makes it anew. */
bool anfi_os_claim(const char *path, uint64_t ms, anfi_claim *out) {
  enum { TURN_MS = 2 };
  *out = (anfi_claim){path, open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (out->f < 0) return false;
  for (uint64_t end = anfi_os_now_ns() + ms * 1000000; flock(out->f, LOCK_EX | LOCK_NB) != 0;) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || anfi_os_now_ns() > end) {
      close(out->f);
      return out->f = -1, false;
    }
    nanosleep(&(struct timespec){.tv_nsec = TURN_MS * 1000000}, NULL);
  }
  return true;
}

void anfi_os_unclaim(void *p) {
  anfi_claim *c = (anfi_claim *)p;
  if (c->f < 0) return;
  unlink(c->path);
  close(c->f);
  c->f = -1;
}

static void close_dir(void *d) { closedir((DIR *)d); }

bool anfi_os_list(anf_ctx *cx, const char *dir, const char *begin, anfi_files *out) {
  anfi_arena *a = anfi_scratch(cx);
  DIR *d = opendir(dir);
  if (!d) return false;
  anfi_defer(cx, ANFI_ALWAYS, close_dir, d);
  for (const struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (strncmp(e->d_name, begin, strlen(begin)) != 0) continue;
    if (stat(anfi_sprintf(a, "%s/%s", dir, e->d_name), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    anfi_file f = {anfi_strndup(a, e->d_name, strlen(e->d_name)), (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec};
    anfi_push(a, out, f);
  }
  return true;
}

void anfi_os_touch(const char *path) { utimensat(AT_FDCWD, path, NULL, 0); }

const char *anfi_os_cache_dir(anfi_arena *a) {
  const char *own = getenv("ANFORA_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  if (own && strcmp(own, "off") == 0) return NULL;
  if (own && *own) return own;
  if (cache && *cache == '/') return anfi_sprintf(a, "%s/anfora", cache);
  return home && *home ? anfi_sprintf(a, "%s/.cache/anfora", home) : NULL;
}
