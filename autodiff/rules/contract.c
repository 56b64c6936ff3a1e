// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of contractions are contractions.
 *   C = A B                              dA = dC Bᵀ,  dB = Aᵀ dC */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

static anf_node *matmul(anfi_derive *q, anf_node *a, bool ta, anf_node *b, bool tb) {
  anf_node *in[2] = {a, b};
  anf_value *v[2] = {anfi_value_new_i64(q->ad->m->cx, ANF_BOOL, ta), NULL};
  if (!a || !b) return anf_value_release(v[0]), NULL;
  anfi_value_guard(v[0]);
  v[1] = anfi_value_new_i64(q->ad->m->cx, ANF_BOOL, tb);
  anfi_value_guard(v[1]);
  return anfi_derive_build(q, "(MatMul @0 @1 ta=$0 tb=$1)", in, 2, v);
}

/* All dims but the last as one, so that one product serves all examples. */
static anf_node *rows(anfi_derive *q, anf_node *x) {
  const anf_type *t = anfi_ad_type_of(q->ad, x);
  int64_t dims[2] = {1, t->dims[t->n - 1]};
  for (uint32_t k = 0; k + 1 < t->n; k++) dims[0] = t->dims[k] < 0 ? -1 : dims[0] * t->dims[k];
  for (uint32_t k = 0; k + 1 < t->n; k++)
    if (t->dims[k] < 0) dims[0] = -1;
  return t->n == 2 ? x : anfi_derive_reshape(q, x, 2, dims);
}

/* ---- matrix products ---- */

static anf_node *conjugate(anfi_derive *q, size_t i) {
  return anfi_ad_apply1(q->ad, q->g, ANF_OP_Conj, q->in[i]);
}

/* y = A B with A = a or its transpose: dA = dy B*, dB = A* dy. Vectors are rows on the left and
 * columns on the right, so dy gets back the dims that they took from it. */
static anf_node *matrix_dy(anfi_derive *q) {
  bool row = anfi_derive_type(q, 0)->n == 1, column = anfi_derive_type(q, 1)->n == 1;
  if (row && column) return anfi_derive_build0(q, "(ExpandDims dy axis=(0,1))");
  if (row) return anfi_derive_build0(q, "(ExpandDims dy axis=-2)");
  return column ? anfi_derive_build0(q, "(ExpandDims dy axis=-1)") : q->dy[0];
}

static anf_node *matrix_arg(anfi_derive *q, size_t i) {
  anf_node *x = conjugate(q, i);
  if (!x || anfi_derive_type(q, i)->n != 1) return x;
  return i == 0 ? anfi_derive_build(q, "(ExpandDims @0 axis=0)", &x, 0, NULL)
                : anfi_derive_build(q, "(ExpandDims @0 axis=1)", &x, 0, NULL);
}

bool anfi_vjp_matmul(anfi_derive *q) {
  bool ta = anfi_derive_flag(q, "ta"), tb = anfi_derive_flag(q, "tb");
  const anf_type *a = anfi_derive_type(q, 0), *b = anfi_derive_type(q, 1);
  anf_node *dy = matrix_dy(q);
  if (!dy) return false;
  if (anfi_derive_wants(q, 0)) {
    anf_node *other = matrix_arg(q, 1);
    q->out[0] = ta ? matmul(q, other, tb, dy, true) : matmul(q, dy, false, other, !tb);
    if (!q->out[0]) return false;
  }
  if (!anfi_derive_wants(q, 1)) return true;
  anf_node *other = matrix_arg(q, 0), *d = dy;
  if (!other) return false;
  if (b->n == 2 && a->n > 2 && !ta) {
    other = rows(q, other);
    d = rows(q, dy);
  }
  anf_node *out = tb ? matmul(q, d, true, other, ta) : matmul(q, other, !ta, d, false);
  if (out && b->n == 1) out = anfi_derive_build(q, "(Squeeze @0 axis=-1)", &out, 0, NULL);
  return (q->out[1] = out) != NULL;
}

bool anfi_vjp_linear(anfi_derive *q) { // x w bias?
  if (anfi_derive_wants(q, 0) && !(q->out[0] = anfi_derive_build0(q, "(MatMul dy (Conj w))")))
    return false;
  if (anfi_derive_wants(q, 1)) {
    anf_node *x = conjugate(q, 0);
    q->out[1] = x ? matmul(q, rows(q, q->dy[0]), true, rows(q, x), false) : NULL;
    if (!q->out[1]) return false;
  }
  if (anfi_derive_wants(q, 2)) q->out[2] = q->dy[0];
  return true;
}

/* ---- einsum ---- */

