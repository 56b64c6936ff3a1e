// SPDX-License-Identifier: Apache-2.0
/* A loop on two threads by OpenMP, or with -DPTHREADPOOL by pthreadpool. */
#ifdef PTHREADPOOL
#include <pthreadpool.h>
#endif

enum { THREADS = 2 };
void region(void (*f)(void *data, long i), void *data, long n);

#ifdef PTHREADPOOL
typedef struct job {
  void (*f)(void *data, long i);
  void *data;
} job;
static void item(void *at, size_t i) {
  const job *j = at;
  j->f(j->data, (long)i);
}

void region(void (*f)(void *data, long i), void *data, long n) {
  static pthreadpool_t pool;
  job j = {f, data};
  if (!pool) pool = pthreadpool_create(THREADS);
  pthreadpool_parallelize_1d(pool, item, &j, (size_t)n, 0);
}
#else
void region(void (*f)(void *data, long i), void *data, long n) {
#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
  for (long i = 0; i < n; i++) f(data, i);
}
#endif
