// SPDX-License-Identifier: Apache-2.0
/* A library that has the run time inside, and can be unloaded. */
#include "anfora/rt.h"

__attribute__((visibility("default"))) int use_stream(void);

int use_stream(void) { return anf_stream_of_thread() != NULL; }
