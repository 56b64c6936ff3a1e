// SPDX-License-Identifier: Apache-2.0
/* Matrix products and Einsum.
 *   MatMul(a, b)   ->   for i: for j: sum: f64 = 0; for k: sum += f64(a[i, k]) * f64(b[k, j]); y[i, j] = f32(sum)
 * Products of floats that are worth it go to kernels (gemm.c); all else is plain loops: sums are kept in double (s64
 * for integers) and taken in ascending order of the summed index, as the interpreter does; with `fast` narrow floats
 * are summed in f32. The innermost loop runs along the columns of the result, over an array of sums. */
#include <math.h>

#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"
#include "ir/ops/kernel.h"

typedef struct sums { // of a row of the result
  anfi_low *L;
  tdtype type;
  bool complex;
  texpr re, im; // arrays
} sums;

static tdtype sum_type(const anfi_low *L, anf_dtype d) {
  anf_tir_elem e = anfi_lower_elem(d);
  if (!anfi_t_is_float(anfi_t_dt(e))) // modulo 2^32 or 2^64
    return d != ANF_BOOL && anf_dtype_bytes(d) <= 4 ? anfi_t_dt(ANF_TIR_u32) : ANFI_S64;
  return L->o.fast && e != ANF_TIR_f64 ? anfi_t_dt(ANF_TIR_f32) : ANFI_F64;
}

static sums new_sums(anfi_low *L, anf_dtype d, uint64_t n) {
  sums s = {.L = L, .type = sum_type(L, d), .complex = anfi_low_complex(d)};
  s.re = anfi_low_local(L, (anf_tir_elem)s.type.elem, n, "acc");
  s.im = s.complex ? anfi_low_local(L, (anf_tir_elem)s.type.elem, n, "acc") : NULL;
  return s;
}

static anfi_elem widen(const sums *s, const anfi_view *v, anfi_elem x) {
  tstore *t = s->L->t;
  anfi_elem e = {anfi_low_atom(s->L, anfi_t_cast(t, s->type, x.re)), NULL};
  if (!s->complex) return e;
  e.im = v->complex ? anfi_low_atom(s->L, anfi_t_cast(t, s->type, x.im))
                    : anfi_low_const(s->L, s->type, 0);
  return e;
}

static anfi_elem product(const sums *s, anfi_elem a, anfi_elem b) {
  tstore *t = s->L->t;
  if (!s->complex) return (anfi_elem){anfi_t_mul(t, a.re, b.re), NULL};
  return (anfi_elem){anfi_t_sub(t, anfi_t_mul(t, a.re, b.re), anfi_t_mul(t, a.im, b.im)),
                     anfi_t_add(t, anfi_t_mul(t, a.re, b.im), anfi_t_mul(t, a.im, b.re))};
}

static void set_sum(const sums *s, texpr at, anfi_elem e) {
  anfi_low_put(s->L, s->re, at, (anfi_elem){e.re, NULL}, false);
  if (s->complex) anfi_low_put(s->L, s->im, at, (anfi_elem){e.im, NULL}, false);
}

static anfi_elem plus(const sums *s, anfi_elem a, anfi_elem b) {
  tstore *t = s->L->t;
  return (anfi_elem){anfi_low_let(s->L, anfi_t_add(t, a.re, b.re), "sum"),
                     s->complex ? anfi_low_let(s->L, anfi_t_add(t, a.im, b.im), "sum") : NULL};
}

/* The sum, rounded to the result's type; of a bool, whether it is not 0. */
static anfi_elem rounded(const sums *s, anfi_elem x, anf_dtype d) {
  tstore *t = s->L->t;
  if (d == ANF_BOOL)
    return (anfi_elem){anfi_t_bin(t, TX_cmp_ne, x.re, anfi_t_int(t, x.re->dtype, 0)), NULL};
  anfi_elem e = {anfi_t_cast(t, anfi_low_dt(d), x.re), NULL};
  if (s->complex) e.im = anfi_t_cast(t, anfi_low_dt(d), x.im);
  return e;
}

static anfi_elem get_sum(const sums *s, texpr at) {
  anfi_elem x = {anfi_low_load(s->L, s->re, at), NULL};
  if (s->complex) x.im = anfi_low_load(s->L, s->im, at);
  return x;
}

static anfi_elem zero_of(const sums *s) {
  texpr z = anfi_low_const(s->L, s->type, 0);
  return (anfi_elem){z, z};
}

/* ---- matrices ---- */

typedef struct matrix { // an operand of MatMul or Linear: batch dims, then rows and columns
  anfi_view *v;
  size_t nbatch;
  bool transposed, vector; // vector: no row (of a) or column (of b)
  /* a view of another tensor, read where it is (strided_matrix); NULL: v is read, which is dense */
  texpr tensor;
  int64_t base, stride[ANF_MAX_RANK];
  uint64_t ld;
} matrix;

