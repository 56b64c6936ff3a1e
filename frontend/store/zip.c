// SPDX-License-Identifier: Apache-2.0
/* Archives as PNNX stores weights and NumPy arrays: zip32 and zip64.
 *   anfi_zip_read(cx, a, "net.bin", data, len, &z)   ->   z.entries: name, size and bytes of each file in it
 * Entries are read in place, deflated ones into memory of their own by zlib. A library of archives was weighed: it
 * copies each entry through calls of its own, allocates outside the context's limits, and cannot write what pnnx
 * writes, zip64 records at any size.
 * INVARIANT: every offset and size is checked against the length of the file before use, and entries lie in the file. */
#include "frontend/store/zip.h"

#include <limits.h>
#include <zlib.h>

typedef struct {
  anf_ctx *cx;
  const char *file;
  const unsigned char *data;
  size_t len;
  anfi_arena *a;           // of entries that are inflated
  anfi_inflating *inflate; // made for the first of them
} archive;

static bool bad(const archive *z, const char *why, size_t at) {
  return anfi_fail(z->cx, anfi_nowhere(), ANF_E1040, z->file, why, at);
}

static uint64_t get(const archive *z, size_t at, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = bytes; i-- > 0;) v = v << 8 | z->data[at + i];
  return v;
}

static bool has(const archive *z, uint64_t at, uint64_t bytes) {
  return at <= z->len && bytes <= z->len - at;
}

static bool sig(const archive *z, size_t at, unsigned what) {
  return get(z, at, 4) == (0x4b50u | what << 16);
}

/* ---- reading ---- */

typedef struct {
  uint64_t count, size, offset;
} directory;

enum { END = 22, LOCATOR = 20, END64 = 56, CENTRAL = 46, LOCAL = 30 };

static bool find_end64(const archive *z, size_t end, directory *d) {
  if (end < LOCATOR || !sig(z, end - LOCATOR, 0x0706))
    return bad(z, "the record of a zip64 archive is missing", end);
  uint64_t at = get(z, end - LOCATOR + 8, 8);
  if (!has(z, at, END64) || !sig(z, (size_t)at, 0x0606))
    return bad(z, "the record of a zip64 archive is not where it should be", end - LOCATOR);
  *d = (directory){get(z, (size_t)at + 32, 8), get(z, (size_t)at + 40, 8),
                   get(z, (size_t)at + 48, 8)};
  return true;
}

/* The end record is last, but for a comment. */
static bool find_directory(const archive *z, directory *d) {
  size_t at = z->len;
  if (z->len < END) return bad(z, "it is too short", z->len);
  for (size_t k = z->len - END; k + 65535 + END >= z->len; k--) {
    if (sig(z, k, 0x0605) && get(z, k + 20, 2) == z->len - END - k) {
      at = k;
      break;
    }
    if (!k) break;
  }
  if (at == z->len) return bad(z, "it is no zip archive, or its end is cut off", z->len);
  *d = (directory){get(z, at + 10, 2), get(z, at + 12, 4), get(z, at + 16, 4)};
  bool wide = d->count == 0xffff || d->size == UINT32_MAX || d->offset == UINT32_MAX;
  if (wide && !find_end64(z, at, d)) return false;
  if (!has(z, d->offset, d->size) || d->size / CENTRAL < d->count)
    return bad(z, "its directory is not in the file", at);
  return true;
}

typedef struct {
  uint64_t size, packed, offset;
} sizes;

/* The zip64 field holds those that do not fit, in this order. */
static bool widen(const archive *z, size_t at, size_t n, sizes *s) {
  size_t end = at + n;
  if (s->size != UINT32_MAX && s->packed != UINT32_MAX && s->offset != UINT32_MAX) return true;
  while (at + 4 <= end) {
    size_t id = (size_t)get(z, at, 2), len = (size_t)get(z, at + 2, 2), field = at + 4;
    if (len > end - field) break;
    at = field + len;
    if (id != 1) continue;
    uint64_t *part[] = {&s->size, &s->packed, &s->offset};
    for (size_t i = 0; i < 3; i++) {
      if (*part[i] != UINT32_MAX) continue;
      if (field + 8 > at) return bad(z, "a zip64 field is too short", field);
      *part[i] = get(z, field, 8);
      field += 8;
    }
    return true;
  }
  return bad(z, "an entry has no zip64 field", end);
}

