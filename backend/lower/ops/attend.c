// SPDX-License-Identifier: Apache-2.0
/* Attention: for each query a row of scores, its softmax, and the weighted sum of values; in double and rounded once.
 *   Attention(q, k, v)   ->   for each row i of q: s = scale q[i] kᵀ; p = e^(s - max s); y[i] = p v / sum p
 * A row that may attend to nothing gives zeros. All inner loops run over keys or over the parts of a value, which lie
 * side by side, so that they are vectors: for this keys are copied with their parts as rows. What is added up in one
 * number keeps its order. Causal rows end at the query. */
#include "backend/lower/ops/attend.h"
#include "ir/ops/kernel.h"

enum { AT_ONCE = 4 }; // parts of a query that one pass over the scores takes

static texpr f64(const attend *a, double v) { return anfi_low_const(a->L, ANFI_F64, v); }
static texpr bin(const attend *a, tkind k, texpr x, texpr y) {
  return anfi_t_bin(a->L->t, k, x, y);
}

/* The index along each dim of x of element (row, col) of the matrix that belongs to the current batch. */
static void digits(const attend *a, const anfi_view *x, texpr row, texpr col, texpr *at) {
  const anf_type *t = x->type;
  size_t r = a->q->type->n;
  for (size_t k = 0; k < t->n; k++) {
    size_t d = r - t->n + k; // dim of the result
    texpr i = d + 2 < r ? a->at[d] : d + 1 < r ? row : col;
    at[k] = t->dims[k] == 1 ? anfi_ix(a->L, 0) : i;
  }
}

texpr anfi_attend_place(const attend *a, const anfi_view *x, const attend_memory *m, texpr row) {
  texpr at[ANF_MAX_RANK], from = anfi_ix(a->L, (uint64_t)m->base);
  digits(a, x, row, anfi_ix(a->L, 0), at);
  for (size_t k = 0; k < x->type->n; k++)
    from = anfi_ix_add(a->L, from, anfi_ix_mulc(a->L, at[k], (uint64_t)m->stride[k]));
  return anfi_low_atom(a->L, from);
}

texpr anfi_attend_element(const attend *a, const anfi_view *x, texpr row, texpr col, tdtype as) {
  texpr at[ANF_MAX_RANK];
  digits(a, x, row, col, at);
  anfi_pt p = anfi_pt_of(x->type->n, x->type->dims, at);
  return anfi_low_atom(a->L, anfi_t_cast(a->L->t, as, anfi_view_at(a->L, x, &p).re));
}

static texpr element(const attend *a, const anfi_view *x, texpr row, texpr col) {
  return anfi_attend_element(a, x, row, col, ANFI_F64);
}

texpr anfi_attend_masked(const attend *a, texpr x, texpr i, texpr j, tdtype as) {
  tstore *t = a->L->t;
  texpr zero = anfi_low_const(a->L, as, 0);
  if (a->mask && a->mask->dtype == ANF_BOOL)
    x = anfi_t_select(t, bin(a, TX_cmp_ne, anfi_attend_element(a, a->mask, i, j, as), zero), x,
                      anfi_low_const(a->L, as, -INFINITY));
  else x = anfi_t_add(t, x, a->mask ? anfi_attend_element(a, a->mask, i, j, as) : zero);
  return anfi_low_let(a->L, x, "x");
}

static void keys(const attend *a, anfi_loop *j) {
  anfi_low_loop_range(a->L, j, anfi_ix(a->L, 0), a->end, 1, "j");
}

static texpr column(const attend *a, texpr p, texpr j) {
  return anfi_low_load(a->L, a->columns, anfi_ix_add(a->L, anfi_ix_mulc(a->L, p, a->s), j));
}

/* The keys of the current batch, in double. */
static void copy_keys(attend *a) {
  anfi_low *L = a->L;
  anfi_loop j, p;
  a->columns = anfi_low_local(L, ANF_TIR_f64, a->d * a->s, "keys");
  if (!a->d) return;
  anfi_low_loop(L, &j, a->s, "j");
  anfi_low_loop(L, &p, a->d, "p");
  texpr to = anfi_ix_add(L, anfi_ix_mulc(L, p.var, a->s), j.var);
  anfi_low_put(L, a->columns, anfi_low_atom(L, to),
               (anfi_elem){element(a, a->key, j.var, p.var), NULL}, false);
  anfi_low_loop_end(L, &p);
  anfi_low_loop_end(L, &j);
}

/* score[j] += the products of n parts from p on, one after the other. */
static void add_products(attend *a, texpr i, texpr p, uint64_t n) {
  anfi_low *L = a->L;
  anfi_loop j;
  texpr q[AT_ONCE], at[AT_ONCE];
  for (uint64_t k = 0; k < n; k++) {
    at[k] = anfi_low_atom(L, anfi_ix_addc(L, p, (int64_t)k));
    q[k] = anfi_low_let(L, element(a, a->query, i, at[k]), "q");
  }
  keys(a, &j);
  texpr sum = anfi_low_load(L, a->score, j.var);
  for (uint64_t k = 0; k < n; k++)
    sum = anfi_t_add(L->t, sum, anfi_t_mul(L->t, q[k], column(a, at[k], j.var)));
  anfi_low_put(L, a->score, j.var, (anfi_elem){sum, NULL}, false);
  anfi_low_loop_end(L, &j);
}

