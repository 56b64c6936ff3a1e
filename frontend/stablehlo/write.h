// SPDX-License-Identifier: Apache-2.0
/* Writing StableHLO text, by trace/flat.h. All sizes are known: a program is written for arguments of certain types. */
#ifndef ANFI_STABLEHLO_WRITE_H
#define ANFI_STABLEHLO_WRITE_H

#include "anfora/text.h"
#include "frontend/trace/flat.h"

typedef struct anfi_sw_own {
  anf_text *constants; // of the function that is written, before its ops
  anfi_map constant;   // text of a small constant, or value -> anfi_out
  size_t indent;       // of regions
} anfi_sw_own;
static inline anfi_sw_own *anfi_sw_own_of(const anfi_flat *w) { return (anfi_sw_own *)w->own; }

/* write_value.c: types, constants, and ops that many need */
const char *anfi_sw_type(anfi_flat *w, const anf_type *t);           // tensor<2x3xf32>
const char *anfi_sw_dtype(anfi_flat *w, anf_dtype d);                // NULL with an error: keys
const char *anfi_sw_ints(anfi_flat *w, size_t n, const int64_t *x);  // [1, 2]
const char *anfi_sw_array(anfi_flat *w, size_t n, const int64_t *x); // array<i64: 1, 2>
const char *anfi_sw_names(anfi_flat *w, const anfi_outs *x);         // %1, %2
const char *anfi_sw_types(anfi_flat *w, const anfi_outs *x);         // tensor<f32>, tensor<i64>
const anf_type *anfi_sw_tensor(anfi_flat *w, anf_dtype d, size_t rank, const int64_t *dims);
const char *anfi_sw_new_name(anfi_flat *w);
void anfi_sw_line(anfi_flat *w, const char *fmt, ...) ANFI_PRINTF(2, 3);
/* %N = an op, which ends with its types; a new value of type t */
const anfi_out *anfi_sw_put(anfi_flat *w, const anf_type *t, const char *fmt, ...)
    ANFI_PRINTF(3, 4);
const anfi_out *anfi_sw_constant(anfi_flat *w, const anf_value *v);  // NULL with an error
const anfi_out *anfi_sw_number(anfi_flat *w, anf_dtype d, double x); // a scalar
const anfi_out *anfi_sw_int(anfi_flat *w, anf_dtype d, int64_t x);
/* The least or greatest number of a type: -inf, -128, false */
const anfi_out *anfi_sw_limit(anfi_flat *w, anf_dtype d, bool least);
const anfi_out *anfi_sw_unary(anfi_flat *w, const char *op, const anfi_out *x);
const anfi_out *anfi_sw_binary(anfi_flat *w, const char *op, const anfi_out *a,
                               const anfi_out *b); // of one type
const anfi_out *anfi_sw_compare(anfi_flat *w, const char *how, const anfi_out *a,
                                const anfi_out *b);
const anfi_out *anfi_sw_select(anfi_flat *w, const anfi_out *c, const anfi_out *a,
                               const anfi_out *b);
const anfi_out *anfi_sw_iota(anfi_flat *w, const anf_type *t, size_t axis);
const anfi_out *anfi_sw_cast(anfi_flat *w, const anfi_out *x, anf_dtype d);
const anfi_out *anfi_sw_reshape(anfi_flat *w, const anfi_out *x, size_t rank, const int64_t *dims);
const anfi_out *anfi_sw_transpose(anfi_flat *w, const anfi_out *x, const int64_t *perm);
const anfi_out *anfi_sw_broadcast(anfi_flat *w, const anfi_out *x, size_t rank,
                                  const int64_t *dims); // as NumPy
const anfi_out *anfi_sw_slice(anfi_flat *w, const anfi_out *x, const int64_t *start,
                              const int64_t *stop, const int64_t *step);

/* write_flow.c */
const anfi_out *anfi_sw_call_function(anfi_flat *w, const anf_graph *g, const char *name,
                                      const anfi_outs *args);
const anfi_out *anfi_sw_choice(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args);
/* i of n branches as an i32, of which a negative one counts from the end. */
const anfi_out *anfi_sw_branch_number(anfi_flat *w, const anfi_out *i, size_t n);
const anfi_out *anfi_sw_loop(anfi_flat *w, const anf_node *n);

/* write_op.c: one op */
typedef struct anfi_sw_apply {
  anfi_flat *w;
  const anf_node *n;
} anfi_sw_apply;
const anfi_out *anfi_sw_op(anfi_flat *w, const anf_node *n);
anf_value *anfi_sw_attr(const anfi_sw_apply *a, const char *name); // NULL: it is computed
bool anfi_sw_true(const anfi_sw_apply *a, const char *name);
/* The axis that the attribute says, from 0; -1 where it is None */
int64_t anfi_sw_axis(const anfi_sw_apply *a, const char *name, size_t rank);
const anfi_out *anfi_sw_in(anfi_sw_apply *a, uint32_t i); // a tensor, or NULL with an error
const anfi_out *anfi_sw_in_as(anfi_sw_apply *a, uint32_t i, anf_dtype d);
anf_dtype anfi_sw_result_dtype(const anfi_sw_apply *a);

/* write_shape.c, write_product.c, write_index.c, write_window.c: NULL with `*taken` false where n is no such op */
const anfi_out *anfi_sw_shape_op(anfi_sw_apply *a, bool *taken);
const anfi_out *anfi_sw_product_op(anfi_sw_apply *a, bool *taken);
const anfi_out *anfi_sw_index_op(anfi_sw_apply *a, bool *taken);
const anfi_out *anfi_sw_window_op(anfi_sw_apply *a, bool *taken);
/* reduce over dims with the body of an op: add, maximum, .. */
const anfi_out *anfi_sw_reduce(anfi_flat *w, const anfi_out *x, const char *op,
                               const anfi_out *init, const anf_type *t, size_t n,
                               const int64_t *dims);

#endif
