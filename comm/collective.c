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
#include "comm/op.h"

#include <string.h>

enum { SMALL = 16 << 10 }; // bytes in all that are sent in one round

static int32_t tag_of(const anfi_comm_op *r, uint32_t turn) {
  const anf_comm_call *k = &r->j->call;
  uint64_t h = 1469598103934665603u;
  uint64_t word[] = {turn,
                     (uint64_t)k->kind,
                     (uint64_t)k->dtype,
                     k->mean,
                     r->j->n,
                     k->kind == ANF_COMM_SEND_RECV ? 0 : (uint64_t)k->root,
                     r->j->npart,
                     (uint64_t)r->c->o.order};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    h = (h ^ word[i]) * 1099511628211u ^ h >> 29;
  return (int32_t)((h ^ h >> 32) & 0x3fffffff);
}

static void copy(const anfi_comm_op *r, void *to, const void *from, uint64_t n) {
  if (to != from && n) memmove(to, from, (size_t)(n * r->bytes));
}

static double divisor(const anfi_comm_op *r) { return r->j->call.mean ? (double)r->ranks : 1; }

static anfi_pieces pieces_of(const anfi_comm_op *r, int32_t rank) {
  uint64_t n = r->j->n, all = (uint64_t)r->ranks, p = (uint64_t)rank;
  return (anfi_pieces){.r = r, .from = n * p / all, .to = n * (p + 1) / all};
}
static anfi_pieces all_pieces(const anfi_comm_op *r) {
  return (anfi_pieces){.r = r, .to = r->j->n};
}

/* ---- sums ---- */

/* Sums pieces: rank q's elements are in staging from q * n on, mine where they are. */
static void sum_pieces(const anfi_comm_op *r, anfi_pieces p, const char *staged, uint64_t n,
                       const void **from) {
  anfi_piece x;
  while (anfi_next_piece(&p, &x)) {
    for (int32_t q = 0; q < r->ranks; q++)
      from[q] = q == r->me ? x.in : staged + ((uint64_t)q * n + x.at) * r->bytes;
    anfi_comm_sum(r->j->call.dtype, r->c->o.order, r->ranks, from, x.n, divisor(r), x.out);
  }
}

/* Part p(q) of every rank q's elements goes to rank q; those for this rank are summed. */
static bool exchange_and_sum(const anfi_comm_op *r, bool whole, const void **from) {
  anfi_pieces mine = whole ? all_pieces(r) : pieces_of(r, r->me);
  uint64_t n = mine.to - mine.from;
  char *staged = anfi_op_staging(r, n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && !anfi_stage_pieces(r, q, mine, staged + (uint64_t)q * n * r->bytes))
      return false;
  for (int32_t i = 1; i < r->ranks; i++) {
    int32_t q = (r->me + i) % r->ranks; // not all to one rank at once
    if (!anfi_send_pieces(r, q, whole ? all_pieces(r) : pieces_of(r, q), false)) return false;
  }
  if (!anfi_op_finish(r)) return false;
  sum_pieces(r, mine, staged, n, from);
  return true;
}

static bool gather_parts(const anfi_comm_op *r) {
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && (!anfi_receive_pieces(r, q, pieces_of(r, q)) ||
                       !anfi_send_pieces(r, q, pieces_of(r, r->me), true)))
      return false;
  return anfi_op_finish(r);
}

static bool all_reduce(const anfi_comm_op *r, const void **from) {
  bool whole = r->j->n * r->bytes * (uint64_t)r->ranks <= SMALL;
  if (anfi_comm_halves(r)) return anfi_comm_halve(r);
  return exchange_and_sum(r, whole, from) && (whole || gather_parts(r));
}

static bool reduce_scatter(const anfi_comm_op *r, const void **from) {
  const anfi_comm_part *p = r->j->part;
  uint64_t n = p->n / (uint64_t)r->ranks;
  char *staged = anfi_op_staging(r, n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++) {
    from[q] = q == r->me ? p->in + (uint64_t)q * n * r->bytes : staged + (uint64_t)q * n * r->bytes;
    if (q == r->me) continue;
    if (!anfi_op_receive(r, q, staged + (uint64_t)q * n * r->bytes, n) ||
        !anfi_op_send(r, q, p->in + (uint64_t)q * n * r->bytes, n))
      return false;
  }
  if (!anfi_op_finish(r)) return false;
  anfi_comm_sum(r->j->call.dtype, r->c->o.order, r->ranks, from, n, divisor(r), p->out);
  return true;
}

