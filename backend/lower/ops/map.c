// SPDX-License-Identifier: Apache-2.0
/* Index maps: each element of the result is an element of an input, or a constant.
 *   Transpose(x)   ->   element (i, j) is x[j, i], read where a consumer asks for it: no loop, no buffer */
#include "backend/lower/low.h"
#include "ir/ops/kernel.h"

typedef struct map {                            // what at-functions need; by dim of the result
  int64_t add[ANF_MAX_RANK], mul[ANF_MAX_RANK]; // position in the input's dim: add + mul * index
  uint8_t from[ANF_MAX_RANK];                   // dim of the input: the result's dim, or NONE
  uint8_t of[ANF_MAX_RANK];
} map;
enum { NONE = 255 };

static void own_dims(anfi_low *L, const anfi_view *v, const anfi_pt *p, texpr *at) {
  anfi_pt_dims(L, p, v->type->n, v->type->dims, at);
}

/* ---- affine maps: transposes, slices, flips ---- */

static texpr affine(anfi_low *L, texpr i, int64_t mul, int64_t add) {
  if (mul >= 0) return anfi_ix_addc(L, anfi_ix_mulc(L, i, (uint64_t)mul), add);
  texpr down = anfi_ix_mulc(L, i, (uint64_t)-mul);
  return anfi_ix_trim(L, anfi_t_sub(L->t, anfi_ix(L, (uint64_t)add), down));
}

static anfi_elem at_affine(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const map *m = (const map *)v->data;
  const anf_type *t = v->in[0]->type;
  texpr at[ANF_MAX_RANK], to[ANF_MAX_RANK];
  own_dims(L, v, p, at);
  for (size_t k = 0; k < t->n; k++)
    to[k] = m->of[k] == NONE ? anfi_ix(L, (uint64_t)m->add[k])
                             : affine(L, at[m->of[k]], m->mul[k], m->add[k]);
  return anfi_view_at_dims(L, v->in[0], to);
}

texpr anfi_map_strides(const anfi_view *v, int64_t *base, int64_t *stride) {
  int64_t below[ANF_MAX_RANK];
  bool same = anfi_view_is_same(v);
  if ((v->at != at_affine && !same) || !v->n) return NULL;
  const map *m = (const map *)v->data;
  const anf_type *t = v->in[0]->type;
  texpr tensor = v->in[0]->tensor;
  *base = 0;
  if (tensor) anfi_dense_strides(t->n, t->dims, below);
  else if (!anfi_view_is_lazy(v->in[0]) || !(tensor = anfi_map_strides(v->in[0], base, below)))
    return NULL;
  if (same) {
    const anf_type *to = v->type;
    return anfi_reshaped_strides(t->n, t->dims, below, to->n, to->dims, stride) ? tensor : NULL;
  }
  for (size_t k = 0; k < v->type->n; k++) stride[k] = 0;
  for (size_t k = 0; k < t->n; k++) {
    *base += m->add[k] * below[k];
    if (m->of[k] != NONE) stride[m->of[k]] += m->mul[k] * below[k];
  }
  return tensor;
}

/* of[k]: dim of the result whose index is that of the input's dim k, times mul, plus add. */
static map *identity(anfi_low *L, size_t rank) {
  map *m = ANFI_NEW(L->a, map);
  for (size_t k = 0; k < rank; k++) {
    m->mul[k] = 1;
    m->of[k] = (uint8_t)k;
  }
  return m;
}

static anfi_view *affine_view(anfi_low *L, const anfi_low_op *q, const anf_type *t, map *m) {
  anfi_low_op one = *q;
  one.n = 1;
  one.type = t;
  anfi_view *v = anfi_view_lazy(L, &one, ORDER_OWN, at_affine);
  v->data = m;
  return v;
}

