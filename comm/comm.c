// SPDX-License-Identifier: Apache-2.0
/* A communicator: a queue of operations and the thread that runs them.
 *
 *   start ──▶ open bucket ──▶ queue ──▶ thread: messages, sums ──▶ ended = ticket ──▶ wait
 *
 * AllReduces of one kind fill the open bucket until it has enough bytes, or until another operation is started or
 * waited for: so what is in a bucket follows from the program alone, and is the same on all ranks. */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

enum { OTHER_RANKS = -1 }; // a ticket

/* ---- options ---- */

static bool take_options(const anf_comm_opts *o, anf_comm_opts *out) {
  size_t given = o ? o->size : 0, i = sizeof *o;
  memset(out, 0, sizeof *out);
  if (given && (given < sizeof given || given > sizeof *o + 4096)) return false;
  while (i < given && !((const char *)o)[i]) i++;
  if (i < given) return false;
  if (o) memcpy(out, o, given && given < sizeof *o ? given : sizeof *o);
  out->size = sizeof *out;
  if ((unsigned)out->order >= ANF_COMM_ORDER_COUNT) return false;
  if (!out->timeout_ms) out->timeout_ms = 60000;
  if (!out->bucket_bytes) out->bucket_bytes = 64 << 10;
  return true;
}

/* ---- the thread ---- */

static void free_job(anfi_comm_job *j) {
  if (!j) return;
  free(j->part);
  free(j);
}

/* With the lock held: the operation `ticket` and all after it have failed. */
static void fail(anf_comm *c, const anf_comm_error *e, int64_t ticket) {
  if (c->failed.why) return;
  c->failed = *e;
  c->failed_at = ticket;
}

/* With the lock held, after an operation. */
static void count_late(anf_comm *c, uint64_t from) {
  uint64_t waits = c->waits_since > from ? c->waits_since : from;
  if (c->heard > from) c->counts.late_ns += c->heard - from;
  if (c->waits_since && c->heard > waits) c->counts.late_waited_ns += c->heard - waits;
}

/* With the lock held, which it gives up while the operation runs. After a failure nothing is run. */
static void run_one(anf_comm *c, anfi_comm_job *j) {
  anf_comm_error e = {.rank = -1};
  bool run = !c->failed.why, good = true;
  uint64_t from = anfi_comm_now(), bytes = 0;
  anfi_comm_watch watch = c->watch;
  pthread_mutex_unlock(&c->lock);
  if (run) {
    c->moved = 0;
    c->heard = 0;
    good = anfi_comm_run(c, j, &e);
    bytes = c->moved;
    if (good && watch.fn) watch.fn(watch.user, j->call.kind, bytes, from, anfi_comm_now());
    if (!good && e.rank >= 0 && e.why != ANF_COMM_RANKS) c->link.abort(c->link.user, e.rank);
  }
  pthread_mutex_lock(&c->lock);
  if (!good) fail(c, &e, j->ticket);
  c->counts.operations += j->npart;
  c->counts.buckets++;
  if (c->link.note) c->counts.slow += j->npart;
  c->counts.bytes += bytes;
  c->counts.busy_ns += anfi_comm_now() - from;
  count_late(c, from);
  c->ended = j->ticket;
  free_job(j);
  pthread_cond_broadcast(&c->done);
}

static void *serve(void *p) {
  anf_comm *c = (anf_comm *)p;
  anfi_comm_short_turns();
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (!c->first && !c->quit) pthread_cond_wait(&c->work, &c->lock);
    anfi_comm_job *j = c->first;
    if (!j) break;
    if (!(c->first = j->next)) c->last = &c->first;
    run_one(c, j);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* ---- making ---- */

static void unmake(anf_comm *c) {
  free(c->sent);
  free(c->received);
  free(c->from);
  free(c->request);
  free(c->staging);
  free(c);
}

/* What is counted for each rank. */
static bool size_tables(anf_comm *c, int32_t ranks) {
  uint32_t *sent = (uint32_t *)calloc((size_t)ranks, sizeof *sent);
  uint32_t *received = (uint32_t *)calloc((size_t)ranks, sizeof *received);
  const void **from = (const void **)calloc((size_t)ranks, sizeof *from);
  if (!sent || !received || !from) {
    free(sent);
    free(received);
    free(from);
    return false;
  }
  free(c->sent);
  free(c->received);
  free(c->from);
  c->sent = sent;
  c->received = received;
  c->from = from;
  return true;
}

anf_comm *anf_comm_new(const anf_comm_link *link, const anf_comm_opts *o) {
  anf_comm_opts how;
  if (!link || link->ranks < 1 || !take_options(o, &how)) return NULL;
  anf_comm *c = (anf_comm *)calloc(1, sizeof *c);
  if (!c) return NULL;
  memcpy(&c->link, link, link->size && link->size < sizeof *link ? link->size : sizeof *link);
  c->o = how;
  c->last = &c->first;
  c->next = 1;
  pthread_cond_t *cond[2] = {&c->work, &c->done};
  if (!size_tables(c, link->ranks) || !anfi_comm_sync_init(&c->lock, cond, 2) ||
      pthread_create(&c->thread, NULL, serve, c) != 0) {
    unmake(c);
    return NULL;
  }
  return c;
}

void anf_comm_free(anf_comm *c) {
  if (!c) return;
  anfi_comm_drain(c);
  pthread_mutex_lock(&c->lock);
  c->quit = true;
  pthread_cond_signal(&c->work);
  pthread_mutex_unlock(&c->lock);
  pthread_join(c->thread, NULL);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->work);
  pthread_cond_destroy(&c->done);
  c->link.free(c->link.user);
  unmake(c);
}

