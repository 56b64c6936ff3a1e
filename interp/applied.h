// SPDX-License-Identifier: Apache-2.0
/* Functions as values of the host, applied. */
#ifndef ANFI_APPLIED_H
#define ANFI_APPLIED_H

#include "optimizer/opt.h"

/* An argument to make a program for: a type, a function value, or a value that is always the same. */
typedef struct anfi_given {
  const anf_type *type;
  anf_value *fn;
  anf_value *value; // which is part of the program, or NULL
  anf_value *fixed; // the same in every call: identified by address
} anfi_given;

/* May values of this type be part of a program: integers, bools, strings, types? */
bool anfi_may_fix_type(const anf_type *t);
/* And of an argument whose value decides types: also short lists of numbers. */
bool anfi_may_fix_needed(const anf_type *t);
/* The arguments whose values decide types, as bits; arguments from 64 on are left out. */
uint64_t anfi_needed_arguments(const anf_graph *g);

/* A module of its own, the frame's, with the graph (NULL: args[0], a function, is called) as it is
 * called with such arguments; the only public graph is the one to run. Its parameters are the
 * arguments, each function replaced by its captures and bound arguments, in order. `origins`, in the
 * arena: the originals of the copy's graphs. NULL with an error. */
anf_graph *anfi_applied(anf_ctx *cx, anf_graph *g, size_t n, const anfi_given *args, anfi_arena *a,
                        anfi_origins *origins);

#endif
