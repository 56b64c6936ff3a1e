// SPDX-License-Identifier: Apache-2.0
/* Which machine code is made for. LLVM writes to standard error when it does not know a CPU or a
 * feature, so neither reaches it before it is known here. */
#include "backend/llvm/llvm.h"

static const char *const x86_cpus[] = {
    "alderlake",      "arrowlake",     "barcelona",   "bdver1",
    "bdver2",         "bdver3",        "bdver4",      "broadwell",
    "btver1",         "btver2",        "cannonlake",  "cascadelake",
    "cooperlake",     "core2",         "corei7",      "corei7-avx",
    "emeraldrapids",  "generic",       "goldmont",    "gracemont",
    "grandridge",     "graniterapids", "haswell",     "icelake-client",
    "icelake-server", "ivybridge",     "knl",         "lunarlake",
    "meteorlake",     "nehalem",       "opteron",     "penryn",
    "raptorlake",     "rocketlake",    "sandybridge", "sapphirerapids",
    "sierraforest",   "silvermont",    "skx",         "skylake",
    "skylake-avx512", "tigerlake",     "tremont",     "westmere",
    "x86-64",         "x86-64-v2",     "x86-64-v3",   "x86-64-v4",
    "znver1",         "znver2",        "znver3",      "znver4"};
static const char *const arm_cpus[] = {"apple-m1",    "apple-m2",    "cortex-a53", "cortex-a57",
                                       "cortex-a72",  "cortex-a76",  "generic",    "neoverse-n1",
                                       "neoverse-n2", "neoverse-v1", "neoverse-v2"};

bool anfi_ll_fail(anf_ctx *cx, LLVMErrorRef err) {
  char *why = ll.GetErrorMessage(err), *copy = anfi_strndup(anfi_scratch(cx), why, strlen(why));
  ll.DisposeErrorMessage(why);
  return anfi_fail(cx, anfi_nowhere(), ANF_E0911, copy);
}

/* A text that LLVM gave, in the arena */
static const char *taken(anf_ctx *cx, char *s) {
  const char *r = anfi_strndup(anfi_scratch(cx), s, strlen(s));
  ll.DisposeMessage(s);
  return r;
}

static bool known_cpu(const anf_target_machine *tm) {
  bool x86 = strncmp(tm->triple, "x86_64", 6) == 0;
  const char *const *list = x86 ? x86_cpus : arm_cpus;
  size_t n = x86 ? ANFI_LEN(x86_cpus) : ANFI_LEN(arm_cpus);
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], tm->cpu) == 0) return true;
  return false;
}

/* '+' or '-' as the comma-separated list says of the feature; 0: nothing. */
static char said(const char *list, const char *name, size_t len) {
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, ",");
    if (n == len + 1 && memcmp(p + 1, name, len) == 0) return *p;
    p += n + (p[n] == ',');
  }
  return 0;
}

static void append(char *list, size_t room, char sign, const char *name, size_t len) {
  size_t n = strlen(list);
  if (n + len + 3 > room) return;
  snprintf(list + n, room - n, "%s%c%.*s", n ? "," : "", sign, (int)len, name);
}

/* Of another CPU than the host's: less what the host lacks. Then what the caller adds, as far as the
 * host has it, or takes away. */
static void features(anf_target_machine *tm, const char *host, bool same) {
  char given[sizeof tm->features];
  memcpy(given, tm->features, sizeof given);
  tm->features[0] = 0;
  for (const char *p = host; *p;) {
    size_t n = strcspn(p, ",");
    char g = n ? said(given, p + 1, n - 1) : 0;
    char sign = g == '-' ? '-' : g == '+' && *p == '+' ? '+' : same || *p == '-' ? *p : 0;
    if (n && sign) append(tm->features, sizeof tm->features, sign, p + 1, n - 1);
    p += n + (p[n] == ',');
  }
}

/* The host's tiles of AMX are there if the system gives them to this process, too. */
static void ask_for_tiles(anf_target_machine *tm) {
  char *at = strstr(tm->features, "+amx-tile");
  if (at && !anf_rt_tiles()) *at = '-';
}

bool anfi_ll_negotiate(anf_ctx *cx, anf_target_machine *tm) {
  if (!anfi_ll_begin(cx)) return false;
  const char *triple = taken(cx, ll.GetDefaultTargetTriple()),
             *cpu = taken(cx, ll.GetHostCPUName()), *host = taken(cx, ll.GetHostCPUFeatures());
  bool same = !tm->cpu[0] || strcmp(tm->cpu, cpu) == 0;
  if (!tm->triple[0]) snprintf(tm->triple, sizeof tm->triple, "%s", triple);
  if (!tm->cpu[0]) snprintf(tm->cpu, sizeof tm->cpu, "%s", cpu);
  if (strcmp(tm->cpu, cpu) != 0 && !known_cpu(tm))
    return anfi_fail(cx, anfi_nowhere(), ANF_E0912, tm->cpu, tm->triple);
  features(tm, host, same);
  ask_for_tiles(tm);
  return true;
}

LLVMTargetMachineRef anfi_ll_target(anf_ctx *cx, const anf_target_machine *tm, anf_jit_level o) {
  static const LLVMCodeGenOptLevel level[] = {[ANF_JIT_AUTO] = LLVMCodeGenLevelDefault,
                                              [ANF_JIT_O0] = LLVMCodeGenLevelNone,
                                              [ANF_JIT_O1] = LLVMCodeGenLevelLess,
                                              [ANF_JIT_O2] = LLVMCodeGenLevelDefault,
                                              [ANF_JIT_O3] = LLVMCodeGenLevelAggressive};
  LLVMTargetRef t = NULL;
  char *why = NULL;
  if (ll.GetTargetFromTriple(tm->triple, &t, &why)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0912, tm->cpu, tm->triple);
    anfi_hint(cx, "%s", taken(cx, why));
    return NULL;
  }
  return ll.CreateTargetMachine(t, tm->triple, tm->cpu, tm->features, level[o], LLVMRelocPIC,
                                LLVMCodeModelSmall);
}
