// SPDX-License-Identifier: Apache-2.0
/* The run time, inside. INVARIANT: a stream belongs to the thread that runs a call on it; worker
 * threads of its pool have streams of their own, whose parent it is. */
#ifndef ANFI_RT_H
#define ANFI_RT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "anfora/rt_abi.h"

/* Sanitizers watch stacks, and jumps between them. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define RT_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RT_WATCHED 1
#endif

/* The compiler's own jumps save less than those of the C library, and so are quicker. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(RT_WATCHED)
typedef void *anfi_rt_jump[5];
#define RT_SETJMP(j)  __builtin_setjmp(j)
#define RT_LONGJMP(j) __builtin_longjmp(j, 1)
#else
typedef jmp_buf anfi_rt_jump;
#define RT_SETJMP(j)  setjmp(j)
#define RT_LONGJMP(j) longjmp(j, 1)
#endif

/* One call under protection. */
typedef struct anfi_rt_frame {
  anfi_rt_jump jump;
  struct anfi_rt_frame *outer;
  uint64_t mark; // of the allocator, when it began
} anfi_rt_frame;

typedef struct anfi_rt_block {
  struct anfi_rt_block *below;
  char *end;
  size_t bytes; // all of it
} anfi_rt_block;

/* Memory of anf_rt_keep. */
typedef struct anfi_rt_kept {
  struct anfi_rt_chunk *first, *now;
  char *at, *end;     // free part of `now`
  size_t last, taken; // bytes of the newest, of all
} anfi_rt_kept;

struct anf_stream {
  /* what stops a call, and its limits */
  atomic_uintptr_t
      stack_limit;           // ORDER: first, at ANF_RT_STACK_LIMIT; RT_STOP: stop at the next poll
  atomic_int stop;           // why: a trap kind; 0: nobody asked
  atomic_bool committed;     // nothing stops this call any more
  bool armed;                // anfi_rt_arm was called since the last call from outside
  uint64_t steps, max_steps; // of code that counts
  uint64_t depth, max_depth;
  /* memory: a stack of blocks */
  anfi_rt_frame *frame; // innermost
  char *at, *end;       // free part of the top block
  anfi_rt_block *block, *spare;
  size_t taken;    // bytes of all blocks
  size_t limit;    // of bytes in this call; 0: none but o.max_bytes
  bool over_limit; // it made an allocation fail
  size_t peak;     // most bytes of blocks in use so far: what the first block of a call asks for
  /* the C stack, and threads */
  char *stack; // the deep one; NULL: not made yet
  bool on_stack;
  _Atomic(struct anfi_rt_pool *) pool; // who stops the stream walks over it
  anf_stream *parent;                  // of a worker's
  /* options and reports */
  anf_stream_opts o;
  anf_trap trap;
  anfi_rt_kept kept;
  void (*print)(void *user, int64_t site, size_t n, const uint64_t *leaf);
  void *print_user;
  const anf_object *object; // whose function is under way, and tells its sites; or NULL
  struct anf_comm *comm;    // or NULL
  uint64_t *leaf;           // of what is printed next
  size_t nleaf, leaf_cap;
};

/* Bytes between the limit that functions compare with and the end of the stack: room for
 * those that do not compare, and for functions of the C library. */
enum { RT_MARGIN = 128 << 10, RT_ALIGN = 64 };

/* cpu.c: the first of the features, with commas between, that this processor lacks; NULL: it has all. */
const char *anfi_rt_lacks(const char *needs, size_t *len);

/* stop.c */
#define RT_STOP UINTPTR_MAX
static inline bool anfi_rt_stopped(const anf_stream *s) {
  return atomic_load_explicit(&s->stack_limit, memory_order_relaxed) == RT_STOP;
}
/* The limit of the stack, unless the stream is to stop. */
void anfi_rt_limit(anf_stream *s, uintptr_t limit);
void anfi_rt_begin(anf_stream *s); // a call from outside: forgets what stopped the last one
/* Before a call from outside, so that requests from here on stop it. 0: no limit of what code counts, and of
 * `bytes`, those that the stream holds of itself included. */
void anfi_rt_arm(anf_stream *s, uint64_t max_steps, uint64_t max_depth, size_t bytes);
/* May the stream take so many more? Workers share the limit of the stream that they work for. */
bool anfi_rt_may_take(anf_stream *s, size_t held, size_t more);
void anfi_rt_disarm(anf_stream *s); // after it

/* Stops the call on s after so many milliseconds, unless it is ended before. */
typedef struct anfi_rt_timer {
  anf_stream *s;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct timespec end;
  bool done;
} anfi_rt_timer;
bool anfi_rt_timer_start(anfi_rt_timer *t, anf_stream *s, uint64_t ms); // false: no thread
void anfi_rt_timer_end(anfi_rt_timer *t);

/* enter.c */
/* Runs f; a trap inside ends it, and is in s->trap. */
anf_status anfi_rt_protect(anf_stream *s, void (*f)(void *), void *arg);
/* Goes on with a trap that is in s->trap, to the frame around. */
void anfi_rt_rethrow(anf_stream *s) ANF_RT_NORETURN;

/* stack.c */
/* Calls f(arg) on the stack that ends at `top`, `bytes` long. False: it could not be made. */
bool anfi_rt_call_on(char *stack, size_t bytes, void (*f)(void *), void *arg);
char *anfi_rt_stack_new(size_t bytes); // with a guard page below it; NULL: no memory
void anfi_rt_stack_free(char *stack, size_t bytes);

/* site.c: what a Print shows, by the text of its site */
void anfi_rt_put_site(FILE *to, const char *text, size_t n, const uint64_t *leaf);

/* parallel.c */
void anfi_rt_pool_free(struct anfi_rt_pool *p);
void anfi_rt_pool_stop(struct anfi_rt_pool *p); // from any thread: workers stop at their next poll

/* keep.c */
void anfi_rt_keep_reset(anf_stream *s); // at a call from outside
void anfi_rt_keep_free(anf_stream *s);

/* stream.c */
void anfi_rt_stream_init(anf_stream *s, const anf_stream_opts *o);
void anfi_rt_stream_clear(anf_stream *s);
void anfi_rt_blocks_free(anf_stream *s);

#endif
