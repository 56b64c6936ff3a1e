// SPDX-License-Identifier: Apache-2.0
/* The link between processes of one machine, here of threads and of a process that is killed: operations with messages larger
 * than a ring, and failures that name a rank. */
#define _DEFAULT_SOURCE // usleep
#include "test/unit/folder.h"
#include "test/unit/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"

enum { RANKS = 4, MANY = 300007 };
enum { HANGS, LEAVES, GIVES_UP, HOWS };

typedef struct place {
  char folder[TEST_PATH], file[TEST_PATH + 8];
} place;

static void make_place(place *p) {
  assert_true(test_folder(p->folder));
  snprintf(p->file, sizeof p->file, "%s/area", p->folder);
}

static void remove_place(const place *p) {
  assert_int_equal(unlink(p->file), 0);
  assert_int_equal(rmdir(p->folder), 0);
}

static anf_comm *join(const place *p, int32_t me, int32_t ranks, uint64_t ms) {
  anf_comm_link link;
  anf_comm_opts o = {.size = sizeof o, .timeout_ms = ms};
  return anfi_comm_shared(p->file, me, ranks, &link) ? anf_comm_new(&link, &o) : NULL;
}

static void join_all(const place *p, uint64_t ms, anf_comm **out) {
  for (int32_t i = 0; i < RANKS; i++) assert_non_null(out[i] = join(p, i, RANKS, ms));
}

static bool reduce(anf_comm *c, double *x, uint64_t n, anf_comm_error *e) {
  anf_comm_call k = {
      .size = sizeof k, .kind = ANF_COMM_ALL_REDUCE, .dtype = ANF_F64, .in = x, .out = x, .n = n};
  return anf_comm_wait(c, anf_comm_start(c, &k), e);
}

/* ---- sums ---- */

static void reduce_all_sizes(rank *r) {
  static const uint64_t sizes[] = {1, 3, 5000, MANY, 2, MANY};
  double *x = (double *)malloc(MANY * sizeof *x);
  r->status = x ? ANF_OK : ANF_NOMEM;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes && r->status == ANF_OK; k++) {
    for (uint64_t i = 0; i < sizes[k]; i++) x[i] = (double)i + 0.25 * (r->me + 1);
    if (!reduce(r->comm, x, sizes[k], NULL)) r->status = ANF_INVALID;
    for (uint64_t i = 0; i < sizes[k]; i++)
      if (x[i] != (double)RANKS * (double)i + 0.25 * 10) r->status = ANF_INTERNAL;
  }
  free(x);
}

static void test_sums(void **state) {
  (void)state;
  place p;
  rank r[RANKS];
  anf_comm *c[RANKS];
  make_place(&p);
  join_all(&p, 20000, c);
  run_ranks_on(RANKS, c, reduce_all_sizes, NULL, r);
  all_fine(RANKS, r);
  for (int i = 0; i < RANKS; i++) anf_comm_free(c[i]);
  remove_place(&p);
}

/* ---- failures ---- */

static void fail_at_rank_2(rank *r) {
  int how = *(const int *)r->user;
  double x = 1;
  anf_comm_error e;
  if (r->me == 2 && how == HANGS) usleep(2500000);
  if (r->me == 2 && how == GIVES_UP) anf_comm_abort(r->comm, -1);
  if (r->me == 2) return;
  bool good = reduce(r->comm, &x, 1, &e);
  bool why = e.why == ANF_COMM_LOST || (how == HANGS && e.why == ANF_COMM_LATE);
  r->status = !good && e.rank == 2 && why ? ANF_OK : ANF_INVALID;
}

static void test_failures(void **state) {
  (void)state;
  for (int how = 0; how < HOWS; how++) {
    place p;
    rank r[RANKS];
    anf_comm *c[RANKS];
    make_place(&p);
    join_all(&p, how == HANGS ? 500 : 20000, c);
    if (how == LEAVES) {
      anf_comm_free(c[2]);
      c[2] = NULL;
    }
    run_ranks_on(RANKS, c, fail_at_rank_2, &how, r);
    for (int i = 0; i < RANKS; i++)
      if (i != 2 && r[i].status != ANF_OK) fail_msg("rank %d, case %d", i, how);
    for (int i = 0; i < RANKS; i++) anf_comm_free(c[i]);
    remove_place(&p);
  }
}

