// SPDX-License-Identifier: Apache-2.0
/* PNNX inside the library: expressions, what their operators mean, .param and .bin files, layers.
 *
 * Glossary
 *   number   a Python number: it takes part in an operation without widening a tensor's type.
 *            A tensor of rank 0 is no number
 *   operand  what an operation gets: a value that is known, or a node of the graph being built */
#ifndef ANFI_PNNX_H
#define ANFI_PNNX_H

#include "anfora/expr.h"
#include "ir/ir.h"

/* ---- expressions ---- */

/* What the types of operands become before an op runs. Conversions are in the order of
 * anf_dtype. */
typedef enum anfi_expr_rule {
  ANFI_EXPR_SAME,
  ANFI_EXPR_REAL,
  ANFI_EXPR_INTS,
  ANFI_EXPR_ROUND,
  ANFI_EXPR_ALPHA,
  ANFI_EXPR_RSUB,
  ANFI_EXPR_LOGADDEXP,
  ANFI_EXPR_SIZE,
  ANFI_EXPR_TO_INT, // to a number
  ANFI_EXPR_TO_BOOL,
  ANFI_EXPR_TO_I8,
  ANFI_EXPR_TO_I16,
  ANFI_EXPR_TO_I32,
  ANFI_EXPR_TO_I64,
  ANFI_EXPR_TO_U8,
  ANFI_EXPR_TO_F16,
  ANFI_EXPR_TO_BF16,
  ANFI_EXPR_TO_F32,
  ANFI_EXPR_TO_F64,
  ANFI_EXPR_TO_C64,
  ANFI_EXPR_TO_C128
} anfi_expr_rule;

typedef struct anfi_expr_op {
  const char *name;
  uint8_t least, most, rule;
  uint16_t op;
} anfi_expr_op;
extern const anfi_expr_op anfi_expr_ops[];
extern const size_t anfi_expr_op_count;
/* NULL if there is none. */
const anfi_expr_op *anfi_expr_find(const char *name, size_t len);
/* The nearest name, for a hint; or NULL. */
const char *anfi_expr_near(anf_ctx *cx, const char *name, size_t len);

/* `op` of a CALL is the row's name, so the row is found from it. */
typedef struct anfi_expr_tree_node {
  anf_expr_node n;
  const anfi_expr_op *row;
} anfi_expr_tree_node;

struct anf_expr {
  anf_ctx *cx;
  anfi_arena arena;
  const char *text;
  size_t len, ninput, most_input; // most_input: one more than the greatest N
  anfi_loc start;                 // where the text is in its file
  ANFI_VEC(size_t) lines;         // where each line ends
  ANFI_VEC(anf_expr_token) tokens;
  ANFI_VEC(anfi_expr_tree_node) nodes; // in the order of the text; 0 is the root
  ANFI_VEC(size_t) rpn;
};

/* The place of byte `at` of the text. */
anfi_loc anfi_expr_place(const anf_expr *e, size_t at);
/* Reads inside a frame; the expression is freed with the frame if that fails. NULL after an error.
 */
anf_expr *anfi_expr_read(anf_ctx *cx, const char *text, size_t len, anfi_loc start, size_t ninput);
bool anfi_expr_tokenize(anf_expr *e);
bool anfi_expr_build(anf_expr *e); // tokens -> tree
void anfi_expr_rpn(anf_expr *e);   // tree -> reverse Polish form

/* ---- torch.c: operations with PyTorch's rules on values, or on nodes of a graph ---- */

typedef enum anfi_operand_kind {
  ANFI_OPERAND_TENSOR, // numbers too
  ANFI_OPERAND_LIST,
  ANFI_OPERAND_NONE,
} anfi_operand_kind;

typedef struct anfi_operand {
  anfi_operand_kind kind;
  bool number;
  const anf_type *type; // of a tensor or number
  anf_value *value;     // if it is known, borrowed from anfi_torch.live or from the caller;
  anf_node *node;       // else the node
  struct anfi_operand *item;
  size_t n; // items of a list
} anfi_operand;

/* INVARIANT: a value that an operation made is in `live` until it is dropped or the frame is left,
 * so nothing leaks when memory runs out in between. */
typedef struct anfi_torch {
  anf_ctx *cx;
  anfi_arena *arena; // of lists
  anf_graph *graph;  // NULL: values only
  anfi_loc loc;
  uint32_t debug; // of the nodes that are made
  ANFI_VEC(anf_value *) live;
} anfi_torch;

/* In the frame's scratch memory. */
anfi_torch *anfi_torch_new(anf_ctx *cx, anf_graph *g);
/* Takes the reference and gives it back: it is live from now on. */
anf_value *anfi_torch_own(anfi_torch *t, anf_value *v);
/* Ends the life of a value that an operation made, in an evaluation without a graph. */
void anfi_torch_drop(anfi_torch *t, const anfi_operand *o);
anfi_operand anfi_operand_value(anf_ctx *cx, anf_value *v); // a weak scalar is a number
anfi_operand anfi_operand_node(anf_node *n, const anf_type *type);
anfi_operand anfi_operand_number(anfi_torch *t, int64_t v);
/* One op as it is, without PyTorch's rules. False after an error. The type is NULL where it is not
 * known before the program runs. */
bool anfi_torch_op(anfi_torch *t, anfi_opcode op, size_t n, const anfi_operand *in, size_t nattr,
                   const anf_attr *attrs, anfi_operand *out);
/* An operator of expressions. */
bool anfi_torch_apply(anfi_torch *t, const anfi_expr_op *row, size_t n, const anfi_operand *in,
                      anfi_operand *out);
/* The same tensor in another element type. */
bool anfi_torch_cast(anfi_torch *t, const anfi_operand *x, anf_dtype d, anfi_operand *out);
/* Conversion to the common type of all, as before an addition. */
bool anfi_torch_promote(anfi_torch *t, size_t n, anfi_operand *in);
/* Dim `axis` of a tensor, a number. */
bool anfi_torch_size(anfi_torch *t, const anfi_operand *x, size_t axis, anfi_operand *out);
/* A node for the operand; lists become tuples. */
anf_node *anfi_torch_node(anfi_torch *t, const anfi_operand *o);
/* A known integer. */
bool anfi_operand_int(const anfi_operand *o, int64_t *out);

/* expression_eval.c: the expression of these operands. */
bool anfi_expr_emit(anfi_torch *t, const anf_expr *e, size_t n, const anfi_operand *in,
                    anfi_operand *out);

#endif
