// SPDX-License-Identifier: Apache-2.0
/* Reading at indices that the program computes:
 *   Take(x, i)   ->   if (i[k] < 0 || i[k] >= n) trap; y[k] = x[i[k]]
 * Take, TakeAlongAxis, GatherNd, Embedding, DynamicSlice, OneHot, GetItem. An index outside is a trap at its place,
 * before what it reads. */
#include "backend/lower/low.h"
#include "ir/ops/array/getitem.h"

static texpr s64(anfi_low *L, int64_t v) { return anfi_t_int(L->t, ANFI_S64, v); }

/* Negative ones count from the end. */
static texpr from_start(anfi_low *L, texpr wide, uint64_t size, bool negative) {
  tstore *t = L->t;
  if (negative)
    wide = anfi_t_select(t, anfi_t_lt(t, wide, s64(L, 0)),
                         anfi_t_add(t, wide, s64(L, (int64_t)size)), wide);
  return anfi_low_atom(L, anfi_t_cast(t, ANFI_IX, wide));
}

/* An element of an index tensor as a position in 0..size. */
texpr anfi_low_position(anfi_low *L, texpr x, anf_dtype d, uint64_t size, anfi_opcode op,
                        anfi_loc loc) {
  texpr wide = anfi_low_atom(L, anfi_t_cast(L->t, ANFI_S64, x)),
        at = from_start(L, wide, size, anfi_dtype_class(d) == ANFI_CLASS_SIGNED);
  anfi_low_trap(L, anfi_t_bin(L->t, TX_cmp_ge, at, anfi_ix(L, size)), ANF_E0404, op, loc, wide,
                s64(L, (int64_t)size));
  return at;
}

/* Are all elements of a small constant in -size..size, where no trap is needed? */
static bool is_inside(const anf_value *v, int64_t size, bool *negative) {
  enum { MOST = 1 << 16 };
  if (v->type->dtype == ANF_U64 || v->n > MOST) return false;
  *negative = false;
  for (size_t i = 0; i < v->n; i++) {
    int64_t at = anfi_get_i64(v, i);
    if (at < -size || at >= size) return false;
    *negative |= at < 0;
  }
  return true;
}

static texpr position(anfi_low *L, const anfi_view *v, const anfi_view *index, const anfi_pt *p,
                      int64_t size) {
  bool negative;
  texpr x = anfi_view_at(L, index, p).re;
  if (index->constant && is_inside(index->constant, size, &negative))
    return from_start(L, anfi_low_atom(L, anfi_t_cast(L->t, ANFI_S64, x)), (uint64_t)size,
                      negative);
  return anfi_low_position(L, x, index->dtype, (uint64_t)size, v->op, v->loc);
}

/* x seen as [outer, n, inner]; the dims of the indices stand where the axis was. */
static anfi_elem at_take(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anfi_view *x = v->in[0], *index = v->in[1];
  texpr at[ANF_MAX_RANK], to[ANF_MAX_RANK];
  size_t axis = 0, r = index->type->n;
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  bool flat = v->op != ANF_OP_Embedding && !anfi_attr_given(v->attr[0]);
  if (!flat && v->op != ANF_OP_Embedding)
    anfi_axis_in(anfi_attr_int(v->attr[0]), x->type->n, &axis);
  anfi_pt i = anfi_pt_of(r, index->type->dims, at + axis);
  int64_t size = flat ? (int64_t)x->n : x->type->dims[axis];
  texpr row = position(L, v, index, &i, size);
  if (flat) return anfi_view_at_flat(L, x, row);
  for (size_t k = 0; k < x->type->n; k++)
    to[k] = k < axis ? at[k] : k == axis ? row : at[k + r - 1];
  return anfi_view_at_dims(L, x, to);
}

bool anfi_lower_take(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_take);
  return true;
}

static anfi_elem at_along(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anfi_view *x = v->in[0];
  texpr at[ANF_MAX_RANK];
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(v->attr[0]), x->type->n, &axis);
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  at[axis] = position(L, v, v->in[1], p, x->type->dims[axis]);
  return anfi_view_at_dims(L, x, at);
}

bool anfi_lower_take_along(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_along);
  return true;
}

static anfi_elem at_gather_nd(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anf_type *x = v->in[0]->type, *index = v->in[1]->type;
  texpr at[ANF_MAX_RANK], i[ANF_MAX_RANK], to[ANF_MAX_RANK];
  size_t r = index->n - 1, depth = (size_t)index->dims[r];
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  for (size_t k = 0; k < r; k++) i[k] = at[k];
  for (size_t k = 0; k < depth; k++) {
    i[r] = anfi_ix(L, k);
    anfi_pt ip = anfi_pt_of(index->n, index->dims, i);
    to[k] = position(L, v, v->in[1], &ip, x->dims[k]);
  }
  for (size_t k = depth; k < x->n; k++) to[k] = at[r + k - depth];
  return anfi_view_at_dims(L, v->in[0], to);
}

