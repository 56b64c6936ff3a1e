// SPDX-License-Identifier: Apache-2.0
/* On 4 processes of MPI: rank 1 is killed, and the others go on as three. The functions of fault tolerance are this program's own,
 * for an MPI that lacks them: they leave out the process that is known to have ended, as those of Open MPI 5 leave out those
 * that it finds to have ended. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "anfora/comm.h"
#include "anfora/mpi.h"

enum { LIMIT_MS = 3000, LOST = 1 };

static int revoked, shrunk;

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
  return MPI_Comm_create_group(comm, rest, 0, out);
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
  if (!anf_comm_reinit(c)) return fprintf(stderr, "the others do not meet\n"), 1;
  if (!sum(c, &y, &e))
    return fprintf(stderr, "after: rank %d %s\n", (int)e.rank, anf_comm_why_name(e.why)), 1;
  fprintf(stderr, "was %d: rank %d of %d, sum %g, revoked %d, shrunk %d%s\n", (int)me,
          (int)anf_comm_rank(c), (int)anf_comm_ranks(c), y, revoked > 0, shrunk,
          anf_comm_note(c) ? anf_comm_note(c) : "");
  return 0;
}

int main(void) {
  anf_comm_link link;
  int level;
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
