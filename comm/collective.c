// SPDX-License-Identifier: Apache-2.0
/* The operations, as messages between pairs of ranks.
 *
 *   AllReduce of n elements on R ranks:
 *     1. rank p gets part p of every rank's elements, [n p / R, n (p + 1) / R)     (all-to-all)
 *     2. it sums them in pairs (sum.c)
 *     3. every rank gets every part                                                (all-gather)
 *
 * Each rank sends 2 n (R - 1) / R elements, which is the least possible (Patarasuk and Yuan 2009), and the order of
 * sums is that of the ranks. Of few bytes every rank gets all and sums all: one round of messages. Both ways give the
 * same bits. The parts of a bucket are one array of n elements, whose pieces are sent from where they are.
 *
 * INVARIANT: a message's tag is a hash of its operation, so ranks that run different operations do not take each
 * other's bytes: they wait until the time limit. */
#include "base/base.h"
#include "comm/comm.h"

#include <string.h>

enum { SMALL = 16 << 10 }; // bytes in all that are sent in one round

typedef struct run {
  anf_comm *c;
  const anfi_comm_job *j;
  anf_comm_error *e;
  uint64_t end; // of the time limit
  int32_t me, ranks, tag;
  uint64_t bytes; // of an element
} run;

static int32_t tag_of(const run *r, uint32_t turn) {
  const anf_comm_call *k = &r->j->call;
  uint64_t h = 1469598103934665603u;
  uint64_t word[] = {
      turn,       (uint64_t)k->kind, (uint64_t)k->dtype,
      k->mean,    r->j->n,           k->kind == ANF_COMM_SEND_RECV ? 0 : (uint64_t)k->root,
      r->j->npart};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    h = (h ^ word[i]) * 1099511628211u ^ h >> 29;
  return (int32_t)((h ^ h >> 32) & 0x3fffffff);
}

static bool send(const run *r, int32_t to, const void *at, uint64_t n) {
  return anfi_comm_post(r->c, true, to, r->tag, at, n * r->bytes, r->e);
}
static bool receive(const run *r, int32_t from, void *at, uint64_t n) {
  return anfi_comm_post(r->c, false, from, r->tag, at, n * r->bytes, r->e);
}
static bool finish(const run *r) { return anfi_comm_finish(r->c, r->end, r->e); }

static char *staging(const run *r, uint64_t n) {
  char *p = anfi_comm_staging(r->c, n * r->bytes + 1);
  if (!p) *r->e = (anf_comm_error){.why = ANF_COMM_BROKEN, .rank = -1};
  return p;
}

static void copy(const run *r, void *to, const void *from, uint64_t n) {
  if (to != from && n) memmove(to, from, (size_t)(n * r->bytes));
}

static double divisor(const run *r) { return r->j->call.mean ? (double)r->ranks : 1; }

/* ---- pieces of a bucket ---- */

/* The elements [from, to) of all parts together: each piece is of one part. */
typedef struct piece {
  const char *in;
  char *out;
  uint64_t n, at; // `at`: elements of [from, to) before it
} piece;
typedef struct pieces {
  const run *r;
  uint64_t from, to, first; // `first`: the element that part `k` begins with
  size_t k;
} pieces;

static pieces pieces_of(const run *r, int32_t rank) {
  uint64_t n = r->j->n, all = (uint64_t)r->ranks, p = (uint64_t)rank;
  return (pieces){.r = r, .from = n * p / all, .to = n * (p + 1) / all};
}
static pieces all_pieces(const run *r) { return (pieces){.r = r, .to = r->j->n}; }

static bool next_piece(pieces *p, piece *out) {
  for (; p->k < p->r->j->npart; p->k++) {
    const anfi_comm_part *a = &p->r->j->part[p->k];
    uint64_t from = p->from > p->first ? p->from : p->first, end = p->first + a->n;
    uint64_t to = p->to < end ? p->to : end, skip = (from - p->first) * p->r->bytes;
    uint64_t at = from - p->from;
    p->first = end;
    if (from >= to) continue;
    *out = (piece){a->in + skip, a->out + skip, to - from, at};
    p->k++;
    return true;
  }
  return false;
}

