// SPDX-License-Identifier: Apache-2.0
/* Types and values.
 *
 * A type is interned in its context: equal types are the same pointer. Everything numeric is a
 * tensor; a scalar is a tensor of rank 0. A value is immutable and counted: functions that return
 * one return a new reference, which anf_value_release gives back.
 *
 * Example:
 *   int64_t dims[] = {2, 3};
 *   float data[] = {1, 2, 3, 4, 5, 6};
 *   anf_value *x = anf_value_tensor(cx, ANF_F32, 2, dims, data);
 *   const anf_type *t = anf_value_type(cx, x);   // f32[2, 3]
 *   anf_value_release(x);
 */
#ifndef ANFORA_TYPES_H
#define ANFORA_TYPES_H

#include "anfora/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, in ir/value/dtype.def order. ANF_INT, ANF_FLOAT and ANF_COMPLEX are weak:
 * the type of a number without one, which takes the other operand's type, else i64, f64 and c128. */
typedef enum anf_dtype {
  ANF_BOOL,
  ANF_I8,
  ANF_I16,
  ANF_I32,
  ANF_I64,
  ANF_U8,
  ANF_U16,
  ANF_U32,
  ANF_U64,
  ANF_F16,
  ANF_BF16,
  ANF_F32,
  ANF_F64,
  ANF_C64,
  ANF_C128,
  ANF_KEY,     // a random key, 8 bytes
  ANF_INT,     // weak i64
  ANF_FLOAT,   // weak f64
  ANF_COMPLEX, // weak c128
  ANF_DTYPE_COUNT
} anf_dtype;

ANF_API const char *anf_dtype_name(anf_dtype d);
ANF_API size_t anf_dtype_bytes(anf_dtype d);

typedef enum anf_type_kind {
  ANF_TYPE_TENSOR, // and every scalar
  ANF_TYPE_TUPLE,
  ANF_TYPE_RECORD,
  ANF_TYPE_FN,
  ANF_TYPE_NONE,
  ANF_TYPE_STRING,
  ANF_TYPE_TYPE,
  ANF_TYPE_BOX,   // data of any type: boxed residuals of recursions
  ANF_TYPE_STACK, // data of one type for each round of a loop
  ANF_TYPE_ANY    // not known; the type of a node before inference is NULL, which prints as nothing
} anf_type_kind;

typedef struct anf_type anf_type;

enum { ANF_MAX_RANK = 16 };
/* A dim that is not known before the program runs; below it: a symbol, see anf_dim_symbol. */
#define ANF_DIM_UNKNOWN INT64_C(-1)

ANF_API const anf_type *anf_type_scalar(anf_ctx *cx, anf_dtype d);
/* NULL if a dim is bad, the rank is above ANF_MAX_RANK or the size overflows. */
ANF_API const anf_type *anf_type_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims);
ANF_API const anf_type *anf_type_tuple(anf_ctx *cx, size_t n, const anf_type *const *items);
/* Field names must differ; their order is part of the type. */
ANF_API const anf_type *anf_type_record(anf_ctx *cx, size_t n, const char *const *names,
                                        const anf_type *const *items);
ANF_API const anf_type *anf_type_fn(anf_ctx *cx, size_t n, const anf_type *const *params,
                                    const anf_type *result);
/* What a declared type of kind ANF_TYPE_ANY asks of a value: a pattern, that many types match. It does not change the
 * value, but that of ANF_PATTERN_RANKS takes numbers without a type to its element type. */
typedef enum anf_pattern {
  ANF_PATTERN_ANY,    // nothing
  ANF_PATTERN_NUMBER, // "number": a number or bool without dims
  ANF_PATTERN_TENSOR, // "tensor": at least one dim, of any element type
  ANF_PATTERN_TUPLE,  // "tuple": of any items
  ANF_PATTERN_RECORD, // "record": of any fields
  ANF_PATTERN_RANKS   // "f32[...]": of this element type, with any dims or none
} anf_pattern;
/* `d` is for ANF_PATTERN_RANKS. */
ANF_API const anf_type *anf_type_pattern(anf_ctx *cx, anf_pattern p, anf_dtype d);
ANF_API anf_pattern anf_type_get_pattern(const anf_type *t);