int32_t anf_comm_rank(const anf_comm *c) { return c ? c->link.rank : 0; }
int32_t anf_comm_ranks(const anf_comm *c) { return c ? c->link.ranks : 1; }
const char *anf_comm_note(const anf_comm *c) { return c ? c->link.note : NULL; }

const char *anf_comm_why_name(anf_comm_why w) {
  static const char *const name[ANF_COMM_WHY_COUNT] = {
      [ANF_COMM_FINE] = "nothing went wrong",
      [ANF_COMM_LATE] = "gave no sign",
      [ANF_COMM_LOST] = "has ended or given up",
      [ANF_COMM_RANKS] = "the program is made for another number of ranks",
      [ANF_COMM_BROKEN] = "the link between ranks failed"};
  return (unsigned)w < ANF_COMM_WHY_COUNT ? name[w] : "";
}

/* ---- starting ---- */

/* With the lock held. */
static void close_bucket(anf_comm *c) {
  anfi_comm_job *j = c->open;
  if (!j) return;
  c->open = NULL;
  if (j->call.kind == ANF_COMM_ALL_REDUCE) c->round.closed += j->n * anfi_comm_bytes(j->call.dtype);
  j->ticket = c->next++;
  *c->last = j;
  c->last = &j->next;
  pthread_cond_signal(&c->work);
}

static bool fits(const anfi_comm_job *j, const anf_comm_call *k) {
  return j->call.kind == ANF_COMM_ALL_REDUCE && k->kind == ANF_COMM_ALL_REDUCE &&
         j->call.dtype == k->dtype && j->call.mean == k->mean;
}

static bool add_part(anfi_comm_job *j, const anf_comm_call *k) {
  if (j->npart == j->cap) {
    size_t cap = j->cap ? 2 * j->cap : 1;
    anfi_comm_part *p = (anfi_comm_part *)realloc(j->part, cap * sizeof *p);
    if (!p) return false;
    j->part = p;
    j->cap = cap;
  }
  j->part[j->npart++] = (anfi_comm_part){(const char *)k->in, (char *)k->out, k->n};
  j->n += k->n;
  return true;
}

static bool open_bucket(anf_comm *c, const anf_comm_call *k) {
  if (c->open && fits(c->open, k)) return add_part(c->open, k);
  close_bucket(c);
  anfi_comm_job *j = (anfi_comm_job *)calloc(1, sizeof *j);
  if (!j || !add_part(j, k)) {
    free_job(j);
    return false;
  }
  j->call = *k;
  c->open = j;
  return true;
}

int64_t anf_comm_start(anf_comm *c, const anf_comm_call *call) {
  anf_comm_call k = {.root = 0};
  if (!call) return 0;
  memcpy(&k, call, call->size && call->size < sizeof k ? call->size : sizeof k);
  if (k.ranks && k.ranks != anf_comm_ranks(c)) return OTHER_RANKS;
  if (anf_comm_ranks(c) == 1) return anfi_comm_alone(&k), 0;
  pthread_mutex_lock(&c->lock);
  int64_t ticket = c->next;
  if (!open_bucket(c, &k)) fail(c, &(anf_comm_error){.why = ANF_COMM_BROKEN, .rank = -1}, c->next);
  else {
    ticket = c->next;
    bool sum = k.kind == ANF_COMM_ALL_REDUCE;
    if (sum) c->round.begun += k.n * anfi_comm_bytes(k.dtype);
    if (!sum || c->open->n * anfi_comm_bytes(k.dtype) >= anfi_comm_bucket(c)) close_bucket(c);
  }
  bool under_way = c->ended + 1 < c->next;
  pthread_mutex_unlock(&c->lock);
  if (under_way) anfi_comm_give_turn(&c->patience);
  return ticket;
}

