// SPDX-License-Identifier: Apache-2.0
/* Dataflow over the parts of values, for all three transforms: which leaves have a tangent (jvp), which items are
 * batched (vmap), which leaves are varied and which of those are useful (reverse mode).
 *   f(x, n) = (x * n, n):   jvp for x:     in {x}, out {item 0}
 *                           ◀ for item 0:  in {x}, given {item 0}, out {x}
 * The parts of a value are the leaves of its type, or its items (vmap), in order; a mask has one bool for
 * each. A spec is a graph with a mask for its parameters, and in reverse mode one for its result; the mask
 * `out` that it finds is the least fixpoint over all specs that it calls. The transforms make one graph for
 * each spec.
 *
 * The engine has the worklist of specs and the transfer of a node forward, through calls, choices, loops and
 * tuples. A client says what an op does (anfi_flow_rules). Reverse mode adds the transfer backward
 * (reverse/activity.c), and its own tables for masks and specs, which are fast for straight-line code.
 * INVARIANT: masks only rise. A mask that says too much is right too (a zero tangent, a batch of equal
 * lanes), so jvp and vmap raise the branches of a choice and the iterations of a loop to one mask: each is one
 * graph for all its callers. */
#ifndef ANFI_FLOW_H
#define ANFI_FLOW_H

#include "autodiff/autodiff.h"

typedef struct anfi_flow anfi_flow;
typedef struct anfi_flow_spec anfi_flow_spec;
typedef struct anfi_flow_user {
  anfi_flow_spec *spec;
  size_t at; // how far its visits were that read the mask, at the least
} anfi_flow_user;
struct anfi_flow_spec {
  anf_graph *graph;
  size_t nin, nout;
  bool *in, *out;       // of the parameters; what is found, which rises
  anfi_flow_spec *next; // of the same graph
  anf_graph *made;      // for the transform
  /* the worklist */
  ANFI_VEC(anfi_flow_user) users;
  size_t visited;           // how far a visit got that waits for specs which it asked for first
  bool queued, rose, waits; // rose: masks that it has read have risen since its last visit began
};

/* Transfer functions of an analysis: masks of values and of ops' results. */
typedef struct anfi_flow_rules {
  size_t (*count)(const anf_type *t); // parts of a value
  /* The mask of the result of an op that takes nothing apart. */
  void (*op)(anfi_flow *f, const anf_node *n, size_t nout, bool *out);
  void (*all)(const anf_type *t, bool *out); // every part that can be touched
  bool batch; // vmap: a batched condition or trip count makes all results batched
  bool exact; // reverse mode: callees keep the masks that they have, callers need not agree
  /* Reverse mode; NULL: the engine's own. Masks of `now`, specs, and a visit: false if it waits for specs that it
   * asked for first. */
  const bool *(*mask)(anfi_flow *f, const anf_node *n);
  anfi_flow_spec *(*spec)(anfi_flow *f, anf_graph *g, const bool *in);
  bool (*visit)(anfi_flow *f, anfi_flow_spec *s);
} anfi_flow_rules;

struct anfi_flow {
  anfi_ad *ad;
  anfi_arena *a;
  anfi_flow_rules rules;
  anfi_map starts; // type of a tuple or record -> where the parts of each item start
  /* the worklist */
  ANFI_VEC(anfi_flow_spec *) queue;
  size_t asked; // specs made so far
  anfi_flow_spec *now;
  /* the engine's own specs and masks */
  ANFI_VEC(anfi_flow_spec *) specs;
  anfi_map of_graph; // graph -> its first spec
  anfi_map order;    // graph -> its order
  anfi_map local;    // node id -> position in its graph's order
  bool **mask;       // of the nodes of `now`, by position
};

void anfi_flow_init(anfi_flow *f, anfi_ad *ad, const anfi_flow_rules *rules);
/* count, op and all of leaves, for jvp and reverse mode. */
void anfi_flow_leaf_op(anfi_flow *f, const anf_node *n, size_t nout, bool *out);
void anfi_flow_all_leaves(const anf_type *t, bool *out);

/* ---- the worklist ---- */

void anfi_flow_enqueue(anfi_flow *f, anfi_flow_spec *s);
/* `now` is visited again when s->out rises. */
anfi_flow_spec *anfi_flow_use(anfi_flow *f, anfi_flow_spec *s);
/* Raises s->out to at least `out`. */
void anfi_flow_raise(anfi_flow *f, anfi_flow_spec *s, const bool *out);
/* Queues the users of s, whose `out` rose. */
void anfi_flow_rose(anfi_flow *f, const anfi_flow_spec *s);
/* Visits specs until no mask rises. */
void anfi_flow_run(anfi_flow *f);
/* The fixpoint for g with this mask of its parameters; its spec. */
anfi_flow_spec *anfi_flow_solve(anfi_flow *f, anfi_ad *ad, const anfi_flow_rules *rules,
                                anf_graph *g, const bool *in);

/* ---- masks ---- */

/* The CNodes of g that count, inputs first. */
const anfi_node_vec *anfi_flow_order(anfi_flow *f, anf_graph *g);
/* Computes the masks of all nodes of s, which anfi_flow_mask returns then. */
void anfi_flow_visit(anfi_flow *f, anfi_flow_spec *s);
const bool *anfi_flow_mask(anfi_flow *f, const anf_node *n);
/* The transfer of one node forward: the mask of its result, from those of its inputs. `out` is all false. */
void anfi_flow_forward(anfi_flow *f, const anf_node *n, size_t nout, bool *out);
bool anfi_flow_any(const bool *mask, size_t n);
bool anfi_flow_merge(bool *to, const bool *from, size_t n); // true: a bit of `to` rose
/* Masks of the arguments n->in[from..], one after the other. */
bool *anfi_flow_join_args(anfi_flow *f, const anf_node *n, size_t from);

/* Where each part of the result of an op that only takes values apart, or makes them of parts, comes
 * from. NULL: another op. */
typedef struct anfi_flow_from {
  uint32_t in;
  size_t part;
} anfi_flow_from;
const anfi_flow_from *anfi_flow_parts(anfi_flow *f, const anf_node *n);

/* Which item a TupleGet, TupleSet or one of a record's takes. */
size_t anfi_flow_item(anfi_flow *f, const anf_node *n);

/* A choice (Switch or SwitchLayer node) between graphs that is called; else NULL. */
const anf_node *anfi_flow_choice(const anf_node *call);
/* Is n a choice between graphs, which a call makes use of? It is no value. */
static inline bool anfi_flow_is_callee(const anf_node *n) {
  return n->kind == ANFI_APPLY && (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) &&
         anfi_value_graph(n->in[1].def);
}
/* The spec of each branch k = 1.. of a choice, or of the one callee (k = 0). */
anfi_flow_spec *anfi_flow_callee(anfi_flow *f, const anf_node *call, uint32_t k);

/* A Loop: masks of w, of the state as the loop keeps it, of xs, and the spec of its step. */
typedef struct anfi_flow_loop {
  anfi_loop_op l;
  bool *in;             // parts of the step's parameters: those of w, of s, of an element of each x
  size_t pw, ps;        // numbers of parts of w and s
  bool freeze;          // vmap: `again`, or the number of rounds, differs by lane
  size_t again;         // parts of `again`: 0 when counted, else 1
  anfi_flow_spec *step; // its result: again, state, outs
  bool *outs;           // by stack: is it touched? Then all that it can hold is.
} anfi_flow_loop;
anfi_flow_loop anfi_flow_loop_of(anfi_flow *f, const anf_node *n);

#endif
