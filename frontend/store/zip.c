// SPDX-License-Identifier: Apache-2.0
/* Archives of uncompressed entries, as PNNX stores weights: zip32 and zip64, read in place.
 * A zip library was weighed: it copies each entry through calls of its own, allocates outside the
 * context's limits, and cannot write what pnnx writes, zip64 records at any size. Weights need a
 * fraction of the format, and this is all of it. INVARIANT: every offset and size is checked
 * against the length of the file before use, and entries lie in the file. */
#include "frontend/store/zip.h"

typedef struct {
  anf_ctx *cx;
  const char *file;
  const unsigned char *data;
  size_t len;
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

/* ---- the checksum of zip: CRC-32, four bits of a byte at a time for each of eight bytes ---- */

typedef struct {
  uint32_t t[8][256];
} crc_table;

static void make_table(crc_table *c) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t v = i;
    for (int k = 0; k < 8; k++) v = v >> 1 ^ (v & 1 ? UINT32_C(0xedb88320) : 0);
    c->t[0][i] = v;
  }
  for (uint32_t i = 0; i < 256; i++)
    for (int k = 1; k < 8; k++) c->t[k][i] = c->t[k - 1][i] >> 8 ^ c->t[0][c->t[k - 1][i] & 0xff];
}

static uint32_t checksum(const crc_table *c, const char *data, size_t n) {
  const unsigned char *p = (const unsigned char *)data;
  uint32_t v = UINT32_MAX;
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t lo =
        v ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    v = c->t[7][lo & 0xff] ^ c->t[6][lo >> 8 & 0xff] ^ c->t[5][lo >> 16 & 0xff] ^
        c->t[4][lo >> 24] ^ c->t[3][p[4]] ^ c->t[2][p[5]] ^ c->t[1][p[6]] ^ c->t[0][p[7]];
  }
  for (; n; n--, p++) v = v >> 8 ^ c->t[0][(v ^ *p) & 0xff];
  return ~v;
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
  if (!has(z, start, s->size)) return bad(z, "an entry is cut off", at);
  e->size = (size_t)s->size;
  e->data = (const char *)z->data + start;
  return true;
}

static bool entry(const archive *z, const crc_table *crc, size_t *at, anfi_zip_entry *e) {
  size_t here = *at;
  if (!has(z, here, CENTRAL) || !sig(z, here, 0x0201))
    return bad(z, "its directory is damaged", here);
  size_t n = (size_t)get(z, here + 28, 2), extra = (size_t)get(z, here + 30, 2);
  *at = here + CENTRAL + n + extra + (size_t)get(z, here + 32, 2);
  if (!has(z, here, CENTRAL + n + extra)) return bad(z, "its directory is damaged", here);
  *e = (anfi_zip_entry){.name = (const char *)z->data + here + CENTRAL, .name_len = n};
  if (get(z, here + 8, 2) & 1)
    return anfi_fail(z->cx, anfi_nowhere(), ANF_E1043, (int)n, e->name, z->file, "encrypted");
  if (get(z, here + 10, 2))
    return anfi_fail(z->cx, anfi_nowhere(), ANF_E1043, (int)n, e->name, z->file, "compressed");
  sizes s = {get(z, here + 24, 4), get(z, here + 20, 4), get(z, here + 42, 4)};
  if (!widen(z, here + CENTRAL + n, extra, &s)) return false;
  if (s.size != s.packed) return bad(z, "an uncompressed entry has two sizes", here);
  if (!local(z, here, n, &s, e)) return false;
  return checksum(crc, e->data, e->size) == get(z, here + 16, 4) ||
         bad(z, "an entry does not have the checksum that it should", (size_t)s.offset);
}

bool anfi_zip_read(anf_ctx *cx, anfi_arena *a, const char *file, const char *data, size_t len,
                   anfi_zip *out) {
  archive z = {cx, file, (const unsigned char *)data, len};
  directory d = {0};
  if (!find_directory(&z, &d)) return false;
  crc_table *crc = ANFI_NEW(anfi_scratch(cx), crc_table);
  make_table(crc);
  size_t at = (size_t)d.offset;
  for (uint64_t i = 0; i < d.count; i++) {
    anfi_zip_entry e;
    if (!entry(&z, crc, &at, &e)) return false;
    anfi_push(a, &out->entries, e);
  }
  return true;
}

/* ---- writing, byte by byte as pnnx does ---- */

static void put(anf_text *o, uint64_t v, size_t bytes) {
  for (size_t i = 0; i < bytes; i++, v >>= 8) anfi_putc(o, (char)(v & 0xff));
}

/* What a local header and the directory have alike, from the flags to the zip64 field. */
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
  crc_table *table = ANFI_NEW(a, crc_table);
  uint32_t *crc = ANFI_NEW_N(a, uint32_t, z->entries.n + 1);
  uint64_t *offset = ANFI_NEW_N(a, uint64_t, z->entries.n + 1), start = o->len;
  make_table(table);
  for (size_t i = 0; i < z->entries.n; i++) {
    const anfi_zip_entry *e = &z->entries.at[i];
    crc[i] = checksum(table, e->data, e->size);
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
