// SPDX-License-Identifier: Apache-2.0
/* test_fork PLUGIN: threads that are no longer there. A child of fork has none of its parent's workers; a
 * thread may end after the library whose function it called is gone. */
#define _POSIX_C_SOURCE 200809L // barriers
#include "test/unit/program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

enum { SECONDS = 60 };
static const char *plugin;

/* Of f(arg) in a child, which ends after a while whatever it does. */
static int status_in_child(int (*f)(void *), void *arg) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    alarm(SECONDS);
    _exit(f(arg));
  }
  assert_true(pid > 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* ---- steps on two threads ---- */

static const char program[] = "def step(x: f64[100000]) { (x + 1.0, Sum(x * 1e-5)) }\n";

static anf_step *two_threads(world *w, anf_module **m) {
  anf_step *s = NULL;
  anf_step_opts o = {.size = sizeof o, .threads = 2};
  assert_int_equal(anf_parse(w->cx, program, "fork.anf", w->d, m), ANF_OK);
  anf_status st = anf_step_new(anf_module_find(*m, "step"), 1, 0, NULL, &o, w->d, &s);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  assert_int_equal(anf_step_run(s, NULL), ANF_OK);
  return s;
}

static int runs(void *s) { return anf_step_run(s, NULL) == ANF_OK ? 0 : 1; }

static int frees(void *s) {
  anf_step_free(s);
  return 0;
}

static int forks_again(void *s) { return runs(s) ? 1 : status_in_child(runs, s); }

static int submits(void *s) {
  return anf_step_submit(s, NULL) == ANF_OK && anf_step_wait(s, NULL) == ANF_OK ? 0 : 1;
}

static void a_child_makes_its_own_threads(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = two_threads(w, &m);
  assert_int_equal(status_in_child(runs, s), 0);
  assert_int_equal(status_in_child(forks_again, s), 0);
  assert_int_equal(status_in_child(frees, s), 0);
  assert_int_equal(anf_step_run(s, w->d), ANF_OK); // the parent's are as they were
  anf_step_free(s);
  anf_module_free(m);
}

static void a_child_submits_runs(void **state) {
  world *w = *state;
  anf_module *m = NULL;
  anf_step *s = two_threads(w, &m);
  assert_int_equal(submits(s), 0);
  assert_int_equal(status_in_child(submits, s), 0);
  assert_int_equal(status_in_child(frees, s), 0);
  assert_int_equal(submits(s), 0);
  anf_step_free(s);
  anf_module_free(m);
}

static void never_ends(void *arg) {
  (void)arg;
  for (;;) pause();
}

static int waits(void *w) { return anfi_os_worker_busy(w) || anfi_os_worker_wait(w) ? 1 : 0; }

static int lives_on(void *arg) {
  anfi_worker *w = anfi_os_worker_new(arg);
  anfi_os_worker_start(w, never_ends, NULL);
  return status_in_child(waits, w);
}

static void work_of_the_parent_is_not_waited_for(void **state) {
  world *w = *state;
  assert_int_equal(status_in_child(lives_on, w->cx), 0);
}

/* ---- a library that goes ---- */

static pthread_barrier_t used, gone;

static void *use(void *use_stream) {
  int (*f)(void);
  memcpy(&f, &use_stream, sizeof f);
  int good = f();
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&gone);
  return good ? &used : NULL;
}

static int unload(void *path) {
  pthread_t t;
  void *lib = dlopen(path, RTLD_NOW), *f = lib ? dlsym(lib, "use_stream") : NULL, *good = NULL;
  pthread_barrier_init(&used, NULL, 2);
  pthread_barrier_init(&gone, NULL, 2);
  if (!f || pthread_create(&t, NULL, use, f)) return 1;
  pthread_barrier_wait(&used);
  dlclose(lib);
  pthread_barrier_wait(&gone);
  pthread_join(t, &good);
  return good ? 0 : 2;
}

static void a_thread_outlives_the_library(void **state) {
  (void)state;
  assert_int_equal(status_in_child(unload, (void *)(uintptr_t)plugin), 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      TEST(a_child_makes_its_own_threads),
      TEST(a_child_submits_runs),
      TEST(work_of_the_parent_is_not_waited_for),
      TEST(a_thread_outlives_the_library),
  };
  if (argc != 2) return 2;
  plugin = argv[1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
