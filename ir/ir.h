// SPDX-License-Identifier: Apache-2.0
/* The graph IR inside the library: nodes, graphs, modules, types, values, ops.
 *
 * Glossary
 *   VALUE    a constant; belongs to no graph
 *   APPLY    a CNode that applies the primitive `op` with `attrs` to the arguments in[]
 *   CALL     a CNode that calls a node: in[0] is the callee
 *   captured node of another graph: a free variable, copied by value into the closure when the function
 *            value is made. The `free` list of a graph has them (analysis.c)
 */
#ifndef ANFI_IR_H
#define ANFI_IR_H

#include "anfora/ir.h"
#include "base/base.h"

typedef struct anfi_attrs anfi_attrs;
typedef struct anf_use anfi_use;

typedef enum anfi_kind { ANFI_VALUE, ANFI_PARAM, ANFI_APPLY, ANFI_CALL, ANFI_DEAD } anfi_kind;

/* One row of ir/ops/op.def each. */
typedef enum anfi_opcode {
#define ANF_OP(name, ...) ANF_OP_##name,
#include "ir/ops/op.def"
#undef ANF_OP
  ANF_OP_COUNT,
  ANF_OP_NONE = 0xffff
} anfi_opcode;

/* An edge. `next` and `link` chain the uses of `def`; *link points at this edge. */
struct anf_use {
  anf_node *def, *user;
  anfi_use *next, **link;
};

/* 48 bytes and 32 for each input. */
struct anf_node {
  uint8_t kind;     // anfi_kind
  uint8_t flags;    // ANFI_NODE_*
  uint16_t op;      // of an APPLY, or of a VALUE that is a primitive; else ANF_OP_NONE
  uint32_t id, nin; // id dense in the module: side tables are arrays
  uint32_t debug;   // index into the module's debug table: name, location, scope
  union {
    const anf_type *type; // NULL until known
    anf_node *ahead;      // DEAD: ANFI_AHEAD nodes after this one, or NULL
  };
  anf_graph *graph; // owner; NULL for a VALUE
  anfi_use *uses;
  union {
    anf_value *value;        // VALUE
    const anfi_attrs *attrs; // APPLY; NULL: all at their defaults
    uint64_t index;          // PARAM: position
    anf_node *next;          // DEAD
  } u;
  anfi_use in[];
};

enum {
  ANFI_NODE_EFFECT = 1, // is in its graph's list of effects
  ANFI_NODE_MARK = 2,   // scratch of one pass, 0 between passes
  /* caches of passes, for ir/worklist.h alone */
  ANFI_NODE_SEEN = 4,    // rewrite.c has visited it once
  ANFI_NODE_SIMPLE = 8,  // clean: no rule fires
  ANFI_NODE_UNIQUE = 16, // clean: no other clean node of its graph equals it
};

/* Attribute values in the order of the op's schema. NULL: the default; anfi_from_node: the value is
 * the next input after the op's own arguments. */
struct anfi_attrs {
  uint32_t n;
  anf_value *at[];
};
extern anf_value anfi_from_node;

enum {
  ANFI_GRAPH_PRIVATE = 1, // not for the host: a branch, a nested function, or made by a pass
  ANFI_GRAPH_ADJOINT = 2, // a round of a derivative's loop: sums may be reassociated
  ANFI_GRAPH_STATIC =
      4, // its conditions are on attributes and shapes, and are to be known when it is compiled
};

/* Origin of a node in source text; entry 0 is "unknown". Many nodes share one entry. */
typedef struct anfi_debug {
  const anfi_str *file, *name, *scope; // NULL when not known
  uint32_t line, col;
  uint32_t origin; // debug entry that this one was derived from, or 0
  const char *how; // "gradient of", "inlined from"; NULL: as written in the source
} anfi_debug;

enum { ANFI_GATHER_LAYER = 1 }; // likewise of AllGather: above 0 a layer of the step (step/layer.c)

/* Indices of the attributes of Loop, as its row in op.def has them. */
enum {
  ANFI_LOOP_INVARIANT,
  ANFI_LOOP_STACKS,
  ANFI_LOOP_OUTS,
  ANFI_LOOP_COUNTED,
  ANFI_LOOP_REVERSE,
  ANFI_LOOP_ROUNDS,
  ANFI_LOOP_GUARDED,
  ANFI_LOOP_ATTRS
};

/* How a value is represented as data after functions in it became data (defunctionalisation, Reynolds 1972):
 *   (x, fn), fn one of two closures  ->  NEST(DATA, FN(CODE f, CODE g)): (x, (number, captures of f, of g))
 * FN of one CODE is represented by the values that the code binds; of several, by the number of the code and
 * tuples of bound values, which codes that bind the like share. Recursion is over the nesting of types. */
typedef enum anfi_form_kind {
  ANFI_FORM_DATA,
  ANFI_FORM_NEST, // a tuple or record
  ANFI_FORM_FN,   // items are codes
  ANFI_FORM_CODE  // a function; items are the forms of what it binds, captures first
} anfi_form_kind;
typedef struct anfi_form {
  uint8_t kind;
  uint16_t op;    // of a CODE that is a primitive, with attrs
  uint32_t graph; // of a CODE: the id it had before; UINT32_MAX: a primitive
  uint32_t slot;  // of a CODE of several: the item of the data that has what it binds
  uint32_t n;
  const anfi_attrs *attrs;
  const struct anfi_form *item[];
} anfi_form;

struct anf_graph {
  /* identity */
  anf_module *module;
  const anfi_str *name;
  uint32_t id;    // dense in the module
  uint32_t flags; // ANFI_GRAPH_*
  /* the function */
  ANFI_VEC(anf_node *) params;
  ANFI_VEC(anf_node *) effects; // in order
  anf_node *result;
  anf_node *self; // the VALUE node of this graph, or NULL while there is none
  /* declarations, origin */
  const anf_type *result_type; // declared, or NULL
  const anfi_form *form;       // of a specialised graph whose result contained functions, or NULL
  uint32_t debug;
  bool removed;
};

