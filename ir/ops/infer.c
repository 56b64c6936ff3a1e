// SPDX-License-Identifier: Apache-2.0
/* Inference: types of arguments -> type of the result, by the hook of the op's row; and helpers of hooks.
 *
 *     Add: f32[4,1] f64[3]  ->  f64[4,3]       dtypes promote, shapes broadcast from the right
 *
 * A dim below 0 is a symbol or unknown; whether two such dims agree is checked when the program runs. */
#include "ir/ops/op.h"
#include "ir/value/scalar.h"

/* Is the elementwise code defined for the type that it would be computed in? */
static bool scalar_is_defined(anfi_infer *q) {
  const anfi_scalar *code = anfi_scalar_of(q->cx, q->op);
  if (!code || !anfi_is_tensor(q->out)) return code != NULL;
  anf_dtype d = anfi_scalar_dtype(q->n, q->in, q->out);
  return (code->domain & anfi_scalar_domain(d)) || anfi_infer_bad_dtype(q, d);
}

static bool fits_memory(const anfi_infer *q) {
  const anf_type *t = q->out;
  uint64_t bytes = anf_dtype_bytes((anf_dtype)t->dtype);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] == 0) return true;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->dims[i] < 0) continue;
    if (bytes > ANFI_MAX_BYTES / (uint64_t)t->dims[i])
      return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, anfi_type_text(q->cx, t));
    bytes *= (uint64_t)t->dims[i];
  }
  return true;
}

/* ---- numbers without a type ---- */

/* Arguments [from, to) become elements of type d. */
void anfi_infer_meet(anfi_infer *q, size_t from, size_t to, anf_dtype d) {
  q->meet[0] = from;
  q->meet[1] = to;
  q->takes = d;
}

/* Elementwise code says itself in which type it computes: quotients in f64, comparisons in one that holds both. */
static void settle_taken(anfi_infer *q) {
  if (q->meet[1] && anfi_op[q->op].scalar && anfi_is_tensor(q->out))
    q->takes = q->out->dtype == ANF_BOOL ? ANF_INT : anfi_scalar_dtype(q->n, q->in, q->out);
  if (!anfi_dtype_is_int(q->takes) || anfi_dtype_holds(q->takes, INT64_MIN, INT64_MAX))
    anfi_infer_meet(q, 0, 0, ANF_INT);
}

bool anfi_infer_holds(const anfi_infer *q, size_t i, const anf_value *v) {
  bool met = i >= q->meet[0] && i < q->meet[1];
  if (!met || !anfi_is_tensor(q->in[i]) || q->in[i]->dtype != ANF_INT) return true;
  for (size_t k = 0; v && k < v->n; k++)
    if (!anfi_dtype_holds(q->takes, anfi_get_i64(v, k), anfi_get_i64(v, k))) return false;
  return v != NULL;
}

bool anfi_infer_outside(const anfi_infer *q) {
  anfi_fail(q->cx, q->loc, ANF_E0561, anf_dtype_name(q->takes));
  anfi_hint(q->cx, "%s computes in %s here; i64(x) makes it compute in i64", anfi_op[q->op].name,
            anf_dtype_name(q->takes));
  return false;
}

bool anfi_infer_op(anfi_infer *q) {
  const anfi_op_info *op = &anfi_op[q->op];
  q->out = NULL;
  anfi_infer_meet(q, 0, 0, ANF_INT);
  for (uint32_t k = 0; k < anfi_op_schema(q->cx, q->op)->nattr; k++)
    if (!q->attr[k]) return anfi_infer_any(q); // given by a node whose value is not known yet
  if (!op->infer(q) || !q->out) return false;
  settle_taken(q);
  if (op->scalar && !scalar_is_defined(q)) return false;
  return !anfi_is_tensor(q->out) || fits_memory(q);
}

/* ---- errors ---- */

bool anfi_infer_fail(const anfi_infer *q, const char *why) {
  return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, why);
}

