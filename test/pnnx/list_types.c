// SPDX-License-Identifier: Apache-2.0
/* The types of operators that models may have, one a line: what the tests of layers must cover. */
#include <stdio.h>

#include "anfora/anfora.h"

int main(void) {
  for (size_t i = 0; anf_pnnx_type_name(i); i++) puts(anf_pnnx_type_name(i));
  return 0;
}
