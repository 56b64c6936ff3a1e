// SPDX-License-Identifier: Apache-2.0
/* Sorting and searching.
 *   Sort(x)   ->   key[i] = bits of x[i], ordered as x is; order = anf_sort(key); y[i] = x[order[i]]
 * Elements become unsigned keys, of as many bits as an element has, whose order is the order wanted: -0 and 0 are one
 * key, NaN is the last in both directions. Helpers sort keys.
 *   Sort(x)[:k], ArgSort(x)[-k:]   only these k elements are found and written: nothing reads the others
 * The last k in order are the first k of the complemented keys of the line from its end. */
#include <math.h>

#include "backend/lower/low.h"
#include "ir/ops/kernel.h"

#define U64 anfi_t_dt(ANF_TIR_u64)

static texpr u64(anfi_low *L, uint64_t v) { return anfi_t_int(L->t, U64, (int64_t)v); }

static texpr flip(anfi_low *L, texpr k, uint64_t mask) {
  return anfi_t_intrin2(L->t, TI_int_xor, k, u64(L, mask));
}

/* How many of the low bytes of keys may differ: floats are f32 or f64, integers as they are. */
static size_t bytes_of(anf_dtype d) {
  size_t width = anf_dtype_bytes(d);
  return anfi_dtype_is_float(d) && width < 4 ? 4 : width;
}

static uint64_t all_bits(anf_dtype d) { return UINT64_MAX >> (64 - 8 * bytes_of(d)); }

/* Of a negative number all bits turn, of another the highest. */
static texpr real_key(anfi_low *L, texpr x, anf_dtype d, bool descending) {
  tstore *t = L->t;
  bool wide = bytes_of(d) == 8;
  uint64_t all = all_bits(d), top = all ^ all >> 1;
  tdtype real = wide ? ANFI_F64 : anfi_t_dt(ANF_TIR_f32),
         whole = wide ? U64 : anfi_t_dt(ANF_TIR_u32);
  x = anfi_low_atom(L, anfi_t_add(t, anfi_t_cast(t, real, x), anfi_low_const(L, real, 0)));
  texpr bits = anfi_t_intrin(t, TI_reinterpret, whole, 1, &x, (tattrs){0});
  bits = anfi_low_atom(L, anfi_t_cast(t, U64, bits));
  texpr negative = anfi_t_bin(t, TX_cmp_ge, bits, u64(L, top));
  texpr k = anfi_t_select(t, negative, flip(L, bits, all), flip(L, bits, top));
  if (descending) k = flip(L, k, all);
  return anfi_t_select(t, anfi_t_bin(t, TX_cmp_ne, x, x), u64(L, all), k);
}

static texpr key_of(anfi_low *L, texpr x, anf_dtype d, bool descending) {
  if (anfi_dtype_is_float(d)) return real_key(L, x, d, descending);
  bool is_signed = anfi_dtype_class(d) == ANFI_CLASS_SIGNED;
  uint64_t all = all_bits(d), mask = is_signed ? all ^ all >> 1 : 0;
  texpr k = anfi_t_cast(L->t, U64, is_signed ? anfi_t_cast(L->t, ANFI_S64, x) : x);
  if (is_signed && all != UINT64_MAX) k = anfi_t_intrin2(L->t, TI_int_and, k, u64(L, all));
  return flip(L, k, descending ? all ^ mask : mask);
}

typedef struct line { // one line along the axis
  size_t outer, n, inner;
  uint64_t m;    // elements of it that are sorted
  bool from_end; // they are the last ones, found from the last on
  texpr order;
  anfi_loop o, i;
} line;

/* Element k of a line, from its end if that is where the order begins. */
static texpr from_start(anfi_low *L, const line *l, texpr k) {
  return l->from_end ? anfi_t_sub(L->t, anfi_ix(L, l->n - 1), k) : k;
}

