// SPDX-License-Identifier: Apache-2.0
#ifndef ANFI_MPI_NEAR_H
#define ANFI_MPI_NEAR_H

#include <mpi.h>

#include "anfora/comm.h"

/* mpi.c: the communicator of all processes of such a link. */
MPI_Comm anfi_mpi_all(const anf_comm_link *link);
/* If all processes of the communicator are on this machine, one rank each: the link's messages go over memory. All call it, and it
 * ends by that time of anfi_mpi_now. If they cannot though they were meant to, the links have a note. */
void anfi_mpi_near(MPI_Comm all, int32_t each, uint64_t end, anf_comm_link *link);

#endif