/* The operand's element at the point (batch, row, column). */
static anfi_elem element(anfi_low *L, const matrix *m, bool left, size_t nb, const texpr *batch,
                         texpr row, texpr col) {
  const anf_type *t = m->v->type;
  texpr at[ANF_MAX_RANK];
  if (m->vector) {
    at[0] = left ? col : row;
    return anfi_view_at_dims(L, m->v, at);
  }
  for (size_t k = 0; k < m->nbatch; k++)
    at[k] = t->dims[k] == 1 ? anfi_ix(L, 0) : batch[nb - m->nbatch + k];
  at[m->nbatch] = m->transposed ? col : row;
  at[m->nbatch + 1] = m->transposed ? row : col;
  return anfi_view_at_dims(L, m->v, at);
}

typedef struct matmul {
  /* operands */
  matrix a, b;
  anfi_view *bias; // by column, or NULL
  /* sizes */
  uint64_t rows, cols, inner;
  size_t nb;
  int64_t batch[ANF_MAX_RANK];
  /* result */
  texpr to;
  const anf_type *type;
  const anf_node *node;
  /* operands of narrow types */
  bool bytes;   // a and b are the operands before conversion to the type
  bool weights; // b alone is bytes, of f32 less `zero`, or NULL; a code of it has so many bits
  unsigned bits;
  anfi_view *zero;
  anfi_prologue_way prologue; // of a
} matmul;

enum { BLOCK = 4 }; // rows, and steps of their sums, whose elements of a stay in registers

/* Adds `steps` products from step k on to the sums of `rows` rows. */
static void add_steps(anfi_low *L, const matmul *m, const sums *s, const texpr *batch, texpr row,
                      uint64_t rows, texpr k, uint64_t steps) {
  anfi_elem x[BLOCK * BLOCK], y[BLOCK];
  anfi_loop j;
  for (uint64_t i = 0; i < rows * steps; i++) {
    texpr r = anfi_ix_addc(L, row, (int64_t)(i / steps)),
          u = anfi_ix_addc(L, k, (int64_t)(i % steps));
    x[i] = widen(s, m->a.v, element(L, &m->a, true, m->nb, batch, r, u));
  }
  anfi_low_loop(L, &j, m->cols, "j");
  for (uint64_t u = 0; u < steps; u++)
    y[u] = widen(s, m->b.v,
                 element(L, &m->b, false, m->nb, batch, anfi_ix_addc(L, k, (int64_t)u), j.var));
  for (uint64_t r = 0; r < rows; r++) {
    texpr at = anfi_low_atom(L, anfi_ix_addc(L, j.var, (int64_t)(r * m->cols)));
    anfi_elem e = get_sum(s, at);
    for (uint64_t u = 0; u < steps; u++) e = plus(s, e, product(s, x[r * steps + u], y[u]));
    set_sum(s, at, e);
  }
  anfi_low_loop_end(L, &j);
}

/* All columns of a block of rows: the sums of its products, each in order. */
static void some_rows(anfi_low *L, const matmul *m, const sums *s, const texpr *batch, texpr row,
                      uint64_t rows, uint64_t steps, texpr base) {
  anfi_loop i, j, k;
  uint64_t whole = m->inner / steps * steps;
  anfi_low_loop(L, &i, rows, "i");
  anfi_low_loop(L, &j, m->cols, "j");
  anfi_elem init = zero_of(s);
  if (m->bias) init = widen(s, m->bias, anfi_view_at_flat(L, m->bias, j.var));
  set_sum(s, anfi_ix_add(L, anfi_ix_mulc(L, i.var, m->cols), j.var), init);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  if (whole) {
    anfi_low_loop_range(L, &k, anfi_ix(L, 0), anfi_ix(L, whole), steps, "k");
    add_steps(L, m, s, batch, row, rows, k.var, steps);
    anfi_low_loop_end(L, &k);
  }
  if (whole < m->inner) {
    anfi_low_loop_range(L, &k, anfi_ix(L, whole), anfi_ix(L, m->inner), 1, "k");
    add_steps(L, m, s, batch, row, rows, k.var, 1);
    anfi_low_loop_end(L, &k);
  }
  anfi_low_loop(L, &j, rows * m->cols, "j");
  anfi_elem e = rounded(s, get_sum(s, j.var), (anf_dtype)m->type->dtype);
  anfi_low_put(L, m->to, anfi_ix_add(L, base, j.var), e, s->complex);
  anfi_low_loop_end(L, &j);
}

/* ---- by kernels ---- */

/* Elements from one batch to the next, in all: where the matrix of these batch indices starts. */
static texpr start_of(anfi_low *L, const matrix *x, size_t nb, const texpr *batch) {
  const anf_type *t = x->v->type;
  if (x->tensor) {
    texpr at = anfi_ix(L, (uint64_t)x->base);
    for (size_t k = 0; k < x->nbatch; k++)
      if (t->dims[k] != 1)
        at = anfi_ix_add(L, at, anfi_ix_mulc(L, batch[nb - x->nbatch + k], (uint64_t)x->stride[k]));
    return at;
  }
  uint64_t step = x->vector ? 0 : (uint64_t)(t->dims[t->n - 1] * t->dims[t->n - 2]);
  texpr sum = anfi_ix(L, 0);
  for (size_t k = x->nbatch; k-- > 0;) {
    if (t->dims[k] != 1)
      sum = anfi_ix_add(L, sum, anfi_ix_mulc(L, batch[nb - x->nbatch + k], step));
    step *= (uint64_t)t->dims[k];
  }
  return sum;
}

