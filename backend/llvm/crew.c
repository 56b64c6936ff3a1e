// SPDX-License-Identifier: Apache-2.0
/* Worker threads that make object files of modules while the caller builds more modules.
 *   3 modules, 2 threads:   the caller builds 0, 1, 2; the worker compiles 0 while 1 is built; both compile the rest
 * Each takes the next free module; an object file depends on its module alone, so the number of threads changes time
 * only. If a thread cannot be started, or modules pile up, the caller compiles too. */
#include "backend/llvm/llvm.h"

static void make(ljob *j, const lhand *h, const char *passes) {
  LLVMTargetMachineRef tm = j->plain ? h->plain : h->tm;
  if (j->passes && (j->err = anfi_ll_passes(j->lm->m, tm, passes))) return;
  if (ll.TargetMachineEmitToMemoryBuffer(tm, j->lm->m, LLVMObjectFile, &j->why, &j->code))
    j->code = NULL;
  anfi_ll_module_free(j->lm);
}

/* The next one; with `wait` one that is still to come. NULL: there is none. */
static ljob *take(lcrew *c, bool wait) {
  pthread_mutex_lock(&c->lock);
  while (wait && c->next == c->ready && !c->over) pthread_cond_wait(&c->more, &c->lock);
  ljob *j = c->next < c->ready ? &c->job[c->next++] : NULL;
  pthread_mutex_unlock(&c->lock);
  return j;
}

static void *work(void *p) {
  const lworker *w = (const lworker *)p;
  for (ljob *j; (j = take(w->crew, true));) make(j, &w->hand, w->crew->passes);
  return NULL;
}

/* False: it could not be started. LLVM recurses, so the stack is that of a main thread. */
static bool start(lworker *w) {
  pthread_attr_t a;
  if (pthread_attr_init(&a)) return false;
  bool good =
      !pthread_attr_setstacksize(&a, (size_t)8 << 20) && !pthread_create(&w->thread, &a, work, w);
  pthread_attr_destroy(&a);
  return good;
}

void anfi_ll_crew_start(lcrew *c, ljob *job, const char *passes, const lhand *hand, size_t nhand) {
  *c = (lcrew){.job = job, .passes = passes, .started = 1};
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->more, NULL);
  for (size_t i = 0; i < nhand; i++) c->worker[i] = (lworker){.crew = c, .hand = hand[i]};
  while (c->started < nhand && start(&c->worker[c->started])) c->started++;
}

void anfi_ll_crew_give(lcrew *c, size_t ready) {
  pthread_mutex_lock(&c->lock);
  c->ready = ready;
  bool many = c->ready - c->next > c->started;
  pthread_cond_broadcast(&c->more);
  pthread_mutex_unlock(&c->lock);
  ljob *j = many || c->started == 1 ? take(c, false) : NULL;
  if (j) make(j, &c->worker[0].hand, c->passes);
}

/* No job follows: waits for the workers. */
static void join(lcrew *c) {
  pthread_mutex_lock(&c->lock);
  c->over = true;
  pthread_cond_broadcast(&c->more);
  pthread_mutex_unlock(&c->lock);
  for (size_t i = 1; i < c->started; i++) pthread_join(c->worker[i].thread, NULL);
  pthread_cond_destroy(&c->more);
  pthread_mutex_destroy(&c->lock);
}

void anfi_ll_crew_end(lcrew *c) {
  for (ljob *j; (j = take(c, false));) make(j, &c->worker[0].hand, c->passes);
  join(c);
}

static void drop(ljob *j) {
  if (j->code) ll.DisposeMemoryBuffer(j->code);
  if (j->err) ll.ConsumeError(j->err);
  if (j->why) ll.DisposeMessage(j->why);
  j->code = NULL, j->err = NULL, j->why = NULL;
}

void anfi_ll_crew_stop(void *crew) {
  lcrew *c = (lcrew *)crew;
  if (!c->over) {
    pthread_mutex_lock(&c->lock);
    c->ready = c->next;
    pthread_mutex_unlock(&c->lock);
    join(c);
  }
  for (size_t i = 0; i < c->next; i++) drop(&c->job[i]);
}