anfi_view *anfi_map_matrix(anfi_low *L, const anf_type *t, texpr tensor, uint64_t ld,
                           bool transposed) {
  size_t rows = t->n - 2, cols = t->n - 1;
  int64_t dims[2] = {t->dims[transposed ? cols : rows], (int64_t)ld};
  const anf_type *stored = anfi_type_tensor(L->cx, (anf_dtype)t->dtype, 2, dims);
  anfi_view *of = anfi_view_buffer(L, stored, tensor);
  map *m = ANFI_NEW(L->a, map);
  for (size_t k = 0; k < 2; k++) m->mul[k] = 1;
  m->of[0] = (uint8_t)(transposed ? cols : rows);
  m->of[1] = (uint8_t)(transposed ? rows : cols);
  return affine_view(L, &(anfi_low_op){.in = &of}, t, m);
}

bool anfi_lower_transpose(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  size_t rank = q->in[0]->type->n, perm[ANF_MAX_RANK], a, b;
  map *m = identity(L, rank);
  if (q->op == ANF_OP_Transpose) {
    anfi_permutation(q->attr[0], rank, perm);
    for (size_t k = 0; k < rank; k++) m->of[perm[k]] = (uint8_t)k;
  } else {
    anfi_axis_in(anfi_attr_int(q->attr[0]), rank, &a);
    anfi_axis_in(anfi_attr_int(q->attr[1]), rank, &b);
    m->of[a] = (uint8_t)b;
    m->of[b] = (uint8_t)a;
  }
  out[0] = affine_view(L, q, q->type, m);
  return true;
}

bool anfi_lower_flip(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[0]->type;
  uint32_t mask = anfi_reduced_axes(q->attr[0], t->n);
  map *m = identity(L, t->n);
  for (size_t k = 0; k < t->n; k++)
    if (mask >> k & 1) m->mul[k] = -1, m->add[k] = t->dims[k] - 1;
  out[0] = affine_view(L, q, q->type, m);
  return true;
}

bool anfi_lower_slice(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[0]->type;
  size_t axis = 0;
  int64_t start, step;
  map *m = identity(L, t->n);
  anfi_axis_in(anfi_attr_int(q->attr[3]), t->n, &axis);
  size_t n = anfi_slice((size_t)t->dims[axis], q->attr, &start, &step);
  m->add[axis] = start;
  m->mul[axis] = n > 1 ? step : 0; // a huge step is never taken
  out[0] = affine_view(L, q, q->type, m);
  return true;
}

bool anfi_lower_split(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[0]->type;
  bool whole = q->op == ANF_OP_Unstack;
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(q->attr[whole ? 0 : 1]), t->n, &axis);
  for (size_t i = 0; i < q->type->n; i++) {
    int64_t from = (int64_t)i, to;
    map *m = identity(L, t->n);
    if (!whole) anfi_split_part(q->attr[0], t->dims[axis], i, &from, &to);
    m->add[axis] = from;
    for (size_t k = axis; whole && k < t->n; k++) m->of[k] = k == axis ? NONE : (uint8_t)(k - 1);
    out[i] = affine_view(L, q, q->type->items[i], m);
  }
  return true;
}

/* The elements of a group share one result element. */
bool anfi_lower_unreduce(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->type, *y = q->in[0]->type;
  uint32_t mask = anfi_reduced_axes(q->attr[0], t->n);
  map *m = identity(L, y->n);
  bool keep = y->n == t->n;
  for (size_t k = 0, j = 0; k < t->n; k++) {
    bool gone = mask >> k & 1;
    if (gone && !keep) continue;
    m->of[j++] = gone ? NONE : (uint8_t)k;
  }
  out[0] = affine_view(L, q, t, m);
  return true;
}

/* ---- repetition ---- */

static anfi_elem at_broadcast(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  return anfi_view_at_broadcast(L, v->in[0], v->type->n, v->type->dims, p);
}

bool anfi_lower_broadcast(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_low_op one = *q;
  one.n = 1;
  out[0] = anfi_view_lazy(L, &one, ORDER_POINT, at_broadcast);
  return true;
}

