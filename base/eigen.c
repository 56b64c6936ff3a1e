// SPDX-License-Identifier: Apache-2.0
/* Eigenvalues of symmetric matrices and singular values, in double; the interpreter and compiled code call the same functions, so
 * that vectors of equal values are the same in both.
 *   [[2, 1], [1, 2]]   ->   1, 3   and   [-r, r], [r, r],  r = sqrt(1/2)
 * Reflections make the matrix tridiagonal, or bidiagonal (Golub and Van Loan, 8.3 and 5.4), and rotations make that diagonal (QL with
 * Wilkinson's shift; Golub and Kahan's QR, cut into cases as LINPACK does). Vectors are rows while they are rotated, and rotations
 * are collected and applied to a strip of eight columns at a time, which stays in the cache. A matrix is scaled by a power of two
 * first, so no square overflows or vanishes. Rows begin at multiples of eight, but not of sixteen, places: a strip of rows whose
 * distance is a power of two would have few places in the cache. */
#include "base/base.h"

#include <math.h>

enum { STRIP = 8, ROUNDS = 60 }; // ROUNDS: for a value at most; a few are usual

static size_t wide(size_t n) { return ((n + STRIP - 1) / STRIP | 1) * STRIP; }

/* ---- rows ---- */

/* y += f x for the strips that have elements below n; what is beyond n is written too. */
static void add_row(size_t n, double f, const double *x, double *y) {
  for (size_t k = 0; k < n; k += STRIP)
    for (size_t i = 0; i < STRIP; i++) y[k + i] += f * x[k + i];
}

static double dot(size_t n, const double *x, const double *y) {
  double part[STRIP] = {0}, sum = 0;
  size_t whole = n - n % STRIP;
  for (size_t k = 0; k < whole; k += STRIP)
    for (size_t i = 0; i < STRIP; i++) part[i] += x[k + i] * y[k + i];
  for (size_t k = whole; k < n; k++) sum += x[k] * y[k];
  for (size_t i = 0; i < STRIP; i++) sum += part[i];
  return sum;
}

static void clear(double *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = 0;
}

/* The exponent of the greatest element; false if one is NaN or infinite. All zero: 0. */
static bool exponent_of(size_t n, const double *a, int *e) {
  double most = 0;
  *e = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(a[i])) return false;
    if (fabs(a[i]) > most) most = fabs(a[i]);
  }
  if (most > 0) frexp(most, e);
  return true;
}

static void all_nan(double *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = (double)NAN;
}

/* Makes of x the vector u with (I - u u' / h) x = (alpha, 0, ..): gives h, 0 if x is so already. The element that remains is x[at], and
 * h is u'u / 2. Elements are 1 at most. */
static double reflector(size_t n, double *x, size_t at, double *alpha) {
  double most = 0;
  for (size_t i = 0; i < n; i++)
    if (i != at && fabs(x[i]) > most) most = fabs(x[i]);
  *alpha = x[at];
  if (most == 0) return 0;
  if (fabs(x[at]) > most) most = fabs(x[at]);
  double scale = 1 / most, square = 0;
  if (!isfinite(scale)) return 0; // below the smallest normal number: nothing beside 1
  for (size_t i = 0; i < n; i++) {
    x[i] *= scale;
    square += x[i] * x[i];
  }
  double size = x[at] < 0 ? -sqrt(square) : sqrt(square), h = square + fabs(x[at] * size);
  x[at] += size;
  *alpha = -size * most;
  return h;
}

/* ---- rotations ---- */

typedef struct rotations { // of rows i and j: row i becomes c i + s j, row j becomes c j - s i
  double *list;            // i j c s
  size_t n, room;
  double *rows; // that they are applied to, ld apart, and how many columns count
  size_t columns, ld;
} rotations;

static void apply(rotations *r) {
  for (size_t k = 0; k < r->columns; k += STRIP)
    for (size_t t = 0; t < r->n; t++) {
      const double *q = r->list + 4 * t, c = q[2], s = q[3];
      double *x = r->rows + (size_t)q[0] * r->ld + k, *y = r->rows + (size_t)q[1] * r->ld + k;
      for (size_t i = 0; i < STRIP; i++) {
        double a = x[i], b = y[i];
        x[i] = c * a + s * b;
        y[i] = c * b - s * a;
      }
    }
  r->n = 0;
}

static void rotate(rotations *r, size_t i, size_t j, double c, double s) {
  double *q = r->list + 4 * r->n++;
  q[0] = (double)i, q[1] = (double)j, q[2] = c, q[3] = s;
  if (r->n == r->room) apply(r);
}

