// SPDX-License-Identifier: Apache-2.0
/* Plans of products that are measured on this machine, with an engine that makes machine code for it. */
#ifndef ANFI_EXEC_TUNE_H
#define ANFI_EXEC_TUNE_H

#include "exec/exec.h"
#include "backend/jit/jit.h"
#include "backend/lower/gemm/plan.h"

typedef struct anfi_tuner {
  anf_ctx *cx;
  anf_jit_engine *engine;
  anfi_isa isa;
  anfi_mm_plans plans; // for anfi_lower_opts
} anfi_tuner;

/* False: nothing is measured, because the engine interprets, or, with a warning, because its code is for
 * another machine. */
bool anfi_tuner_open(anfi_tuner *t, anf_ctx *cx, anf_jit_engine *e);

#endif
