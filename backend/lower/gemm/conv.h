// SPDX-License-Identifier: Apache-2.0
/* A convolution while it is lowered to kernels: shared by conv_gemm.c (which), conv_copy.c (copies and packed weights),
 * conv_forward.c and conv_gradients.c. */
#ifndef ANFI_LOWER_CONV_H
#define ANFI_LOWER_CONV_H

#include "backend/lower/low.h"
#include "backend/lower/gemm/plan.h"
#include "ir/ops/nn/window.h"

/* Along each dim position o * stride + t * dilation belongs to phase (t * dilation) % stride, where it is number
 * o + (t * dilation) / stride: so a copy of the input by phases, with its padding, has the rows of every tap dense. */
typedef struct walk {
  /* the op */
  anfi_low *L;
  const anfi_conv *c;
  const anfi_conv_work *q;
  anf_tir_elem elem;
  /* sizes */
  uint64_t taps, in, out;       // elements of the window, of planes
  uint64_t reach[3], extent[3]; // greatest number that taps add; size of the copy by phases
  uint64_t phases, plane;       // of the copy: how many phases, elements of one channel of one
  uint64_t step; // of a block of K: input channels, or rows of a copy that is spread along all dims
  /* ways */
  size_t spread; // of so many last dims the copy has a phase for each tap: conv_copy.c
  bool in_place; // the input is read where it is: its planes by the only tap, or rows by ranges
  bool ranged;  // taps are added by the results along the last dim that read the input through them
  bool flipped; // weights are read transposed, their taps from the last on
  bool unpacked;  // weights of one tap are read as they lie
  bool exchanged; // sums are transposed: weights are the right factor,
  uint64_t panel; // in panels of so many output channels
  /* memory */
  texpr copy, weights, copy0, weights0; // the last two: where the image and the group start
} walk;

static inline texpr ix(const walk *w, uint64_t v) { return anfi_ix(w->L, v); }
static inline texpr add(const walk *w, texpr a, texpr b) { return anfi_ix_add(w->L, a, b); }
static inline texpr mulc(const walk *w, texpr a, uint64_t c) { return anfi_ix_mulc(w->L, a, c); }
static inline texpr at(const walk *w, texpr tensor, texpr i) {
  i = anfi_low_atom(w->L, i);
  return anfi_t_addr(w->L->t, tensor, 1, &i);
}
static inline texpr load(const walk *w, texpr tensor, texpr i) {
  return anfi_low_load(w->L, tensor, anfi_low_atom(w->L, i));
}
static inline void store(const walk *w, texpr tensor, texpr i, texpr x) {
  anfi_low_put(w->L, tensor, anfi_low_atom(w->L, i), (anfi_elem){x, NULL}, false);
}
static inline uint64_t u(int64_t v) { return (uint64_t)v; }
static inline int64_t up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
static inline bool anfi_cv_spread(const walk *w, size_t d) { return d + w->spread >= 3; }
static inline void kernel_dims(const walk *w, uint64_t *e) {
  for (size_t d = 0; d < 3; d++) e[d] = u(w->c->win.kernel[d]);
}

/* Sums are padded to whole vectors of the narrowest machine: a store of a part of a vector is slow. */
enum { ANFI_CV_LANES = 8 };
static inline uint64_t anfi_cv_lanes(uint64_t n) {
  return anfi_mm_up(n, ANFI_CV_LANES) * ANFI_CV_LANES;
}

enum { ANFI_CV_PANEL = 16 };

/* ---- conv_gemm.c ---- */
typedef struct nest { // loops over several dims
  anfi_loop l[6];
  texpr at[6];
  size_t n;
} nest;
void anfi_cv_open(const walk *w, nest *k, size_t n, const uint64_t *extent, bool parallel);
void anfi_cv_close(const walk *w, nest *k);
/* ((a * e1 + b) * e2 + c) ... */
texpr anfi_cv_mixed(const walk *w, size_t n, const texpr *digit, const uint64_t *extent);
void anfi_cv_fill(const walk *w, texpr to, uint64_t n); // with zeros
/* Is there work enough for threads? */
bool anfi_cv_parallel(const walk *w);
/* Of planes that are `to` and of taps that reach so far: phases, reach, extent and plane. */
void anfi_cv_sizes(walk *w);

/* Are images one element a channel, and one group? */
bool anfi_cv_of_pixels(const walk *w);

/* The image and group that results are of: where its planes start in x and in y. */
typedef struct place {
  texpr image, x, y, ci0, co0;
} place;
/* for groups, whose weights `of` packs; for images */
place anfi_cv_open_images(walk *w, walk *of, nest *g, nest *n);
place anfi_cv_place(const walk *w, texpr image, texpr group);

/* Lists of addresses. */
texpr anfi_cv_list(const walk *w, uint64_t n);
void anfi_cv_put_list(const walk *w, texpr list, texpr i, texpr address);
texpr anfi_cv_first(const walk *w, texpr list);
/* size: num, m, n, k, lda, ldb, ldc, stride a, stride b; len NULL: no lists */
void anfi_cv_product(const walk *w, texpr a, texpr b, texpr c, const uint64_t *size, texpr len,
                     bool init, bool ta);
/* What is added between these runs if lo <= at < hi; at once if all of `size` numbers lie there. */
void anfi_cv_if_inside(const walk *w, uint64_t size, uint64_t lo, uint64_t hi);
void anfi_cv_end_if_inside(const walk *w, texpr at, uint64_t size, uint64_t lo, uint64_t hi);

/* ---- conv_copy.c ---- */
/* Before the loop over groups: constant weights are packed once. In it: those of this group. */
void anfi_cv_begin_weights(walk *w);
void anfi_cv_group_weights(walk *w, texpr group);
/* Where the weights of a block of K start, from input channel `first` on, of `wide` channels; elements from one output
 * channel to the next (if they are exchanged, from one step of K to the next), and from tap to tap. */
typedef struct weights_at {
  texpr start;
  uint64_t row, tap;
} weights_at;
weights_at anfi_cv_weights(const walk *w, texpr first, uint64_t wide, texpr channel);
/* Some images of x by phases: [images][phases][extent][channels]. */
void anfi_cv_copy_images(walk *w, texpr from, uint64_t images);
/* Of `w`, with a copy of what `n` rows of results from o on read: so much of a channel's plane, next to the next
 * channel's. Where whole planes are copied, a column of a tap is a page of memory for each channel. */
walk anfi_cv_copy_rows(const walk *w, const texpr *o, uint64_t n, texpr from);
/* Of a tap along each dim, as indices: its phase, and what it adds. */
void anfi_cv_split_tap(const walk *w, const texpr *tap, texpr *phase, texpr *more);

/* ---- conv_forward.c, conv_gradients.c ---- */
void anfi_cv_forward(walk *w);
bool anfi_cv_of_patches(const walk *w); // do the windows lie side by side?
void anfi_cv_by_input(walk *w);
void anfi_cv_by_weights(walk *w);

#endif
