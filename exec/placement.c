// SPDX-License-Identifier: Apache-2.0
/* Placements of results, by op: which parts of the inputs give which part of the result without an exchange (Shoeybi et al. 2019;
 * GSPMD, Xu et al. 2021).
 *
 *   x: whole, w: cut along its columns      x @ w: cut along its columns
 *   h: cut along its columns, w: its rows   h @ w: partial, the value is the sum over ranks
 *   h: cut, b: whole                        h + b: cut, of the part of b
 *
 * Reshape keeps the order of elements, so a placement is also a number of blocks: f32[48, 3, 4, 12] cut along axis 2 is 144 blocks
 * of a part for each rank, as is f32[48, 144] cut along axis 1 in each of 3 groups.
 * INVARIANT: an op without a rule gets its inputs whole, which is always right. */
#include "exec/placement.h"

#include "ir/ops/op.h"

static const anfi_placement whole = {ANFI_WHOLE, 0, 1}, partial = {ANFI_PARTIAL, 0, 1};

static anfi_placement cut_at(size_t axis, int64_t groups) {
  return (anfi_placement){ANFI_CUT, (uint32_t)axis, groups};
}

bool anfi_placement_same(anfi_placement a, anfi_placement b) {
  return a.kind == b.kind && (a.kind != ANFI_CUT || (a.axis == b.axis && a.groups == b.groups));
}

const anf_type *anfi_placement_part(anf_ctx *cx, const anf_type *t, anfi_placement l,
                                    int64_t ranks) {
  int64_t dims[ANF_MAX_RANK];
  if (l.kind != ANFI_CUT) return t;
  memcpy(dims, t->dims, t->n * sizeof *dims);
  dims[l.axis] /= ranks;
  return anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n, dims);
}

int64_t anfi_placement_outer(const anf_type *t, anfi_placement l) {
  return anfi_dims_elements(t, 0, l.axis) * l.groups;
}

/* The placement of t with so many blocks for each rank. False if no axis has it. */
static bool of_outer(const anf_type *t, int64_t outer, int64_t ranks, anfi_placement *out) {
  int64_t before = 1;
  for (uint32_t k = 0; k < t->n && before && outer % before == 0; before *= t->dims[k++]) {
    int64_t groups = outer / before;
    if (!t->dims[k] || t->dims[k] % (groups * ranks)) continue;
    *out = cut_at(k, groups);
    return true;
  }
  return false;
}

/* ---- access ---- */

static const anf_type *type_in(const anfi_placing *p, size_t i) { return p->n->in[i].def->type; }
static bool is_cut(const anfi_placing *p, size_t i) { return p->in[i].kind == ANFI_CUT; }
static bool is_partial(const anfi_placing *p, size_t i) {
  return p->in[i].kind == ANFI_PARTIAL && p->alone[i];
}
static const anf_value *attr(const anfi_placing *p, uint32_t k) {
  return anfi_attr_value(p->cx, (anfi_opcode)p->n->op, p->n->u.attrs, k);
}

/* Input i keeps its placement, and the result is this. */
static bool passes(anfi_placing *p, size_t i, anfi_placement out) {
  p->want[i] = p->in[i];
  p->out = out;
  return true;
}

/* The axis of input i that is broadcast to this axis of a result of so many dims. -1: it is one element long, or not there. */
static int64_t axis_below(const anf_type *in, size_t rank, size_t axis) {
  int64_t k = (int64_t)axis + (int64_t)in->n - (int64_t)rank;
  return k < 0 || in->dims[k] == 1 ? -1 : k;
}

/* ---- pointwise ---- */

static bool add_partials(anfi_placing *p) {
  bool sum = p->n->op == ANF_OP_Add || p->n->op == ANF_OP_Sub;
  if (!sum || !is_partial(p, 0) || !is_partial(p, 1)) return false;
  for (size_t i = 0; i < 2; i++)
    if (type_in(p, i) != p->n->type) return false;
  p->want[0] = p->want[1] = p->out = partial;
  return true;
}

