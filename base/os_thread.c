// SPDX-License-Identifier: Apache-2.0
/* A thread that does one piece of work at a time for another. */
#define _GNU_SOURCE // sched_getaffinity
#include "base/base.h"

#include <pthread.h>
#include <sched.h>

struct anfi_worker {
  anf_ctx *cx;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t change;
  void (*fn)(void *);
  void *arg;
  bool busy, stop;
};

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
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->change, NULL);
  if (pthread_create(&w->thread, NULL, work, w) == 0) return w;
  unmake(w);
  anfi_throw_nomem(cx);
}

void anfi_os_worker_start(anfi_worker *w, void (*fn)(void *), void *arg) {
  pthread_mutex_lock(&w->lock);
  w->fn = fn;
  w->arg = arg;
  w->busy = true;
  pthread_cond_broadcast(&w->change);
  pthread_mutex_unlock(&w->lock);
}

void anfi_os_worker_wait(anfi_worker *w) {
  pthread_mutex_lock(&w->lock);
  while (w->busy) pthread_cond_wait(&w->change, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

bool anfi_os_worker_busy(anfi_worker *w) {
  pthread_mutex_lock(&w->lock);
  bool busy = w->busy;
  pthread_mutex_unlock(&w->lock);
  return busy;
}

void anfi_os_worker_free(anfi_worker *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->change);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  unmake(w);
}
