// SPDX-License-Identifier: Apache-2.0
/* Forward dataflow over the parts of values: which leaves have a tangent (jvp), which items are batched (vmap).
 *   f(x, n) = (x * n, n):   jvp for x: in {x}, out {item 0}
 * The parts of a value are the leaves of its type (jvp) or its items (vmap), in order; a mask has one bool for
 * each. A spec is a graph with a mask for its parameters; its mask for the result is the least fixpoint
 * over all specs that it calls. The transforms make one graph for each spec.
 * INVARIANT: masks only rise. A mask that says too much is right too (a zero tangent, a batch of equal
 * lanes), so the branches of a choice and the iterations of a loop are raised to one mask.
 * Reverse mode has the same lattice with a backward half on top (reverse/activity.c). */
#ifndef ANFI_FLOW_H
#define ANFI_FLOW_H

#include "autodiff/autodiff.h"

typedef struct anfi_flow anfi_flow;
typedef struct anfi_flow_spec anfi_flow_spec;
struct anfi_flow_spec {
  anf_graph *graph;
  size_t nin, nout;
  bool *in, *out;
  anfi_flow_spec *next; // of the same graph
  ANFI_VEC(anfi_flow_spec *) users;
  bool queued;
  anf_graph *made; // for the transform
};

/* What an analysis says of values and ops. */
typedef struct anfi_flow_rules {
  size_t (*count)(const anf_type *t); // parts of a value
  /* The mask of the result of an op that takes nothing apart. */
  void (*op)(anfi_flow *f, const anf_node *n, const bool *const *in, size_t nout, bool *out);
  void (*all)(const anf_type *t, bool *out); // every part that can be touched
  bool batch; // vmap: a batched condition or trip count makes all results batched
} anfi_flow_rules;

struct anfi_flow {
  anfi_ad *ad;
  anfi_arena *a;
  anfi_flow_rules rules;
  ANFI_VEC(anfi_flow_spec *) specs;
  ANFI_VEC(anfi_flow_spec *) queue;
  anfi_map of_graph; // graph -> its first spec
  anfi_map order;    // graph -> its order
  anfi_map local;    // node id -> position in its graph's order
  anfi_map starts;   // type of a tuple or record -> where the parts of each item start
  anfi_flow_spec *now;
  bool **mask; // of the nodes of `now`, by position
};

void anfi_flow_init(anfi_flow *f, anfi_ad *ad);
/* The fixpoint for g with this mask of its parameters; its spec. */
anfi_flow_spec *anfi_flow_solve(anfi_flow *f, anfi_ad *ad, const anfi_flow_rules *rules,
                                anf_graph *g, const bool *in);
/* The spec, made and queued if new. `in` is copied. */
anfi_flow_spec *anfi_flow_spec_of(anfi_flow *f, anf_graph *g, const bool *in);
/* The CNodes of g that count, inputs first. */
const anfi_node_vec *anfi_flow_order(anfi_flow *f, anf_graph *g);
/* Computes the masks of all nodes of s, which anfi_flow_mask returns then. */
void anfi_flow_visit(anfi_flow *f, anfi_flow_spec *s);
const bool *anfi_flow_mask(anfi_flow *f, const anf_node *n);
bool anfi_flow_any(const bool *mask, size_t n);
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
