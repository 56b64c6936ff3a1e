// SPDX-License-Identifier: Apache-2.0
/* From Tensor IR to functions that can be called: engines, compiled modules, functions.
 *
 * An engine compiles modules, in one of three ways behind one interface. Code and data are apart: a
 * compiled module has the code, counted and shared by its instances, and one block of data, the
 * tensors of the module, of its own. docs/jit.md has the whole story.
 *
 * Engines, modules and functions may be used from many threads at once. The contexts of the Tensor
 * IR modules that are compiled stay those of one thread, as ever. A compiled module does not need
 * the Tensor IR module, or its context, any more; it keeps its engine alive.
 *
 * Example, with anfora/tir.h:
 *   const char *text = "func fib(n: s64): s64 {\n"
 *                      "  if (n < 2s64) { return n }\n"
 *                      "  return fib(n - 1s64) + fib(n - 2s64)\n"
 *                      "}\n";
 *   anf_tir_module *m = NULL;
 *   anf_jit_engine *e = NULL;
 *   anf_jit_function *f = NULL;
 *   anf_status st = anf_tir_parse(cx, text, strlen(text), "inline", d, &m);
 *   if (st == ANF_OK) st = anf_jit_engine_new(cx, ANF_JIT_INTERP, NULL, d, &e);
 *   if (st == ANF_OK) st = anf_jit_get_entry_func(e, m, d, &f);
 *   anf_generic args[2] = {{.s64 = 10}}; // and the result after
 *   if (st == ANF_OK) st = anf_jit_call_generic(f, NULL, args);
 *   anf_jit_function_free(f);
 *   anf_jit_engine_free(e);
 *   anf_tir_module_free(m);
 */
#ifndef ANFORA_JIT_H
#define ANFORA_JIT_H

#include "anfora/rt.h"
#include "anfora/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_tir_module anf_tir_module; // anfora/tir.h

typedef enum anf_jit_kind {
  ANF_JIT_LLVM,   // machine code in memory, by LLVM
  ANF_JIT_CJIT,   // C text, the system's compiler, a shared object
  ANF_JIT_INTERP, // the interpreter of Tensor IR: slow, and it needs no compiler
  ANF_JIT_KIND_COUNT
} anf_jit_kind;
ANF_API const char *anf_jit_kind_name(anf_jit_kind k); // "llvm"
ANF_API bool anf_jit_kind_of(const char *name, anf_jit_kind *out);

/* The target machine of code. NULL and "" mean this machine. */
typedef struct anf_target_machine {
  size_t size;
  const char *triple;   // "x86_64-pc-linux-gnu"
  const char *cpu;      // "znver3", "x86-64-v3"
  const char *features; // "+avx2,-fma": added to what the CPU has
  bool elsewhere; // the code runs on another machine: features that this one lacks are allowed
} anf_target_machine;
/* Fills in what is empty, and removes features that an engine of this kind cannot use or this
 * machine does not have: the result can run here. Fails for a CPU that
 * the engine does not know. The texts that it sets live as long as the context. */
ANF_API anf_status anf_jit_set_target_machine(anf_ctx *cx, anf_jit_kind k, anf_target_machine *tm,
                                              anf_diag *d);

typedef struct anf_jit_engine anf_jit_engine;
typedef struct anf_jit_module anf_jit_module;
typedef struct anf_jit_function anf_jit_function;

typedef enum anf_jit_level {
  ANF_JIT_AUTO, // by how much work the code seems to be for
  ANF_JIT_O0,
  ANF_JIT_O1,
  ANF_JIT_O2,
  ANF_JIT_O3
} anf_jit_level;

typedef struct anf_jit_opts {
  size_t size;
  const anf_target_machine *target; // default: this machine
  anf_jit_level level;
  const char *passes;   // over Tensor IR, before code is made; default "codegen", which is exact
  bool bounds;          // every index is checked at run time
  bool contract;        // a * b + c may be rounded once
  bool debug;           // lines for debuggers, names for profilers; temporary files are not deleted
  const char *cc;       // cjit: the compiler; default "cc"
  const char *temp_dir; // where temporary files go; default: TMPDIR, or else the system's
  const char *cache_dir; // folder of the code cache; default: no cache
  uint64_t cache_bytes;  // limit of that folder, an eighth above it at times; default 1 GB
  const char *kernels;   // vectors of kernels: "sse", "avx2", "avx512", and with their dot products
                         // "vnni", "bf16", with tiles "amx"; default: the target's best
  uint32_t threads;      // that make code of one large module; default: as there are processors
} anf_jit_opts;

/* `cx` is used during the call alone, for messages. `o` and `d` may be NULL. */
ANF_API anf_status anf_jit_engine_new(anf_ctx *cx, anf_jit_kind k, const anf_jit_opts *o,
                                      anf_diag *d, anf_jit_engine **out);
/* Lets go of the engine; it lives on as long as modules of it do. */
ANF_API void anf_jit_engine_free(anf_jit_engine *e); // e may be NULL
ANF_API anf_jit_kind anf_jit_engine_kind(const anf_jit_engine *e);
ANF_API const anf_target_machine *anf_jit_engine_target(const anf_jit_engine *e);
/* Makes a C function known to code that declares a function of this name without a body. Before the
 * modules that use it are compiled; the function must outlive them. */
ANF_API anf_status anf_jit_engine_define(anf_jit_engine *e, const char *name,
                                         void (*function)(void));

/* Compiles a module: the passes of the engine, then code for every function. The result is its
 * first instance. */
