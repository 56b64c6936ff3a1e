// SPDX-License-Identifier: Apache-2.0
/* Parallel loops: each stream has a pool of workers, made at the first loop that needs it.
 *   10 iterations, 3 threads   ->   0 .. 3 on the caller, 4 .. 6 and 7 .. 9 on two workers
 * Every participant gets one run of neighbouring iterations, so results do not depend on timing. Workers wait for the
 * next loop by polling about as long as it takes to wake one, then asleep, and the caller waits for them likewise; the
 * lock is taken only for those who sleep. A loop inside a loop runs in order. If participants trap, the one with the
 * least iteration is reported. A child of fork has the memory of a pool, without its threads: it makes its own. */
#include "base/os/fork.h"
#include "runtime/rt.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef void (*closure_fn)(anf_stream *s, void *data, int64_t i, void *env);

typedef struct loop {
  closure_fn f;
  void *data, *env;
  int64_t begin, step;
  uint64_t n, parts;
} loop;

typedef struct worker {
  struct anfi_rt_pool *pool;
  anf_stream stream;
  pthread_t thread;
  uint32_t part;
  atomic_uintptr_t limit; // of its stack, once it runs
  anf_status status;      // of the last loop
} worker;

typedef struct anfi_rt_pool {
  /* threads and their job */
  worker *w;
  uint32_t n;
  loop job;
  /* synchronisation */
  atomic_uint generation, pending;
  atomic_uint asleep;        // workers that wait for `wake`
  atomic_bool stop, waiting; // does the stream's own thread wait for `done`?
  bool busy;                 // a loop is under way, as the stream's own thread sees it
  unsigned forks;            // when it was made
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
} pool;

enum { WORKER_STACK = 64 << 20, SPIN = 16000 }; // half a millisecond of looks

/* Between looks; now and then who was woken on this processor gets it. */
static inline void relax(int i) {
  enum { OFTEN = 512 };
  if (i % OFTEN == OFTEN - 1) sched_yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

typedef struct share {
  anf_stream *s;
  const loop *job;
  uint64_t from, to;
} share;

static share share_of(anf_stream *s, const loop *job, uint64_t part) {
  uint64_t each = job->n / job->parts, more = job->n % job->parts,
           from = part * each + (part < more ? part : more);
  return (share){s, job, from, from + each + (part < more)};
}

/* Stores past the caches (`stream` of Tensor IR) are not in order with others until a fence. */
static void fence(void) {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}

static void run_share(void *p) {
  const share *h = (const share *)p;
  const loop *j = h->job;
  for (uint64_t k = h->from; k < h->to; k++) {
    anf_rt_poll(h->s);
    j->f(h->s, j->data, (int64_t)((uint64_t)j->begin + k * (uint64_t)j->step), j->env);
  }
  fence();
}

/* Waits until the generation is not `seen`; false: the pool ends. */
static bool next_job(pool *p, unsigned seen) {
  for (int i = 0; i < SPIN; i++) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen)
      return !atomic_load(&p->stop);
    relax(i);
  }
  pthread_mutex_lock(&p->lock);
  atomic_fetch_add(&p->asleep,
                   1); // before the last look: new_generation looks here after it published
  while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
  atomic_fetch_sub(&p->asleep, 1);
  pthread_mutex_unlock(&p->lock);
  return !atomic_load(&p->stop);
}

static void *work(void *arg) {
  worker *w = (worker *)arg;
  pool *p = w->pool;
  char here;
  atomic_store(&w->limit, (uintptr_t)&here - WORKER_STACK + 2 * (uintptr_t)RT_MARGIN);
  anfi_rt_limit(&w->stream, atomic_load(&w->limit));
  for (unsigned seen = 0; next_job(p, seen); seen++) {
    if (w->part < p->job.parts) {
      share h = share_of(&w->stream, &p->job, w->part);
      w->status = anfi_rt_protect(&w->stream, run_share, &h);
    }
    if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->waiting)) {
      pthread_mutex_lock(&p->lock);
      pthread_cond_signal(&p->done);
      pthread_mutex_unlock(&p->lock);
    }
  }
  return NULL;
}

static bool start_worker(pool *p, worker *w, anf_stream *parent) {
  pthread_attr_t attr;
  w->pool = p;
  w->part = (uint32_t)(w - p->w) + 1;
  anfi_rt_stream_init(&w->stream, &parent->o);
  w->stream.parent = parent;
  if (pthread_attr_init(&attr) != 0) return false;
  bool good = pthread_attr_setstacksize(&attr, WORKER_STACK) == 0 &&
              pthread_create(&w->thread, &attr, work, w) == 0;
  pthread_attr_destroy(&attr);
  return good;
}

