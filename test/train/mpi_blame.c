// SPDX-License-Identifier: Apache-2.0
/* On 4 processes of MPI: 0 waits for 1, which waits for 2, which waits for 3, which is silent. Rank 0's time ends first, and
 * all name rank 3. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "anfora/comm.h"
#include "anfora/mpi.h"

enum { LIMIT_MS = 2000 };

static void wait_for_next(anf_comm *c) {
  int32_t me = anf_comm_rank(c), last = anf_comm_ranks(c) - 1;
  double x = 1;
  if (me == last) {
    usleep(2 * LIMIT_MS * 1000);
    return;
  }
  usleep(50000u * (unsigned)me);
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_SEND_RECV,
                     .dtype = ANF_F64,
                     .in = &x,
                     .out = &x,
                     .n = 1,
                     .from = me + 1,
                     .to = -1};
  anf_comm_error e;
  anf_comm_wait(c, anf_comm_start(c, &k), &e);
  fprintf(stderr, "rank %d %s\n", (int)e.rank, anf_comm_why_name(e.why));
}

int main(void) {
  anf_comm_link link;
  const char *problem = anf_mpi_links(1, &link);
  if (problem) return fprintf(stderr, "%s\n", problem), 2;
  anf_comm *c =
      anf_comm_new(&link, &(anf_comm_opts){.size = sizeof(anf_comm_opts), .timeout_ms = LIMIT_MS});
  if (!c) return 1;
  wait_for_next(c);
  anf_comm_free(c);
  return 0;
}
