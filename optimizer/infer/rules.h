// SPDX-License-Identifier: Apache-2.0
/* What the worklist (infer.c) and the rules of single nodes (ops/, generate.c) ask of each other. */
#ifndef ANFI_INFER_RULES_H
#define ANFI_INFER_RULES_H

#include "ir/ops/array/getitem.h"
#include "optimizer/infer/infer.h"

/* infer.c: NULL after an error */
const anfi_abs *anfi_infer_call(anfi_inference *q, const anfi_abs *f, size_t n,
                                const anfi_abs *const *args, anf_node *at);
const anfi_abs *anfi_infer_code(anfi_inference *q, const anfi_abs *code, size_t n,
                                const anfi_abs *const *args, anf_node *at);
/* A node of s once more. */
const anfi_abs *anfi_infer_node(anfi_inference *q, const anfi_spec *s, anf_node *n);
const char *anfi_show_abs(anfi_inference *q, const anfi_abs *a); // in the arena, for messages
void anfi_infer_trace(
    anfi_inference *q); // notes: the chain of specialisations and their call sites
void anfi_infer_definition(anfi_inference *q, const anf_graph *g); // a note: where g is, if known

/* declared.c: `a` as a declared type has it, or NULL if it does not fit. One fitting for a signature. */
typedef struct anfi_size_of_dim {
  int64_t dim, size; // a name's number, and a size, or another name's number, or unknown
} anfi_size_of_dim;
typedef struct anfi_fitting {
  anfi_inference *q;
  ANFI_VEC(anfi_size_of_dim) sizes;
  bool converted; // a number took a type that is not its own
  bool open;      // a size that is not known before the program runs would have to be compared
  bool unsure;    // it fits if numbers or sizes are those that it takes
  bool choosing;  // whether it fits chooses a function: numbers of several types are unsure
  const anf_type *outside; // the type would do, a constant is outside
} anfi_fitting;
/* Does every function that `a` may be take n arguments? Primitives are not checked. */
bool anfi_abs_takes_n(const anfi_abs *a, size_t n);
const anfi_abs *anfi_abs_declared(anfi_fitting *f, const anfi_abs *a, const anf_type *type);

/* infer.c: the same for the result of s, NULL with an error if it does not fit. */
const anfi_abs *anfi_fit_result(anfi_inference *q, const anfi_spec *s, const anfi_abs *r);

/* stop.c: the error just made, at node `end` of s, becomes that of an assertion which fails before it, if one is known to. */
void anfi_stop_before(anfi_inference *q, anfi_spec *s, uint32_t end);

/* ops/apply.c: a primitive applied to `n` abs (attribute nodes' included) */
const anfi_abs *anfi_infer_apply(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs,
                                 size_t n, const anfi_abs *const *in, anf_node *at);

/* The items that x[...] takes of a tuple in[0]: one, or a slice. */
typedef struct anfi_chosen {
  bool slice;
  size_t n;
  int64_t first, step;
} anfi_chosen;
bool anfi_tuple_parts(anfi_inference *q, const anf_value *spec, size_t n, const anfi_abs *const *in,
                      anf_node *at, anfi_chosen *out);

/* items.c: what an op that rearranges tuples and records makes its result of: items of inputs, or an
 * input as a whole. False: it is no such op, or the inputs do not fit. */
enum { ANFI_WHOLE = -1 };
typedef struct anfi_item {
  size_t input;
  int64_t item;
} anfi_item;
typedef ANFI_VEC(anfi_item) anfi_items;
bool anfi_find_items(anfi_inference *q, anfi_opcode op, anf_value *const *attr, size_t n,
                     const anfi_abs *const *in, anfi_items *to);

/* Is it a constant integer? */
static inline bool anfi_abs_int(const anfi_abs *a, int64_t *v) {
  return a->kind == ANFI_ABS_DATA && a->value && anfi_value_is_int(a->value, v);
}

/* window.c: to - from, two nodes of the spec, or -1 if it is not known or negative */
int64_t anfi_distance(anfi_inference *q, const anfi_spec *s, const anf_node *from,
                      const anf_node *to);

/* ops/bounds.c: x[i:i+3] takes `size` elements from the input `start` on first. They must be inside. */
typedef struct anfi_window {
  int64_t axis, size;
  size_t start;
} anfi_window;
/* Known slices in the subscript of a tensor. */
typedef struct anfi_bounds {
  anf_value *subscript; // with known bounds filled in, until the frame ends; or NULL
  bool *gone;           // inputs that the subscript does not refer to any more
  bool open;            // there are slices whose size is not known
  size_t nwindow;
  anfi_window window[ANF_MAX_RANK];
} anfi_bounds;
/* False if nothing is. `spec`: where `at` is. */
bool anfi_find_bounds(anfi_inference *q, const anfi_spec *spec, const anf_value *subscript,
                      size_t n, const anfi_abs *const *in, const anf_node *at, anfi_bounds *b);

/* box.c: puts what a code of g binds in boxes where it is to. The parameter that one does not fit, or
 * NULL. */
const anf_node *anfi_box_bound(anfi_abs_table *t, const anf_graph *g, size_t n,
                               const anfi_abs **bound);

/* generate.c: calls of functions by HyperMap, Map, MultiType, Loop */
bool anfi_op_is_meta(anfi_opcode op); // calls functions that it is given
const anfi_abs *anfi_infer_meta(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs,
                                size_t n, const anfi_abs *const *in, anf_node *at);

/* transform.c: Grad and the other transforms */
bool anfi_op_makes_function(anfi_opcode op); // a function value with an environment
bool anfi_op_transforms_now(anfi_opcode op); // a value at once, as Vjp
/* False, with an error, if what op transforms, the first of `in`, is data. */
bool anfi_is_of_function(anfi_inference *q, anfi_opcode op, size_t n, const anfi_abs *const *in,
                         anf_node *at);
/* Is the code grad(f), not Grad itself, whose call makes the function? */
bool anfi_is_transformed(anf_ctx *cx, const anfi_abs *code);
/* The result of calling, with args, the function that op makes of `bound`. */
const anfi_abs *anfi_infer_transformed(anfi_inference *q, const anfi_abs *code, size_t n,
                                       const anfi_abs *const *args, anf_node *at);

#endif