/* ---- sums ---- */

/* Sums pieces: rank q's elements are in staging from q * n on, mine where they are. */
static void sum_pieces(const run *r, pieces p, const char *staged, uint64_t n, const void **from) {
  piece x;
  while (next_piece(&p, &x)) {
    for (int32_t q = 0; q < r->ranks; q++)
      from[q] = q == r->me ? x.in : staged + ((uint64_t)q * n + x.at) * r->bytes;
    anfi_comm_sum(r->j->call.dtype, r->ranks, from, x.n, divisor(r), x.out);
  }
}

/* Messages piece by piece, since the memory of a bucket is in pieces on both sides. */
static bool send_in(const run *r, int32_t to, pieces p) {
  piece x;
  while (next_piece(&p, &x))
    if (!send(r, to, x.in, x.n)) return false;
  return true;
}
static bool stage(const run *r, int32_t from, pieces p, char *staged) {
  piece x;
  while (next_piece(&p, &x))
    if (!receive(r, from, staged + x.at * r->bytes, x.n)) return false;
  return true;
}

/* Part p(q) of every rank q's elements goes to rank q; those for this rank are summed. */
static bool exchange_and_sum(const run *r, bool whole, const void **from) {
  pieces mine = whole ? all_pieces(r) : pieces_of(r, r->me);
  uint64_t n = mine.to - mine.from;
  char *staged = staging(r, n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && !stage(r, q, mine, staged + (uint64_t)q * n * r->bytes)) return false;
  for (int32_t i = 1; i < r->ranks; i++) {
    int32_t q = (r->me + i) % r->ranks; // not all to one rank at once
    if (!send_in(r, q, whole ? all_pieces(r) : pieces_of(r, q))) return false;
  }
  if (!finish(r)) return false;
  sum_pieces(r, mine, staged, n, from);
  return true;
}

static bool gather_parts(const run *r) {
  piece x;
  for (int32_t q = 0; q < r->ranks; q++) {
    if (q == r->me) continue;
    for (pieces p = pieces_of(r, q); next_piece(&p, &x);)
      if (!receive(r, q, x.out, x.n)) return false;
    for (pieces p = pieces_of(r, r->me); next_piece(&p, &x);)
      if (!send(r, q, x.out, x.n)) return false;
  }
  return finish(r);
}

static bool all_reduce(const run *r, const void **from) {
  bool whole = r->j->n * r->bytes * (uint64_t)r->ranks <= SMALL;
  return exchange_and_sum(r, whole, from) && (whole || gather_parts(r));
}

static bool reduce_scatter(const run *r, const void **from) {
  const anfi_comm_part *p = r->j->part;
  uint64_t n = p->n / (uint64_t)r->ranks;
  char *staged = staging(r, n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++) {
    from[q] = q == r->me ? p->in + (uint64_t)q * n * r->bytes : staged + (uint64_t)q * n * r->bytes;
    if (q == r->me) continue;
    if (!receive(r, q, staged + (uint64_t)q * n * r->bytes, n) ||
        !send(r, q, p->in + (uint64_t)q * n * r->bytes, n))
      return false;
  }
  if (!finish(r)) return false;
  anfi_comm_sum(r->j->call.dtype, r->ranks, from, n, divisor(r), p->out);
  return true;
}

static bool reduce(const run *r, const void **from) {
  const anfi_comm_part *p = r->j->part;
  int32_t root = r->j->call.root;
  if (r->me != root) {
    if (!send(r, root, p->in, p->n) || !finish(r)) return false;
    memset(p->out, 0, (size_t)(p->n * r->bytes));
    return true;
  }
  char *staged = staging(r, p->n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++) {
    from[q] = q == r->me ? p->in : staged + (uint64_t)q * p->n * r->bytes;
    if (q != r->me && !receive(r, q, staged + (uint64_t)q * p->n * r->bytes, p->n)) return false;
  }
  if (!finish(r)) return false;
  anfi_comm_sum(r->j->call.dtype, r->ranks, from, p->n, divisor(r), p->out);
  return true;
}

