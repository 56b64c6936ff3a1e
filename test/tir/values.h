// SPDX-License-Identifier: Apache-2.0
/* Do two modules compute the same? Every function of the first that both can be called alike is run
 * in the checked interpreter with the same random arguments. */
#ifndef ANF_TEST_TIR_VALUES_H
#define ANF_TEST_TIR_VALUES_H

#include <stdio.h>
#include "backend/tir/tir.h"

typedef struct values_opts {
  uint64_t seed;
  double tolerance; // relative to the greater of 1 and the value; 0: bit for bit, NaN equal to NaN
  bool plain;
} values_opts;
/* True if they agree; else `why` says how not. Functions that fail in `a` are skipped; `ran`
 * counts. */
bool same_values(const anf_tir_module *a, const anf_tir_module *b, const values_opts *o, char *why,
                 size_t len, unsigned *ran);
/* The text of a random, valid, exactly typed module; free it with free(). `bf16` brings in bf16. */
char *random_module(uint64_t seed, unsigned size, bool bf16);
uint64_t next_random(uint64_t *state);

#endif