static bool one_for_all(const matrix *x) {
  for (size_t k = 0; k < x->nbatch; k++)
    if (x->v->type->dims[k] != 1) return false;
  return true;
}

static bool all_of_them(const matmul *m, const matrix *x) {
  if (x->nbatch != m->nb) return false;
  for (size_t k = 0; k < m->nb; k++)
    if (x->v->type->dims[k] != m->batch[k]) return false;
  return true;
}

/* Do rows of one batch follow those of the batch before? */
static bool rows_follow(const matrix *x) {
  const anf_type *t = x->v->type;
  uint64_t step = x->tensor ? x->ld : 0;
  for (size_t k = t->n - 1; x->tensor && k-- > 0;) {
    if (t->dims[k] != 1 && (uint64_t)x->stride[k] != step) return false;
    step *= (uint64_t)t->dims[k];
  }
  return true;
}

/* With one b for all, batches of a are more rows. */
static void fold_batches(matmul *m) {
  if (m->prologue == PROLOGUE_BY_K) return;
  if (!one_for_all(&m->b) || m->a.transposed || !all_of_them(m, &m->a) || !rows_follow(&m->a))
    return;
  for (size_t k = 0; k < m->nb; k++) m->rows *= (uint64_t)m->batch[k];
  m->nb = m->a.nbatch = m->b.nbatch = 0;
}

static uint64_t leading(const matrix *x, uint64_t rows, uint64_t cols) {
  if (x->tensor) return x->ld;
  return x->transposed ? rows : cols;
}

/* A slice or a permutation of a tensor in memory, whose rows or columns are contiguous there: kernels read it where it is.
 *   x[:, 32:64] @ w             x from element 32 on, with x's leading dim
 *   q @ Transpose(k, (0, 2, 1)) k, stored transposed */
static void strided_matrix(matrix *x) {
  const anf_type *t = x->v->type;
  int64_t base = 0, stride[ANF_MAX_RANK];
  if (x->vector || !anfi_view_is_lazy(x->v) || t->n < 2) return;
  texpr tensor = anfi_map_strides(x->v, &base, stride);
  int64_t rows = t->dims[t->n - 2], cols = t->dims[t->n - 1];
  int64_t down = stride[t->n - 2], along = stride[t->n - 1];
  bool forward = along == 1 && down >= cols, backward = down == 1 && along >= rows;
  for (size_t k = 0; tensor && k < t->n; k++)
    if (stride[k] < 0) return;
  if (!tensor || base < 0 || (!forward && !backward)) return;
  x->tensor = tensor;
  x->base = base;
  memcpy(x->stride, stride, t->n * sizeof *stride);
  x->ld = (uint64_t)(forward ? down : along);
  if (!forward) x->transposed = !x->transposed;
}

static texpr tensor_of(anfi_low *L, const matrix *x) {
  return x->tensor ? x->tensor : anfi_view_force(L, x->v);
}

enum { MANY_BATCHES = 4 };

/* The epilogue of a product: what its reader computes of it before it is written. */
typedef struct consumer {
  const anfi_view *product, *root; // product is among what root is computed of; NULL: it is written
  texpr to;
  anfi_pt batch; // digits in front of row and column
  uint64_t rows, cols;
} consumer;

static void store_fused(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr value) {
  const consumer *f = (const consumer *)q->user;
  anfi_pt p = f->batch;
  anfi_pt_push(&p, i, f->rows);
  anfi_pt_push(&p, j, f->cols);
  anfi_view_know(L, f->product, &p, value);
  anfi_low_put(L, f->to, anfi_pt_linear(L, &p), anfi_view_at(L, f->root, &p), false);
}

static bool suits(const anfi_view *v, anf_dtype d, uint64_t n) {
  return v->tensor && v->dtype == d && v->n == n;
}

/* Takes an addition of a buffer of n elements off v. A vector must lie along the columns. */
static bool take_sum(const anfi_view **v, uint64_t n, bool vector, texpr *to) {
  const anfi_view *x = *v;
  if (x->op != ANF_OP_Add || !anfi_view_is_lazy(x) || x->nin != 2) return false;
  for (size_t k = 0; k < 2; k++) {
    const anfi_view *y = x->in[k], *rest = x->in[1 - k];
    if (!suits(y, x->dtype, n) || rest->n != x->n || rest->dtype != x->dtype) continue;
    if (vector && (uint64_t)y->type->dims[y->type->n - 1] != n) continue;
    *to = y->tensor;
    *v = rest;
    return true;
  }
  return false;
}

/* Additions and a last Relu between root and product can stay in the kernel's registers. */
static bool in_registers(anfi_low *L, anfi_mm *q, const consumer *f) {
  const anfi_view *v = f->root;
  anfi_mm x = *q;
  bool plain = q->elem == ANF_TIR_f32 || q->elem == ANF_TIR_f64; // else rounded in between
  if (!plain && !anfi_low_gemm_rounds(L, q)) return false;
  if (anfi_view_is_lazy(v) && v->op == ANF_OP_Relu && v->nin == 1) x.relu = true, v = v->in[0];
  if (v->n != f->root->n) return false;
  take_sum(&v, v->n, false, &x.rhs);
  if (!x.bias && v != f->product) take_sum(&v, f->cols, true, &x.bias);
  if (v != f->product) return false;
  if (x.rhs == x.c && anfi_low_gemm_cuts_k(L, q)) return false; // the addend would be overwritten
  *q = x;
  return true;
}

