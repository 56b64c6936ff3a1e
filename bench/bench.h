// SPDX-License-Identifier: Apache-2.0
/* What benchmarks share: a clock, medians, and one line a figure with the limit that it must keep.
 * A benchmark checks that what it measures is right, and ends with status 1 if it is not, or if a
 * limit is broken. */
#ifndef ANF_BENCH_H
#define ANF_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "anfora/anfora.h"

enum { BENCH_RUNS = 5 };

static int bench_bad; // figures beyond their limit, and wrong results

static inline double bench_now(void) { // seconds
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds that this process computed: for work of one thread, hardly disturbed by what else runs.
 */
static inline double bench_cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A number below n, by xorshift, as peers draw theirs. */
static inline size_t bench_below(uint64_t *state, size_t n) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (size_t)(*state % n);
}

static inline void bench_check(bool claim, const char *what) {
  if (claim) return;
  printf("WRONG: %s\n", what);
  bench_bad = 1;
}

static inline int bench_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The slowest of the fastest tenth of rates, which sorts them. */
static inline double bench_fast_tenth(size_t n, double *v) {
  qsort(v, n, sizeof *v, bench_order);
  return v[n - 1 - n / 10];
}

/* Sorts the samples; prints median, spread and limit (0: none). */
static inline void bench_line(const char *what, const char *unit, size_t n, double *sample,
                              double limit) {
  qsort(sample, n, sizeof *sample, bench_order);
  double median = sample[n / 2];
  printf("  %-28s %10.4g %-7s", what, median, unit);
  if (n > 1) printf(" (%.4g to %.4g)", sample[0], sample[n - 1]);
  if (limit > 0) printf("  limit %g%s", limit, median <= limit ? "" : "  BROKEN");
  putchar('\n');
  fflush(stdout); // a long benchmark shows what it has
  if (limit > 0 && median > limit) bench_bad = 1;
}

#endif
