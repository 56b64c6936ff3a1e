// SPDX-License-Identifier: Apache-2.0
/* The public constructors and accessors of values.
 *   anf_value_f32(cx, 1.5f)     a scalar tensor of type f32;   anf_value_get_f64(v, 0) reads it as 1.5
 * Each is an entry of the library (base/base.h): what fails inside, such as memory, comes back as NULL. */
#include "ir/ir.h"

#include <math.h>

anf_value *anf_value_none(anf_ctx *cx) {
  if (!cx) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_none(cx);
  return (void)anfi_leave(cx), v;
}

anf_value *anf_value_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims,
                            const void *data) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (rank) ANFI_NEED_ELSE(cx, NULL, dims);
  for (size_t i = 0; i < rank; i++)
    if (!dims || dims[i] < 0) return NULL;
  const anf_type *t = anf_type_tensor(cx, d, rank, dims);
  if (!t) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_tensor(cx, t);
  if (data) memcpy(v->data, data, v->n * anf_dtype_bytes(d));
  return (void)anfi_leave(cx), v;
}

#define SCALAR(name, T, dtype)                                                                     \
  anf_value *anf_value_##name(anf_ctx *cx, T v) { return anf_value_tensor(cx, dtype, 0, NULL, &v); }
SCALAR(i8, int8_t, ANF_I8)
SCALAR(i16, int16_t, ANF_I16)
SCALAR(i32, int32_t, ANF_I32)
SCALAR(u8, uint8_t, ANF_U8)
SCALAR(u16, uint16_t, ANF_U16)
SCALAR(u32, uint32_t, ANF_U32)
SCALAR(u64, uint64_t, ANF_U64)
SCALAR(i64, int64_t, ANF_I64)
SCALAR(key, uint64_t, ANF_KEY)
SCALAR(f32, float, ANF_F32)
SCALAR(f64, double, ANF_F64)
SCALAR(int, int64_t, ANF_INT)
SCALAR(float, double, ANF_FLOAT)
#undef SCALAR

anf_value *anf_value_bool(anf_ctx *cx, bool v) {
  return anf_value_tensor(cx, ANF_BOOL, 0, NULL, &(uint8_t){v});
}
anf_value *anf_value_f16(anf_ctx *cx, double v) {
  uint16_t bits = anfi_f64_to_f16(v);
  return anf_value_tensor(cx, ANF_F16, 0, NULL, &bits);
}
anf_value *anf_value_bf16(anf_ctx *cx, double v) {
  uint16_t bits = anfi_f64_to_bf16(v);
  return anf_value_tensor(cx, ANF_BF16, 0, NULL, &bits);
}
anf_value *anf_value_c64(anf_ctx *cx, float re, float im) {
  return anf_value_tensor(cx, ANF_C64, 0, NULL, (float[]){re, im});
}
anf_value *anf_value_c128(anf_ctx *cx, double re, double im) {
  return anf_value_tensor(cx, ANF_C128, 0, NULL, (double[]){re, im});
}

anf_value *anf_value_string(anf_ctx *cx, const char *s, size_t len) {
  ANFI_NEED_ELSE(cx, NULL, cx, s);
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_string(cx, s, len);
  return (void)anfi_leave(cx), v;
}

anf_value *anf_value_of_type(anf_ctx *cx, const anf_type *t) {
  ANFI_NEED_ELSE(cx, NULL, cx, t);
  if (!t) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_type(cx, t);
  return (void)anfi_leave(cx), v;
}

static void fill(anf_value *v, anf_value *const *items) {
  for (size_t i = 0; i < v->n; i++) v->u.item[i] = anf_value_retain(items[i]);
}

static bool any_missing(size_t n, anf_value *const *items) {
  for (size_t i = 0; i < n; i++)
    if (!items[i]) return true;
  return false;
}

anf_value *anf_value_tuple(anf_ctx *cx, size_t n, anf_value *const *items) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (n) ANFI_NEED_ELSE(cx, NULL, items);
  if (any_missing(n, items)) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_tuple(cx, n);
  fill(v, items);
  return (void)anfi_leave(cx), v;
}