/* The tensors that a nest reads: at the points at which it writes, and others. */
typedef struct reading {
  ANFI_VEC(texpr) own, other;
} reading;

/* Views from v on that are computed in the nest: at its points, or else anywhere. */
static void see_reads(anfi_low *L, reading *r, const consumer *f, const anfi_view *from, bool own) {
  ANFI_VEC(const anfi_view *) todo = {0};
  anfi_map seen;
  anfi_map_init(&seen, L->a);
  anfi_push(L->a, &todo, from);
  while (todo.n) {
    const anfi_view *v = todo.at[--todo.n];
    if (v == f->product || v->kind == VIEW_SCALAR || *anfi_map_at(&seen, v->id)) continue;
    *anfi_map_at(&seen, v->id) = 1;
    bool alike = v->n == f->root->n && v->dtype == f->root->dtype; // and so are their addresses
    if (v->tensor && own && alike) anfi_push(L->a, &r->own, v->tensor);
    else if (v->tensor) anfi_push(L->a, &r->other, v->tensor);
    bool on = !own || (v->n == f->root->n && (v->order == ORDER_POINT || v->order == ORDER_FLAT));
    for (size_t i = 0; i < v->nin && !v->tensor; i++)
      if (v->in[i] && on) anfi_push(L->a, &todo, (const anfi_view *)v->in[i]);
      else if (v->in[i]) see_reads(L, r, f, v->in[i], false);
  }
}

/* Each element is written once, when its sum is done: what the nest reads there may be in the same place,
 * if it reads that nowhere else. */
static void note_in_step(anfi_low *L, const consumer *f, const anfi_mm *q) {
  reading r = {0};
  const texpr factor[] = {q->a, q->b, q->bias};
  if (L->scope.n != 1 || (q->rhs && anfi_low_gemm_cuts_k(L, q))) return;
  see_reads(L, &r, f, f->root, true);
  if (q->prologue) see_reads(L, &r, f, q->prologue->v, false);
  if (q->right) see_reads(L, &r, f, q->right->v, false);
  for (size_t i = 0; i < ANFI_LEN(factor); i++)
    if (factor[i]) anfi_push(L->a, &r.other, factor[i]);
  for (size_t i = 0; i < r.own.n; i++) {
    size_t k = 0;
    while (k < r.other.n && r.other.at[k] != r.own.at[i]) k++;
    if (k == r.other.n) anfi_push(L->a, &L->in_step, ((anfi_in_step){r.own.at[i], f->to}));
  }
}

static anfi_mm sizes_of(const matmul *m) {
  anfi_mm q = {.elem = anfi_lower_elem((anf_dtype)m->type->dtype)};
  q.m = m->rows, q.n = m->cols, q.k = m->inner;
  if (m->bytes) {
    q.bytes_a = anfi_lower_elem(m->a.v->dtype);
    q.bytes_b = anfi_lower_elem(m->b.v->dtype);
  }
  q.ta = m->a.transposed && !m->a.vector, q.tb = m->b.transposed && !m->b.vector;
  q.lda = leading(&m->a, m->rows, m->inner), q.ldb = leading(&m->b, m->inner, m->cols);
  q.ldc = m->cols;
  return q;
}

/* x, if v is Cast(x) from bytes to i32 and has no buffer; else NULL. */
static anfi_view *bytes_of(const anfi_view *v) {
  if (v->op != ANF_OP_Cast || !anfi_view_is_lazy(v) || v->nin != 1) return NULL;
  anf_dtype d = v->in[0]->dtype;
  return v->dtype == ANF_I32 && anfi_low_byte(d) ? v->in[0] : NULL;
}

/* A product of bytes, summed in i32, as kernels have it. */
static matmul narrowed(const matmul *whole) {
  matmul m = *whole;
  anfi_view *a = bytes_of(m.a.v), *b = bytes_of(m.b.v);
  if (m.bias || !a || !b) return m;
  m.a.v = a, m.b.v = b;
  m.bytes = true;
  return m;
}

/* A zero point of each column, or of all: as b is stored. */
static bool is_by_column(const matmul *m, const anfi_view *zero) {
  const anf_type *t = zero->type;
  if (zero->n == 1) return true;
  if (zero->n != m->cols || t->n > 2) return false;
  size_t sum = m->b.transposed ? 1 : 0; // the dim that is summed, of two
  return t->n == 1 ? sum == 0 : t->dims[sum] == 1;
}

/* Codes of a few bits, packed along the sum, are read packed. */
static void take_packed(matmul *m) {
  const anfi_view *b = m->b.v;
  size_t axis;
  m->bits = 8;
  if (b->op != ANF_OP_UnpackBits || !anfi_view_is_lazy(b) || m->b.transposed) return;
  if (!anfi_axis_in(anfi_attr_int(b->attr[1]), b->type->n, &axis) || axis + 2 != b->type->n) return;
  m->bits = (unsigned)anfi_attr_int(b->attr[0]);
  m->b.v = b->in[0];
}

