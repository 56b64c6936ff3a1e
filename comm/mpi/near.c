// SPDX-License-Identifier: Apache-2.0
/* Processes of one machine exchange over memory that they share (comm/shared.c): there whoever waits sleeps until a message
 * comes, while MPI has to be asked again and again, on cores that compute. MPI starts the ranks and ends them.
 *
 *   start, wait, cancel -> memory      abort, free -> memory and MPI */
#define _DEFAULT_SOURCE // mkdtemp, gethostname
#include "comm/mpi/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/mpi/shrink.h"

enum { ROOM = 256 };

/* INVARIANT: messages go by `by`, which is `area`, or `mpi` after ranks that met again have no memory in common. */
typedef struct near_link {
  anf_comm_link area, mpi;
  const anf_comm_link *by;
} near_link;

static void *start(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes) {
  const anf_comm_link *a = ((const near_link *)user)->by;
  return a->start(a->user, send, peer, tag, at, bytes);
}
static anf_comm_why wait_for(void *user, void *request, uint64_t ms, int32_t *rank) {
  const anf_comm_link *a = ((const near_link *)user)->by;
  return a->wait(a->user, request, ms, rank);
}
static void cancel(void *user, void *request) {
  const anf_comm_link *a = ((const near_link *)user)->by;
  a->cancel(a->user, request);
}
static void leave_area(near_link *l) {
  if (l->by == &l->area) l->area.free(l->area.user);
  l->by = &l->mpi;
}
static void give_up(void *user, int32_t blame) {
  const near_link *l = (const near_link *)user;
  if (l->by == &l->area) l->area.abort(l->area.user, blame);
  l->mpi.abort(l->mpi.user, blame);
}
static void leave(void *user) {
  near_link *l = (near_link *)user;
  leave_area(l);
  l->mpi.free(l->mpi.user);
  free(l);
}

static void awaited(void *user, bool is) {
  const anf_comm_link *a = ((const near_link *)user)->by;
  if (a->awaited) a->awaited(a->user, is);
}

/* Rank 0 makes a folder in memory for the file that all map. "": it could not. */
static bool name_folder(MPI_Comm all, uint64_t end, int32_t rank, const char *in, char *folder) {
  memset(folder, 0, ROOM);
  if (!rank) {
    int n = snprintf(folder, ROOM, "%s/anfora-XXXXXX", in);
    if (n < 0 || n >= ROOM || !mkdtemp(folder)) memset(folder, 0, ROOM);
  }
  return anfi_mpi_tell(all, end, ROOM, folder);
}

/* A number of this machine since it started. */
static int machine(void) {
  char name[ROOM] = {0};
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  size_t n = f ? fread(name, 1, sizeof name - 1, f) : 0;
  if (f) fclose(f);
  if (!n) gethostname(name, sizeof name - 1);
  uint32_t h = 2166136261u;
  for (const char *p = name; *p; p++) h = (h ^ (uint32_t)(unsigned char)*p) * 16777619u;
  return (int)(h >> 1);
}

static bool on_one_machine(MPI_Comm all, uint64_t end, bool *wanted) {
  int here = machine(), x[3] = {here, -here, !*wanted};
  bool good = anfi_mpi_most(all, end, 3, x);
  *wanted = good && !x[2];
  return good && x[0] == -x[1];
}

static bool every(MPI_Comm all, uint64_t end, bool good) {
  int none = !good;
  return anfi_mpi_most(all, end, 1, &none) && !none;
}

/* The memory that all share. NULL, or why there is none. */
static const char *share(MPI_Comm all, uint64_t end, const anf_comm_link *link, const char *in,
                         anf_comm_link *area) {
  char folder[ROOM], path[ROOM + 8];
  bool named = name_folder(all, end, link->rank, in, folder);
  snprintf(path, sizeof path, "%s/area", folder);
  bool good = named && *folder && anfi_comm_shared(path, link->rank, link->ranks, area);
  bool all_have = named && every(all, end, good);
  if (!link->rank && *folder) {
    unlink(path);
    rmdir(folder);
  }
  if (good && !all_have) area->free(area->user);
  if (all_have) return NULL;
  return *folder ? "a rank found no room there, or there are more than 16 ranks"
                 : "rank 0 can make no folder there";
}

/* In the folder that is named; else in memory, or where temporary files are. */
static const char *share_somewhere(MPI_Comm all, uint64_t end, const anf_comm_link *link,
                                   const char *named, anf_comm_link *area) {
  const char *temporary = getenv("TMPDIR");
  if (named) return share(all, end, link, named, area);
  if (!share(all, end, link, "/dev/shm", area)) return NULL;
  return share(all, end, link, temporary && *temporary ? temporary : "/tmp", area);
}

/* All ranks call it. False: they are not meant to share memory. */
static bool try_to_share(MPI_Comm all, uint64_t end, int32_t each, const anf_comm_link *link,
                         anf_comm_link *area, const char **note) {
  const char *said = getenv("ANFORA_MPI_SHARED");
  bool named = said && *said == '/', wanted = !said || strcmp(said, "off") != 0;
  *note = NULL;
  if (link->ranks <= each || !on_one_machine(all, end, &wanted) || !wanted) return false;
  *note = each > 1 ? "their processes have several ranks each"
                   : share_somewhere(all, end, link, named ? said : NULL, area);
  return true;
}

static bool meet(void *user, uint64_t ms, anf_comm_link *link) {
  near_link *l = (near_link *)user;
  if (!l->mpi.reinit(l->mpi.user, ms, link)) return false;
  leave_area(l);
  l->mpi.rank = link->rank;
  l->mpi.ranks = link->ranks;
  bool meant =
      try_to_share(anfi_mpi_all(&l->mpi), anfi_mpi_now() + ms, 1, link, &l->area, &link->note);
  if (meant && !link->note) l->by = &l->area;
  return true;
}

void anfi_mpi_near(MPI_Comm all, int32_t each, uint64_t end, anf_comm_link *link) {
  near_link *l = (near_link *)malloc(sizeof *l);
  const char *note = "memory is used up";
  bool have = every(all, end, l != NULL);
  bool shares = have && try_to_share(all, end, each, link, &l->area, &note) && !note;
  for (int32_t i = 0; i < each; i++) link[i].note = note;
  if (!shares) {
    free(l);
    return;
  }
  l->mpi = *link;
  l->by = &l->area;
  *link = (anf_comm_link){.size = sizeof *link,
                          .user = l,
                          .rank = link->rank,
                          .ranks = link->ranks,
                          .start = start,
                          .wait = wait_for,
                          .cancel = cancel,
                          .abort = give_up,
                          .reinit = meet,
                          .free = leave,
                          .awaited = awaited};
}
