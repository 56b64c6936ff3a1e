// SPDX-License-Identifier: Apache-2.0
/* Inference and specialisation: the abstract result of each function for each signature.
 *
 * Glossary
 *   abs       an abstract value, hash-consed: equality is pointer equality
 *   code      one function that a value may be: a graph, a primitive or a transform, with what is
 *             bound
 *   flow set  the codes that a function value may be
 *   spec      a graph at one signature: its parameters' abs, and the abs of all its nodes
 *   need      a node whose value, not just type, decides types: an attribute, an index into a tuple
 *   box       holds what a closure binds, where closures nest without bound: its abs is finite, as
 *             what all such boxes hold is recorded once, by parameter (box.c)
 *
 * Graphs are closed before (optimizer/lift.c), so a spec has no captures, only parameters. */
#ifndef ANFI_INFER_H
#define ANFI_INFER_H

#include "ir/ir.h"

typedef enum anfi_abs_kind {
  ANFI_ABS_BOTTOM, // nothing known yet: the recursion has not come back
  ANFI_ABS_DATA,   // a type; `value` if it is constant; of a loop's stack the item is its element
  ANFI_ABS_TUPLE,
  ANFI_ABS_RECORD,
  ANFI_ABS_CODE, // a member of a flow set; items are its environment
  ANFI_ABS_FN,   // a flow set; items are codes, by rising id
  ANFI_ABS_BOXED // only as an item of a CODE: the boxed value of parameter `param`
} anfi_abs_kind;

/* `if c { 100 } else { k }` with k: i64 is data of type i64 that may be an `int`. Both give the same as long as nothing
 * that they meet makes another type of one than of the other (ops/weak.c). */
enum { ANFI_WEAK_INT = 1, ANFI_WEAK_FLOAT = 2, ANFI_WEAK_COMPLEX = 4 };
static inline uint8_t anfi_weak_bit(anf_dtype d) {
  return d == ANF_INT ? ANFI_WEAK_INT : d == ANF_FLOAT ? ANFI_WEAK_FLOAT : ANFI_WEAK_COMPLEX;
}
static inline anf_dtype anfi_weak_dtype(uint8_t bit) {
  return bit == ANFI_WEAK_INT ? ANF_INT : bit == ANFI_WEAK_FLOAT ? ANF_FLOAT : ANF_COMPLEX;
}

typedef struct anfi_abs {
  /* what it is */
  uint8_t kind;
  bool partial; // BOTTOM, or has one inside
  uint8_t weak; // of DATA: ANFI_WEAK_*, what a number is instead where another branch ran
  uint16_t op;  // of a CODE that is a primitive, else ANF_OP_NONE
  uint32_t id, n;
  /* sizes, which bound walks */
  uint32_t depth;  // nesting of codes in environments
  uint32_t height; // of the whole abs; bounded, so that walks over it may recurse
  uint32_t size;   // nodes of a full walk over it, saturating
  /* contents, by kind */
  const anf_type *type;    // of DATA; of a RECORD, for its field names
  anf_value *value;        // of constant DATA
  anf_graph *graph;        // of a CODE
  const anf_node *param;   // of BOXED
  const anfi_attrs *attrs; // of a CODE that is a primitive
  const uint32_t *slot;    // of an FN of several, by member, once asked for
  /* identity */
  uint64_t hash;
  const struct anfi_abs *item[];
} anfi_abs;

/* abs.c */
typedef struct anfi_abs_table {
  /* hash table */
  anf_ctx *cx;
  anfi_arena *arena;
  const anfi_abs **slots;
  size_t nslot, n;
  const anfi_abs *bottom;
  /* boxes */
  const anfi_abs **boxed; // parameter's node id -> contents of its boxes; NULL: not boxed
  size_t nboxed, rises;   // how often the contents of a box rose
} anfi_abs_table;
void anfi_abs_init(anfi_abs_table *t, anfi_arena *a);
const anfi_abs *anfi_abs_data(anfi_abs_table *t, const anf_type *type);
const anfi_abs *anfi_abs_mixed(anfi_abs_table *t, const anf_type *type, uint8_t weak);
const anfi_abs *anfi_abs_const(anfi_abs_table *t, anf_value *v); // any value without functions
const anfi_abs *anfi_abs_items(anfi_abs_table *t, anfi_abs_kind k, const anf_type *record, size_t n,
                               const anfi_abs *const *items);
const anfi_abs *anfi_abs_stack(anfi_abs_table *t, const anfi_abs *element); // a loop's
const anfi_abs *anfi_abs_code(anfi_abs_table *t, anf_graph *g, uint16_t op, const anfi_attrs *attrs,
                              size_t n, const anfi_abs *const *bound);
