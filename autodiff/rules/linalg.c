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

/* ---- factors by elimination and by reflections ---- */

#define TURNED(x) "(SwapAxes " x " axis1=-1 axis2=-2)"
#define DIAGONAL(x)                                                                                \
  "(Sub (Tril (OnesLike " x ")) (Tril (OnesLike " x ") k=-1))" // ones, of the shape of x

/* Rows (axis -2) or columns (-1) of x; rows and columns of zeros around it. NULL gives NULL. */
static anf_node *part(anfi_derive *q, anf_node *x, int64_t from, int64_t to, int64_t axis) {
  if (!x) return NULL;
  anf_value *v[3] = {anfi_derive_int(q, from), NULL, NULL};
  v[1] = anfi_derive_int(q, to);
  v[2] = anfi_derive_int(q, axis);
  return anfi_derive_build(q, "(Slice @0 start=$0 stop=$1 axis=$2)", &x, 3, v);
}

static anf_node *in_zeros(anfi_derive *q, anf_node *x, const int64_t around[4]) {
  int64_t width[2 * ANF_MAX_RANK] = {0};
  size_t n = 2 * (size_t)anfi_derive_type(q, 0)->n;
  if (!x) return NULL;
  for (size_t i = 0; i < 4; i++) width[n - 4 + i] = around[i];
  anf_value *v = anfi_derive_ints(q, n, width);
  return anfi_derive_build(q, "(Pad @0 pad_width=$0)", &x, 1, &v);
}

/* x and ones on the diagonal from `first` to `end`, where both are square. */
static anf_node *with_ones(anfi_derive *q, anf_node *x, int64_t first, int64_t end) {
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t k = 0; k < t->n; k++) dims[k] = k + 2 < t->n ? t->dims[k] : end - first;
  const anf_type *to = anfi_type_tensor(q->ad->m->cx, (anf_dtype)t->dtype, t->n, dims);
  anf_node *n[2] = {x, anfi_ad_full(q->ad, q->g, to, 1)};
  n[1] = n[1] ? anfi_derive_build(q, DIAGONAL("@1"), n, 0, NULL) : NULL;
  n[1] = in_zeros(q, n[1], (const int64_t[4]){first, 0, first, 0});
  return x && n[1] ? anfi_derive_build(q, "(Add @0 @1)", n, 0, NULL) : NULL;
}

/* With the rows of a in order, l u = a: l^-T (low(l' dl) + up(du u')) u^-T, in that order. A matrix that is not square has the columns
 * or rows of a unit matrix added, which changes neither the pivots nor the rest of l and u. */
bool anfi_vjp_lu(anfi_derive *q) {
  static const char *const formulas[] = {
      "(Tril @0 k=-1)",                                            // 2: dl
      "(Add @2 (MatMul (Tril @1 k=-1) @2 ta=true))",               // 3: l' dl
      "(MatMul (Triu @0) (Triu @1) tb=true)",                      // 4: du u'
      "(Add (Tril @3 k=-1) (Triu @4))",                            // 5
      "(TriangularSolve @1 @5 transpose=true unit=true)",          // 6
      TURNED("(TriangularSolve @1 " TURNED("@6") " lower=false)"), // 7
  };
  static const char *const back =
      "(TakeAlongAxis @8 (BroadcastLike (ExpandDims (ArgSort (TupleGet y "
      "index=2) axis=-1) axis=-1) @8) axis=-2)";
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  int64_t m = t->dims[t->n - 2], n = t->dims[t->n - 1], k = m < n ? m : n, all = m < n ? n : m;
  anf_node *v[9] = {adjoint(q, 0), anfi_derive_build0(q, "(TupleGet y index=0)")};
  if (m != n) {
    const int64_t around[4] = {0, all - m, 0, all - n};
    v[0] = in_zeros(q, v[0], around);
    v[1] = with_ones(q, in_zeros(q, v[1], around), k, all);
  }
  if (!v[0] || !v[1] || !in_turn(q, v, 2, ANFI_LEN(formulas), formulas)) return false;
  v[8] = m == n ? v[7] : part(q, part(q, v[7], 0, m, -2), 0, n, -1);
  q->out[0] = v[8] ? anfi_derive_build(q, back, v, 0, NULL) : NULL;
  return q->out[0] != NULL;
}

/* Householder: the product of the reflections is I - V T V', so its first k columns are Q = E + V U, where E has ones on its diagonal and
 * U = - T V1' is upper triangular (Ballard et al., Reconstructing Householder Vectors from TSQR, 2014). V and U are the factors of
 * Q - E, and tau is - diag(U): their adjoints give that of Q as LU's do, and Q and R that of a. Where a column is zero below its
 * diagonal already, a reflection is no continuous function of it, and the derivative is not finite. */
typedef struct householder {
  int64_t m, n, k;
  anf_node *v, *v1, *u, *u1, *q,
      *r; // v1: the first k rows; u1: u with 1 where a last reflection of one row has 0
  anf_node *dh, *dq;
} householder;

