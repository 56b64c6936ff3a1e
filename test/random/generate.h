// SPDX-License-Identifier: Apache-2.0
/* Random well-typed programs, the base of all differential tests: closures, functions chosen when
 * the program runs, recursion with a decreasing argument, loops that rebind names, tuples, small
 * tensors. A seed and a size give the same text for ever on every machine. */
#ifndef TEST_GENERATE_H
#define TEST_GENERATE_H

#include <stddef.h>
#include <stdint.h>

/* Writes `def main(a: i64, b: i64, x: f32, y: f32, c: bool, v: f32[3]) { ... }` and helpers into a
 * new string, which the caller frees. `size` is about the number of operations. */
char *generate_program(uint64_t seed, size_t size);

/* The same program, but it gives numbers alone, (f32, f32, f32[3]): the sums of all that the names at
 * its end stand for, so that derivatives go through all of it. */
char *generate_function(uint64_t seed, size_t size);

/* Splitmix64: the next number of a stream. */
uint64_t generate_next(uint64_t *state);

#endif
