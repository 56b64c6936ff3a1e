// SPDX-License-Identifier: Apache-2.0
/* Tensors, constants and types of a .mindir as values and types of ours.
 *   TensorProto {dims: 2, data_type: FLOAT, raw_data: 8 bytes}   ->   a value of f32[2], in the file if it is large */
#include "anfora/text.h"
#include "frontend/mindir/mindir.h"
#include "ir/value/mapped.h"

enum { ANOTHER_DOUBLE = 17 }; // FLOAT64, beside DOUBLE

static bool element_type(anfi_mi_model *m, int64_t type, anf_dtype *out) {
  if (anfi_dtype_of_file_number(type == ANOTHER_DOUBLE ? MI_DOUBLE : type, out)) return true;
  return anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1161, "an element type", (long long)type);
}

const anf_type *anfi_mi_tensor_type(anfi_mi_model *m, const anfi_mi_tensor *t) {
  int64_t dims[ANF_MAX_RANK];
  anf_dtype d;
  if (!element_type(m, t->data_type, &d)) return NULL;
  if (t->dims.n == 1 && t->dims.at[0] == -2)
    return anfi_type_simple(m->cx, ANF_TYPE_ANY); // rank not known
  if (t->dims.n > ANF_MAX_RANK)
    return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E0507, t->name->s,
                           "its rank is above 16"),
           NULL;
  for (size_t i = 0; i < t->dims.n; i++) dims[i] = t->dims.at[i] < 0 ? -1 : t->dims.at[i];
  return anfi_type_tensor(m->cx, d, t->dims.n, dims);
}

/* ---- data ---- */

static const char *named(const anfi_mi_tensor *t) {
  return t->name ? t->name->s : "without a name";
}

static bool wrong_size(anfi_mi_model *m, const anfi_mi_tensor *t, size_t have, size_t need) {
  return anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1162, named(t), have, need);
}

static const char *folder_of(const anfi_mi_model *m) {
  const char *slash = strrchr(m->file, '/');
  return slash ? anfi_sprintf(m->arena, "%.*s/", (int)(slash - m->file), m->file) : "";
}

/* Data of another file, where that file has it whole: mapped, or read. */
static anf_value *external_value(anfi_mi_model *m, const anfi_mi_tensor *t, const anf_type *type,
                                 size_t need) {
  const char *name = t->external->s;
  anfi_os_view f;
  uint64_t size;
  if (!anfi_os_is_below(name, t->external->len))
    return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1163, name), NULL;
  if (t->length != need) return (void)wrong_size(m, t, (size_t)t->length, need), NULL;
  if (!anfi_os_view_below(m->cx, folder_of(m), name, &f)) return NULL;
  bool whole = t->offset <= f.len && need <= f.len - t->offset;
  anf_value *v = whole ? anfi_value_map(m->cx, type, &f, t->offset) : NULL;
  size = f.len;
  anfi_os_view_close(&f);
  if (v) return v;
  if (!whole)
    return (void)wrong_size(m, t, t->offset < size ? (size_t)(size - t->offset) : 0, need), NULL;
  v = anfi_value_new_tensor(m->cx, type);
  anfi_value_guard(v);
  bool good = anfi_os_read_below(m->cx, folder_of(m), name, t->offset, v->data, need, &size) &&
              (t->offset + need <= size || wrong_size(m, t, (size_t)size, need));
  anfi_value_unguard(v);
  if (!good) anf_value_release(v);
  return good ? v : NULL;
}

static bool from_numbers(anfi_mi_model *m, const anfi_mi_tensor *t, anf_value *v) {
  size_t have = t->reals.n ? t->reals.n : t->ints.n;
  if (have != v->n) return wrong_size(m, t, have, v->n);
  for (size_t i = 0; i < v->n; i++)
    if (t->reals.n) anfi_set_f64(v, i, t->reals.at[i]);
    else anfi_set_i64(v, i, t->ints.at[i]);
  return true;
}

