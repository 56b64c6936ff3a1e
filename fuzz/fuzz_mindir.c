// SPDX-License-Identifier: Apache-2.0
/* The reader of .mindir: any bytes are refused with a reason, or give a module that is whole. The mutator knows protobuf: it changes one field
 * somewhere in the tree of messages, and the lengths of those around it with it, so that most inputs are read to their end; a name becomes
 * another name of the file, so that nodes come to call and take others; messages of two files are put together. */
#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m,
                                 uint8_t *out, size_t max, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_read(anf_read_mindir, false, "fuzz.mindir", data, size);
}

/* ---- mutation ---- */

enum { FIELDS = 512, DEPTH = 6, ROOM = 1 << 16 };

typedef struct {
  size_t from, payload, to; // [from, payload) is the tag and the length
  unsigned wire;
} field;

static unsigned state;
static unsigned below(unsigned n) { // n > 0
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}

/* False: cut short. */
static bool varint(const uint8_t *p, size_t n, size_t *at, uint64_t *v) {
  *v = 0;
  for (unsigned shift = 0; *at < n && shift < 64; shift += 7) {
    uint8_t b = p[(*at)++];
    *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

/* The fields of a message; 0: it is none, or has too many. */
static size_t fields(const uint8_t *p, size_t n, field *out) {
  size_t count = 0;
  for (size_t at = 0; at < n;) {
    uint64_t tag, v = 0;
    field f = {.from = at};
    if (count == FIELDS || !varint(p, n, &at, &tag) || !(tag >> 3) || tag >> 3 > 64) return 0;
    f.wire = (unsigned)(tag & 7);
    f.payload = at;
    if (f.wire == 0 && !varint(p, n, &at, &v)) return 0;
    if (f.wire == 2 && !varint(p, n, &at, &v)) return 0;
    if (f.wire == 2) f.payload = at;
    uint64_t skip = f.wire == 2 ? v : f.wire == 1 ? 8 : f.wire == 5 ? 4 : 0;
    if (f.wire > 5 || f.wire == 3 || f.wire == 4 || skip > n - at) return 0;
    f.to = at += (size_t)skip;
    out[count++] = f;
  }
  return count;
}

static size_t put_varint(uint8_t *to, uint64_t v) {
  size_t n = 0;
  for (; v > 127; v >>= 7) to[n++] = (uint8_t)(v | 128);
  to[n++] = (uint8_t)v;
  return n;
}

/* before + the field's tag, a new length, the new payload + after; 0: there is no room. */
static size_t replace(const uint8_t *p, size_t n, const field *f, const uint8_t *with, size_t len,
                      uint8_t *out, size_t room) {
  size_t at = f->from, tag_end = f->from;
  uint64_t tag;
  if (!varint(p, n, &tag_end, &tag) || n + len + 16 > room) return 0;
  memcpy(out, p, tag_end);
  at = tag_end;
  at += put_varint(out + at, len);
  memcpy(out + at, with, len);
  memcpy(out + at + len, p + f->to, n - f->to);
  return at + len + n - f->to;
}

/* Moves the bytes of one field to the place of another, or after it, or drops them. */
static size_t rearranged(const uint8_t *p, size_t n, const field *all, size_t count, uint8_t *out,
                         size_t room) {
  const field *a = &all[below((unsigned)count)], *b = &all[below((unsigned)count)];
  size_t len = b->to - b->from, how = below(3);
  size_t skip = how == 0 ? a->to - a->from : how == 1 ? a->to - a->from : 0;
  if (how == 0) len = 0; // dropped
  if (n + len > room) return 0;
  size_t at = a->from;
  memcpy(out, p, at);
  memcpy(out + at, p + b->from, len);
  memcpy(out + at + len, p + at + skip, n - at - skip);
  return n + len - skip;
}

static size_t number(const uint8_t *p, size_t n, const field *f, uint8_t *out, size_t room) {
  static const uint64_t some[] = {0,  1,  2,   3,        7,         19,         20,
                                  23, 64, 255, 1u << 20, INT64_MAX, UINT64_MAX, (uint64_t)-2};
  uint64_t v = below(2) ? some[below(sizeof some / sizeof *some)] : below(64);
  if (n + 16 > room) return 0;
  memcpy(out, p, f->payload);
  size_t at = f->payload + put_varint(out + f->payload, v);
  memcpy(out + at, p + f->to, n - f->to);
  return at + n - f->to;
}

/* A text or bytes from anywhere in a file: the name of some node, graph, primitive, attribute or tensor. NULL: there is none on the way taken. */
static const uint8_t *leaf(const uint8_t *p, size_t n, size_t *len) {
  static field all[FIELDS];
  for (unsigned depth = 0; depth < DEPTH; depth++) {
    size_t count = n ? fields(p, n, all) : 0;
    if (!count) break;
    const field *f = &all[below((unsigned)count)];
    for (unsigned tries = 0; f->wire != 2 && tries < 8; tries++) f = &all[below((unsigned)count)];
    if (f->wire != 2) return NULL;
    p += f->payload, n = f->to - f->payload;
  }
  *len = n;
  return n < 256 ? p : NULL;
}

static const uint8_t *whole; // the file being changed
static size_t whole_len;

/* The recursion is DEPTH deep at most. */
static size_t mutate(const uint8_t *p, size_t n, uint8_t *out, size_t room, unsigned depth) {
  static field all[DEPTH + 1][FIELDS];
  static uint8_t inner[DEPTH + 1][ROOM];
  size_t count = n && depth < DEPTH ? fields(p, n, all[depth]) : 0;
  if (!count) { // a text, packed numbers, bytes of a tensor
    size_t len = 0;
    const uint8_t *other = below(3) ? leaf(whole, whole_len, &len) : NULL;
    if (n > room || len > room) return 0;
    if (other) return memcpy(out, other, len), len;
    memcpy(out, p, n);
    return LLVMFuzzerMutate(out, n, n + 8 < room ? n + 8 : room);
  }
  const field *f = &all[depth][below((unsigned)count)];
  if (below(4) == 0) return rearranged(p, n, all[depth], count, out, room);
  if (f->wire == 0) return number(p, n, f, out, room);
  if (f->wire != 2) return rearranged(p, n, all[depth], count, out, room);
  if (below(8) == 0) { // the payload of a sibling: another name, another type
    const field *g = &all[depth][below((unsigned)count)];
    if (g->wire == 2) return replace(p, n, f, p + g->payload, g->to - g->payload, out, room);
  }
  size_t len = mutate(p + f->payload, f->to - f->payload, inner[depth], ROOM, depth + 1);
  return replace(p, n, f, inner[depth], len, out, room);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
  static uint8_t out[ROOM];
  state = seed;
  if (below(20) == 0 || size > ROOM) return LLVMFuzzerMutate(data, size, max);
  size_t n = size;
  for (unsigned changes = 1 + below(3) * below(2); changes && n; changes--) {
    whole = data, whole_len = n;
    n = mutate(data, n, out, max < ROOM ? max : ROOM, 0);
    if (!n || n > max) return LLVMFuzzerMutate(data, size, max);
    memcpy(data, out, n);
  }
  return n;
}

/* ---- two files ---- */

/* A field of `q` comes after or in place of one of `p` with the same number, in messages of the same kind: a node of the other
 * file's graph among this one's, a primitive in its table. */
static size_t joined(const uint8_t *p, size_t n, const uint8_t *q, size_t m, uint8_t *out,
                     size_t room, unsigned depth) {
  static field ours[DEPTH + 1][FIELDS], theirs[DEPTH + 1][FIELDS];
  static uint8_t inner[DEPTH + 1][ROOM];
  size_t count = n && depth < DEPTH ? fields(p, n, ours[depth]) : 0;
  size_t others = m && depth < DEPTH ? fields(q, m, theirs[depth]) : 0;
  if (!count || !others) return 0;
  const field *f = &ours[depth][below((unsigned)count)], *g = NULL;
  for (unsigned tries = 0; tries < 16 && !(g && p[f->from] == q[g->from]); tries++)
    g = &theirs[depth][below((unsigned)others)];
  if (p[f->from] != q[g->from]) return 0;
  size_t len = f->wire == 2 && below(2 + (depth == 0) * 4)
                   ? joined(p + f->payload, f->to - f->payload, q + g->payload, g->to - g->payload,
                            inner[depth], ROOM, depth + 1)
                   : 0;
  if (len) return replace(p, n, f, inner[depth], len, out, room);
  size_t from = below(2) ? f->from : f->to;
  len = g->to - g->from;
  if (n + len > room) return 0;
  memcpy(out, p, from);
  memcpy(out + from, q + g->from, len);
  memcpy(out + from + len, p + f->to, n - f->to);
  return from + len + n - f->to;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *p, size_t n, const uint8_t *q, size_t m,
                                 uint8_t *out, size_t max, unsigned seed) {
  state = seed;
  if (n > ROOM || m > ROOM || !max) return 0;
  size_t len = joined(p, n, q, m, out, max < ROOM ? max : ROOM, 0);
  if (len) return len;
  len = n < max ? n : max;
  memcpy(out, p, len);
  return len;
}