static anfi_elem at_tile(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anf_type *t = v->in[0]->type;
  texpr at[ANF_MAX_RANK];
  size_t lead = v->type->n - t->n;
  own_dims(L, v, p, at);
  for (size_t k = 0; k < t->n; k++)
    at[k] = t->dims[k] == v->type->dims[lead + k]
                ? at[lead + k]
                : anfi_ix_modc(L, at[lead + k], (uint64_t)t->dims[k]);
  return anfi_view_at_dims(L, v->in[0], at);
}

/* A loop for the copies along each dim, and one for the elements of a copy. */
static void store_tile(anfi_low *L, const anfi_view *v, texpr to) {
  const anf_type *t = v->in[0]->type;
  anfi_loop copies[ANF_MAX_RANK], of[ANF_MAX_RANK];
  anfi_pt p = {0};
  texpr at[ANF_MAX_RANK];
  size_t lead = v->type->n - t->n;
  for (size_t k = 0; k < v->type->n; k++) {
    int64_t n = k < lead ? 1 : t->dims[k - lead], times = v->type->dims[k] / n;
    anfi_low_loop(L, &copies[k], (uint64_t)times, "r");
    anfi_pt_push(&p, copies[k].var, (uint64_t)times);
    anfi_low_loop(L, &of[k], (uint64_t)n, "i");
    anfi_pt_push(&p, of[k].var, (uint64_t)n);
    if (k >= lead) at[k - lead] = of[k].var;
  }
  anfi_low_put(L, to, anfi_pt_linear(L, &p), anfi_view_at_dims(L, v->in[0], at), v->complex);
  for (size_t k = v->type->n; k-- > 0;) {
    anfi_low_loop_end(L, &of[k]);
    anfi_low_loop_end(L, &copies[k]);
  }
}

bool anfi_lower_tile(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_tile);
  out[0]->store = store_tile;
  return true;
}

static anfi_elem at_repeat(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  uint64_t times = (uint64_t)anfi_attr_int(v->attr[0]);
  texpr at[ANF_MAX_RANK];
  if (!anfi_attr_given(v->attr[1]))
    return anfi_view_at_flat(L, v->in[0], anfi_ix_divc(L, anfi_pt_linear(L, p), times));
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(v->attr[1]), v->type->n, &axis);
  own_dims(L, v, p, at);
  at[axis] = anfi_ix_divc(L, at[axis], times);
  return anfi_view_at_dims(L, v->in[0], at);
}

bool anfi_lower_repeat(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_repeat);
  return true;
}

/* ---- codes of a few bits, of which a byte has several along an axis ---- */

texpr anfi_low_code_of(anfi_low *L, texpr byte, texpr from, unsigned bits) {
  tstore *t = L->t;
  tdtype word = anfi_t_dt(ANF_TIR_s32);
  word.lanes = byte->dtype.lanes;
  bool sign = byte->dtype.elem == ANF_TIR_s8;
  texpr x = anfi_low_let(L, anfi_t_cast(t, word, byte), "x"), at = anfi_t_cast(t, word, from);
  if (!sign)
    return anfi_t_intrin2(t, TI_int_and, anfi_t_intrin2(t, TI_shr, x, at),
                          anfi_t_int(t, word, (1 << bits) - 1));
  texpr rest = anfi_t_int(t, word, 32 - (int)bits);
  return anfi_t_intrin2(t, TI_shr, anfi_t_intrin2(t, TI_shl, x, anfi_t_sub(t, rest, at)), rest);
}

static anfi_elem at_unpack_bits(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  unsigned bits = (unsigned)anfi_attr_int(v->attr[0]);
  uint64_t each = 8 / bits;
  texpr at[ANF_MAX_RANK];
  size_t axis = 0;
  anfi_axis_in(anfi_attr_int(v->attr[1]), v->type->n, &axis);
  own_dims(L, v, p, at);
  texpr nth = anfi_low_atom(L, anfi_ix_modc(L, at[axis], each));
  at[axis] = anfi_ix_divc(L, at[axis], each);
  texpr byte = anfi_low_atom(L, anfi_view_at_dims(L, v->in[0], at).re);
  texpr code = anfi_low_code_of(L, byte, anfi_ix_mulc(L, nth, bits), bits);
  return (anfi_elem){anfi_t_cast(L->t, anfi_low_dt(v->dtype), code), NULL};
}

