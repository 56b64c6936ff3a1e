// SPDX-License-Identifier: Apache-2.0
/* Exchange between ranks, for a batch of lanes: all lanes at once. Ops that cut or join axis 0 work on it after the
 * lanes:
 *   x: [lanes, n, ..]  ->  [n, lanes, ..]  ->  AllGather  ->  [n ranks, lanes, ..]  ->  [lanes, n ranks, ..] */
#include "autodiff/batch/batch.h"

anf_node *anfi_batch_collective(anfi_batch *b) {
  anf_node *x = anfi_b_move(b, b->in[0], 0, 1), *y = anfi_b_again(b, &x);
  return anfi_b_move(b, y, 1, 0);
}

/* The lanes of another vmap, along a new axis after those of this one. */
anf_node *anfi_batch_lane_gather(anfi_batch *b) {
  return anfi_b_move(b, anfi_b_again(b, b->in), 1, 0);
}

/* A rank of its own for each lane: one lane after the other, which is in the same order on all ranks. */
anf_node *anfi_batch_send_recv(anfi_batch *b) {
  anf_node *in[3] = {anfi_b_operand(b, 0), b->in[1], b->in[2]};
  return b->batched[1] || b->batched[2] ? NULL : anfi_b_again(b, in);
}
