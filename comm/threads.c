// SPDX-License-Identifier: Apache-2.0
/* The link between threads of one process: a message is copied from the sender's memory into the receiver's.
 *
 *   sender: puts (from, to, tag, memory) on the list      receiver: finds it, copies, marks it as taken
 *
 * A rank's communicator that is freed or gives up is out: its peers learn that at once. After a
 * failure the ranks that meet in reinit are numbered anew; all others are out.
 * INVARIANT: a message that is being copied is neither freed nor cancelled before the copy is done. */
#include "comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum message_state { SENT, COPYING, TAKEN } message_state;

typedef struct message {
  struct message *next;
  int32_t from, to, tag; // ranks; to: of a request
  bool send;
  message_state state;
  char *at;
  uint64_t bytes;
} message;

typedef struct member {
  pthread_cond_t change; // its messages, or who is out
  bool out, meets;       // meets: waits in reinit
  int32_t rank;          // now; -1: out
  int32_t waits;         // for this member; -1
} member;

typedef struct world {
  pthread_mutex_t lock;
  int32_t n, ranks, left; // threads; ranks now; links that are not freed
  int32_t blame;          // a member that someone gave up for; -1
  uint32_t age;           // times that ranks were numbered
  message *first;
  member *member;
} world;

typedef struct thread_link {
  world *w;
  int32_t me; // the member's number
} thread_link;

/* ---- messages ---- */

static int32_t member_of(const world *w, int32_t rank) {
  int32_t i = 0;
  while (i < w->n && w->member[i].rank != rank) i++;
  return i;
}

static void wake(const world *w, int32_t rank) {
  int32_t i = member_of(w, rank);
  if (i < w->n) pthread_cond_broadcast(&w->member[i].change);
}
static void wake_all(const world *w) {
  for (int32_t i = 0; i < w->n; i++) pthread_cond_broadcast(&w->member[i].change);
}

static void take_out(world *w, const message *m) {
  message **at = &w->first;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
}

static void *start(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes) {
  const thread_link *l = (const thread_link *)user;
  world *w = l->w;
  message *m = (message *)calloc(1, sizeof *m);
  if (!m) return NULL;
  pthread_mutex_lock(&w->lock);
  int32_t rank = w->member[l->me].rank;
  *m = (message){.from = send ? rank : peer,
                 .to = send ? peer : rank,
                 .tag = tag,
                 .send = send,
                 .at = (char *)at,
                 .bytes = bytes};
  message **end = &w->first;
  while (send && *end) end = &(*end)->next;
  if (send) {
    *end = m;
    wake(w, peer);
  }
  pthread_mutex_unlock(&w->lock);
  return m;
}

static message *find(const world *w, const message *r) {
  message *m = w->first;
  while (m && (m->from != r->from || m->to != r->to || m->tag != r->tag || m->state != SENT))
    m = m->next;
  return m;
}

/* Is the request done, or will it never be? With the lock held, which a copy gives up. */
static bool settled(const thread_link *l, message *r, anf_comm_why *why, int32_t *rank) {
  world *w = l->w;
  message *m = r->send ? NULL : find(w, r);
  if (r->send && r->state == TAKEN) return true;
  if (m) {
    m->state = COPYING;
    pthread_mutex_unlock(&w->lock);
    bool same = m->bytes == r->bytes;
    if (same && r->bytes) memcpy(r->at, m->at, (size_t)r->bytes);
    pthread_mutex_lock(&w->lock);
    take_out(w, m);
    m->state = TAKEN;
    wake(w, m->from);
    if (!same) *why = ANF_COMM_BROKEN;
    return true;
  }
  if (r->send && r->state == COPYING) return false;
  int32_t peer = member_of(w, r->send ? r->to : r->from);
  bool lost = w->member[l->me].out || w->blame >= 0 || peer == w->n || w->member[peer].out;
  if (!lost) return false;
  *why = ANF_COMM_LOST;
  if (w->blame >= 0) *rank = w->member[w->blame].rank;
  return true;
}

/* Who is to blame that `peer` gave no sign: the member that waits for nobody, at the end of those that wait for others. */
static int32_t culprit(const world *w, int32_t peer) {
  int32_t m = peer;
  for (int32_t i = 0; i < w->n && w->member[m].waits >= 0; i++) m = w->member[m].waits;
  return w->member[m].waits < 0 ? m : peer;
}

static anf_comm_why wait_for(void *user, void *request, uint64_t ms, int32_t *rank) {
  const thread_link *l = (const thread_link *)user;
  message *r = (message *)request;
  anf_comm_why why = ANF_COMM_FINE;
  struct timespec end;
  int late = 0;
  anfi_comm_deadline(ms, &end);
  world *w = l->w;
  pthread_mutex_lock(&w->lock);
  int32_t peer = member_of(w, r->send ? r->to : r->from);
  w->member[l->me].waits = peer < w->n ? peer : -1;
  while (!settled(l, r, &why, rank)) {
    if (late == ETIMEDOUT) {
      if (peer < w->n) *rank = w->member[culprit(w, peer)].rank;
      pthread_mutex_unlock(&w->lock);
      return ANF_COMM_LATE;
    }
    late = pthread_cond_timedwait(&w->member[l->me].change, &w->lock, &end);
  }
  w->member[l->me].waits = -1;
  if (r->send && r->state == SENT) take_out(w, r);
  pthread_mutex_unlock(&w->lock);
  free(r);
  return why;
}

