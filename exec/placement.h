// SPDX-License-Identifier: Apache-2.0
/* Where the elements of a value are, if it is computed in parts: by ranks, or piece by piece. */
#ifndef ANFI_PLACEMENT_H
#define ANFI_PLACEMENT_H

#include "ir/ir.h"

/* CUT: the axis is `groups` equal groups, one after the other, and each rank holds its contiguous part of each group.
 * PARTIAL: each rank holds a tensor of all dims, and the value is their sum. */
typedef struct anfi_placement {
  enum {
    ANFI_WHOLE,
    ANFI_CUT,
    ANFI_PARTIAL,
    ANFI_AS_IT_IS
  } kind; // AS_IT_IS: wanted for its element type alone
  uint32_t axis;
  int64_t groups;
} anfi_placement;

/* placement.c: an op on values with these placements */
typedef struct anfi_placing {
  anf_ctx *cx;
  const anf_node *n;
  int64_t ranks;
  const anfi_placement *in; // of the inputs
  const bool *alone;        // input i is read by nothing else
  anfi_placement *want;     // set: that the inputs must have; WHOLE at first
  anfi_placement out;       // set
} anfi_placing;
/* Computing from the inputs as wanted gives the result as `out`, without an exchange; WHOLE if no way is known. */
void anfi_placement_of(anfi_placing *p);
bool anfi_placement_same(anfi_placement a, anfi_placement b);
/* The type of this rank's part. */
const anf_type *anfi_placement_part(anf_ctx *cx, const anf_type *t, anfi_placement l,
                                    int64_t ranks);
/* Blocks that one rank holds one after the other, in row-major order: the product of the dims before the axis, and the groups. */
int64_t anfi_placement_outer(const anf_type *t, anfi_placement l);

#endif
