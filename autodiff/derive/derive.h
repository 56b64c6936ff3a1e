// SPDX-License-Identifier: Apache-2.0
/* Derivatives of single ops, from the columns `grad` and `vjp` of ir/ops/op.def.
 *
 * CONVENTION for complex numbers z = x + iy: the cotangent of z is dL/dx + i dL/dy, so that
 * <u, v> = Re(sum conj(u) v) and the vjp is the adjoint of the jvp. A holomorphic f has vjp
 * dy * conj(f'(z)) and jvp t * f'(z). Formulas conjugate factors; Conj of a real builds nothing.
 *
 * Cotangents and tangents have the type of their primal. NULL is a symbolic zero. Integers,
 * bools and keys have none: their places hold NULL. The places of a tuple-typed value are its
 * items, one after the other (ops whose results nest deeper than that have no derivative here: the
 * transforms know tuples and records by name). */
#ifndef ANFI_DERIVE_H
#define ANFI_DERIVE_H

#include "ir/ir.h"

/* Result types of ops without attributes whose arguments have all one type. */
enum { ANFI_AD_TYPES = 256 };
typedef struct anfi_ad_known {
  anfi_opcode op;
  size_t n;
  const anf_type *in, *out;
} anfi_ad_known;

enum { ANFI_AD_NUMBERS = 16 };
typedef struct anfi_ad_recent {
  uint64_t bits;
  anf_dtype dtype;
  anf_node *node;
} anfi_ad_recent;

/* State of building derivatives; one serves a whole transform. Made by anfi_ad_new. */
typedef struct anfi_ad {
  /* module and place */
  anf_module *m;
  anfi_arena *arena;  // scratch of the frame
  const anf_node *at; // whose derivative is being built: for messages
  uint32_t from, how; // its debug entry, and the one derived from it
  /* caches: constants, formulas, attributes, typed rules */
  anfi_map numbers; // scalar constants made so far: one node each
  anfi_ad_recent recent[ANFI_AD_NUMBERS];
  anfi_map formulas;                               // parsed ones, by the address of their text
  const struct anfi_formula *of_row[ANF_OP_COUNT]; // likewise, of the rows of op.def
  ANFI_VEC(const anfi_attrs *) gets;               // attributes of TupleGet by index
  anfi_ad_known known[ANFI_AD_TYPES];              // by a hash of op and type
  const struct anfi_recipe *recipe[ANFI_AD_TYPES]; // likewise, and of the wanted operands
  uint16_t inactive[ANF_OP_COUNT]; // 1 + bits: inputs without derivative; 0: not computed yet
  const anf_type *common; // of the last one that was written: a tensor of floats, of known dims
  /* simplification of new nodes */
  struct anfi_rewriter *clean; // for nodes that come out simplified
  /* vmap */
  anfi_map lanes; // functions of Custom, while they are batched: graph -> its batch
  size_t nlanes;  // how many of them are being made
  uint8_t work;   // ANFI_WORK_DCE, or 0: the next nodes are certain to be used
  /* reverse mode, and effects of derivative rules */
  struct anfi_j *reverse; // j.c: made when first needed
  bool *effects; // pure.c, by graph id, of `neffects`: has the graph effects, or one that it calls?
  size_t neffects;
  bool pure; // no graph of the module has effects: derivatives add none
  const bool
      *rules; // by graph id, of `nrules`: can ◀ of it run a rule that has effects? NULL: none
  size_t nrules;
  bool ordered; // the node that is expanded has a place among the effects
} anfi_ad;
anfi_ad *anfi_ad_new(anf_module *m); // lives until the frame is left

/* The derivative of a row for one input. */
typedef enum anfi_derivative {
  ANFI_DERIVATIVE,       // there is one
  ANFI_DERIVATIVE_ZERO,  // "_": integers, comparisons, piecewise constant functions
  ANFI_DERIVATIVE_NONE,  // "!": asking for it is an error
  ANFI_DERIVATIVE_GRAPH, // "*": the transforms know this op by name, as they do calls
  ANFI_DERIVATIVE_MISSING,
} anfi_derivative;
anfi_derivative anfi_derivative_of(anf_ctx *cx, anfi_opcode op, size_t input);
/* The inputs of an op that have no derivative: bit i + 1; the last bit is for all later inputs. */
uint16_t anfi_ad_inactive_inputs(anfi_ad *ad, anfi_opcode op);
enum { ANFI_AD_INPUTS = 15 };
static inline bool anfi_ad_is_inactive(anfi_ad *ad, anfi_opcode op, size_t i) {
  unsigned bits = ad->inactive[op] ? ad->inactive[op] : anfi_ad_inactive_inputs(ad, op);
  return bits >> ((i < ANFI_AD_INPUTS ? i : ANFI_AD_INPUTS - 1) + 1) & 1;
}

