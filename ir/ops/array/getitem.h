// SPDX-License-Identifier: Apache-2.0
/* x[...]: the subscript of GetItem, read from its attribute, and where the result's elements come
 * from. */
#ifndef ANFI_GETITEM_H
#define ANFI_GETITEM_H

#include "ir/ops/kernel.h"

typedef enum anfi_part_kind {
  ANFI_PART_INDEX,
  ANFI_PART_SLICE,
  ANFI_PART_NEW,
  ANFI_PART_DOTS
} anfi_part_kind;
typedef enum anfi_given { ANFI_ABSENT, ANFI_CONSTANT, ANFI_INPUT } anfi_given;

/* v[0] of an index; start, stop and step of a slice. */
typedef struct anfi_part {
  uint8_t kind;
  uint8_t given[3];
  int64_t v[3]; // the constant, or the number of the input
} anfi_part;

enum { ANFI_PARTS = 2 * ANF_MAX_RANK + 1 };
typedef struct anfi_subscript {
  size_t n;
  anfi_part part[ANFI_PARTS];
} anfi_subscript;

/* Is x.name of a tensor x a GetField? */
bool anfi_is_tensor_field(const char *name);

/* Reads a spec (frontend/anf/lower_index.c writes them). `nin` counts the inputs, x included. */
bool anfi_subscript_read(anf_ctx *cx, anfi_loc loc, const anf_value *spec, size_t nin,
                         anfi_subscript *s);

/* The last start of x[start : start + size], start of type d, in a dim of this length: its stop is inside the dim and
 * in the range of d. Negative if there is none. */
int64_t anfi_window_last(anf_dtype d, int64_t size, int64_t length);

/* May x[from:to] be taken of a dim of this length? One whose bounds are both computed must lie inside it. */
bool anfi_slice_allowed(const anfi_part *p, int64_t from, int64_t to, int64_t length);

/* How a tensor is indexed. Dims of the result: those of slices and new axes, in order; the
 * index tensors broadcast against each other, and their common dims are at the position of the first of
 * them, or in front of all if another part is between them (NumPy's rule). */
typedef struct anfi_layout {
  /* result */
  size_t rank;
  struct {
    int8_t from;  // axis of x that a slice keeps; -1: a new axis; -2-j: dim j of the indices
    uint8_t part; // of a slice; ANFI_PARTS: the whole axis
  } out[ANF_MAX_RANK];
  /* index tensors */
  size_t nindex, brank;
  struct {
    uint8_t axis, part;
  } index[ANF_MAX_RANK];
  int64_t bdims[ANF_MAX_RANK];
} anfi_layout;

/* `types` are those of all inputs. False with an error recorded; fails for masks. */
bool anfi_layout_of(const anfi_infer *q, const anfi_subscript *s, anfi_layout *l);

#endif
