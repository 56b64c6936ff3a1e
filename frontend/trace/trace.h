// SPDX-License-Identifier: Apache-2.0
/* Ops of other formats as templates: functions of the language, evaluated while a model is read.
 *
 * A format keeps a file of templates, one function an op, with the op's inputs and attributes as parameters:
 *   def Gemm(a, b, c, transA, transB) { y = f(a, transA) @ f(b, transB); if c == None { y } else { y + c } }
 * Tracing a call of it with nodes of the model's graph for a, b, c and the number 0 for transA adds the nodes
 * MatMul and Add to that graph and nothing else: constants are folded, branches on them are taken,
 * loops over it are unrolled (online partial evaluation; Jones, Gomard & Sestoft 1993).
 *
 * A branch whose condition is not known is an error of the template. */
#ifndef ANFI_TRACE_H
#define ANFI_TRACE_H

#include "ir/ir.h"

typedef enum anfi_traced_kind {
  ANFI_TRACED_DATA,  // a known value, or a node of the graph being built
  ANFI_TRACED_TUPLE, // items, each traced by itself
  ANFI_TRACED_FN,    // a function of the templates, or a primitive, with arguments bound
  ANFI_TRACED_HOST   // a function of the reader, such as one that builds the body of an op
} anfi_traced_kind;

typedef struct anfi_trace_frame anfi_trace_frame;
typedef struct anfi_traced anfi_traced;
/* A function of the reader that templates call; NULL with an error recorded. */
typedef const anfi_traced *anfi_trace_host(void *user, size_t n, const anfi_traced *const *args);
struct anfi_traced {
  anfi_traced_kind kind;
  // data
  const anf_type *type; // NULL: not known
  anf_node *node;       // NULL: none was made yet
  anf_value *value;     // NULL: not known; the trace holds it
  // tuple: its items; function: bound arguments
  size_t n;
  const struct anfi_traced *const *item;
  size_t depth, leaves; // of a tuple: how deep it nests, and how many items there are at its ends
  // function
  anf_graph *graph; // NULL: the primitive `op` with `attrs`
  anfi_trace_frame *env;
  uint16_t op;
  const anfi_attrs *attrs;
  // function of the reader
  anfi_trace_host *host;
  void *user;
};

typedef struct anfi_trace {
  /* the templates */
  anf_ctx *cx;
  anfi_arena *arena;
  anf_module *templates;
  anf_analysis *an;
  /* the graph and the op */
  anf_graph *to;       // the graph that nodes are added to
  anfi_loc loc;        // of the op being traced, for messages
  uint32_t debug;      // likewise, for its nodes
  const char *subject; // what a failed assert names (E1053, E1055); NULL: the model (E1151)
  /* limits */
  size_t most_folded; // bytes: a larger value becomes a node, to be computed when the program runs
  size_t depth;
  size_t turns; // of loops, since depth was 0
  /* outcome */
  bool unknown;       // an error was that something is not known yet
  bool typed;         // `to` has types, and new nodes get theirs
  anfi_map functions; // interned name -> graph of `templates`
  ANFI_VEC(anf_value *) live;
} anfi_trace;

/* The templates are parsed once for a context; `text` is the key. NULL with an error recorded; it lives as long as the frame. */
anfi_trace *anfi_trace_new(anf_ctx *cx, const char *text, size_t len, const char *file);
/* Goes on with a copy of the templates that belongs to the caller, who may add graphs to it. It is freed if the frame
 * fails. */
anf_module *anfi_trace_own(anfi_trace *t);
anf_graph *anfi_trace_find(const anfi_trace *t, const char *name); // or NULL

const anfi_traced *anfi_traced_value(anfi_trace *t, anf_value *v); // takes the reference
const anfi_traced *anfi_traced_node(anfi_trace *t, anf_node *n, const anf_type *type);
/* NULL with E1151 if it nests too deeply or has too many leaves: what walks tuples recurses. */
const anfi_traced *anfi_traced_tuple(anfi_trace *t, size_t n, const anfi_traced *const *items);
const anfi_traced *anfi_traced_int(anfi_trace *t, int64_t v); // a number without a type
const anfi_traced *anfi_traced_none(anfi_trace *t);
const anfi_traced *anfi_traced_host(anfi_trace *t, anfi_trace_host *f, void *user);

/* The trace takes the reference; the value, borrowed. */
anf_value *anfi_trace_hold(anfi_trace *t, anf_value *v);
/* Known to be None. */
static inline bool anfi_traced_is_none(const anfi_traced *x) {
  return x->kind == ANFI_TRACED_DATA && x->value && x->value->kind == ANF_VALUE_NONE;
}
/* The value if all of it is known, borrowed, or NULL. */
anf_value *anfi_traced_known(anfi_trace *t, const anfi_traced *x);
/* The node that gives it, made if need be. NULL with an error recorded: a function of the templates. */
anf_node *anfi_traced_to_node(anfi_trace *t, const anfi_traced *x);
/* Its type as far as it is known, never NULL. */
const anf_type *anfi_traced_type(anfi_trace *t, const anfi_traced *x);

/* For readers whose ops are rows and templates: the name of parameter i of a template. */
const char *anfi_template_param(const anf_graph *f, size_t i);

/* Calls a template. NULL with an error recorded. */
const anfi_traced *anfi_trace_call(anfi_trace *t, anf_graph *f, size_t n,
                                   const anfi_traced *const *args);
/* trace_op.c: one primitive; attrs[k] NULL is the default. */
const anfi_traced *anfi_trace_op(anfi_trace *t, anfi_opcode op, size_t n,
                                 const anfi_traced *const *in, anf_value *const *attrs);
/* Calls a function value. */
const anfi_traced *anfi_trace_apply(anfi_trace *t, const anfi_traced *f, size_t n,
                                    const anfi_traced *const *args);

/* legal.c: ops of m, which has types, for which there are templates become what these give. */
bool anfi_legalise(anfi_trace *t, anf_module *m, size_t *replaced);

#endif
