// SPDX-License-Identifier: Apache-2.0
/* Writing at indices: the result starts as a copy of x, or is x's own buffer if nothing else needs that; updates go in
 * row-major order, so the last of equal indices wins, and sums are rounded to the element type one by one.
 *   IndexWrite(x, i, u)   ->   y = x; for k: y[i[k]] = u[k] */
#include "backend/lower/low.h"
#include "ir/ops/kernel.h"

typedef enum writing { UPDATE, ADD, MUL, MIN, MAX } writing;

static bool how_of(const anf_value *mode, anf_dtype d, writing *how) {
  static const char *const names[] = {"update", "add", "mul", "min", "max"};
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (anfi_attr_is(mode, names[i])) {
      *how = (writing)i;
      bool ordered = i >= MIN;
      return i == UPDATE || (d != ANF_KEY && (!ordered || !anfi_low_complex(d)));
    }
  return false;
}

static anfi_elem load(anfi_low *L, texpr to, texpr at, bool complex) {
  texpr twice = anfi_ix_mulc(L, at, 2);
  if (!complex) return (anfi_elem){anfi_low_let(L, anfi_low_load(L, to, at), "old"), NULL};
  return (anfi_elem){anfi_low_let(L, anfi_low_load(L, to, twice), "old"),
                     anfi_low_let(L, anfi_low_load(L, to, anfi_ix_addc(L, twice, 1)), "old")};
}

static anfi_elem combine_complex(anfi_low *L, writing how, anfi_elem a, anfi_elem b) {
  tstore *t = L->t;
  tdtype d = a.re->dtype;
  anfi_elem x = {anfi_t_cast(t, ANFI_F64, a.re), anfi_t_cast(t, ANFI_F64, a.im)};
  anfi_elem y = {anfi_t_cast(t, ANFI_F64, b.re), anfi_t_cast(t, ANFI_F64, b.im)};
  anfi_elem r = {anfi_t_add(t, x.re, y.re), anfi_t_add(t, x.im, y.im)};
  if (how == MUL) {
    r.re = anfi_t_sub(t, anfi_t_mul(t, x.re, y.re), anfi_t_mul(t, x.im, y.im));
    r.im = anfi_t_add(t, anfi_t_mul(t, x.re, y.im), anfi_t_mul(t, x.im, y.re));
  }
  return (anfi_elem){anfi_t_cast(t, d, r.re), anfi_t_cast(t, d, r.im)};
}

static texpr combine(anfi_low *L, writing how, texpr a, texpr b) {
  tstore *t = L->t;
  tdtype d = a->dtype;
  bool narrow = anfi_t_is_half(d);
  if (d.elem == ANF_TIR_bool)
    return anfi_t_bin(t, how == ADD || how == MAX ? TX_logic_or : TX_logic_and, a, b);
  if (narrow) {
    a = anfi_low_let(L, anfi_t_cast(t, anfi_t_dt(ANF_TIR_f32), a), "a");
    b = anfi_low_let(L, anfi_t_cast(t, anfi_t_dt(ANF_TIR_f32), b), "b");
  }
  texpr r;
  if (how == ADD) r = anfi_t_add(t, a, b);
  else if (how == MUL) r = anfi_t_mul(t, a, b);
  else if (anfi_t_is_float(d)) r = anfi_low_max(L, a, b, how == MAX);
  else r = anfi_t_select(t, anfi_t_lt(t, how == MAX ? b : a, how == MAX ? a : b), a, b);
  return narrow ? anfi_t_cast(t, d, r) : r;
}

/* What the loops of an op write: out[at] how= e. */
static void put(anfi_low *L, const anfi_low_op *q, writing how, texpr to, texpr at, anfi_elem e) {
  bool complex = anfi_low_complex((anf_dtype)q->type->dtype);
  at = anfi_low_atom(L, at);
  if (how != UPDATE) {
    anfi_elem old = load(L, to, at, complex);
    if (complex) e = combine_complex(L, how, old, e);
    else e.re = combine(L, how, old.re, e.re);
  }
  anfi_low_put(L, to, at, e, complex);
}

static texpr begin(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  bool over = q->over && q->in[0]->tensor && !(q->to && q->to[0]);
  texpr to = over ? q->in[0]->tensor : anfi_low_result(L, q, 0, q->type);
  anfi_view_store(L, q->in[0], to);
  out[0] = anfi_view_of_result(L, q->type, to);
  return to;
}

static anfi_elem update_at(anfi_low *L, const anfi_low_op *q, const anfi_view *u,
                           const anfi_pt *p) {
  anfi_elem e = anfi_scalar_cast(L, anfi_view_at(L, u, p), u->dtype, (anf_dtype)q->type->dtype);
  e.re = anfi_low_atom(L, e.re);
  if (e.im) e.im = anfi_low_atom(L, e.im);
  return e;
}

