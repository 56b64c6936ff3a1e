// SPDX-License-Identifier: Apache-2.0
/* Going on after a process has ended, where MPI can (User-Level Failure Mitigation; Bland et al. 2013).
 *   4 processes, one ends   ->   anfi_mpi_shrink(all, ms, &comm): a communicator of the other three
 * The functions MPIX_ are looked for in the MPI that is loaded, which may be a later one than this was built with:
 * Open MPI 4.1 and 5 share the library's name. The one that shrinks without blocking is used, since one that hangs
 * rather than ends would block the others for ever. */
#define _GNU_SOURCE // RTLD_DEFAULT
#include "comm/mpi/shrink.h"

#include <dlfcn.h>
#include <stdlib.h>
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

uint64_t anfi_mpi_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* Has the request ended well by then? */
static bool ends(MPI_Request *r, uint64_t end) {
  for (int done = 0;;) {
    if (MPI_Test(r, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done) return true;
    if (anfi_mpi_now() >= end) return false;
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  }
}

bool anfi_mpi_shrink(MPI_Comm all, uint64_t end, MPI_Comm *out) {
  shrink_fn shrink;
  revoke_fn revoke;
  MPI_Request r = MPI_REQUEST_NULL;
  find(&shrink, &revoke);
  *out = MPI_COMM_NULL;
  if (!shrink || shrink(all, out, &r) != MPI_SUCCESS) return false;
  return ends(&r, end) && *out != MPI_COMM_NULL;
}

bool anfi_mpi_dup(MPI_Comm all, uint64_t end, MPI_Comm *out) {
  MPI_Request r = MPI_REQUEST_NULL;
  return MPI_Comm_idup(all, out, &r) == MPI_SUCCESS && ends(&r, end) &&
         MPI_Comm_set_errhandler(*out, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}

/* Memory that is MPI's until the request has ended: it stays if that does not. */
bool anfi_mpi_most(MPI_Comm all, uint64_t end, int n, int *x) {
  int(*m)[2][8] = (int(*)[2][8])calloc(1, sizeof *m);
  MPI_Request r = MPI_REQUEST_NULL;
  if (!m) return false;
  memcpy((*m)[0], x, (size_t)n * sizeof *x);
  if (MPI_Iallreduce((*m)[0], (*m)[1], n, MPI_INT, MPI_MAX, all, &r) != MPI_SUCCESS ||
      !ends(&r, end))
    return false;
  memcpy(x, (*m)[1], (size_t)n * sizeof *x);
  free(m);
  return true;
}

bool anfi_mpi_tell(MPI_Comm all, uint64_t end, int bytes, char *text) {
  char *m = (char *)malloc((size_t)bytes);
  MPI_Request r = MPI_REQUEST_NULL;
  if (!m) return false;
  memcpy(m, text, (size_t)bytes);
  if (MPI_Ibcast(m, bytes, MPI_CHAR, 0, all, &r) != MPI_SUCCESS || !ends(&r, end)) return false;
  memcpy(text, m, (size_t)bytes);
  free(m);
  return true;
}

void anfi_mpi_revoke(MPI_Comm comm) {
  shrink_fn shrink;
  revoke_fn revoke;
  find(&shrink, &revoke);
  if (revoke) revoke(comm);
}
