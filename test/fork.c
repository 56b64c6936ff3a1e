// SPDX-License-Identifier: Apache-2.0
#define _XOPEN_SOURCE 700
#include "fork.h"

#include "backend/llvm/llvm.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned fork_leaks_every = 1;
static unsigned runs; // counted before each fork

void fork_load(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  if (cx) anfi_ll_begin(cx); // where it is not, what needs it says so
  anf_ctx_free(cx);
}

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif
#ifdef WATCHED
void __lsan_do_leak_check(void);
static void check_leaks(void) { __lsan_do_leak_check(); }
#else
static void check_leaks(void) {}
#endif

static void redirect(int fd, const char *path, int flags) {
  int to = open(path, flags, 0600);
  if (to < 0 || dup2(to, fd) < 0) _exit(126);
  if (to != fd) close(to);
}

extern void __gcov_exit(void) __attribute__((weak)); // in a build that counts what runs

/* As exit() does, but for LLVM's own end, which writes to most of its pages: a fork would have to copy them. */
static void leave(int status) {
  fflush(NULL);
  if (runs % fork_leaks_every == 0) check_leaks();
  if (__gcov_exit) __gcov_exit();
  _exit(status);
}

int fork_command(const char *dir, const fork_files *files, unsigned seconds, int count,
                 char **words) {
  enum { NEW = O_WRONLY | O_CREAT | O_TRUNC };
  fflush(NULL);
  runs++;
  pid_t pid = fork();
  if (pid < 0) return -errno;
  if (pid == 0) {
    redirect(0, files->in, O_RDONLY);
    redirect(1, files->out, NEW);
    redirect(2, files->err, NEW);
    if (chdir(dir) != 0) _exit(126);
    alarm(seconds);
    leave(cli_main(count, words));
  }
  int st;
  while (waitpid(pid, &st, 0) < 0)
    if (errno != EINTR) return -errno;
  return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}
