// SPDX-License-Identifier: Apache-2.0
/* The hooks of ops, declared from the rows of op.def, and the helpers that hooks share. A hook returns
 * false after it recorded an error. */
#ifndef ANFI_OP_H
#define ANFI_OP_H

#include "ir/ir.h"

#define ANFI_MAX_BYTES (UINT64_C(1) << 47) // of one tensor: the address space of a process

/* ---- one prototype per hook of op.def; C allows a hook of several rows to be declared again ---- */
struct anfi_derive;
#define ANFI_INFER(hook)         bool anfi_infer_##hook(anfi_infer *q);
#define ANFI_EVAL(hook)          bool anfi_eval_##hook(anfi_eval *q);
#define ANFI_VJP(hook)           bool anfi_vjp_##hook(struct anfi_derive *q);
#define ANFI_BATCH(hook)         anf_node *anfi_batch_##hook(anfi_batch *b);
#define ANF_OP(name, hooks, ...) hooks
#include "ir/ops/op.def"
#undef ANF_OP
#undef ANFI_INFER
#undef ANFI_EVAL
#undef ANFI_VJP
#undef ANFI_BATCH

/* ---- attributes by type (attr.c): the schema has checked the types, so reading cannot fail ---- */
bool anfi_attr_given(const anf_value *v); // not None
int64_t anfi_attr_int(const anf_value *v);
bool anfi_attr_bool(const anf_value *v);
double anfi_attr_float(const anf_value *v);
anf_dtype anfi_attr_dtype(const anf_value *v);
bool anfi_attr_is(const anf_value *v, const char *s); // a string that equals s
/* Number of integers; at most `max` are stored. One integer is a list of one. */
size_t anfi_attr_ints(const anf_value *v, size_t max, int64_t *out);
bool anfi_axis_in(int64_t axis, size_t rank, size_t *out);      // negative axes count from the end
uint32_t anfi_axes_mask(const anf_value *axes, size_t rank);    // after the infer hook checked them
uint32_t anfi_reduced_axes(const anf_value *axis, size_t rank); // likewise; None: all axes
/* Length of the slice start:stop:step of `len` items; the first two attributes may be None. */
size_t anfi_slice(size_t len, anf_value *const *attr, int64_t *start, int64_t *step);
/* Likewise from integers; NULL: no bound. */
size_t anfi_slice_ints(size_t len, const int64_t *from, const int64_t *to, int64_t step,
                       int64_t *start);
/* Axis k of the result is axis perm[k] of x. False unless `axes` names every axis once. */
bool anfi_permutation(const anf_value *axes, size_t rank, size_t *perm);
/* Part i of Split along a dim of this size: [*from, *to). */
void anfi_split_part(const anf_value *sections, int64_t size, size_t i, int64_t *from, int64_t *to);
/* Source index of Pad for index i of 0..n or outside; -1: the constant. */
int64_t anfi_padded_from(const anf_value *mode, int64_t i, int64_t n);
/* Field names of MakeRecord: n different strings. */
bool anfi_record_names(anf_ctx *cx, anfi_loc loc, const anf_value *names, size_t n,
                       const anfi_str **out);
/* A field that a tensor lacks may be an operation: x.sum. */
void anfi_hint_method(anf_ctx *cx, const char *field);
bool anfi_record_no_field(anf_ctx *cx, anfi_loc loc, const anf_type *t,
                          const anf_value *field); // E0523, false
bool anfi_record_field(anf_ctx *cx, anfi_loc loc, const anf_type *t, const anf_value *field,
                       uint32_t *at);

/* ---- inference (infer.c): errors; always false ---- */
bool anfi_infer_fail(const anfi_infer *q, const char *why);  // "Op: why"
bool anfi_infer_no_tensor(const anfi_infer *q, size_t i);    // argument i
bool anfi_infer_bad_dtype(const anfi_infer *q, anf_dtype d); // the op does not take d
bool anfi_infer_bad_axis(const anfi_infer *q, int64_t axis, size_t rank);
bool anfi_infer_bad_size(const anfi_infer *q, int64_t size);           // of a window or dim
bool anfi_infer_bad_count(const anfi_infer *q, size_t rank);           // one number, or one per dim
bool anfi_infer_high_rank(const anfi_infer *q);                        // above ANF_MAX_RANK
bool anfi_infer_want(const anfi_infer *q, size_t i, const char *type); // for argument i
bool anfi_infer_mismatch(const anfi_infer *q, const anf_type *a, const anf_type *b);
bool anfi_infer_no_broadcast(const anfi_infer *q, const anf_type *a, const anf_type *b);

/* ---- inference: dims; below 0 is unknown ---- */
bool anfi_infer_agree(int64_t a, int64_t b);             // equal, as far as both are known
bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out); // two dims that broadcast
int64_t anfi_dims_add(int64_t a, int64_t b);             // saturates: such a type is too large
int64_t anfi_dims_mul(int64_t a, int64_t b);
int64_t anfi_dims_elements(const anf_type *t, size_t from, size_t to); // product of dims [from, to)