/* Deleted nodes, linked by `u.next`. Each also points ANFI_AHEAD nodes further, to prefetch that one when
 * this one is reused. */
enum { ANFI_GONE = 4, ANFI_AHEAD = 16 };
typedef struct anfi_gone {
  anf_node *first, *last;
  anf_node *newest[ANFI_AHEAD]; // the first ones, in a ring
  size_t n;                     // number of nodes deleted since the list was empty
} anfi_gone;

struct anf_module {
  /* the module */
  anf_ctx *cx;
  anfi_arena arena;
  anf_diag *diag;
  anf_status status; // first failure of a building function
  /* names and source */
  anfi_strtab strings;
  ANFI_VEC(anfi_debug) debugs;
  const char *source;              // source text, in the arena, or NULL
  ANFI_VEC(const char *) imported; // likewise: texts of files that it imports
  /* nodes */
  ANFI_VEC(anf_node *) nodes; // by id; NULL when removed
  size_t ncalls;              // CALL nodes among them
  ANFI_VEC(anf_value *) held; // constants: released with the module
  uint64_t folded,
      fold_limit; // bytes of large constants that folding computed, and may compute (0: 1 GiB)
  anf_node *op_nodes[ANF_OP_COUNT]; // VALUE nodes of primitives without attributes
  uint8_t *work;                    // by id: ANFI_WORK_* (ir/worklist.h)
  anfi_gone gone[ANFI_GONE];        // memory of deleted nodes, by number of inputs ...
  anf_node *spare[ANFI_GONE];       // ... and what new nodes may take of it
  /* graphs */
  ANFI_VEC(anf_graph *) graphs; // by id; NULL when removed
  anfi_map results;             // node id -> number of graphs whose result it is
  ANFI_VEC(anf_graph *) origin; // of a copy: the original graphs, by graph id
  ANFI_VEC(anf_module *)
  parts;             // modules whose graphs were merged: copies borrow names and texts of theirs
  anf_module *owner; // of a part
  ANFI_VEC(anf_module *) lenders; // generators' modules whose graphs were merged, once for each
  size_t borrowers;               // of a generator's module
};

/* type.c */
struct anf_type {
  /* kind and what follows from it */
  uint8_t kind;    // anf_type_kind
  uint8_t dtype;   // of a tensor, or of ANF_PATTERN_RANKS
  bool varies;     // a real or complex tensor, or a tuple or record that has one: it has tangents
  uint8_t pattern; // anf_pattern, of ANF_TYPE_ANY: what it asks of a value
  bool functions;  // a function, or a tuple or record that has one
  bool kept;       // a box or stack, or a tuple or record that has one
  uint32_t n;      // rank, items, fields or parameters
  uint64_t hash;
  size_t leaves; // such tensors in it, and boxes and stacks
  /* parts, by kind */
  const anf_type *result;       // of a function
  const int64_t *dims;          // of a tensor
  const anf_type *const *items; // of a tuple, record or function
  const anfi_str *const *names; // of a record
};
typedef enum anfi_class {
  ANFI_CLASS_BOOL,
  ANFI_CLASS_SIGNED,
  ANFI_CLASS_UNSIGNED,
  ANFI_CLASS_FLOAT,
  ANFI_CLASS_COMPLEX,
  ANFI_CLASS_KEY
} anfi_class;
anfi_class anfi_dtype_class(anf_dtype d);
bool anfi_dtype_is_int(anf_dtype d); // signed or unsigned, not bool
bool anfi_dtype_is_float(anf_dtype d);
bool anfi_dtype_is_weak(anf_dtype d);
bool anfi_dtype_weak_becomes(anf_dtype from,
                             anf_dtype to); // may a number without a type take `to`?
bool anfi_dtype_holds(anf_dtype d, int64_t least,
                      int64_t most);          // an integer type: all of least..most
double anfi_dtype_infinite_from(anf_dtype d); // the least number that is infinite of it
anf_dtype anfi_dtype_settle(anf_dtype d);     // weak types to i64 and f64
/* TensorProto.DataType of ONNX and MindSpore, MindSpore's TypeId; 0: none. */
int64_t anfi_dtype_file_number(anf_dtype d);
int64_t anfi_dtype_type_id(anf_dtype d);
bool anfi_dtype_of_file_number(int64_t number, anf_dtype *out);
anf_dtype anfi_dtype_part(anf_dtype d);     // of a complex number: of its parts; else d
anf_dtype anfi_dtype_of_parts(anf_dtype d); // of numbers whose parts are these
anf_dtype anfi_dtype_asked(
    anf_dtype d); // what x.dtype is: c128 of `complex`, as code asks which numbers have two parts
bool anfi_dtype_parse(const char *s, size_t len, anf_dtype *out);
/* The element type of an operation on both: a float beats an integer, the wider wins, a weak number
 * takes the other's type, f16 with bf16 gives f32. False for keys. docs/language.md has the table.
 */
bool anfi_dtype_promote(anf_dtype a, anf_dtype b, anf_dtype *out);
/* Marks the names of symbols in live types; forgets types and symbols that are not live. */
void anfi_types_mark(anf_ctx *cx, anfi_marking *m);
void anfi_types_trim(anf_ctx *cx);
const anf_type *anfi_type_scalar(anf_ctx *cx, anf_dtype d);
const anf_type *anfi_type_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims);
/* NULL if the element type or a dim is none, or the size of the whole is beyond any memory. */
const anf_type *anfi_type_checked(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims);
const anf_type *anfi_type_tuple(anf_ctx *cx, size_t n, const anf_type *const *items);
const anf_type *anfi_type_record(anf_ctx *cx, size_t n, const anfi_str *const *names,
                                 const anf_type *const *items);
