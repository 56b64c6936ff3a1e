// SPDX-License-Identifier: Apache-2.0
/* A function compiled ahead of time: `anfora build examples/fibonacci.anf:fibonacci` writes fibonacci.o and
 * fibonacci.h, and this links with libanfora_rt alone.
 * builds: examples/fibonacci.anf:fibonacci
 * prints: 832040 */
#include <stdio.h>

#include "fibonacci.h"

int main(void) {
  printf("%lld\n", (long long)fibonacci(30));
  return anf_stream_trap(anf_stream_of_thread())->kind != ANF_TRAP_NONE;
}
