// SPDX-License-Identifier: Apache-2.0
/* The wire format of protobuf (wire.h).
 *   08 96 01   ->   field 1, a varint of 150          anfi_wire_put_varint(o, 1, 150)   ->   08 96 01
 * INVARIANT: every length is checked against the end of the message before use. */
#include "frontend/proto/wire.h"

anfi_wire anfi_wire_of(const char *data, size_t len) {
  const unsigned char *p = (const unsigned char *)data;
  return (anfi_wire){.p = p, .end = p ? p + len : p};
}

static bool cut(anfi_wire *w) {
  w->bad = true;
  return false;
}

static bool varint(anfi_wire *w, uint64_t *out) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 64 && w->p < w->end; shift += 7) {
    unsigned char c = *w->p++;
    v |= (uint64_t)(c & 0x7f) << shift;
    if (c < 0x80) return *out = v, true;
  }
  return cut(w);
}

static bool fixed(anfi_wire *w, size_t bytes, uint64_t *out) {
  if ((size_t)(w->end - w->p) < bytes) return cut(w);
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; i++) v |= (uint64_t)w->p[i] << (8 * i);
  w->p += bytes;
  return *out = v, true;
}

static bool bytes(anfi_wire *w, anfi_wire_field *f) {
  uint64_t n;
  if (!varint(w, &n)) return false;
  if (n > (uint64_t)(w->end - w->p)) return cut(w);
  f->data = (const char *)w->p;
  f->len = (size_t)n;
  w->p += n;
  return true;
}

bool anfi_wire_next(anfi_wire *w, anfi_wire_field *f) {
  uint64_t tag;
  if (w->bad || w->p >= w->end || !varint(w, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return cut(w);
  *f = (anfi_wire_field){.number = (uint32_t)(tag >> 3), .type = (anfi_wire_type)(tag & 7)};
  switch (tag & 7) {
  case ANFI_WIRE_VARINT: return varint(w, &f->u);
  case ANFI_WIRE_64: return fixed(w, 8, &f->u);
  case ANFI_WIRE_32: return fixed(w, 4, &f->u);
  case ANFI_WIRE_BYTES: return bytes(w, f);
  default: return cut(w);
  }
}

float anfi_wire_float(uint64_t u) {
  uint32_t bits = (uint32_t)u;
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

double anfi_wire_double(uint64_t u) {
  double v;
  memcpy(&v, &u, sizeof v);
  return v;
}

/* Calls `add` for each number. */
static bool numbers(const anfi_wire_field *f, anfi_wire_type each, void (*add)(void *, uint64_t),
                    void *user) {
  if (f->type != ANFI_WIRE_BYTES) return add(user, f->u), true;
  anfi_wire w = anfi_wire_of(f->data, f->len);
  uint64_t v;
  while (w.p < w.end) {
    if (!(each == ANFI_WIRE_VARINT ? varint(&w, &v) : fixed(&w, each == ANFI_WIRE_32 ? 4 : 8, &v)))
      return false;
    add(user, v);
  }
  return true;
}

typedef struct {
  anfi_arena *a;
  anfi_wire_ints *ints;
  anfi_wire_reals *reals;
  bool wide;
} list;

static void add_int(void *u, uint64_t v) {
  list *l = (list *)u;
  anfi_push(l->a, l->ints, (int64_t)v);
}

static void add_real(void *u, uint64_t v) {
  list *l = (list *)u;
  anfi_push(l->a, l->reals, l->wide ? anfi_wire_double(v) : (double)anfi_wire_float(v));
}

bool anfi_wire_add_ints(const anfi_wire_field *f, anfi_arena *a, anfi_wire_ints *to) {
  return numbers(f, ANFI_WIRE_VARINT, add_int, &(list){.a = a, .ints = to});
}

bool anfi_wire_add_reals(const anfi_wire_field *f, anfi_wire_type each, anfi_arena *a,
                         anfi_wire_reals *to) {
  return numbers(f, each, add_real, &(list){a, NULL, to, each == ANFI_WIRE_64});
}

/* ---- writing ---- */

static void put_varint(anf_text *o, uint64_t v) {
  char c[10];
  size_t n = 0;
  do {
    c[n++] = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    v >>= 7;
  } while (v);
  anfi_put(o, c, n);
}

static void put_tag(anf_text *o, uint32_t number, anfi_wire_type type) {
  put_varint(o, (uint64_t)number << 3 | (uint64_t)type);
}

static void put_fixed(anf_text *o, uint64_t v, size_t n) {
  char c[8];
  for (size_t i = 0; i < n; i++) c[i] = (char)(v >> (8 * i));
  anfi_put(o, c, n);
}

/* The length comes before the message, so it gets room first. A large message is not moved afterwards: its length
 * fills the room, since a varint may have more bytes than it needs. */
enum { LENGTH_ROOM = 5, MOVED = 1 << 16 }; // 5 bytes: the most that other readers take for a length

size_t anfi_wire_open(anf_text *o, uint32_t number) {
  put_tag(o, number, ANFI_WIRE_BYTES);
  anfi_put(o, "\0\0\0\0\0", LENGTH_ROOM);
  return o->len;
}

void anfi_wire_close(anf_text *o, size_t at) {
  size_t len = o->len - at, rest = len, n = 0;
  char *room = o->text + at - LENGTH_ROOM;
  bool whole = len >= MOVED; // fill the room
  do {
    bool more = whole ? n + 1 < LENGTH_ROOM : rest > 0x7f;
    room[n++] = (char)((rest & 0x7f) | (more ? 0x80 : 0));
    rest >>= 7;
  } while (whole ? n < LENGTH_ROOM : rest != 0);
  if (whole) return;
  memmove(room + n, o->text + at, len);
  o->len -= LENGTH_ROOM - n;
}

void anfi_wire_put_varint(anf_text *o, uint32_t number, uint64_t v) {
  put_tag(o, number, ANFI_WIRE_VARINT);
  put_varint(o, v);
}

void anfi_wire_put_bytes(anf_text *o, uint32_t number, const char *p, size_t n) {
  put_tag(o, number, ANFI_WIRE_BYTES);
  put_varint(o, n);
  anfi_put(o, p, n);
}

void anfi_wire_put_text(anf_text *o, uint32_t number, const char *s) {
  anfi_wire_put_bytes(o, number, s, strlen(s));
}

void anfi_wire_put_float(anf_text *o, uint32_t number, float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  put_tag(o, number, ANFI_WIRE_32);
  put_fixed(o, bits, 4);
}

void anfi_wire_put_double(anf_text *o, uint32_t number, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  put_tag(o, number, ANFI_WIRE_64);
  put_fixed(o, bits, 8);
}
