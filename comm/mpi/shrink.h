// SPDX-License-Identifier: Apache-2.0
#ifndef ANFI_MPI_SHRINK_H
#define ANFI_MPI_SHRINK_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Does this MPI go on without processes that ended (MPIX_Comm_ishrink, MPIX_Comm_revoke: Open MPI 5 and later)? */
bool anfi_mpi_can_shrink(void);
/* The processes that are left of `all`, which all of them call within so many milliseconds. False: they did not. */
bool anfi_mpi_shrink(MPI_Comm all, uint64_t ms, MPI_Comm *out);
/* Operations under way between processes of the communicator end with an error, and so do later ones. */
void anfi_mpi_revoke(MPI_Comm comm);

#endif