bool anfi_lower_gather_nd(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_gather_nd);
  return true;
}

/* Start of a dynamic slice: negative ones count from the end, and all are clamped. */
texpr anfi_low_clamped(anfi_low *L, const anfi_view *start, int64_t size, int64_t dim) {
  tstore *t = L->t;
  texpr at = anfi_low_atom(L, anfi_t_cast(t, ANFI_S64, anfi_view_at(L, start, &(anfi_pt){0}).re));
  texpr below = anfi_t_lt(t, at, s64(L, 0)), from_end;
  if (start->dtype == ANF_U64) from_end = s64(L, INT64_MAX);
  else
    from_end =
        anfi_t_select(t, anfi_t_lt(t, at, s64(L, -dim)), s64(L, 0), anfi_t_add(t, at, s64(L, dim)));
  if (anfi_dtype_class(start->dtype) == ANFI_CLASS_SIGNED || start->dtype == ANF_U64)
    at = anfi_low_atom(L, anfi_t_select(t, below, from_end, at));
  texpr last = s64(L, dim - size);
  at = anfi_t_select(t, anfi_t_bin(t, TX_cmp_gt, at, last), last, at);
  return anfi_low_atom(L, anfi_t_cast(t, ANFI_IX, at));
}

static anfi_elem at_dynamic_slice(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anf_type *x = v->in[0]->type;
  texpr at[ANF_MAX_RANK];
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  for (size_t k = 0; k < x->n; k++)
    if (x->dims[k] != v->type->dims[k])
      at[k] =
          anfi_ix_add(L, at[k], anfi_low_clamped(L, v->in[1 + k], v->type->dims[k], x->dims[k]));
  return anfi_view_at_dims(L, v->in[0], at);
}

bool anfi_lower_dynamic_slice(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_dynamic_slice);
  return true;
}

static anfi_elem at_one_hot(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr at[ANF_MAX_RANK], i[ANF_MAX_RANK];
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(v->attr[1]), v->type->n, &axis);
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  for (size_t k = 0, j = 0; k < v->type->n; k++)
    if (k != axis) i[j++] = at[k];
  texpr x = anfi_t_cast(L->t, ANFI_S64, anfi_view_at_dims(L, v->in[0], i).re);
  texpr here = anfi_t_bin(L->t, TX_cmp_eq, x, anfi_t_cast(L->t, ANFI_S64, at[axis]));
  texpr zero = anfi_low_const(L, anfi_low_dt(v->dtype), 0);
  return (anfi_elem){anfi_t_select(L->t, here, anfi_low_const(L, anfi_low_dt(v->dtype), 1), zero),
                     v->complex ? zero : NULL};
}

bool anfi_lower_one_hot(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_one_hot);
  return true;
}

/* ---- x[...] ---- */

/* start: i64, 0 <= start <= length - size, or -length <= start < -size, counted from the end. */
static anfi_elem at_window_start(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  tstore *t = L->t;
  anf_dtype d = v->in[0]->dtype;
  int64_t size = anfi_attr_int(v->attr[0]), length = anfi_attr_int(v->attr[1]);
  bool is_signed = anfi_dtype_class(d) == ANFI_CLASS_SIGNED;
  texpr at = anfi_low_atom(L, anfi_t_cast(t, ANFI_S64, anfi_view_at(L, v->in[0], p).re));
  texpr negative = anfi_t_lt(t, at, s64(L, 0));
  texpr beyond = anfi_t_bin(t, TX_cmp_gt, at, s64(L, anfi_window_last(d, size, length)));
  texpr before = anfi_t_bin(t, TX_logic_or, anfi_t_lt(t, at, s64(L, -length)),
                            anfi_t_bin(t, TX_cmp_ge, at, s64(L, -size)));
  texpr bad = anfi_t_select(t, negative, is_signed ? before : anfi_t_bool(t, true), beyond);
  anfi_low_trap(L, bad, ANF_E0406, ANF_OP_GetItem, v->loc, at, s64(L, length));
  return (anfi_elem){anfi_t_select(t, negative, anfi_t_add(t, at, s64(L, length)), at), NULL};
}

bool anfi_lower_window_start(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_FLAT, at_window_start);
  return true;
}

typedef struct item {
  anfi_subscript s;
  anfi_layout l;
  int64_t start[ANF_MAX_RANK], step[ANF_MAX_RANK]; // by dim of the result, of slices
} item;