/* Few rows times a matrix of bytes that is cast to f32 and has no buffer: it is read as bytes. */
static void take_weights(matmul *m) {
  enum { LEAST = 64, LEAST_OF_BATCH = 8 };
  anfi_view *b = m->b.v, *zero = NULL;
  bool single = true, each = m->nb && m->b.nbatch == m->nb && m->a.nbatch == m->nb;
  for (size_t k = 0; k < m->nb; k++) {
    single &= m->batch[k] == 1;
    each &= b->type->dims[k] == m->batch[k] && m->a.v->type->dims[k] == m->batch[k];
  }
  each &= !m->b.transposed && b->op == ANF_OP_Cast;    // groups of steps, without a zero point
  uint64_t most = m->b.transposed ? 1 : ANFI_FEW_ROWS; // dot products are of one row
  if (!m->rows || m->rows > most || (m->b.nbatch ? !each : !single) || m->b.vector ||
      m->type->dtype != ANF_F32 || m->a.v->dtype != ANF_F32 ||
      m->inner < (each ? LEAST_OF_BATCH : LEAST) || m->cols < LEAST || !anfi_view_is_lazy(b))
    return;
  if (b->op == ANF_OP_Sub && b->nin == 2) zero = b->in[1], b = b->in[0];
  bool cast = b->op == ANF_OP_Cast && anfi_view_is_lazy(b) && b->nin == 1;
  if (!cast || b->dtype != ANF_F32 || !anfi_low_byte(b->in[0]->dtype) || b->n != m->b.v->n) return;
  if (zero && (zero->dtype != ANF_F32 || !is_by_column(m, zero))) return;
  m->weights = true;
  m->zero = zero;
  m->b.v = b->in[0];
  take_packed(m);
}

static bool kernels_wanted(const matmul *whole) {
  if (whole->weights) return true;
  matmul m = narrowed(whole);
  anf_dtype d = (anf_dtype)m.type->dtype;
  bool same = m.a.v->dtype == d && m.b.v->dtype == d && (!m.bias || m.bias->dtype == d);
  if (!same && !m.bytes) return false;
  fold_batches(&m);
  anfi_mm q = sizes_of(&m);
  return !anfi_low_complex(d) && anfi_low_gemm_wanted(&q);
}

/* The loops over batches are open, and their number is in f->batch. */
static void one_product(anfi_low *L, anfi_mm *q, consumer *f) {
  f->rows = q->m, f->cols = q->n;
  q->user = f;
  if (f->root && !in_registers(L, q, f)) q->store_element = store_fused;
  if (f->root) note_in_step(L, f, q);
  anfi_low_gemm(L, q);
}

/* Is a still to be computed, as the plan says? */
static anfi_prologue_way prologue_of(const anfi_low *L, const matmul *m) {
  const matrix *a = &m->a;
  bool open = anfi_view_is_lazy(a->v) && !a->tensor && !a->vector;
  if (!m->node || !open || m->bytes || m->weights || L->o.no_fuse || !all_of_them(m, a))
    return PROLOGUE_NONE;
  return anfi_low_prologue(m->node, false);
}

/* Is b? */
static bool computes_right(const anfi_low *L, const matmul *m) {
  const matrix *b = &m->b;
  bool open = anfi_view_is_lazy(b->v) && !b->tensor && !b->vector;
  return m->node && open && !m->bytes && !m->weights && !m->prologue && !m->nb && !b->transposed &&
         !L->o.no_fuse && anfi_low_computes_right(m->node, false);
}

static bool by_kernels(anfi_low *L, const matmul *whole, consumer *f) {
  matmul m = *whole;
  anfi_loop loop[ANF_MAX_RANK];
  texpr batch[ANF_MAX_RANK] = {NULL};
  if (!kernels_wanted(whole)) return false;
  strided_matrix(&m.a);
  strided_matrix(&m.b);
  m.prologue = prologue_of(L, &m);
  fold_batches(&m);
  anfi_mm q = sizes_of(&m);
  anfi_prologue p = {.v = m.a.v, .rows = m.rows, .steps = m.inner, .transposed = m.a.transposed};
  if (m.prologue) q.prologue = &p, q.ta = m.prologue == PROLOGUE_BY_K;
  else q.a = tensor_of(L, &m.a);
  anfi_prologue right = {.v = m.b.v, .rows = m.inner, .steps = m.cols};
  if (computes_right(L, &m)) q.right = &right;
  else q.b = tensor_of(L, &m.b);
  q.const_b = m.b.nbatch || m.b.tensor ? NULL : m.b.v->constant;
  q.c = f->to;
  if (m.bias) q.bias = anfi_view_force(L, m.bias), q.bias_in_sum = true;
  if (m.weights) q.weights = true, q.bits = m.bits, q.const_b = NULL;
  q.small = q.bytes_b == ANF_TIR_s8 && q.const_b && anfi_mm_is_small(q.const_b);
  if (m.zero) q.zero = anfi_view_force(L, m.zero), q.zeros = m.zero->n;
  uint64_t all = 1;
  for (size_t k = 0; k < m.nb; k++) all *= (uint64_t)m.batch[k];
  q.serial = L->o.parallel && all >= MANY_BATCHES && all * q.m * q.n >= ANFI_PARALLEL_MACS / q.k;
  for (size_t k = 0; k < m.nb; k++) {
    anfi_low_loop(L, &loop[k], (uint64_t)m.batch[k], "b");
    batch[k] = loop[k].var;
  }
  if (q.serial && !L->in_parallel) anfi_low_share(loop, m.nb);
  for (size_t k = 0; k < m.nb; k++) anfi_pt_push(&f->batch, batch[k], (uint64_t)m.batch[k]);
  p.batch = f->batch;
  if (!m.prologue) q.a0 = start_of(L, &m.a, m.nb, batch);
  q.b0 = start_of(L, &m.b, m.nb, batch);
  q.c0 = anfi_ix_mulc(L, anfi_pt_linear(L, &f->batch), m.rows * m.cols);
  one_product(L, &q, f);
  for (size_t k = m.nb; k-- > 0;) anfi_low_loop_end(L, &loop[k]);
  return true;
}

