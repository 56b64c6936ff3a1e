// SPDX-License-Identifier: Apache-2.0
/* The processor: has it the features that an object's code uses?
 *   anfi_rt_lacks("avx2,amx-int8", &n) on a processor with AVX2 alone   ->   "amx-int8"
 * An object made for another one would end the process by SIGILL; its functions give ANF_UNSUPPORTED instead. */
#include "runtime/rt.h"

#include <string.h>

static bool is(const char *name, const char *word, size_t n) {
  return strlen(name) == n && memcmp(name, word, n) == 0;
}

/* A name that is not known is of a newer Anfora: it cannot be looked for, so it is not there. */
static bool has(const char *word, size_t n) {
#if defined(__x86_64__)
#define ANF_FEATURE(name, macro, level)                                                            \
  if (is(name, word, n)) return __builtin_cpu_supports(name);
#include "base/feature.def"
#undef ANF_FEATURE
#endif
  return is("", word, n);
}

const char *anfi_rt_lacks(const char *needs, size_t *len) {
  for (const char *p = needs; *p; p += *len + (p[*len] == ',')) {
    *len = strcspn(p, ",");
    if (!has(p, *len)) return p;
  }
  return NULL;
}
