// SPDX-License-Identifier: Apache-2.0
/* Reverse mode. The gradient of f(x, y) = x * y:
 *   ▶f(x, y)       = (x * y, x, y)         the value, and the residuals that ◀f needs
 *   ◀f(x, y, dz)   = (dz * y, dz * x)      the pullback: adjoints of the parameters
 * Both are closed graphs, so a caller pairs ▶ and ◀ without closures: Pearlmutter and Siskind's J
 * (2008) with backpropagators made known code plus residuals, as in Tapenade and Enzyme.
 *
 * A loop's residuals are stacks, one element per iteration; those of a recursion are boxes. Which leaves
 * need adjoints at all is activity analysis: varied (depends on a wanted parameter) and useful (a given
 * adjoint of the result depends on it).
 *
 * Glossary
 *   spec      one graph for one pattern of activity; has one ▶ and one ◀
 *   leaf      a float or complex tensor, a box or a stack inside a value (autodiff.h)
 *   slot      leaves of a graph in one numbering: 0 is "no adjoint", then parameters, then nodes
 *   constant  a parameter that is invariant in the loop or recursion around. Callers pass it to ◀
 *             again, so no iteration saves it
 *   adds      ANFI_J_ADDS: ◀ takes the sum of the parameter's adjoint so far and returns the new sum, in place
 *             where an item is written. So are constants, and in an iteration arrays that the callee reads by index
 *   repeated  ANFI_J_REPEATED: an array of a graph that an iteration calls: what reads it by index adds in place
 *
 * Files in reading order
 *   j.c          specs, their order: callees before callers; recursion
 *   activity.c   varied and useful leaves: least fixpoints over specs
 *   sweep.c      the two sweeps, and the adjoint of each kind of node
 *   tape.c       the fast path of both for elementwise nodes
 *   adjoint.c    sums of adjoints per leaf
 *   pullback.c   signatures of ▶ and ◀
 *   residual.c   residuals: saved or rematerialised
 *   call.c, loop.c, blocks.c   calls and branches; loops; checkpointed loops
 *   rule.c       rules of custom_jvp
 *   invariant.c  parameters that are invariant in a recursion */
#ifndef ANFI_J_H
#define ANFI_J_H

#include "autodiff/flow.h"

enum { ANFI_J_CONSTANT = 1, ANFI_J_ADDS = 2, ANFI_J_REPEATED = 4 }; // of a parameter

/* Options of the checkpoint around a spec. */
typedef struct anfi_jplan {
  bool products; // save only results of products and calls, rematerialise the rest
  bool tree;     // of a loop, save one state (treeverse); else one per block
  bool again;    // ▶ runs right before ◀, so that no loop around saves its residuals
  size_t rounds; // iterations of a block; 0: each iteration saves its residuals
  size_t memory; // budget in bytes for residuals; 0: none
} anfi_jplan;

/* ---- graphs ---- */

/* An entry of a Wengert list: the slots of the operands that have derivatives, 0 beyond the last. An
 * elementwise node whose result and operands are one leaf each has one; sweeps over it touch no node. */
enum { ANFI_TAPE_OPERANDS = 4 };
typedef struct anfi_tape_entry {
  uint32_t in[ANFI_TAPE_OPERANDS];
} anfi_tape_entry;

/* A graph that is differentiated. */
typedef struct anfi_jgraph {
  anf_graph *g;
  anfi_node_vec order;
  /* by position in the order */
  bool *taped;           // has an entry on the tape, as most nodes have
  anfi_tape_entry *tape; // undefined where not taped
  uint32_t *first;       // its first leaf; one more at the end
  bool all_taped;
  uint32_t *pfirst; // by parameter: its first leaf; one more at the end
  uint32_t nresult; // leaves of the result
  struct anfi_jspec *specs;
} anfi_jgraph;

/* ---- specs ---- */

typedef struct anfi_jspec anfi_jspec;
/* A callee of a node: of branch k of a choice, else k = 0. */
typedef struct anfi_jcallee {
  uint32_t at, branch; // position of the node
  anfi_jspec *spec;
} anfi_jcallee;

/* Specs of the graphs of one recursion, for one call from outside. Each graph has one `want` mask, the
 * join over all calls in the recursion; otherwise the outside call and the inner calls would make
 * two derivatives of it. */
typedef struct anfi_jfamily {
  anf_graph *entry;
  bool *want;     // of the entry, from outside
  anfi_map masks; // by graph id: the joined mask
  struct anfi_jfamily *next;
} anfi_jfamily;

