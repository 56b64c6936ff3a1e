// SPDX-License-Identifier: Apache-2.0
/* The hooks that rows of op.def name. */
#ifndef ANFI_OP_H
#define ANFI_OP_H

#include "ir/ir.h"

#define ANFI_MAX_BYTES (UINT64_C(1) << 47) // of one tensor: what an address can reach

/* infer.c: what hooks share */
bool anfi_infer_fail(const anfi_infer *q, const char *why); // "Op: why"
bool anfi_infer_tensors(anfi_infer *q);                     // every argument must be a tensor
bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out);    // two dims that broadcast
bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d);      // of all arguments, which are tensors
bool anfi_infer_broadcast(anfi_infer *q, anf_dtype d);      // sets the result: all shapes broadcast

/* infer.c: families of elementwise ops and of values without shape */
bool anfi_infer_arith(anfi_infer *q);   // promoted type, broadcast shape
bool anfi_infer_divide(anfi_infer *q);  // as arith, integers give f64
bool anfi_infer_compare(anfi_infer *q); // bool, broadcast shape
bool anfi_infer_number(anfi_infer *q);  // as arith, but not for bools
bool anfi_infer_abs(anfi_infer *q);     // as arith, complex gives real
bool anfi_infer_make_complex(anfi_infer *q);
bool anfi_infer_where(anfi_infer *q);
bool anfi_infer_switch(anfi_infer *q);
bool anfi_infer_tuple(anfi_infer *q);
bool anfi_infer_tuple_get(anfi_infer *q);
bool anfi_infer_any(anfi_infer *q); // not known before the program runs

/* attr.c: attributes by type; the schema has checked them */
bool anfi_attr_given(const anf_value *v); // not None
int64_t anfi_attr_int(const anf_value *v);
bool anfi_attr_bool(const anf_value *v);
double anfi_attr_float(const anf_value *v);
anf_dtype anfi_attr_dtype(const anf_value *v);
bool anfi_attr_is(const anf_value *v, const char *s); // a string that equals s
/* How many integers; at most `max` are stored. One integer is a list of one. */
size_t anfi_attr_ints(const anf_value *v, size_t max, int64_t *out);
/* Arguments that may be absent, or None. */
bool anfi_infer_given(const anfi_infer *q, size_t i);
anf_value *anfi_eval_given(const anfi_eval *q, size_t i); // borrowed, or NULL
/* Negative axes count from the end. */
bool anfi_axis_in(int64_t axis, size_t rank, size_t *out);
bool anfi_infer_axis(const anfi_infer *q, const anf_value *v, size_t rank, size_t *out);
bool anfi_infer_axes(const anfi_infer *q, const anf_value *v, size_t rank, uint32_t *mask);

/* Sets the result; E0507 when its rank is above 16. A dim may be unknown. */
bool anfi_infer_result(anfi_infer *q, anf_dtype d, size_t rank, const int64_t *dims);
/* A shape given as an attribute: dims that are not negative. */
bool anfi_infer_shape_attr(const anfi_infer *q, const anf_value *v, size_t *rank, int64_t *dims);
bool anfi_infer_number_attr(const anfi_infer *q, const anf_value *v); // a scalar, no key

/* infer_reduce.c, eval_reduce.c */
uint32_t anfi_reduced_axes(const anf_value *axis,
                           size_t rank); // None: all; checked by the infer hook
bool anfi_infer_sum(anfi_infer *q);
bool anfi_infer_mean(anfi_infer *q);
bool anfi_infer_spread(anfi_infer *q);
bool anfi_infer_extreme(anfi_infer *q);
bool anfi_infer_arg_extreme(anfi_infer *q);
bool anfi_infer_any_all(anfi_infer *q);
bool anfi_infer_cumsum(anfi_infer *q);
bool anfi_infer_cummax(anfi_infer *q);
bool anfi_infer_sum_to(anfi_infer *q);
bool anfi_infer_unreduce(anfi_infer *q);
bool anfi_eval_reduce(anfi_eval *q);
bool anfi_eval_cumulate(anfi_eval *q);
bool anfi_eval_sum_to(anfi_eval *q);
bool anfi_eval_unreduce(anfi_eval *q);

