// SPDX-License-Identifier: Apache-2.0
/* Compiled functions, inside. */
#ifndef ANFI_EXEC_H
#define ANFI_EXEC_H

#include "anfora/exec.h"
#include "backend/lower/lower.h"

/* A function at one signature. */
typedef struct anfi_variant {
  struct anfi_variant *next;   // used before
  anfi_arena arena;            // of all but the code
  size_t n;
  const anf_type **type;       // of the arguments
  anfi_lowered low;            // its module is gone
  anf_jit_module *code;
  anf_jit_function *function;
} anfi_variant;

struct anf_exec {
  anf_ctx *cx;
  anf_graph *g;
  anf_exec_opts o;
  anf_jit_engine *engine;
  anfi_variant *variant; // used last first
  size_t nvariant, compilations;
  double compile_ms;
};

/* compile.c: the graph at these types as Tensor IR; what `low` holds is in low->arena, the module
 * is the frame's unless it is kept. */
bool anfi_exec_lower(anf_graph *g, size_t n, const anf_type *const *types, const anf_exec_opts *o,
                     anfi_lowered *low);
anfi_variant *anfi_variant_new(anf_exec *e, size_t n, const anf_type *const *types);
void anfi_variant_free(anf_ctx *cx, anfi_variant *v);

/* call.c: values to code and back */
bool anfi_variant_run(anf_exec *e, anfi_variant *v, anf_value *const *args, const anf_run_opts *o,
                      anf_value **result);

#endif
