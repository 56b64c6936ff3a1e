// SPDX-License-Identifier: Apache-2.0
/* The fast order of sums: near the sums in 64 bits, the same bits on all ranks, in every run and in buckets of any size, as many
 * bytes in fewer messages. */
#include "test/unit/ranks.h"

#include <math.h>

enum { N = 5003, RUNS = 3 };

static float x_of(int32_t me, size_t i) {
  uint32_t h = (uint32_t)(i * 2654435761u) ^ ((uint32_t)me + 1) * 2246822519u;
  h = (h ^ h >> 15) * 3266489917u;
  return ((float)(h >> 8) / 8388608.0f - 1) * (i % 7 ? 1.0f : 1e-6f);
}

typedef struct sums {
  anf_dtype d;
  bool mean;
} sums;

/* Two parts of N numbers; the sums go to r->out. */
static void reduce_two(rank *r) {
  const sums *s = (const sums *)r->user;
  size_t each = anf_dtype_bytes(s->d), n = 2 * N;
  r->out = (double *)calloc(n, sizeof(double));
  r->nout = n;
  char *x = (char *)r->out;
  for (size_t i = 0; i < n; i++) {
    float v = x_of(r->me, i);
    double w = (double)v;
    memcpy(x + i * each, s->d == ANF_F32 ? (const void *)&v : (const void *)&w, each);
  }
  int64_t ticket[2];
  for (size_t k = 0; k < 2; k++)
    ticket[k] = anf_comm_start(r->comm, &(anf_comm_call){.size = sizeof(anf_comm_call),
                                                         .kind = ANF_COMM_ALL_REDUCE,
                                                         .dtype = s->d,
                                                         .mean = s->mean,
                                                         .in = x + k * N * each,
                                                         .out = x + k * N * each,
                                                         .n = N});
  r->status = ANF_OK;
  for (size_t k = 0; k < 2; k++)
    if (!anf_comm_wait(r->comm, ticket[k], NULL)) r->status = ANF_INVALID;
}

static void sum_with(int32_t ranks, anf_comm_order order, uint64_t bucket, const sums *s, rank *r) {
  anf_comm_opts o = {.size = sizeof o, .bucket_bytes = bucket, .order = order};
  run_ranks(ranks, &o, reduce_two, s, r);
  all_fine(ranks, r);
}

static double at(const rank *r, anf_dtype d, size_t i) {
  float v;
  memcpy(&v, (const char *)r->out + i * sizeof v, sizeof v);
  return d == ANF_F32 ? (double)v : r->out[i];
}

static void check_near(int32_t ranks, const sums *s, const rank *r) {
  double unit = s->d == ANF_F32 ? 6e-8 : 1.2e-16, by = s->mean ? ranks : 1;
  for (size_t i = 0; i < 2 * N; i++) {
    double sum = 0, all = 0;
    for (int32_t q = 0; q < ranks; q++) sum += x_of(q, i), all += fabs((double)x_of(q, i));
    if (fabs(at(r, s->d, i) * by - sum) > 5 * unit * all)
      fail_msg("%d ranks, element %zu: %g, not %g", (int)ranks, i, at(r, s->d, i), sum / by);
  }
}

static void test_fast(void **state) {
  (void)state;
  static const sums kinds[] = {{ANF_F32, false}, {ANF_F32, true}, {ANF_F64, true}};
  static const uint64_t buckets[RUNS] = {1, 1 << 20, 1 << 20};
  for (size_t k = 0; k < 3; k++)
    for (int32_t ranks = 2; ranks <= MAX_RANKS; ranks++) {
      rank first[MAX_RANKS], r[MAX_RANKS];
      size_t bytes = 2 * N * anf_dtype_bytes(kinds[k].d);
      sum_with(ranks, ANF_COMM_FAST, 0, &kinds[k], first);
      check_near(ranks, &kinds[k], first);
      for (int run = 0; run < RUNS; run++) {
        sum_with(ranks, ANF_COMM_FAST, buckets[run], &kinds[k], r);
        for (int32_t q = 0; q < ranks; q++) assert_memory_equal(r[q].out, first[0].out, bytes);
        free_outs(ranks, r);
      }
      free_outs(ranks, first);
    }
}

/* On two ranks there is one addition, which is rounded once in either order. */
static void test_two_ranks(void **state) {
  (void)state;
  const sums s = {ANF_F32, true};
  rank a[2], b[2];
  sum_with(2, ANF_COMM_FAST, 0, &s, a);
  sum_with(2, ANF_COMM_BY_RANK, 0, &s, b);
  assert_memory_equal(a[0].out, b[0].out, 2 * N * sizeof(float));
  free_outs(2, a);
  free_outs(2, b);
}

typedef struct few {
  float x[MAX_RANKS];
  anf_comm_counts counts[MAX_RANKS];
  size_t n;
} few;

static void reduce_few(rank *r) {
  few *f = (few *)(uintptr_t)r->user;
  float *x = (float *)calloc(f->n, sizeof *x);
  for (size_t i = 0; i < f->n; i++) x[i] = f->x[r->me];
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_ALL_REDUCE,
                     .dtype = ANF_F32,
                     .in = x,
                     .out = x,
                     .n = f->n};
  r->status = anf_comm_wait(r->comm, anf_comm_start(r->comm, &k), NULL) ? ANF_OK : ANF_INVALID;
  r->out = (double *)malloc(sizeof(double));
  *r->out = (double)x[f->n - 1];
  f->counts[r->me].size = sizeof f->counts[0];
  anf_comm_count(r->comm, &f->counts[r->me]);
  free(x);
}

/* 2^24 + 1 is 2^24 in f32: rounded after each addition, (2^24 + 1) + (1 + 1); once, 2^24 + 3 -> 2^24 + 4. */
static void test_where_it_rounds(void **state) {
  (void)state;
  for (int order = 0; order < ANF_COMM_ORDER_COUNT; order++)
    for (size_t n = 1; n < 40000; n += 19999) {
      rank r[4];
      few f = {.x = {16777216, 1, 1, 1}, .n = n};
      anf_comm_opts o = {.size = sizeof o, .order = (anf_comm_order)order};
      run_ranks(4, &o, reduce_few, &f, r);
      all_fine(4, r);
      for (int q = 0; q < 4; q++)
        assert_true(*r[q].out == (order == ANF_COMM_FAST ? 16777218 : 16777220));
      free_outs(4, r);
    }
}

static void test_bytes(void **state) {
  (void)state;
  rank r[MAX_RANKS];
  few f = {.x = {0}, .n = 80000};
  anf_comm_opts o = {.size = sizeof o, .order = ANF_COMM_FAST};
  run_ranks(8, &o, reduce_few, &f, r);
  all_fine(8, r);
  for (int q = 0; q < 8; q++) assert_int_equal(f.counts[q].bytes, 2 * 80000 * 4 * 7 / 8);
  free_outs(8, r);
}

static void test_refused(void **state) {
  (void)state;
  anf_comm *c[2];
  anf_comm_opts o = {.size = sizeof o, .order = ANF_COMM_ORDER_COUNT};
  assert_false(anf_comm_threads(2, &o, c));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fast), cmocka_unit_test(test_two_ranks),
                                     cmocka_unit_test(test_where_it_rounds),
                                     cmocka_unit_test(test_bytes), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
