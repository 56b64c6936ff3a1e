// SPDX-License-Identifier: Apache-2.0
/* ONNX: a protobuf ModelProto, one graph of nodes whose values have names.
 *
 *   y = Gemm[transB = 1](x, w, b)    ->    the template Gemm_(a, b, c, .., transB) of onnx.anf, traced: y is a MatMul and an Add
 *
 * What is known when the file is read (constants, shapes, attributes) is computed then (frontend/trace). A template that would
 * have to know more, such as the numbers of a shape that is an input, becomes a call in the program instead; so does one with a
 * subgraph (If, Loop, Scan), which is a function of ours that refers to the values around it.
 *
 * Fields have the numbers of onnx.proto3. Structures point into the file. */
#ifndef ANFI_ONNX_H
#define ANFI_ONNX_H

#include "base/os/map.h"
#include "frontend/proto/wire.h"
#include "frontend/trace/trace.h"

/* TensorProto.DataType, as far as there are element types of ours */
typedef enum anfi_ox_dtype {
  OX_FLOAT = 1,
  OX_UINT8,
  OX_INT8,
  OX_UINT16,
  OX_INT16,
  OX_INT32,
  OX_INT64,
  OX_STRING,
  OX_BOOL,
  OX_FLOAT16,
  OX_DOUBLE,
  OX_UINT32,
  OX_UINT64,
  OX_COMPLEX64,
  OX_COMPLEX128,
  OX_BFLOAT16,
  OX_FLOAT8E4M3FN, // from here on: narrow.c
  OX_FLOAT8E4M3FNUZ,
  OX_FLOAT8E5M2,
  OX_FLOAT8E5M2FNUZ,
  OX_UINT4,
  OX_INT4,
  OX_FLOAT4E2M1,
  OX_FLOAT8E8M0,
  OX_UINT2,
  OX_INT2
} anfi_ox_dtype;

/* AttributeProto.AttributeType */
typedef enum anfi_ox_kind {
  OX_ATTR_FLOAT = 1,
  OX_ATTR_INT,
  OX_ATTR_STRING,
  OX_ATTR_TENSOR,
  OX_ATTR_GRAPH,
  OX_ATTR_FLOATS,
  OX_ATTR_INTS,
  OX_ATTR_STRINGS
} anfi_ox_kind;

typedef struct anfi_ox_tensor {
  /* bytes */
  const anfi_str *name, *external; // external NULL: the elements are in this file
  const anfi_str *offset,
      *length; // of external data, as decimal text; NULL: from its beginning, to its end
  const char *raw;
  size_t raw_len;
  /* type */
  int64_t data_type;
  bool sparse;
  anfi_wire_ints dims;
  /* elements in fields of their own */
  anfi_wire_reals reals; // float_data, double_data
  anfi_wire_ints ints;   // int32_data, int64_data, uint64_data
} anfi_ox_tensor;

typedef struct anfi_ox_graph anfi_ox_graph;

typedef struct anfi_ox_attr {
  /* name and kind */
  const anfi_str *name, *text, *ref; // ref: the attribute of the function around it, or NULL
  int64_t kind, i;
  /* value, by kind */
  double f;
  const anfi_ox_tensor *tensor;
  const anfi_ox_graph *graph;
  anfi_wire_reals reals;
  anfi_wire_ints ints;
  ANFI_VEC(const anfi_str *) strings;
} anfi_ox_attr;
typedef ANFI_VEC(anfi_ox_attr *) anfi_ox_attrs;
typedef ANFI_VEC(const anfi_str *) anfi_ox_names;

typedef struct anfi_ox_node {
  const anfi_str *name, *op, *domain, *overload;
  anfi_ox_names in, out;
  anfi_ox_attrs attrs;
} anfi_ox_node;

/* A dim is a number, or a name that stands for the same number everywhere, or neither: not known. */
typedef struct anfi_ox_dim {
  int64_t size; // -1: not a number
  const anfi_str *symbol;
} anfi_ox_dim;

typedef struct anfi_ox_value { // ValueInfoProto
  const anfi_str *name;
  int64_t elem_type; // 0: no tensor, or not said
  bool ranked;       // `dims` are known
  const char *other; // "a sequence": what it is when no tensor; NULL
  ANFI_VEC(anfi_ox_dim) dims;
} anfi_ox_value;
typedef ANFI_VEC(anfi_ox_value) anfi_ox_values;

typedef ANFI_VEC(anfi_ox_node *) anfi_ox_nodes;
struct anfi_ox_graph {
  const anfi_str *name;
  anfi_ox_nodes nodes;
  ANFI_VEC(anfi_ox_tensor *) inits;
  anfi_ox_values in, out, info;
};

typedef struct anfi_ox_opset {
  const anfi_str *domain;
  int64_t version;
} anfi_ox_opset;
typedef ANFI_VEC(anfi_ox_opset) anfi_ox_opsets;

