// SPDX-License-Identifier: Apache-2.0
/* PNNX inside the library: expressions, what their operators mean, .param and .bin files, layers.
 *
 * Glossary
 *   number   a Python number: it takes part in an operation without widening a tensor's type.
 *            A tensor of rank 0 is no number
 *   operand  what an operation gets: a value that is known, or a node of the graph being built */
#ifndef ANFI_PNNX_H
#define ANFI_PNNX_H

#include "frontend/store/zip.h"
#include "anfora/expr.h"
#include "anfora/pnnx.h"
#include "ir/ir.h"

/* ---- expressions ---- */

/* The conversion of operands before an op runs. Conversions are in the order of
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
  /* text */
  anf_ctx *cx;
  anfi_arena arena;
  const char *text;
  size_t len, ninput, most_input; // most_input: one more than the greatest N
  anfi_loc start;                 // where the text is in its file
  ANFI_VEC(size_t) lines;         // where each line ends
  /* forms of it */
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
  ANFI_OPERAND_TEXT, // a word, which is its value
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
  struct anfi_trace *trace; // of layer.anf, once an operator needs it
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

/* ---- models ---- */

typedef enum anfi_item_kind {
  ANFI_ITEM_NONE,
  ANFI_ITEM_BOOL,
  ANFI_ITEM_INT,
  ANFI_ITEM_REAL,
  ANFI_ITEM_COMPLEX,
  ANFI_ITEM_STRING
} anfi_item_kind;
typedef struct anfi_item {
  anfi_item_kind kind;
  int64_t i;
  double re, im;
  const char *s;
} anfi_item;
typedef struct anfi_parameter {
  const char *key, *text;
  uint32_t col; // of the text
  bool list, used;
  size_t n; // items; 1 if it is no list
  anfi_item *item;
} anfi_parameter;
typedef struct anfi_weight {
  const anf_pnnx_op *op;
  const char *key, *shape;
  const anf_type *type;
  anf_value *value;
  anf_node *node; // while a function is built that takes the weights; else NULL
  uint32_t col;
  bool used;
} anfi_weight;
typedef struct anfi_pnnx_operand {
  const anfi_str *name;
  uint32_t producer;
  const char *shape;    // as written; NULL when not given
  const anf_type *type; // NULL when not given, or not of a known element type
} anfi_pnnx_operand;

struct anf_pnnx_op {
  /* the line */
  anf_pnnx *model;
  const char *type, *name;
  uint32_t line, nin, nout;
  /* operands */
  uint32_t *in, *out;   // operands
  const char **in_name; // key of $key=, or NULL
  bool *in_used;        // of each input with a key: whether its layer asked for it
  /* attributes */
  ANFI_VEC(anfi_parameter) params;
  ANFI_VEC(anfi_weight) weights;
};

struct anf_pnnx {
  /* the file */
  anf_ctx *cx;
  anfi_arena arena;
  anfi_strtab strings;
  const char *file, *text;
  const anf_pnnx_registry *registry;
  /* operators and operands */
  ANFI_VEC(anf_pnnx_op *) ops;
  ANFI_VEC(anfi_pnnx_operand) operands;
  anfi_map by_name;                // operand's string id -> 1 + index
  ANFI_VEC(uint32_t) input;        // operators
  ANFI_VEC(anfi_weight *) weights; // of all operators, once the file is read
  struct anfi_pnnx_run *run;       // runtime.c
};

static inline anfi_loc anfi_pnnx_at(const anf_pnnx_op *op, uint32_t col) {
  return (anfi_loc){op->model->file, op->line, col};
}

static inline const anf_pnnx_op *anfi_pnnx_input_op(const anf_pnnx *p, size_t i) {
  return p->ops.at[p->input.at[i]];
}

/* model.c: as in the .bin file, operator.key */
const char *anfi_weight_name(anfi_arena *a, const anfi_weight *w);

/* param.c */
bool anfi_param_read(anf_pnnx *p, const char *text, size_t len);
void anfi_param_write(anf_text *o, const anf_pnnx *p);
/* layer/arg.c looks keys up with these */
anfi_parameter *anfi_pnnx_param(const anf_pnnx_op *op, const char *key);
anfi_weight *anfi_pnnx_weight(const anf_pnnx_op *op, const char *key);

