// SPDX-License-Identifier: Apache-2.0
/* Types and constants of the file, and ops that many others are made of.
 *   f32[2, 3]   ->   tensor<2x3xf32>          [1, 2]   ->   %c0 = stablehlo.constant dense<[..]> : tensor<2xf32> */
#include "frontend/stablehlo/write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { FEW = 64 }; // elements of a constant that are written as numbers
enum { MAX_NAMES = 1 << 22 };

/* ---- types and lists ---- */

const char *anfi_sw_dtype(anfi_flat *w, anf_dtype d) {
  switch (anfi_dtype_settle(d)) {
  case ANF_BOOL: return "i1";
  case ANF_U8: return "ui8";
  case ANF_U16: return "ui16";
  case ANF_U32: return "ui32";
  case ANF_U64: return "ui64";
  case ANF_C64: return "complex<f32>";
  case ANF_C128: return "complex<f64>";
  case ANF_KEY: return (void)anfi_flat_refuse(w, NULL, "a value of type", "key"), "";
  default: return anf_dtype_name(anfi_dtype_settle(d));
  }
}

const char *anfi_sw_type(anfi_flat *w, const anf_type *t) {
  char dims[ANF_MAX_RANK * 21 + 1] = "";
  size_t len = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->dims[i] < 0) (void)anfi_flat_refuse(w, NULL, "a tensor", "whose sizes are not known");
    len += (size_t)snprintf(dims + len, sizeof dims - len, "%lldx", (long long)t->dims[i]);
  }
  return anfi_sprintf(w->arena, "tensor<%s%s>", dims, anfi_sw_dtype(w, (anf_dtype)t->dtype));
}

const anf_type *anfi_sw_tensor(anfi_flat *w, anf_dtype d, size_t rank, const int64_t *dims) {
  return anfi_type_tensor(w->cx, anfi_dtype_settle(d), rank, dims);
}

typedef struct {
  anfi_flat *w;
  anf_text text;
} list;

static list *new_list(anfi_flat *w) {
  list *l = ANFI_NEW(w->arena, list);
  *l = (list){.w = w, .text = {.cx = w->cx}};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, &l->text);
  return l;
}

static const char *end_list(list *l) {
  const char *s = anfi_sprintf(l->w->arena, "%s", l->text.text ? l->text.text : "");
  anfi_undefer(l->w->cx, &l->text);
  anf_text_free(&l->text);
  return s;
}

static const char *ints(anfi_flat *w, const char *open, const char *close, size_t n,
                        const int64_t *x) {
  list *l = new_list(w);
  anfi_puts(&l->text, open);
  for (size_t i = 0; i < n; i++) anfi_putf(&l->text, "%s%lld", i ? ", " : "", (long long)x[i]);
  anfi_puts(&l->text, close);
  return end_list(l);
}

const char *anfi_sw_ints(anfi_flat *w, size_t n, const int64_t *x) {
  return ints(w, "[", "]", n, x);
}

const char *anfi_sw_array(anfi_flat *w, size_t n, const int64_t *x) {
  return n ? ints(w, "array<i64: ", ">", n, x) : "array<i64>";
}

const char *anfi_sw_names(anfi_flat *w, const anfi_outs *x) {
  list *l = new_list(w);
  for (size_t i = 0; i < x->n; i++) anfi_putf(&l->text, "%s%s", i ? ", " : "", x->at[i]->name);
  return end_list(l);
}

const char *anfi_sw_types(anfi_flat *w, const anfi_outs *x) {
  list *l = new_list(w);
  for (size_t i = 0; i < x->n; i++)
    anfi_putf(&l->text, "%s%s", i ? ", " : "", anfi_sw_type(w, x->at[i]->type));
  return end_list(l);
}

/* ---- lines ---- */

const char *anfi_sw_new_name(anfi_flat *w) {
  if (w->count == MAX_NAMES) (void)anfi_flat_refuse(w, NULL, "a program of", "so many nodes");
  return anfi_sprintf(w->arena, "%%%zu", w->count++);
}

static void indent(anfi_flat *w) {
  for (size_t i = 0; i < anfi_sw_own_of(w)->indent; i++) anfi_puts(w->out, "  ");
}

