// SPDX-License-Identifier: Apache-2.0
/* Batching rules: an op over a batch of lanes.
 *   vmap of MatMul(x, w), x batched      MatMul(x', w), x' with the lanes as its leading dim
 * The column `batch` of ir/ops/op.def names the rule; an elementwise op needs none.
 *
 * Glossary
 *   lane     one of the computations that vmap does side by side
 *   batched  has the lanes along a new axis 0; any other value is the same for all lanes
 *   spread   a value that is the same for all lanes, made batched */
#ifndef ANFI_BATCH_H
#define ANFI_BATCH_H

#include "autodiff/autodiff.h"
#include "ir/ops/op.h"

/* Rules set nothing and return the batched result; NULL after an error, or when the shapes (unknown
 * dims) leave no way but one lane after the other. */
struct anfi_batch {
  /* where the op is built */
  anfi_ad *ad;
  anf_graph *g;
  /* the lanes */
  int64_t size;    // number of lanes; negative when not constant
  anf_node *like;  // of g: something with the lanes along axis 0; of use when size < 0
  anf_node *lanes; // [lanes] falses, when made
  /* the op, and its operands with their lanes */
  const anf_node *primal;
  size_t n;
  anf_node *const *in;
  const bool *batched;
};

/* Does the result differ by lane? Operands that only lend a static shape do not count. */
bool anfi_batch_flows(anfi_ad *ad, const anf_node *primal, const bool *batched);
/* The counterpart of `primal` in b->g: batched if anfi_batch_flows says so. in[i] is batched if
 * batched[i]. */
anf_node *anfi_batch_op(anfi_batch *b, const anf_node *primal, anf_node *const *in,
                        const bool *batched);
/* One lane after the other, in a Loop (batch_lanes.c). */
anf_node *anfi_batch_by_lane(anfi_batch *b);

/* ---- batch.c: building blocks of rules ---- */

const anf_type *anfi_lane_type(const anfi_batch *b, size_t i); // of argument i
const anf_type *anfi_batched_type(anf_ctx *cx, const anf_type *lane, int64_t size);
bool anfi_is_static(const anf_type *t);

/* Attributes, from those of the primal or the defaults. */
typedef struct anfi_attr_edit {
  anfi_ad *ad;
  anfi_opcode op;
  anf_value *v[16];
} anfi_attr_edit;
anfi_attr_edit anfi_edit_attrs(anfi_ad *ad, anfi_opcode op, const anfi_attrs *from);
anf_value *anfi_edit_get(const anfi_attr_edit *e, const char *name);   // NULL: no such attribute
void anfi_edit_set(anfi_attr_edit *e, const char *name, anf_value *v); // takes the reference
void anfi_edit_int(anfi_attr_edit *e, const char *name, int64_t x);
void anfi_edit_bool(anfi_attr_edit *e, const char *name, bool x);
void anfi_edit_ints(anfi_attr_edit *e, const char *name, size_t n, const int64_t *x);
const anfi_attrs *anfi_edit_done(anfi_attr_edit *e);

/* Builders: NULL in, NULL out. */
anf_node *anfi_b_apply(const anfi_batch *b, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                       anf_node *const *in);
anf_node *anfi_b_1(const anfi_batch *b, anfi_opcode op, anf_node *x);
anf_node *anfi_b_2(const anfi_batch *b, anfi_opcode op, anf_node *x, anf_node *y);
anf_node *anfi_b_3(const anfi_batch *b, anfi_opcode op, anf_node *x, anf_node *y, anf_node *z);
anf_node *anfi_b_axis(const anfi_batch *b, anfi_opcode op, anf_node *x,
                      int64_t axis); // `axis` alone
anf_node *anfi_b_ints(const anfi_batch *b, anfi_opcode op, const char *attr, anf_node *x, size_t n,
                      const int64_t *v);
anf_node *anfi_b_cast(const anfi_batch *b, anf_node *x, anf_dtype d);
anf_node *anfi_b_i64(const anfi_batch *b, int64_t x);
anf_node *anfi_b_arange(const anfi_batch *b, int64_t start, int64_t stop, int64_t step);
anf_node *anfi_b_permute(const anfi_batch *b, anf_node *x, const int64_t *axes); // all axes
/* Axis `from` moved to `to`; the others keep their order. */
anf_node *anfi_b_move(const anfi_batch *b, anf_node *x, size_t from, size_t to);
anf_node *anfi_b_reshape(const anfi_batch *b, anf_node *x, size_t rank, const int64_t *dims);
/* The primal's attributes, to be changed. */
static inline anfi_attr_edit anfi_b_attrs(const anfi_batch *b) {
  return anfi_edit_attrs(b->ad, (anfi_opcode)b->primal->op, b->primal->u.attrs);
}
/* The primal's op and attributes on other operands. */
anf_node *anfi_b_again(const anfi_batch *b, anf_node *const *in);

anf_node *anfi_b_lanes(anfi_batch *b);               // [lanes] falses
anf_node *anfi_b_iota(anfi_batch *b);                // [lanes] 0, 1, ..: i64
anf_node *anfi_b_spread(anfi_batch *b, anf_node *x); // a tensor
anf_node *anfi_b_operand(anfi_batch *b, size_t i);   // argument i, spread if need be
/* A batched x whose lanes have rank `rank` gets dims of 1 after the lanes up to rank `to`. */
anf_node *anfi_b_align(const anfi_batch *b, anf_node *x, size_t to);
/* Argument i for broadcasting with lanes of rank `to`. */
anf_node *anfi_b_aligned(anfi_batch *b, size_t i, size_t to);
/* A batched x whose lanes get these dims; one unknown in all can be found. */
anf_node *anfi_b_lane_shape(anfi_batch *b, anf_node *x, size_t rank, const int64_t *dims);
/* The lanes of a batched x as vectors. */
anf_node *anfi_b_flat(const anfi_batch *b, anf_node *x);
/* Rows along `axis` of the lanes of x (batched if xb) at an index tensor (batched if ib); one of the
 * two is. (batch_index.c) */
anf_node *anfi_b_take(anfi_batch *b, anf_node *x, bool xb, anf_node *index, bool ib, size_t axis);
/* A batch of indices for GatherNd on lanes as indices for all lanes at once: the lane's number goes
 * first in the last dim. */
anf_node *anfi_b_lane_first(anfi_batch *b, anf_node *index);
/* c ? x : y, c a batch of scalars; x and y batched, of one type, keys too. */
anf_node *anfi_b_select(anfi_batch *b, anf_node *c, anf_node *x, anf_node *y);

#endif
