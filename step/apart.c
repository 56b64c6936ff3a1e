// SPDX-License-Identifier: Apache-2.0
/* Bound memory of different leaves: what a run writes must not be what it reads or writes elsewhere.
 *
 *     state w at 0x1000, 64 bytes;  output y at 0x1020:    the run would write y over half of w
 *
 * Ranges are sorted by address, then each is compared with those before it that end last. Inputs may share memory. They are
 * compared before a run, and only if something was bound since, so that a host may exchange buffers one by one. */
#include "step/step.h"

#include <stdlib.h>

typedef struct {
  uintptr_t from, to;
  anf_role role;
  const anfi_step_leaf *leaf;
} range;

enum { RUNS = 1 << 16 }; // of a leaf; one with more counts as a whole

typedef ANFI_VEC(range) ranges;

/* The bytes from the lowest element to the highest. */
static range whole(anf_role r, const anfi_step_leaf *l) {
  int64_t low = 0, high = 0, size = (int64_t)anf_dtype_bytes((anf_dtype)l->type->dtype);
  if (!l->host) return (range){(uintptr_t)l->at, (uintptr_t)l->at + l->bytes, r, l};
  for (size_t i = 0; i < l->type->n; i++) {
    int64_t reach = (l->type->dims[i] - 1) * l->strides[i] * size;
    if (reach < 0) low += reach;
    else high += reach;
  }
  uintptr_t at = (uintptr_t)l->host;
  return (range){at + (uintptr_t)low, at + (uintptr_t)(high + size), r, l};
}

/* The dims outside of each run of elements that lie together, and the elements of a run. */
static size_t outer_dims(const anfi_step_leaf *l, int64_t *run) {
  size_t n = l->type->n;
  for (*run = 1; n && (l->type->dims[n - 1] == 1 || l->strides[n - 1] == *run); n--)
    *run *= l->type->dims[n - 1];
  return n;
}

/* One range for each run: columns of one matrix are apart. */
static void add(anfi_arena *a, ranges *to, anf_role r, const anfi_step_leaf *l) {
  int64_t run = 0, at[ANF_MAX_RANK] = {0},
          size = (int64_t)anf_dtype_bytes((anf_dtype)l->type->dtype);
  size_t outer = l->host ? outer_dims(l, &run) : 0;
  if (!outer || (int64_t)l->bytes / size / run > RUNS) {
    anfi_push(a, to, whole(r, l));
    return;
  }
  uintptr_t p = (uintptr_t)l->host;
  for (size_t i = outer; i;) {
    anfi_push(a, to, ((range){p, p + (uintptr_t)(run * size), r, l}));
    for (i = outer; i; i--) {
      p += (uintptr_t)(l->strides[i - 1] * size);
      if (++at[i - 1] < l->type->dims[i - 1]) break;
      p -= (uintptr_t)(l->strides[i - 1] * l->type->dims[i - 1] * size);
      at[i - 1] = 0;
    }
  }
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = ((const range *)a)->from, y = ((const range *)b)->from;
  return (x > y) - (x < y);
}

static bool meet(const anf_step *s, const range *a, const range *b) {
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E0564, anfi_step_role_name(a->role), a->leaf->name,
                   anfi_step_role_name(b->role), b->leaf->name);
}

/* Sorted: it is enough to know the range that ends last, of all and of those that are written. */
static bool all_apart(const anf_step *s, const range *r, size_t n) {
  const range *any = NULL, *written = NULL;
  for (size_t i = 0; i < n; i++) {
    bool writes = r[i].role != ANF_INPUT;
    const range *before = writes ? any : written;
    if (before && before->to > r[i].from) return meet(s, before, &r[i]);
    if (!any || r[i].to > any->to) any = &r[i];
    if (writes && (!written || r[i].to > written->to)) written = &r[i];
  }
  return true;
}

bool anfi_step_apart(anf_step *s) {
  ranges r = {0};
  anfi_arena *a = anfi_scratch(s->cx);
  if (s->apart) return true;
  for (int role = 0; role < 3; role++)
    for (size_t i = 0; i < s->nleaf[role]; i++)
      if (s->leaf[role][i].bytes) add(a, &r, (anf_role)role, &s->leaf[role][i]);
  if (r.n) qsort(r.at, r.n, sizeof *r.at, by_address);
  return s->apart = all_apart(s, r.at, r.n);
}
