// SPDX-License-Identifier: Apache-2.0
/* Derivatives as transforms of closed, typed, first-order graphs: what the drivers share.
 *   grad(f)(x)  ->  Derive(f, x)  ->  calls of ▶f and ◀f
 * Inference (optimizer/infer/transform.c) leaves a Derive node where a program asks for a derivative or a batch;
 * the pass `expand` replaces it by calls of graphs that the drivers make: reverse/ (▶, ◀), forward/ (∂),
 * batch/ (⇉). The target of an expanded node holds no Derive itself: innermost first.
 *
 * Glossary
 *   leaf     a float or complex tensor, a box or a stack inside a value: what can have a derivative.
 *            The leaves of a type are in order; those of a list of values follow one another. Integers, bools,
 *            keys, strings and none are no leaves.
 *   mask     one bool for each leaf of a list
 *   adjoint, tangent  of a value: one node for each leaf of its type; NULL is zero */
#ifndef ANFI_AUTODIFF_H
#define ANFI_AUTODIFF_H

#include "autodiff/derive/derive.h"
#include "ir/loop.h"
#include "optimizer/opt.h"

/* leaf.c */
bool anfi_is_leaf(const anf_type *t);
static inline size_t anfi_ad_leaves(const anf_type *t) { return t->leaves; }
void anfi_leaf_types(const anf_type *t, const anf_type **out);
/* The leaves of x as nodes of g (TupleGet and RecordGet of it, folded where x is made in g). */
void anfi_leaf_nodes(anfi_ad *ad, anf_graph *g, anf_node *x, anf_node **out);
/* A value of type t in g of these leaves: parts that are no leaves are zeros of their type (an empty string,
 * none), leaves that are NULL are zeros, of the shape of `like`'s where t does not tell it (`like`
 * may be NULL where it does). */
anf_node *anfi_of_leaves(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like,
                         anf_node *const *leaf);
/* Zeros for one leaf of type t; `like` is a node of that type, or NULL where t has a static shape. */
anf_node *anfi_zero_leaf(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like);
/* a + b of one leaf, a box or a stack too; either may be NULL. */
anf_node *anfi_add_leaf(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b);
/* n, whose type is t and whose origin is the derivative being built. */
anf_node *anfi_ad_typed(const anfi_ad *ad, anf_node *n, const anf_type *t);
/* Does n follow from the dims of its inputs alone? */
bool anfi_ad_asks_dims(const anfi_ad *ad, const anf_node *n);
anf_node *anfi_ad_box(anfi_ad *ad, anf_graph *g, anf_node *x);
anf_node *anfi_ad_unbox(anfi_ad *ad, anf_graph *g, anf_node *box, const anf_type *t);
anf_node *anfi_ad_tuple(anfi_ad *ad, anf_graph *g, size_t n, anf_node *const *items);
anf_node *anfi_ad_get(anfi_ad *ad, anf_graph *g, anf_node *t, size_t i);
anf_node *anfi_ad_undef(anfi_ad *ad, anf_graph *g, const anf_type *t);
/* A call of f, typed by f's result type (which must be known: f->result or `type`). */
anf_node *anfi_ad_call(anfi_ad *ad, anf_graph *g, anf_graph *f, const anf_type *type, size_t n,
                       anf_node *const *args);
/* The same of any callee, such as a choice between graphs. */
anf_node *anfi_ad_call_node(anfi_ad *ad, anf_graph *g, anf_node *callee, const anf_type *type,
                            size_t n, anf_node *const *args);

/* Loop(step, [n or go], args..) with the numbers and flags of `l` (n, go, nw, ns, nx, nout, reverse, rounds;
 * it is counted if n is given, guarded if go is), typed by `args` and the numbers. */
anf_node *anfi_ad_loop(anfi_ad *ad, anf_graph *g, const anfi_loop_op *l, anf_node *const *args);

/* reverse/: the forward and the backward graph of f for leaves `want` of its parameters and `given` of
 * its result.
 *   fwd(params..) -> (result, residuals..)
 *   bwd(residuals.., params that are `passed`.., one dy a leaf of `given`..) -> (one dx a leaf of `out`..)
 * `given` and `out` of the pair are subsets of those asked for: the value does not depend on the
 * others, and gradients of them are zero. */
typedef struct anfi_vjp_pair {
  anf_graph *fwd, *bwd;
  size_t nresidual;
  const bool *passed, *given, *out;
} anfi_vjp_pair;
bool anfi_vjp_graphs(anfi_ad *ad, anf_graph *f, const bool *want, const bool *given,
                     anfi_vjp_pair *out);

/* The same as nodes of the graph g, where f without effects is differentiated once: args[] stand for
 * f's parameters, dy[] for adjoints of the leaves of its result; dx[] is by leaf of the parameters,
 * NULL where zero. `value` stays NULL where f calls itself: then its pair is to be called. */
typedef struct anfi_vjp_inline {
  anf_graph *g;
  anf_node *const *args, *const *dy;
  anf_node **dx, *value;
} anfi_vjp_inline;
bool anfi_vjp_at(anfi_ad *ad, anf_graph *f, const bool *want, const bool *given,
                 anfi_vjp_inline *at);

/* pure.c: f, or a copy without effects if f can reach one; derivative rules keep theirs. */
anf_graph *anfi_without_effects(anfi_ad *ad, anf_graph *f);
bool anfi_has_effects(anfi_ad *ad, const anf_graph *f); // f, or what it calls
/* Finds the graphs whose ◀ runs a rule with effects, of custom_vjp or custom_jvp, and does not drop them: ad->rules. */
void anfi_find_rules(anfi_ad *ad);
/* Has the rule that the derivative of n runs effects? False with an error in *good where they cannot happen. */
bool anfi_rule_effects(anfi_ad *ad, const anf_node *n, const anf_graph *rule, bool *good);
static inline bool anfi_runs_rule(const anfi_ad *ad, const anf_graph *g) {
  return g->id < ad->nrules && ad->rules[g->id];
}
/* `has`, by graph id, also of all that refer to such a graph. */
void anfi_spread_to_users(anfi_ad *ad, bool *has);

/* vmap.c. Masks here have one bool for each item that is no tuple and no record (every such item can
 * be batched, integers and keys too): "items". V takes f's parameters, those with in[i] with a new
 * axis 0 of `size` elements (ANF_DIM_UNKNOWN: taken from the data), and gives f's result, items
 * with (*out)[i] with that axis. Ops over the lanes of `name` are of this batch. NULL after an error. */
size_t anfi_item_count(const anf_type *t);
anf_graph *anfi_vmap_graph(anfi_ad *ad, anf_graph *f, const bool *in, int64_t size,
                           const anf_value *name, const bool **out);

/* expand.c calls these for Derive nodes of kind "jvp" and "vmap": the node that takes its place, or
 * NULL after an error. jvp.c and vmap.c define them. */
anf_node *anfi_expand_jvp(anfi_ad *ad, anf_node *derive);
anf_node *anfi_expand_vmap(anfi_ad *ad, anf_node *derive);
/* expand.c: `call` replaces `derive` in the order of effects. */
void anfi_expand_effect(anf_node *derive, anf_node *call);

#endif
