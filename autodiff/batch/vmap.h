// SPDX-License-Identifier: Apache-2.0
/* State of one vmap: shared by vmap.c, branch.c and loop.c. */
#ifndef ANFI_VMAP_H
#define ANFI_VMAP_H

#include "autodiff/batch/batch.h"
#include "autodiff/flow.h"

typedef struct anfi_vmap {
  /* the transform */
  anfi_flow f;
  anfi_ad *ad;
  int64_t size;
  const anf_value *name; // of the batch; NULL: none
  const bool *named;     // by id: graphs with an op over this batch, or that refer to one
  size_t nnamed;
  /* specialisations */
  ANFI_VEC(anfi_flow_spec *) todo; // specs whose graph is made and still empty
  const anf_analysis *an;          // of the module before, when needed
  /* the one that is being filled */
  anfi_flow_spec *now;
  anf_node **param; // of now->made
  anf_node **node;  // by position in the order of now->graph: its counterpart
  anfi_batch b;     // building in now->made
} anfi_vmap;

/* vmap.c */
anf_graph *anfi_vmap_made(anfi_vmap *v, anfi_flow_spec *s);
anf_node *anfi_vmap_node(anfi_vmap *v, const anf_node *old); // its counterpart
/* x of type t whose items in `has` are batched, with those in `want` (which holds `has`) batched. */
anf_node *anfi_vmap_raise(anfi_vmap *v, anfi_batch *b, anf_node *x, const anf_type *t,
                          const bool *has, const bool *want);
/* The type of t with the items of the mask batched. */
const anf_type *anfi_vmap_type(anfi_vmap *v, const anf_type *t, const bool *mask);
/* Item i of a tuple or record; a value of type t, as far as names go, of items. */
anf_node *anfi_nest_item(const anfi_batch *b, anf_node *x, size_t i);
anf_node *anfi_nest_of(const anfi_batch *b, const anf_type *t, anf_node **items);
/* A batch that builds in another graph; `like`: any node of it that has the lanes. */
anfi_batch anfi_vmap_in(const anfi_vmap *v, anf_graph *g, anf_node *like);
anf_node *anfi_vmap_param(anf_graph *g, const anf_type *t);

/* named.c: ops over the lanes of the batch that has their name */
void anfi_vmap_find_named(anfi_vmap *v);
bool anfi_vmap_is_named(const anfi_vmap *v, const anf_graph *g); // holds g one?
/* Fails if g, which not all lanes run, holds one; `where` says what g is. */
bool anfi_vmap_whole(const anfi_vmap *v, const anf_graph *g, const anf_node *at, const char *where);
bool anfi_vmap_names(const anfi_vmap *v, const anf_node *n); // is n one?
/* What n, which is one, becomes; x: its operand, batched or not. */
anf_node *anfi_vmap_over_lanes(anfi_vmap *v, const anf_node *n, anf_node *x, bool batched);

/* branch.c: choices that differ by lane */
/* A few ops that are cheap and defined, together with their derivatives, for any argument. */
bool anfi_vmap_is_safe(anfi_vmap *v, anf_graph *g);
/* Items of x (tensors in the mask) where the lane is in m, elsewhere those of a lane that is: what
 * lanes compute that are not in m does not matter then, and cannot fail or make a NaN. */
anf_node *anfi_vmap_fill(anfi_vmap *v, anfi_batch *b, anf_node *m, anf_node *x, const anf_type *t,
                         const bool *mask);
/* c ? x : y by lane; all that can be is batched. */
anf_node *anfi_vmap_select(anfi_vmap *v, anfi_batch *b, anf_node *c, anf_node *x, anf_node *y,
                           const anf_type *t);
anf_node *anfi_vmap_choice(anfi_vmap *v, const anf_node *call, const anf_node *choice);

/* serial.c: would lanes side by side copy arrays in each round of a loop? */
bool anfi_vmap_is_serial(anfi_vmap *v, const anfi_flow_spec *root);
/* Fills `made`, which has the parameters of the batch, with a loop over lanes. */
bool anfi_vmap_serially(anfi_vmap *v, const anfi_flow_spec *root, anf_graph *made);

/* loop.c */
anf_node *anfi_vmap_loop(anfi_vmap *v, const anf_node *n);

#endif