static void cancel(void *user, void *request) {
  const thread_link *l = (const thread_link *)user;
  message *r = (message *)request;
  pthread_mutex_lock(&l->w->lock);
  while (r->send && r->state == COPYING)
    pthread_cond_wait(&l->w->member[l->me].change, &l->w->lock);
  if (r->send && r->state == SENT) take_out(l->w, r);
  pthread_mutex_unlock(&l->w->lock);
  free(r);
}

/* ---- failures ---- */

static void give_up(void *user, int32_t blame) {
  const thread_link *l = (const thread_link *)user;
  world *w = l->w;
  pthread_mutex_lock(&w->lock);
  int32_t who = blame < 0 ? l->me : member_of(w, blame);
  if (w->blame < 0 && who < w->n) w->blame = who;
  if (who < w->n) w->member[who].out = true;
  wake_all(w);
  pthread_mutex_unlock(&w->lock);
}

static bool all_meet(const world *w) {
  for (int32_t i = 0; i < w->n; i++)
    if (!w->member[i].out && !w->member[i].meets) return false;
  return true;
}

static void number_anew(world *w) {
  w->ranks = 0;
  for (int32_t i = 0; i < w->n; i++) {
    member *m = &w->member[i];
    m->out = !m->meets;
    m->rank = m->meets ? w->ranks++ : -1;
    m->meets = false;
    m->waits = -1;
  }
  w->blame = -1;
  w->age++;
  wake_all(w);
}

static bool meet(void *user, uint64_t ms, anf_comm_link *link) {
  const thread_link *l = (const thread_link *)user;
  world *w = l->w;
  struct timespec end;
  anfi_comm_deadline(ms, &end);
  pthread_mutex_lock(&w->lock);
  uint32_t age = w->age;
  bool good = !w->member[l->me].out;
  if (good) w->member[l->me].meets = true;
  wake_all(w);
  for (int late = 0; good && w->age == age;) {
    if (all_meet(w) || late == ETIMEDOUT) number_anew(w);
    else late = pthread_cond_timedwait(&w->member[l->me].change, &w->lock, &end);
  }
  good = good && !w->member[l->me].out;
  if (good) {
    link->rank = w->member[l->me].rank;
    link->ranks = w->ranks;
  }
  pthread_mutex_unlock(&w->lock);
  return good;
}

/* ---- making ---- */

static void free_world(world *w) {
  for (int32_t i = 0; i < w->n; i++) pthread_cond_destroy(&w->member[i].change);
  pthread_mutex_destroy(&w->lock);
  free(w->member);
  free(w);
}

static void leave(void *user) {
  thread_link *l = (thread_link *)user;
  world *w = l->w;
  pthread_mutex_lock(&w->lock);
  w->member[l->me].out = true;
  bool last = --w->left == 0;
  wake_all(w);
  pthread_mutex_unlock(&w->lock);
  if (last) free_world(w);
  free(l);
}

static world *new_world(int32_t n) {
  world *w = (world *)calloc(1, sizeof *w);
  member *m = (member *)calloc((size_t)n, sizeof *m);
  pthread_cond_t **cond = (pthread_cond_t **)calloc((size_t)n, sizeof *cond);
  for (int32_t i = 0; m && cond && i < n; i++) cond[i] = &m[i].change;
  bool good = w && m && cond && anfi_comm_sync_init(&w->lock, cond, (size_t)n);
  free(cond);
  if (!good) {
    free(w);
    free(m);
    return NULL;
  }
  w->n = w->ranks = w->left = n;
  w->blame = -1;
  w->member = m;
  for (int32_t i = 0; i < n; i++) {
    m[i].rank = i;
    m[i].waits = -1;
  }
  return w;
}

static anf_comm *join(world *w, int32_t i, const anf_comm_opts *o) {
  thread_link *l = (thread_link *)malloc(sizeof *l);
  if (!l) return NULL;
  *l = (thread_link){w, i};
  anf_comm_link link = {.size = sizeof link,
                        .user = l,
                        .rank = i,
                        .ranks = w->n,
                        .start = start,
                        .wait = wait_for,
                        .cancel = cancel,
                        .abort = give_up,
                        .reinit = meet,
                        .free = leave};
  anf_comm *c = anf_comm_new(&link, o);
  if (!c) free(l);
  return c;
}

bool anf_comm_threads(int32_t n, const anf_comm_opts *o, anf_comm **out) {
  world *w = n > 0 && out ? new_world(n) : NULL;
  if (!w) return false;
  for (int32_t i = 0; i < n; i++) {
    if ((out[i] = join(w, i, o))) continue;
    w->left = i;
    if (!i) free_world(w);
    while (i-- > 0) anf_comm_free(out[i]);
    return false;
  }
  return true;
}
