// SPDX-License-Identifier: Apache-2.0
/* MindSpore's .mindir: a protobuf ModelProto with one graph for the model and one for each function it uses.
 *
 * A node `Add:11` of the file is an entry of the table of primitives; `REF::G` calls the graph G, `REF::G:CNode_7`
 * calls the value of a node, as what Switch gave. Inputs are names of nodes, parameters and graphs. Monads (UMonad,
 * IOMonad) order effects: here a UMonad is the tuple of the parameters that the model assigns to, so Load(p, U) is
 * an item of it and Assign(p, v, U) makes another one. Functions take what they need of it after
 * their arguments and give ((state..), result). */
#ifndef ANFI_MINDIR_H
#define ANFI_MINDIR_H

#include "base/os/map.h"
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

/* The messages of mind_ir.proto that are read. */
typedef enum anfi_mi_message {
  MI_ModelProto,
  MI_GraphProto,
  MI_NodeProto,
  MI_PrimitiveProto,
  MI_ValueInfoProto,
  MI_AttributeProto,
  MI_SeqInfoProto,
  MI_TensorProto,
  MI_ExternalDataProto,
  MI_MapTensorProto
} anfi_mi_message;

typedef struct anfi_mi_tensor {
  /* name, type, and where its elements are */
  const anfi_str *name, *external; // external NULL: `raw` has the elements
  const char *raw;
  size_t raw_len;
  int64_t data_type;
  uint64_t offset, length; // of external data
  /* how they are stored */
  int64_t compressed; // a kind; 0: it is not
  bool quantised;     // it has parameters that make numbers of its integers
  bool apart;         // `raw` is of a file of variables, not of the model's
  /* dims, and elements as numbers */
  anfi_wire_ints dims;
  anfi_wire_reals reals; // float_data, double_data
  anfi_wire_ints ints;   // int32_data, int64_data, uint64_data
} anfi_mi_tensor;

typedef struct anfi_mi_attr {
  /* name and type */
  const anfi_str *name, *text, *doc, *form; // form: ref_attr_name, of old files
  /* its value, by type */
  int64_t type, i;
  double f;
  bool has_int, has_real;
  bool any_length; // a sequence whose length is not known: its values are none
  ANFI_VEC(anfi_mi_tensor *) tensors;
  ANFI_VEC(struct anfi_mi_attr *) values;
  anfi_wire_ints ints;
  anfi_wire_reals reals;
  ANFI_VEC(const anfi_str *) strings;
  /* cache */
  const anf_type *abstract; // the type that it says, once asked for: anfi_mi_abstract_type
  bool asked;
} anfi_mi_attr;
typedef ANFI_VEC(anfi_mi_attr *) anfi_mi_attrs;

typedef struct anfi_mi_node {
  const anfi_str *name, *op, *domain; // op: what it calls, without REF::
  ANFI_VEC(const anfi_str *) in;
  anfi_mi_attrs attrs;
  anfi_mi_attr
      *stated; // the type of its result, shared by nodes whose file has the same bytes; or NULL
  bool effect; // our writer says so: it is to happen, in order
  const anf_type *number; // likewise: a number without an element type; or NULL
} anfi_mi_node;

typedef struct anfi_mi_input {
  const anfi_str *name, *denotation;
  const anfi_mi_tensor *tensor; // NULL: `abstract` has its type
  anfi_mi_attr *abstract;
  const anf_type *number; // as of a node
} anfi_mi_input;

typedef struct anfi_mi_graph {
  const anfi_str *name;
  ANFI_VEC(const anfi_str *) maps; // names of map parameters
  ANFI_VEC(anfi_mi_node *) nodes;
  ANFI_VEC(anfi_mi_tensor *) params;
  ANFI_VEC(anfi_mi_input) in, out;
} anfi_mi_graph;

/* Primitives that the builder handles itself, without templates: effects and references. */
typedef enum anfi_mi_role {
  MI_ROLE_OTHER,
  MI_ROLE_UpdateState,
  MI_ROLE_Load,
  MI_ROLE_Depend,
  MI_ROLE_MakeTuple,
  MI_ROLE_TupleGetItem,
  MI_ROLE_Partial,
  MI_ROLE_Switch,
  MI_ROLE_SwitchLayer
} anfi_mi_role;

typedef struct anfi_mi_prim {
  const anfi_str *name, *op; // "Add:11", "Add"
  anfi_mi_attrs attrs;
  /* op.c, anfi_mi_resolve */
  anfi_mi_role role;
  anf_graph *form;       // its template, or NULL
  anfi_opcode same, own; // the op of that name, the op of Anfora.NAME; ANF_OP_NONE
  /* The inputs that it assigns to, as bits; 0: none. Its template gives (result, new values..). */
  uint32_t writes;
} anfi_mi_prim;

