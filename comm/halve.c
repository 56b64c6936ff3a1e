// SPDX-License-Identifier: Apache-2.0
/* AllReduce in the fast order, on a power of two of ranks, by halving and doubling (Thakur, Rabenseifner and Gropp 2005):
 *
 *   rank 0  [abcd]     [ab]     [a]     [ab]     [abcd]
 *   rank 1  [abcd]  -> [cd]  -> [c]  -> [cd]  -> [abcd]
 *   rank 2  [abcd]     [ab]     [b]     [ab]     [abcd]
 *   rank 3  [abcd]     [cd]     [d]     [cd]     [abcd]
 *              with r ^ 1    r ^ 2   r ^ 2    r ^ 1
 *
 * 2 log2(R) messages of each rank in place of 2 (R - 1), and as many bytes. Every element is added as ((0 + 1) + (2 + 3)),
 * whichever rank does it, and rounded to its type after each addition: the bits depend on neither buckets nor time. */
#include "comm/op.h"

enum { LEVELS = 31 };

typedef struct range {
  uint64_t from, to;
} range;

static anfi_pieces pieces_of(const anfi_comm_op *r, range k) {
  return (anfi_pieces){.r = r, .from = k.from, .to = k.to};
}

/* The half that the rank keeps after an exchange over `distance`, or the other. */
static range half(range k, bool upper) {
  uint64_t middle = k.from + (k.to - k.from) / 2;
  return upper ? (range){middle, k.to} : (range){k.from, middle};
}

/* The summand of the lower ranks is the first: of two NaNs the result is the first. */
static void add(const anfi_comm_op *r, range part, const char *staged, int32_t distance) {
  bool last = 2 * distance == r->ranks, mean = r->j->call.mean && last;
  anfi_piece x;
  for (anfi_pieces p = pieces_of(r, part); anfi_next_piece(&p, &x);) {
    const void *mine = distance == 1 ? x.in : x.out, *other = staged + x.at * r->bytes;
    bool upper = (r->me & distance) != 0;
    const void *const from[2] = {upper ? other : mine, upper ? mine : other};
    anfi_comm_sum(r->j->call.dtype, ANF_COMM_FAST, 2, from, x.n, mean ? (double)r->ranks : 1,
                  x.out);
  }
}

bool anfi_comm_halves(const anfi_comm_op *r) {
  const anf_comm_call *k = &r->j->call;
  bool own =
      k->dtype == ANF_F32 || k->dtype == ANF_F64 || k->dtype == ANF_C64 || k->dtype == ANF_C128;
  return r->c->o.order == ANF_COMM_FAST && own && r->ranks >= ANFI_COMM_HALVES &&
         !(r->ranks & (r->ranks - 1));
}

bool anfi_comm_halve(const anfi_comm_op *r) {
  range part[LEVELS + 1] = {{0, r->j->n}};
  size_t level = 0;
  int32_t d = 1;
  char *staged = anfi_op_staging(r, (r->j->n + 1) / 2);
  if (!staged) return false;
  for (; d < r->ranks; d *= 2, level++) {
    bool upper = (r->me & d) != 0;
    range mine = half(part[level], upper), theirs = half(part[level], !upper);
    if (!anfi_stage_pieces(r, r->me ^ d, pieces_of(r, mine), staged) ||
        !anfi_send_pieces(r, r->me ^ d, pieces_of(r, theirs), d > 1) || !anfi_op_finish(r))
      return false;
    add(r, mine, staged, d);
    part[level + 1] = mine;
  }
  while ((d /= 2) >= 1) {
    range mine = part[level--], theirs = half(part[level], !(r->me & d));
    if (!anfi_receive_pieces(r, r->me ^ d, pieces_of(r, theirs)) ||
        !anfi_send_pieces(r, r->me ^ d, pieces_of(r, mine), true) || !anfi_op_finish(r))
      return false;
  }
  return true;
}
