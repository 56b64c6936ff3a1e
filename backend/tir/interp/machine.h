// SPDX-License-Identifier: Apache-2.0
/* The interpreter's machine, inside: registers, frames, memory, and its instructions by what they
 * are about. An instruction that fails reports, sets `failed` and gives false. */
#ifndef ANFI_TIR_INTERP_MACHINE_H
#define ANFI_TIR_INTERP_MACHINE_H

#include "backend/tir/interp/interp.h"
#include "backend/tir/interp/mem.h"

typedef struct iframe {
  const icode *code;
  uint32_t pc, base, tensors; // what to go back to
  uint32_t dst;
} iframe;

typedef struct imachine {
  /* program and memory */
  anf_ctx *cx;
  iprog prog;
  imem mem;
  anfi_arena *a;
  /* registers and frames */
  uint64_t *r;  // all registers
  uint8_t *set; // has the variable a value?
  size_t nreg;
  ANFI_VEC(iframe) frame;
  ANFI_VEC(uint64_t) tensors; // blocks of local tensors, by scope
  uint64_t **global;          // registers of the tensors of the module
  uint64_t data;              // module data, after module_globals_resolver
  /* options, and where it is */
  const anf_tir_run_opts *o;
  const icode *code;
  uint32_t pc, base;
  uint64_t steps, max_steps;
  ANFI_VEC(uint64_t) leaf; // of the next print
  bool failed;
} imachine;

static inline uint64_t *anfi_im_regs(const imachine *m) { return m->r + m->base; }

/* interp.c: errors, at a node or else at the function; false */
/* Does the host want the run to go on? False: failed. */
bool anfi_im_go_on(imachine *m, const ins *i, int32_t what);
bool anfi_im_fail(imachine *m, const void *node, bool is_stmt, anfi_code code, const char *what);
bool anfi_im_mem_fail(imachine *m, const ins *i, imem_error e);

/* interp_access.c */
bool anfi_im_address(imachine *m, const ins *i);
bool anfi_im_access(imachine *m, const ins *i, bool store);
void anfi_im_dense(imachine *m, const ins *i);
bool anfi_im_tensor_bytes(const uint64_t *dims, texpr v, uint64_t *out); // false: too many
bool anfi_im_alloc(imachine *m, const ins *i);
/* A tensor's elements from a list of constants; one constant fills it. */
bool anfi_im_fill(imem *mem, uint64_t ptr, uint64_t elems, texpr list);
bool anfi_im_fill_local(imachine *m, const ins *i);
bool anfi_im_struct(imachine *m, const ins *i, texpr e, const uint32_t *arg);
bool anfi_im_gather(imachine *m, const ins *i, texpr e, const uint32_t *arg);

/* interp_lanes.c */
bool anfi_im_binary(imachine *m, const ins *i);
void anfi_im_lanewise(imachine *m, const ins *i);
bool anfi_im_intrinsic(imachine *m, const ins *i);

/* interp_gemm.c */
bool anfi_im_brgemm(imachine *m, const ins *i, texpr e, const uint32_t *arg);
bool anfi_im_kernel_call(imachine *m, const ins *i, const uint64_t *v, bool list);
bool anfi_im_kernel(imachine *m, const ins *i, const uint64_t *v, uint64_t *out);

/* interp_rt.c */
bool anfi_im_runtime(imachine *m, const ins *i, trt f, const uint32_t *arg);

#endif
