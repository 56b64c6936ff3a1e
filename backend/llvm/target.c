// SPDX-License-Identifier: Apache-2.0
/* The target machine: CPU and features.
 *   no CPU given              ->   the host's name and features
 *   haswell on a newer host   ->   +avx2,+fma,+f16c and the host's features, less what the host lacks
 * LLVM writes to standard error if it does not know a CPU or a feature, so both are checked before they reach it. */
#include "backend/llvm/llvm.h"

/* Features of CPUs that kernels ask for; LLVM knows the rest. */
#define BASE   ""
#define AVX2   "+avx2,+fma,+f16c"
#define AVX512 AVX2 ",+avx512f,+avx512vl,+avx512bw,+avx512dq"
#define VNNI   AVX512 ",+avx512vnni"
#define BF16   VNNI ",+avx512bf16"
#define AMX    BF16 ",+amx-tile,+amx-int8,+amx-bf16"
static const struct {
  const char *name, *features;
} x86_cpus[] = {{"alderlake", AVX2},
                {"arrowlake", AVX2},
                {"barcelona", BASE},
                {"bdver1", BASE},
                {"bdver2", BASE},
                {"bdver3", BASE},
                {"bdver4", AVX2},
                {"broadwell", AVX2},
                {"btver1", BASE},
                {"btver2", BASE},
                {"cannonlake", AVX512},
                {"cascadelake", VNNI},
                {"cooperlake", BF16},
                {"core2", BASE},
                {"corei7", BASE},
                {"corei7-avx", BASE},
                {"emeraldrapids", AMX},
                {"generic", BASE},
                {"goldmont", BASE},
                {"gracemont", AVX2},
                {"grandridge", AVX2},
                {"graniterapids", AMX},
                {"haswell", AVX2},
                {"icelake-client", VNNI},
                {"icelake-server", VNNI},
                {"ivybridge", BASE},
                {"knl", AVX2},
                {"lunarlake", AVX2},
                {"meteorlake", AVX2},
                {"nehalem", BASE},
                {"opteron", BASE},
                {"penryn", BASE},
                {"raptorlake", AVX2},
                {"rocketlake", VNNI},
                {"sandybridge", BASE},
                {"sapphirerapids", AMX},
                {"sierraforest", AVX2},
                {"silvermont", BASE},
                {"skx", AVX512},
                {"skylake", AVX2},
                {"skylake-avx512", AVX512},
                {"tigerlake", VNNI},
                {"tremont", BASE},
                {"westmere", BASE},
                {"x86-64", BASE},
                {"x86-64-v2", BASE},
                {"x86-64-v3", AVX2},
                {"x86-64-v4", AVX512},
                {"znver1", AVX2},
                {"znver2", AVX2},
                {"znver3", AVX2},
                {"znver4", BF16}};
static const char *const arm_cpus[] = {"apple-m1",    "apple-m2",    "cortex-a53", "cortex-a57",
                                       "cortex-a72",  "cortex-a76",  "generic",    "neoverse-n1",
                                       "neoverse-n2", "neoverse-v1", "neoverse-v2"};

bool anfi_ll_fail(anf_ctx *cx, LLVMErrorRef err) {
  char *why = ll.GetErrorMessage(err);
  anfi_fail(cx, anfi_nowhere(), ANF_E0911, why);
  ll.DisposeErrorMessage(why);
  return false;
}

static void dispose_text(void *at) {
  if (*(char **)at) ll.DisposeMessage(*(char **)at);
}

/* A place for a string of LLVM's, which is disposed of when the entry ends. */
static char **new_text(anf_ctx *cx) {
  char **at = ANFI_NEW(anfi_scratch(cx), char *);
  anfi_defer(cx, ANFI_ALWAYS, dispose_text, at);
  return at;
}

static const char *text_of(anf_ctx *cx, char *(*make)(void)) {
  char **at = new_text(cx);
  return *at = make();
}

/* The features above that the target's CPU has; NULL: the CPU is not known. */
static const char *known_cpu(const anfi_target *tm) {
  if (strncmp(tm->triple, "x86_64", 6) == 0) {
    for (size_t i = 0; i < ANFI_LEN(x86_cpus); i++)
      if (strcmp(x86_cpus[i].name, tm->cpu) == 0) return x86_cpus[i].features;
  } else
    for (size_t i = 0; i < ANFI_LEN(arm_cpus); i++)
      if (strcmp(arm_cpus[i], tm->cpu) == 0) return "";
  return NULL;
}

