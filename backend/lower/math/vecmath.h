// SPDX-License-Identifier: Apache-2.0
/* Between vecmath.c, vecmath_wide.c, vecmath64.c, vecmath_arc64.c and helper.c: mathematics as texts of small
 * functions, each table up to one without a name. */
#ifndef ANFI_LOWER_VECMATH_H
#define ANFI_LOWER_VECMATH_H

#include "backend/lower/low.h"

#define INLINE " @[inline_level=2, is_private, pure] "

// clang-format off
/* y = 2^j m, where m is in [sqrt(1/2), sqrt(2)) */
#define PARTS \
  "  var i: u64 = reinterpret<u64>(y) - 4604544271217802189u64 + 4607182418800017408u64\n" \
  "  var k: u64 = shr(i, 52u64)\n" \
  "  var j: f64 = reinterpret<f64>(int_or(k, 4841369599423283200u64)) - 4503599627371519.0f64\n" \
  "  var m: f64 = reinterpret<f64>(reinterpret<u64>(y) - shl(k, 52u64) + 4607182418800017408u64)\n"
// clang-format on

extern const anfi_helper anfi_low_math32[], anfi_low_math64[], anfi_low_math_wide[],
    anfi_low_math_arc64[];

#endif