/* infer_shape.c, eval_shape.c */
bool anfi_permutation(const anf_value *axes, size_t rank, size_t *perm);
void anfi_split_part(const anf_value *sections, int64_t size, size_t i, int64_t *from, int64_t *to);
bool anfi_infer_shape(anfi_infer *q);
bool anfi_infer_rank(anfi_infer *q);
bool anfi_infer_len(anfi_infer *q);
bool anfi_infer_reshape(anfi_infer *q);
bool anfi_infer_reshape_like(anfi_infer *q);
bool anfi_infer_flatten(anfi_infer *q);
bool anfi_infer_transpose(anfi_infer *q);
bool anfi_infer_swap_axes(anfi_infer *q);
bool anfi_infer_broadcast_to(anfi_infer *q);
bool anfi_infer_broadcast_like(anfi_infer *q);
bool anfi_infer_expand_dims(anfi_infer *q);
bool anfi_infer_squeeze(anfi_infer *q);
bool anfi_infer_concat(anfi_infer *q);
bool anfi_infer_stack(anfi_infer *q);
bool anfi_infer_split(anfi_infer *q);
bool anfi_infer_unstack(anfi_infer *q);
bool anfi_infer_pad(anfi_infer *q);
bool anfi_infer_tile(anfi_infer *q);
bool anfi_infer_repeat(anfi_infer *q);
bool anfi_infer_flip(anfi_infer *q);
bool anfi_infer_roll(anfi_infer *q);
bool anfi_infer_tri(anfi_infer *q);
bool anfi_infer_diag(anfi_infer *q);
bool anfi_eval_shape(anfi_eval *q);
bool anfi_eval_rank(anfi_eval *q);
bool anfi_eval_size(anfi_eval *q);
bool anfi_eval_len(anfi_eval *q);
bool anfi_eval_copy(anfi_eval *q);
bool anfi_eval_transpose(anfi_eval *q);
bool anfi_eval_swap_axes(anfi_eval *q);
bool anfi_eval_broadcast_to(anfi_eval *q);
bool anfi_eval_flip(anfi_eval *q);
bool anfi_eval_diag(anfi_eval *q);
bool anfi_eval_concat(anfi_eval *q);
bool anfi_eval_stack(anfi_eval *q);
bool anfi_eval_split(anfi_eval *q);
bool anfi_eval_unstack(anfi_eval *q);
bool anfi_eval_pad(anfi_eval *q);
/* Where index i, which may be outside 0..n, is taken from; -1 for the constant. */
int64_t anfi_padded_from(const anf_value *mode, int64_t i, int64_t n);
bool anfi_eval_tile(anfi_eval *q);
bool anfi_eval_repeat(anfi_eval *q);
bool anfi_eval_roll(anfi_eval *q);
bool anfi_eval_tri(anfi_eval *q);

/* infer_index.c, eval_index.c */
bool anfi_infer_slice(anfi_infer *q);
bool anfi_infer_slice_update(anfi_infer *q);
bool anfi_infer_take(anfi_infer *q);
bool anfi_infer_index_write(anfi_infer *q);
bool anfi_infer_take_along(anfi_infer *q);
bool anfi_infer_write_along(anfi_infer *q);
bool anfi_infer_gather_nd(anfi_infer *q);
bool anfi_infer_scatter_nd(anfi_infer *q);
bool anfi_infer_dynamic_slice(anfi_infer *q);
bool anfi_infer_dynamic_update_slice(anfi_infer *q);
bool anfi_infer_one_hot(anfi_infer *q);
bool anfi_eval_slice(anfi_eval *q);
bool anfi_eval_slice_update(anfi_eval *q);
bool anfi_eval_take(anfi_eval *q);
bool anfi_eval_index_write(anfi_eval *q);
bool anfi_eval_take_along(anfi_eval *q);
bool anfi_eval_write_along(anfi_eval *q);
bool anfi_eval_gather_nd(anfi_eval *q);
bool anfi_eval_scatter_nd(anfi_eval *q);
bool anfi_eval_dynamic_slice(anfi_eval *q);
bool anfi_eval_dynamic_update_slice(anfi_eval *q);
bool anfi_eval_one_hot(anfi_eval *q);

