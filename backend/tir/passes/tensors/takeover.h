/* SPDX-License-Identifier: Apache-2.0
 * takeover: a tensor takes the buffer of another that dies where it is born. For tensor_inplace and row_inplace, which
 * know where that may be. */
#ifndef ANFI_TIR_TAKEOVER_H
#define ANFI_TIR_TAKEOVER_H
#include "backend/tir/tir.h"

/* Uses of a tensor by statements of the list that defines it; the definition is none. */
typedef struct tuse {
  tstmt list;
  uint32_t defined, first, last, views;
} tuse;

typedef struct takeovers {
  anfi_map uses; // tensor → tuse
  anfi_map into; // tensor → tensor whose buffer it takes
  tstmt list;    // whose uses are found, and the number of the statement
  uint32_t at;
} takeovers;

void anfi_t_takeovers_init(takeovers *t, anfi_arena *a);
/* Finds the uses of the tensors with buffers of their own that a list defines; false: there are none. */
bool anfi_t_takeovers_read(takeovers *t, anfi_arena *a, tstmt list);
tuse *anfi_t_use_of(takeovers *t, texpr tensor); // NULL: the list does not define its buffer
/* `out` takes the buffer of `in`, if `in` dies in statement `at`, `out` is born there, both are as large, and each has
 * that many views. */
bool anfi_t_take_over(takeovers *t, texpr in, texpr out, uint32_t at, uint32_t views);
/* The definition of a tensor as a view of the buffer that it takes; any other statement as it is. */
tstmt anfi_t_taken(takeovers *t, tvisitor *v, tstmt s);

#endif
