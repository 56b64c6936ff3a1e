// SPDX-License-Identifier: Apache-2.0
/* What a Print of an object shows, on standard output: the text of its site, with the numbers and tensors that code
 * passes.
 *   "x = " LEAF "f32[2]" END and the address of {1, 2}   ->   x = [1.0, 2.0]
 * The library prints the same.
 * INVARIANT: takes no memory. */
#define _POSIX_C_SOURCE 200809L // flockfile
#include "base/base.h"
#include "runtime/rt.h"

#include <stdlib.h>

typedef void (*put_fn)(FILE *to, const char *p);

static void put_bool(FILE *to, const char *p) { fputs(*p ? "true" : "false", to); }

#define INTEGER(name, type, format, wide)                                                          \
  static void put_##name(FILE *to, const char *p) {                                                \
    type v;                                                                                        \
    memcpy(&v, p, sizeof v);                                                                       \
    fprintf(to, format, (wide)v);                                                                  \
  }
INTEGER(i8, int8_t, "%lld", long long)
INTEGER(i16, int16_t, "%lld", long long)
INTEGER(i32, int32_t, "%lld", long long)
INTEGER(i64, int64_t, "%lld", long long)
INTEGER(u8, uint8_t, "%llu", unsigned long long)
INTEGER(u16, uint16_t, "%llu", unsigned long long)
INTEGER(u32, uint32_t, "%llu", unsigned long long)
INTEGER(u64, uint64_t, "%llu", unsigned long long)
INTEGER(key, uint64_t, "0x%016llx", unsigned long long)

#define REAL(name, type, text)                                                                     \
  static void put_##name(FILE *to, const char *p) {                                                \
    char buf[ANFI_NUMBER];                                                                         \
    type v;                                                                                        \
    memcpy(&v, p, sizeof v);                                                                       \
    fwrite(buf, 1, text, to);                                                                      \
  }
REAL(f16, uint16_t, anfi_text_half(buf, v, false))
REAL(bf16, uint16_t, anfi_text_half(buf, v, true))
REAL(f32, float, anfi_text_f32(buf, v))
REAL(f64, double, anfi_text_f64(buf, v))

#define COMPLEX(name, part)                                                                        \
  static void put_##name(FILE *to, const char *p) {                                                \
    fputc('(', to);                                                                                \
    put_##part(to, p);                                                                             \
    fputs(", ", to);                                                                               \
    put_##part(to, p + sizeof(part));                                                              \
    fputc(')', to);                                                                                \
  }
typedef float f32;
typedef double f64;
COMPLEX(c64, f32)
COMPLEX(c128, f64)

typedef struct element {
  char name[5];
  uint8_t bytes;
  put_fn put;
} element;

static const element elements[] = {
    {"bool", 1, put_bool}, {"i8", 1, put_i8},   {"i16", 2, put_i16},    {"i32", 4, put_i32},
    {"i64", 8, put_i64},   {"u8", 1, put_u8},   {"u16", 2, put_u16},    {"u32", 4, put_u32},
    {"u64", 8, put_u64},   {"f16", 2, put_f16}, {"bf16", 2, put_bf16},  {"f32", 4, put_f32},
    {"f64", 8, put_f64},   {"c64", 8, put_c64}, {"c128", 16, put_c128}, {"key", 8, put_key}};

static const element *element_of(const char *s, size_t len) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (strlen(elements[i].name) == len && memcmp(elements[i].name, s, len) == 0)
      return &elements[i];
  return NULL;
}

/* ---- tensors: nested lists, row-major ---- */

enum { MOST_DIMS = 64 };

typedef struct shape {
  size_t n, dim[MOST_DIMS], items;
} shape;

/* "[2,3]" and what follows */
static const char *read_shape(const char *p, shape *s) {
  s->n = 0;
  s->items = 1;
  for (p++; *p != ']'; p += *p == ',') {
    char *end;
    size_t d = (size_t)strtoull(p, &end, 10);
    if (end == p || s->n == MOST_DIMS) return NULL;
    s->dim[s->n++] = d;
    s->items *= d;
    p = end;
  }
  return p + 1;
}

static void put_many(FILE *to, size_t n, char c) {
  while (n-- > 0) fputc(c, to);
}

/* Rows that begin at item i: as many as there are trailing dims that i is a multiple of */
static size_t rows_at(const shape *s, size_t i) {
  size_t k = 0, size = 1;
  while (k < s->n && (size *= s->dim[s->n - 1 - k], i % size == 0)) k++;
  return k;
}

static void put_tensor(FILE *to, const shape *s, const element *e, const char *p) {
  if (!s->items) fputs("[]", to);
  for (size_t i = 0; i < s->items; i++) {
    size_t rows = i ? rows_at(s, i) : s->n;
    if (i) {
      put_many(to, rows, ']');
      fputs(", ", to);
    }
    put_many(to, rows, '[');
    e->put(to, p + i * e->bytes);
  }
  if (s->items) put_many(to, s->n, ']');
}

/* ---- the text ---- */

typedef struct leaves {
  const uint64_t *at, *end;
} leaves;

static const char *put_leaf(FILE *to, const char *p, leaves *l) {
  const element *e = element_of(p, strcspn(p, "[\004"));
  if (!e || l->at == l->end) return NULL;
  const uint64_t *bits = l->at++;
  p += strlen(e->name);
  shape s;
  if (*p != '[') e->put(to, (const char *)bits);
  else if ((p = read_shape(p, &s))) put_tensor(to, &s, e, (const char *)(uintptr_t)*bits);
  return p && *p == ANF_SITE_END ? p + 1 : NULL;
}

/* The character at p, or nothing if it is left out; what follows */
static const char *put_char(FILE *to, const char *p, bool out) {
  bool escaped = *p == ANF_SITE_ESCAPE;
  p += escaped && p[1];
  if (out) fputc(escaped ? *p - '@' : *p, to);
  return p + 1;
}

static const char *put_choice(FILE *to, const char *p, leaves *l) {
  if (l->at == l->end) return NULL;
  uint64_t want = *l->at++;
  for (uint64_t k = 0; *p && *p != ANF_SITE_END;) {
    if (*p == ANF_SITE_NEXT) k++, p++;
    else p = put_char(to, p, k == want);
  }
  return *p ? p + 1 : NULL;
}

void anfi_rt_put_site(FILE *to, const char *text, size_t n, const uint64_t *leaf) {
  leaves l = {leaf, leaf + n};
  flockfile(to); // lines of threads do not mix
  for (const char *p = text; p && *p;) {
    if (*p == ANF_SITE_LEAF) p = put_leaf(to, p + 1, &l);
    else if (*p == ANF_SITE_CHOICE) p = put_choice(to, p + 1, &l);
    else p = put_char(to, p, true);
  }
  funlockfile(to);
}