static const anf_type *record_type(anf_ctx *cx, size_t n, const char *const *names,
                                   anf_value *const *items) {
  const anf_type **t = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, n);
  for (size_t i = 0; i < n; i++) t[i] = anfi_value_type(cx, items[i]);
  return anf_type_record(cx, n, names, t);
}

static anf_value *new_record(anf_ctx *cx, size_t n, const char *const *names,
                             anf_value *const *items) {
  const anf_type *t = record_type(cx, n, names, items);
  if (!t) return NULL;
  anf_value *v = anfi_value_new_record(cx, t);
  fill(v, items);
  return v;
}

anf_value *anf_value_record(anf_ctx *cx, size_t n, const char *const *names,
                            anf_value *const *items) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (n) ANFI_NEED_ELSE(cx, NULL, names);
  if (n) ANFI_NEED_ELSE(cx, NULL, items);
  if (any_missing(n, items)) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = new_record(cx, n, names, items);
  return (void)anfi_leave(cx), v;
}

anf_value *anf_value_shape(anf_ctx *cx, size_t rank, const int64_t *dims) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (rank) ANFI_NEED_ELSE(cx, NULL, dims);
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_value *v = anfi_value_new_ints(cx, rank, dims);
  return (void)anfi_leave(cx), v;
}

anf_value_kind anf_value_get_kind(const anf_value *v) {
  if (!v) return ANF_VALUE_NONE;
  return (anf_value_kind)v->kind;
}
static bool is_tensor(const anf_value *v) { return v && v->kind == ANF_VALUE_TENSOR; }

anf_dtype anf_value_dtype(const anf_value *v) {
  return is_tensor(v) ? (anf_dtype)v->type->dtype : ANF_DTYPE_COUNT;
}
size_t anf_value_rank(const anf_value *v) { return is_tensor(v) ? v->type->n : 0; }
int64_t anf_value_dim(const anf_value *v, size_t i) {
  return is_tensor(v) ? anf_type_dim(v->type, i) : 0;
}
size_t anf_value_elements(const anf_value *v) { return is_tensor(v) ? v->n : 0; }
const void *anf_value_data(const anf_value *v) { return is_tensor(v) ? v->data : NULL; }
size_t anf_value_count(const anf_value *v) {
  return v && (v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD) ? v->n : 0;
}
anf_value *anf_value_at(const anf_value *v, size_t i) {
  return i < anf_value_count(v) ? v->u.item[i] : NULL;
}
static const char *field_name(void *user, size_t i) {
  const anf_value *v = (const anf_value *)user;
  return i < v->n ? anf_type_field(v->type, i) : NULL;
}

anf_value *anf_value_field(const anf_value *v, const char *name) {
  ANFI_NEED_ELSE(v ? v->cx : NULL, NULL, v, name);
  if (v->kind != ANF_VALUE_RECORD) return NULL;
  for (size_t i = 0; i < v->n; i++)
    if (strcmp(anf_type_field(v->type, i), name) == 0) return v->u.item[i];
  anfi_missed(v->cx, "field", name, field_name, (void *)(uintptr_t)v);
  return NULL;
}

const char *anf_value_text(const anf_value *v) {
  return v && v->kind == ANF_VALUE_STRING ? v->u.text : "";
}
double anf_value_get_f64(const anf_value *v, size_t i) {
  return i < anf_value_elements(v) ? anfi_get_f64(v, i) : NAN;
}
int64_t anf_value_get_i64(const anf_value *v, size_t i) {
  return i < anf_value_elements(v) ? anfi_get_i64(v, i) : 0;
}

anf_status anf_value_print(anf_ctx *cx, const anf_value *v, size_t max_items, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : cx, ANF_INVALID, cx, v, out);
  anfi_text_of(out, cx);
  ANFI_ENTRY(cx, NULL);
  anfi_put_value(out, v, max_items);
  return anfi_leave(cx);
}
