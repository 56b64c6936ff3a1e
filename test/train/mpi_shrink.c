// SPDX-License-Identifier: Apache-2.0
/* On 4 processes of MPI: rank 1 is killed, and the others go on as three. The functions of fault tolerance are this program's own,
 * for an MPI that lacks them: they leave out the process that is known to have ended, as those of Open MPI 5 leave out those
 * that it finds to have ended. With an argument rank 3 hangs in place of meeting: the others do not wait for it past the limit. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "anfora/comm.h"
#include "anfora/mpi.h"

enum { LIMIT_MS = 3000, LOST = 1, HANGS = 3, ALARM_S = 40 };
/* Open MPI 4.1 sends what MPI_Comm_create_group agrees on as messages with its tag: a receive that waits on that communicator for a
 * message of that tag, of any process, takes them. Notices of links have the tag 0. */
enum { TAG = 4711 };

static int revoked, shrunk;
static bool one_hangs;

/* Found by name in the program that is run. */
__attribute__((visibility("default"))) int MPIX_Comm_revoke(MPI_Comm comm);
__attribute__((visibility("default"))) int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *out,
                                                             MPI_Request *request);

int MPIX_Comm_revoke(MPI_Comm comm) {
  (void)comm;
  revoked++;
  return MPI_SUCCESS;
}

int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *out, MPI_Request *request) {
  MPI_Group all, rest;
  const int lost = LOST;
  shrunk++;
  MPI_Comm_group(comm, &all);
  MPI_Group_excl(all, 1, &lost, &rest);
  *request = MPI_REQUEST_NULL;
  int bad = MPI_Comm_create_group(comm, rest, TAG, out), me;
  MPI_Comm_rank(comm, &me);
  if (one_hangs && me == HANGS) {
    sleep(3 * LIMIT_MS / 1000);
    _exit(0);
  }
  return bad;
}

static bool sum(anf_comm *c, double *x, anf_comm_error *e) {
  anf_comm_call k = {
      .size = sizeof k, .kind = ANF_COMM_ALL_REDUCE, .dtype = ANF_F64, .in = x, .out = x, .n = 1};
  return anf_comm_wait(c, anf_comm_start(c, &k), e);
}

static int go_on(anf_comm *c) {
  int32_t me = anf_comm_rank(c);
  double x = me + 1, y = me + 1;
  anf_comm_error e;
  if (!sum(c, &x, &e) || x != 10) return fprintf(stderr, "before: %g\n", x), 1;
  if (me == LOST) raise(SIGKILL);
  if (sum(c, &x, &e) || e.rank != LOST)
    return fprintf(stderr, "rank %d is named\n", (int)e.rank), 1;
  bool met = anf_comm_reinit(c);
  if (one_hangs) return fprintf(stderr, "was %d: %s\n", (int)me, met ? "met" : "did not meet"), 0;
  if (!met) return fprintf(stderr, "the others do not meet\n"), 1;
  if (!sum(c, &y, &e))
    return fprintf(stderr, "after: rank %d %s\n", (int)e.rank, anf_comm_why_name(e.why)), 1;
  fprintf(stderr, "was %d: rank %d of %d, sum %g, revoked %d, shrunk %d%s\n", (int)me,
          (int)anf_comm_rank(c), (int)anf_comm_ranks(c), y, revoked > 0, shrunk,
          anf_comm_note(c) ? anf_comm_note(c) : "");
  return 0;
}

int main(int argc, char **argv) {
  anf_comm_link link;
  int level;
  (void)argv;
  one_hangs = argc > 1;
  alarm(ALARM_S);
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
  const char *problem = anf_mpi_links(1, &link);
  if (problem) return fprintf(stderr, "%s\n", problem), 2;
  anf_comm *c =
      anf_comm_new(&link, &(anf_comm_opts){.size = sizeof(anf_comm_opts), .timeout_ms = LIMIT_MS});
  int status = c ? go_on(c) : 1;
  anf_comm_free(c);
  _exit(
      status); // MPI_Finalize of an MPI without fault tolerance would wait for the one that was killed
}
