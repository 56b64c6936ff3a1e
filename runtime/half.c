// SPDX-License-Identifier: Apache-2.0
/* Conversions of small floats, for code of targets that lack them.
 *   anf_rt_f64_to_bf16(1.0)   ->   0x3f80 */
#include "base/base.h"
#include "runtime/rt.h"

uint16_t anf_rt_f64_to_f16(double x) { return anfi_f64_to_f16(x); }
uint16_t anf_rt_f64_to_bf16(double x) { return anfi_f64_to_bf16(x); }
float anf_rt_f16_to_f32(uint16_t x) { return anfi_f16_to_f32(x); }
