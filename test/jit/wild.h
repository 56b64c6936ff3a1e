// SPDX-License-Identifier: Apache-2.0
/* Programs and values that try every corner of the code generators. */
#ifndef ANF_TEST_JIT_WILD_H
#define ANF_TEST_JIT_WILD_H

#include "anfora/jit.h"
#include "backend/tir/tir.h"

enum { WILD_PARAMS = 16 };
/* A module with a function for each operation on each type; free it with free(). */
char *wild_operations(void);
/* The functions of `n` random modules from seed `first` on, in one. */
char *wild_random(uint64_t first, unsigned n);
/* A value; with `edges` also the greatest, the least, infinities, NaN, subnormals. */
uint64_t wild_lane(tdtype d, uint64_t *seed, bool edges);

#endif
