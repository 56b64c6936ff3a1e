// SPDX-License-Identifier: Apache-2.0
/* Writing .onnx. Tuples and records have no form there: each is its items, and in the end tensors with names. */
#ifndef ANFI_ONNX_WRITE_H
#define ANFI_ONNX_WRITE_H

#include "frontend/onnx/onnx.h"
#include "frontend/trace/export.h"

enum { OX_OPSET = 21, OX_IR_VERSION = 10, OX_MOST_NESTED = 32 };
#define OX_DOMAIN "anfora" // of functions

/* A value in the file. `type` of a tensor without an element type is settled: i64, f64. */
typedef struct anfi_ox_out {
  const char *name;     // of a tensor; "": None; NULL: it has items
  const anf_type *type; // of a tensor
  size_t n;
  const struct anfi_ox_out *const *item;
} anfi_ox_out;

typedef struct anfi_ox_writer {
  anf_ctx *cx;
  anf_module *m; // first-order and typed
  anfi_arena *arena;
  anf_analysis *an;
  anf_text *out;
  anfi_map functions; // graph -> its name as a function
  ANFI_VEC(const anf_graph *) todo;
  anfi_strtab words;
  size_t nodes; // so far
  /* of the graph of the model, or of a function */
  anfi_map named;      // node -> anfi_ox_out
  anfi_map made;       // name -> scope
  anfi_map exact;      // name of a number as a real -> its name as an i64
  anfi_strtab encoded; // small constants
  anfi_map constant;   // their numbers -> anfi_ox_out
  struct {
    ANFI_VEC(const anf_value *) value;
    ANFI_VEC(const char *) name;
  } constants;
  size_t count;         // names so far
  size_t scope, nscope; // subgraphs, counted
  size_t depth;
} anfi_ox_writer;

/* write_value.c */
void anfi_ox_put_tensor(anfi_ox_writer *w, uint32_t field, const char *name, const anf_value *v);
bool anfi_ox_put_value_info(anfi_ox_writer *w, uint32_t field, const char *name, const anf_type *t);
const anfi_ox_out *anfi_ox_constant(anfi_ox_writer *w, const anf_value *v); // NULL with an error
const char *anfi_ox_ints(anfi_ox_writer *w, size_t n, const int64_t *x);    // [n]
const char *anfi_ox_int(anfi_ox_writer *w, int64_t x);                      // a scalar
const char *anfi_ox_number(anfi_ox_writer *w, anf_dtype d, int64_t x);
void anfi_ox_attr_int(anfi_ox_writer *w, const char *name, int64_t x);
void anfi_ox_attr_ints(anfi_ox_writer *w, const char *name, size_t n, const int64_t *x);
void anfi_ox_attr_float(anfi_ox_writer *w, const char *name, double x);
void anfi_ox_attr_text(anfi_ox_writer *w, const char *name, const char *s, size_t len);

/* write.c */
bool anfi_ox_refuse(anfi_ox_writer *w, const anf_node *n, const char *what, const char *name);
const anfi_ox_out *anfi_ox_leaf(anfi_ox_writer *w, const char *name, const anf_type *t);
const anfi_ox_out *anfi_ox_tuple(anfi_ox_writer *w, size_t n, const anfi_ox_out *const *item);
typedef ANFI_VEC(const anfi_ox_out *) anfi_ox_leaves;
void anfi_ox_add_leaves(anfi_ox_writer *w, const anfi_ox_out *x, anfi_ox_leaves *to);
/* The same structure with other leaves, taken from `*next` on. */
const anfi_ox_out *anfi_ox_like(anfi_ox_writer *w, const anfi_ox_out *x, anfi_ox_out *const **next);
/* New names for data of this type; NULL with an error: residuals, functions. */
const anfi_ox_out *anfi_ox_fresh(anfi_ox_writer *w, const anf_type *t, const char *name);
const anfi_ox_out *anfi_ox_operand(anfi_ox_writer *w, const anf_node *n); // NULL with an error
const char *anfi_ox_new_name(anfi_ox_writer *w); // of a value made in this scope
void anfi_ox_made(anfi_ox_writer *w, const char *name);
/* A node: its inputs, then attributes, then outputs. */
size_t anfi_ox_open(anfi_ox_writer *w, const char *op, size_t n, const char *const *in);
const char *anfi_ox_close(anfi_ox_writer *w, size_t at); // one output, with a new name
void anfi_ox_close_with(anfi_ox_writer *w, size_t at, const char *name);
const char *anfi_ox_put(anfi_ox_writer *w, const char *op, size_t n, const char *const *in);
const char *anfi_ox_cast(anfi_ox_writer *w, const char *x, anf_dtype d);
const char *anfi_ox_real(anfi_ox_writer *w, const char *index,
                         anf_dtype d); // a cast that is taken back for nothing
/* The nodes of g, whose parameters are `args`; its result. */
const anfi_ox_out *anfi_ox_body(anfi_ox_writer *w, const anf_graph *g,
                                const anfi_ox_out *const *args);

/* write_flow.c */
bool anfi_ox_is_function(const anf_node *n);
const anfi_ox_out *anfi_ox_call(anfi_ox_writer *w, const anf_node *n, const anf_node *callee,
                                size_t narg, const anfi_ox_out *const *args);
const anfi_ox_out *anfi_ox_loop(anfi_ox_writer *w, const anf_node *n);

/* write_op.c */
const anfi_ox_out *anfi_ox_apply(anfi_ox_writer *w, const anf_node *n);

/* write_window.c: the word `|..` of a row. Inputs are appended to `in`, attributes written. */
typedef struct anfi_ox_inputs {
  ANFI_VEC(const char *) list;
} anfi_ox_inputs;
bool anfi_ox_window_inputs(anfi_ox_writer *w, const anf_node *n, const char *word,
                           anfi_ox_inputs *in);
bool anfi_ox_window_attrs(anfi_ox_writer *w, const anf_node *n, const char *word);
/* Ops that are several operators: pools by matrices, transposed convolutions; false where n is none of them. */
bool anfi_ox_window_op(anfi_ox_writer *w, const anf_node *n, const anfi_ox_out **out);
/* Attribute k of n as integers, by a constant or a node; NULL with an error, "" for None. */
const char *anfi_ox_attr_list(anfi_ox_writer *w, const anf_node *n, uint32_t k);
const char *anfi_ox_attr_scalar(anfi_ox_writer *w, const anf_node *n, uint32_t k, anf_dtype d);
/* An integer, or a list of them, as a tensor of rank 1 of i64. */
const char *anfi_ox_as_list(anfi_ox_writer *w, const anfi_ox_out *x);

/* write_index.c */
const anfi_ox_out *anfi_ox_get_item(anfi_ox_writer *w, const anf_node *n);

#endif
