// SPDX-License-Identifier: Apache-2.0
/* Lowering of graphs, inside.
 *
 * While a function is lowered every node that was lowered maps to its leaves, one view each; NULL is a
 * leaf that is never read (Undef). A graph that is used once, or is small, is lowered in the place
 * of its call, so one set of views by node id does.
 * INVARIANT: what crosses into a branch or a loop is a variable, a literal or a buffer that is
 * already written: a view that is computed when first read would be computed inside. */
#ifndef ANFI_LOWER_GRAPH_H
#define ANFI_LOWER_GRAPH_H

#include "backend/lower/low.h"
#include "backend/lower/lower.h"
#include "ir/loop.h"

/* A graph of at most SMALL_GRAPH nodes is lowered in the place of each of its calls, if it is no more than MAX_COPIED nodes
 * with what is then lowered in it: a chain of functions that call each other twice does not double at each link. */
enum { MAX_INLINED = 48, SMALL_GRAPH = 12, MAX_COPIED = 128 };

/* A leaf of what a node gives. */
typedef struct gsource {
  anf_node *n;
  size_t leaf;
} gsource;

typedef struct gval {
  size_t n;
  anfi_view **at;
} gval;

/* A graph that is a function of its own. */
typedef struct gfn {
  anf_graph *g;
  const anfi_str *name;
  anfi_leaves param, result;
  size_t returned; // leaf of the result, or result.n
  size_t *
      carry; // by leaf of the result: the leaf of the parameters that it is written in, or ANFI_NO_CARRY
} gfn;

/* The function being lowered, as a tail call of itself sees it: assigning `slot` and `again` starts
 * it anew. */
typedef struct gself {
  gfn *fn;
  texpr *slot;    // by leaf of the parameters: what a tail call assigns
  anfi_view **in; // by leaf: what the body reads; buffers never change
  texpr again;
  bool looped; // a tail call has used it
} gself;

/* The content of a box, or of each element of a stack. */
typedef struct gkept {
  const anf_type *type;
  bool stack;
  size_t lanes; // made by ResidualSpread with lanes of so many dims, and not the program's
} gkept;

/* A function that walks residuals. */
typedef struct gwalk {
  anfi_opcode op;
  const anf_type *lanes; // of ResidualSelect and ResidualSpread
  const anfi_str *name;
} gwalk;

/* rowplan.c: nodes from..to of a plan go row by row. */
typedef struct growblock {
  size_t from, to, nlead;
  const int64_t *lead; // the dims that all of them begin with
  uint64_t rows;       // their product
  bool flat;           // all dims are such, and all nodes pointwise: one nest
  bool batch;          // of products: a row is a matrix
  const char *end;     // the op that ends the scan, or NULL
} growblock;
/* How a graph is lowered. */
typedef struct gplan {
  size_t n;
  anf_node **node;   // in the order of code
  uint64_t *inlined; // bits: fused into consumers (fuse.c)
  ANFI_VEC(growblock) block;
  bool in_place; // results may take the place of parameters
} gplan;
/* How a member of a block reads input i: its row, all of it in each row, its type alone. */
typedef enum anfi_row_way { ROW_NONE, ROW_OWN, ROW_WHOLE, ROW_TYPE } anfi_row_way;

/* Buffers wanted for the leaves of what a node gives, or NULL for some. */
typedef struct gwish {
  anf_node *n;
  texpr *to;
} gwish;

/* A tensor that is a part of a buffer from a place on, which is known at run time only. */
typedef struct gslot {
  texpr room, at;
} gslot;

typedef struct glow {
  /* in and out */
  anf_ctx *cx;
  anf_module *m;
  anf_analysis *an;
  anfi_arena *a, *keep; // of what goes with the frame; of what `out` holds
  const anfi_lower_opts *o;
  anfi_lowered *out;
  tmod *tm;
  tstore *t;
  anfi_low *L;
  /* by id: functions, values, plans */
  gfn **fn; // by graph id
  ANFI_VEC(gfn *) todo;
  gval *env;        // by node id
  uint32_t *index;  // by node id: for anfi_fuse_plan
  texpr const **to; // by node id: where the buffers of its leaves are wanted, or NULL
  uint32_t *uses;   // by graph id: how many nodes refer to it
  uint32_t *weight; // by graph id: its nodes, and those of graphs lowered in place in it
  gplan **plan;     // by graph id, or NULL
  /* boxes and stacks */
  bool tagged;          // boxes and stacks begin with the tag of their type: something walks them
  bool zeroed;          // boxes may be zeros, which are no record: KEPT_ZERO
  bool *keeps;          // by graph id: may a call of it keep memory?
  anfi_map tag;         // type, or that and 1 for a stack → tag
  ANFI_VEC(gkept) tags; // by tag - 1
  ANFI_VEC(gwalk *) walks; // functions of box_walk.c
  /* the current function and loop */
  gself self;
  const anf_graph *turn; // of the current innermost loop: its parameters are no state of a step
  ANFI_VEC(gwish) wish;  // of the body that is lowered next
  anfi_map wished;       // node id → 1 + place in `wish`
  anfi_map left;         // node ids: what a loop computes after its rounds (loopsum.c), in no plan
  /* arrays that are written in place */
  bool linear;    // linear.c: are there ops that write over their input?
  uint32_t *at;   // by node id: 1 + place in the order of its graph; 0: nothing needs it
  size_t **carry; // by graph id and leaf of its result, or NULL
  size_t **up;   // by graph id and leaf of its parameters: another of its class, or itself; or NULL
  anfi_map slot; // tensor → 1 + its place in `slots`
  ANFI_VEC(gslot) slots;
  anfi_map
      forced; // node id -> bits of its inputs, arrays that are overwritten after it: it is copied out of them
  anfi_map
      in_place; // node id -> 1: a write whose value reads the elements that it writes, each before it is written
  ANFI_VEC(anf_graph *) inlined; // those being lowered now, outermost first
} glow;