static void multiply(anfi_low *L, const matmul *m) {
  enum { COLUMNS = 16, LARGE = 1 << 13 }; // a product that is worth the code of blocks
  anfi_loop loop[ANF_MAX_RANK + 1];
  texpr at[ANF_MAX_RANK + 1];
  uint64_t work = m->rows * m->cols * (m->inner + 1);
  if (!anfi_low_elements(m->type)) return;
  for (size_t k = 0; k < m->nb; k++) work *= (uint64_t)m->batch[k];
  bool parallel = L->o.parallel && !L->in_parallel && work >= ANFI_PARALLEL_WORK;
  bool blocks = m->cols >= COLUMNS && m->rows * m->cols * m->inner >= LARGE &&
                !anfi_low_complex((anf_dtype)m->type->dtype);
  uint64_t rows = blocks && m->rows >= BLOCK ? BLOCK : 1,
           steps = blocks && m->inner >= BLOCK ? BLOCK : 1, count = anfi_mm_up(m->rows, rows);
  for (size_t k = 0; k <= m->nb; k++) {
    anfi_low_loop(L, &loop[k], k < m->nb ? (uint64_t)m->batch[k] : count, "i");
    at[k] = loop[k].var;
  }
  if (parallel) anfi_low_share(loop, m->nb + 1);
  texpr row = anfi_low_atom(L, anfi_ix_mulc(L, at[m->nb], rows));
  anfi_pt p = {0};
  for (size_t k = 0; k <= m->nb; k++)
    anfi_pt_push(&p, k < m->nb ? at[k] : row, k < m->nb ? (uint64_t)m->batch[k] : m->rows);
  texpr base = anfi_low_atom(L, anfi_ix_mulc(L, anfi_pt_linear(L, &p), m->cols));
  anfi_sizes size = {.full = rows, .last = m->rows - (count - 1) * rows};
  while (anfi_low_each_size(L, &size, at[m->nb], count)) {
    sums s = new_sums(L, (anf_dtype)m->type->dtype, size.size * m->cols);
    some_rows(L, m, &s, at, row, size.size, steps, base);
  }
  for (size_t k = m->nb + 1; k-- > 0;) anfi_low_loop_end(L, &loop[k]);
}

/* ---- products of complex matrices ---- */

/* Writes rows of pairs, two for each row of b: (re, im) and (-im, re); one for each row of a. */
static texpr in_pairs(anfi_low *L, const matmul *m, bool left) {
  const matrix *x = left ? &m->a : &m->b;
  uint64_t rows = left ? m->rows : m->inner, cols = left ? m->inner : m->cols, each = left ? 1 : 2;
  anf_tir_elem elem = anfi_lower_elem((anf_dtype)m->type->dtype);
  texpr to = anfi_low_local(L, elem, 2 * each * rows * cols, "pairs");
  anfi_loop i, j;
  anfi_low_loop(L, &i, rows, "i");
  anfi_low_loop(L, &j, cols, "j");
  anfi_elem e = element(L, x, left, 0, NULL, i.var, j.var);
  e = (anfi_elem){anfi_low_atom(L, e.re), anfi_low_atom(L, e.im)};
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, i.var, each * cols), j.var);
  anfi_low_put(L, to, anfi_low_atom(L, at), e, true);
  anfi_elem turned = {anfi_t_sub(L->t, anfi_low_const(L, e.im->dtype, -0.0), e.im), e.re};
  if (!left) anfi_low_put(L, to, anfi_ix_addc(L, at, (int64_t)cols), turned, true);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  return to;
}

/* One product of reals, of twice the columns and steps, whose rows are pairs as they lie in memory:
 *   (p + i q) (r + i s)   ->   [p q] @ [ r s]
 *                                      [-s r] */
