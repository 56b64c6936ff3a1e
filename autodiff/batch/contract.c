// SPDX-License-Identifier: Apache-2.0
/* Batching rules of contractions.
 *   MatMul(x, w), x batched              the lanes are one more leading dim
 *   Conv(x, w), x batched                more examples;  w batched: more groups */
#include "autodiff/batch/batch.h"

static anf_node *product(const anfi_batch *b, anf_node *x, anf_node *y, bool tx, bool ty) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_MatMul, NULL);
  anfi_edit_bool(&e, "ta", tx);
  anfi_edit_bool(&e, "tb", ty);
  return anfi_b_apply(b, ANF_OP_MatMul, anfi_edit_done(&e), 2, (anf_node *const[]){x, y});
}

/* x or y of the primal: a factor, and the rank of its lanes. */
typedef struct {
  anf_node *x;
  bool batched, t;
  size_t rank;
} factor;

/* A batch of vectors as rows (-2) or columns (-1); the product has that axis too much. */
static int64_t as_matrix(const anfi_batch *b, factor *f, int64_t axis) {
  f->x = anfi_b_axis(b, ANF_OP_ExpandDims, f->x, axis);
  f->rank = 2;
  return axis;
}

/* A batch of vectors times one matrix is one product of matrices. */
static anf_node *vectors_by_matrix(const anfi_batch *b, const factor *x, const factor *y) {
  if (x->batched && x->rank == 1 && !y->batched && y->rank <= 2)
    return product(b, x->x, y->x, false, y->t);
  if (y->batched && y->rank == 1 && !x->batched && x->rank == 2)
    return product(b, y->x, x->x, false, !x->t);
  if (y->batched && y->rank == 1 && !x->batched && x->rank == 1)
    return product(b, y->x, x->x, false, false);
  return NULL;
}

static anf_node *multiply(const anfi_batch *b, factor x, factor y) {
  int64_t drop[2];
  size_t n = 0;
  anf_node *z = vectors_by_matrix(b, &x, &y);
  if (z) return z;
  if (x.rank == 1 && x.batched) drop[n++] = as_matrix(b, &x, -2);
  if (y.rank == 1 && y.batched) drop[n++] = as_matrix(b, &y, -1);
  size_t rank = x.rank > y.rank ? x.rank : y.rank;
  if (x.batched) x.x = anfi_b_align(b, x.x, rank);
  if (y.batched) y.x = anfi_b_align(b, y.x, rank);
  z = product(b, x.x, y.x, x.t, y.t);
  return n && z ? anfi_b_ints(b, ANF_OP_Squeeze, "axis", z, n, drop) : z;
}

anf_node *anfi_batch_matmul(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  factor f[2];
  for (size_t i = 0; i < 2; i++)
    f[i] = (factor){b->in[i], b->batched[i], anfi_attr_bool(e.v[i]), anfi_lane_type(b, i)->n};
  return multiply(b, f[0], f[1]);
}

anf_node *anfi_batch_linear(anfi_batch *b) {
  bool biased = b->n > 2 && anfi_is_tensor(anfi_lane_type(b, 2));
  size_t rank = anfi_lane_type(b, 0)->n;
  if (!b->batched[1] && !(biased && b->batched[2])) return anfi_b_again(b, b->in);
  factor x = {b->in[0], b->batched[0], false, rank}, w = {b->in[1], b->batched[1], true, 2};
  anf_node *y;
  if (rank == 1) y = multiply(b, (factor){w.x, w.batched, false, 2}, x);
  else y = multiply(b, x, w);
  return biased ? anfi_b_2(b, ANF_OP_Add, y, anfi_b_aligned(b, 2, rank)) : y;
}

/* ---- Einsum: the lanes are a label of their own ---- */

typedef struct {
  char text[512];
  size_t n;
} equation;

static void put(equation *q, char c) {
  if (c != ' ' && q->n + 1 < sizeof q->text) q->text[q->n++] = c;
}

static char unused_letter(const anf_value *v) {
  for (char c = 'A'; c <= 'z'; c++)
    if ((c <= 'Z' || c >= 'a') && !memchr(v->u.text, c, v->n)) return c;
  return 0;
}

