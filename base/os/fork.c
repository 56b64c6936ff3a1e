// SPDX-License-Identifier: Apache-2.0
/* How often this process was forked: a thread of the parent is not there in the child.
 *   n = anfi_os_forks(); fork(); in the child anfi_os_forks()   ->   n + 1 */
#include "base/os/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint forks;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool counted;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }
static void count_forks(void) { counted = pthread_atfork(NULL, NULL, count_fork) == 0; }

bool anfi_os_forks(unsigned *n) {
  pthread_once(&once, count_forks);
  *n = atomic_load_explicit(&forks, memory_order_relaxed);
  return counted;
}
