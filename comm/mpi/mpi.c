// SPDX-License-Identifier: Apache-2.0
/* Links over MPI. A rank is one of `each` ranks of a process: rank = each * process + number.
 *
 *   rank a to rank b  ->  process b / each, on the duplicate of MPI_COMM_WORLD for (a % each, b % each), with the tag as it is
 *
 * Notices have a duplicate of their own; each process always has one receive posted there.
 *
 * Which rank is to blame when time ends: rank 1 waits for 0, which waits for 2, which was killed. In the last quarter of its
 * time a rank asks the one that it waits for; a rank that waits, too, answers for whom, and is asked next. The one that does
 * not answer is named.
 *
 * INVARIANT: all calls of MPI after the first are under one lock, so MPI_THREAD_SERIALIZED is enough. They are made by the
 * threads of communicators, and by hosts that give up or free a link.
 * INVARIANT: a receive that MPI could not withdraw may still be written to by its progress engine. The world is dead then: MPI
 * is not called again by this process. */
#define _POSIX_C_SOURCE 200809L
#include "anfora/mpi.h"
#include "comm/mpi/near.h"
#include "comm/mpi/shrink.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHUNK = 1 << 30 };   // bytes of one message of MPI, whose counts are ints
enum { TURNS = 20 };        // of a wait until it sleeps
enum { REST_MS = 1 };       // until a receive that was withdrawn must have ended
enum { GRACE_MS = 50 };     // for messages of a rank that has left
enum { JOIN_MS = 60000 };   // until all processes have joined
enum { LEAVE_MS = 600000 }; // until all have left

enum { ASK_PART = 4 };  // the last 1/4 of a wait asks
enum { ASK_TIMES = 8 }; // in it

typedef enum notice_kind { HAS_LEFT, GAVE_UP, ASKS, WAITS } notice_kind;
typedef struct notice {
  int32_t kind, rank; // a notice_kind; who left, is to blame, is asked, waits
  int32_t other;      // ASKS: who asks; WAITS: for whom
} notice;
typedef struct post {
  notice n;
  MPI_Request r;
} post;

typedef struct world {
  struct world *before; // the world that some processes of have ended; MPI may still write to it
  pthread_mutex_t lock;
  MPI_Comm *pair; // [from % each][to % each]
  MPI_Comm notices;
  MPI_Request incoming;
  notice received;
  post *last,
      *talk; // [ranks of this process][processes]: that it left or gave up; questions and answers
  int32_t each, process, processes, left;
  int32_t blame;  // the rank that someone gave up for, or -1
  bool *gone;     // by rank
  int32_t *waits; // by rank: for whom, as it does or said last; -1
  int64_t tags;
  bool ours, dead;
} world;

typedef struct mpi_link {
  world *w;
  int32_t rank;
  bool ended; // the others know that it gave up or left
} mpi_link;

typedef struct request {
  int n; // messages, of CHUNK bytes but for the last
  bool send;
  int32_t peer;
  MPI_Request r[];
} request;

/* ---- notices ---- */

static void listen(world *w) {
  MPI_Irecv(&w->received, (int)sizeof w->received, MPI_BYTE, MPI_ANY_SOURCE, 0, w->notices,
            &w->incoming);
}

static bool ours(const world *w, int32_t rank) { return rank / w->each == w->process; }

/* From a rank of this process; if what was said there before is still under way, not at all. */
static void say(world *w, post *from, int32_t rank, int32_t process, notice n) {
  post *p = &from[(rank % w->each) * w->processes + process];
  int done = 1;
  if (p->r != MPI_REQUEST_NULL) MPI_Test(&p->r, &done, MPI_STATUS_IGNORE);
  if (!done) return;
  p->n = n;
  MPI_Isend(&p->n, (int)sizeof p->n, MPI_BYTE, process, 0, w->notices, &p->r);
}

