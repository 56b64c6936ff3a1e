// SPDX-License-Identifier: Apache-2.0
/* Ops over groups of elements: reductions, running sums, softmax, norms. A group is what shares all
 * but some axes of a tensor; ops go over it in passes, in row-major order, and keep states of it.
 *
 * When the innermost axis is in the group, a group is handled at a time and states are variables
 * (rows). Else neighbouring groups go side by side: states are arrays along the innermost axes, the
 * inner loop is over them (columns). Both take the elements of a group in the same order. */
#ifndef ANFI_LOWER_GROUP_H
#define ANFI_LOWER_GROUP_H

#include <math.h>

#include "backend/lower/low.h"

enum { GROUP_STATES = 8 };
typedef struct group {
  /* the op, and the sizes of groups */
  anfi_low *L;
  const anfi_low_op *q;
  const anfi_view *x;
  uint64_t size, count; // elements of a group; groups
  uint64_t whole;       // elements that a mean is of, if these are sums of slices; else 0
  /* the nest, by digit of x */
  uint32_t n; // digits of x, outermost first
  uint64_t extent[ANFI_PT_MAX];
  bool inside[ANFI_PT_MAX]; // belongs to the group
  texpr at[ANFI_PT_MAX];
  anfi_loop loop[ANFI_PT_MAX];
  /* groups side by side */
  uint32_t side; // digits from here on are side by side; n: none are
  uint64_t width;
  bool reverse;
  /* states of a group */
  uint32_t nstate;
  texpr state[GROUP_STATES];
  tdtype type[GROUP_STATES];
  tdtype real; // what reals are computed in
} group;

/* Loops over all groups are opened. False: x has no elements, and there are no loops. */
bool anfi_group_open(group *g, anfi_low *L, const anfi_low_op *q, const anfi_view *x,
                     uint32_t mask);
void anfi_group_close(group *g);
/* A new state that starts with this value. */
uint32_t anfi_group_state(group *g, tdtype type, texpr init, const char *name);
texpr anfi_group_get(const group *g, uint32_t state);
void anfi_group_set(const group *g, uint32_t state, texpr value);
/* A pass over the elements of the group: between these, anfi_group_x is the current element. */
void anfi_group_begin(group *g);
void anfi_group_end(group *g);
anfi_elem anfi_group_x(const group *g);
texpr anfi_group_real(const group *g);                    // the element as a real
texpr anfi_group_real_at(const group *g, texpr position); // another element of the group
texpr anfi_group_position(const group *g);                // number in the group
texpr anfi_group_linear(const group *g);                  // number in x
/* Once for each group: between these states are final. */
void anfi_group_begin_each(group *g);
void anfi_group_end_each(group *g);
texpr anfi_group_number(const group *g); // of the group

/* Is the element greater (less), or the first NaN? */
texpr anfi_group_beats(const group *g, texpr x, texpr best, bool greatest);
texpr anfi_group_least(anfi_low *L, anf_dtype d, bool greatest); // what everything beats or equals
/* Sum of the elements; their mean; sum of squared distances. */
uint32_t anfi_group_sum(group *g);
uint32_t anfi_group_sum_squares(group *g, uint32_t mean); // GROUP_STATES: around 0
uint32_t anfi_group_max(group *g);                        // of reals
texpr anfi_group_exp(const group *g, texpr x); // of a real: straight code for narrower floats
uint32_t anfi_group_top(group *g);             // the same where NaN need not be found
/* rows.c: the same by vectors, where anfi_rows_fit. Of the type of the elements for extremes; mean
 * NULL: 0. ROWS_TOP: the greatest, NaN left aside. */
typedef enum anfi_rows_op {
  ROWS_SUM,
  ROWS_SQUARES,
  ROWS_PRODUCT,
  ROWS_MAX,
  ROWS_MIN,
  ROWS_TOP
} anfi_rows_op;
bool anfi_rows_fit(const group *g);
bool anfi_rows_short(uint64_t n); // shorter than two of the longest vectors, not than the least
uint32_t anfi_rows_reduce(group *g, anfi_rows_op op, texpr mean, const char *name);
/* Are there rows of c64 in memory, whose elements are pairs of lanes? */
bool anfi_rows_pairs_fit(const group *g);
/* Sums in double of fours of f32, to a state, or of pairs of lanes to two. */
bool anfi_rows_fours_fit(const group *g);
void anfi_rows_sum_fours(group *g, uint32_t parts, const uint32_t *state);
/* Two states: the greatest or least of the group and, as s64, its first place; where arg_fit. */
bool anfi_rows_arg_fit(const group *g);
void anfi_rows_arg(group *g, bool greatest);
/* Before the loop over groups: rows too long for an array of their own are in memory. */
void anfi_rows_arg_before(anfi_low *L, const anfi_view *x, uint32_t mask);
/* The sum and the squares around the mean in one pass, for what asks next. */
void anfi_rows_moments(group *g);
/* A group is one row of f32: the array of exp(x - top), and the sum of an array like it. */
bool anfi_rows_one(const group *g);
texpr anfi_rows_exp(group *g, uint32_t top);
uint32_t anfi_rows_sum_positive(group *g, texpr array);
/* A state more: the sum of exp(x - top), if groups are rows of f64. */
bool anfi_rows_sum_exp(group *g, uint32_t top, uint32_t *sum);
/* The same with the array of exp(x - top), if a group is one row of f64 and not too long; else NULL. */
texpr anfi_rows_exp64(group *g, uint32_t top, uint32_t *sum);
anfi_view *anfi_group_whole(anfi_low *L, const anfi_low_op *q,
                            size_t i); // input i, to be read twice
/* The same with f16 and bf16 as f32, which are the same numbers. */
anfi_view *anfi_group_floats(anfi_low *L, const anfi_low_op *q, anfi_view *x);

#endif