const anf_type *anfi_type_fn(anf_ctx *cx, size_t n, const anf_type *const *params,
                             const anf_type *result);
const anf_type *anfi_type_simple(anf_ctx *cx, anf_type_kind k);
const anf_type *anfi_type_pattern(anf_ctx *cx, anf_pattern p, anf_dtype d);
/* Has a value of this kind what the pattern asks for, but for the element type? `tensor`: its type, or NULL. */
bool anfi_pattern_takes(const anf_type *pattern, anf_type_kind kind, const anf_type *tensor);
bool anfi_pattern_parse(const char *name, anf_pattern *out); // "number", but not "f32[...]"
const char *anfi_pattern_name(anf_pattern p);
/* Does a declared type say nothing of values? */
static inline bool anfi_type_is_any(const anf_type *t) {
  return t->kind == ANF_TYPE_ANY && !t->pattern;
}
/* Does a declared type set the element type of values? */
static inline bool anfi_type_has_dtype(const anf_type *t) {
  return t->kind == ANF_TYPE_TENSOR || (t->kind == ANF_TYPE_ANY && t->pattern == ANF_PATTERN_RANKS);
}
const anf_type *anfi_type_with_dtype(anf_ctx *cx, const anf_type *t, anf_dtype d); // tensors
/* Elements of a tensor type; false if a dim is not constant. */
bool anfi_type_elements(const anf_type *t, size_t *n);
size_t anfi_type_bytes(const anf_type *t); // of a tensor type whose dims are constant
void anfi_put_type(anf_text *o, anf_ctx *cx, const anf_type *t);
/* For messages: text that lives as long as the frame. */
const char *anfi_type_text(anf_ctx *cx, const anf_type *t);
const char *anfi_value_text(anf_ctx *cx, const anf_value *v);
static inline bool anfi_is_name(const anf_type *t) { // of a constant: compiled code has its number
  return t->kind == ANF_TYPE_STRING || t->kind == ANF_TYPE_TYPE;
}
static inline bool anfi_is_nest(const anf_type *t) { // a tuple or a record
  return t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
}
static inline bool anfi_same_dims(const anf_type *a, const anf_type *b) { // of tensors
  return a->n == b->n && (!a->n || memcmp(a->dims, b->dims, a->n * sizeof *a->dims) == 0);
}
bool anfi_is_tensor(const anf_type *t);
bool anfi_is_scalar(const anf_type *t);
int64_t anfi_dim_symbol(anf_ctx *cx, const anfi_str *name);

/* value.c */
struct anf_value {
  uint32_t refs; // UINT32_MAX: lives as long as its owner, not counted
  uint8_t kind;  // anf_value_kind
  bool
      wrapped; // elements are the host's: nothing writes to them, and the payload has the function that ends their use
  size_t bytes; // of this allocation
  anf_ctx *cx;
  const anf_type *type; // of a tensor or record; of a TYPE value: the type itself
  size_t n;             // elements, items, or bytes of a string
  union {
    unsigned char *data;   // of a tensor: its elements, in the payload or in memory of the host
    const anf_type *known; // of a tuple or record: its type, once somebody has asked for it
    anf_value *next;       // chain of those being freed: release is a loop, not recursion
  };
  union { // 16-byte aligned; the payload extends past this member
    char text[1];
    anf_value *item[1];
    void *align_;
    struct {
      void (*release)(void *user); // or NULL
      void *user;
    } host;
  } u;
};
/* A function value: the code, what a closure captured, and arguments bound by Partial (they come
 * first). */
typedef struct anfi_fn {
  anf_graph *graph; // NULL for a primitive
  uint16_t op;
  const anfi_attrs *attrs; // of a primitive
  uint32_t ncapture, nbound;
  anf_value *at[]; // captures in the order of the graph's free list, then bound arguments
} anfi_fn;

anf_value *anfi_value_new_tensor(anf_ctx *cx, const anf_type *t); // zeros; type has constant dims
/* Another type for it; a value pins its type. */
void anfi_value_set_type(anf_value *v, const anf_type *t);
/* Elements that stay where they are, until release(user) is called. */
anf_value *anfi_value_wrap(anf_ctx *cx, const anf_type *t, void *data, void (*release)(void *user),
                           void *user);
anf_value *anfi_value_new_none(anf_ctx *cx);
anf_value *anfi_value_new_type(anf_ctx *cx, const anf_type *t);
anf_value *anfi_value_new_string(anf_ctx *cx, const char *s, size_t len);
anf_value *anfi_value_new_i64(anf_ctx *cx, anf_dtype d,
                              int64_t x); // a scalar of any real or int type
anf_value *anfi_value_new_f64(anf_ctx *cx, anf_dtype d, double x);
anf_value *anfi_value_new_ints(anf_ctx *cx, size_t n, const int64_t *x); // a tuple
anf_value *anfi_value_new_tuple(anf_ctx *cx, size_t n); // items NULL: fill with new references
/* A box or a stack: items NULL, likewise. */
anf_value *anfi_value_new_residual(anf_ctx *cx, anf_value_kind k, size_t n);
anf_value *anfi_value_new_record(anf_ctx *cx, const anf_type *t); // type gives the names; likewise
anf_value *anfi_value_new_fn(anf_ctx *cx, anf_graph *g, uint16_t op, const anfi_attrs *attrs,
                             uint32_t ncapture, uint32_t nbound); // items NULL; likewise
