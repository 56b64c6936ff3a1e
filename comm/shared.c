// SPDX-License-Identifier: Apache-2.0
/* The link between processes of one machine: a file that all map, with a ring of bytes for each pair of ranks.
 *
 *   sender: header, bytes → ring (from, to), bell of the receiver      receiver: ring → its memory, bell of the sender
 *
 * A file of zeros is an area that nobody has joined, so no rank makes it for the others. A rank holds a lock on a byte of the
 * file, which the system gives up when its process ends, however it ends.
 * INVARIANT: `written` of a ring is its sender's, `taken` its receiver's; both only grow.
 * INVARIANT: a rank that waits increments `turns`; one that has stopped does not. One whose wait has failed gives up, and sets
 * `blame` before it says that it waits no longer. */
#define _GNU_SOURCE // futex, fallocate
#include "comm/comm.h"

#include <fcntl.h>
#include <sched.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16 };                // ranks: their rings grow with the square
enum { RING = 256 << 10 };         // bytes of a ring
enum { CHUNK = 32 << 10 };         // bytes after which the other side hears of them
enum { SPINS = 200 };              // looks at the rings until it sleeps
enum { AWAITED_NS = 1000000 };     // while the host waits: a core that sleeps takes long to wake
enum { NAP_MS = 50 };              // until it looks whether its peer is alive
enum { LOOKS = 15, LOOK_MS = 10 }; // at who still waits, when time is up

typedef struct ring {
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t taken;
  _Alignas(64) char at[RING];
} ring;

typedef struct seat {
  _Alignas(64) _Atomic uint32_t bell; // a futex
  _Atomic uint32_t sleeps;
  _Atomic uint32_t turns; // of its waits
  _Atomic int32_t waits;  // for this rank, and 1
  _Atomic int32_t process;
  _Atomic bool left;
} seat;

typedef struct area {
  _Atomic int32_t blame; // the rank that someone gave up for, and 1
  seat seat[MOST];
  ring ring[]; // [from][to]
} area;

typedef struct head {
  uint64_t tag, bytes;
} head;

typedef struct request {
  struct request *next; // of the same peer and direction
  int32_t peer, tag;
  bool send, done, broken;
  char *at;
  uint64_t bytes, moved; // moved: of a send with its head
} request;

typedef struct lane {
  request *first, **last;
} lane;

typedef struct shared_link {
  area *a;
  size_t bytes;
  int fd;
  int32_t me, ranks;
  atomic_bool awaited; // the host waits, so that its core is free
  struct {
    lane out, in;
    head now; // of the message that arrives
    bool has_head;
    request *into; // or NULL: nobody has asked for it yet
  } peer[MOST];
} shared_link;

/* ---- bells ---- */

