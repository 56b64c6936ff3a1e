// SPDX-License-Identifier: Apache-2.0
/* Reverse mode: what j*.c share.
 *
 * Glossary
 *   ▶g       computes what g does, and gives besides what ◀g will need: (value, kept..)
 *   ◀g       (kept.., constants.., one adjoint for each given leaf of the value) -> adjoints
 *   varied   a leaf that depends on a wanted leaf of the parameters
 *   useful   a varied leaf that a given leaf of the value depends on: it has an adjoint
 *   constant of a spec: a parameter that does not change in the loop around. Callers hand it to ◀g
 *            again, so that no round keeps it; and ◀g takes what its adjoint has come to so far and
 *            gives it back with its own part added (ANFI_J_ADDS), in place where it writes an item
 *
 * j.c       specs and their order: callees before callers; a call back into a spec that is not
 *           finished (a recursion) keeps nothing if arguments tell all, else has it in one box
 * jflow.c   which leaves are varied and useful: least fixpoints over specs
 * jback.c   the bodies: one sweep forward, one back
 * jcall.c   calls, choices, calls with rules of their own;  jloop.c  loops
 * jblocks.c loops of which little is kept
 * jsteady.c which parameters may be constants of a recursion
 * jkeep.c   what of ▶g's nodes ◀g needs is kept, as little as possible */
#ifndef ANFI_J_H
#define ANFI_J_H

#include "autodiff/flow.h"

enum { ANFI_TAPE_OPERANDS = 4 };               // operands of a plain node, at most
enum { ANFI_J_CONSTANT = 1, ANFI_J_ADDS = 2 }; // of a parameter

/* What a checkpoint around a spec asks for. */
typedef struct anfi_jplan {
  bool products; // of what is needed, only results of products and of calls are kept
  bool tree;     // of a loop, one state; else one for each block
  size_t rounds; // of a block of a loop; 0: each round is kept
  size_t memory; // bytes that say how many; 0: not asked for
} anfi_jplan;

/* Leaves of a graph in one row: 0 stands for those without derivative, then parameters', then nodes'. The
 * operands of a plain node in it; 0 beyond the last, so that sweeps over masks touch no node. */
typedef struct anfi_tape_entry {
  uint32_t in[ANFI_TAPE_OPERANDS];
} anfi_tape_entry;

/* A graph that is differentiated. */
typedef struct anfi_jgraph {
  anf_graph *g;
  anfi_node_vec order;
  bool *taped;           // by position: an elementwise op on single leaves, which most nodes are
  anfi_tape_entry *tape; // by position: of those, the leaves that they have derivatives for
  bool all_taped;
  uint32_t *first;  // by position in the order: its first leaf; one more at the end
  uint32_t *pfirst; // by parameter, likewise
  uint32_t nresult; // leaves of the result
  struct anfi_jspec *specs;
} anfi_jgraph;

typedef struct anfi_jspec anfi_jspec;
/* A callee of a node: of branch k of a choice, else k = 0. */
typedef struct anfi_jcallee {
  uint32_t at, branch; // position of the node
  anfi_jspec *spec;
} anfi_jcallee;

/* Specs of the graphs of a recursion for one call from outside: each graph has one mask of what is
 * wanted, which holds for all calls within; else the recursion would be differentiated as it is
 * called from outside, and again as it calls itself. */
typedef struct anfi_jfamily {
  anf_graph *entry;
  bool *want;     // of the entry, from outside
  anfi_map masks; // by graph id: what is wanted
  struct anfi_jfamily *next;
} anfi_jfamily;

struct anfi_jspec {
  anfi_jgraph *jg;
  anfi_jfamily *family; // NULL: no recursion
  bool *want;           // by leaf of the parameters
  bool *given;       // by leaf of the result; NULL: only asks which leaves of the result are varied
  uint8_t *constant; // by parameter: ANFI_J_*
  anfi_jplan plan;
  bool splice; // a loop's step: ▶ gives its value's items, then what is kept, in one tuple
  bool *
      out; // without `given` by leaf of the result: varied; with it by leaf of the parameters: useful
  bool *varied, *useful; // by leaf of its nodes, as they were when it was looked at last; before
                         // `varied` what is before them in the row
  anfi_jspec *next;
  ANFI_VEC(anfi_jspec *) users;
  ANFI_VEC(anfi_jcallee) callees;
  bool queued, boxed;
  bool with_args;        // boxed, and ◀ takes all arguments again
  bool in_choice;        // of a choice
  bool by_args, refused; // of a recursion: ◀ has all it needs of the arguments; that failed
  uint8_t state;         // 0 new, 1 under way, 2 done
  anf_graph *fwd, *bwd;
  size_t nresidual;
  const anf_type **residual; // types
  bool *passed;              // by parameter: ◀g takes it again
};