/* ---- slices ---- */

typedef struct loops {
  size_t n;
  int64_t dims[ANF_MAX_RANK];
  texpr at[ANF_MAX_RANK];
  anfi_loop loop[ANF_MAX_RANK];
} loops;

/* False: there is nothing to do, no loop is open. */
static bool open_loops(anfi_low *L, loops *l, size_t n, const int64_t *dims) {
  l->n = n;
  for (size_t k = 0; k < n; k++)
    if (!dims[k]) return false;
  for (size_t k = 0; k < n; k++) {
    l->dims[k] = dims[k];
    anfi_low_loop(L, &l->loop[k], (uint64_t)dims[k], "i");
    l->at[k] = l->loop[k].var;
  }
  return true;
}

static void close_loops(anfi_low *L, loops *l) {
  for (size_t k = l->n; k-- > 0;) anfi_low_loop_end(L, &l->loop[k]);
}

static texpr linear_of(anfi_low *L, const anf_type *t, const texpr *at) {
  anfi_pt p = anfi_pt_of(t->n, t->dims, at);
  return anfi_pt_linear(L, &p);
}

bool anfi_lower_slice_update(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->type;
  int64_t dims[ANF_MAX_RANK], start, step;
  size_t axis = 0;
  loops l;
  if (t->n) memcpy(dims, t->dims, t->n * sizeof *dims);
  anfi_axis_in(anfi_attr_int(q->attr[3]), t->n, &axis);
  dims[axis] = (int64_t)anfi_slice((size_t)t->dims[axis], q->attr, &start, &step);
  const anf_type *u = q->in[1]->type;
  bool spread = u->n != t->n || (t->n && memcmp(u->dims, dims, t->n * sizeof *dims) != 0);
  if (anfi_view_is_lazy(q->in[1]) && spread) anfi_view_force(L, q->in[1]);
  texpr to = begin(L, q, out);
  if (!open_loops(L, &l, t->n, dims)) return true;
  anfi_pt p = anfi_pt_of(t->n, dims, l.at);
  anfi_elem e = anfi_view_at_broadcast(L, q->in[1], t->n, dims, &p);
  e = anfi_scalar_cast(L, e, q->in[1]->dtype, (anf_dtype)t->dtype);
  if (dims[axis] > 1) l.at[axis] = anfi_ix_mulc(L, l.at[axis], (uint64_t)step); // modulo 2^64
  l.at[axis] = anfi_ix_addc(L, l.at[axis], start);
  put(L, q, UPDATE, to, linear_of(L, t, l.at), e);
  close_loops(L, &l);
  return true;
}

bool anfi_lower_dynamic_update_slice(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->type, *u = q->in[1]->type;
  loops l;
  texpr to = begin(L, q, out), start[ANF_MAX_RANK];
  for (size_t k = 0; k < t->n; k++)
    start[k] = anfi_low_clamped(L, q->in[2 + k], u->dims[k], t->dims[k]);
  if (!q->in_place && anfi_view_is_run(q->in[1], u->dims, t)) {
    anfi_view_store_part(L, q->in[1], to, linear_of(L, t, start));
    return true;
  }
  if (!open_loops(L, &l, u->n, u->dims)) return true;
  anfi_pt p = anfi_pt_of(u->n, u->dims, l.at);
  anfi_elem e = update_at(L, q, q->in[1], &p);
  for (size_t k = 0; k < t->n; k++) l.at[k] = anfi_ix_add(L, start[k], l.at[k]);
  put(L, q, UPDATE, to, linear_of(L, t, l.at), e);
  close_loops(L, &l);
  return true;
}

/* ---- at indices ---- */

static texpr position(anfi_low *L, const anfi_low_op *q, const anfi_pt *p, uint64_t size) {
  const anfi_view *index = q->in[1];
  return anfi_low_position(L, anfi_view_at(L, index, p).re, index->dtype, size, q->op, q->loc);
}

/* x seen as [outer, n, inner] around the axis, or as [1, all, 1]; u as [outer, indices, inner]. */
bool anfi_lower_index_write(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  size_t outer = 1, n = q->in[0]->n, inner = 1, axis;
  writing how;
  loops l;
  if (!how_of(q->attr[1], (anf_dtype)q->type->dtype, &how)) return false;
  if (anfi_attr_given(q->attr[0])) {
    anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
    anfi_split_axis(q->type, axis, &outer, &n, &inner);
  }
  texpr to = begin(L, q, out);
  int64_t many = (int64_t)q->in[1]->n, dims[3] = {many, (int64_t)outer, (int64_t)inner};
  if (!open_loops(L, &l, 3, dims)) return true;
  anfi_pt ip = anfi_pt_flat(l.at[0], (uint64_t)many);
  texpr row = position(L, q, &ip, n);
  anfi_pt up = {0};
  anfi_pt_push(&up, l.at[1], outer);
  anfi_pt_push(&up, l.at[0], (uint64_t)many);
  anfi_pt_push(&up, l.at[2], inner);
  anfi_elem e = update_at(L, q, q->in[2], &up);
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, l.at[1], n * inner), anfi_ix_mulc(L, row, inner));
  put(L, q, how, to, anfi_ix_add(L, at, l.at[2]), e);
  close_loops(L, &l);
  return true;
}

