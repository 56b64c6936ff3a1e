// SPDX-License-Identifier: Apache-2.0
/* LSTM, GRU and RNN, unrolled over time.
 *   nn.RNN of x: [3, batch, n]   ->   a = x W + b for all steps; h1 = Tanh(a[0] + h0 U), h2 = Tanh(a[1] + h1 U), ..
 * For each layer and direction one product of all steps' inputs, then the steps one after the other (Hochreiter and
 * Schmidhuber 1997; Cho et al. 2014). */
#include "frontend/pnnx/pnnx.h"

typedef enum { LSTM, GRU, RNN_TANH, RNN_RELU } kind;

typedef struct {
  /* parameters */
  kind kind;
  int64_t hidden, layers, steps, project; // project: width of h in an LSTM, or 0
  bool bias, bidirectional;
  /* state */
  anfi_operand h0, c0; // [layers * directions, batch, width], or None
  anfi_operand *h, *c; // last ones of each layer and direction
} rnn;

/* Values of one step. */
typedef struct {
  anfi_operand x, own; // input's part and h's part of the gates
  anfi_operand h, c;
} state;

static bool op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, const anfi_operand *b,
                anfi_operand *out) {
  return anfi_layer_op2(l, op, a, b, out);
}

static bool take(const anfi_layer *l, const anfi_operand *x, int64_t i, anfi_operand *out) {
  anfi_operand at = anfi_operand_number(l->t, i);
  return anfi_layer_take(l, x, &at, 0, out);
}

static const char *key_of(const anfi_layer *l, const char *what, int64_t layer, bool reverse) {
  return anfi_sprintf(l->t->arena, "%s_l%lld%s", what, (long long)layer, reverse ? "_reverse" : "");
}

static bool linear(const anfi_layer *l, const rnn *m, const anfi_operand *x, const char *w,
                   const char *b, int64_t layer, bool reverse, anfi_operand *out) {
  anfi_operand in[3] = {*x};
  bool bias = m->bias && b;
  return anfi_layer_weight(l, key_of(l, w, layer, reverse), &in[1]) &&
         (!bias || anfi_layer_weight(l, key_of(l, b, layer, reverse), &in[2])) &&
         anfi_layer_op(l, ANF_OP_Linear, bias ? 3 : 2, in, 0, NULL, out);
}

/* ---- one step ---- */

static bool gate(const anfi_layer *l, const rnn *m, const anfi_operand *x, int64_t k,
                 anfi_operand *out) {
  return anfi_layer_slice(l, x, -1, k * m->hidden, (k + 1) * m->hidden, out);
}

/* c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c') with gates i f g o. */
static bool lstm_cell(const anfi_layer *l, const rnn *m, state *s) {
  anfi_operand all, g[4], t;
  if (!op2(l, ANF_OP_Add, &s->x, &s->own, &all)) return false;
  for (int64_t k = 0; k < 4; k++)
    if (!gate(l, m, &all, k, &g[k]) ||
        !anfi_layer_op1(l, k == 2 ? ANF_OP_Tanh : ANF_OP_Sigmoid, &g[k], &g[k]))
      return false;
  return op2(l, ANF_OP_Mul, &g[1], &s->c, &s->c) && op2(l, ANF_OP_Mul, &g[0], &g[2], &t) &&
         op2(l, ANF_OP_Add, &s->c, &t, &s->c) && anfi_layer_op1(l, ANF_OP_Tanh, &s->c, &t) &&
         op2(l, ANF_OP_Mul, &g[3], &t, &s->h);
}

/* r, z = sigmoid, n = tanh(x + r h), h' = n + z (h - n) with gates r z n. */
static bool gru_cell(const anfi_layer *l, const rnn *m, state *s) {
  anfi_operand x, h, g[3];
  for (int64_t k = 0; k < 3; k++) {
    if (!gate(l, m, &s->x, k, &x) || !gate(l, m, &s->own, k, &h)) return false;
    if (k == 2 && !op2(l, ANF_OP_Mul, &g[0], &h, &h)) return false;
    if (!op2(l, ANF_OP_Add, &x, &h, &g[k]) ||
        !anfi_layer_op1(l, k == 2 ? ANF_OP_Tanh : ANF_OP_Sigmoid, &g[k], &g[k]))
      return false;
  }
  return op2(l, ANF_OP_Sub, &s->h, &g[2], &h) && op2(l, ANF_OP_Mul, &g[1], &h, &h) &&
         op2(l, ANF_OP_Add, &g[2], &h, &s->h);
}

