// SPDX-License-Identifier: Apache-2.0
#ifndef ANFI_MPI_NEAR_H
#define ANFI_MPI_NEAR_H

#include <mpi.h>

#include "anfora/comm.h"

/* If all processes of the communicator, one rank each, are on this machine: the link's messages go over memory. All call it. */
void anfi_mpi_near(MPI_Comm all, anf_comm_link *link);

#endif
