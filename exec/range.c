// SPDX-License-Identifier: Apache-2.0
/* Ranges of memory that must be apart, if one of two is written.
 *
 *     x, read, 0x1000 to 0x1040;  y, written, 0x1020 to 0x1030     they meet: a write of y changes x
 *
 * Sorted by address, each is compared with those before it that end last: of all, and of those that are written. */

#include "exec/exec.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const anfi_range *)a)->from, y = ((const anfi_range *)b)->from;
  return (x > y) - (x < y);
}

bool anfi_ranges_meet(anfi_range *r, size_t n, const anfi_range *met[2]) {
  const anfi_range *any = NULL, *written = NULL;
  if (n) qsort(r, n, sizeof *r, by_address);
  for (size_t i = 0; i < n; i++) {
    const anfi_range *before = r[i].written ? any : written;
    if (before && before->to > r[i].from) {
      met[0] = before;
      met[1] = &r[i];
      return true;
    }
    if (!any || r[i].to > any->to) any = &r[i];
    if (r[i].written && (!written || r[i].to > written->to)) written = &r[i];
  }
  return false;
}
