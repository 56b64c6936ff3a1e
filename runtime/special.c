// SPDX-License-Identifier: Apache-2.0
/* Functions of an element that are no instructions, for compiled code (base/special.c), and decompositions (base/eigen.c, factor.c).
 *   anf_rt_polygamma(s, 1, 1.0)   ->   pi^2 / 6 */
#include "base/base.h"
#include "runtime/rt.h"

double anf_rt_complex(anf_stream *s, int32_t f, int32_t part, double re, double im, double re2,
                      double im2) {
  const double a[2] = {re, im}, b[2] = {re2, im2};
  double r[2];
  (void)s;
  anfi_complex((anfi_complex_fn)f, a, b, r);
  return r[part];
}

double anf_rt_polygamma(anf_stream *s, int32_t n, double x) {
  (void)s;
  return anfi_polygamma(n, x);
}

void anf_rt_eigh(anf_stream *s, uint64_t n, void *a, void *w, void *v, void *work) {
  (void)s;
  anfi_eigh((size_t)n, (const double *)a, (double *)w, (double *)v, (double *)work);
}

void anf_rt_svd(anf_stream *s, uint64_t m, uint64_t n, void *a, void *u, void *values, void *vt,
                void *work) {
  (void)s;
  anfi_svd((size_t)m, (size_t)n, (const double *)a, (double *)u, (double *)values, (double *)vt,
           (double *)work);
}

void anf_rt_lu(anf_stream *s, uint64_t m, uint64_t n, void *a, void *lu, void *pivots, void *rows) {
  (void)s;
  anfi_lu((size_t)m, (size_t)n, (const double *)a, (double *)lu, (double *)pivots, (double *)rows);
}

void anf_rt_householder(anf_stream *s, uint64_t m, uint64_t n, void *a, void *h, void *tau,
                        void *work) {
  (void)s;
  anfi_householder((size_t)m, (size_t)n, (const double *)a, (double *)h, (double *)tau,
                   (double *)work);
}