bool anfi_lower_write_along(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *index = q->in[1]->type;
  size_t axis = 0;
  writing how;
  loops l;
  if (!how_of(q->attr[1], (anf_dtype)q->type->dtype, &how)) return false;
  anfi_axis_in(anfi_attr_int(q->attr[0]), q->type->n, &axis);
  texpr to = begin(L, q, out);
  if (!open_loops(L, &l, index->n, index->dims)) return true;
  anfi_pt p = anfi_pt_of(index->n, index->dims, l.at);
  l.at[axis] = position(L, q, &p, (uint64_t)q->type->dims[axis]);
  anfi_elem e = update_at(L, q, q->in[2], &p);
  put(L, q, how, to, linear_of(L, q->type, l.at), e);
  close_loops(L, &l);
  return true;
}

bool anfi_lower_scatter_nd(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *index = q->in[1]->type, *t = q->type;
  size_t r = index->n - 1, depth = (size_t)index->dims[r];
  uint64_t count = anfi_dims_product(index->dims, 0, r),
           size = anfi_dims_product(t->dims, depth, t->n);
  writing how;
  loops l;
  if (!how_of(q->attr[0], (anf_dtype)t->dtype, &how)) return false;
  texpr to = begin(L, q, out), block = anfi_ix(L, 0);
  if (!open_loops(L, &l, 2, (int64_t[]){(int64_t)count, (int64_t)size})) return true;
  for (size_t k = 0; k < depth; k++) {
    anfi_pt ip = {0};
    anfi_pt_push(&ip, l.at[0], count);
    anfi_pt_push(&ip, anfi_ix(L, k), depth);
    texpr i = position(L, q, &ip, (uint64_t)t->dims[k]);
    block = anfi_ix_add(L, anfi_ix_mulc(L, block, (uint64_t)t->dims[k]), i);
  }
  anfi_pt up = {0};
  anfi_pt_push(&up, l.at[0], count);
  anfi_pt_push(&up, l.at[1], size);
  anfi_elem e = update_at(L, q, q->in[2], &up);
  put(L, q, how, to, anfi_ix_add(L, anfi_ix_mulc(L, block, size), l.at[1]), e);
  close_loops(L, &l);
  return true;
}

/* How often each number is in the list, or the sums of weights there, which are kept in double. */
bool anfi_lower_bincount(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  tstore *t = L->t;
  const anfi_view *w = q->n > 1 ? q->in[1] : NULL;
  uint64_t n = (uint64_t)q->type->dims[0], many = q->in[0]->n;
  bool real = anfi_dtype_is_float((anf_dtype)q->type->dtype);
  tdtype d = real ? ANFI_F64 : anfi_low_dt((anf_dtype)q->type->dtype);
  texpr to = anfi_low_result(L, q, 0, q->type),
        sum = real ? anfi_low_local(L, ANF_TIR_f64, n, "sum") : to;
  anfi_loop l;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (n) {
    anfi_low_loop(L, &l, n, "i");
    anfi_low_put(L, sum, l.var, (anfi_elem){anfi_low_const(L, d, 0), NULL}, false);
    anfi_low_loop_end(L, &l);
  }
  if (many) {
    anfi_low_loop(L, &l, many, "i");
    texpr x = anfi_low_atom(L, anfi_t_cast(t, ANFI_S64, anfi_view_at_flat(L, q->in[0], l.var).re));
    texpr at = anfi_low_atom(L, anfi_t_cast(t, ANFI_IX, x));
    anfi_low_trap(L, anfi_t_bin(t, TX_cmp_ge, at, anfi_ix(L, n)), ANF_E0404, q->op, q->loc, x,
                  anfi_t_int(t, ANFI_S64, (int64_t)n));
    texpr by = w ? anfi_t_cast(t, d, anfi_view_at_flat(L, w, l.var).re) : anfi_low_const(L, d, 1);
    texpr old = anfi_low_let(L, anfi_low_load(L, sum, at), "old");
    anfi_low_put(L, sum, at, (anfi_elem){anfi_t_add(t, old, by), NULL}, false);
    anfi_low_loop_end(L, &l);
  }
  if (!real || !n) return true;
  anfi_low_loop(L, &l, n, "i");
  texpr x = anfi_t_cast(t, anfi_low_dt((anf_dtype)q->type->dtype), anfi_low_load(L, sum, l.var));
  anfi_low_put(L, to, l.var, (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &l);
  return true;
}
