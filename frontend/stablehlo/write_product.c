// SPDX-License-Identifier: Apache-2.0
/* Products of matrices, sums of products, and factors of matrices.
 *   MatMul(x, y) of matrices   ->   stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], ..
 *   Einsum("ij,jk->ik", x, y)  ->   dot_general over j; labels of one operand alone are summed first */
#include "frontend/stablehlo/write.h"
#include "ir/ops/op.h"

/* ---- products ---- */

/* Of matrices with the same leading dims: a template brings others to this form. */
static const anfi_out *product(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  anfi_flat *w = a->w;
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *y = x ? anfi_sw_in_as(a, 1, d) : NULL;
  int64_t lead[ANF_MAX_RANK];
  if (!y) return NULL;
  uint32_t n = x->type->n;
  for (uint32_t i = 0; i < n; i++) lead[i] = i;
  const char *batch = anfi_sw_ints(w, n - 2, lead);
  const anf_type *t = anfi_sw_tensor(w, d, a->n->type->n, a->n->type->dims);
  return anfi_sw_put(w, t,
                     "stablehlo.dot_general %s, %s, %s%s%s%scontracting_dims = [%u] x [%u], "
                     "precision = [HIGHEST, HIGHEST] : (%s, %s) -> %s",
                     x->name, y->name, n > 2 ? "batching_dims = " : "", n > 2 ? batch : "",
                     n > 2 ? " x " : "", n > 2 ? anfi_sprintf(w->arena, "%s, ", batch) : "", n - 1,
                     n - 2, anfi_sw_type(w, x->type), anfi_sw_type(w, y->type), anfi_sw_type(w, t));
}

typedef struct {
  const anfi_einsum *e;
  uint8_t label[ANF_MAX_RANK];
  uint32_t n;
  const anfi_out *x;
} term;

static bool has_label(const uint8_t *label, uint32_t n, uint32_t l) {
  for (uint32_t i = 0; i < n; i++)
    if (label[i] == l) return true;
  return false;
}

/* Labels that no other term has, and the result has not, are summed first; dims of 1 that are repeated too. */
static void summed(anfi_flat *w, term *s, const term *other) {
  int64_t dims[ANF_MAX_RANK], left[ANF_MAX_RANK];
  uint32_t n = 0, m = 0;
  uint8_t label[ANF_MAX_RANK];
  for (uint32_t i = 0; i < s->n; i++) {
    bool out = s->label[i] < s->e->nout, wide = s->x->type->dims[i] == s->e->dim[s->label[i]];
    bool gone = wide ? !out && !(other && has_label(other->label, other->n, s->label[i])) : true;
    if (gone) dims[n++] = i;
    else left[m] = s->x->type->dims[i], label[m++] = s->label[i];
  }
  anf_dtype d = (anf_dtype)s->x->type->dtype;
  s->x = anfi_sw_reduce(w, s->x, "add", anfi_sw_number(w, d, 0), anfi_sw_tensor(w, d, m, left), n,
                        dims);
  s->n = m;
  memcpy(s->label, label, sizeof label);
}

/* dot_general of two terms: batch labels, then those of a, then those of b. */
static term contracted(anfi_flat *w, term a, term b) {
  int64_t ab[ANF_MAX_RANK], bb[ANF_MAX_RANK], ac[ANF_MAX_RANK], bc[ANF_MAX_RANK],
      dims[ANF_MAX_RANK];
  uint32_t nb = 0, nc = 0;
  term r = {.e = a.e};
  for (uint32_t i = 0; i < a.n; i++)
    for (uint32_t k = 0; k < b.n; k++)
      if (a.label[i] == b.label[k]) {
        if (a.label[i] < a.e->nout) r.label[nb] = a.label[i], ab[nb] = i, bb[nb++] = k;
        else ac[nc] = i, bc[nc++] = k;
      }
  r.n = nb;
  for (uint32_t i = 0; i < a.n; i++)
    if (!has_label(b.label, b.n, a.label[i])) r.label[r.n++] = a.label[i];
  for (uint32_t i = 0; i < b.n; i++)
    if (!has_label(a.label, a.n, b.label[i])) r.label[r.n++] = b.label[i];
  for (uint32_t i = 0; i < r.n; i++) dims[i] = a.e->dim[r.label[i]];
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)a.x->type->dtype, r.n, dims);
  r.x = anfi_sw_put(w, t,
                    "stablehlo.dot_general %s, %s, batching_dims = %s x %s, contracting_dims = %s "
                    "x %s, precision = [HIGHEST, HIGHEST] : (%s, %s) -> %s",
                    a.x->name, b.x->name, anfi_sw_ints(w, nb, ab), anfi_sw_ints(w, nb, bb),
                    anfi_sw_ints(w, nc, ac), anfi_sw_ints(w, nc, bc), anfi_sw_type(w, a.x->type),
                    anfi_sw_type(w, b.x->type), anfi_sw_type(w, t));
  return r;
}

