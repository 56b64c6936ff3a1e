// SPDX-License-Identifier: Apache-2.0
/* A row of windows by vectors: results that stand one after the other, each of the same taps, `stride`
 * elements further on than those before it. What a tap finds outside of the row it does not take.
 *
 * A row is parts of so many lanes; the last part begins early enough to end with the row, so some
 * results are computed twice and none is alone. Lanes that are outside are known when code is made, as are
 * those after the last result of a row that is shorter than a part, which are not stored. */
#ifndef ANFI_LOWER_SLIDE_H
#define ANFI_LOWER_SLIDE_H

#include "backend/lower/low.h"

typedef struct anfi_slide {
  int64_t n, in;                     // results of the row; elements of the input's
  int64_t first, stride, taps, step; // tap t of result i reads first + i * stride + t * step
  int64_t lanes;                     // of a part, also more than n; 0: as many as fit n best
} anfi_slide;

typedef struct anfi_slide_part {
  anfi_low *L;
  const anfi_slide *s;
  uint16_t lanes;
  texpr at;         // its first result
  int64_t repeated; // so many of its first results are those of another part, too
} anfi_slide_part;

typedef void (*anfi_slide_each)(void *user, const anfi_slide_part *p);

/* Is it worth it, and little code? */
bool anfi_slide_fits(const anfi_slide *s, anf_dtype d);
uint16_t anfi_slide_lanes(const anfi_slide *s); // of each part
void anfi_slide_row(anfi_low *L, const anfi_slide *s, anfi_slide_each each, void *user);
/* The element that tap t of each lane reads in the row that starts at element `row` of the tensor, 0 if that is
 * outside; `*inside`: the lanes where it is not, or NULL: all. */
texpr anfi_slide_load(const anfi_slide_part *p, texpr tensor, texpr row, int64_t t, texpr *inside);
texpr anfi_slide_all(const anfi_slide_part *p, texpr x); // in each lane
/* to[row + result] = value, for each lane. */
void anfi_slide_put(const anfi_slide_part *p, texpr to, texpr row, texpr value);

#endif