static bool factors_of(anfi_derive *q, householder *f) {
  static const char *const formulas[] = {
      "(Add (Tril @2 k=-1) " DIAGONAL("@2") ")",    // 3: V
      "(Mul @1 (Triu (MatMul @3 @3 ta=true) k=1))", // 4: with I added, the inverse of T by tau
  };
  static const char *const products[] = {
      "(Neg (TriangularSolve @4 (Mul @1 " TURNED("@5") ") lower=false unit=true))", // 6: U
      "(Add (MatMul @3 @6) " DIAGONAL("@3") ")",                                    // 7: Q
      "(Triu @0)",                                                                  // 8
  };
  anf_node *v[9] = {anfi_derive_build0(q, "(TupleGet y index=0)"),
                    anfi_derive_build0(q, "(ExpandDims (TupleGet y index=1) axis=-1)")};
  v[2] = part(q, v[0], 0, f->k, -1);
  if (!v[1] || !v[2] || !in_turn(q, v, 3, ANFI_LEN(formulas), formulas)) return false;
  v[5] = part(q, v[3], 0, f->k, -2);
  if (!v[5] || !in_turn(q, v, 6, ANFI_LEN(products), products)) return false;
  f->v = v[3], f->v1 = v[5], f->u = v[6], f->q = v[7];
  f->u1 = f->m == f->k && f->k ? with_ones(q, f->u, f->k - 1, f->k) : f->u;
  f->r = part(q, v[8], 0, f->k, -2);
  return f->u1 && f->r;
}

/* The adjoint of Q as far as V and tau give it. */
static bool adjoint_of_q(anfi_derive *q, householder *f, anf_node *dtau) {
  static const char *const formulas[] = {
      "(Triu @4)",                                                                   // 5
      "(Tril (Sub (MatMul @0 (Tril @3 k=-1) ta=true) (MatMul @5 @1 tb=true)) k=-1)", // 6
      "(Add @5 " TURNED("(TriangularSolve @2 " TURNED("@6") " lower=false)") ")",    // 7
      "(TriangularSolve @0 @7 transpose=true unit=true)",                            // 8
  };
  anf_node *dv = part(q, f->dh, 0, f->k, -1);
  anf_node *v[12] = {f->v1, f->u, f->u1, part(q, dv, 0, f->k, -2), dtau};
  bool tall = f->m > f->k;
  v[4] = anfi_derive_build(q, "(Neg (Mul " DIAGONAL("@1") " (ExpandDims @4 axis=-1)))", v, 0, NULL);
  if (tall) {
    v[9] = part(q, dv, f->k, f->m, -2);
    v[10] = part(q, f->v, f->k, f->m, -2);
    if (!v[4] || !v[9] || !v[10]) return false;
    v[11] = anfi_derive_build(q, TURNED("(TriangularSolve @2 " TURNED("@9") " lower=false)"), v, 0,
                              NULL);
    v[4] = v[11] ? anfi_derive_build(q, "(Sub @4 (MatMul @10 @11 ta=true))", v, 0, NULL) : NULL;
  }
  if (!v[3] || !v[4] || !in_turn(q, v, 5, ANFI_LEN(formulas), formulas)) return false;
  f->dq = v[8];
  if (!tall) return true;
  v[8] = in_zeros(q, v[8], (const int64_t[4]){0, f->m - f->k, 0, 0});
  v[11] = in_zeros(q, v[11], (const int64_t[4]){f->k, 0, 0, 0});
  f->dq = v[8] && v[11] ? anfi_derive_build(q, "(Add @8 @11)", v, 0, NULL) : NULL;
  return f->dq != NULL;
}

/* (dQ + Q (low(m) + low(m)')) R^-T with m = R dR' - dQ' Q for the first k columns; more columns are Q' times those of a. */
static anf_node *adjoint_of_a(anfi_derive *q, const householder *f) {
  static const char *const formulas[] = {
      "(Sub (MatMul @2 (Triu @3) tb=true) (MatMul @1 @0 ta=true))",        // 4
      "(Add @1 (MatMul @0 (Add (Tril @4) " TURNED("(Tril @4 k=-1)") ")))", // 5
      TURNED("(TriangularSolve @2 " TURNED("@5") " lower=false)"),         // 6
  };
  bool wide = f->n > f->k;
  anf_node *top = part(q, f->dh, 0, f->k, -2);
  anf_node *v[10] = {f->q, f->dq, part(q, f->r, 0, f->k, -1), part(q, top, 0, f->k, -1)};
  if (wide) {
    v[7] = part(q, f->r, f->k, f->n, -1);
    v[8] = part(q, top, f->k, f->n, -1);
    if (!v[7] || !v[8]) return NULL;
    v[1] = anfi_derive_build(q, "(Add @1 (MatMul @0 (MatMul @7 @8 tb=true)))", v, 0, NULL);
  }
  if (!v[1] || !v[2] || !v[3] || !in_turn(q, v, 4, ANFI_LEN(formulas), formulas)) return NULL;
  if (!wide) return v[6];
  v[9] = anfi_derive_build(q, "(MatMul @0 @8)", v, 0, NULL);
  v[6] = in_zeros(q, v[6], (const int64_t[4]){0, 0, 0, f->n - f->k});
  v[9] = in_zeros(q, v[9], (const int64_t[4]){0, 0, f->k, 0});
  return v[6] && v[9] ? anfi_derive_build(q, "(Add @6 @9)", v, 0, NULL) : NULL;
}

bool anfi_vjp_householder(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  const anf_type *t = anfi_derive_type(q, 0);
  householder f = {.m = t->dims[t->n - 2], .n = t->dims[t->n - 1], .dh = adjoint(q, 0)};
  f.k = f.m < f.n ? f.m : f.n;
  anf_node *dtau = adjoint(q, 1);
  if (!f.dh || !dtau || !factors_of(q, &f) || !adjoint_of_q(q, &f, dtau)) return false;
  return (q->out[0] = adjoint_of_a(q, &f)) != NULL;
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
