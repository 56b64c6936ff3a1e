// SPDX-License-Identifier: Apache-2.0
/* A network for batches of several sizes, ahead of time: the size is an argument. A batch of any other size is run in pieces
 * that have code, the largest first.
 * builds: examples/mlp.anf:forward --sizes B=1,4
 * prints: rows 0 and 6: 2 1, 7 7 */
#include <stdio.h>

#include "forward.h"

/* forward_sizes[i][0] are the sizes in the order of the command. */
static anf_status any_batch(int64_t rows, const float *x, float *out) {
  anf_status st = ANF_OK;
  for (int i = forward_SIZES - 1; i >= 0; i--)
    for (int64_t b = forward_sizes[i][0]; rows >= b && st == ANF_OK; rows -= b) {
      st = forward_on(NULL, b, x, out);
      x += 2 * b, out += 2 * b;
    }
  return st;
}

int main(void) {
  float x[7 * 2] = {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -3, 4}, out[7 * 2] = {0};
  if (any_batch(7, x, out) != ANF_OK) {
    puts(anf_stream_trap(anf_stream_of_thread())->text);
    return 1;
  }
  printf("rows 0 and 6: %g %g, %g %g\n", (double)out[0], (double)out[1], (double)out[12],
         (double)out[13]);
  return 0;
}
