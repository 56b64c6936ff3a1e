// SPDX-License-Identifier: Apache-2.0
/* The reader of .npz, which takes files: any bytes are refused with a reason, or give a record of
 * tensors. Checksums would refuse nearly all that a fuzzer makes, so each input is tried as it is and as
 * the array of an archive that is made of it. */
#define _GNU_SOURCE // memfd_create
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

static void read_file(const uint8_t *data, size_t size) {
  static int f = -1;
  char path[64];
  if (f < 0) f = memfd_create("fuzz.npz", 0);
  FUZZ_CHECK(f >= 0 && ftruncate(f, 0) == 0 && pwrite(f, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", f);
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_value *v = NULL;
  anf_status st = anf_load_npz(cx, path, d, &v);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (v != NULL));
  anf_value_release(v);
  anf_diag_free(d);
}

static void put(uint8_t *to, size_t n, size_t v) {
  for (size_t i = 0; i < n; i++) to[i] = (uint8_t)(v >> 8 * i);
}

/* An archive of one entry x.npy. */
static void seal(const uint8_t *data, size_t size) {
  enum { LOCAL = 30, CENTRAL = 46, END = 22, NAME = 5 };
  size_t at = LOCAL + NAME + size, all = at + CENTRAL + NAME + END;
  uint8_t *z = (uint8_t *)calloc(1, all), *central = z + at, *end = central + CENTRAL + NAME;
  FUZZ_CHECK(z);
  memcpy(z, "PK\3\4", 4);
  memcpy(central, "PK\1\2", 4);
  memcpy(end, "PK\5\6", 4);
  put(z + 14, 4, crc32(0, data, (uInt)size));
  put(z + 18, 4, size);
  put(z + 22, 4, size);
  put(z + 26, 2, NAME);
  memcpy(z + LOCAL, "x.npy", NAME);
  if (size) memcpy(z + LOCAL + NAME, data, size);
  memcpy(central + 16, z + 14, 12); // sum and sizes
  put(central + 28, 2, NAME);
  memcpy(central + CENTRAL, "x.npy", NAME);
  put(end + 8, 2, 1);
  put(end + 10, 2, 1);
  put(end + 12, 4, CENTRAL + NAME);
  put(end + 16, 4, at);
  read_file(z, all);
  free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  read_file(data, size);
  seal(data, size);
  return 0;
}
