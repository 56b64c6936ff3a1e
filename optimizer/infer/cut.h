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

/* What is of the tail: what has attributes of data; slices with bounds of data, too, whose sizes may be known as in x[i:i+2]; what
 * data choose, too, which may be of several sizes. */
typedef enum anfi_cut_at { ANFI_CUT_ATTRIBUTES, ANFI_CUT_SLICES, ANFI_CUT_CHOICES } anfi_cut_at;

/* The parts of g, in a module of their own, the frame's. False: no size depends on data, nothing comes before
 * the first that does and it is no slice's, the program has effects, or there is an error. */
bool anfi_cut_at_sizes(anf_graph *g, anfi_cut_at at, anfi_cut *out);

#endif