/* infer_make.c, eval_make.c */
bool anfi_infer_cast(anfi_infer *q);
bool anfi_infer_cast_like(anfi_infer *q);
bool anfi_infer_fill(anfi_infer *q);
bool anfi_infer_full(anfi_infer *q);
bool anfi_infer_like(anfi_infer *q);
bool anfi_infer_full_like(anfi_infer *q);
bool anfi_infer_eye(anfi_infer *q);
bool anfi_infer_arange(anfi_infer *q);
bool anfi_infer_linspace(anfi_infer *q);
bool anfi_eval_cast(anfi_eval *q);
bool anfi_eval_fill(anfi_eval *q);
bool anfi_eval_full(anfi_eval *q);
bool anfi_eval_full_like(anfi_eval *q);
bool anfi_eval_eye(anfi_eval *q);
bool anfi_eval_arange(anfi_eval *q);
bool anfi_eval_linspace(anfi_eval *q);

/* A type as text in the frame's scratch, for messages. */
const char *anfi_type_text(anf_ctx *cx, const anf_type *t);
const char *anfi_value_text(anf_ctx *cx, const anf_value *v);

/* infer_control.c: functions, tuples and records */
bool anfi_infer_same(anfi_infer *q); // the type of the first argument
bool anfi_infer_none(anfi_infer *q);
bool anfi_infer_assert(anfi_infer *q);
bool anfi_infer_host(anfi_infer *q); // host.c
bool anfi_eval_host(anfi_eval *q);   // host_call.c
bool anfi_infer_switch_layer(anfi_infer *q);
bool anfi_infer_undef(anfi_infer *q);
bool anfi_infer_box(anfi_infer *q);
bool anfi_infer_tuple_len(anfi_infer *q);
bool anfi_infer_tuple_set(anfi_infer *q);
bool anfi_infer_tuple_slice(anfi_infer *q);
bool anfi_infer_tuple_concat(anfi_infer *q);
bool anfi_infer_record(anfi_infer *q);
bool anfi_infer_record_get(anfi_infer *q);
/* infer_getitem.c, eval_getitem.c: what applies to tensors, tuples and records alike */
bool anfi_infer_get_item(anfi_infer *q);
bool anfi_infer_get_field(anfi_infer *q);
bool anfi_eval_get_item(anfi_eval *q);
bool anfi_eval_get_field(anfi_eval *q);
bool anfi_infer_record_set(anfi_infer *q);
/* Length of the slice start:stop:step (attributes; the first two may be None) of `len` items. */
/* The same with the step given, and NULL for an absent bound. */
size_t anfi_slice_ints(size_t len, const int64_t *from, const int64_t *to, int64_t step,
                       int64_t *start);
size_t anfi_slice(size_t len, anf_value *const *attr, int64_t *start, int64_t *step);
/* The field names of MakeRecord: n different strings. */
bool anfi_record_names(anf_ctx *cx, anfi_loc loc, const anf_value *names, size_t n,
                       const anfi_str **out);
bool anfi_record_field(anf_ctx *cx, anfi_loc loc, const anf_type *t, const anf_value *field,
                       uint32_t *at);

