// SPDX-License-Identifier: Apache-2.0
/* The worklists of passes that run often. In
 *   a = x * 1; b = a + y         simplify replaces a by x, which queues b alone
 * a second run of simplify visits b and no other node. Each node has a byte in the module with a bit for each
 * pass that must visit it; a sweep skips eight nodes at a time where no bit is set. What a pass has
 * found out about a node (clean: no rule fires, no other node equals it) is a flag of the node.
 *
 * ir/node.c queues nodes as inputs and uses change; a pass queues only what it learns besides.
 * INVARIANT: a bit may be set in vain, but a node that is not clean has its bit (ir/verify.c). */
#ifndef ANFI_WORKLIST_H
#define ANFI_WORKLIST_H

#include "ir/ir.h"

/* Worklists, as bits. A clean node has the flag of the first two: ANFI_NODE_SIMPLE, ANFI_NODE_UNIQUE. */
enum {
  ANFI_WORK_SIMPLIFY = 1, // a rule may fire
  ANFI_WORK_CSE = 2,      // another node may equal it
  ANFI_WORK_DCE = 4,      // a CNode that may be unused
  ANFI_WORK_EXPAND = 8,   // an op for the pass `expand`
  ANFI_WORK_GRAPH = 16,   // a constant that holds a graph
  ANFI_WORK_ALL = 31      // a node that is still blank
};

static inline uint8_t anfi_work_flags(unsigned work) {
  return (uint8_t)((work & ANFI_WORK_SIMPLIFY ? ANFI_NODE_SIMPLE : 0u) |
                   (work & ANFI_WORK_CSE ? ANFI_NODE_UNIQUE : 0u));
}

static inline void anfi_work_add(const anf_node *n, uint8_t work) {
  n->graph->module->work[n->id] |= work;
}
static inline bool anfi_work_has(const anf_module *m, size_t id, uint8_t work) {
  return m->work[id] & work;
}
static inline void anfi_work_done(const anf_module *m, size_t id, uint8_t work) {
  m->work[id] &= (uint8_t)~work;
}

static inline bool anfi_is_clean(const anf_node *n, uint8_t work) {
  return n->flags & anfi_work_flags(work);
}
static inline void anfi_set_clean(anf_node *n, uint8_t work) { n->flags |= anfi_work_flags(work); }
/* n has changed for these passes. */
static inline void anfi_set_dirty(anf_node *n, uint8_t work) {
  n->flags &= (uint8_t)~anfi_work_flags(work);
  anfi_work_add(n, work);
}

/* The rule engine also remembers which nodes it has visited: when such a node changes, its users may match. */
static inline bool anfi_was_visited(const anf_node *n) { return n->flags & ANFI_NODE_SEEN; }
static inline void anfi_set_visited(anf_node *n) { n->flags |= ANFI_NODE_SEEN | ANFI_NODE_SIMPLE; }
static inline void anfi_set_new(anf_node *n) {
  n->flags &= (uint8_t)~ANFI_NODE_SEEN;
  anfi_set_dirty(n, ANFI_WORK_SIMPLIFY);
}

/* The flags of a new node that is on the worklists `work`, and clean for the others. */
static inline uint8_t anfi_initial_flags(uint8_t work) {
  enum { SIMPLE = ANFI_NODE_SEEN | ANFI_NODE_SIMPLE, UNIQUE = ANFI_NODE_UNIQUE };
  static const uint8_t of[] = {SIMPLE | UNIQUE, UNIQUE, SIMPLE, 0}; // by SIMPLIFY and CSE
  return of[work & (ANFI_WORK_SIMPLIFY | ANFI_WORK_CSE)];
}

/* The first node from i on with one of the bits; the number of nodes if there is none. */
size_t anfi_work_next(const anf_module *m, size_t i, uint8_t work);
/* One more than the last node before i with one, or 0. */
size_t anfi_work_last(const anf_module *m, size_t i, uint8_t work);

#endif