static size_t rotation_room(size_t n) { return 8 * n + 8; }

/* ---- symmetric matrices ---- */

size_t anfi_eigh_work(size_t n) {
  return 2 * n * wide(n) + 2 * n + 3 * wide(n) + 4 * rotation_room(n);
}

/* Row i of the reflections' vectors is in a[i][0..i); h[i] of the one that made row i zero but for the last. */
static void tridiagonal(size_t n, size_t ld, double *a, double *d, double *e, double *h, double *u,
                        double *p) {
  for (size_t i = n; i-- > 0;) {
    double *row = a + i * ld;
    d[i] = row[i];
    e[i] = h[i] = 0;
    if (i == 0) break;
    h[i] = reflector(i, row, i - 1, &e[i]);
    if (h[i] == 0) continue;
    clear(u, ld), clear(p, ld);
    memcpy(u, row, i * sizeof *u);
    for (size_t j = 0; j < i; j++) add_row(i, u[j] / h[i], a + j * ld, p);
    clear(p + i, ld - i);
    double k = dot(i, u, p) / (2 * h[i]);
    for (size_t j = 0; j < i; j++) p[j] -= k * u[j];
    for (size_t j = 0; j < i; j++) {
      add_row(i, -u[j], p, a + j * ld);
      add_row(i, -p[j], u, a + j * ld);
    }
  }
}

/* z becomes the product of the reflections, each of which changes the block before its row. */
static void tridiagonal_vectors(size_t n, size_t ld, const double *a, const double *h, double *z,
                                double *u, double *p) {
  clear(z, n * ld);
  for (size_t i = 0; i < n; i++) z[i * ld + i] = 1;
  for (size_t i = 1; i < n; i++) {
    if (h[i] == 0) continue;
    clear(u, ld), clear(p, ld);
    memcpy(u, a + i * ld, i * sizeof *u);
    for (size_t j = 0; j < i; j++) add_row(i, u[j] / h[i], z + j * ld, p);
    clear(p + i, ld - i);
    for (size_t j = 0; j < i; j++) add_row(i, -u[j], p, z + j * ld);
  }
}

static void transpose_square(size_t n, size_t ld, double *z) {
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++) {
      double t = z[i * ld + j];
      z[i * ld + j] = z[j * ld + i];
      z[j * ld + i] = t;
    }
}