static texpr at_line(anfi_low *L, const line *l, uint64_t n, texpr k) {
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, l->o.var, n), k);
  return anfi_ix_add(L, anfi_ix_mulc(L, at, l->inner), l->i.var);
}

static anfi_elem element(anfi_low *L, const line *l, const anfi_view *x, texpr k) {
  anfi_pt p = {0};
  anfi_pt_push(&p, l->o.var, l->outer);
  anfi_pt_push(&p, k, l->n);
  anfi_pt_push(&p, l->i.var, l->inner);
  return anfi_view_at(L, x, &p);
}

enum { FEW = 64 }; // first elements that are found without sorting all

/* The numbers of the first m in order. A few are kept in order while all pass by, which takes m steps for an
 * element at worst. */
static texpr sorted(anfi_low *L, texpr key, size_t bytes, uint64_t n, uint64_t m) {
  tdtype none = anfi_t_dt(ANF_TIR_void);
  texpr order = anfi_low_local(L, ANF_TIR_index, n, "order"), count = anfi_ix(L, n), call;
  if (m < n && m <= FEW) {
    texpr in[4] = {count, anfi_ix(L, m), key, order};
    call = anfi_low_help(L, "anf_least", none, 4, in);
  } else {
    texpr in[6] = {count,
                   anfi_ix(L, bytes),
                   key,
                   order,
                   anfi_low_local(L, ANF_TIR_u64, n, "key_to"),
                   anfi_low_local(L, ANF_TIR_index, n, "order_to")};
    call = anfi_low_help(L, "anf_sort", none, 6, in);
  }
  anfi_low_add(L, anfi_t_eval(L->t, call));
  return order;
}

/* Loops over lines, of each of which the first m are sorted. */
static void open_lines(anfi_low *L, line *l, const anfi_view *x, bool descending) {
  anfi_loop k;
  anfi_low_loop(L, &l->o, l->outer, "i");
  anfi_low_loop(L, &l->i, l->inner, "j");
  texpr key = anfi_low_local(L, ANF_TIR_u64, l->n, "key");
  anfi_low_loop(L, &k, l->n, "k");
  texpr from = anfi_low_atom(L, from_start(L, l, k.var));
  texpr e = key_of(L, element(L, l, x, from).re, x->dtype, descending);
  if (l->from_end) e = flip(L, e, all_bits(x->dtype));
  anfi_low_put(L, key, k.var, (anfi_elem){e, NULL}, false);
  anfi_low_loop_end(L, &k);
  l->order = sorted(L, key, bytes_of(x->dtype), l->n, l->m);
}

static void close_lines(anfi_low *L, line *l) {
  anfi_low_loop_end(L, &l->i);
  anfi_low_loop_end(L, &l->o);
}

/* Those of each line, of `size` results, as values, as numbers, or both. */
static void put_lines(anfi_low *L, const line *l, const anfi_view *x, uint64_t size, texpr values,
                      texpr numbers) {
  anfi_loop k;
  anfi_low_loop(L, &k, l->m, "k");
  texpr from = anfi_low_let(L, from_start(L, l, anfi_low_load(L, l->order, k.var)), "from"),
        to = at_line(L, l, size, from_start(L, l, k.var));
  if (values) anfi_low_put(L, values, to, element(L, l, x, from), false);
  if (numbers)
    anfi_low_put(L, numbers, to, (anfi_elem){anfi_t_cast(L->t, ANFI_S64, from), NULL}, false);
  anfi_low_loop_end(L, &k);
}

typedef struct range { // elements start, start + step, ... along the axis
  size_t n;
  int64_t start, step;
} range;

static void slice_range(const anf_node *slice, size_t axis, range *r) {
  anf_value *at[4];
  size_t a = 0;
  int64_t start, step;
  for (uint32_t k = 0; k < ANFI_LEN(at); k++)
    at[k] = anfi_attr_value(slice->graph->module->cx, ANF_OP_Slice, slice->u.attrs, k);
  if (!anfi_axis_in(anfi_attr_int(at[3]), slice->type->n, &a) || a != axis) return;
  r->n = anfi_slice(r->n, at, &start, &step);
  r->start += r->n ? start * r->step : 0;
  r->step = r->n > 1 ? step * r->step : 1;
}

