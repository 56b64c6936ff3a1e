// SPDX-License-Identifier: Apache-2.0
/* Sorting and searching.
 *   Sort(x)   ->   key[i] = bits of x[i], ordered as x is; order = anf_sort(key); y[i] = x[order[i]]
 * Elements become unsigned keys, of as many bits as an element has, whose order is the order wanted: -0 and 0 are one
 * key, NaN is the last in both directions. Helpers sort keys.
 *   Sort(x)[:k], ArgSort(x)[-k:]   only these k elements are found and written: nothing reads the others
 * The last k in order are the first k of the complemented keys of the line from its end. */
#include <math.h>

#include "backend/lower/low.h"
#include "ir/ops/array/getitem.h"

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

enum { FEW = 64 }; // first elements that are found without sorting all

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

/* The keys of elements start to start + n - 1 of a line. */
static texpr keys_of(anfi_low *L, const line *l, const anfi_view *x, bool descending, texpr start,
                     uint64_t n) {
  anfi_loop k;
  texpr key = anfi_low_local(L, ANF_TIR_u64, n, "key");
  anfi_low_loop(L, &k, n, "k");
  texpr from = anfi_low_atom(L, from_start(L, l, anfi_ix_add(L, start, k.var)));
  texpr e = key_of(L, element(L, l, x, from).re, x->dtype, descending);
  if (l->from_end) e = flip(L, e, all_bits(x->dtype));
  anfi_low_put(L, key, k.var, (anfi_elem){e, NULL}, false);
  anfi_low_loop_end(L, &k);
  return key;
}

static void sort_keys(anfi_low *L, texpr key, size_t bytes, uint64_t n, texpr order) {
  texpr in[6] = {anfi_ix(L, n),
                 anfi_ix(L, bytes),
                 key,
                 order,
                 anfi_low_local(L, ANF_TIR_u64, n, "key_to"),
                 anfi_low_local(L, ANF_TIR_index, n, "order_to")};
  texpr call = anfi_low_help(L, "anf_sort", anfi_t_dt(ANF_TIR_void), 6, in);
  anfi_low_add(L, anfi_t_eval(L->t, call));
}

/* Selection by insertion: a sorted list of the m best so far, into which each element goes that is better than its last; at
 * worst m steps for an element. */
static void pass_by(anfi_low *L, const line *l, const anfi_view *x, bool descending, texpr start,
                    uint64_t n, texpr least) {
  texpr key = keys_of(L, l, x, descending, start, n);
  texpr in[6] = {anfi_ix(L, n), anfi_ix(L, l->m), start, key, least, l->order};
  texpr call = anfi_low_help(L, "anf_least", anfi_t_dt(ANF_TIR_void), 6, in);
  anfi_low_add(L, anfi_t_eval(L->t, call));
}

/* Loops over lines, of each of which the first m are sorted. Keys are made by blocks, which stay in cache, if that is all
 * that reads them. */