char anfi_ll_feature(const char *list, const char *name, size_t len) {
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

/* Adds words of a list that nothing is said of yet. */
static void append_all(anfi_target *tm, const char *list) {
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, ",");
    if (n > 1 && !anfi_ll_feature(tm->features, p + 1, n - 1))
      append(tm->features, sizeof tm->features, *p, p + 1, n - 1);
    p += n + (p[n] == ',');
  }
}

/* Of the host, where `own` is NULL: what it has. Of another CPU: what that has, its own, less what the host
 * lacks if the code is to run here. And what the caller adds, as far as a host has it, or takes away. */
static void features(anfi_target *tm, const char *host, const char *own) {
  char given[sizeof tm->features];
  memcpy(given, tm->features, sizeof given);
  tm->features[0] = 0;
  bool elsewhere = own && tm->elsewhere;
  if (elsewhere) append_all(tm, given);
  for (const char *p = elsewhere ? "" : host; *p;) {
    size_t n = strcspn(p, ",");
    char g = n ? anfi_ll_feature(given, p + 1, n - 1) : 0;
    char sign = g == '-' ? '-' : g == '+' && *p == '+' ? '+' : !own || *p == '-' ? *p : 0;
    if (n && sign) append(tm->features, sizeof tm->features, sign, p + 1, n - 1);
    p += n + (p[n] == ',');
  }
  if (own) append_all(tm, own);
}

/* The host's tiles of AMX are there if the system gives them to this process, too. */
static void ask_for_tiles(anfi_target *tm) {
  char *at = strstr(tm->features, "+amx-tile");
  if (at && !anf_rt_tiles()) *at = '-';
}

/* Do the first words of two triples differ? */
static bool other_processor(const char *a, const char *b) {
  size_t n = strcspn(a, "-");
  return strcspn(b, "-") != n || memcmp(a, b, n) != 0;
}

bool anfi_ll_negotiate(anf_ctx *cx, anfi_target *tm) {
  if (!anfi_ll_begin(cx)) return false;
  const char *triple = text_of(cx, ll.GetDefaultTargetTriple),
             *cpu = text_of(cx, ll.GetHostCPUName), *host = text_of(cx, ll.GetHostCPUFeatures);
  bool foreign = tm->triple[0] && other_processor(tm->triple, triple);
  if (foreign && (!tm->elsewhere || !anfi_ll_begin_target(tm->triple)))
    return anfi_fail(cx, anfi_nowhere(), ANF_E1352, tm->triple);
  if (foreign && !tm->cpu[0]) snprintf(tm->cpu, sizeof tm->cpu, "generic");
  bool same = !foreign && (!tm->cpu[0] || strcmp(tm->cpu, cpu) == 0);
  if (!tm->triple[0]) snprintf(tm->triple, sizeof tm->triple, "%s", triple);
  if (!tm->cpu[0]) snprintf(tm->cpu, sizeof tm->cpu, "%s", cpu);
  const char *own = same ? NULL : known_cpu(tm);
  if (!same && !own) return anfi_fail(cx, anfi_nowhere(), ANF_E0912, tm->cpu, tm->triple);
  features(tm, host, own);
  if (same || !tm->elsewhere) ask_for_tiles(tm);
  return true;
}

LLVMTargetMachineRef anfi_ll_target(anf_ctx *cx, const anfi_target *tm, anf_jit_level o) {
  static const LLVMCodeGenOptLevel level[] = {[ANF_JIT_AUTO] = LLVMCodeGenLevelDefault,
                                              [ANF_JIT_O0] = LLVMCodeGenLevelNone,
                                              [ANF_JIT_O1] = LLVMCodeGenLevelLess,
                                              [ANF_JIT_O2] = LLVMCodeGenLevelDefault,
                                              [ANF_JIT_O3] = LLVMCodeGenLevelAggressive};
  LLVMTargetRef t = NULL;
  char **why = new_text(cx);
  if (ll.GetTargetFromTriple(tm->triple, &t, why)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0912, tm->cpu, tm->triple);
    anfi_hint(cx, "%s", *why);
    return NULL;
  }
  return ll.CreateTargetMachine(t, tm->triple, tm->cpu, tm->features, level[o], LLVMRelocPIC,
                                LLVMCodeModelSmall);
}