static inline anfi_fn *anfi_value_fn(const anf_value *v) {
  return (anfi_fn *)(uintptr_t)(const void *)v->u.text;
}
/* Releases v if the frame fails: for a value that is being filled and that nothing owns yet. Before
 * the value is handed on or released, anfi_value_unguard: a frame that fails later would release it
 * again. */
void anfi_value_guard(anf_value *v);
void anfi_value_unguard(anf_value *v);
void anfi_release(void *value); // a cleanup
/* A copy that lives as long as the context, and is not counted; takes the reference. Of numbers,
 * strings, types and tuples of them, for tables. */
anf_value *anfi_value_keep(anf_value *v);
/* The value of element i in three readings; for the dtype classes that hold them exactly. */
double anfi_get_f64(const anf_value *v, size_t i);
int64_t anfi_get_i64(const anf_value *v, size_t i);
/* Is it an integer, or does a tuple or record hold one, that is a multiple of this number and not 0? */
bool anfi_value_has_multiple(const anf_value *v, int64_t of);
double
anfi_get_odd(const anf_value *v,
             size_t i); // rounds to odd, so that a second rounding to a narrower float is exact
void anfi_set_f64(anf_value *v, size_t i, double x);      // rounds once to the dtype
void anfi_set_i64(anf_value *v, size_t i, int64_t x);     // wraps to the dtype
bool anfi_value_is_int(const anf_value *v, int64_t *out); // an integer scalar
uint64_t anfi_value_hash(const anf_value *v);
/* Within a frame, which fails when memory runs out: never NULL. */
const anf_type *anfi_value_type(anf_ctx *cx, const anf_value *v);
static inline bool anfi_value_is_nest(const anf_value *v) { // a tuple or a record
  return v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
}
/* The item of a record with this name; NULL: it has none. */
const anf_value *anfi_record_item(const anf_value *record, const char *name);
bool anfi_value_same(const anf_value *a, const anf_value *b);
/* The value with another dtype (conversion as Cast does), or itself retained if it has it. */
anf_value *anfi_value_cast(anf_value *v, anf_dtype d);
void anfi_put_value(anf_text *o, const anf_value *v, size_t max_items);

/* module.c */
void anfi_free_module(void *m);           // a cleanup
anf_module *anfi_module_new(anf_ctx *cx); // freed with the frame if the frame fails
bool anfi_is_built(const anf_module *m); // or the first error of building it is a finding here, too
anf_graph *anfi_graph_new(anf_module *m, const anfi_str *name);
/* A private graph named mark + like's name, e.g. "▶loss", at its place; no parameters yet. */
anf_graph *anfi_graph_beside(const anf_graph *like, const char *mark);
/* Makes all graphs of g's module private but g. */
void anfi_only_public(anf_graph *g);
/* By node id: 1 + the id of the effect before it; NULL: the module has no two effects in a graph. */
uint32_t *anfi_effect_order(const anf_module *m, anfi_arena *a);
void anfi_graph_remove(anf_graph *g);
/* Marks the module as failed; later building functions do nothing. */
uint32_t anfi_debug_new(anf_module *m, anfi_debug d);
/* A debug entry for a node derived from `from`, such as how = "gradient of". */
uint32_t anfi_debug_derive(anf_module *m, uint32_t from, const char *how);
anfi_loc anfi_node_loc(const anf_node *n);
anfi_loc anfi_graph_loc(const anf_graph *g);
bool anfi_module_has_op(const anf_module *m, anfi_opcode op); // a node of it
bool anfi_module_has_effects(const anf_module *m);

/* node.c: building inside a frame; never NULL, operands never NULL */
/* Reserves memory for n more nodes: the list of all nodes does not move while they are made. */
void anfi_reserve_nodes(anf_module *m, size_t n);
anf_node *anfi_param(anf_graph *g, const anfi_str *name, const anf_type *t);
/* n parameters without names before parameter `at`: a pointer to the first, good until g gets more; of
 * none, NULL. */
anf_node **anfi_insert_params(anf_graph *g, size_t at, size_t n, const anf_type *const *types);
void anfi_remove_params(anf_graph *g, const bool *gone); // those must be unused
void anfi_remove_param(anf_graph *g, size_t at);         // likewise
anf_node *anfi_value(anf_module *m, anf_value *v);       // takes the reference
void anfi_hold(anf_module *m, anf_value *v); // takes the reference; released with the module
/* Skips one id: for readers, which preserve ids. */
void anfi_skip_node(anf_module *m);
/* A node whose inputs must all be set by anfi_set_input: for readers, where nodes refer forward. */
anf_node *anfi_node_blank(anf_module *m, anfi_kind kind, anf_graph *g, size_t n);
anf_node *anfi_graph_value(anf_graph *g);
anf_node *anfi_op_value(anf_module *m, anfi_opcode op);
anf_node *anfi_op_value_attrs(anf_module *m, anfi_opcode op, const anfi_attrs *attrs);
/* `n` counts attribute nodes too, which follow the arguments. */
anf_node *anfi_apply(anf_graph *g, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                     anf_node *const *in);
/* All that an APPLY has but its inputs. */
typedef struct anfi_apply_of {
  anf_graph *graph;
  const anfi_attrs *attrs;
  const anf_type *type;
  uint32_t debug;
  uint16_t op;
  uint8_t work; // ANFI_WORK_*: passes that must visit it
} anfi_apply_of;
anf_node *anfi_apply_as(const anfi_apply_of *of, size_t n, anf_node *const *in);
/* in[0] is the callee; a constant primitive becomes an APPLY. */
anf_node *anfi_call(anf_graph *g, size_t n, anf_node *const *in);
void anfi_set_result(anf_graph *g, anf_node *n);
void anfi_add_effect(anf_graph *g, anf_node *n);
void anfi_remove_effect(anf_node *n);
void anfi_set_input(anf_node *n, size_t i, anf_node *to);  // index into in[]
void anfi_set_attrs(anf_node *n, const anfi_attrs *attrs); // of an APPLY
void anfi_replace(anf_node *n, anf_node *by);
void anfi_move(anf_node *n, anf_graph *to);
/* Unlinks the inputs and forgets the node; it must be unused. */
void anfi_delete(anf_node *n);
/* From now on new nodes may reuse the memory of deleted ones: no pointer to these is left. */
void anfi_reuse_deleted(anf_module *m);
bool anfi_is_used(const anf_node *n);
bool anfi_is_result(const anf_module *m, const anf_node *n); // of any graph
#define anfi_apply1(g, op, a)       anfi_apply(g, op, NULL, 1, (anf_node *const[]){a})
#define anfi_apply2(g, op, a, b)    anfi_apply(g, op, NULL, 2, (anf_node *const[]){a, b})
#define anfi_apply3(g, op, a, b, c) anfi_apply(g, op, NULL, 3, (anf_node *const[]){a, b, c})
/* The graph that a VALUE holds, or NULL. */
static inline anf_graph *anfi_value_graph(const anf_node *n) {
  return n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_FN
             ? anfi_value_fn(n->u.value)->graph
             : NULL;
}
/* The primitive that a VALUE holds, or ANF_OP_NONE. */
static inline anfi_opcode anfi_value_op(const anf_node *n) {
  return n->kind == ANFI_VALUE ? (anfi_opcode)n->op : ANF_OP_NONE;
}
static inline bool anfi_is_cnode(const anf_node *n) {
  return n->kind == ANFI_APPLY || n->kind == ANFI_CALL;
}
static inline bool anfi_is_op(const anf_node *n, anfi_opcode op) {
  return n->kind == ANFI_APPLY && n->op == op;
}

