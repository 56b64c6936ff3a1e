// SPDX-License-Identifier: Apache-2.0
/* The parts of a Loop node by name:
 *   Loop(step, go, w, s :invariant 1 :guarded true)
 *   -> {.step = step, .go = go, .nw = 1, .ns = 1, .first_w = 2}
 * Arguments are [n or go], w.. (invariants), s.. (state), x.. (stacks that the step reads); the row of
 * Loop in ir/ops/op.def gives their meaning. */
#ifndef ANFI_IR_LOOP_H
#define ANFI_IR_LOOP_H

#include "ir/ir.h"

typedef struct anfi_loop_op {
  anf_graph *step; // NULL: not a known graph
  anf_node *n;     // number of iterations; NULL: not counted
  anf_node *go;    // guard; NULL: not guarded
  /* numbers of invariants, state items, stacks read, stacks written */
  size_t nw, ns, nx, nout;
  bool counted, reverse, rounds;
  const anf_node *loop; // its arguments: w at first_w.., then s, then x
  size_t first_w;
} anfi_loop_op;

anfi_loop_op anfi_loop_parts(const anf_node *loop);
size_t anfi_loop_attr(const anf_node *loop, uint32_t k); // ANFI_LOOP_*

/* The first item of the state among the items of the step's result: item 0 is `again` unless counted. */
static inline size_t anfi_loop_first_item(const anfi_loop_op *l) { return l->counted ? 0 : 1; }

/* Does every round add the same number to item i of the state, an integer? Finds the number. */
bool anfi_loop_counts(const anfi_loop_op *l, size_t i, int64_t *by);

#endif