/* The largest input that is cut decides. */
static bool pointwise(anfi_placing *p) {
  const anf_type *t = p->n->type;
  size_t n = p->n->op == ANF_OP_CastLike ? 1 : p->n->nin, by = n;
  if (n < p->n->nin) p->want[1].kind = ANFI_AS_IT_IS;
  for (size_t i = 0; i < n; i++) {
    if (type_in(p, i)->n > t->n) return false;
    if (!is_cut(p, i)) continue;
    bool larger = by == n || anfi_dims_elements(type_in(p, i), 0, type_in(p, i)->n) >
                                 anfi_dims_elements(type_in(p, by), 0, type_in(p, by)->n);
    if (larger) by = i;
  }
  if (by == n) return n < p->n->nin || (n == 2 && add_partials(p));
  size_t axis = p->in[by].axis + t->n - type_in(p, by)->n;
  int64_t groups = p->in[by].groups;
  for (size_t i = 0; i < n; i++) {
    int64_t k = axis_below(type_in(p, i), t->n, axis);
    if (k >= 0) p->want[i] = cut_at((size_t)k, groups);
  }
  p->out = cut_at(axis, groups);
  return true;
}

/* ---- products ---- */

enum { BATCH, OUTER, INNER }; // axes of a matrix, or of a stack of them

static int role_of(const anfi_placing *p, size_t i) {
  const anf_type *t = type_in(p, i);
  bool transposed = anfi_attr_bool(attr(p, (uint32_t)i));
  uint32_t inner = t->n - ((i == 0) != transposed ? 1 : 2);
  return p->in[i].axis + 2 < t->n ? BATCH : p->in[i].axis == inner ? INNER : OUTER;
}

static size_t inner_axis(const anfi_placing *p, size_t i) {
  bool transposed = anfi_attr_bool(attr(p, (uint32_t)i));
  return type_in(p, i)->n - ((i == 0) != transposed ? 1 : 2);
}

/* Both are cut along what is summed over. */
static bool product_of_inner(anfi_placing *p, size_t i) {
  p->want[i] = p->in[i];
  p->want[1 - i] = cut_at(inner_axis(p, 1 - i), p->in[i].groups);
  p->out = partial;
  return true;
}

static bool product_by(anfi_placing *p, size_t i) {
  const anf_type *t = p->n->type;
  int role = role_of(p, i);
  if (role == INNER) return product_of_inner(p, i);
  if (role == OUTER) return passes(p, i, cut_at(t->n - (i ? 1 : 2), p->in[i].groups));
  size_t axis = p->in[i].axis + t->n - type_in(p, i)->n;
  int64_t k = axis_below(type_in(p, 1 - i), t->n, axis);
  if (k >= 0) p->want[1 - i] = cut_at((size_t)k, p->in[i].groups);
  return passes(p, i, cut_at(axis, p->in[i].groups));
}

/* An exchange of the result or of an operand is spared; the larger operand stays where it is. */
static bool product(anfi_placing *p) {
  const anf_type *a = type_in(p, 0), *b = type_in(p, 1);
  if (a->n < 2 || b->n < 2 || !attr(p, 0) || !attr(p, 1)) return false;
  if (!is_cut(p, 0) && !is_cut(p, 1)) return false;
  if (is_cut(p, 0) != is_cut(p, 1)) return product_by(p, is_cut(p, 1));
  bool second = anfi_dims_elements(b, 0, b->n) > anfi_dims_elements(a, 0, a->n);
  return product_by(p, second);
}

/* ---- ops along axes ---- */