/* A line in the arena: a text of a known length is not needed anywhere. */
static char *formatted(anfi_arena *a, const char *fmt, va_list args) ANFI_PRINTF(2, 0);
static char *formatted(anfi_arena *a, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  char *s = (char *)anfi_alloc(a, (size_t)n + 1);
  vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}

void anfi_sw_line(anfi_flat *w, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  char *s = formatted(w->arena, fmt, args);
  va_end(args);
  indent(w);
  anfi_puts(w->out, s);
  anfi_putc(w->out, '\n');
}

const anfi_out *anfi_sw_put(anfi_flat *w, const anf_type *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  char *s = formatted(w->arena, fmt, args);
  va_end(args);
  const char *name = anfi_sw_new_name(w);
  anfi_sw_line(w, "%s = %s", name, s);
  return anfi_out_leaf(w, name, t);
}

/* ---- constants ---- */

static void put_float(anf_text *o, double x, anf_dtype d) {
  if (isfinite(x)) {
    anfi_putf(o, "%.17e", x);
    return;
  }
  bool nan = isnan(x), minus = !nan && x < 0;
  switch (d) { // MLIR has no words for these: their bits
  case ANF_F16: anfi_puts(o, nan ? "0x7E00" : minus ? "0xFC00" : "0x7C00"); break;
  case ANF_BF16: anfi_puts(o, nan ? "0x7FC0" : minus ? "0xFF80" : "0x7F80"); break;
  case ANF_F32:
  case ANF_C64: anfi_puts(o, nan ? "0x7FC00000" : minus ? "0xFF800000" : "0x7F800000"); break;
  default:
    anfi_puts(o, nan ? "0x7FF8000000000000" : minus ? "0xFFF0000000000000" : "0x7FF0000000000000");
  }
}

static void put_element(anf_text *o, const anf_value *v, size_t i) {
  anf_dtype d = anfi_dtype_settle((anf_dtype)v->type->dtype);
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_BOOL: anfi_puts(o, anfi_get_i64(v, i) ? "true" : "false"); return;
  case ANFI_CLASS_FLOAT: put_float(o, anfi_get_f64(v, i), d); return;
  case ANFI_CLASS_UNSIGNED: anfi_put_u64(o, (uint64_t)anfi_get_i64(v, i)); return;
  case ANFI_CLASS_COMPLEX: {
    bool wide = d == ANF_C128;
    const double *x = (const double *)v->data;
    const float *y = (const float *)v->data;
    anfi_putc(o, '(');
    put_float(o, wide ? x[2 * i] : (double)y[2 * i], d);
    anfi_puts(o, ", ");
    put_float(o, wide ? x[2 * i + 1] : (double)y[2 * i + 1], d);
    anfi_putc(o, ')');
    return;
  }
  default: anfi_put_i64(o, anfi_get_i64(v, i));
  }
}

/* The number of dims that begin, or end, at element i. */
static size_t edges(const anf_type *t, size_t i) {
  size_t n = 0;
  for (size_t size = 1, k = t->n; k > 0; k--, n++) {
    size *= (size_t)t->dims[k - 1];
    if (i % size) break;
  }
  return n;
}

static void put_nested(anf_text *o, const anf_value *v) {
  const anf_type *t = v->type;
  for (size_t i = 0; i < v->n; i++) {
    if (i) anfi_puts(o, ", ");
    for (size_t k = edges(t, i); k > 0; k--) anfi_putc(o, '[');
    put_element(o, v, i);
    for (size_t k = edges(t, i + 1); k > 0; k--) anfi_putc(o, ']');
  }
}

static bool all_same(const anf_value *v) {
  size_t size = v->n ? anf_dtype_bytes(anfi_dtype_settle((anf_dtype)v->type->dtype)) : 0;
  for (size_t i = 1; i < v->n; i++)
    if (memcmp((const char *)v->data + i * size, v->data, size) != 0) return false;
  return v->n > 0;
}

static void put_bytes(anf_text *o, const anf_value *v) {
  static const char digit[] = "0123456789ABCDEF";
  size_t n = v->n * anf_dtype_bytes(anfi_dtype_settle((anf_dtype)v->type->dtype));
  const unsigned char *b = (const unsigned char *)v->data;
  anfi_puts(o, "\"0x");
  for (size_t i = 0; i < n; i++) {
    char two[2] = {digit[b[i] >> 4], digit[b[i] & 15]};
    anfi_put(o, two, 2);
  }
  anfi_putc(o, '"');
}