/* eval_control.c */
bool anfi_eval_identity(anfi_eval *q);
bool anfi_eval_switch(anfi_eval *q);
bool anfi_eval_switch_layer(anfi_eval *q);
bool anfi_eval_undef(anfi_eval *q);
bool anfi_eval_box(anfi_eval *q); // eval_kept.c
bool anfi_eval_unbox(anfi_eval *q);
bool anfi_eval_kept_add(anfi_eval *q);
bool anfi_eval_kept_zeros(anfi_eval *q);
bool anfi_eval_kept_select(anfi_eval *q); // eval_kept_lanes.c
bool anfi_eval_kept_spread(anfi_eval *q);
/* Zeros like what a box holds are a box with that and None, made as soon as it is taken out: so they cost
 * nothing where a sum passes over them, however deep the box is. */
static inline bool anfi_box_is_zero(const anf_value *v) {
  return v->kind == ANF_VALUE_BOX && v->n == 2;
}
/* The type of what is kept as one for each lane: `lanes` is the type of KeptSpread's. */
const anf_type *anfi_kept_spread_type(anf_ctx *cx, const anf_type *t, const anf_type *lanes);
bool anfi_eval_partial(anfi_eval *q);
bool anfi_eval_assert(anfi_eval *q);
bool anfi_eval_tuple(anfi_eval *q);
bool anfi_eval_tuple_get(anfi_eval *q);
bool anfi_eval_tuple_set(anfi_eval *q);
bool anfi_eval_tuple_len(anfi_eval *q);
bool anfi_eval_tuple_slice(anfi_eval *q);
bool anfi_eval_tuple_concat(anfi_eval *q);
bool anfi_eval_record(anfi_eval *q);
bool anfi_eval_record_get(anfi_eval *q);
bool anfi_eval_record_set(anfi_eval *q);

/* eval_array.c: tensors as arrays of one wide type; kernels round once when they store */
typedef enum {
  ANFI_WIDE_REAL,
  ANFI_WIDE_INT,
  ANFI_WIDE_COMPLEX
} anfi_wide; // double, uint64_t, pairs
anfi_wide anfi_wide_of(anf_dtype d);
double *anfi_load_f64(anfi_arena *a, const anf_value *v);
uint64_t *anfi_load_u64(anfi_arena *a, const anf_value *v);
double *anfi_load_complex(anfi_arena *a, const anf_value *v);
void *anfi_load(anfi_arena *a, const anf_value *v, anfi_wide w);
void anfi_store_f64(anf_value *v, const double *from);
void anfi_store(anf_value *v, const void *from, anfi_wide w);
/* A tensor seen as [outer, n, inner] around one axis. */
void anfi_split_axis(const anf_type *t, size_t axis, size_t *outer, size_t *n, size_t *inner);

/* infer_contract.c, eval_contract.c */
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
bool anfi_infer_matmul(anfi_infer *q);
bool anfi_infer_linear(anfi_infer *q);
bool anfi_infer_einsum(anfi_infer *q);
bool anfi_eval_matmul(anfi_eval *q);
bool anfi_eval_linear(anfi_eval *q);
bool anfi_eval_einsum(anfi_eval *q);

/* infer_nn.c: what hooks of neural-network ops share */
/* The result's real type, of the arguments `which` that are given; integers give f64. */
bool anfi_infer_real_dtype(const anfi_infer *q, size_t n, const size_t *which, anf_dtype *out);
bool anfi_infer_agree(int64_t a, int64_t b); // equal, as far as both are known
bool anfi_infer_shape_is(const anfi_infer *q, size_t i, size_t rank, const int64_t *dims);
bool anfi_infer_softmax(anfi_infer *q);
bool anfi_infer_cross_entropy(anfi_infer *q);
bool anfi_infer_layer_norm(anfi_infer *q);
bool anfi_infer_batch_norm(anfi_infer *q);
bool anfi_infer_batch_norm_train(anfi_infer *q);
bool anfi_infer_group_norm(anfi_infer *q);
bool anfi_infer_attention(anfi_infer *q);
bool anfi_infer_embedding(anfi_infer *q);

/* eval_group.c: element k of group i is at base[i] + at[k]; groups and their elements in row-major
 * order */
