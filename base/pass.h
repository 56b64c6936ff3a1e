// SPDX-License-Identifier: Apache-2.0
/* The pass manager: pipelines are text over rows. The graph optimizer and Tensor IR both run on it.
 *
 *   passes:    simplify (needs typed), cse, dce           one row each
 *   pipeline:  clean = "(simplify cse)* dce"              ( )* repeats until nothing changes
 *   run:       simplify cse simplify cse dce
 *
 * A pipeline may name other pipelines. Before a pass the manager checks the properties that the pass
 * needs; after it, it records what the pass made true or no longer true, calls the verifier, and
 * reports time and rewrites. A pass does none of that itself. */
#ifndef ANFI_PASS_H
#define ANFI_PASS_H

#include "base/base.h"

/* One row of a pass.def. Properties are bits; the level that owns the rows says what they mean. */
typedef struct anfi_pass_info {
  const char *name, *doc;
  uint32_t need;       // must hold before
  uint32_t make, kill; // hold after; no longer hold if the pass changed anything
  uint32_t idle;       // the pass has nothing to do where one of these holds
  bool once;           // finds nothing more right after itself
  bool ends;           // each rewrite leaves it less to do: a group goes on as long as it has any
} anfi_pass_info;

typedef struct anfi_pipeline_info {
  const char *name, *text;
} anfi_pipeline_info;

/* The passes of one level of the compiler. */
typedef struct anfi_pass_set {
  const anfi_pass_info *pass;
  size_t npass;
  const anfi_pipeline_info *pipeline;
  size_t npipeline;
  const char *const *property; // by bit: "a module with ..."
} anfi_pass_set;

typedef struct anfi_pass_run {
  anf_ctx *cx;
  const anfi_pass_set *set;
  void *user;
  uint32_t have;     // properties that hold now
  uint64_t rewrites; // so far; `run` counts them
  uint64_t ending;   // those of passes that end
  bool verify_each;
  /* Hooks, by number of the pass. False: failed, with an error recorded. */
  bool (*run)(struct anfi_pass_run *r, size_t pass);
  bool (*verify)(struct anfi_pass_run *r, size_t pass);
  void (*after)(struct anfi_pass_run *r, size_t pass, uint64_t ns, uint64_t rewrites);
  uint64_t *unchanged; // by pass: 1 + `rewrites` when it last found nothing to do
} anfi_pass_run;

/* Runs a pipeline. An unknown name, an unbalanced group or a missing property is an error. */
bool anfi_run_pipeline(anfi_pass_run *r, const char *text);
/* Did this pass find nothing to do in the module as it is now? */
bool anfi_pass_is_settled(const anfi_pass_run *r, size_t pass);

#endif