/* ---- moves ---- */

static bool all_gather(const run *r) {
  const anfi_comm_part *p = r->j->part;
  uint64_t size = p->n * r->bytes;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me &&
        (!receive(r, q, p->out + (uint64_t)q * size, p->n) || !send(r, q, p->in, p->n)))
      return false;
  copy(r, p->out + (uint64_t)r->me * size, p->in, p->n);
  return finish(r);
}

static bool broadcast(const run *r) {
  const anfi_comm_part *p = r->j->part;
  int32_t root = r->j->call.root;
  if (r->me != root) return receive(r, root, p->out, p->n) && finish(r);
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && !send(r, q, p->in, p->n)) return false;
  copy(r, p->out, p->in, p->n);
  return finish(r);
}

static bool all_to_all(const run *r) {
  const anfi_comm_part *p = r->j->part;
  uint64_t n = p->n / (uint64_t)r->ranks, size = n * r->bytes;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && (!receive(r, q, p->out + (uint64_t)q * size, n) ||
                       !send(r, q, p->in + (uint64_t)q * size, n)))
      return false;
  copy(r, p->out + (uint64_t)r->me * size, p->in + (uint64_t)r->me * size, n);
  return finish(r);
}

/* Counted by pairs: other ranks need not take part. */
static bool send_receive(run *r) {
  const anfi_comm_part *p = r->j->part;
  const anf_comm_call *k = &r->j->call;
  anf_comm *c = r->c;
  if (k->to >= 0 && k->to != r->me) {
    r->tag = tag_of(r, c->sent[k->to]++);
    if (!send(r, k->to, p->in, p->n)) return false;
  }
  if (k->from >= 0 && k->from != r->me) {
    r->tag = tag_of(r, c->received[k->from]++);
    if (!receive(r, k->from, p->out, p->n)) return false;
  }
  if (k->from == r->me && k->to == r->me) copy(r, p->out, p->in, p->n);
  else if (k->from < 0 || k->from == r->me) memset(p->out, 0, (size_t)(p->n * r->bytes));
  return finish(r);
}

/* ---- one operation ---- */

static bool is_rank(const run *r, int32_t rank, int32_t least) {
  if (rank >= least && rank < r->ranks) return true;
  *r->e = (anf_comm_error){.why = ANF_COMM_RANKS, .rank = r->ranks};
  return false;
}

static bool collective(const run *r, const void **from) {
  const anf_comm_call *k = &r->j->call;
  switch (k->kind) {
  case ANF_COMM_ALL_REDUCE: return all_reduce(r, from);
  case ANF_COMM_REDUCE_SCATTER: return reduce_scatter(r, from);
  case ANF_COMM_REDUCE: return is_rank(r, k->root, 0) && reduce(r, from);
  case ANF_COMM_ALL_GATHER: return all_gather(r);
  case ANF_COMM_BROADCAST: return is_rank(r, k->root, 0) && broadcast(r);
  default: return all_to_all(r);
  }
}

bool anfi_comm_run(anf_comm *c, const anfi_comm_job *j, anf_comm_error *e) {
  run r = {.c = c, .j = j, .e = e, .me = c->link.rank, .ranks = c->link.ranks};
  r.bytes = anfi_comm_bytes(j->call.dtype);
  r.end = anfi_comm_now() + c->o.timeout_ms * 1000000u;
  if (j->call.kind == ANF_COMM_SEND_RECV)
    return is_rank(&r, j->call.to, -1) && is_rank(&r, j->call.from, -1) && send_receive(&r);
  r.tag = tag_of(&r, c->turn++);
  return collective(&r, c->from);
}

void anfi_comm_alone(const anf_comm_call *k) {
  size_t bytes = (size_t)(k->n * anfi_comm_bytes(k->dtype));
  bool nothing = k->kind == ANF_COMM_SEND_RECV && (k->from != 0 || k->to != 0);
  if (nothing) memset(k->out, 0, bytes);
  else if (k->in != k->out && bytes) memmove(k->out, k->in, bytes);
}
