// SPDX-License-Identifier: Apache-2.0
/* Ranks as processes of MPI: a provider of links for communicators (anfora/comm.h), in a library of its own,
 * libanfora_mpi, so that only programs that ask for it need MPI. Built where MPI is installed.
 *
 *   anf_comm_link link;
 *   const char *problem = anf_mpi_links(1, &link);
 *   anf_comm *comm = problem ? NULL : anf_comm_new(&link, NULL);
 */
#ifndef ANFORA_MPI_H
#define ANFORA_MPI_H

#include "anfora/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Links of `each` ranks of this process, in a world of `each` ranks in every process of MPI_COMM_WORLD: out[i] is that of
 * rank each * process + i. All processes call this at once, with the same number. NULL when it is done; else what went
 * wrong, as text that stays.
 *
 * MPI is initialised if the host has not done it, with MPI_THREAD_SERIALIZED, and then finalised when the last link is freed:
 * so such a process calls this once. A host that has initialised MPI needs MPI_THREAD_MULTIPLE, unless it makes no other
 * calls of MPI while links are there. The world is that of duplicates of MPI_COMM_WORLD: a host's own messages stay apart. */
ANF_API const char *ANF_NULLABLE anf_mpi_links(int32_t each, anf_comm_link *out);

#ifdef __cplusplus
}
#endif
#endif