static void take(world *w, notice n) {
  int32_t ranks = w->each * w->processes;
  if (n.rank < 0 || n.rank >= ranks || n.other < 0 || n.other >= ranks) return;
  if (n.kind == WAITS) w->waits[n.rank] = n.other;
  else if (n.kind == ASKS) {
    if (ours(w, n.rank) && w->waits[n.rank] >= 0)
      say(w, w->talk, n.rank, n.other / w->each, (notice){WAITS, n.rank, w->waits[n.rank]});
  } else {
    w->gone[n.rank] = true;
    if (n.kind == GAVE_UP && w->blame < 0) w->blame = n.rank;
  }
}

static void hear(world *w) {
  for (int come = 1; come && w->incoming != MPI_REQUEST_NULL;) {
    if (MPI_Test(&w->incoming, &come, MPI_STATUS_IGNORE) != MPI_SUCCESS || !come) return;
    take(w, w->received);
    listen(w);
  }
}

/* With the lock held: to the other processes, once for each link. */
static void tell(mpi_link *l, int32_t rank, notice_kind kind) {
  world *w = l->w;
  if (l->ended || w->dead) return;
  l->ended = true;
  for (int32_t p = 0; p < w->processes; p++)
    if (p != w->process) say(w, w->last, l->rank, p, (notice){(int32_t)kind, rank, rank});
}

/* ---- who is to blame ---- */

typedef struct hunt {
  uint64_t from, step, ask; // times in ms: it begins; between questions; of the next one
  int32_t suspect, hops;
} hunt;

static hunt new_hunt(int32_t peer, uint64_t now, uint64_t ms) {
  uint64_t last = ms / ASK_PART, from = now + ms - last;
  return (hunt){.from = from, .step = last / ASK_TIMES + 1, .ask = from, .suspect = peer};
}

/* With the lock held. */
static void look(const mpi_link *l, int32_t peer, hunt *h, uint64_t now) {
  world *w = l->w;
  if (w->dead || now < h->from) return;
  int32_t ranks = w->each * w->processes;
  if (h->ask == h->from)
    for (int32_t i = 0; i < ranks; i++)
      if (!ours(w, i)) w->waits[i] = -1; // what was said long ago
  for (; h->hops < ranks && w->waits[h->suspect] >= 0; h->hops++) h->suspect = w->waits[h->suspect];
  if (h->hops == ranks) h->suspect = peer; // each waits for another
  if (now < h->ask) return;
  h->ask = now + h->step;
  if (!ours(w, h->suspect))
    say(w, w->talk, l->rank, h->suspect / w->each, (notice){ASKS, h->suspect, l->rank});
}

/* ---- messages ---- */

static bool begin(const world *w, const mpi_link *l, request *r, int tag, char *at,
                  uint64_t bytes) {
  int32_t from = r->send ? l->rank : r->peer, to = r->send ? r->peer : l->rank;
  MPI_Comm comm = w->pair[from % w->each * w->each + to % w->each];
  for (int process = r->peer / w->each; bytes; r->n++) {
    int n = bytes < CHUNK ? (int)bytes : CHUNK;
    int bad = r->send ? MPI_Isend(at, n, MPI_BYTE, process, tag, comm, &r->r[r->n])
                      : MPI_Irecv(at, n, MPI_BYTE, process, tag, comm, &r->r[r->n]);
    if (bad != MPI_SUCCESS) return false;
    at += n;
    bytes -= (uint64_t)n;
  }
  return true;
}

static void cancel(void *user, void *p);

static void *start(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes) {
  const mpi_link *l = (const mpi_link *)user;
  world *w = l->w;
  request *r = (request *)malloc(sizeof *r + (bytes / CHUNK + 1) * sizeof *r->r);
  if (!r) return NULL;
  *r = (request){.send = send, .peer = peer};
  pthread_mutex_lock(&w->lock);
  bool good = !w->dead && begin(w, l, r, (int)(tag % w->tags), (char *)at, bytes);
  pthread_mutex_unlock(&w->lock);
  if (good) return r;
  cancel(user, r);
  return NULL;
}

