// SPDX-License-Identifier: Apache-2.0
/* The reader of archives of weights: any bytes are refused with a reason or give entries that lie
 * in them. The checksums would refuse nearly all that a fuzzer makes, so each input is tried as it
 * is, and as data of an archive that is made of it. */
#include "fuzz.h"

#include "frontend/pnnx/pnnx.h"

static void read_entries(anf_ctx *cx, const uint8_t *data, size_t size) {
  anfi_arena *a = anfi_scratch(cx);
  anfi_zip z = {.entries = {0}}, back = {.entries = {0}};
  anf_text o = {.cx = cx};
  if (!anfi_zip_read(cx, a, "fuzz.bin", (const char *)data, size, &z)) return;
  for (size_t i = 0; i < z.entries.n; i++) {
    const char *at = z.entries.at[i].data, *start = (const char *)data;
    FUZZ_CHECK(at >= start && z.entries.at[i].size <= size - (size_t)(at - start));
  }
  size_t all = 0;
  for (size_t i = 0; i < z.entries.n; i++) all += z.entries.at[i].size; // entries may overlap
  if (all < FUZZ_BYTES / 8) {
    anfi_zip_write(&o, &z);
    FUZZ_CHECK(anfi_zip_read(cx, a, "written.bin", o.text, o.len, &back));
    FUZZ_CHECK(back.entries.n == z.entries.n);
  }
  anf_text_free(&o);
}

static anf_status in_frame(anf_ctx *cx, const uint8_t *data, size_t size, anf_diag *d) {
  ANFI_ENTRY(cx, d);
  read_entries(cx, data, size);
  return anfi_leave(cx);
}

static bool try_bytes(const uint8_t *data, size_t size) {
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_status st = in_frame(cx, data, size, d);
  fuzz_status(st, d);
  bool sum = st != ANF_OK && anf_diag_count(d) && strstr(anf_diag_at(d, 0)->message, "checksum");
  anf_diag_free(d);
  return sum;
}

static uint32_t crc(const uint8_t *p, size_t n) {
  uint32_t v = UINT32_MAX;
  for (size_t i = 0; i < n; i++) {
    v ^= p[i];
    for (int k = 0; k < 8; k++) v = v >> 1 ^ (v & 1 ? UINT32_C(0xedb88320) : 0);
  }
  return ~v;
}

/* An archive of what the fuzzer made: the first byte cuts the rest into entries. */
static void seal(const uint8_t *data, size_t size) {
  enum { PART = 16 };
  size_t n = size ? data[0] % 8u : 0, at = 0;
  uint8_t *z = (uint8_t *)calloc(1, size + 2 * n * (64 + PART) + 64), *dir = NULL;
  if (!z) return;
  size_t offset[8];
  for (size_t i = 0; i < n; i++) {
    size_t len = i * PART < size ? (size - i * PART < PART ? size - i * PART : PART) : 0;
    offset[i] = at;
    memcpy(z + at, "PK\3\4", 4);
    z[at + 26] = 1;
    z[at + 30] = (uint8_t)('a' + i);
    if (len) memcpy(z + at + 31, data + i * PART, len);
    at += 31 + len;
  }
  dir = z + at;
  for (size_t i = 0; i < n; i++, at += 47) {
    size_t len = (i + 1 < n ? offset[i + 1] : (size_t)(dir - z)) - offset[i] - 31;
    uint32_t sum = crc(z + offset[i] + 31, len);
    memcpy(z + at, "PK\1\2", 4);
    for (size_t k = 0; k < 4; k++) z[at + 16 + k] = (uint8_t)(sum >> 8 * k);
    z[at + 20] = z[at + 24] = (uint8_t)len;
    z[at + 28] = 1;
    z[at + 42] = (uint8_t)offset[i], z[at + 43] = (uint8_t)(offset[i] >> 8);
    z[at + 46] = (uint8_t)('a' + i);
  }
  memcpy(z + at, "PK\5\6", 4);
  z[at + 10] = (uint8_t)n;
  size_t from = (size_t)(dir - z), len = at - from;
  z[at + 12] = (uint8_t)len, z[at + 13] = (uint8_t)(len >> 8);
  z[at + 16] = (uint8_t)from, z[at + 17] = (uint8_t)(from >> 8);
  FUZZ_CHECK(!try_bytes(z, at + 22));
  free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try_bytes(data, size);
  seal(data, size);
  return 0;
}
