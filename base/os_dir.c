// SPDX-License-Identifier: Apache-2.0
/* Folders of files that several processes share: written whole by renaming, listed, looked at. What
 * another process has removed meanwhile is no error. */
#define _GNU_SOURCE // mkstemp, dladdr
#include "base/base.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool anfi_os_make_dirs(anf_ctx *cx, const char *path) {
  char *p = anfi_strndup(anfi_scratch(cx), path, strlen(path));
  for (char *s = p + 1; *s; s++) {
    if (*s != '/') continue;
    *s = 0;
    if (mkdir(p, 0777) != 0 && errno != EEXIST) return false;
    *s = '/';
  }
  return mkdir(p, 0777) == 0 || errno == EEXIST;
}

static bool write_all(int f, const char *p, size_t n) {
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
  bool good = write_all(f, (const char *)p, n);
  good &= close(f) == 0;
  if (good && rename(tmp, anfi_sprintf(a, "%s/%s", dir, name)) == 0) return true;
  int why = errno;
  unlink(tmp);
  errno = why;
  return false;
}

bool anfi_os_get(anfi_arena *a, const char *path, char **out, size_t *len) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  size_t n = (size_t)st.st_size, at = 0;
  char *p = (char *)anfi_alloc(a, n + 1); // before the file is open: it may jump
  int f = open(path, O_RDONLY | O_CLOEXEC);
  if (f < 0) return false;
  while (at < n) {
    ssize_t k = read(f, p + at, n - at);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) break; // cut short: whoever reads it sees that
    at += (size_t)k;
  }
  close(f);
  *out = p;
  *len = at;
  return true;
}

static void close_dir(void *d) { closedir((DIR *)d); }

bool anfi_os_list(anf_ctx *cx, const char *dir, anfi_files *out) {
  anfi_arena *a = anfi_scratch(cx);
  DIR *d = opendir(dir);
  if (!d) return false;
  anfi_defer(cx, ANFI_ALWAYS, close_dir, d);
  for (const struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (stat(anfi_sprintf(a, "%s/%s", dir, e->d_name), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    anfi_file f = {anfi_strndup(a, e->d_name, strlen(e->d_name)), (uint64_t)st.st_size,
                   (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec};
    anfi_push(a, out, f);
  }
  return true;
}

void anfi_os_touch(const char *path) { utimensat(AT_FDCWD, path, NULL, 0); }

const char *anfi_os_this_build(anfi_arena *a) {
  static const char here;
  Dl_info info;
  struct stat st;
  if (!dladdr(&here, &info) || !info.dli_fname || stat(info.dli_fname, &st) != 0)
    return anfi_sprintf(a, "%s %s", __DATE__, __TIME__);
  return anfi_sprintf(a, "%lld.%ld %lld", (long long)st.st_mtime, (long)st.st_mtim.tv_nsec,
                      (long long)st.st_size);
}

const char *anfi_os_cache_dir(anfi_arena *a) {
  const char *own = getenv("ANFORA_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
             *home = getenv("HOME");
  if (own && strcmp(own, "off") == 0) return NULL;
  if (own && *own) return own;
  if (cache && *cache == '/') return anfi_sprintf(a, "%s/anfora", cache);
  return home && *home ? anfi_sprintf(a, "%s/.cache/anfora", home) : NULL;
}
