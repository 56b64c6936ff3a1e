// SPDX-License-Identifier: Apache-2.0
/* Memory of engines and code: it outlives contexts and is allocated from many threads.
 *   anfi_jit_alloc(100)   ->   128 bytes, zero, on a 64-byte boundary; or NULL */
#include "backend/jit/jit.h"

#include <stdlib.h>

enum { ALIGN = 64 };

void *anfi_jit_alloc(size_t bytes) {
  size_t n = (bytes + ALIGN) / ALIGN * ALIGN;
  void *p = n > bytes ? aligned_alloc(ALIGN, n) : NULL;
  return p ? memset(p, 0, n) : NULL;
}
void anfi_jit_free(void *p) { free(p); }

char *anfi_jit_strdup(const char *s) {
  size_t n = strlen(s) + 1;
  char *r = (char *)anfi_jit_alloc(n);
  return r ? (char *)memcpy(r, s, n) : NULL;
}