/* The position of an index tensor at a position of the result. */
static texpr item_index(anfi_low *L, const anfi_view *v, const item *g, size_t i, const texpr *at) {
  const anfi_part *p = &g->s.part[g->l.index[i].part];
  int64_t size = v->in[0]->type->dims[g->l.index[i].axis];
  if (p->given[0] == ANFI_CONSTANT) {
    texpr x = s64(L, p->v[0]);
    return anfi_low_position(L, x, ANF_I64, (uint64_t)size, v->op, v->loc);
  }
  const anfi_view *index = v->in[p->v[0]];
  texpr to[ANF_MAX_RANK];
  for (uint32_t d = 0; d < index->type->n; d++) {
    int from = -2 - (int)(g->l.brank - index->type->n + d);
    to[d] = anfi_ix(L, 0);
    for (size_t k = 0; k < g->l.rank; k++)
      if (g->l.out[k].from == from && index->type->dims[d] != 1) to[d] = at[k];
  }
  anfi_pt ip = anfi_pt_of(index->type->n, index->type->dims, to);
  return position(L, v, index, &ip, size);
}

static anfi_elem at_item(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const item *g = (const item *)v->data;
  texpr at[ANF_MAX_RANK], to[ANF_MAX_RANK];
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
  for (size_t k = 0; k < g->l.rank; k++) {
    int from = g->l.out[k].from;
    if (from < 0) continue;
    texpr s = anfi_ix_mulc(L, at[k], (uint64_t)g->step[k]); // modulo 2^64, as the sum is
    to[from] = anfi_ix_addc(L, s, g->start[k]);
  }
  for (size_t i = 0; i < g->l.nindex; i++) to[g->l.index[i].axis] = item_index(L, v, g, i, at);
  return anfi_view_at_dims(L, v->in[0], to);
}

static bool constant_slice(const anfi_part *p, size_t len, int64_t *start, int64_t *step) {
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT) return false;
  *step = p->given[2] ? p->v[2] : 1;
  if (*step == INT64_MIN) *step = -INT64_MAX;
  if (anfi_slice_ints(len, p->given[0] ? &p->v[0] : NULL, p->given[1] ? &p->v[1] : NULL, *step,
                      start) < 2)
    *step = 0;
  return true;
}

/* x[i] of a tensor in memory, i a number: one piece of it? Smaller ones are better fused into their consumers. */
static bool is_one_of_all(anfi_low *L, const anfi_view *v, const item *g) {
  enum { LEAST_BYTES = 512 };
  const anf_type *x = v->in[0]->type;
  bool all = v->in[0]->tensor && g->l.nindex == 1 && g->l.index[0].axis == 0 && g->l.brank == 0 &&
             v->type->n + 1 == x->n;
  if (!all || v->complex || v->n * anfi_t_bytes(anfi_low_dt(v->dtype)) < LEAST_BYTES) return false;
  for (size_t k = 0; k < v->type->n; k++)
    if (g->l.out[k].from != (int)k + 1 || g->start[k] || v->type->dims[k] != x->dims[k + 1])
      return false;
  return !L->o.no_fuse;
}

static anfi_view *one_of_all(anfi_low *L, const anfi_view *v, const item *g) {
  texpr at[ANF_MAX_RANK] = {NULL};
  texpr from = anfi_low_atom(L, anfi_ix_mulc(L, item_index(L, v, g, 0, at), v->n));
  return anfi_view_buffer(
      L, v->type, anfi_low_part(L, v->in[0]->tensor, anfi_lower_elem(v->dtype), from, v->n));
}

bool anfi_lower_get_item(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  item *g = ANFI_NEW(L->a, item);
  const anf_type **types = ANFI_NEW_N(L->a, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) types[i] = q->in[i]->type;
  anfi_infer t = {.cx = L->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = types, .attr = q->attr};
  if (!anfi_subscript_read(L->cx, q->loc, q->attr[0], q->n, &g->s)) return false;
  if (!anfi_layout_of(&t, &g->s, &g->l)) return false;
  for (size_t k = 0; k < g->l.rank; k++) {
    int from = g->l.out[k].from;
    g->step[k] = 1;
    if (from < 0 || g->l.out[k].part == ANFI_PARTS) continue;
    if (!constant_slice(&g->s.part[g->l.out[k].part], (size_t)q->in[0]->type->dims[from],
                        &g->start[k], &g->step[k]))
      return false;
  }
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_item);
  out[0]->data = g;
  if (is_one_of_all(L, out[0], g)) out[0] = one_of_all(L, out[0], g);
  return true;
}