static void ring_bell(area *a, int32_t rank) {
  seat *s = &a->seat[rank];
  atomic_fetch_add(&s->bell, 1);
  if (atomic_load(&s->sleeps)) syscall(SYS_futex, &s->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_all(const shared_link *l) {
  for (int32_t r = 0; r < l->ranks; r++) ring_bell(l->a, r);
}

/* ---- rings ---- */

static ring *ring_of(const shared_link *l, int32_t from, int32_t to) {
  return &l->a->ring[(size_t)from * (size_t)l->ranks + (size_t)to];
}

/* At most n bytes, and no more than fit. */
static uint64_t put(ring *r, const char *from, uint64_t n) {
  uint64_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
  uint64_t room = RING - (at - atomic_load_explicit(&r->taken, memory_order_acquire));
  if (n > room) n = room;
  uint64_t i = at % RING, first = n < RING - i ? n : RING - i;
  memcpy(r->at + i, from, (size_t)first);
  memcpy(r->at, from + first, (size_t)(n - first));
  atomic_store_explicit(&r->written, at + n, memory_order_release);
  return n;
}

static uint64_t in_ring(const ring *r) {
  return atomic_load_explicit(&((ring *)(uintptr_t)r)->written, memory_order_acquire) -
         atomic_load_explicit(&((ring *)(uintptr_t)r)->taken, memory_order_relaxed);
}

static uint64_t get(ring *r, char *to, uint64_t n) {
  uint64_t at = atomic_load_explicit(&r->taken, memory_order_relaxed), has = in_ring(r);
  if (n > has) n = has;
  uint64_t i = at % RING, first = n < RING - i ? n : RING - i;
  memcpy(to, r->at + i, (size_t)first);
  memcpy(to + first, r->at, (size_t)(n - first));
  atomic_store_explicit(&r->taken, at + n, memory_order_release);
  return n;
}

/* ---- messages ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void pop(lane *q, const request *r) {
  request **at = &q->first;
  while (*at && *at != r) at = &(*at)->next;
  if (!*at) return;
  *at = r->next;
  if (!*at) q->last = at;
}

/* Moves what it can of messages to this peer. */
static bool push(shared_link *l, int32_t peer) {
  lane *q = &l->peer[peer].out;
  ring *to = ring_of(l, l->me, peer);
  bool any = false;
  for (request *r; (r = q->first);) {
    head h = {(uint64_t)r->tag, r->bytes};
    uint64_t n = 0;
    if (r->moved < sizeof h) n = put(to, (const char *)&h + r->moved, sizeof h - r->moved);
    else if (r->bytes) {
      uint64_t at = r->moved - sizeof h;
      n = put(to, r->at + at, least(r->bytes - at, CHUNK));
    }
    if (!n) break;
    any = true;
    r->moved += n;
    if (r->moved > sizeof h || !r->bytes) ring_bell(l->a, peer);
    if (r->moved < sizeof h + r->bytes) continue;
    pop(q, r);
    r->done = true;
  }
  return any;
}

static request *asked_for(const shared_link *l, int32_t peer) {
  request *r = l->peer[peer].in.first;
  while (r && (uint64_t)r->tag != l->peer[peer].now.tag) r = r->next;
  return r;
}

/* Moves what it can of messages from this peer. */
static bool pull(shared_link *l, int32_t peer) {
  ring *from = ring_of(l, peer, l->me);
  head *h = &l->peer[peer].now;
  bool any = false;
  for (;;) {
    if (!l->peer[peer].has_head) {
      if (!l->peer[peer].in.first || in_ring(from) < sizeof *h) return any;
      get(from, (char *)h, sizeof *h);
      l->peer[peer].has_head = true;
    }
    request *r = l->peer[peer].into;
    if (!r && !(r = l->peer[peer].into = asked_for(l, peer))) return any;
    if (r->bytes != h->bytes) r->broken = r->done = true;
    uint64_t n = r->broken ? 0 : get(from, r->at + r->moved, least(r->bytes - r->moved, CHUNK));
    if (!n && !r->broken && r->moved < r->bytes) return any;
    any = true;
    r->moved += n;
    if (n) ring_bell(l->a, peer);
    if (!r->broken && r->moved < r->bytes) continue;
    r->done = true;
    pop(&l->peer[peer].in, r);
    l->peer[peer].into = NULL;
    l->peer[peer].has_head = false;
  }
}

static bool pump(shared_link *l) {
  bool any = false;
  for (int32_t p = 0; p < l->ranks; p++)
    if (p != l->me) {
      any |= push(l, p);
      any |= pull(l, p);
    }
  return any;
}

static void *start(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes) {
  shared_link *l = (shared_link *)user;
  request *r = (request *)malloc(sizeof *r);
  if (!r) return NULL;
  *r = (request){.peer = peer, .tag = tag, .send = send, .at = (char *)at, .bytes = bytes};
  lane *q = send ? &l->peer[peer].out : &l->peer[peer].in;
  *q->last = r;
  q->last = &r->next;
  if (send) push(l, peer);
  return r;
}

/* ---- who is there ---- */

/* Has its process ended? A process cannot see locks of its own. */
static bool has_ended(const shared_link *l, int32_t rank) {
  seat *s = &l->a->seat[rank];
  int32_t process = atomic_load(&s->process);
  if (atomic_load(&s->left)) return true;
  if (!process || process == getpid()) return false;
  struct flock k = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  return fcntl(l->fd, F_GETLK, &k) == 0 && k.l_type == F_UNLCK;
}

/* Who is to blame that `peer` gave no sign: the first of those that wait for one another that does not count turns. */
static int32_t culprit(const shared_link *l, int32_t peer) {
  uint32_t turns[MOST];
  seat *s = l->a->seat;
  for (int32_t i = 0; i < l->ranks; i++) turns[i] = atomic_load(&s[i].turns);
  for (int i = 0; i < LOOKS && !atomic_load(&l->a->blame); i++) {
    atomic_fetch_add(&s[l->me].turns, 1);
    nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
  }
  int32_t blame = atomic_load(&l->a->blame), who = peer;
  if (blame) return blame - 1;
  for (int32_t i = 0; i < l->ranks; i++) {
    int32_t next = atomic_load(&s[who].waits);
    if (!next || atomic_load(&s[who].turns) == turns[who]) break;
    who = next - 1;
  }
  blame = atomic_load(&l->a->blame); // before it waits no longer, one that gives up says for whom
  return blame ? blame - 1 : who;
}

/* ---- waiting ---- */

static void sleep_until_bell(shared_link *l, uint64_t ms) {
  seat *s = &l->a->seat[l->me];
  uint32_t bell = atomic_load(&s->bell);
  struct timespec t = {.tv_sec = 0, .tv_nsec = (long)least(ms, NAP_MS) * 1000000};
  atomic_store(&s->sleeps, 1);
  if (!pump(l)) syscall(SYS_futex, &s->bell, FUTEX_WAIT, bell, &t, NULL, 0);
  atomic_store(&s->sleeps, 0);
}

static void cancel(void *user, void *p) {
  shared_link *l = (shared_link *)user;
  request *r = (request *)p;
  if (!r->done) pop(r->send ? &l->peer[r->peer].out : &l->peer[r->peer].in, r);
  if (l->peer[r->peer].into == r) l->peer[r->peer].into = NULL;
  free(r);
}

static anf_comm_why wait_for(void *user, void *p, uint64_t ms, int32_t *rank) {
  shared_link *l = (shared_link *)user;
  request *r = (request *)p;
  seat *s = &l->a->seat[l->me];
  uint64_t now = anfi_comm_now(), end = now + ms * 1000000, look = now + NAP_MS * 1000000;
  uint64_t rest = now + AWAITED_NS;
  atomic_store(&s->waits, r->peer + 1);
  for (int turn = 0; !r->done; turn++) {
    int32_t blame = atomic_load(&l->a->blame);
    bool lost = false;
    if (now >= look) {
      lost = has_ended(l, r->peer);
      look = now + NAP_MS * 1000000;
    }
    if (pump(l)) turn = 0;
    if (r->done) break;
    if (blame || lost) {
      *rank = blame ? blame - 1 : r->peer;
      cancel(l, r);
      return ANF_COMM_LOST;
    }
    if (turn < SPINS) continue;
    now = anfi_comm_now();
    if (atomic_load_explicit(&l->awaited, memory_order_relaxed) && now < rest) {
      sched_yield();
      continue;
    }
    atomic_fetch_add(&s->turns, 1);
    if (now >= end) return *rank = culprit(l, r->peer), ANF_COMM_LATE;
    sleep_until_bell(l, (end - now) / 1000000 + 1);
    now = anfi_comm_now();
  }
  atomic_store(&s->waits, 0);
  bool broken = r->broken;
  free(r);
  return broken ? ANF_COMM_BROKEN : ANF_COMM_FINE;
}

static void give_up(void *user, int32_t blame) {
  const shared_link *l = (const shared_link *)user;
  int32_t none = 0;
  atomic_compare_exchange_strong(&l->a->blame, &none, (blame < 0 ? l->me : blame) + 1);
  atomic_store(&l->a->seat[l->me].waits, 0);
  ring_all(l);
}

static void awaited(void *user, bool is) {
  atomic_store_explicit(&((shared_link *)user)->awaited, is, memory_order_relaxed);
}

static void leave(void *user) {
  shared_link *l = (shared_link *)user;
  atomic_store(&l->a->seat[l->me].left, true);
  ring_all(l);
  munmap(l->a, l->bytes);
  close(l->fd);
  free(l);
}

/* ---- making ---- */

static bool map_area(shared_link *l, const char *path) {
  size_t ranks = (size_t)l->ranks;
  l->bytes = sizeof(area) + ranks * ranks * sizeof(ring);
  l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (l->fd < 0) return false;
  struct flock k = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = l->me, .l_len = 1};
  void *p = MAP_FAILED;
  if (fallocate(l->fd, 0, 0, (off_t)l->bytes) == 0 && fcntl(l->fd, F_SETLK, &k) == 0)
    p = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
  if (p == MAP_FAILED) return close(l->fd), false;
  l->a = (area *)p;
  return true;
}

bool anfi_comm_shared(const char *path, int32_t rank, int32_t ranks, anf_comm_link *out) {
  if (!path || !out || rank < 0 || rank >= ranks || ranks > MOST) return false;
  shared_link *l = (shared_link *)calloc(1, sizeof *l);
  if (!l) return false;
  l->me = rank;
  l->ranks = ranks;
  for (int32_t i = 0; i < ranks; i++) {
    l->peer[i].out.last = &l->peer[i].out.first;
    l->peer[i].in.last = &l->peer[i].in.first;
  }
  if (!map_area(l, path)) return free(l), false;
  atomic_store(&l->a->seat[rank].process, (int32_t)getpid());
  *out = (anf_comm_link){.size = sizeof *out,
                         .user = l,
                         .rank = rank,
                         .ranks = ranks,
                         .start = start,
                         .wait = wait_for,
                         .cancel = cancel,
                         .abort = give_up,
                         .free = leave,
                         .awaited = awaited};
  return true;
}
