// SPDX-License-Identifier: Apache-2.0
/* Functions without a body, called as C functions of the host: f(x: f64): f64   ->   ((double (*)(double))address)(x).
 * Such a function receives pointers into real memory, unchecked. */
#include "backend/tir/interp/interp.h"
#include "backend/tir/interp/mem.h"
#include "ir/ir.h"

static int c_type(tdtype d) {
  if (d.ptr) return ANFI_C_POINTER;
  if (d.elem == ANF_TIR_void) return ANFI_C_VOID;
  return anfi_t_is_half(d) ? ANF_U16 : (int)anfi_t_value_dtype(d);
}

static uint64_t low_bytes(uint64_t v, size_t n) {
  return n < 8 ? v & ((UINT64_C(1) << 8 * n) - 1) : v;
}

bool anfi_t_call_outside(imem *mem, tfunc f, void (*fn)(void), uint64_t *in, uint64_t *result) {
  enum { MOST = ANFI_C_MOST };
  int type[MOST];
  void *at[MOST];
  uint64_t room[MOST + 32];
  anfi_c_signature *s = (anfi_c_signature *)(void *)room;
  if (f->n > MOST || anfi_c_signature_bytes(f->n) > sizeof room || anfi_t_total(f->ret) != 1)
    return false;
  for (uint32_t i = 0; i < f->n; i++) {
    tdtype d = f->param[i]->dtype;
    type[i] = c_type(d);
    if (!d.ptr && anfi_t_total(d) != 1) return false;
    if (d.ptr) in[i] = anfi_key(anfi_t_mem_host(mem, in[i], 0));
  }
  if (!anfi_c_prepare(s, c_type(f->ret), f->n, type)) return false;
  anfi_c_call(s, fn, in, at, result);
  *result = low_bytes(*result, anfi_t_is_void(f->ret) ? 0 : anfi_t_bytes(f->ret));
  return true;
}