static void dots(attend *a, texpr i) {
  anfi_low *L = a->L;
  anfi_loop j, p;
  uint64_t whole = a->d / AT_ONCE * AT_ONCE;
  keys(a, &j);
  anfi_low_put(L, a->score, j.var, (anfi_elem){f64(a, 0), NULL}, false);
  anfi_low_loop_end(L, &j);
  if (whole) {
    anfi_low_loop_range(L, &p, anfi_ix(L, 0), anfi_ix(L, whole), AT_ONCE, "p");
    add_products(a, i, p.var, AT_ONCE);
    anfi_low_loop_end(L, &p);
  }
  if (a->d > whole) add_products(a, i, anfi_ix(L, whole), a->d - whole);
}

/* Scores of query i, and the greatest. */
static texpr scores(attend *a, texpr i) {
  anfi_low *L = a->L;
  tstore *t = L->t;
  anfi_loop j;
  dots(a, i);
  texpr top = anfi_low_var(L, ANFI_F64, "top", f64(a, -INFINITY));
  keys(a, &j);
  texpr dot = anfi_low_load(L, a->score, j.var);
  texpr x = anfi_attend_masked(a, anfi_t_mul(t, dot, f64(a, a->scale)), i, j.var, ANFI_F64);
  anfi_low_put(L, a->score, j.var, (anfi_elem){x, NULL}, false);
  texpr more = bin(a, TX_logic_or, bin(a, TX_cmp_gt, x, top), bin(a, TX_cmp_ne, x, x));
  anfi_low_set(L, top, anfi_t_select(t, more, x, top));
  anfi_low_loop_end(L, &j);
  return top;
}

/* Scores become exponentials relative to the greatest; gives their sum. */
static texpr exponentials(attend *a, texpr top) {
  anfi_low *L = a->L;
  tstore *t = L->t;
  anfi_loop j;
  keys(a, &j);
  texpr x = anfi_t_sub(t, anfi_low_load(L, a->score, j.var), top);
  texpr e = anfi_t_intrin(t, TI_exp, ANFI_F64, 1, &x, (tattrs){0});
  e = anfi_t_select(t, bin(a, TX_cmp_eq, top, f64(a, -INFINITY)), f64(a, 0), e);
  anfi_low_put(L, a->score, j.var, (anfi_elem){e, NULL}, false);
  anfi_low_loop_end(L, &j);
  texpr sum = anfi_low_var(L, ANFI_F64, "sum", f64(a, 0));
  keys(a, &j);
  anfi_low_set(L, sum, anfi_t_add(t, sum, anfi_low_load(L, a->score, j.var)));
  anfi_low_loop_end(L, &j);
  return sum;
}

