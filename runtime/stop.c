// SPDX-License-Identifier: Apache-2.0
/* Stopping a call from another thread, a signal handler or a clock.
 *
 *   anf_stream_cancel(s)      the stack limit of s becomes the largest address
 *   next poll, next call      compares with it and traps
 *
 * Recursive functions compare the stack pointer with the limit anyhow, and loops poll the same word: a request costs
 * code nothing more to see. Workers of the pool have streams of their own, which are stopped one by one.
 *
 * INVARIANT: the request is stored before the pool is read, and anf_rt_parallel looks at the request after it
 * published the pool, so one of the two sees the other (both sequentially consistent).
 *
 * Code that must not stop half-way says so (ANF_RT_COMMIT): a training step before it writes over its state.
 *
 * A limit of time is a thread of its own that sleeps until then: only calls with a limit have one. */
#define _POSIX_C_SOURCE 200809L
#include "runtime/rt.h"

/* ---- requests ---- */

static void stop(anf_stream *s, anf_trap_kind why) {
  int none = ANF_TRAP_NONE;
  atomic_compare_exchange_strong(&s->stop, &none, (int)why);
  if (atomic_load(&s->committed)) return;
  atomic_store(&s->stack_limit, RT_STOP);
  anfi_rt_pool_stop(atomic_load(&s->pool));
}

void anf_stream_cancel(anf_stream *s) {
  if (s) stop(s, ANF_TRAP_CANCELLED);
}

void anfi_rt_limit(anf_stream *s, uintptr_t limit) {
  uintptr_t old = atomic_load(&s->stack_limit);
  while (old != RT_STOP && !atomic_compare_exchange_weak(&s->stack_limit, &old, limit)) continue;
}

static void forget(anf_stream *s) {
  atomic_store(&s->stop, ANF_TRAP_NONE);
  atomic_store(&s->committed, false);
  atomic_store(&s->stack_limit, 0);
}

static bool within(size_t most, size_t held, size_t more) {
  return more <= most && held <= most - more;
}

bool anfi_rt_may_take(anf_stream *s, size_t held, size_t more) {
  size_t limit = s->parent ? s->parent->limit : s->limit;
  if (!limit || within(limit, held, more)) return within(s->o.max_bytes, held, more);
  s->over_limit = true;
  return false;
}

void anfi_rt_arm(anf_stream *s, uint64_t max_steps, uint64_t max_depth, size_t bytes) {
  if (s->frame) return; // a call inside a call stops with it
  forget(s);
  s->limit = bytes;
  s->over_limit = false;
  if (bytes && (s->taken > bytes || s->kept.taken > bytes)) { // what earlier calls left
    anfi_rt_blocks_free(s);
    anfi_rt_keep_free(s);
    s->peak = 0;
  }
  s->steps = s->depth = 0;
  s->max_steps = max_steps ? max_steps : UINT64_MAX;
  s->max_depth = max_depth ? max_depth : UINT64_MAX;
  s->armed = true;
}

void anfi_rt_disarm(anf_stream *s) {
  if (s->frame) return;
  forget(s);
  s->limit = 0;
  s->armed = false;
}

void anfi_rt_begin(anf_stream *s) {
  if (s->frame || s->parent) return;
  if (!s->armed) forget(s);
  s->armed = false;
}

/* ---- what code calls ---- */

void anf_rt_poll(anf_stream *s) {
  if (anfi_rt_stopped(s)) anf_rt_trap(s, ANF_TRAP_CANCELLED, 0, 0, NULL, NULL);
}

/* Either this sees the request, or the request sees that it is too late. */
static void commit(anf_stream *s) {
  atomic_store(&s->committed, true);
  if (atomic_load(&s->stop) == ANF_TRAP_NONE) return;
  atomic_store(&s->stack_limit, RT_STOP);
  anf_rt_trap(s, ANF_TRAP_CANCELLED, 0, 0, NULL, NULL);
}

void anf_rt_count(anf_stream *s, int32_t what) {
  if (what == ANF_RT_COMMIT) commit(s);
  else if (atomic_load_explicit(&s->committed, memory_order_relaxed)) return;
  else if (what == ANF_RT_LEAVE) s->depth--;
  else if (what == ANF_RT_CALL && ++s->depth > s->max_depth)
    anf_rt_trap(s, ANF_TRAP_CALLS, 0, 0, NULL, NULL);
  else if (++s->steps > s->max_steps) anf_rt_trap(s, ANF_TRAP_STEPS, 0, 0, NULL, NULL);
}

/* ---- limits of time ---- */

static void *wait_for_it(void *p) {
  anfi_rt_timer *t = (anfi_rt_timer *)p;
  pthread_mutex_lock(&t->lock);
  int r = 0;
  while (!t->done && r == 0) r = pthread_cond_timedwait(&t->changed, &t->lock, &t->end);
  if (!t->done) stop(t->s, ANF_TRAP_TIME);
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

static struct timespec after(uint64_t ms) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t)(ms / 1000);
  t.tv_nsec += (long)(ms % 1000) * 1000000;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

bool anfi_rt_timer_start(anfi_rt_timer *t, anf_stream *s, uint64_t ms) {
  pthread_condattr_t attr;
  t->s = s;
  t->done = false;
  t->end = after(ms < UINT32_MAX ? ms : UINT32_MAX);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, &attr);
  pthread_condattr_destroy(&attr);
  if (pthread_create(&t->thread, NULL, wait_for_it, t) == 0) return true;
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->changed);
  return false;
}

void anfi_rt_timer_end(anfi_rt_timer *t) {
  pthread_mutex_lock(&t->lock);
  t->done = true;
  pthread_cond_signal(&t->changed);
  pthread_mutex_unlock(&t->lock);
  pthread_join(t->thread, NULL);
  pthread_mutex_destroy(&t->lock);
  pthread_cond_destroy(&t->changed);
}