typedef struct anfi_groups {
  size_t count, size;
  size_t *base, *at;
} anfi_groups;
anfi_groups anfi_groups_of(anfi_arena *a, const anf_type *t,
                           uint32_t mask);                   // of axes within a group
uint32_t anfi_axes_mask(const anf_value *axes, size_t rank); // checked by the infer hook

/* eval_softmax.c */
bool anfi_eval_softmax(anfi_eval *q);
bool anfi_eval_log_softmax(anfi_eval *q);
bool anfi_eval_cross_entropy(anfi_eval *q);
bool anfi_eval_attention(anfi_eval *q);
bool anfi_eval_embedding(anfi_eval *q);

/* eval_norm.c */
bool anfi_eval_layer_norm(anfi_eval *q);
bool anfi_eval_rms_norm(anfi_eval *q);
bool anfi_eval_l2_normalize(anfi_eval *q);
bool anfi_eval_batch_norm(anfi_eval *q);
bool anfi_eval_batch_norm_train(anfi_eval *q);
bool anfi_eval_group_norm(anfi_eval *q);
bool anfi_eval_instance_norm(anfi_eval *q);

/* infer_conv.c, infer_pool.c; eval_conv.c, eval_pool.c: windows are in window.h */
bool anfi_infer_conv(anfi_infer *q);
bool anfi_infer_pool(anfi_infer *q);
bool anfi_infer_max_pool_grad(anfi_infer *q);
bool anfi_infer_max_pool_pick(anfi_infer *q);
bool anfi_infer_mean_pool_grad(anfi_infer *q);
bool anfi_infer_resize(anfi_infer *q);
bool anfi_infer_resize_grad(anfi_infer *q);
bool anfi_eval_conv(anfi_eval *q);
bool anfi_eval_conv_grad_input(anfi_eval *q); // and transposes
bool anfi_eval_conv_grad_weight(anfi_eval *q);
bool anfi_eval_max_pool(anfi_eval *q);
bool anfi_eval_max_pool_grad(anfi_eval *q);
bool anfi_eval_max_pool_pick(anfi_eval *q);
bool anfi_eval_mean_pool(anfi_eval *q);
bool anfi_eval_mean_pool_grad(anfi_eval *q);
bool anfi_eval_resize(anfi_eval *q);
bool anfi_eval_resize_grad(anfi_eval *q);

/* op_doc.c: docs/ops.md and docs/status.md */
const char *anfi_lower_name(anfi_lower l);
void anfi_put_ops_markdown(anf_text *o, anf_ctx *cx);
void anfi_put_status_markdown(anf_text *o, anf_ctx *cx);

/* infer_random.c, eval_random.c */
bool anfi_infer_key(anfi_infer *q);
bool anfi_infer_split_key(anfi_infer *q);
bool anfi_infer_fold_in(anfi_infer *q);
bool anfi_infer_random_bits(anfi_infer *q);
bool anfi_infer_random_real(anfi_infer *q);
bool anfi_infer_rand_int(anfi_infer *q);
bool anfi_infer_bernoulli(anfi_infer *q);
bool anfi_infer_permutation(anfi_infer *q);
bool anfi_infer_shuffle(anfi_infer *q);
bool anfi_infer_categorical(anfi_infer *q);
bool anfi_infer_dropout(anfi_infer *q);
bool anfi_eval_key(anfi_eval *q);
bool anfi_eval_split_key(anfi_eval *q);
bool anfi_eval_fold_in(anfi_eval *q);
bool anfi_eval_random_bits(anfi_eval *q);
bool anfi_eval_uniform(anfi_eval *q);
bool anfi_eval_normal(anfi_eval *q);
bool anfi_eval_rand_int(anfi_eval *q);
bool anfi_eval_bernoulli(anfi_eval *q);
bool anfi_eval_permutation(anfi_eval *q);
bool anfi_eval_shuffle(anfi_eval *q);
bool anfi_eval_categorical(anfi_eval *q);
bool anfi_eval_dropout(anfi_eval *q);