/* The child joins, tells, and is killed while this process waits for it; it stays a zombie until then. */
static void test_killed(void **state) {
  (void)state;
  place p;
  int pipes[2];
  char byte;
  double x = 1;
  anf_comm_error e;
  make_place(&p);
  assert_int_equal(pipe(pipes), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    anf_comm_link link;
    byte = anfi_comm_shared(p.file, 1, 2, &link) ? 'y' : 'n';
    if (write(pipes[1], &byte, 1) == 1) pause();
    _exit(1);
  }
  assert_int_equal(read(pipes[0], &byte, 1), 1);
  assert_int_equal(byte, 'y');
  anf_comm *c = join(&p, 0, 2, 20000);
  assert_non_null(c);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_false(reduce(c, &x, 1, &e));
  assert_int_equal(e.why, ANF_COMM_LOST);
  assert_int_equal(e.rank, 1);
  anf_comm_free(c);
  assert_int_equal(waitpid(child, NULL, 0), child);
  close(pipes[0]);
  close(pipes[1]);
  remove_place(&p);
}

/* ---- one of four processes is killed at a random moment ---- */

enum { KILLS = 50, MOST_MS = 20000, LIMIT_MS = 3000 };

/* Exchanges until that fails. 0: the failure names the rank. */
static int work_until_killed(const place *p, int me, int victim, int tell) {
  static const uint64_t sizes[] = {1, MANY, 5000, 3, 40000};
  double *x = (double *)calloc(MANY, sizeof *x);
  anf_comm_error e = {.rank = -1};
  anf_comm *c = join(p, me, RANKS, LIMIT_MS);
  if (!x || !c || !reduce(c, x, 1, &e) || write(tell, "y", 1) != 1) return 2;
  for (size_t i = 0; reduce(c, x, sizes[i % 5], &e); i++) memset(x, 0, MANY * sizeof *x);
  anf_comm_free(c);
  free(x);
  return e.why == ANF_COMM_LOST && e.rank == victim ? 0 : 10 + e.rank;
}

/* Its exit status; -1: it hangs. */
static int ends(pid_t child) {
  int status = 0;
  for (int ms = 0; ms < MOST_MS; ms++) {
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    usleep(1000);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

static void kill_one(int victim, unsigned us) {
  place p;
  int tell[2], status[RANKS];
  char byte;
  pid_t child[RANKS];
  make_place(&p);
  assert_int_equal(pipe(tell), 0);
  for (int i = 0; i < RANKS; i++) {
    child[i] = fork();
    assert_true(child[i] >= 0);
    if (!child[i]) _exit(work_until_killed(&p, i, victim, tell[1]));
  }
  for (int i = 0; i < RANKS; i++) assert_int_equal(read(tell[0], &byte, 1), 1);
  usleep(us);
  assert_int_equal(kill(child[victim], SIGKILL), 0);
  for (int i = 0; i < RANKS; i++) status[i] = ends(child[i]);
  for (int i = 0; i < RANKS; i++)
    if (status[i] != (i == victim ? -2 : 0))
      fail_msg("rank %d of which %d was killed after %u us: status %d", i, victim, us, status[i]);
  close(tell[0]);
  close(tell[1]);
  remove_place(&p);
}

static void test_kills(void **state) {
  (void)state;
  unsigned seed = (unsigned)getpid();
  print_message("# seed %u\n", seed);
  for (int i = 0; i < KILLS; i++) {
    seed = seed * 1103515245U + 12345U;
    kill_one((int)(seed >> 16) % RANKS, (seed >> 8) % 20000U);
  }
}

static void test_refused(void **state) {
  (void)state;
  anf_comm_link link;
  assert_false(anfi_comm_shared("/nowhere/area", 0, 2, &link));
  assert_false(anfi_comm_shared("/dev/null", 2, 2, &link));
  assert_false(anfi_comm_shared("/dev/null", 0, 1000, &link));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_killed), cmocka_unit_test(test_kills),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
