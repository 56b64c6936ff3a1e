// SPDX-License-Identifier: Apache-2.0
/* Threads that make object files of modules. Each takes the next module that nobody has taken; what it
 * makes follows from the module alone, so how many threads there are changes nothing but time. A
 * thread that cannot be had is one fewer: the caller's does the work if need be. */
#include "backend/llvm/llvm.h"

typedef struct crew {
  ljob *job;
  size_t n;
  anf_jit_level level;
  atomic_size_t next;
} crew;

typedef struct worker {
  crew *c;
  lhand hand;
  pthread_t thread;
} worker;

static void make(ljob *j, const lhand *h, anf_jit_level o) {
  LLVMTargetMachineRef tm = j->plain ? h->plain : h->tm;
  if (j->passes && (j->err = anfi_ll_passes(j->lm->m, tm, o))) return;
  if (ll.TargetMachineEmitToMemoryBuffer(tm, j->lm->m, LLVMObjectFile, &j->why, &j->code))
    j->code = NULL;
  anfi_ll_module_free(j->lm);
}

static void *work(void *p) {
  const worker *w = (const worker *)p;
  for (;;) {
    size_t i = atomic_fetch_add(&w->c->next, 1);
    if (i >= w->c->n) return NULL;
    make(&w->c->job[i], &w->hand, w->c->level);
  }
}

/* False: it could not be started. LLVM recurses, so the stack is that of a main thread. */
static bool start(worker *w) {
  pthread_attr_t a;
  if (pthread_attr_init(&a)) return false;
  bool good =
      !pthread_attr_setstacksize(&a, (size_t)8 << 20) && !pthread_create(&w->thread, &a, work, w);
  pthread_attr_destroy(&a);
  return good;
}

void anfi_ll_crew(ljob *job, size_t n, anf_jit_level o, const lhand *hand, size_t nhand) {
  crew c = {.job = job, .n = n, .level = o};
  worker all[LL_THREADS];
  size_t started = 1;
  atomic_init(&c.next, 0);
  for (size_t i = 0; i < nhand; i++) all[i] = (worker){.c = &c, .hand = hand[i]};
  while (started < nhand && start(&all[started])) started++;
  work(&all[0]);
  for (size_t i = 1; i < started; i++) pthread_join(all[i].thread, NULL);
}
