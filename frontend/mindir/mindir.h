// SPDX-License-Identifier: Apache-2.0
/* MindSpore's .mindir: a protobuf ModelProto with one graph for the model and one for each function it uses.
 *
 * A node `Add:11` of the file is an entry of the table of primitives; `REF::G` calls the graph G, `REF::G:CNode_7`
 * calls the value of a node, as what Switch gave. Inputs are names of nodes, parameters and graphs. Monads (UMonad,
 * IOMonad) order effects: here a UMonad is the tuple of the parameters that the model assigns to, so Load(p, U) is
 * an item of it and Assign(p, v, U) makes another one. */
#ifndef ANFI_MINDIR_H
#define ANFI_MINDIR_H

#include "frontend/proto/wire.h"
#include "frontend/trace/trace.h"

/* AttributeProto.AttributeType */
typedef enum anfi_mi_type {
  MI_UNDEFINED,
  MI_FLOAT,
  MI_UINT8,
  MI_INT8,
  MI_UINT16,
  MI_INT16,
  MI_INT32,
  MI_INT64,
  MI_STRING,
  MI_BOOL,
  MI_FLOAT16,
  MI_DOUBLE,
  MI_UINT32,
  MI_UINT64,
  MI_COMPLEX64,
  MI_COMPLEX128,
  MI_BFLOAT16,
  MI_TENSOR,
  MI_GRAPH,
  MI_TENSORS,
  MI_TUPLE,
  MI_LIST,
  MI_DICT,
  MI_UMONAD,
  MI_IOMONAD,
  MI_NONE
} anfi_mi_type;

typedef struct anfi_mi_tensor {
  const anfi_str *name, *external; // external NULL: `raw` has the elements
  const char *raw;
  size_t raw_len;
  int64_t data_type;
  uint64_t offset, length; // of external data
  bool compressed;
  anfi_wire_ints dims;
  anfi_wire_reals reals; // float_data, double_data
  anfi_wire_ints ints;   // int32_data, int64_data, uint64_data
} anfi_mi_tensor;

typedef struct anfi_mi_attr {
  const anfi_str *name, *text, *doc;
  int64_t type, i;
  double f;
  bool has_int, has_real;
  ANFI_VEC(anfi_mi_tensor *) tensors;
  ANFI_VEC(struct anfi_mi_attr *) values;
  anfi_wire_ints ints;
  anfi_wire_reals reals;
  ANFI_VEC(const anfi_str *) strings;
} anfi_mi_attr;
typedef ANFI_VEC(anfi_mi_attr *) anfi_mi_attrs;

typedef struct anfi_mi_node {
  const anfi_str *name, *op, *domain;
  ANFI_VEC(const anfi_str *) in;
  anfi_mi_attrs attrs;
  bool effect;            // our writer says so: it is to happen, in order
  const anf_type *number; // likewise: a number without an element type; or NULL
} anfi_mi_node;

typedef struct anfi_mi_input {
  const anfi_str *name, *denotation;
  const anfi_mi_tensor *tensor; // NULL: `abstract` has its type
  const anfi_mi_attr *abstract;
  const anf_type *number; // as of a node
} anfi_mi_input;

typedef struct anfi_mi_graph {
  const anfi_str *name, *map_parameter; // map_parameter: the first one's name, or NULL
  ANFI_VEC(anfi_mi_node *) nodes;
  ANFI_VEC(anfi_mi_tensor *) params;
  ANFI_VEC(anfi_mi_input) in, out;
} anfi_mi_graph;

typedef struct anfi_mi_prim {
  const anfi_str *name, *op; // "Add:11", "Add"
  anfi_mi_attrs attrs;
} anfi_mi_prim;

typedef struct anfi_mi_model {
  anf_ctx *cx;
  anfi_arena *arena;
  const char *file;
  const anfi_str *producer;
  int64_t version;
  bool big_endian;
  anfi_mi_graph *main;
  ANFI_VEC(anfi_mi_graph *) functions;
  ANFI_VEC(anfi_mi_prim *) prims;
} anfi_mi_model;

/* read.c. False with E1160 recorded. */
bool anfi_mi_read(anfi_mi_model *m, const char *data, size_t len);

/* value.c: NULL with an error recorded */
anf_value *anfi_mi_tensor_value(anfi_mi_model *m, const anfi_mi_tensor *t); // a new reference
const anf_type *anfi_mi_tensor_type(anfi_mi_model *m, const anfi_mi_tensor *t);
anf_value *anfi_mi_attr_value(anfi_mi_model *m, const anfi_mi_attr *a); // likewise
/* The type of an abstract, or NULL where it says none. */
const anf_type *anfi_mi_abstract_type(anfi_mi_model *m, const anfi_mi_attr *a);
const anfi_mi_attr *anfi_mi_find(const anfi_mi_attrs *attrs, const char *name);

/* op.c: primitives by templates */
typedef struct anfi_mi_build anfi_mi_build;
const anfi_traced *anfi_mi_primitive(anfi_mi_build *b, const anfi_mi_prim *p, size_t n,
                                     const anfi_traced **in);
/* The first op whose column `mindir` has this word; ANF_OP_NONE. */
anfi_opcode anfi_mi_op_named(const char *name, size_t len);
bool anfi_mi_knows(anfi_mi_build *b, const anfi_mi_prim *p);
/* The inputs that a primitive assigns to, as bits; 0: none. Its template gives (result, new values..). */
uint32_t anfi_mi_writes(const anfi_mi_prim *p);

/* build.c */
struct anfi_mi_build {
  anfi_mi_model *model;
  anf_module *m;
  anfi_trace *t;
  anfi_map graphs; // name -> anf_graph
  anfi_map prims;  // name -> anfi_mi_prim
  anfi_map values; // name -> anfi_traced
  anfi_map params; // name -> 1 + index of the parameter
  anfi_map slots;  // likewise, of those that are assigned to: 1 + its place in the state
  size_t nslot;
  bool effect; // of the node being built
};
bool anfi_mi_module(anfi_mi_model *model, anf_module *out);

#endif
