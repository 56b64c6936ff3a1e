// SPDX-License-Identifier: Apache-2.0
/* Do the updates of a write go to different places? Then each of them is in the result.
 *   z[i, 1:5] = v      writes at (Reshape (Arange 40))[i, 1:5]: parts of what counts, which are apart
 *   z[w:w + 4] = v     at w + (Arange 4)
 * Places from -n to n - 1 are those of a dim of n elements, so numbers are different places if they are different and the
 * largest is less than n above the smallest: their spread is known and less than n. */
#include "autodiff/derive/derive.h"
#include "ir/ops/array/getitem.h"

enum { UNKNOWN = -1, DEEPEST = 8, MOST = 1 << 16 };

static int64_t spread(anfi_derive *q, const anf_node *n, int deep);

static bool is_number(const anf_node *n) {
  return n->type && n->type->kind == ANF_TYPE_TENSOR && !n->type->n &&
         anfi_dtype_is_int((anf_dtype)n->type->dtype);
}

/* Spread of x where its dim of `length` is indexed by `at`. */
static int64_t taken(anfi_derive *q, const anf_node *x, const anf_node *at, int64_t length,
                     int deep) {
  int64_t s = spread(q, x, deep), of_at = is_number(at) ? 0 : spread(q, at, deep);
  return s == UNKNOWN || of_at == UNKNOWN || length < 0 || of_at >= length ? UNKNOWN : s;
}

/* x[i, 1:5, at]: one part at most is an array of indices. */
static int64_t subscripted(anfi_derive *q, const anf_node *n, int deep) {
  anf_ctx *cx = q->ad->m->cx;
  anfi_subscript s;
  const anf_node *x = n->in[0].def, *at = NULL;
  size_t named = 0, axis = 0, of_at = 0;
  if (!x->type || x->type->kind != ANF_TYPE_TENSOR) return UNKNOWN;
  const anf_value *spec = anfi_attr_value(cx, ANF_OP_GetItem, n->u.attrs, 0);
  if (!anfi_subscript_read(cx, anfi_node_loc(n), spec, n->nin, &s)) return UNKNOWN;
  for (size_t k = 0; k < s.n; k++)
    named += s.part[k].kind == ANFI_PART_INDEX || s.part[k].kind == ANFI_PART_SLICE;
  for (size_t k = 0; k < s.n; k++) {
    const anfi_part *p = &s.part[k];
    if (p->kind == ANFI_PART_DOTS) axis += x->type->n - named;
    if (p->kind == ANFI_PART_INDEX && p->given[0] == ANFI_INPUT) {
      const anf_node *i = n->in[p->v[0]].def;
      if (!is_number(i) && at) return UNKNOWN;
      if (!is_number(i)) at = i, of_at = axis;
    }
    axis += p->kind == ANFI_PART_INDEX || p->kind == ANFI_PART_SLICE;
  }
  if (!at) return spread(q, x, deep);
  return of_at < x->type->n ? taken(q, x, at, x->type->dims[of_at], deep) : UNKNOWN;
}

static int64_t along(anfi_derive *q, const anf_node *n, int deep) {
  const anf_node *x = n->in[0].def;
  const anf_value *v = anfi_attr_value(q->ad->m->cx, ANF_OP_Take, n->u.attrs, 0);
  size_t axis = 0, size;
  if (!x->type || x->type->kind != ANF_TYPE_TENSOR || !anfi_type_elements(x->type, &size))
    return UNKNOWN;
  if (!anfi_attr_given(v)) return taken(q, x, n->in[1].def, (int64_t)size, deep);
  return anfi_axis_in(anfi_attr_int(v), x->type->n, &axis)
             ? taken(q, x, n->in[1].def, x->type->dims[axis], deep)
             : UNKNOWN;
}

/* first, first + step, ..: all apart, as far as they are integers of 64 bits. */
static int64_t counted(anfi_derive *q, const anf_node *n) {
  anf_ctx *cx = q->ad->m->cx;
  const anf_type *t = n->type;
  if (!t || t->kind != ANF_TYPE_TENSOR || t->n != 1 || t->dims[0] < 0 || t->dtype != ANF_I64)
    return UNKNOWN;
  for (uint32_t k = 0; k < 3; k++) {
    const anf_value *v = anfi_attr_value(cx, ANF_OP_Arange, n->u.attrs, k);
    if (anfi_dtype_class((anf_dtype)v->type->dtype) >= ANFI_CLASS_FLOAT) return UNKNOWN;
  }
  int64_t by = anfi_attr_int(anfi_attr_value(cx, ANF_OP_Arange, n->u.attrs, 2)),
          count = t->dims[0] ? t->dims[0] - 1 : 0;
  if (!by || by < -MOST || by > MOST || count > INT32_MAX) return UNKNOWN;
  return count * (by < 0 ? -by : by);
}

static int64_t constant(anfi_derive *q, const anf_node *n) {
  const anf_value *v = n->u.value;
  size_t size;
  if (v->kind != ANF_VALUE_TENSOR || !n->type || n->type->kind != ANF_TYPE_TENSOR ||
      !anfi_dtype_is_int((anf_dtype)n->type->dtype) || !anfi_type_elements(n->type, &size) ||
      !size || size > MOST)
    return UNKNOWN;
  int64_t low = anfi_get_i64(v, 0), high = low;
  for (size_t i = 1; i < size; i++) {
    int64_t x = anfi_get_i64(v, i);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  if (low < -MOST || high > MOST) return UNKNOWN;
  bool *seen = ANFI_NEW_N(q->ad->arena, bool, (size_t)(high - low) + 1);
  for (size_t i = 0; i < size; i++) {
    bool *s = &seen[anfi_get_i64(v, i) - low];
    if (*s) return UNKNOWN;
    *s = true;
  }
  return high - low;
}

static int64_t spread(anfi_derive *q, const anf_node *n, int deep) {
  if (n->kind == ANFI_VALUE) return constant(q, n);
  if (n->kind != ANFI_APPLY || !deep--) return UNKNOWN;
  switch (n->op) {
  case ANF_OP_Arange: return counted(q, n);
  case ANF_OP_Slice:
  case ANF_OP_Reshape:
  case ANF_OP_Transpose: return spread(q, n->in[0].def, deep);
  case ANF_OP_GetItem: return subscripted(q, n, deep);
  case ANF_OP_Take: return along(q, n, deep);
  case ANF_OP_Add:
  case ANF_OP_Sub: {
    bool first = is_number(n->in[0].def), second = is_number(n->in[1].def);
    if (first == second || !n->type || n->type->kind != ANF_TYPE_TENSOR ||
        n->type->dtype != ANF_I64)
      return UNKNOWN;
    return spread(q, n->in[first ? 1 : 0].def, deep);
  }
  default: return UNKNOWN;
  }
}

bool anfi_derive_are_apart(anfi_derive *q, const anf_node *at, int64_t length) {
  int64_t s = spread(q, at, DEEPEST);
  return s != UNKNOWN && s < length;
}
