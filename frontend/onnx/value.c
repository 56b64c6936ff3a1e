// SPDX-License-Identifier: Apache-2.0
/* Tensors, attributes and types of ONNX as values and types of ours.
 *   TensorProto {dims: 2, data_type: FLOAT, float_data: 1 2}   ->   the value [1, 2] of f32[2] */
#include "frontend/onnx/onnx.h"
#include "ir/value/mapped.h"

static anfi_loc loc_of(const anfi_ox_model *m) { return (anfi_loc){m->file, 0, 0}; }

void anfi_ox_no_texts(const anfi_ox_model *m) {
  anfi_hint(m->cx, "labels may be whole numbers: encode them before the model is trained, and "
                   "convert it with zipmap=False");
}

/* Narrow elements are bytes. */
static bool element_type(anfi_ox_model *m, const char *whose, int64_t type, anf_dtype *out) {
  if (anfi_dtype_of_file_number(type, out) || anfi_ox_narrow_dtype(type, out)) return true;
  anfi_fail(m->cx, loc_of(m), ANF_E1171, whose,
            type == OX_STRING ? "a tensor of strings" : "of no known element type");
  if (type == OX_STRING) anfi_ox_no_texts(m);
  return false;
}

/* ---- types ---- */

/* A name that the language has no word for, such as "batch + 1", is a dim that is not known. */
static bool is_word(const anfi_str *s) {
  for (uint32_t i = 0; i < s->len; i++) {
    char c = s->s[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(i && c >= '0' && c <= '9')) return false;
  }
  return s->len > 0;
}

static int64_t dim_of(anfi_ox_model *m, const anfi_ox_dim *d) {
  if (!d->symbol) return d->size < 0 ? -1 : d->size;
  return is_word(d->symbol) ? anfi_dim_symbol(m->cx, d->symbol) : -1;
}

const anf_type *anfi_ox_type(anfi_ox_model *m, const anfi_ox_value *v) {
  int64_t dims[ANF_MAX_RANK];
  anf_dtype d;
  if (v->other || !v->elem_type || !element_type(m, v->name->s, v->elem_type, &d) || !v->ranked)
    return NULL;
  if (v->dims.n > ANF_MAX_RANK)
    return (void)anfi_fail(m->cx, loc_of(m), ANF_E0507, v->name->s, "its rank is above 16"), NULL;
  for (size_t i = 0; i < v->dims.n; i++) dims[i] = dim_of(m, &v->dims.at[i]);
  return anfi_type_tensor(m->cx, d, v->dims.n, dims);
}

/* ---- data ---- */

static bool wrong_size(anfi_ox_model *m, const anfi_ox_tensor *t, uint64_t have, uint64_t need) {
  return anfi_fail(m->cx, loc_of(m), ANF_E1172, t->name->s, (unsigned long long)have,
                   (unsigned long long)need);
}

/* Elements of several formats are numbers in int32_data, half floats their bits. */
static bool from_numbers(const anfi_ox_tensor *t, anf_value *v) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  bool complex = d == ANF_C64 || d == ANF_C128;
  size_t each = complex ? 2 : 1, n = t->reals.n ? t->reals.n : t->ints.n;
  if (n != v->n * each) return false;
  for (size_t i = 0; i < v->n; i++)
    if (d == ANF_C64)
      ((float *)v->data)[2 * i] = (float)t->reals.at[2 * i],
                             ((float *)v->data)[2 * i + 1] = (float)t->reals.at[2 * i + 1];
    else if (d == ANF_C128) memcpy(v->data + 16 * i, &t->reals.at[2 * i], 16);
    else if (t->reals.n) anfi_set_f64(v, i, t->reals.at[i]);
    else if (d == ANF_F16 || d == ANF_BF16) ((uint16_t *)v->data)[i] = (uint16_t)t->ints.at[i];
    else anfi_set_i64(v, i, t->ints.at[i]);
  return true;
}

static bool decimal(const anfi_str *s, uint64_t *out) {
  *out = 0;
  for (uint32_t i = 0; s && i < s->len; i++) {
    if (s->s[i] < '0' || s->s[i] > '9' || *out > UINT64_MAX / 10 - 1) return false;
    *out = *out * 10 + (uint64_t)(s->s[i] - '0');
  }
  return true;
}