const anfi_out *anfi_sw_constant(anfi_flat *w, const anf_value *v) {
  anf_dtype d = anfi_dtype_settle((anf_dtype)v->type->dtype);
  const anf_type *t = anfi_sw_tensor(w, d, v->type->n, v->type->dims);
  uint64_t *at = anfi_map_at(&anfi_sw_own_of(w)->constant, anfi_key(v));
  if (*at) return (const anfi_out *)(uintptr_t)*at;
  const char *name = anfi_sprintf(w->arena, "%%c%zu", w->count++);
  anf_text *o = anfi_sw_own_of(w)->constants;
  anfi_putf(o, "    %s = stablehlo.constant dense<", name);
  if (all_same(v)) put_element(o, v, 0);
  else if (v->n > FEW && d != ANF_BOOL) put_bytes(o, v);
  else put_nested(o, v);
  anfi_putf(o, "> : %s\n", anfi_sw_type(w, t));
  const anfi_out *x = anfi_out_leaf(w, name, t);
  *at = anfi_key(x);
  return x;
}

/* A scalar, once in a function. */
static const anfi_out *scalar(anfi_flat *w, anf_dtype d, const char *text) {
  const char *type = anfi_sprintf(w->arena, "tensor<%s>", anfi_sw_dtype(w, d));
  const char *key = anfi_sprintf(w->arena, "%s %s", text, type);
  uint64_t *at = anfi_map_at(&anfi_sw_own_of(w)->constant, anfi_key(anfi_intern_z(&w->words, key)));
  if (*at) return (const anfi_out *)(uintptr_t)*at;
  const char *name = anfi_sprintf(w->arena, "%%c%zu", w->count++);
  anfi_putf(anfi_sw_own_of(w)->constants, "    %s = stablehlo.constant dense<%s> : %s\n", name,
            text, type);
  const anfi_out *x = anfi_out_leaf(w, name, anfi_sw_tensor(w, d, 0, NULL));
  *at = anfi_key(x);
  return x;
}

const anfi_out *anfi_sw_number(anfi_flat *w, anf_dtype d, double x) {
  list *l = new_list(w);
  anfi_class c = anfi_dtype_class(d);
  if (c == ANFI_CLASS_BOOL) anfi_puts(&l->text, x != 0 ? "true" : "false");
  else if (c == ANFI_CLASS_SIGNED || c == ANFI_CLASS_UNSIGNED) anfi_put_i64(&l->text, (int64_t)x);
  else if (c == ANFI_CLASS_FLOAT) put_float(&l->text, x, d);
  else {
    anfi_putc(&l->text, '(');
    put_float(&l->text, x, d);
    anfi_puts(&l->text, ", 0.0)");
  }
  return scalar(w, d, end_list(l));
}

const anfi_out *anfi_sw_int(anfi_flat *w, anf_dtype d, int64_t x) {
  return scalar(w, d, anfi_sprintf(w->arena, "%lld", (long long)x));
}