static bool reduce(const anfi_comm_op *r, const void **from) {
  const anfi_comm_part *p = r->j->part;
  int32_t root = r->j->call.root;
  if (r->me != root) {
    if (!anfi_op_send(r, root, p->in, p->n) || !anfi_op_finish(r)) return false;
    memset(p->out, 0, (size_t)(p->n * r->bytes));
    return true;
  }
  char *staged = anfi_op_staging(r, p->n * (uint64_t)r->ranks);
  if (!staged) return false;
  for (int32_t q = 0; q < r->ranks; q++) {
    from[q] = q == r->me ? p->in : staged + (uint64_t)q * p->n * r->bytes;
    if (q != r->me && !anfi_op_receive(r, q, staged + (uint64_t)q * p->n * r->bytes, p->n))
      return false;
  }
  if (!anfi_op_finish(r)) return false;
  anfi_comm_sum(r->j->call.dtype, r->c->o.order, r->ranks, from, p->n, divisor(r), p->out);
  return true;
}

/* ---- moves ---- */

static bool all_gather(const anfi_comm_op *r) {
  const anfi_comm_part *p = r->j->part;
  uint64_t size = p->n * r->bytes;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && (!anfi_op_receive(r, q, p->out + (uint64_t)q * size, p->n) ||
                       !anfi_op_send(r, q, p->in, p->n)))
      return false;
  copy(r, p->out + (uint64_t)r->me * size, p->in, p->n);
  return anfi_op_finish(r);
}

static bool broadcast(const anfi_comm_op *r) {
  const anfi_comm_part *p = r->j->part;
  int32_t root = r->j->call.root;
  if (r->me != root) return anfi_op_receive(r, root, p->out, p->n) && anfi_op_finish(r);
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && !anfi_op_send(r, q, p->in, p->n)) return false;
  copy(r, p->out, p->in, p->n);
  return anfi_op_finish(r);
}

static bool all_to_all(const anfi_comm_op *r) {
  const anfi_comm_part *p = r->j->part;
  uint64_t n = p->n / (uint64_t)r->ranks, size = n * r->bytes;
  for (int32_t q = 0; q < r->ranks; q++)
    if (q != r->me && (!anfi_op_receive(r, q, p->out + (uint64_t)q * size, n) ||
                       !anfi_op_send(r, q, p->in + (uint64_t)q * size, n)))
      return false;
  copy(r, p->out + (uint64_t)r->me * size, p->in + (uint64_t)r->me * size, n);
  return anfi_op_finish(r);
}

/* Counted by pairs: other ranks need not take part. */
static bool send_receive(anfi_comm_op *r) {
  const anfi_comm_part *p = r->j->part;
  const anf_comm_call *k = &r->j->call;
  anf_comm *c = r->c;
  if (k->to >= 0 && k->to != r->me) {
    r->tag = tag_of(r, c->sent[k->to]++);
    if (!anfi_op_send(r, k->to, p->in, p->n)) return false;
  }
  if (k->from >= 0 && k->from != r->me) {
    r->tag = tag_of(r, c->received[k->from]++);
    if (!anfi_op_receive(r, k->from, p->out, p->n)) return false;
  }
  if (k->from == r->me && k->to == r->me) copy(r, p->out, p->in, p->n);
  else if (k->from < 0 || k->from == r->me) memset(p->out, 0, (size_t)(p->n * r->bytes));
  return anfi_op_finish(r);
}

/* ---- one operation ---- */

static bool is_rank(const anfi_comm_op *r, int32_t rank, int32_t least) {
  if (rank >= least && rank < r->ranks) return true;
  *r->e = (anf_comm_error){.why = ANF_COMM_RANKS, .rank = r->ranks};
  return false;
}

static bool collective(const anfi_comm_op *r, const void **from) {
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
  anfi_comm_op r = {.c = c, .j = j, .e = e, .me = c->link.rank, .ranks = c->link.ranks};
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
