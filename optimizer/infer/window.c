// SPDX-License-Identifier: Apache-2.0
/* The static size of a window with computed bounds.
 *   x[k*n : (k+1)*n]                     size n: (k*n + n) - k*n cancels
 * Both bounds are written as sums of products of nodes that are no arithmetic; the difference is a number if
 * all products cancel. */
#include "optimizer/infer/rules.h"

enum { TERMS = 8, FACTORS = 3, NODES = 32, READS = 4 };

typedef struct {
  int64_t times;
  size_t n;
  const anf_node *of[FACTORS]; // by rising id
} term;

typedef struct {
  size_t n;
  term at[TERMS];
} sum;

typedef struct {
  anfi_inference *q;
  const anfi_spec *s;
  int budget; // of nodes to visit, which bounds how deep the walk goes
} reading;

/* Do two nodes that are no arithmetic read the same, such as k[0] and k[0]? */
static bool same_value(const anf_node *a, const anf_node *b) {
  for (int depth = 0; a != b; depth++) {
    bool reads = depth < READS && anfi_is_op(a, ANF_OP_GetItem) && anfi_is_op(b, ANF_OP_GetItem);
    if (!reads || !anfi_attrs_same(a->u.attrs, b->u.attrs) || a->nin != b->nin) return false;
    for (size_t i = 1; i < a->nin; i++)
      if (a->in[i].def != b->in[i].def) return false;
    a = a->in[0].def, b = b->in[0].def;
  }
  return true;
}

static bool same_factors(const term *a, const term *b) {
  if (a->n != b->n) return false;
  for (size_t i = 0; i < a->n; i++)
    if (!same_value(a->of[i], b->of[i])) return false;
  return true;
}

static bool add_term(sum *to, const term *t) {
  size_t k = 0;
  while (k < to->n && !same_factors(&to->at[k], t)) k++;
  if (k == TERMS) return false;
  if (k == to->n) to->at[to->n++] = *t;
  else if (__builtin_add_overflow(to->at[k].times, t->times, &to->at[k].times)) return false;
  if (!to->at[k].times) to->at[k] = to->at[--to->n];
  return true;
}

static bool add_times(sum *to, const sum *a, int64_t times) {
  for (size_t i = 0; i < a->n; i++) {
    term t = a->at[i];
    if (__builtin_mul_overflow(t.times, times, &t.times) || !add_term(to, &t)) return false;
  }
  return true;
}

static bool product_of_terms(const term *a, const term *b, term *out) {
  *out = *a;
  if (a->n + b->n > FACTORS || __builtin_mul_overflow(a->times, b->times, &out->times))
    return false;
  for (size_t i = 0; i < b->n; i++) {
    size_t k = out->n++;
    for (; k && out->of[k - 1]->id > b->of[i]->id; k--) out->of[k] = out->of[k - 1];
    out->of[k] = b->of[i];
  }
  return true;
}

static bool product(const sum *a, const sum *b, sum *out) {
  for (size_t i = 0; i < a->n; i++)
    for (size_t k = 0; k < b->n; k++) {
      term t;
      if (!product_of_terms(&a->at[i], &b->at[k], &t) || !add_term(out, &t)) return false;
    }
  return true;
}

static bool read(reading *r, const anf_node *n, sum *out);

static bool read_operation(reading *r, const anf_node *n, sum *out) {
  sum a = {0}, b = {0};
  if (!read(r, n->in[0].def, &a) || (n->nin == 2 && !read(r, n->in[1].def, &b))) return false;
  if (n->op == ANF_OP_Mul) return product(&a, &b, out);
  return add_times(out, &a, n->op == ANF_OP_Neg ? -1 : 1) &&
         add_times(out, &b, n->op == ANF_OP_Sub ? -1 : 1);
}

static bool is_arithmetic(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Add) || anfi_is_op(n, ANF_OP_Sub) || anfi_is_op(n, ANF_OP_Mul) ||
         anfi_is_op(n, ANF_OP_Neg);
}

/* A node as a sum; false if it is too long. */
static bool read(reading *r, const anf_node *n, sum *out) {
  const anfi_abs *a = anfi_spec_abs(r->q, r->s, n);
  term t = {.times = 1};
  if (--r->budget < 0 || !a || a->kind != ANFI_ABS_DATA) return false;
  if (anfi_abs_int(a, &t.times)) return !t.times || add_term(out, &t);
  if (is_arithmetic(n)) return read_operation(r, n, out);
  t.of[t.n++] = n;
  return add_term(out, &t);
}

int64_t anfi_distance(anfi_inference *q, const anfi_spec *s, const anf_node *from,
                      const anf_node *to) {
  reading r = {q, s, NODES};
  sum a = {0}, b = {0};
  if (!read(&r, to, &b) || !read(&r, from, &a) || !add_times(&b, &a, -1)) return -1;
  if (!b.n) return 0;
  return b.n == 1 && !b.at[0].n ? b.at[0].times : -1;
}
