// SPDX-License-Identifier: Apache-2.0
/* The library's hash function, XXH3: anfi_hash("abc", 3, 0)   ->   64 bits that depend on each bit of the text and the
 * seed. */
#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t anfi_hash(const void *p, size_t n, uint64_t seed) {
  return XXH3_64bits_withSeed(p, n, seed);
}
