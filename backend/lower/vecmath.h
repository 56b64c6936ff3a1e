// SPDX-License-Identifier: Apache-2.0
/* Between vecmath.c, vecmath_wide.c, vecmath64.c and helper.c: mathematics as texts of small functions, each table
 * up to one without a name. */
#ifndef ANFI_LOWER_VECMATH_H
#define ANFI_LOWER_VECMATH_H

#include "backend/lower/low.h"

#define INLINE " @[inline_level=2, is_private, pure] "

extern const anfi_helper anfi_low_math32[], anfi_low_math64[], anfi_low_math_wide[];

#endif
