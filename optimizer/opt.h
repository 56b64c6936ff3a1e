// SPDX-License-Identifier: Apache-2.0
/* The optimizer: passes over modules, each one function and one row of pass.def. */
#ifndef ANFI_OPT_H
#define ANFI_OPT_H

#include "ir/ir.h"

/* A pass at work. */
typedef struct anfi_pass {
  anf_module *m;
  bool fast;         // floats may be reassociated
  bool swept;        // `dce` has run, and nothing was rewritten since
  uint64_t rewrites; // done so far; counted up by every rewrite
  uint64_t limit;    // bisecting: stop rewriting here
  const char *name;
  const struct anf_opt_opts *o;
} anfi_pass;
/* driver.c: tells the host why the pass leaves a node as it is: its name and place, and what follows. */
void anfi_pass_note(const anfi_pass *p, const anf_node *n, const char *stays, const char *why);
/* One more rewrite: false when the limit says to leave the program as it is. */
static inline bool anfi_rewrite(anfi_pass *p) {
  if (p->rewrites >= p->limit) return false;
  p->rewrites++;
  return true;
}

/* Properties of a module, for the columns of pass.def. */
typedef enum anfi_property {
  ANFI_CLOSED = 1, // no graph captures anything
  ANFI_TYPED = 2,  // every node has a type
  ANFI_FIRST_ORDER =
      4, // a graph is used only as a callee or as a branch of a Switch that is a callee
} anfi_property;

/* infer/specialise.c: replaces the module by specialisations of the entries at their parameter types.
 * `entry` receives the new graphs. */
bool anfi_specialise(anf_module *m, size_t n, anf_graph **entry,
                     const anf_type *const *const *types);

/* dce.c: for passes that must not meet dead code; not counted by bisection. */
bool anfi_clear_dead(anf_module *m);
/* Also dead cycles of captures, where graphs are not closed. */
void anfi_clear_unneeded(anf_module *m);
/* edit.c: the attributes of an op: its first, a constant (takes the reference); others as by default */
const anfi_attrs *anfi_attrs_one(anf_module *m, anfi_opcode op, anf_value *v);
const anfi_attrs *anfi_attrs_nth(anf_module *m, anfi_opcode op, uint32_t k, anf_value *v);
/* The attributes of n with number k another constant (takes the reference). */
const anfi_attrs *anfi_attrs_set(anf_module *m, const anf_node *n, uint32_t k, anf_value *v);
/* Programs without calls, which may be large, have nothing for some passes. */
static inline bool anfi_has_calls(const anf_module *m) { return m->ncalls > 0; }
/* A MakeTuple, or a constant. */
bool anfi_is_made_tuple(const anf_node *n);
/* Item i of a tuple; where it is not made here, a node of g. */
anf_node *anfi_tuple_item(anf_graph *g, anf_node *t, size_t i);
/* Data of a type that is never read. */
anf_node *anfi_undefined(anf_graph *g, const anf_type *t);
/* In a step of a loop: does n choose between a state, which nothing else reads, and an array that is read later, too? */
bool anfi_copies_array(const anf_node *n, const anf_node *yes, const anf_node *no);
/* Gives a value whatever its arguments are: an op that may fail stays behind its branch. */
bool anfi_is_total(const anf_node *n);
/* fold.c: the constant that an op on constants gives, typed; NULL: it is none, too large or fails. */
anf_node *anfi_fold_node(anfi_arena *a, const anf_node *n);
bool anfi_fold_may(const anf_node *n); // are its inputs known as far as it reads them?
/* `by` takes the place of `n` for its users and in the order of effects; n is deleted. */
void anfi_substitute(anf_node *n, anf_node *by);

/* The effects of `callee`, or their copies, take the place of `call` in the order of effects. */
void anfi_splice_effects(anf_node *call, const anf_graph *callee, anfi_map *copies);
/* Appends the CNodes that a closed graph's result and effects need now, inputs first. */
typedef ANFI_VEC(anf_node *) anfi_node_vec;
void anfi_graph_order(anf_graph *g, anfi_arena *a, anfi_node_vec *out);
/* Copies of nodes by old id; a node without a copy is its own. */
anf_node *anfi_copy_of(const anfi_map *copies, anf_node *old);
anf_node *anfi_copy_node(anfi_arena *a, anf_graph *to, anf_node *old, anfi_map *copies);

/* inline.c: a copy of the callee's body in place of a call, in a closed module; neither is recursive, or fewer calls become more. */
void anfi_inline_call(anfi_arena *a, anf_node *call);

/* The passes. False with an error recorded. */
#define ANF_PASS(name, ...) bool anfi_opt_##name(anfi_pass *p);
#include "optimizer/pass.def"
#undef ANF_PASS

#endif
