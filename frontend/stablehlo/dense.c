// SPDX-License-Identifier: Apache-2.0
/* dense<..> : type. The elements are one number for all of them (a splat), nested lists, or the bytes as hex digits:
 *   dense<0.0> : tensor<1000x1000xf32>   dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>   dense<"0x00000080"> : tensor<1xf32>
 * The type comes last, so the elements are skipped first. INVARIANT: no more memory is taken for elements than the text that
 * they are written in has bytes; a splat is one element. */
#include "frontend/stablehlo/stablehlo.h"

#include <errno.h>
#include <stdlib.h>
#include <math.h>

typedef struct {
  anfi_sh_text *r;
  const anf_type *type;
  anf_value *v;
  size_t n; // elements read
} dense;

static bool wrong_count(dense *q, size_t have) {
  size_t need = 0;
  anfi_type_elements(q->type, &need);
  return anfi_fail(q->r->m->cx, anfi_sh_loc(q->r), ANF_E1226, have, need);
}

/* ---- elements ---- */

static anf_dtype part_type(const anf_type *t) {
  anf_dtype d = (anf_dtype)t->dtype;
  return d == ANF_C64 ? ANF_F32 : d == ANF_C128 ? ANF_F64 : d;
}

static bool is_float(anf_dtype d) { return anfi_dtype_is_float(d); }

/* 0x7FC00000: the bits of a float. */
static bool float_bits(dense *q, anf_dtype d, uint64_t bits, double *out) {
  uint32_t low = (uint32_t)bits;
  float f;
  if (d == ANF_F64) return memcpy(out, &bits, sizeof bits), true;
  if (d == ANF_F16) return *out = (double)anfi_f16_to_f32((uint16_t)bits), true;
  if (d == ANF_BF16) low <<= 16;
  memcpy(&f, &low, sizeof f);
  *out = (double)f;
  return q != NULL;
}

static bool real(dense *q, anf_dtype d, double *out) {
  anfi_sh_text *r = q->r;
  anfi_sh_space(r);
  char *end;
  if (r->at[0] == '0' && r->at[1] == 'x') {
    uint64_t bits = strtoull(r->at, &end, 16);
    r->at = end;
    return float_bits(q, d, bits, out);
  }
  if (*r->at != '-' && *r->at != '+' && !(*r->at >= '0' && *r->at <= '9'))
    return anfi_sh_wants(r, "a number");
  *out = d == ANF_F32 ? (double)anfi_read_f32(r->at, &end) : anfi_read_f64(r->at, &end);
  if (end == r->at) return anfi_sh_wants(r, "a number");
  r->at = end;
  return true;
}

static bool integer(dense *q, int64_t *out) {
  anfi_sh_text *r = q->r;
  anf_dtype d = (anf_dtype)q->type->dtype;
  if (anfi_sh_takes(r, "true")) return *out = 1, true;
  if (anfi_sh_takes(r, "false")) return *out = 0, true;
  anfi_sh_space(r);
  char *end;
  bool minus = *r->at == '-';
  const char *digits = r->at + minus;
  if (*digits < '0' || *digits > '9') return anfi_sh_wants(r, "an integer");
  errno = 0;
  uint64_t u = strtoull(digits, &end, digits[1] == 'x' ? 16 : 10);
  *out = minus ? (int64_t)(0 - u) : (int64_t)u;
  bool fits = errno != ERANGE;
  if (d == ANF_U64) fits = fits && (!minus || !u);
  else
    fits = fits && u <= (uint64_t)INT64_MAX + minus &&
           (d == ANF_I64 || d == ANF_BOOL || anfi_dtype_holds(d, *out, *out) ||
            (!minus && digits[1] == 'x'));
  if (!fits) return anfi_sh_wants(r, "an integer that the element type holds");
  r->at = end;
  return true;
}

static bool complex_element(dense *q, size_t i) {
  double re, im;
  anf_dtype d = part_type(q->type);
  if (!anfi_sh_expect(q->r, "(") || !real(q, d, &re) || !anfi_sh_expect(q->r, ",") ||
      !real(q, d, &im) || !anfi_sh_expect(q->r, ")"))
    return false;
  if (d == ANF_F32)
    ((float *)q->v->data)[2 * i] = (float)re, ((float *)q->v->data)[2 * i + 1] = (float)im;
  else ((double *)q->v->data)[2 * i] = re, ((double *)q->v->data)[2 * i + 1] = im;
  return true;
}

static bool element(dense *q) {
  anf_dtype d = (anf_dtype)q->type->dtype;
  double x = 0;
  int64_t k = 0;
  if (q->n >= q->v->n) return wrong_count(q, q->n + 1);
  size_t i = q->n++;
  if (d == ANF_C64 || d == ANF_C128) return complex_element(q, i);
  if (is_float(d)) return real(q, d, &x) && (anfi_set_f64(q->v, i, x), true);
  return integer(q, &k) && (anfi_set_i64(q->v, i, k), true);
}

/* ---- lists ---- */

