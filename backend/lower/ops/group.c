// SPDX-License-Identifier: Apache-2.0
/* Passes over groups of elements (group.h).
 *   Sum(x, axis=1), x: [m, n]    rows:     for i { s = 0; for j { s += x[i, j] }; y[i] = s }
 *   Sum(x, axis=0)               columns:  for i { for j { s[j] += x[i, j] } } */
#include "backend/lower/ops/group.h"

#include "ir/ops/kernel.h"

/* Is the digit with these places (products of what is after) of an axis in the group? */
static bool digit_inside(const anf_type *t, uint32_t mask, uint64_t stride) {
  uint64_t s = 1;
  for (size_t k = t->n; k-- > 0;) {
    s *= (uint64_t)t->dims[k];
    if (stride < s) return mask >> k & 1;
  }
  return false;
}

/* The strides at which axes of the group and others meet. */
static size_t borders(const anf_type *t, uint32_t mask, uint64_t *cut) {
  uint64_t stride = 1;
  size_t n = 0;
  int before = -1;
  for (size_t k = t->n; k-- > 0;) {
    int in = mask >> k & 1;
    if (t->dims[k] == 1) continue;
    if (before >= 0 && before != in) cut[n++] = stride;
    before = in;
    stride *= (uint64_t)t->dims[k];
  }
  return n;
}

static void sides(group *g) {
  g->side = g->n;
  g->width = 1;
  if (g->size == 1) return;
  while (g->side > 0 && !g->inside[g->side - 1]) g->width *= g->extent[--g->side];
}

static void open_digits(group *g, uint32_t from, uint32_t to, bool inside) {
  for (uint32_t k = from; k < to; k++) {
    if (g->inside[k] != inside) continue;
    anfi_low_loop(g->L, &g->loop[k], g->extent[k], inside ? "k" : "i");
    g->at[k] = g->loop[k].var;
    if (inside && g->reverse && g->extent[k] > 1)
      g->at[k] =
          anfi_low_atom(g->L, anfi_t_sub(g->L->t, anfi_ix(g->L, g->extent[k] - 1), g->at[k]));
  }
}

static void close_digits(group *g, uint32_t from, uint32_t to, bool inside) {
  for (uint32_t k = to; k-- > from;)
    if (g->inside[k] == inside) anfi_low_loop_end(g->L, &g->loop[k]);
}

bool anfi_group_open(group *g, anfi_low *L, const anfi_low_op *q, const anfi_view *x,
                     uint32_t mask) {
  uint64_t cut[ANF_MAX_RANK];
  bool reverse = g->reverse;
  *g = (group){.L = L, .q = q, .x = x, .size = 1, .count = 1, .reverse = reverse};
  bool narrow = anfi_dtype_is_float(x->dtype) && anfi_t_bytes(anfi_low_dt(x->dtype)) < 8;
  g->real = L->o.fast && narrow ? anfi_t_dt(ANF_TIR_f32) : ANFI_F64;
  for (size_t k = 0; k < x->type->n; k++)
    *(mask >> k & 1 ? &g->size : &g->count) *= (uint64_t)x->type->dims[k];
  g->n = 0;
  if (!x->n) return false;
  g->n = anfi_view_digits(L, x, borders(x->type, mask, cut), cut, g->extent);
  uint64_t stride = x->n;
  for (uint32_t k = 0; k < g->n; k++) {
    stride /= g->extent[k];
    g->inside[k] = g->extent[k] > 1 && digit_inside(x->type, mask, stride);
  }
  sides(g);
  open_digits(g, 0, g->side, false);
  for (uint32_t k = 0; k < g->side; k++)
    if (!g->inside[k] && g->extent[k] > 1) {
      g->loop[k].parallel = L->o.parallel && !L->in_parallel && x->n >= ANFI_PARALLEL_WORK;
      break;
    }
  return true;
}

void anfi_group_close(group *g) {
  if (g->n) close_digits(g, 0, g->side, false);
}

/* ---- states ---- */

static bool beside(const group *g) { return g->side < g->n; }

static texpr side_index(const group *g) {
  anfi_pt p = {0};
  for (uint32_t k = g->side; k < g->n; k++) anfi_pt_push(&p, g->at[k], g->extent[k]);
  return anfi_pt_linear(g->L, &p);
}