/* Labels that occur once, sorted, and the dims of "..." in front of them. */
static void put_implicit(equation *q, const anf_value *v) {
  if (memchr(v->u.text, '.', v->n)) put(q, '.'), put(q, '.'), put(q, '.');
  for (char c = 'A'; c <= 'z'; c++) {
    size_t seen = 0;
    for (size_t i = 0; i < v->n; i++) seen += v->u.text[i] == c;
    if (seen == 1 && (c <= 'Z' || c >= 'a')) put(q, c);
  }
}

anf_node *anfi_batch_einsum(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  const anf_value *v = anfi_edit_get(&e, "equation");
  char lane = unused_letter(v);
  equation q = {.n = 0};
  const char *s = v->u.text, *end = s + v->n;
  if (!lane || v->n > 256) return NULL;
  for (size_t i = 0; i < b->n; i++) {
    if (i) put(&q, ','), s++;
    if (b->batched[i]) put(&q, lane);
    for (; s < end && *s != ',' && *s != '-'; s++) put(&q, *s);
  }
  put(&q, '-'), put(&q, '>'), put(&q, lane);
  if (s == end) put_implicit(&q, v);
  else
    for (s += 2; s < end; s++) put(&q, *s);
  anfi_edit_set(&e, "equation", anfi_value_new_string(b->ad->m->cx, q.text, q.n));
  return anfi_b_apply(b, ANF_OP_Einsum, anfi_edit_done(&e), b->n, b->in);
}

/* ---- lanes as examples: pools, and convolutions whose weights are the same for all ---- */

static anf_node *join_axes(const anfi_batch *b, anf_node *x, int64_t first) {
  anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Flatten, NULL);
  anfi_edit_int(&e, "start", first);
  anfi_edit_int(&e, "end", first + 1);
  return anfi_b_apply(b, ANF_OP_Flatten, anfi_edit_done(&e), 1, &x);
}

/* Unfolds examples into lanes. */
static anf_node *unfold(anfi_batch *b, anf_node *y) {
  const anf_type *t = b->primal->type;
  return anfi_b_lane_shape(b, y, t->n, t->dims);
}

/* The attribute `shape` of a gradient's row is that of the whole input. */
static bool fold_shape(anfi_batch *b, anfi_attr_edit *e) {
  int64_t shape[ANF_MAX_RANK];
  if (!anfi_edit_get(e, "shape") ||
      strcmp(anfi_op_schema(b->ad->m->cx, e->op)->in[0]->s, "dy") != 0)
    return true;
  size_t n = anfi_attr_ints(anfi_edit_get(e, "shape"), ANF_MAX_RANK, shape);
  if (b->size < 0) return false;
  shape[0] *= b->size;
  anfi_edit_ints(e, "shape", n, shape);
  return true;
}

anf_node *anfi_batch_fold(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  anf_node *in[2];
  if (b->n > 2 || !fold_shape(b, &e)) return NULL;
  for (size_t i = 0; i < b->n; i++) in[i] = join_axes(b, anfi_b_operand(b, i), 0);
  return unfold(b, anfi_b_apply(b, e.op, anfi_edit_done(&e), b->n, in));
}

/* ---- lanes as channels and groups ---- */

/* [lanes, n, c, ..] to [n, lanes * c, ..] */
static anf_node *lanes_to_channels(anfi_batch *b, size_t i) {
  return join_axes(b, anfi_b_move(b, anfi_b_operand(b, i), 0, 1), 1);
}

static anf_node *channels_to_lanes(anfi_batch *b, anf_node *y) {
  const anf_type *t = b->primal->type;
  int64_t dims[ANF_MAX_RANK + 1] = {0};
  if (!y) return NULL;
  dims[0] = t->dims[0];
  dims[1] = b->size;
  for (uint32_t k = 1; k < t->n; k++) dims[k + 1] = t->dims[k];
  return anfi_b_move(b, anfi_b_reshape(b, y, t->n + 1u, dims), 1, 0);
}

static bool group_by_lane(anfi_batch *b, anfi_attr_edit *e) {
  if (b->size <= 0) return false; // not known, or no group at all
  anfi_edit_int(e, "groups", anfi_attr_int(anfi_edit_get(e, "groups")) * b->size);
  return true;
}