/* ---- layers: one operator becomes nodes ---- */

typedef struct anfi_layer {
  anfi_torch *t;
  const anf_pnnx_op *op;
  const anfi_operand *in; // the operator's inputs
  anfi_operand *out;      // room for the operator's outputs, and for four
  size_t nresult;         // how many are set
  const struct anfi_layer_row *row;
} anfi_layer;

typedef bool (*anfi_layer_fn)(anfi_layer *l);
/* A row of layer.def: an op, a template, or a function. */
typedef struct anfi_layer_row {
  const char *types; // names, each ended by \0, then one more
  anfi_layer_fn make;
  anfi_opcode op;
  const char *template, *params, *ignored;
} anfi_layer_row;

/* registry.c */
typedef struct anfi_creator {
  anfi_layer_fn make; // built in, or
  anf_pnnx_creator user_make;
  void *user;
  const anfi_layer_row *row;
} anfi_creator;
const anfi_layer_row *anfi_pnnx_row(const char *type); // built in; or NULL
bool anfi_pnnx_creator_of(const anf_pnnx *p, const char *type, anfi_creator *out);

/* layer/arg.c: what a builder asks for. All fail with a place. An argument is the input of its key
 * ($dim=3), else the parameter (dim=1); None counts as absent. */
bool anfi_layer_error(const anfi_layer *l, anfi_code code, const char *what); // E1053, E1055
bool anfi_layer_given(const anfi_layer *l, const char *key);
void anfi_layer_ignore(const anfi_layer *l, const char *keys); // that change nothing here
bool anfi_layer_input(const anfi_layer *l, const char *key, size_t place, anfi_operand *out);
/* An input that is a tensor of a known type. */
bool anfi_layer_tensor(const anfi_layer *l, const char *key, size_t place, anfi_operand *out);
bool anfi_layer_arg(const anfi_layer *l, const char *key, anfi_operand *out); // must be there
bool anfi_layer_int(const anfi_layer *l, const char *key, int64_t otherwise, int64_t *out);
bool anfi_layer_need_int(const anfi_layer *l, const char *key, int64_t *out);
bool anfi_layer_bool(const anfi_layer *l, const char *key, bool otherwise, bool *out);
bool anfi_layer_real(const anfi_layer *l, const char *key, double otherwise, double *out);
/* An axis of x, counted from its first. */
bool anfi_layer_axis_of(const anfi_layer *l, const anfi_operand *x, int64_t v, size_t *out);
const char *anfi_layer_text(const anfi_layer *l, const char *key); // of a word; NULL: absent
/* Known integers; one for a list of one. *n is how many, at most ANF_MAX_RANK. */
bool anfi_layer_ints(const anfi_layer *l, const char *key, size_t *n, int64_t *out);
bool anfi_layer_weight(const anfi_layer *l, const char *key, anfi_operand *out);
/* A weight of a module, or an input of a function; None if it is not given. */
bool anfi_layer_weight_or_input(const anfi_layer *l, const char *key, size_t place,
                                anfi_operand *out);
bool anfi_layer_need(const anfi_layer *l, const anfi_operand *x, const char *key); // given?
bool anfi_layer_has_weight(const anfi_layer *l, const char *key);
bool anfi_layer_all_used(const anfi_layer *l);
/* Fails unless the parameter is absent or is this. */
bool anfi_layer_only(const anfi_layer *l, const char *key, const char *text);

/* layer/op.c. Attribute values, alive as long as the frame. */
anf_value *anfi_layer_v_int(const anfi_layer *l, int64_t v);
anf_value *anfi_layer_v_bool(const anfi_layer *l, bool v);
anf_value *anfi_layer_v_real(const anfi_layer *l, double v);
anf_value *anfi_layer_v_text(const anfi_layer *l, const char *v);
anf_value *anfi_layer_v_ints(const anfi_layer *l, size_t n, const int64_t *v);
anf_value *anfi_layer_v_dtype(const anfi_layer *l, anf_dtype d);
/* A tensor of these numbers. */
anfi_operand anfi_layer_constant(const anfi_layer *l, anf_dtype d, size_t rank, const int64_t *dims,
                                 const double *v);