/* What is known of a graph in jsteady.c. */
typedef struct anfi_jrecursion {
  uint32_t seen, low, component; // numbers of Tarjan's algorithm; 0: not seen
  bool open, names_itself;
  bool *param; // NULL: in no recursion
} anfi_jrecursion;

typedef struct anfi_j {
  anfi_ad *ad;
  anf_ctx *cx;
  anfi_arena *a;
  anfi_flow parts; // for anfi_flow_parts
  ANFI_VEC(anfi_jgraph *) of_graph;
  ANFI_VEC(uint32_t) local; // node id -> position in its graph's order
  ANFI_VEC(anfi_jspec *) queue, done;
  ANFI_VEC(anfi_jrecursion) recursion; // by graph id
  uint32_t nvisited;                   // graphs that were seen
  size_t abandoned;                    // specs that were entered in vain
  anfi_jfamily *families;
  size_t trying;         // specs under way that are to be by_args
  anfi_jspec *now;       // being looked at
  bool *varied, *useful; // by leaf of its nodes
  bool *none;            // leaves of constants
  size_t nnone;
  uint16_t inactive[ANF_OP_COUNT]; // 1 + bits: inputs without derivative; 0: not looked up yet
} anfi_j;

/* j.c */
anfi_jgraph *anfi_jgraph_of(anfi_j *j, anf_graph *g);
/* The spec, made and queued if new; `given`, `constant`, `plan` may be NULL. All is copied. */
anfi_jspec *anfi_jspec_of(anfi_j *j, anf_graph *g, const bool *want, const bool *given,
                          const uint8_t *constant, const anfi_jplan *plan, bool splice);
void anfi_j_enqueue(anfi_j *j, anfi_jspec *s);
size_t anfi_count(anfi_j *j, const anf_node *n); // leaves of a node
bool anfi_any(const bool *m, size_t n);
static inline size_t anfi_nwant(const anfi_jgraph *jg) { return jg->pfirst[jg->g->params.n]; }
/* The place of the first node's first leaf in the row. */
static inline size_t anfi_node_slot(const anfi_jgraph *jg) { return 1 + anfi_nwant(jg); }

/* jflow.c */
/* What a Recompute node asks for; `arguments`: that nothing but its arguments is kept. */
anfi_jplan anfi_plan_of(const anfi_j *j, const anf_node *n, bool *arguments);
/* Looks at all nodes of s, asks for its callees, and raises s->out. */
void anfi_j_visit(anfi_j *j, anfi_jspec *s);
/* As if s had been looked at last. */
void anfi_j_reload(anfi_j *j, anfi_jspec *s);
const bool *anfi_varied(anfi_j *j, const anf_node *n); // of the spec looked at last
const bool *anfi_useful(anfi_j *j, const anf_node *n);
/* The callee of a node of `now`, after anfi_j_visit. */
anfi_jspec *anfi_j_callee(const anfi_j *j, const anf_node *n, uint32_t branch);
/* The number of branches of a call: those of a choice, else 0. */
uint32_t anfi_j_branches(const anf_node *call);
/* Which inputs of an op have no derivative: bit i + 1; the last one stands for all that follow. */
uint16_t anfi_inactive_inputs(anfi_j *j, anfi_opcode op);
enum { ANFI_J_INPUTS = 15 };
static inline bool anfi_is_inactive(anfi_j *j, anfi_opcode op, size_t i) {
  unsigned inactive = j->inactive[op] ? j->inactive[op] : anfi_inactive_inputs(j, op);
  return inactive >> ((i < ANFI_J_INPUTS ? i : ANFI_J_INPUTS - 1) + 1) & 1;
}
/* Masks of a Loop for its step: `in` by leaf of the step's parameters. */
typedef struct anfi_jloop {
  anfi_loop_op l;
  anfi_jgraph *step;
  bool *in;
  size_t again; // 1 when not counted: the step's first item
} anfi_jloop;
anfi_jloop anfi_jloop_of(anfi_j *j, const anf_node *n);

/* ---- building ▶ and ◀ of one spec ---- */

typedef struct anfi_adjoint_term {
  anf_node *node;
  struct anfi_adjoint_term *next;
  bool minus; // it is the negative of the node, which is a plain one
} anfi_adjoint_term;

/* What is known of a node holds of its copy if that uses copies, which do so, too: rules look two deep. */
enum {
  ANFI_J_STALE_INPUT = 1, // it uses something that is no copy
  ANFI_J_STALE = 2        // it is none
};