bool anfi_lower_unpack_bits(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  if (anfi_attr_int(q->attr[0]) == 8) return anfi_lower_same(L, q, out);
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_unpack_bits);
  return true;
}

/* ---- rotation ---- */

static texpr rotated(anfi_low *L, texpr i, uint64_t by, uint64_t n) {
  return by ? anfi_ix_modc(L, anfi_ix_addc(L, i, (int64_t)(n - by)), n) : i;
}

static uint64_t floor_mod(int64_t a, int64_t n) {
  int64_t r = a % n;
  return (uint64_t)(r < 0 ? r + n : r);
}

/* By how much each dim is rotated. */
static void rotations(const anfi_view *v, uint64_t *by) {
  int64_t shift[ANF_MAX_RANK], axes[ANF_MAX_RANK];
  const anf_type *t = v->type;
  size_t n = anfi_attr_ints(v->attr[0], ANF_MAX_RANK, shift), axis = 0;
  size_t m = anfi_attr_ints(v->attr[1], ANF_MAX_RANK, axes);
  for (size_t i = 0; i < m; i++) {
    anfi_axis_in(axes[i], t->n, &axis);
    by[axis] = floor_mod((int64_t)by[axis] + shift[n == 1 ? 0 : i] % t->dims[axis], t->dims[axis]);
  }
}

static anfi_elem at_roll(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const anf_type *t = v->type;
  texpr at[ANF_MAX_RANK];
  if (!anfi_attr_given(v->attr[1])) {
    int64_t shift[ANF_MAX_RANK];
    anfi_attr_ints(v->attr[0], ANF_MAX_RANK, shift);
    uint64_t by = floor_mod(shift[0], (int64_t)v->n);
    return anfi_view_at_flat(L, v->in[0], rotated(L, anfi_pt_linear(L, p), by, v->n));
  }
  uint64_t by[ANF_MAX_RANK] = {0};
  rotations(v, by);
  own_dims(L, v, p, at);
  for (size_t k = 0; k < t->n; k++) at[k] = rotated(L, at[k], by[k], (uint64_t)t->dims[k]);
  return anfi_view_at_dims(L, v->in[0], at);
}

/* ---- elements that are there or not ---- */

anfi_elem anfi_low_choose(anfi_low *L, texpr cond, anfi_elem a, anfi_elem b) {
  anfi_elem r = {anfi_t_select(L->t, cond, a.re, b.re), NULL};
  if (a.im) r.im = anfi_t_select(L->t, cond, a.im, b.im);
  return r;
}

static texpr signed_of(anfi_low *L, texpr i) { return anfi_t_cast(L->t, ANFI_S64, i); }

/* column - row against k */
static texpr side(anfi_low *L, tkind k, texpr row, texpr column, int64_t diagonal) {
  texpr above = anfi_t_sub(L->t, signed_of(L, column), signed_of(L, row));
  return anfi_t_bin(L->t, k, above, anfi_t_int(L->t, ANFI_S64, diagonal));
}

static anfi_elem at_tri(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr at[ANF_MAX_RANK];
  size_t r = v->type->n;
  own_dims(L, v, p, at);
  tkind k = v->op == ANF_OP_Tril ? TX_cmp_le : TX_cmp_ge;
  texpr in = side(L, k, at[r - 2], at[r - 1], anfi_attr_int(v->attr[0]));
  return anfi_low_choose(L, in, anfi_view_at(L, v->in[0], p), anfi_view_zero(L, v));
}

bool anfi_lower_tri(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_tri);
  return true;
}