/* A file below the folder of the model, opened; the tensor's bytes are at `offset`. */
typedef struct {
  anfi_os_view view;
  uint64_t offset;
} part;

static bool external(anfi_ox_model *m, const anfi_ox_tensor *t, uint64_t need, part *out) {
  const char *slash = strrchr(m->file, '/'), *name = t->external->s;
  const char *dir = slash ? anfi_strndup(m->arena, m->file, (size_t)(slash - m->file) + 1) : "";
  uint64_t length;
  while (strncmp(name, "./", 2) == 0) name += 2;
  if (!anfi_os_is_below(t->external->s, t->external->len) || !*name)
    return anfi_fail(m->cx, loc_of(m), ANF_E1173, t->external->s);
  if (!decimal(t->offset, &out->offset) || !decimal(t->length, &length))
    return wrong_size(m, t, 0, need);
  if (t->length && t->length->len && length != need) return wrong_size(m, t, length, need);
  if (!anfi_os_view_below(m->cx, dir, name, &out->view)) return false;
  uint64_t size = out->view.len, have = out->offset > size ? 0 : size - out->offset;
  if (need <= have) return true;
  anfi_os_view_close(&out->view);
  return wrong_size(m, t, have, need);
}

/* Whether there is as much data as `n` elements need, before memory is taken for them. */
static bool has_data(anfi_ox_model *m, const anfi_ox_tensor *t, anf_dtype d, size_t n, part *file) {
  uint64_t need = (uint64_t)n * anf_dtype_bytes(d), each = d == ANF_C64 || d == ANF_C128 ? 2 : 1;
  uint64_t numbers = t->reals.n ? t->reals.n : t->ints.n;
  if (n > SIZE_MAX / 64) return wrong_size(m, t, 0, n);
  if (t->external) return external(m, t, need, file);
  if (t->raw) return t->raw_len == need || wrong_size(m, t, t->raw_len, need);
  if (each == 2 && t->ints.n) return wrong_size(m, t, 0, need);
  return numbers == n * each || wrong_size(m, t, numbers, n * each);
}

static bool fill(anfi_ox_model *m, const anfi_ox_tensor *t, const part *file, anf_value *v) {
  size_t need = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  if (!t->raw && !t->external) return from_numbers(t, v), true;
  if (t->external && !anfi_os_view_read(&file->view, file->offset, v->data, need))
    return wrong_size(m, t, 0, need);
  if (!t->external && need) memcpy(v->data, t->raw, need);
  for (size_t i = 0; v->type->dtype == ANF_BOOL && i < v->n; i++) v->data[i] = v->data[i] != 0;
  return true;
}

/* Elements that stay in a file: NULL if they have to be copied. */
static anf_value *in_file(anfi_ox_model *m, const anfi_ox_tensor *t, const anf_type *type,
                          const part *file) {
  if (t->external) return anfi_value_map(m->cx, type, &file->view, file->offset);
  if (!m->view || !t->raw) return NULL;
  return anfi_value_map(m->cx, type, m->view, (uint64_t)(t->raw - m->view->data));
}

static anf_value *value_of(anfi_ox_model *m, const anfi_ox_tensor *t, const anf_type *type,
                           const part *file) {
  anf_value *v = in_file(m, t, type, file);
  if (v) return v;
  v = anfi_value_new_tensor(m->cx, type);
  anfi_value_guard(v);
  bool good = fill(m, t, file, v);
  anfi_value_unguard(v);
  if (good) return v;
  anf_value_release(v);
  return NULL;
}

static void close_part(void *p) { anfi_os_view_close(&((part *)p)->view); }

/* ---- narrow elements: one, two or four in a byte of the file, the first in its lowest bits; here each is a byte ---- */

static unsigned packed_byte(const anfi_ox_tensor *t, size_t i) {
  return (unsigned)(t->raw ? (unsigned char)t->raw[i] : t->ints.at[i]) & 255;
}