typedef struct anfi_mi_passed anfi_mi_passed; // field.c
typedef struct anfi_mi_model {
  /* the file */
  anf_ctx *cx;
  anfi_arena *arena;
  const char *file;
  const anfi_os_view *view; // of that file, or NULL
  const anfi_str *producer;
  int64_t version;
  bool big_endian;
  /* graphs and primitives */
  anfi_mi_graph *main;
  ANFI_VEC(anfi_mi_graph *) functions;
  ANFI_VEC(anfi_mi_prim *) prims;
  /* what nodes share */
  anfi_strtab stated; // bytes of types, and by their numbers
  ANFI_VEC(anfi_mi_attr *) types;
  anfi_strtab forms;      // primitives that nodes of old files have in themselves, as bytes,
  size_t nform;           // and how many
  anfi_mi_passed *passed; // fields that are not read; NULL: none yet
} anfi_mi_model;

/* field.c: the fields of a message that field.def reads. After the last, w.bad says that the message is not whole or was
 * refused. */
typedef struct anfi_mi_fields {
  anfi_mi_model *model;
  anfi_mi_message message;
  anfi_wire w;
} anfi_mi_fields;
anfi_mi_fields anfi_mi_fields_of(anfi_mi_model *m, anfi_mi_message message, const char *data,
                                 size_t len);
bool anfi_mi_next(anfi_mi_fields *it, anfi_wire_field *f);
/* Counts a field that is passed over and to be reported. */
void anfi_mi_pass(anfi_mi_fields *it, uint32_t number);
/* A warning for each of them, with how often. */
void anfi_mi_tell_passed(anfi_mi_model *m);

/* old.c: an attribute of MindSpore 1 becomes one of today by its ref_attr_name. False with an error recorded. */
bool anfi_mi_unfold(anfi_mi_model *m, anfi_mi_attr *a, const anfi_str *form);

/* read.c. False with an error recorded, mostly E1160. */
bool anfi_mi_read(anfi_mi_model *m, const char *data, size_t len);
/* The parameters of a file of variables: a graph that has nothing else. `data` lives as long as the model. */
bool anfi_mi_read_variables(anfi_mi_model *m, const char *data, size_t len);

/* value.c: NULL with an error recorded */
anf_value *anfi_mi_tensor_value(anfi_mi_model *m, const anfi_mi_tensor *t); // a new reference
const anf_type *anfi_mi_tensor_type(anfi_mi_model *m, const anfi_mi_tensor *t);
anf_value *anfi_mi_attr_value(anfi_mi_model *m, const anfi_mi_attr *a); // likewise
/* The type of an abstract, or NULL where it says none. */
const anf_type *anfi_mi_abstract_type(anfi_mi_model *m, anfi_mi_attr *a);
const anfi_mi_attr *anfi_mi_find(const anfi_mi_attrs *attrs, const char *name);

/* op.c: primitives by templates */
typedef struct anfi_mi_build anfi_mi_build;
const anfi_traced *anfi_mi_primitive(anfi_mi_build *b, const anfi_mi_prim *p, size_t n,
                                     const anfi_traced **in);
/* The first op whose column `mindir` has this word; ANF_OP_NONE. */
anfi_opcode anfi_mi_op_named(const char *name, size_t len);
/* Finds the op, the template or the role of a primitive; false: it is not known. */
bool anfi_mi_resolve(anfi_mi_build *b, anfi_mi_prim *p);

/* build.c */
struct anfi_mi_build {
  /* in and out */
  anfi_mi_model *model;
  anf_module *m;
  anfi_trace *t;
  /* by name */
  anfi_map graphs; // name -> anf_graph
  anfi_map ninput; // likewise -> how many inputs it has
  anfi_map prims;  // name -> anfi_mi_prim
  anfi_map values; // name -> anfi_traced
  anfi_map params; // name -> 1 + index of the parameter
  /* the current node */
  bool effect;      // of the node being built
  anf_node *record; // the parameters, first input of the graph `net`; NULL: there are none
  // state.c: parameters that are assigned to, each with a slot of the state
  int *slot;      // by index of the parameter; -1: none
  bool *threaded; // by slot: functions take it and give it back
  size_t nslot, nthreaded;
  anfi_map refs;  // name of a function's parameter -> what it denotes, state.c
  anfi_map nodes; // name -> anfi_mi_node; empty without assignments
  anfi_map roots; // name of a Depend or of an item of a tuple -> a name of the same value; likewise
  anfi_map bodies; // name -> anfi_mi_graph; likewise
};

/* state.c */
void anfi_mi_find_state(anfi_mi_build *b);
/* The name behind Depends and items of tuples: it has the same value. */
const anfi_str *anfi_mi_root(const anfi_mi_build *b, const anfi_str *name);
/* The slot of the parameter that a name denotes, or -1. */
int anfi_mi_slot(const anfi_mi_build *b, const anfi_str *name);
bool anfi_mi_is_monad(const anfi_mi_input *in); // a UMonad
/* Does the function value `f`, or one that it may be, take the state? True where that is not known. */
bool anfi_mi_takes_state(const anfi_mi_build *b, const anfi_str *f);
bool anfi_mi_module(anfi_mi_model *model, anf_module *out);

#endif
