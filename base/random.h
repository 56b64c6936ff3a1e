// SPDX-License-Identifier: Apache-2.0
/* Counter-based random numbers: pure functions of a key and an index, the same in the interpreter,
 * in compiled code and on any number of threads. docs/random.md defines them bit for bit. */
#ifndef ANFI_RANDOM_H
#define ANFI_RANDOM_H

#include <stdint.h>

/* Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). */
void anfi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* What the fourth counter word separates. */
enum { ANFI_RANDOM_BITS = 0, ANFI_RANDOM_SPLIT = 1, ANFI_RANDOM_FOLD = 2 };

/* A key derived from another one by a number. */
uint64_t anfi_random_derive(uint64_t key, uint32_t purpose, uint64_t number);
/* Words of the stream of a key. */
uint32_t anfi_random_u32(uint64_t key, uint64_t i);
uint64_t anfi_random_u64(uint64_t key, uint64_t i);
/* floor(a * b / 2^64) */
uint64_t anfi_mul_high(uint64_t a, uint64_t b);

/* Natural logarithm of a positive normal number, by additions, multiplications and one division. */
double anfi_random_log(double x);
/* The x for which a normal variable is below x with probability p, 0 < p < 1 (AS 241, PPND16). */
double anfi_random_normal(double p);

#endif
