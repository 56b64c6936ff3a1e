// SPDX-License-Identifier: Apache-2.0
/* The few calls of the operating system that the compiler side needs. */
#define _DEFAULT_SOURCE // madvise
#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
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
  if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
    errno = EISDIR;
    return io_error(cx, "read", path);
  }
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

static bool write_to(const char *path, const char *text, size_t len) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(text, 1, len, f) == len;
  return (fclose(f) == 0) && good;
}

bool anfi_os_write(anf_ctx *cx, const char *path, const char *text, size_t len) {
  char *tmp = anfi_sprintf(anfi_scratch(cx), "%s.%ld.tmp", path, (long)getpid());
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) // a device or a pipe cannot be renamed over
    return write_to(path, text, len) || io_error(cx, "write", path);
  if (write_to(tmp, text, len) && rename(tmp, path) == 0) return true;
  io_error(cx, "write", path);
  unlink(tmp);
  return false;
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

uint64_t anfi_os_cache_bytes(uint32_t level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  long n = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  return n > 0 ? (uint64_t)n : 0;
#else
  (void)level;
  return 0;
#endif
}

void *anfi_os_huge(void *p, size_t size) {
#ifdef MADV_HUGEPAGE
  if (p) madvise(p, size, MADV_HUGEPAGE); // a wish: nothing depends on it
#else
  (void)size;
#endif
  return p;
}
