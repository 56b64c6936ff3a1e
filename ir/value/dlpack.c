// SPDX-License-Identifier: Apache-2.0
/* Arrays of the host as values, and values as arrays of other libraries, by DLPack.
 *   {code float, bits 32, lanes 1}, shape (2, 3), strides (3, 1)   <->   f32[2,3] in the same memory
 * When the memory is not used any more, the deleter of the tensor is called. */
#include "ir/value/dlpack.h"

#include <stdlib.h>

enum { DL_CPU = 1, DL_READ_ONLY = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static const struct {
  uint8_t code, bits;
  anf_dtype dtype;
} kinds[] = {
    {DL_BOOL, 8, ANF_BOOL},  {DL_INT, 8, ANF_I8},       {DL_INT, 16, ANF_I16},
    {DL_INT, 32, ANF_I32},   {DL_INT, 64, ANF_I64},     {DL_UINT, 8, ANF_U8},
    {DL_UINT, 16, ANF_U16},  {DL_UINT, 32, ANF_U32},    {DL_UINT, 64, ANF_U64},
    {DL_FLOAT, 16, ANF_F16}, {DL_BFLOAT, 16, ANF_BF16}, {DL_FLOAT, 32, ANF_F32},
    {DL_FLOAT, 64, ANF_F64}, {DL_COMPLEX, 64, ANF_C64}, {DL_COMPLEX, 128, ANF_C128},
};

/* ---- what a tensor of another library is ---- */

static bool bad(anf_ctx *cx, const char *why) {
  return anfi_fail(cx, anfi_nowhere(), ANF_E1118, why);
}

static bool dtype_of(anf_ctx *cx, const anfi_dl_tensor *t, anf_dtype *out) {
  if (t->dtype.lanes != 1) return bad(cx, "its elements have more than one lane");
  for (size_t i = 0; i < ANFI_LEN(kinds); i++)
    if (kinds[i].code == t->dtype.code && kinds[i].bits == t->dtype.bits)
      return *out = kinds[i].dtype, true;
  return bad(cx, "its element type is none of Anfora's");
}

static const anfi_dl_tensor *tensor_of(anf_ctx *cx, void *managed, bool versioned, bool writes) {
  const anfi_dl_versioned *v = (const anfi_dl_versioned *)managed;
  if (!managed) return (void)bad(cx, "it is NULL"), NULL;
  if (!versioned) return &((const anfi_dl_managed *)managed)->t;
  if (v->version.major != 1) return (void)bad(cx, "its version of DLPack is not known"), NULL;
  if (writes && v->flags & DL_READ_ONLY)
    return (void)bad(cx, "it may only be read, and the step writes to it"), NULL;
  return &v->t;
}

bool anfi_dl_array(anf_ctx *cx, void *managed, bool versioned, bool writes, anf_array *a) {
  const anfi_dl_tensor *t = tensor_of(cx, managed, versioned, writes);
  if (!t) return false;
  if (t->device.type != DL_CPU) return bad(cx, "it is not in the CPU's memory");
  if (t->ndim < 0 || t->ndim > ANF_MAX_RANK) return bad(cx, "it has too many dims");
  if (t->ndim && !t->shape) return bad(cx, "it has no shape");
  *a = (anf_array){.rank = (size_t)t->ndim, .dims = t->shape, .strides = t->strides};
  if (!dtype_of(cx, t, &a->dtype)) return false;
  bool empty = false;
  for (int32_t i = 0; i < t->ndim; i++) empty |= t->shape[i] == 0;
  if (!t->data && !empty) return bad(cx, "its data is NULL: it was freed, or taken already");
  a->data = t->data ? (char *)t->data + t->byte_offset : NULL;
  return true;
}

void anfi_dl_delete(void *managed, bool versioned) {
  if (versioned) {
    anfi_dl_versioned *v = (anfi_dl_versioned *)managed;
    if (v->deleter) v->deleter(v);
  } else {
    anfi_dl_managed *v = (anfi_dl_managed *)managed;
    if (v->deleter) v->deleter(v);
  }
}

bool anfi_dl_describe(anfi_dl_tensor *t, const anf_type *type, void *data, int64_t *shape) {
  t->data = data;
  t->device.type = DL_CPU;
  t->ndim = (int32_t)type->n;
  t->shape = shape;
  if (type->n) memcpy(shape, type->dims, type->n * sizeof *shape);
  t->dtype.lanes = 1;
  anf_dtype d = anfi_dtype_settle((anf_dtype)type->dtype);
  for (size_t k = 0; k < ANFI_LEN(kinds); k++) {
    if (kinds[k].dtype != d) continue;
    t->dtype.code = kinds[k].code;
    t->dtype.bits = kinds[k].bits;
    return true;
  }
  return false;
}

/* ---- arrays as values ---- */

/* Elements one after the other, in C's order. */
static bool is_dense(const anf_array *a) {
  int64_t want = 1;
  for (size_t i = a->rank; a->strides && i-- > 0; want *= a->dims[i])
    if (a->dims[i] != 1 && a->strides[i] != want) return false;
  return true;
}

static void gather(anf_value *v, const anf_array *a) {
  size_t width = anf_dtype_bytes(a->dtype);
  int64_t at[ANF_MAX_RANK] = {0};
  const char *from = (const char *)a->data;
  for (size_t k = 0; k < v->n; k++) {
    memcpy(v->data + k * width, from, width);
    for (size_t i = a->rank; i-- > 0;) {
      int64_t step = a->strides[i] * (int64_t)width;
      from += step;
      if (++at[i] < a->dims[i]) break;
      from -= step * at[i];
      at[i] = 0;
    }
  }
}

static anf_value *copied(anf_ctx *cx, const anf_type *t, const anf_array *a) {
  anf_value *v = anfi_value_new_tensor(cx, t);
  if (!v->n) return v;
  if (is_dense(a)) memcpy(v->data, a->data, v->n * anf_dtype_bytes(a->dtype));
  else gather(v, a);
  if (a->dtype == ANF_BOOL)
    for (size_t i = 0; i < v->n; i++) v->data[i] = v->data[i] != 0;
  return v;
}

/* The array's type; NULL, with an error, if it is none. */
static const anf_type *type_of(anf_ctx *cx, const anf_array *a) {
  size_t n;
  const anf_type *t = NULL;
  bool good = a->rank <= ANF_MAX_RANK && (!a->rank || a->dims);
  for (size_t i = 0; good && i < a->rank; i++) good = a->dims[i] >= 0;
  if (good) t = anfi_type_checked(cx, a->dtype, a->rank, a->dims);
  if (!t || !anfi_type_elements(t, &n))
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E1351, "its dims or element type are none"),
           NULL;
  if (n && !a->data)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E1351, "its memory is NULL"), NULL;
  return t;
}