const anfi_abs *anfi_abs_boxed(anfi_abs_table *t, const anf_node *param); // a box of it
const anfi_abs *anfi_abs_fn1(anfi_abs_table *t, const anfi_abs *code);    // a flow set of one
/* From a declared type: functions in it are unknown, which gives NULL. */
const anfi_abs *anfi_abs_of_type(anfi_abs_table *t, const anf_type *type);
/* Without constants, all the way down. */
const anfi_abs *anfi_abs_broaden(anfi_abs_table *t, const anfi_abs *a);
/* The least abs above both; NULL if they do not fit (types, ranks, arities). `dims` allows dims to
 * become unknown. */
const anfi_abs *anfi_abs_join(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b, bool dims);
/* The same for results of branches, which must mean the same without types (docs/language.md): a number without a
 * type does not take that of another branch where arithmetic would differ. */
const anfi_abs *anfi_abs_join_branches(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b);
void anfi_hint_type(anf_ctx *cx, const anfi_abs *a, const anfi_abs *b); // i8(...) for the number
/* The type of the data that represents it after specialisation (see form.c); NULL for BOTTOM. */
const anf_type *anfi_abs_type(anfi_abs_table *t, const anfi_abs *a);
/* The same with functions as functions: fn() -> any, the type of a function value in the interpreter. */
const anf_type *anfi_abs_shown_type(anfi_abs_table *t, const anfi_abs *a);
bool anfi_abs_has_fn(const anfi_abs *a);
/* Are the flow sets in both the same, whatever their members bind? BOTTOM may still become any. */
bool anfi_abs_same_functions(const anfi_abs *a, const anfi_abs *b);
/* box.c: a in a box of this parameter; NULL if it does not join with the contents of others. */
const anfi_abs *anfi_abs_box(anfi_abs_table *t, const anf_node *param, const anfi_abs *a);
const anfi_abs *anfi_abs_find_boxed(const anfi_abs *a); // a box in it, or NULL
const anfi_abs *anfi_abs_open(const anfi_abs_table *t,
                              const anfi_abs *a); // the contents of a box, or a itself
/* The value of a constant, a new reference; NULL if it is not constant all through. */
anf_value *anfi_abs_value(anf_ctx *cx, const anfi_abs *a);
void anfi_put_abs(anf_text *o, anf_ctx *cx, const anfi_abs *a); // "f32[2], fn{f, g}" for messages

/* Does `set` have a member with this code, whatever it binds? Its position, or set->n. */
uint32_t anfi_abs_member(const anfi_abs *set, const anfi_abs *code);
/* Index of a member's captured values in the data of a set of several functions; 0: it captures none. */
uint32_t anfi_abs_slot(anfi_abs_table *t, const anfi_abs *set, uint32_t member);

/* infer.c */
typedef struct anfi_spec anfi_spec;
typedef struct anfi_site anfi_site;
struct anfi_site { // who waits for a spec's result
  anfi_site *next;
  anfi_spec *user;
  uint32_t at; // the first of its nodes that calls it, by position
};
struct anfi_spec {
  /* signature and abstract values */
  anf_graph *graph;
  uint32_t id;
  const anfi_abs **arg;  // by parameter
  const anfi_abs **node; // by position in the graph's order
  const anfi_abs *result;
  /* its place among the specs */
  anfi_spec *forward; // a wider spec that took its place, or NULL
  anfi_spec *root;    // the spec through which its recursion was entered
  anfi_spec *caller;  // who asked first, for messages
  anf_node *call;     // and at which node
  anfi_site *waiting;
  anfi_spec *next_same; // specs of one graph
  /* evaluation */
  uint32_t from, paused;     // evaluated again from here on; one more than the node where it paused
  uint32_t whole;            // specs that there were when it was evaluated as a whole; 0: in parts
  bool queued, entry, opens; // opens boxes
  bool evaluated;            // or paused
  uint64_t turn;             // among the queued
  /* outcome */
  anf_graph *made; // specialise.c: the specialised graph
};

/* A cached result of an op: programs repeat few signatures of ops many times. */
enum { ANFI_KNOWN = 256, ANFI_KNOWN_ARGS = 3 };
typedef struct anfi_known {
  anfi_opcode op;
  uint32_t n;
  const anfi_attrs *attrs;
  const anfi_abs *in[ANFI_KNOWN_ARGS], *result;
} anfi_known;

/* Attribute `attr` of `op`, given by an input of `node`; or without `attr` how often `closure`, of the
 * function `op`, is wrapped there. */
typedef struct anfi_demanded {
  const anf_node *node;
  const char *attr, *op;
  const anfi_abs *closure;
} anfi_demanded;

/* Graphs that generators of the host made, in the module; and those that inference asks for. */
typedef struct anfi_wanted {
  anfi_generated *of;
  anfi_loc loc;
} anfi_wanted;
typedef struct anfi_generated_graphs {
  anfi_map graph_of; // anfi_generated -> graph
  ANFI_VEC(anfi_wanted) wanted;
} anfi_generated_graphs;