static bool cell(const anfi_layer *l, const rnn *m, state *s) {
  if (m->kind == LSTM) return lstm_cell(l, m, s);
  if (m->kind == GRU) return gru_cell(l, m, s);
  return op2(l, ANF_OP_Add, &s->x, &s->own, &s->h) &&
         anfi_layer_op1(l, m->kind == RNN_TANH ? ANF_OP_Tanh : ANF_OP_Relu, &s->h, &s->h);
}

/* ---- all steps ---- */

static bool start(const anfi_layer *l, const anfi_operand *given, int64_t at, int64_t width,
                  const anfi_operand *x, anfi_operand *out) {
  if (given->kind != ANFI_OPERAND_NONE) return take(l, given, at, out);
  return anfi_layer_slice(l, x, -1, 0, width, out) && anfi_layer_op1(l, ANF_OP_ZerosLike, out, out);
}

/* One layer in one direction over x [time, batch, features]. */
static bool direction(const anfi_layer *l, rnn *m, const anfi_operand *x, int64_t layer,
                      bool reverse, anfi_operand *out) {
  anfi_operand all, *outs = ANFI_NEW_N(l->t->arena, anfi_operand, (size_t)m->steps);
  int64_t at = layer * (m->bidirectional ? 2 : 1) + reverse;
  int64_t width = m->project ? m->project : m->hidden;
  state s;
  if (!linear(l, m, x, "weight_ih", "bias_ih", layer, reverse, &all)) return false;
  for (int64_t k = 0; k < m->steps; k++) {
    int64_t t = reverse ? m->steps - 1 - k : k;
    if (!take(l, &all, t, &s.x)) return false;
    if (k == 0 && (!start(l, &m->h0, at, width, &s.x, &s.h) ||
                   (m->kind == LSTM && !start(l, &m->c0, at, m->hidden, &s.x, &s.c))))
      return false;
    if (!linear(l, m, &s.h, "weight_hh", "bias_hh", layer, reverse, &s.own) || !cell(l, m, &s) ||
        (m->project && !linear(l, m, &s.h, "weight_hr", NULL, layer, reverse, &s.h)))
      return false;
    outs[t] = s.h;
  }
  m->h[at] = s.h;
  if (m->kind == LSTM) m->c[at] = s.c;
  return anfi_layer_along(l, ANF_OP_Stack, (size_t)m->steps, outs, 0, out);
}

static bool all_layers(const anfi_layer *l, rnn *m, anfi_operand *x) {
  for (int64_t layer = 0; layer < m->layers; layer++) {
    anfi_operand way[2];
    for (size_t r = 0; r < (m->bidirectional ? 2 : 1); r++)
      if (!direction(l, m, x, layer, r == 1, &way[r])) return false;
    *x = way[0];
    if (m->bidirectional && !anfi_layer_along(l, ANF_OP_Concat, 2, way, -1, x)) return false;
  }
  return true;
}

/* ---- the module ---- */

static bool read_kind(const anfi_layer *l, rnn *m) {
  m->kind = strcmp(l->op->type, "nn.LSTM") == 0  ? LSTM
            : strcmp(l->op->type, "nn.GRU") == 0 ? GRU
                                                 : RNN_TANH;
  if (m->kind != RNN_TANH) return true;
  const char *f = anfi_layer_text(l, "nonlinearity");
  if (!f || strcmp(f, "relu") != 0) return anfi_layer_only(l, "nonlinearity", "tanh");
  return m->kind = RNN_RELU, true;
}

static bool read_params(const anfi_layer *l, rnn *m, bool *batch_first) {
  int64_t size;
  anfi_layer_ignore(l, "dropout");
  if (!read_kind(l, m) || !anfi_layer_need_int(l, "hidden_size", &m->hidden) ||
      !anfi_layer_int(l, "num_layers", 1, &m->layers) ||
      !anfi_layer_int(l, "input_size", 0, &size) ||
      !anfi_layer_int(l, "proj_size", 0, &m->project) ||
      !anfi_layer_bool(l, "bias", true, &m->bias) ||
      !anfi_layer_bool(l, "batch_first", false, batch_first) ||
      !anfi_layer_bool(l, "bidirectional", false, &m->bidirectional))
    return false;
  if (m->project && m->kind != LSTM) return anfi_layer_error(l, ANF_E1053, "proj_size");
  if (m->hidden < 1 || m->layers < 1 || m->layers > 1000 || m->project < 0)
    return anfi_layer_error(l, ANF_E1055, "a size is out of range");
  return true;
}

