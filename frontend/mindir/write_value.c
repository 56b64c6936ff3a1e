// SPDX-License-Identifier: Apache-2.0
/* Constants and types for the writer; value.c reads them.
 *   f32(2)   ->   a tensor of rank 0       2   ->   a scalar, as Python's numbers are       (1, 2)   ->   a tuple */
#include "frontend/mindir/write.h"

int64_t anfi_mi_type_number(const anf_type *t) {
  return anfi_is_tensor(t) ? anfi_dtype_type_id((anf_dtype)t->dtype) : 0;
}

/* ---- tensors ---- */

static bool put_type(anf_text *o, const anf_type *t) {
  int64_t number = anfi_dtype_file_number((anf_dtype)t->dtype);
  if (!number) return false;
  for (uint32_t k = 0; k < t->n; k++)
    anfi_wire_put_varint(o, 1, (uint64_t)(t->dims[k] < 0 ? -1 : t->dims[k]));
  anfi_wire_put_varint(o, 2, (uint64_t)number);
  return true;
}

static bool put_tensor(anfi_mi_writer *w, uint32_t field, const char *name, const anf_type *t,
                       const anf_value *v) {
  size_t at = anfi_wire_open(w->out, field);
  if (!put_type(w->out, t))
    return anfi_mi_refuse(w, NULL, "a tensor of", anf_dtype_name((anf_dtype)t->dtype));
  if (name) anfi_wire_put_text(w->out, 7, name);
  if (v)
    anfi_wire_put_bytes(w->out, 9, (const char *)v->data,
                        v->n * anf_dtype_bytes((anf_dtype)t->dtype));
  anfi_wire_close(w->out, at);
  return true;
}

/* MindSpore begins a file of weights with the byte 1, for little-endian, and each tensor at a multiple of ALIGNED. */
enum { ALIGNED = 64 };

static void align(anf_text *o) {
  static const char zeros[ALIGNED];
  if (!o->len) anfi_put(o, "\1", 1);
  if (o->len % ALIGNED) anfi_put(o, zeros, ALIGNED - o->len % ALIGNED);
}

bool anfi_mi_put_apart(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v) {
  anf_text *data = w->beside->weights;
  size_t at = anfi_wire_open(w->out, field);
  size_t bytes = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  if (!put_type(w->out, v->type))
    return anfi_mi_refuse(w, NULL, "a tensor of", anf_dtype_name((anf_dtype)v->type->dtype));
  anfi_wire_put_text(w->out, 7, name);
  align(data);
  size_t where = anfi_wire_open(w->out, 12);
  anfi_wire_put_text(w->out, 1, w->beside->file);
  anfi_wire_put_varint(w->out, 2, data->len);
  anfi_wire_put_varint(w->out, 3, bytes);
  anfi_wire_close(w->out, where);
  if (bytes) anfi_put(data, (const char *)v->data, bytes);
  anfi_wire_close(w->out, at);
  return true;
}

bool anfi_mi_put_tensor_type(anfi_mi_writer *w, uint32_t field, const char *name,
                             const anf_type *t) {
  return put_tensor(w, field, name, t, NULL);
}

bool anfi_mi_put_tensor(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v) {
  return put_tensor(w, field, name, v->type, v);
}

/* ---- constants ---- */

/* MindSpore has the items of tuples in the repeated fields. */
static void put_number(anf_text *o, const anf_value *v, bool item) {
  double x = anfi_get_f64(v, 0);
  bool single = (double)(float)x == x || x != x;
  if (v->type->dtype == ANF_INT || v->type->dtype == ANF_BOOL)
    anfi_wire_put_varint(o, item ? 10 : 3, (uint64_t)anfi_get_i64(v, 0));
  else if (single) anfi_wire_put_float(o, item ? 8 : 2, (float)x);
  else anfi_wire_put_double(o, item ? 9 : 4, x);
  anfi_wire_put_varint(o, 16,
                       v->type->dtype == ANF_BOOL  ? MI_BOOL
                       : v->type->dtype == ANF_INT ? MI_INT64
                       : single                    ? MI_FLOAT
                                                   : MI_DOUBLE);
}

static bool put_items(anfi_mi_writer *w, const anf_value *v) {
  for (size_t i = 0; i < v->n; i++)
    if (!anfi_mi_put_attr(w, 17, NULL, v->u.item[i])) return false;
  anfi_wire_put_varint(w->out, 16, MI_TUPLE);
  return true;
}

/* A type is its text, marked by the attribute's doc_string. */
static void put_type_text(anfi_mi_writer *w, const anf_type *t) {
  size_t at = anfi_wire_open(w->out, 5);
  anfi_put_type(w->out, w->cx, t);
  anfi_wire_close(w->out, at);
  anfi_wire_put_text(w->out, 14, "type");
  anfi_wire_put_varint(w->out, 16, MI_STRING);
}

static bool put_constant(anfi_mi_writer *w, const anf_value *v, bool item) {
  switch ((anf_value_kind)v->kind) {
  case ANF_VALUE_TENSOR:
    if (anfi_export_is_weak(v->type) || (anfi_is_scalar(v->type) && v->type->dtype == ANF_BOOL))
      return put_number(w->out, v, item), true;
    if (!anfi_mi_put_tensor(w, 12, NULL, v)) return false;
    anfi_wire_put_varint(w->out, 16, MI_TENSORS);
    return true;
  case ANF_VALUE_TUPLE: return put_items(w, v);
  case ANF_VALUE_STRING:
    anfi_wire_put_bytes(w->out, item ? 11 : 5, v->u.text, v->n);
    anfi_wire_put_varint(w->out, 16, MI_STRING);
    return true;
  case ANF_VALUE_NONE: anfi_wire_put_varint(w->out, 16, MI_NONE); return true;
  case ANF_VALUE_TYPE: put_type_text(w, v->type); return true;
  default: return anfi_mi_refuse(w, NULL, "a constant with", "a record or a function in it");
  }
}

/* Recursion is over the nesting of constants. */
bool anfi_mi_put_attr(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v) {
  size_t at = anfi_wire_open(w->out, field);
  if (name) anfi_wire_put_text(w->out, 1, name);
  if (!put_constant(w, v, !name)) return false;
  anfi_wire_close(w->out, at);
  return true;
}

/* ---- types of nodes ---- */

static bool put_abstract(anf_text *o, const anf_type *t) {
  anfi_mi_type kind = MI_TUPLE;
  if (anfi_export_is_weak(t)) return false;
  if (anfi_is_tensor(t)) {
    size_t at = anfi_wire_open(o, 12);
    if (!put_type(o, t)) return false;
    anfi_wire_close(o, at);
    kind = MI_TENSORS;
  } else if (t->kind != ANF_TYPE_TUPLE) return false;
  else
    for (uint32_t i = 0; i < t->n; i++)
      if (!anfi_mi_put_abstract(o, 17, NULL, t->items[i])) return false;
  anfi_wire_put_varint(o, 16, (uint64_t)kind);
  return true;
}

/* Recursion is over the nesting of types. */
bool anfi_mi_put_abstract(anf_text *o, uint32_t field, const char *name, const anf_type *t) {
  size_t before = o->len;
  if (!t) return false;
  size_t at = anfi_wire_open(o, field);
  if (name) anfi_wire_put_text(o, 1, name);
  if (!put_abstract(o, t)) return o->len = before, false;
  anfi_wire_close(o, at);
  return true;
}