/* Chooses the elements to sort: the first or the last ones, where all users are slices that read few of them. */
static void choose_part(const anf_node *n, size_t axis, line *l) {
  uint64_t low = l->n, high = 0; // read: low to high - 1
  l->m = l->n, l->from_end = false;
  if (!n || anfi_is_result(n->graph->module, n)) return;
  for (const anfi_use *u = n->uses; u; u = u->next) {
    range r = {.n = l->n, .step = 1};
    const anf_node *x = u->user;
    if (!anfi_is_op(x, ANF_OP_Slice)) return;
    slice_range(x, axis, &r);
    while (!anfi_is_result(x->graph->module, x) && x->uses && !x->uses->next &&
           anfi_is_op(x->uses->user, ANF_OP_Slice))
      slice_range(x = x->uses->user, axis, &r);
    if (!r.n) continue;
    uint64_t first = (uint64_t)r.start, last = (uint64_t)(r.start + (int64_t)(r.n - 1) * r.step);
    if (first > last) {
      uint64_t t = first;
      first = last, last = t;
    }
    low = first < low ? first : low, high = last < high ? high : last + 1;
  }
  if (low >= high) return;
  uint64_t from_end = l->n - low, m = from_end < high ? from_end : high;
  if (m <= FEW) l->m = m, l->from_end = m < high;
}

bool anfi_lower_sort(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool top = q->op == ANF_OP_TopK;
  const anf_type *t = top ? q->type->items[0] : q->type;
  bool descending = anfi_attr_bool(q->attr[top ? 2 : 1]);
  texpr values = NULL, numbers = NULL;
  size_t axis = 0;
  line l;
  if (q->op != ANF_OP_ArgSort) values = anfi_low_result(L, q, 0, t);
  if (top) numbers = anfi_low_result(L, q, 1, q->type->items[1]);
  else if (!values) numbers = anfi_low_result(L, q, 0, t);
  out[0] = anfi_view_of_result(L, t, values ? values : numbers);
  if (top) out[1] = anfi_view_of_result(L, q->type->items[1], numbers);
  if (!out[0]->n) return true;
  anfi_axis_in(anfi_attr_int(q->attr[top ? 1 : 0]), t->n, &axis);
  anfi_view_force(L, q->in[0]);
  anfi_split_axis(q->in[0]->type, axis, &l.outer, &l.n, &l.inner);
  uint64_t size = (uint64_t)t->dims[axis];
  if (top) l.m = size, l.from_end = false;
  else choose_part(q->node, axis, &l);
  open_lines(L, &l, q->in[0], descending);
  put_lines(L, &l, q->in[0], size, values, numbers);
  close_lines(L, &l);
  return true;
}

/* x in the type that numbers are compared in: narrow floats in f32, bools as numbers. */
static texpr comparable(anfi_low *L, texpr x) {
  tdtype d = x->dtype;
  d = anfi_t_accumulator(d);
  return anfi_t_cast(L->t, d.elem == ANF_TIR_bool ? anfi_t_dt(ANF_TIR_u8) : d, x);
}

/* Does e come before v, or `right`: is it no greater? NaN is the last. */
static texpr comes_before(anfi_low *L, texpr e, texpr v, bool right) {
  tstore *t = L->t;
  texpr go = anfi_t_bin(t, right ? TX_cmp_le : TX_cmp_lt, e, v);
  if (!anfi_t_is_float(e->dtype)) return go;
  texpr last = anfi_t_bin(t, TX_cmp_ne, v, v);
  if (!right) last = anfi_t_bin(t, TX_logic_and, last, anfi_t_bin(t, TX_cmp_eq, e, e));
  return anfi_t_bin(t, TX_logic_or, go, last);
}

