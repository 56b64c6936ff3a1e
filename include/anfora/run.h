// SPDX-License-Identifier: Apache-2.0
/* Running graphs in the reference interpreter: plain, checked, the oracle for everything compiled.
 *
 * Example:
 *   anf_value *arg = anf_value_i64(cx, 20), *result = NULL;
 *   anf_status st = anf_run(anf_module_find(m, "fibonacci"), 1, &arg, NULL, d, &result);
 *   anf_value_release(arg);
 *   anf_value_release(result);
 */
#ifndef ANFORA_RUN_H
#define ANFORA_RUN_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_run_opts {
  size_t size;
  uint64_t
      max_steps; // operations before ANF_LIMIT (of compiled code: turns of loops, calls that may
                 // recur); default none
  uint64_t
      max_depth; // calls under way at once before ANF_LIMIT; default 10^7, of compiled code: as
                 // many as its stack holds
  void (*print)(void *user, const char *text, size_t len); // where Print goes; default: nowhere
  void *print_user;
  uint64_t max_ms; // time before ANF_LIMIT; default none
} anf_run_opts;

/* Calls a graph that captures nothing. Arguments are borrowed and converted to the parameters'
 * declared types where that loses nothing. `*result` is a new reference. `o` and `d` may be NULL.
 */
ANF_API anf_status anf_run(anf_graph *g, size_t n, anf_value *const *args, const anf_run_opts *o,
                           anf_diag *d, anf_value **result);
/* Calls a function value, such as a closure that a program returned. */
ANF_API anf_status anf_run_value(anf_ctx *cx, anf_value *f, size_t n, anf_value *const *args,
                                 const anf_run_opts *o, anf_diag *d, anf_value **result);

#ifdef __cplusplus
}
#endif
#endif