bool anfi_infer_no_tensor(const anfi_infer *q, size_t i) {
  if (q->in[i]->functions)
    return anfi_fail(q->cx, q->loc, ANF_E0525, anfi_op[q->op].name,
                     anfi_type_text(q->cx, q->in[i]));
  anfi_fail(q->cx, q->loc, ANF_E0502, i + 1, anfi_op[q->op].name, anfi_type_text(q->cx, q->in[i]));
  if (q->op == ANF_OP_Add && q->in[i]->kind == ANF_TYPE_TUPLE)
    anfi_hint(q->cx, "tuples are joined by TupleConcat(a, b)");
  if (anfi_op_schema(q->cx, q->op)->variadic && i == 0 && q->in[i]->kind == ANF_TYPE_TUPLE)
    anfi_hint(q->cx, "the tensors are arguments of their own: %s(a, b)", anfi_op[q->op].name);
  if (q->op == ANF_OP_IndexWrite && i == 1 && q->in[i]->kind == ANF_TYPE_TUPLE)
    anfi_hint(q->cx, "x[i, j] is written by ScatterNd(x, Stack(i, j), v)");
  return false;
}

bool anfi_infer_bad_dtype(const anfi_infer *q, anf_dtype d) {
  return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
}

bool anfi_infer_bad_axis(const anfi_infer *q, int64_t axis, size_t rank) {
  return anfi_fail(q->cx, q->loc, ANF_E0540, (long long)axis, anfi_op[q->op].name, rank);
}

bool anfi_infer_bad_size(const anfi_infer *q, int64_t size) {
  return anfi_fail(q->cx, q->loc, ANF_E0548, (long long)size, anfi_op[q->op].name);
}

bool anfi_infer_bad_count(const anfi_infer *q, size_t rank) {
  return anfi_fail(q->cx, q->loc, ANF_E0547, anfi_op[q->op].name, rank);
}

bool anfi_infer_high_rank(const anfi_infer *q) {
  return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, "its rank is above 16");
}

bool anfi_infer_want(const anfi_infer *q, size_t i, const char *type) {
  return anfi_fail(q->cx, q->loc, ANF_E0546, i + 1, anfi_op[q->op].name, type,
                   anfi_type_text(q->cx, q->in[i]));
}

bool anfi_infer_mismatch(const anfi_infer *q, const anf_type *a, const anf_type *b) {
  return anfi_fail(q->cx, q->loc, ANF_E0544, anfi_op[q->op].name, anfi_type_text(q->cx, a),
                   anfi_type_text(q->cx, b));
}

bool anfi_infer_no_broadcast(const anfi_infer *q, const anf_type *a, const anf_type *b) {
  return anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, anfi_type_text(q->cx, a),
                   anfi_type_text(q->cx, b));
}

/* ---- dims ---- */

bool anfi_infer_agree(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out) {
  if (a == b || b == 1) *out = a;
  else if (a == 1) *out = b;
  else if (a >= 0 && b >= 0) return false;
  else *out = a >= 0 ? a : b >= 0 ? b : ANF_DIM_UNKNOWN; // checked when the program runs
  return true;
}

int64_t anfi_dims_add(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return ANF_DIM_UNKNOWN;
  return a > INT64_MAX - b ? INT64_MAX : a + b;
}

int64_t anfi_dims_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return ANF_DIM_UNKNOWN;
  return a > INT64_MAX / b ? INT64_MAX : a * b;
}

int64_t anfi_dims_elements(const anf_type *t, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t k = from; k < to; k++)
    if (t->dims[k] == 0) return 0;
  for (size_t k = from; k < to; k++) n = anfi_dims_mul(n, t->dims[k]);
  return n;
}

/* ---- arguments ---- */

bool anfi_infer_tensors(anfi_infer *q) {
  for (size_t i = 0; i < q->n; i++)
    if (!anfi_is_tensor(q->in[i])) return anfi_infer_no_tensor(q, i);
  return true;
}

bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d) {
  if (!anfi_infer_tensors(q)) return false;
  *d = (anf_dtype)q->in[0]->dtype;
  for (size_t i = 1; i < q->n; i++)
    if (!anfi_dtype_promote(*d, (anf_dtype)q->in[i]->dtype, d))
      return anfi_infer_fail(q, "random keys take no part in arithmetic");
  anfi_infer_meet(q, 0, q->n, *d);
  return true;
}

bool anfi_infer_real(const anfi_infer *q, size_t from, size_t to, anf_dtype *out) {
  bool first = true;
  for (size_t k = from; k < to; k++) {
    bool required = k < anfi_op_schema(q->cx, q->op)->min_in;
    if (!required && !anfi_infer_given(q, k)) continue;
    if (!anfi_is_tensor(q->in[k])) return anfi_infer_no_tensor(q, k);
    anf_dtype d = (anf_dtype)q->in[k]->dtype;
    if (anfi_dtype_class(d) > ANFI_CLASS_FLOAT) return anfi_infer_bad_dtype(q, d);
    if (first) *out = d;
    else anfi_dtype_promote(*out, d, out);
    first = false;
  }
  if (!anfi_dtype_is_float(*out)) *out = *out == ANF_INT ? ANF_FLOAT : ANF_F64;
  return true;
}