/* One term or two, whose labels are all different. */
static const anfi_out *einsum(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anfi_einsum e;
  term s[2];
  uint32_t n = (uint32_t)anfi_arg_count(a->n);
  const anf_type *types[2];
  if (n > 2) return (void)anfi_flat_refuse(w, a->n, "more than two operands of", "Einsum"), NULL;
  for (uint32_t i = 0; i < n; i++) types[i] = anfi_flat_type_of(a->n->in[i].def);
  if (!anfi_einsum_plan(w->cx, anfi_node_loc(a->n), anfi_sw_attr(a, "equation"), n, types, &e))
    return NULL;
  for (uint32_t i = 0; i < n; i++) {
    s[i] = (term){.e = &e, .n = types[i]->n, .x = anfi_sw_in_as(a, i, anfi_sw_result_dtype(a))};
    if (!s[i].x) return NULL;
    for (uint32_t k = 0; k < s[i].n; k++) {
      s[i].label[k] = e.label[i].at[k];
      if (has_label(s[i].label, k, s[i].label[k]))
        return (void)anfi_flat_refuse(w, a->n, "a label twice in one operand of", "Einsum"), NULL;
    }
  }
  for (uint32_t i = 0; i < n; i++) summed(w, &s[i], n == 2 ? &s[1 - i] : NULL);
  for (uint32_t i = 0; n == 2 && i < n; i++) summed(w, &s[i], &s[1 - i]);
  term r = n == 2 ? contracted(w, s[0], s[1]) : s[0];
  int64_t perm[ANF_MAX_RANK], wide[ANF_MAX_RANK];
  uint32_t m = 0;
  bool order = true;
  for (uint32_t l = 0; l < e.nout; l++) {
    wide[l] = 1;
    for (uint32_t k = 0; k < r.n; k++)
      if (r.label[k] == l) order = order && k == m, perm[m++] = k, wide[l] = e.dim[l];
  }
  const anfi_out *y = order ? r.x : anfi_sw_transpose(w, r.x, perm);
  y = anfi_sw_reshape(w, y, e.nout, wide);
  return anfi_sw_broadcast(w, y, a->n->type->n, a->n->type->dims);
}

/* ---- linear algebra ---- */

static const anfi_out *factor(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d);
  if (!x) return NULL;
  uint32_t n = x->type->n;
  const char *t = anfi_sw_type(w, x->type);
  const anf_type *at = anfi_sw_tensor(w, ANF_I64, n, x->type->dims);
  const anfi_out *l =
      anfi_sw_put(w, x->type, "stablehlo.cholesky %s, lower = true : %s", x->name, t);
  const anfi_out *i = anfi_sw_iota(w, at, n - 2);
  const anfi_out *j = anfi_sw_iota(w, at, n - 1);
  const anfi_out *below = anfi_sw_compare(w, "GE", i, j);
  return anfi_sw_select(w, below, l,
                        anfi_sw_broadcast(w, anfi_sw_number(w, d, 0), n, x->type->dims));
}

static const anfi_out *triangular(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *b = x ? anfi_sw_in_as(a, 1, d) : NULL;
  if (!b) return NULL;
  bool same = x->type->n == b->type->n;
  for (uint32_t i = 0; same && i + 2 < x->type->n; i++) same = x->type->dims[i] == b->type->dims[i];
  if (!same)
    return (void)anfi_flat_refuse(w, a->n, "operands that broadcast, of", "TriangularSolve"), NULL;
  return anfi_sw_put(
      w, b->type,
      "\"stablehlo.triangular_solve\"(%s, %s) <{left_side = true, lower = %s, transpose_a = "
      "#stablehlo<transpose %s>, unit_diagonal = %s}> : (%s, %s) -> %s",
      x->name, b->name, anfi_sw_true(a, "lower") ? "true" : "false",
      anfi_sw_true(a, "transpose") ? "TRANSPOSE" : "NO_TRANSPOSE",
      anfi_sw_true(a, "unit") ? "true" : "false", anfi_sw_type(w, x->type),
      anfi_sw_type(w, b->type), anfi_sw_type(w, b->type));
}

const anfi_out *anfi_sw_product_op(anfi_sw_apply *a, bool *taken) {
  *taken = true;
  switch (a->n->op) {
  case ANF_OP_MatMul: return product(a);
  case ANF_OP_Einsum: return einsum(a);
  case ANF_OP_Cholesky: return factor(a);
  case ANF_OP_TriangularSolve: return triangular(a);
  default: return *taken = false, NULL;
  }
}