typedef struct anfi_ox_function {
  const anfi_str *name, *domain, *overload;
  anfi_ox_names in, out;
  anfi_ox_nodes nodes;
  anfi_ox_attrs defaults;
  anfi_ox_opsets opsets;
} anfi_ox_function;

typedef struct anfi_ox_model {
  anf_ctx *cx;
  anfi_arena *arena;
  const char *file;
  const anfi_os_view *view; // the file, if it is mapped; NULL
  int64_t ir_version;
  const anfi_ox_graph *graph;
  anfi_ox_opsets opsets;
  ANFI_VEC(anfi_ox_function *) functions;
} anfi_ox_model;

/* read.c. False with E1170 recorded. */
bool anfi_ox_read(anfi_ox_model *m, const char *data, size_t len);
/* The nodes, each after those whose outputs it reads; a node of a ring comes before one that it reads. */
anfi_ox_nodes anfi_ox_sorted(anfi_arena *a, const anfi_ox_nodes *all);

/* value.c: NULL with an error recorded */
anf_value *anfi_ox_tensor_value(anfi_ox_model *m, const anfi_ox_tensor *t); // a new reference
anf_value *anfi_ox_attr_value(anfi_ox_model *m, const anfi_ox_attr *a);     // likewise; no graph
void anfi_ox_no_texts(const anfi_ox_model *m); // the hint of what is refused for its strings
/* NULL without an error where nothing is said. */
const anf_type *anfi_ox_type(anfi_ox_model *m, const anfi_ox_value *v);
const anfi_ox_attr *anfi_ox_find(const anfi_ox_attrs *attrs, const char *name);

/* build.c */
/* The turn of a loop around, whose number draws other random numbers in each turn; number NULL: the loop does not count. */
typedef struct anfi_ox_turn {
  const anfi_traced *number;
  const struct anfi_ox_turn *outer;
} anfi_ox_turn;
typedef struct anfi_ox_build {
  anfi_ox_model *model;
  anf_module *m; // the templates, and the model's graphs
  anfi_trace *t;
  anfi_map inits;    // anfi_ox_tensor -> anf_value
  anfi_map drawn;    // output name of a node that draws without a seed -> how many there were
  size_t nodes_left; // functions that call functions may be long
} anfi_ox_build;
/* Where nodes are built: a graph, a subgraph or the body of a function. */
typedef struct anfi_ox_place {
  /* the graph */
  anfi_ox_build *b;
  anf_graph *to;
  struct anfi_ox_place *outer; // of a subgraph
  const anfi_ox_turn *turns;   // of the loops around
  /* of a function's body */
  const anfi_ox_attrs *given; // attributes of the function around it, or NULL
  const anfi_ox_attrs *defaults;
  const anfi_ox_opsets *opsets;
  /* values */
  const anfi_ox_values *info; // value_info of its graph, or NULL
  anfi_map values;            // name -> anfi_traced
  anfi_map narrow; // name -> element type, of a tensor of fewer bits than types here have
  size_t depth;
} anfi_ox_place;
anf_module *anfi_ox_module(anfi_ox_model *model, bool weights);
/* A subgraph of a node as a function that gives the tuple of its results. */
const anfi_traced *anfi_ox_subgraph(anfi_ox_place *p, const anfi_ox_node *n,
                                    const anfi_ox_graph *g);

/* narrow.c: floats and integers of fewer bits, bytes here. Their element type, 0 for all others. */
int64_t anfi_ox_narrow(const anfi_ox_place *p, const anfi_str *name);
/* Of output k of an operator. */
int64_t anfi_ox_narrow_output(const anfi_ox_place *p, const anfi_ox_node *n, size_t k);
/* False with E1640 where a narrow input is one that the operator does not take. */
bool anfi_ox_takes_narrow(const anfi_ox_place *p, const anfi_ox_node *n);
bool anfi_ox_narrow_dtype(int64_t type, anf_dtype *d);
unsigned anfi_ox_narrow_bits(int64_t type); // of an element in the file; 64: it is not narrow

/* tree.c: the tables of a node's trees, and whether an attribute is one that they are made of. */
const anfi_traced *anfi_ox_trees(const anfi_ox_place *p, const anfi_ox_node *n);
bool anfi_ox_is_of_trees(const char *attr);

/* op.c: operators by templates, or by the column `onnx` of op.def. All outputs, in order. */
bool anfi_ox_operator(anfi_ox_place *p, const anfi_ox_node *n, const anfi_traced **in,
                      const anfi_traced **out);
bool anfi_ox_knows(anfi_ox_build *b, const anfi_ox_node *n);
/* The attribute, of the call of the function where the node says so; NULL: the node has none. */
const anfi_ox_attr *anfi_ox_attr_of(const anfi_ox_place *p, const anfi_ox_node *n,
                                    const char *name);

#endif
