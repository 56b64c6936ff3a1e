// SPDX-License-Identifier: Apache-2.0
/* Result types: the driver, elementwise families, and ops on tuples and functions. */
#include "ir/ops/op.h"
#include "ir/scalar.h"

static const char *show(const anfi_infer *q, const anf_type *t);

/* Is the elementwise code defined for the type that it would be computed in? */
static bool scalar_is_defined(anfi_infer *q) {
  const anfi_scalar *code = anfi_scalar_of(q->cx, q->op);
  if (!code || !anfi_is_tensor(q->out)) return code != NULL;
  anf_dtype d = anfi_scalar_dtype(q->n, q->in, q->out);
  return (code->domain & anfi_scalar_domain(d)) ||
         anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
}

static bool fits_memory(const anfi_infer *q) {
  const anf_type *t = q->out;
  uint64_t bytes = anf_dtype_bytes((anf_dtype)t->dtype);
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] == 0) return true;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->dims[i] < 0) continue;
    if (bytes > ANFI_MAX_BYTES / (uint64_t)t->dims[i])
      return anfi_fail(q->cx, q->loc, ANF_E0507, anfi_op[q->op].name, show(q, t));
    bytes *= (uint64_t)t->dims[i];
  }
  return true;
}

bool anfi_infer_op(anfi_infer *q) {
  const anfi_op_info *op = &anfi_op[q->op];
  q->out = NULL;
  for (uint32_t k = 0; k < anfi_op_schema(q->cx, q->op)->nattr; k++)
    if (!q->attr[k]) return anfi_infer_any(q); // given by a node whose value is not known yet
  if (!op->infer(q) || !q->out) return false;
  if (op->scalar && !scalar_is_defined(q)) return false;
  return !anfi_is_tensor(q->out) || fits_memory(q);
}

bool anfi_infer_fail(const anfi_infer *q, const char *why) {
  return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, why);
}

static const char *show(const anfi_infer *q, const anf_type *t) { return anfi_type_text(q->cx, t); }

bool anfi_infer_tensors(anfi_infer *q) {
  for (size_t i = 0; i < q->n; i++)
    if (!anfi_is_tensor(q->in[i]))
      return anfi_fail(q->cx, q->loc, ANF_E0502, i + 1, anfi_op[q->op].name, show(q, q->in[i]));
  return true;
}

bool anfi_infer_dim(int64_t a, int64_t b, int64_t *out) {
  if (a == b || b == 1) *out = a;
  else if (a == 1) *out = b;
  else if (a >= 0 && b >= 0) return false;
  else *out = a >= 0 ? a : b >= 0 ? b : ANF_DIM_UNKNOWN; // checked when the program runs
  return true;
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
        return anfi_fail(q->cx, q->loc, ANF_E0503, anfi_op[q->op].name, show(q, q->in[0]),
                         show(q, q->in[i]));
    }
  q->out = anfi_type_tensor(q->cx, d, rank, dims);
  return true;
}

bool anfi_infer_promoted(anfi_infer *q, anf_dtype *d) {
  if (!anfi_infer_tensors(q)) return false;
  *d = (anf_dtype)q->in[0]->dtype;
  for (size_t i = 1; i < q->n; i++)
    if (!anfi_dtype_promote(*d, (anf_dtype)q->in[i]->dtype, d))
      return anfi_infer_fail(q, "random keys take no part in arithmetic");
  return true;
}

bool anfi_infer_arith(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, d);
}

static anf_dtype to_real(anf_dtype d) {
  return anfi_dtype_class(d) >= ANFI_CLASS_FLOAT ? d : d == ANF_INT ? ANF_FLOAT : ANF_F64;
}

bool anfi_infer_divide(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, to_real(d));
}

bool anfi_infer_number(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (d == ANF_BOOL)
    return anfi_fail(q->cx, q->loc, ANF_E0506, anfi_op[q->op].name, anf_dtype_name(d));
  return anfi_infer_broadcast(q, d);
}

bool anfi_infer_abs(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  return anfi_infer_broadcast(q, d == ANF_C64 ? ANF_F32 : d == ANF_C128 ? ANF_F64 : d);
}

bool anfi_infer_make_complex(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_promoted(q, &d)) return false;
  if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX)
    return anfi_infer_fail(q, "the parts must be real");
  bool narrow = d == ANF_F32 || d == ANF_F16 || d == ANF_BF16;
  return anfi_infer_broadcast(q, narrow ? ANF_C64 : ANF_C128);
}

bool anfi_infer_where(anfi_infer *q) {
  anf_dtype d;
  if (!anfi_infer_tensors(q)) return false;
  if (q->in[0]->dtype != ANF_BOOL) return anfi_infer_fail(q, "the condition must be a bool");
  if (!anfi_dtype_promote((anf_dtype)q->in[1]->dtype, (anf_dtype)q->in[2]->dtype, &d))
    return anfi_infer_fail(q, "random keys take no part in arithmetic");
  return anfi_infer_broadcast(q, d);
}

bool anfi_infer_compare(anfi_infer *q) {
  anf_dtype d;
  return anfi_infer_promoted(q, &d) && anfi_infer_broadcast(q, ANF_BOOL);
}

bool anfi_infer_any(anfi_infer *q) {
  q->out = anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_switch(anfi_infer *q) {
  if (!anfi_is_scalar(q->in[0])) return anfi_infer_fail(q, "the condition must be a bool");
  q->out = q->in[1] == q->in[2] ? q->in[1] : anfi_type_simple(q->cx, ANF_TYPE_ANY);
  return true;
}

bool anfi_infer_tuple(anfi_infer *q) {
  q->out = anfi_type_tuple(q->cx, q->n, q->in);
  return true;
}

bool anfi_infer_tuple_get(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t i = 0;
  anfi_value_is_int(q->attr[0], &i);
  if (t->kind == ANF_TYPE_ANY) return anfi_infer_any(q);
  if (t->kind != ANF_TYPE_TUPLE) return anfi_fail(q->cx, q->loc, ANF_E0504, show(q, t));
  if (i < 0) i += t->n;
  if (i < 0 || i >= (int64_t)t->n)
    return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i, show(q, t));
  q->out = t->items[i];
  return true;
}