/* eval_sort.c, hooks of both kinds */
size_t *anfi_stable_order(anfi_arena *a, size_t n, bool (*before)(const void *user, size_t, size_t),
                          const void *user);
bool anfi_infer_sort(anfi_infer *q);
bool anfi_infer_topk(anfi_infer *q);
bool anfi_infer_search_sorted(anfi_infer *q);
bool anfi_infer_bincount(anfi_infer *q);
bool anfi_eval_sort(anfi_eval *q);
bool anfi_eval_argsort(anfi_eval *q);
bool anfi_eval_topk(anfi_eval *q);
bool anfi_eval_search_sorted(anfi_eval *q);
bool anfi_eval_bincount(anfi_eval *q);

/* eval_scan.c, hooks of both kinds */
bool anfi_infer_linear_scan(anfi_infer *q);
bool anfi_eval_linear_scan(anfi_eval *q);
bool anfi_infer_polygamma(anfi_infer *q);
bool anfi_eval_polygamma(anfi_eval *q);

/* eval_linalg.c, hooks of both kinds */
bool anfi_infer_square(anfi_infer *q);
bool anfi_infer_det(anfi_infer *q);
bool anfi_infer_solve(anfi_infer *q);
bool anfi_eval_cholesky(anfi_eval *q);
bool anfi_eval_det(anfi_eval *q);
bool anfi_eval_inverse(anfi_eval *q);
bool anfi_eval_solve(anfi_eval *q);
bool anfi_eval_triangular_solve(anfi_eval *q);

/* autodiff/vjp_*.c: hooks of the column `vjp` */
struct anfi_derive;
bool anfi_vjp_abs(struct anfi_derive *q);
bool anfi_vjp_power(struct anfi_derive *q);
bool anfi_vjp_gelu(struct anfi_derive *q);
bool anfi_vjp_softsign(struct anfi_derive *q);
bool anfi_vjp_concat(struct anfi_derive *q);
bool anfi_vjp_stack(struct anfi_derive *q);
bool anfi_vjp_split(struct anfi_derive *q);
bool anfi_vjp_unstack(struct anfi_derive *q);
bool anfi_vjp_pad(struct anfi_derive *q);
bool anfi_vjp_tile(struct anfi_derive *q);
bool anfi_vjp_repeat(struct anfi_derive *q);
bool anfi_vjp_roll(struct anfi_derive *q);
bool anfi_vjp_diag(struct anfi_derive *q);
bool anfi_vjp_transpose(struct anfi_derive *q);
bool anfi_vjp_get_field(struct anfi_derive *q);
bool anfi_vjp_get_item(struct anfi_derive *q);
bool anfi_vjp_write(struct anfi_derive *q);
bool anfi_vjp_shuffle(struct anfi_derive *q);
bool anfi_vjp_cumsum(struct anfi_derive *q);
bool anfi_vjp_cumprod(struct anfi_derive *q);
bool anfi_vjp_cumextreme(struct anfi_derive *q);
bool anfi_vjp_prod(struct anfi_derive *q);
bool anfi_vjp_linear_scan(struct anfi_derive *q);
bool anfi_vjp_matmul(struct anfi_derive *q);
bool anfi_vjp_linear(struct anfi_derive *q);
bool anfi_vjp_einsum(struct anfi_derive *q);
bool anfi_vjp_layer_norm(struct anfi_derive *q);
bool anfi_vjp_rms_norm(struct anfi_derive *q);
bool anfi_vjp_l2_normalize(struct anfi_derive *q);
bool anfi_vjp_batch_norm(struct anfi_derive *q);
bool anfi_vjp_batch_norm_train(struct anfi_derive *q);
bool anfi_vjp_group_norm(struct anfi_derive *q);
bool anfi_vjp_cross_entropy(struct anfi_derive *q);
bool anfi_vjp_attention(struct anfi_derive *q);
bool anfi_vjp_conv_grad_input(struct anfi_derive *q);
bool anfi_vjp_conv_grad_weight(struct anfi_derive *q);
bool anfi_vjp_pool_grad(struct anfi_derive *q);
bool anfi_vjp_resize_grad(struct anfi_derive *q);
bool anfi_vjp_max_pool_grad(struct anfi_derive *q);
bool anfi_vjp_global_max_pool(struct anfi_derive *q);
bool anfi_vjp_cholesky(struct anfi_derive *q);
bool anfi_vjp_host(struct anfi_derive *q);
bool anfi_vjp_det(struct anfi_derive *q);
bool anfi_vjp_triangular_solve(struct anfi_derive *q);
bool anfi_vjp_polygamma(struct anfi_derive *q);