/* Has a value of this type tangents? Real and complex tensors, and types with such a part. */
static inline bool anfi_ad_varies(const anf_type *t) { return t->varies; }

static inline bool anfi_ad_is_complex(const anf_type *t) {
  return anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_COMPLEX;
}

/* ---- building ---- */

/* A typed node, or an older equal one. Nodes that change nothing are not built (factors of 1,
 * double negation, casts and sums to the current type, conjugates of reals), ops that read a
 * static shape alone takes it as an attribute and does not hold on to its operand, and scalar
 * constants are computed. NULL with an error recorded when the types do not fit. */
anf_node *anfi_ad_apply(anfi_ad *ad, anf_graph *g, anfi_opcode op, const anfi_attrs *attrs,
                        size_t n, anf_node *const *in);
#define anfi_ad_apply1(ad, g, op, a)    anfi_ad_apply(ad, g, op, NULL, 1, (anf_node *const[]){a})
#define anfi_ad_apply2(ad, g, op, a, b) anfi_ad_apply(ad, g, op, NULL, 2, (anf_node *const[]){a, b})
/* The same of an elementwise op without attributes, when its result type is known: for the origin that
 * anfi_ad_next says, with op and type set. */
anf_node *anfi_ad_apply_typed(anfi_ad *ad, const anfi_apply_of *of, size_t n, anf_node *const *in);
static inline anfi_apply_of anfi_ad_next(const anfi_ad *ad, anf_graph *g) {
  return (anfi_apply_of){.graph = g, .debug = ad->how, .work = ad->work};
}
anf_node *anfi_ad_add(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b); // either may be NULL
/* written.c: the same; what was added to zeros at some places is added to the other in place. */
anf_node *anfi_ad_sum(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b);
/* Is x zeros to which something was added at some places? */
bool anfi_ad_is_written(anfi_ad *ad, const anf_node *x);
anf_node *anfi_ad_number(anfi_ad *ad, anf_dtype d, double x); // a scalar constant
anf_node *anfi_ad_const(anfi_ad *ad, anf_value *v);           // takes the reference
/* Zeros and ones like x, a tensor; x itself is used only where its shape is not static. */
anf_node *anfi_ad_zeros(anfi_ad *ad, anf_graph *g, anf_node *x);
anf_node *anfi_ad_ones(anfi_ad *ad, anf_graph *g, anf_node *x);
anf_node *anfi_ad_full(anfi_ad *ad, anf_graph *g, const anf_type *t, double x); // 0 or 1, static t
/* Attributes by schema index; NULL: the default. Guarded values, which are released. */
const anfi_attrs *anfi_ad_attrs(anfi_ad *ad, anfi_opcode op, anf_value *const *values);
const anf_type *anfi_ad_constant_type(anfi_ad *ad, const anf_node *n);
static inline const anf_type *anfi_ad_type_of(anfi_ad *ad, const anf_node *n) {
  return n->type || n->kind != ANFI_VALUE ? n->type : anfi_ad_constant_type(ad, n);
}

/* ---- one op ---- */

/* `primal` says op, attributes and types; in[] and y are the counterparts of its arguments and result
 * in g. dy has one place for each item of a tuple-typed result, else one (ndy = 1). out[i] is set
 * for every argument: its adjoint, of its type, where want[i] and not zero. False
 * with E07xx recorded when a wanted one does not exist. */
bool anfi_vjp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, size_t ndy, anf_node *const *dy, const bool *want, anf_node **out);
/* tin[i] is the tangent of argument i. `ty` has one place for each item of a tuple-typed result,
 * else one; NULL where the tangent is zero. */
bool anfi_jvp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, anf_node *const *tin, anf_node **ty);

/* E0721 or E0722 at the primal: there is no derivative for this argument. Always false. */
bool anfi_derive_refuse(anfi_ad *ad, const anf_node *primal, size_t input, anfi_derivative why);

/* ---- for hooks of the column `vjp` ---- */