/* How ▶ hands its residuals to ◀. In a recursion a list of residuals has no finite type. */
typedef enum anfi_residuals {
  ANFI_RESIDUALS_LIST,     // items after the value
  ANFI_RESIDUALS_BOX,      // one box after the value
  ANFI_RESIDUALS_BOX_ARGS, // one box; callers pass all arguments to ◀ too
  ANFI_RESIDUALS_NONE      // ◀ rematerialises everything from the arguments
} anfi_residuals;

typedef enum anfi_jstate { ANFI_J_NEW, ANFI_J_OPEN, ANFI_J_DONE } anfi_jstate;

struct anfi_jspec {
  /* Forward, without `given`: from varied leaves of the parameters (in) to those of the result (out). Backward:
   * from `in` and `given` to the useful leaves of the parameters. */
  anfi_flow_spec flow;
  /* key, with flow.in */
  anfi_jgraph *jg;
  anfi_jfamily *family; // NULL: no recursion
  bool *given;          // by leaf of the result, or NULL
  uint8_t *constant;    // by parameter: ANFI_J_CONSTANT, ANFI_J_ADDS, ANFI_J_REPEATED
  anfi_jplan plan;
  bool splice; // a loop's step: ▶ gives the items of its value and then residuals, in one tuple
  anfi_jspec *next;

  /* activity */
  bool *varied, *useful;          // by leaf of nodes; slots before them stand in front of `varied`
  bool *before;                   // flow.out when its users were queued last
  ANFI_VEC(anfi_jcallee) callees; // from the last node to the first, branches in order

  /* residuals */
  anfi_residuals how;
  size_t nresidual;
  const anf_type **residual; // types
  bool *passed;              // by parameter: ◀ takes it again
  bool refused;              // ANFI_RESIDUALS_NONE was tried, and does not do

  /* construction */
  anfi_jstate state;
  bool in_choice; // entered as a branch of a choice
  anf_graph *fwd, *bwd;
};

static inline bool anfi_is_boxed(const anfi_jspec *s) {
  return s->how == ANFI_RESIDUALS_BOX || s->how == ANFI_RESIDUALS_BOX_ARGS;
}

/* Number of residuals, as callers see them. */
static inline size_t anfi_residual_count(const anfi_jspec *s) {
  return anfi_is_boxed(s) ? 1 : s->nresidual;
}

/* A graph in Tarjan's walk over graphs that name each other (invariant.c). */
typedef struct anfi_jrecursion {
  uint32_t seen, low, component; // seen 0: not visited
  bool open, names_itself;
  bool *param; // by parameter: invariant; NULL: the graph is in no recursion
} anfi_jrecursion;

/* The rule of a CustomJvp, as reverse mode calls it. */
typedef struct anfi_jrule {
  anf_graph
      *g; // (data, arguments.., tangents..), or (data, (arguments..), (tangents..)) with effects
  size_t tangent; // its first parameter of tangents
  bool effects;   // ▶ and ◀ both run in the backward sweep
} anfi_jrule;

/* The driver of reverse mode; lives as long as an anfi_ad. */
typedef struct anfi_j {
  anfi_flow flow; // activity analysis; its specs are anfi_jspec's
  /* the transform */
  anfi_ad *ad;
  anf_ctx *cx;
  anfi_arena *a;
  /* graphs */
  ANFI_VEC(anfi_jgraph *) of_graph;
  ANFI_VEC(uint32_t) local;            // node id -> position in its graph's order
  ANFI_VEC(anfi_jrecursion) recursion; // by graph id
  uint32_t nvisited;                   // graphs that invariant.c has visited
  /* specs */
  ANFI_VEC(anfi_jspec *) done;
  anfi_jfamily *families;
  anfi_map rules;   // by graph: the anfi_jrule of a rule
  size_t abandoned; // specs entered in vain
  size_t trying;    // open specs with ANFI_RESIDUALS_NONE
  /* the spec being visited */
  anfi_jspec *now;
  bool *varied, *useful; // by leaf of its nodes
  bool *none;            // `nnone` false leaves, for constants
  size_t nnone;
} anfi_j;

/* j.c */
anfi_jgraph *anfi_jgraph_of(anfi_j *j, anf_graph *g);
/* The spec, made and queued if new; `given`, `constant`, `plan` may be NULL. All is copied. */
anfi_jspec *anfi_jspec_of(anfi_j *j, anf_graph *g, const bool *want, const bool *given,
                          const uint8_t *constant, const anfi_jplan *plan, bool splice);