/* ANF_TYPE_NONE, _STRING, _TYPE, _BOX, _STACK or _ANY. */
ANF_API const anf_type *anf_type_simple(anf_ctx *cx, anf_type_kind kind);

ANF_API anf_type_kind anf_type_get_kind(const anf_type *t);
ANF_API anf_dtype anf_type_dtype(const anf_type *t);       // of a tensor
ANF_API size_t anf_type_rank(const anf_type *t);           // of a tensor
ANF_API int64_t anf_type_dim(const anf_type *t, size_t i); // of a tensor
ANF_API size_t anf_type_count(const anf_type *t);          // items, fields or parameters
ANF_API const anf_type *anf_type_at(const anf_type *t, size_t i);
ANF_API const char *anf_type_field(const anf_type *t, size_t i); // of a record
ANF_API const anf_type *anf_type_result(const anf_type *t);      // of a function
/* "f32[2, 3]", "(i64, fn(f32) -> f32)", "{w: f32[B, 4]}": as in programs. */
ANF_API anf_status anf_type_print(anf_ctx *cx, const anf_type *ANF_NULLABLE t, anf_text *out);

/* The symbolic dim of a name, such as B in f32[B, 4]; the same for equal names. 0 when out of
 * memory. */
ANF_API int64_t anf_dim_symbol(anf_ctx *cx, const char *name);
/* The name of a symbolic dim, or NULL. */
ANF_API const char *anf_dim_name(const anf_ctx *cx, int64_t dim);

typedef enum anf_value_kind {
  ANF_VALUE_NONE,
  ANF_VALUE_TENSOR, // and every scalar
  ANF_VALUE_STRING,
  ANF_VALUE_TUPLE,
  ANF_VALUE_RECORD,
  ANF_VALUE_TYPE,
  ANF_VALUE_FN,   // a graph, a primitive, a closure, or one of them with arguments bound
  ANF_VALUE_BOX,  // of one item
  ANF_VALUE_STACK // of one item for each round of a loop
} anf_value_kind;

typedef struct anf_value anf_value;

/* An array of the host. */
typedef struct anf_array {
  anf_dtype dtype;
  size_t rank;
  const int64_t *dims;
  const int64_t *strides; // in elements; NULL: dense, row-major
  void *data;
} anf_array;

/* All return a new reference, or NULL when out of memory or when an argument is bad. */
ANF_API anf_value *anf_value_none(anf_ctx *cx);
ANF_API anf_value *anf_value_bool(anf_ctx *cx, bool v);
ANF_API anf_value *anf_value_i64(anf_ctx *cx, int64_t v);
ANF_API anf_value *anf_value_f32(anf_ctx *cx, float v);
ANF_API anf_value *anf_value_f64(anf_ctx *cx, double v);
ANF_API anf_value *anf_value_i8(anf_ctx *cx, int8_t v);
ANF_API anf_value *anf_value_i16(anf_ctx *cx, int16_t v);
ANF_API anf_value *anf_value_i32(anf_ctx *cx, int32_t v);
ANF_API anf_value *anf_value_u8(anf_ctx *cx, uint8_t v);
ANF_API anf_value *anf_value_u16(anf_ctx *cx, uint16_t v);
ANF_API anf_value *anf_value_u32(anf_ctx *cx, uint32_t v);
ANF_API anf_value *anf_value_u64(anf_ctx *cx, uint64_t v);
ANF_API anf_value *anf_value_f16(anf_ctx *cx, double v); // rounded to nearest even
ANF_API anf_value *anf_value_bf16(anf_ctx *cx, double v);
ANF_API anf_value *anf_value_c64(anf_ctx *cx, float re, float im);
ANF_API anf_value *anf_value_c128(anf_ctx *cx, double re, double im);
ANF_API anf_value *anf_value_key(anf_ctx *cx, uint64_t bits); // a random key
/* Numbers as a program's text has them: weak until they meet a type. */
ANF_API anf_value *anf_value_int(anf_ctx *cx, int64_t v);
ANF_API anf_value *anf_value_float(anf_ctx *cx, double v);
/* Copies `data`, dense and row-major; NULL data gives zeros. */
ANF_API anf_value *anf_value_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims,
                                    const void *ANF_NULLABLE data);