/* An error of MPI: after a rank has ended, or because the communicator was revoked. */
static anf_comm_why why_failed(world *w, int32_t peer, int32_t *rank) {
  hear(w);
  if (w->blame >= 0) return *rank = w->blame, ANF_COMM_LOST;
  return w->gone[peer] || anfi_mpi_can_shrink() ? ANF_COMM_LOST : ANF_COMM_BROKEN;
}

/* Is the request done, or will it never be? */
static bool settled(const mpi_link *l, request *r, anf_comm_why *why, int32_t *rank) {
  world *w = l->w;
  int done = 0;
  *why = ANF_COMM_FINE;
  if (!w->dead) {
    if (MPI_Testall(r->n, r->r, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
      return *why = why_failed(w, r->peer, rank), true;
    if (done) return true;
    hear(w);
  }
  if (!w->dead && w->blame < 0 && !w->gone[r->peer]) return false;
  *why = ANF_COMM_LOST;
  if (w->blame >= 0) *rank = w->blame;
  return true;
}

/* Asks again at once a few times, then sleeps longer and longer, so that a core that computes is not taken away. */
static void rest(int turn) {
  if (turn < TURNS) return;
  long ns = turn < 100 ? 10000 : turn < 400 ? 50000 : 200000;
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static anf_comm_why wait_for(void *user, void *p, uint64_t ms, int32_t *rank) {
  const mpi_link *l = (const mpi_link *)user;
  request *r = (request *)p;
  world *w = l->w;
  anf_comm_why why;
  uint64_t now = anfi_mpi_now(), end = now + ms;
  uint64_t lost = 0; // when the peer was found to be gone
  hunt h = new_hunt(r->peer, now, ms);
  for (int turn = 0;; turn += turn < INT_MAX) {
    pthread_mutex_lock(&w->lock);
    w->waits[l->rank] = r->peer;
    bool is = settled(l, r, &why, rank), blamed = w->dead || w->blame >= 0;
    if (is && why == ANF_COMM_FINE) w->waits[l->rank] = -1;
    now = anfi_mpi_now();
    if (!is) look(l, r->peer, &h, now);
    pthread_mutex_unlock(&w->lock);
    if (is && why == ANF_COMM_LOST && !blamed) { // its last message may come after its notice
      if (!lost) lost = now;
      is = now > lost + GRACE_MS;
    }
    if (is) break;
    if (now >= end) return *rank = h.suspect, ANF_COMM_LATE;
    rest(turn);
  }
  if (why == ANF_COMM_FINE) free(r);
  else cancel(user, r);
  return why;
}

/* Sends are left to MPI, which reads their memory at most; receives must end. */
static void cancel(void *user, void *p) {
  const mpi_link *l = (const mpi_link *)user;
  world *w = l->w;
  request *r = (request *)p;
  int done = 0;
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < r->n && !w->dead; i++) {
    if (r->r[i] == MPI_REQUEST_NULL) continue;
    if (r->send) MPI_Request_free(&r->r[i]);
    else MPI_Cancel(&r->r[i]);
  }
  uint64_t end = anfi_mpi_now() + REST_MS;
  while (!r->send && !w->dead && !done) {
    MPI_Testall(r->n, r->r, &done, MPI_STATUSES_IGNORE);
    if (!done && anfi_mpi_now() > end) w->dead = true;
  }
  pthread_mutex_unlock(&w->lock);
  free(r);
}

static void give_up(void *user, int32_t blame) {
  mpi_link *l = (mpi_link *)user;
  world *w = l->w;
  int32_t who = blame < 0 ? l->rank : blame;
  pthread_mutex_lock(&w->lock);
  if (w->blame < 0) w->blame = who;
  if (who < w->each * w->processes) w->gone[who] = true;
  tell(l, who, GAVE_UP);
  pthread_mutex_unlock(&w->lock);
}

/* ---- the end ---- */

/* And those before it. */
static void free_world(world *w) {
  while (w) {
    world *before = w->before;
    pthread_mutex_destroy(&w->lock);
    free(w->pair);
    free(w->last);
    free(w->talk);
    free(w->gone);
    free(w->waits);
    free(w);
    w = before;
  }
}

static bool all_said(const world *w, post *p) {
  for (int32_t i = 0; i < w->each * w->processes; i++) {
    int done = 1;
    if (p[i].r != MPI_REQUEST_NULL && MPI_Test(&p[i].r, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return false;
    if (!done) return false;
  }
  return true;
}

/* MPI_Finalize waits for all processes, and those that gave up do not call it. Has every rank left, and none given up? One that was
 * killed after its last operation says nothing, and one that writes a checkpoint takes long. */
static bool all_left(world *w) {
  uint64_t end = anfi_mpi_now() + LEAVE_MS;
  int32_t n = 0, ranks = w->each * w->processes;
  for (int turn = 0; n < ranks && !w->dead && w->blame < 0; turn += turn < INT_MAX) {
    pthread_mutex_lock(&w->lock);
    hear(w);
    n = 0;
    for (int32_t i = 0; i < ranks; i++) n += w->gone[i];
    pthread_mutex_unlock(&w->lock);
    if (n < ranks && anfi_mpi_now() > end) break;
    rest(turn);
  }
  return n == ranks && !w->dead && w->blame < 0;
}

/* After a failure neither MPI_Finalize nor the notices are waited for: they could last as long as a rank that hangs. */
static void close_world(world *w) {
  bool done = false;
  for (uint64_t end = anfi_mpi_now() + 1000; !w->dead && !done && anfi_mpi_now() < end;)
    done = all_said(w, w->last) && all_said(w, w->talk);
  if (!done || (w->ours && !all_left(w))) return; // MPI may still write to the world: it stays
  if (w->dead || w->blame >= 0) return;
  MPI_Cancel(&w->incoming);
  MPI_Wait(&w->incoming, MPI_STATUS_IGNORE);
  for (int32_t i = 0; i < w->each * w->each; i++) MPI_Comm_free(&w->pair[i]);
  MPI_Comm_free(&w->notices);
  if (w->ours) MPI_Finalize();
  free_world(w);
}

static void leave(void *user) {
  mpi_link *l = (mpi_link *)user;
  world *w = l->w;
  pthread_mutex_lock(&w->lock);
  w->gone[l->rank] = true;
  tell(l, l->rank, HAS_LEFT);
  bool last = --w->left == 0;
  pthread_mutex_unlock(&w->lock);
  if (last) close_world(w);
  free(l);
}

/* ---- making ---- */

/* MPI as it is, or initialised; the problem, or NULL. */
static const char *begin_mpi(bool *ours) {
  int is = 0, level = 0;
  MPI_Finalized(&is);
  if (is) return "MPI has been finalised, and cannot be initialised again";
  MPI_Initialized(&is);
  *ours = !is;
  if (is) MPI_Query_thread(&level);
  else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
    return "MPI could not be initialised";
  return level >= MPI_THREAD_SERIALIZED ? NULL
                                        : "MPI was initialised for less than MPI_THREAD_SERIALIZED";
}

/* All processes call it. What time ends on may still be written to: then the world stays, dead. */
static const char *make_comms(world *w, MPI_Comm all, uint64_t end) {
  int range[2] = {w->each, -w->each}, has = 0, *upper = NULL;
  bool good = anfi_mpi_dup(all, end, &w->notices) && anfi_mpi_most(w->notices, end, 2, range);
  if (good && range[0] != -range[1]) return "the processes of MPI have different numbers of ranks";
  for (int32_t i = 0; good && i < w->each * w->each; i++)
    good = anfi_mpi_dup(all, end, &w->pair[i]);
  w->dead = !good;
  if (!good) return "the processes of MPI do not answer, or MPI_COMM_WORLD could not be duplicated";
  MPI_Comm_get_attr(w->notices, MPI_TAG_UB, (void *)&upper, &has);
  w->tags = has ? (int64_t)*upper + 1 : 32768;
  return NULL;
}

static world *new_world(MPI_Comm all, int32_t each, bool ours) {
  world *w = (world *)calloc(1, sizeof *w);
  if (!w) return NULL;
  *w = (world){.each = each, .left = each, .ours = ours, .blame = -1};
  MPI_Comm_rank(all, &w->process);
  MPI_Comm_size(all, &w->processes);
  size_t ranks = (size_t)each * (size_t)w->processes;
  w->pair = (MPI_Comm *)calloc((size_t)each * (size_t)each, sizeof *w->pair);
  w->last = (post *)calloc(ranks, sizeof *w->last);
  w->talk = (post *)calloc(ranks, sizeof *w->talk);
  w->waits = (int32_t *)calloc(ranks, sizeof *w->waits);
  w->gone = (bool *)calloc(ranks, sizeof *w->gone);
  pthread_mutex_init(&w->lock, NULL);
  if (!w->pair || !w->last || !w->talk || !w->gone || !w->waits) return free_world(w), NULL;
  for (size_t i = 0; i < ranks; i++) {
    w->last[i].r = w->talk[i].r = MPI_REQUEST_NULL;
    w->waits[i] = -1;
  }
  return w;
}

/* ---- going on without processes that have ended ---- */

MPI_Comm anfi_mpi_all(const anf_comm_link *link) {
  return ((const mpi_link *)link->user)->w->notices;
}

/* The world of the processes that are left; NULL: they did not meet, and this process calls MPI no more. */
static world *world_of_the_rest(world *was, uint64_t end) {
  MPI_Comm rest;
  for (int32_t i = 0; i < was->each * was->each; i++) anfi_mpi_revoke(was->pair[i]);
  was->dead = true;
  if (!anfi_mpi_shrink(was->notices, end, &rest)) return NULL;
  MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
  world *w = new_world(rest, was->each, was->ours);
  if (!w || make_comms(w, rest, end)) return NULL;
  MPI_Comm_free(&rest);
  was->dead = false;
  return w;
}

/* Processes of one rank each meet. Notices of those that hang may still come to the old world, which stays. */
static bool meet(void *user, uint64_t ms, anf_comm_link *link) {
  mpi_link *l = (mpi_link *)user;
  world *was = l->w;
  if (was->each != 1 || was->dead || !anfi_mpi_can_shrink()) return false;
  pthread_mutex_lock(&was->lock);
  world *w = world_of_the_rest(was, anfi_mpi_now() + ms);
  pthread_mutex_unlock(&was->lock);
  if (!w) return false;
  w->before = was;
  *l = (mpi_link){.w = w, .rank = w->process};
  listen(w);
  link->rank = l->rank;
  link->ranks = w->processes;
  return true;
}

const char *anf_mpi_links(int32_t each, anf_comm_link *out) {
  bool ours;
  if (each < 1 || each > 1024 || !out) return "a process has from 1 to 1024 ranks";
  const char *problem = begin_mpi(&ours);
  if (problem) return problem;
  world *w = new_world(MPI_COMM_WORLD, each, ours);
  mpi_link **l = (mpi_link **)calloc((size_t)each, sizeof *l);
  bool good = w && l;
  for (int32_t i = 0; good && i < each; i++)
    good = (l[i] = (mpi_link *)calloc(1, sizeof **l)) != NULL;
  uint64_t end = anfi_mpi_now() + JOIN_MS;
  problem = good ? make_comms(w, MPI_COMM_WORLD, end) : "memory is used up";
  for (int32_t i = 0; l && i < each; i++) {
    if (problem) {
      free(l[i]);
      continue;
    }
    *l[i] = (mpi_link){.w = w, .rank = w->process * each + i};
    out[i] = (anf_comm_link){.size = sizeof *out,
                             .user = l[i],
                             .rank = l[i]->rank,
                             .ranks = each * w->processes,
                             .start = start,
                             .wait = wait_for,
                             .cancel = cancel,
                             .abort = give_up,
                             .reinit = meet,
                             .free = leave};
  }
  if (problem && w && !w->dead) free_world(w);
  else if (!problem) {
    anfi_mpi_near(w->notices, each, end, out);
    listen(w);
  }
  free(l);
  return problem;
}
