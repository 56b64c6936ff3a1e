// SPDX-License-Identifier: Apache-2.0
/* Functions cut where sizes depend on data. */
#ifndef ANFI_CUT_H
#define ANFI_CUT_H

#include "optimizer/opt.h"

typedef struct anfi_cut {
  anf_graph *head;     // takes the parameters of the function, gives a tuple
  anf_graph *tail;     // takes them and then what the head gives
  size_t nmid;         // values that the head gives
  size_t nhead, ntail; // ops of each
  anfi_loc why;        // of the first op of the tail
} anfi_cut;

/* The parts of g, in a module of their own, the frame's. `choices`: what is chosen by data may be of several sizes, and is of the
 * tail. False: nothing comes before the first such size, the program has effects, or there is an error. */
bool anfi_cut_at_sizes(anf_graph *g, bool choices, anfi_cut *out);

#endif
