// SPDX-License-Identifier: Apache-2.0
/* Sorting and searching.
 *   Sort([2, nan, 1]) = [1, 2, nan];   ArgSort([1, 0, 1]) = [1, 0, 2]
 * Orders are stable; a NaN comes after all numbers, in both directions; -0 and 0 are equal. */
#include "ir/ops/kernel.h"

typedef bool (*comes_before)(const void *user, size_t a, size_t b);

/* Bottom-up merge sort of the numbers 0..n-1 in the given room; gives that of the two with the
 * result. */
static size_t *merge_sort(size_t *from, size_t *to, size_t n, comes_before before,
                          const void *user) {
  for (size_t i = 0; i < n; i++) from[i] = i;
  for (size_t run = 1; run < n; run *= 2) {
    for (size_t lo = 0; lo < n; lo += 2 * run) {
      size_t mid = lo + run < n ? lo + run : n, hi = lo + 2 * run < n ? lo + 2 * run : n, l = lo,
             r = mid;
      for (size_t k = lo; k < hi; k++)
        to[k] = r == hi || (l < mid && !before(user, from[r], from[l])) ? from[l++] : from[r++];
    }
    size_t *t = from;
    from = to;
    to = t;
  }
  return from;
}

size_t *anfi_stable_order(anfi_arena *a, size_t n, comes_before before, const void *user) {
  size_t *from = ANFI_NEW_N(a, size_t, n + 1), *to = ANFI_NEW_N(a, size_t, n + 1);
  return merge_sort(from, to, n, before, user);
}

/* Does element a of x come before element b of y, by value? */
static bool less(const anf_value *x, size_t a, const anf_value *y, size_t b, bool descending) {
  anf_dtype d = (anf_dtype)x->type->dtype;
  if (anfi_dtype_is_float(d)) {
    double p = anfi_get_f64(x, a), r = anfi_get_f64(y, b);
    if (p != p || r != r) return p == p;
    return descending ? p > r : p < r;
  }
  int64_t p = anfi_get_i64(x, a), r = anfi_get_i64(y, b);
  if (d == ANF_U64) return descending ? (uint64_t)p > (uint64_t)r : (uint64_t)p < (uint64_t)r;
  return descending ? p > r : p < r;
}

typedef struct {
  const anf_value *x;
  const size_t *at;
  size_t base;
  bool descending;
} line;

static bool before(const void *user, size_t a, size_t b) {
  const line *l = (const line *)user;
  return less(l->x, l->base + l->at[a], l->x, l->base + l->at[b], l->descending);
}

/* Calls `put` with the order of each line along the axis. */
typedef void (*put_line)(anfi_eval *q, size_t line, const anfi_groups *g, const size_t *order);

static void each_line(anfi_eval *q, const anf_value *axis_attr, bool descending, put_line put) {
  const anf_value *x = q->in[0];
  anfi_groups g = anfi_groups_of(q->scratch, x->type, anfi_axes_mask(axis_attr, x->type->n));
  size_t *from = ANFI_NEW_N(q->scratch, size_t, g.size + 1),
         *to = ANFI_NEW_N(q->scratch, size_t, g.size + 1);
  for (size_t i = 0; i < g.count && g.size; i++) {
    line l = {.x = x, .at = g.at, .base = g.base[i], .descending = descending};
    put(q, i, &g, merge_sort(from, to, g.size, before, &l));
  }
}

static void copy(anf_value *to, size_t i, const anf_value *from, size_t k) {
  size_t w = anf_dtype_bytes((anf_dtype)from->type->dtype);
  memcpy(to->data + i * w, from->data + k * w, w);
}

static void put_sorted(anfi_eval *q, size_t i, const anfi_groups *g, const size_t *order) {
  for (size_t k = 0; k < g->size; k++)
    copy(q->out, g->base[i] + g->at[k], q->in[0], g->base[i] + g->at[order[k]]);
}

static void put_order(anfi_eval *q, size_t i, const anfi_groups *g, const size_t *order) {
  for (size_t k = 0; k < g->size; k++)
    anfi_set_i64(q->out, g->base[i] + g->at[k], (int64_t)order[k]);
}

bool anfi_eval_sort(anfi_eval *q) {
  each_line(q, q->attr[0], anfi_attr_bool(q->attr[1]), put_sorted);
  return true;
}

bool anfi_eval_argsort(anfi_eval *q) {
  each_line(q, q->attr[0], anfi_attr_bool(q->attr[1]), put_order);
  return true;
}

/* The result has another size along the axis: its line i starts elsewhere. */
static void put_top(anfi_eval *q, size_t i, const anfi_groups *g, const size_t *order) {
  const anf_type *t = q->type->items[0];
  size_t outer, k, inner, axis = 0;
  anfi_axis_in(anfi_attr_int(q->attr[1]), t->n, &axis);
  anfi_split_axis(t, axis, &outer, &k, &inner);
  size_t start = i / inner * k * inner + i % inner;
  anf_value **part = q->out->u.item; // values, indices
  for (size_t j = 0; j < k; j++) {
    copy(part[0], start + j * inner, q->in[0], g->base[i] + g->at[order[j]]);
    anfi_set_i64(part[1], start + j * inner, (int64_t)order[j]);
  }
}

bool anfi_eval_topk(anfi_eval *q) {
  q->out = anfi_value_new_tuple(q->cx, 2);
  for (size_t i = 0; i < 2; i++)
    q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
  if (q->out->u.item[0]->n) each_line(q, q->attr[1], anfi_attr_bool(q->attr[2]), put_top);
  return true;
}