/* Prefetches *p. */
#if defined(__GNUC__)
#define anfi_soon(p) __builtin_prefetch(p)
#else
#define anfi_soon(p) ((void)0)
#endif

/* For sweeps over all nodes: prefetches node `far` and the inputs of node `near`; an id out of range does
 * nothing. A macro, since gcc 12 drops calls of functions that only prefetch. */
#if defined(__GNUC__)
#define anfi_fetch(m, near, far)                                                                   \
  do {                                                                                             \
    const anf_node *n_ = (near) < (m)->nodes.n ? (m)->nodes.at[near] : NULL;                       \
    if ((far) < (m)->nodes.n) __builtin_prefetch((m)->nodes.at[far]);                              \
    for (uint32_t k_ = 0; n_ && k_ < n_->nin && k_ < 3; k_++) __builtin_prefetch(n_->in[k_].def);  \
  } while (0)
#else
#define anfi_fetch(m, near, far) ((void)0)
#endif

/* analysis.c: a snapshot; changing the module makes it stale */
typedef struct anfi_graph_info {
  ANFI_VEC(anf_node *) free;      // captured nodes, also those of graphs that it refers to
  ANFI_VEC(anf_graph *) callees;  // graphs that its nodes refer to, each once
  ANFI_VEC(anf_node *) order;     // CNodes that its result and effects need, inputs first
  ANFI_VEC(anf_graph *) children; // graphs whose parent it is
  anf_graph *parent;              // innermost owner of a free variable
  uint32_t scc;                   // callees first
  bool recursive;
} anfi_graph_info;
struct anf_analysis {
  anfi_arena arena;
  anf_module *module;
  anfi_graph_info *graphs; // by graph id
  size_t ngraph;
  ANFI_VEC(anf_graph *) by_scc; // all graphs, callees before callers
};
/* Lives until the frame is left. */
anf_analysis *anfi_analyse(anf_module *m);
/* ground.c: no recursion without a base case, or E0518 for each. */
bool anfi_check_grounded(anf_module *m);
/* reads_first.c: another order in each graph, in which arrays are read before they are overwritten. */
void anfi_order_reads_first(anf_analysis *an);
/* The same in the order of g, before what writes alone. `at`: by node id, 0 for nodes of g; changed. */
void anfi_graph_reads_first(anf_ctx *cx, anfi_arena *a, const anf_graph *g, anf_node **order,
                            size_t n, uint32_t *at);

/* clone.c: copies g and the graphs nested in it into their module. `nodes` (id -> anf_node *)
 * receives the copies; nodes that it maps beforehand are replaced as it says, such as parameters by
 * arguments. The copy of g has no parameters for those. */
anf_graph *anfi_clone(const anf_analysis *an, anf_graph *g, anfi_map *nodes);

/* copy.c: a module with copies of n graphs and all that they refer to; freed with the frame if it
 * fails. It borrows names, attributes and texts of the original. */
anf_module *anfi_module_copy(const anf_analysis *an, anf_graph *const *roots, size_t n,
                             anf_graph **copies);
/* `part` is freed with m. */
void anfi_module_own(anf_module *m, anf_module *part);
/* Copies of graphs of `from`, a part of `to`, in `to`. Each graph is copied once. Lives as long as the frame. */
typedef struct anfi_merge anfi_merge;
anfi_merge *anfi_merge_new(anf_module *to, anf_module *from);
anf_graph *anfi_merge_graph(anfi_merge *g, anf_graph *of); // with all that it refers to
/* The graph that graph number i of a copy was made from, or NULL. */
anf_graph *anfi_module_origin(const anf_module *copy, size_t i);

/* formed.c: the graphs that the numbers of forms denote, in the original of a copied program. */
typedef struct anfi_origins {
  anf_graph **graph;  // by id in the copy
  uint32_t *ncapture; // number of captures among the bound values
  size_t n;
} anfi_origins;
anfi_origins anfi_origins_of(anfi_arena *a, const anf_module *copy, const anf_analysis *an);
/* The value that the data `v` represents, a new reference; NULL with an error. */
anf_value *anfi_formed(anf_ctx *cx, const anfi_form *f, const anfi_origins *from, anf_value *v);