/* One sweep of QL over l..m with a shift; e[i] is beside d[i] and d[i + 1]. */
static void ql_sweep(size_t l, size_t m, double *d, double *e, rotations *r) {
  double g = (d[l + 1] - d[l]) / (2 * e[l]), size = hypot(g, 1), s = 1, c = 1, p = 0;
  g = d[m] - d[l] + e[l] / (g + (g < 0 ? -size : size));
  for (size_t i = m; i-- > l;) {
    double f = s * e[i], b = c * e[i];
    e[i + 1] = size = hypot(f, g);
    if (size == 0) {
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / size, c = g / size;
    g = d[i + 1] - p;
    size = (d[i] - g) * s + 2 * c * b;
    p = s * size;
    d[i + 1] = g + p;
    g = c * size - b;
    rotate(r, i + 1, i, c, s);
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

static bool ql(size_t n, double *d, double *e, rotations *r) {
  const double eps = 0x1p-53;
  for (size_t i = 1; i < n; i++) e[i - 1] = e[i];
  if (n) e[n - 1] = 0;
  for (size_t l = 0; l < n; l++)
    for (int round = 0;; round++) {
      size_t m = l;
      while (m + 1 < n && fabs(e[m]) > eps * (fabs(d[m]) + fabs(d[m + 1]))) m++;
      if (m == l) break;
      if (round == ROUNDS) return false;
      ql_sweep(l, m, d, e, r);
    }
  apply(r);
  return true;
}

/* `order` receives the numbers 0.. of the values, ascending or descending: insertion by halves of gaps (Shell). */
static void order_of(size_t n, const double *w, double *order, bool descending) {
  for (size_t i = 0; i < n; i++) order[i] = (double)i;
  for (size_t gap = n / 2; gap > 0; gap /= 2)
    for (size_t i = gap; i < n; i++) {
      double t = order[i], x = w[(size_t)t];
      size_t j = i;
      for (; j >= gap; j -= gap) {
        double o = order[j - gap], y = w[(size_t)o];
        if (descending ? (y > x || (y == x && o < t)) : (y < x || (y == x && o < t))) break;
        order[j] = o;
      }
      order[j] = t;
    }
}

/* -1 if the greatest component is negative. */
static double sign_of(size_t n, const double *x) {
  size_t at = 0;
  for (size_t i = 1; i < n; i++)
    if (fabs(x[i]) > fabs(x[at])) at = i;
  return x[at] < 0 ? -1 : 1;
}

void anfi_eigh(size_t n, const double *a, double *w, double *v, double *work) {
  size_t ld = wide(n);
  double *x = work, *z = x + n * ld, *d = z + n * ld, *e = d + n, *h = e + n, *u = h + ld,
         *p = u + ld;
  rotations r = {.list = p + ld, .room = rotation_room(n), .rows = z, .columns = n, .ld = ld};
  int power = 0;
  bool good = exponent_of(n * n, a, &power);
  clear(x, n * ld);
  for (size_t i = 0; good && i < n; i++)
    for (size_t j = 0; j < n; j++)
      x[i * ld + j] =
          ldexp(a[i * n + j], -power - 1) + ldexp(a[j * n + i], -power - 1); // at most 1
  if (good) {
    tridiagonal(n, ld, x, d, e, h, u, p);
    tridiagonal_vectors(n, ld, x, h, z, u, p);
    transpose_square(n, ld, z);
    good = ql(n, d, e, &r);
  }
  if (!good) {
    all_nan(w, n), all_nan(v, n * n);
    return;
  }
  order_of(n, d, e, false);
  for (size_t k = 0; k < n; k++) {
    const double *from = z + (size_t)e[k] * ld, sign = sign_of(n, from);
    w[k] = ldexp(d[(size_t)e[k]], power);
    for (size_t i = 0; i < n; i++) v[i * n + k] = sign * from[i];
  }
}

/* ---- singular values: of a matrix of m rows and n columns, m >= n ---- */

size_t anfi_svd_work(size_t m, size_t n) {
  size_t t = m < n ? n : m, k = m < n ? m : n;
  return 2 * t * wide(k) + k * wide(t) + 2 * k * wide(k) + 5 * wide(k) + 8 * rotation_room(k);
}

typedef struct bidiagonal {
  size_t m, n, ld, ldm;     // ld: of rows of n elements
  double *a;                // [m, ld]
  double *s, *e;            // the diagonal and the superdiagonal
  double *left, *right;     // vectors of the reflections: [n, ldm], [n, ld]
  double *h, *g;            // and what they are divided by
  double *sum;              // scratch
  double *q, *ut, *vt, *vq; // [m, ld], [n, ldm], [n, ld], [n, ld]
} bidiagonal;

static void reflect_column(bidiagonal *b, size_t k) {
  double *u = b->left + k * b->ldm, *p = b->sum;
  size_t n = b->m - k;
  clear(u, b->ldm);
  for (size_t i = 0; i < n; i++) u[i] = b->a[(k + i) * b->ld + k];
  b->h[k] = reflector(n, u, 0, &b->s[k]);
  if (b->h[k] == 0) return;
  size_t from = (k + 1) / STRIP *
                STRIP; // strips with columns after k; k itself and those before are not read again
  if (k + 1 >= b->n) return;
  clear(p, b->ld);
  for (size_t i = 0; i < n; i++)
    add_row(b->n - from, u[i] / b->h[k], b->a + (k + i) * b->ld + from, p + from);
  for (size_t i = 0; i < n; i++)
    add_row(b->n - from, -u[i], p + from, b->a + (k + i) * b->ld + from);
}

static void reflect_row(bidiagonal *b, size_t k) {
  double *u = b->right + k * b->ld;
  size_t n = b->n - k - 1, from = (k + 1) / STRIP * STRIP;
  clear(u, b->ld);
  memcpy(u + k + 1, b->a + k * b->ld + k + 1, n * sizeof *u);
  b->g[k] = reflector(n, u + k + 1, 0, &b->e[k]);
  if (b->g[k] == 0) return;
  for (size_t i = k + 1; i < b->m; i++) {
    double *row = b->a + i * b->ld;
    double f = dot(b->n - from, row + from, u + from) / b->g[k]; // u is 0 up to k
    add_row(b->n - from, -f, u + from, row + from);
  }
}

/* q: the product of the reflections of columns, its first n columns; vq: that of the reflections of rows. */
static void bidiagonal_vectors(bidiagonal *b) {
  clear(b->q, b->m * b->ld), clear(b->vq, b->n * b->ld);
  for (size_t k = 0; k < b->n; k++) b->q[k * b->ld + k] = b->vq[k * b->ld + k] = 1;
  for (size_t k = b->n; k-- > 0;) {
    const double *u = b->left + k * b->ldm, *v = b->right + k * b->ld;
    size_t from = k / STRIP * STRIP, n = b->n - from;
    clear(b->sum, b->ld);
    for (size_t i = k; b->h[k] != 0 && i < b->m; i++)
      add_row(n, u[i - k] / b->h[k], b->q + i * b->ld + from, b->sum + from);
    for (size_t i = k; b->h[k] != 0 && i < b->m; i++)
      add_row(n, -u[i - k], b->sum + from, b->q + i * b->ld + from);
    clear(b->sum, b->ld);
    for (size_t i = k + 1; b->g[k] != 0 && i < b->n; i++)
      add_row(n, v[i] / b->g[k], b->vq + i * b->ld + from, b->sum + from);
    for (size_t i = k + 1; b->g[k] != 0 && i < b->n; i++)
      add_row(n, -v[i], b->sum + from, b->vq + i * b->ld + from);
  }
}

static void transposed(size_t m, size_t n, const double *x, size_t ldx, double *y, size_t ldy) {
  clear(y, n * ldy);
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) y[j * ldy + i] = x[i * ldx + j];
}

/* The rotation that makes (f, g) (size, 0). */
static double rotation(double f, double g, double *c, double *s) {
  double size = hypot(f, g);
  *c = size == 0 ? 1 : f / size;
  *s = size == 0 ? 0 : g / size;
  return size;
}

/* s[p - 1] counts as 0: the element right of s[p - 2] is rotated away upwards. */
static void drop_last(const bidiagonal *b, size_t k, size_t p, rotations *right) {
  double *s = b->s, *e = b->e, f = e[p - 2], c, t;
  e[p - 2] = 0;
  for (size_t j = p - 1; j-- > k;) {
    s[j] = rotation(s[j], f, &c, &t);
    if (j > k) f = -t * e[j - 1], e[j - 1] = c * e[j - 1];
    rotate(right, j, p - 1, c, t);
  }
}

/* s[k - 1] counts as 0: the element right of it is rotated away. */
static void split(const bidiagonal *b, size_t k, size_t p, rotations *left) {
  double *s = b->s, *e = b->e, f = e[k - 1], c, t;
  e[k - 1] = 0;
  for (size_t j = k; j < p; j++) {
    s[j] = rotation(s[j], f, &c, &t);
    f = -t * e[j];
    e[j] = c * e[j];
    rotate(left, j, k - 1, c, t);
  }
}

static double shift_of(const double *s, const double *e, size_t k, size_t p, double scale) {
  double sp = s[p - 1] / scale, before = s[p - 2] / scale, ep = e[p - 2] / scale;
  double b = ((before + sp) * (before - sp) + ep * ep) / 2, c = sp * ep * (sp * ep), shift = 0;
  if (b != 0 || c != 0) {
    shift = sqrt(b * b + c);
    shift = c / (b + (b < 0 ? -shift : shift));
  }
  double sk = s[k] / scale;
  return (sk + sp) * (sk - sp) + shift;
}

static double greatest(const double *s, const double *e, size_t k, size_t p) {
  double all[5] = {s[p - 1], s[p - 2], e[p - 2], s[k], e[k]}, most = 0;
  for (size_t i = 0; i < 5; i++)
    if (fabs(all[i]) > most) most = fabs(all[i]);
  return most;
}

static void qr_sweep(const bidiagonal *b, size_t k, size_t p, rotations *left, rotations *right) {
  double *s = b->s, *e = b->e, scale = greatest(s, e, k, p), c, t;
  double f = shift_of(s, e, k, p, scale), g = s[k] / scale * (e[k] / scale);
  for (size_t j = k; j + 1 < p; j++) {
    double size = rotation(f, g, &c, &t);
    if (j > k) e[j - 1] = size;
    f = c * s[j] + t * e[j];
    e[j] = c * e[j] - t * s[j];
    g = t * s[j + 1];
    s[j + 1] = c * s[j + 1];
    rotate(right, j, j + 1, c, t);
    s[j] = rotation(f, g, &c, &t);
    f = c * e[j] + t * s[j + 1];
    s[j + 1] = c * s[j + 1] - t * e[j];
    g = t * e[j + 1];
    e[j + 1] = c * e[j + 1];
    rotate(left, j, j + 1, c, t);
  }
  e[p - 2] = f;
}

/* Of the part that ends before p, where the block that is not diagonal begins; *split_at is 1 + the place of a zero in it, 0: none. */
static size_t block_of(const bidiagonal *b, size_t p, size_t *zero) {
  const double eps = 0x1p-52, tiny = 0x1p-966;
  double *s = b->s, *e = b->e;
  size_t k = p - 1;
  while (k > 0 && fabs(e[k - 1]) > tiny + eps * (fabs(s[k - 1]) + fabs(s[k]))) k--;
  if (k > 0) e[k - 1] = 0;
  *zero = 0;
  for (size_t i = p; k + 1 < p && i-- > k;) {
    double beside = (i + 1 < p ? fabs(e[i]) : 0) + (i > k ? fabs(e[i - 1]) : 0);
    if (fabs(s[i]) > tiny + eps * beside) continue;
    s[i] = 0;
    *zero = i + 1;
    break;
  }
  return k;
}

static bool diagonal(const bidiagonal *b, rotations *left, rotations *right) {
  int round = 0;
  for (size_t p = b->n; p > 0;) {
    size_t zero, k = block_of(b, p, &zero);
    if (k + 1 == p) {
      p--, round = 0;
      continue;
    }
    if (round++ == ROUNDS) return false;
    if (zero == p) drop_last(b, k, p, right);
    else if (zero) split(b, zero, p, left);
    else qr_sweep(b, k, p, left, right);
  }
  apply(left), apply(right);
  return true;
}

static double *take(double **work, size_t n) {
  double *p = *work;
  *work += n;
  return p;
}

/* Memory for a matrix of m rows and n columns, m >= n; gives the rest of the scratch. */
static double *tall(bidiagonal *b, size_t m, size_t n, double *work) {
  size_t ld = wide(n), ldm = wide(m);
  *b = (bidiagonal){.m = m, .n = n, .ld = ld, .ldm = ldm};
  b->a = take(&work, m * ld), b->q = take(&work, m * ld);
  b->left = take(&work, n * ldm), b->ut = b->left; // the vectors are used up before
  b->right = take(&work, n * ld), b->vq = take(&work, n * ld), b->vt = b->right;
  b->s = take(&work, ld), b->e = take(&work, ld), b->h = take(&work, ld), b->g = take(&work, ld);
  b->sum = take(&work, ld);
  return work;
}

static bool decompose(bidiagonal *b, double *lists) {
  size_t room = rotation_room(b->n);
  rotations left = {.list = lists, .room = room, .rows = b->ut, .columns = b->m, .ld = b->ldm};
  rotations right = {
      .list = lists + 4 * room, .room = room, .rows = b->vt, .columns = b->n, .ld = b->ld};
  clear(b->e, b->ld), clear(b->g, b->ld);
  for (size_t k = 0; k < b->n; k++) {
    reflect_column(b, k);
    if (k + 1 < b->n) reflect_row(b, k);
    else clear(b->right + k * b->ld, b->ld);
  }
  bidiagonal_vectors(b);
  transposed(b->m, b->n, b->q, b->ld, b->ut, b->ldm);
  transposed(b->n, b->n, b->vq, b->ld, b->vt, b->ld);
  return diagonal(b, &left, &right);
}

void anfi_svd(size_t m, size_t n, const double *a, double *u, double *s, double *vt, double *work) {
  bool flat = m < n;
  size_t t = flat ? n : m, k = flat ? m : n;
  bidiagonal b;
  int power = 0;
  bool good = exponent_of(m * n, a, &power);
  double *lists = tall(&b, t, k, work);
  clear(b.a, t * b.ld);
  for (size_t i = 0; good && i < m; i++)
    for (size_t j = 0; j < n; j++)
      b.a[flat ? j * b.ld + i : i * b.ld + j] = ldexp(a[i * n + j], -power);
  if (!good || !decompose(&b, lists)) {
    all_nan(u, m * k), all_nan(s, k), all_nan(vt, k * n);
    return;
  }
  for (size_t i = 0; i < k; i++)
    if (b.s[i] < 0) { // as -s and the vector of the other side
      b.s[i] = -b.s[i];
      for (size_t j = 0; j < k; j++) b.vt[i * b.ld + j] = -b.vt[i * b.ld + j];
    }
  order_of(k, b.s, b.e, true);
  for (size_t i = 0; i < k; i++) {
    size_t at = (size_t)b.e[i];
    const double *x = flat ? b.vt + at * b.ld : b.ut + at * b.ldm, // row of u'
        *y = flat ? b.ut + at * b.ldm : b.vt + at * b.ld, sign = sign_of(n, y);
    s[i] = ldexp(fabs(b.s[at]), power);
    for (size_t j = 0; j < m; j++) u[j * k + i] = sign * x[j];
    for (size_t j = 0; j < n; j++) vt[i * n + j] = sign * y[j];
  }
}