/* A variable that is `other` unless a branch assigns it. */
static anfi_elem begin_maybe(anfi_low *L, const anfi_view *v, anfi_elem other) {
  anfi_elem r = {anfi_low_var(L, anfi_low_dt(v->dtype), "e", other.re), NULL};
  if (v->complex) r.im = anfi_low_var(L, anfi_low_dt(v->dtype), "e", other.im);
  return r;
}

static void assign(anfi_low *L, anfi_elem to, anfi_elem e) {
  anfi_low_set(L, to.re, e.re);
  if (to.im) anfi_low_set(L, to.im, e.im);
}

static anfi_elem at_diag(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  int64_t k = anfi_attr_int(v->attr[0]);
  texpr at[2];
  own_dims(L, v, p, at);
  anfi_elem r = begin_maybe(L, v, anfi_view_zero(L, v));
  texpr in = side(L, TX_cmp_eq, at[0], at[1], k);
  anfi_low_if(L);
  assign(L, r, anfi_view_at_flat(L, v->in[0], k < 0 ? at[1] : at[0]));
  anfi_low_if_end(L, in);
  return r;
}

static anfi_elem at_diagonal(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  int64_t k = anfi_attr_int(v->attr[0]);
  texpr at[2];
  own_dims(L, v, p, at);
  at[1] = anfi_ix_addc(L, at[0], k > 0 ? k : 0);
  at[0] = anfi_ix_addc(L, at[0], k < 0 ? -k : 0);
  return anfi_view_at_dims(L, v->in[0], at);
}

/* ---- padding ---- */

/* The index in the input, from the index in the padded dim less the padding before. */
static texpr padded_from(anfi_low *L, const anf_value *mode, texpr i, int64_t before, int64_t n) {
  tstore *t = L->t;
  texpr s = anfi_low_atom(L, anfi_t_sub(t, signed_of(L, i), anfi_t_int(t, ANFI_S64, before)));
  texpr zero = anfi_t_int(t, ANFI_S64, 0), last = anfi_t_int(t, ANFI_S64, n - 1), r;
  if (anfi_attr_is(mode, "edge")) {
    r = anfi_t_select(t, anfi_t_lt(t, s, zero), zero,
                      anfi_t_select(t, anfi_t_bin(t, TX_cmp_gt, s, last), last, s));
    return anfi_low_atom(L, anfi_t_cast(t, ANFI_IX, r));
  }
  bool wrap = anfi_attr_is(mode, "wrap"), reflect = anfi_attr_is(mode, "reflect");
  int64_t period = wrap ? n : reflect ? (n > 1 ? 2 * n - 2 : 1) : 2 * n;
  int64_t up = (before + period - 1) / period * period; // makes it not negative
  texpr x = anfi_ix_modc(L, anfi_ix_addc(L, i, up - before), (uint64_t)period);
  if (wrap || period == 1) return x;
  x = anfi_low_atom(L, x);
  texpr back = anfi_t_sub(t, anfi_ix(L, (uint64_t)(reflect ? 2 * n - 2 : 2 * n - 1)), x);
  return anfi_low_atom(L, anfi_t_select(t, anfi_t_lt(t, x, anfi_ix(L, (uint64_t)n)), x, back));
}

static anfi_elem at_pad_mode(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  int64_t w[2 * ANF_MAX_RANK];
  const anf_type *t = v->in[0]->type;
  texpr at[ANF_MAX_RANK];
  anfi_attr_ints(v->attr[0], 2 * ANF_MAX_RANK, w);
  own_dims(L, v, p, at);
  for (size_t k = 0; k < t->n; k++)
    if (w[2 * k] || w[2 * k + 1]) at[k] = padded_from(L, v->attr[1], at[k], w[2 * k], t->dims[k]);
  return anfi_view_at_dims(L, v->in[0], at);
}

static texpr both(anfi_low *L, texpr a, texpr b) {
  return a ? anfi_t_bin(L->t, TX_logic_and, a, b) : b;
}

