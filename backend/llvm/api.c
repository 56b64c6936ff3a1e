// SPDX-License-Identifier: Apache-2.0
/* Loads LLVM and resolves the functions of api.def, once in a process. */
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

/* What makes LLVM know the machine that it was built for. */
#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
static const char *const starts[] = {TEXT(LLVM_NATIVE_TARGETINFO), TEXT(LLVM_NATIVE_TARGET),
                                     TEXT(LLVM_NATIVE_TARGETMC), TEXT(LLVM_NATIVE_ASMPRINTER),
                                     TEXT(LLVM_NATIVE_ASMPARSER)};

/* LLVM ends the process when memory ends, in the C++ library and in its own code: so there must be room before it is
 * asked for anything. The library and those that it needs take 170 MB of address space. */
enum { LOAD_ROOM = 256 << 20 };
static atomic_bool loaded;

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

static void load(void) {
  void *lib = open_library();
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
  for (size_t i = 0; i < ANFI_LEN(starts); i++) {
    void *p = dlsym(lib, starts[i]);
    void (*start)(void);
    if (!p) {
      complain();
      return;
    }
    memcpy(&start, &p, sizeof p);
    start();
  }
}

bool anfi_ll_has_room(anf_ctx *cx, size_t bytes) {
  if (anfi_os_has_room(bytes)) return true;
  anfi_fail(cx, anfi_nowhere(), ANF_E0874, bytes >> 20);
  return anfi_hint(cx, "raise the limit of the process (ulimit -v), or compile by the engine cjit"),
         false;
}

bool anfi_ll_begin(anf_ctx *cx) {
  if (!atomic_load(&loaded) && !anfi_ll_has_room(cx, LOAD_ROOM)) return false;
  pthread_once(&once, load);
  atomic_store(&loaded, true);
  return !problem[0] || anfi_fail(cx, anfi_nowhere(), ANF_E0910, problem);
}
