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

/* The adjoint of item k of a tuple; zeros if nothing depends on it. */
static anf_node *adjoint(anfi_derive *q, size_t k) {
  if (q->dy[k]) return q->dy[k];
  return k == 0   ? anfi_derive_build0(q, "(ZerosLike (TupleGet y index=0))")
         : k == 1 ? anfi_derive_build0(q, "(ZerosLike (TupleGet y index=1))")
                  : anfi_derive_build0(q, "(ZerosLike (TupleGet y index=2))");
}

/* Each formula makes the next of n, from `first` on. */
static bool in_turn(anfi_derive *q, anf_node **n, size_t first, size_t count,
                    const char *const *formula) {
  for (size_t i = 0; i < count; i++)
    if (!(n[first + i] = anfi_derive_build(q, formula[i], n, 0, NULL))) return false;
  return true;
}

/* v (diag(dw) + f o (v' dv)) v' with f[i, j] = 1 / (w[j] - w[i]), 0 for equal values; symmetric, as the part of a that counts is. */
bool anfi_vjp_eigh(anfi_derive *q) {
  static const char *const first[] = {"(TupleGet y index=1)", "(Mul @2 (ExpandDims @0 axis=-2))"};
  static const char *const vectors[] = {
      "(Sub (ExpandDims (TupleGet y index=0) axis=-2) (ExpandDims (TupleGet y index=0) axis=-1))",
      "(Where (Equal @4 0) 0 (Div (MatMul @2 @1 ta=true) (Where (Equal @4 0) 1 @4)))",
      "(Add @3 (MatMul @2 @5))"};
  static const char *const last[] = {"(MatMul @6 @2 tb=true)",
                                     "(Mul 0.5 (Add @7 (SwapAxes @7 axis1=-1 axis2=-2)))"};
  anf_node *n[9] = {adjoint(q, 0), q->dy[1]}; // dw dv v
  if (!n[0] || !in_turn(q, n, 2, 2, first)) return false;
  if (q->dy[1] && !in_turn(q, n, 4, 3, vectors)) return false;
  if (!q->dy[1]) n[6] = n[3];
  if (!in_turn(q, n, 7, 2, last)) return false;
  q->out[0] = n[8];
  return true;
}

/* Townsend, Differentiating the Singular Value Decomposition (2016). With l = u' du and r = v' dv, and f[i, j] = 1 / (s[j]^2 - s[i]^2):
 *   u (diag(ds) + (f o (l - l')) s_j + s_i (f o (r - r'))) v' + (du - u l) / s v' + u ((dv - v r) / s)'
 * where 1 / 0 counts as 0. */
bool anfi_vjp_svd(anfi_derive *q) { // @0 @1 @2: du ds dv'
  static const char *const first[] = {
      "(TupleGet y index=0)",             // 3: u
      "(TupleGet y index=2)",             // 4: v'
      "(Mul @3 (ExpandDims @1 axis=-2))", // 5: of the values
  };
  static const char *const vectors[] = {
      "(ExpandDims (TupleGet y index=1) axis=-2)",                // 6: s, by columns
      "(SwapAxes @6 axis1=-1 axis2=-2)",                          // 7: s, by rows
      "(Sub (Mul @6 @6) (Mul @7 @7))",                            // 8
      "(Where (Equal @6 0) 0 (Div 1 (Where (Equal @6 0) 1 @6)))", // 9: 1 / s, by columns
      "(MatMul @3 @0 ta=true)",                                   // 10: l
      "(MatMul @4 @2 tb=true)",                                   // 11: r
      ("(Add (Mul (Sub @10 (SwapAxes @10 axis1=-1 axis2=-2)) @6) (Mul @7 (Sub @11 (SwapAxes @11 "
       "axis1=-1 axis2=-2))))"),
      "(Where (Equal @8 0) 0 (Div @12 (Where (Equal @8 0) 1 @8)))", // 13: between u and v'
      "(Add (Add @5 (MatMul @3 @13)) (Mul (Sub @0 (MatMul @3 @10)) @9))",
      "(Mul (Sub @2 (MatMul @11 @4 ta=true)) (SwapAxes @9 axis1=-1 axis2=-2))",
      "(Add (MatMul @14 @4) (MatMul @3 @15))",
  };
  bool values = !q->dy[0] && !q->dy[2];
  anf_node *n[17] = {values ? NULL : adjoint(q, 0), adjoint(q, 1), values ? NULL : adjoint(q, 2)};
  if (!n[1] || !in_turn(q, n, 3, 3, first)) return false;
  if (values) {
    q->out[0] = anfi_derive_build(q, "(MatMul @5 @4)", n, 0, NULL);
    return q->out[0] != NULL;
  }
  if (!n[0] || !n[2] || !in_turn(q, n, 6, ANFI_LEN(vectors), vectors)) return false;
  q->out[0] = n[16];
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