/* The first place where v can stand: by halving, in as many steps whatever is found. */
static texpr place_of(anfi_low *L, const anfi_view *a, anf_dtype d, texpr v, bool right) {
  tstore *t = L->t;
  texpr lo = anfi_low_var(L, ANFI_IX, "lo", anfi_ix(L, 0));
  for (uint64_t n = a->n, half; n; n -= half) {
    half = n > 1 ? n / 2 : 1;
    texpr at = anfi_ix_addc(L, lo, (int64_t)half - 1);
    anfi_elem e = {anfi_low_let(L, anfi_low_load(L, a->tensor, at), "e"), NULL};
    texpr x = anfi_low_let(L, comparable(L, anfi_scalar_cast(L, e, a->dtype, d).re), "x");
    texpr go = anfi_low_let(L, comes_before(L, x, v, right), "go");
    anfi_low_set(L, lo, anfi_t_select(t, go, anfi_ix_addc(L, lo, (int64_t)half), lo));
  }
  return lo;
}

bool anfi_lower_search_sorted(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anfi_view *a = q->in[0], *v = q->in[1];
  anf_dtype d = ANF_F64;
  anfi_nest n;
  anfi_dtype_promote(a->dtype, v->dtype, &d);
  texpr to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!v->n) return true;
  anfi_view_force(L, q->in[0]);
  anfi_nest_open(L, &n, v, 0, NULL);
  texpr x = anfi_scalar_cast(L, anfi_view_at(L, v, &n.pt), v->dtype, d).re;
  texpr k = anfi_low_let(L, comparable(L, x), "v");
  texpr lo = place_of(L, a, d, k, anfi_attr_is(q->attr[0], "right"));
  anfi_low_put(L, to, anfi_pt_linear(L, &n.pt), (anfi_elem){anfi_t_cast(L->t, ANFI_S64, lo), NULL},
               false);
  anfi_nest_close(L, &n);
  return true;
}

/* ---- random orders ---- */

static texpr random_order(anfi_low *L, const anfi_view *seed, uint64_t n) {
  anfi_loop k;
  texpr key = anfi_low_local(L, ANF_TIR_u64, n, "key");
  anfi_low_loop(L, &k, n, "k");
  texpr in[2] = {anfi_view_at(L, seed, &(anfi_pt){0}).re, anfi_t_cast(L->t, U64, k.var)};
  anfi_low_put(L, key, k.var, (anfi_elem){anfi_low_help(L, "anf_random_u64", U64, 2, in), NULL},
               false);
  anfi_low_loop_end(L, &k);
  return sorted(L, key, 8, n, n);
}

bool anfi_lower_permutation(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to = anfi_low_result(L, q, 0, q->type);
  anfi_loop k;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  texpr order = random_order(L, q->in[0], out[0]->n);
  anfi_low_loop(L, &k, out[0]->n, "k");
  texpr x = anfi_t_cast(L->t, ANFI_S64, anfi_low_load(L, order, k.var));
  anfi_low_put(L, to, k.var, (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &k);
  return true;
}

bool anfi_lower_shuffle(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr to = anfi_low_result(L, q, 0, q->type);
  line l;
  anfi_loop k;
  size_t axis = 0;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  anfi_split_axis(q->type, axis, &l.outer, &l.n, &l.inner);
  texpr order = random_order(L, q->in[0], l.n);
  anfi_low_loop(L, &l.o, l.outer, "i");
  anfi_low_loop(L, &k, l.n, "k");
  texpr from = anfi_low_let(L, anfi_low_load(L, order, k.var), "from");
  anfi_low_loop(L, &l.i, l.inner, "j");
  anfi_low_put(L, to, at_line(L, &l, l.n, k.var), element(L, &l, q->in[1], from),
               q->in[1]->complex);
  anfi_low_loop_end(L, &l.i);
  anfi_low_loop_end(L, &k);
  anfi_low_loop_end(L, &l.o);
  return true;
}