/* graph.c */
anfi_view *
anfi_glow_copied_out(glow *w,
                     anfi_view *v); // of an array that is written next: in a buffer of its own
gval anfi_glow_value(glow *w, anf_node *n);
gval anfi_glow_new(glow *w, size_t n);
/* Of TupleGet or RecordGet: how many leaves of the whole come before the part. */
size_t anfi_glow_first_leaf(anf_ctx *cx, const anf_node *n);
gfn *anfi_glow_function(glow *w, anf_graph *g);
/* A name that no function of the module has or will have. */
const anfi_str *anfi_glow_fresh_name(glow *w, const char *base);
/* The body of g here. `to`: buffers wanted for the leaves of its result, or NULL; `tail`: what it
 * gives is what the function gives. */
bool anfi_glow_body(glow *w, anf_graph *g, const gval *args, const texpr *to, bool tail, gval *out);
/* A leaf of what a node of g gives is wanted in a buffer that nothing else in the body of g uses, which is lowered
 * next: it may be written there. The first wish for a leaf holds. */
void anfi_glow_wish(glow *w, const anf_graph *g, anf_node *n, size_t leaf, texpr to);
/* As an expression: a variable, a literal or a written buffer; something, for NULL. */
texpr anfi_glow_atom(glow *w, const anfi_leaf *leaf, anfi_view *v);
/* Everything that `v` needs is computed now. */
void anfi_glow_settle(glow *w, const anfi_leaves *leaves, gval v);
bool anfi_glow_leaves(glow *w, const anf_type *t, anfi_loc loc, anfi_leaves *out);
anfi_view *anfi_glow_view(glow *w, const anfi_leaf *leaf, texpr e);

/* linear.c: buffers that are written in place from link to link */
#define ANFI_NO_CARRY (SIZE_MAX - 1)
void anfi_glow_linear(glow *w); // finds the links of all graphs
/* The leaf of the parameters of g whose buffer leaf k of its result is written in, or ANFI_NO_CARRY; is it written in that
 * of one of several, which the run chooses? */
size_t anfi_glow_carried(const glow *w, const anf_graph *g, size_t leaf);
bool anfi_glow_is_carried(const glow *w, const anf_graph *g, size_t leaf);
/* Does a round write a leaf of a loop's state in its own buffer? In the buffers of which leaves of the state do rounds write
 * it: itself first and those that it is exchanged with, or 0. */
enum { ANFI_MOST_LINKS = 16 };
bool anfi_glow_loop_in_place(const glow *w, const anfi_loop_op *l, size_t leaf);
size_t anfi_glow_loop_turns(const glow *w, const anfi_loop_op *l, size_t leaf,
                            size_t out[ANFI_MOST_LINKS]);
/* Is n the last reader of a leaf of its input? Then n may write over it, if its view is owned. */
bool anfi_glow_is_last(glow *w, const anf_node *n, size_t input, size_t leaf);
/* Is a leaf of what the call or loop n gives written in one of some leaves of inputs that n is the last reader of? */
typedef struct glink {
  size_t input, leaf;
} glink;
typedef struct glinks {
  size_t n;
  glink at[ANFI_MOST_LINKS];
} glinks;
bool anfi_glow_takes_one(glow *w, const anf_node *n, size_t leaf, glinks *l);
/* Of a branch g of a call whose leaf is written in `one`: does it give a value of its own, to be stored there? */
bool anfi_glow_stores(const glow *w, const anf_node *call, const anf_graph *g, size_t leaf,
                      glink one);
gsource anfi_glow_source(anf_ctx *cx, gsource s);
static inline uint64_t anfi_glow_input_bit(size_t input) {
  return UINT64_C(1) << input % 64;
} // of `forced`
/* n elements of a buffer from a place on; the place of a view that is alone in such a one, or NULL. */
texpr anfi_glow_slot(glow *w, texpr room, anf_tir_elem e, texpr at, uint64_t n);
const gslot *anfi_glow_own_slot(const glow *w, const anfi_view *v);
/* The view for a reader that is not the last: its memory is not to be overwritten. */
anfi_view *anfi_glow_lent(glow *w, anfi_view *v);

