// SPDX-License-Identifier: Apache-2.0
/* Reading of files that are named by other files.
 *   anfi_os_read_source(cx, a, "weights.bin", 1 << 30, &text, &n)   ->   its bytes; a pipe or a larger file is an error
 * Opening does not wait for a pipe's writer; the file's kind and size are examined once it is open, so that it cannot
 * be exchanged in between. */
#define _DEFAULT_SOURCE
#include "base/os/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

anfi_file_id anfi_os_file_id(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return (anfi_file_id){0};
  return (anfi_file_id){(uint64_t)st.st_dev, (uint64_t)st.st_ino, true};
}

bool anfi_os_same_file(const anfi_file_id *a, const anfi_file_id *b) {
  return a->known && b->known && a->device == b->device && a->inode == b->inode;
}

const char *anfi_os_real_path(anfi_arena *a, const char *path) {
  char *real = realpath(path, NULL);
  const char *own = real ? anfi_strndup(a, real, strlen(real)) : NULL;
  free(real);
  return own;
}

bool anfi_os_is_in_folder(const char *file, const char *folder) {
  size_t n = strlen(folder);
  while (n && folder[n - 1] == '/') n--; // the root is every file's folder
  return strncmp(file, folder, n) == 0 && file[n] == '/';
}

static bool refuse(anf_ctx *cx, const char *path, const char *why) {
  return anfi_fail(cx, anfi_nowhere(), ANF_E0301, "read", path, why);
}

static void close_fd(void *p) { close(*(int *)p); }

bool anfi_os_read_source(anf_ctx *cx, anfi_arena *a, const char *path, size_t most, char **text,
                         size_t *len) {
  int *f = ANFI_NEW(a, int);
  struct stat st;
  *f = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (*f < 0) return refuse(cx, path, strerror(errno));
  anfi_defer(cx, ANFI_ALWAYS, close_fd, f);
  if (fstat(*f, &st) != 0) return refuse(cx, path, strerror(errno));
  if (!S_ISREG(st.st_mode)) return refuse(cx, path, "it is no regular file");
  if (st.st_size < 0 || (uint64_t)st.st_size > most)
    return refuse(cx, path, anfi_sprintf(a, "it has more than %zu MB", most >> 20));
  size_t size = (size_t)st.st_size, n = 0;
  char *p = (char *)anfi_alloc(a, size + 1);
  while (n < size) {
    ssize_t got = read(*f, p + n, size - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(cx, path, strerror(errno));
    if (got == 0) break; // it became shorter
    n += (size_t)got;
  }
  p[n] = 0;
  *text = p;
  *len = n;
  return true;
}
