// SPDX-License-Identifier: Apache-2.0
/* Linear algebra on the last two dims, in double and rounded once.
 *   Cholesky(a), a: f32[5, 3, 3]   ->   5 rounds:  a to f64[3, 3];  the helper;  the factor, rounded, to the result */
#include <math.h>

#include "backend/lower/low.h"

static texpr new_array(anfi_low *L, uint64_t n) { return anfi_low_local(L, ANF_TIR_f64, n, "m"); }

/* Matrix number i of x as doubles. */
static texpr matrix(anfi_low *L, const anfi_view *x, texpr i, uint64_t n) {
  texpr to = new_array(L, n);
  anfi_loop k;
  if (!n) return to;
  anfi_low_loop(L, &k, n, "k");
  anfi_pt p = {0};
  anfi_pt_push(&p, i, x->n / n);
  anfi_pt_push(&p, k.var, n);
  anfi_low_put(L, to, k.var, (anfi_elem){anfi_view_real(L, x, &p, ANFI_F64), NULL}, false);
  anfi_low_loop_end(L, &k);
  return to;
}

static texpr eliminate(anfi_low *L, uint64_t n, uint64_t w, texpr a, texpr b) {
  uint64_t na = n * n, nb = n * w;
  texpr in[6] = {
      anfi_ix(L, n), anfi_ix(L, w), anfi_ix(L, na > 0 ? na : 1), anfi_ix(L, nb > 0 ? nb : 1), a, b};
  return anfi_low_let(L, anfi_low_help(L, "anf_eliminate", ANFI_F64, 6, in), "det");
}

static void substitute(anfi_low *L, uint64_t n, uint64_t w, texpr a, texpr b, bool lower,
                       bool transpose, bool unit) {
  texpr in[9] = {anfi_ix(L, n),
                 anfi_ix(L, w),
                 anfi_ix(L, n * n),
                 anfi_ix(L, n * w),
                 a,
                 b,
                 anfi_t_bool(L->t, lower),
                 anfi_t_bool(L->t, transpose),
                 anfi_t_bool(L->t, unit)};
  anfi_low_add(
      L, anfi_t_eval(L->t, anfi_low_help(L, "anf_substitute", anfi_t_dt(ANF_TIR_void), 9, in)));
}

static uint64_t order_of(const anf_type *t) { return (uint64_t)t->dims[t->n - 1]; }

bool anfi_lower_det(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  uint64_t n = order_of(q->in[0]->type), many;
  texpr to = anfi_low_result(L, q, 0, q->type);
  anfi_loop l;
  out[0] = anfi_view_of_result(L, q->type, to);
  many = out[0]->n;
  if (!many) return true;
  anfi_view_force(L, q->in[0]);
  anfi_low_loop(L, &l, many, "i");
  texpr det = eliminate(L, n, 0, matrix(L, q->in[0], l.var, n * n), new_array(L, 1));
  det = anfi_t_cast(L->t, anfi_low_dt((anf_dtype)q->type->dtype), det);
  anfi_low_put(L, to, l.var, (anfi_elem){det, NULL}, false);
  anfi_low_loop_end(L, &l);
  return true;
}

static texpr unit_matrix(anfi_low *L, uint64_t n) {
  texpr to = new_array(L, n * n);
  anfi_loop i, j;
  anfi_low_loop(L, &i, n, "i");
  anfi_low_loop(L, &j, n, "j");
  texpr on = anfi_t_bin(L->t, TX_cmp_eq, i.var, j.var);
  texpr x = anfi_t_select(L->t, on, anfi_low_const(L, ANFI_F64, 1), anfi_low_const(L, ANFI_F64, 0));
  anfi_low_put(L, to, anfi_ix_add(L, anfi_ix_mulc(L, i.var, n), j.var), (anfi_elem){x, NULL},
               false);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  return to;
}

/* Solve, Inverse (of the unit matrix), TriangularSolve. */
bool anfi_lower_solve(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  uint64_t n = order_of(q->in[0]->type), w = order_of(q->type);
  bool triangular = q->op == ANF_OP_TriangularSolve;
  texpr to = anfi_low_result(L, q, 0, q->type);
  anfi_loop l;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  for (size_t i = 0; i < q->n; i++) anfi_view_force(L, q->in[i]);
  anfi_low_loop(L, &l, q->in[0]->n / (n * n), "i");
  texpr a = matrix(L, q->in[0], l.var, n * n);
  texpr b = q->n > 1 ? matrix(L, q->in[1], l.var, n * w) : unit_matrix(L, n);
  if (triangular) {
    bool lower = anfi_attr_bool(q->attr[0]), transpose = anfi_attr_bool(q->attr[1]);
    substitute(L, n, w, a, b, lower != transpose, transpose, anfi_attr_bool(q->attr[2]));
  } else {
    eliminate(L, n, w, a, b);
    substitute(L, n, w, a, b, false, false, false);
  }
  anfi_low_put_part(L, q, b, to, l.var, n * w);
  anfi_low_loop_end(L, &l);
  return true;
}