/* autodiff/batch*.c: rules of vmap */
anf_node *anfi_batch_axes(anfi_batch *b);
anf_node *anfi_batch_axis(anfi_batch *b);
anf_node *anfi_batch_roll(anfi_batch *b);
anf_node *anfi_batch_transpose(anfi_batch *b);
anf_node *anfi_batch_swap_axes(anfi_batch *b);
anf_node *anfi_batch_get_field(anfi_batch *b);
anf_node *anfi_batch_flatten(anfi_batch *b);
anf_node *anfi_batch_squeeze(anfi_batch *b);
anf_node *anfi_batch_reshape(anfi_batch *b);
anf_node *anfi_batch_reshape_like(anfi_batch *b);
anf_node *anfi_batch_broadcast_to(anfi_batch *b);
anf_node *anfi_batch_broadcast_like(anfi_batch *b);
anf_node *anfi_batch_full(anfi_batch *b);
anf_node *anfi_batch_full_like(anfi_batch *b);
anf_node *anfi_batch_like(anfi_batch *b);
anf_node *anfi_batch_sum_to(anfi_batch *b);
anf_node *anfi_batch_pad(anfi_batch *b);
anf_node *anfi_batch_tile(anfi_batch *b);
anf_node *anfi_batch_diag(anfi_batch *b);
anf_node *anfi_batch_take(anfi_batch *b);
anf_node *anfi_batch_embedding(anfi_batch *b);
anf_node *anfi_batch_index_write(anfi_batch *b);
anf_node *anfi_batch_gather_nd(anfi_batch *b);
anf_node *anfi_batch_scatter_nd(anfi_batch *b);
anf_node *anfi_batch_slice_update(anfi_batch *b);
anf_node *anfi_batch_dynamic_slice(anfi_batch *b);
anf_node *anfi_batch_dynamic_update_slice(anfi_batch *b);
anf_node *anfi_batch_bincount(anfi_batch *b);
anf_node *anfi_batch_search_sorted(anfi_batch *b);
anf_node *anfi_batch_get_item(anfi_batch *b);
anf_node *anfi_batch_matmul(anfi_batch *b);
anf_node *anfi_batch_linear(anfi_batch *b);
anf_node *anfi_batch_einsum(anfi_batch *b);
anf_node *anfi_batch_fold(anfi_batch *b);
anf_node *anfi_batch_conv(anfi_batch *b);
anf_node *anfi_batch_conv_grad_input(anfi_batch *b);
anf_node *anfi_batch_conv_grad_weight(anfi_batch *b);
anf_node *anfi_batch_attention(anfi_batch *b);
anf_node *anfi_batch_layer_norm(anfi_batch *b);
anf_node *anfi_batch_group_norm(anfi_batch *b);
anf_node *anfi_batch_batch_norm(anfi_batch *b);
anf_node *anfi_batch_batch_norm_train(anfi_batch *b);
anf_node *anfi_batch_bernoulli(anfi_batch *b);
anf_node *anfi_batch_dropout(anfi_batch *b);
anf_node *anfi_batch_shuffle(anfi_batch *b);
anf_node *anfi_batch_effect(anfi_batch *b);
anf_node *anfi_batch_host_effect(anfi_batch *b);

#endif
