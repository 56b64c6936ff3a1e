// SPDX-License-Identifier: Apache-2.0
/* Programs for other builds: as objects with a header, and on the way as LLVM IR, assembly, C.
 *
 * An object needs libanfora_rt and the C library's mathematics when it is linked, and nothing else.
 * docs/embedding.md shows it from the program to the running process.
 *
 * Example of an object:
 *   anf_graph *g = anf_module_find(m, "fibonacci");
 *   const anf_type *types[1] = {anf_type_scalar(cx, ANF_I64)};
 *   anf_text out[ANF_BUILD_FORM_COUNT] = {{0}};
 *   anf_status st = anf_build_graph(g, 1, types, 1u << ANF_BUILD_OBJ | 1u << ANF_BUILD_HEADER, NULL,
 *                                   d, out);
 *   anf_text_free(&out[ANF_BUILD_OBJ]); // would be written to fibonacci.o
 *   anf_text_free(&out[ANF_BUILD_HEADER]);
 *
 * Example of C source, with anfora/tir.h:
 *   anf_tir_module *m = NULL;
 *   const char *text = "func f(a: s32): s32 {\n  return (a + 1)\n}\n";
 *   anf_status st = anf_tir_parse(cx, text, strlen(text), "inline", d, &m);
 *   anf_text out = {cx, NULL, 0, 0};
 *   if (st == ANF_OK) st = anf_tir_print_c(m, NULL, d, &out);
 *   anf_text_free(&out);
 *   anf_tir_module_free(m);
 */
#ifndef ANFORA_BUILD_H
#define ANFORA_BUILD_H

#include "anfora/ir.h"
#include "anfora/jit.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_c_opts {
  size_t size;
  const char *title;    // first line of the file; default: none
  bool line_directives; // #line, so that debuggers show the program; else lines are comments
  bool imports;         // functions from outside are called through variables anf_import_NAME
  const char *prefix;   // of the symbols that hold module data; default: "anf_module"
  uint32_t stack_bytes; // larger local tensors go to the heap; default 4096
} anf_c_opts;
/* The module as one file of C11. Its results equal those of anf_tir_run, to the bit, when it is
 * compiled without contraction of floats (-ffp-contract=off) and linked with libanfora_rt. */
ANF_API anf_status anf_tir_print_c(const anf_tir_module *m, const anf_c_opts *o, anf_diag *d,
                                   anf_text *out);

typedef enum anf_build_form {
  ANF_BUILD_OBJ,    // an object file
  ANF_BUILD_HEADER, // declarations of the object's functions for C and C++
  ANF_BUILD_LLVM,   // LLVM IR
  ANF_BUILD_ASM,    // assembly
  ANF_BUILD_C,      // C11 for gcc and clang
  ANF_BUILD_FORM_COUNT
} anf_build_form;
ANF_API const char *anf_build_form_name(anf_build_form f); // "obj"
ANF_API bool anf_build_form_of(const char *name, size_t len, anf_build_form *out);

typedef struct anf_build_opts {
  size_t size;
  anf_jit_kind kind;       // who makes the object: ANF_JIT_LLVM or ANF_JIT_CJIT
  const anf_jit_opts *jit; // target and options; no code is cached
  bool fast, parallel;     // as of anf_exec_opts
  const char *pipeline;    // over graphs; default "standard"
  const char *name;  // of a graph's C function; the object exports anf_object NAME_object, too.
                     // Default: the graph's, or that of the module's first function
  const char *title; // the source that the header names
  bool tune;         // as of anf_exec_opts, if code is for this machine; else a warning
  bool stops; // anf_stream_cancel stops it: loops that run long poll the stream. A training step
              // is not stopped any more once it writes over its state
  void (*stage)(void *user, anf_ctx *cx, const char *stage, anf_module *m,
                const char *tir); // as of anf_exec_opts
  void *stage_user;
  /* Sizes of the dims that types name, f32[B, 8]: "B=1,8-10 T=16". The object has code for each combination, at most 64,
   * and the C function takes the sizes first, in the order in which the types name them: f(B, T, x, ...). Others stop
   * it, as anf_stream_trap says. "B=any", or with pieces "B=1,16,any": for any size, if rows along B are computed apart (else
   * E1595); of no step. */
  const char *sizes;
} anf_build_opts;
/* Builds the graph for arguments of these types, whose dims may be symbols if o->sizes says their sizes, in all the forms whose bits 1 << form are set; each
 * goes to out[form] of out[ANF_BUILD_FORM_COUNT], to be freed by the caller even after a failure. */
ANF_API anf_status anf_build_graph(anf_graph *g, size_t n, const anf_type *const *types,
                                   unsigned forms, const anf_build_opts *o, anf_diag *d,
                                   anf_text *out);
/* The same for a training step (anfora/step.h), whose first nstate parameters are its state. In C it is
 *     anf_status NAME_run(anf_stream *stream, NAME_state *state, inputs.., NAME_out *out)
 * where NAME_state and NAME_out are structures with a member for each tensor and number of the state
 * and the outputs, named as in the program: state->s.p.w. The state is updated in place, and
 * unchanged if the status is not ANF_OK. The numbers are those of an anf_step. */
ANF_API anf_status anf_build_step(anf_graph *g, size_t nstate, size_t n,
                                  const anf_type *const *types, unsigned forms,
                                  const anf_build_opts *o, anf_diag *d, anf_text *out);
/* The same for all functions of a module that are not private. */
ANF_API anf_status anf_build_tir(const anf_tir_module *m, unsigned forms, const anf_build_opts *o,
                                 anf_diag *d, anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
