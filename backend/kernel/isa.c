// SPDX-License-Identifier: Apache-2.0
/* Processors (cpu.def): what a target's list of features means to kernels.
 *
 *   "+avx2,+fma"                      vectors of 32 bytes, 16 registers
 *   "+avx2,+fma,+avx512f,..,-amx-.."  a later feature of the same name overrides an earlier one */
#include "backend/kernel/kernel.h"

static const struct {
  const char *name, *features;
  uint32_t bytes, regs;
} cpus[] = {
#define ANF_CPU(name, features, bytes, regs) {#name, features, bytes, regs},
#include "backend/kernel/cpu.def"
#undef ANF_CPU
};

static bool has_one(const char *features, const char *name, size_t len) {
  bool on = false; // the last of that name counts
  for (const char *p = features; *p;) {
    size_t n = strcspn(p, ",");
    if (n == len + 1 && memcmp(p + 1, name, len) == 0) on = *p == '+';
    p += n + (p[n] == ',');
  }
  return on;
}

/* Are all features of the row in the list? */
static bool has_row(const char *features, anfi_cpu cpu) {
  for (const char *p = cpus[cpu].features; *p;) {
    size_t n = strcspn(p, ",");
    if (!has_one(features, p, n)) return false;
    p += n + (p[n] == ',');
  }
  return true;
}

enum { USUAL_L1 = 32 << 10, USUAL_L2 = 1 << 20, USUAL_L3 = 32 << 20 };

static uint32_t cache(uint32_t level, uint32_t usual) {
  uint64_t bytes = anfi_os_cache_bytes(level);
  return bytes >= usual / 4 && bytes < (uint64_t)usual * 16 ? (uint32_t)bytes : usual;
}

static void take(anfi_isa *isa, anfi_cpu cpu) {
  isa->has |= UINT32_C(1) << cpu;
  if (cpus[cpu].bytes) isa->bytes = cpus[cpu].bytes, isa->regs = cpus[cpu].regs;
  isa->fma |= cpu == CPU_avx2;
}

static anfi_isa usual_isa(void) {
  return (anfi_isa){
      .bytes = 16, .regs = 32, .native = true, .l1 = USUAL_L1, .l2 = USUAL_L2, .l3 = USUAL_L3};
}

void anfi_isa_of(const char *triple, const char *features, anfi_isa *out) {
  *out = usual_isa();
  if (strncmp(triple, "x86_64", 6) != 0) return;
  for (anfi_cpu cpu = CPU_sse; cpu < CPU_COUNT; cpu++) {
    bool base = cpu <= CPU_avx512 ? cpu == CPU_sse || anfi_isa_has(out, cpu - 1)
                                  : anfi_isa_has(out, CPU_avx512);
    if (cpu == CPU_amx) base = anfi_isa_has(out, CPU_vnni) && anfi_isa_has(out, CPU_bf16);
    if (base && has_row(features, cpu)) take(out, cpu);
  }
  out->own = out->has;
}

bool anfi_isa_choose(const char *name, anfi_isa *out) {
  if (!name || !name[0]) {
    out->l1 = cache(1, USUAL_L1), out->l2 = cache(2, USUAL_L2), out->l3 = cache(3, USUAL_L3);
    return true;
  }
  const uint32_t own = out->own;
  anfi_cpu last = CPU_sse;
  while (last < CPU_COUNT && strcmp(cpus[last].name, name) != 0) last++;
  if (last == CPU_COUNT) return false;
  anfi_isa named = usual_isa();
  for (anfi_cpu cpu = CPU_sse; cpu <= last; cpu++) take(&named, cpu);
  named.exact = out->exact, named.own = own;
  named.native = !(named.has & ~own & ~((UINT32_C(2) << CPU_avx512) - 1));
  *out = named;
  return true;
}
