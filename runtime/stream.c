// SPDX-License-Identifier: Apache-2.0
/* Streams: made, freed, and the one that each thread has of its own.
 *   anf_stream_of_thread() == anf_stream_of_thread()   // made at the first call, freed with the thread */
#include "runtime/rt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(offsetof(anf_stream, stack_limit) == ANF_RT_STACK_LIMIT, "compiled code knows it");

static uint32_t cpus(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (uint32_t)n : 1;
}

void anfi_rt_stream_init(anf_stream *s, const anf_stream_opts *o) {
  memset(s, 0, sizeof *s);
  if (o) memcpy(&s->o, o, o->size && o->size < sizeof s->o ? o->size : sizeof s->o);
  if (!s->o.threads) s->o.threads = cpus();
  if (!s->o.stack_bytes) s->o.stack_bytes = (size_t)256 << 20;
  if (s->o.stack_bytes < 4 * (size_t)RT_MARGIN) s->o.stack_bytes = 4 * (size_t)RT_MARGIN;
  s->o.stack_bytes = (s->o.stack_bytes + 65535) / 65536 * 65536;
  if (!s->o.block_bytes) s->o.block_bytes = (size_t)1 << 20;
  if (!s->o.max_bytes) s->o.max_bytes = SIZE_MAX;
  s->trap.func = s->trap.file = "";
}

void anfi_rt_stream_clear(anf_stream *s) {
  anfi_rt_pool_free(s->pool);
  anfi_rt_blocks_free(s);
  if (s->stack) anfi_rt_stack_free(s->stack, s->o.stack_bytes);
  free(s->leaf);
  anfi_rt_keep_free(s);
}

/* A newer host's options that are set, and that are not known here. */
static bool unknown(const anf_stream_opts *o) {
  size_t given = o ? o->size : 0, i = sizeof *o;
  if (given && (given < sizeof given || given > sizeof *o + 4096)) return true;
  while (i < given && !((const char *)o)[i]) i++;
  return i < given;
}

anf_stream *anf_stream_new(const anf_stream_opts *o) {
  if (unknown(o)) return NULL;
  anf_stream *s = (anf_stream *)malloc(sizeof *s);
  if (s) anfi_rt_stream_init(s, o);
  return s;
}

void anf_stream_free(anf_stream *s) {
  if (!s) return;
  anfi_rt_stream_clear(s);
  free(s);
}

uint32_t anf_stream_threads(const anf_stream *s) { return s ? s->o.threads : 0; }
void anf_stream_set_threads(anf_stream *s, uint32_t n) {
  if (!s) return;
  if (!n) n = cpus();
  if (n == s->o.threads) return;
  anfi_rt_pool_free(s->pool); // the next loop makes one that fits
  s->pool = NULL;
  s->o.threads = n;
}
const anf_trap *anf_stream_trap(const anf_stream *s) { return s ? &s->trap : NULL; }

/* ---- the thread's own ---- */

static pthread_key_t own;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;
static bool own_made;
static _Thread_local anf_stream *mine; // the same, quicker to find

static void free_own(void *s) {
  mine = NULL;
  anf_stream_free((anf_stream *)s);
}
static void make_own(void) { own_made = pthread_key_create(&own, free_own) == 0; }

/* A library that is unloaded leaves no destructor behind: a thread that ends later would call what is gone. */
__attribute__((destructor)) static void forget_own(void) {
  if (own_made) pthread_key_delete(own);
  own_made = false;
}

anf_stream *anf_stream_of_thread(void) {
  if (mine) return mine;
  pthread_once(&own_once, make_own);
  if (!own_made) return NULL;
  anf_stream *s = anf_stream_new(NULL);
  if (s && pthread_setspecific(own, s) != 0) {
    anf_stream_free(s);
    return NULL;
  }
  return mine = s;
}

/* ---- words ---- */

const char *anf_trap_words(anf_trap_kind k) {
  static const char *const words[ANF_TRAP_KIND_COUNT] = {
      [ANF_TRAP_NONE] = "nothing",
      [ANF_TRAP_DIVISION] = "integer division by zero",
      [ANF_TRAP_BOUNDS] = "an index outside of its tensor",
      [ANF_TRAP_STEP] = "the step of a loop is not positive",
      [ANF_TRAP_DEPTH] = "too many calls under way",
      [ANF_TRAP_MEMORY] = "no memory",
      [ANF_TRAP_HOST] = "a host's function failed",
      [ANF_TRAP_SITE] = "the program stopped",
      [ANF_TRAP_CANCELLED] = "cancelled",
      [ANF_TRAP_TIME] = "the limit of time was reached",
      [ANF_TRAP_STEPS] = "the limit of steps was reached",
      [ANF_TRAP_CALLS] = "the limit of calls under way was reached"};
  return (unsigned)k < ANF_TRAP_KIND_COUNT ? words[k] : "";
}
