// SPDX-License-Identifier: Apache-2.0
/* Other programs, temporary folders, shared objects.
 *   anfi_os_spawn({"/usr/bin/cc", "a b.c"}, log)   ->   the exit status of cc, whose argument is one file
 * No shell is involved: a name from a user is one argument, whatever characters it has. */
#define _DEFAULT_SOURCE // mkdtemp
#include "base/base.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_program(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

const char *anfi_os_find_program(anfi_arena *a, const char *name) {
  const char *path = getenv("PATH");
  if (strchr(name, '/')) return is_program(name) ? name : NULL;
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    const char *full = n ? anfi_sprintf(a, "%.*s/%s", (int)n, p, name) : name;
    if (n && is_program(full)) return full;
    p += n + (p[n] == ':');
  }
  return NULL;
}

int anfi_os_spawn(const char *const *argv, const char *log) {
  posix_spawn_file_actions_t io;
  pid_t child;
  int status = 0, error = posix_spawn_file_actions_init(&io);
  if (error) return -1;
  const char *out = log ? log : "/dev/null";
  error = posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
  if (!error)
    error = posix_spawn_file_actions_addopen(&io, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!error) error = posix_spawn_file_actions_adddup2(&io, 1, 2);
  if (!error) // the strings are not written to
    error = posix_spawn(&child, argv[0], &io, NULL, (char *const *)(uintptr_t)argv, environ);
  posix_spawn_file_actions_destroy(&io);
  if (error) return -1;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *anfi_os_temp_dir(void) {
  const char *d = getenv("TMPDIR");
  return d && *d ? d : "/tmp";
}

char *anfi_os_make_temp(anf_ctx *cx, const char *in) {
  char *path = anfi_sprintf(anfi_scratch(cx), "%s/anfora-XXXXXX", in);
  if (mkdtemp(path)) return path;
  anfi_fail(cx, anfi_nowhere(), ANF_E0301, "write", path, strerror(errno));
  return NULL;
}

void anfi_os_remove(const char *path) {
  if (unlink(path) != 0) rmdir(path);
}

void *anfi_os_dl_open(const char *path, char *why, size_t len) {
  void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *text = h ? NULL : dlerror();
  if (!h) snprintf(why, len, "%s", text ? text : "");
  return h;
}
void *anfi_os_dl_symbol(void *handle, const char *name) { return dlsym(handle, name); }
bool anfi_os_c_library_has(const char *name) {
  static const char *const libraries[] = {"libc.so.6", "libm.so.6"};
  bool found = false;
  for (size_t i = 0; i < ANFI_LEN(libraries) && !found; i++) {
    void *h = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    found = h && dlsym(h, name);
    if (h) dlclose(h);
  }
  return found;
}
void anfi_os_dl_close(void *handle) { dlclose(handle); }
