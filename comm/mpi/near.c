// SPDX-License-Identifier: Apache-2.0
/* Processes of one machine exchange over memory that they share (comm/shared.c): there whoever waits sleeps until a message
 * comes, while MPI has to be asked again and again, on cores that compute. MPI starts the ranks and ends them.
 *
 *   start, wait, cancel -> memory      abort, free -> memory and MPI */
#define _DEFAULT_SOURCE // mkdtemp
#include "comm/mpi/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"

enum { ROOM = 64 };

typedef struct near_link {
  anf_comm_link area, mpi;
} near_link;

static void *start(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes) {
  const anf_comm_link *a = &((const near_link *)user)->area;
  return a->start(a->user, send, peer, tag, at, bytes);
}
static anf_comm_why wait_for(void *user, void *request, uint64_t ms, int32_t *rank) {
  const anf_comm_link *a = &((const near_link *)user)->area;
  return a->wait(a->user, request, ms, rank);
}
static void cancel(void *user, void *request) {
  const anf_comm_link *a = &((const near_link *)user)->area;
  a->cancel(a->user, request);
}
static void give_up(void *user, int32_t blame) {
  const near_link *l = (const near_link *)user;
  l->area.abort(l->area.user, blame);
  l->mpi.abort(l->mpi.user, blame);
}
static void leave(void *user) {
  near_link *l = (near_link *)user;
  l->area.free(l->area.user);
  l->mpi.free(l->mpi.user);
  free(l);
}

static void awaited(void *user, bool is) {
  const anf_comm_link *a = &((const near_link *)user)->area;
  a->awaited(a->user, is);
}

/* Rank 0 makes a folder in memory for the file that all map. "": it could not. */
static void name_folder(MPI_Comm all, int32_t rank, char *folder) {
  memset(folder, 0, ROOM);
  if (!rank) {
    snprintf(folder, ROOM, "/dev/shm/anfora-XXXXXX");
    if (!mkdtemp(folder)) *folder = 0;
  }
  MPI_Bcast(folder, ROOM, MPI_CHAR, 0, all);
}

static bool on_one_machine(MPI_Comm all, int32_t ranks) {
  MPI_Comm here;
  int n = 0;
  if (MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) != MPI_SUCCESS)
    return false;
  MPI_Comm_size(here, &n);
  MPI_Comm_free(&here);
  return n == ranks;
}

static bool every(MPI_Comm all, bool good) {
  int mine = good, least = 0;
  return MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, all) == MPI_SUCCESS && least;
}

void anfi_mpi_near(MPI_Comm all, anf_comm_link *link) {
  const char *said = getenv("ANFORA_MPI_SHARED");
  bool wanted = !said || strcmp(said, "off") != 0;
  if (link->ranks < 2 || !every(all, on_one_machine(all, link->ranks) && wanted)) return;
  char folder[ROOM], path[ROOM + 8];
  name_folder(all, link->rank, folder);
  snprintf(path, sizeof path, "%s/area", folder);
  near_link *l = (near_link *)malloc(sizeof *l);
  bool good = l && *folder && anfi_comm_shared(path, link->rank, link->ranks, &l->area);
  bool all_have = every(all, good);
  if (!link->rank && *folder) {
    unlink(path);
    rmdir(folder);
  }
  if (!all_have) {
    if (good) l->area.free(l->area.user);
    free(l);
    return;
  }
  l->mpi = *link;
  *link = (anf_comm_link){.size = sizeof *link,
                          .user = l,
                          .rank = link->rank,
                          .ranks = link->ranks,
                          .start = start,
                          .wait = wait_for,
                          .cancel = cancel,
                          .abort = give_up,
                          .free = leave,
                          .awaited = awaited};
}
