// SPDX-License-Identifier: Apache-2.0
/* A loop while it is lowered: shared by loop.c and loopstate.c. */
#ifndef ANFI_LOWER_LOOPING_H
#define ANFI_LOWER_LOOPING_H

#include "backend/lower/graph/graph.h"

/* A stack that the loop writes or reads: one record a round, one after the other. So code knows how far apart the numbers of
 * two rounds are, and LLVM makes vectors of them. A loop's stacks lie in one array, one after the other. */
typedef struct gstack {
  anfi_leaves leaves;
  const anf_type *type;
  uint64_t *at;   // by leaf: its place in the record
  uint64_t bytes; // of a record
  texpr base;     // the first record
  /* of one that is written */
  uint64_t before; // bytes a round of the stacks that lie before it
  gsource kept;    // what it keeps, if that is one leaf
  size_t state;    // 1 + leaf of the state that lives in it, or 0
  bool later;      // that leaf as the round leaves it, not as the round finds it
  texpr record;    // in a round: how far the record is from the base, and by leaf where it goes
  const texpr *to;
} gstack;

/* The storage of a leaf of the state (loop_state.c). */
typedef enum ghome {
  HOME_VAR, // a scalar
  HOME_ROOM, // a buffer, which is written when a round is over, or in the round by the one op that reads it
  HOME_TURN, // a place in a buffer, and after the round another place
  HOME_STACK // the record of the round in a stack that keeps it
} ghome;
typedef struct gplace {
  /* what it is */
  ghome home;
  gsource param, next; // of the step; what gives the next may be unknown
  bool in_place;       // HOME_ROOM: may be written while the round is computed
  bool
      linear; // in_place, or made in the place of one of the group: by a chain of writes, branches and loops (linear.c)
  bool fresh; // HOME_TURN: given what a round makes, not what another leaf had
  /* where it is */
  size_t takes, taker; // if not fresh: that leaf; 1 + the leaf that takes this one's, or 0
  size_t group;        // HOME_TURN: leaf whose buffer its places are in
  size_t slot;         // HOME_STACK: which stack written
  texpr room;          // HOME_ROOM, HOME_TURN: the buffer
  texpr at, spare;     // HOME_TURN: variables: where it is, where the next is written if fresh
  bool taken;          // HOME_TURN: the buffer is one of an outer loop
  /* the current round */
  texpr was, will; // the same, in the current round
  bool moved;      // exchanged: it is where the round has made it
  texpr now, to;   // in the current iteration: the view that is read; where the next goes, or NULL
} gplace;

typedef struct looping {
  /* the node */
  glow *w;
  anf_node *n;
  anf_graph *step;
  size_t nw, ns, nx, nout;
  bool counted, guarded, reverse, tells; // tells: gives the number of rounds
  gval *shared; // the invariants, settled before the rounds: a constant would be stored in each
  /* the state */
  const anfi_use *arg; // the first invariant
  anfi_leaves leaves;  // of the state
  gplace *place;       // by leaf
  bool ahead;          // records of a round more than there are: the state after the last
  size_t *same;        // by leaf of the state: 1 + the one that it equals after each round, or 0
  /* stacks */
  gstack *x, *out;
  /* the current round */
  texpr again, rounds; // rounds: all of them, if counted
  texpr i, next;       // the current round; the one after, as a variable of the loop
  gsums *sums;
  /* stacks written */
  texpr base, cap; // their array, and how many rounds it has room for, if not counted
  uint64_t bytes;  // a round, of all
} looping;

/* Before anything of the loop is made: where each leaf of the state will be. */
void anfi_loop_state_plan(looping *l);
/* The same before the first round: once stacks are open. */
void anfi_loop_state_begin(looping *l, gval given);
/* In a round, before its body; and at its end, given what the body made. */
void anfi_loop_state_now(looping *l);
void anfi_loop_state_next(looping *l, gval v);
/* Tells where leaves of the step's result are wanted. */
void anfi_loop_state_wish(looping *l);
/* Behind the loop. */
gval anfi_loop_state_result(looping *l);

/* loop.c: how far the record of a round is from the base, `more` rounds after `round` */
texpr anfi_loop_record(const looping *l, const gstack *s, texpr round, uint64_t more);

#endif
