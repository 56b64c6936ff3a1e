// SPDX-License-Identifier: Apache-2.0
/* Where numbers went wrong.
 *
 * Example:
 *   anf_value *arg = anf_value_i64(cx, 20);
 *   anf_status st = anf_check_nan(anf_module_find(m, "fibonacci"), 1, &arg, d); // ANF_OK: of integers
 *   anf_value_release(arg);
 */
#ifndef ANFORA_DEBUG_H
#define ANFORA_DEBUG_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a graph in the interpreter, as anf_run does, and fails with E0442 at the operation that made the first NaN of numbers that
 * were none. ANF_OK: there is no such operation, though arguments may hold NaN. */
ANF_API anf_status anf_check_nan(anf_graph *g, size_t n, anf_value *const *args, anf_diag *d);

#ifdef __cplusplus
}
#endif
#endif