static void open_lines(anfi_low *L, line *l, const anfi_view *x, bool descending) {
  enum { BLOCK = 1024 };
  bool few = l->m < l->n && l->m <= FEW;
  anfi_loop b;
  anfi_low_loop(L, &l->o, l->outer, "i");
  anfi_low_loop(L, &l->i, l->inner, "j");
  l->order = anfi_low_local(L, ANF_TIR_index, few ? l->m : l->n, "order");
  if (!few) {
    texpr key = keys_of(L, l, x, descending, anfi_ix(L, 0), l->n);
    sort_keys(L, key, bytes_of(x->dtype), l->n, l->order);
    return;
  }
  texpr least = anfi_low_local(L, ANF_TIR_u64, l->m, "least");
  uint64_t whole = l->n / BLOCK * BLOCK;
  if (whole) {
    anfi_low_loop_range(L, &b, anfi_ix(L, 0), anfi_ix(L, whole), BLOCK, "block");
    pass_by(L, l, x, descending, b.var, BLOCK, least);
    anfi_low_loop_end(L, &b);
  }
  if (whole < l->n) pass_by(L, l, x, descending, anfi_ix(L, whole), l->n - whole, least);
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

/* ---- parts of a sorted line that are read ---- */

enum { GONE = ANF_MAX_RANK }; // the axis after an index along it
typedef struct range {        // elements start, start + step, ... along an axis
  size_t axis, n;
  int64_t start, step;
} range;

static void narrow(range *r, const int64_t *from, const int64_t *to, int64_t step) {
  int64_t start;
  if (step == INT64_MIN) step = -INT64_MAX;
  r->n = anfi_slice_ints(r->n, from, to, step, &start);
  r->start += r->n ? start * r->step : 0;
  r->step = r->n > 1 ? step * r->step : 1;
}

static bool slice_range(const anf_node *slice, range *r) {
  anf_value *at[4];
  size_t axis = 0;
  for (uint32_t k = 0; k < ANFI_LEN(at); k++)
    at[k] = anfi_attr_value(slice->graph->module->cx, ANF_OP_Slice, slice->u.attrs, k);
  if (!anfi_axis_in(anfi_attr_int(at[3]), slice->type->n, &axis) || axis != r->axis) return true;
  bool from = anfi_attr_given(at[0]), to = anfi_attr_given(at[1]);
  int64_t bound[2] = {from ? anfi_attr_int(at[0]) : 0, to ? anfi_attr_int(at[1]) : 0};
  narrow(r, from ? &bound[0] : NULL, to ? &bound[1] : NULL, anfi_attr_int(at[2]));
  return true;
}

/* x[..] of constants. */
static bool item_range(const anf_node *item, range *r) {
  anf_ctx *cx = item->graph->module->cx;
  anf_value *spec = anfi_attr_value(cx, ANF_OP_GetItem, item->u.attrs, 0);
  const anf_type *x = item->in[0].def->type;
  anfi_infer q = {.cx = cx, .op = ANF_OP_GetItem, .n = 1, .in = &x, .attr = &spec};
  anfi_subscript s;
  anfi_layout l;
  if (!anfi_subscript_read(cx, anfi_node_loc(item), spec, 1, &s) || !anfi_layout_of(&q, &s, &l))
    return false;
  for (size_t i = 0; i < l.nindex; i++)
    if (l.index[i].axis == r->axis) {
      const anfi_part *p = &s.part[l.index[i].part];
      size_t at = 0;
      if (!anfi_axis_in(p->v[0], r->n, &at)) return false;
      *r = (range){GONE, 1, r->start + (int64_t)at * r->step, 1};
      return true;
    }
  size_t k = 0;
  while (l.out[k].from != (int)r->axis) k++;
  r->axis = k;
  if (l.out[k].part == ANFI_PARTS) return true;
  const anfi_part *p = &s.part[l.out[k].part];
  narrow(r, p->given[0] ? &p->v[0] : NULL, p->given[1] ? &p->v[1] : NULL,
         p->given[2] ? p->v[2] : 1);
  return true;
}

/* Does it read a part that the program's text tells? */
static bool reads_part(const anf_node *n, range *r) {
  if (n->kind != ANFI_APPLY || n->nin != 1 || !anfi_is_tensor(n->type)) return false;
  return n->op == ANF_OP_Slice     ? slice_range(n, r)
         : n->op == ANF_OP_GetItem ? item_range(n, r)
                                   : false;
}

/* What a use reads, through slices of slices. */
static bool read_by(const anf_node *user, range *r) {
  if (!reads_part(user, r)) return false;
  while (r->axis != GONE && !anfi_is_result(user->graph->module, user) && user->uses &&
         !user->uses->next) {
    range inner = *r;
    user = user->uses->user;
    if (!reads_part(user, &inner)) break;
    *r = inner;
  }
  return true;
}

/* Chooses the elements to sort: the first or the last ones, where all users are slices that read few of them. */
static void choose_part(const anf_node *n, size_t axis, line *l) {
  uint64_t low = l->n, high = 0; // read: low to high - 1
  l->m = l->n, l->from_end = false;
  if (!n || anfi_is_result(n->graph->module, n)) return;
  for (const anfi_use *u = n->uses; u; u = u->next) {
    range r = {.axis = axis, .n = l->n, .step = 1};
    if (!read_by(u->user, &r)) return;
    if (!r.n) continue;
    uint64_t first = (uint64_t)r.start, last = (uint64_t)(r.start + (int64_t)(r.n - 1) * r.step);
    uint64_t least = first < last ? first : last, most = first < last ? last : first;
    low = least < low ? least : low, high = most < high ? high : most + 1;
  }
  if (low >= high) return;
  uint64_t from_end = l->n - low, m = from_end < high ? from_end : high;
  if (m <= FEW) l->m = m, l->from_end = m < high;
}

/* ---- ops ---- */

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
  texpr order = anfi_low_local(L, ANF_TIR_index, n, "order");
  sort_keys(L, key, 8, n, order);
  return order;
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
