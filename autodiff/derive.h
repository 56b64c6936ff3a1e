// SPDX-License-Identifier: Apache-2.0
/* Derivatives of single ops, from the columns `grad` and `vjp` of ir/op.def.
 *
 * CONVENTION for complex numbers z = x + iy: the cotangent of z is dL/dx + i dL/dy, so that
 * <u, v> = Re(sum conj(u) v) and the vjp is the adjoint of the jvp. A holomorphic f has vjp
 * dy * conj(f'(z)) and jvp t * f'(z). In formulas: Conj what is multiplied; of a real it is nothing.
 *
 * Cotangents and tangents have the type of what they belong to. NULL is a symbolic zero. Integers,
 * bools and keys have none: their places hold NULL. The places of a tuple-typed value are its
 * items, one after the other (ops whose results nest deeper than that have no derivative here: the
 * transforms know tuples and records by name). */
#ifndef ANFI_DERIVE_H
#define ANFI_DERIVE_H

#include "ir/ir.h"

/* What derivatives are built with; one serves a whole transform. Made by anfi_ad_new. */
typedef struct anfi_ad {
  anf_module *m;
  anfi_arena *arena;  // scratch of the frame
  uint32_t from, how; // the primal's debug entry, and the one derived from it
  anfi_map numbers;   // constants made so far: one node each
} anfi_ad;
anfi_ad *anfi_ad_new(anf_module *m); // lives until the frame is left

/* What a row says of one input. */
typedef enum anfi_derivative {
  ANFI_DERIVATIVE,       // there is one
  ANFI_DERIVATIVE_ZERO,  // "_": integers, comparisons, what is piecewise constant
  ANFI_DERIVATIVE_NONE,  // "!": asking for it is an error
  ANFI_DERIVATIVE_GRAPH, // "*": the transforms know this op by name, as they do calls
  ANFI_DERIVATIVE_MISSING,
} anfi_derivative;
anfi_derivative anfi_derivative_of(anf_ctx *cx, anfi_opcode op, size_t input);

/* Has a value of this type tangents? Real and complex tensors, and what has such a part. */
bool anfi_ad_varies(const anf_type *t);

/* ---- building ---- */

/* A typed node, or an older one that is the same: what changes nothing is not built (factors of 1,
 * double negation, casts and sums to what is there already, conjugates of reals), what looks at a
 * static shape alone takes it as an attribute and does not hold on to its operand, and scalar
 * constants are computed. NULL with an error recorded when the types do not fit. */
anf_node *anfi_ad_apply(anfi_ad *ad, anf_graph *g, anfi_opcode op, const anfi_attrs *attrs,
                        size_t n, anf_node *const *in);
#define anfi_ad_apply1(ad, g, op, a) anfi_ad_apply(ad, g, op, NULL, 1, (anf_node *const[]){a})
#define anfi_ad_apply2(ad, g, op, a, b)                                                            \
  anfi_ad_apply(ad, g, op, NULL, 2, (anf_node *const[]){a, b})
#define anfi_ad_apply3(ad, g, op, a, b, c)                                                         \
  anfi_ad_apply(ad, g, op, NULL, 3, (anf_node *const[]){a, b, c})
anf_node *anfi_ad_add(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b); // either may be NULL
anf_node *anfi_ad_number(anfi_ad *ad, anf_dtype d, double x);               // a scalar constant
anf_node *anfi_ad_const(anfi_ad *ad, anf_value *v); // takes the reference
/* Zeros and ones like x, a tensor; x itself is used only where its shape is not static. */
anf_node *anfi_ad_zeros(anfi_ad *ad, anf_graph *g, anf_node *x);
anf_node *anfi_ad_ones(anfi_ad *ad, anf_graph *g, anf_node *x);
const anf_type *anfi_ad_type_of(anfi_ad *ad, const anf_node *n); // constants may lack one

/* ---- one op ---- */

/* `primal` says op, attributes and types; in[] and y are what stands for its arguments and result
 * in g. dy has one place for each item of a tuple-typed result, else one (ndy = 1). out[i] is set
 * for every argument: the contribution to it, of its type, where want[i] and there is one. False
 * with E07xx recorded when a wanted one does not exist. */
bool anfi_vjp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, size_t ndy, anf_node *const *dy, const bool *want, anf_node **out);
/* tin[i] is the tangent of argument i. `ty` has one place for each item of a tuple-typed result,
 * else one; NULL where the tangent is zero. */
bool anfi_jvp_op(anfi_ad *ad, anf_graph *g, const anf_node *primal, anf_node *const *in,
                 anf_node *y, anf_node *const *tin, anf_node **ty);

/* ---- for hooks of the column `vjp` ---- */

typedef struct anfi_derive {
  anfi_ad *ad;
  anf_graph *g;
  const anf_node *primal;
  anfi_opcode op;
  size_t n, ndy;
  anf_node *const *in, *const *dy;
  anf_node *y;
  const bool *want;
  anf_node **out; // all NULL at first; shape and type may still be those of the broadcast result
} anfi_derive;
/* What a formula gives. It may name inputs, attributes, `y`, `dy` (the first place), `dy1`...
 * (others), `@0`... of `nodes`, and as attributes `$0`... of `values`. INVARIANT: `formula` is a
 * literal: what it parses to is kept under its address. */
anf_node *anfi_derive_build(anfi_derive *q, const char *formula, anf_node *const *nodes,
                            anf_value *const *values);

#endif