static bool complex_by_kernels(anfi_low *L, const matmul *whole) {
  matmul m = *whole;
  anf_dtype d = (anf_dtype)m.type->dtype;
  if (!anfi_low_complex(d) || m.a.v->dtype != d || m.b.v->dtype != d || m.bias) return false;
  fold_batches(&m);
  anfi_mm q = {.elem = anfi_lower_elem(d), .m = m.rows, .n = 2 * m.cols, .k = 2 * m.inner};
  if (m.nb || m.a.vector || m.b.vector || !anfi_low_gemm_wanted(&q)) return false;
  anfi_low_open(L);
  q.a = m.a.transposed ? in_pairs(L, &m, true) : anfi_view_force(L, m.a.v);
  q.b = in_pairs(L, &m, false);
  q.c = m.to;
  q.a0 = q.b0 = q.c0 = anfi_ix(L, 0);
  q.lda = q.k, q.ldb = q.ldc = q.n;
  anfi_low_gemm(L, &q);
  anfi_low_add(L, anfi_low_close(L));
  return true;
}

/* An operand that is read more than once must not be computed each time. */
static anfi_view *held(anfi_low *L, anfi_view *v) {
  if (anfi_view_is_lazy(v)) anfi_view_force(L, v);
  return v;
}

static anfi_elem at_swapped(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr at[ANF_MAX_RANK], x;
  size_t r = v->type->n;
  anfi_pt_dims(L, p, r, v->type->dims, at);
  x = at[r - 1];
  at[r - 1] = at[r - 2];
  at[r - 2] = x;
  return anfi_view_at_dims(L, v->in[0], at);
}

static void hold(anfi_low *L, matmul *m) {
  held(L, m->a.v);
  held(L, m->b.v);
  if (m->bias) held(L, m->bias);
}

/* The last two dims exchanged, in memory: so that the inner loop reads neighbours. */
static anfi_view *swapped(anfi_low *L, const anfi_low_op *q, anfi_view *v) {
  int64_t dims[ANF_MAX_RANK];
  size_t r = v->type->n;
  if (r) memcpy(dims, v->type->dims, r * sizeof *dims);
  dims[r - 1] = v->type->dims[r - 2];
  dims[r - 2] = v->type->dims[r - 1];
  anfi_low_op one = {
      .op = q->op, .loc = q->loc, .n = 1, .in = (anfi_view *const[]){v}, .attr = q->attr};
  one.type = anfi_type_tensor(L->cx, v->dtype, r, dims);
  anfi_view *s = anfi_view_lazy(L, &one, ORDER_OWN, at_swapped);
  anfi_view_force(L, s);
  return s;
}

static matrix matrix_of(const anfi_low_op *q, size_t i, bool transposed) {
  const anf_type *t = q->in[i]->type;
  matrix m = {.v = q->in[i], .transposed = transposed, .vector = t->n == 1};
  m.nbatch = t->n > 2 ? t->n - 2 : 0;
  return m;
}

static uint64_t rows_of(const matrix *m, bool left) {
  const anf_type *t = m->v->type;
  if (m->vector) return left ? 1 : (uint64_t)t->dims[0];
  return (uint64_t)t->dims[t->n - (m->transposed ? 1 : 2)];
}

static uint64_t cols_of(const matrix *m, bool left) {
  const anf_type *t = m->v->type;
  if (m->vector) return left ? (uint64_t)t->dims[0] : 1;
  return (uint64_t)t->dims[t->n - (m->transposed ? 2 : 1)];
}

/* With several rows a transposed b is written out once. */
static void straighten(anfi_low *L, const anfi_low_op *q, matmul *m) {
  if (!m->b.transposed || m->b.vector || m->rows < 4 || !m->b.v->n) return;
  m->b.v = swapped(L, q, m->b.v);
  m->b.transposed = false;
}

/* A product that is fused into its consumer is written by that one, or as a whole if another node asks for it. */
static void write_product(anfi_low *L, consumer f, const matmul *m) {
  bool traced = m->node && L->o.region_begin;
  size_t region = traced ? L->o.region_begin(L->o.user, m->node) : 0;
  by_kernels(L, m, &f);
  if (traced) L->o.region_end(L->o.user, region);
}
static void write_fused(anfi_low *L, const anfi_view *v, const anfi_view *root, texpr to) {
  write_product(L, (consumer){.product = v, .root = root, .to = to}, (const matmul *)v->data);
}
static void store_product(anfi_low *L, const anfi_view *v, texpr to) {
  write_product(L, (consumer){.to = to}, (const matmul *)v->data);
}

static anfi_view *fused_product(anfi_low *L, const anfi_low_op *q, const matmul *m) {
  anfi_view *v = anfi_view_new(L, q->type, VIEW_LAZY);
  v->order = ORDER_OWN;
  v->op = q->op;
  v->store = store_product;
  v->write_fused = write_fused;
  v->data = ANFI_NEW(L->a, matmul);
  *(matmul *)v->data = *m;
  return v;
}

static anfi_view *product_of(anfi_low *L, const anfi_low_op *q, matmul *m) {
  take_weights(m);
  if (kernels_wanted(m)) *m = narrowed(m);
  if (q->inlined && !L->o.no_fuse && !(q->to && q->to[0]) && kernels_wanted(m))
    return fused_product(L, q, m);
  if (!kernels_wanted(m)) hold(L, m);
  m->to = anfi_low_result(L, q, 0, q->type);
  if (anfi_low_elements(q->type) && !by_kernels(L, m, &(consumer){.to = m->to}) &&
      !complex_by_kernels(L, m)) {
    straighten(L, q, m);
    multiply(L, m);
  }
  return anfi_view_of_result(L, q->type, m->to);
}

