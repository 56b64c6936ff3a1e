// SPDX-License-Identifier: Apache-2.0
/* Constants, types and attributes for the writer.
 *   the constant [1, 2]   ->   an initializer c0       axis = 1   ->   AttributeProto {name: "axis", i: 1, type: INT}
 * Constants become initializers of the graph, or nodes of a function, when the nodes are written (write.c); small
 * equal ones are one. */
#include "frontend/onnx/write.h"

enum { SMALL = 256 }; // bytes of constants that are compared

/* ---- tensors ---- */

static anf_dtype settled(const anf_type *t) { return anfi_dtype_settle((anf_dtype)t->dtype); }

void anfi_ox_put_tensor(anfi_flat *w, uint32_t field, const char *name, const anf_value *v) {
  size_t at = anfi_wire_open(w->out, field);
  for (uint32_t k = 0; k < v->type->n; k++)
    anfi_wire_put_varint(w->out, 1, (uint64_t)v->type->dims[k]);
  anfi_wire_put_varint(w->out, 2, (uint64_t)anfi_dtype_file_number(settled(v->type)));
  if (name) anfi_wire_put_text(w->out, 8, name);
  anfi_wire_put_bytes(w->out, 9, (const char *)v->data, v->n * anf_dtype_bytes(settled(v->type)));
  anfi_wire_close(w->out, at);
}

static void put_dim(anfi_flat *w, int64_t d) {
  const char *symbol = d < 0 ? anf_dim_name(w->cx, d) : NULL;
  size_t at = anfi_wire_open(w->out, 1);
  if (d >= 0) anfi_wire_put_varint(w->out, 1, (uint64_t)d);
  else if (symbol) anfi_wire_put_text(w->out, 2, symbol);
  anfi_wire_close(w->out, at);
}

bool anfi_ox_put_value_info(anfi_flat *w, uint32_t field, const char *name, const anf_type *t) {
  int64_t number = anfi_dtype_file_number(settled(t));
  if (!number) return anfi_flat_refuse(w, NULL, "a value of type", anf_dtype_name(settled(t)));
  size_t at = anfi_wire_open(w->out, field);
  anfi_wire_put_text(w->out, 1, name);
  size_t type = anfi_wire_open(w->out, 2), tensor = anfi_wire_open(w->out, 1);
  anfi_wire_put_varint(w->out, 1, (uint64_t)number);
  size_t shape = anfi_wire_open(w->out, 2);
  for (uint32_t k = 0; k < t->n; k++) put_dim(w, t->dims[k]);
  anfi_wire_close(w->out, shape);
  anfi_wire_close(w->out, tensor);
  anfi_wire_close(w->out, type);
  anfi_wire_close(w->out, at);
  return true;
}

/* ---- constants ---- */

/* The entry for the name of an equal constant; large ones are equal only to themselves. */
static uint64_t *place_of(anfi_flat *w, const anf_value *v) {
  size_t bytes = v->n * anf_dtype_bytes(settled(v->type)), dims = v->type->n * sizeof(int64_t);
  if (bytes > SMALL) return anfi_map_at(&w->named, anfi_key(v));
  char *key = (char *)anfi_alloc(w->arena, 2 + dims + bytes);
  key[0] = (char)settled(v->type);
  key[1] = (char)v->type->n;
  if (dims) memcpy(key + 2, v->type->dims, dims);
  if (bytes) memcpy(key + 2 + dims, v->data, bytes);
  return anfi_map_at(&anfi_ox_own_of(w)->constant,
                     anfi_key(anfi_intern(&anfi_ox_own_of(w)->encoded, key, 2 + dims + bytes)));
}

const anfi_out *anfi_ox_constant(anfi_flat *w, const anf_value *v) {
  if (!anfi_dtype_file_number(settled(v->type)))
    return (void)anfi_flat_refuse(w, NULL, "a constant of type", anf_dtype_name(settled(v->type))),
           NULL;
  uint64_t *at = place_of(w, v);
  if (*at) return (const anfi_out *)(uintptr_t)*at;
  const char *name = anfi_sprintf(w->arena, "c%zu", anfi_ox_own_of(w)->constants.value.n);
  anfi_push(w->arena, &anfi_ox_own_of(w)->constants.value, v);
  anfi_push(w->arena, &anfi_ox_own_of(w)->constants.name, name);
  const anfi_out *x = anfi_out_leaf(w, name, v->type);
  *at = anfi_key(x);
  return x;
}

/* A constant of the writer's own lives until the frame is left. */
static const char *own(anfi_flat *w, anf_value *v) {
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  return anfi_ox_constant(w, v)->name;
}

const char *anfi_ox_ints(anfi_flat *w, size_t n, const int64_t *x) {
  const int64_t dims[1] = {(int64_t)n};
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_type_tensor(w->cx, ANF_I64, 1, dims));
  for (size_t i = 0; i < n; i++) anfi_set_i64(v, i, x[i]);
  return own(w, v);
}

const char *anfi_ox_number(anfi_flat *w, anf_dtype d, int64_t x) {
  return own(w, anfi_value_new_i64(w->cx, d, x));
}

const char *anfi_ox_int(anfi_flat *w, int64_t x) { return anfi_ox_number(w, ANF_I64, x); }

/* ---- attributes ---- */

static size_t open_attr(anfi_flat *w, const char *name, anfi_ox_kind kind) {
  size_t at = anfi_wire_open(w->out, 5);
  anfi_wire_put_text(w->out, 1, name);
  anfi_wire_put_varint(w->out, 20, (uint64_t)kind);
  return at;
}

void anfi_ox_attr_int(anfi_flat *w, const char *name, int64_t x) {
  size_t at = open_attr(w, name, OX_ATTR_INT);
  anfi_wire_put_varint(w->out, 3, (uint64_t)x);
  anfi_wire_close(w->out, at);
}

void anfi_ox_attr_ints(anfi_flat *w, const char *name, size_t n, const int64_t *x) {
  size_t at = open_attr(w, name, OX_ATTR_INTS);
  for (size_t i = 0; i < n; i++) anfi_wire_put_varint(w->out, 8, (uint64_t)x[i]);
  anfi_wire_close(w->out, at);
}

void anfi_ox_attr_float(anfi_flat *w, const char *name, double x) {
  size_t at = open_attr(w, name, OX_ATTR_FLOAT);
  anfi_wire_put_float(w->out, 2, (float)x);
  anfi_wire_close(w->out, at);
}

void anfi_ox_attr_text(anfi_flat *w, const char *name, const char *s, size_t len) {
  size_t at = open_attr(w, name, OX_ATTR_STRING);
  anfi_wire_put_bytes(w->out, 4, s, len);
  anfi_wire_close(w->out, at);
}
