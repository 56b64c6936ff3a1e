// SPDX-License-Identifier: Apache-2.0
/* The quantised path: products of dequantised tensors become products of integers. The five passes keep the names that
 * oneDNN's graph compiler gave them and run in this order, after all derivatives:
 *
 *   y = (Cast(q, f32) * s) @ Dequantize(w, t, z)           what a program has
 *   y = Dequantize(q, s) @ Dequantize(w, t, z)             analysis_quantized: one form
 *   Transpose(Dequantize(q, s))  ->  Dequantize(Transpose(q), s)    quantized_info_propagation
 *   y = Cast(q @ (w - z), f32) * (s * t)                   quantized_graph_reschedule, in i32
 *   q @ (w - z)  ->  q @ w - z * Sum(q, axis=-1)           quantize_op_compensation
 *   Quantize(x, s)  ->  Cast(Clip(Round(x / s), ..), i8)   quantize_inline: what is left becomes simple ops
 *
 * A row of floats times bytes is memory bound, and has its scales after it, too: x @ Dequantize(w, t) -> (x @ w) * t.
 *
 * ROUNDING: all but quantized_graph_reschedule keep every bit. That one sums exactly and rounds four times at most (the
 * sum to f32, two scales, the result), where the product of floats rounds each factor and, in compiled code, each sum. */
#ifndef ANFI_QUANTISE_H
#define ANFI_QUANTISE_H

#include "ir/ops/op.h"
#include "optimizer/opt.h"
#include "optimizer/rules/rule.h"

/* One of the passes at work on a module. */
typedef struct quantiser {
  anfi_rewriter r; // builds typed nodes
  anf_node *near;  // the node that is replaced: new ones belong to its graph
  const char *why; // it is left as it is, for --explain; or NULL
} quantiser;

/* Gives false, and keeps the reason. */
static inline bool anfi_q_refuse(quantiser *q, const char *why) {
  q->why = why;
  return false;
}

/* Visits every op node of the module, inputs first; `visit` gives what replaces it, or NULL. Ends early where the module
 * has no node that `relevant` takes. */
bool anfi_quantise_each(anfi_pass *p, bool (*relevant)(const anf_node *),
                        anf_node *(*visit)(quantiser *q, anf_node *n));

/* New nodes beside q->near; NULL where an input is NULL or types do not fit. */
anf_node *anfi_q_apply(quantiser *q, anfi_opcode op, const anfi_attrs *at, size_t n,
                       anf_node *const *in);
anf_node *anfi_q_apply1(quantiser *q, anfi_opcode op, anf_node *x);
anf_node *anfi_q_apply2(quantiser *q, anfi_opcode op, anf_node *x, anf_node *y);
anf_node *anfi_q_cast(quantiser *q, anf_node *x, anf_dtype d); // x itself if it has the type
anf_node *anfi_q_number(quantiser *q, anf_dtype d, double x);  // a scalar
/* Attributes of an op that has two, the first an integer, the second of type d. */
const anfi_attrs *anfi_q_attrs2(quantiser *q, anfi_opcode op, int64_t first, anf_dtype d,
                                int64_t second);
anf_node *anfi_q_sum(quantiser *q, anf_node *x, int64_t axis, bool keepdims);
/* Its axes permuted; codes of UnpackBits are moved while they are packed. */
anf_node *anfi_q_permute(quantiser *q, anf_node *x, const int64_t *perm, uint32_t rank);
/* Are the codes a constant, as they are or packed? */
bool anfi_q_is_fixed(const anf_node *code);
/* The last two axes exchanged; x itself if it has none. */
anf_node *anfi_q_swap(quantiser *q, anf_node *x);

/* A tensor of numbers, typed. */
static inline bool anfi_q_is_tensor(const anf_node *n) {
  return n->type && n->type->kind == ANF_TYPE_TENSOR;
}
static inline bool anfi_q_is_byte(anf_dtype d) { return d == ANF_I8 || d == ANF_U8; }
static inline size_t anfi_q_count(const anf_node *n) { // of a static shape, else 0
  size_t k = 0;
  return anfi_q_is_tensor(n) && anfi_type_elements(n->type, &k) ? k : 0;
}
/* Input i, or NULL if it is absent or None. */
static inline anf_node *anfi_q_input(const anf_node *n, uint32_t i) {
  return i < n->nin && anfi_q_is_tensor(n->in[i].def) ? n->in[i].def : NULL;
}
bool anfi_q_flag(const anf_node *n, uint32_t attr); // a bool attribute
/* Does the op hold quantised numbers? */
bool anfi_q_is_quantised(const anf_node *n);
/* i32 that bytes are widened to? */
bool anfi_q_is_byte_cast(const anf_node *n);
/* The codes of a dequantised tensor, or NULL: FakeQuantize(x, s) is Dequantize(Quantize(x, s), s). */
anf_node *anfi_q_code_of(quantiser *q, anf_node *n);
/* Is it 0? Signed codes of DynamicQuantize have no other zero point. */
bool anfi_q_is_no_offset(const anf_node *zero);
/* y * s * t in the type d. Constants are multiplied beforehand. NULL: an input is. */
anf_node *anfi_q_scaled(quantiser *q, anf_node *y, anf_node *s, anf_node *t, anf_dtype d);
/* A constant of finite reals that are neither 0 nor near the ends of f32's range. */
bool anfi_q_is_sound(const anf_node *scale);

/* groups.c: a row of floats times weights with a scale for each group of steps; NULL: it is none */
anf_node *anfi_q_reschedule_groups(quantiser *q, anf_node *n);

/* conv.c: convolutions, of which these give what replaces them, or NULL */
anf_node *anfi_q_reschedule_conv(quantiser *q, anf_node *n);
anf_node *anfi_q_compensate_conv(quantiser *q, anf_node *n);
bool anfi_q_is_conv(const anf_node *n);

#endif