/* control.c: what receives a result: variables for scalars, room for buffers */
typedef struct gtarget {
  anfi_leaves leaves;
  texpr *var, *room; // by leaf, one of them
} gtarget;
void anfi_glow_target_make(glow *w, const anfi_leaves *leaves, const texpr *to, gtarget *r);
void anfi_glow_target_put(glow *w, const gtarget *r, gval v);
gval anfi_glow_target_value(glow *w, const gtarget *r);
/* Is g lowered in the place of its calls, unless it is being lowered there already? */
bool anfi_glow_is_small(const glow *w, const anf_graph *g);
bool anfi_glow_call(glow *w, anf_node *n, bool tail, gval *out);
bool anfi_glow_call_op(glow *w, anf_node *n, gval *out); // Custom and Recompute: f(args..)
bool anfi_glow_choice(glow *w, anf_node *n, gval *out);  // Switch and SwitchLayer on data

/* region.c: code that the two bracket is traced as the node's; the number that begin gave goes to end.
 * `lowering`: the glow */
size_t anfi_glow_region_begin(void *lowering, const anf_node *n);
void anfi_glow_region_end(void *lowering, size_t id);

/* rowplan.c */
gplan *anfi_glow_plan(glow *w, size_t n, anf_node *const *order, bool in_place);
anfi_row_way anfi_glow_row_way(glow *w, const growblock *b, const anf_node *n, size_t i);
/* rowloop.c: the loop of a block */
bool anfi_glow_rows(glow *w, const gplan *p, const growblock *b);
/* explain.c: the plan of g in words */
void anfi_glow_explain(const anf_graph *g, const gplan *p, anf_text *out);

/* schedule.c: another order of g, whose first parameters are a state that its result replaces */
void anfi_glow_schedule(glow *w, anf_graph *g, size_t nstate);

/* loop.c */
bool anfi_glow_loop(glow *w, anf_node *n, gval *out);
/* loopsum.c: states of a step from parameter `first` on, whose next values are the result's items from
 * `item` on, that are sums of products. They are found, then opened before the loop; begin and round
 * bracket the code of a round, end is after the loop. `room`: by leaf of the states */
typedef struct gsums gsums;
gsums *anfi_glow_sums(glow *w, anf_graph *step, size_t first, size_t ns, size_t item);
bool anfi_glow_sums_has(const gsums *s, const anf_node *state);
void anfi_glow_sums_open(gsums *s, const texpr *room);
void anfi_glow_sums_begin(const gsums *s);
void anfi_glow_sums_round(const gsums *s);
void anfi_glow_sums_end(const gsums *s);

/* box.c: memory that lasts until the call from outside ends; addresses are of type index */
texpr anfi_glow_keep(glow *w, texpr bytes);
texpr anfi_glow_read(glow *w, anf_tir_elem e, texpr p, texpr offset);
void anfi_glow_write(glow *w, texpr p, texpr offset, texpr value);
texpr anfi_glow_buffer_at(glow *w, const anfi_leaf *l, texpr p, texpr offset);
/* The place of each leaf in a record whose first ones start at `from`; its size. */
uint64_t anfi_glow_layout(const anfi_leaves *l, uint64_t from, uint64_t *at, uint64_t *align);
/* Records of boxes have a tag if anything walks them, then the leaves; those of stacks these words. */
enum {
  KEPT_ZERO = 1, // an address: zeros of any type
  KEPT_TAG = 0,
  BOX_FROM = 8,
  STACK_BASE = 8,
  STACK_ROUNDS = 16,
  STACK_BYTES = 24,
  KEPT_WORD = 8 // the size of a record is a multiple of it
};
/* The number of a type of residuals, from 1. */
texpr anfi_glow_tag(glow *w, const anf_type *t, bool stack);
/* box_walk.c: ResidualAdd, ResidualZeros, ResidualSelect and ResidualSpread; their functions, last of all */
bool anfi_glow_box_walk(glow *w, anf_node *n, gval *out);
bool anfi_glow_make_walks(glow *w);
bool anfi_glow_box(glow *w, anf_node *n, gval *out);
bool anfi_glow_unbox(glow *w, anf_node *n, gval *out);
/* The record at p; where that is KEPT_ZERO or nothing one of zeros. */
texpr anfi_glow_or_zeros(glow *w, texpr p, const anfi_leaves *l, const uint64_t *at,
                         uint64_t bytes);
bool anfi_glow_undef(glow *w, const anf_node *n, gval *out);

/* effect.c */
void anfi_glow_trap(anfi_low *L, void *user, texpr bad, anfi_code code, anfi_opcode op,
                    anfi_loc loc, texpr a, texpr b);
int64_t anfi_glow_sites(void *user, size_t n, const anfi_code *code, anfi_opcode op, anfi_loc loc);
bool anfi_glow_print(glow *w, anf_node *n);
bool anfi_glow_assert(glow *w, anf_node *n);

/* The node that alone uses n; NULL: there are none or more. */
static inline anf_node *anfi_only_user(const anf_node *n) {
  return n->uses && !n->uses->next ? n->uses->user : NULL;
}

#endif
