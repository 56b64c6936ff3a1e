// SPDX-License-Identifier: Apache-2.0
/* Sizes of symbolic dims that an object is built for. Code is made for known sizes, so an object has a function for each
 * combination of sizes, and one in front that takes the sizes as arguments and chooses:
 *
 *   f(x: f32[B, 8]), "B=any"   →   f(B, x) { f_64 of 64 rows after the other, then f_8 of 8, then f_1 } (rows.h)
 *   f(x: f32[B, 8]), "B=1,8"   →   f_1(x), f_8(x), f(B, x) { if (B == 1) f_1(x) else if (B == 8) f_8(x) else stop } */
#ifndef ANFI_SIZES_H
#define ANFI_SIZES_H

#include "exec/exec.h"

enum { ANFI_SIZES_MOST = 64 }; // combinations of one object

typedef struct anfi_size_set {
  size_t ndim;
  int64_t *dim; // symbols, in the order of the parameters' types
  const char **name;
  size_t n;    // combinations; 1 if no type has a symbol
  int64_t *at; // n rows of ndim sizes
  bool
      any; // the one dim has any size: rows are pieces, from 1 on, and each is some of the one before
} anfi_size_set;

/* The combinations that `text` ("B=1,8-10 T=16", or NULL) says for these types. False with a finding. */
bool anfi_sizes_read(anf_ctx *cx, anfi_arena *a, const char *text, size_t n,
                     const anf_type *const *types, anfi_size_set *out);
/* The type with the sizes of a row. */
const anf_type *anfi_sizes_type(anf_ctx *cx, const anfi_size_set *s, size_t row, const anf_type *t);
/* The row with names: "B = 1, T = 8" */
const char *anfi_sizes_words(anfi_arena *a, const anfi_size_set *s, size_t row);
/* "B = 1, 8 and T = 16", or how many they are */
const char *anfi_sizes_list(anfi_arena *a, const anfi_size_set *s);

/* One program of those that were lowered for the rows, row by row, with the function `name` in front: sites one list,
 * types with symbols where rows differ (-1: a dim that is no symbol), parameters without the sizes. `loc` is that of the
 * function. False with a finding. */
bool anfi_sizes_join(anf_ctx *cx, anfi_arena *a, const anfi_size_set *s,
                     const anfi_lowered *const *rows, const char *name, anfi_loc loc,
                     anfi_lowered *out);

#endif
