// SPDX-License-Identifier: Apache-2.0
/* Short time slices for a thread that moves bytes beside others that compute, on cores that they fill.
 *   anfi_comm_short_turns()   ->   the calling thread asks Linux for slices of 0.1 ms and timers exact to 5 us */
#define _GNU_SOURCE // syscall
#include "comm/comm.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

void anfi_comm_give_turn(void) { sched_yield(); }