/* The argument, if given, must have exactly these dims. */
bool anfi_infer_shape_is(const anfi_infer *q, size_t i, size_t rank, const int64_t *dims) {
  if (!anfi_infer_given(q, i)) return true;
  const anf_type *t = q->in[i];
  bool fits = t->n == rank;
  for (size_t k = 0; fits && k < rank; k++) fits = anfi_infer_agree(t->dims[k], dims[k]);
  if (fits) return true;
  const anf_type *want = anfi_type_tensor(q->cx, (anf_dtype)t->dtype, rank, dims);
  anfi_infer_want(q, i, anfi_type_text(q->cx, want));
  if (q->op == ANF_OP_IndexWrite && i == 2 && q->attr[0]->kind == ANF_VALUE_NONE)
    anfi_hint(q->cx, "a row is written with its axis: IndexWrite(x, i, row, axis=0)");
  return false;
}

bool anfi_infer_indices(const anfi_infer *q, size_t i) {
  if (anfi_dtype_is_int((anf_dtype)q->in[i]->dtype)) return true;
  anfi_infer_want(q, i, "integers");
  if (q->op == ANF_OP_Take && q->in[i]->dtype == ANF_BOOL)
    anfi_hint(q->cx,
              "how many are true is not known before it runs; Where(mask, x, 0.0) keeps the shape");
  return false;
}

/* A write keeps the type of x: the update must not need a wider class. */
bool anfi_infer_writable(anfi_infer *q, size_t i) {
  anf_dtype x = (anf_dtype)q->in[0]->dtype, u = (anf_dtype)q->in[i]->dtype;
  bool keys = x == ANF_KEY || u == ANF_KEY;
  anfi_infer_meet(q, i, i + 1, x);
  if (keys ? x == u
           : anfi_dtype_class(u) <= anfi_dtype_class(x) ||
                 (anfi_dtype_is_int(x) && anfi_dtype_is_int(u)))
    return true;
  return anfi_infer_want(q, i, anf_dtype_name(x));
}

bool anfi_infer_shape_attr(const anfi_infer *q, const anf_value *v, size_t *rank, int64_t *dims) {
  *rank = anfi_attr_ints(v, ANF_MAX_RANK, dims);
  if (*rank > ANF_MAX_RANK) return anfi_infer_high_rank(q);
  for (size_t k = 0; k < *rank; k++)
    if (dims[k] < 0) return anfi_infer_fail(q, "a dim must not be negative");
  return true;
}

bool anfi_infer_number_attr(const anfi_infer *q, const anf_value *v) {
  bool good = v->kind == ANF_VALUE_TENSOR && v->type->n == 0 && v->type->dtype != ANF_KEY;
  return good || anfi_infer_fail(q, "an attribute must be a number");
}

/* ---- results ---- */

bool anfi_infer_is(anfi_infer *q, const anf_type *t) {
  q->out = t;
  return true;
}

bool anfi_infer_result(anfi_infer *q, anf_dtype d, size_t rank, const int64_t *dims) {
  if (rank > ANF_MAX_RANK) return anfi_infer_high_rank(q);
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank, dims));
}

bool anfi_infer_broadcast(anfi_infer *q, anf_dtype d) {
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i]->n > rank) rank = q->in[i]->n;
  for (size_t k = 0; k < rank; k++) dims[k] = 1;
  for (size_t i = 0; i < q->n; i++)
    for (size_t k = 0; k < q->in[i]->n; k++) {
      int64_t *to = &dims[rank - q->in[i]->n + k];
      if (!anfi_infer_dim(*to, q->in[i]->dims[k], to))
        return anfi_infer_no_broadcast(q, q->in[0], q->in[i]);
    }
  return anfi_infer_is(q, anfi_type_tensor(q->cx, d, rank, dims));
}

bool anfi_infer_any(anfi_infer *q) {
  return anfi_infer_is(q, anfi_type_simple(q->cx, ANF_TYPE_ANY));
}

bool anfi_infer_same(anfi_infer *q) { return anfi_infer_is(q, q->in[0]); }

bool anfi_infer_none(anfi_infer *q) {
  return anfi_infer_is(q, anfi_type_simple(q->cx, ANF_TYPE_NONE));
}
