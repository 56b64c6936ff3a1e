// SPDX-License-Identifier: Apache-2.0
/* Meeting: the functions of MPI's fault tolerance, and calls of all processes that end by a time limit. */
#ifndef ANFI_MPI_SHRINK_H
#define ANFI_MPI_SHRINK_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Does this MPI go on without processes that ended (MPIX_Comm_ishrink, MPIX_Comm_revoke: Open MPI 5 and later)? */
bool anfi_mpi_can_shrink(void);
/* The processes that are left of `all`, which all of them call until that time. False: they did not. */
bool anfi_mpi_shrink(MPI_Comm all, uint64_t end, MPI_Comm *out);
/* What processes do together while they meet, until a time in ms of anfi_mpi_now: one that is lost or hangs meanwhile would keep the
 * others for ever. False: an error, or time has ended; then MPI may still write to `*out` or memory of its own, and this process calls
 * MPI no more. */
uint64_t anfi_mpi_now(void);
bool anfi_mpi_dup(MPI_Comm all, uint64_t end, MPI_Comm *out);  // errors are returned there
bool anfi_mpi_most(MPI_Comm all, uint64_t end, int n, int *x); // n <= 8: the greatest of each
bool anfi_mpi_tell(MPI_Comm all, uint64_t end, int bytes, char *text); // that of process 0
/* Operations under way between processes of the communicator end with an error, and so do later ones. */
void anfi_mpi_revoke(MPI_Comm comm);

#endif
