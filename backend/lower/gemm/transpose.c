// SPDX-License-Identifier: Apache-2.0
/* Transposing copies: squares of one vector's side go through registers by shuffles, the edges element by element.
 *
 *   a b        a c
 *   c d   →    b d       two loads, two shuffles, two stores
 *
 * Only moves bits, whatever the vectors of the machine are (Eklundh's method: log2(side) exchanges), and widens elements
 * where the copy has a wider type. Many squares of 4-byte elements are a call of one function, which all copies of a program
 * share: a network's convolutions differ in sizes and strides, and compiling the shuffles costs more than a call. */
#include "backend/lower/low.h"

enum {
  SIDE_BYTES = 32,
  SIDE_MAX = 8,
  MANY_SQUARES = 8, // that are worth a call
};

typedef struct square {
  anfi_low *L;
  const anfi_transposed *q;
  uint64_t side;
} square;

static texpr from_at(const square *s, texpr row, texpr col) {
  anfi_low *L = s->L;
  texpr i = anfi_ix_add(L, anfi_ix_mulc(L, row, s->q->from_ld), col);
  return anfi_low_atom(L, anfi_ix_add(L, s->q->from0, i));
}
static texpr to_at(const square *s, texpr row, texpr col) {
  anfi_low *L = s->L;
  if (s->q->inner > 1) {
    uint64_t n = s->q->cols / s->q->inner;
    col = anfi_low_atom(L, col);
    col = anfi_ix_add(L, anfi_ix_mulc(L, anfi_ix_modc(L, col, s->q->inner), n),
                      anfi_ix_divc(L, col, s->q->inner));
  }
  texpr i = anfi_ix_add(L, anfi_ix_mulc(L, col, s->q->to_ld), row);
  return anfi_low_atom(L, anfi_ix_add(L, s->q->to0, i));
}

/* Of two rows `d` apart, the lanes of a column and of the one `d` further, that of `odd` ones. */
static texpr exchange(const square *s, texpr a, texpr b, uint64_t d, bool odd) {
  tstore *t = s->L->t;
  texpr in[2 + SIDE_MAX] = {a, b};
  for (uint64_t k = 0; k < s->side; k++) {
    uint64_t from = k & d ? s->side + (k & ~d) : k & ~d;
    in[2 + k] = anfi_t_s32(t, (int32_t)(odd ? from + d : from));
  }
  return anfi_low_let(
      s->L, anfi_t_intrin(t, TI_shuffle, a->dtype, (uint32_t)s->side + 2, in, (tattrs){0}), "v");
}

static tdtype lanes_of(const square *s) {
  tdtype d = anfi_t_dt(s->q->elem);
  d.lanes = (uint16_t)s->side;
  return d;
}

static void one_square(const square *s, texpr row, texpr col) {
  anfi_low *L = s->L;
  texpr v[SIDE_MAX];
  for (uint64_t i = 0; i < s->side; i++) {
    texpr at = from_at(s, anfi_ix_addc(L, row, (int64_t)i), col);
    v[i] = anfi_low_let(L, anfi_t_at(L->t, s->q->from, 1, &at, (uint16_t)s->side, 0, NULL), "v");
    if (v[i]->dtype.elem != s->q->elem)
      v[i] = anfi_low_let(L, anfi_t_cast(L->t, lanes_of(s), v[i]), "v");
  }
  for (uint64_t d = s->side / 2; d; d /= 2)
    for (uint64_t i = 0; i < s->side; i++) {
      if (i & d) continue;
      texpr a = v[i], b = v[i + d];
      v[i] = exchange(s, a, b, d, false);
      v[i + d] = exchange(s, a, b, d, true);
    }
  for (uint64_t i = 0; i < s->side; i++) {
    texpr at = to_at(s, row, anfi_ix_addc(L, col, (int64_t)i));
    anfi_low_set(L, anfi_t_at(L->t, s->q->to, 1, &at, (uint16_t)s->side, 0, NULL), v[i]);
  }
}

/* Rows from r0 to r1, columns from c0 to c1, one by one. */
static void rest(const square *s, uint64_t r0, uint64_t r1, uint64_t c0, uint64_t c1) {
  anfi_low *L = s->L;
  anfi_loop i, j;
  if (r0 == r1 || c0 == c1) return;
  anfi_low_loop_range(L, &i, anfi_ix(L, r0), anfi_ix(L, r1), 1, "i");
  anfi_low_loop_range(L, &j, anfi_ix(L, c0), anfi_ix(L, c1), 1, "j");
  texpr x = anfi_low_load(L, s->q->from, from_at(s, i.var, j.var));
  x = anfi_t_cast(L->t, anfi_t_dt(s->q->elem), x);
  anfi_low_put(L, s->q->to, to_at(s, i.var, j.var), (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

/* The shared function that moves them, or NULL. */
static const char *function_of(const square *s, uint64_t rows, uint64_t cols) {
  const anfi_transposed *q = s->q;
  if (q->from->dtype.elem != q->elem || q->from == q->to || q->inner > 1 ||
      rows * cols < MANY_SQUARES * s->side * s->side)
    return NULL;
  return q->elem == ANF_TIR_f32   ? "anf_transpose_f32"
         : q->elem == ANF_TIR_s32 ? "anf_transpose_s32"
                                  : NULL;
}

static void squares(const square *s, uint64_t rows, uint64_t cols) {
  anfi_low *L = s->L;
  const anfi_transposed *q = s->q;
  const char *name = function_of(s, rows, cols);
  uint64_t n, m;
  if (name && anfi_t_const_elems(q->from, &n) && anfi_t_const_elems(q->to, &m)) {
    texpr in[] = {anfi_ix(L, n),
                  anfi_ix(L, m),
                  q->from0,
                  q->to0,
                  anfi_ix(L, rows),
                  anfi_ix(L, cols),
                  anfi_ix(L, q->from_ld),
                  anfi_ix(L, q->to_ld),
                  q->from,
                  q->to};
    texpr call = anfi_low_help(L, name, anfi_t_dt(ANF_TIR_void), ANFI_LEN(in), in);
    anfi_low_add(L, anfi_t_eval(L->t, call));
    return;
  }
  anfi_loop i, j;
  anfi_low_loop_range(L, &i, anfi_ix(L, 0), anfi_ix(L, rows), s->side, "i");
  anfi_low_loop_range(L, &j, anfi_ix(L, 0), anfi_ix(L, cols), s->side, "j");
  one_square(s, i.var, j.var);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

void anfi_low_transpose(anfi_low *L, const anfi_transposed *q) {
  square s = {L, q, SIDE_BYTES / (uint64_t)anfi_t_bytes(anfi_t_dt(q->elem))};
  if (s.side > SIDE_MAX) s.side = SIDE_MAX;
  uint64_t rows = q->rows / s.side * s.side, cols = q->cols / s.side * s.side;
  if (rows && cols) squares(&s, rows, cols);
  rest(&s, 0, rows, cols, q->cols);
  rest(&s, rows, q->rows, 0, q->cols);
}