/* Weights of 0 add nothing, whatever the value is. */
static void weigh(attend *a, texpr sum, texpr to, texpr row) {
  anfi_low *L = a->L;
  tstore *t = L->t;
  anfi_loop j, p;
  texpr y = anfi_low_local(L, ANF_TIR_f64, a->dv, "y");
  anfi_low_loop(L, &p, a->dv, "p");
  anfi_low_put(L, y, p.var, (anfi_elem){f64(a, 0), NULL}, false);
  anfi_low_loop_end(L, &p);
  if (a->s) {
    keys(a, &j);
    texpr e = anfi_low_let(L, anfi_low_load(L, a->score, j.var), "e");
    anfi_low_if(L);
    texpr w = anfi_low_let(L, bin(a, TX_div, e, sum), "w");
    anfi_low_loop(L, &p, a->dv, "p");
    texpr term = anfi_t_mul(t, w, element(a, a->value, j.var, p.var));
    anfi_low_put(L, y, p.var, (anfi_elem){anfi_t_add(t, anfi_low_load(L, y, p.var), term), NULL},
                 false);
    anfi_low_loop_end(L, &p);
    anfi_low_if_end(L, bin(a, TX_cmp_ne, e, f64(a, 0)));
    anfi_low_loop_end(L, &j);
  }
  anfi_low_loop(L, &p, a->dv, "p");
  texpr x = anfi_t_cast(t, anfi_low_dt((anf_dtype)a->q->type->dtype), anfi_low_load(L, y, p.var));
  anfi_low_put(L, to, anfi_ix_add(L, row, p.var), (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &p);
}

static const anfi_view *held(anfi_low *L, anfi_view *v) {
  anfi_view_force(L, v);
  return v;
}

/* Is v a slice or a permutation of a tensor in memory whose rows are contiguous there, such as heads that are transposed? */
static bool is_strided(const anfi_view *v, attend_memory *m) {
  const anf_type *t = v->type;
  if (!anfi_view_is_lazy(v) || !v->n) return false;
  m->tensor = anfi_map_strides(v, &m->base, m->stride);
  if (!m->tensor || m->base < 0 || m->stride[t->n - 1] != 1) return false;
  for (size_t k = 0; k < t->n; k++)
    if (m->stride[k] < 0) return false;
  return m->stride[t->n - 2] >= t->dims[t->n - 1];
}

/* An operand that is in memory: where it is, or else in a tensor of its own. */
static const anfi_view *in_memory(anfi_low *L, anfi_view *v, attend_memory *m) {
  const anf_type *t = v->type;
  if (!is_strided(v, m)) {
    m->tensor = anfi_view_force(L, v), m->base = 0;
    anfi_dense_strides(t->n, t->dims, m->stride);
  }
  m->ld = (uint64_t)m->stride[t->n - 2];
  return v;
}

static void plan(attend *a, anfi_low *L, const anfi_low_op *q) {
  *a = (attend){.L = L, .q = q, .causal = anfi_attr_bool(q->attr[0])};
  a->query = in_memory(L, q->in[0], &a->queries);
  a->key = in_memory(L, q->in[1], &a->keys);
  a->value = in_memory(L, q->in[2], &a->values);
  a->mask = q->n > 3 && q->in[3] ? held(L, q->in[3]) : NULL;
  const anf_type *tq = a->query->type, *tk = a->key->type, *tv = a->value->type;
  a->l = (uint64_t)tq->dims[tq->n - 2];
  a->d = (uint64_t)tq->dims[tq->n - 1];
  a->s = (uint64_t)tk->dims[tk->n - 2];
  a->dv = (uint64_t)tv->dims[tv->n - 1];
  a->scale = anfi_attr_given(q->attr[1]) ? anfi_attr_float(q->attr[1]) : 1.0 / sqrt((double)a->d);
}

texpr anfi_attend_result(const attend *a, texpr i) {
  const anf_type *t = a->q->type;
  anfi_pt p = {0};
  for (size_t k = 0; k + 2 < t->n; k++) anfi_pt_push(&p, a->at[k], (uint64_t)t->dims[k]);
  anfi_pt_push(&p, i, a->l);
  return anfi_low_atom(a->L, anfi_ix_mulc(a->L, anfi_pt_linear(a->L, &p), a->dv));
}

/* The result of query i. */
static void one_row(attend *a, texpr to, texpr i) {
  anfi_low *L = a->L;
  texpr row = anfi_attend_result(a, i);
  a->score = anfi_low_local(L, ANF_TIR_f64, a->s, "score");
  a->end = anfi_ix(L, a->s);
  if (a->causal && a->s) {
    texpr seen = anfi_low_atom(L, anfi_ix_addc(L, i, 1));
    a->end = anfi_low_atom(L, anfi_t_select(L->t, bin(a, TX_cmp_lt, seen, a->end), seen, a->end));
  }
  texpr sum = f64(a, 0);
  if (a->s) sum = exponentials(a, scores(a, i));
  weigh(a, sum, to, row);
}

/* n rows from `first` on, by kernels; once more if a result is not finite, as 0 times a value that is not. */
static void one_block(attend *a, texpr to, texpr first, uint64_t n) {
  anfi_low *L = a->L;
  anfi_loop i;
  anfi_attend_block(a, to, first, n);
  texpr broken = anfi_attend_broken(a, to, first, n);
  anfi_low_if(L);
  copy_keys(a);
  anfi_low_loop(L, &i, n, "i");
  one_row(a, to, anfi_low_atom(L, anfi_ix_add(L, first, i.var)));
  anfi_low_loop_end(L, &i);
  anfi_low_if_end(L, broken);
}

/* Blocks of rows; the last may be shorter. */
static void all_blocks(attend *a, texpr to, texpr block, uint64_t rows) {
  uint64_t blocks = (a->l + rows - 1) / rows;
  anfi_sizes s = {.full = rows, .last = a->l - (blocks - 1) * rows};
  texpr first = anfi_low_atom(a->L, anfi_ix_mulc(a->L, block, rows));
  while (anfi_low_each_size(a->L, &s, block, blocks)) one_block(a, to, first, s.size);
}

bool anfi_lower_attention(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  attend a;
  anfi_loop loop[ANF_MAX_RANK];
  size_t r = q->type->n;
  texpr to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  plan(&a, L, q);
  uint64_t rows = anfi_attend_rows(&a);
  for (size_t k = 0; k + 1 < r; k++) {
    bool last = k + 2 == r;
    if (last && rows) anfi_attend_copy(&a, rows);
    if (last && a.s && !rows) copy_keys(&a);
    anfi_low_loop(L, &loop[k], last && rows ? (a.l + rows - 1) / rows : (uint64_t)q->type->dims[k],
                  "i");
    a.at[k] = loop[k].var;
  }
  if (L->o.parallel && !L->in_parallel) anfi_low_share(loop, r - 1);
  if (rows) all_blocks(&a, to, a.at[r - 2], rows);
  else one_row(&a, to, a.at[r - 2]);
  for (size_t k = r - 1; k-- > 0;) anfi_low_loop_end(L, &loop[k]);
  return true;
}