bool anfi_lower_matmul(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  matmul m = {.type = q->type, .node = q->node};
  m.a = matrix_of(q, 0, anfi_attr_bool(q->attr[0]) && q->in[0]->type->n > 1);
  m.b = matrix_of(q, 1, anfi_attr_bool(q->attr[1]) && q->in[1]->type->n > 1);
  m.rows = rows_of(&m.a, true);
  m.inner = cols_of(&m.a, true);
  m.cols = cols_of(&m.b, false);
  m.nb = m.a.nbatch > m.b.nbatch ? m.a.nbatch : m.b.nbatch;
  if (m.nb) memcpy(m.batch, q->type->dims, m.nb * sizeof *m.batch);
  out[0] = product_of(L, q, &m);
  return true;
}

bool anfi_lower_linear(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *w = q->in[1]->type, *x = q->in[0]->type;
  matmul m = {.type = q->type,
              .node = q->node,
              .cols = (uint64_t)w->dims[0],
              .inner = (uint64_t)w->dims[1]};
  int64_t dims[2] = {m.cols ? (int64_t)(anfi_low_elements(q->type) / m.cols) : 0, w->dims[1]};
  anfi_low_op one = *q;
  anfi_view *flat;
  one.n = 1;
  one.type = anfi_type_tensor(L->cx, (anf_dtype)x->dtype, 2, dims);
  anfi_lower_same(L, &one, &flat);
  m.rows = (uint64_t)dims[0];
  m.a = (matrix){.v = flat};
  m.b = (matrix){.v = q->in[1], .transposed = true};
  m.bias = q->n > 2 ? q->in[2] : NULL;
  out[0] = product_of(L, q, &m);
  return true;
}

/* ---- einsum ---- */

typedef struct summing {
  const anfi_einsum *plan;
  const anfi_low_op *q;
  anfi_loop loop[ANFI_EINSUM_LABELS];
} summing;

static anfi_elem operand(anfi_low *L, const summing *s, size_t i) {
  const anf_type *t = s->q->in[i]->type;
  texpr at[ANF_MAX_RANK];
  for (size_t k = 0; k < t->n; k++)
    at[k] = t->dims[k] == 1 ? anfi_ix(L, 0) : s->loop[s->plan->label[i].at[k]].var;
  return anfi_view_at_dims(L, s->q->in[i], at);
}

static void open_labels(anfi_low *L, summing *s, uint32_t from, uint32_t to) {
  for (uint32_t l = from; l < to; l++)
    anfi_low_loop(L, &s->loop[l], (uint64_t)s->plan->dim[l], "l");
}

static void close_labels(anfi_low *L, summing *s, uint32_t from, uint32_t to) {
  for (uint32_t l = to; l-- > from;) anfi_low_loop_end(L, &s->loop[l]);
}

static void add_terms(anfi_low *L, summing *s, const sums *acc, texpr at) {
  const anfi_einsum *plan = s->plan;
  bool any = true;
  for (uint32_t l = plan->nout; l < plan->nlabel; l++) any &= plan->dim[l] > 0;
  if (!any) return;
  open_labels(L, s, plan->nout, plan->nlabel);
  anfi_elem p = widen(acc, s->q->in[0], operand(L, s, 0));
  for (size_t i = 1; i < s->q->n; i++) {
    p = product(acc, p, widen(acc, s->q->in[i], operand(L, s, i)));
    p.re = anfi_low_atom(L, p.re);
    if (p.im) p.im = anfi_low_atom(L, p.im);
  }
  set_sum(acc, at, plus(acc, get_sum(acc, at), p));
  close_labels(L, s, plan->nout, plan->nlabel);
}

bool anfi_lower_einsum(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_einsum plan;
  const anf_type **types = ANFI_NEW_N(L->a, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) {
    types[i] = q->in[i]->type;
    held(L, q->in[i]);
  }
  if (!anfi_einsum_plan(L->cx, q->loc, q->attr[0], q->n, types, &plan)) return false;
  summing *s = ANFI_NEW(L->a, summing);
  s->plan = &plan;
  s->q = q;
  texpr to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!anfi_low_elements(q->type)) return true;
  open_labels(L, s, 0, plan.nout);
  anfi_pt p = {0};
  for (uint32_t l = 0; l < plan.nout; l++) anfi_pt_push(&p, s->loop[l].var, (uint64_t)plan.dim[l]);
  sums acc = new_sums(L, (anf_dtype)q->type->dtype, 1);
  texpr first = anfi_ix(L, 0);
  set_sum(&acc, first, zero_of(&acc));
  add_terms(L, s, &acc, first);
  anfi_elem e = rounded(&acc, get_sum(&acc, first), (anf_dtype)q->type->dtype);
  anfi_low_put(L, to, anfi_pt_linear(L, &p), e, acc.complex);
  close_labels(L, s, 0, plan.nout);
  return true;
}