/* An equation under way: terms of dy, the other operands and matrices of ones on the diagonal. */
typedef struct {
  anfi_derive *q;
  anfi_einsum plan;
  size_t nin;
  anf_node **in;
  char *text, *at;
  uint32_t fresh; // the next label that is not in use
  bool there[64];
} equation;

static char letter(uint32_t label) { return (char)(label < 26 ? 'a' + label : 'A' + label - 26); }

static void term(equation *e, anf_node *x, uint32_t n, const uint8_t *label) {
  if (e->nin) *e->at++ = ',';
  for (uint32_t k = 0; k < n; k++) {
    *e->at++ = letter(label[k]);
    e->there[label[k]] = true;
  }
  e->in[e->nin++] = x;
}

/* A label that an operand repeats took its diagonal: a new label for the second dim, tied
 * to the first by a matrix of ones on the diagonal. */
static bool tie(equation *e, uint8_t label, uint8_t *again) {
  anf_value *n = anfi_derive_int(e->q, e->plan.dim[label]);
  anf_node *eye = anfi_derive_build(e->q, "(CastLike (Eye n=$0) dy)", NULL, 1, &n);
  *again = (uint8_t)e->fresh++;
  if (!eye || e->fresh > 52) return false;
  term(e, eye, 2, (uint8_t[]){label, *again});
  return true;
}

/* The adjoint of operand i: summed over labels that it has not; dims of its own, and those
 * that broadcast, are put in afterwards. */
static anf_node *einsum_part(equation *e, size_t i) {
  anfi_derive *q = e->q;
  const anf_type *t = anfi_derive_type(q, i);
  uint8_t label[ANF_MAX_RANK], out[ANF_MAX_RANK];
  size_t n = 0;
  int64_t dims[ANF_MAX_RANK];
  uint8_t all[ANF_MAX_RANK];
  for (uint32_t k = 0; k < e->plan.nout; k++) all[k] = (uint8_t)k;
  term(e, q->dy[0], e->plan.nout, all);
  for (size_t j = 0; j < q->n; j++)
    if (j != i) term(e, conjugate(q, j), anfi_derive_type(q, j)->n, e->plan.label[j].at);
  for (uint32_t k = 0; k < t->n; k++) {
    label[k] = e->plan.label[i].at[k];
    for (uint32_t j = 0; j < k; j++)
      if (e->plan.label[i].at[j] == label[k] && !tie(e, label[k], &label[k])) return NULL;
  }
  *e->at++ = '-';
  *e->at++ = '>';
  for (uint32_t k = 0; k < t->n; k++) {
    bool keeps = e->there[label[k]] && t->dims[k] == e->plan.dim[e->plan.label[i].at[k]];
    dims[k] = keeps ? t->dims[k] : 1;
    if (keeps) out[n++] = label[k];
  }
  for (size_t k = 0; k < n; k++) *e->at++ = letter(out[k]);
  anf_value *v = anfi_value_new_string(q->ad->m->cx, e->text, (size_t)(e->at - e->text));
  anfi_value_guard(v);
  const anfi_attrs *attrs = anfi_ad_attrs(q->ad, ANF_OP_Einsum, &v);
  anf_node *d = anfi_ad_apply(q->ad, q->g, ANF_OP_Einsum, attrs, e->nin, e->in);
  if (d && n < t->n) d = anfi_derive_reshape(q, d, t->n, dims);
  return d;
}

bool anfi_vjp_einsum(anfi_derive *q) {
  const anf_type **types = ANFI_NEW_N(q->ad->arena, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) {
    types[i] = anfi_derive_type(q, i);
    if (!anfi_derive_static(q, i)) return false;
  }
  equation e = {.q = q};
  if (!anfi_einsum_plan(q->ad->m->cx, anfi_node_loc(q->primal), anfi_derive_attr(q, "equation"),
                        q->n, types, &e.plan))
    return false;
  if (e.plan.nlabel > 52) return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_MISSING);
  e.in = ANFI_NEW_N(q->ad->arena, anf_node *, q->n + 1 + ANF_MAX_RANK);
  e.text = (char *)anfi_alloc(q->ad->arena, (q->n + 3 + ANF_MAX_RANK) * (ANF_MAX_RANK + 3));
  for (size_t i = 0; i < q->n; i++) {
    if (!anfi_derive_wants(q, i)) continue;
    memset(e.there, 0, sizeof e.there);
    e.at = e.text;
    e.nin = 0;
    e.fresh = e.plan.nlabel;
    if (!(q->out[i] = einsum_part(&e, i)))
      return anfi_failed(q->ad->m->cx)
                 ? false
                 : anfi_derive_refuse(q->ad, q->primal, i, ANFI_DERIVATIVE_MISSING);
  }
  return true;
}
