// SPDX-License-Identifier: Apache-2.0
/* Types, specialisation and optimisation of modules.
 *
 * Example:
 *   anf_module *m = NULL;
 *   const char *text = "def f(x: f32) { g = fn (y) { y + x }; g(1.0) * g(2.0) }";
 *   anf_status st = anf_parse(cx, text, "f.anf", d, &m);
 *   if (st == ANF_OK) st = anf_optimise(m, "standard", NULL, d);
 *   anf_module_free(m);
 */
#ifndef ANFORA_OPT_H
#define ANFORA_OPT_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_opt_opts {
  size_t size;
  bool fast;             // floats may be reassociated, x * 0 is 0
  bool verify_each;      // check the module after each pass
  uint64_t bisect_limit; // stop rewriting after so many rewrites; 0: no limit
  /* Called after each pass with its name, its time and the rewrites it made; may be NULL. */
  void (*after)(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites);
  void *user;
  uint64_t
      fold_bytes; // that results of more than 64 KiB which folding computes may take in all; 0: 1 GiB
  /* Hears why a pass left something as it was: "MatMul 3:5 stays one of floats: ..."; may be NULL. */
  void (*note)(void *user, anf_module *m, const char *pass, const char *text);
} anf_opt_opts;

/* Runs a pipeline: names of passes and pipelines separated by blanks; "( ... )*" repeats until
 * nothing changes. `anfora passes` lists the names. Nodes and graphs that passes remove are gone, and new nodes
 * may reuse their memory: after the call look up nodes and graphs of the module again. */
ANF_API anf_status anf_optimise(anf_module *m, const char *pipeline, const anf_opt_opts *o,
                                anf_diag *d);

/* Replaces the module by the function at a signature, with all that it needs, in first-order form.
 */
ANF_API anf_status anf_specialise(anf_module *m, anf_graph *g, size_t n,
                                  const anf_type *const *types, anf_diag *d, anf_graph **out);

/* The passes and pipelines: name and description of the i-th; NULL past the end. */
ANF_API const char *anf_pass_name(size_t i, const char **ANF_NULLABLE doc);
ANF_API const char *anf_pipeline_name(size_t i, const char **ANF_NULLABLE passes);
/* The rules: name, pattern, template (NULL: a hook), guards and file of the i-th. */
ANF_API const char *anf_rule_name(size_t i, const char **ANF_NULLABLE lhs,
                                  const char **ANF_NULLABLE rhs, const char **ANF_NULLABLE guards,
                                  const char **ANF_NULLABLE file);

#ifdef __cplusplus
}
#endif
#endif