static bool fill(anfi_mi_model *m, const anfi_mi_tensor *t, anf_value *v) {
  const char *p = t->raw;
  size_t n = t->raw_len, need = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  if (!p && (t->reals.n || t->ints.n)) return from_numbers(m, t, v);
  if (n != need) return wrong_size(m, t, n, need);
  if (n && m->view && !t->apart)
    anfi_os_view_copy(v->data, m->view, (uint64_t)(p - m->view->data), n);
  else if (n) memcpy(v->data, p, n);
  return true;
}

/* Data of the file itself that stays there: NULL if it has to be copied. */
static anf_value *mapped_value(anfi_mi_model *m, const anfi_mi_tensor *t, const anf_type *type,
                               size_t need) {
  if (!m->view || t->apart || !t->raw || t->raw_len != need || t->reals.n || t->ints.n) return NULL;
  return anfi_value_map(m->cx, type, m->view, (uint64_t)(t->raw - m->view->data));
}

anf_value *anfi_mi_tensor_value(anfi_mi_model *m, const anfi_mi_tensor *t) {
  const anf_type *type = anfi_mi_tensor_type(m, t);
  size_t n;
  if (!type) return NULL;
  if (!anfi_is_tensor(type) || !anfi_type_elements(type, &n))
    return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1162, named(t), t->raw_len,
                           (size_t)0),
           NULL;
  size_t bytes = anf_dtype_bytes((anf_dtype)type->dtype); // before anything is allocated
  if (n > SIZE_MAX / 16) return (void)wrong_size(m, t, t->raw_len, n), NULL;
  if (t->compressed)
    return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1161, "compressed weights, kind",
                           (long long)t->compressed),
           NULL;
  if (t->quantised && anfi_dtype_is_int((anf_dtype)type->dtype))
    return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1166,
                           anfi_sprintf(m->arena, "QuantParam of %s", named(t))),
           NULL;
  if (t->external) return external_value(m, t, type, n * bytes);
  if (n > (t->reals.n ? t->reals.n : t->ints.n) && n > t->raw_len)
    return (void)wrong_size(m, t, t->raw_len, n * bytes), NULL;
  anf_value *v = mapped_value(m, t, type, n * bytes);
  if (v) return v;
  v = anfi_value_new_tensor(m->cx, type);
  anfi_value_guard(v);
  bool good = fill(m, t, v);
  anfi_value_unguard(v);
  if (good) return v;
  anf_value_release(v);
  return NULL;
}

/* ---- constants ---- */

const anfi_mi_attr *anfi_mi_find(const anfi_mi_attrs *attrs, const char *name) {
  for (size_t i = 0; i < attrs->n; i++)
    if (strcmp(attrs->at[i]->name->s, name) == 0) return attrs->at[i];
  return NULL;
}

static anf_value *sequence(anfi_mi_model *m, const anfi_mi_attr *a) {
  anf_value *t = anfi_value_new_tuple(m->cx, a->values.n);
  anfi_value_guard(t);
  bool good = true;
  for (size_t i = 0; good && i < a->values.n; i++)
    good = (t->u.item[i] = anfi_mi_attr_value(m, a->values.at[i])) != NULL;
  anfi_value_unguard(t);
  if (good) return t;
  for (size_t i = 0; i < t->n; i++)
    if (!t->u.item[i]) t->u.item[i] = anfi_value_new_none(m->cx);
  anf_value_release(t);
  return NULL;
}

/* Numbers without a type of their own: Python's. Inside of tuples they stand in the repeated fields. */
static int64_t integer(const anfi_mi_attr *a) {
  return a->has_int || !a->ints.n ? a->i : a->ints.at[0];
}
static double real(const anfi_mi_attr *a) {
  return a->has_real || !a->reals.n ? a->f : a->reals.at[0];
}