static bool transposed(anfi_placing *p) {
  size_t perm[ANF_MAX_RANK], rank = p->n->type->n;
  const anf_value *axes = attr(p, 0);
  if (!axes || !anfi_permutation(axes, rank, perm)) return false;
  if (is_partial(p, 0)) return passes(p, 0, partial);
  for (size_t k = 0; k < rank && is_cut(p, 0); k++)
    if (perm[k] == p->in[0].axis) return passes(p, 0, cut_at(k, p->in[0].groups));
  return false;
}

static bool reshaped(anfi_placing *p) {
  anfi_placement l;
  if (is_partial(p, 0)) return passes(p, 0, partial);
  return is_cut(p, 0) &&
         of_outer(p->n->type, anfi_placement_outer(type_in(p, 0), p->in[0]), p->ranks, &l) &&
         passes(p, 0, l);
}

static bool reduced(anfi_placing *p) {
  const anf_type *t = type_in(p, 0);
  const anf_value *axis = attr(p, 0), *kept = attr(p, 1);
  if (!axis || !kept || !is_cut(p, 0)) return false;
  uint32_t mask = anfi_reduced_axes(axis, t->n), k = p->in[0].axis, before = 0;
  if (mask >> k & 1) return p->n->op == ANF_OP_Sum && passes(p, 0, partial);
  for (uint32_t i = 0; i < k; i++) before += mask >> i & 1;
  return passes(p, 0, cut_at(anfi_attr_bool(kept) ? k : k - before, p->in[0].groups));
}

/* The result has the input's dims. */
static bool along_others(anfi_placing *p) {
  const anf_value *axes = attr(p, 0);
  bool apart =
      axes && is_cut(p, 0) && !(anfi_axes_mask(axes, type_in(p, 0)->n) >> p->in[0].axis & 1);
  return apart && passes(p, 0, p->in[0]);
}

static bool of_matrices(anfi_placing *p) {
  return is_cut(p, 0) && p->in[0].axis + 2 < p->n->type->n && passes(p, 0, p->in[0]);
}

static bool sliced(anfi_placing *p) {
  const anf_value *axis = attr(p, 3);
  size_t k = 0;
  bool apart = axis && is_cut(p, 0) && anfi_axis_in(anfi_attr_int(axis), p->n->type->n, &k) &&
               k != p->in[0].axis;
  return apart && passes(p, 0, p->in[0]);
}

static bool broadcast(anfi_placing *p) {
  size_t more = p->n->type->n - type_in(p, 0)->n;
  return is_cut(p, 0) && passes(p, 0, cut_at(p->in[0].axis + more, p->in[0].groups));
}

/* x[k] of a constant k. */
static bool item(anfi_placing *p) {
  const anf_value *spec = attr(p, 0);
  if (p->n->nin != 1 || !is_cut(p, 0) || !p->in[0].axis || !spec) return false;
  const char *s = spec->u.text;
  s += *s == '-';
  if (!*s || s[strspn(s, "0123456789")]) return false;
  return passes(p, 0, cut_at(p->in[0].axis - 1, p->in[0].groups));
}

/* Rows are written along another axis than that which is cut. */
static bool rows_written(anfi_placing *p) {
  const anf_type *t = p->n->type, *rows = type_in(p, 1);
  const anf_value *axis = attr(p, 0);
  size_t at = 0;
  bool known = axis && anfi_attr_given(axis) && anfi_axis_in(anfi_attr_int(axis), t->n, &at);
  if (!known || (!is_cut(p, 0) && !is_cut(p, 2))) return false;
  size_t k = p->in[0].axis, more = rows->n;
  if (!is_cut(p, 0)) { // an axis of the rows
    k = p->in[2].axis;
    if (k >= at && k < at + more) return false;
    k = k < at ? k : k + 1 - more;
  }
  if (k == at) return false;
  int64_t groups = is_cut(p, 0) ? p->in[0].groups : p->in[2].groups;
  p->out = p->want[0] = cut_at(k, groups);
  p->want[2] = cut_at(k < at ? k : k + more - 1, groups);
  return true;
}