bool anfi_lower_cholesky(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  uint64_t n = order_of(q->type);
  texpr to = anfi_low_result(L, q, 0, q->type);
  anfi_loop l, k;
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  anfi_view_force(L, q->in[0]);
  anfi_low_loop(L, &l, out[0]->n / (n * n), "i");
  texpr a = matrix(L, q->in[0], l.var, n * n), r = new_array(L, n * n);
  texpr in[4] = {anfi_ix(L, n), anfi_ix(L, n * n), a, r};
  texpr good = anfi_low_let(L, anfi_low_help(L, "anf_cholesky", ANFI_BOOL, 4, in), "good");
  anfi_low_if(L);
  anfi_low_loop(L, &k, n * n, "k");
  anfi_low_put(L, r, k.var, (anfi_elem){anfi_low_const(L, ANFI_F64, (double)NAN), NULL}, false);
  anfi_low_loop_end(L, &k);
  anfi_low_if_end(L, anfi_t_not(L->t, good));
  anfi_low_put_part(L, q, r, to, l.var, n * n);
  anfi_low_loop_end(L, &l);
  return true;
}

/* ---- decompositions: functions of the run time ---- */

static texpr address(anfi_low *L, texpr tensor) {
  texpr zero = anfi_ix(L, 0);
  return anfi_t_cast(L->t, anfi_t_ptr(ANF_TIR_void), anfi_t_addr(L->t, tensor, 1, &zero));
}

/* Part number i, of n elements, of the result numbered r is what `from` has. */
static void put_item(anfi_low *L, const anfi_low_op *q, size_t r, texpr from, texpr to, texpr i,
                     uint64_t n) {
  anfi_low_op one = *q;
  one.type = q->type->items[r];
  anfi_low_put_part(L, &one, from, to, i, n);
}

typedef struct decomposition {
  trt function;
  uint64_t size[3], work; // elements of each result, and of scratch memory
} decomposition;

static decomposition decomposition_of(anfi_opcode op, uint64_t m, uint64_t n) {
  uint64_t k = m < n ? m : n;
  switch (op) {
  case ANF_OP_Eigh: return (decomposition){TRT_anf_rt_eigh, {n, n * n}, anfi_eigh_work(n)};
  case ANF_OP_Householder: return (decomposition){TRT_anf_rt_householder, {m * n, k}, n};
  case ANF_OP_Lu: return (decomposition){TRT_anf_rt_lu, {m * n, k, m}, 0};
  default: return (decomposition){TRT_anf_rt_svd, {m * k, k, k * n}, anfi_svd_work(m, n)};
  }
}

static uint64_t matrices_of(const anf_type *t) {
  uint64_t n = 1;
  for (uint32_t k = 0; k + 2 < t->n; k++) n *= (uint64_t)t->dims[k];
  return n;
}

/* Eigh, Householder, Lu, Svd. */
bool anfi_lower_decomposition(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[0]->type;
  uint64_t n = order_of(t), m = (uint64_t)t->dims[t->n - 2], elements = 0;
  decomposition d = decomposition_of((anfi_opcode)q->op, m, n);
  uint32_t results = q->type->n, c = 0;
  texpr to[3], part[3], in[7];
  anfi_loop l;
  for (size_t r = 0; r < results; r++) {
    to[r] = anfi_low_result(L, q, r, q->type->items[r]);
    out[r] = anfi_view_of_result(L, q->type->items[r], to[r]);
    elements += out[r]->n;
  }
  if (!elements) return true;
  anfi_view_force(L, q->in[0]);
  anfi_low_loop(L, &l, matrices_of(t), "i");
  texpr a = matrix(L, q->in[0], l.var, m * n);
  for (size_t r = 0; r < results; r++) part[r] = new_array(L, d.size[r]);
  if (q->op != ANF_OP_Eigh) in[c++] = anfi_ix(L, m);
  in[c++] = anfi_ix(L, n);
  in[c++] = address(L, a);
  for (size_t r = 0; r < results; r++) in[c++] = address(L, part[r]);
  if (d.work) in[c++] = address(L, new_array(L, d.work));
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_rt_call(L->t, d.function, c, in)));
  for (size_t r = 0; r < results; r++) put_item(L, q, r, part[r], to[r], l.var, d.size[r]);
  anfi_low_loop_end(L, &l);
  return true;
}