/* A tensor without a shape and data stands for its element type, which templates know by its number. */
static bool is_type(const anfi_mi_tensor *t) {
  return !t->raw && !t->external && !t->dims.n && !t->reals.n && !t->ints.n;
}

static anf_value *tensor_or_type(anfi_mi_model *m, const anfi_mi_tensor *t) {
  anf_dtype d;
  if (!is_type(t)) return anfi_mi_tensor_value(m, t);
  return element_type(m, t->data_type, &d)
             ? anfi_value_new_i64(m->cx, ANF_INT, anfi_dtype_type_id(d))
             : NULL;
}

static anf_value *type_value(anfi_mi_model *m, const anfi_str *s) {
  const anf_type *t = NULL;
  anf_status st = anf_parse_type(m->cx, s->s, NULL, &t);
  return st == ANF_OK ? anfi_value_new_type(m->cx, t) : (anfi_fail_as(m->cx, st), NULL);
}

anf_value *anfi_mi_attr_value(anfi_mi_model *m, const anfi_mi_attr *a) {
  const anfi_str *s = a->text ? a->text : a->strings.n ? a->strings.at[0] : NULL;
  switch (a->type) {
  case MI_BOOL: return anfi_value_new_i64(m->cx, ANF_BOOL, integer(a) != 0);
  case MI_INT8:
  case MI_INT16:
  case MI_INT32:
  case MI_INT64:
  case MI_UINT8:
  case MI_UINT16:
  case MI_UINT32:
  case MI_UINT64: return anfi_value_new_i64(m->cx, ANF_INT, integer(a));
  case MI_FLOAT:
  case MI_FLOAT16:
  case MI_DOUBLE: return anfi_value_new_f64(m->cx, ANF_FLOAT, real(a));
  case MI_STRING:
    if (a->doc && strcmp(a->doc->s, "type") == 0 && s) return type_value(m, s);
    return anfi_value_new_string(m->cx, s ? s->s : "", s ? s->len : 0);
  case MI_TENSOR:
  case MI_TENSORS:
    if (a->tensors.n == 1) return tensor_or_type(m, a->tensors.at[0]);
    break;
  case MI_TUPLE:
  case MI_LIST: return sequence(m, a);
  case MI_UMONAD:
  case MI_IOMONAD:
  case MI_NONE: return anfi_value_new_none(m->cx);
  default: break;
  }
  return (void)anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1161, "a constant of kind",
                         (long long)a->type),
         NULL;
}

static const anf_type *tuple_type(anfi_mi_model *m, const anfi_mi_attr *a) {
  const anf_type **item = ANFI_NEW_N(m->arena, const anf_type *, a->values.n + 1);
  for (size_t i = 0; i < a->values.n; i++)
    if (!(item[i] = anfi_mi_abstract_type(m, a->values.at[i])))
      item[i] = anfi_type_simple(m->cx, ANF_TYPE_ANY);
  return anfi_type_tuple(m->cx, a->values.n, item);
}

static const anf_type *type_of(anfi_mi_model *m, const anfi_mi_attr *a) {
  anf_dtype d;
  if ((a->type == MI_TENSORS || a->type == MI_TENSOR) && a->tensors.n == 1)
    return anfi_mi_tensor_type(m, a->tensors.at[0]);
  if ((a->type == MI_TUPLE || a->type == MI_LIST) && a->values.n && !a->any_length)
    return tuple_type(m, a);
  bool scalar = (a->type >= MI_FLOAT && a->type <= MI_BFLOAT16 && a->type != MI_STRING);
  return scalar && element_type(m, a->type, &d) ? anfi_type_scalar(m->cx, d) : NULL;
}

/* Recursion is over the nesting of tuples, which the reader bounds. */
const anf_type *anfi_mi_abstract_type(anfi_mi_model *m, anfi_mi_attr *a) {
  if (!a) return NULL;
  if (!a->asked) a->abstract = type_of(m, a), a->asked = true;
  return a->abstract;
}