typedef struct anfi_jbuild {
  anfi_j *j;
  anfi_ad *ad;
  anfi_jspec *s;
  anf_graph *f, *b;
  uint32_t base;            // all nodes of f and b have ids from this on
  anf_node **to;            // by position: what stands for the node in f
  uint8_t *stale;           // by position: ANFI_J_STALE*, of what stands for it; NULL: all are 0
  uint8_t *param_stale;     // by parameter, likewise
  anf_node **effect;        // by position: what stands for it among effects
  anf_node ***residual;     // by position: what its ▶ kept, nodes of f; NULL: nothing was called
  anfi_adjoint_term **adj;  // by leaf of nodes; newest first
  anfi_adjoint_term *spare; // those that were added up
  anfi_adjoint_term **padj; // by leaf of parameters
  anfi_adjoint_term **row;  // all of them, in their row
  anf_node *const *param;   // by parameter: what stands for it in f
  anf_node *const *given;   // parameters of b
  anf_node **constant;      // by parameter: its copy in b, or NULL
  anf_node **sum; // by leaf of parameters that add: what its adjoint has come to, else NULL
} anfi_jbuild;

/* jsteady.c */
/* Are they in one recursion? After anfi_recursion_invariants of both. */
bool anfi_same_recursion(const anfi_j *j, const anf_graph *a, const anf_graph *b);
/* By parameter of g: is it handed on as it is wherever the recursion that g is in goes on? NULL: g is
 * in none. */
const bool *anfi_recursion_invariants(anfi_j *j, anf_graph *g);

/* jback.c */
bool anfi_j_build(anfi_j *j, anfi_jspec *s);
/* ▶ and ◀ of s, which has no effects, as nodes of one graph: nothing is kept, passed or called. */
bool anfi_j_build_at(anfi_j *j, anfi_jspec *s, anfi_vjp_inline *at);
anf_node *anfi_primal(anfi_jbuild *q, anf_node *n); // in f
/* The adjoint of each leaf of n, summed up; NULL where there is none. False: none at all. */
bool anfi_adjoint(anfi_jbuild *q, const anf_node *n, anf_node **leaf);
/* One more contribution to leaf k of n; NULL, or a leaf that is not varied: nothing. */
void anfi_add_adjoint(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx);
/* The adjoints that a spec is given: of `mask`, zeros for those missing. `y` is the primal. */
size_t anfi_given_list(anfi_jbuild *q, const bool *mask, anf_node *y, anf_node *const *leaf,
                       anf_node **out);
size_t anfi_position(const anfi_jbuild *q, const anf_node *n);

/* jcall.c */
bool anfi_is_own_call(const anf_node *n); // a CALL, Recompute or Custom
bool anfi_forward_call(anfi_jbuild *q, anf_node *n);
bool anfi_backward_call(anfi_jbuild *q, anf_node *n, anf_node *const *leaf);
/* (kept.., constants.., adjoints.., sums..) for ◀ of s: what a caller that has `args` hands to it. */
size_t anfi_pullback_args(const anfi_jspec *s, anf_node *const *residual, anf_node *const *args,
                          size_t ngiven, anf_node *const *given, size_t nsum, anf_node *const *sum,
                          anf_node **out);
/* Is parameter i of s handed to its ◀? */
bool anfi_is_passed(const anfi_jspec *s, size_t i);
/* Does leaf k of parameter i of s come with a sum? */
bool anfi_adds(const anfi_jspec *s, size_t i, size_t k);
const anf_type *anfi_pullback_type(anfi_jbuild *q, const anfi_jspec *s); // of what ◀ of s gives

/* jloop.c */
bool anfi_forward_loop(anfi_jbuild *q, anf_node *n);
bool anfi_backward_loop(anfi_jbuild *q, anf_node *n, anf_node *const *leaf);
/* `loop` takes the place of the loop n: the types of its first ns items are those of n's. */
void anfi_loop_as(anfi_jbuild *q, anf_node *loop, const anf_node *n, size_t ns);

/* jblocks.c */
/* The number of rounds of a block of the loop whose step is s; 0: it is not in blocks. */
size_t anfi_block_rounds(const anfi_jspec *s, const anfi_loop_op *l);
void anfi_forward_blocks(anfi_jbuild *q, anf_node *n, anf_node *const *args);
/* The adjoints that all rounds give. `back` goes over the rounds of one block; `args`: its constants,
 * and what its state starts with. */
anf_node *anfi_backward_blocks(anfi_jbuild *q, anf_node *n, const anfi_loop_op *back,
                               anf_node *const *args);

/* jkeep.c */
bool anfi_j_close(anfi_jbuild *q);

#endif