/* ---- waiting ---- */

/* With the lock held. What was started since the last wait is a round: it follows from the program, as buckets do. Small
 * rounds between large ones, such as those of norms in the forward sweep, change little of what is expected. */
static void end_round(anf_comm *c, int64_t ticket) {
  enum { SLOW = 256 };
  anfi_comm_round *r = &c->round;
  if (!r->begun || ticket < r->first) return;
  r->expected = r->begun >= r->expected ? r->begun : r->expected - (r->expected - r->begun) / SLOW;
  r->begun = r->closed = 0;
  r->first = c->next;
}

bool anf_comm_wait(anf_comm *c, int64_t ticket, anf_comm_error *e) {
  if (e) *e = (anf_comm_error){.rank = -1};
  if (ticket == OTHER_RANKS) {
    if (e) *e = (anf_comm_error){.why = ANF_COMM_RANKS, .rank = anf_comm_ranks(c)};
    return false;
  }
  if (anf_comm_ranks(c) == 1 || !ticket) return true;
  pthread_mutex_lock(&c->lock);
  if (c->open && ticket >= c->next) close_bucket(c);
  end_round(c, ticket);
  if (c->ended < ticket) {
    uint64_t from = c->waits_since = anfi_comm_now();
    if (c->link.awaited) c->link.awaited(c->link.user, true);
    while (c->ended < ticket && ticket < c->next) pthread_cond_wait(&c->done, &c->lock);
    if (c->link.awaited) c->link.awaited(c->link.user, false);
    c->counts.waited_ns += anfi_comm_now() - from;
    c->waits_since = 0;
  }
  bool good = !c->failed.why || ticket < c->failed_at;
  if (!good && e) *e = c->failed;
  pthread_mutex_unlock(&c->lock);
  return good;
}

void anfi_comm_set_watch(anf_comm *c, anfi_comm_watch w) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  c->watch = w;
  pthread_mutex_unlock(&c->lock);
}

void anfi_comm_drain(anf_comm *c) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  free_job(c->open);
  c->open = NULL;
  while (c->ended + 1 < c->next) pthread_cond_wait(&c->done, &c->lock);
  pthread_mutex_unlock(&c->lock);
}

/* ---- failures ---- */

void anf_comm_failure(const anf_comm *c, anf_comm_error *out) {
  anf_comm *m = (anf_comm *)(uintptr_t)c; // the lock is no part of what it says
  if (!out) return;
  *out = (anf_comm_error){.rank = -1};
  if (!c) return;
  pthread_mutex_lock(&m->lock);
  if (c->failed.why) *out = c->failed;
  pthread_mutex_unlock(&m->lock);
}

void anf_comm_abort(anf_comm *c, int32_t blame) {
  if (!c) return;
  anf_comm_error e = {.why = ANF_COMM_LOST, .rank = blame < 0 ? c->link.rank : blame};
  c->link.abort(c->link.user, blame);
  pthread_mutex_lock(&c->lock);
  fail(c, &e, c->ended + 1);
  pthread_mutex_unlock(&c->lock);
}

bool anf_comm_reinit(anf_comm *c) {
  if (!c || !c->link.reinit) return false;
  anfi_comm_drain(c);
  anf_comm_link link = c->link;
  if (!c->link.reinit(c->link.user, c->o.timeout_ms, &link) || !size_tables(c, link.ranks))
    return false;
  pthread_mutex_lock(&c->lock);
  c->link.rank = link.rank;
  c->link.ranks = link.ranks;
  c->link.note = link.note;
  c->failed = (anf_comm_error){.rank = -1};
  c->round = (anfi_comm_round){.least = c->round.least, .first = c->next};
  c->turn = 0;
  c->agreed = 0;
  pthread_mutex_unlock(&c->lock);
  return true;
}

void anf_comm_count(const anf_comm *c, anf_comm_counts *out) {
  anf_comm *m = (anf_comm *)(uintptr_t)c;
  anf_comm_counts none = {.operations = 0};
  if (!out) return;
  size_t size = out->size && out->size < sizeof none ? out->size : sizeof none;
  if (c) {
    pthread_mutex_lock(&m->lock);
    none = c->counts;
    pthread_mutex_unlock(&m->lock);
  }
  none.size = size;
  memcpy(out, &none, size);
}