static anf_value *narrow(anfi_ox_model *m, const anfi_ox_tensor *t, const anf_type *type,
                         size_t n) {
  unsigned bits = anfi_ox_narrow_bits(t->data_type), each = 8 / bits;
  size_t have = t->raw ? t->raw_len : t->ints.n, need = n / each + (n % each != 0);
  if (t->external)
    return (void)anfi_fail(m->cx, loc_of(m), ANF_E1171, t->name->s,
                           "a tensor of fewer than 8 bits an element in another file"),
           NULL;
  if (have != need) return (void)wrong_size(m, t, have, need), NULL;
  anf_value *v = anfi_value_new_tensor(m->cx, type);
  int64_t most = ((int64_t)1 << bits) - 1;
  for (size_t i = 0; i < n; i++) {
    int64_t x = packed_byte(t, i / each) >> (bits * (i % each)) & most;
    anfi_set_i64(v, i, type->dtype == ANF_I8 && x > most / 2 ? x - most - 1 : x);
  }
  return v;
}

anf_value *anfi_ox_tensor_value(anfi_ox_model *m, const anfi_ox_tensor *t) {
  anf_dtype d;
  size_t n;
  if (t->sparse)
    return (void)anfi_fail(m->cx, loc_of(m), ANF_E1171, t->name->s, "a sparse tensor"), NULL;
  if (!element_type(m, t->name->s, t->data_type, &d)) return NULL;
  if (t->dims.n > ANF_MAX_RANK)
    return (void)anfi_fail(m->cx, loc_of(m), ANF_E0507, t->name->s, "its rank is above 16"), NULL;
  for (size_t i = 0; i < t->dims.n; i++)
    if (t->dims.at[i] < 0) return (void)wrong_size(m, t, 0, 0), NULL;
  const anf_type *type = anfi_type_tensor(m->cx, d, t->dims.n, t->dims.at);
  if (!anfi_type_elements(type, &n)) return (void)wrong_size(m, t, 0, UINT64_MAX), NULL;
  if (anfi_ox_narrow_bits(t->data_type) < 8) return narrow(m, t, type, n);
  part *file = ANFI_NEW(m->arena, part);
  file->view.f = -1;
  if (!has_data(m, t, d, n, file)) return NULL;
  anfi_defer(m->cx, ANFI_ALWAYS, close_part, file);
  anf_value *v = value_of(m, t, type, file);
  anfi_undefer(m->cx, file);
  close_part(file);
  return v;
}

/* ---- attributes ---- */

const anfi_ox_attr *anfi_ox_find(const anfi_ox_attrs *attrs, const char *name) {
  for (size_t i = 0; attrs && i < attrs->n; i++)
    if (strcmp(attrs->at[i]->name->s, name) == 0) return attrs->at[i];
  return NULL;
}

static anf_value *real(anf_ctx *cx, double x) { return anfi_value_new_f64(cx, ANF_FLOAT, x); }

static anf_value *reals(anf_ctx *cx, const anfi_ox_attr *a) {
  anf_value *t = anfi_value_new_tuple(cx, a->reals.n);
  for (size_t i = 0; i < a->reals.n; i++) t->u.item[i] = anfi_value_new_none(cx);
  anfi_value_guard(t);
  for (size_t i = 0; i < a->reals.n; i++) {
    anf_value *x = real(cx, a->reals.at[i]);
    anf_value_release(t->u.item[i]);
    t->u.item[i] = x;
  }
  anfi_value_unguard(t);
  return t;
}

static anf_value *strings(anf_ctx *cx, const anfi_ox_attr *a) {
  anf_value *t = anfi_value_new_tuple(cx, a->strings.n);
  for (size_t i = 0; i < a->strings.n; i++)
    t->u.item[i] = anfi_value_new_string(cx, a->strings.at[i]->s, a->strings.at[i]->len);
  return t;
}

anf_value *anfi_ox_attr_value(anfi_ox_model *m, const anfi_ox_attr *a) {
  switch (a->kind) {
  case OX_ATTR_FLOAT: return real(m->cx, a->f);
  case OX_ATTR_INT: return anfi_value_new_i64(m->cx, ANF_INT, a->i);
  case OX_ATTR_STRING: return anfi_value_new_string(m->cx, a->text->s, a->text->len);
  case OX_ATTR_FLOATS: return reals(m->cx, a);
  case OX_ATTR_INTS: return anfi_value_new_ints(m->cx, a->ints.n, a->ints.at);
  case OX_ATTR_STRINGS: return strings(m->cx, a);
  case OX_ATTR_TENSOR:
    if (a->tensor) return anfi_ox_tensor_value(m, a->tensor);
    break;
  default: break;
  }
  anfi_fail(m->cx, loc_of(m), ANF_E1171, a->name->s, "an attribute of another kind");
  return NULL;
}