/* One op of these operands. */
bool anfi_layer_op(const anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                   size_t nattr, const anf_attr *attrs, anfi_operand *out);
/* The same as the operator's only result. */
bool anfi_layer_result(anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                       size_t nattr, const anf_attr *attrs);
/* One op whose attribute `axis` is the only one. */
bool anfi_layer_along(const anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *in,
                      int64_t axis, anfi_operand *out);
bool anfi_layer_swap(const anfi_layer *l, const anfi_operand *x, int64_t i, int64_t j,
                     anfi_operand *out);
bool anfi_layer_take(const anfi_layer *l, const anfi_operand *x, const anfi_operand *at,
                     int64_t axis, anfi_operand *out);
bool anfi_layer_op1(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, anfi_operand *out);
bool anfi_layer_op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a,
                    const anfi_operand *b, anfi_operand *out);
bool anfi_layer_reshape(const anfi_layer *l, const anfi_operand *x, size_t n, const int64_t *dims,
                        anfi_operand *out);
bool anfi_layer_transpose(const anfi_layer *l, const anfi_operand *x, size_t n, const int64_t *axes,
                          anfi_operand *out);
bool anfi_layer_slice(const anfi_layer *l, const anfi_operand *x, int64_t axis, int64_t start,
                      int64_t stop, anfi_operand *out);
/* layer/shape.c: sizes that are an argument. */
typedef struct anfi_sizes {
  size_t n;
  int64_t dims[ANF_MAX_RANK]; // -1 where not known
  bool known;
  anfi_operand list;
} anfi_sizes;
bool anfi_layer_sizes(const anfi_layer *l, const char *key, anfi_sizes *s);
/* An op whose attribute `name` is these sizes; its result has `rank` dims, of which the last are
 * they. */
bool anfi_layer_sized(anfi_layer *l, anfi_opcode op, size_t n, const anfi_operand *x,
                      const char *name, const anfi_sizes *s, const anf_attr *more, size_t nmore,
                      anf_dtype d, size_t rank);
/* layer/index.c: indices of the axes they stand at; or one mask, if it is not known. */
typedef struct anfi_indices {
  size_t n;
  anfi_operand index[ANF_MAX_RANK];
  size_t axis[ANF_MAX_RANK];
  bool masked; // index[0] is a mask of the first dims
} anfi_indices;
bool anfi_layer_indices(const anfi_layer *l, const anfi_operand *x, const char *key,
                        anfi_indices *out);
/* Several indices of the first axes as positions in the last dim of one tensor. */
bool anfi_layer_stack_indices(const anfi_layer *l, anfi_indices *i, anfi_operand *out);
/* layer/make.c: the parameter dtype, such as "torch.float". */
bool anfi_layer_dtype(const anfi_layer *l, anf_dtype otherwise, anf_dtype *out);

/* The expression in a parameter, of the operator's inputs. */
bool anfi_layer_expression(const anfi_layer *l, const anfi_parameter *p, anfi_operand *out);

/* layer/template.c: the operator's results by a template, or, if `name` is NULL, by an op. */
bool anfi_layer_template(anfi_layer *l, const char *name, anfi_opcode op, const char *params);
bool anfi_layer_of_row(anfi_layer *l);
bool anfi_layer_aten(anfi_layer *l);
/* layer.def: functions that make layers */
#define PNNX_OP(types, op, params, ignored)
#define PNNX_TEMPLATE(types, name, op, params, ignored)
#define PNNX_BUILT(types, name, op) bool anfi_pnnx_make_##name(anfi_layer *l);
#include "frontend/pnnx/layer.def"
#undef PNNX_OP
#undef PNNX_TEMPLATE
#undef PNNX_BUILT

/* runtime.c: what a model keeps to run */
void anfi_pnnx_run_new(anf_pnnx *p);
void anfi_pnnx_run_free(anf_pnnx *p); // if it has any

/* build.c: the whole model as a function of `m`. `types` are those of the inputs. `weights`: it
 * takes them as parameters. `kept` not NULL: it also gives every operand that is a tensor, and says
 * which those are. */
anf_graph *anfi_pnnx_function(const anf_pnnx *p, anf_module *m, const anf_type *const *types,
                              bool weights, uint32_t *kept, size_t *nkept);

#endif
