// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of factorisations and triangular solves (Giles 2008, Murray 2016).
 *   L Lᵀ = A                             dA = sym(L⁻ᵀ Φ(Lᵀ dL) L⁻¹),  Φ: lower half, half the diagonal */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

/* With p = half(L' dL), where half takes the lower triangle and half of the diagonal, the gradient
 * of the symmetric matrix is s = L^-T p L^-1, made symmetric; only its lower half was read, so the
 * upper half is added to the lower: half(s + s') with the whole diagonal. */
bool anfi_vjp_cholesky(anfi_derive *q) {
  const anf_type *t = anfi_derive_type(q, 0);
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *m = anfi_type_tensor(q->ad->m->cx, (anf_dtype)anfi_ad_type_of(q->ad, q->y)->dtype,
                                       2, t->dims + t->n - 2);
  anf_node *ones = anfi_ad_full(q->ad, q->g, m, 1), *in[2] = {NULL, NULL};
  if (ones)
    in[0] = anfi_derive_build(q, "(Mul 0.5 (Add (Tril @0) (Tril @0 k=-1)))", &ones, 0, NULL);
  if (in[0])
    in[1] = anfi_derive_build(q,
                              "(TriangularSolve y (SwapAxes (TriangularSolve y (Mul (MatMul y dy "
                              "ta=true) @0) transpose=true) axis1=-1 axis2=-2) transpose=true)",
                              in, 0, NULL);
  if (in[1])
    q->out[0] =
        anfi_derive_build(q, "(Mul (Add @1 (SwapAxes @1 axis1=-1 axis2=-2)) @0)", in, 0, NULL);
  return q->out[0] != NULL;
}

/* det(a) times the transposed inverse; NaN for a singular matrix. */
bool anfi_vjp_det(anfi_derive *q) {
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t dims[ANF_MAX_RANK];
  if (!anfi_derive_static(q, 0)) return false;
  for (uint32_t k = 0; k < t->n; k++) dims[k] = k + 2 < t->n ? t->dims[k] : 1;
  anf_node *d = anfi_derive_build0(q, "(Mul dy y)");
  d = d ? anfi_derive_reshape(q, d, t->n, dims) : NULL;
  if (d)
    q->out[0] =
        anfi_derive_build(q, "(Mul @0 (SwapAxes (Inverse a) axis1=-1 axis2=-2))", &d, 0, NULL);
  return q->out[0] != NULL;
}

/* db solves the transposed system; da is - db x', of which only the half that was read counts. */
bool anfi_vjp_triangular_solve(anfi_derive *q) { // a b
  bool lower = anfi_attr_bool(anfi_derive_attr(q, "lower")),
       transposed = anfi_attr_bool(anfi_derive_attr(q, "transpose")),
       unit = anfi_attr_bool(anfi_derive_attr(q, "unit"));
  anf_value *v = anfi_derive_bool(q, !transposed);
  anf_node *b = anfi_derive_build(q, "(TriangularSolve a dy lower=lower transpose=$0 unit=unit)",
                                  NULL, 1, &v);
  if (!b) return false;
  q->out[1] = b;
  if (!anfi_derive_wants(q, 0)) return true;
  anf_node *d = transposed ? anfi_derive_build(q, "(Neg (MatMul y @0 tb=true))", &b, 0, NULL)
                           : anfi_derive_build(q, "(Neg (MatMul @0 y tb=true))", &b, 0, NULL);
  if (!d) return false;
  v = anfi_derive_int(q, unit ? (lower ? -1 : 1) : 0);
  q->out[0] = lower ? anfi_derive_build(q, "(Tril @0 k=$0)", &d, 1, &v)
                    : anfi_derive_build(q, "(Triu @0 k=$0)", &d, 1, &v);
  return q->out[0] != NULL;
}

