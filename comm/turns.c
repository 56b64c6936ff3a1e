// SPDX-License-Identifier: Apache-2.0
/* Short time slices for a thread that moves bytes beside others that compute, on cores that they fill.
 *   anfi_comm_short_turns()   ->   the calling thread asks Linux for slices of 0.1 ms and timers exact to 5 us
 *   anfi_comm_give_turn()     ->   one whose turn it is by now runs, not at the next tick of the clock */
#define _GNU_SOURCE // syscall
#include "comm/comm.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As struct sched_attr of linux/sched/types.h, its first version. */
typedef struct attr {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
} attr;

enum { TURN_NS = 100000, SLACK_NS = 5000 }; // Linux has no shorter turns
enum { LONG_NS = 500000, TIMES = 256 };     // an exchange works less long; until the next try

void anfi_comm_short_turns(void) {
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
  attr a = {.size = sizeof a};
  if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) == 0 && a.policy == 0) {
    a.runtime = TURN_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
  }
#endif
  (void)prctl(PR_SET_TIMERSLACK, SLACK_NS);
}

/* A thread that has run more than its share when a message wakes it gets its turn at the next tick, up to 4 ms later, unless the one
 * that computes yields. That costs the rest of a turn, where other programs want the core: then it only asks for its own time,
 * where Linux looks whose turn it is. */
void anfi_comm_give_turn(uint32_t *patience) {
  struct timespec t;
  if (*patience) {
    --*patience;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return;
  }
  uint64_t from = anfi_comm_now();
  sched_yield();
  if (anfi_comm_now() - from > LONG_NS) *patience = TIMES;
}