uint32_t anfi_group_state(group *g, tdtype type, texpr init, const char *name) {
  uint32_t i = g->nstate++;
  g->type[i] = type;
  if (!beside(g)) {
    g->state[i] = anfi_low_var(g->L, type, name, init);
    return i;
  }
  anfi_loop l;
  g->state[i] = anfi_low_local(g->L, (anf_tir_elem)type.elem, g->width, name);
  anfi_low_loop(g->L, &l, g->width, "j");
  anfi_low_put(g->L, g->state[i], l.var, (anfi_elem){init, NULL}, false);
  anfi_low_loop_end(g->L, &l);
  return i;
}

texpr anfi_group_get(const group *g, uint32_t i) {
  if (!beside(g)) return g->state[i];
  texpr at = anfi_low_load(g->L, g->state[i], side_index(g));
  return anfi_low_let(g->L, at, "s"); // stays here: it is written too
}

void anfi_group_set(const group *g, uint32_t i, texpr value) {
  if (beside(g)) anfi_low_put(g->L, g->state[i], side_index(g), (anfi_elem){value, NULL}, false);
  else anfi_low_set(g->L, g->state[i], value);
}

/* ---- passes ---- */

void anfi_group_begin(group *g) {
  open_digits(g, 0, g->side, true);
  open_digits(g, g->side, g->n, false);
}

void anfi_group_end(group *g) {
  close_digits(g, g->side, g->n, false);
  close_digits(g, 0, g->side, true);
}

void anfi_group_begin_each(group *g) { open_digits(g, g->side, g->n, false); }
void anfi_group_end_each(group *g) { close_digits(g, g->side, g->n, false); }

static anfi_pt point(const group *g) {
  anfi_pt p = {0};
  for (uint32_t k = 0; k < g->n; k++) anfi_pt_push(&p, g->at[k], g->extent[k]);
  return p;
}

static texpr number(const group *g, bool inside) {
  anfi_pt p = {0};
  for (uint32_t k = 0; k < g->n; k++)
    if (g->inside[k] == inside) anfi_pt_push(&p, g->at[k], g->extent[k]);
  return anfi_pt_linear(g->L, &p);
}

anfi_elem anfi_group_x(const group *g) {
  anfi_pt p = point(g);
  return anfi_view_at(g->L, g->x, &p);
}

texpr anfi_group_real(const group *g) {
  return anfi_low_atom(g->L, anfi_t_cast(g->L->t, g->real, anfi_group_x(g).re));
}

texpr anfi_group_real_at(const group *g, texpr position) {
  int64_t dims[ANFI_PT_MAX];
  texpr at[ANFI_PT_MAX];
  anfi_pt from = anfi_pt_flat(position, g->size), p = {0};
  size_t n = 0;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->inside[k]) dims[n++] = (int64_t)g->extent[k];
  anfi_pt_dims(g->L, &from, n, dims, at);
  for (uint32_t k = 0, i = 0; k < g->n; k++)
    anfi_pt_push(&p, g->inside[k] ? at[i++] : g->at[k], g->extent[k]);
  return anfi_view_real(g->L, g->x, &p, g->real);
}

texpr anfi_group_position(const group *g) { return number(g, true); }
texpr anfi_group_number(const group *g) { return number(g, false); }
texpr anfi_group_linear(const group *g) {
  anfi_pt p = point(g);
  return anfi_pt_linear(g->L, &p);
}

/* ---- what several ops keep ---- */

texpr anfi_group_beats(const group *g, texpr x, texpr best, bool greatest) {
  tstore *t = g->L->t;
  texpr more = anfi_t_bin(t, greatest ? TX_cmp_gt : TX_cmp_lt, x, best);
  if (!anfi_t_is_float(x->dtype)) return more;
  texpr first = anfi_t_bin(t, TX_logic_and, anfi_t_bin(t, TX_cmp_ne, x, x),
                           anfi_t_bin(t, TX_cmp_eq, best, best));
  return anfi_t_bin(t, TX_logic_or, more, first);
}

