// SPDX-License-Identifier: Apache-2.0
/* Programs for other builds: as C source, as objects with a header.
 *
 * Example:
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

#include "anfora/tir.h"

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
/* The module as one file of C11. It computes what anf_tir_run computes, to the bit, when it is
 * compiled without contraction of floats (-ffp-contract=off) and linked with libanfora_rt. */
ANF_API anf_status anf_tir_print_c(const anf_tir_module *m, const anf_c_opts *o, anf_diag *d,
                                   anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
