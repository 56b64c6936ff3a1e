// SPDX-License-Identifier: Apache-2.0
/* Functions in two parts, where sizes depend on data. */
#ifndef ANFI_PARTITION_H
#define ANFI_PARTITION_H

#include "exec/exec.h"

/* The parts of a function that cannot be compiled whole, or NULL without an error: then there is nothing that can be compiled for such
 * arguments before the first op that needs a value. The head is compiled for them. */
anfi_partition *anfi_partition_new(anf_exec *e, size_t n, const anfi_arg *args);
void anfi_partition_warn(const anf_exec *e);              // W0908
void anfi_partition_free(anf_ctx *cx, anfi_partition *p); // p may be NULL
/* A new reference in *result, or false with an error. */
bool anfi_partition_run(const anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                        anf_value **result);
size_t anfi_partition_compilations(const anfi_partition *p); // of both parts
double anfi_partition_compile_ms(const anfi_partition *p);
const anf_type *anfi_partition_result(const anfi_partition *p); // of the last run, or NULL
void anfi_partition_explain(const anfi_partition *p, anf_text *out);

#endif