const anfi_out *anfi_sw_limit(anfi_flat *w, anf_dtype d, bool least) {
  anfi_class c = anfi_dtype_class(d);
  unsigned bits = (unsigned)anf_dtype_bytes(d) * 8;
  if (c == ANFI_CLASS_BOOL) return anfi_sw_number(w, d, least ? 0 : 1);
  if (c == ANFI_CLASS_FLOAT) return anfi_sw_number(w, d, least ? -INFINITY : INFINITY);
  if (c == ANFI_CLASS_SIGNED)
    return anfi_sw_int(w, d, least ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
  uint64_t most = UINT64_MAX >> (64 - bits);
  return scalar(w, d, least ? "0" : anfi_sprintf(w->arena, "%llu", (unsigned long long)most));
}

/* ---- ops ---- */

const anfi_out *anfi_sw_unary(anfi_flat *w, const char *op, const anfi_out *x) {
  return anfi_sw_put(w, x->type, "%s %s : %s", op, x->name, anfi_sw_type(w, x->type));
}

const anfi_out *anfi_sw_binary(anfi_flat *w, const char *op, const anfi_out *a, const anfi_out *b) {
  return anfi_sw_put(w, a->type, "%s %s, %s : %s", op, a->name, b->name, anfi_sw_type(w, a->type));
}

const anfi_out *anfi_sw_compare(anfi_flat *w, const char *how, const anfi_out *a,
                                const anfi_out *b) {
  const anf_type *t = anfi_sw_tensor(w, ANF_BOOL, a->type->n, a->type->dims);
  const char *from = anfi_sw_type(w, a->type);
  return anfi_sw_put(w, t, "stablehlo.compare %s, %s, %s : (%s, %s) -> %s", how, a->name, b->name,
                     from, from, anfi_sw_type(w, t));
}

const anfi_out *anfi_sw_select(anfi_flat *w, const anfi_out *c, const anfi_out *a,
                               const anfi_out *b) {
  return anfi_sw_put(w, a->type, "stablehlo.select %s, %s, %s : %s, %s", c->name, a->name, b->name,
                     anfi_sw_type(w, c->type), anfi_sw_type(w, a->type));
}

const anfi_out *anfi_sw_iota(anfi_flat *w, const anf_type *t, size_t axis) {
  return anfi_sw_put(w, t, "stablehlo.iota dim = %zu : %s", axis, anfi_sw_type(w, t));
}

const anfi_out *anfi_sw_cast(anfi_flat *w, const anfi_out *x, anf_dtype d) {
  d = anfi_dtype_settle(d);
  if (anfi_dtype_settle((anf_dtype)x->type->dtype) == d) return x;
  const anf_type *t = anfi_sw_tensor(w, d, x->type->n, x->type->dims);
  return anfi_sw_put(w, t, "stablehlo.convert %s : (%s) -> %s", x->name, anfi_sw_type(w, x->type),
                     anfi_sw_type(w, t));
}

static bool same_dims(const anf_type *t, size_t rank, const int64_t *dims) {
  return t->n == rank && (!rank || memcmp(t->dims, dims, rank * sizeof *dims) == 0);
}

const anfi_out *anfi_sw_reshape(anfi_flat *w, const anfi_out *x, size_t rank, const int64_t *dims) {
  if (same_dims(x->type, rank, dims)) return x;
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, rank, dims);
  return anfi_sw_put(w, t, "stablehlo.reshape %s : (%s) -> %s", x->name, anfi_sw_type(w, x->type),
                     anfi_sw_type(w, t));
}

const anfi_out *anfi_sw_transpose(anfi_flat *w, const anfi_out *x, const int64_t *perm) {
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t i = 0; i < x->type->n; i++) dims[i] = x->type->dims[perm[i]];
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, x->type->n, dims);
  return anfi_sw_put(w, t, "stablehlo.transpose %s, dims = %s : (%s) -> %s", x->name,
                     anfi_sw_ints(w, x->type->n, perm), anfi_sw_type(w, x->type),
                     anfi_sw_type(w, t));
}

const anfi_out *anfi_sw_broadcast(anfi_flat *w, const anfi_out *x, size_t rank,
                                  const int64_t *dims) {
  int64_t to[ANF_MAX_RANK];
  if (same_dims(x->type, rank, dims)) return x;
  for (uint32_t i = 0; i < x->type->n; i++) to[i] = (int64_t)(rank - x->type->n + i);
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, rank, dims);
  return anfi_sw_put(w, t, "stablehlo.broadcast_in_dim %s, dims = %s : (%s) -> %s", x->name,
                     anfi_sw_ints(w, x->type->n, to), anfi_sw_type(w, x->type), anfi_sw_type(w, t));
}

const anfi_out *anfi_sw_slice(anfi_flat *w, const anfi_out *x, const int64_t *start,
                              const int64_t *stop, const int64_t *step) {
  int64_t dims[ANF_MAX_RANK];
  uint32_t n = x->type->n;
  for (uint32_t i = 0; i < n; i++)
    dims[i] = stop[i] > start[i] ? (stop[i] - start[i] - 1) / step[i] + 1 : 0;
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, n, dims);
  return anfi_sw_put(w, t,
                     "\"stablehlo.slice\"(%s) <{start_indices = %s, limit_indices = %s, strides = "
                     "%s}> : (%s) -> %s",
                     x->name, anfi_sw_array(w, n, start), anfi_sw_array(w, n, stop),
                     anfi_sw_array(w, n, step), anfi_sw_type(w, x->type), anfi_sw_type(w, t));
}