/* The bias that does not go in: one a channel, on axis 1 of the lanes. */
static anf_node *add_bias(anfi_batch *b, anf_node *y, size_t i) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0, rank = b->primal->type->n;
  anf_node *bias = anfi_b_align(b, anfi_b_operand(b, i), 2);
  for (size_t k = 2; k < rank; k++) axes[n++] = (int64_t)k + 1;
  if (n) bias = anfi_b_ints(b, ANF_OP_ExpandDims, "axis", bias, n, axes);
  return anfi_b_2(b, ANF_OP_Add, y, bias);
}

/* x w bias?: also transposed convolutions, whose weights have the input's channels first. */
anf_node *anfi_batch_conv(anfi_batch *b) {
  anfi_attr_edit e = anfi_b_attrs(b);
  bool biased = b->n > 2 && anfi_is_tensor(anfi_lane_type(b, 2));
  bool own_bias = biased && b->batched[2];
  anf_node *in[3] = {b->in[0], b->in[1], biased ? b->in[2] : NULL}, *y;
  size_t n = biased && !own_bias ? 3 : 2;
  if (!b->batched[1]) {
    if (b->batched[0]) in[0] = join_axes(b, in[0], 0);
    y = anfi_b_apply(b, e.op, anfi_edit_done(&e), n, in);
    if (b->batched[0]) y = unfold(b, y);
    return own_bias ? add_bias(b, y, 2) : y;
  }
  if (!group_by_lane(b, &e)) return NULL;
  in[0] = lanes_to_channels(b, 0);
  in[1] = join_axes(b, b->in[1], 0);
  if (biased) in[2] = join_axes(b, anfi_b_operand(b, 2), 0);
  return channels_to_lanes(b, anfi_b_apply(b, e.op, anfi_edit_done(&e), biased ? 3 : 2, in));
}

anf_node *anfi_batch_conv_grad_input(anfi_batch *b) { // dy w
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t shape[ANF_MAX_RANK];
  if (!b->batched[1]) {
    anf_node *in[2] = {join_axes(b, b->in[0], 0), b->in[1]};
    if (!fold_shape(b, &e)) return NULL;
    return unfold(b, anfi_b_apply(b, e.op, anfi_edit_done(&e), 2, in));
  }
  if (!group_by_lane(b, &e)) return NULL;
  size_t n = anfi_attr_ints(anfi_edit_get(&e, "shape"), ANF_MAX_RANK, shape);
  shape[1] *= b->size;
  anfi_edit_ints(&e, "shape", n, shape);
  anf_node *in[2] = {lanes_to_channels(b, 0), join_axes(b, b->in[1], 0)};
  return channels_to_lanes(b, anfi_b_apply(b, e.op, anfi_edit_done(&e), 2, in));
}

anf_node *anfi_batch_conv_grad_weight(anfi_batch *b) { // x dy
  anfi_attr_edit e = anfi_b_attrs(b);
  int64_t shape[ANF_MAX_RANK];
  if (!group_by_lane(b, &e)) return NULL;
  size_t n = anfi_attr_ints(anfi_edit_get(&e, "shape"), ANF_MAX_RANK, shape);
  shape[0] *= b->size;
  anfi_edit_ints(&e, "shape", n, shape);
  anf_node *in[2] = {lanes_to_channels(b, 0), lanes_to_channels(b, 1)};
  return unfold(b, anfi_b_apply(b, e.op, anfi_edit_done(&e), 2, in));
}

/* ---- attention: leading dims broadcast ---- */

anf_node *anfi_batch_attention(anfi_batch *b) { // q k v mask?
  size_t rank = 0;
  anf_node *in[4];
  for (size_t i = 0; i < 3; i++)
    if (anfi_lane_type(b, i)->n > rank) rank = anfi_lane_type(b, i)->n;
  for (size_t i = 0; i < b->n; i++)
    in[i] = anfi_is_tensor(anfi_lane_type(b, i)) ? anfi_b_aligned(b, i, rank) : b->in[i];
  if (!b->batched[0] && !b->batched[1] && !b->batched[2]) // the mask alone does not make lanes
    in[0] = anfi_b_align(b, anfi_b_spread(b, b->in[0]), rank);
  return anfi_b_again(b, in);
}
