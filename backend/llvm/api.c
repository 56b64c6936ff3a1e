// SPDX-License-Identifier: Apache-2.0
/* Loads LLVM and resolves the functions of api.def, once in a process.
 *   ANF_LLVM(ContextCreate)   ->   anfi_ll.ContextCreate = dlsym(library, "LLVMContextCreate") */
#include "backend/llvm/llvm.h"

#include <dlfcn.h>

anfi_llvm_api anfi_ll;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[200];

static const struct {
  const char *name;
  size_t at;
} functions[] = {
#define ANF_LLVM(name) {"LLVM" #name, offsetof(anfi_llvm_api, name)},
#include "backend/llvm/api.def"
#undef ANF_LLVM
};

/* Functions that register LLVM's native target. */
#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
static const char *const starts[] = {TEXT(LLVM_NATIVE_TARGETINFO), TEXT(LLVM_NATIVE_TARGET),
                                     TEXT(LLVM_NATIVE_TARGETMC), TEXT(LLVM_NATIVE_ASMPRINTER),
                                     TEXT(LLVM_NATIVE_ASMPARSER)};

/* LLVM ends the process when memory ends, in the C++ library and in its own code: so there must be room before it is
 * asked for anything. The library and those that it needs take 170 MB of address space. */
enum { LOAD_ROOM = 256 << 20 };
static atomic_bool loaded;
static void *library;

static void complain(void) {
  const char *why = dlerror();
  snprintf(problem, sizeof problem, "%s", why ? why : "dlopen");
}

/* The part of LLVM that a wheel carries beside the extension (python/llvm), else the system's library. */
static void *open_library(void) {
  void *lib = dlopen("libanfora_llvm.so", RTLD_NOW | RTLD_LOCAL);
  if (!lib) lib = dlopen("libLLVM-19.so.1", RTLD_NOW | RTLD_LOCAL);
  return lib ? lib : dlopen("libLLVM.so.19.1", RTLD_NOW | RTLD_LOCAL);
}

static bool call_start(void *lib, const char *name) {
  void *p = dlsym(lib, name);
  void (*start)(void);
  if (!p) return false;
  memcpy(&start, &p, sizeof p);
  start();
  return true;
}

static void load(void) {
  void *lib = library = open_library();
  if (!lib) {
    complain();
    return;
  }
  for (size_t i = 0; i < ANFI_LEN(functions); i++) {
    void *p = dlsym(lib, functions[i].name);
    if (!p) {
      complain();
      return;
    }
    memcpy((char *)&anfi_ll + functions[i].at, &p, sizeof p);
  }
  for (size_t i = 0; i < ANFI_LEN(starts); i++)
    if (!call_start(lib, starts[i])) {
      complain();
      return;
    }
  anfi_os_leave_library((uintptr_t)ll.GetVersion); // its constructors have mapped a third of it
}

bool anfi_ll_has_room(anf_ctx *cx, size_t bytes) {
  if (anfi_os_has_room(bytes)) return true;
  anfi_fail(cx, anfi_nowhere(), ANF_E0874, bytes >> 20);
  return anfi_hint(cx, "raise the limit of the process (ulimit -v), or compile by the engine cjit"),
         false;
}

/* Starting a target twice does no harm, but not at once. */
bool anfi_ll_begin_target(const char *triple) {
  static const struct {
    const char *arch, *name;
  } targets[] = {{"aarch64", "AArch64"}, {"arm64", "AArch64"}, {"x86_64", "X86"}};
  static const char *const parts[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter",
                                      "AsmParser"};
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  size_t i = 0, n = strcspn(triple, "-");
  while (i < ANFI_LEN(targets) &&
         (strlen(targets[i].arch) != n || memcmp(targets[i].arch, triple, n) != 0))
    i++;
  if (i == ANFI_LEN(targets)) return false;
  bool good = true;
  pthread_mutex_lock(&lock);
  for (size_t k = 0; good && k < ANFI_LEN(parts); k++) {
    char name[64];
    snprintf(name, sizeof name, "LLVMInitialize%s%s", targets[i].name, parts[k]);
    good = call_start(library, name);
  }
  pthread_mutex_unlock(&lock);
  return good;
}

bool anfi_ll_begin(anf_ctx *cx) {
  if (!atomic_load(&loaded) && !anfi_ll_has_room(cx, LOAD_ROOM)) return false;
  pthread_once(&once, load);
  atomic_store(&loaded, true);
  return !problem[0] || anfi_fail(cx, anfi_nowhere(), ANF_E0910, problem);
}