/* The entry in the directory must equal the header before the data. */
static bool local(const archive *z, size_t entry, size_t name_len, const sizes *s,
                  anfi_zip_entry *e) {
  if (!has(z, s->offset, LOCAL) || !sig(z, (size_t)s->offset, 0x0403))
    return bad(z, "an entry is not where its directory says", entry);
  size_t at = (size_t)s->offset, n = (size_t)get(z, at + 26, 2);
  uint64_t start = at + LOCAL + n + get(z, at + 28, 2);
  if (n != name_len || !has(z, at, LOCAL + n) || memcmp(z->data + at + LOCAL, e->name, n) != 0)
    return bad(z, "an entry has another name than in the directory", at);
  if (!has(z, start, s->packed)) return bad(z, "an entry is cut off", at);
  e->size = (size_t)s->packed;
  e->data = (const char *)z->data + start;
  return true;
}

static void *take(void *arena, uInt n, uInt size) {
  return anfi_alloc((anfi_arena *)arena, (size_t)n * size);
}
static void give_back(void *arena, void *p) { (void)arena, (void)p; }

static uInt at_most(size_t n) { return n < UINT_MAX ? (uInt)n : UINT_MAX; }

struct anfi_inflating {
  z_stream z;
};

anfi_inflating *anfi_inflating_new(anfi_arena *a) {
  anfi_inflating *i = ANFI_NEW(a, anfi_inflating);
  i->z = (z_stream){.zalloc = take, .zfree = give_back, .opaque = a};
  inflateInit2(&i->z, -MAX_WBITS); // data has no header
  return i;
}

bool anfi_inflate(anfi_inflating *i, const char *data, size_t len, char *out, size_t size) {
  int st = inflateReset(&i->z);
  i->z.next_in = (z_const Bytef *)(uintptr_t)data;
  i->z.next_out = (Bytef *)out;
  while (st == Z_OK) {
    uInt in = i->z.avail_in = at_most(len), room = i->z.avail_out = at_most(size);
    st = inflate(&i->z, Z_NO_FLUSH);
    len -= in - i->z.avail_in, size -= room - i->z.avail_out;
  }
  return st == Z_STREAM_END && !len && !size;
}

/* Deflate makes at most 1032 bytes of one, so a small file makes no large values. */
static bool inflated(archive *z, const sizes *s, anfi_zip_entry *e) {
  enum { MOST = 1032 };
  if (s->size / MOST > s->packed)
    return bad(z, "an entry is larger than its compressed bytes can be", (size_t)s->offset);
  char *out = ANFI_NEW_N(z->a, char, (size_t)s->size + 1);
  if (!z->inflate) z->inflate = anfi_inflating_new(anfi_scratch(z->cx));
  if (!anfi_inflate(z->inflate, e->data, e->size, out, (size_t)s->size))
    return bad(z, "the compressed bytes of an entry are damaged", (size_t)s->offset);
  e->data = out;
  e->size = (size_t)s->size;
  return true;
}

static uint32_t checksum(const char *data, size_t n) {
  return (uint32_t)crc32_z(0, (const Bytef *)data, n);
}

enum { STORED = 0, DEFLATED = 8 }; // methods