/* The same of an array of the host, with strides, if it has them. */
ANF_API anf_value *anf_value_array(anf_ctx *cx, const anf_array *a);
/* A tensor whose elements stay in the host's memory, which must be dense and aligned to them, and must not change until
 * release(user) is called: when the last reference is given back, by the thread that does so. Nothing is copied, and compiled
 * code reads the memory where it is. After a failure release is not called. */
ANF_API anf_value *anf_value_wrap(anf_ctx *cx, const anf_array *a,
                                  void (*ANF_NULLABLE release)(void *user),
                                  void *ANF_NULLABLE user);
/* A tensor from a DLManagedTensor (or, `versioned`, a DLManagedTensorVersioned) on the CPU, which is taken if the status is
 * ANF_OK: dense ones are wrapped, their deleter is called with the value's end; others are copied. */
ANF_API anf_status anf_value_from_dlpack(anf_ctx *cx, void *managed, bool versioned, anf_diag *d,
                                         anf_value **out);
/* A tensor lent as a new DLManagedTensorVersioned, which may only be read and holds a reference to the value; or, not
 * `versioned`, copied to a new DLManagedTensor. To be given back by its deleter, a lent one on the context's thread and before
 * the context is freed. NULL when out of memory, or for what DLPack does not have: a random key, a value that is no
 * tensor. */
ANF_API void *anf_value_to_dlpack(const anf_value *v, bool versioned);
ANF_API anf_value *anf_value_string(anf_ctx *cx, const char *s, size_t len);
/* Borrow the items: the tuple takes references of its own. */
ANF_API anf_value *anf_value_tuple(anf_ctx *cx, size_t n, anf_value *const *items);
ANF_API anf_value *anf_value_record(anf_ctx *cx, size_t n, const char *const *names,
                                    anf_value *const *items);
/* A shape, which is a tuple of integers. */
ANF_API anf_value *anf_value_shape(anf_ctx *cx, size_t rank, const int64_t *dims);
ANF_API anf_value *anf_value_of_type(anf_ctx *cx, const anf_type *t);

ANF_API anf_value *anf_value_retain(anf_value *v);
ANF_API void anf_value_release(anf_value *v); // v may be NULL
ANF_API anf_value_kind anf_value_get_kind(const anf_value *v);
/* The type of any value; of a function, fn() with the known parameter types. */
ANF_API const anf_type *anf_value_type(anf_ctx *cx, const anf_value *v);
ANF_API anf_dtype anf_value_dtype(const anf_value *v);         // of a tensor
ANF_API size_t anf_value_rank(const anf_value *v);             // of a tensor
ANF_API int64_t anf_value_dim(const anf_value *v, size_t i);   // of a tensor
ANF_API size_t anf_value_elements(const anf_value *v);         // of a tensor
ANF_API const void *anf_value_data(const anf_value *v);        // of a tensor: dense, row-major
ANF_API size_t anf_value_count(const anf_value *v);            // items of a tuple or record
ANF_API anf_value *anf_value_at(const anf_value *v, size_t i); // borrowed
/* An item of a record by its field's name; borrowed, NULL if there is none. */
ANF_API anf_value *anf_value_field(const anf_value *v, const char *name);
ANF_API const char *anf_value_text(const anf_value *v); // of a string
/* Element i of a real or integer tensor as a double, or as an integer (truncated). */
ANF_API double anf_value_get_f64(const anf_value *v, size_t i);
ANF_API int64_t anf_value_get_i64(const anf_value *v, size_t i);
/* Same kind, type and bits (NaN equals NaN of the same bits); functions by identity. */
ANF_API bool anf_value_same(const anf_value *ANF_NULLABLE a, const anf_value *ANF_NULLABLE b);
/* As in programs: "(4, 5)", "[[1.0, 2.0]]". `max_items` shortens long tensors; 0 prints all. */
ANF_API anf_status anf_value_print(anf_ctx *cx, const anf_value *v, size_t max_items,
                                   anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