static bool embedded(anfi_placing *p) {
  size_t more = p->n->type->n - type_in(p, 0)->n;
  bool apart = is_cut(p, 0) && p->in[0].axis > 0;
  return apart && passes(p, 0, cut_at(p->in[0].axis + more, p->in[0].groups));
}

/* Parts along another axis are joined as wholes are. */
static bool joined(anfi_placing *p) {
  const anf_value *axis = attr(p, 0);
  size_t at = 0, by = 0, rank = p->n->type->n;
  bool stack = p->n->op == ANF_OP_Stack;
  while (by < p->n->nin && !is_cut(p, by)) by++;
  if (!axis || by == p->n->nin || !anfi_axis_in(anfi_attr_int(axis), rank, &at)) return false;
  size_t k = p->in[by].axis;
  if (!stack && k == at) return false;
  for (size_t i = 0; i < p->n->nin; i++) p->want[i] = p->in[by];
  p->out = cut_at(stack && k >= at ? k + 1 : k, p->in[by].groups);
  return true;
}

static bool by_op(anfi_placing *p) {
  const anfi_op_info *op = anfi_op_of(p->n);
  if (op->lower == ANFI_LOWER_POINTWISE && op->scalar) return pointwise(p);
  switch (p->n->op) {
  case ANF_OP_Cast:
  case ANF_OP_CastLike: return pointwise(p);
  case ANF_OP_MatMul: return product(p);
  case ANF_OP_Transpose: return transposed(p);
  case ANF_OP_Reshape:
  case ANF_OP_Squeeze:
  case ANF_OP_ExpandDims:
  case ANF_OP_Flatten: return reshaped(p);
  case ANF_OP_Sum:
  case ANF_OP_Mean:
  case ANF_OP_Max:
  case ANF_OP_Min:
  case ANF_OP_Prod:
  case ANF_OP_Var:
  case ANF_OP_Std:
  case ANF_OP_LogSumExp: return reduced(p);
  case ANF_OP_Softmax:
  case ANF_OP_LogSoftmax: return along_others(p);
  case ANF_OP_Tril:
  case ANF_OP_Triu: return of_matrices(p);
  case ANF_OP_Slice: return sliced(p);
  case ANF_OP_BroadcastTo: return broadcast(p);
  case ANF_OP_ZerosLike:
  case ANF_OP_OnesLike: return is_cut(p, 0) && passes(p, 0, p->in[0]);
  case ANF_OP_GetItem: return item(p);
  case ANF_OP_IndexWrite: return rows_written(p);
  case ANF_OP_Embedding: return embedded(p);
  case ANF_OP_Concat:
  case ANF_OP_Stack: return joined(p);
  default: return false;
  }
}

static bool has_dims(const anf_type *t) {
  bool good = t->kind == ANF_TYPE_TENSOR;
  for (uint32_t i = 0; good && i < t->n; i++) good = t->dims[i] >= 0;
  return good;
}

/* Can it be computed of parts at all: a pure op on tensors of known dims? */
static bool is_pure(const anf_node *n) {
  unsigned bad = ANFI_EFFECT | ANFI_RANDOM | ANFI_CALLS | ANFI_TRANSFORM | ANFI_COLLECTIVE;
  if (n->kind != ANFI_APPLY || anfi_op_of(n)->flags & bad || n->flags & ANFI_NODE_EFFECT)
    return false;
  bool good = n->nin && anfi_arg_count(n) == n->nin && has_dims(n->type);
  for (uint32_t i = 0; good && i < n->nin; i++) good = has_dims(n->in[i].def->type);
  return good;
}

void anfi_placement_of(anfi_placing *p) {
  p->out = whole;
  for (uint32_t i = 0; i < p->n->nin; i++) p->want[i] = whole;
  if (!is_pure(p->n) || by_op(p)) return;
  p->out = whole;
  for (uint32_t i = 0; i < p->n->nin; i++) p->want[i] = whole;
}