/* sweep.c */
size_t anfi_sweep(anf_module *m);

/* verify.c */
bool anfi_verify(anf_module *m);

/* op.c: the op table and its parsed schemas */
typedef enum anfi_attr_type {
  ANFI_ATTR_INT,
  ANFI_ATTR_BOOL,
  ANFI_ATTR_FLOAT,
  ANFI_ATTR_STR,
  ANFI_ATTR_INTS,  // a tuple of integers, or one integer
  ANFI_ATTR_DTYPE, // a scalar type
  ANFI_ATTR_ANY
} anfi_attr_type;
typedef struct anfi_attr_schema {
  const anfi_str *name;
  anfi_attr_type type;
  anf_value *initial; // the default; NULL: required, unless `optional`, which means None
  bool optional;
} anfi_attr_schema;
typedef struct anfi_schema {
  const anfi_str *name;
  uint32_t nin, min_in; // named inputs; the last `nin - min_in` may be absent
  bool variadic;        // the last named input may be repeated, or absent
  const anfi_str **in;  // names
  uint32_t nattr;
  anfi_attr_schema *attr;
} anfi_schema;
typedef struct anfi_infer anfi_infer;
typedef struct anfi_eval anfi_eval;
typedef struct anfi_batch anfi_batch;
// clang-format off
enum { // flags of a row
  ANFI_COMM        = 1 << 0,  // a op b == b op a, bit for bit
  ANFI_ASSOC       = 1 << 1,  // for integers
  ANFI_EFFECT      = 1 << 2,  // effectful: order matters, and it must not be dropped
  ANFI_RANDOM      = 1 << 3,  // takes a key; still a pure function of it
  ANFI_LINEAR      = 1 << 4,  // in all its inputs together
  ANFI_CALLS       = 1 << 5,  // calls a function among its arguments: the interpreter knows it by name
  ANFI_TRANSFORM   = 1 << 6,  // Grad and the like: expanded before a program runs
  ANFI_ALONG       = 1 << 7,  // works along axes, in attribute 0, of input 0 (Unreduce: of the result)
  ANFI_ONE_PASS    = 1 << 8,  // reads its inputs once, in the order of their elements
  ANFI_IN_ORDER    = 1 << 9,  // the elements of input 0, in their order
  ANFI_WRITES_OVER = 1 << 10, // input 0 with some elements replaced, computed as a whole
  ANFI_EPILOGUE    = 1 << 11, // a product: pointwise consumers may become its epilogue
  ANFI_PERMUTES    = 1 << 12, // permutes dims as attribute 0 says, or swaps those of attributes 0 and 1
  ANFI_PART        = 1 << 13, // elements of input 0 at a regular stride
  ANFI_AS_WHOLE    = 1 << 14, // single elements are expensive, or it is better computed as a whole
  ANFI_FAILS       = 1 << 15, // may trap for integers
  ANFI_MOVES       = 1 << 16, // moves values and computes nothing: speculatable for all arguments
  ANFI_COLLECTIVE  = 1 << 18, // of all ranks or lanes together: its value is not known before it runs
  ANFI_FINITE      = 1 << 17, // cheap, and finite with its derivatives at finite arguments: vmap speculates it
  ANFI_GROWS       = 1 << 19, // may be too large for its float type, or for 64 bits, where no argument is
  ANFI_DIMS        = 1 << 20, // asks dims alone, not elements
  ANFI_EXPANDS     = 1 << 21, // the pass `expand` replaces it
  ANFI_REALS       = 1 << 22, // computes with integers as reals
  ANFI_COMPARES    = 1 << 23, // a comparison of two numbers: Equal, Less and the like
};
// clang-format on
typedef enum anfi_lower {
  ANFI_LOWER_NONE,
  ANFI_LOWER_POINTWISE,
  ANFI_LOWER_INDEX_MAP,
  ANFI_LOWER_REDUCE,
  ANFI_LOWER_CONTRACT,
  ANFI_LOWER_WINDOW,
  ANFI_LOWER_SCATTER,
  ANFI_LOWER_RANDOM,
  ANFI_LOWER_CALL,
  ANFI_LOWER_CONTROL
} anfi_lower;
struct anfi_derive; // autodiff/derive/derive.h
typedef struct anfi_op_info {
  /* signature */
  const char *name, *family;
  const char *in;    // input names: "a b", "x bias?", "xs*"
  const char *attrs; // "axis:ints? keepdims:bool=false"
  /* types and values */
  bool (*infer)(anfi_infer *); // type of the result from types of inputs
  bool (*eval)(anfi_eval *);   // fills the result; NULL with `scalar` set: elementwise
  const char *scalar;          // elementwise code in the inputs' names, C operators: "a * b"
  /* transforms */
  const char *grad; // formulas; "_" zero, "!" none, "*" transforms know it, "vjp" hook
  bool (*vjp)(struct anfi_derive *); // derivative that no formula gives; autodiff/vjp_*.c
  struct anf_node *(*batch)(struct anfi_batch *); // rule of vmap; NULL: elementwise, or by lane
  const char *rows;                               // inputs whose rows are computed one by one
  /* compilation */
  anfi_lower lower;
  uint32_t flags;
  uint32_t cost; // of one result element, a multiplication being 1
  /* formats, tests, documentation */
  const char *onnx, *mindir, *pnnx, *aten; // their names, space-separated; NULL: none
  const char *sample;                      // inputs for generated tests
  const char *numpy;                       // the same in NumPy, checked by tests
  const char *doc;
} anfi_op_info;
extern const anfi_op_info anfi_op[ANF_OP_COUNT];
extern const anfi_op_info anfi_no_op;
/* The row of what a node applies; of a call, a parameter or a value a row without flags or hooks, as their op is beyond the table or
 * that of a function value. */