static bool fits(anf_ctx *cx, const anf_array *a) {
  size_t width = anf_dtype_bytes(a->dtype), align = width < 8 ? width : 8;
  if (!is_dense(a)) return anfi_fail(cx, anfi_nowhere(), ANF_E1351, "its elements are not dense");
  if ((uintptr_t)a->data % align)
    return anfi_fail(cx, anfi_nowhere(), ANF_E1351, "its memory is not aligned to its elements");
  if (a->dtype != ANF_BOOL) return true;
  return anfi_fail(cx, anfi_nowhere(), ANF_E1351,
                   "bools must be 0 or 1: anf_value_array copies them");
}

anf_value *anf_value_array(anf_ctx *cx, const anf_array *a) {
  ANFI_NEED_ELSE(cx, NULL, cx, a);
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = type_of(cx, a);
  anf_value *v = t ? copied(cx, t, a) : NULL;
  return (void)anfi_leave(cx), v;
}

anf_value *anf_value_wrap(anf_ctx *cx, const anf_array *a, void (*release)(void *user),
                          void *user) {
  ANFI_NEED_ELSE(cx, NULL, cx, a);
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = type_of(cx, a);
  anf_value *v = t && fits(cx, a) ? anfi_value_wrap(cx, t, a->data, release, user) : NULL;
  return (void)anfi_leave(cx), v;
}

/* ---- DLPack ---- */

static void delete_managed(void *p) { anfi_dl_delete(p, false); }
static void delete_versioned(void *p) { anfi_dl_delete(p, true); }

static anf_value *from_dlpack(anf_ctx *cx, void *managed, bool versioned) {
  anf_array a;
  const anf_type *t;
  if (!anfi_dl_array(cx, managed, versioned, false, &a) || !(t = type_of(cx, &a))) return NULL;
  size_t width = anf_dtype_bytes(a.dtype), align = width < 8 ? width : 8;
  if (a.data && is_dense(&a) && (uintptr_t)a.data % align == 0 && a.dtype != ANF_BOOL)
    return anfi_value_wrap(cx, t, a.data, versioned ? delete_versioned : delete_managed, managed);
  anf_value *v = copied(cx, t, &a);
  anfi_dl_delete(managed, versioned);
  return v;
}

anf_status anf_value_from_dlpack(anf_ctx *cx, void *managed, bool versioned, anf_diag *d,
                                 anf_value **out) {
  ANFI_NEED(d, cx, managed, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = from_dlpack(cx, managed, versioned);
  return anfi_leave(cx);
}

static void give_back(anfi_dl_managed *m) { free(m); }
static void give_back_versioned(anfi_dl_versioned *m) {
  anf_value_release((anf_value *)m->ctx);
  free(m);
}

static void *lent(const anf_value *v) {
  anfi_dl_versioned *m = (anfi_dl_versioned *)malloc(sizeof *m + v->type->n * sizeof(int64_t));
  if (!m) return NULL;
  *m =
      (anfi_dl_versioned){.version = {1, 0}, .flags = DL_READ_ONLY, .deleter = give_back_versioned};
  if (!anfi_dl_describe(&m->t, v->type, v->data, (int64_t *)(void *)(m + 1))) return free(m), NULL;
  m->ctx = anf_value_retain((anf_value *)(uintptr_t)v);
  return m;
}

static void *copy_of(const anf_value *v) {
  size_t dims = v->type->n * sizeof(int64_t),
         bytes = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  size_t head = (sizeof(anfi_dl_managed) + dims + 63) / 64 * 64;
  anfi_dl_managed *m = (anfi_dl_managed *)aligned_alloc(64, head + (bytes + 63) / 64 * 64);
  if (!m) return NULL;
  *m = (anfi_dl_managed){.deleter = give_back};
  char *data = (char *)m + head;
  if (bytes) memcpy(data, v->data, bytes);
  return anfi_dl_describe(&m->t, v->type, data, (int64_t *)(void *)(m + 1)) ? m : (free(m), NULL);
}

void *anf_value_to_dlpack(const anf_value *v, bool versioned) {
  if (!v || v->kind != ANF_VALUE_TENSOR) return NULL;
  return versioned ? lent(v) : copy_of(v);
}
