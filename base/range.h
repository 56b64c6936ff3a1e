// SPDX-License-Identifier: Apache-2.0
/* Ranges of memory that one call reads and writes. */
#ifndef ANFI_RANGE_H
#define ANFI_RANGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct anfi_range {
  uintptr_t from, to; // bytes from..to - 1
  bool written;
  unsigned kind; // `kind` and `of` say to the caller whose memory it is
  size_t of;
} anfi_range;

/* Do two of the ranges share bytes, of which one is written? Sorts them; the two go to `met`. */
bool anfi_ranges_meet(anfi_range *r, size_t n, const anfi_range *met[2]);

#endif