/* As many workers as the system gives, of those asked for. */
static pool *pool_new(anf_stream *s, uint32_t n) {
  unsigned forks;
  pool *p = anfi_os_forks(&forks) ? (pool *)calloc(1, sizeof *p) : NULL;
  if (!p) return NULL;
  p->forks = forks;
  p->w = (worker *)calloc(n, sizeof *p->w);
  if (!p->w) {
    free(p);
    return NULL;
  }
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->done, NULL);
  while (p->n < n && start_worker(p, &p->w[p->n], s)) p->n++;
  return p;
}

static void new_generation(pool *p) {
  atomic_fetch_add(&p->generation, 1);
  if (!atomic_load(&p->asleep)) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

static bool has_threads(const pool *p) {
  unsigned forks;
  return anfi_os_forks(&forks) && p->forks == forks;
}

static void join_workers(pool *p) {
  atomic_store(&p->stop, true);
  new_generation(p);
  for (uint32_t i = 0; i < p->n; i++) pthread_join(p->w[i].thread, NULL);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->done);
}

void anfi_rt_pool_free(pool *p) {
  if (!p) return;
  if (has_threads(p)) join_workers(p); // else a thread that is not here may hold the lock
  for (uint32_t i = 0; i < p->n; i++) anfi_rt_stream_clear(&p->w[i].stream);
  free(p->w);
  free(p);
}

static void wait_done(pool *p) {
  for (int i = 0; i < SPIN; i++) {
    if (!atomic_load_explicit(&p->pending, memory_order_acquire)) return;
    relax(i);
  }
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->waiting, true); // before the last look, as above
  while (atomic_load(&p->pending)) pthread_cond_wait(&p->done, &p->lock);
  atomic_store(&p->waiting, false);
  pthread_mutex_unlock(&p->lock);
}

void anfi_rt_pool_stop(pool *p) {
  for (uint32_t i = 0; p && i < p->n; i++) atomic_store(&p->w[i].stream.stack_limit, RT_STOP);
}

/* Workers forget the last request, unless there is a new one. */
static void resume_workers(anf_stream *s, pool *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (anfi_rt_stopped(&p->w[i].stream))
      atomic_store(&p->w[i].stream.stack_limit, atomic_load(&p->w[i].limit));
  if (atomic_load(&s->stack_limit) == RT_STOP) anf_rt_trap(s, ANF_TRAP_CANCELLED, 0, 0, NULL, NULL);
}

static void share_out(anf_stream *s, const loop *job) {
  pool *p = s->pool;
  resume_workers(s, p);
  p->busy = true;
  p->job = *job;
  for (uint32_t i = 0; i < p->n; i++) p->w[i].status = ANF_OK;
  atomic_store(&p->pending, p->n);
  new_generation(p);
  share mine = share_of(s, &p->job, 0);
  anf_status st = anfi_rt_protect(s, run_share, &mine);
  wait_done(p);
  p->busy = false;
  for (uint32_t i = 0; i < p->n && st == ANF_OK; i++) {
    st = p->w[i].status;
    if (st != ANF_OK) s->trap = p->w[i].stream.trap;
  }
  if (st != ANF_OK) anfi_rt_rethrow(s);
}

void anf_rt_parallel(void *closure, anf_stream *s, void *data, void *env, int64_t begin,
                     int64_t end, int64_t step, int32_t threads) {
  if (step <= 0) anf_rt_trap(s, ANF_TRAP_STEP, 0, 0, NULL, NULL);
  if (begin >= end) return;
  fence();
  loop job = {.data = data, .env = env, .begin = begin, .step = step};
  memcpy(&job.f, &closure, sizeof job.f);
  job.n = ((uint64_t)end - (uint64_t)begin - 1) / (uint64_t)step + 1;
  uint64_t want =
      threads > 0 && (uint32_t)threads < s->o.threads ? (uint32_t)threads : s->o.threads;
  if (want > job.n) want = job.n;
  if (s->pool && !has_threads(s->pool)) {
    anfi_rt_pool_free(s->pool);
    s->pool = NULL;
  }
  if (want > 1 && !s->parent && !s->pool) s->pool = pool_new(s, s->o.threads - 1);
  if (want > 1 && s->pool && s->pool->n && !s->pool->busy) {
    job.parts = want < s->pool->n + 1 ? want : s->pool->n + 1;
    share_out(s, &job);
    return;
  }
  job.parts = 1;
  share all = share_of(s, &job, 0);
  run_share(&all);
}