static anfi_elem at_pad(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  int64_t w[2 * ANF_MAX_RANK];
  const anf_type *t = v->in[0]->type;
  texpr at[ANF_MAX_RANK], in = NULL;
  anfi_elem fill = anfi_low_literal(L, v->attr[2], 0, v->dtype);
  anfi_attr_ints(v->attr[0], 2 * ANF_MAX_RANK, w);
  if (v->in[0]->n == 0) return fill;
  own_dims(L, v, p, at);
  for (size_t k = 0; k < t->n; k++) {
    if (!w[2 * k] && !w[2 * k + 1]) continue;
    at[k] = anfi_low_atom(L, anfi_ix_addc(L, at[k], -w[2 * k])); // wraps: below 0 is huge
    in = both(L, in, anfi_t_lt(L->t, at[k], anfi_ix(L, (uint64_t)t->dims[k])));
  }
  if (!in) return anfi_view_at_dims(L, v->in[0], at);
  anfi_elem r = begin_maybe(L, v, fill);
  anfi_low_if(L);
  assign(L, r, anfi_view_at_dims(L, v->in[0], at));
  anfi_low_if_end(L, in);
  return r;
}

/* Where element `p` of a block stands in the result, which it lies in from `first` on. Dims that the
 * block fills are taken together with the one before them. */
static texpr place(anfi_low *L, const anf_type *block, const int64_t *first, const anf_type *t,
                   const anfi_pt *p) {
  int64_t stride[ANF_MAX_RANK], dims[ANF_MAX_RANK], step[ANF_MAX_RANK], base = 0;
  texpr at[ANF_MAX_RANK], sum = NULL;
  size_t n = 0;
  anfi_dense_strides(t->n, t->dims, stride);
  for (size_t k = 0; k < t->n; k++) {
    base += first[k] * stride[k];
    if (n && block->dims[k] == t->dims[k]) dims[n - 1] *= block->dims[k];
    else dims[n++] = block->dims[k];
    step[n - 1] = stride[k];
  }
  anfi_pt_dims(L, p, n, dims, at);
  for (size_t k = 0; k < n; k++) {
    texpr x = anfi_ix_mulc(L, at[k], (uint64_t)step[k]);
    sum = sum ? anfi_ix_add(L, sum, x) : x;
  }
  return sum ? anfi_ix_addc(L, sum, base) : anfi_ix(L, (uint64_t)base);
}

/* Writes x, seen as a block of these dims, into the result from `first` on. */
static void store_block(anfi_low *L, const anfi_view *x, const anf_type *block,
                        const int64_t *first, const anfi_view *v, texpr to) {
  anfi_nest n;
  uint64_t stride = 1, cut[ANF_MAX_RANK];
  size_t ncut = 0;
  for (size_t k = block->n; k-- > 0;) {
    stride *= (uint64_t)block->dims[k];
    if (block->dims[k] != v->type->dims[k]) cut[ncut++] = stride;
  }
  anfi_nest_open(L, &n, x, ncut, cut);
  anfi_elem e = anfi_scalar_cast(L, anfi_view_at(L, x, &n.pt), x->dtype, v->dtype);
  anfi_low_put(L, to, place(L, block, first, v->type, &n.pt), e, v->complex);
  anfi_nest_close(L, &n);
}

static void store_pad(anfi_low *L, const anfi_view *v, texpr to) {
  int64_t w[2 * ANF_MAX_RANK], first[ANF_MAX_RANK];
  anfi_attr_ints(v->attr[0], 2 * ANF_MAX_RANK, w);
  anfi_loop l;
  anfi_low_loop(L, &l, v->n, "i");
  anfi_low_put(L, to, l.var, anfi_low_literal(L, v->attr[2], 0, v->dtype), v->complex);
  anfi_low_loop_end(L, &l);
  for (size_t k = 0; k < v->type->n; k++) first[k] = w[2 * k];
  if (v->in[0]->n) store_block(L, v->in[0], v->in[0]->type, first, v, to);
}