/* The first place where v can stand in the sorted a: before (left) or after those equal to it. */
bool anfi_eval_search_sorted(anfi_eval *q) {
  anf_value *a = q->in[0], *v = q->in[1];
  bool right = anfi_attr_is(q->attr[0], "right");
  anf_dtype d = ANF_F64;
  anfi_dtype_promote((anf_dtype)a->type->dtype, (anf_dtype)v->type->dtype, &d);
  a = anfi_value_cast(a, d);
  anfi_value_guard(a);
  v = anfi_value_cast(v, d);
  for (size_t i = 0; i < v->n; i++) {
    size_t lo = 0, hi = a->n;
    while (lo < hi) {
      size_t mid = lo + (hi - lo) / 2;
      bool go = right ? !less(v, i, a, mid, false) : less(a, mid, v, i, false);
      if (go) lo = mid + 1;
      else hi = mid;
    }
    anfi_set_i64(q->out, i, (int64_t)lo);
  }
  anf_value_release(a);
  anf_value_release(v);
  return true;
}

bool anfi_eval_bincount(anfi_eval *q) {
  const anf_value *x = q->in[0], *w = anfi_eval_given(q, 1);
  anfi_wide wide = anfi_wide_of((anf_dtype)q->type->dtype);
  double *sum = ANFI_NEW_N(q->scratch, double, q->out->n + 1);
  for (size_t i = 0; i < x->n; i++) {
    int64_t k = anfi_get_i64(x, i);
    if ((uint64_t)k >= q->out->n)
      return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)k,
                       (long long)q->out->n);
    if (wide == ANFI_WIDE_REAL) sum[k] += anfi_get_f64(w, i);
    else
      anfi_set_i64(q->out, (size_t)k,
                   anfi_get_i64(q->out, (size_t)k) + (w ? anfi_get_i64(w, i) : 1));
  }
  return wide != ANFI_WIDE_REAL || anfi_store_f64(q->out, sum);
}

/* ---- result types ---- */

static bool ordered(const anfi_infer *q, size_t i) {
  if (!anfi_is_tensor(q->in[i])) return anfi_infer_no_tensor(q, i);
  anf_dtype d = (anf_dtype)q->in[i]->dtype;
  return anfi_dtype_class(d) <= ANFI_CLASS_FLOAT || anfi_infer_bad_dtype(q, d);
}

bool anfi_infer_sort(anfi_infer *q) {
  size_t axis;
  if (!ordered(q, 0) || !anfi_infer_axis(q, q->attr[0], q->in[0]->n, &axis)) return false;
  q->out = q->op == ANF_OP_ArgSort ? anfi_type_with_dtype(q->cx, q->in[0], ANF_I64) : q->in[0];
  return true;
}

bool anfi_infer_topk(anfi_infer *q) { // k axis largest
  size_t axis = 0;
  int64_t dims[ANF_MAX_RANK], k = anfi_attr_int(q->attr[0]);
  if (!ordered(q, 0) || !anfi_infer_axis(q, q->attr[1], q->in[0]->n, &axis)) return false;
  const anf_type *x = q->in[0];
  if (k < 0 || (x->dims[axis] >= 0 && k > x->dims[axis]))
    return anfi_infer_fail(q, "k must be 0 to the size of the axis");
  if (x->n) memcpy(dims, x->dims, x->n * sizeof *dims);
  dims[axis] = k;
  const anf_type *items[2] = {anfi_type_tensor(q->cx, (anf_dtype)x->dtype, x->n, dims),
                              anfi_type_tensor(q->cx, ANF_I64, x->n, dims)};
  return anfi_infer_is(q, anfi_type_tuple(q->cx, 2, items));
}

bool anfi_infer_search_sorted(anfi_infer *q) {
  if (!ordered(q, 0) || !ordered(q, 1)) return false;
  if (q->in[0]->n != 1) return anfi_infer_fail(q, "the sorted array must be of rank 1");
  if (!anfi_attr_is(q->attr[0], "left") && !anfi_attr_is(q->attr[0], "right"))
    return anfi_infer_fail(q, "side is \"left\" or \"right\"");
  anf_dtype d = ANF_F64; // they are compared in
  anfi_dtype_promote((anf_dtype)q->in[0]->dtype, (anf_dtype)q->in[1]->dtype, &d);
  anfi_infer_meet(q, 0, 2, d);
  return anfi_infer_is(q, anfi_type_with_dtype(q->cx, q->in[1], ANF_I64));
}

bool anfi_infer_bincount(anfi_infer *q) {
  int64_t n = anfi_attr_int(q->attr[0]);
  if (!ordered(q, 0)) return false;
  if (!anfi_dtype_is_int((anf_dtype)q->in[0]->dtype) || q->in[0]->n != 1)
    return anfi_infer_fail(q, "what is counted is a list of integers");
  if (n < 0) return anfi_infer_fail(q, "the length is negative");
  if (anfi_infer_given(q, 1) && (!ordered(q, 1) || !anfi_infer_shape_is(q, 1, 1, q->in[0]->dims)))
    return false;
  anf_dtype d = anfi_infer_given(q, 1) ? (anf_dtype)q->in[1]->dtype : ANF_I64;
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d == ANF_BOOL ? ANF_I64 : d, 1, &n));
}