static inline const anfi_op_info *anfi_op_of(const anf_node *n) {
  return n->kind == ANFI_APPLY ? &anfi_op[n->op] : &anfi_no_op;
}
const anfi_schema *anfi_op_schema(anf_ctx *cx, anfi_opcode op);
/* Does the op take n arguments, not counting attributes? anfi_op_check_count reports E0202 if not. */
bool anfi_op_takes(anf_ctx *cx, anfi_opcode op, size_t n);
bool anfi_op_check_count(anf_ctx *cx, anfi_opcode op, size_t n, anfi_loc loc);
bool anfi_op_is_comparison(anfi_opcode op); // Equal, Less and the like
/* Of an op that is applied as a value, to n inputs with those that give attributes: the number of arguments, and no
 * attribute that must be given is missing (E0206). */
bool anfi_op_check_applied(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, size_t n,
                           anfi_loc loc);
bool anfi_op_may_be_applied(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, size_t n);
anfi_opcode anfi_op_find(anf_ctx *cx, const char *name, size_t len); // ANF_OP_NONE if there is none
/* The inputs that the column `rows` names: bit i for input i. */
uint32_t anfi_op_rows(anf_ctx *cx, anfi_opcode op);
const char *
anfi_op_elsewhere(const char *name); // our name for another format's, or NULL: for hints
/* A hint at how the op is called: "Full(value, shape:ints, dtype:dtype?)". Always false. */
bool anfi_hint_call(anf_ctx *cx, anfi_opcode op);
/* E0203, with the attribute or input that is nearest. */
void anfi_attr_unknown(anf_ctx *cx, anfi_opcode op, const char *word, anfi_loc loc);
/* Index of an attribute in the schema, or -1. */
int anfi_attr_index(anf_ctx *cx, anfi_opcode op, const char *name);
/* Arguments of an APPLY (without attribute nodes). */
size_t anfi_arg_count(const anf_node *n);
/* The node that gives attribute k, or NULL when it is constant. */
anf_node *anfi_attr_node(const anf_node *n, uint32_t k);
/* The constant value of attribute k of an APPLY, defaults filled in; NULL if a node gives it; the
 * none-value where an optional one is absent. */
anf_value *anfi_attr_value(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, uint32_t k);
/* Checks values against the schema and returns the record (NULL when all are defaults). `values[k]`
 * NULL means absent. Fails with E02xx. */
bool anfi_attrs_new(anf_module *m, anfi_opcode op, anf_value *const *values, anfi_loc loc,
                    const anfi_attrs **out);
/* The same for as long as the context lives, as in function values that outlive the copy they were made in. Equal ones are
 * one. */
const anfi_attrs *anfi_attrs_hold(anf_ctx *cx, anfi_opcode op, const anfi_attrs *a);
/* Are they equal, but for what nodes give? */
bool anfi_attrs_same(const anfi_attrs *a, const anfi_attrs *b);

/* Does v fit the schema of attribute k? Else fails with E0205. */
bool anfi_attr_check(anf_ctx *cx, anfi_opcode op, uint32_t k, const anf_value *v, anfi_loc loc);

/* infer.c, infer_*.c: result types, one hook a family of ops */
struct anfi_infer {
  anf_ctx *cx;
  anfi_opcode op;
  anfi_loc loc;
  size_t n;
  const anf_type *const *in; // types of the arguments, never NULL
  anf_value *const *attr;    // attribute values by schema index, defaults filled in
  const anf_type *out;       // set by the hook
  anf_dtype
      takes; // the integer type that numbers without a type take, and must fit; ANF_INT: any is fine
  size_t meet[2]; // of these arguments: meet[0] to meet[1] - 1
};
/* Runs the op's hook. False with E05xx recorded. */
bool anfi_infer_op(anfi_infer *q);
/* Argument i is a number without a type, `v` (NULL: not known yet): does what it meets hold it? */
bool anfi_infer_holds(const anfi_infer *q, size_t i, const anf_value *v);
bool anfi_infer_outside(const anfi_infer *q); // E0561, false

/* eval.c, eval_*.c: reference kernels, plain and obviously right */
struct anfi_eval {
  anf_ctx *cx;
  anfi_arena *scratch;
  anfi_opcode op;
  anfi_loc loc;
  size_t n;
  anf_value *const *in;   // borrowed
  anf_value *const *attr; // by schema index, defaults filled in
  const anf_type *type;   // of the result, from the op's infer hook
  anf_value *out;         // a new reference, set by the hook; tensors are made beforehand
  bool over;              // nothing else needs input 0: what writes over it may take its memory
};
/* Types, then computes one op on values. False with an error recorded; nothing leaks. */
bool anfi_eval_op(anfi_eval *q);

/* interp.c: see anfora/run.h */

/* host.c: ops that the host registered (anfora/host.h); they are the op Host, or HostEffect, with their
 * name for an attribute. */