texpr anfi_group_least(anfi_low *L, anf_dtype d, bool greatest) {
  tdtype t = anfi_low_dt(d);
  unsigned bits = (unsigned)anfi_t_bytes(t) * 8;
  if (d == ANF_BOOL) return anfi_t_bool(L->t, !greatest);
  if (anfi_t_is_float(t)) return anfi_low_const(L, t, greatest ? -INFINITY : INFINITY);
  if (anfi_t_class(t) == TC_UINT) return anfi_t_int(L->t, t, greatest ? 0 : -1);
  uint64_t least = UINT64_C(1) << (bits - 1);
  return anfi_t_int(L->t, t, (int64_t)(greatest ? 0 - least : least - 1));
}

uint32_t anfi_group_sum(group *g) {
  if (anfi_rows_fit(g)) return anfi_rows_reduce(g, ROWS_SUM, NULL, "sum");
  uint32_t s = anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), "sum");
  anfi_group_begin(g);
  anfi_group_set(g, s, anfi_t_add(g->L->t, anfi_group_get(g, s), anfi_group_real(g)));
  anfi_group_end(g);
  return s;
}

uint32_t anfi_group_sum_squares(group *g, uint32_t mean) {
  if (anfi_rows_fit(g)) {
    texpr m = mean < GROUP_STATES ? anfi_low_let(g->L, anfi_group_get(g, mean), "m") : NULL;
    return anfi_rows_reduce(g, ROWS_SQUARES, m, "square");
  }
  uint32_t s = anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, 0), "square");
  anfi_group_begin(g);
  texpr x = anfi_group_real(g);
  if (mean < GROUP_STATES) x = anfi_low_atom(g->L, anfi_t_sub(g->L->t, x, anfi_group_get(g, mean)));
  anfi_group_set(g, s, anfi_t_add(g->L->t, anfi_group_get(g, s), anfi_t_mul(g->L->t, x, x)));
  anfi_group_end(g);
  return s;
}

static uint32_t top_of_rows(group *g, anfi_rows_op op) {
  uint32_t i = anfi_rows_reduce(g, op, NULL, "top");
  texpr top = anfi_t_cast(g->L->t, g->real, anfi_group_get(g, i));
  g->nstate = i; // its place is that of the real
  return anfi_group_state(g, g->real, top, "top");
}

uint32_t anfi_group_top(group *g) {
  return anfi_rows_fit(g) ? top_of_rows(g, ROWS_TOP) : anfi_group_max(g);
}

uint32_t anfi_group_max(group *g) {
  if (anfi_rows_fit(g)) return top_of_rows(g, ROWS_MAX);
  uint32_t s = anfi_group_state(g, g->real, anfi_low_const(g->L, g->real, -INFINITY), "top");
  anfi_group_begin(g);
  texpr x = anfi_group_real(g), best = anfi_group_get(g, s);
  anfi_group_set(g, s, anfi_t_select(g->L->t, anfi_group_beats(g, x, best, true), x, best));
  anfi_group_end(g);
  return s;
}

texpr anfi_group_exp(const group *g, texpr x) {
  const char *straight = anfi_low_math_name(TI_exp, g->real);
  x = anfi_low_atom(g->L, x);
  if (anfi_dtype_is_float(g->x->dtype) && g->x->dtype != ANF_F64)
    return anfi_low_help(g->L, straight, g->real, 1, &x);
  return anfi_t_intrin(g->L->t, TI_exp, g->real, 1, &x, (tattrs){0});
}

anfi_view *anfi_group_floats(anfi_low *L, const anfi_low_op *q, anfi_view *x) {
  if (!anfi_t_is_half(anfi_low_dt(x->dtype))) return x;
  anfi_low_op cast = {.op = ANF_OP_Cast, .loc = q->loc, .n = 1, .in = &x};
  anfi_view *f;
  cast.type = anfi_type_tensor(L->cx, ANF_F32, x->type->n, x->type->dims);
  anfi_lower_cast(L, &cast, &f);
  return f;
}

anfi_view *anfi_group_whole(anfi_low *L, const anfi_low_op *q, size_t i) {
  if (anfi_view_is_lazy(q->in[i])) anfi_view_force(L, q->in[i]);
  return q->in[i];
}
