// SPDX-License-Identifier: Apache-2.0
/* Shared by transform.c, transform_jac.c, _map.c and _rule.c. A transform is evaluated like a
 * meta-graph: one walk, on abs to infer, on nodes as well to emit. */
#ifndef ANFI_INFER_TRANSFORM_H
#define ANFI_INFER_TRANSFORM_H

#include "optimizer/infer/emit.h"

typedef anfi_walk walk;
typedef anfi_arg part;

/* transform.c */
static inline part failed(void) { return (part){NULL, NULL}; }
part anfi_transform_fail(const walk *w, anfi_code code, const char *a, const char *b);
part anfi_part_tuple(const walk *w, size_t n, const part *items);
part anfi_part_record(const walk *w, const anf_type *names, size_t n, const part *items);
part anfi_part_item(const walk *w, part t, size_t i); // of a tuple or a record
part *anfi_parts_of(anfi_inference *q, size_t n, const anfi_abs *const *abs,
                    anf_node *const *in); // `in` may be NULL
bool anfi_is_bottom(part p);
/* BOTTOM for a value with a BOTTOM inside: a derivative's type depends on the whole value. */
const anfi_abs *anfi_whole_abs(const walk *w, const anfi_abs *a);
/* The least data of the type of an abs. */
const anfi_abs *anfi_plain_abs(const walk *w, const anfi_abs *a);
/* Whether data of `a` can stand where `to` is asked for: weak numbers and unknown extents fit more. */
bool anfi_abs_takes(const walk *w, const anfi_abs *to, const anfi_abs *a);
const anfi_abs *anfi_pair_abs(const walk *w, const anfi_abs *a, const anfi_abs *b);
/* The result of f for args; NULL after an error. */
const anfi_abs *anfi_part_value_abs(const walk *w, part f, size_t n, const part *args);
/* The abs of gradients of the arguments in pos; NULL after an error. */
const anfi_abs *anfi_gradients_abs(const walk *w, const part *args, size_t npos, const size_t *pos);
/* 0, 1, .. n - 1 */
size_t *anfi_all_positions(const walk *w, size_t n);
/* The data of f, the arguments, and `more`, as inputs of Derive. */
anf_node **anfi_derive_inputs(const walk *w, part f, size_t n, const part *args, size_t nmore,
                              const part *more);
/* Positions that `wrt` names among n arguments; `single`: it is no tuple. */
bool anfi_positions(const walk *w, anfi_opcode op, const anfi_abs *f, size_t n,
                    const anf_value *wrt, size_t *npos, size_t **pos, bool *single);
/* (value, (gradients)) of f for a gradient dy of the value, or of its item `item`. */
part anfi_part_vjp(const walk *w, part f, size_t n, const part *args, size_t npos,
                   const size_t *pos, int64_t item, part dy);
/* (value, tangent), with tangents of the arguments in pos. */
part anfi_part_jvp(const walk *w, part f, size_t n, const part *args, size_t npos,
                   const size_t *pos, const part *tangents);

/* A Derive node: the target's data and arguments are in[0..n). Takes the reference of `axes`. */
typedef struct anfi_derived {
  const char *kind;
  size_t nwrt;
  const size_t *wrt; // counted among the target's parameters after the first
  int64_t item;
  anf_value *axes; // NULL: none
  anf_value *name; // of the batch, borrowed; NULL: none
} anfi_derived;
anf_node *anfi_emit_derive(anfi_emit *e, const anfi_derived *d, anf_graph *target, size_t n,
                           anf_node *const *in, const anf_type *type);

/* transform_map.c: axes of a batch, one for each part of arguments or results that is no tuple and no
 * record; -1: none */
typedef ANFI_VEC(int64_t) anfi_axes;
void anfi_no_axes(const walk *w, const anf_type *t, anfi_axes *axes); // adds those of t
anf_value *anfi_axes_value(const walk *w, const anfi_axes *in, const anfi_axes *out);
part anfi_part_vmap(const walk *w, const anfi_attrs *attrs, part f, size_t n, const part *args);
/* transform_jac.c */
part anfi_part_jacobian(const walk *w, bool forward, anfi_opcode op, part f, size_t n,
                        const part *args, size_t npos, const size_t *pos, bool single, bool aux);

/* transform_rule.c */
part anfi_part_checkpoint(const walk *w, const anfi_attrs *attrs, part f, size_t n,
                          const part *args);
/* in: f, fwd, bwd */
part anfi_part_custom_vjp(const walk *w, const part *in, size_t n, const part *args);
/* in: f, rule((primals), (tangents)) -> (value, tangent) */
part anfi_part_custom_jvp(const walk *w, const part *in, size_t n, const part *args);

#endif