static bool entry(archive *z, size_t *at, anfi_zip_entry *e) {
  size_t here = *at;
  if (!has(z, here, CENTRAL) || !sig(z, here, 0x0201))
    return bad(z, "its directory is damaged", here);
  size_t n = (size_t)get(z, here + 28, 2), extra = (size_t)get(z, here + 30, 2);
  *at = here + CENTRAL + n + extra + (size_t)get(z, here + 32, 2);
  if (!has(z, here, CENTRAL + n + extra)) return bad(z, "its directory is damaged", here);
  *e = (anfi_zip_entry){.name = (const char *)z->data + here + CENTRAL, .name_len = n};
  if (get(z, here + 8, 2) & 1)
    return anfi_fail(z->cx, anfi_nowhere(), ANF_E1043, (int)n, e->name, z->file, "encrypted");
  uint64_t method = get(z, here + 10, 2);
  if (method != STORED && method != DEFLATED)
    return anfi_fail(z->cx, anfi_nowhere(), ANF_E1043, (int)n, e->name, z->file,
                     "compressed by another method than deflate");
  sizes s = {get(z, here + 24, 4), get(z, here + 20, 4), get(z, here + 42, 4)};
  if (!widen(z, here + CENTRAL + n, extra, &s)) return false;
  if (method == STORED && s.size != s.packed)
    return bad(z, "an uncompressed entry has two sizes", here);
  if (!local(z, here, n, &s, e) || (method == DEFLATED && !inflated(z, &s, e))) return false;
  return checksum(e->data, e->size) == get(z, here + 16, 4) ||
         bad(z, "an entry does not have the checksum that it should", (size_t)s.offset);
}

bool anfi_zip_read(anf_ctx *cx, anfi_arena *a, const char *file, const char *data, size_t len,
                   anfi_zip *out) {
  archive z = {.cx = cx, .file = file, .data = (const unsigned char *)data, .len = len, .a = a};
  directory d = {0};
  if (!find_directory(&z, &d)) return false;
  size_t at = (size_t)d.offset;
  for (uint64_t i = 0; i < d.count; i++) {
    anfi_zip_entry e;
    if (!entry(&z, &at, &e)) return false;
    anfi_push(a, &out->entries, e);
  }
  return true;
}

/* ---- writing, byte by byte as pnnx does ---- */

static void put(anf_text *o, uint64_t v, size_t bytes) {
  for (size_t i = 0; i < bytes; i++, v >>= 8) anfi_putc(o, (char)(v & 0xff));
}

/* The part that local headers and the directory have alike, from the flags to the zip64 field. */
static void put_entry(anf_text *o, const anfi_zip_entry *e, uint32_t crc, bool central,
                      uint64_t offset) {
  put(o, 0, 8); // flags, method, time, date
  put(o, crc, 4);
  put(o, UINT32_MAX, 4);
  put(o, UINT32_MAX, 4);
  put(o, e->name_len, 2);
  put(o, 32, 2);
  if (central) put(o, 0, 2), put(o, 0xffff, 2), put(o, 0, 6), put(o, UINT32_MAX, 4);
  anfi_put(o, e->name, e->name_len);
  put(o, 1, 2);
  put(o, 28, 2);
  put(o, e->size, 8);
  put(o, e->size, 8);
  put(o, offset, 8);
  put(o, 0, 4);
}

void anfi_zip_write(anf_text *o, const anfi_zip *z) {
  anfi_arena *a = anfi_scratch(o->cx);
  uint32_t *crc = ANFI_NEW_N(a, uint32_t, z->entries.n + 1);
  uint64_t *offset = ANFI_NEW_N(a, uint64_t, z->entries.n + 1), start = o->len;
  for (size_t i = 0; i < z->entries.n; i++) {
    const anfi_zip_entry *e = &z->entries.at[i];
    crc[i] = checksum(e->data, e->size);
    offset[i] = o->len - start;
    put(o, 0x04034b50, 4), put(o, 0, 2);
    put_entry(o, e, crc[i], false, 0);
    anfi_put(o, e->data, e->size);
  }
  uint64_t start_of_directory = o->len - start;
  for (size_t i = 0; i < z->entries.n; i++) {
    put(o, 0x02014b50, 4), put(o, 0, 4);
    put_entry(o, &z->entries.at[i], crc[i], true, offset[i]);
  }
  uint64_t end = o->len - start;
  put(o, 0x06064b50, 4), put(o, 44, 8), put(o, 0, 4 + 8);
  put(o, z->entries.n, 8), put(o, z->entries.n, 8), put(o, end - start_of_directory, 8);
  put(o, start_of_directory, 8);
  put(o, 0x07064b50, 4), put(o, 0, 4), put(o, end, 8), put(o, 1, 4);
  put(o, 0x06054b50, 4);
  for (size_t i = 0; i < 4; i++) put(o, UINT32_MAX, 4);
  put(o, 0, 2);
}