typedef struct anfi_derive {
  anfi_ad *ad;
  anf_graph *g; // of the derivative
  /* the op: its node, and the counterparts in g of its inputs and result */
  const anf_node *primal;
  anfi_opcode op;
  size_t n, ndy;
  anf_node *const *in, *const *dy;
  anf_node *y;
  /* adjoints, by input */
  const bool *want;
  anf_node **out; // all NULL at first; shape and type may still be those of the broadcast result
} anfi_derive;
/* The node of a formula, or NULL with an error recorded. `values` are released, whatever happens.
 * INVARIANT: `formula` is a literal: its parsed form is cached by address.
 *
 *   (Mul dy (Conj x))     an op and its arguments; "xs*" means all the repeated ones
 *   x, in0                an input by its name, or by its place
 *   y, dy, dy1            the result; the adjoint of its only (or first) item, of its second
 *   axis, 0.5             the number in an attribute, or written down: of the type of its neighbours
 *   @0, $0                passed by a hook in `nodes`, and, for attributes, in `values`
 *   axis=axis keepdims=true mode=add shape=(Shape x)    attributes: of the primal, or constant */
anf_node *anfi_derive_build(anfi_derive *q, const char *formula, anf_node *const *nodes,
                            size_t nvalue, anf_value *const *values);
#define anfi_derive_build0(q, formula) anfi_derive_build(q, formula, NULL, 0, NULL)
/* For `values`: it is released with the frame if that fails before it is passed on. */
anf_value *anfi_derive_ints(const anfi_derive *q, size_t n, const int64_t *x);
anf_value *anfi_derive_int(const anfi_derive *q, int64_t x);
anf_value *anfi_derive_bool(const anfi_derive *q, bool x);
/* An attribute of the primal, by name; never NULL. */
anf_value *anfi_derive_attr(const anfi_derive *q, const char *name);
bool anfi_derive_flag(const anfi_derive *q, const char *name);
/* Is argument i there, and does it vary and want its adjoint? */
bool anfi_derive_given(const anfi_derive *q, size_t i);
bool anfi_derive_wants(const anfi_derive *q, size_t i);
const anf_type *anfi_derive_type(const anfi_derive *q, size_t i); // of argument i
anf_node *anfi_derive_reshape(anfi_derive *q, anf_node *x, size_t rank, const int64_t *dims);
/* Are the dims of argument i known? Else E0722 for it. */
bool anfi_derive_static(const anfi_derive *q, size_t i);
/* rules/distinct.c: are all indices `at` of a dim of this length known to name different places? */
bool anfi_derive_are_apart(anfi_derive *q, const anf_node *at, int64_t length);

/* formula.c and evaluate.c, for derive.c: the derivative of an input, and adjoints by formulas */
typedef struct anfi_formula anfi_formula;
const anfi_formula *anfi_formula_of_row(anfi_ad *ad, anfi_opcode op); // NULL: E0001 recorded
int anfi_formula_says(const anfi_formula *f, size_t input); // anfi_derivative, or ANFI_BY_HOOK
bool anfi_formula_build(anfi_derive *q, const anfi_formula *f);
enum { ANFI_BY_HOOK = -1 };
/* recipe.c: the same at once for operands that have all the type of the result; NULL: there is none */
typedef struct anfi_recipe anfi_recipe;
const anfi_recipe *anfi_recipe_of(const anfi_derive *q);
bool anfi_recipe_follow(const anfi_derive *q, const anfi_recipe *r); // sets q->out
/* The recipe for operands that have all the type t of the result, and bits of those wanted. */
const anfi_recipe *anfi_recipe_for(anfi_ad *ad, anfi_opcode op, uint32_t n, const anf_type *t,
                                   uint32_t want);
/* Adjoints to `out`. `at` has room for ANFI_RECIPE_PLACES; its first are in[], y and dy as for
 * anfi_vjp_op. Where a bit of anfi_recipe_minus is set, it is the negative of the adjoint. */
enum { ANFI_RECIPE_INPUTS = 4, ANFI_RECIPE_STEPS = 24 };
enum { ANFI_RECIPE_PLACES = ANFI_RECIPE_INPUTS + 2 + ANFI_RECIPE_STEPS };
bool anfi_recipe_make(anfi_ad *ad, anf_graph *g, const anfi_recipe *r, anf_node **at,
                      anf_node **out);
uint32_t anfi_recipe_minus(const anfi_recipe *r);

#endif