/* Reads nested lists, each with as many items as its dim says. */
static bool lists(dense *q) {
  size_t count[ANF_MAX_RANK + 1] = {0}, depth = 0;
  do {
    if (anfi_sh_takes(q->r, "[")) {
      if (depth == q->type->n) return anfi_sh_wants(q->r, "lists as deep as the type has dims");
      count[++depth] = 0;
      if (!anfi_sh_sees(q->r, "]")) continue;
    } else if (depth != q->type->n)
      return anfi_sh_wants(q->r, "lists as deep as the type has dims");
    else if (!element(q)) return false;
    else count[depth]++;
    while (depth && anfi_sh_takes(q->r, "]")) {
      if ((int64_t)count[depth] != q->type->dims[depth - 1]) return wrong_count(q, count[depth]);
      count[--depth]++;
    }
    if (depth && !anfi_sh_expect(q->r, ",")) return false;
  } while (depth);
  return q->n == q->v->n || wrong_count(q, q->n);
}

/* ---- hex ---- */

static int digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

static bool hex_bytes(dense *q, const char *at, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int high = digit(at[2 * i]), low = digit(at[2 * i + 1]);
    if (high < 0 || low < 0) return anfi_sh_wants(q->r, "hex digits");
    q->v->data[i] = (unsigned char)(high << 4 | low);
  }
  return true;
}

/* Bools are a byte each or a bit each. */
static bool bools(dense *q, const char *at, size_t n) {
  size_t have = q->v->n;
  if (n == have) {
    if (!hex_bytes(q, at, n)) return false;
    for (size_t i = 0; i < n; i++) q->v->data[i] = q->v->data[i] != 0;
    return true;
  }
  if (n != (have + 7) / 8) return wrong_count(q, n);
  for (size_t i = 0; i < have; i++) {
    int high = digit(at[2 * (i / 8)]), low = digit(at[2 * (i / 8) + 1]);
    if (high < 0 || low < 0) return anfi_sh_wants(q->r, "hex digits");
    q->v->data[i] = (unsigned char)((high << 4 | low) >> (i % 8) & 1);
  }
  return true;
}

/* ---- the whole ---- */

static bool new_value(dense *q, const anf_type *type) {
  q->v = anfi_trace_hold(q->r->m->t, anfi_value_new_tensor(q->r->m->cx, type));
  return true;
}

static bool from_hex(dense *q, const anfi_str *s) {
  size_t each = anf_dtype_bytes((anf_dtype)q->type->dtype), n = 0;
  if (s->len < 2 || s->len % 2 || s->s[0] != '0' || s->s[1] != 'x')
    return anfi_sh_wants(q->r, "hex digits after 0x");
  size_t bytes = (s->len - 2) / 2;
  if (!anfi_type_elements(q->type, &n)) return anfi_sh_wants(q->r, "a type with sizes");
  bool is_bool = q->type->dtype == ANF_BOOL, one = bytes == each && n != 1;
  if (one && is_bool && n <= 8) one = n == 0;
  if (one) new_value(q, anfi_type_scalar(q->r->m->cx, (anf_dtype)q->type->dtype));
  else if (is_bool ? bytes != n && bytes != (n + 7) / 8 : n > bytes || bytes != n * each)
    return wrong_count(q, is_bool ? bytes : bytes / each);
  else new_value(q, q->type);
  return is_bool ? bools(q, s->s + 2, bytes) : hex_bytes(q, s->s + 2, bytes);
}

static bool from_text(dense *q) {
  size_t n = 0, left = (size_t)(q->r->end - q->r->at);
  bool list = anfi_sh_sees(q->r, "[");
  const anf_type *scalar = anfi_type_scalar(q->r->m->cx, (anf_dtype)q->type->dtype);
  if (!list) {
    const anf_type *whole = q->type;
    if (anfi_sh_sees(q->r, ">")) { // dense<>: no elements
      if (!anfi_type_elements(whole, &n) || n) return wrong_count(q, 0);
      return new_value(q, whole);
    }
    q->type = scalar;
    new_value(q, scalar);
    bool good = element(q);
    q->type = whole;
    return good;
  }
  if (!anfi_type_elements(q->type, &n) || n > left) return wrong_count(q, left);
  new_value(q, q->type);
  return lists(q);
}

anf_value *anfi_sh_dense(anfi_sh_text *r) {
  dense q = {.r = r};
  anfi_sh_space(r);
  anfi_sh_text elements = *r;
  if (!anfi_sh_expect(&elements, "<")) return (void)anfi_sh_wants(r, "<"), NULL;
  if (!anfi_sh_skip(r) || !anfi_sh_expect(r, ":") || !(q.type = anfi_sh_type(r))) return NULL;
  if (!anfi_is_tensor(q.type)) return (void)anfi_sh_wants(r, "the type of a tensor"), NULL;
  q.r = &elements;
  if (!anfi_sh_sees(&elements, "\""))
    return from_text(&q) && anfi_sh_expect(&elements, ">") ? q.v : NULL;
  const anfi_str *s = anfi_sh_quoted(&elements);
  return s && from_hex(&q, s) && anfi_sh_expect(&elements, ">") ? q.v : NULL;
}