/* Is it a loop's step, or called by one with arrays? */
bool anfi_j_repeated(const anfi_jspec *s);
size_t anfi_count(anfi_j *j, const anf_node *n); // leaves of a node
static inline size_t anfi_nwant(const anfi_jgraph *jg) { return jg->pfirst[jg->g->params.n]; }
/* The slot of the first node's first leaf. */
static inline size_t anfi_node_slot(const anfi_jgraph *jg) { return 1 + anfi_nwant(jg); }

/* activity.c */
/* The plan of a Recompute node; `arguments`: ▶ saves nothing but its arguments. */
anfi_jplan anfi_plan_of(const anfi_j *j, const anf_node *n, bool *arguments);
/* The analysis of activity, as anfi_flow_rules. A visit goes over all nodes of s, forward and then backward. */
bool anfi_j_visit(anfi_flow *f, anfi_flow_spec *s);
const bool *anfi_j_mask(anfi_flow *f, const anf_node *n);
anfi_flow_spec *anfi_j_forward_spec(anfi_flow *f, anf_graph *g, const bool *in);
/* Makes s the spec being visited, with its masks; NULL: none is. */
void anfi_j_reload(anfi_j *j, anfi_jspec *s);
const bool *anfi_varied(anfi_j *j, const anf_node *n); // of `now`
const bool *anfi_useful(anfi_j *j, const anf_node *n);
/* The callee of a node of `now`, after anfi_j_visit. */
anfi_jspec *anfi_j_callee(const anfi_j *j, const anf_node *n, uint32_t branch);
/* The number of branches of a call: those of a choice, else 0. */
uint32_t anfi_j_branches(const anf_node *call);

/* rule.c: the rule of a Custom of kind jvp; NULL: it is of kind vjp. */
const anfi_jrule *anfi_j_rule(anfi_j *j, const anf_node *n);

/* invariant.c */
/* Are they in one recursion? After anfi_recursion_invariants of both. */
bool anfi_same_recursion(const anfi_j *j, const anf_graph *a, const anf_graph *b);
/* By parameter of g: does the recursion of g pass it on unchanged everywhere? NULL: g is in none. */
const bool *anfi_recursion_invariants(anfi_j *j, anf_graph *g);

/* ---- building ▶ and ◀ of one spec ---- */

/* A summand of a leaf's adjoint. */
typedef struct anfi_adjoint_term {
  anf_node *node;
  struct anfi_adjoint_term *next;
  bool minus; // it is the negative of the node, which is a taped one
} anfi_adjoint_term;

/* Facts that passes cached on a node hold for its copy too, if all it uses are copies whose own inputs are
 * copies: patterns are two deep. */
enum {
  ANFI_J_STALE_INPUT = 1, // uses something that is no copy
  ANFI_J_STALE = 2        // is no copy
};

typedef struct anfi_jbuild {
  anfi_j *j;
  anfi_ad *ad;
  anfi_jspec *s;
  anf_graph *f, *b; // ▶ and ◀
  uint32_t base;    // all nodes of f and b have ids from this on
  /* ▶, by position */
  anf_node **to;        // the node's counterpart in f
  anf_node **effect;    // its counterpart among effects
  anf_node ***residual; // residuals of the ▶ that it calls, nodes of f; NULL: it calls nothing
  uint8_t *stale;       // ANFI_J_STALE*; NULL: all are 0
  /* ▶, by parameter */
  anf_node *const *param; // its counterpart in f
  uint8_t *param_stale;
  /* ◀ */
  anf_node *const *given; // parameters of b: adjoints of the result
  anf_node **constant;    // by parameter: its copy in b, or NULL
  anf_node **sum;         // by leaf of parameters with ANFI_J_ADDS: its adjoint so far, else NULL
  /* adjoint terms by slot, newest first; padj and adj point into it */
  anfi_adjoint_term **slot, **padj, **adj;
  anfi_adjoint_term *spare; // freed terms
} anfi_jbuild;

static inline size_t anfi_position(const anfi_jbuild *q, const anf_node *n) {
  return q->j->local.at[n->id];
}
static inline anf_node *anfi_primal(const anfi_jbuild *q, anf_node *n) { // in f
  if (n->kind == ANFI_PARAM) return q->param[n->u.index];
  return n->kind == ANFI_VALUE ? n : q->to[anfi_position(q, n)];
}

/* pullback.c */
bool anfi_j_build(anfi_j *j, anfi_jspec *s);
/* ▶ and ◀ of s, which has no effects, as nodes of one graph: no residuals, no calls. */
bool anfi_j_build_at(anfi_j *j, anfi_jspec *s, anfi_vjp_inline *at);

