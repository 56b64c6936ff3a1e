// SPDX-License-Identifier: Apache-2.0
/* Going on after a process has ended, where MPI can (User-Level Failure Mitigation; Bland et al. 2013).
 *   4 processes, one ends   ->   anfi_mpi_shrink(all, ms, &comm): a communicator of the other three
 * The functions MPIX_ are looked for in the MPI that is loaded, which may be a later one than this was built with:
 * Open MPI 4.1 and 5 share the library's name. The one that shrinks without blocking is used, since one that hangs
 * rather than ends would block the others for ever. */
#define _GNU_SOURCE // RTLD_DEFAULT
#include "comm/mpi/shrink.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

typedef int (*shrink_fn)(MPI_Comm, MPI_Comm *, MPI_Request *);
typedef int (*revoke_fn)(MPI_Comm);

static void find(shrink_fn *shrink, revoke_fn *revoke) {
  void *s = dlsym(RTLD_DEFAULT, "MPIX_Comm_ishrink"), *r = dlsym(RTLD_DEFAULT, "MPIX_Comm_revoke");
  *shrink = NULL;
  *revoke = NULL;
  if (!s || !r) return;
  memcpy(shrink, &s, sizeof s);
  memcpy(revoke, &r, sizeof r);
}

bool anfi_mpi_can_shrink(void) {
  shrink_fn shrink;
  revoke_fn revoke;
  find(&shrink, &revoke);
  return shrink != NULL;
}

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

bool anfi_mpi_shrink(MPI_Comm all, uint64_t ms, MPI_Comm *out) {
  shrink_fn shrink;
  revoke_fn revoke;
  MPI_Request r = MPI_REQUEST_NULL;
  find(&shrink, &revoke);
  *out = MPI_COMM_NULL;
  if (!shrink || shrink(all, out, &r) != MPI_SUCCESS) return false;
  int done = 0;
  for (uint64_t end = now_ms() + ms; !done && now_ms() < end;) {
    if (MPI_Test(&r, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (!done) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  }
  return done && *out != MPI_COMM_NULL;
}

void anfi_mpi_revoke(MPI_Comm comm) {
  shrink_fn shrink;
  revoke_fn revoke;
  find(&shrink, &revoke);
  if (revoke) revoke(comm);
}