typedef struct anfi_inference {
  /* the module */
  anf_ctx *cx;
  anf_module *m;
  anfi_arena *arena;
  const anf_analysis *an;
  anfi_abs_table abs;
  uint32_t *local; // node id -> position in its graph's order
  /* values that decide types (need.c) */
  uint8_t *need;        // node id -> its value decides types
  uint8_t *exact;       // node id -> and does so in a recursion
  uint8_t *exact_graph; // graph id -> a recursion with such a parameter
  bool again;           // more is exact than was known
  bool emitting;        // abs are final
  anfi_demanded asked;  // for what, last
  bool wished;          // something is exact that need not be
  bool wishless;        // it made too many signatures: no more of this
  bool conditions;      // those of exact recursions are demanded, too
  bool forget;          // exactness: demands will be made again
  /* specs */
  anfi_spec **of_graph; // graph id -> its specs
  uint32_t *nspec_of;   // graph id -> their number
  anfi_map by_key;
  /* results of ops */
  anfi_known known[ANFI_KNOWN]; // direct-mapped, by hash
  /* the worklist */
  ANFI_VEC(anfi_spec *) specs; // by id
  ANFI_VEC(anfi_spec *) queue; // worklist.c
  uint64_t turn;
  size_t evals; // evaluations of whole specs, for tests and benchmarks
  /* the current evaluation */
  anfi_spec *now; // being evaluated
  uint32_t at;    // its node, by position
  bool crowded;   // calls of some graph share signatures
  bool unknown;   // which calls what has not been evaluated, of another component
  anfi_generated_graphs *generated;
} anfi_inference;

/* Infers from the entry graphs on. False with E05xx recorded. */
bool anfi_infer_run(anfi_inference *q);
anfi_inference *anfi_infer_new(anf_module *m);
/* worklist.c: specs to evaluate, those of callees first; the next leaves it, or NULL. */
void anfi_enqueue_spec(anfi_inference *q, anfi_spec *s);
void anfi_resume_spec(anfi_inference *q, anfi_spec *s); // in its old turn
anfi_spec *anfi_next_spec(anfi_inference *q);

/* The spec of g at these arguments, made and queued if it is new. */
anfi_spec *anfi_infer_entry(anfi_inference *q, anf_graph *g, size_t n,
                            const anf_type *const *types);
static inline anfi_spec *anfi_spec_final(anfi_spec *s) {
  while (s->forward) s = s->forward;
  return s;
}
/* The abs of a node inside a spec. */
const anfi_abs *anfi_spec_abs(anfi_inference *q, const anfi_spec *s, const anf_node *n);
/* The spec that a call of `code` with `args` in s runs; NULL for a primitive. */
anfi_spec *anfi_infer_callee(anfi_inference *q, anfi_spec *s, const anfi_abs *code, size_t n,
                             const anfi_abs *const *args, anf_node *at);

/* need.c */
bool anfi_asks_dims(const anf_node *n); // its value follows from the types of its inputs alone
void anfi_find_needs(anfi_inference *q);
/* By node: does its value decide types in its own function or what that calls? Of a parameter of `f` in f(x)[a:b] that may
 * be so though nothing in f makes a shape of it; here it is not. */
const uint8_t *anfi_find_own_needs(anfi_inference *q);
/* The inputs of the node from here on are no constants, but give an attribute. If they may be once
 * more is exact, inference is to begin again; else E0520 is recorded. Always false. */
bool anfi_demand(anfi_inference *q, anfi_demanded d, size_t from);
/* The size of x[a:b] at this node would be known if a and b were constants. If they may be once more is
 * exact, inference is to begin again, and this is true. Only in recursions that end after rounds
 * that are known. */
bool anfi_wish(anfi_inference *q, const anf_node *at);
/* Each round of the recursion that g is part of is to have a signature of its own, because of d. If
 * that may help inference is to begin again, else false. Without an error in both cases. */
bool anfi_demand_rounds(anfi_inference *q, const anf_graph *g, anfi_demanded d);
/* Recursions whose parameters are exact make too many signatures: they may end where their conditions are known, too. False
 * if that was demanded before. */
bool anfi_demand_conditions(anfi_inference *q);
/* Results that differ at this node, of a recursion: they may have a type for each round,
 *   def count(i, n) { if i == n { () } else { TupleConcat((i,), count(i + 1, n)) } }
 * if inference begins again with rounds that are known. True also with E0724 recorded, where tuples differ and the rounds are
 * not known; false: another error. */
bool anfi_demand_by_round(anfi_inference *q, const anf_node *at, const anfi_abs *a,
                          const anfi_abs *b);
/* Did the first round of g's recursion know that it goes on? Then the others will, too. */
bool anfi_is_counted(const anfi_inference *q, const anf_graph *g);
/* box.c: closures that bind their like are to do so in boxes. If that helps inference is to begin
 * again, else E0522 is recorded. Always false. */
bool anfi_endless_closures(anfi_inference *q, anfi_demanded d);

/* The representation of a function value in first-order programs (emit.c):
 *   one code        its environment, a tuple
 *   several codes   (tag, environments), those of other tags undefined; a code that binds nothing has none. Codes that are
 *                   not very few share one where they bind values of the same types, no functions, and no arrays if
 *                   they are not many (abs.c)
 */

#endif