/* sweep.c */
bool anfi_sweep_forward(anfi_jbuild *q);
bool anfi_sweep_back(anfi_jbuild *q);
/* Nodes made from here on derive from n. */
void anfi_derives_from(anfi_jbuild *q, const anf_node *n, uint32_t debug);

/* adjoint.c */
/* Adds a term to the adjoint of leaf k of n; NULL, or a leaf that is not varied: nothing. */
void anfi_add_adjoint(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx);
void anfi_add_signed(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx, bool minus);
void anfi_add_term(anfi_jbuild *q, anfi_adjoint_term **list, anf_node *dx, bool minus);
/* The adjoint of each leaf of n, summed up; NULL where zero. False: all are zero. */
bool anfi_adjoint(anfi_jbuild *q, const anf_node *n, anf_node **leaf);
/* In an iteration: the sum of the terms of leaf k so far, which are taken, so that a callee or an inner loop adds to it in
 * place; else NULL. */
anf_node *anfi_take_sum(anfi_jbuild *q, const anf_node *n, size_t k);
/* The sum of a list, which is emptied; its negative if *minus is set. */
anf_node *anfi_sum_terms(anfi_jbuild *q, anfi_adjoint_term **list, bool *minus);
anf_node *anfi_negative(anfi_jbuild *q, anf_node *x);
/* n may turn out to be unused. */
void anfi_may_be_unused(const anf_node *n);
/* Adjoints for a callee: of the leaves in `mask`, zeros for those missing. `y` is the primal. */
size_t anfi_given_list(anfi_jbuild *q, const bool *mask, anf_node *y, anf_node *const *leaf,
                       anf_node **out);

/* tape.c */
void anfi_tape_record(anfi_j *j, anfi_jgraph *jg);
void anfi_tape_varied(const anfi_tape_entry *at, const bool *slot, bool *out);
void anfi_tape_useful(anfi_j *j, const anfi_jgraph *jg, size_t k);
void anfi_tape_copy(anfi_jbuild *q, size_t k);
bool anfi_tape_back(anfi_jbuild *q, size_t k);
/* Before the sweeps take position i: fetches what they will touch soon into the cache. */
void anfi_prefetch_forward(const anfi_jbuild *q, size_t i);
void anfi_prefetch_back(const anfi_jbuild *q, size_t i);

/* call.c */
bool anfi_is_own_call(const anf_node *n); // a CALL, Recompute or Custom
bool anfi_forward_call(anfi_jbuild *q, anf_node *n);
bool anfi_backward_call(anfi_jbuild *q, anf_node *n, anf_node *const *leaf);
/* The primals of n's inputs from `from` on. */
anf_node **anfi_primal_args(anfi_jbuild *q, const anf_node *n, size_t from);
/* Arguments of ◀ of s: (residuals.., constants.., adjoints.., sums..); `args` are those of ▶. */
size_t anfi_pullback_args(const anfi_jspec *s, anf_node *const *residual, anf_node *const *args,
                          size_t ngiven, anf_node *const *given, size_t nsum, anf_node *const *sum,
                          anf_node **out);
/* Does ◀ of s take parameter i again? */
bool anfi_is_passed(const anfi_jspec *s, size_t i);
/* Does leaf k of parameter i of s come with a sum? */
bool anfi_adds(const anfi_jspec *s, size_t i, size_t k);
const anf_type *anfi_pullback_type(anfi_jbuild *q, const anfi_jspec *s); // result of ◀ of s

/* loop.c */
bool anfi_forward_loop(anfi_jbuild *q, anf_node *n);
bool anfi_backward_loop(anfi_jbuild *q, anf_node *n, anf_node *const *leaf);
/* `loop` replaces the loop n: its first ns items take the types of n's. */
void anfi_loop_as(anfi_jbuild *q, anf_node *loop, const anf_node *n, size_t ns);

/* blocks.c */
/* The iterations of a block of the loop whose step is s; 0: no blocks. */
size_t anfi_block_rounds(const anfi_jspec *s, const anfi_loop_op *l);
void anfi_forward_blocks(anfi_jbuild *q, anf_node *n);
/* The adjoints over all iterations. `back` sweeps one block; `args`: its constants and initial state. */
anf_node *anfi_backward_blocks(anfi_jbuild *q, anf_node *n, const anfi_loop_op *back,
                               anf_node *const *args);

/* residual.c */
bool anfi_j_close(anfi_jbuild *q);

#endif
