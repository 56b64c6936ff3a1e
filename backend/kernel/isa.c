// SPDX-License-Identifier: Apache-2.0
/* Instruction sets: what a target's list of features means to kernels. */
#include "backend/kernel/kernel.h"

#include "backend/jit/jit.h"

static bool has(const char *features, const char *name) {
  size_t len = strlen(name);
  bool on = false; // the last word counts
  for (const char *p = features; *p;) {
    size_t n = strcspn(p, ",");
    if (n == len + 1 && memcmp(p + 1, name, len) == 0) on = *p == '+';
    p += n + (p[n] == ',');
  }
  return on;
}

enum { USUAL_L1 = 32 << 10, USUAL_L2 = 1 << 20 };

static uint32_t cache(uint32_t level, uint32_t usual) {
  uint64_t bytes = anfi_os_cache_bytes(level);
  return bytes >= usual / 4 && bytes < (uint64_t)usual * 16 ? (uint32_t)bytes : usual;
}

void anfi_isa_of(const char *triple, const char *features, anfi_isa *out) {
  bool x86 = strncmp(triple, "x86_64", 6) == 0;
  bool wide = x86 && has(features, "avx512f") && has(features, "avx512vl") &&
              has(features, "avx512bw") && has(features, "avx512dq");
  bool avx2 = x86 && has(features, "avx2") && has(features, "fma");
  *out = (anfi_isa){.level = ISA_PLAIN, .bytes = 16, .regs = x86 ? 16 : 32};
  if (x86) out->level = ISA_SSE;
  if (avx2) *out = (anfi_isa){.level = ISA_AVX2, .bytes = 32, .regs = 16, .fma = true};
  if (avx2 && wide) *out = (anfi_isa){.level = ISA_AVX512, .bytes = 64, .regs = 32, .fma = true};
  out->bf16 = out->level == ISA_AVX512 && has(features, "avx512bf16");
  out->vnni = out->level == ISA_AVX512 && has(features, "avx512vnni");
  out->amx = out->bf16 && out->vnni && has(features, "amx-tile") && has(features, "amx-int8") &&
             has(features, "amx-bf16");
  out->native = true;
  out->l1 = USUAL_L1, out->l2 = USUAL_L2;
}

#define WIDE "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq"
#define DOTS WIDE ",+avx512vnni,+avx512bf16"

bool anfi_isa_of_engine(const anf_jit_engine *e, anfi_isa *out) {
  static const struct {
    const char *name, *features;
  } known[] = {{"sse", ""},      {"avx2", "+avx2,+fma"},
               {"avx512", WIDE}, {"vnni", WIDE ",+avx512vnni"},
               {"bf16", DOTS},   {"amx", DOTS ",+amx-tile,+amx-int8,+amx-bf16"}};
  anfi_isa_of(e->target.triple, e->target.features, out);
  out->exact = !e->o.contract;
  anfi_isa own = *out;
  if (!e->o.kernels || !e->o.kernels[0]) {
    out->l1 = cache(1, USUAL_L1), out->l2 = cache(2, USUAL_L2);
    return true;
  }
  for (size_t i = 0; i < ANFI_LEN(known); i++)
    if (strcmp(known[i].name, e->o.kernels) == 0) {
      anfi_isa_of("x86_64", known[i].features, out);
      out->exact = own.exact;
      out->native = own.vnni >= out->vnni && own.bf16 >= out->bf16 && own.amx >= out->amx;
      return true;
    }
  return false;
}