typedef struct anfi_host_slot { // one argument of the C function
  enum { ANFI_HOST_ARG, ANFI_HOST_OUT, ANFI_HOST_DIM } kind;
  size_t i;        // of an argument, or a part of the result
  int64_t dim;     // a symbol
  anf_dtype dtype; // that a dim is passed as
} anfi_host_slot;
/* generator.c: the graph that a generator made for arguments of these types; `graph` NULL: not yet */
typedef struct anfi_host anfi_host;
typedef struct anfi_generated {
  struct anfi_generated *next; // of the same hash
  const anfi_host *of;
  size_t n;
  const anf_type *const *types;
  anf_graph *graph; // in a module that the context owns
} anfi_generated;
typedef struct anfi_generated_module {
  anfi_generated *of;
  anf_module *module; // which may have no graph that is of use
} anfi_generated_module;
typedef struct anfi_generator {
  anf_status (*generate)(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                         anf_diag *d, anf_graph **out);
  void *user;
  void (*release)(void *user);
  anfi_arena arena[2]; // of the table, and of the one that a trim makes
  int now;             // which of the two
  anfi_map made;       // hash of types -> anfi_generated
  ANFI_VEC(anfi_generated_module) parts;
  struct anfi_generator *next;
} anfi_generator;
struct anfi_host {
  /* the op */
  const anfi_str *name, *vjp; // vjp NULL: see zero
  bool zero;                  // the derivative is zero; else there is none
  unsigned flags;             // ANF_HOST_*
  /* its C function */
  void (*function)(void);
  const anf_type *type; // fn(tensors..) -> a tensor, or a tuple of them
  size_t nslot, nout;
  const anfi_host_slot *slot;
  const anf_type *const *out; // parts of the result
  size_t returned;            // the one that the C function returns, or nout
  /* how it is called */
  struct anfi_c_signature **call; // made at the first interpreted call
  anfi_generator *generator;      // or NULL: then the fields from `function` on are unused
};
/* By value to C, as opposed to a dense array? */
bool anfi_host_by_value(const anf_type *t);
const anfi_host *anfi_host_find(anf_ctx *cx, const char *name, size_t len); // or NULL
/* The one that the attribute of an op Host names. NULL with E0230. */
const anfi_host *anfi_host_of(anf_ctx *cx, const anf_value *name, anfi_loc loc);
anfi_opcode anfi_host_op(const anfi_host *h);
const anfi_attrs *anfi_host_attrs(anf_module *m, const anfi_host *h);
/* Checks and adds; `type` is that of op->type. False with E0231. */
struct anf_host_op;
bool anfi_host_add(anf_ctx *cx, const struct anf_host_op *op, const anf_type *type);
bool anfi_host_may_add(anf_ctx *cx, const char *name);
struct anf_meta_op;
bool anfi_generator_add(anf_ctx *cx, const struct anf_meta_op *op);
/* The one that the attribute of an op Generated names. NULL with E0230. */
const anfi_host *anfi_generator_of(anf_ctx *cx, const anf_value *name, anfi_loc loc);
anfi_generated *anfi_generated_for(const anfi_host *h, size_t n, const anf_type *const *types);
/* The module has copies of graphs of `part`, which is a generator's and stays as long as it. */
void anfi_module_borrow(anf_module *m, anf_module *part);
/* Frees the graphs that no module borrows. */
void anfi_generators_trim(anf_ctx *cx);
/* Asks the host for the graph if that was not done. False with E1585 or E1586. */
bool anfi_generate(anf_ctx *cx, anfi_generated *e, anfi_loc loc);
/* The dim that a symbol of the signature denotes for arguments of these types; -1: unknown. */
int64_t anfi_host_dim(const anfi_host *h, const anf_type *const *args, int64_t symbol);
/* host_call.c: a C function through libffi. types[i] is a dtype, or: */
enum { ANFI_C_VOID = -1, ANFI_C_POINTER = -2, ANFI_C_INT = -3 };
/* slot[i] has the value in its low bytes, as does *result. */
enum { ANFI_C_MOST = 1024 }; // arguments
typedef struct anfi_c_signature anfi_c_signature;
size_t anfi_c_signature_bytes(size_t n);
/* How such a function is called; false: libffi cannot. */
bool anfi_c_prepare(anfi_c_signature *s, int result_type, size_t n, const int *types);
/* `at` has room for the addresses of n arguments. */
void anfi_c_call(const anfi_c_signature *s, void (*function)(void), uint64_t *slot, void **at,
                 uint64_t *result);

/* print_value.c */
typedef struct anfi_names anfi_names;
/* Worklist of the nested parts of a constant that are not written yet; one serves many constants. */
typedef struct anfi_piece {
  const anf_value *value; // or
  const anfi_str *name;   // or
  const char *text;
} anfi_piece;
typedef struct anfi_pending {
  anfi_arena *arena;
  ANFI_VEC(anfi_piece) st;
} anfi_pending;
/* A constant in the exact form of programs; `names` are those of the module that it is in, or NULL. Tensors of more than
 * `most` elements are elided; 0: none. */
void anfi_put_constant(anf_text *o, const anf_value *v, const anfi_names *names,
                       anfi_pending *pending, size_t most);
/* Between `quote`s ('"' or '`'), escaped. */
void anfi_put_quoted(anf_text *o, const char *s, size_t len, char quote);
/* A name, between backticks if it is not a plain one. */
void anfi_put_name(anf_text *o, const char *s, size_t len);
bool anfi_is_plain_name(const char *s, size_t len);

/* names.c: how the printers call and order things */
struct anfi_names {
  const char **graph, **node; // by id: unique printable names of graphs, parameters and CNodes
  anf_graph **graphs;         // owners of free variables before graphs that capture them
  size_t ngraph;
  anf_node **order; // all CNodes that graphs hold, dead ones too, each after what it needs
  size_t *first;    // by graph id: where the graph's part of `order` starts, ...
  size_t *count;    // ... and its length
};
anfi_names anfi_unique_names(anf_module *m, const anf_analysis *an, anfi_arena *a);

/* print.c */
void anfi_print_ir(anf_text *o, anf_module *m);
/* With places, to be read by people: large constants are elided, so that it is refused where it is read as a module. */
anf_status anfi_print_ir_brief(anf_module *m, anf_text *out);

/* Parts of a new context. */
void anfi_types_init(anf_ctx *cx);
void anfi_ops_init(anf_ctx *cx);

#endif