/* Elements of x from `first` on, as many as dims says. */
static const anfi_view *block_of(anfi_low *L, const anfi_view *v, anfi_view *x,
                                 const int64_t *first, const anf_type *block) {
  anfi_view *in[1] = {x};
  map *m = identity(L, block->n);
  memcpy(m->add, first, block->n * sizeof *first);
  return affine_view(
      L, &(anfi_low_op){.op = v->op, .loc = v->loc, .n = 1, .in = in, .attr = v->attr}, block, m);
}

/* Around the middle, which is the input, the elements of each dim's two ends: those of the dims before
 * it are of the middle, those of the dims after it are all. */
static void store_pad_mode(anfi_low *L, const anfi_view *v, texpr to) {
  int64_t w[2 * ANF_MAX_RANK], first[ANF_MAX_RANK] = {0}, dims[ANF_MAX_RANK];
  const anf_type *t = v->type, *x = v->in[0]->type;
  anfi_view *whole = anfi_view_new(L, t, VIEW_LAZY);
  *whole = *v;
  whole->store = NULL;
  anfi_attr_ints(v->attr[0], 2 * ANF_MAX_RANK, w);
  memcpy(dims, t->dims, t->n * sizeof *dims);
  for (size_t k = 0; k < t->n; k++) {
    for (int end = 0; end < 2; end++) {
      first[k] = end ? w[2 * k] + x->dims[k] : 0;
      dims[k] = w[2 * k + (size_t)end];
      if (!dims[k]) continue;
      const anf_type *block = anfi_type_tensor(L->cx, v->dtype, t->n, dims);
      store_block(L, block_of(L, v, whole, first, block), block, first, v, to);
    }
    first[k] = w[2 * k];
    dims[k] = x->dims[k];
  }
  store_block(L, v->in[0], x, first, v, to);
}

bool anfi_lower_pad(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool constant = anfi_attr_is(q->attr[1], "constant");
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, constant ? at_pad : at_pad_mode);
  if (constant && q->type->n) out[0]->store = store_pad;
  else if (q->type->n && q->in[0]->n) out[0]->store = store_pad_mode;
  return true;
}

/* ---- diagonals and rotations, block by block ---- */

static void store_diag(anfi_low *L, const anfi_view *v, texpr to) {
  int64_t k = anfi_attr_int(v->attr[0]);
  uint64_t row = k < 0 ? (uint64_t)-k : 0, column = k > 0 ? (uint64_t)k : 0,
           n = (uint64_t)v->type->dims[1];
  anfi_loop l;
  anfi_low_loop(L, &l, v->n, "i");
  anfi_low_put(L, to, l.var, anfi_view_zero(L, v), v->complex);
  anfi_low_loop_end(L, &l);
  anfi_low_loop(L, &l, v->in[0]->n, "i");
  texpr at = anfi_ix_addc(L, anfi_ix_mulc(L, l.var, n + 1), (int64_t)(row * n + column));
  anfi_low_put(L, to, at, anfi_view_at_flat(L, v->in[0], l.var), v->complex);
  anfi_low_loop_end(L, &l);
}

bool anfi_lower_diag(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, q->type->n == 2 ? at_diag : at_diagonal);
  if (q->type->n == 2 && q->in[0]->n) out[0]->store = store_diag;
  return true;
}

/* A rotated dim is two blocks. */
static void store_roll(anfi_low *L, const anfi_view *v, texpr to) {
  const anf_type *t = v->type;
  uint64_t by[ANF_MAX_RANK] = {0};
  size_t rolled[ANF_MAX_RANK], n = 0;
  int64_t first[ANF_MAX_RANK] = {0}, from[ANF_MAX_RANK] = {0}, dims[ANF_MAX_RANK];
  rotations(v, by);
  memcpy(dims, t->dims, t->n * sizeof *dims);
  for (size_t k = 0; k < t->n; k++)
    if (by[k]) rolled[n++] = k;
  for (uint32_t part = 0; part < UINT32_C(1) << n; part++) {
    for (size_t i = 0; i < n; i++) {
      size_t k = rolled[i];
      int64_t far = (int64_t)by[k], near = t->dims[k] - far;
      bool start = part >> i & 1; // of the result, what was the end
      first[k] = start ? 0 : far;
      from[k] = start ? near : 0;
      dims[k] = start ? far : near;
    }
    const anf_type *block = anfi_type_tensor(L->cx, v->dtype, t->n, dims);
    store_block(L, block_of(L, v, v->in[0], from, block), block, first, v, to);
  }
}

