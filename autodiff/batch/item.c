// SPDX-License-Identifier: Apache-2.0
/* Batching rule of subscripts.
 *   x[i, 1:3], i by lane:   Slice(x, 1, 3) of the sliced axis, then one gather of lane and i, then new axes
 * Remaining axes and the dims of indices go where ir/ops/array/getitem.h says. */
#include "autodiff/batch/batch.h"
#include "ir/ops/array/getitem.h"

typedef struct {
  anfi_batch *b;
  anfi_subscript s;
  anfi_layout l;
  anf_node *x; // as far as it is done
  bool batched;
} item;

/* A number of a part as an attribute: None, or the constant. */
static void set_bound(anfi_attr_edit *e, const char *name, const anfi_part *p, int k) {
  if (p->given[k] == ANFI_CONSTANT) anfi_edit_int(e, name, p->v[k]);
}

static bool slice_axis(item *it, int axis, const anfi_part *p) {
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT) return false; // the length would not be known
  anfi_attr_edit e = anfi_edit_attrs(it->b->ad, ANF_OP_Slice, NULL);
  set_bound(&e, "start", p, 0);
  set_bound(&e, "stop", p, 1);
  set_bound(&e, "step", p, 2);
  anfi_edit_int(&e, "axis", axis + it->batched);
  it->x = anfi_b_apply(it->b, ANF_OP_Slice, anfi_edit_done(&e), 1, &it->x);
  return it->x != NULL;
}

static anf_node *index_of(const item *it, size_t i, bool *batched) {
  const anfi_part *p = &it->s.part[it->l.index[i].part];
  *batched = p->given[0] == ANFI_INPUT && it->b->batched[p->v[0]];
  if (p->given[0] != ANFI_INPUT) return anfi_b_i64(it->b, p->v[0]);
  return anfi_b_cast(it->b, it->b->in[p->v[0]], ANF_I64);
}

/* Zeros that all indices broadcast to, so that they can be stacked. */
static anf_node *common(const item *it, bool *batched) {
  anf_node *sum = anfi_b_i64(it->b, 0), *zero = anfi_b_i64(it->b, 0);
  *batched = false;
  for (size_t i = 0; i < it->l.nindex; i++) {
    bool differs;
    anf_node *x = index_of(it, i, &differs);
    if (differs) x = anfi_b_align(it->b, x, it->l.brank);
    *batched |= differs;
    sum = anfi_b_2(it->b, ANF_OP_Add, sum, anfi_b_2(it->b, ANF_OP_Mul, x, zero));
  }
  return sum;
}

/* All indices in one tensor whose last dim is the position. */
static anf_node *stacked(const item *it, bool *batched) {
  anf_node *zeros = common(it, batched), *part[ANF_MAX_RANK];
  for (size_t i = 0; i < it->l.nindex; i++) {
    bool differs;
    anf_node *x = index_of(it, i, &differs);
    if (differs) x = anfi_b_align(it->b, x, it->l.brank);
    part[i] = anfi_b_2(it->b, ANF_OP_Add, x, zeros);
  }
  anfi_attr_edit e = anfi_edit_attrs(it->b->ad, ANF_OP_Stack, NULL);
  anfi_edit_int(&e, "axis", -1);
  return anfi_b_apply(it->b, ANF_OP_Stack, anfi_edit_done(&e), it->l.nindex, part);
}

/* Axes with an index in front of the others, the lanes before or after the former. */
static anf_node *indexed_first(const item *it, bool lanes_behind) {
  int64_t axes[ANF_MAX_RANK + 1];
  size_t n = 0, rank = it->x->type->n - (size_t)it->batched;
  uint32_t seen = 0;
  if (it->batched && !lanes_behind) axes[n++] = 0;
  for (size_t i = 0; i < it->l.nindex; i++) {
    axes[n++] = it->l.index[i].axis + it->batched;
    seen |= UINT32_C(1) << it->l.index[i].axis;
  }
  if (it->batched && lanes_behind) axes[n++] = 0;
  for (size_t k = 0; k < rank; k++)
    if (!(seen >> k & 1)) axes[n++] = (int64_t)k + it->batched;
  return anfi_b_permute(it->b, it->x, axes);
}

static anf_node *gather(item *it) {
  bool differs;
  anf_node *index = stacked(it, &differs);
  if (!index) return NULL;
  anf_node *x = indexed_first(it, !differs);
  if (!differs)
    return anfi_b_move(it->b, anfi_b_2(it->b, ANF_OP_GatherNd, x, index), it->l.brank, 0);
  if (it->batched) index = anfi_b_lane_first(it->b, index);
  return anfi_b_2(it->b, ANF_OP_GatherNd, x, index);
}

/* [lanes, dims of indices.., remaining axes..] in the order of the result. */
static anf_node *in_order(const item *it, anf_node *y) {
  int64_t axes[ANF_MAX_RANK + 1] = {0};
  size_t n = 1, kept = 0;
  bool sorted = true;
  for (size_t k = 0; k < it->l.rank; k++) {
    int from = it->l.out[k].from;
    if (from == -1) continue;
    axes[n] = from < 0 ? 1 + (-2 - from) : (int64_t)(1 + it->l.brank + kept++);
    sorted &= axes[n] == (int64_t)n;
    n++;
  }
  return sorted ? y : anfi_b_permute(it->b, y, axes);
}

static anf_node *with_new_axes(const item *it, anf_node *y) {
  int64_t axes[ANF_MAX_RANK];
  size_t n = 0;
  for (size_t k = 0; k < it->l.rank; k++)
    if (it->l.out[k].from == -1) axes[n++] = (int64_t)k + 1;
  return n && y ? anfi_b_ints(it->b, ANF_OP_ExpandDims, "axis", y, n, axes) : y;
}

anf_node *anfi_batch_get_item(anfi_batch *b) {
  anf_ctx *cx = b->ad->m->cx;
  item it = {.b = b, .x = b->in[0], .batched = b->batched[0]};
  const anf_type **types = ANFI_NEW_N(b->ad->arena, const anf_type *, b->n + 1);
  for (size_t i = 0; i < b->n; i++) types[i] = anfi_lane_type(b, i);
  anfi_loc loc = anfi_node_loc(b->primal);
  anfi_infer q = {.cx = cx, .op = ANF_OP_GetItem, .loc = loc, .n = b->n, .in = types};
  anf_value *spec = anfi_attr_value(cx, ANF_OP_GetItem, b->primal->u.attrs, 0);
  if (!anfi_subscript_read(cx, loc, spec, b->n, &it.s) || !anfi_layout_of(&q, &it.s, &it.l))
    return NULL;
  for (size_t k = 0; k < it.l.rank; k++)
    if (it.l.out[k].from >= 0 && it.l.out[k].part != ANFI_PARTS &&
        !slice_axis(&it, it.l.out[k].from, &it.s.part[it.l.out[k].part]))
      return NULL;
  if (!it.l.nindex) return with_new_axes(&it, it.x);
  if (it.l.nindex > 1) return with_new_axes(&it, in_order(&it, gather(&it)));
  bool differs;
  anf_node *index = index_of(&it, 0, &differs);
  return with_new_axes(&it, anfi_b_take(b, it.x, it.batched, index, differs, it.l.index[0].axis));
}
