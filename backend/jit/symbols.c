// SPDX-License-Identifier: Apache-2.0
/* Symbols that compiled code may call: the run time, and the functions of the C library that code generators use.
 *   anfi_jit_builtin("tanh")   ->   tanh of libm          anfi_jit_builtin("system")   ->   NULL
 * No other symbol of the process is reachable. */
#include "backend/jit/jit.h"

#include <math.h>
#include <stdlib.h>

typedef struct builtin {
  const char *name;
  void (*fn)(void);
} builtin;

#define F(name)                                                                                    \
  { #name, (void (*)(void))(name) }
static const builtin builtins[] = { // sorted
    F(acos),
    F(acosh),
    F(anf_object_enter),
    F(anf_rt_alloc),
    F(anf_rt_brgemm_call),
    F(anf_rt_brgemm_kernel),
    F(anf_rt_brgemm_list_call),
    F(anf_rt_check),
    F(anf_rt_comm_rank),
    F(anf_rt_comm_start),
    F(anf_rt_comm_wait),
    F(anf_rt_complex),
    F(anf_rt_count),
    F(anf_rt_eigh),
    F(anf_rt_enter),
    F(anf_rt_f16_to_f32),
    F(anf_rt_f64_to_bf16),
    F(anf_rt_f64_to_f16),
    F(anf_rt_free),
    F(anf_rt_householder),
    F(anf_rt_keep),
    F(anf_rt_keep_mark),
    F(anf_rt_keep_more),
    F(anf_rt_keep_release),
    F(anf_rt_lu),
    F(anf_rt_mark),
    F(anf_rt_parallel),
    F(anf_rt_poll),
    F(anf_rt_polygamma),
    F(anf_rt_print),
    F(anf_rt_put),
    F(anf_rt_put_tensor),
    F(anf_rt_release),
    F(anf_rt_stop),
    F(anf_rt_svd),
    F(anf_rt_trace),
    F(anf_rt_trap),
    F(asin),
    F(asinh),
    F(atan),
    F(atan2),
    F(atanh),
    F(cbrt),
    F(ceil),
    F(ceilf),
    F(copysign),
    F(cos),
    F(cosh),
    F(erf),
    F(erfc),
    F(exp),
    F(exp2),
    F(expm1),
    F(floor),
    F(floorf),
    F(fma),
    F(fmaf),
    F(fmod),
    F(fmodf),
    F(hypot),
    F(lgamma),
    F(log),
    F(log10),
    F(log1p),
    F(log2),
    F(memcpy),
    F(memmove),
    F(memset),
    F(pow),
    F(rint),
    F(rintf),
    F(sin),
    F(sinh),
    F(sqrt),
    F(sqrtf),
    F(tan),
    F(tanh),
    F(trunc),
    F(truncf)};
#undef F

static int by_name(const void *key, const void *b) {
  return strcmp((const char *)key, ((const builtin *)b)->name);
}

void *anfi_jit_builtin(const char *name) {
  const builtin *b =
      (const builtin *)bsearch(name, builtins, ANFI_LEN(builtins), sizeof *b, by_name);
  void *p = NULL;
  if (b) memcpy(&p, &b->fn, sizeof p);
  return p;
}
