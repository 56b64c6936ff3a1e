// SPDX-License-Identifier: Apache-2.0
/* A thread that does one piece of work at a time for another.
 *   anfi_os_worker_start(w, fn, arg); ..; anfi_os_worker_wait(w);   // fn(arg) ran meanwhile
 * In a child of fork the thread does not exist: the caller does the work itself. */
#define _GNU_SOURCE // sched_getaffinity
#include "base/base.h"
#include "base/os/fork.h"

#include <pthread.h>
#include <sched.h>

struct anfi_worker {
  /* the thread */
  anf_ctx *cx;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t change;
  /* its work */
  void (*fn)(void *);
  void *arg;
  bool busy, stop;
  unsigned forks; // when it was made
};

/* In a child of fork it is not, and whether the lock is free is not known: the worker is a name for the caller. */
static bool has_thread(const anfi_worker *w) {
  unsigned forks;
  return anfi_os_forks(&forks) && forks == w->forks;
}

uint64_t anfi_os_thread_id(void) { return (uint64_t)pthread_self(); }

uint32_t anfi_os_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? (uint32_t)n : 1;
}

static void *work(void *p) {
  anfi_worker *w = (anfi_worker *)p;
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (!w->busy && !w->stop) pthread_cond_wait(&w->change, &w->lock);
    if (!w->busy) break;
    pthread_mutex_unlock(&w->lock);
    w->fn(w->arg);
    pthread_mutex_lock(&w->lock);
    w->busy = false;
    pthread_cond_broadcast(&w->change);
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void unmake(anfi_worker *w) {
  pthread_cond_destroy(&w->change);
  pthread_mutex_destroy(&w->lock);
  anfi_raw(w->cx, w, sizeof *w, 0);
}

anfi_worker *anfi_os_worker_new(anf_ctx *cx) {
  anfi_worker *w = (anfi_worker *)anfi_raw(cx, NULL, 0, sizeof *w);
  if (!w) anfi_throw_nomem(cx);
  *w = (anfi_worker){.cx = cx};
  bool counted = anfi_os_forks(&w->forks);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->change, NULL);
  if (counted && pthread_create(&w->thread, NULL, work, w) == 0) return w;
  unmake(w);
  anfi_throw_nomem(cx);
}

void anfi_os_worker_start(anfi_worker *w, void (*fn)(void *), void *arg) {
  if (!has_thread(w)) {
    w->busy = false;
    fn(arg);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->fn = fn;
  w->arg = arg;
  w->busy = true;
  pthread_cond_broadcast(&w->change);
  pthread_mutex_unlock(&w->lock);
}

bool anfi_os_worker_wait(anfi_worker *w) {
  if (!has_thread(w)) return !w->busy;
  pthread_mutex_lock(&w->lock);
  while (w->busy) pthread_cond_wait(&w->change, &w->lock);
  pthread_mutex_unlock(&w->lock);
  return true;
}

bool anfi_os_worker_busy(anfi_worker *w) {
  if (!has_thread(w)) return false;
  pthread_mutex_lock(&w->lock);
  bool busy = w->busy;
  pthread_mutex_unlock(&w->lock);
  return busy;
}

void anfi_os_worker_free(anfi_worker *w) {
  if (!w) return;
  if (!has_thread(w)) {
    anfi_raw(w->cx, w, sizeof *w, 0);
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->change);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  unmake(w);
}
