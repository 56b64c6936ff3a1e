// SPDX-License-Identifier: Apache-2.0
/* Tensor ops as loops of the Tensor IR.
 *
 * A view is a value while a function is being lowered: a scalar, a dense buffer, or something that
 * is computed when read: the element function of an op, which gives the expression of one element
 * at given indices. Pointwise ops and index maps become views, so a chain of them is one loop nest
 * in whatever reads it last. Everything else, and what fuse.c decides, is written to a buffer.
 *
 * INVARIANT: what a view reads never changes while the view lives: buffers are written once, scalars
 * are constants or variables that are never assigned again (copy the variables of a loop into fresh
 * ones at the start of its body).
 * INVARIANT: buffers are tensors of one dim, row-major, of anfi_lower_elem; a complex tensor is one
 * of twice as many reals, in pairs.
 *
 * Failures jump to the frame (out of memory) or are recorded with anfi_fail (false is returned). */
#ifndef ANFI_LOWER_OP_H
#define ANFI_LOWER_OP_H

#include "backend/tir/tir.h"
#include "ir/ir.h"

typedef struct anfi_view anfi_view;
typedef struct anfi_low anfi_low;

/* A loop nest reads each element of `from` right before it writes that of `to`, and no other. */
typedef struct anfi_in_step {
  texpr from, to;
} anfi_in_step;

/* Options and hooks of the one who lowers graphs. */
typedef struct anfi_low_opts {
  bool fast;                  // sums may be taken in another order and in the element's own type
  bool parallel;              // mark large outer loops as parallel
  const struct anfi_isa *isa; // that products are cut for (backend/kernel); NULL: a common one
  const struct anfi_mm_plans *plans; // how they are cut (plan.h); NULL: as the cost model says
  bool no_fuse;                      // every op is written to a buffer: for tests
  void *user;
  /* Code that leaves the program with error `code` if `bad` (a bool expression) holds; a and b are
   * numbers (s64) of its message. NULL: anf_rt_check fails. */
  void (*trap)(anfi_low *L, void *user, texpr bad, anfi_code code, anfi_opcode op, anfi_loc loc,
               texpr a, texpr b);
  /* The number of the first of n sites that stop the program with these codes; NULL: none is reported. */
  int64_t (*sites)(void *user, size_t n, const anfi_code *code, anfi_opcode op, anfi_loc loc);
  /* Statements that are added between the two are traced as the node's; NULL: no tracing. */
  size_t (*region_begin)(void *user, const anf_node *n);
  void (*region_end)(void *user, size_t id);
} anfi_low_opts;

/* One for each function being lowered. Constants and helper functions are added to `m`. */
anfi_low *anfi_low_new(anf_ctx *cx, anfi_arena *a, tmod *m, const anfi_low_opts *o);

/* ---- statements: a stack of lists, which branches and loops around ops use too ---- */
void anfi_low_open(anfi_low *L);
void anfi_low_add(anfi_low *L, tstmt s); // to the innermost list
tstmt anfi_low_close(anfi_low *L);       // the innermost list as a body
/* A new variable with this value, defined here. */
texpr anfi_low_let(anfi_low *L, texpr value, const char *name);
texpr anfi_low_half(anfi_low *L, texpr v, uint32_t from); // of a vector's lanes: rows.c
/* A new local tensor of n elements, defined here. */
texpr anfi_low_local(anfi_low *L, anf_tir_elem e, uint64_t n, const char *name);

/* ---- types ---- */
/* The Tensor IR's element of a dtype (of c64 f32, of a key u64). */
anf_tir_elem anfi_lower_elem(anf_dtype d);
/* Elements of the buffer of a tensor type with constant dims; false if it has others or is too large. */
bool anfi_lower_size(const anf_type *t, uint64_t *n);

/* ---- views ---- */
anfi_view *anfi_view_scalar(anfi_low *L, const anf_type *t, texpr value);  // rank 0, not complex
anfi_view *anfi_view_buffer(anfi_low *L, const anf_type *t, texpr tensor); // any rank
/* A literal, or a tensor of the module (equal constants share one). */
anfi_view *anfi_view_constant(anfi_low *L, anf_value *v);
const anf_type *anfi_view_type(const anfi_view *v);
/* The expression of a scalar: a constant or a variable. Not for complex ones. */
texpr anfi_view_value(anfi_low *L, anfi_view *v);
/* The buffer that holds it, written now if there is none yet. */
texpr anfi_view_force(anfi_low *L, anfi_view *v);
/* Writes it to this buffer. */
void anfi_view_store(anfi_low *L, anfi_view *v, texpr to);
/* Into a larger buffer, elements from `from` on, which are v's in its order; is a part of a tensor of type t such a run? */
void anfi_view_store_part(anfi_low *L, anfi_view *v, texpr to, texpr from);
bool anfi_view_is_run(const anfi_view *v, const int64_t *part, const anf_type *t);

/* ---- ops ---- */
typedef struct anfi_low_op {
  /* the op */
  anfi_opcode op;
  anfi_loc loc;
  const anf_node *node; // whose op it is; NULL: nobody's
  const anf_type *type; // of the result: a tensor, or a tuple of them
  /* operands and attributes */
  size_t n;
  anfi_view *const *in;   // NULL for an argument that is None or absent
  anf_value *const *attr; // by schema index, defaults filled in
  /* placement of the result */
  bool inlined;    // the plan's word: leave it to the reader if the kind allows
  const texpr *to; // buffers for the results, or NULL, or NULL for some
  bool over;       // nothing else needs the buffer of input 0: it may become the result's
  bool in_place;   // the value of a write reads elements of input 0 where it writes them
} anfi_low_op;
/* Ops of kind pointwise to call and index maps; none of control. out[] receives one view, or one for
 * each item of a tuple. False with E07xx recorded if the compiler does not support it. */
bool anfi_lower_op(anfi_low *L, const anfi_low_op *q, anfi_view **out);
/* Does anfi_lower_op know this op (for some types)? */
bool anfi_lower_knows(anfi_opcode op);
/* Is it lowered by its scalar code alone? */
bool anfi_lower_is_scalar(anfi_opcode op);

/* ---- comm.c: operations under way ----
 * An op on a communicator starts where its node is, and is waited for before the first node that has it as an input:
 * the computation between the two hides the exchange. Operations are waited for in the order in which they were started. */
size_t anfi_lower_under_way(const anfi_low *L); // how many were started, in all
/* Waits for the node's operation and all before it, if it was started after the first `base` ones. */
void anfi_lower_wait_for(anfi_low *L, const anf_node *n, size_t base);
void anfi_lower_wait_all(anfi_low *L, size_t base); // all but the first `base` ones

/* ---- what to inline: fuse.c ---- */
/* For nodes in order (inputs first): bit i of the result says that node order[i] is fused into
 * its consumers. Linear; no work is repeated and no loop nest grows without bound. `in_place`: results may
 * take the place of parameters. `index`: room for a number of every node of the module, by its id;
 * its contents do not matter. */
uint64_t *anfi_fuse_plan(anfi_arena *a, size_t n, anf_node *const *order, uint32_t *index,
                         bool in_place);
static inline bool anfi_fuse_inlined(const uint64_t *plan, size_t i) {
  return plan[i / 64] >> (i % 64) & 1;
}

#endif
