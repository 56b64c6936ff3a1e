// SPDX-License-Identifier: Apache-2.0
/* One operation on the communicator's thread: its messages, and the pieces of memory that a bucket consists of. */
#ifndef ANFI_COMM_OP_H
#define ANFI_COMM_OP_H

#include "comm/comm.h"

typedef struct anfi_comm_op {
  anf_comm *c;
  const anfi_comm_job *j;
  anf_comm_error *e;
  uint64_t end; // of the time limit
  int32_t me, ranks, tag;
  uint64_t bytes; // of an element
} anfi_comm_op;

static inline bool anfi_op_send(const anfi_comm_op *r, int32_t to, const void *at, uint64_t n) {
  return anfi_comm_post(r->c, true, to, r->tag, at, n * r->bytes, r->e);
}
static inline bool anfi_op_receive(const anfi_comm_op *r, int32_t from, void *at, uint64_t n) {
  return anfi_comm_post(r->c, false, from, r->tag, at, n * r->bytes, r->e);
}
static inline bool anfi_op_finish(const anfi_comm_op *r) {
  return anfi_comm_finish(r->c, r->end, r->e);
}
static inline char *anfi_op_staging(const anfi_comm_op *r, uint64_t n) {
  char *p = anfi_comm_staging(r->c, n * r->bytes + 1);
  if (!p) *r->e = (anf_comm_error){.why = ANF_COMM_BROKEN, .rank = -1};
  return p;
}

/* The elements [from, to) of all parts together: each piece is of one part. */
typedef struct anfi_piece {
  const char *in;
  char *out;
  uint64_t n, at; // `at`: elements of [from, to) before it
} anfi_piece;
typedef struct anfi_pieces {
  const anfi_comm_op *r;
  uint64_t from, to, first; // `first`: the element that part `k` begins with
  size_t k;
} anfi_pieces;

static inline bool anfi_next_piece(anfi_pieces *p, anfi_piece *out) {
  for (; p->k < p->r->j->npart; p->k++) {
    const anfi_comm_part *a = &p->r->j->part[p->k];
    uint64_t from = p->from > p->first ? p->from : p->first, end = p->first + a->n;
    uint64_t to = p->to < end ? p->to : end, skip = (from - p->first) * p->r->bytes;
    uint64_t at = from - p->from;
    p->first = end;
    if (from >= to) continue;
    *out = (anfi_piece){a->in + skip, a->out + skip, to - from, at};
    p->k++;
    return true;
  }
  return false;
}

/* Messages piece by piece, since the memory of a bucket is in pieces on both sides. Sends `in`, or what has come so far: `out`. */
static inline bool anfi_send_pieces(const anfi_comm_op *r, int32_t to, anfi_pieces p, bool out) {
  anfi_piece x;
  while (anfi_next_piece(&p, &x))
    if (!anfi_op_send(r, to, out ? x.out : x.in, x.n)) return false;
  return true;
}
static inline bool anfi_stage_pieces(const anfi_comm_op *r, int32_t from, anfi_pieces p,
                                     char *staged) {
  anfi_piece x;
  while (anfi_next_piece(&p, &x))
    if (!anfi_op_receive(r, from, staged + x.at * r->bytes, x.n)) return false;
  return true;
}
static inline bool anfi_receive_pieces(const anfi_comm_op *r, int32_t from, anfi_pieces p) {
  anfi_piece x;
  while (anfi_next_piece(&p, &x))
    if (!anfi_op_receive(r, from, x.out, x.n)) return false;
  return true;
}

/* halve.c: is this an AllReduce that the fast order adds step by step? Then anfi_comm_halve runs it. */
enum { ANFI_COMM_HALVES = 8 }; // ranks from which on it is faster
bool anfi_comm_halves(const anfi_comm_op *r);
bool anfi_comm_halve(const anfi_comm_op *r);

#endif