/* h0, and c0 of an LSTM: inputs that may be there. */
static bool read_states(const anfi_layer *l, rnn *m, bool unbatched) {
  m->h0.kind = m->c0.kind = ANFI_OPERAND_NONE;
  if (l->op->nin < 2) return true;
  if (!anfi_layer_tensor(l, "hx", 1, &m->h0)) return false;
  if (m->kind == LSTM && !anfi_layer_tensor(l, "cx", 2, &m->c0)) return false;
  if (!unbatched) return true;
  return anfi_layer_along(l, ANF_OP_ExpandDims, 1, &m->h0, 1, &m->h0) &&
         (m->kind != LSTM || anfi_layer_along(l, ANF_OP_ExpandDims, 1, &m->c0, 1, &m->c0));
}

/* pnnx leaves away what nobody uses, y too: is the only output the last states, by the sizes that the file states? An
 * LSTM's might be h or c, so it is refused as a y of other sizes. */
static bool is_state_alone(const anfi_layer *l, const rnn *m, const anf_type *y, size_t n) {
  if (m->kind == LSTM || l->op->nout != 1 || y->n != 3) return false;
  const anf_type *t = l->op->model->operands.at[l->op->out[0]].type;
  if (!t || t->n != 3) return false;
  bool as_y = true;
  for (size_t i = 0; i < 3; i++)
    as_y &= t->dims[i] < 0 || y->dims[i] < 0 || t->dims[i] == y->dims[i];
  return !as_y && t->dims[0] == (int64_t)n;
}

/* Outputs y, h and c; pnnx leaves away what nobody uses. */
static bool give(anfi_layer *l, const rnn *m, const anfi_operand *y, bool unbatched,
                 bool batch_first) {
  size_t n = (size_t)m->layers * (m->bidirectional ? 2 : 1);
  l->out[0] = *y;
  l->nresult = m->kind == LSTM ? 3 : 2;
  if (l->op->nout && l->op->nout < l->nresult) l->nresult = l->op->nout;
  if (batch_first && !unbatched && !anfi_layer_swap(l, y, 0, 1, &l->out[0])) return false;
  if (l->nresult != l->op->nout) return true; // the caller checks the number of results
  if (is_state_alone(l, m, l->out[0].type, n))
    return anfi_layer_along(l, ANF_OP_Stack, n, m->h, 0, &l->out[0]);
  if (l->nresult > 1 && !anfi_layer_along(l, ANF_OP_Stack, n, m->h, 0, &l->out[1])) return false;
  if (l->nresult > 2 && !anfi_layer_along(l, ANF_OP_Stack, n, m->c, 0, &l->out[2])) return false;
  for (size_t i = 0; unbatched && i < l->nresult; i++)
    if (!anfi_layer_along(l, ANF_OP_Squeeze, 1, &l->out[i], 1, &l->out[i])) return false;
  return true;
}

bool anfi_pnnx_make_rnn(anfi_layer *l) {
  rnn m = {.kind = LSTM};
  anfi_operand x;
  bool batch_first;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !read_params(l, &m, &batch_first)) return false;
  bool unbatched = x.type->n == 2;
  if (!read_states(l, &m, unbatched)) return false;
  if (unbatched && !anfi_layer_along(l, ANF_OP_ExpandDims, 1, &x, 1, &x)) return false;
  if (x.type->n != 3) return anfi_layer_error(l, ANF_E1055, "its input must have rank 2 or 3");
  if (batch_first && !unbatched && !anfi_layer_swap(l, &x, 0, 1, &x)) return false;
  m.steps = x.type->dims[0];
  if (m.steps < 1 || m.steps > 100000)
    return anfi_layer_error(l, ANF_E1053, "a length that is not known, or is 0");
  size_t n = (size_t)m.layers * (m.bidirectional ? 2 : 1);
  m.h = ANFI_NEW_N(l->t->arena, anfi_operand, n);
  m.c = ANFI_NEW_N(l->t->arena, anfi_operand, n);
  return all_layers(l, &m, &x) && give(l, &m, &x, unbatched, batch_first);
}
