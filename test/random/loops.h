// SPDX-License-Identifier: Apache-2.0
/* Random programs that go through arrays number by number: loops, nests and recursions that read by index, fill arrays and
 * lists, choose, and call functions and closures. Each takes a time linear in the length of its argument. */
#ifndef TEST_LOOPS_H
#define TEST_LOOPS_H

#include <stddef.h>
#include <stdint.h>

/* `(x: f64[N]) { .. }`, which gives one number, in a new string that the caller frees. A seed and a size (about so many
 * statements) give the same text for ever. */
char *generate_loops(uint64_t seed, size_t size);

#endif