ANF_API anf_status anf_jit_make_module(anf_jit_engine *e, const anf_tir_module *m, anf_diag *d,
                                       anf_jit_module **out);
/* The same for the function to start with: `main`, else the only one that is not private. */
ANF_API anf_status anf_jit_get_entry_func(anf_jit_engine *e, const anf_tir_module *m, anf_diag *d,
                                          anf_jit_function **out);

/* One more instance: the same code, data as it was at first. */
ANF_API anf_status anf_jit_module_instance(anf_jit_module *m, anf_jit_module **out);
ANF_API anf_jit_module *anf_jit_module_retain(anf_jit_module *m);
ANF_API void anf_jit_module_free(anf_jit_module *m); // lets go of one reference; m may be NULL
/* A function, as C calls it, or a tensor of the module, in this instance; NULL if there is none of
 * that name, or it has no address (the interpreter's functions). */
ANF_API void *anf_jit_get_address_of_symbol(anf_jit_module *m, const char *name);
/* A new reference to the function, which keeps the module alive. NULL if there is none of that
 * name, or when out of memory. */
ANF_API anf_jit_function *anf_jit_get_function(anf_jit_module *m, const char *name);
ANF_API size_t anf_jit_module_func_count(const anf_jit_module *m); // those that can be called
ANF_API const char *anf_jit_module_func_name(const anf_jit_module *m, size_t i);
/* The table of globals: tensors of the module, by their offset in the data. */
typedef struct anf_jit_global {
  const char *name;
  uint32_t elem; // an anf_tir_elem (anfora/tir.h)
  uint64_t offset, bytes;
} anf_jit_global;
ANF_API size_t anf_jit_module_global_count(const anf_jit_module *m);
ANF_API anf_jit_global anf_jit_module_global(const anf_jit_module *m, size_t i);
ANF_API void *anf_jit_module_data(const anf_jit_module *m);
ANF_API size_t anf_jit_module_data_bytes(const anf_jit_module *m);
/* Files that were written on the way and are still there, for debugging. */
ANF_API size_t anf_jit_module_temp_count(const anf_jit_module *m);
ANF_API const char *anf_jit_module_temp(const anf_jit_module *m, size_t i);

ANF_API anf_jit_function *anf_jit_function_retain(anf_jit_function *f);
ANF_API void anf_jit_function_free(anf_jit_function *f); // lets go of one reference; f may be NULL
ANF_API const char *anf_jit_function_name(const anf_jit_function *f);
ANF_API size_t anf_jit_function_arity(const anf_jit_function *f);
/* Calls the function: args[0 … arity - 1], and the result in args[arity]. `s` NULL: the thread's own
 * stream. If it traps, the status says so and anf_stream_trap how. */
ANF_API anf_status anf_jit_call_generic(const anf_jit_function *f, anf_stream *ANF_NULLABLE s,
                                        anf_generic *args);
/* The same with other data: as large as the module's own, 64-byte aligned. */
ANF_API anf_status anf_jit_call_generic_data(const anf_jit_function *f, anf_stream *ANF_NULLABLE s,
                                             void *data, anf_generic *args);
/* Calls it with values, as anf_tir_run_values does; `m` is the Tensor IR that it was compiled from,
 * which has the types of the parameters. */
ANF_API anf_status anf_jit_call_values(const anf_jit_function *f, const anf_tir_module *m,
                                       anf_stream *ANF_NULLABLE s, size_t n, anf_value *const *args,
                                       anf_diag *d, anf_value **result,
                                       anf_value **ANF_NULLABLE outs);
/* The C function of its natural signature (anfora/rt.h), to be cast to that; NULL if it has none,
 * or none for this instance: one that uses the module's data is bound to the first instance. */
ANF_API void *anf_jit_get_function_pointer(const anf_jit_function *f);
ANF_API void *anf_jit_get_module_data(const anf_jit_function *f);
ANF_API anf_jit_module *anf_jit_function_module(const anf_jit_function *f); // borrowed
/* Adds the error of the last call on the stream to `d`. Returns its status. */
ANF_API anf_status anf_jit_report(anf_ctx *cx, const anf_jit_function *f,
                                  const anf_stream *ANF_NULLABLE s, anf_diag *d);

/* ---- the code cache ----
 * The option cache_dir names a folder where engines cache compiled code, for this process and
 * others, as long as the program, the options, the machine and the build of Anfora are
 * the same. Any number of processes may use it at once. */
/* The user's folder for that, which the command uses: ANFORA_CACHE, or else
 * $XDG_CACHE_HOME/anfora or ~/.cache/anfora; nothing is written to `out` if it is "off". */
ANF_API anf_status anf_jit_cache_dir(anf_text *out);
typedef struct anf_jit_cached {
  const char *name; // of the file
  uint64_t bytes;
  int64_t used; // last: seconds since 1970
} anf_jit_cached;
/* Shows each file, the least recently used first, until `see` returns false. */
ANF_API anf_status anf_jit_cache_visit(anf_ctx *cx, const char *dir,
                                       bool (*see)(void *user, const anf_jit_cached *file),
                                       void *user, anf_diag *d);
ANF_API anf_status anf_jit_cache_clear(anf_ctx *cx, const char *dir, anf_diag *d);

/* What code looks like on the way: "llvm" (LLVM IR), "asm", "c", for engines of that kind. */
ANF_API anf_status anf_jit_print(anf_jit_engine *e, const anf_tir_module *m, const char *form,
                                 anf_diag *d, anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
