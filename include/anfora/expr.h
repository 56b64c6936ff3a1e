// SPDX-License-Identifier: Apache-2.0
/* Expressions of tensors as PNNX writes them: "sqrt(div(add(mul(@0,2),@1),12))".
 *
 * An expression goes text -> tokens -> tree -> reverse Polish form, and is evaluated over a batch
 * of tensors on a stack, or becomes one graph that passes, code generators and gradients take.
 * What the operators mean is PyTorch's: numbers in the text do not widen a tensor's type, `div` of
 * integers gives floats, `floor_divide` rounds down, `remainder` has the sign of the divisor.
 * docs/pnnx.md has the grammar and every operator.
 *
 * Example:
 *   anf_expr *e = NULL;
 *   anf_value *in[] = {anf_value_f32(cx, 2), anf_value_f32(cx, 3)}, *out = NULL;
 *   anf_status st = anf_expr_parse(cx, "mul(add(@0,1),@1)", 17, 2, d, &e);
 *   if (st == ANF_OK) st = anf_expr_eval(e, 2, 1, in, d, &out);  // 9
 *   anf_value_release(in[0]);
 *   anf_value_release(in[1]);
 *   anf_value_release(out);
 *   anf_expr_free(e);
 */
#ifndef ANFORA_EXPR_H
#define ANFORA_EXPR_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_expr anf_expr;

typedef enum anf_expr_token_kind {
  ANF_EXPR_OPERATOR,     // add, torch.float
  ANF_EXPR_INPUT_NUMBER, // @0
  ANF_EXPR_LEFT_BRACKET,
  ANF_EXPR_RIGHT_BRACKET,
  ANF_EXPR_LEFT_SQUARE,
  ANF_EXPR_RIGHT_SQUARE,
  ANF_EXPR_COMMA,
  ANF_EXPR_INTEGER,
  ANF_EXPR_REAL, // 0.5, 1e-5, inf, -inf, nan
  ANF_EXPR_COMPLEX,
  ANF_EXPR_WORD, // None, True, False
  ANF_EXPR_TOKEN_KINDS
} anf_expr_token_kind;

/* Bytes start .. end - 1 of the text. */
typedef struct anf_expr_token {
  anf_expr_token_kind kind;
  size_t start, end;
} anf_expr_token;

typedef enum anf_expr_kind {
  ANF_EXPR_CALL,
  ANF_EXPR_LIST,
  ANF_EXPR_INPUT,
  ANF_EXPR_CONSTANT
} anf_expr_kind;
typedef enum anf_expr_constant {
  ANF_EXPR_NONE,
  ANF_EXPR_BOOL,
  ANF_EXPR_INT,
  ANF_EXPR_FLOAT,
  ANF_EXPR_COMPLEX_NUMBER
} anf_expr_constant;

#define ANF_EXPR_NO_NODE SIZE_MAX

/* A node of the tree. Nodes are numbered in the order of the text. */
typedef struct anf_expr_node {
  anf_expr_kind kind;
  anf_expr_constant constant; // of a CONSTANT
  const char *op;             // of a CALL: the operator's name; else NULL
  size_t input;               // of an INPUT: the N of @N
  int64_t i;                  // of a CONSTANT: a bool or an integer
  double re, im;              // of a CONSTANT: a real or complex number
  size_t token;               // that it starts with
  size_t children;            // how many
  size_t first, next;         // its first child, the next child of its parent; or ANF_EXPR_NO_NODE
} anf_expr_node;

/* Reads an expression of `ninput` inputs; with ANF_EXPR_ANY_INPUTS, @N may be any number. */
#define ANF_EXPR_ANY_INPUTS SIZE_MAX
ANF_API anf_status anf_expr_parse(anf_ctx *cx, const char *text, size_t len, size_t ninput,
                                  anf_diag *d, anf_expr **out);
/* The same with the file name for locations in messages. */
ANF_API anf_status anf_expr_parse_file(anf_ctx *cx, const char *text, size_t len,
                                       const char *ANF_NULLABLE file, size_t ninput, anf_diag *d,
                                       anf_expr **out);
ANF_API void anf_expr_free(anf_expr *e);
ANF_API const char *anf_expr_text(const anf_expr *e);
/* One more than the greatest N of @N, or the `ninput` of the parse. */
ANF_API size_t anf_expr_input_count(const anf_expr *e);

ANF_API size_t anf_expr_token_count(const anf_expr *e);
ANF_API anf_expr_token anf_expr_token_at(const anf_expr *e, size_t i);
/* "operator", "input number", "left bracket", ... */
ANF_API const char *anf_expr_token_name(anf_expr_token_kind kind);

ANF_API size_t anf_expr_node_count(const anf_expr *e);
ANF_API const anf_expr_node *anf_expr_node_at(const anf_expr *e, size_t i); // NULL past the end
/* The root is node 0. The reverse Polish form lists the numbers of all nodes, operands first. */
ANF_API size_t anf_expr_rpn_at(const anf_expr *e, size_t i);

/* Append to `out`: the expression in its plain form, the word of one node, the tree for graphviz. */
ANF_API anf_status anf_expr_print(const anf_expr *e, anf_text *out);
ANF_API anf_status anf_expr_print_node(const anf_expr *e, size_t node, anf_text *out);
ANF_API anf_status anf_expr_write_dot(const anf_expr *e, anf_text *out);

/* Evaluates over a batch on a stack. `in` holds n operands of `batch` values each, operand by
 * operand: element b of operand i is in[i * batch + b]. `out` receives `batch` new references. */
ANF_API anf_status anf_expr_eval(const anf_expr *e, size_t n, size_t batch, anf_value *const *in,
                                 anf_diag *d, anf_value **out);
/* The expression as a graph of `m` with one parameter of each type (tensors, dims may be unknown). */
ANF_API anf_status anf_expr_graph(const anf_expr *e, anf_module *m, const char *name, size_t n,
                                  const anf_type *const *types, anf_diag *d, anf_graph **out);

/* The operators: name and number of operands (least and most) of the i-th; NULL past the end. */
ANF_API const char *anf_expr_operator(size_t i, size_t *ANF_NULLABLE least,
                                      size_t *ANF_NULLABLE most);

#ifdef __cplusplus
}
#endif
#endif