/* v (diag(dw) + f o (v' dv)) v' with f[i, j] = 1 / (w[j] - w[i]), 0 for equal values; symmetric, as the part of a that counts is. */
bool anfi_vjp_eigh(anfi_derive *q) {
  anf_node *n[3] = {NULL};
  n[0] = anfi_derive_build0(q, "(TupleGet y index=1)"); // v
  if (n[0])
    n[1] = anfi_derive_build0(q, "(Sub (ExpandDims (TupleGet y index=0) axis=-2) (ExpandDims "
                                 "(TupleGet y index=0) axis=-1))");
  if (n[1])
    n[2] = anfi_derive_build(q,
                             "(MatMul (Add (Mul @0 (ExpandDims dy0 axis=-2)) (MatMul @0 (Where "
                             "(Equal @1 0) 0 (Div (MatMul @0 dy1 ta=true) (Where (Equal @1 0) 1 "
                             "@1))))) @0 tb=true)",
                             n, 0, NULL);
  if (n[2])
    q->out[0] =
        anfi_derive_build(q, "(Mul 0.5 (Add @2 (SwapAxes @2 axis1=-1 axis2=-2)))", n, 0, NULL);
  return q->out[0] != NULL;
}

/* Townsend, Differentiating the Singular Value Decomposition (2016). With l = u' du and r = v' dv, and f[i, j] = 1 / (s[j]^2 - s[i]^2):
 *   u (diag(ds) + (f o (l - l')) s_j + s_i (f o (r - r'))) v' + (du - u l) / s v' + u ((dv - v r) / s)'
 * where 1 / 0 counts as 0. */
bool anfi_vjp_svd(anfi_derive *q) {
  anf_node *n[12] = {NULL};
  static const char *const step[] = {
      "(TupleGet y index=0)",                                     // 0: u
      "(ExpandDims (TupleGet y index=1) axis=-2)",                // 1: s, by columns
      "(TupleGet y index=2)",                                     // 2: v'
      "(SwapAxes @1 axis1=-1 axis2=-2)",                          // 3: s, by rows
      "(Sub (Mul @1 @1) (Mul @3 @3))",                            // 4
      "(Where (Equal @1 0) 0 (Div 1 (Where (Equal @1 0) 1 @1)))", // 5: 1 / s, by columns
      "(MatMul @0 dy0 ta=true)",                                  // 6: l
      "(MatMul @2 dy2 tb=true)",                                  // 7: r
      "(Where (Equal @4 0) 0 (Div (Add (Mul (Sub @6 (SwapAxes @6 axis1=-1 axis2=-2)) @1) (Mul @3 "
      "(Sub "
      "@7 (SwapAxes @7 axis1=-1 axis2=-2)))) (Where (Equal @4 0) 1 @4)))", // 8: what is between u and v'
      "(Mul (Sub dy0 (MatMul @0 @6)) @5)",                                 // 9
      "(Mul (Sub dy2 (MatMul @7 @2 ta=true)) (SwapAxes @5 axis1=-1 axis2=-2))", // 10: a transpose
      "(Add (MatMul (Add (Add (Mul @0 (ExpandDims dy1 axis=-2)) (MatMul @0 @8)) @9) @2) (MatMul @0 "
      "@10))",
  };
  for (size_t i = 0; i < ANFI_LEN(step); i++)
    if (!(n[i] = anfi_derive_build(q, step[i], n, 0, NULL))) return false;
  q->out[0] = n[11];
  return true;
}

/* The sum over k of w^(j k) dy[k] with the conjugate of w; of a real input the real part. */
bool anfi_vjp_fft(anfi_derive *q) {
  anf_dtype d = (anf_dtype)anfi_derive_type(q, 0)->dtype;
  anf_value *v = anfi_derive_bool(q, !anfi_derive_flag(q, "inverse"));
  q->out[0] = anfi_dtype_class(d) == ANFI_CLASS_COMPLEX
                  ? anfi_derive_build(q, "(Fft dy axis=axis inverse=$0)", NULL, 1, &v)
                  : anfi_derive_build(q, "(Real (Fft dy axis=axis inverse=$0))", NULL, 1, &v);
  return q->out[0] != NULL;
}