bool anfi_lower_roll(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  enum { MOST = 3 }; // axes
  uint64_t by[ANF_MAX_RANK] = {0};
  size_t rolled = 0;
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_roll);
  if (!anfi_attr_given(q->attr[1]) || !out[0]->n) return true;
  rotations(out[0], by);
  for (size_t k = 0; k < q->type->n; k++) rolled += by[k] != 0;
  if (rolled <= MOST) out[0]->store = store_roll;
  return true;
}

/* ---- joining ---- */

static anfi_elem part_at(anfi_low *L, const anfi_view *v, size_t i, const texpr *at, size_t axis,
                         int64_t from) {
  const anfi_view *x = v->in[i];
  texpr to[ANF_MAX_RANK];
  bool stack = v->op == ANF_OP_Stack;
  for (size_t k = 0, j = 0; k < v->type->n; k++) {
    if (k == axis && stack) continue;
    to[j++] = k == axis ? anfi_ix_addc(L, at[k], -from) : at[k];
  }
  return anfi_scalar_cast(L, anfi_view_at_dims(L, x, to), x->dtype, v->dtype);
}

/* One branch for each input, one after the other. */
static anfi_elem at_concat(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr at[ANF_MAX_RANK];
  size_t axis = 0;
  int64_t from = 0;
  anfi_axis_in(anfi_attr_int(v->attr[0]), v->type->n, &axis);
  own_dims(L, v, p, at);
  texpr i = at[axis] = anfi_low_atom(L, at[axis]);
  anfi_elem r = begin_maybe(L, v, anfi_view_zero(L, v));
  for (size_t k = 0; k < v->nin; k++) {
    int64_t size = v->op == ANF_OP_Stack ? 1 : v->in[k]->type->dims[axis];
    if (!size) continue;
    texpr in = anfi_t_lt(L->t, i, anfi_ix(L, (uint64_t)(from + size)));
    if (from) in = both(L, anfi_t_bin(L->t, TX_cmp_ge, i, anfi_ix(L, (uint64_t)from)), in);
    anfi_low_if(L);
    assign(L, r, part_at(L, v, k, at, axis, from));
    anfi_low_if_end(L, in);
    from += size;
  }
  return r;
}

static void store_concat(anfi_low *L, const anfi_view *v, texpr to) {
  size_t axis = 0;
  int64_t first[ANF_MAX_RANK] = {0}, dims[ANF_MAX_RANK], stride[ANF_MAX_RANK];
  anfi_axis_in(anfi_attr_int(v->attr[0]), v->type->n, &axis);
  anfi_dense_strides(v->type->n, v->type->dims, stride);
  for (size_t i = 0; i < v->nin; i++) {
    if (v->type->n) memcpy(dims, v->type->dims, v->type->n * sizeof *dims);
    dims[axis] = v->op == ANF_OP_Stack ? 1 : v->in[i]->type->dims[axis];
    if (!v->in[i]->n) continue;
    if (anfi_view_is_run(v->in[i], dims, v->type))
      anfi_view_store_part(L, v->in[i], to, anfi_ix(L, (uint64_t)(first[axis] * stride[axis])));
    else
      store_block(L, v->in[i], anfi_type_tensor(L->cx, v->in[i]->dtype, v->type->n, dims), first, v,
                  to);
    first[axis] += dims[axis];
  }
}

bool anfi_lower_concat(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  out[0] = anfi_view_lazy(L, q, ORDER_OWN, at_concat);
  out[0]->store = store_concat;
  return true;
}
