// SPDX-License-Identifier: Apache-2.0
/* Random well-typed programs, the base of all differential tests: closures, functions chosen when
 * the program runs, recursion with a decreasing argument, loops that rebind names, tuples, small
 * tensors. A seed and a size give the same text for ever on every machine. */
#ifndef TEST_GENERATE_H
#define TEST_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Writes `def main(a: i64, b: i64, x: f32, y: f32, c: bool, v: f32[3]) { ... }` and helpers into a
 * new string, which the caller frees. `size` is about the number of operations. */
char *generate_program(uint64_t seed, size_t size);

/* The same program, but it gives numbers alone, (f32, f32, f32[3]): the sums of all that the names at
 * its end stand for, so that derivatives go through all of it. */
char *generate_function(uint64_t seed, size_t size);

/* Splitmix64: the next number of a stream. */
uint64_t generate_next(uint64_t *state);

/* The options of such a test: --programs N --size N --seed N; --show SEED prints one program. */
typedef struct generate_opts {
  uint64_t seed;
  size_t programs, size;
  bool show;
} generate_opts;
static inline generate_opts generate_read_opts(int argc, char **argv, size_t programs,
                                               size_t size) {
  generate_opts o = {1, programs, size, false};
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    bool show = strcmp(argv[i], "--show") == 0;
    if (strcmp(argv[i], "--programs") == 0) o.programs = (size_t)v;
    else if (strcmp(argv[i], "--size") == 0) o.size = (size_t)v;
    else if (show || strcmp(argv[i], "--seed") == 0) o.seed = v;
    o.show |= show;
  }
  return o;
}

#endif
