// SPDX-License-Identifier: Apache-2.0
/* Writing a spec out as a first-order graph: shared by specialise.c and emit*.c. */
#ifndef ANFI_EMIT_H
#define ANFI_EMIT_H

#include "optimizer/infer/rules.h"
#include "optimizer/opt.h"

typedef struct anfi_emit {
  /* the transform */
  anfi_inference *q;
  anfi_abs_table *abs;
  anfi_arena *arena;
  /* specialisations */
  ANFI_VEC(anfi_spec *) todo; // made, body still to be written
  anfi_spec *spec;            // being written
  anf_graph *g;               // its graph
  /* the graph that is being written */
  anf_node **node;  // by position in the original's order
  bool effect;      // the original being written is effectful
  uint32_t debug;   // of nodes being written
  size_t *where[2]; // of a branch: which shared parameter each branch's bound data is
} anfi_emit;

/* emit.c: nodes with types */
anf_node *anfi_emit_apply(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs,
                          const anf_type *type, size_t n, anf_node *const *in);
anf_node *anfi_emit_tuple(anfi_emit *e, size_t n, anf_node *const *items);
anf_node *anfi_emit_get(anfi_emit *e, anf_node *t, size_t i);
anf_node *anfi_emit_field(anfi_emit *e, anf_node *record, size_t i);
anf_node *anfi_emit_record(anfi_emit *e, const anfi_abs *abs, anf_node *const *items);
anf_node *anfi_emit_i32(anfi_emit *e, int64_t v);
anf_node *anfi_emit_const(anfi_emit *e, anf_value *v); // takes the reference
/* The data of `from` as data of `to`, which is wider. */
anf_node *anfi_emit_coerce(anfi_emit *e, anf_node *n, const anfi_abs *from, const anfi_abs *to);

/* An operand of a comparison with data of a type. A constant integer without a type takes that type if it fits: the
 * comparison is as exact, and narrower. */
anf_node *anfi_emit_compared(anfi_emit *e, anf_node *n, anf_dtype with);
/* Integers without a type as ones of `to`, checked to be in its range. */
anf_node *anfi_emit_taken(anfi_emit *e, anf_node *n, anf_dtype to);

/* Lists n, a call, among the effects of the graph being written if the original is: of a Map, each call
 * that it becomes. Gives n. */
anf_node *anfi_emit_effect(anfi_emit *e, anf_node *n);

/* `yes` where the tag is `with`, or at most that for LessEqual; else `no`. */
anf_node *anfi_emit_choose(anfi_emit *e, anfi_opcode op, anf_node *tag, int64_t with, anf_node *yes,
                           anf_node *no);
/* The environment as the callee takes it: boxes are opened. */
anf_node *anfi_emit_open(anfi_emit *e, anf_node *n, const anfi_abs *a);

/* emit_check.c: assertions */
void anfi_emit_check_index(anfi_emit *e, anf_node *i, size_t n); // stops where i is none of n
/* E0561 where an integer without a type is outside the type that it takes. */
void anfi_emit_check_range(anfi_emit *e, anf_node *n, anf_dtype to);
/* E0561 where a number without a type is too large for the float type of another branch. */
void anfi_emit_check_finite(anfi_emit *e, anf_node *n, anf_dtype to);
/* E0561 where p, which is a number without a type by another branch (ANFI_WEAK_*), is too large for f16, or an integer there that
 * wraps. */
void anfi_emit_check_result(anfi_emit *e, anfi_opcode op, anf_node *p, uint8_t weak);

/* specialise.c */
anf_graph *anfi_emit_graph(anfi_emit *e, anfi_spec *s); // its graph, written later if not yet

/* emit_call.c: a call of a function value whose data is `f` (NULL: it binds nothing) */
anf_node *anfi_emit_call(anfi_emit *e, const anfi_abs *fabs, anf_node *f, size_t n,
                         const anfi_abs *const *aabs, anf_node *const *args, const anfi_abs *result,
                         anf_node *at);
/* A call of Switch(cond, f, h). */
anf_node *anfi_emit_branch(anfi_emit *e, anf_node *cond, const anfi_abs *const fabs[2],
                           anf_node *const f[2], size_t n, const anfi_abs *const *aabs,
                           anf_node *const *args, const anfi_abs *result, anf_node *at);

/* What a loop has beside its arguments: attributes; the number of rounds or the first condition. */
typedef struct anfi_emit_head {
  const anfi_attrs *attrs;
  anf_node *lead; // or NULL
  int64_t invariant;
  bool counted;
  size_t nx, nout;             // stacks read and written
  const anfi_abs *const *outs; // elements of those that are written
  const anfi_abs *result;
} anfi_emit_head;

/* Loop(f, args): `aabs` are those of the state that the loop keeps to, and args are data of them. */
anf_node *anfi_emit_loop(anfi_emit *e, const anfi_emit_head *head, const anfi_abs *fabs,
                         anf_node *f, size_t n, const anfi_abs *const *aabs, anf_node *const *args,
                         anf_node *at);

/* emit_op.c: a primitive on data of the given abs */
anf_node *anfi_emit_op(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                       const anfi_abs *const *iabs, anf_node *const *in, const anfi_abs *result,
                       anf_node *at);

/* One walk over the arguments of an op that calls functions serves both to infer and to emit. */
typedef struct anfi_walk {
  anfi_inference *q;
  anfi_emit *e; // NULL: infer only
  anf_node *at;
} anfi_walk;
typedef struct anfi_arg {
  const anfi_abs *abs; // NULL after an error
  anf_node *node;      // NULL when inferring only
} anfi_arg;

/* A graph for derivatives to work on: f called with the arguments; its parameters are the data of
 * f, then the arguments. NULL after an error. */
anf_graph *anfi_emit_target(anfi_emit *e, anfi_arg f, size_t n, const anfi_arg *args,
                            const anfi_abs *result, anf_node *at);

/* transform.c */
anfi_arg anfi_transform(const anfi_walk *w, anfi_opcode op, const anfi_attrs *attrs, size_t nbound,
                        const anfi_arg *bound, size_t n, const anfi_arg *args);
anf_node *anfi_emit_transformed(anfi_emit *e, const anfi_abs *code, anf_node *const *bound,
                                size_t n, const anfi_abs *const *aabs, anf_node *const *args,
                                anf_node *at);

/* generate.c */
anfi_arg anfi_part_call(const anfi_walk *w, anfi_arg f, size_t n, const anfi_arg *args);
anf_node *anfi_emit_meta(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                         const anfi_abs *const *iabs, anf_node *const *in, anf_node *at);

/* form.c: in the module; NULL if there is no function in it */
const anfi_form *anfi_abs_form(anfi_abs_table *t, anf_module *m, const anfi_abs *a);

#endif
