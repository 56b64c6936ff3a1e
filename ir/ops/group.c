// SPDX-License-Identifier: Apache-2.0
/* A tensor seen as groups: the elements that differ only along chosen axes belong together. Kernels
 * that work along axes (norms, softmax, sort) walk groups, wherever the axes stand. */
#include "ir/ops/op.h"

static size_t product(const anf_type *t, uint32_t mask, bool in_mask) {
  size_t n = 1;
  for (uint32_t k = 0; k < t->n; k++)
    if ((mask >> k & 1) == in_mask) n *= (size_t)t->dims[k];
  return n;
}

/* Offsets of all indices along the axes chosen, in row-major order. */
static size_t *offsets(anfi_arena *a, const anf_type *t, uint32_t mask, bool in_mask, size_t n) {
  size_t *at = ANFI_NEW_N(a, size_t, n + 1), repeat = n, step = 1;
  for (uint32_t k = 0; k < t->n; k++) step *= (size_t)t->dims[k];
  for (uint32_t k = 0; k < t->n && n; k++) {
    size_t d = (size_t)t->dims[k];
    if (!d) return at;
    step /= d;
    if ((mask >> k & 1) != in_mask) continue;
    repeat /= d;
    for (size_t i = 0; i < n; i++) at[i] += i / repeat % d * step;
  }
  return at;
}

anfi_groups anfi_groups_of(anfi_arena *a, const anf_type *t, uint32_t mask) {
  anfi_groups g = {.count = product(t, mask, false), .size = product(t, mask, true)};
  if (g.count && g.size) {
    g.base = offsets(a, t, mask, false, g.count);
    g.at = offsets(a, t, mask, true, g.size);
  } else {
    g.base = g.at = ANFI_NEW_N(a, size_t, g.count + 1);
  }
  return g;
}

uint32_t anfi_axes_mask(const anf_value *axes, size_t rank) {
  int64_t at[ANF_MAX_RANK];
  size_t n = anfi_attr_ints(axes, ANF_MAX_RANK, at), axis = 0;
  uint32_t mask = 0;
  for (size_t i = 0; i < n; i++)
    if (anfi_axis_in(at[i], rank, &axis)) mask |= UINT32_C(1) << axis;
  return mask;
}