/* ---- inference: checks of arguments ---- */
static inline bool anfi_is_any(const anf_type *t) { return t->kind == ANF_TYPE_ANY; }
bool anfi_infer_given(const anfi_infer *q, size_t i);   // neither absent nor None
bool anfi_infer_tensors(anfi_infer *q);                 // all of them
bool anfi_infer_indices(const anfi_infer *q, size_t i); // integers
bool anfi_infer_writable(anfi_infer *q, size_t i);      // into argument 0: no wider class of dtype
bool anfi_infer_shape_is(const anfi_infer *q, size_t i, size_t rank,
                         const int64_t *dims);         // if given
bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d); // dtype of all arguments, which are tensors
/* Arguments [from, to) become elements of type d, which must hold those that are integers without a type. */
void anfi_infer_meet(anfi_infer *q, size_t from, size_t to, anf_dtype d);
/* The real dtype of the given arguments [from, to); integers give f64. */
bool anfi_infer_real(const anfi_infer *q, size_t from, size_t to, anf_dtype *out);

/* ---- inference: checks of attributes ---- */
bool anfi_infer_axis(const anfi_infer *q, const anf_value *v, size_t rank, size_t *out);
bool anfi_infer_axes(const anfi_infer *q, const anf_value *v, size_t rank, uint32_t *mask);
bool anfi_infer_shape_attr(const anfi_infer *q, const anf_value *v, size_t *rank, int64_t *dims);
bool anfi_infer_number_attr(const anfi_infer *q, const anf_value *v); // a scalar, no key

/* ---- inference: results ---- */
bool anfi_infer_is(anfi_infer *q, const anf_type *t); // always true
bool anfi_infer_result(anfi_infer *q, anf_dtype d, size_t rank, const int64_t *dims);
bool anfi_infer_broadcast(anfi_infer *q, anf_dtype d); // of the shapes of all arguments

/* ---- evaluation (eval.c) ---- */
bool anfi_eval_want(const anfi_eval *q, const char *want); // error: the op needs `want`; false
bool anfi_eval_give(anfi_eval *q, anf_value *v);           // the result is v, retained; true
anf_value *anfi_eval_given(const anfi_eval *q, size_t i);  // borrowed; NULL: absent or None

/* ---- box.c ---- */
/* Zeros like a boxed value are a box of that value and None, expanded when they are unboxed: a sum that
 * skips them costs O(1) at any depth of boxes. */
static inline bool anfi_box_is_zero(const anf_value *v) {
  return v->kind == ANF_VALUE_BOX && v->n == 2;
}
/* Type of a residual repeated per lane: a new axis, the last dim of `lanes`, the type of ResidualSpread's
 * second argument. */
const anf_type *anfi_residual_spread_type(anf_ctx *cx, const anf_type *t, const anf_type *lanes);

/* ---- quantise.c ---- */
/* The range of the integers, as reals of the type that is computed in; that type, of reals of type d. */
void anfi_quantise_range(anf_dtype code, bool wide, double *lo, double *hi);
anf_dtype anfi_quantise_dtype(anf_dtype d);
/* Rows of a product that reads weights of bytes as they are: more make it a product by kernels. */
enum { ANFI_FEW_ROWS = 4 };
/* Does it widen bytes that products read as they are? Of constants it stays, so that a weight stays one of bytes. */
bool anfi_widens_codes(anfi_opcode op, const anf_type *from, const anf_type *to);

/* ---- comm.c ---- */
struct anf_comm_call;
/* The communicator's call for the op, by its attributes. False: the op is no collective. */
bool anfi_collective(anf_ctx *cx, anfi_opcode op, anf_value *const *attr, struct anf_comm_call *k);
/* The finding for an anf_comm_why: its arguments are the name of an op, the rank and the milliseconds. */
anfi_code anfi_collective_code(unsigned why);

/* ---- einsum.c ---- */
enum { ANFI_EINSUM_LABELS = 52 + ANF_MAX_RANK };
typedef struct anfi_einsum_labels {
  uint8_t at[ANF_MAX_RANK];
} anfi_einsum_labels;
typedef struct anfi_einsum {
  uint32_t nlabel, nout; // the result's labels come first, in its order; the rest is summed
  int64_t dim[ANFI_EINSUM_LABELS];
  anfi_einsum_labels *label; // of each operand's dims
} anfi_einsum;
bool anfi_einsum_plan(anf_ctx *cx, anfi_loc loc, const anf_value *equation, size_t n,
                      const anf_type *const *in, anfi_einsum *plan);

/* ---- op_doc.c: docs/ops.md and docs/status.md ---- */
const char *anfi_lower_name(anfi_lower l);
void anfi_put_ops_markdown(anf_text *o, anf_ctx *cx);
void anfi_put_status_markdown(anf_text *o, anf_ctx *cx);

#endif
